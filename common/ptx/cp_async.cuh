// cp.async: copies from global to shared memory that a thread starts and does not wait for (sm_80).
#pragma once

#include <cstdint>

#include "common/ptx/memory.cuh"

namespace ptx {

// cp.async.cg.shared.global  [dst], [src], 16;
//   issued by : any thread; dst and src 16-byte aligned
//   orders    : nothing until wait_group, or an mbarrier that cp_async_mbarrier_arrive_noinc named
//   ISA       : #data-movement-and-conversion-instructions-cp-async
__device__ inline void cp_async_cg_16(void* dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(cvta_to_shared(dst)), "l"(src)
               : "memory");
}

// cp.async.cg.shared.global  [dst], [src], 16, src_bytes;
//   issued by : as above. Reads only the first src_bytes (0..16) of src and fills the rest of the
//               16 bytes with zeros.
//   orders    : as above
//   ISA       : #data-movement-and-conversion-instructions-cp-async
__device__ inline void cp_async_cg_16(void* dst, const void* src, int src_bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(cvta_to_shared(dst)), "l"(src),
               "r"(src_bytes)
               : "memory");
}

// cp.async.commit_group;
//   issued by : any thread     closes the group of the copies it has started since the last commit
//   ISA       : #data-movement-and-conversion-instructions-cp-async-commit-group
__device__ inline void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// cp.async.wait_group  N;
//   issued by : the thread that started the copies
//   orders    : all but its latest N groups before what follows in this thread; a bar.sync must
//               follow before other threads may read them
//   ISA       : #data-movement-and-conversion-instructions-cp-async-wait-group
template <int N>
__device__ inline void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// cp.async.mbarrier.arrive.noinc.shared::cta.b64  [bar];
//   issued by : the thread that started the copies; returns at once. The arrival happens when all
//               copies that this thread started before have landed. noinc: the arrival is one of
//               those that mbarrier.init counted.
//   ISA       : #parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive
__device__ inline void cp_async_mbarrier_arrive_noinc(uint64_t* bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(cvta_to_shared(bar))
               : "memory");
}

}  // namespace ptx
