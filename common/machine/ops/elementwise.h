// What elementwise instructions are made of: loops over the lanes of rows. An operation is a lambda on
// values; get() and put() turn a lane's bits into a value and back, and do what .ftz, .sat and .relu
// say. It knows nothing of memory, of other warps, or of the checker.
#pragma once

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <utility>

#include "common/machine/ops/number.h"
#include "common/machine/ops/operands.h"

namespace machine::elementwise {

using enum Type;

// ---- Types and values ---------------------------------------------------------------------------

constexpr Type half_of(Type type) {  // of a packed type; others stay
  return type == f16x2    ? f16
         : type == bf16x2 ? bf16
         : type == s16x2  ? s16
         : type == u16x2  ? u16
                          : type;
}
constexpr Type unsigned_of(Type type) {
  const uint32_t bytes = bytes_of(type);
  return bytes == 1 ? u8 : bytes == 2 ? u16 : bytes == 4 ? u32 : u64;
}
constexpr Type twice(Type type) {  // as wide
  return type == s16 ? s32 : type == u16 ? u32 : type == s32 ? s64 : u64;
}

template <Type T>
constexpr auto value_of_type() {
  if constexpr (T == s8) return int8_t{};
  if constexpr (T == u8) return uint8_t{};
  if constexpr (T == s16) return int16_t{};
  if constexpr (T == u16) return uint16_t{};
  if constexpr (T == s32) return int32_t{};
  if constexpr (T == s64) return int64_t{};
  if constexpr (T == u64) return uint64_t{};
  if constexpr (T == f64) return double{};
  if constexpr (T == f32 || T == f16 || T == bf16) return float{};
  if constexpr (T == u32 || half_of(T) != T) return uint32_t{};
}

// What is computed with, and what a lane of a row holds.
template <Type T>
using Value = decltype(value_of_type<T>());
template <Type T>
using Bits = std::conditional_t<bytes_of(T) == 8, uint64_t, uint32_t>;

constexpr Format F32{8, 23, true};

constexpr uint32_t flush_f32(uint32_t bits) {
  return bits & ((bits & 0x7f800000) == 0 ? 0x80000000 : 0xffffffff);
}
constexpr uint32_t flush_f16(uint32_t code) {
  return code & ((code & F16.infinity()) == 0 ? F16.sign() : 0xffff);
}

// Flags that a handler is made for.
constexpr uint32_t FTZ = 1, SAT = 2, RELU = 4;
constexpr uint32_t DIRECTED = 8;  // .rz, .rm or .rp: Inst::as<int>() is fesetround's argument
constexpr uint32_t F32_FLAGS = FTZ | SAT | DIRECTED;

template <Type T, uint32_t FLAGS>
Value<T> get(Bits<T> bits) {
  if constexpr (T == f32) {
    return std::bit_cast<float>(FLAGS & FTZ ? flush_f32(bits) : bits);
  } else if constexpr (T == f64) {
    return std::bit_cast<double>(bits);
  } else if constexpr (T == f16) {
    // A NaN's sign counts too: .xorsign.
    const float magnitude = decode<F16>((FLAGS & FTZ ? flush_f16(bits) : bits) & 0x7fff);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (bits & F16.sign()) << 16);
  } else if constexpr (T == bf16) {
    return std::bit_cast<float>(FLAGS & FTZ ? flush_f32(bits << 16) : bits << 16);
  } else {
    return static_cast<Value<T>>(bits);
  }
}

// Rounded to odd, so that rounding it again to half as many bits is harmless.
inline float odd_f32(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  const uint32_t bits = std::bit_cast<uint32_t>(nearest) - (std::fabs(back) > std::fabs(value));
  return std::bit_cast<float>(bits | (back != value));
}

template <Type T, uint32_t FLAGS, class Result>
Bits<T> put(Result result) {
  if constexpr (!is_float(T)) {
    return static_cast<std::make_unsigned_t<Value<T>>>(result);
  } else if constexpr (T == f64) {
    return std::bit_cast<uint64_t>(static_cast<double>(result));
  } else {
    if constexpr ((FLAGS & SAT) != 0) result = result > 0 ? (result < 1 ? result : 1) : 0;
    if constexpr ((FLAGS & RELU) != 0) result = result > 0 || result != result ? result : 0;
    if constexpr (T == f32) {
      const float value = static_cast<float>(result);
      uint32_t bits = std::bit_cast<uint32_t>(value);
      if constexpr ((FLAGS & FTZ) != 0) bits = flush_f32(bits);
      return value != value ? F32_NAN : bits;
    } else {
      float value;
      if constexpr (std::is_same_v<Result, double>) {
        value = odd_f32(result);
      } else {
        value = static_cast<float>(result);
      }
      if constexpr (T == bf16 && (FLAGS & FTZ) != 0) {
        value = std::bit_cast<float>(flush_f32(std::bit_cast<uint32_t>(value)));
      }
      if constexpr (T == bf16) return bf16_from_f32(value);
      const uint32_t code = f16_from_f32(value);
      return FLAGS & FTZ ? flush_f16(code) : code;
    }
  }
}

// Before a loop: no round depends on another one's result, so that the compiler may vectorize it.
#ifdef __clang__
#define INDEPENDENT_ROUNDS _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT_ROUNDS _Pragma("GCC ivdep")
#endif

// As for_lanes; rows are the same or disjoint, so that no lane depends on another one's result.
template <class F>
void lanes(uint32_t mask, F&& f) {
  if (mask != FULL) return for_lanes(mask, f);
  INDEPENDENT_ROUNDS
  for (uint32_t lane = 0; lane < LANES; ++lane) f(lane);
}

inline uint32_t row_of(const Inst& inst, size_t i) {
  return i < std::size(inst.op) ? inst.op[i] : inst.slots[i].row;
}

// An instruction's qualifiers, as the struct that an operation takes first.
struct AnyQualifiers {
  const Inst& inst;
  template <class Qualifiers>
  operator Qualifiers() const {
    return inst.as<Qualifiers>();
  }
};

template <auto OP, uint32_t FLAGS, Type D, Type... S>
Bits<D> evaluate(AnyQualifiers qualifiers, Bits<S>... s) {
  if constexpr (std::is_invocable_v<decltype(OP), AnyQualifiers, Value<S>...>) {
    return put<D, FLAGS>(OP(qualifiers, get<S, FLAGS>(s)...));
  } else {
    return put<D, FLAGS>(OP(get<S, FLAGS>(s)...));
  }
}

// d = OP(s...), or OP(qualifiers, s...) where it takes them; of packed types half by half.
template <auto OP, uint32_t FLAGS, Type D, Type... S>
void run(uint32_t mask, AnyQualifiers how, Bits<D>* d, const Bits<S>*... s) {
  constexpr Type H = half_of(D);
  if constexpr (H == D) {
    lanes(mask, [=](uint32_t lane) { d[lane] = evaluate<OP, FLAGS, D, S...>(how, s[lane]...); });
  } else {
    uint32_t lower[LANES];
    lanes(mask, [=, &lower](uint32_t lane) {
      lower[lane] = evaluate<OP, FLAGS, H, half_of(S)...>(how, lower_half(s[lane])...);
    });
    lanes(mask, [=, &lower](uint32_t lane) {
      const auto upper = evaluate<OP, FLAGS, H, half_of(S)...>(how, upper_half(s[lane])...);
      d[lane] = pack_x2(upper, lower[lane]);
    });
  }
}
template <auto OP, uint32_t FLAGS, Type D, Type... S>
[[gnu::flatten]] Step apply(Warp& warp, const Inst& inst, uint32_t mask) {
  const auto run_rows = [&]<size_t... I>(std::index_sequence<I...>) {
    run<OP, FLAGS, D, S...>(mask, {inst}, warp.row<Bits<D>>(inst.op[0]),
                            warp.row<Bits<S>>(row_of(inst, I + 1))...);
  };
  if constexpr ((FLAGS & DIRECTED) != 0) std::fesetround(inst.as<int>());
  run_rows(std::make_index_sequence<sizeof...(S)>{});
  if constexpr ((FLAGS & DIRECTED) != 0) std::fesetround(FE_TONEAREST);
  return Step::next;
}

// ---- Choosing handlers --------------------------------------------------------------------------

// make<T>() for the one of CHOICES that `type` is, else for the unsigned one of as many bits.
template <Type... CHOICES>
Handler for_type(Type type, auto make) {
  Handler found = nullptr;
  for (const Type wanted : {unsigned_of(type), type}) {
    ((wanted == CHOICES ? void(found = make.template operator()<CHOICES>()) : void()), ...);
  }
  return found;
}

template <auto OP, int N, uint32_t FLAGS, Type T>
constexpr Handler same_type() {  // of N sources
  if constexpr (N == 1) return apply<OP, FLAGS, T, T>;
  if constexpr (N == 2) return apply<OP, FLAGS, T, T, T>;
  if constexpr (N == 3) return apply<OP, FLAGS, T, T, T, T>;
}

template <auto OP, int N, Type... CHOICES>
Handler pick_same(Opcode& opcode) {
  return for_type<CHOICES...>(opcode.type(),
                              []<Type T>() -> Handler { return same_type<OP, N, 0, T>(); });
}
// Operations that are the same for signed and unsigned, and those that are not.
template <auto OP, int N>
constexpr auto pick_bits = pick_same<OP, N, u16, u32, u64>;
template <auto OP, int N>
constexpr auto pick_signed = pick_same<OP, N, s16, u16, s32, u32, s64, u64>;
// One form only.
template <auto OP, Type D, Type... S>
Handler pick(Opcode&) {
  return apply<OP, 0, D, S...>;
}

inline uint32_t flags_of(Opcode& opcode) {
  constexpr int MODES[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  const int mode = MODES[which(opcode, {".rz", ".rm", ".rp"})];
  opcode.set(mode);
  return (opcode.has(".ftz") ? FTZ : 0) | (opcode.has(".sat") ? SAT : 0) |
         (opcode.has(".relu") ? RELU : 0) | (mode != FE_TONEAREST ? DIRECTED : 0);
}

// Tries all subsets of ALLOWED.
template <auto OP, int N, Type T, uint32_t ALLOWED, uint32_t FLAGS = 0>
Handler by_flags(uint32_t wanted) {
  if (wanted == FLAGS) return same_type<OP, N, FLAGS, T>();
  constexpr uint32_t NEXT = (FLAGS - ALLOWED) & ALLOWED;
  if constexpr (NEXT != 0) return by_flags<OP, N, T, ALLOWED, NEXT>(wanted);
  return nullptr;
}

// Of ALLOWED each type has a part.
constexpr uint32_t allowed_flags(Type type, uint32_t allowed) {
  if (type == f32) return allowed & ~RELU;
  if (type == f64) return allowed & DIRECTED;
  return half_of(type) == f16 ? allowed & ~DIRECTED : allowed & (FTZ | RELU);
}
template <auto OP, int N, uint32_t ALLOWED, Type... CHOICES>
Handler pick_flagged(Opcode& opcode) {
  const uint32_t flags = flags_of(opcode);
  return for_type<CHOICES...>(opcode.type(), [flags]<Type T>() -> Handler {
    return by_flags<OP, N, T, allowed_flags(T, ALLOWED)>(flags);
  });
}
template <auto OP, int N, uint32_t ALLOWED>
constexpr auto pick_wide = pick_flagged<OP, N, ALLOWED, f32, f64>;
template <auto OP, int N, uint32_t ALLOWED>
constexpr auto pick_half = pick_flagged<OP, N, ALLOWED, f16, f16x2, bf16, bf16x2>;
template <auto OP, int N, uint32_t ALLOWED>
constexpr auto pick_real = pick_flagged<OP, N, ALLOWED, f32, f64, f16, f16x2, bf16, bf16x2>;

// ---- Integers -----------------------------------------------------------------------------------

template <class T>
constexpr uint32_t BITS = sizeof(T) * 8;
template <class T>
using Unsigned = std::make_unsigned_t<T>;

template <class SIGNED, class UNSIGNED, class T>
using SameSign = std::conditional_t<std::is_signed_v<T>, SIGNED, UNSIGNED>;
template <class T>
auto twice_as_wide() {
  if constexpr (sizeof(T) == 2) return SameSign<int32_t, uint32_t, T>{};
  if constexpr (sizeof(T) == 4) return SameSign<int64_t, uint64_t, T>{};
  if constexpr (sizeof(T) == 8) return SameSign<__int128, unsigned __int128, T>{};
}
template <class T>
using Twice = decltype(twice_as_wide<T>());

inline int32_t saturate(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX));
}

// A NaN of f64 has the payload of a source: the second's, else the third's, else the first's.
auto with_payload(auto result, auto a, auto b, auto c) {
  if constexpr (std::is_same_v<decltype(result), double>) {
    constexpr uint64_t QUIET = 1ull << 51;
    const double source = b != b ? b : c != c ? c : a;
    if (source != source) return std::bit_cast<double>(std::bit_cast<uint64_t>(source) | QUIET);
  }
  return result;
}
constexpr auto SAME = [](auto a) { return a; };
constexpr auto MUL_WIDE = [](auto a, auto b) { return Twice<decltype(a)>{a} * b; };
constexpr auto MUL_HI = [](auto a, auto b) { return MUL_WIDE(a, b) >> BITS<decltype(a)>; };

// PTX: only the lowest 8 bits of a place and a length count. On sm_90, with 64 bits, all do.
template <class T>
constexpr uint32_t FIELD_MASK = sizeof(T) == 8 ? 0xffffffff : 0xff;
// Of shifts and fields: the number of bits is taken modulo 32, else it is at most 32.
struct Shift {
  bool wraps, left;
  uint32_t bits(uint32_t n) const { return wraps ? n & 31 : std::min(n, 32u); }
};
// The second source is a number of bits.
template <auto OP, Type... CHOICES>
Handler pick_shift(Opcode& opcode) {
  opcode.set(Shift{opcode.has(".wrap"), opcode.has(".l")});
  return for_type<CHOICES...>(opcode.type(),
                              []<Type T>() -> Handler { return apply<OP, 0, T, T, u32>; });
}

// ---- Patterns of rows ----------------------------------------------------------------------------

#define INTEGERS "{.s16,.u16,.s32,.u32,.s64,.u64}"
#define HALVES ".f16,.f16x2,.bf16,.bf16x2}"
#define REALS "{.f32,.f64," HALVES
#define NUMBERS "{.s16,.u16,.s32,.u32,.s64,.u64,.f32,.f64," HALVES
#define WORDS "{.b16,.u16,.s16,.b32,.u32,.s32,.f32,.b64,.u64,.s64,.f64}"
#define SMALL_INTEGERS "{.u8,.s8,.u16,.s16,.u32,.s32,.u64,.s64}"
#define ROUNDED "{.rn,.rz,.rm,.rp,}{.ftz,}{.sat,}"
#define INTEGER_RELATIONS "{.eq,.ne,.lt,.le,.gt,.ge,.lo,.ls,.hi,.hs}{.and,.or,.xor,}"
#define REAL_RELATIONS \
  "{.eq,.ne,.lt,.le,.gt,.ge,.equ,.neu,.ltu,.leu,.gtu,.geu,.num,.nan}{.and,.or,.xor,}{.ftz,}"
#define COMPARED "{.b16,.b32,.b64,.s16,.u16,.s32,.u32,.s64,.u64}"

}  // namespace machine::elementwise
