// A warpgroup stages results of any type: a box that TMA will store.
// Introduced by stages/13_layouts.cu
#pragma once

#include <cstdint>

#include "common/ptx/memory.cuh"
#include "common/ptx/stmatrix.cuh"
#include "common/tile/fragment.h"
#include "common/tile/smem_tile.h"

namespace block {

template <class>
inline constexpr bool IS_BF16 = false;
template <>
inline constexpr bool IS_BF16<__nv_bfloat16> = true;

// Two results, rounded to 16 bits each.
template <class Out>
__device__ uint32_t pack(float lo, float hi) {
  return IS_BF16<Out> ? ptx::cvt_rn_bf16x2_f32(hi, lo) : ptx::cvt_rn_f16x2_f32(hi, lo);
}

// Puts the warp's 16 rows of a box into shared memory. acc: the accumulators from its first column on.
template <class Out, int BOX>
__device__ void stage_typed_box(const float* acc, tile::SmemTile<Out, 64, BOX>& box) {
  const int lane = threadIdx.x % 32, row0 = threadIdx.x / 32 % 4 * 16;
  if constexpr (sizeof(Out) == 2) {
#pragma unroll
    for (int col = 0; col < BOX; col += 16, acc += 8) {  // 16x16: rows 0 to 7, 8 to 15, and again
      const int chunk = col / 8 + tile::ldmatrix_a_chunk(lane);
      ptx::stmatrix_x4(box.at(row0 + tile::ldmatrix_a_row(lane), chunk), pack<Out>(acc[0], acc[1]),
                       pack<Out>(acc[2], acc[3]), pack<Out>(acc[4], acc[5]),
                       pack<Out>(acc[6], acc[7]));
    }
  } else {
    const bool other =
        tile::fp32_block(lane, 0) != 0;  // this lane takes the blocks in another order
#pragma unroll
    for (int i = 0; i < BOX / 8; ++i) {
      const float* one = &acc[i * 4];
      const float* another = &acc[(i ^ tile::FP32_BLOCKS_APART) * 4];
      const int chunk = tile::fp32_block(lane, i) * 2 + tile::acc_col(lane) / 4;
#pragma unroll
      for (int half = 0; half < 4; half += 2) {  // rows 0 to 7, then 8 to 15; two columns each
        unsigned char* to = box.at(row0 + tile::acc_row(lane, half / 2), chunk) + lane % 2 * 8;
        ptx::st_shared_v2_f32(to, other ? another[half] : one[half],
                              other ? another[half + 1] : one[half + 1]);
      }
    }
  }
}

}  // namespace block
