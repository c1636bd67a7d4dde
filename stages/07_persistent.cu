// Rung 7: the grid fits the GPU, and every CTA works through many tiles.
//
// Idea       one CTA an SM takes tile after tile; the producer loads the next tile's first slots
//            while the consumers still write the last one, and the order of tiles keeps L2 warm.
// Limited by starting: every tile paid for a launch, barrier set-up and an empty ring, and tiles
//            that ran at the same time shared few rows of A and B.
// New PTX    none
// Tile       128x256x64 a CTA, 64x256 a consumer warpgroup, 384 threads, 4 slots: 197,632 bytes
// Read       docs/07_persistent.md
#include <algorithm>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
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

namespace persistent {

using ladder::bf16;

template <int GROUP_>
struct Tile {
  static constexpr int CONSUMERS = 2;                           // warpgroups that multiply
  static constexpr int WM = 64;                                 // of a consumer warpgroup: 64 x BN
  static constexpr int BM = WM * CONSUMERS, BN = 256, BK = 64;  // of a CTA
  static constexpr int THREADS = 128 + CONSUMERS * 128;         // warpgroup 0 is the producer
  static constexpr int DEPTH = 4;                               // slots in the ring
  static constexpr int TX_BYTES = (BM + BN) * BK * int{sizeof(bf16)};  // TMA brings one slot
  static constexpr int GROUP = GROUP_;  // tile rows that are swept together
  static constexpr int PRODUCER_REGS = 40, CONSUMER_REGS = 232;
  static_assert(BK * 2 == tile::SWIZZLE_ROW_BYTES, "a row of the tile is a row of the swizzle");
  static_assert(BN % 16 == 0, "lanes trade two blocks of 8 columns");
  static_assert(128 * PRODUCER_REGS + CONSUMERS * 128 * CONSUMER_REGS <= tile::launch_regs(THREADS),
                "more than the launch gives; tile::consumer_regs(THREADS, 1, PRODUCER_REGS) fit");
};

template <class T>
struct alignas(1024) Smem {
  unsigned char a[T::DEPTH][T::BM * T::BK * 2];  // A [DEPTH][BM][BK] bf16, 128-byte swizzle
  unsigned char b[T::DEPTH][T::BN * T::BK * 2];  // B [DEPTH][BN][BK] bf16, 128-byte swizzle
  uint64_t full[T::DEPTH];                       // the producer's arrival, and TX_BYTES
  uint64_t empty[T::DEPTH];                      // one arrival a consumer warp
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

template <class T>
__global__ __launch_bounds__(T::THREADS, 1) void gemm(const __grid_constant__ CUtensorMap map_a,
                                                      const __grid_constant__ CUtensorMap map_b,
                                                      bf16* d, long long ldd, int m, int n, int k) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int tiles_m = tile::ceil_div(m, T::BM), tiles_n = tile::ceil_div(n, T::BN);
  const int tiles = tiles_m * tiles_n, k_tiles = tile::ceil_div(k, T::BK);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], 1);
      ptx::mbarrier_init(&smem.empty[slot], T::CONSUMERS * 4);
    }
    ptx::fence_mbarrier_init();  // before TMA counts bytes on them
  }
  ptx::bar_sync();  // before the other threads wait on them

  if (threadIdx.x < 128) {
    // --- producer: one thread of warp 0 fills the ring -------------------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      tile::RingState<T::DEPTH> ring;
      for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
        const tile::TileCoord at = tile::grouped_raster(t, tiles_m, tiles_n, T::GROUP);
        const int m0 = at.m * T::BM, n0 = at.n * T::BN;
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          ptx::mbarrier_wait(&smem.empty[ring.slot], ring.parity ^ 1);  // a fresh ring is empty
          ptx::mbarrier_arrive_expect_tx(full, T::TX_BYTES);
          ptx::cp_async_bulk_tensor_2d_g2s(smem.a[ring.slot], &map_a, k_tile * T::BK, m0, full);
          ptx::cp_async_bulk_tensor_2d_g2s(smem.b[ring.slot], &map_b, k_tile * T::BK, n0, full);
        }
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its 64 rows ----------------------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int group_m = (threadIdx.x / 128 - 1) * T::WM;  // the warpgroup's first row in the tile
    float acc[T::BN / 2];                                 // D [64][BN] of the warpgroup
    tile::RingState<T::DEPTH> ring;
    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
      const tile::TileCoord at = tile::grouped_raster(t, tiles_m, tiles_n, T::GROUP);
      const int m0 = at.m * T::BM, n0 = at.n * T::BN;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        ptx::mbarrier_wait(&smem.full[ring.slot], ring.parity);  // the whole tile has landed
        multiply_tile<T>(acc, &smem.a[ring.slot][group_m * T::BK * 2], smem.b[ring.slot],
                         k_tile > 0);
        ptx::wgmma_wait_group<0>();  // meanwhile the other warpgroup's products run
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&smem.empty[ring.slot]);
      }

      // --- epilogue ------------------------------------------------------------------------------
      store_tile<T>(acc, d, ldd, m0 + group_m, n0, m, n);
    }
  }
}

template <class T>
void launch(const ladder::GemmArgs& g) {
  const CUtensorMap map_a = ladder::tensor_map_2d(g.a, g.m, g.k, g.lda, T::BM, T::BK);
  const CUtensorMap map_b = ladder::tensor_map_2d(g.b, g.n, g.k, g.ldb, T::BN, T::BK);
  const int tiles = tile::ceil_div(g.m, T::BM) * tile::ceil_div(g.n, T::BN);
  const int max_ctas = g.max_ctas > 0 ? g.max_ctas : ladder::sm_count();
  ladder::check_cuda(
      cudaFuncSetAttribute(gemm<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem<T>)),
      "shared memory of persistent::gemm");
  gemm<T><<<std::min(tiles, max_ctas), T::THREADS, sizeof(Smem<T>), g.stream>>>(
      map_a, map_b, g.d, g.ldd, g.m, g.n, g.k);
  ladder::check_cuda(cudaGetLastError(), "launch of persistent::gemm");
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
                     .persistent = true}};
}

static const ladder::Registrar registrar(
    __FILE__, "one CTA an SM takes tile after tile, in an order that suits L2",
    {variant<Tile<1>>("row_major", "tiles row by row"),
     variant<Tile<8>>("group8", "8 tile rows swept together"),
     variant<Tile<16>>("group16", "16 tile rows swept together").as_result()});

}  // namespace persistent
