// What build/ladder and every build/stage-NN do; the registry decides which rungs they know.
#pragma once

#include <string>
#include <vector>

namespace ladder {

// Exit codes of every program; a Watchdog ends it with 4 itself.
enum ExitCode { EXIT_OK = 0, EXIT_WRONG = 1, EXIT_REFUSED = 2, EXIT_NO_DEVICE = 3, EXIT_HANG = 4 };

// Runs the program and returns its exit code. Results go to stdout; why there are none, in one
// sentence, to stderr.
int run_program(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace ladder
