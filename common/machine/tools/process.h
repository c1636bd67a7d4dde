// Starts programs and waits for them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tools {

inline constexpr int REFUSED = 2;                     // exit code
[[noreturn]] void fail(const std::string& sentence);  // "ptx-machine: …", and ends with REFUSED

std::string joined(const std::vector<std::string>& words, const char* between = ", ");

// The program in place of this one.
[[noreturn]] void become(const std::filesystem::path& program, char** arguments);

// A process of a program that has just been started: its exit code once it has ended; as a shell has it,
// if a signal ended it.
int exit_code_of(int status);  // of waitpid()
int run_once(const std::filesystem::path& program, char** arguments);

// The same with its output in a file, and at most `limit_s` long: TIMED_OUT, if it had to be ended.
inline constexpr int TIMED_OUT = -1;
int run_for(double limit_s, const std::string& output, const std::filesystem::path& program,
            char** arguments);

}  // namespace tools
