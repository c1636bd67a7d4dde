// Rung 9: results leave by TMA while the next tile is multiplied.
//
// Idea       consumers put their results into shared memory and go on; a warp of the producer's
//            warpgroup, the storer, hands them to TMA, box by box, which takes them to D meanwhile.
// Limited by storing: a consumer that writes D itself multiplies nothing for thousands of clocks.
// New PTX    stmatrix, cp.async.bulk.tensor to global memory, cp.async.bulk.commit_group and
//            .wait_group.read
// Tile       128x256x64 a CTA, clusters of 2, 384 threads, 3 slots, 64 KB for D: 214,016 bytes
// Read       docs/09_async_epilogue.md
#include <algorithm>

#include "common/block/load_slice.cuh"
#include "common/block/multiply_tile.cuh"
#include "common/block/stage_tile.cuh"
#include "common/block/store_last_columns.cuh"
#include "common/block/store_tile.cuh"
#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/math.h"
#include "common/tile/registers.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"
#include "common/tile/swizzle.h"

namespace async_epilogue {

using ladder::bf16;

enum class Store { PLAIN, TMA, OVERLAPPED };

template <Store STORE_>
struct Tile {
  static constexpr Store STORE = STORE_;
  static constexpr int CONSUMERS = 2;                           // warpgroups that multiply
  static constexpr int WM = 64;                                 // of a consumer warpgroup: 64 x BN
  static constexpr int BM = WM * CONSUMERS, BN = 256, BK = 64;  // of a CTA
  static constexpr int THREADS = 128 + CONSUMERS * 128;         // warpgroup 0: producer, storers
  static constexpr int DEPTH = 3;                               // slots in the ring
  static constexpr int TX_BYTES = (BM + BN) * BK * int{sizeof(bf16)};  // TMA brings one slot
  static constexpr int CLUSTER_M = 2, CLUSTER_N = 1;                   // CTAs along M and N
  static constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
  static constexpr int SLICE_A = BM / CLUSTER_N;    // rows of A that one CTA loads for its row
  static constexpr int SLICE_B = BN / CLUSTER_M;    // rows of B that one CTA loads for its column
  static constexpr int GROUP = 16 / CLUSTER_M;      // rows of clusters that are swept together
  static constexpr int BOX = 64, BOXES = BN / BOX;  // a consumer's block is stored 64 x BOX by box
  static constexpr int PRODUCER_REGS = 56, CONSUMER_REGS = 224;
  static_assert(BK * 2 == tile::SWIZZLE_ROW_BYTES, "a row of the tile is a row of the swizzle");
  static_assert(BOX * 2 == tile::SWIZZLE_ROW_BYTES, "so is a row of a box");
  static_assert(BN % BOX == 0, "whole boxes");
  static_assert(SLICE_A % 8 == 0 && SLICE_B % 8 == 0, "a slice starts on a swizzle atom");
  static_assert(128 * PRODUCER_REGS + CONSUMERS * 128 * CONSUMER_REGS <= tile::launch_regs(THREADS),
                "more than the launch gives; tile::consumer_regs(THREADS, 1, PRODUCER_REGS) fit");
};

template <class T>
struct alignas(1024) Smem {
  tile::SmemTile<bf16, T::BM, T::BK> a[T::DEPTH];
  tile::SmemTile<bf16, T::BN, T::BK> b[T::DEPTH];
  tile::SmemTile<bf16, T::WM, T::BOX> d[T::CONSUMERS][T::BOXES];
  uint64_t full[T::DEPTH];        // the producer's arrival, and TX_BYTES
  uint64_t empty[T::DEPTH];       // one arrival a consumer warp of the cluster
  uint64_t staged[T::CONSUMERS];  // boxes are written: one arrival a warp
  uint64_t stored[T::CONSUMERS];  // TMA has read them: the storer's arrival
};

template <class T>
__global__ __cluster_dims__(T::CLUSTER, 1, 1)
    __launch_bounds__(T::THREADS, 1) void gemm(const __grid_constant__ CUtensorMap map_a,
                                               const __grid_constant__ CUtensorMap map_b,
                                               const __grid_constant__ CUtensorMap map_d, bf16* d,
                                               long long ldd, int m, int n, int k) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int k_tiles = tile::ceil_div(k, T::BK);
  const int clusters = gridDim.x / T::CLUSTER, cluster = blockIdx.x / T::CLUSTER;
  const int rank = ptx::cluster_ctarank();
  const int rank_m = rank / T::CLUSTER_N, rank_n = rank % T::CLUSTER_N;
  const tile::ClusterTiles<T> tiles(m, n, cluster, clusters, rank);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    ptx::prefetch_tensormap(&map_d);
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], 1);
      ptx::mbarrier_init(&smem.empty[slot], T::CONSUMERS * 4 * T::CLUSTER);
    }
    for (int i = 0; i < T::CONSUMERS; ++i) {
      ptx::mbarrier_init(&smem.staged[i], 4);
      ptx::mbarrier_init(&smem.stored[i], 1);
    }
    ptx::fence_mbarrier_init();  // before TMA counts bytes, and peers arrive, on them
  }
  ptx::barrier_cluster_sync();  // before any thread of the cluster uses them

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
      for (auto t = tiles; t.has(); t.next()) {
        const int m0 = t.m0(), n0 = t.n0();
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          // The copies land in the peer too: its consumers must have released the slot as well.
          ptx::mbarrier_wait_cluster(&smem.empty[ring.slot], ring.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, T::TX_BYTES);  // from both CTAs' copies
          block::load_slice<T::CLUSTER_N>(smem.a[ring.slot].from_row(slice_a), &map_a,
                                          k_tile * T::BK, m0 + slice_a, full, mask_a);
          block::load_slice<T::CLUSTER_M>(smem.b[ring.slot].from_row(slice_b), &map_b,
                                          k_tile * T::BK, n0 + slice_b, full, mask_b);
        }
      }
    }
    // --- storers: warp 1 + i sends what consumer i has staged ------------------------------------
    const int storer = threadIdx.x / 32 - 1;
    if (T::STORE != Store::PLAIN && storer >= 0 && storer < T::CONSUMERS) {
      const bool leader = threadIdx.x % 32 == 0;  // starts the copies and waits for them
      uint32_t parity = 0;
      for (auto t = tiles; t.has(); t.next(), parity ^= 1) {
        const int row = t.m0() + storer * T::WM, n0 = t.n0();
        ptx::mbarrier_wait(&smem.staged[storer], parity);
#pragma unroll 1
        for (int i = 0; i < T::BOXES; ++i) {
          const int col = n0 + i * T::BOX;
          const auto& box = smem.d[storer][i];
          if (leader && row < m && col < n / 8 * 8) {
            ptx::cp_async_bulk_tensor_2d_s2g(&map_d, col, row, box.bytes);
            ptx::cp_async_bulk_commit_group();
            ptx::cp_async_bulk_wait_group_read<0>();  // one at a time: loads pass in between
          }
          block::store_last_columns(box, d, ldd, row, col, m, n);
        }
        ptx::bar_warp_sync();  // the leader speaks for all
        if (leader) ptx::mbarrier_arrive(&smem.stored[storer]);
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its 64 rows ----------------------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int group = threadIdx.x / 128 - 1, group_m = group * T::WM;  // its first row in the tile
    const int lane = threadIdx.x % 32;  // lane r speaks to CTA r of the cluster
    float acc[T::BN / 2];               // D [64][BN] of the warpgroup
    tile::RingState<T::DEPTH> ring;
    uint32_t parity = 0;
    for (auto t = tiles; t.has(); t.next(), parity ^= 1) {
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        ptx::mbarrier_wait_cluster(&smem.full[ring.slot], ring.parity);  // the tile has landed
        block::multiply_tile<T>(acc, smem.a[ring.slot].from_row(group_m), smem.b[ring.slot].bytes,
                                k_tile > 0);
        ptx::wgmma_wait_group<0>();  // meanwhile the other warpgroup's products run
        if (lane < T::CLUSTER) ptx::mbarrier_arrive_cluster(&smem.empty[ring.slot], lane);
      }

      // --- epilogue ------------------------------------------------------------------------------
      if constexpr (T::STORE == Store::PLAIN) {
        block::store_tile<T>(acc, d, ldd, t.m0() + group_m, t.n0(), m, n);
      } else {
        ptx::mbarrier_wait(&smem.stored[group], parity ^ 1);  // the last tile's boxes are read
        block::stage_tile(acc, smem.d[group]);
        ptx::fence_proxy_async_shared_cta();  // TMA will read what stmatrix wrote
        ptx::bar_warp_sync();
        if (lane == 0) ptx::mbarrier_arrive(&smem.staged[group]);
        if (T::STORE == Store::TMA) ptx::mbarrier_wait(&smem.stored[group], parity);
      }
    }
  }
  ptx::barrier_cluster_sync();  // no CTA exits while its peer can still write or arrive there
}

template <class T>
void launch(const ladder::GemmArgs& g) {
  const CUtensorMap map_a = ladder::tensor_map_2d(g.a, g.m, g.k, g.lda, T::SLICE_A, T::BK);
  const CUtensorMap map_b = ladder::tensor_map_2d(g.b, g.n, g.k, g.ldb, T::SLICE_B, T::BK);
  const int whole = std::max(1, g.n / 8 * 8);  // TMA must not write beyond column n
  const CUtensorMap map_d = ladder::tensor_map_2d(g.d, g.m, whole, g.ldd, T::WM, T::BOX);
  ladder::check_cuda(
      cudaFuncSetAttribute(gemm<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem<T>)),
      "shared memory of async_epilogue::gemm");
  const int blocks = tile::ceil_div(g.m, T::BM * T::CLUSTER_M) *  // of one cluster each
                     tile::ceil_div(g.n, T::BN * T::CLUSTER_N);
  const int max_clusters =
      g.max_ctas > 0 ? g.max_ctas / T::CLUSTER
                     : ladder::max_active_clusters(reinterpret_cast<const void*>(gemm<T>),
                                                   T::THREADS, sizeof(Smem<T>), T::CLUSTER);
  gemm<T><<<std::min(blocks, max_clusters) * T::CLUSTER, T::THREADS, sizeof(Smem<T>), g.stream>>>(
      map_a, map_b, map_d, g.d, g.ldd, g.m, g.n, g.k);
  ladder::check_cuda(cudaGetLastError(), "launch of async_epilogue::gemm");
}

template <class T>
ladder::Variant variant(const char* name, const char* what) {
  return {.name = name,
          .what = what,
          .kernel = ladder::persistent_kernel<T>(launch<T>, gemm<T>, sizeof(Smem<T>))};
}

static const ladder::Registrar registrar(
    __FILE__, "TMA stores the results while the next tile is multiplied",
    {variant<Tile<Store::PLAIN>>("plain_store", "consumers write D themselves"),
     variant<Tile<Store::TMA>>("tma_store", "consumers wait for TMA to store"),
     variant<Tile<Store::OVERLAPPED>>("overlapped", "consumers go on at once").as_result()});

}  // namespace async_epilogue
