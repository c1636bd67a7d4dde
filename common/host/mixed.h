// The product of bf16 activations and weights of 8 or 4 bits, packed, with a scale for each 128 of
// K.
#pragma once

#include <cstddef>

#include "common/host/gemm.h"

namespace ladder {

//   D[m,n] = sum over blocks of 128 of K of scale[block][n] · (A · W^T)[m,n]     fp32 accumulation
//
// W [n][k] is packed as ladder_pack_weights() does it. Sizes as of MatmulArgs.
struct MixedArgs : Call {
  int bits = 8;                  // of a weight: 8 or 4
  const bf16* a = nullptr;       // [m][lda], device, as the others
  long long lda = 0;             // elements; >= k
  const void* packed = nullptr;  // tile::packed_bytes(bits, n, k) bytes
  const bf16* scale = nullptr;   // [ceil(k / 128)][ld_scale]
  long long ld_scale = 0;        // >= n
  bf16* d = nullptr;             // [m][ldd]; columns n..ldd-1 are never written
  long long ldd = 0;             // >= n

  static const ProblemKind& kind();
};

// A call of ladder_quantize_weights() or ladder_pack_weights().
struct WeightsArgs {
  int bits = 8, n = 0, k = 0;
  const bf16* w = nullptr;  // [n][ldw]; of quantising
  long long ldw = 0;        // >= k
  void* q = nullptr;        // [n][ldq]: bytes, or two weights a byte, the lower half first
  long long ldq = 0;        // weights; >= k
  bf16* scale = nullptr;    // [ceil(k / 128)][ld_scale]; of quantising
  long long ld_scale = 0;   // >= n
  void* packed = nullptr;   // of packing
  cudaStream_t stream = nullptr;
};

// Asynchronous. What they refuse is thrown as Refused.
void quantize_weights(const WeightsArgs& args);
void pack_weights(const WeightsArgs& args);

}  // namespace ladder
