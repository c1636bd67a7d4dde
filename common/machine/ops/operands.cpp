// Operands that several families of instructions read in the same way.
#include "common/machine/ops/operands.h"

#include <cstdio>

namespace machine {

uint32_t which(const Opcode& opcode, std::span<const std::string_view> qualifiers) {
  for (uint32_t i = 0; i < qualifiers.size(); ++i) {
    if (opcode.has(qualifiers[i])) return i + 1;
  }
  return 0;
}

SharedSpace shared_space(const Opcode& opcode) {
  if (opcode.has(".shared::cluster")) return SharedSpace::cluster;
  const bool named = opcode.has(".shared") || opcode.has(".shared::cta");
  return named ? SharedSpace::cta : SharedSpace::generic;
}

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

uint32_t lanes_that_agree(Warp& warp, const Slot& slot, uint32_t mask) {
  const uint64_t first = value_of(warp, slot, first_lane(mask));
  return lanes_where(mask, [&](uint32_t lane) { return value_of(warp, slot, lane) == first; });
}

uint32_t shared_address(Warp& warp, const Slot& slot, uint32_t lane, SharedSpace space,
                        const char* what) {
  const uint64_t value = value_of(warp, slot, lane) + static_cast<uint64_t>(slot.offset);
  const uint32_t address = static_cast<uint32_t>(value);
  if (space == SharedSpace::generic && (value & WINDOW_MASK) != SHARED_WINDOW) {
    stop(warp, 1u << lane, what, ": the generic address ", hex(value), " is not in shared memory.");
  }
  if (space == SharedSpace::cta) check_names_own(warp, lane, address, what);
  return address;
}

void check_names_own(Warp& warp, uint32_t lane, uint32_t address, const char* what) {
  if (address >> RANK_SHIFT == warp.cta->rank) return;
  stop(warp, 1u << lane, what, ": shared ", hex(address), " is not in the executing CTA (rank ",
       warp.cta->rank, "), and .shared::cta names only its memory.");
}

void check_own_shared(Warp& warp, uint32_t lane, uint32_t address, const char* what,
                      const char* instead) {
  if (address >> RANK_SHIFT == warp.cta->rank) return;
  stop(warp, 1u << lane, what, ": shared ", hex(address), " is in the CTA of rank ",
       address >> RANK_SHIFT,
       ", but this instruction takes only memory of the CTA that executes it (rank ",
       warp.cta->rank, "); ", instead, ".");
}

}  // namespace machine
