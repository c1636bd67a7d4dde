// Where reports go: to stderr, and as JSON, one object a line, to MACHINE_JSON. It knows nothing of what
// they say.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/machine/run/error.h"

namespace machine {

// On stderr, or as JSON, or both: as the settings say.
void show(const Error& report);
// {"rule": "shared-race", "severity": "race", …}
std::string json_of(const Error& report);

// Throws the report, or shows it and goes on (MACHINE_REPORTS=all), once for each rule and pair of
// instructions of the kernel that stand at other places, or leaves it out, as the settings say. It is
// made only if it is wanted.
void report_once(const std::string& kernel, const Rule& rule, uint32_t pc, uint32_t other_pc,
                 const std::function<Error()>& make);
// The texts of those behind which this process went on.
std::vector<std::string> reports_so_far();
void forget_reports();

}  // namespace machine
