// Bulk copies from shared memory, to global memory and to other CTAs, and prefetches: no kernel of this
// repository has them. It knows nothing of who waits for them.
#include "common/machine/ops/async.h"

namespace machine {
namespace {

// [d], [a], bytes: to global memory, in a bulk group
void bulk_store(Warp& warp, const Inst& inst, uint32_t lane) {
  const char* const what = "cp.async.bulk";
  const auto of = inst.as<CopyQualifiers>();
  warp.stores_bulk = true;
  const uint64_t to = global_address(warp, inst.slots[0], lane);
  const uint32_t from = shared_address(warp, inst.slots[1], lane, SharedSpace::cta, what);
  const uint32_t bytes = bulk_bytes(warp, inst.slots[2], lane, to, from, what);
  check_global(warp, lane, to, bytes, what);
  const std::byte* const source = shared_bytes(warp, 1u << lane, from, bytes, what);
  start_in_group(
      warp, 1u << lane, from, bytes,
      [=](const Flight& at_issue, Staged& staged) {
        at_issue.reads_shared(from, bytes);
        staged.assign(source, source + bytes);
      },
      [=](const Flight& at_issue, const Staged& staged) {
        at_issue.writes_global({{to, bytes}}, staged.data(), of.reduction != Reduction::none);
        put(reinterpret_cast<std::byte*>(to), staged.data(), bytes, of.reduction, of.type);
      });
}

// [d], [a], bytes, [mbarrier]: from this CTA's shared memory to another's
void bulk_pass(Warp& warp, const Inst& inst, uint32_t lane) {
  const char* const what = "cp.async.bulk";
  warp.loads_bulk = true;
  const auto of = inst.as<CopyQualifiers>();
  const Target target =
      targets_of(warp, inst, lane, inst.slots[0], inst.slots[3], nullptr, what)[0];
  const uint32_t from = shared_address(warp, inst.slots[1], lane, SharedSpace::cta, what);
  const uint32_t bytes = bulk_bytes(warp, inst.slots[2], lane, target.address, from, what);
  std::byte* const to = shared_bytes(warp, 1u << lane, target.address, bytes, what);
  const std::byte* const source = shared_bytes(warp, 1u << lane, from, bytes, what);
  start({warp, 1u << lane, true}, target, bytes, [=](const Flight& at_issue) {
    at_issue.reads_shared(from, bytes);
    at_issue.writes_shared(target.address, bytes, of.reduction != Reduction::none);
    put(to, source, bytes, of.reduction, of.type);
    at_issue.has_written(to, bytes);
  });
}

// [a], bytes
void bulk_prefetch(Warp& warp, const Inst& inst, uint32_t lane) {
  const char* const what = "cp.async.bulk.prefetch";
  const uint64_t from = global_address(warp, inst.slots[0], lane);
  const uint32_t bytes = bulk_bytes(warp, inst.slots[1], lane, 0, from, what);
  check_global(warp, lane, from, bytes, what);
}

const Row ROWS[] = {
    {"cp.async.bulk.global.shared::cta.bulk_group" HINT, "[d], [a], bytes:32, *",
     pick_copy<each_lane<bulk_store>>, "copy to global memory"},
    {"cp.async.bulk.shared::cluster.shared::cta" BYTES_TO_MBARRIER,
     "[d], [a], bytes:32, [mbarrier]", pick_copy<each_lane<bulk_pass>>,
     "copy to a CTA of the cluster"},
    {"cp.reduce.async.bulk.shared::cluster.shared::cta" BYTES_TO_MBARRIER REDUCTION
     "{.b32,.u32,.s32,.b64,.u64,.s64}",
     "[d], [a], bytes:32, [mbarrier]", pick_reduction<each_lane<bulk_pass>>,
     "combine with another CTA's memory"},
    {"cp.reduce.async.bulk.global.shared::cta.bulk_group" HINT REDUCTION
     "{.noftz,}{.b32,.u32,.s32,.b64,.u64,.s64,.f16,.bf16,.f32,.f64}",
     "[d], [a], bytes:32, *", pick_reduction<each_lane<bulk_store>>, "combine with global memory"},
    {"cp.async.bulk.prefetch.L2.global" HINT, "[a], bytes:32, *", always<each_lane<bulk_prefetch>>,
     "nothing, but the addresses must be legal"},
};

}  // namespace

const Section sections::RARE_BULK{"Rarer: bulk copies from shared memory", ROWS};

}  // namespace machine
