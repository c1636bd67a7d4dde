// Vector clocks of the checker: who accesses memory, and what happened before for whom.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "common/machine/check/access.h"
#include "common/machine/run/state.h"

namespace machine {

struct Knowledge;
using Snapshot = std::shared_ptr<const Knowledge>;  // what the issuer of a copy knew

// An agent is what accesses memory in an order of its own. An access is recorded with its agent and
// the agent's clock; it is ordered before whoever knows of that agent a clock as high. These are a
// warp's agents, numbered warp * AGENTS_OF_WARP + kind. Behind those of all warps are the grids
// before this one (CheckerState::grids_before), whose clock is 1 for who knows them to be complete;
// then each mbarrier is one, whose clock is its phase: the copies that complete there.
enum AgentKind : uint32_t {
  ALL_LANES,    // generic accesses of the warp; the clock up to which every lane's are known
  SOME_LANES,   // the same accesses: up to which those of Knowledge::lanes are known
  WGMMA_READS,  // clock: commit group
  BULK_READS,   // sources of bulk copies in groups; clock: group
  BULK_WRITES,  // their destinations
  CP_ASYNC,     // clock: AsyncCopy::index
  INIT_FENCES,  // fence.mbarrier_init; clock: how many
  AGENTS_OF_WARP,
  MBARRIER = AGENTS_OF_WARP,
};

// The generic view has what happened before. Of the others each has the part of it that a fence has
// made known to the async proxy, or made releasable by a relaxed operation of that scope, or released
// to TMA's reads of tensor maps, or acquired for them.
enum View : uint32_t {
  GENERIC,
  ASYNC_SHARED,
  ASYNC_GLOBAL,
  FENCED_CTA,
  FENCED_CLUSTER,
  FENCED_GPU,
  MAPS_RELEASED,
  MAPS,
  VIEWS,
};

// By agent; one that is not there is 0. Copies share what they hold until one of them changes.
class Clocks {
 public:
  Clocks() = default;
  Clocks(const Clocks& other) : held_(other.held_) {
    if (held_ != nullptr) ++held_->holders;
  }
  Clocks(Clocks&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Clocks& operator=(Clocks other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~Clocks() {
    if (held_ != nullptr && --held_->holders == 0) ::operator delete(held_);
  }

  size_t size() const { return held_ == nullptr ? 0 : held_->size; }
  bool empty() const { return size() == 0; }
  uint32_t operator[](size_t agent) const { return held_->clocks()[agent]; }
  bool operator==(const Clocks& other) const { return is_within(other) && other.is_within(*this); }
  // Whether it is no longer, and none of its clocks is greater.
  bool is_within(const Clocks& other) const {
    if (held_ == other.held_ || empty()) return true;
    if (size() > other.size()) return false;
    uint32_t greater = 0;
    for (size_t i = 0; i < held_->size; ++i) greater |= (*this)[i] > other[i];
    return greater == 0;
  }
  // So many of them, to be changed: nobody else holds them.
  uint32_t* own(size_t count) {
    if (held_ != nullptr && held_->size == count && held_->holders == 1) return held_->clocks();
    auto* const made =
        new (::operator new(sizeof(Held) + count * sizeof(uint32_t))) Held{{1}, count};
    const size_t kept = std::min(count, size());
    if (kept != 0) std::copy_n(held_->clocks(), kept, made->clocks());
    std::fill(made->clocks() + kept, made->clocks() + count, 0);
    *this = Clocks();
    held_ = made;
    return made->clocks();
  }

 private:
  struct Held {
    std::atomic<size_t> holders;
    size_t size;
    uint32_t* clocks() { return reinterpret_cast<uint32_t*>(this + 1); }  // behind it
  };
  Held* held_ = nullptr;
};

inline uint32_t clock_of(const Clocks& clocks, size_t agent) {
  return agent < clocks.size() ? clocks[agent] : 0;
}

inline uint32_t& entry(Clocks& clocks, size_t agent) {
  return clocks.own(std::max(clocks.size(), agent + 1))[agent];
}

inline void raise(Clocks& clocks, size_t agent, uint32_t clock) {
  if (agent >= clocks.size() || clocks[agent] < clock) entry(clocks, agent) = clock;
}

inline void join(Clocks& into, const Clocks& from) {
  if (from.is_within(into)) return;
  if (into.is_within(from)) {
    into = from;
    return;
  }
  const size_t count = from.size();
  uint32_t* const clocks = into.own(std::max(into.size(), count));
  for (size_t i = 0; i < count; ++i) clocks[i] = std::max(clocks[i], from[i]);
}

inline void meet(Clocks& into, const Clocks& with) {
  if (into.is_within(with)) return;
  if (with.is_within(into)) {
    into = with;
    return;
  }
  const size_t count = std::min(into.size(), with.size());
  uint32_t* const clocks = into.own(count);
  for (size_t i = 0; i < count; ++i) clocks[i] = std::min(clocks[i], with[i]);
}

// Whether it is of the generic proxy: after it, the async proxy needs a proxy fence.
inline bool in_generic_proxy(uint32_t agent, uint32_t warps) {
  const uint32_t kind = agent % AGENTS_OF_WARP;
  return agent < warps * AGENTS_OF_WARP && (kind == ALL_LANES || kind == CP_ASYNC);
}

using Others = std::vector<std::pair<uint64_t, Snapshot>>;  // by cluster, in order

struct Knowledge {
  std::array<Clocks, VIEWS> views;
  Clocks lanes;  // by warp: a mask of lanes, for SOME_LANES
  std::shared_ptr<const Others> others;
  // What relaxed operations have seen, by the scope of the fence that will acquire it.
  std::array<Snapshot, 3> seen;

  void join(const Knowledge& from) {
    for (uint32_t view = 0; view < VIEWS; ++view) machine::join(views[view], from.views[view]);
    for (size_t i = 0; i < from.lanes.size(); ++i) {
      if (from.lanes[i] & ~clock_of(lanes, i)) entry(lanes, i) |= from.lanes[i];
    }
    join_others(from.others);
    for (size_t level = 0; level < seen.size(); ++level) add(seen[level], from.seen[level]);
  }

  // What is known of another cluster.
  void join_other(uint64_t cluster, const Snapshot& what) {
    if (!others) {
      others = std::make_shared<Others>();
    } else if (others.use_count() > 1) {
      others = std::make_shared<Others>(*others);
    }
    Others& own = const_cast<Others&>(*others);  // nobody else holds it
    const auto at = std::ranges::lower_bound(own, cluster, {}, &Others::value_type::first);
    if (at == own.end() || at->first != cluster) {
      own.emplace(at, cluster, what);
    } else {
      add(at->second, what);
    }
  }

  // But for one that is not another.
  void join_others(const std::shared_ptr<const Others>& from, uint64_t but = UINT64_MAX) {
    if (!from || from == others) return;
    const bool is_whole = find_in(from, but) == nullptr;
    if (!others && is_whole) {
      others = from;
      return;
    }
    const auto has = [this, but, at = size_t{0}](const auto& each) mutable {
      while (at < others->size() && (*others)[at].first < each.first) ++at;
      return each.first == but || (at < others->size() && (*others)[at] == each);
    };
    if (others && std::ranges::all_of(*from, has)) return;
    auto merged = std::make_shared<Others>();
    merged->reserve(std::max(others ? others->size() : 0, from->size()));
    bool is_new = false, is_from = true;
    static const Others NONE;
    const Others& known = others ? *others : NONE;
    auto mine = known.begin();
    for (const auto& [cluster, what] : *from) {
      if (cluster == but) continue;
      for (; mine != known.end() && mine->first < cluster; ++mine) merged->push_back(*mine);
      Snapshot& both = merged->emplace_back(cluster, nullptr).second;
      const bool is_known = mine != known.end() && mine->first == cluster;
      if (is_known) both = mine->second;
      add(both, what);
      is_new |= !is_known || both != mine->second;
      is_from &= both == what;
      if (is_known) ++mine;
    }
    merged->insert(merged->end(), mine, known.end());
    if (is_new) others = is_from && merged->size() == from->size() ? from : merged;
  }

  // Others may hold what is there: it is not changed. Where one of the two has it all, nothing is made:
  // then many hold the same.
  static void add(Snapshot& to, const Snapshot& what) {
    if (!what || to == what) return;
    if (!to || what->covers(*to)) {
      to = what;
      return;
    }
    if (to->covers(*what)) return;
    auto both = std::make_shared<Knowledge>(*to);
    both->join(*what);
    to = both;
  }

  void meet(const Knowledge& with) {
    for (uint32_t view = 0; view < VIEWS; ++view) machine::meet(views[view], with.views[view]);
    for (size_t i = 0; i < lanes.size(); ++i) entry(lanes, i) &= clock_of(with.lanes, i);
    meet_others(with.others);
    for (size_t level = 0; level < seen.size(); ++level) {
      if (seen[level] != with.seen[level]) seen[level] = nullptr;
    }
  }

  // What is in the view `from` is in `to`, too, from now on: also what other clusters did.
  void publish(View from, View to) {
    machine::join(views[to], views[from]);
    if (!others) return;
    auto published = std::make_shared<Others>(*others);
    for (auto& [cluster, what] : *published) {
      auto theirs = std::make_shared<Knowledge>(*what);
      machine::join(theirs->views[to], theirs->views[from]);
      what = theirs;
    }
    others = published;
  }

  // What is known of a cluster's accesses, or null; `own`: whether it is the one that knows this.
  const Knowledge* of_cluster(uint64_t cluster, bool own) const {
    return own ? this : find_in(others, cluster);
  }

  bool covers(const Knowledge& other) const {
    for (uint32_t view = 0; view < VIEWS; ++view) {
      if (!other.views[view].is_within(views[view])) return false;
    }
    for (size_t i = 0; i < other.lanes.size(); ++i) {
      if (other.lanes[i] & ~clock_of(lanes, i)) return false;
    }
    return others == other.others && seen == other.seen;
  }

 private:
  // Of other clusters, too, both know only what each of them does.
  void meet_others(const std::shared_ptr<const Others>& with) {
    if (others == with || !others) return;
    auto common = std::make_shared<Others>();
    for (const auto& [cluster, what] : *others) {
      const Knowledge* const theirs = find_in(with, cluster);
      if (theirs == nullptr) continue;
      if (theirs == what.get()) {
        common->emplace_back(cluster, what);
      } else {
        auto both = std::make_shared<Knowledge>(*what);
        both->meet(*theirs);
        common->emplace_back(cluster, both);
      }
    }
    others = common;
  }

  static const Knowledge* find_in(const std::shared_ptr<const Others>& among, uint64_t cluster) {
    if (!among) return nullptr;
    const auto found = std::ranges::lower_bound(*among, cluster, {}, &Others::value_type::first);
    return found == among->end() || found->first != cluster ? nullptr : found->second.get();
  }
};

// A recorded access. `lanes`: which lane touched bytes 0-3 of the cell, and which (<< 5) bytes 4-7.
struct Record {
  uint32_t agent = 0, clock = 0, pc = 0;
  uint32_t lanes = 0;
  uint32_t bytes = 0;  // mask over a cell's 8
  bool write = false, strong = false;
};

// Strong accesses race with each other unless each names a scope that has the other's thread.
inline Scope least_scope(bool same_cluster, bool same_cta) {
  return same_cta ? Scope::cta : same_cluster ? Scope::cluster : Scope::gpu;
}

constexpr uint32_t LANE_BITS = 5, LANE_PAIR_MASK = (1u << 2 * LANE_BITS) - 1;
inline uint32_t lane_pair(uint32_t low, uint32_t high) {
  return low | high << LANE_BITS;
}
// The part of a pair that bytes of a cell stand for, as a mask.
inline uint32_t lanes_of(uint32_t bytes) {
  return (bytes & 0x0f ? LANES - 1 : 0) | (bytes & 0xf0 ? (LANES - 1) << LANE_BITS : 0);
}

// Those of words that are touched as a whole: whoever touched a part of one last is known to have, though
// of accesses to less than a word the other lanes are not.
inline uint32_t whole_words(uint32_t bytes) {
  return ((bytes & 0x0f) == 0x0f ? 0x0f : 0) | ((bytes & 0xf0) == 0xf0 ? 0xf0 : 0);
}

// The one of a pair, or the first, that touched these bytes.
inline uint32_t lane_in(uint32_t lanes, uint32_t bytes) {
  return (bytes & 0x0f ? lanes : lanes >> LANE_BITS) & (LANES - 1);
}

// Whether is(shift) for a half of the cell that some of the bytes are in, whose lane is at this shift.
template <class F>
bool any_half(uint32_t bytes, F&& is) {
  return (bytes & 0x0f && is(0)) || (bytes & 0xf0 && is(LANE_BITS));
}

// Whether `bytes` of the recorded access happened before, in this view.
inline bool is_ordered(const Knowledge& known, View view, const Record& record, uint32_t bytes,
                       uint32_t warps) {
  const Clocks& clocks = known.views[view];
  if (clock_of(clocks, record.agent) >= record.clock) return true;
  if (record.agent >= warps * AGENTS_OF_WARP) return false;
  if (record.agent % AGENTS_OF_WARP != ALL_LANES) return false;
  if (clock_of(clocks, record.agent + SOME_LANES) < record.clock) return false;
  const uint32_t lanes = clock_of(known.lanes, record.agent / AGENTS_OF_WARP);
  return !any_half(
      bytes, [&](uint32_t shift) { return !(lanes >> (record.lanes >> shift & (LANES - 1)) & 1); });
}

// How far a release is heard; nowhere, where the fence before it is missing.
using Reach = std::optional<Scope>;
constexpr Reach NOWHERE;

// What was released at an mbarrier or an address, by whom and how far.
struct Channel {
  struct Part {
    uint64_t cluster;
    uint32_t rank;
    Reach reach;
    std::shared_ptr<Knowledge> what;
    Snapshot alone;  // of it what the cluster itself did, once other clusters may hear it
  };
  std::vector<Part> parts;

  void add(uint64_t cluster, uint32_t rank, Reach reach, const std::shared_ptr<Knowledge>& what) {
    Part* const part = find(cluster, rank, reach);
    if (part == nullptr) {
      parts.push_back({cluster, rank, reach, what, nullptr});
    } else if (part->what != what) {
      own(*part).join(*what);
    }
  }

  // For what the owner of an mbarrier hears from copies that complete there.
  void raise(uint64_t cluster, uint32_t rank, uint32_t agent, uint32_t clock) {
    Part* part = find(cluster, rank, Scope::cta);
    if (part == nullptr) {
      parts.push_back({cluster, rank, Scope::cta, std::make_shared<Knowledge>(), nullptr});
      part = &parts.back();
    }
    if (clock_of(part->what->views[GENERIC], agent) >= clock) return;
    machine::raise(own(*part).views[GENERIC], agent, clock);
  }

  void join(const Channel& from) {
    for (const Part& part : from.parts) add(part.cluster, part.rank, part.reach, part.what);
  }

  void let_others_hear() {
    for (Part& part : parts) {
      if (part.alone) continue;
      auto alone = std::make_shared<Knowledge>(*part.what);
      alone->others.reset();
      alone->seen.fill(nullptr);
      part.alone = alone;
    }
  }

 private:
  Part* find(uint64_t cluster, uint32_t rank, Reach reach) {
    for (Part& part : parts) {
      if (part.cluster == cluster && part.rank == rank && part.reach == reach) return &part;
    }
    return nullptr;
  }

  // What others hold too is copied before it changes.
  static Knowledge& own(Part& part) {
    part.alone.reset();
    if (part.what.use_count() > 1) part.what = std::make_shared<Knowledge>(*part.what);
    return *part.what;
  }
};

}  // namespace machine
