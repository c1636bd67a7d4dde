#include "common/machine/check/checker.h"

#include <algorithm>
#include <utility>

#include "common/machine/check/race_report.h"
#include "common/machine/check/reports.h"
#include "common/machine/run/allocations.h"
#include "common/machine/run/settings.h"

namespace machine {
namespace {

struct BarrierState {
  Knowledge pending, completed;
  std::vector<uint32_t> pending_lanes, completed_lanes;  // that arrived, by warp of the cluster

  void arrive(const Warp& warp, uint32_t lanes, const Knowledge& what) {
    pending.join(what);
    if (pending_lanes.size() <= warp.in_cluster) pending_lanes.resize(warp.in_cluster + 1);
    pending_lanes[warp.in_cluster] |= lanes;
  }
  void complete() {
    std::swap(pending, completed);
    std::swap(pending_lanes, completed_lanes);
    pending.clear();
    pending_lanes.clear();
  }
};

class ClusterChecker final : public Checker {
 public:
  ClusterChecker(Cluster& cluster, std::shared_ptr<GlobalShadow> global)
      : state_{cluster, *cluster.grid->program, static_cast<uint32_t>(cluster.id), {}, {}, {}},
        report_(state_),
        global_(std::move(global)) {
    looks_for_poison = settings().poison;
    state_.warps.reserve(cluster.ctas.size() * cluster.grid->warps_per_cta);
    for (Cta& cta : cluster.ctas) {
      Shadow& shadow = state_.shadows.emplace_back();
      shadow.cta = &cta;
      shadow.cells.resize((cta.smem_bytes + CELL_BYTES - 1) / CELL_BYTES);
      shadow.uniform.resize(shadow.cells.size() / Plane::BLOCK_CELLS + 1);
      for (Warp& warp : cta.warps) state_.warps.emplace_back(warp);
    }
    barriers_.resize(cluster.ctas.size());
  }

  // ---- Generic accesses ----

  void shared_access(Warp& warp, uint32_t mask, const uint32_t* addresses, uint32_t bytes,
                     Access access, const SameValue* same) override {
    Later later = generic_access(warp, mask, access != Access::read);
    later.strong = access == Access::atomic;
    later.same = same;
    access_shared(later, mask, addresses, bytes);
  }

  void shared_strong(Warp& warp, uint32_t mask, const uint32_t* addresses, uint32_t bytes,
                     Access access, Order order, Scope scope) override {
    Later later = generic_access(warp, mask, access != Access::read);
    later.strong = true;
    access_shared(later, mask, addresses, bytes);
    WarpState& state = state_of(warp);
    for_each_address(mask, addresses, [&](uint32_t address, uint32_t lanes) {
      Channel& flag = flags_[address];
      if (access != Access::write) hear(state, lanes, flag, is_acquire(order), scope);
      if (access == Access::write) flag.parts.clear();
      if (access != Access::read) add_release(state, lanes, &flag, is_release(order), scope);
    });
  }

  void global_access(Warp& warp, uint32_t mask, const uint64_t* addresses, uint32_t bytes,
                     Access access, Order order, Scope scope, const SameValue* same) override {
    Later later = generic_access(warp, mask, access != Access::read);
    later.strong = access == Access::atomic || order != Order::weak;
    check_grids_before(later, addresses[std::countr_zero(mask)]);
    WarpState& by = state_of(warp);
    GlobalAccess as = as_global(later);
    as.as.atomic = access == Access::atomic;
    as.as.narrow = bytes < 4;
    as.same = same;
    if (!by.knows.some_have_met()) as.lanes_met_at = by.knows.lanes_met_at();
    if (auto conflict = global_->access(as, mask, addresses, bytes)) {
      check_conflict(later, as, *conflict);
    }
    if (as.as.atomic && global_->has_suspects()) {
      for_each_address(mask, addresses, [&](uint64_t address, uint32_t) {
        global_->excuse({address / CELL_BYTES, state_.id, as.as.agent});
      });
    }
    if (order == Order::weak) return;
    if (access != Access::write) {
      by.loads.push_back({mask, {}, is_acquire(order), scope});
      std::copy_n(addresses, LANES, by.loads.back().addresses.begin());
    }
    if (access == Access::read) return;
    Channel released;
    add_release(by, mask, &released, is_release(order), scope);
    // Of one lane's counter or flag what it would release: for reports.
    if (!is_release(order) && std::has_single_bit(mask)) {
      released.add(state_.id, warp.cta->rank, Reach::nowhere, by.knows.release(mask));
    }
    if (released.parts.empty()) return;
    for_each_address(mask, addresses,
                     [&](uint64_t address, uint32_t) { global_->release(address, released); });
  }

  // ---- Fences ----

  void fence(Warp& warp, uint32_t mask, Order order, Scope scope) override {
    WarpState& state = state_of(warp);
    if (is_acquire(order)) {
      state.knows.teach(mask, [scope](Knowledge& known) {
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
    state.knows.publish(mask, views);
  }

  void fence_proxy_async(Warp& warp, uint32_t mask, Proxy proxy) override {
    std::vector<View> views;
    if (proxy != Proxy::global) views.push_back(ASYNC_SHARED);
    if (proxy != Proxy::shared) views.push_back(ASYNC_GLOBAL);
    state_of(warp).knows.publish(mask, views);
  }

  void fence_mbarrier_init(Warp& warp, uint32_t mask) override {
    WarpState& state = state_of(warp);
    const uint32_t agent = state.knows.agent(INIT_FENCES);
    const uint32_t clock = ++state.init_fences;
    state.knows.teach(mask, [&](Knowledge& known) {
      for (const View view : {GENERIC, FENCED_CTA, FENCED_CLUSTER, FENCED_GPU}) {
        raise(known.views[view], agent, clock);
      }
    });
    for (auto& [address, mbarrier] : state_.mbarriers) {
      const bool mine = mbarrier.init.agent == state.knows.agent(ALL_LANES) &&
                        (mask >> (mbarrier.init.lanes & (LANES - 1)) & 1);
      if (mbarrier.living && mine && mbarrier.init_fence == 0) mbarrier.init_fence = clock;
    }
  }

  void warp_sync(Warp& warp, uint32_t mask) override { state_of(warp).knows.meet(mask); }

  void never_written(Warp& warp, uint32_t mask, uint64_t address) override {
    report_.never_written(generic_access(warp, mask, false), address);
  }

  void grid_wait(Warp& warp, uint32_t mask) override {
    if (is_programmatic()) state_of(warp).knows.learn(mask, state_.grids_before(), 1);
  }

  // ---- Barriers ----

  void barrier_arrive(Warp& warp, uint32_t mask, uint32_t id) override {
    BarrierState& barrier = barriers_[warp.cta->rank][id];
    barrier.arrive(warp, mask, *state_of(warp).knows.release(mask));
  }
  void barrier_complete(Cta& cta, uint32_t id) override { barriers_[cta.rank][id].complete(); }
  void barrier_wait(Warp& warp, uint32_t mask, uint32_t id) override {
    pass(warp, mask, barriers_[warp.cta->rank][id]);
  }

  void cluster_arrive(Warp& warp, uint32_t mask, bool release) override {
    WarpState& state = state_of(warp);
    const std::shared_ptr<Knowledge> all = state.knows.release(mask);
    cluster_barrier_.arrive(warp, mask, release ? *all : *fenced(*all, FENCED_CLUSTER));
    if (!release) unreleased_.join(*all);
  }
  void cluster_complete() override { cluster_barrier_.complete(); }
  void cluster_wait(Warp& warp, uint32_t mask, bool) override {  // PTX has acquiring ones only
    state_of(warp).unfenced.join(unreleased_);
    pass(warp, mask, cluster_barrier_);
  }

  void exited(Warp& warp, bool last_of_cta) override {
    Shadow& shadow = state_.shadows[warp.cta->rank];
    shadow.at_exit.join(*state_of(warp).knows.release(FULL));
    if (!last_of_cta) return;
    if (!shadow.early.empty()) {
      const auto& [index, record] = *shadow.early.begin();
      report_.early(shadow, index, record, nullptr);
    }
    for (const auto& [agent, visit] : shadow.visits) {
      if (!is_ordered(shadow.at_exit, GENERIC, visit.record, 0xff, state_.warp_count())) {
        report_.exit(warp, visit);
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
    mbarrier_at(address).arriving |= 1ull << warp.in_cluster % 64;
    Channel& pending = mbarrier_at(address).pending;
    add_release(state, mask, &pending, release, scope, scope);
    if (!release) {
      pending.add(state_.id, warp.cta->rank, Reach::nowhere, state.knows.release(mask));
    }
  }

  void mbarrier_use(Warp& warp, uint32_t mask, uint32_t address) override {
    use(warp, mask, address);
    visit(state_of(warp), mask, address);
  }

  void mbarrier_phase_complete(uint32_t address) override {
    MbarrierState& mbarrier = mbarrier_at(address);
    ++mbarrier.phase;
    mbarrier.arrived = std::exchange(mbarrier.arriving, 0);
    mbarrier.completed.join(mbarrier.pending);
    mbarrier.completed.raise(state_.id, address >> RANK_SHIFT, mbarrier.agent, mbarrier.phase);
    mbarrier.pending.parts.clear();
  }

  void mbarrier_wait(Warp& warp, uint32_t mask, uint32_t address, bool acquires,
                     Scope scope) override {
    use(warp, mask, address);
    state_of(warp).waited_for = address;
    hear(state_of(warp), mask, mbarrier_at(address).completed, acquires, scope);
  }

  // ---- Asynchronous copies ----

  uint64_t phase_of(uint32_t mbarrier) const override {
    const auto found = state_.mbarriers.find(mbarrier);
    return found == state_.mbarriers.end() ? 0 : found->second.phase;
  }

  Snapshot snapshot(Warp& warp, uint32_t mask) override {
    return state_of(warp).knows.release(mask);
  }

  void copy_reads_shared(const Copy& copy, Segment segment) override {
    Later later = copy_access(copy, BULK_READS, false);
    access_segment(later, segment);
  }

  void copy_writes_shared(const Copy& copy, Segment segment) override {
    if (copy.mbarrier != 0 && copy.async_proxy) use_by_copy(copy);
    if (copy.mbarrier != 0) tell_of_grids_before(copy);
    Later later = copy_access(copy, CP_ASYNC, true);
    access_segment(later, segment);
  }

  void copy_reads_global(const Copy& copy, uint64_t address, uint64_t bytes) override {
    Later later = copy_access(copy, CP_ASYNC, false);
    check_grids_before(later, address);
    if (auto conflict = global_->access(as_global(later), address, bytes)) {
      report_.global_memory(later, *conflict);
    }
  }

  void copy_writes_global(const Copy& copy, uint64_t address, uint64_t bytes,
                          bool reduces) override {
    Later later = copy_access(copy, BULK_WRITES, true);
    later.strong = reduces;
    check_grids_before(later, address);
    if (auto conflict = global_->access(as_global(later), address, bytes)) {
      report_.global_memory(later, *conflict);
    }
  }

  void cp_async_wait(Warp& warp, uint32_t mask, uint64_t group) override {
    WarpState& state = state_of(warp);
    state.knows.learn(mask, state.knows.agent(CP_ASYNC), group);
  }

  void cp_async_arrive(const Copy& copy, uint32_t mask) override {
    Warp& warp = *copy.warp;
    use(warp, mask, copy.mbarrier);
    mbarrier_at(copy.mbarrier)
        .pending.raise(state_.id, warp.cta->rank, state_of(warp).knows.agent(CP_ASYNC),
                       static_cast<uint32_t>(copy.group));
    tell_of_grids_before(copy);
  }

  void bulk_wait(Warp& warp, uint32_t mask, uint64_t group, bool only_read) override {
    WarpState& state = state_of(warp);
    state.knows.learn(mask, state.knows.agent(BULK_READS), group);
    if (!only_read) state.knows.learn(mask, state.knows.agent(BULK_WRITES), group);
  }

  // ---- wgmma ----

  void wgmma_issue(Warp& warp, const Inst& inst, uint64_t group,
                   const std::vector<Segment>& segments,
                   const WgmmaDescriptors& descriptors) override {
    WarpState& state = state_of(warp);
    state.descriptors[warp.pc()] = descriptors;
    const auto clock = static_cast<uint32_t>(group);
    use_registers(state, inst, clock);
    Later later{&state, &state.knows.of(FULL), warp.pc(), state.knows.agent(WGMMA_READS), clock,
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
    state.knows.meet(FULL);
  }

  // Complete for the whole warpgroup, as on an H200 (tests/golden/recorded/questions.txt).
  void wgmma_wait(Warp& warp, const uint64_t groups[4]) override {
    WarpState& state = state_of(warp);
    const uint32_t first = warp.in_cluster - warp.index % 4;
    for (uint32_t i = 0; i < 4; ++i) {
      state.knows.learn(FULL, (first + i) * AGENTS_OF_WARP + WGMMA_READS, groups[i]);
    }
  }

  void touch_registers(Warp& warp, const Inst& inst, uint32_t mask) override {
    WarpState& state = state_of(warp);
    const uint32_t complete =
        clock_of(state.knows.of_warp().views[GENERIC], state.knows.agent(WGMMA_READS));
    for (uint32_t i = 0; i < inst.slot_count; ++i) {
      if (inst.slots[i].width != Width::w32) continue;
      WgmmaRegister& reg = register_at(state, inst.slots[i].row);
      // What is only an operand of wgmma may be read.
      if (reg.group > complete && (reg.accumulator || i == 0)) {
        report_.registers(state, mask, reg);
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
  // Of a warp that executes something, or a copy of it.
  WarpState& state_of(const Warp& warp) {
    WarpState& state = state_.warps[warp.in_cluster];
    if (!state.loads.empty()) [[unlikely]] {
      for (const Load& load : std::exchange(state.loads, {})) {
        if (!global_->has_released()) continue;
        for_each_address(load.lanes, load.addresses.data(), [&](uint64_t address, uint32_t lanes) {
          hear(state, lanes, global_->released(address), load.acquires, load.scope);
        });
      }
    }
    return state;
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
    const uint32_t rank = state.warp.cta->rank;
    constexpr Reach REACH[] = {Reach::cta, Reach::cluster, Reach::gpu};
    constexpr View VIEW[] = {FENCED_CTA, FENCED_CLUSTER, FENCED_GPU};
    if (release) {
      to->add(state_.id, rank, REACH[static_cast<size_t>(scope)], state.knows.release(lanes));
      return;
    }
    const auto& views = state.knows.of(lanes).views;
    const auto last = static_cast<size_t>(scope);
    for (size_t s = static_cast<size_t>(least); s <= last; ++s) {
      const bool reaches_further = s < last && views[VIEW[s]] == views[VIEW[s + 1]];
      if (views[VIEW[s]].empty() || reaches_further) continue;
      to->add(state_.id, rank, REACH[s], fenced(*state.knows.release(lanes), VIEW[s]));
    }
  }

  // A wait or load has seen what was released there: the lanes learn it if it acquires; else a later
  // fence makes them do so.
  void hear(WarpState& state, uint32_t lanes, const Channel& channel, bool acquires, Scope scope) {
    for (const Channel::Part& part : channel.parts) {
      const bool of_cluster = part.cluster == state_.id;
      // The scope that both sides need.
      Scope least = Scope::gpu;
      if (of_cluster) least = part.rank == state.warp.cta->rank ? Scope::cta : Scope::cluster;
      if (of_cluster) state.knows.hear_own(*part.what);
      if (part.reach == Reach::nowhere) {
        state.unfenced.join(of_cluster ? *part.what : *from_cluster(part.cluster, part.what));
      } else if (scope < least || static_cast<size_t>(part.reach) <= static_cast<size_t>(least)) {
        if (of_cluster) state.unscoped.join(*part.what);
      } else if (of_cluster || is_news(state, lanes, part.what, acquires)) {
        const Snapshot what = of_cluster ? part.what : from_cluster(part.cluster, part.what);
        state.knows.teach(lanes, [&](Knowledge& known) {
          acquires ? known.join(*what) : known.see(static_cast<size_t>(least), what);
        });
      }
    }
  }

  // A poll sees the same again and again.
  static bool is_news(WarpState& state, uint32_t lanes, const std::shared_ptr<Knowledge>& what,
                      bool acquires) {
    const auto found = state.heard.find(what.get());
    if (found != state.heard.end()) {
      Heard& heard = found->second;
      if (heard.acquired == acquires && !(lanes & ~heard.lanes)) return false;
      heard = {lanes, acquires, what};
      return true;
    }
    constexpr size_t REMEMBERED = 1024;
    if (state.heard.size() >= REMEMBERED) state.heard.clear();
    state.heard.emplace(what.get(), Heard{lanes, acquires, what});
    return true;
  }

  // As this cluster knows it: its own clocks, and those of the others by cluster.
  std::shared_ptr<Knowledge> from_cluster(uint64_t cluster, const Snapshot& what) const {
    auto known = std::make_shared<Knowledge>();
    auto others = std::make_shared<Others>();
    if (what->others) {
      *others = *what->others;
      const auto mine = others->find(state_.id);
      if (mine != others->end()) {
        *known = *mine->second;
        others->erase(mine);
      }
    }
    if (knows_grids_before(*what)) machine::raise(known->views[GENERIC], state_.grids_before(), 1);
    auto theirs = std::make_shared<Knowledge>(*what);
    theirs->others.reset();  // which are in `others` now
    theirs->seen.fill(nullptr);
    (*others)[cluster] = theirs;
    known->others = others;
    return known;
  }

  // ---- Programmatic dependent launch -------------------------------------------------------------

  bool is_programmatic() const { return state_.cluster.grid->config.programmatic; }
  bool knows_grids_before(const Knowledge& known) const {
    return clock_of(known.views[GENERIC], state_.grids_before()) != 0;
  }

  // Whoever runs before this grid may still write what it reads, and read what it writes: what is
  // not behind a griddepcontrol.wait is reported, wherever it is, but for constants.
  void check_grids_before(const Later& later, uint64_t address) const {
    if (!is_programmatic() || knows_grids_before(*later.known)) return;
    Allocation at;
    if (find_allocation(address, &at) && at.what.starts_with("constant ")) return;
    report_.grids_before(later, address);
  }

  // A copy whose issuer has waited ends behind the grids before, and so do waits for its mbarrier.
  void tell_of_grids_before(const Copy& copy) {
    if (!is_programmatic() || !knows_grids_before(*copy.issued)) return;
    mbarrier_at(copy.mbarrier)
        .pending.raise(state_.id, copy.mbarrier >> RANK_SHIFT, state_.grids_before(), 1);
  }

  // Calls f(address, lanes) for each address that some of the lanes have.
  template <class T, class F>
  static void for_each_address(uint32_t mask, const T* addresses, F&& f) {
    while (mask != 0) {
      const T address = addresses[std::countr_zero(mask)];
      uint32_t lanes = 0;
      for_lanes(mask,
                [&](uint32_t lane) { lanes |= uint32_t{addresses[lane] == address} << lane; });
      f(address, lanes);
      mask &= ~lanes;
    }
  }

  // Lanes of a warp that have parted may come one by one: they meet all the same.
  void pass(Warp& warp, uint32_t mask, const BarrierState& barrier) {
    WarpKnowledge& knows = state_of(warp).knows;
    knows.learn(mask, barrier.completed);
    knows.meet(mask | barrier.completed_lanes[warp.in_cluster]);
  }

  // ---- Accesses ----------------------------------------------------------------------------------

  Later generic_access(Warp& warp, uint32_t mask, bool write) {
    WarpState& state = state_of(warp);
    state.knows.note_access();
    Later later{
        &state, &state.knows.of(mask), warp.pc(), state.knows.agent(ALL_LANES), state.knows.clock(),
        write};
    later.lanes_met_at = state.knows.lanes_met_at();
    return later;
  }

  // `kind`: of a copy that completes in a group.
  Later copy_access(const Copy& copy, AgentKind kind, bool write) {
    WarpState& state = state_of(*copy.warp);
    Later later{&state, copy.issued.get(), copy.pc, 0, 0, write};
    later.async_proxy = copy.async_proxy;
    if (copy.mbarrier != 0) {
      MbarrierState& mbarrier = mbarrier_at(copy.mbarrier);
      mbarrier.issuer = copy.warp;
      mbarrier.outrun = mbarrier.outrun || copy.phase < mbarrier.phase;
      later.agent = mbarrier.agent;
      later.clock = mbarrier.phase + 1;
    } else {
      later.agent = state.knows.agent(kind);
      later.clock = static_cast<uint32_t>(copy.group);
    }
    return later;
  }

  // A plain load before a loop of atom.cas, as the CUDA C++ Programming Guide has it, may see any
  // value: one that races with atomics is reported only if its warp executes none there itself.
  void check_conflict(const Later& later, const GlobalAccess& access,
                      const GlobalShadow::Conflict& conflict) {
    const GlobalRecord& with = conflict.with;
    const bool reads_atomic = !access.as.write && with.write && with.atomic;
    const bool updates_read = access.as.atomic && !with.write;
    if (!reads_atomic && !updates_read) return report_.global_memory(later, conflict);
    const GlobalRecord& reader = reads_atomic ? access.as : with;
    global_->suspect({conflict.address / CELL_BYTES, reader.cluster, reader.agent},
                     {with.pc, later.pc}, [&] { return report_.text_of_global(later, conflict); });
  }

  GlobalAccess as_global(const Later& later) const {
    GlobalAccess access;
    access.as.cluster = state_.id;
    access.as.clock = later.clock;
    access.as.pc = later.pc;
    access.as.agent = static_cast<uint16_t>(later.agent);
    access.as.strong = later.strong;
    access.as.write = later.write;
    access.known = later.known;
    access.async_proxy = later.async_proxy;
    access.warps = state_.warp_count();
    return access;
  }

  static uint32_t index_of(uint32_t address) {
    return ((address & OFFSET_MASK) - SMEM_BASE) / CELL_BYTES;
  }

  Cell* cell_at(uint32_t address) {
    const uint32_t rank = address >> RANK_SHIFT;
    if (rank >= state_.shadows.size() || index_of(address) >= state_.shadows[rank].cells.size())
      return nullptr;
    return &state_.shadows[rank].cells[index_of(address)];
  }

  MbarrierState& mbarrier_at(uint32_t address) {
    MbarrierState& mbarrier = state_.mbarriers[address];
    if (mbarrier.agent == 0) {
      mbarrier.address = address;
      mbarrier.agent = state_.grids_before() + static_cast<uint32_t>(state_.mbarriers.size());
    }
    return mbarrier;
  }

  // Makes the CTA of the address the one that is accessed; false if there is none.
  bool enter(Later& later, uint32_t address) {
    const uint32_t rank = address >> RANK_SHIFT;
    if (later.shadow != nullptr && later.shadow->cta->rank == rank) return true;
    return rank < state_.shadows.size() && enter_cta(later, address);
  }

  bool enter_cta(Later& later, uint32_t address) {
    Shadow& shadow = state_.shadows[address >> RANK_SHIFT];
    later.shadow = &shadow;
    later.plane = later.write ? nullptr : &shadow.plane(later.agent);
    later.block = ~0u;
    later.good_key = ~0ull;
    later.key = Cell::key_of(later.agent, later.clock);
    later.rest = later.pc | (later.strong ? Cell::STRONG : 0);
    later.read = PackedRead::pack(later.clock, later.pc);
    const bool generic = later.agent == later.by->knows.agent(ALL_LANES);
    later.own_reads = later.write && generic ? shadow.find_plane(later.agent) : nullptr;
    const bool of_peer = later.by->warp.cta != shadow.cta;
    const bool lands = later.write && state_.is_mbarrier(later.agent);
    if (!of_peer && !lands) return true;
    if (shadow.cta->live_threads == 0) report_.exited(later, address);
    const Record record{later.agent, later.clock, later.pc, 0, 0xff, later.write};
    shadow.visits[later.agent] = {record, address};
    return true;
  }

  // An mbarrier of a peer is used.
  void visit(WarpState& state, uint32_t mask, uint32_t address) {
    const uint32_t rank = address >> RANK_SHIFT;
    if (rank == state.warp.cta->rank || rank >= state_.shadows.size()) return;
    const uint32_t agent = state.knows.agent(ALL_LANES);
    const uint32_t lane = last_lane(mask);
    const Record record{agent, state.knows.clock(), state.warp.pc(), lane_pair(lane, lane), 0xff,
                        true};
    state_.shadows[rank].visits[agent] = {record, address};
    state.knows.note_access();
  }

  static uint64_t& good_key_at(WarpState& state, uint64_t key) {
    return state.good_keys[(key ^ key >> 32) % state.good_keys.size()];
  }

  // The view in which an earlier access by the agent must be known.
  View view_of(const Later& later, uint32_t agent) const {
    return later.async_proxy && in_generic_proxy(agent, state_.warp_count()) ? ASYNC_SHARED
                                                                             : GENERIC;
  }

  bool is_before(const Later& later, const Record& record, uint32_t bytes) const {
    const View view = view_of(later, record.agent);
    if (is_ordered(*later.known, view, record, bytes, state_.warp_count())) return true;
    // The generic copies (cp.async) of a warp come behind its own accesses.
    const uint32_t first = later.by->knows.agent(ALL_LANES);
    return view == GENERIC && record.agent == first + ALL_LANES &&
           clock_of(later.known->views[GENERIC], first + SOME_LANES) >= record.clock;
  }

  bool both_reduce(const Later& later, const Record& record) const {
    const auto reduces = [this](uint32_t pc) {
      const std::string opcode = state_.opcode_at(pc);
      return opcode.starts_with("red.async") || opcode.starts_with("cp.reduce");
    };
    return reduces(later.pc) && reduces(record.pc);
  }

  // Whether another lane of the same warp made the earlier access, by another instruction, since the
  // two lanes last met. Of less than 4 bytes the record has not every lane.
  bool is_other_lane(const Later& later, const Record& record, uint32_t bytes,
                     uint32_t lanes) const {
    const WarpKnowledge& knows = later.by->knows;
    if (record.agent != later.agent || record.agent != knows.agent(ALL_LANES)) return false;
    if (record.clock <= later.lanes_met_at || record.pc == later.pc) return false;
    const auto part = [&](uint32_t half, uint32_t shift) {
      const uint32_t before = record.lanes >> shift & (LANES - 1),
                     now = lanes >> shift & (LANES - 1);
      return (bytes & half) != 0 && !knows.have_met(before, now);
    };
    if (!part(0x0f, 0) && !part(0xf0, LANE_BITS)) return false;
    return !is_narrow(record.pc) && !is_narrow(later.pc);
  }

  bool is_narrow(uint32_t pc) const {
    const std::string opcode = state_.opcode_at(pc);
    for (const char* const type : {"8", "16", "f16", "bf16"}) {
      if (opcode.ends_with(std::string(".b") + type) ||
          opcode.ends_with(std::string(".u") + type) ||
          opcode.ends_with(std::string(".s") + type)) {
        return opcode.find(".v") == std::string::npos && !opcode.starts_with("ldmatrix") &&
               !opcode.starts_with("stmatrix");
      }
    }
    return false;
  }

  void check_write_before(Later& later, const Cell& cell, uint32_t index, uint32_t bytes,
                          uint32_t lanes) {
    const Record record = cell.record();
    const Clocks& clocks = later.known->views[view_of(later, record.agent)];
    if (clock_of(clocks, record.agent) >= record.clock) {  // whichever lane it was
      if (record.agent == later.agent && record.clock > later.lanes_met_at &&
          record.agent == later.by->knows.agent(ALL_LANES)) {
        const uint32_t both = record.bytes & bytes;
        if (both != 0 && !cell.strong() && !later.strong &&
            is_other_lane(later, record, both, lanes) && !stores_the_same(later, lanes, both)) {
          report_.lanes(later, record, both, index);
        }
        return;
      }
      if (cell.written() == 0xff || later.write) later.good_key = cell.key;
      WarpState& by = state_.warps[later.by->warp.in_cluster];
      if (cell.written() == 0xff && later.known == &by.knows.of_warp() && !later.async_proxy) {
        good_key_at(by, cell.key) = cell.key;
      }
      return;
    }
    const uint32_t both = record.bytes & bytes;
    if (both == 0 || (cell.strong() && later.strong) || is_before(later, record, both) ||
        both_reduce(later, record) || stores_the_same(later, lanes, both)) {
      return;
    }
    report_.shared(later, record, both, index);
  }

  static bool stores_the_same(const Later& later, uint32_t lanes, uint32_t bytes) {
    const uint32_t lane = bytes & 0x0f ? lanes : lanes >> LANE_BITS;
    return later.same != nullptr && (*later.same)(lane & (LANES - 1));
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
      check_write_before(later, cell, index, bytes, lanes);
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
    if (cell.mbarrier()) report_.mbarrier_overwritten(later, index);
    if (!later.shadow->early.empty()) check_early(later, index, bytes);
    if (index / Plane::BLOCK_CELLS != later.block) find_suspects(later, index);
    for (const Plane* plane : suspects_) {
      const Record read = PackedRead::unpack(plane->agent, plane->reads[index]);
      if (!(read.bytes & bytes) || is_before(later, read, read.bytes & bytes)) continue;
      report_.shared(later, read, read.bytes & bytes, index);
    }
    if (later.own_reads != nullptr && !later.strong &&
        later.own_reads->newest[index / Plane::BLOCK_CELLS] > later.lanes_met_at) {
      const Record read = PackedRead::unpack(later.agent, later.own_reads->reads[index]);
      if ((read.bytes & bytes) && is_other_lane(later, read, read.bytes & bytes, lanes)) {
        report_.lanes(later, read, read.bytes & bytes, index);
      }
    }
    if (cell.key != later.good_key) check_write_before(later, cell, index, bytes, lanes);
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
      report_.early(*later.shadow, index, found->second, &later);
      later.shadow->early.erase(found);
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
    later.lanes = mask;
    later.cells = touched.index;
    for (uint32_t i = 0; i < count; ++i) {
      later.write ? write_lanes(later, mask, touched, i) : read_lanes(later, mask, touched, i);
    }
    later.cells = nullptr;
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
    WarpState& by = state_.warps[later.by->warp.in_cluster];
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
    return is_ordered(known, view, mbarrier.init, 0xff, state_.warp_count()) ||
           (mbarrier.init_fence != 0 &&
            clock_of(known.views[GENERIC], agent) >= mbarrier.init_fence);
  }

  void use(Warp& warp, uint32_t mask, uint32_t address) {
    WarpState& state = state_of(warp);
    const MbarrierState& mbarrier = mbarrier_at(address);
    if (!mbarrier.living || knows_init(state.knows.of(mask), GENERIC, mbarrier)) return;
    Later later{
        &state, &state.knows.of(mask), warp.pc(), state.knows.agent(ALL_LANES), state.knows.clock(),
        true};
    report_.init(later, mbarrier);
  }

  void use_by_copy(const Copy& copy) {
    const MbarrierState& mbarrier = mbarrier_at(copy.mbarrier);
    if (!mbarrier.living || knows_init(*copy.issued, ASYNC_SHARED, mbarrier)) return;
    report_.init(copy_access(copy, CP_ASYNC, true), mbarrier);
  }

  // ---- Registers of wgmma ------------------------------------------------------------------------

  WgmmaRegister& register_at(WarpState& state, uint32_t row) {
    constexpr uint32_t ROW_BYTES = LANES * 4;
    if (state.registers.empty()) state.registers.resize(state_.program.rows_bytes / ROW_BYTES + 1);
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
      WgmmaRegister& reg = register_at(state, inst.slots[i].row);
      if (state.wgmma_fences == 0 || reg.touched > state.wgmma_fences) {
        report_.wgmma_fence(state, reg);
      }
      reg.group = group;
      reg.pc = state.warp.pc();
      reg.accumulator = i < accumulators;
    }
  }

  CheckerState state_;
  const RaceReport report_;
  const std::shared_ptr<GlobalShadow> global_;
  std::vector<std::array<BarrierState, 16>> barriers_;  // by rank and number
  BarrierState cluster_barrier_;
  Knowledge unreleased_;                         // by relaxed arrives at the cluster's barrier
  std::unordered_map<uint32_t, Channel> flags_;  // strong accesses to shared memory, by address
  std::vector<Plane*> suspects_;                 // of the access under way
};

}  // namespace

void report_suspects(GlobalShadow& shadow, const Program& program) {
  for (const auto& [pcs, text] : shadow.suspects()) {
    report_race(*program.kernel, rule::GLOBAL_RACE, pcs.first, pcs.second, [&] { return text; });
  }
}

std::unique_ptr<Checker> make_checker(Cluster& cluster, std::shared_ptr<GlobalShadow> shadow) {
  return std::make_unique<ClusterChecker>(cluster, std::move(shadow));
}

}  // namespace machine
