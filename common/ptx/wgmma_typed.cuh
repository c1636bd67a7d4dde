// wgmma of other types than bf16, and of operands that are not K-major: 64 x 256, 192, 128 or 64
// sums, and of 16-bit types 64 x 208, 160, 144, 112 or 96.
#pragma once

#include <cstdint>

#include "common/ptx/wgmma_regs.cuh"

namespace ptx {

// wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
//     d, a_desc, b_desc, scale-d, imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b;
//   issued by : all threads of the warpgroup
//   computes  : D[64][256] = A[64][16] · B[256][16]^T + (accumulate ? D : 0); imm-trans 1: this
//               operand is MN-major in shared memory
//   orders    : nothing until wait_group; reads shared memory through the async proxy
//   ISA       : #asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async
template <int TRANS_A, int TRANS_B>
__device__ inline void wgmma_m64n256k16_f32_bf16_bf16(float (&d)[128], uint64_t a_desc,
                                                      uint64_t b_desc, bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %130, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_127
      "},\n"
      "  %128, %129, p, 1, 1, %131, %132; }"
      : ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC32(d, 96)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate)), "n"(TRANS_A), "n"(TRANS_B)
      : "memory");
}

// wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16
//     d, a_desc, b_desc, scale-d, imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b;
//   The same in fp16, accumulated in fp32.
template <int TRANS_A, int TRANS_B>
__device__ inline void wgmma_m64n256k16_f32_f16_f16(float (&d)[128], uint64_t a_desc,
                                                    uint64_t b_desc, bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %130, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_127
      "},\n"
      "  %128, %129, p, 1, 1, %131, %132; }"
      : ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC32(d, 96)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate)), "n"(TRANS_A), "n"(TRANS_B)
      : "memory");
}

// wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32
//     d, a_desc, b_desc, scale-d, imm-scale-a, imm-scale-b;
//   computes  : D[64][256] = A[64][8] · B[256][8]^T + (accumulate ? D : 0), both K-major: there is no
//               imm-trans. Elements are fp32 whose lower 13 bits are not looked at.
__device__ inline void wgmma_m64n256k8_f32_tf32_tf32(float (&d)[128], uint64_t a_desc,
                                                     uint64_t b_desc, bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %130, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_127
      "},\n"
      "  %128, %129, p, 1, 1; }"
      : ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC32(d, 96)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

// wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16, .f32.f16.f16 and .m64n192k8.f32.tf32.tf32:
//   The same for 192 columns.
template <int TRANS_A, int TRANS_B>
__device__ inline void wgmma_m64n192k16_f32_bf16_bf16(float (&d)[96], uint64_t a_desc,
                                                      uint64_t b_desc, bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %98, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 "}, %96, %97, p, 1, 1, %99, %100; }"
      : ACC32(d, 0), ACC32(d, 32), ACC32(d, 64)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate)), "n"(TRANS_A), "n"(TRANS_B)
      : "memory");
}

template <int TRANS_A, int TRANS_B>
__device__ inline void wgmma_m64n192k16_f32_f16_f16(float (&d)[96], uint64_t a_desc,
                                                    uint64_t b_desc, bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %98, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 "}, %96, %97, p, 1, 1, %99, %100; }"
      : ACC32(d, 0), ACC32(d, 32), ACC32(d, 64)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate)), "n"(TRANS_A), "n"(TRANS_B)
      : "memory");
}

__device__ inline void wgmma_m64n192k8_f32_tf32_tf32(float (&d)[96], uint64_t a_desc,
                                                     uint64_t b_desc, bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %98, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n192k8.f32.tf32.tf32\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 "}, %96, %97, p, 1, 1; }"
      : ACC32(d, 0), ACC32(d, 32), ACC32(d, 64)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

// wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16, .f32.f16.f16 and .m64n128k8.f32.tf32.tf32:
//   The same for 128 columns.
template <int TRANS_A, int TRANS_B>
__device__ inline void wgmma_m64n128k16_f32_bf16_bf16(float (&d)[64], uint64_t a_desc,
                                                      uint64_t b_desc, bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %66, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 "}, %64, %65, p, 1, 1, %67, %68; }"
      : ACC32(d, 0), ACC32(d, 32)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate)), "n"(TRANS_A), "n"(TRANS_B)
      : "memory");
}

template <int TRANS_A, int TRANS_B>
__device__ inline void wgmma_m64n128k16_f32_f16_f16(float (&d)[64], uint64_t a_desc,
                                                    uint64_t b_desc, bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %66, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 "}, %64, %65, p, 1, 1, %67, %68; }"
      : ACC32(d, 0), ACC32(d, 32)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate)), "n"(TRANS_A), "n"(TRANS_B)
      : "memory");
}

__device__ inline void wgmma_m64n128k8_f32_tf32_tf32(float (&d)[64], uint64_t a_desc,
                                                     uint64_t b_desc, bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %66, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32\n"
      "  {" WGMMA_D_0_31 ", " WGMMA_D_32_63 "}, %64, %65, p, 1, 1; }"
      : ACC32(d, 0), ACC32(d, 32)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

// wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16, .f32.f16.f16 and .m64n64k8.f32.tf32.tf32:
//   The same for 64 columns.
template <int TRANS_A, int TRANS_B>
__device__ inline void wgmma_m64n64k16_f32_bf16_bf16(float (&d)[32], uint64_t a_desc,
                                                     uint64_t b_desc, bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %34, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16\n"
      "  {" WGMMA_D_0_31 "}, %32, %33, p, 1, 1, %35, %36; }"
      : ACC32(d, 0)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate)), "n"(TRANS_A), "n"(TRANS_B)
      : "memory");
}

template <int TRANS_A, int TRANS_B>
__device__ inline void wgmma_m64n64k16_f32_f16_f16(float (&d)[32], uint64_t a_desc, uint64_t b_desc,
                                                   bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %34, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16\n"
      "  {" WGMMA_D_0_31 "}, %32, %33, p, 1, 1, %35, %36; }"
      : ACC32(d, 0)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate)), "n"(TRANS_A), "n"(TRANS_B)
      : "memory");
}

__device__ inline void wgmma_m64n64k8_f32_tf32_tf32(float (&d)[32], uint64_t a_desc,
                                                    uint64_t b_desc, bool accumulate) {
  asm volatile(
      "{ .reg .pred p;  setp.ne.b32 p, %34, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32\n"
      "  {" WGMMA_D_0_31 "}, %32, %33, p, 1, 1; }"
      : ACC32(d, 0)
      : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate))
      : "memory");
}

// Other N of the 16-bit types, as above: N, then the numbers of the operands behind the N / 2
// registers, then these registers for either side.
// clang-format off
#define WGMMA_TYPED(N, TYPE, A_DESC, B_DESC, SCALE_D, IMM_A, IMM_B, LIST, ...)                     \
  template <int TRANS_A, int TRANS_B>                                                              \
  __device__ inline void wgmma_m64n##N##k16_f32_##TYPE##_##TYPE(                                   \
      float (&d)[N / 2], uint64_t a_desc, uint64_t b_desc, bool accumulate) {                      \
    asm volatile(                                                                                  \
        "{ .reg .pred p;  setp.ne.b32 p, %" #SCALE_D ", 0;\n"                                      \
        "  wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE "\n"                   \
        "  {" LIST "}, %" #A_DESC ", %" #B_DESC ", p, 1, 1, %" #IMM_A ", %" #IMM_B "; }"           \
        : __VA_ARGS__                                                                              \
        : "l"(a_desc), "l"(b_desc), "r"(static_cast<int>(accumulate)), "n"(TRANS_A), "n"(TRANS_B)  \
        : "memory");                                                                               \
  }
#define WGMMA_BF16_AND_F16(N, ...) WGMMA_TYPED(N, bf16, __VA_ARGS__) WGMMA_TYPED(N, f16, __VA_ARGS__)
WGMMA_BF16_AND_F16(96, 48, 49, 50, 51, 52, WGMMA_D_0_31 ", " WGMMA_D_32_47, ACC32(d, 0), ACC16(d, 32))
WGMMA_BF16_AND_F16(112, 56, 57, 58, 59, 60, WGMMA_D_0_31 ", " WGMMA_D_32_47 ", " WGMMA_D_48_55, ACC32(d, 0), ACC16(d, 32), ACC8(d, 48))
WGMMA_BF16_AND_F16(144, 72, 73, 74, 75, 76, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_71, ACC32(d, 0), ACC32(d, 32), ACC8(d, 64))
WGMMA_BF16_AND_F16(160, 80, 81, 82, 83, 84, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_79, ACC32(d, 0), ACC32(d, 32), ACC16(d, 64))
WGMMA_BF16_AND_F16(208, 104, 105, 106, 107, 108, WGMMA_D_0_31 ", " WGMMA_D_32_63 ", " WGMMA_D_64_95 ", " WGMMA_D_96_103, ACC32(d, 0), ACC32(d, 32), ACC32(d, 64), ACC8(d, 96))
#undef WGMMA_BF16_AND_F16
#undef WGMMA_TYPED
// clang-format on

// --- Composites: one of the above, by N ----------------------------------------------------------

template <int N, int TRANS_A, int TRANS_B>
__device__ inline void wgmma_m64k16_f32_bf16_bf16(float (&d)[N / 2], uint64_t a_desc,
                                                  uint64_t b_desc, bool accumulate) {
  if constexpr (N == 64) {
    wgmma_m64n64k16_f32_bf16_bf16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 96) {
    wgmma_m64n96k16_f32_bf16_bf16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 112) {
    wgmma_m64n112k16_f32_bf16_bf16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 144) {
    wgmma_m64n144k16_f32_bf16_bf16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 160) {
    wgmma_m64n160k16_f32_bf16_bf16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 208) {
    wgmma_m64n208k16_f32_bf16_bf16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 128) {
    wgmma_m64n128k16_f32_bf16_bf16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 192) {
    wgmma_m64n192k16_f32_bf16_bf16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else {
    wgmma_m64n256k16_f32_bf16_bf16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  }
}

template <int N, int TRANS_A, int TRANS_B>
__device__ inline void wgmma_m64k16_f32_f16_f16(float (&d)[N / 2], uint64_t a_desc, uint64_t b_desc,
                                                bool accumulate) {
  if constexpr (N == 64) {
    wgmma_m64n64k16_f32_f16_f16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 96) {
    wgmma_m64n96k16_f32_f16_f16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 112) {
    wgmma_m64n112k16_f32_f16_f16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 144) {
    wgmma_m64n144k16_f32_f16_f16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 160) {
    wgmma_m64n160k16_f32_f16_f16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 208) {
    wgmma_m64n208k16_f32_f16_f16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 128) {
    wgmma_m64n128k16_f32_f16_f16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 192) {
    wgmma_m64n192k16_f32_f16_f16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  } else {
    wgmma_m64n256k16_f32_f16_f16<TRANS_A, TRANS_B>(d, a_desc, b_desc, accumulate);
  }
}

template <int N>
__device__ inline void wgmma_m64k8_f32_tf32_tf32(float (&d)[N / 2], uint64_t a_desc,
                                                 uint64_t b_desc, bool accumulate) {
  if constexpr (N == 64) {
    wgmma_m64n64k8_f32_tf32_tf32(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 128) {
    wgmma_m64n128k8_f32_tf32_tf32(d, a_desc, b_desc, accumulate);
  } else if constexpr (N == 192) {
    wgmma_m64n192k8_f32_tf32_tf32(d, a_desc, b_desc, accumulate);
  } else {
    wgmma_m64n256k8_f32_tf32_tf32(d, a_desc, b_desc, accumulate);
  }
}

}  // namespace ptx
