// What lanes of a warp do together that the kernels of this repository do not ask for. It knows nothing of
// memory.
#include "common/machine/ops/warp.h"

#include "common/machine/ops/matrix.h"
#include "common/machine/ops/reduction.h"

namespace machine {
namespace {

// d, a, members: who has the same value
Step match_any(Warp& warp, const Inst& one, uint32_t mask) {
  return for_members(warp, one, mask, [&](const Inst& inst, uint32_t lanes) {
    uint32_t* const d = warp.row<uint32_t>(inst.slots[0].row);
    uint64_t values[LANES];
    for_lanes(lanes, [&](uint32_t lane) { values[lane] = value_of(warp, inst.slots[1], lane); });
    for_lanes(lanes, [&](uint32_t lane) {
      d[lane] = lanes_where(lanes, [&](uint32_t other) { return values[other] == values[lane]; });
    });
  });
}

// d|p, a, members: all of them, if all have the same value
Step match_all(Warp& warp, const Inst& one, uint32_t mask) {
  return for_members(warp, one, mask, [&](const Inst& inst, uint32_t lanes) {
    const Slot* const last = inst.slots + inst.slot_count - 1;
    const uint64_t value = value_of(warp, last[-1], first_lane(lanes));
    bool same = true;
    for_lanes(lanes, [&](uint32_t lane) { same &= value_of(warp, last[-1], lane) == value; });
    set_value(warp, inst.slots[0], lanes, same ? lanes : 0);
    if (inst.slot_count > 3) set_pred(warp, inst.slots[1].row, lanes, same ? FULL : 0);
  });
}

// d, a, members
template <class T>
Step redux(Warp& warp, const Inst& one, uint32_t mask) {
  return for_members(warp, one, mask, [&](const Inst& inst, uint32_t lanes) {
    const T* const a = warp.row<T>(inst.slots[1].row);
    T total = a[first_lane(lanes)];
    for_lanes(lanes & (lanes - 1),
              [&](uint32_t lane) { total = reduced(inst.as<Reduction>(), total, a[lane]); });
    set_value(warp, inst.slots[0], lanes, static_cast<uint32_t>(total));
  });
}

Handler pick_redux(Opcode& opcode) {
  opcode.set(reduction_of(opcode));
  return is_signed(opcode.type()) ? redux<int32_t> : redux<uint32_t>;
}

Step active_mask(Warp& warp, const Inst& inst, uint32_t mask) {
  set_value(warp, inst.slots[0], mask, mask);
  return Step::next;
}

Step movmatrix(Warp& warp, const Inst& inst, uint32_t) {
  transpose_matrix(warp.row<uint32_t>(inst.op[1]), warp.row<uint32_t>(inst.op[0]));
  return Step::next;
}

// d, a
template <bool GENERIC>
void get_rank(Warp& warp, const Inst& inst, uint32_t lane) {
  const SharedSpace space = GENERIC ? SharedSpace::generic : SharedSpace::cluster;
  const uint32_t address = shared_address(warp, inst.slots[1], lane, space, "getctarank");
  set_value(warp, inst.slots[0], 1u << lane, address >> RANK_SHIFT);
}

const Row ROWS[] = {
    {"match.any.sync{.b32,.b64}", "d:32, a:t, members:32", always<match_any>,
     "the lanes with the same a"},
    {"match.all.sync{.b32,.b64}", "d:32|p:p, a:t, members:32", always<match_all>,
     "all lanes, if all have the same a"},
    {"redux.sync{.add,.min,.max}{.u32,.s32}", "d:32, a:32, members:32", pick_redux,
     "sum, least or greatest of the lanes"},
    {"redux.sync{.and,.or,.xor}.b32", "d:32, a:32, members:32", pick_redux,
     "and, or, xor of the lanes"},
    {"activemask.b32", "d:32", always<active_mask>, "the lanes that execute together"},
    {"movmatrix.sync.aligned.m8n8.trans.b16", "d:32, a:32", together<movmatrix>,
     "transpose an 8x8 matrix between lanes"},
    {"getctarank{.u32,.u64}", "d:32, a:t", always<each_lane<get_rank<true>>>,
     "the rank of the CTA whose memory is at generic address a"},
    {"getctarank.shared::cluster{.u32,.u64}", "d:32, a:t", always<each_lane<get_rank<false>>>,
     "the rank of the CTA whose memory is at shared address a"},
};

}  // namespace

const Section sections::RARE_WARP{"Rarer: lanes of a warp together", ROWS};

}  // namespace machine
