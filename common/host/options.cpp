#include "common/host/options.h"

#include <algorithm>
#include <charconv>
#include <climits>
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
const std::vector<Data> ALL_DATA = {Data::normal, Data::uniform, Data::ints, Data::zeros};

bool is_one_of(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A whole decimal number and nothing else: no sign, no blank, no leftover.
uint64_t parse_number(const std::string& name, const std::string& text, uint64_t least,
                      uint64_t most) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool digits_only = stop == end && error != std::errc::invalid_argument;
  const std::string rule = " must be a whole number from " + std::to_string(least) + " to " +
                           std::to_string(most) + "; ";
  if (!digits_only) {
    const bool negative = text.size() > 1 && text[0] == '-';
    const std::string example =
        negative ? "the nearest that works is " + std::to_string(least)
                 : "try " + std::to_string(std::clamp<uint64_t>(DEFAULT_SIZE, least, most));
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
  return static_cast<int>(parse_number(name, text, 1, MAX_SIZE));
}

Data parse_data(const std::string& name, const std::string& text) {
  std::vector<std::string> names;
  for (const Data data : ALL_DATA) {
    if (text == to_string(data)) return data;
    names.push_back(to_string(data));
  }
  throw Refused(name + " is '" + text + "' but must be one of " + join(names) + "; did you mean " +
                nearest(text, names) + "?");
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
  throw Refused("--variant is '" + options.variant + "' but the variants here are " + join(names) +
                "; did you mean " + nearest(options.variant, names) + "?");
}

void check_stage(int number, const std::vector<Stage>& stages) {
  std::vector<std::string> numbers;
  for (const Stage& stage : stages) {
    if (stage.number == number) return;
    const std::string text = std::to_string(stage.number);
    if (!is_one_of(text, numbers)) numbers.push_back(text);
  }
  throw Refused("--stage is " + std::to_string(number) + " but the stages here are " +
                join(numbers) + ".");
}

void set_mode(Options* options, Options::Mode mode, const std::string& name) {
  if (options->mode != Options::Mode::run) {
    throw Refused(name + " stands beside another of " + join({FLAGS.begin() + 1, FLAGS.end()}) +
                  "; give one.");
  }
  options->mode = mode;
}

void apply(Options* options, const std::string& name, const std::string& value,
           const std::vector<Stage>& stages) {
  if (name == "--m") options->shape.m = parse_size(name, value);
  if (name == "--n") options->shape.n = parse_size(name, value);
  if (name == "--k") options->shape.k = parse_size(name, value);
  if (name == "--stage") {
    options->stage = static_cast<int>(parse_number(name, value, 0, INT_MAX));
    check_stage(options->stage, stages);
  }
  if (name == "--variant") options->variant = value;
  if (name == "--data") options->data = parse_data(name, value);
  if (name == "--seed") options->seed = parse_number(name, value, 0, INT64_MAX);
  if (name == "--grid") options->grid = static_cast<int>(parse_number(name, value, 0, INT_MAX));
  if (name == "--workspace") options->workspace = parse_number(name, value, 0, 1) == 1;
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
  throw Refused(where + "rung " + number + " has no variant '" + name + "', only " + join(names) +
                "; did you mean " + nearest(name, names) + "?");
}

std::vector<std::string> words_of(const std::string& line, size_t count, const std::string& form) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.size() == count) return words;
  throw Refused("Row '" + line + "': it must be '" + form + "', but has " +
                std::to_string(words.size()) + " words.");
}

BenchRow parse_bench_row(const std::string& line, const std::vector<Stage>& stages) {
  const std::string where = "Row '" + line + "': ";
  const std::vector<std::string> words =
      words_of(line, 6, "<rung> <variant> <m> <n> <k> <burst|sustained>");
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
  return row;
}

bool measured_together(const BenchRow& one, const BenchRow& other, Together together) {
  const bool same = together == Together::rung ? one.stage == other.stage
                                               : &one.stage->kind() == &other.stage->kind();
  return same && one.shape == other.shape && one.regime == other.regime;
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments, const std::vector<Stage>& stages) {
  Options options;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const bool has_value = equals != std::string::npos, takes_value = is_one_of(name, VALUED);
    if (!takes_value && !is_one_of(name, FLAGS)) {
      std::vector<std::string> names = VALUED;
      names.insert(names.end(), FLAGS.begin(), FLAGS.end());
      throw Refused("There is no option '" + argument + "'; did you mean " + nearest(name, names) +
                    "? --help lists them.");
    }
    if (takes_value && !has_value) {
      throw Refused(name + " needs a value behind a '=', as in " + name + "=...");
    }
    if (!takes_value && has_value) {
      throw Refused(argument + ": " + name + " takes no value; write just " + name + ".");
    }
    apply(&options, name, has_value ? argument.substr(equals + 1) : "", stages);
  }
  check_variant(options, stages);
  return options;
}

std::string usage(const std::string& program) {
  return "Usage: " + program +
         " [--stage=N] [--variant=NAME] [--m=M] [--n=N] [--k=K]\n"
         "       [--data=KIND] [--seed=S] [--grid=G] [--workspace=0] [--check]\n"
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
         "  --data=KIND     normal (default), uniform, ints (checked bit for bit) or zeros\n"
         "  --seed=S        seed of the data, default 1\n"
         "  --grid=G        at most G CTAs, for persistent rungs; default 0: as many as fit\n"
         "  --workspace=0   calls have no workspace; variants that need one are left out, or "
         "refused\n"
         "                  if --variant names one; default 1\n"
         "  --check         check the results and time nothing\n"
         "  --list          one line a variant, tab separated, below one that names the columns; "
         "needs\n"
         "                  no GPU. A chooser's kernel is -\n"
         "  --bench-rows    reads rows '<rung> <variant> <m> <n> <k> <burst|sustained>' from "
         "stdin\n"
         "                  and prints a JSON object a line; make bench is its front end\n"
         "  --sweep-rows    the same with less time for each and without cuBLASLt: make sweep\n"
         "  --energy-rows   reads rows '<rung> <variant> <m> <n> <k> <data> <grid>' and says what "
         "the\n"
         "                  board draws; make energy is its front end\n"
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
  return {or_default(options.shape.m), or_default(options.shape.n), or_default(options.shape.k)};
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
  for (const Variant& variant : stage.variants) {
    const bool can_run = options.workspace || variant.kernel.workspace_bytes == 0;
    if (options.variant.empty() ? can_run : options.variant == variant.name) {
      chosen.push_back(&variant);
    }
  }
  return chosen;
}

std::string BenchRow::text() const {
  return format("%d %s %d %d %d %s", stage->number, variant->name, shape.m, shape.n, shape.k,
                to_string(regime));
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
  row.grid = static_cast<int>(parse_number(where + "the grid", words[6], 0, INT_MAX));
  return row;
}

}  // namespace ladder
