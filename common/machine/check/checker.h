// The happens-before checker of one cluster. Handlers tell it of every access and of everything that
// orders accesses (run/observer.h); it reports two that conflict and that nothing orders. It knows
// nothing of how an instruction does what it does.
//
// What it knows is kept in clocks (one entry for each agent that accesses memory), in several views
// (clocks.h): what happened before, and the parts of it that fences have made known to the async proxy,
// can be released at a scope, or are known to reads of tensor maps. And, for each 8 bytes of memory, who
// wrote last and who read since. docs/machine.md has the rules.
#pragma once

#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/machine/check/checker_state.h"
#include "common/machine/check/race_report.h"

namespace machine {

// Segment::address is a shared::cluster address here.

class Checker {
 public:
  Checker(Cluster& cluster, std::shared_ptr<GlobalShadow> global);
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  // Whether loads look for what was never written: Checker::never_written.
  bool looks_for_poison = false;
  bool poison_in_shared = false;  // a copy has brought it there

  // ---- Generic proxy; called before the access is made. 32 addresses, of which `mask` counts.
  // Strong accesses, which are not weak, do not race with each other. They also acquire or release: at an
  // address that a released store or atomic wrote, an acquiring load learns what the writer knew.
  void shared_access(Warp& warp, uint32_t mask, const uint32_t* addresses, uint32_t bytes,
                     Access access, Order order, Scope scope, Store* store = nullptr);
  void global_access(Warp& warp, uint32_t mask, const uint64_t* addresses, uint32_t bytes,
                     Access access, Order order, Scope scope, Store* store = nullptr);
  // Behind a strong load: what others release from now on it has not heard.
  void loaded(Warp& warp) { state_of(warp); }
  // A load brought what device memory begins with (allocations.h).
  void never_written(Warp& warp, uint32_t mask, uint64_t address);

  // ---- Fences
  void fence(Warp& warp, uint32_t mask, Order order, Scope scope);  // fence, membar
  void fence_proxy_async(Warp& warp, uint32_t mask, Proxy proxy);
  void fence_mbarrier_init(Warp& warp, uint32_t mask);
  void fence_tensor_map(Warp& warp, uint32_t mask, Order order);  // fence.proxy.tensormap
  void warp_sync(Warp& warp, uint32_t mask) { state_of(warp).knows.meet(mask); }  // bar.warp.sync
  // griddepcontrol.wait. A launch with LaunchConfig::programmatic accesses no global memory before.
  void grid_wait(Warp& warp, uint32_t mask);
  void grid_lets_next(Warp& warp, uint32_t mask);  // griddepcontrol.launch_dependents

  // ---- Barriers: every arrival, then once complete, then every wait that returns
  void barrier_arrive(Warp& warp, uint32_t mask, uint32_t id);
  void barrier_complete(Cta& cta, uint32_t id) { barriers_[cta.rank][id].complete(); }
  void barrier_wait(Warp& warp, uint32_t mask, uint32_t id);
  void cluster_arrive(Warp& warp, uint32_t mask, bool release);
  void cluster_complete() { cluster_barrier_.complete(); }
  void cluster_wait(Warp& warp, uint32_t mask);  // PTX has acquiring ones only
  // Lanes have exited; the last ones of the CTA, when `last_of_cta`. A CTA must not exit while peers,
  // or bulk copies, can still access its shared memory.
  void exited(Warp& warp, uint32_t mask, bool last_of_cta);
  // Of a hang, "" if there is none: a read of what nobody has written up to now.
  std::string read_early() const;
  // Of a warp that waits at an mbarrier for ever: that phases are over which it has not seen; or "".
  std::string comes_late(const Warp& warp, uint32_t mbarrier, uint32_t parity) const;

  // ---- mbarrier objects; addresses are shared::cluster
  void mbarrier_init(Warp& warp, uint32_t mask, uint32_t address);
  void mbarrier_inval(Warp& warp, uint32_t mask, uint32_t address);
  // `release` and `scope` are those of the arrive; called before the phase may complete.
  void mbarrier_arrive(Warp& warp, uint32_t mask, uint32_t address, bool release, Scope scope);
  // expect_tx, complete_tx, test_wait and try_wait that return false, pending counts
  void mbarrier_use(Warp& warp, uint32_t mask, uint32_t address);
  void mbarrier_phase_complete(uint32_t address);
  // A test_wait or try_wait that returns true.
  void mbarrier_wait(Warp& warp, uint32_t mask, uint32_t address, bool acquire, Scope scope);

  // ---- Asynchronous copies. At issue: a snapshot. When they run: what they access.
  Snapshot snapshot(Warp& warp, uint32_t mask) { return state_of(warp).knows.release(mask); }
  struct Copy {
    Warp* warp = nullptr;  // the issuer
    uint32_t lanes = 0;
    uint32_t pc = 0;
    Snapshot issued;
    bool async_proxy = true;     // false: cp.async, which is of the generic proxy
    uint32_t mbarrier = 0;       // completes there (shared::cluster address); 0: in a group
    uint64_t group = 0;          // of the warp's bulk or cp.async groups
    uint64_t phase = 0;          // of the mbarrier, when it was issued
    bool of_some_lanes = false;  // of cp.async.mbarrier.arrive: others have copies in flight, too
  };
  uint64_t phase_of(uint32_t mbarrier) const;
  void copy_reads_shared(const Copy& copy, Segment segment);
  void copy_writes_shared(const Copy& copy, Segment segment, bool reduces = false);
  void copy_reads_global(const Copy& copy, const std::vector<Run>& runs);
  void copy_reads_map(const Copy& copy, uint64_t address);  // a tensor map in global memory
  void copy_writes_global(const Copy& copy, const std::vector<Run>& runs, bool reduces);
  // `to`: where it will write, if it is in flight; then what ends its group.
  void cp_async_issued(const Copy& copy, uint32_t mask, std::vector<Segment> to);
  void cp_async_committed(Warp& warp, uint32_t mask);
  void cp_async_closed(Warp& warp, uint32_t mask);  // by cp.async.mbarrier.arrive
  // cp.async.wait_group: all groups up to `group` are complete for these lanes, and copies up to
  // `by_all` for every lane that has issued them.
  void cp_async_wait(Warp& warp, uint32_t mask, uint64_t group, uint64_t by_all = UINT64_MAX);
  // cp.async.mbarrier.arrive, at copy.mbarrier: the warp's cp.async up to copy.group are complete when
  // the phase is.
  void cp_async_arrive(const Copy& copy, uint32_t mask);
  // cp.async.bulk.wait_group; `only_read`: .read
  void bulk_wait(Warp& warp, uint32_t mask, uint64_t group, bool only_read);

  // ---- wgmma. Called when a warp issues it: the shared memory that its 16 rows of A (none if A is
  // in registers) and B are read from, and the group it will be committed to.
  struct WgmmaReads {  // shared offsets
    std::span<const Segment> a, b;
    bool adds = false;  // to what is in its accumulators
  };
  void wgmma_issue(Warp& warp, const Inst& inst, uint64_t group, const WgmmaReads& reads,
                   const WgmmaDescriptors& descriptors = {});
  void wgmma_fence(Warp& warp, uint32_t mask);
  // wait_group returned: groups up to groups[i] of warp i of the warpgroup are complete.
  void wgmma_wait(Warp& warp, const uint64_t groups[4]);
  // An instruction that names a register which some wgmma names (Inst::touches_async), other than
  // wgmma itself.
  void touch_registers(Warp& warp, const Inst& inst, uint32_t mask);

 private:
  // ---- Who knows what
  static bool is_acquire(Order order) { return order == Order::acquire || order == Order::acq_rel; }
  static bool is_release(Order order) { return order == Order::release || order == Order::acq_rel; }
  static uint32_t last_lane(uint32_t mask) {
    return LANES - 1 - static_cast<uint32_t>(std::countl_zero(mask));
  }
  // Of a warp that executes something, or a copy of it.
  WarpState& state_of(const Warp& warp);
  // A relaxed operation releases what fences of the scopes from `least` to `scope` have prepared.
  void add_release(WarpState& state, uint32_t lanes, Channel* to, bool release, Scope scope,
                   Scope least = Scope::cta);
  // A wait or load has seen what was released there: the lanes learn it if it acquires; else a later
  // fence makes them do so. Behind the last, what the warp knows is to be settled.
  void hear(WarpState& state, uint32_t lanes, const Channel& channel, bool acquires, Scope scope);
  // Adds what another cluster has released, as this cluster knows it: its own clocks, and those of the
  // others by cluster.
  void join_from_cluster(Knowledge* to, const Channel::Part& part) const;

  // ---- Programmatic dependent launch
  bool is_programmatic() const { return state_.cluster.grid->config.programmatic; }
  bool knows_grids_before(const Knowledge& known) const {
    return clock_of(known.views[GENERIC], state_.grids_before()) != 0;
  }
  // Whoever runs before this grid may still write what it reads, and read what it writes: what is
  // not behind a griddepcontrol.wait is reported, wherever it is, but for constants, unless
  // those who may still run are known and did no such thing.
  void check_grids_before(const Attempt& attempt, uint64_t address, uint64_t bytes) const;
  // A copy whose issuer has waited ends behind the grids before, and so do waits for its mbarrier.
  void tell_of_grids_before(const Copy& copy);
  // Calls f(address, lanes) for each address that some of the lanes have.
  template <class T, class F>
  static void for_each_address(uint32_t mask, const T* addresses, F&& f) {
    for_groups(mask, [addresses](uint32_t lane) { return addresses[lane]; }, f);
  }
  // Lanes of a warp that have parted may come one by one: they meet all the same, when the first of
  // them goes on.
  void pass(Warp& warp, uint32_t mask, BarrierState& barrier);

  // ---- Accesses
  Attempt generic_access(Warp& warp, uint32_t mask, bool write);
  // `kind`: of a copy that completes in a group.
  Attempt copy_access(const Copy& copy, AgentKind kind, bool write);
  void access_global(const Attempt& attempt, std::span<const Run> runs);  // of a copy
  // A plain load before a loop of atom.cas, as the CUDA C++ Programming Guide has it, may see any
  // value: one that races with atomics is reported only if its warp executes none there itself.
  void check_conflict(const Attempt& attempt, const GlobalAccess& access,
                      const GlobalShadow::Conflict& conflict);
  void check_conflict(const Attempt& attempt, const Record& with, uint32_t bytes, uint32_t index);
  GlobalAccess as_global(const Attempt& attempt) const;
  static uint32_t index_of(uint32_t address) {
    return ((address & OFFSET_MASK) - SMEM_BASE) / CELL_BYTES;
  }
  Cell* cell_at(uint32_t address);
  MbarrierState& mbarrier_at(uint32_t address);
  // Makes the CTA of the address the one that is accessed; false if there is none.
  bool enter(Attempt& attempt, uint32_t address) {
    const uint32_t rank = address >> RANK_SHIFT;
    if (attempt.shadow != nullptr && attempt.shadow->cta->rank == rank) return true;
    return rank < state_.shadows.size() && enter_cta(attempt, address);
  }
  bool enter_cta(Attempt& attempt, uint32_t address);
  // An mbarrier of a peer is used; `phase`: of an arrival, how many are complete once its own is.
  void visit(WarpState& state, uint32_t mask, uint32_t address, uint32_t phase = 0);
  // Whether who knows this knows that it is over. An arrival is so once its phase is complete, also
  // one that orders nothing.
  bool is_over(const Knowledge& known, const Shadow::Visit& visit) const;
  static uint64_t& known_key_at(WarpState& state, uint64_t key) {
    return state.known_keys[(key ^ key >> 32) % state.known_keys.size()];
  }
  // The view in which an earlier access by the agent must be known.
  View view_of(const Attempt& attempt, uint32_t agent) const {
    return attempt.async_proxy && in_generic_proxy(agent, state_.warp_count()) ? ASYNC_SHARED
                                                                               : GENERIC;
  }
  bool is_before(const Attempt& attempt, const Record& record, uint32_t bytes) const;
  bool is_waited_for(const Attempt& attempt, const Record& record) const;
  // A strong access: of loads it is kept what they have seen, as GlobalShadow::see() does.
  void note_seen(const Attempt& attempt, uint32_t address, uint32_t bytes, uint32_t lanes);
  bool has_seen(const Attempt& attempt, const Record& write, uint32_t bytes, uint32_t index) const;
  void check_read_before(Attempt& attempt, const Record& read, uint32_t index, uint32_t bytes,
                         uint32_t lanes);
  void check_write_before(Attempt& attempt, const Cell& cell, uint32_t index, uint32_t bytes,
                          uint32_t lanes);
  void check_writes_before(Attempt& attempt, uint32_t index, uint32_t bytes, uint32_t lanes);
  // `lanes`: a pair, of the parts that `bytes` stand for.
  void read_cell(Attempt& attempt, uint32_t index, uint32_t bytes, uint32_t lanes);
  void write_cell(Attempt& attempt, uint32_t index, uint32_t bytes, uint32_t lanes);
  void note_early(const Attempt& attempt, uint32_t index, uint32_t bytes, uint32_t lanes);
  void check_early(const Attempt& attempt, uint32_t index, uint32_t bytes, uint32_t lanes);
  // The agents one of whose reads of the cell's block may not be over.
  void find_suspects(Attempt& attempt, uint32_t index);
  // What is beyond the end of shared memory ends in a fault of its own.
  void access_shared(Attempt& attempt, uint32_t mask, const uint32_t* addresses, uint32_t bytes);
  // The cells that the lanes of an instruction touch, or begin to.
  struct Touched {
    uint32_t index[LANES], bytes[LANES], lanes[LANES];
  };
  void read_lanes(Attempt& attempt, uint32_t mask, const Touched& touched, uint32_t step);
  // Of copies and wgmma.
  void access_segment(Attempt& attempt, const Segment& segment);
  void write_cells(Attempt& attempt, uint32_t first, uint32_t end);
  void read_cells(Attempt& attempt, uint32_t first, uint32_t end);
  void read_operand(Attempt& attempt, std::span<const Segment> segments, bool is_recorded);

  // ---- mbarriers
  // Whether its init is known, through order or through fence.mbarrier_init.
  bool knows_init(const Knowledge& known, View view, const MbarrierState& mbarrier) const;
  void use(Warp& warp, uint32_t mask, uint32_t address);
  void note_wait(Warp& warp, uint32_t mask, uint32_t address);
  void use_by_copy(const Copy& copy);

  // ---- Registers of wgmma
  static constexpr uint32_t ROW_BYTES = LANES * 4;
  WgmmaRegister* registers_of(WarpState& state);  // by row
  // The 32-bit operands of wgmma.mma_async come first: D, then A if it is in registers, else a
  // 64-bit descriptor of A. One of B follows.
  void use_registers(WarpState& state, const Inst& inst, uint32_t group, bool adds);

  CheckerState state_;
  const RaceReport report_;
  const std::shared_ptr<GlobalShadow> global_;
  std::vector<std::array<BarrierState, 16>> barriers_;  // by rank and number
  BarrierState cluster_barrier_;
  std::unordered_map<uint32_t, Channel> flags_;  // strong accesses to shared memory, by address
  std::unordered_map<uint32_t, std::vector<Record>> seen_;   // strong loads of it, by cell
  std::vector<std::pair<uint32_t, const Plane*>> suspects_;  // of the access under way
  // A read that a copy overwrites, to be said if nothing worse is found of that copy.
  struct Undefined {
    Record read;
    uint32_t bytes, index;
  };
  std::optional<Undefined> undefined_;
};

// At the end of a launch: what may have been legal up to then, and was not.
void report_suspects(GlobalShadow& shadow, const Program& program);

}  // namespace machine
