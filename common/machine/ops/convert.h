// What cvt says of a conversion, and what makes a packed number of two.
#pragma once

#include "common/machine/ops/elementwise.h"

namespace machine::elementwise {

// Registers may be wider than their types: results are extended by the type's sign.
struct Conversion {
  Type to, from;
  Rounding rounding : 4;
  bool ftz : 1, sat : 1, relu : 1, satfinite : 1;
  bool integral;  // .rni and its like

  bool is_plain() const {
    return rounding == Rounding::NEAREST && !ftz && !sat && !relu && !satfinite && !integral;
  }
};

Conversion conversion_of(const Opcode& opcode);

// Packed: the first source becomes the upper half.
template <Format F, uint32_t SHIFT>
constexpr auto PACK = [](Conversion how, float a, float b) {
  const auto code = [how](float x) { return encode<F>(x, how.rounding, how.satfinite, how.relu); };
  return code(a) << SHIFT | code(b);
};

}  // namespace machine::elementwise
