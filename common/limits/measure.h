// Timing of a limit. All of it comes from the clocks that the kernel's CTAs read: a launch lasts
// from the first CTA's beginning to the last one's end, so that neither the launch counts nor the
// operands' way into place.
#pragma once

#include "common/host/workload.h"
#include "common/limits/limit.h"

namespace limits {

// Medians over the rounds.
struct Measurement {
  double rate = 0, p10 = 0, p90 = 0;  // FLOP or bytes a second, all CTAs together
  double per_clock = 0;               // FLOP or bytes a clock and SM
  double sm_mhz = 0;                  // mean over the SMs and the timed launches
  double busy = 0;  // the share of a launch that the mean CTA takes: less than 1 if some end early
  int rounds = 0;
};

// What a limit came to, and whether its kernel is right, before and after.
struct Outcome {
  Measurement measurement;
  std::string failure;  // empty if it is right
};

// Checks, measures and checks again, with as many passes as were timed. burst: 5 rounds, in each
// 100 ms of rest, about 1 ms of warm-up, then one launch of about 12 ms. sustained: 1 s of load,
// then 5 rounds of at least 200 ms without a rest. Throws CudaError if the GPU is lost.
Outcome measure(Limit& limit, ladder::Regime regime, cudaStream_t stream);

// Only checks, with a few passes.
std::string check_only(Limit& limit, cudaStream_t stream);

}  // namespace limits
