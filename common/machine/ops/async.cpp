#include <algorithm>
#include <iterator>

#include "common/machine/check/checker.h"
#include "common/machine/ops/reduction.h"
#include "common/machine/ops/sync.h"
#include "common/machine/ops/tensor_box.h"
#include "common/machine/run/trace.h"

namespace machine {
namespace {

template <Handler F>
Handler always(Opcode&) {
  return F;
}

// What a copy in flight knows of the instruction that issued it. The checker's part of an access is
// called before the access is made.
struct Flight {
  Warp* warp = nullptr;
  Fragment at;  // the lanes and the pc
  Checker::Copy check;

  Flight(Warp& issuer, uint32_t lanes, bool async_proxy) : warp(&issuer) {
    at.pc = check.pc = issuer.pc();
    at.mask = lanes;
    check.warp = &issuer;
    check.async_proxy = async_proxy;
    if (checker()) check.issued = checker()->snapshot(issuer, lanes);
  }
  Cluster& cluster() const { return *warp->cta->cluster; }
  Checker* checker() const { return cluster().checker.get(); }

  void reads_shared(uint32_t address, uint32_t bytes) const {
    if (checker()) checker()->copy_reads_shared(check, {address, bytes});
  }
  void writes_shared(uint32_t address, uint32_t bytes) const {
    if (checker()) checker()->copy_writes_shared(check, {address, bytes});
  }
  // Of what it has brought: poison is reported by who reads it.
  bool looks_for_poison() const {
    return checker() && checker()->looks_for_poison && !checker()->poison_in_shared;
  }
  void has_written(const std::byte* shared, uint32_t bytes) const {
    if (looks_for_poison()) checker()->poison_in_shared = has_poison(shared, bytes);
  }
  void reads_global(uint64_t address, uint64_t bytes) const {
    if (checker()) checker()->copy_reads_global(check, address, bytes);
  }
  void writes_global(uint64_t address, uint64_t bytes, bool reduces) const {
    if (checker()) checker()->copy_writes_global(check, address, bytes, reduces);
  }
};

// While it lives, faults name the instruction that issued the copy.
class AsIssued {
 public:
  explicit AsIssued(const Flight& flight)
      : warp_(*flight.warp), before_(warp_.current), at_(flight.at) {
    warp_.current = &at_;
  }
  ~AsIssued() { warp_.current = before_; }
  AsIssued(const AsIssued&) = delete;
  AsIssued& operator=(const AsIssued&) = delete;

 private:
  Warp& warp_;
  Fragment* const before_;
  Fragment at_;
};

void check_alignment(Warp& warp, uint32_t lane, uint64_t value, uint32_t alignment,
                     const char* what, const char* of) {
  if ((value & (alignment - 1)) == 0) return;
  stop_as(rule::MISALIGNED, warp, 1u << lane, what, ": the ", of, " ", hex(value),
          " is not a multiple of ", alignment, ".");
}

// ---- Groups -------------------------------------------------------------------------------------

void commit_group(CopyGroups& groups, uint32_t mask) {
  CopyGroups::Group group{mask, ++groups.count, {}};
  for (auto& [lanes, copy] : groups.open) {
    if (lanes & mask) group.copies.push_back(copy);
    lanes &= ~mask;
  }
  std::erase_if(groups.open, [](const auto& open) { return open.first == 0; });
  groups.committed.push_back(std::move(group));
}

struct Waited {
  uint64_t last = 0;   // index of the newest group that must be complete; 0: none
  uint64_t lands = 0;  // when it is, on the timeline's clock
};

// Completes all groups of these lanes but the `pending` newest.
Waited wait_for_groups(CopyGroups& groups, uint32_t mask, uint32_t pending, bool only_read) {
  for (const CopyGroups::Group& group : groups.committed) {
    if ((group.lanes & mask) == 0 || (group.lanes & mask) == mask) continue;
    Waited all;  // the lanes have groups of their own
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

uint32_t immediate(Warp& warp, const Slot& slot, uint32_t mask) {
  return warp.row<uint32_t>(slot.row)[first_lane(mask)];
}

Step bulk_commit_group(Warp& warp, const Inst&, uint32_t mask) {
  commit_group(warp.bulk, mask);
  return Step::next;
}

template <bool ONLY_READ>
Step bulk_wait_group(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t pending = immediate(warp, inst.slots[0], mask);
  const Waited waited = wait_for_groups(warp.bulk, mask, pending, ONLY_READ);
  Cluster& cluster = *warp.cta->cluster;
  if (cluster.checker && waited.last != 0) {
    cluster.checker->bulk_wait(warp, mask, waited.last, ONLY_READ);
  }
  if (cluster.trace) cluster.trace->wait(warp, "wait bulk", waited.lands);
  return Step::next;
}

Handler pick_bulk_wait(Opcode& opcode) {
  return opcode.has(".read") ? bulk_wait_group<true> : bulk_wait_group<false>;
}

void commit_cp_async(Warp& warp, uint32_t mask) {
  commit_group(warp.cp_async, mask);
  Trace* const trace = warp.cta->cluster->trace;
  const auto& copies = warp.cp_async.committed.back().copies;
  if (trace == nullptr || copies.empty()) return;
  uint64_t bytes = 0;
  for (const AsyncCopyPtr& copy : copies) bytes += copy->bytes;
  const uint64_t lands = trace->copy(warp, "cp.async", 0, bytes, 0);
  for (const AsyncCopyPtr& copy : copies) copy->lands = lands;
}

Step cp_async_commit_group(Warp& warp, const Inst&, uint32_t mask) {
  commit_cp_async(warp, mask);
  return Step::next;
}

void cp_async_wait(Warp& warp, uint32_t mask, uint32_t pending) {
  const Waited waited = wait_for_groups(warp.cp_async, mask, pending, false);
  Cluster& cluster = *warp.cta->cluster;
  if (cluster.checker && waited.last != 0) {
    cluster.checker->cp_async_wait(warp, mask, waited.last);
  }
  if (cluster.trace) cluster.trace->wait(warp, "wait cp.async", waited.lands);
}

Step cp_async_wait_group(Warp& warp, const Inst& inst, uint32_t mask) {
  cp_async_wait(warp, mask, immediate(warp, inst.slots[0], mask));
  return Step::next;
}

Step cp_async_wait_all(Warp& warp, const Inst&, uint32_t mask) {
  commit_cp_async(warp, mask);
  cp_async_wait(warp, mask, 0);
  return Step::next;
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
    Runs reads([&](uint64_t start, uint64_t bytes) { flight.reads_global(start, bytes); });
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

// [d], [a], bytes, then source bytes (32 bits) or whether to ignore the source (a predicate), then
// a cache policy (64 bits)
Step cp_async(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "cp.async";
  LaneCopies lanes;
  lanes.bytes = immediate(warp, inst.slots[2], mask);
  for_lanes(mask, [&](uint32_t lane) {
    const uint32_t shared = shared_address(warp, inst.slots[0], lane, SharedSpace::cta, what);
    check_alignment(warp, lane, shared, lanes.bytes, what, "shared address");
    lanes.shared[lane] = shared;
    lanes.to[lane] = shared_bytes(warp, 1u << lane, shared, lanes.bytes, what);
    lanes.from[lane] =
        value_of(warp, inst.slots[1], lane) + static_cast<uint64_t>(inst.slots[1].offset);
    lanes.source_bytes[lane] = lanes.bytes;
  });
  for (uint32_t i = 3; i < inst.slot_count; ++i) {
    const Slot& slot = inst.slots[i];
    if (slot.width == Width::w64) continue;
    const uint32_t ignored = slot.negated ? ~warp.pred(slot.row) : warp.pred(slot.row);
    for_lanes(mask, [&](uint32_t lane) {
      if (slot.width == Width::pred) {
        if (ignored >> lane & 1) lanes.source_bytes[lane] = 0;
        return;
      }
      lanes.source_bytes[lane] = warp.row<uint32_t>(slot.row)[lane];
      if (lanes.source_bytes[lane] > lanes.bytes) {
        stop(warp, 1u << lane, "cp.async of ", lanes.bytes, " bytes with a source of ",
             lanes.source_bytes[lane], " bytes.");
      }
    });
  }
  Runs sources([&](uint64_t start, uint64_t bytes) {
    check_global(warp, first_lane(mask), start, bytes, what);
  });
  for_lanes(mask, [&](uint32_t lane) {
    if (lanes.source_bytes[lane] == 0) return;
    check_alignment(warp, lane, lanes.from[lane], lanes.bytes, what, "global address");
    sources.add(lanes.from[lane], lanes.source_bytes[lane]);
  });
  sources.flush();
  Flight flight(warp, mask, false);
  flight.check.group = warp.cp_async.count + 1;
  const auto copy = std::make_shared<AsyncCopy>();
  copy->pc = flight.at.pc;
  copy->bytes = uint64_t{lanes.bytes} * static_cast<uint32_t>(std::popcount(mask));
  copy->write = [flight, lanes] { land(flight, lanes); };
  warp.cp_async.open.emplace_back(mask, copy);
  start_copy(*warp.cta->cluster, copy);
  return Step::next;
}

Handler pick_cp_async(Opcode& opcode) {
  const Operand& size = opcode.operands->size() > 2 ? (*opcode.operands)[2] : Operand();
  const bool legal = size.bits == 16 || (opcode.has(".ca") && (size.bits == 4 || size.bits == 8));
  return size.kind == Operand::Kind::integer && legal ? cp_async : nullptr;
}

// [a]: an arrival of each lane once all its cp.async up to now have landed. Without .noinc it is one
// that the mbarrier's phase did not count before.
template <bool NO_INCREMENT>
Step cp_async_arrive(Warp& warp, const Inst& inst, uint32_t mask) {
  CopyGroups& groups = warp.cp_async;
  const uint64_t group = ++groups.count;  // those issued from now on are of a later one
  const auto space = static_cast<SharedSpace>(inst.mods);
  while (mask != 0) {
    const uint32_t address =
        shared_address(warp, inst.slots[0], first_lane(mask), space, "cp.async.mbarrier.arrive");
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
    const auto count = static_cast<uint32_t>(std::popcount(lanes));
    if (!NO_INCREMENT) expect_arrivals(warp, lanes, address, count);
    Flight flight(warp, lanes, false);
    flight.check.mbarrier = address;
    flight.check.group = group;
    const auto arrival = std::make_shared<AsyncCopy>();
    arrival->pc = flight.at.pc;
    arrival->write = [flight, before, address, count] {
      for (const AsyncCopyPtr& copy : before) copy->finish();
      const AsIssued as_issued(flight);
      if (Checker* const checker = flight.checker()) {
        checker->cp_async_arrive(flight.check, flight.at.mask);
      }
      arrive_async(*flight.warp, flight.at.mask, address, count);
    };
    start_copy(*warp.cta->cluster, arrival);
  }
  std::erase_if(groups.open, [](const auto& open) { return open.second->done; });
  return Step::next;
}

template <Handler INCREMENT, Handler NO_INCREMENT>
Handler pick_cp_async_arrive(Opcode& opcode) {
  opcode.mods = static_cast<uint32_t>(shared_space(opcode));
  return opcode.has(".noinc") ? NO_INCREMENT : INCREMENT;
}

// ---- Bulk copies --------------------------------------------------------------------------------

// Inst::mods
enum : uint32_t {
  MULTICAST = 1,
  TO_OWN_CTA = 2,  // the destination is .shared::cta
  RANK_SHIFT_IN_MODS = 4,
  REDUCTION_SHIFT = 8,
  TYPE_SHIFT = 12,
};

constexpr const char* REDUCTIONS[] = {"",     ".add", ".min", ".max", ".inc",
                                      ".dec", ".and", ".or",  ".xor"};

Reduction reduction_of(const Opcode& opcode) {
  for (size_t i = 1; i < std::size(REDUCTIONS); ++i) {
    if (opcode.has(REDUCTIONS[i])) return static_cast<Reduction>(i);
  }
  return Reduction::none;
}

Reducer reducer_in(const Inst& inst, uint32_t* step) {
  const auto op = static_cast<Reduction>(inst.mods >> REDUCTION_SHIFT & 15);
  const auto type = static_cast<TensorType>(inst.mods >> TYPE_SHIFT & 15);
  *step = element_bytes(type);
  return op == Reduction::none ? nullptr : reducer_of(op, type);
}

uint32_t as_mods(const Opcode& opcode) {
  uint32_t mods = static_cast<uint32_t>(reduction_of(opcode)) << REDUCTION_SHIFT;
  if (opcode.has(".multicast::cluster")) mods |= MULTICAST;
  if (opcode.has(".shared::cta") && !opcode.has(".shared::cluster")) mods |= TO_OWN_CTA;
  constexpr const char* RANK_NAMES[] = {"", ".1d", ".2d", ".3d", ".4d", ".5d"};
  for (uint32_t rank = 1; rank <= MAX_TENSOR_RANK; ++rank) {
    if (opcode.has(RANK_NAMES[rank])) mods |= rank << RANK_SHIFT_IN_MODS;
  }
  return mods;
}

// Of cp.reduce.async.bulk and st.async.
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

template <Handler F>
Handler pick_bulk(Opcode& opcode) {
  opcode.mods = as_mods(opcode);
  if (opcode.text.starts_with("cp.reduce") && !opcode.has(".tensor")) {
    const TensorType type = tensor_type(opcode.type());
    if (reducer_of(reduction_of(opcode), type) == nullptr) return nullptr;
    opcode.mods |= static_cast<uint32_t>(type) << TYPE_SHIFT;
  }
  return F;
}

struct Target {
  uint32_t address = 0, mbarrier = 0;
};

// Where a copy to shared memory goes: one CTA, or the same place in each of a multicast.
std::vector<Target> targets_of(Warp& warp, const Inst& inst, uint32_t lane, const Slot& address,
                               const Slot& mbarrier, const Slot* multicast, const char* what) {
  const SharedSpace space = inst.mods & TO_OWN_CTA ? SharedSpace::cta : SharedSpace::cluster;
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

uint64_t global_address(Warp& warp, const Slot& slot, uint32_t lane) {
  return value_of(warp, slot, lane) + static_cast<uint64_t>(slot.offset);
}

// The size of a copy that is no tensor's; its addresses are checked with it.
uint32_t bulk_bytes(Warp& warp, const Slot& slot, uint32_t lane, uint64_t to, uint64_t from,
                    const char* what) {
  const uint32_t bytes = warp.row<uint32_t>(slot.row)[lane];
  check_alignment(warp, lane, bytes, 16, what, "size");
  check_alignment(warp, lane, to, 16, what, "destination");
  check_alignment(warp, lane, from, 16, what, "source");
  return bytes;
}

// Starts a copy that completes on its target's mbarrier; write(flight) checks and writes.
template <class F>
void start(Flight flight, const Target& target, uint32_t bytes, F write) {
  flight.check.mbarrier = target.mbarrier;
  if (flight.checker()) flight.check.phase = flight.checker()->phase_of(target.mbarrier);
  const auto copy = std::make_shared<AsyncCopy>();
  copy->pc = flight.at.pc;
  if (Trace* const trace = flight.cluster().trace) {
    Warp& warp = *flight.warp;
    copy->lands = trace->copy(warp, "TMA load", target.address, bytes, target.mbarrier);
    trace->bytes_land(target.mbarrier, copy->lands);
  }
  copy->write = [flight, target, bytes, write = std::move(write)] {
    const AsIssued as_issued(flight);
    write(flight);
    complete_tx(*flight.warp, target.mbarrier, bytes);
  };
  start_copy(flight.cluster(), copy);
}

// What a copy has read, until it writes.
using Staged = std::vector<std::byte>;

// Starts a copy from shared memory in the bulk groups of the lanes; read(flight, staged) and
// write(flight, staged) check too.
template <class R, class W>
void start_in_group(Warp& warp, uint32_t lanes, uint32_t from, uint32_t bytes, R read, W write) {
  Flight flight(warp, lanes, true);
  flight.check.group = warp.bulk.count + 1;
  const auto copy = std::make_shared<AsyncCopy>();
  const auto staged = std::make_shared<Staged>();
  copy->pc = flight.at.pc;
  if (Trace* const trace = flight.cluster().trace) {
    copy->lands = trace->copy(warp, "TMA store", from, bytes, 0);
  }
  copy->read = [flight, staged, read = std::move(read)] {
    const AsIssued as_issued(flight);
    read(flight, *staged);
  };
  copy->write = [flight, staged, write = std::move(write)] {
    const AsIssued as_issued(flight);
    write(flight, *staged);
    *staged = {};
    ++flight.cluster().changes;
  };
  warp.bulk.open.emplace_back(lanes, copy);
  start_copy(flight.cluster(), copy);
}

// [d], [a], bytes, [mbarrier], multicast?
Step bulk_load(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "cp.async.bulk";
  warp.loads_bulk = true;
  for_lanes(mask, [&](uint32_t lane) {
    const Slot* const multicast = inst.mods & MULTICAST ? &inst.slots[4] : nullptr;
    const uint64_t from = global_address(warp, inst.slots[1], lane);
    const Flight flight(warp, 1u << lane, true);
    for (const Target& target :
         targets_of(warp, inst, lane, inst.slots[0], inst.slots[3], multicast, what)) {
      const uint32_t bytes = bulk_bytes(warp, inst.slots[2], lane, target.address, from, what);
      check_global(warp, lane, from, bytes, what);
      std::byte* const to = shared_bytes(warp, 1u << lane, target.address, bytes, what);
      start(flight, target, bytes, [=](const Flight& at_issue) {
        at_issue.reads_global(from, bytes);
        at_issue.writes_shared(target.address, bytes);
        std::memcpy(to, reinterpret_cast<const std::byte*>(from), bytes);
        at_issue.has_written(to, bytes);
      });
    }
  });
  return Step::next;
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

// [d], value or {values}, [mbarrier]: registers to another CTA's shared memory
Step store_async(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "st.async or red.async";
  uint32_t step = 0;
  const Reducer reducer = reducer_in(inst, &step);
  const Slot& mbarrier = inst.slots[inst.slot_count - 1];
  const uint32_t bytes = step * (inst.slot_count - 2);
  for_lanes(mask, [&](uint32_t lane) {
    const Target target = targets_of(warp, inst, lane, inst.slots[0], mbarrier, nullptr, what)[0];
    check_alignment(warp, lane, target.address, bytes, what, "destination");
    std::byte* const to = shared_bytes(warp, 1u << lane, target.address, bytes, what);
    std::array<std::byte, 32> value{};
    for (uint32_t i = 0; i < inst.slot_count - 2; ++i) {
      const uint64_t bits = value_of(warp, inst.slots[1 + i], lane);
      std::memcpy(&value[i * step], &bits, step);
    }
    start({warp, 1u << lane, false}, target, bytes, [=](const Flight& at_issue) {
      at_issue.writes_shared(target.address, bytes);
      put(to, value.data(), bytes, reducer, step);
    });
  });
  return Step::next;
}

Handler pick_store_async(Opcode& opcode) {
  const TensorType type = tensor_type(opcode.type());
  opcode.mods = as_mods(opcode) | static_cast<uint32_t>(type) << TYPE_SHIFT;
  const Reduction reduction = reduction_of(opcode);
  if (reduction != Reduction::none && reducer_of(reduction, type) == nullptr) return nullptr;
  return store_async;
}

// [d], [a], bytes: to global memory, in a bulk group
Step bulk_store(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "cp.async.bulk";
  warp.stores_bulk = true;
  uint32_t step = 0;
  const Reducer reducer = reducer_in(inst, &step);
  for_lanes(mask, [&](uint32_t lane) {
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
          at_issue.writes_global(to, bytes, reducer != nullptr);
          put(reinterpret_cast<std::byte*>(to), staged.data(), bytes, reducer, step);
        });
  });
  return Step::next;
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

// ---- Tensor copies ------------------------------------------------------------------------------

// The bytes of a tensor map where the machine keeps it; `address` is generic.
std::byte* map_bytes(Warp& warp, uint32_t lane, uint64_t address, const char* what) {
  Grid& grid = *warp.cta->cluster->grid;
  check_alignment(warp, lane, address, 64, what, "address of the tensor map");
  if ((address & WINDOW_MASK) == PARAM_WINDOW) {
    const uint64_t offset = address & ~WINDOW_MASK;
    if (offset + sizeof(TensorMap) <= grid.params.size()) {
      return reinterpret_cast<std::byte*>(grid.params.data() + offset);
    }
  } else if ((address & WINDOW_MASK) == 0) {
    check_global(warp, lane, address, 128, what);
    return reinterpret_cast<std::byte*>(address);
  }
  stop(warp, 1u << lane, what, ": the tensor map at ", hex(address),
       " is not in global, constant or parameter memory.");
}

// `coordinates`: as many slots as the opcode's rank.
Box box_of(Warp& warp, const Inst& inst, uint32_t lane, const Slot& map_slot,
           const Slot* coordinates, const char* what) {
  Box box;
  const uint64_t address = global_address(warp, map_slot, lane);
  std::memcpy(&box.map, map_bytes(warp, lane, address, what), sizeof box.map);
  const TensorMap& map = box.map;
  const uint32_t rank = inst.mods >> RANK_SHIFT_IN_MODS & 7;
  if (!map.is_valid()) {
    stop(warp, 1u << lane, what, ": what lies at ", hex(address),
         " is no tensor map that cuTensorMapEncodeTiled made.");
  }
  if (map.rank != rank) {
    stop(warp, 1u << lane, what, ".", rank, "d: the tensor map's rank is ", map.rank, ".");
  }
  if (map.interleave != TensorInterleave::none) {
    refuse(warp, "Tensor maps with an interleave are not supported.");
  }
  const auto inside = [](int64_t value, int64_t most) {
    return std::clamp(value, int64_t{0}, most);
  };
  for (uint32_t d = 0; d < rank; ++d) {
    box.at[d] = static_cast<int32_t>(value_of(warp, coordinates[d], lane));
    box.step[d] = d == 0 ? 1 : map.element_strides[d];
    box.extent[d] = (map.box[d] + box.step[d] - 1) / box.step[d];
    if (d > 0) box.rows *= static_cast<uint32_t>(box.extent[d]);
  }
  box.element = element_bytes(map.type);
  if (box.at[0] * box.element % 16 != 0) {  // tests/golden: an illegal instruction
    stop(warp, 1u << lane, what, ": the box begins at element ", box.at[0],
         " of its rows, which is not a multiple of 16 bytes from their start.");
  }
  box.row_bytes = static_cast<uint32_t>(box.extent[0]) * box.element;
  box.bytes = box.rows * box.row_bytes;
  box.pitch_bytes = box.row_bytes;
  if (map.swizzle != TensorSwizzle::none) {
    box.pitch_bytes = std::max(box.row_bytes, 16u << static_cast<uint32_t>(map.swizzle));
  }
  box.low = inside(-box.at[0], box.extent[0]);
  box.high = inside(static_cast<int64_t>(map.dims[0]) - box.at[0], box.extent[0]);
  return box;
}

// Between the first byte and the last one that are inside the tensor lies one allocation.
void check_box(Warp& warp, uint32_t lane, const Box& box, const char* what) {
  if (box.low >= box.high) return;
  uint64_t first = box.map.base + static_cast<uint64_t>(box.at[0] + box.low) * box.element;
  uint64_t last = first + box.inside_bytes();
  for (uint32_t d = 1; d < box.map.rank; ++d) {
    const int64_t step = box.step[d], dim = static_cast<int64_t>(box.map.dims[d]);
    const int64_t low = box.at[d] >= 0 ? 0 : (-box.at[d] + step - 1) / step;
    const int64_t high =
        box.at[d] >= dim ? -1 : std::min(box.extent[d] - 1, (dim - 1 - box.at[d]) / step);
    if (low > high) return;
    first += static_cast<uint64_t>(box.at[d] + low * step) * box.map.strides_bytes[d - 1];
    last += static_cast<uint64_t>(box.at[d] + high * step) * box.map.strides_bytes[d - 1];
  }
  check_global(warp, lane, first, last - first, what);
}

// The box that a store or a reduction writes. As observed on an H200 (tests/golden: tma/store and
// tma/add), a negative coordinate, which a load takes for outside, is an illegal instruction, and
// rows end in whole 16 bytes: what the last of them hold beyond the tensor's end is written too,
// into the padding of the row, or past the end of the allocation, which is a fault here. The H200
// was only asked with a negative inner coordinate; that the others must not be negative either is in
// the CUDA C++ Programming Guide.
Box stored_box(Warp& warp, const Inst& inst, uint32_t lane, const char* what) {
  Box box = box_of(warp, inst, lane, inst.slots[0], inst.slots + 1, what);
  for (uint32_t d = 0; d < box.map.rank; ++d) {
    if (box.at[d] >= 0) continue;
    stop(warp, 1u << lane, what, ": coordinate ", d, " is ", box.at[d],
         ": a store's box may leave the tensor at its end, but not begin before it.");
  }
  check_box(warp, lane, box, what);
  const int64_t chunk = 16 / box.element;
  box.high = (box.high + chunk - 1) / chunk * chunk;
  check_box(warp, lane, box, "cp.async.bulk.tensor, which writes whole 16 bytes");
  return box;
}

constexpr uint32_t TENSOR_ALIGNMENT = 128;  // of its place in shared memory

// [d], [map, {coordinates}], [mbarrier], multicast?
Step tensor_load(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "cp.async.bulk.tensor";
  warp.loads_bulk = true;
  const Slot* const mbarrier = inst.slots + 2 + (inst.mods >> RANK_SHIFT_IN_MODS & 7);
  const Slot* const multicast = inst.mods & MULTICAST ? mbarrier + 1 : nullptr;
  for_lanes(mask, [&](uint32_t lane) {
    const auto box =
        std::make_shared<const Box>(box_of(warp, inst, lane, inst.slots[1], inst.slots + 2, what));
    check_box(warp, lane, *box, what);
    const Flight flight(warp, 1u << lane, true);
    for (const Target& target :
         targets_of(warp, inst, lane, inst.slots[0], *mbarrier, multicast, what)) {
      check_alignment(warp, lane, target.address, TENSOR_ALIGNMENT, what, "shared address");
      std::byte* const to =
          shared_bytes(warp, 1u << lane, target.address, box->shared_bytes(), what);
      start(flight, target, box->bytes, [=](const Flight& at_issue) {
        if (at_issue.checker()) {
          for_global_runs(*box, [&](uint64_t address, uint64_t bytes) {
            at_issue.reads_global(address, bytes);
          });
          at_issue.writes_shared(target.address, box->shared_bytes());
        }
        load_box(*box, target.address, to);
        at_issue.has_written(to, box->shared_bytes());
      });
    }
  });
  return Step::next;
}

// [map, {coordinates}], [a]: writes or reduces what is inside the tensor, in a bulk group.
// Lanes with the same operands start one copy together: ptxas makes one of it, and CUTLASS lets a
// whole warp execute its stores.
Step tensor_store(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "cp.async.bulk.tensor";
  warp.stores_bulk = true;
  const uint32_t rank = inst.mods >> RANK_SHIFT_IN_MODS & 7;
  const auto op = static_cast<Reduction>(inst.mods >> REDUCTION_SHIFT & 15);
  while (mask != 0) {
    const uint32_t lane = first_lane(mask);
    uint32_t lanes = mask;
    for (uint32_t i = 0; i < 2 + rank; ++i) lanes = lanes_that_agree(warp, inst.slots[i], lanes);
    mask &= ~lanes;
    const auto box = std::make_shared<const Box>(stored_box(warp, inst, lane, what));
    const Reducer reducer = op == Reduction::none ? nullptr : reducer_of(op, box->map.type);
    if (op != Reduction::none && reducer == nullptr) {
      stop(warp, 1u << lane, "cp.reduce.async.bulk.tensor: there is no ",
           REDUCTIONS[static_cast<size_t>(op)], " of the tensor's element type.");
    }
    const uint32_t from = shared_address(warp, inst.slots[1 + rank], lane, SharedSpace::cta, what);
    check_alignment(warp, lane, from, TENSOR_ALIGNMENT, what, "shared address");
    const std::byte* const source = shared_bytes(warp, 1u << lane, from, box->shared_bytes(), what);
    start_in_group(
        warp, lanes, from, box->bytes,
        [=](const Flight& at_issue, Staged& staged) {
          if (at_issue.checker()) {
            for_shared_runs(*box, from, [&](uint64_t address, uint64_t bytes) {
              at_issue.reads_shared(static_cast<uint32_t>(address), static_cast<uint32_t>(bytes));
            });
          }
          staged.resize(box->bytes);
          gather_box(*box, from, source, staged.data());
        },
        [=](const Flight& at_issue, const Staged& staged) {
          if (at_issue.checker()) {
            for_global_runs(*box, [&](uint64_t address, uint64_t bytes) {
              at_issue.writes_global(address, bytes, reducer != nullptr);
            });
          }
          const uint32_t step = box->element;
          const size_t first = static_cast<size_t>(box->low) * step;
          box->for_rows([&](uint32_t row, uint64_t address) {
            if (address == 0) return;
            put(reinterpret_cast<std::byte*>(address), staged.data() + row * box->row_bytes + first,
                box->inside_bytes(), reducer, step);
          });
        });
  }
  return Step::next;
}

// [map, {coordinates}]
Step tensor_prefetch(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "cp.async.bulk.prefetch.tensor";
  for_lanes(mask, [&](uint32_t lane) {
    check_box(warp, lane, box_of(warp, inst, lane, inst.slots[0], inst.slots + 1, what), what);
  });
  return Step::next;
}

// ---- Tensor maps --------------------------------------------------------------------------------

// [map]
Step map_prefetch(Warp& warp, const Inst& inst, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) {
    map_bytes(warp, lane, global_address(warp, inst.slots[0], lane), "prefetch.tensormap");
  });
  return Step::next;
}

enum class Field : uint8_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  fill_mode,
};
constexpr const char* FIELDS[] = {
    ".global_address", ".rank",     ".box_dim",           ".global_dim",   ".global_stride",
    ".element_stride", ".elemtype", ".interleave_layout", ".swizzle_mode", ".fill_mode"};

void replace_field(TensorMap& map, Field field, uint32_t index, uint64_t value) {
  // elemtype's numbers are not those of cuTensorMapEncodeTiled.
  constexpr TensorType TYPES[] = {
      TensorType::u8,   TensorType::u16,  TensorType::u32,     TensorType::s32,     TensorType::u64,
      TensorType::s64,  TensorType::f16,  TensorType::f32,     TensorType::f32_ftz, TensorType::f64,
      TensorType::bf16, TensorType::tf32, TensorType::tf32_ftz};
  switch (field) {
    case Field::global_address:
      map.base = value;
      break;
    case Field::rank:
      map.rank = static_cast<uint8_t>(value + 1);
      break;
    case Field::box_dim:
      map.box[index] = static_cast<uint16_t>(value);
      break;
    case Field::global_dim:
      map.dims[index] = value;
      break;
    case Field::global_stride:
      map.strides_bytes[index] = value;
      break;
    case Field::element_stride:
      map.element_strides[index] = static_cast<uint8_t>(value);
      break;
    case Field::elemtype:
      map.type = TYPES[std::min<uint64_t>(value, std::size(TYPES) - 1)];
      break;
    case Field::interleave_layout:
      map.interleave = static_cast<TensorInterleave>(value);
      break;
    case Field::swizzle_mode:
      map.swizzle = static_cast<TensorSwizzle>(value);
      break;
    case Field::fill_mode:
      map.nan_fill = static_cast<uint8_t>(value);
      break;
  }
}

// [map], index?, value
template <bool SHARED>
Step map_replace(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "tensormap.replace";
  for_lanes(mask, [&](uint32_t lane) {
    const uint64_t address = global_address(warp, inst.slots[0], lane);
    std::byte* const bytes =
        SHARED ? shared_bytes(warp, 1u << lane,
                              shared_address(warp, inst.slots[0], lane, SharedSpace::cta, what),
                              128, what)
               : map_bytes(warp, lane, address, what);
    const Slot* const last = inst.slots + inst.slot_count - 1;
    const uint64_t index = inst.slot_count > 2 ? value_of(warp, inst.slots[1], lane) : 0;
    if (index >= MAX_TENSOR_RANK) {
      stop(warp, 1u << lane, what, ": there is no dimension ", index, ".");
    }
    TensorMap map;
    std::memcpy(&map, bytes, sizeof map);
    replace_field(map, static_cast<Field>(inst.mods), static_cast<uint32_t>(index),
                  value_of(warp, *last, lane));
    std::memcpy(bytes, &map, sizeof map);
  });
  ++warp.cta->cluster->changes;
  return Step::next;
}

Handler pick_map_replace(Opcode& opcode) {
  for (uint32_t i = 0; i < std::size(FIELDS); ++i) {
    if (opcode.has(FIELDS[i])) opcode.mods = i;
  }
  return opcode.has(".global") ? map_replace<false> : map_replace<true>;
}

// [d], [a], 128: a tensor map from shared to global memory, by the whole warp
Step map_publish(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "tensormap.cp_fenceproxy";
  const uint32_t lane = first_lane(mask);
  const uint64_t to = global_address(warp, inst.slots[0], lane);
  const uint32_t from = shared_address(warp, inst.slots[1], lane, SharedSpace::cta, what);
  std::memcpy(map_bytes(warp, lane, to, what), shared_bytes(warp, mask, from, 128, what), 128);
  if (Checker* const checker = warp.cta->cluster->checker.get()) {
    checker->fence(warp, mask, Order::release, Scope::gpu);
  }
  ++warp.cta->cluster->changes;
  return Step::next;
}

Handler pick_map_publish(Opcode& opcode) {
  opcode.convergent = true;
  return map_publish;
}

#define HINT "{.L2::cache_hint,}"
#define BYTES_TO_MBARRIER ".mbarrier::complete_tx::bytes"
#define RANKS "{.1d,.2d,.3d,.4d,.5d}"
#define REDUCTION "{.add,.min,.max,.inc,.dec,.and,.or,.xor}"

const Row ROWS[] = {
    {"cp.async{.ca,.cg}{.shared,.shared::cta}.global" HINT "{.L2::64B,.L2::128B,.L2::256B,}",
     "[d], [a], bytes:32, *", pick_cp_async,
     "copy 4, 8 or 16 bytes to shared memory; what the source lacks becomes 0"},
    {"cp.async.commit_group", "", always<cp_async_commit_group>, "a group of what was issued"},
    {"cp.async.wait_group", "n:32", always<cp_async_wait_group>, "wait for all but n groups"},
    {"cp.async.wait_all", "", always<cp_async_wait_all>, "wait for all cp.async"},
    {"cp.async.mbarrier.arrive{.noinc,}{.shared,.shared::cta,}.b64", "[a]",
     (pick_cp_async_arrive<cp_async_arrive<false>, cp_async_arrive<true>>),
     "arrive once all cp.async of the thread have landed"},

    {"cp.async.bulk{.shared::cluster,.shared::cta}.global" BYTES_TO_MBARRIER
     "{.multicast::cluster,}" HINT,
     "[d], [a], bytes:32, [mbarrier], *", pick_bulk<bulk_load>, "copy to shared memory"},
    {"cp.async.bulk.shared::cluster.shared::cta" BYTES_TO_MBARRIER,
     "[d], [a], bytes:32, [mbarrier]", pick_bulk<bulk_pass>, "copy to a CTA of the cluster"},
    {"cp.async.bulk.global.shared::cta.bulk_group" HINT, "[d], [a], bytes:32, *",
     pick_bulk<bulk_store>, "copy to global memory"},
    {"cp.reduce.async.bulk.shared::cluster.shared::cta" BYTES_TO_MBARRIER REDUCTION
     "{.b32,.u32,.s32,.b64,.u64,.s64}",
     "[d], [a], bytes:32, [mbarrier]", pick_bulk<bulk_pass>, "combine with another CTA's memory"},
    {"cp.reduce.async.bulk.global.shared::cta.bulk_group" HINT REDUCTION
     "{.noftz,}{.b32,.u32,.s32,.b64,.u64,.s64,.f16,.bf16,.f32,.f64}",
     "[d], [a], bytes:32, *", pick_bulk<bulk_store>, "combine with global memory"},
    {"st.async{.weak,}.shared::cluster" BYTES_TO_MBARRIER
     "{.v2,.v4,}{.b32,.u32,.s32,.f32,.b64,.u64,.s64,.f64}",
     "[d], *", pick_store_async, "store to a CTA of the cluster"},
    {"red.async{.relaxed,}{.cluster,}.shared::cluster" BYTES_TO_MBARRIER REDUCTION
     "{.b32,.u32,.s32,.u64}",
     "[d], a:t, [mbarrier]", pick_store_async, "combine with a CTA's memory"},
    {"cp.async.bulk.prefetch.L2.global" HINT, "[a], bytes:32, *", always<bulk_prefetch>,
     "nothing, but the addresses must be legal"},

    {"cp.async.bulk.tensor" RANKS "{.shared::cluster,.shared::cta}.global{.tile,}" BYTES_TO_MBARRIER
     "{.multicast::cluster,}" HINT,
     "[d], [map, {x}], [mbarrier], *", pick_bulk<tensor_load>, "copy a box to shared memory"},
    {"cp.async.bulk.tensor" RANKS ".global.shared::cta{.tile,}.bulk_group" HINT,
     "[map, {x}], [a], *", pick_bulk<tensor_store>, "copy a box to global memory"},
    {"cp.reduce.async.bulk.tensor" RANKS ".global.shared::cta" REDUCTION "{.tile,}.bulk_group" HINT,
     "[map, {x}], [a], *", pick_bulk<tensor_store>, "combine a box with global memory"},
    {"cp.async.bulk.prefetch.tensor" RANKS ".L2.global{.tile,}" HINT, "[map, {x}], *",
     pick_bulk<tensor_prefetch>, "nothing, but the box must be legal"},
    {"cp.async.bulk.commit_group", "", always<bulk_commit_group>, "a group of what was issued"},
    {"cp.async.bulk.wait_group{.read,}", "n:32", pick_bulk_wait,
     "wait for all but n groups; read: until their sources may change"},

    {"prefetch{.param,.const,}.tensormap", "[map]", always<map_prefetch>,
     "nothing, but the map must be there"},
    {"tensormap.replace.tile{.global_address,.rank,.box_dim,.global_dim,.global_stride,"
     ".element_stride,.elemtype,.interleave_layout,.swizzle_mode,.fill_mode}"
     "{.global,.shared,.shared::cta}.b1024{.b32,.b64}",
     "[map], *", pick_map_replace, "change a field of a tensor map"},
    {"tensormap.cp_fenceproxy.global{.shared,.shared::cta}.tensormap::generic.release"
     "{.cta,.cluster,.gpu,.sys}.sync.aligned",
     "[d], [a], bytes:32", pick_map_publish, "copy a tensor map, for TMA to see"},
};

}  // namespace

Section copy_section() {
  return {"Asynchronous copies", ROWS, std::size(ROWS)};
}

}  // namespace machine
