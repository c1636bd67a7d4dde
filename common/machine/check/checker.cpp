// Who knows what: barriers, mbarriers and fences pass on what happened before. It knows nothing of
// where accesses are kept.
#include "common/machine/check/checker.h"

#include <algorithm>
#include <utility>

#include "common/machine/check/reports.h"
#include "common/machine/run/settings.h"

namespace machine {
namespace {

View fenced_at(Scope scope) {
  return static_cast<View>(FENCED_CTA + static_cast<uint32_t>(scope));
}

// What a relaxed operation releases of it.
std::shared_ptr<Knowledge> fenced(const Knowledge& all, View view) {
  auto part = std::make_shared<Knowledge>(all);
  for (Clocks& clocks : part->views) meet(clocks, all.views[view]);
  // What no fence has acquired: a chain of relaxed operations hands on nothing.
  part->seen.fill(nullptr);
  return part;
}

bool is_news(WarpState& state, const SeenRelease& release, uint32_t lanes, bool acquires) {
  constexpr size_t REMEMBERED = 1024;
  if (state.seen_releases.size() >= REMEMBERED) state.seen_releases.clear();
  const auto [before, is_new] = state.seen_releases.try_emplace(release);
  auto& [of_lanes, acquired] = before->second;
  if (!is_new && acquired == acquires && !(lanes & ~of_lanes)) return false;
  before->second = {lanes, acquires};
  return true;
}

}  // namespace

Checker::Checker(Cluster& cluster, std::shared_ptr<GlobalShadow> global)
    : state_{cluster, *cluster.grid->program, static_cast<uint32_t>(cluster.id), {}, {}, {}},
      report_(state_),
      global_(std::move(global)) {
  looks_for_poison = settings().poison;
  state_.warps.reserve(cluster.ctas.size() * cluster.grid->warps_per_cta);
  for (Cta& cta : cluster.ctas) {
    state_.shadows.emplace_back(cta);
    for (Warp& warp : cta.warps) state_.warps.emplace_back(warp);
  }
  barriers_.resize(cluster.ctas.size());
}

// ---- Fences --------------------------------------------------------------------------------------

void Checker::fence(Warp& warp, uint32_t mask, Order order, Scope scope) {
  WarpState& state = state_of(warp);
  if (is_acquire(order)) {
    state.knows.teach(mask, [scope](Knowledge& known) {
      for (size_t level = 0; level <= static_cast<size_t>(scope); ++level) {
        if (const Snapshot seen = std::exchange(known.seen[level], nullptr)) known.join(*seen);
      }
    });
  }
  if (!is_release(order)) return;
  std::vector<View> views = {FENCED_CTA, FENCED_CLUSTER, FENCED_GPU};
  views.resize(static_cast<size_t>(scope) + 1);
  state.knows.publish(mask, views);
}

void Checker::fence_proxy_async(Warp& warp, uint32_t mask, Proxy proxy) {
  std::vector<View> views;
  if (proxy != Proxy::global) views.push_back(ASYNC_SHARED);
  if (proxy != Proxy::shared) views.push_back(ASYNC_GLOBAL);
  state_of(warp).knows.publish(mask, views);
}

void Checker::fence_tensor_map(Warp& warp, uint32_t mask, Order order) {
  WarpKnowledge& knows = state_of(warp).knows;
  if (is_release(order)) knows.publish(mask, {MAPS_RELEASED});
  if (is_acquire(order))
    knows.teach(mask, [](Knowledge& known) { known.publish(MAPS_RELEASED, MAPS); });
}

void Checker::fence_mbarrier_init(Warp& warp, uint32_t mask) {
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

void Checker::never_written(Warp& warp, uint32_t mask, uint64_t address) {
  report_.never_written(generic_access(warp, mask, false), address);
}

void Checker::grid_wait(Warp& warp, uint32_t mask) {
  if (!is_programmatic()) return;
  state_of(warp).knows.learn(mask, state_.grids_before(), 1);
  global_->has_waited = true;
}

void Checker::grid_lets_next(Warp& warp, uint32_t mask) {
  if (!knows_grids_before(state_of(warp).knows.of(mask))) global_->lets_early = true;
}

// ---- Barriers ------------------------------------------------------------------------------------

void Checker::barrier_arrive(Warp& warp, uint32_t mask, uint32_t id) {
  BarrierState& barrier = barriers_[warp.cta->rank][id];
  if ((entry(barrier.pending_lanes, warp.in_cluster) & mask) != 0) {
    state_.arrived_twice[warp.cta] = {&warp, id};
  }
  barrier.arrive(warp, mask, *state_of(warp).knows.release(mask));
}

void Checker::barrier_wait(Warp& warp, uint32_t mask, uint32_t id) {
  pass(warp, mask, barriers_[warp.cta->rank][id]);
}

void Checker::cluster_arrive(Warp& warp, uint32_t mask, bool release) {
  WarpState& state = state_of(warp);
  const std::shared_ptr<Knowledge> all = state.knows.release(mask);
  cluster_barrier_.arrive(warp, mask, release ? *all : *fenced(*all, FENCED_CLUSTER));
  if (!release) state_.unreleased.join(*all);
}

void Checker::cluster_wait(Warp& warp, uint32_t mask) {
  state_of(warp).unfenced.join(state_.unreleased);
  pass(warp, mask, cluster_barrier_);
}

void Checker::exited(Warp& warp, uint32_t mask, bool last_of_cta) {
  Shadow& shadow = state_.shadows[warp.cta->rank];
  shadow.at_exit.join(*state_of(warp).knows.release(mask));
  if (!last_of_cta) return;
  shadow.last_exit = {state_of(warp).knows.agent(ALL_LANES), 0, warp.pc()};
  if (!shadow.early.empty()) {
    const auto& [index, early] = *shadow.early.begin();
    report_.early(shadow, index, early, nullptr);
  }
  for (const auto& [key, visit] : shadow.visits) {
    if (!is_over(shadow.at_exit, visit)) report_.exit(shadow, visit);
  }
}

std::string Checker::read_early() const {
  for (const Shadow& shadow : state_.shadows) {
    if (shadow.early.empty()) continue;
    const auto& [index, early] = *shadow.early.begin();
    return report_.read_early(shadow, index, early.read);
  }
  return "";
}

// A warp that has waited for each phase in its turn waits for the one behind those.
std::string Checker::comes_late(const Warp& warp, uint32_t mbarrier, uint32_t parity) const {
  const auto found = state_.mbarriers.find(mbarrier);
  if (found == state_.mbarriers.end()) return "";
  const std::vector<Waits>& waits = found->second.waits;
  const uint32_t next = warp.in_cluster < waits.size() ? waits[warp.in_cluster].count : 0;
  if (next >= found->second.phase || (next & 1) != parity) return "";
  return joined("it comes too late. It has waited here ", next, next == 1 ? " time" : " times",
                ", and meanwhile ", found->second.phase,
                " phases are complete: its next one, phase ", next,
                ", is over, and so is the one behind that. Nobody has waited for this warp before "
                "the slot was filled again: an mbarrier on which it arrives, or a barrier, is "
                "missing");
}

// ---- mbarriers -----------------------------------------------------------------------------------

void Checker::mbarrier_init(Warp& warp, uint32_t mask, uint32_t address) {
  Attempt attempt = generic_access(warp, mask, true);
  Cell* const cell = cell_at(address);
  if (cell == nullptr) return;
  cell->rest &= ~Cell::MBARRIER;
  const uint32_t lane = last_lane(mask);
  if (enter(attempt, address)) write_cell(attempt, index_of(address), 0xff, lane_pair(lane, lane));
  cell->rest |= Cell::MBARRIER;
  MbarrierState& mbarrier = mbarrier_at(address);
  // An arrival that no phase has counted is not one of the phases to come.
  for (auto& [key, visit] : state_.shadows[address >> RANK_SHIFT].visits) {
    if (visit.address == address && visit.phase > mbarrier.phase) visit.phase = 0;
  }
  mbarrier.living = true;
  mbarrier.init = cell->record();
  mbarrier.init_fence = 0;
  mbarrier.pending = Channel();
  mbarrier.waits.assign(state_.warps.size(), Waits{mbarrier.phase});
  mbarrier.made_in = mbarrier.phase;
  mbarrier.last_waits.clear();
}

void Checker::mbarrier_inval(Warp& warp, uint32_t mask, uint32_t address) {
  use(warp, mask, address);
  MbarrierState& mbarrier = mbarrier_at(address);
  const Attempt ends = generic_access(warp, mask, true);
  const Clocks& known = ends.known->views[GENERIC];
  for (const auto& [agent, wait] : mbarrier.last_waits) {  // whichever lanes of a warp are known
    const uint32_t clock = std::max(clock_of(known, agent), clock_of(known, agent + SOME_LANES));
    if (agent != ends.agent && clock < wait.clock) report_.inval(ends, wait, mbarrier);
  }
  mbarrier.living = false;
  Cell* const cell = cell_at(address);
  if (cell == nullptr) return;
  cell->rest &= ~Cell::MBARRIER;
  Attempt attempt = generic_access(warp, mask, true);
  const uint32_t lane = last_lane(mask);
  if (enter(attempt, address)) write_cell(attempt, index_of(address), 0xff, lane_pair(lane, lane));
}

void Checker::mbarrier_arrive(Warp& warp, uint32_t mask, uint32_t address, bool release,
                              Scope scope) {
  use(warp, mask, address);
  WarpState& state = state_of(warp);
  MbarrierState& mbarrier = mbarrier_at(address);
  visit(state, mask, address, mbarrier.phase + 1);
  // All who wait are in one CTA: a relaxed arrive is heard by its own, or at its scope.
  const bool own = address >> RANK_SHIFT == warp.cta->rank;
  if (!release && own) scope = Scope::cta;
  mbarrier.arriving |= 1ull << warp.in_cluster % 64;
  add_release(state, mask, &mbarrier.pending, release, scope, scope);
  if (!release) {
    mbarrier.pending.add(state_.id, warp.cta->rank, NOWHERE, state.knows.release(mask));
  }
}

void Checker::mbarrier_use(Warp& warp, uint32_t mask, uint32_t address) {
  use(warp, mask, address);
  note_wait(warp, mask, address);
  visit(state_of(warp), mask, address);
}

void Checker::mbarrier_phase_complete(uint32_t address) {
  MbarrierState& mbarrier = mbarrier_at(address);
  ++mbarrier.phase;
  mbarrier.arrived = std::exchange(mbarrier.arriving, 0);
  mbarrier.completed.join(mbarrier.pending);
  mbarrier.completed.raise(state_.id, address >> RANK_SHIFT, mbarrier.agent, mbarrier.phase);
  mbarrier.pending.parts.clear();
}

void Checker::mbarrier_wait(Warp& warp, uint32_t mask, uint32_t address, bool acquires,
                            Scope scope) {
  use(warp, mask, address);
  note_wait(warp, mask, address);
  state_of(warp).waited_for = address;
  MbarrierState& mbarrier = mbarrier_at(address);
  mbarrier.waited |= 1ull << warp.in_cluster % 64;
  mbarrier.waits.resize(state_.warps.size());
  mbarrier.waits[warp.in_cluster].add(mask, mbarrier.phase, mbarrier.made_in);
  WarpState& state = state_of(warp);
  hear(state, mask, mbarrier.completed, acquires, scope);
  state.knows.settle();
}

// ---- Who knows what ------------------------------------------------------------------------------

WarpState& Checker::state_of(const Warp& warp) {
  WarpState& state = state_.warps[warp.in_cluster];
  if (!state.loads.empty()) [[unlikely]] {
    for (Load& load : std::exchange(state.loads, {})) {
      // An atomic is itself the last write.
      if (!load.as.atomic) {
        for_each_address(load.lanes, load.addresses.data(), [&](uint64_t address, uint32_t lanes) {
          load.as.lanes = lane_pair(first_lane(lanes), first_lane(lanes));
          global_->see(address, load.bytes, load.as);
        });
      }
      if (!global_->has_released()) continue;
      for_each_address(load.lanes, load.addresses.data(), [&](uint64_t address, uint32_t lanes) {
        const Heard heard{global_->released(address), lanes, load.acquires, load.scope};
        // Who polls sees the same again and again.
        if (heard.channel == nullptr || heard == state.heard) return;
        hear(state, lanes, *heard.channel, load.acquires, load.scope);
        state.heard = heard;
      });
    }
    state.knows.settle();
  }
  return state;
}

void Checker::add_release(WarpState& state, uint32_t lanes, Channel* to, bool release, Scope scope,
                          Scope least) {
  const uint32_t rank = state.warp.cta->rank;
  if (release) return to->add(state_.id, rank, scope, state.knows.release(lanes));
  const auto& views = state.knows.of(lanes).views;
  const View last = fenced_at(scope);
  for (View view = fenced_at(least); view <= last; view = static_cast<View>(view + 1)) {
    const bool reaches_further = view < last && views[view] == views[view + 1];
    if (views[view].empty() || reaches_further) continue;
    to->add(state_.id, rank, static_cast<Scope>(view - FENCED_CTA),
            fenced(*state.knows.release(lanes), view));
  }
}

void Checker::hear(WarpState& state, uint32_t lanes, const Channel& channel, bool acquires,
                   Scope scope) {
  const auto learn = [&](const std::shared_ptr<Knowledge>& what, Scope least) {
    state.knows.teach_next(lanes, [&](Knowledge& known) {
      acquires ? known.join(*what) : known.add(known.seen[static_cast<size_t>(least)], what);
    });
  };
  std::shared_ptr<Knowledge> of_others;  // at once, the last first: it may tell of all before it
  const size_t count = channel.parts.size();
  for (size_t i = 0; i < count; ++i) {
    const Channel::Part& part = channel.parts[(i + count - 1) % count];
    const bool of_cluster = part.cluster == state_.id;
    // The scope that both sides need.
    Scope least = Scope::gpu;
    if (of_cluster) least = part.rank == state.warp.cta->rank ? Scope::cta : Scope::cluster;
    if (of_cluster && part.reach) state.knows.hear_own(lanes, *part.what);
    const bool is_missed = scope < least || part.reach < least;
    if (!of_cluster && !is_news(state, {part.what, is_missed}, lanes, acquires)) continue;
    Knowledge& missed = part.reach ? state.unscoped : state.unfenced;
    if (of_cluster) {
      is_missed ? missed.join(*part.what) : learn(part.what, least);
    } else if (is_missed) {
      missed.join_other(part.cluster, part.alone);
    } else {
      if (!of_others) of_others = std::make_shared<Knowledge>();
      join_from_cluster(of_others.get(), part);
    }
  }
  if (!of_others) return;
  state.knows.hear_own(lanes, *of_others);
  learn(of_others, Scope::gpu);
}

void Checker::join_from_cluster(Knowledge* to, const Channel::Part& part) const {
  // Whoever knows of a release has heard with it what was known there.
  if (to->of_cluster(part.cluster, false) == part.alone.get()) return;
  if (const Knowledge* const mine = part.what->of_cluster(state_.id, false)) to->join(*mine);
  to->join_others(part.what->others, state_.id);
  to->join_other(part.cluster, part.alone);
  if (knows_grids_before(*part.what)) {
    machine::raise(to->views[GENERIC], state_.grids_before(), 1);
  }
}

void Checker::note_seen(const Attempt& attempt, uint32_t address, uint32_t bytes, uint32_t lanes) {
  if (bytes > CELL_BYTES) {
    note_seen(attempt, address + CELL_BYTES, bytes - CELL_BYTES, lanes);
    bytes = CELL_BYTES;
  }
  const uint32_t of_cell = ((1u << bytes) - 1) << address % CELL_BYTES;
  if (attempt.write) {
    const auto found = seen_.find(address / CELL_BYTES);
    if (found == seen_.end()) return;
    for (Record& by : found->second) by.bytes &= ~of_cell;
    std::erase_if(found->second, [](const Record& by) { return by.bytes == 0; });
    return;
  }
  const Cell* const cell = cell_at(address);
  if (cell == nullptr || !(cell->strong() || cell->key & Cell::LEFT)) return;
  Record made = attempt;
  made.lanes = lane_pair(first_lane(lanes), first_lane(lanes));
  made.bytes = of_cell;
  std::vector<Record>& all = seen_[address / CELL_BYTES];
  const auto is_there = [&made](const Record& by) {
    return by.agent == made.agent && by.lanes == made.lanes && (made.bytes & ~by.bytes) == 0;
  };
  if (std::ranges::none_of(all, is_there)) all.push_back(made);
}

bool Checker::has_seen(const Attempt& attempt, const Record& write, uint32_t bytes,
                       uint32_t index) const {
  const auto found = seen_.find(attempt.shadow->address_of(index) / CELL_BYTES);
  if (!write.strong || found == seen_.end()) return false;
  for (const Record& by : found->second) {
    if (is_before(attempt, by, by.bytes)) bytes &= ~by.bytes;
  }
  return bytes == 0;
}

// ---- Programmatic dependent launch ---------------------------------------------------------------

void Checker::check_grids_before(const Attempt& attempt, uint64_t address, uint64_t bytes) const {
  if (!is_programmatic() || knows_grids_before(*attempt.known)) return;
  const Footprint* const before = state_.cluster.grid->config.before.get();
  if (before != nullptr && !before->conflict({address, address + bytes, attempt.write})) return;
  Allocation at;
  if (find_allocation(address, &at) && at.what.starts_with("constant ")) return;
  report_.grids_before(attempt, address);
}

void Checker::tell_of_grids_before(const Copy& copy) {
  if (!is_programmatic() || !knows_grids_before(*copy.issued)) return;
  mbarrier_at(copy.mbarrier)
      .pending.raise(state_.id, copy.mbarrier >> RANK_SHIFT, state_.grids_before(), 1);
}

void Checker::pass(Warp& warp, uint32_t mask, BarrierState& barrier) {
  const uint32_t lanes = barrier.take_lanes(warp);
  WarpKnowledge& knows = state_of(warp).knows;
  // Without lanes others have used the barrier since, or lanes of this warp have taught these.
  if (lanes == 0 && knows.of(mask).covers(barrier.completed)) return;
  knows.learn(mask | lanes, barrier.completed);
  if (lanes != 0) knows.meet(mask | lanes);
}

// ---- Accesses ------------------------------------------------------------------------------------

Cell* Checker::cell_at(uint32_t address) {
  const uint32_t rank = address >> RANK_SHIFT;
  if (rank >= state_.shadows.size() || index_of(address) >= state_.shadows[rank].cells.size())
    return nullptr;
  return &state_.shadows[rank].cells[index_of(address)];
}

MbarrierState& Checker::mbarrier_at(uint32_t address) {
  MbarrierState& mbarrier = state_.mbarriers[address];
  if (mbarrier.agent == 0) {
    mbarrier.address = address;
    mbarrier.agent = state_.grids_before() + static_cast<uint32_t>(state_.mbarriers.size());
  }
  return mbarrier;
}

void Checker::visit(WarpState& state, uint32_t mask, uint32_t address, uint32_t phase) {
  const uint32_t rank = address >> RANK_SHIFT;
  if (rank == state.warp.cta->rank || rank >= state_.shadows.size()) return;
  const uint32_t agent = state.knows.agent(ALL_LANES);
  const uint32_t lane = last_lane(mask);
  const Record record{agent, state.knows.clock(), state.warp.pc(), lane_pair(lane, lane), 0xff,
                      true};
  const uint64_t mbarrier = phase > 0 ? address : 0;
  state_.shadows[rank].visits[mbarrier << 32 | agent] = {record, address, phase};
  state.knows.note_access();
}

bool Checker::is_over(const Knowledge& known, const Shadow::Visit& visit) const {
  if (is_ordered(known, GENERIC, visit.record, 0xff, state_.warp_count())) return true;
  if (visit.phase == 0) return false;
  const uint32_t agent = state_.mbarriers.at(visit.address).agent;
  const auto has_seen = [&](const Knowledge& of) {
    return clock_of(of.views[GENERIC], agent) >= visit.phase;
  };
  return has_seen(known) || std::ranges::any_of(known.seen, [&](const Snapshot& relaxed) {
           return relaxed && has_seen(*relaxed);
         });
}

// ---- mbarriers -----------------------------------------------------------------------------------

bool Checker::knows_init(const Knowledge& known, View view, const MbarrierState& mbarrier) const {
  const uint32_t agent = mbarrier.init.agent + INIT_FENCES - ALL_LANES;
  return is_ordered(known, view, mbarrier.init, 0xff, state_.warp_count()) ||
         (mbarrier.init_fence != 0 && clock_of(known.views[GENERIC], agent) >= mbarrier.init_fence);
}

void Checker::use(Warp& warp, uint32_t mask, uint32_t address) {
  const MbarrierState& mbarrier = mbarrier_at(address);
  const Record& init = mbarrier.init;
  WarpKnowledge& knows = state_of(warp).knows;
  if (!mbarrier.living) return;
  bool by_other_lane = false;
  if (init.agent == knows.agent(ALL_LANES) && init.clock > knows.lanes_met_at()) {
    for_lanes(mask,
              [&](uint32_t lane) { by_other_lane |= !knows.have_met(init.lanes % LANES, lane); });
  }
  if (!by_other_lane && knows_init(knows.of(mask), GENERIC, mbarrier)) return;
  report_.init(generic_access(warp, mask, true), mbarrier);
}

void Checker::note_wait(Warp& warp, uint32_t mask, uint32_t address) {
  const Attempt wait = generic_access(warp, mask, false);
  mbarrier_at(address).last_waits[wait.agent] = wait;
}

void Checker::use_by_copy(const Copy& copy) {
  const MbarrierState& mbarrier = mbarrier_at(copy.mbarrier);
  const View view = copy.async_proxy ? ASYNC_SHARED : GENERIC;  // GENERIC: st.async
  if (!mbarrier.living || knows_init(*copy.issued, view, mbarrier)) return;
  report_.init(copy_access(copy, CP_ASYNC, true), mbarrier);
}

void report_suspects(GlobalShadow& shadow, const Program& program) {
  for (const auto& [pcs, report] : shadow.suspects()) {
    report_once(program.kernel->name, report.rule, pcs.first, pcs.second, [&] { return report; });
  }
}

}  // namespace machine
