// A tile of a matrix in shared memory, as TMA writes it and wgmma reads it.
#pragma once

#include "common/tile/swizzle.h"

namespace tile {

// ROWS x COLS of Element. A row is 128, 64 or 32 bytes, in chunks of 16 that are swizzled with as
// many bytes, or 96, which are not. Tiles start where the swizzle's pattern does.
template <class Element, int ROWS, int COLS>
struct alignas(SWIZZLE_ATOM_BYTES) SmemTile {
  static constexpr int ROW_BYTES = COLS * int{sizeof(Element)};
  unsigned char bytes[ROWS * ROW_BYTES];

  // First byte of row `row`, a multiple of 8: what begins there is swizzled like a tile of its own.
  constexpr unsigned char* from_row(int row) { return &bytes[row * ROW_BYTES]; }

  // The 16 bytes of chunk `chunk` (from 0) of row `row`.
  constexpr unsigned char* at(int row, int chunk) {
    return &bytes[swizzle_offset(ROW_BYTES, row, chunk)];
  }
  constexpr const unsigned char* at(int row, int chunk) const {
    return &bytes[swizzle_offset(ROW_BYTES, row, chunk)];
  }
};

}  // namespace tile
