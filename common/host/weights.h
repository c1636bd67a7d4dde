// Weights of 8 or 4 bits as ladder_quantize_weights() leaves them, and what it and
// ladder_pack_weights() compute, on the CPU: the definition, bit for bit.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/host/element.h"
#include "common/tile/packed_weights.h"

namespace ladder {

constexpr int largest_weight(int bits) {
  return bits == 8 ? 127 : 7;
}

// Bytes of q [n][ldq], which ends at weight k of its last row.
constexpr size_t weights_bytes(int bits, int n, int k, long long ldq) {
  return static_cast<size_t>((n - 1) * (ldq * bits / 8) +
                             (static_cast<long long>(k) * bits + 7) / 8);
}

// Weight [row][col] of q.
LADDER_HOST_DEVICE inline int weight_at(int bits, const void* q, long long ldq, long long row,
                                        long long col) {
  const auto* bytes = static_cast<const int8_t*>(q);
  if (bits == 8) return bytes[row * ldq + col];
  const int both = bytes[(row * ldq + col) / 2];  // the lower half first; ldq is even
  return (col % 2 == 0 ? static_cast<int8_t>(both << 4) : both) >> 4;
}

// The scale of a group whose largest finite |w| is amax.
LADDER_HOST_DEVICE inline __nv_bfloat16 weight_scale(int bits, float amax) {
  const __nv_bfloat16 scale = __float2bfloat16_rn(amax / static_cast<float>(bits == 8 ? 127 : 7));
  return __bfloat162float(scale) == 0 ? __float2bfloat16_rn(1.0f) : scale;
}

// NaN becomes 0.
LADDER_HOST_DEVICE inline int quantized_weight(int bits, float w, float scale) {
  const float most = bits == 8 ? 127.0f : 7.0f, quotient = w / scale;
  if (!(quotient == quotient)) return 0;
  return static_cast<int>(rintf(fminf(fmaxf(quotient, -most), most)));
}

// w [n][ldw] to q [n][ldq] and scale [ceil(k / 128)][ld_scale]; what lies between is left alone.
inline void quantize_weights_cpu(int bits, int n, int k, const __nv_bfloat16* w, long long ldw,
                                 void* q, long long ldq, __nv_bfloat16* scale, long long ld_scale) {
  auto* bytes = static_cast<uint8_t*>(q);
  for (long long row = 0; row < n; ++row) {
    for (int k0 = 0; k0 < k; k0 += tile::PACKED_K) {
      const int k1 = std::min(k, k0 + tile::PACKED_K);
      float amax = 0;
      for (int i = k0; i < k1; ++i) {
        const float size = std::fabs(__bfloat162float(w[row * ldw + i]));
        if (std::isfinite(size)) amax = std::max(amax, size);
      }
      const __nv_bfloat16 of_group = weight_scale(bits, amax);
      scale[k0 / tile::PACKED_K * ld_scale + row] = of_group;
      for (int i = k0; i < k1; ++i) {
        const int value =
            quantized_weight(bits, __bfloat162float(w[row * ldw + i]), __bfloat162float(of_group));
        if (bits == 8) {
          bytes[row * ldq + i] = static_cast<uint8_t>(value);
        } else {
          uint8_t& both = bytes[(row * ldq + i) / 2];
          const int code = value & 15;
          both = static_cast<uint8_t>(i % 2 == 0 ? code : both | code << 4);
        }
      }
    }
  }
}

// q [n][ldq] in the order of common/tile/packed_weights.h.
inline std::vector<uint32_t> pack_weights_cpu(int bits, int n, int k, const void* q,
                                              long long ldq) {
  std::vector<uint32_t> words(tile::packed_bytes(bits, n, k) / 4);
  const long long block_words = tile::packed_block_bytes(bits) / 4;
  const long long k_blocks = tile::ceil_div(k, tile::PACKED_K);
  for (long long row = 0; row < tile::ceil_div(n, tile::PACKED_ROWS) * tile::PACKED_ROWS; ++row) {
    for (long long col = 0; col < k_blocks * tile::PACKED_K; ++col) {
      const int value = row < n && col < k ? weight_at(bits, q, ldq, row, col) : 0;
      const long long block = row / tile::PACKED_ROWS * k_blocks + col / tile::PACKED_K;
      const tile::PackedPlace at = tile::packed_place(
          bits, static_cast<int>(row % tile::PACKED_ROWS), static_cast<int>(col % tile::PACKED_K));
      words[block * block_words + at.word] |= tile::packed_bits(bits, value, at.shift);
    }
  }
  return words;
}

}  // namespace ladder
