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
    for (const Address& address : variable.addresses) names.insert(address.name);
  }
  std::vector<const Function*> functions;
  for (const Function& function : ptx.functions) {
    if (!function.entry && names.contains(function.name)) functions.push_back(&function);
  }
  return functions;
}

// Those that the statements of `function` may call, one after the other.
template <class F>
static void for_callees(const Ptx& ptx, const Function& function, F&& f) {
  for (const Statement& statement : function.statements) {
    if (is_indirect(statement)) {
      for (const Function* callee : pointed_to(ptx)) f(callee);
    } else if (is_call(statement)) {
      f(find_function(ptx, statement.operands[callee_operand(statement)].name));
    }
  }
}

std::vector<const Function*> reachable(const Ptx& ptx, const Function& entry) {
  std::vector<const Function*> all = {&entry};
  for (size_t i = 0; i < all.size(); ++i) {
    for_callees(ptx, *all[i], [&all](const Function* callee) {
      if (callee != nullptr && std::find(all.begin(), all.end(), callee) == all.end()) {
        all.push_back(callee);
      }
    });
  }
  return all;
}

bool calls_itself(const Ptx& ptx, const Function& function) {
  bool does = false;
  for (const Function* caller : reachable(ptx, function)) {
    for_callees(ptx, *caller, [&](const Function* callee) { does |= callee == &function; });
  }
  return does;
}

}  // namespace machine
