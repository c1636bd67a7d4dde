// A CTA of a cluster loads its part of what the cluster shares.
// Introduced by stages/08_cluster_multicast.cu
#pragma once

#include <cstdint>

#include "common/ptx/cluster.cuh"
#include "common/ptx/tma.cuh"

namespace block {

// Loads this CTA's slice of an operand into every CTA that shares it.
template <int SHARERS>
__device__ void load_slice(void* dst, const CUtensorMap* map, int col, int row, uint64_t* full,
                           uint16_t cta_mask) {
  if constexpr (SHARERS == 1) ptx::cp_async_bulk_tensor_2d_g2s(dst, map, col, row, full);
  if constexpr (SHARERS > 1) {
    ptx::cp_async_bulk_tensor_2d_g2s_multicast(dst, map, col, row, full, cta_mask);
  }
}

}  // namespace block
