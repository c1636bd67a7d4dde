// ladder_gemm_fused: every activation and type by the C API, its errors, sizes of zero, graphs,
// limits.
#include <doctest/doctest.h>

#include <string>

#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/watchdog.h"
#include "tests/support/fused_problem.h"

using ladder::check_cuda;
using ladder::Data;
using ladder::FusedArgs;
using ladder::Stage;
using ladder_test::ActivationAndType;
using ladder_test::activations_and_types;
using ladder_test::Added;
using ladder_test::fused_rungs;
using ladder_test::fused_shape;
using ladder_test::FusedProblem;
using ladder_test::Padding;
using ladder_test::Stream;

namespace {

constexpr Padding PADDED{8, 24, 16};  // words

int call(int stage, const FusedArgs& g) {
  return ladder_gemm_fused(stage, g.activation, g.type_d, g.m, g.n, g.k, g.alpha, g.a, g.lda, g.b,
                           g.ldb, g.beta, g.c, g.ldc, g.bias, g.d, g.ldd, g.stream);
}

bool error_has(const std::string& part) {
  return std::string(ladder_last_error()).find(part) != std::string::npos;
}

// The numbers by which a call gets such a rung: its own, and 0.
std::vector<int> numbers() {
  std::vector<int> all = {0};
  for (const Stage* stage : fused_rungs()) all.push_back(stage->number);
  return all;
}

// What an activation can be with, in place or not.
Added added_to(const ActivationAndType& each, bool in_place) {
  return {0.5f, each.gated() ? 0 : -2.0f, true, !each.gated() && in_place};
}

}  // namespace

TEST_CASE("fused C API: every activation and type is right, by the rung's number and by 0") {
  for (const ActivationAndType& each : activations_and_types()) {
    for (const int number : numbers()) {
      CAPTURE(each.activation);
      CAPTURE(each.type);
      CAPTURE(number);
      FusedProblem problem(fused_shape(150, 304, 136, each.activation, each.type), Data::ints,
                           added_to(each, number == 0), PADDED);
      const ladder::Watchdog watchdog("ladder_gemm_fused " + each.activation + " " + each.type);
      problem.verify(problem.is_exact());  // the reference, before D is C no more
      problem.refill();
      CHECK(call(number, problem.args) == LADDER_OK);
      CHECK(std::string(ladder_last_error()) == "");
      const ladder::Verdict verdict = problem.verify(problem.is_exact());
      CHECK_MESSAGE(verdict.ok(), verdict.describe());
      CHECK(problem.damage() == 0);
      const std::string kernel =
          ladder_stage_name(number > 0 ? number : fused_rungs().back()->number) + std::string("/") +
          each.activation + (each.type == "bf16" ? "_" : "_fp32_");
      CHECK(std::string(ladder_last_kernel()).find(kernel) == 0);
    }
  }
}

TEST_CASE("fused C API: wrong arguments are refused, all of them in one message") {
  for (const int number : numbers()) {
    CHECK(ladder_gemm_fused(number, 9, 3, -1, 8, 8, 1, nullptr, 8, nullptr, 8, 1, nullptr, 8,
                            nullptr, nullptr, 8, nullptr) == LADDER_REFUSED);
    for (const char* part : {"activation is 9", "type_d is 3", "m is -1"}) {
      CAPTURE(part);
      CHECK(error_has(part));
    }
    CHECK(ladder_gemm_fused(number, LADDER_NONE, LADDER_BF16, 8, 8, 8, 1, nullptr, 8, nullptr, 7, 1,
                            nullptr, 4, reinterpret_cast<const void*>(4), nullptr, 8,
                            nullptr) == LADDER_REFUSED);
    for (const char* part : {"a is null", "b is null", "ldb is 7", "c is null", "ldc is 4",
                             "bias is 0x4", "d is null"}) {
      CAPTURE(part);
      CHECK(error_has(part));
    }
    CHECK(ladder_gemm_fused(number, LADDER_SWIGLU, LADDER_BF16, 8, 24, 8, 1, nullptr, 8, nullptr, 8,
                            0.5f, nullptr, 8, nullptr, nullptr, 8, nullptr) == LADDER_REFUSED);
    CHECK(error_has("n is 24: swiglu takes gate and up in turns of 8"));
    CHECK(error_has("beta is 0.5: swiglu adds no C"));
    CHECK(std::string(ladder_last_kernel()) == "");
  }
}

TEST_CASE("fused C API: a rung of another problem is refused, with the function that calls it") {
  FusedProblem problem(fused_shape(64, 64, 64, "relu", "bf16"), Data::ints, {});
  CHECK(call(9, problem.args) == LADDER_REFUSED);
  CHECK(error_has("ladder_gemm_bf16()"));
  for (const Stage* stage : fused_rungs()) {
    CHECK(ladder_gemm_bf16(stage->number, 64, 64, 64, problem.args.a, 64, problem.args.b, 64,
                           problem.args.d, 64, nullptr) == LADDER_REFUSED);
    CHECK(error_has("ladder_gemm_fused()"));
  }
}

TEST_CASE("fused C API: K = 0 is an epilogue alone, M = 0 and N = 0 write nothing") {
  for (const ActivationAndType& each : activations_and_types()) {
    for (const bool in_place : {false, true}) {
      CAPTURE(each.activation);
      CAPTURE(each.type);
      FusedProblem problem(fused_shape(130, 80, 0, each.activation, each.type), Data::normal,
                           added_to(each, in_place), PADDED);
      FusedArgs args = problem.args;
      args.a = args.b = nullptr;
      problem.verify(false);
      problem.refill();
      CHECK(call(0, args) == LADDER_OK);
      CHECK(std::string(ladder_last_kernel()) == "");
      const ladder::Verdict verdict = problem.verify(false);
      CHECK_MESSAGE(verdict.ok(), verdict.describe());
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
}

TEST_CASE("fused C API: alpha = 0 is an epilogue alone, whatever A and B hold") {
  for (const ActivationAndType& each : activations_and_types()) {
    CAPTURE(each.activation);
    CAPTURE(each.type);
    Added added = added_to(each, false);
    FusedProblem problem(fused_shape(130, 80, 40, each.activation, each.type), Data::normal, added,
                         PADDED);
    problem.args.alpha = 0;
    problem.verify(false);
    problem.refill();
    FusedArgs args = problem.args;
    args.a = args.b = nullptr;
    CHECK(call(0, args) == LADDER_OK);
    CHECK(std::string(ladder_last_kernel()) == "");
    const ladder::Verdict verdict = problem.verify(false);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
    CHECK(problem.damage() == 0);
  }
}

TEST_CASE("fused C API: in a graph, and under a limit of SMs") {
  struct Limit {
    ~Limit() { ladder_set_sm_limit(0); }
  } back_to_all;
  const Stream stream;
  for (const ActivationAndType& each : {ActivationAndType{"relu", "bf16"}, {"none", "bf16_fp32"}}) {
    for (const int limit : {0, 1, 5}) {
      CAPTURE(each.type);
      CAPTURE(limit);
      FusedProblem problem(fused_shape(333, 600, 136, each.activation, each.type), Data::ints,
                           added_to(each, false), PADDED, stream.handle);
      const ladder::Watchdog watchdog("ladder_gemm_fused, captured");
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
}
