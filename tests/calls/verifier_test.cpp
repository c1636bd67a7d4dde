// Whether the check that runs on the device can fail, and whether its reference and data are the
// host's. Its kernels run on the PTX machine too.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/registry.h"
#include "common/host/tolerance.h"
#include "tests/support/problem.h"

using ladder::bf16;
using ladder::Data;
using ladder::Reference;
using ladder::Shape;
using ladder::Verdict;
using ladder_test::Matrix;
using ladder_test::PADDED;
using ladder_test::Problem;
using ladder_test::Workspace;

namespace {

constexpr int M = 200, N = 130, K = 100;

std::vector<float> download(const ladder::DeviceBuffer& buffer) {
  std::vector<float> values(buffer.bytes() / sizeof(float));
  ladder::check_cuda(cudaMemcpy(values.data(), buffer.data(), buffer.bytes(), cudaMemcpyDefault),
                     "downloading a reference");
  return values;
}

// A problem whose D is the right answer, rounded to bf16.
struct Answered {
  Problem problem;
  Reference reference;
  std::vector<bf16> d;  // [M][N]; upload it after a change

  explicit Answered(Data data, int k = K)
      : problem({M, N, K}, data, PADDED), reference(reference_up_to(k)) {
    for (const float r : download(reference.r)) d.push_back(__float2bfloat16(r));
  }
  bf16& at(int row, int col) { return d[static_cast<size_t>(row) * N + col]; }
  Verdict verify(bool exact) {
    problem.d.upload(d);
    return ladder::verify_gpu(problem.args, reference, exact);
  }

 private:
  Reference reference_up_to(int k) const {
    ladder::GemmArgs args = problem.args;
    args.k = k;
    return ladder::reference_gpu(args);
  }
};

struct Mode {
  const char* name;
  Data data;
  bool exact;
};
const Mode MODES[] = {{"normal", Data::normal, false}, {"integers, exact", Data::ints, true}};

}  // namespace

TEST_CASE("reference: equals the CPU's at ragged shapes, with NaN in the padding") {
  const Shape shapes[] = {{1, 1, 1},    {1, 1, 8},       {3, 5, 16},  {64, 64, 16}, {65, 63, 17},
                          {130, 66, 1}, {200, 130, 333}, {7, 300, 0}, {3, 2, 16384}};
  for (const Shape& shape : shapes) {
    const std::string where = to_string(shape);
    CAPTURE(where);
    const Problem problem(shape, Data::normal, PADDED);
    const Reference reference = ladder::reference_gpu(problem.args);
    const std::vector<float> r = download(reference.r), s = download(reference.s);
    std::vector<bf16> a(1), b(1);
    if (shape.k > 0) {
      a = problem.a.download();
      b = problem.b.download();
    }
    std::vector<double> r_cpu(r.size()), s_cpu(s.size());
    ladder::reference_cpu(shape.m, shape.n, shape.k, a.data(), shape.k, b.data(), shape.k,
                          r_cpu.data(), s_cpu.data());
    size_t wrong = 0;
    for (size_t i = 0; i < r.size(); ++i) {  // both sum in double; what is stored is a float
      wrong += !(std::abs(r[i] - r_cpu[i]) <= 1e-7 * std::abs(r_cpu[i]) + 1e-12 * s_cpu[i]);
      const double of_chain = s_cpu[i] * ladder::losses_of_chain(shape.k);  // at K = 16384 twice s
      wrong += !(std::abs(s[i] - of_chain) <= 1e-7 * of_chain);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("fill: the same bits as on the CPU") {
  for (const Data data :
       {Data::normal, Data::uniform, Data::ints, Data::zeros, Data::identity, Data::places}) {
    const Matrix matrix(123, 457, PADDED.a);
    ladder::fill_gpu(matrix.data(), 123, 457, matrix.ld(), data, 1, nullptr);
    const std::vector<bf16> a = matrix.download();
    size_t wrong = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const auto row = static_cast<long long>(i / 457), col = static_cast<long long>(i % 457);
      wrong += __bfloat162float(a[i]) !=
               __bfloat162float(__float2bfloat16(ladder::element_value(data, 1, row, col, 457)));
    }
    CHECK(wrong == 0);
    CHECK(matrix.damage() == 0);
  }
}

TEST_CASE("verifier: the right answer passes") {
  for (const Mode& mode : MODES) {
    CAPTURE(mode.name);
    const Verdict verdict = Answered(mode.data).verify(mode.exact);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
    CHECK(verdict.worst <= 1);
    CHECK(verdict.first_row == -1);
  }
}

TEST_CASE("verifier: NaN everywhere, zeros, a transpose and a missing slab of 8 fail") {
  for (const Mode& mode : MODES) {
    CAPTURE(mode.name);
    Answered nothing_written(mode.data);
    nothing_written.problem.d.poison();
    CHECK(ladder::verify_gpu(nothing_written.problem.args, nothing_written.reference, mode.exact)
              .wrong == M * N);

    Answered zeros(mode.data);
    for (bf16& element : zeros.d) element = __float2bfloat16(0.0f);
    CHECK(zeros.verify(mode.exact).wrong > M * N / 2);

    Answered transposed(mode.data);
    for (int row = 0; row < N; ++row) {  // the square part of D
      for (int col = 0; col < row; ++col)
        std::swap(transposed.at(row, col), transposed.at(col, row));
    }
    CHECK(transposed.verify(mode.exact).wrong > N * N / 2);

    Answered short_of_a_slab(mode.data);
    short_of_a_slab.d = Answered(mode.data, K - 8).d;
    CHECK(short_of_a_slab.verify(mode.exact).wrong > M * N / 2);
  }
}

TEST_CASE("verifier: one wrong element is found and named, wherever it is") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Mode& mode : MODES) {
    for (const auto& [row, col] : {std::pair(0, 0), std::pair(77, 129), std::pair(M - 1, N - 1)}) {
      for (const float bad : {nan, 1000.0f}) {
        CAPTURE(mode.name);
        CAPTURE(row);
        CAPTURE(col);
        CAPTURE(bad);
        Answered answered(mode.data);
        const float want = download(answered.reference.r)[static_cast<size_t>(row) * N + col];
        answered.at(row, col) = __float2bfloat16(bad);
        const Verdict verdict = answered.verify(mode.exact);
        CHECK(verdict.wrong == 1);
        CHECK(verdict.first_row == row);
        CHECK(verdict.first_col == col);
        CHECK(verdict.first_want == want);
        int marked = 0, at = -1;
        const ladder::Around& around = verdict.around;
        REQUIRE(around.cells.size() == size_t{around.ROWS * around.COLS});
        for (int i = 0; i < around.ROWS * around.COLS; ++i) {
          if (!around.cells[static_cast<size_t>(i)].right) {
            ++marked;
            at = i;
          }
        }
        CHECK(marked == 1);
        CHECK(around.row0 + at / around.COLS == row);
        CHECK(around.col0 + at % around.COLS == col);
        CHECK((std::isnan(bad) ? std::isnan(verdict.first_got) : verdict.first_got == 1000.0));
        CHECK((std::isnan(bad) ? std::isinf(verdict.worst) : verdict.worst > 1));
      }
    }
  }
}

TEST_CASE("verifier: the first wrong element is the first by rows; -0 is +0") {
  Answered answered(Data::normal);
  for (const auto& [row, col] : {std::pair(150, 2), std::pair(149, 129), std::pair(199, 0)}) {
    answered.at(row, col) = __float2bfloat16(std::numeric_limits<float>::infinity());
  }
  const Verdict verdict = answered.verify(false);
  CHECK(verdict.wrong == 3);
  CHECK(verdict.first_row == 149);
  CHECK(verdict.first_col == 129);

  Answered zeros(Data::zeros);
  for (bf16& element : zeros.d) element = __float2bfloat16(-0.0f);
  CHECK(zeros.verify(true).ok());
  CHECK(zeros.verify(false).worst == 0);
}

TEST_CASE("guards: a write beside a workspace, and a counter that is not 0 again, are seen") {
  constexpr size_t BYTES = ladder::WORKSPACE_COUNTER_BYTES + 1000;
  const Workspace workspace(BYTES);
  char* const data = static_cast<char*>(workspace.data());
  CHECK(reinterpret_cast<uintptr_t>(data) % 256 == 0);
  CHECK(workspace.damage() == 0);
  const auto write = [](void* at, int value) {
    ladder::check_cuda(cudaMemset(at, value, 1), "writing a byte");
  };
  for (const size_t scratch : {ladder::WORKSPACE_COUNTER_BYTES, BYTES - 1}) {
    write(data + scratch, 0);
    CHECK(workspace.damage() == 0);
  }
  write(data + BYTES, 0);
  CHECK(workspace.damage() == 1);
  write(data - 1, 0);
  CHECK(workspace.damage() == 2);
  write(data, 1);
  write(data + ladder::WORKSPACE_COUNTER_BYTES - 1, 1);
  CHECK(workspace.damage() == 4);
  CHECK(Workspace(0).data() == nullptr);
}

TEST_CASE("guards: a write to padding, before or behind a matrix is seen") {
  const long long ld = 24;  // of 20 columns without padding
  for (const long long offset : {-1032LL, -1LL, 20LL, 23LL, 3 * ld + 20}) {
    CAPTURE(offset);
    const Matrix matrix(4, 20, 0);
    CHECK(matrix.damage() == 0);
    ladder::check_cuda(cudaMemset(matrix.data() + offset, 0, 2), "damaging a matrix");
    CHECK(matrix.damage() == 1);
  }
  for (const long long offset : {0LL, 19LL, ld, 3 * ld + 19}) {
    CAPTURE(offset);
    const Matrix matrix(4, 20, 0);
    ladder::check_cuda(cudaMemset(matrix.data() + offset, 0, 2), "writing an element");
    CHECK(matrix.damage() == 0);
    CHECK(matrix.differences(Matrix(4, 20, 0)) == 1);
  }
}

TEST_CASE("verifier: what lies behind the last column of D is the caller's") {
  const auto problem =
      ladder::GemmArgs::kind().problem({M, N, K}, Data::ints, 1, ladder::query_device());
  for (int set = 0; set < problem->sets(); ++set) {  // a GPU's L2 takes several
    ladder::stages().front().variants.front().kernel.launch(problem->call(set));
  }
  CHECK(problem->verify().describe() == "ok, bit for bit");
  const auto& args = static_cast<const ladder::GemmArgs&>(problem->call(0));
  REQUIRE(args.ldd > N);
  ladder::check_cuda(cudaMemsetAsync(args.d + 3 * args.ldd + N, 0, sizeof(bf16), args.stream),
                     "cudaMemsetAsync");
  const Verdict verdict = problem->verify();
  CHECK(!verdict.ok());
  CHECK(verdict.describe() ==
        "1 elements behind the last column of D were written, the first at row 3, column 130: they "
        "are the caller's");
}
