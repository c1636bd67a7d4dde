// Where reports go: to stderr, and as JSON, one object a line, to MACHINE_JSON. Those that do not end
// a launch (MACHINE_REPORTS=all) are shown once for each pair of instructions. It knows nothing of
// what they say.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/machine/run/error.h"

namespace machine {

struct Warp;

class Reports {
 public:
  // Whether it is the first of this rule and these two instructions of the kernel, in whichever order.
  bool is_new(const std::string& kernel, const Rule& rule, uint32_t pc, uint32_t other_pc);
  void add(const Error& report);  // shows it
  std::vector<std::string> texts();
  void clear();

 private:
  std::mutex mutex_;
  std::set<std::tuple<std::string, std::string, uint32_t, uint32_t>> known_;
  std::vector<std::string> texts_;
};

Reports& reports();  // of the process

// On stderr, or as JSON, or both: as the settings say.
void show(const Error& report);
// {"rule": "shared-race", "severity": "race", …}
std::string json_of(const Error& report);

// Throws the report, or shows it and goes on, or leaves it out, as the settings say. It is made only
// if it is wanted.
void report_once(const std::string& kernel, const Rule& rule, uint32_t pc, uint32_t other_pc,
                 const std::function<Error()>& make);

}  // namespace machine
