// A warpgroup multiplies one slot of 8-bit operands, and promotes the sums by their scales.
// Introduced by stages/14_block_scaled.cu
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/block/consumer_of_warp.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/fma.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/ptx/wgmma_fp8.cuh"
#include "common/tile/descriptor.h"

namespace block {

// Rows that a tile does not have are not fetched. wgmma reads them all the same: makes those from
// `rows` on zeros, in all slots and slices: a, boxes [DEPTH * SLICES], and their scales.
template <class T, class Box>
__device__ void clear_missing_rows(Box* a, float (*scale_a)[T::BM], int rows) {
  for (int box = 0; box < T::DEPTH * T::SLICES; ++box) {
    for (int chunk = rows * 8 + threadIdx.x; chunk < T::BM * 8; chunk += T::THREADS) {
      ptx::st_shared_v4_b32(a[box].bytes + chunk * 16, uint4{});
    }
    if (rows + threadIdx.x < T::BM) ptx::st_shared_f32(&scale_a[box][rows + threadIdx.x], 0);
  }
  ptx::fence_proxy_async_shared_cta();  // before wgmma reads them
}

// Of a slot, the scales of the thread's rows: two of each of its blocks.
template <class T>
__device__ void load_scales(float (&scale)[T::BLOCKS][2], const float* scale_a, int thread_m) {
#pragma unroll
  for (int i = 0; i < T::BLOCKS * 2; ++i) {
    scale[i / 2][i % 2] = ptx::ld_shared_f32(scale_a + thread_m + i / 2 * T::WM + i % 2 * 8);
  }
}

// Of a tile, the scales of B. Its columns lie in one block of 128, or in that and the next. SPAN, the
// largest number that divides a tile's columns and a block's, is how many surely share a scale.
template <class T>
struct ScalesOfB {
  const float* row[2];  // [ceil(k / 128)] of each
  int boundary;         // the tile's first column that is in the next
  // 0, which the compiler takes to differ from lane to lane. Of 160 columns it would keep the scales
  // in uniform registers, and have the sums wait until those of the next step are there.
  int lane_zero = T::BN == 160 ? ptx::mov_lanemask_eq() == 0 : 0;

  __device__ ScalesOfB(const float* scale_b, long long ld, int n0, int n) {
    const int block = n0 / T::SCALE_BLOCK, last = (n - 1) / T::SCALE_BLOCK;
    row[0] = scale_b + min(block, last) * ld;
    row[1] = scale_b + min(block + 1, last) * ld;
    boundary = (block + 1) * T::SCALE_BLOCK - n0;
  }
  __device__ void load(float (&scale)[2], int k_tile) const {
    scale[0] = ptx::ld_global_nc_f32(row[0] + (k_tile + lane_zero));
    if (T::BN > T::SPAN) scale[1] = ptx::ld_global_nc_f32(row[1] + (k_tile + lane_zero));
  }
};

// Sets the accumulators of a warpgroup's blocks of 64 rows to zero.
template <class T>
__device__ void clear(float (&acc)[T::BLOCKS][T::BN / 2]) {
#pragma unroll
  for (int i = 0; i < T::BLOCKS * T::BN / 2; ++i) acc[i / (T::BN / 2)][i % (T::BN / 2)] = 0;
}

// Starts sum = A · B^T, or sum += A · B^T, for one slot: A [64][128] of the warpgroup, B [BN][128] of
// the CTA. int: of s8; float: of e4m3.
template <class T>
__device__ void multiply_scaled(typename T::Sum (&sum)[T::BN / 2], const unsigned char* a,
                                const unsigned char* b, bool accumulate) {
  const uint64_t a_desc = tile::k_major_128b(ptx::cvta_to_shared(a));
  const uint64_t b_desc = tile::k_major_128b(ptx::cvta_to_shared(b));
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < T::BK; k += 32) {  // of one wgmma
    const uint64_t a_at = tile::advance(a_desc, k), b_at = tile::advance(b_desc, k);
    const bool add = accumulate || k > 0;
    if constexpr (std::is_same_v<typename T::Sum, int>) {
      ptx::wgmma_m64nNk32_s32_s8_s8<T::BN>(sum, a_at, b_at, add);
    } else {
      ptx::wgmma_m64nNk32_f32_e4m3_e4m3<T::BN>(sum, a_at, b_at, add);
    }
  }
  ptx::wgmma_commit_group();
}

// acc += scales · sum, of a block of 64 rows and BN columns. The thread's two rows have scale_a; the
// columns have scale_b[0], and from `boundary` on, a multiple of SPAN, scale_b[1].
template <class T>
__device__ void promote(float (&acc)[T::BN / 2], const typename T::Sum (&sum)[T::BN / 2],
                        const float (&scale_a)[2], const float (&scale_b)[2], int boundary) {
  constexpr int SPANS = T::BN / T::SPAN;
  float scale[SPANS][2];
#pragma unroll
  for (int i = 0; i < SPANS; ++i) {
    const float b = SPANS > 1 && i * T::SPAN >= boundary ? scale_b[1] : scale_b[0];
    scale[i][0] = scale_a[0] * b;
    scale[i][1] = scale_a[1] * b;
  }
#pragma unroll
  for (int i = 0; i < T::BN / 2; ++i) {  // in turns two of the first row, two of the second
    const float s = scale[i / 4 * 8 / T::SPAN][i % 4 / 2];
    acc[i] = ptx::fma_rn_f32(static_cast<float>(sum[i]), s, acc[i]);
  }
}

}  // namespace block
