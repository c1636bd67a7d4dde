// What changes an element in memory by what is there: atom, red, and copies that reduce. Each is a
// compare and swap of the host, since CTAs run on several threads. It knows nothing of addresses
// (address.h) or of order (the checker).
#include <atomic>
#include <mutex>
#include <type_traits>
#include <utility>

#include "common/machine/ops/address.h"
#include "common/machine/ops/elementwise.h"
#include "common/machine/run/observer.h"

namespace machine {
namespace {

template <Type T>
using Word = std::conditional_t<bytes_of(T) == 2, uint16_t, elementwise::Bits<T>>;

// Of two numbers one that is NaN loses, and -0 is below 0.
float smaller(float a, float b) {
  if (a != a || b != b) return a != a ? b : a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

// Sums and extremes of two real numbers, as bits. `flushes`: by the adders that global memory has of
// its own: they flush f32 and pass on a NaN of f64 as it is.
template <Type T>
Word<T> combine(Reduction op, Word<T> a, Word<T> b, bool flushes) {
  const auto of_floats = [op](float x, float y) {
    return op == Reduction::add ? x + y : op == Reduction::min ? smaller(x, y) : -smaller(-x, -y);
  };
  if constexpr (T == Type::f32) {
    const auto tiny = [flushes](uint32_t x) { return flushes ? elementwise::flush_f32(x) : x; };
    const float sum = std::bit_cast<float>(tiny(a)) + std::bit_cast<float>(tiny(b));
    return sum != sum ? F32_NAN : tiny(std::bit_cast<uint32_t>(sum));
  } else if constexpr (T == Type::f64) {
    const double x = std::bit_cast<double>(a), y = std::bit_cast<double>(b);
    constexpr uint64_t QUIET = 1ull << 51;
    if (x == x && y == y) return std::bit_cast<uint64_t>(x + y);
    if (flushes) return y != y ? b : a;
    return (x != x ? a : b) | QUIET;
  } else if constexpr (T == Type::f16) {
    return static_cast<uint16_t>(f16_from_f32(of_floats(decode<F16>(a), decode<F16>(b))));
  } else if constexpr (T == Type::bf16) {
    return static_cast<uint16_t>(bf16_from_f32(of_floats(decode<BF16>(a), decode<BF16>(b))));
  } else {
    constexpr Type HALF = elementwise::half_of(T);
    const auto of_half = [&](uint32_t x, uint32_t y) {
      return combine<HALF>(op, static_cast<uint16_t>(x), static_cast<uint16_t>(y), flushes);
    };
    return pack_x2(of_half(upper_half(a), upper_half(b)), of_half(a, b));
  }
}

// Puts op(what is there, b) in its place, or of cas c if b is there. Returns what was there, and
// whether it is another value now.
template <Type T>
std::pair<Word<T>, bool> update(Word<T>* at, Reduction op, Word<T> b, Word<T> c, bool flushes) {
  std::atomic_ref<Word<T>> cell(*at);
  Word<T> old = cell.load(), made;
  do {
    if constexpr (is_float(T)) {
      made = combine<T>(op, old, b, flushes);
    } else {
      using Value = elementwise::Value<T>;
      made =
          op == Reduction::cas
              ? (old == b ? c : old)
              : static_cast<Word<T>>(reduced(op, static_cast<Value>(old), static_cast<Value>(b)));
    }
  } while (!cell.compare_exchange_weak(old, made));
  return {old, made != old};
}

// The checker keeps the last atomic of a place, so it is told of them in the order in which they
// happen. Shared memory is its cluster's alone, and so one thread's of the machine.
std::unique_lock<std::mutex> take_turn(const Warp& warp, Where where) {
  static std::mutex mutex;
  const bool alone = where == Where::shared_cta || where == Where::shared_cluster ||
                     observer_of(warp).checker == nullptr;
  return alone ? std::unique_lock<std::mutex>() : std::unique_lock(mutex);
}

// atom: d, [a], b, c; red, without d: [a], b. Vectors element by element.
template <Type T, bool RETURNS>
Step atomic(Warp& warp, const Inst& inst, uint32_t mask) {
  using Row = elementwise::Bits<T>;
  const uint32_t count = element_count(inst), bytes = count * sizeof(Word<T>);
  const uint32_t address = RETURNS ? count : 0, b = address + 1;
  const Reduction op = inst.as<AccessQualifiers>().reduction;
  Addresses a;
  const auto turn = take_turn(warp, where_of(inst));
  resolve(warp, inst, inst.slots[address], mask, bytes, Access::atomic, RETURNS ? "atom" : "red",
          a);
  if (op != Reduction::exch) look_for_poison(warp, where_of(inst), mask, a, bytes);
  const auto& memory = warp.cta->cluster->memory;  // with all shared memory of the cluster
  const auto operand = [&](uint32_t slot, uint32_t lane) {
    return static_cast<Word<T>>(warp.row<Row>(inst.slots[slot].row)[lane]);
  };
  bool any_changed = false;
  for_lanes(mask, [&](uint32_t lane) {
    for (uint32_t i = 0; i < count; ++i) {
      auto* const at = reinterpret_cast<Word<T>*>(a.at[lane]) + i;
      const auto* const byte = reinterpret_cast<const std::byte*>(at);
      const bool global = byte < memory.data() || byte >= memory.data() + memory.size();
      const auto c = op == Reduction::cas ? operand(b + 1, lane) : Word<T>{0};
      const auto [old, changed] = update<T>(at, op, operand(b + i, lane), c, global);
      any_changed = any_changed || changed;
      if (RETURNS) warp.row<Row>(inst.slots[i].row)[lane] = old;
    }
  });
  if (any_changed) ++warp.cta->cluster->changes;
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
      type, []<Type T>() -> Handler { return atomic<T, RETURNS>; });
}

// ---- Copies that reduce -------------------------------------------------------------------------

template <Type T, bool FLUSHES = true>
void reduce(std::byte* to, const std::byte* from, size_t bytes, Reduction op) {
  for (size_t at = 0; at < bytes; at += sizeof(Word<T>)) {
    Word<T> operand;
    std::memcpy(&operand, from + at, sizeof operand);
    update<T>(reinterpret_cast<Word<T>*>(to + at), op, operand, 0, FLUSHES);
  }
}

using Reducer = void (*)(std::byte* to, const std::byte* from, size_t bytes, Reduction op);
// By TensorType; null: there is no reduction of such elements.
constexpr Reducer REDUCERS[static_cast<size_t>(TensorType::tf32_ftz) + 1] = {
    nullptr,           nullptr,
    reduce<Type::u32>, reduce<Type::s32>,
    reduce<Type::u64>, reduce<Type::s64>,
    reduce<Type::f16>, reduce<Type::f32, false>,
    reduce<Type::f64>, reduce<Type::bf16>,
    reduce<Type::f32>};

// ---- Instructions -------------------------------------------------------------------------------

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

bool has_reduction(Reduction op, TensorType type) {
  using enum Reduction;
  if (REDUCERS[static_cast<size_t>(type)] == nullptr) return false;
  if (op == inc || op == dec) return type == TensorType::u32;
  if (type < TensorType::f16 || op == add) return true;
  return (op == min || op == max) && (type == TensorType::f16 || type == TensorType::bf16);
}

void put(std::byte* to, const std::byte* from, size_t bytes, Reduction op, TensorType type) {
  if (op == Reduction::none) return void(std::memcpy(to, from, bytes));
  REDUCERS[static_cast<size_t>(type)](to, from, bytes, op);
}

const Section sections::ATOMIC{"Atomics", ROWS};

}  // namespace machine
