// The 64-bit matrix descriptor through which wgmma finds an operand in shared memory.
// Source: PTX ISA, "Matrix descriptor format"
//   https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor
#pragma once

#include <cstdint>

namespace tile {

enum class Swizzle : uint64_t { NONE = 0, B128 = 1, B64 = 2, B32 = 3 };  // bits 62..63

// Addresses and offsets in bytes, multiples of 16; the fields hold them without their low 4 bits.
struct MatrixDescriptor {
  uint32_t start_address;        // bits 0..13: shared address of the operand's first element
  uint32_t leading_byte_offset;  // bits 16..29
  uint32_t stride_byte_offset;   // bits 32..45
  uint32_t base_offset = 0;      // bits 49..51: 0 if the swizzle pattern starts on its own size
  Swizzle swizzle = Swizzle::NONE;

  constexpr uint64_t bits() const {
    const auto field = [](uint32_t bytes) { return static_cast<uint64_t>((bytes & 0x3ffff) >> 4); };
    return field(start_address) | field(leading_byte_offset) << 16 |
           field(stride_byte_offset) << 32 | static_cast<uint64_t>(base_offset & 7) << 49 |
           static_cast<uint64_t>(swizzle) << 62;
  }
};

// A K-major bf16 operand in the 128-byte swizzle, 64 elements of K a row: the stride offset leads
// from one group of eight rows to the next, the leading offset is not used in this layout.
constexpr uint64_t k_major_128b(uint32_t start_address) {
  return MatrixDescriptor{.start_address = start_address,
                          .leading_byte_offset = 0,
                          .stride_byte_offset = 1024,
                          .swizzle = Swizzle::B128}
      .bits();
}

// Moves a descriptor's start by `bytes` (a multiple of 16) within the operand.
constexpr uint64_t advance(uint64_t descriptor, int bytes) {
  return descriptor + bytes / 16;
}

static_assert(k_major_128b(0) == 0x4000004000000000ull);
static_assert(k_major_128b(0x8400) == 0x4000004000000840ull);
static_assert(advance(k_major_128b(0x8400), 32) == k_major_128b(0x8420));

}  // namespace tile
