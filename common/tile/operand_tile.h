// A tile of an operand of wgmma in shared memory, in each layout that a matrix descriptor can tell of.
// Source: PTX ISA, "Canonical layouts" and "Strides" of wgmma
//   https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-canonical-layouts
#pragma once

#include <cstdint>

#include "common/tile/descriptor.h"
#include "common/tile/math.h"
#include "common/tile/swizzle.h"

namespace tile {

// Along which side of an operand neighbouring elements are neighbours in memory: along K, or along M
// (of A) or N (of B).
enum class Major { K, MN };

constexpr Swizzle swizzle_of_span(int span_bytes) {
  switch (span_bytes) {
    case 128:
      return Swizzle::B128;
    case 64:
      return Swizzle::B64;
    case 32:
      return Swizzle::B32;
    default:
      return Swizzle::NONE;
  }
}

// MN x BK elements of BYTES bytes, in panels. A panel is what one TMA box brings: rows of SPAN bytes,
// one behind the other, swizzled with SPAN, or, if that is 16, not at all. Its rows run along the
// major side, and there is one for each element of the other:
//   K-major    rows of SPAN bytes along K, MN of them; the next panel continues along K
//   MN-major   rows of SPAN bytes along M or N, BK of them; the next panel continues along M or N.
//              Of the last one wgmma may want a part only: it is there whole
// Eight rows of 16 bytes are a core matrix, the piece that the tensor cores read at a time.
template <Major MAJOR_, int SPAN_, int BYTES_, int MN_, int BK_>
struct alignas(SWIZZLE_ATOM_BYTES) OperandTile {
  static constexpr Major MAJOR = MAJOR_;
  static constexpr int SPAN = SPAN_, BYTES = BYTES_, BK = BK_;
  static constexpr int WIDTH = SPAN / BYTES;  // elements in a row of a panel
  static constexpr int MN = MAJOR == Major::K ? MN_ : ceil_div(MN_, WIDTH) * WIDTH;
  static constexpr int ROWS = MAJOR == Major::K ? MN : BK;   // of a panel
  static constexpr int ALONG = MAJOR == Major::K ? BK : MN;  // elements on the major side
  static constexpr int PANEL_BYTES = ROWS * SPAN;
  static_assert(SPAN == 128 || SPAN == 64 || SPAN == 32 || SPAN == 16, "a swizzle, or none");
  static_assert(ALONG % WIDTH == 0, "whole panels");
  static_assert(MAJOR == Major::K || BYTES == 2, "wgmma reads 16-bit types MN-major, and no other");

  unsigned char bytes[MN * BK * BYTES];

  // Where element (mn, k) would lie without the swizzle: exact where its chunk is the first of its
  // row and the row the first of eight, as at the beginning of a box. A descriptor's start moves by as
  // much, since wgmma swizzles absolute addresses.
  static constexpr int offset(int mn, int k) {
    const int along = MAJOR == Major::K ? k : mn, row = MAJOR == Major::K ? mn : k;
    return along / WIDTH * PANEL_BYTES + row * SPAN + along % WIDTH * BYTES;
  }

  constexpr unsigned char* at(int mn, int k) { return &bytes[offset(mn, k)]; }

  // For wgmma: the descriptor of the operand whose first element lies at this shared address.
  static constexpr uint64_t descriptor(uint32_t start_address) {
    constexpr int EIGHT_ROWS = 8 * SPAN;  // a core matrix, or as many as a row has chunks
    constexpr bool SWIZZLED = SPAN > CHUNK_BYTES, BY_K = MAJOR == Major::K;
    // With a swizzle the stride offset leads to the next eight rows of a panel, the leading offset to
    // the next panel; K-major it is not looked at, for 32 bytes along K never leave a panel. Without
    // swizzle the stride offset is the one along M or N, the leading offset the one along K.
    constexpr int ALONG_K = BY_K ? PANEL_BYTES : EIGHT_ROWS,
                  ALONG_MN = BY_K ? EIGHT_ROWS : PANEL_BYTES;
    constexpr int NEXT_PANEL = BY_K ? 0 : PANEL_BYTES;
    constexpr int LEADING = SWIZZLED ? NEXT_PANEL : ALONG_K;
    constexpr int STRIDE = SWIZZLED ? EIGHT_ROWS : ALONG_MN;
    return MatrixDescriptor{.start_address = start_address,
                            .leading_byte_offset = LEADING,
                            .stride_byte_offset = STRIDE,
                            .swizzle = swizzle_of_span(SPAN)}
        .bits();
  }
};

static_assert(OperandTile<Major::K, 128, 2, 256, 64>::descriptor(0x8400) == k_major_128b(0x8400));
static_assert(OperandTile<Major::K, 128, 2, 256, 64>::offset(0, 16) == 32);
static_assert(OperandTile<Major::MN, 128, 2, 256, 64>::offset(64, 16) == 8192 + 16 * 128);

}  // namespace tile
