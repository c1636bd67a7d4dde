#include "common/host/cli.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>

#include "common/host/bench.h"
#include "common/host/best.h"
#include "common/host/energy.h"
#include "common/host/error.h"
#include "common/host/options.h"
#include "common/host/registry.h"
#include "common/host/run.h"
#include "common/host/symbols.h"
#include "common/host/text.h"
#include "common/host/timing.h"
#include "common/host/watchdog.h"
#include "common/host/where.h"

namespace ladder {
namespace {

const char NONE[] = "-";

using Rows = std::vector<std::vector<std::string>>;

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// A JSON array with an object a line.
void print_list() {
  std::vector<std::string> lines;
  for (const Stage& stage : all_stages()) {
    for (const Variant& v : stage.variants) {
      const Kernel& k = v.kernel;
      JsonObject line;
      line.add("stage", stage.number).add("name", stage.stem);
      line.add("problem", stage.kind().name()).add("variant", v.name).add("result", v.result);
      line.add("bm", k.bm).add("bn", k.bn).add("bk", k.bk).add("depth", k.depth);
      line.add("threads", k.threads).add("smem_bytes", k.smem_bytes);
      line.add("cluster_m", k.cluster_m).add("cluster_n", k.cluster_n);
      line.add("regs_dec", k.regs_dec).add("regs_inc", k.regs_inc);
      line.add("persistent", v.rules().persistent).add("simt", k.simt);
      if (v.chooses()) {
        line.add_null("kernel");
      } else {
        line.add("kernel", kernel_name(k.function));
      }
      line.add("configuration", v.configuration).add("chooses", v.chooses());
      line.add("workspace_bytes", std::max(k.workspace_bytes, v.chooser.workspace_bytes));
      line.add("args", v.args);
      line.add("what", v.what);
      lines.push_back("  " + line.line());
    }
  }
  print("[\n" + join(lines, ",\n") + "\n]\n");
}

// Before anything runs: the limit on the grid, types and layout are all that options can get wrong for
// a variant. Where no variant takes them, the rung's result says why.
void refuse_bad_calls(const Options& options) {
  std::vector<std::string> sentences, of_grid;
  std::vector<std::string> of_one_tile;  // stems of rungs whose CTAs have a tile each
  for (const Stage* stage : chosen_stages(options, all_stages())) {
    std::vector<const Variant*> variants = chosen_variants(options, *stage);
    if (variants.empty() && options.variant.empty()) variants.push_back(&stage->result());
    for (const Variant* variant : variants) {
      if (options.grid > 0 && !variant->chooses() && !variant->rules().persistent) {
        if (of_one_tile.empty() || of_one_tile.back() != stage->stem) {
          of_one_tile.push_back(stage->stem);
        }
        continue;
      }
      // Of no size, so that nothing else is judged.
      Shape none = shape_of_run(options, *stage);
      none.m = none.n = none.k = 0;
      const auto empty = stage->kind().sizes_of(none);
      const std::string found = argument_violations(*variant, *empty);
      if (!found.empty()) sentences.push_back(stage->stem + ": " + found);
      empty->max_ctas = options.grid;
      const std::string limited = argument_violations(*variant, *empty);
      if (found.empty() && !limited.empty()) of_grid.push_back(stage->stem + ": " + limited);
    }
  }
  if (!of_one_tile.empty()) {
    of_grid.insert(
        of_grid.begin(),
        join(of_one_tile) + (of_one_tile.size() == 1 ? " has" : " have") +
            " variants that start one CTA for each tile. Only persistent kernels, whose "
            "CTAs take tile after tile, have a limit, such as those of 07_persistent; the "
            "nearest that works is 0, no limit.");
  }
  if (!of_grid.empty()) {
    sentences.push_back("--grid is " + std::to_string(options.grid) + ", which is refused:\n" +
                        join(of_grid, "\n"));
  }
  if (!sentences.empty()) throw Refused(join(sentences, "\n"));
}

std::string check_text(const Outcome& outcome, bool with_cublas) {
  if (!outcome.check.ok()) return "FAIL: " + outcome.check.failure;
  const std::string verdict = outcome.check.verdict.describe();
  if (!with_cublas || std::isnan(outcome.share_equal_to_cublas)) return verdict;
  return verdict +
         format(", %.2f %% of the elements as cuBLASLt's", 100 * outcome.share_equal_to_cublas);
}

// On the PTX machine no table has columns of times.
Rows without_columns(Rows rows, int first, int count) {
  if (!on_machine()) return rows;
  for (auto& row : rows) row.erase(row.begin() + first, row.begin() + first + count);
  return rows;
}

struct TimeCells {
  std::string us = NONE, tflops = NONE, share = NONE, mhz = NONE, host = NONE;
};

TimeCells time_cells(const Outcome& outcome) {
  TimeCells cells;
  if (!outcome.time || !outcome.check.ok()) return cells;
  cells.us = format("%.1f", outcome.time->us);
  cells.tflops = format("%.1f", outcome.time->tflops);
  if (!std::isnan(outcome.time->ratio)) cells.share = format("%.1f %%", 100 * outcome.time->ratio);
  cells.mhz = format("%.0f", outcome.time->sm_mhz);
  cells.host = format("%.1f", outcome.time->host_us);
  return cells;
}

// "auto (128x256)": a chooser, and what it chose here.
std::string variant_label(const Stage& stage, const Variant& asked, const Variant& runs) {
  if (!asked.chooses()) return asked.name;
  return asked.name + std::string(" (") + configuration_name(stage, runs) + ")";
}

std::vector<std::string> variant_row(const Stage& stage, const Variant& variant,
                                     const Variant& runs, const Outcome& outcome,
                                     bool with_cublas) {
  const KernelUse use = query_kernel(runs.kernel);
  const TimeCells time = time_cells(outcome);
  return {variant_label(stage, variant, runs) + (variant.result ? " *" : ""),
          variant.what,
          use.registers,
          std::to_string(use.smem_bytes),
          time.us,
          time.tflops,
          time.share,
          time.mhz,
          time.host,
          check_text(outcome, with_cublas)};
}

std::vector<std::string> cublas_row(const GroupOutcome& group) {
  const TimeCells time = time_cells(group.baseline);
  return {"cuBLASLt", "its fastest algorithm",
          NONE,       NONE,
          time.us,    time.tflops,
          time.share, time.mhz,
          time.host,  group.algorithm.empty() ? "has none" : check_text(group.baseline, false)};
}

GroupOutcome check_group(Workbench& workbench, const Stage& stage,
                         const std::vector<const Variant*>& variants, const Shape& shape) {
  GroupOutcome group;
  for (const Variant* variant : variants) {
    const std::string name = describe(stage, *variant, shape);
    const Watchdog watchdog(name);
    Problem& problem = workbench.problem(stage.kind(), shape);
    Outcome outcome;
    for (const std::string& policy : policies()) {
      use_policy(policy);
      outcome.check = check(problem, {name + (policy.empty() ? "" : ", policy " + policy),
                                      [variant](const Call& call) { run(*variant, call); }});
      if (!outcome.check.ok()) {
        if (!policy.empty()) outcome.check.failure += " (policy " + policy + ")";
        break;
      }
    }
    group.variants.push_back(outcome);
  }
  return group;
}

std::string name_of(const Stage& stage) {
  if (stage.number == 0) return "stage 0, " + stage.stem;
  return "rung " + std::to_string(stage.number) + ", " + stage.stem;
}

// Runs one rung, prints its table, and adds its result variant to the table of the ladder. Returns
// whether everything is right.
bool run_stage(Workbench& workbench, const Options& options, const Stage& stage,
               Rows* ladder_rows) {
  const std::vector<const Variant*> variants = chosen_variants(options, stage);
  if (variants.empty()) return true;
  const Shape shape = shape_of_run(options, stage);
  const std::string parameters = parameters_text(stage.kind(), shape);
  print(format("\n%s: %s\n%s, %s%s (M x N x K), %s data, seed %llu\n", name_of(stage).c_str(),
               stage.idea, stage.kind().formula(),
               parameters.empty() ? "" : (parameters + ", ").c_str(), to_string(shape).c_str(),
               to_string(options.data), static_cast<unsigned long long>(options.seed)));

  const auto left_out = std::count_if(
      stage.variants.begin(), stage.variants.end(),
      [&](const Variant& each) { return !options.workspace && each.kernel.workspace_bytes > 0; });
  if (options.variant.empty() && left_out > 0) {
    print(format("Without a workspace: %td variants that need one are left out.\n", left_out));
  }
  if (on_machine()) print(duration_line(stage, shape, variants.size()));
  const bool timed = !options.check_only;
  const GroupOutcome group = timed ? measure_group(workbench, stage, variants, shape, Regime::burst,
                                                   [](const std::vector<size_t>&) {})
                                   : check_group(workbench, stage, variants, shape);

  Rows rows = {{"variant", "knob", "registers", "smem bytes", "us", "TFLOPS", "of cuBLASLt", "MHz",
                "host us", "check"}};
  const CallLimits limits = options.limits();
  bool right = true;
  for (size_t i = 0; i < variants.size(); ++i) {
    const Outcome& outcome = group.variants[i];
    const Variant& runs = chosen_for(*variants[i], shape, limits);
    rows.push_back(variant_row(stage, *variants[i], runs, outcome, timed));
    right = right && outcome.check.ok();
    if (!variants[i]->result) continue;
    const TimeCells time = time_cells(outcome);
    const std::string label = variant_label(stage, *variants[i], runs);
    ladder_rows->push_back({std::to_string(stage.number), stage.stem, label, to_string(shape),
                            time.us, time.tflops, time.share, outcome.check.ok() ? "ok" : "FAIL"});
  }
  if (timed) rows.push_back(cublas_row(group));
  print(table(without_columns(rows, 4, 5)));
  for (size_t i = 0; i < variants.size(); ++i) {
    const Verdict& verdict = group.variants[i].check.verdict;
    if (verdict.ok() || verdict.padding) continue;
    print(format("\n%s around its first wrong element (*: wrong):\n", variants[i]->name) +
          verdict.around.text(options.data == Data::index));
  }
  if (timed) print("cuBLASLt algorithm: " + group.algorithm + "\n");
  return right;
}

// The stem of the rung after this one, linked in or not, as far as the working directory tells.
std::string next_stem(const Stage& stage) {
  const std::string prefix = format("%02d_", stage.number + 1);
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator("stages", unreadable)) {
    const std::string stem = entry.path().stem().string();
    if (stem.rfind(prefix, 0) == 0) return stem;
  }
  return "";
}

std::string stage_advice(const Options& options, const Stage& stage) {
  if (stage.number == 0) return "\n* stands for stage 0. Next: make ladder runs all rungs.\n";
  const std::string next = next_stem(stage);
  const auto shown = chosen_variants(options, stage);
  const bool has_star =
      std::any_of(shown.begin(), shown.end(), [](const Variant* each) { return each->result; });
  std::string text = has_star ? "\n* stands for the rung. " : "\n";
  int others = 0;  // that run only by their names
  const auto sizes = stage.kind().sizes_of(shape_of_run(options, stage));
  for (const Variant& variant : stage.variants) {
    others += variant.configuration && variant.takes && variant.takes(*sizes);
  }
  if (others > 0) text += format("%d others run by VARIANT=; a wrong name lists them. ", others);
  text += "Read docs/" + stage.stem + ".md";
  if (stage.number > 1) {
    text += format("; make diff-%d shows what the rung changed", stage.number);
  }
  if (next.empty()) return text + ". Next: make ladder runs all rungs.\n";
  return text + format(". Next: make stage-%d (%s).\n", stage.number + 1, next.c_str());
}

// Results are only checked there, by default at a shape that takes it no time.
void prepare_for_machine(const DeviceInfo& device, Options* options) {
  print(machine_line());
  print(format("%d SMs (MACHINE_SMS)\n", device.sm_count));
  options->check_only = true;
  const auto act = options->parameters.find("act");
  if (options->shape.n == 0 && act != options->parameters.end() && act->second == "swiglu") {
    options->shape.n = MACHINE_COLUMNS_BY_16;
  }
  for (int Shape::*size : {&Shape::m, &Shape::n, &Shape::k}) {
    if (options->shape.*size == 0) options->shape.*size = MACHINE_SHAPE.*size;
  }
}

void print_device(const DeviceInfo& device, Options* options) {
  print(format("%s, %d SMs", device.name.c_str(), device.sm_count));
  try {
    const Environment environment = query_environment(device);
    print(format(" of up to %d MHz; driver %s, nvcc %s, cuBLASLt %s\n", environment.max_mhz,
                 environment.driver.c_str(), environment.toolkit.c_str(),
                 environment.cublas.c_str()));
  } catch (const CudaError& error) {
    print(format("\nResults are checked but not timed, for want of cuBLASLt: %s\n", error.what()));
    options->check_only = true;
  }
}

int run_stages(const std::string& program, const std::vector<std::string>& arguments,
               Options options) {
  refuse_bad_calls(options);
  choose_device(program, arguments);
  const DeviceInfo device = query_device();
  if (on_machine()) {
    prepare_for_machine(device, &options);
  } else {
    print_device(device, &options);
  }
  Workbench workbench(device, options.data, options.seed, options.limits());
  Rows ladder_rows = {{"rung", "file", "variant", "shape", "us", "TFLOPS", "of cuBLASLt", "check"}};
  bool right = true;
  const std::vector<const Stage*> asked = chosen_stages(options, all_stages());
  for (const Stage* stage : asked) {
    right = run_stage(workbench, options, *stage, &ladder_rows) && right;
  }
  if (asked.size() == 1) {
    print(stage_advice(options, *asked.front()));
  } else {
    const char* const next =
        on_machine() ? "docs/machine.md says what was checked." : "make bench measures at length.";
    print("\nThe ladder\n" + table(without_columns(ladder_rows, 4, 3)) +
          "\nRead README.md and docs/, rung by rung. Next: make stage-1; " + next + "\n");
  }
  if (!right)
    std::fputs("A variant is wrong or could not be launched; its row says FAIL.\n", stderr);
  return right ? EXIT_OK : EXIT_WRONG;
}

int run_mode(const std::string& program, const std::vector<std::string>& arguments) {
  const Options options = parse_options(arguments, all_stages());
  switch (options.mode) {
    case Options::Mode::help:
      print(usage(program));
      return EXIT_OK;
    case Options::Mode::list:
      print_list();
      return EXIT_OK;
    case Options::Mode::choices:
      choose_device(program, arguments);
      query_device();
      print_choices(options, std::cin);
      return EXIT_OK;
    case Options::Mode::bench_rows:
      return run_bench_rows(options, std::cin);
    case Options::Mode::sweep_rows:
      return run_sweep_rows(options, std::cin);
    case Options::Mode::energy_rows:
      return run_energy_rows(options, std::cin);
    default:
      return run_stages(program, arguments, options);
  }
}

int fail(ExitCode code, const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  return code;
}

}  // namespace

int run_program(const std::string& program, const std::vector<std::string>& arguments) {
  try {
    check_settings();
    const int code = run_mode(program, arguments);
    if (std::ferror(stdin) != 0) {
      return fail(EXIT_REFUSED, "The rows on standard input cannot be read: is it a folder?");
    }
    if (std::ferror(stdout) == 0) return code;
    return fail(EXIT_REFUSED, "What the program prints cannot be written: is the disk full?");
  } catch (const Refused& error) {
    return fail(EXIT_REFUSED, error.what());
  } catch (const NoDevice& error) {
    return fail(EXIT_NO_DEVICE, error.what() + machine_advice());
  } catch (const ContextLost& error) {
    const bool is_hang = cudaPeekAtLastError() == cudaErrorLaunchTimeout;
    return fail(is_hang ? EXIT_HANG : EXIT_WRONG, std::string("FAIL: ") + error.what());
  } catch (const std::exception& error) {
    return fail(EXIT_WRONG, std::string("FAIL: ") + error.what());
  }
}

}  // namespace ladder
