// The --energy-rows mode: what the board draws while a variant runs.
#pragma once

#include <istream>

#include "common/host/options.h"

namespace ladder {

// Rows from `input`, read before a GPU is looked for, up to its end or to an empty line; behind that
// each is answered before the next is read. JSON lines to stdout, each flushed:
//   {"env": {...}}  once, first: the machine, and the board at rest
//   {"row": …}      a row as it was read and what was measured; "error" says why nothing was
// Returns the exit code: 1 if a row failed. Throws Refused, NoDevice, CudaError.
int run_energy_rows(const Options& options, std::istream& input);

}  // namespace ladder
