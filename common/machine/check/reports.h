// Reports that do not end a launch (MACHINE_REPORTS=all): each distinct pair of instructions once.
#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/machine/launch.h"

namespace machine {

class Reports {
 public:
  // Whether it is the first of this rule and these two instructions of the kernel, in whichever order.
  bool is_new(const std::string& kernel, const Rule& rule, uint32_t pc, uint32_t other_pc) {
    const std::lock_guard lock(mutex_);
    return known_.emplace(kernel, rule.name, std::min(pc, other_pc), std::max(pc, other_pc)).second;
  }
  void add(const std::string& text);  // prints it
  std::vector<std::string> texts() {
    const std::lock_guard lock(mutex_);
    return texts_;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    known_.clear();
    texts_.clear();
  }

 private:
  std::mutex mutex_;
  std::set<std::tuple<std::string, std::string, uint32_t, uint32_t>> known_;
  std::vector<std::string> texts_;
};

Reports& reports();  // of the process

// Throws the report, or prints it and goes on, or leaves it out, as the settings say.
void report_race(const Kernel& kernel, const Rule& rule, uint32_t pc, uint32_t other_pc,
                 const std::function<std::string()>& text);

}  // namespace machine
