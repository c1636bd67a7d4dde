// What one SM can do with operands that are in place: tensor cores, fma, and shared memory.
#include <algorithm>
#include <climits>
#include <cmath>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/tensor_map.h"
#include "common/host/text.h"
#include "common/limits/limit.h"
#include "common/limits/operand.h"
#include "common/limits/stamp.cuh"
#include "common/ptx/barrier.cuh"
#include "common/ptx/fma.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/mma.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/ptx/wgmma_rs.cuh"
#include "common/tile/descriptor.h"
#include "common/tile/fragment.h"
#include "common/tile/swizzle.h"

namespace limits {

using ladder::bf16;
using ladder::check_cuda;
using ladder::Data;
using ladder::DeviceBuffer;

// Accumulators begin anew after this many products along K, as in a GEMM with K = 8192: sums that
// grew without end would lose the low bits of the products, and with them some of the power.
constexpr int RESET_K = 8192;
constexpr int NEVER = INT_MAX;
constexpr int ALONE_BYTES = 120 * 1024;        // shared memory of which an SM has no two
constexpr double LARGEST_EXACT_SUM = 1 << 24;  // every whole number up to it is an fp32
constexpr uint64_t SEED = 1;

template <class Kernel>
void allow_smem(Kernel* kernel, int bytes) {
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
             "shared memory of a limit's kernel");
}

// --- A · B^T, all operands resident --------------------------------------------------------------

std::vector<double> values(const Operand& operand, int rows, int cols) {
  std::vector<double> values;
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      values.push_back(static_cast<double>(__bfloat162float(operand.element(row, col))));
    }
  }
  return values;
}

// passes · (A · B^T) is what a kernel that never begins anew must leave in every CTA's D. On whole
// numbers that is exact, and a pass more or less is seen.
std::string compare_products(const std::vector<float>& d, const Operand& a, const Operand& b, int m,
                             int n, int k, int k_of_a, int passes) {
  const std::vector<double> left = values(a, m, k), right = values(b, n, k);
  std::vector<double> product;  // [m][n]
  double largest = 0;
  for (int row = 0; row < m; ++row) {
    for (int col = 0; col < n; ++col) {
      double sum = 0;
      for (int i = 0; i < k; ++i) sum += left[row * k + i % k_of_a] * right[col * k + i];
      product.push_back(sum * passes);
      largest = std::max(largest, std::fabs(sum) * (passes + 1));
    }
  }
  if (largest > LARGEST_EXACT_SUM) {
    return ladder::format("%d passes cannot be checked: sums up to %.0f are not exact", passes,
                          largest);
  }
  for (size_t i = 0; i < d.size(); ++i) {
    const double want = product[i % product.size()];
    if (static_cast<double>(d[i]) == want) continue;
    return ladder::format("CTA %zu: D[%zu][%zu] is %g, not %g", i / product.size(),
                          i % product.size() / n, i % n, static_cast<double>(d[i]), want);
  }
  return "";
}

// --- wgmma ---------------------------------------------------------------------------------------

template <int N_, int GROUPS_, bool A_IN_REGISTERS_>
struct WgmmaTile {
  static constexpr int N = N_, GROUPS = GROUPS_;           // each warpgroup: 64 x N
  static constexpr bool A_IN_REGISTERS = A_IN_REGISTERS_;  // else both from shared memory
  static constexpr int M = 64 * GROUPS, BK = 64;           // of a CTA
  static constexpr int SLOTS = 4;                          // tiles of operands that take turns
  static constexpr int K = SLOTS * BK;                     // of a pass
  static constexpr int K_OF_A = A_IN_REGISTERS ? BK : K;   // registers hold one tile of A
  static constexpr int THREADS = GROUPS * 128;
  static constexpr int TX_BYTES = SLOTS * (M + N) * BK * 2;
};

template <class T>
struct alignas(1024) WgmmaSmem {
  unsigned char a[T::SLOTS][T::M * T::BK * 2];  // A [SLOTS][M][64] bf16, 128-byte swizzle
  unsigned char b[T::SLOTS][T::N * T::BK * 2];  // B [SLOTS][N][64] bf16, 128-byte swizzle
  uint64_t full;                                // one arrival, and TX_BYTES
};

// wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16  d, {a0, a1, a2, a3}, b_desc, ...;
// A [64][16] in the warpgroup's registers. No rung uses it with this N, so it is no wrapper of
// common/ptx.
__device__ inline void wgmma_m64n256k16_a_in_registers(float (&d)[128], const uint32_t (&a)[4],
                                                       uint64_t b_desc, bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %133, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_127
      "},\n"
      "  {%128, %129, %130, %131}, %132, p, 1, 1, 0; }"
      : ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC32(d, 96)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

// A pass multiplies every slot once: SLOTS * 4 wgmma a warpgroup. Accumulators begin anew every
// `period` passes. d [ctas][M][N].
template <class T>
__global__ __launch_bounds__(T::THREADS,
                             1) void wgmma_rate(const __grid_constant__ CUtensorMap map_a,
                                                const __grid_constant__ CUtensorMap map_b,
                                                int passes, int period, float* d, Stamp* stamps) {
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  WgmmaSmem<T>& smem = *reinterpret_cast<WgmmaSmem<T>*>(smem_bytes);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&smem.full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&smem.full, T::TX_BYTES);
    for (int slot = 0; slot < T::SLOTS; ++slot) {
      ptx::cp_async_bulk_tensor_2d_g2s(smem.a[slot], &map_a, slot * T::BK, 0, &smem.full);
      ptx::cp_async_bulk_tensor_2d_g2s(smem.b[slot], &map_b, slot * T::BK, 0, &smem.full);
    }
  }
  ptx::bar_sync();  // before the other threads wait on it
  ptx::mbarrier_wait(&smem.full, 0);

  const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  uint32_t a_frag[T::BK / 16][4] = {};  // A [64][64] of the warpgroup, if it is in registers
  if constexpr (T::A_IN_REGISTERS) {
    for (int kk = 0; kk < T::BK / 16; ++kk) {
      const int row = group * 64 + warp * 16 + tile::ldmatrix_a_row(lane);
      ptx::ldmatrix_x4(a_frag[kk],
                       smem.a[0] + tile::swizzle_128b(row, kk * 2 + tile::ldmatrix_a_chunk(lane)));
    }
  }
  float acc[T::N / 2];  // D [64][N] of the warpgroup
  ptx::bar_sync();
  if (threadIdx.x == 0) stamp(stamps, 0);

  for (int pass = 0; pass < passes; ++pass) {
    const bool anew = pass % period == 0;
#pragma unroll
    for (int slot = 0; slot < T::SLOTS; ++slot) {
      const unsigned char* a = &smem.a[slot][group * 64 * T::BK * 2];
      const uint64_t a_desc = tile::k_major_128b(ptx::cvta_to_shared(a));
      const uint64_t b_desc = tile::k_major_128b(ptx::cvta_to_shared(smem.b[slot]));
      ptx::wgmma_fence();
#pragma unroll
      for (int kk = 0; kk < T::BK / 16; ++kk) {
        const bool accumulate = slot > 0 || kk > 0 || !anew;
        if constexpr (T::A_IN_REGISTERS && T::N == 256) {
          wgmma_m64n256k16_a_in_registers(acc, a_frag[kk], tile::advance(b_desc, kk * 32),
                                          accumulate);
        } else if constexpr (T::A_IN_REGISTERS) {
          ptx::wgmma_rs_m64k16<T::N>(acc, a_frag[kk], tile::advance(b_desc, kk * 32), accumulate);
        } else {
          ptx::wgmma_m64k16<T::N>(acc, tile::advance(a_desc, kk * 32),
                                  tile::advance(b_desc, kk * 32), accumulate);
        }
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();  // the next slot's products are issued while these run
    }
  }
  ptx::wgmma_wait_group<0>();
  ptx::bar_sync();
  if (threadIdx.x == 0) stamp(stamps, 1);

  float* mine = d + (static_cast<long long>(blockIdx.x) * T::M + group * 64 + warp * 16) * T::N;
#pragma unroll
  for (int j = 0; j < T::N / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      mine[tile::acc_row(lane, i / 2) * T::N + j * 8 + tile::acc_col(lane) + i % 2] =
          acc[j * 4 + i];
    }
  }
}

template <class T>
class WgmmaLimit : public Limit {
 public:
  // work() counts what the products read from shared memory, or else their FLOP.
  WgmmaLimit(Data data, bool count_bytes, cudaStream_t stream)
      : count_bytes_(count_bytes),
        a_(T::M, T::K, data, SEED, stream),
        b_(T::N, T::K, data, SEED + 1, stream),
        whole_a_(T::M, T::K, Data::ints, SEED, stream),
        whole_b_(T::N, T::K, Data::ints, SEED + 1, stream),
        d_(static_cast<size_t>(ctas()) * T::M * T::N * sizeof(float)) {
    allow_smem(wgmma_rate<T>, sizeof(WgmmaSmem<T>));
  }

  int ctas() const override { return ladder::sm_count(); }

  double work(int passes) const override {
    const double wgmmas = static_cast<double>(passes) * ctas() * T::GROUPS * (T::K / 16);
    return wgmmas * (count_bytes_ ? (64 + T::N) * 16 * 2 : 2.0 * 64 * T::N * 16);
  }

  void launch(int passes, Stamp* stamps, cudaStream_t stream) override {
    start(a_, b_, passes, RESET_K / T::K, stamps, stream);
  }

  std::string check(int passes, Stamp* stamps, cudaStream_t stream) override {
    poison(d_, stream);
    start(whole_a_, whole_b_, passes, NEVER, stamps, stream);
    return compare_products(download<float>(d_, stream), whole_a_, whole_b_, T::M, T::N, T::K,
                            T::K_OF_A, passes);
  }

 private:
  void start(const Operand& a, const Operand& b, int passes, int period, Stamp* stamps,
             cudaStream_t stream) {
    const CUtensorMap map_a = ladder::tensor_map_2d(a.get(), T::M, T::K, T::K, T::M, T::BK);
    const CUtensorMap map_b = ladder::tensor_map_2d(b.get(), T::N, T::K, T::K, T::N, T::BK);
    wgmma_rate<T><<<ctas(), T::THREADS, sizeof(WgmmaSmem<T>), stream>>>(
        map_a, map_b, passes, period, d_.as<float>(), stamps);
    check_cuda(cudaGetLastError(), "launch of limits::wgmma_rate");
  }

  bool count_bytes_;
  Operand a_, b_;              // what is timed
  Operand whole_a_, whole_b_;  // whole numbers, for the check
  DeviceBuffer d_;             // float [ctas][M][N]
};

// --- mma.sync ------------------------------------------------------------------------------------

constexpr int MMA_WARPS = 8, MMA_SIDE = 64, MMA_K = 16;  // each warp: 64 x 64, 16 of K a pass

// A pass is 32 mma.sync a warp. a [MMA_WARPS * 64][16], b [64][16], d [ctas][MMA_WARPS * 64][64].
__global__ __launch_bounds__(MMA_WARPS * 32, 1) void mma_rate(const bf16* a, const bf16* b,
                                                              int passes, int period, float* d,
                                                              Stamp* stamps) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t a_frag[MMA_SIDE / 16][4], b_frag[MMA_SIDE / 8][2];
  const auto word = [&](const bf16* matrix, int row, int half) {  // two elements along K
    const int col = tile::acc_col(lane) + 8 * half;
    return *reinterpret_cast<const uint32_t*>(matrix + row * MMA_K + col);
  };
#pragma unroll
  for (int i = 0; i < MMA_SIDE / 16; ++i) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int row = warp * MMA_SIDE + i * 16 + tile::acc_row(lane, part % 2);
      a_frag[i][part] = word(a, row, part / 2);
    }
  }
#pragma unroll
  for (int j = 0; j < MMA_SIDE / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) b_frag[j][half] = word(b, j * 8 + lane / 4, half);
  }
  float acc[MMA_SIDE / 16][MMA_SIDE / 8][4];  // D [64][64] of the warp, as 16x8 blocks
  ptx::bar_sync();
  if (threadIdx.x == 0) stamp(stamps, 0);

  for (int pass = 0; pass < passes;) {
#pragma unroll
    for (auto& row : acc) {
#pragma unroll
      for (auto& block : row) {
#pragma unroll
        for (float& value : block) value = 0;
      }
    }
    for (const int end = pass + min(period, passes - pass); pass < end; ++pass) {
#pragma unroll
      for (int i = 0; i < MMA_SIDE / 16; ++i) {
#pragma unroll
        for (int j = 0; j < MMA_SIDE / 8; ++j) {
          ptx::mma_m16n8k16(acc[i][j], a_frag[i], b_frag[j][0], b_frag[j][1]);
        }
      }
    }
  }
  ptx::bar_sync();
  if (threadIdx.x == 0) stamp(stamps, 1);

  float* mine = d + (static_cast<long long>(blockIdx.x) * MMA_WARPS + warp) * MMA_SIDE * MMA_SIDE;
#pragma unroll
  for (int i = 0; i < MMA_SIDE / 16; ++i) {
#pragma unroll
    for (int j = 0; j < MMA_SIDE / 8; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = i * 16 + tile::acc_row(lane, r / 2);
        mine[row * MMA_SIDE + j * 8 + tile::acc_col(lane) + r % 2] = acc[i][j][r];
      }
    }
  }
}

class MmaLimit : public Limit {
 public:
  MmaLimit(Data data, cudaStream_t stream)
      : a_(M, MMA_K, data, SEED, stream),
        b_(MMA_SIDE, MMA_K, data, SEED + 1, stream),
        whole_a_(M, MMA_K, Data::ints, SEED, stream),
        whole_b_(MMA_SIDE, MMA_K, Data::ints, SEED + 1, stream),
        d_(static_cast<size_t>(ctas()) * M * MMA_SIDE * sizeof(float)) {
    allow_smem(mma_rate, ALONE_BYTES);
  }

  int ctas() const override { return ladder::sm_count(); }

  double work(int passes) const override {
    return static_cast<double>(passes) * ctas() * 2.0 * M * MMA_SIDE * MMA_K;
  }

  void launch(int passes, Stamp* stamps, cudaStream_t stream) override {
    start(a_, b_, passes, RESET_K / MMA_K, stamps, stream);
  }

  std::string check(int passes, Stamp* stamps, cudaStream_t stream) override {
    poison(d_, stream);
    start(whole_a_, whole_b_, passes, NEVER, stamps, stream);
    return compare_products(download<float>(d_, stream), whole_a_, whole_b_, M, MMA_SIDE, MMA_K,
                            MMA_K, passes);
  }

 private:
  static constexpr int M = MMA_WARPS * MMA_SIDE;

  void start(const Operand& a, const Operand& b, int passes, int period, Stamp* stamps,
             cudaStream_t stream) {
    mma_rate<<<ctas(), MMA_WARPS * 32, ALONE_BYTES, stream>>>(a.get(), b.get(), passes, period,
                                                              d_.as<float>(), stamps);
    check_cuda(cudaGetLastError(), "launch of limits::mma_rate");
  }

  Operand a_, b_, whole_a_, whole_b_;
  DeviceBuffer d_;
};

// --- fma on the CUDA cores -----------------------------------------------------------------------

constexpr int FMA_THREADS = 1024, FMA_CHAINS = 16, FMA_REPEATS = 4;

// A pass is FMA_REPEATS fma on each of FMA_CHAINS sums a thread. d [ctas][FMA_THREADS]: the sums'
// total, each of which began with its number.
__global__ __launch_bounds__(FMA_THREADS, 1) void fma_rate(float one, int passes, float* d,
                                                           Stamp* stamps) {
  float sum[FMA_CHAINS];
  for (int i = 0; i < FMA_CHAINS; ++i) sum[i] = static_cast<float>(i);
  const float step = static_cast<float>(1 + threadIdx.x % 3);
  ptx::bar_sync();
  if (threadIdx.x == 0) stamp(stamps, 0);

  for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
    for (int repeat = 0; repeat < FMA_REPEATS; ++repeat) {
#pragma unroll
      for (float& value : sum) value = ptx::fma_rn_f32(value, one, step);
    }
  }
  ptx::bar_sync();
  if (threadIdx.x == 0) stamp(stamps, 1);

  float total = 0;
  for (const float value : sum) total += value;
  d[blockIdx.x * FMA_THREADS + threadIdx.x] = total;
}

class FmaLimit : public Limit {
 public:
  explicit FmaLimit(cudaStream_t) : d_(static_cast<size_t>(ctas()) * FMA_THREADS * sizeof(float)) {
    allow_smem(fma_rate, ALONE_BYTES);
  }

  int ctas() const override { return ladder::sm_count(); }

  double work(int passes) const override {
    return static_cast<double>(passes) * ctas() * FMA_THREADS * FMA_CHAINS * FMA_REPEATS * 2;
  }

  void launch(int passes, Stamp* stamps, cudaStream_t stream) override {
    fma_rate<<<ctas(), FMA_THREADS, ALONE_BYTES, stream>>>(1, passes, d_.as<float>(), stamps);
    check_cuda(cudaGetLastError(), "launch of limits::fma_rate");
  }

  std::string check(int passes, Stamp* stamps, cudaStream_t stream) override {
    poison(d_, stream);
    launch(passes, stamps, stream);
    const std::vector<float> d = download<float>(d_, stream);
    for (size_t i = 0; i < d.size(); ++i) {
      const auto step = static_cast<double>(1 + i % FMA_THREADS % 3);
      const double begun = FMA_CHAINS * (FMA_CHAINS - 1) / 2.0;
      const double want = begun + step * FMA_CHAINS * FMA_REPEATS * passes;
      // Each sum is exact, their total is one of 16 numbers that may round: 2^-20 is generous.
      if (std::fabs(static_cast<double>(d[i]) - want) <= std::ldexp(want, -20)) continue;
      return ladder::format("CTA %zu, thread %zu: %g, not %g", i / FMA_THREADS, i % FMA_THREADS,
                            static_cast<double>(d[i]), want);
    }
    return "";
  }

 private:
  DeviceBuffer d_;  // float [ctas][FMA_THREADS]
};

// --- ldmatrix ------------------------------------------------------------------------------------

constexpr int LD_WARPS = 16, LD_ROWS = 64, LD_COLS = 64;  // there are as many tiles as warps
constexpr int LD_BOX_ROWS = 256, LD_BOXES = LD_WARPS * LD_ROWS / LD_BOX_ROWS;
constexpr int LD_MATRICES = LD_ROWS / 16 * (LD_COLS / 16);  // ldmatrix.x4 a pass and warp
constexpr int LD_TX_BYTES = LD_BOXES * LD_BOX_ROWS * LD_COLS * 2;

struct alignas(1024) LdSmem {
  unsigned char tile[LD_WARPS][LD_ROWS * LD_COLS * 2];  // [64][64] bf16, 128-byte swizzle
  uint64_t full;
};

// A pass reads one tile a warp, the next pass its neighbour's: ptxas takes loads of the same words
// out of the loop. sums [ctas][LD_WARPS][32]: what each lane got, added up.
__global__ __launch_bounds__(LD_WARPS * 32,
                             1) void ldmatrix_rate(const __grid_constant__ CUtensorMap map,
                                                   int passes, uint32_t* sums, Stamp* stamps) {
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  LdSmem& smem = *reinterpret_cast<LdSmem*>(smem_bytes);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&smem.full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&smem.full, LD_TX_BYTES);
    for (int box = 0; box < LD_BOXES; ++box) {
      ptx::cp_async_bulk_tensor_2d_g2s(smem.tile[box * LD_BOX_ROWS / LD_ROWS], &map, 0,
                                       box * LD_BOX_ROWS, &smem.full);
    }
  }
  ptx::bar_sync();  // before the other threads wait on it
  ptx::mbarrier_wait(&smem.full, 0);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t sum[4] = {};
  ptx::bar_sync();
  if (threadIdx.x == 0) stamp(stamps, 0);

  for (int pass = 0; pass < passes; ++pass) {
    const unsigned char* tile = smem.tile[(warp + pass) % LD_WARPS];
#pragma unroll
    for (int i = 0; i < LD_MATRICES; ++i) {
      const int row = i / 4 * 16 + tile::ldmatrix_a_row(lane);
      uint32_t got[4];
      ptx::ldmatrix_x4(got,
                       tile + tile::swizzle_128b(row, i % 4 * 2 + tile::ldmatrix_a_chunk(lane)));
#pragma unroll
      for (int part = 0; part < 4; ++part) sum[part] += got[part];
    }
  }
  ptx::bar_sync();
  if (threadIdx.x == 0) stamp(stamps, 1);
  // Weighted, so that matrices in each other's place are seen.
  sums[blockIdx.x * LD_WARPS * 32 + threadIdx.x] = sum[0] + 3 * sum[1] + 5 * sum[2] + 7 * sum[3];
}

class LdmatrixLimit : public Limit {
 public:
  LdmatrixLimit(Data data, cudaStream_t stream)
      : tiles_(LD_WARPS * LD_ROWS, LD_COLS, data, SEED, stream),
        sums_(static_cast<size_t>(ctas()) * LD_WARPS * 32 * sizeof(uint32_t)) {
    allow_smem(ldmatrix_rate, sizeof(LdSmem));
  }

  int ctas() const override { return ladder::sm_count(); }

  double work(int passes) const override {  // 32 lanes, four words each
    return static_cast<double>(passes) * ctas() * LD_WARPS * LD_MATRICES * 32 * 16;
  }

  void launch(int passes, Stamp* stamps, cudaStream_t stream) override {
    const CUtensorMap map = ladder::tensor_map_2d(tiles_.get(), LD_WARPS * LD_ROWS, LD_COLS,
                                                  LD_COLS, LD_BOX_ROWS, LD_COLS);
    ldmatrix_rate<<<ctas(), LD_WARPS * 32, sizeof(LdSmem), stream>>>(map, passes,
                                                                     sums_.as<uint32_t>(), stamps);
    check_cuda(cudaGetLastError(), "launch of limits::ldmatrix_rate");
  }

  std::string check(int passes, Stamp* stamps, cudaStream_t stream) override {
    poison(sums_, stream);
    launch(passes, stamps, stream);
    const std::vector<uint32_t> sums = download<uint32_t>(sums_, stream);
    const std::vector<uint32_t> of_passes = sums_of(passes);
    for (size_t i = 0; i < sums.size(); ++i) {
      const uint32_t want = of_passes[i % of_passes.size()];
      if (sums[i] == want) continue;
      return ladder::format("CTA %zu, thread %zu: its words add up to %u, not %u",
                            i / (LD_WARPS * 32), i % (LD_WARPS * 32), sums[i], want);
    }
    return "";
  }

 private:
  // What a lane reads of a tile. Lane l gets two elements of row l / 4 of each 8x8 matrix; the four
  // of an ldmatrix are the left half of a 16x16 block, upper and lower, then its right half.
  uint32_t sum_of_tile(int tile, int lane) const {
    uint32_t sum = 0;
    for (int i = 0; i < LD_MATRICES; ++i) {
      for (int part = 0; part < 4; ++part) {
        const int row = tile * LD_ROWS + i / 4 * 16 + part % 2 * 8 + lane / 4;
        const int col = i % 4 * 16 + part / 2 * 8 + lane % 4 * 2;
        sum += static_cast<uint32_t>(2 * part + 1) * tiles_.word(row, col);
      }
    }
    return sum;
  }

  // Of each thread of a CTA.
  std::vector<uint32_t> sums_of(int passes) const {
    std::vector<uint32_t> sums(LD_WARPS * 32, 0);
    for (int tile = 0; tile < LD_WARPS; ++tile) {
      for (int lane = 0; lane < 32; ++lane) {
        const uint32_t once = sum_of_tile(tile, lane);
        for (int warp = 0; warp < LD_WARPS; ++warp) {
          const int first = (tile - warp + LD_WARPS) % LD_WARPS;  // the pass that first reads it
          const int times = (passes - first + LD_WARPS - 1) / LD_WARPS;
          sums[warp * 32 + lane] += static_cast<uint32_t>(times) * once;
        }
      }
    }
    return sums;
  }

  Operand tiles_;      // [LD_WARPS * 64][64]
  DeviceBuffer sums_;  // uint32_t [ctas][LD_WARPS][32]
};

// --- the list ------------------------------------------------------------------------------------

template <int N, int GROUPS, bool A_IN_REGISTERS = false>
Entry wgmma(const char* name, const char* what, Data data = Data::normal) {
  using Tile = WgmmaTile<N, GROUPS, A_IN_REGISTERS>;
  return {name,
          what,
          Group::tensor,
          data,
          reinterpret_cast<const void*>(wgmma_rate<Tile>),
          [data](cudaStream_t stream) {
            return std::make_unique<WgmmaLimit<Tile>>(data, /*count_bytes=*/false, stream);
          }};
}

std::vector<Entry> tensor_limits() {
  const auto normal = Data::normal;
  return {
      wgmma<256, 2>("wgmma_n256", "wgmma m64n256k16, two warpgroups"),
      wgmma<192, 2>("wgmma_n192", "wgmma m64n192k16, two warpgroups"),
      wgmma<128, 2>("wgmma_n128", "wgmma m64n128k16, two warpgroups"),
      wgmma<96, 2>("wgmma_n96", "wgmma m64n96k16, two warpgroups"),
      wgmma<64, 2>("wgmma_n64", "wgmma m64n64k16, two warpgroups"),
      wgmma<256, 1>("wgmma_n256_1wg", "wgmma m64n256k16, one warpgroup"),
      wgmma<128, 1>("wgmma_n128_1wg", "wgmma m64n128k16, one warpgroup"),
      wgmma<64, 1>("wgmma_n64_1wg", "wgmma m64n64k16, one warpgroup"),
      wgmma<256, 2>("wgmma_n256_zeros", "wgmma m64n256k16, two warpgroups", Data::zeros),
      wgmma<128, 2>("wgmma_n128_zeros", "wgmma m64n128k16, two warpgroups", Data::zeros),
      wgmma<64, 2>("wgmma_n64_zeros", "wgmma m64n64k16, two warpgroups", Data::zeros),
      wgmma<256, 2, true>("wgmma_n256_areg", "wgmma m64n256k16, A from registers"),
      wgmma<64, 2, true>("wgmma_n64_areg", "wgmma m64n64k16, A from registers"),
      wgmma<32, 2, true>("wgmma_n32_areg", "wgmma m64n32k16, A from registers"),
      wgmma<16, 2, true>("wgmma_n16_areg", "wgmma m64n16k16, A from registers"),
      wgmma<8, 2, true>("wgmma_n8_areg", "wgmma m64n8k16, A from registers"),
      {"mma_sync", "mma.sync m16n8k16, operands in registers", Group::tensor, normal,
       reinterpret_cast<const void*>(mma_rate),
       [](cudaStream_t stream) { return std::make_unique<MmaLimit>(Data::normal, stream); }},
      {"fma", "fma.rn.f32 on the CUDA cores", Group::tensor, Data::ints,
       reinterpret_cast<const void*>(fma_rate),
       [](cudaStream_t stream) { return std::make_unique<FmaLimit>(stream); }},
      {"smem_wgmma", "operands that wgmma m64n64k16 reads", Group::smem, normal,
       reinterpret_cast<const void*>(wgmma_rate<WgmmaTile<64, 2, false>>),
       [](cudaStream_t stream) {
         using Tile = WgmmaTile<64, 2, false>;
         return std::make_unique<WgmmaLimit<Tile>>(Data::normal, /*count_bytes=*/true, stream);
       }},
      {"smem_ldmatrix", "ldmatrix.x4, no bank conflicts", Group::smem, normal,
       reinterpret_cast<const void*>(ldmatrix_rate),
       [](cudaStream_t stream) { return std::make_unique<LdmatrixLimit>(Data::normal, stream); }},
  };
}

}  // namespace limits
