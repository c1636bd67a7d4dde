// Who waits where, and for what. It looks at a state that nothing changes any more, and changes nothing.
#include "common/machine/check/hang_report.h"

#include <algorithm>
#include <map>

#include "common/machine/ops/barrier.h"
#include "common/machine/ops/mbarrier.h"
#include "common/machine/ops/warp.h"

namespace machine {
namespace {

std::string waits_for(Warp& warp, const Fragment& fragment) {
  switch (fragment.wait) {
    case WaitFor::mbarrier:
      return "for " +
             mbarrier_text(*warp.cta->cluster, fragment.wait_address, fragment.wait_parity);
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
                          "that a member mask names, or of an .aligned instruction, must come to "
                          "the same one");
    }
    case WaitFor::wgmma:
      return "for wgmma operations that other warps of its warpgroup have not issued";
    case WaitFor::cp_async:
      return "for its copies";
    case WaitFor::registers:
      return "for " + registers_text(warp, fragment.wait_address);
    case WaitFor::nothing:
      return "for nothing, but runs in a loop that changes nothing";
  }
  return "";
}

}  // namespace

std::string hang_report(const std::vector<Cluster*>& stuck, bool* is_livelock) {
  Cluster& cluster = *stuck.front();
  const Program& program = *cluster.grid->program;
  std::string lines;
  bool& spins = *is_livelock = false;
  bool has_cause = false;
  struct Waiting {
    std::set<const Warp*> warps;
    uint32_t lanes = 0;
  };
  // By what for, and where: a pc.
  using Waits = std::map<std::pair<std::string, uint32_t>, Waiting>;
  std::vector<Waits> of_ctas;
  for (Cta& cta : cluster.ctas) {
    Waits& waiting = of_ctas.emplace_back();
    for (Warp& warp : cta.warps) {
      for (const Fragment& fragment : warp.fragments) {
        spins = spins || fragment.wait == WaitFor::nothing;
        const std::string what = waits_for(warp, fragment);
        has_cause = has_cause || what.find(CAUSE) != std::string::npos;
        Waiting& same = waiting[{what, fragment.pc}];
        same.warps.insert(&warp);
        same.lanes += lane_count(fragment.mask);
      }
    }
  }
  for (const Waits& waiting : of_ctas) {
    for (const auto& [what, who] : waiting) {
      std::string what_for = what.first;
      if (has_cause && what_for.ends_with(PARITY_GUESS)) {
        what_for.resize(what_for.size() - PARITY_GUESS.size());
      }
      const bool whole = who.lanes == who.warps.size() * LANES;
      lines += "\n  " + describe_roles(who.warps);
      if (!whole) lines += joined(", ", who.lanes, who.lanes == 1 ? " lane" : " lanes");
      lines +=
          joined("\n    ", who.warps.size() == 1 ? "waits " : "wait ", what_for,
                 program.where(what.second, "\n    "), "\n    PTX ", program.text(what.second));
    }
  }
  const std::string others =
      stuck.size() > 1 ? joined(", in this cluster and ", stuck.size() - 1, " more") : "";
  return joined(spins ? "Livelock in kernel " : "Deadlock in kernel ",
                kernel_text(*cluster.grid->kernel),
                spins ? ": threads run, but nothing that they do changes memory or a barrier"
                      : ": no thread can go on",
                others, ".", lines);
}

Origin hang_origin(const Cluster& stuck) {
  for (const Cta& cta : stuck.ctas) {
    for (const Warp& warp : cta.warps) {
      if (warp.fragments.empty()) continue;
      const uint32_t pc = warp.fragments.front().pc;
      return origin_of(warp, pc, pc);
    }
  }
  return {};
}

}  // namespace machine
