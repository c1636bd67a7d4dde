// The rows of a kernel's operands while it is decoded: constants, special registers and addresses of
// shared variables come first, the same for every warp but for a few, then the registers.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "common/machine/run/state.h"

namespace machine {

inline uint32_t align_up(uint32_t value, uint32_t align) {
  return (value + align - 1) / align * align;
}

class Rows {
 public:
  explicit Rows(Program& program) : program_(program), image_(FIRST_ROW) {}

  uint32_t constant(Width width, uint64_t bits);
  uint32_t special(const SpecialRegister* what, Width width);
  uint32_t shared(uint32_t address, Width width);
  // A register's row is known once all constants are: until place() it is a number with REGISTER.
  static constexpr uint32_t REGISTER = 1u << 31;
  uint32_t add_register(Width width);

  // Gives registers their rows, in the whole program.
  void place();

 private:
  uint32_t add(Width width);

  Program& program_;
  std::vector<uint8_t> image_;
  std::map<std::pair<Width, uint64_t>, uint32_t> constants_;
  std::vector<Width> registers_;
};

}  // namespace machine
