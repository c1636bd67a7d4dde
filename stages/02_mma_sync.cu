// Rung 2: the tensor cores, through mma.sync.
//
// Idea       a warp multiplies 16x16 by 16x8 in one instruction; ldmatrix fetches its operands, and
//            an XOR swizzle keeps ldmatrix free of bank conflicts.
// Limited by the CUDA cores: 128 fp32 multiply-adds a clock and SM, whatever the memory does.
// New PTX    ld.global.nc.v4, st.shared.v4, ldmatrix.x4, mma.sync.m16n8k16, cvt.rn.bf16x2,
//            shfl.sync.bfly, st.global.v2
// Tile       128x128x64 a CTA, 64x64 a warp, 128 threads, 32,768 bytes of shared memory
// Read       docs/02_mma_sync.md
#include "common/host/error.h"
#include "common/host/registry.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/mma.cuh"
#include "common/ptx/warp.cuh"
#include "common/tile/fragment.h"
#include "common/tile/math.h"
#include "common/tile/swizzle.h"

namespace mma_sync {

using ladder::bf16;

enum class Layout { plain, padded, swizzled };  // of a tile's rows in shared memory

template <Layout LAYOUT_, int CTAS_PER_SM_>
struct Tile {
  static constexpr int BM = 128, BN = 128, BK = 64;  // of a CTA
  static constexpr int WM = 64, WN = 64;             // of a warp
  static constexpr int WARPS_N = BN / WN;
  static constexpr int THREADS = BM / WM * WARPS_N * 32;
  static constexpr int CTAS_PER_SM = CTAS_PER_SM_;
  static constexpr Layout LAYOUT = LAYOUT_;
  static constexpr int ROW_BYTES = BK * 2 + (LAYOUT == Layout::padded ? tile::CHUNK_BYTES : 0);
  static_assert(BK * 2 == tile::SWIZZLE_ROW_BYTES, "a row of the tile is a row of the swizzle");

  // Byte offset of 16-byte chunk `chunk` (0..7) of row `row` of a tile.
  __device__ static int offset(int row, int chunk) {
    if constexpr (LAYOUT == Layout::swizzled) return tile::swizzle_128b(row, chunk);
    return row * ROW_BYTES + chunk * tile::CHUNK_BYTES;
  }
};

template <class T>
struct alignas(1024) Smem {
  unsigned char a[T::BM * T::ROW_BYTES];  // A [BM][BK] bf16
  unsigned char b[T::BN * T::ROW_BYTES];  // B [BN][BK] bf16
};

// Copies rows row0 .. row0+ROWS-1, columns k0 .. k0+BK-1 of a matrix [rows][k] into shared memory.
// What lies outside the matrix becomes zero and is not read: padding may be NaN.
template <class T, int ROWS>
__device__ void load_tile(unsigned char* smem, const bf16* global, long long ld, int row0, int rows,
                          int k0, int k) {
  if (k0 + T::BK > k) {  // the last tile of a ragged K: element by element
    for (int i = threadIdx.x; i < ROWS * T::BK; i += T::THREADS) {
      const int row = i / T::BK, col = i % T::BK;
      const bool inside = row0 + row < rows && k0 + col < k;
      ptx::st_shared_b16(smem + T::offset(row, col / 8) + col % 8 * 2,
                         inside ? ptx::ld_global_nc_b16(global + (row0 + row) * ld + k0 + col) : 0);
    }
    return;
  }
  constexpr int CHUNKS = ROWS * 8 / T::THREADS;  // of 8 elements, a thread
  static_assert(ROWS * 8 % T::THREADS == 0, "each thread copies as many chunks");
  uint4 value[CHUNKS];
#pragma unroll
  for (int i = 0; i < CHUNKS; ++i) {
    const int row = (threadIdx.x + i * T::THREADS) / 8, chunk = threadIdx.x % 8;
    const bf16* src = global + (row0 + row) * ld + k0 + chunk * 8;
    value[i] = row0 + row < rows ? ptx::ld_global_nc_v4_b32(src) : uint4{0, 0, 0, 0};
  }
#pragma unroll
  for (int i = 0; i < CHUNKS; ++i) {
    const int row = (threadIdx.x + i * T::THREADS) / 8, chunk = threadIdx.x % 8;
    ptx::st_shared_v4_b32(smem + T::offset(row, chunk), value[i]);
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
      ptx::ldmatrix_x4(a_frag[i], a + T::offset(warp_m + i * 16 + tile::ldmatrix_a_row(lane),
                                                kk * 2 + tile::ldmatrix_a_chunk(lane)));
    }
#pragma unroll
    for (int j = 0; j < T::WN / 16; ++j) {
      ptx::ldmatrix_x4(b_frag[j], b + T::offset(warp_n + j * 16 + tile::ldmatrix_b_row(lane),
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
  float acc[T::WM / 16][T::WN / 8][4] = {};  // D [64][64] of the warp, as 16x8 blocks

  // --- main loop ---------------------------------------------------------------------------------
  for (int k0 = 0; k0 < k; k0 += T::BK) {
    load_tile<T, T::BM>(smem.a, a, lda, m0, m, k0, k);
    load_tile<T, T::BN>(smem.b, b, ldb, n0, n, k0, k);
    ptx::bar_sync();  // the tile is complete
    multiply_tile<T>(acc, smem.a, smem.b, warp_m, warp_n);
    ptx::bar_sync();  // everyone has read the tile: the next one may overwrite it
  }

  // --- epilogue ----------------------------------------------------------------------------------
  store_tile<T>(acc, d, ldd, m0 + warp_m, n0 + warp_n, m, n);
}

// One CTA an SM: ask for more shared memory than two CTAs can have together.
template <class T>
constexpr int SMEM_BYTES = T::CTAS_PER_SM == 1 ? 120 * 1024 : sizeof(Smem<T>);

template <class T>
void launch(const ladder::GemmArgs& g) {
  const dim3 grid(tile::ceil_div(g.m, T::BM), tile::ceil_div(g.n, T::BN));
  ladder::check_cuda(
      cudaFuncSetAttribute(gemm<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_BYTES<T>),
      "shared memory of mma_sync::gemm");
  gemm<T><<<grid, T::THREADS, SMEM_BYTES<T>, g.stream>>>(g.a, g.lda, g.b, g.ldb, g.d, g.ldd, g.m,
                                                         g.n, g.k);
  ladder::check_cuda(cudaGetLastError(), "launch of mma_sync::gemm");
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
                     .smem_bytes = SMEM_BYTES<T>}};
}

static const ladder::Registrar registrar(
    __FILE__, "tensor cores: ldmatrix and mma.sync on a swizzled tile",
    {variant<Tile<Layout::plain, 2>>("plain", "rows of 128 bytes, 8-way bank conflicts"),
     variant<Tile<Layout::padded, 2>>("padded", "rows of 144 bytes, no conflicts"),
     variant<Tile<Layout::swizzled, 1>>("swizzled_1cta", "XOR swizzle, one CTA an SM"),
     variant<Tile<Layout::swizzled, 2>>("swizzled", "XOR swizzle, two CTAs an SM").as_result()});

}  // namespace mma_sync
