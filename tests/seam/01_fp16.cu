// A rung of the tests, for a problem that no rung of the ladder solves: fp16 in and out.
//
// Idea       one thread an element: what is tried here is the host, not the kernel. Two variants are
//            wrong on purpose, so that checks which let everything pass show. One goes through a workspace,
//            and one leaves a counter there that is not 0.
// Read       tests/seam/seam_test.py
#include <cuda_bf16.h>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/registry.h"
#include "tests/seam/fp16.h"

namespace fp16 {

using seam::Fp16Args;

enum class Result { RIGHT, ROUNDED_TO_BF16, WITHOUT_LAST_K };

// Of a CTA: BM x BN elements, one a thread.
template <int BM_, int BN_, Result RESULT_ = Result::RIGHT>
struct Tile {
  static constexpr int BM = BM_, BN = BN_, BK = 1;
  static constexpr int THREADS = BM * BN;
  static constexpr Result RESULT = RESULT_;
};

template <class T>
__global__ __launch_bounds__(T::THREADS) void gemm(Fp16Args g) {
  const long long row = static_cast<long long>(blockIdx.x) * T::BM + threadIdx.x / T::BN;
  const long long col = static_cast<long long>(blockIdx.y) * T::BN + threadIdx.x % T::BN;
  if (row >= g.m || col >= g.n) return;
  float sum = 0;
  const int k = T::RESULT == Result::WITHOUT_LAST_K ? g.k - 1 : g.k;
  for (int i = 0; i < k; ++i) {
    sum += __half2float(g.a[row * g.lda + i]) * __half2float(g.b[col * g.ldb + i]);
  }
  if (T::RESULT == Result::ROUNDED_TO_BF16) sum = __bfloat162float(__float2bfloat16_rn(sum));
  g.d[row * g.ldd + col] = __float2half_rn(sum);
}

template <class T>
void launch(const Fp16Args& g) {
  const dim3 grid((g.m + T::BM - 1) / T::BM, (g.n + T::BN - 1) / T::BN);
  gemm<T><<<grid, T::THREADS, 0, g.stream>>>(g);
  ladder::check_cuda(cudaGetLastError(), "launch of fp16::gemm");
}

// Each CTA takes tile after tile. Its sums wait in the workspace, a float a thread; it counts itself,
// which makes the counter 0 again, once or, if LEFT, twice, which does not.
template <class T, bool LEFT>
__global__ __launch_bounds__(T::THREADS) void gemm_through_workspace(Fp16Args g, unsigned* counter,
                                                                     volatile float* scratch) {
  const int tiles_n = (g.n + T::BN - 1) / T::BN, tiles = (g.m + T::BM - 1) / T::BM * tiles_n;
  const int at = blockIdx.x * T::THREADS + threadIdx.x;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const long long row = static_cast<long long>(tile) / tiles_n * T::BM + threadIdx.x / T::BN;
    const long long col = static_cast<long long>(tile) % tiles_n * T::BN + threadIdx.x % T::BN;
    if (row >= g.m || col >= g.n) continue;
    scratch[at] = 0;
    for (int i = 0; i < g.k; ++i) {
      scratch[at] =
          scratch[at] + __half2float(g.a[row * g.lda + i]) * __half2float(g.b[col * g.ldb + i]);
    }
    g.d[row * g.ldd + col] = __float2half_rn(scratch[at]);
  }
  if (threadIdx.x == 0) atomicInc(counter, gridDim.x - 1);
  if (LEFT && blockIdx.x == 0 && threadIdx.x == 0) atomicAdd(counter + 1, 1);
}

template <class T, bool LEFT>
void launch_through_workspace(const Fp16Args& g) {
  char* const workspace = static_cast<char*>(g.workspace);
  const int ctas = g.max_ctas > 0 ? g.max_ctas : ladder::sm_count();
  gemm_through_workspace<T, LEFT><<<ctas, T::THREADS, 0, g.stream>>>(
      g, reinterpret_cast<unsigned*>(workspace),
      reinterpret_cast<float*>(workspace + ladder::WORKSPACE_COUNTER_BYTES));
  ladder::check_cuda(cudaGetLastError(), "launch of fp16::gemm_through_workspace");
}

template <class T, bool LEFT>
ladder::Variant through_workspace(const char* name, const char* what) {
  return {.name = name,
          .what = what,
          .kernel = {.launch = launch_through_workspace<T, LEFT>,
                     .function = reinterpret_cast<const void*>(gemm_through_workspace<T, LEFT>),
                     .bm = T::BM,
                     .bn = T::BN,
                     .bk = T::BK,
                     .depth = 1,
                     .threads = T::THREADS,
                     .workspace_bytes = T::THREADS * int{sizeof(float)},
                     .persistent = true,
                     .simt = true}};
}

// Whatever the shape.
template <int US>
ladder::Variant predicted(ladder::Variant variant) {
  variant.predicted_us = +[](const Fp16Args&) { return double{US}; };
  return variant;
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
                     .simt = true}};
}

static const ladder::Registrar registrar(
    __FILE__, "the host takes another problem",
    {predicted<2>(variant<Tile<8, 32>>("8x32", "8x32 elements a CTA").as_result()),
     variant<Tile<4, 64>>("4x64", "4x64 elements a CTA"),
     predicted<1>(through_workspace<Tile<8, 32>, false>("workspace", "sums in a workspace")),
     through_workspace<Tile<8, 32>, true>("left", "wrong: leaves a counter that is not 0"),
     variant<Tile<8, 32, Result::ROUNDED_TO_BF16>>("rounded", "wrong: rounded to bf16 first"),
     variant<Tile<8, 32, Result::WITHOUT_LAST_K>>("short", "wrong: leaves out the last of K")});

}  // namespace fp16
