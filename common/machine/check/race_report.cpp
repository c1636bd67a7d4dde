// The sentences of the checker, but for what would order two accesses (remedies.cpp). It decides
// nothing: that two accesses conflict is known before.
#include "common/machine/check/race_report.h"

#include <algorithm>
#include <bit>

#include "common/machine/check/reports.h"
#include "common/machine/ops/mbarrier.h"
#include "common/machine/ops/operands.h"
#include "common/machine/run/allocations.h"
#include "common/machine/run/cluster.h"
#include "common/machine/run/error.h"

namespace machine {
namespace {

// A wait for another slot's copy would put the two in order, and leave the result wrong.
const std::string STAY_IN_SLOT =
    "nothing should: they are of two slots. Mend the start, LBO or SBO of the descriptor, or "
    "imm-trans (docs/descriptors.md).";

const std::string PLACES =
    "nothing: both complete in one phase of one mbarrier, and who waits for it finds what came "
    "last. Each copy of a phase needs a place of its own: the destination leaves out a slice or "
    "the CTA, or more warps issue the copy than should.";

const std::string NEVER_WRITTEN = ", which nothing has written.";
const std::string BY_LANES = " They are by different lanes of one warp.";
constexpr char APART[] =
    " Lanes of a warp need not run together, and shuffles and votes order no memory.";
constexpr char BUT_WGMMA_FENCE[] =
    " but wgmma.fence, at which the warps of a warpgroup meet on an H200, though not by PTX";
constexpr char MADE_IT[] = ", which made it by ";

const char* does(bool write) {
  return write ? ", which writes it by " : ", which reads it by ";
}

std::string what_of_pair(const Attempt& attempt, bool earlier_write, const std::string& where,
                         const char* for_whom = "") {
  const char* const does = attempt.write       ? "{later_op} writes "
                           : attempt.reads_map ? "{later_op} reads its tensor map, "
                                               : "{later_op} reads ";
  return joined(does, where,
                earlier_write ? ", which {earlier_op} has written, and nothing orders the two"
                              : ", which {earlier_op} reads, maybe later: nothing orders them",
                for_whom, ".");
}

// Of an access through the async proxy, behind one through the generic proxy that is ordered before
// it, but not for that proxy.
const Rule& proxy_rule(const Attempt& attempt, bool earlier_write) {
  if (!attempt.write) return rule::PROXY_RAW;
  return earlier_write ? rule::PROXY_WAW : rule::PROXY_WAR;
}

// Copies to the CTA that have yet to land: one of them may be to bring what is read.
std::string copies_to_come(const CheckerState& state, const Cta& cta) {
  uint32_t address = UINT32_MAX;
  for (const auto& [at, mbarrier] : state.cluster.mbarriers) {
    const bool is_open = at >> RANK_SHIFT == cta.rank && bytes_to_come(mbarrier) > 0;
    if (is_open) address = std::min(address, at);
  }
  if (address == UINT32_MAX) return "";
  return joined(" If a copy is to bring it: on the mbarrier at shared ", hex(address), " ",
                bytes_to_come(state.cluster.mbarriers.at(address)),
                " bytes are still to come, and mbarrier.try_wait there has to return first.");
}

}  // namespace

// ---- How a report is put together ---------------------------------------------------------------

std::string RaceReport::Said::filled(std::string text) const {
  const std::pair<std::string_view, const std::string&> words[] = {{"{earlier}", earlier.role},
                                                                   {"{earlier_op}", earlier.op},
                                                                   {"{later}", later.role},
                                                                   {"{later_op}", later.op}};
  for (const auto& [name, word] : words) {
    for (size_t at; (at = text.find(name)) != text.npos;) text.replace(at, name.size(), word);
  }
  return text;
}

std::string RaceReport::line_of(const char* name, const Side& side) const {
  return joined("\n  ", name, side.role, side.does, side.op,
                state_.program.where(side.pc, "\n           "));
}

Error RaceReport::error(const Warp& warp, const Rule& rule, uint32_t pc, uint32_t other_pc,
                        const Said& said) const {
  const bool unwritten = rule == rule::NEVER_WRITTEN, alone = said.earlier.role.empty();
  const std::string text = joined(
      unwritten                         ? "Unwritten"
      : rule.severity == Severity::race ? "Race"
                                        : "Undefined",
      " in kernel ", source_name(state_.cluster.grid->kernel->name), ": ", said.filled(said.what),
      alone ? "" : line_of("earlier: ", said.earlier),
      line_of(alone ? "access:  " : "later:   ", said.later), said.filled(said.more_lines),
      unwritten ? "\n  What is missing: " : "\n  What would order them: ", said.filled(said.remedy),
      report_end(state_.program, rule));
  return Error(Error::Kind::race, text, rule, origin_of(warp, pc, other_pc));
}

void RaceReport::report(const Warp& warp, const Rule& rule, uint32_t pc, uint32_t other_pc,
                        const std::function<Said()>& say) const {
  report_once(state_.cluster.grid->kernel->name, rule, pc, other_pc,
              [&] { return error(warp, rule, pc, other_pc, say()); });
}

std::string RaceReport::name_of_shared(uint32_t address) const {
  const Cta& cta = state_.cluster.ctas[address >> RANK_SHIFT];
  return joined("shared ", hex(address), " (byte ", (address & OFFSET_MASK) - SMEM_BASE,
                " of CTA (", text_of(cta.id), ")'s shared memory)");
}

std::string RaceReport::name_of_cell(const Shadow& shadow, uint32_t index, uint32_t bytes) const {
  return name_of_shared(shadow.address_of(index) + static_cast<uint32_t>(std::countr_zero(bytes)));
}

std::string name_of_global(uint64_t address) {
  Allocation allocation;
  const std::string name = "global " + hex(address);
  if (!find_allocation(address, &allocation)) return name;
  return joined(name, " (byte ", address - allocation.base, " of the ", allocation.bytes, " of ",
                allocation.what, ")");
}

RaceReport::Side RaceReport::side_of(const Warp& warp, const char* does, uint32_t pc) const {
  return {describe_role(warp), does, state_.opcode_at(pc), pc};
}

RaceReport::Side RaceReport::side_of(const Attempt& attempt) const {
  return side_of(attempt.by->warp, does(attempt.write), attempt.pc);
}

RaceReport::Side RaceReport::side_of(const Record& record) const {
  return side_of(state_.warp_behind(record.agent), does(record.write), record.pc);
}

RaceReport::Side RaceReport::side_of(const Record& record, uint32_t address) const {
  return side_of(state_.warp_behind(record, address), does(record.write), record.pc);
}

RaceReport::Side RaceReport::side_in(uint32_t cluster, const Record& record) const {
  const Grid& grid = *state_.cluster.grid;
  const uint32_t warp =
      state_.is_mbarrier(record.agent) ? record.lanes : record.agent / AGENTS_OF_WARP;
  if (cluster == state_.id && warp < state_.warps.size()) {
    return side_of(state_.warps[warp].warp, does(record.write), record.pc);
  }
  const uint32_t warps = grid.warps_per_cta;
  const std::string role =
      joined("warp ", warp % warps, " of CTA (", text_of(cta_at(grid, cluster, warp / warps)), ")");
  return {role, does(record.write), state_.opcode_at(record.pc), record.pc};
}

std::string RaceReport::mbarrier_line(uint32_t agent) const {
  const MbarrierState* const mbarrier = state_.mbarrier_of(agent);
  if (mbarrier == nullptr) return "";
  return joined("\n  mbarrier: that copy completes on the one at ",
                name_of_shared(mbarrier->address), ", of which ", mbarrier->phase,
                mbarrier->phase == 1 ? " phase is" : " phases are", " complete");
}

// ---- Shared memory ------------------------------------------------------------------------------

const Rule& RaceReport::shared_rule(const Attempt& attempt, const Record& record,
                                    uint32_t bytes) const {
  const uint32_t warps = state_.warp_count();
  const bool proxies = attempt.async_proxy && in_generic_proxy(record.agent, warps) &&
                       is_ordered(*attempt.known, GENERIC, record, bytes, warps);
  if (proxies) return proxy_rule(attempt, record.write);
  return state_.are_apart_by_wgmma_fence(attempt, record) ? rule::WARPGROUP_RACE
                                                          : rule::SHARED_RACE;
}

void RaceReport::shared(const Attempt& attempt, const Record& record, uint32_t bytes,
                        uint32_t index) const {
  report_once(state_.cluster.grid->kernel->name, shared_rule(attempt, record, bytes), attempt.pc,
              record.pc, [&] { return error_of_shared(attempt, record, bytes, index); });
}

Error RaceReport::error_of_shared(const Attempt& attempt, const Record& record, uint32_t bytes,
                                  uint32_t index) const {
  const Rule& rule = shared_rule(attempt, record, bytes);
  const std::string slot = attempt.write ? ""
                                         : slot_that_is_left(*attempt.by, attempt.pc,
                                                             *attempt.shadow, index, record.agent);
  const std::string where = name_of_cell(*attempt.shadow, index, bytes);
  const char* const for_whom = rule == rule::SHARED_RACE      ? ""
                               : rule == rule::WARPGROUP_RACE ? BUT_WGMMA_FENCE
                                                              : " for the async proxy";
  const uint32_t address = attempt.shadow->address_of(index);
  // Two warps' copies of one phase: neither waits for the other.
  const bool same_phase = attempt.write && record.write && state_.is_mbarrier(record.agent) &&
                          attempt.agent == record.agent && attempt.clock == record.clock &&
                          &state_.warp_behind(record, address) != &attempt.by->warp;
  return error(attempt.by->warp, rule, attempt.pc, record.pc,
               {side_of(record, address), side_of(attempt),
                slot + what_of_pair(attempt, record.write, where, for_whom),
                !slot.empty() ? STAY_IN_SLOT
                : same_phase  ? PLACES
                              : remedy(attempt, record, bytes, ASYNC_SHARED),
                mbarrier_line(record.agent) + waited_line(attempt, record)});
}

void RaceReport::lanes(const Attempt& attempt, const Record& record, uint32_t bytes,
                       uint32_t index) const {
  report(attempt.by->warp, rule::LANE_RACE, attempt.pc, record.pc, [&] {
    // Whether some lanes of the instruction read what their warp has not written since its lanes met.
    bool others_write = false;
    const bool has_others = attempt.by->warp.cta->warps.size() > 1;
    for_lanes(attempt.cells == nullptr || attempt.write ? 0 : attempt.mask, [&](uint32_t lane) {
      const Record last = attempt.shadow->cells[attempt.cells[lane]].record();
      others_write |= last.agent != attempt.agent || last.clock <= attempt.lanes_met_at;
    });
    Said said{
        side_of(record), side_of(attempt),
        what_of_pair(attempt, record.write, name_of_cell(*attempt.shadow, index, bytes)) + BY_LANES,
        others_write && has_others
            ? "bar.sync (__syncthreads) between the two: other warps touch what these lanes do, "
              "too."
        : has_others
            ? "bar.warp.sync (__syncwarp) between the two, or bar.sync (__syncthreads) if other "
              "warps touch the same places."
            : "bar.warp.sync (__syncwarp) between the two."};
    said.remedy = counter(attempt, record) + said.remedy + APART +
                  by_lock("fence.acq_rel.cta (__threadfence_block)");
    said.earlier.role.insert(0, "a lane of ");
    said.later.role.insert(0, "another lane of ");
    return said;
  });
}

void RaceReport::early(const Shadow& shadow, uint32_t index, const Shadow::Early& early,
                       const Attempt* writer) const {
  const Record& record = early.read;
  const bool by_warp = !state_.is_mbarrier(record.agent);
  const auto slot = [&]() -> std::string {
    if (!by_warp) return "";
    return slot_that_is_left(state_.warp_of(record.agent), record.pc, shadow, index,
                             writer == nullptr ? record.agent : writer->agent);
  };
  const auto read = [&] {
    return state_.opcode_at(record.pc) + " reads " + name_of_cell(shadow, index, record.bytes);
  };
  // The write is to come first.
  const auto wait_for = [&](const Record& write) {
    const bool is_cp_async = state_.kind_of(write.agent) == CP_ASYNC;
    const WarpState& by = is_cp_async ? state_.warp_of(write.agent) : *writer->by;
    Attempt reader{};
    reader.by = by_warp ? &state_.warp_of(record.agent) : &by;
    reader.pc = record.pc;
    reader.known = &by.knows.of_warp();
    const CpAsync* const copy = is_cp_async ? state_.cp_async_of(write) : nullptr;
    const bool only_issued = is_cp_async && (copy == nullptr || copy->committed == 0);
    return Said{side_of(write), side_of(reader)}.filled(
        only_issued ? "cp.async.wait_group (or cp.async.mbarrier.arrive.noinc) in {earlier} behind "
                      "{earlier_op} and its cp.async.commit_group, then a barrier with {later} "
                      "before {later_op}."
                    : remedy_by_kind(reader, write));
  };
  if (early.copy) {
    const Record& copy = *early.copy;
    return report(state_.warp_of(copy.agent).warp, rule::SHARED_RACE, copy.pc, record.pc, [&] {
      return Said{side_of(record), side_of(copy), read() + " before {later_op} writes it.",
                  early.lacks_commit ? Said{side_of(copy), side_of(record)}.filled(cp_async_commit(
                                           state_, state_.warp_of(record.agent), copy))
                                     : wait_for(copy)};
    });
  }
  if (writer == nullptr) {
    return report(state_.warp_behind(record.agent), rule::NEVER_WRITTEN, record.pc, record.pc, [&] {
      return Said{{},
                  side_of(record),
                  slot() + read() + NEVER_WRITTEN,
                  "a write of every byte that is read, of zeros where a matrix ends, and a barrier "
                  "behind it if others read; or the "
                  "address is wrong. If what is read is dropped: MACHINE_IGNORE=never-written." +
                      copies_to_come(state_, *shadow.cta)};
    });
  }
  const Rule& rule =
      state_.are_apart_by_wgmma_fence(*writer, record) ? rule::WARPGROUP_RACE : rule::SHARED_RACE;
  report(writer->by->warp, rule, writer->pc, record.pc, [&] {
    const std::string but =
        rule == rule::SHARED_RACE ? "" : joined(", and nothing orders the two", BUT_WGMMA_FENCE);
    Said said{side_of(record), side_of(*writer),
              slot() + read() + " before {later_op} writes it" + but + ".", STAY_IN_SLOT,
              mbarrier_line(writer->agent)};
    if (by_warp) {
      said.more_lines += waited_line_of_reader(state_.warp_of(record.agent), writer->agent);
    }
    if (!slot().empty()) return said;
    said.remedy = wait_for(*writer);
    return said;
  });
}

void RaceReport::updated(const Shadow& shadow, uint32_t index, const Attempt& attempt,
                         uint32_t bytes) const {
  const std::string opcode = state_.opcode_at(attempt.pc);
  const auto has = [&](const char* part) { return opcode.find(part) != opcode.npos; };
  if (has(".exch")) return;  // what it reads may well be dropped
  if (opcode.starts_with("red.") && (has(".and.") || has(".or."))) return;  // it gives bits values
  report(attempt.by->warp, rule::NEVER_WRITTEN, attempt.pc, attempt.pc, [&] {
    return Said{{},
                side_of(attempt),
                "{later_op} updates " + name_of_cell(shadow, index, bytes) + NEVER_WRITTEN,
                "a store of its first value by some thread, and a barrier before {later_op}; or "
                "the address is wrong."};
  });
}

void RaceReport::mbarrier_overwritten(const Attempt& attempt, uint32_t index) const {
  const uint32_t address = attempt.shadow->address_of(index);
  const Record& init = state_.mbarriers.at(address).init;
  report(attempt.by->warp, rule::MBARRIER_OVERWRITTEN, attempt.pc, init.pc, [&] {
    return Said{side_of(state_.warp_behind(init.agent), MADE_IT, init.pc), side_of(attempt),
                "{later_op} writes over the living mbarrier at " + name_of_shared(address) + ".",
                "mbarrier.inval and a barrier before its bytes hold data; or the data is in the "
                "wrong place."};
  });
}

void RaceReport::inval(const Attempt& attempt, const Record& wait,
                       const MbarrierState& mbarrier) const {
  report(attempt.by->warp, rule::SHARED_RACE, attempt.pc, wait.pc, [&] {
    return Said{side_of(state_.warp_of(wait.agent).warp, ", which waits there by ", wait.pc),
                side_of(attempt.by->warp, ", which ends it by ", attempt.pc),
                "{later_op} ends the mbarrier at " + name_of_shared(mbarrier.address) +
                    ", for which {earlier_op} waits, maybe later: nothing orders them.",
                "bar.sync between the two, or an arrive of {earlier} behind its wait, on another "
                "mbarrier that {later} waits for."};
  });
}

void RaceReport::init(const Attempt& attempt, const MbarrierState& mbarrier) const {
  const Record& init = mbarrier.init;
  const bool ordered =
      attempt.async_proxy && is_ordered(*attempt.known, GENERIC, init, 0xff, state_.warp_count());
  // By newer PTX manuals TMA reaches an mbarrier through the generic proxy, for which order is
  // enough. The toolkit's own cuda::barrier has no such fence, and no GPU is known on which that
  // matters.
  const Rule rule{rule::MBARRIER_INIT.name, ordered ? Severity::undefined : Severity::race};
  report(attempt.by->warp, rule, attempt.pc, init.pc, [&] {
    const Warp &maker = state_.warp_of(init.agent).warp, &user = attempt.by->warp;
    const char* const barrier =
        &maker == &user
            ? "bar.warp.sync (bar.sync if other warps use it, too) before other lanes use it."
        : maker.cta == user.cta ? "bar.sync before others use it."
                                : "barrier.cluster.arrive and .wait before other CTAs use it.";
    return Said{
        side_of(maker, MADE_IT, init.pc), side_of(user, ", which uses it by ", attempt.pc),
        joined("{later_op} uses the mbarrier at ", name_of_shared(mbarrier.address),
               ordered
                   ? ", whose mbarrier.init no fence has made known to the async proxy, as older "
                     "PTX manuals ask."
                   : ", whose mbarrier.init is not ordered before that."),
        ordered
            ? "fence.mbarrier_init.release.cluster (or fence.proxy.async) behind mbarrier.init, by "
              "the thread that executed it, before the copy is issued."
            : joined("fence.mbarrier_init.release.cluster behind mbarrier.init, then ", barrier)};
  });
}

void RaceReport::exit(const Shadow& shadow, const Shadow::Visit& visit) const {
  const Record &record = visit.record, &last = shadow.last_exit;
  const bool copy_reads = !record.write && state_.kind_of(record.agent) != ALL_LANES;
  const Rule& rule = copy_reads ? rule::BULK_EXIT : rule::CTA_EXIT;
  const Warp& exits = state_.warp_behind(last.agent);
  report(exits, rule, record.pc, record.pc, [&] {
    return Said{
        {},
        side_of(record, visit.address),
        joined("CTA (", text_of(shadow.cta->id), ") exits, but {later_op} may still ",
               record.write ? "write " : "read ", name_of_shared(visit.address),
               ": its shared memory may be another's by then."),
        remedy_at_exit(visit, exits),
        mbarrier_line(record.agent) +
            line_of("exit:    ", side_of(exits, ", the last one of its CTA, by ", last.pc))};
  });
}

// ---- Global memory ------------------------------------------------------------------------------

bool RaceReport::is_known(const Knowledge& known, View view,
                          const GlobalShadow::Conflict& conflict) const {
  const GlobalRecord& with = conflict.with;
  const Knowledge* const of = known.of_cluster(with.cluster, with.cluster == state_.id);
  return of && is_ordered(*of, view, with.record(), conflict.bytes, state_.warp_count());
}

// What is written before, but not for the proxy of who reads or overwrites it, is the proxies' affair.
const Rule& RaceReport::global_rule(const Attempt& attempt,
                                    const GlobalShadow::Conflict& conflict) const {
  const GlobalRecord& with = conflict.with;
  const bool by_same = with.cluster == state_.id && with.agent == attempt.agent;
  if (by_same && state_.kind_of(with.agent) == ALL_LANES) return rule::LANE_RACE;
  const bool proxies =
      attempt.async_proxy && with.write && in_generic_proxy(with.agent, state_.warp_count());
  return proxies && is_known(*attempt.known, GENERIC, conflict) ? proxy_rule(attempt, true)
                                                                : rule::GLOBAL_RACE;
}

void RaceReport::global_memory(const Attempt& attempt,
                               const GlobalShadow::Conflict& conflict) const {
  report_once(state_.cluster.grid->kernel->name, global_rule(attempt, conflict), attempt.pc,
              conflict.with.pc, [&] { return error_of_global(attempt, conflict); });
}

Error RaceReport::error_of_global(const Attempt& attempt,
                                  const GlobalShadow::Conflict& conflict) const {
  const GlobalRecord& with = conflict.with;
  const Rule& rule = global_rule(attempt, conflict);
  const bool proxies = rule == rule::PROXY_RAW || rule == rule::PROXY_WAW;
  const View view = attempt.reads_map ? MAPS : ASYNC_GLOBAL;
  std::string what = what_of_pair(
      attempt, with.write,
      name_of_global(conflict.address + static_cast<uint64_t>(std::countr_zero(conflict.bytes))),
      !proxies       ? ""
      : view == MAPS ? " for the proxy of tensor maps"
                     : " for the async proxy");
  std::string missing;
  if (proxies) {
    missing = proxy_fence(view, is_known(*attempt.known, MAPS_RELEASED, conflict));
  } else if (with.cluster != state_.id) {
    missing = remedy_between_clusters(attempt, conflict);
  } else if (rule == rule::LANE_RACE) {
    what += BY_LANES;
    missing =
        counter(attempt, with.record()) +
        "bar.warp.sync (__syncwarp) between the two, a barrier of the CTA or of the grid if others "
        "touch the same places, or atomics where several lanes change one place.";
    missing += APART + by_lock("fence.acq_rel.gpu (__threadfence)");
  } else {
    missing = one_statement(attempt, with) + remedy(attempt, with.record(), conflict.bytes, view);
  }
  if (rule == rule::GLOBAL_RACE) missing += by_grid_sync();
  return error(attempt.by->warp, rule, attempt.pc, with.pc,
               {side_in(with.cluster, with.record()), side_of(attempt), what, missing});
}

void RaceReport::never_written(const Attempt& attempt, uint64_t address) const {
  const bool in_shared = (address & WINDOW_MASK) == SHARED_WINDOW;
  const Cell copied = in_shared ? state_.cell_at(static_cast<uint32_t>(address)) : Cell();
  const bool has_copy = copied.written() != 0;
  const Record copy = copied.record();
  const uint32_t other_pc = has_copy ? copy.pc : attempt.pc;
  report(attempt.by->warp, rule::NEVER_WRITTEN, attempt.pc, other_pc, [&] {
    return Said{has_copy ? side_of(copy) : Side{}, side_of(attempt),
                "{later_op} reads " +
                    (in_shared ? name_of_shared(static_cast<uint32_t>(address)) +
                                     ", to which a copy has brought global memory that nothing "
                                     "has written."
                               : name_of_global(address) + NEVER_WRITTEN),
                "a kernel, cudaMemcpy or cudaMemset that writes it first, or, where other threads "
                "of this launch write it, a barrier or a flag before it is read; or the address "
                "is wrong. MACHINE_POISON=0 makes new memory 0."};
  });
}

void RaceReport::grids_before(const Attempt& attempt, uint64_t address) const {
  report(attempt.by->warp, rule::GRID_WAIT, attempt.pc, attempt.pc, [&] {
    const auto has_waited = [&](const WarpKnowledge::Extra& extra) {
      return clock_of(extra.known.views[GENERIC], state_.grids_before()) != 0;
    };
    return Said{{},
                side_of(attempt),
                joined("{later_op} ", attempt.write ? "writes " : "reads ", name_of_global(address),
                       ", but the grid before may still be running: the launch says that this one "
                       "waits for it itself (programmatic stream serialization)."),
                std::ranges::any_of(attempt.by->knows.extras(), has_waited)
                    ? "bar.warp.sync (__syncwarp) in {later}, behind griddepcontrol.wait (bar.sync "
                      "if other warps rely on it, too): only some of its lanes have waited."
                    : "griddepcontrol.wait by {later} before {later_op}, or by a thread whose "
                      "arrive or copy (on a barrier or an mbarrier) {later} then waits for."};
  });
}

// ---- Registers of wgmma -------------------------------------------------------------------------

void RaceReport::registers(const WarpState& by, uint32_t mask, const WgmmaRegister& reg) const {
  const uint32_t pc = by.warp.pc();
  report(by.warp, rule::WGMMA_REGISTERS, pc, reg.pc, [&] {
    return Said{side_of(by.warp, ", which started ", reg.pc),
                {describe(by.warp, mask), ": ", state_.program.text(pc), pc},
                state_.opcode_at(pc) +
                    (reg.accumulator ? " names an accumulator" : " writes an operand") +
                    " of a wgmma.mma_async in flight.",
                "wgmma.wait_group (0, or as many as may stay in flight) between the two, by every "
                "warp of the warpgroup, with wgmma.commit_group before it."};
  });
}

void RaceReport::empty_accumulator(const WarpState& by) const {
  const uint32_t pc = by.warp.pc();
  report(by.warp, rule::NEVER_WRITTEN, pc, pc, [&] {
    return Said{
        {},
        side_of(by.warp, ", which starts ", pc),
        "wgmma.mma_async adds to accumulators that nothing has written.",
        "scale-d false (0) in the first wgmma.mma_async of a sum, which then overwrites; or "
        "zeros in its accumulators, before wgmma.fence."};
  });
}

void RaceReport::wgmma_fence(const WarpState& by, const WgmmaRegister& reg) const {
  const uint32_t pc = by.warp.pc();
  const bool is_first = by.wgmma_fences == 0, touched = reg.touched != 0;
  report(by.warp, rule::WGMMA_FENCE, pc, touched ? reg.touched_pc : pc, [&] {
    return Said{
        touched ? side_of(by.warp, ", which executes ", reg.touched_pc) : Side{},
        side_of(by.warp, ", which starts ", pc),
        joined("wgmma.fence is missing before wgmma.mma_async: ",
               is_first ? "the first one of a warp needs it."
                        : "an ordinary instruction has touched its registers."),
        joined("wgmma.fence.sync.aligned before wgmma.mma_async, behind what touches its "
               "registers.",
               is_first ? ""
                        : " Where the source has one there, the compiler has moved that "
                          "instruction behind it: an empty asm volatile before the fence, with "
                          "the registers as operands that it changes, keeps it in front.")};
  });
}

}  // namespace machine
