// What a call is told that breaks a rule.
#pragma once

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "common/host/registry.h"
#include "common/host/run.h"
#include "tests/support/draw.h"

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

// Sizes and leading dimensions of a product.
template <class Args, class Sizes, class Lds>
void draw_sizes(Draw& draw, const Sizes& sizes, const Lds& lds, Args* args) {
  for (int* size : {&args->m, &args->n, &args->k}) *size = draw(sizes);
  for (long long* ld : {&args->lda, &args->ldb, &args->ldd}) *ld = draw(lds);
}

// Of calls with any combination of mistakes: whoever follows what is said of one ends in a call that
// nothing is wrong with. make(draw) makes a call; follow(text, &args) does what the text says;
// wrong_with(args) is that text. Returns how many of the 20,000 were refused.
template <class Make, class Follow, class WrongWith>
int refused_and_mended(Make make, Follow follow, WrongWith wrong_with) {
  Draw draw;
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    auto args = make(draw);
    const std::string before = wrong_with(args);
    refused += !before.empty();
    follow(before, &args);
    const std::string after = wrong_with(args);
    if (!after.empty()) {
      CAPTURE(before);
      CAPTURE(after);
      FAIL("the suggestions do not work");
    }
  }
  return refused;
}

template <class Make, class Follow>
int refused_and_mended(Make make, Follow follow) {
  return refused_and_mended(make, follow, [](const auto& args) { return check(args); });
}

}  // namespace ladder_test
