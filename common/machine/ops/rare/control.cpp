// Branches that each lane picks the target of, and control instructions that do nothing here: no
// kernel of this repository has them. It knows nothing of when a warp runs.
#include "common/machine/run/control.h"

#include "common/machine/ops/operands.h"

namespace machine {

void go_by_lane(Warp& warp, uint32_t mask, const uint32_t* targets) {
  const Fragment from = *warp.current;
  warp.fragments.erase(warp.fragments.begin() + (warp.current - warp.fragments.data()));
  warp.current = nullptr;
  const auto add = [&warp](uint32_t pc, uint32_t lanes) {
    Fragment& part = warp.fragments.emplace_back();
    part.pc = pc;
    part.mask = lanes;
  };
  if (from.mask != mask) add(from.pc + 1, from.mask & ~mask);
  for_groups(mask, [targets](uint32_t lane) { return targets[lane]; }, add);
}

namespace {

// brx.idx: slots behind the index are the targets.
Step branch_table(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t* const index = warp.row<uint32_t>(inst.op[0]);
  uint32_t targets[LANES] = {};
  for_lanes(mask, [&](uint32_t lane) {
    if (index[lane] + 1 >= inst.slot_count) {
      stop(warp, 1u << lane, "brx.idx has no target ", index[lane], ".");
    }
    targets[lane] = inst.slots[1 + index[lane]].row;
  });
  go_by_lane(warp, mask, targets);
  return Step::jump;
}

const Row ROWS[] = {
    {"brx.idx{.uni,}", "*", always<branch_table>, "go to the label that the index picks"},
    {"brkpt", "", always<no_operation>, "nothing: no debugger is attached"},
    {"pmevent{.mask,}", "*", always<no_operation>, "nothing: no counters"},
    {"nanosleep.u32", "t:32", always<no_operation>, "nothing"},
};

}  // namespace

const Section sections::RARE_CONTROL{"Rarer: control", ROWS};

}  // namespace machine
