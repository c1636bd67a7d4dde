// What no kernel of this repository does to an mbarrier: invalidate it, change its bytes to come
// without an arrival, use a state. It knows nothing of who waits.
#include "common/machine/ops/mbarrier_counts.h"
#include "common/machine/run/observer.h"

namespace machine {

uint64_t phase_of_state(Warp& warp, uint32_t lane, uint32_t address, const Mbarrier& mbarrier,
                        uint64_t state) {
  const uint64_t phase = (state & ~TOKEN_MARK) >> COUNT_BITS;
  if (!(state & TOKEN_MARK)) {
    stop(warp, 1u << lane, "The state ", hex(state), " comes from no mbarrier.arrive.");
  }
  if (phase > mbarrier.phase || phase + 1 < mbarrier.phase) {
    stop(warp, 1u << lane, "The state is of phase ", phase, " of ",
         counts_text(*warp.cta->cluster, address, mbarrier),
         ": only this phase and the one before can be waited for.");
  }
  return phase;
}

namespace {

// [a]
Step mbarrier_inval(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "mbarrier.inval";
  for_lanes(mask, [&](uint32_t lane) {
    const uint32_t address = mbarrier_at(warp, inst, inst.slots[0], lane, what);
    find_mbarrier(warp, 1u << lane, address, what);
    observer_of(warp).tell(&Checker::mbarrier_inval, warp, 1u << lane, address);
    warp.cta->cluster->mbarriers.erase(address);
  });
  return Step::next;
}

// [a], bytes
Step mbarrier_tx(Warp& warp, const Inst& inst, uint32_t mask) {
  const bool completes = inst.as<MbarrierQualifiers>().complete_tx;
  const char* const what = completes ? "mbarrier.complete_tx" : "mbarrier.expect_tx";
  for_lanes(mask, [&](uint32_t lane) {
    const uint32_t address = mbarrier_at(warp, inst, inst.slots[0], lane, what);
    Mbarrier& mbarrier = find_mbarrier(warp, 1u << lane, address, what);
    Counts counts = counts_of(mbarrier.bits);
    const int64_t bytes = warp.row<uint32_t>(inst.slots[1].row)[lane];
    add_tx(warp, 1u << lane, address, mbarrier, &counts, completes ? -bytes : bytes, what);
    observer_of(warp).tell(&Checker::mbarrier_use, warp, 1u << lane, address);
    update_mbarrier(warp, address, mbarrier, counts);
  });
  return Step::next;
}

// count, state
Step mbarrier_pending_count(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint64_t* const state = warp.row<uint64_t>(inst.slots[1].row);
  uint32_t* const count = warp.row<uint32_t>(inst.slots[0].row);
  for_lanes(mask, [&](uint32_t lane) { count[lane] = state[lane] & MAX_COUNT; });
  return Step::next;
}

const Row ROWS[] = {
    {"mbarrier.inval" SHARED_SPACES ".b64", "[a]", pick_mbarrier<mbarrier_inval>,
     "its bytes are no mbarrier any more"},
    {"mbarrier{.expect_tx,.complete_tx}" MBARRIER_QUALIFIERS, "[a], bytes:32",
     pick_mbarrier<mbarrier_tx>, "expect bytes in this phase; count them as come"},
    {"mbarrier{.test_wait,.try_wait}" MBARRIER_QUALIFIERS, "done:p, [a], state:64, limit:32?",
     pick_mbarrier<mbarrier_wait>, "whether the phase of the state is complete"},
    {"mbarrier.pending_count.b64", "count:32, state:64", always<mbarrier_pending_count>,
     "the arrivals that were pending when the state was made"},
};

}  // namespace

const Section sections::RARE_MBARRIER{"Rarer: mbarriers", ROWS};

}  // namespace machine
