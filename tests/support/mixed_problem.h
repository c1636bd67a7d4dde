// Problems of packed weights in guarded memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/host/mixed.h"
#include "tests/support/problem.h"

namespace ladder_test {

// A of seed 1, weights of seed 2, D poisoned. Data::ints: q and scales that make a product exact;
// else bf16 weights of that data, quantised by the CPU reference. Scales are between NaN. Padding
// in elements: of A, of the scales, of D.
class MixedProblem {
 public:
  MixedProblem(int bits, const ladder::Shape& shape, ladder::Data data, Padding padding = TIGHT,
               cudaStream_t stream = nullptr);

  // Other scales, by row of W and block of 128 of K.
  using ScaleOf = std::function<float(long long row, long long block)>;
  void rescale(const ScaleOf& scale_of);

  // Other weights q, by row of W and place along K.
  void fill(const std::function<int(long long row, long long col)>& weight_of);

  // Against the exact sum of q * scale * a, rounded once.
  ladder::Verdict verify(bool exact);
  long long damage() const;  // to guards and padding of all four

  ladder::MixedArgs args;
  Matrix a, packed, scale, d;  // packed: of 16-bit words, one row

  int blocks() const;  // of 128 of K

 private:
  std::vector<float> a_, scale_;  // [m][k], [blocks][n]
  std::vector<int> q_;            // [n][k]
  std::vector<double> r_, s_;     // empty: to be computed
};

// "w4_128x8 at 3x5x16 of 4 bits, ld 16 24 8"
std::string label(const ladder::Variant& variant, const ladder::MixedArgs& args);

// As run_watched and check_variant of problem.h.
void run_watched(const ladder::Variant& variant, const ladder::MixedArgs& args);
void check_variant(const ladder::Variant& variant, MixedProblem& problem, bool exact);

// The rungs that solve this problem; at least one.
std::vector<const ladder::Stage*> mixed_rungs();

}  // namespace ladder_test
