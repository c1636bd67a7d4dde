// What copies in flight and wgmma access, and when they are known to be over; registers of wgmma.
#include "common/machine/check/checker.h"

#include <algorithm>
#include <ranges>

#include "common/machine/ops/tensor_map.h"
#include "common/machine/run/allocations.h"
#include "common/machine/run/settings.h"

namespace machine {

// ---- Asynchronous copies -------------------------------------------------------------------------

uint64_t Checker::phase_of(uint32_t mbarrier) const {
  const auto found = state_.mbarriers.find(mbarrier);
  return found == state_.mbarriers.end() ? 0 : found->second.phase;
}

void Checker::copy_reads_shared(const Copy& copy, Segment segment) {
  Attempt attempt = copy_access(copy, BULK_READS, false);
  access_segment(attempt, segment);
}

void Checker::copy_writes_shared(const Copy& copy, Segment segment, bool reduces) {
  if (copy.mbarrier != 0) {
    use_by_copy(copy);
    tell_of_grids_before(copy);
  }
  Attempt attempt = copy_access(copy, CP_ASYNC, true);
  attempt.strong = reduces;
  undefined_.reset();
  access_segment(attempt, segment);
  if (undefined_) {
    check_conflict(attempt, undefined_->read, undefined_->bytes, undefined_->index);
  }
  if (copy.mbarrier == 0) return;
  constexpr size_t REMEMBERED = 64;
  std::deque<BulkCopy>& copies = mbarrier_at(copy.mbarrier).copies;
  copies.push_back({attempt.clock, copy.warp, segment});
  if (copies.size() > REMEMBERED) copies.pop_front();
}

void Checker::copy_reads_global(const Copy& copy, const std::vector<Run>& runs) {
  const Attempt attempt = copy_access(copy, CP_ASYNC, false);
  for (const Run& run : runs) check_grids_before(attempt, run.address, run.bytes);
  access_global(attempt, runs);
}

void Checker::copy_reads_map(const Copy& copy, uint64_t address) {
  Attempt attempt = copy_access(copy, BULK_READS, false);
  attempt.reads_map = true;
  const Run map = {address, TENSOR_MAP_BYTES};
  access_global(attempt, {&map, 1});
}

void Checker::copy_writes_global(const Copy& copy, const std::vector<Run>& runs, bool reduces) {
  Attempt attempt = copy_access(copy, BULK_WRITES, true);
  attempt.strong = reduces;
  for (const Run& run : runs) check_grids_before(attempt, run.address, run.bytes);
  access_global(attempt, runs);
}

void Checker::access_global(const Attempt& attempt, std::span<const Run> runs) {
  while (const auto conflict = global_->access(as_global(attempt), runs)) {
    report_.global_memory(attempt, *conflict);
  }
}

void Checker::cp_async_issued(const Copy& copy, uint32_t mask, std::vector<Segment> to) {
  constexpr size_t REMEMBERED = 256;
  WarpState& state = state_of(*copy.warp);
  const Attempt attempt = copy_access(copy, CP_ASYNC, true);
  const uint32_t issued = clock_of(copy.issued->views[GENERIC], state.knows.agent(SOME_LANES));
  state.cp_async.push_back({attempt, mask, issued, mask, 0, 0, false, std::move(to)});
  if (state.cp_async.size() > REMEMBERED) state.cp_async.pop_front();
}

void Checker::cp_async_committed(Warp& warp, uint32_t mask) {
  WarpState& state = state_of(warp);
  state.knows.note_access();  // so that who is told of it is told of a later clock
  for (CpAsync& copy : state.cp_async | std::views::reverse) {
    if (!(copy.lanes & mask)) continue;
    if (copy.committed != 0) break;  // by the commit before, as were those in front of it
    copy.committed = state.knows.clock();
  }
}

void Checker::cp_async_closed(Warp& warp, uint32_t mask) {
  for (CpAsync& copy : state_of(warp).cp_async) {
    copy.arrives |= copy.committed == 0 && (copy.lanes & mask) != 0;
  }
  cp_async_committed(warp, mask);
}

// Groups are a lane's. One clock stands for those of all lanes, so that it has only what each of them
// has waited for; of lanes that have parted is_waited_for() knows more.
void Checker::cp_async_wait(Warp& warp, uint32_t mask, uint64_t group, uint64_t by_all) {
  WarpState& state = state_of(warp);
  const auto clock = static_cast<uint32_t>(group);
  for_lanes(mask, [&](uint32_t lane) {
    state.cp_async_waited[lane] = std::max(state.cp_async_waited[lane], clock);
  });
  state.knows.note_access();  // as above
  for (CpAsync& copy : state.cp_async | std::views::reverse) {
    if (copy.record.clock > clock || !(copy.lanes & mask)) continue;
    if (!(copy.in_flight & mask)) break;  // waited for before, as were those in front of it
    copy.in_flight &= ~mask;
    if (copy.in_flight == 0) copy.waited = state.knows.clock();
  }
  if (by_all < group) state.cp_async_in_part = std::max(state.cp_async_in_part, clock);
  const uint32_t newest =
      *std::max_element(state.cp_async_waited.begin(), state.cp_async_waited.end());
  state.knows.learn(mask, state.knows.agent(CP_ASYNC), std::min<uint64_t>(by_all, newest));
}

void Checker::cp_async_arrive(const Copy& copy, uint32_t mask) {
  Warp& warp = *copy.warp;
  use(warp, mask, copy.mbarrier);
  WarpState& state = state_of(warp);
  const auto clock = static_cast<uint32_t>(copy.group);
  if (copy.of_some_lanes) {
    state.cp_async_in_part = std::max(state.cp_async_in_part, clock);
  } else {
    mbarrier_at(copy.mbarrier)
        .pending.raise(state_.id, warp.cta->rank, state.knows.agent(CP_ASYNC), clock);
  }
  tell_of_grids_before(copy);
}

void Checker::bulk_wait(Warp& warp, uint32_t mask, uint64_t group, bool only_read) {
  WarpState& state = state_of(warp);
  state.knows.learn(mask, state.knows.agent(BULK_READS), group);
  if (!only_read) state.knows.learn(mask, state.knows.agent(BULK_WRITES), group);
}

// ---- wgmma ---------------------------------------------------------------------------------------

template <class T>
static void remember(std::deque<T>& last, const T& one) {
  constexpr size_t REMEMBERED = 64;
  last.push_back(one);
  if (last.size() > REMEMBERED) last.pop_front();
}

void Checker::wgmma_issue(Warp& warp, const Inst& inst, uint64_t group, const WgmmaReads& reads,
                          const WgmmaDescriptors& descriptors) {
  WarpState& state = state_of(warp);
  state.descriptors[warp.pc()] = descriptors;
  const auto clock = static_cast<uint32_t>(group);
  if (state.fences_of_group.empty() || state.fences_of_group.back().first != group) {
    remember(state.fences_of_group, {group, state.wgmma_fences});
  }
  use_registers(state, inst, clock, reads.adds);
  Attempt attempt{
      {state.knows.agent(WGMMA_READS), clock, warp.pc(), 0, 0xff}, &state, &state.knows.of(FULL)};
  attempt.async_proxy = true;
  if (!enter(attempt, warp.cta->rank << RANK_SHIFT)) return;
  // The four warps of a warpgroup read the same B, together: one of them stands for all.
  read_operand(attempt, reads.a, true);
  read_operand(attempt, reads.b, warp.index % 4 == 0);
}

// Registers that were loaded before it have been: the lanes' earlier accesses are over.
void Checker::wgmma_fence(Warp& warp, uint32_t) {
  WarpState& state = state_of(warp);
  ++state.wgmma_fences;
  remember(state.fenced_at, state.knows.clock());
  state.knows.meet(FULL);
}

// Complete for the whole warpgroup, as on an H200 (tests/golden/answers.md, 1 and 14).
void Checker::wgmma_wait(Warp& warp, const uint64_t groups[4]) {
  WarpState& state = state_of(warp);
  const uint32_t first = warp.in_cluster - warp.index % 4;
  state.wgmma_waited = std::max(state.wgmma_waited, groups[warp.index % 4]);
  for (uint32_t i = 0; i < 4; ++i) {
    state.knows.learn(FULL, (first + i) * AGENTS_OF_WARP + WGMMA_READS, groups[i]);
  }
}

void Checker::touch_registers(Warp& warp, const Inst& inst, uint32_t mask) {
  WarpState& state = state_of(warp);
  WgmmaRegister* const registers = registers_of(state);
  for (uint32_t i = 0; i < inst.slot_count; ++i) {
    if (inst.slots[i].width != Width::w32) continue;
    WgmmaRegister& reg = registers[inst.slots[i].row / ROW_BYTES];
    // What is only an operand of wgmma may be read.
    if (reg.group > state.wgmma_waited && (reg.accumulator || i == 0)) {
      report_.registers(state, mask, reg);
    }
    reg.touched = state.wgmma_fences + 1;
    reg.touched_pc = warp.pc();
  }
}

// ---- Accesses ------------------------------------------------------------------------------------

Attempt Checker::copy_access(const Copy& copy, AgentKind kind, bool write) {
  WarpState& state = state_of(*copy.warp);
  Attempt attempt{{0, 0, copy.pc, 0, 0xff, write}, &state, copy.issued.get()};
  attempt.async_proxy = copy.async_proxy;
  attempt.mask = copy.lanes;
  if (copy.mbarrier != 0) {
    MbarrierState& mbarrier = mbarrier_at(copy.mbarrier);
    mbarrier.issuer = copy.warp;
    mbarrier.outrun = mbarrier.outrun || copy.phase < mbarrier.phase;
    attempt.agent = mbarrier.agent;
    attempt.clock = mbarrier.phase + 1;
  } else {
    attempt.agent = state.knows.agent(kind);
    attempt.clock = static_cast<uint32_t>(copy.group);
  }
  return attempt;
}

// A cp.async that each of its lanes has waited for, though others have older ones in flight.
bool Checker::is_waited_for(const Attempt& attempt, const Record& record) const {
  if (state_.kind_of(record.agent) != CP_ASYNC) return false;
  const WarpState& owner = state_.warp_of(record.agent);
  const CpAsync* const copy = state_.cp_async_of(record);
  if (copy == nullptr) return false;
  // Lanes overwrite by a copy what they have waited for, maybe before others have.
  if (record.agent == attempt.agent && (copy->lanes & attempt.mask) != 0) {
    return !(copy->in_flight & attempt.mask);
  }
  if (copy->waited == 0) return false;
  if (&owner == attempt.by && !attempt.async_proxy) return attempt.lanes_met_at >= copy->waited;
  const Clocks& clocks = attempt.known->views[view_of(attempt, record.agent)];
  return std::max(clock_of(clocks, owner.knows.agent(ALL_LANES)),
                  clock_of(clocks, owner.knows.agent(SOME_LANES))) >= copy->waited;
}

// What was both written and read without a proxy fence is a race by what was written. Of one report
// that is all, what only PTX calls undefined comes last: another warp's read may be a race.
void Checker::check_read_before(Attempt& attempt, const Record& read, uint32_t index,
                                uint32_t bytes, uint32_t lanes) {
  const uint32_t both = read.bytes & bytes;
  const Rule& rule = report_.shared_rule(attempt, read, both);
  if (rule == rule::PROXY_WAR && report_.shared_rule(attempt, attempt.shadow->cells[index].record(),
                                                     bytes) == rule::PROXY_WAW) {
    check_writes_before(attempt, index, bytes, lanes);
  }
  if (rule == rule::PROXY_WAR && !settings().all_reports) {
    if (!undefined_) undefined_ = Undefined{read, both, index};
    return;
  }
  check_conflict(attempt, read, both, index);
}

// ---- Registers of wgmma --------------------------------------------------------------------------

WgmmaRegister* Checker::registers_of(WarpState& state) {
  if (state.registers.empty()) state.registers.resize(state_.program.rows_bytes / ROW_BYTES + 1);
  return state.registers.data();
}

void Checker::use_registers(WarpState& state, const Inst& inst, uint32_t group, bool adds) {
  uint32_t count = 0;
  while (count < inst.slot_count && inst.slots[count].width == Width::w32) ++count;
  const bool a_in_memory = count + 1 < inst.slot_count && inst.slots[count + 1].width == Width::w64;
  constexpr uint32_t REGISTERS_OF_A = 4;
  const uint32_t accumulators = a_in_memory ? count : count - REGISTERS_OF_A;
  WgmmaRegister* const registers = registers_of(state);
  for (uint32_t i = 0; i < count; ++i) {
    WgmmaRegister& reg = registers[inst.slots[i].row / ROW_BYTES];
    if (adds && i < accumulators && reg.group == 0 && reg.touched == 0) {
      report_.empty_accumulator(state);
    }
    if (state.wgmma_fences == 0 || reg.touched > state.wgmma_fences) {
      report_.wgmma_fence(state, reg);
    }
    reg.group = group;
    reg.pc = state.warp.pc();
    reg.accumulator = i < accumulators;
  }
}

}  // namespace machine
