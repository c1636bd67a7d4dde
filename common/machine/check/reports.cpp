// Shows reports. What they say is the checker's and the handlers'.
#include "common/machine/check/reports.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>
#include <tuple>

#include "common/machine/run/settings.h"
#include "common/machine/run/state.h"
#include "common/machine/text/lines.h"

namespace machine {
namespace {

// What stands behind "What would order them: ", "What is missing: " or the first "Likely: ".
std::string advice_in(const std::string& text) {
  size_t line = text.find("\n  What ");
  if (line == std::string::npos) line = text.find("\n    Likely: ");
  if (line == std::string::npos) return "";
  const size_t begin = text.find(": ", line) + 2;
  return text.substr(begin, text.find('\n', begin) - begin);
}

struct Shown {
  std::mutex mutex;
  // Pairs of pcs, and what stands there, with rule and kernel. The kernel comes last: names of templates
  // are long to compare.
  std::set<std::tuple<uint32_t, uint32_t, std::string, std::string>, std::less<>> pairs;
  std::set<std::tuple<std::string, std::string, std::string, std::string>> places;
  std::vector<std::string> texts;
};

Shown& shown() {
  static Shown* const instance = new Shown;  // never destroyed: programs launch from destructors
  return *instance;
}

constexpr const char* SEVERITIES[] = {"race", "undefined", "fatal"};

// In one write, so that lines of several processes do not mix.
void append(const std::string& path, const std::string& line) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const bool written =
      file >= 0 && write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (file >= 0) close(file);
  if (!written)
    std::fprintf(stderr, "PTX machine: MACHINE_JSON is %s, which cannot be written.\n",
                 path.c_str());
}

}  // namespace

std::string json_of(const Error& report) {
  const std::string text = report.what();
  const Origin& of = report.origin;
  const std::pair<const char*, std::string> fields[] = {
      {"rule", quoted(report.rule.name)},
      {"severity", quoted(SEVERITIES[static_cast<size_t>(report.rule.severity)])},
      {"message", quoted(text.substr(0, text.find('\n')))},
      {"advice", quoted(advice_in(text))},
      {"file", quoted(of.place.file)},
      {"line", std::to_string(of.place.line)},
      {"earlier_file", quoted(of.earlier.file)},
      {"earlier_line", std::to_string(of.earlier.line)},
      {"kernel", quoted(of.kernel)},
      {"cta", "[" + of.cta + "]"},
      {"warp", of.warp < 0 ? "null" : std::to_string(of.warp)},
      {"policy", quoted(POLICIES[static_cast<size_t>(settings().policy)])},
      {"text", quoted(text)}};
  std::string json;
  for (const auto& [name, value] : fields) {
    json += joined(json.empty() ? "{" : ", ", quoted(name), ": ", value);
  }
  return json + "}";
}

void show(const Error& report) {
  std::fflush(stdout);
  const std::string& json = settings().json;
  const std::string line = json.empty() ? "" : json_of(report) + "\n";
  if (json == "-") {
    std::fputs(line.c_str(), stderr);
    return;
  }
  std::fprintf(stderr, "%s\n", report.what());
  if (!json.empty()) append(json, line);
}

void report_once(const std::string& kernel, const Rule& rule, uint32_t pc, uint32_t other_pc,
                 const std::function<Error()>& make) {
  if (settings().ignored.contains(rule.name)) return;
  if (!settings().all_reports) throw make();
  const std::lock_guard lock(shown().mutex);
  const auto [low, high] = std::minmax(pc, other_pc);
  if (shown().pairs.contains(
          std::tuple(low, high, std::string_view(rule.name), std::string_view(kernel)))) {
    return;
  }
  shown().pairs.emplace(low, high, rule.name, kernel);
  const Error report = make();
  // An unrolled loop has many pairs that read alike.
  const auto [first, second] = std::minmax(report.origin.place.how, report.origin.earlier.how);
  const bool has_place = !second.empty();
  if (has_place && !shown().places.emplace(first, second, rule.name, kernel).second) return;
  shown().texts.emplace_back(report.what());
  show(report);
}

std::vector<std::string> reports_so_far() {
  const std::lock_guard lock(shown().mutex);
  return shown().texts;
}

void forget_reports() {
  const std::lock_guard lock(shown().mutex);
  shown().pairs.clear();
  shown().places.clear();
  shown().texts.clear();
}

}  // namespace machine
