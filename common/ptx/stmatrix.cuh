// stmatrix: accumulators of mma.sync and wgmma go to shared memory as rows of 16 bytes (sm_90).
#pragma once

#include <cstdint>

#include "common/ptx/memory.cuh"

namespace ptx {

// stmatrix.sync.aligned.m8n8.x4.shared.b16  [row], {r0, r1, r2, r3};
//   issued by : all 32 lanes; lanes 8i .. 8i+7 supply the addresses of the eight 16-byte rows of
//               matrix i. Lane l gives elements 2(l%4) and 2(l%4)+1 of row l/4 of matrix i in ri:
//               ldmatrix the other way round.
//   orders    : nothing; an ordinary shared-memory write of the generic proxy
//   ISA       : #warp-level-matrix-instructions-stmatrix
__device__ inline void stmatrix_x4(void* row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(cvta_to_shared(row)),
      "r"(r0), "r"(r1), "r"(r2), "r"(r3)
      : "memory");
}

// stmatrix.sync.aligned.m8n8.x4.trans.shared.b16  [row], {r0, r1, r2, r3};
//   issued by : as above, but each matrix is stored transposed: lane l gives elements 2(l%4) and
//               2(l%4)+1 of column l/4
//   orders    : nothing
//   ISA       : #warp-level-matrix-instructions-stmatrix
__device__ inline void stmatrix_x4_trans(void* row, uint32_t r0, uint32_t r1, uint32_t r2,
                                         uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   cvta_to_shared(row)),
               "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

// stmatrix.sync.aligned.m8n8.x2.trans.shared.b16  [row], {r0, r1};
//   issued by : as above, for two matrices: lanes 0 .. 15 supply the addresses
//   orders    : nothing
//   ISA       : #warp-level-matrix-instructions-stmatrix
__device__ inline void stmatrix_x2_trans(void* row, uint32_t r0, uint32_t r1) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(cvta_to_shared(row)),
      "r"(r0), "r"(r1)
      : "memory");
}

}  // namespace ptx
