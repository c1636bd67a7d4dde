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

// Rows of blocks that ClusterTiles<T> sweeps together: T::GROUP, or, of a T that has none, what the
// kernel is told.
template <class T>
struct RasterGroup {
  constexpr RasterGroup(int rows_) : rows(rows_) {}
  int rows;
};
template <class T>
  requires requires { T::GROUP; }
struct RasterGroup<T> {
  static constexpr int rows = T::GROUP;
};

// The tiles of D [m][n] that one CTA works on, one after the other. Clusters take blocks of
// CLUSTER_M x CLUSTER_N tiles in grouped order, `clusters` at a time; CTA `rank` of its cluster has
// row rank / CLUSTER_N and column rank % CLUSTER_N of each block. A tile at the edge may lie outside
// of D, in part or all of it.
//
//   for (auto t = tiles; t.has(); t.next()) { ... D[t.m0()][t.n0()] is the tile's first element ... }
//
// T has BM and BN, the elements of a tile, CLUSTER_M and CLUSTER_N in CTAs, and GROUP, if that is
// known when it is compiled.
template <class T>
class ClusterTiles : RasterGroup<T> {
 public:
  constexpr ClusterTiles(int m, int n, int cluster, int clusters, int rank,
                         RasterGroup<T> group = {})
      : RasterGroup<T>(group),
        blocks_m_(ceil_div(m, T::BM * T::CLUSTER_M)),
        blocks_n_(ceil_div(n, T::BN * T::CLUSTER_N)),
        block_(cluster),
        step_(clusters),
        rank_(rank) {}

  constexpr bool has() const { return block_ < blocks_m_ * blocks_n_; }
  constexpr void next() { block_ += step_; }
  constexpr bool is_last() const { return block_ + step_ >= blocks_m_ * blocks_n_; }

  constexpr int m0() const { return (at().m * T::CLUSTER_M + rank_ / T::CLUSTER_N) * T::BM; }
  constexpr int n0() const { return (at().n * T::CLUSTER_N + rank_ % T::CLUSTER_N) * T::BN; }

  // Of these tiles every `count`-th, from number `first` on.
  constexpr ClusterTiles every(int count, int first) const {
    ClusterTiles some = *this;
    some.block_ += first * step_;
    some.step_ *= count;
    return some;
  }

 private:
  constexpr TileCoord at() const {
    return grouped_raster(block_, blocks_m_, blocks_n_, RasterGroup<T>::rows);
  }

  int blocks_m_, blocks_n_;  // of D
  int block_, step_;
  int rank_;
};

}  // namespace tile
