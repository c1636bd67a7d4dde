// One layer of a mixture of experts, as the GPU computes it that holds 8 of DeepSeek-V3's 256
// experts:
//
//   moe_layer [TOKENS [HIDDEN INTERMEDIATE]]    default 512, 1024 and 4096 tokens, 7168, 2048;
//                                               on the PTX machine 20, 256, 128
//
// Each token has picked 8 of all experts, at least one of them here. Six steps, nothing of which
// waits for the host or asks it for a size:
//
//   place    a row for each pick, those of an expert next to each other; where experts begin
//   gather   the rows of the tokens, bf16, quantized to e4m3 with a scale for every 128
//   gate_up  rows [.][HIDDEN] by each expert's gate and up, [2 * INTERMEDIATE][HIDDEN]
//   swiglu   silu(gate) * up, quantized
//   down     by each expert's [HIDDEN][INTERMEDIATE]
//   combine  a token's rows, times its weights of their experts, added up
//
// The products are ladder_gemm_grouped(), and for comparison one call for each expert: of this
// library, and of cuBLASLt, for which the host has to know how many rows each expert has. What
// checks and compares comes from common/host; the layer itself needs nothing but ladder.h.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "common/host/cublas_lt.h"
#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/stats.h"
#include "common/host/text.h"
#include "common/host/tolerance.h"
#include "common/host/verify.h"
#include "common/host/where.h"

namespace {

using ladder::check_cuda;
using ladder::DeviceBuffer;
using ladder::format;
using bf16 = __nv_bfloat16;
using e4m3 = __nv_fp8_e4m3;

constexpr int EXPERTS = 8, ALL_EXPERTS = 256;  // here, the first of all
constexpr int TOP_K = 8;                       // picks of a token
constexpr int BLOCK = 128;                     // neighbours along K that have a scale
constexpr int CALL_ROWS = 4;  // what an expert's rows are rounded up to where each has its own call
constexpr int NOBODY = -1;
constexpr float LARGEST = 448;  // of e4m3

__host__ __device__ constexpr int round_up(int x, int multiple) {
  return (x + multiple - 1) / multiple * multiple;
}

// --- the small kernels ---------------------------------------------------------------------------

constexpr int PLACERS = 1024, THREADS = 256;

// A CTA for each expert, a part of the picks for each warp. offsets [EXPERTS + 1]; an expert begins
// at a multiple of `align`. row_of [picks]: the row of each pick that is here, NOBODY if there is
// no memory for it; token_of [capacity]: the other way. Rows are in the order of the tokens, so
// that each run gives the same.
__global__ __launch_bounds__(PLACERS) void place(const int* __restrict__ expert_of, int picks,
                                                 int align, int capacity, int* offsets, int* row_of,
                                                 int* token_of) {
  constexpr int WARPS = PLACERS / 32, STEP = 32 * 4;  // a lane looks at four neighbours at once
  __shared__ int count[EXPERTS], of_warp[WARPS];
  const int expert = blockIdx.x, thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int each = round_up((picks + WARPS - 1) / WARPS, STEP);
  const int begin = min(picks, warp * each), end = min(picks, begin + each);
  const auto four_at = [&](int i) { return __ldg(reinterpret_cast<const int4*>(expert_of + i)); };
  if (thread < EXPERTS) count[thread] = 0;
  __syncthreads();
  int mine = 0;
#pragma unroll 4
  for (int i = begin + lane * 4; i < end; i += STEP) {
    const int4 four = four_at(i);
    for (const int picked : {four.x, four.y, four.z, four.w}) {
      if (picked < EXPERTS) atomicAdd(&count[picked], 1);
      mine += picked == expert;
    }
  }
  mine = __reduce_add_sync(~0u, mine);
  if (lane == 0) of_warp[warp] = mine;
  __syncthreads();

  int first = 0;
  for (int i = 0; i < expert; ++i) first += round_up(count[i], align);
  const int behind = first + round_up(count[expert], align);
  int row = first;
  for (int i = 0; i < warp; ++i) row += of_warp[i];
#pragma unroll 4
  for (int i = begin + lane * 4; i - lane * 4 < end; i += STEP) {
    const int4 four = i < end ? four_at(i) : int4{NOBODY, NOBODY, NOBODY, NOBODY};
    const int picked[4] = {four.x, four.y, four.z, four.w};
    int at = row;  // of this lane's first: behind those of the lanes before it
    for (int j = 0; j < 4; ++j) {
      const unsigned found = __ballot_sync(~0u, picked[j] == expert);
      at += __popc(found & ((1u << lane) - 1));
      row += __popc(found);
    }
    for (int j = 0; j < 4; ++j) {
      if (picked[j] != expert) continue;
      row_of[i + j] = at < capacity ? at : NOBODY;
      if (at < capacity) token_of[at] = (i + j) / TOP_K;
      ++at;
    }
  }
  const int padding = first + count[expert] + thread;
  if (padding < min(behind, capacity)) token_of[padding] = NOBODY;
  if (thread == 0) offsets[expert] = first;
  if (thread == 0 && expert == EXPERTS - 1) offsets[EXPERTS] = behind;
}

// Where the scales of a row's blocks are: [blocks][ld] for all rows, or, as a call for each expert
// wants it, [blocks][rows] of one expert behind the other.
struct ScaleLayout {
  const int* offsets;
  int blocks;
  long long ld;
  bool by_expert;

  struct Row {
    long long first, step;
    __host__ __device__ long long at(int block) const { return first + block * step; }
  };
  __host__ __device__ Row of(int row) const {
    if (!by_expert) return {row, ld};
    int expert = 0;
    while (row >= offsets[expert + 1]) ++expert;
    const int first = offsets[expert], rows = offsets[expert + 1] - first;
    return {static_cast<long long>(first) * blocks + row - first, rows};
  }
};

__device__ float4 load_four(const bf16* from) {
  const uint2 bits = *reinterpret_cast<const uint2*>(from);  // the smaller column in the lower half
  return {__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xffff0000u),
          __uint_as_float(bits.y << 16), __uint_as_float(bits.y & 0xffff0000u)};
}

// Rows of x, by the tokens that they are of.
struct Gathered {
  const bf16* x;  // [tokens][hidden]
  const int* token_of;
  int hidden;
  __device__ float4 four(int row, int col) const {
    const int token = token_of[row];
    if (token == NOBODY) return {0, 0, 0, 0};
    return load_four(x + static_cast<long long>(token) * hidden + col);
  }
};

__device__ float swiglu(float gate, float up) {
  return gate / (1 + __expf(-gate)) * up;
}

// silu(gate) * up of rows [gate | up].
struct Activated {
  const bf16* h;  // [capacity][2 * intermediate]
  int intermediate;
  __device__ float4 four(int row, int col) const {
    const bf16* from = h + 2LL * row * intermediate + col;
    const float4 gate = load_four(from), up = load_four(from + intermediate);
    return {swiglu(gate.x, up.x), swiglu(gate.y, up.y), swiglu(gate.z, up.z), swiglu(gate.w, up.w)};
  }
};

// q [rows][blocks * BLOCK], as ladder_quantize() defines it. A warp takes AT_ONCE blocks of a row,
// a lane four columns of each. How many rows there are, offsets say.
template <class Source>
__global__ __launch_bounds__(THREADS, 5) void quantize(Source source, ScaleLayout layout,
                                                       int capacity, e4m3* q, float* scale) {
  constexpr int AT_ONCE = 4;  // so that as many loads are under way
  const int lane = threadIdx.x % 32, warps = gridDim.x * (THREADS / 32), blocks = layout.blocks;
  const int parts = (blocks + AT_ONCE - 1) / AT_ONCE;
  const int items = min(layout.offsets[EXPERTS], capacity) * parts;
  for (int item = blockIdx.x * (THREADS / 32) + threadIdx.x / 32; item < items; item += warps) {
    const int row = item / parts, first = item % parts * AT_ONCE;
    const ScaleLayout::Row scales = layout.of(row);
    float4 x[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      if (first + i < blocks) x[i] = source.four(row, (first + i) * BLOCK + lane * 4);
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      if (first + i >= blocks) break;
      const float4& v = x[i];
      const float most = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
      const float largest = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(most)));
      const float s = largest > 0 ? __fdiv_rn(largest, LARGEST) : 1;
      const __nv_fp8x4_e4m3 four(
          make_float4(__fdiv_rn(v.x, s), __fdiv_rn(v.y, s), __fdiv_rn(v.z, s), __fdiv_rn(v.w, s)));
      reinterpret_cast<__nv_fp8x4_e4m3*>(q)[(row * 1LL * blocks + first + i) * 32 + lane] = four;
      if (lane == 0) scale[scales.at(first + i)] = s;
    }
  }
}

// out [tokens][hidden], a CTA a token: what its experts here add to it.
__global__ __launch_bounds__(THREADS) void combine(const bf16* __restrict__ y, const int* expert_of,
                                                   const int* row_of, const float* weight,
                                                   int hidden, bf16* __restrict__ out) {
  __shared__ int rows[TOP_K], count;
  __shared__ float weights[TOP_K];
  const long long token = blockIdx.x, pick = token * TOP_K + threadIdx.x;
  if (threadIdx.x < 32) {  // one warp lists the picks that are here
    int row = NOBODY;
    if (threadIdx.x < TOP_K && expert_of[pick] < EXPERTS) row = row_of[pick];
    const unsigned here = __ballot_sync(~0u, row != NOBODY);
    const int place = __popc(here & ((1u << threadIdx.x) - 1));
    if (row != NOBODY) {
      rows[place] = row;
      weights[place] = weight[pick];
    }
    if (threadIdx.x == 0) count = __popc(here);
  }
  __syncthreads();
  const int listed = count;
#pragma unroll 4
  for (int col = threadIdx.x * 4; col < hidden; col += THREADS * 4) {
    float4 sum = {0, 0, 0, 0};
    for (int i = 0; i < listed; ++i) {
      const float4 part = load_four(y + static_cast<long long>(rows[i]) * hidden + col);
      const float w = weights[i];
      sum = {sum.x + w * part.x, sum.y + w * part.y, sum.z + w * part.z, sum.w + w * part.w};
    }
    __nv_bfloat162* to = reinterpret_cast<__nv_bfloat162*>(out + token * hidden + col);
    to[0] = __floats2bfloat162_rn(sum.x, sum.y);
    to[1] = __floats2bfloat162_rn(sum.z, sum.w);
  }
}

// --- the layer -----------------------------------------------------------------------------------

struct Sizes {
  int tokens, hidden, intermediate;
  // Rows that memory is there for: a token has 1.1 picks here on average.
  int capacity() const { return round_up(tokens + tokens / 4, 4) + 16 * EXPERTS; }
};

// One of the two products: N and K of each expert's weights, e4m3 [EXPERTS][n][k], with scales
// [EXPERTS][n / 128][k / 128, rounded up to a multiple of 4 as cuBLASLt wants it].
struct Weights {
  int n, k;
  uint64_t seed;
  float spread;  // the standard deviation, a power of two
  DeviceBuffer q, scale;
  int ld_scale() const { return round_up(k / BLOCK, 4); }
};

// What a layer is given.
struct Input {
  Sizes sizes;
  Weights gate_up, down;
  DeviceBuffer x, expert_of, weight;  // [tokens][hidden], [tokens][TOP_K], the same
  std::vector<int> picks;             // of expert_of, on the host
};

constexpr int STEPS = 6;

// The layer's memory in between. by_expert: as a call for each expert wants it, its rows beginning
// at multiples of CALL_ROWS and its scales together.
struct Layer {
  const Input& in;
  bool by_expert;
  int capacity;
  DeviceBuffer offsets, row_of, token_of, a, scale_a, h, b, scale_b, y, out, error;

  Layer(const Input& input, bool call_for_each_expert)
      : in(input), by_expert(call_for_each_expert), capacity(input.sizes.capacity()) {
    const size_t rows = capacity, hidden = in.sizes.hidden, inner = in.sizes.intermediate;
    offsets = DeviceBuffer(sizeof(int) * (EXPERTS + 1));
    row_of = DeviceBuffer(sizeof(int) * in.sizes.tokens * TOP_K);
    token_of = DeviceBuffer(sizeof(int) * rows);
    a = DeviceBuffer(rows * hidden);
    scale_a = DeviceBuffer(sizeof(float) * rows * (hidden / BLOCK));
    h = DeviceBuffer(sizeof(bf16) * rows * 2 * inner);
    b = DeviceBuffer(rows * inner);
    scale_b = DeviceBuffer(sizeof(float) * rows * (inner / BLOCK));
    y = DeviceBuffer(sizeof(bf16) * rows * hidden);
    out = DeviceBuffer(sizeof(bf16) * in.sizes.tokens * hidden);
    error = DeviceBuffer(sizeof(int));
    // A tile is read to its end, behind the last row too; what comes of that is not stored.
    for (const DeviceBuffer* each : {&a, &scale_a, &b, &scale_b}) {
      check_cuda(cudaMemset(each->data(), 0, each->bytes()), "cudaMemset");
    }
  }

  ScaleLayout layout(int k) const { return {offsets.as<int>(), k / BLOCK, capacity, by_expert}; }
};

// One of a layer's two products, for all experts.
struct Product {
  const Weights& weights;
  const DeviceBuffer &a, &scale_a, &d;
};
Product gate_up_of(const Layer& layer) {
  return {layer.in.gate_up, layer.a, layer.scale_a, layer.h};
}
Product down_of(const Layer& layer) {
  return {layer.in.down, layer.b, layer.scale_b, layer.y};
}

using Multiply = std::function<void(const Product&, cudaStream_t)>;
using Mark = std::function<void(int step)>;  // is told before each step, and after the last

void no_mark(int) {}

void run(const Layer& layer, const Multiply& multiply, cudaStream_t stream,
         const Mark& mark = no_mark) {
  const Sizes& sizes = layer.in.sizes;
  static const int ctas = 5 * ladder::sm_count();  // of quantize(), as many as fit at once
  mark(0);
  place<<<EXPERTS, PLACERS, 0, stream>>>(
      layer.in.expert_of.as<int>(), sizes.tokens * TOP_K, layer.by_expert ? CALL_ROWS : 1,
      layer.capacity, layer.offsets.as<int>(), layer.row_of.as<int>(), layer.token_of.as<int>());
  mark(1);
  quantize<<<ctas, THREADS, 0, stream>>>(
      Gathered{layer.in.x.as<bf16>(), layer.token_of.as<int>(), sizes.hidden},
      layer.layout(sizes.hidden), layer.capacity, layer.a.as<e4m3>(), layer.scale_a.as<float>());
  mark(2);
  multiply(gate_up_of(layer), stream);
  mark(3);
  quantize<<<ctas, THREADS, 0, stream>>>(Activated{layer.h.as<bf16>(), sizes.intermediate},
                                         layer.layout(sizes.intermediate), layer.capacity,
                                         layer.b.as<e4m3>(), layer.scale_b.as<float>());
  mark(4);
  multiply(down_of(layer), stream);
  mark(5);
  combine<<<sizes.tokens, THREADS, 0, stream>>>(layer.y.as<bf16>(), layer.in.expert_of.as<int>(),
                                                layer.row_of.as<int>(), layer.in.weight.as<float>(),
                                                sizes.hidden, layer.out.as<bf16>());
  mark(6);
  check_cuda(cudaGetLastError(), "a launch");
}

void check_call(int status) {
  if (status != LADDER_OK) throw ladder::CudaError(ladder_last_error());
}

// --- three ways to multiply ----------------------------------------------------------------------

// All experts in one launch; their sizes stay on the GPU.
Multiply grouped(const Layer& layer) {
  return [&layer](const Product& p, cudaStream_t stream) {
    const Weights& w = p.weights;
    check_call(ladder_gemm_grouped(0, LADDER_E4M3, 0, EXPERTS, layer.capacity, w.n, w.k, p.a.data(),
                                   w.k, p.scale_a.as<float>(), layer.capacity, w.q.data(), w.k,
                                   w.scale.as<float>(), w.ld_scale(), p.d.data(), w.n,
                                   layer.offsets.as<int>(), layer.error.as<int>(), stream));
  };
}

// An expert's part of a product, whose rows the host knows.
ladder::LibraryCall part_of(const Product& p, const std::vector<int>& offsets, int expert,
                            cudaStream_t stream) {
  const Weights& w = p.weights;
  const int rows = offsets[expert + 1] - offsets[expert];
  const size_t first = offsets[expert], n = w.n, k = w.k;
  ladder::LibraryCall call{};
  call.m = rows;
  call.n = w.n;
  call.k = w.k;
  call.type_in = CUDA_R_8F_E4M3;
  call.type_out = CUDA_R_16BF;
  call.a = p.a.as<e4m3>() + first * k;
  call.b = w.q.as<e4m3>() + expert * n * k;
  call.d = p.d.as<bf16>() + first * n;
  call.lda = call.ldb = w.k;
  call.ldd = w.n;
  call.stream = stream;
  call.scales = ladder::LibraryScales::blocks;
  call.scale_a = p.scale_a.as<float>() + first * (k / BLOCK);
  call.scale_b = w.scale.as<float>() + expert * (n / BLOCK) * w.ld_scale();
  return call;
}

// ladder_gemm_block_scaled() for each expert.
Multiply call_for_each(const std::vector<int>& offsets) {
  return [offsets](const Product& p, cudaStream_t stream) {
    for (int expert = 0; expert < EXPERTS; ++expert) {
      const ladder::LibraryCall c = part_of(p, offsets, expert, stream);
      check_call(ladder_gemm_block_scaled(0, LADDER_E4M3, c.m, c.n, c.k, c.a, c.lda, c.scale_a, c.m,
                                          c.b, c.ldb, c.scale_b, p.weights.ld_scale(), c.d, c.ldd,
                                          stream));
    }
  };
}

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  void record(cudaStream_t stream) const {
    check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  void hold(cudaStream_t stream) const {
    check_cuda(cudaStreamWaitEvent(stream, event_), "cudaStreamWaitEvent");
  }
  double us_since(const Event& start) const {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, start.event_, event_), "cudaEventElapsedTime");
    return 1e3 * ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// cuBLASLt for each expert, on one stream or on several that the layer's waits for. Each product
// has the fastest of 24 algorithms, timed when its operands are not in L2.
class Library {
 public:
  Library(const Layer& layer, const std::vector<int>& offsets, int streams)
      : offsets_(offsets), handles_(streams), streams_(streams), joined_(streams) {
    for (cudaStream_t& stream : streams_) {
      check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    }
    for (const Product& product : {gate_up_of(layer), down_of(layer)}) {
      for (int expert = 0; expert < EXPERTS; ++expert) choose(product, expert);
    }
  }
  ~Library() {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }
  Library(const Library&) = delete;

  Multiply multiply() {
    return [this](const Product& p, cudaStream_t stream) {
      start_.record(stream);
      for (int expert = 0; expert < EXPERTS; ++expert) {
        const size_t i = expert % streams_.size();
        const cudaStream_t on = streams_.size() == 1 ? stream : streams_[i];
        if (on != stream && static_cast<size_t>(expert) == i) start_.hold(on);
        const auto& algorithm = chosen_[&p.weights == first_][expert];
        if (algorithm) handles_[i].run(*algorithm, part_of(p, offsets_, expert, on));
      }
      for (size_t i = 0; streams_.size() > 1 && i < streams_.size(); ++i) {
        joined_[i].record(streams_[i]);
        joined_[i].hold(stream);
      }
    };
  }

 private:
  void choose(const Product& p, int expert) {
    static const DeviceBuffer flushed(size_t{128} << 20);  // twice the L2
    if (first_ == nullptr) first_ = &p.weights;
    const cudaStream_t stream = streams_[0];
    const ladder::LibraryCall call = part_of(p, offsets_, expert, stream);
    double least = 1e30;
    std::string why;
    std::shared_ptr<ladder::CublasLt::Algorithm> best;
    const auto candidates = call.m > 0
                                ? handles_[0].candidates(call)
                                : std::vector<std::shared_ptr<ladder::CublasLt::Algorithm>>();
    for (const auto& each : candidates) {
      for (int time = 0; time < 3; ++time) {
        check_cuda(cudaMemsetAsync(flushed.data(), time, flushed.bytes(), stream), "cudaMemset");
        start_.record(stream);
        try {
          handles_[0].run(*each, call);
        } catch (const ladder::CudaError& error) {
          cudaGetLastError();  // the heuristics offer what does not always run
          why = error.what();
          break;
        }
        stop_.record(stream);
        check_cuda(cudaStreamSynchronize(stream), "cuBLASLt");
        const double us = stop_.us_since(start_);
        if (time > 0 && us < least) {
          least = us;
          best = each;
        }
      }
    }
    if (call.m > 0 && !best) {
      throw ladder::CudaError(
          format("cuBLASLt has no algorithm for %d rows, of %zu that it names: %s", call.m,
                 candidates.size(), why.c_str()));
    }
    chosen_[&p.weights == first_].push_back(best);
  }

  std::vector<int> offsets_;
  std::vector<ladder::CublasLt> handles_;  // one a stream: each has a workspace
  std::vector<cudaStream_t> streams_;
  std::vector<Event> joined_;
  Event start_, stop_;
  const Weights* first_ = nullptr;
  std::vector<std::shared_ptr<ladder::CublasLt::Algorithm>> chosen_[2];  // [is the first][expert]
};

// --- the data ------------------------------------------------------------------------------------

template <class T>
DeviceBuffer on_device(const std::vector<T>& from) {
  DeviceBuffer to(sizeof(T) * from.size());
  check_cuda(cudaMemcpy(to.data(), from.data(), to.bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  return to;
}

template <class T>
std::vector<T> on_host(const DeviceBuffer& from) {
  std::vector<T> to(from.bytes() / sizeof(T));
  check_cuda(cudaMemcpy(to.data(), from.data(), from.bytes(), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  return to;
}

constexpr uint64_t SEED_X = 1, SEED_GATE_UP = 2, SEED_DOWN = 3, SEED_PICKS = 4;

DeviceBuffer normal(int rows, int cols, uint64_t seed) {
  DeviceBuffer x(sizeof(bf16) * rows * cols);
  const auto fill = ladder::on_machine() ? ladder::fill_from_host<bf16> : ladder::fill_gpu<bf16>;
  fill(x.as<bf16>(), rows, cols, cols, ladder::Data::normal, seed, nullptr);
  return x;
}
// The same element.
double normal_at(uint64_t seed, uint64_t index) {
  return __bfloat162float(__float2bfloat16(ladder::data_value(ladder::Data::normal, seed, index)));
}

// Quantized from normal data that make sums of about 1 of activations of about 1.
Weights make_weights(int n, int k, uint64_t seed) {
  Weights made{n, k, seed, 1, DeviceBuffer(size_t{EXPERTS} * n * k), DeviceBuffer()};
  while (made.spread * made.spread * k > 2) made.spread /= 2;
  std::vector<float> scale(size_t{EXPERTS} * (n / BLOCK) * made.ld_scale());
  made.scale = on_device(scale);
  const DeviceBuffer w = normal(EXPERTS * n, k, seed);
  check_call(ladder_quantize(LADDER_E4M3, BLOCK, EXPERTS * n, k, w.data(), k, made.q.data(), k,
                             made.scale.as<float>(), made.ld_scale(), nullptr));
  scale = on_host<float>(made.scale);
  for (float& s : scale) s *= made.spread;
  made.scale = on_device(scale);
  return made;
}

// Tokens that have picked 8 different experts of 256 at random, of which at least one is here:
// those that are sent to this GPU. Weights of a token's picks are positive and add up to 1.
Input make_input(const Sizes& sizes) {
  Input made{sizes,
             make_weights(2 * sizes.intermediate, sizes.hidden, SEED_GATE_UP),
             make_weights(sizes.hidden, sizes.intermediate, SEED_DOWN),
             normal(sizes.tokens, sizes.hidden, SEED_X),
             DeviceBuffer(),
             DeviceBuffer(),
             {}};
  std::vector<float> weight;
  uint64_t state = SEED_PICKS;
  for (int token = 0; token < sizes.tokens;) {
    std::vector<int> picks;
    while (picks.size() < TOP_K) {
      const int picked = static_cast<int>((state = ladder::hash64(state)) % ALL_EXPERTS);
      if (std::find(picks.begin(), picks.end(), picked) == picks.end()) picks.push_back(picked);
    }
    if (*std::min_element(picks.begin(), picks.end()) >= EXPERTS) continue;
    std::vector<float> parts;
    for (int i = 0; i < TOP_K; ++i) {
      parts.push_back(1.0f + static_cast<float>((state = ladder::hash64(state)) % 1024));
    }
    const float sum = std::accumulate(parts.begin(), parts.end(), 0.0f);
    for (const float part : parts) weight.push_back(part / sum);
    made.picks.insert(made.picks.end(), picks.begin(), picks.end());
    ++token;
  }
  made.expert_of = on_device(made.picks);
  made.weight = on_device(weight);
  return made;
}

// --- checking ------------------------------------------------------------------------------------

// What place has to find.
struct Placed {
  std::vector<int> offsets, row_of, token_of;
};

Placed place_on_host(const Input& in, int align) {
  Placed made{{0}, std::vector<int>(in.picks.size(), NOBODY), {}};
  for (int expert = 0; expert < EXPERTS; ++expert) {
    for (size_t i = 0; i < in.picks.size(); ++i) {
      if (in.picks[i] != expert) continue;
      made.row_of[i] = static_cast<int>(made.token_of.size());
      made.token_of.push_back(static_cast<int>(i) / TOP_K);
    }
    made.token_of.resize(round_up(static_cast<int>(made.token_of.size()), align), NOBODY);
    made.offsets.push_back(static_cast<int>(made.token_of.size()));
  }
  return made;
}

double silu(double x) {
  return x / (1 + std::exp(-x));
}

// Every `step`-th row of what each of a layer's steps made, judged by what the step before made; ""
// or what is wrong. `few` takes some columns of the products instead of all.
class Judge {
 public:
  Judge(const Layer& layer, bool few)
      : layer_(layer),
        sizes_(layer.in.sizes),
        placed_(place_on_host(layer.in, layer.by_expert ? CALL_ROWS : 1)),
        row_step_(few ? 97 : 1),
        col_step_(few ? 61 : 1) {}

  std::string failure() const {
    for (const std::string& wrong :
         {placed(), gathered(), multiplied(gate_up_of(layer_), "gate_up"), activated(),
          multiplied(down_of(layer_), "down"), combined()}) {
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  int rows() const { return placed_.offsets[EXPERTS]; }

  std::string placed() const {
    std::vector<int> token_of = on_host<int>(layer_.token_of);
    token_of.resize(placed_.token_of.size());
    if (on_host<int>(layer_.offsets) != placed_.offsets) return "place: wrong offsets";
    const std::vector<int> row_of = on_host<int>(layer_.row_of);
    for (size_t i = 0; i < row_of.size(); ++i) {
      if (placed_.row_of[i] != NOBODY && row_of[i] != placed_.row_of[i]) return "place: wrong rows";
    }
    return token_of == placed_.token_of ? "" : "place: wrong tokens";
  }

  ScaleLayout layout(int k) const {
    return {placed_.offsets.data(), k / BLOCK, layer_.capacity, layer_.by_expert};
  }

  // Bit for bit.
  std::string gathered() const {
    const auto x = on_host<bf16>(layer_.in.x);
    const auto q = on_host<e4m3>(layer_.a);
    const auto scale = on_host<float>(layer_.scale_a);
    const size_t k = sizes_.hidden;
    for (int row = 0; row < rows(); row += row_step_) {
      const int token = placed_.token_of[row];
      for (size_t block = 0; block < k / BLOCK; ++block) {
        float value[BLOCK] = {}, largest = 0;
        for (int i = 0; i < BLOCK && token != NOBODY; ++i) {
          value[i] = __bfloat162float(x[token * k + block * BLOCK + i]);
          largest = std::max(largest, std::abs(value[i]));
        }
        const float s = largest > 0 ? largest / LARGEST : 1;
        bool right = scale[layout(sizes_.hidden).of(row).at(static_cast<int>(block))] == s;
        for (int i = 0; i < BLOCK; ++i) {
          right = right && q[row * k + block * BLOCK + i].__x == e4m3(value[i] / s).__x;
        }
        if (!right) return format("gather: row %d, block %zu", row, block);
      }
    }
    return "";
  }

  std::string multiplied(const Product& p, const char* name) const {
    const auto a = on_host<e4m3>(p.a), b = on_host<e4m3>(p.weights.q);
    const auto scale_a = on_host<float>(p.scale_a), scale_b = on_host<float>(p.weights.scale);
    const auto d = on_host<bf16>(p.d);
    const size_t n = p.weights.n, k = p.weights.k, ld = p.weights.ld_scale();
    for (int row = 0, expert = 0; row < rows(); row += row_step_) {
      while (row >= placed_.offsets[expert + 1]) ++expert;
      for (size_t col = 0; col < n; col += col_step_) {
        double r = 0, s = 0;
        ladder::E4m3Loss loss;
        for (size_t block = 0; block < k / BLOCK; ++block) {
          const double scale =
              double{scale_a[layout(static_cast<int>(k)).of(row).at(static_cast<int>(block))]} *
              scale_b[(expert * (n / BLOCK) + col / BLOCK) * ld + block];
          double sum = 0;
          for (size_t at = block * BLOCK; at < (block + 1) * BLOCK; at += ladder::E4M3_SUM_K) {
            double before = sum, largest = 0;
            int signs = 0;
            for (size_t i = at; i < at + ladder::E4M3_SUM_K; ++i) {
              const double product =
                  double{float(a[row * k + i])} * float(b[(expert * n + col) * k + i]);
              sum += product;
              s += std::abs(scale * product);
              largest = std::max(largest, std::abs(product));
              signs += (product > 0) - (product < 0);
            }
            loss.add(scale, largest, signs, before, sum);
          }
          r += scale * sum;
        }
        const double found = __bfloat162float(d[row * n + col]);
        if (ladder::within_tolerance(found, r, ladder::s_with_loss(s, loss.bound()), 8)) continue;
        return format("%s: row %d, column %zu is %g but should be %g", name, row, col, found, r);
      }
    }
    return "";
  }

  // Half a step of e4m3, which is 2^-4 of a number or 2^-10 of the scale, and what __expf loses.
  std::string activated() const {
    const auto h = on_host<bf16>(layer_.h);
    const auto q = on_host<e4m3>(layer_.b);
    const auto scale = on_host<float>(layer_.scale_b);
    const size_t k = sizes_.intermediate;
    for (int row = 0; row < rows(); row += row_step_) {
      for (size_t col = 0; col < k; ++col) {
        const double gate = __bfloat162float(h[row * 2 * k + col]);
        const double up = __bfloat162float(h[row * 2 * k + k + col]);
        const double right = silu(gate) * up;
        const double s =
            scale[layout(sizes_.intermediate).of(row).at(static_cast<int>(col / BLOCK))];
        const double found = s * double{float(q[row * k + col])};
        const double bound = std::abs(right) * (1.0 / 16 + 1e-5) + s / 1024;
        if (std::abs(found - right) <= bound) continue;
        return format("swiglu: row %d, column %zu is %g but should be %g", row, col, found, right);
      }
    }
    return "";
  }

  std::string combined() const {
    const auto y = on_host<bf16>(layer_.y), out = on_host<bf16>(layer_.out);
    const auto weight = on_host<float>(layer_.in.weight);
    const size_t hidden = sizes_.hidden;
    for (size_t token = 0; token < size_t(sizes_.tokens); token += row_step_) {
      for (size_t col = 0; col < hidden; ++col) {
        double r = 0, s = 0;
        for (size_t pick = token * TOP_K; pick < (token + 1) * TOP_K; ++pick) {
          if (placed_.row_of[pick] == NOBODY) continue;
          const double part =
              weight[pick] * __bfloat162float(y[placed_.row_of[pick] * hidden + col]);
          r += part;
          s += std::abs(part);
        }
        const double found = __bfloat162float(out[token * hidden + col]);
        if (ladder::within_tolerance(found, r, s, 8)) continue;
        return format("combine: token %zu, column %zu is %g but should be %g", token, col, found,
                      r);
      }
    }
    return "";
  }

  const Layer& layer_;
  Sizes sizes_;
  Placed placed_;
  int row_step_, col_step_;
};

// What a token's experts here add to it, in double precision and with nothing quantized or rounded.
std::vector<double> exact(const Input& in, const std::vector<float>& weight, int token) {
  const size_t hidden = in.sizes.hidden, inner = in.sizes.intermediate;
  std::vector<double> out(hidden), x(hidden), activation(inner);
  for (size_t i = 0; i < hidden; ++i) x[i] = normal_at(SEED_X, token * hidden + i);
  const auto dot = [](const Weights& w, size_t row, const std::vector<double>& v) {
    double sum = 0;
    for (size_t i = 0; i < v.size(); ++i) sum += normal_at(w.seed, row * v.size() + i) * v[i];
    return sum * w.spread;
  };
  for (int pick = token * TOP_K; pick < (token + 1) * TOP_K; ++pick) {
    const size_t expert = in.picks[pick];
    if (expert >= EXPERTS) continue;
    for (size_t i = 0; i < inner; ++i) {
      const double gate = dot(in.gate_up, expert * 2 * inner + i, x);
      activation[i] = silu(gate) * dot(in.gate_up, expert * 2 * inner + inner + i, x);
    }
    for (size_t i = 0; i < hidden; ++i) {
      out[i] += weight[pick] * dot(in.down, expert * hidden + i, activation);
    }
  }
  return out;
}

// The error of some tokens' results, as a share of them.
class Exact {
 public:
  Exact(const Input& in, int tokens) {
    const auto weight = on_host<float>(in.weight);
    for (int token = 0; token < tokens; ++token) right_.push_back(exact(in, weight, token));
  }
  double error(const Layer& layer) const {
    const auto out = on_host<bf16>(layer.out);
    double wrong = 0, all = 0;
    for (size_t token = 0; token < right_.size(); ++token) {
      for (size_t i = 0; i < right_[token].size(); ++i) {
        const double r = right_[token][i];
        const double by = __bfloat162float(out[token * right_[token].size() + i]) - r;
        wrong += by * by;
        all += r * r;
      }
    }
    return std::sqrt(wrong / all);
  }

 private:
  std::vector<std::vector<double>> right_;
};

// --- timing --------------------------------------------------------------------------------------

struct Contestant {
  const char* name;
  const Layer& layer;
  Multiply multiply;
  cudaGraphExec_t graph = nullptr;
  std::vector<double> us = {};
};

constexpr int ROUNDS = 15, LAYERS = 5;  // in a graph
constexpr double REST_MS = 20;

cudaGraphExec_t capture(const Contestant& c, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  for (int i = 0; i < LAYERS; ++i) run(c.layer, c.multiply, stream);
  check_cuda(cudaStreamEndCapture(stream, &graph), "end capture");
  check_cuda(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
  check_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return made;
}

// In turns, each after a rest and an untimed replay.
void time_in_turns(std::vector<Contestant>* all, cudaStream_t stream) {
  const Event start, stop;
  for (Contestant& each : *all) each.graph = capture(each, stream);
  for (int round = 0; round < ROUNDS; ++round) {
    for (const int i : ladder::order_of_round(static_cast<int>(all->size()), round)) {
      Contestant& one = (*all)[i];
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(REST_MS));
      check_cuda(cudaGraphLaunch(one.graph, stream), "cudaGraphLaunch");
      start.record(stream);
      check_cuda(cudaGraphLaunch(one.graph, stream), "cudaGraphLaunch");
      stop.record(stream);
      check_cuda(cudaStreamSynchronize(stream), one.name);
      one.us.push_back(stop.us_since(start) / LAYERS);
    }
  }
  for (Contestant& each : *all) cudaGraphExecDestroy(each.graph);
}

__global__ void keep_busy(long long ns) {
  long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}

// When each step began, and the last ended, in microseconds; the median of several runs. The stream
// is kept busy until everything is queued, so that the host's pace does not show.
std::string trace(const Contestant& c, cudaStream_t stream) {
  constexpr int RUNS = 21;
  std::vector<Event> marks(STEPS + 1);
  std::vector<std::vector<double>> us(STEPS + 1);
  for (int i = 0; i < RUNS; ++i) {
    keep_busy<<<1, 1, 0, stream>>>(2'000'000);
    run(c.layer, c.multiply, stream, [&](int step) { marks[step].record(stream); });
    check_cuda(cudaStreamSynchronize(stream), c.name);
    for (int step = 0; step <= STEPS; ++step) us[step].push_back(marks[step].us_since(marks[0]));
  }
  std::string text;
  for (const auto& each : us) text += format("%.2f ", ladder::median(each));
  text.pop_back();
  return text;
}

// --- the program ---------------------------------------------------------------------------------

// Returns whether everything was right.
bool run_layer(const Sizes& sizes) {
  const bool machine = ladder::on_machine();
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  const Input in = make_input(sizes);
  const Layer together(in, false), apart(in, true);
  const std::vector<int> offsets = place_on_host(in, CALL_ROWS).offsets;
  check_cuda(cudaDeviceSynchronize(), "the input");

  std::unique_ptr<Library> one_stream, eight_streams;
  std::vector<Contestant> all = {{"grouped", together, grouped(together)},
                                 {"calls", apart, call_for_each(offsets)}};
  if (!machine) {
    run(apart, all[1].multiply, stream);  // operands to choose cuBLASLt's algorithms by
    check_cuda(cudaStreamSynchronize(stream), "a layer");
    one_stream = std::make_unique<Library>(apart, offsets, 1);
    eight_streams = std::make_unique<Library>(apart, offsets, 8);
    all.push_back({"cublas", apart, one_stream->multiply()});
    all.push_back({"cublas_8", apart, eight_streams->multiply()});
  }

  const int rows = place_on_host(in, 1).offsets[EXPERTS];
  ladder::JsonObject line;
  line.add("tokens", sizes.tokens)
      .add("hidden", sizes.hidden)
      .add("intermediate", sizes.intermediate);
  line.add("rows", rows);
  const Exact exact(in, machine ? sizes.tokens : 3);
  bool right = true;
  for (const Contestant& each : all) {
    const Layer& layer = each.layer;
    check_cuda(cudaMemset(layer.out.data(), 0xff, layer.out.bytes()), "cudaMemset");
    check_cuda(cudaMemset(layer.y.data(), 0xff, layer.y.bytes()), "cudaMemset");
    check_cuda(cudaMemset(layer.h.data(), 0xff, layer.h.bytes()), "cudaMemset");
    check_cuda(cudaDeviceSynchronize(), "cudaMemset");
    run(layer, each.multiply, stream);
    check_cuda(cudaStreamSynchronize(stream), each.name);
    std::string wrong = Judge(layer, !machine).failure();
    if (!layer.by_expert && on_host<int>(layer.error)[0] != 0) wrong = "the error flag is set";
    std::printf("%-9s %d tokens, %d rows: %s, error %.2f %%\n", each.name, sizes.tokens, rows,
                wrong.empty() ? "every step is right" : wrong.c_str(), 100 * exact.error(layer));
    right = right && wrong.empty();
    line.add(std::string(each.name) + "_error", exact.error(layer));
  }
  if (!machine && right) {
    time_in_turns(&all, stream);
    for (const Contestant& each : all) {
      const std::string name = each.name;
      line.add(name + "_us", ladder::median(each.us))
          .add(name + "_p10", ladder::quantile(each.us, 0.1));
      line.add(name + "_p90", ladder::quantile(each.us, 0.9))
          .add(name + "_trace", trace(each, stream));
    }
    std::printf("%s\n", line.line().c_str());
    std::fflush(stdout);
  }
  return right;
}

int main_of(int argc, char** argv) {
  const ladder::DeviceInfo& device = ladder::query_device();
  const bool machine = ladder::on_machine();
  std::vector<int> tokens = machine ? std::vector<int>{20} : std::vector<int>{512, 1024, 4096};
  Sizes sizes = machine ? Sizes{0, 256, 128} : Sizes{0, 7168, 2048};
  if (argc > 1) tokens = {std::atoi(argv[1])};
  if (argc > 3) sizes = {0, std::atoi(argv[2]), std::atoi(argv[3])};
  if (argc == 3 || argc > 4 || tokens[0] < 1 || sizes.hidden < BLOCK || sizes.hidden % BLOCK != 0 ||
      sizes.intermediate < BLOCK || sizes.intermediate % BLOCK != 0) {
    std::fprintf(stderr,
                 "usage: moe_layer [TOKENS [HIDDEN INTERMEDIATE]], the last two multiples of 128, "
                 "such as 512 7168 2048\n");
    return 2;
  }
  if (!machine) {
    ladder::JsonObject head;
    head.add("gpu", device.name).add("cublas", ladder::CublasLt::version());
    std::printf("%s\n", head.line().c_str());
  }
  bool right = true;
  for (const int count : tokens) {
    sizes.tokens = count;
    right = run_layer(sizes) && right;
  }
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return main_of(argc, argv);
  } catch (const ladder::NoDevice& none) {
    std::fprintf(stderr, "%s\n", none.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "FAIL: %s\n", error.what());
    return 1;
  }
}
