// Rung 8: two CTAs form a cluster and share what they load.
//
// Idea       CTAs of a cluster work on neighbouring tiles; each loads half of the operand that both
//            need and multicasts it, so the pair reads a third less from L2.
// Limited by moving bytes: each CTA fetches 48 KB from L2 for every 1,024 clocks of multiplying.
// New PTX    cp.async.bulk.tensor with .multicast::cluster, mapa, barrier.cluster, fence.release,
//            fence.acquire with .sync_restrict, mbarrier.arrive and .try_wait with .relaxed.cluster
// Tile       128x256x64 a CTA, clusters of 2, 384 threads, 4 slots: 197,632 bytes
// Read       docs/08_cluster_multicast.md
#include <algorithm>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/cluster.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/descriptor.h"
#include "common/tile/fragment.h"
#include "common/tile/math.h"
#include "common/tile/registers.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/swizzle.h"

namespace cluster_multicast {

using ladder::bf16;

template <int CLUSTER_M_, int CLUSTER_N_>
struct Tile {
  static constexpr int CONSUMERS = 2;                           // warpgroups that multiply
  static constexpr int WM = 64;                                 // of a consumer warpgroup: 64 x BN
  static constexpr int BM = WM * CONSUMERS, BN = 256, BK = 64;  // of a CTA
  static constexpr int THREADS = 128 + CONSUMERS * 128;         // warpgroup 0 is the producer
  static constexpr int DEPTH = 4;                               // slots in the ring
  static constexpr int TX_BYTES = (BM + BN) * BK * int{sizeof(bf16)};   // TMA brings one slot
  static constexpr int CLUSTER_M = CLUSTER_M_, CLUSTER_N = CLUSTER_N_;  // CTAs along M and N
  static constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
  static constexpr int SLICE_A = BM / CLUSTER_N;  // rows of A that one CTA loads for its row
  static constexpr int SLICE_B = BN / CLUSTER_M;  // rows of B that one CTA loads for its column
  static constexpr int GROUP = 16 / CLUSTER_M;    // rows of clusters that are swept together
  static constexpr int PRODUCER_REGS = 40, CONSUMER_REGS = 232;
  static_assert(BK * 2 == tile::SWIZZLE_ROW_BYTES, "a row of the tile is a row of the swizzle");
  static_assert(BN % 16 == 0, "lanes trade two blocks of 8 columns");
  static_assert(CLUSTER <= 8, "a cluster of more is not portable");
  static_assert(SLICE_A % 8 == 0 && SLICE_B % 8 == 0, "a slice starts on a swizzle atom");
  static_assert(128 * PRODUCER_REGS + CONSUMERS * 128 * CONSUMER_REGS <= tile::launch_regs(THREADS),
                "more than the launch gives; tile::consumer_regs(THREADS, 1, PRODUCER_REGS) fit");
};

template <class T>
struct alignas(1024) Smem {
  unsigned char a[T::DEPTH][T::BM * T::BK * 2];  // A [DEPTH][BM][BK] bf16, 128-byte swizzle
  unsigned char b[T::DEPTH][T::BN * T::BK * 2];  // B [DEPTH][BN][BK] bf16, 128-byte swizzle
  uint64_t full[T::DEPTH];                       // the producer's arrival, and TX_BYTES
  uint64_t empty[T::DEPTH];                      // one arrival a consumer warp of the cluster
};

// Starts acc += A · B^T for one slot: A [64][64] of the warpgroup, B [BN][64] of the CTA.
template <class T>
__device__ void multiply_tile(float (&acc)[T::BN / 2], const unsigned char* a,
                              const unsigned char* b, bool accumulate) {
  const uint64_t a_desc = tile::k_major_128b(ptx::cvta_to_shared(a));
  const uint64_t b_desc = tile::k_major_128b(ptx::cvta_to_shared(b));
  ptx::wgmma_fence();
#pragma unroll
  for (int kk = 0; kk < T::BK / 16; ++kk) {
    ptx::wgmma_m64k16<T::BN>(acc, tile::advance(a_desc, kk * 32), tile::advance(b_desc, kk * 32),
                             accumulate || kk > 0);
  }
  ptx::wgmma_commit_group();
}

// Writes the warpgroup's 64xBN block, whose first element is D[row0][col0]. Lanes 2i and 2i+1
// trade first: one gets four columns of block j, the other four of block j + 1.
template <class T>
__device__ void store_tile(const float (&acc)[T::BN / 2], bf16* d, long long ldd, int row0,
                           int col0, int m, int n) {
  const int lane = threadIdx.x % 32, warp_in_group = threadIdx.x / 32 % 4;
  const bool odd = lane % 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = row0 + warp_in_group * 16 + tile::acc_row(lane, i);
#pragma unroll
    for (int j = 0; j < T::BN / 8; j += 2) {
      const float* block = &acc[j * 4 + i * 2];  // two columns of block j; of the next from [4] on
      const uint32_t left = ptx::cvt_rn_bf16x2_f32(block[1], block[0]);
      const uint32_t right = ptx::cvt_rn_bf16x2_f32(block[5], block[4]);
      const uint32_t got = ptx::shfl_sync_bfly_b32<1>(odd ? left : right);
      const int col = col0 + j * 8 + tile::traded_col(lane);
      ptx::st_global_bf16x4(d + row * ldd + col, odd ? got : left, odd ? right : got,
                            row < m ? n - col : 0);
    }
  }
}

// Loads this CTA's slice of an operand into every CTA that shares it.
template <int SHARERS>
__device__ void load_slice(void* dst, const CUtensorMap* map, int col, int row, uint64_t* full,
                           uint16_t cta_mask) {
  if constexpr (SHARERS == 1) ptx::cp_async_bulk_tensor_2d_g2s(dst, map, col, row, full);
  if constexpr (SHARERS > 1) {
    ptx::cp_async_bulk_tensor_2d_g2s_multicast(dst, map, col, row, full, cta_mask);
  }
}

template <class T>
__global__ __cluster_dims__(T::CLUSTER, 1, 1)
    __launch_bounds__(T::THREADS, 1) void gemm(const __grid_constant__ CUtensorMap map_a,
                                               const __grid_constant__ CUtensorMap map_b, bf16* d,
                                               long long ldd, int m, int n, int k) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  // The schedule deals in clusters: blocks of CLUSTER_M x CLUSTER_N tiles.
  const int blocks_m = tile::ceil_div(m, T::BM * T::CLUSTER_M);
  const int blocks_n = tile::ceil_div(n, T::BN * T::CLUSTER_N);
  const int blocks = blocks_m * blocks_n, k_tiles = tile::ceil_div(k, T::BK);
  const int clusters = gridDim.x / T::CLUSTER, cluster = blockIdx.x / T::CLUSTER;
  const int rank = ptx::cluster_ctarank();
  const int rank_m = rank / T::CLUSTER_N, rank_n = rank % T::CLUSTER_N;
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], 1);
      ptx::mbarrier_init(&smem.empty[slot], T::CONSUMERS * 4 * T::CLUSTER);
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
      for (int t = cluster; t < blocks; t += clusters) {
        const tile::TileCoord at = tile::grouped_raster(t, blocks_m, blocks_n, T::GROUP);
        const int m0 = (at.m * T::CLUSTER_M + rank_m) * T::BM;
        const int n0 = (at.n * T::CLUSTER_N + rank_n) * T::BN;
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          // The copies land in the peer too: its consumers must have released the slot as well.
          ptx::mbarrier_wait_cluster(&smem.empty[ring.slot], ring.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, T::TX_BYTES);  // from both CTAs' copies
          load_slice<T::CLUSTER_N>(&smem.a[ring.slot][slice_a * T::BK * 2], &map_a, k_tile * T::BK,
                                   m0 + slice_a, full, mask_a);
          load_slice<T::CLUSTER_M>(&smem.b[ring.slot][slice_b * T::BK * 2], &map_b, k_tile * T::BK,
                                   n0 + slice_b, full, mask_b);
        }
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its 64 rows ----------------------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int group_m = (threadIdx.x / 128 - 1) * T::WM;  // the warpgroup's first row in the tile
    const int lane = threadIdx.x % 32;                    // lane r speaks to CTA r of the cluster
    float acc[T::BN / 2];                                 // D [64][BN] of the warpgroup
    tile::RingState<T::DEPTH> ring;
    for (int t = cluster; t < blocks; t += clusters) {
      const tile::TileCoord at = tile::grouped_raster(t, blocks_m, blocks_n, T::GROUP);
      const int m0 = (at.m * T::CLUSTER_M + rank_m) * T::BM;
      const int n0 = (at.n * T::CLUSTER_N + rank_n) * T::BN;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        ptx::mbarrier_wait_cluster(&smem.full[ring.slot], ring.parity);  // the tile has landed
        multiply_tile<T>(acc, &smem.a[ring.slot][group_m * T::BK * 2], smem.b[ring.slot],
                         k_tile > 0);
        ptx::wgmma_wait_group<0>();  // meanwhile the other warpgroup's products run
        if (lane < T::CLUSTER) ptx::mbarrier_arrive_cluster(&smem.empty[ring.slot], lane);
      }

      // --- epilogue ------------------------------------------------------------------------------
      store_tile<T>(acc, d, ldd, m0 + group_m, n0, m, n);
    }
  }
  ptx::barrier_cluster_sync();  // no CTA exits while its peer can still write or arrive there
}

template <class T>
void launch(const ladder::GemmArgs& g) {
  const CUtensorMap map_a = ladder::tensor_map_2d(g.a, g.m, g.k, g.lda, T::SLICE_A, T::BK);
  const CUtensorMap map_b = ladder::tensor_map_2d(g.b, g.n, g.k, g.ldb, T::SLICE_B, T::BK);
  ladder::check_cuda(
      cudaFuncSetAttribute(gemm<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem<T>)),
      "shared memory of cluster_multicast::gemm");
  const int blocks = tile::ceil_div(g.m, T::BM * T::CLUSTER_M) *  // of one cluster each
                     tile::ceil_div(g.n, T::BN * T::CLUSTER_N);
  const int max_clusters =
      g.max_ctas > 0 ? g.max_ctas / T::CLUSTER
                     : ladder::max_active_clusters(reinterpret_cast<const void*>(gemm<T>),
                                                   T::THREADS, sizeof(Smem<T>), T::CLUSTER);
  gemm<T><<<std::min(blocks, max_clusters) * T::CLUSTER, T::THREADS, sizeof(Smem<T>), g.stream>>>(
      map_a, map_b, g.d, g.ldd, g.m, g.n, g.k);
  ladder::check_cuda(cudaGetLastError(), "launch of cluster_multicast::gemm");
}

template <class T>
ladder::Variant variant(const char* name, const char* what) {
  return {.name = name,
          .what = what,
          .kernel = {.launch = launch<T>,
                     .function = reinterpret_cast<const void*>(gemm<T>),
                     .bm = T::BM,
                     .bn = T::BN,
                     .bk = T::BK,
                     .depth = T::DEPTH,
                     .threads = T::THREADS,
                     .smem_bytes = sizeof(Smem<T>),
                     .regs_dec = T::PRODUCER_REGS,
                     .regs_inc = T::CONSUMER_REGS,
                     .persistent = true,
                     .cluster_m = T::CLUSTER_M,
                     .cluster_n = T::CLUSTER_N}};
}

static const ladder::Registrar registrar(
    __FILE__, "clusters of two CTAs multicast the operand that both need",
    {variant<Tile<1, 1>>("1x1", "no sharing"),
     variant<Tile<1, 2>>("1x2", "neighbours along N share A"),
     variant<Tile<2, 1>>("2x1", "neighbours along M share B").as_result()});

}  // namespace cluster_multicast
