// RingState, walked by a producer and two consumers over model mbarriers, in every interleaving.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/tile/ring.h"

namespace {

// An mbarrier as the PTX ISA has it: a phase completes when no arrival and no byte is pending.
struct Mbarrier {
  int count;      // arrivals a phase
  int pending;    // arrivals that the current phase still wants
  int tx = 0;     // bytes that the current phase still wants
  int phase = 0;  // phases completed

  explicit Mbarrier(int count_) : count(count_), pending(count_) {}
  void arrive(int expect_tx = 0) {
    tx += expect_tx;
    --pending;
    complete_if_done();
  }
  void complete_tx(int bytes) {
    tx -= bytes;
    complete_if_done();
  }
  // try_wait.parity: whether the phase of this parity has completed, that is, another one is on.
  bool try_wait(uint32_t parity) const { return static_cast<uint32_t>(phase & 1) != parity; }

  auto operator<=>(const Mbarrier&) const = default;

 private:
  void complete_if_done() {
    if (pending != 0 || tx != 0) return;
    ++phase;
    pending = count;
  }
};

constexpr int CONSUMERS = 2;
constexpr int TX_BYTES = 49152;

// Where one side of the ring is: its RingState, with the number of items behind it.
template <int DEPTH>
struct Position {
  int item = 0;
  int slot = tile::RingState<DEPTH>{}.slot;
  uint32_t parity = tile::RingState<DEPTH>{}.parity;

  auto operator<=>(const Position&) const = default;

  void advance() {
    tile::RingState<DEPTH> ring{slot, parity};
    ring.advance();
    *this = {item + 1, ring.slot, ring.parity};
  }
};

// A ring in some moment. Copies land in order, some time after the producer has started them;
// a consumer first waits, then reads for a while, then releases the slot.
template <int DEPTH>
struct Ring {
  std::vector<Mbarrier> full = std::vector<Mbarrier>(DEPTH, Mbarrier(1));
  std::vector<Mbarrier> empty = std::vector<Mbarrier>(DEPTH, Mbarrier(CONSUMERS));
  std::array<int, DEPTH> content = filled_with_none();  // item whose copy was started last
  Position<DEPTH> producer;
  int landed = 0;  // items
  std::array<Position<DEPTH>, CONSUMERS> consumers;
  std::array<bool, CONSUMERS> reading{};

  auto operator<=>(const Ring&) const = default;

  static std::array<int, DEPTH> filled_with_none() {
    std::array<int, DEPTH> none;
    none.fill(-1);
    return none;
  }

  int released() const { return std::min_element(consumers.begin(), consumers.end())->item; }
  bool producer_may_go() const { return empty[at(producer)].try_wait(producer.parity ^ 1); }
  void produce() {
    content[at(producer)] = producer.item;
    full[at(producer)].arrive(TX_BYTES);
    producer.advance();
  }
  bool consumer_may_go(size_t who) const {
    return full[at(consumers[who])].try_wait(consumers[who].parity);
  }
  void land() {
    full[static_cast<size_t>(landed % DEPTH)].complete_tx(TX_BYTES);
    ++landed;
  }
  void release(size_t who) {
    reading[who] = false;
    empty[at(consumers[who])].arrive();
    consumers[who].advance();
  }

  static size_t at(const Position<DEPTH>& position) { return static_cast<size_t>(position.slot); }
};

struct Outcome {
  std::string wrong;      // what went wrong first, "" if nothing did
  int largest_lag = 0;    // slots that the producer was ahead of the slower consumer
  bool finished = false;  // all items were consumed
};

// Takes every step that is possible in every state that can be reached.
template <int DEPTH>
Outcome explore(int items) {
  Outcome outcome;
  std::set<Ring<DEPTH>> seen{Ring<DEPTH>{}};
  std::vector<Ring<DEPTH>> to_do{Ring<DEPTH>{}};
  while (!to_do.empty() && outcome.wrong.empty()) {
    const Ring<DEPTH> now = to_do.back();
    to_do.pop_back();
    std::vector<Ring<DEPTH>> next;

    const int lag = now.producer.item - now.released();
    outcome.largest_lag = std::max(outcome.largest_lag, lag);
    if (now.producer.item < items) {
      if (now.producer_may_go() && lag >= DEPTH) outcome.wrong = "an unread slot is overwritten";
      if (!now.producer_may_go() && lag < DEPTH) outcome.wrong = "producer waits for a free slot";
      if (now.producer_may_go()) next.emplace_back(now).produce();
    }
    if (now.landed < now.producer.item) next.emplace_back(now).land();
    for (size_t who = 0; who < CONSUMERS; ++who) {
      const Position<DEPTH>& consumer = now.consumers[who];
      if (now.reading[who]) {
        if (now.content[now.at(consumer)] != consumer.item) outcome.wrong = "wrong item is read";
        next.emplace_back(now).release(who);
      } else if (consumer.item < items) {
        const bool there = consumer.item < now.landed;
        if (now.consumer_may_go(who) && !there) outcome.wrong = "a slot is read before it is full";
        if (!now.consumer_may_go(who) && there) outcome.wrong = "consumer waits for a full slot";
        if (now.consumer_may_go(who)) next.emplace_back(now).reading[who] = true;
      }
    }

    if (next.empty() && now.released() == items) outcome.finished = true;
    if (next.empty() && now.released() < items) outcome.wrong = "deadlock";
    for (Ring<DEPTH>& ring : next) {
      if (seen.insert(ring).second) to_do.push_back(std::move(ring));
    }
  }
  return outcome;
}

template <int DEPTH>
void check_every_interleaving() {
  for (const int items : {1, DEPTH, DEPTH + 1, 3 * DEPTH + 1}) {
    CAPTURE(DEPTH);
    CAPTURE(items);
    const Outcome outcome = explore<DEPTH>(items);
    CHECK(outcome.wrong == "");
    CHECK(outcome.finished);
    CHECK(outcome.largest_lag == std::min(items, DEPTH));
  }
}

template <int DEPTH>
void check_first_lap() {
  CAPTURE(DEPTH);
  Ring<DEPTH> ring;
  for (int item = 0; item < DEPTH; ++item) {
    CAPTURE(item);
    REQUIRE(ring.producer_may_go());
    ring.produce();
  }
  CHECK_FALSE(ring.producer_may_go());
}

// Both consumers stay `lag` slots behind for many laps: nobody waits who has something to do.
template <int DEPTH>
void check_lag(int lag) {
  CAPTURE(DEPTH);
  CAPTURE(lag);
  Ring<DEPTH> ring;
  const auto produce = [&] {
    REQUIRE(ring.producer_may_go());
    ring.produce();
    ring.land();
  };
  const auto consume = [&] {
    for (size_t who = 0; who < CONSUMERS; ++who) {
      REQUIRE(ring.consumer_may_go(who));
      ring.release(who);
    }
  };
  for (int i = 0; i < lag; ++i) produce();
  for (int i = 0; i < 50 * DEPTH; ++i) {
    REQUIRE(ring.producer_may_go() == (lag < DEPTH));
    REQUIRE(ring.consumer_may_go(0) == (lag > 0));
    if (lag == 0) produce();
    consume();
    if (lag > 0) produce();
  }
}

template <int DEPTH>
void check_walk() {
  CAPTURE(DEPTH);
  tile::RingState<DEPTH> ring;
  for (int item = 0; item < 5 * DEPTH; ++item, ring.advance()) {
    CAPTURE(item);
    CHECK(ring.slot == item % DEPTH);
    CHECK(ring.parity == static_cast<uint32_t>(item / DEPTH % 2));
  }
}

// Calls check with each depth, as a type that converts to it.
template <class Check>
void for_each_depth(const Check& check) {
  [&]<int... DEPTHS>(std::integer_sequence<int, DEPTHS...>) {
    (check(std::integral_constant<int, DEPTHS + 1>()), ...);
  }(std::make_integer_sequence<int, 6>());
}

}  // namespace

TEST_CASE("ring: slots go round, parity flips each time") {
  for_each_depth([](auto depth) { check_walk<depth>(); });
}

TEST_CASE("ring: the producer fills the first lap without waiting, and not one slot more") {
  for_each_depth([](auto depth) { check_first_lap<depth>(); });
}

TEST_CASE("ring: consumers that stay a number of slots behind, for many laps") {
  for_each_depth([](auto depth) {
    for (int lag = 0; lag <= depth; ++lag) check_lag<depth>(lag);
  });
}

TEST_CASE("ring: in every interleaving no unread slot is overwritten, and all items get through") {
  for_each_depth([](auto depth) { check_every_interleaving<depth>(); });
}
