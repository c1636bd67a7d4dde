// What the lanes of a warp know, and tell others. It knows nothing of memory.
#include "common/machine/check/warp_knowledge.h"

#include <bit>
#include <climits>
#include <optional>

#include "common/machine/check/shadow.h"
#include "common/machine/run/error.h"

namespace machine {

WarpKnowledge::WarpKnowledge(const Warp& warp) : warp_(warp) {
  raise(known_.views[GENERIC], agent(ALL_LANES), UINT32_MAX);
}

void WarpKnowledge::tick() {
  if (++clock_ < PackedRead::MAX_CLOCK) return;
  throw Error(Error::Kind::refused, "Kernel " + source_name(grid_of(warp_).kernel->name) +
                                        " runs too long to be checked; MACHINE_CHECK=0 runs it "
                                        "without checks.");
}

const Knowledge& WarpKnowledge::of(uint32_t lanes) {
  if (extras_.empty()) return known_;
  const Knowledge* found = &known_;
  uint32_t count = 0;
  for (const Extra& extra : extras_) {
    if (extra.lanes == lanes) return extra.known;
    if (lanes & ~extra.lanes) continue;
    found = &extra.known;
    ++count;
  }
  return count <= 1 ? *found : extra_of(lanes);
}

Knowledge& WarpKnowledge::extra_of(uint32_t lanes) {
  constexpr size_t MAX_EXTRAS = 64;
  for (Extra& extra : extras_) {
    if (extra.lanes == lanes) return extra.known;
  }
  if (extras_.size() >= MAX_EXTRAS) {  // rather than report what is no race
    for (const Extra& extra : extras_) known_.join(extra.known);
    extras_.clear();
  }
  Extra made{lanes, known_};
  for (const Extra& extra : extras_) {
    if (!(lanes & ~extra.lanes)) made.known.join(extra.known);
  }
  return extras_.emplace_back(std::move(made)).known;
}

// What some of these lanes know together with others is also theirs alone from here on.
void WarpKnowledge::split_extras(uint32_t lanes) {
  std::vector<uint32_t> parts;
  for (const Extra& extra : extras_) {
    const uint32_t part = extra.lanes & lanes;
    if (part != 0 && part != lanes && part != extra.lanes) parts.push_back(part);
  }
  for (const uint32_t part : parts) extra_of(part);
}

void WarpKnowledge::hear_own(uint32_t lanes, const Knowledge& what) {
  const Clocks& clocks = what.views[GENERIC];
  const uint32_t of_some = clock_of(clocks, agent(SOME_LANES));
  heard_own_ = std::max({heard_own_, clock_of(clocks, agent(ALL_LANES)), of_some});
  if (of_some <= synced_) return;
  const uint32_t from = clock_of(what.lanes, warp_.in_cluster);
  for_lanes(lanes, [&](uint32_t lane) { heard_[lane] |= from; });
}

void WarpKnowledge::learn(uint32_t lanes, const Knowledge& what) {
  hear_own(lanes, what);
  teach(lanes, [&](Knowledge& known) { known.join(what); });
}

void WarpKnowledge::learn(uint32_t lanes, uint32_t agent, uint64_t clock) {
  teach(lanes, [&](Knowledge& known) {
    raise(known.views[GENERIC], agent, static_cast<uint32_t>(clock));
  });
}

// Every lane knows more than the warp: the least of it is the warp's.
void WarpKnowledge::learn_what_all_know() {
  std::optional<Knowledge> least;
  for_lanes(warp_.live, [&](uint32_t lane) {
    const auto breadth = [lane](const Extra& extra) {  // the narrowest one has learned most
      return extra.lanes >> lane & 1 ? std::popcount(extra.lanes) : INT_MAX;
    };
    const Knowledge& most = std::ranges::min_element(extras_, {}, breadth)->known;
    if (least) {
      least->meet(most);
    } else {
      least = most;
    }
  });
  known_.join(*least);
  std::erase_if(extras_, [&](const Extra& extra) { return known_.covers(extra.known); });
  for (Extra& extra : extras_) extra.known.join(known_);
}

void WarpKnowledge::meet(uint32_t lanes) {
  changed_ = true;
  Knowledge all;
  for (const Extra& extra : extras_) {
    if (extra.lanes & lanes) all.join(extra.known);
  }
  if (is_whole(lanes)) {
    if (!extras_.empty()) known_.join(all);
    extras_.clear();
    raise_published();
    met_.clear();
    heard_.fill(0);
    synced_ = clock_;
    tick();
    return;
  }
  if (!extras_.empty()) learn(lanes, all);
  if (met_.empty()) {
    for (uint32_t lane = 0; lane < LANES; ++lane) met_.push_back(1u << lane);
  }
  const uint32_t together = met_by(lanes);
  for_lanes(together, [&](uint32_t lane) { met_[lane] = together; });
}

// Where lanes have parted each executes the fence for itself: what all of them have published is
// published for the warp. If each has since they last met, that is up to the last one's fence, rather
// than report what is no race.
void WarpKnowledge::raise_published() {
  if (warp_.live == 0) return;
  for (uint32_t view = GENERIC + 1; view < VIEWS; ++view) {
    uint32_t least = published_[view][first_lane(warp_.live)], most = 0;
    if (least == 0) continue;
    for_lanes(warp_.live, [&](uint32_t lane) {
      least = std::min(least, published_[view][lane]);
      most = std::max(most, published_[view][lane]);
    });
    if (least == 0) continue;
    raise(known_.views[view], agent(ALL_LANES), least > synced_ ? most : least);
  }
}

// The lanes whose accesses are ordered before what `lanes` do now, beyond those up to `synced`.
uint32_t WarpKnowledge::met_by(uint32_t lanes) const {
  if (met_.empty()) return lanes;
  uint32_t together = lanes;
  for_lanes(lanes, [&](uint32_t lane) { together |= met_[lane]; });
  return together;
}

std::shared_ptr<Knowledge> WarpKnowledge::release(uint32_t lanes) {
  if (!changed_ && released_by_ == lanes) return released_;
  const bool whole = is_whole(lanes);
  if (whole) raise_published();  // each may have fenced for itself
  auto made = std::make_shared<Knowledge>(known_);
  for (const Extra& extra : extras_) {
    if (extra.lanes & lanes) made->join(extra.known);
  }
  const uint32_t all = agent(ALL_LANES), some = agent(SOME_LANES);
  for (uint32_t view = 0; view < VIEWS; ++view) {
    Clocks& clocks = made->views[view];
    if (view == GENERIC) {
      raise(clocks, some, clock_);
      entry(clocks, all) = whole ? clock_ : synced_;
    } else if (!whole && clock_of(clocks, all) > synced_) {
      raise(clocks, some, clocks[all]);
      entry(clocks, all) = synced_;
    }
  }
  if (!whole) {
    uint32_t& before = entry(made->lanes, warp_.in_cluster);
    before = met_by(lanes);
    for_lanes(lanes, [&](uint32_t lane) { before |= heard_[lane]; });
  }
  tick();
  released_ = made;
  released_by_ = lanes;
  changed_ = false;
  return made;
}

void WarpKnowledge::publish(uint32_t lanes, const std::vector<View>& views) {
  const bool whole = is_whole(lanes);
  const uint32_t all = agent(ALL_LANES), some = agent(SOME_LANES);
  const uint32_t together = met_by(lanes);
  for (const View view : views) {
    for_lanes(lanes, [&](uint32_t lane) { published_[view][lane] = clock_; });
  }
  teach(lanes, [&](Knowledge& known) {
    for (const View view : views) {
      Clocks& clocks = known.views[view];
      const uint32_t before = clock_of(clocks, all);
      if (view == ASYNC_GLOBAL || view == MAPS_RELEASED) {
        known.publish(GENERIC, view);
      } else {
        machine::join(clocks, known.views[GENERIC]);  // other clusters' are kept whole
      }
      entry(clocks, all) = std::max(before, whole ? clock_ : synced_);
      if (!whole) raise(clocks, some, clock_);
    }
    if (!whole) entry(known.lanes, warp_.in_cluster) |= together;
  });
  tick();
}

}  // namespace machine
