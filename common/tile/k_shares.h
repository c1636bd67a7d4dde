// Sharing out the K steps of the tiles, so that every cluster gets as much work as the others.
#pragma once

#include "common/tile/math.h"

namespace tile {

// What the clusters of a grid do, each for itself by its number. The first `whole` tiles are taken
// whole, in rounds. The K steps of the other tiles lie in a row, tile after tile, and `sharers`
// clusters get equal parts of that row: a part may end in the middle of a tile, and the next cluster
// goes on there. Here 4 tiles of 3 steps, of which the first 2 are taken whole by 2 clusters:
//
//   tile      | 0 0 0 | 1 1 1 | 2 2 2 3 3 3 |          and here one is:   | 2 2 2 3 3 3 4 4 4 |
//   cluster   | 0 0 0 | 1 1 1 | 0 0 0 1 1 1 |          by 2 clusters:     | 0 0 0 0 0 1 1 1 1 |
struct KSchedule {
  int tiles;     // of D, of one cluster each
  int k_tiles;   // K steps of each, at least 1
  int clusters;  // of the grid
  int whole;     // tiles that are not shared
  int sharers;   // clusters that share the others: at most as many as those have steps
  int steps;     // of a sharer, and
  int longer;    // the first ones have one more
  int split = 1;  // or, if above 1: each tile is cut into so many parts, of a cluster each

  // The step of the row at which a cluster's part begins.
  constexpr int begin(int cluster) const {
    if (split > 1) return cluster / split * k_tiles + share_begin(k_tiles, cluster % split, split);
    if (cluster > sharers) cluster = sharers;
    return cluster * steps + (cluster < longer ? cluster : longer);
  }
  // The cluster whose part has this step.
  constexpr int cluster_of(int step) const {
    const int in_longer = longer * (steps + 1);
    return step < in_longer ? step / (steps + 1) : longer + (step - in_longer) / steps;
  }
};

// All rounds of tiles but the last `shared_rounds` are taken whole, and the last one, if it is a
// full one, too. A sharer gets at least min_steps steps, if there are as many. The steps of all tiles
// must not overflow.
constexpr KSchedule share_k(int tiles, int k_tiles, int clusters, int shared_rounds,
                            int min_steps) {
  const int rounds = ceil_div(tiles, clusters);
  const bool even = tiles == rounds * clusters;
  const int whole_rounds = even ? rounds : rounds > shared_rounds ? rounds - shared_rounds : 0;
  const int whole = even ? tiles : whole_rounds * clusters;
  const int steps = (tiles - whole) * k_tiles;
  int sharers = steps / min_steps < clusters ? steps / min_steps : clusters;
  if (sharers == 0) sharers = 1;
  return {tiles, k_tiles, clusters, whole, sharers, steps / sharers, steps % sharers};
}

// The pieces of work of one cluster, one after the other.
//
//   for (auto share = shares; share.has(); share.next()) { ... share.tile() ... }
class KShares {
 public:
  constexpr KShares(const KSchedule& schedule, int cluster)
      : schedule_(schedule),
        tile_(cluster),
        step_(schedule.begin(cluster)),
        end_(schedule.begin(cluster + 1)) {}

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

  // The clusters first_sharer() .. first_sharer() + sharers() - 1 have a piece of this tile each, in
  // the order of K. Of the tiles that a cluster begins, only the last can have several.
  constexpr bool is_shared() const { return k_tiles() < schedule_.k_tiles; }
  constexpr int first_sharer() const { return schedule_.cluster_of(step_ - first_k()); }
  constexpr int sharers() const {
    const int last_step = step_ - first_k() + schedule_.k_tiles - 1;
    return schedule_.cluster_of(last_step) - first_sharer() + 1;
  }

 private:
  constexpr bool is_whole() const { return tile_ < schedule_.whole; }

  KSchedule schedule_;
  int tile_;        // of those taken whole
  int step_, end_;  // of our part of the row
};

}  // namespace tile
