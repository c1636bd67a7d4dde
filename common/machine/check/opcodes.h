// What the checker asks of opcodes.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace machine {

inline bool updates(const std::string& opcode) {
  return opcode.starts_with("atom.") || opcode.starts_with("red.");
}

inline bool compares_and_swaps(const std::string& opcode) {
  return opcode.starts_with("atom.") && opcode.find(".cas.") != opcode.npos;
}

// Of less than 4 bytes a record has not every lane.
inline bool is_narrow(const std::string& opcode) {
  constexpr std::string_view TYPES[] = {".b8", ".u8", ".s8", ".b16", ".u16", ".s16", ".bf16"};
  return std::ranges::any_of(TYPES,
                             [&](std::string_view type) { return opcode.ends_with(type); }) &&
         opcode.find(".v") == std::string::npos && !opcode.starts_with("ldmatrix") &&
         !opcode.starts_with("stmatrix");
}

}  // namespace machine
