// The sentences of the checker, but for what would order two accesses (remedies.cpp). It decides
// nothing: that two accesses conflict is known before.
#include "common/machine/check/race_report.h"

#include <bit>

#include "common/machine/check/reports.h"
#include "common/machine/ops/operands.h"
#include "common/machine/run/allocations.h"
#include "common/machine/run/cluster.h"
#include "common/machine/run/error.h"

namespace machine {
namespace {

// A wait for another slot's copy would put the two in order, and leave the result wrong.
const std::string STAY_IN_SLOT =
    "nothing should: they are of two slots. Mend the start, LBO or SBO of the descriptor "
    "(docs/descriptors.md).";

constexpr char ONLY[] = "access:  ";  // where there is one

const char* does(bool write) {
  return write ? ", which writes it by " : ", which reads it by ";
}

}  // namespace

std::string RaceReport::name_of_shared(uint32_t address) const {
  const Cta& cta = state_.cluster.ctas[address >> RANK_SHIFT];
  return joined("shared ", hex(address), " (byte ", (address & OFFSET_MASK) - SMEM_BASE,
                " of CTA (", text_of(cta.id), ")'s shared memory)");
}

std::string RaceReport::name_of_cell(const Shadow& shadow, uint32_t index, uint32_t bytes) const {
  return name_of_shared((shadow.cta->rank << RANK_SHIFT) + SMEM_BASE + index * CELL_BYTES +
                        static_cast<uint32_t>(std::countr_zero(bytes)));
}

const MbarrierState* RaceReport::mbarrier_of(uint32_t agent) const {
  for (const auto& [address, mbarrier] : state_.mbarriers) {
    if (mbarrier.agent == agent) return &mbarrier;
  }
  return nullptr;
}

const Warp& RaceReport::warp_behind(uint32_t agent) const {
  return state_.is_mbarrier(agent) ? *mbarrier_of(agent)->issuer : state_.warp_of(agent).warp;
}

std::string RaceReport::role_of(uint32_t agent) const {
  return describe_role(warp_behind(agent));
}

std::string RaceReport::role_in(uint32_t cluster, uint32_t agent) const {
  if (cluster == state_.id) return role_of(agent);
  if (state_.is_mbarrier(agent)) return "a copy of cluster " + std::to_string(cluster);
  const Grid& grid = *state_.cluster.grid;
  const uint32_t warp = agent / AGENTS_OF_WARP, warps = grid.warps_per_cta;
  return joined("warp ", warp % warps, " of CTA (", text_of(cta_at(grid, cluster, warp / warps)),
                ")");
}

std::string RaceReport::line_of(const char* name, const std::string& role, const char* does,
                                uint32_t pc) const {
  return joined("\n  ", name, role, does, state_.opcode_at(pc),
                state_.program.where(pc, "\n           "));
}

std::string RaceReport::later_line(const Attempt& attempt, const char* name) const {
  return line_of(name, describe_role(attempt.by->warp), does(attempt.write), attempt.pc);
}

std::string RaceReport::mbarrier_line(uint32_t agent) const {
  const MbarrierState* const mbarrier = mbarrier_of(agent);
  if (mbarrier == nullptr || !state_.is_mbarrier(agent)) return "";
  return joined("\n  mbarrier: that copy completes on the one at ",
                name_of_shared(mbarrier->address), ", of which ", mbarrier->phase,
                mbarrier->phase == 1 ? " phase is" : " phases are", " complete");
}

std::string RaceReport::text(const Rule& rule, const std::string& what, const std::string& lines,
                             const std::string& remedy) const {
  const bool unwritten = rule == rule::NEVER_WRITTEN;
  return joined(unwritten                         ? "Unwritten"
                : rule.severity == Severity::race ? "Race"
                                                  : "Undefined",
                " in kernel ", kernel_text(*state_.cluster.grid->kernel), ": ", what, lines,
                unwritten ? "\n  What is missing: " : "\n  What would order them: ", remedy,
                report_end(state_.program, rule));
}

namespace {

// Of an access through the async proxy, behind one through the generic proxy that is ordered before
// it, but not for that proxy.
const Rule& proxy_rule(const Attempt& attempt, const Record& record) {
  if (!attempt.write) return rule::PROXY_RAW;
  return record.write ? rule::PROXY_WAW : rule::PROXY_WAR;
}

}  // namespace

void RaceReport::shared(const Attempt& attempt, const Record& record, uint32_t bytes,
                        uint32_t index) const {
  const uint32_t warps = state_.warp_count();
  const bool proxies = attempt.async_proxy && in_generic_proxy(record.agent, warps) &&
                       is_ordered(*attempt.known, GENERIC, record, bytes, warps);
  const Rule& rule = proxies ? proxy_rule(attempt, record) : rule::SHARED_RACE;
  report_race(attempt.by->warp, rule, attempt.pc, record.pc, [&] {
    const std::string lines =
        line_of("earlier: ", role_of(record.agent), does(record.write), record.pc) +
        later_line(attempt) + mbarrier_line(record.agent) + waited_line(attempt, record);
    const std::string slot =
        attempt.write ? "" : slot_that_is_left(*attempt.by, attempt.pc, *attempt.shadow, index);
    return text(rule,
                slot + describe_pair(attempt, record.write, record.pc,
                                     name_of_cell(*attempt.shadow, index, bytes),
                                     proxies ? " for the async proxy" : ""),
                lines, slot.empty() ? remedy(attempt, record, bytes, ASYNC_SHARED) : STAY_IN_SLOT);
  });
}

void RaceReport::lanes(const Attempt& attempt, const Record& record, uint32_t bytes,
                       uint32_t index) const {
  report_race(attempt.by->warp, rule::LANE_RACE, attempt.pc, record.pc, [&] {
    const std::string warp = describe_role(attempt.by->warp);
    return text(
        rule::LANE_RACE,
        describe_pair(attempt, record.write, record.pc,
                      name_of_cell(*attempt.shadow, index, bytes)) +
            " They are by different lanes of one warp.",
        line_of("earlier: ", "a lane of " + warp, does(record.write), record.pc) +
            line_of("later:   ", "another lane of " + warp, does(attempt.write), attempt.pc),
        others_touch(attempt)
            ? "bar.sync (__syncthreads) between the two: other warps touch what these lanes do, "
              "too. Lanes of a warp need not run together either."
        : attempt.by->warp.cta->warps.size() > 1
            ? "bar.warp.sync (__syncwarp) between the two, or bar.sync (__syncthreads) if other "
              "warps touch the same places: lanes of a warp need not run together."
            : "bar.warp.sync (__syncwarp) between the two: lanes of a warp need not run together.");
  });
}

// Whether some lanes of the instruction touch what their warp has not written since its lanes met.
bool RaceReport::others_touch(const Attempt& attempt) const {
  bool others = false;
  for_lanes(attempt.cells == nullptr ? 0 : attempt.lanes, [&](uint32_t lane) {
    const Record record = attempt.shadow->cells[attempt.cells[lane]].record();
    others |= record.agent != attempt.agent || record.clock <= attempt.lanes_met_at;
  });
  return others && !attempt.write;
}

std::string RaceReport::describe_pair(const Attempt& attempt, bool earlier_write,
                                      uint32_t earlier_pc, const std::string& where,
                                      const std::string& for_whom) const {
  const char* const does = attempt.write       ? " writes "
                           : attempt.reads_map ? " reads its tensor map, "
                                               : " reads ";
  return joined(state_.opcode_at(attempt.pc), does, where, ", which ", state_.opcode_at(earlier_pc),
                earlier_write ? " has written, and nothing orders the two"
                              : " reads, maybe later: nothing orders them",
                for_whom, ".");
}

std::string RaceReport::name_of_global(uint64_t address) const {
  Allocation allocation;
  const std::string name = "global " + hex(address);
  if (!find_allocation(address, &allocation)) return name;
  return joined(name, " (byte ", address - allocation.base, " of the ", allocation.bytes, " of ",
                allocation.what, ")");
}

bool RaceReport::is_before(const Attempt& attempt, View view,
                           const GlobalShadow::Conflict& conflict) const {
  const GlobalRecord& with = conflict.with;
  const Knowledge* const known = attempt.known->of_cluster(with.cluster, with.cluster == state_.id);
  return known && is_ordered(*known, view, with.record(), conflict.bytes, state_.warp_count());
}

// What is written before, but not for the proxy of who reads or overwrites it, is the proxies' affair.
const Rule& RaceReport::global_rule(const Attempt& attempt,
                                    const GlobalShadow::Conflict& conflict) const {
  const GlobalRecord& with = conflict.with;
  const bool by_same = with.cluster == state_.id && with.agent == attempt.agent;
  if (by_same && kind_of(with.agent) == ALL_LANES) return rule::LANE_RACE;
  const bool proxies =
      attempt.async_proxy && with.write && in_generic_proxy(with.agent, state_.warp_count());
  return proxies && is_before(attempt, GENERIC, conflict) ? proxy_rule(attempt, with.record())
                                                          : rule::GLOBAL_RACE;
}

void RaceReport::global_memory(const Attempt& attempt,
                               const GlobalShadow::Conflict& conflict) const {
  report_race(attempt.by->warp, global_rule(attempt, conflict), attempt.pc, conflict.with.pc,
              [&] { return text_of_global(attempt, conflict); });
}

std::string RaceReport::text_of_global(const Attempt& attempt,
                                       const GlobalShadow::Conflict& conflict) const {
  const GlobalRecord& with = conflict.with;
  const std::string where =
      name_of_global(conflict.address + static_cast<uint64_t>(std::countr_zero(conflict.bytes)));
  const std::string lines =
      line_of("earlier: ", role_in(with.cluster, with.agent), does(with.write), with.pc) +
      later_line(attempt);
  const Rule& rule = global_rule(attempt, conflict);
  const bool proxies = rule == rule::PROXY_RAW || rule == rule::PROXY_WAW;
  const std::string what = describe_pair(attempt, with.write, with.pc, where,
                                         !proxies            ? ""
                                         : attempt.reads_map ? " for the proxy of tensor maps"
                                                             : " for the async proxy");
  if (proxies) {
    return text(rule, what, lines,
                proxy_fence(attempt, with.pc, role_in(with.cluster, with.agent),
                            attempt.reads_map ? MAPS : ASYNC_GLOBAL,
                            is_before(attempt, MAPS_RELEASED, conflict)));
  }
  if (with.cluster != state_.id) {
    return text(rule, what, lines, remedy_between_clusters(attempt, with));
  }
  if (rule == rule::LANE_RACE) {
    return text(
        rule, what + " They are by different lanes of one warp.", lines,
        "bar.warp.sync (__syncwarp) between the two, or atomics where several lanes change one "
        "place: lanes of a warp need not run together.");
  }
  return text(rule, what, lines,
              one_statement(attempt, with) + remedy(attempt, with.record(), conflict.bytes,
                                                    attempt.reads_map ? MAPS : ASYNC_GLOBAL));
}

void RaceReport::never_written(const Attempt& attempt, uint64_t address) const {
  report_race(attempt.by->warp, rule::NEVER_WRITTEN, attempt.pc, attempt.pc, [&] {
    const bool in_shared = (address & WINDOW_MASK) == SHARED_WINDOW;
    return text(
        rule::NEVER_WRITTEN,
        state_.opcode_at(attempt.pc) + " reads " +
            (in_shared ? name_of_shared(static_cast<uint32_t>(address)) +
                             ", to which a copy has brought global memory that nothing has "
                             "written."
                       : name_of_global(address) + ", which nothing has written."),
        later_line(attempt, ONLY),
        "a kernel, cudaMemcpy or cudaMemset that writes it first, or, where other threads of "
        "this launch write it, a barrier or a flag before it is read; or the address is "
        "wrong. MACHINE_POISON=0 makes new memory 0.");
  });
}

void RaceReport::updated(const Shadow& shadow, uint32_t index, const Attempt& attempt,
                         uint32_t bytes) const {
  const std::string opcode = state_.opcode_at(attempt.pc);
  const auto has = [&](const char* part) { return opcode.find(part) != opcode.npos; };
  if (has(".exch")) return;  // what it reads may well be dropped
  if (opcode.starts_with("red.") && (has(".and.") || has(".or."))) return;  // it gives bits values
  report_race(attempt.by->warp, rule::NEVER_WRITTEN, attempt.pc, attempt.pc, [&] {
    return text(
        rule::NEVER_WRITTEN,
        opcode + " updates " + name_of_cell(shadow, index, bytes) + ", which nothing has written.",
        later_line(attempt, ONLY),
        "a store of its first value by some thread, and a barrier before " + opcode +
            "; or the address is wrong.");
  });
}

void RaceReport::grids_before(const Attempt& attempt, uint64_t address) const {
  const std::string now = describe_role(attempt.by->warp), opcode = state_.opcode_at(attempt.pc);
  bool some_lanes = false;
  for (const WarpKnowledge::Extra& extra : attempt.by->knows.extras()) {
    some_lanes |= clock_of(extra.known.views[GENERIC], state_.grids_before()) != 0;
  }
  report_race(attempt.by->warp, rule::GRID_WAIT, attempt.pc, attempt.pc, [&] {
    return text(
        rule::GRID_WAIT,
        opcode + (attempt.write ? " writes " : " reads ") + name_of_global(address) +
            ", but the grid before may still be running: the launch says that this one waits for "
            "it itself (programmatic stream serialization).",
        later_line(attempt, ONLY),
        some_lanes ? "bar.warp.sync (__syncwarp) in " + now +
                         ", behind griddepcontrol.wait (bar.sync if other warps rely on it, too): "
                         "only some of its lanes have waited."
                   : "griddepcontrol.wait by " + now + " before " + opcode +
                         ", or by a thread whose arrive or copy (on a barrier or an mbarrier) " +
                         now + " then waits for.");
  });
}

void RaceReport::early(const Shadow& shadow, uint32_t index, const Record& record,
                       const Attempt* writer) const {
  const std::string read =
      state_.opcode_at(record.pc) + " reads " + name_of_cell(shadow, index, record.bytes);
  const std::string reader = line_of(writer == nullptr ? ONLY : "earlier: ", role_of(record.agent),
                                     does(false), record.pc);
  const std::string slot =
      state_.is_mbarrier(record.agent)
          ? ""
          : slot_that_is_left(state_.warp_of(record.agent), record.pc, shadow, index);
  if (writer == nullptr) {
    return report_race(warp_behind(record.agent), rule::NEVER_WRITTEN, record.pc, record.pc, [&] {
      return text(
          rule::NEVER_WRITTEN, slot + read + ", which nothing has written.", reader,
          "a write of every byte that is read, of zeros where a matrix ends; or the address "
          "is wrong. If what is read is dropped: MACHINE_IGNORE=never-written.");
    });
  }
  report_race(writer->by->warp, rule::SHARED_RACE, writer->pc, record.pc, [&] {
    Attempt attempt{};
    attempt.by = writer->by;
    attempt.pc = record.pc;
    attempt.known = &attempt.by->knows.of_warp();
    if (!state_.is_mbarrier(record.agent)) attempt.by = &state_.warp_of(record.agent);
    const Record write{writer->agent, writer->clock, writer->pc, 0, 0xff, true};
    const std::string copy = state_.opcode_at(writer->pc);
    const bool only_issued = kind_of(write.agent) == CP_ASYNC &&
                             state_.warp_of(write.agent).warp.cp_async.count < write.clock;
    const std::string missing =
        !only_issued
            ? remedy_by_kind(attempt, write, copy)
            : "cp.async.wait_group (or cp.async.mbarrier.arrive.noinc) in " + role_of(write.agent) +
                  " behind " + copy + " and its " + "cp.async.commit_group, then a barrier with " +
                  describe_role(attempt.by->warp) + " before " + state_.opcode_at(record.pc) + ".";
    return text(rule::SHARED_RACE, slot + read + " before " + copy + " writes it.",
                reader +
                    line_of("later:   ", describe_role(writer->by->warp), does(true), writer->pc) +
                    mbarrier_line(writer->agent),
                slot.empty() ? missing : STAY_IN_SLOT);
  });
}

void RaceReport::mbarrier_overwritten(const Attempt& attempt, uint32_t index) const {
  const uint32_t address =
      (attempt.shadow->cta->rank << RANK_SHIFT) + SMEM_BASE + index * CELL_BYTES;
  const MbarrierState& mbarrier = state_.mbarriers.at(address);
  report_race(attempt.by->warp, rule::MBARRIER_OVERWRITTEN, attempt.pc, mbarrier.init.pc, [&] {
    return text(
        rule::MBARRIER_OVERWRITTEN,
        state_.opcode_at(attempt.pc) + " writes over the living mbarrier at " +
            name_of_shared(address) + ".",
        line_of("earlier: ", role_of(mbarrier.init.agent), ", which made it by ",
                mbarrier.init.pc) +
            later_line(attempt),
        "mbarrier.inval and a barrier before its bytes hold data; or the data is in the wrong "
        "place.");
  });
}

void RaceReport::init(const Attempt& attempt, const MbarrierState& mbarrier) const {
  const Record& init = mbarrier.init;
  const bool ordered = is_ordered(*attempt.known, GENERIC, init, 0xff, state_.warp_count());
  const Warp& maker = state_.warp_of(init.agent).warp;
  const bool same_cta = maker.cta == attempt.by->warp.cta;
  // The toolkit's own cuda::barrier has no such fence, and no GPU is known on which that matters.
  const Rule rule{rule::MBARRIER_INIT.name, ordered ? Severity::undefined : Severity::race};
  report_race(attempt.by->warp, rule, attempt.pc, mbarrier.init.pc, [&] {
    return text(
        rule,
        state_.opcode_at(attempt.pc) + " uses the mbarrier at " + name_of_shared(mbarrier.address) +
            (ordered ? ", whose mbarrier.init no fence has made known to the async proxy."
                     : ", whose mbarrier.init is not ordered before that."),
        line_of("earlier: ", role_of(init.agent), ", which made it by ", init.pc) +
            line_of("later:   ", describe_role(attempt.by->warp), ", which uses it by ",
                    attempt.pc),
        std::string(ordered ? "fence.mbarrier_init.release.cluster (or fence.proxy.async) behind "
                              "mbarrier.init, by the thread that executed it"
                            : "fence.mbarrier_init.release.cluster behind mbarrier.init, then ") +
            (ordered ? ", before the copy is issued."
             : &maker == &attempt.by->warp
                 ? "bar.warp.sync (bar.sync if other warps use it, too) before other lanes use it."
             : same_cta ? "bar.sync before others use it."
                        : "barrier.cluster.arrive and .wait before other CTAs use it."));
  });
}

void RaceReport::exit(const Shadow& shadow, const Shadow::Visit& visit) const {
  const Record &record = visit.record, &last = shadow.last_exit;
  const bool copy_reads = !record.write && kind_of(record.agent) != ALL_LANES;
  const Rule& rule = copy_reads ? rule::BULK_EXIT : rule::CTA_EXIT;
  report_race(warp_behind(last.agent), rule, record.pc, record.pc, [&] {
    return text(
        rule,
        "CTA (" + text_of(shadow.cta->id) + ") exits, but " + state_.opcode_at(record.pc) +
            (record.write ? " may still write " : " may still read ") +
            name_of_shared(visit.address) + ": its shared memory may be another's by then.",
        line_of(ONLY, role_of(record.agent), does(record.write), record.pc) +
            mbarrier_line(record.agent) +
            line_of("exit:    ", role_of(last.agent), ", the last one of its CTA, by ", last.pc),
        remedy_at_exit(visit));
  });
}

void RaceReport::registers(const WarpState& by, uint32_t mask, const WgmmaRegister& reg) const {
  const uint32_t pc = by.warp.pc();
  report_race(by.warp, rule::WGMMA_REGISTERS, pc, reg.pc, [&] {
    return text(rule::WGMMA_REGISTERS,
                state_.opcode_at(pc) +
                    (reg.accumulator ? " names an accumulator" : " writes an operand") +
                    " of a wgmma.mma_async in flight.",
                line_of("earlier: ", describe_role(by.warp), ", which started ", reg.pc) +
                    "\n  later:   " + describe(by.warp, mask) + ": " + state_.program.text(pc) +
                    state_.program.where(pc, "\n           "),
                "wgmma.wait_group (0, or as many as may stay in flight) between the two, by every "
                "warp of the warpgroup, with wgmma.commit_group before it.");
  });
}

void RaceReport::wgmma_fence(const WarpState& by, const WgmmaRegister& reg) const {
  const uint32_t pc = by.warp.pc();
  report_race(by.warp, rule::WGMMA_FENCE, pc, reg.touched == 0 ? pc : reg.touched_pc, [&] {
    return text(
        rule::WGMMA_FENCE,
        std::string("wgmma.fence is missing before wgmma.mma_async: ") +
            (by.wgmma_fences == 0 ? "the first one of a warp needs it."
                                  : "an ordinary instruction has touched its registers."),
        (reg.touched == 0
             ? ""
             : line_of("earlier: ", describe_role(by.warp), ", which executes ", reg.touched_pc)) +
            line_of("later:   ", describe_role(by.warp), ", which starts ", pc),
        std::string("wgmma.fence.sync.aligned before wgmma.mma_async, behind what touches its "
                    "registers.") +
            (by.wgmma_fences == 0
                 ? ""
                 : " Where the source has one there, the compiler has moved that instruction "
                   "behind it: an empty asm volatile before the fence, with the registers as "
                   "operands that it changes, keeps it in front."));
  });
}

}  // namespace machine
