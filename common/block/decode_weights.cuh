// A warpgroup decodes packed weights, from words of shared memory to the A operand of wgmma, and
// multiplies them.
// Introduced by stages/15_mixed_input.cu
#pragma once

#include <cstdint>

#include "common/ptx/barrier.cuh"
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

// A warpgroup's 64 rows of W and BLOCKS times 128 of K, half a block at a time: four wgmma. While
// one half is multiplied, the registers of the other are filled.
//
// Where a tile's two warpgroups take turns, one begins a block when the other has issued the first
// half of its own. Without turns they wait for the same slot, begin together and end nearly so: then
// both add up, and nobody multiplies.
template <class T>
struct Fragments {
  static constexpr int STEPS = T::BK / 16 / 2;  // wgmma of a half
  static constexpr int WORDS = T::PIECES * 2;   // of a thread, of a half
  uint4 pieces[T::PIECES];                      // packed: only those on their way live
  uint32_t a[2][STEPS * 4];                     // fragments of either half
  const int consumer;                           // whose they are

  // Named barriers: whose turn it is. From 1 on the epilogue has one a consumer.
  static constexpr int TURN = 1 + T::CONSUMERS;

  static_assert(!T::C.turns() || T::WARPGROUPS == 2, "turns are for two warpgroups");

  __device__ explicit Fragments(int consumer) : consumer(consumer) {
    if (T::C.turns() && consumer == 1) ptx::barrier_arrive(TURN, 256);  // consumer 0 begins
  }

  // Loads, of this thread's pieces of a block's weights, 128 pieces apart, those of a half.
  __device__ void load(const uint4* own, int half) {
#pragma unroll
    for (int i = 0; i < T::PIECES; ++i) {
      if (i * 4 / WORDS == half) pieces[i] = ptx::ld_shared_v4_b32(&own[i * 128]);
    }
  }

  __device__ void decode(int half) {
    uint32_t words[T::PIECES * 4];
#pragma unroll
    for (int i = 0; i < T::PIECES; ++i) {
      words[i * 4] = pieces[i].x, words[i * 4 + 1] = pieces[i].y;
      words[i * 4 + 2] = pieces[i].z, words[i * 4 + 3] = pieces[i].w;
    }
    ptx::wgmma_wait_group<1>();  // nobody reads these registers any more
#pragma unroll
    for (int i = 0; i < STEPS / 2; ++i) {
      decode_weights<T::BITS>(&a[half][i * 8], &words[half * WORDS + i * T::BITS / 2]);
    }
  }

  // Starts part += W · X^T for a half, the first of which begins with 0.
  __device__ void multiply(float (&part)[T::BN / 2], uint64_t x_desc, int block, int half) {
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
      const uint64_t desc =
          tile::advance(x_desc, block * T::X_BYTES + half * (T::X_BYTES / 2) + i * 32);
      ptx::wgmma_rs_m64k16<T::BN>(part, &a[half][i * 4], desc, half > 0 || i > 0);
    }
    ptx::wgmma_commit_group();
  }

  // Starts part = W · X^T for a block of a slot. The first one's first half is loaded and, in wide
  // tiles, decoded.
  __device__ void multiply_block(float (&part)[T::BN / 2], const uint4* own, uint64_t x_desc,
                                 int block) {
    own += block * T::PIECES * 128;
    if (!T::C.ahead()) decode(0);
    if (T::C.turns()) ptx::barrier_sync(TURN + consumer, 256);
    load(own, 1);
    multiply(part, x_desc, block, 0);
    if (T::C.turns()) ptx::barrier_arrive(TURN + 1 - consumer, 256);
    decode(1);
    if (block + 1 < T::BLOCKS) load(own + T::PIECES * 128, 0);
    multiply(part, x_desc, block, 1);
  }
};

}  // namespace block
