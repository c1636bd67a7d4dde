// References of block-scaled products, on the host and on the GPU, and what results may be away from them.
#include "common/host/block_scaled_verify.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "common/host/error.h"
#include "common/host/tolerance.h"
#include "common/host/verify_cpu.h"
#include "common/host/verify_gpu.cuh"

namespace ladder {
namespace {

// One element of D on its way: what its reference consists of. Products come 32 at a time, as wgmma
// takes them.
template <class In>
struct ScaledSum {
  double r = 0, s = 0;
  E4m3Loss loss;
  double sum = 0;     // of the tensor cores, since the last promotion
  double before = 0;  // the last 32
  float abs_sum = 0, largest = 0;
  int signs = 0;

  LADDER_HOST_DEVICE void add(float a, float b) {
    const float product = a * b, magnitude = fabsf(product);  // exact: at most 16 bits
    sum += static_cast<double>(product);
    abs_sum += magnitude;
    largest = magnitude > largest ? magnitude : largest;
    signs += (product > 0) - (product < 0);
  }

  LADDER_HOST_DEVICE void end_of_wgmma(double scale) {
    if (std::is_same_v<In, e4m3>) loss.add(scale, static_cast<double>(largest), signs, before, sum);
    s += fabs(scale) * static_cast<double>(abs_sum);
    before = sum;
    abs_sum = largest = 0;
    signs = 0;
  }

  // scale: of the products since the last promotion.
  LADDER_HOST_DEVICE void promote(double scale) {
    r += scale * sum;
    sum = before = 0;
  }

  LADDER_HOST_DEVICE double s_of_all() const { return s_with_loss(s, loss.bound()); }
};

template <class In>
HostReference reference_on_host(const BlockScaledArgs& args) {
  const int m = args.m, n = args.n, k = args.k;
  const auto blocks = static_cast<int>(scale_blocks(k));
  const auto values = [&](const void* base, int rows, long long ld) {
    const std::vector<In> stored = download(static_cast<const In*>(base), rows, k, ld, args.stream);
    std::vector<float> all(stored.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = Element<In>::to_float(stored[i]);
    return all;
  };
  const std::vector<float> a = values(args.a, m, args.lda), b = values(args.b, n, args.ldb);
  const auto scale_a = download(args.scale_a, blocks, m, args.ld_scale_a, args.stream);
  const auto scale_b = download(args.scale_b, static_cast<int>(scale_blocks(n)), blocks,
                                args.ld_scale_b, args.stream);
  HostReference reference;
  for (long long i = 0; i < static_cast<long long>(m) * n; ++i) {
    const long long row = i / n, col = i % n;
    ScaledSum<In> sum;
    double scale = 0;
    for (int at = 0; at < k; at += E4M3_SUM_K) {
      if (at % SCALE_BLOCK == 0) {
        const int block = at / SCALE_BLOCK;
        if (!args.tensor_scales) sum.promote(scale);
        scale = double{scale_a[block * args.ld_scale_a + row]} *
                scale_b[col / SCALE_BLOCK * args.ld_scale_b + block];
      }
      const float* const of_a = &a[row * args.lda];
      const float* const of_b = &b[col * args.ldb];
      for (int j = at; j < std::min(k, at + E4M3_SUM_K); ++j) sum.add(of_a[j], of_b[j]);
      sum.end_of_wgmma(scale);
    }
    sum.promote(scale);
    reference.r.push_back(sum.r);
    reference.s.push_back(sum.s_of_all());
  }
  return reference;
}

namespace scaled {

using on_gpu::first_index;
using on_gpu::index_stride;

// A CTA computes TILE x TILE elements, a thread SUB x SUB of them, SIDE apart.
constexpr int TILE = 32, SIDE = 16, SUB = TILE / SIDE, THREADS = SIDE * SIDE;
using Slab = float[E4M3_SUM_K][TILE + 1];  // [k][row]; the odd length: free of bank conflicts

// Rows [row0, row0 + TILE) and columns [k0, k0 + E4M3_SUM_K) of an operand; zero outside it.
template <class In>
__device__ void load_slab(Slab& slab, const void* base, int rows, int cols, long long ld,
                          long long row0, long long k0) {
  for (int i = static_cast<int>(threadIdx.x); i < TILE * E4M3_SUM_K; i += THREADS) {
    const int row = i / E4M3_SUM_K, k = i % E4M3_SUM_K;
    const bool inside = row0 + row < rows && k0 + k < cols;
    const In* const from = static_cast<const In*>(base) + (row0 + row) * ld + k0 + k;
    slab[k][row] = inside ? Element<In>::to_float(*from) : 0.0f;
  }
}

template <class In>
__global__ __launch_bounds__(THREADS) void reference_kernel(BlockScaledArgs args, int tiles_m,
                                                            float* r, float* s) {
  static_assert(SCALE_BLOCK % TILE == 0, "a tile has one scale of B");
  __shared__ Slab slab_a, slab_b;
  const long long m0 = static_cast<long long>(blockIdx.x % tiles_m) * TILE;
  const long long n0 = static_cast<long long>(blockIdx.x / tiles_m) * TILE;
  const int thread_m = static_cast<int>(threadIdx.x) / SIDE;
  const int thread_n = static_cast<int>(threadIdx.x) % SIDE;
  ScaledSum<In> sum[SUB * SUB];
  double scale[SUB] = {};  // of the thread's rows
  for (long long k0 = 0; k0 < args.k; k0 += E4M3_SUM_K) {
    if (k0 % SCALE_BLOCK == 0) {
      const long long block = k0 / SCALE_BLOCK;
      const double scale_b = args.scale_b[n0 / SCALE_BLOCK * args.ld_scale_b + block];
#pragma unroll
      for (int i = 0; i < SUB * SUB; ++i) {
        if (!args.tensor_scales) sum[i].promote(scale[i / SUB]);
      }
#pragma unroll
      for (int i = 0; i < SUB; ++i) {
        const long long row = m0 + thread_m + i * SIDE;
        if (row < args.m) scale[i] = scale_b * args.scale_a[block * args.ld_scale_a + row];
      }
    }
    load_slab<In>(slab_a, args.a, args.m, args.k, args.lda, m0, k0);
    load_slab<In>(slab_b, args.b, args.n, args.k, args.ldb, n0, k0);
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < E4M3_SUM_K; ++k) {
#pragma unroll
      for (int i = 0; i < SUB * SUB; ++i) {
        sum[i].add(slab_a[k][thread_m + i / SUB * SIDE], slab_b[k][thread_n + i % SUB * SIDE]);
      }
    }
#pragma unroll
    for (int i = 0; i < SUB * SUB; ++i) sum[i].end_of_wgmma(scale[i / SUB]);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < SUB * SUB; ++i) {
    const long long row = m0 + thread_m + i / SUB * SIDE, col = n0 + thread_n + i % SUB * SIDE;
    if (row >= args.m || col >= args.n) continue;
    sum[i].promote(scale[i / SUB]);
    r[row * args.n + col] = static_cast<float>(sum[i].r);
    s[row * args.n + col] = static_cast<float>(sum[i].s_of_all());
  }
}

// Adds to *wrong how many elements of D [m][ldd] in s32 are not A · B^T, in every `step`-th row: a warp an
// element.
__global__ void check_integers(BlockScaledArgs args, const int* d, long long ldd, int step,
                               unsigned long long* wrong) {
  const auto* a = static_cast<const s8*>(args.a);
  const auto* b = static_cast<const s8*>(args.b);
  const long long elements = (args.m + step - 1LL) / step * args.n;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (long long i = first_index() / 32; i < elements; i += index_stride() / 32) {
    const long long row = i / args.n * step, col = i % args.n;
    int sum = 0;
    for (int k = lane; k < args.k; k += 32) sum += a[row * args.lda + k] * b[col * args.ldb + k];
    sum = static_cast<int>(__reduce_add_sync(~0u, static_cast<unsigned>(sum)));
    if (lane == 0 && sum != d[row * ldd + col]) atomicAdd(wrong, 1ull);
  }
}

}  // namespace scaled

}  // namespace

HostReference block_scaled_reference_on_host(const BlockScaledArgs& args) {
  return with_operand_type(args.type, [&]<class In>() { return reference_on_host<In>(args); });
}

Reference block_scaled_reference_on_gpu(const BlockScaledArgs& args) {
  using scaled::TILE;
  const long long elems = static_cast<long long>(args.m) * args.n;
  Reference reference{DeviceBuffer(elems * sizeof(float)), DeviceBuffer(elems * sizeof(float))};
  if (elems == 0) return reference;
  const int tiles_m = (args.m + TILE - 1) / TILE, tiles_n = (args.n + TILE - 1) / TILE;
  const unsigned ctas = static_cast<unsigned>(tiles_m) * static_cast<unsigned>(tiles_n);
  with_operand_type(args.type, [&]<class In>() {
    scaled::reference_kernel<In><<<ctas, scaled::THREADS, 0, args.stream>>>(
        args, tiles_m, reference.r.as<float>(), reference.s.as<float>());
  });
  check_cuda(cudaGetLastError(), "launching the reference kernel");
  return reference;
}

Verdict verify_block_scaled(const BlockScaledArgs& args, const HostReference& reference,
                            bool exact) {
  return verify_on_host(as_matmul<e4m3>(args), reference, exact);
}

Verdict verify_block_scaled(const BlockScaledArgs& args, const Reference& reference, bool exact) {
  return verify_gpu(as_matmul<e4m3>(args), reference, exact);
}

long long wrong_integers(const BlockScaledArgs& args, const int* d, long long ldd) {
  const DeviceBuffer wrong(sizeof(unsigned long long));
  check_cuda(cudaMemsetAsync(wrong.data(), 0, wrong.bytes(), args.stream), "cudaMemsetAsync");
  scaled::check_integers<<<4096, scaled::THREADS, 0, args.stream>>>(
      args, d, ldd, std::max(1, args.m / 64), wrong.as<unsigned long long>());
  check_cuda(cudaGetLastError(), "launch of check_integers");
  return static_cast<long long>(on_gpu::copy_to_host(wrong.as<unsigned long long>(), args.stream));
}

}  // namespace ladder
