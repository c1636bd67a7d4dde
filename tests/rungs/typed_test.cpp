// Every type and layout of the rungs that take several: the right product at odd shapes and nothing
// else touched, on the PTX machine and on a GPU as rungs_test.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "common/host/best.h"
#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/where.h"
#include "tests/support/typed_problem.h"

using ladder::Data;
using ladder::on_machine;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;
using ladder_test::check_variant;
using ladder_test::note;
using ladder_test::Padding;
using ladder_test::TIGHT;
using ladder_test::TypeAndLayout;
using ladder_test::typed_rungs;
using ladder_test::typed_shape;
using ladder_test::TypedProblem;
using ladder_test::types_and_layouts;

namespace {

constexpr Padding PADDED{8, 24, 16};  // words

// The rung's kernels, which its other variants choose; how often `visit` was called.
template <class Visit>
int for_each_kernel(const Visit& visit) {
  int count = 0;
  for (const Stage* stage : typed_rungs()) {
    for (const Variant& variant : stage->variants) {
      if (!variant.configuration) continue;
      visit(variant);
      ++count;
    }
  }
  return count;
}

// Every kernel on the type and layout that it takes, with the problem that `make` makes of them, and
// at most so many CTAs, or a cluster (0: any number). Returns how many runs there were.
template <class MakeProblem>
int check_all(bool exact, const MakeProblem& make, const std::vector<int>& limits = {0}) {
  int runs = 0;
  for (const TypeAndLayout& each : types_and_layouts()) {
    const std::unique_ptr<TypedProblem> problem = make(each, runs);
    for_each_kernel([&](const Variant& variant) {
      if (!variant.takes(problem->args)) return;
      std::set<int> grids;
      for (const int most : limits) {
        grids.insert(most == 0 ? 0 : std::max(most, variant.rules().cluster));
      }
      for (const int max_ctas : grids) {
        problem->args.max_ctas = max_ctas;
        check_variant(variant, *problem, exact);
        ++runs;
      }
    });
  }
  return runs;
}

}  // namespace

TEST_CASE("types and layouts: every kernel is one that some call gets") {
  const int part = 8 * ladder::query_device().sm_count;  // 16 of them: a tile of 128 columns an SM
  struct Sizes {
    int m, n, k = 4096;
  };
  const Sizes ONE_OF_EACH[] = {
      {8, 8, 6144},
      {64, std::max(128, part)},
      {3 * part, 64},
      {64, 8 * part},
      {64, 16 * part},
      {64, 24 * part},
      {64, 32 * part},
      {128, 16 * part},
      {128, 24 * part},
      {128, 64 * part},
      {8192, 8192},
      // Between two heights; then with rows that begin between lines.
      {104, 14 * part},
      {120, 14 * part},
      {144, 11 * part},
      {176, 13 * part},
      {240, 13 * part},
      {640, 4 * part},
      {72, 3 * part + 8, 4104},
      {72, 8 * part + 8, 4104},
      {72, 16 * part + 8, 4104},
      {104, 3 * part + 8, 4104},
      {144, 6 * part + 8, 4104},
      {200, 3 * part + 8, 4104},
      {200, 5 * part},
      {168, 4 * part + 8, 4104},
      {168, 8 * part + 8},
      {200, 4 * part + 8, 4104},
      {8, 2 * part + 8},
  };
  for (const Stage* stage : typed_rungs()) {
    for (const Variant& kernel : stage->variants) {
      if (!kernel.configuration) continue;
      CAPTURE(std::string(kernel.name));
      int calls = 0;
      for (const TypeAndLayout& each : types_and_layouts()) {
        for (const auto& [m, n, k] : ONE_OF_EACH) {
          const auto sizes = stage->kind().sizes_of(typed_shape(m, n, k, each.type, each.layout));
          for (const Variant& variant : stage->variants) {
            if (variant.configuration || !variant.takes(*sizes)) continue;
            calls += std::string(ladder::chosen(variant, *sizes).name) == kernel.name;
          }
        }
      }
      CHECK(calls >= 1);
    }
  }
}

TEST_CASE("types and layouts: stage 0 chooses what the rung itself does, and no narrow swizzle") {
  for (const Stage* stage : typed_rungs()) {
    const Stage* const best = ladder::best_stage(stage->kind());
    REQUIRE(best != nullptr);
    for (const TypeAndLayout& each : types_and_layouts()) {
      for (const int m : {8, 200, 1000, 3000, 4096}) {  // some end within a row of 64 elements
        CAPTURE(std::string(each.type) + " " + each.layout + " " + std::to_string(m));
        const auto sizes =
            stage->kind().sizes_of(typed_shape(m, 4096, 4096, each.type, each.layout));
        CHECK(std::string(ladder::chosen(best->result(), *sizes).name) ==
              ladder::chosen(stage->result(), *sizes).name);
      }
    }
  }
}

TEST_CASE("types and layouts: what a variant does not take it refuses, and its kernels do too") {
  TypedProblem problem(typed_shape(8, 8, 8, "fp16", "NT"), Data::ints);
  int refused = 0;
  for (const Stage* stage : typed_rungs()) {
    for (const Variant& variant : stage->variants) {
      CAPTURE(variant.name);
      if (variant.takes(problem.args)) continue;
      try {
        ladder::run(variant, problem.args);
        FAIL_CHECK("it ran");
      } catch (const ladder::Refused& error) {
        const std::string sentence = error.what();
        CHECK(sentence.find("does not take this call") != std::string::npos);
        CHECK(sentence.find("the nearest that works is one with ") != std::string::npos);
        ++refused;
      }
    }
  }
  CHECK(refused > 30);
}

TEST_CASE("integers: every type and layout is exact at odd shapes, tight and padded") {
  const std::vector<Shape> shapes = ladder_test::odd_shapes();
  int runs = 0;
  for (const Shape& shape : shapes) {
    runs += check_all(true, [&](const TypeAndLayout& each, int done) {
      return std::make_unique<TypedProblem>(
          typed_shape(shape.m, shape.n, shape.k, each.type, each.layout), Data::ints,
          done % 2 == 0 ? TIGHT : PADDED);
    });
  }
  CHECK(runs > 0);
  note(std::to_string(runs) + " runs, bit for bit");
}

TEST_CASE("integers: every type and layout is exact at the edges of its tile and ring") {
  int runs = 0;
  for_each_kernel([&](const Variant& kernel) {
    for (const TypeAndLayout& each : types_and_layouts()) {
      const auto sizes = ladder_test::typed_rungs().front()->kind().sizes_of(
          typed_shape(8, 8, 8, each.type, each.layout));
      if (!kernel.takes(*sizes)) continue;
      int number = 0;
      for (const Shape& shape : ladder_test::edge_shapes(kernel)) {
        // On the machine every kernel gets some of them, and all of them together get each.
        if (on_machine() && (number++ + runs) % 3 != 0) continue;
        TypedProblem problem(typed_shape(shape.m, shape.n, shape.k, each.type, each.layout),
                             Data::ints, runs % 2 == 0 ? TIGHT : PADDED);
        check_variant(kernel, problem, true);
        ++runs;
      }
    }
  });
  CHECK(runs > 0);
  note(std::to_string(runs) + " runs, bit for bit");
}

TEST_CASE("normal data: every type and layout is within the tolerance") {
  const int runs = check_all(false, [&](const TypeAndLayout& each, int) {
    return std::make_unique<TypedProblem>(typed_shape(257, 300, 200, each.type, each.layout),
                                          Data::normal, PADDED);
  });
  CHECK(runs > 0);
  note(std::to_string(runs) + " runs");
}

TEST_CASE("normal data: one product alone is right, where fp16 is subnormal too") {
  for (const Stage* stage : typed_rungs()) {
    for (const TypeAndLayout& each : types_and_layouts()) {
      TypedProblem problem(typed_shape(256, 256, 1, each.type, each.layout), Data::normal, PADDED);
      check_variant(stage->result(), problem, false);
    }
  }
}

TEST_CASE("grids: every type and layout is exact with few CTAs, which take many tiles each") {
  const Shape shape = on_machine() ? Shape{430, 604, 136} : Shape{4097, 2050, 200};
  const auto make = [&](const TypeAndLayout& each, int) {
    return std::make_unique<TypedProblem>(
        typed_shape(shape.m, shape.n, shape.k, each.type, each.layout), Data::ints, PADDED);
  };
  const int runs = check_all(true, make, {2, on_machine() ? 4 : 78});
  CHECK(runs > 0);
  note(std::to_string(runs) + " runs");
}

TEST_CASE("tf32: operands are rounded to the nearest of its numbers, to even between two") {
  // 1 and some of the 13 bits that tf32 has not: below half, half, above half, half of an odd number.
  const uint32_t bits[] = {0x3f800fff, 0x3f801000, 0x3f801001, 0x3f803000, 0xbf801001, 0x3f800000};
  const uint32_t rounded[] = {0x3f800000, 0x3f800000, 0x3f802000,
                              0x3f804000, 0xbf802000, 0x3f800000};
  constexpr int COUNT = 6;
  for (const Stage* stage : typed_rungs()) {
    TypedProblem problem(typed_shape(COUNT, 8, 4, "tf32", "TN"), Data::zeros);
    // A's first column has the numbers, and B's a one in its first row.
    std::vector<uint32_t> a(COUNT * 4), b(8 * 4), d(COUNT * 8);
    for (int i = 0; i < COUNT; ++i) a[i * 4] = bits[i];
    b[0] = 0x3f800000;
    ladder::check_cuda(cudaMemcpy(problem.a.data(), a.data(), a.size() * 4, cudaMemcpyHostToDevice),
                       "uploading A");
    ladder::check_cuda(cudaMemcpy(problem.b.data(), b.data(), b.size() * 4, cudaMemcpyHostToDevice),
                       "uploading B");
    check_variant(stage->result(), problem, true);
    ladder::check_cuda(cudaMemcpy(d.data(), problem.d.data(), d.size() * 4, cudaMemcpyDeviceToHost),
                       "downloading D");
    for (int i = 0; i < COUNT; ++i) {
      CAPTURE(i);
      CHECK(d[i * 8] == rounded[i]);
    }
  }
}
