// The rules of calls on packed weights, one sentence for each that is broken. Needs no GPU.
#pragma once

#include <string>

#include "common/host/mixed.h"
#include "common/host/problem.h"

namespace ladder {

// Of ladder_gemm_mixed(), for ProblemKind::violations().
std::string mixed_violations(const GridRules& rules, const MixedArgs& args);

// Of ladder_packed_bytes().
std::string packed_size_violations(int bits, int n, int k);

// Of ladder_quantize_weights() and ladder_pack_weights(), which touch w and scale, or packed.
std::string quantize_violations(const WeightsArgs& args);
std::string pack_violations(const WeightsArgs& args);

}  // namespace ladder
