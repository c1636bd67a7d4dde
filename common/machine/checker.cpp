#include "common/machine/checker.h"

#include <algorithm>
#include <utility>

#include "common/machine/memory.h"
#include "common/machine/shadow.h"
#include "common/machine/sync.h"

namespace machine {
namespace {

// What only some lanes of a warp know, because they waited or fenced alone; all of Warp's included.
struct Extra {
  uint32_t lanes;
  Knowledge known;
};

// A strong load from global memory, or an atomic. What it learns is looked up when the warp goes on:
// another cluster may store between the call here and the access.
struct Load {
  uint64_t address;
  uint32_t lanes;
  bool acquires;
  Scope scope;
};

struct Register {
  uint32_t group = 0, pc = 0;  // of the last wgmma.mma_async that names it
  uint32_t touched = 0;        // by an ordinary instruction, behind so many wgmma.fence - 1
  uint32_t touched_pc = 0;
  bool accumulator = false;
};

struct WarpState {
  Warp* warp = nullptr;
  uint32_t first_agent = 0;
  uint32_t clock = 1;         // of its generic accesses from now on
  uint32_t synced = 0;        // up to which they are ordered among its lanes
  std::vector<uint32_t> met;  // by lane: those that it met since then; empty: none
  Knowledge known;            // of all its lanes; of its own accesses GENERIC knows all
  std::vector<Extra> extras;
  std::vector<Load> loads;
  // What would be known but for a scope, or for a fence before a relaxed operation: for reports.
  Knowledge unscoped, unfenced;

  // The last snapshot, for as long as nothing has changed.
  std::shared_ptr<Knowledge> snapshot;
  uint32_t snapshot_lanes = 0;
  bool changed = true;

  // Keys of cells that all its lanes may read and overwrite, by hash: what is known stays known.
  std::array<uint64_t, 64> good_keys;

  std::vector<Register> registers;  // by row
  uint32_t wgmma_fences = 0;
  uint32_t init_fences = 0;
};

struct MbarrierState {
  uint32_t address = 0;
  uint32_t agent = 0;
  uint32_t phase = 0;   // how many are complete
  bool living = false;  // between init and inval
  Record init;
  uint32_t init_fence = 0;  // clock of its INIT_FENCES agent; 0: none was executed behind the init
  Channel pending, completed;
  Warp* issuer = nullptr;  // of the last copy that completes here
};

struct BarrierState {
  Knowledge pending, completed;
};

// The access that is being checked.
struct Later {
  const WarpState* by;
  const Knowledge* known;
  uint32_t pc, agent, clock;
  bool write;
  bool async_proxy = false, strong = false;

  // As it is recorded, without the bytes.
  uint64_t key = 0, rest = 0;  // of a Cell
  uint64_t read = 0;           // of a Plane
  Shadow* shadow = nullptr;    // that it is in now
  Plane* plane = nullptr;      // of its reads there
  uint64_t good_key = ~0ull;   // of cells that it may read
  uint32_t block = ~0u;        // that `suspects` are of
};

constexpr uint32_t OFFSET_MASK = (1u << RANK_SHIFT) - 1;

class ClusterChecker final : public Checker {
 public:
  ClusterChecker(Cluster& cluster, std::shared_ptr<GlobalShadow> global)
      : cluster_(cluster),
        program_(*cluster.grid->program),
        global_(std::move(global)),
        id_(static_cast<uint32_t>(cluster.id)) {
    for (Cta& cta : cluster.ctas) {
      Shadow& shadow = shadows_.emplace_back();
      shadow.cta = &cta;
      shadow.cells.resize((cta.smem_bytes + CELL_BYTES - 1) / CELL_BYTES);
      shadow.uniform.resize(shadow.cells.size() / Plane::BLOCK_CELLS + 1);
      for (Warp& warp : cta.warps) {
        WarpState& state = warps_.emplace_back();
        state.warp = &warp;
        state.first_agent = warp.in_cluster * AGENTS_OF_WARP;
        state.good_keys.fill(~0ull);
        raise(state.known.views[GENERIC], state.first_agent + ALL_LANES, UINT32_MAX);
      }
    }
    barriers_.resize(cluster.ctas.size());
  }

  // ---- Generic accesses ----

  void shared_access(Warp& warp, uint32_t mask, const uint32_t* addresses, uint32_t bytes,
                     Access access) override {
    Later later = generic_access(warp, mask, access != Access::read);
    later.strong = access == Access::atomic;
    access_shared(later, mask, addresses, bytes);
  }

  void shared_strong(Warp& warp, uint32_t mask, const uint32_t* addresses, uint32_t bytes,
                     Access access, Order order, Scope scope) override {
    Later later = generic_access(warp, mask, access != Access::read);
    later.strong = true;
    access_shared(later, mask, addresses, bytes);
    uint64_t wide[LANES];
    for_lanes(mask, [&](uint32_t lane) { wide[lane] = addresses[lane]; });
    synchronise(
        state_of(warp), mask, wide, access, order, scope,
        [this](uint64_t address) -> Channel& { return flags_[static_cast<uint32_t>(address)]; });
  }

  void global_access(Warp& warp, uint32_t mask, const uint64_t* addresses, uint32_t bytes,
                     Access access, Order order, Scope scope) override {
    Later later = generic_access(warp, mask, access != Access::read);
    later.strong = access == Access::atomic || order != Order::weak;
    if (auto conflict = global_->access(as_global(later), mask, addresses, bytes)) {
      report_global(later, *conflict);
    }
    if (order == Order::weak) return;
    WarpState& by = state_of(warp);
    for_each_address(mask, addresses, [&](uint64_t address, uint32_t lanes) {
      if (access != Access::write) by.loads.push_back({address, lanes, is_acquire(order), scope});
      if (access != Access::read) {
        Channel released;
        add_release(by, lanes, &released, is_release(order), scope);
        global_->release(address, released);
      }
    });
  }

  // ---- Fences ----

  void fence(Warp& warp, uint32_t mask, Order order, Scope scope) override {
    WarpState& state = state_of(warp);
    if (is_acquire(order)) {
      teach(state, mask, [scope](Knowledge& known) {
        for (size_t level = 0; level <= static_cast<size_t>(scope); ++level) {
          const Snapshot seen = std::move(known.seen[level]);
          known.seen[level] = nullptr;
          if (seen) known.join(*seen);
        }
      });
    }
    if (!is_release(order)) return;
    std::vector<View> views = {FENCED_CTA};
    if (scope != Scope::cta) views.push_back(FENCED_CLUSTER);
    if (scope == Scope::gpu) views.push_back(FENCED_GPU);
    publish(state, mask, views);
  }

  void fence_proxy_async(Warp& warp, uint32_t mask, Proxy proxy) override {
    std::vector<View> views;
    if (proxy != Proxy::global) views.push_back(ASYNC_SHARED);
    if (proxy != Proxy::shared) views.push_back(ASYNC_GLOBAL);
    publish(state_of(warp), mask, views);
  }

  void fence_mbarrier_init(Warp& warp, uint32_t mask) override {
    WarpState& state = state_of(warp);
    const uint32_t agent = state.first_agent + INIT_FENCES;
    const uint32_t clock = ++state.init_fences;
    teach(state, mask, [&](Knowledge& known) {
      for (const View view : {GENERIC, FENCED_CTA, FENCED_CLUSTER, FENCED_GPU}) {
        raise(known.views[view], agent, clock);
      }
    });
    for (auto& [address, mbarrier] : mbarriers_) {
      const bool mine = mbarrier.init.agent == state.first_agent + ALL_LANES &&
                        (mask >> (mbarrier.init.lanes & (LANES - 1)) & 1);
      if (mbarrier.living && mine && mbarrier.init_fence == 0) mbarrier.init_fence = clock;
    }
  }

  void warp_sync(Warp& warp, uint32_t mask) override { meet(state_of(warp), mask); }

  // ---- Barriers ----

  void barrier_arrive(Warp& warp, uint32_t mask, uint32_t id) override {
    BarrierState& barrier = barriers_[warp.cta->rank][id];
    barrier.pending.join(*released_by(state_of(warp), mask));
  }
  void barrier_complete(Cta& cta, uint32_t id) override { complete(barriers_[cta.rank][id]); }
  void barrier_wait(Warp& warp, uint32_t mask, uint32_t id) override {
    learn(state_of(warp), mask, barriers_[warp.cta->rank][id].completed);
    meet(state_of(warp), mask);
  }

  void cluster_arrive(Warp& warp, uint32_t mask, bool release) override {
    WarpState& state = state_of(warp);
    const std::shared_ptr<Knowledge> all = released_by(state, mask);
    cluster_barrier_.pending.join(release ? *all : *fenced(*all, FENCED_CLUSTER));
    if (!release) unreleased_.join(*all);
  }
  void cluster_complete() override { complete(cluster_barrier_); }
  void cluster_wait(Warp& warp, uint32_t mask, bool acquires) override {
    WarpState& state = state_of(warp);
    state.unfenced.join(unreleased_);
    if (!acquires) {
      Channel channel;
      channel.add(cluster_.id, warp.cta->rank, Reach::cluster,
                  std::make_shared<Knowledge>(cluster_barrier_.completed));
      hear(state, mask, channel, false, Scope::cluster);
      return;
    }
    learn(state, mask, cluster_barrier_.completed);
    meet(state, mask);
  }

  void exited(Warp& warp, bool last_of_cta) override {
    Shadow& shadow = shadows_[warp.cta->rank];
    shadow.at_exit.join(*released_by(state_of(warp), FULL));
    if (!last_of_cta) return;
    if (!shadow.early.empty()) {
      const auto& [index, record] = *shadow.early.begin();
      report_early(shadow, index, record, nullptr);
    }
    for (const auto& [agent, visit] : shadow.visits) {
      if (!is_ordered(shadow.at_exit, GENERIC, visit.record, 0xff, warp_count())) {
        report_exit(warp, visit);
      }
    }
  }

  // ---- mbarriers ----

  void mbarrier_init(Warp& warp, uint32_t mask, uint32_t address) override {
    Later later = generic_access(warp, mask, true);
    Cell* const cell = cell_at(address);
    if (cell == nullptr) return;
    cell->rest &= ~Cell::MBARRIER;
    const uint32_t lane = last_lane(mask);
    if (enter(later, address)) write_cell(later, index_of(address), 0xff, lane_pair(lane, lane));
    cell->rest |= Cell::MBARRIER;
    MbarrierState& mbarrier = mbarrier_at(address);
    mbarrier.living = true;
    mbarrier.init = cell->record();
    mbarrier.init_fence = 0;
    mbarrier.pending = Channel();
  }

  void mbarrier_inval(Warp& warp, uint32_t mask, uint32_t address) override {
    use(warp, mask, address);
    mbarrier_at(address).living = false;
    if (Cell* const cell = cell_at(address)) cell->rest &= ~Cell::MBARRIER;
  }

  void mbarrier_arrive(Warp& warp, uint32_t mask, uint32_t address, bool release,
                       Scope scope) override {
    use(warp, mask, address);
    WarpState& state = state_of(warp);
    visit(state, mask, address);  // first: who sees the phase complete knows that it is over
    // All who wait are in one CTA: a relaxed arrive is heard by its own, or at its scope.
    const bool own = address >> RANK_SHIFT == warp.cta->rank;
    if (!release && own) scope = Scope::cta;
    add_release(state, mask, &mbarrier_at(address).pending, release, scope, scope);
  }

  void mbarrier_use(Warp& warp, uint32_t mask, uint32_t address) override {
    use(warp, mask, address);
    visit(state_of(warp), mask, address);
  }

  void mbarrier_phase_complete(uint32_t address) override {
    MbarrierState& mbarrier = mbarrier_at(address);
    ++mbarrier.phase;
    mbarrier.completed.join(mbarrier.pending);
    mbarrier.completed.raise(cluster_.id, address >> RANK_SHIFT, mbarrier.agent, mbarrier.phase);
    mbarrier.pending.parts.clear();
  }

  void mbarrier_wait(Warp& warp, uint32_t mask, uint32_t address, bool acquires,
                     Scope scope) override {
    use(warp, mask, address);
    hear(state_of(warp), mask, mbarrier_at(address).completed, acquires, scope);
  }

  // ---- Asynchronous copies ----

  Snapshot snapshot(Warp& warp, uint32_t mask) override {
    return released_by(state_of(warp), mask);
  }

  void copy_reads_shared(const Copy& copy, Segment segment) override {
    Later later = copy_access(copy, BULK_READS, false);
    access_segment(later, segment);
  }

  void copy_writes_shared(const Copy& copy, Segment segment) override {
    if (copy.mbarrier != 0 && copy.async_proxy) use_by_copy(copy);
    Later later = copy_access(copy, CP_ASYNC, true);
    access_segment(later, segment);
  }

  void copy_reads_global(const Copy& copy, uint64_t address, uint64_t bytes) override {
    Later later = copy_access(copy, CP_ASYNC, false);
    if (auto conflict = global_->access(as_global(later), address, bytes)) {
      report_global(later, *conflict);
    }
  }

  void copy_writes_global(const Copy& copy, uint64_t address, uint64_t bytes,
                          bool reduces) override {
    Later later = copy_access(copy, BULK_WRITES, true);
    later.strong = reduces;
    if (auto conflict = global_->access(as_global(later), address, bytes)) {
      report_global(later, *conflict);
    }
  }

  void cp_async_wait(Warp& warp, uint32_t mask, uint64_t group) override {
    WarpState& state = state_of(warp);
    complete_group(state, mask, state.first_agent + CP_ASYNC, group);
  }

  void cp_async_arrive(Warp& warp, uint32_t mask, uint32_t address, uint64_t group) override {
    use(warp, mask, address);
    mbarrier_at(address).pending.raise(cluster_.id, warp.cta->rank,
                                       state_of(warp).first_agent + CP_ASYNC,
                                       static_cast<uint32_t>(group));
  }

  void bulk_wait(Warp& warp, uint32_t mask, uint64_t group, bool only_read) override {
    WarpState& state = state_of(warp);
    complete_group(state, mask, state.first_agent + BULK_READS, group);
    if (!only_read) complete_group(state, mask, state.first_agent + BULK_WRITES, group);
  }

  // ---- wgmma ----

  void wgmma_issue(Warp& warp, const Inst& inst, uint64_t group,
                   const std::vector<Segment>& segments) override {
    WarpState& state = state_of(warp);
    const auto clock = static_cast<uint32_t>(group);
    use_registers(state, inst, clock);
    Later later{&state, &known_to(state, FULL), warp.pc(), state.first_agent + WGMMA_READS, clock,
                false};
    later.async_proxy = true;
    if (segments.empty() || !enter(later, segments[0].address)) return;
    for (const Segment& segment : segments) {  // chunks of 16 bytes of the warp's own CTA
      const uint32_t first = index_of(segment.address);
      read_cells(later, first, first + segment.bytes / CELL_BYTES);
    }
  }

  // Registers that were loaded before it have been: the lanes' earlier accesses are over.
  void wgmma_fence(Warp& warp) override {
    WarpState& state = state_of(warp);
    ++state.wgmma_fences;
    meet(state, FULL);
  }

  // Complete for the whole warpgroup, as on an H200 (tests/golden/recorded/questions.txt).
  void wgmma_wait(Warp& warp, const uint64_t groups[4]) override {
    WarpState& state = state_of(warp);
    const uint32_t first = warp.in_cluster - warp.index % 4;
    for (uint32_t i = 0; i < 4; ++i) {
      complete_group(state, FULL, (first + i) * AGENTS_OF_WARP + WGMMA_READS, groups[i]);
    }
  }

  void touch_registers(Warp& warp, const Inst& inst, uint32_t mask) override {
    WarpState& state = state_of(warp);
    const uint32_t complete = clock_of(state.known.views[GENERIC], state.first_agent + WGMMA_READS);
    for (uint32_t i = 0; i < inst.slot_count; ++i) {
      if (inst.slots[i].width != Width::w32) continue;
      Register& reg = register_at(state, inst.slots[i].row);
      // What is only an operand of wgmma may be read.
      if (reg.group > complete && (reg.accumulator || i == 0)) {
        report_register(state, mask, reg);
      }
      reg.touched = state.wgmma_fences + 1;
      reg.touched_pc = warp.pc();
    }
  }

 private:
  // ---- Who knows what ----------------------------------------------------------------------------

  static bool is_acquire(Order order) { return order == Order::acquire || order == Order::acq_rel; }
  static bool is_release(Order order) { return order == Order::release || order == Order::acq_rel; }
  static uint32_t last_lane(uint32_t mask) {
    return LANES - 1 - static_cast<uint32_t>(std::countl_zero(mask));
  }
  static bool whole_warp(const WarpState& state, uint32_t lanes) {
    return (state.warp->live & ~lanes) == 0;
  }

  // Of a warp that executes something, or a copy of it.
  WarpState& state_of(const Warp& warp) {
    WarpState& state = warps_[warp.in_cluster];
    if (!state.loads.empty()) [[unlikely]] {
      for (const Load& load : std::exchange(state.loads, {})) {
        hear(state, load.lanes, global_->released(load.address), load.acquires, load.scope);
      }
    }
    return state;
  }
  uint32_t warp_count() const { return static_cast<uint32_t>(warps_.size()); }

  void tick(WarpState& state) {
    if (++state.clock < PackedRead::MAX_CLOCK) return;
    throw Error(Error::Kind::refused, "Kernel " + kernel_text(*cluster_.grid->kernel) +
                                          " runs too long to be checked; MACHINE_CHECK=0 runs it "
                                          "without checks.");
  }

  // What all of `lanes` know.
  Knowledge& known_to(WarpState& state, uint32_t lanes) {
    if (state.extras.empty()) return state.known;
    Knowledge* found = &state.known;
    uint32_t count = 0;
    for (Extra& extra : state.extras) {
      if (extra.lanes == lanes) return extra.known;
      if (lanes & ~extra.lanes) continue;
      found = &extra.known;
      ++count;
    }
    return count <= 1 ? *found : extra_of(state, lanes);
  }

  Knowledge& extra_of(WarpState& state, uint32_t lanes) {
    constexpr size_t MAX_EXTRAS = 64;
    for (Extra& extra : state.extras) {
      if (extra.lanes == lanes) return extra.known;
    }
    if (state.extras.size() >= MAX_EXTRAS) {  // rather than report what is no race
      for (const Extra& extra : state.extras) state.known.join(extra.known);
      state.extras.clear();
    }
    Extra made{lanes, state.known};
    for (const Extra& extra : state.extras) {
      if (!(lanes & ~extra.lanes)) made.known.join(extra.known);
    }
    return state.extras.emplace_back(std::move(made)).known;
  }

  // Changes what these lanes know: f(Knowledge&).
  template <class F>
  void teach(WarpState& state, uint32_t lanes, F&& f) {
    state.changed = true;
    if (whole_warp(state, lanes)) {
      f(state.known);
      for (Extra& extra : state.extras) f(extra.known);
      return;
    }
    extra_of(state, lanes);
    uint32_t all = 0;
    for (Extra& extra : state.extras) {
      if (!(extra.lanes & ~lanes)) f(extra.known);
      all |= extra.lanes;
    }
    if (whole_warp(state, all)) learn_what_all_know(state);
  }

  void learn(WarpState& state, uint32_t lanes, const Knowledge& what) {
    teach(state, lanes, [&](Knowledge& known) { known.join(what); });
  }

  // Every lane knows more than the warp: the least of it is the warp's.
  void learn_what_all_know(WarpState& state) {
    Knowledge least;
    bool first = true;
    for_lanes(state.warp->live, [&](uint32_t lane) {
      const Extra* best = nullptr;  // the narrowest one has learned most
      for (const Extra& extra : state.extras) {
        if (!(extra.lanes >> lane & 1)) continue;
        if (best == nullptr || std::popcount(extra.lanes) < std::popcount(best->lanes)) {
          best = &extra;
        }
      }
      if (first) {
        least = best->known;
      } else {
        least.meet(best->known);
      }
      first = false;
    });
    state.known.join(least);
    std::erase_if(state.extras,
                  [&](const Extra& extra) { return state.known.covers(extra.known); });
  }

  // These lanes synchronise with each other: bar.warp.sync.
  void meet(WarpState& state, uint32_t lanes) {
    state.changed = true;
    Knowledge all;
    for (const Extra& extra : state.extras) {
      if (extra.lanes & lanes) all.join(extra.known);
    }
    if (whole_warp(state, lanes)) {
      if (!state.extras.empty()) state.known.join(all);
      state.extras.clear();
      state.met.clear();
      state.synced = state.clock;
      tick(state);
      return;
    }
    if (!state.extras.empty()) learn(state, lanes, all);
    if (state.met.empty()) {
      for (uint32_t lane = 0; lane < LANES; ++lane) state.met.push_back(1u << lane);
    }
    const uint32_t together = met_by(state, lanes);
    for_lanes(together, [&](uint32_t lane) { state.met[lane] = together; });
  }

  // The lanes whose accesses are ordered before what `lanes` do now, beyond those up to `synced`.
  static uint32_t met_by(const WarpState& state, uint32_t lanes) {
    if (state.met.empty()) return lanes;
    uint32_t together = lanes;
    for_lanes(lanes, [&](uint32_t lane) { together |= state.met[lane]; });
    return together;
  }

  // What `lanes` tell others when they release, or a copy when they issue it.
  std::shared_ptr<Knowledge> released_by(WarpState& state, uint32_t lanes) {
    if (!state.changed && state.snapshot_lanes == lanes) return state.snapshot;
    auto made = std::make_shared<Knowledge>(state.known);
    for (const Extra& extra : state.extras) {
      if (extra.lanes & lanes) made->join(extra.known);
    }
    const bool whole = whole_warp(state, lanes);
    const uint32_t all = state.first_agent + ALL_LANES, some = state.first_agent + SOME_LANES;
    for (uint32_t view = 0; view < VIEWS; ++view) {
      Clocks& clocks = made->views[view];
      if (view == GENERIC) {
        raise(clocks, some, state.clock);
        clocks[all] = whole ? state.clock : state.synced;
      } else if (!whole && clock_of(clocks, all) > state.synced) {
        raise(clocks, some, clocks[all]);
        clocks[all] = state.synced;
      }
    }
    if (!whole) released_lanes(*made, *state.warp) = met_by(state, lanes);
    tick(state);
    state.snapshot = made;
    state.snapshot_lanes = lanes;
    state.changed = false;
    return made;
  }

  static uint32_t& released_lanes(Knowledge& known, const Warp& warp) {
    if (known.lanes.size() <= warp.in_cluster) known.lanes.resize(warp.in_cluster + 1);
    return known.lanes[warp.in_cluster];
  }

  // A fence: what the lanes know becomes part of these views.
  void publish(WarpState& state, uint32_t lanes, const std::vector<View>& views) {
    const bool whole = whole_warp(state, lanes);
    const uint32_t all = state.first_agent + ALL_LANES, some = state.first_agent + SOME_LANES;
    const uint32_t together = met_by(state, lanes);
    teach(state, lanes, [&](Knowledge& known) {
      for (const View view : views) {
        Clocks& clocks = known.views[view];
        const uint32_t before = clock_of(clocks, all);
        machine::join(clocks, known.views[GENERIC]);
        clocks[all] = std::max(before, whole ? state.clock : state.synced);
        if (!whole) raise(clocks, some, state.clock);
      }
      if (!whole) released_lanes(known, *state.warp) |= together;
    });
    tick(state);
  }

  // What a relaxed operation releases of it.
  static std::shared_ptr<Knowledge> fenced(const Knowledge& all, View view) {
    auto part = std::make_shared<Knowledge>(all);
    for (Clocks& clocks : part->views) machine::meet(clocks, all.views[view]);
    return part;
  }

  // A relaxed operation releases what fences of the scopes from `least` to `scope` have prepared.
  void add_release(WarpState& state, uint32_t lanes, Channel* to, bool release, Scope scope,
                   Scope least = Scope::cta) {
    const uint32_t rank = state.warp->cta->rank;
    constexpr Reach REACH[] = {Reach::cta, Reach::cluster, Reach::gpu};
    constexpr View VIEW[] = {FENCED_CTA, FENCED_CLUSTER, FENCED_GPU};
    if (release) {
      to->add(cluster_.id, rank, REACH[static_cast<size_t>(scope)], released_by(state, lanes));
      return;
    }
    const Knowledge& known = known_to(state, lanes);
    for (auto s = static_cast<size_t>(least); s <= static_cast<size_t>(scope); ++s) {
      if (known.views[VIEW[s]].empty()) continue;
      to->add(cluster_.id, rank, REACH[s], fenced(*released_by(state, lanes), VIEW[s]));
    }
    to->add(cluster_.id, rank, Reach::nowhere, released_by(state, lanes));
  }

  // A wait or load has seen what was released there: the lanes learn it if it acquires; else a later
  // fence makes them do so.
  void hear(WarpState& state, uint32_t lanes, const Channel& channel, bool acquires, Scope scope) {
    for (const Channel::Part& part : channel.parts) {
      const bool of_cluster = part.cluster == cluster_.id;
      // The scope that both sides need.
      Scope least = Scope::gpu;
      if (of_cluster) least = part.rank == state.warp->cta->rank ? Scope::cta : Scope::cluster;
      if (part.reach == Reach::nowhere) {
        if (of_cluster) state.unfenced.join(*part.what);
      } else if (scope < least || static_cast<size_t>(part.reach) <= static_cast<size_t>(least)) {
        if (of_cluster) state.unscoped.join(*part.what);
      } else {
        const Snapshot what = of_cluster ? part.what : from_cluster(part.cluster, part.what);
        teach(state, lanes, [&](Knowledge& known) {
          acquires ? known.join(*what) : known.see(static_cast<size_t>(least), what);
        });
      }
    }
  }

  // As this cluster knows it: its own clocks, and those of the others by cluster.
  std::shared_ptr<Knowledge> from_cluster(uint64_t cluster, const Snapshot& what) const {
    auto known = std::make_shared<Knowledge>();
    auto others = std::make_shared<Others>();
    if (what->others) {
      *others = *what->others;
      const auto mine = others->find(cluster_.id);
      if (mine != others->end()) {
        *known = *mine->second;
        others->erase(mine);
      }
    }
    (*others)[cluster] = what;
    known->others = others;
    return known;
  }

  template <class F>
  static void for_each_address(uint32_t mask, const uint64_t* addresses, F&& f) {
    while (mask != 0) {
      const uint64_t address = addresses[std::countr_zero(mask)];
      uint32_t lanes = 0;
      for_lanes(mask,
                [&](uint32_t lane) { lanes |= uint32_t{addresses[lane] == address} << lane; });
      f(address, lanes);
      mask &= ~lanes;
    }
  }

  // A strong access to flags in shared memory.
  template <class F>
  void synchronise(WarpState& state, uint32_t mask, const uint64_t* addresses, Access access,
                   Order order, Scope scope, F&& channel_at) {
    for_each_address(mask, addresses, [&](uint64_t address, uint32_t lanes) {
      Channel& channel = channel_at(address);
      if (access != Access::write) hear(state, lanes, channel, is_acquire(order), scope);
      if (access == Access::write) channel.parts.clear();
      if (access != Access::read) add_release(state, lanes, &channel, is_release(order), scope);
    });
  }

  static void complete(BarrierState& barrier) {
    std::swap(barrier.pending, barrier.completed);
    barrier.pending.clear();
  }

  void complete_group(WarpState& state, uint32_t lanes, uint32_t agent, uint64_t group) {
    teach(state, lanes, [&](Knowledge& known) {
      raise(known.views[GENERIC], agent, static_cast<uint32_t>(group));
    });
  }

  // ---- Accesses ----------------------------------------------------------------------------------

  Later generic_access(Warp& warp, uint32_t mask, bool write) {
    WarpState& state = state_of(warp);
    state.changed = true;
    return {&state, &known_to(state, mask), warp.pc(), state.first_agent + ALL_LANES, state.clock,
            write};
  }

  // `kind`: of a copy that completes in a group.
  Later copy_access(const Copy& copy, AgentKind kind, bool write) {
    WarpState& state = state_of(*copy.warp);
    Later later{&state, copy.issued.get(), copy.pc, 0, 0, write};
    later.async_proxy = copy.async_proxy;
    if (copy.mbarrier != 0) {
      MbarrierState& mbarrier = mbarrier_at(copy.mbarrier);
      mbarrier.issuer = copy.warp;
      later.agent = mbarrier.agent;
      later.clock = mbarrier.phase + 1;
    } else {
      later.agent = state.first_agent + kind;
      later.clock = static_cast<uint32_t>(copy.group);
    }
    return later;
  }

  GlobalAccess as_global(const Later& later) const {
    GlobalAccess access;
    access.as.cluster = id_;
    access.as.clock = later.clock;
    access.as.pc = later.pc;
    access.as.agent = static_cast<uint16_t>(later.agent);
    access.as.strong = later.strong;
    access.as.write = later.write;
    access.known = later.known;
    access.async_proxy = later.async_proxy;
    access.warps = warp_count();
    return access;
  }

  static uint32_t index_of(uint32_t address) {
    return ((address & OFFSET_MASK) - SMEM_BASE) / CELL_BYTES;
  }

  Cell* cell_at(uint32_t address) {
    const uint32_t rank = address >> RANK_SHIFT;
    if (rank >= shadows_.size() || index_of(address) >= shadows_[rank].cells.size()) return nullptr;
    return &shadows_[rank].cells[index_of(address)];
  }

  MbarrierState& mbarrier_at(uint32_t address) {
    MbarrierState& mbarrier = mbarriers_[address];
    if (mbarrier.agent == 0) {
      mbarrier.address = address;
      mbarrier.agent = warp_count() * AGENTS_OF_WARP + static_cast<uint32_t>(mbarriers_.size()) - 1;
    }
    return mbarrier;
  }

  // Makes the CTA of the address the one that is accessed; false if there is none.
  bool enter(Later& later, uint32_t address) {
    const uint32_t rank = address >> RANK_SHIFT;
    if (later.shadow != nullptr && later.shadow->cta->rank == rank) return true;
    return rank < shadows_.size() && enter_cta(later, address);
  }

  bool enter_cta(Later& later, uint32_t address) {
    Shadow& shadow = shadows_[address >> RANK_SHIFT];
    later.shadow = &shadow;
    later.plane = later.write ? nullptr : &shadow.plane(later.agent);
    later.block = ~0u;
    later.good_key = ~0ull;
    later.key = Cell::key_of(later.agent, later.clock);
    later.rest = later.pc | (later.strong ? Cell::STRONG : 0);
    later.read = PackedRead::pack(later.clock, later.pc);
    const bool of_peer = later.by->warp->cta != shadow.cta;
    const bool lands = later.write && later.agent >= warp_count() * AGENTS_OF_WARP;
    if (!of_peer && !lands) return true;
    if (shadow.cta->live_threads == 0) report_exited(later, address);
    const Record record{later.agent, later.clock, later.pc, 0, 0xff, later.write};
    shadow.visits[later.agent] = {record, address};
    return true;
  }

  // An mbarrier of a peer is used.
  void visit(WarpState& state, uint32_t mask, uint32_t address) {
    const uint32_t rank = address >> RANK_SHIFT;
    if (rank == state.warp->cta->rank || rank >= shadows_.size()) return;
    const uint32_t agent = state.first_agent + ALL_LANES;
    const uint32_t lane = last_lane(mask);
    const Record record{agent, state.clock, state.warp->pc(), lane_pair(lane, lane), 0xff, true};
    shadows_[rank].visits[agent] = {record, address};
    state.changed = true;
  }

  static uint64_t& good_key_at(WarpState& state, uint64_t key) {
    return state.good_keys[(key ^ key >> 32) % state.good_keys.size()];
  }

  // The view in which an earlier access by the agent must be known.
  View view_of(const Later& later, uint32_t agent) const {
    return later.async_proxy && in_generic_proxy(agent, warp_count()) ? ASYNC_SHARED : GENERIC;
  }

  bool is_before(const Later& later, const Record& record, uint32_t bytes) const {
    const View view = view_of(later, record.agent);
    if (is_ordered(*later.known, view, record, bytes, warp_count())) return true;
    // The generic copies (cp.async) of a warp come behind its own accesses.
    const uint32_t first = later.by->first_agent;
    return view == GENERIC && record.agent == first + ALL_LANES &&
           clock_of(later.known->views[GENERIC], first + SOME_LANES) >= record.clock;
  }

  bool both_reduce(const Later& later, const Record& record) const {
    const auto reduces = [this](uint32_t pc) {
      const std::string opcode = opcode_at(pc);
      return opcode.starts_with("red.async") || opcode.starts_with("cp.reduce");
    };
    return reduces(later.pc) && reduces(record.pc);
  }

  void check_write_before(Later& later, const Cell& cell, uint32_t index, uint32_t bytes) {
    const Record record = cell.record();
    const Clocks& clocks = later.known->views[view_of(later, record.agent)];
    if (clock_of(clocks, record.agent) >= record.clock) {  // whichever lane it was
      if (cell.written() == 0xff || later.write) later.good_key = cell.key;
      WarpState& by = warps_[later.by->warp->in_cluster];
      if (cell.written() == 0xff && later.known == &by.known && !later.async_proxy) {
        good_key_at(by, cell.key) = cell.key;
      }
      return;
    }
    const uint32_t both = record.bytes & bytes;
    if (both == 0 || (cell.strong() && later.strong) || is_before(later, record, both) ||
        both_reduce(later, record)) {
      return;
    }
    report_shared(later, record, both, index);
  }

  // `lanes`: a pair, of the parts that `bytes` stand for.
  void read_cell(Later& later, uint32_t index, uint32_t bytes, uint32_t lanes) {
    const Cell& cell = later.shadow->cells[index];
    if (cell.key != later.good_key) [[unlikely]] {
      const uint32_t missing = bytes & ~cell.written();
      if (missing != 0) {
        later.shadow->early.try_emplace(
            index, Record{later.agent, later.clock, later.pc, lanes, missing, false});
      }
      check_write_before(later, cell, index, bytes);
    }
    if (later.strong) return;
    uint64_t& read = later.plane->reads[index];
    read = PackedRead::add(read, later.read, bytes, lanes);
    uint32_t& newest = later.plane->newest[index / Plane::BLOCK_CELLS];
    newest = std::max(newest, later.clock);
  }

  void write_cell(Later& later, uint32_t index, uint32_t bytes, uint32_t lanes) {
    Cell& cell = later.shadow->cells[index];
    later.shadow->uniform[index / Plane::BLOCK_CELLS] = 0;
    if (cell.mbarrier()) report_mbarrier_overwritten(later, index);
    if (!later.shadow->early.empty()) check_early(later, index, bytes);
    if (index / Plane::BLOCK_CELLS != later.block) find_suspects(later, index);
    for (const Plane* plane : suspects_) {
      const Record read = PackedRead::unpack(plane->agent, plane->reads[index]);
      if (!(read.bytes & bytes) || is_before(later, read, read.bytes & bytes)) continue;
      report_shared(later, read, read.bytes & bytes, index);
    }
    if (cell.key != later.good_key) check_write_before(later, cell, index, bytes);
    if (bytes == 0xff) {
      cell = {later.key | Cell::WHOLE, later.rest | uint64_t{lanes} << Cell::LANES_SHIFT};
      return;
    }
    // What remains of the write before: which bytes any write has touched, and if it is of this
    // moment, all of it.
    uint64_t kept = cell.key & uint64_t{0xff} << Cell::WRITTEN_SHIFT;
    if (((cell.key ^ later.key) << 16) == 0 && cell.strong() == later.strong) {
      kept = cell.key & Cell::WHOLE;
      lanes |=
          static_cast<uint32_t>(cell.rest >> Cell::LANES_SHIFT) & LANE_PAIR_MASK & ~lanes_of(bytes);
    }
    cell = {later.key | kept | uint64_t{bytes} << Cell::BYTES_SHIFT |
                uint64_t{bytes} << Cell::WRITTEN_SHIFT,
            later.rest | uint64_t{lanes} << Cell::LANES_SHIFT};
  }

  void check_early(const Later& later, uint32_t index, uint32_t bytes) const {
    const auto found = later.shadow->early.find(index);
    if (found != later.shadow->early.end() && (found->second.bytes & bytes)) {
      report_early(*later.shadow, index, found->second, &later);
    }
  }

  // The agents one of whose reads of the cell's block may not be over.
  void find_suspects(Later& later, uint32_t index) {
    later.block = index / Plane::BLOCK_CELLS;
    suspects_.clear();
    for (const auto& plane : later.shadow->planes) {
      const Clocks& clocks = later.known->views[view_of(later, plane->agent)];
      if (clock_of(clocks, plane->agent) < plane->newest[later.block]) {
        suspects_.push_back(plane.get());
      }
    }
  }

  // What is beyond the end of shared memory ends in a fault of its own.
  void access_shared(Later& later, uint32_t mask, const uint32_t* addresses, uint32_t bytes) {
    const uint32_t first = addresses[std::countr_zero(mask)];
    uint32_t differs = 0;
    for (uint32_t lane = 0; lane < LANES; ++lane) {
      differs |= mask >> lane & 1 ? addresses[lane] ^ first : 0;
    }
    if (differs >> RANK_SHIFT != 0) {  // lanes in several CTAs
      for_lanes(mask, [&](uint32_t lane) { access_shared(later, 1u << lane, addresses, bytes); });
      return;
    }
    if (!enter(later, first)) return;
    if (differs == 0) mask = 1u << last_lane(mask);
    const uint32_t size = bytes < CELL_BYTES ? (1u << bytes) - 1 : 0xff;
    const uint32_t count = bytes > CELL_BYTES ? 2 : 1;
    const auto cells = static_cast<uint32_t>(later.shadow->cells.size());
    Touched touched;
    uint32_t outside = 0;
    for (uint32_t lane = 0; lane < LANES; ++lane) {
      const uint32_t address = addresses[lane];
      const uint32_t here = size << address % CELL_BYTES & 0xff;
      const uint32_t low = here & 0x0f ? LANES - 1 : 0, high = here & 0xf0 ? LANES - 1 : 0;
      touched.index[lane] = index_of(address);
      touched.bytes[lane] = here;
      touched.lanes[lane] = lane_pair(lane & low, lane & high);
      outside |= touched.index[lane] + count > cells ? mask >> lane & 1 : 0;
    }
    if (outside != 0) return;
    for (uint32_t i = 0; i < count; ++i) {
      later.write ? write_lanes(later, mask, touched, i) : read_lanes(later, mask, touched, i);
    }
  }

  // The cells that the lanes of an instruction touch, or begin to.
  struct Touched {
    uint32_t index[LANES], bytes[LANES], lanes[LANES];
  };

  void read_lanes(Later& later, uint32_t mask, const Touched& touched, uint32_t step) {
    const Cell* const cells = later.shadow->cells.data() + step;
    uint64_t* const reads = later.plane->reads.data() + step;
    uint32_t* const newest = later.plane->newest.data();
    const uint64_t read = later.read;
    const uint32_t clock = later.clock;
    WarpState& by = warps_[later.by->warp->in_cluster];
    uint64_t good_key = later.strong ? ~0ull : later.good_key;
    for (; mask != 0; mask &= mask - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(mask));
      const uint32_t index = touched.index[lane];
      const uint64_t key = cells[index].key;
      if (key != good_key && key == good_key_at(by, key) && !later.strong) good_key = key;
      if (key != good_key) [[unlikely]] {
        read_cell(later, index + step, touched.bytes[lane], touched.lanes[lane]);
        if (!later.strong) good_key = later.good_key;
        continue;
      }
      reads[index] = PackedRead::add(reads[index], read, touched.bytes[lane], touched.lanes[lane]);
      newest[(index + step) / Plane::BLOCK_CELLS] = clock;
    }
  }

  void write_lanes(Later& later, uint32_t mask, const Touched& touched, uint32_t step) {
    for_lanes(mask, [&](uint32_t lane) {
      write_cell(later, touched.index[lane] + step, touched.bytes[lane], touched.lanes[lane]);
    });
  }

  // Of copies and wgmma.
  void access_segment(Later& later, const Segment& segment) {
    if (segment.bytes == 0 || !enter(later, segment.address)) return;
    const uint32_t offset = (segment.address & OFFSET_MASK) - SMEM_BASE;
    const auto all = static_cast<uint32_t>(later.shadow->cells.size() * CELL_BYTES);
    const uint32_t end = std::min(offset + segment.bytes, all);
    const auto edge = [&](uint32_t index) {
      const uint32_t start = index * CELL_BYTES;
      uint32_t bytes = 0xff;
      if (offset > start) bytes &= 0xff << (offset - start);
      if (end < start + CELL_BYTES) bytes &= 0xff >> (start + CELL_BYTES - end);
      later.write ? write_cell(later, index, bytes, 0) : read_cell(later, index, bytes, 0);
    };
    uint32_t index = offset / CELL_BYTES;
    const uint32_t whole = end / CELL_BYTES;
    if (offset % CELL_BYTES != 0) edge(index++);
    if (index < whole) {
      later.write ? write_cells(later, index, whole) : read_cells(later, index, whole);
      index = whole;
    }
    if (index * CELL_BYTES < end) edge(index);
  }

  void write_cells(Later& later, uint32_t first, uint32_t end) {
    constexpr uint32_t BLOCK = Plane::BLOCK_CELLS;
    Cell* const cells = later.shadow->cells.data();
    const Cell made = {later.key | Cell::WHOLE, later.rest};
    uint64_t good_key = ~0ull;
    for (uint32_t i = first; i < end; ++i) {
      if (cells[i].key != good_key || cells[i].mbarrier() || i % BLOCK == 0) {
        write_cell(later, i, 0xff, 0);
        const bool slow = !suspects_.empty() || !later.shadow->early.empty();
        good_key = slow ? ~0ull : later.good_key;
      } else {
        cells[i] = made;
      }
      const bool whole_block = i % BLOCK == BLOCK - 1 && i - first >= BLOCK - 1;
      if (whole_block) later.shadow->uniform[i / BLOCK] = made.key;
    }
  }

  void read_cells(Later& later, uint32_t first, uint32_t end) {
    constexpr uint32_t BLOCK = Plane::BLOCK_CELLS;
    const Cell* const cells = later.shadow->cells.data();
    const uint64_t read = PackedRead::add(0, later.read, 0xff, 0);
    while (first < end) {
      const uint32_t block = first / BLOCK, stop = std::min(end, (block + 1) * BLOCK);
      if (later.shadow->uniform[block] != later.good_key) {
        for (uint32_t i = first; i < stop; ++i) {
          if (cells[i].key != later.good_key) [[unlikely]]
            read_cell(later, i, 0xff, 0);
        }
      }
      uint64_t* const reads = later.plane->reads.data();
      for (; first < stop; ++first) reads[first] = read;
      if (block == later.block) continue;
      later.block = block;
      uint32_t& newest = later.plane->newest[block];
      newest = std::max(newest, later.clock);
    }
  }

  // ---- mbarriers ---------------------------------------------------------------------------------

  // Whether its init is known, through order or through fence.mbarrier_init.
  bool knows_init(const Knowledge& known, View view, const MbarrierState& mbarrier) const {
    const uint32_t agent = mbarrier.init.agent + INIT_FENCES - ALL_LANES;
    return is_ordered(known, view, mbarrier.init, 0xff, warp_count()) ||
           (mbarrier.init_fence != 0 &&
            clock_of(known.views[GENERIC], agent) >= mbarrier.init_fence);
  }

  void use(Warp& warp, uint32_t mask, uint32_t address) {
    WarpState& state = state_of(warp);
    const MbarrierState& mbarrier = mbarrier_at(address);
    if (!mbarrier.living || knows_init(known_to(state, mask), GENERIC, mbarrier)) return;
    Later later{&state,      &known_to(state, mask),
                warp.pc(),   state.first_agent + ALL_LANES,
                state.clock, true};
    report_init(later, mbarrier);
  }

  void use_by_copy(const Copy& copy) {
    const MbarrierState& mbarrier = mbarrier_at(copy.mbarrier);
    if (!mbarrier.living || knows_init(*copy.issued, ASYNC_SHARED, mbarrier)) return;
    report_init(copy_access(copy, CP_ASYNC, true), mbarrier);
  }

  // ---- Registers of wgmma ------------------------------------------------------------------------

  Register& register_at(WarpState& state, uint32_t row) {
    constexpr uint32_t ROW_BYTES = LANES * 4;
    if (state.registers.empty()) state.registers.resize(program_.rows_bytes / ROW_BYTES + 1);
    return state.registers[row / ROW_BYTES];
  }

  // The 32-bit operands of wgmma.mma_async come first: D, then A if it is in registers, else a
  // 64-bit descriptor of A. One of B follows.
  void use_registers(WarpState& state, const Inst& inst, uint32_t group) {
    uint32_t count = 0;
    while (count < inst.slot_count && inst.slots[count].width == Width::w32) ++count;
    const bool a_in_memory =
        count + 1 < inst.slot_count && inst.slots[count + 1].width == Width::w64;
    constexpr uint32_t REGISTERS_OF_A = 4;
    const uint32_t accumulators = a_in_memory ? count : count - REGISTERS_OF_A;
    for (uint32_t i = 0; i < count; ++i) {
      Register& reg = register_at(state, inst.slots[i].row);
      if (state.wgmma_fences == 0 || reg.touched > state.wgmma_fences) {
        report_wgmma_fence(state, reg);
      }
      reg.group = group;
      reg.pc = state.warp->pc();
      reg.accumulator = i < accumulators;
    }
  }

  // ---- Reports -----------------------------------------------------------------------------------

  std::string opcode_at(uint32_t pc) const {
    const std::string text = program_.text(pc);
    return text.substr(0, text.find(' '));
  }

  std::string name_of_shared(uint32_t address) const {
    const Cta& cta = cluster_.ctas[address >> RANK_SHIFT];
    return "shared " + hex(address) + " (byte " +
           std::to_string((address & OFFSET_MASK) - SMEM_BASE) + " of CTA " + text_of(cta.id) +
           "'s shared memory)";
  }

  std::string name_of_cell(const Shadow& shadow, uint32_t index, uint32_t bytes) const {
    return name_of_shared((shadow.cta->rank << RANK_SHIFT) + SMEM_BASE + index * CELL_BYTES +
                          static_cast<uint32_t>(std::countr_zero(bytes)));
  }

  static std::string text_of(const Dim3& at) {
    return "(" + std::to_string(at.x) + "," + std::to_string(at.y) + "," + std::to_string(at.z) +
           ")";
  }

  const MbarrierState* mbarrier_of(uint32_t agent) const {
    for (const auto& [address, mbarrier] : mbarriers_) {
      if (mbarrier.agent == agent) return &mbarrier;
    }
    return nullptr;
  }

  // The warp behind an agent of this cluster.
  std::string role_of(uint32_t agent) const {
    if (agent < warp_count() * AGENTS_OF_WARP) {
      return describe_role(*warps_[agent / AGENTS_OF_WARP].warp);
    }
    const MbarrierState* const mbarrier = mbarrier_of(agent);
    return mbarrier && mbarrier->issuer ? describe_role(*mbarrier->issuer) : "a warp";
  }

  std::string role_in(uint32_t cluster, uint32_t agent) const {
    if (cluster == id_) return role_of(agent);
    const Grid& grid = *cluster_.grid;
    const Dim3 &size = grid.clusters, &inside = grid.config.cluster;
    const uint32_t rank = agent / AGENTS_OF_WARP / grid.warps_per_cta;
    const Dim3 cta = {cluster % size.x * inside.x + rank % inside.x,
                      cluster / size.x % size.y * inside.y + rank / inside.x % inside.y,
                      cluster / size.x / size.y * inside.z + rank / inside.x / inside.y};
    return "warp " + std::to_string(agent / AGENTS_OF_WARP % grid.warps_per_cta) + " of CTA " +
           text_of(cta);
  }

  std::string line_of(const char* name, const std::string& role, const char* does,
                      uint32_t pc) const {
    return std::string("\n  ") + name + role + does + opcode_at(pc) + "\n           at " +
           program_.place(pc);
  }

  std::string mbarrier_line(uint32_t agent) const {
    const MbarrierState* const mbarrier = mbarrier_of(agent);
    if (mbarrier == nullptr || agent < warp_count() * AGENTS_OF_WARP) return "";
    return "\n  mbarrier: that copy completes on the one at " + name_of_shared(mbarrier->address) +
           ", of which " + std::to_string(mbarrier->phase) +
           (mbarrier->phase == 1 ? " phase is" : " phases are") + " complete";
  }

  [[noreturn]] void report(const std::string& what, const std::string& lines,
                           const std::string& remedy) const {
    throw Error(Error::Kind::race, "Race in kernel " + kernel_text(*cluster_.grid->kernel) + ": " +
                                       what + lines + "\n  What would order them: " + remedy);
  }

  static const char* does(bool write) {
    return write ? ", which writes it by " : ", which reads it by ";
  }

  [[noreturn]] void report_shared(const Later& later, const Record& record, uint32_t bytes,
                                  uint32_t index) const {
    const std::string lines =
        line_of("earlier: ", role_of(record.agent), does(record.write), record.pc) +
        line_of("later:   ", describe_role(*later.by->warp), does(later.write), later.pc) +
        mbarrier_line(record.agent);
    report(describe_pair(later, record.write, record.pc, name_of_cell(*later.shadow, index, bytes)),
           lines, remedy(later, record, bytes, ASYNC_SHARED));
  }

  std::string describe_pair(const Later& later, bool earlier_write, uint32_t earlier_pc,
                            const std::string& where) const {
    return opcode_at(later.pc) + (later.write ? " writes " : " reads ") + where + ", which " +
           opcode_at(earlier_pc) + (earlier_write ? " has written" : " reads") +
           (earlier_write ? ", and nothing orders the two."
                          : ", maybe later: nothing orders them.");
  }

  [[noreturn]] void report_global(const Later& later,
                                  const GlobalShadow::Conflict& conflict) const {
    const GlobalRecord& with = conflict.with;
    const uint64_t address =
        conflict.address + static_cast<uint64_t>(std::countr_zero(conflict.bytes));
    Allocation allocation;
    std::string where = "global " + hex(address);
    if (find_allocation(address, &allocation)) {
      where += " (byte " + std::to_string(address - allocation.base) + " of the " +
               std::to_string(allocation.bytes) + " of " + allocation.what + ")";
    }
    const std::string lines =
        line_of("earlier: ", role_in(with.cluster, with.agent), does(with.write), with.pc) +
        line_of("later:   ", describe_role(*later.by->warp), does(later.write), later.pc);
    report(describe_pair(later, with.write, with.pc, where), lines,
           with.cluster == id_ ? remedy(later, with.record(), conflict.bytes, ASYNC_GLOBAL)
                               : remedy_between_clusters(later, with));
  }

  // The instruction that is missing between two accesses of this cluster.
  std::string remedy(const Later& later, const Record& record, uint32_t bytes, View async) const {
    const uint32_t warps = warp_count();
    const bool generic = in_generic_proxy(record.agent, warps);
    const View view = later.async_proxy && generic ? async : GENERIC;
    const auto known_in = [&](const Knowledge& known, View in) {
      return is_ordered(known, in, record, bytes, warps);
    };
    const std::string earlier = role_of(record.agent), behind = opcode_at(record.pc);
    if (view != GENERIC && known_in(*later.known, GENERIC)) {
      return std::string("fence.proxy.async") +
             (async == ASYNC_SHARED ? ".shared::cta" : ".global") + " behind " + behind +
             ", executed by each thread of " + earlier +
             " before the barrier or the arrive: the generic proxy has the order, the async proxy "
             "does not.";
    }
    if (kind_of(record.agent) == ALL_LANES &&
        clock_of(later.known->views[view], record.agent + SOME_LANES) >= record.clock) {
      return "bar.warp.sync (__syncwarp) in " + earlier + ", behind " + behind +
             " and before one lane's arrive or copy: a lane releases only what it did itself.";
    }
    for (const Extra& extra : later.by->extras) {
      if (known_in(extra.known, view)) {
        return "bar.warp.sync (__syncwarp) in " + describe_role(*later.by->warp) +
               ", behind the wait: only some of its lanes have waited.";
      }
    }
    for (const Snapshot& seen : later.known->seen) {
      if (seen && known_in(*seen, view)) {
        return "fence.acquire (or fence.acq_rel) behind the relaxed wait or load of " +
               describe_role(*later.by->warp) + ".";
      }
    }
    if (known_in(later.by->unscoped, view)) {
      return "scope .cluster: mbarrier.arrive.release.cluster by " + earlier +
             ", and mbarrier.try_wait.acquire.cluster by " + describe_role(*later.by->warp) +
             ". Scope .cta does not reach another CTA.";
    }
    if (known_in(later.by->unfenced, view)) {
      return "fence.release (or fence.acq_rel) before the relaxed arrive or store of " + earlier +
             ".";
    }
    return remedy_by_kind(later, record, behind);
  }

  AgentKind kind_of(uint32_t agent) const {
    return agent < warp_count() * AGENTS_OF_WARP ? static_cast<AgentKind>(agent % AGENTS_OF_WARP)
                                                 : MBARRIER;
  }

  std::string remedy_by_kind(const Later& later, const Record& record,
                             const std::string& behind) const {
    const std::string earlier = role_of(record.agent);
    const std::string now = describe_role(*later.by->warp);
    const bool same_warp = record.agent / AGENTS_OF_WARP == later.by->warp->in_cluster;
    switch (kind_of(record.agent)) {
      case WGMMA_READS: {
        const WarpState& owner = warps_[record.agent / AGENTS_OF_WARP];
        if (clock_of(owner.known.views[GENERIC], record.agent) < record.clock) {
          const Warp& issuer = *owner.warp;
          const bool committed =
              issuer.cta->warpgroups[issuer.index / 4].committed[issuer.index % 4] >= record.clock;
          return std::string(committed ? "" : "wgmma.commit_group and ") + "wgmma.wait_group in " +
                 earlier + ", so that the group of " + behind + " is complete" +
                 (same_warp ? "."
                            : ", and behind it an arrive (or barrier) that " + now +
                                  " waits for before " + opcode_at(later.pc) + ".");
        }
        return "an arrive of " + earlier +
               " behind its wgmma.wait_group, on an mbarrier (or "
               "barrier) that " +
               now + " waits for before " + opcode_at(later.pc) + ".";
      }
      case BULK_READS:
        return "cp.async.bulk.wait_group.read by the thread of " + earlier + " that committed " +
               behind + (same_warp ? "" : ", then a barrier with " + now) + ".";
      case BULK_WRITES:
        return "cp.async.bulk.wait_group (without .read) by the thread of " + earlier +
               " that committed " + behind + (same_warp ? "" : ", then a barrier with " + now) +
               ".";
      case CP_ASYNC:
        return "cp.async.wait_group (or cp.async.mbarrier.arrive.noinc) in " + earlier +
               (same_warp ? "" : ", then a barrier with " + now) +
               (later.async_proxy ? ", and fence.proxy.async between the two." : ".");
      case MBARRIER: {
        const MbarrierState& mbarrier = *mbarrier_of(record.agent);
        if (later.write) {
          return "a wait by " + now +
                 " for those who read what the earlier copy brought (with "
                 "wgmma, ldmatrix, ld.shared): an mbarrier on which they arrive when they have.";
        }
        return "mbarrier.try_wait by " + now + " on the mbarrier at shared " +
               hex(mbarrier.address) + ", for its phase " + std::to_string(record.clock - 1) +
               " (parity " + std::to_string((record.clock - 1) & 1) + "), before " +
               opcode_at(later.pc) + ".";
      }
      default:
        break;
    }
    const bool same_cta = warps_[record.agent / AGENTS_OF_WARP].warp->cta == later.by->warp->cta;
    std::string text = same_cta
                           ? "bar.sync between the two, or an mbarrier.arrive behind " + behind +
                                 " and an mbarrier.try_wait before " + opcode_at(later.pc)
                           : "barrier.cluster.arrive.release behind " + behind +
                                 " and barrier.cluster.wait.acquire before " + opcode_at(later.pc);
    if (later.async_proxy) text += ", with fence.proxy.async before the arrive";
    return text + ".";
  }

  std::string remedy_between_clusters(const Later& later, const GlobalRecord& with) const {
    const std::string fence = "fence.acq_rel.gpu (__threadfence)";
    return std::string(in_generic_proxy(with.agent, warp_count()) || !with.write
                           ? ""
                           : "cp.async.bulk.wait_group (without .read) by who committed it; ") +
           fence + " behind " + opcode_at(with.pc) + " and an atomic or store of a flag; " +
           "a load or atomic that sees the flag, and " + fence + ", before " + opcode_at(later.pc) +
           (later.async_proxy ? "; fence.proxy.async.global, too." : ".");
  }

  // Bytes were read before anything had written them; now `writer` does, or nobody ever will.
  [[noreturn]] void report_early(const Shadow& shadow, uint32_t index, const Record& record,
                                 const Later* writer) const {
    const std::string read =
        opcode_at(record.pc) + " reads " + name_of_cell(shadow, index, record.bytes);
    const std::string reader = line_of("earlier: ", role_of(record.agent), does(false), record.pc);
    if (writer == nullptr) {
      report(read + ", which nothing has written.", reader,
             "a write of every byte that is read, of zeros where a matrix ends; or the address is "
             "wrong.");
    }
    Later later{};
    later.by = writer->by;
    later.pc = record.pc;
    if (record.agent < warp_count() * AGENTS_OF_WARP) {
      later.by = &warps_[record.agent / AGENTS_OF_WARP];
    }
    const Record write{writer->agent, writer->clock, writer->pc, 0, 0xff, true};
    report(read + " before " + opcode_at(writer->pc) + " writes it.",
           reader + line_of("later:   ", describe_role(*writer->by->warp), does(true), writer->pc) +
               mbarrier_line(writer->agent),
           remedy_by_kind(later, write, opcode_at(writer->pc)));
  }

  [[noreturn]] void report_mbarrier_overwritten(const Later& later, uint32_t index) const {
    const uint32_t address =
        (later.shadow->cta->rank << RANK_SHIFT) + SMEM_BASE + index * CELL_BYTES;
    const MbarrierState& mbarrier = mbarriers_.at(address);
    report(opcode_at(later.pc) + " writes over the living mbarrier at " + name_of_shared(address) +
               ".",
           line_of("earlier: ", role_of(mbarrier.init.agent), ", which made it by ",
                   mbarrier.init.pc) +
               line_of("later:   ", describe_role(*later.by->warp), does(true), later.pc),
           "mbarrier.inval and a barrier before its bytes hold data; or the data is in the wrong "
           "place.");
  }

  [[noreturn]] void report_init(const Later& later, const MbarrierState& mbarrier) const {
    const Record& init = mbarrier.init;
    const bool ordered = is_ordered(*later.known, GENERIC, init, 0xff, warp_count());
    const bool same_cta = warps_[init.agent / AGENTS_OF_WARP].warp->cta == later.by->warp->cta;
    report(
        opcode_at(later.pc) + " uses the mbarrier at " + name_of_shared(mbarrier.address) +
            (ordered ? ", whose mbarrier.init no fence has made known to the async proxy."
                     : ", whose mbarrier.init is not ordered before that."),
        line_of("earlier: ", role_of(init.agent), ", which made it by ", init.pc) +
            line_of("later:   ", describe_role(*later.by->warp), ", which uses it by ", later.pc),
        std::string(ordered ? "fence.mbarrier_init.release.cluster (or fence.proxy.async) behind "
                              "mbarrier.init, by the thread that executed it"
                            : "fence.mbarrier_init.release.cluster behind mbarrier.init, then ") +
            (ordered    ? ", before the copy is issued."
             : same_cta ? "bar.sync before others use it."
                        : "barrier.cluster.arrive and .wait before other CTAs use it."));
  }

  [[noreturn]] void report_exited(const Later& later, uint32_t address) const {
    report(opcode_at(later.pc) + (later.write ? " writes " : " reads ") + name_of_shared(address) +
               ", but that CTA has exited already: its shared memory may be another's.",
           line_of("later:   ", describe_role(*later.by->warp), does(later.write), later.pc),
           "barrier.cluster.arrive and barrier.cluster.wait by all threads of the cluster before "
           "they exit, or a wait for the copy before the CTA exits.");
  }

  [[noreturn]] void report_exit(const Warp& warp, const Shadow::Visit& visit) const {
    const Record& record = visit.record;
    const bool lands = record.agent >= warp_count() * AGENTS_OF_WARP;
    report("CTA " + text_of(warp.cta->id) + " exits, but " + opcode_at(record.pc) + " to " +
               name_of_shared(visit.address) + " is not known to be over by then.",
           line_of("earlier: ", role_of(record.agent), ", which executes ", record.pc) +
               mbarrier_line(record.agent) + "\n  later:   " + describe_role(warp) +
               ", the last one of its CTA to exit",
           lands ? "an mbarrier wait for the copy before the CTA exits."
                 : "barrier.cluster.arrive and barrier.cluster.wait by all threads of the cluster "
                   "before they exit.");
  }

  [[noreturn]] void report_register(const WarpState& state, uint32_t mask,
                                    const Register& reg) const {
    const uint32_t pc = state.warp->pc();
    report(opcode_at(pc) + (reg.accumulator ? " names an accumulator" : " writes an operand") +
               " of a wgmma.mma_async in flight.",
           line_of("earlier: ", describe_role(*state.warp), ", which started ", reg.pc) +
               "\n  later:   " + describe(*state.warp, mask) + ": " + program_.text(pc) +
               "\n           at " + program_.place(pc),
           "wgmma.wait_group (0, or as many as may stay in flight) between the two, with "
           "wgmma.commit_group before it.");
  }

  [[noreturn]] void report_wgmma_fence(const WarpState& state, const Register& reg) const {
    const uint32_t pc = state.warp->pc();
    report(std::string("wgmma.fence is missing before wgmma.mma_async: ") +
               (state.wgmma_fences == 0 ? "the first one of a warp needs it."
                                        : "an ordinary instruction has touched its registers."),
           (reg.touched == 0 ? ""
                             : line_of("earlier: ", describe_role(*state.warp), ", which executes ",
                                       reg.touched_pc)) +
               line_of("later:   ", describe_role(*state.warp), ", which starts ", pc),
           "wgmma.fence.sync.aligned before wgmma.mma_async, behind what touches its registers.");
  }

  Cluster& cluster_;
  const Program& program_;
  const std::shared_ptr<GlobalShadow> global_;
  const uint32_t id_;             // of the cluster
  std::vector<Shadow> shadows_;   // by rank
  std::vector<WarpState> warps_;  // by Warp::in_cluster
  std::vector<std::array<BarrierState, 16>> barriers_;
  BarrierState cluster_barrier_;
  Knowledge unreleased_;  // by relaxed arrives at the cluster's barrier
  std::unordered_map<uint32_t, MbarrierState> mbarriers_;  // by address
  std::unordered_map<uint32_t, Channel> flags_;  // strong accesses to shared memory, by address
  std::vector<Plane*> suspects_;                 // of the access under way
};

}  // namespace

std::unique_ptr<Checker> make_checker(Cluster& cluster, std::shared_ptr<GlobalShadow> shadow) {
  return std::make_unique<ClusterChecker>(cluster, std::move(shadow));
}

}  // namespace machine
