// A warpgroup decodes packed weights, from words of shared memory to the A operand of wgmma, and
// multiplies them.
// Introduced by stages/15_mixed_input.cu
#pragma once

#include <cstdint>

#include "common/ptx/bits.cuh"
#include "common/ptx/fma.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/ptx/wgmma_rs.cuh"
#include "common/tile/descriptor.h"

namespace block {

// A decoded weight is so many times smaller than its integer: no factor of fma is larger.
constexpr float WEIGHT_UNIT = 64;

// Of sums of such weights.
template <class T>
__device__ void times_unit(float (&sum)[T::BN / 2]) {
#pragma unroll
  for (float& each : sum) each *= WEIGHT_UNIT;
}

// The fragments of two wgmma, 32 of K, from 4 words of 8-bit weights or 2 of 4-bit ones, in the
// order of common/tile/packed_weights.h, over WEIGHT_UNIT. Exact: u = 0 to 255 alone in the 16 bits
// of a bf16 is the subnormal number u * 2^-133, and one fma takes it to (u - excess) * 2^-6.
template <int BITS>
__device__ void decode_weights(uint32_t* a, const uint32_t* words) {
  constexpr uint32_t P127 = 0x7f007f00, P123 = 0x7d007d00;  // 2^127 and 2^123, in either half
  if constexpr (BITS == 8) {
    constexpr uint32_t EXCESS = 0xc000c000;  // -128 / 64
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // bytes 0 and 2, then 1 and 3, each before a byte of zeros
      a[2 * i] = ptx::fma_rn_bf16x2(words[i] & 0x00ff00ff, P127, EXCESS);
      a[2 * i + 1] = ptx::fma_rn_bf16x2(ptx::prmt_b32<0x4341>(words[i], 0), P127, EXCESS);
    }
  } else {
    constexpr uint32_t EXCESS = 0xbe00be00;  // -8 / 64
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // nibbles in bits 0 to 3, then 4 to 7, worth 16 times
      const uint32_t bytes = words[i / 2] >> i % 2 * 8;
      a[2 * i] = ptx::fma_rn_bf16x2(bytes & 0x000f000f, P127, EXCESS);
      a[2 * i + 1] = ptx::fma_rn_bf16x2(bytes & 0x00f000f0, P123, EXCESS);
    }
  }
}

// A warpgroup's 64 rows of W and BLOCKS times 128 of K, a unit of wgmma at a time. While one unit
// is multiplied, the registers of the next are filled.
template <class T>
struct Fragments {
  static constexpr int WORDS = T::UNIT * T::BITS / 4;  // of a thread, of a unit
  uint4 pieces[T::PIECES];                             // packed: only those on their way live
  uint32_t a[T::SETS][T::UNIT * 4];                    // fragments of unit, unit + SETS, ...

  // Loads, of this thread's pieces of a block's weights, 128 pieces apart, those that a unit is the
  // first to need.
  __device__ void load(const uint4* own, int unit) {
#pragma unroll
    for (int i = 0; i < T::PIECES; ++i) {
      const bool is_first = i * 4 >= unit * WORDS && i * 4 < (unit + 1) * WORDS;
      if (is_first) pieces[i] = ptx::ld_shared_v4_b32(&own[i * 128]);
    }
  }

  __device__ void decode(int block, int unit) {
    uint32_t words[T::PIECES * 4];
#pragma unroll
    for (int i = 0; i < T::PIECES; ++i) {
      words[i * 4] = pieces[i].x, words[i * 4 + 1] = pieces[i].y;
      words[i * 4 + 2] = pieces[i].z, words[i * 4 + 3] = pieces[i].w;
    }
    ptx::wgmma_wait_group<T::SETS - 1>();  // nobody reads these registers any more
#pragma unroll
    for (int i = 0; i < T::UNIT / 2; ++i) {
      decode_weights<T::BITS>(&a[set(block, unit)][i * 8], &words[unit * WORDS + i * T::BITS / 2]);
    }
  }

  // Starts part += W · X^T for a unit, the first of which begins with 0.
  __device__ void multiply(float (&part)[T::BN / 2], uint64_t x_desc, int block, int unit) {
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < T::UNIT; ++i) {
      const int step = unit * T::UNIT + i;
      const uint64_t desc =
          tile::advance(x_desc, block * T::X_BYTES + step / 4 * (T::X_BYTES / 2) + step % 4 * 32);
      ptx::wgmma_rs_m64k16<T::BN>(part, &a[set(block, unit)][i * 4], desc, step > 0);
    }
    ptx::wgmma_commit_group();
  }

  // Starts part = W · X^T for a block of a slot. The first one's first unit is loaded and, in wide
  // tiles, decoded.
  __device__ void multiply_block(float (&part)[T::BN / 2], const uint4* own, uint64_t x_desc,
                                 int block) {
    own += block * T::PIECES * 128;
    if (!T::C.ahead()) decode(block, 0);
    load(own, 1);
    multiply(part, x_desc, block, 0);
#pragma unroll
    for (int unit = 1; unit < T::UNITS; ++unit) {
      if (unit + 1 < T::UNITS) load(own, unit + 1);
      decode(block, unit);
      if (unit + 1 == T::UNITS && block + 1 < T::BLOCKS) load(own + T::PIECES * 128, 0);
      multiply(part, x_desc, block, unit);
    }
  }

  __device__ static constexpr int set(int block, int unit) {
    return (block * T::UNITS + unit) % T::SETS;
  }
};

}  // namespace block
