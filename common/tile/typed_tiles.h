// The tiles of rung 13, and what a call takes with each of them.
#pragma once

#include <algorithm>
#include <cmath>

#include "common/tile/cost_model.h"
#include "common/tile/math.h"

namespace tile {

// Which types and layouts a tile has kernels for: all; those of 16 bits whose D has the operands'
// type; or of these a K-major A alone, or an MN-major one.
enum class TypedKernels { ALL, SAME_TYPE, K_MAJOR_A, MN_MAJOR_A };

// Of D, or, on its side, of D^T: its rows are columns of D then.
struct TypedTile {
  const char* name;         // what a kernel's name ends in
  int consumers;            // warpgroups, each with 64 rows of the tile
  int bn;                   // its columns
  int step_clocks;          // of a K step, fitted to trials (docs/layout_tiles.md)
  int cluster_m = 1;        // CTAs of a cluster one above the other, which share B
  int cluster_n = 1;        // or side by side, which share A
  int split = 1;            // or which share a tile's K
  int exchange_clocks = 0;  // of a tile whose K is shared
  bool sideways = false;
  TypedKernels kernels = sideways ? TypedKernels::K_MAJOR_A : TypedKernels::ALL;

  constexpr int bm() const { return 64 * consumers; }
  constexpr int sharers() const { return cluster_m * cluster_n; }
  // Whether the tiles of a call have as many rows each: K-major, where a row more is one more of a
  // panel.
  constexpr bool is_even(bool mn_major_a) const {
    return consumers == 1 && !mn_major_a && !sideways;
  }
};

constexpr TypedTile TYPED_TILES[] = {
    // clang-format off
    // name, consumers, bn, step_clocks, cluster_m, cluster_n, split, exchange_clocks, sideways,
    // kernels
    {"",                  2, 256, 1150, 2, 1},
    {"_128x512",          2, 256, 1230, 1, 2},
    {"_128x192",          2, 192,  880},
    {"_128x128",          2, 128,  640},
    {"_64x256",           1, 256,  690, 1, 1, 1, 0, false, TypedKernels::MN_MAJOR_A},
    {"_64x192",           1, 192,  580, 1, 1, 1, 0, false, TypedKernels::SAME_TYPE},
    {"_64x128",           1, 128,  440},
    {"_64x64",            1,  64,  400},
    {"_64x64_2x2",        1,  64,  400, 2, 2, 1, 0, false, TypedKernels::MN_MAJOR_A},
    {"_64x128_k4",        1, 128,  760, 1, 1, 4, 3200},
    {"_64x64_k2",         1,  64,  460, 1, 1, 2, 1600},
    {"_64x64_k4",         1,  64,  480, 1, 1, 4, 3600, false, TypedKernels::K_MAJOR_A},
    {"_64x64_k8",         1,  64,  460, 1, 1, 8, 5600},
    {"_64x96_side_4x1",   1,  96,  500, 4, 1, 1, 0, true},
    {"_64x128_side_4x1",  1, 128,  460, 4, 1, 1, 0, true, TypedKernels::MN_MAJOR_A},
    {"_64x160_side_4x1",  1, 160,  540, 4, 1, 1, 0, true},
    {"_64x192_side_4x1",  1, 192,  540, 4, 1, 1, 0, true, TypedKernels::MN_MAJOR_A},
    {"_128x96_side_2x2",  2,  96,  560, 2, 2, 1, 0, true},
    {"_128x112_side",     2, 112,  660, 1, 1, 1, 0, true},
    {"_128x112_side_2x2", 2, 112,  580, 2, 2, 1, 0, true, TypedKernels::SAME_TYPE},
    {"_128x128_side_4x1", 2, 128,  680, 4, 1, 1, 0, true, TypedKernels::SAME_TYPE},
    {"_128x160_side",     2, 160,  780, 1, 1, 1, 0, true},
    {"_128x160_side_4x1", 2, 160,  760, 4, 1, 1, 0, true, TypedKernels::SAME_TYPE},
    {"_128x192_side_4x1", 2, 192,  780, 4, 1, 1, 0, true, TypedKernels::MN_MAJOR_A},
    {"_128x208_side_2x1", 2, 208,  970, 2, 1, 1, 0, true},
    {"_128x256_side_4x1", 2, 256, 1040, 4, 1, 1, 0, true, TypedKernels::MN_MAJOR_A},
    {"_192x96_side_1x2",  3,  96,  740, 1, 2, 1, 0, true},
    {"_192x144_side_2x1", 3, 144,  990, 2, 1, 1, 0, true},
    // clang-format on
};

// Clocks, by rounds of clusters and clocks a K step: enough to choose one of 28. D is [m][n],
// `at_once` how many clusters run at a time; operands have elements of so many bytes, their rows lda
// and ldb of these. A step takes longer by rows of A's boxes that do not lie in A whole, where few
// SMs are idle and K is not shared; unless rows are shared, also where they begin between lines of
// L2; and of a tile on its side where A is MN-major, as was fitted. Splits hide no launch without
// room beside. Tiles on their side are for M between two heights of the others: of more rows
// of them than eight there is little to spare, and than four where each loads for itself.
inline double typed_clocks(const TypedTile& tile, bool mn_major_a, int bytes, int m, int n, int k,
                           long long lda, long long ldb, int at_once) {
  constexpr double OUTSIDE_CLOCKS = 3.5, BETWEEN_CLOCKS = 120, SIDE_CLOCKS = 80;
  const int along_m = tile.bm() * tile.cluster_m, along_n = tile.bn * tile.cluster_n;
  const int rows = tile.sideways ? along_n : along_m;  // of D, of a cluster
  const int columns = tile.sideways ? along_m : along_n;
  const int blocks_m = ceil_div(m, rows);
  if (tile.sideways && blocks_m * tile.cluster_n > (tile.sharers() > 1 ? 8 : 4)) return NEVER;
  const double full = 1.0 * blocks_m * ceil_div(n, columns) / at_once;
  const int row = 128 / bytes;              // elements of a box's row: of K, or of an MN-major M
  const int across = mn_major_a ? row : 1;  // of M
  const int inside = tile.is_even(mn_major_a) ? blocks_m * rows : m / across * across;
  const int loaders = blocks_m * tile.sharers();
  const double outside = tile.split > 1 ? 0 : 1.0 * (blocks_m * rows - inside) / loaders;  // a CTA
  const auto between = [&](long long ld) { return ld * bytes % 128 != 0; };
  const int operands = tile.sharers() == 1 ? between(lda) + between(ldb) : 0;
  const double busy = std::min(1.0, full);  // of the SMs
  const double step = tile.step_clocks + (tile.sideways && mn_major_a ? SIDE_CLOCKS : 0) +
                      BETWEEN_CLOCKS * operands + OUTSIDE_CLOCKS * outside * busy * busy;
  const int steps = ceil_div(ceil_div(k, row), tile.split);
  const double launch_clocks = tile.split > 1 && full > 0.5 ? LAUNCH_CLOCKS : 0;
  return std::ceil(full) * (steps * step + tile.exchange_clocks) + launch_clocks;
}

}  // namespace tile
