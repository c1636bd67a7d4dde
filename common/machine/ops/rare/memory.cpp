// Tests of addresses, and hints to caches, which do nothing here: instructions that no kernel of this
// repository has, but other people's do.

#include "common/machine/ops/address.h"
#include "common/machine/run/allocations.h"

namespace machine {
namespace {

Step is_in_space(Warp& warp, const Inst& inst, uint32_t mask) {
  const Where space = inst.as<Where>();
  const Slot& a = inst.slots[1];
  const uint32_t result = lanes_where(mask, [&](uint32_t lane) {
    const uint64_t address = value_of(warp, a, lane), window = address & WINDOW_MASK;
    const bool own = static_cast<uint32_t>(address) >> RANK_SHIFT == warp.cta->rank;
    return space == Where::global           ? window == 0
           : space == Where::local          ? window == LOCAL_WINDOW
           : space == Where::param          ? window == PARAM_WINDOW
           : space == Where::shared_cluster ? window == SHARED_WINDOW
                                            : window == SHARED_WINDOW && own;
  });
  set_pred(warp, inst.op[0], mask, result);
  return Step::next;
}
// A .const variable is known by the name of its allocation.
Step is_in_const(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t result = lanes_where(mask, [&](uint32_t lane) {
    Allocation at;
    const bool found = find_allocation(value_of(warp, inst.slots[1], lane), &at);
    return found && at.what.starts_with("constant ");
  });
  set_pred(warp, inst.op[0], mask, result);
  return Step::next;
}
Handler pick_isspacep(Opcode& opcode) {
  if (opcode.has(".const")) return is_in_const;
  opcode.set(where(opcode));
  return is_in_space;
}

Step create_policy(Warp& warp, const Inst& inst, uint32_t mask) {
  uint64_t* const d = warp.row<uint64_t>(inst.op[0]);
  for_lanes(mask, [d](uint32_t lane) { d[lane] = 0; });
  return Step::next;
}
const Row ROWS[] = {
    {"isspacep{.global,.shared,.shared::cta,.shared::cluster,.local,.const,.param,.param::entry}",
     "p:p, a:x", pick_isspacep, "p = whether the generic address a is in the space"},
    {"prefetch{.global,.local,}{.L1,.L2,.L2::evict_last,.L2::evict_normal}", "[a]",
     always<no_operation>, "nothing"},
    {"prefetchu.L1", "[a]", always<no_operation>, "nothing"},
    {"applypriority{.global,}.L2::evict_normal", "[a], *", always<no_operation>, "nothing"},
    {"discard{.global,}.L2", "[a], *", always<no_operation>, "nothing"},
    {"createpolicy{.fractional,.range,}{.global,}{.cvt.L2,.L2::evict_last,.L2::evict_normal,"
     ".L2::evict_first,.L2::evict_unchanged}{.L2::evict_first,.L2::evict_unchanged,}.b64",
     "d:t, *", always<create_policy>, "d = a policy, which is ignored"},
};

}  // namespace

const Section sections::RARE_MEMORY{"Rarer: addresses and hints", ROWS};

}  // namespace machine
