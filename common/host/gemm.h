// One call of a kernel: what every kind of problem has in common, and the product of two matrices.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

namespace ladder {

class ProblemKind;

// A workspace begins with this many bytes of counters, which are 0 between calls: 0 before the first
// one that uses it, and each kernel leaves its own at 0 again. Behind them is scratch, in which a
// kernel finds nothing that it has not written itself.
inline constexpr size_t WORKSPACE_COUNTER_BYTES = 64 << 10;

// What the arguments of every kind of problem begin with. Arguments of a kind derive from it and
// have a static function kind() (common/host/problem.h).
struct Call {
  int m = 0, n = 0, k = 0;
  cudaStream_t stream = nullptr;
  int max_ctas = 0;  // persistent kernels launch at most this many CTAs; 0: as many as fit the GPU
  bool leaves_sms = false;  // all but max_ctas are left to other work: no launch starts early
  // Device memory, 256-byte aligned, of workspace_bytes() (common/host/registry.h) for the current
  // device; null: kernels that need one cannot run. Calls that have the same run one after another.
  void* workspace = nullptr;
  size_t workspace_bytes = 0;  // of it, of which D must share none; 0: they are not known

  // Of it, what lies behind the counters; null without one.
  void* scratch() const {
    return workspace == nullptr ? nullptr : static_cast<char*>(workspace) + WORKSPACE_COUNTER_BYTES;
  }
};

//   D[m,n] = A[m,k] · B[n,k]^T     fp32 accumulation, all three row-major
//
// The last row of a matrix ends at its last column, not at its leading dimension: a matrix of r
// rows and c columns occupies exactly (r-1)*ld + c elements, and what lies between c and ld may be
// NaN. Leading dimensions are in elements, and their bytes a multiple of 16.
template <class In, class Out>
struct MatmulArgs : Call {
  const In* a = nullptr;  // [m][lda], device
  long long lda = 0;      // elements between rows; >= k
  const In* b = nullptr;  // [n][ldb], device
  long long ldb = 0;      // >= k
  Out* d = nullptr;       // [m][ldd], device; columns n..ldd-1 are never written
  long long ldd = 0;      // >= n
  // The other layout of an operand: A is [k][lda], lda >= m; B is [k][ldb], ldb >= n. Of references
  // and cuBLASLt; rungs 1 to 12 have no use for it.
  bool mn_major_a = false, mn_major_b = false;

  static const ProblemKind& kind();
};

// What is multiplied for D^T = op(B)^T · op(A)^T, by tiles on their side; d and ldd are still D's.
template <class Args>
Args on_its_side(Args args) {
  std::swap(args.m, args.n);
  std::swap(args.a, args.b);
  std::swap(args.lda, args.ldb);
  if constexpr (requires { args.mn_major_a; }) std::swap(args.mn_major_a, args.mn_major_b);
  return args;
}

using bf16 = __nv_bfloat16;

// The problem of rungs 1 to 12: bf16 in and out.
using GemmArgs = MatmulArgs<bf16, bf16>;

}  // namespace ladder
