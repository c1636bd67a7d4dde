// Measuring. Every contestant of a measurement runs the same problem in the same process: its
// launches are captured into a CUDA graph, so that small shapes do not time the CPU, and graphs of
// different contestants are replayed in turns.
//
//   burst      rounds; in each, every contestant: a rest, about 1 ms of warm-up, then its graph
//   sustained  load by all in turns, then rounds; in each, every contestant: some of its own load
//              untimed, so that the chip settles at its power and not at its neighbour's, then a
//              slice timed
//
// The order is reversed every round. Time is taken by CUDA events around the replays, which wait in
// the stream behind the warm-up or the lead-in, so that the GPU never waits for the host inside.
//
// Energy is a pass of its own, since the board's counter of joules has few steps a second: a
// contestant runs back to back for 500 ms untimed and then for at least 20 steps of the counter.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/host/error.h"
#include "common/host/nvml.h"
#include "common/host/problem.h"

namespace ladder {

// A kernel ended in an error after which the process can use the GPU no more.
struct ContextLost : CudaError {
  using CudaError::CudaError;
};

// Whether a contestant is right.
struct Check {
  Verdict verdict;
  std::string failure;  // empty if it is; else what went wrong
  bool ok() const { return failure.empty(); }
};

// Poisons every result, launches the contestant once a set and verifies; a counter of the workspace
// that is not left at 0 is a failure too. Throws Refused if it refuses
// the problem, ContextLost if the GPU is lost; another CudaError becomes the failure.
Check check(Problem& problem, const Contestant& contestant);

// How much time a measurement takes over each contestant.
struct Pace {
  int rounds;
  double rest_ms;     // burst: before each graph
  double graph_ms;    // of launches in a graph, at least 3 of them
  double load_ms;     // sustained: before the first round
  double lead_in_ms;  // sustained: before each slice
  double slice_ms;    // sustained
  bool host_cost;     // whether host_us is measured
};
inline constexpr Pace BENCH_PACE{5, 100, 12, 1000, 100, 200, true};
// For very many contestants that are only compared with each other.
inline constexpr Pace SWEEP_PACE{2, 10, 4, 1000, 30, 60, false};

// The board's counter of joules and what has to be known of it. Opening measures the board at rest,
// which takes a few seconds. Throws NoEnergy if there is no counter.
struct EnergyMeter {
  explicit EnergyMeter(const DeviceInfo& device);
  EnergyCounter counter;
  double refresh_s;
  double limit_watts;  // NaN if unknown
  double idle_watts;   // with a context on the device and nothing running
};

// Of the whole board while a contestant runs back to back.
struct Power {
  double watts, tflops, sm_mhz;
  double pj_per_flop() const { return watts / tflops; }  // 1e12 of either cancel
};

// Medians over the rounds.
struct Measurement {
  double us = 0;  // of one launch
  double host_us =
      0;  // of the CPU in one call outside a graph: validation, tensor maps, launch; or NaN
  double tflops = 0, p10 = 0, p90 = 0;
  int rounds = 0;
  double ratio = 0;         // of TFLOPS to the first contestant's, paired by round
  double sm_mhz = 0;        // mean over the SMs and the timed region
  double tensor_share = 0;  // of Problem::tensor_flop()
  Check check;              // of every set's result after timing, as the timed graph writes it
};

// Contestants in order, the first is the baseline. All must have passed check(). Throws CudaError.
std::vector<Measurement> measure(Problem& problem, const std::vector<Contestant>& contestants,
                                 Regime regime, const Pace& pace = BENCH_PACE);

// What a contestant draws when nothing else runs. It must have passed check(). Throws CudaError,
// NoEnergy.
struct MeteredRun {
  Power power;
  Check check;  // of every set's result as the last launches left it
};
MeteredRun measure_power(Problem& problem, const Contestant& contestant, const EnergyMeter& meter);

// The fastest of cuBLASLt's candidates for a problem, found by burst measurement: every candidate
// for about 3 ms, those within 10 % of the fastest once more, then the best three by full rounds
// after shorter rests. Of these three it is the fastest whose result is within the tolerance, if one
// is. Nothing if cuBLASLt has no algorithm for the problem that runs.
std::optional<LibraryCandidate> choose_baseline(Problem& problem, CublasLt& cublas);

// What measurements of one process share: the latest problem, and the baseline of each.
class Workbench {
 public:
  Workbench(const DeviceInfo& device, Data data, uint64_t seed, const CallLimits& limits);
  const DeviceInfo& device() const { return device_; }
  // Frees the problem of another kind or shape.
  Problem& problem(const ProblemKind& kind, const Shape& shape);
  // Chosen on the first call for this kind and shape; null: there is none. It is for problem()'s
  // operands and gone with them.
  const LibraryCandidate* baseline(const ProblemKind& kind, const Shape& shape);
  const EnergyMeter* meter();  // opened on the first call; null: there is none

 private:
  DeviceInfo device_;
  Data data_;
  uint64_t seed_;
  CallLimits limits_;
  std::unique_ptr<CublasLt> cublas_;
  using Key = std::pair<const ProblemKind*, Shape>;
  Key key_;  // of problem_
  std::unique_ptr<Problem> problem_;
  std::optional<LibraryCandidate> baseline_;      // for problem_
  std::map<Key, std::string> chosen_algorithms_;  // "": there is none
  std::optional<EnergyMeter> meter_;
  bool meter_tried_ = false;
};

// Of the nvcc that compiled this, "13.0.88".
std::string toolkit_version();

}  // namespace ladder
