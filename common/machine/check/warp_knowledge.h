// What the lanes of a warp know to have happened before, and what they tell others of it.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "common/machine/check/clocks.h"

namespace machine {

class WarpKnowledge {
 public:
  explicit WarpKnowledge(const Warp& warp);

  uint32_t agent(AgentKind kind) const { return warp_.in_cluster * AGENTS_OF_WARP + kind; }
  // Of the warp's generic accesses from now on. It rises whenever something is told.
  uint32_t clock() const { return clock_; }

  // What all its lanes know. Of the warp's own generic accesses it has all: they are not checked
  // against each other.
  const Knowledge& of_warp() const { return known_; }
  // What all of `lanes` know.
  const Knowledge& of(uint32_t lanes);
  // What only some lanes know, because they waited or fenced alone; all of the warp's included.
  struct Extra {
    uint32_t lanes;
    Knowledge known;
  };
  const std::vector<Extra>& extras() const { return extras_; }
  // Whether some of these lanes know more than the others.
  bool differs_among(uint32_t lanes) const {
    return std::ranges::any_of(extras_, [lanes](const Extra& extra) {
      return (extra.lanes & lanes) != 0 && (lanes & ~extra.lanes) != 0;
    });
  }

  // Changes what these lanes know: f(Knowledge&).
  template <class F>
  void teach(uint32_t lanes, F&& f) {
    teach_next(lanes, f);
    settle();
  }
  // The same of lanes that are taught one after the other: settle() comes behind the last.
  template <class F>
  void teach_next(uint32_t lanes, F&& f) {
    changed_ = true;
    if (is_whole(lanes)) {
      f(known_);
      for (Extra& extra : extras_) f(extra.known);
      return;
    }
    split_extras(lanes);
    extra_of(lanes);
    uint32_t all = 0;
    for (Extra& extra : extras_) {
      if (!(extra.lanes & ~lanes)) f(extra.known);
      all |= extra.lanes;
    }
    all_learned_ = is_whole(all);
  }
  void settle() {
    if (std::exchange(all_learned_, false)) learn_what_all_know();
  }
  void learn(uint32_t lanes, const Knowledge& what);
  void learn(uint32_t lanes, uint32_t agent, uint64_t clock);  // the agent's accesses up to it
  // These lanes synchronise with each other: bar.warp.sync.
  void meet(uint32_t lanes);
  // A fence: what the lanes know becomes part of these views.
  void publish(uint32_t lanes, const std::vector<View>& views);
  // What `lanes` tell others when they release, or a copy when they issue it: of the warp's own
  // accesses, those that `lanes` made, and all up to the last time that the lanes met.
  std::shared_ptr<Knowledge> release(uint32_t lanes);
  // Whether the lanes' accesses up to this clock are ordered among them, in so far as that is known:
  // by bar.warp.sync, a barrier, or what one lane has released and another acquired.
  uint32_t lanes_met_at() const { return std::max(synced_, heard_own_); }
  bool have_met(uint32_t lane, uint32_t other) const {
    return lane == other || (!met_.empty() && (met_[lane] >> other & 1));
  }
  bool some_have_met() const { return !met_.empty(); }
  // Lanes have heard this: what it has of the warp's own accesses is ordered before theirs.
  void hear_own(uint32_t lanes, const Knowledge& what);
  // The warp has made an access since the last release.
  void note_access() { changed_ = true; }

 private:
  bool is_whole(uint32_t lanes) const { return (warp_.live & ~lanes) == 0; }
  Knowledge& extra_of(uint32_t lanes);
  void split_extras(uint32_t lanes);
  void learn_what_all_know();
  void raise_published();
  uint32_t met_by(uint32_t lanes) const;
  void tick();

  const Warp& warp_;
  uint32_t clock_ = 1;
  uint32_t synced_ = 0;     // up to which the warp's accesses are ordered among its lanes
  uint32_t heard_own_ = 0;  // up to which they have come back to the warp from others
  // By lane: up to which clock a proxy fence or fence of the lane has put its accesses in the view.
  std::array<std::array<uint32_t, LANES>, VIEWS> published_{};
  std::vector<uint32_t> met_;            // by lane: those that it met since then; empty: none
  std::array<uint32_t, LANES> heard_{};  // by lane: those whose releases it has heard since then
  Knowledge known_;
  std::vector<Extra> extras_;
  bool all_learned_ = false;  // every lane knows more than the warp, maybe

  // The last release, for as long as nothing has changed.
  std::shared_ptr<Knowledge> released_;
  uint32_t released_by_ = 0;  // lanes
  bool changed_ = true;
};

}  // namespace machine
