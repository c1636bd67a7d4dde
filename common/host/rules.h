// What calls on several pieces of memory are checked by, one sentence for each rule that is broken:
// for those that are more than D = A · B^T (common/host/validate.h). Needs no GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/host/problem.h"

namespace ladder {

// Memory of a call. Checks replace what breaks a rule by the suggestion they make.
struct Operand {
  const char* name;
  const void* given;
  size_t bytes = 0;  // it occupies
  uintptr_t begin = 0;
  long long ld = 0;  // of a matrix

  uintptr_t end() const { return begin + bytes; }
  static Operand workspace(const Call& call) {
    return {"the workspace", call.workspace, call.workspace_bytes,
            reinterpret_cast<uintptr_t>(call.workspace)};
  }
  bool overlaps(const Operand& other) const {
    return given != nullptr && other.given != nullptr && begin < other.end() && other.begin < end();
  }
};

class Rules {
 public:
  // A number that is a choice among some, as check_choice() has it.
  int choice(const char* name, int value, const std::vector<int>& values, const char* choices);

  // A size, which becomes one that works.
  int size(const char* name, int value);

  void limit(const GridRules& rules, int max_ctas);

  // A matrix of elements of so many bits, `rows` x `cols`, from row to row ld of them. `rows`
  // becomes what is not too large, and a multiple of rows_multiple if it was one. `argument`: what
  // has 128 for each row.
  Operand matrix(const char* name, const char* ld_name, const char* rows_name,
                 const char* cols_name, const void* data, long long ld, int element_bits, int* rows,
                 int cols, int rows_multiple = 1, const char* argument = nullptr);

  Operand memory(const char* name, const std::string& what, const void* data);

  // What is written shares no byte with the others, or moves. itself: what it may be, but not
  // overlap.
  void apart(Operand* out, const std::vector<Operand>& others, const Operand& itself = {});

  void add(const std::string& sentence) { sentences_.push_back(sentence); }
  std::string text() const;

 private:
  std::vector<std::string> sentences_;
};

}  // namespace ladder
