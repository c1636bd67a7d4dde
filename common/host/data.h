// Test data: a pure function of (seed, index), the same bits on the CPU and on the GPU.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define LADDER_HOST_DEVICE __host__ __device__
#else
#define LADDER_HOST_DEVICE
#endif

namespace ladder {

// index: A is `identity` and B is `places`, so that D[m][n] says from which row and column of B it
// comes. Those two are what matrices are filled with, not what a program is asked for.
enum class Data { normal, uniform, ints, zeros, index, identity, places };

// splitmix64, Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
LADDER_HOST_DEVICE inline uint64_t hash64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// A scale of test data whose products and sums are exact in fp32: 1/4, 1/2, 1 or 2.
inline float power_of_two(uint64_t seed, uint64_t index) {
  return std::ldexp(1.0f, static_cast<int>(hash64(hash64(seed) ^ index) >> 40 & 3) - 2);
}

// Element `index` of the stream `seed`, before rounding to bf16.
//   normal   sum of twelve 16-bit uniforms, minus 6: mean 0, variance 1, exact in fp32
//   uniform  [-1, 1)
//   ints     -2 .. 2: every sum of products up to K = 4M is exact in fp32
LADDER_HOST_DEVICE inline float data_value(Data data, uint64_t seed, uint64_t index) {
  const uint64_t bits = hash64(hash64(seed) ^ index);
  switch (data) {
    case Data::normal: {
      uint32_t sum = 0;
      uint64_t word = bits;
      for (int i = 0; i < 3; ++i, word = hash64(word)) {
        for (int j = 0; j < 64; j += 16) sum += static_cast<uint32_t>(word >> j) & 0xffff;
      }
      return static_cast<float>(static_cast<int>(sum) - 6 * 65535) / 65536.0f;
    }
    case Data::uniform:
      return static_cast<float>(static_cast<int>(bits & 0xffffff) - (1 << 23)) / (1 << 23);
    case Data::ints:
      return static_cast<float>(static_cast<int>((bits >> 32) % 5) - 2);
    default:
      return 0.0f;
  }
}

// A number that says which element of a matrix it is, exact in bf16: 2^(row % 64 - 32) times
// 1 + col % 128 / 128, so that its exponent is the row and its significand the column. fp16 has too
// few exponents for it.
constexpr int PLACE_ROWS = 64, PLACE_COLS = 128;
LADDER_HOST_DEVICE inline float place_value(long long row, long long col) {
  float value = 1 + static_cast<float>(col % PLACE_COLS) / PLACE_COLS;
  const int exponent = static_cast<int>(row % PLACE_ROWS) - PLACE_ROWS / 2;
  for (int i = 0; i < exponent; ++i) value *= 2;
  for (int i = 0; i > exponent; --i) value /= 2;
  return value;
}

// The element [row][col] of a matrix with `cols` columns. Row i of the identity has its 1 in column
// i % cols, so that none is empty.
LADDER_HOST_DEVICE inline float element_value(Data data, uint64_t seed, long long row,
                                              long long col, long long cols) {
  if (data == Data::identity) return row % cols == col ? 1.0f : 0.0f;
  if (data == Data::places) return place_value(row, col);
  return data_value(data, seed, static_cast<uint64_t>(row * cols + col));
}

}  // namespace ladder
