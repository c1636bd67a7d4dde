// Rungs that multiply groups of rows: the right product at odd sizes and nothing else touched,
// whatever the sizes that the device finds, on the PTX machine and on a GPU as rungs_test.cpp.
#include <doctest/doctest.h>

#include <climits>

#include "common/host/error.h"
#include "common/host/watchdog.h"
#include "tests/support/grouped_problem.h"

using ladder::Data;
using ladder::Stage;
using ladder::Variant;
using ladder_test::check_grouped;
using ladder_test::check_variant;
using ladder_test::grouped_rungs;
using ladder_test::GroupedProblem;
using ladder_test::GroupedShape;
using ladder_test::note;
using ladder_test::offsets_of;

namespace {

constexpr int TYPES[] = {LADDER_BF16, LADDER_E4M3};

int last_of(const std::vector<int>& offsets) {
  return offsets.back();
}

// What stands for a rung, and its variants that need a workspace, which nothing chooses: those that
// take the problem.
std::vector<const Variant*> steady_variants(const Stage& stage, const GroupedProblem& problem) {
  std::vector<const Variant*> all = {&stage.result()};
  for (const Variant& variant : stage.variants) {
    if (variant.kernel.workspace_bytes > 0 && variant.takes(problem.args)) all.push_back(&variant);
  }
  return all;
}

}  // namespace

TEST_CASE("grouped, integers: every variant is exact for groups of any length") {
  int runs = 0;
  const std::vector<int> lengths[] = {
      {0, 0, 0}, {1, 1, 1, 1, 1, 1, 1}, {0, 300, 0}, {63, 64, 65}, {1, 0, 129, 0, 255, 2}};
  for (const int type : TYPES) {
    for (const std::vector<int>& rows : lengths) {
      const std::vector<int> offsets = offsets_of(rows);
      GroupedProblem contiguous({type, false, last_of(offsets), 136, 200, offsets}, Data::ints,
                                runs % 2 == 0);
      runs += check_grouped(contiguous, true);
      GroupedProblem masked({type, true, 300, 136, 200, rows}, Data::ints, runs % 2 == 1);
      runs += check_grouped(masked, true);
    }
  }
  note(std::to_string(runs) + " runs, bit for bit");
}

TEST_CASE("grouped, integers: every variant is exact for ragged N and K") {
  int runs = 0;
  const std::vector<int> offsets = {0, 70, 71, 71, 200};
  for (const int type : TYPES) {
    for (const auto& [n, k] :
         {std::pair{1, 1}, {7, 100}, {9, 64}, {129, 8}, {300, 131}, {513, 1000}}) {
      GroupedProblem problem({type, false, 200, n, k, offsets}, Data::ints, runs % 2 == 0);
      runs += check_grouped(problem, true);
    }
  }
  note(std::to_string(runs) + " runs, bit for bit");
}

TEST_CASE("grouped, integers: groups may begin behind row 0 and end before the last") {
  for (const int type : TYPES) {
    GroupedProblem problem({type, false, 400, 136, 200, {5, 70, 133, 390}}, Data::ints, true);
    check_grouped(problem, true);
  }
}

TEST_CASE("grouped, normal data: every variant is within the tolerance") {
  int runs = 0;
  for (const int type : TYPES) {
    GroupedProblem contiguous({type, false, 260, 300, 520, {0, 129, 130, 260}}, Data::normal, true);
    runs += check_grouped(contiguous, false);
    GroupedProblem masked({type, true, 150, 300, 520, {150, 0, 65}}, Data::normal);
    runs += check_grouped(masked, false);
  }
  note(std::to_string(runs) + " runs");
}

TEST_CASE("grouped: bad offsets are no fault, D of bad groups stays, the error flag says which") {
  int runs = 0;
  for (const Stage* stage : grouped_rungs()) {
    for (const int type : TYPES) {
      GroupedProblem contiguous({type, false, 300, 72, 136, {0, 100, 200, 250, 300}}, Data::ints,
                                true);
      for (const std::vector<int>& sizes : {std::vector<int>{0, 100, 90, 250, 300},  // decreasing
                                            {-1, 100, 200, 250, 300},                // negative
                                            {0, 100, 200, 301, 300},                 // too large
                                            {0, 100, INT_MAX, INT_MIN, 300},
                                            {INT_MIN, INT_MAX, 0, 1, 2},
                                            {0, 100, 200, 250, INT_MAX},
                                            {300, 300, 300, 300, 300}}) {
        contiguous.set_sizes(sizes);
        for (const Variant* variant : steady_variants(*stage, contiguous)) {
          check_variant(*variant, contiguous, true);
          ++runs;
        }
      }
      GroupedProblem masked({type, true, 100, 72, 136, {0, 0, 0, 0}}, Data::ints, true);
      for (const std::vector<int>& sizes : {std::vector<int>{101, 5, 100, 70},
                                            {5, -1, INT_MIN, 70},
                                            {INT_MAX, INT_MAX, INT_MAX, INT_MAX},
                                            {100, 100, 100, -100}}) {
        masked.set_sizes(sizes);
        for (const Variant* variant : steady_variants(*stage, masked)) {
          check_variant(*variant, masked, true);
          ++runs;
        }
      }
    }
  }
  note(std::to_string(runs) + " runs");
}

TEST_CASE("grouped: as many groups as there may be, most of them empty, and with a row each") {
  for (const int type : TYPES) {
    std::vector<int> rows(512, 0);
    rows[0] = rows[17] = rows[32] = rows[33] = rows[511] = 3;
    GroupedProblem few({type, false, 15, 16, 32, offsets_of(rows)}, Data::ints);
    check_grouped(few, true);
    GroupedProblem each({type, false, 512, 16, 32, offsets_of(std::vector<int>(512, 1))},
                        Data::ints);
    check_variant(grouped_rungs().front()->result(), each, true);
    rows[300] = -1;  // contiguous, all behind it would be bad
    GroupedProblem masked({type, true, 4, 16, 32, rows}, Data::ints);
    check_variant(grouped_rungs().front()->result(), masked, true);
  }
}

TEST_CASE("grouped: grids of one, of seven, of all CTAs") {
  int runs = 0;
  for (const Stage* stage : grouped_rungs()) {
    for (const int type : TYPES) {
      GroupedProblem problem({type, false, 500, 300, 264, {0, 10, 300, 300, 500}}, Data::ints,
                             true);
      for (const int grid : {1, 7, 0}) {
        problem.args.max_ctas = grid;
        for (const Variant* variant : steady_variants(*stage, problem)) {
          check_variant(*variant, problem, true);
          ++runs;
        }
      }
    }
  }
  note(std::to_string(runs) + " runs");
}

TEST_CASE("grouped: variants that need a workspace share one along a stream, and refuse without") {
  int variants = 0;
  const ladder_test::Stream stream;
  GroupedProblem first({LADDER_BF16, false, 400, 300, 264, {5, 70, 133, 390}}, Data::ints, true,
                       stream.handle);
  GroupedProblem second({LADDER_BF16, true, 150, 520, 72, {1, 0, 65, 150}}, Data::ints, false,
                        stream.handle);
  second.args.workspace = first.args.workspace;
  for (const Stage* stage : grouped_rungs()) {
    for (const Variant* variant : steady_variants(*stage, first)) {
      if (variant->kernel.workspace_bytes == 0) continue;
      CAPTURE(variant->name);
      for (const int grid : {0, 1}) {
        first.args.max_ctas = second.args.max_ctas = grid;
        first.poison();
        second.poison();
        {
          const ladder::Watchdog watchdog(variant->name);
          for (int i = 0; i < 2; ++i) {  // the second of them may begin before the first ends
            ladder::run(*variant, first.args);
            ladder::run(*variant, second.args);
          }
          ladder::check_cuda(cudaStreamSynchronize(stream.handle), "a chain of calls");
        }
        CHECK(first.verify(true).ok());
        CHECK(second.verify(true).ok());
        CHECK(first.damage() + second.damage() == 0);
      }
      ladder::GroupedArgs without = first.args;
      without.workspace = nullptr;
      std::string error;
      try {
        ladder::run(*variant, without);
      } catch (const ladder::Refused& refused) {
        error = refused.what();
      }
      CAPTURE(error);
      CHECK(error.find(std::string("workspace is null: ") + variant->name) != std::string::npos);
      CHECK(error.find("the nearest that works is a workspace of ladder_workspace_bytes() bytes") !=
            std::string::npos);
      ++variants;
    }
  }
  CHECK(variants > 0);
  note(std::to_string(variants) + " variants");
}

TEST_CASE("grouped: rows of A and scales that are no group's may never have been written") {
  for (const int type : TYPES) {
    for (const bool masked : {false, true}) {
      GroupedProblem problem(
          {type, masked, masked ? 150 : 400, 136, 200,
           masked ? std::vector<int>{5, 70, 129} : std::vector<int>{5, 70, 133, 270}},
          Data::ints);
      const ladder::GroupedArgs given = problem.args;
      const long long element = type == LADDER_E4M3 ? 1 : 2, blocks = ladder::scale_blocks(given.k);
      const ladder::DeviceBuffer a(static_cast<size_t>(given.all_rows() * given.lda * element));
      const ladder::DeviceBuffer scales(static_cast<size_t>(blocks * given.ld_scale_a * 4));
      const auto copy = [](void* to, const void* from, long long offset, long long pitch,
                           long long row_bytes, long long rows) {
        ladder::check_cuda(cudaMemcpy2D(static_cast<char*>(to) + offset, static_cast<size_t>(pitch),
                                        static_cast<const char*>(from) + offset,
                                        static_cast<size_t>(pitch), static_cast<size_t>(row_bytes),
                                        static_cast<size_t>(rows), cudaMemcpyDeviceToDevice),
                           "copying rows");
      };
      const ladder::GoodRows good =
          ladder::good_rows({problem.shape.sizes.data(), 3, problem.shape.m, masked});
      for (const tile::GroupRows& rows : good.rows) {
        copy(a.data(), given.a, rows.begin * given.lda * element, given.lda * element,
             given.k * element, rows.count);
        if (type != LADDER_E4M3) continue;
        copy(scales.data(), given.scale_a, rows.begin * 4LL, given.ld_scale_a * 4, rows.count * 4LL,
             blocks);
      }
      problem.args.a = a.data();
      problem.args.scale_a = scales.as<float>();
      check_grouped(problem, true);
    }
  }
}

TEST_CASE("grouped: the check fails for another group's weights, and for another's rows") {
  for (const int type : TYPES) {
    GroupedProblem problem({type, false, 130, 72, 136, {0, 65, 130, 130}}, Data::ints);
    check_variant(grouped_rungs().front()->result(), problem, true);
    const ladder::GroupedArgs given = problem.args;
    const long long element = type == LADDER_E4M3 ? 1 : 2;
    problem.args.b = static_cast<const char*>(given.b) + given.n * given.ldb * element;
    CHECK_FALSE(problem.verify(true).ok());
    problem.args = given;
    problem.shape.sizes = {0, 64, 130, 130};  // than the kernel was told
    CHECK_FALSE(problem.verify(true).ok());
  }
}
