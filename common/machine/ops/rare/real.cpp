// Functions of real numbers that few kernels of this repository have, or none. It knows
// nothing of memory or of other lanes.
#include "common/machine/ops/elementwise.h"

namespace machine::elementwise {
namespace {

// The product is exact; the sum is rounded to odd.
constexpr auto FMA_HALF = [](float a, float b, float c) {
  const double product = double{a} * b, sum = product + c;
  const double rest = sum - product, error = (product - (sum - rest)) + (c - rest);
  const bool inexact = (error > 0) | (error < 0), too_large = inexact & ((error > 0) != (sum > 0));
  return std::bit_cast<double>((std::bit_cast<uint64_t>(sum) - too_large) | inexact);
};
constexpr auto RCP = [](auto a) { return 1 / a; };
constexpr auto SQRT = [](auto a) { return std::sqrt(a); };
// Approximations are as good as a double makes them; a GPU's are off by a few units in the last
// place.
constexpr auto RCP_APPROX = [](auto a) { return 1 / double{a}; };
// Of the upper halves of two doubles, as rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 have them: the
// lower half is neither read nor made.
template <auto OP>
constexpr auto UPPER_HALF = [](uint64_t a) {
  constexpr uint64_t UPPER = 0xffffffffull << 32, EXPONENT = 0x7ffull << 52, SIGN = 1ull << 63;
  const auto flush = [](uint64_t bits) { return bits & EXPONENT ? bits : bits & SIGN; };
  const double made = OP(std::bit_cast<double>(flush(a & UPPER)));
  return made != made ? 0x7fffffffull << 32 : flush(std::bit_cast<uint64_t>(made) & UPPER);
};
constexpr auto SQRT_APPROX = [](auto a) { return std::sqrt(double{a}); };
constexpr auto RSQRT = [](auto a) { return 1 / std::sqrt(double{a}); };
constexpr auto SIN = [](auto a) { return std::sin(double{a}); };
constexpr auto COS = [](auto a) { return std::cos(double{a}); };
constexpr auto LG2 = [](auto a) { return std::log2(double{a}); };
constexpr auto EX2 = [](auto a) { return std::exp2(double{a}); };
constexpr auto TANH = [](auto a) { return std::tanh(double{a}); };
constexpr auto DIV_FULL = [](float a, float b) { return double{a} / b; };
// Divisors above 2^126 give 0 with the quotient's sign, or NaN for an infinite dividend.
constexpr auto DIV_APPROX = [](float a, float b) {
  const double quotient = double{a} / b;
  return std::fabs(b) > 0x1p126f ? (std::isinf(a) ? NAN : quotient * 0) : quotient;
};
constexpr auto COPYSIGN = [](auto a, auto b) {
  constexpr auto SIGN = decltype(a){1} << (BITS<decltype(a)> - 1);
  return (a & SIGN) | (b & ~SIGN);
};

template <class T>
Step testp(Warp& warp, const Inst& inst, uint32_t mask) {
  const T* const a = warp.row<T>(inst.op[1]);
  const uint32_t result = lanes_where(mask, [&](uint32_t lane) {
    const int kind = std::fpclassify(a[lane]);
    const bool answers[] = {
        // the first: of .finite
        kind != FP_NAN && kind != FP_INFINITE, kind == FP_INFINITE, kind != FP_NAN, kind == FP_NAN,
        kind == FP_NORMAL || kind == FP_ZERO,  kind == FP_SUBNORMAL};
    return answers[inst.mods];
  });
  set_pred(warp, inst.op[0], mask, result);
  return Step::next;
}
Handler pick_testp(Opcode& opcode) {
  opcode.mods = which(opcode, {".infinite", ".number", ".notanumber", ".normal", ".subnormal"});
  return opcode.type() == f64 ? testp<double> : testp<float>;
}

#define APPROXIMATE ", approximately on a GPU"

const Row ROWS[] = {
    {"fma.rn{.ftz,}{.sat,.relu,}{" HALVES, "d:t, a:t, b:t, c:t",
     pick_half<FMA_HALF, 3, FTZ | SAT | RELU>, "d = a * b + c, rounded once"},
    {"div.full{.ftz,}.f32", "d:t, a:t, b:t", pick_wide<DIV_FULL, 2, FTZ>, "d = a / b" APPROXIMATE},
    {"div.approx{.ftz,}.f32", "d:t, a:t, b:t", pick_wide<DIV_APPROX, 2, FTZ>,
     "d = a / b, 0 for |b| above 2^126" APPROXIMATE},
    {"copysign{.f32,.f64}", "d:t, a:t, b:t", pick_bits<COPYSIGN, 2>, "d = b with the sign of a"},
    {"testp{.finite,.infinite,.number,.notanumber,.normal,.subnormal}{.f32,.f64}", "p:p, a:t",
     pick_testp, "p = whether a is of this kind"},
    {"rcp{.rn,.rz,.rm,.rp}{.ftz,}{.f32,.f64}", "d:t, a:t", pick_wide<RCP, 1, FTZ | DIRECTED>,
     "d = 1 / a"},
    {"sqrt{.rn,.rz,.rm,.rp}{.ftz,}{.f32,.f64}", "d:t, a:t", pick_wide<SQRT, 1, FTZ | DIRECTED>,
     "d = the square root of a"},
    {"rcp.approx{.ftz,}.f32", "d:t, a:t", pick_real<RCP_APPROX, 1, FTZ>, "d = 1 / a" APPROXIMATE},
    {"rcp.approx.ftz.f64", "d:t, a:t", pick<UPPER_HALF<RCP_APPROX>, u64, u64>,
     "d = 1 / a, of the upper halves" APPROXIMATE},
    {"rsqrt.approx.ftz.f64", "d:t, a:t", pick<UPPER_HALF<RSQRT>, u64, u64>,
     "d = 1 / the square root of a, of the upper halves" APPROXIMATE},
    {"rsqrt.approx.f64", "d:t, a:t", pick<RSQRT, f64, f64>,
     "d = 1 / the square root of a" APPROXIMATE},
    {"sqrt.approx{.ftz,}.f32", "d:t, a:t", pick_real<SQRT_APPROX, 1, FTZ>,
     "d = the square root of a" APPROXIMATE},
    {"rsqrt.approx{.ftz,}.f32", "d:t, a:t", pick_real<RSQRT, 1, FTZ>,
     "d = 1 / the square root of a" APPROXIMATE},
    {"sin.approx{.ftz,}.f32", "d:t, a:t", pick_real<SIN, 1, FTZ>, "d = sin(a)" APPROXIMATE},
    {"cos.approx{.ftz,}.f32", "d:t, a:t", pick_real<COS, 1, FTZ>, "d = cos(a)" APPROXIMATE},
    {"lg2.approx{.ftz,}.f32", "d:t, a:t", pick_real<LG2, 1, FTZ>, "d = log2(a)" APPROXIMATE},
    {"ex2.approx{.ftz,}{.f32," HALVES, "d:t, a:t", pick_real<EX2, 1, FTZ>, "d = 2^a" APPROXIMATE},
    {"tanh.approx{.f32," HALVES, "d:t, a:t", pick_real<TANH, 1, 0>, "d = tanh(a)" APPROXIMATE},
};

}  // namespace
}  // namespace machine::elementwise

const machine::Section machine::sections::RARE_REAL{"Rarer: real numbers",
                                                    machine::elementwise::ROWS};
