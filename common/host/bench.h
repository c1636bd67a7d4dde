// Measuring variants in turns, and the modes --bench-rows and --sweep-rows built on it.
#pragma once

#include <functional>
#include <istream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/host/options.h"
#include "common/host/timing.h"

namespace ladder {

// The machine and the versions behind a measurement.
struct Environment {
  std::string gpu;      // "NVIDIA H200"
  std::string driver;   // "580.82.07", or the CUDA version it supports where that is hidden
  std::string toolkit;  // nvcc's
  std::string cublas;   // "13.1.0"
  int max_mhz = 0;
};
Environment query_environment(const DeviceInfo& device);

// "168", or "168 -> 40/232" where setmaxnreg moves registers from the producer to the consumers.
std::string registers_text(const Kernel& kernel, int registers);

struct KernelUse {
  std::string registers;
  int smem_bytes;  // dynamic and static
};
KernelUse query_kernel(const Kernel& kernel);

// The variant whose kernel runs a call of that shape with the smallest leading dimensions.
const Variant& chosen_for(const Variant& variant, const Shape& shape, const CallLimits& limits);

// What a chooser's row says of the variant that it runs: its name, of stage 0 with the rung's,
// "11_autotuned/256x192_1x2".
std::string configuration_name(const Stage& asked, const Variant& runs);

// What came of one contestant.
struct Outcome {
  Check check;                    // before timing, then after it
  double share_equal_to_cublas =  // of set 0's elements, bit for bit; NaN: it has no such result
      std::numeric_limits<double>::quiet_NaN();
  std::optional<Measurement> time;  // only of a contestant that is right before and after
  std::optional<Power> power;       // only where GroupOutcome says so
};

struct GroupOutcome {
  std::string algorithm;  // of the baseline; "": cuBLASLt has none, and there are no ratios
  Outcome baseline;       // with its time, right or not: that stands in its check
  std::vector<Outcome> variants;
  // Energy is measured sustained and at the rung's default shape, of the baseline and of the rung's
  // result, if the board has a counter. What it draws at rest:
  double idle_watts = std::numeric_limits<double>::quiet_NaN();
};

// Checks cuBLASLt's best algorithm and every variant, then times all that are right in turns. Each
// step runs under a Watchdog and is announced before by the indices of the variants it runs (none:
// cuBLASLt alone).
using Announce = std::function<void(const std::vector<size_t>& running)>;
GroupOutcome measure_group(Workbench& workbench, const Stage& stage,
                           const std::vector<const Variant*>& variants, const Shape& shape,
                           Regime regime, const Announce& announce);

// "rung 5 05_wgmma bn256 at 8192x8192x8192", for messages; "stage 0 best at ...".
std::string describe(const Stage& stage, const Variant& variant, const Shape& shape);

// --bench-rows: rows from `input` up to its end, JSON lines to stdout, each flushed:
//   {"env": {...}}         once, first
//   {"running": [row, …]}  the rows that the next step runs, as they were read
//   {"stage": …}           a row's result; "error" says why it has no numbers
// Returns the exit code: 1 if a row failed. Throws Refused, NoDevice, CudaError.
int run_bench_rows(const Options& options, std::istream& input);

// --sweep-rows: the same without cuBLASLt, with less time for each and rows that say less, for many
// variants, and rows of several rungs in turns.
int run_sweep_rows(const Options& options, std::istream& input);

// --choices: {"row": …, "configuration": …, "kernel": …, "predicted_us": …} for each row, whose
// variant may choose by the device. Measures nothing.
void print_choices(const Options& options, std::istream& input);

}  // namespace ladder
