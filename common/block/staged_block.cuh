// A block of D that waits in shared memory for TMA to store it, in boxes as wide as they can be.
// Introduced by stages/11_autotuned.cu
#pragma once

#include "common/block/stage_tile.cuh"
#include "common/block/store_last_columns.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/tile/smem_tile.h"

namespace block {

// 64 x BN of a consumer: boxes of 64 columns, which are 128 bytes to a row, and what they leave in
// narrower ones of equal width. A box whose first column is c begins at byte c * 128.
template <int BN>
struct alignas(1024) StagedBlock {
  static constexpr int WIDE = BN / 64, REST = BN % 64;  // boxes, and columns behind them
  static constexpr int NARROW = REST & -REST;           // columns of a box there: 16 or 32
  static constexpr int FIRST_REST = WIDE * 64;          // first of them
  // As StagedBox has them: a block is staged as one, and stored in boxes of 64 columns and the last.
  static constexpr int COUNT = 1, ROWS = 64, WIDTH = 64;
  static constexpr int LAST_ROWS = 64, LAST = REST > 0 ? NARROW : 64;
  unsigned char bytes[64 * BN * 2];

  template <int BOXES, int BOX>
  using Boxes = tile::SmemTile<bf16, 64, BOX>[BOXES];
  __device__ auto& wide() { return reinterpret_cast<Boxes<WIDE, 64>&>(bytes); }
  __device__ auto& narrow() {
    return reinterpret_cast<Boxes<REST / NARROW, NARROW>&>(bytes[FIRST_REST * 128]);
  }
};

// A warpgroup stages its results: each warp its 16 rows.
template <int BN>
__device__ void stage_block(const float* acc, StagedBlock<BN>& staged) {
  using Block = StagedBlock<BN>;
  if constexpr (Block::WIDE > 0) stage_tile(acc, staged.wide());
  if constexpr (Block::REST > 0) stage_tile(&acc[Block::FIRST_REST / 2], staged.narrow());
}

// A warp stores boxes that lie side by side, from D[row][col0] on: lane 0 by TMA, which does not
// write outside of the map's matrix, all of them what TMA cannot. One box at a time, so that loads
// pass in between, if any follow.
template <int BOXES, int BOX>
__device__ void store_boxes(const tile::SmemTile<bf16, 64, BOX> (&boxes)[BOXES],
                            const CUtensorMap* map_d, bf16* d, long long ldd, int row, int col0,
                            int m, int n, bool loads_follow) {
#pragma unroll 1
  for (int i = 0; i < BOXES; ++i) {
    const int col = col0 + i * BOX;
    if (threadIdx.x % 32 == 0 && row < m && col < n / 8 * 8) {
      ptx::cp_async_bulk_tensor_2d_s2g(map_d, col, row, boxes[i].bytes);
      ptx::cp_async_bulk_commit_group();
      if (loads_follow) ptx::cp_async_bulk_wait_group_read<0>();
    }
    store_last_columns(boxes[i], d, ldd, row, col, m, n);
  }
}

// A warp stores a staged block, whose first element is D[row][col]. When it returns, the boxes are
// read, as far as lane 0 knows.
template <int BN>
__device__ void store_block(StagedBlock<BN>& staged, const CUtensorMap* map_d,
                            const CUtensorMap* map_narrow, bf16* d, long long ldd, int row, int col,
                            int m, int n, bool loads_follow) {
  using Block = StagedBlock<BN>;
  if constexpr (Block::WIDE > 0) {
    store_boxes(staged.wide(), map_d, d, ldd, row, col, m, n, loads_follow);
  }
  if constexpr (Block::REST > 0) {
    store_boxes(staged.narrow(), map_narrow, d, ldd, row, col + Block::FIRST_REST, m, n,
                loads_follow);
  }
  if (threadIdx.x % 32 == 0) ptx::cp_async_bulk_wait_group_read<0>();
}

}  // namespace block
