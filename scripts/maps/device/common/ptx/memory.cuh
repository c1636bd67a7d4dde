// Stands in for the wrappers where common/block is compiled for the host: conversions keep both
// values as they are, so that what a store is given says which accumulators it came from.
#pragma once

#include <cstdint>

#define __device__
struct __nv_bfloat16 {
  uint16_t bits;
};

struct Dim3 {
  int x;
};
inline Dim3 threadIdx;

namespace ptx {

inline uint32_t cvt_rn_bf16x2_f32(float hi, float lo) {
  return static_cast<uint32_t>(hi) << 16 | static_cast<uint32_t>(lo);
}

}  // namespace ptx
