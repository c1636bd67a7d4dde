// Which of the warpgroups that multiply a warp belongs to.
// Introduced by stages/10_pingpong.cu
#pragma once

#include "common/ptx/warp.cuh"

namespace block {

// From 0 on, behind warpgroup 0, which multiplies nothing. By a vote, so that the compiler knows that
// the lanes agree: it keeps descriptors in uniform registers then, from which wgmma starts without a
// wait.
template <class T>
__device__ int consumer_of_warp() {
  constexpr int COUNT = T::THREADS / 128 - 1;
  static_assert(COUNT <= 4, "the votes below tell four warpgroups apart");
  if (COUNT > 3 && ptx::vote_sync_any(threadIdx.x >= 4 * 128)) return 3;
  if (COUNT > 2 && ptx::vote_sync_any(threadIdx.x >= 3 * 128)) return 2;
  return COUNT > 1 && ptx::vote_sync_any(threadIdx.x >= 2 * 128) ? 1 : 0;
}

}  // namespace block
