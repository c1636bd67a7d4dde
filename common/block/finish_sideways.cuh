// A warpgroup finishes sums of a tile that lies on its side, in a box of D into which TMA may have
// put C: a warp's 16 rows of B·A^T are 16 columns of the box, or 8 if they are gates and ups.
// Introduced by stages/17_fused_epilogue.cu
#pragma once

#include <cstdint>

#include "common/block/activation.cuh"
#include "common/ptx/fma.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/mma.cuh"
#include "common/ptx/stmatrix.cuh"
#include "common/tile/fragment.h"
#include "common/tile/smem_tile.h"

namespace block {

using bf16 = __nv_bfloat16;

// Columns of B·A^T that are finished together, each 16 of them with arithmetic of their own: nothing
// is stored before all of theirs is loaded.
constexpr int SIDEWAYS_AT_ONCE = 64;

// COLS columns of B·A^T, which are the rows of the box from row0 on. acc: from the first of them on;
// bias: of the warp's two rows that this thread has sums of.
template <class F, int COLS, int ROWS, int BOX>
__device__ void finish_columns(const float* acc, tile::SmemTile<bf16, ROWS, BOX>& box, int row0,
                               const float (&bias)[2], float alpha, float beta, bool with_c) {
  constexpr int PAIRS = COLS / 16;  // of blocks of 16 x 8 sums: rows 0 to 7 and 8 to 15, twice
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  float z[PAIRS][8];
#pragma unroll
  for (int i = 0; i < PAIRS; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) z[i][j] = ptx::fma_rn_f32(alpha, acc[i * 8 + j], bias[j / 2 % 2]);
  }
  if constexpr (F::INPUTS == 1) {
    const auto at = [&](int i) {
      return box.at(row0 + i * 16 + tile::ldmatrix_b_row(lane),
                    warp * 2 + tile::ldmatrix_b_chunk(lane));
    };
    if (with_c) {
#pragma unroll
      for (int i = 0; i < PAIRS; ++i) {
        uint32_t c[4];  // as stmatrix takes D
        ptx::ldmatrix_x4_trans(c, at(i));
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const uint32_t both = c[j / 2];
          z[i][j] = ptx::fma_rn_f32(
              beta, __uint_as_float(j % 2 == 0 ? both << 16 : both & 0xffff0000), z[i][j]);
        }
      }
    }
    uint32_t y[PAIRS][4];
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        const float x[1][4] = {{z[i][j], z[i][j + 1], z[i][j + 2], z[i][j + 3]}};
        float of[4];
        F::apply(of, x);
        y[i][j / 2] = ptx::cvt_rn_bf16x2_f32(of[1], of[0]);
        y[i][j / 2 + 1] = ptx::cvt_rn_bf16x2_f32(of[3], of[2]);
      }
    }
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
      ptx::stmatrix_x4_trans(at(i), y[i][0], y[i][1], y[i][2], y[i][3]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {  // gates are the rows 0 to 7 of B·A^T, ups 8 to 15
      const float x[2][4] = {{z[i][0], z[i][1], z[i][4], z[i][5]},
                             {z[i][2], z[i][3], z[i][6], z[i][7]}};
      float of[4];
      F::apply(of, x);
      ptx::stmatrix_x2_trans(box.at(row0 + i * 16 + lane % 16, warp),
                             ptx::cvt_rn_bf16x2_f32(of[1], of[0]),
                             ptx::cvt_rn_bf16x2_f32(of[3], of[2]));
    }
  }
}

// acc: a warpgroup's 64 rows of B·A^T. bias: theirs. ROWS is a multiple of 16.
template <class F, int ROWS, int BOX>
__device__ void finish_sideways(const float* acc, tile::SmemTile<bf16, ROWS, BOX>& box,
                                const bf16* bias, float alpha, float beta, bool with_c) {
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16;
  float of_rows[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    of_rows[half] = __uint_as_float(
        static_cast<uint32_t>(ptx::ld_shared_b16(&bias[row + tile::acc_row(lane, half)])) << 16);
  }
  constexpr int LAST = ROWS % SIDEWAYS_AT_ONCE, WHOLE = ROWS - LAST;
#pragma unroll
  for (int first = 0; first < WHOLE; first += SIDEWAYS_AT_ONCE) {
    finish_columns<F, SIDEWAYS_AT_ONCE>(&acc[first / 2], box, first, of_rows, alpha, beta, with_c);
  }
  if constexpr (LAST > 0) {
    finish_columns<F, LAST>(&acc[WHOLE / 2], box, WHOLE, of_rows, alpha, beta, with_c);
  }
}

}  // namespace block
