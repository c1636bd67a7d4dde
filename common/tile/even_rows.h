// Tiles that have as many rows each, where M is no multiple of their height.
//
// TMA takes longer for a row that is not there than for one that is. Where a tile has few rows that
// is felt: of 100, two tiles of 64 rows have 50 each, and the boxes of TMA as many rows.
#pragma once

#include "common/tile/math.h"
#include "common/tile/schedule.h"

namespace tile {

// Rows of M that each tile of at most bm has. The last may have fewer.
constexpr int even_rows(int bm, int m) {
  return ceil_div(m, ceil_div(m, bm));
}
static_assert(even_rows(64, 1) == 1 && even_rows(64, 64) == 64);
static_assert(even_rows(64, 100) == 50 && even_rows(64, 130) == 44);

// A tile's first row, if T::EVEN of tiles that have so many.
template <class T>
constexpr int first_row(const ClusterTiles<T>& t, int rows) {
  return T::EVEN ? t.m0() / T::BM * rows : t.m0();
}

}  // namespace tile
