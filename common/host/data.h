// Test data: a pure function of (seed, index), the same bits on the CPU and on the GPU.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define LADDER_HOST_DEVICE __host__ __device__
#else
#define LADDER_HOST_DEVICE
#endif

namespace ladder {

enum class Data { normal, uniform, ints, zeros };

// splitmix64, Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
LADDER_HOST_DEVICE inline uint64_t hash64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
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

}  // namespace ladder
