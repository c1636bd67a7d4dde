// Branches and exits: what moves the lanes of a warp to other places of the kernel. Those that send
// each lane where it says are in ops/rare, as calls are. It knows nothing of when a warp runs.
#include "common/machine/run/control.h"

#include <algorithm>
#include <string_view>

#include "common/machine/ops/barrier.h"
#include "common/machine/ops/operands.h"

namespace machine {

void go(Warp& warp, uint32_t mask, uint32_t pc) {
  Fragment& fragment = *warp.current;
  if (mask == fragment.mask) {
    fragment.pc = pc;
    return;
  }
  fragment.mask &= ~mask;
  warp.fragments.push_back({pc, mask});
  warp.current = nullptr;
}

namespace {

Step branch(Warp& warp, const Inst& inst, uint32_t mask) {
  if (mask != warp.current->mask) ++warp.current->pc;  // of the lanes that do not take it
  go(warp, mask, inst.target);
  return Step::jump;
}

Step leave_warp(Warp& warp, const Inst&, uint32_t mask) {
  warp.live &= ~mask;
  threads_exited(warp, mask);
  warp.current->mask &= ~mask;
  ++warp.current->pc;
  if (warp.current->mask == 0) {
    warp.fragments.erase(warp.fragments.begin() + (warp.current - warp.fragments.data()));
  }
  warp.current = nullptr;
  return Step::jump;
}

// Cooperative groups end in one where grid.sync() has no workspace.
Step trap(Warp& warp, const Inst&, uint32_t mask) {
  const Grid& grid = grid_of(warp);
  const auto& specials = program_of(warp).specials;
  const bool may_be_sync =
      grid.workspace == nullptr && std::any_of(specials.begin(), specials.end(), [](auto& special) {
        return std::string_view("%envreg2") == special.what->name;
      });
  stop_as(rule::TRAP, warp, mask, "The kernel ran into a trap instruction.",
          may_be_sync ? " If it is that of grid.sync(): the launch is not cooperative "
                        "(cudaLaunchCooperativeKernel)."
                      : "");
}

const Row ROWS[] = {
    {"bra{.uni,}", "*", always<branch>, "go to a label"},
    {"exit", "", always<leave_warp>, "end the thread"},
    {"ret{.uni,}", "", always<leave_warp>, "return; of an entry: end the thread"},
    {"call{.uni,}", "*", always<no_operation>, "call a function, or what a register points to"},
    {"trap", "", always<trap>, "end the launch in a fault"},
};

}  // namespace

const Section sections::CONTROL{"Control", ROWS};

// A clock that moves with the warp's instructions: loops with time limits end, runs repeat.
Step Control::read_clock(Warp& warp, const Inst& inst, uint32_t mask) {
  uint64_t now = warp.executed + ++warp.clock_readings;
  if (inst.mods != 0) now >>= 32;
  set_value(warp, inst.slots[0], mask, now);
  return Step::next;
}

}  // namespace machine
