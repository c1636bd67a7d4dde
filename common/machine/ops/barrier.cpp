// Named barriers, the cluster's barrier, and fences: who waits for whom, and what is told to the
// checker. It knows nothing of memory: what order means for accesses is the checker's.
#include "common/machine/ops/barrier.h"

#include "common/machine/ops/address.h"
#include "common/machine/ops/warp.h"
#include "common/machine/run/observer.h"

namespace machine {
namespace {

// ---- Named barriers -----------------------------------------------------------------------------

constexpr uint32_t BARRIERS = 16;

enum class Reduce : uint8_t { popc, logical_and, logical_or };
struct BarrierQualifiers {
  bool aligned;
  Reduce reduce;           // of bar.red
  uint16_t literal_count;  // of threads, of a bar.red with a literal one; else 0
};

void complete_barrier(Cta& cta, uint32_t id) {
  NamedBarrier& barrier = cta.barriers[id];
  observer_of(*cta.cluster).barrier_complete(cta, id);
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
void arrive_at_barrier(Warp& warp, const Inst& inst, uint32_t mask, uint32_t id, uint32_t count,
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
  observer_of(warp).barrier_arrive(warp, mask, id);
  barrier.reduction += reduction;
  // A count is in whole warps, lanes that have exited included, unless these came before they did.
  const bool came = barrier.warps >> warp.index & 1;
  const bool whole_warp = inst.as<BarrierQualifiers>().aligned || (mask == warp.live && !came);
  barrier.warps |= 1u << warp.index;
  barrier.arrived += everyone || !whole_warp ? lane_count(mask) : LANES;
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
bool pass_barrier(Warp& warp, const Inst& inst, uint32_t mask, uint32_t id, uint32_t count,
                  uint32_t reduction) {
  Fragment& fragment = *warp.current;
  const NamedBarrier& barrier = warp.cta->barriers[id];
  if (fragment.wait != WaitFor::named_barrier) {
    fragment.wait = WaitFor::named_barrier;
    fragment.wait_address = id;
    fragment.wait_ticket = barrier.generation;
    arrive_at_barrier(warp, inst, mask, id, count, reduction);
  }
  if (barrier.generation == fragment.wait_ticket) return false;
  observer_of(warp).barrier_wait(warp, mask, id);
  return true;
}

// a, b?
uint32_t barrier_count(Warp& warp, const Inst& inst, uint32_t mask) {
  return inst.slot_count < 2 ? 0 : immediate(warp, inst.slots[1], mask);
}

Step barrier_sync(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t id = barrier_id(warp, inst.slots[0], mask);
  const uint32_t count = barrier_count(warp, inst, mask);
  return pass_barrier(warp, inst, mask, id, count, 0) ? Step::next : Step::wait;
}

Step barrier_arrive(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t id = barrier_id(warp, inst.slots[0], mask);
  arrive_at_barrier(warp, inst, mask, id, barrier_count(warp, inst, mask), 0);
  return Step::next;
}

// d, a, b?, c
Step barrier_reduce(Warp& warp, const Inst& inst, uint32_t mask) {
  const auto of = inst.as<BarrierQualifiers>();
  const uint32_t id = barrier_id(warp, inst.slots[1], mask);
  uint32_t count = of.literal_count;
  if (count == 0 && inst.slot_count > 3) count = immediate(warp, inst.slots[2], mask);
  // Of .and the lanes that are false are counted.
  const uint32_t c = get_pred(warp, inst.slots[inst.slot_count - 1]);
  const uint32_t counted = lane_count((of.reduce == Reduce::logical_and ? ~c : c) & mask);
  if (!pass_barrier(warp, inst, mask, id, count, counted)) return Step::wait;
  const uint32_t total = warp.cta->barriers[id].last_reduction;
  if (of.reduce == Reduce::popc) {
    set_value(warp, inst.slots[0], mask, total);
  } else {
    const bool result = of.reduce == Reduce::logical_and ? total == 0 : total != 0;
    set_pred(warp, inst.slots[0].row, mask, result ? FULL : 0);
  }
  return Step::next;
}

// bar is barrier.aligned.
template <Handler F>
Handler pick_barrier(Opcode& opcode) {
  opcode.convergent = opcode.text.starts_with("bar.") || opcode.has(".aligned");
  const auto reduce = static_cast<Reduce>(which(opcode, {".and", ".or"}));
  BarrierQualifiers qualifiers{opcode.convergent, reduce, 0};
  const std::vector<Operand>& operands = *opcode.operands;
  if (opcode.has(".red") && operands.size() == 4 && operands[2].kind == Operand::Kind::integer) {
    qualifiers.literal_count = static_cast<uint16_t>(operands[2].bits);
  }
  opcode.set(qualifiers);
  return F;
}

// ---- barrier.cluster ----------------------------------------------------------------------------

void complete_cluster_barrier_if_all_arrived(Cluster& cluster) {
  if (cluster.barrier_arrived == 0 || cluster.barrier_arrived < cluster.live_threads) return;
  observer_of(cluster).cluster_complete();
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
  observer_of(warp).cluster_arrive(warp, mask, inst.as<bool>());
  warp.cluster_arrived |= mask;
  cluster.barrier_arrived += lane_count(mask);
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
  observer_of(warp).cluster_wait(warp, mask);
  return Step::next;
}

template <Handler F>
Handler pick_cluster(Opcode& opcode) {
  opcode.convergent = opcode.has(".aligned");
  opcode.set(!opcode.has(".relaxed"));  // whether an arrive releases
  return F;
}

// ---- Fences -------------------------------------------------------------------------------------

struct FenceQualifiers {
  Order order;
  Scope scope;
};

Step fence(Warp& warp, const Inst& inst, uint32_t mask) {
  const auto [order, scope] = inst.as<FenceQualifiers>();
  observer_of(warp).tell(&Checker::fence, warp, mask, order, scope);
  return Step::next;
}

template <Handler F>
Handler pick_fence(Opcode& opcode) {
  const Order order = opcode.has(".acquire")   ? Order::acquire
                      : opcode.has(".release") ? Order::release
                                               : Order::acq_rel;
  opcode.set(FenceQualifiers{order, scope_of(opcode)});
  return F;
}

Step fence_tensor_map(Warp& warp, const Inst& inst, uint32_t mask) {
  fence(warp, inst, mask);
  observer_of(warp).tell(&Checker::fence_tensor_map, warp, mask, inst.as<FenceQualifiers>().order);
  return Step::next;
}

Step fence_proxy(Warp& warp, const Inst& inst, uint32_t mask) {
  observer_of(warp).tell(&Checker::fence_proxy_async, warp, mask, inst.as<Proxy>());
  return Step::next;
}

Handler pick_fence_proxy(Opcode& opcode) {
  const Proxy proxy = opcode.has(".global")                ? Proxy::global
                      : opcode.text == "fence.proxy.async" ? Proxy::all
                                                           : Proxy::shared;
  opcode.set(proxy);
  return fence_proxy;
}

const Row ROWS[] = {
    {"bar{.cta,}.sync", "a:32, b:32?", pick_barrier<barrier_sync>,
     "wait at barrier a until b threads, or all of the CTA, are there"},
    {"barrier{.cta,}.sync{.aligned,}", "a:32, b:32?", pick_barrier<barrier_sync>, "as bar.sync"},
    {"bar{.cta,}.arrive", "a:32, b:32", pick_barrier<barrier_arrive>,
     "arrive at barrier a, and go on"},
    {"barrier{.cta,}.arrive{.aligned,}", "a:32, b:32", pick_barrier<barrier_arrive>,
     "as bar.arrive"},
    {"bar{.cta,}.red.popc.u32", "d:32, a:32, *", pick_barrier<barrier_reduce>,
     "bar.sync; d = how many threads gave true"},
    {"bar{.cta,}.red{.and,.or}.pred", "d:p, a:32, *", pick_barrier<barrier_reduce>,
     "bar.sync; d = whether all, or any, gave true"},
    {"barrier{.cta,}.red.popc{.aligned,}.u32", "d:32, a:32, *", pick_barrier<barrier_reduce>,
     "as bar.red.popc"},
    {"barrier{.cta,}.red{.and,.or}{.aligned,}.pred", "d:p, a:32, *", pick_barrier<barrier_reduce>,
     "as bar.red"},
    {"barrier.cluster.arrive{.release,.relaxed,}{.aligned,}", "", pick_cluster<cluster_arrive>,
     "arrive at the cluster's barrier, and go on"},
    {"barrier.cluster.wait{.acquire,}{.aligned,}", "", pick_cluster<cluster_wait>,
     "wait until all threads of the cluster have arrived, or exited"},
    {"fence{.sc,.acq_rel,.acquire,.release,}{.cta,.cluster,.gpu,.sys}", "", pick_fence<fence>,
     "order memory accesses"},
    {"fence{.acquire.sync_restrict::shared::cluster,.release.sync_restrict::shared::cta}.cluster",
     "", pick_fence<fence>, "the same, one way, for accesses to shared memory only"},
    {"membar{.cta,.gl,.sys}", "", pick_fence<fence>, "fence.sc"},
    {"fence.mbarrier_init.release.cluster", "", always<tells<&Checker::fence_mbarrier_init>>,
     "make mbarrier.init known to the cluster and to the async proxy"},
    {"fence.proxy.async{.global,.shared::cta,.shared::cluster,}", "", pick_fence_proxy,
     "order accesses of the generic and the async proxy"},
    {"fence.proxy.async::generic{.acquire.sync_restrict::shared::cluster,"
     ".release.sync_restrict::shared::cta}.cluster",
     "", pick_fence_proxy, "the same, one way"},
    {"fence.proxy.tensormap::generic.release{.cta,.cluster,.gpu,.sys}", "",
     pick_fence<fence_tensor_map>, "order writes to tensor maps before what follows"},
    {"fence.proxy.tensormap::generic.acquire{.cta,.cluster,.gpu,.sys}", "[a], bytes:32",
     pick_fence<fence_tensor_map>, "see tensor maps that were written"},
    {"griddepcontrol.wait", "", always<tells<&Checker::grid_wait>>,
     "wait until the grids before are complete; they are"},
    {"griddepcontrol.launch_dependents", "", always<tells<&Checker::grid_lets_next>>,
     "let the next grid begin; it runs behind this one all the same"},
};

}  // namespace

const Section sections::BARRIER{"Barriers and fences", ROWS};

void threads_exited(Warp& warp, uint32_t mask) {
  Cta& cta = *warp.cta;
  Cluster& cluster = *cta.cluster;
  cta.live_threads -= lane_count(mask);
  cluster.live_threads -= lane_count(mask);
  if (warp.live == 0) check_warpgroup_sets_registers(warp, mask);
  observer_of(cluster).tell(&Checker::exited, warp, mask, cta.live_threads == 0);
  cluster.barrier_arrived -= lane_count(mask & warp.cluster_arrived);
  warp.cluster_arrived &= ~mask;
  warp.cluster_passed &= ~mask;
  for (uint32_t id = 0; id < BARRIERS; ++id) {
    if (everyone_is_at(cta, cta.barriers[id])) complete_barrier(cta, id);
  }
  complete_cluster_barrier_if_all_arrived(cluster);
  signal(cluster);
}

std::string barrier_text(Cta& cta, uint32_t id) {
  const NamedBarrier& barrier = cta.barriers[id];
  const uint32_t expected = barrier.everyone ? cta.live_threads : barrier.expected;
  std::set<const Warp*> warps;
  for (const Warp& warp : cta.warps) {
    if (barrier.warps >> warp.index & 1) warps.insert(&warp);
  }
  return joined("barrier ", id, ": ", barrier.arrived, " of ", expected,
                " threads have arrived, of ", describe_roles(warps));
}

}  // namespace machine
