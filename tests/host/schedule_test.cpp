// The order of tiles: each exactly once, whatever the shape, the group and the grid.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "common/tile/math.h"
#include "common/tile/schedule.h"

using tile::ceil_div;
using tile::ClusterTiles;
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

namespace {

// What ClusterTiles reads of a kernel's tile.
template <int BM_, int BN_, int CLUSTER_M_, int CLUSTER_N_, int GROUP_>
struct Tile {
  static constexpr int BM = BM_, BN = BN_, CLUSTER_M = CLUSTER_M_, CLUSTER_N = CLUSTER_N_;
  static constexpr int GROUP = GROUP_;
};

// The same without GROUP: the kernel is told.
template <int BM_, int BN_, int CLUSTER_M_, int CLUSTER_N_>
struct ToldTile {
  static constexpr int BM = BM_, BN = BN_, CLUSTER_M = CLUSTER_M_, CLUSTER_N = CLUSTER_N_;
};

// Every cluster, rank and step of a launch, with the tiles of each CTA dealt to `consumers` in turn:
// each tile of whole clusters is visited exactly once, and less than a cluster lies beyond D.
template <class T>
void check_cluster_tiles(int consumers) {
  constexpr int CLUSTER = T::CLUSTER_M * T::CLUSTER_N;
  for (const TileShape& shape : SHAPES) {
    for (const int grid : GRIDS) {
      CAPTURE(T::CLUSTER_M);
      CAPTURE(T::CLUSTER_N);
      CAPTURE(T::GROUP);
      CAPTURE(consumers);
      CAPTURE(shape.m);
      CAPTURE(shape.n);
      CAPTURE(grid);
      const int m = shape.m * T::BM - 1, n = shape.n * T::BN - 37;  // the last tiles are not whole
      const TileShape blocks = {ceil_div(shape.m, T::CLUSTER_M), ceil_div(shape.n, T::CLUSTER_N)};
      const int clusters = std::min(blocks.m * blocks.n, std::max(1, grid / CLUSTER));
      Visits visits({blocks.m * T::CLUSTER_M, blocks.n * T::CLUSTER_N});
      for (int cluster = 0; cluster < clusters; ++cluster) {
        for (int rank = 0; rank < CLUSTER; ++rank) {
          const ClusterTiles<T> tiles(m, n, cluster, clusters, rank);
          for (int consumer = 0; consumer < consumers; ++consumer) {
            for (auto t = tiles.every(consumers, consumer); t.has(); t.next()) {
              REQUIRE(t.m0() % T::BM == 0);
              REQUIRE(t.n0() % T::BN == 0);
              visits.add(t.m0() / T::BM, t.n0() / T::BN);
              auto behind = t;
              behind.next();
              REQUIRE(t.is_last() == !behind.has());
            }
          }
        }
      }
      CHECK(visits.each_once());
      CHECK(visits.shape.m < shape.m + T::CLUSTER_M);
      CHECK(visits.shape.n < shape.n + T::CLUSTER_N);
    }
  }
}

}  // namespace

TEST_CASE("schedule: the CTAs of all clusters visit every tile exactly once") {
  for (const int consumers : {1, 2, 3}) {
    check_cluster_tiles<Tile<128, 256, 1, 1, 16>>(consumers);
    check_cluster_tiles<Tile<128, 256, 2, 1, 8>>(consumers);
    check_cluster_tiles<Tile<128, 256, 1, 2, 16>>(consumers);
    check_cluster_tiles<Tile<64, 192, 2, 2, 3>>(consumers);
  }
}

TEST_CASE("schedule: the CTAs of a cluster have neighbouring tiles") {
  using T = Tile<64, 192, 2, 3, 5>;
  for (int cluster = 0; cluster < 7; ++cluster) {
    const ClusterTiles<T> first(1000, 3000, cluster, 7, 0);
    for (int rank = 0; rank < 6; ++rank) {
      const ClusterTiles<T> tiles(1000, 3000, cluster, 7, rank);
      auto of_first = first;
      for (auto t = tiles; t.has(); t.next(), of_first.next()) {
        REQUIRE(of_first.has());
        CHECK(t.m0() == of_first.m0() + rank / 3 * 64);
        CHECK(t.n0() == of_first.n0() + rank % 3 * 192);
      }
      CHECK(!of_first.has());
    }
  }
}

TEST_CASE("schedule: a group that the kernel is told is the tile's group") {
  for (const int rank : {0, 1}) {
    for (int cluster = 0; cluster < 5; ++cluster) {
      auto told = ClusterTiles<ToldTile<128, 256, 2, 1>>(3000, 4000, cluster, 5, rank, 3);
      auto other = ClusterTiles<ToldTile<128, 256, 2, 1>>(3000, 4000, cluster, 5, rank, 2);
      bool same = true;
      for (auto t = ClusterTiles<Tile<128, 256, 2, 1, 3>>(3000, 4000, cluster, 5, rank); t.has();
           t.next(), told.next(), other.next()) {
        REQUIRE(told.has());
        CHECK(told.m0() == t.m0());
        CHECK(told.n0() == t.n0());
        same = same && other.m0() == t.m0() && other.n0() == t.n0();
      }
      CHECK(!told.has());
      CHECK(!same);  // as the group matters here
    }
  }
}

TEST_CASE("schedule: where the tiles of a CTA are") {
  // D of 1200 x 700 is 10 x 3 tiles of 128 x 256, 5 x 3 blocks of 2 x 1. Two rows of blocks are swept
  // together: blocks 0 to 5 are of rows 0 and 1, 6 to 11 of rows 2 and 3, 12 to 14 of row 4.
  using T = Tile<128, 256, 2, 1, 2>;
  struct Place {
    int m0, n0;
  };
  // Cluster 1 of 4 takes blocks 1, 5, 9 and 13: rows and columns 1 0, 1 2, 3 1, 4 1.
  const Place upper[] = {{256, 0}, {256, 512}, {768, 256}, {1024, 256}};
  for (const int rank : {0, 1}) {
    auto t = ClusterTiles<T>(1200, 700, 1, 4, rank);
    for (const Place& at : upper) {
      CAPTURE(at.m0);
      CAPTURE(at.n0);
      REQUIRE(t.has());
      CHECK(t.m0() == at.m0 + rank * 128);
      CHECK(t.n0() == at.n0);
      t.next();
    }
    CHECK(!t.has());
  }
  // The second of two consumers has blocks 5 and 13.
  auto second = ClusterTiles<T>(1200, 700, 1, 4, 0).every(2, 1);
  CHECK(second.m0() == 256);
  CHECK(second.n0() == 512);
  second.next();
  CHECK(second.m0() == 1024);
  CHECK(second.n0() == 256);
  second.next();
  CHECK(!second.has());
  // More clusters than blocks: the last have nothing to do. No D, no tiles.
  CHECK(!ClusterTiles<T>(1200, 700, 15, 16, 0).has());
  CHECK(!ClusterTiles<T>(0, 700, 0, 4, 0).has());
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
