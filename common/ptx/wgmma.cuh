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
//   orders    : all but the latest N groups before what follows: their accumulators may be read,
//               their shared-memory operands overwritten
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

__device__ inline void wgmma_m64n112k16(float (&d)[56], uint64_t a_desc, uint64_t b_desc,
                                        bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %58, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n112k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_47 ", " WGMMA_D_48_55
      "},\n"
      "  %56, %57, p, 1, 1, 0, 0; }"
      : ACC32(d, 0), ACC16(d, 32), ACC8(d, 48)
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

__device__ inline void wgmma_m64n208k16(float (&d)[104], uint64_t a_desc, uint64_t b_desc,
                                        bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %106, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n208k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_103
      "},\n"
      "  %104, %105, p, 1, 1, 0, 0; }"
      : ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC8(d, 96)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

__device__ inline void wgmma_m64n224k16(float (&d)[112], uint64_t a_desc, uint64_t b_desc,
                                        bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %114, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n224k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_111
      "},\n"
      "  %112, %113, p, 1, 1, 0, 0; }"
      : ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC16(d, 96)
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

// --- Composites: one of the above, by N ----------------------------------------------------------

template <int N>
__device__ inline void wgmma_m64k16(float (&d)[N / 2], uint64_t a_desc, uint64_t b_desc,
                                    bool accumulate) {
  static_assert(
      N == 32 || N == 64 || N == 96 || N == 112 || N == 128 || N == 144 || N == 160 || N == 176 ||
          N == 192 || N == 208 || N == 224 || N == 256,
      "common/ptx/wgmma.cuh has N = 32, 64, 96, 112, 128, 144, 160, 176, 192, 208, 224 and 256");
  if constexpr (N == 32) wgmma_m64n32k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 64) wgmma_m64n64k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 96) wgmma_m64n96k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 112) wgmma_m64n112k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 128) wgmma_m64n128k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 144) wgmma_m64n144k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 160) wgmma_m64n160k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 176) wgmma_m64n176k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 192) wgmma_m64n192k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 208) wgmma_m64n208k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 224) wgmma_m64n224k16(d, a_desc, b_desc, accumulate);
  if constexpr (N == 256) wgmma_m64n256k16(d, a_desc, b_desc, accumulate);
}

}  // namespace ptx
