// ex2, rcp, max: what activations need beside multiplication and addition.
#pragma once

namespace ptx {

// ex2.approx.ftz.f32  d, a;
//   issued by : any thread; 16 lanes a clock and SM     returns: 2^a, off by 2^-22 of it at most; a
//               result below 2^-126 is 0
//   ISA       : #floating-point-instructions-ex2
__device__ inline float ex2_approx_ftz_f32(float a) {
  float d;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
  return d;
}

// rcp.approx.ftz.f32  d, a;
//   issued by : any thread; 16 lanes a clock and SM     returns: 1 / a, off by one last place
//   ISA       : #floating-point-instructions-rcp
__device__ inline float rcp_approx_ftz_f32(float a) {
  float d;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
  return d;
}

// max.NaN.f32  d, a, b;
//   issued by : any thread     returns: the larger; NaN if one of them is
//   ISA       : #floating-point-instructions-max
__device__ inline float max_NaN_f32(float a, float b) {
  float d;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}

}  // namespace ptx
