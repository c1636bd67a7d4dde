// The rules of a call, one sentence for each that it breaks. For ProblemKind::violations(). Needs no GPU.
#pragma once

#include <string>

#include "common/host/problem.h"

namespace ladder {

// A matrix of a call: device memory, elements from row to row, bytes of an element (a power of two,
// at most 16).
struct MatrixArg {
  const void* data;
  long long ld;
  int element_bytes;
};

// Of D[m,n] = A[m,k] · B[n,k]^T in call's sizes, all three row-major. k == 0: A and B are not
// touched; m == 0 or n == 0: nothing is.
std::string matmul_violations(const GridRules& rules, const Call& call, const MatrixArg& a,
                              const MatrixArg& b, const MatrixArg& d);

}  // namespace ladder
