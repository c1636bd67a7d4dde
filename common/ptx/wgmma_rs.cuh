// wgmma whose A operand comes from registers (RS): a thread gives its own fragment of A, which it
// may just have computed. B comes from shared memory, through the async proxy.
#pragma once

#include <cstdint>

#include "common/ptx/wgmma_regs.cuh"

namespace ptx {

// wgmma.mma_async.sync.aligned.m64nNk16.f32.bf16.bf16
//     d, {a0, a1, a2, a3}, b_desc, scale-d, imm-scale-a, imm-scale-b, imm-trans-b;
//   issued by : all threads of the warpgroup, behind wgmma_fence() if a or d was written since
//   computes  : D[64][N] = A[64][16] · B[N][16]^T + (accumulate ? D : 0), B K-major; a thread's a:
//               two neighbours of K of each of rows r and r + 8, then the same 8 of K further,
//               where warp w and lane l have r = 16w + l / 4 and begin at K = 2 (l % 4)
//   orders    : nothing until wait_group: until then neither a nor d may change
//   ISA       : #asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async
// Behind N: the numbers of the operands behind the N / 2 registers of d, then these for either
// side.
// clang-format off
#define WGMMA_RS_M64K16(N, A0, A1, A2, A3, B_DESC, SCALE_D, LIST, ...)                             \
  __device__ inline void wgmma_rs_m64n##N##k16(float (&d)[N / 2], const uint32_t* a,               \
                                               uint64_t b_desc, bool accumulate) {                 \
    asm volatile(                                                                                  \
        "{ .reg .pred p;  setp.ne.b32 p, %" #SCALE_D ", 0;\n"                                      \
        "  wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16\n"                             \
        "  {" LIST "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B_DESC ", p, 1, 1, 0; }"      \
        : __VA_ARGS__                                                                              \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_desc),                                 \
          "r"(static_cast<int>(accumulate))                                                        \
        : "memory");                                                                               \
  }
WGMMA_RS_M64K16(8, 4, 5, 6, 7, 8, 9, WGMMA_D_0_3, ACC4(d, 0))
WGMMA_RS_M64K16(16, 8, 9, 10, 11, 12, 13, WGMMA_D_0_7, ACC8(d, 0))
WGMMA_RS_M64K16(32, 16, 17, 18, 19, 20, 21, WGMMA_D_0_15, ACC16(d, 0))
WGMMA_RS_M64K16(48, 24, 25, 26, 27, 28, 29, WGMMA_D_0_15 ", " WGMMA_D_16_23, ACC16(d, 0), ACC8(d, 16))
WGMMA_RS_M64K16(64, 32, 33, 34, 35, 36, 37, WGMMA_D_0_31, ACC32(d, 0))
WGMMA_RS_M64K16(80, 40, 41, 42, 43, 44, 45, WGMMA_D_0_31 ", " WGMMA_D_32_39, ACC32(d, 0), ACC8(d, 32))
WGMMA_RS_M64K16(96, 48, 49, 50, 51, 52, 53, WGMMA_D_0_31 ", " WGMMA_D_32_47, ACC32(d, 0), ACC16(d, 32))
WGMMA_RS_M64K16(112, 56, 57, 58, 59, 60, 61, WGMMA_D_0_31 ", " WGMMA_D_32_47 ", " WGMMA_D_48_55, ACC32(d, 0), ACC16(d, 32), ACC8(d, 48))
WGMMA_RS_M64K16(128, 64, 65, 66, 67, 68, 69, WGMMA_D_0_31 ", " WGMMA_D_32_63, ACC32(d, 0), ACC32(d, 32))
WGMMA_RS_M64K16(144, 72, 73, 74, 75, 76, 77, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_71, ACC32(d, 0), ACC32(d, 32), ACC8(d, 64))
WGMMA_RS_M64K16(160, 80, 81, 82, 83, 84, 85, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_79, ACC32(d, 0), ACC32(d, 32), ACC16(d, 64))
WGMMA_RS_M64K16(176, 88, 89, 90, 91, 92, 93, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_79 ", " WGMMA_D_80_87, ACC32(d, 0), ACC32(d, 32), ACC16(d, 64), ACC8(d, 80))
#undef WGMMA_RS_M64K16
// clang-format on

// --- Composites: one of the above, by N ----------------------------------------------------------

template <int N>
__device__ inline void wgmma_rs_m64k16(float (&d)[N / 2], const uint32_t* a, uint64_t b_desc,
                                       bool accumulate) {
  static_assert(N == 8 || (N >= 16 && N <= 176 && N % 16 == 0),
                "the N that rungs use are written out");
  // clang-format off
  if constexpr (N == 8) wgmma_rs_m64n8k16(d, a, b_desc, accumulate);
  if constexpr (N == 16) wgmma_rs_m64n16k16(d, a, b_desc, accumulate);
  if constexpr (N == 32) wgmma_rs_m64n32k16(d, a, b_desc, accumulate);
  if constexpr (N == 48) wgmma_rs_m64n48k16(d, a, b_desc, accumulate);
  if constexpr (N == 64) wgmma_rs_m64n64k16(d, a, b_desc, accumulate);
  if constexpr (N == 80) wgmma_rs_m64n80k16(d, a, b_desc, accumulate);
  if constexpr (N == 96) wgmma_rs_m64n96k16(d, a, b_desc, accumulate);
  if constexpr (N == 112) wgmma_rs_m64n112k16(d, a, b_desc, accumulate);
  if constexpr (N == 128) wgmma_rs_m64n128k16(d, a, b_desc, accumulate);
  if constexpr (N == 144) wgmma_rs_m64n144k16(d, a, b_desc, accumulate);
  if constexpr (N == 160) wgmma_rs_m64n160k16(d, a, b_desc, accumulate);
  if constexpr (N == 176) wgmma_rs_m64n176k16(d, a, b_desc, accumulate);
  // clang-format on
}

}  // namespace ptx
