// fp16 in and out, as a kind of problem.
#pragma once

#include <cuda_fp16.h>

#include "common/host/element.h"
#include "common/host/gemm.h"

namespace seam {
using Fp16Args = ladder::MatmulArgs<__half, __half>;
}  // namespace seam

template <>
struct ladder::Element<__half> {
  static constexpr const char* NAME = "fp16";
  static constexpr int SIGNIFICAND_BITS = 11;
  static constexpr cudaDataType CUDA_TYPE = CUDA_R_16F;
  static constexpr CUtensorMapDataType TENSOR_MAP_TYPE = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  static LADDER_HOST_DEVICE float to_float(__half value) { return __half2float(value); }
  static LADDER_HOST_DEVICE __half from_float(float value) { return __float2half_rn(value); }
  static __half from_double(double value) { return __double2half(value); }
};
