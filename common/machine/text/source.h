// Where a statement of PTX stands in the source: the .loc lines that -lineinfo makes.
#pragma once

#include "common/machine/run/error.h"
#include "common/machine/text/ptx.h"

namespace machine {

// Of the calls that were inlined to make what is at this one of Ptx::places, the innermost that stands
// in the outermost's file: a kernel's only line may be a call of a function beside it.
uint32_t own_line(const Ptx& ptx, uint32_t place);
// The file is relative to where the program runs, if it is below.
Origin::Place source_of(const Ptx& ptx, uint32_t place);

// "'foo.b32' at a.cu:12 (PTX line 345): <why>"
[[noreturn]] void refuse_statement(const Ptx& ptx, const Statement& statement,
                                   const std::string& why);
// Of a function that could not be parsed: "PTX line 345: <why> (behind a.cu:12)"
[[noreturn]] void refuse_function(const Ptx& ptx, const Function& function);

}  // namespace machine
