// Prints docs/isa.md: the decode table, as Markdown.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "common/machine/code/isa.h"

namespace machine {
namespace {

constexpr char INTRODUCTION[] =
    R"(# The instructions of the PTX machine

Printed from the decode table by `make isa`; the rows stand beside the handlers in
[common/machine](../common/machine). How an instruction is added: [machine.md](machine.md#adding-an-instruction).

- `{.a,.b}`: one of them. `{.a,}`: it may be left out. `…` between two: all that PTX has between them.
- `c?`: may be left out. `p|q`: the second may be left out. `{d}`: a vector. `[a]`: an address. `…`: as in the PTX manual.
- Of a pattern's combinations only those that PTX has are taken; what else is written is refused.
- *Approximately on a GPU*: here it is computed in double precision and rounded, so the last bits differ.
)";

constexpr size_t COLUMNS = 96, INDENT = 8, MOST_SHOWN = 24;

// The pattern in pieces between which a line may end; of long lists only the ends.
std::vector<std::string> opcode_pieces(std::string_view pattern) {
  std::vector<std::string> pieces;
  while (!pattern.empty()) {
    if (pattern[0] != '{') {
      const size_t end = std::min(pattern.find('{'), pattern.size());
      pieces.emplace_back(pattern.substr(0, end));
      pattern.remove_prefix(end);
      continue;
    }
    const size_t close = pattern.find('}');
    std::vector<std::string_view> choices = split(pattern.substr(1, close - 1));
    if (choices.size() > MOST_SHOWN) choices = {choices[0], choices[1], "…", choices.back()};
    for (size_t i = 0; i < choices.size(); ++i) {
      std::string piece(i == 0 ? "{" : "");
      piece += choices[i];
      piece += i + 1 < choices.size() ? "," : "}";
      // An empty last choice stays with the comma before it.
      if (choices[i].empty() && i > 0) {
        pieces.back() += piece;
      } else {
        pieces.push_back(piece);
      }
    }
    pattern.remove_prefix(close + 1);
  }
  return pieces;
}

// Without the widths, which are the decoder's business; "…" for what it leaves to the handler.
std::string operands_text(std::string_view operands) {
  std::string text;
  while (!operands.empty()) {
    const char next = operands[0];
    if (next == ':') {
      operands.remove_prefix(std::min(operands.find_first_of(",|}]?"), operands.size()));
      continue;
    }
    text += next == '*' ? "…" : std::string(1, next);
    operands.remove_prefix(1);
  }
  return text;
}

void print(const Row& row) {
  std::vector<std::string> pieces = opcode_pieces(row.opcode);
  const std::string operands = operands_text(row.operands);
  if (!operands.empty()) pieces.push_back(" " + operands);
  std::string line;
  for (const std::string& piece : pieces) {
    if (line.size() > INDENT && line.size() + piece.size() > COLUMNS) {
      std::printf("%s\n", line.c_str());
      line.assign(INDENT, ' ');
    }
    line += piece;
  }
  std::printf("%s\n    %s\n", line.c_str(), row.does);
}

void print(const Section& section) {
  std::printf("\n## %s\n\n```text\n", section.title);
  for (const Row& row : section.rows) print(row);
  std::printf("```\n");
}

}  // namespace
}  // namespace machine

int main() {
  std::fputs(machine::INTRODUCTION, stdout);
  for (const machine::Section* section : machine::sections::ALL) machine::print(*section);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  std::fputs("isa: what it prints cannot be written: is the disk full?\n", stderr);
  return 2;
}
