// Arithmetic, logic, comparison, conversion and moves: loops over the lanes of rows. An operation is
// a lambda on values; get() and put() turn a lane's bits into a value and back, and do what .ftz,
// .sat and .relu say.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

#include "common/machine/code/isa.h"
#include "common/machine/ops/number.h"

namespace machine {
namespace {

using enum Type;

// ---- Lanes --------------------------------------------------------------------------------------

constexpr uint32_t size_of(Type type) {
  switch (type) {
    case none:
    case pred:
      return 0;
    case b8:
    case u8:
    case s8:
      return 1;
    case b16:
    case u16:
    case s16:
    case f16:
    case bf16:
      return 2;
    case b64:
    case u64:
    case s64:
    case f64:
      return 8;
    default:
      return 4;
  }
}
constexpr bool is_real(Type type) {
  return type >= f16;
}
constexpr Type half_of(Type type) {  // of a packed type; others stay
  return type == f16x2 ? f16 : type == bf16x2 ? bf16 : type;
}
constexpr Type unsigned_of(Type type) {
  const uint32_t bytes = size_of(type);
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
using Bits = std::conditional_t<size_of(T) == 8, uint64_t, uint32_t>;

constexpr Format F32{8, 23, true};

constexpr uint32_t flush_f32(uint32_t bits) {
  return bits & ((bits & 0x7f800000) == 0 ? 0x80000000 : 0xffffffff);
}
constexpr uint32_t flush_f16(uint32_t code) {
  return code & ((code & F16.infinity()) == 0 ? F16.sign() : 0xffff);
}

// Flags that a handler is made for.
constexpr uint32_t FTZ = 1, SAT = 2, RELU = 4;
constexpr uint32_t DIRECTED = 8;  // .rz, .rm or .rp: Inst::mods is fesetround's argument
constexpr uint32_t F32_FLAGS = FTZ | SAT | DIRECTED;

template <Type T, uint32_t FLAGS>
Value<T> get(Bits<T> bits) {
  if constexpr (T == f32) {
    return std::bit_cast<float>(FLAGS & FTZ ? flush_f32(bits) : bits);
  } else if constexpr (T == f64) {
    return std::bit_cast<double>(bits);
  } else if constexpr (T == f16) {
    // A NaN's sign counts too: .xorsign.
    const float magnitude = f32_from_f16((FLAGS & FTZ ? flush_f16(bits) : bits) & 0x7fff);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (bits & F16.sign()) << 16);
  } else if constexpr (T == bf16) {
    return std::bit_cast<float>(FLAGS & FTZ ? flush_f32(bits << 16) : bits << 16);
  } else {
    return static_cast<Value<T>>(bits);
  }
}

// Rounded to odd, so that rounding it again to half as many bits is harmless.
float odd_f32(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  const uint32_t bits = std::bit_cast<uint32_t>(nearest) - (std::fabs(back) > std::fabs(value));
  return std::bit_cast<float>(bits | (back != value));
}

template <Type T, uint32_t FLAGS, class Result>
Bits<T> put(Result result) {
  if constexpr (!is_real(T)) {
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

uint32_t row_of(const Inst& inst, size_t i) {
  return i < std::size(inst.op) ? inst.op[i] : inst.slots[i].row;
}

template <auto OP, uint32_t FLAGS, Type D, Type... S>
Bits<D> evaluate(uint32_t mods, Bits<S>... s) {
  if constexpr (std::is_invocable_v<decltype(OP), uint32_t, Value<S>...>) {
    return put<D, FLAGS>(OP(mods, get<S, FLAGS>(s)...));
  } else {
    return put<D, FLAGS>(OP(get<S, FLAGS>(s)...));
  }
}

// d = OP(s...), or OP(mods, s...) where it takes the mods; of packed types half by half.
template <auto OP, uint32_t FLAGS, Type D, Type... S>
void run(uint32_t mask, uint32_t mods, Bits<D>* d, const Bits<S>*... s) {
  constexpr Type H = half_of(D);
  if constexpr (H == D) {
    lanes(mask, [=](uint32_t lane) { d[lane] = evaluate<OP, FLAGS, D, S...>(mods, s[lane]...); });
  } else {
    uint32_t lower[LANES];
    lanes(mask, [=, &lower](uint32_t lane) {
      lower[lane] = evaluate<OP, FLAGS, H, half_of(S)...>(mods, lower_half(s[lane])...);
    });
    lanes(mask, [=, &lower](uint32_t lane) {
      const auto upper = evaluate<OP, FLAGS, H, half_of(S)...>(mods, upper_half(s[lane])...);
      d[lane] = pack_x2(upper, lower[lane]);
    });
  }
}
template <auto OP, uint32_t FLAGS, Type D, Type... S>
[[gnu::flatten]] Step apply(Warp& warp, const Inst& inst, uint32_t mask) {
  const auto run_rows = [&]<size_t... I>(std::index_sequence<I...>) {
    run<OP, FLAGS, D, S...>(mask, inst.mods, warp.row<Bits<D>>(inst.op[0]),
                            warp.row<Bits<S>>(row_of(inst, I + 1))...);
  };
  if constexpr ((FLAGS & DIRECTED) != 0) std::fesetround(static_cast<int>(inst.mods));
  run_rows(std::make_index_sequence<sizeof...(S)>{});
  if constexpr ((FLAGS & DIRECTED) != 0) std::fesetround(FE_TONEAREST);
  return Step::next;
}

// ---- Choosing handlers --------------------------------------------------------------------------

// make<T>() for the one of CHOICES that `type` is.
template <Type... CHOICES>
Handler for_type(Type type, auto make) {
  Handler found = nullptr;
  ((type == CHOICES ? void(found = make.template operator()<CHOICES>()) : void()), ...);
  return found;
}

template <auto OP, int N, uint32_t FLAGS, Type T>
constexpr Handler same_type() {  // of N sources
  if constexpr (N == 1) return apply<OP, FLAGS, T, T>;
  if constexpr (N == 2) return apply<OP, FLAGS, T, T, T>;
  if constexpr (N == 3) return apply<OP, FLAGS, T, T, T, T>;
}

// Operations that are the same for signed and unsigned, and those that are not.
template <auto OP, int N>
Handler pick_bits(Opcode& opcode) {
  return for_type<u16, u32, u64>(unsigned_of(opcode.type()),
                                 []<Type T>() -> Handler { return same_type<OP, N, 0, T>(); });
}
template <auto OP, int N>
Handler pick_signed(Opcode& opcode) {
  return for_type<s16, u16, s32, u32, s64, u64>(
      opcode.type(), []<Type T>() -> Handler { return same_type<OP, N, 0, T>(); });
}
// One form only.
template <auto OP, Type D, Type... S>
Handler pick(Opcode&) {
  return apply<OP, 0, D, S...>;
}

uint32_t flags_of(Opcode& opcode) {
  const int mode = opcode.has(".rz")   ? FE_TOWARDZERO
                   : opcode.has(".rm") ? FE_DOWNWARD
                   : opcode.has(".rp") ? FE_UPWARD
                                       : FE_TONEAREST;
  opcode.mods = static_cast<uint32_t>(mode);
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
template <auto OP, int N, uint32_t ALLOWED>
Handler pick_wide(Opcode& opcode) {
  const uint32_t flags = flags_of(opcode);
  return for_type<f32, f64>(opcode.type(), [flags]<Type T>() -> Handler {
    return by_flags<OP, N, T, allowed_flags(T, ALLOWED)>(flags);
  });
}
template <auto OP, int N, uint32_t ALLOWED>
Handler pick_half(Opcode& opcode) {
  const uint32_t flags = flags_of(opcode);
  return for_type<f16, f16x2, bf16, bf16x2>(opcode.type(), [flags]<Type T>() -> Handler {
    return by_flags<OP, N, T, allowed_flags(T, ALLOWED)>(flags);
  });
}
template <auto OP, int N, uint32_t ALLOWED>
Handler pick_real(Opcode& opcode) {
  const bool wide = opcode.type() == f32 || opcode.type() == f64;
  return wide ? pick_wide<OP, N, ALLOWED>(opcode) : pick_half<OP, N, ALLOWED>(opcode);
}
// Integers too.
template <auto OP, int N, uint32_t ALLOWED>
Handler pick_any(Opcode& opcode) {
  if (is_real(opcode.type())) return pick_real<OP, N, ALLOWED>(opcode);
  return flags_of(opcode) == 0 ? pick_bits<OP, N>(opcode) : nullptr;
}

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

int32_t saturate(int64_t value) {
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

constexpr auto ADD = [](auto a, auto b) { return with_payload(a + b, a, b, b); };
constexpr auto SUB = [](auto a, auto b) { return with_payload(a - b, a, b, b); };
constexpr auto ADD_SAT = [](int32_t a, int32_t b) { return saturate(int64_t{a} + b); };
constexpr auto SUB_SAT = [](int32_t a, int32_t b) { return saturate(int64_t{a} - b); };
constexpr auto MUL_LO = [](auto a, auto b) {
  using Wide = std::conditional_t<sizeof a == 8, uint64_t, uint32_t>;
  return Wide{a} * Wide{b};
};
constexpr auto MUL_WIDE = [](auto a, auto b) { return Twice<decltype(a)>{a} * b; };
constexpr auto MUL_HI = [](auto a, auto b) { return MUL_WIDE(a, b) >> BITS<decltype(a)>; };
constexpr auto MAD_LO = [](auto a, auto b, auto c) { return MUL_LO(a, b) + c; };
constexpr auto MAD_HI = [](auto a, auto b, auto c) {
  return static_cast<Unsigned<decltype(c)>>(MUL_HI(a, b)) + static_cast<Unsigned<decltype(c)>>(c);
};
constexpr auto MAD_HI_SAT = [](int32_t a, int32_t b, int32_t c) {
  return saturate((int64_t{a} * b >> 32) + c);
};
constexpr auto MAD_WIDE = [](auto a, auto b, auto c) {
  return static_cast<Unsigned<decltype(c)>>(MUL_WIDE(a, b)) + static_cast<Unsigned<decltype(c)>>(c);
};
constexpr uint32_t HIGH_HALF = 1;  // of mul24: bits 16 to 47 of the product
constexpr auto MUL24 = [](uint32_t mods, auto a, auto b) {
  using T = decltype(a);
  const auto low24 = [](T x) {
    return Twice<T>{static_cast<T>(static_cast<uint32_t>(x) << 8) >> 8};
  };
  const Twice<T> product = low24(a) * low24(b);
  return static_cast<T>(mods & HIGH_HALF ? product >> 16 : product);
};
constexpr auto MAD24 = [](uint32_t mods, auto a, auto b, auto c) {
  return static_cast<uint32_t>(MUL24(mods, a, b)) + static_cast<uint32_t>(c);
};
constexpr auto MAD24_HI_SAT = [](int32_t a, int32_t b, int32_t c) {
  return saturate(int64_t{MUL24(HIGH_HALF, a, b)} + c);
};
constexpr auto SAD = [](auto a, auto b, auto c) {
  using U = Unsigned<decltype(a)>;
  const U x = static_cast<U>(a), y = static_cast<U>(b);
  return static_cast<U>(c) + static_cast<U>(a < b ? y - x : x - y);
};
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
constexpr auto MIN_RELU = [](int32_t a, int32_t b) { return std::max(std::min(a, b), 0); };
constexpr auto MAX_RELU = [](int32_t a, int32_t b) { return std::max(std::max(a, b), 0); };
constexpr auto NEG = [](auto a) { return decltype(a){0} - a; };
constexpr auto ABS = [](auto a) { return a >> (BITS<decltype(a)> - 1) ? decltype(a){0} - a : a; };
constexpr auto AND = [](auto a, auto b) { return a & b; };
constexpr auto OR = [](auto a, auto b) { return a | b; };
constexpr auto XOR = [](auto a, auto b) { return a ^ b; };
constexpr auto NOT = [](auto a) { return ~a; };
constexpr auto CNOT = [](auto a) { return a == 0 ? 1 : 0; };
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
constexpr uint32_t WRAP = 1, SHIFT_LEFT = 2;  // of shf, bmsk and szext
constexpr auto SHF = [](uint32_t mods, uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t both = uint64_t{b} << 32 | a;
  const uint32_t n = mods & WRAP ? c & 31 : std::min(c, 32u);
  return static_cast<uint32_t>(mods & SHIFT_LEFT ? both << n >> 32 : both >> n);
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
constexpr uint32_t SHIFT_AMOUNT = 1;
constexpr auto BFIND = [](uint32_t mods, auto a) {
  const auto bits = static_cast<Unsigned<decltype(a)>>(a < 0 ? ~a : a);
  const auto above = static_cast<uint32_t>(std::countl_zero(bits));
  if (bits == 0) return UINT32_MAX;
  return mods & SHIFT_AMOUNT ? above : BITS<decltype(a)> - 1 - above;
};
// PTX: only the lowest 8 bits of a place and a length count. On sm_90, with 64 bits, all do.
template <class T>
constexpr uint32_t FIELD_MASK = sizeof(T) == 8 ? 0xffffffff : 0xff;
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
constexpr auto BFI = [](auto a, auto b, uint32_t c, uint32_t d) {
  using U = decltype(a);
  const uint32_t at = c & FIELD_MASK<U>, length = d & FIELD_MASK<U>;
  if (at >= BITS<U>) return b;
  const U field = (length < BITS<U> ? (U{1} << length) - 1 : ~U{0}) << at;
  return (b & ~field) | (a << at & field);
};
constexpr auto FNS = [](uint32_t mask, uint32_t base, int32_t offset) {
  const int step = offset > 0 ? 1 : offset < 0 ? -1 : 32;  // 0: of base alone
  int64_t left = std::max(std::abs(int64_t{offset}), int64_t{1});
  for (int64_t at = base; 0 <= at && at <= 31; at += step) {
    if ((mask >> at & 1) != 0 && --left == 0) return static_cast<uint32_t>(at);
  }
  return UINT32_MAX;
};
constexpr auto BMSK = [](uint32_t mods, uint32_t a, uint32_t b) {
  const uint32_t at = a & 31, length = mods & WRAP ? b & 31 : std::min(b, 32u);
  const bool outside = !(mods & WRAP) && a > 31;
  return outside ? 0 : static_cast<uint32_t>(((uint64_t{1} << length) - 1) << at);
};
constexpr auto SZEXT = [](uint32_t mods, auto a, uint32_t b) {
  using T = decltype(a);
  const uint32_t length = mods & WRAP ? b & 31 : std::min(b, 32u);
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
constexpr auto PRMT_MODE = [](uint32_t mods, uint32_t a, uint32_t b, uint32_t c) {
  return permute(a, b, PRMT_SELECTORS[mods][c & 3]);
};

constexpr uint32_t A_SIGNED = 1, B_SIGNED = 2, UPPER_PAIR = 4;  // of dp4a and dp2a
constexpr uint32_t field_of(uint32_t x, uint32_t i, uint32_t bits, bool is_signed) {
  const uint32_t sign = is_signed ? 1u << (bits - 1) : 0;
  return ((x >> i * bits & ((1u << bits) - 1)) ^ sign) - sign;
}
constexpr auto DP4A = [](uint32_t mods, uint32_t a, uint32_t b, uint32_t c) {
  for (uint32_t i = 0; i < 4; ++i) {
    c += field_of(a, i, 8, mods & A_SIGNED) * field_of(b, i, 8, mods & B_SIGNED);
  }
  return c;
};
constexpr auto DP2A = [](uint32_t mods, uint32_t a, uint32_t b, uint32_t c) {
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t byte = mods & UPPER_PAIR ? i + 2 : i;
    c += field_of(a, i, 16, mods & A_SIGNED) * field_of(b, byte, 8, mods & B_SIGNED);
  }
  return c;
};

template <auto OP, auto SATURATED>
Handler pick_sum(Opcode& opcode) {
  const bool saturates = opcode.type() == s32 && opcode.has(".sat");
  return saturates ? apply<SATURATED, 0, s32, s32, s32> : pick_any<OP, 2, F32_FLAGS>(opcode);
}
Handler pick_mul_wide(Opcode& opcode) {
  return for_type<s16, u16, s32, u32>(
      opcode.type(), []<Type T>() -> Handler { return apply<MUL_WIDE, 0, twice(T), T, T>; });
}
Handler pick_mad_wide(Opcode& opcode) {
  return for_type<s16, u16, s32, u32>(opcode.type(), []<Type T>() -> Handler {
    return apply<MAD_WIDE, 0, twice(T), T, T, twice(T)>;
  });
}
template <auto OP, int N>
Handler pick_24(Opcode& opcode) {
  opcode.mods = opcode.has(".hi") ? HIGH_HALF : 0;
  return for_type<s32, u32>(opcode.type(),
                            []<Type T>() -> Handler { return same_type<OP, N, 0, T>(); });
}
// The second source is a number of bits.
template <auto OP, Type... CHOICES>
Handler pick_shift(Opcode& opcode) {
  const Type type = opcode.type();
  opcode.mods = opcode.has(".wrap") ? WRAP : 0;
  return for_type<CHOICES...>(is_signed(type) ? type : unsigned_of(type),
                              []<Type T>() -> Handler { return apply<OP, 0, T, T, u32>; });
}
Handler pick_shf(Opcode& opcode) {
  opcode.mods = (opcode.has(".wrap") ? WRAP : 0) | (opcode.has(".l") ? SHIFT_LEFT : 0);
  return apply<SHF, 0, u32, u32, u32, u32>;
}
template <auto OP>
Handler pick_count(Opcode& opcode) {
  opcode.mods = opcode.has(".shiftamt") ? SHIFT_AMOUNT : 0;
  const Type type = is_signed(opcode.type()) ? opcode.type() : unsigned_of(opcode.type());
  return for_type<s32, u32, s64, u64>(type,
                                      []<Type T>() -> Handler { return apply<OP, 0, u32, T>; });
}
Handler pick_bfe(Opcode& opcode) {
  return for_type<s32, u32, s64, u64>(
      opcode.type(), []<Type T>() -> Handler { return apply<BFE, 0, T, T, u32, u32>; });
}
Handler pick_bfi(Opcode& opcode) {
  return for_type<u32, u64>(unsigned_of(opcode.type()),
                            []<Type T>() -> Handler { return apply<BFI, 0, T, T, T, u32, u32>; });
}
Handler pick_prmt(Opcode& opcode) {
  const auto* const mode = std::find(std::begin(PRMT_MODES), std::end(PRMT_MODES), opcode.group[0]);
  opcode.mods = static_cast<uint32_t>(mode - std::begin(PRMT_MODES));
  return mode == std::end(PRMT_MODES) ? apply<PRMT, 0, u32, u32, u32, u32>
                                      : apply<PRMT_MODE, 0, u32, u32, u32, u32>;
}
template <auto OP>
Handler pick_dot(Opcode& opcode) {
  opcode.mods = (is_signed(opcode.type(0)) ? A_SIGNED : 0) |
                (is_signed(opcode.type(1)) ? B_SIGNED : 0) | (opcode.has(".hi") ? UPPER_PAIR : 0);
  return apply<OP, 0, u32, u32, u32, u32>;
}

// A tree of multiplexers over the table's eight bits.
Step lop3(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t table = warp.row<uint32_t>(inst.slots[4].row)[0];
  const auto bit = [table](uint32_t i) { return 0u - (table >> i & 1); };
  const uint32_t m0 = bit(0), m2 = bit(2), m4 = bit(4), m6 = bit(6);
  const uint32_t d0 = m0 ^ bit(1), d2 = m2 ^ bit(3), d4 = m4 ^ bit(5), d6 = m6 ^ bit(7);
  lanes(mask, [=, d = warp.row<uint32_t>(inst.op[0]), a = warp.row<uint32_t>(inst.op[1]),
               b = warp.row<uint32_t>(inst.op[2]), c = warp.row<uint32_t>(inst.op[3])](uint32_t l) {
    const uint32_t c0 = m0 ^ (c[l] & d0), c2 = m2 ^ (c[l] & d2);
    const uint32_t c4 = m4 ^ (c[l] & d4), c6 = m6 ^ (c[l] & d6);
    const uint32_t low = c0 ^ (b[l] & (c0 ^ c2)), high = c4 ^ (b[l] & (c4 ^ c6));
    d[l] = low ^ (a[l] & (low ^ high));
  });
  return Step::next;
}
Handler pick_lop3(Opcode&) {
  return lop3;
}

// ---- The carry flag -----------------------------------------------------------------------------

constexpr uint32_t CARRY_IN = 1, CARRY_OUT = 2, SUBTRACTS = 4, MULTIPLIES = 8, HIGH_PRODUCT = 16;

template <class T>
Step carry(Warp& warp, const Inst& inst, uint32_t mask) {
  using U = Unsigned<T>;
  const T* const a = warp.row<T>(inst.op[1]);
  const T* const b = warp.row<T>(inst.op[2]);
  const U* const c = warp.row<U>(inst.op[3]);
  U* const d = warp.row<U>(inst.op[0]);
  const uint32_t flags = warp.pred(CARRY_ROW), mods = inst.mods;
  uint32_t carries = 0;
  for_lanes(mask, [&](uint32_t lane) {
    const Twice<T> product = MUL_WIDE(a[lane], b[lane]);
    const U x = static_cast<U>(!(mods & MULTIPLIES)  ? a[lane]
                               : mods & HIGH_PRODUCT ? product >> BITS<T>
                                                     : product);
    const U y = mods & MULTIPLIES ? c[lane] : static_cast<U>(b[lane]);
    const U in = mods & CARRY_IN ? flags >> lane & 1 : 0;
    const Twice<U> result = mods & SUBTRACTS ? Twice<U>{x} - y - in : Twice<U>{x} + y + in;
    d[lane] = static_cast<U>(result);
    carries |= static_cast<uint32_t>(result >> BITS<T> & 1) << lane;
  });
  if (mods & CARRY_OUT) warp.pred(CARRY_ROW) = (flags & ~mask) | carries;
  return Step::next;
}

Handler pick_carry(Opcode& opcode) {
  const std::string_view base = opcode.text.substr(0, opcode.text.find('.'));
  opcode.mods = (base.size() == 4 ? CARRY_IN : 0) |  // addc, subc, madc
                (opcode.has(".cc") ? CARRY_OUT : 0) | (base.starts_with("sub") ? SUBTRACTS : 0) |
                (base.starts_with("mad") ? MULTIPLIES : 0) | (opcode.has(".hi") ? HIGH_PRODUCT : 0);
  return for_type<s32, u32, s64, u64>(opcode.type(),
                                      []<Type T>() -> Handler { return carry<Value<T>>; });
}

// ---- Floating point -----------------------------------------------------------------------------

constexpr auto MUL = [](auto a, auto b) { return with_payload(a * b, a, b, b); };
constexpr auto FDIV = [](auto a, auto b) { return a / b; };
constexpr auto FMA = [](auto a, auto b, auto c) {
  return with_payload(std::fma(a, b, c), a, b, c);
};
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
// Divisors above 2^126 give 0, or NaN for an infinite dividend.
constexpr auto DIV_APPROX = [](float a, float b) {
  return std::fabs(b) > 0x1p126f ? double{a} * 0 : double{a} / b;
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
constexpr auto COPYSIGN = [](auto a, auto b) {
  constexpr auto SIGN = decltype(a){1} << (BITS<decltype(a)> - 1);
  return (a & SIGN) | (b & ~SIGN);
};

template <auto OP, auto INTEGER_OP>
Handler pick_negation(Opcode& opcode) {
  return is_real(opcode.type()) ? pick_real<OP, 1, FTZ>(opcode) : pick_bits<INTEGER_OP, 1>(opcode);
}
template <bool MAXIMUM>
Handler pick_extreme(Opcode& opcode) {
  if (!is_real(opcode.type())) {
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

void set_predicate(Warp& warp, uint32_t row, uint32_t mask, uint32_t value) {
  uint32_t& d = warp.pred(row);
  d = (d & ~mask) | (value & mask);
}

constexpr std::string_view TESTS[] = {".finite",     ".infinite", ".number",
                                      ".notanumber", ".normal",   ".subnormal"};

template <class T>
Step testp(Warp& warp, const Inst& inst, uint32_t mask) {
  const T* const a = warp.row<T>(inst.op[1]);
  uint32_t result = 0;
  for_lanes(mask, [&](uint32_t lane) {
    const int kind = std::fpclassify(a[lane]);
    const bool answers[] = {
        kind != FP_NAN && kind != FP_INFINITE, kind == FP_INFINITE, kind != FP_NAN, kind == FP_NAN,
        kind == FP_NORMAL || kind == FP_ZERO,  kind == FP_SUBNORMAL};
    result |= uint32_t{answers[inst.mods]} << lane;
  });
  set_predicate(warp, inst.op[0], mask, result);
  return Step::next;
}
Handler pick_testp(Opcode& opcode) {
  const auto* const test = std::find(std::begin(TESTS), std::end(TESTS), opcode.group[0]);
  opcode.mods = static_cast<uint32_t>(test - std::begin(TESTS));
  return opcode.type() == f64 ? testp<double> : testp<float>;
}

// ---- Comparison and selection -------------------------------------------------------------------

// A relation is a set of these, in Inst::mods.
constexpr uint32_t LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8;
constexpr uint32_t COMBINE_SHIFT = 4;  // 0: no c; 1: and, 2: or, 3: xor
constexpr uint32_t HAS_Q = 1 << 6, FLUSH = 1 << 7;
constexpr uint32_t ONE_SHIFT = 8;  // of set: index into ONES

uint32_t relation_of(std::string_view name) {
  const bool unordered = name.size() == 4 && name.back() == 'u';  // .ltu
  if (unordered) name.remove_suffix(1);
  const uint32_t extra = unordered ? UNORDERED : 0;
  if (name == ".eq") return EQUAL | extra;
  if (name == ".ne") return LESS | GREATER | extra;
  if (name == ".lt" || name == ".lo") return LESS | extra;
  if (name == ".le" || name == ".ls") return LESS | EQUAL | extra;
  if (name == ".gt" || name == ".hi") return GREATER | extra;
  if (name == ".ge" || name == ".hs") return GREATER | EQUAL | extra;
  return name == ".nan" ? UNORDERED : LESS | EQUAL | GREATER;  // .num
}

uint32_t comparison_mods(const Opcode& opcode) {
  const uint32_t how = opcode.has(".and") ? 1 : opcode.has(".or") ? 2 : opcode.has(".xor") ? 3 : 0;
  return relation_of(opcode.group[0]) | how << COMBINE_SHIFT | (opcode.has(".ftz") ? FLUSH : 0);
}

// `shift`: 16 for the upper half of a packed type.
template <Type T, uint32_t FLAGS>
uint32_t compare(const Bits<T>* a, const Bits<T>* b, uint32_t relation, uint32_t shift) {
  uint32_t result = 0;
  for (uint32_t lane = 0; lane < LANES; ++lane) {
    const auto x = get<T, FLAGS>(a[lane] >> shift), y = get<T, FLAGS>(b[lane] >> shift);
    const uint32_t found = (x < y ? LESS : 0u) | (x == y ? EQUAL : 0u) | (x > y ? GREATER : 0u);
    result |= uint32_t{((found == 0 ? UNORDERED : found) & relation) != 0} << lane;
  }
  return result;
}

template <Type T>
uint32_t compare(Warp& warp, const Inst& inst, size_t first, uint32_t shift = 0) {
  const auto* const a = warp.row<const Bits<T>>(row_of(inst, first));
  const auto* const b = warp.row<const Bits<T>>(row_of(inst, first + 1));
  const uint32_t relation = inst.mods & 15;
  return inst.mods & FLUSH ? compare<T, FTZ>(a, b, relation, shift)
                           : compare<T, 0>(a, b, relation, shift);
}

uint32_t predicate(Warp& warp, const Slot& slot) {
  return slot.negated ? ~warp.pred(slot.row) : warp.pred(slot.row);
}

uint32_t combine(Warp& warp, const Inst& inst, size_t operand, uint32_t result) {
  const uint32_t how = inst.mods >> COMBINE_SHIFT & 3;
  if (how == 0) return result;
  const uint32_t c = predicate(warp, inst.slots[operand]);
  return how == 1 ? result & c : how == 2 ? result | c : result ^ c;
}

// Of packed types, p is of the lower halves and q of the upper ones.
template <Type T>
Step setp(Warp& warp, const Inst& inst, uint32_t mask) {
  constexpr Type H = half_of(T);
  const bool has_q = (inst.mods & HAS_Q) != 0;
  const uint32_t first = has_q ? 2 : 1;
  const uint32_t result = compare<H>(warp, inst, first);
  const uint32_t p = combine(warp, inst, first + 2, result);
  if (has_q) {
    const uint32_t other = H != T ? compare<H>(warp, inst, first, 16) : ~result;
    set_predicate(warp, inst.op[1], mask, combine(warp, inst, first + 2, other));
  }
  set_predicate(warp, inst.op[0], mask, p);
  return Step::next;
}

constexpr uint32_t ONES[] = {0xffffffff, 0xffff, 0x3f800000, 0x3c00, 0x3f80};

template <Type T>
Step set(Warp& warp, const Inst& inst, uint32_t mask) {
  constexpr Type H = half_of(T);
  const uint32_t one = ONES[inst.mods >> ONE_SHIFT];
  const uint32_t lower = combine(warp, inst, 3, compare<H>(warp, inst, 1));
  const uint32_t upper = H != T ? combine(warp, inst, 3, compare<H>(warp, inst, 1, 16)) : 0;
  lanes(mask, [=, d = warp.row<uint32_t>(inst.op[0])](uint32_t lane) {
    d[lane] = (lower >> lane & 1 ? one : 0) | (upper >> lane & 1 ? one << 16 : 0);
  });
  return Step::next;
}

Handler pick_comparison(Type type, auto make) {
  return for_type<s16, u16, s32, u32, s64, u64, f16, bf16, f16x2, bf16x2, f32, f64>(
      is_real(type) || is_signed(type) ? type : unsigned_of(type), make);
}
Handler pick_setp(Opcode& opcode) {
  const bool has_q = opcode.operands->at(0).kind == Operand::Kind::vector;
  opcode.mods = comparison_mods(opcode) | (has_q ? HAS_Q : 0);
  return pick_comparison(opcode.type(), []<Type T>() -> Handler { return setp<T>; });
}
Handler pick_set(Opcode& opcode) {
  const Type d = half_of(opcode.type(0)), s = opcode.type(1);
  const bool halves = size_of(d) == 2 || half_of(s) != s;
  const uint32_t one = d == f32 ? 2 : d == f16 ? 3 : d == bf16 ? 4 : halves ? 1 : 0;
  opcode.mods = comparison_mods(opcode) | one << ONE_SHIFT;
  return pick_comparison(s, []<Type T>() -> Handler { return set<T>; });
}

template <class T>
Step selp(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t c = predicate(warp, inst.slots[3]);
  lanes(mask, [=, d = warp.row<T>(inst.op[0]), a = warp.row<T>(inst.op[1]),
               b = warp.row<T>(inst.op[2])](uint32_t lane) {
    const T x = a[lane], y = b[lane];
    d[lane] = c >> lane & 1 ? x : y;
  });
  return Step::next;
}
Step selp_predicate(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t c = predicate(warp, inst.slots[3]);
  const uint32_t a = predicate(warp, inst.slots[1]), b = predicate(warp, inst.slots[2]);
  set_predicate(warp, inst.op[0], mask, (a & c) | (b & ~c));
  return Step::next;
}
Handler pick_selp(Opcode& opcode) {
  if (opcode.type() == pred) return selp_predicate;
  return size_of(opcode.type()) == 8 ? selp<uint64_t> : selp<uint32_t>;
}

constexpr auto SLCT = [](auto a, auto b, auto c) { return c >= 0 ? a : b; };
template <uint32_t FLAGS, Type C>
Handler choose_slct(Type type) {
  return for_type<u16, u32, u64>(
      unsigned_of(type), []<Type T>() -> Handler { return apply<SLCT, FLAGS, T, T, T, C>; });
}
Handler pick_slct(Opcode& opcode) {
  if (opcode.type(1) == s32) return choose_slct<0, s32>(opcode.type());
  return opcode.has(".ftz") ? choose_slct<FTZ, f32>(opcode.type())
                            : choose_slct<0, f32>(opcode.type());
}

template <auto OP, int N>
Step logic_predicate(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t a = predicate(warp, inst.slots[1]);
  if constexpr (N == 1) {
    set_predicate(warp, inst.op[0], mask, OP(a));
  } else {
    set_predicate(warp, inst.op[0], mask, OP(a, predicate(warp, inst.slots[2])));
  }
  return Step::next;
}
template <auto OP, int N>
Handler pick_logic(Opcode& opcode) {
  return opcode.type() == pred ? logic_predicate<OP, N> : pick_bits<OP, N>(opcode);
}

// ---- Moves --------------------------------------------------------------------------------------

template <class T>
Step move(Warp& warp, const Inst& inst, uint32_t mask) {
  lanes(mask, [d = warp.row<T>(inst.op[0]), a = warp.row<T>(inst.op[1])](uint32_t lane) {
    d[lane] = a[lane];
  });
  return Step::next;
}
Step move_predicate(Warp& warp, const Inst& inst, uint32_t mask) {
  set_predicate(warp, inst.op[0], mask, predicate(warp, inst.slots[1]));
  return Step::next;
}

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
  const bool wide = size_of(opcode.type()) == 8;
  const bool packs = a.kind == Operand::Kind::vector, unpacks = d.kind == Operand::Kind::vector;
  if (!packs && !unpacks) {
    if (opcode.type() == pred) return move_predicate;
    return wide ? move<uint64_t> : move<uint32_t>;
  }
  const auto parts = static_cast<uint32_t>(packs ? a.parts.size() : d.parts.size());
  if ((packs && unpacks) || size_of(opcode.type()) < parts || (parts != 2 && parts != 4)) {
    return nullptr;
  }
  opcode.mods = 8 * size_of(opcode.type()) / parts;
  if (packs) return wide ? pack<uint64_t> : pack<uint32_t>;
  return wide ? unpack<uint64_t> : unpack<uint32_t>;
}

// ---- cvt ----------------------------------------------------------------------------------------

// Inst::mods: the types in bits 0 to 15, the rounding above, then flags. Registers may be wider than
// their types: results are extended by the type's sign.
constexpr uint32_t FROM_SHIFT = 8, ROUNDING_SHIFT = 16, FLAGS_SHIFT = 20;
constexpr uint32_t CVT_FTZ = 1 << 20, CVT_SAT = 1 << 21, CVT_RELU = 1 << 22,
                   CVT_SATFINITE = 1 << 23, CVT_INTEGRAL = 1 << 24;  // .rni and its like

Type to_of(uint32_t mods) {
  return static_cast<Type>(mods & 0xff);
}
Type from_of(uint32_t mods) {
  return static_cast<Type>(mods >> FROM_SHIFT & 0xff);
}
Rounding rounding_of(uint32_t mods) {
  return static_cast<Rounding>(mods >> ROUNDING_SHIFT & 15);
}

uint32_t cvt_mods(const Opcode& opcode) {
  const auto has = [&opcode](const char* a, const char* b) {
    return opcode.has(a) || opcode.has(b);
  };
  const Rounding rounding = has(".rz", ".rzi")   ? Rounding::ZERO
                            : has(".rm", ".rmi") ? Rounding::DOWN
                            : has(".rp", ".rpi") ? Rounding::UP
                            : opcode.has(".rna") ? Rounding::NEAREST_AWAY
                                                 : Rounding::NEAREST;
  const bool integral = has(".rni", ".rzi") || has(".rmi", ".rpi");
  return static_cast<uint32_t>(opcode.type(0)) |
         static_cast<uint32_t>(opcode.type(1)) << FROM_SHIFT |
         static_cast<uint32_t>(rounding) << ROUNDING_SHIFT | (opcode.has(".ftz") ? CVT_FTZ : 0) |
         (opcode.has(".sat") ? CVT_SAT : 0) | (opcode.has(".relu") ? CVT_RELU : 0) |
         (opcode.has(".satfinite") ? CVT_SATFINITE : 0) | (integral ? CVT_INTEGRAL : 0);
}

double round_integral(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::ZERO:
      return std::trunc(value);
    case Rounding::DOWN:
      return std::floor(value);
    case Rounding::UP:
      return std::ceil(value);
    default:
      return std::nearbyint(value);
  }
}

double value_of(Type type, uint64_t bits, bool ftz) {
  const auto low = static_cast<uint32_t>(bits);
  if (type == f64) return std::bit_cast<double>(bits);
  if (type == f16) {
    const uint64_t nan = bits << 48 >> 63 << 63 | 0x7ff8ull << 48 | bits << 54 >> 12;
    const float value = f32_from_f16(low);
    return value != value ? std::bit_cast<double>(nan) : value;
  }
  if (type == bf16) return f32_from_bf16(low);
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

// sm_90 does this with integers: infinities and NaN are not told from numbers.
uint32_t tf32_nearest_away(uint32_t bits, bool satfinite) {
  const auto is_top = [](uint32_t x) { return (x & 0x7f800000) == 0x7f800000; };
  const uint32_t code = (is_top(bits) ? bits : bits + 0x1000) & 0xffffe000;
  return satfinite && is_top(code) ? code - 0x2000 : code;
}

uint64_t bits_of(Type type, double value, uint32_t mods) {
  const Rounding rounding = rounding_of(mods);
  const bool relu = (mods & CVT_RELU) != 0, satfinite = (mods & CVT_SATFINITE) != 0;
  switch (type) {
    case f64:
      return std::bit_cast<uint64_t>(value);
    case f16:
      return encode<F16>(value, rounding, satfinite, relu);
    case bf16:
      return encode<BF16>(value, rounding, satfinite, relu);
    case tf32:
      return encode<TF32>(value, rounding, satfinite, relu) << 13;
    default: {
      const uint32_t bits = encode<F32>(value, rounding);
      return mods & CVT_FTZ ? flush_f32(bits) : bits;
    }
  }
}

struct Range {
  __int128 low, high;
};
Range range_of(Type type) {
  const uint32_t bits = 8 * size_of(type);
  const __int128 one = 1;
  if (is_signed(type)) return {-(one << (bits - 1)), (one << (bits - 1)) - 1};
  return {0, (one << bits) - 1};
}

// NaN becomes 0, or, where 64 bits are on either side, the number of which only the highest bit is 1
// (CUDA Math API: __half2int_rz, __half2ll_rz).
uint64_t to_integer(Type to, Type from, double value, Rounding rounding) {
  const Range range = range_of(to);
  if (value != value) {
    const bool wide = size_of(to) == 8 || from == f64;
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

uint64_t from_integer(uint64_t bits, uint32_t mods) {
  const Type to = to_of(mods), from = from_of(mods);
  const uint32_t unused = 64 - 8 * size_of(from);
  bits <<= unused;
  bits = is_signed(from) ? static_cast<uint64_t>(static_cast<int64_t>(bits) >> unused)
                         : bits >> unused;
  const bool negative = is_signed(from) && bits >> 63;
  const uint64_t magnitude = negative ? 0 - bits : bits;
  if (!is_real(to)) {
    const Range range = range_of(to);
    const __int128 value = negative ? -static_cast<__int128>(magnitude) : magnitude;
    return static_cast<uint64_t>(std::clamp(value, range.low, range.high));
  }
  const int precision = to == f64 ? 53 : to == f32 ? 24 : to == f16 ? 11 : 8;
  double value = round_magnitude(magnitude, precision, rounding_of(mods), negative);
  if (negative) value = -value;
  if (mods & CVT_SAT) value = std::clamp(value, 0.0, 1.0);
  return bits_of(to, value, mods);
}

uint64_t from_float(uint64_t bits, uint32_t mods) {
  const Rounding rounding = rounding_of(mods);
  if (rounding == Rounding::NEAREST_AWAY) {
    return tf32_nearest_away(static_cast<uint32_t>(bits), mods & CVT_SATFINITE);
  }
  double value = value_of(from_of(mods), bits, mods & CVT_FTZ);
  if (!is_real(to_of(mods))) return to_integer(to_of(mods), from_of(mods), value, rounding);
  if (mods & CVT_INTEGRAL) value = round_integral(value, rounding);
  if (mods & CVT_SAT) value = value > 0 ? std::min(value, 1.0) : 0;
  if (value != value && from_of(mods) == f64 && to_of(mods) != f64) {
    return narrow_nan(to_of(mods), value);
  }
  return bits_of(to_of(mods), value, mods);
}

// Any conversion of one value; those that matter for speed have handlers of their own.
Step convert(Warp& warp, const Inst& inst, uint32_t mask) {
  const bool wide_to = inst.slots[0].width == Width::w64;
  const bool wide_from = inst.slots[1].width == Width::w64;
  for_lanes(mask, [&](uint32_t lane) {
    const uint64_t a =
        wide_from ? warp.row<uint64_t>(inst.op[1])[lane] : warp.row<uint32_t>(inst.op[1])[lane];
    const uint64_t d =
        is_real(from_of(inst.mods)) ? from_float(a, inst.mods) : from_integer(a, inst.mods);
    if (wide_to) {
      warp.row<uint64_t>(inst.op[0])[lane] = d;
    } else {
      warp.row<uint32_t>(inst.op[0])[lane] = static_cast<uint32_t>(d);
    }
  });
  return Step::next;
}

// Between integers: drops the bits that the source's type has not, then those of the destination's.
template <bool TO_SIGNED, bool FROM_SIGNED, class D, class A>
void convert_rows(const Inst& inst, uint32_t mask, D* d, const A* a) {
  using Wide = std::conditional_t<sizeof(D) == 8 || sizeof(A) == 8, uint64_t, uint32_t>;
  using To = std::conditional_t<TO_SIGNED, std::make_signed_t<Wide>, Wide>;
  using From = std::conditional_t<FROM_SIGNED, std::make_signed_t<Wide>, Wide>;
  const uint32_t to_unused = BITS<Wide> - 8 * size_of(to_of(inst.mods));
  const uint32_t from_unused = BITS<Wide> - 8 * size_of(from_of(inst.mods));
  lanes(mask, [=](uint32_t lane) {
    const From x = static_cast<From>(Wide{a[lane]} << from_unused) >> from_unused;
    d[lane] = static_cast<D>(static_cast<To>(static_cast<Wide>(x) << to_unused) >> to_unused);
  });
}
template <bool TO_SIGNED, bool FROM_SIGNED>
Step convert_integer(Warp& warp, const Inst& inst, uint32_t mask) {
  auto* const narrow_d = warp.row<uint32_t>(inst.op[0]);
  auto* const wide_d = warp.row<uint64_t>(inst.op[0]);
  const auto* const narrow_a = warp.row<uint32_t>(inst.op[1]);
  const auto* const wide_a = warp.row<uint64_t>(inst.op[1]);
  const bool from_wide = inst.slots[1].width == Width::w64;
  if (inst.slots[0].width == Width::w64) {
    from_wide ? convert_rows<TO_SIGNED, FROM_SIGNED>(inst, mask, wide_d, wide_a)
              : convert_rows<TO_SIGNED, FROM_SIGNED>(inst, mask, wide_d, narrow_a);
  } else {
    from_wide ? convert_rows<TO_SIGNED, FROM_SIGNED>(inst, mask, narrow_d, wide_a)
              : convert_rows<TO_SIGNED, FROM_SIGNED>(inst, mask, narrow_d, narrow_a);
  }
  return Step::next;
}

constexpr auto SAME = [](auto a) { return a; };
constexpr auto BF16_TO_F32 = [](uint32_t a) { return a << 16; };  // NaN keeps its payload
constexpr auto TO_S32 = [](float a) {
  constexpr float LIMIT = 0x1p31f, LARGEST = 0x1.fffffep30f;  // the largest below the limit
  const float above = a < -LIMIT ? -LIMIT : a, inside = above > LARGEST ? LARGEST : above;
  const int32_t value = static_cast<int32_t>(a != a ? 0 : inside);
  return a >= LIMIT ? INT32_MAX : value;
};

// What kernels do by the million; nullptr for the rest.
Handler pick_fast(Type to, Type from, uint32_t mods) {
  const Rounding rounding = rounding_of(mods);
  if (to == s32 && from == f32 && rounding == Rounding::ZERO && !(mods & CVT_FTZ)) {
    return apply<TO_S32, 0, s32, f32>;
  }
  if (mods >> FLAGS_SHIFT != 0 || rounding != Rounding::NEAREST) return nullptr;
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
  opcode.mods = cvt_mods(opcode);
  if (is_real(to) || is_real(from)) {
    const Handler fast = pick_fast(to, from, opcode.mods);
    return fast != nullptr ? fast : convert;
  }
  if (opcode.has(".sat")) return convert;
  if (is_signed(to)) {
    return is_signed(from) ? convert_integer<true, true> : convert_integer<true, false>;
  }
  return is_signed(from) ? convert_integer<false, true> : convert_integer<false, false>;
}

// Packed: the first source becomes the upper half.
template <Format F, uint32_t SHIFT>
constexpr auto PACK = [](uint32_t mods, float a, float b) {
  const auto code = [mods](float x) {
    return encode<F>(x, rounding_of(mods), mods & CVT_SATFINITE, mods & CVT_RELU);
  };
  return code(a) << SHIFT | code(b);
};
constexpr auto PACK_BF16 = [](float a, float b) {
  return pack_x2(bf16_from_f32(a), bf16_from_f32(b));
};
constexpr auto PACK_F16 = [](float a, float b) {
  return pack_x2(f16_from_f32(a), f16_from_f32(b));
};
template <Format F>
constexpr auto F16X2_TO_F8X2 = [](uint32_t mods, uint32_t a) {
  return PACK<F, 8>(mods, f32_from_f16(upper_half(a)), f32_from_f16(lower_half(a)));
};
template <Format F>
constexpr auto F8X2_TO_F16X2 =
    [](uint32_t mods, uint32_t a) { return PACK<F16, 16>(mods, decode<F>(a >> 8), decode<F>(a)); };

Handler pick_cvt_x2(Opcode& opcode) {
  opcode.mods = cvt_mods(opcode);
  const bool plain =
      rounding_of(opcode.mods) == Rounding::NEAREST && opcode.mods >> FLAGS_SHIFT == 0;
  switch (opcode.type()) {
    case bf16x2:
      return plain ? apply<PACK_BF16, 0, u32, f32, f32> : apply<PACK<BF16, 16>, 0, u32, f32, f32>;
    case f16x2:
      return plain ? apply<PACK_F16, 0, u32, f32, f32> : apply<PACK<F16, 16>, 0, u32, f32, f32>;
    case e4m3x2:
      return apply<PACK<E4M3, 8>, 0, u32, f32, f32>;
    default:
      return apply<PACK<E5M2, 8>, 0, u32, f32, f32>;
  }
}
Handler pick_cvt_f8(Opcode& opcode) {
  opcode.mods = cvt_mods(opcode);
  if (opcode.type(0) == e4m3x2) return apply<F16X2_TO_F8X2<E4M3>, 0, u32, u32>;
  if (opcode.type(0) == e5m2x2) return apply<F16X2_TO_F8X2<E5M2>, 0, u32, u32>;
  return opcode.type(1) == e4m3x2 ? apply<F8X2_TO_F16X2<E4M3>, 0, u32, u32>
                                  : apply<F8X2_TO_F16X2<E5M2>, 0, u32, u32>;
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

// ---- The table ----------------------------------------------------------------------------------

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

#define APPROXIMATE ", approximately on a GPU"

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
    {"mad.hi" INTEGERS, "d:t, a:t, b:t, c:t", pick_signed<MAD_HI, 3>,
     "d = the upper half of a * b, + c"},
    {"mad.hi.sat.s32", "d:t, a:t, b:t, c:t", pick<MAD_HI_SAT, s32, s32, s32, s32>,
     "as mad.hi, saturated"},
    {"mad.wide{.s16,.u16,.s32,.u32}", "d:w, a:t, b:t, c:w", pick_mad_wide, "d = a * b + c"},
    {"fma" ROUNDED "{.f32,.f64}", "d:t, a:t, b:t, c:t", pick_wide<FMA, 3, F32_FLAGS>,
     "d = a * b + c, rounded once"},
    {"mad" ROUNDED "{.f32,.f64}", "d:t, a:t, b:t, c:t", pick_wide<FMA, 3, F32_FLAGS>, "as fma"},
    {"fma.rn{.ftz,}{.sat,.relu,}{" HALVES, "d:t, a:t, b:t, c:t",
     pick_half<FMA_HALF, 3, FTZ | SAT | RELU>, "d = a * b + c, rounded once"},
    {"mul24{.lo,.hi}{.s32,.u32}", "d:t, a:t, b:t", pick_24<MUL24, 2>,
     "d = bits 0-31 or 16-47 of the product of the lower 24 bits"},
    {"mad24{.lo,.hi}{.s32,.u32}", "d:t, a:t, b:t, c:t", pick_24<MAD24, 3>, "d = mul24(a, b) + c"},
    {"mad24.hi.sat.s32", "d:t, a:t, b:t, c:t", pick<MAD24_HI_SAT, s32, s32, s32, s32>,
     "d = mul24.hi(a, b) + c, saturated"},
    {"sad" INTEGERS, "d:t, a:t, b:t, c:t", pick_signed<SAD, 3>, "d = c + |a - b|"},
    {"div" INTEGERS, "d:t, a:t, b:t", pick_signed<DIV, 2>, "d = a / b; all ones if b is 0"},
    {"rem" INTEGERS, "d:t, a:t, b:t", pick_signed<REM, 2>, "d = a % b; all ones if b is 0"},
    {"div{.rn,.rz,.rm,.rp}{.ftz,}{.f32,.f64}", "d:t, a:t, b:t", pick_wide<FDIV, 2, FTZ | DIRECTED>,
     "d = a / b"},
    {"div.full{.ftz,}.f32", "d:t, a:t, b:t", pick_wide<DIV_FULL, 2, FTZ>, "d = a / b" APPROXIMATE},
    {"div.approx{.ftz,}.f32", "d:t, a:t, b:t", pick_wide<DIV_APPROX, 2, FTZ>,
     "d = a / b, 0 for |b| above 2^126" APPROXIMATE},
    {"min{.ftz,}{.NaN,}{.xorsign.abs,}" NUMBERS, "d:t, a:t, b:t", pick_extreme<false>,
     "d = min(a, b); of a NaN and a number the number, with .NaN the NaN"},
    {"max{.ftz,}{.NaN,}{.xorsign.abs,}" NUMBERS, "d:t, a:t, b:t", pick_extreme<true>,
     "d = max(a, b), as min"},
    {"min.relu.s32", "d:t, a:t, b:t", pick<MIN_RELU, s32, s32, s32>, "d = max(min(a, b), 0)"},
    {"max.relu.s32", "d:t, a:t, b:t", pick<MAX_RELU, s32, s32, s32>, "d = max(a, b, 0)"},
    {"neg{.ftz,}{.s16,.s32,.s64,.f32,.f64," HALVES, "d:t, a:t", pick_negation<FNEG, NEG>, "d = -a"},
    {"abs{.ftz,}{.s16,.s32,.s64,.f32,.f64," HALVES, "d:t, a:t", pick_negation<FABS, ABS>,
     "d = |a|"},
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
    {"sqrt.approx{.ftz,}.f32", "d:t, a:t", pick_real<SQRT_APPROX, 1, FTZ>,
     "d = the square root of a" APPROXIMATE},
    {"rsqrt.approx{.ftz,}.f32", "d:t, a:t", pick_real<RSQRT, 1, FTZ>,
     "d = 1 / the square root of a" APPROXIMATE},
    {"sin.approx{.ftz,}.f32", "d:t, a:t", pick_real<SIN, 1, FTZ>, "d = sin(a)" APPROXIMATE},
    {"cos.approx{.ftz,}.f32", "d:t, a:t", pick_real<COS, 1, FTZ>, "d = cos(a)" APPROXIMATE},
    {"lg2.approx{.ftz,}.f32", "d:t, a:t", pick_real<LG2, 1, FTZ>, "d = log2(a)" APPROXIMATE},
    {"ex2.approx{.ftz,}{.f32," HALVES, "d:t, a:t", pick_real<EX2, 1, FTZ>, "d = 2^a" APPROXIMATE},
    {"tanh.approx{.f32," HALVES, "d:t, a:t", pick_real<TANH, 1, 0>, "d = tanh(a)" APPROXIMATE},

    {"add.cc{.s32,.u32,.s64,.u64}", "d:t, a:t, b:t", pick_carry, "d = a + b, sets the carry flag"},
    {"addc{.cc,}{.s32,.u32,.s64,.u64}", "d:t, a:t, b:t", pick_carry, "d = a + b + carry"},
    {"sub.cc{.s32,.u32,.s64,.u64}", "d:t, a:t, b:t", pick_carry,
     "d = a - b, sets the carry flag if it borrows"},
    {"subc{.cc,}{.s32,.u32,.s64,.u64}", "d:t, a:t, b:t", pick_carry, "d = a - (b + carry)"},
    {"mad{.lo,.hi}.cc{.s32,.u32,.s64,.u64}", "d:t, a:t, b:t, c:t", pick_carry,
     "d = half of a * b, + c, sets the carry flag"},
    {"madc{.lo,.hi}{.cc,}{.s32,.u32,.s64,.u64}", "d:t, a:t, b:t, c:t", pick_carry,
     "d = half of a * b, + c + carry"},

    {"and{.pred,.b16,.b32,.b64}", "d:t, a:t, b:t", pick_logic<AND, 2>, "d = a & b"},
    {"or{.pred,.b16,.b32,.b64}", "d:t, a:t, b:t", pick_logic<OR, 2>, "d = a | b"},
    {"xor{.pred,.b16,.b32,.b64}", "d:t, a:t, b:t", pick_logic<XOR, 2>, "d = a ^ b"},
    {"not{.pred,.b16,.b32,.b64}", "d:t, a:t", pick_logic<NOT, 1>, "d = ~a"},
    {"cnot{.b16,.b32,.b64}", "d:t, a:t", pick_bits<CNOT, 1>, "d = 1 if a is 0, else 0"},
    {"lop3.b32", "d:t, a:t, b:t, c:t, table:32", pick_lop3,
     "d = for each bit, bit 4a + 2b + c of the table"},
    {"shl{.b16,.b32,.b64}", "d:t, a:t, n:32", pick_shift<SHL, u16, u32, u64>,
     "d = a << n; 0 if n is too large"},
    {"shr{.b16,.b32,.b64,.u16,.u32,.u64,.s16,.s32,.s64}", "d:t, a:t, n:32",
     pick_shift<SHR, s16, s32, s64, u16, u32, u64>, "d = a >> n; 0 or the sign if n is too large"},
    {"shf{.l,.r}{.clamp,.wrap}.b32", "d:t, a:t, b:t, n:t", pick_shf,
     "d = the upper half of {b, a} << n, or the lower half of {b, a} >> n"},
    {"bfe{.s32,.u32,.s64,.u64}", "d:t, a:t, at:32, length:32", pick_bfe, "d = a field of a"},
    {"bfi{.b32,.b64}", "d:t, a:t, b:t, at:32, length:32", pick_bfi,
     "d = b with a field replaced by a"},
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

    {"setp" INTEGER_RELATIONS COMPARED, "p:p|q:p, a:t, b:t, c:p?", pick_setp,
     "p = (a < b) and c, q = !(a < b) and c"},
    {"setp" REAL_RELATIONS REALS, "p:p|q:p, a:t, b:t, c:p?", pick_setp,
     "p = (a < b) and c, q = !(a < b) and c; of packed types p for the lower half, q for the "
     "upper"},
    {"set" INTEGER_RELATIONS "{.u32,.s32,.f32}" COMPARED, "d:t, a:s, b:s, c:p?", pick_set,
     "d = all ones, or 1.0, if (a < b) and c, else 0"},
    {"set" REAL_RELATIONS "{.u16,.s16,.u32,.s32,.f32," HALVES REALS, "d:t, a:s, b:s, c:p?",
     pick_set, "d = all ones, or 1.0, if (a < b) and c, else 0"},
    {"selp.pred", "d:p, a:p, b:p, c:p", pick_selp, "d = c ? a : b"},
    {"selp" WORDS, "d:t, a:t, b:t, c:p", pick_selp, "d = c ? a : b"},
    {"slct{.ftz,}" WORDS "{.s32,.f32}", "d:t, a:t, b:t, c:s", pick_slct, "d = c >= 0 ? a : b"},

    {"cvt{.rn,.rz,}{.relu,}{.satfinite,}{.f16x2,.bf16x2}.f32", "d:32, a:32, b:32", pick_cvt_x2,
     "d = {a, b} converted; a becomes the upper half"},
    {"cvt.rn.satfinite{.relu,}{.e4m3x2,.e5m2x2}.f32", "d:16, a:32, b:32", pick_cvt_x2,
     "d = {a, b} converted; a becomes the upper half"},
    {"cvt.rn.satfinite{.relu,}{.e4m3x2,.e5m2x2}.f16x2", "d:16, a:32", pick_cvt_f8,
     "d = both halves of a converted"},
    {"cvt.rn{.relu,}.f16x2{.e4m3x2,.e5m2x2}", "d:32, a:16", pick_cvt_f8,
     "d = both bytes of a converted"},
    {"cvt{.rn,.rz}{.satfinite,}{.relu,}.tf32.f32", "d:32, a:32", pick_cvt,
     "d = a with 10 bits of mantissa"},
    {"cvt.rna{.satfinite,}.tf32.f32", "d:32, a:32", pick_cvt, "d = a with 10 bits of mantissa"},
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
    {"cvt.pack.sat{.u16,.s16}.s32", "d:32, a:32, b:32", pick_cvt_pack,
     "d = {a, b} saturated; a becomes the upper half"},
    {"cvt.pack.sat{.u8,.s8}.s32.b32", "d:32, a:32, b:32, c:32", pick_cvt_pack,
     "d = {c's lower half, a, b}, a and b saturated"},
};

}  // namespace

Section alu_section() {
  return {"Arithmetic, logic, comparison, conversion and moves", ROWS, std::size(ROWS)};
}

}  // namespace machine
