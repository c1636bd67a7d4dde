// Kernels that share the K of tiles, each call in the workspace of its stream: several streams and
// graphs at once, no workspace, few SMs, and bits that do not depend on who comes last.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <thread>

#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/watchdog.h"
#include "common/host/where.h"
#include "tests/support/problem.h"

using ladder::check_cuda;
using ladder::Data;
using ladder::GemmArgs;
using ladder::on_machine;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;
using ladder_test::call;
using ladder_test::Expected;
using ladder_test::for_each_variant;
using ladder_test::Matrix;
using ladder_test::note;
using ladder_test::PADDED;
using ladder_test::Problem;
using ladder_test::rungs;
using ladder_test::Stream;

namespace {

// Few tiles and a long K, as in decode; of the first ones a model shares the tiles even on 6 SMs.
std::vector<Shape> shapes() {
  if (on_machine()) {
    return {{1, 64, 16000},  {96, 128, 8000}, {24, 64, 16000}, {160, 200, 3000},
            {257, 129, 520}, {33, 520, 777},  {130, 72, 1100}, {8, 400, 2000}};
  }
  return {{1, 4096, 14336},  {64, 2112, 7168},  {128, 576, 7168}, {16, 7168, 2048},
          {257, 1290, 5200}, {333, 520, 16000}, {96, 128, 8000},  {1000, 3000, 1496}};
}

// A caller with a stream, and a workspace that is the stream's.
struct Caller {
  Stream stream;
  Problem problem;
  Expected expected;

  Caller(const Shape& shape, Data data)
      : problem(shape, data, PADDED, stream.handle), expected(problem.args) {
    const auto& workspace = problem.workspace;
    REQUIRE(ladder_set_workspace(workspace.data(), workspace.bytes(), stream.handle) == LADDER_OK);
    check_cuda(cudaStreamSynchronize(stream.handle), "zeroing counters");
  }
  ~Caller() { ladder_set_workspace(nullptr, 0, stream.handle); }

  void check(bool exact) {
    const ladder::Verdict verdict = expected.verify(problem.args, exact);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
    CHECK(problem.d.damage() == 0);
    CHECK(problem.workspace.damage() == 0);
  }
};

std::vector<std::unique_ptr<Caller>> callers(const std::vector<Shape>& of, Data data) {
  std::vector<std::unique_ptr<Caller>> all;
  for (const Shape& shape : of) all.push_back(std::make_unique<Caller>(shape, data));
  REQUIRE(!all.empty());
  return all;
}

std::vector<Shape> first_shapes(size_t count) {
  std::vector<Shape> first = shapes();
  REQUIRE(first.size() >= count);
  first.resize(count);
  return first;
}

bool needs_workspace(const Variant& variant) {
  return variant.kernel.workspace_bytes > 0 || variant.chooser.workspace_bytes > 0;
}

// Something that can be launched with a caller's arguments; throws if that fails.
struct Way {
  std::string name;
  std::function<void(const GemmArgs&)> launch;
};

Way by_api(int stage) {
  return {"stage " + std::to_string(stage) + " of the C API", [stage](const GemmArgs& args) {
            if (call(stage, args) != LADDER_OK) throw std::runtime_error(ladder_last_error());
          }};
}

// Numbers of the stages that may use a workspace: 0, and each rung with such a kernel.
std::vector<int> stages_with_workspace() {
  std::vector<int> numbers = {0};
  for (const Stage& stage : rungs()) {
    if (needs_workspace(stage.result())) numbers.push_back(stage.number);
  }
  REQUIRE(numbers.size() >= 2);
  return numbers;
}

// Those stages by the C API, and every kernel with a workspace.
std::vector<Way> ways() {
  std::vector<Way> all;
  for (const int number : stages_with_workspace()) all.push_back(by_api(number));
  const size_t by_the_api = all.size();
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    if (variant.kernel.workspace_bytes == 0) return;
    all.push_back({stage.stem + "/" + variant.name,
                   [&variant](const GemmArgs& args) { ladder::run(variant, args); }});
  });
  REQUIRE(all.size() > by_the_api);
  return all;
}

// Whether the kernel of this thread's latest call needs a workspace.
bool last_needs_workspace() {
  const std::string last = ladder_last_kernel();
  bool needs = false;
  int found = 0;
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    if (stage.stem + "/" + variant.name != last) return;
    needs = variant.kernel.workspace_bytes > 0;
    ++found;
  });
  CHECK_MESSAGE(found == 1, last);
  return needs;
}

}  // namespace

TEST_CASE("shared K: eight streams at once, each with its workspace") {
  const int repetitions = on_machine() ? 1 : 50;
  const auto all = callers(first_shapes(8), Data::ints);
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    const ladder::Watchdog watchdog(way.name + ", on eight streams");
    for (const auto& caller : all) caller->problem.d.poison();
    std::vector<std::string> errors(all.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < all.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          for (int again = 0; again < repetitions; ++again) way.launch(all[i]->problem.args);
          check_cuda(cudaStreamSynchronize(all[i]->stream.handle), "waiting for a stream");
        } catch (const std::exception& error) {
          errors[i] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string shape = to_string(shapes()[i]);
      CAPTURE(shape);
      CHECK(errors[i] == "");
      all[i]->check(true);
    }
  }
}

TEST_CASE("shared K: two graphs in flight, each with the workspace of its stream") {
  const int rounds = on_machine() ? 2 : 50, launches = on_machine() ? 2 : 8;
  // K is not so long that what rounding leaves comes near the tolerance.
  const auto two = callers(on_machine() ? std::vector<Shape>{{1, 64, 4000}, {96, 128, 2000}}
                                        : std::vector<Shape>{{1, 4096, 3000}, {64, 2112, 2000}},
                           Data::normal);
  for (const auto& caller : two) {
    ladder_test::cancel(caller->problem);
    caller->expected = Expected(caller->problem.args);
  }
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    const ladder::Watchdog watchdog(way.name + ", two graphs");
    cudaGraphExec_t graphs[2] = {};
    std::unique_ptr<Matrix> first[2];
    for (int i = 0; i < 2; ++i) {
      Problem& problem = two[i]->problem;
      cudaGraph_t graph = nullptr;
      check_cuda(cudaStreamBeginCapture(problem.args.stream, cudaStreamCaptureModeThreadLocal),
                 "beginning a capture");
      way.launch(problem.args);
      check_cuda(cudaStreamEndCapture(problem.args.stream, &graph), "ending a capture");
      check_cuda(cudaGraphInstantiate(&graphs[i], graph, 0), "instantiating a graph");
      check_cuda(cudaGraphDestroy(graph), "destroying a graph");
    }
    for (int round = 0; round < rounds; ++round) {
      for (const auto& caller : two) caller->problem.d.poison();
      for (int launch = 0; launch < launches; ++launch) {
        for (int i = 0; i < 2; ++i) {
          check_cuda(cudaGraphLaunch(graphs[i], two[i]->stream.handle), "launching a graph");
        }
      }
      for (int i = 0; i < 2; ++i) {
        const GemmArgs& args = two[i]->problem.args;
        check_cuda(cudaStreamSynchronize(args.stream), "waiting for a graph");
        if (round == 0) {
          two[i]->check(false);
          first[i] = std::make_unique<Matrix>(args.m, args.n, PADDED.d);
          first[i]->upload(two[i]->problem.d.download());
        }
        CHECK(two[i]->problem.d.differences(*first[i]) == 0);
        CHECK(two[i]->problem.workspace.damage() == 0);
      }
    }
    for (const cudaGraphExec_t graph : graphs) {
      check_cuda(cudaGraphExecDestroy(graph), "destroying a graph");
    }
  }
}

TEST_CASE("shared K: without a workspace another kernel gives the same, a small one is refused") {
  const auto all = callers(first_shapes(4), Data::ints);
  int shared = 0;
  for (const auto& caller : all) {
    const auto& workspace = caller->problem.workspace;
    const GemmArgs& args = caller->problem.args;
    const std::string shape = to_string(Shape{args.m, args.n, args.k});
    CAPTURE(shape);
    for (const int number : stages_with_workspace()) {
      CAPTURE(number);
      const ladder::Watchdog watchdog("with and without a workspace at " + shape);
      caller->problem.d.poison();
      CHECK(call(number, args) == LADDER_OK);
      shared += last_needs_workspace();
      caller->check(true);

      CHECK(ladder_set_workspace(nullptr, 0, args.stream) == LADDER_OK);
      CHECK(ladder_set_workspace(workspace.data(), workspace.bytes() - 256, args.stream) ==
            LADDER_REFUSED);
      caller->problem.d.poison();
      CHECK(call(number, args) == LADDER_OK);
      CHECK_FALSE(last_needs_workspace());
      caller->check(true);
      CHECK(ladder_set_workspace(workspace.data(), workspace.bytes(), args.stream) == LADDER_OK);
    }
  }
  if (on_machine()) CHECK(shared > 0);  // on a GPU it is the model's to say
  note(std::to_string(shared) + " calls shared tiles");

  GemmArgs none = all.front()->problem.args;
  none.workspace = nullptr;
  int refused = 0;
  for_each_variant([&](const Stage&, const Variant& variant) {
    if (variant.kernel.workspace_bytes == 0) return;
    CHECK_THROWS_AS(ladder::run(variant, none), ladder::Refused);
    ++refused;
  });
  CHECK(refused > 0);
}

TEST_CASE("shared K: a limit of SMs holds with a workspace too") {
  struct Limit {
    ~Limit() { ladder_set_sm_limit(0); }
  } back_to_all;
  std::vector<Shape> some = first_shapes(4);
  some.push_back({8, 64, 2048});  // without a limit, seven SMs would cut its tiles
  const auto all = callers(some, Data::ints);
  int shared = 0;
  for (const int limit : {1, 3, 7}) {
    CAPTURE(limit);
    CHECK(ladder_set_sm_limit(limit) == LADDER_OK);
    for (const int number : stages_with_workspace()) {
      CAPTURE(number);
      for (const auto& caller : all) {
        const ladder::Watchdog watchdog("a limit of SMs, stage " + std::to_string(number));
        caller->problem.d.poison();
        CHECK(call(number, caller->problem.args) == LADDER_OK);
        shared += last_needs_workspace();
        // The second kernel of cut tiles takes no limit; on six SMs seven are none.
        const bool cut = std::string(ladder_last_kernel()).ends_with("_cut");
        if (limit < ladder::query_device().sm_count) CHECK_FALSE(cut);
        caller->check(true);
      }
    }
  }
  if (on_machine()) CHECK(shared > 0);  // on a GPU it is the model's to say
  note(std::to_string(shared) + " calls shared tiles");
}

TEST_CASE("shared K: the workspace of 132 SMs is small beside what a GPU has") {
  const size_t bytes = ladder::workspace_bytes(132);
  CHECK(bytes > ladder::WORKSPACE_COUNTER_BYTES);
  CHECK(bytes <= size_t{64} << 20);
  for_each_variant([&](const Stage&, const Variant& variant) {
    const auto scratch = static_cast<size_t>(
        std::max(variant.kernel.workspace_bytes, variant.chooser.workspace_bytes));
    CHECK(ladder::WORKSPACE_COUNTER_BYTES + 132 * scratch <= bytes);
  });
}

// In a process of its own, since its environment says how the machine schedules.
TEST_CASE("child: bits of shared tiles" * doctest::skip()) {
  std::string bits;
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    if (variant.kernel.workspace_bytes == 0) return;
    uint64_t hash = 14695981039346656037u;  // FNV-1a
    for (const ladder_test::SharedCall& shared : ladder_test::shared_calls(variant)) {
      Problem problem(shared.shape, Data::normal);
      ladder_test::cancel(problem);
      problem.args.max_ctas = shared.max_ctas;
      ladder_test::check_variant(stage, variant, problem, Expected(problem.args), false);
      for (const ladder::bf16 element : problem.d.download()) {
        hash = (hash ^ std::bit_cast<uint16_t>(element)) * 1099511628211u;
      }
    }
    bits += std::string(variant.name) + " " + std::to_string(hash) + "\n";
  });
  note("\n" + bits);
}

TEST_CASE("shared K: the bits are the same, whoever comes last") {
  std::string bits;
  for (const char* schedule : {"eager", "lazy", "random MACHINE_SEED=1", "random MACHINE_SEED=2"}) {
    const ladder_test::Ending ending = ladder_test::run_child(
        "child: bits of shared tiles", std::string("MACHINE_POLICY=") + schedule);
    CAPTURE(schedule);
    CAPTURE(ending.output);
    CHECK(ending.passed());
    if (bits.empty()) bits = ending.output;
    CHECK(ending.output == bits);
  }
}
