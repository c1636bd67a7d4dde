// Rung 16: many products in one launch, of sizes that only the GPU knows.
//
// Idea       one persistent grid walks the tiles of all groups; how many rows a group has is read
//            on the device, so that no CPU waits for it and a graph can be replayed with others.
// Limited by launches: one for each group leaves most of the GPU idle where groups are short.
// New PTX    cp.async.bulk.tensor.3d: B of a group, and rows of D that end where the group does;
//            for the same, tensormap.replace and .cp_fenceproxy, fence.proxy.tensormap
// Tile       per shape: the tables in common/tile/grouped.h
// Grown from stages/14_block_scaled.cu
// Read       docs/16_grouped.md
#include <algorithm>
#include <numeric>
#include <type_traits>

#include "common/block/find_groups.cuh"
#include "common/block/grouped_tile.cuh"
#include "common/block/init_barriers.cuh"
#include "common/block/own_map.cuh"
#include "common/block/stage_tile.cuh"
#include "common/host/configurations.h"
#include "common/host/error.h"
#include "common/host/grouped.h"
#include "common/host/launch.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/griddepcontrol.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/tma_3d.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/fragment.h"
#include "common/tile/grouped.h"
#include "common/tile/math.h"
#include "common/tile/registers.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"

namespace grouped {

using ladder::bf16;
using ladder::GroupedArgs;

// SCALED: of e4m3 with scales, promoted every 128 of K; else bf16. REPLACES: a storer ends D's map.
template <class In_, int CONSUMERS_, int BLOCKS_, int BN_, bool REPLACES_ = false>
struct Tile {
  using In = In_;
  using Sum = float;  // of the tensor cores
  using MapD = std::conditional_t<REPLACES_, block::MapToReplace, CUtensorMap>;
  static constexpr bool SCALED = std::is_same_v<In, ladder::e4m3>, REPLACES = REPLACES_;
  static constexpr tile::GemmConfig C = {"", CONSUMERS_, BLOCKS_, BN_};
  static constexpr int CONSUMERS = CONSUMERS_, BLOCKS = BLOCKS_;  // warpgroups, 64 rows of each
  static constexpr int WM = 64, BM = C.bm(), BN = BN_;            // WM: rows of a block
  static constexpr int BK = 128 / int{sizeof(In)};                // a row of a slot is 128 bytes
  static constexpr int THREADS = 128 + CONSUMERS * 128;           // warpgroup 0: producer, storers
  static constexpr int CLUSTER_M = 1, CLUSTER_N = 1, CLUSTER = 1;
  static constexpr int BOX = std::gcd(BN, 64), BOXES = BN / BOX;  // of a block: 64 x BOX each
  static constexpr int BUFFERS = tile::grouped_staging_buffers(C, SCALED);
  static constexpr int DEPTH = tile::grouped_ring_slots(C, SCALED, BUFFERS);  // what then fits
  static constexpr int SCALE_BLOCK = ladder::SCALE_BLOCK, SPAN = std::gcd(BN, SCALE_BLOCK);
  // TMA reads scales from a multiple of four rows on, a group begins at any: up to three before it.
  static constexpr int SCALES = BLOCKS * WM + 4, SCALES_PITCH = tile::grouped_scale_floats(C);
  static constexpr int SCALES_BYTES = SCALED ? SCALES * int{sizeof(float)} : 0;  // of a consumer
  static constexpr int ACCUMULATORS = (BLOCKS + SCALED) * BN / 2;                // and sums
  static constexpr bool WIDE = ACCUMULATORS == 192;
  static constexpr int PRODUCER_REGS = WIDE ? 40 : 56;
  static constexpr int CONSUMER_REGS = tile::consumer_regs(THREADS, 1, PRODUCER_REGS);
  static_assert(DEPTH >= 3, "three slots: one multiplied, one landing, one asked for");
  static_assert(BN % 16 == 0, "stmatrix.x4 stages 16 columns");
  static_assert(!SCALED || BN <= SCALE_BLOCK + SPAN, "a tile lies in two blocks of columns");
  static_assert(ACCUMULATORS + 22 <= CONSUMER_REGS, "accumulators, sums, 22 registers");
};

template <class T>
struct alignas(1024) Smem {
  tile::SmemTile<typename T::In, T::BM, T::BK> a[T::DEPTH];
  tile::SmemTile<typename T::In, T::BN, T::BK> b[T::DEPTH];
  tile::SmemTile<bf16, T::WM, T::BOX> d[T::CONSUMERS][T::BUFFERS][T::BOXES];
  alignas(128) float scale_a[T::SCALED ? T::DEPTH : 0][T::CONSUMERS][T::SCALES_PITCH];
  alignas(128) CUtensorMap own_maps[T::REPLACES ? T::CONSUMERS : 0];
  tile::GroupTable groups;                    // those that have rows
  uint64_t full[T::DEPTH];                    // the producer's arrival, and a slot's bytes
  uint64_t empty[T::DEPTH];                   // one arrival a consumer warp
  uint64_t staged[T::CONSUMERS][T::BUFFERS];  // boxes are written: one arrival a warp
  uint64_t stored[T::CONSUMERS][T::BUFFERS];  // TMA has read them: the storer's arrival
};

template <class T>
__global__ __launch_bounds__(T::THREADS, 1) void gemm(
    const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
    const __grid_constant__ CUtensorMap map_scale, const __grid_constant__ typename T::MapD map_d,
    const tile::Grouping grouping, const float* scale_b, long long ld_scale_b, bf16* d,
    long long ldd, int n, int k, int raster_group, int* error_flag) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int k_tiles = tile::ceil_div(k, T::BK);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    ptx::prefetch_tensormap(&map_scale);
    ptx::prefetch_tensormap(&map_d);
    block::init_barriers<T>(smem.full, smem.empty, T::CONSUMERS * 4, smem.staged, smem.stored);
  }
  ptx::griddepcontrol_wait();  // until here the kernel before may use sizes, operands and D
  if (threadIdx.x < 32) {
    const int bad = block::find_groups<T>(smem.groups, grouping, n);
    if (blockIdx.x + threadIdx.x == 0 && error_flag) ptx::st_global_s32(error_flag, bad);
  }
  ptx::bar_sync();  // before any thread uses the barriers, or looks for its tiles
  const block::GroupTiles<T> tiles({&smem.groups}, n, raster_group, blockIdx.x, gridDim.x);

  if (threadIdx.x < 128) {
    // --- producer: one thread of warp 0 fills the ring -------------------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      tile::RingState<T::DEPTH> ring;
      for (auto t = tiles; t.has(); t.next()) {
        const auto at = t.tile();
        const int blocks = at.blocks(0, T::BM / T::WM);  // those behind the group's end stay away
        const int bytes = (T::BN + blocks * T::WM) * 128 + T::CONSUMERS * T::SCALES_BYTES;
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          ptx::mbarrier_wait(&smem.empty[ring.slot], ring.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, bytes);
          ptx::cp_async_bulk_tensor_3d_g2s(smem.b[ring.slot].bytes, &map_b, k_tile * T::BK, at.n0,
                                           at.group, full);
          for (int i = 0; i < blocks; ++i) {
            const int row = at.m0 + i * T::WM, rows = min(T::WM, at.end - row);
            ptx::cp_async_bulk_tensor_3d_g2s(smem.a[ring.slot].from_row(i * T::WM), &map_a,
                                             k_tile * T::BK, T::WM - rows, row + rows, full);
          }
          for (int i = 0; T::SCALED && i < T::CONSUMERS; ++i) {
            ptx::cp_async_bulk_tensor_2d_g2s(smem.scale_a[ring.slot][i], &map_scale,
                                             at.m0 / 4 * 4 + i * T::BLOCKS * T::WM, k_tile, full);
          }
        }
      }
      ptx::griddepcontrol_launch_dependents();  // the next kernel may take SMs as they fall free
    }
    // --- storers: warp 1 + i sends what consumer i has staged ------------------------------------
    const int storer = threadIdx.x / 32 - 1;
    if (storer >= 0 && storer < T::CONSUMERS) {
      const bool leader = threadIdx.x % 32 == 0;  // starts the copies and waits for them
      auto own = block::own_map<T>(map_d, smem.own_maps, storer);
      tile::RingState<T::BUFFERS> out;
      for (auto t = tiles; t.has(); t.next()) {
        const auto at = t.tile();
        int row = at.m0 + storer * T::BLOCKS * T::WM;
        for (int i = 0; i < T::BLOCKS && row < at.end; ++i, row += T::WM, out.advance()) {
          const int rows = min(T::WM, at.end - row);  // those behind it are another group's
          const auto& boxes = smem.d[storer][out.slot];
          block::replace_rows(own, d + at.m0 * ldd, at.end - at.m0);  // while products run
          ptx::mbarrier_wait(&smem.staged[storer][out.slot], out.parity);
#pragma unroll 1
          for (int box = 0; leader && box < T::BOXES && at.n0 + box * T::BOX < n / 8 * 8; ++box) {
            const int col = at.n0 + box * T::BOX;
            if constexpr (T::REPLACES) {
              ptx::cp_async_bulk_tensor_2d_s2g(own.map, col, row - at.m0, boxes[box].bytes);
            } else {
              ptx::cp_async_bulk_tensor_3d_s2g(&map_d, col, T::WM - rows, row + rows,
                                               boxes[box].bytes);
            }
            ptx::cp_async_bulk_commit_group();
            ptx::cp_async_bulk_wait_group_read<0>();  // one at a time: loads pass in between
          }
          block::store_last_of_rows<T>(boxes, d + row * ldd, ldd, at.n0, rows, n);
          ptx::bar_warp_sync();  // the leader speaks for all
          if (leader) ptx::mbarrier_arrive(&smem.stored[storer][out.slot]);
        }
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its blocks of 64 rows ------------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    // Kept in a register: the compiler would work it out anew, and wait for that, at every use.
    Smem<T>& smem = *reinterpret_cast<Smem<T>*>(ptx::mov_b64(smem_bytes));
    const int consumer = block::consumer_of_warp<T>(), lane = threadIdx.x % 32;
    const int thread_m = threadIdx.x / 32 % 4 * 16 + tile::acc_row(lane, 0);  // of a block
    float acc[T::BLOCKS][T::BN / 2];  // D [BLOCKS][64][BN] of the warpgroup
    tile::RingState<T::DEPTH> ring;
    tile::RingState<T::BUFFERS> out;
    bool landed = false;
    const auto release = [&] {
      if (lane == 0) ptx::mbarrier_arrive(&smem.empty[ring.slot]);
      ring.advance();  // and look there early: the answer comes while sums are promoted
      landed = ptx::mbarrier_test_wait_parity(&smem.full[ring.slot], ring.parity);
    };
    block::ScalesOfGroups<T> scales_b{scale_b, ld_scale_b, n};
    scales_b.go_to(tiles);
    for (auto t = tiles; t.has();) {
      const auto at = t.tile();
      const int blocks = at.blocks(consumer * T::BLOCKS, T::BLOCKS);
      const int rows = at.end - at.m0 - consumer * T::BLOCKS * T::WM;  // from its first one on
      if (T::SCALED) block::clear<T>(acc);
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        if (!landed) ptx::mbarrier_wait(&smem.full[ring.slot], ring.parity);  // the tile has landed
        const int slot = ring.slot;
        const unsigned char* const a = smem.a[slot].from_row(consumer * T::BLOCKS * T::WM);
        if (blocks == 0) {       // the group ends before its rows
          ptx::bar_warp_sync();  // as wgmma would: no lane is a lap behind lane 0
          release();
        } else if constexpr (T::SCALED) {
          const float* const scale_a = &smem.scale_a[slot][consumer][at.m0 % 4];
          block::multiply_and_promote<T>(acc, a, smem.b[slot].bytes, scale_a, thread_m, rows,
                                         blocks, scales_b, k_tile, k_tiles, release);
        } else {
          block::multiply_blocks<T>(acc, a, smem.b[slot].bytes, blocks, k_tile > 0, release);
        }
      }
      t.next();
      scales_b.go_to(t);  // its first come during the epilogue

      // --- epilogue ------------------------------------------------------------------------------
#pragma unroll
      for (int i = 0; i < T::BLOCKS && i < blocks; ++i, out.advance()) {
        ptx::mbarrier_wait(&smem.stored[consumer][out.slot], out.parity ^ 1);  // its boxes are read
        block::stage_tile(acc[i], smem.d[consumer][out.slot]);
        ptx::fence_proxy_async_shared_cta();  // TMA will read what stmatrix wrote
        ptx::bar_warp_sync();
        if (lane == 0) ptx::mbarrier_arrive(&smem.staged[consumer][out.slot]);
      }
    }
  }
}

template <class T>
void launch(const GroupedArgs& g) {
  const auto* const a = static_cast<const typename T::In*>(g.a);
  const auto* const b = static_cast<const typename T::In*>(g.b);
  const int rows = static_cast<int>(g.all_rows());
  const CUtensorMap map_a = ladder::tensor_map_of_rows(a, rows, g.k, g.lda, T::WM, T::BK);
  const long long next_group = g.groups > 1 ? g.n * g.ldb : g.ldb;  // of one it is not used
  const CUtensorMap map_b =
      ladder::tensor_map_3d(b, g.groups, g.n, g.k, next_group, g.ldb, T::BN, T::BK);
  const CUtensorMap map_scale = T::SCALED
                                    ? ladder::tensor_map_2d(g.scale_a, tile::ceil_div(g.k, T::BK),
                                                            rows, g.ld_scale_a, 1, T::SCALES)
                                    : map_a;
  const int whole = std::max(1, g.n / 8 * 8);  // TMA must not write beyond column n
  typename T::MapD map_d;
  if constexpr (T::REPLACES) {
    map_d = {ladder::tensor_map_2d(g.d, rows, whole, g.ldd, T::WM, T::BOX), g.scratch()};
  } else {
    map_d = ladder::tensor_map_of_rows(g.d, rows, whole, g.ldd, T::WM, T::BOX);
  }
  ladder::allow_smem(gemm<T>, sizeof(Smem<T>));
  const int at_once = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  const int most = tile::most_tiles(T::C, g.grouping(), g.n);
  const ladder::Launch config(std::min(most, at_once), T::THREADS, sizeof(Smem<T>), T::CLUSTER,
                              true, g);
  ladder::check_cuda(cudaLaunchKernelEx(&config.config, gemm<T>, map_a, map_b, map_scale, map_d,
                                        g.grouping(), g.scale_b, g.ld_scale_b, g.d, g.ldd, g.n, g.k,
                                        tile::raster_group(T::BM, T::BN, at_once), g.error_flag),
                     "launch of grouped::gemm");
}

// By the cost model, in microseconds.
template <class T>
double predicted_us(const GroupedArgs& g) {
  const tile::Gpu gpu = ladder::gpu();
  const int ctas = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  const double rows = (g.masked != 0 ? 0.5 : 1.0) * g.all_rows();  // a guess: half the room is used
  return tile::grouped_clocks(T::C, T::SCALED, g.groups, rows, g.n, g.k, ctas, gpu) / gpu.mhz;
}

template <class T>
ladder::Variant variant(const char* name) {
  return {.name = name,
          .what = T::REPLACES ? "tensormap.replace ends D's map" : "one grid for all groups",
          .kernel = ladder::persistent_kernel<T>(launch<T>, gemm<T>, sizeof(Smem<T>)),
          .configuration = !T::REPLACES,
          .predicted_us = T::REPLACES ? ladder::CallFunction<double>() : predicted_us<T>,
          .takes = +[](const GroupedArgs& g) { return (g.type == LADDER_E4M3) == T::SCALED; }};
}

const std::vector<ladder::Variant>& kernels() {
  static const auto all =
      ladder::grouped_variants([]<class In>(std::type_identity<In>, auto row, const char* name) {
        constexpr tile::GemmConfig C = tile::grouped_configuration(sizeof(In) == 1, row);
        return variant<Tile<In, C.consumers, C.blocks, C.bn>>(name);
      });
  return all;
}

std::vector<ladder::Variant> variants() {
  std::vector<ladder::Variant> all = ladder::with_chooser<kernels, GroupedArgs>();
  all.push_back(variant<Tile<bf16, 2, 1, 256, true>>("bf16_128x256_replace"));
  all.back().kernel.workspace_bytes = 2 * int{sizeof(CUtensorMap)};  // for two storers
  return all;
}

static const ladder::Registrar registrar(__FILE__, "many products in one launch", variants());

}  // namespace grouped
