// The 128-byte swizzle: a permutation of each row, the one that TMA and wgmma apply, and free of
// bank conflicts where kernels read and write.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "common/tile/fragment.h"
#include "common/tile/swizzle.h"

namespace {

constexpr int ROWS = 64;                     // of the tile
constexpr int CHUNKS = 8;                    // of a row
constexpr int BANKS = 32;                    // of shared memory, 4 bytes wide
constexpr int PHASE_LANES = 8;               // lanes that 16-byte accesses serve at a time
using Phase = std::array<int, PHASE_LANES>;  // byte offset of each lane's 16 bytes

// Whether the lanes' accesses touch every bank exactly once.
bool conflict_free(const Phase& offsets) {
  std::array<int, BANKS> touched{};
  for (const int offset : offsets) {
    for (int word = 0; word < 4; ++word)
      ++touched[static_cast<size_t>((offset / 4 + word) % BANKS)];
  }
  for (const int times : touched) {
    if (times != 1) return false;
  }
  return true;
}

// What TMA and wgmma do to an absolute shared address: bits 4..6 are XORed with bits 7..9.
int swizzled_address(int address) {
  return address ^ (address >> 7 & 7) << 4;
}

}  // namespace

TEST_CASE("swizzle: constants") {
  CHECK(tile::SWIZZLE_ROW_BYTES == 128);
  CHECK(tile::SWIZZLE_ATOM_BYTES == 1024);
  CHECK(tile::CHUNK_BYTES == 16);
}

TEST_CASE("swizzle: every place of a 64-row tile gets exactly one chunk, of its own row") {
  std::vector<int> taken(ROWS * CHUNKS);
  for (int row = 0; row < ROWS; ++row) {
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      CAPTURE(row);
      CAPTURE(chunk);
      const int offset = tile::swizzle_128b(row, chunk);
      REQUIRE(offset % 16 == 0);
      REQUIRE(offset >= row * 128);
      REQUIRE(offset < (row + 1) * 128);
      ++taken[static_cast<size_t>(offset / 16)];
    }
  }
  CHECK(taken == std::vector<int>(ROWS * CHUNKS, 1));
}

TEST_CASE("swizzle: is TMA's XOR of absolute address bits for tiles on multiples of 1024") {
  for (const int base : {0, 1024, 3 * 1024, 16 * 1024, 227 * 1024 - ROWS * 128}) {
    for (int row = 0; row < ROWS; ++row) {
      for (int chunk = 0; chunk < CHUNKS; ++chunk) {
        CAPTURE(base);
        CAPTURE(row);
        CAPTURE(chunk);
        const int plain = base + row * 128 + chunk * 16;
        CHECK(base + tile::swizzle_128b(row, chunk) == swizzled_address(plain));
      }
    }
  }
}

TEST_CASE("swizzle: any eight neighbouring rows at one chunk touch all banks once") {
  for (int first = 0; first + PHASE_LANES <= ROWS; ++first) {
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      CAPTURE(first);
      CAPTURE(chunk);
      Phase swizzled, plain;
      for (int lane = 0; lane < PHASE_LANES; ++lane) {
        const auto at = static_cast<size_t>(lane);
        swizzled[at] = tile::swizzle_128b(first + lane, chunk);
        plain[at] = (first + lane) * 128 + chunk * 16;
      }
      CHECK(conflict_free(swizzled));
      CHECK_FALSE(conflict_free(plain));
    }
  }
}

TEST_CASE("swizzle: eight lanes that write one row touch all banks once") {
  for (int row = 0; row < ROWS; ++row) {
    CAPTURE(row);
    Phase offsets;
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      offsets[static_cast<size_t>(chunk)] = tile::swizzle_128b(row, chunk);
    }
    CHECK(conflict_free(offsets));
  }
}

TEST_CASE("swizzle: ldmatrix.x4 of A and B operands is free of bank conflicts") {
  for (int row0 = 0; row0 < ROWS; row0 += 16) {
    for (int chunk0 = 0; chunk0 < CHUNKS; chunk0 += 2) {
      for (int matrix = 0; matrix < 4; ++matrix) {  // lanes 8i .. 8i+7 address matrix i
        CAPTURE(row0);
        CAPTURE(chunk0);
        CAPTURE(matrix);
        Phase a, b;
        for (int i = 0; i < PHASE_LANES; ++i) {
          const int lane = matrix * 8 + i;
          const auto at = static_cast<size_t>(i);
          a[at] = tile::swizzle_128b(row0 + tile::ldmatrix_a_row(lane),
                                     chunk0 + tile::ldmatrix_a_chunk(lane));
          b[at] = tile::swizzle_128b(row0 + tile::ldmatrix_b_row(lane),
                                     chunk0 + tile::ldmatrix_b_chunk(lane));
        }
        CHECK(conflict_free(a));
        CHECK(conflict_free(b));
      }
    }
  }
}
