// A warpgroup stages its results: rounded, into boxes that TMA will store.
// Introduced by stages/09_async_epilogue.cu
#pragma once

#include "common/ptx/memory.cuh"
#include "common/ptx/stmatrix.cuh"
#include "common/tile/fragment.h"
#include "common/tile/smem_tile.h"

namespace block {

using bf16 = __nv_bfloat16;

// Puts the warp's 16 rows of the warpgroup's block, 64 rows of BOXES * BOX columns, into the boxes.
template <int BOXES, int BOX>
__device__ void stage_tile(const float* acc, tile::SmemTile<bf16, 64, BOX> (&boxes)[BOXES]) {
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + tile::ldmatrix_a_row(lane);
#pragma unroll
  for (int col = 0; col < BOXES * BOX; col += 16) {
    const float* block = &acc[col / 2];  // 16x16: rows 0 to 7 and 8 to 15, then the next 8 columns
    const int chunk = col % BOX / 8 + tile::ldmatrix_a_chunk(lane);
    ptx::stmatrix_x4(boxes[col / BOX].at(row, chunk), ptx::cvt_rn_bf16x2_f32(block[1], block[0]),
                     ptx::cvt_rn_bf16x2_f32(block[3], block[2]),
                     ptx::cvt_rn_bf16x2_f32(block[5], block[4]),
                     ptx::cvt_rn_bf16x2_f32(block[7], block[6]));
  }
}

}  // namespace block
