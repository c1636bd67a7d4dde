// Of types and layouts what only a GPU can say: that cuBLASLt agrees, at sizes that take the PTX machine
// hours, and that many runs give the same bits.
#include <doctest/doctest.h>

#include <array>

#include "common/host/cublas_lt.h"
#include "common/host/error.h"
#include "tests/gpu/silicon.h"
#include "tests/support/typed_problem.h"

using ladder::Data;
using ladder::Stage;
using ladder::Variant;
using ladder_test::check_variant;
using ladder_test::Matrix;
using ladder_test::Padding;
using ladder_test::TypeAndLayout;
using ladder_test::typed_rungs;
using ladder_test::typed_shape;
using ladder_test::TypedProblem;
using ladder_test::types_and_layouts;

namespace {

constexpr Padding PADDED{8, 24, 16};  // words

// Every variant but configurations that takes the problem; returns how many.
int check_all(TypedProblem& problem, bool exact) {
  int variants = 0;
  for (const Stage* stage : typed_rungs()) {
    for (const Variant& variant : stage->variants) {
      if (variant.configuration || !variant.takes(problem.args)) continue;
      check_variant(variant, problem, exact);
      ++variants;
    }
  }
  CHECK(variants > 0);
  return variants;
}

}  // namespace

TEST_CASE("types and layouts: cuBLASLt is within the tolerance too, where it has the types") {
  NEEDS_GPU();
  ladder::CublasLt cublas;
  int compared = 0;
  for (const TypeAndLayout& each : types_and_layouts()) {
    CAPTURE(each.type);
    CAPTURE(each.layout);
    TypedProblem problem(typed_shape(1000, 3000, 1496, each.type, each.layout), Data::normal,
                         PADDED);
    check_all(problem, false);
    const auto library = ladder::with_types(problem.args, [&]<class In, class Out>() {
      return ladder::library_call(ladder::as_matmul<In, Out>(problem.args));
    });
    try {
      const auto candidates = cublas.candidates(library, 1);
      if (candidates.empty()) continue;
      problem.d.poison();
      cublas.run(*candidates.front(), library);
    } catch (const ladder::CudaError&) {
      continue;  // it has no such types
    }
    const ladder::Verdict verdict = problem.verify(false);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
    ++compared;
  }
  CHECK(compared >= 17);  // bf16 and fp16 to themselves and to fp32 in four layouts, and tf32
  ladder_test::note(std::to_string(compared) + " of them in cuBLASLt");
}

TEST_CASE("types and layouts: large products are right") {
  NEEDS_GPU();
  int runs = 0;
  for (const TypeAndLayout& each : types_and_layouts()) {
    for (const auto& [m, n, k] : {std::array{4096, 4096, 4096}, std::array{8191, 4097, 1000},
                                  std::array{64, 7168, 16384}}) {
      TypedProblem problem(typed_shape(m, n, k, each.type, each.layout), Data::normal);
      runs += check_all(problem, false);
    }
  }
  ladder_test::note(std::to_string(runs) + " runs");
}

TEST_CASE("repetition: 50 runs of every type and layout give the same bits") {
  NEEDS_GPU();
  int runs = 0;
  for (const TypeAndLayout& each : types_and_layouts()) {
    TypedProblem problem(typed_shape(1000, 3000, 1496, each.type, each.layout), Data::normal);
    const Variant& variant = typed_rungs().front()->result();
    check_variant(variant, problem, false);
    const int words = ladder::bytes_of_type(problem.args.type_d) / 2;
    Matrix first(1000, 3000 * words, 0);
    first.upload(problem.d.download());
    long long different = 0;
    for (int repetition = 1; repetition < 50; ++repetition, ++runs) {
      problem.d.poison();
      ladder_test::run_watched(variant, problem.args);
      different += problem.d.differences(first);
    }
    CAPTURE(each.type);
    CAPTURE(each.layout);
    CHECK(different == 0);
  }
  ladder_test::note(std::to_string(runs) + " runs");
}
