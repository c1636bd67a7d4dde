// Device memory: host memory with a list of what is allocated, so that every access is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace machine {

struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;
  std::string what;  // the call that made it, as "cudaMalloc"
  bool freed = false;
  uint64_t reserved = 0;  // bytes of address space, with the gap behind it; 0: not owned
  bool kept = false;      // revive() may allocate it again
  bool contains(uint64_t address, uint64_t size) const {
    return address >= base && size <= bytes && address - base <= bytes - size;
  }
};

// What a variable that the host sees too is of, before its name.
inline constexpr char MANAGED_VARIABLE[] = "managed variable ";

// What memory that nobody has written holds, again and again: NaN as a number of any format, and in
// no data that means something: not four of the NaN that conversions to bf16 make, no half of it the
// largest int. Copies carry it along; who reads it is reported.
constexpr uint64_t POISON = 0xffff7fff7fff7fff;

// Whether one of the whole, aligned 8 bytes holds it.
inline bool has_poison(const void* bytes, size_t count) {
  const auto* const words = static_cast<const uint64_t*>(bytes);
  uint64_t found = 0;  // as wide as a word, so that the loop becomes one of vectors
  for (size_t i = 0; i < count / 8; ++i) found |= words[i] == POISON;
  return found != 0;
}

// Zero-filled, or poisoned, with nothing behind it for a GiB at the least, or less where addresses
// are short. nullptr if the host has no such memory. Aligned to 512 bytes, as cudaMalloc does at the
// least. Thread-safe, as everything here.
void* allocate(size_t bytes, const std::string& what, bool poisoned = false);

// Host memory that kernels may touch too (a registered range). Not owned.
void adopt(void* base, size_t bytes, const std::string& what);

// False if `base` is not the start of a living allocation. The range is remembered as freed until
// it is allocated again, which is not soon.
bool release(void* base);

// Whether the allocation keeps its addresses when it is freed, as memory of a graph does.
void keep(void* base, bool kept);
// Allocates a kept one again; false if it lives.
bool revive(void* base, bool poisoned);

// The allocation, living or freed, that holds the address; false if there is none.
bool find_allocation(uint64_t address, Allocation* found);

// The living allocation with the smallest distance to the address, for messages; false if none.
bool nearest_allocation(uint64_t address, Allocation* found);

// Rises whenever something is allocated or freed: what caches an Allocation compares it.
uint64_t allocation_generation();

// Bytes that are allocated now.
uint64_t allocated_bytes();

// Of what one call made: bytes now, and the most that they were since forget_most().
struct Usage {
  uint64_t bytes = 0, most = 0;
};
Usage usage_of(const std::string& what);
void forget_most(const std::string& what);

}  // namespace machine
