// cp.async.bulk.tensor: the tensor memory accelerator copies a box of a matrix, one thread asks.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/ptx/memory.cuh"

namespace ptx {

// prefetch.tensormap  [map];
//   issued by : one thread, early; map is a const __grid_constant__ parameter
//   ISA       : #data-movement-and-conversion-instructions-prefetch-prefetchu
__device__ inline void prefetch_tensormap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
//     [dst], [map, {col, row}], [bar];
//   issued by : one thread; dst in its own CTA, aligned as the map's swizzle asks (1024 bytes).
//               col, times an element's bytes, is a multiple of 16. col and row may be negative.
//   orders    : nothing by itself: complete_tx on bar counts the bytes of the whole box, those out
//               of bounds (zeros) too
//   ISA       : #data-movement-and-conversion-instructions-cp-async-bulk-tensor
__device__ inline void cp_async_bulk_tensor_2d_g2s(void* dst, const CUtensorMap* map, int col,
                                                   int row, uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(cvta_to_shared(dst)),
      "l"(map), "r"(col), "r"(row), "r"(cvta_to_shared(bar))
      : "memory");
}

// createpolicy.fractional.L2::evict_first.b64  policy, 1.0;
//   issued by : any thread
//   orders    : nothing: lines that are fetched with this policy leave L2 before others
//   ISA       : #data-movement-and-conversion-instructions-createpolicy
__device__ inline uint64_t createpolicy_evict_first() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
//     .L2::cache_hint  [dst], [map, {col, row}], [bar], policy;
//   issued by : one thread     orders : as without the hint
//   ISA       : #data-movement-and-conversion-instructions-cp-async-bulk-tensor
__device__ inline void cp_async_bulk_tensor_2d_g2s_hint(void* dst, const CUtensorMap* map, int col,
                                                        int row, uint64_t* bar, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(cvta_to_shared(dst)),
      "l"(map), "r"(col), "r"(row), "r"(cvta_to_shared(bar)), "l"(policy)
      : "memory");
}

}  // namespace ptx
