// Tiles in shared memory: chunks are where the swizzle puts them, slices are tiles.
#include <doctest/doctest.h>

#include <cstdint>
#include <set>

#include "common/tile/smem_tile.h"

using tile::SmemTile;

namespace {

// Every chunk lies in the tile, on 16 bytes, in a place of its own, within its own row.
template <int ROWS, int COLS>
void check_chunks() {
  using Tile = SmemTile<uint16_t, ROWS, COLS>;
  static_assert(sizeof(Tile) == ROWS * COLS * 2 && alignof(Tile) == 1024);
  Tile tile;
  std::set<long> places;
  for (int row = 0; row < ROWS; ++row) {
    for (int chunk = 0; chunk < COLS / 8; ++chunk) {
      CAPTURE(row);
      CAPTURE(chunk);
      const long place = tile.at(row, chunk) - tile.bytes;
      CHECK(place == tile::swizzle_offset(COLS * 2, row, chunk));
      CHECK(place / (COLS * 2) == row);
      places.insert(place);
    }
  }
  CHECK(places.size() == ROWS * COLS / 8);
}

}  // namespace

TEST_CASE("smem tile: each chunk has a place of its own, where the swizzle puts it") {
  check_chunks<64, 64>();
  check_chunks<64, 32>();
  check_chunks<128, 16>();
}

TEST_CASE("smem tile: what begins at a row that is a multiple of 8 is swizzled like a tile") {
  SmemTile<uint16_t, 128, 64> tile;
  const SmemTile<uint16_t, 128, 64>& read_only = tile;
  for (const int first : {0, 8, 64, 120}) {
    for (int row = 0; row < 8; ++row) {
      for (int chunk = 0; chunk < 8; ++chunk) {
        const long in_slice = tile.at(first + row, chunk) - tile.from_row(first);
        CHECK(in_slice == tile::swizzle_128b(row, chunk));
        CHECK(read_only.at(first + row, chunk) == tile.at(first + row, chunk));
      }
    }
  }
}
