// The tiles of rung 15, which multiplies packed weights, and what each is expected to take.
#pragma once

#include <algorithm>
#include <cmath>

#include "common/tile/cost_model.h"
#include "common/tile/math.h"

namespace tile {

// A tile of D^T: `consumers` x 64 rows, which are columns of D, and bn columns, which are rows of
// D.
struct MixedTile {
  const char *name_8, *name_4;  // of weights of 8 and of 4 bits
  int consumers, bn;
  int split = 1;  // CTAs of a cluster that share a tile's K
  int ctas = 1;   // of an SM at a time

  constexpr int bm() const { return 64 * consumers; }
};

// How many of `most` can share `count` things so that each has as many.
constexpr int sharers_of(int count, int most) {
  while (count % most != 0) --most;
  return most;
}

// Rows x columns of a tile of D^T; k2 to k8: so many CTAs of a cluster share a tile's K; x2: two
// CTAs an SM. Of two that are expected to take as long, the first is chosen. Without designators, as
// SHARED_K.
constexpr MixedTile MIXED_TILES[] = {
    // clang-format off
    // names                              consumers, bn, split, ctas
    {"w8_256x8",        "w4_256x8",        4,   8},
    {"w8_128x8_x2",     "w4_128x8_x2",     2,   8, 1, 2},
    {"w8_128x8_k2",     "w4_128x8_k2",     2,   8, 2},
    {"w8_128x8_x2_k4",  "w4_128x8_x2_k4",  2,   8, 4, 2},
    {"w8_128x8_x2_k8",  "w4_128x8_x2_k8",  2,   8, 8, 2},
    {"w8_256x16",       "w4_256x16",       4,  16},
    {"w8_128x16_x2",    "w4_128x16_x2",    2,  16, 1, 2},
    {"w8_128x16_k2",    "w4_128x16_k2",    2,  16, 2},
    {"w8_128x16_x2_k4", "w4_128x16_x2_k4", 2,  16, 4, 2},
    {"w8_256x32",       "w4_256x32",       4,  32},
    {"w8_128x32_x2",    "w4_128x32_x2",    2,  32, 1, 2},
    {"w8_128x32_k2",    "w4_128x32_k2",    2,  32, 2},
    {"w8_128x32_x2_k4", "w4_128x32_x2_k4", 2,  32, 4, 2},
    {"w8_128x64",       "w4_128x64",       2,  64},
    {"w8_128x64_k2",    "w4_128x64_k2",    2,  64, 2},
    {"w8_128x64_k4",    "w4_128x64_k4",    2,  64, 4},
    {"w8_128x128",      "w4_128x128",      2, 128},
    {"w8_128x128_k2",   "w4_128x128_k2",   2, 128, 2},
    {"w8_128x160",      "w4_128x160",      2, 160},
    {"w8_128x176",      "w4_128x176",      2, 176},
    // clang-format on
};

// What is not to be chosen for a call, whatever else there is.
constexpr double NEVER_MIXED = 1e30;

// What no ceiling gives: read off trials of these rows on an H200, at weights of 67 to 235 million
// and 1 to 4096 tokens.
struct FittedMixed {
  double start_clocks = 4000;    // of a launch: until the first bytes land, and after the last
  double cluster_clocks = 3000;  // of one whose CTAs share K, for each doubling: to meet and add up
  double third_clocks = 3000;    // more, from the second doubling on: fewer clusters find places
  double block_clocks_8 = 600, block_clocks_4 = 540;    // 128 of K of two consumers of an SM: to
                                                        // decode, and for one to wait for the other
  double column_clocks_8 = 6.2, column_clocks_4 = 5.8;  // and of each column of the tile
  double crowded = 1.65;                                // times longer, of four consumers of an SM
  double epilogue_clocks = 12;                          // a column: to round, stage and store it
};

// Expected clocks, at gpu.mhz, of one launch: D [m][n] of K = k, all > 0, of weights of so many
// bits, by clusters of which `at_once` run at a time.
inline double predicted_clocks(const MixedTile& config, int bits, int m, int n, int k, int at_once,
                               const Gpu& gpu) {
  constexpr FittedMixed FITTED;
  const int tiles_m = ceil_div(n, config.bm()), tiles_n = ceil_div(m, config.bn);
  const double tiles = 1.0 * tiles_m * tiles_n, rounds = std::ceil(tiles / at_once);
  const double running = std::min<double>(tiles, at_once) * config.split;  // CTAs
  const double on_sm =
      config.consumers * std::min<double>(config.ctas, std::ceil(running / gpu.sms));
  const double alone = bits == 8 ? FITTED.block_clocks_8 + FITTED.column_clocks_8 * config.bn
                                 : FITTED.block_clocks_4 + FITTED.column_clocks_4 * config.bn;
  const double block = alone * (on_sm > 2 ? FITTED.crowded : 1);
  const double blocks = std::ceil(1.0 * ceil_div(k, 128) / config.split);
  const double compute = rounds * (blocks * block + FITTED.epilogue_clocks * config.bn);
  const double bytes = 1.0 * n * k * bits / 8 + 2.0 * m * k * halves_of_l2(tiles_m) + 2.0 * m * n;
  const double doublings = std::log2(config.split);
  return FITTED.start_clocks + FITTED.cluster_clocks * doublings +
         FITTED.third_clocks * std::max(0.0, doublings - 1) +
         overlapped(compute, bytes / gpu.dram_bytes_per_clock, 0);
}

}  // namespace tile
