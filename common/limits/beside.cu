// What CUDA cores and tensor cores of an SM leave each other: two warpgroups multiply, and a third adds
// numbers or promotes sums (rung 14).
#include <cmath>
#include <cstring>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/text.h"
#include "common/limits/limit.h"
#include "common/limits/operand.h"
#include "common/limits/stamp.cuh"
#include "common/ptx/barrier.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/fma.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/descriptor.h"

namespace limits {

using ladder::check_cuda;
using ladder::Data;
using ladder::DeviceBuffer;

constexpr int THREADS = 384, MULTIPLIERS = 256;  // the third warpgroup adds
constexpr int N = 128, BK = 64;                  // of a tile; each warpgroup: 64 x N
constexpr int TILES = 4;                         // of K, that a pass multiplies: 16 wgmma
constexpr int CHAINS = 32, REPEATS = 16;         // of a pass: sums of a thread, additions to each
constexpr uint32_t ONES = 0x3f803f80;            // two bf16
constexpr int PHASES = 8;                        // passes, after which numbers come again

enum class Adds { fma, promotion };
// Whose work, and whether beside the other's.
enum class Counts { wgmma_beside, adding, adding_beside };

struct alignas(1024) BesideSmem {
  unsigned char a[2][64 * BK * 2];  // A [2][64][64] bf16
  unsigned char b[N * BK * 2];      // B [N][64] bf16
  uint64_t over;                    // one arrival: passes are done
};

// sum = number · FACTOR + step. The number is the sum itself, or its bits as an s32, as rung 14 has them.
template <Adds ADDS>
constexpr float FACTOR = ADDS == Adds::fma ? 1 : 1.0F / 256;  // a step of 1 is not rounded away

template <Adds ADDS>
__host__ __device__ inline float number_of(float sum) {
  if (ADDS == Adds::fma) return sum;
#ifdef __CUDA_ARCH__
  return static_cast<float>(__float_as_int(sum));
#else
  int bits;
  std::memcpy(&bits, &sum, sizeof bits);
  return static_cast<float>(bits);
#endif
}

// What a pass adds: a thread's own, and not the same in two passes that follow each other. Promoted bits
// forget what came before (a float's bits change less than it does), so that their check sees the last
// pass alone: whether it is the right one of PHASES.
__host__ __device__ inline float step_of(int thread, int pass) {
  return static_cast<float>(1 + thread % 3 + pass % PHASES);
}

// Who COUNTS does `passes` passes. The others go on until then. Operands are ones, in any layout.
// d [ctas][THREADS]: a thread's accumulators or sums, added up.
template <Adds ADDS, Counts COUNTS>
__global__ __launch_bounds__(THREADS, 1) void beside_rate(float factor, int passes, float* d,
                                                          Stamp* stamps) {
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  BesideSmem& smem = *reinterpret_cast<BesideSmem*>(smem_bytes);
  const bool multiplies = threadIdx.x < MULTIPLIERS;
  const bool counts = multiplies == (COUNTS == Counts::wgmma_beside);
  for (int at = threadIdx.x * 16; at < offsetof(BesideSmem, over); at += THREADS * 16) {
    ptx::st_shared_v4_b32(smem_bytes + at, {ONES, ONES, ONES, ONES});
  }
  ptx::fence_proxy_async_shared_cta();  // before wgmma reads them
  if (threadIdx.x == 0) ptx::mbarrier_init(&smem.over, 1);
  ptx::bar_sync();

  const int own_threads = multiplies ? MULTIPLIERS : THREADS - MULTIPLIERS;
  const auto goes_on = [&](int pass) {  // all threads of a role agree
    if (counts) return pass < passes;
    const bool over = ptx::mbarrier_test_wait_parity(&smem.over, 0);
    return !ptx::barrier_red_or(1 + multiplies, own_threads, over);
  };
  const bool leads = threadIdx.x == (COUNTS == Counts::wgmma_beside ? 0 : MULTIPLIERS);
  if (leads) stamp(stamps, 0);

  float total = 0;
  if (multiplies && COUNTS != Counts::adding) {
    float acc[N / 2] = {};
    const uint64_t a_desc = tile::k_major_128b(ptx::cvta_to_shared(smem.a[threadIdx.x / 128]));
    const uint64_t b_desc = tile::k_major_128b(ptx::cvta_to_shared(smem.b));
    for (int pass = 0; goes_on(pass); ++pass) {
#pragma unroll
      for (int i = 0; i < TILES; ++i) {
        ptx::wgmma_fence();
#pragma unroll
        for (int kk = 0; kk < BK / 16; ++kk) {
          ptx::wgmma_m64k16<N>(acc, tile::advance(a_desc, kk * 32), tile::advance(b_desc, kk * 32),
                               true);
        }
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<1>();  // the next products are issued while these run
      }
    }
    ptx::wgmma_wait_group<0>();
    for (float& value : acc) {
      asm volatile("" : "+f"(value));  // not read before the wait, which is volatile too
      total += value;
    }
  } else if (!multiplies) {
    float sum[CHAINS];
    for (int i = 0; i < CHAINS; ++i) sum[i] = static_cast<float>(i);
    for (int pass = 0; goes_on(pass); ++pass) {
      const float step = step_of(threadIdx.x, pass);
#pragma unroll 4
      for (int repeat = 0; repeat < REPEATS; ++repeat) {
#pragma unroll
        for (float& value : sum) value = ptx::fma_rn_f32(number_of<ADDS>(value), factor, step);
      }
    }
    for (const float value : sum) total += value;
  }
  if (leads) {
    stamp(stamps, 1);
    ptx::mbarrier_arrive(&smem.over);
  }
  d[blockIdx.x * THREADS + threadIdx.x] = total;
}

template <Adds ADDS, Counts COUNTS>
class BesideLimit : public Limit {
 public:
  BesideLimit() : d_(static_cast<size_t>(ctas()) * THREADS * sizeof(float)) {
    check_cuda(cudaFuncSetAttribute(beside_rate<ADDS, COUNTS>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, ALONE_BYTES),
               "shared memory of a limit's kernel");
  }

  int ctas() const override { return ladder::sm_count(); }

  double work(int passes) const override {
    const double of_pass = COUNTS == Counts::wgmma_beside
                               ? MULTIPLIERS / 128 * TILES * (BK / 16) * 2.0 * 64 * N * 16
                               : (THREADS - MULTIPLIERS) * CHAINS * REPEATS * 2.0;
    return of_pass * passes * ctas();
  }

  void launch(int passes, Stamp* stamps, cudaStream_t stream) override {
    beside_rate<ADDS, COUNTS>
        <<<ctas(), THREADS, ALONE_BYTES, stream>>>(FACTOR<ADDS>, passes, d_.as<float>(), stamps);
    check_cuda(cudaGetLastError(), "launch of limits::beside_rate");
  }

  std::string check(int passes, Stamp* stamps, cudaStream_t stream) override {
    poison(d_, stream);
    launch(passes, stamps, stream);
    const std::vector<float> d = download<float>(d_, stream);
    const bool wgmma = COUNTS == Counts::wgmma_beside;
    const int first = wgmma ? 0 : MULTIPLIERS, last = wgmma ? MULTIPLIERS : THREADS;
    float wanted[3];  // of a thread's number % 3
    for (int i = 0; i < 3; ++i) wanted[i] = wgmma ? of_products(passes) : of_sums(i, passes);
    for (size_t i = 0; i < d.size(); ++i) {
      const int thread = static_cast<int>(i % THREADS);
      if (thread < first || thread >= last || d[i] == wanted[thread % 3]) continue;
      return ladder::format("CTA %zu, thread %d: %g, not %g", i / THREADS, thread,
                            static_cast<double>(d[i]), static_cast<double>(wanted[thread % 3]));
    }
    return "";
  }

 private:
  // Of ones: exact, with fewer passes than 2^24 / (N / 2) / (TILES * BK) = 1024, and as the GPU
  // rounds beyond.
  static float of_products(int passes) {
    const float one_of_them = static_cast<float>(passes) * TILES * BK;
    float total = 0;
    for (int i = 0; i < N / 2; ++i) total += one_of_them;
    return total;
  }

  static float of_sums(int thread, int passes) {
    float total = 0;
    for (int i = 0; i < CHAINS; ++i) {
      auto sum = static_cast<float>(i);
      for (int pass = 0; pass < passes; ++pass) {
        for (int repeat = 0; repeat < REPEATS; ++repeat) {
          sum = std::fma(number_of<ADDS>(sum), FACTOR<ADDS>, step_of(thread, pass));
        }
      }
      total += sum;
    }
    return total;
  }

  static constexpr int ALONE_BYTES = 120 * 1024;  // shared memory of which an SM has no two
  DeviceBuffer d_;                                // float [ctas][THREADS]
};

template <Adds ADDS, Counts COUNTS>
Entry entry(const char* name, const char* what) {
  return {name,
          what,
          Group::tensor,
          Data::ints,
          reinterpret_cast<const void*>(beside_rate<ADDS, COUNTS>),
          [](cudaStream_t) { return std::make_unique<BesideLimit<ADDS, COUNTS>>(); }};
}

std::vector<Entry> beside_limits() {
  return {
      entry<Adds::fma, Counts::adding>("fma_1wg", "fma.rn.f32, one warpgroup"),
      entry<Adds::fma, Counts::adding_beside>("fma_beside_wgmma", "the same, while two multiply"),
      entry<Adds::promotion, Counts::adding>("promote_1wg",
                                             "cvt.rn.f32.s32 and fma, one warpgroup"),
      entry<Adds::promotion, Counts::adding_beside>("promote_beside_wgmma",
                                                    "the same, while two multiply"),
      entry<Adds::fma, Counts::wgmma_beside>("wgmma_beside_fma",
                                             "wgmma m64n128k16 of two, while one does fma"),
      entry<Adds::promotion, Counts::wgmma_beside>("wgmma_beside_promote",
                                                   "the same, while one does cvt and fma"),
  };
}

}  // namespace limits
