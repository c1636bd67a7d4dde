// A warpgroup puts its part of D^T into shared memory, as D.
// Introduced by stages/12_stream_k.cu
#pragma once

#include <cstdint>

#include "common/ptx/memory.cuh"
#include "common/ptx/stmatrix.cuh"
#include "common/tile/fragment.h"
#include "common/tile/smem_tile.h"

namespace block {

using bf16 = __nv_bfloat16;

// Puts columns 0 .. COLS - 1 of the warp's 16 rows of D^T into rows row0 .. row0 + COLS - 1 of a box
// of D, rounded. COLS is a multiple of 8, row0 one of 8.
template <int COLS, int ROWS>
__device__ void stage_transposed(const float* acc, tile::SmemTile<bf16, ROWS, 64>& box,
                                 int row0 = 0) {
  const int lane = threadIdx.x % 32, warp_in_group = threadIdx.x / 32 % 4;
  const int chunk = warp_in_group * 2 + tile::ldmatrix_b_chunk(lane);
#pragma unroll
  for (int col = 0; col < COLS; col += 16) {
    const float* part = &acc[col / 2];  // 16x16: rows 0 to 7 and 8 to 15, then the next 8 columns
    const uint32_t r0 = ptx::cvt_rn_bf16x2_f32(part[1], part[0]);
    const uint32_t r1 = ptx::cvt_rn_bf16x2_f32(part[3], part[2]);
    if (col + 8 == COLS) {  // 16x8
      ptx::stmatrix_x2_trans(box.at(row0 + col + lane % 8, chunk), r0, r1);
    } else {
      ptx::stmatrix_x4_trans(box.at(row0 + col + tile::ldmatrix_b_row(lane), chunk), r0, r1,
                             ptx::cvt_rn_bf16x2_f32(part[5], part[4]),
                             ptx::cvt_rn_bf16x2_f32(part[7], part[6]));
    }
  }
}

}  // namespace block
