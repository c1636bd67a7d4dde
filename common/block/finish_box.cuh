// A warpgroup finishes its sums where they are stored from: in a box, into which TMA may have put C.
// Introduced by stages/17_fused_epilogue.cu
#pragma once

#include <cstdint>

#include "common/block/activation.cuh"
#include "common/block/stage_box.cuh"
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
    z[i][0] = alpha * acc[i * 4] + b.x;
    z[i][1] = alpha * acc[i * 4 + 1] + b.y;
    z[i][2] = alpha * acc[i * 4 + 2] + b.x;
    z[i][3] = alpha * acc[i * 4 + 3] + b.y;
  }
}

// Puts the warp's 16 rows of a box of D into shared memory, where C's are if with_c. acc, bias: from
// its first column on.
template <class F, class Out, int BOX>
__device__ void finish_box(const float* acc, tile::SmemTile<Out, 64, BOX>& box, const Out* bias,
                           float alpha, float beta, bool with_c) {
  constexpr int STEP = 4 * F::INPUTS;  // accumulators of eight columns of D
  const int lane = threadIdx.x % 32, row0 = threadIdx.x / 32 % 4 * 16;
  if constexpr (sizeof(Out) == 2) {
#pragma unroll
    for (int col = 0; col < BOX; col += 16, acc += 2 * STEP, bias += 16 * F::INPUTS) {
      unsigned char* const row =
          box.at(row0 + tile::ldmatrix_a_row(lane), col / 8 + tile::ldmatrix_a_chunk(lane));
      uint32_t c[4];  // 16x16: rows 0 to 7, 8 to 15, and again, as stmatrix takes D
      if (with_c) ptx::ldmatrix_x4(c, row);
      float y[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float z[F::INPUTS][4];
        scale_and_bias(z, acc + half * STEP, bias + half * 8 * F::INPUTS, alpha);
#pragma unroll
        for (int j = 0; with_c && j < 4; ++j) {
          const uint32_t both = c[half * 2 + j / 2];
          z[0][j] += beta * __uint_as_float(j % 2 == 0 ? both << 16 : both & 0xffff0000);
        }
        F::apply(y[half], z);
      }
      ptx::stmatrix_x4(row, pack<Out>(y[0][0], y[0][1]), pack<Out>(y[0][2], y[0][3]),
                       pack<Out>(y[1][0], y[1][1]), pack<Out>(y[1][2], y[1][3]));
    }
  } else {
    const bool other = tile::fp32_block(lane, 0) != 0;  // as stage_box() has it
#pragma unroll
    for (int i = 0; i < BOX / 8; ++i) {
      const int block = tile::fp32_block(lane, i);
      float mine[STEP], z[F::INPUTS][4], y[4];
#pragma unroll
      for (int j = 0; j < STEP; ++j) {
        mine[j] = other ? acc[(i ^ tile::FP32_BLOCKS_APART) * STEP + j] : acc[i * STEP + j];
      }
      scale_and_bias(z, mine, bias + block * 8 * F::INPUTS, alpha);
      unsigned char* at[2];  // rows 0 to 7, then 8 to 15; two columns each
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        at[half] = box.at(row0 + tile::acc_row(lane, half), block * 2 + tile::acc_col(lane) / 4) +
                   lane % 2 * 8;
        if (!with_c) continue;
        const float2 c = load_pair<Out>(at[half]);
        z[0][half * 2] += beta * c.x;
        z[0][half * 2 + 1] += beta * c.y;
      }
      F::apply(y, z);
      ptx::st_shared_v2_f32(at[0], y[0], y[1]);
      ptx::st_shared_v2_f32(at[1], y[2], y[3]);
    }
  }
}

}  // namespace block
