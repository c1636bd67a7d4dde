// Lays out the rows of a kernel's operands. It knows nothing of instructions.
#include "common/machine/code/rows.h"

namespace machine {

// Of a lane.
static uint32_t bytes_of(Width width) {
  return width == Width::w64 ? 8 : 4;
}

uint32_t Rows::add(Width width) {
  const uint32_t row = static_cast<uint32_t>(image_.size());
  image_.resize(row + LANES * bytes_of(width));
  return row;
}

uint32_t Rows::constant(Width width, uint64_t bits) {
  const auto [at, made] = constants_.try_emplace({width, bits}, 0);
  if (!made) return at->second;
  const uint32_t row = at->second = add(width);
  if (width == Width::pred) {
    const uint32_t mask = bits ? FULL : 0;
    std::memcpy(&image_[row], &mask, 4);
    return row;
  }
  for (uint32_t lane = 0; lane < LANES; ++lane) {
    std::memcpy(&image_[row + lane * bytes_of(width)], &bits, bytes_of(width));
  }
  return row;
}

uint32_t Rows::special(const SpecialRegister* what, Width width) {
  for (const auto& special : program_.specials) {
    if (special.what == what && special.width == width) return special.row;
  }
  program_.specials.push_back({what, add(width), width});
  return program_.specials.back().row;
}

uint32_t Rows::shared(uint32_t address, Width width) {
  for (const auto& symbol : program_.shared_symbols) {
    if (symbol.address == address && symbol.width == width) return symbol.row;
  }
  program_.shared_symbols.push_back({add(width), width, address});
  return program_.shared_symbols.back().row;
}

uint32_t Rows::add_register(Width width) {
  registers_.push_back(width);
  return static_cast<uint32_t>(registers_.size() - 1) | REGISTER;
}

void Rows::place() {
  std::vector<uint32_t> rows(registers_.size());
  uint32_t end = align_up(static_cast<uint32_t>(image_.size()), 128);
  for (const bool predicates : {false, true}) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if ((registers_[i] == Width::pred) != predicates) continue;
      rows[i] = end;
      end += predicates ? 4 : LANES * bytes_of(registers_[i]);
    }
  }
  program_.rows_bytes = align_up(end, 256);
  const auto place = [&rows](uint32_t& row) {
    if (row & REGISTER) row = rows[row & ~REGISTER];
  };
  for (Inst& inst : program_.code) {
    for (uint32_t& row : inst.op) place(row);
    place(inst.guard);
  }
  for (std::vector<Slot>& slots : program_.slots) {
    for (Slot& slot : slots) place(slot.row);
  }
  for (Callable& callable : program_.callables) {
    place(callable.return_row);
    place(callable.used_row);
    for (Slot& slot : callable.registers) place(slot.row);
  }
  program_.image.assign(image_.begin(), image_.end());
}

}  // namespace machine
