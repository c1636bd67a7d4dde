// The one exception of the machine. what() is the whole report for the user, ready to print.
#pragma once

#include <stdexcept>
#include <string>

#include "common/machine/check/rules.h"

namespace machine {

struct Error : std::runtime_error {
  // refused: PTX or a launch that the machine does not support, or that is not legal
  // fault: an access that a GPU would trap on, or a `trap`
  // race: two accesses that nothing orders, or a read of what was never written
  // hang: a deadlock or a livelock
  enum class Kind { refused, fault, race, hang };

  Error(Kind kind, const std::string& report, const Rule& rule = rule::REFUSED)
      : std::runtime_error(report), kind(kind), rule(rule) {}

  Kind kind;
  Rule rule;
};

}  // namespace machine
