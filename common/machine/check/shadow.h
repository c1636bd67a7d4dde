// What the checker remembers of shared memory, and what it asks of the shadow of global memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/machine/check/access.h"
#include "common/machine/check/clocks.h"
#include "common/machine/check/footprint.h"
#include "common/machine/run/error.h"

namespace machine {

constexpr uint32_t CELL_BYTES = 8;

// Who wrote last to 8 bytes of shared memory, in two words, so that cells are compared and written
// at once. Key: clock 31 bits, whether Shadow::left has bytes of earlier ones 1, agent 16, bytes
// that the last write touched 8, bytes that any write has touched 8. Rest: pc 32, lanes 16, whether
// the last write was strong 1, and whether the cell holds a living mbarrier 1, and the scope of a
// strong one 2.
struct Cell {
  static constexpr uint32_t BYTES_SHIFT = 48, WRITTEN_SHIFT = 56, LANES_SHIFT = 32;
  static constexpr uint64_t WHOLE = uint64_t{0xffff} << BYTES_SHIFT;
  static constexpr uint64_t LEFT = 1ull << 31, MOMENT = ~(WHOLE | LEFT);
  static constexpr uint64_t STRONG = 1ull << 48, MBARRIER = 1ull << 49;
  static constexpr uint32_t SCOPE_SHIFT = 50;

  uint64_t key = 0, rest = 0;

  // Of a write to no bytes yet.
  static uint64_t key_of(uint32_t agent, uint32_t clock) { return uint64_t{agent} << 32 | clock; }

  uint32_t written() const { return static_cast<uint32_t>(key >> WRITTEN_SHIFT); }
  uint32_t bytes() const { return key >> BYTES_SHIFT & 0xff; }
  bool strong() const { return rest & STRONG; }
  Scope scope() const { return static_cast<Scope>(rest >> SCOPE_SHIFT & 3); }
  bool mbarrier() const { return rest & MBARRIER; }
  Record record() const {
    const uint32_t agent = key >> 32 & 0xffff, lanes = rest >> LANES_SHIFT & 0xffff;
    const auto clock = static_cast<uint32_t>(key & ~LEFT), pc = static_cast<uint32_t>(rest);
    return {agent, clock, pc, lanes, bytes(), true, strong()};
  }
};

// The last read of a cell by one agent, in 64 bits: clock 28, pc 18, bytes 8, lanes 10.
class PackedRead {
 public:
  static constexpr uint32_t CLOCK_SHIFT = 36, PC_SHIFT = 18, BYTES_SHIFT = 10;
  static constexpr uint32_t MAX_CLOCK = (1u << 28) - 1, MAX_PC = (1u << 18) - 1;

  // Of a read of no bytes yet.
  static uint64_t pack(uint32_t clock, uint32_t pc) {
    return uint64_t{clock} << CLOCK_SHIFT | uint64_t{std::min(pc, MAX_PC)} << PC_SHIFT;
  }
  static Record unpack(uint32_t agent, uint64_t read) {
    const auto clock = static_cast<uint32_t>(read >> CLOCK_SHIFT);
    const uint32_t pc = read >> PC_SHIFT & MAX_PC, bytes = read >> BYTES_SHIFT & 0xff;
    return {agent, clock, pc, static_cast<uint32_t>(read) & LANE_PAIR_MASK, bytes, false};
  }
  // The read `now`, of `bytes` by `lanes`, after `before`, of which remains what is of its moment.
  static uint64_t add(uint64_t before, uint64_t now, uint32_t bytes, uint32_t lanes) {
    now |= bytes << BYTES_SHIFT | lanes;
    const uint64_t kept = 0xff << BYTES_SHIFT | (LANE_PAIR_MASK & ~lanes_of(bytes));
    return now | ((before ^ now) >> CLOCK_SHIFT == 0 && bytes != 0xff ? before & kept : 0);
  }
};

// What one agent has read of a CTA's shared memory.
struct Plane {
  static constexpr uint32_t BLOCK_CELLS = 128;

  explicit Plane(size_t cells);
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;
  ~Plane();

  void note(uint32_t block, uint32_t clock) { newest[block] = std::max(newest[block], clock); }

  std::vector<uint64_t> reads;   // by cell
  std::vector<uint32_t> newest;  // greatest clock in a block of cells; 0: no read
};

// Of one CTA's shared memory.
struct Shadow {
  explicit Shadow(Cta& cta)
      : cta(&cta),
        cells((cta.smem_bytes + CELL_BYTES - 1) / CELL_BYTES),
        uniform(cells.size() / Plane::BLOCK_CELLS + 1) {}

  Cta* cta;
  std::vector<Cell> cells;
  std::vector<uint64_t> uniform;     // by block: the key of all its cells; 0: they may differ
  std::map<uint32_t, Plane> planes;  // by agent: of those that have read
  // Accesses that must be over before the CTA exits: the last one of each agent of other CTAs, and
  // of the copies that complete on each mbarrier, and of the bulk copies of each warp in groups. Of
  // arrivals the last one of each agent at each mbarrier.
  struct Visit {
    Record record;
    uint32_t address;
    uint32_t phase = 0;  // of an arrival: it is over once so many of its mbarrier's are complete
  };
  std::map<uint64_t, Visit> visits;  // by agent; of arrivals the address is in the upper half
  // By cell: who read it before it was written; and the cp.async that was to write it, if that had been
  // issued by then, but not committed, or not waited for.
  struct Early {
    Record read;
    std::optional<Record> copy = {};
    bool lacks_commit = false;
  };
  std::unordered_map<uint32_t, Early> early;
  // By cell whose key says so: earlier writes, with the bytes that later ones left.
  std::unordered_map<uint32_t, std::vector<Cell>> left;
  Knowledge at_exit;  // of its warps that have exited
  Record last_exit;   // of its last warp: who, and where

  uint32_t address_of(uint32_t index) const {
    return (cta->rank << RANK_SHIFT) + SMEM_BASE + index * CELL_BYTES;
  }
  Plane& plane(uint32_t agent) { return planes.try_emplace(agent, cells.size()).first->second; }
};

// Bytes of global memory; of a copy that stores them, with what it stores.
struct Run {
  uint64_t address, bytes;
  const std::byte* values = nullptr;
};

// An access to global memory as its shadow records it, in 16 bytes; all 0: none.
struct GlobalRecord {
  static constexpr uint32_t MAX_PC = (1u << 22) - 1;

  uint32_t cluster;
  uint32_t clock : 28;  // no more than PackedRead::MAX_CLOCK; 0: no access
  bool strong : 1, write : 1, atomic : 1;
  bool narrow : 1;               // less than 4 bytes: lanes that share a word are not told apart
  uint32_t pc : 22, lanes : 10;  // of a copy at an mbarrier: the warp that issued it
  uint16_t agent;
  uint8_t bytes;
  Scope scope;  // of a strong access

  Record record() const { return {agent, clock, pc, lanes, bytes, write, strong}; }
};
static_assert(sizeof(GlobalRecord) == 16);

struct GlobalAccess {
  GlobalRecord as{};          // who accesses, and when; bytes is filled in cell by cell
  const Knowledge* known;     // by whoever accesses
  View of_generic = GENERIC;  // in which earlier accesses of the generic proxy must be known
  uint32_t warps = 0, warps_of_cta = 0;  // of a cluster, and of each of its CTAs
  // Accesses of other lanes of the same warp that are not known to be ordered are later than this.
  uint32_t lanes_met_at = UINT32_MAX;
  Store* store = nullptr;       // of a plain store
  bool stores_at_once = false;  // while the record is made: nobody sees one of them alone
};

// The shadow of a launch's global memory: pages are added when first written, or with `keeps_reads`
// when first accessed. Thread-safe.
class GlobalShadow {
 public:
  explicit GlobalShadow(bool keeps_reads = false);
  ~GlobalShadow();

  struct Conflict {
    GlobalRecord with;
    uint64_t address;  // of its cell
    uint32_t bytes;    // mask
  };
  // Checks the access to each run against those before it and records it, up to the first conflict:
  // takes away the runs that it has been through.
  std::optional<Conflict> access(GlobalAccess access, std::span<const Run>& runs);
  // The same of `bytes` bytes by each lane.
  std::optional<Conflict> access(GlobalAccess access, uint32_t mask, const uint64_t* addresses,
                                 uint32_t bytes);

  // A strong load has read what is there now. What comes behind it comes behind the write that it has
  // seen, if that is strong too (PTX's causality order), whatever else the writer's thread did.
  void see(uint64_t address, uint64_t bytes, GlobalRecord by);

  // Whether reads at these addresses are not recorded: nobody has written their pages. What a lane reads
  // is aligned, and lies in one.
  bool records_no_read(uint32_t mask, const uint64_t* addresses);

  // A conflict that is none if the warp that reads makes an atomic access there too.
  using Place = std::tuple<uint64_t, uint32_t, uint16_t>;  // cell, cluster and agent of the reader
  using Pair = std::pair<uint32_t, uint32_t>;              // pcs
  template <class F>
  void suspect(const Place& place, const Pair& pair, F&& report) {
    const std::lock_guard lock(mutex_);
    if (!reports_.contains(pair)) reports_.emplace(pair, report());
    suspects_.emplace(place, pair);
    has_suspects_.store(true, std::memory_order_release);
  }
  void excuse(const Place& place) {
    const std::lock_guard lock(mutex_);
    suspects_.erase(place);
  }
  bool has_suspects() const { return has_suspects_.load(std::memory_order_acquire); }
  std::map<Pair, Error> suspects() const {  // the report of each pair that is left
    std::map<Pair, Error> left;
    for (const auto& [place, pair] : suspects_) left.emplace(pair, reports_.at(pair));
    return left;
  }

  // Strong accesses of a warp that release to, and acquire from, an address: an atomic adds to what
  // is there; a store begins anew where another warp was the last to release or store.
  using Writer = std::pair<uint32_t, uint16_t>;  // cluster and agent
  void release(uint64_t address, const Channel& what, const Writer& writer, bool stores);
  std::shared_ptr<const Channel> released(uint64_t address);  // null: nothing
  // Of a dependent launch: whether a thread has let the next one begin without knowing that the grids
  // before have ended, and whether any has waited for them.
  std::atomic<bool> lets_early{false}, has_waited{false};
  void add_accesses(Footprint* to) const;  // all of them with `keeps_reads`

  bool has_released() const { return has_released_.load(std::memory_order_acquire); }

 private:
  struct Page;
  struct Table;
  class Cursor;
  struct Released {
    std::shared_ptr<Channel> what = std::make_shared<Channel>();
    std::optional<Writer> last;
  };
  Page* find(uint64_t address, bool make);
  template <class T>
  T* follow(std::atomic<void*>& entry, std::deque<T>& all, bool make);

  const bool keeps_reads_;
  std::atomic<bool> has_released_{false};
  std::mutex mutex_;          // of what follows
  std::deque<Table> tables_;  // the first is the root
  std::deque<Page> pages_;
  std::unordered_map<uint64_t, Released> released_;
  std::atomic<bool> has_suspects_{false};
  std::map<Place, Pair> suspects_;
  std::map<Pair, Error> reports_;
};

}  // namespace machine
