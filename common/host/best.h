// Stage 0: the kernel that a cost model expects to be the fastest for a call, among those of every
// linked rung. C API, command line and benchmark all ask here.
#pragma once

#include <vector>

#include "common/host/registry.h"

namespace ladder {

// Stage 0 of a kind of problem, null if no linked rung for it predicts a time. Its variants are
// choosers: `best`, its result, takes any kernel that the call can use, and `best_no_workspace` one
// that needs no workspace. For another problem than the ladder's, GemmArgs, the name of its kind
// stands behind "best".
const Stage* best_stage(const ProblemKind& kind);

// The stages 0 of all kinds, then every linked rung.
const std::vector<Stage>& all_stages();

}  // namespace ladder
