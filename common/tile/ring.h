// Position in a ring of DEPTH slots, and which phase parity its mbarriers are in there.
#pragma once

#include <cstdint>

namespace tile {

// Both sides of a ring walk it with a state of their own, from slot 0 and parity 0. A consumer
// waits for full[slot] with `parity`. A producer waits for empty[slot] with `parity ^ 1`: on a
// fresh mbarrier the phase before the first counts as completed, so the first lap does not wait.
template <int DEPTH>
struct RingState {
  int slot = 0;
  uint32_t parity = 0;  // flips each time the ring wraps

  constexpr void advance() {
    if (++slot == DEPTH) {
      slot = 0;
      parity ^= 1;
    }
  }

  // The same `steps` times; steps >= 0.
  constexpr void advance(int steps) {
    parity ^= (slot + steps) / DEPTH % 2;
    slot = (slot + steps) % DEPTH;
  }
};

}  // namespace tile
