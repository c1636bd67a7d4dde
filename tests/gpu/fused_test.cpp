// Of epilogues what only a GPU can say: that cuBLASLt agrees where it has them, sizes that take the
// PTX machine hours, and that many runs give the same bits.
#include <doctest/doctest.h>

#include <array>

#include "common/host/cublas_lt.h"
#include "common/host/device.h"
#include "common/host/problem.h"
#include "tests/gpu/silicon.h"
#include "tests/support/fused_problem.h"

using ladder::Data;
using ladder::FusedArgs;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;
using ladder_test::ActivationAndType;
using ladder_test::activations_and_types;
using ladder_test::fused_rungs;
using ladder_test::fused_shape;

namespace {

// What is added: 0 a bias, 1 a bias and C; a gate has no C.
Shape shape_of(int m, int n, int k, const ActivationAndType& each) {
  Shape shape = fused_shape(m, n, k, each.activation, each.type);
  shape.parameters[2] = each.gated() ? 0 : 1;
  return shape;
}

// Every kernel that takes the problem, of which there is one in memory at a time.
template <class Visit>
int for_each_kernel(const Shape& shape, Data data, const Visit& visit) {
  int runs = 0;
  const auto problem = FusedArgs::kind().problem(shape, data, 1, ladder::query_device());
  for (const Stage* stage : fused_rungs()) {
    for (const Variant& variant : stage->variants) {
      if (variant.takes && !variant.takes(problem->call(0))) continue;
      const auto& args = static_cast<const FusedArgs&>(problem->call(0));
      CAPTURE(ladder_test::label(variant, args));
      visit(variant, *problem);
      ++runs;
    }
  }
  CHECK(runs > 0);
  return runs;
}

}  // namespace

TEST_CASE("epilogues: large products are right") {
  NEEDS_GPU();
  int runs = 0;
  for (const ActivationAndType& each : activations_and_types()) {
    for (const auto& [m, n, k] : {std::array{4096, 4096, 4096}, std::array{8191, 4112, 1000},
                                  std::array{64, 7168, 16384}}) {
      runs += for_each_kernel(shape_of(m, n, k, each), Data::normal,
                              [](const Variant& variant, ladder::Problem& problem) {
                                problem.poison_outputs();
                                for (int set = 0; set < problem.sets(); ++set) {
                                  ladder_test::run_watched(
                                      variant, static_cast<const FusedArgs&>(problem.call(set)));
                                }
                                const ladder::Verdict verdict = problem.verify();
                                CHECK_MESSAGE(verdict.ok(), verdict.describe());
                              });
    }
  }
  ladder_test::note(std::to_string(runs) + " runs");
}

TEST_CASE("epilogues: cuBLASLt, or it and a kernel for the activation, is right too") {
  NEEDS_GPU();
  ladder::CublasLt cublas;
  int compared = 0;
  for (const ActivationAndType& each : activations_and_types()) {
    CAPTURE(each.activation);
    CAPTURE(each.type);
    const auto problem = FusedArgs::kind().problem(shape_of(1000, 3008, 1496, each), Data::normal,
                                                   1, ladder::query_device());
    const auto candidates = problem->candidates(cublas);
    if (candidates.empty()) continue;
    ++compared;
    if (!candidates.front().writes_d) continue;  // candidates() has checked it
    problem->poison_outputs();
    for (int set = 0; set < problem->sets(); ++set) {
      candidates.front().contestant.launch(problem->call(set));
    }
    const ladder::Verdict verdict = problem->verify();
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
  }
  CHECK(compared >= 6);  // every activation in bf16
  ladder_test::note(std::to_string(compared) + " of them");
}

TEST_CASE("repetition: 50 runs of every kernel with an epilogue give the same bits") {
  NEEDS_GPU();
  int runs = 0;
  for (const ActivationAndType& each : activations_and_types()) {
    runs += for_each_kernel(shape_of(1000, 3008, 1496, each), Data::normal,
                            [](const Variant& variant, ladder::Problem& problem) {
                              const auto& args = static_cast<const FusedArgs&>(problem.call(0));
                              ladder_test::run_watched(variant, args);
                              problem.keep_output();
                              double equal = 1;
                              for (int repetition = 1; repetition < 50; ++repetition) {
                                problem.poison_outputs();
                                ladder_test::run_watched(variant, args);
                                equal = std::min(equal, problem.share_equal_to_kept());
                              }
                              CHECK(equal == 1);
                            });
  }
  ladder_test::note(std::to_string(50 * runs) + " runs");
}
