// wgmma: the tensor cores as a warpgroup (four warps, 128 threads) sees them: asynchronous, with
// their operands in shared memory.
#pragma once

#include <cstdint>

#include "common/ptx/wgmma_regs.cuh"

namespace ptx {

// wgmma.fence.sync.aligned;
//   issued by : all threads of the warpgroup, before the first wgmma and whenever other code has
//               touched the accumulators
//   orders    : register accesses before it against wgmma.mma_async after it
//   ISA       : #asynchronous-warpgroup-level-matrix-instructions-wgmma-fence
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// wgmma.commit_group.sync.aligned;
//   issued by : all threads of the warpgroup; closes the group of the wgmma issued since the last
//   ISA       : #asynchronous-warpgroup-level-matrix-instructions-wgmma-commit-group
__device__ inline void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// wgmma.wait_group.sync.aligned  N;
//   issued by : all threads of the warpgroup
//   orders    : all but the latest N groups that this warp has issued before what follows: their
//               accumulators may be read. Their operands in shared memory may be overwritten when
//               all four warps have waited
//   ISA       : #asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group
template <int N>
__device__ inline void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// wgmma.mma_async.sync.aligned.m64nNk16.f32.bf16.bf16
//     d, a_desc, b_desc, scale-d, imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b;
//   issued by : all threads of the warpgroup
//   computes  : D[64][N] = A[64][16] · B[N][16]^T + (accumulate ? D : 0), both operands K-major
//   orders    : nothing until wait_group; reads shared memory through the async proxy
//   ISA       : #asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async
__device__ inline void wgmma_m64n64k16(float (&d)[32], uint64_t a_desc, uint64_t b_desc,
                                       bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %34, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 "}, %32, %33, p, 1, 1, 0, 0; }"
      : ACC32(d, 0)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

__device__ inline void wgmma_m64n32k16(float (&d)[16], uint64_t a_desc, uint64_t b_desc,
                                       bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %18, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_15 "}, %16, %17, p, 1, 1, 0, 0; }"
      : ACC16(d, 0)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

__device__ inline void wgmma_m64n96k16(float (&d)[48], uint64_t a_desc, uint64_t b_desc,
                                       bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %50, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_47 "}, %48, %49, p, 1, 1, 0, 0; }"
      : ACC32(d, 0), ACC16(d, 32)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

__device__ inline void wgmma_m64n128k16(float (&d)[64], uint64_t a_desc, uint64_t b_desc,
                                        bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %66, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 "}, %64, %65, p, 1, 1, 0, 0; }"
      : ACC32(d, 0), ACC32(d, 32)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

__device__ inline void wgmma_m64n144k16(float (&d)[72], uint64_t a_desc, uint64_t b_desc,
                                        bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %74, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n144k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_71 "}, %72, %73, p, 1, 1, 0, 0; }"
      : ACC32(d, 0), ACC32(d, 32), ACC8(d, 64)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

__device__ inline void wgmma_m64n160k16(float (&d)[80], uint64_t a_desc, uint64_t b_desc,
                                        bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %82, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_79 "}, %80, %81, p, 1, 1, 0, 0; }"
      : ACC32(d, 0), ACC32(d, 32), ACC16(d, 64)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

__device__ inline void wgmma_m64n176k16(float (&d)[88], uint64_t a_desc, uint64_t b_desc,
                                        bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %90, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n176k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_79 ", " WGMMA_D_80_87
      "}, %88, %89, p, 1, 1, 0, 0; }"
      : ACC32(d, 0), ACC32(d, 32), ACC16(d, 64), ACC8(d, 80)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

__device__ inline void wgmma_m64n192k16(float (&d)[96], uint64_t a_desc, uint64_t b_desc,
                                        bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %98, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 "}, %96, %97, p, 1, 1, 0, 0; }"
      : ACC32(d, 0), ACC32(d, 32), ACC32(d, 64)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

__device__ inline void wgmma_m64n256k16(float (&d)[128], uint64_t a_desc, uint64_t b_desc,
                                        bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %130, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_127
      "},\n"
      "  %128, %129, p, 1, 1, 0, 0; }"
      : ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC32(d, 96)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

// Every other N, as above: N, then the numbers of the operands behind the N / 2 registers, then these
// registers for either side.
// clang-format off
#define WGMMA_M64K16(N, A_DESC, B_DESC, SCALE_D, LIST, ...)                                      \
  __device__ inline void wgmma_m64n##N##k16(float (&d)[N / 2], uint64_t a_desc, uint64_t b_desc, \
                                            bool accumulate) {                                   \
    asm volatile(                                                                                \
        "{ .reg .pred p;  setp.ne.b32 p, %" #SCALE_D ", 0;\n"                                    \
        "  wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16\n"                           \
        "  {" LIST "}, %" #A_DESC ", %" #B_DESC ", p, 1, 1, 0, 0; }"                             \
        : __VA_ARGS__                                                                            \
        : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))                            \
        : "memory");                                                                             \
  }
WGMMA_M64K16(8, 4, 5, 6, WGMMA_D_0_3, ACC4(d, 0))
WGMMA_M64K16(16, 8, 9, 10, WGMMA_D_0_7, ACC8(d, 0))
WGMMA_M64K16(24, 12, 13, 14, WGMMA_D_0_7 ", " WGMMA_D_8_11, ACC8(d, 0), ACC4(d, 8))
WGMMA_M64K16(40, 20, 21, 22, WGMMA_D_0_15 ", " WGMMA_D_16_19, ACC16(d, 0), ACC4(d, 16))
WGMMA_M64K16(48, 24, 25, 26, WGMMA_D_0_15 ", " WGMMA_D_16_23, ACC16(d, 0), ACC8(d, 16))
WGMMA_M64K16(56, 28, 29, 30, WGMMA_D_0_15 ", " WGMMA_D_16_23 ", " WGMMA_D_24_27, ACC16(d, 0), ACC8(d, 16), ACC4(d, 24))
WGMMA_M64K16(72, 36, 37, 38, WGMMA_D_0_31 ", " WGMMA_D_32_35, ACC32(d, 0), ACC4(d, 32))
WGMMA_M64K16(80, 40, 41, 42, WGMMA_D_0_31 ", " WGMMA_D_32_39, ACC32(d, 0), ACC8(d, 32))
WGMMA_M64K16(88, 44, 45, 46, WGMMA_D_0_31 ", " WGMMA_D_32_39 ", " WGMMA_D_40_43, ACC32(d, 0), ACC8(d, 32), ACC4(d, 40))
WGMMA_M64K16(104, 52, 53, 54, WGMMA_D_0_31 ", " WGMMA_D_32_47 ", " WGMMA_D_48_51, ACC32(d, 0), ACC16(d, 32), ACC4(d, 48))
WGMMA_M64K16(112, 56, 57, 58, WGMMA_D_0_31 ", " WGMMA_D_32_47 ", " WGMMA_D_48_55, ACC32(d, 0), ACC16(d, 32), ACC8(d, 48))
WGMMA_M64K16(120, 60, 61, 62, WGMMA_D_0_31 ", " WGMMA_D_32_47 ", " WGMMA_D_48_55 ", " WGMMA_D_56_59, ACC32(d, 0), ACC16(d, 32), ACC8(d, 48), ACC4(d, 56))
WGMMA_M64K16(136, 68, 69, 70, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_67, ACC32(d, 0), ACC32(d, 32), ACC4(d, 64))
WGMMA_M64K16(152, 76, 77, 78, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_71 ", " WGMMA_D_72_75, ACC32(d, 0), ACC32(d, 32), ACC8(d, 64), ACC4(d, 72))
WGMMA_M64K16(168, 84, 85, 86, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_79 ", " WGMMA_D_80_83, ACC32(d, 0), ACC32(d, 32), ACC16(d, 64), ACC4(d, 80))
WGMMA_M64K16(184, 92, 93, 94, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_79 ", " WGMMA_D_80_87 ", " WGMMA_D_88_91, ACC32(d, 0), ACC32(d, 32), ACC16(d, 64), ACC8(d, 80), ACC4(d, 88))
WGMMA_M64K16(200, 100, 101, 102, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_99, ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC4(d, 96))
WGMMA_M64K16(208, 104, 105, 106, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_103, ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC8(d, 96))
WGMMA_M64K16(216, 108, 109, 110, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_103 ", " WGMMA_D_104_107, ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC8(d, 96), ACC4(d, 104))
WGMMA_M64K16(224, 112, 113, 114, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_111, ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC16(d, 96))
WGMMA_M64K16(232, 116, 117, 118, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_111 ", " WGMMA_D_112_115, ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC16(d, 96), ACC4(d, 112))
WGMMA_M64K16(240, 120, 121, 122, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_111 ", " WGMMA_D_112_119, ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC16(d, 96), ACC8(d, 112))
WGMMA_M64K16(248, 124, 125, 126, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_111 ", " WGMMA_D_112_119 ", " WGMMA_D_120_123, ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC16(d, 96), ACC8(d, 112), ACC4(d, 120))
#undef WGMMA_M64K16
// clang-format on

// --- Composites: one of the above, by N ----------------------------------------------------------

template <int N>
__device__ inline void wgmma_m64k16(float (&d)[N / 2], uint64_t a_desc, uint64_t b_desc,
                                    bool accumulate) {
  static_assert(N % 8 == 0 && N >= 8 && N <= 256, "N is a multiple of 8, at most 256");
  // clang-format off
  if constexpr (N == 8) wgmma_m64n8k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 16) wgmma_m64n16k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 24) wgmma_m64n24k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 32) wgmma_m64n32k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 40) wgmma_m64n40k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 48) wgmma_m64n48k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 56) wgmma_m64n56k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 64) wgmma_m64n64k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 72) wgmma_m64n72k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 80) wgmma_m64n80k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 88) wgmma_m64n88k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 96) wgmma_m64n96k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 104) wgmma_m64n104k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 112) wgmma_m64n112k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 120) wgmma_m64n120k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 128) wgmma_m64n128k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 136) wgmma_m64n136k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 144) wgmma_m64n144k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 152) wgmma_m64n152k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 160) wgmma_m64n160k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 168) wgmma_m64n168k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 176) wgmma_m64n176k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 184) wgmma_m64n184k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 192) wgmma_m64n192k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 200) wgmma_m64n200k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 208) wgmma_m64n208k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 216) wgmma_m64n216k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 224) wgmma_m64n224k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 232) wgmma_m64n232k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 240) wgmma_m64n240k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 248) wgmma_m64n248k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 256) wgmma_m64n256k16(d, a_desc, b_desc, accumulate);
  // clang-format on
}

}  // namespace ptx
