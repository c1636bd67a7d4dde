// One GEMM call as every rung sees it:
//
//   D[m,n] = A[m,k] · B[n,k]^T     bf16 in, fp32 accumulation, bf16 out, all three row-major
//
// The last row of a matrix ends at its last column, not at its leading dimension: a matrix of r
// rows and c columns occupies exactly (r-1)*ld + c elements, and what lies between c and ld may be
// NaN.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

namespace ladder {

using bf16 = __nv_bfloat16;

struct GemmArgs {
  int m = 0, n = 0, k = 0;
  const bf16* a = nullptr;  // [m][lda], device
  long long lda = 0;        // elements between rows; >= k, a multiple of 8
  const bf16* b = nullptr;  // [n][ldb], device
  long long ldb = 0;        // elements; >= k, a multiple of 8
  bf16* d = nullptr;        // [m][ldd], device; columns n..ldd-1 are never written
  long long ldd = 0;        // elements; >= n, a multiple of 8
  cudaStream_t stream = nullptr;
  int max_ctas = 0;  // persistent rungs launch at most this many CTAs; 0: as many as fit the GPU
};

}  // namespace ladder
