// Of groups of rows what only a GPU can say: that libraries agree, large sizes, and that many runs
// give the same bits.
#include <doctest/doctest.h>

#include "common/host/error.h"
#include "common/host/timing.h"
#include "tests/gpu/silicon.h"
#include "tests/support/grouped_problem.h"

using ladder::Data;
using ladder::Shape;
using ladder::Variant;
using ladder_test::check_grouped;
using ladder_test::check_variant;
using ladder_test::grouped_rungs;
using ladder_test::GroupedProblem;
using ladder_test::Matrix;
using ladder_test::offsets_of;

namespace {

constexpr int TYPES[] = {LADDER_BF16, LADDER_E4M3};

}  // namespace

TEST_CASE("grouped: cuBLASLt, group by group on one stream and on eight, is within the tolerance") {
  NEEDS_GPU();
  ladder::CublasLt cublas;
  const ladder::ProblemKind& kind = ladder::GroupedArgs::kind();
  int compared = 0;
  for (const int type : {0, 1}) {
    for (const int rows : {0, 1}) {  // equal, unequal
      const Shape shape{2048, 1024, 1536, {type, 0, rows, 0}};
      const auto problem = kind.problem(shape, Data::normal, 1, ladder::query_device());
      const auto candidates = problem->candidates(cublas);
      CHECK(!candidates.empty());
      for (const ladder::LibraryCandidate& candidate : candidates) {
        CAPTURE(type);
        CAPTURE(rows);
        CAPTURE(candidate.algorithm);
        try {
          candidate.contestant.launch(problem->call(0));
          ladder::check_cuda(cudaStreamSynchronize(problem->stream()), "cuBLASLt");
        } catch (const ladder::CudaError&) {
          cudaGetLastError();
          continue;  // the heuristics offer what does not always run
        }
        const ladder::Check check = ladder::check(*problem, candidate.contestant);
        CHECK_MESSAGE(check.ok(), check.failure);
        ++compared;
      }
    }
  }
  CHECK(compared > 0);
  ladder_test::note(std::to_string(compared) + " algorithms");
}

TEST_CASE("grouped: cuBLASLt goes on with operands that were made anew") {
  NEEDS_GPU();
  const ladder::ProblemKind& kind = ladder::GroupedArgs::kind();
  for (const int type : {0, 1}) {
    ladder::Workbench workbench(ladder::query_device(), Data::normal, 1, {});
    const Shape shape{2048, 1024, 1536, {type, 0, 1, 0}}, other{1024, 1024, 1536, {type, 0, 1, 0}};
    const ladder::LibraryCandidate* const first = workbench.baseline(kind, shape);
    REQUIRE(first != nullptr);
    const std::string algorithm = first->algorithm;
    workbench.problem(kind, other);  // frees the operands of `shape`
    const ladder::LibraryCandidate* const again = workbench.baseline(kind, shape);
    REQUIRE(again != nullptr);
    CHECK(again->algorithm == algorithm);
    const ladder::Check check = ladder::check(workbench.problem(kind, shape), again->contestant);
    CHECK_MESSAGE(check.ok(), check.failure);
  }
}

TEST_CASE("grouped: large products are right") {
  NEEDS_GPU();
  int runs = 0;
  for (const int type : TYPES) {
    const std::vector<int> rows = {1, 0, 511, 1025, 64, 129, 3, 700};
    const std::vector<int> offsets = offsets_of(rows);
    GroupedProblem contiguous({type, false, offsets.back(), 4095, 2048, offsets}, Data::normal,
                              true);
    runs += check_grouped(contiguous, false);
    GroupedProblem masked({type, true, 1025, 1544, 4000, rows}, Data::normal, true);
    runs += check_grouped(masked, false);
  }
  ladder_test::note(std::to_string(runs) + " runs");
}

TEST_CASE("grouped, repetition: 100 runs of every type give the same bits") {
  NEEDS_GPU();
  for (const int type : TYPES) {
    const std::vector<int> offsets = offsets_of({300, 17, 0, 450, 233});
    GroupedProblem problem({type, false, 1000, 3000, 1496, offsets}, Data::normal);
    const Variant& variant = grouped_rungs().front()->result();
    check_variant(variant, problem, false);
    Matrix first(1000, 3000, 0);
    first.upload(problem.d.download());
    long long different = 0;
    for (int repetition = 1; repetition < 100; ++repetition) {
      problem.d.poison();
      ladder_test::run_watched("grouped, repeated", variant, problem.args);
      different += problem.d.differences(first);
    }
    CAPTURE(type);
    CHECK(different == 0);
  }
}
