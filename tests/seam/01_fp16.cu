// A rung of the tests, for a problem that no rung of the ladder solves: fp16 in and out.
//
// Idea       one thread an element: what is tried here is the host, not the kernel. Two variants are
//            wrong on purpose, so that checks which let everything pass show.
// Read       tests/seam/seam_test.py
#include <cuda_bf16.h>

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
    {variant<Tile<8, 32>>("8x32", "8x32 elements a CTA").as_result(),
     variant<Tile<4, 64>>("4x64", "4x64 elements a CTA"),
     variant<Tile<8, 32, Result::ROUNDED_TO_BF16>>("rounded", "wrong: rounded to bf16 first"),
     variant<Tile<8, 32, Result::WITHOUT_LAST_K>>("short", "wrong: leaves out the last of K")});

}  // namespace fp16
