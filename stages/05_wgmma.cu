// Rung 5: wgmma, the tensor cores reading both operands from shared memory, asynchronously.
//
// Idea       a warpgroup starts 64xNx16 products and goes on; operands never pass through its
//            registers, and the wider N, the fewer bytes of shared memory for each product.
// Limited by mma.sync: fed by ldmatrix through registers, it cannot reach the tensor cores' rate.
// New PTX    wgmma.mma_async, wgmma.fence, wgmma.commit_group, wgmma.wait_group
// Tile       128x256x64 a CTA, 64x256 a warpgroup, 256 threads, 4 slots: 197,632 bytes
// Read       docs/05_wgmma.md
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
#include "common/tile/ring.h"
#include "common/tile/swizzle.h"

namespace wgmma {

using ladder::bf16;

template <int BN_, int AHEAD_>
struct Tile {
  static constexpr int BM = 128, BN = BN_, BK = 64;  // of a CTA
  static constexpr int WM = 64;                      // of a warpgroup: 64 x BN
  static constexpr int THREADS = BM / WM * 128;
  static constexpr int DEPTH = 4;       // slots in the ring
  static constexpr int AHEAD = AHEAD_;  // wgmma groups that may still run when the next begins
  static constexpr int TX_BYTES = (BM + BN) * BK * int{sizeof(bf16)};  // TMA brings one slot
  static_assert(BK * 2 == tile::SWIZZLE_ROW_BYTES, "a row of the tile is a row of the swizzle");
  static_assert(BN % 16 == 0, "lanes trade two blocks of 8 columns");
  static_assert(DEPTH > AHEAD, "the prologue fills DEPTH - AHEAD slots");
};

template <class T>
struct alignas(1024) Smem {
  unsigned char a[T::DEPTH][T::BM * T::BK * 2];  // A [DEPTH][BM][BK] bf16, 128-byte swizzle
  unsigned char b[T::DEPTH][T::BN * T::BK * 2];  // B [DEPTH][BN][BK] bf16, 128-byte swizzle
  uint64_t full[T::DEPTH];                       // the copying thread's arrival, and TX_BYTES
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
  const int group_m = threadIdx.x / 128 * T::WM;  // the warpgroup's first row in the tile
  const int k_tiles = tile::ceil_div(k, T::BK);
  float acc[T::BN / 2];  // D [64][BN] of the warpgroup
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    for (int slot = 0; slot < T::DEPTH; ++slot) ptx::mbarrier_init(&smem.full[slot], 1);
    ptx::fence_mbarrier_init();  // before TMA counts bytes on them
  }
  ptx::bar_sync();  // before the other threads wait on them

  // --- prologue: fill the ring -------------------------------------------------------------------
  const auto load = [&](int k_tile, int slot) {
    ptx::mbarrier_arrive_expect_tx(&smem.full[slot], T::TX_BYTES);
    ptx::cp_async_bulk_tensor_2d_g2s(smem.a[slot], &map_a, k_tile * T::BK, m0, &smem.full[slot]);
    ptx::cp_async_bulk_tensor_2d_g2s(smem.b[slot], &map_b, k_tile * T::BK, n0, &smem.full[slot]);
  };
  if (threadIdx.x == 0) {
    for (int i = 0; i < T::DEPTH - T::AHEAD && i < k_tiles; ++i) load(i, i);
  }

  // --- main loop ---------------------------------------------------------------------------------
  tile::RingState<T::DEPTH> use;
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile, use.advance()) {
    ptx::mbarrier_wait(&smem.full[use.slot], use.parity);  // the whole tile has landed
    multiply_tile<T>(acc, &smem.a[use.slot][group_m * T::BK * 2], smem.b[use.slot], k_tile > 0);
    ptx::wgmma_wait_group<T::AHEAD>();  // tile k_tile - AHEAD has been multiplied
    ptx::bar_sync();                    // by both warpgroups: its slot is free
    const int next = k_tile - T::AHEAD + T::DEPTH;
    if (threadIdx.x == 0 && next < k_tiles) load(next, next % T::DEPTH);
  }
  ptx::wgmma_wait_group<0>();

  // --- epilogue ----------------------------------------------------------------------------------
  store_tile<T>(acc, d, ldd, m0 + group_m, n0, m, n);
}

template <class T>
void launch(const ladder::GemmArgs& g) {
  const CUtensorMap map_a = ladder::tensor_map_2d(g.a, g.m, g.k, g.lda, T::BM, T::BK);
  const CUtensorMap map_b = ladder::tensor_map_2d(g.b, g.n, g.k, g.ldb, T::BN, T::BK);
  const dim3 grid(tile::ceil_div(g.m, T::BM), tile::ceil_div(g.n, T::BN));
  ladder::check_cuda(
      cudaFuncSetAttribute(gemm<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem<T>)),
      "shared memory of wgmma::gemm");
  gemm<T><<<grid, T::THREADS, sizeof(Smem<T>), g.stream>>>(map_a, map_b, g.d, g.ldd, g.m, g.n, g.k);
  ladder::check_cuda(cudaGetLastError(), "launch of wgmma::gemm");
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
                     .smem_bytes = sizeof(Smem<T>)}};
}

static const ladder::Registrar registrar(
    __FILE__, "wgmma: asynchronous tensor cores that read shared memory",
    {variant<Tile<64, 0>>("bn64", "128x64 tile"), variant<Tile<128, 0>>("bn128", "128x128 tile"),
     variant<Tile<256, 0>>("bn256", "128x256 tile").as_result(),
     variant<Tile<256, 1>>("bn256_ahead", "128x256 tile, one wgmma group kept in flight")});

}  // namespace wgmma
