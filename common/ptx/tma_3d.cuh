// cp.async.bulk.tensor of three dimensions: a matrix among many, or rows that end where they shall.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/ptx/memory.cuh"

namespace ptx {

// cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
//     [dst], [map, {col, row, outer}], [bar];
//   issued by : one thread; as the one of two dimensions (common/ptx/tma.cuh): col, times an
//               element's bytes, is a multiple of 16
//   orders    : nothing by itself: complete_tx on bar counts the bytes of the whole box
//   ISA       : #data-movement-and-conversion-instructions-cp-async-bulk-tensor
__device__ inline void cp_async_bulk_tensor_3d_g2s(void* dst, const CUtensorMap* map, int col,
                                                   int row, int outer, uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(cvta_to_shared(dst)),
      "l"(map), "r"(col), "r"(row), "r"(outer), "r"(cvta_to_shared(bar))
      : "memory");
}

// cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group  [map, {col, row, outer}], [src];
//   issued by : one thread; as the one of two dimensions (common/ptx/tma_store.cuh): no coordinate
//               may be negative, and col, times an element's bytes, is a multiple of 16
//   orders    : nothing; ends when the issuing thread has waited for its bulk group
//   ISA       : #data-movement-and-conversion-instructions-cp-async-bulk-tensor
__device__ inline void cp_async_bulk_tensor_3d_s2g(const CUtensorMap* map, int col, int row,
                                                   int outer, const void* src) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
          map),
      "r"(col), "r"(row), "r"(outer), "r"(cvta_to_shared(src))
      : "memory");
}

}  // namespace ptx
