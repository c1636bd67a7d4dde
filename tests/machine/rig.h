// Clusters whose warps execute what a test says: it calls the happens-before checker as the
// instructions' handlers do.
#pragma once

#include <doctest/doctest.h>

#include <deque>
#include <functional>

#include "common/machine/check/checker.h"
#include "common/machine/run/allocations.h"
#include "common/machine/run/error.h"
#include "common/machine/run/module.h"

namespace checker_test {

using namespace machine;

inline constexpr uint32_t ONE = 1;  // lane 0

// What the clusters of a launch share.
struct Shared {
  Module module{".version 8.6\n.target sm_90a\n.address_size 64\n"};
  Kernel kernel;
  Program program;
  std::deque<Statement> statements;
  std::shared_ptr<GlobalShadow> shadow = std::make_shared<GlobalShadow>();

  Shared() {
    kernel.name = "kernel";
    program.module = &module;
    program.kernel = &kernel;
    program.rows_bytes = 64 * 128;
  }
};

// A cluster whose warps execute what a test says, an instruction a call.
class Rig {
 public:
  explicit Rig(uint32_t ctas = 1, uint32_t warps = 4, uint64_t id = 0,
               std::shared_ptr<Shared> shared = std::make_shared<Shared>())
      : shared_(std::move(shared)) {
    grid_.program = &shared_->program;
    grid_.kernel = &shared_->kernel;
    grid_.ctas_per_cluster = ctas;
    grid_.warps_per_cta = warps;
    grid_.threads_per_cta = warps * LANES;
    grid_.config.cluster = {ctas, 1, 1};
    grid_.clusters = {8, 1, 1};
    cluster_.grid = &grid_;
    cluster_.id = id;
    cluster_.ctas.resize(ctas);
    for (uint32_t rank = 0; rank < ctas; ++rank) {
      Cta& cta = cluster_.ctas[rank];
      cta.cluster = &cluster_;
      cta.rank = rank;
      cta.id = {static_cast<uint32_t>(id) * ctas + rank, 0, 0};
      cta.smem_bytes = 32768;
      cta.live_threads = warps * LANES;
      cta.warps.resize(warps);
      cta.warpgroups.resize((warps + 3) / 4);
      for (uint32_t i = 0; i < warps; ++i) {
        Warp& warp = cta.warps[i];
        warp.cta = &cta;
        warp.index = i;
        warp.in_cluster = rank * warps + i;
        warp.live = FULL;
        warp.fragments.emplace_back().mask = FULL;
        warp.current = &warp.fragments[0];
      }
    }
    checker_ = std::make_unique<Checker>(cluster_, shared_->shadow);
  }

  Checker& checker() { return *checker_; }
  void set_programmatic() { grid_.config.programmatic = true; }
  Cta& cta(uint32_t rank = 0) { return cluster_.ctas[rank]; }
  Warp& warp(uint32_t i) {
    return cluster_.ctas[i / grid_.warps_per_cta].warps[i % grid_.warps_per_cta];
  }

  // The next instruction of the warp.
  Warp& at(uint32_t i, const char* opcode) {
    Statement& statement = shared_->statements.emplace_back();
    statement.opcode = opcode;
    statement.ptx_line = static_cast<uint32_t>(shared_->statements.size());
    shared_->program.statements.push_back(&statement);
    warp(i).current->pc = statement.ptx_line - 1;
    return warp(i);
  }

  // ---- Shared memory: `bytes` bytes a lane, lane after lane from `address` on.
  void shared(uint32_t i, const char* opcode, uint32_t lanes, uint32_t address, uint32_t bytes,
              Access access) {
    uint32_t addresses[LANES];
    for (uint32_t lane = 0; lane < LANES; ++lane) addresses[lane] = address + lane * bytes;
    checker_->shared_access(at(i, opcode), lanes, addresses, bytes, access, Order::weak,
                            Scope::gpu);
  }
  void store(uint32_t i, uint32_t address, uint32_t lanes = FULL, uint32_t bytes = 4) {
    shared(i, "st.shared", lanes, address, bytes, Access::write);
  }
  void load(uint32_t i, uint32_t address, uint32_t lanes = FULL, uint32_t bytes = 4) {
    shared(i, "ld.shared", lanes, address, bytes, Access::read);
  }
  void strong(uint32_t i, uint32_t address, Access access, Order order, Scope scope = Scope::cta,
              uint32_t lanes = ONE) {
    uint32_t addresses[LANES];
    for (uint32_t& each : addresses) each = address;
    checker_->shared_access(at(i, access == Access::read ? "ld.volatile.shared" : "atom.shared"),
                            lanes, addresses, 4, access, order, scope);
  }

  // ---- Global memory
  void global(uint32_t i, const void* address, Access access, uint32_t lanes = FULL,
              Order order = Order::weak, Scope scope = Scope::gpu) {
    const bool weak = order == Order::weak;
    uint64_t addresses[LANES];
    for (uint32_t lane = 0; lane < LANES; ++lane) {
      addresses[lane] = reinterpret_cast<uint64_t>(address) + (weak ? lane * 4 : 0);
    }
    const char* const opcode = access == Access::read    ? weak ? "ld.global" : "ld.acquire.gpu"
                               : access == Access::write ? weak ? "st.global" : "st.release.gpu"
                                                         : "atom.global";
    checker_->global_access(at(i, opcode), lanes, addresses, 4, access, order, scope);
  }
  // Each lane its own, lane after lane.
  void flags(uint32_t i, const uint32_t* first, Order order) {
    uint64_t addresses[LANES];
    for (uint64_t& each : addresses) each = reinterpret_cast<uint64_t>(first++);
    checker_->global_access(at(i, "st.relaxed.gpu"), FULL, addresses, 4, Access::write, order,
                            Scope::gpu);
  }
  void fence(uint32_t i, Order order, Scope scope, uint32_t lanes = FULL) {
    checker_->fence(at(i, "fence"), lanes, order, scope);
  }
  void proxy_fence(uint32_t i, uint32_t lanes = FULL, Proxy proxy = Proxy::shared) {
    checker_->fence_proxy_async(at(i, "fence.proxy.async"), lanes, proxy);
  }
  void sync_lanes(uint32_t i, uint32_t lanes = FULL) {
    checker_->warp_sync(at(i, "bar.warp.sync"), lanes);
  }

  void grid_wait(uint32_t i, uint32_t lanes = FULL) {
    checker_->grid_wait(at(i, "griddepcontrol.wait"), lanes);
  }

  // ---- Barriers
  void barrier(const std::vector<uint32_t>& warps, uint32_t id = 0) {
    for (const uint32_t i : warps) checker_->barrier_arrive(at(i, "bar.sync"), FULL, id);
    checker_->barrier_complete(*warp(warps[0]).cta, id);
    for (const uint32_t i : warps) checker_->barrier_wait(warp(i), FULL, id);
  }
  void cluster_barrier(bool release = true) {
    const auto warps = static_cast<uint32_t>(cluster_.ctas.size()) * grid_.warps_per_cta;
    for (uint32_t i = 0; i < warps; ++i) {
      checker_->cluster_arrive(at(i, "barrier.cluster.arrive"), FULL, release);
    }
    checker_->cluster_complete();
    for (uint32_t i = 0; i < warps; ++i) {
      checker_->cluster_wait(at(i, "barrier.cluster.wait"), FULL);
    }
  }

  // ---- mbarriers
  void init(uint32_t i, uint32_t address, uint32_t lanes = ONE) {
    checker_->mbarrier_init(at(i, "mbarrier.init"), lanes, address);
  }
  void init_fence(uint32_t i, uint32_t lanes = ONE) {
    checker_->fence_mbarrier_init(at(i, "fence.mbarrier_init"), lanes);
  }
  // All that a kernel does before it uses them.
  void set_up(std::initializer_list<uint32_t> addresses, const std::vector<uint32_t>& warps) {
    for (const uint32_t address : addresses) init(0, address);
    init_fence(0);
    barrier(warps);
  }
  void arrive(uint32_t i, uint32_t address, uint32_t lanes = ONE, bool release = true,
              Scope scope = Scope::cta) {
    checker_->mbarrier_arrive(at(i, "mbarrier.arrive"), lanes, address, release, scope);
  }
  void complete(uint32_t address) { checker_->mbarrier_phase_complete(address); }
  void wait(uint32_t i, uint32_t address, uint32_t lanes = FULL, bool acquire = true,
            Scope scope = Scope::cta) {
    checker_->mbarrier_wait(at(i, "mbarrier.try_wait"), lanes, address, acquire, scope);
  }

  // ---- Copies
  Checker::Copy issue(uint32_t i, const char* opcode, uint32_t mbarrier, uint64_t group = 0,
                      uint32_t lanes = ONE, bool async_proxy = true) {
    Checker::Copy copy;
    copy.warp = &at(i, opcode);
    copy.pc = copy.warp->pc();
    copy.issued = checker_->snapshot(*copy.warp, lanes);
    copy.async_proxy = async_proxy;
    copy.mbarrier = mbarrier;
    copy.group = group;
    return copy;
  }
  void tma_load(uint32_t i, uint32_t address, uint32_t mbarrier, uint32_t bytes = 1024,
                uint32_t lanes = ONE) {
    checker_->copy_writes_shared(issue(i, "cp.async.bulk.tensor.2d.shared", mbarrier, 0, lanes),
                                 {address, bytes});
  }
  Checker::Copy tma_store(uint32_t i, uint32_t address, uint64_t group, uint32_t lanes = ONE) {
    const Checker::Copy copy = issue(i, "cp.async.bulk.tensor.2d.global", 0, group, lanes);
    checker_->copy_reads_shared(copy, {address, 1024});
    return copy;
  }
  void cp_async(uint32_t i, uint32_t address, uint64_t group) {
    checker_->copy_writes_shared(issue(i, "cp.async.cg", 0, group, FULL, false), {address, 512});
  }
  void cp_async_arrive(uint32_t i, uint32_t mbarrier, uint64_t group) {
    checker_->cp_async_arrive(
        issue(i, "cp.async.mbarrier.arrive.noinc", mbarrier, group, FULL, false), FULL);
  }

  // ---- wgmma of warps 0 to 3; D is in `registers` rows from 8 on
  Inst wgmma(uint32_t registers = 4, uint32_t descriptors = 2) {
    Inst inst;
    std::vector<Slot>& slots = slots_.emplace_back(registers);
    for (uint32_t r = 0; r < registers; ++r) slots[r].row = (8 + r) * 128;
    slots.resize(registers + descriptors);
    for (uint32_t d = 0; d < descriptors; ++d) slots[registers + d].width = Width::w64;
    slots.emplace_back().width = Width::pred;
    inst.slots = slots.data();
    inst.slot_count = static_cast<uint32_t>(slots.size());
    return inst;
  }
  void multiply(uint32_t i, uint32_t address, uint64_t group, uint32_t bytes = 1024) {
    const std::vector<Segment> segments = {{address, bytes}};
    checker_->wgmma_issue(at(i, "wgmma.mma_async"), wgmma(), group, {segments, {}});
  }
  void wgmma_commit(uint32_t i) {
    ++warp(i).cta->warpgroups[warp(i).index / 4].committed[warp(i).index % 4];
  }
  void wgmma_fence(uint32_t i) { checker_->wgmma_fence(at(i, "wgmma.fence"), FULL); }
  void wgmma_wait(uint32_t i, uint64_t group) {
    const uint64_t groups[4] = {group, group, group, group};
    checker_->wgmma_wait(at(i, "wgmma.wait_group"), groups);
  }
  void touch(uint32_t i, uint32_t row) { add(i, 0, row); }
  void write(uint32_t i, uint32_t row) { add(i, row, 0); }

  void exit_warp(uint32_t i, bool last_of_cta, uint32_t lanes = FULL) {
    warp(i).live &= ~lanes;
    if (last_of_cta) warp(i).cta->live_threads = 0;
    checker_->exited(at(i, "exit"), lanes, last_of_cta);
  }

 private:
  // An addition of registers, whose rows these are.
  void add(uint32_t i, uint32_t result, uint32_t operand) {
    std::vector<Slot>& slots = slots_.emplace_back(2);
    slots[0].row = result * 128;
    slots[1].row = operand * 128;
    Inst inst;
    inst.slots = slots.data();
    inst.slot_count = 2;
    checker_->touch_registers(at(i, "add.f32"), inst, FULL);
  }

  std::shared_ptr<Shared> shared_;
  Grid grid_;
  Cluster cluster_;
  std::deque<std::vector<Slot>> slots_;
  std::unique_ptr<Checker> checker_;
};

// What the checker says of it; "" if nothing.
inline std::string said(const std::function<void()>& steps) {
  try {
    steps();
  } catch (const Error& error) {
    CHECK(error.kind == Error::Kind::race);
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  MESSAGE("not in: ", text);
  return false;
}

inline constexpr uint32_t DATA = SMEM_BASE, FULL_BARRIER = SMEM_BASE + 0x4000,
                          EMPTY_BARRIER = FULL_BARRIER + 8, PEER = 1u << RANK_SHIFT;
inline const std::vector<uint32_t> ALL = {0, 1, 2, 3};

}  // namespace checker_test
