// The GPU's half of verify.h, for element types that have an Element. Included by the .cu file of a
// kind of problem, which instantiates what it needs.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "common/host/element.h"
#include "common/host/error.h"
#include "common/host/tolerance.h"
#include "common/host/verify.h"

namespace ladder {
namespace on_gpu {

constexpr int THREADS = 256;

// A grid-stride launch over `elems`: enough CTAs to fill any GPU.
inline unsigned grid_for(long long elems) {
  return static_cast<unsigned>(std::clamp(elems / THREADS + 1, 1LL, 4096LL));
}

inline __device__ long long first_index() {
  return blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
}

inline __device__ long long index_stride() {
  return static_cast<long long>(gridDim.x) * blockDim.x;
}

// --- data ----------------------------------------------------------------------------------------

template <class T>
__global__ void fill_kernel(T* base, int cols, long long ld, long long elems, Data data,
                            uint64_t seed) {
  for (long long i = first_index(); i < elems; i += index_stride()) {
    base[i / cols * ld + i % cols] =
        Element<T>::from_float(element_value(data, seed, i / cols, i % cols, cols));
  }
}

// --- reference -----------------------------------------------------------------------------------

// One CTA computes TILE x TILE elements of r and s, each thread SUB x SUB of them, SIDE apart.
constexpr int TILE = 64, TILE_K = 16, SIDE = 16, SUB = TILE / SIDE;
static_assert(SIDE * SIDE == THREADS, "one thread for each position of a SIDE x SIDE square");

// Rows [row0, row0 + TILE) and columns [k0, k0 + TILE_K) of a matrix, transposed; zero outside it. If
// mn_major, the matrix itself is stored transposed.
// The odd row length keeps both the transposing writes and the reads free of bank conflicts.
using Slab = double[TILE_K][TILE + 1];

template <class In>
__device__ void load_slab(Slab& slab, const In* base, int rows, int cols, long long ld,
                          bool mn_major, long long row0, long long k0) {
  const long long row_step = mn_major ? 1 : ld, k_step = mn_major ? ld : 1;
  for (int i = static_cast<int>(threadIdx.x); i < TILE * TILE_K; i += THREADS) {
    const int row = i / TILE_K, k = i % TILE_K;
    const bool inside = row0 + row < rows && k0 + k < cols;
    const float value =
        inside ? Element<In>::to_float(base[(row0 + row) * row_step + (k0 + k) * k_step]) : 0.0f;
    slab[k][row] = static_cast<double>(value);
  }
}

template <class In, class Out>
__global__ __launch_bounds__(THREADS) void reference_kernel(MatmulArgs<In, Out> args, int tiles_m,
                                                            double losses, float* r, float* s) {
  __shared__ Slab slab_a, slab_b;
  const long long m0 = static_cast<long long>(blockIdx.x % tiles_m) * TILE;
  const long long n0 = static_cast<long long>(blockIdx.x / tiles_m) * TILE;
  const int thread_m = static_cast<int>(threadIdx.x) / SIDE;
  const int thread_n = static_cast<int>(threadIdx.x) % SIDE;

  double sum[SUB][SUB] = {}, abs_sum[SUB][SUB] = {};
  for (long long k0 = 0; k0 < args.k; k0 += TILE_K) {
    load_slab(slab_a, args.a, args.m, args.k, args.lda, args.mn_major_a, m0, k0);
    load_slab(slab_b, args.b, args.n, args.k, args.ldb, args.mn_major_b, n0, k0);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE_K; ++k) {
      double a[SUB], b[SUB];
#pragma unroll
      for (int i = 0; i < SUB; ++i) a[i] = slab_a[k][thread_m + i * SIDE];
#pragma unroll
      for (int j = 0; j < SUB; ++j) b[j] = slab_b[k][thread_n + j * SIDE];
#pragma unroll
      for (int i = 0; i < SUB; ++i) {
#pragma unroll
        for (int j = 0; j < SUB; ++j) {
          sum[i][j] += a[i] * b[j];
          abs_sum[i][j] += fabs(a[i]) * fabs(b[j]);
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < SUB; ++i) {
#pragma unroll
    for (int j = 0; j < SUB; ++j) {
      const long long row = m0 + thread_m + i * SIDE, col = n0 + thread_n + j * SIDE;
      if (row >= args.m || col >= args.n) continue;
      r[row * args.n + col] = static_cast<float>(sum[i][j]);
      s[row * args.n + col] = static_cast<float>(losses * abs_sum[i][j]);
    }
  }
}

// --- comparison ----------------------------------------------------------------------------------

constexpr unsigned long long NOWHERE = ~0ull;

struct Findings {
  unsigned long long wrong;
  unsigned long long first;  // row * n + col of the first wrong element, or NOWHERE
  unsigned long long
      worst_bits;  // of a double that is never negative, so that they sort as it does
};

template <class Out>
__global__ void compare_kernel(const Out* d, long long ldd, int n, long long elems, const float* r,
                               const float* s, bool exact, Findings* findings) {
  constexpr int BITS = Element<Out>::SIGNIFICAND_BITS;
  unsigned long long wrong = 0, first = NOWHERE, worst_bits = 0;
  for (long long i = first_index(); i < elems; i += index_stride()) {
    const double got = Element<Out>::to_float(d[i / n * ldd + i % n]);
    // Comparing values takes -0 for +0, and NaN for nothing.
    const bool right = exact ? got == double{Element<Out>::to_float(Element<Out>::from_float(r[i]))}
                             : within_tolerance(got, r[i], s[i], BITS);
    const double share = error_of_bound(got, r[i], s[i], BITS);
    worst_bits = max(worst_bits, static_cast<unsigned long long>(__double_as_longlong(share)));
    if (right) continue;
    ++wrong;
    first = min(first, static_cast<unsigned long long>(i));
  }
  for (int lane_step = 16; lane_step > 0; lane_step /= 2) {
    wrong += __shfl_down_sync(~0u, wrong, lane_step);
    first = min(first, __shfl_down_sync(~0u, first, lane_step));
    worst_bits = max(worst_bits, __shfl_down_sync(~0u, worst_bits, lane_step));
  }
  if (threadIdx.x % 32 != 0) return;
  atomicMax(&findings->worst_bits, worst_bits);
  if (wrong == 0) return;
  atomicAdd(&findings->wrong, wrong);
  atomicMin(&findings->first, first);
}

template <class T>
T copy_to_host(const T* device, cudaStream_t stream) {
  T value;
  check_cuda(cudaMemcpyAsync(&value, device, sizeof(T), cudaMemcpyDeviceToHost, stream),
             "copying a result from the device");
  check_cuda(cudaStreamSynchronize(stream), "waiting for the device");
  return value;
}

}  // namespace on_gpu

template <class T>
void fill_gpu(T* base, int rows, int cols, long long ld, Data data, uint64_t seed,
              cudaStream_t stream) {
  const long long elems = static_cast<long long>(rows) * cols;
  if (elems == 0) return;
  on_gpu::fill_kernel<<<on_gpu::grid_for(elems), on_gpu::THREADS, 0, stream>>>(base, cols, ld,
                                                                               elems, data, seed);
  check_cuda(cudaGetLastError(), "launching the fill kernel");
}

template <class In, class Out>
Reference reference_gpu(const MatmulArgs<In, Out>& args, int chain) {
  using namespace on_gpu;
  const long long elems = static_cast<long long>(args.m) * args.n;
  Reference reference{DeviceBuffer(elems * sizeof(float)), DeviceBuffer(elems * sizeof(float))};
  if (elems == 0) return reference;
  const int tiles_m = (args.m + TILE - 1) / TILE, tiles_n = (args.n + TILE - 1) / TILE;
  const unsigned ctas = static_cast<unsigned>(tiles_m) * static_cast<unsigned>(tiles_n);
  const double losses = Element<Out>::SIGNIFICAND_BITS <= 8 ? losses_of_chain(chain) : 1;
  reference_kernel<<<ctas, THREADS, 0, args.stream>>>(
      args, tiles_m, losses, reference.r.as<float>(), reference.s.as<float>());
  check_cuda(cudaGetLastError(), "launching the reference kernel");
  return reference;
}

template <class In, class Out>
Verdict verify_gpu(const MatmulArgs<In, Out>& args, const Reference& reference, bool exact) {
  using namespace on_gpu;
  const long long elems = static_cast<long long>(args.m) * args.n;
  Verdict verdict;
  verdict.exact = exact;
  if (elems == 0) return verdict;

  const DeviceBuffer buffer(sizeof(Findings));
  Findings* findings = buffer.as<Findings>();
  const Findings none{0, NOWHERE, 0};
  check_cuda(cudaMemcpyAsync(findings, &none, sizeof none, cudaMemcpyHostToDevice, args.stream),
             "preparing the comparison");
  compare_kernel<<<grid_for(elems), THREADS, 0, args.stream>>>(
      args.d, args.ldd, args.n, elems, reference.r.as<float>(), reference.s.as<float>(), exact,
      findings);
  check_cuda(cudaGetLastError(), "launching the comparison kernel");

  const Findings found = copy_to_host(findings, args.stream);
  verdict.wrong = static_cast<long long>(found.wrong);
  verdict.worst = std::bit_cast<double>(found.worst_bits);
  if (verdict.ok()) return verdict;
  const long long first = static_cast<long long>(found.first);
  verdict.first_row = first / args.n;
  verdict.first_col = first % args.n;
  const Out first_out =
      copy_to_host(args.d + verdict.first_row * args.ldd + verdict.first_col, args.stream);
  verdict.first_got = Element<Out>::to_float(first_out);
  verdict.first_unwritten = has_all_bits(first_out);
  verdict.first_want = copy_to_host(reference.r.as<float>() + first, args.stream);
  verdict.around = Around(verdict.first_row, verdict.first_col, args.m, args.n);
  verdict.around.fill([&](long long row, long long col) {
    const long long i = row * args.n + col;
    const float r = copy_to_host(reference.r.as<float>() + i, args.stream);
    const float s = copy_to_host(reference.s.as<float>() + i, args.stream);
    const Out got = copy_to_host(args.d + row * args.ldd + col, args.stream);
    return compared(Element<Out>::to_float(got), r, s, exact,
                    Element<Out>::to_float(Element<Out>::from_float(r)),
                    Element<Out>::SIGNIFICAND_BITS);
  });
  return verdict;
}

}  // namespace ladder
