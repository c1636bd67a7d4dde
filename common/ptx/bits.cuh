// Bytes of registers.
#pragma once

#include <cstdint>

namespace ptx {

// prmt.b32  d, a, b, selector;
//   issued by : any thread     returns: four bytes, the lowest first, each that of a (0 to 3) or b
//               (4 to 7) which a nibble of the selector numbers
//   ISA       : #data-movement-and-conversion-instructions-prmt
template <int SELECTOR>
__device__ inline uint32_t prmt_b32(uint32_t a, uint32_t b) {
  uint32_t d;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "n"(SELECTOR));
  return d;
}

}  // namespace ptx
