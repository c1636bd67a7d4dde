// The 128-byte swizzle: where a byte of a tile of 128-byte rows lies in shared memory.
//
// A row holds eight chunks of 16 bytes; chunk c of row r is stored in place c ^ (r % 8). Eight
// lanes that read one chunk column of eight consecutive rows (one 8x8 matrix of ldmatrix, one core
// matrix of wgmma) then touch all 32 banks once. TMA and wgmma apply the same XOR to absolute
// shared addresses, bits 4..6 with bits 7..9, so this offset form holds only for tiles that start
// on a multiple of 1024 bytes. Source: PTX ISA, "Tensor swizzling modes"
//   https://docs.nvidia.com/cuda/parallel-thread-execution/#tensor-swizzling-modes
#pragma once

namespace tile {

constexpr int SWIZZLE_ROW_BYTES = 128;    // one row of the pattern
constexpr int SWIZZLE_ATOM_BYTES = 1024;  // eight rows: the pattern repeats after them
constexpr int CHUNK_BYTES = 16;           // what one lane of ldmatrix, cp.async or ld.v4 moves

// Byte offset of chunk `chunk` (0..7) of row `row` in a swizzled tile of 128-byte rows.
constexpr int swizzle_128b(int row, int chunk) {
  return row * SWIZZLE_ROW_BYTES + (chunk ^ (row % 8)) * CHUNK_BYTES;
}

// The same for rows of 128, 64 or 32 bytes, with the 128-, 64- or 32-byte swizzle: always address
// bits 7 and up that are XORed into bits 4 and up, as many as a row has chunk bits. chunk counts
// from 0 within the row. The 64-byte pattern repeats after 512 bytes, the 32-byte one after 256. Of
// rows that no swizzle is as wide as, such as 96 bytes, chunks stay where they are.
constexpr int swizzle_offset(int row_bytes, int row, int chunk) {
  const int chunks = row_bytes / CHUNK_BYTES;
  if (SWIZZLE_ROW_BYTES % row_bytes != 0) return row * row_bytes + chunk * CHUNK_BYTES;
  return row * row_bytes + (chunk ^ (row * row_bytes / 128 % chunks)) * CHUNK_BYTES;
}

static_assert(swizzle_128b(0, 5) == 5 * 16);
static_assert(swizzle_128b(3, 5) == 3 * 128 + 6 * 16);
static_assert(swizzle_128b(11, 5) == swizzle_128b(3, 5) + SWIZZLE_ATOM_BYTES);
static_assert(swizzle_offset(128, 11, 5) == swizzle_128b(11, 5));
static_assert(swizzle_offset(64, 3, 2) == 3 * 64 + 3 * 16);
static_assert(swizzle_offset(32, 5, 0) == 5 * 32 + 1 * 16);
static_assert(swizzle_offset(96, 5, 2) == 5 * 96 + 2 * 16);

}  // namespace tile
