// shfl, vote, %lanemask_eq, elect and setmaxnreg: lanes that trade values, or differ; warps of one
// CTA with different roles.
#pragma once

#include <cstdint>

namespace ptx {

// shfl.sync.bfly.b32  got, value, LANE_XOR, 31, 0xffffffff;
//   issued by : all 32 lanes of a warp     returns: the value of lane (own lane ^ LANE_XOR)
//   ISA       : #data-movement-and-conversion-instructions-shfl-sync
template <int LANE_XOR>
__device__ inline uint32_t shfl_sync_bfly_b32(uint32_t value) {
  uint32_t got;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
               : "=r"(got)
               : "r"(value), "n"(LANE_XOR)
               : "memory");
  return got;
}

// vote.sync.any.pred  any, mine, 0xffffffff;
//   issued by : all 32 lanes of a warp     returns: whether `mine` is true in any of them
//   ISA       : #parallel-synchronization-and-communication-instructions-vote-sync
__device__ inline bool vote_sync_any(bool mine) {
  uint32_t any;
  asm volatile(
      "{ .reg .pred p, q;  setp.ne.u32 p, %1, 0;\n"
      "  vote.sync.any.pred q, p, 0xffffffff;\n"
      "  selp.u32 %0, 1, 0, q; }"
      : "=r"(any)
      : "r"(static_cast<uint32_t>(mine))
      : "memory");
  return any;
}

// mov.u32  mask, %lanemask_eq;
//   issued by : any thread     returns: 1 << own lane
//   ISA       : #special-registers-lanemask-eq
__device__ inline uint32_t mov_lanemask_eq() {
  uint32_t mask;
  asm("mov.u32 %0, %%lanemask_eq;" : "=r"(mask));
  return mask;
}

// elect.sync  _|chosen, 0xffffffff;
//   issued by : all 32 lanes of a warp     returns: true in exactly one of them
//   ISA       : #parallel-synchronization-and-communication-instructions-elect-sync
__device__ inline bool elect_sync() {
  uint32_t chosen;
  asm volatile(
      "{ .reg .pred p;\n"
      "  elect.sync _|p, 0xffffffff;\n"
      "  selp.u32 %0, 1, 0, p; }"
      : "=r"(chosen)
      :
      : "memory");
  return chosen;
}

// setmaxnreg.dec.sync.aligned.u32  REGISTERS;
//   issued by : all warps of a warpgroup, once; gives registers back (24..256, a multiple of 8)
//   needs     : __launch_bounds__(threads, CTAs of an SM), or ptxas ignores it (C7508)
//   ISA       : #miscellaneous-instructions-setmaxnreg
template <int REGISTERS>
__device__ inline void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS) : "memory");
}

// setmaxnreg.inc.sync.aligned.u32  REGISTERS;
//   issued by : all warps of a warpgroup, once; waits until the CTA has that many registers free
//   ISA       : #miscellaneous-instructions-setmaxnreg
template <int REGISTERS>
__device__ inline void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS) : "memory");
}

}  // namespace ptx
