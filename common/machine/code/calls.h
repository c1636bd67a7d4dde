// Which functions a kernel calls, directly or through pointers.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/machine/text/ptx.h"

namespace machine {

const Function* find_function(const Ptx& ptx, const std::string& name);  // nullptr: there is none

bool is_call(const Statement& statement);
bool is_indirect(const Statement& statement);  // a call through a pointer
// call (results), function, (arguments): the operand that names the function.
size_t callee_operand(const Statement& statement);
// The variables, functions and labels that the operand names.
void add_symbols(const Operand& operand, std::set<std::string>* names);

// Those whose address stands in an instruction or a variable: what indirect calls may call.
std::vector<const Function*> pointed_to(const Ptx& ptx);
// The entry and the functions that it may call, each once.
std::vector<const Function*> reachable(const Ptx& ptx, const Function& entry);
bool calls_itself(const Ptx& ptx, const Function& function);  // or may, through others or pointers

}  // namespace machine
