// Reads the MACHINE_ variables, and refuses what makes no sense. It knows nothing of who asks.
#include "common/machine/run/settings.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace machine {
namespace {

constexpr int EXIT_USAGE = 2;

std::string text_from(const char* name) {  // "": it is not set
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

uint64_t number_from(const char* name, uint64_t fallback, uint64_t least, uint64_t most) {
  const std::string text = text_from(name);
  if (text.empty()) return fallback;
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || error != std::errc() || value < least || value > most) {
    throw Error(Error::Kind::refused,
                joined(name, " is '", text, "' but must be a whole number from ", least, " to ",
                       most, ", as ", fallback, "."));
  }
  return value;
}

Policy policy_from(const char* name) {
  Policy policy = Policy::eager;
  const std::string text = text_from(name);
  if (text.empty() || find_policy(text, &policy)) return policy;
  throw Error(Error::Kind::refused,
              joined(name, " is '", text, "' but must be eager, lazy or random."));
}

constexpr const char* NAMES[] = {"MACHINE_POLICY",    "MACHINE_SEED",     "MACHINE_CHECK",
                                 "MACHINE_SMS",       "MACHINE_THREADS",  "MACHINE_STATS",
                                 "MACHINE_TRACE",     "MACHINE_REPORTS",  "MACHINE_IGNORE",
                                 "MACHINE_POISON",    "MACHINE_JSON",     "MACHINE_PROGRESS",
                                 "MACHINE_ORDERINGS", "MACHINE_LEAVE_OUT"};

void check_names() {
  std::string known;
  for (const char* const name : NAMES) known += (known.empty() ? "" : ", ") + std::string(name);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("MACHINE_")) continue;
    if (std::find(std::begin(NAMES), std::end(NAMES), name) != std::end(NAMES)) continue;
    throw Error(Error::Kind::refused,
                joined(name, " is no setting of the PTX machine: it has ", known, "."));
  }
}

bool reports_all(const char* name) {
  const std::string text = text_from(name);
  if (text.empty() || text == "first" || text == "all") return text == "all";
  throw Error(Error::Kind::refused, joined(name, " is '", text, "' but must be first or all."));
}

// "proxy-war,never-written"
std::set<std::string> rules_from(const char* name) {
  std::set<std::string> rules;
  std::istringstream words(text_from(name));
  for (std::string word; std::getline(words, word, ',');) {
    std::string known;
    for (const Rule& rule : rule::IGNORABLE) {
      if (word == rule.name) rules.insert(word);
      known += (known.empty() ? "" : ", ") + std::string(rule.name);
    }
    if (rules.contains(word)) continue;
    throw Error(Error::Kind::refused,
                joined(name, ": there is no rule '", word, "'; there are ", known, "."));
  }
  return rules;
}

// Files are refused here, not at the first launch that needs them.
void check_input(const char* name) {
  const std::string path = text_from(name);
  if (path.empty() || std::ifstream(path).peek() != EOF) return;
  throw Error(Error::Kind::refused, joined("PTX machine: ", name, " is '", path,
                                           "', which cannot be read or is empty; name a file of "
                                           "PTX, or none."));
}

std::string output_from(const char* name) {
  const std::string path = text_from(name);
  if (path.empty() || std::ofstream(path, std::ios::app)) return path;
  throw Error(Error::Kind::refused, joined("PTX machine: ", name, " is '", path,
                                           "', which cannot be written; name a file in a folder "
                                           "that is there."));
}

Settings read() {
  check_names();
  check_input("REPLACE_PTX");
  Settings made;
  made.policy = policy_from("MACHINE_POLICY");
  made.seed = number_from("MACHINE_SEED", 1, 0, UINT64_MAX);
  made.check = number_from("MACHINE_CHECK", 1, 0, 1) != 0;
  made.all_reports = reports_all("MACHINE_REPORTS");
  made.ignored = rules_from("MACHINE_IGNORE");
  made.poison = number_from("MACHINE_POISON", 1, 0, 1) != 0;
  made.stats = number_from("MACHINE_STATS", 0, 0, 1) != 0;
  made.sms = static_cast<uint32_t>(number_from("MACHINE_SMS", 132, 1, 1024));
  const uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
  made.threads = static_cast<uint32_t>(number_from("MACHINE_THREADS", cores, 1, 1024));
  made.json = text_from("MACHINE_JSON");
  const bool somebody_looks = isatty(STDERR_FILENO) != 0 && made.json != "-";
  constexpr uint64_t OFTEN_S = 30, MOST_S = 86400;
  made.progress_s = static_cast<uint32_t>(
      number_from("MACHINE_PROGRESS", somebody_looks ? OFTEN_S : 0, 0, MOST_S));
  made.trace = output_from("MACHINE_TRACE");
  made.orderings = output_from("MACHINE_ORDERINGS");
  made.left_out = text_from("MACHINE_LEAVE_OUT");
  return made;
}

}  // namespace

bool find_policy(std::string_view name, Policy* policy) {
  for (size_t i = 0; i < std::size(POLICIES); ++i) {
    if (name != POLICIES[i]) continue;
    *policy = static_cast<Policy>(i);
    return true;
  }
  return false;
}

Settings& settings() {
  static Settings instance = [] {
    try {
      return read();
    } catch (const Error& error) {  // there is nobody to return it to
      std::fflush(nullptr);
      std::fprintf(stderr, "%s\n", error.what());
      _exit(EXIT_USAGE);
    }
  }();
  return instance;
}

}  // namespace machine
