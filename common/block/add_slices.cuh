// The warpgroups of a CTA that share a tile's K add up what they have of it.
// Introduced by stages/14_block_scaled.cu
#pragma once

#include "common/ptx/barrier.cuh"
#include "common/ptx/memory.cuh"

namespace block {

// Each of the SLICES warpgroups of consumer `consumer` has the partial sums `sum` of its rows of a
// tile [BM][BN]. Slice 0 gets the sums of all, added in the order of the slices, and true. `parts`
// [SLICES - 1][BN / 8][CONSUMERS * 128]. Named barriers 8 + consumer and 12 + consumer.
template <class T>
__device__ bool add_slices(float (&sum)[T::BN / 2], float4* parts, int consumer, int slice) {
  constexpr int VECTORS = T::BN / 8, STRIDE = T::CONSUMERS * 128, THREADS = T::SLICES * 128;
  float4* own = parts + consumer * 128 + threadIdx.x % 128;
  ptx::bar_warp_sync();  // all lanes arrive together
  if (slice > 0) {
    ptx::barrier_sync(8 + consumer, THREADS);  // slice 0 has read what was left for the last tile
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      const float4 v = {sum[i * 4], sum[i * 4 + 1], sum[i * 4 + 2], sum[i * 4 + 3]};
      ptx::st_shared_v4_f32(own + ((slice - 1) * VECTORS + i) * STRIDE, v);
    }
    ptx::bar_warp_sync();
    ptx::barrier_arrive(12 + consumer, THREADS);
    return false;
  }
  ptx::barrier_arrive(8 + consumer, THREADS);
  ptx::barrier_sync(12 + consumer, THREADS);  // the others have left theirs
#pragma unroll
  for (int i = 0; i < (T::SLICES - 1) * VECTORS; ++i) {
    const float4 v = ptx::ld_shared_v4_f32(&own[i * STRIDE].x);
    const int first = i % VECTORS * 4;
    sum[first + 0] += v.x;
    sum[first + 1] += v.y;
    sum[first + 2] += v.z;
    sum[first + 3] += v.w;
  }
  return true;
}

}  // namespace block
