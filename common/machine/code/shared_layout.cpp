// Lays out shared variables, and follows their addresses through additions. It runs nothing.
#include "common/machine/code/shared_layout.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "common/machine/code/calls.h"
#include "common/machine/code/rows.h"

namespace machine {
namespace {

// Registers that name memory which the toolkit's cooperative groups keep to themselves. A GPU has it
// below the CTA's first byte; here it is behind the static variables of a kernel that asks for it.
constexpr const char* RESERVED_MEMORY[] = {"%reserved_smem_offset_0", "%reserved_smem_offset_1"};
constexpr uint32_t RESERVED_BYTES = 288, RESERVED_ALIGN = 16;

// What a register holds, but for 1 + the index of a variable: not known yet, nothing of a shared
// address, or an address of something else or of several.
constexpr uint16_t NOT_YET = 0, NOTHING = 0xfffe, UNKNOWN = 0xffff;

uint16_t origin(const Operand& operand, const std::vector<uint16_t>& registers,
                const std::map<std::string, uint16_t>& variables) {
  if (operand.kind == Operand::Kind::reg) return registers[operand.reg];
  if (operand.kind != Operand::Kind::symbol) return NOTHING;
  const auto found = variables.find(operand.name);
  return found == variables.end() ? UNKNOWN : found->second;
}

// Whether the result's address is in the variable that one of the operands is in.
bool keeps_variable(const std::string& opcode) {
  static const std::set<std::string_view> KEPT = {
      "mov.u32", "mov.b32", "mov.u64",    "mov.b64",    "add.s32",    "add.u32",
      "add.s64", "add.u64", "mad.lo.s32", "mad.lo.u32", "cvt.u64.u32"};
  return KEPT.contains(opcode);
}

}  // namespace

SharedLayout lay_out_shared(const Ptx& ptx, const std::vector<const Function*>& functions) {
  std::set<std::string> names;
  std::vector<const Variable*> variables;
  for (const Function* function : functions) {
    for (const Statement& statement : function->statements) {
      for (const Operand& operand : statement.operands) add_symbols(operand, &names);
    }
    for (const Variable& variable : function->variables) {
      if (variable.space == Space::shared) variables.push_back(&variable);
    }
  }
  for (const Variable& variable : ptx.variables) {
    if (variable.space == Space::shared && names.count(variable.name)) {
      variables.push_back(&variable);
    }
  }
  SharedLayout layout;
  uint32_t end = SMEM_BASE, dynamic_align = 16;
  const auto add = [&](const std::string& name, uint32_t align, uint32_t bytes) {
    const uint32_t address = layout.address[name] = align_up(end, align);
    layout.variables.push_back({name, address, bytes});
    end = address + bytes;
  };
  for (const Variable* variable : variables) {
    if (variable->external) {
      dynamic_align = std::max(dynamic_align, variable->align);
    } else {
      add(variable->name, variable->align, static_cast<uint32_t>(variable->bytes));
    }
  }
  for (const char* name : RESERVED_MEMORY) {
    if (names.contains(name)) add(name, RESERVED_ALIGN, RESERVED_BYTES);
  }
  // Static memory is a multiple of 1024 bytes, whatever the alignment of what follows, as on an H200
  // (tests/golden: special/dynamic_base).
  end = align_up(end, std::max(dynamic_align, 1024u));
  for (const Variable* variable : variables) {
    if (variable->external) layout.address[variable->name] = end;
  }
  layout.static_bytes = end - SMEM_BASE;
  return layout;
}

std::vector<uint16_t> shared_variables_in(const Function& function, const SharedLayout& layout) {
  std::map<std::string, uint16_t> variables;
  for (const SharedVariable& variable : layout.variables) {
    variables.emplace(variable.name, static_cast<uint16_t>(variables.size() + 1));
  }
  std::vector<uint16_t> origins(function.registers.size());
  if (variables.empty()) return origins;
  // Registers are mostly written once, but for those of loops: until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    const auto write = [&](const Operand& to, uint16_t made) {
      if (to.kind != Operand::Kind::reg) return;
      uint16_t& known = origins[to.reg];
      const uint16_t both = known == NOT_YET || known == made ? made : UNKNOWN;
      changed = changed || known != both;
      known = both;
    };
    for (const Statement& statement : function.statements) {
      if (statement.operands.empty()) continue;
      const Operand& to = statement.operands[0];
      for (const Operand& part : to.parts) {
        if (to.kind == Operand::Kind::vector) write(part, NOTHING);
      }
      uint16_t made = NOTHING;
      for (size_t i = 1; i < statement.operands.size() && made != NOT_YET; ++i) {
        const uint16_t from = origin(statement.operands[i], origins, variables);
        if (from != NOTHING) made = made == NOTHING || from == NOT_YET ? from : UNKNOWN;
      }
      if (made == NOT_YET) continue;
      if (made != NOTHING && !keeps_variable(statement.opcode)) made = UNKNOWN;
      write(to, made);
    }
  }
  for (uint16_t& found : origins) {
    if (found > layout.variables.size()) found = 0;
  }
  return origins;
}

std::string source_name(const SharedVariable& variable) {
  int failed = 0;
  char* const text = abi::__cxa_demangle(variable.name.c_str(), nullptr, nullptr, &failed);
  std::string name = failed != 0 ? variable.name : text;
  std::free(text);
  return name;
}

}  // namespace machine
