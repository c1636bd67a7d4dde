// Rung 10: two consumers work on two tiles in turn.
//
// Idea       each consumer has a tile of its own, and stages it while the other one multiplies: the
//            tensor cores change hands. What is hidden may be slow: two boxes do, not a whole tile.
// Limited by the epilogue: both consumers stage at about the same time, and nobody multiplies.
// New PTX    vote.sync; griddepcontrol, for which see rung 11
// Tile       128x176x64 a consumer, 384 threads, 5 slots, 32 KB for D: 228,352 bytes
// Read       docs/10_pingpong.md
#include <algorithm>
#include <type_traits>
#include <vector>

#include "common/block/consumer_of_warp.cuh"
#include "common/block/multiply_tile.cuh"
#include "common/block/sideways_box.cuh"
#include "common/block/staged_box.cuh"
#include "common/host/configurations.h"
#include "common/host/error.h"
#include "common/host/launch.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/griddepcontrol.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/configurations.h"
#include "common/tile/cost_model.h"
#include "common/tile/math.h"
#include "common/tile/registers.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"

namespace pingpong {

using ladder::bf16;

template <int BLOCKS_, int BN_>
struct Tile {
  static constexpr tile::GemmConfig C = {"", 2, BLOCKS_, BN_, 1, 1, 1, true};
  static constexpr int CONSUMERS = 2;              // warpgroups that multiply
  static constexpr int WM = 64, BLOCKS = BLOCKS_;  // a consumer's tile: BLOCKS of 64 x BN
  static constexpr int BM = C.bm(), BN = BN_, BK = 64;
  static constexpr int THREADS = 128 + CONSUMERS * 128;  // warpgroup 0: producer, storers
  static constexpr int TX_BYTES = (BM + BN) * BK * int{sizeof(bf16)};  // TMA brings one slot
  static constexpr int CLUSTER_M = 1, CLUSTER_N = 1, CLUSTER = 1;      // nothing is shared
  using Box = block::StagedBox<BN>;                                    // of D, as TMA stores it
  static constexpr int BUFFERS = tile::staging_buffers(C);    // boxes a consumer stages at a time
  static constexpr int DEPTH = tile::ring_slots(C, BUFFERS);  // slots in the ring: what then fits
  static constexpr int PRODUCER_REGS = 56, CONSUMER_REGS = 224;
  static constexpr bool SIDEWAYS = false;  // a tile of D, not of D^T
  static_assert(BK * 2 == tile::SWIZZLE_ROW_BYTES, "a row of the tile is a row of the swizzle");
  static_assert(DEPTH >= 3, "three slots: one multiplied, one landing, one asked for");
  static_assert(BLOCKS * BN / 2 + 32 <= CONSUMER_REGS, "accumulators and 32 registers beside them");
  static_assert(128 * PRODUCER_REGS + CONSUMERS * 128 * CONSUMER_REGS <= tile::launch_regs(THREADS),
                "more than the launch gives; tile::consumer_regs(THREADS, 1, PRODUCER_REGS) fit");
};

// The same of D^T = B · A^T: rows of a tile are columns of D, its columns, by eights, rows of D.
template <int BN_>
struct Sideways : Tile<2, BN_> {
  using Box = block::SidewaysBox<BN_>;
  static constexpr bool SIDEWAYS = true;
};

template <class T>
struct alignas(1024) Smem {
  tile::SmemTile<bf16, T::BM, T::BK> a[T::DEPTH];
  tile::SmemTile<bf16, T::BN, T::BK> b[T::DEPTH];
  typename T::Box d[T::CONSUMERS][T::BUFFERS];
  uint64_t full[T::DEPTH];                    // the producer's arrival, and TX_BYTES
  uint64_t empty[T::DEPTH];                   // one arrival a warp of one consumer
  uint64_t turn[T::CONSUMERS];                // this consumer may multiply: a warp's of the other
  uint64_t staged[T::CONSUMERS][T::BUFFERS];  // a box is written: one arrival a warp
  uint64_t stored[T::CONSUMERS][T::BUFFERS];  // TMA has read it: the storer's arrival
};

template <class T>
__global__ __launch_bounds__(T::THREADS, 1) void gemm(const __grid_constant__ CUtensorMap map_a,
                                                      const __grid_constant__ CUtensorMap map_b,
                                                      const __grid_constant__ CUtensorMap map_d,
                                                      const __grid_constant__ CUtensorMap map_last,
                                                      bf16* d, long long ldd, int m, int n, int k,
                                                      int raster_group) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int k_tiles = tile::ceil_div(k, T::BK);
  const tile::ClusterTiles<T> tiles(m, n, blockIdx.x, gridDim.x, 0, raster_group);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    ptx::prefetch_tensormap(&map_d);
    ptx::prefetch_tensormap(&map_last);
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], 1);
      ptx::mbarrier_init(&smem.empty[slot], 4);
    }
    for (int i = 0; i < T::CONSUMERS; ++i) {
      ptx::mbarrier_init(&smem.turn[i], 4);
      for (int box = 0; box < T::BUFFERS; ++box) {
        ptx::mbarrier_init(&smem.staged[i][box], 4);
        ptx::mbarrier_init(&smem.stored[i][box], 1);
      }
    }
    ptx::fence_mbarrier_init();  // before TMA counts bytes on them
  }
  ptx::bar_sync();             // before any thread uses the barriers
  ptx::griddepcontrol_wait();  // A, B and D may be in use by the kernel before until here

  if (threadIdx.x < 128) {
    // --- producer: one thread of warp 0 fills the ring -------------------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      tile::RingState<T::DEPTH> ring;
      for (auto t = tiles; t.has(); t.next()) {
        const int m0 = t.m0(), n0 = t.n0();
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          ptx::mbarrier_wait(&smem.empty[ring.slot], ring.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, T::TX_BYTES);
          ptx::cp_async_bulk_tensor_2d_g2s(smem.a[ring.slot].bytes, &map_a, k_tile * T::BK, m0,
                                           full);
          ptx::cp_async_bulk_tensor_2d_g2s(smem.b[ring.slot].bytes, &map_b, k_tile * T::BK, n0,
                                           full);
        }
      }
      ptx::griddepcontrol_launch_dependents();  // the next kernel may take SMs as they fall free
    }
    // --- storers: warp 1 + i sends what consumer i has staged ------------------------------------
    const int storer = threadIdx.x / 32 - 1;
    if (storer >= 0 && storer < T::CONSUMERS) {
      tile::RingState<T::BUFFERS> out;
      for (auto t = tiles.every(T::CONSUMERS, storer); t.has(); t.next()) {
        const int m0 = t.m0(), n0 = t.n0();
#pragma unroll 1
        for (int i = 0; i < T::BLOCKS * T::Box::COUNT; ++i, out.advance()) {
          ptx::mbarrier_wait(&smem.staged[storer][out.slot], out.parity);
          block::store_box(smem.d[storer][out.slot], i % T::Box::COUNT, &map_d, &map_last, d, ldd,
                           m0 + i / T::Box::COUNT * T::WM, n0, m, n);
          ptx::bar_warp_sync();  // the leader speaks for all
          if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&smem.stored[storer][out.slot]);
        }
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies every other tile of the CTA ------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int group = block::consumer_of_warp<T>(), lane = threadIdx.x % 32;
    float acc[T::BLOCKS][T::BN / 2];  // D [BLOCKS][64][BN] of the warpgroup
    tile::RingState<T::DEPTH> ring;
    tile::RingState<T::BUFFERS> out;
    uint32_t parity = 0;
    ring.advance(group * k_tiles);  // the other consumer's slots
    for (auto t = tiles.every(T::CONSUMERS, group); t.has();
         t.next(), parity ^= 1, ring.advance(k_tiles)) {
      // Before its turn, a slot's parity may be of a lap too early. The first of all turns is free.
      ptx::mbarrier_wait(&smem.turn[group], group == 0 ? parity ^ 1 : parity);
      int last_slot = 0;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        ptx::mbarrier_wait(&smem.full[ring.slot], ring.parity);  // the tile has landed
#pragma unroll
        for (int i = 0; i < T::BLOCKS; ++i) {
          block::multiply_tile<T>(acc[i], smem.a[ring.slot].from_row(i * T::WM),
                                  smem.b[ring.slot].bytes, k_tile > 0);
        }
        ptx::wgmma_wait_group<T::BLOCKS>();  // the next products queue up: nobody else's would
        if (k_tile > 0 && lane == 0) ptx::mbarrier_arrive(&smem.empty[last_slot]);
        last_slot = ring.slot;
      }
      if (lane == 0) ptx::mbarrier_arrive(&smem.turn[1 - group]);
      ptx::wgmma_wait_group<0>();  // meanwhile the other warpgroup's first products queue up
      if (lane == 0) ptx::mbarrier_arrive(&smem.empty[last_slot]);

      // --- epilogue ------------------------------------------------------------------------------
      constexpr int BOXES = T::BLOCKS * T::Box::COUNT;  // of the tile
#pragma unroll
      for (int i = 0; i < BOXES; ++i, out.advance()) {
        ptx::mbarrier_wait(&smem.stored[group][out.slot], out.parity ^ 1);  // its last box is read
        block::stage_box(acc[i / T::Box::COUNT], smem.d[group][out.slot], i % T::Box::COUNT);
        ptx::fence_proxy_async_shared_cta();  // TMA will read what stmatrix wrote
        ptx::bar_warp_sync();
        if (lane == 0) ptx::mbarrier_arrive(&smem.staged[group][out.slot]);
      }
    }
  }
}

template <class T, bool PLAIN>  // PLAIN: never before the kernel in front has ended
void launch(const ladder::GemmArgs& args) {
  const ladder::GemmArgs g = T::SIDEWAYS ? ladder::on_its_side(args) : args;
  const CUtensorMap map_a = ladder::tensor_map_2d(g.a, g.m, g.k, g.lda, T::BM, T::BK);
  const CUtensorMap map_b = ladder::tensor_map_2d(g.b, g.n, g.k, g.ldb, T::BN, T::BK);
  const int whole = std::max(1, args.n / 8 * 8);  // TMA must not write beyond column n
  const CUtensorMap map_d =
      ladder::tensor_map_2d(g.d, args.m, whole, g.ldd, T::Box::ROWS, T::Box::WIDTH);
  const CUtensorMap map_last =
      ladder::tensor_map_2d(g.d, args.m, whole, g.ldd, T::Box::LAST_ROWS, T::Box::LAST);
  ladder::allow_smem(gemm<T>, sizeof(Smem<T>));
  const int tiles = tile::ceil_div(g.m, T::BM) * tile::ceil_div(g.n, T::BN);
  const int at_once = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  const bool early = !PLAIN && ladder::starts_early_behind_loads<T>(tiles, at_once, g.m, g.n, g.k);
  const ladder::Launch config(std::min(tiles, at_once), T::THREADS, sizeof(Smem<T>), T::CLUSTER,
                              early, g);
  ladder::check_cuda(
      cudaLaunchKernelEx(&config.config, gemm<T>, map_a, map_b, map_d, map_last, g.d, g.ldd, g.m,
                         g.n, g.k, ladder::raster_group<T>(at_once, g.m, g.n, 2LL * g.k)),
      "launch of pingpong::gemm");
}

template <int BLOCKS, int BN>
ladder::Variant variant(const char* name, const char* what) {
  using T = Tile<BLOCKS, BN>;
  return {.name = name,
          .what = what,
          .kernel = ladder::persistent_kernel<T>(launch<T, true>, gemm<T>, sizeof(Smem<T>))};
}

// By rung 11's cost model, in microseconds.
template <class T, int ROW>
double predicted_us(const ladder::GemmArgs& args) {
  constexpr tile::GemmConfig C = tile::PINGPONG[ROW];
  const ladder::GemmArgs g = T::SIDEWAYS ? ladder::on_its_side(args) : args;
  const tile::Gpu gpu = ladder::gpu();
  const int ctas = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  return tile::predicted_clocks(C, g.m, g.n, g.k, ctas, gpu, g.lda, g.ldb) / gpu.mhz;
}

// What stage 0 chooses from beside the tiles of rungs 11 and 12, launched as those are.
template <int ROW>
ladder::Variant early_variant() {
  constexpr tile::GemmConfig C = tile::PINGPONG[ROW];
  using T = std::conditional_t<C.sideways, Sideways<C.bn>, Tile<C.blocks, C.bn>>;
  return {.name = C.name,
          .what = T::SIDEWAYS ? "on its side, launched early" : "launched early where that pays",
          .kernel = ladder::persistent_kernel<T>(launch<T, false>, gemm<T>, sizeof(Smem<T>)),
          .configuration = true,
          .predicted_us = predicted_us<T, ROW>};
}

std::vector<ladder::Variant> variants() {
  std::vector<ladder::Variant> all = {variant<1, 256>("64x256", "tiles of 64x256"),
                                      variant<2, 128>("128x128", "tiles of 128x128"),
                                      variant<2, 144>("128x144", "tiles of 128x144"),
                                      variant<2, 160>("128x160", "tiles of 128x160"),
                                      variant<2, 176>("128x176", "tiles of 128x176").as_result()};
  const auto early = ladder::variant_of_each<std::size(tile::PINGPONG)>(
      [](auto row) { return early_variant<row>(); });
  all.insert(all.end(), early.begin(), early.end());
  return all;
}

static const ladder::Registrar registrar(__FILE__,
                                         "one consumer's epilogue runs under the other's products",
                                         variants());

}  // namespace pingpong
