// Operands in shared memory: what TMA has written there, box by box, wgmma finds by descriptor, in
// every layout. Both are models after the PTX manual, of which tests/golden has what an H200 does.
#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/tile/operand_tile.h"

using tile::Major;
using tile::OperandTile;

namespace {

constexpr uint32_t BASE = 0x400 + 3 * 1024;  // of a tile: any multiple of 1024

// Address bits 7 and up, as many as a row of `span` bytes has chunk bits, are XORed into bits 4 and up.
uint32_t swizzled(uint32_t address, int span) {
  return address ^ (address >> 7 & (span / 16 - 1)) << 4;
}

int id_of(int mn, int k) {
  return mn * 1000 + k;
}

// Shared memory by chunks of 16 bytes: the elements (mn, k) that are there.
using Memory = std::map<uint32_t, std::vector<int>>;

// TMA: a box of `rows` rows of `span` bytes goes to `to`, which is at the tile's [mn][k].
template <class T>
void write_box(Memory& memory, uint32_t to, int rows, int mn, int k) {
  for (int row = 0; row < rows; ++row) {
    for (int chunk = 0; chunk < T::SPAN / 16; ++chunk) {
      std::vector<int> elements;
      for (int i = 0; i < 16 / T::BYTES; ++i) {
        const int along = chunk * 16 / T::BYTES + i;
        elements.push_back(T::MAJOR == Major::K ? id_of(mn + row, k + along)
                                                : id_of(mn + along, k + row));
      }
      const auto linear = to + static_cast<uint32_t>(row * T::SPAN + chunk * 16);
      memory[swizzled(linear, T::SPAN)] = elements;
    }
  }
}

// The whole tile in slices of so many mn, as a cluster's CTAs load it.
template <class T>
Memory load(int slice) {
  Memory memory;
  for (int first = 0; first < T::MN; first += slice) {
    const int along = T::MAJOR == Major::K ? T::BK : slice;
    for (int i = 0; i < along; i += T::WIDTH) {
      const int mn = T::MAJOR == Major::K ? first : first + i, k = T::MAJOR == Major::K ? i : 0;
      write_box<T>(memory, BASE + static_cast<uint32_t>(T::offset(mn, k)),
                   T::MAJOR == Major::K ? slice : T::BK, mn, k);
    }
  }
  return memory;
}

// wgmma: the element (mn, k) of the operand that a descriptor describes, after the canonical layouts.
template <class T>
int read(const Memory& memory, uint64_t descriptor, int mn, int k) {
  const auto field = [descriptor](int bit) {
    return static_cast<uint32_t>(descriptor >> bit & 0x3fff) * 16;
  };
  const uint32_t start = field(0), leading = field(16), stride = field(32);
  const int mode = static_cast<int>(descriptor >> 62);
  const int span = mode == 0 ? 16 : 256 >> mode;
  const int in_chunk = 16 / T::BYTES;
  uint32_t linear = start;
  int within = 0;  // of the chunk
  if (T::MAJOR == Major::K) {
    linear += static_cast<uint32_t>(mn / 8) * stride + static_cast<uint32_t>(mn % 8 * span);
    linear += static_cast<uint32_t>(k / in_chunk) * (mode == 0 ? leading : 16);
    within = k % in_chunk;
  } else {
    const int wide = span / T::BYTES;  // elements that lie side by side
    linear += static_cast<uint32_t>(mn / wide) * (mode == 0 ? stride : leading);
    linear += static_cast<uint32_t>(k / 8) * (mode == 0 ? leading : stride);
    linear += static_cast<uint32_t>(k % 8 * span + mn % wide / in_chunk * 16);
    within = mn % in_chunk;
  }
  const auto found = memory.find(swizzled(linear, span));
  return found == memory.end() ? -1 : found->second[static_cast<size_t>(within)];
}

// How many of the elements are wrong that the instructions of one slot read, each of 32 bytes of K and
// of `rows` values of mn from `first` on.
template <class T>
int wrong_elements(const Memory& memory, uint64_t descriptor, int first, int rows,
                   int advance_of(int k)) {
  constexpr int WK = 32 / T::BYTES;
  int wrong = 0;
  for (int k0 = 0; k0 < T::BK; k0 += WK) {
    const uint64_t at = tile::advance(descriptor, advance_of(k0));
    for (int mn = 0; mn < rows; ++mn) {
      for (int k = 0; k < WK; ++k) wrong += read<T>(memory, at, mn, k) != id_of(first + mn, k0 + k);
    }
  }
  return wrong;
}

template <class T>
int advance(int k) {
  return T::offset(0, k);
}

template <class T>
void check_tile(int slice, int rows) {
  CAPTURE(T::SPAN);
  CAPTURE(T::MN);
  const Memory memory = load<T>(slice);
  CHECK(memory.size() == sizeof(T) / 16);  // every chunk once
  CHECK(memory.begin()->first == BASE);
  for (int first = 0; first < T::MN; first += rows) {
    const auto start = BASE + static_cast<uint32_t>(T::offset(first, 0));
    CHECK(wrong_elements<T>(memory, T::descriptor(start), first, rows, advance<T>) == 0);
  }
}

// Calls f.operator()<TileA, TileB>(name, swizzle) for each layout of bf16, as rung 13 has it.
template <class F>
void for_each_layout(F f) {
  const auto spans = [&f]<Major MAJOR>(const char* name) {
    f.template operator()<OperandTile<MAJOR, 128, 2, 128, 64>, OperandTile<MAJOR, 128, 2, 256, 64>>(
        name, "128 bytes");
    f.template operator()<OperandTile<MAJOR, 64, 2, 128, 64>, OperandTile<MAJOR, 64, 2, 256, 64>>(
        name, "64 bytes");
    f.template operator()<OperandTile<MAJOR, 32, 2, 128, 64>, OperandTile<MAJOR, 32, 2, 256, 64>>(
        name, "32 bytes");
    f.template operator()<OperandTile<MAJOR, 16, 2, 128, 64>, OperandTile<MAJOR, 16, 2, 256, 64>>(
        name, "none");
  };
  spans.template operator()<Major::K>("K");
  spans.template operator()<Major::MN>("MN");
}

std::string number(int value) {
  std::string text = std::to_string(value);
  if (value >= 1000) text.insert(text.size() - 3, ",");
  return text;
}

// "2,048 / 4,096", or one number for both.
std::string both(int of_a, int of_b) {
  return of_a == of_b ? number(of_a) : number(of_a) + " / " + number(of_b);
}

int field(uint64_t descriptor, int bit) {
  return static_cast<int>(descriptor >> bit & 0x3fff) * 16;
}

template <class T>
std::string box(int slice) {
  constexpr bool BY_K = T::MAJOR == Major::K;
  return std::to_string((BY_K ? T::BK : slice) / T::WIDTH) + " of " + std::to_string(T::WIDTH) +
         " x " + std::to_string(BY_K ? slice : T::BK);
}

}  // namespace

TEST_CASE("operand: wgmma finds every element that TMA has written, in every layout of bf16") {
  int layouts = 0;
  for_each_layout([&]<class A, class B>(const char*, const char*) {
    check_tile<A>(128, 64);   // a CTA's A, of which each consumer reads half
    check_tile<B>(128, 256);  // B, of which each CTA of a cluster loads half
    ++layouts;
  });
  CHECK(layouts == 8);
}

TEST_CASE("operand: the eight chunks of a core matrix lie in all 32 banks, in every layout") {
  for_each_layout([&]<class A, class B>(const char* major, const char* swizzle) {
    CAPTURE(major);
    CAPTURE(swizzle);
    for (int mn = 0; mn < B::MN; mn += 8) {
      for (int k = 0; k < B::BK; k += 8) {
        std::set<uint32_t> banks;  // the first of four
        for (int row = 0; row < 8; ++row) {
          const int at = B::MAJOR == Major::K ? B::offset(mn + row, k) : B::offset(mn, k + row);
          banks.insert(swizzled(BASE + static_cast<uint32_t>(at), B::SPAN) / 4 % 32);
        }
        CHECK(banks.size() == 8);
      }
    }
  });
}

TEST_CASE("operand: and in tf32, K-major") {
  check_tile<OperandTile<Major::K, 128, 4, 128, 32>>(128, 64);
  check_tile<OperandTile<Major::K, 128, 4, 256, 32>>(128, 256);
  check_tile<OperandTile<Major::K, 64, 4, 256, 32>>(128, 256);
  check_tile<OperandTile<Major::K, 16, 4, 256, 32>>(128, 256);
}

TEST_CASE("operand: wgmma may want a part of the last panel, which is there whole") {
  using T = OperandTile<Major::MN, 128, 2, 160, 64>;
  static_assert(T::MN == 192 && sizeof(T) == 3 * T::PANEL_BYTES);
  const Memory memory = load<T>(64);  // a panel by each of three CTAs
  CHECK(memory.size() == sizeof(T) / 16);
  CHECK(wrong_elements<T>(memory, T::descriptor(BASE), 0, 160, advance<T>) == 0);
}

TEST_CASE("operand: swapped offsets and another advance find others") {
  const auto swap = [](uint64_t descriptor) {
    const uint64_t leading = descriptor >> 16 & 0x3fff, stride = descriptor >> 32 & 0x3fff;
    return (descriptor & ~(uint64_t{0x3fff} << 16 | uint64_t{0x3fff} << 32)) | leading << 32 |
           stride << 16;
  };
  for_each_layout([&]<class A, class B>(const char* major, const char* swizzle) {
    CAPTURE(major);
    CAPTURE(swizzle);
    const Memory memory = load<B>(128);
    const uint64_t right = B::descriptor(BASE);
    CHECK(wrong_elements<B>(memory, swap(right), 0, 256, advance<B>) > 0);
    // What K-major in 128 bytes has: right where a row holds all of K, and only there.
    const auto bytes_of_k = +[](int k) { return k * 2; };
    const bool same = B::MAJOR == Major::K && B::SPAN == 128;
    CHECK((wrong_elements<B>(memory, right, 0, 256, bytes_of_k) == 0) == same);
  });
}

// | K | 128 bytes | boxes of A | boxes of B | LBO | SBO | advance | consumer 1 |
TEST_CASE("operand: the page's table of layouts is what the code has") {
  std::ifstream page("docs/descriptors.md");
  std::stringstream text;
  text << page.rdbuf();
  int rows = 0;
  for_each_layout([&]<class A, class B>(const char* major, const char* swizzle) {
    const uint64_t a = A::descriptor(0), b = B::descriptor(0);
    const bool uses_leading = A::MAJOR == Major::MN || A::SPAN == 16;
    std::string advances;
    for (int k = 16; k < 64; k += 16) {
      advances += (k > 16 ? ", " : "") + both(A::offset(0, k), B::offset(0, k));
    }
    const std::string row = std::string("| ") + major + " | " + swizzle + " | " + box<A>(128) +
                            " | " + box<B>(128) + " | " +
                            (uses_leading ? both(field(a, 16), field(b, 16)) : "–") + " | " +
                            both(field(a, 32), field(b, 32)) + " | " + advances + " | " +
                            number(A::offset(64, 0)) + " |";
    CHECK_MESSAGE(text.str().find(row) != std::string::npos, "docs/descriptors.md lacks: " << row);
    ++rows;
  });
  CHECK(rows == 8);
}

// | K | 128 bytes | 64 | boxes | bytes | LBO | SBO | advance to k = 16 | 32 | 64 |
template <Major MAJOR, int SPAN, int BK>
std::string guide_row() {
  std::string row = std::string("| ") + (MAJOR == Major::K ? "K" : "MN") + " | " +
                    std::to_string(SPAN) + " bytes | " + std::to_string(BK) + " | ";
  if constexpr (MAJOR == Major::K && BK * 2 < SPAN) {
    return row + "none: a row has only " + std::to_string(BK * 2) + " bytes |";
  } else {
    using T = OperandTile<MAJOR, SPAN, 2, 128, BK>;
    check_tile<T>(128, 64);
    const uint64_t descriptor = T::descriptor(0);
    const auto at = [](int k) { return k < BK ? number(T::offset(0, k)) : std::string("–"); };
    return row + box<T>(128) + " | " + number(sizeof(T)) + " | " +
           (MAJOR == Major::MN ? number(field(descriptor, 16)) : "–") + " | " +
           number(field(descriptor, 32)) + " | " + at(16) + " | " + at(32) + " | " + at(64) + " |";
  }
}

TEST_CASE("operand: the guide's table of swizzles and depths is what the code has") {
  std::ifstream page("docs/descriptors.md");
  std::stringstream text;
  text << page.rdbuf();
  const auto check = [&](const std::string& row) {
    CHECK_MESSAGE(text.str().find(row + "\n") != std::string::npos,
                  "docs/descriptors.md lacks: " << row);
  };
  const auto depths = [&]<Major MAJOR, int SPAN>() {
    check(guide_row<MAJOR, SPAN, 128>());
    check(guide_row<MAJOR, SPAN, 64>());
    check(guide_row<MAJOR, SPAN, 32>());
  };
  const auto spans = [&]<Major MAJOR>() {
    depths.template operator()<MAJOR, 128>();
    depths.template operator()<MAJOR, 64>();
    depths.template operator()<MAJOR, 32>();
  };
  spans.template operator()<Major::K>();
  spans.template operator()<Major::MN>();
}
