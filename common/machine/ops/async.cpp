// cp.async, and the groups that it and bulk copies are committed and waited for in. It knows nothing
// of mbarriers but that they are arrived at.
#include <algorithm>

#include "common/machine/ops/async.h"

namespace machine {

void commit_group(CopyGroups& groups, uint32_t mask) {
  CopyGroups::Group group{mask, ++groups.count, {}};
  for (auto& [lanes, copy] : groups.open) {
    if (lanes & mask) group.copies.push_back(copy);
    lanes &= ~mask;
  }
  std::erase_if(groups.open, [](const auto& open) { return open.first == 0; });
  groups.committed.push_back(std::move(group));
  for_lanes(mask, [&groups](uint32_t lane) { ++groups.commits[lane]; });
}

// Whether a group is of some of these lanes only.
static bool have_their_own(const CopyGroups& groups, uint32_t lanes) {
  return std::ranges::any_of(groups.committed, [lanes](const CopyGroups::Group& group) {
    return (group.lanes & lanes) != 0 && (group.lanes & lanes) != lanes;
  });
}

Waited wait_for_groups(CopyGroups& groups, uint32_t mask, uint32_t pending, bool only_read) {
  if (have_their_own(groups, mask)) {
    Waited all;
    for_lanes(mask, [&](uint32_t lane) {
      const Waited one = wait_for_groups(groups, 1u << lane, pending, only_read);
      all = {std::max(all.last, one.last), std::max(all.lands, one.lands)};
    });
    return all;
  }
  Waited waited;
  uint32_t newer = 0;
  for (size_t i = groups.committed.size(); i-- > 0;) {
    CopyGroups::Group& group = groups.committed[i];
    if (!(group.lanes & mask) || newer++ < pending) continue;
    waited.last = std::max(waited.last, group.index);
    for (const AsyncCopyPtr& copy : group.copies) {
      only_read ? copy->finish_read() : copy->finish();
      waited.lands = std::max(waited.lands, copy->lands);
    }
    if (!only_read) group.lanes &= ~mask;
  }
  // Those that nobody will wait for again go; of those that were only read, the oldest.
  constexpr size_t REMEMBERED = 64;
  std::erase_if(groups.committed, [](const auto& group) { return group.lanes == 0; });
  if (groups.committed.size() > REMEMBERED) groups.committed.pop_front();
  return waited;
}

namespace {

Step cp_async_commit_group(Warp& warp, const Inst&, uint32_t mask) {
  commit_group(warp.cp_async, mask);
  observer_of(warp).tell(&Checker::cp_async_committed, warp, mask);
  Trace* const trace = warp.cta->cluster->trace;
  const auto& copies = warp.cp_async.committed.back().copies;
  if (trace == nullptr || copies.empty()) return Step::next;
  uint64_t bytes = 0;
  for (const AsyncCopyPtr& copy : copies) bytes += copy->bytes;
  const uint64_t lands = trace->copy(warp, "cp.async", 0, bytes, 0);
  for (const AsyncCopyPtr& copy : copies) copy->lands = lands;
  return Step::next;
}

// The last index up to which no lane has copies left that it has not waited for.
uint64_t waited_by_all(const CopyGroups& groups) {
  uint64_t last = groups.count;
  for (const auto& [lanes, copy] : groups.open) last = std::min(last, copy->index - 1);
  for (const CopyGroups::Group& group : groups.committed) {
    for (const AsyncCopyPtr& copy : group.copies) {
      if (group.lanes & copy->lanes) last = std::min(last, copy->index - 1);
    }
  }
  return last;
}

Step cp_async_wait(Warp& warp, uint32_t mask, uint32_t pending) {
  if (have_their_own(warp.cp_async, mask)) {
    for_lanes(mask, [&](uint32_t lane) { cp_async_wait(warp, 1u << lane, pending); });
    return Step::next;
  }
  const Waited waited = wait_for_groups(warp.cp_async, mask, pending, false);
  const uint64_t by_all = waited_by_all(warp.cp_async);
  observer_of(warp).cp_async_wait(warp, mask, waited.last, by_all, waited.lands);
  return Step::next;
}

Step cp_async_wait_group(Warp& warp, const Inst& inst, uint32_t mask) {
  return cp_async_wait(warp, mask, immediate(warp, inst.slots[0], mask));
}

Step cp_async_wait_all(Warp& warp, const Inst& inst, uint32_t mask) {
  cp_async_commit_group(warp, inst, mask);
  return cp_async_wait(warp, mask, 0);
}

// ---- cp.async: 4, 8 or 16 bytes a lane ----------------------------------------------------------

struct LaneCopies {
  uint32_t bytes = 0;  // of each lane, in shared memory; what the source does not fill becomes 0
  std::byte* to[LANES] = {};
  uint32_t shared[LANES] = {};
  uint64_t from[LANES] = {};
  uint32_t source_bytes[LANES] = {};
};

template <uint32_t BYTES>
void copy_lanes(const LaneCopies& lanes, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) {
    const auto* const from = reinterpret_cast<const std::byte*>(lanes.from[lane]);
    if (lanes.source_bytes[lane] == BYTES) {
      std::memcpy(lanes.to[lane], from, BYTES);
    } else {
      std::byte bytes[BYTES] = {};
      if (lanes.source_bytes[lane] != 0) std::memcpy(bytes, from, lanes.source_bytes[lane]);
      std::memcpy(lanes.to[lane], bytes, BYTES);
    }
  });
}

void land(const Flight& flight, const LaneCopies& lanes) {
  const AsIssued as_issued(flight);
  const uint32_t mask = flight.at.mask;
  if (flight.checker()) {
    std::vector<Run> read;
    Runs reads([&](uint64_t start, uint64_t bytes) { read.push_back({start, bytes}); });
    Runs writes([&](uint64_t start, uint64_t bytes) {
      flight.writes_shared(static_cast<uint32_t>(start), static_cast<uint32_t>(bytes));
    });
    for_lanes(mask, [&](uint32_t lane) {
      reads.add(lanes.from[lane], lanes.source_bytes[lane]);
      writes.add(lanes.shared[lane], lanes.bytes);
    });
    reads.flush();
    writes.flush();
  }
  if (lanes.bytes == 16) copy_lanes<16>(lanes, mask);
  if (lanes.bytes == 8) copy_lanes<8>(lanes, mask);
  if (lanes.bytes == 4) copy_lanes<4>(lanes, mask);
  if (flight.looks_for_poison()) {
    bool found = false;
    for_lanes(mask, [&](uint32_t lane) {  // of 4 bytes the 8 that they are in
      found |= has_poison(lanes.to[lane] - lanes.shared[lane] % 8, std::max(lanes.bytes, 8u));
    });
    flight.checker()->poison_in_shared = found;
  }
  ++flight.cluster().changes;
}

void copy_by_lanes(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "cp.async";
  LaneCopies lanes;
  lanes.bytes = immediate(warp, inst.slots[2], mask);
  for_lanes(mask, [&](uint32_t lane) {
    const uint32_t shared = shared_address(warp, inst.slots[0], lane, SharedSpace::cta, what);
    check_alignment(warp, lane, shared, lanes.bytes, what, "shared address");
    lanes.shared[lane] = shared;
    lanes.to[lane] = shared_bytes(warp, 1u << lane, shared, lanes.bytes, what);
    lanes.from[lane] = global_address(warp, inst.slots[1], lane);
    lanes.source_bytes[lane] = lanes.bytes;
  });
  for (uint32_t i = 3; i < inst.slot_count; ++i) {
    const Slot& slot = inst.slots[i];
    if (slot.width == Width::w64) continue;
    const uint32_t ignored = slot.width == Width::pred ? get_pred(warp, slot) : 0;
    for_lanes(mask, [&](uint32_t lane) {
      if (ignored >> lane & 1) lanes.source_bytes[lane] = 0;
      if (slot.width == Width::pred) return;
      lanes.source_bytes[lane] = warp.row<uint32_t>(slot.row)[lane];
      if (lanes.source_bytes[lane] > lanes.bytes) {
        stop(warp, 1u << lane, "cp.async of ", lanes.bytes, " bytes with a source of ",
             lanes.source_bytes[lane], " bytes.");
      }
    });
  }
  Runs sources([&](uint64_t start, uint64_t bytes) {
    if (is_allocated(start, start, bytes)) return;
    for_lanes(mask, [&](uint32_t lane) {  // which of them it is
      if (lanes.source_bytes[lane] == 0) return;
      check_global(warp, lane, lanes.from[lane], lanes.source_bytes[lane], what);
    });
  });
  for_lanes(mask, [&](uint32_t lane) {
    if (lanes.source_bytes[lane] == 0) return;
    check_alignment(warp, lane, lanes.from[lane], lanes.bytes, what, "global address");
    sources.add(lanes.from[lane], lanes.source_bytes[lane]);
  });
  sources.flush();
  Flight flight(warp, mask, false);
  const auto copy = std::make_shared<AsyncCopy>();
  copy->lanes = mask;
  copy->index = flight.check.group = ++warp.cp_async.count;
  copy->bytes = uint64_t{lanes.bytes} * lane_count(mask);
  copy->write = [flight, lanes] { land(flight, lanes); };
  warp.cp_async.open.emplace_back(mask, copy);
  start_copy(*warp.cta->cluster, copy);
  if (!flight.checker()) return;
  std::vector<Segment> to;
  Runs runs([&](uint64_t start, uint64_t bytes) {
    to.push_back({static_cast<uint32_t>(start), static_cast<uint32_t>(bytes)});
  });
  if (!copy->done) {
    for_lanes(mask, [&](uint32_t lane) { runs.add(lanes.shared[lane], lanes.bytes); });
  }
  runs.flush();
  flight.tell(&Checker::cp_async_issued, mask, to);
}

// [d], [a], bytes, then source bytes (32 bits) or whether to ignore the source (a predicate), then
// a cache policy (64 bits). Lanes that had parted may be in groups of their own.
Step cp_async(Warp& warp, const Inst& inst, uint32_t mask) {
  const std::array<uint32_t, LANES>& commits = warp.cp_async.commits;
  while (mask != 0) {
    const uint32_t first = commits[first_lane(mask)];
    uint32_t lanes = 0;
    for (uint32_t lane = 0; lane < LANES; ++lane) lanes |= uint32_t{commits[lane] == first} << lane;
    copy_by_lanes(warp, inst, mask & lanes);
    mask &= ~lanes;
  }
  return Step::next;
}

Handler pick_cp_async(Opcode& opcode) {
  const Operand& size = opcode.operands->size() > 2 ? (*opcode.operands)[2] : Operand();
  const bool legal = size.bits == 16 || (opcode.has(".ca") && (size.bits == 4 || size.bits == 8));
  return size.kind == Operand::Kind::integer && legal ? cp_async : nullptr;
}

// Whether other lanes have copies that neither they have waited for nor an arrival of theirs does.
bool others_copy(const CopyGroups& groups, uint32_t lanes) {
  for (const auto& [of_lanes, copy] : groups.open) {
    if (of_lanes & ~lanes & ~copy->arriving) return true;
  }
  for (const CopyGroups::Group& group : groups.committed) {
    for (const AsyncCopyPtr& copy : group.copies) {
      if (group.lanes & copy->lanes & ~lanes & ~copy->arriving) return true;
    }
  }
  return false;
}

// [a]: an arrival of each lane once all its cp.async up to now have landed. Without .noinc it is one
// that the mbarrier's phase did not count before.
template <bool NO_INCREMENT>
Step cp_async_arrive(Warp& warp, const Inst& inst, uint32_t mask) {
  CopyGroups& groups = warp.cp_async;
  const uint64_t group = ++groups.count;  // those issued from now on have a later index
  const auto space = inst.as<SharedSpace>();
  const bool of_some_lanes = others_copy(groups, mask);
  observer_of(warp).tell(&Checker::cp_async_closed, warp, mask);
  while (mask != 0) {
    const char* const what = "cp.async.mbarrier.arrive";
    const uint32_t address = shared_address(warp, inst.slots[0], first_lane(mask), space, what);
    check_own_shared(warp, first_lane(mask), address, what,
                     "wait for the copies, then arrive at the peer's mbarrier");
    const uint32_t lanes = lanes_that_agree(warp, inst.slots[0], mask);
    mask &= ~lanes;
    std::vector<AsyncCopyPtr> before;
    for (const auto& [of_lanes, copy] : groups.open) {
      if ((of_lanes & lanes) && !copy->done) before.push_back(copy);
    }
    for (const CopyGroups::Group& committed : groups.committed) {
      if (committed.lanes & lanes) {
        before.insert(before.end(), committed.copies.begin(), committed.copies.end());
      }
    }
    for (const AsyncCopyPtr& copy : before) copy->arriving |= lanes;
    const uint32_t count = lane_count(lanes);
    if (!NO_INCREMENT) expect_arrivals(warp, lanes, address, count);
    Flight flight(warp, lanes, false);
    flight.check.mbarrier = address;
    flight.check.group = group;
    flight.check.of_some_lanes = of_some_lanes;
    const auto arrival = std::make_shared<AsyncCopy>();
    arrival->write = [flight, before, address, count] {
      for (const AsyncCopyPtr& copy : before) copy->finish();
      const AsIssued as_issued(flight);
      flight.tell(&Checker::cp_async_arrive, flight.at.mask);
      arrive_async(*flight.warp, flight.at.mask, address, count);
    };
    start_copy(*warp.cta->cluster, arrival);
  }
  std::erase_if(groups.open, [](const auto& open) { return open.second->done; });
  return Step::next;
}

Handler pick_cp_async_arrive(Opcode& opcode) {
  opcode.set(shared_space(opcode));
  return opcode.has(".noinc") ? cp_async_arrive<true> : cp_async_arrive<false>;
}

const Row ROWS[] = {
    {"cp.async{.ca,.cg}{.shared,.shared::cta}.global" HINT "{.L2::64B,.L2::128B,.L2::256B,}",
     "[d], [a], bytes:32, *", pick_cp_async,
     "copy 4, 8 or 16 bytes to shared memory; what the source lacks becomes 0"},
    {"cp.async.commit_group", "", always<cp_async_commit_group>, "a group of what was issued"},
    {"cp.async.wait_group", "n:32", always<cp_async_wait_group>, "wait for all but n groups"},
    {"cp.async.wait_all", "", always<cp_async_wait_all>, "wait for all cp.async"},
    {"cp.async.mbarrier.arrive{.noinc,}{.shared,.shared::cta,}.b64", "[a]", pick_cp_async_arrive,
     "arrive once all cp.async of the thread have landed"},
};

}  // namespace

const Section sections::ASYNC{"cp.async", ROWS};

}  // namespace machine
