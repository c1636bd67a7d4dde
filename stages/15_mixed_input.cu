// Rung 15: weights of 8 or 4 bits, decoded on their way to the tensor cores.
//
// Idea       wgmma takes its A operand from registers: D^T = W · X^T, and a thread decodes its own
//            fragments of W to bf16 by a mask and an fma for two, while the fragments before are
//            multiplied. Sums of 128 of K are scaled in fp32, so that no weight is rounded.
// Limited by the bytes of bf16 weights, where tokens are few: twice or four times what is needed.
// New PTX    wgmma with A in registers, cp.async.bulk of bytes in a row, fma.bf16x2, prmt
// Tile       of D^T, 64 to 256 columns of D x 8 to 176 rows, 128 of K: common/tile/mixed_tiles.h
// Grown from stages/12_stream_k.cu
// Read       docs/15_mixed_input.md
#include <algorithm>
#include <vector>

#include "common/block/add_slices.cuh"
#include "common/block/consumer_of_warp.cuh"
#include "common/block/decode_weights.cuh"
#include "common/block/exchange_sums.cuh"
#include "common/block/packed_slot.cuh"
#include "common/block/stage_transposed.cuh"
#include "common/block/store_last_columns.cuh"
#include "common/host/configurations.h"
#include "common/host/error.h"
#include "common/host/launch.h"
#include "common/host/mixed.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/griddepcontrol.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/descriptor.h"
#include "common/tile/fragment.h"
#include "common/tile/math.h"
#include "common/tile/mixed_tiles.h"
#include "common/tile/packed_weights.h"
#include "common/tile/registers.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"

namespace mixed_input {

using ladder::bf16;
using ladder::MixedArgs;

// Of D^T = W · X^T: the tile's rows are rows of W, its columns, which may be few, rows of X.
template <int BITS_, int CONSUMERS_, int BN_, int SPLIT_, int SLICES_, int CTAS_>
struct Tile {
  static constexpr tile::MixedTile C = {"", "", CONSUMERS_, BN_, SPLIT_, SLICES_, CTAS_};
  static constexpr int BITS = BITS_, CONSUMERS = CONSUMERS_;  // of a weight; of 64 rows each
  static constexpr int WM = tile::PACKED_ROWS, BM = CONSUMERS * WM, BN = BN_;
  static constexpr int BK = tile::PACKED_K;  // of a scale: eight wgmma
  static constexpr int CLUSTER_M = 1, CLUSTER_N = 1, SHARERS = 1, SPLIT = SPLIT_, CLUSTER = SPLIT;
  static constexpr int SLICES = SLICES_;  // warpgroups of a CTA that share it
  static constexpr int BLOCKS = C.blocks(BITS), HELD = SLICES * BLOCKS;  // of BK: its, the slot's
  static constexpr int WARPGROUPS = CONSUMERS * SLICES, THREADS = 128 + WARPGROUPS * 128;
  static constexpr int W_BYTES = tile::packed_block_bytes(BITS), X_BYTES = 2 * BN * 128;
  static constexpr int PIECES = W_BYTES / 128 / 16;  // of a thread, 16 bytes each
  // Of a tile that the cluster splits, CTA i finishes SHARE columns, from i * SHARE on.
  static constexpr int FINISHERS = C.finishers(), SHARE = C.columns_each();
  static constexpr int EXCHANGE_BYTES = C.exchange_bytes(), PARTS_BYTES = C.parts_bytes();
  static constexpr int DEPTH = C.ring_slots(BITS);        // what then fits
  static constexpr int CTAS = CTAS_, PRODUCER_REGS = 40;  // CTAs of an SM, at a time
  static constexpr int CONSUMER_REGS = tile::consumer_regs(THREADS, CTAS, PRODUCER_REGS);
  static_assert(DEPTH >= 3, "three slots: one multiplied, one landing, one asked for");
};

template <class T>
struct alignas(1024) Smem {
  block::PackedSlot<T> slots[T::DEPTH];
  block::PackedSlotHead<T> heads[T::DEPTH];
  tile::SmemTile<bf16, T::SHARE, T::WM> d[T::CONSUMERS];
  float4 exchange[T::EXCHANGE_BYTES / 16 + 1];  // [SPLIT][SHARE / 8][CONSUMERS * 128]
  float4 parts[T::PARTS_BYTES / 16 + 1];        // [SLICES - 1][BN / 8][CONSUMERS * 128]
  uint64_t summands, drained;  // they are here: EXCHANGE_BYTES; and read, wherever some went
};

// What the host has worked out for a call.
struct Work {
  const unsigned char* packed;
  bf16* d;        // [d_rows][ldd]
  long long ldd;  // elements
  int d_rows, d_cols;
  int k_blocks;          // of 128: of the packed weights' rows
  int rows;              // of D in a tile, at most BN; all tiles have as many, but for the last
  int box_rows;          // of these, as many as a CTA stores
  int tiles_m, tiles_n;  // across D, and down
  int raster_group;
};

// D^T [d_cols][d_rows].
template <class T>
__global__ __launch_bounds__(T::THREADS,
                             T::CTAS) void gemm(const __grid_constant__ CUtensorMap map_x,
                                                const __grid_constant__ CUtensorMap map_scale,
                                                const __grid_constant__ CUtensorMap map_d,
                                                const __grid_constant__ Work work) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int rank = T::CLUSTER > 1 ? ptx::cluster_ctarank() : 0;
  const int clusters = gridDim.x / T::CLUSTER, tiles = work.tiles_m * work.tiles_n;
  const int slots = tile::ceil_div(work.k_blocks, T::HELD);
  const int begin = tile::share_begin(slots, rank, T::SPLIT);
  const int end = tile::share_begin(slots, rank + 1, T::SPLIT);
  if (threadIdx.x < T::DEPTH) {  // a thread each, since there may be many slots
    ptx::mbarrier_init(&smem.heads[threadIdx.x].full, block::PACKED_PRODUCERS);
    ptx::mbarrier_init(&smem.heads[threadIdx.x].empty, T::WARPGROUPS * 4);
    ptx::fence_mbarrier_init();  // before TMA counts bytes on them
  }
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_x);
    ptx::prefetch_tensormap(&map_scale);
    ptx::prefetch_tensormap(&map_d);
    ptx::mbarrier_init(&smem.summands, 1);
    if (T::SPLIT > 1) ptx::mbarrier_init(&smem.drained, T::FINISHERS * T::CONSUMERS * 4);
    ptx::fence_mbarrier_init();  // before peers' bytes are counted on them
    if (T::SPLIT > 1) ptx::mbarrier_arrive_expect_tx(&smem.summands, T::EXCHANGE_BYTES);
  }
  // Rows that a tile does not have are not fetched. wgmma reads them all the same: zeros.
  block::clear_missing_rows_of_x<T>(smem.slots, work.rows);
  if constexpr (T::CLUSTER == 1) ptx::bar_sync();  // before any thread uses the barriers
  if constexpr (T::CLUSTER > 1) ptx::barrier_cluster_sync_shared();
  ptx::griddepcontrol_wait();  // until here the kernel before may use what this one does
  ptx::griddepcontrol_launch_dependents();  // only now: three kernels would crowd each other

  if (threadIdx.x < 128) {
    // --- producers: a thread of each of four warps fills the ring --------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    const int warp = threadIdx.x / 32, row_blocks = tile::ceil_div(work.d_cols, T::WM);
    if (ptx::elect_sync()) {
      tile::RingState<T::DEPTH> ring;
      for (int t = blockIdx.x / T::CLUSTER; t < tiles; t += clusters) {
        const auto at = tile::grouped_raster(t, work.tiles_m, work.tiles_n, work.raster_group);
        for (int i = begin; i < end; ++i, ring.advance()) {
          auto& slot = smem.slots[ring.slot];
          auto& head = smem.heads[ring.slot];
          const int block = i * T::HELD;  // the slot's first 128 of K
          ptx::mbarrier_wait(&head.empty, ring.parity ^ 1);
          if (warp == 0) {
            block::load_weights<T>(slot, head, work.packed, row_blocks, work.k_blocks, at.m, block);
          }
          if (warp == 1) block::load_scales<T>(head, &map_scale, at.m, block);
          if (warp > 1) block::load_x<T>(slot, head, &map_x, work.rows, at.n, block, warp - 2);
        }
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies 64 rows of a tile, all of its K or a slice ---------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int warpgroup = block::consumer_of_warp<T>(), lane = ptx::mov_b32(threadIdx.x % 32);
    const int consumer = warpgroup % T::CONSUMERS, slice = warpgroup / T::CONSUMERS;
    const int first = slice * T::BLOCKS;         // of a slot's blocks: its own
    const bool stores = threadIdx.x % 128 == 0;  // starts the copies and waits for them
    // In a slot. Kept in registers: the compiler would work them out anew for each.
    const int own_piece =
        ptx::mov_b32((consumer * T::HELD + first) * T::PIECES * 128 + threadIdx.x % 128);
    const int own_row =
        ptx::mov_b32(consumer * T::WM + threadIdx.x % 128 / 32 * 16 + tile::acc_row(lane, 0));
    const uint64_t x_desc = tile::k_major_128b(ptx::cvta_to_shared(smem.slots[0].x));
    tile::RingState<T::DEPTH> ring;
    block::Fragments<T> fragments(consumer);
    for (int t = blockIdx.x / T::CLUSTER, turn = 0; t < tiles; t += clusters, ++turn) {
      const auto at = tile::grouped_raster(t, work.tiles_m, work.tiles_n, work.raster_group);
      float sum[T::BN / 2] = {}, part[T::BLOCKS][T::BN / 2] = {};  // D^T; of 128 of K, not scaled
      float scale[T::BLOCKS][2] = {};                              // of rows r and r + 8 of part
      auto* last = &smem.heads[0];                                 // of the slot before
      bool releases = false;     // no slot yet: then there are zeros to add
      const auto finish = [&] {  // the products of the last slot's last block
        ptx::wgmma_wait_group<0>();
        ptx::fence_proxy_async_shared_cta();  // TMA will overwrite what ld.shared has read
        ptx::bar_warp_sync();
        if (releases) ptx::mbarrier_arrive(&last->empty);
        releases = lane == 0;
        block::add_scaled<T>(sum, part[T::BLOCKS - 1], scale[T::BLOCKS - 1]);
      };
      const auto pieces = [&](int slot) { return smem.slots[slot].w[0][0][0] + own_piece; };
      const auto begin_slot = [&] {
        ptx::mbarrier_wait(&smem.heads[ring.slot].full, ring.parity);  // it has landed
        fragments.load(pieces(ring.slot), 0);
        if (T::C.ahead()) fragments.decode(0);
      };
      if (begin < end) begin_slot();
      for (int i = begin; i < end; ++i) {
        const int slot = ring.slot;
        const uint64_t desc =
            tile::advance(x_desc, slot * int{sizeof(smem.slots[0])} + first * T::X_BYTES);
        finish();
#pragma unroll
        for (int block = 0; block < T::BLOCKS; ++block) {
          fragments.multiply_block(part[block], pieces(slot), desc, block);
          block::scales_of_rows<T>(scale[block], smem.heads[slot], first + block, own_row);
        }
        if (T::BLOCKS > 1) ptx::wgmma_wait_group<2>();  // all but the second block's
        if (T::BLOCKS > 1) block::add_scaled<T>(sum, part[0], scale[0]);
        last = &smem.heads[slot];
        ring.advance();
        if (i + 1 < end) begin_slot();  // while the last half is multiplied
      }
      finish();
      block::times_unit<T>(sum);

      // --- epilogue ------------------------------------------------------------------------------
      if (T::SLICES > 1 && !block::add_slices<T>(sum, smem.parts, consumer, slice)) continue;
      float share[T::SHARE / 2];
      if constexpr (T::SPLIT > 1) {
        block::exchange_sums_again<T>(share, sum, smem.exchange, &smem.summands, &smem.drained,
                                      rank, turn, t + clusters < tiles);
        if (rank >= T::FINISHERS) continue;
      }
      const int col = at.m * T::BM + consumer * T::WM;  // of D: the first row of W
      const int row = at.n * work.rows + rank * T::SHARE;
      const int end_row = std::min(work.d_rows, row + work.box_rows);
      if (stores) ptx::cp_async_bulk_wait_group_read<0>();
      ptx::barrier_sync(1 + consumer, 128);  // the box may be reused
      if constexpr (T::SPLIT > 1) block::stage_transposed<T::SHARE>(share, smem.d[consumer]);
      if constexpr (T::SPLIT == 1) block::stage_transposed<T::SHARE>(sum, smem.d[consumer]);
      ptx::fence_proxy_async_shared_cta();  // TMA will read what stmatrix wrote
      ptx::barrier_sync(1 + consumer, 128);
      if (stores && row < end_row && col < work.d_cols / 8 * 8) {
        ptx::cp_async_bulk_tensor_2d_s2g(&map_d, col, row, smem.d[consumer].bytes);
        ptx::cp_async_bulk_commit_group();
      }
      if (threadIdx.x % 128 < 32) {
        block::store_last_columns(smem.d[consumer], work.d, work.ldd, row, col, end_row,
                                  work.d_cols);
      }
    }
    if (stores) ptx::cp_async_bulk_wait_group_read<0>();  // before shared memory is gone
  }
}

template <class T>
void launch(const MixedArgs& g) {
  const int at_once = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  const int tiles_n = tile::ceil_div(g.m, T::BN), tiles_m = tile::ceil_div(g.n, T::BM);
  const int rows = tile::rows_of_tile(g.m, T::BN, tiles_n, T::SPLIT);
  const Work work = {.packed = static_cast<const unsigned char*>(g.packed),
                     .d = g.d,
                     .ldd = g.ldd,
                     .d_rows = g.m,
                     .d_cols = g.n,
                     .k_blocks = tile::ceil_div(g.k, T::BK),
                     .rows = rows,
                     .box_rows = std::min(rows, int{T::SHARE}),
                     .tiles_m = tiles_m,
                     .tiles_n = tiles_n,
                     .raster_group = tile::raster_group(T::BM, rows, at_once)};
  const CUtensorMap map_x = ladder::tensor_map_2d(g.a, g.m, g.k, g.lda, rows, 64);
  const CUtensorMap map_scale =
      ladder::tensor_map_2d(g.scale, work.k_blocks, g.n, g.ld_scale, 1, T::BM);
  const int whole = std::max(1, g.n / 8 * 8);  // TMA must not write beyond column n
  const CUtensorMap map_d = ladder::tensor_map_2d(g.d, g.m, whole, g.ldd, work.box_rows, T::WM);
  ladder::allow_smem(gemm<T>, sizeof(Smem<T>));
  const int tiles = tiles_m * tiles_n, clusters = std::min(tiles, at_once);
  // Wide tiles wait for the tensor cores, as bf16 weights would: fewer bytes do not help them.
  const bool early = T::BN <= 64 || ladder::starts_early<T>(tiles, at_once, g.m, g.n, g.k);
  const ladder::Launch config(clusters * T::CLUSTER, T::THREADS, sizeof(Smem<T>), T::CLUSTER, early,
                              g);
  ladder::check_cuda(cudaLaunchKernelEx(&config.config, gemm<T>, map_x, map_scale, map_d, work),
                     "launch of mixed_input::gemm");
}

// By the cost model, in microseconds.
template <class T>
double predicted_us(const MixedArgs& g) {
  const tile::Gpu gpu = ladder::gpu();
  const int at_once = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  return tile::predicted_clocks(T::C, T::BITS, g.m, g.n, g.k, at_once, gpu) / gpu.mhz;
}

template <int BITS, int ROW>
ladder::Variant variant() {
  constexpr tile::MixedTile C = tile::MIXED_TILES[ROW];
  using T = Tile<BITS, C.consumers, C.bn, C.split, C.slices, C.ctas>;
  return {.name = BITS == 8 ? C.name_8 : C.name_4,
          .what = T::SPLIT > 1 ? "K split in a cluster" : "whole tiles",
          .kernel = ladder::transposed_kernel<T>(launch<T>, gemm<T>, sizeof(Smem<T>)),
          .configuration = true,
          .predicted_us = predicted_us<T>,
          .takes = +[](const MixedArgs& g) { return g.bits == BITS; }};
}

const std::vector<ladder::Variant>& kernels() {
  constexpr int ROWS = std::size(tile::MIXED_TILES);  // of 8 bits, then of 4
  static const auto all = ladder::variant_of_each<2 * ROWS>(
      [](auto i) { return variant<(i < ROWS ? 8 : 4), i % ROWS>(); });
  return all;
}

static const ladder::Registrar registrar(__FILE__, "weights of 8 or 4 bits, decoded on the way",
                                         ladder::with_chooser<kernels, MixedArgs>());

}  // namespace mixed_input
