// A CTA makes rows of its boxes zeros that TMA will not bring.
// Introduced by stages/13_layouts.cu
#pragma once

#include "common/ptx/barrier.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/memory.cuh"

namespace block {

// Of `count` boxes that lie one behind the other, of rows of ROW_BYTES: the rows from `first` on.
// By all of a CTA's threads; others may use them behind a barrier.
template <int ROW_BYTES, int THREADS, class Box>
__device__ void clear_rows(Box* boxes, int count, int first) {
  const int chunks = (int{sizeof(Box)} - first * ROW_BYTES) / 16;  // of a box, of 16 bytes
  for (int i = threadIdx.x; i < chunks * count; i += THREADS) {
    unsigned char* rows = boxes[i / chunks].bytes + first * ROW_BYTES;
    ptx::st_shared_v4_b32(rows + i % chunks * 16, uint4{});
  }
  ptx::bar_warp_sync();                 // lanes may have parted in the loop
  ptx::fence_proxy_async_shared_cta();  // before wgmma reads them
}

}  // namespace block
