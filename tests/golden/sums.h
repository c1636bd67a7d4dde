// Operands and accumulators whose sums show what the tensor cores keep of them. Plain C++: what sums.cu
// asks of a GPU, a test computes.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sums {

enum class Type { e4m3, bf16, fp16, tf32, s8 };
inline constexpr const char* TYPE_NAMES[] = {"e4m3", "bf16", "fp16", "tf32", "s8"};

constexpr int bytes_of(Type type) {
  return type == Type::tf32 ? 4 : (type == Type::e4m3 || type == Type::s8 ? 1 : 2);
}
// K of one wgmma: 32 bytes.
constexpr int k_of(Type type) {
  return 32 / bytes_of(type);
}

constexpr int ROWS = 64, COLS = 8;  // of wgmma m64n8

// What the numbers of a probe are like.
enum class Kind { dense, onto_c, few, few_onto_c, powers, chain, positive, only_c, subnormal };
inline constexpr const char* KIND_NAMES[] = {"dense", "onto_c",   "few",    "few_onto_c", "powers",
                                             "chain", "positive", "only_c", "subnormal"};
constexpr int KINDS = 9;

// One launch: D [ROWS][COLS] = A [ROWS][k] · B [COLS][k]^T + C, k = steps * k_of(type), elements as
// their bits.
struct Probe {
  Type type;
  Kind kind;
  int steps;  // wgmma, one after the other
  std::vector<uint32_t> a, b, c;
};

// splitmix64, as common/host/data.h
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(next() >> 33) % n; }

 private:
  uint64_t state_;
};

// Exponents from -span to span - 1, or a power of two of these; never a subnormal, infinity or NaN.
inline uint32_t element(Type type, Random& random, int span, bool power, bool positive) {
  const uint32_t sign = positive ? 0 : random.below(2);
  const int exponent = static_cast<int>(random.below(2 * span)) - span;
  const uint32_t fraction = power ? 0 : static_cast<uint32_t>(random.next() >> 20);
  switch (type) {
    case Type::e4m3: {
      const int low = exponent < -6 ? -6 : (exponent > 7 ? 7 : exponent);
      return sign << 7 | static_cast<uint32_t>(low + 7) << 3 | (fraction & 7);
    }
    case Type::bf16:
      return sign << 15 | static_cast<uint32_t>(exponent + 127) << 7 | (fraction & 0x7f);
    case Type::fp16:
      return sign << 15 | static_cast<uint32_t>(exponent + 15) << 10 | (fraction & 0x3ff);
    case Type::tf32:
      return sign << 31 | static_cast<uint32_t>(exponent + 127) << 23 | (fraction & 0x3ff) << 13;
    default:
      return static_cast<uint32_t>(random.next() >> 40) & 0xff;
  }
}

// With the smallest exponents: a subnormal, zero or nearly so.
inline uint32_t small_element(Type type, Random& random) {
  const uint32_t exponent = random.below(3);
  const uint32_t bits = static_cast<uint32_t>(random.next() >> 20);
  switch (type) {
    case Type::e4m3:
      return (bits & 0x87) | exponent << 3;
    case Type::bf16:
      return (bits & 0x807f) | exponent << 7;
    case Type::fp16:
      return (bits & 0x83ff) | exponent << 10;
    case Type::tf32:
      return (bits & 0x3ff) << 13 | (bits & 0x400) << 21 | exponent << 23;
    default:
      return bits & 0xff;
  }
}

inline Probe make_probe(Type type, Kind kind, uint64_t seed) {
  Random random(seed * 128 + static_cast<uint64_t>(kind) * 8 + static_cast<uint64_t>(type));
  Probe probe{type, kind, kind == Kind::chain ? 4 : 1, {}, {}, {}};
  const int k = probe.steps * k_of(type);
  const int span = kind == Kind::few || kind == Kind::few_onto_c || kind == Kind::powers ? 7 : 3;
  const bool few = span == 7, power = kind == Kind::powers;
  for (int row = 0; row < ROWS; ++row) {
    for (int i = 0; i < k; ++i) {
      probe.a.push_back(kind == Kind::subnormal
                            ? small_element(type, random)
                            : element(type, random, span, power, kind == Kind::positive));
    }
    if (few || kind == Kind::only_c) {  // all but up to three become 0
      const uint32_t left = kind == Kind::only_c ? 0 : 1 + random.below(3);
      std::vector<uint32_t> kept(static_cast<std::size_t>(k), 0);
      for (uint32_t i = 0; i < left; ++i) {
        const uint32_t at = random.below(static_cast<uint32_t>(k));
        kept[at] = probe.a[static_cast<std::size_t>(row * k) + at];
      }
      for (int i = 0; i < k; ++i)
        probe.a[static_cast<std::size_t>(row * k + i)] = kept[static_cast<std::size_t>(i)];
    }
  }
  for (int i = 0; i < COLS * k; ++i) {
    uint32_t b = element(type, random, few ? 2 : 3, power, kind == Kind::positive);
    // Subnormals of bf16 and tf32 times what brings the products back among fp32's numbers.
    if (kind == Kind::subnormal && type == Type::bf16) b += 110u << 7;
    if (kind == Kind::subnormal && type == Type::tf32) b += 110u << 23;
    probe.b.push_back(b);
  }
  const bool zero_c =
      kind == Kind::dense || kind == Kind::few || kind == Kind::chain || kind == Kind::subnormal;
  for (int i = 0; i < ROWS * COLS; ++i) {
    if (type == Type::s8) {
      probe.c.push_back(zero_c ? 0 : static_cast<uint32_t>(random.next() >> 32));
      continue;
    }
    const int wide =
        kind == Kind::few_onto_c || kind == Kind::powers || kind == Kind::only_c ? 20 : 8;
    const int exponent = static_cast<int>(random.below(2 * static_cast<uint32_t>(wide))) - wide;
    const uint32_t fraction = power ? 0 : static_cast<uint32_t>(random.next() >> 20) & 0x7fffff;
    const uint32_t sign = kind == Kind::positive ? 0 : random.below(2);
    const uint32_t bits = sign << 31 | static_cast<uint32_t>(exponent + 127) << 23 | fraction;
    probe.c.push_back(zero_c ? 0 : bits);
  }
  return probe;
}

// --- the rule ------------------------------------------------------------------------------------

// Of an element: its number, and the exponent that the tensor cores give it: a subnormal's is the smallest
// normal one.
struct Number {
  double value;
  int exponent;
};

inline Number number_of(Type type, uint32_t bits) {
  const auto decode = [bits](int exponent_bits, int fraction_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int field = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    const auto fraction = static_cast<int>(bits & ((1u << fraction_bits) - 1));
    const int significand = field > 0 ? fraction + (1 << fraction_bits) : fraction;
    const int exponent = (field > 0 ? field : 1) - bias;
    const double value = std::ldexp(significand, exponent - fraction_bits);
    return Number{bits >> (exponent_bits + fraction_bits) & 1 ? -value : value, exponent};
  };
  switch (type) {
    case Type::e4m3:
      return decode(4, 3);
    case Type::bf16:
      return decode(8, 7);
    case Type::fp16:
      return decode(5, 10);
    default:
      return decode(8, 23);
  }
}

// What a wgmma of that type makes of a row of A, a row of B, k_of(type) elements each, and C. Products and
// C are cut off towards 0 at 2^-below of the power of two that has the largest exponent of them, a
// product's being the sum of its factors'; the sum of that is exact, and is cut off at 2^-kept of its own.
struct Rule {
  int below, kept;
};
constexpr Rule rule_of(Type type) {
  return type == Type::e4m3 ? Rule{13, 13} : Rule{25, 23};
}

inline double cut_off(double x, int exponent_of_last_bit) {
  return std::ldexp(std::trunc(std::ldexp(x, -exponent_of_last_bit)), exponent_of_last_bit);
}

inline uint32_t sum_of(Type type, const uint32_t* a, const uint32_t* b, uint32_t c) {
  const int k = k_of(type);
  if (type == Type::s8) {  // exact, and wraps
    for (int i = 0; i < k; ++i) {
      c += static_cast<uint32_t>(static_cast<int8_t>(a[i]) * static_cast<int8_t>(b[i]));
    }
    return c;
  }
  const double of_c = std::bit_cast<float>(c);
  double products[32];
  int largest = of_c == 0 ? -10000 : std::ilogb(of_c);
  for (int i = 0; i < k; ++i) {
    const Number x = number_of(type, a[i]), y = number_of(type, b[i]);
    products[i] = x.value * y.value;
    if (products[i] != 0) largest = std::max(largest, x.exponent + y.exponent);
  }
  const Rule rule = rule_of(type);
  double sum = cut_off(of_c, largest - rule.below);
  for (int i = 0; i < k; ++i) sum += cut_off(products[i], largest - rule.below);
  if (sum == 0) return 0;
  return std::bit_cast<uint32_t>(static_cast<float>(cut_off(sum, std::ilogb(sum) - rule.kept)));
}

inline std::vector<uint32_t> expected(const Probe& probe) {
  const int step = k_of(probe.type), k = probe.steps * step;
  std::vector<uint32_t> d = probe.c;
  for (int i = 0; i < ROWS * COLS; ++i) {
    for (int at = 0; at < k; at += step) {
      d[static_cast<std::size_t>(i)] = sum_of(
          probe.type, &probe.a[static_cast<std::size_t>(i / COLS * k + at)],
          &probe.b[static_cast<std::size_t>(i % COLS * k + at)], d[static_cast<std::size_t>(i)]);
    }
  }
  return d;
}

constexpr uint64_t SEEDS = 8;  // of each type and kind

inline uint64_t hash_of(const std::vector<uint32_t>& words) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const uint32_t word : words) hash = (hash ^ word) * 0x100000001b3ull;
  return hash;
}

}  // namespace sums
