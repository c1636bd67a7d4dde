// What a call is told that breaks a rule.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "common/host/registry.h"
#include "common/host/run.h"

namespace ladder_test {

// All that is wrong with a call, one sentence a line, for a kernel that asks for nothing itself.
template <class Args>
std::string check(const Args& args) {
  ladder::Variant variant{};
  variant.name = "plain";
  variant.kernel.launch = +[](const Args&) {};
  variant.kernel.bn = 64;
  return ladder::argument_violations(variant, args);
}

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> list;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) list.push_back(line);
  return list;
}

}  // namespace ladder_test
