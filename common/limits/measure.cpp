#include "common/limits/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "common/host/error.h"
#include "common/host/stats.h"
#include "common/host/text.h"
#include "common/host/verify.h"
#include "common/limits/operand.h"

namespace limits {
namespace {

using ladder::check_cuda;

constexpr int CHECKED_PASSES = 29;  // more than any ring has slots, and no multiple of one
constexpr int FIRST_PASSES = 200;   // to tell how long one takes
constexpr double LAUNCH_MS = 12;
constexpr double WARM_UP_MS = 1;
constexpr double REST_MS = 100;   // before each burst
constexpr double LOAD_MS = 1000;  // before the first sustained round
constexpr double SLICE_MS = 200;  // of a sustained round
constexpr int ROUNDS = 5;

// Room for the stamps of several launches.
class Stamps {
 public:
  Stamps(const Limit& limit, int launches)
      : per_launch_(2 * static_cast<size_t>(limit.ctas())),
        buffer_(launches * per_launch_ * sizeof(Stamp)) {}
  Stamp* of_launch(int i) const {
    return buffer_.as<Stamp>() + static_cast<size_t>(i) * per_launch_;
  }
  size_t per_launch() const { return per_launch_; }

 private:
  size_t per_launch_;  // begin and end of each CTA
  ladder::DeviceBuffer buffer_;
};

void wait(cudaStream_t stream) {
  check_cuda(cudaStreamSynchronize(stream), "the kernel of a limit");
}

// One timed region: launches that followed each other.
struct Reading {
  double seconds = 0;  // the launches', without what lies between them
  double mhz = 0;      // mean over SMs and launches
  double busy = 0;     // of the launch, by the mean CTA
};

Reading read(const Stamps& stamps, int first, int launches, cudaStream_t stream) {
  Reading reading;
  for (int i = first; i < first + launches; ++i) {
    const auto of_ctas = download<Stamp>(stamps.of_launch(i), stamps.per_launch(), stream);
    long long begin = of_ctas[0].ns, end = of_ctas[1].ns;
    double mhz = 0, worked = 0;
    for (size_t cta = 0; cta < of_ctas.size(); cta += 2) {
      const Stamp &before = of_ctas[cta], &after = of_ctas[cta + 1];
      begin = std::min(begin, before.ns);
      end = std::max(end, after.ns);
      mhz += 1e3 * static_cast<double>(after.clock - before.clock) /
             static_cast<double>(after.ns - before.ns);
      worked += static_cast<double>(after.ns - before.ns);
    }
    const double ctas = static_cast<double>(of_ctas.size() / 2);
    reading.seconds += static_cast<double>(end - begin) * 1e-9;
    reading.mhz += mhz / ctas / launches;
    reading.busy += worked / ctas / static_cast<double>(end - begin) / launches;
  }
  return reading;
}

// How many passes take about `ms`, by a launch of FIRST_PASSES and one sized by it.
int passes_for(Limit& limit, const Stamps& stamps, double ms, cudaStream_t stream) {
  double passes = FIRST_PASSES;
  for (int attempt = 0; attempt < 3; ++attempt) {  // the first loads the kernel
    limit.launch(static_cast<int>(passes), stamps.of_launch(0), stream);
    wait(stream);
    const double took_ms = 1e3 * read(stamps, 0, 1, stream).seconds;
    if (!(took_ms > 0)) throw ladder::CudaError("the GPU's clock stands still");
    if (attempt > 0) passes = std::max(1.0, std::round(passes * ms / took_ms));
  }
  return static_cast<int>(passes);
}

std::vector<Reading> burst(Limit& limit, int passes, cudaStream_t stream) {
  const Stamps stamps(limit, 1);
  const int warm_up = std::max(1, static_cast<int>(passes * WARM_UP_MS / LAUNCH_MS));
  std::vector<Reading> readings;
  for (int round = 0; round < ROUNDS; ++round) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(REST_MS));
    limit.launch(warm_up, stamps.of_launch(0), stream);
    limit.launch(passes, stamps.of_launch(0), stream);
    wait(stream);
    readings.push_back(read(stamps, 0, 1, stream));
  }
  return readings;
}

// All launches are queued before the first of them ends: the GPU never rests.
std::vector<Reading> sustained(Limit& limit, int passes, cudaStream_t stream) {
  constexpr int LOAD = static_cast<int>(LOAD_MS / LAUNCH_MS) + 1;
  constexpr int SLICE = static_cast<int>(SLICE_MS / LAUNCH_MS) + 1;
  const Stamps stamps(limit, ROUNDS * SLICE);
  for (int i = 0; i < LOAD; ++i) limit.launch(passes, stamps.of_launch(0), stream);
  for (int i = 0; i < ROUNDS * SLICE; ++i) limit.launch(passes, stamps.of_launch(i), stream);
  wait(stream);
  std::vector<Reading> readings;
  for (int round = 0; round < ROUNDS; ++round) {
    readings.push_back(read(stamps, round * SLICE, SLICE, stream));
    readings.back().seconds /= SLICE;
  }
  return readings;
}

Measurement summarize(const Limit& limit, int passes, const std::vector<Reading>& readings) {
  const double work = limit.work(passes);
  std::vector<double> rates, per_clock, mhz, busy;
  for (const Reading& reading : readings) {
    rates.push_back(work / reading.seconds);
    per_clock.push_back(rates.back() / (limit.ctas() * reading.mhz * 1e6));
    mhz.push_back(reading.mhz);
    busy.push_back(reading.busy);
  }
  return {.rate = ladder::median(rates),
          .p10 = ladder::quantile(rates, 0.1),
          .p90 = ladder::quantile(rates, 0.9),
          .per_clock = ladder::median(per_clock),
          .sm_mhz = ladder::median(mhz),
          .busy = ladder::median(busy),
          .rounds = static_cast<int>(rates.size())};
}

std::string check(Limit& limit, int passes, cudaStream_t stream) {
  const Stamps stamps(limit, 1);
  const std::string wrong = limit.check(passes, stamps.of_launch(0), stream);
  return wrong.empty() ? "" : ladder::format("with %d passes: ", passes) + wrong;
}

}  // namespace

std::string check_only(Limit& limit, cudaStream_t stream) {
  return check(limit, CHECKED_PASSES, stream);
}

Outcome measure(Limit& limit, ladder::Regime regime, cudaStream_t stream) {
  Outcome outcome;
  outcome.failure = check_only(limit, stream);
  if (!outcome.failure.empty()) return outcome;
  const int passes = passes_for(limit, Stamps(limit, 1), LAUNCH_MS, stream);
  const auto readings = regime == ladder::Regime::burst ? burst(limit, passes, stream)
                                                        : sustained(limit, passes, stream);
  outcome.measurement = summarize(limit, passes, readings);
  outcome.failure = check(limit, passes, stream);
  return outcome;
}

}  // namespace limits
