// Every rung and every variant: the right product at odd shapes and nothing else touched. On the
// PTX machine also no report of its checker; scripts/run_tests.py runs this there under each policy,
// and on a GPU, where shapes are more and larger.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "common/host/options.h"
#include "common/host/where.h"
#include "tests/support/problem.h"

using ladder::Data;
using ladder::on_machine;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;
using ladder_test::check_variant;
using ladder_test::Expected;
using ladder_test::for_each_variant;
using ladder_test::note;
using ladder_test::PADDED;
using ladder_test::Padding;
using ladder_test::Problem;
using ladder_test::TIGHT;

TEST_CASE("options: a rung's parameters are known to the programs of all rungs") {
  std::map<std::string, std::vector<int>> rungs;
  for (const Stage& stage : ladder::stages()) {
    for (const ladder::Parameter& parameter : stage.kind().parameters()) {
      rungs[std::string("--") + parameter.name].push_back(stage.number);
    }
  }
  CHECK(!rungs.empty());
  for (const auto& [option, numbers] : rungs) {
    CAPTURE(option);
    CHECK(ladder::rungs_with(option) == numbers);
  }
}

TEST_CASE("integers: every variant is exact at odd shapes, tight and padded") {
  int variants = 0;
  const std::vector<Shape> shapes = ladder_test::odd_shapes();
  for (const Shape& shape : shapes) {
    for (const Padding& padding : {TIGHT, PADDED}) {
      Problem problem(shape, Data::ints, padding);
      const Expected expected(problem.args);
      variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
        check_variant(stage, variant, problem, expected, true);
      });
    }
  }
  CHECK(variants > 0);
  note(std::to_string(variants) + " variants, " + std::to_string(2 * shapes.size()) +
       " shapes each, bit for bit");
}

TEST_CASE("integers: every variant is exact at the edges of its own tile and ring") {
  size_t problems = 0;
  const int variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
    for (const Shape& shape : ladder_test::edge_shapes(variant)) {
      Problem problem(shape, Data::ints, ++problems % 2 == 0 ? TIGHT : PADDED);
      check_variant(stage, variant, problem, Expected(problem.args), true);
    }
  });
  CHECK(problems > 0);
  note(std::to_string(variants) + " variants, " + std::to_string(problems) +
       " problems in all, bit for bit");
}

TEST_CASE("normal data: every variant is within the tolerance") {
  int variants = 0;
  for (const Shape& shape : {Shape{257, 300, 200}, Shape{129, 513, 1000}}) {
    Problem problem(shape, Data::normal, PADDED);
    const Expected expected(problem.args);
    variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
      check_variant(stage, variant, problem, expected, false);
    });
  }
  note(std::to_string(variants) + " variants");
}

TEST_CASE("grids: persistent variants are exact with few CTAs, which take many tiles each") {
  int runs = 0;
  // 0: as many CTAs as fit.
  const std::vector<int> grids =
      on_machine() ? std::vector<int>{1, 3, 8} : std::vector<int>{1, 7, 78, 0};
  const std::vector<Shape> shapes = on_machine()
                                        ? std::vector<Shape>{{700, 1000, 136}}
                                        : std::vector<Shape>{{1000, 3000, 1496}, {4097, 2050, 200}};
  for (const Shape& shape : shapes) {
    Problem problem(shape, Data::ints, PADDED);
    const Expected expected(problem.args);
    for_each_variant([&](const Stage& stage, const Variant& variant) {
      if (!variant.rules().persistent) return;
      for (const int max_ctas : grids) {
        problem.args.max_ctas =
            max_ctas == 0 ? 0
                          : std::max(max_ctas, ladder_test::cluster_ctas(variant, problem.args));
        check_variant(stage, variant, problem, expected, true);
        ++runs;
      }
      problem.args.max_ctas = 0;
    });
  }
  CHECK(runs > 0);
  note(std::to_string(runs) + " runs");
}

TEST_CASE("shared K: every variant that shares tiles is exact where it does") {
  int variants = 0, runs = 0;
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    if (variant.kernel.workspace_bytes == 0) return;
    int shared = 0;
    for (const ladder_test::SharedCall& call : ladder_test::shared_calls(variant)) {
      Problem problem(call.shape, Data::ints, ++runs % 2 == 0 ? TIGHT : PADDED);
      problem.args.max_ctas = call.max_ctas;
      check_variant(stage, variant, problem, Expected(problem.args), true);
      shared += problem.workspace.written();
    }
    CAPTURE(stage.stem);
    CAPTURE(variant.name);
    CHECK(shared >= 2);
    ++variants;
  });
  CHECK(variants > 0);
  note(std::to_string(variants) + " variants, " + std::to_string(runs) + " runs");
}
