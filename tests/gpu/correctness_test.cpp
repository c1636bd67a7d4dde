// Every rung and every variant computes the right product, and touches nothing else.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "common/host/cublas_lt.h"
#include "common/host/error.h"
#include "tests/gpu/support.h"

using gpu_test::check_variant;
using gpu_test::for_each_variant;
using gpu_test::Matrix;
using gpu_test::PADDED;
using gpu_test::Padding;
using gpu_test::Problem;
using gpu_test::TIGHT;
using ladder::Data;
using ladder::Reference;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;

namespace {

const Shape ODD_SHAPES[] = {{1, 1, 8},          {3, 5, 16},       {127, 129, 72}, {130, 66, 1},
                            {333, 1111, 7},     {1, 1, 1},        {257, 1, 65},   {1, 257, 129},
                            {1000, 3000, 1496}, {128, 256, 64},   {129, 257, 65}, {511, 513, 1023},
                            {8191, 4097, 1000}, {64, 7168, 16384}};

std::string count_of(int variants, size_t shapes, const char* what) {
  return std::to_string(variants) + " variants, " + std::to_string(shapes) + " " + what;
}

// Shapes at the edges of one variant's tile: one tile and one element more, tile counts that share
// no factor, more tiles than SMs; K tiles fewer than, equal to and more than the ring's depth.
std::set<Shape> edge_shapes(const Variant& v) {
  const int block_m = v.bm * v.cluster_m, block_n = v.bn * v.cluster_n;
  const std::pair<int, int> sides[] = {{block_m, block_n},
                                       {block_m + 1, block_n + 1},
                                       {4 * v.bm + 3, 2 * v.bn + 9},
                                       {1, 6 * v.bn + 1},
                                       {17 * v.bm, 13 * v.bn - 1}};
  const int depths[] = {v.bk - 3, v.bk * std::max(v.depth - 1, 1), v.bk * v.depth,
                        v.bk * v.depth + 1, v.bk * (2 * v.depth + 1) + 5};
  std::set<Shape> shapes;
  for (const auto& [m, n] : sides) {
    for (const int k : depths) shapes.insert({m, n, k});
  }
  return shapes;
}

}  // namespace

TEST_CASE("integers: every variant is exact at odd shapes, tight and padded") {
  NEEDS_GPU();
  int variants = 0;
  for (const Shape& shape : ODD_SHAPES) {
    for (const Padding& padding : {TIGHT, PADDED}) {
      Problem problem(shape, Data::ints, padding);
      const Reference reference = ladder::reference_gpu(problem.args);
      variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
        check_variant(stage, variant, problem, reference, true);
      });
    }
  }
  ladder_test::note(count_of(variants, 2 * std::size(ODD_SHAPES), "shapes each, bit for bit"));
}

TEST_CASE("integers: every variant is exact at the edges of its own tile and ring") {
  NEEDS_GPU();
  size_t problems = 0;
  const int variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
    for (const Shape& shape : edge_shapes(variant)) {
      Problem problem(shape, Data::ints, ++problems % 2 == 0 ? TIGHT : PADDED);
      const Reference reference = ladder::reference_gpu(problem.args);
      check_variant(stage, variant, problem, reference, true);
    }
  });
  ladder_test::note(count_of(variants, problems, "problems in all, bit for bit"));
}

TEST_CASE("normal data: every variant agrees with the double reference and with cuBLAS") {
  NEEDS_GPU();
  ladder::CublasLt cublas;
  int variants = 0;
  for (const Shape& shape : ODD_SHAPES) {
    Problem problem(shape, Data::normal, PADDED);
    const Reference reference = ladder::reference_gpu(problem.args);

    const std::string where = "cuBLAS at " + to_string(shape);
    CAPTURE(where);
    const auto candidates = cublas.candidates(problem.args, 1);
    REQUIRE(candidates.size() == 1);
    const Matrix cublas_d(shape.m, shape.n, problem.args.ldd);
    ladder::GemmArgs cublas_args = problem.args;
    cublas_args.d = cublas_d.data();
    cublas.run(*candidates.front(), cublas_args);
    const ladder::Verdict verdict = ladder::verify_gpu(cublas_args, reference, false);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());

    variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
      check_variant(stage, variant, problem, reference, false);
      const std::string who = gpu_test::label(stage, variant, problem.args);
      CAPTURE(who);
      CHECK(gpu_test::far_apart(problem.args, cublas_d, reference) == 0);
    });
  }
  ladder_test::note(count_of(variants, std::size(ODD_SHAPES), "shapes each, cuBLASLt ") +
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
    const Reference reference = ladder::reference_gpu(problem.args);
    variants = for_each_variant(
        [&](const Stage& stage, const Variant& variant) {
          check_variant(stage, variant, problem, reference, false);
        },
        2);
  }
  ladder_test::note(count_of(variants, shapes.size(), "shapes each"));
}

TEST_CASE("grids: persistent variants are exact with 1, 7, 78 and all CTAs") {
  NEEDS_GPU();
  int runs = 0;
  for (const Shape& shape : {Shape{1000, 3000, 1496}, Shape{4097, 2050, 200}}) {
    Problem problem(shape, Data::ints, PADDED);
    const Reference reference = ladder::reference_gpu(problem.args);
    for_each_variant([&](const Stage& stage, const Variant& variant) {
      if (!variant.persistent) return;
      for (const int max_ctas : {1, 7, 78, 0}) {
        const Variant& called = ladder::chosen(variant, problem.args);
        const int cluster_ctas = called.cluster_m * called.cluster_n;
        problem.args.max_ctas = max_ctas == 0 ? 0 : std::max(max_ctas, cluster_ctas);
        check_variant(stage, variant, problem, reference, true);
        ++runs;
      }
      problem.args.max_ctas = 0;
    });
  }
  CHECK(runs > 0);
  ladder_test::note(std::to_string(runs) + " runs");
}

TEST_CASE("repetition: 100 runs of every variant give the same bits") {
  NEEDS_GPU();
  Problem problem({1000, 3000, 1496}, Data::normal, PADDED);
  const ladder::GemmArgs args = problem.args;
  const Reference reference = ladder::reference_gpu(args);
  const int variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
    check_variant(stage, variant, problem, reference, false);
    Matrix first(args.m, args.n, args.ldd);
    first.upload(problem.d.download());
    long long different = 0;
    for (int repetition = 1; repetition < 100; ++repetition) {
      problem.d.poison();
      gpu_test::run_watched(stage, variant, args);
      different += problem.d.differences(first);
    }
    const std::string where = gpu_test::label(stage, variant, args);
    CAPTURE(where);
    CHECK(different == 0);
  });
  ladder_test::note(std::to_string(variants) + " variants");
}

TEST_CASE("degenerate shapes: K = 0 writes zeros and no padding, M = 0 and N = 0 write nothing") {
  NEEDS_GPU();
  Problem problem({130, 67, 0}, Data::normal, PADDED);
  problem.args.a = nullptr;
  problem.args.b = nullptr;
  const Reference zeros = ladder::reference_gpu(problem.args);
  const int variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
    check_variant(stage, variant, problem, zeros, true);

    problem.d.poison();
    for (const Shape& shape : {Shape{0, 67, 40}, Shape{130, 0, 40}, Shape{0, 0, 0}}) {
      ladder::GemmArgs nothing;
      nothing.m = shape.m;
      nothing.n = shape.n;
      nothing.k = shape.k;
      gpu_test::run_watched(stage, variant, nothing);
      nothing.d = problem.args.d;
      nothing.ldd = problem.args.ldd;
      gpu_test::run_watched(stage, variant, nothing);
    }
    const std::string where = gpu_test::label(stage, variant, problem.args);
    CAPTURE(where);
    CHECK(problem.d.differences(Matrix(130, 67, problem.args.ldd)) == 0);
    CHECK(problem.d.damage() == 0);
  });
  ladder_test::note(std::to_string(variants) + " variants");
}

TEST_CASE("refusals: nothing is launched and D is untouched") {
  NEEDS_GPU();
  Problem problem({130, 67, 40}, Data::normal);
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    const std::string where = gpu_test::label(stage, variant, problem.args);
    CAPTURE(where);
    ladder::GemmArgs args = problem.args;
    args.lda = 41;
    CHECK_THROWS_AS(ladder::run(variant, args), ladder::Refused);
    args = problem.args;
    args.d += 1;
    CHECK_THROWS_AS(ladder::run(variant, args), ladder::Refused);
  });
  ladder::check_cuda(cudaDeviceSynchronize(), "waiting for nothing");
  CHECK(problem.d.differences(Matrix(130, 67, problem.args.ldd)) == 0);
}
