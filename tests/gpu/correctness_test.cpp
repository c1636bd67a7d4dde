// What only a GPU can say of the products: that cuBLAS agrees, at sizes that take the PTX machine
// hours, and that a hundred runs give the same bits.
#include <doctest/doctest.h>

#include "common/host/cublas_lt.h"
#include "common/host/error.h"
#include "tests/gpu/silicon.h"

using ladder::Data;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;
using ladder_test::check_variant;
using ladder_test::Expected;
using ladder_test::for_each_variant;
using ladder_test::Matrix;
using ladder_test::PADDED;
using ladder_test::Problem;

namespace {

std::string count_of(int variants, size_t shapes, const char* what) {
  return std::to_string(variants) + " variants, " + std::to_string(shapes) + " " + what;
}

}  // namespace

TEST_CASE("normal data: every variant agrees with the double reference and with cuBLAS") {
  NEEDS_GPU();
  ladder::CublasLt cublas;
  int variants = 0;
  const std::vector<Shape> shapes = ladder_test::odd_shapes();
  for (const Shape& shape : shapes) {
    Problem problem(shape, Data::normal, PADDED);
    const Expected expected(problem.args);

    const std::string where = "cuBLAS at " + to_string(shape);
    CAPTURE(where);
    const auto candidates = cublas.candidates(ladder::library_call(problem.args), 1);
    REQUIRE(candidates.size() == 1);
    const Matrix cublas_d(shape.m, shape.n, PADDED.d);
    ladder::GemmArgs cublas_args = problem.args;
    cublas_args.d = cublas_d.data();
    cublas.run(*candidates.front(), ladder::library_call(cublas_args));
    const ladder::Verdict verdict = expected.verify(cublas_args, false);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());

    variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
      check_variant(stage, variant, problem, expected, false);
      const std::string who = ladder_test::label(stage, variant, problem.args);
      CAPTURE(who);
      CHECK(gpu_test::far_apart(problem.args, cublas_d, expected.on_gpu) == 0);
    });
  }
  ladder_test::note(count_of(variants, shapes.size(), "shapes each, cuBLASLt ") +
                    ladder::CublasLt::version());
}

TEST_CASE("tuning shapes: rungs 2 and up are right on every one") {
  NEEDS_GPU();
  std::vector<Shape> shapes;
  for (const int side : {1024, 2048, 4096, 6144, 8192, 16384}) shapes.push_back({side, side, side});
  const std::pair<int, int> sides[] = {{2112, 7168},  {576, 7168},  {24576, 1536}, {32768, 512},
                                       {7168, 16384}, {4096, 7168}, {7168, 2048}};
  for (const int m : {64, 128, 4096}) {
    for (const auto& [n, k] : sides) shapes.push_back({m, n, k});
  }
  int variants = 0;
  for (const Shape& shape : shapes) {
    Problem problem(shape, Data::normal);
    const Expected expected(problem.args);
    variants = for_each_variant(
        [&](const Stage& stage, const Variant& variant) {
          check_variant(stage, variant, problem, expected, false);
        },
        2);
  }
  ladder_test::note(count_of(variants, shapes.size(), "shapes each"));
}

TEST_CASE("repetition: 100 runs of every variant give the same bits") {
  NEEDS_GPU();
  Problem problem({1000, 3000, 1496}, Data::normal, PADDED);
  const ladder::GemmArgs args = problem.args;
  const Expected expected(args);
  const int variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
    check_variant(stage, variant, problem, expected, false);
    Matrix first(args.m, args.n, PADDED.d);
    first.upload(problem.d.download());
    long long different = 0;
    for (int repetition = 1; repetition < 100; ++repetition) {
      problem.d.poison();
      ladder_test::run_watched(stage, variant, args);
      different += problem.d.differences(first);
    }
    const std::string where = ladder_test::label(stage, variant, args);
    CAPTURE(where);
    CHECK(different == 0);
  });
  ladder_test::note(std::to_string(variants) + " variants");
}

// Sums in another order would show: cancel().
TEST_CASE("repetition: 100 runs of every variant that shares tiles give the same bits") {
  NEEDS_GPU();
  int variants = 0, runs = 0;
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    if (variant.kernel.workspace_bytes == 0) return;
    std::vector<ladder_test::SharedCall> calls = ladder_test::shared_calls(variant);
    calls.push_back({{72, 2112, 3584}, 0});
    calls.push_back({{200, 3000, 1496}, 7});
    for (const ladder_test::SharedCall& call : calls) {
      Problem problem(call.shape, Data::normal, PADDED);
      ladder_test::cancel(problem);
      problem.args.max_ctas = call.max_ctas;
      check_variant(stage, variant, problem, Expected(problem.args), false);
      Matrix first(call.shape.m, call.shape.n, PADDED.d);
      first.upload(problem.d.download());
      long long different = 0;
      for (int repetition = 1; repetition < 100; ++repetition) {
        problem.d.poison();
        ladder_test::run_watched(stage, variant, problem.args);
        different += problem.d.differences(first);
      }
      const std::string where = ladder_test::label(stage, variant, problem.args);
      CAPTURE(where);
      CHECK(different == 0);
      CHECK(problem.workspace.damage() == 0);
      runs += 100;
    }
    ++variants;
  });
  CHECK(variants > 0);
  ladder_test::note(std::to_string(variants) + " variants, " + std::to_string(runs) + " runs");
}
