// How handlers read and write operands, and how they stop. It knows rows, slots and addresses, and
// nothing of what an instruction does.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "common/machine/code/isa.h"
#include "common/machine/run/state.h"

namespace machine {

// ---- What a row of the decode table picks where there is nothing to choose -----------------------

template <Handler F>
Handler always(Opcode&) {
  return F;
}
// The lanes of the warp come together first.
template <Handler F>
Handler together(Opcode& opcode) {
  opcode.convergent = true;
  return F;
}
// Of a function of one lane.
template <void F(Warp&, const Inst&, uint32_t lane)>
Step each_lane(Warp& warp, const Inst& inst, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) { F(warp, inst, lane); });
  return Step::next;
}
inline Step no_operation(Warp&, const Inst&, uint32_t) {
  return Step::next;
}

// 1 if the opcode has the first of these qualifiers, 2 for the second …; 0 if it has none.
uint32_t which(const Opcode& opcode, std::span<const std::string_view> qualifiers);
inline uint32_t which(const Opcode& opcode, std::initializer_list<std::string_view> qualifiers) {
  return which(opcode, std::span(qualifiers.begin(), qualifiers.size()));
}

// ---- Lanes --------------------------------------------------------------------------------------

inline uint64_t value_of(Warp& warp, const Slot& slot, uint32_t lane) {
  return slot.width == Width::w64 ? warp.row<uint64_t>(slot.row)[lane]
                                  : warp.row<uint32_t>(slot.row)[lane];
}
// Of an operand that is the same in all lanes.
inline uint32_t immediate(Warp& warp, const Slot& slot, uint32_t mask) {
  return warp.row<uint32_t>(slot.row)[first_lane(mask)];
}
inline void set_value(Warp& warp, const Slot& slot, uint32_t mask, uint64_t value) {
  with_row(warp, slot.row, slot.width, [mask, value]<class T>(T* d) {
    for_lanes(mask, [d, value](uint32_t lane) { d[lane] = static_cast<T>(value); });
  });
}

// Predicates, as masks of lanes.
inline uint32_t get_pred(Warp& warp, const Slot& slot) {
  return slot.negated ? ~warp.pred(slot.row) : warp.pred(slot.row);
}
inline void set_pred(Warp& warp, uint32_t row, uint32_t mask, uint32_t value) {
  uint32_t& d = warp.pred(row);
  d = (d & ~mask) | (value & mask);
}

// Those lanes of the mask that have the first one's value.
uint32_t lanes_that_agree(Warp& warp, const Slot& slot, uint32_t mask);

// ---- Shared addresses -----------------------------------------------------------------------------

// How an instruction names shared memory.
enum class SharedSpace : uint8_t {
  cta,      // .shared, .shared::cta: of the CTA that executes
  cluster,  // .shared::cluster
  generic,  // no state space
};

// Of an opcode with one address; .shared may stand anywhere in it.
SharedSpace shared_space(const Opcode& opcode);

// The shared::cluster address in a lane; ends in a fault if it is not one of this space.
uint32_t shared_address(Warp& warp, const Slot& slot, uint32_t lane, SharedSpace space,
                        const char* what);

// Of .shared::cta: a fault if the address is a peer CTA's.
void check_names_own(Warp& warp, uint32_t lane, uint32_t address, const char* what);
// Of what only .shared::cta memory can be given: a fault if the address, which a generic one may
// have brought, is a peer CTA's. `instead`: what to do, ends the sentence.
void check_own_shared(Warp& warp, uint32_t lane, uint32_t address, const char* what,
                      const char* instead);

std::string hex(uint64_t value);  // "0x30400"

// fault() with a sentence made of texts and numbers; out of the way of handlers that go on.
template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void stop_as(const Rule& rule, Warp& warp, uint32_t mask,
                                                    const Parts&... parts) {
  fault(warp, mask, joined(parts...), rule);
}
template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void stop(Warp& warp, uint32_t mask, const Parts&... parts) {
  stop_as(rule::ILLEGAL, warp, mask, parts...);
}

}  // namespace machine
