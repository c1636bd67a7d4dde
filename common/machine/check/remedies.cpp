// What would order two accesses, and what is likely wrong: the instruction that is missing, by who made
// the accesses and by what is known. It decides nothing.
#include <algorithm>
#include <set>

#include "common/machine/check/race_report.h"
#include "common/machine/ops/mbarrier.h"
#include "common/machine/ops/operands.h"
#include "common/machine/run/cluster.h"

namespace machine {
namespace {

const std::string SMALLER_N = " (if one stands between the two, its N is too large)";
const std::string NOT_COMMITTED = ": what was never committed is not waited for.";

std::string text_of(const MbarrierState& mbarrier) {
  return "the mbarrier at shared " + hex(mbarrier.address);
}

// One access is strong: it may be a flag that the other should have been strong at, too.
std::string flag_itself(const Attempt& attempt, const auto& with) {
  if (attempt.strong == with.strong || attempt.async_proxy) return "";
  const bool writes = attempt.strong ? with.write : attempt.write;
  return joined(writes ? "st.relaxed" : "ld.relaxed", " (or volatile) in place of ",
                attempt.strong ? "{earlier_op}" : "{later_op}",
                ", if this is the counter or flag itself, or if any value will do. Else: ");
}

// Two strong accesses, one of them of too narrow a scope.
std::string wider_scope(const CheckerState& state, const Attempt& attempt, uint32_t earlier_pc,
                        const char* least) {
  const bool alike = state.opcode_at(earlier_pc) == state.opcode_at(attempt.pc);
  return joined("scope ", least, ", or a wider one, in {earlier_op}",
                alike ? "" : " and {later_op}",
                ": to threads outside of its scope an atomic, relaxed or volatile access is an "
                "ordinary one.");
}

// The wait for a bulk copy that reads shared memory late. One that reads while its issuer is still at
// it may be committed yet.
std::string wait_for_read(const CheckerState& state, const Record& copy) {
  const Warp& issuer = state.warp_of(copy.agent).warp;
  const bool is_issued = std::ranges::any_of(
      issuer.fragments, [&](const Fragment& fragment) { return fragment.pc == copy.pc; });
  if (is_issued || issuer.bulk.count >= copy.clock) {
    return joined("cp.async.bulk.wait_group.read by the thread of {later} that ",
                  is_issued ? "commits" : "committed", " {later_op}");
  }
  return "cp.async.bulk.commit_group behind {later_op} by the thread of {later} that issued it "
         "(what was never committed is not waited for), then cp.async.bulk.wait_group.read";
}

// Whether the warp that made the access has waited there more often than phases are complete.
bool has_waited_ahead(const CheckerState& state, const Record& record,
                      const MbarrierState& mbarrier) {
  const uint32_t warp = record.agent / AGENTS_OF_WARP;
  return state.kind_of(record.agent) == ALL_LANES && warp < mbarrier.waits.size() &&
         mbarrier.waits[warp].count > mbarrier.phase;
}

// Behind an access of the generic proxy, that is over as soon as something orders it.
std::string remedy_by_barrier(const CheckerState& state, const Attempt& attempt,
                              const Record& record) {
  const Warp &earlier = state.warp_of(record.agent).warp, &later = attempt.by->warp;
  std::string text = flag_itself(attempt, record);
  text += earlier.cta == later.cta
              ? "bar.sync between the two, or an mbarrier.arrive behind {earlier_op} "
                "and an mbarrier.try_wait before {later_op}"
              : "barrier.cluster.arrive.release behind {earlier_op} and "
                "barrier.cluster.wait.acquire before {later_op}";
  if (attempt.async_proxy) text += ", with fence.proxy.async before the arrive";
  const MbarrierState* const mbarrier = state.mbarrier_of(attempt.agent);
  const AgentKind kind = state.kind_of(attempt.agent);
  // Who reads what a copy then overwrites may have wanted what it brings.
  const bool wants_copy = attempt.write && !record.write;
  if (wants_copy && mbarrier != nullptr && state.kind_of(record.agent) == ALL_LANES &&
      !(mbarrier->waited >> record.agent / AGENTS_OF_WARP % 64 & 1)) {
    text +=
        ". If {earlier_op} is to read what the copy brings, mbarrier.try_wait by {earlier} on " +
        text_of(*mbarrier) + " before it, where that warp has not waited yet";
  }
  if (wants_copy && mbarrier != nullptr && has_waited_ahead(state, record, *mbarrier)) {
    text +=
        ". If {earlier_op} is to read what the copy brings, look at the parity of the wait by "
        "{earlier} on " +
        text_of(*mbarrier) + ": it returned at once, for a phase before the first";
  }
  if (wants_copy && kind == CP_ASYNC) {
    text += ". If {earlier_op} is to read what the copy brings, cp.async.wait_group in {later}" +
            SMALLER_N + (&earlier == &later ? "" : ", then a barrier with {earlier}");
  }
  // A source that a copy reads late has been written before or after the copy was started.
  if (!attempt.write && (kind == BULK_READS || mbarrier != nullptr)) {
    text = (mbarrier != nullptr ? "a wait for the copy on " + text_of(*mbarrier)
                                : wait_for_read(state, attempt)) +
           ", then a barrier, before {earlier_op}, if the copy is to come first. If {earlier_op} "
           "writes what is to be copied, " +
           text;
  }
  text += ".";
  const auto twice = state.arrived_twice.find(later.cta);
  if (earlier.cta == later.cta && twice != state.arrived_twice.end()) {
    const auto [warp, barrier] = twice->second;
    text +=
        joined(" Barrier ", barrier, " does not: ", describe_role(*warp),
               " arrived twice in one of its phases, as who has executed barrier.arrive does by "
               "barrier.sync, and it was complete without all warps.");
  }
  return text;
}

// The latest wait of who fills a slot found no phase complete: it asked for the parity of the phase
// before the first, as the first lap of a ring does.
std::string empty_wait(const CheckerState& state, const WarpState& by) {
  const auto found = state.mbarriers.find(by.waited_for);
  if (found == state.mbarriers.end() || found->second.phase > 0) return "";
  return " Its latest wait, on " + text_of(found->second) +
         ", returned at once: no phase of that one is complete, and it asked for parity 1, as only "
         "the first lap may.";
}

// Who reads what a copy has brought has waited for copies elsewhere: it may be the address that is wrong.
std::string other_wait(const CheckerState& state, const Attempt& attempt) {
  const auto found = state.mbarriers.find(attempt.by->waited_for);
  if (attempt.shadow == nullptr || found == state.mbarriers.end() || !found->second.issuer) {
    return "";
  }
  return " Its latest wait was on " + text_of(found->second) +
         ": if that is this tile's, {later_op} has the address of another's.";
}

bool has_waited(const WarpState& by, const MbarrierState& mbarrier) {
  const uint32_t warp = by.warp.in_cluster;
  return warp < mbarrier.waits.size() && mbarrier.waits[warp].count > mbarrier.made_in;
}

// Bytes have come to the mbarrier that were not expected; "" if not. That they have may also be since a
// copy did not wait until its slot was empty: then who started it has waited for none of the phases.
std::string too_few_bytes(const CheckerState& state, const MbarrierState& mbarrier,
                          const Attempt& attempt) {
  const auto found = state.cluster.mbarriers.find(mbarrier.address);
  const bool more_came = found != state.cluster.mbarriers.end() && bytes_to_come(found->second) < 0;
  const bool too_few =
      state.is_mbarrier(attempt.agent)
          ? mbarrier.outrun && clock_of(attempt.known->views[GENERIC], mbarrier.agent) != 0
          : mbarrier.outrun || (more_came && mbarrier.phase > 0);
  if (!too_few) return "";
  return "expect_tx with the bytes of all copies of a phase. On " + text_of(mbarrier) +
         " too few bytes were expected, so that a phase was complete, and its wait returned, "
         "before all of them had landed.";
}

}  // namespace

std::string proxy_fence(View view, bool released) {
  if (view != MAPS) {
    return std::string("fence.proxy.async") + (view == ASYNC_SHARED ? ".shared::cta" : ".global") +
           " behind {earlier_op}, executed by each thread of {earlier} before its barrier or "
           "arrive. That one orders ordinary accesses (the generic proxy); TMA and wgmma (the "
           "async proxy) need the fence as well.";
  }
  const std::string acquire =
      "fence.proxy.tensormap::generic.acquire.gpu on these 128 bytes in {later}, before {later_op}";
  return (released ? acquire + ". The other half, the release, is there"
                   : "tensormap.cp_fenceproxy in place of {earlier_op}, or "
                     "fence.proxy.tensormap::generic.release.gpu behind it; and " +
                         acquire) +
         ". TMA reads tensor maps through a proxy and a cache of its own, and may find an older "
         "one there.";
}

std::string cp_async_commit(const CheckerState& state, const WarpState& reader,
                            const Record& copy) {
  // By its warp's arrive it was to be announced.
  const auto found = state.mbarriers.find(reader.waited_for);
  if (found != state.mbarriers.end() &&
      (found->second.arrived >> copy.agent / AGENTS_OF_WARP % 64 & 1)) {
    return "cp.async.mbarrier.arrive.noinc behind {earlier_op}, in place of {earlier}'s arrive "
           "on " +
           text_of(found->second) +
           ", where {later} has waited: an ordinary one waits for no copies. (Or "
           "cp.async.commit_group and cp.async.wait_group before it.)";
  }
  return "cp.async.commit_group behind {earlier_op} in {earlier}, before its cp.async.wait_group "
         "(or cp.async.wait_all or cp.async.mbarrier.arrive.noinc in place of both)" +
         NOT_COMMITTED;
}

std::string RaceReport::remedy(const Attempt& attempt, const Record& record, uint32_t bytes,
                               View async) const {
  const uint32_t warps = state_.warp_count();
  const View view = attempt.async_proxy && in_generic_proxy(record.agent, warps) ? async : GENERIC;
  const auto is_in = [&](const Knowledge& known) {
    return is_ordered(known, view, record, bytes, warps);
  };
  if (attempt.strong && record.strong) return wider_scope(state_, attempt, record.pc, ".cluster");
  if (view != GENERIC && is_ordered(*attempt.known, GENERIC, record, bytes, warps)) {
    return proxy_fence(view, false);
  }
  if (state_.kind_of(record.agent) == ALL_LANES &&
      clock_of(attempt.known->views[view], record.agent + SOME_LANES) >= record.clock) {
    const Warp& now = attempt.by->warp;
    if (record.agent / AGENTS_OF_WARP == now.in_cluster && now.cta->warps.size() > 1) {
      return "bar.sync (__syncthreads) between {earlier_op} and {later_op}, or an mbarrier in its "
             "place on which every warp arrives that makes such an access. If this warp alone "
             "does, bar.warp.sync (__syncwarp) is enough: the lane that starts the copy waits for "
             "no other by itself.";
    }
    return "bar.warp.sync (__syncwarp) in {earlier}, behind {earlier_op} and before one lane's "
           "arrive or copy: a lane releases only what it did itself.";
  }
  for (const WarpKnowledge::Extra& extra : attempt.by->knows.extras()) {
    if (is_in(extra.known)) {
      return "bar.warp.sync (__syncwarp) in {later}, behind the wait: only some of its lanes have "
             "waited.";
    }
  }
  for (const Snapshot& seen : attempt.known->seen) {
    if (seen && is_in(*seen)) {
      return "fence.acquire (or fence.acq_rel) behind the relaxed wait or load of {later}.";
    }
  }
  if (is_in(attempt.by->unscoped)) {
    return "scope .cluster: mbarrier.arrive.release.cluster by {earlier}, and "
           "mbarrier.try_wait.acquire.cluster by {later}. Scope .cta does not reach another CTA.";
  }
  if (is_in(attempt.by->unfenced)) {
    const bool is_copy = state_.is_mbarrier(record.agent);
    const bool same_cta = !is_copy && state_.warp_of(record.agent).warp.cta == attempt.by->warp.cta;
    return joined("fence.release (or fence.acq_rel)",
                  same_cta ? "" : " of scope .cluster or a wider one",
                  " before the relaxed arrive or store of ",
                  is_copy ? "who has waited for {earlier_op}." : "{earlier}.");
  }
  return remedy_by_kind(attempt, record);
}

std::string RaceReport::remedy_by_kind(const Attempt& attempt, const Record& record) const {
  const bool same_warp = record.agent / AGENTS_OF_WARP == attempt.by->warp.in_cluster;
  const std::string then_barrier = same_warp ? "" : ", then a barrier with {later}";
  switch (state_.kind_of(record.agent)) {
    case WGMMA_READS: {
      const WarpState& owner = state_.warp_of(record.agent);
      const Warp& issuer = owner.warp;
      if (clock_of(owner.knows.of_warp().views[GENERIC], record.agent) >= record.clock) {
        return "an arrive of {earlier} behind its wgmma.wait_group, on an mbarrier (or barrier) "
               "that {later} waits for before {later_op}.";
      }
      if (issuer.cta->warpgroups[issuer.index / 4].committed[issuer.index % 4] < record.clock) {
        return "wgmma.commit_group behind {earlier_op} in {earlier}, before its wgmma.wait_group" +
               NOT_COMMITTED;
      }
      return joined("wgmma.wait_group in {earlier}, so that the group of {earlier_op} is complete",
                    same_warp ? "."
                              : ", and behind it an arrive (or barrier) that {later} waits for "
                                "before {later_op}.");
    }
    case BULK_READS:
    case BULK_WRITES: {
      const std::string wait = state_.kind_of(record.agent) == BULK_READS
                                   ? "cp.async.bulk.wait_group.read"
                                   : "cp.async.bulk.wait_group (without .read)";
      if (state_.warp_of(record.agent).warp.bulk.count < record.clock) {
        return "cp.async.bulk.commit_group behind {earlier_op} by the thread of {earlier} that "
               "issued it, before its " +
               wait + (same_warp ? "" : " and a barrier with {later}") + NOT_COMMITTED;
      }
      return wait + " by the thread of {earlier} that committed {earlier_op}" + SMALLER_N +
             then_barrier + ".";
    }
    case CP_ASYNC: {
      const WarpState& owner = state_.warp_of(record.agent);
      const CpAsync* const copy = state_.cp_async_of(record);
      if (copy != nullptr && state_.lacks_commit(attempt, *copy)) {
        return cp_async_commit(state_, *attempt.by, record);
      }
      if (copy != nullptr && copy->arrives && attempt.write &&
          state_.kind_of(attempt.agent) == CP_ASYNC) {
        return "mbarrier.try_wait by {later} before {later_op}, on an mbarrier on which each "
               "thread arrives that has read what the earlier copy brought: its slot is empty "
               "then.";
      }
      if (copy != nullptr && copy->arrives && owner.cp_async_in_part < record.clock) {
        return "mbarrier.try_wait by {later} before {later_op}, on the mbarrier on which "
               "cp.async.mbarrier.arrive of {earlier} arrives once the copy has landed.";
      }
      return joined("cp.async.wait_group (or cp.async.mbarrier.arrive.noinc) ",
                    owner.cp_async_in_part >= record.clock
                        ? "by every lane that has issued copies, not by some of them, "
                        : "",
                    "in {earlier}", SMALLER_N, then_barrier,
                    attempt.async_proxy ? ", and fence.proxy.async between the two." : ".");
    }
    case MBARRIER: {
      const MbarrierState& mbarrier = *state_.mbarrier_of(record.agent);
      const std::string bytes = too_few_bytes(state_, mbarrier, attempt);
      if (!bytes.empty()) return bytes;
      const uint32_t phase = record.clock - 1;
      if (!record.write) {
        return joined("a wait for the copy where it lands, on ", text_of(mbarrier), " (phase ",
                      phase,
                      "), and an arrive or barrier behind it that {later} waits for before "
                      "{later_op}: the copy has read its source then.",
                      state_.opcode_at(attempt.pc).starts_with("tensormap.")
                          ? " cp.async.bulk.wait_group waits for no copy that completes on an "
                            "mbarrier."
                          : "");
      }
      if (attempt.write && state_.is_mbarrier(attempt.agent)) {
        return "mbarrier.try_wait by {later} before {later_op}, on an mbarrier on which each warp "
               "arrives that has read what the earlier copy brought (by wgmma, ldmatrix, "
               "ld.shared): its slot is empty then." +
               empty_wait(state_, *attempt.by);
      }
      const bool waited_there = attempt.by->waited_for == mbarrier.address;
      const std::string elsewhere = waited_there ? "" : other_wait(state_, attempt);
      return joined("mbarrier.try_wait by {later} on ", text_of(mbarrier), ", for its phase ",
                    phase, " (parity ", phase & 1, "), before {later_op}.", elsewhere,
                    waited_there || (elsewhere.empty() && has_waited(*attempt.by, mbarrier))
                        ? " The wait that it made there was for another phase: look at its parity, "
                          "for an expect_tx of fewer bytes than all copies bring, those of other "
                          "CTAs, too, for an arrive in front of it, or for a count of "
                          "mbarrier.init that is less than arrive: each ends a phase too early."
                        : "");
    }
    default:
      return counter(attempt, record) + remedy_by_barrier(state_, attempt, record);
  }
}

bool CheckerState::are_apart_by_wgmma_fence(const Attempt& attempt, const Record& record) const {
  const AgentKind kind = kind_of(record.agent);
  if (kind != WGMMA_READS && kind != ALL_LANES) return false;
  const WarpState& before = warp_of(record.agent);
  const auto is_of_warpgroup = [&](const WarpState& state) {
    return state.warp.cta == before.warp.cta && state.warp.index / 4 == before.warp.index / 4;
  };
  // A write that comes late here: the fence that is to come holds up the warp that has read.
  if (kind == WGMMA_READS) {
    return !attempt.async_proxy && is_of_warpgroup(*attempt.by) &&
           attempt.by->wgmma_fences < before.fences_before(record.clock);
  }
  const uint32_t fence = before.fence_behind(record.clock);
  if (is_of_warpgroup(*attempt.by) && kind_of(attempt.agent) == WGMMA_READS) {
    const Clocks& fenced = before.knows.of_warp().views[ASYNC_SHARED];
    const bool lacks_proxy_fence = before.wgmma_fences >= fence && record.write &&
                                   clock_of(fenced, record.agent) < record.clock;
    return fence <= attempt.by->wgmma_fences && !lacks_proxy_fence;
  }
  // Or who accesses now has heard of another warp of the warpgroup behind that fence.
  return std::ranges::any_of(warps, [&](const WarpState& state) {
    if (!is_of_warpgroup(state) || state.wgmma_fences < fence) return false;
    const Clocks& known = attempt.known->views[GENERIC];
    const uint32_t agent = state.knows.agent(ALL_LANES);
    const uint32_t heard = std::max(clock_of(known, agent), clock_of(known, agent + SOME_LANES));
    return heard > state.clock_at_fence(fence);
  });
}

std::string RaceReport::slot_that_is_left(const WarpState& reader, uint32_t pc,
                                          const Shadow& shadow, uint32_t index,
                                          uint32_t writer) const {
  const auto found = reader.descriptors.find(pc);
  if (found == reader.descriptors.end() || pc >= state_.program.code.size()) return "";
  const uint32_t offset = SMEM_BASE + index * CELL_BYTES;
  for (const WgmmaOperand& operand :
       wgmma_operands(reader.warp, state_.program.code[pc], found->second)) {
    const uint32_t begin = operand.extent.address, end = begin + operand.extent.bytes;
    if (offset < begin / CELL_BYTES * CELL_BYTES || offset >= end) continue;
    // Its first bytes are there, and came with another copy.
    if (begin < SMEM_BASE || (begin - SMEM_BASE) / CELL_BYTES >= shadow.cells.size()) continue;
    const Cell& first = shadow.cells[(begin - SMEM_BASE) / CELL_BYTES];
    const Record came = first.record(), here = shadow.cells[index].record();
    if (first.written() == 0 || came.agent == here.agent || came.agent == writer ||
        !state_.is_mbarrier(came.agent) || (here.clock != 0 && !state_.is_mbarrier(here.agent)) ||
        clock_of(reader.knows.of_warp().views[GENERIC], came.agent) < came.clock) {
      continue;
    }
    return joined("the descriptor of ", std::string(1, operand.name), " leaves its slot. ",
                  descriptor_text(operand.descriptor), " spans shared ", hex(begin), " to ",
                  hex(end), "; the copies that complete on ",
                  text_of(*state_.mbarrier_of(came.agent)),
                  " brought its first bytes, but not those from ", hex(offset), " on.\n  ");
  }
  return "";
}

// A wait that has asked for a phase before the one under way has returned at once. A warp whose
// first wait did, as who fills a ring for the first time, is one wait ahead of the phases.
std::string RaceReport::early_wait_line(const WarpState& by) const {
  const auto found = state_.mbarriers.find(by.waited_for);
  if (found == state_.mbarriers.end() || by.warp.in_cluster >= found->second.waits.size())
    return "";
  const MbarrierState& mbarrier = found->second;
  const Waits& of_warp = mbarrier.waits[by.warp.in_cluster];
  const uint32_t waits = of_warp.count - mbarrier.made_in;
  const uint32_t phases = mbarrier.phase - mbarrier.made_in;
  if (waits <= phases + of_warp.ahead) return "";
  return joined(
      "\n  waited:  ", describe_role(by.warp), " has waited ", waits,
      waits == 1 ? " time" : " times", " for ", text_of(mbarrier), ", of which ", phases,
      phases == 1 ? " phase is" : " phases are",
      " complete: a wait asked for a phase that was over, by a wrong parity or an old state");
}

// A warp has waited for an mbarrier, on which the other side has not arrived: a count that is too
// low, an arrive that is missing, or one that was made too early. One on which copies complete is
// theirs.
std::string RaceReport::arrived_line(const WarpState& by, const char* who, uint32_t agent,
                                     const char* other) const {
  const auto found = state_.mbarriers.find(by.waited_for);
  const auto object = state_.cluster.mbarriers.find(by.waited_for);
  const uint32_t warp = agent / AGENTS_OF_WARP;
  if (state_.is_mbarrier(agent) || found == state_.mbarriers.end() ||
      found->second.issuer != nullptr || object == state_.cluster.mbarriers.end() ||
      found->second.arrived == 0 || warp >= 64 || (found->second.arrived >> warp & 1)) {
    return "";
  }
  std::set<const Warp*> arrived;
  for (uint32_t i = 0; i < state_.warp_count() && i < 64; ++i) {
    if (found->second.arrived >> i & 1) arrived.insert(&state_.warps[i].warp);
  }
  return joined("\n  waited:  ", who, ", for phase ", found->second.phase - 1, " of ",
                text_of(found->second), ", whose count is ", arrivals_expected(object->second),
                " and on which ", describe_roles(arrived), " arrived: ", other,
                " is not among them");
}

std::string RaceReport::waited_line(const Attempt& attempt, const Record& record) const {
  std::string line;
  if (attempt.write && !record.write) {
    line = arrived_line(*attempt.by, "{later}", record.agent, "{earlier}");
  }
  if (line.empty()) line = early_wait_line(*attempt.by);
  const bool by_warp = line.empty() && !state_.is_mbarrier(record.agent);
  return by_warp ? early_wait_line(state_.warp_of(record.agent)) : line;
}

// Of who reads what the other is yet to write.
std::string RaceReport::waited_line_of_reader(const WarpState& reader, uint32_t writer) const {
  const std::string line = arrived_line(reader, "{earlier}", writer, "{later}");
  return line.empty() ? early_wait_line(reader) : line;
}

// The writer's CTA has released something that the later access is behind: one thread may have spoken
// for all of it, without waiting for the others.
std::string RaceReport::spoken_for(const Attempt& attempt, const GlobalRecord& with) const {
  const Knowledge* const known = attempt.known->of_cluster(with.cluster, false);
  if (known == nullptr || !in_generic_proxy(with.agent, state_.warp_count())) return "";
  const uint32_t warps = state_.cluster.grid->warps_per_cta;
  const uint32_t rank = with.agent / AGENTS_OF_WARP / warps;
  const auto has_spoken = [&](uint32_t warp) {
    const uint32_t agent = warp * AGENTS_OF_WARP;
    const Clocks& clocks = known->views[GENERIC];
    return clock_of(clocks, agent + ALL_LANES) != 0 || clock_of(clocks, agent + SOME_LANES) != 0;
  };
  for (uint32_t warp = rank * warps; warp < (rank + 1) * warps; ++warp) {
    if (!has_spoken(warp)) continue;
    return joined(
        "bar.sync (__syncthreads) between {earlier_op} and the flag or counter, if a thread of CTA "
        "(",
        text_of(cta_at(*state_.cluster.grid, with.cluster, rank)), ") sets it for all. Else: ");
  }
  return "";
}

// Both are of one statement, which several threads execute on one place: no barrier can stand between.
std::string RaceReport::one_statement(const Attempt& attempt, const GlobalRecord& with) const {
  if (attempt.strong || with.strong || !attempt.write || !with.write) return "";
  if (attempt.async_proxy) {
    if (attempt.pc != with.pc || with.cluster == state_.id) return "";
    return "a place of its own for each CTA's copy: its address or coordinates leave out the CTA, "
           "or its box reaches into a neighbour's, if it was to have one. Else: ";
  }
  if (attempt.pc == with.pc) {
    return "a place of its own for each thread: its address leaves out the thread or the CTA, if "
           "it was to have one. Else: ";
  }
  const std::string place = state_.program.place(attempt.pc);  // an unrolled loop has several
  if (place.empty() || place != state_.program.place(with.pc)) return "";
  return "a place of its own for each thread: its address runs into a neighbour's, if it was to "
         "have one. Else: ";
}

std::string RaceReport::by_grid_sync() const {
  if (!state_.cluster.grid->config.cooperative) return "";
  return " The launch is cooperative: grid.sync() between the two orders them for all CTAs.";
}

// A kernel that swaps may have a lock.
std::string RaceReport::by_lock(const char* fence) const {
  const bool may_lock = std::ranges::any_of(state_.program.statements, [](const Statement* each) {
    return each->opcode.starts_with("atom.") && (each->opcode.find(".cas.") != std::string::npos ||
                                                 each->opcode.find(".exch.") != std::string::npos);
  });
  if (!may_lock) return "";
  return joined(" Lanes that take turns by a lock: ", fence,
                " behind taking it and before giving it back.");
}

// One line that reads and writes by one address.
std::string RaceReport::counter(const Attempt& attempt, const Record& with) const {
  const auto address = [this](uint32_t pc) {
    const std::vector<Operand>& all = state_.program.statements[pc]->operands;
    const auto at = std::ranges::find(all, Operand::Kind::address, &Operand::kind);
    return at == all.end() ? std::tuple(-1, int64_t{0}, std::string())
                           : std::tuple(at->parts[0].reg, at->offset, at->parts[0].name);
  };
  const std::string place = state_.program.place(attempt.pc);
  if (place.empty() || place != state_.program.place(with.pc) || attempt.pc == with.pc ||
      attempt.strong || with.strong || address(attempt.pc) != address(with.pc)) {
    return "";
  }
  return "an atomic in place of the two, if this line changes a counter or a sum. Else: ";
}

std::string RaceReport::remedy_at_exit(const Shadow::Visit& visit, const Warp& exits) const {
  const Record& record = visit.record;
  const std::string cluster =
      "barrier.cluster.arrive and barrier.cluster.wait by all threads of the cluster before they "
      "exit.";
  const auto is_in = [&](const Knowledge& known) {
    return is_ordered(known, GENERIC, record, 0xff, state_.warp_count());
  };
  const auto has_heard = [&](const WarpState& state) {
    return state.warp.cta == exits.cta && is_in(state.unfenced);
  };
  if (is_in(state_.unreleased) && std::ranges::any_of(state_.warps, has_heard)) {
    return "barrier.cluster.arrive.release in place of .relaxed, in {later} behind {later_op}: a "
           "relaxed arrive does not say that what stands in front of it is over.";
  }
  if (visit.phase > 0) {
    return joined("a wait for that phase of the mbarrier (", visit.phase - 1, ", parity ",
                  (visit.phase - 1) & 1, ") by the CTA that exits, or ", cluster);
  }
  if (state_.kind_of(record.agent) == MBARRIER) {
    return (record.write ? "an mbarrier wait for the copy before the CTA exits, or, where a peer "
                           "waits for it, "
                         : "an mbarrier wait for the copy where it lands, then ") +
           cluster;
  }
  if (state_.kind_of(record.agent) != BULK_READS) return cluster;
  return wait_for_read(state_, record) + ", before its CTA exits.";
}

std::string RaceReport::remedy_between_clusters(const Attempt& attempt,
                                                const GlobalShadow::Conflict& conflict) const {
  const GlobalRecord& with = conflict.with;
  if (attempt.strong && with.strong) return wider_scope(state_, attempt, with.pc, ".gpu");
  const std::string fence = "fence.acq_rel.gpu (__threadfence)";
  for (const Snapshot& seen : attempt.known->seen) {
    if (!seen || !is_known(*seen, GENERIC, conflict)) continue;
    return fence +
           " in {later}, behind the atomic or load that saw the counter or flag and before "
           "{later_op}. The other fence, behind {earlier_op}, is there.";
  }
  for (const WarpKnowledge::Extra& extra : attempt.by->knows.extras()) {
    if (!is_known(extra.known, GENERIC, conflict)) continue;
    return "bar.sync (__syncthreads), or bar.warp.sync, in {later} behind the fence: only some of "
           "its lanes have seen the counter or flag.";
  }
  // One thread may have seen the flag for its CTA.
  for (const WarpState& of : state_.warps) {
    if (of.warp.cta != attempt.by->warp.cta) continue;
    if (is_known(of.unscoped, GENERIC, conflict)) {
      return "scope .gpu, or a wider one, in all that hands it on: " + describe_role(of.warp) +
             " has seen the counter or flag behind {earlier_op} of {earlier}, but the release (or "
             "fence and store) there or the acquire here is of scope .cta or .cluster, which "
             "leaves the other out.";
    }
    if (is_known(of.unfenced, GENERIC, conflict)) {
      return fence +
             " behind {earlier_op} in {earlier}, and before its atomic on the counter or "
             "store of the flag, which " +
             describe_role(of.warp) + " has seen: it is that fence, the writer's, that is missing.";
    }
  }
  const bool is_copy = !in_generic_proxy(with.agent, state_.warp_count());
  return joined(
      one_statement(attempt, with), counter(attempt, with.record()), flag_itself(attempt, with),
      spoken_for(attempt, with),
      is_copy && with.write ? "cp.async.bulk.wait_group (without .read) by who committed it; " : "",
      fence,
      " behind {earlier_op} and an atomic or store of a flag; a load or atomic that sees "
      "the flag, and ",
      fence, ", before {later_op}",
      attempt.reads_map     ? "; fence.proxy.tensormap, releasing and acquiring, too."
      : attempt.async_proxy ? "; fence.proxy.async.global, too."
                            : ".",
      with.write ? "" : " The other way round, if {earlier_op} is to read what that stores.");
}

}  // namespace machine
