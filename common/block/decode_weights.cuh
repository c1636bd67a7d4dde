// A warpgroup decodes packed weights, from words of shared memory to the A operand of wgmma, and
// multiplies them.
// Introduced by stages/15_mixed_input.cu
#pragma once

#include <cstdint>

#include "common/ptx/bits.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/ptx/wgmma_rs.cuh"
#include "common/tile/descriptor.h"

namespace block {

// The fragments of two wgmma, 32 of K, from 4 words of 8-bit weights or 2 of 4-bit ones, in the
// order of common/tile/packed_weights.h. Exact: a bf16 with the exponent of 128 counts in ones.
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

// A warpgroup's 64 rows of W and 128 of K, a unit of wgmma at a time. While one unit is multiplied,
// the registers of others are filled.
template <class T>
struct Fragments {
  static constexpr int WORDS = T::UNIT * T::BITS / 4;  // of a thread, of a unit
  uint4 pieces[T::PIECES];                             // packed: only those on their way live
  uint32_t a[T::SETS][T::UNIT * 4];                    // fragments of unit, unit + SETS, ...

  // Loads, of this thread's pieces of a slot's weights, 128 pieces apart, those that a unit is the first
  // to need.
  __device__ void load(const uint4* own, int unit) {
#pragma unroll
    for (int i = 0; i < T::PIECES; ++i) {
      const bool is_first = i * 4 >= unit * WORDS && i * 4 < (unit + 1) * WORDS;
      if (is_first) pieces[i] = ptx::ld_shared_v4_b32(&own[i * 128]);
    }
  }

  __device__ void decode(int unit) {
    uint32_t words[T::PIECES * 4];
#pragma unroll
    for (int i = 0; i < T::PIECES; ++i) {
      words[i * 4] = pieces[i].x, words[i * 4 + 1] = pieces[i].y;
      words[i * 4 + 2] = pieces[i].z, words[i * 4 + 3] = pieces[i].w;
    }
    ptx::wgmma_wait_group<T::SETS - 1>();  // nobody reads these registers any more
#pragma unroll
    for (int i = 0; i < T::UNIT / 2; ++i) {
      decode_weights<T::BITS>(&a[unit % T::SETS][i * 8], &words[unit * WORDS + i * T::BITS / 2]);
    }
  }

  // Starts part += W · X^T for a unit, the first of which begins with 0.
  __device__ void multiply(float (&part)[T::BN / 2], uint64_t x_desc, int unit) {
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < T::UNIT; ++i) {
      const int step = unit * T::UNIT + i;
      const uint64_t desc = tile::advance(x_desc, step / 4 * (T::X_BYTES / 2) + step % 4 * 32);
      ptx::wgmma_rs_m64k16<T::BN>(part, &a[unit % T::SETS][i * 4], desc, step > 0);
    }
    ptx::wgmma_commit_group();
  }

  // Starts part = W · X^T for a slot, whose first unit is loaded and, AHEAD, decoded.
  __device__ void multiply_slot(float (&part)[T::BN / 2], const uint4* own, uint64_t x_desc) {
    if (!T::AHEAD) decode(0);
    load(own, 1);
    multiply(part, x_desc, 0);
#pragma unroll
    for (int unit = 1; unit < T::UNITS; ++unit) {
      if (unit + 1 < T::UNITS) load(own, unit + 1);
      decode(unit);
      multiply(part, x_desc, unit);
    }
  }
};

}  // namespace block
