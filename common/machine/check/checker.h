// The happens-before checker of one cluster. Handlers tell it of every access and of everything that
// orders accesses; it throws Error (race) when nothing orders two that conflict.
//
// What it knows is kept in clocks (one entry for each agent that accesses memory):
//   generic: what happened before for the generic proxy
//   async:   that part of it which a proxy fence has made known to the async proxy
// and, for each 8 bytes of memory, who wrote last and who read since. docs/machine.md has the rules.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "common/machine/ops/matrix.h"
#include "common/machine/run/state.h"

namespace machine {

enum class Access : uint8_t { read, write, atomic };
enum class Order : uint8_t { weak, relaxed, acquire, release, acq_rel };  // volatile is relaxed
enum class Scope : uint8_t { cta, cluster, gpu };                         // sys is gpu
enum class Proxy : uint8_t { shared, global, all };                       // of fence.proxy.async

// Segment::address is a shared::cluster address here.

struct Knowledge;                                   // clocks, of checker.cpp
using Snapshot = std::shared_ptr<const Knowledge>;  // what the issuer of a copy knew

// Global memory's shadow is the grid's: CTAs of other clusters access it too.
class GlobalShadow;
std::shared_ptr<GlobalShadow> make_global_shadow();

// Whether a lane stores what is there already: such stores do not race with each other.
class SameValue {
 public:
  virtual bool operator()(uint32_t lane) const = 0;

 protected:
  ~SameValue() = default;
};

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

class Checker {
 public:
  virtual ~Checker() = default;

  // Whether loads look for what was never written: Checker::never_written.
  bool looks_for_poison = false;
  bool poison_in_shared = false;  // a copy has brought it there

  // ---- Generic proxy; called before the access is made. 32 addresses, of which `mask` counts.
  virtual void shared_access(Warp& warp, uint32_t mask, const uint32_t* addresses, uint32_t bytes,
                             Access access, const SameValue* same = nullptr) = 0;
  // Also acquires or releases what a strong access does: at an address that a released store or
  // atomic wrote, an acquiring load learns what the writer knew.
  virtual void global_access(Warp& warp, uint32_t mask, const uint64_t* addresses, uint32_t bytes,
                             Access access, Order order, Scope scope,
                             const SameValue* same = nullptr) = 0;
  // A load brought what device memory begins with (memory.h).
  virtual void never_written(Warp& warp, uint32_t mask, uint64_t address) = 0;
  // The same for strong accesses to shared memory (flags that are polled): they do not race.
  virtual void shared_strong(Warp& warp, uint32_t mask, const uint32_t* addresses, uint32_t bytes,
                             Access access, Order order, Scope scope) = 0;

  // ---- Fences
  virtual void fence(Warp& warp, uint32_t mask, Order order, Scope scope) = 0;  // fence, membar
  virtual void fence_proxy_async(Warp& warp, uint32_t mask, Proxy proxy) = 0;
  virtual void fence_mbarrier_init(Warp& warp, uint32_t mask) = 0;
  virtual void warp_sync(Warp& warp, uint32_t mask) = 0;  // bar.warp.sync
  // griddepcontrol.wait. A launch with LaunchConfig::programmatic accesses no global memory before.
  virtual void grid_wait(Warp& warp, uint32_t mask) = 0;

  // ---- Barriers: every arrival, then once complete, then every wait that returns
  virtual void barrier_arrive(Warp& warp, uint32_t mask, uint32_t id) = 0;
  virtual void barrier_complete(Cta& cta, uint32_t id) = 0;
  virtual void barrier_wait(Warp& warp, uint32_t mask, uint32_t id) = 0;
  virtual void cluster_arrive(Warp& warp, uint32_t mask, bool release) = 0;
  virtual void cluster_complete() = 0;
  virtual void cluster_wait(Warp& warp, uint32_t mask, bool acquire) = 0;
  // The last live lane of the warp has exited; of the CTA, when `last_of_cta`. A CTA must not exit
  // while peers can still access its shared memory.
  virtual void exited(Warp& warp, bool last_of_cta) = 0;

  // ---- mbarrier objects; addresses are shared::cluster
  virtual void mbarrier_init(Warp& warp, uint32_t mask, uint32_t address) = 0;
  virtual void mbarrier_inval(Warp& warp, uint32_t mask, uint32_t address) = 0;
  // `release` and `scope` are those of the arrive; called before the phase may complete.
  virtual void mbarrier_arrive(Warp& warp, uint32_t mask, uint32_t address, bool release,
                               Scope scope) = 0;
  // expect_tx, complete_tx, test_wait and try_wait that return false, pending counts
  virtual void mbarrier_use(Warp& warp, uint32_t mask, uint32_t address) = 0;
  virtual void mbarrier_phase_complete(uint32_t address) = 0;
  // A test_wait or try_wait that returns true.
  virtual void mbarrier_wait(Warp& warp, uint32_t mask, uint32_t address, bool acquire,
                             Scope scope) = 0;

  // ---- Asynchronous copies. At issue: a snapshot. When they run: what they access.
  virtual Snapshot snapshot(Warp& warp, uint32_t mask) = 0;
  struct Copy {
    Warp* warp = nullptr;  // the issuer
    uint32_t pc = 0;
    Snapshot issued;
    bool async_proxy = true;  // false: cp.async, which is of the generic proxy
    uint32_t mbarrier = 0;    // completes there (shared::cluster address); 0: in a group
    uint64_t group = 0;       // of the warp's bulk or cp.async groups
    uint64_t phase = 0;       // of the mbarrier, when it was issued
  };
  virtual uint64_t phase_of(uint32_t mbarrier) const = 0;
  virtual void copy_reads_shared(const Copy& copy, Segment segment) = 0;
  virtual void copy_writes_shared(const Copy& copy, Segment segment) = 0;
  virtual void copy_reads_global(const Copy& copy, uint64_t address, uint64_t bytes) = 0;
  virtual void copy_writes_global(const Copy& copy, uint64_t address, uint64_t bytes,
                                  bool reduces) = 0;
  // cp.async.wait_group: all groups up to `group` are complete for these lanes.
  virtual void cp_async_wait(Warp& warp, uint32_t mask, uint64_t group) = 0;
  // cp.async.mbarrier.arrive, at copy.mbarrier: the warp's cp.async up to copy.group are complete when
  // the phase is.
  virtual void cp_async_arrive(const Copy& copy, uint32_t mask) = 0;
  // cp.async.bulk.wait_group; `only_read`: .read
  virtual void bulk_wait(Warp& warp, uint32_t mask, uint64_t group, bool only_read) = 0;

  // ---- wgmma. Called when a warp issues it: the shared memory that its 16 rows of A (none if A is
  // in registers) and B are read from, and the group it will be committed to.
  virtual void wgmma_issue(Warp& warp, const Inst& inst, uint64_t group,
                           const std::vector<Segment>& segments,
                           const WgmmaDescriptors& descriptors = {}) = 0;
  virtual void wgmma_fence(Warp& warp) = 0;
  // wait_group returned: groups up to groups[i] of warp i of the warpgroup are complete.
  virtual void wgmma_wait(Warp& warp, const uint64_t groups[4]) = 0;
  // An instruction that names a register which some wgmma names (Inst::touches_async), other than
  // wgmma itself.
  virtual void touch_registers(Warp& warp, const Inst& inst, uint32_t mask) = 0;
};

// At the end of a launch: what may have been legal up to then, and was not.
void report_suspects(GlobalShadow& shadow, const Program& program);
std::unique_ptr<Checker> make_checker(Cluster& cluster, std::shared_ptr<GlobalShadow> shadow);

}  // namespace machine
