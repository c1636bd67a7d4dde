// Products with an epilogue: right at odd shapes and nothing else touched, with and without C and
// bias, in place and not, on the PTX machine and on a GPU as rungs_test.cpp.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/host/error.h"
#include "common/host/fused_verify.cuh"
#include "common/host/where.h"
#include "tests/support/fused_problem.h"

using ladder::Data;
using ladder::on_machine;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;
using ladder_test::ActivationAndType;
using ladder_test::activations_and_types;
using ladder_test::Added;
using ladder_test::check_variant;
using ladder_test::fused_rungs;
using ladder_test::fused_shape;
using ladder_test::FusedProblem;
using ladder_test::note;
using ladder_test::Padding;
using ladder_test::TIGHT;

namespace {

constexpr Padding PADDED{8, 24, 16};  // words

const Added BIAS{0.5f, 0, true, false}, C{2, -0.5f, false, false}, BOTH{-1, 2, true, false},
    NOTHING{0.25f, 0, false, false}, IN_PLACE{1, 0.5f, true, true};

Shape shape_of(const Shape& shape, const ActivationAndType& each) {
  const int n = each.gated() ? (shape.n + 15) / 16 * 16 : shape.n;
  return fused_shape(shape.m, n, shape.k, each.activation, each.type);
}

// What an activation can be with: a gate has no C.
std::vector<Added> additions(const ActivationAndType& each) {
  if (each.gated()) return {BIAS, NOTHING};
  return {BIAS, C, BOTH, NOTHING, IN_PLACE};
}

// The kernels that take such calls. Returns how many.
template <class Visit>
int for_each_kernel(const ActivationAndType& each, const Visit& visit) {
  int count = 0;
  const auto sizes = ladder::FusedArgs::kind().sizes_of(shape_of({8, 16, 8}, each));
  for (const Stage* stage : fused_rungs()) {
    for (const Variant& variant : stage->variants) {
      if (variant.chooses() || !variant.takes(*sizes)) continue;
      visit(variant);
      ++count;
    }
  }
  CHECK(count > 0);
  return count;
}

}  // namespace

TEST_CASE("epilogues: every one is right at odd shapes, by whatever is chosen, tight and padded") {
  int runs = 0;
  for (const Shape& shape : ladder_test::odd_shapes()) {
    for (const ActivationAndType& each : activations_and_types()) {
      const std::vector<Added> all = additions(each);
      for (size_t i = 0; i < all.size(); ++i) {
        if (on_machine() && (runs + i) % 2 != 0) continue;  // with the other shapes each gets all
        FusedProblem problem(shape_of(shape, each), Data::ints, all[i],
                             runs % 3 == 0 ? TIGHT : PADDED);
        check_variant(fused_rungs().front()->result(), problem, problem.is_exact());
        ++runs;
      }
      ++runs;
    }
  }
  CHECK(runs > 0);
}

TEST_CASE("epilogues: every kernel is right at the edges of its tile and ring") {
  int runs = 0;
  for (const ActivationAndType& each : activations_and_types()) {
    const std::vector<Added> all = additions(each);
    for_each_kernel(each, [&](const Variant& kernel) {
      int number = 0;
      for (const Shape& shape : ladder_test::edge_shapes(kernel)) {
        // On the machine every kernel gets some of them, and all of them together get each.
        if (on_machine() && (number++ + runs) % 4 != 0) continue;
        FusedProblem problem(shape_of(shape, each), Data::ints, all[runs % all.size()],
                             runs % 2 == 0 ? TIGHT : PADDED);
        check_variant(kernel, problem, problem.is_exact());
        ++runs;
      }
      ++runs;
    });
  }
  CHECK(runs > 0);
  note(std::to_string(runs) + " runs");
}

TEST_CASE("epilogues: normal data is within the tolerance, of sums near zero and far from it") {
  int runs = 0;
  for (const ActivationAndType& each : activations_and_types()) {
    for (const float alpha : {0.0f, 0.0625f, -0.25f, 1.0f}) {
      Added added = each.gated() ? BIAS : BOTH;
      added.alpha = alpha;
      FusedProblem problem(shape_of({257, 300, 200}, each), Data::normal, added, PADDED);
      check_variant(fused_rungs().front()->result(), problem, false);
      ++runs;
    }
  }
  note(std::to_string(runs) + " runs");
}

TEST_CASE("epilogues: few CTAs take many tiles each, whose C and D go through the same boxes") {
  const Shape shape = on_machine() ? Shape{300, 396, 136} : Shape{4097, 2050, 200};
  int runs = 0;
  for (const ActivationAndType& each : activations_and_types()) {
    FusedProblem problem(shape_of(shape, each), Data::ints, each.gated() ? BIAS : IN_PLACE, PADDED);
    for_each_kernel(each, [&](const Variant& kernel) {
      const int cluster = kernel.rules().cluster;
      for (const int ctas : {cluster, on_machine() ? 2 * cluster : 78}) {
        // On the machine every other, so that each kernel gets one of them.
        if (on_machine() && (runs++ + ctas / cluster) % 2 == 0) continue;
        problem.args.max_ctas = ctas;
        check_variant(kernel, problem, problem.is_exact());
      }
    });
  }
}

TEST_CASE("epilogues: where beta is 0, what C holds does not matter, nor where there is none") {
  for (const ActivationAndType& each : activations_and_types()) {
    FusedProblem problem(shape_of({130, 144, 72}, each), Data::ints, BIAS);
    problem.args.c = problem.d.data();  // of NaN
    problem.args.ldc = problem.args.ldd;
    check_variant(fused_rungs().front()->result(), problem, problem.is_exact());
    problem.args.c = reinterpret_cast<const void*>(8);  // nobody's, and not aligned
    problem.args.ldc = -1;
    check_variant(fused_rungs().front()->result(), problem, problem.is_exact());
  }
}

// Of sums that are exact, so that the activation alone may be off.
TEST_CASE("epilogues: an activation is off by 2^-15 of itself and 2^-30 of its argument at most") {
  constexpr int N = 8192;
  for (const ActivationAndType& each : activations_and_types()) {
    if (each.type == "bf16") continue;
    FusedProblem problem(shape_of({1, N, 8}, each), Data::zeros, BIAS);
    std::vector<float> bias(N), d(static_cast<size_t>(problem.args.columns()));
    for (int i = 0; i < N; ++i) {  // from -32 to 32, a quarter of them from 2^-10 to 2^5 in size
      const float x = static_cast<float>(i - N / 2) / 128;
      bias[i] = i % 4 == 0 ? std::copysign(std::exp2(std::abs(x) * 15 / 32 - 10), x) : x;
      if (each.gated() && i % 16 >= 8) bias[i] = 1;
    }
    ladder::check_cuda(cudaMemcpy(problem.bias.data(), bias.data(), N * 4, cudaMemcpyHostToDevice),
                       "uploading the bias");
    problem.refill();
    ladder_test::run_watched(fused_rungs().front()->result(), problem.args);
    ladder::check_cuda(cudaMemcpy(d.data(), problem.d.data(), d.size() * 4, cudaMemcpyDeviceToHost),
                       "downloading D");
    double worst = 0;
    for (size_t i = 0; i < d.size(); ++i) {
      const double x = bias[each.gated() ? ladder::gate_column(static_cast<int>(i)) : i];
      const ladder::Bounded f = ladder::activated(problem.args.activation, {x, 0});
      const double off = std::abs(d[i] - f.value), allowed = f.error + 0x1p-24 * std::abs(f.value);
      if (off > 0) worst = std::max(worst, off / allowed);
    }
    CAPTURE(each.activation);
    CHECK(worst <= 1);
    CHECK((worst > 0.01 || problem.is_exact()));
  }
}

// A run on arguments that are wrong in a way must not pass for the right one.
TEST_CASE("epilogues: the check of results can fail") {
  using ladder::FusedArgs;
  using Break = std::function<void(FusedProblem&)>;
  const auto wrong_of = [](const ActivationAndType& each, const Added& added, const Break& wreck) {
    FusedProblem problem(shape_of({64, 128, 96}, each), Data::normal, added);
    problem.args.alpha = 0.125f;
    check_variant(fused_rungs().front()->result(), problem, false);
    const FusedArgs right = problem.args;
    problem.refill();
    wreck(problem);
    ladder_test::run_watched(fused_rungs().front()->result(), problem.args);
    problem.args = right;
    return static_cast<double>(problem.verify(false).wrong) / (64 * right.columns());
  };
  // Its columns, moved by so many.
  const auto rotate = [](ladder_test::Matrix& matrix, int rows, int columns, int words, int by) {
    std::vector<ladder::bf16> all = matrix.download();
    for (int row = 0; row < rows; ++row) {
      const auto begin = all.begin() + row * columns * words;
      std::rotate(begin, begin + by * words, begin + columns * words);
    }
    matrix.upload(all);
  };
  for (const ActivationAndType& each : activations_and_types()) {
    CAPTURE(each.activation);
    CAPTURE(each.type);
    const int words = each.type == "bf16" ? 1 : 2;
    // relu makes half of all results 0, whatever else is wrong.
    const double most = each.activation == "relu" ? 0.4 : 0.9;
    CHECK(wrong_of(each, BIAS, [&](FusedProblem& p) { rotate(p.bias, 1, p.args.n, words, 1); }) >
          most);
    CHECK(wrong_of(each, BIAS, [](FusedProblem& p) { p.args.bias = nullptr; }) > most);
    CHECK(wrong_of(each, NOTHING, [](FusedProblem& p) { p.args.alpha = 0.13f; }) > most);
    CHECK(wrong_of(each, BIAS, [](FusedProblem& p) { p.args.k -= 8; }) > most);
    const int another = each.activation == "gelu"        ? LADDER_GELU_TANH
                        : each.activation == "gelu_tanh" ? LADDER_GELU
                        : each.activation == "silu"      ? LADDER_GELU
                                                         : LADDER_SILU;
    if (!each.gated()) {
      CHECK(wrong_of(each, C, [](FusedProblem& p) { p.args.beta = 0; }) > most);
      CHECK(wrong_of(each, BOTH, [](FusedProblem& p) { p.args.c = p.d.data(); }) > most);  // NaN
      CHECK(wrong_of(each, NOTHING, [&](FusedProblem& p) { p.args.activation = another; }) >
            // The two kinds of gelu differ by 5e-4 at most: fp32 tells, and bf16 for some.
            (each.activation.find("gelu") != 0 ? most
             : words == 1                      ? 0.01
                                               : 0.4));
    } else {  // gate and up swapped: turns of 8 rows of B
      CHECK(wrong_of(each, NOTHING, [](FusedProblem& p) {
              std::vector<ladder::bf16> b = p.b.download();
              std::rotate(b.begin(), b.begin() + 8 * p.args.k, b.end());
              p.b.upload(b);
            }) > most);
    }
  }
}

// A bias of such values in turns, behind products of zeros: what a rung makes of them, to bf16's bits.
// Of a gate's columns every second 8 are ones. Without a product it is the host that does it.
static std::vector<float> made_of(const ActivationAndType& each, const std::vector<float>& values,
                                  bool product) {
  constexpr int M = 2, N = 16;
  FusedProblem problem(shape_of({M, N, 8}, each), Data::zeros, BIAS);
  const int words = each.type == "bf16" ? 1 : 2;
  std::vector<uint16_t> bias(static_cast<size_t>(N) * words);
  for (int i = 0; i < N; ++i) {
    const float value = each.gated() && i >= 8 ? 1.0f : values[i % values.size()];
    const auto bits = std::bit_cast<uint32_t>(value);
    if (words == 1) bias[i] = static_cast<uint16_t>(bits >> 16);
    if (words == 2) std::memcpy(&bias[2 * i], &bits, 4);
  }
  ladder::check_cuda(
      cudaMemcpy(problem.bias.data(), bias.data(), bias.size() * 2, cudaMemcpyHostToDevice),
      "uploading the bias");
  problem.refill();
  if (!product) problem.args.alpha = 0;
  ladder_test::run_watched(fused_rungs().front()->result(), problem.args);
  const std::vector<ladder::bf16> d = problem.d.download();
  std::vector<float> made;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<uint16_t>(d[i * words + words - 1]);
    made.push_back(std::bit_cast<float>(uint32_t{bits} << 16));
  }
  return made;
}

TEST_CASE("epilogues: a NaN stays one, and activations of large sums are as large, or next to 0") {
  for (const ActivationAndType& each : activations_and_types()) {
    CAPTURE(each.activation);
    CAPTURE(each.type);
    const std::vector<float> made =
        made_of(each, {NAN, 100, -100, 3e38f, -3e38f, -20, 0, -0.0f}, true);
    const bool none = each.activation == "none";
    CHECK(std::isnan(made[0]));
    CHECK(made[1] == 100);
    CHECK(made[2] <= 0);
    CHECK(made[2] >= (none ? -100 : -0x1.01p-31f * 100));
    CHECK(made[3] > 2.9e38f);
    CHECK(made[4] <= 0);
    CHECK(made[4] >= (none ? -3.1e38f : -0x1.01p-31f * 3e38f));
    CHECK(made[5] <= 0);
    CHECK(made[5] > (none ? -21 : -1e-7));
    CHECK(made[6] == 0);
    CHECK(made[7] == 0);
  }
}

// docs/17_fused_epilogue.md, "How exact".
TEST_CASE("epilogues: of infinite sums they make what the page says, without a product too") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const ActivationAndType& each : activations_and_types()) {
    CAPTURE(each.activation);
    CAPTURE(each.type);
    for (const bool product : {true, false}) {
      CAPTURE(product);
      const std::vector<float> made = made_of(each, {inf, -inf, -1e30f, -13}, product);
      if (each.activation == "gelu") {
        CHECK(std::isnan(made[0]));
        CHECK(std::isnan(made[1]));
        CHECK(made[2] == 0);
        CHECK(made[3] == 0);
      } else if (each.activation == "relu") {
        CHECK(made[0] == inf);
        CHECK(made[1] == 0);
      } else {
        CHECK(made[0] == inf);
        CHECK(made[1] == -inf);
        const bool none = each.activation == "none";
        CHECK(made[2] == doctest::Approx(none ? -1e30f : -0x1p-31f * 1e30f).epsilon(0.01));
        CHECK(made[3] <= 0);
      }
    }
  }
}
