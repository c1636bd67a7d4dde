// A warpgroup writes its results to D itself.
// Introduced by stages/05_wgmma.cu
#pragma once

#include <cstdint>

#include "common/ptx/memory.cuh"
#include "common/ptx/warp.cuh"
#include "common/tile/fragment.h"

namespace block {

using bf16 = __nv_bfloat16;

// Writes the warpgroup's 64xBN block, whose first element is D[row0][col0]. Lanes 2i and 2i+1
// trade first: one gets four columns of block j, the other four of block j + 1.
template <class T>
__device__ void store_tile(const float (&acc)[T::BN / 2], bf16* d, long long ldd, int row0,
                           int col0, int m, int n) {
  const int lane = threadIdx.x % 32, warp_in_group = threadIdx.x / 32 % 4;
  const bool odd = lane % 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = row0 + warp_in_group * 16 + tile::acc_row(lane, i);
#pragma unroll
    for (int j = 0; j < T::BN / 8; j += 2) {
      const float* block = &acc[j * 4 + i * 2];  // two columns of block j; of the next from [4] on
      const uint32_t left = ptx::cvt_rn_bf16x2_f32(block[1], block[0]);
      const uint32_t right = ptx::cvt_rn_bf16x2_f32(block[5], block[4]);
      const uint32_t got = ptx::shfl_sync_bfly_b32<1>(odd ? left : right);
      const int col = col0 + j * 8 + tile::traded_col(lane);
      ptx::st_global_bf16x4(d + row * ldd + col, odd ? got : left, odd ? right : got,
                            row < m ? n - col : 0);
    }
  }
}

}  // namespace block
