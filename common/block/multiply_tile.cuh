// A warpgroup multiplies one slot of the ring.
// Introduced by stages/05_wgmma.cu
#pragma once

#include <cstdint>

#include "common/ptx/memory.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/descriptor.h"

namespace block {

// Starts acc += A · B^T for one slot: A [64][64] of the warpgroup, B [BN][64] of the CTA.
template <class T>
__device__ void multiply_tile(float (&acc)[T::BN / 2], const unsigned char* a,
                              const unsigned char* b, bool accumulate) {
  const uint64_t a_desc = tile::k_major_128b(ptx::cvta_to_shared(a));
  const uint64_t b_desc = tile::k_major_128b(ptx::cvta_to_shared(b));
  ptx::wgmma_fence();
#pragma unroll
  for (int kk = 0; kk < T::BK / 16; ++kk) {
    ptx::wgmma_m64k16<T::BN>(acc, tile::advance(a_desc, kk * 32), tile::advance(b_desc, kk * 32),
                             accumulate || kk > 0);
  }
  ptx::wgmma_commit_group();
}

}  // namespace block
