// fma: one multiply-add on the CUDA cores.
#pragma once

#include <cstdint>

namespace ptx {

// fma.rn.f32  d, a, b, c;
//   issued by : any thread     returns: a * b + c, rounded once
//   ISA       : #floating-point-instructions-fma
__device__ inline float fma_rn_f32(float a, float b, float c) {
  float d;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
}

// fma.rn.bf16x2  d, a, b, c;
//   issued by : any thread     returns: a * b + c in either half, rounded once; subnormal numbers
//               are taken and given as they are
//   ISA       : #half-precision-floating-point-instructions-fma
__device__ inline uint32_t fma_rn_bf16x2(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

}  // namespace ptx
