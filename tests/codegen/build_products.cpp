#include "tests/codegen/build_products.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace codegen {

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The mnemonics of one PTX line without comment; inline asm may put several into a line.
std::vector<std::string> mnemonics(std::string line) {
  std::replace(line.begin(), line.end(), '{', ';');
  std::replace(line.begin(), line.end(), '}', ';');
  std::vector<std::string> found;
  for (const std::string& part : split(line, ';')) {
    std::string statement = trimmed(part);
    if (!statement.empty() && statement[0] == '@') {
      const size_t space = statement.find_first_of(" \t");
      statement = space == std::string::npos ? "" : trimmed(statement.substr(space));
    }
    const std::string word = statement.substr(0, statement.find_first_of(" \t"));
    if (!word.empty() && std::islower(static_cast<unsigned char>(word[0]))) found.push_back(word);
  }
  return found;
}

// The members of a JSON object that has neither objects nor arrays nor escapes in it.
std::map<std::string, std::string> flat_object(const std::string& line) {
  static const std::regex MEMBER(R"re("(\w+)": ?(?:"([^"]*)"|([^",}]+)))re");
  std::map<std::string, std::string> members;
  for (std::sregex_iterator at(line.begin(), line.end(), MEMBER), end; at != end; ++at) {
    members[(*at)[1]] = (*at)[2].matched ? (*at)[2] : (*at)[3];
  }
  return members;
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Variant> list_variants() {
  FILE* pipe = popen("build/ladder --list", "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run build/ladder --list");
  std::string text;
  std::array<char, 4096> chunk;
  while (const size_t n = fread(chunk.data(), 1, chunk.size(), pipe)) text.append(chunk.data(), n);
  if (pclose(pipe) != 0) throw std::runtime_error("build/ladder --list failed");
  std::vector<Variant> variants;
  for (const std::string& line : split(text, '\n')) {
    const std::map<std::string, std::string> members = flat_object(line);
    if (members.empty()) continue;  // a bracket of the array
    const auto member = [&](const std::string& key) {
      const auto found = members.find(key);
      if (found == members.end()) throw std::runtime_error("build/ladder --list has no " + key);
      return found->second;
    };
    const auto number = [&](const std::string& key) { return std::stoi(member(key)); };
    const auto flag = [&](const std::string& key) { return member(key) == "true"; };
    variants.push_back(
        {number("stage"), member("name"), member("variant"), flag("result"), number("bm"),
         number("bn"), number("bk"), number("depth"), number("threads"), number("smem_bytes"),
         number("cluster_m"), number("cluster_n"), number("regs_dec"), number("regs_inc"),
         flag("persistent"), member("kernel"), flag("configuration"), flag("chooses")});
  }
  std::erase_if(variants, [](const Variant& v) { return v.number == 0; });  // chooses among them
  if (variants.empty()) throw std::runtime_error("build/ladder --list names no variant");
  return variants;
}

std::vector<Variant> list_kernels() {
  std::vector<Variant> kernels = list_variants();
  std::erase_if(kernels, [](const Variant& v) { return v.chooses; });
  return kernels;
}

std::vector<std::string> stage_stems() {
  std::vector<std::string> stems;
  for (const auto& entry : std::filesystem::directory_iterator("stages")) {
    if (entry.path().extension() == ".cu") stems.push_back(entry.path().stem().string());
  }
  if (stems.empty()) throw std::runtime_error("stages/ has no rung");
  std::sort(stems.begin(), stems.end());
  return stems;
}

std::map<std::string, std::vector<Instruction>> parse_ptx(const std::string& text) {
  static const std::regex ENTRY(R"(^\s*(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$]+))");
  std::map<std::string, std::vector<Instruction>> kernels;
  std::vector<Instruction>* kernel = nullptr;
  bool in_asm = false;
  for (const std::string& line : split(text, '\n')) {
    std::smatch head;
    if (std::regex_search(line, head, ENTRY)) kernel = &kernels[head[1]];
    if (line.find("// begin inline asm") != std::string::npos) in_asm = true;
    if (line.find("// end inline asm") != std::string::npos) in_asm = false;
    if (kernel != nullptr) {
      for (const std::string& mnemonic : mnemonics(line.substr(0, line.find("//")))) {
        kernel->push_back({mnemonic, in_asm});
      }
    }
    if (!line.empty() && line[0] == '}') kernel = nullptr;
  }
  return kernels;
}

std::map<std::string, Resources> parse_log(const std::string& text) {
  static const std::regex COMPILING(R"(Compiling entry function '([\w$]+)')");
  static const std::regex FRAME(
      R"((\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads)");
  static const std::regex USED(R"(Used (\d+) registers)");
  static const std::regex SMEM(R"((\d+) bytes smem)");
  std::map<std::string, Resources> kernels;
  Resources* kernel = nullptr;
  for (const std::string& line : split(text, '\n')) {
    std::smatch found;
    if (std::regex_search(line, found, COMPILING)) kernel = &kernels[found[1]];
    if (kernel == nullptr) continue;
    if (std::regex_search(line, found, FRAME)) {
      kernel->frame_bytes = std::stoi(found[1]);
      kernel->spill_store_bytes = std::stoi(found[2]);
      kernel->spill_load_bytes = std::stoi(found[3]);
    }
    if (std::regex_search(line, found, USED)) kernel->registers = std::stoi(found[1]);
    if (std::regex_search(line, found, SMEM)) kernel->smem_bytes = std::stoi(found[1]);
  }
  return kernels;
}

bool matches(const std::string& mnemonic, const std::string& pattern) {
  size_t at = 0;
  bool first = true;
  for (const std::string& part : split(pattern, '*')) {
    const size_t found = mnemonic.find(part, at);
    if (found == std::string::npos || (first && found != 0)) return false;
    at = found + part.size();
    first = false;
  }
  return true;
}

}  // namespace codegen
