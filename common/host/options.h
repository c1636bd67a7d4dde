// What the programs are told: their command line, and the rows that --bench-rows reads. Nothing
// here needs a GPU. Every refusal is one sentence with the value, the rule and the nearest that
// works.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/host/registry.h"
#include "common/host/workload.h"

namespace ladder {

struct Options {
  enum class Mode { run, list, choices, bench_rows, sweep_rows, energy_rows, help };
  Mode mode = Mode::run;
  Shape shape;  // a size of 0: the rung's default; its parameters are not set
  std::map<std::string, std::string> parameters;  // of kinds of problems: "layout" -> "NT"
  int stage = -1;                                 // only this one; -1: every rung
  std::string variant;                            // empty: every variant
  Data data = Data::normal;
  uint64_t seed = 1;
  int grid = 0;             // Call::max_ctas; 0: as many as fit the GPU
  bool workspace = true;    // whether calls have a workspace
  bool check_only = false;  // check results, time nothing

  CallLimits limits() const { return {grid, workspace}; }
};

// Throws Refused. `stages` are the linked rungs and stages 0, which decide what --stage and --variant
// may name, and which parameters of kinds of problems there are.
Options parse_options(const std::vector<std::string>& arguments, const std::vector<Stage>& stages);

// Which rungs have a parameter, as "--type": one that is not linked in cannot say so itself.
std::vector<int> rungs_with(const std::string& option);

// What --help prints.
std::string usage(const std::string& program);

// The stages that the options ask for: of all rungs, without stages 0, if they name none.
std::vector<const Stage*> chosen_stages(const Options& options, const std::vector<Stage>& stages);

// The shape that a run of this rung has where the options give none: small for fma.rn.f32.
Shape shape_of_run(const Options& options, const Stage& stage);

// The rung's variants that the options ask for, in order of registration. Unless one is named, those
// are left out that do not take such a call: where calls have no workspace those that need one, and
// those that take no such parameters; and of what takes a part of the calls, configurations.
std::vector<const Variant*> chosen_variants(const Options& options, const Stage& stage);

// One line of --bench-rows, --sweep-rows and --choices: "<rung> <variant> <m> <n> <k> <burst|sustained>",
// and behind it, where the rung's kind of problem has parameters, "type=fp16,layout=NT".
struct BenchRow {
  const Stage* stage = nullptr;
  const Variant* variant = nullptr;
  Shape shape;
  Regime regime = Regime::burst;
  std::string text() const;  // the line
};

// Rows that are measured together: neighbours of the same shape and regime, and of the same rung or
// only kind of problem. An empty line keeps its neighbours apart. Throws Refused at the first line
// that is not a row of `stages`.
enum class Together { rung, kind };
std::vector<std::vector<BenchRow>> parse_bench_rows(const std::vector<std::string>& lines,
                                                    const std::vector<Stage>& stages,
                                                    Together together);

// One line of --energy-rows: "<rung> <variant> <m> <n> <k> <data> <grid>".
struct EnergyRow {
  std::string text;  // the line
  const Stage* stage = nullptr;
  const Variant* variant = nullptr;
  Shape shape;
  Data data = Data::normal;
  int grid = 0;  // Call::max_ctas
};
EnergyRow parse_energy_row(const std::string& line, const std::vector<Stage>& stages);

}  // namespace ladder
