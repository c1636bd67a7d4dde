// In which order a persistent kernel visits the tiles of D.
#pragma once

#include "common/tile/math.h"

namespace tile {

struct TileCoord {
  int m, n;  // in tiles
};

// Tile `index` of a grid of tiles_m x tiles_n in grouped order: `group` tile rows are swept
// together from left to right, going down their column before moving right. CTAs that run at the
// same time then work on a block of D about as high as wide, and share rows of A and B in L2. group
// = 1 is row-major. The last group may be lower than the others.
constexpr TileCoord grouped_raster(int index, int tiles_m, int tiles_n, int group) {
  const int tiles_per_group = group * tiles_n;
  const int first_m = index / tiles_per_group * group;
  const int height = tiles_m - first_m < group ? tiles_m - first_m : group;
  const int in_group = index % tiles_per_group;
  return {first_m + in_group % height, in_group / height};
}

static_assert(grouped_raster(5, 4, 4, 1).m == 1 && grouped_raster(5, 4, 4, 1).n == 1);
static_assert(grouped_raster(5, 4, 4, 2).m == 1 && grouped_raster(5, 4, 4, 2).n == 2);
static_assert(grouped_raster(14, 5, 3, 2).m == 4 && grouped_raster(14, 5, 3, 2).n == 2);

}  // namespace tile
