// Rung 15: weights of 8 or 4 bits, decoded on their way to the tensor cores.
//
// Idea       wgmma takes its A operand from registers: D^T = W · X^T, and a thread decodes its own
//            fragments of W to bf16 by a few bit operations, while the fragments before are
//            multiplied. Sums of 128 of K are scaled in fp32, so that nothing is rounded.
// Limited by the bytes of bf16 weights, where tokens are few: twice or four times what is needed.
// New PTX    wgmma with A in registers, cp.async.bulk of bytes in a row, lop3, sub.bf16x2
// Tile       of D^T, 128 or 256 columns of D x 8 to 176 rows, 128 of K: common/tile/mixed_tiles.h
// Grown from stages/12_stream_k.cu
// Read       docs/15_mixed_input.md
#include <algorithm>
#include <iterator>
#include <vector>

#include "common/block/decode_weights.cuh"
#include "common/block/exchange_sums.cuh"
#include "common/block/stage_transposed.cuh"
#include "common/block/store_last_columns.cuh"
#include "common/host/configurations.h"
#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/launch.h"
#include "common/host/mixed.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/bulk.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/fma.cuh"
#include "common/ptx/griddepcontrol.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/ptx/wgmma_rs.cuh"
#include "common/tile/descriptor.h"
#include "common/tile/fragment.h"
#include "common/tile/math.h"
#include "common/tile/mixed_tiles.h"
#include "common/tile/packed_weights.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"

namespace mixed_input {

using ladder::bf16;
using ladder::MixedArgs;

// Of D^T = W · X^T: the tile's rows are rows of W, its columns, which may be few, rows of X.
template <int BITS_, int CONSUMERS_, int BN_, int SPLIT_, int CTAS_>
struct Tile {
  static constexpr int BITS = BITS_, CONSUMERS = CONSUMERS_;  // of a weight; warpgroups
  static constexpr int WM = tile::PACKED_ROWS, BM = CONSUMERS * WM, BN = BN_;
  static constexpr int BK = tile::PACKED_K, STEPS = BK / 16;  // K of a scale; wgmma
  static constexpr int THREADS = 128 + CONSUMERS * 128;       // warpgroup 0: producer
  static constexpr int SPLIT = SPLIT_, CLUSTER = SPLIT;       // CTAs that share a tile's K
  static constexpr int CTAS = CTAS_;                          // of an SM, at a time
  static constexpr int SHARERS = 1;                           // of rows: none but itself
  static constexpr int W_BYTES = tile::packed_block_bytes(BITS), ROW_BYTES = 128;
  static constexpr int HALF_BYTES = BN * ROW_BYTES, X_BYTES = 2 * HALF_BYTES;  // 64 of K; 128
  static constexpr int PIECES = W_BYTES / 128 / 16;  // of a thread, 16 bytes each
  // wgmma whose weights are decoded at a time; registers for so many of these units; and whether a
  // block's first is decoded before the block in front has been added up, for which narrow tiles
  // have other warps.
  static constexpr int UNIT = 2, UNITS = STEPS / UNIT,
                       SETS = BN > 64 || (CONSUMERS > 2 && BN > 8) ? 2 : 4;
  static constexpr bool AHEAD = BN >= 64;
  // Of a tile that the cluster splits, CTA i finishes SHARE columns, from i * SHARE on.
  static constexpr int FINISHERS = tile::sharers_of(BN / 8, SPLIT), SHARE = BN / FINISHERS;
  static constexpr int EXCHANGE_BYTES = SPLIT > 1 ? SPLIT* BM* SHARE* int{sizeof(float)} : 0;
  static constexpr int BOXES_BYTES = CONSUMERS * SHARE * WM * int{sizeof(bf16)};
  static constexpr int SMEM_BYTES = (tile::MAX_SMEM_BYTES + 1024) / CTAS - 1024;  // that CTAs fit
  static constexpr int SLOT_BYTES = CONSUMERS * (W_BYTES + ROW_BYTES) + X_BYTES;
  static constexpr int DEPTH =
      std::min(24, (SMEM_BYTES - EXCHANGE_BYTES - BOXES_BYTES - 2048) / SLOT_BYTES);
  // A CTA keeps the registers of its launch, and its warpgroups share them out anew.
  static constexpr int REGS = std::min(255, 65536 / (CTAS * THREADS)) / 8 * 8;
  static constexpr int PRODUCER_REGS = REGS < 80 ? 24 : 40;
  static constexpr int CONSUMER_REGS =
      std::min(240, (REGS * THREADS / 128 - PRODUCER_REGS) / CONSUMERS / 8 * 8);
  static_assert(DEPTH >= 3, "three slots: one multiplied, one landing, one asked for");
  static_assert(SPLIT == 1 || SHARE % 8 == 0, "sums are exchanged 8 columns wide");
};

template <class T>
struct alignas(1024) Smem {
  tile::SmemTile<bf16, T::DEPTH * T::CONSUMERS, 64> scale;  // of a consumer's 64 rows each
  tile::SmemTile<bf16, T::BN, 64> x[T::DEPTH][2];           // 64 of K each
  uint4 w[T::DEPTH][T::CONSUMERS][T::PIECES][128];          // a thread's pieces
  tile::SmemTile<bf16, T::SHARE, T::WM> d[T::CONSUMERS];
  float4 exchange[T::EXCHANGE_BYTES / 16 + 1];  // [SPLIT][SHARE / 8][consumer threads]
  uint64_t summands;                            // they are here: EXCHANGE_BYTES
  uint64_t full[T::DEPTH];                      // the producers' arrivals, and a slot's bytes
  uint64_t empty[T::DEPTH];                     // one arrival a consumer warp
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

// What each of the producers brings of a slot: 128 of K, of the tile's rows of W or of X. Small
// copies cost TMA and who asks for them a fixed time: three ask at a time.
constexpr int PRODUCERS = 3;

template <class T>
__device__ void load_weights(Smem<T>& smem, int slot, const Work& work, int tile_m, int block) {
  ptx::mbarrier_arrive_expect_tx(&smem.full[slot], T::CONSUMERS * T::W_BYTES);
  const int last = tile::ceil_div(work.d_cols, T::WM) - 1;
  for (int i = 0; i < T::CONSUMERS; ++i) {
    // Instead of a row block that is not there the last one again: nobody stores it.
    const int row_block = std::min(tile_m * T::CONSUMERS + i, last);
    const long long offset = (1LL * row_block * work.k_blocks + block) * T::W_BYTES;
    ptx::cp_async_bulk_g2s(smem.w[slot][i], work.packed + offset, T::W_BYTES, &smem.full[slot]);
  }
}

template <class T>
__device__ void load_scales(Smem<T>& smem, int slot, const CUtensorMap* map, int tile_m,
                            int block) {
  ptx::mbarrier_arrive_expect_tx(&smem.full[slot], T::CONSUMERS * T::ROW_BYTES);
  for (int i = 0; i < T::CONSUMERS; ++i) {
    ptx::cp_async_bulk_tensor_2d_g2s(smem.scale.from_row(slot * T::CONSUMERS + i), map,
                                     tile_m * T::BM + i * T::WM, block, &smem.full[slot]);
  }
}

template <class T>
__device__ void load_x(Smem<T>& smem, int slot, const CUtensorMap* map, int rows, int tile_n,
                       int block) {
  ptx::mbarrier_arrive_expect_tx(&smem.full[slot], 2 * rows * T::ROW_BYTES);
  for (int i = 0; i < 2; ++i) {
    ptx::cp_async_bulk_tensor_2d_g2s(smem.x[slot][i].bytes, map, block * T::BK + i * 64,
                                     tile_n * rows, &smem.full[slot]);
  }
}

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
  const int begin = tile::share_begin(work.k_blocks, rank, T::SPLIT);
  const int end = tile::share_begin(work.k_blocks, rank + 1, T::SPLIT);
  if (threadIdx.x < T::DEPTH) {  // a thread each, since there may be many slots
    ptx::mbarrier_init(&smem.full[threadIdx.x], PRODUCERS);
    ptx::mbarrier_init(&smem.empty[threadIdx.x], T::CONSUMERS * 4);
    ptx::fence_mbarrier_init();  // before TMA counts bytes on them
  }
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_x);
    ptx::prefetch_tensormap(&map_scale);
    ptx::prefetch_tensormap(&map_d);
    ptx::mbarrier_init(&smem.summands, 1);
    ptx::fence_mbarrier_init();  // before peers' bytes are counted on them
    if (T::SPLIT > 1) ptx::mbarrier_arrive_expect_tx(&smem.summands, T::EXCHANGE_BYTES);
  }
  // Rows that a tile does not have are not fetched. wgmma reads them all the same: zeros.
  const int missing = (T::BN - work.rows) * T::ROW_BYTES / 16;  // chunks of half a slot
  for (int i = threadIdx.x; i < missing * 2 * T::DEPTH; i += T::THREADS) {
    const int half = i / missing;
    unsigned char* first = smem.x[half / 2][half % 2].bytes + work.rows * T::ROW_BYTES;
    ptx::st_shared_v4_b32(first + i % missing * 16, uint4{});
  }
  ptx::bar_warp_sync();                            // lanes may have parted in the loop
  ptx::fence_proxy_async_shared_cta();             // before wgmma reads them
  ptx::griddepcontrol_launch_dependents();         // the next kernel may take SMs as they fall free
  if constexpr (T::CLUSTER == 1) ptx::bar_sync();  // before any thread uses the barriers
  if constexpr (T::CLUSTER > 1) ptx::barrier_cluster_sync();
  ptx::griddepcontrol_wait();  // until here the kernel before may use what this one does

  if (threadIdx.x < 128) {
    // --- producers: a thread each of three warps fills the ring ---------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    const int warp = threadIdx.x / 32;
    if (warp < PRODUCERS && ptx::elect_sync()) {
      tile::RingState<T::DEPTH> ring;
      for (int t = blockIdx.x / T::CLUSTER; t < tiles; t += clusters) {
        const tile::TileCoord at =
            tile::grouped_raster(t, work.tiles_m, work.tiles_n, work.raster_group);
        for (int block = begin; block < end; ++block, ring.advance()) {
          ptx::mbarrier_wait(&smem.empty[ring.slot], ring.parity ^ 1);
          if (warp == 0) load_weights<T>(smem, ring.slot, work, at.m, block);
          if (warp == 1) load_scales<T>(smem, ring.slot, &map_scale, at.m, block);
          if (warp == 2) load_x<T>(smem, ring.slot, &map_x, work.rows, at.n, block);
        }
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its 64 rows of a tile ------------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int group = threadIdx.x / 128 - 1, lane = threadIdx.x % 32;
    const bool stores = threadIdx.x % 128 == 0;   // starts the copies and waits for them
    const int row8 = threadIdx.x % 128 / 32 * 2;  // the first of the warp's two times 8 rows
    const uint64_t x_desc = tile::k_major_128b(ptx::cvta_to_shared(smem.x[0][0].bytes));
    tile::RingState<T::DEPTH> ring;
    block::Fragments<T> fragments;
    for (int t = blockIdx.x / T::CLUSTER; t < tiles; t += clusters) {
      const tile::TileCoord at =
          tile::grouped_raster(t, work.tiles_m, work.tiles_n, work.raster_group);
      const int col = at.m * T::BM + group * T::WM;     // of D: the warpgroup's first row of W
      float sum[T::BN / 2] = {}, part[T::BN / 2] = {};  // D^T [64][BN]; of 128 of K, not scaled
      float scale[2] = {};                              // of rows r and r + 8 of part
      int last_slot = -1;                               // none yet: then there are zeros to add
      const auto finish = [&] {                         // the products of the last slot
        ptx::wgmma_wait_group<0>();
        ptx::fence_proxy_async_shared_cta();  // TMA will overwrite what ld.shared has read
        ptx::bar_warp_sync();
        if (lane == 0 && last_slot >= 0) ptx::mbarrier_arrive(&smem.empty[last_slot]);
#pragma unroll
        for (int i = 0; i < T::BN / 2; ++i) {
          sum[i] = ptx::fma_rn_f32(part[i], scale[i % 4 / 2], sum[i]);
        }
      };
      const auto begin_block = [&] {
        ptx::mbarrier_wait(&smem.full[ring.slot], ring.parity);  // it has landed
        fragments.load(smem.w[ring.slot][group], 0);
        if (T::AHEAD) fragments.decode(0);
      };
      if (begin < end) begin_block();
      for (int block = begin; block < end; ++block) {
        const int slot = ring.slot;
        const uint64_t desc = tile::advance(x_desc, slot * T::X_BYTES);
        finish();
        if (!T::AHEAD) fragments.decode(0);
        fragments.load(smem.w[slot][group], 1);
        fragments.multiply(part, desc, 0);
#pragma unroll
        for (int unit = 1; unit < T::UNITS; ++unit) {
          if (unit + 1 < T::UNITS) fragments.load(smem.w[slot][group], unit + 1);
          fragments.decode(unit);
          fragments.multiply(part, desc, unit);
        }
        for (int i = 0; i < 2; ++i) {
          const unsigned char* chunk = smem.scale.at(slot * T::CONSUMERS + group, row8 + i);
          scale[i] = ptx::cvt_f32_bf16(ptx::ld_shared_b16(chunk + tile::acc_row(lane, 0) * 2));
        }
        last_slot = slot;
        ring.advance();
        if (block + 1 < end) begin_block();  // while the last unit is multiplied
      }
      finish();

      // --- epilogue ------------------------------------------------------------------------------
      float share[T::SHARE / 2];
      if constexpr (T::SPLIT > 1) {
        block::exchange_sums<T>(share, sum, smem.exchange, &smem.summands, rank);
        if (rank >= T::FINISHERS) continue;
      }
      const int row = at.n * work.rows + rank * T::SHARE;
      const int end_row = std::min(work.d_rows, row + work.box_rows);
      if (stores) ptx::cp_async_bulk_wait_group_read<0>();
      ptx::barrier_sync(1 + group, 128);  // the box may be reused
      if constexpr (T::SPLIT > 1) block::stage_transposed<T::SHARE>(share, smem.d[group]);
      if constexpr (T::SPLIT == 1) block::stage_transposed<T::SHARE>(sum, smem.d[group]);
      ptx::fence_proxy_async_shared_cta();  // TMA will read what stmatrix wrote
      ptx::barrier_sync(1 + group, 128);
      if (stores && row < end_row && col < work.d_cols / 8 * 8) {
        ptx::cp_async_bulk_tensor_2d_s2g(&map_d, col, row, smem.d[group].bytes);
        ptx::cp_async_bulk_commit_group();
      }
      if (threadIdx.x % 128 < 32) {
        block::store_last_columns(smem.d[group], work.d, work.ldd, row, col, end_row, work.d_cols);
      }
    }
    if (stores) ptx::cp_async_bulk_wait_group_read<0>();  // before shared memory is gone
  }
  // No CTA exits while a peer can still write or arrive there.
  if constexpr (T::CLUSTER > 1) ptx::barrier_cluster_sync();
}

template <class T>
void launch(const MixedArgs& g) {
  const int at_once = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  const int tiles_n = tile::ceil_div(g.m, T::BN), tiles_m = tile::ceil_div(g.n, T::BM);
  // As many rows in each tile, since a row that is not there costs more than one that is. Where a
  // cluster's CTAs finish a tile by columns, it must be whole.
  const int rows = T::SPLIT > 1 ? std::min(T::BN, g.m) : tile::ceil_div(g.m, tiles_n);
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
      ladder::tensor_map_2d(g.scale, work.k_blocks, g.n, g.ld_scale, 1, T::WM);
  const int whole = std::max(1, g.n / 8 * 8);  // TMA must not write beyond column n
  const CUtensorMap map_d = ladder::tensor_map_2d(g.d, g.m, whole, g.ldd, work.box_rows, T::WM);
  ladder::allow_smem(gemm<T>, sizeof(Smem<T>));
  const int tiles = tiles_m * tiles_n, clusters = T::SPLIT > 1 ? tiles : std::min(tiles, at_once);
  const double bytes = 1.0 * g.n * g.k * T::BITS / 8 + 2.0 * g.m * g.k;
  const bool early = T::BN <= 64 || T::SPLIT > 1 ||
                     tile::starts_early(ladder::gpu(), tiles, at_once, T::CTAS, 0, bytes);
  const ladder::Launch config(clusters * T::CLUSTER, T::THREADS, sizeof(Smem<T>), T::CLUSTER, early,
                              g.stream);
  ladder::check_cuda(cudaLaunchKernelEx(&config.config, gemm<T>, map_x, map_scale, map_d, work),
                     "launch of mixed_input::gemm");
}

// By the cost model, in microseconds.
template <class T, int ROW>
double predicted_us(const MixedArgs& g) {
  if (g.bits != T::BITS) return tile::NEVER_MIXED;
  const tile::Gpu gpu = ladder::gpu();
  const int at_once = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  return tile::predicted_clocks(tile::MIXED_TILES[ROW], T::BITS, g.m, g.n, g.k, at_once, gpu) /
         gpu.mhz;
}

template <int BITS, int ROW>
ladder::Variant variant() {
  constexpr tile::MixedTile C = tile::MIXED_TILES[ROW];
  using T = Tile<BITS, C.consumers, C.bn, C.split, C.ctas>;
  return {.name = BITS == 8 ? C.name_8 : C.name_4,
          .what = T::SPLIT > 1 ? "K split in a cluster" : "whole tiles",
          .kernel = {.launch = launch<T>,
                     .function = reinterpret_cast<const void*>(gemm<T>),
                     .bm = T::BN,
                     .bn = T::BM,
                     .bk = T::BK,
                     .depth = T::DEPTH,
                     .threads = T::THREADS,
                     .smem_bytes = sizeof(Smem<T>),
                     .regs_dec = T::PRODUCER_REGS,
                     .regs_inc = T::CONSUMER_REGS,
                     .persistent = T::SPLIT == 1,
                     .cluster_n = T::SPLIT},
          .configuration = true,
          .predicted_us = predicted_us<T, ROW>,
          .takes = +[](const MixedArgs& g) { return g.bits == BITS; }};
}

const std::vector<ladder::Variant>& configurations() {
  static const auto all = [] {
    constexpr int ROWS = std::size(tile::MIXED_TILES);
    auto both = ladder::variant_of_each<ROWS>([](auto row) { return variant<8, row>(); });
    const auto more = ladder::variant_of_each<ROWS>([](auto row) { return variant<4, row>(); });
    both.insert(both.end(), more.begin(), more.end());
    return both;
  }();
  return all;
}

static std::vector<ladder::Variant> registered() {
  std::vector<ladder::Variant> all = configurations();
  const auto choose = +[](const MixedArgs& g) -> const ladder::Variant& {
    return *ladder::least_predicted(configurations(), g);
  };
  all.insert(all.begin(),
             ladder::chooser_among("auto", "chosen by the cost model", configurations(), choose)
                 .as_result());
  return all;
}

static const ladder::Registrar registrar(__FILE__, "weights of 8 or 4 bits, decoded on the way",
                                         registered());

}  // namespace mixed_input
