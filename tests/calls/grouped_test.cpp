// ladder_gemm_grouped: by the C API, its errors, sizes of zero, graphs that are replayed with other
// sizes, limits.
#include <doctest/doctest.h>

#include <string>

#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/watchdog.h"
#include "tests/support/grouped_problem.h"

using ladder::check_cuda;
using ladder::Data;
using ladder::GroupedArgs;
using ladder::Stage;
using ladder_test::grouped_rungs;
using ladder_test::GroupedProblem;
using ladder_test::GroupedShape;
using ladder_test::offsets_of;
using ladder_test::Stream;

namespace {

constexpr int TYPES[] = {LADDER_BF16, LADDER_E4M3};

int call(int stage, const GroupedArgs& g) {
  return ladder_gemm_grouped(stage, g.type, g.masked, g.groups, g.m, g.n, g.k, g.a, g.lda,
                             g.scale_a, g.ld_scale_a, g.b, g.ldb, g.scale_b, g.ld_scale_b, g.d,
                             g.ldd, g.sizes, g.error_flag, g.stream);
}

bool error_has(const std::string& part) {
  return std::string(ladder_last_error()).find(part) != std::string::npos;
}

std::vector<int> numbers() {
  std::vector<int> all = {0};
  for (const Stage* stage : grouped_rungs()) all.push_back(stage->number);
  return all;
}

}  // namespace

TEST_CASE("grouped C API: every type and kind is right, by the rung's number and by 0") {
  for (const int type : TYPES) {
    for (const bool masked : {false, true}) {
      const std::vector<int> rows = {70, 0, 1, 129};
      GroupedProblem problem(
          {type, masked, masked ? 150 : 200, 300, 296, masked ? rows : offsets_of(rows)},
          Data::ints, true);
      for (const int number : numbers()) {
        CAPTURE(type);
        CAPTURE(masked);
        CAPTURE(number);
        problem.poison();
        const ladder::Watchdog watchdog("ladder_gemm_grouped");
        CHECK(call(number, problem.args) == LADDER_OK);
        CHECK(std::string(ladder_last_error()) == "");
        const ladder::Verdict verdict = problem.verify(true);
        CHECK_MESSAGE(verdict.ok(), verdict.describe());
        CHECK(problem.damage() == 0);
        const int rung = number > 0 ? number : grouped_rungs().back()->number;
        CHECK(std::string(ladder_last_kernel()).starts_with(ladder_stage_name(rung)));
      }
    }
  }
}

TEST_CASE("grouped C API: wrong arguments are refused, all of them in one message") {
  int flag = 0;
  int* const odd = reinterpret_cast<int*>(reinterpret_cast<char*>(&flag) + 1);
  for (const int number : numbers()) {
    CHECK(ladder_gemm_grouped(number, 4, 2, 600, 8, 8, 300, nullptr, 300, nullptr, 6, nullptr, 8,
                              nullptr, 2, nullptr, 9, nullptr, odd, nullptr) == LADDER_REFUSED);
    for (const char* part :
         {"type is 4: it must be 0 (bf16) or 3 (e4m3); the nearest that works is 3",
          "masked is 2: it must be 0 (contiguous) or 1 (masked); the nearest that works is 1",
          "groups is 600: a call has from 0 to 512; the nearest that works is 512", "a is null",
          "lda is 300", "scale_a is null",
          "ld_scale_a is 6: it must be at least groups * m = 4096 and a multiple of 4", "b is null",
          "ldb is 8", "scale_b is null", "ld_scale_b is 2: it must be at least ceil(k/128) = 3",
          "d is null", "ldd is 9", "offsets_or_rows is null", "error_flag is 0x"}) {
      CAPTURE(part);
      CHECK(error_has(part));
    }
    CHECK(std::string(ladder_last_kernel()) == "");
  }
}

TEST_CASE("grouped C API: a rung of another problem is refused, with the function that calls it") {
  GroupedProblem problem({LADDER_BF16, false, 64, 64, 64, {0, 64}}, Data::ints);
  CHECK(call(9, problem.args) == LADDER_REFUSED);
  CHECK(error_has("stage is 9: 09_async_epilogue computes D[M,N] = A[M,K] * B[N,K]^T, bf16"));
  for (const Stage* stage : grouped_rungs()) {
    CHECK(ladder_gemm_bf16(stage->number, 64, 64, 64, problem.args.a, 64, problem.args.b, 64,
                           problem.args.d, 64, nullptr) == LADDER_REFUSED);
    CHECK(error_has("ladder_gemm_grouped()"));
  }
}

TEST_CASE("grouped C API: D may share no byte with any group's B, nor with the sizes") {
  GroupedProblem problem({LADDER_BF16, false, 64, 64, 64, {0, 20, 40, 64}}, Data::ints);
  GroupedArgs args = problem.args;
  args.d = static_cast<ladder::bf16*>(const_cast<void*>(args.b)) + 2 * 64 * 64;  // of group 2
  CHECK(call(0, args) == LADDER_REFUSED);
  CHECK(error_has("overlaps B's other groups"));
  args = problem.args;
  args.sizes = reinterpret_cast<const int*>(args.d + 64);
  CHECK(call(0, args) == LADDER_REFUSED);
  CHECK(error_has("overlaps offsets_or_rows"));
}

TEST_CASE(
    "grouped C API: K = 0 writes zeros into good groups; M, N and groups of 0 the flag alone") {
  for (const int type : TYPES) {
    for (const std::vector<int>& sizes :
         {std::vector<int>{3, 70, 70, 101}, {3, 70, 60, 101}, {-1, 70, 80, 90}}) {
      CAPTURE(type);
      CAPTURE(sizes[2]);
      GroupedProblem problem({type, false, 130, 67, 0, sizes}, Data::ints, true);
      GroupedArgs args = problem.args;
      args.a = args.b = nullptr;
      args.scale_a = args.scale_b = nullptr;
      CHECK(call(0, args) == LADDER_OK);
      CHECK(std::string(ladder_last_kernel()) == "");
      CHECK(problem.verify(true).ok());
      CHECK(problem.damage() == 0);
    }
    GroupedProblem masked({type, true, 40, 67, 0, {3, 41, 40}}, Data::ints, true);
    CHECK(call(0, masked.args) == LADDER_OK);
    CHECK(masked.verify(true).ok());
    CHECK(masked.damage() == 0);
    for (const GroupedShape& shape : {GroupedShape{type, false, 0, 67, 40, {0, 0, 0}},
                                      {type, false, 0, 67, 40, {0, 1, 0}},
                                      {type, false, 130, 0, 40, {0, 131, 130}},
                                      {type, true, 0, 8, 8, {0, 0, 1}},
                                      {type, false, 130, 67, 40, {5}},
                                      {type, true, 130, 67, 40, {}}}) {
      GroupedProblem problem(shape, Data::ints);
      CHECK(call(0, problem.args) == LADDER_OK);
      CHECK(problem.damage() == 0);
    }
  }
}

namespace {

// Captures `call`, and replays it with sizes that were not known then.
template <class Call>
void replay(GroupedProblem& problem, const Stream& stream, const Call& call) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check_cuda(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeGlobal), "a capture");
  call();
  check_cuda(cudaStreamEndCapture(stream.handle, &graph), "a capture");
  check_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiating a graph");
  for (const std::vector<int>& sizes : {std::vector<int>{1, 140, 0, 65},
                                        {64, 0, 77, 128},
                                        {0, 0, 0, 0},
                                        {141, -1, 7, 140},
                                        {9, 9, 9, 9}}) {
    problem.set_sizes(sizes);
    problem.poison();
    check_cuda(cudaGraphLaunch(executable, stream.handle), "launching a graph");
    check_cuda(cudaStreamSynchronize(stream.handle), "waiting for a graph");
    CHECK(problem.verify(true).ok());
    CHECK(problem.damage() == 0);
  }
  check_cuda(cudaGraphExecDestroy(executable), "destroying a graph");
  check_cuda(cudaGraphDestroy(graph), "destroying a graph");
}

}  // namespace

TEST_CASE("grouped C API: a captured call is replayed with sizes that come later, bad ones too") {
  struct Limit {
    ~Limit() { ladder_set_sm_limit(0); }
  } back_to_all;
  const Stream stream;
  for (const int type : TYPES) {
    for (const int limit : {0, 4}) {
      CAPTURE(type);
      CAPTURE(limit);
      GroupedProblem problem({type, true, 140, 300, 264, {0, 0, 0, 0}}, Data::ints, true,
                             stream.handle);
      const ladder::Watchdog watchdog("ladder_gemm_grouped, captured");
      CHECK(ladder_set_sm_limit(limit) == LADDER_OK);
      replay(problem, stream, [&] { CHECK(call(0, problem.args) == LADDER_OK); });
    }
  }
}

TEST_CASE("grouped: a captured launch of each variant that needs a workspace is replayed, too") {
  const Stream stream;
  GroupedProblem problem({LADDER_BF16, true, 140, 300, 264, {0, 0, 0, 0}}, Data::ints, true,
                         stream.handle);
  int variants = 0;
  for (const Stage* stage : grouped_rungs()) {
    for (const ladder::Variant& variant : stage->variants) {
      if (variant.kernel.workspace_bytes == 0) continue;
      CAPTURE(variant.name);
      const ladder::Watchdog watchdog(variant.name);
      problem.set_sizes({0, 0, 0, 0});
      replay(problem, stream, [&] { ladder::run(variant, problem.args); });
      ++variants;
    }
  }
  CHECK(variants > 0);
}
