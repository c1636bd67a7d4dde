// What the scheduler asks of named barriers and of the cluster's.
#pragma once

#include <string>

#include "common/machine/run/state.h"

namespace machine {

// The lanes have left Warp::live: barriers that waited for nobody else complete.
void threads_exited(Warp& warp, uint32_t mask);

// "barrier 1: 96 of 128 threads have arrived"
std::string barrier_text(Cta& cta, uint32_t id);

}  // namespace machine
