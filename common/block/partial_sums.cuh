// Clusters that share a tile's K leave partial sums in the workspace, and the last to come finishes
// the tile.
// Introduced by stages/12_stream_k.cu
#pragma once

#include <cstdint>

#include "common/block/stage_transposed.cuh"
#include "common/ptx/atomic.cuh"
#include "common/ptx/barrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/tile/smem_tile.h"

namespace block {

using bf16 = __nv_bfloat16;

// The workspace. A cluster may have a piece of two shared tiles: of one that it took over in the
// middle, and of one that it began.
struct Partials {
  float4* sums;  // [clusters][2][SHARERS][BLOCKS * BN / 8][consumer threads]
  uint32_t*
      arrived;  // [clusters][SHARERS][CONSUMERS]: how many of those that share a tile have left
                // their part, by the first of them; 0 between launches. Null: nobody sums here
};

// Who has a piece of a tile: the clusters first .. end - 1, among them `ours`, of which this is CTA
// `rank` of those side by side. A tile that is not shared has one.
struct Sharers {
  int first, end, ours;
  int rank;
};

// Where cluster `of` leaves its piece: the first float4 of thread 0.
template <class T>
__device__ float4* partials_of(const Partials& partials, const Sharers& by, int of) {
  const int place = (of * 2 + (of == by.first)) * T::SHARERS + by.rank;
  return partials.sums + 1LL * place * (T::PARTIAL_BYTES / 16);
}

// Leaves a warpgroup's partial sums.
template <class T>
__device__ void leave_partials(const float (&acc)[T::BLOCKS][T::BN / 2], const Sharers& by,
                               const Partials& partials) {
  constexpr int VECTORS = T::BN / 8;  // of a block
  float4* to = partials_of<T>(partials, by, by.ours) + threadIdx.x - 128;
#pragma unroll
  for (int i = 0; i < T::BLOCKS * VECTORS; ++i) {
    const float* v = &acc[i / VECTORS][i % VECTORS * 4];
    ptx::st_global_v4_f32(to + i * T::CONSUMERS * 128, v[0], v[1], v[2], v[3]);
  }
}

// Leaves the warpgroup's part of a shared tile to the cluster that comes last, and is true there:
// that one finishes the tile, and nobody waits. It need not leave what it has itself, unless two
// come at the same time.
template <class T>
__device__ bool comes_last(const float (&acc)[T::BLOCKS][T::BN / 2], const Sharers& by,
                           const Partials& partials) {
  if (partials.arrived == nullptr) {
    leave_partials<T>(acc, by, partials);
    return false;
  }
  const int group = threadIdx.x / 128 - 1;
  const bool speaks = threadIdx.x % 128 == 0;  // for the warpgroup
  const uint32_t others = by.end - by.first - 1;
  uint32_t* arrived = partials.arrived + (by.first * T::SHARERS + by.rank) * T::CONSUMERS + group;
  bool last =
      ptx::barrier_red_or(1 + group, 128, speaks && ptx::ld_acquire_gpu_u32(arrived) == others);
  if (!last) {
    leave_partials<T>(acc, by, partials);
    ptx::barrier_sync(1 + group, 128);  // before one speaks for all
    last = ptx::barrier_red_or(1 + group, 128,
                               speaks && ptx::atom_add_acq_rel_gpu_u32(arrived, 1) == others);
  }
  if (last && speaks) ptx::st_relaxed_gpu_u32(arrived, 0);  // for the next launch
  return last;
}

// Adds what the clusters from .. end - 1 have left of the COLS columns from vector `vector` on.
template <class T, int COLS>
__device__ void add_partials(float (&sum)[COLS / 2], int from, int end, int vector,
                             const Sharers& by, const Partials& partials) {
#pragma unroll 1
  for (; from < end; ++from) {
    const float4* theirs =
        partials_of<T>(partials, by, from) + vector * T::CONSUMERS * 128 + threadIdx.x - 128;
    float4 v[COLS / 8];
#pragma unroll
    for (int i = 0; i < COLS / 8; ++i)
      v[i] = ptx::ld_global_v4_f32(theirs + i * T::CONSUMERS * 128);
#pragma unroll
    for (int i = 0; i < COLS / 8; ++i) {
      sum[i * 4 + 0] += v[i].x;
      sum[i * 4 + 1] += v[i].y;
      sum[i * 4 + 2] += v[i].z;
      sum[i * 4 + 3] += v[i].w;
    }
  }
}

// Stages block `block` of the warpgroup from column COL on, AT_ONCE columns at a time, each the sum of
// all parts in the order of K, so that the bits do not depend on who comes last.
template <class T, int COL = 0>
__device__ void stage_sums(tile::SmemTile<bf16, T::BN, 64>& box, const float (&acc)[T::BN / 2],
                           int block, const Sharers& by, const Partials& partials) {
  constexpr int COLS = T::BN - COL < T::AT_ONCE ? T::BN - COL : T::AT_ONCE;
  const int vector = (block * T::BN + COL) / 8;
  float sum[COLS / 2];
#pragma unroll
  for (int i = 0; i < COLS / 2; ++i) sum[i] = -0.0f;  // what is added to it stays as it is
  add_partials<T, COLS>(sum, by.first, by.ours, vector, by, partials);
#pragma unroll
  for (int i = 0; i < COLS / 2; ++i) sum[i] += acc[COL / 2 + i];
  add_partials<T, COLS>(sum, by.ours + 1, by.end, vector, by, partials);
  stage_transposed<COLS>(sum, box, COL);
  if constexpr (COL + COLS < T::BN) stage_sums<T, COL + COLS>(box, acc, block, by, partials);
}

}  // namespace block
