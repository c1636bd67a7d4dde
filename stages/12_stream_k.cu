// Rung 12: the K of a tile is shared, so that every SM gets as much work as the others.
//
// Idea       the K steps of the tiles lie in a row, which is cut into equal parts, one a cluster.
//            The parts of a tile are summed by the cluster, by the last to come, or by a second
//            kernel.
// Limited by tiles that are too few for the SMs or leave most of them idle in the last round, and
//            by tiles of 64 rows and more where M is less and only bytes of DRAM count.
// New PTX    stmatrix .trans, st.async, ld.acquire, atom.acq_rel, barrier.sync, .red, createpolicy
// Tile       of D^T, 64 to 256 columns of D x 8 to 224 rows, or of D: common/tile/shared_k.h
// Read       docs/12_stream_k.md
#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/block/exchange_sums.cuh"
#include "common/block/load_slice.cuh"
#include "common/block/multiply_tile.cuh"
#include "common/block/partial_sums.cuh"
#include "common/block/ring_slot.cuh"
#include "common/block/stage_transposed.cuh"
#include "common/block/store_last_columns.cuh"
#include "common/host/configurations.h"
#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/launch.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/griddepcontrol.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/fragment.h"
#include "common/tile/k_shares.h"
#include "common/tile/math.h"
#include "common/tile/registers.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/shared_k.h"
#include "common/tile/smem_tile.h"

namespace stream_k {

using ladder::bf16;

// Of D^T = B · A^T: the tile's rows are columns of D, and its columns, which may be few, rows.
template <int CONSUMERS_, int BLOCKS_, int BN_, int CLUSTER_M_, int CLUSTER_N_, int SPLIT_,
          int CTAS_>
struct Tile {
  static constexpr tile::SharedK C = {"",         CONSUMERS_, BLOCKS_, BN_,
                                      CLUSTER_M_, CLUSTER_N_, SPLIT_,  CTAS_};
  static constexpr int CONSUMERS = CONSUMERS_, BLOCKS = BLOCKS_;  // warpgroups, 64 rows of each
  static constexpr int WM = 64, BM = CONSUMERS * BLOCKS * WM, BN = BN_, BK = 64;
  static constexpr int THREADS = 128 + CONSUMERS * 128;  // warpgroup 0: producer
  static constexpr int CLUSTER_M = CLUSTER_M_;  // CTAs, one above the other, share the columns
  static constexpr int CLUSTER_N = CLUSTER_N_;  // CTAs, side by side, share the rows
  static constexpr int SHARERS = CLUSTER_M * CLUSTER_N;
  static constexpr int SPLIT = SPLIT_;  // CTAs of a cluster that share a tile's K
  static constexpr int CLUSTER = SHARERS * SPLIT;
  static constexpr int CTAS = CTAS_;  // of an SM, at a time
  static constexpr bool CUT = false;
  static constexpr int SLICE = BM / CLUSTER_N, ROW_BYTES = BK * int{sizeof(bf16)};
  static constexpr int IN_FLIGHT = CONSUMERS == 1 ? 1 : 0;  // K steps, if no other multiplies
  // Of a tile that the cluster splits, CTA i finishes SHARE columns, from i * SHARE on.
  static constexpr int FINISHERS = C.finishers(), SHARE = C.columns_each();
  static constexpr int EXCHANGE_BYTES = C.exchange_bytes();
  // Columns that a thread adds up at once: beside more than 136 accumulators there is room for few.
  static constexpr int AT_ONCE = BLOCKS * BN <= 272 ? 64 : 16;
  static constexpr int PARTIAL_BYTES = BM * BN * int{sizeof(float)};  // of a tile, in the workspace
  static constexpr int DEPTH = C.ring_slots();                        // what then fits
  static constexpr int PRODUCER_REGS = 56;
  static constexpr int CONSUMER_REGS = tile::consumer_regs(THREADS, CTAS, PRODUCER_REGS);
  static_assert(DEPTH >= 3, "three slots: one multiplied, one landing, one asked for");
  static_assert(SLICE % 8 == 0 && BN % (8 * CLUSTER_M) == 0, "a slice starts on a swizzle atom");
  static_assert(SPLIT == 1 || CLUSTER_M == 1, "a tile that is finished by columns is whole");
  static_assert(SPLIT == 1 || (BLOCKS == 1 && SHARE % 8 == 0), "sums are exchanged 8 columns wide");
  static_assert(BLOCKS * BN / 2 + AT_ONCE / 2 <= CONSUMER_REGS, "accumulators and sums of some");
};

// Tiles that are cut have a kernel of their own, since what it reads leaves L2 first.
template <class Whole>
struct Cut : Whole {
  static constexpr bool CUT = true;
};

template <class T>
struct alignas(1024) Smem {
  tile::SmemTile<bf16, T::BM, T::BK> a[T::DEPTH];
  tile::SmemTile<bf16, T::BN, T::BK> b[T::DEPTH];
  tile::SmemTile<bf16, T::SHARE, T::WM> d[T::CONSUMERS];
  float4 exchange[T::EXCHANGE_BYTES / 16 + 1];  // [SPLIT][SHARE / 8][consumer threads]; never empty
  uint64_t summands;                            // they are here: EXCHANGE_BYTES
  uint64_t full[T::DEPTH];                      // the producer's arrival, and a slot's bytes
  uint64_t empty[T::DEPTH];                     // one arrival a consumer warp of the sharers
};

// What the host has worked out for a call.
struct Work {
  bf16* d;        // [d_rows][ldd]
  long long ldd;  // elements
  int d_rows, d_cols;
  int rows;              // of D in a tile, at most BN; all tiles have as many, but for the last
  int box_rows;          // of these, as many as a CTA stores
  int tiles_m, tiles_n;  // of clusters: across D, and down
  int raster_group;
  tile::KSchedule schedule;
  block::Partials partials;
};

// Loads a slice of an operand. Those of cut tiles leave L2 first, so that the parts, which are read
// again, stay.
template <class T, int SHARERS>
__device__ void load(void* dst, const CUtensorMap* map, int col, int row, uint64_t* full,
                     uint16_t mask) {
  if constexpr (!T::CUT) {
    block::load_slice<SHARERS>(dst, map, col, row, full, mask);
  } else if constexpr (SHARERS == 1) {
    ptx::cp_async_bulk_tensor_2d_g2s_hint(dst, map, col, row, full,
                                          ptx::createpolicy_evict_first());
  } else {
    ptx::cp_async_bulk_tensor_2d_g2s_multicast_hint(dst, map, col, row, full, mask,
                                                    ptx::createpolicy_evict_first());
  }
}

// D^T [d_cols][d_rows], or partial sums of it.
template <class T>
__global__ __launch_bounds__(T::THREADS,
                             T::CTAS) void gemm(const __grid_constant__ CUtensorMap map_a,
                                                const __grid_constant__ CUtensorMap map_b,
                                                const __grid_constant__ CUtensorMap map_d,
                                                const __grid_constant__ Work work) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int cluster = work.schedule.part_of(blockIdx.x / T::CLUSTER);
  const int rank = T::CLUSTER > 1 ? ptx::cluster_ctarank() : 0;
  const int rank_k = rank / T::SHARERS, rank_mn = rank % T::SHARERS;
  const int rank_m = rank_mn % T::CLUSTER_M, rank_n = rank_mn / T::CLUSTER_M;
  const int first_rank = rank_k * T::SHARERS;  // of the CTAs that share operands with us
  const tile::KShares shares(work.schedule, cluster);
  if (threadIdx.x < T::DEPTH) {  // a thread each, since there may be many slots
    ptx::mbarrier_init(&smem.full[threadIdx.x], 1);
    ptx::mbarrier_init(&smem.empty[threadIdx.x], T::CONSUMERS * 4 * T::SHARERS);
    ptx::fence_mbarrier_init();  // before TMA counts bytes, and peers arrive, on them
  }
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    ptx::prefetch_tensormap(&map_d);
    ptx::mbarrier_init(&smem.summands, 1);
    ptx::fence_mbarrier_init();
    if (T::SPLIT > 1) ptx::mbarrier_arrive_expect_tx(&smem.summands, T::EXCHANGE_BYTES);
  }
  // Rows that a tile does not have are not fetched. wgmma reads them all the same: zeros.
  const int missing = (T::BN - work.rows) * T::ROW_BYTES / 16;  // chunks of a slot
  for (int i = threadIdx.x; i < missing * T::DEPTH; i += T::THREADS) {
    unsigned char* first = smem.b[i / missing].bytes + work.rows * T::ROW_BYTES;
    ptx::st_shared_v4_b32(first + i % missing * 16, uint4{});
  }
  ptx::bar_warp_sync();                            // lanes may have parted in the loop
  ptx::fence_proxy_async_shared_cta();             // before wgmma reads them
  if constexpr (T::CLUSTER == 1) ptx::bar_sync();  // before any thread uses the barriers
  if constexpr (T::CLUSTER > 1) ptx::barrier_cluster_sync_shared();
  ptx::griddepcontrol_wait();  // until here the kernel before may use A, B, D and the workspace
  ptx::griddepcontrol_launch_dependents();  // only now: three kernels would crowd each other

  if (threadIdx.x < 128) {
    // --- producer: one thread of warp 0 fills the ring -------------------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      // Ranks go down first: 1 + 2^CLUSTER_M + 2^(2 CLUSTER_M) + ... are those side by side.
      constexpr int SIDE_BY_SIDE = ((1 << T::SHARERS) - 1) / ((1 << T::CLUSTER_M) - 1);
      const uint16_t mask_a = SIDE_BY_SIDE << (first_rank + rank_m);
      const uint16_t mask_b = ((1 << T::CLUSTER_M) - 1) << (first_rank + rank_n * T::CLUSTER_M);
      const int slice_a = rank_n * T::SLICE;  // first row it loads
      const int slice_b = rank_m * (work.rows / T::CLUSTER_M);
      const int tx_bytes = (T::BM + work.rows) * T::ROW_BYTES;
      tile::RingState<T::DEPTH> ring;
      for (auto share = shares; share.has(); share.next()) {
        const tile::TileCoord at =
            tile::grouped_raster(share.tile(), work.tiles_m, work.tiles_n, work.raster_group);
        const int m0 = (at.m * T::CLUSTER_M + rank_m) * T::BM;
        const int n0 = (at.n * T::CLUSTER_N + rank_n) * work.rows;
        const int begin = share.first_k() + tile::share_begin(share.k_tiles(), rank_k, T::SPLIT);
        const int end = share.first_k() + tile::share_begin(share.k_tiles(), rank_k + 1, T::SPLIT);
        for (int k_tile = begin; k_tile < end; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          // The copies land in the peers too: their consumers must have released the slot as well.
          block::wait_slot<T::SHARERS>(&smem.empty[ring.slot], ring.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, tx_bytes);  // from all sharers' copies
          load<T, T::CLUSTER_N>(smem.a[ring.slot].from_row(slice_a), &map_a, k_tile * T::BK,
                                m0 + slice_a, full, mask_a);
          load<T, T::CLUSTER_M>(smem.b[ring.slot].from_row(slice_b), &map_b, k_tile * T::BK,
                                n0 + slice_b, full, mask_b);
        }
      }
      // No CTA exits while its peers can still arrive there: once every slot is released they have.
      for (int i = 0; i < T::DEPTH && T::SHARERS > 1; ++i, ring.advance()) {
        block::wait_slot<T::SHARERS>(&smem.empty[ring.slot], ring.parity ^ 1);
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its rows of a tile ---------------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int group = threadIdx.x / 128 - 1, lane = threadIdx.x % 32;
    const bool stores = threadIdx.x % 128 == 0;  // starts the copies and waits for them
    float acc[T::BLOCKS][T::BN / 2] = {};        // D^T [BLOCKS][64][BN] of the warpgroup
    tile::RingState<T::DEPTH> ring;
    for (auto share = shares; share.has(); share.next()) {
      const int k_tiles = tile::share_begin(share.k_tiles(), rank_k + 1, T::SPLIT) -
                          tile::share_begin(share.k_tiles(), rank_k, T::SPLIT);
      int last_slot = 0;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        block::wait_slot<T::SHARERS>(&smem.full[ring.slot], ring.parity);  // the tile has landed
#pragma unroll
        for (int i = 0; i < T::BLOCKS; ++i) {
          block::multiply_tile<T>(acc[i],
                                  smem.a[ring.slot].from_row((group * T::BLOCKS + i) * T::WM),
                                  smem.b[ring.slot].bytes, k_tile > 0);
        }
        ptx::wgmma_wait_group<T::IN_FLIGHT * T::BLOCKS>();
        if (T::IN_FLIGHT == 0) {
          block::release_slot<T::SHARERS>(&smem.empty[ring.slot], lane, first_rank);
        }
        if (T::IN_FLIGHT == 1 && k_tile > 0) {
          block::release_slot<T::SHARERS>(&smem.empty[last_slot], lane, first_rank);
        }
        last_slot = ring.slot;
      }
      if constexpr (T::IN_FLIGHT == 1) {
        ptx::wgmma_wait_group<0>();
        if (k_tiles > 0) block::release_slot<T::SHARERS>(&smem.empty[last_slot], lane, first_rank);
      }

      // --- epilogue ------------------------------------------------------------------------------
      float sum[T::SHARE / 2];
      block::Sharers by = {cluster, cluster + 1, cluster, rank_mn};
      if constexpr (T::SPLIT > 1) {
        block::exchange_sums<T>(sum, acc[0], smem.exchange, &smem.summands, rank);
        if (rank_k >= T::FINISHERS) continue;
      } else if (share.is_shared()) {
        by.first = work.schedule.first_sharer(share.tile());
        by.end = work.schedule.last_sharer(share.tile()) + 1;
        if (!block::comes_last<T>(acc, by, work.partials)) continue;
      }
      const tile::TileCoord at =
          tile::grouped_raster(share.tile(), work.tiles_m, work.tiles_n, work.raster_group);
      const int row = (at.n * T::CLUSTER_N + rank_n) * work.rows + rank_k * T::SHARE;
      const int end_row = std::min(work.d_rows, row + work.box_rows);
#pragma unroll
      for (int i = 0; i < T::BLOCKS; ++i) {
        const int col = (at.m * T::CLUSTER_M + rank_m) * T::BM + (group * T::BLOCKS + i) * T::WM;
        if (stores) ptx::cp_async_bulk_wait_group_read<0>();
        ptx::barrier_sync(1 + group, 128);  // the box may be reused
        if constexpr (T::SPLIT > 1) block::stage_transposed<T::SHARE>(sum, smem.d[group]);
        if constexpr (T::SPLIT == 1) {
          block::stage_sums<T>(smem.d[group], acc[i], i, by, work.partials);
        }
        ptx::fence_proxy_async_shared_cta();  // TMA will read what stmatrix wrote
        ptx::barrier_sync(1 + group, 128);
        if (stores && row < end_row && col < work.d_cols / 8 * 8) {
          ptx::cp_async_bulk_tensor_2d_s2g(&map_d, col, row, smem.d[group].bytes);
          ptx::cp_async_bulk_commit_group();
        }
        if (threadIdx.x % 128 < 32) {
          block::store_last_columns(smem.d[group], work.d, work.ldd, row, col, end_row,
                                    work.d_cols);
        }
      }
    }
    if (stores) ptx::cp_async_bulk_wait_group_read<0>();  // before shared memory is gone
  }
}

// Adds up the parts of tiles that are cut, in the order of K, so that the bits are the same in each
// run. A CTA has 8 columns of 64 rows of a tile, and each of its slices, of 128 threads, a share of
// the parts: at most LOADS, if MOST_SLICES are enough, and all on their way at the same time.
constexpr int LOADS = 8, MOST_SLICES = 8;

template <class T>
__global__ __launch_bounds__(MOST_SLICES * 128) void add_up(const __grid_constant__ Work work,
                                                            bool upright) {
  __shared__ float sums[4][MOST_SLICES][128];  // of each slice, by what a thread's float4 has
  constexpr int VECTORS = T::BN / 8, BLOCKS = T::BM / T::WM;
  // A cluster has two places: a tile's first part lies in the second, each other part in the first.
  constexpr int APART = 2 * T::SHARERS * (T::PARTIAL_BYTES / 16);  // places of clusters, in float4s
  const int vector = blockIdx.x % VECTORS, block = blockIdx.x / VECTORS % BLOCKS;
  const int rank_mn = blockIdx.x / (VECTORS * BLOCKS) % T::SHARERS;
  const int rank_m = rank_mn % T::CLUSTER_M, rank_n = rank_mn / T::CLUSTER_M;
  const int tile = blockIdx.x / (VECTORS * BLOCKS * T::SHARERS);
  const int parts = work.schedule.cut, first = tile * parts;  // the clusters that have them
  const int slice = threadIdx.x / 128, slices = blockDim.x / 128;
  const int thread = threadIdx.x % 128, lane = thread % 32;
  const int in_partials =
      ((block % T::BLOCKS * VECTORS + vector) * T::CONSUMERS + block / T::BLOCKS) * 128 + thread;
  const int begin = first + tile::share_begin(parts, slice, slices);
  const int end = first + tile::share_begin(parts, slice + 1, slices);
  const float4* part =
      work.partials.sums + 1LL * begin * APART + rank_mn * (T::PARTIAL_BYTES / 16) + in_partials;
  // Where the sums go: worked out before the wait, since divisions take their time.
  const tile::TileCoord at =
      tile::grouped_raster(tile, work.tiles_m, work.tiles_n, work.raster_group);
  const int in_tile = vector * 8 + tile::acc_col(lane);  // row of D
  const int row = (at.n * T::CLUSTER_N + rank_n) * work.rows + in_tile;
  const int col = (at.m * T::CLUSTER_M + rank_m) * T::BM + block * T::WM + thread / 32 * 16;
  ptx::griddepcontrol_launch_dependents();  // at once: the CTAs are short, and the next ones wait
  ptx::griddepcontrol_wait();               // until gemm has left its partial sums

  float4 sum = {-0.0f, -0.0f, -0.0f, -0.0f};  // what is added to it stays as it is
  for (int i = begin; i < end; i += LOADS, part += LOADS * APART) {
    float4 v[LOADS];
    v[0] = ptx::ld_global_v4_f32(part + (i == first ? APART / 2 : 0));
#pragma unroll
    for (int j = 1; j < LOADS; ++j) {
      if (i + j < end) v[j] = ptx::ld_global_v4_f32(part + j * APART);
    }
#pragma unroll
    for (int j = 0; j < LOADS; ++j) {
      if (i + j < end) sum = {sum.x + v[j].x, sum.y + v[j].y, sum.z + v[j].z, sum.w + v[j].w};
    }
  }
  ptx::st_shared_f32(&sums[0][slice][thread], sum.x);
  ptx::st_shared_f32(&sums[1][slice][thread], sum.y);
  ptx::st_shared_f32(&sums[2][slice][thread], sum.z);
  ptx::st_shared_f32(&sums[3][slice][thread], sum.w);
  ptx::bar_sync();
  for (int i = slice; i < 4; i += slices) {
    float of_all = ptx::ld_shared_f32(&sums[i][0][thread]);
    for (int j = 1; j < slices; ++j) of_all += ptx::ld_shared_f32(&sums[i][j][thread]);
    const int r = row + i % 2, c = col + tile::acc_row(lane, i / 2);
    if (in_tile + i % 2 < work.rows && r < work.d_rows && c < work.d_cols) {
      const long long at = upright ? c * work.ldd + r : r * work.ldd + c;
      ptx::st_global_b16(work.d + at, ptx::cvt_rn_bf16_f32(of_all));
    }
  }
}

// What a call on a table's row comes to, on the current device.
template <class T, tile::Share SHARE>
Work work_of(const ladder::GemmArgs& g, int at_once) {
  const int tiles_n = tile::ceil_div(g.m, T::BN * T::CLUSTER_N), tiles = tiles_n * T::CLUSTER_N;
  const int tiles_m = tile::ceil_div(g.n, T::BM * T::CLUSTER_M), all = tiles_m * tiles_n;
  const tile::KSchedule schedule = tile::share_k(
      SHARE, all, tile::ceil_div(g.k, T::BK), T::SPLIT > 1 ? all : at_once);  // a cluster: one tile
  const int rows = tile::rows_of_tile(g.m, T::BN, tiles, T::SPLIT, T::CLUSTER_M);
  return {
      .d = g.d,
      .ldd = g.ldd,
      .d_rows = g.m,
      .d_cols = g.n,
      .rows = rows,
      .box_rows = std::min(rows, int{T::SHARE}),
      .tiles_m = tiles_m,
      .tiles_n = tiles_n,
      .raster_group = tile::raster_group(T::BM * T::CLUSTER_M, rows * T::CLUSTER_N, at_once, g.n,
                                         g.m, T::CLUSTER, 2LL * g.k, ladder::gpu()),
      .schedule = schedule,
      .partials = {.sums = static_cast<float4*>(g.scratch()),
                   .arrived = schedule.cut > 0 ? nullptr : static_cast<uint32_t*>(g.workspace)}};
}

template <class T, tile::Share SHARE, bool UPRIGHT>
void launch(const ladder::GemmArgs& args) {
  const ladder::GemmArgs g = UPRIGHT ? ladder::on_its_side(args) : args;
  const int at_once = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  const Work work = work_of<T, SHARE>(g, at_once);
  const tile::KSchedule& schedule = work.schedule;
  // gemm() finishes tiles of D^T alone.
  if (UPRIGHT && schedule.cut == 0) return launch<T, SHARE, false>(args);
  const CUtensorMap map_a = ladder::tensor_map_2d(g.b, g.n, g.k, g.ldb, T::SLICE, T::BK, g.m);
  const int slice = work.rows / T::CLUSTER_M;
  const CUtensorMap map_b = ladder::tensor_map_2d(g.a, g.m, g.k, g.lda, slice, T::BK, g.n);
  const int whole = std::max(1, args.n / 8 * 8);  // TMA must not write beyond column n
  const CUtensorMap map_d = ladder::tensor_map_2d(g.d, args.m, whole, g.ldd, work.box_rows, T::WM);
  ladder::allow_smem(gemm<T>, sizeof(Smem<T>));
  const tile::Gpu gpu = ladder::gpu();
  const bool early =
      tile::starts_early(tile::crowding(T::C, schedule, at_once, g.m, g.n, work.rows, gpu),
                         tile::least_clocks(T::C, schedule, at_once, g.m, g.n, g.k, gpu));
  const ladder::Launch config(schedule.clusters * T::CLUSTER, T::THREADS, sizeof(Smem<T>),
                              T::CLUSTER, early, g);
  ladder::check_cuda(cudaLaunchKernelEx(&config.config, gemm<T>, map_a, map_b, map_d, work),
                     "launch of stream_k::gemm");
  if constexpr (T::CUT) {
    if (schedule.cut == 0) return;
    const int blocks = schedule.tiles * T::SHARERS * (T::BM / T::WM) * (T::BN / 8);
    const int slices = std::min(MOST_SLICES, tile::ceil_div(schedule.cut, LOADS));
    const ladder::Launch then(blocks, slices * 128, 0, 1, true, g);
    ladder::check_cuda(cudaLaunchKernelEx(&then.config, add_up<T>, work, UPRIGHT),
                       "launch of stream_k::add_up");
  }
}

// By the cost model, in microseconds.
template <class T, const auto& TABLE, int ROW>
double predicted_us(const ladder::GemmArgs& args) {
  const ladder::GemmArgs g = TABLE[ROW].upright ? ladder::on_its_side(args) : args;
  if (T::CUT && g.max_ctas > 0) return tile::NEVER;  // add_up() takes no limit
  const tile::Gpu gpu = ladder::gpu();
  const int ctas = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g) * T::CLUSTER;
  return tile::predicted_clocks(TABLE[ROW], g.m, g.n, g.k, ctas, gpu, g.lda, g.ldb) / gpu.mhz;
}

template <const auto& TABLE, int ROW>
ladder::Variant variant() {
  constexpr tile::SharedK C = TABLE[ROW];
  using Whole = Tile<C.consumers, C.blocks, C.bn, C.cluster_m, C.cluster_n, C.split, C.ctas>;
  using T = std::conditional_t<C.share == tile::Share::cut, Cut<Whole>, Whole>;
  ladder::Kernel kernel =
      ladder::transposed_kernel<T>(launch<T, C.share, C.upright>, gemm<T>, sizeof(Smem<T>));
  if (C.upright) {
    std::swap(kernel.bm, kernel.bn);
    std::swap(kernel.cluster_m, kernel.cluster_n);
  }
  kernel.persistent = T::SPLIT == 1;  // a cluster that splits K has one tile
  if (C.share != tile::Share::none) kernel.workspace_bytes = 2 * T::CTAS * T::PARTIAL_BYTES;
  return {.name = C.name,
          .what = C.what(),
          .kernel = kernel,
          .configuration = true,
          .predicted_us = predicted_us<T, TABLE, ROW>};
}

template <const auto& TABLE>
std::vector<ladder::Variant> variants() {
  return ladder::variant_of_each<std::size(TABLE)>([](auto row) { return variant<TABLE, row>(); });
}

const std::vector<ladder::Variant>& configurations() {
  static const auto all = [] {
    auto all = variants<tile::SHARED_K>();
    const auto upright = variants<tile::UPRIGHT>();
    all.insert(all.end(), upright.begin(), upright.end());
    return all;
  }();
  return all;
}

static const ladder::Registrar registrar(__FILE__, "a tile's K is shared, for the same work an SM",
                                         ladder::with_chooser<configurations>());

}  // namespace stream_k
