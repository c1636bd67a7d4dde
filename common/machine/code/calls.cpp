// Which functions a kernel calls. It knows nothing of how a call is made.
#include "common/machine/code/calls.h"

#include <algorithm>

namespace machine {

const Function* find_function(const Ptx& ptx, const std::string& name) {
  for (const Function& function : ptx.functions) {
    if (function.name == name && !function.entry) return &function;
  }
  return nullptr;
}

bool is_call(const Statement& statement) {
  return (statement.opcode == "call" || statement.opcode == "call.uni") &&
         !statement.operands.empty();
}

size_t callee_operand(const Statement& statement) {
  return statement.operands[0].kind == Operand::Kind::vector ? 1 : 0;
}

void add_symbols(const Operand& operand, std::set<std::string>* names) {
  using enum Operand::Kind;
  if (operand.kind == symbol || operand.kind == special) names->insert(operand.name);
  for (const Operand& part : operand.parts) add_symbols(part, names);
}

bool is_indirect(const Statement& statement) {
  return is_call(statement) &&
         statement.operands[callee_operand(statement)].kind == Operand::Kind::reg;
}

std::vector<const Function*> pointed_to(const Ptx& ptx) {
  std::set<std::string> names;
  for (const Function& function : ptx.functions) {
    for (const Statement& statement : function.statements) {
      if (is_call(statement)) continue;
      for (const Operand& operand : statement.operands) add_symbols(operand, &names);
    }
  }
  for (const Variable& variable : ptx.variables) {
    for (const auto& [offset, name] : variable.addresses) names.insert(name);
  }
  std::vector<const Function*> functions;
  for (const Function& function : ptx.functions) {
    if (!function.entry && names.contains(function.name)) functions.push_back(&function);
  }
  return functions;
}

std::vector<const Function*> reachable(const Ptx& ptx, const Function& entry) {
  std::vector<const Function*> all = {&entry};
  const auto add = [&all](const Function* function) {
    if (std::find(all.begin(), all.end(), function) == all.end()) all.push_back(function);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    for (const Statement& statement : all[i]->statements) {
      if (is_indirect(statement)) {
        for (const Function* function : pointed_to(ptx)) add(function);
      } else if (is_call(statement)) {
        const auto* const callee =
            find_function(ptx, statement.operands[callee_operand(statement)].name);
        if (callee != nullptr) add(callee);
      }
    }
  }
  return all;
}

}  // namespace machine
