// The CTAs of a cluster that share the K of its tiles, one after the other, add up what they have.
// Introduced by stages/13_layouts.cu
#pragma once

#include <cstdint>

#include "common/block/exchange_sums.cuh"
#include "common/ptx/mbarrier.cuh"

namespace block {

// What the CTAs that share a tile's K exchange.
template <class T>
struct Sums {};
template <class T>
  requires(T::SPLIT > 1)
struct Sums<T> {
  float4 exchange[T::EXCHANGE_BYTES / 16];  // [SPLIT][SHARE / 8][consumer threads]
  uint64_t summands, drained;  // they are here: EXCHANGE_BYTES; and read, wherever some went
};

// The barriers of Sums, told to expect those of the first tile.
template <class T>
__device__ void expect_sums(Sums<T>& sums) {
  ptx::mbarrier_init(&sums.summands, 1);
  ptx::mbarrier_init(&sums.drained, T::FINISHERS * T::CONSUMERS * 4);
  ptx::mbarrier_arrive_expect_tx(&sums.summands, T::EXCHANGE_BYTES);
}

// Whether this CTA finishes columns of the tile number `turn` of its cluster: `acc` has their sums.
template <class T>
__device__ bool add_up(float (&acc)[T::BN / 2], Sums<T>& sums, int rank_k, int turn, bool more) {
  float sum[T::SHARE / 2];
  exchange_sums_again<T>(sum, acc, sums.exchange, &sums.summands, &sums.drained, rank_k, turn,
                         more);
  if (rank_k >= T::FINISHERS) return false;
  for (int i = 0; i < T::SHARE / 2; ++i) acc[i] = sum[i];
  return true;
}

}  // namespace block
