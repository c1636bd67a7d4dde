// What a call of rung 13 takes with one of its tiles.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "common/tile/cost_model.h"
#include "common/tile/math.h"
#include "common/tile/operand_tile.h"

namespace tile {

// Clocks, by rounds of clusters and clocks a K step: enough to choose one of fourteen. D is [m][n],
// `at_once` how many clusters run at a time; lda, ldb: elements. A step takes longer by rows of A's
// boxes that do not lie in A whole, where few SMs are idle; unless rows are shared, also where they
// begin between lines of L2. Splits hide no launch without room beside. Tiles on their side are for
// M between two heights of the others: of more rows of them than four there is little to spare, and
// CTAs that share nothing ask L2 for more.
//
// T has the tile and, of a K step, STEP_CLOCKS, and EXCHANGE_CLOCKS, what sharing its K costs, all
// fitted to trials (docs/13_layouts.md).
template <class T>
double typed_clocks(int m, int n, int k, long long lda, long long ldb, int at_once) {
  constexpr double OUTSIDE_CLOCKS = 3.5, BETWEEN_CLOCKS = 120;
  using OfA = std::conditional_t<T::SIDEWAYS, typename T::TileB, typename T::TileA>;
  constexpr int ROWS = T::SIDEWAYS ? T::BN : T::BM * T::CLUSTER_M;  // of D, of a cluster's tiles
  constexpr int COLUMNS = T::SIDEWAYS ? T::BM : T::BN * T::CLUSTER_N;
  const int blocks_m = ceil_div(m, ROWS);
  if (T::SIDEWAYS && blocks_m > 4) return NEVER;
  const double full = 1.0 * blocks_m * ceil_div(n, COLUMNS) / at_once;
  const int across = OfA::MAJOR == Major::K ? 1 : OfA::WIDTH;  // of M, along a box's row
  const int inside = T::EVEN ? blocks_m * ROWS : m / across * across;
  const double outside = 1.0 * (blocks_m * ROWS - inside) / (blocks_m * T::SHARERS);  // of a CTA
  const auto between = [](long long ld) { return ld * sizeof(typename T::In) % 128 != 0; };
  const int operands = T::SHARERS == 1 ? between(lda) + between(ldb) : 0;
  const double busy = std::min(1.0, full);  // of the SMs
  const double step =
      T::STEP_CLOCKS + BETWEEN_CLOCKS * operands + OUTSIDE_CLOCKS * outside * busy * busy;
  const int steps = ceil_div(ceil_div(k, T::BK), T::SPLIT);
  const double launch_clocks = T::SPLIT > 1 && full > 0.5 ? LAUNCH_CLOCKS : 0;
  return std::ceil(full) * (steps * step + T::EXCHANGE_CLOCKS) + launch_clocks;
}

}  // namespace tile
