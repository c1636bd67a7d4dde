// Constants of PTX, and expressions of them: 0x1F, .5e-3, 0f3F800000, (1<<3)|2.
#pragma once

#include <cstdint>

#include "common/machine/text/lexer.h"
#include "common/machine/text/ptx.h"

namespace machine {

// Whether one begins at the lexer's word; what is behind `!` may also be a predicate.
bool at_constant(Lexer lex);

// Takes one. Its kind is integer, f32 or f64.
Operand take_constant(Lexer* lex);
uint64_t take_integer(Lexer* lex);

// Takes what a variable begins with, behind its `=`: elements of `bytes` bytes.
void take_initial(Lexer* lex, std::string_view type, size_t bytes, Variable* made);

}  // namespace machine
