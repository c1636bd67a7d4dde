// Runs the warps of one cluster.
#pragma once

#include <atomic>

#include "common/machine/run/state.h"

namespace machine {

enum class Outcome {
  done,
  stuck,  // nothing that this cluster does changes anything
  turn,   // it polls global memory: others may run
  pause,  // it could go on, but what others do now may be what it meets next
};

// Whether a cluster that changes nothing comes back to a state that it had. Warps that run in turns
// then do so for ever; of those that run at random another may still be chosen.
struct Cycle {
  uint64_t saved = 0, rounds = 0, met = 0, changes = 0;

  bool closes(uint64_t state, uint64_t changes_now, bool random) {
    if (changes != changes_now) *this = {0, 0, 0, changes_now};
    constexpr uint64_t OFTEN = 1 << 12;
    if (rounds != 0 && state == saved && ++met >= (random ? OFTEN : 1)) return true;
    if (std::has_single_bit(++rounds) && met == 0) saved = state;
    return false;
  }
};

// Until the cluster is done, or others must have a turn; `stop`: another one has ended the launch.
Outcome run_cluster(Cluster& cluster, Cycle& cycle, const std::atomic<bool>& stop);

}  // namespace machine
