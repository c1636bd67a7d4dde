// What a measurement is about: which product, and in which thermal state of the chip.
#pragma once

#include <array>
#include <compare>
#include <string>

#include "common/host/data.h"

namespace ladder {

struct Shape {
  int m = 0, n = 0, k = 0;
  // Of each of the kind's parameters (common/host/problem.h) which value, counted from 0.
  std::array<int, 4> parameters{};
  auto operator<=>(const Shape&) const = default;
  double flop() const { return 2.0 * m * n * k; }  // padding is not counted
};

inline std::string to_string(const Shape& shape) {
  return std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
}

// burst      a cool chip at its highest clock, for about 12 ms
// sustained  a chip that has been at its power limit for a while
enum class Regime { burst, sustained };

inline const char* to_string(Regime regime) {
  return regime == Regime::burst ? "burst" : "sustained";
}

inline const char* to_string(Data data) {
  switch (data) {
    case Data::normal:
      return "normal";
    case Data::uniform:
      return "uniform";
    case Data::ints:
      return "ints";
    case Data::index:
      return "index";
    default:
      return "zeros";
  }
}

}  // namespace ladder
