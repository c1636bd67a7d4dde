// cvt: between any two types of numbers. The rounding itself is number.h's. It knows nothing of memory
// or of other lanes.
#include "common/machine/ops/elementwise.h"

namespace machine::elementwise {
namespace {

// Registers may be wider than their types: results are extended by the type's sign.
struct Conversion {
  Type to, from;
  Rounding rounding : 4;
  bool ftz : 1, sat : 1, relu : 1, satfinite : 1;
  bool integral;  // .rni and its like

  bool is_plain() const {
    return rounding == Rounding::NEAREST && !ftz && !sat && !relu && !satfinite && !integral;
  }
};

Conversion conversion_of(const Opcode& opcode) {
  Conversion how{};
  how.to = opcode.type(0);
  how.from = opcode.type(1);
  const uint32_t integral = which(opcode, {".rni", ".rzi", ".rmi", ".rpi"});
  how.integral = integral != 0;
  how.rounding = static_cast<Rounding>(how.integral ? integral - 1
                                                    : which(opcode, {".rz", ".rm", ".rp", ".rna"}));
  how.ftz = opcode.has(".ftz");
  how.sat = opcode.has(".sat");
  how.relu = opcode.has(".relu");
  how.satfinite = opcode.has(".satfinite");
  return how;
}

double round_integral(double value, Rounding rounding) {
  if (rounding == Rounding::ZERO) return std::trunc(value);
  if (rounding == Rounding::DOWN) return std::floor(value);
  return rounding == Rounding::UP ? std::ceil(value) : std::nearbyint(value);
}

double value_of(Type type, uint64_t bits, bool ftz) {
  const auto low = static_cast<uint32_t>(bits);
  if (type == f64) return std::bit_cast<double>(bits);
  if (type == f16) {
    const uint64_t nan = bits << 48 >> 63 << 63 | 0x7ff8ull << 48 | bits << 54 >> 12;
    const float value = decode<F16>(low);
    return value != value ? std::bit_cast<double>(nan) : value;
  }
  if (type == bf16) return decode<BF16>(low);
  const float value = std::bit_cast<float>(ftz ? flush_f32(low) : low);
  return ftz && value != value ? std::bit_cast<float>(F32_NAN) : value;
}

// A NaN of f64 keeps its sign and the upper bits of its payload.
uint32_t narrow_nan(Type type, double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto code = static_cast<uint32_t>(bits >> 63 << 31 | 0x7fc00000 | bits << 12 >> 41);
  if (type == f32) return code;
  return type == bf16 ? code >> 16 : (code >> 16 & 0x8000) | 0x7c00 | (code >> 13 & 0x3ff);
}

uint64_t bits_of(double value, const Conversion& how) {
  if (how.to == f64) return std::bit_cast<uint64_t>(value);
  if (how.to == f16) return encode<F16>(value, how.rounding, how.satfinite, how.relu);
  if (how.to == bf16) return encode<BF16>(value, how.rounding, how.satfinite, how.relu);
  const uint32_t bits = encode<F32>(value, how.rounding);
  return how.ftz ? flush_f32(bits) : bits;
}

struct Range {
  __int128 low, high;
};
Range range_of(Type type) {
  const uint32_t bits = 8 * bytes_of(type);
  const __int128 one = 1;
  if (is_signed(type)) return {-(one << (bits - 1)), (one << (bits - 1)) - 1};
  return {0, (one << bits) - 1};
}

// NaN becomes 0, or, where 64 bits are on either side, the number of which only the highest bit is 1
// (CUDA Math API: __half2int_rz, __half2ll_rz).
uint64_t to_integer(Type to, Type from, double value, Rounding rounding) {
  const Range range = range_of(to);
  if (value != value) {
    const bool wide = bytes_of(to) == 8 || from == f64;
    return wide ? static_cast<uint64_t>(is_signed(to) ? range.low : (range.high >> 1) + 1) : 0;
  }
  value = round_integral(value, rounding);
  if (value <= static_cast<double>(range.low)) return static_cast<uint64_t>(range.low);
  if (value >= static_cast<double>(range.high)) return static_cast<uint64_t>(range.high);
  return static_cast<uint64_t>(static_cast<__int128>(value));
}

// A number with `precision` bits.
double round_magnitude(uint64_t magnitude, int precision, Rounding rounding, bool negative) {
  const int excess = 64 - std::countl_zero(magnitude) - precision;
  if (excess <= 0) return static_cast<double>(magnitude);
  const uint64_t rest = magnitude & ((1ull << excess) - 1), half = 1ull << (excess - 1);
  uint64_t kept = magnitude >> excess;
  if (rounding == Rounding::NEAREST) kept += rest > half || (rest == half && (kept & 1) != 0);
  if (rounding == Rounding::UP) kept += rest != 0 && !negative;
  if (rounding == Rounding::DOWN) kept += rest != 0 && negative;
  return std::ldexp(static_cast<double>(kept), excess);
}

uint64_t from_integer(uint64_t bits, const Conversion& how) {
  const Type to = how.to, from = how.from;
  const uint32_t unused = 64 - 8 * bytes_of(from);
  bits <<= unused;
  bits = is_signed(from) ? static_cast<uint64_t>(static_cast<int64_t>(bits) >> unused)
                         : bits >> unused;
  const bool negative = is_signed(from) && bits >> 63;
  const uint64_t magnitude = negative ? 0 - bits : bits;
  if (!is_float(to)) {
    const Range range = range_of(to);
    const __int128 value = negative ? -static_cast<__int128>(magnitude) : magnitude;
    return static_cast<uint64_t>(std::clamp(value, range.low, range.high));
  }
  const int precision = to == f64 ? 53 : to == f32 ? 24 : to == f16 ? 11 : 8;
  double value = round_magnitude(magnitude, precision, how.rounding, negative);
  if (negative) value = -value;
  if (how.sat) value = std::clamp(value, 0.0, 1.0);
  return bits_of(value, how);
}

uint64_t from_float(uint64_t bits, const Conversion& how) {
  double value = value_of(how.from, bits, how.ftz);
  if (!is_float(how.to)) return to_integer(how.to, how.from, value, how.rounding);
  if (how.integral) value = round_integral(value, how.rounding);
  if (how.sat) value = value > 0 ? std::min(value, 1.0) : 0;
  if (value != value && how.from == f64 && how.to != f64) return narrow_nan(how.to, value);
  return bits_of(value, how);
}

// Any conversion of one value; those that matter for speed have handlers of their own.
void convert(Warp& warp, const Inst& inst, uint32_t lane) {
  const auto how = inst.as<Conversion>();
  const uint64_t a = machine::value_of(warp, inst.slots[1], lane);
  const uint64_t d = is_float(how.from) ? from_float(a, how) : from_integer(a, how);
  set_value(warp, inst.slots[0], 1u << lane, d);
}

// Between integers: drops the bits that the source's type has not, then those of the destination's.
template <bool TO_SIGNED, bool FROM_SIGNED, class D, class A>
void convert_rows(const Inst& inst, uint32_t mask, D* d, const A* a) {
  using Wide = std::conditional_t<sizeof(D) == 8 || sizeof(A) == 8, uint64_t, uint32_t>;
  using To = std::conditional_t<TO_SIGNED, std::make_signed_t<Wide>, Wide>;
  using From = std::conditional_t<FROM_SIGNED, std::make_signed_t<Wide>, Wide>;
  const uint32_t to_unused = BITS<Wide> - 8 * bytes_of(inst.as<Conversion>().to);
  const uint32_t from_unused = BITS<Wide> - 8 * bytes_of(inst.as<Conversion>().from);
  lanes(mask, [=](uint32_t lane) {
    const From x = static_cast<From>(Wide{a[lane]} << from_unused) >> from_unused;
    d[lane] = static_cast<D>(static_cast<To>(static_cast<Wide>(x) << to_unused) >> to_unused);
  });
}
template <bool TO_SIGNED, bool FROM_SIGNED>
Step convert_integer(Warp& warp, const Inst& inst, uint32_t mask) {
  const Slot &to = inst.slots[0], &from = inst.slots[1];
  with_row(warp, to.row, to.width, [&](auto* d) {
    with_row(warp, from.row, from.width,
             [&](auto* a) { convert_rows<TO_SIGNED, FROM_SIGNED>(inst, mask, d, a); });
  });
  return Step::next;
}

constexpr auto BF16_TO_F32 = [](uint32_t a) { return a << 16; };  // NaN keeps its payload
constexpr auto TO_S32 = [](float a) {
  constexpr float LIMIT = 0x1p31f, LARGEST = 0x1.fffffep30f;  // the largest below the limit
  const float above = a < -LIMIT ? -LIMIT : a, inside = above > LARGEST ? LARGEST : above;
  const int32_t value = static_cast<int32_t>(a != a ? 0 : inside);
  return a >= LIMIT ? INT32_MAX : value;
};

// What kernels do by the million; nullptr for the rest.
Handler pick_fast(const Conversion& how) {
  const Type to = how.to, from = how.from;
  if (to == s32 && from == f32 && how.rounding == Rounding::ZERO && !how.ftz) {
    return apply<TO_S32, 0, s32, f32>;
  }
  if (!how.is_plain()) return nullptr;
  if (to == f32) {
    if (from == s32) return apply<SAME, 0, f32, s32>;
    if (from == u32) return apply<SAME, 0, f32, u32>;
    if (from == f16) return apply<SAME, 0, f32, f16>;
    if (from == bf16) return apply<BF16_TO_F32, 0, u32, u32>;
  }
  if (to == f16 && from == f32) return apply<SAME, 0, f16, f32>;
  if (to == bf16 && from == f32) return apply<SAME, 0, bf16, f32>;
  return nullptr;
}

Handler pick_cvt(Opcode& opcode) {
  const Type to = opcode.type(0), from = opcode.type(1);
  const Conversion how = conversion_of(opcode);
  opcode.set(how);
  if (is_float(to) || is_float(from)) {
    const Handler fast = pick_fast(how);
    return fast != nullptr ? fast : each_lane<convert>;
  }
  if (opcode.has(".sat")) return each_lane<convert>;
  if (is_signed(to)) {
    return is_signed(from) ? convert_integer<true, true> : convert_integer<true, false>;
  }
  return is_signed(from) ? convert_integer<false, true> : convert_integer<false, false>;
}

// Packed: the first source becomes the upper half.
template <Format F, uint32_t SHIFT>
constexpr auto PACK = [](Conversion how, float a, float b) {
  const auto code = [how](float x) { return encode<F>(x, how.rounding, how.satfinite, how.relu); };
  return code(a) << SHIFT | code(b);
};

constexpr auto PACK_BF16 = [](float a, float b) {
  return pack_x2(bf16_from_f32(a), bf16_from_f32(b));
};
constexpr auto PACK_F16 = [](float a, float b) {
  return pack_x2(f16_from_f32(a), f16_from_f32(b));
};
Handler pick_cvt_x2(Opcode& opcode) {
  const Conversion how = conversion_of(opcode);
  const bool plain = how.is_plain();
  const Type type = opcode.type();
  opcode.set(how);
  if (type == bf16x2 && plain) return apply<PACK_BF16, 0, u32, f32, f32>;
  if (type == f16x2 && plain) return apply<PACK_F16, 0, u32, f32, f32>;
  if (type == bf16x2) return apply<PACK<BF16, 16>, 0, u32, f32, f32>;
  if (type == f16x2) return apply<PACK<F16, 16>, 0, u32, f32, f32>;
  return type == e4m3x2 ? apply<PACK<E4M3, 8>, 0, u32, f32, f32>
                        : apply<PACK<E5M2, 8>, 0, u32, f32, f32>;
}

template <Format F>
constexpr auto F16X2_TO_F8X2 = [](Conversion how, uint32_t a) {
  return PACK<F, 8>(how, decode<F16>(upper_half(a)), decode<F16>(lower_half(a)));
};
template <Format F>
constexpr auto F8X2_TO_F16X2 =
    [](Conversion how, uint32_t a) { return PACK<F16, 16>(how, decode<F>(a >> 8), decode<F>(a)); };

constexpr auto TO_TF32 = [](Conversion how, float a) {
  return encode<TF32>(a, how.rounding, how.satfinite, how.relu) << 13;
};
// sm_90 does this with integers: infinities and NaN are not told from numbers.
constexpr auto TO_TF32_AWAY = [](Conversion how, uint32_t a) {
  const auto is_top = [](uint32_t x) { return (x & 0x7f800000) == 0x7f800000; };
  const uint32_t code = (is_top(a) ? a : a + 0x1000) & 0xffffe000;
  return how.satfinite && is_top(code) ? code - 0x2000 : code;
};

template <auto OP, Type FROM>
Handler pick_conversion(Opcode& opcode) {
  opcode.set(conversion_of(opcode));
  return apply<OP, 0, u32, FROM>;
}
Handler pick_cvt_f8(Opcode& opcode) {
  opcode.set(conversion_of(opcode));
  if (opcode.type(0) == e4m3x2) return apply<F16X2_TO_F8X2<E4M3>, 0, u32, u32>;
  if (opcode.type(0) == e5m2x2) return apply<F16X2_TO_F8X2<E5M2>, 0, u32, u32>;
  return opcode.type(1) == e4m3x2 ? apply<F8X2_TO_F16X2<E4M3>, 0, u32, u32>
                                  : apply<F8X2_TO_F16X2<E5M2>, 0, u32, u32>;
}

const Row ROWS[] = {
    {"cvt{.rn,.rz,}{.relu,}{.satfinite,}{.f16x2,.bf16x2}.f32", "d:32, a:32, b:32", pick_cvt_x2,
     "d = {a, b} converted; a becomes the upper half"},
    {"cvt.rn.satfinite{.relu,}{.e4m3x2,.e5m2x2}.f32", "d:16, a:32, b:32", pick_cvt_x2,
     "d = {a, b} converted; a becomes the upper half"},
    {"cvt{.rn,.rz}{.relu,}{.satfinite,}{.f16,.bf16}.f32", "d:t, a:s", pick_cvt,
     "d = a converted; .relu: not below 0; .satfinite: never infinite"},
    {"cvt{.sat,}" SMALL_INTEGERS SMALL_INTEGERS, "d:x, a:x", pick_cvt,
     "d = a, truncated or extended; .sat: the nearest that the type has"},
    {"cvt{.rni,.rzi,.rmi,.rpi}{.ftz,}{.sat,}" SMALL_INTEGERS "{.f16,.bf16,.f32,.f64}", "d:t, a:s",
     pick_cvt, "d = a rounded to an integer, the nearest that the type has"},
    {"cvt{.rn,.rz,.rm,.rp}{.ftz,}{.sat,}{.f16,.bf16,.f32,.f64}" SMALL_INTEGERS, "d:t, a:s",
     pick_cvt, "d = a"},
    {"cvt{.rn,.rz,.rm,.rp,.rni,.rzi,.rmi,.rpi,}{.ftz,}{.sat,}{.f16,.bf16,.f32,.f64}"
     "{.f16,.bf16,.f32,.f64}",
     "d:t, a:s", pick_cvt, "d = a; .rni and its like: rounded to an integer"},
    {"cvt.rn.satfinite{.relu,}{.e4m3x2,.e5m2x2}.f16x2", "d:16, a:32", pick_cvt_f8,
     "d = both halves of a converted"},
    {"cvt.rn{.relu,}.f16x2{.e4m3x2,.e5m2x2}", "d:32, a:16", pick_cvt_f8,
     "d = both bytes of a converted"},
    {"cvt{.rn,.rz}{.satfinite,}{.relu,}.tf32.f32", "d:32, a:32", pick_conversion<TO_TF32, f32>,
     "d = a with 10 bits of mantissa"},
    {"cvt.rna{.satfinite,}.tf32.f32", "d:32, a:32", pick_conversion<TO_TF32_AWAY, u32>,
     "d = a with 10 bits of mantissa"},
};

}  // namespace
}  // namespace machine::elementwise

const machine::Section machine::sections::CONVERT{"Conversion", machine::elementwise::ROWS};
