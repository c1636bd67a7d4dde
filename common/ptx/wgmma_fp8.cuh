// wgmma of operands of 8 bits: e4m3, accumulated in fp32, and s8, accumulated in s32. Both K-major.
#pragma once

#include <cstdint>

#include "common/ptx/wgmma_regs.cuh"

namespace ptx {

// wgmma.mma_async.sync.aligned.m64nNk32.f32.e4m3.e4m3
//     d, a_desc, b_desc, scale-d, imm-scale-a, imm-scale-b;
//   issued by : all threads of the warpgroup
//   computes  : D[64][N] = A[64][32] · B[N][32]^T + (accumulate ? D : 0). Of a sum the tensor cores
//               keep about 14 bits (docs/14_block_scaled.md)
//   orders    : nothing until wait_group; reads shared memory through the async proxy
//   ISA       : #asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async
// wgmma.mma_async.sync.aligned.m64nNk32.s32.s8.s8
//     d, a_desc, b_desc, scale-d;
//   computes  : the same in integers, exactly; sums beyond 32 bits wrap
// clang-format off
#define WGMMA_M64K32(NAME, TYPES, RESULT, IMM_SCALES, N, A_DESC, B_DESC, SCALE_D, LIST, ...)      \
  __device__ inline void wgmma_m64n##N##k32_##NAME(RESULT (&d)[N / 2], uint64_t a_desc,           \
                                                   uint64_t b_desc, bool accumulate) {            \
    asm volatile(                                                                                 \
        "{ .reg .pred p;  setp.ne.b32 p, %" #SCALE_D ", 0;\n"                                     \
        "  wgmma.mma_async.sync.aligned.m64n" #N "k32." TYPES "\n"                                \
        "  {" LIST "}, %" #A_DESC ", %" #B_DESC ", p" IMM_SCALES "; }"                            \
        : __VA_ARGS__                                                                             \
        : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))                             \
        : "memory");                                                                              \
  }
#define WGMMA_M64K32_F32(...) \
  WGMMA_M64K32(f32_e4m3_e4m3, "f32.e4m3.e4m3", float, ", 1, 1", __VA_ARGS__)
#define WGMMA_M64K32_S32(...) WGMMA_M64K32(s32_s8_s8, "s32.s8.s8", int, "", __VA_ARGS__)
// For each N, the numbers of the operands behind the N / 2 registers, then these registers for
// either side: ACC8 to ACC32 of fp32, INT8 to INT32 of s32.
#define WGMMA_M64K32_OF_EACH_N(F, SUM) \
  F(16, 8, 9, 10, WGMMA_D_0_7, SUM##8(d, 0)) \
  F(32, 16, 17, 18, WGMMA_D_0_15, SUM##16(d, 0)) \
  F(64, 32, 33, 34, WGMMA_D_0_31, SUM##32(d, 0)) \
  F(80, 40, 41, 42, WGMMA_D_0_31 ", " WGMMA_D_32_39, SUM##32(d, 0), SUM##8(d, 32)) \
  F(96, 48, 49, 50, WGMMA_D_0_31 ", " WGMMA_D_32_47, SUM##32(d, 0), SUM##16(d, 32)) \
  F(112, 56, 57, 58, WGMMA_D_0_31 ", " WGMMA_D_32_47 ", " WGMMA_D_48_55, SUM##32(d, 0), SUM##16(d, 32), SUM##8(d, 48)) \
  F(128, 64, 65, 66, WGMMA_D_0_31 ", " WGMMA_D_32_63, SUM##32(d, 0), SUM##32(d, 32)) \
  F(144, 72, 73, 74, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_71, SUM##32(d, 0), SUM##32(d, 32), SUM##8(d, 64)) \
  F(160, 80, 81, 82, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_79, SUM##32(d, 0), SUM##32(d, 32), SUM##16(d, 64)) \
  F(192, 96, 97, 98, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95, SUM##32(d, 0), SUM##32(d, 32), SUM##32(d, 64))
WGMMA_M64K32_OF_EACH_N(WGMMA_M64K32_F32, ACC)
WGMMA_M64K32_OF_EACH_N(WGMMA_M64K32_S32, INT)
#undef WGMMA_M64K32_OF_EACH_N
#undef WGMMA_M64K32_S32
#undef WGMMA_M64K32_F32
#undef WGMMA_M64K32
// clang-format on

// --- Composites: one of the above, by N ----------------------------------------------------------

// For which N the list above has a row. For another one a composite would multiply nothing.
constexpr bool has_wgmma_m64k32(int n) {
  return n == 16 || n == 32 || n == 64 || n == 192 || (n >= 80 && n <= 160 && n % 16 == 0);
}

template <int N>
__device__ inline void wgmma_m64nNk32_f32_e4m3_e4m3(float (&d)[N / 2], uint64_t a_desc,
                                                    uint64_t b_desc, bool accumulate) {
  static_assert(has_wgmma_m64k32(N), "the list above has no row for this N: add one");
  // clang-format off
  if constexpr (N == 16) wgmma_m64n16k32_f32_e4m3_e4m3(d, a_desc, b_desc, accumulate);
  if constexpr (N == 32) wgmma_m64n32k32_f32_e4m3_e4m3(d, a_desc, b_desc, accumulate);
  if constexpr (N == 64) wgmma_m64n64k32_f32_e4m3_e4m3(d, a_desc, b_desc, accumulate);
  if constexpr (N == 80) wgmma_m64n80k32_f32_e4m3_e4m3(d, a_desc, b_desc, accumulate);
  if constexpr (N == 96) wgmma_m64n96k32_f32_e4m3_e4m3(d, a_desc, b_desc, accumulate);
  if constexpr (N == 112) wgmma_m64n112k32_f32_e4m3_e4m3(d, a_desc, b_desc, accumulate);
  if constexpr (N == 128) wgmma_m64n128k32_f32_e4m3_e4m3(d, a_desc, b_desc, accumulate);
  if constexpr (N == 144) wgmma_m64n144k32_f32_e4m3_e4m3(d, a_desc, b_desc, accumulate);
  if constexpr (N == 160) wgmma_m64n160k32_f32_e4m3_e4m3(d, a_desc, b_desc, accumulate);
  if constexpr (N == 192) wgmma_m64n192k32_f32_e4m3_e4m3(d, a_desc, b_desc, accumulate);
  // clang-format on
}

template <int N>
__device__ inline void wgmma_m64nNk32_s32_s8_s8(int (&d)[N / 2], uint64_t a_desc, uint64_t b_desc,
                                                bool accumulate) {
  static_assert(has_wgmma_m64k32(N), "the list above has no row for this N: add one");
  // clang-format off
  if constexpr (N == 16) wgmma_m64n16k32_s32_s8_s8(d, a_desc, b_desc, accumulate);
  if constexpr (N == 32) wgmma_m64n32k32_s32_s8_s8(d, a_desc, b_desc, accumulate);
  if constexpr (N == 64) wgmma_m64n64k32_s32_s8_s8(d, a_desc, b_desc, accumulate);
  if constexpr (N == 80) wgmma_m64n80k32_s32_s8_s8(d, a_desc, b_desc, accumulate);
  if constexpr (N == 96) wgmma_m64n96k32_s32_s8_s8(d, a_desc, b_desc, accumulate);
  if constexpr (N == 112) wgmma_m64n112k32_s32_s8_s8(d, a_desc, b_desc, accumulate);
  if constexpr (N == 128) wgmma_m64n128k32_s32_s8_s8(d, a_desc, b_desc, accumulate);
  if constexpr (N == 144) wgmma_m64n144k32_s32_s8_s8(d, a_desc, b_desc, accumulate);
  if constexpr (N == 160) wgmma_m64n160k32_s32_s8_s8(d, a_desc, b_desc, accumulate);
  if constexpr (N == 192) wgmma_m64n192k32_s32_s8_s8(d, a_desc, b_desc, accumulate);
  // clang-format on
}

}  // namespace ptx
