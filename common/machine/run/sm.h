// What an SM of compute capability 9.0 holds: CUDA C++ Programming Guide, "Technical Specifications
// per Compute Capability".
#pragma once

#include <algorithm>
#include <cstdint>

namespace machine {

constexpr uint32_t SM_THREADS = 2048, SM_CTAS = 32, SM_REGISTERS = 65536;
constexpr uint32_t SM_SMEM_BYTES = 228 * 1024;   // shared memory of an SM
constexpr uint32_t RESERVED_SMEM_BYTES = 1024;   // taken by the system from each CTA's share
constexpr uint32_t SMEM_GRANULE_BYTES = 128;     // shared memory is given to CTAs in such units
constexpr uint32_t WARP_REGISTER_GRANULE = 256;  // and registers to warps
constexpr uint32_t SM_PARTITIONS = 4;            // each with its part of them
constexpr uint32_t WARP_THREADS = 32;

constexpr uint32_t round_up(uint32_t value, uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Warps of so many registers a thread that a partition holds; 0: they do not count.
constexpr uint32_t warps_per_partition(uint32_t registers) {
  if (registers == 0) return SM_THREADS / WARP_THREADS / SM_PARTITIONS;
  return SM_REGISTERS / SM_PARTITIONS / round_up(registers * WARP_THREADS, WARP_REGISTER_GRANULE);
}

// CTAs that are on an SM at the same time. `registers`: a thread; 0: they do not count.
constexpr uint32_t ctas_per_sm(uint32_t threads, uint32_t smem_bytes, uint32_t registers) {
  const uint32_t warps = (threads + WARP_THREADS - 1) / WARP_THREADS;
  const uint32_t by_threads = SM_THREADS / WARP_THREADS / warps;
  const uint32_t by_registers = SM_PARTITIONS * warps_per_partition(registers) / warps;
  const uint32_t by_smem =
      SM_SMEM_BYTES / (round_up(smem_bytes, SMEM_GRANULE_BYTES) + RESERVED_SMEM_BYTES);
  return std::min({SM_CTAS, by_threads, by_registers, by_smem});
}

}  // namespace machine
