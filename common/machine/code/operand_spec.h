// What a row of the decode table says of its operands (Row::operands), read.
#pragma once

#include <string_view>
#include <vector>

namespace machine {

// One item of Row::operands.
struct Spec {
  enum class Kind { scalar, vector, address, pair, rest } kind = Kind::scalar;
  char width = 'x';         // of the item; of a pair: of its first
  char second_width = 'p';  // of a pair
  bool optional = false;
};

std::vector<Spec> parse_specs(std::string_view text);

}  // namespace machine
