// The instructions of a kernel that order what others do: fences, barriers, arrivals and waits, and
// accesses that acquire or release. For `ptx-machine --leave-out`, which runs a program without one of
// them. It knows nothing of what becomes of the others then.
#pragma once

#include "common/machine/run/state.h"

namespace machine {

// Whether it is one, and settings() ask for them.
bool is_noted(const Statement& statement);
// What stands in its place where it is left out. A wait is over, a vote is this thread's own, an access
// is relaxed; of all others nothing is done.
Statement without_ordering(const Statement& statement);

// Makes of the instruction at pc, whose statement is one of these, one that only notes that it was
// executed. Returns the statement that is to follow: its own, or, where it is settings().left_out, what
// stands in its place.
const Statement* note_ordering(Program* program, uint32_t pc);

// Appends to the file of settings().orderings a line for each of the program's that is not in it yet, or
// that has been executed since: "0" or "1", file, line, and Origin::Place::how, with tabs in between.
void write_orderings(const Program& program);

}  // namespace machine
