// atom of other numbers than integers and of vectors, compare and swap, and red: no kernel of this
// repository has them, but other people's do. It knows nothing of how lanes take turns (atomic.h).
#include "common/machine/ops/atomic.h"

namespace machine {
namespace {

// Sums and extremes of two numbers of a type, as bits. Global memory has adders of its own: they
// flush f32 and pass on a NaN of f64 as it is.
template <Type T, class Word>
Word combine(Reduction op, Word a, Word b, bool global) {
  const auto pick = [op](auto x, auto y) {
    if (op == Reduction::add) return static_cast<decltype(x)>(x + y);
    if (x != x) return y;
    return (op == Reduction::min) == (y < x) ? y : x;
  };
  if constexpr (T == Type::f32) {
    const auto tiny = [global](uint32_t x) {
      return global && (x & 0x7f800000) == 0 ? x >> 31 << 31 : x;
    };
    const float sum = pick(std::bit_cast<float>(tiny(a)), std::bit_cast<float>(tiny(b)));
    return sum != sum ? F32_NAN : tiny(std::bit_cast<uint32_t>(sum));
  } else if constexpr (T == Type::f64) {
    const double x = std::bit_cast<double>(a), y = std::bit_cast<double>(b);
    constexpr uint64_t QUIET = 1ull << 51;
    if (x == x && y == y) return std::bit_cast<uint64_t>(x + y);
    if (global) return y != y ? b : a;
    return (x != x ? a : b) | QUIET;
  } else if constexpr (T == Type::f16) {
    return static_cast<Word>(f16_from_f32(pick(decode<F16>(a), decode<F16>(b))));
  } else if constexpr (T == Type::bf16) {
    return static_cast<Word>(bf16_from_f32(pick(decode<BF16>(a), decode<BF16>(b))));
  } else if constexpr (T == Type::f16x2 || T == Type::bf16x2) {
    constexpr Type HALF = T == Type::f16x2 ? Type::f16 : Type::bf16;
    return pack_x2(combine<HALF>(op, upper_half(a), upper_half(b), global),
                   combine<HALF>(op, lower_half(a), lower_half(b), global));
  } else {
    return updated_integer<elementwise::Value<T>>(op, a, b, Word{0}, global);
  }
}

// What takes the place of `old`.
template <Type T, class Word>
Word updated(Reduction op, Word old, Word b, Word c, bool global) {
  if (op == Reduction::cas) return old == b ? c : old;
  if (op <= Reduction::max) return combine<T>(op, old, b, global);
  return reduced(op, old, b);
}

Handler pick_atomic(Opcode& opcode) {
  using enum Type;
  AccessQualifiers qualifiers = access_qualifiers(opcode, Order::relaxed);
  const Reduction op = qualifiers.reduction = reduction_of(opcode);
  opcode.set(qualifiers);
  const uint32_t count = qualifiers.count;
  const Type type = opcode.type();
  if (count > 1 && (!is_float(type) || type == f64 || !is_vector_allowed(opcode, count))) {
    return nullptr;
  }
  const bool sums = op == Reduction::add, extremes = op == Reduction::min || op == Reduction::max;
  const bool legal = is_float(type) ? sums || (extremes && count > 1) : updates_integers(op, type);
  if (!legal) return nullptr;
  return elementwise::for_type<s32, s64, u16, u32, u64, f16, bf16, f16x2, bf16x2, f32, f64>(
      is_float(type) || is_signed(type) ? type : elementwise::unsigned_of(type),
      [&opcode]<Type T>() -> Handler {
        using Word = std::conditional_t<bytes_of(T) == 2, uint16_t,
                                        std::conditional_t<bytes_of(T) == 8, uint64_t, uint32_t>>;
        const bool returns = opcode.text.starts_with("atom");
        return returns ? atomic<updated<T, Word>, Word, true>
                       : atomic<updated<T, Word>, Word, false>;
      });
}

#define ATOMIC_TYPES "{.b16,.b32,.u32,.s32,.b64,.u64,.s64,.f16,.bf16,.f16x2,.bf16x2,.f32,.f64}"

const Row ROWS[] = {
    {"atom" ATOMIC(UPDATES) "{.b16,.f16,.bf16,.f16x2,.bf16x2,.f32,.f64}",
     "d:t, [a], b:t, policy:64?", pick_atomic, "d = memory at a, which becomes (d op b)"},
    {"atom" ATOMIC("{.cas}") "{.b16,.b32,.b64}", "d:t, [a], b:t, c:t, policy:64?", pick_atomic,
     "d = memory at a, which becomes c if it is b"},
    {"atom" ATOMIC(UPDATES) "{.v2,.v4,.v8}" ATOMIC_TYPES, "{d:t}, [a], {b:t}, policy:64?",
     pick_atomic, "as above, element by element"},
    {"red" ATOMIC(UPDATES) ATOMIC_TYPES, "[a], b:t, policy:64?", pick_atomic,
     "memory at a becomes (it op b)"},
    {"red" ATOMIC(UPDATES) "{.v2,.v4,.v8}" ATOMIC_TYPES, "[a], {b:t}, policy:64?", pick_atomic,
     "as above, element by element"},
};

}  // namespace

const Section sections::RARE_ATOMIC{"Rarer: atomics", ROWS};

}  // namespace machine
