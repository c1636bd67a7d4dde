// ldmatrix and mma.sync: the tensor cores as a warp sees them.
#pragma once

#include <cstdint>

#include "common/ptx/memory.cuh"

namespace ptx {

// ldmatrix.sync.aligned.m8n8.x4.shared.b16  {r0, r1, r2, r3}, [row];
//   issued by : all 32 lanes; lanes 8i .. 8i+7 supply the addresses of the eight 16-byte rows of
//               matrix i. Lane l receives elements 2(l%4) and 2(l%4)+1 of row l/4 of matrix i in
//               ri.
//   orders    : nothing; an ordinary shared-memory read of the generic proxy
//   ISA       : #warp-level-matrix-instructions-ldmatrix
__device__ inline void ldmatrix_x4(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(cvta_to_shared(row))
               : "memory");
}

// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16  {r0, r1, r2, r3}, [row];
//   issued by : as above, but each matrix is read transposed: lane l receives elements 2(l%4) and
//               2(l%4)+1 of column l/4
//   orders    : nothing
//   ISA       : #warp-level-matrix-instructions-ldmatrix
__device__ inline void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(cvta_to_shared(row))
               : "memory");
}

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32  d, a, b, d;
//   issued by : all 32 lanes     computes: D[16][8] += A[16][16] · B[8][16]^T on registers
//   ISA       : #warp-level-matrix-instructions-mma
__device__ inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, "  // D
      "{%4, %5, %6, %7}, "  // A
      "{%8, %9}, "          // B
      "{%0, %1, %2, %3};"   // C
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace ptx
