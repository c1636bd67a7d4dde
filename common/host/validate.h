// The rules of a call, one sentence for each that it breaks. For ProblemKind::violations(). Needs no GPU.
#pragma once

#include <string>
#include <vector>

#include "common/host/problem.h"

namespace ladder {

// A matrix of a call: device memory, elements from row to row, bytes of an element (a power of two,
// at most 16).
struct MatrixArg {
  const void* data;
  long long ld;
  int element_bytes;
  bool mn_major = false;  // an operand stored [k][ld]
};

// Of D[m,n] = A[m,k] · B[n,k]^T in call's sizes, all three row-major unless an operand says otherwise.
// k == 0: A and B are not touched; m == 0 or n == 0: nothing is. `before`: sentences that come first.
std::string matmul_violations(const GridRules& rules, const Call& call, const MatrixArg& a,
                              const MatrixArg& b, const MatrixArg& d,
                              const std::vector<std::string>& before = {});

// A number that is a choice among some, as the values of an enumeration are: itself if it is one of
// them, else the nearest, and then a sentence more. `choices`: "0 (bf16), 1 (fp16) or 2 (tf32)".
int check_choice(std::vector<std::string>* sentences, const char* name, int value,
                 const std::vector<int>& values, const char* choices);

}  // namespace ladder
