// Each access against those before it in the shadow of the memory that it touches. It knows nothing of
// how order came about.
#include "common/machine/check/checker.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/machine/check/opcodes.h"

namespace machine {
namespace {

uint64_t cell_of_shared(uint32_t address) {
  return (SHARED_WINDOW | address) / CELL_BYTES;
}

// Whether another lane of the warp made the earlier access by another instruction, since they met.
bool is_other_lane(const Attempt& attempt, const Program& program, const Record& record,
                   uint32_t bytes, uint32_t lanes) {
  const WarpKnowledge& knows = attempt.by->knows;
  if (record.agent != attempt.agent || record.agent != knows.agent(ALL_LANES)) return false;
  if (record.clock <= attempt.lanes_met_at || record.pc == attempt.pc) return false;
  const auto differ = [&](uint32_t of) {
    return any_half(of, [&](uint32_t shift) {
      const uint32_t before = record.lanes >> shift & (LANES - 1);
      return !knows.have_met(before, lanes >> shift & (LANES - 1));
    });
  };
  if (!differ(bytes)) return false;
  return differ(whole_words(bytes)) ||
         (!is_narrow(program.opcode(record.pc)) && !is_narrow(program.opcode(attempt.pc)));
}

// Lanes that poll rely on running together, and cas compares what a lane has loaded before.
bool may_be_by_lanes(const Attempt& attempt, const Program& program, const Record& record) {
  if (!record.strong && !attempt.strong) return false;
  const std::string opcode = program.opcode(record.strong ? record.pc : attempt.pc);
  const bool loads = record.strong ? !attempt.write : !record.write;
  return (record.strong && attempt.strong) || !updates(opcode) ||
         (loads && compares_and_swaps(opcode));
}

bool stores_the_same(const Attempt& attempt, uint32_t lanes, uint32_t bytes) {
  return attempt.store != nullptr && attempt.store->is_same(lane_in(lanes, bytes));
}

// A lane may access what its copies have brought once it has waited: whose they were is not kept.
bool has_waited(const Attempt& attempt, const Record& record, uint32_t lane) {
  const bool of_generic = attempt.agent == attempt.by->knows.agent(ALL_LANES);
  return record.agent == attempt.by->knows.agent(CP_ASYNC) && of_generic &&
         attempt.by->cp_async_waited[lane] >= record.clock;
}

}  // namespace

// ---- Generic accesses ----------------------------------------------------------------------------

void Checker::shared_access(Warp& warp, uint32_t mask, const uint32_t* addresses, uint32_t bytes,
                            Access access, Order order, Scope scope, Store* store) {
  Attempt attempt = generic_access(warp, mask, access != Access::read);
  attempt.strong = order != Order::weak;
  attempt.updates = access == Access::atomic;
  attempt.scope = scope;
  attempt.store = store;
  access_shared(attempt, mask, addresses, bytes);
  if (order == Order::weak) return;
  WarpState& state = state_of(warp);
  if (access == Access::atomic && global_->has_suspects() &&
      compares_and_swaps(state_.opcode_at(attempt.pc))) {
    for_each_address(mask, addresses, [&](uint32_t address, uint32_t) {
      global_->excuse({cell_of_shared(address), state_.id, static_cast<uint16_t>(attempt.agent)});
    });
  }
  for_each_address(mask, addresses, [&](uint32_t address, uint32_t lanes) {
    note_seen(attempt, address, bytes, lanes);
    Channel& flag = flags_[address];
    if (access != Access::write) hear(state, lanes, flag, is_acquire(order), scope);
    if (access == Access::write) flag.parts.clear();
    if (access != Access::read) add_release(state, lanes, &flag, is_release(order), scope);
    // Of one lane's counter or flag what it would release: for reports.
    if (access != Access::read && !is_release(order) && std::has_single_bit(mask)) {
      flag.add(state_.id, warp.cta->rank, NOWHERE, state.knows.release(mask));
    }
    if (access != Access::atomic || std::has_single_bit(lanes)) return;
    // Of lanes that count the last is behind the others. Which one it is is not kept.
    if (is_release(order) && is_acquire(order)) state.knows.meet(lanes);
    hear(state, lanes, flag, is_acquire(order), scope);
  });
  state.knows.settle();
}

void Checker::global_access(Warp& warp, uint32_t mask, const uint64_t* addresses, uint32_t bytes,
                            Access access, Order order, Scope scope, Store* store) {
  const bool plain_read = access == Access::read && order == Order::weak;
  if (plain_read && !is_programmatic() && global_->records_no_read(mask, addresses)) return;
  if (state_of(warp).knows.differs_among(mask)) {
    // What the lanes read is read behind this: another worker may release there until then.
    std::vector<Load> loads;
    for_lanes(mask, [&](uint32_t lane) {
      global_access(warp, 1u << lane, addresses, bytes, access, order, scope, store);
      std::ranges::move(std::exchange(state_.warps[warp.in_cluster].loads, {}),
                        std::back_inserter(loads));
    });
    state_.warps[warp.in_cluster].loads = std::move(loads);
    return;
  }
  Attempt attempt = generic_access(warp, mask, access != Access::read);
  attempt.strong = access == Access::atomic || order != Order::weak;
  attempt.scope = scope;
  if (is_programmatic() && !knows_grids_before(*attempt.known)) {
    for_lanes(mask, [&](uint32_t lane) { check_grids_before(attempt, addresses[lane], bytes); });
  }
  WarpState& by = state_of(warp);
  GlobalAccess as = as_global(attempt);
  as.as.atomic = access == Access::atomic;
  as.as.narrow = bytes < 4;
  as.store = store;
  as.stores_at_once = order == Order::weak;
  if (!by.knows.some_have_met()) as.lanes_met_at = by.knows.lanes_met_at();
  if (auto conflict = global_->access(as, mask, addresses, bytes)) {
    check_conflict(attempt, as, *conflict);
  }
  if (as.as.atomic && global_->has_suspects()) {
    for_each_address(mask, addresses, [&](uint64_t address, uint32_t) {
      global_->excuse({address / CELL_BYTES, state_.id, as.as.agent});
    });
  }
  if (order == Order::weak) return;
  if (access != Access::write) {
    by.loads.push_back({mask, {}, is_acquire(order), scope, bytes, as.as});
    std::copy_n(addresses, LANES, by.loads.back().addresses.begin());
  }
  if (access == Access::read) return;
  const bool stores = access == Access::write, one_lane = std::has_single_bit(mask);
  const bool releases =
      is_release(order) || one_lane || !by.knows.of(mask).views[FENCED_CTA].empty();
  if (!releases && !(stores && global_->has_released())) return;
  for_each_address(mask, addresses, [&](uint64_t address, uint32_t lanes) {
    Channel released;
    add_release(by, lanes, &released, is_release(order), scope);
    // Of one lane's counter or flag what it would release: for reports.
    if (!is_release(order) && one_lane) {
      released.add(state_.id, warp.cta->rank, NOWHERE, by.knows.release(mask));
    }
    global_->release(address, released, {as.as.cluster, as.as.agent}, stores);
  });
}

// ---- Accesses ------------------------------------------------------------------------------------

Attempt Checker::generic_access(Warp& warp, uint32_t mask, bool write) {
  WarpState& state = state_of(warp);
  state.knows.note_access();
  Attempt attempt{{state.knows.agent(ALL_LANES), state.knows.clock(), warp.pc(), 0, 0xff, write},
                  &state,
                  &state.knows.of(mask)};
  attempt.lanes_met_at = state.knows.lanes_met_at();
  return attempt;
}

void Checker::check_conflict(const Attempt& attempt, const GlobalAccess& access,
                             const GlobalShadow::Conflict& conflict) {
  const GlobalRecord& with = conflict.with;
  const bool reads_atomic = !access.as.write && with.write && with.atomic;
  const bool updates_read = access.as.atomic && !with.write;
  if (!reads_atomic && !updates_read) return report_.global_memory(attempt, conflict);
  const GlobalRecord& reader = reads_atomic ? access.as : with;
  global_->suspect({conflict.address / CELL_BYTES, reader.cluster, reader.agent},
                   {with.pc, attempt.pc},
                   [&] { return report_.error_of_global(attempt, conflict); });
}

// A plain load before a loop of atom.cas may race with those of others: what it reads is compared.
void Checker::check_conflict(const Attempt& attempt, const Record& with, uint32_t bytes,
                             uint32_t index) {
  const Record& reader = attempt.write ? with : attempt;
  const Record& writer = attempt.write ? attempt : with;
  const bool is_plain_load = !reader.write && state_.kind_of(reader.agent) == ALL_LANES;
  if (!is_plain_load || !writer.write || !compares_and_swaps(state_.opcode_at(writer.pc))) {
    return report_.shared(attempt, with, bytes, index);
  }
  global_->suspect({cell_of_shared(attempt.shadow->address_of(index)), state_.id,
                    static_cast<uint16_t>(reader.agent)},
                   {with.pc, attempt.pc},
                   [&] { return report_.error_of_shared(attempt, with, bytes, index); });
}

GlobalAccess Checker::as_global(const Attempt& attempt) const {
  GlobalAccess access;
  access.as.cluster = state_.id;
  access.as.clock = attempt.clock;
  access.as.pc = std::min(attempt.pc, GlobalRecord::MAX_PC);
  access.as.agent = static_cast<uint16_t>(attempt.agent);
  if (state_.is_mbarrier(attempt.agent)) access.as.lanes = attempt.by->warp.in_cluster;
  access.as.strong = attempt.strong;
  access.as.scope = attempt.scope;
  access.as.write = attempt.write;
  access.known = attempt.known;
  access.of_generic = attempt.reads_map ? MAPS : attempt.async_proxy ? ASYNC_GLOBAL : GENERIC;
  access.warps = state_.warp_count();
  access.warps_of_cta = state_.cluster.grid->warps_per_cta;
  return access;
}

bool Checker::enter_cta(Attempt& attempt, uint32_t address) {
  Shadow& shadow = state_.shadows[address >> RANK_SHIFT];
  attempt.shadow = &shadow;
  attempt.plane = attempt.write ? nullptr : &shadow.plane(attempt.agent);
  attempt.block = ~0u;
  attempt.known_key = ~0ull;
  attempt.key = Cell::key_of(attempt.agent, attempt.clock);
  attempt.rest = attempt.pc | (attempt.strong ? Cell::STRONG : 0) |
                 uint64_t{static_cast<uint8_t>(attempt.scope)} << Cell::SCOPE_SHIFT;
  attempt.read = PackedRead::pack(attempt.clock, attempt.pc);
  const bool generic = attempt.agent == attempt.by->knows.agent(ALL_LANES);
  const auto own = shadow.planes.find(attempt.agent);
  attempt.own_reads =
      attempt.write && generic && own != shadow.planes.end() ? &own->second : nullptr;
  const bool of_peer = attempt.by->warp.cta != shadow.cta;
  const bool of_bulk_copy =
      state_.is_mbarrier(attempt.agent) || attempt.agent == attempt.by->knows.agent(BULK_READS);
  if (!of_peer && !of_bulk_copy) return true;
  if (shadow.cta->live_threads == 0) report_.exit(shadow, {attempt, address});
  Shadow::Visit& last = shadow.visits[attempt.agent];  // copies may run in any order
  if (last.record.clock <= attempt.clock) last = {attempt, address};
  return true;
}

bool Checker::is_before(const Attempt& attempt, const Record& record, uint32_t bytes) const {
  const View view = view_of(attempt, record.agent);
  if (is_ordered(*attempt.known, view, record, bytes, state_.warp_count())) return true;
  // The generic copies (cp.async) of a warp come behind its own accesses.
  const uint32_t first = attempt.by->knows.agent(ALL_LANES);
  return view == GENERIC && record.agent == first + ALL_LANES &&
         clock_of(attempt.known->views[GENERIC], first + SOME_LANES) >= record.clock;
}

void Checker::check_write_before(Attempt& attempt, const Cell& cell, uint32_t index, uint32_t bytes,
                                 uint32_t lanes) {
  const Record record = cell.record();
  const uint32_t both = record.bytes & bytes;
  const Clocks& clocks = attempt.known->views[view_of(attempt, record.agent)];
  if (clock_of(clocks, record.agent) >= record.clock) {  // whichever lane it was
    if (record.agent == attempt.agent && record.clock > attempt.lanes_met_at &&
        record.agent == attempt.by->knows.agent(ALL_LANES)) {
      if (both != 0 && is_other_lane(attempt, state_.program, record, both, lanes) &&
          !may_be_by_lanes(attempt, state_.program, record) &&
          !stores_the_same(attempt, lanes, both)) {
        report_.lanes(attempt, record, both, index);
      }
      return;
    }
    if (cell.written() == 0xff || attempt.write) attempt.known_key = cell.key;
    WarpState& by = state_.warps[attempt.by->warp.in_cluster];
    if (cell.written() == 0xff && attempt.known == &by.knows.of_warp() && !attempt.async_proxy) {
      known_key_at(by, cell.key) = cell.key;
    }
    return;
  }
  const auto both_strong = [&] {
    if (!cell.strong() || !attempt.strong) return false;
    const bool same_cta = state_.warp_behind(record.agent).cta == attempt.by->warp.cta;
    return std::min(cell.scope(), attempt.scope) >= least_scope(true, same_cta);
  };
  if (both == 0 || both_strong() || is_before(attempt, record, both) ||
      stores_the_same(attempt, lanes, both) || has_waited(attempt, record, lane_in(lanes, both)) ||
      is_waited_for(attempt, record) || has_seen(attempt, record, both, index)) {
    return;
  }
  check_conflict(attempt, record, both, index);
}

void Checker::check_writes_before(Attempt& attempt, uint32_t index, uint32_t bytes,
                                  uint32_t lanes) {
  Cell cell = attempt.shadow->cells[index];
  if ((cell.key & Cell::LEFT) != 0) {
    for (const Cell& left : attempt.shadow->left.at(index)) {
      check_write_before(attempt, left, index, bytes, lanes);
    }
    cell.key &= ~Cell::LEFT;
  }
  check_write_before(attempt, cell, index, bytes, lanes);
}

void Checker::read_cell(Attempt& attempt, uint32_t index, uint32_t bytes, uint32_t lanes) {
  const Cell& cell = attempt.shadow->cells[index];
  if (cell.key != attempt.known_key) [[unlikely]] {
    const uint32_t missing = bytes & ~cell.written();
    if (missing != 0) note_early(attempt, index, missing, lanes);
    check_writes_before(attempt, index, bytes, lanes);
  }
  if (attempt.strong) return;
  uint64_t& read = attempt.plane->reads[index];
  read = PackedRead::add(read, attempt.read, bytes, lanes);
  attempt.plane->note(index / Plane::BLOCK_CELLS, attempt.clock);
}

void Checker::write_cell(Attempt& attempt, uint32_t index, uint32_t bytes, uint32_t lanes) {
  Cell& cell = attempt.shadow->cells[index];
  attempt.shadow->uniform[index / Plane::BLOCK_CELLS] = 0;
  if (cell.mbarrier()) report_.mbarrier_overwritten(attempt, index);
  const uint32_t missing = attempt.updates ? bytes & ~cell.written() : 0;
  if (missing != 0) report_.updated(*attempt.shadow, index, attempt, missing);
  if (!attempt.shadow->early.empty()) check_early(attempt, index, bytes, lanes);
  if (index / Plane::BLOCK_CELLS != attempt.block) find_suspects(attempt, index);
  for (const auto& [agent, plane] : suspects_) {
    const Record read = PackedRead::unpack(agent, plane->reads[index]);
    if (!(read.bytes & bytes) || is_before(attempt, read, read.bytes & bytes)) continue;
    check_read_before(attempt, read, index, bytes, lanes);
  }
  if (attempt.own_reads != nullptr &&
      attempt.own_reads->newest[index / Plane::BLOCK_CELLS] > attempt.lanes_met_at) {
    const Record read = PackedRead::unpack(attempt.agent, attempt.own_reads->reads[index]);
    if ((read.bytes & bytes) &&
        is_other_lane(attempt, state_.program, read, read.bytes & bytes, lanes) &&
        !may_be_by_lanes(attempt, state_.program, read)) {
      report_.lanes(attempt, read, read.bytes & bytes, index);
    }
  }
  // What a warp has read it updates now: others race with that at the most.
  if (attempt.updates && attempt.own_reads != nullptr && attempt.own_reads->reads[index] != 0 &&
      compares_and_swaps(state_.opcode_at(attempt.pc))) {
    attempt.own_reads->reads[index] = 0;
  }
  if (cell.key != attempt.known_key) check_writes_before(attempt, index, bytes, lanes);
  if (bytes == 0xff && !attempt.updates) {
    cell = {attempt.key | Cell::WHOLE, attempt.rest | uint64_t{lanes} << Cell::LANES_SHIFT};
    return;
  }
  // What remains of the writes before: which bytes any of them has touched, and their own that are
  // left; if the last is of this moment, all of it. Atomics leave what gave the place its first
  // value: all of them come behind that.
  const bool is_same =
      ((cell.key ^ attempt.key) & Cell::MOMENT) == 0 && cell.strong() == attempt.strong;
  const bool remains =
      !is_same && ((cell.bytes() & ~bytes) != 0 || (attempt.updates && !cell.strong()));
  uint64_t kept = cell.key & (uint64_t{0xff} << Cell::WRITTEN_SHIFT | Cell::LEFT);
  if (is_same) {
    kept = cell.key & (Cell::WHOLE | Cell::LEFT);
    lanes |=
        static_cast<uint32_t>(cell.rest >> Cell::LANES_SHIFT) & LANE_PAIR_MASK & ~lanes_of(bytes);
  }
  if (remains || (kept & Cell::LEFT) != 0) {
    std::vector<Cell>& left = attempt.shadow->left[index];
    if ((kept & Cell::LEFT) == 0) left.clear();  // what has been overwritten as a whole
    if (remains) left.push_back(cell);
    for (Cell& each : left) {
      const bool stays = attempt.updates && !each.strong();
      each.key &= ~((stays ? 0 : uint64_t{bytes} << Cell::BYTES_SHIFT) | Cell::LEFT);
    }
    std::erase_if(left, [](const Cell& each) { return each.bytes() == 0; });
    kept = left.empty() ? kept & ~Cell::LEFT : kept | Cell::LEFT;
  }
  cell = {attempt.key | kept | uint64_t{bytes} << Cell::BYTES_SHIFT |
              uint64_t{bytes} << Cell::WRITTEN_SHIFT,
          attempt.rest | uint64_t{lanes} << Cell::LANES_SHIFT};
}

void Checker::note_early(const Attempt& attempt, uint32_t index, uint32_t bytes, uint32_t lanes) {
  const Record read{attempt.agent, attempt.clock, attempt.pc, lanes, bytes, false};
  const auto [at, is_first] = attempt.shadow->early.try_emplace(index, Shadow::Early{read});
  if (!is_first) return;
  const uint32_t first = attempt.shadow->address_of(index) + std::countr_zero(bytes);
  for (const WarpState& state : state_.warps) {
    for (const CpAsync& copy : state.cp_async) {
      const bool is_there = std::ranges::any_of(copy.to, [first](const Segment& segment) {
        return first >= segment.address && first - segment.address < segment.bytes;
      });
      const bool lacks_commit = state_.lacks_commit(attempt, copy);
      if (!is_there || !(lacks_commit || copy.in_flight != 0)) continue;
      at->second.copy = copy.record;
      at->second.lacks_commit = lacks_commit;
    }
  }
}

void Checker::check_early(const Attempt& attempt, uint32_t index, uint32_t bytes, uint32_t lanes) {
  const auto found = attempt.shadow->early.find(index);
  if (found == attempt.shadow->early.end()) return;
  const Record& read = found->second.read;
  const uint32_t both = read.bytes & bytes;
  if (both == 0) return;
  // A read that is over has read what nobody wrote, whatever comes behind it.
  const bool is_over =
      is_before(attempt, read, both) && !is_other_lane(attempt, state_.program, read, both, lanes);
  report_.early(*attempt.shadow, index, found->second, is_over ? nullptr : &attempt);
  attempt.shadow->early.erase(found);
}

void Checker::find_suspects(Attempt& attempt, uint32_t index) {
  attempt.block = index / Plane::BLOCK_CELLS;
  suspects_.clear();
  for (const auto& [agent, plane] : attempt.shadow->planes) {
    const Clocks& clocks = attempt.known->views[view_of(attempt, agent)];
    if (clock_of(clocks, agent) < plane.newest[attempt.block]) {
      suspects_.emplace_back(agent, &plane);
    }
  }
}

void Checker::access_shared(Attempt& attempt, uint32_t mask, const uint32_t* addresses,
                            uint32_t bytes) {
  const uint32_t first = addresses[first_lane(mask)];
  uint32_t differs = 0;
  for (uint32_t lane = 0; lane < LANES; ++lane) {
    differs |= mask >> lane & 1 ? addresses[lane] ^ first : 0;
  }
  WarpKnowledge& knows = state_of(attempt.by->warp).knows;
  if (differs >> RANK_SHIFT != 0 || knows.differs_among(mask)) {  // lanes in several CTAs
    for_lanes(mask, [&](uint32_t lane) {
      Attempt of_lane = attempt;
      of_lane.known = &knows.of(1u << lane);
      access_shared(of_lane, 1u << lane, addresses, bytes);
    });
    return;
  }
  if (!enter(attempt, first)) return;
  if (differs == 0) mask = 1u << last_lane(mask);
  const uint32_t size = bytes < CELL_BYTES ? (1u << bytes) - 1 : 0xff;
  const uint32_t count = bytes > CELL_BYTES ? 2 : 1;
  const auto cells = static_cast<uint32_t>(attempt.shadow->cells.size());
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
  attempt.mask = mask;
  attempt.cells = touched.index;
  for (uint32_t i = 0; i < count; ++i) {
    if (!attempt.write) {
      read_lanes(attempt, mask, touched, i);
      continue;
    }
    for_lanes(mask, [&](uint32_t lane) {
      write_cell(attempt, touched.index[lane] + i, touched.bytes[lane], touched.lanes[lane]);
    });
  }
  attempt.cells = nullptr;
}

void Checker::read_lanes(Attempt& attempt, uint32_t mask, const Touched& touched, uint32_t step) {
  const Cell* const cells = attempt.shadow->cells.data() + step;
  uint64_t* const reads = attempt.plane->reads.data() + step;
  uint32_t* const newest = attempt.plane->newest.data();
  const uint64_t read = attempt.read;
  const uint32_t clock = attempt.clock;
  WarpState& by = state_.warps[attempt.by->warp.in_cluster];
  uint64_t known_key = attempt.strong ? ~0ull : attempt.known_key;
  for (; mask != 0; mask &= mask - 1) {
    const uint32_t lane = first_lane(mask);
    const uint32_t index = touched.index[lane];
    const uint64_t key = cells[index].key;
    if (key != known_key && key == known_key_at(by, key) && !attempt.strong) known_key = key;
    if (key != known_key) [[unlikely]] {
      read_cell(attempt, index + step, touched.bytes[lane], touched.lanes[lane]);
      if (!attempt.strong) known_key = attempt.known_key;
      continue;
    }
    reads[index] = PackedRead::add(reads[index], read, touched.bytes[lane], touched.lanes[lane]);
    newest[(index + step) / Plane::BLOCK_CELLS] = clock;
  }
}

void Checker::access_segment(Attempt& attempt, const Segment& segment) {
  if (segment.bytes == 0 || !enter(attempt, segment.address)) return;
  const uint32_t offset = (segment.address & OFFSET_MASK) - SMEM_BASE;
  const auto all = static_cast<uint32_t>(attempt.shadow->cells.size() * CELL_BYTES);
  const uint32_t end = std::min(offset + segment.bytes, all);
  const auto edge = [&](uint32_t index) {
    const uint32_t start = index * CELL_BYTES;
    uint32_t bytes = 0xff;
    if (offset > start) bytes &= 0xff << (offset - start);
    if (end < start + CELL_BYTES) bytes &= 0xff >> (start + CELL_BYTES - end);
    attempt.write ? write_cell(attempt, index, bytes, 0) : read_cell(attempt, index, bytes, 0);
  };
  uint32_t index = offset / CELL_BYTES;
  const uint32_t whole = end / CELL_BYTES;
  if (offset % CELL_BYTES != 0) edge(index++);
  if (index < whole) {
    attempt.write ? write_cells(attempt, index, whole) : read_cells(attempt, index, whole);
    index = whole;
  }
  if (index * CELL_BYTES < end) edge(index);
}

void Checker::write_cells(Attempt& attempt, uint32_t first, uint32_t end) {
  constexpr uint32_t BLOCK = Plane::BLOCK_CELLS;
  Cell* const cells = attempt.shadow->cells.data();
  const Cell made = {attempt.key | Cell::WHOLE, attempt.rest};
  uint64_t known_key = ~0ull;
  for (uint32_t i = first; i < end; ++i) {
    if (cells[i].key != known_key || cells[i].mbarrier() || i % BLOCK == 0) {
      const uint64_t before = attempt.shadow->uniform[i / BLOCK];
      write_cell(attempt, i, 0xff, 0);
      const bool slow = !suspects_.empty() || !attempt.shadow->early.empty();
      known_key = slow ? ~0ull : attempt.known_key;
      if (before != 0 && before == known_key) {  // no mbarrier is in such a block
        const uint32_t stop = std::min(end, (i / BLOCK + 1) * BLOCK);
        std::fill(cells + i + 1, cells + stop, made);
        i = stop - 1;
      }
    } else {
      cells[i] = made;
    }
    const bool whole_block = i % BLOCK == BLOCK - 1 && i - first >= BLOCK - 1;
    if (whole_block) attempt.shadow->uniform[i / BLOCK] = made.key;
  }
}

void Checker::read_cells(Attempt& attempt, uint32_t first, uint32_t end) {
  constexpr uint32_t BLOCK = Plane::BLOCK_CELLS;
  const Cell* const cells = attempt.shadow->cells.data();
  const uint64_t read = PackedRead::add(0, attempt.read, 0xff, 0);
  while (first < end) {
    const uint32_t block = first / BLOCK, stop = std::min(end, (block + 1) * BLOCK);
    if (attempt.shadow->uniform[block] != attempt.known_key) {
      for (uint32_t i = first; i < stop; ++i) {
        if (cells[i].key != attempt.known_key) [[unlikely]]
          read_cell(attempt, i, 0xff, 0);
      }
    }
    uint64_t* const reads = attempt.plane->reads.data();
    for (; first < stop; ++first) reads[first] = read;
    if (block == attempt.block) continue;
    attempt.block = block;
    attempt.plane->note(block, attempt.clock);
  }
}

// `segments`: whole chunks of 16 bytes, in order. Where one write has filled all that lies between the
// first and the last of them, and is known, no cell needs a look.
void Checker::read_operand(Attempt& attempt, std::span<const Segment> segments, bool is_recorded) {
  if (segments.empty()) return;
  constexpr uint32_t BLOCK = Plane::BLOCK_CELLS;
  const auto end_of = [](const Segment& segment) {
    return index_of(segment.address) + segment.bytes / CELL_BYTES;
  };
  const uint32_t first = index_of(segments.front().address), end = end_of(segments.back());
  read_cells(attempt, first, first + 1);
  const auto* const uniform = attempt.shadow->uniform.data();
  bool known = true;
  for (uint32_t block = first / BLOCK; block <= (end - 1) / BLOCK; ++block) {
    known &= uniform[block] == attempt.known_key;
  }
  if (!known) {
    for (const Segment& segment : segments) {
      read_cells(attempt, index_of(segment.address), end_of(segment));
    }
    return;
  }
  if (!is_recorded) return;
  const uint64_t read = PackedRead::add(0, attempt.read, 0xff, 0);
  uint64_t* const reads = attempt.plane->reads.data();
  for (const Segment& segment : segments) {
    std::fill_n(reads + index_of(segment.address), segment.bytes / CELL_BYTES, read);
  }
  for (uint32_t block = first / BLOCK; block <= (end - 1) / BLOCK; ++block) {
    attempt.plane->note(block, attempt.clock);
  }
}

}  // namespace machine
