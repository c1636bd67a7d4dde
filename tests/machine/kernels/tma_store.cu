// An epilogue by TMA store, for the mutations that no rung has yet: D[m][64] is written tile by
// tile, through two buffers in shared memory that take turns.
//
//   tma_store --variant=tiles   stmatrix, then one tensor store a tile
//   tma_store --variant=rows    st.shared, then one bulk copy a row
//
// Exit codes: 0 ok, 1 wrong result or a CUDA error, 2 usage.
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "common/host/error.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/memory.cuh"
#include "common/tile/fragment.h"
#include "common/tile/math.h"
#include "common/tile/swizzle.h"

namespace ptx {

// stmatrix.sync.aligned.m8n8.x4.shared.b16  [dst], {r0, r1, r2, r3};
__device__ inline void stmatrix_x4(void* dst, const uint32_t (&r)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(cvta_to_shared(dst)),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
}

// st.shared.b32  [dst], value;
__device__ inline void st_shared_b32(void* dst, uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(cvta_to_shared(dst)), "r"(value) : "memory");
}

// cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group  [map, {col, row}], [src];
__device__ inline void cp_async_bulk_tensor_2d_s2g(const CUtensorMap* map, int col, int row,
                                                   const void* src) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
      "r"(col), "r"(row), "r"(cvta_to_shared(src))
      : "memory");
}

// cp.async.bulk.global.shared::cta.bulk_group  [dst], [src], bytes;
__device__ inline void cp_async_bulk_s2g(void* dst, const void* src, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst),
               "r"(cvta_to_shared(src)), "r"(bytes)
               : "memory");
}

// cp.async.bulk.commit_group;
__device__ inline void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// cp.async.bulk.wait_group.read  N;
template <int N>
__device__ inline void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// cp.async.bulk.wait_group  N;
template <int N>
__device__ inline void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

}  // namespace ptx

namespace tma_store {

using ladder::bf16;

constexpr int BM = 64, BN = 64;  // a tile
constexpr int THREADS = 128;     // each warp writes 16 rows of a tile
constexpr int M = 600;           // rows of D: nine tiles and a bit, five a CTA
constexpr int LDD = 72;          // elements: 8 of padding a row
constexpr int CTAS = 2;
static_assert(BN * 2 == tile::SWIZZLE_ROW_BYTES, "a row of the tile is a row of the swizzle");

struct alignas(1024) Smem {
  unsigned char d[2][BM * BN * 2];  // D [2][BM][BN] bf16; 128-byte swizzle if stored as a tile
};

// D[row][col] as a small integer, and the bits of two neighbours.
__host__ __device__ constexpr int element(int row, int col) {
  return (row * 3 + col * 5) % 17 - 8;
}
__device__ uint32_t pair(int row, int col) {
  return ptx::cvt_rn_bf16x2_f32(element(row, col + 1), element(row, col));
}

__device__ void write_tile_stmatrix(unsigned char* d, int row0) {
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16;
  const int row = row0 + warp_row + tile::acc_row(lane, 0);
#pragma unroll
  for (int chunk = 0; chunk < BN / 8; chunk += 2) {  // 16 columns at a time
    const int col = chunk * 8 + tile::acc_col(lane);
    const uint32_t block[4] = {pair(row, col), pair(row + 8, col), pair(row, col + 8),
                               pair(row + 8, col + 8)};
    ptx::stmatrix_x4(d + tile::swizzle_128b(warp_row + tile::ldmatrix_a_row(lane),
                                            chunk + tile::ldmatrix_a_chunk(lane)),
                     block);
  }
}

__global__ __launch_bounds__(THREADS) void store_tiles(const __grid_constant__ CUtensorMap map_d,
                                                       int m) {
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem& smem = *reinterpret_cast<Smem*>(smem_bytes);
  int buffer = 0;
  for (int t = blockIdx.x; t < tile::ceil_div(m, BM); t += gridDim.x, buffer ^= 1) {
    if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group_read<1>();  // of two tiles ago
    ptx::bar_sync();                                                // the buffer is free
    write_tile_stmatrix(smem.d[buffer], t * BM);
    ptx::fence_proxy_async_shared_cta();  // this thread's stmatrix before TMA's read
    ptx::bar_sync();                      // everyone's
    if (threadIdx.x == 0) {
      ptx::cp_async_bulk_tensor_2d_s2g(&map_d, 0, t * BM, smem.d[buffer]);
      ptx::cp_async_bulk_commit_group();
    }
  }
  if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group<0>();
}

__global__ __launch_bounds__(THREADS) void store_rows(bf16* d, long long ldd, int m) {
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem& smem = *reinterpret_cast<Smem*>(smem_bytes);
  const int row = threadIdx.x / 2, half = threadIdx.x % 2;  // two threads write a row
  int buffer = 0;
  for (int t = blockIdx.x; t < tile::ceil_div(m, BM); t += gridDim.x, buffer ^= 1) {
    unsigned char* row_bytes = &smem.d[buffer][row * BN * 2];
    if (half == 0) ptx::cp_async_bulk_wait_group_read<1>();  // of two tiles ago
    ptx::bar_sync();                                         // the buffer is free
    for (int col = half * BN / 2; col < (half + 1) * BN / 2; col += 2) {
      ptx::st_shared_b32(row_bytes + col * 2, pair(t * BM + row, col));
    }
    ptx::fence_proxy_async_shared_cta();  // this thread's st.shared before the copy's read
    ptx::bar_sync();                      // everyone's
    if (half == 0 && t * BM + row < m) {
      ptx::cp_async_bulk_s2g(d + (t * BM + row) * ldd, row_bytes, BN * 2);
      ptx::cp_async_bulk_commit_group();
    }
  }
  if (half == 0) ptx::cp_async_bulk_wait_group<0>();
}

// The first wrong element, or "" if D is right and its padding untouched.
std::string first_error(const std::vector<uint16_t>& d) {
  for (int row = 0; row < M; ++row) {
    for (int col = 0; col < (row + 1 < M ? LDD : BN); ++col) {
      const float value = static_cast<float>(element(row, col));
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      const uint16_t expected = col < BN ? bits >> 16 : 0xffff;
      const uint16_t got = d[row * LDD + col];
      if (got == expected) continue;
      char text[96];
      std::snprintf(text, sizeof text, "D[%d][%d] is 0x%04x, expected 0x%04x", row, col, got,
                    expected);
      return text;
    }
  }
  return "";
}

std::string run(bool tiles) {
  constexpr size_t ELEMENTS = (M - 1) * LDD + BN;  // the last row ends at BN
  std::vector<uint16_t> host(ELEMENTS, 0xffff);
  bf16* d = nullptr;
  ladder::check_cuda(cudaMalloc(&d, ELEMENTS * 2), "cudaMalloc");
  ladder::check_cuda(cudaMemcpy(d, host.data(), ELEMENTS * 2, cudaMemcpyDefault), "poisoning D");
  if (tiles) {
    store_tiles<<<CTAS, THREADS, sizeof(Smem)>>>(ladder::tensor_map_2d(d, M, BN, LDD, BM, BN), M);
  } else {
    store_rows<<<CTAS, THREADS, sizeof(Smem)>>>(d, LDD, M);
  }
  ladder::check_cuda(cudaGetLastError(), "launch");
  ladder::check_cuda(cudaMemcpy(host.data(), d, ELEMENTS * 2, cudaMemcpyDefault), "reading D");
  ladder::check_cuda(cudaFree(d), "cudaFree");
  return first_error(host);
}

}  // namespace tma_store

int main(int argc, char** argv) {
  const std::string option = argc == 2 ? argv[1] : "";
  if (option != "--variant=tiles" && option != "--variant=rows") {
    std::fprintf(stderr, "usage: %s --variant=tiles|rows\n", argv[0]);
    return 2;
  }
  try {
    const std::string error = tma_store::run(option == "--variant=tiles");
    if (error.empty()) {
      std::printf("ok: every element of D is right\n");
      return 0;
    }
    std::fprintf(stderr, "FAIL: %s\n", error.c_str());
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "FAIL: %s\n", failure.what());
  }
  return 1;
}
