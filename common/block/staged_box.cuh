// A box of D that waits in shared memory for TMA to store it: 64 rows, and 64 columns or what a
// tile's width leaves behind its last 64.
// Introduced by stages/10_pingpong.cu
#pragma once

#include "common/block/stage_tile.cuh"
#include "common/block/store_last_columns.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/tile/smem_tile.h"

namespace block {

template <int BN>
struct alignas(1024) StagedBox {
  static constexpr int COUNT = (BN + 63) / 64;             // boxes side by side in a tile
  static constexpr int LAST = BN % 64 > 0 ? BN % 64 : 64;  // columns of the last one
  static constexpr int WIDTH = COUNT > 1 ? 64 : LAST;      // of the others, if there are any
  static constexpr int ROWS = 64, LAST_ROWS = 64;
  static_assert(BN % 16 == 0, "stmatrix.x4 stages 16 columns");
  unsigned char bytes[64 * WIDTH * 2];

  template <int COLS>
  __device__ auto& of() {
    return reinterpret_cast<tile::SmemTile<bf16, 64, COLS>(&)[1]>(bytes);
  }
};

// A warpgroup stages box `i` of its results, 64 rows of BN columns: each warp its 16 rows.
template <int BN>
__device__ void stage_box(const float* acc, StagedBox<BN>& box, int i) {
  using Box = StagedBox<BN>;
  if (i < Box::COUNT - 1) stage_tile(&acc[i * 32], box.template of<Box::WIDTH>());
  if (i == Box::COUNT - 1) stage_tile(&acc[i * 32], box.template of<Box::LAST>());
}

// A warp stores box `i` of those whose first element is D[row][n0]: lane 0 by TMA, which does not
// write outside of the map's matrix, all of them what TMA cannot. When it returns, the box is read,
// as far as lane 0 knows.
template <int BN>
__device__ void store_box(StagedBox<BN>& box, int i, const CUtensorMap* map_d,
                          const CUtensorMap* map_last, bf16* d, long long ldd, int row, int n0,
                          int m, int n) {
  using Box = StagedBox<BN>;
  const bool last = i == Box::COUNT - 1;
  const int col = n0 + i * 64;
  if (threadIdx.x % 32 == 0 && row < m && col < n / 8 * 8) {
    ptx::cp_async_bulk_tensor_2d_s2g(last ? map_last : map_d, col, row, box.bytes);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read<0>();
  }
  if (last) {
    store_last_columns(box.template of<Box::LAST>()[0], d, ldd, row, col, m, n);
  } else {
    store_last_columns(box.template of<Box::WIDTH>()[0], d, ldd, row, col, m, n);
  }
}

}  // namespace block
