// Rungs that multiply 8-bit operands with scales: the right product at odd shapes and nothing else
// touched, on the PTX machine and on a GPU as rungs_test.cpp.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "common/host/error.h"
#include "common/host/where.h"
#include "tests/support/block_scaled_problem.h"

using ladder::Data;
using ladder::on_machine;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;
using ladder_test::BlockScaledProblem;
using ladder_test::check_variant;
using ladder_test::note;
using ladder_test::SCALED_PADDED;
using ladder_test::scaled_rungs;
using ladder_test::scaled_shape;
using ladder_test::SCALED_TIGHT;

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

TEST_CASE("block scaled, integers: every variant is exact at odd shapes, tight and padded") {
  int runs = 0;
  std::vector<Shape> shapes = ladder_test::odd_shapes();
  shapes.insert(shapes.end(), {{65, 129, 127}, {128, 128, 128}, {200, 300, 385}});
  for (const Shape& shape : shapes) {
    for (const char* type : TYPES) {
      BlockScaledProblem problem(scaled_shape(shape.m, shape.n, shape.k, type), Data::ints,
                                 runs % 2 == 0 ? SCALED_TIGHT : SCALED_PADDED);
      runs += check_all(problem, true);
    }
  }
  note(std::to_string(runs) + " runs, bit for bit");
}

TEST_CASE("block scaled, integers: every variant is exact at the edges of its tile and ring") {
  int runs = 0;
  for (const Stage* stage : scaled_rungs()) {
    for (const Variant& variant : stage->variants) {
      for (const char* type : TYPES) {
        const auto sizes = stage->kind().sizes_of(scaled_shape(512, 512, 512, type));
        if (variant.takes && !variant.takes(*sizes)) continue;
        for (const Shape& shape : ladder_test::edge_shapes(variant)) {
          BlockScaledProblem problem(scaled_shape(shape.m, shape.n, shape.k, type), Data::ints,
                                     runs % 2 == 0 ? SCALED_PADDED : SCALED_TIGHT);
          check_variant(variant, problem, true);
          ++runs;
        }
      }
    }
  }
  CHECK(runs > 0);
  note(std::to_string(runs) + " runs, bit for bit");
}

TEST_CASE("block scaled, normal data: every variant is within the tolerance") {
  int runs = 0;
  for (const Shape& shape : {Shape{257, 300, 200}, Shape{129, 513, 1000}}) {
    for (const char* type : TYPES) {
      BlockScaledProblem problem(scaled_shape(shape.m, shape.n, shape.k, type), Data::normal,
                                 SCALED_PADDED);
      runs += check_all(problem, false);
    }
  }
  note(std::to_string(runs) + " runs");
}

TEST_CASE("block scaled: one scale for each operand, every variant that counts on it too") {
  int runs = 0;
  for (const Shape& shape : {Shape{257, 300, 200}, Shape{64, 129, 513}}) {
    for (const char* type : TYPES) {
      BlockScaledProblem problem(scaled_shape(shape.m, shape.n, shape.k, type, "tensor"),
                                 Data::ints, SCALED_PADDED);
      runs += check_all(problem, true);
    }
  }
  note(std::to_string(runs) + " runs");
}

TEST_CASE("block scaled: s8 over all its values is within the tolerance of fp32") {
  for (const int k : {128, 1000}) {
    BlockScaledProblem problem(scaled_shape(130, 140, k, "s8"), Data::ints, SCALED_PADDED);
    std::vector<uint8_t> a(static_cast<size_t>(130 * k)), b(static_cast<size_t>(140 * k));
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(ladder::hash64(i));
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(ladder::hash64(~i));
    for (int i = 0; i < k; ++i)
      a[static_cast<size_t>(i)] = b[static_cast<size_t>(i)] = 0x80;  // -128
    problem.set_elements(a, b);
    check_all(problem, false);
  }
}

TEST_CASE("block scaled: every e4m3 that is a number, subnormals too, is multiplied exactly") {
  // Row i of A is number i once, in column i; B is the identity's first 256 rows: D[i][i] is the number.
  BlockScaledProblem problem(scaled_shape(256, 256, 256, "e4m3"), Data::zeros, SCALED_TIGHT);
  std::vector<uint8_t> a(256 * 256), b(256 * 256);
  for (size_t i = 0; i < 256; ++i) {
    a[i * 256 + i] = (i & 0x7f) == 0x7f ? 0 : static_cast<uint8_t>(i);
    b[i * 256 + i] = ladder::Element<ladder::e4m3>::from_float(1).bits;
  }
  problem.set_elements(a, b);
  check_all(problem, true);
}

TEST_CASE("block scaled: scales of zero, tiny and huge ones, and any sign") {
  int runs = 0;
  struct Scales {
    const char* what;
    ladder_test::ScaleOf a, b;
  };
  const auto power = [](int of_a, int of_b) {
    return Scales{"powers", [=](long long, long long) { return std::ldexp(1.0f, of_a); },
                  [=](long long, long long) { return std::ldexp(1.0f, of_b); }};
  };
  const Scales all[] = {
      {"some are 0", [](long long, long long col) { return col % 3 == 0 ? 0.0f : 0.5f; },
       [](long long row, long long col) { return (row + col) % 2 == 0 ? 0.0f : 2.0f; }},
      {"signs", [](long long, long long col) { return col % 2 == 0 ? -1.0f : 0.25f; },
       [](long long row, long long col) { return (row + col) % 2 == 0 ? -2.0f : 1.0f; }},
      power(-100, 90),
      power(100, -95),
      power(-60, -55),
      power(60, 50),
      // One block's product is 2^60 times another's.
      {"far apart", [](long long row, long long) { return std::ldexp(1.0f, row == 0 ? 40 : -20); },
       [](long long, long long) { return 1.0f; }}};
  for (const Scales& scales : all) {
    CAPTURE(scales.what);
    for (const char* type : TYPES) {
      BlockScaledProblem problem(scaled_shape(131, 259, 300, type), Data::ints, SCALED_PADDED);
      problem.set_scales(scales.a, scales.b);
      const bool exact = std::string(scales.what) != "far apart";
      runs += check_all(problem, exact);
    }
  }
  note(std::to_string(runs) + " runs");
}

TEST_CASE("block scaled: NaN in one element or scale is in the results that it is part of") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Stage* stage : scaled_rungs()) {
    for (const char* type : TYPES) {
      BlockScaledProblem problem(scaled_shape(130, 131, 200, type), Data::ints, SCALED_TIGHT);
      // Of row 77 the second block of K.
      problem.set_scales(
          [&](long long row, long long col) { return row == 1 && col == 77 ? nan : 1.0f; },
          [](long long, long long) { return 1.0f; });
      problem.d.poison();
      ladder_test::run_watched(stage->result(), problem.args);
      const std::vector<ladder::bf16> d = problem.d.download();
      long long wrong = 0;
      for (long long i = 0; i < 130 * 131; ++i) {
        const bool is_nan =
            std::isnan(ladder::Element<ladder::bf16>::to_float(d[static_cast<size_t>(i)]));
        wrong += is_nan != (i / 131 == 77);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("block scaled: without promotion sums over long K are outside the tolerance") {
  const int m = 64, n = on_machine() ? 256 : 4096, k = 8192;
  for (const Stage* stage : scaled_rungs()) {
    for (const Variant& variant : stage->variants) {
      BlockScaledProblem problem(scaled_shape(m, n, k, "e4m3", "tensor"), Data::normal);
      ladder::BlockScaledArgs judged = problem.args;
      judged.tensor_scales = false;  // by what is lost with promotion every 128
      if (variant.configuration || !variant.takes || !variant.takes(problem.args)) continue;
      if (variant.takes(judged)) continue;
      CAPTURE(variant.name);
      check_variant(variant, problem, false);  // right, as long as it may go without
      const ladder::Verdict verdict =
          on_machine()
              ? verify_block_scaled(judged, ladder::block_scaled_reference_on_host(judged), false)
              : verify_block_scaled(judged, ladder::block_scaled_reference_on_gpu(judged), false);
      CHECK(verdict.wrong > m * n / 200);
      note(std::string(variant.name) + ": " + std::to_string(verdict.wrong) + " of " +
           std::to_string(m * n) + " elements are outside");
    }
  }
}

TEST_CASE("block scaled, grids: every variant is exact with few CTAs, which take many tiles each") {
  const Shape shape = on_machine() ? Shape{600, 780, 264} : Shape{4097, 2050, 520};
  int runs = 0;
  for (const char* type : TYPES) {
    BlockScaledProblem problem(scaled_shape(shape.m, shape.n, shape.k, type), Data::ints,
                               SCALED_PADDED);
    for (const int max_ctas : {1, 2, on_machine() ? 4 : 78}) {
      problem.args.max_ctas = max_ctas;
      for (const Stage* stage : scaled_rungs()) {
        for (const Variant& variant : stage->variants) {
          if (variant.takes && !variant.takes(problem.args)) continue;
          if (ladder::chosen(variant, problem.args).rules().cluster > max_ctas) continue;
          check_variant(variant, problem, true);
          ++runs;
        }
      }
    }
  }
  CHECK(runs > 0);
  note(std::to_string(runs) + " runs");
}
