// What all asynchronous copies share: what a copy in flight knows of its instruction, where it goes,
// and how it is started. When it runs is the scheduler's.
#pragma once

#include <utility>
#include <vector>

#include "common/machine/ops/mbarrier.h"
#include "common/machine/ops/operands.h"
#include "common/machine/ops/reduction.h"
#include "common/machine/run/observer.h"

namespace machine {

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
    check.lanes = lanes;
    check.async_proxy = async_proxy;
    if (checker()) check.issued = checker()->snapshot(issuer, lanes);
  }
  Cluster& cluster() const { return *warp->cta->cluster; }
  Checker* checker() const { return cluster().checker.get(); }

  void reads_shared(uint32_t address, uint32_t bytes) const {
    tell(&Checker::copy_reads_shared, Segment{address, bytes});
  }
  void writes_shared(uint32_t address, uint32_t bytes, bool reduces = false) const {
    tell(&Checker::copy_writes_shared, Segment{address, bytes}, reduces);
  }
  // Of what it has brought: poison is reported by who reads it.
  bool looks_for_poison() const {
    return checker() && checker()->looks_for_poison && !checker()->poison_in_shared;
  }
  void has_written(const std::byte* shared, uint32_t bytes) const {
    if (looks_for_poison()) checker()->poison_in_shared = has_poison(shared, bytes);
  }
  void reads_global(const std::vector<Run>& runs) const {
    observer_of(*warp).tell(&Checker::copy_reads_global, check, runs);
  }
  // `values`: those of the runs, one behind the other, where it stores.
  void writes_global(std::vector<Run> runs, const std::byte* values, bool reduces) const {
    for (Run& run : runs) {
      if (!reduces) run.values = values;
      values += run.bytes;
    }
    observer_of(*warp).tell(&Checker::copy_writes_global, check, runs, reduces);
  }
  template <class... Parameters>
  void tell(void (Checker::*what)(const Checker::Copy&, Parameters...), Parameters... of) const {
    observer_of(*warp).tell(what, check, of...);
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

// Calls f(start, bytes) for each run of pieces that touch: add() them in order, then flush().
template <class F>
class Runs {
 public:
  explicit Runs(F f) : f_(std::move(f)) {}
  void add(uint64_t start, uint64_t bytes) {
    if (start != start_ + bytes_) {
      flush();
      start_ = start;
    }
    bytes_ += bytes;
  }
  void flush() {
    if (bytes_ != 0) f_(start_, bytes_);
    bytes_ = 0;
  }

 private:
  F f_;
  uint64_t start_ = 0, bytes_ = 0;
};

[[noreturn]] void misaligned(Warp& warp, uint32_t lane, uint64_t value, uint32_t alignment,
                             const char* what, const char* of);
inline void check_alignment(Warp& warp, uint32_t lane, uint64_t value, uint32_t alignment,
                            const char* what, const char* of) {
  if ((value & (alignment - 1)) != 0) misaligned(warp, lane, value, alignment, what, of);
}
uint64_t global_address(Warp& warp, const Slot& slot, uint32_t lane);

// ---- Groups -------------------------------------------------------------------------------------

// What the lanes have issued becomes a group.
void commit_group(CopyGroups& groups, uint32_t mask);

struct Waited {
  uint64_t last = 0;   // index of the newest group that must be complete; 0: none
  uint64_t lands = 0;  // when it is, on the timeline's clock
};

// Completes all groups of these lanes but the `pending` newest.
Waited wait_for_groups(CopyGroups& groups, uint32_t mask, uint32_t pending, bool only_read);

// ---- Bulk and tensor copies -----------------------------------------------------------------------

struct CopyQualifiers {
  bool multicast : 1, to_own_cta : 1;  // the destination is .shared::cta
  uint8_t rank : 4;                    // of a tensor copy
  Reduction reduction;
  TensorType type;  // of elements, but for a tensor's
};

CopyQualifiers copy_qualifiers(const Opcode& opcode);
template <Handler F>
Handler pick_copy(Opcode& opcode) {
  opcode.set(copy_qualifiers(opcode));
  return F;
}

template <Handler F>
Handler pick_reduction(Opcode& opcode) {
  const CopyQualifiers of = copy_qualifiers(opcode);
  opcode.set(of);
  return has_reduction(of.reduction, of.type) ? F : nullptr;
}

// The size of a copy; its addresses are checked with it.
uint32_t bulk_bytes(Warp& warp, const Slot& slot, uint32_t lane, uint64_t to, uint64_t from,
                    const char* what);

struct Target {
  uint32_t address = 0, mbarrier = 0;
};

// Where a copy to shared memory goes: one CTA, or the same place in each of a multicast.
std::vector<Target> targets_of(Warp& warp, const Inst& inst, uint32_t lane, const Slot& address,
                               const Slot& mbarrier, const Slot* multicast, const char* what);

// Starts a copy that completes on its target's mbarrier; write(flight) checks and writes.
template <class F>
void start(Flight flight, const Target& target, uint32_t bytes, F write) {
  flight.check.mbarrier = target.mbarrier;
  if (flight.checker()) flight.check.phase = flight.checker()->phase_of(target.mbarrier);
  const auto copy = std::make_shared<AsyncCopy>();
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

// The bytes of a tensor map where the machine keeps it; `address` is generic.
std::byte* map_bytes(Warp& warp, uint32_t lane, uint64_t address, const char* what);

// ---- Patterns of rows ---------------------------------------------------------------------------

#define HINT "{.L2::cache_hint,}"
#define BYTES_TO_MBARRIER ".mbarrier::complete_tx::bytes"
#define REDUCTION "{.add,.min,.max,.inc,.dec,.and,.or,.xor}"

}  // namespace machine
