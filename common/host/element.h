// Element types of matrices: what the host has to know of each. A type is added by a
// specialization, here or beside the kind of problem that is the only one to use it.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <library_types.h>

#include "common/host/data.h"

namespace ladder {

template <class T>
struct Element;

template <>
struct Element<__nv_bfloat16> {
  static constexpr const char* NAME = "bf16";
  static constexpr int SIGNIFICAND_BITS = 8;  // the leading one too
  static constexpr cudaDataType CUDA_TYPE = CUDA_R_16BF;
  static constexpr CUtensorMapDataType TENSOR_MAP_TYPE = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  static LADDER_HOST_DEVICE float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
  static LADDER_HOST_DEVICE __nv_bfloat16 from_float(float value) {
    return __float2bfloat16_rn(value);
  }
  static __nv_bfloat16 from_double(double value) { return __double2bfloat16(value); }
};

}  // namespace ladder
