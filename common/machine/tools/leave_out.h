// What becomes of a program without one of the instructions that order others.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tools {

// `which`: "each", or a number of the list that this prints. The exit code: of each, 0; of one, the
// program's. Ends with REFUSED if the program does not end with 0 with nothing left out.
int leave_out(const std::string& which, std::vector<std::string> policies,
              const std::filesystem::path& program, char** arguments);

}  // namespace tools
