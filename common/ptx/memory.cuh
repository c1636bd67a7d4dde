// ld, st, cvt, cvta: moving a thread's own data.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace ptx {

// cvta.to.shared.u64  addr, ptr;
//   issued by : any thread     returns: the 32-bit shared-window address that other wrappers take
//   as        : the compiler's builtin, not inline PTX: it sees through it, and folds the address
//               of a shared array and its index into one 32-bit register
//   ISA       : #data-movement-and-conversion-instructions-cvta
__device__ inline uint32_t cvta_to_shared(const void* ptr) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(ptr));
}

// mov.b64  same, ptr;
//   issued by : any thread     returns: ptr, which the compiler then keeps instead of working it out
//               anew wherever it is used
//   ISA       : #data-movement-and-conversion-instructions-mov
__device__ inline void* mov_b64(void* ptr) {
  void* same;
  asm("mov.b64 %0, %1;" : "=l"(same) : "l"(ptr));
  return same;
}

// mov.b32  same, value;
//   as above, for a number that the compiler would else work out anew
__device__ inline int mov_b32(int value) {
  int same;
  asm("mov.b32 %0, %1;" : "=r"(same) : "r"(value));
  return same;
}

// ld.global.nc.b16  value, [src];
//   issued by : any thread; src in global memory that nobody writes during the kernel
//   ISA       : #data-movement-and-conversion-instructions-ld-global-nc
__device__ inline uint16_t ld_global_nc_b16(const __nv_bfloat16* src) {
  uint16_t value;
  asm("ld.global.nc.b16 %0, [%1];" : "=h"(value) : "l"(src));
  return value;
}

// ld.global.nc.v4.b32  {x, y, z, w}, [src];
//   issued by : any thread; src as above, 16-byte aligned
//   ISA       : #data-movement-and-conversion-instructions-ld-global-nc
__device__ inline uint4 ld_global_nc_v4_b32(const __nv_bfloat16* src) {
  uint4 v;
  asm("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(src));
  return v;
}

// ld.global.nc.f32  value, [src];
//   issued by : any thread; src in global memory that nobody writes during the kernel or, if the
//               load is behind griddepcontrol.wait, from that wait on; 4-byte aligned
//   orders    : nothing; nvcc leaves it behind that wait
//   ISA       : #data-movement-and-conversion-instructions-ld-global-nc
__device__ inline float ld_global_nc_f32(const float* src) {
  float value;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(src) : "memory");
  return value;
}

// ld.global.s32  value, [src];
//   issued by : any thread; src 4-byte aligned
//   orders    : nothing (weak)
//   ISA       : #data-movement-and-conversion-instructions-ld
__device__ inline int ld_global_s32(const int* src) {
  int value;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(value) : "l"(src) : "memory");
  return value;
}

// st.global.s32  [dst], value;
//   issued by : any thread; dst 4-byte aligned     orders: nothing
//   ISA       : #data-movement-and-conversion-instructions-st
__device__ inline void st_global_s32(int* dst, int value) {
  asm volatile("st.global.s32 [%0], %1;" ::"l"(dst), "r"(value) : "memory");
}

// st.global.b16  [dst], value;
//   issued by : any thread     orders: nothing (weak)
//   ISA       : #data-movement-and-conversion-instructions-st
__device__ inline void st_global_b16(__nv_bfloat16* dst, uint16_t value) {
  asm volatile("st.global.b16 [%0], %1;" ::"l"(dst), "h"(value) : "memory");
}

// st.global.b32  [dst], value;
//   issued by : any thread; dst 4-byte aligned     orders: nothing
//   ISA       : #data-movement-and-conversion-instructions-st
__device__ inline void st_global_b32(__nv_bfloat16* dst, uint32_t value) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(dst), "r"(value) : "memory");
}

// st.global.v2.b32  [dst], {x, y};
//   issued by : any thread; dst 8-byte aligned     orders: nothing
//   ISA       : #data-movement-and-conversion-instructions-st
__device__ inline void st_global_v2_b32(__nv_bfloat16* dst, uint32_t x, uint32_t y) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(dst), "r"(x), "r"(y) : "memory");
}

// st.global.v4.f32  [dst], {x, y, z, w};
//   issued by : any thread; dst 16-byte aligned     orders: nothing
//   ISA       : #data-movement-and-conversion-instructions-st
__device__ inline void st_global_v4_f32(float4* dst, float x, float y, float z, float w) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(dst), "f"(x), "f"(y), "f"(z), "f"(w)
               : "memory");
}

// ld.global.v4.f32  {x, y, z, w}, [src];
//   issued by : any thread; src 16-byte aligned     orders: nothing
//   ISA       : #data-movement-and-conversion-instructions-ld
__device__ inline float4 ld_global_v4_f32(const float4* src) {
  float4 v;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(src)
               : "memory");
  return v;
}

// ld.shared.v4.f32  {x, y, z, w}, [src];
//   issued by : any thread; src in shared memory, 16-byte aligned
//   ISA       : #data-movement-and-conversion-instructions-ld
__device__ inline float4 ld_shared_v4_f32(const float* src) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(cvta_to_shared(src))
               : "memory");
  return v;
}

// ld.shared.v4.b32  {x, y, z, w}, [src];
//   issued by : any thread; src in shared memory, 16-byte aligned
//   ISA       : #data-movement-and-conversion-instructions-ld
__device__ inline uint4 ld_shared_v4_b32(const void* src) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(cvta_to_shared(src))
               : "memory");
  return v;
}

// ld.shared.b16  value, [src];
//   issued by : any thread; src in shared memory
//   ISA       : #data-movement-and-conversion-instructions-ld
__device__ inline uint16_t ld_shared_b16(const void* src) {
  uint16_t value;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(value) : "r"(cvta_to_shared(src)) : "memory");
  return value;
}

// ld.shared.b32  value, [src];
//   issued by : any thread; src in shared memory, 4-byte aligned
//   ISA       : #data-movement-and-conversion-instructions-ld
__device__ inline uint32_t ld_shared_b32(const void* src) {
  uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(cvta_to_shared(src)) : "memory");
  return value;
}

// ld.shared.f32  value, [src];
//   issued by : any thread; src in shared memory
//   ISA       : #data-movement-and-conversion-instructions-ld
__device__ inline float ld_shared_f32(const float* src) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(cvta_to_shared(src)) : "memory");
  return value;
}

// ld.shared.v2.f32  {x, y}, [src];
//   issued by : any thread; src in shared memory, 8-byte aligned
//   ISA       : #data-movement-and-conversion-instructions-ld
__device__ inline float2 ld_shared_v2_f32(const void* src) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(v.x), "=f"(v.y)
               : "r"(cvta_to_shared(src))
               : "memory");
  return v;
}

// st.shared.f32  [dst], value;
//   issued by : any thread     orders: nothing; bar.sync makes it visible to the CTA
//   ISA       : #data-movement-and-conversion-instructions-st
__device__ inline void st_shared_f32(float* dst, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(cvta_to_shared(dst)), "f"(value) : "memory");
}

// st.shared.b16  [dst], value;
//   issued by : any thread     orders: nothing
//   ISA       : #data-movement-and-conversion-instructions-st
__device__ inline void st_shared_b16(void* dst, uint16_t value) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(cvta_to_shared(dst)), "h"(value) : "memory");
}

// st.shared.v2.f32  [dst], {x, y};
//   issued by : any thread; dst 8-byte aligned     orders: nothing
//   ISA       : #data-movement-and-conversion-instructions-st
__device__ inline void st_shared_v2_f32(void* dst, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(cvta_to_shared(dst)), "f"(x), "f"(y)
               : "memory");
}

// st.shared.v4.b32  [dst], {x, y, z, w};
//   issued by : any thread; dst 16-byte aligned     orders: nothing
//   ISA       : #data-movement-and-conversion-instructions-st
__device__ inline void st_shared_v4_b32(void* dst, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(cvta_to_shared(dst)), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

// st.shared.v4.f32  [dst], {x, y, z, w};
//   issued by : any thread; dst 16-byte aligned     orders: nothing
//   ISA       : #data-movement-and-conversion-instructions-st
__device__ inline void st_shared_v4_f32(float4* dst, float4 v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(cvta_to_shared(dst)), "f"(v.x),
               "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}

// cvt.f32.bf16  wide, value;
//   issued by : any thread     returns: the same number, exactly
//   ISA       : #data-movement-and-conversion-instructions-cvt
__device__ inline float cvt_f32_bf16(uint16_t value) {
  float wide;
  asm("cvt.f32.bf16 %0, %1;" : "=f"(wide) : "h"(value));
  return wide;
}

// cvt.rn.bf16.f32  narrow, value;
//   issued by : any thread     returns: value rounded to nearest even
//   ISA       : #data-movement-and-conversion-instructions-cvt
__device__ inline uint16_t cvt_rn_bf16_f32(float value) {
  uint16_t narrow;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow) : "f"(value));
  return narrow;
}

// cvt.rn.bf16x2.f32  packed, hi, lo;
//   issued by : any thread     returns: both rounded to nearest even; lo, in the lower half, comes
//               first in memory. PTX names the upper half first.
//   ISA       : #data-movement-and-conversion-instructions-cvt
__device__ inline uint32_t cvt_rn_bf16x2_f32(float hi, float lo) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

// cvt.rn.f16x2.f32  packed, hi, lo;
//   issued by : any thread     returns: the same in fp16
//   ISA       : #data-movement-and-conversion-instructions-cvt
__device__ inline uint32_t cvt_rn_f16x2_f32(float hi, float lo) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

// --- Composites (more than one PTX instruction) --------------------------------------------------

// Stores the first `count` of four neighbouring bf16, packed in two registers; dst 8-byte aligned.
// count may be below 0 or above 4.
__device__ inline void st_global_bf16x4(__nv_bfloat16* dst, uint32_t x, uint32_t y, int count) {
  if (count >= 4) {
    st_global_v2_b32(dst, x, y);
  } else {
    if (count >= 2) st_global_b32(dst, x);
    if (count == 1) st_global_b16(dst, static_cast<uint16_t>(x));
    if (count == 3) st_global_b16(dst + 2, static_cast<uint16_t>(y));
  }
}

}  // namespace ptx
