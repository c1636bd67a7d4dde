// The tiles of rung 15, which multiplies packed weights, and what each is expected to take.
#pragma once

#include <algorithm>

#include "common/tile/cost_model.h"
#include "common/tile/math.h"

namespace tile {

// A tile of D^T: `consumers` x 64 rows, which are columns of D, and bn columns, which are rows of D.
struct MixedTile {
  const char *name_8, *name_4;  // of weights of 8 and of 4 bits
  int consumers, bn;
  int split = 1;  // CTAs of a cluster that share a tile's K
  int ctas = 1;   // of an SM at a time
  int unit = 2;
  int sets = 4;
  bool ahead = true;

  constexpr int bm() const { return 64 * consumers; }
};

// How many of `most` can share `count` things so that each has as many.
constexpr int sharers_of(int count, int most) {
  while (count % most != 0) --most;
  return most;
}

// Rows x columns of a tile of D^T; k2 to k8: so many CTAs of a cluster share a tile's K; x2: two CTAs
// an SM. Without designators, as SHARED_K.
constexpr MixedTile MIXED_TILES[] = {
    // clang-format off
    {"w8_128x8_x2", "w4_128x8_x2", 2, 8, 1, 2, 4, 2},
    {"w8_128x8_x2_B", "w4_128x8_x2_B", 2, 8, 1, 2, 2, 4},
    {"w8_128x8_x2_C", "w4_128x8_x2_C", 2, 8, 1, 2, 2, 4, false},
    {"w8_128x8_k2", "w4_128x8_k2", 2, 8, 2, 1, 4, 2},
    {"w8_128x8_k2_B", "w4_128x8_k2_B", 2, 8, 2, 1, 2, 4},
    {"w8_128x8_k2_C", "w4_128x8_k2_C", 2, 8, 2, 1, 2, 4, false},
    {"w8_128x8_x2_k4", "w4_128x8_x2_k4", 2, 8, 4, 2, 4, 2},
    {"w8_128x8_x2_k4_B", "w4_128x8_x2_k4_B", 2, 8, 4, 2, 2, 4},
    {"w8_128x8_x2_k4_C", "w4_128x8_x2_k4_C", 2, 8, 4, 2, 2, 4, false},
    {"w8_256x8_C", "w4_256x8_C", 4, 8, 1, 1, 2, 4, false},
    {"w8_256x8_k4_C", "w4_256x8_k4_C", 4, 8, 4, 1, 2, 4, false},
    {"w8_128x16_x2_k4_C", "w4_128x16_x2_k4_C", 2, 16, 4, 2, 2, 4, false},
    {"w8_128x32_x2_C", "w4_128x32_x2_C", 2, 32, 1, 2, 2, 4, false},
    {"w8_128x32_k2", "w4_128x32_k2", 2, 32, 2, 1, 4, 2},
    {"w8_128x32_k2_B", "w4_128x32_k2_B", 2, 32, 2, 1, 2, 4},
    {"w8_128x32_k2_C", "w4_128x32_k2_C", 2, 32, 2, 1, 2, 4, false},
    {"w8_128x64_k2", "w4_128x64_k2", 2, 64, 2, 1, 4, 2},
    {"w8_128x64_k2_B", "w4_128x64_k2_B", 2, 64, 2, 1, 2, 4},
    {"w8_128x64_k2_C", "w4_128x64_k2_C", 2, 64, 2, 1, 2, 4, false},
    {"w8_256x32_C", "w4_256x32_C", 4, 32, 1, 1, 2, 2, false},
    {"w8_128x64", "w4_128x64", 2, 64, 1, 1, 2, 4, false},
    {"w8_128x128", "w4_128x128", 2, 128, 1, 1, 2, 2},
    {"w8_128x128_k2", "w4_128x128_k2", 2, 128, 2, 1, 2, 2},
    {"w8_128x128_k2_C", "w4_128x128_k2_C", 2, 128, 2, 1, 2, 2, false},
    {"w8_128x160", "w4_128x160", 2, 160, 1, 1, 2, 2},
    {"w8_128x160_C", "w4_128x160_C", 2, 160, 1, 1, 2, 2, false},
    {"w8_128x176", "w4_128x176", 2, 176, 1, 1, 2, 2},
    {"w8_128x176_C", "w4_128x176_C", 2, 176, 1, 1, 2, 2, false},
    // clang-format on
};

// What is not to be chosen for a call, whatever else there is.
constexpr double NEVER_MIXED = 1e30;

// Expected clocks, at gpu.mhz, of one launch: D [m][n] of K = k, all > 0, of weights of so many bits,
// by clusters of which `at_once` run at a time.
inline double predicted_clocks(const MixedTile& config, int bits, int m, int n, int k, int at_once,
                               const Gpu& gpu) {
  constexpr double START = 3500, BLOCK = 260, OF_DRAM = 0.97;
  const int tiles_m = ceil_div(n, config.bm()), tiles_n = ceil_div(m, config.bn);
  const double tiles = 1.0 * tiles_m * tiles_n, k_blocks = ceil_div(k, 128);
  const double rows = config.split > 1 ? std::min(config.bn, m) : ceil_div(m, tiles_n);
  const double rounds = std::ceil(tiles / at_once);
  const double on_sm = std::min<double>(
      config.ctas, std::ceil(std::min<double>(tiles, at_once) * config.split / gpu.sms));
  // Of 128 of K of a tile: the tensor cores, the ALUs that decode and add up, the wait of one
  // consumer, what L2 delivers.
  const double tensor = config.consumers * 8 * std::max(16.0, config.bn / 2.0) * on_sm;
  const double alu = config.consumers * ((bits == 8 ? 180.0 : 130.0) + config.bn / 2.0) * on_sm;
  const double own = BLOCK + 8 * std::max(16.0, config.bn / 2.0);
  const double l2 = (config.bm() * 128.0 * bits / 8 + rows * 256) / gpu.l2_bytes_per_clock * on_sm;
  const double step = std::max({tensor, alu, own, l2});
  const double compute = rounds * (k_blocks / config.split * step + 12.0 * config.bn + 500);
  const double dram = (1.0 * n * k * bits / 8 + 2.0 * m * k * halves_of_l2(tiles_m) + 2.0 * m * n) /
                      (gpu.dram_bytes_per_clock * OF_DRAM);
  return START + (config.split > 1 ? 1500 : 0) + overlapped(compute, dram, 0);
}

}  // namespace tile
