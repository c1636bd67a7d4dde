// Rung 1: a tile of A and a tile of B in shared memory, one thread computes a block of D.
//
// Idea       every value loaded from global memory is used BM or BN times, from shared memory, and
//            every value loaded from shared memory TM or TN times, from registers.
// Limited by (nothing came before) a multiply-add on the CUDA cores, one fma.rn.f32 a thread.
// New PTX    ld.global.nc, cvt.f32.bf16, st.shared, bar.sync, ld.shared.v4, fma.rn.f32, st.global
// Tile       128x128x32 a CTA, 8x8 a thread, 256 threads, 36,864 bytes of shared memory
// Read       docs/01_smem_tiled.md
#include "common/host/error.h"
#include "common/host/registry.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/fma.cuh"
#include "common/ptx/memory.cuh"
#include "common/tile/math.h"

namespace smem_tiled {

using ladder::bf16;

template <int BM_, int BN_, int TM_, int TN_>
struct Tile {
  static constexpr int BM = BM_, BN = BN_, BK = 32;  // of a CTA
  static constexpr int TM = TM_, TN = TN_;           // of a thread: TM x TN elements of D
  static constexpr int THREADS_M = BM / TM, THREADS_N = BN / TN;
  static constexpr int THREADS = THREADS_M * THREADS_N;
  static_assert(BK % 4 == 0, "ld.shared.v4 reads four values of K");
  static_assert(BM % TM == 0 && BN % TN == 0, "every element of D belongs to a thread");
  static_assert(THREADS <= 1024, "a CTA has at most 1024 threads");
};

template <class T>
struct Smem {
  static constexpr int PAD = 4;  // 16 bytes: neighbouring rows start in different banks
  float a[T::BM][T::BK + PAD];   // A [BM][BK] fp32
  float b[T::BN][T::BK + PAD];   // B [BN][BK] fp32
};

// Copies rows row0 .. row0+ROWS-1, columns k0 .. k0+BK-1 of a bf16 matrix [rows][k] into shared
// memory as fp32. What lies outside the matrix becomes zero and is not read: padding may be NaN.
template <class T, int ROWS>
__device__ void load_tile(float (*smem)[T::BK + Smem<T>::PAD], const bf16* global, long long ld,
                          int row0, int rows, int k0, int k) {
#pragma unroll
  for (int i = threadIdx.x; i < ROWS * T::BK; i += T::THREADS) {
    const int row = i / T::BK, col = i % T::BK;
    const bool inside = row0 + row < rows && k0 + col < k;
    const uint16_t value =
        inside ? ptx::ld_global_nc_b16(global + (row0 + row) * ld + k0 + col) : 0;
    ptx::st_shared_f32(&smem[row][col], ptx::cvt_f32_bf16(value));
  }
}

template <class T>
__global__ __launch_bounds__(T::THREADS) void gemm(const bf16* a, long long lda, const bf16* b,
                                                   long long ldb, bf16* d, long long ldd, int m,
                                                   int n, int k) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int m0 = blockIdx.x * T::BM, n0 = blockIdx.y * T::BN;
  const int thread_m = threadIdx.x / T::THREADS_N, thread_n = threadIdx.x % T::THREADS_N;
  float acc[T::TM][T::TN] = {};  // rows thread_m + i*THREADS_M, columns thread_n + j*THREADS_N

  // --- main loop ---------------------------------------------------------------------------------
  for (int k0 = 0; k0 < k; k0 += T::BK) {
    load_tile<T, T::BM>(smem.a, a, lda, m0, m, k0, k);
    load_tile<T, T::BN>(smem.b, b, ldb, n0, n, k0, k);
    ptx::bar_sync();  // the tile is complete

#pragma unroll 1  // unrolled, 206 registers a thread: one CTA an SM, not two
    for (int kk = 0; kk < T::BK; kk += 4) {
      float4 b_frag[T::TN];  // four values of K for each of the thread's columns
#pragma unroll
      for (int j = 0; j < T::TN; ++j) {
        b_frag[j] = ptx::ld_shared_v4_f32(&smem.b[thread_n + j * T::THREADS_N][kk]);
      }
#pragma unroll
      for (int i = 0; i < T::TM; ++i) {
        const float4 a_frag = ptx::ld_shared_v4_f32(&smem.a[thread_m + i * T::THREADS_M][kk]);
#pragma unroll
        for (int j = 0; j < T::TN; ++j) {
          acc[i][j] = ptx::fma_rn_f32(a_frag.x, b_frag[j].x, acc[i][j]);
          acc[i][j] = ptx::fma_rn_f32(a_frag.y, b_frag[j].y, acc[i][j]);
          acc[i][j] = ptx::fma_rn_f32(a_frag.z, b_frag[j].z, acc[i][j]);
          acc[i][j] = ptx::fma_rn_f32(a_frag.w, b_frag[j].w, acc[i][j]);
        }
      }
    }
    ptx::bar_sync();  // everyone has read the tile: the next one may overwrite it
  }

  // --- epilogue ----------------------------------------------------------------------------------
#pragma unroll
  for (int i = 0; i < T::TM; ++i) {
#pragma unroll
    for (int j = 0; j < T::TN; ++j) {
      const int row = m0 + thread_m + i * T::THREADS_M, col = n0 + thread_n + j * T::THREADS_N;
      if (row < m && col < n) {
        ptx::st_global_b16(d + row * ldd + col, ptx::cvt_rn_bf16_f32(acc[i][j]));
      }
    }
  }
}

template <class T>
void launch(const ladder::GemmArgs& g) {
  const dim3 grid(tile::ceil_div(g.m, T::BM), tile::ceil_div(g.n, T::BN));
  gemm<T><<<grid, T::THREADS, sizeof(Smem<T>), g.stream>>>(g.a, g.lda, g.b, g.ldb, g.d, g.ldd, g.m,
                                                           g.n, g.k);
  ladder::check_cuda(cudaGetLastError(), "launch of smem_tiled::gemm");
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
                     .depth = 1,
                     .threads = T::THREADS,
                     .smem_bytes = sizeof(Smem<T>),
                     .simt = true}};
}

static const ladder::Registrar registrar(
    __FILE__, "shared-memory tiles, one fma.rn.f32 at a time",
    {variant<Tile<32, 32, 1, 1>>("32x32", "a thread computes 1 element"),
     variant<Tile<64, 64, 4, 4>>("64x64", "a thread computes 4x4"),
     variant<Tile<128, 128, 8, 8>>("128x128", "a thread computes 8x8").as_result()});

}  // namespace smem_tiled
