// Bulk copies between the CTAs of a cluster, and reductions in place of copies: no kernel of this
// repository has them, but other people's do. It knows nothing of how boxes lie in memory.
#include <utility>

#include "common/machine/ops/async.h"

namespace machine {
namespace {

// Of cp.reduce.async.bulk and red.async.
TensorType tensor_type(Type type) {
  constexpr std::pair<Type, TensorType> TYPES[] = {
      {Type::b32, TensorType::u32}, {Type::u32, TensorType::u32},   {Type::s32, TensorType::s32},
      {Type::b64, TensorType::u64}, {Type::u64, TensorType::u64},   {Type::s64, TensorType::s64},
      {Type::f16, TensorType::f16}, {Type::bf16, TensorType::bf16}, {Type::f32, TensorType::f32}};
  for (const auto& [from, to] : TYPES) {
    if (from == type) return to;
  }
  return TensorType::f64;
}

Reducer reducer_in(const Inst& inst, uint32_t* step) {
  const auto qualifiers = inst.as<CopyQualifiers>();
  *step = element_bytes(qualifiers.type);
  return reducer_of(qualifiers.reduction, qualifiers.type);
}

template <Handler F>
Handler pick_reduction(Opcode& opcode) {
  CopyQualifiers qualifiers = copy_qualifiers(opcode);
  qualifiers.type = tensor_type(opcode.type());
  opcode.set(qualifiers);
  return reducer_of(qualifiers.reduction, qualifiers.type) != nullptr ? F : nullptr;
}

// [d], [a], bytes, [mbarrier]: from this CTA's shared memory to another's
Step bulk_pass(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "cp.async.bulk";
  warp.loads_bulk = true;
  uint32_t step = 0;
  const Reducer reducer = reducer_in(inst, &step);
  for_lanes(mask, [&](uint32_t lane) {
    const Target target =
        targets_of(warp, inst, lane, inst.slots[0], inst.slots[3], nullptr, what)[0];
    const uint32_t from = shared_address(warp, inst.slots[1], lane, SharedSpace::cta, what);
    const uint32_t bytes = bulk_bytes(warp, inst.slots[2], lane, target.address, from, what);
    std::byte* const to = shared_bytes(warp, 1u << lane, target.address, bytes, what);
    const std::byte* const source = shared_bytes(warp, 1u << lane, from, bytes, what);
    start({warp, 1u << lane, true}, target, bytes, [=](const Flight& at_issue) {
      at_issue.reads_shared(from, bytes);
      at_issue.writes_shared(target.address, bytes);
      put(to, source, bytes, reducer, step);
      at_issue.has_written(to, bytes);
    });
  });
  return Step::next;
}

template <Step REDUCE(Warp&, const Inst&, uint32_t, Reducer, uint32_t)>
Step reduce(Warp& warp, const Inst& inst, uint32_t mask) {
  uint32_t step = 0;
  const Reducer reducer = reducer_in(inst, &step);
  return REDUCE(warp, inst, mask, reducer, step);
}

Reducer reducer_of_map(Warp& warp, uint32_t lane, const Inst& inst, TensorType type) {
  const Reduction op = inst.as<CopyQualifiers>().reduction;
  const Reducer reducer = reducer_of(op, type);
  if (reducer != nullptr) return reducer;
  stop(warp, 1u << lane, "cp.reduce.async.bulk.tensor: there is no ",
       REDUCTIONS[static_cast<size_t>(op)], " of the tensor's element type.");
}

Step reduce_tensor(Warp& warp, const Inst& inst, uint32_t mask) {
  return tensor_store(warp, inst, mask, reducer_of_map);
}

// [a], bytes
Step bulk_prefetch(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "cp.async.bulk.prefetch";
  for_lanes(mask, [&](uint32_t lane) {
    const uint64_t from = global_address(warp, inst.slots[0], lane);
    const uint32_t bytes = bulk_bytes(warp, inst.slots[1], lane, 0, from, what);
    check_global(warp, lane, from, bytes, what);
  });
  return Step::next;
}

const Row ROWS[] = {
    {"cp.async.bulk.shared::cluster.shared::cta" BYTES_TO_MBARRIER,
     "[d], [a], bytes:32, [mbarrier]", pick_copy<bulk_pass>, "copy to a CTA of the cluster"},
    {"cp.reduce.async.bulk.shared::cluster.shared::cta" BYTES_TO_MBARRIER REDUCTION
     "{.b32,.u32,.s32,.b64,.u64,.s64}",
     "[d], [a], bytes:32, [mbarrier]", pick_reduction<bulk_pass>,
     "combine with another CTA's memory"},
    {"cp.reduce.async.bulk.global.shared::cta.bulk_group" HINT REDUCTION
     "{.noftz,}{.b32,.u32,.s32,.b64,.u64,.s64,.f16,.bf16,.f32,.f64}",
     "[d], [a], bytes:32, *", pick_reduction<reduce<bulk_store>>, "combine with global memory"},
    {"red.async{.relaxed,}{.cluster,}.shared::cluster" BYTES_TO_MBARRIER REDUCTION
     "{.b32,.u32,.s32,.u64}",
     "[d], a:t, [mbarrier]", pick_reduction<reduce<store_async>>, "combine with a CTA's memory"},
    {"cp.reduce.async.bulk.tensor" RANKS ".global.shared::cta" REDUCTION "{.tile,}.bulk_group" HINT,
     "[map, {x}], [a], *", pick_copy<reduce_tensor>, "combine a box with global memory"},
    {"cp.async.bulk.prefetch.L2.global" HINT, "[a], bytes:32, *", always<bulk_prefetch>,
     "nothing, but the addresses must be legal"},
};

}  // namespace

const Section sections::RARE_BULK{"Rarer: bulk copies", ROWS};

}  // namespace machine
