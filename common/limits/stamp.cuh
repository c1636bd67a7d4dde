// The clocks as a kernel reads them.
#pragma once

#include "common/limits/limit.h"

namespace limits {

// stamps [ctas][2]: which = 0 for the beginning, 1 for the end. One thread of a CTA.
__device__ inline void stamp(Stamp* stamps, int which) {
  Stamp now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now.clock)::"memory");
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now.ns)::"memory");
  stamps[2 * blockIdx.x + which] = now;
}

}  // namespace limits
