// tensormap and fence.proxy.tensormap: a tensor map that the kernel itself changes.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/ptx/memory.cuh"

namespace ptx {

// tensormap.replace.tile.global_address.shared::cta.b1024.b64  [map], base;
//   issued by : one thread; map in shared memory, 128-byte aligned; base as cuTensorMapEncodeTiled
//               wants it: a multiple of 16 bytes
//   orders    : nothing: an ordinary (weak) access to all 128 bytes of the map
//   ISA       : #data-movement-and-conversion-instructions-tensormap-replace
__device__ inline void tensormap_replace_global_address(CUtensorMap* map, const void* base) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(
                   cvta_to_shared(map)),
               "l"(base)
               : "memory");
}

// tensormap.replace.tile.global_dim.shared::cta.b1024.b32  [map], ORD, dim;
//   issued by : one thread, as above; ORD: which dimension, 0 the innermost; dim: its elements, not
//               one less
//   orders    : nothing
//   ISA       : #data-movement-and-conversion-instructions-tensormap-replace
template <int ORD>
__device__ inline void tensormap_replace_global_dim(CUtensorMap* map, int dim) {
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(
                   cvta_to_shared(map)),
               "n"(ORD), "r"(dim)
               : "memory");
}

// tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
//     [dst], [src], 128;
//   issued by : all 32 lanes of a warp; dst in global, src in shared memory, both 128-byte aligned.
//               bar.warp.sync comes before it, where other lanes have written src.
//   orders    : copies 128 bytes in the generic proxy, and releases what it has written to the
//               tensormap proxy: TMA may read dst behind a fence that acquires it
//   ISA       : #parallel-synchronization-and-communication-instructions-tensormap-cp-fenceproxy
__device__ inline void tensormap_cp_fenceproxy(CUtensorMap* dst, const CUtensorMap* src) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "[%0], [%1], 128;" ::"l"(dst),
      "r"(cvta_to_shared(src))
      : "memory");
}

// fence.proxy.tensormap::generic.acquire.gpu  [map], 128;
//   issued by : who then uses the map: a thread, or others behind a barrier
//   orders    : what was released of these 128 bytes before the thread's TMA instructions that read
//               the map there
//   ISA       : #parallel-synchronization-and-communication-instructions-membar-fence
__device__ inline void fence_proxy_tensormap_acquire(const CUtensorMap* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

}  // namespace ptx
