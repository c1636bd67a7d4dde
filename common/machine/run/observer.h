// What handlers tell of what they do: to the checker and to the timeline, where a launch has them. A
// handler need not know which it has, nor what they make of it.
#pragma once

#include <utility>

#include "common/machine/check/checker.h"
#include "common/machine/timeline/trace.h"

namespace machine {

struct Observer {
  Checker* checker;  // null: off
  Trace* trace;      // null: off

  // What only the checker needs to know: tell(&Checker::fence, warp, ...).
  template <class... Parameters, class... Arguments>
  void tell(void (Checker::*what)(Parameters...), Arguments&&... arguments) const {
    if (checker) (checker->*what)(std::forward<Arguments>(arguments)...);
  }

  // ---- Barriers: every arrival, then once complete, then every wait that returns
  void barrier_arrive(Warp& warp, uint32_t mask, uint32_t id) const {
    tell(&Checker::barrier_arrive, warp, mask, id);
    if (trace) trace->barrier_arrive(warp, key_of(*warp.cta, id));
  }
  void barrier_complete(Cta& cta, uint32_t id) const {
    if (trace) trace->barrier_complete(key_of(cta, id));
    tell(&Checker::barrier_complete, cta, id);
  }
  void barrier_wait(Warp& warp, uint32_t mask, uint32_t id) const {
    tell(&Checker::barrier_wait, warp, mask, id);
    if (trace) trace->barrier_wait(warp, key_of(*warp.cta, id));
  }
  void cluster_arrive(Warp& warp, uint32_t mask, bool release) const {
    tell(&Checker::cluster_arrive, warp, mask, release);
    if (trace) trace->barrier_arrive(warp, CLUSTER_KEY);
  }
  void cluster_complete() const {
    tell(&Checker::cluster_complete);
    if (trace) trace->barrier_complete(CLUSTER_KEY);
  }
  void cluster_wait(Warp& warp, uint32_t mask) const {
    tell(&Checker::cluster_wait, warp, mask);
    if (trace) trace->barrier_wait(warp, CLUSTER_KEY);
  }

  // ---- mbarriers; addresses are shared::cluster ones
  void mbarrier_arrive(Warp& warp, uint32_t mask, uint32_t address, bool release, Scope scope,
                       uint32_t expected_bytes) const {
    tell(&Checker::mbarrier_arrive, warp, mask, address, release, scope);
    if (trace) trace->arrive(warp, address, expected_bytes);
  }
  void mbarrier_phase_complete(uint32_t address) const {
    tell(&Checker::mbarrier_phase_complete, address);
    if (trace) trace->phase_complete(address);
  }
  // A wait that returns true; `phases`: how many are complete.
  void mbarrier_wait(Warp& warp, uint32_t mask, uint32_t address, bool acquire, Scope scope,
                     uint64_t phases) const {
    tell(&Checker::mbarrier_wait, warp, mask, address, acquire, scope);
    if (trace) trace->wait_mbarrier(warp, address, static_cast<uint32_t>(phases + 1) & 1);
  }

  // ---- Copies and wgmma. `last`: of the groups that are complete, 0: none. `time`: when they are, on
  // the timeline's clock.
  void cp_async_wait(Warp& warp, uint32_t mask, uint64_t last, uint64_t by_all,
                     uint64_t time) const {
    if (checker && last != 0) checker->cp_async_wait(warp, mask, last, by_all);
    if (trace) trace->wait(warp, "wait cp.async", time);
  }
  void bulk_wait(Warp& warp, uint32_t mask, uint64_t last, bool only_read, uint64_t time) const {
    if (checker && last != 0) checker->bulk_wait(warp, mask, last, only_read);
    if (trace) trace->wait(warp, "wait bulk", time);
  }
  void wgmma_wait(Warp& warp, const uint64_t groups[4], uint64_t time) const {
    if (trace) trace->wait(warp, "wait wgmma", time);
    tell(&Checker::wgmma_wait, warp, groups);
  }
  // stmatrix, or a store to global memory
  void store(Warp& warp) const {
    if (trace) trace->store(warp);
  }

 private:
  // Barriers in the timeline.
  static constexpr uint64_t CLUSTER_KEY = UINT64_MAX;
  static uint64_t key_of(const Cta& cta, uint32_t id) {
    return uint64_t{cta.rank} * cta.barriers.size() + id;
  }
};

inline Observer observer_of(const Cluster& cluster) {
  return {cluster.checker.get(), cluster.trace};
}
inline Observer observer_of(const Warp& warp) {
  return observer_of(*warp.cta->cluster);
}

// The handler of what only the checker needs to know.
template <void (Checker::*WHAT)(Warp&, uint32_t)>
Step tells(Warp& warp, const Inst&, uint32_t mask) {
  observer_of(warp).tell(WHAT, warp, mask);
  return Step::next;
}

}  // namespace machine
