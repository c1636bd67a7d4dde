#include "common/host/tensor_map.h"

#include <cstdio>
#include <string>

#include "common/host/device.h"
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

// Rows of the box in shared memory are as wide as the swizzle's, or have none; a box of one row has
// nothing to swizzle.
CUtensorMapSwizzle swizzle_of(int row_bytes, int rows) {
  if (rows == 1 && row_bytes % 16 == 0) return CU_TENSOR_MAP_SWIZZLE_NONE;
  switch (row_bytes) {
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 96:
    case 16:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
    default:
      throw CudaError(
          "A row of a box has " + std::to_string(row_bytes) +
          " bytes: tensor_map_2d makes boxes with rows of 128, 96, 64, 32 or 16, and boxes "
          "of one longer row; the nearest that works is 128" +
          (row_bytes % 128 == 0
               ? ", in " + std::to_string(row_bytes / 128) + " copies side by side."
               : "."));
  }
}

// `outer_ld`: of a map of three dimensions.
CUtensorMap encode_tiled(int rank, const char* type_name, CUtensorMapDataType type,
                         int element_bytes, const void* base, int outer, int rows, int cols,
                         long long outer_ld, long long ld, int box_rows, int box_cols,
                         int other_rows = MANY_ROWS) {
  static const Encode encode = find_encode();
  const CUtensorMapSwizzle swizzle = swizzle_of(box_cols * element_bytes, box_rows);

  // Dimension 0 is the innermost; strides are of the outer dimensions only, in bytes.
  const cuuint64_t dims[3] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows),
                              static_cast<cuuint64_t>(outer)};
  const auto bytes = static_cast<cuuint64_t>(element_bytes);
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(ld) * bytes,
                                 static_cast<cuuint64_t>(outer_ld) * bytes};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(box_cols), static_cast<cuuint32_t>(box_rows),
                             1};
  const cuuint32_t element_strides[3] = {1, 1, 1};

  const int promoted_bytes =
      l2_promotion_bytes(ld * element_bytes, box_rows, box_cols * element_bytes, other_rows,
                         query_device().dram_bytes_per_second);
  const CUtensorMapL2promotion promotion = promoted_bytes == 256
                                               ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B
                                               : CU_TENSOR_MAP_L2_PROMOTION_L2_128B;

  CUtensorMap map;
  const auto encode_map = [&] {
    return encode(&map, type, static_cast<cuuint32_t>(rank), const_cast<void*>(base), dims, strides,
                  box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CUresult status = encode_map();
  if (status == CUDA_ERROR_INVALID_CONTEXT) {  // someone took the context off this thread
    check_cuda(cudaSetDevice(query_device().ordinal), "cudaSetDevice");
    status = encode_map();
  }
  if (status == CUDA_SUCCESS) return map;

  const std::string dim = rank == 3 ? ", " + std::to_string(outer) : "";
  const std::string stride = rank == 3 ? ", " + std::to_string(outer_ld * element_bytes) : "";
  const char* const one = rank == 3 ? ", 1" : "";
  const bool swizzled = swizzle != CU_TENSOR_MAP_SWIZZLE_NONE;
  const std::string width = swizzled ? std::to_string(box_cols * element_bytes) + "B" : "none";
  char message[512];
  std::snprintf(message, sizeof message,
                "cuTensorMapEncodeTiled failed with CUresult %d: %s, rank %d, base %p, dims {%d, "
                "%d%s}, strides {%lld%s} bytes, box {%d, %d%s}, element strides {1, 1%s}, "
                "interleave none, swizzle %s, L2 promotion %dB, out of bounds zeros.",
                static_cast<int>(status), type_name, rank, base, cols, rows, dim.c_str(),
                ld * element_bytes, stride.c_str(), box_cols, box_rows, one, one, width.c_str(),
                promoted_bytes);
  throw CudaError(message);
}

}  // namespace

CUtensorMap tensor_map_2d(const char* type_name, CUtensorMapDataType type, int element_bytes,
                          const void* base, int rows, int cols, long long ld, int box_rows,
                          int box_cols, int other_rows) {
  return encode_tiled(2, type_name, type, element_bytes, base, 1, rows, cols, 0, ld, box_rows,
                      box_cols, other_rows);
}

CUtensorMap tensor_map_3d(const char* type_name, CUtensorMapDataType type, int element_bytes,
                          const void* base, int outer, int rows, int cols, long long outer_ld,
                          long long ld, int box_rows, int box_cols) {
  return encode_tiled(3, type_name, type, element_bytes, base, outer, rows, cols, outer_ld, ld,
                      box_rows, box_cols);
}

}  // namespace ladder
