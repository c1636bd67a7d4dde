// Every rung and every variant on the PTX machine: the right product at odd shapes, nothing else
// touched, and no report of its checker. scripts/run_tests.py runs this under each policy.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "common/host/error.h"
#include "common/host/registry.h"
#include "common/host/run.h"
#include "common/host/verify.h"
#include "common/host/workload.h"
#include "tests/doctest_main.h"

using ladder::bf16;
using ladder::check_cuda;
using ladder::Data;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;

namespace {

constexpr uint16_t POISON = 0xffa5;  // a NaN
constexpr long long GUARD = 2048;    // words before and behind a matrix

// Words added to the smallest legal leading dimension of A, B and D.
struct Padding {
  int a = 0, b = 0, d = 0;
};
constexpr Padding TIGHT{0, 0, 0}, PADDED{8, 24, 16};

// A row-major matrix that ends at its last element, between two guards. Guards, padding and, until
// written, elements hold POISON.
class Matrix {
 public:
  Matrix(int rows, int cols, int padding)
      : cols_(cols),
        ld_((cols + 7LL) / 8 * 8 + padding),
        span_(rows > 0 && cols > 0 ? (rows - 1) * ld_ + cols : 0),
        buffer_((2 * GUARD + span_) * sizeof(uint16_t)) {
    poison();
  }
  bf16* data() const { return buffer_.as<bf16>() + GUARD; }
  long long ld() const { return ld_; }

  void poison() {
    const std::vector<uint16_t> words(2 * GUARD + span_, POISON);
    check_cuda(cudaMemcpy(buffer_.data(), words.data(), buffer_.bytes(), cudaMemcpyHostToDevice),
               "poisoning a matrix");
  }

  // Words of guards and padding that have changed.
  long long damage() const {
    std::vector<uint16_t> words(2 * GUARD + span_);
    check_cuda(cudaMemcpy(words.data(), buffer_.data(), buffer_.bytes(), cudaMemcpyDeviceToHost),
               "reading a matrix");
    long long damaged = 0;
    for (long long i = 0; i < static_cast<long long>(words.size()); ++i) {
      const long long at = i - GUARD;
      const bool is_element = at >= 0 && at < span_ && at % ld_ < cols_;
      damaged += !is_element && words[i] != POISON;
    }
    return damaged;
  }

 private:
  int cols_;
  long long ld_, span_;
  ladder::DeviceBuffer buffer_;
};

struct Problem {
  Matrix a, b, d;
  ladder::GemmArgs args;
  ladder::HostReference reference;

  Problem(const Shape& shape, Data data, const Padding& padding)
      : a(shape.m, shape.k, padding.a),
        b(shape.n, shape.k, padding.b),
        d(shape.m, shape.n, padding.d) {
    args.m = shape.m;
    args.n = shape.n;
    args.k = shape.k;
    args.a = a.data();
    args.lda = a.ld();
    args.b = b.data();
    args.ldb = b.ld();
    args.d = d.data();
    args.ldd = d.ld();
    ladder::fill_from_host(a.data(), shape.m, shape.k, a.ld(), data, 1, nullptr);
    ladder::fill_from_host(b.data(), shape.n, shape.k, b.ld(), data, 2, nullptr);
    reference = ladder::reference_on_host(args);
  }
};

void check_variant(const Stage& stage, const Variant& variant, Problem& problem, bool exact) {
  const std::string where = stage.stem + "/" + variant.name + " at " +
                            to_string(Shape{problem.args.m, problem.args.n, problem.args.k}) +
                            ", at most " + std::to_string(problem.args.max_ctas) + " CTAs";
  CAPTURE(where);
  try {
    problem.d.poison();
    ladder::run(variant, problem.args);
    check_cuda(cudaStreamSynchronize(problem.args.stream), "waiting for the kernel");
    const ladder::Verdict verdict = ladder::verify_on_host(problem.args, problem.reference, exact);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
    CHECK(problem.d.damage() == 0);
    CHECK(problem.a.damage() == 0);
    CHECK(problem.b.damage() == 0);
  } catch (const std::exception& error) {
    FAIL_CHECK(std::string(error.what()));
  }
}

template <class Visit>
int for_each_variant(const Visit& visit) {
  int count = 0;
  for (const Stage& stage : ladder::stages()) {
    for (const Variant& variant : stage.variants) {
      visit(stage, variant);
      ++count;
    }
  }
  return count;
}

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
  int variants = 0;
  for (const Shape& shape : ODD_SHAPES) {
    for (const Padding& padding : {TIGHT, PADDED}) {
      Problem problem(shape, Data::ints, padding);
      variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
        check_variant(stage, variant, problem, true);
      });
    }
  }
  ladder_test::note(std::to_string(variants) + " variants, " +
                    std::to_string(2 * std::size(ODD_SHAPES)) + " shapes each, bit for bit");
}

TEST_CASE("integers: every variant is exact at the edges of its own tile and ring") {
  size_t problems = 0;
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    for (const Shape& shape : edge_shapes(variant)) {
      Problem problem(shape, Data::ints, ++problems % 2 == 0 ? TIGHT : PADDED);
      check_variant(stage, variant, problem, true);
    }
  });
  ladder_test::note(std::to_string(problems) + " problems, bit for bit");
}

TEST_CASE("normal data: every variant is within the tolerance") {
  int variants = 0;
  for (const Shape& shape : {Shape{257, 300, 200}, Shape{129, 513, 1000}}) {
    Problem problem(shape, Data::normal, PADDED);
    variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
      check_variant(stage, variant, problem, false);
    });
  }
  ladder_test::note(std::to_string(variants) + " variants");
}

TEST_CASE("grids: persistent variants are exact with few CTAs, which take many tiles each") {
  int runs = 0;
  Problem problem({700, 1000, 136}, Data::ints, PADDED);
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    if (!variant.persistent) return;
    for (const int max_ctas : {1, 3, 8}) {
      const Variant& called = ladder::chosen(variant, problem.args);
      problem.args.max_ctas = std::max(max_ctas, called.cluster_m * called.cluster_n);
      check_variant(stage, variant, problem, true);
      ++runs;
    }
  });
  CHECK(runs > 0);
  ladder_test::note(std::to_string(runs) + " runs");
}

TEST_CASE("degenerate shapes: K = 0 writes zeros and no padding") {
  Problem problem({130, 67, 0}, Data::normal, PADDED);
  const int variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
    check_variant(stage, variant, problem, true);
  });
  ladder_test::note(std::to_string(variants) + " variants");
}
