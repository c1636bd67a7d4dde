// A slot of the ring for packed weights: what is in it, and how the producers fill it.
// Introduced by stages/15_mixed_input.cu
#pragma once

#include <cstdint>

#include "common/ptx/barrier.cuh"
#include "common/ptx/bulk.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/fma.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma.cuh"
#include "common/tile/math.h"
#include "common/tile/smem_tile.h"

namespace block {

// BLOCKS times 128 of K for each of the slices, HELD together: of 64 rows of W each of the
// CONSUMERS, and of the tile's rows of X.
template <class T>
struct PackedSlot {
  tile::SmemTile<__nv_bfloat16, T::BN, 64> x[T::HELD][2];  // 64 of K each
  uint4 w[T::CONSUMERS][T::HELD][T::PIECES][128];          // a thread's pieces
};

// Beside it. With its barriers, so that a consumer works out two addresses a slot.
template <class T>
struct alignas(128) PackedSlotHead {
  __nv_bfloat16 scale[T::HELD][T::BM];
  uint64_t full;   // the producers' arrivals, and the slot's bytes
  uint64_t empty;  // one arrival a consumer warp
};

// Makes the rows of X that a tile of `rows` rows does not have zeros, in all slots.
template <class T>
__device__ void clear_missing_rows_of_x(PackedSlot<T>* slots, int rows) {
  const int missing = (T::BN - rows) * 128 / 16;  // chunks of a box
  for (int i = threadIdx.x; i < missing * 2 * T::HELD * T::DEPTH; i += T::THREADS) {
    const int box = i / missing;
    auto& slot = slots[box / (2 * T::HELD)];
    unsigned char* first = slot.x[box / 2 % T::HELD][box % 2].bytes + rows * 128;
    ptx::st_shared_v4_b32(first + i % missing * 16, uint4{});
  }
  ptx::bar_warp_sync();                 // lanes may have parted in the loop
  ptx::fence_proxy_async_shared_cta();  // before wgmma reads them
}

// What each of the four producers brings of a slot: from 128 * k_block of K on, of the tile's rows of
// W, or half of X. Small copies cost who asks for them a fixed time: four ask at a time.
constexpr int PACKED_PRODUCERS = 4;

template <class T>
__device__ void load_weights(PackedSlot<T>& slot, PackedSlotHead<T>& head,
                             const unsigned char* packed, int row_blocks, int k_blocks, int tile_m,
                             int k_block) {
  const int there = min(T::HELD, k_blocks - k_block);
  ptx::mbarrier_arrive_expect_tx(&head.full, sizeof(slot.w));
  for (int i = 0; i < T::CONSUMERS; ++i) {
    // Instead of a row block that is not there the last one again: nobody stores it.
    const int row_block = min(tile_m * T::CONSUMERS + i, row_blocks - 1);
    const unsigned char* from = packed + (1LL * row_block * k_blocks + k_block) * T::W_BYTES;
    ptx::cp_async_bulk_g2s(slot.w[i], from, there * T::W_BYTES, &head.full);
    for (int block = there; block < T::HELD; ++block) {  // beyond K: its X and scales are 0
      ptx::cp_async_bulk_g2s(slot.w[i][block], from, T::W_BYTES, &head.full);
    }
  }
}

template <class T>
__device__ void load_scales(PackedSlotHead<T>& head, const CUtensorMap* map, int tile_m,
                            int k_block) {
  ptx::mbarrier_arrive_expect_tx(&head.full, sizeof(head.scale));
  for (int i = 0; i < T::HELD; ++i) {
    ptx::cp_async_bulk_tensor_2d_g2s(head.scale[i], map, tile_m * T::BM, k_block + i, &head.full);
  }
}

template <class T>
__device__ void load_x(PackedSlot<T>& slot, PackedSlotHead<T>& head, const CUtensorMap* map,
                       int rows, int tile_n, int k_block, int half) {
  ptx::mbarrier_arrive_expect_tx(&head.full, T::HELD * rows * 128);
  for (int i = 0; i < T::HELD; ++i) {
    ptx::cp_async_bulk_tensor_2d_g2s(slot.x[i][half].bytes, map, (k_block + i) * T::BK + half * 64,
                                     tile_n * rows, &head.full);
  }
}

// Of a block of a slot, the scales of a thread's rows of W: of `row` and of the one 8 further on.
template <class T>
__device__ void scales_of_rows(float (&scale)[2], const PackedSlotHead<T>& head, int block,
                               int row) {
  for (int i = 0; i < 2; ++i) {
    scale[i] = ptx::cvt_f32_bf16(ptx::ld_shared_b16(&head.scale[block][row + i * 8]));
  }
}

// sum += scale * part, of a thread's elements of D^T [64][BN].
template <class T>
__device__ void add_scaled(float (&sum)[T::BN / 2], const float (&part)[T::BN / 2],
                           const float (&scale)[2]) {
#pragma unroll
  for (int i = 0; i < T::BN / 2; ++i) {
    sum[i] = ptx::fma_rn_f32(part[i], scale[i % 4 / 2], sum[i]);
  }
}

}  // namespace block
