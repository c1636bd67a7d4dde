// Whether the check can fail: everything a broken kernel is likely to do must be noticed.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/host/tolerance.h"
#include "common/host/verify_cpu.h"

using ladder::bf16;
using ladder::Data;
using ladder::Verdict;

namespace {

constexpr int M = 48, N = 40, K = 100;
constexpr long long LDA = 104, LDB = 112, LDD = 56;
const float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();

// Operands, reference and the right answer, with NaN in all padding.
struct Problem {
  std::vector<bf16> a, b, d;
  std::vector<double> r, s;

  explicit Problem(Data data, int k_used = K)
      : a(filled(M, K, LDA, data, 1)),
        b(filled(N, K, LDB, data, 2)),
        d(static_cast<size_t>(M * LDD), __float2bfloat16(NOT_A_NUMBER)),
        r(M * N),
        s(M * N) {
    ladder::reference_cpu(M, N, k_used, a.data(), LDA, b.data(), LDB, r.data(), s.data());
    for (int row = 0; row < M; ++row) {
      for (int col = 0; col < N; ++col) at(row, col) = __double2bfloat16(r[row * N + col]);
    }
  }

  bf16& at(int row, int col) { return d[static_cast<size_t>(row * LDD + col)]; }
  Verdict verify(bool exact) const {
    return ladder::verify_cpu(d.data(), LDD, M, N, r.data(), s.data(), exact);
  }

 private:
  static std::vector<bf16> filled(int rows, int cols, long long ld, Data data, uint64_t seed) {
    std::vector<bf16> matrix(static_cast<size_t>(rows * ld), __float2bfloat16(NOT_A_NUMBER));
    for (int row = 0; row < rows; ++row) {
      for (int col = 0; col < cols; ++col) {
        const auto index = static_cast<uint64_t>(row) * cols + col;
        matrix[static_cast<size_t>(row * ld + col)] =
            __float2bfloat16(ladder::data_value(data, seed, index));
      }
    }
    return matrix;
  }
};

struct Mode {
  const char* name;
  Data data;
  bool exact;
};
const Mode MODES[] = {{"normal", Data::normal, false},
                      {"uniform", Data::uniform, false},
                      {"integers", Data::ints, false},
                      {"integers, exact", Data::ints, true}};

}  // namespace

TEST_CASE("verify: the right answer passes") {
  for (const Mode& mode : MODES) {
    CAPTURE(mode.name);
    const Verdict verdict = Problem(mode.data).verify(mode.exact);
    CHECK(verdict.ok());
    CHECK(verdict.wrong == 0);
    CHECK(verdict.worst <= 1);
    CHECK(verdict.first_row == -1);
    CHECK(verdict.describe().rfind(mode.exact ? "ok, bit for bit" : "ok, within rounding (", 0) ==
          0);
  }
}

TEST_CASE("verify: all zeros fail") {
  for (const Mode& mode : MODES) {
    CAPTURE(mode.name);
    Problem problem(mode.data);
    std::fill(problem.d.begin(), problem.d.end(), __float2bfloat16(0.0f));
    const Verdict verdict = problem.verify(mode.exact);
    CHECK(verdict.wrong > M * N / 2);
    CHECK(verdict.worst > 1);
  }
}

TEST_CASE("verify: one NaN fails, wherever it is") {
  for (const Mode& mode : MODES) {
    for (const auto& [row, col] : {std::pair(0, 0), std::pair(17, 23), std::pair(M - 1, N - 1)}) {
      CAPTURE(mode.name);
      CAPTURE(row);
      CAPTURE(col);
      Problem problem(mode.data);
      problem.at(row, col) = __float2bfloat16(NOT_A_NUMBER);
      const Verdict verdict = problem.verify(mode.exact);
      CHECK(verdict.wrong == 1);
      CHECK(verdict.first_row == row);
      CHECK(verdict.first_col == col);
      CHECK(std::isinf(verdict.worst));
    }
  }
}

TEST_CASE("verify: infinity fails") {
  for (const Mode& mode : MODES) {
    CAPTURE(mode.name);
    Problem problem(mode.data);
    problem.at(3, 5) = __float2bfloat16(std::numeric_limits<float>::infinity());
    CHECK(problem.verify(mode.exact).wrong == 1);
  }
}

TEST_CASE("verify: one wrong element fails and is named") {
  for (const Mode& mode : MODES) {
    CAPTURE(mode.name);
    Problem problem(mode.data);
    const float right = __bfloat162float(problem.at(31, 7));
    problem.at(31, 7) = __float2bfloat16(right + 1 + std::abs(right) / 16);
    const Verdict verdict = problem.verify(mode.exact);
    CHECK(verdict.wrong == 1);
    CHECK(verdict.first_row == 31);
    CHECK(verdict.first_col == 7);
    CHECK(verdict.first_got == __bfloat162float(problem.at(31, 7)));
    CHECK(verdict.first_want == problem.r[31 * N + 7]);
    CHECK(verdict.describe().find("row 31, column 7") != std::string::npos);
  }
}

TEST_CASE("verify: what nobody has written is told from other NaN") {
  Problem problem(Data::normal);
  problem.at(5, 9) = __float2bfloat16(NOT_A_NUMBER);
  CHECK(problem.verify(false).describe().find("got nan, want") != std::string::npos);
  problem.at(5, 9) = std::bit_cast<bf16>(uint16_t{0xffff});  // as results begin
  const std::string text = problem.verify(false).describe();
  CHECK(text.find("column 9: nobody has written it") != std::string::npos);
}

TEST_CASE("index: each element of B tells its place, exactly in bf16, and no other does") {
  for (int row = 0; row < ladder::PLACE_ROWS; ++row) {
    for (int col = 0; col < ladder::PLACE_COLS; ++col) {
      const float value = ladder::element_value(Data::places, 1, row, col, 4096);
      REQUIRE(__bfloat162float(__float2bfloat16(value)) == value);
      ladder::Around one;
      one.rows = one.cols = 1;
      one.cells = {{value, value, true}};
      REQUIRE(one.text(true).find(" " + std::to_string(row) + "," + std::to_string(col) + " |") !=
              std::string::npos);
    }
  }
  // A D that is B^T: row m of A picks column m % K of B.
  for (int row = 0; row < 9; ++row) {
    for (int col = 0; col < 4; ++col) {
      CHECK(ladder::element_value(Data::identity, 1, row, col, 4) == (row % 4 == col ? 1 : 0));
    }
  }
  CHECK(ladder::element_value(Data::ints, 7, 3, 2, 10) == ladder::data_value(Data::ints, 7, 32));
}

TEST_CASE(
    "the window around a wrong element shows it, its neighbours, and nothing beyond the edge") {
  Problem problem(Data::ints);
  problem.at(8, 30) = __float2bfloat16(1000);
  problem.at(9, 31) = __float2bfloat16(NOT_A_NUMBER);
  const Verdict inside = problem.verify(true);
  CHECK(inside.around.row0 == 7);
  CHECK(inside.around.col0 == 29);
  const std::string text = inside.around.text(false);
  CAPTURE(text);
  CHECK(text.find("columns 29 to 34") != std::string::npos);
  CHECK(text.find("*1000") != std::string::npos);
  CHECK(text.find("*nan") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '*') == 2);
  CHECK(std::count(text.begin(), text.end(), '\n') == 5);
  CHECK(text.find("row 10 ") != std::string::npos);

  Problem corner(Data::ints);
  corner.at(M - 1, N - 1) = __float2bfloat16(1000);
  const Verdict last = corner.verify(true);
  CHECK(last.around.row0 == M - 4);
  CHECK(last.around.col0 == N - 6);
  CHECK(std::count_if(last.around.cells.begin(), last.around.cells.end(),
                      [](const auto& cell) { return !cell.right; }) == 1);
  CHECK_FALSE(last.around.cells.back().right);

  const ladder::Around small(0, 0, 1, 2);  // a matrix that is smaller than the window
  CHECK(small.rows == 1);
  CHECK(small.cols == 2);
  CHECK(small.row0 == 0);
}

TEST_CASE("verify: the first wrong element is the first by rows") {
  Problem problem(Data::normal);
  problem.at(9, 2) = problem.at(8, 30) = problem.at(9, 1) = __float2bfloat16(NOT_A_NUMBER);
  const Verdict verdict = problem.verify(false);
  CHECK(verdict.wrong == 3);
  CHECK(verdict.first_row == 8);
  CHECK(verdict.first_col == 30);
}

TEST_CASE("verify: a transposed answer fails") {
  for (const Mode& mode : MODES) {
    CAPTURE(mode.name);
    Problem problem(mode.data);
    for (int row = 0; row < N; ++row) {  // the square part of D
      for (int col = 0; col < row; ++col) std::swap(problem.at(row, col), problem.at(col, row));
    }
    CHECK(problem.verify(mode.exact).wrong > N * N / 2);
  }
}

TEST_CASE("verify: one slab of 8 columns of A and B left out fails") {
  for (const Mode& mode : MODES) {
    CAPTURE(mode.name);
    Problem problem(mode.data);
    const Problem short_of_a_slab(mode.data, K - 8);
    problem.d = short_of_a_slab.d;
    CHECK(problem.verify(mode.exact).wrong > M * N / 2);
  }
}

TEST_CASE(
    "verify: exact wants the nearest bf16, ties to even; the tolerance takes both neighbours") {
  const double r = 257, s = 257;  // bf16 has 256 and 258
  const bf16 even = __float2bfloat16(256), odd = __float2bfloat16(258);
  CHECK(ladder::verify_cpu(&even, 8, 1, 1, &r, &s, false).ok());
  CHECK(ladder::verify_cpu(&odd, 8, 1, 1, &r, &s, false).ok());
  CHECK(ladder::verify_cpu(&even, 8, 1, 1, &r, &s, true).ok());
  CHECK_FALSE(ladder::verify_cpu(&odd, 8, 1, 1, &r, &s, true).ok());
  const double just_above = 257 + 1e-9;  // rounded to fp32 on the way, this would be a tie
  CHECK(ladder::verify_cpu(&odd, 8, 1, 1, &just_above, &s, true).ok());
  CHECK_FALSE(ladder::verify_cpu(&even, 8, 1, 1, &just_above, &s, true).ok());
}

TEST_CASE("verify: -0 is +0") {
  Problem problem(Data::zeros);
  for (int row = 0; row < M; ++row) problem.at(row, row % N) = __float2bfloat16(-0.0f);
  CHECK(problem.verify(true).ok());
  CHECK(problem.verify(false).ok());
  CHECK(problem.verify(false).worst == 0);
}

TEST_CASE("verify: k = 0 wants zeros") {
  Problem problem(Data::normal, 0);
  CHECK(problem.verify(true).ok());
  problem.at(47, 39) = __float2bfloat16(1e-30f);
  const Verdict verdict = problem.verify(false);
  CHECK(verdict.wrong == 1);
  CHECK(std::isinf(verdict.worst));
}

TEST_CASE("reference: small cases by hand, padding unread") {
  const auto number = [](float value) { return __float2bfloat16(value); };
  const bf16 nan = number(NOT_A_NUMBER);
  const std::vector<bf16> a = {number(1), number(-2), nan, number(3), number(4)};  // 2 x 2, ld 3
  const std::vector<bf16> b = {number(5), number(6),  nan,
                               nan,       number(-7), number(8)};  // 2 x 2, ld 4
  std::vector<double> r(4), s(4);
  ladder::reference_cpu(2, 2, 2, a.data(), 3, b.data(), 4, r.data(), s.data());
  CHECK(r == std::vector<double>{5 - 12, -7 - 16, 15 + 24, -21 + 32});
  CHECK(s == std::vector<double>{17, 23, 39, 53});
}

TEST_CASE("tolerance: edges") {
  const auto within_tolerance = [](double d, double r, double s) {
    return ladder::within_tolerance(d, r, s, 8);
  };
  const auto error_of_bound = [](double d, double r, double s) {
    return ladder::error_of_bound(d, r, s, 8);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(within_tolerance(0, 0, 0));
  CHECK(within_tolerance(-0.0, 0, 0));
  CHECK_FALSE(within_tolerance(1e-300, 0, 0));
  CHECK(within_tolerance(256 + 1, 256, 0));
  CHECK_FALSE(within_tolerance(256 + 1.0001, 256, 0));
  CHECK(within_tolerance(-256 - 1, -256, 0));
  CHECK_FALSE(within_tolerance(-256 - 1.0001, -256, 0));
  CHECK(within_tolerance(1, 0, 1048576));
  CHECK_FALSE(within_tolerance(1.0001, 0, 1048576));
  CHECK_FALSE(within_tolerance(256, -256, 0));
  for (const double bad : {nan, infinity, -infinity}) {
    CHECK_FALSE(within_tolerance(bad, 1, 1));
    CHECK(error_of_bound(bad, 1, 1) == infinity);
  }
  CHECK_FALSE(within_tolerance(1, nan, 1));
  CHECK_FALSE(within_tolerance(1, 1, nan));
  CHECK(error_of_bound(0, 0, 0) == 0);
  CHECK(error_of_bound(1, 0, 0) == infinity);
  CHECK(error_of_bound(256.5, 256, 0) == 0.5);
  CHECK(ladder::within_tolerance(2048 + 1, 2048, 0, 11));
  CHECK_FALSE(ladder::within_tolerance(2048 + 1.0001, 2048, 0, 11));
  CHECK(ladder::error_of_bound(2048.5, 2048, 0, 11) == 0.5);
  static_assert(ladder::within_tolerance(1, 1, 0, 8), "usable at compile time, and so on the GPU");
}

TEST_CASE("data: distributions") {
  constexpr uint64_t COUNT = 1 << 20;
  const auto moments = [](Data data, uint64_t seed) {
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < COUNT; ++i) {
      const double value = ladder::data_value(data, seed, i);
      sum += value;
      squares += value * value;
    }
    const double mean = sum / COUNT;
    return std::pair(mean, squares / COUNT - mean * mean);
  };
  for (uint64_t seed = 0; seed < 4; ++seed) {  // five standard errors of the mean are 0.005
    CAPTURE(seed);
    const auto [normal_mean, normal_variance] = moments(Data::normal, seed);
    CHECK(std::abs(normal_mean) < 0.005);
    CHECK(std::abs(normal_variance - 1) < 0.01);
    const auto [uniform_mean, uniform_variance] = moments(Data::uniform, seed);
    CHECK(std::abs(uniform_mean) < 0.005);
    CHECK(std::abs(uniform_variance - 1.0 / 3) < 0.01);
    const auto [ints_mean, ints_variance] = moments(Data::ints, seed);
    CHECK(std::abs(ints_mean) < 0.01);
    CHECK(std::abs(ints_variance - 2) < 0.02);
  }
}

TEST_CASE("data: normal data has the tails and the shape of a normal distribution") {
  constexpr int COUNT = 1 << 20;
  int within_1 = 0, within_2 = 0;
  float largest = 0;
  for (int i = 0; i < COUNT; ++i) {
    const float size = std::abs(ladder::data_value(Data::normal, 7, static_cast<uint64_t>(i)));
    within_1 += size < 1;
    within_2 += size < 2;
    largest = std::max(largest, size);
  }
  CHECK(within_1 / double(COUNT) == doctest::Approx(0.683).epsilon(0.01));
  CHECK(within_2 / double(COUNT) == doctest::Approx(0.954).epsilon(0.01));
  CHECK(largest > 4);
  CHECK(largest <= 6);
}

TEST_CASE("data: ranges, and each value a function of seed and index") {
  int counts[5] = {};
  for (uint64_t i = 0; i < 100000; ++i) {
    const float value = ladder::data_value(Data::ints, 3, i);
    REQUIRE(value == std::floor(value));
    REQUIRE(std::abs(value) <= 2);
    ++counts[static_cast<int>(value) + 2];
    const float uniform = ladder::data_value(Data::uniform, 3, i);
    REQUIRE(uniform >= -1);
    REQUIRE(uniform < 1);
    REQUIRE(ladder::data_value(Data::zeros, 3, i) == 0);
  }
  for (const int count : counts) CHECK(std::abs(count - 20000) < 1000);

  int equal_to_next_seed = 0, equal_to_next_index = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const float value = ladder::data_value(Data::normal, 3, i);
    CHECK(value == ladder::data_value(Data::normal, 3, i));
    equal_to_next_seed += value == ladder::data_value(Data::normal, 4, i);
    equal_to_next_index += value == ladder::data_value(Data::normal, 3, i + 1);
  }
  CHECK(equal_to_next_seed < 5);
  CHECK(equal_to_next_index < 5);
}
