#include "common/machine/check/reports.h"

#include <cstdio>

#include "common/machine/run/settings.h"

namespace machine {

void Reports::add(const std::string& text) {
  const std::lock_guard lock(mutex_);
  texts_.push_back(text);
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", text.c_str());
}

Reports& reports() {
  static Reports* const instance =
      new Reports;  // never destroyed: programs launch from destructors
  return *instance;
}

void report_race(const Kernel& kernel, const Rule& rule, uint32_t pc, uint32_t other_pc,
                 const std::function<std::string()>& text) {
  if (settings().ignored.contains(rule.name)) return;
  if (!settings().all_reports) throw Error(Error::Kind::race, text(), rule);
  if (reports().is_new(kernel.name, rule, pc, other_pc)) reports().add(text());
}

}  // namespace machine
