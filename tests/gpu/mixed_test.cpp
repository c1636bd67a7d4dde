// Of packed weights what only a GPU can say: sizes that take the PTX machine hours, and that many
// runs give the same bits, which they would not if registers of wgmma's A operand changed too
// early.
#include <doctest/doctest.h>

#include <array>

#include "common/host/device.h"
#include "common/host/problem.h"
#include "tests/gpu/silicon.h"
#include "tests/support/mixed_problem.h"

using ladder::Data;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;
using ladder_test::mixed_rungs;

namespace {

// Every kernel that takes the problem, of which there is one in memory at a time.
template <class Visit>
int for_each_kernel(const Shape& shape, Data data, const Visit& visit) {
  int runs = 0;
  const auto problem = ladder::MixedArgs::kind().problem(shape, data, 1, ladder::query_device());
  for (const Stage* stage : mixed_rungs()) {
    for (const Variant& variant : stage->variants) {
      if (variant.takes && !variant.takes(problem->call(0))) continue;
      const auto& args = static_cast<const ladder::MixedArgs&>(problem->call(0));
      CAPTURE(ladder_test::label(variant, args));
      visit(variant, *problem);
      ++runs;
    }
  }
  CHECK(runs > 0);
  return runs;
}

void run_all_sets(const Variant& variant, ladder::Problem& problem) {
  problem.poison_outputs();
  for (int set = 0; set < problem.sets(); ++set) {
    ladder_test::run_watched(variant, static_cast<const ladder::MixedArgs&>(problem.call(set)));
  }
}

}  // namespace

TEST_CASE("packed weights: large products are right") {
  NEEDS_GPU();
  int runs = 0;
  for (const int bits : {0, 1}) {
    for (const auto& [m, n, k] : {std::array{1, 28672, 8192}, std::array{31, 8191, 4097},
                                  std::array{64, 7168, 16384}, std::array{128, 2112, 7168},
                                  std::array{4096, 4096, 4096}, std::array{1000, 8191, 1000}}) {
      for (const Data data : {Data::ints, Data::normal}) {
        runs += for_each_kernel({m, n, k, {bits}}, data, [](const Variant& variant, auto& problem) {
          run_all_sets(variant, problem);
          const ladder::Verdict verdict = problem.verify();
          CHECK_MESSAGE(verdict.ok(), verdict.describe());
        });
      }
    }
  }
  ladder_test::note(std::to_string(runs) + " runs");
}

TEST_CASE("repetition: 100 runs of every kernel of packed weights give the same bits") {
  NEEDS_GPU();
  int runs = 0;
  for (const int bits : {0, 1}) {
    const Shape shape{200, 3000, 1496, {bits}};
    runs += for_each_kernel(shape, Data::normal, [](const Variant& variant, auto& problem) {
      const auto& args = static_cast<const ladder::MixedArgs&>(problem.call(0));
      ladder_test::run_watched(variant, args);
      problem.keep_output();
      double equal = 1;
      for (int repetition = 1; repetition < 100; ++repetition) {
        problem.poison_outputs();
        ladder_test::run_watched(variant, args);
        equal = std::min(equal, problem.share_equal_to_kept());
      }
      CHECK(equal == 1);
    });
  }
  ladder_test::note(std::to_string(100 * runs) + " runs");
}
