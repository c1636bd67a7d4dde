#include "common/host/energy.h"

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/host/bench.h"
#include "common/host/run.h"
#include "common/host/symbols.h"
#include "common/host/text.h"
#include "common/host/watchdog.h"
#include "common/host/where.h"

namespace ladder {
namespace {

void print_line(const JsonObject& object) {
  std::printf("%s\n", object.line().c_str());
  std::fflush(stdout);
}

EnergyMeter open_meter(const DeviceInfo& device) {
  try {
    return EnergyMeter(device);
  } catch (const NoEnergy& why) {
    throw NoDevice("--energy-rows needs a board whose driver counts joules. " +
                   std::string(why.what()));
  }
}

JsonObject environment_line(const DeviceInfo& device, const Options& options,
                            const EnergyMeter& meter) {
  const Environment environment = query_environment(device);
  JsonObject env;
  env.add("gpu", environment.gpu)
      .add("driver", environment.driver)
      .add("toolkit", environment.toolkit)
      .add("sms", device.sm_count)
      .add("seed", static_cast<long long>(options.seed))
      .add("max_mhz", environment.max_mhz)
      .add("power_limit_watts", meter.limit_watts)
      .add("refresh_ms", meter.refresh_s * 1e3)
      .add("idle_watts", meter.idle_watts);
  return JsonObject().add("env", env);
}

// The operands of one kind and shape, for each distribution that was asked for.
class Problems {
 public:
  Problems(const DeviceInfo& device, uint64_t seed) : device_(device), seed_(seed) {}

  Problem& of(const ProblemKind& kind, const Shape& shape, Data data) {
    if (&kind != kind_ || shape != shape_) problems_.clear();
    kind_ = &kind;
    shape_ = shape;
    std::unique_ptr<Problem>& problem = problems_[data];
    if (problem == nullptr) problem = kind.problem(shape, data, seed_, device_);
    return *problem;
  }

 private:
  DeviceInfo device_;
  uint64_t seed_;
  const ProblemKind* kind_ = nullptr;
  Shape shape_;
  std::map<Data, std::unique_ptr<Problem>> problems_;
};

struct Metered {
  std::optional<Power> power;
  std::string failure;  // why there is none
};

Metered meter_row(Problems& problems, const EnergyRow& row, const EnergyMeter& meter) {
  const Watchdog watchdog(describe(*row.stage, *row.variant, row.shape));
  const Contestant contestant{describe(*row.stage, *row.variant, row.shape),
                              [&row](const Call& call) { run(*row.variant, call); }};
  try {
    Problem& problem = problems.of(row.stage->kind(), row.shape, row.data);
    problem.limit({row.grid});
    const Check before = check(problem, contestant);
    if (!before.ok()) return {std::nullopt, before.failure};
    const MeteredRun after = measure_power(problem, contestant, meter);
    if (!after.check.ok()) return {std::nullopt, after.check.failure};
    return {after.power, ""};
  } catch (const NoEnergy& why) {
    return {std::nullopt, why.what()};
  } catch (const Refused& why) {
    return {std::nullopt, why.what()};
  }
}

JsonObject result_line(const EnergyRow& row, const Metered& metered) {
  const CallLimits limits = {row.grid};
  const Variant& runs = chosen_for(*row.variant, row.shape, limits);
  JsonObject line;
  line.add("row", row.text).add("kernel", kernel_name(runs.kernel.function));
  if (!metered.power) return line.add("error", metered.failure);
  return line.add("watts", metered.power->watts)
      .add("tflops", metered.power->tflops)
      .add("sm_mhz", metered.power->sm_mhz);
}

}  // namespace

int run_energy_rows(const Options& options, std::istream& input) {
  std::vector<EnergyRow> ahead;
  std::string text;
  while (std::getline(input, text) && !text.empty()) {
    ahead.push_back(parse_energy_row(text, stages()));
  }
  if (machine_is_wanted()) {
    throw NoDevice(
        "--energy-rows measures, and the PTX machine says nothing about power; it needs a GPU of "
        "compute capability 9.0.");
  }
  const DeviceInfo device = query_device();
  const EnergyMeter meter = open_meter(device);
  print_line(environment_line(device, options, meter));
  Problems problems(device, options.seed);
  bool right = true;
  const auto answer = [&](const EnergyRow& row) {
    const Metered metered = meter_row(problems, row, meter);
    print_line(result_line(row, metered));
    right = right && metered.power.has_value();
  };
  for (const EnergyRow& row : ahead) answer(row);
  while (std::getline(input, text)) answer(parse_energy_row(text, stages()));
  return right ? 0 : 1;
}

}  // namespace ladder
