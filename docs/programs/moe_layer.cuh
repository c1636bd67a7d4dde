// One layer of a mixture of experts, as the GPU computes it that holds 8 of DeepSeek-V3's 256
// experts. Each token has picked 8 of all experts, at least one of them here. Six steps, nothing of
// which waits for the host or asks it for a size:
//
//   place    a row for each pick, those of an expert next to each other; where experts begin
//   gather   the rows of the tokens, bf16, quantized to e4m3 with a scale for every 128
//   gate_up  rows [.][hidden] by each expert's gate and up, [2 * intermediate][hidden]
//   swiglu   silu(gate) * up, quantized
//   down     by each expert's [hidden][intermediate]
//   combine  a token's rows, times its weights of their experts, added up
//
// The products are ladder_gemm_grouped(), or whatever else multiplies: moe_layer.cu compares.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/verify.h"

namespace moe {

using ladder::check_cuda;
using ladder::DeviceBuffer;
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
// no memory for its expert; token_of [capacity]: the other way. Rows are in the order of the tokens, so
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
  if (behind > capacity) {  // the products skip the expert: none of its rows counts
    __syncthreads();
    for (int i = thread; i < picks; i += PLACERS) {
      if (expert_of[i] == expert) row_of[i] = NOBODY;
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
      : Layer(input, call_for_each_expert, input.sizes.capacity()) {}
  Layer(const Input& input, bool call_for_each_expert, int capacity_of_all)
      : in(input), by_expert(call_for_each_expert), capacity(capacity_of_all) {
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
  }

  ScaleLayout layout(int k) const { return {offsets.as<int>(), k / BLOCK, capacity, by_expert}; }
};

// One of a layer's two products, for all experts.
struct Product {
  const Weights& weights;
  const DeviceBuffer &a, &scale_a, &d;
};
inline Product gate_up_of(const Layer& layer) {
  return {layer.in.gate_up, layer.a, layer.scale_a, layer.h};
}
inline Product down_of(const Layer& layer) {
  return {layer.in.down, layer.b, layer.scale_b, layer.y};
}

using Multiply = std::function<void(const Product&, cudaStream_t)>;
using Mark = std::function<void(int step)>;  // is told before each step, and after the last

inline void no_mark(int) {}

inline void run(const Layer& layer, const Multiply& multiply, cudaStream_t stream,
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

inline void check_call(int status) {
  if (status != LADDER_OK) throw ladder::CudaError(ladder_last_error());
}

// All experts in one launch; their sizes stay on the GPU.
inline Multiply grouped(const Layer& layer) {
  return [&layer](const Product& p, cudaStream_t stream) {
    const Weights& w = p.weights;
    check_call(ladder_gemm_grouped(0, LADDER_E4M3, 0, EXPERTS, layer.capacity, w.n, w.k, p.a.data(),
                                   w.k, p.scale_a.as<float>(), layer.capacity, w.q.data(), w.k,
                                   w.scale.as<float>(), w.ld_scale(), p.d.data(), w.n,
                                   layer.offsets.as<int>(), layer.error.as<int>(), stream));
  };
}

}  // namespace moe
