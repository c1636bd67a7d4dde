// The order of tiles: each exactly once, whatever the shape, the group and the grid.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "common/tile/math.h"
#include "common/tile/schedule.h"

using tile::ceil_div;
using tile::grouped_raster;
using tile::TileCoord;

namespace {

struct TileShape {
  int m, n;  // in tiles
};
const TileShape SHAPES[] = {{1, 1},   {1, 37},  {37, 1},  {2, 3},   {5, 3},   {7, 11},
                            {8, 8},   {9, 16},  {16, 9},  {17, 13}, {15, 32}, {33, 7},
                            {64, 32}, {31, 29}, {3, 131}, {131, 3}};
const int GROUPS[] = {1, 2, 3, 5, 8, 16, 100};
const int GRIDS[] = {1, 7, 78, 132};  // CTAs

// How often each tile is visited, row by row; a coordinate outside fails the case.
struct Visits {
  TileShape shape;
  std::vector<int> times;

  explicit Visits(TileShape shape_)
      : shape(shape_), times(static_cast<size_t>(shape_.m * shape_.n)) {}
  void add(int m, int n) {
    REQUIRE(m >= 0);
    REQUIRE(n >= 0);
    REQUIRE(m < shape.m);
    REQUIRE(n < shape.n);
    ++times[static_cast<size_t>(m * shape.n + n)];
  }
  bool each_once() const {
    return std::all_of(times.begin(), times.end(), [](int count) { return count == 1; });
  }
};

}  // namespace

TEST_CASE("schedule: a persistent grid visits every tile exactly once") {
  for (const TileShape& shape : SHAPES) {
    for (const int group : GROUPS) {
      for (const int grid : GRIDS) {
        CAPTURE(shape.m);
        CAPTURE(shape.n);
        CAPTURE(group);
        CAPTURE(grid);
        const int tiles = shape.m * shape.n, ctas = std::min(tiles, grid);
        Visits visits(shape);
        for (int cta = 0; cta < ctas; ++cta) {
          for (int t = cta; t < tiles; t += ctas) {
            const TileCoord at = grouped_raster(t, shape.m, shape.n, group);
            visits.add(at.m, at.n);
          }
        }
        CHECK(visits.each_once());
      }
    }
  }
}

TEST_CASE(
    "schedule: clusters visit every tile exactly once, and beyond the edge less than a cluster") {
  struct Cluster {
    int m, n;  // in CTAs
  };
  constexpr int BM = 128, BN = 256;
  for (const Cluster& cluster : {Cluster{1, 1}, Cluster{1, 2}, Cluster{2, 1}, Cluster{2, 2}}) {
    for (const TileShape& shape : SHAPES) {
      for (const int grid : GRIDS) {
        CAPTURE(cluster.m);
        CAPTURE(cluster.n);
        CAPTURE(shape.m);
        CAPTURE(shape.n);
        CAPTURE(grid);
        const int size = cluster.m * cluster.n, group = 16 / cluster.m;
        const int m = shape.m * BM - 1, n = shape.n * BN - 255;  // the last tiles are not whole
        const int blocks_m = ceil_div(m, BM * cluster.m), blocks_n = ceil_div(n, BN * cluster.n);
        const int blocks = blocks_m * blocks_n,
                  clusters = std::min(blocks, std::max(1, grid / size));
        Visits visits({blocks_m * cluster.m, blocks_n * cluster.n});
        for (int cta = 0; cta < clusters * size; ++cta) {
          const int rank_m = cta % size / cluster.n, rank_n = cta % size % cluster.n;
          for (int t = cta / size; t < blocks; t += clusters) {
            const TileCoord at = grouped_raster(t, blocks_m, blocks_n, group);
            visits.add(at.m * cluster.m + rank_m, at.n * cluster.n + rank_n);
          }
        }
        CHECK(visits.each_once());
        CHECK(visits.shape.m >= shape.m);
        CHECK(visits.shape.n >= shape.n);
        CHECK(visits.shape.m < shape.m + cluster.m);
        CHECK(visits.shape.n < shape.n + cluster.n);
      }
    }
  }
}

TEST_CASE("schedule: groups of rows are swept from left to right, each column downwards") {
  for (const TileShape& shape : SHAPES) {
    for (const int group : GROUPS) {
      int index = 0;
      for (int first = 0; first < shape.m; first += group) {
        for (int n = 0; n < shape.n; ++n) {
          for (int m = first; m < std::min(first + group, shape.m); ++m, ++index) {
            CAPTURE(shape.m);
            CAPTURE(shape.n);
            CAPTURE(group);
            CAPTURE(index);
            const TileCoord at = grouped_raster(index, shape.m, shape.n, group);
            REQUIRE(at.m == m);
            REQUIRE(at.n == n);
          }
        }
      }
    }
  }
}

TEST_CASE("schedule: a group of one is row-major, a group of all column-major") {
  for (const TileShape& shape : SHAPES) {
    for (int index = 0; index < shape.m * shape.n; ++index) {
      CAPTURE(shape.m);
      CAPTURE(shape.n);
      CAPTURE(index);
      const TileCoord by_row = grouped_raster(index, shape.m, shape.n, 1);
      REQUIRE(by_row.m == index / shape.n);
      REQUIRE(by_row.n == index % shape.n);
      const TileCoord by_column = grouped_raster(index, shape.m, shape.n, shape.m);
      REQUIRE(by_column.m == index % shape.m);
      REQUIRE(by_column.n == index / shape.m);
    }
  }
}

TEST_CASE("schedule: the last group is as high as the rows that are left") {
  for (const TileShape& shape : SHAPES) {
    for (const int group : GROUPS) {
      CAPTURE(shape.m);
      CAPTURE(shape.n);
      CAPTURE(group);
      const int first = (shape.m - 1) / group * group, height = shape.m - first;
      int rows_of_first_column = 0;
      for (int t = first * shape.n; t < shape.m * shape.n; ++t) {
        const TileCoord at = grouped_raster(t, shape.m, shape.n, group);
        REQUIRE(at.m >= first);
        rows_of_first_column += at.n == 0;
      }
      CHECK(rows_of_first_column == height);
    }
  }
}
