// Sharing out the K steps of tiles, so that every cluster gets as much work as the others.
#pragma once

#include <algorithm>
#include <limits>

#include "common/tile/math.h"

namespace tile {

// Rows of D [m][n] in each of `tiles` tiles of D^T that have room for bn: as many in each, since a
// row that is not there costs more than one that is. Where the CTAs of a cluster split K and finish
// a tile by columns, it must be whole; where cluster_m of them load it together, a slice each, a
// slice is whole swizzle atoms of 8 rows.
constexpr int rows_of_tile(int m, int bn, int tiles, int split, int cluster_m = 1) {
  if (cluster_m > 1) return ceil_div(m, tiles * 8 * cluster_m) * 8 * cluster_m;
  return split > 1 ? std::min(bn, m) : ceil_div(m, tiles);
}

// Which tiles' K is shared.
enum class Share {
  none,
  cut,         // each tile is cut into equal parts, so many that they fill the GPU once
  last_round,  // the tiles of the last round, if it does not fill the GPU
  all_rounds,  // stream-K: all tiles
};

// What the clusters of a grid do, each for itself by its number. The first `whole` tiles are taken
// whole, in rounds. The K steps of the others lie in a row, tile after tile, and the first `sharers`
// clusters get equal parts of it: one may end in the middle of a tile, and the next cluster goes on
// there. Here 2 of 4 tiles of 3 steps are taken whole by 2 clusters, and there none of 3:
//
//   tile      | 0 0 0 | 1 1 1 | 2 2 2 3 3 3 |          | 0 0 0 1 1 1 2 2 2 |
//   cluster   | 0 0 0 | 1 1 1 | 0 0 0 1 1 1 |          | 0 0 0 0 0 1 1 1 1 |
struct KSchedule {
  int tiles;     // of D, of one cluster each
  int k_tiles;   // K steps of each, at least 1
  int clusters;  // of the grid
  int whole;     // tiles that are not shared
  int sharers;   // clusters that share the others: at most as many as those have steps
  int cut;       // 0; or each tile is cut into so many parts, so that none is of two tiles

  // Which part the grid's `cluster` takes. Of cut tiles, those that start one after the other take the
  // same part of K of neighbouring tiles: they read the same rows at the same time, which L2 then
  // reads once for several SMs.
  constexpr int part_of(int cluster) const {
    return cut > 0 ? cluster % tiles * cut + cluster / tiles : cluster;
  }

  // The step of the row at which a cluster's part begins.
  constexpr int begin(int cluster) const {
    if (cut > 0) return cluster / cut * k_tiles + share_begin(k_tiles, cluster % cut, cut);
    if (cluster > sharers) cluster = sharers;
    const int steps = (tiles - whole) * k_tiles, longer = steps % sharers;
    return cluster * (steps / sharers) + (cluster < longer ? cluster : longer);
  }
  // The cluster whose part has this step.
  constexpr int cluster_of(int step) const {
    if (cut > 0) return step / k_tiles * cut + ((step % k_tiles + 1) * cut - 1) / k_tiles;
    const int steps = (tiles - whole) * k_tiles, each = steps / sharers;
    const int in_longer = steps % sharers * (each + 1);
    return step < in_longer ? step / (each + 1) : steps % sharers + (step - in_longer) / each;
  }

  // Of a tile that is not taken whole: the clusters first_sharer() to last_sharer() have a part of
  // it each, in the order of K.
  constexpr int first_sharer(int tile) const { return cluster_of((tile - whole) * k_tiles); }
  constexpr int last_sharer(int tile) const {
    return cluster_of((tile - whole) * k_tiles + k_tiles - 1);
  }
};

// The schedule of a grid of at most `at_once` clusters. A part has at least MIN_STEPS steps, where
// there are as many. Nothing is shared of tiles whose steps are more than an int counts.
constexpr KSchedule share_k(Share share, int tiles, int k_tiles, int at_once) {
  constexpr int MIN_STEPS = 4, MOST = std::numeric_limits<int>::max();
  const int rounds = ceil_div(tiles, at_once);
  const int parts = share == Share::cut ? at_once / tiles : 1;
  // begin() and cluster_of() multiply steps of a tile by its parts.
  const int cut = std::min({parts, k_tiles / MIN_STEPS, MOST / k_tiles});
  if (cut > 1) return {tiles, k_tiles, tiles * cut, 0, tiles * cut, cut};
  const bool even = tiles == rounds * at_once;
  const int whole = share == Share::last_round ? (rounds - 1) * at_once : 0;
  if (share == Share::none || share == Share::cut || even || tiles - whole > MOST / k_tiles) {
    return {tiles, k_tiles, tiles < at_once ? tiles : at_once, tiles, 1, 0};
  }
  const int enough = std::max(1, (tiles - whole) * k_tiles / MIN_STEPS);
  const int sharers = std::min(enough, at_once);
  return {tiles, k_tiles, whole > 0 ? at_once : sharers, whole, sharers, 0};
}

// The pieces of work of one cluster, one after the other.
//
//   for (auto share = shares; share.has(); share.next()) { ... share.tile() ... }
class KShares {
 public:
  constexpr KShares(const KSchedule& schedule, int cluster)
      : schedule_(schedule), tile_(cluster), step_(0), end_(0) {
    if (schedule.whole < schedule.tiles) {
      step_ = schedule.begin(cluster);
      end_ = schedule.begin(cluster + 1);
    }
  }

  constexpr bool has() const { return is_whole() || step_ < end_; }
  constexpr void next() {
    if (is_whole()) {
      tile_ += schedule_.clusters;
    } else {
      step_ += k_tiles();
    }
  }

  constexpr int tile() const {
    return is_whole() ? tile_ : schedule_.whole + step_ / schedule_.k_tiles;
  }
  constexpr int first_k() const { return is_whole() ? 0 : step_ % schedule_.k_tiles; }
  // K steps of this piece.
  constexpr int k_tiles() const {
    if (is_whole()) return schedule_.k_tiles;
    const int left_of_tile = schedule_.k_tiles - first_k();
    return end_ - step_ < left_of_tile ? end_ - step_ : left_of_tile;
  }
  // Whether other clusters have pieces of this tile. Of the tiles that a cluster begins, only the
  // last can have some, and of those that others began, only its first.
  constexpr bool is_shared() const { return k_tiles() < schedule_.k_tiles; }

 private:
  constexpr bool is_whole() const { return tile_ < schedule_.whole; }

  KSchedule schedule_;
  int tile_;        // of those taken whole
  int step_, end_;  // of our part of the row
};

}  // namespace tile
