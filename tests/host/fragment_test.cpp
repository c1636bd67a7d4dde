// Which element a lane holds: against the PTX ISA's fragments, and through models of ldmatrix and
// of the trade that precedes a store.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <set>
#include <vector>

#include "common/tile/fragment.h"
#include "common/tile/swizzle.h"

namespace {

constexpr int LANES = 32;

struct Element {
  int row, col;
  bool operator==(const Element&) const = default;
};

// Element that a lane of a warp holds in register r of its accumulator, 16 rows high.
Element accumulator(int lane, int r) {
  const int j = r / 4, i = r % 4;
  return {tile::acc_row(lane, i / 2), j * 8 + tile::acc_col(lane) + i % 2};
}

using Pair = std::array<Element, 2>;  // what a 32-bit register holds, the lower half first

// What ldmatrix.x4 puts into register `reg` of `lane`: two neighbours of row lane / 4 of matrix
// `reg`, whose row r lies where lane 8 * reg + r points. row(lane) and chunk(lane) say where.
template <class Row, class Chunk>
Pair ldmatrix_x4(int lane, int reg, const Row& row, const Chunk& chunk) {
  const int source = reg * 8 + lane / 4;
  const Element first{row(source), chunk(source) * 8 + lane % 4 * 2};
  return {first, Element{first.row, first.col + 1}};
}

}  // namespace

TEST_CASE("fragment: the accumulator's elements as drawn in the PTX ISA") {
  CHECK(accumulator(0, 0) == Element{0, 0});
  CHECK(accumulator(0, 1) == Element{0, 1});
  CHECK(accumulator(0, 2) == Element{8, 0});
  CHECK(accumulator(0, 3) == Element{8, 1});
  CHECK(accumulator(3, 0) == Element{0, 6});
  CHECK(accumulator(4, 0) == Element{1, 0});
  CHECK(accumulator(29, 1) == Element{7, 3});
  CHECK(accumulator(31, 3) == Element{15, 7});
  CHECK(accumulator(0, 4) == Element{0, 8});
  CHECK(accumulator(31, 127) == Element{15, 255});
}

TEST_CASE("fragment: accumulators of a warpgroup cover 64xN exactly once") {
  for (const int n : {8, 16, 64, 128, 192, 256}) {
    CAPTURE(n);
    std::vector<int> holders(static_cast<size_t>(64 * n));
    for (int thread = 0; thread < 128; ++thread) {
      for (int r = 0; r < n / 2; ++r) {
        const Element in_warp = accumulator(thread % LANES, r);
        const int row = thread / LANES * 16 + in_warp.row;
        REQUIRE(row >= 0);
        REQUIRE(row < 64);
        REQUIRE(in_warp.col >= 0);
        REQUIRE(in_warp.col < n);
        ++holders[static_cast<size_t>(row * n + in_warp.col)];
      }
    }
    CHECK(holders == std::vector<int>(holders.size(), 1));
  }
}

TEST_CASE("fragment: after the trade each element is stored in its place, in whole sectors") {
  constexpr int BN = 256, SECTOR_ELEMS = 16;  // 32 bytes of bf16
  std::vector<int> stores(16 * BN);           // of each element of the warp's 16xBN block
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < BN / 8; j += 2) {
      CAPTURE(i);
      CAPTURE(j);
      // Each lane has two columns of block j and two of block j + 1 and gives one pair away.
      std::array<Pair, LANES> left, right, given;
      for (int lane = 0; lane < LANES; ++lane) {
        const auto at = static_cast<size_t>(lane);
        const int r = j * 4 + i * 2;
        left[at] = {accumulator(lane, r), accumulator(lane, r + 1)};
        right[at] = {accumulator(lane, r + 4), accumulator(lane, r + 5)};
        given[at] = lane % 2 ? left[at] : right[at];
      }
      std::map<int, int> sector_elems;  // sector -> elements that this store instruction writes
      for (int lane = 0; lane < LANES; ++lane) {
        CAPTURE(lane);
        const auto at = static_cast<size_t>(lane);
        const bool odd = lane % 2;
        const Pair got = given[at ^ 1], low = odd ? got : left[at], high = odd ? right[at] : got;
        const int row = tile::acc_row(lane, i), col = j * 8 + tile::traded_col(lane);
        REQUIRE(col % 4 == 0);  // the store of 8 bytes is aligned
        REQUIRE(col >= 0);
        REQUIRE(col + 4 <= BN);
        CHECK(low[0] == Element{row, col});
        CHECK(low[1] == Element{row, col + 1});
        CHECK(high[0] == Element{row, col + 2});
        CHECK(high[1] == Element{row, col + 3});
        for (int e = 0; e < 4; ++e) {
          ++stores[static_cast<size_t>(row * BN + col + e)];
          ++sector_elems[(row * BN + col + e) / SECTOR_ELEMS];
        }
      }
      CHECK(sector_elems.size() == 8);
      for (const auto& [sector, elems] : sector_elems) {
        CAPTURE(sector);
        CHECK(elems == SECTOR_ELEMS);
      }
    }
  }
  CHECK(stores == std::vector<int>(stores.size(), 1));
}

TEST_CASE("fragment: ldmatrix fetches the A operand of mma.m16n8k16") {
  for (int lane = 0; lane < LANES; ++lane) {
    for (int reg = 0; reg < 4; ++reg) {  // a0 | a1: 8 rows on | a2: 8 columns on | a3: both
      CAPTURE(lane);
      CAPTURE(reg);
      const int row = lane / 4 + (reg == 1 || reg == 3 ? 8 : 0);
      const int k = lane % 4 * 2 + (reg == 2 || reg == 3 ? 8 : 0);
      const Pair pair = ldmatrix_x4(lane, reg, tile::ldmatrix_a_row, tile::ldmatrix_a_chunk);
      CHECK(pair == Pair{Element{row, k}, Element{row, k + 1}});
    }
  }
}

TEST_CASE("fragment: ldmatrix fetches two B operands of mma.m16n8k16") {
  for (int lane = 0; lane < LANES; ++lane) {
    for (int reg = 0; reg < 4; ++reg) {  // b0 b1 of columns 0..7, b0 b1 of columns 8..15
      CAPTURE(lane);
      CAPTURE(reg);
      const int n = lane / 4 + (reg < 2 ? 0 : 8);  // a row of B, which lies in memory as [N][K]
      const int k = lane % 4 * 2 + (reg == 1 || reg == 3 ? 8 : 0);
      const Pair pair = ldmatrix_x4(lane, reg, tile::ldmatrix_b_row, tile::ldmatrix_b_chunk);
      CHECK(pair == Pair{Element{n, k}, Element{n, k + 1}});
    }
  }
}

TEST_CASE("fragment: fp32 results go to shared memory without a bank conflict, each block once") {
  constexpr int BLOCKS = 4;  // of eight columns, in a row of 128 bytes
  std::set<int> seen;
  for (int i = 0; i < BLOCKS; ++i) {
    for (int half = 0; half < 2; ++half) {
      for (int first = 0; first < LANES; first += LANES / 2) {  // 128 bytes at a time
        std::set<int> banks;
        for (int lane = first; lane < first + LANES / 2; ++lane) {
          const int row = tile::acc_row(lane, half);
          const int chunk = tile::fp32_block(lane, i) * 2 + tile::acc_col(lane) / 4;
          const int byte = tile::swizzle_offset(128, row, chunk) + lane % 2 * 8;
          for (int bank = 0; bank < 2; ++bank) banks.insert(byte / 4 % 32 + bank);
          seen.insert(byte);
          // Where the swizzle wants the lane's two columns of that block.
          const int col = tile::fp32_block(lane, i) * 8 + tile::acc_col(lane);
          CHECK(byte == tile::swizzle_offset(128, row, col / 4) + col % 4 * 4);
        }
        CHECK(banks.size() == 32);
      }
    }
  }
  CHECK(seen.size() == 16 * 128 / 8);
}
