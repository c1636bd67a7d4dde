// cp.async.bulk: the copy engine moves bytes that lie in a row, one thread asks.
#pragma once

#include <cstdint>

#include "common/ptx/memory.cuh"

namespace ptx {

// cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes  [dst], [src], bytes, [bar];
//   issued by : one thread; dst in its own CTA; dst, src and bytes multiples of 16
//   orders    : nothing by itself: complete_tx on bar, in the async proxy, counts the bytes
//   ISA       : #data-movement-and-conversion-instructions-cp-async-bulk
__device__ inline void cp_async_bulk_g2s(void* dst, const void* src, uint32_t bytes,
                                         uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(cvta_to_shared(dst)),
      "l"(src), "r"(bytes), "r"(cvta_to_shared(bar))
      : "memory");
}

}  // namespace ptx
