// Moves, arithmetic and logic. An operation is a lambda on values, named as PTX names it; the table
// below says which instructions it is. It knows nothing of memory or of other lanes.
#include "common/machine/ops/elementwise.h"

namespace machine::elementwise {
namespace {

// ---- Integers -----------------------------------------------------------------------------------

constexpr auto ADD = [](auto a, auto b) { return with_payload(a + b, a, b, b); };
constexpr auto SUB = [](auto a, auto b) { return with_payload(a - b, a, b, b); };
constexpr auto ADD_SAT = [](int32_t a, int32_t b) { return saturate(int64_t{a} + b); };
constexpr auto SUB_SAT = [](int32_t a, int32_t b) { return saturate(int64_t{a} - b); };
constexpr auto MUL_LO = [](auto a, auto b) {
  using Wide = std::conditional_t<sizeof a == 8, uint64_t, uint32_t>;
  return Wide{a} * Wide{b};
};
constexpr auto MAD_LO = [](auto a, auto b, auto c) { return MUL_LO(a, b) + c; };
// PTX leaves division by zero open. The largest negative number divided by -1 must not trap here.
constexpr auto DIV = [](auto a, auto b) {
  using T = decltype(a);
  if (b == 0) return static_cast<T>(-1);
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) {
    return static_cast<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(a));
  }
  return static_cast<T>(a / b);
};
constexpr auto REM = [](auto a, auto b) {
  using T = decltype(a);
  if (b == 0) return static_cast<T>(-1);
  return std::is_signed_v<T> && b == static_cast<T>(-1) ? T{0} : static_cast<T>(a % b);
};
constexpr auto MIN = [](auto a, auto b) { return a < b ? a : b; };
constexpr auto MAX = [](auto a, auto b) { return a < b ? b : a; };
constexpr auto NEG = [](auto a) { return decltype(a){0} - a; };
constexpr auto ABS = [](auto a) { return a >> (BITS<decltype(a)> - 1) ? decltype(a){0} - a : a; };
constexpr auto AND = [](auto a, auto b) { return a & b; };
constexpr auto OR = [](auto a, auto b) { return a | b; };
constexpr auto XOR = [](auto a, auto b) { return a ^ b; };
constexpr auto NOT = [](auto a) { return ~a; };
constexpr auto SHL = [](auto a, uint32_t n) {
  return n < BITS<decltype(a)> ? a << n : decltype(a){0};
};
constexpr auto SHR = [](auto a, uint32_t n) {
  constexpr uint32_t LAST = BITS<decltype(a)> - 1;
  if constexpr (std::is_signed_v<decltype(a)>) {
    return a >> (n < LAST ? n : LAST);
  } else {
    return n <= LAST ? a >> n : decltype(a){0};
  }
};
constexpr auto BFI = [](auto a, auto b, uint32_t c, uint32_t d) {
  using U = decltype(a);
  const uint32_t at = c & FIELD_MASK<U>, length = d & FIELD_MASK<U>;
  if (at >= BITS<U>) return b;
  const U field = (length < BITS<U> ? (U{1} << length) - 1 : ~U{0}) << at;
  return (b & ~field) | (a << at & field);
};

template <auto OP, auto SATURATED>
Handler pick_sum(Opcode& opcode) {
  if (is_float(opcode.type())) return pick_real<OP, 2, F32_FLAGS>(opcode);
  if (opcode.type() == s32 && opcode.has(".sat")) return apply<SATURATED, 0, s32, s32, s32>;
  return flags_of(opcode) == 0 ? pick_bits<OP, 2>(opcode) : nullptr;
}
Handler pick_mul_wide(Opcode& opcode) {
  return for_type<s16, u16, s32, u32>(
      opcode.type(), []<Type T>() -> Handler { return apply<MUL_WIDE, 0, twice(T), T, T>; });
}
Handler pick_bfi(Opcode& opcode) {
  return for_type<u32, u64>(opcode.type(),
                            []<Type T>() -> Handler { return apply<BFI, 0, T, T, T, u32, u32>; });
}
template <auto OP, int N>
Step logic_predicate(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t a = get_pred(warp, inst.slots[1]);
  if constexpr (N == 1) {
    set_pred(warp, inst.op[0], mask, OP(a));
  } else {
    set_pred(warp, inst.op[0], mask, OP(a, get_pred(warp, inst.slots[2])));
  }
  return Step::next;
}
template <auto OP, int N>
Handler pick_logic(Opcode& opcode) {
  return opcode.type() == pred ? logic_predicate<OP, N> : pick_bits<OP, N>(opcode);
}

// ---- Floating point -----------------------------------------------------------------------------

constexpr auto MUL = [](auto a, auto b) { return with_payload(a * b, a, b, b); };
constexpr auto FDIV = [](auto a, auto b) { return a / b; };
constexpr auto FMA = [](auto a, auto b, auto c) {
  return with_payload(std::fma(a, b, c), a, b, c);
};
template <bool MAXIMUM, bool NAN_WINS, bool XORSIGN>
constexpr auto FMINMAX = [](auto a, auto b) {
  using T = decltype(a);
  using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  constexpr U SIGN = U{1} << (BITS<T> - 1);
  const U sign = (std::bit_cast<U>(a) ^ std::bit_cast<U>(b)) & SIGN;
  if constexpr (XORSIGN) {
    a = std::fabs(a);
    b = std::fabs(b);
  }
  const bool negative = (std::bit_cast<U>(MAXIMUM ? b : a) & SIGN) != 0;  // -0 < +0
  const bool a_wins = (MAXIMUM ? a > b : a < b) | ((a == b) & negative);
  const T result = (a_wins | (b != b)) ? a : b;
  const T chosen = NAN_WINS && a != a ? a : NAN_WINS && b != b ? b : result;
  if constexpr (XORSIGN) return std::bit_cast<T>(std::bit_cast<U>(chosen) | sign);
  if constexpr (sizeof(T) == 8) return chosen != chosen ? with_payload(chosen, a, b, b) : chosen;
  return chosen;
};
constexpr auto FABS = [](auto a) { return with_payload(std::fabs(a), a, a, a); };
constexpr auto FNEG = [](auto a) { return with_payload(-a, a, a, a); };

template <auto OP, auto INTEGER_OP>
Handler pick_negation(Opcode& opcode) {
  return is_float(opcode.type()) ? pick_real<OP, 1, FTZ>(opcode) : pick_bits<INTEGER_OP, 1>(opcode);
}
template <bool MAXIMUM>
Handler pick_extreme(Opcode& opcode) {
  if (!is_float(opcode.type())) {
    return MAXIMUM ? pick_signed<MAX, 2>(opcode) : pick_signed<MIN, 2>(opcode);
  }
  const bool nan_wins = opcode.has(".NaN");
  if (opcode.has(".xorsign")) {
    return nan_wins ? pick_real<FMINMAX<MAXIMUM, true, true>, 2, FTZ>(opcode)
                    : pick_real<FMINMAX<MAXIMUM, false, true>, 2, FTZ>(opcode);
  }
  return nan_wins ? pick_real<FMINMAX<MAXIMUM, true, false>, 2, FTZ>(opcode)
                  : pick_real<FMINMAX<MAXIMUM, false, false>, 2, FTZ>(opcode);
}

// ---- Moves --------------------------------------------------------------------------------------

// mov d, {a, b, …} and mov {d, e, …}, a: the first part is the lowest. mods: bits of a part.
template <class T>
Step pack(Warp& warp, const Inst& inst, uint32_t mask) {
  T* const d = warp.row<T>(inst.op[0]);
  const T kept = (T{1} << inst.mods) - 1;
  for (uint32_t i = 1; i < inst.slot_count; ++i) {
    const uint32_t shift = (i - 1) * inst.mods;
    const uint32_t* const part = warp.row<uint32_t>(inst.slots[i].row);
    lanes(mask, [=](uint32_t lane) {
      d[lane] = (i == 1 ? T{0} : d[lane]) | (T{part[lane]} & kept) << shift;
    });
  }
  return Step::next;
}
template <class T>
Step unpack(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t parts = inst.slot_count - 1;
  const T* const a = warp.row<T>(inst.slots[parts].row);
  const T kept = (T{1} << inst.mods) - 1;
  for (uint32_t i = 0; i < parts; ++i) {
    const uint32_t shift = i * inst.mods;
    uint32_t* const part = warp.row<uint32_t>(inst.slots[i].row);
    lanes(mask,
          [=](uint32_t lane) { part[lane] = static_cast<uint32_t>(a[lane] >> shift & kept); });
  }
  return Step::next;
}

Handler pick_mov(Opcode& opcode) {
  if (opcode.operands->size() != 2) return nullptr;
  const Operand &d = opcode.operands->at(0), &a = opcode.operands->at(1);
  const bool wide = bytes_of(opcode.type()) == 8;
  const bool packs = a.kind == Operand::Kind::vector, unpacks = d.kind == Operand::Kind::vector;
  if (!packs && !unpacks) return pick_logic<SAME, 1>(opcode);
  const auto parts = static_cast<uint32_t>(packs ? a.parts.size() : d.parts.size());
  if ((packs && unpacks) || bytes_of(opcode.type()) < parts || (parts != 2 && parts != 4)) {
    return nullptr;
  }
  opcode.mods = 8 * bytes_of(opcode.type()) / parts;
  if (packs) return wide ? pack<uint64_t> : pack<uint32_t>;
  return wide ? unpack<uint64_t> : unpack<uint32_t>;
}

const Row ROWS[] = {
    {"mov{.pred,.b16,.u16,.s16,.b32,.u32,.s32,.f32,.b64,.u64,.s64,.f64}", "*", pick_mov,
     "d = a; d = {a, b, ...} packs, {d, e, ...} = a unpacks, the lowest part first"},
    {"add" ROUNDED NUMBERS, "d:t, a:t, b:t", pick_sum<ADD, ADD_SAT>, "d = a + b"},
    {"sub" ROUNDED NUMBERS, "d:t, a:t, b:t", pick_sum<SUB, SUB_SAT>, "d = a - b"},
    {"mul.lo" INTEGERS, "d:t, a:t, b:t", pick_bits<MUL_LO, 2>, "d = the lower half of a * b"},
    {"mul.hi" INTEGERS, "d:t, a:t, b:t", pick_signed<MUL_HI, 2>, "d = the upper half of a * b"},
    {"mul.wide{.s16,.u16,.s32,.u32}", "d:w, a:t, b:t", pick_mul_wide, "d = a * b"},
    {"mul" ROUNDED REALS, "d:t, a:t, b:t", pick_real<MUL, 2, F32_FLAGS>, "d = a * b"},
    {"mad.lo" INTEGERS, "d:t, a:t, b:t, c:t", pick_bits<MAD_LO, 3>,
     "d = the lower half of a * b, + c"},
    {"fma" ROUNDED "{.f32,.f64}", "d:t, a:t, b:t, c:t", pick_wide<FMA, 3, F32_FLAGS>,
     "d = a * b + c, rounded once"},
    {"mad" ROUNDED "{.f32,.f64}", "d:t, a:t, b:t, c:t", pick_wide<FMA, 3, F32_FLAGS>, "as fma"},
    {"div" INTEGERS, "d:t, a:t, b:t", pick_signed<DIV, 2>, "d = a / b; all ones if b is 0"},
    {"rem" INTEGERS, "d:t, a:t, b:t", pick_signed<REM, 2>, "d = a % b; all ones if b is 0"},
    {"div{.rn,.rz,.rm,.rp}{.ftz,}{.f32,.f64}", "d:t, a:t, b:t", pick_wide<FDIV, 2, FTZ | DIRECTED>,
     "d = a / b"},
    {"min{.ftz,}{.NaN,}{.xorsign.abs,}" NUMBERS, "d:t, a:t, b:t", pick_extreme<false>,
     "d = min(a, b); of a NaN and a number the number, with .NaN the NaN"},
    {"max{.ftz,}{.NaN,}{.xorsign.abs,}" NUMBERS, "d:t, a:t, b:t", pick_extreme<true>,
     "d = max(a, b), as min"},
    {"neg{.ftz,}{.s16,.s32,.s64,.f32,.f64," HALVES, "d:t, a:t", pick_negation<FNEG, NEG>, "d = -a"},
    {"abs{.ftz,}{.s16,.s32,.s64,.f32,.f64," HALVES, "d:t, a:t", pick_negation<FABS, ABS>,
     "d = |a|"},
    {"and{.pred,.b16,.b32,.b64}", "d:t, a:t, b:t", pick_logic<AND, 2>, "d = a & b"},
    {"or{.pred,.b16,.b32,.b64}", "d:t, a:t, b:t", pick_logic<OR, 2>, "d = a | b"},
    {"xor{.pred,.b16,.b32,.b64}", "d:t, a:t, b:t", pick_logic<XOR, 2>, "d = a ^ b"},
    {"not{.pred,.b16,.b32,.b64}", "d:t, a:t", pick_logic<NOT, 1>, "d = ~a"},
    {"shl{.b16,.b32,.b64}", "d:t, a:t, n:32", pick_shift<SHL, u16, u32, u64>,
     "d = a << n; 0 if n is too large"},
    {"shr{.b16,.b32,.b64,.u16,.u32,.u64,.s16,.s32,.s64}", "d:t, a:t, n:32",
     pick_shift<SHR, s16, s32, s64, u16, u32, u64>, "d = a >> n; 0 or the sign if n is too large"},
    {"bfi{.b32,.b64}", "d:t, a:t, b:t, at:32, length:32", pick_bfi,
     "d = b with a field replaced by a"},
};

}  // namespace
}  // namespace machine::elementwise

const machine::Section machine::sections::ALU{"Moves, arithmetic and logic",
                                              machine::elementwise::ROWS};
