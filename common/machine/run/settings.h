// What the environment says, read once; tests set it.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "common/machine/run/state.h"

namespace machine {

struct Settings {
  Policy policy = Policy::eager;  // MACHINE_POLICY: eager, lazy, random
  uint64_t seed = 1;              // MACHINE_SEED, of the random policy
  bool check = true;              // MACHINE_CHECK
  uint32_t sms = 132;             // MACHINE_SMS; how many CTAs each holds, ctas_per_sm() says
  uint32_t threads = 1;           // MACHINE_THREADS; default: the host's cores
  bool stats = false;             // MACHINE_STATS: a line on stderr for each launch
  uint32_t progress_s = 0;        // MACHINE_PROGRESS: how often a launch says how far it is
  bool all_reports = false;       // MACHINE_REPORTS: first (the first one ends the launch), all
  std::set<std::string> ignored;  // MACHINE_IGNORE: names of rules, of rules.h
  bool poison = true;             // MACHINE_POISON: device memory begins as NaN, not as 0
  std::string json;       // MACHINE_JSON: file for reports as JSON; -: to stderr, not as text
  std::string orderings;  // MACHINE_ORDERINGS: file for a list of what orders others: orderings.h
  std::string left_out;   // MACHINE_LEAVE_OUT: which of them is left out, as the list names it
  std::string trace;      // MACHINE_TRACE: file for the timeline, under eager; empty: none
};

// Throws Error (refused) at the first call if a variable has a value that it cannot have, or if there
// is a MACHINE_ variable of another name.
Settings& settings();

// False if there is none of this name.
bool find_policy(std::string_view name, Policy* policy);

}  // namespace machine
