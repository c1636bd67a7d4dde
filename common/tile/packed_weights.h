// Weights of 8 or 4 bits in the order in which threads multiply them.
//
// A matrix [n][k] is cut into blocks of 64 rows x 128 of K, which is what a warpgroup multiplies
// with one scale a row. Blocks lie one behind the other, first along K, then along n. What is
// beyond n or k is 0. In a block, each of 128 threads has its fragments of eight wgmma, 16 of K
// each, in pieces of 16 bytes: piece 0 of all threads, then piece 1 of all, so that a warp reads
// 512 bytes in a row. Of 8 bits a piece is two fragments, of 4 bits four.
//
// A fragment is four registers of two bf16. Of 8 bits a word has the weights of two registers, in
// excess of 128: bytes 0 and 2 those of the first, w + 128, 1 and 3 those of the second. Of 4 bits
// a word has a fragment: nibbles i and i + 4 are those of register i, in excess of 8: w + 8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/tile/math.h"

namespace tile {

constexpr int PACKED_ROWS = 64, PACKED_K = 128;

constexpr int packed_block_bytes(int bits) {
  return PACKED_ROWS * PACKED_K * bits / 8;
}

constexpr size_t packed_bytes(int bits, int n, int k) {
  return static_cast<size_t>(ceil_div(n, PACKED_ROWS)) *
         static_cast<size_t>(ceil_div(k, PACKED_K)) * static_cast<size_t>(packed_block_bytes(bits));
}

// Where a weight lies within its block: bit `shift` of 32-bit word `word` is its lowest.
struct PackedPlace {
  int word, shift;
};

// Row 0 .. 63 and k 0 .. 127 of a block. wgmma gives warp w rows 16 w to 16 w + 15; of these lane l
// has l / 4 and l / 4 + 8, and of 16 along K those from 2 (l % 4) on, two, and 8 further two more.
constexpr PackedPlace packed_place(int bits, int row, int k) {
  const int thread = row / 16 * 32 + row % 8 * 4 + k % 8 / 2;
  const int fragment = k / 16, element = k % 2;  // of the register's two
  const int reg = row % 16 / 8 + k % 16 / 8 * 2;
  if (bits == 8) {
    const int word = fragment % 2 * 2 + reg / 2;  // of the piece
    return {(fragment / 2 * 128 + thread) * 4 + word, (reg % 2 + 2 * element) * 8};
  }
  return {(fragment / 4 * 128 + thread) * 4 + fragment % 4, (reg + 4 * element) * 4};
}

// The other way round: which weight has the bits from `shift` on of a block's word.
struct PackedWeight {
  int row, k;
};
constexpr PackedWeight packed_weight(int bits, int word, int shift) {
  const int piece = word / 512, thread = word / 4 % 128, in_piece = word % 4, slot = shift / bits;
  const int fragment = bits == 8 ? piece * 2 + in_piece / 2 : piece * 4 + in_piece;
  const int reg = bits == 8 ? in_piece % 2 * 2 + slot % 2 : slot % 4;
  const int element = bits == 8 ? slot / 2 : slot / 4;
  return {thread / 32 * 16 + thread % 32 / 4 + reg % 2 * 8,
          fragment * 16 + reg / 2 * 8 + thread % 4 * 2 + element};
}

// So that no weight is negative.
constexpr int packed_excess(int bits) {
  return bits == 8 ? 128 : 8;
}

// A word's bits for a weight q.
constexpr uint32_t packed_bits(int bits, int q, int shift) {
  return static_cast<uint32_t>(q + packed_excess(bits)) << shift;
}

static_assert(packed_bytes(8, 64, 128) == 8192 && packed_bytes(4, 65, 129) == 4 * 4096);
static_assert(packed_place(8, 9, 19).word == 4 * (4 + 1) + 2 && packed_place(8, 9, 19).shift == 24);
static_assert(packed_place(4, 9, 19).word == 4 * (4 + 1) + 1 && packed_place(4, 9, 19).shift == 20);

}  // namespace tile
