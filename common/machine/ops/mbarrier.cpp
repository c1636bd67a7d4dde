// mbarriers: their 8 bytes, phases, arrivals and bytes to come. Who waits is parked by the scheduler;
// what an arrival or a wait orders is told to the checker. It knows nothing of who brings the bytes.
#include "common/machine/ops/mbarrier.h"

#include <algorithm>
#include <bit>
#include <set>

#include "common/machine/ops/operands.h"
#include "common/machine/run/observer.h"

namespace machine {
namespace {

constexpr uint32_t COUNT_BITS = 20;
constexpr uint32_t MAX_COUNT = (1u << COUNT_BITS) - 1;  // of arrivals and of bytes
constexpr uint64_t TOKEN_MARK = 1ull << 63;             // pending 20 bits | phase 43 | mark

// What the 8 bytes hold.
struct Counts {
  uint64_t pending : COUNT_BITS, expected : COUNT_BITS;
  int64_t tx : COUNT_BITS + 1;  // bytes that are still to come
  uint64_t parity : 1;          // of the phase
  uint64_t raised : 1;          // its pending arrivals, by cp.async.mbarrier.arrive
  uint64_t unused : 1;
};

Counts counts_of(uint64_t bits) {
  return std::bit_cast<Counts>(bits);
}
constexpr uint64_t PARITY = std::bit_cast<uint64_t>(Counts{0, 0, 0, 1, 0, 0});

std::string name_of(const Cluster& cluster, uint32_t address) {
  const std::string text = "the mbarrier at shared " + hex(address);
  if (cluster.ctas.size() == 1) return text;
  return joined(text, " (CTA rank ", address >> RANK_SHIFT, ")");
}

// ".\n    Arrived: 3, by warps 4 to 6 (consumer) of CTA (0,0,0)": in the phase under way.
std::string arrivals_text(const Mbarrier& mbarrier) {
  if (mbarrier.arrived.empty()) return "";
  std::set<const Warp*> warps;
  uint32_t made = 0;
  for (const auto& [warp, count] : mbarrier.arrived) {
    warps.insert(warp);
    made += count;
  }
  return joined(".\n    Arrived: ", made, ", by ", describe_roles(warps));
}

// "the mbarrier at shared 0x30400: phase 3, pending arrivals 1 of 2"
std::string counts_text(const Cluster& cluster, uint32_t address, const Mbarrier& mbarrier) {
  const Counts counts = counts_of(mbarrier.bits);
  const std::string text = joined(name_of(cluster, address), ": phase ", mbarrier.phase,
                                  ", pending arrivals ", counts.pending, " of ", counts.expected);
  if (counts.tx == 0) return text;
  return counts.tx > 0
             ? joined(text, ", tx-count ", counts.tx, " bytes still to come")
             : joined(text, ", tx-count ", -counts.tx, " bytes more than expected have come");
}

// The 8 bytes at the address, which may be an mbarrier's.
uint64_t mbarrier_bits(Warp& warp, uint32_t mask, uint32_t address, const char* what) {
  Cluster& cluster = *warp.cta->cluster;
  if (address % 8 != 0) {
    stop(warp, mask, what, " at shared ", hex(address), ": an mbarrier is aligned to 8 bytes.");
  }
  uint64_t bits = 0;
  std::memcpy(&bits, shared_bytes(warp, mask, address, 8, what), 8);
  if (cta_of(cluster, address)->live_threads == 0) {
    stop(warp, mask, what, " on ", name_of(cluster, address),
         ", all threads of whose CTA have exited: its shared memory may be another's now. "
         "A wait for the phase by a thread of that CTA keeps it until then, or "
         "barrier.cluster.arrive and .wait by all of the cluster's threads.");
  }
  return bits;
}

// What lanes of a warp do to an mbarrier by the instruction `what`: its counts change here first.
struct Use {
  Warp& warp;
  uint32_t mask, address;
  const char* what;
  Mbarrier& mbarrier;
  Counts counts = counts_of(mbarrier.bits);

  std::string text() const { return counts_text(*warp.cta->cluster, address, mbarrier); }

  // Of bytes that are expected, or less than 0 that have come.
  void add_tx(int64_t bytes) {
    const int64_t tx = counts.tx + bytes;
    if (tx > int64_t{MAX_COUNT} || tx < -int64_t{MAX_COUNT}) {
      stop(warp, mask, what, " of ", bytes < 0 ? -bytes : bytes, " bytes on ", text(),
           ": the tx-count must stay within ", MAX_COUNT, " bytes.");
    }
    counts.tx = tx;
  }
  void take_arrivals(uint64_t arrivals) {
    if (arrivals > counts.pending) {
      stop(warp, mask, what, " makes ", arrivals, (arrivals == 1 ? " arrival" : " arrivals"),
           ", more than are expected, on ", text(), arrivals_text(mbarrier),
           ".\n    Likely: the count of mbarrier.init is too low, or somebody arrives who has not "
           "waited for the phase before.");
    }
    if (mbarrier.arrived.empty() || mbarrier.arrived.back().first != &warp) {
      mbarrier.arrived.emplace_back(&warp, 0);
    }
    mbarrier.arrived.back().second += static_cast<uint32_t>(arrivals);
    counts.pending -= arrivals;
  }
  void store() {
    counts.parity = mbarrier.phase & 1;
    mbarrier.bits = std::bit_cast<uint64_t>(counts);
    Cta& owner = *cta_of(*warp.cta->cluster, address);
    std::memcpy(owner.smem + ((address & OFFSET_MASK) - SMEM_BASE), &mbarrier.bits, 8);
    ++warp.cta->cluster->changes;
  }
  // Stores the counts; a phase is complete with no arrival and no byte to come.
  void end() {
    if (counts.pending == 0 && counts.tx == 0) {
      observer_of(warp).mbarrier_phase_complete(address);
      ++mbarrier.phase;
      mbarrier.seen = false;
      mbarrier.arrived.clear();
      counts.pending = counts.expected;
      counts.raised = 0;
      signal(*warp.cta->cluster);
    }
    store();
  }
};

// The bytes at the address must be an mbarrier, and as its operations left them.
Use use_of(Warp& warp, uint32_t mask, uint32_t address, const char* what) {
  Cluster& cluster = *warp.cta->cluster;
  const uint64_t bits = mbarrier_bits(warp, mask, address, what);
  const auto found = cluster.mbarriers.find(address);
  if (found == cluster.mbarriers.end()) {
    stop(warp, mask, what, " on ", name_of(cluster, address),
         ": no mbarrier.init was executed for it, or not yet, or mbarrier.inval was: a barrier "
         "keeps "
         "others from it until the one, and until they are done before the other.");
  }
  if (bits != found->second.bits) {
    stop(warp, mask, what, " on ", name_of(cluster, address),
         ": its 8 bytes were overwritten; they hold ", hex(bits), ".");
  }
  return {warp, mask, address, what, found->second};
}

// What takes only the executing CTA's mbarriers, and what to do instead.
enum class Own : uint8_t { any, wait, made, state, no_complete };
struct MbarrierQualifiers {
  SharedSpace space;
  Own own;
  bool relaxed : 1, cta_scope : 1, expect_tx : 1, no_complete : 1, drop : 1;
  bool try_wait : 1, parity : 1, complete_tx : 1;
};

// By Own.
constexpr const char* INSTEAD[] = {
    "", "wait on an mbarrier of its own, at which the peer arrives",
    "each CTA does this to its own mbarriers", "a remote arrive has no state: write _ in its place",
    "a remote arrive is one without .noComplete and without a state"};

// PTX says .cta where no scope is written. CUTLASS and Triton write none to arrive at a peer's
// mbarrier and to wait for it, so that only a .cta that is written counts as one.
Scope scope_of(const MbarrierQualifiers& qualifiers) {
  return qualifiers.cta_scope ? Scope::cta : Scope::cluster;
}

Own own_of(const Opcode& opcode) {
  if (opcode.has(".try_wait") || opcode.has(".test_wait")) return Own::wait;
  if (opcode.has(".init") || opcode.has(".inval")) return Own::made;
  if (opcode.has(".noComplete")) return Own::no_complete;
  const bool arrives = opcode.has(".arrive") || opcode.has(".arrive_drop");
  return arrives && (*opcode.operands)[0].kind != Operand::Kind::sink ? Own::state : Own::any;
}

template <Handler F>
Handler pick_mbarrier(Opcode& opcode) {
  MbarrierQualifiers qualifiers{};
  qualifiers.own = own_of(opcode);
  if (qualifiers.own != Own::any && opcode.has(".shared::cluster"))
    return nullptr;  // as ptxas does
  qualifiers.space = shared_space(opcode);
  qualifiers.relaxed = opcode.has(".relaxed");
  qualifiers.cta_scope = opcode.has(".cta");
  qualifiers.expect_tx = opcode.has(".expect_tx");
  qualifiers.no_complete = opcode.has(".noComplete");
  qualifiers.drop = opcode.has(".arrive_drop");
  qualifiers.try_wait = opcode.has(".try_wait");
  qualifiers.parity = opcode.has(".parity");
  qualifiers.complete_tx = opcode.has(".complete_tx");
  opcode.set(qualifiers);
  return F;
}

// The address that the slot holds.
uint32_t mbarrier_at(Warp& warp, const Inst& inst, const Slot& slot, uint32_t lane,
                     const char* what) {
  const auto qualifiers = inst.as<MbarrierQualifiers>();
  const uint32_t address = shared_address(warp, slot, lane, qualifiers.space, what);
  if (qualifiers.own != Own::any) {
    check_own_shared(warp, lane, address, what, INSTEAD[static_cast<size_t>(qualifiers.own)]);
  }
  return address;
}

// [a], count
void mbarrier_init(Warp& warp, const Inst& inst, uint32_t lane) {
  const char* const what = "mbarrier.init";
  const uint32_t bit = 1u << lane;
  const uint32_t address = mbarrier_at(warp, inst, inst.slots[0], lane, what);
  const uint32_t count = warp.row<uint32_t>(inst.slots[1].row)[lane];
  const uint64_t bits = mbarrier_bits(warp, bit, address, what);
  if (count == 0 || count > MAX_COUNT) {
    stop(warp, bit, what, " with ", count, " arrivals: it must be from 1 to ", MAX_COUNT, ".");
  }
  Use use{warp, bit, address, what, warp.cta->cluster->mbarriers[address]};
  const Counts& old = use.counts;
  if (bits == use.mbarrier.bits && (old.pending != old.expected || old.tx != 0)) {
    stop(warp, bit, what, " in the middle of a phase of ", use.text(), ".");
  }
  observer_of(warp).tell(&Checker::mbarrier_init, warp, bit, address);
  use.mbarrier.phase = 0;
  use.mbarrier.seen = false;
  use.counts = {count, count, 0, 0, 0, 0};
  use.store();
}

// state, [a], count? -- or bytes, of .expect_tx. Lanes that arrive at one mbarrier do so at once,
// as far as its phase takes them.
Step mbarrier_arrive(Warp& warp, const Inst& inst, uint32_t mask) {
  const auto qualifiers = inst.as<MbarrierQualifiers>();
  const bool expects_tx = qualifiers.expect_tx, drops = qualifiers.drop;
  const char* const what = expects_tx ? "mbarrier.arrive.expect_tx"
                           : drops    ? "mbarrier.arrive_drop"
                                      : "mbarrier.arrive";
  uint64_t* const state = warp.row<uint64_t>(inst.slots[0].row);
  const uint32_t* const values =
      inst.slot_count > 2 ? warp.row<uint32_t>(inst.slots[2].row) : nullptr;
  while (mask != 0) {
    const uint32_t address = mbarrier_at(warp, inst, inst.slots[1], first_lane(mask), what);
    Use use = use_of(warp, mask & -mask, address, what);
    Counts& counts = use.counts;
    uint32_t lanes = 0;
    uint64_t arrivals = 0, bytes = 0;
    for (uint32_t rest = lanes_that_agree(warp, inst.slots[1], mask);
         rest != 0 && (lanes == 0 || arrivals < counts.pending); rest &= rest - 1) {
      const uint32_t lane = first_lane(rest);
      const uint32_t count = expects_tx || values == nullptr ? 1 : values[lane];
      if (count == 0 || count > MAX_COUNT) {
        stop(warp, 1u << lane, what, " with a count of ", count, ": it must be from 1 to ",
             MAX_COUNT, ".");
      }
      const uint64_t pending = counts.pending - std::min<uint64_t>(arrivals, counts.pending);
      state[lane] = TOKEN_MARK | use.mbarrier.phase << COUNT_BITS | pending;
      lanes |= 1u << lane;
      arrivals += count;
      if (expects_tx) bytes += values[lane];
    }
    mask &= ~lanes;
    use.mask = lanes;
    use.add_tx(static_cast<int64_t>(bytes));
    use.take_arrivals(arrivals);
    if (qualifiers.no_complete && counts.pending == 0) {
      stop(warp, lanes, what, ".noComplete makes the last arrival of the phase of ", use.text(),
           ".");
    }
    if (drops) {
      if (arrivals > counts.expected) {
        stop(warp, lanes, what, " drops more than all arrivals of ", use.text(), ".");
      }
      counts.expected -= arrivals;
    }
    observer_of(warp).mbarrier_arrive(warp, lanes, address, !qualifiers.relaxed,
                                      scope_of(qualifiers), static_cast<uint32_t>(bytes));
    use.end();
  }
  return Step::next;
}

// The phase that a state was made in.
uint64_t phase_of_state(const Use& use, uint32_t lane, uint64_t state) {
  const uint64_t phase = (state & ~TOKEN_MARK) >> COUNT_BITS;
  if (!(state & TOKEN_MARK) || ~state == 0) {  // as a register begins
    stop(use.warp, 1u << lane, "The state ", hex(state), " comes from no mbarrier.arrive.");
  }
  if (phase > use.mbarrier.phase || phase + 1 < use.mbarrier.phase) {
    stop(use.warp, 1u << lane, "The state is of phase ", phase, " of ", use.text(),
         ": only this phase and the one before can be waited for.");
  }
  return phase;
}

// done, [a], state or parity, time limit?. A try_wait parks until every lane's phase is complete, or
// the scheduler has its time run out.
Step mbarrier_wait(Warp& warp, const Inst& inst, uint32_t mask) {
  const auto qualifiers = inst.as<MbarrierQualifiers>();
  const bool tries = qualifiers.try_wait;
  const char* const what = tries ? "mbarrier.try_wait" : "mbarrier.test_wait";
  Fragment& fragment = *warp.current;
  uint32_t complete = 0;
  for (uint32_t rest = mask; rest != 0;) {
    const uint32_t address = mbarrier_at(warp, inst, inst.slots[1], first_lane(rest), what);
    const Use use = use_of(warp, rest & -rest, address, what);
    const uint32_t lanes = lanes_that_agree(warp, inst.slots[1], rest);
    rest &= ~lanes;
    uint32_t passed = 0, parity = 0;
    for_lanes(lanes, [&](uint32_t lane) {
      uint64_t phase = value_of(warp, inst.slots[2], lane);
      if (!qualifiers.parity) phase = phase_of_state(use, lane, phase);
      if ((phase & 1) == (use.mbarrier.phase & 1)) {
        parity = phase & 1;
      } else {
        passed |= 1u << lane;
      }
    });
    complete |= passed;
    if (tries && !fragment.give_up && passed != lanes) {
      fragment.wait = WaitFor::mbarrier;
      fragment.wait_address = address;
      fragment.wait_parity = parity;
      fragment.parked = {shared_bytes(warp, lanes, address, 8, what), PARITY,
                         parity != 0 ? PARITY : 0};
      return Step::wait;
    }
  }
  set_pred(warp, inst.slots[0].row, mask, complete);
  const Observer observer = observer_of(warp);
  for (uint32_t rest = mask; rest != 0;) {
    const uint32_t lane = first_lane(rest);
    const uint32_t lanes = lanes_that_agree(warp, inst.slots[1], rest);
    const uint32_t address = mbarrier_at(warp, inst, inst.slots[1], lane, what);
    rest &= ~lanes;
    const uint32_t passed = lanes & complete, failed = lanes & ~complete;
    if (passed != 0) {
      Mbarrier& mbarrier = warp.cta->cluster->mbarriers[address];
      mbarrier.seen = true;
      observer.mbarrier_wait(warp, passed, address, !qualifiers.relaxed, scope_of(qualifiers),
                             mbarrier.phase);
    }
    if (failed != 0) observer.tell(&Checker::mbarrier_use, warp, failed, address);
  }
  return Step::next;
}

// [a]
void mbarrier_inval(Warp& warp, const Inst& inst, uint32_t lane) {
  const char* const what = "mbarrier.inval";
  const uint32_t address = mbarrier_at(warp, inst, inst.slots[0], lane, what);
  use_of(warp, 1u << lane, address, what);
  observer_of(warp).tell(&Checker::mbarrier_inval, warp, 1u << lane, address);
  warp.cta->cluster->mbarriers.erase(address);
}

// [a], bytes
void mbarrier_tx(Warp& warp, const Inst& inst, uint32_t lane) {
  const bool completes = inst.as<MbarrierQualifiers>().complete_tx;
  const char* const what = completes ? "mbarrier.complete_tx" : "mbarrier.expect_tx";
  const uint32_t address = mbarrier_at(warp, inst, inst.slots[0], lane, what);
  Use use = use_of(warp, 1u << lane, address, what);
  const int64_t bytes = warp.row<uint32_t>(inst.slots[1].row)[lane];
  use.add_tx(completes ? -bytes : bytes);
  observer_of(warp).tell(&Checker::mbarrier_use, warp, 1u << lane, address);
  use.end();
}

// count, state
void mbarrier_pending_count(Warp& warp, const Inst& inst, uint32_t lane) {
  const uint64_t state = value_of(warp, inst.slots[1], lane);
  set_value(warp, inst.slots[0], 1u << lane, state & MAX_COUNT);
}

#define SHARED_SPACES "{.shared::cta,.shared::cluster,.shared,}"
#define MBARRIER_QUALIFIERS "{.release,.acquire,.relaxed,}{.cta,.cluster,}" SHARED_SPACES ".b64"

const Row ROWS[] = {
    {"mbarrier.init" SHARED_SPACES ".b64", "[a], count:32", pick_mbarrier<each_lane<mbarrier_init>>,
     "make an mbarrier whose phases take count arrivals"},
    {"mbarrier{.arrive,.arrive_drop}" MBARRIER_QUALIFIERS, "state:64, [a], count:32?",
     pick_mbarrier<mbarrier_arrive>, "arrive; drop: now and in all phases to come"},
    {"mbarrier{.arrive,.arrive_drop}.expect_tx" MBARRIER_QUALIFIERS, "state:64, [a], bytes:32",
     pick_mbarrier<mbarrier_arrive>, "expect bytes in this phase, then arrive"},
    {"mbarrier{.arrive,.arrive_drop}.noComplete" MBARRIER_QUALIFIERS, "state:64, [a], count:32",
     pick_mbarrier<mbarrier_arrive>, "arrive, but not as the last"},
    {"mbarrier{.test_wait,.try_wait}.parity" MBARRIER_QUALIFIERS,
     "done:p, [a], parity:32, limit:32?", pick_mbarrier<mbarrier_wait>,
     "whether the last phase of this parity is complete"},
    {"mbarrier.inval" SHARED_SPACES ".b64", "[a]", pick_mbarrier<each_lane<mbarrier_inval>>,
     "its bytes are no mbarrier any more"},
    {"mbarrier{.expect_tx,.complete_tx}" MBARRIER_QUALIFIERS, "[a], bytes:32",
     pick_mbarrier<each_lane<mbarrier_tx>>, "expect bytes in this phase; count them as come"},
    {"mbarrier{.test_wait,.try_wait}" MBARRIER_QUALIFIERS, "done:p, [a], state:64, limit:32?",
     pick_mbarrier<mbarrier_wait>, "whether the phase of the state is complete"},
    {"mbarrier.pending_count.b64", "count:32, state:64", always<each_lane<mbarrier_pending_count>>,
     "the arrivals that were pending when the state was made"},
};

}  // namespace

const Section sections::MBARRIER{"mbarriers", ROWS};

void complete_tx(Warp& issuer, uint32_t address, uint32_t bytes) {
  if (bytes == 0) return;  // nobody can have waited for it
  Use use = use_of(issuer, issuer.current->mask, address, "complete_tx by a copy that has landed");
  use.add_tx(-int64_t{bytes});
  use.end();
}

void expect_arrivals(Warp& warp, uint32_t lanes, uint32_t address, uint32_t count) {
  Use use = use_of(warp, lanes, address, "cp.async.mbarrier.arrive");
  if (use.counts.pending + count > MAX_COUNT) {
    stop(warp, lanes, use.what, ": too many pending arrivals on ", use.text(), ".");
  }
  use.counts.pending += count;
  use.counts.raised = 1;
  use.store();
}

void arrive_async(Warp& warp, uint32_t lanes, uint32_t address, uint32_t count) {
  Use use = use_of(warp, lanes, address, "cp.async.mbarrier.arrive");
  use.take_arrivals(count);
  use.end();
}

int64_t bytes_to_come(const Mbarrier& mbarrier) {
  return counts_of(mbarrier.bits).tx;
}

uint32_t arrivals_expected(const Mbarrier& mbarrier) {
  return counts_of(mbarrier.bits).expected;
}

std::string mbarrier_text(Cluster& cluster, uint32_t address, uint32_t parity) {
  const auto found = cluster.mbarriers.find(address);
  const std::string waited = joined(", parity waited for ", parity);
  if (found == cluster.mbarriers.end()) return name_of(cluster, address) + waited;
  const std::string text =
      counts_text(cluster, address, found->second) + waited + arrivals_text(found->second);
  const Counts counts = counts_of(found->second.bits);
  if (counts.tx < 0) {
    const bool nobody = counts.pending == counts.expected;
    return text + ".\n    Likely: " +
           (nobody ? "who is to arrive has not, as with mbarrier.arrive.expect_tx, or " : "") +
           "expect_tx asks for fewer bytes than the copies of a phase bring";
  }
  if (counts.tx > 0) {
    return text +
           ".\n    Likely: expect_tx asks for more bytes than the copies bring, or one of them was "
           "not issued, or completes on another mbarrier";
  }
  if (counts.raised != 0) {
    return text +
           ".\n    Likely: cp.async.mbarrier.arrive without .noinc first adds to the pending "
           "arrivals what it takes from them when the copies have landed, so that others must "
           "make those of mbarrier.init. With .noinc its own arrivals are among them";
  }
  if (counts.pending == counts.expected && found->second.phase > 0 && !found->second.seen) {
    return joined(
        text, ".\n    Likely: its phase ", found->second.phase - 1,
        " is over and no wait has asked for it: a wrong parity, here or in front of its "
        "arrivals, more arrivals than the count of mbarrier.init, or who arrives does not "
        "wait until it may again");
  }
  if (counts.pending == counts.expected && found->second.phase == 0 && parity == 0) {
    if (!found->second.seen) return text + std::string(PARITY_GUESS);
    return text + ".\n    Likely: an arrive is missing, or who is to arrive waits elsewhere";
  }
  if (counts.pending == counts.expected) return text;
  return text +
         ".\n    Likely: the count of mbarrier.init is more than arrive, or who has not arrived "
         "waits elsewhere";
}

}  // namespace machine
