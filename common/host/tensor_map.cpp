#include "common/host/tensor_map.h"

#include <cstdio>
#include <string>

#include "common/host/error.h"

namespace ladder {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// Through the runtime, so that nothing links libcuda and binaries start without a driver.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check_cuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                              cudaEnableDefault, &found),
             "looking up cuTensorMapEncodeTiled");
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    throw CudaError("This driver has no cuTensorMapEncodeTiled; it must support CUDA 12.0.");
  }
  return reinterpret_cast<Encode>(function);
}

// Rows of the box in shared memory are as wide as the swizzle's.
CUtensorMapSwizzle swizzle_of(int row_bytes) {
  switch (row_bytes) {
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    default:
      throw CudaError("A box is " + std::to_string(row_bytes / 2) +
                      " columns wide: tensor_map_2d makes boxes of 64, 32 or 16.");
  }
}

}  // namespace

CUtensorMap tensor_map_2d(const bf16* base, int rows, int cols, long long ld, int box_rows,
                          int box_cols) {
  static const Encode encode = find_encode();
  const CUtensorMapSwizzle swizzle = swizzle_of(box_cols * static_cast<int>(sizeof(bf16)));

  // Dimension 0 is the innermost; strides are of the outer dimensions only, in bytes.
  const cuuint64_t dims[2] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(ld) * sizeof(bf16)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(box_cols), static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t element_strides[2] = {1, 1};

  CUtensorMap map;
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<bf16*>(base), dims, strides, box,
             element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status == CUDA_SUCCESS) return map;

  char message[512];
  std::snprintf(message, sizeof message,
                "cuTensorMapEncodeTiled failed with CUresult %d: bf16, rank 2, base %p, dims {%d, "
                "%d}, strides {%lld} bytes, box {%d, %d}, element strides {1, 1}, interleave none, "
                "swizzle %dB, L2 promotion 256B, out of bounds zeros.",
                static_cast<int>(status), static_cast<const void*>(base), cols, rows,
                ld * static_cast<long long>(sizeof(bf16)), box_cols, box_rows,
                box_cols * static_cast<int>(sizeof(bf16)));
  throw CudaError(message);
}

}  // namespace ladder
