#include "common/host/bench.h"

#include <cstdio>
#include <fstream>
#include <limits>

#include "common/host/symbols.h"
#include "common/host/text.h"
#include "common/host/watchdog.h"
#include "common/host/where.h"

namespace ladder {
namespace {

// The kernel module's file says e.g. "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07
// ...".
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    const bool dotted = word.find('.') != std::string::npos;
    if (dotted && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  int version = 0;
  check_cuda(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  return format("CUDA %d.%d", version / 1000, version % 1000 / 10);
}

void print_line(const JsonObject& object) {
  std::printf("%s\n", object.line().c_str());
  std::fflush(stdout);
}

JsonObject environment_line(const DeviceInfo& device, const Options& options) {
  const Environment environment = query_environment(device);
  JsonObject env;
  env.add("gpu", environment.gpu)
      .add("driver", environment.driver)
      .add("toolkit", environment.toolkit)
      .add("cublas", environment.cublas)
      .add("sms", device.sm_count)
      .add("l2_bytes", device.l2_bytes)
      .add("data", to_string(options.data))
      .add("seed", static_cast<long long>(options.seed));
  return JsonObject().add("env", env);
}

JsonObject result_line(const BenchRow& row, const GroupOutcome& group, const Outcome& outcome) {
  constexpr double NOT_MEASURED = std::numeric_limits<double>::quiet_NaN();
  const KernelUse use = query_kernel(*row.variant);
  const bool timed = outcome.time.has_value();
  const auto value = [&](double Measurement::*field) {
    return timed ? *outcome.time.*field : NOT_MEASURED;
  };
  JsonObject line;
  line.add("stage", row.stage->number)
      .add("name", row.stage->stem)
      .add("variant", row.variant->name)
      .add("result", row.variant->result)
      .add("m", row.shape.m)
      .add("n", row.shape.n)
      .add("k", row.shape.k)
      .add("regime", to_string(row.regime))
      .add("tflops", value(&Measurement::tflops))
      .add("p10", value(&Measurement::p10))
      .add("p90", value(&Measurement::p90))
      .add("rounds", timed ? outcome.time->rounds : 0)
      .add("baseline_tflops", group.baseline.time->tflops)
      .add("baseline_algo", group.algorithm)
      .add("baseline_verified", group.baseline.check.ok())
      .add("baseline_sm_mhz", group.baseline.time->sm_mhz)
      .add("baseline_tensor_share", group.baseline.time->tensor_share)
      .add("ratio", value(&Measurement::ratio))
      .add("sm_mhz", value(&Measurement::sm_mhz))
      .add("tensor_share", value(&Measurement::tensor_share))
      .add("host_us", value(&Measurement::host_us))
      .add_null("watts")
      .add_null("pj_per_flop")
      .add("registers", use.registers)
      .add("smem_bytes", use.smem_bytes)
      .add("verified", outcome.check.ok())
      .add("kernel", kernel_name(row.variant->kernel));
  if (!outcome.check.ok()) line.add("error", outcome.check.failure);
  return line;
}

std::vector<std::string> read_lines(std::istream& input) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(input, line);) lines.push_back(line);
  return lines;
}

// Returns whether every row is right.
bool run_group(Workbench& workbench, const std::vector<BenchRow>& rows) {
  std::vector<const Variant*> variants;
  for (const BenchRow& row : rows) variants.push_back(row.variant);
  const auto announce = [&rows](const std::vector<size_t>& running) {
    std::vector<std::string> texts;
    for (const size_t i : running) texts.push_back(rows[i].text());
    print_line(JsonObject().add("running", texts));
  };
  const BenchRow& first = rows.front();
  const GroupOutcome group =
      measure_group(workbench, *first.stage, variants, first.shape, first.regime, announce);
  bool right = true;
  for (size_t i = 0; i < rows.size(); ++i) {
    print_line(result_line(rows[i], group, group.variants[i]));
    right = right && group.variants[i].check.ok();
  }
  return right;
}

}  // namespace

Environment query_environment(const DeviceInfo& device) {
  int khz = 0;
  check_cuda(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device.ordinal),
             "cudaDeviceGetAttribute");
  return {device.name, driver_version(), toolkit_version(), CublasLt::version(), khz / 1000};
}

std::string registers_text(const Variant& variant, int registers) {
  const std::string at_launch = std::to_string(registers);
  if (variant.regs_dec == 0) return at_launch;
  return at_launch + " -> " + std::to_string(variant.regs_dec) + "/" +
         std::to_string(variant.regs_inc);
}

KernelUse query_kernel(const Variant& variant) {
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, variant.kernel), "cudaFuncGetAttributes");
  return {registers_text(variant, attributes.numRegs),
          variant.smem_bytes + static_cast<int>(attributes.sharedSizeBytes)};
}

std::string describe(const Stage& stage, const Variant& variant, const Shape& shape) {
  return format("rung %d %s %s at %s", stage.number, stage.stem.c_str(), variant.name,
                to_string(shape).c_str());
}

GroupOutcome measure_group(Workbench& workbench, const Stage& stage,
                           const std::vector<const Variant*>& variants, const Shape& shape,
                           Regime regime, const Announce& announce) {
  GroupOutcome group;
  std::vector<Contestant> contestants;  // those that are right; cuBLASLt first, right or not
  {
    announce({});
    const Watchdog watchdog("cuBLASLt at " + to_string(shape));
    const Baseline& baseline = workbench.baseline(shape);
    group.algorithm = baseline.algorithm;
    group.baseline.check = check(workbench.problem(shape), baseline.contestant);
    group.baseline.share_equal_to_cublas = 1;
    workbench.problem(shape).keep_output();
    contestants.push_back(baseline.contestant);
  }
  Problem& problem = workbench.problem(shape);
  std::vector<size_t> right;
  for (size_t i = 0; i < variants.size(); ++i) {
    announce({i});
    const Variant& variant = *variants[i];
    const Watchdog watchdog(describe(stage, variant, shape));
    const Contestant contestant{describe(stage, variant, shape),
                                [&variant](const GemmArgs& args) { run(variant, args); }};
    Outcome outcome;
    outcome.check = check(problem, contestant);
    if (outcome.check.ok()) {
      outcome.share_equal_to_cublas = problem.share_equal_to_kept();
      right.push_back(i);
      contestants.push_back(contestant);
    }
    group.variants.push_back(outcome);
  }

  announce(right);
  const Watchdog watchdog(describe(stage, *variants.front(), shape) + " and its other variants");
  const std::vector<Measurement> times = measure(problem, contestants, regime);
  group.baseline.time = times.front();
  if (group.baseline.check.ok()) group.baseline.check = times.front().check;
  for (size_t i = 0; i < right.size(); ++i) {
    Outcome& outcome = group.variants[right[i]];
    outcome.check = times[i + 1].check;
    if (outcome.check.ok()) outcome.time = times[i + 1];
  }
  if (!group.baseline.check.ok()) {
    std::fprintf(stderr, "WARNING: cuBLASLt itself is wrong at %s with %s: %s\n",
                 to_string(shape).c_str(), group.algorithm.c_str(),
                 group.baseline.check.failure.c_str());
  }
  return group;
}

int run_bench_rows(const Options& options, std::istream& input) {
  const std::vector<std::vector<BenchRow>> groups = parse_bench_rows(read_lines(input), stages());
  if (machine_is_wanted()) {
    throw NoDevice(
        "--bench-rows measures, and the PTX machine says nothing about time; it needs a GPU of "
        "compute capability 9.0.");
  }
  const DeviceInfo device = query_device();
  print_line(environment_line(device, options));
  Workbench workbench(device, options.data, options.seed, options.grid);
  bool right = true;
  for (const std::vector<BenchRow>& rows : groups) right = run_group(workbench, rows) && right;
  return right ? 0 : 1;
}

}  // namespace ladder
