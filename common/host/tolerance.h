// When a result is right. Plain arithmetic, shared by the CPU check and the GPU check.
#pragma once

#include <limits>

namespace ladder {

// The largest |d - r| allowed. r: the exact sum of products; s: the sum of |a·b| over k.
// 2^-bits |r| is one rounding to an output with so many bits of significand (bf16: 8, fp16: 11);
// 2^-20 s bounds what fp32 accumulation in any order can lose.
constexpr double tolerance(double r, double s, int significand_bits) {
  return (r < 0 ? -r : r) / (1 << significand_bits) + s / 1048576;
}

constexpr double distance(double d, double r) {
  return d > r ? d - r : r - d;
}

// d: the element under test. Written so that NaN fails.
constexpr bool within_tolerance(double d, double r, double s, int significand_bits) {
  return distance(d, r) <= tolerance(r, s, significand_bits);
}

// |d - r| as a share of what is allowed, for reports: infinity for NaN.
constexpr double error_of_bound(double d, double r, double s, int significand_bits) {
  if (d == r) return 0;
  const double share = distance(d, r) / tolerance(r, s, significand_bits);
  return share >= 0 ? share : std::numeric_limits<double>::infinity();
}

}  // namespace ladder
