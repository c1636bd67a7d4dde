// bar: the barriers of a CTA and of a warp.
#pragma once

#include <cstdint>

namespace ptx {

// bar.sync  0;
//   issued by : every thread of the CTA
//   orders    : all shared and global accesses before it, among the CTA's threads
//   ISA       : #parallel-synchronization-and-communication-instructions-bar
__device__ inline void bar_sync() {
  asm volatile("bar.sync 0;" ::: "memory");
}

// barrier.sync  id, threads;
//   issued by : all 32 lanes of as many warps as `threads` has; id: 1 .. 15, 0 is the CTA's
//   orders    : as bar.sync, among those warps
//   ISA       : #parallel-synchronization-and-communication-instructions-bar
__device__ inline void barrier_sync(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// barrier.arrive  id, threads;
//   issued by : as above; does not wait for the others
//   orders    : what these threads did before it, for those that wait
//   ISA       : #parallel-synchronization-and-communication-instructions-bar
__device__ inline void barrier_arrive(int id, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// barrier.red.or.pred  any, id, threads, mine;
//   issued by : as above     returns: whether `mine` is true in any of the threads
//   orders    : as above
//   ISA       : #parallel-synchronization-and-communication-instructions-bar
__device__ inline bool barrier_red_or(int id, int threads, bool mine) {
  uint32_t any;
  asm volatile(
      "{ .reg .pred p, q;  setp.ne.u32 p, %3, 0;\n"
      "  barrier.red.or.pred q, %1, %2, p;\n"
      "  selp.u32 %0, 1, 0, q; }"
      : "=r"(any)
      : "r"(id), "r"(threads), "r"(static_cast<uint32_t>(mine))
      : "memory");
  return any;
}

// bar.warp.sync  0xffffffff;
//   issued by : all 32 lanes of a warp
//   orders    : the lanes' accesses before it, so that one lane may speak for all after it
//   ISA       : #parallel-synchronization-and-communication-instructions-bar-warp-sync
__device__ inline void bar_warp_sync() {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

}  // namespace ptx
