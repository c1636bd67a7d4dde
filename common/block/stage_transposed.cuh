// A warpgroup puts its part of D^T into shared memory, as D.
// Introduced by stages/12_stream_k.cu
#pragma once

#include <cstdint>

#include "common/block/stage_typed_box.cuh"
#include "common/ptx/stmatrix.cuh"
#include "common/tile/fragment.h"
#include "common/tile/smem_tile.h"

namespace block {

// Puts columns 0 .. COLS - 1 of the warp's 16 rows of D^T into rows row0 .. row0 + COLS - 1 of a box
// of D, rounded. COLS is a multiple of 8, row0 one of 8.
template <int COLS, class Out, int ROWS>
__device__ void stage_transposed(const float* acc, tile::SmemTile<Out, ROWS, 64>& box,
                                 int row0 = 0) {
  const int lane = threadIdx.x % 32, warp_in_group = threadIdx.x / 32 % 4;
  const int chunk = warp_in_group * 2 + tile::ldmatrix_b_chunk(lane);
#pragma unroll
  for (int col = 0; col < COLS; col += 16) {
    const float* part = &acc[col / 2];  // 16x16: rows 0 to 7 and 8 to 15, then the next 8 columns
    const uint32_t r0 = pack<Out>(part[0], part[1]);
    const uint32_t r1 = pack<Out>(part[2], part[3]);
    if (col + 8 == COLS) {  // 16x8
      ptx::stmatrix_x2_trans(box.at(row0 + col + lane % 8, chunk), r0, r1);
    } else {
      ptx::stmatrix_x4_trans(box.at(row0 + col + tile::ldmatrix_b_row(lane), chunk), r0, r1,
                             pack<Out>(part[4], part[5]), pack<Out>(part[6], part[7]));
    }
  }
}

}  // namespace block
