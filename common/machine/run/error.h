// The one exception of the machine. what() is the whole report for the user, ready to print. It knows
// nothing of how reports are shown.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "common/machine/check/rules.h"

namespace machine {

// What a report is of, for programs that read it.
struct Origin {
  std::string kernel;  // as reports name it
  std::string cta;     // "1,0,0"
  int warp = -1;       // in the CTA
  // Of the instruction that is to blame last, and of the one before it that it conflicts with.
  struct Place {
    std::string file;
    uint32_t line = 0;  // 0: not known
    std::string how;    // the instruction, and every call around it that was inlined
  } place, earlier;
};

// A sentence of texts and numbers.
template <class... Parts>
std::string joined(const Parts&... parts) {
  std::string text;
  const auto add = [&text](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  return text;
}

struct Error : std::runtime_error {
  // refused: PTX or a launch that the machine does not support, or that is not legal
  // fault: an access that a GPU would trap on, or a `trap`
  // race: two accesses that nothing orders, or a read of what was never written
  // hang: a deadlock or a livelock
  enum class Kind { refused, fault, race, hang };

  Error(Kind kind, const std::string& report, const Rule& rule = rule::REFUSED, Origin origin = {})
      : std::runtime_error(report), kind(kind), rule(rule), origin(std::move(origin)) {}

  Kind kind;
  Rule rule;
  Origin origin;
};

}  // namespace machine
