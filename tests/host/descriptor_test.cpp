// wgmma's matrix descriptor, bit by bit as the PTX ISA lays it out.
#include <doctest/doctest.h>

#include <cstdint>

#include "common/tile/descriptor.h"

using tile::MatrixDescriptor;
using tile::Swizzle;

namespace {

constexpr uint32_t SHARED_BYTES = 227 * 1024;  // what a CTA can have

constexpr uint64_t bits_of(uint64_t word, int first, int last) {
  return word >> first & ((uint64_t{1} << (last - first + 1)) - 1);
}

constexpr MatrixDescriptor ZERO{
    .start_address = 0, .leading_byte_offset = 0, .stride_byte_offset = 0};

// The descriptor that has one field and zeros.
template <class Field>
uint64_t only(Field MatrixDescriptor::*field, Field value) {
  MatrixDescriptor descriptor = ZERO;
  descriptor.*field = value;
  return descriptor.bits();
}

}  // namespace

TEST_CASE("descriptor: each field has its bits and no others") {
  CHECK(ZERO.bits() == 0);
  for (int bit = 0; bit < 14; ++bit) {
    CAPTURE(bit);
    const uint32_t bytes = 16u << bit;
    const uint64_t one = uint64_t{1} << bit;
    CHECK(only(&MatrixDescriptor::start_address, bytes) == one);
    CHECK(only(&MatrixDescriptor::leading_byte_offset, bytes) == one << 16);
    CHECK(only(&MatrixDescriptor::stride_byte_offset, bytes) == one << 32);
  }
  for (uint32_t offset = 0; offset < 8; ++offset) {
    CHECK(only(&MatrixDescriptor::base_offset, offset) == uint64_t{offset} << 49);
  }
  CHECK(only(&MatrixDescriptor::swizzle, Swizzle::NONE) == 0);
  CHECK(only(&MatrixDescriptor::swizzle, Swizzle::B128) == 0x4000000000000000);
  CHECK(only(&MatrixDescriptor::swizzle, Swizzle::B64) == 0x8000000000000000);
  CHECK(only(&MatrixDescriptor::swizzle, Swizzle::B32) == 0xc000000000000000);
}

TEST_CASE("descriptor: fields together") {
  const uint64_t bits = MatrixDescriptor{.start_address = 0x12340,
                                         .leading_byte_offset = 0x3fff0,
                                         .stride_byte_offset = 0x2aaa0,
                                         .base_offset = 5,
                                         .swizzle = Swizzle::B64}
                            .bits();
  CHECK(bits_of(bits, 0, 13) == 0x1234);
  CHECK(bits_of(bits, 14, 15) == 0);
  CHECK(bits_of(bits, 16, 29) == 0x3fff);
  CHECK(bits_of(bits, 30, 31) == 0);
  CHECK(bits_of(bits, 32, 45) == 0x2aaa);
  CHECK(bits_of(bits, 46, 48) == 0);
  CHECK(bits_of(bits, 49, 51) == 5);
  CHECK(bits_of(bits, 52, 61) == 0);
  CHECK(bits_of(bits, 62, 63) == 2);
}

TEST_CASE("descriptor: addresses and offsets wrap after 18 bits and do not spill") {
  const uint32_t beyond = 0x40000;
  const MatrixDescriptor low{.start_address = 0x8400,
                             .leading_byte_offset = 0x10,
                             .stride_byte_offset = 0x400,
                             .base_offset = 1};
  const MatrixDescriptor high{.start_address = 0xfffc0000 + 0x8400,
                              .leading_byte_offset = beyond + 0x10,
                              .stride_byte_offset = 2 * beyond + 0x400,
                              .base_offset = 9};
  CHECK(high.bits() == low.bits());
  CHECK(only(&MatrixDescriptor::start_address, beyond) == 0);
  CHECK(only(&MatrixDescriptor::start_address, beyond - 16) == 0x3fff);
}

TEST_CASE("descriptor: a K-major operand in the 128-byte swizzle, all over shared memory") {
  for (uint32_t start = 0; start < SHARED_BYTES; start += 16) {
    const uint64_t bits = tile::k_major_128b(start);
    CAPTURE(start);
    REQUIRE(bits_of(bits, 0, 13) * 16 == start);
    REQUIRE(bits_of(bits, 14, 31) == 0);
    REQUIRE(bits_of(bits, 32, 45) * 16 == 1024);  // eight rows of 128 bytes
    REQUIRE(bits_of(bits, 46, 61) == 0);
    REQUIRE(bits_of(bits, 62, 63) == 1);
  }
}

TEST_CASE("descriptor: advance moves the start and nothing else") {
  for (uint32_t start = 0; start + 1024 <= SHARED_BYTES; start += 1024) {
    const uint64_t descriptor = tile::k_major_128b(start);
    for (int bytes = 0; bytes < 1024; bytes += 16) {
      CAPTURE(start);
      CAPTURE(bytes);
      const uint64_t moved = tile::advance(descriptor, bytes);
      REQUIRE(moved == tile::k_major_128b(start + static_cast<uint32_t>(bytes)));
      REQUIRE(tile::advance(moved, -bytes) == descriptor);
    }
  }
}
