// Every rung and every variant on the PTX machine: the right product at odd shapes, nothing else
// touched, and no report of its checker. scripts/run_tests.py runs this under each policy.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "common/host/error.h"
#include "tests/gpu/support.h"

using gpu_test::check_variant;
using gpu_test::for_each_variant;
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

const Shape ODD_SHAPES[] = {{1, 1, 1},     {3, 5, 16},      {130, 66, 1},    {257, 1, 65},
                            {1, 257, 129}, {129, 257, 200}, {333, 530, 328}, {128, 256, 64}};

// One tile and one element more; K tiles fewer than, equal to and more than the ring's depth.
std::set<Shape> edge_shapes(const Variant& v) {
  const int block_m = v.bm * v.cluster_m, block_n = v.bn * v.cluster_n;
  return {{block_m, block_n, v.bk * v.depth},
          {block_m + 1, block_n + 1, v.bk * v.depth + 1},
          {4 * v.bm + 3, 9, v.bk * std::max(v.depth - 1, 1)},
          {1, 3 * v.bn + 1, v.bk * (2 * v.depth + 1) + 5}};
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
  ladder_test::note(std::to_string(variants) + " variants, " +
                    std::to_string(2 * std::size(ODD_SHAPES)) + " shapes each, bit for bit");
}

TEST_CASE("integers: every variant is exact at the edges of its own tile and ring") {
  NEEDS_GPU();
  size_t problems = 0;
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    for (const Shape& shape : edge_shapes(variant)) {
      Problem problem(shape, Data::ints, ++problems % 2 == 0 ? TIGHT : PADDED);
      const Reference reference = ladder::reference_gpu(problem.args);
      check_variant(stage, variant, problem, reference, true);
    }
  });
  ladder_test::note(std::to_string(problems) + " problems, bit for bit");
}

TEST_CASE("normal data: every variant is within the tolerance") {
  NEEDS_GPU();
  int variants = 0;
  for (const Shape& shape : {Shape{257, 300, 200}, Shape{129, 513, 1000}}) {
    Problem problem(shape, Data::normal, PADDED);
    const Reference reference = ladder::reference_gpu(problem.args);
    variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
      check_variant(stage, variant, problem, reference, false);
    });
  }
  ladder_test::note(std::to_string(variants) + " variants");
}

TEST_CASE("grids: persistent variants are exact with few CTAs, which take many tiles each") {
  NEEDS_GPU();
  int runs = 0;
  Problem problem({700, 1000, 136}, Data::ints, PADDED);
  const Reference reference = ladder::reference_gpu(problem.args);
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    if (!variant.persistent) return;
    for (const int max_ctas : {1, 3, 8}) {
      problem.args.max_ctas = std::max(max_ctas, variant.cluster_m * variant.cluster_n);
      check_variant(stage, variant, problem, reference, true);
      ++runs;
    }
  });
  CHECK(runs > 0);
  ladder_test::note(std::to_string(runs) + " runs");
}

TEST_CASE("degenerate shapes: K = 0 writes zeros and no padding") {
  NEEDS_GPU();
  Problem problem({130, 67, 0}, Data::normal, PADDED);
  problem.args.a = nullptr;
  problem.args.b = nullptr;
  const Reference zeros = ladder::reference_gpu(problem.args);
  const int variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
    check_variant(stage, variant, problem, zeros, true);
  });
  ladder_test::note(std::to_string(variants) + " variants");
}
