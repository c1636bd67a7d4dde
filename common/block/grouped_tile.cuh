// What a consumer of a group's tile does that one of a single product's does not.
// Introduced by stages/16_grouped.cu
#pragma once

#include "common/block/find_groups.cuh"
#include "common/block/multiply_tile.cuh"
#include "common/block/scaled_tile.cuh"
#include "common/ptx/barrier.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/memory.cuh"
#include "common/tile/grouped.h"
#include "common/tile/math.h"

namespace block {

// acc += A · B^T of one slot: of the warpgroup's blocks of 64 rows, the first `blocks`, at least
// one. How many is decided before products start: none may start on a condition while others run.
template <class T, class Release>
__device__ void multiply_blocks(float (&acc)[T::BLOCKS][T::BN / 2], const unsigned char* a,
                                const unsigned char* b, int blocks, bool accumulate,
                                const Release& release) {
  static_assert(T::BLOCKS <= 2, "a tile that ends in a consumer's rows has one of its blocks");
  if (blocks == T::BLOCKS) {
#pragma unroll
    for (int i = 0; i < T::BLOCKS; ++i) {
      multiply_tile<T>(acc[i], a + i * T::WM * 128, b, accumulate);
    }
    ptx::wgmma_wait_group<0>();  // meanwhile the other warpgroups' products run
  } else {
    multiply_tile<T>(acc[0], a, b, accumulate);
    ptx::wgmma_wait_group<0>();
  }
  release();
}

// As load_scales(), of a tile that has `rows` rows, at least one, from the consumer's first on:
// rows behind them, whose scales nobody may have written, get the last one's.
template <class T>
__device__ void load_scales_of_rows(float (&scale)[T::BLOCKS][2], const float* scale_a,
                                    int thread_m, int rows) {
#pragma unroll
  for (int i = 0; i < T::BLOCKS * 2; ++i) {
    const int row = min(thread_m + i / 2 * T::WM + i % 2 * 8, rows - 1);
    scale[i / 2][i % 2] = ptx::ld_shared_f32(scale_a + row);
  }
}

// The scales of B, [groups][ceil(n / 128)][ld], for the tiles that a CTA works on, a step ahead.
template <class T>
struct ScalesOfGroups {
  const float* scale_b;
  long long ld;
  int n;
  ScalesOfB<T> of_tile{scale_b, ld, 0, n};
  float next[2] = {};

  // Goes to a tile, if there is one, and asks for its first ones.
  __device__ void go_to(const GroupTiles<T>& t) {
    if (!T::SCALED || !t.has()) return;
    const tile::GroupedTile at = t.tile();
    const float* const of_group = scale_b + at.group * tile::ceil_div(n, T::SCALE_BLOCK) * ld;
    of_tile = ScalesOfB<T>(of_group, ld, at.n0, n);
    of_tile.load(next, 0);
  }
};

// The same of e4m3: acc += scales · A · B^T of slot k_tile of k_tiles. Here too it is decided before
// products start how many blocks there are: between two blocks' products every instruction counts.
// scale_a: of the warpgroup's first row on.
template <class T, class Release>
__device__ void multiply_and_promote(float (&acc)[T::BLOCKS][T::BN / 2], const unsigned char* a,
                                     const unsigned char* b, const float* scale_a, int thread_m,
                                     int rows, int blocks, ScalesOfGroups<T>& scales_b, int k_tile,
                                     int k_tiles, const Release& release) {
  static_assert(T::BLOCKS <= 2, "a tile that ends in a consumer's rows has one of its blocks");
  float sum[T::BN / 2];  // of a block, over 128 of K
  float of_a[T::BLOCKS][2];
  const float of_b[2] = {scales_b.next[0], scales_b.next[1]};
  const auto step = [&](int i, bool last) {
    multiply_scaled<T>(sum, a + i * T::WM * 128, b, false);
    if (i == 0) {  // meanwhile
      load_scales_of_rows<T>(of_a, scale_a, thread_m, rows);
      ptx::fence_proxy_async_shared_cta();  // TMA will overwrite what was read
      ptx::bar_warp_sync();                 // lane 0 releases the slot for all
      scales_b.of_tile.load(scales_b.next, min(k_tile + 1, k_tiles - 1));
    }
    ptx::wgmma_wait_group<0>();
    if (last) release();
    promote<T>(acc[i], sum, of_a[i], of_b, scales_b.of_tile.boundary);
  };
  if (T::BLOCKS == 1 || blocks == T::BLOCKS) {
#pragma unroll
    for (int i = 0; i < T::BLOCKS; ++i) step(i, i == T::BLOCKS - 1);
  } else {
    step(0, true);
  }
}

// As store_last_columns(), in fewer registers: of a block at D[0][n0], staged in `boxes`, a warp
// stores the columns behind D's last whole chunk, in the first `rows` rows.
template <class T, class Box>
__device__ void store_last_of_rows(const Box (&boxes)[T::BOXES], __nv_bfloat16* d, long long ldd,
                                   int n0, int rows, int n) {
  const int first = n / 8 * 8 - n0;  // of the block
  if (first < 0 || first >= T::BN) return;
#pragma unroll 1
  for (int row = threadIdx.x % 32; row < rows; row += 32) {
    const unsigned char* const chunk = boxes[first / T::BOX].at(row, first % T::BOX / 8);
#pragma unroll 1
    for (int i = 0; i < n % 8; ++i) {
      ptx::st_global_b16(d + row * ldd + n0 + first + i, ptx::ld_shared_b16(chunk + i * 2));
    }
  }
}

}  // namespace block
