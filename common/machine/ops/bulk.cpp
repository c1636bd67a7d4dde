// Bulk copies and st.async: runs of bytes that complete on an mbarrier or in a bulk group, and what
// they share with tensor copies. It knows nothing of boxes.
#include <array>
#include <utility>

#include "common/machine/ops/async.h"

namespace machine {

void misaligned(Warp& warp, uint32_t lane, uint64_t value, uint32_t alignment, const char* what,
                const char* of) {
  stop_as(rule::MISALIGNED, warp, 1u << lane, what, ": the ", of, " ", hex(value),
          " is not a multiple of ", alignment, ".");
}

uint64_t global_address(Warp& warp, const Slot& slot, uint32_t lane) {
  return value_of(warp, slot, lane) + static_cast<uint64_t>(slot.offset);
}

static TensorType tensor_type(Type type) {
  constexpr std::pair<Type, TensorType> TYPES[] = {
      {Type::b32, TensorType::u32}, {Type::u32, TensorType::u32},   {Type::s32, TensorType::s32},
      {Type::b64, TensorType::u64}, {Type::u64, TensorType::u64},   {Type::s64, TensorType::s64},
      {Type::f16, TensorType::f16}, {Type::bf16, TensorType::bf16}, {Type::f32, TensorType::f32}};
  for (const auto& [from, to] : TYPES) {
    if (from == type) return to;
  }
  return TensorType::f64;
}

CopyQualifiers copy_qualifiers(const Opcode& opcode) {
  CopyQualifiers qualifiers{};
  qualifiers.reduction = reduction_of(opcode);
  qualifiers.type = tensor_type(opcode.type());
  qualifiers.multicast = opcode.has(".multicast::cluster");
  qualifiers.to_own_cta = opcode.has(".shared::cta") && !opcode.has(".shared::cluster");
  qualifiers.rank = which(opcode, {".1d", ".2d", ".3d", ".4d", ".5d"}) & 15;
  return qualifiers;
}

std::vector<Target> targets_of(Warp& warp, const Inst& inst, uint32_t lane, const Slot& address,
                               const Slot& mbarrier, const Slot* multicast, const char* what) {
  const SharedSpace space =
      inst.as<CopyQualifiers>().to_own_cta ? SharedSpace::cta : SharedSpace::cluster;
  const Target first{shared_address(warp, address, lane, space, what),
                     shared_address(warp, mbarrier, lane, space, what)};
  if (first.address >> RANK_SHIFT != first.mbarrier >> RANK_SHIFT) {
    stop(warp, 1u << lane, what, ": the destination ", hex(first.address), " and the mbarrier ",
         hex(first.mbarrier), " are in different CTAs.");
  }
  if (multicast == nullptr) return {first};
  const uint32_t ranks = warp.row<uint32_t>(multicast->row)[lane] & 0xffff;
  const size_t ctas = warp.cta->cluster->ctas.size();
  if (ranks == 0 || ranks >> ctas != 0) {
    stop(warp, 1u << lane, what, ": the multicast mask ", hex(ranks), " must name CTAs of the ",
         "cluster, which has ", ctas, ".");
  }
  std::vector<Target> targets;
  for_lanes(ranks, [&](uint32_t rank) {
    targets.push_back({(first.address & OFFSET_MASK) | rank << RANK_SHIFT,
                       (first.mbarrier & OFFSET_MASK) | rank << RANK_SHIFT});
  });
  return targets;
}

uint32_t bulk_bytes(Warp& warp, const Slot& slot, uint32_t lane, uint64_t to, uint64_t from,
                    const char* what) {
  const uint32_t bytes = warp.row<uint32_t>(slot.row)[lane];
  check_alignment(warp, lane, bytes, 16, what, "size");
  check_alignment(warp, lane, to, 16, what, "destination");
  check_alignment(warp, lane, from, 16, what, "source");
  return bytes;
}

namespace {

// [d], value or {values}, [mbarrier]: registers to another CTA's shared memory
void store_async(Warp& warp, const Inst& inst, uint32_t lane) {
  const char* const what = "st.async or red.async";
  const auto of = inst.as<CopyQualifiers>();
  const uint32_t step = element_bytes(of.type);
  const Slot& mbarrier = inst.slots[inst.slot_count - 1];
  const uint32_t bytes = step * (inst.slot_count - 2);
  const Target target = targets_of(warp, inst, lane, inst.slots[0], mbarrier, nullptr, what)[0];
  check_alignment(warp, lane, target.address, bytes, what, "destination");
  std::byte* const to = shared_bytes(warp, 1u << lane, target.address, bytes, what);
  std::array<std::byte, 32> value{};
  for (uint32_t i = 0; i < inst.slot_count - 2; ++i) {
    const uint64_t bits = value_of(warp, inst.slots[1 + i], lane);
    std::memcpy(&value[i * step], &bits, step);
  }
  start({warp, 1u << lane, false}, target, bytes, [=](const Flight& at_issue) {
    at_issue.writes_shared(target.address, bytes, of.reduction != Reduction::none);
    put(to, value.data(), bytes, of.reduction, of.type);
  });
}

// [d], [a], bytes, [mbarrier], multicast?
void bulk_load(Warp& warp, const Inst& inst, uint32_t lane) {
  const char* const what = "cp.async.bulk";
  warp.loads_bulk = true;
  const Slot* const multicast = inst.as<CopyQualifiers>().multicast ? &inst.slots[4] : nullptr;
  const uint64_t from = global_address(warp, inst.slots[1], lane);
  const Flight flight(warp, 1u << lane, true);
  for (const Target& target :
       targets_of(warp, inst, lane, inst.slots[0], inst.slots[3], multicast, what)) {
    const uint32_t bytes = bulk_bytes(warp, inst.slots[2], lane, target.address, from, what);
    check_global(warp, lane, from, bytes, what);
    std::byte* const to = shared_bytes(warp, 1u << lane, target.address, bytes, what);
    start(flight, target, bytes, [=](const Flight& at_issue) {
      at_issue.reads_global({{from, bytes}});
      at_issue.writes_shared(target.address, bytes);
      std::memcpy(to, reinterpret_cast<const std::byte*>(from), bytes);
      at_issue.has_written(to, bytes);
    });
  }
}

Step bulk_commit_group(Warp& warp, const Inst&, uint32_t mask) {
  commit_group(warp.bulk, mask);
  return Step::next;
}

template <bool ONLY_READ>
Step bulk_wait_group(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t pending = immediate(warp, inst.slots[0], mask);
  const Waited waited = wait_for_groups(warp.bulk, mask, pending, ONLY_READ);
  observer_of(warp).bulk_wait(warp, mask, waited.last, ONLY_READ, waited.lands);
  return Step::next;
}

Handler pick_bulk_wait(Opcode& opcode) {
  return opcode.has(".read") ? bulk_wait_group<true> : bulk_wait_group<false>;
}

const Row ROWS[] = {
    {"cp.async.bulk{.shared::cluster,.shared::cta}.global" BYTES_TO_MBARRIER
     "{.multicast::cluster,}" HINT,
     "[d], [a], bytes:32, [mbarrier], *", pick_copy<each_lane<bulk_load>>, "copy to shared memory"},
    {"st.async{.weak,}.shared::cluster" BYTES_TO_MBARRIER
     "{.v2,.v4,}{.b32,.u32,.s32,.f32,.b64,.u64,.s64,.f64}",
     "[d], *", pick_copy<each_lane<store_async>>, "store to a CTA of the cluster"},
    {"cp.async.bulk.commit_group", "", always<bulk_commit_group>, "a group of what was issued"},
    {"cp.async.bulk.wait_group{.read,}", "n:32", pick_bulk_wait,
     "wait for all but n groups; read: until their sources may change"},
    {"red.async{.relaxed,}{.cluster,}.shared::cluster" BYTES_TO_MBARRIER REDUCTION
     "{.b32,.u32,.s32,.u64}",
     "[d], a:t, [mbarrier]", pick_reduction<each_lane<store_async>>, "combine with a CTA's memory"},
};

}  // namespace

const Section sections::BULK{"Bulk copies", ROWS};

}  // namespace machine
