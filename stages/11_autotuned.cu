// Rung 11: a tile for every shape, chosen by a cost model.
//
// Idea       one kernel, instantiated for a table of tiles; the host works out for each call which
//            of them takes the fewest clocks, and launches that.
// Limited by one tile for all shapes: rounds of tiles that do not fill the SMs, bytes that a larger
//            tile would not move, and the gap between two launches.
// New PTX    griddepcontrol, barrier.cluster.arrive.relaxed
// Tile       per shape: the table in common/tile/configurations.h
// Read       docs/11_autotuned.md
#include <algorithm>
#include <type_traits>
#include <vector>

#include "common/block/init_barriers.cuh"
#include "common/block/load_slice.cuh"
#include "common/block/multiply_tile.cuh"
#include "common/block/ring_slot.cuh"
#include "common/block/sideways_box.cuh"
#include "common/block/staged_block.cuh"
#include "common/block/staged_box.cuh"
#include "common/host/configurations.h"
#include "common/host/error.h"
#include "common/host/launch.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/griddepcontrol.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/configurations.h"
#include "common/tile/cost_model.h"
#include "common/tile/math.h"
#include "common/tile/registers.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"

namespace autotuned {

using ladder::bf16;

// The numbers of a configuration, so that a kernel is named by what it computes.
template <int CONSUMERS_, int BLOCKS_, int BN_, int CLUSTER_M_, int CLUSTER_N_>
struct Tile {
  static constexpr tile::GemmConfig C = {"", CONSUMERS_, BLOCKS_, BN_, CLUSTER_M_, CLUSTER_N_};
  static constexpr int CONSUMERS = CONSUMERS_, BLOCKS = BLOCKS_;  // warpgroups, 64 rows of each
  static constexpr int WM = 64, BM = C.bm(), BN = BN_, BK = 64;   // WM: rows of a block
  static constexpr int THREADS = 128 + CONSUMERS * 128;           // warpgroup 0: producer, storers
  static constexpr int ROW_BYTES = BK * int{sizeof(bf16)};        // of A or of B, in a slot
  static constexpr int TX_BYTES = (BM + BN) * ROW_BYTES;          // TMA brings one slot
  static constexpr int CLUSTER_M = CLUSTER_M_, CLUSTER_N = CLUSTER_N_;  // CTAs along M and N
  static constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
  static constexpr bool PASSES_ON = CLUSTER == 8;  // releases: a warp of the producer's does it
  static constexpr bool LEAVES_OUT = CLUSTER_M > 1 && CLUSTER_N > 1;  // slices outside of A, B
  static constexpr int SLICE_A = BM / CLUSTER_N;  // rows of A that one CTA loads for its row
  static constexpr int SLICE_B = BN / CLUSTER_M;  // rows of B that one CTA loads for its column
  static constexpr int COPIES_B = BN > 256 ? 2 : 1, BOX_B = SLICE_B / COPIES_B;  // a box: 256 rows
  static constexpr int HALVES = C.halves();  // products side by side in a block
  struct Half {                              // what one of them multiplies
    static constexpr int BN = BN_ / HALVES, BK = 64;
  };
  // Of D, as TMA stores it: a block, or a box of one.
  static constexpr bool BOX_BY_BOX = C.box_by_box(), SIDEWAYS = false;
  using Staged = std::conditional_t<BOX_BY_BOX, block::StagedBox<BN>, block::StagedBlock<BN>>;
  // Arrivals by which a slot falls free: of each consumer warp of the cluster, or of its CTAs.
  static constexpr int RELEASES = PASSES_ON ? CLUSTER : CONSUMERS * 4 * CLUSTER;
  static constexpr int IN_FLIGHT = CONSUMERS == 1 ? 1 : 0;    // K steps, if no other multiplies
  static constexpr int BUFFERS = tile::staging_buffers(C);    // of these that a consumer has
  static constexpr int DEPTH = tile::ring_slots(C, BUFFERS);  // what then fits
  static constexpr int PRODUCER_REGS = 56, CONSUMER_REGS = CONSUMERS == 2 ? 224 : 152;
  static_assert(DEPTH >= 3, "three slots: one multiplied, one landing, one asked for");
  static_assert(BN % 16 == 0, "stmatrix.x4 stages 16 columns");
  static_assert(!PASSES_ON || CONSUMERS < 3, "warp 3 would be a storer");
  static_assert(HALVES == 1 || IN_FLIGHT == 0,
                "a group of each block stays in flight, not of halves");
  static_assert(SLICE_A % 8 == 0 && SLICE_B % 8 == 0, "a slice starts on a swizzle atom");
  static_assert(BLOCKS * BN / 2 + 32 <= CONSUMER_REGS, "accumulators and 32 registers beside them");
  static_assert(128 * PRODUCER_REGS + CONSUMERS * 128 * CONSUMER_REGS <= tile::launch_regs(THREADS),
                "more than the launch gives; tile::consumer_regs(THREADS, 1, PRODUCER_REGS) fit");
};

// The same of D^T = B · A^T: rows of a tile are columns of D, its columns rows of D.
template <class Upright>
struct Sideways : Upright {
  static constexpr tile::GemmConfig C = [] {
    tile::GemmConfig config = Upright::C;
    config.sideways = true;
    return config;
  }();
  static constexpr bool BOX_BY_BOX = true, SIDEWAYS = true;
  using Staged = block::SidewaysBox<Upright::BN>;
  static constexpr int BUFFERS = tile::staging_buffers(C), DEPTH = tile::ring_slots(C, BUFFERS);
};

template <class T>
struct alignas(1024) Smem {
  tile::SmemTile<bf16, T::BM, T::BK> a[T::DEPTH];
  tile::SmemTile<bf16, T::BN, T::BK> b[T::DEPTH];
  typename T::Staged d[T::CONSUMERS][T::BUFFERS];
  uint64_t full[T::DEPTH];                     // the producer's arrival, and TX_BYTES
  uint64_t empty[T::DEPTH];                    // RELEASES
  uint64_t staged[T::CONSUMERS][T::BUFFERS];   // boxes are written: one arrival a warp
  uint64_t stored[T::CONSUMERS][T::BUFFERS];   // TMA has read them: the storer's arrival
  uint64_t done[T::PASSES_ON ? T::DEPTH : 1];  // one arrival a consumer warp
};

// Releases a slot of the ring, or hands that on.
template <class T>
__device__ void release(Smem<T>& smem, int slot, int lane) {
  if (T::PASSES_ON && lane == 0) ptx::mbarrier_arrive(&smem.done[slot]);
  if (!T::PASSES_ON) block::release_slot<T::CLUSTER>(&smem.empty[slot], lane);
}

// Of a tile's `count` slices of an operand those that begin inside of it: `left` rows are there.
__device__ int slices_inside(int left, int rows, int count) {
  return min(count, tile::ceil_div(max(0, left), rows));
}

template <class T>
__global__ __launch_bounds__(T::THREADS,
                             1) void gemm(const __grid_constant__ CUtensorMap map_a,
                                          const __grid_constant__ CUtensorMap map_b,
                                          const __grid_constant__ CUtensorMap map_d,
                                          const __grid_constant__ CUtensorMap map_narrow, bf16* d,
                                          long long ldd, int m, int n, int k, int raster_group) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int k_tiles = tile::ceil_div(k, T::BK);
  const int clusters = gridDim.x / T::CLUSTER, cluster = blockIdx.x / T::CLUSTER;
  const int rank = T::CLUSTER > 1 ? ptx::cluster_ctarank() : 0;
  const int rank_m = rank / T::CLUSTER_N, rank_n = rank % T::CLUSTER_N;
  const tile::ClusterTiles<T> tiles(m, n, cluster, clusters, rank, raster_group);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    ptx::prefetch_tensormap(&map_d);
    ptx::prefetch_tensormap(&map_narrow);
    if (T::PASSES_ON) {
      for (uint64_t& bar : smem.done) ptx::mbarrier_init(&bar, T::CONSUMERS * 4);
    }
    block::init_barriers<T>(smem.full, smem.empty, T::RELEASES, smem.staged, smem.stored);
  }
  if constexpr (T::CLUSTER == 1) ptx::bar_sync();  // before any thread uses the barriers
  if constexpr (T::CLUSTER > 1) ptx::barrier_cluster_sync_shared();
  ptx::griddepcontrol_wait();  // A, B and D may be in use by the kernel before until here

  if (threadIdx.x < 128) {
    // --- producer: one thread of warp 0 fills the ring -------------------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      // A is shared by the CTAs of a cluster row, B by those of a cluster column.
      const uint16_t mask_a = ((1 << T::CLUSTER_N) - 1) << (rank_m * T::CLUSTER_N);
      uint16_t mask_b = 0;
      for (int i = 0; i < T::CLUSTER_M; ++i) mask_b |= 1 << (i * T::CLUSTER_N + rank_n);
      const int slice_a = rank_n * T::SLICE_A, slice_b = rank_m * T::SLICE_B;  // first row it loads
      tile::RingState<T::DEPTH> ring;
      int filled = 0;  // slots, those that are filled again counted again
      for (auto t = tiles; t.has(); t.next()) {
        const int m0 = t.m0(), n0 = t.n0();
        const int in_a = slices_inside(m - m0, T::SLICE_A, T::CLUSTER_N);
        const int in_b = slices_inside(n - n0, T::SLICE_B, T::CLUSTER_M);
        const int bytes = (in_a * T::SLICE_A + in_b * T::SLICE_B) * T::ROW_BYTES;
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          // The copies land in the peers too: their consumers must have released the slot as well.
          block::wait_slot<T::CLUSTER>(&smem.empty[ring.slot], ring.parity ^ 1);
          // Multicast, a slice of zeros holds all SMs up. One that lies outside is asked for once,
          // so that wgmma finds something in the slot.
          const bool all = !T::LEAVES_OUT || filled++ < T::DEPTH;
          ptx::mbarrier_arrive_expect_tx(full, all ? T::TX_BYTES : bytes);  // of all CTAs' copies
          if (all || rank_n < in_a) {
            block::load_slice<T::CLUSTER_N>(smem.a[ring.slot].from_row(slice_a), &map_a,
                                            k_tile * T::BK, m0 + slice_a, full, mask_a);
          }
#pragma unroll
          for (int i = 0; i < T::COPIES_B && (all || rank_m < in_b); ++i) {
            block::load_slice<T::CLUSTER_M>(smem.b[ring.slot].from_row(slice_b + i * T::BOX_B),
                                            &map_b, k_tile * T::BK, n0 + slice_b + i * T::BOX_B,
                                            full, mask_b);
          }
        }
      }
      ptx::griddepcontrol_launch_dependents();  // the next kernel may take SMs as they fall free
      // No CTA exits while its peers can still arrive there: once every slot is released they have.
      for (int i = 0; i < T::DEPTH && T::CLUSTER > 1; ++i, ring.advance()) {
        block::wait_slot<T::CLUSTER>(&smem.empty[ring.slot], ring.parity ^ 1);
      }
    }
    // --- warp 3, in large clusters: lane r tells CTA r what consumers here have released ---------
    if (T::PASSES_ON && threadIdx.x >= 96 && threadIdx.x < 96 + T::CLUSTER) {
      tile::RingState<T::DEPTH> ring;
      for (auto t = tiles; t.has(); t.next()) {
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          ptx::mbarrier_wait(&smem.done[ring.slot], ring.parity);
          ptx::mbarrier_arrive_cluster(&smem.empty[ring.slot], threadIdx.x - 96);
        }
      }
    }
    // --- storers: warp 1 + i sends what consumer i has staged ------------------------------------
    const int storer = threadIdx.x / 32 - 1;
    if (storer >= 0 && storer < T::CONSUMERS) {
      tile::RingState<T::BUFFERS> out;
      for (auto t = tiles; t.has(); t.next()) {
        const int m0 = t.m0() + storer * T::BLOCKS * T::WM, n0 = t.n0();
#pragma unroll 1
        for (int i = 0; i < T::BLOCKS * T::Staged::COUNT; ++i, out.advance()) {
          ptx::mbarrier_wait(&smem.staged[storer][out.slot], out.parity);
          if constexpr (T::BOX_BY_BOX) {
            block::store_box(smem.d[storer][out.slot], i % T::Staged::COUNT, &map_d, &map_narrow, d,
                             ldd, m0 + i / T::Staged::COUNT * T::WM, n0, m, n);
          } else {
            block::store_block(smem.d[storer][out.slot], &map_d, &map_narrow, d, ldd,
                               m0 + i * T::WM, n0, m, n, !t.is_last());
          }
          ptx::bar_warp_sync();  // the leader speaks for all
          if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&smem.stored[storer][out.slot]);
        }
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its blocks of 64 rows ------------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int group = threadIdx.x / 128 - 1, group_m = group * T::BLOCKS * T::WM;  // its first row
    const int lane = threadIdx.x % 32;  // lane r speaks to CTA r of the cluster
    float acc[T::BLOCKS][T::HALVES][T::BN / T::HALVES / 2];  // D [BLOCKS][64][BN] of the warpgroup
    tile::RingState<T::DEPTH> ring;
    tile::RingState<T::BUFFERS> out;
    for (auto t = tiles; t.has(); t.next()) {
      int last_slot = 0;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        block::wait_slot<T::CLUSTER>(&smem.full[ring.slot], ring.parity);  // the tile has landed
#pragma unroll
        for (int i = 0; i < T::BLOCKS * T::HALVES; ++i) {
          using Half = typename T::Half;
          block::multiply_tile<Half>(acc[i / T::HALVES][i % T::HALVES],
                                     smem.a[ring.slot].from_row(group_m + i / T::HALVES * T::WM),
                                     smem.b[ring.slot].from_row(i % T::HALVES * Half::BN),
                                     k_tile > 0);
        }
        ptx::wgmma_wait_group<T::IN_FLIGHT * T::BLOCKS>();  // 0: the others' products run meanwhile
        if (T::IN_FLIGHT == 0) release<T>(smem, ring.slot, lane);
        if (T::IN_FLIGHT == 1 && k_tile > 0) release<T>(smem, last_slot, lane);
        last_slot = ring.slot;
      }
      if constexpr (T::IN_FLIGHT == 1) {
        ptx::wgmma_wait_group<0>();
        release<T>(smem, last_slot, lane);
      }

      // --- epilogue ------------------------------------------------------------------------------
#pragma unroll
      for (int i = 0; i < T::BLOCKS * T::Staged::COUNT; ++i, out.advance()) {
        ptx::mbarrier_wait(&smem.stored[group][out.slot], out.parity ^ 1);  // its boxes are read
        if constexpr (T::BOX_BY_BOX) {
          block::stage_box(acc[i / T::Staged::COUNT][0], smem.d[group][out.slot],
                           i % T::Staged::COUNT);
        } else {
          block::stage_block(acc[i][0], smem.d[group][out.slot]);
        }
        ptx::fence_proxy_async_shared_cta();  // TMA will read what stmatrix wrote
        ptx::bar_warp_sync();
        if (lane == 0) ptx::mbarrier_arrive(&smem.staged[group][out.slot]);
      }
    }
  }
}

// PLAIN: never before the kernel in front has ended.
template <class T, bool PLAIN>
void launch(const ladder::GemmArgs& args) {
  const ladder::GemmArgs g = T::SIDEWAYS ? ladder::on_its_side(args) : args;
  using Staged = typename T::Staged;
  const CUtensorMap map_a = ladder::tensor_map_2d(g.a, g.m, g.k, g.lda, T::SLICE_A, T::BK, g.n);
  const CUtensorMap map_b = ladder::tensor_map_2d(g.b, g.n, g.k, g.ldb, T::BOX_B, T::BK, g.m);
  const int whole = std::max(1, args.n / 8 * 8);  // TMA must not write beyond column n
  const CUtensorMap map_d =
      ladder::tensor_map_2d(g.d, args.m, whole, g.ldd, Staged::ROWS, Staged::WIDTH);
  const CUtensorMap map_narrow =
      ladder::tensor_map_2d(g.d, args.m, whole, g.ldd, Staged::LAST_ROWS, Staged::LAST);
  ladder::allow_smem(gemm<T>, sizeof(Smem<T>));
  const int block_m = T::BM * T::CLUSTER_M, block_n = T::BN * T::CLUSTER_N;  // of one cluster
  const int blocks = tile::ceil_div(g.m, block_m) * tile::ceil_div(g.n, block_n);
  const int at_once = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  const bool early = !PLAIN && ladder::starts_early_behind_loads<T>(blocks, at_once, g.m, g.n, g.k);
  const ladder::Launch config(std::min(blocks, at_once) * T::CLUSTER, T::THREADS, sizeof(Smem<T>),
                              T::CLUSTER, early, g);
  ladder::check_cuda(
      cudaLaunchKernelEx(&config.config, gemm<T>, map_a, map_b, map_d, map_narrow, g.d, g.ldd, g.m,
                         g.n, g.k, ladder::raster_group<T>(at_once, g.m, g.n, 2LL * g.k)),
      "launch of autotuned::gemm");
}

// By the cost model, in microseconds.
template <class T>
double predicted_us(const ladder::GemmArgs& args) {
  const ladder::GemmArgs g = T::SIDEWAYS ? ladder::on_its_side(args) : args;
  const tile::Gpu gpu = ladder::gpu();
  const int ctas = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g) * T::CLUSTER;
  return tile::predicted_clocks(T::C, g.m, g.n, g.k, ctas, gpu, g.lda, g.ldb) / gpu.mhz;
}

template <bool PLAIN, const auto& TABLE, int ROW>
ladder::Variant variant() {
  constexpr tile::GemmConfig C = TABLE[ROW];
  using Upright = Tile<C.consumers, C.blocks, C.bn, C.cluster_m, C.cluster_n>;
  using T = std::conditional_t<C.sideways, Sideways<Upright>, Upright>;
  return {.name = C.name,
          .what = T::CLUSTER > 1 ? "multicast in a cluster"
                  : T::SIDEWAYS  ? "one CTA by itself, on its side"
                                 : "one CTA by itself",
          .kernel = ladder::persistent_kernel<T>(launch<T, PLAIN>, gemm<T>, sizeof(Smem<T>)),
          .configuration = true,
          .predicted_us = predicted_us<T>};
}

template <bool PLAIN, const auto& TABLE>
std::vector<ladder::Variant> variants() {
  return ladder::variant_of_each<std::size(TABLE)>(
      [](auto row) { return variant<PLAIN, TABLE, row>(); });
}

template <bool PLAIN>
const std::vector<ladder::Variant>& configurations() {
  static const auto all = [] {
    auto all = variants<PLAIN, tile::CONFIGURATIONS>();
    const auto later = variants<PLAIN, tile::LATER>();
    all.insert(all.end(), later.begin(), later.end());
    return all;
  }();
  return all;
}

static const ladder::Registrar registrar(
    __FILE__, "a tile for every shape, chosen by a cost model",
    ladder::with_choosers<configurations<false>, configurations<true>>());

}  // namespace autotuned
