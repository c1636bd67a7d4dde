// Rung 12's table of configurations, what its model expects of them, and the rule of early starts.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "common/tile/cost_model.h"
#include "common/tile/shared_k.h"

using tile::crowding;
using tile::Gpu;
using tile::predicted_clocks;
using tile::Share;
using tile::SHARED_K;
using tile::SharedK;
using tile::starts_early;

namespace {

constexpr int LARGEST = std::numeric_limits<int>::max();

int resident(const SharedK& row) {
  return static_cast<int>(Gpu{}.sms) / row.cluster() * row.cluster() * row.ctas;
}

double clocks(const SharedK& row, int m, int n, int k) {
  return predicted_clocks(row, m, n, k, resident(row), Gpu{});
}

std::string name_of(const SharedK& row) {
  std::string name = std::to_string(row.bm()) + "x" + std::to_string(row.bn);
  if (row.sharers() > 1) {
    name += "_" + std::to_string(row.cluster_m) + "x" + std::to_string(row.cluster_n);
  }
  if (row.ctas > 1) name += "_x" + std::to_string(row.ctas);
  if (row.split > 1) name += "_k" + std::to_string(row.split);
  if (row.upright) name += "_up";
  if (row.share == Share::cut) name += "_cut";
  if (row.share == Share::last_round) name += "_last";
  if (row.share == Share::all_rounds) name += "_all";
  return name;
}

// That is to say one that can run every call: no workspace, and a grid of any size.
bool serves_all(const SharedK& row) {
  return row.share == Share::none && row.cluster() == 1;
}

}  // namespace

TEST_CASE("shared K: each row is named by its numbers, and there once") {
  std::set<std::string> names;
  for (const SharedK& row : SHARED_K) {
    CHECK(row.name == name_of(row));
    names.insert(row.name);
  }
  CHECK(names.size() == std::size(SHARED_K));
}

// So that they are no kernels of their own, and the model has them as calls of D^T.
TEST_CASE("shared K: the upright tiles are the cut ones, each of them once") {
  std::vector<std::string> upright, cut;
  for (const SharedK& row : tile::UPRIGHT) {
    CHECK(row.name == name_of(row));
    CHECK(row.upright);
    SharedK lying = row;
    lying.upright = false;
    upright.push_back(name_of(lying));
  }
  for (const SharedK& row : SHARED_K) {
    CHECK_FALSE(row.upright);
    if (row.share == Share::cut) cut.push_back(row.name);
  }
  CHECK(upright == cut);
}

TEST_CASE("shared K: rows that a kernel can be made of") {
  for (const SharedK& row : SHARED_K) {
    const std::string name = row.name;
    CAPTURE(name);
    CHECK(row.consumers * row.blocks >= 1);
    CHECK(row.consumers <= 3);
    CHECK(row.bn % 8 == 0);
    CHECK(row.bn >= 8);
    CHECK(row.bn <= 256);
    CHECK(row.cluster() <= 8);
    CHECK((row.split == 1 || row.share == Share::none));  // K is shared one way at a time
  }
}

TEST_CASE("shared K: the rows of D in tiles whose CTAs load slices of them") {
  for (const SharedK& row : SHARED_K) {
    if (row.cluster_m == 1) continue;
    const std::string name = row.name;
    CAPTURE(name);
    const int atoms = 8 * row.cluster_m;  // a slice is whole swizzle atoms
    CHECK(row.bn % atoms == 0);
    for (int m = 1; m <= 4 * row.bn * row.cluster_n; ++m) {
      const int tiles = tile::ceil_div(m, row.bn * row.cluster_n) * row.cluster_n;
      const int rows = tile::rows_of_tile(m, row.bn, tiles, row.split, row.cluster_m);
      CHECK(rows % atoms == 0);
      CHECK(rows <= row.bn);
      CHECK(rows * tiles >= m);
      CHECK((rows - atoms) * tiles < m);  // no atom more than is needed
    }
  }
}

TEST_CASE("shared K: a row that needs no workspace and no cluster serves every shape") {
  CHECK(std::any_of(std::begin(SHARED_K), std::end(SHARED_K), serves_all));
}

TEST_CASE("shared K: predictions are finite and positive for every shape and grid") {
  for (const SharedK& row : SHARED_K) {
    const std::string name = row.name;
    CAPTURE(name);
    for (const int m : {1, 7, 128, 4096, LARGEST}) {
      for (const int n : {1, 65, 576, 24576, LARGEST}) {
        for (const int k : {1, 64, 1000, 16384, LARGEST}) {
          for (const int ctas : {1, 8, resident(row)}) {
            const double expected = predicted_clocks(row, m, n, k, ctas, Gpu{});
            CHECK(std::isfinite(expected));
            CHECK(expected > 0);
          }
        }
      }
    }
  }
}

TEST_CASE("shared K: tiles for rows that begin inside sectors of L2 are for these alone") {
  int found = 0;
  for (const SharedK& row : SHARED_K) {
    if (!tile::for_rows_inside_sectors(row)) continue;
    const std::string name = row.name;
    CAPTURE(name);
    ++found;
    const int k = 16384;  // long, and few tiles, so that all that can be cut is
    const auto expected = [&](int ld) {
      return predicted_clocks(row, 500, 300, k, resident(row), Gpu{}, ld, ld);
    };
    CHECK(expected(k) == tile::NEVER);
    CHECK(expected(k + 16) == tile::NEVER);
    CHECK(expected(k + 8) < tile::NEVER);
  }
  CHECK(found == 9);
}

// Where K is short, sharing costs more than the tiles that make it needless; and a row of K steps that
// many clusters share is slower than that of four times the tiles.
TEST_CASE("shared K: four times the K take longer, of the rows or columns no less") {
  // More CTAs may save a little: the launch, which then starts early, and more of them ask L2. Columns
  // are those of whole tiles: one outside of the matrix costs L2 as much as seven of it, so that four
  // times 576, nine tiles of 256, may take less than 576, of which a quarter of three tiles is outside.
  constexpr double ABOUT = 0.85, SAVED = tile::LAUNCH_CLOCKS;
  for (const SharedK& row : SHARED_K) {
    if (row.share == Share::last_round || row.share == Share::all_rounds) continue;
    const std::string name = row.name;
    CAPTURE(name);
    for (const int m : {64, 500, 4096}) {
      for (const int n : {576, 2112, 7168}) {
        for (const int k : {512, 2048, 7168}) {
          if (row.share == Share::cut && k == 512) continue;
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          const double once = clocks(row, m, n, k);
          if (once == tile::NEVER) continue;  // does not share anything, or not well
          CHECK(clocks(row, 4 * m, n, k) + SAVED > ABOUT * once);
          const int block = row.bm() * row.cluster_m, whole = tile::ceil_div(n, block) * block;
          CHECK(clocks(row, m, 4 * whole, k) + SAVED > ABOUT * clocks(row, m, whole, k));
          CHECK(clocks(row, m, n, 4 * k) > once);
        }
      }
    }
  }
}

TEST_CASE("shared K: sharing pays where tiles are few and K is long") {
  const SharedK whole = {"", 2, 1, 128}, cut = {"", 2, 1, 128, 1, 1, 1, 1, Share::cut};
  const SharedK all = {"", 2, 1, 128, 1, 1, 1, 1, Share::all_rounds};
  const SharedK split = {"", 2, 1, 128, 1, 1, 4};
  for (const SharedK& row : {cut, all, split}) {
    CHECK(clocks(row, 128, 576, 16384) < clocks(whole, 128, 576, 16384));
  }
  CHECK(clocks(cut, 128, 576, 256) == tile::NEVER);        // no part of 4 steps
  CHECK(clocks(all, 128, 132 * 128, 256) == tile::NEVER);  // a full round: nothing is shared
  CHECK(clocks(all, 256, 132 * 64, 8192) ==
        tile::NEVER);  // two tiles would read the same rows of B
}

TEST_CASE("early start: what it loses, by where CTAs come to lie") {
  CHECK(crowding(132, 132, 1, 1, 0.5, false) == doctest::Approx(0.04));  // every SM has one
  CHECK(crowding(132, 132, 1, 1, 1, false) == doctest::Approx(0.1));     // and L2 is about as slow
  CHECK(crowding(66, 132, 1, 1, 0, false) == doctest::Approx(0.19));     // half of them idle
  CHECK(crowding(132, 264, 1, 2, 0, false) == doctest::Approx(0.19));    // two may crowd on an SM
  CHECK(crowding(133, 132, 1, 1, 0.5, false) == 0);                      // rounds of CTAs
  CHECK(crowding(133, 132, 1, 1, 1, false) == doctest::Approx(0.02));
  CHECK(crowding(66, 132, 2, 1, 1, false) == 0);  // the launch spreads clusters
  CHECK(crowding(66, 264, 2, 2, 1, false) == crowding(66, 264, 1, 2, 1, false));  // but not on SMs
  for (int ctas = 1; ctas < 132; ++ctas) {
    CHECK(crowding(ctas, 132, 1, 1, 1, false) > crowding(ctas + 1, 132, 1, 1, 1, false));
  }
  CHECK(crowding(132, 132, 1, 1, 1, true) == doctest::Approx(0.04));  // nobody reads the same
}

TEST_CASE("early start: what it loses where dependents are allowed behind the last load") {
  CHECK(tile::crowding_behind_loads(132, 132, 1, 2) == doctest::Approx(0.12));
  CHECK(tile::crowding_behind_loads(66, 132, 1, 2) == doctest::Approx(0.12));
  CHECK(tile::crowding_behind_loads(132, 132, 1, 1) == doctest::Approx(0.10));  // of 8 bits
  CHECK(tile::crowding_behind_loads(133, 132, 1, 2) == 0);                      // rounds of CTAs
  CHECK(tile::crowding_behind_loads(66, 132, 2, 2) == 0);  // the launch spreads clusters
}

TEST_CASE("early start: of short launches, and of those that lose nothing") {
  const double half = crowding(66, 132, 1, 1, 0, false);
  const double longest = tile::LAUNCH_CLOCKS / half;
  CHECK(starts_early(half, 0.99 * longest));
  CHECK_FALSE(starts_early(half, 1.01 * longest));
  CHECK(starts_early(0, 1e12));
  // The model takes the better of the two.
  CHECK(tile::launched(longest / 2, half) == doctest::Approx(longest / 2 * (1 + half)));
  CHECK(tile::launched(2 * longest, half) == 2 * longest + tile::LAUNCH_CLOCKS);
}

TEST_CASE("early start: how long a launch takes at least") {
  const Gpu gpu;
  const double products = 4096.0 * 4096 * 4096;
  const double all = tile::least_clocks(products, 1, gpu.sms, gpu);
  CHECK(all == doctest::Approx(2 * products / (gpu.tensor_flop * gpu.sms)));
  CHECK(tile::least_clocks(products, 1, gpu.sms / 2, gpu) == doctest::Approx(2 * all));
  CHECK(tile::least_clocks(1, 2400e3, 1, gpu) == doctest::Approx(1000));  // 2400 bytes a clock
}

TEST_CASE("early start: tiles that are shared or cut, by the clusters that they make") {
  const Gpu gpu;
  const SharedK whole = {"", 2, 1, 128}, cut = {"", 2, 1, 128, 1, 1, 1, 1, Share::cut};
  const SharedK all = {"", 2, 1, 128, 1, 1, 1, 1, Share::all_rounds};
  const auto lost = [&](const SharedK& row, int tiles) {  // a row of them
    const tile::KSchedule schedule = tile::share_k(row.share, tiles, 256, 132);
    return crowding(row, schedule, 132, 128, tiles * 128, 128, gpu);
  };
  CHECK(lost(whole, 66) == 0);  // two such grids fit
  CHECK(lost(whole, 67) == doctest::Approx(0.04 + 0.3 * 65 / 132));
  CHECK(lost(cut, 33) == doctest::Approx(0.04));                   // 4 parts each
  CHECK(lost(cut, 50) == doctest::Approx(0.04 + 0.3 * 32 / 132));  // 2 parts
  CHECK(lost(all, 33) == 0);
}

TEST_CASE("early start: one CTA, of two that an SM could have, is short and starts early") {
  const Gpu gpu;
  const SharedK row = {"", 1, 1, 8, 1, 1, 1, 2};
  const tile::KSchedule schedule = tile::share_k(row.share, 1, 4, 264);
  const double least = tile::least_clocks(row, schedule, 264, 8, 64, 256, gpu);
  CHECK(std::isfinite(least));
  CHECK(starts_early(crowding(row, schedule, 264, 8, 64, 8, gpu), least));
}

TEST_CASE("early start: what a CTA asks of L2, beside its products") {
  const Gpu gpu;
  const double small = tile::l2_share(gpu, 128, 128, 256);
  const double large = tile::l2_share(gpu, 256, 256, 512);
  CHECK(small == doctest::Approx(2 * large));  // half the products for each row
  CHECK(tile::l2_share(gpu, 128, 128, 128) == doctest::Approx(small / 2));
}
