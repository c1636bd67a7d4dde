// Quantising weights, and packing them for rung 15. Both run once, when a model is loaded.
#include <cuda_runtime.h>

#include "common/host/error.h"
#include "common/host/mixed.h"
#include "common/host/weights.h"

namespace ladder {
namespace {

constexpr int THREADS = 256, WARPS = THREADS / 32;

// A warp for each row and 128 of K, four neighbours a lane.
__global__ __launch_bounds__(THREADS) void quantize_kernel(WeightsArgs g) {
  constexpr int EACH = tile::PACKED_K / 32;
  const long long group = 1LL * blockIdx.x * WARPS + threadIdx.x / 32;
  const long long k_blocks = tile::ceil_div(g.k, tile::PACKED_K);
  const long long row = group / k_blocks, block = group % k_blocks;
  if (row >= g.n) return;
  const int first = static_cast<int>(block) * tile::PACKED_K + threadIdx.x % 32 * EACH;

  float w[EACH], amax = 0;
  for (int i = 0; i < EACH; ++i) {
    w[i] = first + i < g.k ? __bfloat162float(g.w[row * g.ldw + first + i]) : 0.0f;
    if (isfinite(w[i])) amax = fmaxf(amax, fabsf(w[i]));
  }
  for (int lane_step = 16; lane_step > 0; lane_step /= 2) {
    amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, lane_step));
  }
  const bf16 scale = weight_scale(g.bits, amax);
  if (threadIdx.x % 32 == 0) g.scale[block * g.ld_scale + row] = scale;

  auto* bytes = static_cast<uint8_t*>(g.q);
  for (int i = 0; i < EACH; ++i) {
    if (first + i >= g.k) break;
    const int value = quantized_weight(g.bits, w[i], __bfloat162float(scale));
    if (g.bits == 8) {
      bytes[row * g.ldq + first + i] = static_cast<uint8_t>(value);
    } else if (i % 2 == 0) {  // two a byte; behind the last of an odd k, 0
      const int next =
          first + i + 1 < g.k ? quantized_weight(g.bits, w[i + 1], __bfloat162float(scale)) : 0;
      bytes[(row * g.ldq + first + i) / 2] = static_cast<uint8_t>((value & 15) | (next & 15) << 4);
    }
  }
}

// A thread for each 32-bit word.
__global__ __launch_bounds__(THREADS) void pack_kernel(WeightsArgs g, long long words) {
  const long long word = 1LL * blockIdx.x * THREADS + threadIdx.x;
  if (word >= words) return;
  const int block_words = tile::packed_block_bytes(g.bits) / 4;
  const long long block = word / block_words, k_blocks = tile::ceil_div(g.k, tile::PACKED_K);
  const long long row0 = block / k_blocks * tile::PACKED_ROWS;
  const long long col0 = block % k_blocks * tile::PACKED_K;
  uint32_t packed = 0;
  for (int shift = 0; shift < 32; shift += g.bits) {
    const tile::PackedWeight at =
        tile::packed_weight(g.bits, static_cast<int>(word % block_words), shift);
    const long long row = row0 + at.row, col = col0 + at.k;
    const int value = row < g.n && col < g.k ? weight_at(g.bits, g.q, g.ldq, row, col) : 0;
    packed |= tile::packed_bits(g.bits, value, shift);
  }
  static_cast<uint32_t*>(g.packed)[word] = packed;
}

unsigned grid_for(long long threads) {
  return static_cast<unsigned>((threads + THREADS - 1) / THREADS);
}

}  // namespace

void quantize_weights(const WeightsArgs& g) {
  if (g.n == 0 || g.k == 0) return;
  cudaGetLastError();  // an error that an earlier call left behind is not this launch's
  const long long groups = 1LL * g.n * tile::ceil_div(g.k, tile::PACKED_K);
  quantize_kernel<<<grid_for(groups * 32), THREADS, 0, g.stream>>>(g);
  check_cuda(cudaGetLastError(), "launch of quantize_kernel");
}

void pack_weights(const WeightsArgs& g) {
  if (g.n == 0 || g.k == 0) return;
  cudaGetLastError();  // as above
  const auto words = static_cast<long long>(tile::packed_bytes(g.bits, g.n, g.k) / 4);
  pack_kernel<<<grid_for(words), THREADS, 0, g.stream>>>(g, words);
  check_cuda(cudaGetLastError(), "launch of pack_kernel");
}

}  // namespace ladder
