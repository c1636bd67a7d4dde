// Which warp of a cluster runs, and for how long; what happens when none can. It knows nothing of what
// instructions do, but for the fragments that they leave.
#include "common/machine/run/scheduler.h"

#include <algorithm>

#include "common/machine/ops/operands.h"
#include "common/machine/run/observer.h"

namespace machine {

void start_copy(Cluster& cluster, const AsyncCopyPtr& copy) {
  if (cluster.grid->policy == Policy::eager) {
    copy->finish();
  } else {
    while (!cluster.in_flight.empty() && cluster.in_flight.front()->done) {
      cluster.in_flight.front()->itself.reset();
      cluster.in_flight.pop_front();
    }
    cluster.in_flight.push_back(copy.get());
    copy->itself = copy;
  }
}

namespace {
constexpr uint64_t QUANTUM = 4096;        // instructions of a warp in turn
constexpr uint64_t PAUSE_IN = 2;          // choices at random of a warp: in one the cluster pauses
constexpr uint64_t SLICE = 1 << 20;       // of a cluster that polls global memory,
constexpr uint64_t IDLE_SLICE = 1 << 13;  // and of one that meanwhile changes nothing
constexpr uint64_t LAND_AFTER = 1 << 16;  // without a change: someone may probe for a copy
constexpr uint64_t IDLE_LIMIT = 200 << 20;  // of a cluster without a change: a livelock
constexpr uint64_t IN_WAITING = 8;          // as many count for one if all who run look at a clock
constexpr uint64_t ROUNDS_LIMIT = 1 << 15;  // of probes that all return false
constexpr uint64_t CYCLE_AFTER = 1 << 16;   // without a change: registers may come back

[[noreturn]] void stop_without_lanes(Warp& warp) {
  stop(warp, warp.live, "A matrix instruction is of all 32 lanes of a warp, of which ",
       lane_count(warp.live), lane_count(warp.live) == 1 ? " is" : " are",
       " there: the others have exited, or the block has no threads for them. Lanes without work "
       "must execute it, too.");
}

bool may_run(const Warp& warp, const Fragment& fragment, uint64_t events) {
  if (fragment.give_up || fragment.wait == WaitFor::nothing) return true;
  if (fragment.wait == WaitFor::other_lanes && fragment.mask == warp.live) return true;
  if (fragment.seen_events == events) return false;
  return fragment.wait != WaitFor::mbarrier || !fragment.parked.holds();
}

// Runs one cluster. What a warp does between two looks at the others is at most a quantum.
class Runner {
 public:
  Runner(Cluster& cluster, Cycle& cycle, const std::atomic<bool>& stop)
      : cluster_(cluster),
        cycle_(cycle),
        grid_(*cluster.grid),
        code_(grid_.program->code.data()),
        stop_(stop) {}

  Outcome run() {
    const uint64_t begun_at = cluster_.changes;
    uint64_t executed = 0, idle = 0, rounds = 0, changes = begun_at, fingerprint = 0;
    for (;;) {
      if (stop_.load(std::memory_order_relaxed)) return Outcome::done;
      const uint64_t ran = run_warps();
      executed += ran;
      cluster_.grid->executed.fetch_add(ran, std::memory_order_relaxed);
      if (cluster_.live_threads == 0) {
        while (land_one()) continue;
        return Outcome::done;
      }
      if (cluster_.changes != changes) {
        changes = cluster_.changes;
        idle = rounds = 0;
      } else {
        idle += computes_ ? ran : ran * IN_WAITING;
      }
      if (grid_.policy == Policy::random) land_some();
      if (ran > 0) {
        // One that has changed nothing goes on, so that it is seen when it never does.
        if (cluster_.changes != begun_at && may_pause()) return Outcome::pause;
        if (idle > LAND_AFTER && land_one()) continue;
        if (idle > IDLE_LIMIT) return Outcome::stuck;
        const bool lands = cluster_.in_flight.empty();
        const bool waits = idle > IDLE_SLICE && lands;
        if (cluster_.polled_global && executed > SLICE) return Outcome::turn;
        if (cluster_.polled_global && waits) return comes_back() ? Outcome::stuck : Outcome::turn;
        if (idle > CYCLE_AFTER && lands && comes_back()) return Outcome::stuck;
        continue;
      }
      if (land_one()) continue;
      // Nothing runs and nothing is in flight: probes that may time out do so, once a round. A round
      // that changes neither memory nor a register is followed by others like it.
      if (!time_out_probes() || ++rounds > ROUNDS_LIMIT) return Outcome::stuck;
      if (std::has_single_bit(rounds)) {
        fingerprint = hash_registers();
      } else if (std::has_single_bit(rounds - 1) && hash_registers() == fingerprint) {
        return Outcome::stuck;
      }
    }
  }

 private:
  uint64_t run_warps() {
    uint64_t ran = 0;
    computes_ = false;
    if (grid_.policy != Policy::random) {
      for (Cta& cta : cluster_.ctas) {
        for (Warp& warp : cta.warps) ran += run_warp(warp, QUANTUM);
      }
      return ran;
    }
    // Any warp, for any while: sometimes one instruction, sometimes far ahead of the others.
    const size_t warps = cluster_.ctas.size() * grid_.warps_per_cta;
    const size_t first = cluster_.random() % warps;
    for (size_t i = 0; i < warps; ++i) {
      const size_t at = (first + i) % warps;
      Warp& warp = cluster_.ctas[at / grid_.warps_per_cta].warps[at % grid_.warps_per_cta];
      ran += run_warp(warp, 1ull << cluster_.random() % 12);
      if (ran > 0) break;
    }
    return ran;
  }

  // Instructions that it executed; 0 if no fragment can run.
  uint64_t run_warp(Warp& warp, uint64_t quantum) {
    uint64_t ran = 0;
    const uint64_t readings = warp.clock_readings;
    while (ran < quantum) {
      Fragment* const fragment = pick(warp);
      if (fragment == nullptr) break;
      ran += run_fragment(warp, *fragment, quantum - ran);
    }
    warp.executed += ran;
    computes_ |= ran > 0 && warp.clock_readings == readings;
    return ran;
  }

  // Fragments at the same pc become one, but for those that have come into a function from different
  // places and do not wait for each other; then the lowest pc that can run, so that those ahead wait
  // for those behind. One that runs for a whole quantum lets another have its turn: it may wait for
  // what that one writes.
  Fragment* pick(Warp& warp) {
    std::vector<Fragment>& all = warp.fragments;
    if (all.size() == 1) {
      return may_run(warp, all[0], cluster_.events) ? &all[0] : nullptr;
    }
    const auto mergeable = [&warp](const Fragment& one, const Fragment& other) {
      const auto is_one_of = [](const Fragment& fragment) {
        return fragment.wait == WaitFor::nothing || fragment.wait == WaitFor::other_lanes;
      };
      if (one.pc != other.pc || !is_one_of(one) || !is_one_of(other)) return false;
      if (one.wait == WaitFor::other_lanes && other.wait == WaitFor::other_lanes) return true;
      return warp.callers[first_lane(one.mask)] == warp.callers[first_lane(other.mask)];
    };
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t j = all.size() - 1; j > i; --j) {
        if (!mergeable(all[i], all[j])) continue;
        all[i].mask |= all[j].mask;
        all[i].wait = WaitFor::nothing;
        all.erase(all.begin() + static_cast<long>(j));
      }
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      Fragment* best = nullptr;
      for (Fragment& fragment : all) {
        if (fragment.had_turn || !may_run(warp, fragment, cluster_.events)) continue;
        if (best == nullptr || fragment.pc < best->pc) best = &fragment;
      }
      if (best != nullptr) return best;
      for (Fragment& fragment : all) fragment.had_turn = false;
    }
    return nullptr;
  }

  uint64_t run_fragment(Warp& warp, Fragment& fragment, uint64_t budget) {
    // Until it meets or overtakes another that could go on with it.
    uint32_t limit = UINT32_MAX;
    for (const Fragment& other : warp.fragments) {
      if (&other != &fragment && other.pc > fragment.pc) limit = std::min(limit, other.pc);
    }
    warp.current = &fragment;
    uint64_t ran = 0;
    while (ran < budget) {
      const Inst& inst = code_[fragment.pc];
      uint32_t mask = fragment.mask;
      ++ran;
      if (inst.guard != 0) {
        const uint32_t taken = warp.pred(inst.guard);
        mask &= inst.guard_not ? ~taken : taken;
        if (mask == 0) {
          if (++fragment.pc >= limit) return ran;
          continue;
        }
      }
      if (inst.convergent && mask != FULL) [[unlikely]] {
        if (mask != warp.live) {
          fragment.wait = WaitFor::other_lanes;
          fragment.seen_events = cluster_.events;
          return ran - 1;
        }
        if (inst.whole_warp) stop_without_lanes(warp);
      }
      if (inst.touches_async)
        observer_of(cluster_).tell(&Checker::touch_registers, warp, inst, mask);
      const Step step = inst.run(warp, inst, mask);
      if (warp.current == nullptr) return ran;  // the fragments are others now
      fragment.give_up = false;
      if (step == Step::wait) {
        fragment.seen_events = cluster_.events;
        return ran - 1;
      }
      fragment.wait = WaitFor::nothing;
      if (cluster_.trace) warp.clock += Model::INSTRUCTION;
      if (step == Step::next) ++fragment.pc;
      if (fragment.pc >= limit) return ran;
    }
    if (warp.fragments.size() > 1) fragment.had_turn = true;
    return ran;
  }

  // ---- Asynchronous copies ----
  // Lazily: the one that was started last, so that nothing lands in the order of the program.
  bool land_one() {
    while (!cluster_.in_flight.empty()) {
      size_t at = cluster_.in_flight.size() - 1;
      if (grid_.policy == Policy::random) at = cluster_.random() % cluster_.in_flight.size();
      const AsyncCopyPtr copy = std::move(cluster_.in_flight[at]->itself);
      cluster_.in_flight.erase(cluster_.in_flight.begin() + static_cast<long>(at));
      if (copy->done) continue;
      copy->finish();
      signal(cluster_);
      return true;
    }
    return false;
  }

  void land_some() {
    while (!cluster_.in_flight.empty() && cluster_.random() % 2 == 0) land_one();
    for (Cta& cta : cluster_.ctas) {
      if (cluster_.random() % 2 == 0) finish_next_wgmma(cta);
    }
  }

  // CTAs that talk through global memory meet each other's work in halves, too.
  bool may_pause() {
    return grid_.policy == Policy::random && cluster_.polled_global &&
           cluster_.random() % PAUSE_IN == 0;
  }

  // ---- When nothing changes ----
  bool comes_back() {
    return cycle_.closes(hash_registers(), cluster_.changes, grid_.policy == Policy::random);
  }

  bool time_out_probes() {
    bool any = false;
    for (Cta& cta : cluster_.ctas) {
      for (Warp& warp : cta.warps) {
        for (Fragment& fragment : warp.fragments) {
          if (fragment.wait != WaitFor::mbarrier) continue;
          fragment.give_up = true;
          any = true;
        }
      }
    }
    return any;
  }

  uint64_t hash_registers() const {
    uint64_t hash = 14695981039346656037u;  // FNV-1a over words
    const auto add = [&hash](uint64_t word) { hash = (hash ^ word) * 1099511628211u; };
    const size_t first = grid_.program->image.size() / 8;
    for (const Cta& cta : cluster_.ctas) {
      for (const Warp& warp : cta.warps) {
        for (const Fragment& fragment : warp.fragments)
          add(fragment.pc ^ uint64_t{fragment.mask} << 32);
        if (warp.fragments.empty()) continue;
        const auto* words = reinterpret_cast<const uint64_t*>(warp.rows);
        for (size_t i = first; i < grid_.program->rows_bytes / 8; ++i) add(words[i]);
      }
    }
    return hash;
  }

  Cluster& cluster_;
  Cycle& cycle_;
  const Grid& grid_;
  const Inst* const code_;
  const std::atomic<bool>& stop_;
  bool computes_ = false;  // a warp ran that did not look at a clock
};

}  // namespace

Outcome run_cluster(Cluster& cluster, Cycle& cycle, const std::atomic<bool>& stop) {
  return Runner(cluster, cycle, stop).run();
}

}  // namespace machine
