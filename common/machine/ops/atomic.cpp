// atom and red. Lanes update one after the other, each by a compare and swap of the host: CTAs run on
// several threads. It knows nothing of addresses (address.h) or of order (the checker).
#include <atomic>
#include <type_traits>

#include "common/machine/ops/address.h"
#include "common/machine/ops/elementwise.h"

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
  } else {
    constexpr Type HALF = elementwise::half_of(T);
    return pack_x2(combine<HALF>(op, upper_half(a), upper_half(b), global),
                   combine<HALF>(op, lower_half(a), lower_half(b), global));
  }
}

// What takes the place of `old`. `global`: it is in global memory.
template <Type T, class Word>
Word updated(Reduction op, Word old, Word b, Word c, bool global) {
  if constexpr (is_float(T)) {
    return combine<T>(op, old, b, global);
  } else {
    using Value = elementwise::Value<T>;
    if (op == Reduction::cas) return old == b ? c : old;
    return static_cast<Word>(reduced(op, static_cast<Value>(old), static_cast<Value>(b)));
  }
}

// atom: d, [a], b, c; red, without d: [a], b. Vectors element by element.
template <Type T, class Word, bool RETURNS>
Step atomic(Warp& warp, const Inst& inst, uint32_t mask) {
  using Row = std::conditional_t<sizeof(Word) == 8, uint64_t, uint32_t>;
  const uint32_t count = element_count(inst);
  const uint32_t address = RETURNS ? count : 0, b = address + 1;
  const Reduction op = inst.as<AccessQualifiers>().reduction;
  Addresses a;
  resolve(warp, inst, inst.slots[address], mask, count * sizeof(Word), Access::atomic,
          RETURNS ? "atom" : "red", a);
  if (op != Reduction::exch) look_for_poison(warp, where_of(inst), mask, a, count * sizeof(Word));
  const auto& memory = warp.cta->cluster->memory;  // with all shared memory of the cluster
  bool changed = false;
  for_lanes(mask, [&](uint32_t lane) {
    for (uint32_t i = 0; i < count; ++i) {
      Word* const at = reinterpret_cast<Word*>(a.at[lane]) + i;
      const auto* const byte = reinterpret_cast<const std::byte*>(at);
      const bool global = byte < memory.data() || byte >= memory.data() + memory.size();
      const auto x = static_cast<Word>(warp.row<Row>(inst.slots[b + i].row)[lane]);
      const auto y = op == Reduction::cas
                         ? static_cast<Word>(warp.row<Row>(inst.slots[b + 1].row)[lane])
                         : Word{0};
      std::atomic_ref<Word> cell(*at);
      Word old = cell.load(), made;
      do {
        made = updated<T>(op, old, x, y, global);
      } while (!cell.compare_exchange_weak(old, made));
      changed = changed || made != old;
      if (RETURNS) warp.row<Row>(inst.slots[i].row)[lane] = old;
    }
  });
  if (changed) ++warp.cta->cluster->changes;
  return Step::next;
}

// Whether there is such an update. Extremes of real numbers are of vectors alone.
bool is_legal(Reduction op, Type type, uint32_t count) {
  using enum Reduction;
  const bool extremes = op == min || op == max;
  if (is_float(type)) return op == add || (extremes && count > 1);
  const bool bits = type == Type::b16 || type == Type::b32 || type == Type::b64;
  if (op == inc || op == dec) return type == Type::u32;
  return bits != (op == add || extremes);
}

template <bool RETURNS>
Handler pick_atomic(Opcode& opcode) {
  using enum Type;
  AccessQualifiers qualifiers = access_qualifiers(opcode, Order::relaxed);
  qualifiers.reduction = reduction_of(opcode);
  opcode.set(qualifiers);
  const uint32_t count = qualifiers.count;
  const Type type = opcode.type();
  const bool is_vector = is_float(type) && type != f64 && is_vector_allowed(opcode, count);
  if ((count > 1 && !is_vector) || !is_legal(qualifiers.reduction, type, count)) return nullptr;
  return elementwise::for_type<s32, s64, u16, u32, u64, f16, bf16, f16x2, bf16x2, f32, f64>(
      type, []<Type T>() -> Handler {
        using Word = std::conditional_t<bytes_of(T) == 2, uint16_t, elementwise::Bits<T>>;
        return atomic<T, Word, RETURNS>;
      });
}

#define UPDATES "{.add,.min,.max,.inc,.dec,.and,.or,.xor,.exch}"
#define ATOMIC_TYPES "{.b16,.b32,.u32,.s32,.b64,.u64,.s64,.f16,.bf16,.f16x2,.bf16x2,.f32,.f64}"

const Row ROWS[] = {
    {"atom" ATOMIC(UPDATES) ATOMIC_TYPES, "d:t, [a], b:t, policy:64?", pick_atomic<true>,
     "d = memory at a, which becomes (d op b)"},
    {"atom" ATOMIC("{.cas}") "{.b16,.b32,.b64}", "d:t, [a], b:t, c:t, policy:64?",
     pick_atomic<true>, "d = memory at a, which becomes c if it is b"},
    {"atom" ATOMIC(UPDATES) "{.v2,.v4,.v8}" ATOMIC_TYPES, "{d:t}, [a], {b:t}, policy:64?",
     pick_atomic<true>, "as above, element by element"},
    {"red" ATOMIC(UPDATES) ATOMIC_TYPES, "[a], b:t, policy:64?", pick_atomic<false>,
     "memory at a becomes (it op b)"},
    {"red" ATOMIC(UPDATES) "{.v2,.v4,.v8}" ATOMIC_TYPES, "[a], {b:t}, policy:64?",
     pick_atomic<false>, "as above, element by element"},
};

}  // namespace

const Section sections::ATOMIC{"Atomics", ROWS};

}  // namespace machine
