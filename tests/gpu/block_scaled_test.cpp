// Of block-scaled products what only a GPU can say: that cuBLASLt agrees, large sizes, and that many runs
// give the same bits.
#include <doctest/doctest.h>

#include <array>

#include "common/host/error.h"
#include "common/host/timing.h"
#include "tests/gpu/silicon.h"
#include "tests/support/block_scaled_problem.h"

using ladder::Data;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;
using ladder_test::BlockScaledProblem;
using ladder_test::check_variant;
using ladder_test::Matrix;
using ladder_test::SCALED_PADDED;
using ladder_test::scaled_rungs;
using ladder_test::scaled_shape;

namespace {

constexpr const char* TYPES[] = {"e4m3", "s8"};

// Every variant that takes the problem; returns how many.
int check_all(BlockScaledProblem& problem, bool exact) {
  int variants = 0;
  for (const Stage* stage : scaled_rungs()) {
    for (const Variant& variant : stage->variants) {
      if (variant.takes && !variant.takes(problem.args)) continue;
      check_variant(variant, problem, exact);
      ++variants;
    }
  }
  CHECK(variants > 0);
  return variants;
}

}  // namespace

TEST_CASE("block scaled: cuBLASLt is within the tolerance too") {
  NEEDS_GPU();
  ladder::CublasLt cublas;
  const ladder::ProblemKind& kind = ladder::BlockScaledArgs::kind();
  int compared = 0;
  for (const char* type : TYPES) {
    for (const char* scales : {"blocks", "tensor"}) {
      for (const auto& [m, n, k] :
           {std::array{1024, 3072, 1536}, std::array{256, 520, 8192}, std::array{132, 4096, 640}}) {
        CAPTURE(type);
        CAPTURE(scales);
        CAPTURE(k);
        const auto problem = kind.problem(scaled_shape(m, n, k, type, scales), Data::normal, 1,
                                          ladder::query_device());
        const auto candidates = problem->candidates(cublas);
        CHECK(!candidates.empty());
        for (const ladder::LibraryCandidate& candidate : candidates) {
          if (!candidate.writes_d) continue;  // was checked by candidates()
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
  }
  CHECK(compared > 0);
  ladder_test::note(std::to_string(compared) + " algorithms");
}

TEST_CASE("block scaled: large products are right") {
  NEEDS_GPU();
  int runs = 0;
  for (const char* type : TYPES) {
    for (const auto& [m, n, k] : {std::array{4096, 4096, 4096}, std::array{8191, 4097, 1000},
                                  std::array{64, 7168, 16384}}) {
      BlockScaledProblem problem(scaled_shape(m, n, k, type), Data::normal, SCALED_PADDED);
      runs += check_all(problem, false);
    }
  }
  ladder_test::note(std::to_string(runs) + " runs");
}

TEST_CASE("block scaled, repetition: 100 runs of every type give the same bits") {
  NEEDS_GPU();
  int runs = 0;
  for (const char* type : TYPES) {
    BlockScaledProblem problem(scaled_shape(1000, 3000, 1496, type), Data::normal);
    const Variant& variant = scaled_rungs().front()->result();
    check_variant(variant, problem, false);
    Matrix first(1000, 3000, 0);
    first.upload(problem.d.download());
    long long different = 0;
    for (int repetition = 1; repetition < 100; ++repetition, ++runs) {
      problem.d.poison();
      ladder_test::run_watched(variant, problem.args);
      different += problem.d.differences(first);
    }
    CAPTURE(type);
    CHECK(different == 0);
  }
  ladder_test::note(std::to_string(runs) + " runs");
}
