// build/limits: measures what this GPU can do at most, one JSON line a ceiling. docs/limits.md says
// what each is, scripts/limits.py runs it.
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "common/host/bench.h"
#include "common/host/cli.h"
#include "common/host/error.h"
#include "common/host/run.h"
#include "common/host/symbols.h"
#include "common/host/text.h"
#include "common/host/watchdog.h"
#include "common/host/where.h"
#include "common/limits/limit.h"
#include "common/limits/measure.h"

namespace limits {
namespace {

using ladder::JsonObject;
using ladder::Refused;
using ladder::Regime;

const char USAGE[] =
    "usage: build/limits [--list | --env | --check-only | --places] [NAME[/burst | /sustained] "
    "...]\n"
    "  measures the ceilings of this GPU: by default all, in burst and then sustained\n"
    "  --check-only  runs each kernel on data whose result is known and times nothing; without a\n"
    "                GPU on the PTX machine\n"
    "  --list        every limit as JSON: name, group, data, what it is and its kernel\n"
    "  --places      the SMs of each GPC, and the GPC of each CTA of some launches\n"
    "  --env         only the first line of a measurement: the GPU and the versions\n"
    "One JSON line a ceiling on stdout, progress on stderr. Exit codes: 0 ok, 1 wrong result, 2\n"
    "usage, 3 no usable device, 4 hang.\n";

struct Row {
  const Entry* entry;
  Regime regime;
  std::string text() const { return entry->name + std::string("/") + ladder::to_string(regime); }
};

enum class Mode { measure, env, check, list, places, help };

std::vector<Entry> all_limits() {
  std::vector<Entry> entries = tensor_limits();
  for (const auto& others : {beside_limits(), copy_limits()}) {
    entries.insert(entries.end(), others.begin(), others.end());
  }
  return entries;
}

const Entry& find(const std::vector<Entry>& entries, const std::string& name) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    if (name == entry.name) return entry;
    names.push_back(entry.name);
  }
  throw Refused("There is no limit '" + name + "', only " + ladder::join(names) + "; " +
                ladder::suggestion(name, names));
}

void add_rows(std::vector<Row>* rows, const std::vector<Entry>& entries, const std::string& word) {
  const size_t slash = word.find('/');
  const std::string name = word.substr(0, slash);
  const Entry& entry = find(entries, name);
  const std::string regime = slash == std::string::npos ? "" : word.substr(slash + 1);
  if (slash != std::string::npos && regime != "burst" && regime != "sustained") {
    throw Refused("'" + word + "' asks for the regime '" + regime +
                  "' but it must be one of burst, sustained; " +
                  ladder::suggestion(regime, {"burst", "sustained"}));
  }
  if (regime != "sustained") rows->push_back({&entry, Regime::burst});
  if (regime != "burst") rows->push_back({&entry, Regime::sustained});
}

Mode parse(const std::vector<std::string>& arguments, const std::vector<Entry>& entries,
           std::vector<Row>* rows) {
  const std::map<std::string, Mode> options = {{"--list", Mode::list},
                                               {"--env", Mode::env},
                                               {"--check-only", Mode::check},
                                               {"--places", Mode::places},
                                               {"--help", Mode::help}};
  std::vector<std::string> names;
  for (const auto& [name, mode] : options) names.push_back(name);
  Mode chosen = Mode::measure;
  for (const std::string& word : arguments) {
    if (word.rfind('-', 0) != 0) {
      add_rows(rows, entries, word);
      continue;
    }
    const auto option = options.find(word);
    if (option == options.end()) {
      throw Refused("There is no option '" + word + "', only " + ladder::join(names) + "; " +
                    ladder::suggestion(word, names));
    }
    if (chosen != Mode::measure) {
      throw Refused(word + " stands beside another of " + ladder::join(names) + "; give one.");
    }
    chosen = option->second;
  }
  if (rows->empty()) {
    for (const Regime regime : {Regime::burst, Regime::sustained}) {
      for (const Entry& entry : entries) rows->push_back({&entry, regime});
    }
  }
  return chosen;
}

void print(const JsonObject& object) {
  std::printf("%s\n", object.line().c_str());
  std::fflush(stdout);
}

class Stream {
 public:
  Stream() {
    ladder::check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                       "cudaStreamCreateWithFlags");
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

JsonObject head(const Row& row) {
  JsonObject line;
  line.add("name", row.entry->name)
      .add("what", row.entry->what)
      .add("group", to_string(row.entry->group))
      .add("data", ladder::to_string(row.entry->data))
      .add("regime", ladder::to_string(row.regime));
  return line;
}

// Rates in TFLOPS or TB/s. A wrong kernel has none.
JsonObject result_line(const Row& row, int ctas, const Outcome& outcome) {
  const Entry& entry = *row.entry;
  const bool is_flop = entry.group == Group::tensor, right = outcome.failure.empty();
  const Measurement& m = outcome.measurement;
  JsonObject line = head(row);
  const auto add = [&](const char* key, bool known, double value) {
    known ? line.add(key, value) : line.add_null(key);
  };
  line.add("unit", is_flop ? "TFLOPS" : "TB/s")
      .add("per_clock_unit", is_flop ? "FLOP/clk/SM" : "B/clk/SM");
  add("value", right, m.rate * 1e-12);
  add("p10", right, m.p10 * 1e-12);
  add("p90", right, m.p90 * 1e-12);
  add("per_clock", right, m.per_clock);
  add("l2_read_value", right && entry.l2_share > 0, m.rate * 1e-12 * entry.l2_share);
  add("l2_read_per_clock", right && entry.l2_share > 0, m.per_clock * entry.l2_share);
  add("sm_mhz", right, m.sm_mhz);
  add("busy", right, m.busy);
  line.add("sms", ctas).add("rounds", right ? m.rounds : 0).add("verified", right);
  if (!right) line.add("error", outcome.failure);
  return line;
}

bool run_row(const Row& row, bool only_check, const Stream& stream) {
  const ladder::Watchdog watchdog("limit " + row.text());
  print(JsonObject().add("running", row.text()));
  const std::unique_ptr<Limit> limit = row.entry->make(stream.get());
  if (!only_check) {
    const Outcome outcome = measure(*limit, row.regime, stream.get());
    print(result_line(row, limit->ctas(), outcome));
    if (outcome.failure.empty()) return true;
    std::fprintf(stderr, "FAIL %s: %s\n", row.text().c_str(), outcome.failure.c_str());
    return false;
  }
  const std::string failure = check_only(*limit, stream.get());
  JsonObject line;
  line.add("name", row.entry->name).add("verified", failure.empty());
  if (!failure.empty()) line.add("error", failure);
  print(line);
  std::fprintf(stderr, "%-18s %s\n", row.entry->name,
               failure.empty() ? "ok" : ("FAIL: " + failure).c_str());
  return failure.empty();
}

int run(const std::string& program, const std::vector<std::string>& arguments) {
  const std::vector<Entry> entries = all_limits();
  std::vector<Row> rows;
  const Mode mode = parse(arguments, entries, &rows);
  if (mode == Mode::help) {
    std::fputs(USAGE, stdout);
    return 0;
  }
  if (mode == Mode::list) {
    std::vector<std::string> lines;
    for (const Entry& entry : entries) {
      JsonObject line;
      line.add("name", entry.name).add("group", to_string(entry.group));
      line.add("data", ladder::to_string(entry.data)).add("what", entry.what);
      line.add("kernel", ladder::kernel_name(entry.kernel));
      lines.push_back("  " + line.line());
    }
    std::printf("[\n%s\n]\n", ladder::join(lines, ",\n").c_str());
    return 0;
  }
  if (mode == Mode::places) {
    ladder::choose_device(program, arguments);
    if (ladder::on_machine()) std::fputs("PTX machine: its GPCs mean nothing.\n", stderr);
    print_places();
    return 0;
  }
  if (mode == Mode::check) {
    ladder::choose_device(program, arguments);
    if (ladder::on_machine()) {
      std::fputs("PTX machine: results, races and hangs are checked; no times.\n", stderr);
    }
    std::erase_if(rows, [](const Row& row) { return row.regime == Regime::sustained; });
  } else if (ladder::machine_is_wanted()) {
    throw ladder::NoDevice(
        "A limit is measured, and the PTX machine says nothing about time; it needs a GPU of "
        "compute capability 9.0. --check-only runs without one.");
  }

  const ladder::DeviceInfo device = ladder::query_device();
  if (mode != Mode::check) {
    const ladder::Environment environment = ladder::query_environment(device);
    JsonObject env;
    env.add("gpu", environment.gpu)
        .add("driver", environment.driver)
        .add("toolkit", environment.toolkit)
        .add("sms", device.sm_count)
        .add("l2_bytes", device.l2_bytes);
    print(JsonObject().add("env", env));
    if (mode == Mode::env) return 0;
  }
  const Stream stream;
  bool right = true;
  for (const Row& row : rows) right = run_row(row, mode == Mode::check, stream) && right;
  return right ? 0 : 1;
}

int fail(int code, const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  return code;
}

}  // namespace
}  // namespace limits

int main(int argc, char** argv) {
  try {
    ladder::check_settings();
    const int code = limits::run(argv[0], std::vector<std::string>(argv + 1, argv + argc));
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    return limits::fail(2, "What the program prints cannot be written: is the disk full?");
  } catch (const ladder::Refused& error) {
    return limits::fail(2, error.what());
  } catch (const ladder::NoDevice& error) {
    return limits::fail(3, error.what());
  } catch (const std::exception& error) {
    const bool is_hang = cudaPeekAtLastError() == cudaErrorLaunchTimeout;
    return limits::fail(is_hang ? 4 : 1, std::string("FAIL: ") + error.what());
  }
}
