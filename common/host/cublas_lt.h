// cuBLASLt, the opponent and one of the two references. The only translation unit that includes
// cublasLt.h is cublas_lt.cpp, and it loads the library with dlopen on first use: linked, it would
// map 540 MB into every program.
#pragma once

#include <cuda_runtime_api.h>
#include <library_types.h>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "common/host/element.h"
#include "common/host/gemm.h"

namespace ladder {

// What multiplies operands of 8 bits beside themselves: nothing, one fp32 for each of them, or one for
// every 1 x 128 of A, [ceil(k/128)][m], and every 128 x 128 of B, [ceil(n/128)][ceil(k/128) rounded up to
// a multiple of 4].
enum class LibraryScales { none, tensor, blocks };

// What it does to the sums, beside adding the bias if there is one. Its gelu is the one with tanh.
enum class LibraryActivation { none, relu, gelu };

// D[m,n] = A[m,k] · B[n,k]^T in fp32, or s8 in s32, as cuBLASLt is told of it: all three row-major unless
// said otherwise, in device memory; leading dimensions in elements.
struct LibraryCall {
  int m, n, k;
  cudaDataType type_in, type_out;
  const void* a;
  long long lda;
  const void* b;
  long long ldb;
  void* d;
  long long ldd;
  cudaStream_t stream;
  bool mn_major_a, mn_major_b;  // A is [k][lda], B is [k][ldb]
  bool tf32;                    // multiplies fp32 operands as tf32
  LibraryScales scales = LibraryScales::none;
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
  float alpha = 1, beta = 0;
  const void* c = nullptr;  // of D's type; null: beta is 0
  long long ldc = 0;
  LibraryActivation activation = LibraryActivation::none;
  const void* bias = nullptr;  // [n], of D's type
};

template <class In, class Out>
LibraryCall library_call(const MatmulArgs<In, Out>& args) {
  return {args.m,
          args.n,
          args.k,
          Element<In>::CUDA_TYPE,
          Element<Out>::CUDA_TYPE,
          args.a,
          args.lda,
          args.b,
          args.ldb,
          args.d,
          args.ldd,
          args.stream,
          args.mn_major_a,
          args.mn_major_b,
          std::is_same_v<In, tf32>};
}

// The name of a cublasLtMatmulTile_t: "176x128" for 201. By the rules that cublasLt.h lists them by, so
// that it need not have them all; "id631" for the few behind these, and for what is newer.
std::string cublas_tile_name(uint32_t id);

// Plans one shape; launching is then asynchronous and capturable.
class CublasLt {
 public:
  CublasLt();  // throws CudaError with the path tried if the library cannot be loaded
  ~CublasLt();
  static std::string version();  // "13.1.0"

  // The heuristics' candidates for the call's shape and leading dimensions, best guess first, at most
  // `count` (24), each with up to 64 MiB of workspace (allocated here, shared by all). None if it says
  // that it does not support such a call.
  struct Algorithm;
  std::vector<std::shared_ptr<Algorithm>> candidates(const LibraryCall& call, int count = 24);
  static std::string describe(const Algorithm&);  // "#3 tile 128x256 stages 4 cluster 2x1 ..."

  void run(const Algorithm&, const LibraryCall& call);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ladder
