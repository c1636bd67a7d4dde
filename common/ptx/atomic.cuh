// Words in global memory by which CTAs tell each other what they have done.
#pragma once

#include <cstdint>

namespace ptx {

// ld.acquire.gpu.global.u32  value, [src];
//   issued by : any thread     returns: the word
//   orders    : what the threads that released this value did before, before what follows
//   ISA       : #data-movement-and-conversion-instructions-ld
__device__ inline uint32_t ld_acquire_gpu_u32(const uint32_t* src) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(src) : "memory");
  return value;
}

// atom.add.acq_rel.gpu.global.u32  before, [dst], count;
//   issued by : any thread     returns: the word as it was before count was added
//   orders    : release and acquire: what this thread did, or learned by a barrier, before; and what
//               those who added before released, before what follows
//   ISA       : #parallel-synchronization-and-communication-instructions-atom
__device__ inline uint32_t atom_add_acq_rel_gpu_u32(uint32_t* dst, uint32_t count) {
  uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(dst), "r"(count)
               : "memory");
  return before;
}

// st.relaxed.gpu.global.u32  [dst], value;
//   issued by : any thread     orders: nothing
//   ISA       : #data-movement-and-conversion-instructions-st
__device__ inline void st_relaxed_gpu_u32(uint32_t* dst, uint32_t value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(dst), "r"(value) : "memory");
}

}  // namespace ptx
