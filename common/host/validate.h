// The rules of a call, one sentence for each that it breaks. For ProblemKind::violations(). Needs no GPU.
#pragma once

#include <cstdint>
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

// A matrix beside the operands, such as one of scales, of which a call touches at least one element.
struct SideMatrix {
  const char* name;     // "scale_a"
  const char* ld_name;  // "ld_scale_a"
  const char* extent;   // "ceil(k/128) x m"
  const char* columns;  // "m"
  const void* data;
  long long rows, cols, ld;
  int element_bytes;
  int alignment_bytes;  // of its address
  int ld_multiple;      // of its leading dimension, elements

  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(data); }
  uintptr_t end() const {  // the last row ends at its last column
    return begin() + static_cast<uintptr_t>(((rows - 1) * ld + cols) * element_bytes);
  }
};

// Of address and leading dimension, which become what the sentences suggest. Its elements fit 2^40
// bytes.
void check_side_matrix(std::vector<std::string>* sentences, SideMatrix* matrix);

// A sentence if `written` shares a byte with one of the others; it moves as the sentence suggests.
void check_side_overlap(std::vector<std::string>* sentences, SideMatrix* written,
                        const std::vector<SideMatrix>& others);

// Of D[m,n] = A[m,k] · B[n,k]^T in call's sizes, all three row-major unless an operand says otherwise.
// k == 0: A and B are not touched; m == 0 or n == 0: nothing is. `before`: sentences that come first.
// `beside`: what D must not overlap either, nor the call's workspace.
std::string matmul_violations(const GridRules& rules, const Call& call, const MatrixArg& a,
                              const MatrixArg& b, const MatrixArg& d,
                              const std::vector<std::string>& before = {},
                              std::vector<SideMatrix> beside = {});

// A number that is a choice among some, as the values of an enumeration are: itself if it is one of
// them, else the nearest, and then a sentence more. `choices`: "0 (bf16), 1 (fp16) or 2 (tf32)".
int check_choice(std::vector<std::string>* sentences, const char* name, int value,
                 const std::vector<int>& values, const char* choices);

}  // namespace ladder
