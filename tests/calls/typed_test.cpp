// ladder_gemm_typed: every type and layout by the C API, its errors, sizes of zero, graphs, limits.
#include <doctest/doctest.h>

#include <string>

#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/watchdog.h"
#include "tests/support/typed_problem.h"

using ladder::check_cuda;
using ladder::Data;
using ladder::Stage;
using ladder::TypedArgs;
using ladder_test::Padding;
using ladder_test::Stream;
using ladder_test::TypeAndLayout;
using ladder_test::typed_rungs;
using ladder_test::typed_shape;
using ladder_test::TypedProblem;
using ladder_test::types_and_layouts;

namespace {

constexpr Padding PADDED{8, 24, 16};  // words

int call(int stage, const TypedArgs& g) {
  return ladder_gemm_typed(stage, g.type, g.type_d, g.mn_major_a, g.mn_major_b, g.m, g.n, g.k, g.a,
                           g.lda, g.b, g.ldb, g.d, g.ldd, g.stream);
}

bool error_has(const std::string& part) {
  return std::string(ladder_last_error()).find(part) != std::string::npos;
}

// The numbers by which a call gets such a rung: its own, and 0.
std::vector<int> numbers() {
  std::vector<int> all = {0};
  for (const Stage* stage : typed_rungs()) all.push_back(stage->number);
  return all;
}

}  // namespace

TEST_CASE("typed C API: every type and layout is right, by the rung's number and by 0") {
  for (const TypeAndLayout& each : types_and_layouts()) {
    TypedProblem problem(typed_shape(150, 300, 136, each.type, each.layout), Data::ints, PADDED);
    for (const int number : numbers()) {
      CAPTURE(each.type);
      CAPTURE(each.layout);
      CAPTURE(number);
      problem.d.poison();
      const ladder::Watchdog watchdog("ladder_gemm_typed " + each.type + " " + each.layout);
      CHECK(call(number, problem.args) == LADDER_OK);
      CHECK(std::string(ladder_last_error()) == "");
      const ladder::Verdict verdict = problem.verify(true);
      CHECK_MESSAGE(verdict.ok(), verdict.describe());
      CHECK(problem.damage() == 0);
      const std::string kernel =
          ladder_stage_name(number > 0 ? number : typed_rungs().back()->number) + std::string("/") +
          each.type + "_" + each.layout + "_";  // and which tile: D has few
      CHECK(std::string(ladder_last_kernel()).starts_with(kernel));
    }
  }
}

TEST_CASE("typed C API: wrong arguments are refused, all of them in one message") {
  for (const int number : numbers()) {
    CHECK(ladder_gemm_typed(number, 4, 7, 0, 3, -1, 8, 8, nullptr, 8, nullptr, 8, nullptr, 8,
                            nullptr) == LADDER_REFUSED);
    for (const char* part : {"type is 4", "type_d is 7", "mn_major_b is 3", "m is -1", "a is null",
                             "b is null", "d is null"}) {
      CAPTURE(part);
      CHECK(error_has(part));
    }
    CHECK(ladder_gemm_typed(number, LADDER_TF32, LADDER_FP32, 1, 0, 8, 8, 8, nullptr, 8, nullptr, 8,
                            nullptr, 8, nullptr) == LADDER_REFUSED);
    CHECK(error_has("mn_major_a is 1: it must be 0, K-major, for tf32"));
    CHECK(std::string(ladder_last_kernel()) == "");
  }
}

TEST_CASE("typed C API: a rung of another problem is refused, with the function that calls it") {
  TypedProblem problem(typed_shape(64, 64, 64, "bf16", "TN"), Data::ints);
  CHECK(call(9, problem.args) == LADDER_REFUSED);
  CHECK(error_has("stage is 9: 09_async_epilogue computes D[M,N] = A[M,K] * B[N,K]^T, bf16"));
  CHECK(error_has("ladder_gemm_bf16()"));
  for (const Stage* stage : typed_rungs()) {
    CHECK(ladder_gemm_bf16(stage->number, 64, 64, 64, problem.args.a, 64, problem.args.b, 64,
                           problem.args.d, 64, nullptr) == LADDER_REFUSED);
    CHECK(error_has("ladder_gemm_typed()"));
  }
}

TEST_CASE("typed C API: K = 0 writes zeros and no padding, M = 0 and N = 0 write nothing") {
  for (const TypeAndLayout& each : types_and_layouts()) {
    CAPTURE(each.type);
    CAPTURE(each.layout);
    TypedProblem problem(typed_shape(130, 67, 0, each.type, each.layout), Data::normal, PADDED);
    TypedArgs args = problem.args;
    args.a = args.b = nullptr;
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

TEST_CASE("typed C API: in a graph, and under a limit of SMs") {
  struct Limit {
    ~Limit() { ladder_set_sm_limit(0); }
  } back_to_all;
  const Stream stream;
  for (const char* type : {"bf16", "fp16_fp32"}) {
    for (const int limit : {0, 2, 5}) {
      CAPTURE(type);
      CAPTURE(limit);
      TypedProblem problem(typed_shape(333, 600, 136, type, "NT"), Data::ints, PADDED,
                           stream.handle);
      const ladder::Watchdog watchdog("ladder_gemm_typed, captured");
      CHECK(ladder_set_sm_limit(limit) == LADDER_OK);
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t executable = nullptr;
      check_cuda(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeGlobal), "a capture");
      CHECK(call(0, problem.args) == LADDER_OK);
      check_cuda(cudaStreamEndCapture(stream.handle, &graph), "a capture");
      CHECK(problem.verify(true).wrong == 333 * 600);  // not run yet
      check_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiating a graph");
      check_cuda(cudaGraphLaunch(executable, stream.handle), "launching a graph");
      check_cuda(cudaStreamSynchronize(stream.handle), "waiting for a graph");
      CHECK(problem.verify(true).ok());
      CHECK(problem.damage() == 0);
      check_cuda(cudaGraphExecDestroy(executable), "destroying a graph");
      check_cuda(cudaGraphDestroy(graph), "destroying a graph");
    }
  }
  // One SM has no room for a cluster of two: tiles of one CTA, though D has many.
  TypedProblem problem(typed_shape(600, 780, 136, "bf16", "NN"), Data::ints);
  CHECK(ladder_set_sm_limit(1) == LADDER_OK);
  CHECK(call(0, problem.args) == LADDER_OK);
  CHECK(ladder_last_kernel() == std::string("13_layouts/bf16_NN_128x192"));
  CHECK(problem.verify(true).ok());
}
