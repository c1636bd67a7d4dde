// A warp stores what TMA cannot: the last columns of a ragged D, of any type.
// Introduced by stages/13_layouts.cu
#pragma once

#include "common/ptx/memory.cuh"
#include "common/tile/smem_tile.h"

namespace block {

// TMA writes chunks of 16 bytes: of a box at D[row0][col0], a warp stores the columns behind D's
// last whole chunk itself, at most seven.
template <class Out, int ROWS, int COLS>
__device__ void store_last_elements(const tile::SmemTile<Out, ROWS, COLS>& box, Out* d,
                                    long long ldd, int row0, int col0, int m, int n) {
  constexpr int CHUNK = 16 / int{sizeof(Out)};
  const int first = n / CHUNK * CHUNK;
  if (first < col0 || first >= col0 + COLS) return;
  for (int row = threadIdx.x % 32; row < ROWS && row0 + row < m; row += 32) {
    const unsigned char* from = box.at(row, (first - col0) / CHUNK);
    for (int col = first; col < n; ++col, from += sizeof(Out)) {
      auto* to = reinterpret_cast<__nv_bfloat16*>(d + (row0 + row) * ldd + col);  // 2 or 4 bytes
      if constexpr (sizeof(Out) == 2) ptx::st_global_b16(to, ptx::ld_shared_b16(from));
      if constexpr (sizeof(Out) == 4) ptx::st_global_b32(to, ptx::ld_shared_b32(from));
    }
  }
}

}  // namespace block
