// Rung 3: a ring of tiles in shared memory, filled by cp.async while older tiles are multiplied.
//
// Idea       cp.async copies from global to shared memory without passing through registers and
//            without waiting, so the next tiles travel while this one is multiplied.
// Limited by waiting: every tile was loaded, then multiplied, then the next one was asked for.
// New PTX    cp.async.cg, cp.async.commit_group, .wait_group; in the second kernel bar.warp.sync,
//            cp.async.mbarrier.arrive.noinc, mbarrier.init, mbarrier.arrive, mbarrier.try_wait
// Tile       128x128x64 a CTA, 64x64 a warp, 128 threads, 3 slots: 99,328 bytes of shared memory
// Read       docs/03_cp_async_multistage.md
#include "common/host/error.h"
#include "common/host/registry.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/cp_async.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/mma.cuh"
#include "common/ptx/warp.cuh"
#include "common/tile/fragment.h"
#include "common/tile/math.h"
#include "common/tile/ring.h"
#include "common/tile/swizzle.h"

namespace cp_async_multistage {

using ladder::bf16;

template <int DEPTH_>
struct Tile {
  static constexpr int BM = 128, BN = 128, BK = 64;          // of a CTA
  static constexpr int WM = 64, WN = 64, WARPS_N = BN / WN;  // of a warp
  static constexpr int THREADS = BM / WM * WARPS_N * 32;
  static constexpr int CTAS_PER_SM = 2, DEPTH = DEPTH_;  // slots in the ring
  static constexpr bool LATE = false;                    // copies start behind the products
  static constexpr long long MAX_LD = 1 << 23;           // x 2 bytes x 128 rows fits 32 bits
  static_assert(BK * 2 == tile::SWIZZLE_ROW_BYTES, "a row of the tile is a row of the swizzle");
  static_assert(DEPTH >= 2, "one slot is multiplied, one is filled");
};

template <int DEPTH>
struct Late : Tile<DEPTH> {
  static constexpr bool LATE = true;
};

template <class T>
struct alignas(1024) Smem {
  unsigned char a[T::DEPTH][T::BM * T::BK * 2];  // A [DEPTH][BM][BK] bf16, 128-byte swizzle
  unsigned char b[T::DEPTH][T::BN * T::BK * 2];  // B [DEPTH][BN][BK] bf16, 128-byte swizzle
  uint64_t full[T::DEPTH];   // of gemm_mbarrier; one arrival a thread: its copies have landed
  uint64_t empty[T::DEPTH];  // of gemm_mbarrier; one arrival a warp: it has read the slot
};

// Starts copying rows row0 .. row0+ROWS-1, columns k0 .. k0+BK-1 of a matrix [rows][k] into shared
// memory. What lies outside the matrix becomes zero and is not read: padding may be NaN.
template <class T, int ROWS>
__device__ void load_tile(unsigned char* smem, const bf16* global, long long ld, int row0, int rows,
                          int k0, int k) {
  constexpr int STEP = T::THREADS / 8;  // rows that the CTA copies at once
  static_assert(ROWS % STEP == 0, "whole steps, or rows of the next tile would be overwritten");
  const int row = threadIdx.x / 8, chunk = threadIdx.x % 8, col = k0 + chunk * 8;
  const bf16* src = global + (row0 + row) * ld + col;
  if (row0 + ROWS <= rows && k0 + T::BK <= k && ld <= T::MAX_LD) {
    const char* src_bytes = reinterpret_cast<const char*>(src);
    const uint32_t row_bytes = ld * sizeof(bf16);  // 32 bits: less work a copy than 64
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP) {
      ptx::cp_async_cg_16(smem + tile::swizzle_128b(row + i, chunk), src_bytes + i * row_bytes);
    }
  } else {  // at an edge, or rows so long that an offset within the tile needs 64 bits
    const int bytes = max(0, min(8, k - col)) * 2;  // of the chunk that lie inside the matrix
#pragma unroll 1
    for (int i = 0; i < ROWS; i += STEP) {
      ptx::cp_async_cg_16(smem + tile::swizzle_128b(row + i, chunk), src + i * ld,
                          row0 + row + i < rows ? bytes : 0);
    }
  }
}

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
__global__ __launch_bounds__(T::THREADS, T::CTAS_PER_SM) void gemm(const bf16* a, long long lda,
                                                                   const bf16* b, long long ldb,
                                                                   bf16* d, long long ldd, int m,
                                                                   int n, int k) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int m0 = blockIdx.x * T::BM, n0 = blockIdx.y * T::BN;
  const int warp = threadIdx.x / 32;
  const int warp_m = warp / T::WARPS_N * T::WM, warp_n = warp % T::WARPS_N * T::WN;
  const int k_tiles = tile::ceil_div(k, T::BK);
  float acc[T::WM / 16][T::WN / 8][4] = {};  // D [64][64] of the warp, as 16x8 blocks

  // --- prologue: fill all slots but one ----------------------------------------------------------
  tile::RingState<T::DEPTH> load;
  int load_tile_k = 0;  // the k tile that is loaded next
  const auto load_next = [&] {
    if (load_tile_k < k_tiles) {
      load_tile<T, T::BM>(smem.a[load.slot], a, lda, m0, m, load_tile_k * T::BK, k);
      load_tile<T, T::BN>(smem.b[load.slot], b, ldb, n0, n, load_tile_k * T::BK, k);
    }
    ptx::cp_async_commit_group();  // an empty group too, so that wait_group can count
    load.advance();
    ++load_tile_k;
  };
  for (int i = 0; i < T::DEPTH - 1; ++i) load_next();

  // --- main loop ---------------------------------------------------------------------------------
  tile::RingState<T::DEPTH> use;
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile, use.advance()) {
    ptx::cp_async_wait_group<T::DEPTH - 2>();  // this thread's part of the tile has landed
    ptx::bar_sync();  // everyone's has, and everyone has read the slot that is refilled next
    if (!T::LATE) load_next();
    multiply_tile<T>(acc, smem.a[use.slot], smem.b[use.slot], warp_m, warp_n);
    if (T::LATE) load_next();
  }

  // --- epilogue ----------------------------------------------------------------------------------
  store_tile<T>(acc, d, ldd, m0 + warp_m, n0 + warp_n, m, n);
}

// --- The same ring, completed through mbarriers --------------------------------------------------
// No bar.sync in the loop: a warp may be a tile ahead of the slowest, where bar.sync lets none be.
template <class T>
__global__ __launch_bounds__(T::THREADS,
                             T::CTAS_PER_SM) void gemm_mbarrier(const bf16* a, long long lda,
                                                                const bf16* b, long long ldb,
                                                                bf16* d, long long ldd, int m,
                                                                int n, int k) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int m0 = blockIdx.x * T::BM, n0 = blockIdx.y * T::BN;
  const int warp = threadIdx.x / 32;
  const int warp_m = warp / T::WARPS_N * T::WM, warp_n = warp % T::WARPS_N * T::WN;
  const int k_tiles = tile::ceil_div(k, T::BK);
  float acc[T::WM / 16][T::WN / 8][4] = {};  // D [64][64] of the warp, as 16x8 blocks
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], T::THREADS);
      ptx::mbarrier_init(&smem.empty[slot], T::THREADS / 32);
    }
  }
  ptx::bar_sync();  // the mbarriers are there

  // --- prologue: fill all slots but one ----------------------------------------------------------
  tile::RingState<T::DEPTH> load;
  int load_tile_k = 0;  // the k tile that is loaded next
  const auto load_next = [&] {
    if (load_tile_k == k_tiles) return;
    ptx::mbarrier_wait(&smem.empty[load.slot], load.parity ^ 1);  // every warp has read the slot
    load_tile<T, T::BM>(smem.a[load.slot], a, lda, m0, m, load_tile_k * T::BK, k);
    load_tile<T, T::BN>(smem.b[load.slot], b, ldb, n0, n, load_tile_k * T::BK, k);
    ptx::cp_async_mbarrier_arrive_noinc(&smem.full[load.slot]);
    load.advance();
    ++load_tile_k;
  };
  for (int i = 0; i < T::DEPTH - 1; ++i) load_next();

  // --- main loop ---------------------------------------------------------------------------------
  tile::RingState<T::DEPTH> use;
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile, use.advance()) {
    ptx::mbarrier_wait(&smem.full[use.slot], use.parity);  // the whole tile has landed
    multiply_tile<T>(acc, smem.a[use.slot], smem.b[use.slot], warp_m, warp_n);
    ptx::bar_warp_sync();  // all lanes have read it, so one may say so
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&smem.empty[use.slot]);
    load_next();
  }

  // --- epilogue ----------------------------------------------------------------------------------
  store_tile<T>(acc, d, ldd, m0 + warp_m, n0 + warp_n, m, n);
}

template <auto KERNEL, class T>
void launch(const ladder::GemmArgs& g) {
  const dim3 grid(tile::ceil_div(g.m, T::BM), tile::ceil_div(g.n, T::BN));
  ladder::check_cuda(
      cudaFuncSetAttribute(KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem<T>)),
      "shared memory of cp_async_multistage::gemm");
  KERNEL<<<grid, T::THREADS, sizeof(Smem<T>), g.stream>>>(g.a, g.lda, g.b, g.ldb, g.d, g.ldd, g.m,
                                                          g.n, g.k);
  ladder::check_cuda(cudaGetLastError(), "launch of cp_async_multistage::gemm");
}

template <auto KERNEL, class T>
ladder::Variant variant(const char* name, const char* what) {
  return {.name = name,
          .what = what,
          .kernel = {.launch = launch<KERNEL, T>,
                     .function = reinterpret_cast<const void*>(KERNEL),
                     .bm = T::BM,
                     .bn = T::BN,
                     .bk = T::BK,
                     .depth = T::DEPTH,
                     .threads = T::THREADS,
                     .smem_bytes = sizeof(Smem<T>)}};
}

static const ladder::Registrar registrar(
    __FILE__, "a ring of tiles: cp.async copies while mma.sync multiplies",
    {variant<gemm<Tile<2>>, Tile<2>>("depth2", "2 slots: one tile in flight"),
     variant<gemm<Tile<3>>, Tile<3>>("depth3", "3 slots: two tiles in flight"),
     variant<gemm<Tile<4>>, Tile<4>>("depth4", "4 slots, but only one CTA an SM"),
     variant<gemm<Late<3>>, Late<3>>("depth3_late", "copies start behind the products").as_result(),
     variant<gemm_mbarrier<Tile<3>>, Tile<3>>("depth3_mbarrier",
                                              "3 slots, mbarriers in place of bar.sync")});

}  // namespace cp_async_multistage
