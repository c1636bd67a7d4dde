// The barriers of a CTA that has a ring, consumers and storers.
// Introduced by stages/11_autotuned.cu
#pragma once

#include <cstdint>

#include "common/ptx/mbarrier.cuh"

namespace block {

// Initialises them, by one thread: of each slot of the ring, which `releases` arrivals release, and of
// each place where a consumer stages what its storer sends.
template <class T>
__device__ void init_barriers(uint64_t (&full)[T::DEPTH], uint64_t (&empty)[T::DEPTH], int releases,
                              uint64_t (&staged)[T::CONSUMERS][T::BUFFERS],
                              uint64_t (&stored)[T::CONSUMERS][T::BUFFERS]) {
  static_assert(T::CONSUMERS <= 3, "the storers are warps 1 to 3: one for each consumer");
  for (int slot = 0; slot < T::DEPTH; ++slot) {
    ptx::mbarrier_init(&full[slot], 1);
    ptx::mbarrier_init(&empty[slot], releases);
  }
  for (int i = 0; i < T::CONSUMERS * T::BUFFERS; ++i) {
    ptx::mbarrier_init(&staged[i / T::BUFFERS][i % T::BUFFERS], 4);
    ptx::mbarrier_init(&stored[i / T::BUFFERS][i % T::BUFFERS], 1);
  }
  ptx::fence_mbarrier_init();  // before TMA counts bytes, and peers arrive, on them
}

}  // namespace block
