// TMA tensor maps for the matrices of a GEMM.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <limits>

#include "common/host/element.h"

namespace ladder {

constexpr int MANY_ROWS = std::numeric_limits<int>::max();

// How much L2 fetches where it misses what a map asks of it: 256 bytes, since the next K step asks for
// what is beside a line. But only the line, 128 bytes,
// - where rows of row_bytes bytes do not all begin on lines: what is beside one would belong to the
//   next row, or was there before;
// - where a box has at most 32 bytes of a row, so that a line is asked for four times or more;
// - where a box has whole rows: it is one piece of memory and asks for all its lines by itself;
// - where the other operand has at most 64 rows, so that DRAM is the limit, boxes have at most 128
//   rows, so that the next K step asks soon, and DRAM is an H200's: then each K step had better ask
//   for its own lines. An H100 is slower so (docs/tensor_maps.md). Which it is, this tells by DRAM's
//   bytes a second: 4.9 and 3.4 of 10^12.
constexpr int l2_promotion_bytes(long long row_bytes, int box_rows, int box_row_bytes,
                                 int other_rows, double dram_bytes_per_second) {
  const bool lines_only = other_rows <= 64 && box_rows <= 128 && dram_bytes_per_second > 4e12;
  const bool one_piece = row_bytes == box_row_bytes;
  return row_bytes % 128 == 0 && box_row_bytes > 32 && !one_piece && !lines_only ? 256 : 128;
}

// A map of the row-major matrix base[rows][cols], rows ld elements apart, whose box is
// box_rows x box_cols elements, swizzled by the width of the box (128, 64 or 32 bytes; not if it is 96
// or 16, nor a single row of more than 128). The inner dimension of the map is cols, so everything from
// column `cols` on, padding or not, arrives in shared memory as zero. other_rows: of the operand
// that this one is multiplied with. Throws CudaError with every argument if cuTensorMapEncodeTiled
// refuses.
// Limits: base 16-byte aligned, ld a multiple of 16 bytes, box_rows <= 256.
// Source: CUDA Driver API, "Tensor Map Object Management".
CUtensorMap tensor_map_2d(const char* type_name, CUtensorMapDataType type, int element_bytes,
                          const void* base, int rows, int cols, long long ld, int box_rows,
                          int box_cols, int other_rows);

template <class T>
CUtensorMap tensor_map_2d(const T* base, int rows, int cols, long long ld, int box_rows,
                          int box_cols, int other_rows = MANY_ROWS) {
  return tensor_map_2d(Element<T>::NAME, Element<T>::TENSOR_MAP_TYPE, sizeof(T), base, rows, cols,
                       ld, box_rows, box_cols, other_rows);
}

// The same of base[outer][rows][cols], matrices outer_ld elements apart, whose box lies in one of
// them. outer_ld may be anything that ld may be: matrices may share rows.
CUtensorMap tensor_map_3d(const char* type_name, CUtensorMapDataType type, int element_bytes,
                          const void* base, int outer, int rows, int cols, long long outer_ld,
                          long long ld, int box_rows, int box_cols);

template <class T>
CUtensorMap tensor_map_3d(const T* base, int outer, int rows, int cols, long long outer_ld,
                          long long ld, int box_rows, int box_cols) {
  return tensor_map_3d(Element<T>::NAME, Element<T>::TENSOR_MAP_TYPE, sizeof(T), base, outer, rows,
                       cols, outer_ld, ld, box_rows, box_cols);
}

// A map through which TMA stores any number of rows of D [rows][cols], as many as are to be written
// and no others, from a box of box_rows rows: its matrices are all runs of box_rows rows of D that
// there are, the first one that before D. The first `count` rows of a box go to D's rows from `row`
// on at {col, box_rows - count, row + count}: rows of the box from `count` on are outside of that
// matrix.
template <class T>
CUtensorMap tensor_map_of_rows(const T* base, int rows, int cols, long long ld, int box_rows,
                               int box_cols) {
  const auto first = reinterpret_cast<uintptr_t>(base) - sizeof(T) * ld * box_rows;  // not touched
  return tensor_map_3d(reinterpret_cast<const T*>(first), rows + 1, box_rows, cols, ld, ld,
                       box_rows, box_cols);
}

}  // namespace ladder
