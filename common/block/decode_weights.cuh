// A warpgroup decodes packed weights: from words of shared memory to the A operand of wgmma.
// Introduced by stages/15_mixed_input.cu
#pragma once

#include <cstdint>

#include "common/ptx/bits.cuh"

namespace block {

// The fragments of two wgmma, 32 of K, from 4 words of 8-bit weights or 2 of 4-bit ones, in the order
// of common/tile/packed_weights.h. Exact: a bf16 with the exponent of 128 counts in ones.
template <int BITS>
__device__ void decode_weights(uint32_t* a, const uint32_t* words) {
  constexpr uint32_t ONES = 0x43004300;  // 128 in either half: its lowest bit is worth 1
  constexpr int AND_OR = (0xf0 & 0xcc) | 0xaa;
  if constexpr (BITS == 8) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // w = (128 + its lower 7 bits) - (128, or 256 if it is negative)
      const uint32_t pair = words[i / 2] >> i % 2 * 8;
      a[i] = ptx::sub_rn_bf16x2(ptx::lop3_b32<AND_OR>(pair, 0x007f007f, ONES),
                                ptx::lop3_b32<AND_OR>(pair, 0x00800080, ONES));
    }
  } else {
    constexpr uint32_t EXCESS = 0x43084308;  // 128 + 8
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // w = (128 + w + 8) - (128 + 8)
      const uint32_t pair = words[i / 4] >> i % 4 * 4;
      a[i] = ptx::sub_rn_bf16x2(ptx::lop3_b32<AND_OR>(pair, 0x000f000f, ONES), EXCESS);
    }
  }
}

}  // namespace block
