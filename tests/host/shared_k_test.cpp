// Rung 12's table of configurations, what its model expects of them, and the rule of early starts.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <set>
#include <string>

#include "common/tile/cost_model.h"
#include "common/tile/shared_k.h"

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
  if (row.sharers > 1) name += "_1x" + std::to_string(row.sharers);
  if (row.ctas > 1) name += "_x" + std::to_string(row.ctas);
  if (row.split > 1) name += "_k" + std::to_string(row.split);
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

TEST_CASE("shared K: rows that a kernel can be made of") {
  for (const SharedK& row : SHARED_K) {
    const std::string name = row.name;
    CAPTURE(name);
    CHECK(row.consumers * row.blocks >= 1);
    CHECK(row.consumers <= 2);
    CHECK(row.bn % 8 == 0);
    CHECK(row.bn >= 8);
    CHECK(row.bn <= 256);
    CHECK(row.cluster() <= 8);
    CHECK((row.split == 1 || row.share == Share::none));  // K is shared one way at a time
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

// Where K is short, sharing costs more than the tiles that make it needless; and a row of K steps that
// many clusters share is slower than that of four times the tiles.
TEST_CASE("shared K: four times the K take longer, of the rows or columns no less") {
  // More CTAs may save a little: the launch starts early then, more of them ask L2, and less of
  // their tiles lies outside of the matrix.
  constexpr double ABOUT = 0.85;
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
          CHECK(clocks(row, 4 * m, n, k) > ABOUT * once);
          CHECK(clocks(row, m, 4 * n, k) > ABOUT * once);
          CHECK(clocks(row, m, n, 4 * k) > once);
        }
      }
    }
  }
}

TEST_CASE("shared K: sharing pays where tiles are few and K is long") {
  const SharedK whole = {"", 2, 1, 128}, cut = {"", 2, 1, 128, 1, 1, 1, Share::cut};
  const SharedK all = {"", 2, 1, 128, 1, 1, 1, Share::all_rounds};
  const SharedK split = {"", 2, 1, 128, 1, 4};
  for (const SharedK& row : {cut, all, split}) {
    CHECK(clocks(row, 128, 576, 16384) < clocks(whole, 128, 576, 16384));
  }
  CHECK(clocks(cut, 128, 576, 256) == tile::NEVER);        // no part of 4 steps
  CHECK(clocks(all, 128, 132 * 128, 256) == tile::NEVER);  // a full round: nothing is shared
  CHECK(clocks(all, 256, 132 * 64, 8192) ==
        tile::NEVER);  // two tiles would read the same rows of B
}

// Of `ctas` CTAs, 132 at a time, one an SM, whose operands are far more than L2 holds.
bool long_one_starts_early(int ctas, double l2_share = 0) {
  return starts_early(Gpu{}, ctas, 132, 1, l2_share, 1e9);
}

TEST_CASE("early start: where every SM is busy to the end") {
  CHECK(long_one_starts_early(132));
  CHECK(long_one_starts_early(4 * 132));
  CHECK(long_one_starts_early(131));
  CHECK(long_one_starts_early(20 * 132 + 1));  // a last round that is hardly there, of many
  CHECK_FALSE(long_one_starts_early(1));
  CHECK_FALSE(long_one_starts_early(66));
  CHECK_FALSE(long_one_starts_early(133));
  CHECK_FALSE(long_one_starts_early(132 + 66));
}

TEST_CASE("early start: or where there is little to read, with one CTA an SM") {
  CHECK(starts_early(Gpu{}, 66, 132, 1, 0, 50e6));
  CHECK(starts_early(Gpu{}, 66, 132, 1, 1, 50e6));
  CHECK_FALSE(starts_early(Gpu{}, 66, 132, 1, 0, 70e6));  // more than L2 holds
  CHECK_FALSE(starts_early(Gpu{}, 66, 264, 2, 0, 50e6));  // two may crowd on an SM
  CHECK(starts_early(Gpu{}, 260, 264, 2, 0, 50e6));
}

TEST_CASE("early start: not where L2 is about as slow as the products") {
  CHECK(long_one_starts_early(132, 0.5));
  CHECK_FALSE(long_one_starts_early(132, 1));
  const Gpu gpu;
  const double small = tile::l2_share(gpu, 128, 128, 256);
  const double large = tile::l2_share(gpu, 256, 256, 512);
  CHECK(small == doctest::Approx(2 * large));  // half the products for each row
  CHECK(tile::l2_share(gpu, 128, 128, 128) == doctest::Approx(small / 2));
}
