// cuBLASLt, the opponent and one of the two references. The only translation unit that includes
// cublasLt.h is cublas_lt.cpp, and it loads the library with dlopen on first use: linked, it would
// map 540 MB into every program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/host/gemm.h"

namespace ladder {

// Plans D = A·B^T for one shape; launching is then asynchronous and capturable.
class CublasLt {
 public:
  CublasLt();  // throws CudaError with the path tried if the library cannot be loaded
  ~CublasLt();
  static std::string version();  // "13.1.0"

  // The heuristics' candidates for args' shape and leading dimensions, best guess first, at most
  // `count` (24), each with up to 64 MiB of workspace (allocated here, shared by all).
  struct Algorithm;
  std::vector<std::shared_ptr<Algorithm>> candidates(const GemmArgs& args, int count = 24);
  static std::string describe(const Algorithm&);  // "#3 tile 128x256 stages 4 cluster 2x1 ..."

  void run(const Algorithm&, const GemmArgs& args);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ladder
