// Packed weights of 8 and 4 bits: the right product at odd shapes and nothing else touched, on the
// PTX machine and on a GPU as rungs_test.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "common/host/error.h"
#include "common/host/where.h"
#include "tests/support/mixed_problem.h"

using ladder::Data;
using ladder::on_machine;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;
using ladder_test::check_variant;
using ladder_test::mixed_rungs;
using ladder_test::MixedProblem;
using ladder_test::note;
using ladder_test::Padding;
using ladder_test::TIGHT;

namespace {

constexpr Padding PADDED{8, 24, 16};

// The rung's variants that take such weights. Returns how often `visit` was called.
template <class Visit>
int for_each_kernel(int bits, const Visit& visit) {
  int count = 0;
  ladder::MixedArgs sizes;
  sizes.bits = bits;
  for (const Stage* stage : mixed_rungs()) {
    for (const Variant& variant : stage->variants) {
      if (variant.chooses() || !variant.takes(sizes)) continue;
      visit(variant);
      ++count;
    }
  }
  CHECK(count > 0);
  return count;
}

const Variant& result() {
  return mixed_rungs().front()->result();
}

}  // namespace

TEST_CASE("packed weights: every kernel is exact at odd shapes, tight and padded") {
  int runs = 0;
  std::vector<Shape> shapes = ladder_test::odd_shapes();
  if (on_machine()) shapes = {{5, 200, 300}, {33, 65, 129}, {130, 257, 7}, {1, 8, 1}};
  for (const Shape& shape : shapes) {
    for (const int bits : {8, 4}) {
      MixedProblem problem(bits, shape, Data::ints, runs % 2 == 0 ? TIGHT : PADDED);
      runs += for_each_kernel(bits,
                              [&](const Variant& kernel) { check_variant(kernel, problem, true); });
    }
  }
  note(std::to_string(runs) + " runs, bit for bit");
}

TEST_CASE("packed weights: every kernel is exact at the edges of its tile and ring") {
  int runs = 0;
  for (const int bits : {8, 4}) {
    for_each_kernel(bits, [&](const Variant& kernel) {
      int number = 0;
      for (const Shape& shape : ladder_test::edge_shapes(kernel)) {
        // On the machine every kernel gets some of them, and all of them together get each.
        if (on_machine() && (number++ + runs) % 4 != 0) continue;
        MixedProblem problem(bits, shape, Data::ints, runs % 2 == 0 ? TIGHT : PADDED);
        check_variant(kernel, problem, true);
        ++runs;
      }
    });
  }
  CHECK(runs > 0);
  note(std::to_string(runs) + " runs, bit for bit");
}

TEST_CASE("packed weights: normal data is within the tolerance, by whatever is chosen") {
  for (const int bits : {8, 4}) {
    for (const Shape& shape : {Shape{17, 300, 1000}, Shape{100, 200, 513}, Shape{257, 130, 260}}) {
      MixedProblem problem(bits, shape, Data::normal, PADDED);
      check_variant(result(), problem, false);
    }
  }
}

TEST_CASE("packed weights: scales that are zero, tiny, huge, and far apart in a row") {
  for (const int bits : {8, 4}) {
    MixedProblem problem(bits, {9, 136, 640}, Data::normal, PADDED);
    const auto check = [&](const MixedProblem::ScaleOf& scale_of) {
      problem.rescale(scale_of);
      for_each_kernel(bits, [&](const Variant& kernel) {
        if (kernel.kernel.bm <= 16) check_variant(kernel, problem, false);
      });
    };
    check([](long long row, long long block) { return (row + block) % 2 == 0 ? 0.0f : 1.5f; });
    check([](long long, long long) { return 0.0f; });
    check([](long long row, long long) { return row % 2 == 0 ? 0x1p-100f : 0x1.5p+100f; });
    check([](long long, long long block) { return block % 2 == 0 ? 0x1p+60f : 0x1p-60f; });
  }
}

TEST_CASE("packed weights: the largest ones of both signs, and -128 and -8") {
  for (const int bits : {8, 4}) {
    const int most = bits == 8 ? 128 : 8;
    MixedProblem problem(bits, {3, 70, 150}, Data::ints);
    problem.fill([&](long long row, long long col) {
      return static_cast<int>((row * 7 + col) % (2 * most)) - most;
    });
    check_variant(result(), problem, true);
  }
}

TEST_CASE("packed weights: few CTAs take many tiles each") {
  const Shape shape = on_machine() ? Shape{70, 700, 300} : Shape{4097, 2050, 700};
  int runs = 0;
  for (const int bits : {8, 4}) {
    MixedProblem problem(bits, shape, Data::ints, PADDED);
    for (const int max_ctas : {1, on_machine() ? 4 : 78}) {
      for_each_kernel(bits, [&](const Variant& kernel) {
        problem.args.max_ctas = std::max(max_ctas, kernel.rules().cluster);
        check_variant(kernel, problem, true);
        ++runs;
      });
      problem.args.max_ctas = max_ctas;
      check_variant(result(), problem, true);
    }
  }
  CHECK(runs > 0);
  note(std::to_string(runs) + " runs");
}
