// Where a kernel's shared variables lie, and which of them an address was made from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/machine/run/state.h"
#include "common/machine/text/ptx.h"

namespace machine {

struct SharedLayout {
  std::map<std::string, uint32_t> address;  // in the CTA of rank 0
  std::vector<SharedVariable> variables;    // static ones, by address
  uint32_t static_bytes = 0;                // dynamic memory begins behind them
};

// Static variables first, then the dynamic ones, which all begin at the same address. Variables of
// the module count only where one of the functions names them.
SharedLayout lay_out_shared(const Ptx& ptx, const std::vector<const Function*>& functions);

// By register of the function: the static shared variable, as 1 + its index in the layout, whose
// address plus something it holds; 0 where that is none, or not one alone.
std::vector<uint16_t> shared_variables_in(const Function& function, const SharedLayout& layout);

// "fill(int*)::values": the variable's name in the source.
std::string source_name(const SharedVariable& variable);

}  // namespace machine
