// Lines of files, and texts as JSON has them: for reports, and for the tools, which have nothing else of
// the machine.
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace machine {

// What stands there, or "" if it cannot be read.
inline std::string line_of_file(const std::string& path, uint32_t number) {
  std::ifstream file(path);
  std::string line;
  for (uint32_t i = 0; i < number; ++i) {
    if (!std::getline(file, line)) return "";
  }
  const size_t start = line.find_first_not_of(" \t");
  constexpr size_t MOST = 100;
  return start == std::string::npos ? "" : line.substr(start, MOST);
}

inline std::string quoted(const std::string& text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    char code[8] = {c};
    if (static_cast<unsigned char>(c) < 0x20) std::snprintf(code, sizeof code, "\\u%04x", c);
    made += code;
  }
  return made + "\"";
}

}  // namespace machine
