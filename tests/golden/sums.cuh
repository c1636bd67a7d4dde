// Asks a GPU for the sums of tests/golden/sums.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>
#include <stdexcept>

#include "common/ptx/barrier.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/operand_tile.h"
#include "tests/golden/sums.h"

namespace sums {

inline void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorName(status));
}

template <class T>
class Buffer {
 public:
  explicit Buffer(const std::vector<T>& values) : count_(values.size()) {
    check(cudaMalloc(reinterpret_cast<void**>(&at_), count_ * sizeof(T)));
    check(cudaMemcpy(at_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(at_); }
  T* at() { return at_; }
  std::vector<T> read() {
    check(cudaGetLastError());
    check(cudaDeviceSynchronize());
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), at_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* at_ = nullptr;
  size_t count_;
};

// wgmma m64n8 of 32 bytes of K: D = A · B^T + (accumulate ? D : 0).
template <Type TYPE>
__device__ void multiply(uint32_t (&d)[4], uint64_t a, uint64_t b, bool accumulate) {
#define SUMS_WGMMA(SHAPE_AND_TYPES, REST)                                                         \
  asm volatile(                                                                                   \
      "{ .reg .pred p;  setp.ne.b32 p, %6, 0;\n"                                                  \
      "  wgmma.mma_async.sync.aligned." SHAPE_AND_TYPES " {%0, %1, %2, %3}, %4, %5, p" REST "; }" \
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                            \
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate))                                         \
      : "memory")
  if constexpr (TYPE == Type::e4m3) SUMS_WGMMA("m64n8k32.f32.e4m3.e4m3", ", 1, 1");
  if constexpr (TYPE == Type::bf16) SUMS_WGMMA("m64n8k16.f32.bf16.bf16", ", 1, 1, 0, 0");
  if constexpr (TYPE == Type::fp16) SUMS_WGMMA("m64n8k16.f32.f16.f16", ", 1, 1, 0, 0");
  if constexpr (TYPE == Type::tf32) SUMS_WGMMA("m64n8k8.f32.tf32.tf32", ", 1, 1");
  if constexpr (TYPE == Type::s8) SUMS_WGMMA("m64n8k32.s32.s8.s8", "");
#undef SUMS_WGMMA
}

constexpr int K_BYTES = 128;  // that are in shared memory at a time: four wgmma

// Rows of an operand, K_BYTES or fewer of each from byte k0 on, into the layout without swizzle.
template <int MN>
using Operand = tile::OperandTile<tile::Major::K, 16, 1, MN, K_BYTES>;
template <int MN>
__device__ void load(Operand<MN>& to, const unsigned char* from, long long row_bytes, int k0,
                     int k_bytes) {
  for (int i = static_cast<int>(threadIdx.x); i < MN * k_bytes; i += 128) {
    const int row = i / k_bytes, k = i % k_bytes;
    *to.at(row, k) = from[row * row_bytes + k0 + k];
  }
}

// CTA x: D [64][8] += A [64][k_bytes] · B [8][k_bytes]^T of the x-th eight rows of B. C is what D holds.
// PROMOTE steps of 32 bytes are summed by the tensor cores, then added in fp32; 0: all are.
template <Type TYPE, int PROMOTE>
__global__ __launch_bounds__(128) void product(const unsigned char* a, const unsigned char* b,
                                               uint32_t* d, int k_bytes) {
  __shared__ Operand<ROWS> tile_a;
  __shared__ Operand<COLS> tile_b;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  b += static_cast<long long>(blockIdx.x) * COLS * k_bytes;
  d += static_cast<long long>(blockIdx.x) * ROWS * COLS;
  uint32_t sum[4];
  float all[4] = {};
  uint32_t* const at = d + (warp * 16 + lane / 4) * COLS + lane % 4 * 2;
  for (int i = 0; i < 4; ++i) sum[i] = at[i / 2 * 8 * COLS + i % 2];
  for (int k0 = 0, step = 0; k0 < k_bytes; k0 += K_BYTES) {
    const int here = min(K_BYTES, k_bytes - k0);
    ptx::bar_sync();
    load(tile_a, a, k_bytes, k0, here);
    load(tile_b, b, k_bytes, k0, here);
    ptx::fence_proxy_async_shared_cta();
    ptx::bar_sync();
    for (int k = 0; k < here; k += 32, ++step) {
      const bool first = PROMOTE > 0 && step % max(PROMOTE, 1) == 0;
      const bool last = PROMOTE > 0 && step % max(PROMOTE, 1) == PROMOTE - 1;
      ptx::wgmma_fence();
      multiply<TYPE>(sum, Operand<ROWS>::descriptor(ptx::cvta_to_shared(tile_a.at(0, k))),
                     Operand<COLS>::descriptor(ptx::cvta_to_shared(tile_b.at(0, k))), !first);
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<0>();
      for (int i = 0; i < 4; ++i) all[i] += last ? __uint_as_float(sum[i]) : 0.0f;
    }
  }
  for (int i = 0; i < 4; ++i) {
    at[i / 2 * 8 * COLS + i % 2] = PROMOTE > 0 ? __float_as_uint(all[i]) : sum[i];
  }
}

inline std::vector<unsigned char> pack(const std::vector<uint32_t>& elements, int bytes) {
  std::vector<unsigned char> packed(elements.size() * static_cast<size_t>(bytes));
  for (size_t i = 0; i < elements.size(); ++i) {
    std::memcpy(&packed[i * static_cast<size_t>(bytes)], &elements[i], static_cast<size_t>(bytes));
  }
  return packed;
}

template <Type TYPE>
std::vector<uint32_t> answer(const Probe& probe) {
  Buffer<unsigned char> a(pack(probe.a, bytes_of(TYPE))), b(pack(probe.b, bytes_of(TYPE)));
  Buffer<uint32_t> d(probe.c);
  product<TYPE, 0><<<1, 128>>>(a.at(), b.at(), d.at(), probe.steps * 32);
  return d.read();
}

inline std::vector<uint32_t> answer(const Probe& probe) {
  switch (probe.type) {
    case Type::e4m3:
      return answer<Type::e4m3>(probe);
    case Type::bf16:
      return answer<Type::bf16>(probe);
    case Type::fp16:
      return answer<Type::fp16>(probe);
    case Type::tf32:
      return answer<Type::tf32>(probe);
    default:
      return answer<Type::s8>(probe);
  }
}

}  // namespace sums
