// What a deadlock or livelock report says: who waits where, and for what.
#pragma once

#include <string>
#include <vector>

#include "common/machine/run/state.h"

namespace machine {

// Of clusters none of which can go on; it tells of the first. `not_begun`: what there is to say of others.
Error hang_report(const std::vector<Cluster*>& stuck, const std::string& not_begun);

}  // namespace machine
