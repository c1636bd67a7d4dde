// The slots of a ring, which the CTAs of a cluster may share, or not.
// Introduced by stages/11_autotuned.cu
#pragma once

#include <cstdint>

#include "common/ptx/cluster.cuh"
#include "common/ptx/mbarrier.cuh"

namespace block {

// Waits for a barrier of a slot, which SHARERS CTAs use: one by itself needs no cluster scope.
template <int SHARERS>
__device__ void wait_slot(uint64_t* bar, uint32_t parity) {
  if constexpr (SHARERS == 1) ptx::mbarrier_wait(bar, parity);
  if constexpr (SHARERS > 1) ptx::mbarrier_wait_cluster(bar, parity);
}

// A warp has read a slot: its lane r says so to CTA first_rank + r of the cluster.
template <int SHARERS>
__device__ void release_slot(uint64_t* empty, int lane, int first_rank = 0) {
  if (SHARERS == 1 && lane == 0) ptx::mbarrier_arrive(empty);
  if (SHARERS > 1 && lane < SHARERS) ptx::mbarrier_arrive_cluster(empty, first_rank + lane);
}

}  // namespace block
