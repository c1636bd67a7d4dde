// What handlers tell of what they do: to the checker and to the timeline, where a launch has them. A
// handler need not know which it has, nor what they make of it.
#pragma once

#include <algorithm>

#include "common/machine/check/checker.h"
#include "common/machine/run/trace.h"

namespace machine {

struct Observer {
  Checker* checker;  // null: off
  Trace* trace;      // null: off

  // ---- Barriers: every arrival, then once complete, then every wait that returns
  void barrier_arrive(Warp& warp, uint32_t mask, uint32_t id) const {
    if (checker) checker->barrier_arrive(warp, mask, id);
    if (trace) trace->barrier_arrive(warp, key_of(*warp.cta, id));
  }
  void barrier_complete(Cta& cta, uint32_t id) const {
    if (trace) trace->barrier_complete(key_of(cta, id));
    if (checker) checker->barrier_complete(cta, id);
  }
  void barrier_wait(Warp& warp, uint32_t mask, uint32_t id) const {
    if (checker) checker->barrier_wait(warp, mask, id);
    if (trace) trace->barrier_wait(warp, key_of(*warp.cta, id));
  }
  void cluster_arrive(Warp& warp, uint32_t mask, bool release) const {
    if (checker) checker->cluster_arrive(warp, mask, release);
    if (trace) trace->barrier_arrive(warp, CLUSTER_KEY);
  }
  void cluster_complete() const {
    if (checker) checker->cluster_complete();
    if (trace) trace->barrier_complete(CLUSTER_KEY);
  }
  void cluster_wait(Warp& warp, uint32_t mask) const {
    if (checker) checker->cluster_wait(warp, mask);
    if (trace) trace->barrier_wait(warp, CLUSTER_KEY);
  }
  void warp_sync(Warp& warp, uint32_t mask) const {
    if (checker) checker->warp_sync(warp, mask);
  }
  void exited(Warp& warp, bool last_of_cta) const {
    if (checker) checker->exited(warp, last_of_cta);
  }

  // ---- Fences
  void fence(Warp& warp, uint32_t mask, Order order, Scope scope) const {
    if (checker) checker->fence(warp, mask, order, scope);
  }
  void fence_proxy_async(Warp& warp, uint32_t mask, Proxy proxy) const {
    if (checker) checker->fence_proxy_async(warp, mask, proxy);
  }
  void fence_mbarrier_init(Warp& warp, uint32_t mask) const {
    if (checker) checker->fence_mbarrier_init(warp, mask);
  }
  void grid_wait(Warp& warp, uint32_t mask) const {
    if (checker) checker->grid_wait(warp, mask);
  }

  // ---- mbarriers; addresses are shared::cluster ones
  void mbarrier_init(Warp& warp, uint32_t mask, uint32_t address) const {
    if (checker) checker->mbarrier_init(warp, mask, address);
  }
  void mbarrier_inval(Warp& warp, uint32_t mask, uint32_t address) const {
    if (checker) checker->mbarrier_inval(warp, mask, address);
  }
  void mbarrier_arrive(Warp& warp, uint32_t mask, uint32_t address, bool release, Scope scope,
                       uint32_t expected_bytes) const {
    if (checker) checker->mbarrier_arrive(warp, mask, address, release, scope);
    if (trace) trace->arrive(warp, address, expected_bytes);
  }
  void mbarrier_use(Warp& warp, uint32_t mask, uint32_t address) const {
    if (checker) checker->mbarrier_use(warp, mask, address);
  }
  void mbarrier_phase_complete(uint32_t address) const {
    if (checker) checker->mbarrier_phase_complete(address);
    if (trace) trace->phase_complete(address);
  }
  // A wait that returns true; `phases`: how many are complete.
  void mbarrier_wait(Warp& warp, uint32_t mask, uint32_t address, bool acquire, Scope scope,
                     uint64_t phases) const {
    if (checker) checker->mbarrier_wait(warp, mask, address, acquire, scope);
    if (trace) trace->wait_mbarrier(warp, address, static_cast<uint32_t>(phases + 1) & 1);
  }

  // ---- Copies and wgmma. `last`: of the groups that are complete, 0: none. `time`: when they are, on
  // the timeline's clock.
  void cp_async_wait(Warp& warp, uint32_t mask, uint64_t last, uint64_t time) const {
    if (checker && last != 0) checker->cp_async_wait(warp, mask, last);
    if (trace) trace->wait(warp, "wait cp.async", time);
  }
  void bulk_wait(Warp& warp, uint32_t mask, uint64_t last, bool only_read, uint64_t time) const {
    if (checker && last != 0) checker->bulk_wait(warp, mask, last, only_read);
    if (trace) trace->wait(warp, "wait bulk", time);
  }
  void wgmma_fence(Warp& warp) const {
    if (checker) checker->wgmma_fence(warp);
  }
  void wgmma_wait(Warp& warp, const uint64_t groups[4], uint64_t time) const {
    if (trace) trace->wait(warp, "wait wgmma", time);
    if (checker) checker->wgmma_wait(warp, groups);
  }
  void touch_registers(Warp& warp, const Inst& inst, uint32_t mask) const {
    if (checker) checker->touch_registers(warp, inst, mask);
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

}  // namespace machine
