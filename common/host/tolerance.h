// When a result is right. Plain arithmetic, shared by the CPU check and the GPU check.
#pragma once

#include <limits>

namespace ladder {

// The largest |d - r| allowed. r: the exact sum of products; s: the sum of |a·b| over k.
// 2^-bits |r| is one rounding to an output with so many bits of significand (bf16: 8, fp16: 11);
// 2^-20 s bounds what fp32 accumulation in any order can lose beneath that of bf16. Finer outputs show
// more of it: tensor cores cut a sum off, they do not round it, once for every 8 (tf32) or 16 of K,
// each time by less than 2^-23 of the sum so far. At K = 16384 in tf32, 2048 times, and with the
// largest of 10^8 such sums in the middle of its way, that comes to 3 * 2^-20 s: 2^-17 s.
constexpr double tolerance(double r, double s, int significand_bits) {
  const double accumulated = s / (significand_bits <= 8 ? 1 << 20 : 1 << 17);
  return (r < 0 ? -r : r) / (1 << significand_bits) + accumulated;
}

// The same with a scale for every 128 of K: `s` of such a block is this times |scale_a · scale_b| times
// its own sum of |a·b|.
constexpr double E4M3_LOSS = 1.0 / (1 << 13);
constexpr double block_share_of_s(bool e4m3) {
  return e4m3 ? 1 + (1 << 20) * E4M3_LOSS : 1;
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
