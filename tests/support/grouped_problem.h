// Problems of groups of rows in guarded memory.
#pragma once

#include <string>
#include <vector>

#include "common/host/grouped.h"
#include "tests/support/block_scaled_problem.h"
#include "tests/support/problem.h"

namespace ladder_test {

// m: rows in all; masked, of each group. sizes: offsets, one more than groups, or masked rows; any.
struct GroupedShape {
  int type = LADDER_BF16;
  bool masked = false;
  int m = 0, n = 0, k = 0;
  std::vector<int> sizes;

  int groups() const { return static_cast<int>(sizes.size()) - (masked ? 0 : 1); }
};

// A and B filled, NaN in the rows of A that are no group's, D and the error flag poisoned. Data::ints:
// integers, and scales that are powers of two, so that D is exact.
class GroupedProblem {
 public:
  GroupedProblem(const GroupedShape& shape, ladder::Data data, bool padded = false,
                 cudaStream_t stream = nullptr);

  void set_sizes(const std::vector<int>& sizes);  // as many as before; A follows
  void poison();                                  // D and the error flag

  // Of the groups that are good, against a reference.
  ladder::Verdict verify(bool exact) const;
  // To guards, padding and rows of D that are no good group's; whether the error flag is wrong.
  long long damage() const;

  GroupedShape shape;
  GuardedBytes a, scale_a, b, scale_b;
  Matrix d;
  GuardedBytes sizes, error_flag;
  Workspace workspace;
  ladder::GroupedArgs args;

 private:
  void fill_a();
  ladder::GoodRows good() const;

  ladder::Data data_;
};

// "bf16_128x128 at 300x64x32 bf16 masked, 3 groups"
std::string label(const ladder::Variant& variant, const GroupedProblem& problem);

// Poisons, runs, verifies; a failed check names variant and shape.
void check_variant(const ladder::Variant& variant, GroupedProblem& problem, bool exact);

// The rungs that solve this problem; at least one.
std::vector<const ladder::Stage*> grouped_rungs();

// Every variant that takes the problem; returns how many.
int check_grouped(GroupedProblem& problem, bool exact);

// Offsets of groups of so many rows each, one after another.
std::vector<int> offsets_of(const std::vector<int>& rows);

}  // namespace ladder_test
