// ptx-machine --leave-out: a run that lists the instructions that order others, then one without each of
// them, several at a time. It knows of a report its rule alone, and nothing of PTX.
#include "common/machine/tools/leave_out.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <thread>
#include <tuple>

#include "common/machine/text/lines.h"
#include "common/machine/tools/process.h"

namespace tools {
namespace {

namespace fs = std::filesystem;
using machine::line_of_file;
using machine::quoted;

// As common/machine/code/orderings.h writes it.
struct Ordering {
  bool is_executed = false;
  std::string file;
  uint32_t line = 0;  // 0: not known
  std::string how;
};

// The first thing that is noticed without one; a rule of "" is none.
struct Noticed {
  std::string rule, policy;
};

struct Program {
  std::vector<std::string> policies;
  fs::path path;
  char** arguments;
};

// A folder for a while.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "ptx-machine-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) fail("no folder can be made in " + name + ".");
    folder_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

 private:
  fs::path folder_;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Its place: of many inlined calls the last ones, each on a line of its own with what stands there.
std::vector<std::string> place_of(const Ordering& ordering) {
  const std::string& how = ordering.how;
  const std::string first = " (in ", next = ", in ";
  const size_t outer = how.find(first);
  std::vector<std::string> inner;
  for (size_t at = outer; at != std::string::npos;) {
    const size_t start = at + (at == outer ? first : next).size();
    at = how.find(next, start);
    inner.push_back(how.substr(start, (at == std::string::npos ? how.size() - 1 : at) - start));
  }
  constexpr size_t LONG_LINE = 200, SHOWN = 3;
  if (how.size() <= LONG_LINE) return {how};
  std::vector<std::string> lines = {how.substr(0, outer)};
  if (inner.size() > SHOWN) lines.push_back("...");
  for (size_t i = inner.size() - std::min(SHOWN, inner.size()); i < inner.size(); ++i) {
    const size_t colon = inner[i].rfind(':');
    const auto number = static_cast<uint32_t>(std::atol(inner[i].c_str() + colon + 1));
    lines.push_back("in " + inner[i] + ": " + line_of_file(inner[i].substr(0, colon), number));
  }
  return lines;
}

// By file and line, then in the order of the kernels.
std::vector<Ordering> read_orderings(const std::string& path) {
  std::vector<Ordering> all;
  std::map<std::string, size_t> known;  // by how
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    std::istringstream fields(text);
    std::string executed, line;
    Ordering read;
    std::getline(fields, executed, '\t');
    std::getline(fields, read.file, '\t');
    std::getline(fields, line, '\t');
    std::getline(fields, read.how);
    read.line = static_cast<uint32_t>(std::atol(line.c_str()));
    const auto [found, is_new] = known.emplace(read.how, all.size());
    if (is_new) all.push_back(read);
    all[found->second].is_executed |= executed == "1";
  }
  std::stable_sort(all.begin(), all.end(), [](const Ordering& a, const Ordering& b) {
    return std::tie(a.file, a.line) < std::tie(b.file, b.line);
  });
  return all;
}

// With nothing left out. Returns how long the longest run took.
double run_whole(const Program& program, const Scratch& scratch) {
  using Clock = std::chrono::steady_clock;
  constexpr double FOREVER_S = 1e6;
  setenv("MACHINE_ORDERINGS", scratch.file("orderings").c_str(), 1);
  double longest = 0;
  for (const std::string& policy : program.policies) {
    setenv("MACHINE_POLICY", policy.c_str(), 1);
    const auto start = Clock::now();
    const std::string output = scratch.file("whole");
    const int code = run_for(FOREVER_S, output, program.path, program.arguments);
    longest = std::max(longest, std::chrono::duration<double>(Clock::now() - start).count());
    if (code == 0) continue;
    std::fputs(text_of(output).c_str(), stderr);
    fail("with nothing left out the program ends with exit code " + std::to_string(code) +
         " under policy " + policy + ": mend that first, or choose other policies.");
  }
  unsetenv("MACHINE_ORDERINGS");
  return longest;
}

// The rule of the first report as JSON, or "".
std::string first_rule(const std::string& json) {
  const std::string key = "\"rule\": \"";
  const size_t at = json.find(key);
  if (at == std::string::npos) return "";
  const size_t start = at + key.size();
  return json.substr(start, json.find('"', start) - start);
}

Noticed try_without(const Ordering& ordering, const Program& program, double limit_s,
                    const Scratch& scratch, const std::string& name) {
  setenv("MACHINE_LEAVE_OUT", ordering.how.c_str(), 1);
  const std::string json = scratch.file(name + ".json"), output = scratch.file(name + ".out");
  setenv("MACHINE_JSON", json.c_str(), 1);
  for (const std::string& policy : program.policies) {
    setenv("MACHINE_POLICY", policy.c_str(), 1);
    const int code = run_for(limit_s, output, program.path, program.arguments);
    const std::string rule = first_rule(text_of(json));
    if (code == 0 && rule.empty()) continue;
    if (!rule.empty()) return {rule, policy};
    return {code == TIMED_OUT ? "does not end" : "exit code " + std::to_string(code), policy};
  }
  return {};
}

// Each of `all`, as many at a time as there are cores; `show` gets them in their order.
template <class Show>
void try_each(const std::vector<Ordering>& all, const Program& program, double limit_s,
              const Scratch& scratch, const Show& show) {
  const size_t at_once = std::max(1u, std::thread::hardware_concurrency());
  setenv("MACHINE_THREADS", "1", 0);
  std::map<pid_t, size_t> running;
  std::vector<bool> has_ended(all.size());
  const auto result = [&](size_t i) { return scratch.file(std::to_string(i) + ".result"); };
  size_t shown = 0;
  for (size_t next = 0; shown < all.size();) {
    while (next < all.size() && running.size() < at_once) {
      std::fflush(nullptr);
      const pid_t child = fork();
      if (child < 0) fail("no process can be started.");
      if (child == 0) {
        const Noticed noticed =
            try_without(all[next], program, limit_s, scratch, std::to_string(next));
        std::ofstream(result(next)) << noticed.rule << '\n' << noticed.policy << '\n';
        _exit(0);
      }
      running[child] = next++;
    }
    const pid_t ended = wait(nullptr);
    const auto found = running.find(ended);
    if (found == running.end()) continue;
    has_ended[found->second] = true;
    running.erase(found);
    for (; shown < all.size() && has_ended[shown]; ++shown) {
      std::ifstream file(result(shown));
      Noticed noticed;
      std::getline(file, noticed.rule);
      std::getline(file, noticed.policy);
      show(shown, noticed);
    }
  }
}

// Of one that was not executed, `noticed` is null.
std::string json_of(const Ordering& one, const Noticed* noticed) {
  std::ostringstream json;
  json << "{\"executed\": " << (noticed == nullptr ? "false" : "true")
       << ", \"noticed\": " << quoted(noticed == nullptr ? "" : noticed->rule)
       << ", \"policy\": " << quoted(noticed == nullptr ? "" : noticed->policy)
       << ", \"instruction\": " << quoted(one.how.substr(0, one.how.find(' ')))
       << ", \"file\": " << quoted(one.file) << ", \"line\": " << one.line
       << ", \"source\": " << quoted(line_of_file(one.file, one.line))
       << ", \"place\": " << quoted(one.how) << "}\n";
  return json.str();
}

// `json`: a file, or "-" for stdout in place of the text; "" for none.
int show_each(const std::vector<Ordering>& all, const Program& program, double longest_s,
              const Scratch& scratch, const std::string& json) {
  std::vector<Ordering> executed, others;
  for (const Ordering& one : all) (one.is_executed ? executed : others).push_back(one);
  const bool as_text = json != "-";
  const auto add_json = [&](const Ordering& one, const Noticed* noticed) {
    const std::string line = json_of(one, noticed);
    if (!as_text) std::fputs(line.c_str(), stdout);
    if (as_text && !json.empty()) std::ofstream(json, std::ios::app) << line;
  };
  if (as_text) {
    std::printf(
        "Instructions that order others and were executed: %zu. Without each of them, under %s, "
        "the\n"
        "first thing that is noticed:\n\n",
        executed.size(), joined(program.policies).c_str());
  }
  std::vector<std::string> unnoticed;
  const auto show = [&](size_t i, const Noticed& noticed) {
    add_json(executed[i], &noticed);
    const std::string number = std::to_string(i + 1);
    if (noticed.rule.empty()) unnoticed.push_back(number);
    const std::string what =
        noticed.rule.empty() ? "NOTHING" : noticed.rule + ", " + noticed.policy;
    if (!as_text) return;
    std::printf("%3s  %-26s %s\n", number.c_str(), what.c_str(),
                line_of_file(executed[i].file, executed[i].line).c_str());
    for (const std::string& line : place_of(executed[i])) std::printf("%32s%s\n", "", line.c_str());
    std::fflush(stdout);
  };
  constexpr double SHORTEST_S = 30, TIMES = 20;
  try_each(executed, program, std::max(SHORTEST_S, TIMES * longest_s), scratch, show);
  for (const Ordering& one : others) add_json(one, nullptr);
  if (!as_text) return 0;
  std::printf("\nNoticed: %zu of %zu.\n", executed.size() - unnoticed.size(), executed.size());
  if (!unnoticed.empty()) {
    std::printf(
        "Not noticed: %s. This run does not need them, or another input, policy or seed "
        "shows it.\n",
        joined(unnoticed).c_str());
  }
  if (!others.empty()) std::printf("Not executed, and so not tried:\n");
  for (const Ordering& one : others) std::printf("     %s\n", one.how.c_str());
  return 0;
}

}  // namespace

int leave_out(const std::string& which, std::vector<std::string> policies, const fs::path& program,
              char** arguments) {
  if (policies.empty()) policies = {"eager", "lazy", "random"};
  const char* const json = std::getenv("MACHINE_JSON");
  const std::string list_as_json = json == nullptr ? "" : json;
  unsetenv("MACHINE_JSON");
  const Program whole{policies, program, arguments};
  static const Scratch scratch;  // fail() ends without those that are not
  const double longest_s = run_whole(whole, scratch);
  const std::vector<Ordering> all = read_orderings(scratch.file("orderings"));
  if (which == "each") return show_each(all, whole, longest_s, scratch, list_as_json);
  size_t number = 0;
  for (const Ordering& one : all) {
    if (!one.is_executed || std::to_string(++number) != which) continue;
    std::fprintf(stderr, "ptx-machine: without %s:\n", one.how.c_str());
    setenv("MACHINE_LEAVE_OUT", one.how.c_str(), 1);
    int code = 0;
    for (const std::string& policy : policies) {
      setenv("MACHINE_POLICY", policy.c_str(), 1);
      code = run_once(program, arguments);
      std::fprintf(stderr, "ptx-machine: policy %s: exit code %d\n", policy.c_str(), code);
      if (code != 0) break;
    }
    return code;
  }
  if (number == 0)
    fail("--leave-out is " + which + ", but nothing that orders others was executed.");
  fail("--leave-out is " + which + ", but there are 1 to " + std::to_string(number) +
       "; --leave-out=each lists them.");
}

}  // namespace tools
