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

// sub.rn.bf16x2  d, a, b;
//   issued by : any thread     returns: a - b in either half, rounded to nearest even
//   ISA       : #half-precision-floating-point-instructions-sub
__device__ inline uint32_t sub_rn_bf16x2(uint32_t a, uint32_t b) {
  uint32_t d;
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

}  // namespace ptx
