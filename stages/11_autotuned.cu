// Rung 11: a configuration for every shape, chosen by a cost model.
//
// Idea       one kernel, instantiated for a table of tiles, clusters, splits of K and operand
//            orders; the host picks by arithmetic what is fastest for a shape.
// Limited by one tile for all shapes: rounds of tiles that do not fill the SMs, rows that are not
//            there, bytes that a larger tile would not move, and the gap between two launches.
// New PTX    stmatrix .trans, st.async, griddepcontrol
// Tile       per shape: the table in common/tile/configurations.h
// Read       docs/11_autotuned.md
#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "common/block/load_slice.cuh"
#include "common/block/stage_tile.cuh"
#include "common/block/store_last_columns.cuh"
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
#include "common/ptx/stmatrix.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/configurations.h"
#include "common/tile/cost_model.h"
#include "common/tile/descriptor.h"
#include "common/tile/fragment.h"
#include "common/tile/math.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"

namespace autotuned {

using ladder::bf16;

// The numbers of a configuration, so that a kernel is named by what it computes.
template <int CONSUMERS_, int BLOCKS_, int BN_, int CLUSTER_M_, int CLUSTER_N_, int SPLIT_,
          bool SWAP_, bool PINGPONG_>
struct Tile {
  static constexpr tile::GemmConfig C = {.name = "",
                                         .consumers = CONSUMERS_,
                                         .blocks = BLOCKS_,
                                         .bn = BN_,
                                         .cluster_m = CLUSTER_M_,
                                         .cluster_n = CLUSTER_N_,
                                         .split = SPLIT_,
                                         .swap = SWAP_,
                                         .pingpong = PINGPONG_};
  static constexpr int CONSUMERS = C.consumers, BLOCKS = C.blocks;  // warpgroups, 64 rows of each
  static constexpr bool PINGPONG = C.pingpong, SWAP = C.swap;
  static constexpr int BM = C.bm(), BN = C.bn, BK = 64;
  static constexpr int THREADS = 128 + CONSUMERS * 128;  // warpgroup 0: producer, storers
  static constexpr int TX_BYTES = (BM + BN) * BK * int{sizeof(bf16)};  // TMA brings one slot
  static constexpr int CLUSTER_M = C.cluster_m, CLUSTER_N = C.cluster_n, SPLIT = C.split;
  static constexpr int SHARERS = CLUSTER_M * CLUSTER_N, CLUSTER = SHARERS * SPLIT;
  static constexpr int SLICE_A = BM / CLUSTER_N;  // rows of A that one CTA loads for its row
  static constexpr int SLICE_B = BN / CLUSTER_M;  // rows of B that one CTA loads for its column
  static constexpr int IN_FLIGHT = CONSUMERS == 1 || PINGPONG;  // groups, where none else multiply
  // A CTA finishes SHARE columns of the tile, and stages them 64 x BOX by box (BOX x 64 of D^T).
  static constexpr int SHARE = BN / SPLIT, BOX = SWAP ? SHARE : std::gcd(SHARE, 64);
  static constexpr int BOXES = SHARE / BOX, BOX_BYTES = 64 * BOX * int{sizeof(bf16)};
  static constexpr int BOX_ROWS = SWAP ? BOX : 64, BOX_COLS = SWAP ? 64 : BOX;  // in D
  static constexpr int PARTIAL_BYTES = SPLIT > 1 ? BM* BN* int{sizeof(float)} : 0;
  // Shared memory is the staged boxes, the partial sums, and as many slots as then fit.
  static constexpr int BUFFERS = tile::staging_buffers(C);  // 64-row blocks staged at a time
  static constexpr int DEPTH = tile::ring_slots(C, BUFFERS);
  static constexpr int PRODUCER_REGS = 56;
  static constexpr int CONSUMER_REGS = CONSUMERS == 2 ? 224 : 240;
  static_assert(CONSUMERS * BUFFERS * BOXES * BOX_BYTES + PARTIAL_BYTES + DEPTH * TX_BYTES <
                    tile::MAX_SMEM_BYTES,
                "a CTA has 227 KB of shared memory");
  static_assert(DEPTH >= 3, "three slots: one multiplied, one landing, one asked for");
  static_assert(SHARE % 16 == 0, "stmatrix.x4 stages 16 columns");
  static_assert(SPLIT == 1 || BLOCKS == 1, "partial sums are exchanged for one block");
  static_assert(!PINGPONG || (CONSUMERS == 2 && SPLIT == 1), "two consumers take turns");
  static_assert(SLICE_A % 8 == 0 && SLICE_B % 8 == 0, "a slice starts on a swizzle atom");
  static_assert(BLOCKS * BN / 2 + 32 <= CONSUMER_REGS, "accumulators and 32 registers beside them");
  static_assert(128 * PRODUCER_REGS + CONSUMERS * 128 * CONSUMER_REGS <= 65536, "an SM has 65,536");
};

template <class T>
using Box = tile::SmemTile<bf16, T::BOX_ROWS, T::BOX_COLS>;

template <class T>
struct alignas(1024) Smem {
  tile::SmemTile<bf16, T::BM, T::BK> a[T::DEPTH];
  tile::SmemTile<bf16, T::BN, T::BK> b[T::DEPTH];
  Box<T> d[T::CONSUMERS][T::BUFFERS][T::BOXES];
  float4 partials[T::PARTIAL_BYTES / 16 + 1];  // [SPLIT][SHARE / 8][threads]: of each CTA, for us
  uint64_t summands;                           // partials are here: PARTIAL_BYTES
  uint64_t full[T::DEPTH];                     // the producer's arrival, and TX_BYTES
  uint64_t empty[T::DEPTH];                    // one arrival a consumer warp of all sharers
  uint64_t turn[T::CONSUMERS];                 // of ping-pong: one arrival a warp of the other
  uint64_t staged[T::CONSUMERS][T::BUFFERS];   // boxes are written: one arrival a warp
  uint64_t stored[T::CONSUMERS][T::BUFFERS];   // TMA has read them: the storer's arrival
};

// Starts acc += A · B^T for one slot: A [BLOCKS * 64][64] of the warpgroup, B [BN][64] of the CTA.
template <class T>
__device__ void multiply_tile(float (&acc)[T::BLOCKS][T::BN / 2], const unsigned char* a,
                              const unsigned char* b, bool accumulate) {
  const uint64_t a_desc = tile::k_major_128b(ptx::cvta_to_shared(a));
  const uint64_t b_desc = tile::k_major_128b(ptx::cvta_to_shared(b));
  ptx::wgmma_fence();
#pragma unroll
  for (int kk = 0; kk < T::BK / 16; ++kk) {
#pragma unroll
    for (int i = 0; i < T::BLOCKS; ++i) {
      ptx::wgmma_m64k16<T::BN>(acc[i], tile::advance(a_desc, kk * 32 + i * 64 * T::BK * 2),
                               tile::advance(b_desc, kk * 32), accumulate || kk > 0);
    }
  }
  ptx::wgmma_commit_group();
}

// Puts the warp's 16 rows of a 64 x SHARE block of D^T into the box, as columns.
template <class T>
__device__ void stage_transposed(const float* acc, Box<T>& box) {
  const int lane = threadIdx.x % 32, warp_in_group = threadIdx.x / 32 % 4;
#pragma unroll
  for (int col = 0; col < T::SHARE; col += 16) {
    const float* block = &acc[col / 2];  // 16x16: rows 0 to 7 and 8 to 15, then the next 8 columns
    const int row = col + tile::ldmatrix_b_row(lane);
    const int chunk = warp_in_group * 2 + tile::ldmatrix_b_chunk(lane);
    ptx::stmatrix_x4_trans(box.at(row, chunk), ptx::cvt_rn_bf16x2_f32(block[1], block[0]),
                           ptx::cvt_rn_bf16x2_f32(block[3], block[2]),
                           ptx::cvt_rn_bf16x2_f32(block[5], block[4]),
                           ptx::cvt_rn_bf16x2_f32(block[7], block[6]));
  }
}

// Adds up the partial sums of the SPLIT CTAs that share a tile: each sends every other its share of
// columns, and sums its own, always in the order of the ranks. All consumers of the cluster.
template <class T>
__device__ void sum_partials(float (&sum)[T::SHARE / 2], const float (&acc)[T::BN / 2],
                             Smem<T>& smem, int rank_k, int rank_in_tile) {
  constexpr int VECTORS = T::SHARE / 8, THREADS = T::CONSUMERS * 128;  // of 4 registers each
  const int thread = threadIdx.x - 128;
#pragma unroll
  for (int to = 0; to < T::SPLIT; ++to) {
    const int rank = to * T::SHARERS + rank_in_tile;
    const uint32_t bar = ptx::mapa_shared_cluster(&smem.summands, rank);
    const uint32_t dst =
        ptx::mapa_shared_cluster(&smem.partials[rank_k * VECTORS * THREADS + thread], rank);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      const float* v = &acc[(to * VECTORS + i) * 4];
      ptx::st_async_v4_f32(dst + i * THREADS * 16, v[0], v[1], v[2], v[3], bar);
    }
  }
  ptx::mbarrier_wait_cluster(&smem.summands, 0);
#pragma unroll
  for (int from = 0; from < T::SPLIT; ++from) {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      const float4& at = smem.partials[(from * VECTORS + i) * THREADS + thread];
      const float4 v = ptx::ld_shared_v4_f32(&at.x);
      sum[i * 4 + 0] = from > 0 ? sum[i * 4 + 0] + v.x : v.x;
      sum[i * 4 + 1] = from > 0 ? sum[i * 4 + 1] + v.y : v.y;
      sum[i * 4 + 2] = from > 0 ? sum[i * 4 + 2] + v.z : v.z;
      sum[i * 4 + 3] = from > 0 ? sum[i * 4 + 3] + v.w : v.w;
    }
  }
}

// Waits for a barrier of the ring, and releases a slot, among the CTAs that share operands.
template <class T>
__device__ void wait(uint64_t* bar, uint32_t parity) {
  if constexpr (T::SHARERS == 1) ptx::mbarrier_wait(bar, parity);
  if constexpr (T::SHARERS > 1) ptx::mbarrier_wait_cluster(bar, parity);
}
template <class T>
__device__ void release(uint64_t* empty, int lane, int first_rank) {
  if constexpr (T::SHARERS == 1) {
    if (lane == 0) ptx::mbarrier_arrive(empty);
  } else if (lane < T::SHARERS) {
    ptx::mbarrier_arrive_cluster(empty, first_rank + lane);
  }
}

// D [d_rows][d_cols] = A [m][k] · B [n][k]^T, or its transpose for SWAP.
template <class T>
__global__ __launch_bounds__(T::THREADS, 1) void gemm(const __grid_constant__ CUtensorMap map_a,
                                                      const __grid_constant__ CUtensorMap map_b,
                                                      const __grid_constant__ CUtensorMap map_d,
                                                      bf16* d, long long ldd, int d_rows,
                                                      int d_cols, int m, int n, int k,
                                                      int raster_group) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  // The schedule deals in clusters: blocks of CLUSTER_M x CLUSTER_N tiles.
  const int blocks_m = tile::ceil_div(m, T::BM * T::CLUSTER_M);
  const int blocks_n = tile::ceil_div(n, T::BN * T::CLUSTER_N);
  const int blocks = blocks_m * blocks_n;
  const int clusters = gridDim.x / T::CLUSTER, cluster = blockIdx.x / T::CLUSTER;
  const int rank = T::CLUSTER > 1 ? ptx::cluster_ctarank() : 0;
  const int rank_k = rank / T::SHARERS, rank_in_tile = rank % T::SHARERS;
  const int rank_m = rank_in_tile / T::CLUSTER_N, rank_n = rank_in_tile % T::CLUSTER_N;
  const int all_k_tiles = tile::ceil_div(k, T::BK);
  const int first_k = tile::share_begin(all_k_tiles, rank_k, T::SPLIT);
  const int k_tiles = tile::share_begin(all_k_tiles, rank_k + 1, T::SPLIT) - first_k;
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    ptx::prefetch_tensormap(&map_d);
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], 1);
      ptx::mbarrier_init(&smem.empty[slot], (T::PINGPONG ? 1 : T::CONSUMERS) * 4 * T::SHARERS);
    }
    for (int i = 0; i < T::CONSUMERS; ++i) {
      ptx::mbarrier_init(&smem.turn[i], 4);
      for (int buffer = 0; buffer < T::BUFFERS; ++buffer) {
        ptx::mbarrier_init(&smem.staged[i][buffer], 4);
        ptx::mbarrier_init(&smem.stored[i][buffer], 1);
      }
    }
    ptx::mbarrier_init(&smem.summands, 1);
    ptx::fence_mbarrier_init();  // before TMA counts bytes, and peers arrive, on them
    if (T::SPLIT > 1) ptx::mbarrier_arrive_expect_tx(&smem.summands, T::PARTIAL_BYTES);
  }
  ptx::griddepcontrol_launch_dependents();         // the next kernel may take SMs as they fall free
  if constexpr (T::CLUSTER == 1) ptx::bar_sync();  // before any thread uses the barriers
  if constexpr (T::CLUSTER > 1) ptx::barrier_cluster_sync();
  ptx::griddepcontrol_wait();  // A, B and D may be in use by the kernel before until here

  if (threadIdx.x < 128) {
    // --- producer: one thread of warp 0 fills the ring -------------------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    const int warp = threadIdx.x / 32;
    if (warp == 0 && ptx::elect_sync()) {
      // A is shared by the CTAs of a cluster row, B by those of a cluster column, of one K share.
      const int first_rank = rank_k * T::SHARERS;
      const uint16_t mask_a = ((1 << T::CLUSTER_N) - 1) << (first_rank + rank_m * T::CLUSTER_N);
      uint16_t mask_b = 0;
      for (int i = 0; i < T::CLUSTER_M; ++i)
        mask_b |= 1 << (first_rank + i * T::CLUSTER_N + rank_n);
      const int slice_a = rank_n * T::SLICE_A, slice_b = rank_m * T::SLICE_B;  // first row of ours
      tile::RingState<T::DEPTH> ring;
      for (int t = cluster; t < blocks; t += clusters) {
        const tile::TileCoord at = tile::grouped_raster(t, blocks_m, blocks_n, raster_group);
        const int m0 = (at.m * T::CLUSTER_M + rank_m) * T::BM;
        const int n0 = (at.n * T::CLUSTER_N + rank_n) * T::BN;
        for (int k_tile = first_k; k_tile < first_k + k_tiles; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          // Our copies land in the peers too: their consumers must have released the slot as well.
          wait<T>(&smem.empty[ring.slot], ring.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, T::TX_BYTES);  // from all sharers' copies
          block::load_slice<T::CLUSTER_N>(smem.a[ring.slot].from_row(slice_a), &map_a,
                                          k_tile * T::BK, m0 + slice_a, full, mask_a);
          block::load_slice<T::CLUSTER_M>(smem.b[ring.slot].from_row(slice_b), &map_b,
                                          k_tile * T::BK, n0 + slice_b, full, mask_b);
        }
      }
    }
    // --- storers: warp 1 + i sends what consumer i has staged ------------------------------------
    const int group = warp - 1;
    if (group >= 0 && group < T::CONSUMERS) {
      const bool leader = threadIdx.x % 32 == 0;  // starts the copies and waits for them
      tile::RingState<T::BUFFERS> out;
      for (int t = cluster, turn = 0; t < blocks; t += clusters, ++turn) {
        if (T::PINGPONG && turn % T::CONSUMERS != group) continue;  // the other consumer's
        const tile::TileCoord at = tile::grouped_raster(t, blocks_m, blocks_n, raster_group);
        const int tile_m0 = (at.m * T::CLUSTER_M + rank_m) * T::BM;
        const int n0 = (at.n * T::CLUSTER_N + rank_n) * T::BN + rank_k * T::SHARE;
        const int m0 = tile_m0 + (T::PINGPONG ? 0 : group * T::BLOCKS * 64);
#pragma unroll 1
        for (int i = 0; i < T::BLOCKS * T::BOXES; ++i) {
          const int in_block = i % T::BOXES;
          if (in_block == 0) ptx::mbarrier_wait(&smem.staged[group][out.slot], out.parity);
          const int block_m0 = m0 + i / T::BOXES * 64, block_n0 = n0 + in_block * T::BOX;
          const int row = T::SWAP ? block_n0 : block_m0, col = T::SWAP ? block_m0 : block_n0;
          const Box<T>& box = smem.d[group][out.slot][in_block];
          if (leader && row < d_rows && col < d_cols / 8 * 8) {
            ptx::cp_async_bulk_tensor_2d_s2g(&map_d, col, row, box.bytes);
            ptx::cp_async_bulk_commit_group();
            ptx::cp_async_bulk_wait_group_read<0>();  // one at a time: loads pass in between
          }
          block::store_last_columns(box, d, ldd, row, col, d_rows, d_cols);
          if (in_block < T::BOXES - 1) continue;
          ptx::bar_warp_sync();  // the leader speaks for all
          if (leader) ptx::mbarrier_arrive(&smem.stored[group][out.slot]);
          out.advance();
        }
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its rows of a tile, or, in turns, its own tiles ----
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int group = threadIdx.x / 128 - 1, lane = threadIdx.x % 32;
    const int first_rank = rank_k * T::SHARERS;  // lane r speaks to CTA first_rank + r
    float acc[T::BLOCKS][T::BN / 2] = {};        // D [BLOCKS][64][BN] of the warpgroup
    tile::RingState<T::DEPTH> ring;
    tile::RingState<T::BUFFERS> out;
    for (int t = cluster, turn = 0; t < blocks; t += clusters, ++turn) {
      if (T::PINGPONG && turn % T::CONSUMERS != group) {  // the other consumer's
        ring.advance(k_tiles);
        continue;
      }
      if constexpr (T::PINGPONG) ptx::mbarrier_wait(&smem.turn[group], (turn / 2 + 1 + group) % 2);
      int last_slot = 0;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        const int a_rows = T::PINGPONG ? 0 : group * T::BLOCKS * 64;  // our first row in the tile
        wait<T>(&smem.full[ring.slot], ring.parity);                  // the tile has landed
        multiply_tile<T>(acc, smem.a[ring.slot].from_row(a_rows), smem.b[ring.slot].bytes,
                         k_tile > 0);
        ptx::wgmma_wait_group<T::IN_FLIGHT>();
        if (T::IN_FLIGHT == 0) release<T>(&smem.empty[ring.slot], lane, first_rank);
        if (T::IN_FLIGHT == 1 && k_tile > 0) release<T>(&smem.empty[last_slot], lane, first_rank);
        last_slot = ring.slot;
      }
      if (T::PINGPONG && lane == 0) ptx::mbarrier_arrive(&smem.turn[1 - group]);
      if constexpr (T::IN_FLIGHT == 1) {
        ptx::wgmma_wait_group<0>();
        if (k_tiles > 0) release<T>(&smem.empty[last_slot], lane, first_rank);
      }

      // --- epilogue ------------------------------------------------------------------------------
      float sum[T::SHARE / 2];
      if constexpr (T::SPLIT > 1) sum_partials<T>(sum, acc[0], smem, rank_k, rank_in_tile);
#pragma unroll
      for (int i = 0; i < T::BLOCKS; ++i, out.advance()) {
        ptx::mbarrier_wait(&smem.stored[group][out.slot], out.parity ^ 1);  // boxes may be reused
        const float* results = T::SPLIT > 1 ? sum : acc[i];
        if constexpr (T::SWAP) stage_transposed<T>(results, smem.d[group][out.slot][0]);
        if constexpr (!T::SWAP) block::stage_tile(results, smem.d[group][out.slot]);
        ptx::fence_proxy_async_shared_cta();  // TMA will read what stmatrix wrote
        ptx::bar_warp_sync();
        if (lane == 0) ptx::mbarrier_arrive(&smem.staged[group][out.slot]);
      }
    }
  }
  // No CTA exits while a peer can still write or arrive there.
  if constexpr (T::CLUSTER > 1) ptx::barrier_cluster_sync();
}

// CTAs that run at the same time: as many as the current device can hold, or as the call allows.
template <class T>
int ctas_at_once(const ladder::GemmArgs& g) {
  const int resident = ladder::resident_ctas(reinterpret_cast<const void*>(gemm<T>), T::THREADS,
                                             sizeof(Smem<T>), T::CLUSTER);
  return g.max_ctas > 0 ? std::min(resident, g.max_ctas) : resident;
}

// EARLY: by programmatic dependent launch, before the kernel in front has ended.
template <class T, bool EARLY>
void launch(const ladder::GemmArgs& g) {
  const int m = T::SWAP ? g.n : g.m, n = T::SWAP ? g.m : g.n;
  const CUtensorMap map_m = ladder::tensor_map_2d(T::SWAP ? g.b : g.a, m, g.k,
                                                  T::SWAP ? g.ldb : g.lda, T::SLICE_A, T::BK);
  const CUtensorMap map_n = ladder::tensor_map_2d(T::SWAP ? g.a : g.b, n, g.k,
                                                  T::SWAP ? g.lda : g.ldb, T::SLICE_B, T::BK);
  const int whole = std::max(1, g.n / 8 * 8);  // TMA must not write beyond column n
  const CUtensorMap map_d = ladder::tensor_map_2d(g.d, g.m, whole, g.ldd, T::BOX_ROWS, T::BOX_COLS);
  const int blocks = tile::ceil_div(m, T::BM * T::CLUSTER_M) *  // of one cluster each
                     tile::ceil_div(n, T::BN * T::CLUSTER_N);
  const int at_once = std::max(1, ctas_at_once<T>(g) / T::CLUSTER);
  // The partial sums of a tile have one buffer: a cluster that splits K has one tile.
  const int clusters = T::SPLIT > 1 ? blocks : std::min(blocks, at_once);
  const int group = tile::raster_group(T::BM * T::CLUSTER_M, T::BN * T::CLUSTER_N, at_once);
  ladder::check_cuda(
      cudaFuncSetAttribute(gemm<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem<T>)),
      "shared memory of autotuned::gemm");
  const ladder::Launch config(clusters * T::CLUSTER, T::THREADS, sizeof(Smem<T>), T::CLUSTER, EARLY,
                              g.stream);
  ladder::check_cuda(cudaLaunchKernelEx(&config.config, gemm<T>, map_m, map_n, map_d, g.d, g.ldd,
                                        g.m, g.n, m, n, g.k, group),
                     "launch of autotuned::gemm");
}

// By the cost model, in microseconds.
template <class T>
double predicted_us(const ladder::GemmArgs& g) {
  const tile::Gpu gpu{.sms = ladder::sm_count()};
  const double clocks =
      tile::predicted_clocks(T::C, g.m, g.n, g.k, ctas_at_once<T>(g), gpu, g.lda, g.ldb);
  return clocks / gpu.mhz;
}

template <class T, bool EARLY>
ladder::Variant variant(const char* name) {
  ladder::Kernel kernel = ladder::persistent_kernel<T>(launch<T, EARLY>, gemm<T>, sizeof(Smem<T>));
  if (T::SWAP) std::swap(kernel.bm, kernel.bn);
  kernel.cluster_n *= T::SPLIT;
  kernel.persistent = T::SPLIT == 1;
  return {.name = name,
          .what = T::PINGPONG      ? "consumers in turn"
                  : T::SPLIT > 1   ? "D^T, K split in a cluster"
                  : T::SWAP        ? "D^T"
                  : T::CLUSTER > 1 ? "multicast in a cluster"
                                   : "one CTA by itself",
          .kernel = kernel,
          .configuration = true,
          .predicted_us = predicted_us<T>};
}

template <int I>
constexpr const tile::GemmConfig& ROW = tile::CONFIGURATIONS[I];
template <int I>
using TileOf = Tile<ROW<I>.consumers, ROW<I>.blocks, ROW<I>.bn, ROW<I>.cluster_m, ROW<I>.cluster_n,
                    ROW<I>.split, ROW<I>.swap, ROW<I>.pingpong>;

template <bool EARLY, int... I>
const std::vector<ladder::Variant>& configurations(std::integer_sequence<int, I...>) {
  static const std::vector<ladder::Variant> all = {variant<TileOf<I>, EARLY>(ROW<I>.name)...};
  return all;
}
template <bool EARLY>
const std::vector<ladder::Variant>& configurations() {
  return configurations<EARLY>(std::make_integer_sequence<int, std::size(tile::CONFIGURATIONS)>{});
}

template <bool EARLY>
ladder::Variant chooser(const char* name, const char* what) {
  return ladder::chooser_among(
      name, what, configurations<EARLY>(),
      +[](const ladder::GemmArgs& g) -> const ladder::Variant& {
        return *ladder::least_predicted(configurations<EARLY>(), g);
      });
}

static std::vector<ladder::Variant> registered() {
  std::vector<ladder::Variant> all = configurations<true>();
  all.insert(all.begin(), {chooser<true>("auto", "chosen by the cost model").as_result(),
                           chooser<false>("auto_plain", "the same choice, plain launch")});
  return all;
}

static const ladder::Registrar registrar(__FILE__,
                                         "a configuration for every shape, chosen by a cost model",
                                         registered());

}  // namespace autotuned
