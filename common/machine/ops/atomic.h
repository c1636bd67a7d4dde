// The loop of atom and red. Lanes update one after the other, each by a compare and swap of the
// host: CTAs run on several threads. It knows nothing of addresses (address.h) or of order (the
// checker).
#pragma once

#include <atomic>
#include <type_traits>

#include "common/machine/ops/address.h"
#include "common/machine/ops/elementwise.h"

namespace machine {

// atom: d, [a], b, c; red, without d: [a], b. Vectors element by element. What takes the place of
// `old` is UPDATED(op, old, b, c, whether it is in global memory).
template <auto UPDATED, class Word, bool RETURNS>
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
        made = UPDATED(op, old, x, y, global);
      } while (!cell.compare_exchange_weak(old, made));
      changed = changed || made != old;
      if (RETURNS) warp.row<Row>(inst.slots[i].row)[lane] = old;
    }
  });
  if (changed) ++warp.cta->cluster->changes;
  return Step::next;
}

// Of integers, but for cas. `Value`: what their bits count as.
template <class Value, class Word = std::make_unsigned_t<Value>>
Word updated_integer(Reduction op, Word old, Word b, Word, bool) {
  return static_cast<Word>(reduced(op, static_cast<Value>(old), static_cast<Value>(b)));
}

// Whether there is such an update of integers.
inline bool updates_integers(Reduction op, Type type) {
  using enum Reduction;
  const bool bits = type == Type::b16 || type == Type::b32 || type == Type::b64;
  if (op == inc || op == dec) return type == Type::u32;
  return bits != (op == add || op == min || op == max);
}

// ---- Patterns of rows ---------------------------------------------------------------------------

#define UPDATES "{.add,.min,.max,.inc,.dec,.and,.or,.xor,.exch}"

}  // namespace machine
