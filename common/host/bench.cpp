#include "common/host/bench.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>

#include "common/host/best.h"
#include "common/host/run.h"
#include "common/host/symbols.h"
#include "common/host/text.h"
#include "common/host/watchdog.h"
#include "common/host/where.h"

namespace ladder {
namespace {

constexpr double NOT_MEASURED = std::numeric_limits<double>::quiet_NaN();

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

// A call that is judged by its sizes and never run.
std::shared_ptr<const Call> call_to_judge(const ProblemKind& kind, const Shape& shape,
                                          const CallLimits& limits) {
  static char some_workspace;
  const std::shared_ptr<Call> call = kind.sizes_of(shape);
  call->max_ctas = limits.max_ctas;
  call->workspace = limits.workspace ? &some_workspace : nullptr;
  return call;
}

// What a chooser made of the row, and null of any other variant.
void add_configuration(JsonObject& line, const BenchRow& row, const Variant& runs) {
  if (!row.variant->chooses()) {
    line.add_null("configuration");
  } else {
    line.add("configuration", configuration_name(*row.stage, runs));
  }
}

JsonObject result_line(const BenchRow& row, const CallLimits& limits, const GroupOutcome& group,
                       const Outcome& outcome) {
  const Variant& runs = chosen_for(*row.variant, row.shape, limits);
  const KernelUse use = query_kernel(runs.kernel);
  const bool timed = outcome.time.has_value();
  const auto value = [&](double Measurement::*field) {
    return timed ? *outcome.time.*field : NOT_MEASURED;
  };
  const auto of_baseline = [&group](double Measurement::*field) {
    return group.baseline.time ? *group.baseline.time.*field : NOT_MEASURED;
  };
  const auto watts = [](const Outcome& of) { return of.power ? of.power->watts : NOT_MEASURED; };
  const auto pj_per_flop = [](const Outcome& of) {
    return of.power ? of.power->pj_per_flop() : NOT_MEASURED;
  };
  JsonObject line;
  line.add("stage", row.stage->number)
      .add("name", row.stage->stem)
      .add("problem", row.stage->kind().name())
      .add("variant", row.variant->name)
      .add("result", row.variant->result);
  add_configuration(line, row, runs);
  line.add("args", parameters_text(row.stage->kind(), row.shape, false))
      .add("m", row.shape.m)
      .add("n", row.shape.n)
      .add("k", row.shape.k)
      .add("regime", to_string(row.regime))
      .add("tflops", value(&Measurement::tflops))
      .add("p10", value(&Measurement::p10))
      .add("p90", value(&Measurement::p90))
      .add("rounds", timed ? outcome.time->rounds : 0)
      .add("baseline_tflops", of_baseline(&Measurement::tflops))
      .add("baseline_algo", group.algorithm)
      .add("baseline_verified", group.baseline.time && group.baseline.check.ok())
      .add("baseline_sm_mhz", of_baseline(&Measurement::sm_mhz))
      .add("baseline_tensor_share", of_baseline(&Measurement::tensor_share))
      .add("ratio", value(&Measurement::ratio))
      .add("sm_mhz", value(&Measurement::sm_mhz))
      .add("tensor_share", value(&Measurement::tensor_share))
      .add("host_us", value(&Measurement::host_us))
      .add("watts", watts(outcome))
      .add("pj_per_flop", pj_per_flop(outcome))
      .add("baseline_watts", watts(group.baseline))
      .add("baseline_pj_per_flop", pj_per_flop(group.baseline))
      .add("idle_watts", group.idle_watts)
      .add("registers", use.registers)
      .add("smem_bytes", use.smem_bytes)
      .add("verified", outcome.check.ok())
      .add("kernel", kernel_name(runs.kernel.function));
  if (!outcome.check.ok()) line.add("error", outcome.check.failure);
  return line;
}

JsonObject sweep_line(const BenchRow& row, const CallLimits& limits, const Outcome& outcome) {
  const Variant& runs = chosen_for(*row.variant, row.shape, limits);
  const auto value = [&](double Measurement::*field) {
    return outcome.time ? *outcome.time.*field : NOT_MEASURED;
  };
  JsonObject line;
  line.add("stage", row.stage->number).add("variant", row.variant->name);
  add_configuration(line, row, runs);
  line.add("m", row.shape.m)
      .add("n", row.shape.n)
      .add("k", row.shape.k)
      .add("regime", to_string(row.regime))
      .add("us", value(&Measurement::us))
      .add("tflops", value(&Measurement::tflops))
      .add("sm_mhz", value(&Measurement::sm_mhz))
      .add("verified", outcome.check.ok())
      .add("kernel", kernel_name(runs.kernel.function));
  if (!outcome.check.ok()) line.add("error", outcome.check.failure);
  return line;
}

std::vector<std::string> read_lines(std::istream& input) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(input, line);) lines.push_back(line);
  return lines;
}

std::vector<const Variant*> variants_of(const std::vector<BenchRow>& rows) {
  std::vector<const Variant*> variants;
  for (const BenchRow& row : rows) variants.push_back(row.variant);
  return variants;
}

Announce announcer(const std::vector<BenchRow>& rows) {
  return [&rows](const std::vector<size_t>& running) {
    std::vector<std::string> texts;
    for (const size_t i : running) texts.push_back(rows[i].text());
    print_line(JsonObject().add("running", texts));
  };
}

bool bench_rows(Workbench& workbench, const Options& options, const std::vector<BenchRow>& rows) {
  const BenchRow& first = rows.front();
  const GroupOutcome group = measure_group(workbench, *first.stage, variants_of(rows), first.shape,
                                           first.regime, announcer(rows));
  bool right = true;
  for (size_t i = 0; i < rows.size(); ++i) {
    print_line(result_line(rows[i], options.limits(), group, group.variants[i]));
    right = right && group.variants[i].check.ok();
  }
  return right;
}

// Prints the results of one group; returns whether every one is right.
using GroupRunner = bool(Workbench&, const Options&, const std::vector<BenchRow>&);

int run_rows(const Options& options, std::istream& input, Together together, GroupRunner* run) {
  const std::vector<std::vector<BenchRow>> groups =
      parse_bench_rows(read_lines(input), all_stages(), together);
  if (machine_is_wanted()) {
    throw NoDevice(
        "--bench-rows and --sweep-rows measure, and the PTX machine says nothing about time; they "
        "need a GPU of compute capability 9.0.");
  }
  const DeviceInfo device = query_device();
  print_line(environment_line(device, options));
  Workbench workbench(device, options.data, options.seed, options.limits());
  bool right = true;
  for (const std::vector<BenchRow>& rows : groups) {
    right = run(workbench, options, rows) && right;
  }
  return right ? 0 : 1;
}

// Variants that take part in a measurement, and what came of each.
struct Field {
  std::vector<Outcome> outcomes;  // of each variant
  std::vector<Contestant> contestants;
  std::vector<size_t> right;  // which variants the last contestants are
};

// Checks every variant; those that are right become contestants. `names` are for messages.
void admit(Problem& problem, const std::vector<const Variant*>& variants,
           const std::vector<std::string>& names, const Announce& announce, bool beside_kept,
           Field* field) {
  for (size_t i = 0; i < variants.size(); ++i) {
    announce({i});
    const Variant& variant = *variants[i];
    const std::string& name = names[i];
    const Watchdog watchdog(name);
    const Contestant contestant{name, [&variant](const Call& call) { run(variant, call); }};
    Outcome outcome;
    outcome.check = check(problem, contestant);
    if (outcome.check.ok()) {
      if (beside_kept) outcome.share_equal_to_cublas = problem.share_equal_to_kept();
      field->right.push_back(i);
      field->contestants.push_back(contestant);
    }
    field->outcomes.push_back(outcome);
  }
}

// Gives each right variant its time, or what was wrong in the end.
void settle(const std::vector<Measurement>& times, Field* field) {
  const size_t before = times.size() - field->right.size();  // contestants that are no variants
  for (size_t i = 0; i < field->right.size(); ++i) {
    Outcome& outcome = field->outcomes[field->right[i]];
    outcome.check = times[before + i].check;
    if (outcome.check.ok()) outcome.time = times[before + i];
  }
}

bool sweep_rows(Workbench& workbench, const Options& options, const std::vector<BenchRow>& rows) {
  const BenchRow& first = rows.front();
  const Announce announce = announcer(rows);
  announce({});
  Problem& problem = workbench.problem(first.stage->kind(), first.shape);
  std::vector<std::string> names;
  for (const BenchRow& row : rows) names.push_back(describe(*row.stage, *row.variant, row.shape));
  Field field;
  admit(problem, variants_of(rows), names, announce, false, &field);
  if (!field.right.empty()) {
    announce(field.right);
    const Watchdog watchdog(names.front() + " and others");
    settle(measure(problem, field.contestants, first.regime, SWEEP_PACE), &field);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    print_line(sweep_line(rows[i], options.limits(), field.outcomes[i]));
  }
  return std::all_of(field.outcomes.begin(), field.outcomes.end(),
                     [](const Outcome& outcome) { return outcome.check.ok(); });
}

// Whether a group is one whose energy is measured. The counter is slow, so that only the rung's
// default shape gets it.
bool is_metered(const Stage& stage, const Shape& shape, Regime regime) {
  return regime == Regime::sustained && shape == shape_of_run(Options(), stage);
}

// The energy of the rung's result variant, if it was timed, and of cuBLASLt beside it. What cannot
// be had stays empty.
void meter_group(Problem& problem, const EnergyMeter& meter,
                 const std::vector<const Variant*>& variants, Field* field, GroupOutcome* group) {
  for (size_t i = 0; i < field->right.size(); ++i) {
    Outcome& outcome = field->outcomes[field->right[i]];
    if (!variants[field->right[i]]->result || !outcome.time) continue;
    try {
      group->baseline.power = measure_power(problem, field->contestants.front(), meter).power;
      const MeteredRun run = measure_power(problem, field->contestants[i + 1], meter);
      outcome.check = run.check;
      if (run.check.ok()) outcome.power = run.power;
    } catch (const NoEnergy& why) {
      std::fprintf(stderr, "No watts: %s\n", why.what());
    }
  }
  group->idle_watts = meter.idle_watts;
}

}  // namespace

const Variant& chosen_for(const Variant& variant, const Shape& shape, const CallLimits& limits) {
  return chosen(variant, *call_to_judge(variant.kind(), shape, limits));
}

Environment query_environment(const DeviceInfo& device) {
  int khz = 0;
  check_cuda(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device.ordinal),
             "cudaDeviceGetAttribute");
  return {device.name, driver_version(), toolkit_version(), CublasLt::version(), khz / 1000};
}

std::string registers_text(const Kernel& kernel, int registers) {
  const std::string at_launch = std::to_string(registers);
  if (kernel.regs_dec == 0) return at_launch;
  return at_launch + " -> " + std::to_string(kernel.regs_dec) + "/" +
         std::to_string(kernel.regs_inc);
}

KernelUse query_kernel(const Kernel& kernel) {
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, kernel.function), "cudaFuncGetAttributes");
  return {registers_text(kernel, attributes.numRegs),
          kernel.smem_bytes + static_cast<int>(attributes.sharedSizeBytes)};
}

std::string configuration_name(const Stage& asked, const Variant& runs) {
  return asked.number > 0 ? runs.name : rung_of(runs).stem + "/" + runs.name;
}

std::string describe(const Stage& stage, const Variant& variant, const Shape& shape) {
  if (stage.number == 0) return format("stage 0 %s at %s", variant.name, to_string(shape).c_str());
  return format("rung %d %s %s at %s", stage.number, stage.stem.c_str(), variant.name,
                to_string(shape).c_str());
}

GroupOutcome measure_group(Workbench& workbench, const Stage& stage,
                           const std::vector<const Variant*>& variants, const Shape& shape,
                           Regime regime, const Announce& announce) {
  GroupOutcome group;
  Field field;  // cuBLASLt comes first, right or not, if it has an algorithm
  bool writes_d = false;
  {
    announce({});
    const Watchdog watchdog("cuBLASLt at " + to_string(shape));
    const LibraryCandidate* const baseline = workbench.baseline(stage.kind(), shape);
    if (baseline != nullptr) {
      group.algorithm = baseline->algorithm;
      writes_d = baseline->writes_d;
      field.contestants.push_back(baseline->contestant);
    }
    if (writes_d) {
      Problem& problem = workbench.problem(stage.kind(), shape);
      group.baseline.check = check(problem, baseline->contestant);
      group.baseline.share_equal_to_cublas = 1;
      problem.keep_output();
    }
  }
  const bool has_baseline = !field.contestants.empty();
  Problem& problem = workbench.problem(stage.kind(), shape);
  std::vector<std::string> names;
  for (const Variant* variant : variants) names.push_back(describe(stage, *variant, shape));
  admit(problem, variants, names, announce, writes_d, &field);

  announce(field.right);
  const Watchdog watchdog(names.front() + " and its other variants");
  const EnergyMeter* meter = is_metered(stage, shape, regime) ? workbench.meter() : nullptr;
  std::vector<Measurement> times;
  if (!field.contestants.empty()) times = measure(problem, field.contestants, regime);
  if (has_baseline) {
    group.baseline.time = times.front();
    if (writes_d && group.baseline.check.ok()) group.baseline.check = times.front().check;
  } else {
    for (Measurement& each : times) each.ratio = NOT_MEASURED;
  }
  settle(times, &field);
  if (meter != nullptr && has_baseline) meter_group(problem, *meter, variants, &field, &group);
  group.variants = std::move(field.outcomes);
  if (!group.baseline.check.ok()) {
    std::fprintf(stderr, "WARNING: cuBLASLt itself is outside of the tolerance at %s with %s: %s\n",
                 to_string(shape).c_str(), group.algorithm.c_str(),
                 group.baseline.check.failure.c_str());
  }
  return group;
}

int run_bench_rows(const Options& options, std::istream& input) {
  return run_rows(options, input, Together::rung, bench_rows);
}

int run_sweep_rows(const Options& options, std::istream& input) {
  return run_rows(options, input, Together::kind, sweep_rows);
}

void print_choices(const Options& options, std::istream& input) {
  for (const std::vector<BenchRow>& rows :
       parse_bench_rows(read_lines(input), all_stages(), Together::rung)) {
    for (const BenchRow& row : rows) {
      Shape none = row.shape;  // of no size, so that types and layout alone are judged
      none.m = none.n = none.k = 0;
      const std::string wrong =
          argument_violations(*row.variant, *row.stage->kind().sizes_of(none));
      if (!wrong.empty()) throw Refused("Row '" + row.text() + "': " + wrong);
      const auto sizes = call_to_judge(row.variant->kind(), row.shape, options.limits());
      const Variant& runs = chosen(*row.variant, *sizes);
      JsonObject line;
      line.add("row", row.text());
      add_configuration(line, row, runs);
      line.add("kernel", kernel_name(runs.kernel.function))
          .add("predicted_us", runs.predicted_us ? runs.predicted_us(*sizes) : NOT_MEASURED);
      print_line(line);
    }
  }
}

}  // namespace ladder
