// cp.async.bulk.tensor the other way: TMA stores a box of shared memory into a matrix.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/ptx/memory.cuh"

namespace ptx {

// cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group  [map, {col, row}], [src];
//   issued by : one thread; what lies outside the map's matrix is not written. Whole chunks of 16
//               bytes are: the matrix's rows must end on one. No coordinate may be negative, and
//               col, times an element's bytes, is a multiple of 16.
//   orders    : nothing. It reads shared memory in the async proxy: threads that wrote there by
//               ordinary stores need fence.proxy.async and a barrier before it. Ends when the
//               issuing thread has waited for its bulk group.
//   ISA       : #data-movement-and-conversion-instructions-cp-async-bulk-tensor
__device__ inline void cp_async_bulk_tensor_2d_s2g(const CUtensorMap* map, int col, int row,
                                                   const void* src) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
      "r"(col), "r"(row), "r"(cvta_to_shared(src))
      : "memory");
}

// cp.async.bulk.commit_group;
//   issued by : the thread that started the bulk copies; closes the group of those since the last
//   ISA       : #data-movement-and-conversion-instructions-cp-async-bulk-commit-group
__device__ inline void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// cp.async.bulk.wait_group.read  N;
//   issued by : the thread that committed the groups; any other returns at once
//   orders    : all but its latest N groups have read their tensor maps and sources: these may be
//               overwritten, by other threads after a barrier that follows. It does not say that
//               the results are in global memory.
//   ISA       : #data-movement-and-conversion-instructions-cp-async-bulk-wait-group
template <int N>
__device__ inline void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// cp.async.bulk.wait_group  N;
//   issued by : the thread that committed the groups
//   orders    : all but its latest N groups are complete: their results are in global memory
//   ISA       : #data-movement-and-conversion-instructions-cp-async-bulk-wait-group
template <int N>
__device__ inline void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

}  // namespace ptx
