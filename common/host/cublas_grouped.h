// cuBLAS's own grouped product of bf16. The only translation unit that includes cublas_v2.h is
// cublas_grouped.cpp, and it loads the library with dlopen on first use, as cublas_lt.h does its.
#pragma once

#include <memory>
#include <vector>

#include "common/host/gemm.h"

namespace ladder {

// Of one list of products; launching is then asynchronous and capturable.
class CublasGrouped {
 public:
  // Throws CudaError if the library cannot be loaded, or is too old to have it.
  explicit CublasGrouped(const std::vector<GemmArgs>& products);
  ~CublasGrouped();

  void run(cudaStream_t stream);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ladder
