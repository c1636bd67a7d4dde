// A box of D that waits in shared memory for TMA to store it, of a tile that lies on its side: 64
// columns, and 64 rows or what a tile's width leaves behind its last 64.
// Introduced by stages/10_pingpong.cu
#pragma once

#include "common/block/stage_transposed.cuh"
#include "common/block/store_last_columns.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/tile/smem_tile.h"

namespace block {

// As StagedBox, of a tile of D^T that has BN columns, which are rows of D.
template <int BN>
struct alignas(1024) SidewaysBox {
  static constexpr int COUNT = (BN + 63) / 64;                  // boxes one above the other
  static constexpr int LAST_ROWS = BN % 64 > 0 ? BN % 64 : 64;  // rows of the last one
  static constexpr int ROWS = 64, WIDTH = 64, LAST = 64;        // the others' rows, and columns
  static_assert(BN % 8 == 0 && BN >= 64, "stmatrix.x2.trans stages 8 rows");
  tile::SmemTile<bf16, ROWS, WIDTH> staged;
};

// A warpgroup stages box `i` of its results, 64 rows of D^T with BN columns: each warp its 16 rows.
template <int BN>
__device__ void stage_box(const float* acc, SidewaysBox<BN>& box, int i) {
  using Box = SidewaysBox<BN>;
  if (i < Box::COUNT - 1) stage_transposed<Box::ROWS>(&acc[i * 32], box.staged);
  if (i == Box::COUNT - 1) stage_transposed<Box::LAST_ROWS>(&acc[i * 32], box.staged);
}

// A warp stores box `i` of those whose first element is D^T[row][n0], of D^T [m][n]. Else as that of
// StagedBox.
template <int BN>
__device__ void store_box(SidewaysBox<BN>& box, int i, const CUtensorMap* map_d,
                          const CUtensorMap* map_last, bf16* d, long long ldd, int row, int n0,
                          int m, int n) {
  using Box = SidewaysBox<BN>;
  const bool last = i == Box::COUNT - 1;
  const int d_row = n0 + i * Box::ROWS, end = d_row + (last ? Box::LAST_ROWS : Box::ROWS);
  if (threadIdx.x % 32 == 0 && d_row < n && row < m / 8 * 8) {
    ptx::cp_async_bulk_tensor_2d_s2g(last ? map_last : map_d, row, d_row, box.staged.bytes);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read<0>();
  }
  store_last_columns(box.staged, d, ldd, d_row, row, end < n ? end : n, m);
}

}  // namespace block
