// Conversions to tf32, and between pairs of f16 and of fp8, that no kernel of this repository has,
// but other people's do. It knows nothing of memory or of other lanes.
#include "common/machine/ops/convert.h"

namespace machine {
namespace elementwise {
namespace {

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
}  // namespace elementwise

const Section sections::RARE_CONVERT{"Rarer: conversion", elementwise::ROWS};

}  // namespace machine
