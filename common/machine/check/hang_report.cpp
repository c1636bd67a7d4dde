// Who waits where, and for what. It looks at a state that nothing changes any more, and changes nothing.
#include "common/machine/check/hang_report.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/machine/check/checker.h"
#include "common/machine/ops/barrier.h"
#include "common/machine/ops/mbarrier.h"
#include "common/machine/ops/warp.h"

namespace machine {
namespace {

std::string waits_for(Warp& warp, const Fragment& fragment) {
  switch (fragment.wait) {
    case WaitFor::mbarrier: {
      const Cluster& cluster = *warp.cta->cluster;
      const uint32_t address = fragment.wait_address, parity = fragment.wait_parity;
      const std::string text = "for " + mbarrier_text(*warp.cta->cluster, address, parity);
      if (!cluster.checker || text.find(CAUSE) != std::string::npos) return text;
      const std::string late = cluster.checker->comes_late(warp, address, parity);
      return late.empty() ? text : joined(text, ".", CAUSE, late);
    }
    case WaitFor::named_barrier:
      return "at " + barrier_text(*warp.cta, fragment.wait_address);
    case WaitFor::cluster_barrier:
      return joined("at the cluster's barrier, which ", warp.cta->cluster->barrier_arrived, " of ",
                    warp.cta->cluster->live_threads, " threads have reached");
    case WaitFor::other_lanes: {
      const auto count = std::ranges::count(warp.fragments, WaitFor::other_lanes, &Fragment::wait);
      return std::string(
                 "for the other lanes of the warp, which are elsewhere, at an instruction ") +
             "that all must execute together" +
             (count < 2 ? ""
                        : ".\n    Likely: lanes of one warp wait for each other in two places: all "
                          "that an .aligned instruction waits for must come to the same one, all "
                          "that a member mask names to one of the same kind, with the same mask");
    }
    case WaitFor::wgmma:
      return "for wgmma operations that other warps of its warpgroup have not issued";
    case WaitFor::registers:
      return "for " + registers_text(warp, fragment.wait_address);
    case WaitFor::nothing:
      return "for nothing, in a loop that changes nothing";
  }
  return "";
}

}  // namespace

Error hang_report(const std::vector<Cluster*>& stuck, const std::string& not_begun) {
  Cluster& cluster = *stuck.front();
  const Program& program = *cluster.grid->program;
  struct Waiting {
    std::set<const Warp*> warps;
    uint32_t lanes = 0;
  };
  std::map<std::tuple<uint32_t, std::string, uint32_t>, Waiting> waits;  // by CTA, what for, and pc
  Origin origin;
  bool spins = false, has_cause = false;
  for (Cta& cta : cluster.ctas) {
    for (Warp& warp : cta.warps) {
      for (const Fragment& fragment : warp.fragments) {
        if (origin.warp < 0) origin = origin_of(warp, fragment.pc, fragment.pc);
        spins |= fragment.wait == WaitFor::nothing;
        const std::string what_for = waits_for(warp, fragment);
        has_cause |= what_for.find(CAUSE) != std::string::npos;
        Waiting& same = waits[{cta.rank, what_for, fragment.pc}];
        same.warps.insert(&warp);
        same.lanes += lane_count(fragment.mask);
      }
    }
  }
  std::string text = joined(spins ? "Livelock" : "Deadlock", " in kernel ",
                            source_name(cluster.grid->kernel->name),
                            spins ? ": threads run, but nothing that they do changes memory or a "
                                    "barrier"
                                  : ": no thread can go on");
  if (stuck.size() > 1) text += joined(", in this cluster and ", stuck.size() - 1, " more");
  text += ".";
  for (const auto& [what, who] : waits) {
    auto [rank, what_for, pc] = what;
    if (has_cause && what_for.ends_with(PARITY_GUESS)) {
      what_for.resize(what_for.size() - PARITY_GUESS.size());
    }
    text += "\n  " + describe_roles(who.warps);
    if (who.lanes != who.warps.size() * LANES) {
      text += joined(", ", who.lanes, who.lanes == 1 ? " lane" : " lanes");
    }
    text += joined("\n    ", who.warps.size() == 1 ? "waits " : "wait ", what_for,
                   program.where(pc, "\n    "), "\n    PTX ", program.text(pc));
  }
  if (cluster.checker) text += cluster.checker->read_early();
  const Rule& rule = spins ? rule::LIVELOCK : rule::DEADLOCK;
  return Error(Error::Kind::hang, text + not_begun + report_end(program, rule), rule, origin);
}

}  // namespace machine
