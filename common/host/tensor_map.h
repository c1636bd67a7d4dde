// TMA tensor maps for the matrices of a GEMM.
#pragma once

#include <cuda.h>

#include "common/host/gemm.h"

namespace ladder {

// A map of the row-major matrix base[rows][cols], rows ld elements apart, whose box is
// box_rows x box_cols elements, swizzled by the width of the box (64 columns: 128 bytes, 32: 64, 16:
// 32): the inner dimension of the map is cols, so everything from column `cols` on, padding or not, arrives in shared memory as
// zero. Throws CudaError with every argument if cuTensorMapEncodeTiled refuses.
// Limits: base 16-byte aligned, ld a multiple of 8, box_rows <= 256.
// Source: CUDA Driver API, "Tensor Map Object Management".
CUtensorMap tensor_map_2d(const bf16* base, int rows, int cols, long long ld, int box_rows,
                          int box_cols);

}  // namespace ladder
