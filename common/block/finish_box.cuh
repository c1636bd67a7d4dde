// A warpgroup finishes its sums where they are stored from: in a box, into which TMA may have put
// C.
// Introduced by stages/17_fused_epilogue.cu
#pragma once

#include <cstdint>

#include "common/block/activation.cuh"
#include "common/block/stage_typed_box.cuh"
#include "common/ptx/fma.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/mma.cuh"
#include "common/tile/fragment.h"
#include "common/tile/smem_tile.h"

namespace block {

// Two numbers that lie side by side in shared memory.
template <class Out>
__device__ float2 load_pair(const void* from) {
  if constexpr (sizeof(Out) == 4) return ptx::ld_shared_v2_f32(from);
  const uint32_t both = ptx::ld_shared_b32(from);  // of bf16, the upper halves of fp32
  return {__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000)};
}

// Of eight columns of D: z = alpha * acc + bias, four sums of each input.
template <class Out, int INPUTS>
__device__ void scale_and_bias(float (&z)[INPUTS][4], const float* acc, const Out* bias,
                               float alpha) {
#pragma unroll
  for (int i = 0; i < INPUTS; ++i) {
    const float2 b = load_pair<Out>(bias + i * 8 + tile::acc_col(threadIdx.x % 32));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      z[i][j] = ptx::fma_rn_f32(alpha, acc[i * 4 + j], j % 2 == 0 ? b.x : b.y);
    }
  }
}

// Puts the warp's 16 rows of a box of D into shared memory, where C's are if with_c. acc, bias:
// from its first column on. Nothing is stored before all is loaded, so that the arithmetic of the
// whole box can hide its own latency.
template <class F, class Out, int BOX>
__device__ void finish_box(const float* acc, tile::SmemTile<Out, 64, BOX>& box, const Out* bias,
                           float alpha, float beta, bool with_c) {
  constexpr int BLOCKS = BOX / 8, STEP = 4 * F::INPUTS;  // of eight columns; their accumulators
  const int lane = threadIdx.x % 32, row0 = threadIdx.x / 32 % 4 * 16;
  float z[BLOCKS][F::INPUTS][4], y[BLOCKS][4];
  if constexpr (sizeof(Out) == 2) {
    const auto at = [&](int i) {  // 16x16: rows 0 to 7 and 8 to 15, then the next 8 columns
      return box.at(row0 + tile::ldmatrix_a_row(lane), i + tile::ldmatrix_a_chunk(lane));
    };
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) {
      scale_and_bias(z[i], acc + i * STEP, bias + i * 8 * F::INPUTS, alpha);
    }
    if (with_c) {
#pragma unroll
      for (int i = 0; i < BLOCKS; i += 2) {
        uint32_t c[4];  // as stmatrix takes D
        ptx::ldmatrix_x4(c, at(i));
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const uint32_t both = c[j / 2];
          float& sum = z[i + j / 4][0][j % 4];
          sum = ptx::fma_rn_f32(beta, __uint_as_float(j % 2 == 0 ? both << 16 : both & 0xffff0000),
                                sum);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) F::apply(y[i], z[i]);
#pragma unroll
    for (int i = 0; i < BLOCKS; i += 2) {
      ptx::stmatrix_x4(at(i), pack<Out>(y[i][0], y[i][1]), pack<Out>(y[i][2], y[i][3]),
                       pack<Out>(y[i + 1][0], y[i + 1][1]), pack<Out>(y[i + 1][2], y[i + 1][3]));
    }
  } else {
    const bool other = tile::fp32_block(lane, 0) != 0;  // as stage_typed_box() has it
    const auto at = [&](int i, int half) {  // rows 0 to 7, then 8 to 15; two columns each
      const int chunk = tile::fp32_block(lane, i) * 2 + tile::acc_col(lane) / 4;
      return box.at(row0 + tile::acc_row(lane, half), chunk) + lane % 2 * 8;
    };
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) {
      float mine[STEP];
#pragma unroll
      for (int j = 0; j < STEP; ++j) {
        mine[j] = other ? acc[(i ^ tile::FP32_BLOCKS_APART) * STEP + j] : acc[i * STEP + j];
      }
      scale_and_bias(z[i], mine, bias + tile::fp32_block(lane, i) * 8 * F::INPUTS, alpha);
    }
    if (with_c) {
#pragma unroll
      for (int i = 0; i < BLOCKS * 2; ++i) {
        const float2 c = load_pair<Out>(at(i / 2, i % 2));
        float* const sums = &z[i / 2][0][i % 2 * 2];
        sums[0] = ptx::fma_rn_f32(beta, c.x, sums[0]);
        sums[1] = ptx::fma_rn_f32(beta, c.y, sums[1]);
      }
    }
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) {
      F::apply(y[i], z[i]);
      ptx::st_shared_v2_f32(at(i, 0), y[i][0], y[i][1]);
      ptx::st_shared_v2_f32(at(i, 1), y[i][2], y[i][3]);
    }
  }
}

}  // namespace block
