// What a consumer of a group's tile does that one of a single product's does not.
// Introduced by stages/16_grouped.cu
#pragma once

#include "common/block/multiply_tile.cuh"
#include "common/block/scaled_tile.cuh"
#include "common/tile/grouped.h"
#include "common/tile/math.h"

namespace block {

// acc += A · B^T of one slot, and waits: of the warpgroup's blocks of 64 rows, the first `blocks`, at
// least one. How many is decided before products start: none may start on a condition while others run.
template <class T>
__device__ void multiply_blocks(float (&acc)[T::BLOCKS][T::BN / 2], const unsigned char* a,
                                const unsigned char* b, int blocks, bool accumulate) {
  if (blocks == T::BLOCKS) {
#pragma unroll
    for (int i = 0; i < T::BLOCKS; ++i) {
      multiply_tile<T>(acc[i], a + i * T::WM * 128, b, accumulate);
    }
    ptx::wgmma_wait_group<0>();  // meanwhile the other warpgroups' products run
  } else {
    multiply_tile<T>(acc[0], a, b, accumulate);
    ptx::wgmma_wait_group<0>();
  }
}

// As store_last_columns(), in fewer registers: of a block at D[0][n0], staged in `boxes`, a warp stores
// the columns behind D's last whole chunk, in the first `rows` rows.
template <class T, class Box>
__device__ void store_last_of_rows(const Box (&boxes)[T::BOXES], __nv_bfloat16* d, long long ldd,
                                   int n0, int rows, int n) {
  const int first = n / 8 * 8 - n0;  // of the block
  if (first < 0 || first >= T::BN) return;
#pragma unroll 1
  for (int row = threadIdx.x % 32; row < rows; row += 32) {
    const unsigned char* const chunk = boxes[first / T::BOX].at(row, first % T::BOX / 8);
#pragma unroll 1
    for (int i = 0; i < n % 8; ++i) {
      ptx::st_global_b16(d + row * ldd + n0 + first + i, ptx::ld_shared_b16(chunk + i * 2));
    }
  }
}

// Where the scales of B begin of a tile's group, [ceil(n / 128)][ld].
template <class T>
__device__ const float* scales_of_group(const float* scale_b, long long ld, int n, int group) {
  return scale_b + group * tile::ceil_div(n, T::SCALE_BLOCK) * ld;
}

}  // namespace block
