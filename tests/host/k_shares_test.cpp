// Sharing out the K steps of tiles: each step to exactly one cluster, whatever the shape and the
// grid, as evenly as can be, and so that the places of the workspace suffice.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "common/tile/k_shares.h"

using tile::KSchedule;
using tile::KShares;
using tile::Share;
using tile::share_k;

namespace {

constexpr int MIN_STEPS = 4;
constexpr int LARGEST = std::numeric_limits<int>::max();

const Share SHARES[] = {Share::none, Share::cut, Share::last_round, Share::all_rounds};
const int TILES[] = {1, 2, 3, 5, 6, 7, 11, 12, 13, 64, 131, 132, 133, 200, 265};
const int K_TILES[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64, 113};
const int AT_ONCE[] = {1, 2, 3, 5, 6, 7, 66, 132, 264};

struct Piece {
  int cluster, tile, first_k, k_tiles;
  bool shared;
};

// What one cluster does, in its order.
std::vector<Piece> pieces_of(const KSchedule& schedule, int cluster) {
  std::vector<Piece> pieces;
  for (KShares share(schedule, cluster); share.has(); share.next()) {
    pieces.push_back({cluster, share.tile(), share.first_k(), share.k_tiles(), share.is_shared()});
    REQUIRE(pieces.size() <= static_cast<size_t>(schedule.tiles));
  }
  return pieces;
}

std::string text_of(const KSchedule& s, int at_once) {
  return std::to_string(s.tiles) + " tiles of " + std::to_string(s.k_tiles) + " steps, " +
         std::to_string(at_once) + " clusters at once: " + std::to_string(s.clusters) +
         " clusters, " + std::to_string(s.whole) + " whole, " + std::to_string(s.sharers) +
         " sharers, cut " + std::to_string(s.cut);
}

// Calls check(share, schedule, at_once) for every schedule, at least one of them shared.
template <class Check>
void for_each_schedule(Check check) {
  int shared = 0;
  for (const Share share : SHARES) {
    for (const int tiles : TILES) {
      for (const int k_tiles : K_TILES) {
        for (const int at_once : AT_ONCE) {
          const KSchedule schedule = share_k(share, tiles, k_tiles, at_once);
          const std::string what = text_of(schedule, at_once);
          CAPTURE(what);
          check(share, schedule, at_once);
          shared += schedule.whole < tiles;
        }
      }
    }
  }
  CHECK(shared > 0);
}

}  // namespace

TEST_CASE("K shares: every K step of every tile is in exactly one piece") {
  for_each_schedule([](Share, const KSchedule& s, int) {
    std::vector<int> times(static_cast<size_t>(s.tiles) * s.k_tiles);
    for (int cluster = 0; cluster < s.clusters; ++cluster) {
      for (const Piece& piece : pieces_of(s, cluster)) {
        REQUIRE(piece.tile >= 0);
        REQUIRE(piece.tile < s.tiles);
        REQUIRE(piece.first_k >= 0);
        REQUIRE(piece.k_tiles > 0);
        REQUIRE(piece.first_k + piece.k_tiles <= s.k_tiles);
        for (int k = piece.first_k; k < piece.first_k + piece.k_tiles; ++k) {
          ++times[static_cast<size_t>(piece.tile) * s.k_tiles + k];
        }
      }
    }
    CHECK(std::all_of(times.begin(), times.end(), [](int count) { return count == 1; }));
  });
}

TEST_CASE("K shares: a cluster takes its pieces in order, whole tiles first") {
  for_each_schedule([](Share, const KSchedule& s, int) {
    for (int cluster = 0; cluster < s.clusters; ++cluster) {
      const std::vector<Piece> pieces = pieces_of(s, cluster);
      for (size_t i = 0; i < pieces.size(); ++i) {
        const Piece& piece = pieces[i];
        if (piece.tile < s.whole) {
          CHECK(piece.tile == cluster + static_cast<int>(i) * s.clusters);
          CHECK(piece.k_tiles == s.k_tiles);
          CHECK(!piece.shared);
        } else if (i > 0 && pieces[i - 1].tile >= s.whole) {  // goes on where that one ended
          CHECK(pieces[i - 1].first_k + pieces[i - 1].k_tiles == s.k_tiles);
          CHECK(piece.tile == pieces[i - 1].tile + 1);
          CHECK(piece.first_k == 0);
        }
      }
    }
  });
}

TEST_CASE("K shares: cluster_of is the inverse of begin") {
  for_each_schedule([](Share, const KSchedule& s, int) {
    if (s.whole == s.tiles) return;
    const int steps = (s.tiles - s.whole) * s.k_tiles;
    CHECK(s.begin(0) == 0);
    CHECK(s.begin(s.sharers) == steps);
    bool right = true;
    for (int step = 0; step < steps; ++step) {
      const int cluster = s.cluster_of(step);
      right &= cluster >= 0 && cluster < s.sharers;
      right &= s.begin(cluster) <= step && step < s.begin(cluster + 1);
    }
    CHECK(right);
  });
}

TEST_CASE("K shares: the sharers of a tile are those that have a piece of it, in the order of K") {
  for_each_schedule([](Share, const KSchedule& s, int) {
    std::vector<std::vector<Piece>> of_tile(static_cast<size_t>(s.tiles));
    for (int cluster = 0; cluster < s.clusters; ++cluster) {
      for (const Piece& piece : pieces_of(s, cluster)) of_tile[piece.tile].push_back(piece);
    }
    for (int tile = s.whole; tile < s.tiles; ++tile) {
      const std::vector<Piece>& pieces = of_tile[static_cast<size_t>(tile)];
      REQUIRE(!pieces.empty());
      CHECK(pieces.front().cluster == s.first_sharer(tile));
      CHECK(pieces.back().cluster == s.last_sharer(tile));
      int k = 0;
      for (size_t i = 0; i < pieces.size(); ++i) {
        CHECK(pieces[i].cluster == pieces.front().cluster + static_cast<int>(i));
        CHECK(pieces[i].first_k == k);
        CHECK(pieces[i].shared == (pieces.size() > 1));
        k += pieces[i].k_tiles;
      }
    }
  });
}

// The workspace has two places for each cluster (common/block/partial_sums.cuh).
TEST_CASE("K shares: of shared tiles a cluster began at most one and took over at most one") {
  int both = 0;
  for_each_schedule([&](Share, const KSchedule& s, int) {
    for (int cluster = 0; cluster < s.clusters; ++cluster) {
      int began = 0, took_over = 0;
      for (const Piece& piece : pieces_of(s, cluster)) {
        if (!piece.shared) continue;
        const bool first = s.first_sharer(piece.tile) == cluster;
        CHECK(first == (piece.first_k == 0));
        ++(first ? began : took_over);
      }
      CHECK(began <= 1);
      CHECK(took_over <= 1);
      both += began + took_over == 2;
    }
  });
  CHECK(both > 0);
}

TEST_CASE("K shares: parts are as long as each other, and not too short to be worth it") {
  int shortest_part = LARGEST;
  for_each_schedule([&](Share, const KSchedule& s, int) {
    if (s.whole == s.tiles) return;
    int shortest = LARGEST, longest = 0;
    for (int cluster = 0; cluster < s.sharers; ++cluster) {
      const int part = s.begin(cluster + 1) - s.begin(cluster);
      shortest = std::min(shortest, part);
      longest = std::max(longest, part);
    }
    CHECK(longest - shortest <= 1);
    CHECK(shortest >= std::min(MIN_STEPS, (s.tiles - s.whole) * s.k_tiles));
    shortest_part = std::min(shortest_part, shortest);
  });
  CHECK(shortest_part < MIN_STEPS);  // where there are not as many
}

TEST_CASE("K shares: no more clusters than run at once, and none of them idle") {
  for_each_schedule([](Share share, const KSchedule& s, int at_once) {
    CHECK(s.clusters >= 1);
    CHECK(s.clusters <= at_once);
    CHECK(s.sharers >= 1);
    CHECK(s.sharers <= s.clusters);
    for (int cluster = 0; cluster < s.clusters; ++cluster) {
      CHECK(!pieces_of(s, cluster).empty());
    }
    if (share == Share::all_rounds && s.tiles % at_once != 0 &&
        s.tiles * s.k_tiles >= MIN_STEPS * at_once) {
      CHECK(s.clusters == at_once);
    }
  });
}

TEST_CASE("K shares: which tiles' K is shared") {
  int cut = 0, rounds = 0, last = 0;
  for_each_schedule([&](Share share, const KSchedule& s, int at_once) {
    const bool even = s.tiles % at_once == 0;
    if (share == Share::none) CHECK(s.whole == s.tiles);
    if (share == Share::cut) {
      CHECK(s.whole == (s.cut > 0 ? 0 : s.tiles));
      const bool worth_it = s.tiles * 2 <= at_once && s.k_tiles >= 2 * MIN_STEPS;
      CHECK((s.cut > 1) == worth_it);
      cut += s.cut > 1;
    } else {
      CHECK(s.cut == 0);
    }
    if (share == Share::all_rounds) {
      CHECK(s.whole == (even ? s.tiles : 0));
      rounds += !even;
    }
    if (share == Share::last_round) {
      CHECK(s.whole == s.tiles - (even ? 0 : s.tiles % at_once));
      last += !even && s.whole > 0;
    }
  });
  CHECK(cut > 0);
  CHECK(rounds > 0);
  CHECK(last > 0);
}

TEST_CASE("K shares: a tile that is cut is cut into equal parts, and no part is of two tiles") {
  int parts = 0;
  for_each_schedule([&](Share, const KSchedule& s, int) {
    if (s.cut == 0) return;
    CHECK(s.clusters == s.tiles * s.cut);
    for (int cluster = 0; cluster < s.clusters; ++cluster) {
      const std::vector<Piece> pieces = pieces_of(s, cluster);
      REQUIRE(pieces.size() == 1);
      CHECK(pieces[0].tile == cluster / s.cut);
      CHECK(pieces[0].k_tiles >= s.k_tiles / s.cut);
      CHECK(pieces[0].k_tiles <= s.k_tiles / s.cut + 1);
      ++parts;
    }
  });
  CHECK(parts > 0);
}

TEST_CASE(
    "K shares: of cut tiles, neighbours in the grid have the same part of neighbouring tiles") {
  for (const int tiles : TILES) {
    for (const int at_once : AT_ONCE) {
      CAPTURE(tiles);
      CAPTURE(at_once);
      const KSchedule schedule = share_k(Share::cut, tiles, 113, at_once);
      std::vector<int> taken(schedule.clusters);
      for (int cluster = 0; cluster < schedule.clusters; ++cluster) {
        const int part = schedule.part_of(cluster);
        REQUIRE(part >= 0);
        REQUIRE(part < schedule.clusters);
        ++taken[part];
        if (schedule.cut == 0) {
          CHECK(part == cluster);
          continue;
        }
        const KShares share(schedule, part);
        CHECK(share.tile() == cluster % tiles);
        CHECK(share.first_k() == tile::share_begin(113, cluster / tiles, schedule.cut));
      }
      CHECK(std::count(taken.begin(), taken.end(), 1) == schedule.clusters);
    }
  }
}

TEST_CASE("K shares: the longest K does not overflow") {
  const int k_tiles = LARGEST / 64 + 1;  // of BK = 64
  int cut = 0;
  for (const Share share : SHARES) {
    for (const int tiles : {1, 2, 7, 60}) {
      for (const int at_once : AT_ONCE) {
        const KSchedule s = share_k(share, tiles, k_tiles, at_once);
        const std::string what = text_of(s, at_once);
        CAPTURE(what);
        cut += s.cut > 1;
        if (s.whole == s.tiles) continue;
        const int steps = (s.tiles - s.whole) * s.k_tiles;
        CHECK(s.begin(0) == 0);
        CHECK(s.begin(s.sharers) == steps);
        for (int cluster = 0; cluster < s.sharers; ++cluster) {
          const int begin = s.begin(cluster), end = s.begin(cluster + 1);
          CHECK(begin < end);
          CHECK(s.cluster_of(begin) == cluster);
          CHECK(s.cluster_of(end - 1) == cluster);
        }
      }
    }
  }
  CHECK(cut > 0);
}

// 46336 x 46336, K = 46336, in tiles of 64x8.
TEST_CASE("K shares: tiles whose steps do not fit an int are taken whole") {
  const int tiles = 724 * 5792, k_tiles = 724;
  const KSchedule all = share_k(Share::all_rounds, tiles, k_tiles, 264);
  CHECK(all.whole == tiles);
  CHECK(all.clusters == 264);
  CHECK(share_k(Share::all_rounds, LARGEST / k_tiles, k_tiles, 264).whole == 0);
  const KSchedule last = share_k(Share::last_round, tiles, k_tiles, 264);
  CHECK(last.whole == tiles / 264 * 264);
  CHECK(last.begin(last.sharers) == tiles % 264 * k_tiles);
}
