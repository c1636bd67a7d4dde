#include "common/machine/ops/sync.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>

#include "common/machine/check/checker.h"
#include "common/machine/run/trace.h"

namespace machine {
namespace {

Checker* checker_of(Warp& warp) {
  return warp.cta->cluster->checker.get();
}

Trace* trace_of(Warp& warp) {
  return warp.cta->cluster->trace;
}

uint32_t count_of(uint32_t mask) {
  return static_cast<uint32_t>(std::popcount(mask));
}

void set_pred(Warp& warp, const Slot& slot, uint32_t mask, uint32_t value) {
  uint32_t& row = warp.pred(slot.row);
  row = (row & ~mask) | (value & mask);
}

uint32_t get_pred(Warp& warp, const Slot& slot) {
  const uint32_t value = warp.pred(slot.row);
  return slot.negated ? ~value : value;
}

void set_value(Warp& warp, const Slot& slot, uint32_t mask, uint64_t value) {
  if (slot.width == Width::w64) {
    uint64_t* const d = warp.row<uint64_t>(slot.row);
    for_lanes(mask, [&](uint32_t lane) { d[lane] = value; });
  } else {
    uint32_t* const d = warp.row<uint32_t>(slot.row);
    for_lanes(mask, [&](uint32_t lane) { d[lane] = static_cast<uint32_t>(value); });
  }
}

Step nothing(Warp&, const Inst&, uint32_t) {
  return Step::next;
}

template <Handler F>
Handler always(Opcode&) {
  return F;
}

template <Handler F>
Handler with_aligned(Opcode& opcode) {
  opcode.convergent = opcode.has(".aligned");
  return F;
}

// ---- Named barriers -----------------------------------------------------------------------------

constexpr uint32_t BARRIERS = 16;

// Inst::mods of bar and barrier; behind them the thread count of a bar.red with a literal one.
enum : uint32_t { BAR_ALIGNED = 1, BAR_LITERAL_COUNT_SHIFT = 8 };
enum class Reduce : uint8_t { none, popc, logical_and, logical_or };

// Barriers in the timeline.
uint64_t key_of(const Cta& cta, uint32_t id) {
  return uint64_t{cta.rank} * BARRIERS + id;
}
constexpr uint64_t CLUSTER_KEY = UINT64_MAX;

void complete_barrier(Cta& cta, uint32_t id) {
  NamedBarrier& barrier = cta.barriers[id];
  if (cta.cluster->trace) cta.cluster->trace->barrier_complete(key_of(cta, id));
  if (Checker* checker = cta.cluster->checker.get()) checker->barrier_complete(cta, id);
  barrier.arrived = barrier.expected = barrier.warps = 0;
  barrier.last_reduction = barrier.reduction;
  barrier.reduction = 0;
  ++barrier.generation;
  signal(*cta.cluster);
}

bool everyone_is_at(const Cta& cta, const NamedBarrier& barrier) {
  return barrier.expected != 0 && barrier.everyone && barrier.arrived >= cta.live_threads;
}

// The barrier's number, the same in all lanes.
uint32_t barrier_id(Warp& warp, const Slot& slot, uint32_t mask) {
  const uint32_t* const ids = warp.row<uint32_t>(slot.row);
  const uint32_t id = ids[first_lane(mask)];
  for_lanes(mask, [&](uint32_t lane) {
    if (ids[lane] == id) return;
    stop(warp, mask, "Lanes that run together name different barriers: ", id, " and ", ids[lane],
         ".");
  });
  if (id >= BARRIERS) {
    stop(warp, mask, "There is no barrier ", id, ": a CTA has barriers 0 to 15.");
  }
  return id;
}

// `count`: of threads, 0 if none was given. `reduction`: what the lanes add to a bar.red.
void arrive_at_barrier(Warp& warp, uint32_t mask, uint32_t id, uint32_t count, bool aligned,
                       uint32_t reduction) {
  Cta& cta = *warp.cta;
  NamedBarrier& barrier = cta.barriers[id];
  if (count % LANES != 0) {
    stop(warp, mask, "Barrier ", id, " is given ", count,
         " threads: the count must be a multiple of 32.");
  }
  const bool everyone = count == 0;
  const uint32_t expected = everyone ? cta.cluster->grid->warps_per_cta * LANES : count;
  if (barrier.expected == 0) {
    barrier.expected = expected;
    barrier.everyone = everyone;
  } else if (barrier.expected != expected) {
    stop(warp, mask, "Barrier ", id, " is given ", expected, " threads, but threads that wait for ",
         barrier.expected, " have already arrived at it.");
  }
  barrier.everyone = barrier.everyone && everyone;
  if (Checker* checker = checker_of(warp)) checker->barrier_arrive(warp, mask, id);
  if (Trace* trace = trace_of(warp)) trace->barrier_arrive(warp, key_of(cta, id));
  barrier.reduction += reduction;
  barrier.warps |= 1u << warp.index;
  // A count is in whole warps, lanes that have exited included.
  const bool whole_warp = aligned || mask == warp.live;
  barrier.arrived += everyone || !whole_warp ? count_of(mask) : LANES;
  ++cta.cluster->changes;
  if (barrier.everyone) {
    if (everyone_is_at(cta, barrier)) complete_barrier(cta, id);
  } else if (barrier.arrived > barrier.expected) {
    stop(warp, mask, "Barrier ", id, " expects ", barrier.expected, " threads, and ",
         barrier.arrived, " have arrived.");
  } else if (barrier.arrived == barrier.expected) {
    complete_barrier(cta, id);
  }
}

// True once the barrier is complete; arrives on the first try.
bool pass_barrier(Warp& warp, uint32_t mask, uint32_t id, uint32_t count, bool aligned,
                  uint32_t reduction) {
  Fragment& fragment = *warp.current;
  const NamedBarrier& barrier = warp.cta->barriers[id];
  if (fragment.wait != WaitFor::named_barrier) {
    fragment.wait = WaitFor::named_barrier;
    fragment.wait_address = id;
    fragment.wait_ticket = barrier.generation;
    arrive_at_barrier(warp, mask, id, count, aligned, reduction);
  }
  if (barrier.generation == fragment.wait_ticket) return false;
  if (Checker* checker = checker_of(warp)) checker->barrier_wait(warp, mask, id);
  if (Trace* trace = trace_of(warp)) trace->barrier_wait(warp, key_of(*warp.cta, id));
  return true;
}

// a, b?
uint32_t barrier_count(Warp& warp, const Inst& inst, uint32_t mask) {
  if (inst.slot_count < 2) return 0;
  return warp.row<uint32_t>(inst.slots[1].row)[first_lane(mask)];
}

Step barrier_sync(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t id = barrier_id(warp, inst.slots[0], mask);
  const uint32_t count = barrier_count(warp, inst, mask);
  return pass_barrier(warp, mask, id, count, inst.mods & BAR_ALIGNED, 0) ? Step::next : Step::wait;
}

Step barrier_arrive(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t id = barrier_id(warp, inst.slots[0], mask);
  arrive_at_barrier(warp, mask, id, barrier_count(warp, inst, mask), inst.mods & BAR_ALIGNED, 0);
  return Step::next;
}

// d, a, b?, c
template <Reduce REDUCE>
Step barrier_reduce(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t id = barrier_id(warp, inst.slots[1], mask);
  uint32_t count = inst.mods >> BAR_LITERAL_COUNT_SHIFT;
  if (count == 0 && inst.slot_count > 3) {
    count = warp.row<uint32_t>(inst.slots[2].row)[first_lane(mask)];
  }
  // Of .and the lanes that are false are counted.
  const uint32_t c = get_pred(warp, inst.slots[inst.slot_count - 1]);
  const uint32_t counted = count_of((REDUCE == Reduce::logical_and ? ~c : c) & mask);
  if (!pass_barrier(warp, mask, id, count, inst.mods & BAR_ALIGNED, counted)) return Step::wait;
  const uint32_t total = warp.cta->barriers[id].last_reduction;
  if constexpr (REDUCE == Reduce::popc) {
    set_value(warp, inst.slots[0], mask, total);
  } else {
    const bool result = REDUCE == Reduce::logical_and ? total == 0 : total != 0;
    set_pred(warp, inst.slots[0], mask, result ? FULL : 0);
  }
  return Step::next;
}

// bar is barrier.aligned.
template <Handler F>
Handler pick_barrier(Opcode& opcode) {
  opcode.convergent = opcode.text.starts_with("bar.") || opcode.has(".aligned");
  opcode.mods = opcode.convergent ? uint32_t{BAR_ALIGNED} : 0;
  const std::vector<Operand>& operands = *opcode.operands;
  if (opcode.has(".red") && operands.size() == 4 && operands[2].kind == Operand::Kind::integer) {
    opcode.mods |= static_cast<uint32_t>(operands[2].bits) << BAR_LITERAL_COUNT_SHIFT;
  }
  return F;
}

// ---- barrier.cluster ----------------------------------------------------------------------------

void complete_cluster_barrier_if_all_arrived(Cluster& cluster) {
  if (cluster.barrier_arrived == 0 || cluster.barrier_arrived < cluster.live_threads) return;
  if (cluster.checker) cluster.checker->cluster_complete();
  if (cluster.trace) cluster.trace->barrier_complete(CLUSTER_KEY);
  cluster.barrier_arrived = 0;
  for (Cta& cta : cluster.ctas) {
    for (Warp& warp : cta.warps) {
      warp.cluster_passed |= warp.cluster_arrived;
      warp.cluster_arrived = 0;
    }
  }
  signal(cluster);
}

Step cluster_arrive(Warp& warp, const Inst& inst, uint32_t mask) {
  Cluster& cluster = *warp.cta->cluster;
  if (const uint32_t twice = (warp.cluster_arrived | warp.cluster_passed) & mask) {
    fault(warp, twice,
          "barrier.cluster.arrive a second time, without a barrier.cluster.wait in between.");
  }
  if (Checker* checker = checker_of(warp)) checker->cluster_arrive(warp, mask, inst.mods != 0);
  if (Trace* trace = trace_of(warp)) trace->barrier_arrive(warp, CLUSTER_KEY);
  warp.cluster_arrived |= mask;
  cluster.barrier_arrived += count_of(mask);
  ++cluster.changes;
  complete_cluster_barrier_if_all_arrived(cluster);
  return Step::next;
}

Step cluster_wait(Warp& warp, const Inst&, uint32_t mask) {
  if (const uint32_t early = mask & ~(warp.cluster_arrived | warp.cluster_passed)) {
    fault(warp, early, "barrier.cluster.wait without a barrier.cluster.arrive before it.");
  }
  if (mask & warp.cluster_arrived) {
    warp.current->wait = WaitFor::cluster_barrier;
    return Step::wait;
  }
  warp.cluster_passed &= ~mask;
  if (Checker* checker = checker_of(warp)) checker->cluster_wait(warp, mask, true);
  if (Trace* trace = trace_of(warp)) trace->barrier_wait(warp, CLUSTER_KEY);
  return Step::next;
}

Handler pick_cluster_arrive(Opcode& opcode) {
  opcode.convergent = opcode.has(".aligned");
  opcode.mods = !opcode.has(".relaxed");  // whether it releases
  return cluster_arrive;
}

// ---- mbarriers ----------------------------------------------------------------------------------

constexpr uint32_t COUNT_BITS = 20, TX_BITS = 21;
constexpr uint32_t MAX_COUNT = (1u << COUNT_BITS) - 1;  // of arrivals and of bytes
constexpr uint64_t TOKEN_MARK = 1ull << 63;             // pending 20 bits | phase 43 | mark

// What the 8 bytes hold: pending 20 bits | expected 20 | tx 21, signed | phase 1, its parity.
struct Counts {
  uint32_t pending = 0, expected = 0;
  int32_t tx = 0;  // bytes that are still to come
};

Counts unpack(uint64_t bits) {
  Counts counts;
  counts.pending = bits & MAX_COUNT;
  counts.expected = bits >> COUNT_BITS & MAX_COUNT;
  const uint32_t tx = static_cast<uint32_t>(bits >> 2 * COUNT_BITS) << (32 - TX_BITS);
  counts.tx = static_cast<int32_t>(tx) >> (32 - TX_BITS);
  return counts;
}

uint64_t pack(const Counts& counts, uint64_t phase) {
  const uint64_t tx = static_cast<uint32_t>(counts.tx) & ((1u << TX_BITS) - 1);
  return counts.pending | uint64_t{counts.expected} << COUNT_BITS | tx << 2 * COUNT_BITS |
         (phase & 1) << (2 * COUNT_BITS + TX_BITS);
}

std::string name_of(const Cluster& cluster, uint32_t address) {
  const std::string text = "the mbarrier at shared " + hex(address);
  if (cluster.ctas.size() == 1) return text;
  return text + " (CTA rank " + std::to_string(address >> RANK_SHIFT) + ")";
}

// ".\n    Arrived: 3, by warps 4 to 6 (consumer) of CTA (0,0,0)": in the phase under way.
std::string arrivals_text(const Mbarrier& mbarrier) {
  if (mbarrier.arrived.empty()) return "";
  std::map<const Cta*, std::vector<const Warp*>> by_cta;
  uint32_t made = 0;
  for (const auto& [warp, count] : mbarrier.arrived) {
    by_cta[warp->cta].push_back(warp);
    made += count;
  }
  std::string text = ".\n    Arrived: " + std::to_string(made) + ", by";
  for (auto& [cta, warps] : by_cta) {
    std::sort(warps.begin(), warps.end(), [](auto* a, auto* b) { return a->index < b->index; });
    warps.erase(std::unique(warps.begin(), warps.end()), warps.end());
    text += (cta == by_cta.begin()->first ? " " : ", ") + describe_roles(warps);
  }
  return text;
}

std::string text_of(const Cluster& cluster, uint32_t address, const Mbarrier& mbarrier) {
  const Counts counts = unpack(mbarrier.bits);
  std::string text = name_of(cluster, address) + ": phase " + std::to_string(mbarrier.phase) +
                     ", pending arrivals " + std::to_string(counts.pending) + " of " +
                     std::to_string(counts.expected);
  if (counts.tx > 0) {
    text += ", tx-count " + std::to_string(counts.tx) + " bytes still to come";
  } else if (counts.tx < 0) {
    text += ", tx-count " + std::to_string(-counts.tx) + " bytes more than expected have come";
  }
  return text;
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
         ", all threads of whose CTA have exited: its shared memory may be another's now.");
  }
  return bits;
}

// The bytes at the address must be an mbarrier, and as its operations left them.
Mbarrier& find_mbarrier(Warp& warp, uint32_t mask, uint32_t address, const char* what) {
  Cluster& cluster = *warp.cta->cluster;
  const uint64_t bits = mbarrier_bits(warp, mask, address, what);
  const auto found = cluster.mbarriers.find(address);
  if (found == cluster.mbarriers.end()) {
    stop(warp, mask, what, " on ", name_of(cluster, address),
         ": no mbarrier.init was executed for it.");
  }
  if (bits != found->second.bits) {
    stop(warp, mask, what, " on ", name_of(cluster, address),
         ": its 8 bytes were overwritten; they hold ", hex(bits), ".");
  }
  return found->second;
}

void store(Warp& warp, uint32_t address, Mbarrier& mbarrier, const Counts& counts) {
  mbarrier.bits = pack(counts, mbarrier.phase);
  Cta& owner = *cta_of(*warp.cta->cluster, address);
  std::memcpy(owner.smem + ((address & ((1u << RANK_SHIFT) - 1)) - SMEM_BASE), &mbarrier.bits, 8);
}

// Stores new counts; a phase is complete with no arrival and no byte to come.
void update(Warp& warp, uint32_t address, Mbarrier& mbarrier, Counts counts) {
  Cluster& cluster = *warp.cta->cluster;
  if (counts.pending == 0 && counts.tx == 0) {
    if (cluster.checker) cluster.checker->mbarrier_phase_complete(address);
    if (cluster.trace) cluster.trace->phase_complete(address);
    ++mbarrier.phase;
    mbarrier.arrived.clear();
    counts.pending = counts.expected;
    signal(cluster);
  }
  ++cluster.changes;
  store(warp, address, mbarrier, counts);
}

void add_tx(Warp& warp, uint32_t mask, uint32_t address, const Mbarrier& mbarrier, Counts* counts,
            int64_t bytes, const char* what) {
  const int64_t tx = counts->tx + bytes;
  if (tx > int64_t{MAX_COUNT} || tx < -int64_t{MAX_COUNT}) {
    stop(warp, mask, what, " of ", bytes < 0 ? -bytes : bytes, " bytes on ",
         text_of(*warp.cta->cluster, address, mbarrier), ": the tx-count must stay within ",
         MAX_COUNT, " bytes.");
  }
  counts->tx = static_cast<int32_t>(tx);
}

void take_arrivals(Warp& warp, uint32_t mask, uint32_t address, Mbarrier& mbarrier, Counts* counts,
                   uint64_t arrivals, const char* what) {
  if (arrivals > counts->pending) {
    stop(warp, mask, what, " makes ", arrivals, (arrivals == 1 ? " arrival" : " arrivals"),
         ", more than are expected, on ", text_of(*warp.cta->cluster, address, mbarrier),
         arrivals_text(mbarrier),
         ".\n    Likely: the count of mbarrier.init is too low, or somebody arrives who has not "
         "waited for the phase before.");
  }
  if (mbarrier.arrived.empty() || mbarrier.arrived.back().first != &warp) {
    mbarrier.arrived.emplace_back(&warp, 0);
  }
  mbarrier.arrived.back().second += static_cast<uint32_t>(arrivals);
  counts->pending -= static_cast<uint32_t>(arrivals);
}

// Inst::mods
enum : uint32_t {
  SPACE = 3,  // SharedSpace
  RELAXED = 4,
  CTA_SCOPE = 8,
  EXPECT_TX = 16,
  NO_COMPLETE = 32,
  DROP = 64,
  TRY = 128,
  PARITY = 256,
  COMPLETE_TX = 512,
};

SharedSpace space_in(const Inst& inst) {
  return static_cast<SharedSpace>(inst.mods & SPACE);
}

// PTX says .cta where no scope is written. CUTLASS and Triton write none to arrive at a peer's
// mbarrier and to wait for it, so that only a .cta that is written counts as one.
Scope scope_in(const Inst& inst) {
  return inst.mods & CTA_SCOPE ? Scope::cta : Scope::cluster;
}

template <Handler F>
Handler pick_mbarrier(Opcode& opcode) {
  const auto flag = [&](const char* name, uint32_t bit) { return opcode.has(name) ? bit : 0; };
  opcode.mods = static_cast<uint32_t>(shared_space(opcode)) | flag(".relaxed", RELAXED) |
                flag(".cta", CTA_SCOPE) | flag(".expect_tx", EXPECT_TX) |
                flag(".noComplete", NO_COMPLETE) | flag(".arrive_drop", DROP) |
                flag(".try_wait", TRY) | flag(".parity", PARITY) |
                flag(".complete_tx", COMPLETE_TX);
  return F;
}

// [a], count
Step mbarrier_init(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "mbarrier.init";
  Cluster& cluster = *warp.cta->cluster;
  for_lanes(mask, [&](uint32_t lane) {
    const uint32_t bit = 1u << lane;
    const uint32_t address = shared_address(warp, inst.slots[0], lane, space_in(inst), what);
    const uint32_t count = warp.row<uint32_t>(inst.slots[1].row)[lane];
    const uint64_t bits = mbarrier_bits(warp, bit, address, what);
    if (count == 0 || count > MAX_COUNT) {
      stop(warp, bit, what, " with ", count, " arrivals: it must be from 1 to ", MAX_COUNT, ".");
    }
    Mbarrier& mbarrier = cluster.mbarriers[address];
    const Counts old = unpack(mbarrier.bits);
    if (bits == mbarrier.bits && (old.pending != old.expected || old.tx != 0)) {
      stop(warp, bit, what, " in the middle of a phase of ", text_of(cluster, address, mbarrier),
           ".");
    }
    if (Checker* checker = checker_of(warp)) checker->mbarrier_init(warp, bit, address);
    mbarrier.phase = 0;
    store(warp, address, mbarrier, {count, count, 0});
  });
  ++cluster.changes;
  return Step::next;
}

// [a]
Step mbarrier_inval(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "mbarrier.inval";
  for_lanes(mask, [&](uint32_t lane) {
    const uint32_t address = shared_address(warp, inst.slots[0], lane, space_in(inst), what);
    find_mbarrier(warp, 1u << lane, address, what);
    if (Checker* checker = checker_of(warp)) checker->mbarrier_inval(warp, 1u << lane, address);
    warp.cta->cluster->mbarriers.erase(address);
  });
  return Step::next;
}

// state, [a], count? -- or bytes, of .expect_tx. Lanes that arrive at one mbarrier do so at once,
// as far as its phase takes them.
Step mbarrier_arrive(Warp& warp, const Inst& inst, uint32_t mask) {
  const bool expects_tx = inst.mods & EXPECT_TX, drops = inst.mods & DROP;
  const char* const what = expects_tx ? "mbarrier.arrive.expect_tx"
                           : drops    ? "mbarrier.arrive_drop"
                                      : "mbarrier.arrive";
  uint64_t* const state = warp.row<uint64_t>(inst.slots[0].row);
  const uint32_t* const values =
      inst.slot_count > 2 ? warp.row<uint32_t>(inst.slots[2].row) : nullptr;
  while (mask != 0) {
    const uint32_t address =
        shared_address(warp, inst.slots[1], first_lane(mask), space_in(inst), what);
    Mbarrier& mbarrier = find_mbarrier(warp, mask & -mask, address, what);
    Counts counts = unpack(mbarrier.bits);
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
      state[lane] = TOKEN_MARK | mbarrier.phase << COUNT_BITS | pending;
      lanes |= 1u << lane;
      arrivals += count;
      if (expects_tx) bytes += values[lane];
    }
    mask &= ~lanes;
    add_tx(warp, lanes, address, mbarrier, &counts, static_cast<int64_t>(bytes), what);
    take_arrivals(warp, lanes, address, mbarrier, &counts, arrivals, what);
    if ((inst.mods & NO_COMPLETE) && counts.pending == 0) {
      stop(warp, lanes, what, ".noComplete makes the last arrival of the phase of ",
           text_of(*warp.cta->cluster, address, mbarrier), ".");
    }
    if (drops) {
      if (arrivals > counts.expected) {
        stop(warp, lanes, what, " drops more than all arrivals of ",
             text_of(*warp.cta->cluster, address, mbarrier), ".");
      }
      counts.expected -= static_cast<uint32_t>(arrivals);
    }
    if (Checker* checker = checker_of(warp)) {
      checker->mbarrier_arrive(warp, lanes, address, !(inst.mods & RELAXED), scope_in(inst));
    }
    if (Trace* trace = trace_of(warp)) {
      trace->arrive(warp, address, static_cast<uint32_t>(bytes));
    }
    update(warp, address, mbarrier, counts);
  }
  return Step::next;
}

// [a], bytes
Step mbarrier_tx(Warp& warp, const Inst& inst, uint32_t mask) {
  const bool completes = inst.mods & COMPLETE_TX;
  const char* const what = completes ? "mbarrier.complete_tx" : "mbarrier.expect_tx";
  for_lanes(mask, [&](uint32_t lane) {
    const uint32_t address = shared_address(warp, inst.slots[0], lane, space_in(inst), what);
    Mbarrier& mbarrier = find_mbarrier(warp, 1u << lane, address, what);
    Counts counts = unpack(mbarrier.bits);
    const int64_t bytes = warp.row<uint32_t>(inst.slots[1].row)[lane];
    add_tx(warp, 1u << lane, address, mbarrier, &counts, completes ? -bytes : bytes, what);
    if (Checker* checker = checker_of(warp)) checker->mbarrier_use(warp, 1u << lane, address);
    update(warp, address, mbarrier, counts);
  });
  return Step::next;
}

// The phase that a state was made in.
uint64_t phase_of_state(Warp& warp, uint32_t lane, uint32_t address, const Mbarrier& mbarrier,
                        uint64_t state) {
  const uint64_t phase = (state & ~TOKEN_MARK) >> COUNT_BITS;
  if (!(state & TOKEN_MARK)) {
    stop(warp, 1u << lane, "The state ", hex(state), " comes from no mbarrier.arrive.");
  }
  if (phase > mbarrier.phase || phase + 1 < mbarrier.phase) {
    stop(warp, 1u << lane, "The state is of phase ", phase, " of ",
         text_of(*warp.cta->cluster, address, mbarrier),
         ": only this phase and the one before can be waited for.");
  }
  return phase;
}

// done, [a], state or parity, time limit?. A try_wait parks until every lane's phase is complete, or
// the scheduler has its time run out.
Step mbarrier_wait(Warp& warp, const Inst& inst, uint32_t mask) {
  const bool tries = inst.mods & TRY;
  const char* const what = tries ? "mbarrier.try_wait" : "mbarrier.test_wait";
  Fragment& fragment = *warp.current;
  uint32_t complete = 0;
  for (uint32_t rest = mask; rest != 0;) {
    const uint32_t address =
        shared_address(warp, inst.slots[1], first_lane(rest), space_in(inst), what);
    const Mbarrier& mbarrier = find_mbarrier(warp, rest & -rest, address, what);
    const uint32_t lanes = lanes_that_agree(warp, inst.slots[1], rest);
    rest &= ~lanes;
    uint32_t passed = 0, parity = 0;
    for_lanes(lanes, [&](uint32_t lane) {
      uint64_t phase = value_of(warp, inst.slots[2], lane);
      if (!(inst.mods & PARITY)) phase = phase_of_state(warp, lane, address, mbarrier, phase);
      if ((phase & 1) == (mbarrier.phase & 1)) {
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
      return Step::wait;
    }
  }
  set_pred(warp, inst.slots[0], mask, complete);
  Checker* const checker = checker_of(warp);
  Trace* const trace = trace_of(warp);
  for (uint32_t rest = checker || trace ? mask : 0; rest != 0;) {
    const uint32_t lane = first_lane(rest);
    const uint32_t lanes = lanes_that_agree(warp, inst.slots[1], rest);
    const uint32_t address = shared_address(warp, inst.slots[1], lane, space_in(inst), what);
    rest &= ~lanes;
    const uint32_t passed = lanes & complete, failed = lanes & ~complete;
    if (checker && passed != 0) {
      checker->mbarrier_wait(warp, passed, address, !(inst.mods & RELAXED), scope_in(inst));
    }
    if (checker && failed != 0) checker->mbarrier_use(warp, failed, address);
    if (trace && passed != 0) {
      const uint64_t phases = warp.cta->cluster->mbarriers[address].phase;
      trace->wait_mbarrier(warp, address, static_cast<uint32_t>(phases + 1) & 1);
    }
  }
  return Step::next;
}

// count, state
Step mbarrier_pending_count(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint64_t* const state = warp.row<uint64_t>(inst.slots[1].row);
  uint32_t* const count = warp.row<uint32_t>(inst.slots[0].row);
  for_lanes(mask, [&](uint32_t lane) { count[lane] = state[lane] & MAX_COUNT; });
  return Step::next;
}

// ---- Fences -------------------------------------------------------------------------------------

// Inst::mods: Order, and Scope above it
constexpr uint32_t SCOPE_SHIFT = 4;

Step fence(Warp& warp, const Inst& inst, uint32_t mask) {
  if (Checker* checker = checker_of(warp)) {
    checker->fence(warp, mask, static_cast<Order>(inst.mods & 15),
                   static_cast<Scope>(inst.mods >> SCOPE_SHIFT));
  }
  return Step::next;
}

Handler pick_fence(Opcode& opcode) {
  const Order order = opcode.has(".acquire")   ? Order::acquire
                      : opcode.has(".release") ? Order::release
                                               : Order::acq_rel;
  const Scope scope = opcode.has(".cta")       ? Scope::cta
                      : opcode.has(".cluster") ? Scope::cluster
                                               : Scope::gpu;
  opcode.mods = static_cast<uint32_t>(order) | static_cast<uint32_t>(scope) << SCOPE_SHIFT;
  return fence;
}

// Inst::mods: Proxy
Step fence_proxy(Warp& warp, const Inst& inst, uint32_t mask) {
  if (Checker* checker = checker_of(warp)) {
    checker->fence_proxy_async(warp, mask, static_cast<Proxy>(inst.mods));
  }
  return Step::next;
}

Handler pick_fence_proxy(Opcode& opcode) {
  const Proxy proxy = opcode.has(".global")                ? Proxy::global
                      : opcode.text == "fence.proxy.async" ? Proxy::all
                                                           : Proxy::shared;
  opcode.mods = static_cast<uint32_t>(proxy);
  return fence_proxy;
}

Step fence_mbarrier_init(Warp& warp, const Inst&, uint32_t mask) {
  if (Checker* checker = checker_of(warp)) checker->fence_mbarrier_init(warp, mask);
  return Step::next;
}

Step grid_wait(Warp& warp, const Inst&, uint32_t mask) {
  if (Checker* checker = checker_of(warp)) checker->grid_wait(warp, mask);
  return Step::next;
}

// ---- Among the lanes of a warp ------------------------------------------------------------------

// Calls f(lanes) for the lanes of each member mask once they are all here. Lanes that have exited, or
// that the guard keeps out, cannot come.
template <class F>
Step for_members(Warp& warp, const Slot& members, uint32_t mask, F&& f) {
  const uint32_t* const masks = warp.row<uint32_t>(members.row);
  for (uint32_t rest = mask; rest != 0;) {
    const uint32_t lane = first_lane(rest);
    if (!(masks[lane] >> lane & 1)) {
      stop(warp, 1u << lane, "Lane ", lane, " executes it, but is not in its member mask ",
           hex(masks[lane]), ".");
    }
    if (masks[lane] & warp.live & ~warp.current->mask) {
      warp.current->wait = WaitFor::other_lanes;
      return Step::wait;
    }
    rest &= ~masks[lane];
  }
  while (mask != 0) {
    const uint32_t lanes = mask & masks[first_lane(mask)];
    f(lanes);
    mask &= ~lanes;
  }
  return Step::next;
}

Step warp_sync(Warp& warp, const Inst& inst, uint32_t mask) {
  return for_members(warp, inst.slots[0], mask, [&](uint32_t lanes) {
    if (Checker* checker = checker_of(warp)) checker->warp_sync(warp, lanes);
  });
}

// d|p, members
Step elect(Warp& warp, const Inst& inst, uint32_t mask) {
  return for_members(warp, inst.slots[inst.slot_count - 1], mask, [&](uint32_t lanes) {
    set_value(warp, inst.slots[0], lanes, first_lane(lanes));
    if (inst.slot_count > 2) set_pred(warp, inst.slots[1], lanes, lanes & -lanes);
  });
}

enum class Shuffle : uint8_t { up, down, bfly, idx };

// d|p, a, b, c, members. c: clamp in bits 0-4, mask of the lane's segment in bits 8-12.
template <Shuffle MODE>
Step shuffle(Warp& warp, const Inst& inst, uint32_t mask) {
  const Slot* const last = inst.slots + inst.slot_count - 1;
  return for_members(warp, *last, mask, [&](uint32_t lanes) {
    uint32_t* const d = warp.row<uint32_t>(inst.slots[0].row);
    const uint32_t* const b = warp.row<uint32_t>(last[-2].row);
    const uint32_t* const c = warp.row<uint32_t>(last[-1].row);
    uint32_t a[LANES], inside[LANES], moved[LANES];
    std::memcpy(a, warp.row<uint32_t>(last[-3].row), sizeof a);
    const auto one = [&](uint32_t lane) {
      const uint32_t by = b[lane] & 31, clamp = c[lane] & 31, segment = c[lane] >> 8 & 31;
      const int32_t first = static_cast<int32_t>(lane & segment);
      const int32_t bound = first | static_cast<int32_t>(clamp & ~segment);
      int32_t from = 0;
      if constexpr (MODE == Shuffle::up) from = static_cast<int32_t>(lane - by);
      if constexpr (MODE == Shuffle::down) from = static_cast<int32_t>(lane + by);
      if constexpr (MODE == Shuffle::bfly) from = static_cast<int32_t>(lane ^ by);
      if constexpr (MODE == Shuffle::idx) from = first | static_cast<int32_t>(by & ~segment);
      inside[lane] = MODE == Shuffle::up ? from >= bound : from <= bound;
      moved[lane] = a[(inside[lane] ? static_cast<uint32_t>(from) : lane) & 31];
    };
    for (uint32_t lane = 0; lane < LANES; ++lane) one(lane);
    for_lanes(lanes, [&](uint32_t lane) { d[lane] = moved[lane]; });
    if (inst.slot_count > 5) {
      uint32_t result = 0;
      for (uint32_t lane = 0; lane < LANES; ++lane) result |= inside[lane] << lane;
      set_pred(warp, inst.slots[1], lanes, result);
    }
  });
}

enum class Vote : uint8_t { all, any, uni, ballot };

// d, a, members
template <Vote MODE>
Step vote(Warp& warp, const Inst& inst, uint32_t mask) {
  return for_members(warp, inst.slots[2], mask, [&](uint32_t lanes) {
    const uint32_t yes = get_pred(warp, inst.slots[1]) & lanes;
    if constexpr (MODE == Vote::ballot) {
      set_value(warp, inst.slots[0], lanes, yes);
    } else {
      const bool result = (MODE != Vote::any && yes == lanes) || (MODE == Vote::any && yes != 0) ||
                          (MODE == Vote::uni && yes == 0);
      set_pred(warp, inst.slots[0], lanes, result ? FULL : 0);
    }
  });
}

// d, a, members: who has the same value
Step match_any(Warp& warp, const Inst& inst, uint32_t mask) {
  return for_members(warp, inst.slots[2], mask, [&](uint32_t lanes) {
    uint32_t* const d = warp.row<uint32_t>(inst.slots[0].row);
    uint64_t values[LANES];
    for_lanes(lanes, [&](uint32_t lane) { values[lane] = value_of(warp, inst.slots[1], lane); });
    for_lanes(lanes, [&](uint32_t lane) {
      uint32_t same = 0;
      for_lanes(lanes, [&](uint32_t l) { same |= uint32_t{values[l] == values[lane]} << l; });
      d[lane] = same;
    });
  });
}

// d|p, a, members: all of them, if all have the same value
Step match_all(Warp& warp, const Inst& inst, uint32_t mask) {
  const Slot* const last = inst.slots + inst.slot_count - 1;
  return for_members(warp, *last, mask, [&](uint32_t lanes) {
    const uint64_t value = value_of(warp, last[-1], first_lane(lanes));
    bool same = true;
    for_lanes(lanes, [&](uint32_t lane) { same &= value_of(warp, last[-1], lane) == value; });
    set_value(warp, inst.slots[0], lanes, same ? lanes : 0);
    if (inst.slot_count > 3) set_pred(warp, inst.slots[1], lanes, same ? FULL : 0);
  });
}

enum class Redux : uint8_t { add, min, max, bit_and, bit_or, bit_xor };

// d, a, members
template <Redux OP, class T>
Step redux(Warp& warp, const Inst& inst, uint32_t mask) {
  return for_members(warp, inst.slots[2], mask, [&](uint32_t lanes) {
    const T* const a = warp.row<T>(inst.slots[1].row);
    T total = a[first_lane(lanes)];
    for_lanes(lanes & (lanes - 1), [&](uint32_t lane) {
      if constexpr (OP == Redux::add) total += a[lane];
      if constexpr (OP == Redux::min) total = std::min(total, a[lane]);
      if constexpr (OP == Redux::max) total = std::max(total, a[lane]);
      if constexpr (OP == Redux::bit_and) total &= a[lane];
      if constexpr (OP == Redux::bit_or) total |= a[lane];
      if constexpr (OP == Redux::bit_xor) total ^= a[lane];
    });
    set_value(warp, inst.slots[0], lanes, static_cast<uint32_t>(total));
  });
}

Handler pick_redux(Opcode& opcode) {
  const bool is_signed = opcode.type() == Type::s32;
  if (opcode.has(".add")) return redux<Redux::add, uint32_t>;
  if (opcode.has(".min"))
    return is_signed ? redux<Redux::min, int32_t> : redux<Redux::min, uint32_t>;
  return is_signed ? redux<Redux::max, int32_t> : redux<Redux::max, uint32_t>;
}

Step active_mask(Warp& warp, const Inst& inst, uint32_t mask) {
  set_value(warp, inst.slots[0], mask, mask);
  return Step::next;
}

// All warps of a warpgroup execute the same setmaxnreg; one that has exited never will.
void check_warpgroup_sets_registers(Warp& warp, uint32_t mask) {
  Cta& cta = *warp.cta;
  const size_t first = warp.index / 4 * 4;
  for (size_t i = first; i < std::min(first + 4, cta.warps.size()); ++i) {
    const Warp& other = cta.warps[i];
    const Warp& fewer = other.set_registers < warp.set_registers ? other : warp;
    if (fewer.live != 0 || other.set_registers == warp.set_registers) continue;
    stop(warp, mask, "setmaxnreg by a part of a warpgroup: ", describe_role(fewer),
         " has exited without it. All four warps of the warpgroup must execute it.");
  }
}

// n. An increment waits until the CTA's pool has as many: the registers that it was launched with,
// less those that its warps have. Without a limit at the kernel's start ptxas ignores it.
template <bool INCREASES>
Step set_max_registers(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t count = warp.row<uint32_t>(inst.slots[0].row)[first_lane(mask)];
  if (count < 24 || count > 256 || count % 8 != 0) {
    stop(warp, mask, "setmaxnreg to ", count,
         " registers: it must be a multiple of 8 from 24 to 256.");
  }
  Cta& cta = *warp.cta;
  if (cta.cluster->grid->kernel->limits_registers) {
    if (INCREASES && count > warp.registers) {
      const uint32_t more = (count - warp.registers) * LANES;
      if (more > cta.free_registers) {
        warp.current->wait = WaitFor::registers;
        warp.current->wait_address = count;
        return Step::wait;
      }
      cta.free_registers -= more;
      warp.registers = count;
    } else if (!INCREASES && count < warp.registers) {
      cta.free_registers += (warp.registers - count) * LANES;
      warp.registers = count;
      signal(*cta.cluster);
    }
  }
  ++warp.set_registers;
  check_warpgroup_sets_registers(warp, mask);
  return Step::next;
}

Handler pick_set_max_registers(Opcode& opcode) {
  opcode.convergent = true;
  return opcode.has(".inc") ? set_max_registers<true> : set_max_registers<false>;
}

// ---- Clusters -----------------------------------------------------------------------------------

// d, a, rank: the same place in another CTA's shared memory
template <bool GENERIC>
Step map_address(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint64_t ctas = warp.cta->cluster->ctas.size();
  const uint32_t* const ranks = warp.row<uint32_t>(inst.slots[2].row);
  for_lanes(mask, [&](uint32_t lane) {
    if (ranks[lane] >= ctas) {
      stop(warp, 1u << lane, "mapa to rank ", ranks[lane], " of a cluster of ", ctas,
           (ctas == 1 ? " CTA." : " CTAs."));
    }
    const SharedSpace space = GENERIC ? SharedSpace::generic : SharedSpace::cluster;
    const uint32_t address = shared_address(warp, inst.slots[1], lane, space, "mapa");
    const uint64_t mapped = (address & ((1u << RANK_SHIFT) - 1)) | ranks[lane] << RANK_SHIFT |
                            (GENERIC ? SHARED_WINDOW : 0);
    set_value(warp, inst.slots[0], 1u << lane, mapped);
  });
  return Step::next;
}

// d, a
template <bool GENERIC>
Step get_rank(Warp& warp, const Inst& inst, uint32_t mask) {
  const SharedSpace space = GENERIC ? SharedSpace::generic : SharedSpace::cluster;
  for_lanes(mask, [&](uint32_t lane) {
    const uint32_t address = shared_address(warp, inst.slots[1], lane, space, "getctarank");
    set_value(warp, inst.slots[0], 1u << lane, address >> RANK_SHIFT);
  });
  return Step::next;
}

#define SHARED_SPACES "{.shared::cta,.shared::cluster,.shared,}"
#define SEM_SCOPE "{.release,.acquire,.relaxed,}{.cta,.cluster,}"
// Either order is accepted.
#define MBARRIER_QUALIFIERS SEM_SCOPE SHARED_SPACES SEM_SCOPE ".b64"

const Row ROWS[] = {
    {"bar{.cta,}.sync", "a:32, b:32?", pick_barrier<barrier_sync>,
     "wait at barrier a until b threads, or all of the CTA, are there"},
    {"barrier{.cta,}.sync{.aligned,}", "a:32, b:32?", pick_barrier<barrier_sync>, "as bar.sync"},
    {"bar{.cta,}.arrive", "a:32, b:32", pick_barrier<barrier_arrive>,
     "arrive at barrier a, and go on"},
    {"barrier{.cta,}.arrive{.aligned,}", "a:32, b:32", pick_barrier<barrier_arrive>,
     "as bar.arrive"},
    {"bar{.cta,}.red.popc.u32", "d:32, a:32, *", pick_barrier<barrier_reduce<Reduce::popc>>,
     "bar.sync; d = how many threads gave true"},
    {"bar{.cta,}.red.and.pred", "d:p, a:32, *", pick_barrier<barrier_reduce<Reduce::logical_and>>,
     "bar.sync; d = whether all gave true"},
    {"bar{.cta,}.red.or.pred", "d:p, a:32, *", pick_barrier<barrier_reduce<Reduce::logical_or>>,
     "bar.sync; d = whether any gave true"},
    {"barrier{.cta,}.red.popc{.aligned,}.u32", "d:32, a:32, *",
     pick_barrier<barrier_reduce<Reduce::popc>>, "as bar.red.popc"},
    {"barrier{.cta,}.red.and{.aligned,}.pred", "d:p, a:32, *",
     pick_barrier<barrier_reduce<Reduce::logical_and>>, "as bar.red.and"},
    {"barrier{.cta,}.red.or{.aligned,}.pred", "d:p, a:32, *",
     pick_barrier<barrier_reduce<Reduce::logical_or>>, "as bar.red.or"},
    {"bar.warp.sync", "members:32", always<warp_sync>, "wait for the lanes of the mask"},
    {"barrier.cluster.arrive{.release,.relaxed,}{.aligned,}", "", pick_cluster_arrive,
     "arrive at the cluster's barrier, and go on"},
    {"barrier.cluster.wait{.acquire,}{.aligned,}", "", with_aligned<cluster_wait>,
     "wait until all threads of the cluster have arrived, or exited"},

    {"mbarrier.init" SHARED_SPACES ".b64", "[a], count:32", pick_mbarrier<mbarrier_init>,
     "make an mbarrier whose phases take count arrivals"},
    {"mbarrier.inval" SHARED_SPACES ".b64", "[a]", pick_mbarrier<mbarrier_inval>,
     "its bytes are no mbarrier any more"},
    {"mbarrier{.arrive,.arrive_drop}" MBARRIER_QUALIFIERS, "state:64, [a], count:32?",
     pick_mbarrier<mbarrier_arrive>, "arrive; drop: now and in all phases to come"},
    {"mbarrier{.arrive,.arrive_drop}.expect_tx" MBARRIER_QUALIFIERS, "state:64, [a], bytes:32",
     pick_mbarrier<mbarrier_arrive>, "expect bytes in this phase, then arrive"},
    {"mbarrier{.arrive,.arrive_drop}.noComplete" MBARRIER_QUALIFIERS, "state:64, [a], count:32",
     pick_mbarrier<mbarrier_arrive>, "arrive, but not as the last"},
    {"mbarrier{.expect_tx,.complete_tx}" MBARRIER_QUALIFIERS, "[a], bytes:32",
     pick_mbarrier<mbarrier_tx>, "expect bytes in this phase; count them as come"},
    {"mbarrier{.test_wait,.try_wait}" MBARRIER_QUALIFIERS, "done:p, [a], state:64, limit:32?",
     pick_mbarrier<mbarrier_wait>, "whether the phase of the state is complete"},
    {"mbarrier{.test_wait,.try_wait}.parity" MBARRIER_QUALIFIERS,
     "done:p, [a], parity:32, limit:32?", pick_mbarrier<mbarrier_wait>,
     "whether the last phase of this parity is complete"},
    {"mbarrier.pending_count.b64", "count:32, state:64", always<mbarrier_pending_count>,
     "the arrivals that were pending when the state was made"},

    {"fence{.sc,.acq_rel,.acquire,.release,}{.cta,.cluster,.gpu,.sys}", "", pick_fence,
     "order memory accesses"},
    {"fence{.acquire.sync_restrict::shared::cluster,.release.sync_restrict::shared::cta}.cluster",
     "", pick_fence, "the same, for what synchronises through mbarriers"},
    {"membar{.cta,.gl,.sys}", "", pick_fence, "fence.sc"},
    {"fence.mbarrier_init.release.cluster", "", always<fence_mbarrier_init>,
     "make mbarrier.init known to the cluster and to the async proxy"},
    {"fence.proxy.async{.global,.shared::cta,.shared::cluster,}", "", pick_fence_proxy,
     "order accesses of the generic and the async proxy"},
    {"fence.proxy.async::generic{.acquire.sync_restrict::shared::cluster,"
     ".release.sync_restrict::shared::cta}.cluster",
     "", pick_fence_proxy, "the same, one way"},
    {"fence.proxy.alias", "", always<nothing>, "nothing: memory has one address"},
    {"membar.proxy.alias", "", always<nothing>, "nothing: memory has one address"},
    {"fence.proxy.tensormap::generic.release{.cta,.cluster,.gpu,.sys}", "", pick_fence,
     "order writes to tensor maps before what follows"},
    {"fence.proxy.tensormap::generic.acquire{.cta,.cluster,.gpu,.sys}", "[a], bytes:32", pick_fence,
     "see tensor maps that were written"},

    {"elect.sync", "d:32|p:p, members:32", always<elect>, "one lane of the mask: its lowest"},
    {"shfl.sync.up.b32", "d:32|p:p, a:32, b:32, c:32, members:32", always<shuffle<Shuffle::up>>,
     "d = a of lane - b, where that is in the segment"},
    {"shfl.sync.down.b32", "d:32|p:p, a:32, b:32, c:32, members:32", always<shuffle<Shuffle::down>>,
     "d = a of lane + b"},
    {"shfl.sync.bfly.b32", "d:32|p:p, a:32, b:32, c:32, members:32", always<shuffle<Shuffle::bfly>>,
     "d = a of lane ^ b"},
    {"shfl.sync.idx.b32", "d:32|p:p, a:32, b:32, c:32, members:32", always<shuffle<Shuffle::idx>>,
     "d = a of lane b of the segment"},
    {"vote{.sync.all,.all.sync}.pred", "d:p, a:p, members:32", always<vote<Vote::all>>,
     "whether all are true"},
    {"vote{.sync.any,.any.sync}.pred", "d:p, a:p, members:32", always<vote<Vote::any>>,
     "whether any is true"},
    {"vote{.sync.uni,.uni.sync}.pred", "d:p, a:p, members:32", always<vote<Vote::uni>>,
     "whether all are the same"},
    {"vote{.sync.ballot,.ballot.sync}.b32", "d:32, a:p, members:32", always<vote<Vote::ballot>>,
     "the lanes that are true"},
    {"match.any.sync{.b32,.b64}", "d:32, a:t, members:32", always<match_any>,
     "the lanes with the same a"},
    {"match.all.sync{.b32,.b64}", "d:32|p:p, a:t, members:32", always<match_all>,
     "all lanes, if all have the same a"},
    {"redux.sync{.add,.min,.max}{.u32,.s32}", "d:32, a:32, members:32", pick_redux,
     "sum, least or greatest of the lanes"},
    {"redux.sync.and.b32", "d:32, a:32, members:32", always<redux<Redux::bit_and, uint32_t>>,
     "and of the lanes"},
    {"redux.sync.or.b32", "d:32, a:32, members:32", always<redux<Redux::bit_or, uint32_t>>,
     "or of the lanes"},
    {"redux.sync.xor.b32", "d:32, a:32, members:32", always<redux<Redux::bit_xor, uint32_t>>,
     "xor of the lanes"},
    {"activemask.b32", "d:32", always<active_mask>, "the lanes that execute together"},

    {"setmaxnreg{.inc,.dec}.sync.aligned.u32", "n:32", pick_set_max_registers,
     "take n registers a thread from the CTA's pool, or give back all but n"},
    {"nanosleep.u32", "t:32", always<nothing>, "nothing"},
    {"griddepcontrol.wait", "", always<grid_wait>,
     "wait until the grids before are complete; they are"},
    {"griddepcontrol.launch_dependents", "", always<nothing>,
     "nothing: grids run one after the other"},
    {"mapa{.u32,.u64}", "d:t, a:t, rank:32", always<map_address<true>>,
     "the generic address a in the CTA of this rank"},
    {"mapa.shared::cluster{.u32,.u64}", "d:t, a:t, rank:32", always<map_address<false>>,
     "the shared address a in the CTA of this rank"},
    {"getctarank{.u32,.u64}", "d:32, a:t", always<get_rank<true>>,
     "the rank of the CTA whose memory is at generic address a"},
    {"getctarank.shared::cluster{.u32,.u64}", "d:32, a:t", always<get_rank<false>>,
     "the rank of the CTA whose memory is at shared address a"},
};

}  // namespace

Section sync_section() {
  return {"Barriers, fences, and lanes and CTAs together", ROWS, std::size(ROWS)};
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
  uint32_t same = 0;
  for_lanes(mask,
            [&](uint32_t lane) { same |= uint32_t{value_of(warp, slot, lane) == first} << lane; });
  return same;
}

uint32_t shared_address(Warp& warp, const Slot& slot, uint32_t lane, SharedSpace space,
                        const char* what) {
  const uint64_t value = value_of(warp, slot, lane) + static_cast<uint64_t>(slot.offset);
  const uint32_t address = static_cast<uint32_t>(value);
  if (space == SharedSpace::generic && (value & WINDOW_MASK) != SHARED_WINDOW) {
    stop(warp, 1u << lane, what, ": the generic address ", hex(value), " is not in shared memory.");
  }
  if (space == SharedSpace::cta && address >> RANK_SHIFT != warp.cta->rank) {
    stop(warp, 1u << lane, what, ": shared ", hex(address), " is not in the executing CTA (rank ",
         warp.cta->rank, "), and .shared::cta names only its memory.");
  }
  return address;
}

void complete_tx(Warp& issuer, uint32_t address, uint32_t bytes) {
  if (bytes == 0) return;  // nobody can have waited for it
  const char* const what = "complete_tx by a copy that has landed";
  const uint32_t mask = issuer.current->mask;
  Mbarrier& mbarrier = find_mbarrier(issuer, mask, address, what);
  Counts counts = unpack(mbarrier.bits);
  add_tx(issuer, mask, address, mbarrier, &counts, -int64_t{bytes}, what);
  update(issuer, address, mbarrier, counts);
}

void expect_arrivals(Warp& warp, uint32_t lanes, uint32_t address, uint32_t count) {
  Mbarrier& mbarrier = find_mbarrier(warp, lanes, address, "cp.async.mbarrier.arrive");
  Counts counts = unpack(mbarrier.bits);
  counts.pending += count;
  if (counts.pending > MAX_COUNT) {
    stop(warp, lanes, "cp.async.mbarrier.arrive: too many pending arrivals on ",
         text_of(*warp.cta->cluster, address, mbarrier), ".");
  }
  store(warp, address, mbarrier, counts);
}

void arrive_async(Warp& warp, uint32_t lanes, uint32_t address, uint32_t count) {
  const char* const what = "cp.async.mbarrier.arrive";
  Mbarrier& mbarrier = find_mbarrier(warp, lanes, address, what);
  Counts counts = unpack(mbarrier.bits);
  take_arrivals(warp, lanes, address, mbarrier, &counts, count, what);
  update(warp, address, mbarrier, counts);
}

int64_t bytes_to_come(const Mbarrier& mbarrier) {
  return unpack(mbarrier.bits).tx;
}

uint32_t arrivals_expected(const Mbarrier& mbarrier) {
  return unpack(mbarrier.bits).expected;
}

void threads_exited(Warp& warp, uint32_t mask) {
  Cta& cta = *warp.cta;
  Cluster& cluster = *cta.cluster;
  cta.live_threads -= count_of(mask);
  cluster.live_threads -= count_of(mask);
  if (warp.live == 0) check_warpgroup_sets_registers(warp, mask);
  if (warp.live == 0 && cluster.checker) cluster.checker->exited(warp, cta.live_threads == 0);
  cluster.barrier_arrived -= count_of(mask & warp.cluster_arrived);
  warp.cluster_arrived &= ~mask;
  warp.cluster_passed &= ~mask;
  for (uint32_t id = 0; id < BARRIERS; ++id) {
    if (everyone_is_at(cta, cta.barriers[id])) complete_barrier(cta, id);
  }
  complete_cluster_barrier_if_all_arrived(cluster);
  signal(cluster);
}

std::string mbarrier_text(Cluster& cluster, uint32_t address, uint32_t parity) {
  const auto found = cluster.mbarriers.find(address);
  const std::string waited = ", parity waited for " + std::to_string(parity);
  if (found == cluster.mbarriers.end()) return name_of(cluster, address) + waited;
  const std::string text =
      text_of(cluster, address, found->second) + waited + arrivals_text(found->second);
  const Counts counts = unpack(found->second.bits);
  if (counts.tx < 0) {
    return text + ".\n    Likely: expect_tx asks for fewer bytes than the copies of a phase bring";
  }
  if (counts.tx > 0) {
    return text +
           ".\n    Likely: expect_tx asks for more bytes than the copies bring, or one of them was "
           "not issued, or completes on another mbarrier";
  }
  if (counts.pending == counts.expected) return text;
  return text +
         ".\n    Likely: the count of mbarrier.init is more than arrive, or who has not arrived "
         "waits elsewhere";
}

std::string registers_text(const Warp& warp, uint32_t count) {
  const Grid& grid = *warp.cta->cluster->grid;
  const uint32_t all = grid.registers * LANES * grid.warps_per_cta;
  uint32_t given = 0;
  for (const Warp& other : warp.cta->warps) given += other.registers * LANES;
  return std::to_string(count) + " registers a thread: it has " + std::to_string(warp.registers) +
         ", and of the CTA's " + std::to_string(all) + " (" + std::to_string(grid.registers) +
         " for each of " + std::to_string(grid.warps_per_cta * LANES) + " threads) " +
         std::to_string(all - given) + " are free, where a warp needs " +
         std::to_string((count - warp.registers) * LANES) +
         " more. setmaxnreg.dec in other warps frees some; the sum over all warps must not be "
         "more than the CTA has";
}

std::string barrier_text(Cta& cta, uint32_t id) {
  const NamedBarrier& barrier = cta.barriers[id];
  const uint32_t expected = barrier.everyone ? cta.live_threads : barrier.expected;
  std::vector<const Warp*> warps;
  for (const Warp& warp : cta.warps) {
    if (barrier.warps >> warp.index & 1) warps.push_back(&warp);
  }
  return "barrier " + std::to_string(id) + ": " + std::to_string(barrier.arrived) + " of " +
         std::to_string(expected) + " threads have arrived, of " + describe_roles(warps);
}

}  // namespace machine
