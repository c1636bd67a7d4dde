// What a deadlock or livelock report says: who waits where, and for what.
#pragma once

#include <string>
#include <vector>

#include "common/machine/run/state.h"

namespace machine {

// `is_livelock` gets whether some threads run all the same.
std::string hang_report(const std::vector<Cluster*>& stuck, bool* is_livelock);

// Of one that waits.
Origin hang_origin(const Cluster& stuck);

}  // namespace machine
