// Problems of any type and layout in guarded memory.
#pragma once

#include <memory>

#include "common/host/typed.h"
#include "tests/support/problem.h"

namespace ladder_test {

// A, B filled (seeds 1 and 2), D poisoned; `shape` has type and layout among its parameters. Padding is
// in words of 16 bits, and even.
class TypedProblem {
 public:
  TypedProblem(const ladder::Shape& shape, ladder::Data data, Padding padding = TIGHT,
               cudaStream_t stream = nullptr);
  ~TypedProblem();
  TypedProblem(const TypedProblem&) = delete;
  TypedProblem& operator=(const TypedProblem&) = delete;

  ladder::Verdict verify(bool exact);  // against a reference of `args` as the first call found it
  long long damage() const;            // to guards and padding of all three

  Matrix a, b, d;  // of words
  ladder::TypedArgs args;

 private:
  struct References;
  std::unique_ptr<References> references_;
};

// A shape of that type, such as "fp16_fp32", and layout, such as "NT".
ladder::Shape typed_shape(int m, int n, int k, const std::string& type, const std::string& layout);

// "13_layouts/swizzle128 at 3x5x16 fp16_fp32 NT, ld 16 40 24"
std::string label(const ladder::Variant& variant, const ladder::TypedArgs& args);

// As run_watched and check_variant of problem.h.
void run_watched(const ladder::Variant& variant, const ladder::TypedArgs& args);
void check_variant(const ladder::Variant& variant, TypedProblem& problem, bool exact);

// Every type, with every layout that it has, in the order of TYPE_PAIRS and LAYOUTS.
struct TypeAndLayout {
  std::string type, layout;
};
std::vector<TypeAndLayout> types_and_layouts();

// The rungs that solve this problem; at least one.
std::vector<const ladder::Stage*> typed_rungs();

}  // namespace ladder_test
