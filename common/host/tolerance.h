// When a result is right. Plain arithmetic, shared by the CPU check and the GPU check.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/host/data.h"

namespace ladder {

// The largest |d - r| allowed. r: the exact sum of products; s: the sum of |a·b| over k.
// 2^-bits |r| is one rounding to an output with so many bits of significand (bf16: 8, fp16: 11);
// 2^-20 s bounds what fp32 accumulation in any order can lose beneath that of bf16, up to 4096 products
// (losses_of_chain). Finer outputs show more of it: tensor cores cut a sum off, they do not round it,
// once for every 8 (tf32) or 16 of K, each time by less than 2^-23 of the sum so far. At K = 16384 in
// tf32, 2048 times, and with the largest of 10^8 such sums in the middle of its way, that comes to
// 3 * 2^-20 s: 2^-17 s. Below 2^-14 fp16 is 2^-24 apart, so that one rounding is off by up to 2^-25.
constexpr double tolerance(double r, double s, int significand_bits) {
  const double accumulated = s / (significand_bits <= 8 ? 1 << 20 : 1 << 17);
  const double subnormal = significand_bits == 11 ? 0x1p-25 : 0;
  return std::max((r < 0 ? -r : r) / (1 << significand_bits), subnormal) + accumulated;
}

// How many times 2^-20 s a sum of so many products may lose that the tensor cores add to one accumulator,
// 16 at a time. What is cut off is 0.72 * 2^-24 of the sum so far, on average. The largest of 10^8 sums
// of normal products is 5.6 sqrt(products), half of that on its way, and s is 0.64 products: it loses
// 0.2 sqrt(products) * 2^-24 s. The bound is 0.25 times that root, where that is more than 2^-20.
inline double losses_of_chain(int products) {
  return std::max(1.0, std::sqrt(static_cast<double>(products)) / 64);
}

// What an e4m3 wgmma loses of a sum (docs/sums.md; found on an H200, tests/golden/sums.h).
// The 32 products and the accumulator are cut off towards 0 at 2^-13 of the power of two of the largest
// of them, and then their sum is, at 2^-13 of its own: 34 numbers, each of which loses from 0 to one such
// unit.
constexpr int E4M3_SUM_K = 32, E4M3_SUM_BITS = 13, E4M3_SUM_CUTS = 34;

// The power of two below a number's magnitude, and 0 of 0.
constexpr double power_of_two_below(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  return std::bit_cast<double>(bits & 0x7ff0000000000000ull);
}

// What a whole sum has lost, as far as one can say that does not know in which order it was added: half a
// unit of each number, towards 0, and around that a deviation of the square root of a 12th of a unit,
// independently of each other.
struct E4m3Loss {
  double mean = 0, variance = 0;

  // One wgmma that made `after` of `before`, times `scale` in the end. largest: of its products'
  // magnitudes; signs: how many products are above 0 less those below.
  constexpr void add(double scale, double largest, int signs, double before, double after) {
    const double greater = largest > magnitude(before) ? largest : magnitude(before);
    const double top = greater > magnitude(after) ? greater : magnitude(after);
    const double unit = scale * power_of_two_below(top) / (1 << E4M3_SUM_BITS);
    mean += unit / 2 * (signs + sign(before) + sign(after));
    variance += unit * unit * E4M3_SUM_CUTS / 12;
  }

  // Eight deviations: 1 of 10^15 sums of numbers whose signs are random is beyond them.
  LADDER_HOST_DEVICE double bound() const { return magnitude(mean) + 8 * std::sqrt(variance); }

 private:
  static constexpr double magnitude(double x) { return x < 0 ? -x : x; }
  static constexpr int sign(double x) { return (x > 0) - (x < 0); }
};

// `s` of tolerance() for a sum that has lost that too.
constexpr double s_with_loss(double s, double lost) {
  return s + lost * (1 << 20);
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
