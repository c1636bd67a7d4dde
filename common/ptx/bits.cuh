// Arithmetic on registers that hold several numbers.
#pragma once

#include <cstdint>

namespace ptx {

// lop3.b32  d, a, b, c, table;
//   issued by : any thread     returns: for each bit that of `table` which the bits of a, b and c
//               number; of a formula it is what the formula makes of 0xf0, 0xcc and 0xaa
//   as        : written out, since of `a & 15 | c`, where both are constants, ptxas makes two
//               instructions
//   ISA       : #logic-and-shift-instructions-lop3
template <int TABLE>
__device__ inline uint32_t lop3_b32(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(a), "r"(b), "r"(c), "n"(TABLE));
  return d;
}

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
