// Where the elements of a wgmma operand lie in shared memory, by its descriptor. It reads none of them.
#include <algorithm>
#include <bit>

#include "common/machine/ops/matrix.h"
#include "common/machine/ops/operands.h"

namespace machine {

std::string descriptor_text(uint64_t descriptor) {
  const auto field = [descriptor](uint32_t shift) { return (descriptor >> shift & 0x3fff) << 4; };
  constexpr const char* SWIZZLES[] = {"no swizzle", "128-byte swizzle", "64-byte swizzle",
                                      "32-byte swizzle"};
  return joined(hex(descriptor), ": start ", hex(field(0)), ", LBO ", field(16), ", SBO ",
                field(32), ", ", SWIZZLES[descriptor >> 62]);
}

// Canonical layouts, offsets of element (mn, k) in bytes before the swizzle, width W = 32, 64, 128:
//   K-major,  none   mn % 8 * 16 + mn / 8 * SBO + k bytes % 16 + k bytes / 16 * LBO
//   K-major,  W      mn % 8 * W  + mn / 8 * SBO + k bytes
//   MN-major, none   mn bytes % 16 + mn / 8 * SBO + k % 8 * 16 + k / 8 * LBO
//   MN-major, W      mn bytes % W  + mn bytes / W * LBO + k % 8 * W + k / 8 * SBO
MatrixView::MatrixView(uint64_t descriptor, MatrixType type, bool mn_major)
    : type_(type), mn_major_(mn_major) {
  const auto field = [&](int first_bit) {
    return static_cast<uint32_t>(descriptor >> first_bit & 0x3fff) << 4;
  };
  const uint32_t leading_bytes = field(16), stride_bytes = field(32);
  const auto mode = static_cast<uint32_t>(descriptor >> 62);
  start_ = field(0);
  pitch_ = mode == 0 ? 16 : 256 >> mode;
  swizzle_mask_ = pitch_ / 16 - 1;
  pattern_start_ = static_cast<uint32_t>(descriptor >> 49 & 7) << 7;
  groups_per_atom_ = mn_major ? pitch_ / 16 : 1;
  const bool by_leading = mn_major && mode != 0;
  atom_stride_ = by_leading ? leading_bytes : stride_bytes;
  half_stride_ = by_leading ? stride_bytes : mode == 0 ? leading_bytes : 16;
}

uint32_t MatrixView::address(int mn, int k) const {
  const int bytes = element_bytes(type_);
  const int half = k * bytes / 16;
  if (mn_major_) return chunk_address(mn / 8, half, k % 8) + mn % 8 * bytes;
  return chunk_address(mn / 8, half, mn % 8) + k * bytes % 16;
}

bool MatrixView::inside(int first_mn, int count, uint32_t begin, uint32_t end) const {
  // The swizzle stays within 128 bytes: only what ends within as many of a bound needs a look.
  const int last = (first_mn + count) / 8 - 1;
  const uint32_t highest = start_ + swizzle_mask_ * 16 + last / groups_per_atom_ * atom_stride_ +
                           half_stride_ + 7 * pitch_ + 16;
  if (start_ >= begin + 128 && highest + 128 <= end) return true;
  const Segment all = extent(first_mn, count);
  return all.address >= begin && all.address + all.bytes <= end;
}

Segment MatrixView::extent(int first_mn, int count) const {
  uint32_t lowest = UINT32_MAX, highest = 0;
  for (int group = first_mn / 8; group < (first_mn + count) / 8; ++group) {
    for (int i = 0; i < 16; ++i) {
      const uint32_t chunk = chunk_address(group, i / 8, i % 8);
      lowest = std::min(lowest, chunk);
      highest = std::max(highest, chunk);
    }
  }
  return {lowest, highest + 16 - lowest};
}

void MatrixView::append_segments(int first_mn, int count, std::vector<Segment>& segments) const {
  constexpr uint32_t CHUNKS = (1 << 18) / 16;
  uint64_t read[CHUNKS / 64] = {};  // a bit a chunk
  for (int group = first_mn / 8; group < (first_mn + count) / 8; ++group) {
    for (int i = 0; i < 16; ++i) {
      const uint32_t chunk = chunk_address(group, i / 8, i % 8) / 16;
      read[chunk / 64] |= 1ull << chunk % 64;
    }
  }
  for (uint32_t word = 0; word < CHUNKS / 64; ++word) {
    for (uint64_t left = read[word]; left != 0;) {
      const int first = std::countr_zero(left);
      const int length = std::countr_one(left >> first);
      left = first + length == 64 ? 0 : left >> (first + length) << (first + length);
      const uint32_t address = (word * 64 + first) * 16;
      Segment* last = segments.empty() ? nullptr : &segments.back();
      if (first == 0 && last != nullptr && last->address + last->bytes == address) {
        last->bytes += length * 16;
      } else {
        segments.push_back({address, static_cast<uint32_t>(length) * 16});
      }
    }
  }
}

}  // namespace machine
