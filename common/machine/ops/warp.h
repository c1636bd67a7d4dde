// Instructions that lanes of a warp, warps of a warpgroup or CTAs of a cluster execute together: what
// other families ask of them.
#pragma once

#include <functional>
#include <string>

#include "common/machine/ops/operands.h"
#include "common/machine/run/control.h"

namespace machine {

// What an instruction does for lanes that have come together.
using OfMembers = std::function<void(const Inst& inst, uint32_t lanes)>;
// Whether the lanes of one member mask are here and wait at other instructions of the kind: f is called
// for all, with an instruction that has the operands of each, and they go on.
bool meet_elsewhere(Warp& warp, const Inst& inst, uint32_t mask, const OfMembers& f);

// Calls f(inst, lanes) for the lanes of each member mask, the last operand, once they are all here, and
// lets these go on. Lanes that have exited, or that the guard keeps out, cannot come.
template <class F>
Step for_members(Warp& warp, const Inst& inst, uint32_t mask, F&& f) {
  const uint32_t* const masks = warp.row<uint32_t>(inst.slots[inst.slot_count - 1].row);
  const uint32_t here = warp.current->mask;
  uint32_t waiting = 0;  // for other lanes of their mask
  for (uint32_t rest = mask; rest != 0;) {
    const uint32_t lane = first_lane(rest);
    if (!(masks[lane] >> lane & 1)) {
      stop(warp, 1u << lane, "Lane ", lane, " executes it, but is not in its member mask ",
           hex(masks[lane]), ".");
    }
    const auto agrees = [&](uint32_t other) { return masks[other] == masks[lane]; };
    if (const uint32_t others = masks[lane] & mask & ~lanes_where(FULL, agrees)) {
      const uint32_t other = first_lane(others);
      stop(warp, 1u << lane, "Lane ", lane, " has the member mask ", hex(masks[lane]),
           ", and lane ", other, ", which is in it, ", hex(masks[other]),
           ": lanes that meet must name the same.");
    }
    if (masks[lane] & warp.live & ~here) waiting |= masks[lane] & here;
    rest &= ~masks[lane];
  }
  if (waiting != 0 && meet_elsewhere(warp, inst, mask, f)) return Step::next;
  for (uint32_t rest = mask & ~waiting; rest != 0;) {
    const uint32_t lanes = rest & masks[first_lane(rest)];
    f(inst, lanes);
    rest &= ~lanes;
  }
  if (waiting == 0) return Step::next;
  warp.current->wait = WaitFor::other_lanes;
  if (waiting == here) return Step::wait;
  go(warp, here & ~waiting, warp.current->pc + 1);
  return Step::jump;
}

// All warps of a warpgroup execute the same setmaxnreg; one that has exited never will.
void check_warpgroup_sets_registers(Warp& warp, uint32_t mask);
// "240 registers a thread: it has 168, and of the CTA's 64512 (168 for each of 384 threads) …"
std::string registers_text(const Warp& warp, uint32_t count);

}  // namespace machine
