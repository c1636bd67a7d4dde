#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "common/host/stats.h"
#include "common/host/text.h"
#include "common/host/timing.h"

namespace ladder {
namespace timing {

constexpr double WARM_UP_MS = 1;
constexpr int MIN_LAUNCHES = 3;  // in a timed graph
constexpr int MAX_LAUNCHES = 4096;
constexpr double SCREENING_GRAPH_MS = 3;
constexpr double SCREENING_REST_MS = 20;
constexpr double SECOND_LOOK = 0.9;  // of the fastest; the clock differs less from pass to pass
constexpr size_t FINALISTS = 3;
constexpr Pace FINALS_PACE{5, 30, 12, 0, 0, 0, false};  // burst
constexpr double ENERGY_LEAD_IN_MS = 500;               // until the power limit has settled
constexpr double ENERGY_CHUNK_MS = 50;
constexpr int CHUNKS_AHEAD = 4;  // queued, so that the GPU never waits for the host
constexpr double REST_BEFORE_IDLE_MS = 1000;
constexpr int MAX_SMS = 512;         // %smid is below this
constexpr int STAMP_THREADS = 1024;  // so large that CTAs spread over the SMs, one each

void rest(double ms) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

struct Stamp {
  long long clock;  // of the SM
  long long ns;     // of the GPU; 0: this SM was not seen
};

// stamps [MAX_SMS], by SM: when this SM ran one of the CTAs, by its own clock and by the GPU's.
__global__ __launch_bounds__(STAMP_THREADS) void stamp_clocks(Stamp* stamps) {
  if (threadIdx.x != 0) return;
  unsigned sm;
  Stamp now;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now.clock)::"memory");
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now.ns)::"memory");
  if (sm < MAX_SMS) stamps[sm] = now;
}

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) const {
    check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  bool done() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status != cudaErrorNotReady) check_cuda(status, "cudaEventQuery");
    return status == cudaSuccess;
  }
  double ms_since(const Event& start) const {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, start.event_, event_), "cudaEventElapsedTime");
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// `launches` launches by a contestant, launch i on operand set i modulo the number of sets.
class Graph {
 public:
  Graph(const Problem& problem, const Contestant& contestant, int launches)
      : stream_(problem.stream()), launches_(launches) {
    cudaGraph_t graph = capture(problem, contestant);
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, "cudaGraphInstantiate");
    check_cuda(cudaGraphUpload(executable_, stream_), "cudaGraphUpload");
  }
  ~Graph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  int launches() const { return launches_; }

  void replay(int times = 1) const {
    for (int i = 0; i < times; ++i) {
      check_cuda(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch");
    }
  }

  // Replays once and waits.
  double timed_replay_ms() const {
    Event start, stop;
    start.record(stream_);
    replay();
    stop.record(stream_);
    check_cuda(cudaStreamSynchronize(stream_), "replay of the captured launches");
    return stop.ms_since(start);
  }

 private:
  cudaGraph_t capture(const Problem& problem, const Contestant& contestant) const {
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    try {
      for (int i = 0; i < launches_; ++i) contestant.launch(problem.call(i % problem.sets()));
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    check_cuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    return graph;
  }

  cudaStream_t stream_;
  int launches_;
  cudaGraphExec_t executable_ = nullptr;
};

// A contestant ready to be timed.
class Runner {
 public:
  Runner(const Problem& problem, const Contestant& contestant, double graph_ms)
      : warm_up_(problem, contestant, 2) {
    warm_up_.timed_replay_ms();  // loads the kernel and fills the instruction cache
    warm_up_ms_ = warm_up_.timed_replay_ms();

    // A graph of two short launches also times the start of the graph, so that the first size may
    // turn out too small; the second is sized by the first.
    double launch_ms = warm_up_ms_ / warm_up_.launches();
    for (int attempt = 0; attempt < 2 && replay_ms_ < 0.75 * graph_ms; ++attempt) {
      const int most = std::max(MAX_LAUNCHES, problem.sets());
      const int wanted = static_cast<int>(std::min<double>(std::ceil(graph_ms / launch_ms), most));
      timed_.reset();
      timed_ = std::make_unique<Graph>(problem, contestant,
                                       std::max({wanted, MIN_LAUNCHES, problem.sets()}));
      replay_ms_ = timed_->timed_replay_ms();
      launch_ms = replay_ms_ / timed_->launches();
    }
  }

  void warm_up() const { warm_up_.replay(times_for(WARM_UP_MS, warm_up_ms_)); }
  const Graph& timed() const { return *timed_; }
  int replays_for(double ms) const { return times_for(ms, replay_ms_); }

 private:
  static int times_for(double ms, double one_ms) {
    return std::max(1, static_cast<int>(std::lround(ms / one_ms)));
  }

  Graph warm_up_;
  std::unique_ptr<Graph> timed_;
  double warm_up_ms_ = 0, replay_ms_ = 0;
};

// One timed region.
struct Reading {
  double us, tflops, sm_mhz, tensor_share;
};

class Sample {
 public:
  Sample() : stamps_(2 * MAX_SMS * sizeof(Stamp)) {}

  void enqueue(const Problem& problem, const Graph& graph, int replays) {
    begin(problem);
    add(graph, replays);
    end(problem);
  }

  // The same in parts.
  void begin(const Problem& problem) {
    const cudaStream_t stream = problem.stream();
    launches_ = 0;
    check_cuda(cudaMemsetAsync(stamps_.data(), 0, stamps_.bytes(), stream), "cudaMemsetAsync");
    stamp(problem, stamps_.as<Stamp>());
    start_.record(stream);
  }
  void add(const Graph& graph, int replays) {
    launches_ += graph.launches() * replays;
    graph.replay(replays);
  }
  void end(const Problem& problem) {
    stop_.record(problem.stream());
    stamp(problem, stamps_.as<Stamp>() + MAX_SMS);
  }

  // After the stream has been waited for.
  Reading read(const Problem& problem) const {
    const double ms = stop_.ms_since(start_);
    const double flop = problem.shape().flop() * launches_;
    const double mhz = mean_mhz();
    const double cycles = mhz * 1e3 * ms;
    const double peak = problem.tensor_flop() * problem.device().sm_count * cycles;
    return {ms * 1e3 / launches_, flop / ms * 1e-9, mhz, flop / peak};
  }

 private:
  static void stamp(const Problem& problem, Stamp* stamps) {
    stamp_clocks<<<problem.device().sm_count, STAMP_THREADS, 0, problem.stream()>>>(stamps);
    check_cuda(cudaGetLastError(), "launch of stamp_clocks");
  }

  // Over the SMs that both stamps saw.
  double mean_mhz() const {
    std::vector<Stamp> stamps(2 * MAX_SMS);
    check_cuda(cudaMemcpy(stamps.data(), stamps_.data(), stamps_.bytes(), cudaMemcpyDeviceToHost),
               "cudaMemcpy");
    double sum = 0;
    int seen = 0;
    for (int sm = 0; sm < MAX_SMS; ++sm) {
      const Stamp& begin = stamps[sm];
      const Stamp& end = stamps[MAX_SMS + sm];
      if (begin.ns == 0 || end.ns <= begin.ns) continue;
      sum += 1e3 * static_cast<double>(end.clock - begin.clock) /
             static_cast<double>(end.ns - begin.ns);
      ++seen;
    }
    return sum / seen;  // NaN if none was seen twice: not measured
  }

  DeviceBuffer stamps_;  // Stamp [2][MAX_SMS]: before, after
  Event start_, stop_;
  int launches_ = 0;
};

// What one call costs the CPU: the median over rounds of a few calls that nothing waits for.
double host_us_per_call(const Problem& problem, const Contestant& contestant, double launch_us) {
  constexpr int ROUNDS = 5;
  constexpr int MOST_CALLS = 20;    // far fewer than a stream queues before it makes the CPU wait
  constexpr double MOST_US = 20e3;  // of the GPU in a round, which big products would take long for
  const int calls = static_cast<int>(std::clamp<double>(MOST_US / launch_us, 2, MOST_CALLS));
  std::vector<double> us;
  for (int round = 0; round < ROUNDS; ++round) {
    check_cuda(cudaStreamSynchronize(problem.stream()), "host cost");
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) contestant.launch(problem.call(i % problem.sets()));
    const auto stop = std::chrono::steady_clock::now();
    us.push_back(std::chrono::duration<double, std::micro>(stop - start).count() / calls);
  }
  check_cuda(cudaStreamSynchronize(problem.stream()), "host cost");
  return median(us);
}

using Runners = std::vector<std::unique_ptr<Runner>>;
using Readings = std::vector<std::vector<Reading>>;  // [contestant][round]

Runners make_runners(const Problem& problem, const std::vector<Contestant>& contestants,
                     const Pace& pace) {
  Runners runners;
  for (const Contestant& contestant : contestants) {
    runners.push_back(std::make_unique<Runner>(problem, contestant, pace.graph_ms));
  }
  return runners;
}

void wait(const Problem& problem) {
  check_cuda(cudaStreamSynchronize(problem.stream()), "timed launches");
}

Readings burst(const Problem& problem, const Runners& runners, const Pace& pace) {
  Readings readings(runners.size());
  for (int round = 0; round < pace.rounds; ++round) {
    for (const int i : order_of_round(static_cast<int>(runners.size()), round)) {
      Sample sample;
      rest(pace.rest_ms);
      runners[i]->warm_up();
      sample.enqueue(problem, runners[i]->timed(), 1);
      wait(problem);
      readings[i].push_back(sample.read(problem));
    }
  }
  return readings;
}

// Keeps the GPU at work for at least load_ms, all contestants in turns.
void load(const Problem& problem, const Runners& runners, const Pace& pace) {
  const auto start = std::chrono::steady_clock::now();
  const auto end = start + std::chrono::duration<double, std::milli>(pace.load_ms);
  while (std::chrono::steady_clock::now() < end) {
    for (const auto& runner : runners) {
      runner->timed().replay(runner->replays_for(pace.lead_in_ms));
      wait(problem);
    }
  }
}

Readings sustained(const Problem& problem, const Runners& runners, const Pace& pace) {
  Readings readings(runners.size());
  std::vector<Sample> samples(runners.size());
  load(problem, runners, pace);
  for (int round = 0; round < pace.rounds; ++round) {
    // A whole round is queued before it is waited for, so that the GPU never rests inside it.
    for (const int i : order_of_round(static_cast<int>(runners.size()), round)) {
      const Runner& runner = *runners[i];
      runner.timed().replay(runner.replays_for(pace.lead_in_ms));
      samples[i].enqueue(problem, runner.timed(), runner.replays_for(pace.slice_ms));
    }
    wait(problem);
    for (size_t i = 0; i < runners.size(); ++i) readings[i].push_back(samples[i].read(problem));
  }
  return readings;
}

// Keeps the GPU at work on one contestant for as long as keep_busy() is called often enough.
class Feeder {
 public:
  Feeder(const Problem& problem, const Runner& runner) : problem_(problem), runner_(runner) {}

  // Queues chunks until CHUNKS_AHEAD are not done, into the sample if there is one. Throws NoEnergy
  // if the GPU had run dry inside it.
  void keep_busy(Sample* sample) {
    int waiting = 0;
    for (int i = 0; i < CHUNKS_AHEAD; ++i) waiting += queued_[i] && !chunks_[i].done();
    if (sampled_ && waiting == 0) throw NoEnergy("The host was too slow to keep the GPU at work.");
    while (waiting < CHUNKS_AHEAD) {
      const int replays = runner_.replays_for(ENERGY_CHUNK_MS);
      if (sample != nullptr) {
        sample->add(runner_.timed(), replays);
      } else {
        runner_.timed().replay(replays);
      }
      chunks_[next_].record(problem_.stream());
      queued_[next_] = true;
      next_ = (next_ + 1) % CHUNKS_AHEAD;
      sampled_ = sample != nullptr;
      ++waiting;
    }
  }

 private:
  const Problem& problem_;
  const Runner& runner_;
  std::array<Event, CHUNKS_AHEAD> chunks_;  // recorded behind each chunk, in turns
  std::array<bool, CHUNKS_AHEAD> queued_{};
  int next_ = 0;
  bool sampled_ = false;
};

Power meter_power(const Problem& problem, const Runner& runner, const EnergyMeter& meter) {
  Feeder feeder(problem, runner);
  Sample sample;
  const double start_s = meter.counter.now_s();
  while (meter.counter.now_s() - start_s < ENERGY_LEAD_IN_MS * 1e-3) {
    feeder.keep_busy(nullptr);
    meter.counter.joules();  // a process's first reading under load can take the host long
    meter.counter.pause();
  }
  sample.begin(problem);
  EnergyCounter counter = meter.counter;
  counter.pause = [&] {
    feeder.keep_busy(&sample);
    meter.counter.pause();
  };
  // Launches of the lead-in are still queued when this begins, and of the timed region when it
  // ends: all are the same, and so is their power.
  const double watts = mean_watts(counter, window_s(meter.refresh_s));
  sample.end(problem);
  wait(problem);
  const Reading reading = sample.read(problem);
  return {watts, reading.tflops, reading.sm_mhz};
}

std::vector<double> column(const std::vector<Reading>& readings, double Reading::*field) {
  std::vector<double> values;
  for (const Reading& reading : readings) values.push_back(reading.*field);
  return values;
}

Measurement summarize(const std::vector<Reading>& readings, const std::vector<Reading>& baseline) {
  const std::vector<double> tflops = column(readings, &Reading::tflops);
  Measurement measurement;
  measurement.us = median(column(readings, &Reading::us));
  measurement.tflops = median(tflops);
  measurement.p10 = quantile(tflops, 0.1);
  measurement.p90 = quantile(tflops, 0.9);
  measurement.rounds = static_cast<int>(readings.size());
  measurement.ratio = paired_ratio(tflops, column(baseline, &Reading::tflops));
  measurement.sm_mhz = median(column(readings, &Reading::sm_mhz));
  measurement.tensor_share = median(column(readings, &Reading::tensor_share));
  return measurement;
}

Check check_after(Problem& problem, const std::string& name, const std::function<void()>& work) {
  Check check;
  try {
    problem.poison_outputs();
    work();
    check_cuda(cudaStreamSynchronize(problem.stream()), "its launches");
    check.verdict = problem.verify();
    const long long left = problem.restore_counters();
    if (!check.verdict.ok()) {
      check.failure = check.verdict.describe();
    } else if (left > 0) {
      check.failure = format("leaves %lld bytes of the workspace's counters that are not 0", left);
    }
  } catch (const CudaError& error) {
    cudaGetLastError();  // forgets an error that spoils nothing else
    if (cudaStreamSynchronize(problem.stream()) != cudaSuccess) {
      throw ContextLost(name + ": " + error.what());
    }
    check.failure = error.what();
  }
  return check;
}

// A candidate of cuBLASLt on its way to being the baseline.
struct Candidate {
  LibraryCandidate library;
  std::unique_ptr<Runner> runner;
  double tflops = 0;  // the better of its passes
};

std::vector<Candidate> runnable_candidates(Problem& problem, CublasLt& cublas) {
  std::vector<Candidate> candidates;
  for (const LibraryCandidate& library : problem.candidates(cublas)) {
    Candidate candidate{library, nullptr};
    try {
      library.contestant.launch(problem.call(0));  // loads it outside a capture
      check_cuda(cudaStreamSynchronize(problem.stream()), library.algorithm.c_str());
      candidate.runner = std::make_unique<Runner>(problem, library.contestant, SCREENING_GRAPH_MS);
    } catch (const CudaError&) {
      cudaGetLastError();
      continue;  // the heuristics offer what does not always run
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace timing

using namespace timing;

Check check(Problem& problem, const Contestant& contestant) {
  return check_after(problem, contestant.name, [&] {
    for (int set = 0; set < problem.sets(); ++set) contestant.launch(problem.call(set));
  });
}

std::vector<Measurement> measure(Problem& problem, const std::vector<Contestant>& contestants,
                                 Regime regime, const Pace& pace) {
  const Runners runners = make_runners(problem, contestants, pace);
  const Readings readings =
      regime == Regime::burst ? burst(problem, runners, pace) : sustained(problem, runners, pace);
  std::vector<Measurement> measurements;
  for (size_t i = 0; i < contestants.size(); ++i) {
    measurements.push_back(summarize(readings[i], readings[0]));
    measurements.back().host_us =
        pace.host_cost ? host_us_per_call(problem, contestants[i], measurements.back().us)
                       : std::nan("");
    measurements.back().check =
        check_after(problem, contestants[i].name, [&] { runners[i]->timed().replay(); });
  }
  return measurements;
}

MeteredRun measure_power(Problem& problem, const Contestant& contestant, const EnergyMeter& meter) {
  const Runner runner(problem, contestant, BENCH_PACE.graph_ms);
  MeteredRun run{};
  run.power = meter_power(problem, runner, meter);
  run.check = check_after(problem, contestant.name, [&] { runner.timed().replay(); });
  return run;
}

EnergyMeter::EnergyMeter(const DeviceInfo& device) {
  char bus_id[32];
  check_cuda(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device.ordinal), "cudaDeviceGetPCIBusId");
  counter = board_energy(bus_id);
  limit_watts = power_limit_watts(bus_id);
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  rest(REST_BEFORE_IDLE_MS);
  refresh_s = ladder::refresh_s(counter);
  idle_watts = mean_watts(counter, window_s(refresh_s));
}

std::optional<LibraryCandidate> choose_baseline(Problem& problem, CublasLt& cublas) {
  std::vector<Candidate> candidates = runnable_candidates(problem, cublas);
  if (candidates.empty()) return std::nullopt;
  Sample sample;
  const auto look = [&](Candidate& candidate) {
    rest(SCREENING_REST_MS);
    candidate.runner->warm_up();
    sample.enqueue(problem, candidate.runner->timed(), 1);
    wait(problem);
    candidate.tflops = std::max(candidate.tflops, sample.read(problem).tflops);
  };
  const auto fastest_first = [&candidates] {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& x, const Candidate& y) { return x.tflops > y.tflops; });
  };
  for (Candidate& candidate : candidates) look(candidate);
  fastest_first();
  const double worth_a_look = SECOND_LOOK * candidates.front().tflops;
  std::erase_if(candidates,
                [&](const Candidate& candidate) { return candidate.tflops < worth_a_look; });
  // The other way round, as rounds are, so that the fastest is not again on the cooler chip.
  for (size_t i = candidates.size(); i-- > 0;) look(candidates[i]);
  fastest_first();
  candidates.resize(std::min(candidates.size(), FINALISTS));

  std::vector<Contestant> finalists;
  for (const Candidate& candidate : candidates) finalists.push_back(candidate.library.contestant);
  const Readings readings =
      burst(problem, make_runners(problem, finalists, FINALS_PACE), FINALS_PACE);
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].tflops = median(column(readings[i], &Reading::tflops));
  }
  fastest_first();
  // One that is outside of the tolerance is no way to the same result.
  for (const Candidate& candidate : candidates) {
    const LibraryCandidate& library = candidate.library;
    if (!library.writes_d || check(problem, library.contestant).ok()) return library;
  }
  return candidates.front().library;
}

Workbench::Workbench(const DeviceInfo& device, Data data, uint64_t seed, const CallLimits& limits)
    : device_(device), data_(data), seed_(seed), limits_(limits) {}

Problem& Workbench::problem(const ProblemKind& kind, const Shape& shape) {
  const Key key{&kind, shape};
  if (problem_ == nullptr || key_ != key) {
    baseline_.reset();
    problem_.reset();
    problem_ = kind.problem(shape, data_, seed_, device_);
    problem_->limit(limits_);
    key_ = key;
  }
  return *problem_;
}

const LibraryCandidate* Workbench::baseline(const ProblemKind& kind, const Shape& shape) {
  Problem& its = problem(kind, shape);
  if (cublas_ == nullptr) cublas_ = std::make_unique<CublasLt>();
  const auto chosen = chosen_algorithms_.find(key_);
  const bool is_chosen = chosen != chosen_algorithms_.end();
  if (is_chosen && !baseline_ && !chosen->second.empty()) {
    for (const LibraryCandidate& candidate : its.candidates(*cublas_)) {
      if (candidate.algorithm == chosen->second) baseline_ = candidate;
    }
    if (!baseline_)
      throw std::runtime_error("cuBLASLt does not offer " + chosen->second + " any more.");
  }
  if (!is_chosen) {
    baseline_ = choose_baseline(its, *cublas_);
    chosen_algorithms_[key_] = baseline_ ? baseline_->algorithm : "";
  }
  return baseline_ ? &*baseline_ : nullptr;
}

const EnergyMeter* Workbench::meter() {
  if (!meter_tried_) {
    meter_tried_ = true;
    try {
      meter_.emplace(device_);
    } catch (const NoEnergy& why) {
      std::fprintf(stderr, "No watts and no joules: %s\n", why.what());
    }
  }
  return meter_ ? &*meter_ : nullptr;
}

std::string toolkit_version() {
  return format("%d.%d.%d", __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__, __CUDACC_VER_BUILD__);
}

}  // namespace ladder
