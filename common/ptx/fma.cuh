// fma: one multiply-add on the CUDA cores.
#pragma once

namespace ptx {

// fma.rn.f32  d, a, b, c;
//   issued by : any thread     returns: a * b + c, rounded once
//   ISA       : #floating-point-instructions-fma
__device__ inline float fma_rn_f32(float a, float b, float c) {
  float d;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
}

}  // namespace ptx
