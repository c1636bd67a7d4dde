// The kernels of silicon.h.
#include "common/host/element.h"
#include "common/host/tolerance.h"
#include "tests/gpu/silicon.h"
#include "tests/support/counting.cuh"

namespace gpu_test {
namespace {

using ladder::bf16;
using ladder_test::Counter;

__global__ void far_apart_kernel(const bf16* d, long long ldd, const bf16* c, long long ldc, int n,
                                 long long elems, const float* r, const float* s,
                                 unsigned long long* far) {
  constexpr int BITS = ladder::Element<bf16>::SIGNIFICAND_BITS;
  for (long long i = ladder_test::first_index(); i < elems; i += ladder_test::index_stride()) {
    const double got = __bfloat162float(d[i / n * ldd + i % n]);
    const double other = __bfloat162float(c[i / n * ldc + i % n]);
    const bool near = ladder::distance(got, other) <= 2 * ladder::tolerance(r[i], s[i], BITS);
    if (!near) atomicAdd(far, 1ull);
  }
}

__global__ void spin_kernel(volatile int* never) {
  while (*never == 0) {
  }
}

}  // namespace

long long far_apart(const ladder::GemmArgs& args, const ladder_test::Matrix& c,
                    const ladder::Reference& reference) {
  const Counter far;
  far_apart_kernel<<<ladder_test::CTAS, ladder_test::THREADS>>>(
      args.d, args.ldd, c.data(), c.ld(), args.n, static_cast<long long>(args.m) * args.n,
      reference.r.as<float>(), reference.s.as<float>(), far.device());
  return far.read();
}

void launch_spinning_kernel() {
  static const Counter never;
  spin_kernel<<<1, 1>>>(reinterpret_cast<volatile int*>(never.device()));
  ladder::check_cuda(cudaGetLastError(), "launching the spinning kernel");
}

}  // namespace gpu_test
