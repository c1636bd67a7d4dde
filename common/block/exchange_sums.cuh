// The CTAs of a cluster that share a tile's K exchange what they have of it.
// Introduced by stages/12_stream_k.cu
#pragma once

#include <cstdint>

#include "common/ptx/barrier.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"

namespace block {

// CTA `rank` has the partial sums `acc` of a tile [BM][BN], rank / SHARERS being its place in the
// order of K. Each of the first FINISHERS of these CTAs gets SHARE columns of all, in `exchange`
// [SPLIT][SHARE / 8][threads], and adds them up in the order of K into `sum`. `summands` there has
// been told to expect their bytes, in a phase of this parity. All consumers of the cluster.
template <class T>
__device__ void exchange_sums(float (&sum)[T::SHARE / 2], const float (&acc)[T::BN / 2],
                              float4* exchange, uint64_t* summands, int rank, uint32_t parity = 0) {
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
  ptx::mbarrier_wait_cluster(summands, parity);
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

// The same for the cluster's tile number `turn`, where SHARERS is 1. Behind the first tile a CTA sends
// once its peers have read what it sent them before: `drained` counts their warps. Who has read tells
// all of them, and expects the next tile's sums, if there is one.
template <class T>
__device__ void exchange_sums_again(float (&sum)[T::SHARE / 2], const float (&acc)[T::BN / 2],
                                    float4* exchange, uint64_t* summands, uint64_t* drained,
                                    int rank, int turn, bool more) {
  if (turn > 0) ptx::mbarrier_wait_cluster(drained, (turn - 1) % 2);
  exchange_sums<T>(sum, acc, exchange, summands, rank, turn % 2);
  if (rank >= T::FINISHERS || !more) return;  // behind its last tile a peer may have exited
  if (threadIdx.x == 128) ptx::mbarrier_arrive_expect_tx(summands, T::EXCHANGE_BYTES);
  ptx::bar_warp_sync();  // all lanes have read
  const int lane = threadIdx.x % 32;
  if (lane < T::SPLIT) ptx::mbarrier_arrive_cluster(drained, lane);
}

}  // namespace block
