// ladder_gemm_block_scaled and ladder_quantize: by the C API, their errors, sizes of zero, graphs,
// limits; and one after the other, as a caller has it.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/watchdog.h"
#include "tests/support/block_scaled_problem.h"

using ladder::bf16;
using ladder::BlockScaledArgs;
using ladder::check_cuda;
using ladder::Data;
using ladder::Element;
using ladder::scale_blocks;
using ladder::Stage;
using ladder_test::BlockScaledProblem;
using ladder_test::GuardedBytes;
using ladder_test::Matrix;
using ladder_test::SCALED_PADDED;
using ladder_test::scaled_rungs;
using ladder_test::scaled_shape;
using ladder_test::Stream;

namespace {

constexpr const char* TYPES[] = {"e4m3", "s8"};

int call(int stage, const BlockScaledArgs& g) {
  return ladder_gemm_block_scaled(stage, g.type, g.m, g.n, g.k, g.a, g.lda, g.scale_a, g.ld_scale_a,
                                  g.b, g.ldb, g.scale_b, g.ld_scale_b, g.d, g.ldd, g.stream);
}

bool error_has(const std::string& part) {
  return std::string(ladder_last_error()).find(part) != std::string::npos;
}

std::vector<int> numbers() {
  std::vector<int> all = {0};
  for (const Stage* stage : scaled_rungs()) all.push_back(stage->number);
  return all;
}

template <class T>
std::vector<T> download(const GuardedBytes& from, long long count) {
  std::vector<T> elements(static_cast<size_t>(count));
  check_cuda(
      cudaMemcpy(elements.data(), from.data(), elements.size() * sizeof(T), cudaMemcpyDeviceToHost),
      "downloading");
  return elements;
}

// A matrix with numbers of every magnitude, none, huge and tiny ones, infinities and NaN, in rows and
// blocks apart and together.
std::vector<bf16> trying_matrix(int rows, int cols) {
  std::vector<bf16> x;
  for (long long row = 0; row < rows; ++row) {
    for (long long col = 0; col < cols; ++col) {
      const uint64_t bits = ladder::hash64(static_cast<uint64_t>(row * cols + col));
      uint16_t word = static_cast<uint16_t>(bits);  // any bf16
      const float normal =
          ladder::data_value(Data::normal, 9, static_cast<uint64_t>(row * cols + col));
      switch ((row / 3 + col / 128) % 7) {
        case 0:  // zeros of either sign
          word &= 0x8000;
          break;
        case 1:  // subnormals
          word &= 0x807f;
          break;
        case 2:  // the largest ones
          word = static_cast<uint16_t>((word & 0x80ff) | 0x7e80);
          break;
        case 3:  // anything
          break;
        case 4:  // numbers, and one infinity
          word = std::bit_cast<uint16_t>(Element<bf16>::from_float(normal));
          if (col % 128 == 5) word = row % 2 == 0 ? 0x7f80 : 0xff80;
          break;
        case 5:  // numbers, and one NaN
          word = std::bit_cast<uint16_t>(Element<bf16>::from_float(normal));
          if (col % 128 == 77) word = 0x7fc1;
          break;
        default:
          word = std::bit_cast<uint16_t>(Element<bf16>::from_float(normal));
      }
      x.push_back(std::bit_cast<bf16>(word));
    }
  }
  return x;
}

}  // namespace

TEST_CASE("quantize: bit for bit what the host makes of it, and nothing else is written") {
  int calls = 0;
  for (const auto& [rows, cols] :
       {std::pair{1, 1}, {3, 127}, {130, 128}, {8, 129}, {257, 515}, {128, 1000}, {129, 6}}) {
    const std::vector<bf16> x = trying_matrix(rows, cols);
    Matrix on_device(rows, cols, 8);
    on_device.upload(x);
    for (const int type : {LADDER_E4M3, LADDER_S8}) {
      for (const int block_rows : {1, 128}) {
        CAPTURE(rows);
        CAPTURE(cols);
        CAPTURE(type);
        CAPTURE(block_rows);
        const bool by_rows = block_rows == 1;
        const long long scale_rows = by_rows ? scale_blocks(cols) : scale_blocks(rows);
        const long long scale_cols = by_rows ? rows : scale_blocks(cols);
        const long long ldq = (cols + 15) / 16 * 16 + 16, ld_scale = scale_cols + 3;
        const GuardedBytes q(rows, cols, ldq, 1), scale(scale_rows, scale_cols, ld_scale, 4);
        CHECK(ladder_quantize(type, block_rows, rows, cols, on_device.data(), on_device.ld(),
                              q.data(), ldq, static_cast<float*>(scale.data()), ld_scale,
                              nullptr) == LADDER_OK);
        CHECK(std::string(ladder_last_error()) == "");
        CHECK(q.damage() == 0);
        CHECK(scale.damage() == 0);
        CHECK(on_device.damage() == 0);
        const auto got = download<uint8_t>(q, (rows - 1) * ldq + cols);
        const auto got_scale = download<float>(scale, (scale_rows - 1) * ld_scale + scale_cols);
        std::vector<uint8_t> want(got.size(), 0xff);
        std::vector<float> want_scale(got_scale.size());
        std::memset(want_scale.data(), 0xff, want_scale.size() * sizeof(float));
        ladder::quantize_on_host({type, block_rows, rows, cols, x.data(), cols, want.data(), ldq,
                                  want_scale.data(), ld_scale, nullptr});
        CHECK(got == want);
        CHECK(std::memcmp(got_scale.data(), want_scale.data(), got_scale.size() * sizeof(float)) ==
              0);
        ++calls;
      }
    }
  }
  ladder_test::note(std::to_string(calls) + " calls");
}

TEST_CASE(
    "quantize: wrong arguments are refused, all of them in one message; sizes of 0 do nothing") {
  CHECK(ladder_quantize(0, 64, -1, 8, nullptr, 8, nullptr, 8, nullptr, 8, nullptr) ==
        LADDER_REFUSED);
  for (const char* part :
       {"type is 0: it must be 3 (e4m3) or 4 (s8)",
        "block_rows is 64: it must be 1 (as of A) or 128 (as of B)", "rows is -1"}) {
    CAPTURE(part);
    CHECK(error_has(part));
  }
  CHECK(ladder_quantize(3, 1, 100, 200, nullptr, 196, nullptr, 200, nullptr, 99, nullptr) ==
        LADDER_REFUSED);
  for (const char* part :
       {"x is null", "ldx is 196", "q is null", "ldq is 200", "scale is null", "ld_scale is 99"}) {
    CAPTURE(part);
    CHECK(error_has(part));
  }
  for (const auto& [rows, cols] : {std::pair{0, 100}, {100, 0}}) {
    CHECK(ladder_quantize(3, 128, rows, cols, nullptr, 0, nullptr, 0, nullptr, 0, nullptr) ==
          LADDER_OK);
  }
}

TEST_CASE("block-scaled C API: every type is right, by the rung's number and by 0") {
  for (const char* type : TYPES) {
    BlockScaledProblem problem(scaled_shape(150, 300, 296, type), Data::ints, SCALED_PADDED);
    for (const int number : numbers()) {
      CAPTURE(type);
      CAPTURE(number);
      problem.d.poison();
      const ladder::Watchdog watchdog(std::string("ladder_gemm_block_scaled ") + type);
      CHECK(call(number, problem.args) == LADDER_OK);
      CHECK(std::string(ladder_last_error()) == "");
      const ladder::Verdict verdict = problem.verify(true);
      CHECK_MESSAGE(verdict.ok(), verdict.describe());
      CHECK(problem.damage() == 0);
      const int rung = number > 0 ? number : scaled_rungs().back()->number;
      CHECK(std::string(ladder_last_kernel()).starts_with(ladder_stage_name(rung)));
    }
  }
}

TEST_CASE("block-scaled C API: bf16 matrices, quantized and multiplied") {
  constexpr int M = 70, N = 200, K = 328;
  Matrix x(M, K, 0), w(N, K, 0), d(M, N, 0);
  std::vector<bf16> of_x, of_w;
  for (int i = 0; i < M * K; ++i) {
    of_x.push_back(Element<bf16>::from_float(ladder::data_value(Data::normal, 1, i)));
  }
  for (int i = 0; i < N * K; ++i) {
    of_w.push_back(Element<bf16>::from_float(ladder::data_value(Data::normal, 2, i) / 16));
  }
  x.upload(of_x);
  w.upload(of_w);
  for (const int type : {LADDER_E4M3, LADDER_S8}) {
    CAPTURE(type);
    const GuardedBytes a(M, K, 336, 1), b(N, K, 336, 1), scale_a(3, M, 72, 4), scale_b(2, 3, 3, 4);
    auto* const of_a = static_cast<float*>(scale_a.data());
    auto* const of_b = static_cast<float*>(scale_b.data());
    CHECK(ladder_quantize(type, 1, M, K, x.data(), K, a.data(), 336, of_a, 72, nullptr) == 0);
    CHECK(ladder_quantize(type, 128, N, K, w.data(), K, b.data(), 336, of_b, 3, nullptr) == 0);
    CHECK(ladder_gemm_block_scaled(0, type, M, N, K, a.data(), 336, of_a, 72, b.data(), 336, of_b,
                                   3, d.data(), d.ld(), nullptr) == 0);
    const std::vector<bf16> got = d.download();
    double squares = 0, errors = 0;
    for (int row = 0; row < M; ++row) {
      for (int col = 0; col < N; ++col) {
        double want = 0;
        for (int i = 0; i < K; ++i) {
          want += double{Element<bf16>::to_float(of_x[row * K + i])} *
                  Element<bf16>::to_float(of_w[col * K + i]);
        }
        const double error = Element<bf16>::to_float(got[row * N + col]) - want;
        squares += want * want;
        errors += error * error;
      }
    }
    // e4m3 has steps of an 8th to a 16th of a number, whose errors are 1 / sqrt(12) of that: 2.6 %, and 3.7 %
    // of both operands. s8 has steps of a 127th of its block's largest, which is about 2.7 deviations in
    // 128 numbers and 4 in 128 x 128: 0.6 % and 0.9 %, and 1.1 % of both.
    CHECK(std::sqrt(errors / squares) < (type == LADDER_E4M3 ? 0.04 : 0.015));
    CHECK(std::sqrt(errors / squares) > 0.001);
  }
}

TEST_CASE("block-scaled C API: wrong arguments are refused, all of them in one message") {
  for (const int number : numbers()) {
    CHECK(ladder_gemm_block_scaled(number, 0, 8, 8, 300, nullptr, 300, nullptr, 6, nullptr, 8,
                                   nullptr, 2, nullptr, 9, nullptr) == LADDER_REFUSED);
    for (const char* part :
         {"type is 0: it must be 3 (e4m3) or 4 (s8)", "a is null", "lda is 300", "scale_a is null",
          "ld_scale_a is 6: it must be at least m = 8 and a multiple of 4", "b is null", "ldb is 8",
          "scale_b is null", "ld_scale_b is 2: it must be at least ceil(k/128) = 3", "d is null",
          "ldd is 9"}) {
      CAPTURE(part);
      CHECK(error_has(part));
    }
    CHECK(std::string(ladder_last_kernel()) == "");
  }
}

TEST_CASE(
    "block-scaled C API: a rung of another problem is refused, with the function that calls it") {
  BlockScaledProblem problem(scaled_shape(64, 64, 64, "e4m3"), Data::ints);
  CHECK(call(9, problem.args) == LADDER_REFUSED);
  CHECK(error_has("stage is 9: 09_async_epilogue computes D[M,N] = A[M,K] * B[N,K]^T, bf16"));
  for (const Stage* stage : scaled_rungs()) {
    CHECK(ladder_gemm_bf16(stage->number, 64, 64, 64, problem.args.a, 64, problem.args.b, 64,
                           problem.args.d, 64, nullptr) == LADDER_REFUSED);
    CHECK(error_has("ladder_gemm_block_scaled()"));
  }
}

TEST_CASE("block-scaled C API: K = 0 writes zeros and no padding, M = 0 and N = 0 write nothing") {
  for (const char* type : TYPES) {
    CAPTURE(type);
    BlockScaledProblem problem(scaled_shape(130, 67, 0, type), Data::ints, SCALED_PADDED);
    BlockScaledArgs args = problem.args;
    args.a = args.b = nullptr;
    args.scale_a = args.scale_b = nullptr;
    problem.d.poison();
    CHECK(call(0, args) == LADDER_OK);
    CHECK(std::string(ladder_last_kernel()) == "");
    CHECK(problem.verify(true).ok());
    CHECK(problem.damage() == 0);
    args.m = 0;
    args.k = 40;
    args.d = nullptr;
    CHECK(call(0, args) == LADDER_OK);
    args.m = 130;
    args.n = 0;
    CHECK(call(0, args) == LADDER_OK);
  }
}

TEST_CASE("block-scaled C API: in a graph with its quantizer, and under a limit of SMs") {
  struct Limit {
    ~Limit() { ladder_set_sm_limit(0); }
  } back_to_all;
  const Stream stream;
  for (const char* type : TYPES) {
    for (const int limit : {0, 4}) {
      CAPTURE(type);
      CAPTURE(limit);
      BlockScaledProblem problem(scaled_shape(333, 600, 264, type), Data::ints, SCALED_PADDED,
                                 stream.handle);
      Matrix x(333, 264, 0);
      const GuardedBytes q(333, 264, 272, 1), scale(3, 333, 336, 4);
      const ladder::Watchdog watchdog("ladder_gemm_block_scaled, captured");
      CHECK(ladder_set_sm_limit(limit) == LADDER_OK);
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t executable = nullptr;
      check_cuda(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeGlobal), "a capture");
      CHECK(ladder_quantize(problem.args.type, 1, 333, 264, x.data(), x.ld(), q.data(), 272,
                            static_cast<float*>(scale.data()), 336, stream.handle) == LADDER_OK);
      CHECK(call(0, problem.args) == LADDER_OK);
      check_cuda(cudaStreamEndCapture(stream.handle, &graph), "a capture");
      CHECK(problem.verify(true).wrong == 333 * 600);  // not run yet
      check_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiating a graph");
      check_cuda(cudaGraphLaunch(executable, stream.handle), "launching a graph");
      check_cuda(cudaStreamSynchronize(stream.handle), "waiting for a graph");
      CHECK(problem.verify(true).ok());
      CHECK(problem.damage() == 0);
      CHECK(download<float>(scale, 1)[0] == 1);  // x is all NaN
      check_cuda(cudaGraphExecDestroy(executable), "destroying a graph");
      check_cuda(cudaGraphDestroy(graph), "destroying a graph");
    }
  }
}
