// The number formats of cvt and of the tensor cores: bf16, f16, tf32, e4m3 and e5m2.
// Source: PTX ISA #alternate-floating-point-data-formats,
// #data-movement-and-conversion-instructions-cvt; FP8 codes: OCP 8-bit floating point, E4M3 has no
// infinities and one NaN magnitude.
//
// A code is the number's bits in the low end of a uint32_t; PTX keeps tf32 in a .b32, 13 bits
// higher. All functions are free of tables and, but for encode(), of branches, so that loops over
// the 32 lanes of a row vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace machine {

// cvt's .rn, .rz, .rm, .rp and .rna
enum class Rounding : uint8_t { NEAREST, ZERO, DOWN, UP, NEAREST_AWAY };

struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity;

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  constexpr uint32_t nan() const { return sign() - 1; }  // the canonical one: all ones but the sign
  constexpr uint32_t infinity() const {                  // E4M3: the code above its largest number
    return has_infinity ? ((1u << exponent_bits) - 1) << mantissa_bits : nan();
  }
  constexpr uint32_t largest() const { return infinity() - 1; }
};

inline constexpr Format BF16{8, 7, true};
inline constexpr Format F16{5, 10, true};
inline constexpr Format TF32{8, 10, true};  // 19 bits
inline constexpr Format E4M3{4, 3, false};
inline constexpr Format E5M2{5, 2, true};

inline constexpr uint32_t F32_NAN = 0x7fffffff;  // what PTX arithmetic makes of any NaN

// The value of a code, exact. Bits above the format's are ignored. NaN becomes F32_NAN, but for the
// formats with float's exponent, which are float's upper bits and keep their payload.
template <Format F>
constexpr float decode(uint32_t code) {
  constexpr int UPPER = 31 - F.exponent_bits - F.mantissa_bits;
  if constexpr (F.exponent_bits == 8) {
    return std::bit_cast<float>(code << UPPER);
  } else {
    constexpr uint32_t SMALLEST = static_cast<uint32_t>(128 - F.bias()) << 23;  // normal, as float
    const uint32_t magnitude = code & F.nan();
    const uint32_t aligned = magnitude << (23 - F.mantissa_bits);
    const uint32_t normal = aligned + (static_cast<uint32_t>(127 - F.bias()) << 23);
    const float denormal =
        std::bit_cast<float>(aligned + SMALLEST) - std::bit_cast<float>(SMALLEST);
    const bool tiny = magnitude < 1u << F.mantissa_bits;
    uint32_t bits = tiny ? std::bit_cast<uint32_t>(denormal) : normal;
    bits |= (code & F.sign()) << UPPER;
    if (F.has_infinity) bits = magnitude == F.infinity() ? bits | 0x7f800000 : bits;
    bits = magnitude > F.largest() + F.has_infinity ? F32_NAN : bits;
    return std::bit_cast<float>(bits);
  }
}

// What cvt makes of a value. Too large a number becomes infinity where the rounding says so (NaN in
// E4M3); with `satfinite`, as any infinity, the largest finite number. `relu`: negative numbers and
// -0 become +0. NaN becomes the canonical NaN in all cases.
template <Format F>
constexpr uint32_t encode(double value, Rounding rounding = Rounding::NEAREST,
                          bool satfinite = false, bool relu = false) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const bool negative = bits >> 63;
  const int exponent_field = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t fraction = bits & ((1ull << 52) - 1);
  if (exponent_field == 0x7ff && fraction != 0) return F.nan();
  if (relu && negative) return 0;

  // value = significand * 2^(exponent - 52)
  const int exponent = exponent_field == 0 ? -1022 : exponent_field - 1023;
  const uint64_t significand = exponent_field == 0 ? fraction : fraction | 1ull << 52;
  constexpr int SMALLEST_EXPONENT = 1 - F.bias();
  const int result_exponent = exponent < SMALLEST_EXPONENT ? SMALLEST_EXPONENT : exponent;
  int dropped_bits = result_exponent - exponent + 52 - F.mantissa_bits;
  if (dropped_bits > 60) dropped_bits = 60;  // all of the significand is below half a unit
  const uint64_t rest = significand & ((1ull << dropped_bits) - 1);
  const uint64_t half = 1ull << (dropped_bits - 1);
  uint64_t kept = significand >> dropped_bits;
  if (rounding == Rounding::NEAREST) kept += rest > half || (rest == half && (kept & 1) != 0);
  if (rounding == Rounding::NEAREST_AWAY) kept += rest >= half;
  if (rounding == Rounding::DOWN) kept += rest != 0 && negative;
  if (rounding == Rounding::UP) kept += rest != 0 && !negative;
  // The hidden bit, if kept has it, counts as one exponent step.
  uint64_t code =
      kept + (static_cast<uint64_t>(result_exponent - SMALLEST_EXPONENT) << F.mantissa_bits);
  if (code > F.largest()) {
    const bool infinite = exponent_field == 0x7ff;
    const bool towards_zero = rounding == Rounding::ZERO ||
                              (rounding == Rounding::DOWN && !negative) ||
                              (rounding == Rounding::UP && negative);
    code = satfinite || (towards_zero && !infinite) ? F.largest() : F.infinity();
    if (code == F.nan()) return F.nan();
  }
  return static_cast<uint32_t>(code) | (negative ? F.sign() : 0);
}

// --- The conversions that kernels do by the million ----------------------------------------------

// cvt.rn.bf16.f32, as encode<BF16>
constexpr uint32_t bf16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (bits & 0x7fffffff) > 0x7f800000 ? BF16.nan() : rounded;
}

// cvt.rn.f16.f32, as encode<F16>
constexpr uint32_t f16_from_f32(float value) {
  constexpr uint32_t HALF = 0x3f000000;  // 0.5f: its last bit weighs as f16's smallest number
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  const float aligned = std::bit_cast<float>(magnitude) + std::bit_cast<float>(HALF);
  const uint32_t denormal = std::bit_cast<uint32_t>(aligned) - HALF;
  uint32_t code = magnitude < 113u << 23 ? denormal : normal;
  code = magnitude >= 0x477ff000 ? F16.infinity() : code;  // 65520, halfway past the largest
  code |= bits >> 16 & F16.sign();
  return magnitude > 0x7f800000 ? F16.nan() : code;
}

// --- Packing: cvt's x2 forms put their first source into the upper half --------------------------

constexpr uint32_t pack_x2(uint32_t upper, uint32_t lower) {
  return upper << 16 | lower;
}
constexpr uint32_t lower_half(uint32_t packed) {
  return packed & 0xffff;
}
constexpr uint32_t upper_half(uint32_t packed) {
  return packed >> 16;
}

}  // namespace machine
