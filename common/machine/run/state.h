// The state of a launch: grid, clusters, CTAs, warps, and the decoded kernel that they run.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/machine/launch.h"
#include "common/machine/run/allocations.h"
#include "common/machine/text/ptx.h"

namespace machine {

struct Inst;
struct Warp;
struct Cta;
struct Cluster;
struct Grid;
class Checker;
class Trace;

constexpr uint32_t LANES = 32;
constexpr uint32_t FULL = 0xffffffff;

// Address windows. A CTA's shared memory starts at SMEM_BASE of its own 16 MiB of the cluster's
// window, as on an H200 (tests/golden: addresses).
constexpr uint32_t SMEM_BASE = 0x400;
constexpr uint32_t RANK_SHIFT = 24;
constexpr uint32_t OFFSET_MASK = (1u << RANK_SHIFT) - 1;
constexpr uint64_t SHARED_WINDOW = 1ull << 56;
constexpr uint64_t LOCAL_WINDOW = 2ull << 56;
constexpr uint64_t PARAM_WINDOW = 3ull << 56;
constexpr uint64_t FUNCTION_WINDOW = 4ull << 56;  // a pointer to function i: | i + 1
constexpr uint64_t WINDOW_MASK = 0xffull << 56;
// Of a thread, for what functions that call themselves keep in local memory.
constexpr uint32_t STACK_BYTES = 32 << 10;

// Rows that every warp has: the carry flag of add.cc (a predicate), and where `_` is written to.
constexpr uint32_t CARRY_ROW = 64;
constexpr uint32_t SINK_ROW = 128;
constexpr uint32_t FIRST_ROW = SINK_ROW + LANES * 8;

// ---- The decoded kernel -------------------------------------------------------------------------

// What an instruction did to its fragment of the warp.
enum class Step : uint8_t {
  next,  // go on behind it
  jump,  // the fragment's pc was set, or the fragments were changed
  wait,  // nothing was done: try again when something changed (Fragment::wait says for what)
};

// `mask`: the lanes that execute it, never 0.
using Handler = Step (*)(Warp& warp, const Inst& inst, uint32_t mask);

struct Slot {
  uint32_t row = 0;    // byte offset into Warp::rows
  int32_t offset = 0;  // of an address operand, bytes
  Width width = Width::w32;
  bool negated = false;  // of a predicate
};

struct Inst {
  Handler run = nullptr;
  uint32_t op[4] = {};  // rows of the first four slots
  uint32_t mods = 0;    // the qualifiers: as<…>(), where Opcode::set() has put a struct
  uint32_t guard = 0;   // row of a predicate; 0: none
  bool guard_not = false;
  bool convergent = false;      // .aligned: waits for the warp's other live lanes
  bool whole_warp = false;      // convergent, and undefined once a lane has exited
  bool touches_async = false;   // names a register that some wgmma.mma_async names too
  bool is_early = false;        // a load whose value counts as read where it is used
  uint16_t variable = 0;        // 1 + index into Program::shared_variables: the address is in it
  uint32_t target = 0;          // pc of a branch or call
  const Slot* slots = nullptr;  // all operands, flat, in PTX order
  uint32_t slot_count = 0;

  template <class Qualifiers>
  Qualifiers as() const {
    static_assert(sizeof(Qualifiers) <= sizeof mods);
    Qualifiers qualifiers;
    std::memcpy(&qualifiers, &mods, sizeof qualifiers);
    return qualifiers;
  }
};

// A function's argument or result, copied between .param variables in a thread's local memory.
struct ParamCopy {
  uint32_t from, to, bytes;
};

// A static variable in the shared memory of the CTA of rank 0.
struct SharedVariable {
  std::string name;
  uint32_t address, bytes;
};

// A function that kernels call, and what of it recursion must keep of each thread.
struct Callable {
  const Function* function = nullptr;
  uint32_t start = 0;       // pc
  uint32_t return_row = 0;  // where each lane returns to; 0: the function does not run
  std::vector<Slot> registers;
  ParamCopy locals = {};  // from: where its parameters begin in local memory, and those of calls
  // Of one that calls itself and has .local variables: where they lie in a first call, and their
  // addresses then, which are the last of the registers.
  ParamCopy frame = {};
  std::vector<uint32_t> addresses;
  uint32_t used_row = 0;  // how much of each lane's stack is used
};

// %tid.x and its like: constant while a thread runs.
struct SpecialRegister {
  const char* name;
  bool by_lane;  // differs between the lanes of a warp
  uint64_t (*value)(const Warp& warp, uint32_t lane);
};
const SpecialRegister* find_special(const std::string& name);  // nullptr: there is none

// One kernel, with every function that it calls, in one flat list.
struct Program {
  const Module* module = nullptr;
  const Kernel* kernel = nullptr;
  std::vector<Inst> code;
  std::vector<const Statement*> statements;  // parallel to code
  std::deque<std::vector<Slot>> slots;       // Inst::slots points here
  std::vector<ParamCopy> param_copies;       // of calls: Inst::mods is the first of slot_count
  std::vector<Callable> callables;           // by index of the function in the module
  // Of an indirect call, whose Inst::target is an index: for each function that it may call the
  // first of its copies.
  std::vector<std::map<uint32_t, uint32_t>> indirect_copies;
  std::vector<uint8_t> image;  // the constant rows, at the start of every warp's rows
  uint32_t rows_bytes = 0;     // of a warp
  // Rows that depend on the CTA or warp.
  struct SharedSymbol {
    uint32_t row;
    Width width;
    uint32_t address;  // in the CTA of rank 0
  };
  struct Special {
    const SpecialRegister* what;
    uint32_t row;
    Width width;
  };
  std::vector<SharedSymbol> shared_symbols;
  std::vector<SharedVariable> shared_variables;  // by address
  std::vector<Special> specials;
  // With MACHINE_ORDERINGS: orderings.h
  struct Ordering {
    Origin::Place place;
    std::atomic<bool> is_executed{false};
    int written = -1;  // the last is_executed that is in the file
  };
  mutable std::deque<Ordering> orderings;
  std::deque<Statement> replaced;           // with MACHINE_LEAVE_OUT, what stands in its place
  uint32_t local_bytes = 0;                 // a thread: .local variables, and .param ones of calls
  uint32_t stack = 0;                       // where later frames of recursion lie in it
  Origin::Place source(uint32_t pc) const;  // own_line
  // "stages/05_wgmma.cu:88, called at stages/05_wgmma.cu:130 (in common/ptx/wgmma.cuh:31)"
  std::string place(uint32_t pc) const;
  // indent + "at …", and under it the line of source, if it can be read; of many calls that were
  // inlined, each on a line of its own
  std::string where(uint32_t pc, const std::string& indent) const;
  std::string text(uint32_t pc) const;    // the PTX statement, opcode and operands
  std::string opcode(uint32_t pc) const;  // the same without operands, and without what goes unsaid
};

// ---- Waiting ------------------------------------------------------------------------------------

enum class WaitFor : uint8_t {
  nothing,
  mbarrier,       // try_wait: address, parity; may be made to return false
  named_barrier,  // bar.sync: address = id
  cluster_barrier,
  other_lanes,  // a convergent instruction
  wgmma,        // wgmma.wait_group, of operations that another warp has not issued
  registers,    // setmaxnreg.inc: wait_address = how many a thread
};

// Bits of 8 bytes of shared memory that stay as they are as long as there is nothing to try again.
struct StaysParked {
  const std::byte* word = nullptr;
  uint64_t mask = 0, value = 0;
  bool holds() const {
    uint64_t bits = 0;
    std::memcpy(&bits, word, sizeof(bits));
    return (bits & mask) == value;
  }
};

// Lanes of a warp that are at the same pc.
struct Fragment {
  uint32_t pc = 0;
  uint32_t mask = 0;
  WaitFor wait = WaitFor::nothing;
  uint32_t wait_address = 0;  // shared::cluster address of an mbarrier, or id of a barrier
  uint32_t wait_parity = 0;
  StaysParked parked = {};   // of an mbarrier's phase: so that it is not tried in vain
  uint64_t wait_ticket = 0;  // of a barrier: the generation that was joined
  uint64_t seen_events = 0;  // Cluster::events when it was last tried
  bool give_up = false;      // the next try of a try_wait returns false
  bool had_turn = false;     // ran for a whole quantum; others go first
};

// ---- What runs asynchronously -------------------------------------------------------------------

// A copy in flight. `read` takes the source, `write` writes the destination and signals; both run
// once, read first. They check themselves against what the issuer knew when it issued.
struct AsyncCopy {
  std::function<void()> read, write;
  bool has_read = false, done = false;
  uint32_t lanes = 0;     // of a cp.async
  uint64_t index = 0;     // of a cp.async, counted from 1 over the warp
  uint32_t arriving = 0;  // lanes that arrive at an mbarrier when it is done
  uint64_t bytes = 0;
  uint64_t lands = 0;                 // on the timeline's clock
  std::shared_ptr<AsyncCopy> itself;  // for as long as Cluster::in_flight has it
  void finish_read() {
    if (has_read) return;
    has_read = true;
    if (read) read();
    read = nullptr;
  }
  void finish() {
    if (done) return;
    finish_read();
    done = true;
    write();
    write = nullptr;
  }
};
using AsyncCopyPtr = std::shared_ptr<AsyncCopy>;

// cp.async groups, or bulk groups, of a warp. Groups are a thread's: each remembers its lanes.
struct CopyGroups {
  struct Group {
    uint32_t lanes;
    uint64_t index;  // counted from 1 over the warp
    std::vector<AsyncCopyPtr> copies;
  };
  std::vector<std::pair<uint32_t, AsyncCopyPtr>> open;  // lanes, not yet committed
  std::deque<Group> committed;
  uint64_t count = 0;                     // groups; of cp.async each copy counts, too
  std::array<uint32_t, LANES> commits{};  // of each lane
};

// One wgmma.mma_async of a warpgroup, run for its four warps together. All four give the same B.
struct WgmmaOp {
  const Inst* inst = nullptr;
  uint32_t pc = 0;
  uint32_t issued = 0;   // bit i: warp i of the group has issued it
  uint32_t scale_d = 0;  // bit i: warp i adds to D
  uint64_t descriptor_a[4] = {}, descriptor_b = 0;
  uint64_t group[4] = {};  // commit group of each warp that it belongs to
  uint64_t ends = 0;       // on the timeline's clock
  bool done = false;
};

struct Warpgroup {
  std::deque<WgmmaOp> ops;     // that some warp has not waited for
  uint64_t first = 0;          // number of ops.front()
  uint64_t issued[4] = {};     // mma_async that warp i issued
  uint64_t committed[4] = {};  // groups that warp i committed
  uint64_t waited[4] = {};     // operations that warp i has waited for
};

// ---- CTAs ---------------------------------------------------------------------------------------

struct NamedBarrier {
  uint32_t arrived = 0;   // threads
  uint32_t expected = 0;  // threads; 0: not in use
  bool everyone = false;  // no count was given: all threads of the CTA that have not exited
  uint32_t warps = 0;     // that have arrived
  uint64_t generation = 0;
  uint32_t reduction = 0;       // of bar.red, for the generation under way
  uint32_t last_reduction = 0;  // of the generation that completed
};

struct Warp {
  std::byte* rows = nullptr;
  Cta* cta = nullptr;
  uint32_t index = 0;       // in the CTA
  uint32_t in_cluster = 0;  // index over the cluster's warps: rank * warps per CTA + index
  uint32_t live = 0;        // lanes that have not exited
  std::vector<Fragment> fragments;
  Fragment* current = nullptr;  // the one that runs
  CopyGroups cp_async, bulk;
  // Lanes that are at barrier.cluster, and lanes that it let through and that have not waited yet.
  uint32_t cluster_arrived = 0, cluster_passed = 0;
  std::byte* local = nullptr;  // LANES * local_bytes, lane after lane
  // By lane: a number for the calls that it is in. Lanes that were called from elsewhere stay apart.
  std::array<uint64_t, LANES> callers{};
  // Of recursion, by lane: what functions that are called again had before.
  std::array<std::vector<uint64_t>, LANES> saved;
  bool loads_bulk = false;   // has issued a TMA or bulk copy to shared memory: its role in reports
  bool stores_bulk = false;  // the same, to global memory
  bool multiplies = false;   // has issued mma or wgmma
  uint32_t registers = 0;    // a thread
  uint32_t set_registers = 0;   // how many setmaxnreg it has executed
  uint64_t executed = 0;        // warp instructions
  uint64_t clock_readings = 0;  // so that a later one is later
  uint64_t clock = 0;           // of the timeline's model, cycles

  template <class T>
  T* row(uint32_t offset) {
    return reinterpret_cast<T*>(rows + offset);
  }
  uint32_t& pred(uint32_t offset) { return *reinterpret_cast<uint32_t*>(rows + offset); }
  uint32_t pc() const { return current->pc; }
};

// Calls f(row) with the row as one of 64 or of 32 bits.
template <class F>
void with_row(Warp& warp, uint32_t row, Width width, F&& f) {
  if (width == Width::w64) {
    f(warp.row<uint64_t>(row));
  } else {
    f(warp.row<uint32_t>(row));
  }
}

struct Cta {
  Cluster* cluster = nullptr;
  uint32_t rank = 0;          // in the cluster
  Dim3 id;                    // %ctaid
  std::byte* smem = nullptr;  // smem_bytes, first byte at SMEM_BASE
  uint32_t smem_bytes = 0;    // static and dynamic
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  std::array<NamedBarrier, 16> barriers;
  uint32_t live_threads = 0;
  uint32_t dynamic_smem = 0;    // where dynamic shared memory begins, behind the static variables
  uint32_t free_registers = 0;  // of its pool: what setmaxnreg.dec has given back
};

// What an mbarrier's own 8 bytes must hold (what overwrites them shows), and its phases completed.
struct Mbarrier {
  uint64_t bits = 0;
  uint64_t phase = 0;
  bool seen = false;  // a wait has found the latest complete phase, or none yet, complete
  std::vector<std::pair<const Warp*, uint32_t>> arrived;  // in the phase under way, and how often
};

enum class Policy : uint8_t { eager, lazy, random };
constexpr const char* POLICIES[] = {"eager", "lazy", "random"};

struct Cluster {
  ~Cluster();

  Grid* grid = nullptr;
  uint64_t id = 0;  // linear
  std::vector<Cta> ctas;
  uint32_t live_threads = 0;

  // barrier.cluster: threads arrived in the generation under way.
  uint32_t barrier_arrived = 0;

  std::unordered_map<uint32_t, Mbarrier> mbarriers;  // by shared::cluster address

  std::deque<AsyncCopy*> in_flight;  // pointers that are quick to move: each holds itself
  uint64_t events = 1;               // rises with whatever a waiting fragment may wait for
  uint64_t changes = 1;              // rises with every change of memory or barriers: progress
  uint64_t products = 0;             // multiply-adds of wgmma
  bool polled_global = false;        // read global memory in a way that may wait for another CTA
  std::mt19937_64 random;
  std::unique_ptr<Checker> checker;  // null: off
  Trace* trace = nullptr;            // null: off

  std::vector<std::byte> memory;  // rows, shared and local memory of all its CTAs
};

struct Grid {
  const Program* program = nullptr;
  const Kernel* kernel = nullptr;
  LaunchConfig config;
  Dim3 clusters;
  uint32_t ctas_per_cluster = 1;
  uint32_t warps_per_cta = 1;
  uint32_t threads_per_cta = 1;
  uint32_t registers = 0;  // a thread, at the start
  std::vector<uint8_t> params;
  Policy policy = Policy::eager;
  bool check = true;
  uint64_t seed = 1;
  uint32_t launch_index = 0;          // of the process
  void* workspace = nullptr;          // of a cooperative launch, in global memory
  std::atomic<uint64_t> executed{0};  // warp instructions
  std::atomic<uint64_t> products{0};  // of wgmma: multiply-adds
};

inline const Grid& grid_of(const Warp& warp) {
  return *warp.cta->cluster->grid;
}
inline const Program& program_of(const Warp& warp) {
  return *grid_of(warp).program;
}

// ---- Helpers that handlers share ----------------------------------------------------------------

// Calls f(lane) for every lane of the mask; all 32 in a loop that vectorises.
template <class F>
inline void for_lanes(uint32_t mask, F&& f) {
  if (mask == FULL) {
    for (uint32_t lane = 0; lane < LANES; ++lane) f(lane);
    return;
  }
  for (; mask != 0; mask &= mask - 1) f(static_cast<uint32_t>(std::countr_zero(mask)));
}

inline uint32_t first_lane(uint32_t mask) {
  return static_cast<uint32_t>(std::countr_zero(mask));
}
inline uint32_t lane_count(uint32_t mask) {
  return static_cast<uint32_t>(std::popcount(mask));
}

// The lanes of the mask of which is(lane) is true.
template <class F>
inline uint32_t lanes_where(uint32_t mask, F&& is) {
  uint32_t found = 0;
  for_lanes(mask, [&](uint32_t lane) { found |= uint32_t{is(lane)} << lane; });
  return found;
}

// Calls f(key, lanes) for each key(lane) that there is among the lanes of the mask.
template <class K, class F>
inline void for_groups(uint32_t mask, K&& key, F&& f) {
  while (mask != 0) {
    const auto first = key(first_lane(mask));
    const uint32_t lanes = lanes_where(mask, [&](uint32_t lane) { return key(lane) == first; });
    f(first, lanes);
    mask &= ~lanes;
  }
}

// Ends the launch with a report: "Fault in kernel …: <what>", then warp, lanes, place and PTX.
[[noreturn]] void fault(Warp& warp, uint32_t mask, const std::string& what,
                        const Rule& rule = rule::ILLEGAL);
[[noreturn]] void refuse(Warp& warp, const std::string& what);

// "wgmma::gemm<wgmma::Tile<256, 0>>": the name without return type and parameters; a long one's
// template arguments are "<...>".
std::string source_name(const std::string& mangled);
std::string name_of_global(uint64_t address);  // with the allocation that it lies in
// How every report ends: the rule, the name of the kernel where source_name() has shortened it, and
// how to get source lines where there are none.
std::string report_end(const Program& program, const Rule& rule);
std::string text_of(const Dim3& at);  // "1,0,0"
// Of an instruction of a warp, and of an earlier one.
Origin origin_of(const Warp& warp, uint32_t pc, uint32_t earlier_pc);
// "warp 4 (consumer) of CTA (1,0,0), lanes 0-31"
std::string describe(const Warp& warp, uint32_t mask);
// "warp 4 (consumer) of CTA (1,0,0)"
std::string describe_role(const Warp& warp);
// "warps 4 to 11 (consumer) of CTA (1,0,0), warp 3 of CTA (2,0,0)"
std::string describe_roles(const std::set<const Warp*>& warps);

// The host bytes behind `bytes` bytes at a shared::cluster address; ends in a fault if they are not
// all inside a CTA's shared memory. `what` names the access, as "ld.shared".
std::byte* shared_bytes(Warp& warp, uint32_t mask, uint32_t address, uint32_t bytes,
                        const char* what);
Cta* cta_of(Cluster& cluster, uint32_t shared_address);  // nullptr: no such rank
// Whether `bytes` bytes at each address from low to high are in one living allocation.
bool is_allocated(uint64_t low, uint64_t high, uint64_t bytes);
// Ends in a fault if the bytes are not all inside one living allocation.
void check_global(Warp& warp, uint32_t lane, uint64_t address, uint64_t bytes, const char* what);

// Something happened that a waiting fragment may wait for.
inline void signal(Cluster& cluster) {
  ++cluster.events;
  ++cluster.changes;
}

// Runs a wgmma that its four warps have issued, if there is one.
bool finish_next_wgmma(Cta& cta);

// Puts a copy in flight; under the eager policy it finishes at once.
void start_copy(Cluster& cluster, const AsyncCopyPtr& copy);

}  // namespace machine
