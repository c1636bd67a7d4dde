#include "common/host/options.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <map>
#include <set>
#include <sstream>

#include "common/host/error.h"
#include "common/host/text.h"

namespace ladder {
namespace {

constexpr int DEFAULT_SIZE = 8192;
constexpr int SMALL_DEFAULT_SIZE = 2048;  // for a rung without tensor cores
constexpr int MAX_SIZE = 1 << 30;         // what a rung accepts

const std::vector<std::string> FLAGS = {
    "--check", "--list", "--choices", "--bench-rows", "--sweep-rows", "--energy-rows", "--help"};
const std::vector<std::string> VALUED = {"--m",    "--n",    "--k",    "--stage",    "--variant",
                                         "--data", "--seed", "--grid", "--workspace"};
const std::vector<Data> ALL_DATA = {Data::normal, Data::uniform, Data::ints, Data::zeros,
                                    Data::index};

bool is_one_of(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A whole decimal number and nothing else: no sign, no blank, no leftover. `likely` is suggested
// where the text is none.
uint64_t parse_number(const std::string& name, const std::string& text, uint64_t least,
                      uint64_t most, uint64_t likely) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool digits_only = stop == end && error != std::errc::invalid_argument;
  const bool bounded = most < INT_MAX;  // by more than what fits the type
  const std::string rule = " must be a whole number" +
                           (bounded || digits_only ? " from " + std::to_string(least) + " to " +
                                                         std::to_string(most) + "; "
                                                   : ", " + std::to_string(least) + " or more; ");
  if (!digits_only) {
    const bool negative = text.size() > 1 && text[0] == '-';
    const std::string example = negative ? "the nearest that works is " + std::to_string(least)
                                         : "try " + std::to_string(likely);
    throw Refused(name + " is '" + text + "' but" + rule + example + ".");
  }
  if (error == std::errc::result_out_of_range || value < least || value > most) {
    const bool too_small = error == std::errc() && value < least;
    throw Refused(name + " is " + text + " but" + rule + "the nearest that works is " +
                  std::to_string(too_small ? least : most) + ".");
  }
  return value;
}

int parse_size(const std::string& name, const std::string& text) {
  return static_cast<int>(parse_number(name, text, 1, MAX_SIZE, DEFAULT_SIZE));
}

Data parse_data(const std::string& name, const std::string& text) {
  std::vector<std::string> names;
  for (const Data data : ALL_DATA) {
    if (text == to_string(data)) return data;
    names.push_back(to_string(data));
  }
  throw Refused(name + " is '" + text + "' but must be one of " + join(names) + "; " +
                suggestion(text, names));
}

std::vector<std::string> variant_names(const std::vector<const Stage*>& stages) {
  std::vector<std::string> names;
  for (const Stage* stage : stages) {
    for (const Variant& variant : stage->variants) {
      if (!is_one_of(variant.name, names)) names.push_back(variant.name);
    }
  }
  return names;
}

// What --stage and --variant name together.
void check_variant(const Options& options, const std::vector<Stage>& stages) {
  const std::vector<std::string> names = variant_names(chosen_stages(options, stages));
  if (options.variant.empty() || is_one_of(options.variant, names)) return;
  throw Refused("--variant is '" + options.variant + "'; " + suggestion(options.variant, names) +
                " The variants here are " + join(names) + ".");
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == text.npos;
}

std::string nearest_number(const std::string& text, const std::vector<std::string>& numbers) {
  return *std::min_element(numbers.begin(), numbers.end(), [&](const auto& one, const auto& other) {
    return std::abs(std::stoi(one) - std::stoi(text)) <
           std::abs(std::stoi(other) - std::stoi(text));
  });
}

void check_stage(int number, const std::vector<Stage>& stages) {
  std::vector<std::string> numbers;
  for (const Stage& stage : stages) {
    if (stage.number == number) return;
    const std::string text = std::to_string(stage.number);
    if (!is_one_of(text, numbers)) numbers.push_back(text);
  }
  const std::string text = std::to_string(number);
  throw Refused("--stage is " + text + " but the stages here are " + join(numbers) +
                "; the nearest that works is " + nearest_number(text, numbers) + ".");
}

// Rows say for themselves what to run: an option that they leave no use for would be ignored.
void check_beside_rows(const Options& options, const std::set<std::string>& given) {
  static const std::map<Options::Mode, std::vector<std::string>> READ = {
      {Options::Mode::choices, {"--choices", "--grid", "--workspace"}},
      {Options::Mode::bench_rows, {"--bench-rows", "--data", "--seed", "--grid", "--workspace"}},
      {Options::Mode::sweep_rows, {"--sweep-rows", "--data", "--seed", "--grid", "--workspace"}},
      {Options::Mode::energy_rows, {"--energy-rows", "--seed"}}};
  const auto mode = READ.find(options.mode);
  if (mode == READ.end()) return;
  const std::vector<std::string>& read = mode->second;
  for (const std::string& name : given) {
    if (is_one_of(name, read)) continue;
    throw Refused(name + " stands beside " + read.front() +
                  ", whose rows say what runs; beside it work " +
                  join({read.begin() + 1, read.end()}) + ".");
  }
}

void set_mode(Options* options, Options::Mode mode, const std::string& name) {
  if (options->mode != Options::Mode::run) {
    throw Refused(name + " stands beside another of " + join({FLAGS.begin() + 1, FLAGS.end()}) +
                  "; give one.");
  }
  options->mode = mode;
}

// As a message lists them: numbers in their order, and not the default first.
std::vector<std::string> listed(std::vector<std::string> values) {
  if (!std::all_of(values.begin(), values.end(), is_number)) return values;
  std::sort(values.begin(), values.end(),
            [](const auto& one, const auto& other) { return std::stoi(one) < std::stoi(other); });
  return values;
}

// The place of a value among those of a parameter.
int parse_value(const std::string& name, const std::string& text, const Parameter& parameter) {
  const auto& values = parameter.values;
  const auto found = std::find(values.begin(), values.end(), text);
  if (found != values.end()) return static_cast<int>(found - values.begin());
  throw Refused(name + " is '" + text + "' but must be one of " + join(listed(values)) + "; " +
                (is_number(text) && is_number(values.front())
                     ? "the nearest that works is " + nearest_number(text, values) + "."
                     : suggestion(text, values)));
}

// Sets those of the kind's parameters that are given by name.
void set_parameters(const ProblemKind& kind, const std::map<std::string, std::string>& given,
                    const std::string& where, Shape* shape) {
  size_t at = 0;
  for (const Parameter& parameter : kind.parameters()) {
    const auto found = given.find(parameter.name);
    if (found != given.end()) {
      shape->parameters.at(at) = parse_value(where + parameter.name, found->second, parameter);
    }
    ++at;
  }
}

std::vector<std::string> parameter_names(const std::vector<const Stage*>& stages) {
  std::vector<std::string> names;
  for (const Stage* stage : stages) {
    for (const Parameter& parameter : stage->kind().parameters()) {
      if (!is_one_of(parameter.name, names)) names.push_back(parameter.name);
    }
  }
  return names;
}

// Their names, and their values by shape_of_run().
void check_parameters(const Options& options, const std::vector<Stage>& stages) {
  const std::vector<const Stage*> chosen = chosen_stages(options, stages);
  const std::vector<std::string> names = parameter_names(chosen);
  for (const auto& [name, value] : options.parameters) {
    if (is_one_of(name, names)) continue;
    std::vector<std::string> others, with_value;  // rungs that have it, and that take this value
    for (const Stage& stage : stages) {
      for (const Parameter& parameter : stage.kind().parameters()) {
        if (stage.number == 0 || parameter.name != name) continue;
        others.push_back(stage.stem);
        if (is_one_of(value, parameter.values)) with_value.push_back(stage.stem);
      }
    }
    throw Refused("--" + name + " is '" + value +
                  "' but no rung that is asked for has it; those have " +
                  (names.empty() ? "none such" : join(names)) +
                  (!with_value.empty() ? "; it works with " + join(with_value)
                   : !others.empty()   ? "; it has other values in " + join(others)
                                       : "") +
                  ".");
  }
  for (const Stage* stage : chosen) shape_of_run(options, *stage);
}

void apply(Options* options, const std::string& name, const std::string& value,
           const std::vector<Stage>& stages) {
  if (name == "--m") options->shape.m = parse_size(name, value);
  if (name == "--n") options->shape.n = parse_size(name, value);
  if (name == "--k") options->shape.k = parse_size(name, value);
  if (name == "--stage") {
    int last = 1;
    for (const Stage& stage : stages) last = std::max(last, stage.number);
    options->stage = static_cast<int>(parse_number(name, value, 0, static_cast<uint64_t>(last), 1));
    check_stage(options->stage, stages);
  }
  if (name == "--variant") {
    if (value.empty()) {
      throw Refused("--variant is '' but must be a variant's name; without it all of them run.");
    }
    options->variant = value;
  }
  if (name == "--data") options->data = parse_data(name, value);
  if (name == "--seed") options->seed = parse_number(name, value, 0, INT64_MAX, 1);
  if (name == "--grid")
    options->grid = static_cast<int>(parse_number(name, value, 0, INT_MAX, 132));
  if (name == "--workspace") options->workspace = parse_number(name, value, 0, 1, 0) == 1;
  if (name == "--check") options->check_only = true;
  if (name == "--list") set_mode(options, Options::Mode::list, name);
  if (name == "--choices") set_mode(options, Options::Mode::choices, name);
  if (name == "--bench-rows") set_mode(options, Options::Mode::bench_rows, name);
  if (name == "--sweep-rows") set_mode(options, Options::Mode::sweep_rows, name);
  if (name == "--energy-rows") set_mode(options, Options::Mode::energy_rows, name);
  if (name == "--help") set_mode(options, Options::Mode::help, name);
}

// What a row names. Stages 0 have one number and variants of different names.
struct Named {
  const Stage* stage = nullptr;
  const Variant* variant = nullptr;
};

Named find_named(const std::string& number, const std::string& name,
                 const std::vector<Stage>& stages, const std::string& where) {
  std::vector<std::string> numbers;
  std::vector<const Stage*> of_number;
  for (const Stage& stage : stages) {
    const std::string text = std::to_string(stage.number);
    if (!is_one_of(text, numbers)) numbers.push_back(text);
    if (text != number) continue;
    of_number.push_back(&stage);
    for (const Variant& variant : stage.variants) {
      if (variant.name == name) return {&stage, &variant};
    }
  }
  if (of_number.empty()) {
    throw Refused(where + "there is no rung '" + number + "'; the rungs here are " + join(numbers) +
                  ".");
  }
  const std::vector<std::string> names = variant_names(of_number);
  throw Refused(where + "rung " + number + " has no variant '" + name + "'; " +
                suggestion(name, names) + " Its variants are " + join(names) + ".");
}

std::vector<std::string> words_of(const std::string& line, size_t count, const std::string& form,
                                  size_t optional = 0) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.size() >= count && words.size() <= count + optional) return words;
  throw Refused("Row '" + line + "': it must be '" + form + "', but has " +
                std::to_string(words.size()) + " words.");
}

// "type=fp16,layout=NT"
std::map<std::string, std::string> parse_assignments(const std::string& where,
                                                     const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      throw Refused(where + "'" + word + "' must be name=value, as in layout=NT.");
    }
    const std::string name = word.substr(0, equals);
    if (!values.emplace(name, word.substr(equals + 1)).second) {
      throw Refused(where + "'" + name + "' is given more than once, as " + word +
                    " too; give it once.");
    }
  }
  return values;
}

BenchRow parse_bench_row(const std::string& line, const std::vector<Stage>& stages) {
  const std::string where = "Row '" + line + "': ";
  const std::vector<std::string> words =
      words_of(line, 6, "<rung> <variant> <m> <n> <k> <burst|sustained>", 1);
  BenchRow row;
  const Named named = find_named(words[0], words[1], stages, where);
  row.stage = named.stage;
  row.variant = named.variant;
  row.shape = {parse_size(where + "m", words[2]), parse_size(where + "n", words[3]),
               parse_size(where + "k", words[4])};
  if (words[5] != "burst" && words[5] != "sustained") {
    throw Refused(where + "the regime is '" + words[5] + "' but must be burst or sustained.");
  }
  row.regime = words[5] == "burst" ? Regime::burst : Regime::sustained;
  if (words.size() > 6) {
    const auto given = parse_assignments(where, words[6]);
    const std::vector<std::string> names = parameter_names({row.stage});
    for (const auto& [name, value] : given) {
      if (is_one_of(name, names)) continue;
      throw Refused(where + "rung " + words[0] + " has no '" + name + "', only " +
                    (names.empty() ? "sizes" : join(names)) + ".");
    }
    set_parameters(row.stage->kind(), given, where, &row.shape);
  }
  return row;
}

bool measured_together(const BenchRow& one, const BenchRow& other, Together together) {
  const bool same = together == Together::rung ? one.stage == other.stage
                                               : &one.stage->kind() == &other.stage->kind();
  return same && one.shape == other.shape && one.regime == other.regime;
}

}  // namespace

std::vector<int> rungs_with(const std::string& option) {
  static const std::map<std::string, std::vector<int>> RUNGS = {{"--type", {13, 14, 16, 17}},
                                                                {"--layout", {13}},
                                                                {"--scales", {14}},
                                                                {"--bits", {15}},
                                                                {"--groups", {16}},
                                                                {"--rows", {16}},
                                                                {"--kind", {16}},
                                                                {"--act", {17}},
                                                                {"--add", {17}}};
  const auto found = RUNGS.find(option);
  return found == RUNGS.end() ? std::vector<int>() : found->second;
}

Options parse_options(const std::vector<std::string>& arguments, const std::vector<Stage>& stages) {
  Options options;
  std::vector<std::string> parameters;  // of all that is linked in, as options
  for (const Stage& stage : stages) {
    for (const std::string& name : parameter_names({&stage})) parameters.push_back("--" + name);
  }
  std::set<std::string> given;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const bool is_parameter = is_one_of(name, parameters);
    const bool has_value = equals != std::string::npos;
    const bool takes_value = is_parameter || is_one_of(name, VALUED);
    if (const std::vector<int> rungs = rungs_with(name); !takes_value && !rungs.empty()) {
      std::vector<std::string> numbers;
      for (const int number : rungs) numbers.push_back(std::to_string(number));
      throw Refused(name + " is '" + (has_value ? argument.substr(equals + 1) : "") +
                    "' but no rung that is linked in has it; try make stage-" +
                    join(numbers, " or make stage-") + ".");
    }
    if (!takes_value && !is_one_of(name, FLAGS)) {
      std::vector<std::string> names = VALUED;
      names.insert(names.end(), parameters.begin(), parameters.end());
      names.insert(names.end(), FLAGS.begin(), FLAGS.end());
      const std::string hint = suggestion(name, names);
      throw Refused("There is no option '" + argument + "'; " +
                    (hint.starts_with("did") ? hint + " " : "") + "--help lists them.");
    }
    if (takes_value && !has_value) {
      throw Refused(name + " needs a value behind a '=', as in " + name + "=...");
    }
    if (!takes_value && has_value) {
      throw Refused(argument + ": " + name + " takes no value; write just " + name + ".");
    }
    if (!given.insert(name).second) {
      throw Refused(name + " is given more than once, as " + argument + " too; give it once.");
    }
    if (is_parameter) {
      options.parameters[name.substr(2)] = argument.substr(equals + 1);
    } else {
      apply(&options, name, has_value ? argument.substr(equals + 1) : "", stages);
    }
  }
  check_beside_rows(options, given);
  check_variant(options, stages);
  check_parameters(options, stages);
  return options;
}

std::string usage(const std::string& program) {
  return "Usage: " + program +
         " [--stage=N] [--variant=NAME] [--m=M] [--n=N] [--k=K]\n"
         "       [--type=T] [--layout=L] [--data=KIND] [--seed=S] [--grid=G] [--workspace=0] "
         "[--check]\n"
         "       " +
         program +
         " --list | --choices | --bench-rows | --sweep-rows | --energy-rows | --help\n"
         "\n"
         "Runs every rung and variant that is linked in, by default D[M,N] = A[M,K] * B[N,K]^T in "
         "bf16,\n"
         "checks the results, times them beside cuBLASLt and prints one row a variant.\n"
         "\n"
         "  --m, --n, --k   sizes; default 8192 each, 2048 for rung 1, and small odd ones on the\n"
         "                  PTX machine\n"
         "  --stage=N       only rung N; 0: of every rung that is linked in, the kernel that a "
         "cost\n"
         "                  model expects to be the fastest\n"
         "  --variant=NAME  only this variant\n"
         "  --type=T        of operands, and of D if that is another, where a rung takes several: "
         "bf16,\n"
         "                  bf16_fp32, fp16, fp16_fp32, tf32 and others; a wrong one lists them\n"
         "  --layout=L      TN (both operands K-major), NN, NT or TT, as BLAS calls them\n"
         "  --scales=S      blocks or tensor, where operands have scales\n"
         "  --bits=B        of a weight, 8 or 4, where a rung takes packed ones\n"
         "  --groups=G      of rows, --rows=HOW (equal, unequal, sparse, one) and --kind=KIND\n"
         "                  (contiguous, masked), where a rung takes groups\n"
         "  --act=A         none, relu, gelu, gelu_tanh, silu or swiglu (N a multiple of 16),\n"
         "                  where a rung has epilogues\n"
         "  --add=WHAT      bias, bias_c, c or nothing: what is added there\n"
         "  --data=KIND     normal (default), uniform, ints (checked bit for bit), zeros, or "
         "index: "
         "A is\n"
         "                  the identity and B says which element it is, so that a wrong D shows "
         "from "
         "where\n"
         "                  its elements came\n"
         "  --seed=S        seed of the data, default 1\n"
         "  --grid=G        at most G CTAs, for persistent rungs; default 0: as many as fit\n"
         "  --workspace=0   calls have no workspace; variants that need one are left out, or "
         "refused\n"
         "                  if --variant names one; default 1\n"
         "  --check         check the results and time nothing\n"
         "  --list          every variant as JSON, one a line; needs no GPU. A chooser has no "
         "kernel:\n"
         "                  null\n"
         "  --bench-rows    reads rows '<rung> <variant> <m> <n> <k> <burst|sustained>' from "
         "stdin,\n"
         "                  behind them type=T,layout=L where the rung has these, and prints a "
         "JSON object a line; make bench is its front end\n"
         "  --sweep-rows    the same with less time for each and without cuBLASLt: make sweep\n"
         "  --energy-rows   reads rows '<rung> <variant> <m> <n> <k> <data> <grid>' and says what "
         "the\n"
         "                  board draws; behind an empty line each before it reads the next; make\n"
         "                  energy is its front end\n"
         "  --choices       which configuration each such row would run, its kernel, and the time\n"
         "                  that the cost model expects\n"
         "\n"
         "Where no GPU can be used, the program runs on the PTX machine (make machine), which "
         "checks\n"
         "results, races and hangs and times nothing; LADDER_DEVICE=gpu or machine decides.\n"
         "\n"
         "Exit codes: 0 ok, 1 wrong result, 2 usage or refused input, 3 no usable device, 4 "
         "hang.\n";
}

Shape shape_of_run(const Options& options, const Stage& stage) {
  const int size = stage.result().kernel.simt ? SMALL_DEFAULT_SIZE : DEFAULT_SIZE;
  const auto or_default = [size](int given) { return given == 0 ? size : given; };
  Shape shape{or_default(options.shape.m), or_default(options.shape.n),
              or_default(options.shape.k)};
  set_parameters(stage.kind(), options.parameters, "--", &shape);
  return shape;
}

std::vector<const Stage*> chosen_stages(const Options& options, const std::vector<Stage>& stages) {
  std::vector<const Stage*> chosen;
  for (const Stage& stage : stages) {
    const bool is_rung = stage.number > 0;
    if (options.stage < 0 ? is_rung : stage.number == options.stage) chosen.push_back(&stage);
  }
  return chosen;
}

std::vector<const Variant*> chosen_variants(const Options& options, const Stage& stage) {
  std::vector<const Variant*> chosen;
  const auto sizes = stage.kind().sizes_of(shape_of_run(options, stage));
  const auto takes = [&sizes](const Variant& variant) {
    return !variant.takes || (!variant.configuration && variant.takes(*sizes));
  };
  for (const Variant& variant : stage.variants) {
    const bool can_run =
        (options.workspace || variant.kernel.workspace_bytes == 0) && takes(variant);
    if (options.variant.empty() ? can_run : options.variant == variant.name) {
      chosen.push_back(&variant);
    }
  }
  return chosen;
}

std::string BenchRow::text() const {
  const std::string parameters = parameters_text(stage->kind(), shape, false);
  return format("%d %s %d %d %d %s", stage->number, variant->name, shape.m, shape.n, shape.k,
                to_string(regime)) +
         (parameters.empty() ? "" : " " + parameters);
}

std::vector<std::vector<BenchRow>> parse_bench_rows(const std::vector<std::string>& lines,
                                                    const std::vector<Stage>& stages,
                                                    Together together) {
  std::vector<std::vector<BenchRow>> groups;
  bool apart = true;  // the next row starts a group
  for (const std::string& line : lines) {
    if (line.empty()) {
      apart = true;
      continue;
    }
    const BenchRow row = parse_bench_row(line, stages);
    if (apart || !measured_together(groups.back().back(), row, together)) groups.emplace_back();
    groups.back().push_back(row);
    apart = false;
  }
  return groups;
}

EnergyRow parse_energy_row(const std::string& line, const std::vector<Stage>& stages) {
  const std::vector<std::string> words =
      words_of(line, 7, "<rung> <variant> <m> <n> <k> <data> <grid>");
  const std::string where = "Row '" + line + "': ";
  EnergyRow row;
  row.text = line;
  const Named named = find_named(words[0], words[1], stages, where);
  row.stage = named.stage;
  row.variant = named.variant;
  row.shape = {parse_size(where + "m", words[2]), parse_size(where + "n", words[3]),
               parse_size(where + "k", words[4])};
  row.data = parse_data(where + "the data", words[5]);
  row.grid = static_cast<int>(parse_number(where + "the grid", words[6], 0, INT_MAX, 132));
  return row;
}

}  // namespace ladder
