// bar: the barriers of a CTA and of a warp.
#pragma once

namespace ptx {

// bar.sync  0;
//   issued by : every thread of the CTA
//   orders    : all shared and global accesses before it, among the CTA's threads
//   ISA       : #parallel-synchronization-and-communication-instructions-bar
__device__ inline void bar_sync() {
  asm volatile("bar.sync 0;" ::: "memory");
}

// bar.warp.sync  0xffffffff;
//   issued by : all 32 lanes of a warp
//   orders    : the lanes' accesses before it, so that one lane may speak for all after it
//   ISA       : #parallel-synchronization-and-communication-instructions-bar-warp-sync
__device__ inline void bar_warp_sync() {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

}  // namespace ptx
