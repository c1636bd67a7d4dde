// Rung 6: one warp copies, the others multiply.
//
// Idea       a producer warp runs ahead filling slots, consumer warpgroups follow emptying them;
//            full and empty mbarriers are all they share, so nobody stops at a bar.sync.
// Limited by the bar.sync of every k tile: both warpgroups stopped there, tensor cores with them.
// New PTX    setmaxnreg.dec, setmaxnreg.inc, elect.sync; mbarrier.arrive on empty slots
// Tile       128x256x64 a CTA, 64x256 a consumer warpgroup, 384 threads, 4 slots: 197,632 bytes
// Read       docs/06_warp_specialized.md
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
#include "common/tile/swizzle.h"

namespace warp_specialized {

using ladder::bf16;

template <int CONSUMERS_, bool SETMAXNREG_>
struct Tile {
  static constexpr int CONSUMERS = CONSUMERS_;                  // warpgroups that multiply
  static constexpr int WM = 64;                                 // of a consumer warpgroup: 64 x BN
  static constexpr int BM = WM * CONSUMERS, BN = 256, BK = 64;  // of a CTA
  static constexpr int THREADS = 128 + CONSUMERS * 128;         // warpgroup 0 is the producer
  static constexpr int DEPTH = 4;                               // slots in the ring
  static constexpr int TX_BYTES = (BM + BN) * BK * int{sizeof(bf16)};  // TMA brings one slot
  static constexpr bool SETMAXNREG = SETMAXNREG_;
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
  const int m0 = blockIdx.x * T::BM, n0 = blockIdx.y * T::BN;
  const int k_tiles = tile::ceil_div(k, T::BK);
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
    if constexpr (T::SETMAXNREG) ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      tile::RingState<T::DEPTH> ring;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        uint64_t* full = &smem.full[ring.slot];
        ptx::mbarrier_wait(&smem.empty[ring.slot], ring.parity ^ 1);  // a fresh ring is empty
        ptx::mbarrier_arrive_expect_tx(full, T::TX_BYTES);
        ptx::cp_async_bulk_tensor_2d_g2s(smem.a[ring.slot], &map_a, k_tile * T::BK, m0, full);
        ptx::cp_async_bulk_tensor_2d_g2s(smem.b[ring.slot], &map_b, k_tile * T::BK, n0, full);
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its 64 rows ----------------------------------------
    if constexpr (T::SETMAXNREG) ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int group_m = (threadIdx.x / 128 - 1) * T::WM;  // the warpgroup's first row in the tile
    float acc[T::BN / 2];                                 // D [64][BN] of the warpgroup
    tile::RingState<T::DEPTH> ring;
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
      ptx::mbarrier_wait(&smem.full[ring.slot], ring.parity);  // the whole tile has landed
      multiply_tile<T>(acc, &smem.a[ring.slot][group_m * T::BK * 2], smem.b[ring.slot], k_tile > 0);
      ptx::wgmma_wait_group<0>();  // meanwhile the other warpgroup's products run
      if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&smem.empty[ring.slot]);
    }

    // --- epilogue --------------------------------------------------------------------------------
    store_tile<T>(acc, d, ldd, m0 + group_m, n0, m, n);
  }
}

template <class T>
void launch(const ladder::GemmArgs& g) {
  const CUtensorMap map_a = ladder::tensor_map_2d(g.a, g.m, g.k, g.lda, T::BM, T::BK);
  const CUtensorMap map_b = ladder::tensor_map_2d(g.b, g.n, g.k, g.ldb, T::BN, T::BK);
  const dim3 grid(tile::ceil_div(g.m, T::BM), tile::ceil_div(g.n, T::BN));
  ladder::check_cuda(
      cudaFuncSetAttribute(gemm<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem<T>)),
      "shared memory of warp_specialized::gemm");
  gemm<T><<<grid, T::THREADS, sizeof(Smem<T>), g.stream>>>(map_a, map_b, g.d, g.ldd, g.m, g.n, g.k);
  ladder::check_cuda(cudaGetLastError(), "launch of warp_specialized::gemm");
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
                     .regs_dec = T::SETMAXNREG ? T::PRODUCER_REGS : 0,
                     .regs_inc = T::SETMAXNREG ? T::CONSUMER_REGS : 0}};
}

static const ladder::Registrar registrar(
    __FILE__, "a producer warp copies, consumer warpgroups multiply, mbarriers between them",
    {variant<Tile<1, false>>("1consumer", "one consumer warpgroup, 64x256 tile"),
     variant<Tile<2, false>>("2consumers_fixed", "two, without setmaxnreg"),
     variant<Tile<2, true>>("2consumers", "two, setmaxnreg 40 and 232").as_result()});

}  // namespace warp_specialized
