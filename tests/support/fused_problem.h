// Problems with an epilogue in guarded memory.
#pragma once

#include <memory>

#include "common/host/fused.h"
#include "tests/support/problem.h"

namespace ladder_test {

// What is added to a product: 0 and null where it is not.
struct Added {
  float alpha = 0.5f, beta = 0;
  bool bias = true;
  bool in_place = false;  // D is C
};

// A, B, C and bias filled (seeds 1 to 4), D poisoned; `shape` has activation, type and what is
// added among its parameters. Padding is in words of 16 bits, and even; C's is B's.
class FusedProblem {
 public:
  FusedProblem(const ladder::Shape& shape, ladder::Data data, const Added& added,
               Padding padding = TIGHT, cudaStream_t stream = nullptr);
  ~FusedProblem();
  FusedProblem(const FusedProblem&) = delete;
  FusedProblem& operator=(const FusedProblem&) = delete;

  void refill();                       // poisons D, or puts C back where D is C
  ladder::Verdict verify(bool exact);  // against a reference of `args` as they were filled
  long long damage() const;            // to guards and padding of all, and to a C that is not D
  bool is_exact() const;               // whether integers give results that are right bit for bit

  Matrix a, b, c, bias, d;  // of words
  ladder::FusedArgs args;

 private:
  struct References;
  std::unique_ptr<References> references_;
  Matrix of_c_;  // what C was filled with
  bool in_place_;
};

// A shape of that activation, such as "silu", and type, such as "bf16_fp32".
ladder::Shape fused_shape(int m, int n, int k, const std::string& activation,
                          const std::string& type);

// "auto at 3x5x16 silu bf16_fp32, alpha 0.5 beta 2 bias, ld 16 40 24 24"
std::string label(const ladder::Variant& variant, const ladder::FusedArgs& args);

// As run_watched and check_variant of problem.h.
void run_watched(const ladder::Variant& variant, const ladder::FusedArgs& args);
void check_variant(const ladder::Variant& variant, FusedProblem& problem, bool exact);

// Every activation and type.
struct ActivationAndType {
  std::string activation, type;
  bool gated() const { return activation == "swiglu"; }
};
std::vector<ActivationAndType> activations_and_types();

// The rungs that solve this problem; at least one.
std::vector<const ladder::Stage*> fused_rungs();

}  // namespace ladder_test
