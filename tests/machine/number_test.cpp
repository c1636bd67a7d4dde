// Number formats, against decodings by ldexp and roundings by search among a format's numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/machine/ops/number.h"

using namespace machine;

namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr Rounding ROUNDINGS[] = {Rounding::NEAREST, Rounding::ZERO, Rounding::DOWN, Rounding::UP,
                                  Rounding::NEAREST_AWAY};

// The value of a code by the definition of the format. NaN for NaN.
double value_of(const Format& format, uint32_t code) {
  const int mantissa = static_cast<int>(code & ((1u << format.mantissa_bits) - 1));
  const int exponent =
      static_cast<int>(code >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const bool negative = code >> (format.exponent_bits + format.mantissa_bits) & 1;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const bool top = exponent == (1 << format.exponent_bits) - 1;
  double value;
  if (top && format.has_infinity) {
    value = mantissa == 0 ? INFINITE : std::nan("");
  } else if (top && mantissa == (1 << format.mantissa_bits) - 1) {
    value = std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  } else {
    value =
        std::ldexp(mantissa + (1 << format.mantissa_bits), exponent - bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

// Codes of the finite numbers that are not negative, which ascend with their values.
std::vector<uint32_t> finite_codes(const Format& format) {
  std::vector<uint32_t> codes;
  for (uint32_t code = 0; std::isfinite(value_of(format, code)); ++code) codes.push_back(code);
  return codes;
}

bool same(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// Which of two neighbours a positive value between them rounds to. halfway: -1 below, 0, 1 above.
uint32_t rounded(uint32_t lower, uint32_t upper, int halfway, Rounding rounding, bool negative) {
  switch (rounding) {
    case Rounding::NEAREST:
      if (halfway == 0) return lower % 2 == 0 ? lower : upper;
      return halfway < 0 ? lower : upper;
    case Rounding::NEAREST_AWAY:
      return halfway < 0 ? lower : upper;
    case Rounding::ZERO:
      return lower;
    case Rounding::DOWN:
      return negative ? upper : lower;
    case Rounding::UP:
      return negative ? lower : upper;
  }
  return 0;
}

template <Format F>
void check_decoding() {
  int wrong = 0;
  for (uint32_t code = 0; code < 2 * F.sign(); ++code) {
    const double expected = value_of(F, code);
    const float value = decode<F>(code);
    bool right = std::isnan(expected) ? std::isnan(value) : same(value, expected);
    if (std::isnan(expected) && F.exponent_bits < 8) {
      right = std::bit_cast<uint32_t>(value) == F32_NAN;
    }
    right = right && std::bit_cast<uint32_t>(decode<F>(code | 2 * F.sign() * 5)) ==
                         std::bit_cast<uint32_t>(value);
    wrong += !right;
  }
  CHECK(wrong == 0);
}

template <Format F>
void check_encoding() {
  int wrong = 0;
  const auto expect = [&](double value, Rounding rounding, uint32_t expected) {
    wrong += encode<F>(value, rounding) != expected;
  };
  const std::vector<uint32_t> codes = finite_codes(F);
  for (size_t i = 0; i < codes.size(); ++i) {
    const double lower = value_of(F, codes[i]);
    for (const Rounding rounding : ROUNDINGS) {
      for (const bool negative : {false, true}) {
        const uint32_t sign = negative ? F.sign() : 0;
        const double unit = negative ? -1 : 1;
        expect(unit * lower, rounding, codes[i] | sign);
        if (i + 1 == codes.size()) continue;
        const double upper = value_of(F, codes[i + 1]);
        const double middle = lower + (upper - lower) / 2;
        const double between[] = {std::nextafter(lower, upper), std::nextafter(middle, lower),
                                  middle, std::nextafter(middle, upper),
                                  std::nextafter(upper, lower)};
        for (int b = 0; b < 5; ++b) {
          const int halfway = b < 2 ? -1 : b == 2 ? 0 : 1;
          expect(unit * between[b], rounding,
                 rounded(codes[i], codes[i + 1], halfway, rounding, negative) | sign);
        }
      }
    }
  }
  CHECK(wrong == 0);

  // Past the largest number: as if the next code were a number, and then no finite one.
  const double largest = value_of(F, codes.back());
  const double below = value_of(F, codes[codes.size() - 2]);
  const double next = largest + (largest - below), middle = largest + (largest - below) / 2;
  const struct {
    double value;
    int halfway;
  } outside[] = {{std::nextafter(largest, next), -1},
                 {std::nextafter(middle, 0), -1},
                 {middle, 0},
                 {std::nextafter(middle, next), 1},
                 {next, 1},
                 {1e300, 1}};
  for (const auto& [value, halfway] : outside) {
    for (const Rounding rounding : ROUNDINGS) {
      for (const bool negative : {false, true}) {
        CAPTURE(value);
        CAPTURE(negative);
        const uint32_t sign = negative ? F.sign() : 0;
        const double input = negative ? -value : value;
        const uint32_t up = F.has_infinity ? F.infinity() | sign : F.nan();
        const uint32_t expected =
            rounded(codes.back(), codes.back() + 1, halfway, rounding, negative) == codes.back()
                ? codes.back() | sign
                : up;
        CHECK(encode<F>(input, rounding) == expected);
        CHECK(encode<F>(input, rounding, true) == (codes.back() | sign));
        CHECK(encode<F>(input, rounding, true, true) == (negative ? 0 : codes.back()));
      }
    }
  }
  for (const Rounding rounding : ROUNDINGS) {
    CHECK(encode<F>(INFINITE, rounding) == (F.has_infinity ? F.infinity() : F.nan()));
    CHECK(encode<F>(-INFINITE, rounding) == (F.has_infinity ? F.infinity() | F.sign() : F.nan()));
    CHECK(encode<F>(-INFINITE, rounding, true) == (codes.back() | F.sign()));
    CHECK(encode<F>(-INFINITE, rounding, true, true) == 0);
    CHECK(encode<F>(-0.0, rounding) == F.sign());
    CHECK(encode<F>(-0.0, rounding, false, true) == 0);
    CHECK(encode<F>(5e-324, rounding) == (rounding == Rounding::UP ? 1 : 0));
    CHECK(encode<F>(-1e-300, rounding) == (F.sign() | (rounding == Rounding::DOWN ? 1 : 0)));
    for (const bool relu : {false, true}) {
      for (const bool satfinite : {false, true}) {
        CHECK(encode<F>(std::nan(""), rounding, satfinite, relu) == F.nan());
        CHECK(encode<F>(-std::nan("1"), rounding, satfinite, relu) == F.nan());
      }
    }
  }
}

// Floats of every exponent, and those around each point where rounding to `format` changes.
std::vector<float> telling_floats(const Format& format) {
  std::vector<float> floats;
  for (uint64_t bits = 0; bits < 1ull << 32; bits += 4093) {
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  const std::vector<uint32_t> codes = finite_codes(format);
  for (const uint32_t code : codes) {
    const double lower = value_of(format, code);
    const auto middle = static_cast<float>(
        lower + (value_of(format, code == codes.back() ? code : code + 1) - lower) / 2);
    for (const float f :
         {middle, std::nextafter(middle, INFINITY), std::nextafter(middle, -INFINITY)}) {
      floats.push_back(f);
      floats.push_back(-f);
    }
  }
  for (const float f : {65504.f, 65519.996f, 65520.f, 65536.f, INFINITY, std::nanf("5")}) {
    floats.push_back(f);
    floats.push_back(-f);
  }
  return floats;
}

}  // namespace

TEST_CASE("number: every code decodes to the value that its format defines") {
  check_decoding<BF16>();
  check_decoding<F16>();
  check_decoding<TF32>();
  check_decoding<E4M3>();
  check_decoding<E5M2>();
}

TEST_CASE("number: rounding in every mode, at and beside every number and every midpoint") {
  check_encoding<BF16>();
  check_encoding<F16>();
  check_encoding<TF32>();
  check_encoding<E4M3>();
  check_encoding<E5M2>();
}

TEST_CASE("number: limits as the manuals print them") {
  CHECK(value_of(F16, F16.largest()) == 65504);
  CHECK(value_of(E4M3, E4M3.largest()) == 448);
  CHECK(value_of(E5M2, E5M2.largest()) == 57344);
  CHECK(value_of(E4M3, 1) == std::ldexp(1, -9));
  CHECK(value_of(E5M2, 1) == std::ldexp(1, -16));
  CHECK(F16.nan() == 0x7fff);
  CHECK(BF16.nan() == 0x7fff);
  CHECK(E4M3.nan() == 0x7f);
  CHECK(E5M2.nan() == 0x7f);
  CHECK(F16.infinity() == 0x7c00);
  CHECK(BF16.infinity() == 0x7f80);
  CHECK(E5M2.infinity() == 0x7c);
}

TEST_CASE("number: the fast conversions from float are encode()") {
  int wrong = 0;
  for (const float f : telling_floats(F16)) wrong += f16_from_f32(f) != encode<F16>(f);
  CHECK(wrong == 0);
  for (const float f : telling_floats(BF16)) wrong += bf16_from_f32(f) != encode<BF16>(f);
  CHECK(wrong == 0);
  CHECK(decode<F16>(0xc000) == -2);
  CHECK(decode<BF16>(0xc000) == -2);
}

TEST_CASE("number: tf32 is a float whose low 13 bits are zero") {
  int wrong = 0;
  for (const float f : telling_floats(TF32)) {
    const uint32_t bits = std::bit_cast<uint32_t>(f);
    const uint32_t nearest_away = (bits + 0x1000) & 0xffffe000;  // carries into the exponent
    const uint32_t expected = std::isnan(f) ? 0x7fffe000 : nearest_away;
    wrong += (encode<TF32>(f, Rounding::NEAREST_AWAY) << 13) != expected;
  }
  CHECK(wrong == 0);
  CHECK((encode<TF32>(1 + 0x1p-11f) << 13) == 0x3f800000);
  CHECK((encode<TF32>(1 + 0x1p-11f, Rounding::NEAREST_AWAY) << 13) == 0x3f802000);
  CHECK((encode<TF32>(1 + 0x1p-11f, Rounding::ZERO) << 13) == 0x3f800000);
  CHECK((encode<TF32>(-1, Rounding::NEAREST, false, true) << 13) == 0);
  CHECK((encode<TF32>(INFINITY, Rounding::NEAREST, true) << 13) == 0x7f7fe000);
}

TEST_CASE("number: the first source of a packing conversion is the upper part") {
  CHECK(pack_x2(0x1234, 0x5678) == 0x12345678);
  CHECK(lower_half(0x12345678) == 0x5678);
  CHECK(upper_half(0x12345678) == 0x1234);
}

static_assert(encode<E4M3>(1000.0, Rounding::NEAREST, true) == 0x7e);
static_assert(decode<E5M2>(0x7b) == 57344);
