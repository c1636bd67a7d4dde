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

// Eight bits: sign, four of exponent (bias 7), three of significand; largest 448, no infinity, one NaN
// of either sign.
struct e4m3 {
  uint8_t bits;
};

using s8 = int8_t;

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

// Only of operands, as is s8; a kernel loads their bytes. The tensor cores multiply subnormals too.
template <>
struct Element<e4m3> {
  static constexpr const char* NAME = "e4m3";
  static constexpr cudaDataType CUDA_TYPE = CUDA_R_8F_E4M3;
  static constexpr CUtensorMapDataType TENSOR_MAP_TYPE = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  static LADDER_HOST_DEVICE float to_float(e4m3 element) {
    const uint32_t sign = (element.bits & 0x80u) << 24, magnitude = element.bits & 0x7fu;
    if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
    const float subnormal = static_cast<float>(magnitude) / 512;  // in steps of 2^-9
    const uint32_t bits =
        magnitude < 8 ? std::bit_cast<uint32_t>(subnormal) : (magnitude << 20) + (120u << 23);
    return std::bit_cast<float>(sign | bits);
  }
  // To nearest, to even between two; what is too large, and infinity, becomes 448.
  static LADDER_HOST_DEVICE e4m3 from_float(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return {0x7f};
    const uint32_t sign = bits >> 24 & 0x80u;
    if (magnitude < (121u << 23)) {  // below 2^-6: at 2^14 a float's last bit is worth 2^-9
      const float rounded = std::bit_cast<float>(magnitude) + 16384.0f;
      return {static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(rounded) & 0xfu))};
    }
    const uint32_t rounded = (magnitude + 0x7ffffu + (magnitude >> 20 & 1)) >> 20;
    const uint32_t largest = (120u << 3) + 0x7e;
    return {static_cast<uint8_t>(sign | ((rounded < largest ? rounded : largest) - (120u << 3)))};
  }
};

template <>
struct Element<s8> {
  static constexpr const char* NAME = "s8";
  static constexpr cudaDataType CUDA_TYPE = CUDA_R_8I;
  static constexpr CUtensorMapDataType TENSOR_MAP_TYPE = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  static LADDER_HOST_DEVICE float to_float(s8 value) { return static_cast<float>(value); }
  // To nearest, to even between two, within +-127; NaN becomes 0.
  static LADDER_HOST_DEVICE s8 from_float(float value) {
    if (!(value > -127.5f)) return value == value ? static_cast<s8>(-127) : static_cast<s8>(0);
    if (value >= 127.0f) return 127;
    const float rounded = (value + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23: no fraction is left
    return static_cast<s8>(rounded);
  }
};

}  // namespace ladder
