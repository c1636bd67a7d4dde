// What the mbarrier instructions share: the counts in an mbarrier's 8 bytes, and their qualifiers.
#pragma once

#include "common/machine/ops/operands.h"

namespace machine {

constexpr uint32_t COUNT_BITS = 20, TX_BITS = 21;
constexpr uint32_t MAX_COUNT = (1u << COUNT_BITS) - 1;  // of arrivals and of bytes
constexpr uint64_t TOKEN_MARK = 1ull << 63;             // pending 20 bits | phase 43 | mark

// What the 8 bytes hold: pending 20 bits | expected 20 | tx 21, signed | phase 1, its parity.
struct Counts {
  uint32_t pending = 0, expected = 0;
  int32_t tx = 0;  // bytes that are still to come
};

Counts counts_of(uint64_t bits);

// The bytes at the address must be an mbarrier, and as its operations left them.
Mbarrier& find_mbarrier(Warp& warp, uint32_t mask, uint32_t address, const char* what);
// Stores new counts; a phase is complete with no arrival and no byte to come.
void update_mbarrier(Warp& warp, uint32_t address, Mbarrier& mbarrier, Counts counts);
// "the mbarrier at shared 0x30400: phase 3, pending arrivals 1 of 2"
std::string counts_text(const Cluster& cluster, uint32_t address, const Mbarrier& mbarrier);
// Of bytes that are expected, or less than 0 that have come.
void add_tx(Warp& warp, uint32_t mask, uint32_t address, const Mbarrier& mbarrier, Counts* counts,
            int64_t bytes, const char* what);

// What takes only the executing CTA's mbarriers, and what to do instead.
enum class Own : uint8_t { any, wait, made, state, no_complete };
struct MbarrierQualifiers {
  SharedSpace space;
  Own own;
  bool relaxed : 1, cta_scope : 1, expect_tx : 1, no_complete : 1, drop : 1;
  bool try_wait : 1, parity : 1, complete_tx : 1;
};

// The address that the slot holds.
uint32_t mbarrier_at(Warp& warp, const Inst& inst, const Slot& slot, uint32_t lane,
                     const char* what);

Step mbarrier_wait(Warp& warp, const Inst& inst, uint32_t mask);
// The phase that a state was made in.
uint64_t phase_of_state(Warp& warp, uint32_t lane, uint32_t address, const Mbarrier& mbarrier,
                        uint64_t state);

bool set_mbarrier_qualifiers(Opcode& opcode);  // false: ptxas refuses them
template <Handler F>
Handler pick_mbarrier(Opcode& opcode) {
  return set_mbarrier_qualifiers(opcode) ? F : nullptr;
}

// ---- Patterns of rows ---------------------------------------------------------------------------

#define SHARED_SPACES "{.shared::cta,.shared::cluster,.shared,}"
#define MBARRIER_QUALIFIERS "{.release,.acquire,.relaxed,}{.cta,.cluster,}" SHARED_SPACES ".b64"

}  // namespace machine
