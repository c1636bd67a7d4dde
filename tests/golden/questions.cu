// What the PTX text leaves open, asked of the device: questions OUT.md
//
// Each question stands with how it was put and what the device answered. Every run is a process of
// its own with a time limit, so that a fault or a hang is an answer too. Exit codes: 0 all asked,
// 2 usage, 3 no device.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/ptx/cluster.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/operand_tile.h"
#include "tests/golden/sums.cuh"

namespace questions {

using ptx::cvta_to_shared;

// ---- Host helpers -------------------------------------------------------------------------------

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...) {
  char buffer[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorName(status));
}

// A buffer on the device, zero at first.
template <typename T>
class Buffer {
 public:
  explicit Buffer(size_t count) : count_(count) {
    check(cudaMalloc(reinterpret_cast<void**>(&at_), count * sizeof(T)));
    check(cudaMemset(at_, 0, count * sizeof(T)));
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    check(cudaMemcpy(at_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(at_); }
  T* at() { return at_; }
  // Waits for the kernels before it.
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

std::string spread(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return text("min %lld, median %lld, max %lld", static_cast<long long>(values.front()),
              static_cast<long long>(values[values.size() / 2]),
              static_cast<long long>(values.back()));
}

int sm_count() {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
  return count;
}

// ---- Device helpers -----------------------------------------------------------------------------

__device__ uint64_t global_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

__device__ void mbarrier_inval(uint64_t* bar) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(cvta_to_shared(bar)) : "memory");
}

__device__ void mbarrier_complete_tx(uint64_t* bar, uint32_t bytes) {
  asm volatile(
      "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(cvta_to_shared(bar)),
      "r"(bytes)
      : "memory");
}

__device__ void mbarrier_expect_tx(uint64_t* bar, uint32_t bytes) {
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(cvta_to_shared(bar)),
      "r"(bytes)
      : "memory");
}

__device__ bool mbarrier_test_wait_parity(uint64_t* bar, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{ .reg .pred p;\n"
      "  mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "  selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(cvta_to_shared(bar)), "r"(parity)
      : "memory");
  return done;
}

__device__ bool mbarrier_try_wait_parity_hint(uint64_t* bar, uint32_t parity, uint32_t hint_ns) {
  uint32_t done;
  asm volatile(
      "{ .reg .pred p;\n"
      "  mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, %3;\n"
      "  selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(cvta_to_shared(bar)), "r"(parity), "r"(hint_ns)
      : "memory");
  return done;
}

// Gives false if the phase has not completed after this many cycles.
__device__ bool wait_at_most(uint64_t* bar, uint32_t parity, int64_t cycles) {
  const int64_t from = clock64();
  while (clock64() - from < cycles) {
    if (mbarrier_test_wait_parity(bar, parity)) return true;
  }
  return false;
}

constexpr int64_t PATIENCE = 5'000'000;  // cycles, about 3 ms

__device__ void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(cvta_to_shared(to)),
      "l"(from), "r"(bytes), "r"(cvta_to_shared(bar))
      : "memory");
}

// Stores and waits until the bytes are in global memory.
__device__ void bulk_store(void* to, const void* from, uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group 0;" ::"l"(to),
      "r"(cvta_to_shared(from)), "r"(bytes)
      : "memory");
}

// ---- wgmma.wait_group ---------------------------------------------------------------------------

constexpr int REPEATS = 16;  // times 4 wgmma
constexpr float RIGHT_SUM = 16.0f * 4 * REPEATS;
enum Overwrite { NOTHING, B_TILE, A_ROWS };

struct WaitResult {
  int64_t issue[4], done[4];  // clock64 of each warp: before its second group, after its wait
  uint32_t warp3_had_issued;  // as warp 0 saw after its wait
  uint32_t wrong[4];          // sums, of each warp
};

// Bits 0-13: start, 16-29: leading, 32-45: stride, all / 16; 62-63: 128-byte swizzle.
__device__ uint64_t matrix_descriptor(const void* start) {
  return (cvta_to_shared(start) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// A is 64x64, B 64x64, bf16 ones. Two groups; warp 3 sleeps before wgmma.fence (ptxas moves the fence
// to the first wgmma), or between the groups: without a branch, for which ptxas would fence again.
__global__ void __launch_bounds__(128, 1)
    wait_group(uint32_t before_ns, uint32_t between_ns, Overwrite overwrite, WaitResult* result) {
  __shared__ alignas(1024) uint32_t a[2048], b[2048];
  __shared__ uint32_t issued, unused;
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (uint32_t i = threadIdx.x; i < 2048; i += 128) a[i] = b[i] = 0x3f803f80;
  if (threadIdx.x == 0) issued = 0;
  ptx::fence_proxy_async_shared_cta();
  __syncthreads();
  float d[32];
#pragma unroll
  for (float& sum : d) sum = 0;
  const uint64_t a_desc = matrix_descriptor(a), b_desc = matrix_descriptor(b);
  const uint32_t before = warp == 3 ? before_ns : 0, between = warp == 3 ? between_ns : 0;
  volatile uint32_t* const flag = warp == 3 ? &issued : &unused;
  __nanosleep(before);
  ptx::wgmma_fence();
#pragma unroll
  for (int i = 0; i < REPEATS / 2; ++i) {
#pragma unroll
    for (int k = 0; k < 4; ++k) ptx::wgmma_m64n64k16(d, a_desc + 2 * k, b_desc + 2 * k, true);
  }
  ptx::wgmma_commit_group();
  __nanosleep(between);
  *flag = 1;
  const int64_t issue = clock64();
#pragma unroll
  for (int i = 0; i < REPEATS / 2; ++i) {
#pragma unroll
    for (int k = 0; k < 4; ++k) ptx::wgmma_m64n64k16(d, a_desc + 2 * k, b_desc + 2 * k, true);
  }
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  const int64_t done = clock64();
  const uint32_t seen = *static_cast<volatile uint32_t*>(&issued);
  if (warp == 0 && overwrite != NOTHING) {
    volatile uint32_t* tile = overwrite == B_TILE ? b : a + 48 * 32;  // a row is 32 words
    const uint32_t words = overwrite == B_TILE ? 2048 : 16 * 32;
    for (uint32_t i = lane; i < words; i += 32) tile[i] = 0x40004000;  // twos
    ptx::fence_proxy_async_shared_cta();
  }
  uint32_t wrong = 0;
#pragma unroll
  for (const float sum : d) wrong += sum != RIGHT_SUM;
  atomicAdd(&result->wrong[warp], wrong);
  if (lane == 0) {
    result->issue[warp] = issue;
    result->done[warp] = done;
    if (warp == 0) result->warp3_had_issued = seen;
  }
}

std::string ask_wait_group(uint32_t before_ns, uint32_t between_ns) {
  constexpr int TRIALS = 200;
  std::vector<int64_t> after_issue, after_done;
  int unseen = 0, wrong_b = 0, wrong_a = 0, wrong_others = 0, wrong_untouched = 0;
  for (const Overwrite overwrite : {NOTHING, B_TILE, A_ROWS}) {
    for (int i = 0; i < TRIALS; ++i) {
      Buffer<WaitResult> result(1);
      wait_group<<<1, 128>>>(before_ns, between_ns, overwrite, result.at());
      const WaitResult r = result.read()[0];
      if (overwrite == NOTHING) {
        after_issue.push_back(r.done[0] - r.issue[3]);
        after_done.push_back(r.done[0] - r.done[3]);
        unseen += r.warp3_had_issued == 0;
        wrong_untouched += (r.wrong[0] | r.wrong[1] | r.wrong[2] | r.wrong[3]) != 0;
      } else {
        (overwrite == B_TILE ? wrong_b : wrong_a) += r.wrong[3] != 0;
        wrong_others += (r.wrong[1] | r.wrong[2]) != 0;
      }
    }
  }
  return text(
      "warp 0's wait returned before warp 3 had issued its second group in %d of %d trials; cycles "
      "from warp 3's issue of it to warp 0's return: %s; from warp 3's own return: %s. Then warp 0 "
      "overwrote operands: warp 3's sums were wrong in %d of %d trials after B, in %d of %d after "
      "warp 3's rows of A; those of warps 1 and 2 in %d of %d (control, nothing overwritten: %d of "
      "%d trials wrong).",
      unseen, TRIALS, spread(after_issue).c_str(), spread(after_done).c_str(), wrong_b, TRIALS,
      wrong_a, TRIALS, wrong_others, 2 * TRIALS, wrong_untouched, TRIALS);
}

// ---- A late warp of a warpgroup ------------------------------------------------------------------

// Where the late warp sleeps. No barrier makes the others wait for it.
enum LateWhere { BEFORE_FENCE, BETWEEN_GROUPS };

// Sums of A, ones, times B, which begins as twos and which the late warp makes ones behind its sleep and
// before its wgmma. result: of each warp the sums that are not those of ones. The others execute the
// same stores, elsewhere, so that there is no branch.
template <LateWhere WHERE, bool BARRIER>
__global__ void __launch_bounds__(128, 1) late_warp(uint32_t late, uint32_t ns, uint32_t* result) {
  __shared__ alignas(1024) uint32_t a[2048], b[2048], elsewhere[2048];
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (uint32_t i = threadIdx.x; i < 2048; i += 128) {
    a[i] = elsewhere[i] = 0x3f803f80;
    b[i] = 0x40004000;
  }
  ptx::fence_proxy_async_shared_cta();
  __syncthreads();
  float d[32];
#pragma unroll
  for (float& sum : d) sum = 0;
  const uint64_t a_desc = matrix_descriptor(a), b_desc = matrix_descriptor(b);
  const uint64_t ones_desc = matrix_descriptor(elsewhere);
  volatile uint32_t* const tile = warp == late ? b : elsewhere;
  const auto write_late = [&] {
    __nanosleep(warp == late ? ns : 0);
#pragma unroll
    for (uint32_t i = 0; i < 2048; i += 32) tile[i + lane] = 0x3f803f80;
    ptx::fence_proxy_async_shared_cta();
  };
  if (WHERE == BETWEEN_GROUPS) {
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k) ptx::wgmma_m64n64k16(d, a_desc + 2 * k, ones_desc + 2 * k, true);
    ptx::wgmma_commit_group();
    write_late();
#pragma unroll
    for (int k = 0; k < 4; ++k) ptx::wgmma_m64n64k16(d, a_desc + 2 * k, b_desc + 2 * k, true);
  } else {
    write_late();
    if (BARRIER) __syncthreads();
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) ptx::wgmma_m64n64k16(d, a_desc + 2 * k, b_desc + 2 * k, true);
    }
  }
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  uint32_t wrong = 0;
#pragma unroll
  for (const float sum : d) wrong += sum != 128;
  atomicAdd(&result[warp], wrong);
}

template <LateWhere WHERE, bool BARRIER>
std::string ask_late_warp() {
  constexpr int TRIALS = 50;
  std::string answer;
  for (const uint32_t ns : {0, 1000, 50000}) {
    int wrong[4] = {}, wrong_of_late[4] = {};  // by the late warp
    for (uint32_t late = 0; late < 4; ++late) {
      for (int i = 0; i < TRIALS; ++i) {
        Buffer<uint32_t> result(4);
        late_warp<WHERE, BARRIER><<<1, 128>>>(late, ns, result.at());
        std::vector<uint32_t> r = result.read();
        wrong_of_late[late] += std::exchange(r[late], 0) != 0;
        wrong[late] += (r[0] | r[1] | r[2] | r[3]) != 0;
      }
    }
    answer += text(
        "%swarp 0, 1, 2 or 3 late by %u ns: the others' sums were wrong in %d, %d, %d and %d of %d "
        "trials, its own in %d, %d, %d and %d",
        answer.empty() ? "" : "; ", ns, wrong[0], wrong[1], wrong[2], wrong[3], TRIALS,
        wrong_of_late[0], wrong_of_late[1], wrong_of_late[2], wrong_of_late[3]);
  }
  return answer + ".";
}

// ---- mbarrier -----------------------------------------------------------------------------------

// Bits of result: phase 0 seen complete at each of the points 0, 1, 2, ...
__global__ void complete_first(uint32_t* result) {
  __shared__ uint64_t bar[2];
  ptx::mbarrier_init(&bar[0], 2);
  mbarrier_complete_tx(&bar[0], 64);
  uint32_t seen = mbarrier_test_wait_parity(&bar[0], 0);
  ptx::mbarrier_arrive(&bar[0]);
  seen |= mbarrier_test_wait_parity(&bar[0], 0) << 1;
  mbarrier_expect_tx(&bar[0], 64);
  seen |= mbarrier_test_wait_parity(&bar[0], 0) << 2;
  ptx::mbarrier_arrive(&bar[0]);
  seen |= mbarrier_test_wait_parity(&bar[0], 0) << 3;
  ptx::mbarrier_init(&bar[1], 1);
  mbarrier_complete_tx(&bar[1], 64);
  ptx::mbarrier_arrive(&bar[1]);
  seen |= mbarrier_test_wait_parity(&bar[1], 0) << 4;
  mbarrier_expect_tx(&bar[1], 64);
  seen |= mbarrier_test_wait_parity(&bar[1], 0) << 5;
  result[0] = seen;
}

std::string ask_complete_first() {
  Buffer<uint32_t> result(1);
  complete_first<<<1, 1>>>(result.at());
  const uint32_t seen = result.read()[0];
  const auto state = [&](int point) { return (seen >> point & 1) != 0 ? "complete" : "open"; };
  return text(
      "count 2: after complete_tx 64 the phase is %s; after one arrival %s; after expect_tx 64 %s; "
      "after the second arrival %s. Count 1: with tx-count -64 and the only arrival made the phase "
      "is %s; after expect_tx 64 it is %s.",
      state(0), state(1), state(2), state(3), state(4), state(5));
}

enum Wait { TEST, TRY, TRY_HINT };

__global__ void suspend(Wait kind, uint32_t hint_ns, int samples, int64_t* cycles, uint64_t* ns) {
  __shared__ uint64_t bar;
  ptx::mbarrier_init(&bar, 1);
  for (int i = 0; i < samples; ++i) {
    const uint64_t ns_before = global_ns();
    const int64_t before = clock64();
    const bool done = kind == TEST  ? mbarrier_test_wait_parity(&bar, 0)
                      : kind == TRY ? ptx::mbarrier_try_wait_parity(&bar, 0)
                                    : mbarrier_try_wait_parity_hint(&bar, 0, hint_ns);
    cycles[i] = clock64() - before + (done ? 1'000'000'000'000 : 0);  // nobody arrives: never done
    ns[i] = global_ns() - ns_before;
  }
}

std::string ask_suspend(Wait kind, uint32_t hint_ns) {
  constexpr int SAMPLES = 101;
  Buffer<int64_t> cycles(SAMPLES);
  Buffer<uint64_t> ns(SAMPLES);
  suspend<<<1, 1>>>(kind, hint_ns, SAMPLES, cycles.at(), ns.at());
  const std::vector<uint64_t> times = ns.read();
  return text("%d calls; ns: %s; cycles: %s.", SAMPLES,
              spread({times.begin(), times.end()}).c_str(), spread(cycles.read()).c_str());
}

// ---- TMA out of range ---------------------------------------------------------------------------

constexpr int TENSOR = 64, BOX_ROWS = 8, BOX_ELEMENTS = BOX_ROWS * TENSOR;

CUtensorMap square_map(void* base) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found));
  if (function == nullptr) throw std::runtime_error("no cuTensorMapEncodeTiled");
  alignas(64) CUtensorMap map;
  const cuuint64_t dims[] = {TENSOR, TENSOR}, strides[] = {TENSOR * 2};
  const cuuint32_t box[] = {TENSOR, BOX_ROWS}, steps[] = {1, 1};
  const CUresult status = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, base, dims, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) throw std::runtime_error(text("cuTensorMapEncodeTiled: %d", status));
  return map;
}

// result: complete, zero elements, untouched elements
__global__ void out_of_range(const __grid_constant__ CUtensorMap map, int col, int row,
                             uint32_t* result) {
  __shared__ alignas(128) uint16_t box[BOX_ELEMENTS];
  __shared__ uint64_t bar;
  for (uint16_t& element : box) element = 0xcdcd;
  ptx::mbarrier_init(&bar, 1);
  ptx::fence_proxy_async_shared_cta();
  ptx::mbarrier_arrive_expect_tx(&bar, sizeof box);
  ptx::cp_async_bulk_tensor_2d_g2s(box, &map, col, row, &bar);
  result[0] = wait_at_most(&bar, 0, PATIENCE);
  for (const uint16_t& element : box) {
    const uint16_t value = *static_cast<const volatile uint16_t*>(&element);
    result[1] += value == 0;
    result[2] += value == 0xcdcd;
  }
}

std::string ask_out_of_range() {
  Buffer<uint16_t> tensor(std::vector<uint16_t>(TENSOR * TENSOR, 1));
  const CUtensorMap map = square_map(tensor.at());
  std::string answer;
  const int corners[][2] = {{0, 0},     {0, 60},         {0, 64},           {0, 100000}, {0, -8},
                            {0, -9},    {64, 0},         {-64, 0},          {1000, -77}, {32, 4},
                            {-1000, 3}, {0, 2147483647}, {-2147483640, -1}, {0, -4}};
  for (const auto& [col, row] : corners) {
    Buffer<uint32_t> result(3);
    out_of_range<<<1, 1>>>(map, col, row, result.at());
    const std::vector<uint32_t> r = result.read();
    answer += text("%s(%d, %d): %s, %u zeros, %u untouched", answer.empty() ? "" : "; ", col, row,
                   r[0] != 0 ? "all bytes came" : "NOT COMPLETE", r[1], r[2]);
  }
  return answer + ".";
}

// ---- ldmatrix, stmatrix -------------------------------------------------------------------------

enum Matrix { LOAD_X1, LOAD_X2, STORE_X1, STORE_X2 };

__device__ void matrix_access(Matrix kind, uint32_t address, uint32_t& x, uint32_t& y) {
  if (kind == LOAD_X1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(x)
                 : "r"(address)
                 : "memory");
  } else if (kind == LOAD_X2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(x), "=r"(y)
                 : "r"(address)
                 : "memory");
  } else if (kind == STORE_X1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(address), "r"(x)
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(x),
                 "r"(y)
                 : "memory");
  }
}

// The same access twice: with addresses that are good in every lane, and with garbage in the lanes
// that should not be looked at. Counts lanes and words that differ.
__global__ void matrix_addresses(Matrix kind, bool outside, uint32_t* differ) {
  __shared__ alignas(128) uint32_t tile[2][512];
  const uint32_t lane = threadIdx.x, used = kind == LOAD_X1 || kind == STORE_X1 ? 8 : 16;
  const bool load = kind == LOAD_X1 || kind == LOAD_X2;
  for (uint32_t i = lane; i < 512; i += 32) tile[0][i] = tile[1][i] = load ? i * 0x10001 : 0;
  __syncthreads();
  uint32_t x[2], y[2];
  for (int run = 0; run < 2; ++run) {
    x[run] = lane * 3 + 1;
    y[run] = lane * 5 + 2;
    uint32_t address = cvta_to_shared(&tile[run][lane * 4]);
    if (run == 1 && lane >= used) address = outside ? 0xfffffff1u - lane * 7 : address + 1 + lane;
    matrix_access(kind, address, x[run], y[run]);
  }
  __syncthreads();
  uint32_t count = x[0] != x[1] || y[0] != y[1];
  for (uint32_t i = lane; i < 512; i += 32) count += tile[0][i] != tile[1][i];
  atomicAdd(differ, count);
}

std::string ask_matrix(Matrix kind, bool outside) {
  Buffer<uint32_t> differ(1);
  matrix_addresses<<<1, 32>>>(kind, outside, differ.at());
  const uint32_t count = differ.read()[0];
  return count == 0 ? "no fault, and the same result as with good addresses."
                    : text("no fault, but %u lanes or words differ.", count);
}

// ---- Barriers with exited threads ---------------------------------------------------------------

enum Exit { NOBODY, WARP_3, ODD_LANES };

__global__ void bar_exited(Exit exits, bool counted, uint32_t* passed) {
  const uint32_t warp = threadIdx.x / 32;
  if ((exits == WARP_3 && warp == 3) || (exits == ODD_LANES && threadIdx.x % 2 == 1)) return;
  if (counted) {
    asm volatile("barrier.sync 1, 128;" ::: "memory");
  } else {
    asm volatile("barrier.sync 0;" ::: "memory");
  }
  atomicAdd(passed, 1);
}

std::string ask_bar(Exit exits, bool counted) {
  Buffer<uint32_t> passed(1);
  bar_exited<<<1, 128>>>(exits, counted, passed.at());
  return text("%u threads passed.", passed.read()[0]);
}

// The last `stay` threads of CTA 1 stay.
__global__ void __cluster_dims__(2, 1, 1) cluster_exited(uint32_t stay, uint32_t* passed) {
  if (blockIdx.x == 1 && threadIdx.x < blockDim.x - stay) return;
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  atomicAdd(passed, 1);
}

std::string ask_cluster(uint32_t stay) {
  Buffer<uint32_t> passed(1);
  cluster_exited<<<2, 128>>>(stay, passed.at());
  return text("%u threads passed.", passed.read()[0]);
}

// ---- elect.sync ---------------------------------------------------------------------------------

__global__ void elect(uint32_t mask, uint32_t* result) {
  if ((mask >> threadIdx.x & 1) == 0) return;
  uint32_t leader, elected;
  asm volatile(
      "{ .reg .pred p;\n"
      "  elect.sync %0|p, %2;\n"
      "  selp.u32 %1, 1, 0, p; }"
      : "=r"(leader), "=r"(elected)
      : "r"(mask)
      : "memory");
  if (elected != 0) atomicOr(&result[0], 1u << threadIdx.x);
  result[1] = leader;
}

std::string ask_elect() {
  std::string answer;
  for (const uint32_t mask : {0xffffffffu, 0xaaaaaaaau, 0xffff0000u, 0x00ff0f00u, 0x80000000u}) {
    Buffer<uint32_t> result(2);
    elect<<<1, 32>>>(mask, result.at());
    const std::vector<uint32_t> r = result.read();
    answer += text("%smask 0x%08x: elected lanes 0x%08x, leader %u", answer.empty() ? "" : "; ",
                   mask, r[0], r[1]);
  }
  return answer + ".";
}

// ---- Shared addresses ---------------------------------------------------------------------------

struct Addresses {
  uint32_t own, mapa[4];
  uint64_t generic, generic_mapa[4];
};

__global__ void __cluster_dims__(4, 1, 1) addresses(Addresses* result) {
  extern __shared__ uint32_t first[];
  Addresses& r = result[blockIdx.x];
  r.own = cvta_to_shared(first);
  r.generic = reinterpret_cast<uint64_t>(first);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    r.mapa[rank] = ptx::mapa_shared_cluster(first, rank);
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(r.generic_mapa[rank]) : "l"(first), "r"(rank));
  }
}

std::string ask_addresses() {
  Buffer<Addresses> result(4);
  addresses<<<4, 1, 1024>>>(result.at());
  std::string answer;
  for (const Addresses& r : result.read()) {
    answer += text(
        "%sthe first byte has shared address 0x%x, generic address window + 0x%llx (low 32 bits); "
        "mapa to ranks 0-3: 0x%x 0x%x 0x%x 0x%x; generic mapa, low 32 bits: 0x%llx 0x%llx 0x%llx "
        "0x%llx, high halves %s",
        answer.empty() ? "" : "; next CTA: ", r.own,
        static_cast<unsigned long long>(r.generic & 0xffffffff), r.mapa[0], r.mapa[1], r.mapa[2],
        r.mapa[3], static_cast<unsigned long long>(r.generic_mapa[0] & 0xffffffff),
        static_cast<unsigned long long>(r.generic_mapa[1] & 0xffffffff),
        static_cast<unsigned long long>(r.generic_mapa[2] & 0xffffffff),
        static_cast<unsigned long long>(r.generic_mapa[3] & 0xffffffff),
        std::all_of(std::begin(r.generic_mapa), std::end(r.generic_mapa),
                    [&](uint64_t at) { return at >> 32 == r.generic >> 32; })
            ? "equal"
            : "different");
  }
  return answer + ".";
}

// ---- Missing proxy fences -----------------------------------------------------------------------

constexpr int TRIALS_EACH = 2000;  // a CTA; one CTA an SM

// bad: timeouts, wrong data. Barriers stand where other words stood a moment before.
__global__ void fenceless_init(bool fence, const uint32_t* source, uint32_t* bad) {
  constexpr int BARS = 16, WORDS = 64;
  __shared__ uint64_t bars[BARS];
  __shared__ alignas(128) uint32_t box[WORDS];
  for (int trial = 0; trial < TRIALS_EACH; ++trial) {
    uint64_t* bar = &bars[trial % BARS];
    *reinterpret_cast<volatile uint64_t*>(bar) = 0x0123456789abcdefull * trial;
    ptx::mbarrier_init(bar, 1);
    if (fence) ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(bar, sizeof box);
    bulk_load(box, source + trial % 64 * WORDS, sizeof box, bar);
    if (!wait_at_most(bar, 0, PATIENCE)) {
      atomicAdd(&bad[0], 1);
      return;
    }
    bool wrong = false;
    for (int i = 0; i < WORDS; ++i) {
      wrong |= *static_cast<volatile uint32_t*>(&box[i]) != trial % 64 * WORDS + i;
    }
    if (wrong) atomicAdd(&bad[1], 1);
    mbarrier_inval(bar);
  }
}

std::vector<uint32_t> counting(size_t count) {
  std::vector<uint32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<uint32_t>(i);
  return values;
}

std::string ask_fenceless_init(bool fence) {
  Buffer<uint32_t> source(counting(64 * 64)), bad(2);
  fenceless_init<<<sm_count(), 1>>>(fence, source.at(), bad.at());
  const std::vector<uint32_t> r = bad.read();
  return text("%u time-outs and %u wrong boxes in %d trials.", r[0], r[1],
              sm_count() * TRIALS_EACH);
}

// Each thread writes 4 words, another value every trial; thread 0 stores them all.
__global__ void unfenced_store(bool fence, uint32_t* out, uint32_t* bad) {
  __shared__ alignas(128) uint32_t tile[4 * 256];
  uint32_t* to = out + blockIdx.x * blockDim.x * 4;
  for (uint32_t trial = 1; trial <= TRIALS_EACH; ++trial) {
    const uint32_t at = threadIdx.x * 4, value = trial * 0x10001 + threadIdx.x;
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(cvta_to_shared(&tile[at])),
                 "r"(value)
                 : "memory");
    if (fence) ptx::fence_proxy_async_shared_cta();
    if (blockDim.x > 1) __syncthreads();
    if (threadIdx.x == 0) bulk_store(to, tile, blockDim.x * 16);
    if (blockDim.x > 1) __syncthreads();
    bool stale = false;
    for (int i = 0; i < 4; ++i) stale |= *static_cast<volatile uint32_t*>(&to[at + i]) != value;
    if (__syncthreads_or(stale) != 0 && threadIdx.x == 0) atomicAdd(bad, 1);
  }
}

std::string ask_unfenced_store(bool fence, int threads) {
  Buffer<uint32_t> out(sm_count() * threads * 4), bad(1);
  unfenced_store<<<sm_count(), threads>>>(fence, out.at(), bad.at());
  return text("%u of %d stores brought stale words.", bad.read()[0], sm_count() * TRIALS_EACH);
}

// A slot is loaded with pattern 0, 1, 0, ...; every thread reads 8 words, then the next load goes out.
__global__ void unfenced_release(bool fence, const uint32_t* patterns, uint32_t* bad) {
  __shared__ alignas(128) uint32_t slot[8 * 256];
  __shared__ uint64_t full;
  const uint32_t words = blockDim.x * 8, bytes = words * 4, at = threadIdx.x * 8;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&full, bytes);
    bulk_load(slot, patterns, bytes, &full);
  }
  __syncthreads();
  for (uint32_t trial = 0; trial < TRIALS_EACH; ++trial) {
    ptx::mbarrier_wait(&full, trial & 1);
    uint32_t value[8];
    const uint32_t address = cvta_to_shared(&slot[at]);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value[i]) : "r"(address + 4 * i) : "memory");
    }
    if (fence) ptx::fence_proxy_async_shared_cta();
    if (blockDim.x > 1) __syncthreads();
    if (threadIdx.x == 0 && trial + 1 < TRIALS_EACH) {
      ptx::mbarrier_arrive_expect_tx(&full, bytes);
      bulk_load(slot, patterns + ((trial + 1) & 1) * words, bytes, &full);
    }
    bool wrong = false;
#pragma unroll
    for (int i = 0; i < 8; ++i) wrong |= value[i] != (trial & 1) * words + at + i;
    if (wrong) atomicAdd(bad, 1);
  }
}

std::string ask_unfenced_release(bool fence, int threads) {
  Buffer<uint32_t> patterns(counting(16 * threads)), bad(1);
  unfenced_release<<<sm_count(), threads>>>(fence, patterns.at(), bad.at());
  return text("%u of %d reads of 8 words were corrupted.", bad.read()[0],
              sm_count() * TRIALS_EACH * threads);
}

// ---- 12. Sums of wgmma --------------------------------------------------------------------------

// D = c + x * 1 + ... + x * 1, `count` products of one instruction.
struct SumOf {
  float c, x;
  int count;
};
constexpr int SUMS = 64;  // one a row of A

using SumsA = tile::OperandTile<tile::Major::K, 16, 2, SUMS, 16>;
using SumsB = tile::OperandTile<tile::Major::K, 16, 2, 8, 16>;

__global__ void add_products(const SumOf* sums, float* d) {
  __shared__ SumsA first, a;
  __shared__ SumsB b;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  for (int i = thread; i < SUMS * 16; i += 128) {
    const bool used = i % 16 < sums[i / 16].count;
    const float x = used ? sums[i / 16].x : 0.0f, c = i % 16 == 0 ? sums[i / 16].c : 0.0f;
    *reinterpret_cast<__nv_bfloat16*>(a.at(i / 16, i % 16)) = __float2bfloat16_rn(x);
    *reinterpret_cast<__nv_bfloat16*>(first.at(i / 16, i % 16)) = __float2bfloat16_rn(c);
  }
  *reinterpret_cast<__nv_bfloat16*>(b.at(thread / 16, thread % 16)) = __float2bfloat16_rn(1.0f);
  ptx::fence_proxy_async_shared_cta();
  __syncthreads();
  const int row = thread / 32 * 16 + lane / 4;
  const uint64_t ones = SumsB::descriptor(cvta_to_shared(b.bytes));
  float acc[4];
  ptx::wgmma_fence();
  ptx::wgmma_m64n8k16(acc, SumsA::descriptor(cvta_to_shared(first.bytes)), ones, false);
  ptx::wgmma_m64n8k16(acc, SumsA::descriptor(cvta_to_shared(a.bytes)), ones, true);
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  if (lane % 4 != 0) return;
  d[row] = acc[0];
  d[row + 8] = acc[2];
}

// In units of 2^-24 beyond 1 or -1.
std::string ask_sums(float c, int count) {
  const float unit = 1.0f / (1 << 24);
  std::vector<SumOf> sums(SUMS, SumOf{c, 0, 0});
  const float steps[] = {0.125f, 0.25f, 0.5f, 0.75f, 1, 1.25f, 1.5f, 1.75f, 2, 3};
  for (size_t i = 0; i < std::size(steps); ++i) sums[i] = {c, steps[i] * unit, count};
  Buffer<SumOf> in(sums);
  Buffer<float> out(SUMS);
  add_products<<<1, 128>>>(in.at(), out.at());
  const std::vector<float> d = out.read();
  std::string answer = "each x, then D - c:";
  for (size_t i = 0; i < std::size(steps); ++i) {
    answer += text("%s %g: %g", i == 0 ? "" : ",", steps[i], (double{d[i]} - c) / unit);
  }
  return answer + ".";
}

// ---- Sums that are cut off ----------------------------------------------------------------------

std::string ask_rule(sums::Type type) {
  std::string answer;
  for (int kind = 0; kind < sums::KINDS; ++kind) {
    long long count = 0, different = 0;
    for (uint64_t seed = 1; seed <= sums::SEEDS; ++seed) {
      const sums::Probe probe = make_probe(type, static_cast<sums::Kind>(kind), seed);
      const std::vector<uint32_t> got = sums::answer(probe), want = expected(probe);
      count += static_cast<long long>(got.size());
      for (size_t i = 0; i < got.size(); ++i) different += got[i] != want[i];
    }
    answer += text("%s%s: %lld of %lld sums are other ones", kind == 0 ? "" : "; ",
                   sums::KIND_NAMES[kind], different, count);
  }
  return answer + ".";
}

// ---- The list -----------------------------------------------------------------------------------

struct Run {
  std::string label;
  std::function<std::string()> ask;
};

struct Question {
  std::string title, method;
  std::vector<Run> runs;
  int limit_seconds = 60;  // of a run
};

std::vector<Question> all_questions() {
  std::vector<Question> list;
  list.push_back(
      {"Is wgmma.wait_group complete for the warpgroup, or only for the executing warp?",
       "One warpgroup, two groups of 32 wgmma m64n64k16 on tiles of ones, wait_group 0. Warp 3 is "
       "made "
       "late by nanosleep. Warp 0 stamps clock64 after its wait and looks at a flag that warp 3 "
       "sets "
       "just before its second group; in further trials it then overwrites B, or warp 3's rows of "
       "A, "
       "with twos.",
       {{"no delay", [] { return ask_wait_group(0, 0); }},
        {"warp 3 sleeps about 1 us between the groups", [] { return ask_wait_group(0, 1000); }},
        {"warp 3 sleeps about 50 us between the groups", [] { return ask_wait_group(0, 50000); }},
        {"warp 3 sleeps about 50 us before wgmma.fence",
         [] { return ask_wait_group(50000, 0); }}}});
  list.push_back({"What does complete_tx before expect_tx do to a phase?",
                  "One thread, mbarrier.complete_tx first, mbarrier.test_wait.parity 0 after each "
                  "step.",
                  {{"states", ask_complete_first}}});
  list.push_back(
      {"How long does mbarrier.try_wait suspend before it returns false?",
       "One thread on a barrier at which nobody arrives; clock64 and %globaltimer around "
       "each call (the latter's own resolution limits the ns).",
       {{"test_wait", [] { return ask_suspend(TEST, 0); }},
        {"try_wait without a hint", [] { return ask_suspend(TRY, 0); }},
        {"hint 0 ns", [] { return ask_suspend(TRY_HINT, 0); }},
        {"hint 100 ns", [] { return ask_suspend(TRY_HINT, 100); }},
        {"hint 1,000 ns", [] { return ask_suspend(TRY_HINT, 1000); }},
        {"hint 10,000 ns", [] { return ask_suspend(TRY_HINT, 10000); }},
        {"hint 1,000,000 ns", [] { return ask_suspend(TRY_HINT, 1000000); }},
        {"hint 100,000,000 ns", [] { return ask_suspend(TRY_HINT, 100000000); }}}});
  list.push_back(
      {"Does a TMA box that lies partly or wholly outside the tensor bring all its bytes?",
       text("A tensor of %dx%d ones, boxes of %d columns and %d rows at (column, row) into "
            "poisoned shared memory, expect_tx of the whole box.",
            TENSOR, TENSOR, TENSOR, BOX_ROWS),
       {{"boxes", ask_out_of_range}}});
  std::vector<Run> runs;
  const std::pair<Matrix, const char*> matrices[] = {{LOAD_X1, "ldmatrix.x1"},
                                                     {LOAD_X2, "ldmatrix.x2"},
                                                     {STORE_X1, "stmatrix.x1"},
                                                     {STORE_X2, "stmatrix.x2"}};
  for (const auto& [kind, name] : matrices) {
    for (const bool outside : {false, true}) {
      runs.push_back({std::string(name) + (outside ? ", outside shared memory" : ", misaligned"),
                      [kind, outside] { return ask_matrix(kind, outside); }});
    }
  }
  list.push_back(
      {"Do ldmatrix and stmatrix .x1 and .x2 look at the addresses of lanes 0-7 and 0-15 "
       "only?",
       "One warp; the other lanes hold misaligned addresses, or ones far outside shared "
       "memory.",
       runs});
  list.push_back(
      {"Do barriers wait for threads that have exited?",
       "128 threads a CTA, some of which exit at once; a run that is not back after 5 s hangs.",
       {{"barrier.sync 0, nobody exited", [] { return ask_bar(NOBODY, false); }},
        {"barrier.sync 0, warp 3 exited", [] { return ask_bar(WARP_3, false); }},
        {"barrier.sync 0, odd lanes exited", [] { return ask_bar(ODD_LANES, false); }},
        {"barrier.sync 1, 128, warp 3 exited", [] { return ask_bar(WARP_3, true); }},
        {"barrier.sync 1, 128, odd lanes exited", [] { return ask_bar(ODD_LANES, true); }},
        {"barrier.cluster, 127 threads of CTA 1 exited", [] { return ask_cluster(1); }},
        {"barrier.cluster, CTA 1 exited", [] { return ask_cluster(0); }}},
       5});
  list.push_back({"Which lane does elect.sync pick?",
                  "The lanes of a mask execute it, the others have exited.",
                  {{"lanes", ask_elect}}});
  list.push_back({"Where does shared memory begin, and which bits hold the rank?",
                  "A cluster of 4 with dynamic shared memory only.",
                  {{"addresses", ask_addresses}}});
  const std::string trials = text(" One CTA an SM, %d trials each.", TRIALS_EACH);
  list.push_back(
      {"Does a missing fence after mbarrier.init ever show?",
       "A bulk copy of 256 bytes completes on a barrier initialised just before, where a "
       "random word was written just before that; contents are checked." +
           trials,
       {{"no fence", [] { return ask_fenceless_init(false); }},
        {"fence.mbarrier_init (control)", [] { return ask_fenceless_init(true); }}}});
  list.push_back(
      {"Does a bulk store without fence.proxy.async ever store stale words?",
       "st.shared.v4 of a new value, then cp.async.bulk to global memory, wait_group 0, compare." +
           trials,
       {{"one thread, at once, no fence", [] { return ask_unfenced_store(false, 1); }},
        {"256 threads, bar.sync between, no fence", [] { return ask_unfenced_store(false, 256); }},
        {"one thread, fence (control)", [] { return ask_unfenced_store(true, 1); }},
        {"256 threads, fence (control)", [] { return ask_unfenced_store(true, 256); }}}});
  list.push_back(
      {"Does a bulk load that overwrites a slot just read, without fence.proxy.async, ever corrupt "
       "the reads?",
       "ld.shared of 8 words a thread, then the next cp.async.bulk into the slot, then compare." +
           trials,
       {{"one thread, at once, no fence", [] { return ask_unfenced_release(false, 1); }},
        {"256 threads, bar.sync between, no fence",
         [] { return ask_unfenced_release(false, 256); }},
        {"one thread, fence (control)", [] { return ask_unfenced_release(true, 1); }},
        {"256 threads, fence (control)", [] { return ask_unfenced_release(true, 256); }}}});
  list.push_back({"What does wgmma do with the bits of a sum that fp32 does not have?",
                  "One wgmma m64n8k16 of bf16 adds n equal products x to an accumulator c, all in "
                  "units of 2^-24; "
                  "above 1 fp32 has every second of them, below 1 each. Rounded to nearest, 1 + 1 "
                  "* 1.5 would be "
                  "2; cut off, it is 0. Products that are cut off one by one before they are added "
                  "make n * x 0.",
                  {{"c = 1, n = 1", [] { return ask_sums(1, 1); }},
                   {"c = 1, n = 2", [] { return ask_sums(1, 2); }},
                   {"c = 1, n = 4", [] { return ask_sums(1, 4); }},
                   {"c = 1, n = 16", [] { return ask_sums(1, 16); }},
                   {"c = -1, n = 1", [] { return ask_sums(-1, 1); }},
                   {"c = -1, n = 16", [] { return ask_sums(-1, 16); }}}});
  using sums::Type;
  list.push_back(
      {"Does one rule say what wgmma keeps of a sum?",
       "Probes of tests/golden/sums.h, each one wgmma m64n8 or a chain of four, compared bit for "
       "bit with the rule that stands there: products and accumulator are cut off toward zero "
       "at 2^-13 (e4m3) or 2^-25 (others) of the largest, added exactly, and their sum is cut "
       "off at 2^-13 or 2^-23 of its own power of two; s8 is exact.",
       {{"e4m3", [] { return ask_rule(Type::e4m3); }},
        {"bf16", [] { return ask_rule(Type::bf16); }},
        {"fp16", [] { return ask_rule(Type::fp16); }},
        {"tf32", [] { return ask_rule(Type::tf32); }},
        {"s8", [] { return ask_rule(Type::s8); }}}});
  list.push_back(
      {"Does wgmma, or wgmma.fence, wait for the warpgroup's other warps?",
       "One warpgroup; B begins as twos. One warp, each in turn, sleeps, then makes all of B ones "
       "and "
       "executes fence.proxy.async; no barrier follows. Then every warp multiplies by B: sums that "
       "are "
       "not those of ones are wrong.",
       {{"before wgmma.fence", ask_late_warp<BEFORE_FENCE, false>},
        {"before wgmma.fence, with bar.sync in front of it (control)",
         ask_late_warp<BEFORE_FENCE, true>},
        {"between two groups, with no second wgmma.fence", ask_late_warp<BETWEEN_GROUPS, false>}}});
  return list;
}

// Runs `ask` in a process of its own. What it threw, or how the process ended, is the answer too.
std::string answer_of(const std::function<std::string()>& ask, int limit_seconds) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe failed");
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) {
    close(ends[0]);
    std::string answer;
    try {
      answer = ask();
    } catch (const std::exception& error) {
      answer = std::string("ended in ") + error.what() + ".";
    }
    const bool sent =
        write(ends[1], answer.data(), answer.size()) == static_cast<ssize_t>(answer.size());
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  pollfd ready{ends[0], POLLIN, 0};
  std::string answer;
  if (poll(&ready, 1, limit_seconds * 1000) <= 0) {
    answer = text("hangs (not back after %d s).", limit_seconds);
    kill(pid, SIGKILL);
  } else {
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) answer.append(buffer, n);
  }
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (answer.empty()) answer = "the process died.";
  return answer;
}

// Asked in a child, so that this process holds no context of its own.
std::string device_name() {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  return text("%s, CUDA driver %d.%d, runtime %d.%d", properties.name, driver / 1000,
              driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

int run(const char* path) {
  const std::string device = answer_of(device_name, 60);
  if (device.starts_with("ended in") || device.starts_with("the process")) {
    std::fprintf(stderr, "questions: no CUDA device: %s\n", device.c_str());
    return 3;
  }
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) {
    std::fprintf(stderr, "questions: cannot write %s\n", path);
    return 2;
  }
  std::fprintf(file,
               "# What the device answered\n\nWritten by tests/golden/questions.cu "
               "on: %s.\n",
               device.c_str());
  int number = 0;
  for (const Question& question : all_questions()) {
    std::fprintf(file, "\n## %d. %s\n\nMethod: %s\n\n", ++number, question.title.c_str(),
                 question.method.c_str());
    for (const auto& [label, ask] : question.runs) {
      const std::string answer = answer_of(ask, question.limit_seconds);
      std::fprintf(file, "- %s: %s\n", label.c_str(), answer.c_str());
      std::fflush(file);
      std::printf("%d. %s: %s\n", number, label.c_str(), answer.c_str());
    }
  }
  return std::fclose(file) == 0 ? 0 : 2;
}

}  // namespace questions

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: questions OUT.md\n");
    return 2;
  }
  return questions::run(argv[1]);
}
