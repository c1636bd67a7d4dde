// What the checker of a cluster remembers, for its rules and its reports.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/machine/check/access.h"
#include "common/machine/check/shadow.h"
#include "common/machine/check/warp_knowledge.h"
#include "common/machine/ops/matrix.h"

namespace machine {

// An operand of wgmma.mma_async in shared memory, for reports.
struct WgmmaOperand {
  char name;  // A or B
  uint64_t descriptor;
  Segment extent;  // from its first byte to its last, of all four warps
};
// Of the instruction, with these descriptors of A, if it is in shared memory, and B.
using WgmmaDescriptors = std::array<uint64_t, 2>;
std::vector<WgmmaOperand> wgmma_operands(Warp& warp, const Inst& inst,
                                         const WgmmaDescriptors& descriptors);

// A strong load from global memory, or an atomic. What it learns is looked up when the warp goes on:
// another cluster may store between the call here and the access.
struct Load {
  uint32_t lanes;
  std::array<uint64_t, LANES> addresses;
  bool acquires;
  Scope scope;
  uint32_t bytes;   // of each lane
  GlobalRecord as;  // but for lanes and bytes
};

struct WgmmaRegister {
  uint32_t group = 0, pc = 0;  // of the last wgmma.mma_async that names it
  uint32_t touched = 0;        // by an ordinary instruction, behind so many wgmma.fence - 1
  uint32_t touched_pc = 0;
  bool accumulator = false;
};

// What was released by another cluster, held so that it does not change, and whether a scope or a
// missing fence keeps it from who saw it.
using SeenRelease = std::pair<std::shared_ptr<Knowledge>, bool>;

// What a load of global memory has heard at an address: held, so that it does not change.
struct Heard {
  std::shared_ptr<const Channel> channel;
  uint32_t lanes = 0;
  bool acquires = false;
  Scope scope = Scope::gpu;
  bool operator==(const Heard&) const = default;
};

// A cp.async: clocks of its warp when it was issued, when its group was closed, by a commit or by
// cp.async.mbarrier.arrive, and when the last of its lanes had waited for it.
struct CpAsync {
  Record record;
  uint32_t lanes;
  uint32_t issued;
  uint32_t in_flight;       // lanes that have yet to wait
  uint32_t committed = 0;   // 0: not yet
  uint32_t waited = 0;      // 0: not yet
  bool arrives = false;     // by the latter
  std::vector<Segment> to;  // if it was in flight then
};

struct WarpState {
  explicit WarpState(Warp& warp) : warp(warp), knows(warp) { known_keys.fill(~0ull); }

  Warp& warp;
  WarpKnowledge knows;
  std::vector<Load> loads;
  std::map<SeenRelease, std::pair<uint32_t, bool>> seen_releases;  // by which lanes, if acquired
  Heard heard;                                                     // the last
  // What would be known but for a scope, or for a fence before a relaxed operation: for reports.
  Knowledge unscoped, unfenced;

  // Keys of cells that all its lanes may read and overwrite, by hash: what is known stays known.
  std::array<uint64_t, 64> known_keys;

  std::vector<WgmmaRegister> registers;                        // by row
  std::unordered_map<uint32_t, WgmmaDescriptors> descriptors;  // of the last wgmma at a pc
  // cp.async, by lane: the newest group waited for; and the newest that only some lanes of those that
  // have copies in it have waited for, or arrived behind.
  std::array<uint32_t, LANES> cp_async_waited{};
  uint32_t cp_async_in_part = 0;
  std::deque<CpAsync> cp_async;  // the last ones
  uint32_t waited_for = 0;       // mbarrier, the last one: its address
  uint32_t wgmma_fences = 0;
  // Of the last ones: its clock at each fence, and how many had been executed before each group of wgmma.
  std::deque<uint32_t> fenced_at;
  std::deque<std::pair<uint64_t, uint32_t>> fences_of_group;
  // Which fence is the first one behind its accesses of this clock, maybe the next to come.
  uint32_t fence_behind(uint32_t accesses) const {
    const auto found = std::ranges::lower_bound(fenced_at, accesses);
    return wgmma_fences + 1 - static_cast<uint32_t>(fenced_at.end() - found);
  }
  uint32_t clock_at_fence(uint32_t number) const {  // of one of the first, that of a later one
    const size_t from_end = wgmma_fences - number + 1;
    return from_end > fenced_at.size() ? fenced_at.front() : *(fenced_at.end() - from_end);
  }
  uint32_t fences_before(uint64_t group) const {  // 0: not known
    const auto found = std::ranges::find(fences_of_group, group, [](auto& of) { return of.first; });
    return found == fences_of_group.end() ? 0 : found->second;
  }
  uint64_t wgmma_waited = 0;  // group, by the warp itself
  uint32_t init_fences = 0;
};

// Waits of a warp that have returned.
struct Waits {
  uint32_t count = 0;  // that of parts of the warp, one after the other in one phase, is one
  uint32_t lanes = 0, phase = 0;  // of the last one
  bool ahead = false;             // whether the first one returned in the phase after the init

  void add(uint32_t mask, uint32_t in_phase, uint32_t made_in) {
    const bool is_part = lanes != 0 && (lanes & mask) == 0 && phase == in_phase;
    lanes = is_part ? lanes | mask : mask;
    phase = in_phase;
    if (is_part || ++count != made_in + 1) return;
    ahead = in_phase == made_in;
  }
};

// A bulk copy that completes at an mbarrier, with the clock of its accesses.
struct BulkCopy {
  uint32_t clock;
  const Warp* issuer;
  Segment to;
};

struct MbarrierState {
  uint32_t address = 0;
  uint32_t agent = 0;
  uint32_t phase = 0;   // how many are complete
  bool living = false;  // between init and inval
  Record init;
  uint32_t init_fence = 0;  // clock of its INIT_FENCES agent; 0: none was executed behind the init
  Channel pending, completed;
  Warp* issuer = nullptr;       // of the last copy that completes here
  std::deque<BulkCopy> copies;  // the last ones: where they write
  bool outrun = false;  // a phase was complete before a copy had landed that was issued in it
  // Warps of the cluster, by bit: that arrived in the last phase, in this one, that ever waited.
  uint64_t arrived = 0, arriving = 0, waited = 0;
  std::vector<Waits> waits;               // by warp of the cluster
  uint32_t made_in = 0;                   // the phase of the init
  std::map<uint32_t, Record> last_waits;  // since the init, by agent
};

struct BarrierState {
  Knowledge pending, completed;
  Clocks pending_lanes, completed_lanes;  // that arrived, by warp of the cluster

  void arrive(const Warp& warp, uint32_t lanes, const Knowledge& what) {
    pending.join(what);
    entry(pending_lanes, warp.in_cluster) |= lanes;
  }
  // Those of the warp that arrived, once.
  uint32_t take_lanes(const Warp& warp) {
    return std::exchange(entry(completed_lanes, warp.in_cluster), 0);
  }
  void complete() {
    completed = std::exchange(pending, {});
    completed_lanes = std::exchange(pending_lanes, {});
  }
};

// The access that is being checked; the record of it, but for its lanes and bytes.
struct Attempt : Record {
  const WarpState* by;
  const Knowledge* known;
  bool async_proxy = false;
  bool updates = false;                // an atomic: it writes, and reads what was there
  Scope scope = Scope::gpu;            // of a strong one
  bool reads_map = false;              // a tensor map, which TMA does in a proxy of its own
  Store* store = nullptr;              // of a store
  uint32_t lanes_met_at = UINT32_MAX;  // of a generic access: WarpKnowledge::lanes_met_at()
  uint32_t mask = 0;                   // lanes of the instruction, and, if generic, their cells
  const uint32_t* cells = nullptr;

  // As it is recorded, without the bytes.
  uint64_t key = 0, rest = 0;  // of a Cell
  uint64_t read = 0;           // of a Plane
  Shadow* shadow = nullptr;    // that it is in now
  Plane* plane = nullptr;      // of its reads there
  Plane* own_reads = nullptr;  // of a generic write: what its warp has read there
  uint64_t known_key = ~0ull;  // of cells that it may read
  uint32_t block = ~0u;        // that `suspects` are of
};

struct CheckerState {
  Cluster& cluster;
  const Program& program;
  const uint32_t id;                                      // of the cluster
  std::vector<Shadow> shadows;                            // by rank
  std::vector<WarpState> warps;                           // by Warp::in_cluster
  std::unordered_map<uint32_t, MbarrierState> mbarriers;  // by address
  Knowledge unreleased = {};                              // by relaxed arrives at its barrier

  // The last warp of a CTA lanes of which arrived twice in one phase of a barrier, and at which one.
  std::map<const Cta*, std::pair<const Warp*, uint32_t>> arrived_twice = {};

  uint32_t warp_count() const { return static_cast<uint32_t>(warps.size()); }
  // The agent that griddepcontrol.wait has waited for. No access is recorded with it.
  uint32_t grids_before() const { return warp_count() * AGENTS_OF_WARP; }
  // Whether the agent is an mbarrier, and so the access that of a copy which completes there.
  bool is_mbarrier(uint32_t agent) const { return agent > grids_before(); }
  const MbarrierState* mbarrier_of(uint32_t agent) const {  // or null
    const auto found = std::ranges::find_if(
        mbarriers, [agent](const auto& each) { return each.second.agent == agent; });
    return found == mbarriers.end() ? nullptr : &found->second;
  }
  const WarpState& warp_of(uint32_t agent) const { return warps[agent / AGENTS_OF_WARP]; }
  AgentKind kind_of(uint32_t agent) const {
    return is_mbarrier(agent) ? MBARRIER : static_cast<AgentKind>(agent % AGENTS_OF_WARP);
  }
  // Who executes, or has issued what completes at the mbarrier.
  const Warp& warp_behind(uint32_t agent) const {
    return is_mbarrier(agent) ? *mbarrier_of(agent)->issuer : warp_of(agent).warp;
  }
  // The same of an access to shared memory there: which of those who have issued such copies.
  const Warp& warp_behind(const Record& record, uint32_t address) const {
    if (!is_mbarrier(record.agent)) return warp_behind(record.agent);
    const std::deque<BulkCopy>& copies = mbarrier_of(record.agent)->copies;
    const auto found = std::find_if(copies.rbegin(), copies.rend(), [&](const BulkCopy& copy) {
      return copy.clock == record.clock && address - copy.to.address < copy.to.bytes;
    });
    return found == copies.rend() ? warp_behind(record.agent) : *found->issuer;
  }
  // Of the warp that made it, unless that was long ago; or null.
  const CpAsync* cp_async_of(const Record& record) const {
    const std::deque<CpAsync>& copies = warp_of(record.agent).cp_async;
    const auto found = std::ranges::find(copies, record.clock,
                                         [](const CpAsync& each) { return each.record.clock; });
    return found == copies.end() ? nullptr : &*found;
  }
  // Whether an access is behind a cp.async, but not behind the end of its group.
  bool lacks_commit(const Attempt& attempt, const CpAsync& copy) const {
    if (copy.arrives) return false;
    const WarpState& owner = warp_of(copy.record.agent);
    if (&owner == attempt.by) return copy.committed == 0;
    const uint32_t known = clock_of(attempt.known->views[GENERIC], owner.knows.agent(SOME_LANES));
    return known >= copy.issued && (copy.committed == 0 || known < copy.committed);
  }
  // Whether wgmma.fence, at which the warps of a warpgroup meet on an H200 (tests/golden/answers.md,
  // question 14), puts the two in order: by PTX it does not.
  bool are_apart_by_wgmma_fence(const Attempt& attempt, const Record& record) const;
  // Of an address in shared memory that has been accessed.
  const Cell& cell_at(uint32_t address) const {
    return shadows[address >> RANK_SHIFT].cells[((address & OFFSET_MASK) - SMEM_BASE) / CELL_BYTES];
  }
  std::string opcode_at(uint32_t pc) const { return program.opcode(pc); }
};

}  // namespace machine
