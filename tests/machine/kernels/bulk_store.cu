// An epilogue by bulk copies, for the bug that a tensor map clips away in the rungs: D[m][64] is
// written tile by tile, through two buffers in shared memory that take turns, one bulk copy a row.
//
// Exit codes: 0 ok, 1 wrong result or a CUDA error.
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "common/host/error.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/tile/math.h"

namespace ptx {

// st.shared.b32  [dst], value;
__device__ inline void st_shared_b32(void* dst, uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(cvta_to_shared(dst)), "r"(value) : "memory");
}

// cp.async.bulk.global.shared::cta.bulk_group  [dst], [src], bytes;
__device__ inline void cp_async_bulk_s2g(void* dst, const void* src, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst),
               "r"(cvta_to_shared(src)), "r"(bytes)
               : "memory");
}

}  // namespace ptx

namespace bulk_store {

using bf16 = __nv_bfloat16;

constexpr int BM = 64, BN = 64;  // a tile
constexpr int THREADS = 128;     // two write a row
constexpr int M = 600;           // rows of D: nine tiles and a bit, five a CTA
constexpr int LDD = 72;          // elements: 8 of padding a row
constexpr int CTAS = 2;

struct alignas(16) Smem {
  unsigned char d[2][BM * BN * 2];  // D [2][BM][BN] bf16
};

// D[row][col] as a small integer, and the bits of two neighbours.
__host__ __device__ constexpr int element(int row, int col) {
  return (row * 3 + col * 5) % 17 - 8;
}
__device__ uint32_t pair(int row, int col) {
  return ptx::cvt_rn_bf16x2_f32(element(row, col + 1), element(row, col));
}

__global__ __launch_bounds__(THREADS) void store_rows(bf16* d, long long ldd, int m) {
  extern __shared__ __align__(16) unsigned char smem_bytes[];
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

std::string run() {
  constexpr size_t ELEMENTS = (M - 1) * LDD + BN;  // the last row ends at BN
  std::vector<uint16_t> host(ELEMENTS, 0xffff);
  bf16* d = nullptr;
  ladder::check_cuda(cudaMalloc(&d, ELEMENTS * 2), "cudaMalloc");
  ladder::check_cuda(cudaMemcpy(d, host.data(), ELEMENTS * 2, cudaMemcpyDefault), "poisoning D");
  store_rows<<<CTAS, THREADS, sizeof(Smem)>>>(d, LDD, M);
  ladder::check_cuda(cudaGetLastError(), "launch");
  ladder::check_cuda(cudaMemcpy(host.data(), d, ELEMENTS * 2, cudaMemcpyDefault), "reading D");
  ladder::check_cuda(cudaFree(d), "cudaFree");
  return first_error(host);
}

}  // namespace bulk_store

int main() {
  try {
    const std::string error = bulk_store::run();
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
