// Element types of matrices: what the host has to know of each. A type is added by a
// specialization, here or beside the kind of problem that is the only one to use it.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <library_types.h>

#include <bit>
#include <cstdint>

#include "common/host/data.h"

namespace ladder {

using fp16 = __half;

// In memory an fp32. What its lower 13 bits say is rounded off on its way to the tensor cores.
struct tf32 {
  float value;
};

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

template <>
struct Element<fp16> {
  static constexpr const char* NAME = "fp16";
  static constexpr int SIGNIFICAND_BITS = 11;
  static constexpr cudaDataType CUDA_TYPE = CUDA_R_16F;
  static constexpr CUtensorMapDataType TENSOR_MAP_TYPE = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  static LADDER_HOST_DEVICE float to_float(fp16 value) { return __half2float(value); }
  static LADDER_HOST_DEVICE fp16 from_float(float value) { return __float2half_rn(value); }
  static fp16 from_double(double value) { return __double2half(value); }
};

template <>
struct Element<float> {
  static constexpr const char* NAME = "fp32";
  static constexpr int SIGNIFICAND_BITS = 24;
  static constexpr cudaDataType CUDA_TYPE = CUDA_R_32F;
  static constexpr CUtensorMapDataType TENSOR_MAP_TYPE = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  static LADDER_HOST_DEVICE float to_float(float value) { return value; }
  static LADDER_HOST_DEVICE float from_float(float value) { return value; }
  static float from_double(double value) { return static_cast<float>(value); }
};

// Only of operands. The tensor map's type makes TMA round to the nearest tf32, to even between two,
// as an H200 did (tests/golden: tma/load.2d.tf32.values); wgmma alone would cut the bits off.
template <>
struct Element<tf32> {
  static constexpr const char* NAME = "tf32";
  static constexpr cudaDataType CUDA_TYPE = CUDA_R_32F;
  static constexpr CUtensorMapDataType TENSOR_MAP_TYPE = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  static LADDER_HOST_DEVICE float to_float(tf32 element) {
    const auto bits = std::bit_cast<uint32_t>(element.value);
    if ((bits & 0x7f800000) == 0x7f800000) return element.value;  // infinite, or no number
    return std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000);
  }
  // Test data are numbers that tf32 has, so that no library's way of rounding matters.
  static LADDER_HOST_DEVICE tf32 from_float(float value) { return {to_float({value})}; }
};

}  // namespace ladder
