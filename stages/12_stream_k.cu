// Rung 12: the K of a tile is shared, so that every SM gets the same amount of work.
//
// Idea       the K steps of all tiles are one row, cut into equal parts, one a CTA; whoever comes
//            last to a tile adds up its partial sums.
// Limited by tiles that are too few for the SMs, or leave most of them idle in the last round; and
//            the time until all SMs ask DRAM for weights.
// New PTX    stmatrix .trans, st.async, ld.acquire, atom.acq_rel, barrier.red
// Tile       of D^T: 64 to 256 columns of D, 8 to 256 rows; common/tile/shared_k_configurations.h
// Read       docs/12_stream_k.md
#include <algorithm>
#include <vector>
#include <cstdlib>
#include <string>

#include "common/block/load_slice.cuh"
#include "common/block/store_last_columns.cuh"
#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/launch.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/atomic.cuh"
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
#include "common/tile/cost_model.h"
#include "common/tile/descriptor.h"
#include "common/tile/fragment.h"
#include "common/tile/k_shares.h"
#include "common/tile/math.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"

namespace stream_k {

using ladder::bf16;

// The tile's rows are columns of D (rows of B), its columns rows of D (rows of A).
template <int CONSUMERS_, int BLOCKS_, int BN_, int SHARERS_, int SPLIT_, int CTAS_ = 1>
struct Tile {
  static constexpr int CONSUMERS = CONSUMERS_, BLOCKS = BLOCKS_;  // warpgroups, 64 rows of each
  static constexpr int CTAS = CTAS_;  // that fit an SM at a time
  static constexpr int BM = CONSUMERS * BLOCKS * 64, BN = BN_, BK = 64;
  static constexpr int THREADS = 128 + CONSUMERS * 128;  // warpgroup 0: producer
  static constexpr int SHARERS = SHARERS_;  // CTAs of a cluster side by side: share the rows
  static constexpr int SPLIT = SPLIT_;      // CTAs of a cluster that share a tile's K
  static constexpr int CLUSTER = SHARERS * SPLIT;
  static constexpr int SLICE_A = BM / SHARERS;     // rows that one CTA loads for all sharers
  static constexpr int IN_FLIGHT = CONSUMERS == 1;  // groups, where none else multiply
  // Of a tile that a cluster splits, CTA i finishes SHARE columns from i * SHARE on.
  static constexpr int SHARE = BN / std::min(SPLIT, BN / 8);
  static constexpr int AT_ONCE = BLOCKS * BN <= 272 ? 64 : 32;  // columns that a thread sums at a time
  static constexpr int EXCHANGE_BYTES = SPLIT > 1 ? SPLIT * BM * SHARE * int{sizeof(float)} : 0;
  static constexpr int PARTIAL_BYTES = BM * BN * int{sizeof(float)};  // in the workspace
  static constexpr int BOX_BYTES = BN * 64 * int{sizeof(bf16)};
  static constexpr int ROW_BYTES = 64 * int{sizeof(bf16)};
  static constexpr int DEPTH = ((tile::MAX_SMEM_BYTES - 1024 * (CTAS - 1)) / CTAS - 2048 - EXCHANGE_BYTES - CONSUMERS * BOX_BYTES) /
                               ((BM + BN) * ROW_BYTES);
  // Registers of a thread at the launch; the warpgroups then share these out anew.
  static constexpr int REGS = std::min(255, 65536 / (CTAS * THREADS)) / 8 * 8;
  static constexpr int PRODUCER_REGS = CTAS * CONSUMERS > 2 ? 40 : 56;
  static constexpr int CONSUMER_REGS =
      std::min(240, (REGS * THREADS / 128 - PRODUCER_REGS) / CONSUMERS / 8 * 8);
  static_assert(DEPTH >= 3, "three slots: one multiplied, one landing, one asked for");
  static_assert(SLICE_A % 8 == 0, "a slice starts on a swizzle atom");
  static_assert(SPLIT == 1 || BLOCKS == 1, "partial sums are exchanged for one block");
  static_assert(BLOCKS * BN / 2 + 32 <= CONSUMER_REGS, "accumulators and 32 registers beside them");
};

template <class T>
struct alignas(1024) Smem {
  tile::SmemTile<bf16, T::BM, 64> a[T::DEPTH];
  tile::SmemTile<bf16, T::BN, 64> b[T::DEPTH];
  tile::SmemTile<bf16, T::BN, 64> d[T::CONSUMERS];  // a block's columns of D, of BN rows
  float4 exchange[T::EXCHANGE_BYTES / 16 + 1];      // [SPLIT][SHARE / 8][threads]: of each CTA
  uint64_t summands;                                // they are here: EXCHANGE_BYTES
  uint64_t full[T::DEPTH];                          // the producer's arrival, and a slot's bytes
  uint64_t empty[T::DEPTH];                         // one arrival a consumer warp of all sharers
};

// What the host has worked out for a call.
struct Work {
  bf16* d;  // [d_rows][ldd]
  long long ldd;
  int d_rows, d_cols;
  int rows;              // of D in a tile, at most BN: as many in each
  int tiles_m, tiles_n;  // of clusters: across and down D
  int raster_group;
  tile::KSchedule schedule;
  float4* partials;   // [2 * clusters][SHARERS][PARTIAL_BYTES / 16], in the workspace
  uint32_t* arrived;  // [clusters][SHARERS][CONSUMERS], in the workspace: 0 between launches
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

// Puts COLS columns of the warp's 16 rows of D^T into the box, as rows from row0 on.
template <int COLS, int ROWS>
__device__ void stage_transposed(const float* acc, tile::SmemTile<bf16, ROWS, 64>& box, int row0) {
  const int lane = threadIdx.x % 32, warp_in_group = threadIdx.x / 32 % 4;
  const int chunk = warp_in_group * 2 + tile::ldmatrix_b_chunk(lane);
#pragma unroll
  for (int col = 0; col + 8 <= COLS; col += 16) {
    const float* block = &acc[col / 2];  // 16x16: rows 0 to 7 and 8 to 15, then the next 8 columns
    const uint32_t r0 = ptx::cvt_rn_bf16x2_f32(block[1], block[0]);
    const uint32_t r1 = ptx::cvt_rn_bf16x2_f32(block[3], block[2]);
    if (col + 8 == COLS) {  // 16x8
      ptx::stmatrix_x2_trans(box.at(row0 + col + lane % 8, chunk), r0, r1);
    } else {
      ptx::stmatrix_x4_trans(box.at(row0 + col + tile::ldmatrix_b_row(lane), chunk), r0, r1,
                             ptx::cvt_rn_bf16x2_f32(block[5], block[4]),
                             ptx::cvt_rn_bf16x2_f32(block[7], block[6]));
    }
  }
}

// Sends the partial sums of a tile to the CTAs of the cluster that finish it, each its columns.
template <class T>
__device__ void exchange(const float (&acc)[T::BN / 2], Smem<T>& smem, int rank_k, int rank_n) {
  constexpr int VECTORS = T::SHARE / 8, THREADS = T::CONSUMERS * 128;  // of 4 registers each
  const int thread = threadIdx.x - 128;
#pragma unroll
  for (int to = 0; to < T::BN / T::SHARE; ++to) {
    const int rank = to * T::SHARERS + rank_n;
    const uint32_t bar = ptx::mapa_shared_cluster(&smem.summands, rank);
    const uint32_t dst =
        ptx::mapa_shared_cluster(&smem.exchange[rank_k * VECTORS * THREADS + thread], rank);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      const float* v = &acc[(to * VECTORS + i) * 4];
      ptx::st_async_v4_f32(dst + i * THREADS * 16, v[0], v[1], v[2], v[3], bar);
    }
  }
}

// This thread's place in the workspace for the partial sums of a tile that cluster `cluster` began,
// or took over in the middle. A cluster may have one of either kind.
template <class T>
__device__ float4* partials_of(const Work& work, int cluster, bool began, int rank_n) {
  const int place = (cluster * 2 + began) * T::SHARERS + rank_n;
  return work.partials + place * (T::PARTIAL_BYTES / 16) + threadIdx.x - 128;
}

// Leaves a warpgroup's partial sums in the workspace.
template <class T>
__device__ void leave_partials(float4* to, const float (&acc)[T::BLOCKS][T::BN / 2]) {
  constexpr int VECTORS = T::BN / 8;
#pragma unroll
  for (int i = 0; i < T::BLOCKS * VECTORS; ++i) {
    const float* v = &acc[i / VECTORS][i % VECTORS * 4];
    ptx::st_global_v4_f32(to + i * T::CONSUMERS * 128, v[0], v[1], v[2], v[3]);
  }
}

// Of the clusters that share a tile, the last one to come finishes it: true there. The others leave
// what they have in the workspace, and nobody waits. A warpgroup.
template <class T>
__device__ bool comes_last(const float (&acc)[T::BLOCKS][T::BN / 2], const tile::KShares& share,
                           int cluster, int rank_n, const Work& work) {
  const int group = threadIdx.x / 128 - 1;
  const bool speaks = threadIdx.x % 128 == 0;
  const int first = share.first_sharer();
  const uint32_t others = share.sharers() - 1;
  uint32_t* arrived = work.arrived + (first * T::SHARERS + rank_n) * T::CONSUMERS + group;

  bool last = ptx::barrier_red_or(1 + group, 128,
                                  speaks && ptx::ld_acquire_gpu_u32(arrived) == others);
  if (!last) {
    leave_partials<T>(partials_of<T>(work, cluster, cluster == first, rank_n), acc);
    ptx::barrier_sync(1 + group, 128);  // the one who speaks speaks for all
    last = ptx::barrier_red_or(
        1 + group, 128, speaks && ptx::atom_add_acq_rel_gpu_u32(arrived, 1) == others);
  }
  if (last && speaks) ptx::st_relaxed_gpu_u32(arrived, 0);  // for the next launch
  return last;
}

// sum += v
template <int N>
__device__ void add(float (&sum)[N], const float4 (&v)[N / 4]) {
#pragma unroll
  for (int i = 0; i < N / 4; ++i) {
    sum[i * 4 + 0] += v[i].x;
    sum[i * 4 + 1] += v[i].y;
    sum[i * 4 + 2] += v[i].z;
    sum[i * 4 + 3] += v[i].w;
  }
}

// Adds what the clusters from `from` to before `end` have left of a tile that cluster `first` began.
template <class T, int N>
__device__ void add_partials(float (&sum)[N], int from, int end, int first, int first_vector,
                             int rank_n, const Work& work) {
  constexpr int THREADS = T::CONSUMERS * 128;
#pragma unroll 1
  for (; from < end; ++from) {
    const float4* theirs =
        partials_of<T>(work, from, from == first, rank_n) + first_vector * THREADS;
    float4 v[N / 4];
#pragma unroll
    for (int i = 0; i < N / 4; ++i) v[i] = ptx::ld_global_v4_f32(theirs + i * THREADS);
    add(sum, v);
  }
}

// The same of the sums that the CTAs of the cluster have sent.
template <class T, int N>
__device__ void sum_exchanged(float (&sum)[N], const Smem<T>& smem, int first_vector) {
  constexpr int VECTORS = T::SHARE / 8, THREADS = T::CONSUMERS * 128;
#pragma unroll
  for (int from = 0; from < T::SPLIT; ++from) {
    float4 v[N / 4];
#pragma unroll
    for (int i = 0; i < N / 4; ++i) {
      const int at = (from * VECTORS + first_vector + i) * THREADS + threadIdx.x - 128;
      v[i] = ptx::ld_shared_v4_f32(&smem.exchange[at].x);
    }
    add(sum, v);
  }
}

// Finishes COLS columns of a block from column COL on, and stages them.
template <class T, int COL, int COLS>
__device__ void finish_columns(const float (&acc)[T::BN / 2], int block, Smem<T>& smem,
                               const tile::KShares& share, bool shared, int cluster, int rank_n,
                               const Work& work) {
  float sum[COLS / 2];
#pragma unroll
  for (int i = 0; i < COLS / 2; ++i) sum[i] = -0.0f;  // nothing: what is added to it stays as it is
  if constexpr (T::SPLIT > 1) {
    sum_exchanged<T>(sum, smem, COL / 8);
  } else {
    const int vector = block * T::BN / 8 + COL / 8, first = share.first_sharer();
    if (shared) add_partials<T>(sum, first, cluster, first, vector, rank_n, work);
#pragma unroll
    for (int i = 0; i < COLS / 2; ++i) sum[i] += acc[COL / 2 + i];
    if (shared) {
      add_partials<T>(sum, cluster + 1, first + share.sharers(), first, vector, rank_n, work);
    }
  }
  stage_transposed<COLS>(sum, smem.d[threadIdx.x / 128 - 1], COL);
  constexpr int NEXT = COL + COLS, LEFT = T::SHARE - NEXT;
  if constexpr (LEFT > 0) {
    finish_columns<T, NEXT, (LEFT < COLS ? LEFT : COLS)>(acc, block, smem, share, shared, cluster,
                                                         rank_n, work);
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

// D^T [d_cols][d_rows] = A [d_cols][k] · B [d_rows][k]^T.
template <class T>
__global__ __launch_bounds__(T::THREADS, T::CTAS) void gemm(const __grid_constant__ CUtensorMap map_a,
                                                      const __grid_constant__ CUtensorMap map_b,
                                                      const __grid_constant__ CUtensorMap map_d,
                                                      const __grid_constant__ Work work) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int cluster = blockIdx.x / T::CLUSTER;
  const int rank = T::CLUSTER > 1 ? ptx::cluster_ctarank() : 0;
  const int rank_k = rank / T::SHARERS, rank_n = rank % T::SHARERS;
  const int first_rank = rank_k * T::SHARERS;  // of those that share rows with us
  const tile::KShares shares(work.schedule, cluster);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    ptx::prefetch_tensormap(&map_d);
    ptx::mbarrier_init(&smem.summands, 1);
    ptx::fence_mbarrier_init();
    if (T::SPLIT > 1) ptx::mbarrier_arrive_expect_tx(&smem.summands, T::EXCHANGE_BYTES);
  }
  if (threadIdx.x < T::DEPTH) {  // a thread each: the ring may have many slots
    ptx::mbarrier_init(&smem.full[threadIdx.x], 1);
    ptx::mbarrier_init(&smem.empty[threadIdx.x], T::CONSUMERS * 4 * T::SHARERS);
    ptx::fence_mbarrier_init();  // before TMA counts bytes, and peers arrive, on them
  }
  // TMA does not fetch rows that the tile does not have: for wgmma they are zeros.
  const int missing_chunks = (T::BN - work.rows) * (T::ROW_BYTES / 16);
  for (int i = threadIdx.x; i < missing_chunks * T::DEPTH; i += T::THREADS) {
    unsigned char* first = smem.b[i / missing_chunks].bytes + work.rows * T::ROW_BYTES;
    ptx::st_shared_v4_b32(first + i % missing_chunks * 16, uint4{});
  }
  ptx::fence_proxy_async_shared_cta();             // before wgmma reads them
  ptx::griddepcontrol_launch_dependents();         // the next kernel may take SMs as they fall free
  if constexpr (T::CLUSTER == 1) ptx::bar_sync();  // before any thread uses the barriers
  if constexpr (T::CLUSTER > 1) ptx::barrier_cluster_sync();
  ptx::griddepcontrol_wait();  // A, B, D and the workspace may be in use by the kernel before

  if (threadIdx.x < 128) {
    // --- producer: one thread of warp 0 fills the ring -------------------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      const uint16_t mask_a = ((1 << T::SHARERS) - 1) << first_rank;
      const int slice_a = rank_n * T::SLICE_A;  // first row of ours
      const uint32_t tx_bytes = (T::BM + work.rows) * T::ROW_BYTES;  // TMA brings one slot
      tile::RingState<T::DEPTH> ring;
      for (auto share = shares; share.has(); share.next()) {
        const tile::TileCoord at =
            tile::grouped_raster(share.tile(), work.tiles_m, work.tiles_n, work.raster_group);
        const int m0 = at.m * T::BM, n0 = (at.n * T::SHARERS + rank_n) * work.rows;
        const int first_k = share.first_k() + tile::share_begin(share.k_tiles(), rank_k, T::SPLIT);
        const int end_k = share.first_k() + tile::share_begin(share.k_tiles(), rank_k + 1, T::SPLIT);
        for (int k_tile = first_k; k_tile < end_k; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          // Our copies land in the peers too: their consumers must have released the slot as well.
          wait<T>(&smem.empty[ring.slot], ring.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, tx_bytes);  // from all sharers' copies
          block::load_slice<T::SHARERS>(smem.a[ring.slot].from_row(slice_a), &map_a,
                                        k_tile * T::BK, m0 + slice_a, full, mask_a);
          ptx::cp_async_bulk_tensor_2d_g2s(smem.b[ring.slot].bytes, &map_b, k_tile * T::BK, n0,
                                           full);
        }
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its rows of a tile ---------------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int group = threadIdx.x / 128 - 1, lane = threadIdx.x % 32;
    const bool stores = threadIdx.x % 128 == 0;  // starts the copies and waits for them
    tile::RingState<T::DEPTH> ring;
    for (auto share = shares; share.has(); share.next()) {
      const int k_tiles = tile::share_begin(share.k_tiles(), rank_k + 1, T::SPLIT) -
                          tile::share_begin(share.k_tiles(), rank_k, T::SPLIT);
      float acc[T::BLOCKS][T::BN / 2] = {};  // D^T [BLOCKS][64][BN] of the warpgroup
      int last_slot = 0;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        wait<T>(&smem.full[ring.slot], ring.parity);  // the tile has landed
        multiply_tile<T>(acc, smem.a[ring.slot].from_row(group * T::BLOCKS * 64),
                         smem.b[ring.slot].bytes, k_tile > 0);
        ptx::wgmma_wait_group<T::IN_FLIGHT>();
        if (T::IN_FLIGHT == 0) release<T>(&smem.empty[ring.slot], lane, first_rank);
        if (T::IN_FLIGHT == 1 && k_tile > 0) release<T>(&smem.empty[last_slot], lane, first_rank);
        last_slot = ring.slot;
      }
      if constexpr (T::IN_FLIGHT == 1) {
        ptx::wgmma_wait_group<0>();
        if (k_tiles > 0) release<T>(&smem.empty[last_slot], lane, first_rank);
      }

      // --- epilogue ------------------------------------------------------------------------------
      const bool shared = T::SPLIT == 1 && share.is_shared();
      if constexpr (T::SPLIT > 1) {
        exchange<T>(acc[0], smem, rank_k, rank_n);
        if (rank_k >= T::BN / T::SHARE) continue;
        ptx::mbarrier_wait_cluster(&smem.summands, 0);
      } else if (work.schedule.split > 1) {
        leave_partials<T>(partials_of<T>(work, cluster, false, rank_n), acc);
        continue;  // the next kernel adds them up
      } else if (shared && !comes_last<T>(acc, share, cluster, rank_n, work)) {
        continue;  // another cluster finishes it
      }
      const tile::TileCoord at =
          tile::grouped_raster(share.tile(), work.tiles_m, work.tiles_n, work.raster_group);
      const int row = (at.n * T::SHARERS + rank_n) * work.rows + rank_k * T::SHARE;
      const int end_row = std::min(work.d_rows, T::SPLIT > 1 ? row + T::SHARE : row + work.rows);
#pragma unroll
      for (int i = 0; i < T::BLOCKS; ++i) {
        const int col = at.m * T::BM + (group * T::BLOCKS + i) * 64;
        if (stores) ptx::cp_async_bulk_wait_group_read<0>();
        ptx::barrier_sync(1 + group, 128);  // the box may be reused
        finish_columns<T, 0, std::min(T::SHARE, T::AT_ONCE)>(acc[i], i, smem, share, shared, cluster,
                                                             rank_n, work);
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
  // No CTA exits while a peer can still write or arrive there.
  if constexpr (T::CLUSTER > 1) ptx::barrier_cluster_sync();
}

// Adds up, in the order of K, what the `split` clusters that share a tile have left, and writes D:
// 16 columns of 64 rows of a tile a CTA, of 128 threads.
template <class T>
__global__ __launch_bounds__(128) void add_up(const __grid_constant__ Work work) {
  __shared__ tile::SmemTile<bf16, 16, 64> box;
  constexpr int SLICES = tile::ceil_div(T::BN, 16), GROUPS = T::BM / 64;
  const int slice = blockIdx.x % SLICES, block = blockIdx.x / SLICES % GROUPS;
  const int rank_n = blockIdx.x / (SLICES * GROUPS) % T::SHARERS;
  const int tile_index = blockIdx.x / (SLICES * GROUPS * T::SHARERS);
  const int group = block / T::BLOCKS, first_vector = block % T::BLOCKS * T::BN / 8 + slice * 2;
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  float sum[8] = {-0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f};
#pragma unroll 8
  for (int part = 0; part < work.schedule.split; ++part) {
    const int place = (tile_index * work.schedule.split + part) * 2 * T::SHARERS + rank_n;
    const float4* from = work.partials + place * (T::PARTIAL_BYTES / 16) + group * 128 +
                         threadIdx.x + first_vector * T::CONSUMERS * 128;
    float4 v[2] = {ptx::ld_global_v4_f32(from), float4{}};
    if (slice * 16 + 8 < T::BN) v[1] = ptx::ld_global_v4_f32(from + T::CONSUMERS * 128);
    add(sum, v);
  }
  stage_transposed<16>(sum, box, 0);
  ptx::bar_sync();
  const tile::TileCoord at =
      tile::grouped_raster(tile_index, work.tiles_m, work.tiles_n, work.raster_group);
  const int in_tile = slice * 16 + threadIdx.x / 8;
  const int row = (at.n * T::SHARERS + rank_n) * work.rows + in_tile;
  const int col = at.m * T::BM + block * 64 + threadIdx.x % 8 * 8;
  if (in_tile >= work.rows || row >= work.d_rows) return;
  const uint4 chunk = ptx::ld_shared_v4_b32(box.at(threadIdx.x / 8, threadIdx.x % 8));
  bf16* to = work.d + row * work.ldd + col;
  ptx::st_global_bf16x4(to, chunk.x, chunk.y, work.d_cols - col);
  ptx::st_global_bf16x4(to + 4, chunk.z, chunk.w, work.d_cols - col - 4);
}

// CTAs that run at the same time: as many as the current device can hold, or as the call allows.
template <class T>
int ctas_at_once(const ladder::GemmArgs& g) {
  const int resident = ladder::resident_ctas(reinterpret_cast<const void*>(gemm<T>), T::THREADS,
                                             sizeof(Smem<T>), T::CLUSTER) * (T::CLUSTER == 1 ? T::CTAS : 1);
  return g.max_ctas > 0 ? std::min(resident, g.max_ctas) : resident;
}

template <class T, int SHARED_ROUNDS>
void launch(const ladder::GemmArgs& g) {
  const int tiles = tile::ceil_div(g.m, T::BN * T::SHARERS) * T::SHARERS;  // down D
  const int rows = T::SPLIT > 1 ? std::min(T::BN, g.m) : tile::ceil_div(g.m, tiles);
  const int whole = std::max(1, g.n / 8 * 8);  // TMA must not write beyond column n
  const CUtensorMap map_a = ladder::tensor_map_2d(g.b, g.n, g.k, g.ldb, T::SLICE_A, 64);
  const CUtensorMap map_b = ladder::tensor_map_2d(g.a, g.m, g.k, g.lda, rows, 64);
  const CUtensorMap map_d =
      ladder::tensor_map_2d(g.d, g.m, whole, g.ldd, T::SPLIT > 1 ? T::SHARE : rows, 64);
  static void* hack = nullptr;
  if (!hack) { cudaMalloc(&hack, 128 << 20); cudaMemset(hack, 0, 65536); }
  Work work{};
  work.d = g.d;
  work.ldd = g.ldd;
  work.d_rows = g.m;
  work.d_cols = g.n;
  work.rows = rows;
  work.tiles_m = tile::ceil_div(g.n, T::BM);
  work.tiles_n = tiles / T::SHARERS;
  const int at_once = std::max(1, ctas_at_once<T>(g) / T::CLUSTER);
  work.raster_group = tile::raster_group(T::BM, rows * T::SHARERS, at_once);
  const int all = work.tiles_m * work.tiles_n;
  const int clusters = T::SPLIT > 1 ? all : SHARED_ROUNDS == 2 ? all * std::max(1, std::min(tile::ceil_div(g.k, 64) / 4, at_once / all)) : SHARED_ROUNDS > 0 ? at_once : std::min(all, at_once);
  const int k_tiles = tile::ceil_div(g.k, T::BK);
  const int split = SHARED_ROUNDS == 2 ? std::max(1, std::min(k_tiles / 4, at_once / all)) : 1;
  if (split > 1)
    work.schedule = {.tiles = all, .k_tiles = k_tiles, .clusters = all * split, .whole = 0, .sharers = all * split, .steps = 0, .longer = 0, .split = split};
  else work.schedule = tile::share_k(all, tile::ceil_div(g.k, T::BK), clusters, SHARED_ROUNDS == 2 ? 0 : SHARED_ROUNDS, 4);
  work.arrived = (uint32_t*)hack;
  work.partials = (float4*)((char*)hack + 65536);
  ladder::check_cuda(
      cudaFuncSetAttribute(gemm<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem<T>)),
      "shared memory of stream_k::gemm");
  static const int mode = getenv("MODE") ? atoi(getenv("MODE")) : 1;
  const ladder::Launch config(clusters * T::CLUSTER, T::THREADS, sizeof(Smem<T>), T::CLUSTER, mode,
                              g.stream);
  ladder::check_cuda(cudaLaunchKernelEx(&config.config, gemm<T>, map_a, map_b, map_d, work),
                     "launch of stream_k::gemm");
  if (split > 1) {
    const ladder::Launch after(all * T::SHARERS * (T::BM / 64) * tile::ceil_div(T::BN, 16), 128, 0, 1, true, g.stream);
    ladder::check_cuda(cudaLaunchKernelEx(&after.config, add_up<T>, work),
                     "launch of stream_k::add_up");
  }
}

template <class T, int R>
ladder::Variant variant() {
  static std::string name = std::to_string(T::CONSUMERS) + "." + std::to_string(T::BLOCKS) + "." + std::to_string(T::BN) + (T::SHARERS > 1 ? "_s" + std::to_string(T::SHARERS) : "") + (T::SPLIT > 1 ? "_k" + std::to_string(T::SPLIT) : "") + (T::CTAS > 1 ? "_x2" : "") + (R == 0 ? "" : R == 1 ? "_last" : R == 2 ? "_sum" : "_all");
  ladder::Kernel k{.launch = launch<T, R>, .function = reinterpret_cast<const void*>(gemm<T>),
    .bm = T::BN, .bn = T::BM, .bk = T::BK, .depth = T::DEPTH, .threads = T::THREADS, .smem_bytes = sizeof(Smem<T>), .regs_dec = T::PRODUCER_REGS, .regs_inc = T::CONSUMER_REGS, .persistent = T::SPLIT == 1, .cluster_m = T::SHARERS, .cluster_n = T::SPLIT};
  return {.name = name.c_str(), .what = "x", .kernel = k};
}
template <class T>
void add(std::vector<ladder::Variant>& all) {
  all.push_back(variant<T, 0>());
  if constexpr (T::SPLIT == 1) {
    all.push_back(variant<T, 1>());
    all.push_back(variant<T, 99>());
    all.push_back(variant<T, 2>());
  }
}
#ifndef EXP_SET
#define EXP_SET
#endif
static std::vector<ladder::Variant> registered() {
  std::vector<ladder::Variant> all;
  add<Tile<1, 1, 8, 1, 1, 1>>(all);
  add<Tile<1, 1, 8, 1, 1, 2>>(all);
  add<Tile<1, 2, 8, 1, 1, 1>>(all);
  add<Tile<1, 2, 8, 1, 1, 2>>(all);
  add<Tile<1, 1, 8, 1, 2, 2>>(all);
  add<Tile<1, 1, 8, 1, 4, 2>>(all);
  add<Tile<1, 1, 16, 1, 1, 1>>(all);
  add<Tile<1, 1, 16, 1, 1, 2>>(all);
  add<Tile<1, 2, 16, 1, 1, 1>>(all);
  add<Tile<1, 2, 16, 1, 1, 2>>(all);
  add<Tile<1, 1, 16, 1, 2, 2>>(all);
  add<Tile<1, 1, 16, 1, 4, 2>>(all);
  add<Tile<1, 1, 32, 1, 1, 1>>(all);
  add<Tile<1, 1, 32, 1, 1, 2>>(all);
  add<Tile<1, 2, 32, 1, 1, 1>>(all);
  add<Tile<1, 2, 32, 1, 1, 2>>(all);
  add<Tile<1, 1, 32, 1, 2, 2>>(all);
  add<Tile<1, 1, 32, 1, 4, 2>>(all);
  add<Tile<1, 1, 64, 1, 1, 1>>(all);
  add<Tile<1, 1, 64, 1, 1, 2>>(all);
  add<Tile<1, 2, 64, 1, 1, 1>>(all);
  add<Tile<1, 2, 64, 1, 1, 2>>(all);
  add<Tile<1, 1, 64, 1, 2, 2>>(all);
  add<Tile<1, 1, 64, 1, 4, 2>>(all);
  add<Tile<1, 1, 128, 1, 1, 1>>(all);
  add<Tile<2, 1, 64, 1, 1, 1>>(all);
  add<Tile<2, 2, 64, 1, 1, 1>>(all);
  add<Tile<2, 1, 96, 1, 1, 1>>(all);
  add<Tile<2, 1, 128, 1, 1, 1>>(all);
  add<Tile<2, 1, 160, 1, 1, 1>>(all);
  add<Tile<2, 1, 192, 1, 1, 1>>(all);
  add<Tile<2, 1, 256, 1, 1, 1>>(all);
  add<Tile<2, 2, 160, 1, 1, 1>>(all);
  add<Tile<2, 2, 128, 1, 1, 1>>(all);
  add<Tile<2, 2, 136, 2, 1, 1>>(all);
  add<Tile<2, 1, 136, 2, 1, 1>>(all);
  add<Tile<2, 2, 160, 2, 1, 1>>(all);
  add<Tile<2, 1, 192, 2, 1, 1>>(all);
  add<Tile<2, 1, 128, 2, 1, 1>>(all);
  add<Tile<2, 1, 128, 1, 8, 1>>(all);
  all[0].result = true;
  return all;
}
static const ladder::Registrar registrar(__FILE__, "shared K", registered());

}  // namespace stream_k
