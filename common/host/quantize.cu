// ladder_quantize: a warp, or for blocks of 128 rows a CTA, finds a block's largest magnitude and
// divides by the scale that follows from it.
#include "common/host/quantize.h"

#include <cuda_fp8.h>

#include <algorithm>
#include <bit>
#include <type_traits>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/text.h"
#include "common/host/validate.h"

namespace ladder {
namespace {

constexpr int MAX_DIM = 1 << 30;
constexpr long long MAX_ELEMENTS = 1LL << 39;  // of x: 2^40 bytes
constexpr int WARPS = 8, THREADS = WARPS * 32;
constexpr int LANE_COLS = SCALE_BLOCK / 32;  // of a row of a block, a lane has four neighbours
constexpr long long MAX_CTAS = 1 << 16;      // they take more than one item each, if they must

template <class Q>
constexpr float LARGEST = 448;
template <>
constexpr float LARGEST<s8> = 127;

// A bf16 without its sign, as an integer that sorts as it does; 0 if it is not finite.
LADDER_HOST_DEVICE uint32_t finite_magnitude(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fffu;
  return magnitude < 0x7f80u ? magnitude : 0;
}

template <class Q>
LADDER_HOST_DEVICE float scale_of(uint32_t largest_magnitude) {
  return largest_magnitude == 0 ? 1.0f : std::bit_cast<float>(largest_magnitude << 16) / LARGEST<Q>;
}

// --- on the GPU ----------------------------------------------------------------------------------

// The bits of x / scale as a Q.
template <class Q>
__device__ uint32_t quantized(uint16_t x, float scale) {
  const float value = __fdiv_rn(__uint_as_float(static_cast<uint32_t>(x) << 16), scale);
  if constexpr (std::is_same_v<Q, s8>) {
    const int rounded =
        max(-127, min(127, __float2int_rn(value)));  // the conversion makes 0 of NaN
    return static_cast<uint32_t>(rounded) & 0xffu;
  } else {
    return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  }
}

// Four neighbouring elements; columns from `cols` on read as 0.
__device__ ushort4 load_four(const uint16_t* row, int col, int cols) {
  if (col + LANE_COLS <= cols) return *reinterpret_cast<const ushort4*>(row + col);
  ushort4 four = {0, 0, 0, 0};
  if (col < cols) four.x = row[col];
  if (col + 1 < cols) four.y = row[col + 1];
  if (col + 2 < cols) four.z = row[col + 2];
  return four;
}

template <class Q>
__device__ void store_four(Q* row, int col, int cols, ushort4 x, float scale) {
  const uint32_t four = quantized<Q>(x.x, scale) | quantized<Q>(x.y, scale) << 8 |
                        quantized<Q>(x.z, scale) << 16 | quantized<Q>(x.w, scale) << 24;
  if (col + LANE_COLS <= cols) {
    *reinterpret_cast<uint32_t*>(row + col) = four;
    return;
  }
  auto* bytes = reinterpret_cast<unsigned char*>(row);
  for (int i = 0; i < LANE_COLS && col + i < cols; ++i) {
    bytes[col + i] = static_cast<unsigned char>(four >> 8 * i);
  }
}

__device__ uint32_t largest_of(ushort4 x) {
  return max(max(finite_magnitude(x.x), finite_magnitude(x.y)),
             max(finite_magnitude(x.z), finite_magnitude(x.w)));
}

// An item is WARPS rows of a block along K, a row a warp.
template <class Q>
__global__ __launch_bounds__(THREADS) void quantize_rows(QuantizeArgs args, long long items) {
  const auto* x = reinterpret_cast<const uint16_t*>(args.x);
  Q* q = static_cast<Q*>(args.q);
  const long long blocks = scale_blocks(args.cols);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (long long item = blockIdx.x; item < items; item += gridDim.x) {
    const long long row = item / blocks * WARPS + warp, block = item % blocks;
    const int col = static_cast<int>(block) * SCALE_BLOCK + lane * LANE_COLS;
    if (row >= args.rows) continue;
    const ushort4 four = load_four(x + row * args.ldx, col, args.cols);
    const float scale = scale_of<Q>(__reduce_max_sync(~0u, largest_of(four)));
    store_four(q + row * args.ldq, col, args.cols, four, scale);
    if (lane == 0) args.scale[block * args.ld_scale + row] = scale;
  }
}

// An item is a block of 128 rows, of which a warp has every WARPS-th.
template <class Q>
__global__ __launch_bounds__(THREADS) void quantize_squares(QuantizeArgs args, long long items) {
  __shared__ uint32_t largest_of_warp[2][WARPS];  // items take turns
  const auto* x = reinterpret_cast<const uint16_t*>(args.x);
  Q* q = static_cast<Q*>(args.q);
  const long long blocks = scale_blocks(args.cols);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int turn = 0;
  for (long long item = blockIdx.x; item < items; item += gridDim.x, turn ^= 1) {
    const long long row0 = item / blocks * SCALE_BLOCK, block = item % blocks;
    const int col = static_cast<int>(block) * SCALE_BLOCK + lane * LANE_COLS;
    ushort4 four[SCALE_BLOCK / WARPS];
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < SCALE_BLOCK / WARPS; ++i) {
      const long long row = row0 + i * WARPS + warp;
      four[i] =
          row < args.rows ? load_four(x + row * args.ldx, col, args.cols) : ushort4{0, 0, 0, 0};
      largest = max(largest, largest_of(four[i]));
    }
    largest = __reduce_max_sync(~0u, largest);
    if (lane == 0) largest_of_warp[turn][warp] = largest;
    __syncthreads();
    for (int i = 0; i < WARPS; ++i) largest = max(largest, largest_of_warp[turn][i]);
    const float scale = scale_of<Q>(largest);
#pragma unroll
    for (int i = 0; i < SCALE_BLOCK / WARPS; ++i) {
      const long long row = row0 + i * WARPS + warp;
      if (row < args.rows) store_four(q + row * args.ldq, col, args.cols, four[i], scale);
    }
    if (threadIdx.x == 0) args.scale[row0 / SCALE_BLOCK * args.ld_scale + block] = scale;
  }
}

template <class Q>
void launch(const QuantizeArgs& args) {
  const bool rows = args.block_rows == 1;
  const long long groups = rows ? (args.rows + WARPS - 1LL) / WARPS : scale_blocks(args.rows);
  const long long items = groups * scale_blocks(args.cols);
  const auto ctas = static_cast<unsigned>(std::min(items, MAX_CTAS));
  if (rows) {
    quantize_rows<Q><<<ctas, THREADS, 0, args.stream>>>(args, items);
  } else {
    quantize_squares<Q><<<ctas, THREADS, 0, args.stream>>>(args, items);
  }
  check_cuda(cudaGetLastError(), "launch of ladder_quantize");
}

// --- on the host ---------------------------------------------------------------------------------

template <class Q>
void quantize_block(const QuantizeArgs& args, long long row0, long long col0, float* scale) {
  const auto* x = reinterpret_cast<const uint16_t*>(args.x);
  const long long row1 = std::min<long long>(row0 + args.block_rows, args.rows);
  const long long col1 = std::min<long long>(col0 + SCALE_BLOCK, args.cols);
  uint32_t largest = 0;
  for (long long row = row0; row < row1; ++row) {
    for (long long col = col0; col < col1; ++col) {
      largest = std::max(largest, finite_magnitude(x[row * args.ldx + col]));
    }
  }
  *scale = scale_of<Q>(largest);
  for (long long row = row0; row < row1; ++row) {
    for (long long col = col0; col < col1; ++col) {
      const uint32_t bits = static_cast<uint32_t>(x[row * args.ldx + col]) << 16;
      static_cast<Q*>(args.q)[row * args.ldq + col] =
          Element<Q>::from_float(std::bit_cast<float>(bits) / *scale);
    }
  }
}

template <class Q>
void quantize_matrix(const QuantizeArgs& args) {
  const bool rows = args.block_rows == 1;
  for (long long row = 0; row < args.rows; row += args.block_rows) {
    for (long long col = 0; col < args.cols; col += SCALE_BLOCK) {
      const long long block = col / SCALE_BLOCK;
      const long long at =
          rows ? block * args.ld_scale + row : row / SCALE_BLOCK * args.ld_scale + block;
      quantize_block<Q>(args, row, col, args.scale + at);
    }
  }
}

void check_size(std::vector<std::string>* wrong, const char* name, int* value) {
  const int nearest = std::clamp(*value, 0, MAX_DIM);
  if (nearest == *value) return;
  wrong->push_back(format("%s is %d: a size must be from 0 to 2^30; the nearest that works is %d.",
                          name, *value, nearest));
  *value = nearest;
}

}  // namespace

std::string quantize_violations(const QuantizeArgs& args) {
  std::vector<std::string> wrong;
  check_choice(&wrong, "type", args.type, {LADDER_E4M3, LADDER_S8}, "3 (e4m3) or 4 (s8)");
  const bool by_rows = check_choice(&wrong, "block_rows", args.block_rows, {1, SCALE_BLOCK},
                                    "1 (as of A) or 128 (as of B)") == 1;
  int rows = args.rows, cols = args.cols;
  check_size(&wrong, "rows", &rows);
  check_size(&wrong, "cols", &cols);
  if (rows == 0 || cols == 0) return join(wrong, "\n");
  const int most = static_cast<int>(std::min<long long>(MAX_DIM, MAX_ELEMENTS / (cols + 16LL)));
  if (rows > most) {
    wrong.push_back(
        format("rows is %d: with cols = %d, x would span more than 2^40 bytes; the nearest that "
               "works is %d.",
               rows, cols, most));
    rows = most;
  }
  SideMatrix x{"x",  "ldx",    "rows x cols", "cols", args.x, rows,
               cols, args.ldx, sizeof(bf16),  16,     8};
  SideMatrix q{"q", "ldq", "rows x cols", "cols", args.q, rows, cols, args.ldq, 1, 16, 16};
  SideMatrix scale{"scale",
                   "ld_scale",
                   by_rows ? "ceil(cols/128) x rows" : "ceil(rows/128) x ceil(cols/128)",
                   by_rows ? "rows" : "ceil(cols/128)",
                   args.scale,
                   by_rows ? scale_blocks(cols) : scale_blocks(rows),
                   by_rows ? rows : scale_blocks(cols),
                   args.ld_scale,
                   sizeof(float),
                   4,
                   1};
  check_side_matrix(&wrong, &x);
  check_side_matrix(&wrong, &q);
  check_side_matrix(&wrong, &scale);
  check_side_overlap(&wrong, &q, {x});
  check_side_overlap(&wrong, &scale, {x, q});
  return join(wrong, "\n");
}

void quantize(const QuantizeArgs& args) {
  const std::string wrong = quantize_violations(args);
  if (!wrong.empty()) throw Refused(wrong);
  query_device();
  if (args.rows == 0 || args.cols == 0) return;
  cudaGetLastError();  // an error that an earlier call left behind is not this launch's
  if (args.type == LADDER_S8) return launch<s8>(args);
  launch<e4m3>(args);
}

void quantize_on_host(const QuantizeArgs& args) {
  if (args.type == LADDER_S8) return quantize_matrix<s8>(args);
  quantize_matrix<e4m3>(args);
}

}  // namespace ladder
