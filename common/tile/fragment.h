// Which element of a tile a lane holds in its registers.
//
// mma.sync.m16n8k16 and wgmma.m64nNk16 spread an fp32 accumulator over a warp in the same way: in
// each 16x8 block a lane holds rows lane/4 and lane/4 + 8, two neighbouring columns each, as
// registers {c0, c1} and {c2, c3}. wgmma gives warp w of its warpgroup rows 16w .. 16w+15 and lines
// up N/8 such blocks: register 4j + i belongs to block j.
// Source: PTX ISA, "Matrix fragments for mma.m16n8k16" and "Register fragments for
// wgmma.mma_async.m64nNk16"
//   https://docs.nvidia.com/cuda/parallel-thread-execution/#wgmma-64n16-d
#pragma once

namespace tile {

// Accumulator, within a 16x8 block: row of registers {0,1}, with `half` = 1 of registers {2,3}.
constexpr int acc_row(int lane, int half) {
  return lane / 4 + 8 * half;
}
// Accumulator: column of register 0 or 2; the other of the pair is the next column.
constexpr int acc_col(int lane) {
  return lane % 4 * 2;
}

// Accumulator, after the lanes 2i and 2i+1 have traded so that the even one holds four neighbouring
// columns of a 16x8 block and the odd one those of the block to its right: the first of the four,
// counted from the left block. A warp's store then covers whole 32-byte sectors.
constexpr int traded_col(int lane) {
  return lane % 2 * 8 + lane % 4 / 2 * 4;
}

// Accumulator, stored in fp32 into rows of 128 bytes, swizzled, each lane its two columns of a row in
// eight bytes: the block of eight columns, of the four in such a row, that lane `lane` stores as its
// i-th. A half of the warp, four rows, has its 128 bytes in all 32 banks then. If all took block i,
// rows 2r and 2r + 1 would have the same two chunks in the same banks, swapped.
constexpr int FP32_BLOCKS_APART = 2;
constexpr int fp32_block(int lane, int i) {
  return lane / 4 % 2 == 0 ? i : i ^ FP32_BLOCKS_APART;
}

// ldmatrix.x4: the row whose address lane `lane` supplies, and its 16-byte chunk along K, such that
// the four registers are one 16x16 A operand (a0 a1 a2 a3) of mma.m16n8k16 ...
constexpr int ldmatrix_a_row(int lane) {
  return lane % 16;
}
constexpr int ldmatrix_a_chunk(int lane) {
  return lane / 16;
}
// ... or two 8x16 B operands (b0 b1 of columns 0..7, then b0 b1 of columns 8..15).
constexpr int ldmatrix_b_row(int lane) {
  return lane % 8 + lane / 16 * 8;
}
constexpr int ldmatrix_b_chunk(int lane) {
  return lane / 8 % 2;
}

}  // namespace tile
