// Arithmetic of integers and bits that few kernels of this repository have, or none. It knows
// nothing of memory or of other lanes.
#include "common/machine/ops/elementwise.h"

#include <limits>

namespace machine::elementwise {
namespace {

constexpr auto MAD_HI = [](auto a, auto b, auto c) {
  return static_cast<Unsigned<decltype(c)>>(MUL_HI(a, b)) + static_cast<Unsigned<decltype(c)>>(c);
};
constexpr auto MAD_HI_SAT = [](int32_t a, int32_t b, int32_t c) {
  return saturate((int64_t{a} * b >> 32) + c);
};
constexpr auto MAD_WIDE = [](auto a, auto b, auto c) {
  return static_cast<Unsigned<decltype(c)>>(MUL_WIDE(a, b)) + static_cast<Unsigned<decltype(c)>>(c);
};
struct Half {
  bool high;  // of mul24: bits 16 to 47 of the product
};
constexpr auto MUL24 = [](Half half, auto a, auto b) {
  using T = decltype(a);
  const auto low24 = [](T x) {
    return Twice<T>{static_cast<T>(static_cast<uint32_t>(x) << 8) >> 8};
  };
  const Twice<T> product = low24(a) * low24(b);
  return static_cast<T>(half.high ? product >> 16 : product);
};
constexpr auto MAD24 = [](Half half, auto a, auto b, auto c) {
  return static_cast<uint32_t>(MUL24(half, a, b)) + static_cast<uint32_t>(c);
};
constexpr auto MAD24_HI_SAT = [](int32_t a, int32_t b, int32_t c) {
  return saturate(int64_t{MUL24(Half{true}, a, b)} + c);
};
constexpr auto SAD = [](auto a, auto b, auto c) {
  using U = Unsigned<decltype(a)>;
  const U x = static_cast<U>(a), y = static_cast<U>(b);
  return static_cast<U>(c) + static_cast<U>(a < b ? y - x : x - y);
};
constexpr auto ADD_PAIR = [](auto a, auto b) { return static_cast<uint32_t>(a) + b; };
constexpr auto MIN = [](auto a, auto b) { return std::min(a, b); };
constexpr auto MAX = [](auto a, auto b) { return std::max(a, b); };
constexpr auto MIN_RELU = [](auto a, auto b) { return std::max(std::min(a, b), decltype(a){0}); };
constexpr auto MAX_RELU = [](auto a, auto b) { return std::max({a, b, decltype(a){0}}); };
constexpr auto CNOT = [](auto a) { return a == 0 ? 1 : 0; };
constexpr auto SHF = [](Shift how, uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t both = uint64_t{b} << 32 | a;
  const uint32_t n = how.bits(c);
  return static_cast<uint32_t>(how.left ? both << n >> 32 : both >> n);
};
constexpr auto POPC = [](auto a) { return std::popcount(static_cast<Unsigned<decltype(a)>>(a)); };
constexpr auto CLZ = [](auto a) { return std::countl_zero(static_cast<Unsigned<decltype(a)>>(a)); };
constexpr auto BREV = [](auto a) {
  uint64_t x = a;
  x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
  x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
  return static_cast<decltype(a)>(__builtin_bswap64(x) >> (64 - BITS<decltype(a)>));
};
struct Find {
  bool shift_amount;
};
constexpr auto BFIND = [](Find how, auto a) {
  const auto bits = static_cast<Unsigned<decltype(a)>>(a < 0 ? ~a : a);
  const auto above = static_cast<uint32_t>(std::countl_zero(bits));
  if (bits == 0) return UINT32_MAX;
  return how.shift_amount ? above : BITS<decltype(a)> - 1 - above;
};
constexpr auto BFE = [](auto a, uint32_t b, uint32_t c) {
  using U = Unsigned<decltype(a)>;
  constexpr uint32_t N = BITS<U>;
  const uint64_t at = b & FIELD_MASK<U>, length = c & FIELD_MASK<U>;
  if (length == 0) return U{0};
  const U x = static_cast<U>(a);
  const U field = at < N ? x >> at : U{0};
  U kept = length < N ? (U{1} << length) - 1 : ~U{0};
  kept &= at < N ? ~U{0} >> at : U{0};  // the source has no more bits
  const bool fill =
      std::is_signed_v<decltype(a)> && (x >> std::min<uint64_t>(at + length - 1, N - 1) & 1);
  return (field & kept) | (fill ? ~kept : U{0});
};
constexpr auto FNS = [](uint32_t mask, uint32_t base, int32_t offset) {
  const int step = offset > 0 ? 1 : offset < 0 ? -1 : 32;  // 0: of base alone
  int64_t left = std::max(std::abs(int64_t{offset}), int64_t{1});
  for (int64_t at = base; 0 <= at && at <= 31; at += step) {
    if ((mask >> at & 1) != 0 && --left == 0) return static_cast<uint32_t>(at);
  }
  return UINT32_MAX;
};
constexpr auto BMSK = [](Shift how, uint32_t a, uint32_t b) {
  const uint32_t at = a & 31, length = how.bits(b);
  const bool outside = !how.wraps && a > 31;
  return outside ? 0 : static_cast<uint32_t>(((uint64_t{1} << length) - 1) << at);
};
constexpr auto SZEXT = [](Shift how, auto a, uint32_t b) {
  using T = decltype(a);
  const uint32_t length = how.bits(b);
  if (length == 0) return T{0};
  return static_cast<T>(static_cast<T>(static_cast<uint32_t>(a) << (32 - length)) >> (32 - length));
};

constexpr uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t which = selector >> 4 * i;
    const uint32_t byte = both >> 8 * (which & 7) & 0xff;
    result |= (which & 8 ? (byte >> 7) * 0xff : byte) << 8 * i;  // 8: its sign, eight times
  }
  return result;
}
constexpr auto PRMT = [](uint32_t a, uint32_t b, uint32_t c) { return permute(a, b, c); };
constexpr std::string_view PRMT_MODES[] = {".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"};
constexpr uint32_t PRMT_SELECTORS[std::size(PRMT_MODES)][4] = {
    {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
    {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
    {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232},
};
struct Mode {
  uint8_t index;  // into PRMT_MODES
};
constexpr auto PRMT_MODE = [](Mode mode, uint32_t a, uint32_t b, uint32_t c) {
  return permute(a, b, PRMT_SELECTORS[mode.index][c & 3]);
};

struct Dot {
  bool a_signed, b_signed, upper_pair;
};
constexpr uint32_t field_of(uint32_t x, uint32_t i, uint32_t bits, bool is_signed) {
  const uint32_t sign = is_signed ? 1u << (bits - 1) : 0;
  return ((x >> i * bits & ((1u << bits) - 1)) ^ sign) - sign;
}
constexpr auto DP4A = [](Dot dot, uint32_t a, uint32_t b, uint32_t c) {
  for (uint32_t i = 0; i < 4; ++i) {
    c += field_of(a, i, 8, dot.a_signed) * field_of(b, i, 8, dot.b_signed);
  }
  return c;
};
constexpr auto DP2A = [](Dot dot, uint32_t a, uint32_t b, uint32_t c) {
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t byte = dot.upper_pair ? i + 2 : i;
    c += field_of(a, i, 16, dot.a_signed) * field_of(b, byte, 8, dot.b_signed);
  }
  return c;
};

Handler pick_mad_wide(Opcode& opcode) {
  return for_type<s16, u16, s32, u32>(opcode.type(), []<Type T>() -> Handler {
    return apply<MAD_WIDE, 0, twice(T), T, T, twice(T)>;
  });
}
template <auto OP, int N>
Handler pick_24(Opcode& opcode) {
  opcode.set(Half{opcode.has(".hi")});
  return pick_same<OP, N, s32, u32>(opcode);
}
Handler pick_shf(Opcode& opcode) {
  opcode.set(Shift{opcode.has(".wrap"), opcode.has(".l")});
  return apply<SHF, 0, u32, u32, u32, u32>;
}
template <auto OP>
Handler pick_count(Opcode& opcode) {
  opcode.set(Find{opcode.has(".shiftamt")});
  return for_type<s32, u32, s64, u64>(opcode.type(),
                                      []<Type T>() -> Handler { return apply<OP, 0, u32, T>; });
}
Handler pick_bfe(Opcode& opcode) {
  return for_type<s32, u32, s64, u64>(
      opcode.type(), []<Type T>() -> Handler { return apply<BFE, 0, T, T, u32, u32>; });
}
Handler pick_prmt(Opcode& opcode) {
  const uint32_t mode = which(opcode, PRMT_MODES);
  if (mode == 0) return apply<PRMT, 0, u32, u32, u32, u32>;
  opcode.set(Mode{static_cast<uint8_t>(mode - 1)});
  return apply<PRMT_MODE, 0, u32, u32, u32, u32>;
}
template <auto OP>
Handler pick_dot(Opcode& opcode) {
  opcode.set(Dot{is_signed(opcode.type(0)), is_signed(opcode.type(1)), opcode.has(".hi")});
  return apply<OP, 0, u32, u32, u32, u32>;
}

// A tree of multiplexers over the table's eight bits; `a` is the first of four operands.
void look_up(Warp& warp, uint32_t d_row, const Slot* a_slot, uint32_t mask) {
  const uint32_t table = warp.row<uint32_t>(a_slot[3].row)[0];
  const auto bit = [table](uint32_t i) { return 0u - (table >> i & 1); };
  const uint32_t m0 = bit(0), m2 = bit(2), m4 = bit(4), m6 = bit(6);
  const uint32_t d0 = m0 ^ bit(1), d2 = m2 ^ bit(3), d4 = m4 ^ bit(5), d6 = m6 ^ bit(7);
  lanes(mask,
        [=, d = warp.row<uint32_t>(d_row), a = warp.row<uint32_t>(a_slot[0].row),
         b = warp.row<uint32_t>(a_slot[1].row), c = warp.row<uint32_t>(a_slot[2].row)](uint32_t l) {
          const uint32_t c0 = m0 ^ (c[l] & d0), c2 = m2 ^ (c[l] & d2);
          const uint32_t c4 = m4 ^ (c[l] & d4), c6 = m6 ^ (c[l] & d6);
          const uint32_t low = c0 ^ (b[l] & (c0 ^ c2)), high = c4 ^ (b[l] & (c4 ^ c6));
          d[l] = low ^ (a[l] & (low ^ high));
        });
}
Step lop3(Warp& warp, const Inst& inst, uint32_t mask) {
  look_up(warp, inst.op[0], inst.slots + 1, mask);
  return Step::next;
}
// Of d|p, a, b, c, table, q. The predicate is that of the result, also where d is the sink.
template <bool AND>
Step lop3_test(Warp& warp, const Inst& inst, uint32_t mask) {
  look_up(warp, inst.op[0], inst.slots + 2, mask);
  const uint32_t* const d = warp.row<uint32_t>(inst.op[0]);
  const uint32_t set = lanes_where(mask, [d](uint32_t lane) { return d[lane] != 0; });
  const uint32_t q = get_pred(warp, inst.slots[6]);
  set_pred(warp, inst.op[1], mask, AND ? set & q : set | q);
  return Step::next;
}
Handler pick_lop3_test(Opcode& opcode) {
  if (opcode.operands->at(0).kind != Operand::Kind::vector) return nullptr;
  return opcode.has(".and") ? lop3_test<true> : lop3_test<false>;
}

// ---- The carry flag -----------------------------------------------------------------------------

// A subtraction adds what b is not, and 1 or the flag: so the flag says that nothing was borrowed.
// The toolkit's division of 128 bits reads it by addc behind subc.cc.
struct Carry {
  bool in : 1, out : 1, subtracts : 1, multiplies : 1, high_product : 1;
};

template <class T>
Step carry(Warp& warp, const Inst& inst, uint32_t mask) {
  using U = Unsigned<T>;
  const T* const a = warp.row<T>(inst.op[1]);
  const T* const b = warp.row<T>(inst.op[2]);
  const U* const c = warp.row<U>(inst.op[3]);
  U* const d = warp.row<U>(inst.op[0]);
  const uint32_t flags = warp.pred(CARRY_ROW);
  const auto how = inst.as<Carry>();
  uint32_t carries = 0;
  for_lanes(mask, [&](uint32_t lane) {
    const Twice<T> product = MUL_WIDE(a[lane], b[lane]);
    const U x = static_cast<U>(!how.multiplies    ? a[lane]
                               : how.high_product ? product >> BITS<T>
                                                  : product);
    const U y = static_cast<U>(how.multiplies ? c[lane] : how.subtracts ? ~b[lane] : b[lane]);
    const U in = how.in ? flags >> lane & 1 : how.subtracts;
    const Twice<U> result = Twice<U>{x} + y + in;
    d[lane] = static_cast<U>(result);
    carries |= static_cast<uint32_t>(result >> BITS<T> & 1) << lane;
  });
  if (how.out) warp.pred(CARRY_ROW) = (flags & ~mask) | carries;
  return Step::next;
}

Handler pick_carry(Opcode& opcode) {
  const std::string_view base = opcode.text.substr(0, opcode.text.find('.'));
  const bool takes = base.size() == 4;  // addc, subc, madc
  opcode.set(Carry{takes, opcode.has(".cc"), base.starts_with("sub"), base.starts_with("mad"),
                   opcode.has(".hi")});
  return for_type<s32, u32, s64, u64>(opcode.type(),
                                      []<Type T>() -> Handler { return carry<Value<T>>; });
}

// a above b, both saturated; c's lower bits above them.
template <class T>
constexpr auto CVT_PACK = [](int32_t a, int32_t b, uint32_t c) {
  const auto bits = [](int32_t x) -> uint32_t {
    return static_cast<Unsigned<T>>(
        std::clamp<int32_t>(x, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  };
  return static_cast<uint32_t>(uint64_t{c} << 2 * BITS<T>) | bits(a) << BITS<T> | bits(b);
};
template <class T>
constexpr auto CVT_PACK_16 = [](int32_t a, int32_t b) { return CVT_PACK<T>(a, b, 0); };
Handler pick_cvt_pack(Opcode& opcode) {
  if (opcode.type() == u16) return apply<CVT_PACK_16<uint16_t>, 0, u32, s32, s32>;
  if (opcode.type() == s16) return apply<CVT_PACK_16<int16_t>, 0, u32, s32, s32>;
  if (opcode.type() == u8) return apply<CVT_PACK<uint8_t>, 0, u32, s32, s32, u32>;
  return apply<CVT_PACK<int8_t>, 0, u32, s32, s32, u32>;
}

const Row ROWS[] = {
    {"mad.hi" INTEGERS, "d:t, a:t, b:t, c:t", pick_signed<MAD_HI, 3>,
     "d = the upper half of a * b, + c"},
    {"mad.hi.sat.s32", "d:t, a:t, b:t, c:t", pick<MAD_HI_SAT, s32, s32, s32, s32>,
     "as mad.hi, saturated"},
    {"mad.wide{.s16,.u16,.s32,.u32}", "d:w, a:t, b:t, c:w", pick_mad_wide, "d = a * b + c"},
    {"mul24{.lo,.hi}{.s32,.u32}", "d:t, a:t, b:t", pick_24<MUL24, 2>,
     "d = bits 0-31 or 16-47 of the product of the lower 24 bits"},
    {"mad24{.lo,.hi}{.s32,.u32}", "d:t, a:t, b:t, c:t", pick_24<MAD24, 3>, "d = mul24(a, b) + c"},
    {"mad24.hi.sat.s32", "d:t, a:t, b:t, c:t", pick<MAD24_HI_SAT, s32, s32, s32, s32>,
     "d = mul24.hi(a, b) + c, saturated"},
    {"sad" INTEGERS, "d:t, a:t, b:t, c:t", pick_signed<SAD, 3>, "d = c + |a - b|"},
    {"min.relu{.s32,.s16x2}", "d:t, a:t, b:t", pick_same<MIN_RELU, 2, s32, s16x2>,
     "d = max(min(a, b), 0)"},
    {"max.relu{.s32,.s16x2}", "d:t, a:t, b:t", pick_same<MAX_RELU, 2, s32, s16x2>,
     "d = max(a, b, 0)"},
    {"add{.s16x2,.u16x2}", "d:t, a:t, b:t", pick_same<ADD_PAIR, 2, s16x2, u16x2>,
     "d = a + b, half by half"},
    {"min{.s16x2,.u16x2}", "d:t, a:t, b:t", pick_same<MIN, 2, s16x2, u16x2>,
     "d = min(a, b), half by half"},
    {"max{.s16x2,.u16x2}", "d:t, a:t, b:t", pick_same<MAX, 2, s16x2, u16x2>,
     "d = max(a, b), half by half"},
    {"add.cc{.s32,.u32,.s64,.u64}", "d:t, a:t, b:t", pick_carry, "d = a + b, sets the carry flag"},
    {"addc{.cc,}{.s32,.u32,.s64,.u64}", "d:t, a:t, b:t", pick_carry, "d = a + b + carry"},
    {"sub.cc{.s32,.u32,.s64,.u64}", "d:t, a:t, b:t", pick_carry,
     "d = a - b, sets the carry flag if nothing is borrowed"},
    {"subc{.cc,}{.s32,.u32,.s64,.u64}", "d:t, a:t, b:t", pick_carry, "d = a - b - 1 + carry"},
    {"mad{.lo,.hi}.cc{.s32,.u32,.s64,.u64}", "d:t, a:t, b:t, c:t", pick_carry,
     "d = half of a * b, + c, sets the carry flag"},
    {"madc{.lo,.hi}{.cc,}{.s32,.u32,.s64,.u64}", "d:t, a:t, b:t, c:t", pick_carry,
     "d = half of a * b, + c + carry"},
    {"cnot{.b16,.b32,.b64}", "d:t, a:t", pick_bits<CNOT, 1>, "d = 1 if a is 0, else 0"},
    {"lop3.b32", "d:t, a:t, b:t, c:t, table:32", always<lop3>,
     "d = for each bit, bit 4a + 2b + c of the table"},
    {"lop3{.or,.and}.b32", "d:t|p:p, a:t, b:t, c:t, table:32, q:p", pick_lop3_test,
     "as lop3.b32; p = (d != 0) or, and q"},
    {"shf{.l,.r}{.clamp,.wrap}.b32", "d:t, a:t, b:t, n:t", pick_shf,
     "d = the upper half of {b, a} << n, or the lower half of {b, a} >> n"},
    {"bfe{.s32,.u32,.s64,.u64}", "d:t, a:t, at:32, length:32", pick_bfe, "d = a field of a"},
    {"bfind{.shiftamt,}{.s32,.u32,.s64,.u64}", "d:32, a:t", pick_count<BFIND>,
     "d = the place of the highest bit that is not the sign, or the shift that moves it to the "
     "top"},
    {"brev{.b32,.b64}", "d:t, a:t", pick_bits<BREV, 1>, "d = a, its bits reversed"},
    {"popc{.b32,.b64}", "d:32, a:t", pick_count<POPC>, "d = how many bits are 1"},
    {"clz{.b32,.b64}", "d:32, a:t", pick_count<CLZ>, "d = how many upper bits are 0"},
    {"fns.b32", "d:t, a:t, base:t, n:t", pick<FNS, u32, u32, u32, s32>,
     "d = the place of the n-th bit that is 1, from base"},
    {"bmsk{.clamp,.wrap}.b32", "d:t, at:t, length:t", pick_shift<BMSK, u32>, "d = ones in a field"},
    {"szext{.clamp,.wrap}{.s32,.u32}", "d:t, a:t, n:32", pick_shift<SZEXT, s32, u32>,
     "d = the lower n bits of a, extended"},
    {"prmt.b32{.f4e,.b4e,.rc8,.ecl,.ecr,.rc16,}", "d:t, a:t, b:t, c:t", pick_prmt,
     "d = four of the bytes of {b, a}, as c picks"},
    {"dp4a{.s32,.u32}{.s32,.u32}", "d:32, a:32, b:32, c:32", pick_dot<DP4A>,
     "d = c + the dot product of four bytes"},
    {"dp2a{.lo,.hi}{.s32,.u32}{.s32,.u32}", "d:32, a:32, b:32, c:32", pick_dot<DP2A>,
     "d = c + the dot product of a's halves and two bytes of b"},
    {"cvt.pack.sat{.u16,.s16}.s32", "d:32, a:32, b:32", pick_cvt_pack,
     "d = {a, b} saturated; a becomes the upper half"},
    {"cvt.pack.sat{.u8,.s8}.s32.b32", "d:32, a:32, b:32, c:32", pick_cvt_pack,
     "d = {c's lower half, a, b}, a and b saturated"},
};

}  // namespace
}  // namespace machine::elementwise

const machine::Section machine::sections::RARE_INTEGER{"Rarer: integers and bits",
                                                       machine::elementwise::ROWS};
