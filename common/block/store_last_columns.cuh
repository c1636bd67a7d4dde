// A warp stores what TMA cannot: the last columns of a ragged D.
// Introduced by stages/09_async_epilogue.cu
#pragma once

#include "common/ptx/memory.cuh"
#include "common/tile/smem_tile.h"

namespace block {

using bf16 = __nv_bfloat16;

// TMA writes chunks of 16 bytes: of a box at D[row0][col0], a warp stores the columns behind D's
// last whole chunk itself, at most seven.
template <int ROWS, int COLS>
__device__ void store_last_columns(const tile::SmemTile<bf16, ROWS, COLS>& box, bf16* d,
                                   long long ldd, int row0, int col0, int m, int n) {
  const int first = n / 8 * 8;
  if (first < col0 || first >= col0 + COLS) return;
  for (int row = threadIdx.x % 32; row < ROWS && row0 + row < m; row += 32) {
    for (int col = first; col < n; ++col) {
      const unsigned char* chunk = box.at(row, (first - col0) / 8);
      ptx::st_global_b16(d + (row0 + row) * ldd + col,
                         ptx::ld_shared_b16(chunk + (col - first) * 2));
    }
  }
}

}  // namespace block
