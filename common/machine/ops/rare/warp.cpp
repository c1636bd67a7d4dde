// Instructions of a warp's lanes together that few kernels of this repository have, or none. It
// knows nothing of memory.
#include "common/machine/ops/warp.h"

#include "common/machine/ops/matrix.h"
#include "common/machine/ops/reduction.h"

namespace machine {
namespace {

enum class Vote : uint8_t { all, any, uni, ballot };

// d, a, members
template <Vote MODE>
Step vote(Warp& warp, const Inst& inst, uint32_t mask) {
  return for_members(warp, inst.slots[2], mask, [&](uint32_t lanes) {
    const uint32_t yes = get_pred(warp, inst.slots[1]) & lanes;
    if constexpr (MODE == Vote::ballot) {
      set_value(warp, inst.slots[0], lanes, yes);
    } else {
      const bool result = (MODE != Vote::any && yes == lanes) || (MODE == Vote::any && yes != 0) ||
                          (MODE == Vote::uni && yes == 0);
      set_pred(warp, inst.slots[0].row, lanes, result ? FULL : 0);
    }
  });
}

// d, a, members: who has the same value
Step match_any(Warp& warp, const Inst& inst, uint32_t mask) {
  return for_members(warp, inst.slots[2], mask, [&](uint32_t lanes) {
    uint32_t* const d = warp.row<uint32_t>(inst.slots[0].row);
    uint64_t values[LANES];
    for_lanes(lanes, [&](uint32_t lane) { values[lane] = value_of(warp, inst.slots[1], lane); });
    for_lanes(lanes, [&](uint32_t lane) {
      d[lane] = lanes_where(lanes, [&](uint32_t other) { return values[other] == values[lane]; });
    });
  });
}

// d|p, a, members: all of them, if all have the same value
Step match_all(Warp& warp, const Inst& inst, uint32_t mask) {
  const Slot* const last = inst.slots + inst.slot_count - 1;
  return for_members(warp, *last, mask, [&](uint32_t lanes) {
    const uint64_t value = value_of(warp, last[-1], first_lane(lanes));
    bool same = true;
    for_lanes(lanes, [&](uint32_t lane) { same &= value_of(warp, last[-1], lane) == value; });
    set_value(warp, inst.slots[0], lanes, same ? lanes : 0);
    if (inst.slot_count > 3) set_pred(warp, inst.slots[1].row, lanes, same ? FULL : 0);
  });
}

// d, a, members
template <Reduction OP, class T>
Step redux(Warp& warp, const Inst& inst, uint32_t mask) {
  return for_members(warp, inst.slots[2], mask, [&](uint32_t lanes) {
    const T* const a = warp.row<T>(inst.slots[1].row);
    T total = a[first_lane(lanes)];
    for_lanes(lanes & (lanes - 1), [&](uint32_t lane) { total = reduced(OP, total, a[lane]); });
    set_value(warp, inst.slots[0], lanes, static_cast<uint32_t>(total));
  });
}

Handler pick_redux(Opcode& opcode) {
  const bool is_signed = opcode.type() == Type::s32;
  if (opcode.has(".add")) return redux<Reduction::add, uint32_t>;
  if (opcode.has(".min"))
    return is_signed ? redux<Reduction::min, int32_t> : redux<Reduction::min, uint32_t>;
  return is_signed ? redux<Reduction::max, int32_t> : redux<Reduction::max, uint32_t>;
}

Step active_mask(Warp& warp, const Inst& inst, uint32_t mask) {
  set_value(warp, inst.slots[0], mask, mask);
  return Step::next;
}

// d, a
template <bool GENERIC>
Step get_rank(Warp& warp, const Inst& inst, uint32_t mask) {
  const SharedSpace space = GENERIC ? SharedSpace::generic : SharedSpace::cluster;
  for_lanes(mask, [&](uint32_t lane) {
    const uint32_t address = shared_address(warp, inst.slots[1], lane, space, "getctarank");
    set_value(warp, inst.slots[0], 1u << lane, address >> RANK_SHIFT);
  });
  return Step::next;
}

Step movmatrix(Warp& warp, const Inst& inst, uint32_t) {
  transpose_matrix(warp.row<uint32_t>(inst.op[1]), warp.row<uint32_t>(inst.op[0]));
  return Step::next;
}

const Row ROWS[] = {
    {"vote.sync.all.pred", "d:p, a:p, members:32", always<vote<Vote::all>>, "whether all are true"},
    {"vote.sync.any.pred", "d:p, a:p, members:32", always<vote<Vote::any>>, "whether any is true"},
    {"vote.sync.uni.pred", "d:p, a:p, members:32", always<vote<Vote::uni>>,
     "whether all are the same"},
    {"vote.sync.ballot.b32", "d:32, a:p, members:32", always<vote<Vote::ballot>>,
     "the lanes that are true"},
    {"match.any.sync{.b32,.b64}", "d:32, a:t, members:32", always<match_any>,
     "the lanes with the same a"},
    {"match.all.sync{.b32,.b64}", "d:32|p:p, a:t, members:32", always<match_all>,
     "all lanes, if all have the same a"},
    {"redux.sync{.add,.min,.max}{.u32,.s32}", "d:32, a:32, members:32", pick_redux,
     "sum, least or greatest of the lanes"},
    {"redux.sync.and.b32", "d:32, a:32, members:32", always<redux<Reduction::bit_and, uint32_t>>,
     "and of the lanes"},
    {"redux.sync.or.b32", "d:32, a:32, members:32", always<redux<Reduction::bit_or, uint32_t>>,
     "or of the lanes"},
    {"redux.sync.xor.b32", "d:32, a:32, members:32", always<redux<Reduction::bit_xor, uint32_t>>,
     "xor of the lanes"},
    {"activemask.b32", "d:32", always<active_mask>, "the lanes that execute together"},
    {"getctarank{.u32,.u64}", "d:32, a:t", always<get_rank<true>>,
     "the rank of the CTA whose memory is at generic address a"},
    {"getctarank.shared::cluster{.u32,.u64}", "d:32, a:t", always<get_rank<false>>,
     "the rank of the CTA whose memory is at shared address a"},
    {"movmatrix.sync.aligned.m8n8.trans.b16", "d:32, a:32", together<movmatrix>,
     "transpose an 8x8 matrix between lanes"},
};

}  // namespace

const Section sections::RARE_WARP{"Rarer: lanes together", ROWS};

}  // namespace machine
