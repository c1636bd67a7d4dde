// Arithmetic on two bf16 at a time.
#pragma once

#include <cstdint>

namespace ptx {

// sub.rn.bf16x2  d, a, b;
//   issued by : any thread     returns: a - b in either half, rounded to nearest even
//   ISA       : #half-precision-floating-point-instructions-sub
__device__ inline uint32_t sub_rn_bf16x2(uint32_t a, uint32_t b) {
  uint32_t d;
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

}  // namespace ptx
