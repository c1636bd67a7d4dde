// The CTAs of a cluster that share a tile's K exchange what they have of it.
// Introduced by stages/12_stream_k.cu
#pragma once

#include <cstdint>

#include "common/ptx/cluster.cuh"
#include "common/ptx/memory.cuh"

namespace block {

// CTA `rank` has the partial sums `acc` of a tile [BM][BN], rank / SHARERS being its place in the
// order of K. Each of the first FINISHERS of these CTAs gets SHARE columns of all, in `exchange`
// [SPLIT][SHARE / 8][threads], and adds them up in the order of K into `sum`. `summands` there has
// been told to expect their bytes. All consumers of the cluster.
template <class T>
__device__ void exchange_sums(float (&sum)[T::SHARE / 2], const float (&acc)[T::BN / 2],
                              float4* exchange, uint64_t* summands, int rank) {
  constexpr int VECTORS = T::SHARE / 8, THREADS = T::CONSUMERS * 128;  // a float4 of each thread
  const int thread = threadIdx.x - 128, rank_k = rank / T::SHARERS;
#pragma unroll
  for (int to = 0; to < T::FINISHERS; ++to) {
    const int there = to * T::SHARERS + rank % T::SHARERS;
    const uint32_t bar = ptx::mapa_shared_cluster(summands, there);
    const uint32_t dst =
        ptx::mapa_shared_cluster(&exchange[rank_k * VECTORS * THREADS + thread], there);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      const float* v = &acc[(to * VECTORS + i) * 4];
      ptx::st_async_v4_f32(dst + i * THREADS * 16, v[0], v[1], v[2], v[3], bar);
    }
  }
  if (rank_k >= T::FINISHERS) return;
  ptx::mbarrier_wait_cluster(summands, 0);
#pragma unroll
  for (int from = 0; from < T::SPLIT; ++from) {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      const float4& at = exchange[(from * VECTORS + i) * THREADS + thread];
      const float4 v = ptx::ld_shared_v4_f32(&at.x);
      sum[i * 4 + 0] = from > 0 ? sum[i * 4 + 0] + v.x : v.x;
      sum[i * 4 + 1] = from > 0 ? sum[i * 4 + 1] + v.y : v.y;
      sum[i * 4 + 2] = from > 0 ? sum[i * 4 + 2] + v.z : v.z;
      sum[i * 4 + 3] = from > 0 ? sum[i * 4 + 3] + v.w : v.w;
    }
  }
}

}  // namespace block
