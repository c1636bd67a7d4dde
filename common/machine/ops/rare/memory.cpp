// Tests of addresses, moves of vectors, accesses of 16 bytes at once, and hints to caches, which do
// nothing here: instructions that no kernel of this repository has, but other people's do.
#include <mutex>

#include "common/machine/ops/address.h"
#include "common/machine/run/allocations.h"

namespace machine {
namespace {

Step is_in_space(Warp& warp, const Inst& inst, uint32_t mask) {
  const Where space = inst.as<Where>();
  const Slot& a = inst.slots[1];
  const uint32_t result = lanes_where(mask, [&](uint32_t lane) {
    const uint64_t address = value_of(warp, a, lane), window = address & WINDOW_MASK;
    const bool own = static_cast<uint32_t>(address) >> RANK_SHIFT == warp.cta->rank;
    return space == Where::global           ? window == 0
           : space == Where::local          ? window == LOCAL_WINDOW
           : space == Where::param          ? window == PARAM_WINDOW
           : space == Where::shared_cluster ? window == SHARED_WINDOW
                                            : window == SHARED_WINDOW && own;
  });
  set_pred(warp, inst.op[0], mask, result);
  return Step::next;
}
// A .const variable is known by the name of its allocation.
Step is_in_const(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t result = lanes_where(mask, [&](uint32_t lane) {
    Allocation at;
    const bool found = find_allocation(value_of(warp, inst.slots[1], lane), &at);
    return found && at.what.starts_with("constant ");
  });
  set_pred(warp, inst.op[0], mask, result);
  return Step::next;
}
Handler pick_isspacep(Opcode& opcode) {
  if (opcode.has(".const")) return is_in_const;
  opcode.set(where(opcode));
  return is_in_space;
}

// ---- Vectors of registers -----------------------------------------------------------------------

void move_vector(Warp& warp, const Inst& inst, uint32_t lane) {
  const uint32_t parts = inst.slot_count / 2;
  uint64_t values[4];
  for (uint32_t i = 0; i < parts; ++i) values[i] = value_of(warp, inst.slots[parts + i], lane);
  for (uint32_t i = 0; i < parts; ++i) set_value(warp, inst.slots[i], 1u << lane, values[i]);
}
Handler pick_move_vector(Opcode& opcode) {
  const size_t parts = opcode.has(".v2") ? 2 : 4;
  for (const Operand& operand : *opcode.operands) {
    if (operand.parts.size() != parts) return nullptr;
  }
  return each_lane<move_vector>;
}

// ---- 16 bytes at once: two registers of 64 bits. Threads of the machine take turns --------------

std::mutex& wide_turn() {
  static std::mutex turn;
  return turn;
}

struct Wide {
  uint64_t lower, upper;
  bool operator==(const Wide&) const = default;
};
constexpr uint32_t WIDE_BYTES = sizeof(Wide);

Wide wide_of(Warp& warp, const Inst& inst, uint32_t slot, uint32_t lane) {
  return {value_of(warp, inst.slots[slot], lane), value_of(warp, inst.slots[slot + 1], lane)};
}
void set_wide(Warp& warp, const Inst& inst, uint32_t slot, uint32_t lane, const Wide& value) {
  set_value(warp, inst.slots[slot], 1u << lane, value.lower);
  set_value(warp, inst.slots[slot + 1], 1u << lane, value.upper);
}

void move_wide(Warp& warp, const Inst& inst, uint32_t lane) {
  set_wide(warp, inst, 0, lane, wide_of(warp, inst, 2, lane));
}
Step load_wide(Warp& warp, const Inst& inst, uint32_t mask) {
  Addresses a;
  resolve(warp, inst, inst.slots[2], mask, WIDE_BYTES, Access::read, "ld", a);
  look_for_poison(warp, where_of(inst), mask, a, WIDE_BYTES);
  const std::lock_guard lock(wide_turn());
  for_lanes(mask, [&](uint32_t lane) {
    set_wide(warp, inst, 0, lane, *reinterpret_cast<const Wide*>(a.at[lane]));
  });
  return Step::next;
}
Step store_wide(Warp& warp, const Inst& inst, uint32_t mask) {
  Addresses a;
  resolve(warp, inst, inst.slots[0], mask, WIDE_BYTES, Access::write, "st", a);
  const std::lock_guard lock(wide_turn());
  for_lanes(mask, [&](uint32_t lane) {
    *reinterpret_cast<Wide*>(a.at[lane]) = wide_of(warp, inst, 1, lane);
  });
  return Step::next;
}
// {d}, [a], {b}; of cas {d}, [a], {b}, {c}
Step atomic_wide(Warp& warp, const Inst& inst, uint32_t mask) {
  const bool compares = inst.as<AccessQualifiers>().reduction == Reduction::cas;
  Addresses a;
  const std::lock_guard lock(wide_turn());  // the checker is told of atomics in their order
  resolve(warp, inst, inst.slots[2], mask, WIDE_BYTES, Access::atomic, "atom", a);
  if (compares) look_for_poison(warp, where_of(inst), mask, a, WIDE_BYTES);
  for_lanes(mask, [&](uint32_t lane) {
    auto* const at = reinterpret_cast<Wide*>(a.at[lane]);
    const Wide old = *at;
    const Wide made = !compares                             ? wide_of(warp, inst, 3, lane)
                      : old == wide_of(warp, inst, 3, lane) ? wide_of(warp, inst, 5, lane)
                                                            : old;
    *at = made;
    if (made != old) ++warp.cta->cluster->changes;
    set_wide(warp, inst, 0, lane, old);
  });
  return Step::next;
}
template <Handler F>
Handler pick_wide_access(Opcode& opcode) {
  const bool is_atomic = opcode.text.starts_with("atom");
  AccessQualifiers qualifiers = access_qualifiers(opcode, is_atomic ? Order::relaxed : Order::weak);
  qualifiers.reduction = reduction_of(opcode);
  opcode.set(qualifiers);
  return F;
}
const Row ROWS[] = {
    {"isspacep{.global,.shared,.shared::cta,.shared::cluster,.local,.const,.param,.param::entry}",
     "p:p, a:x", pick_isspacep, "p = whether the generic address a is in the space"},
    {"prefetch{.global,.local,}{.L1,.L2,.L2::evict_last,.L2::evict_normal}", "[a]",
     always<no_operation>, "nothing"},
    {"prefetchu.L1", "[a]", always<no_operation>, "nothing"},
    {"applypriority{.global,}.L2::evict_normal", "[a], *", always<no_operation>, "nothing"},
    {"discard{.global,}.L2", "[a], *", always<no_operation>, "nothing"},
    {"fence.proxy.alias", "", always<no_operation>, "nothing: memory has one address"},
    {"membar.proxy.alias", "", always<no_operation>, "nothing: memory has one address"},
    {"mov{.v2,.v4}{.b16,.u16,.s16,.b32,.u32,.s32,.f32,.b64,.u64,.s64,.f64}", "{d:t}, {a:t}",
     pick_move_vector, "d = a, part by part"},
    {"mov.b128", "{d:64}, {a:64}", always<each_lane<move_wide>>,
     "d = a; either may be {lower, upper}"},
    {"ld" LOAD ".b128", "{d:64}, [a], policy:64?", pick_wide_access<load_wide>, "d = memory at a"},
    {"st" STORE ".b128", "[a], {b:64}, policy:64?", pick_wide_access<store_wide>,
     "memory at a = b"},
    {"atom" ATOMIC("{.exch}") ".b128", "{d:64}, [a], {b:64}, policy:64?",
     pick_wide_access<atomic_wide>, "d = memory at a, which becomes b"},
    {"atom" ATOMIC("{.cas}") ".b128", "{d:64}, [a], {b:64}, {c:64}, policy:64?",
     pick_wide_access<atomic_wide>, "d = memory at a, which becomes c if it is b"},
};

}  // namespace

const Section sections::RARE_MEMORY{"Rarer: addresses, 16 bytes at once, and hints", ROWS};

}  // namespace machine
