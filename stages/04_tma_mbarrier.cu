// Rung 4: TMA copies whole tiles, an mbarrier says when they have landed.
//
// Idea       one thread names a box of a matrix; the tensor memory accelerator computes addresses,
//            swizzles, fills what is out of bounds with zeros and counts bytes on an mbarrier.
// Limited by instructions: 128 threads started a copy, with its address, for every 16 bytes.
// New PTX    cp.async.bulk.tensor.2d, mbarrier.arrive.expect_tx, fence.mbarrier_init,
//            fence.proxy.async, prefetch.tensormap
// Tile       128x128x64 a CTA, 64x64 a warp, 128 threads, 3 slots: 99,328 bytes of shared memory
// Read       docs/04_tma_mbarrier.md
#include "common/host/error.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/mma.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/warp.cuh"
#include "common/tile/fragment.h"
#include "common/tile/math.h"
#include "common/tile/ring.h"
#include "common/tile/swizzle.h"

namespace tma_mbarrier {

using ladder::bf16;

template <int DEPTH_>
struct Tile {
  static constexpr int BM = 128, BN = 128, BK = 64;  // of a CTA
  static constexpr int WM = 64, WN = 64;             // of a warp
  static constexpr int WARPS_N = BN / WN;
  static constexpr int THREADS = BM / WM * WARPS_N * 32;
  static constexpr int CTAS_PER_SM = 2, DEPTH = DEPTH_;                // slots in the ring
  static constexpr int TX_BYTES = (BM + BN) * BK * int{sizeof(bf16)};  // TMA brings one slot
  static_assert(BK * 2 == tile::SWIZZLE_ROW_BYTES, "a row of the tile is a row of the swizzle");
};

template <class T>
struct alignas(1024) Smem {
  unsigned char a[T::DEPTH][T::BM * T::BK * 2];  // A [DEPTH][BM][BK] bf16, 128-byte swizzle
  unsigned char b[T::DEPTH][T::BN * T::BK * 2];  // B [DEPTH][BN][BK] bf16, 128-byte swizzle
  uint64_t full[T::DEPTH];                       // the copying thread's arrival, and TX_BYTES
};

// acc += A · B^T for the warp's 64x64 block at (warp_m, warp_n) of the tile.
template <class T>
__device__ void multiply_tile(float (&acc)[T::WM / 16][T::WN / 8][4], const unsigned char* a,
                              const unsigned char* b, int warp_m, int warp_n) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int kk = 0; kk < T::BK / 16; ++kk) {
    uint32_t a_frag[T::WM / 16][4], b_frag[T::WN / 16][4];
#pragma unroll
    for (int i = 0; i < T::WM / 16; ++i) {
      ptx::ldmatrix_x4(a_frag[i],
                       a + tile::swizzle_128b(warp_m + i * 16 + tile::ldmatrix_a_row(lane),
                                              kk * 2 + tile::ldmatrix_a_chunk(lane)));
    }
#pragma unroll
    for (int j = 0; j < T::WN / 16; ++j) {
      ptx::ldmatrix_x4(b_frag[j],
                       b + tile::swizzle_128b(warp_n + j * 16 + tile::ldmatrix_b_row(lane),
                                              kk * 2 + tile::ldmatrix_b_chunk(lane)));
    }
#pragma unroll
    for (int i = 0; i < T::WM / 16; ++i) {
#pragma unroll
      for (int j = 0; j < T::WN / 8; ++j) {
        ptx::mma_m16n8k16(acc[i][j], a_frag[i], b_frag[j / 2][j % 2 * 2],
                          b_frag[j / 2][j % 2 * 2 + 1]);
      }
    }
  }
}

// Writes the warp's 64x64 block, whose first element is D[row0][col0]. Lanes 2i and 2i+1
// trade first: one gets four columns of block j, the other four of block j + 1.
template <class T>
__device__ void store_tile(const float (&acc)[T::WM / 16][T::WN / 8][4], bf16* d, long long ldd,
                           int row0, int col0, int m, int n) {
  const int lane = threadIdx.x % 32;
  const bool odd = lane % 2;
#pragma unroll
  for (int i = 0; i < T::WM / 8; ++i) {
    const int row = row0 + i / 2 * 16 + tile::acc_row(lane, i % 2);
#pragma unroll
    for (int j = 0; j < T::WN / 8; j += 2) {
      const float *block = &acc[i / 2][j][i % 2 * 2], *next = &acc[i / 2][j + 1][i % 2 * 2];
      const uint32_t left = ptx::cvt_rn_bf16x2_f32(block[1], block[0]);
      const uint32_t right = ptx::cvt_rn_bf16x2_f32(next[1], next[0]);
      const uint32_t got = ptx::shfl_sync_bfly_b32<1>(odd ? left : right);
      const int col = col0 + j * 8 + tile::traded_col(lane);
      ptx::st_global_bf16x4(d + row * ldd + col, odd ? got : left, odd ? right : got,
                            row < m ? n - col : 0);
    }
  }
}

template <class T>
__global__ __launch_bounds__(T::THREADS,
                             T::CTAS_PER_SM) void gemm(const __grid_constant__ CUtensorMap map_a,
                                                       const __grid_constant__ CUtensorMap map_b,
                                                       bf16* d, long long ldd, int m, int n,
                                                       int k) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int m0 = blockIdx.x * T::BM, n0 = blockIdx.y * T::BN;
  const int warp = threadIdx.x / 32;
  const int warp_m = warp / T::WARPS_N * T::WM, warp_n = warp % T::WARPS_N * T::WN;
  const int k_tiles = tile::ceil_div(k, T::BK);
  float acc[T::WM / 16][T::WN / 8][4] = {};  // D [64][64] of the warp, as 16x8 blocks
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    for (int slot = 0; slot < T::DEPTH; ++slot) ptx::mbarrier_init(&smem.full[slot], 1);
    ptx::fence_mbarrier_init();  // before TMA counts bytes on them
  }
  ptx::bar_sync();  // before the other threads wait on them

  // --- prologue: fill all slots ------------------------------------------------------------------
  const auto load = [&](int k_tile, int slot) {
    ptx::mbarrier_arrive_expect_tx(&smem.full[slot], T::TX_BYTES);
    ptx::cp_async_bulk_tensor_2d_g2s(smem.a[slot], &map_a, k_tile * T::BK, m0, &smem.full[slot]);
    ptx::cp_async_bulk_tensor_2d_g2s(smem.b[slot], &map_b, k_tile * T::BK, n0, &smem.full[slot]);
  };
  if (threadIdx.x == 0) {
    for (int i = 0; i < T::DEPTH && i < k_tiles; ++i) load(i, i);
  }

  // --- main loop ---------------------------------------------------------------------------------
  tile::RingState<T::DEPTH> use;
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile, use.advance()) {
    ptx::mbarrier_wait(&smem.full[use.slot], use.parity);  // the whole tile has landed
    multiply_tile<T>(acc, smem.a[use.slot], smem.b[use.slot], warp_m, warp_n);
    ptx::fence_proxy_async_shared_cta();  // this thread's ldmatrix before TMA's next write
    ptx::bar_sync();                      // everyone has read the slot
    if (threadIdx.x == 0 && k_tile + T::DEPTH < k_tiles) load(k_tile + T::DEPTH, use.slot);
  }

  // --- epilogue ----------------------------------------------------------------------------------
  store_tile<T>(acc, d, ldd, m0 + warp_m, n0 + warp_n, m, n);
}

template <class T>
void launch(const ladder::GemmArgs& g) {
  const CUtensorMap map_a = ladder::tensor_map_2d(g.a, g.m, g.k, g.lda, T::BM, T::BK);
  const CUtensorMap map_b = ladder::tensor_map_2d(g.b, g.n, g.k, g.ldb, T::BN, T::BK);
  const dim3 grid(tile::ceil_div(g.m, T::BM), tile::ceil_div(g.n, T::BN));
  ladder::check_cuda(
      cudaFuncSetAttribute(gemm<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem<T>)),
      "shared memory of tma_mbarrier::gemm");
  gemm<T><<<grid, T::THREADS, sizeof(Smem<T>), g.stream>>>(map_a, map_b, g.d, g.ldd, g.m, g.n, g.k);
  ladder::check_cuda(cudaGetLastError(), "launch of tma_mbarrier::gemm");
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
    __FILE__, "TMA copies tiles, mbarriers count their bytes, one thread asks",
    {variant<Tile<2>>("depth2", "double buffering"),
     variant<Tile<3>>("depth3", "3 slots").as_result(),
     variant<Tile<4>>("depth4", "4 slots, but only one CTA an SM")});

}  // namespace tma_mbarrier
