// Workspaces of the C API, and stage 0, which takes a kernel that needs one where there is one. The
// rung is made up: its launches only say what they were given. In a fresh process, since the C API
// knows whatever rung is registered.
#include <doctest/doctest.h>

#include <set>
#include <thread>

#include "common/host/best.h"
#include "common/host/error.h"
#include "common/host/ladder.h"
#include "tests/support/problem.h"

using ladder::check_cuda;
using ladder::GemmArgs;
using ladder::Variant;
using ladder_test::Problem;
using ladder_test::Stream;

namespace {

constexpr int STAGE = 99, SCRATCH_BYTES = 1000;  // of each SM
constexpr int MANY_SMS = 5000;

GemmArgs launched;  // by the latest launch
int times_predicted = 0;

// Faster than any rung; its launch runs no kernel, and the function is one that can be loaded.
template <int PICOSECONDS>
Variant made_up(const char* name, int workspace_bytes) {
  Variant variant{};
  variant.name = name;
  variant.what = "runs nothing";
  variant.kernel.launch = +[](const GemmArgs& args) { launched = args; };
  variant.kernel.function = ladder::stages().front().result().kernel.function;
  variant.kernel.bn = 256;
  variant.kernel.workspace_bytes = workspace_bytes;
  variant.kernel.persistent = true;
  variant.predicted_us = +[](const GemmArgs&) {
    ++times_predicted;
    return PICOSECONDS * 1e-6;
  };
  return variant;
}

// Before all_stages() is asked for the first time.
void register_rung() {
  static const ladder::Registrar registrar(
      "stages/99_made_up.cu", "a rung that runs nothing",
      {made_up<1>("split", SCRATCH_BYTES).as_result(), made_up<2>("whole", 0)});
}

int call(int stage, const GemmArgs& args) {
  launched = {};
  return ladder_test::call(stage, args);
}

std::string last_kernel() {
  return ladder_last_kernel();
}

// With every word that ladder_last_error() must have.
void refused(int code, std::initializer_list<const char*> words) {
  const std::string error = ladder_last_error();
  CAPTURE(error);
  CHECK(code == LADDER_REFUSED);
  for (const char* word : words) {
    CAPTURE(word);
    CHECK(error.find(word) != std::string::npos);
  }
}

std::vector<unsigned char> bytes_of(const void* device, size_t bytes) {
  std::vector<unsigned char> found(bytes);
  check_cuda(cudaMemcpy(found.data(), device, bytes, cudaMemcpyDeviceToHost), "reading");
  return found;
}

bool passes(const char* test_case) {
  const ladder_test::Ending ending = ladder_test::run_child(test_case, "LADDER_CHILD=1");
  CAPTURE(ending.output);
  CHECK(ending.passed());
  return ending.passed();
}

}  // namespace

TEST_CASE("child: workspaces of the C API" * doctest::skip()) {
  register_rung();
  const Problem problem({64, 72, 80}, ladder::Data::ints);
  const int sms = ladder::query_device().sm_count;
  const size_t needed = ladder_workspace_bytes();
  CHECK(needed == ladder::workspace_bytes(sms));
  CHECK(needed >= ladder::WORKSPACE_COUNTER_BYTES + size_t{SCRATCH_BYTES} * sms);
  CHECK(ladder::workspace_bytes(MANY_SMS) - ladder::workspace_bytes(MANY_SMS - 1) >= SCRATCH_BYTES);
  const ladder::DeviceBuffer memory(needed + 256);
  char* const good = memory.as<char>();
  check_cuda(cudaMemset(good, 0x77, memory.bytes()), "filling");
  const Stream stream, other;
  GemmArgs args = problem.args;
  args.stream = stream.handle;

  // None is set: a kernel that needs one is refused, stage 0 takes another.
  refused(call(STAGE, args), {"workspace is null", "split needs one", "65536 bytes of counters",
                              "1000 bytes for each SM", "ladder_workspace_bytes()", "stage 0"});
  GemmArgs wrong = args;
  wrong.lda = 81;
  refused(call(STAGE, wrong), {"lda is 81", "workspace is null"});
  CHECK(call(0, args) == LADDER_OK);
  CHECK(last_kernel() == "99_made_up/whole");

  // What is no workspace.
  const std::string size = std::to_string(needed);
  refused(ladder_set_workspace(nullptr, 8, stream.handle), {"workspace is null", "bytes is 8"});
  refused(ladder_set_workspace(good, needed - 1, stream.handle),
          {("bytes is " + std::to_string(needed - 1)).c_str(), ("works is " + size).c_str()});
  refused(ladder_set_workspace(good, SIZE_MAX, stream.handle), {"at most 2^40", "1099511627776."});
  refused(ladder_set_workspace(good + 16, needed, stream.handle), {"a multiple of 256 bytes"});
  std::vector<char> host(needed + 256);
  char* const of_host = host.data() + (256 - reinterpret_cast<uintptr_t>(host.data()) % 256) % 256;
  refused(ladder_set_workspace(of_host, needed, stream.handle), {"in the host's memory"});
  refused(ladder_set_workspace(of_host + 1, 1, stream.handle),
          {"bytes is 1:", "multiple of 256", "in the host's memory"});
  refused(ladder_set_workspace(good, needed, cudaStreamPerThread), {"cudaStreamPerThread"});
  check_cuda(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal), "a capture");
  refused(ladder_set_workspace(good, needed, stream.handle), {"captured", "before the capture"});
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream.handle, &graph), "a capture");
  check_cuda(cudaGraphDestroy(graph), "a graph");
  CHECK(bytes_of(good, memory.bytes()) == std::vector<unsigned char>(memory.bytes(), 0x77));
  CHECK(call(0, args) == LADDER_OK);
  CHECK(last_kernel() == "99_made_up/whole");

  // One is set: its counters are 0, calls on this stream have it, in every thread.
  CHECK(ladder_set_workspace(good, needed, stream.handle) == LADDER_OK);
  check_cuda(cudaStreamSynchronize(stream.handle), "zeroing counters");
  const auto counters = bytes_of(good, ladder::WORKSPACE_COUNTER_BYTES + 1);
  CHECK(std::count(counters.begin(), counters.end(), 0) == ladder::WORKSPACE_COUNTER_BYTES);
  CHECK(counters.back() == 0x77);
  CHECK(call(STAGE, args) == LADDER_OK);
  CHECK(launched.workspace == good);
  CHECK(call(0, args) == LADDER_OK);
  CHECK(last_kernel() == "99_made_up/split");
  CHECK(launched.workspace == good);
  std::thread([&] {
    CHECK(call(0, args) == LADDER_OK);
    CHECK(last_kernel() == "99_made_up/split");
  }).join();
  GemmArgs inside = args;
  inside.d = reinterpret_cast<ladder::bf16*>(good + needed - 256);
  refused(call(STAGE, inside), {"overlaps the workspace", "D must share no byte"});

  // Memory that host and device share is one, too.
  void* managed = nullptr;
  check_cuda(cudaMallocManaged(&managed, needed, cudaMemAttachGlobal), "allocating");
  CHECK(ladder_set_workspace(managed, needed, stream.handle) == LADDER_OK);
  CHECK(call(STAGE, args) == LADDER_OK);
  CHECK(launched.workspace == managed);
  CHECK(ladder_set_workspace(good, needed, stream.handle) == LADDER_OK);
  check_cuda(cudaStreamSynchronize(stream.handle), "zeroing counters");
  check_cuda(cudaFree(managed), "freeing");

  // Others have none; the default stream has one under both of its names.
  args.stream = other.handle;
  CHECK(call(0, args) == LADDER_OK);
  CHECK(last_kernel() == "99_made_up/whole");
  CHECK(ladder_set_workspace(good, needed, nullptr) == LADDER_OK);
  args.stream = cudaStreamLegacy;
  CHECK(call(0, args) == LADDER_OK);
  CHECK(last_kernel() == "99_made_up/split");

  // Taken away, which a capture does not forbid.
  args.stream = stream.handle;
  check_cuda(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal), "a capture");
  CHECK(ladder_set_workspace(nullptr, 0, stream.handle) == LADDER_OK);
  check_cuda(cudaStreamEndCapture(stream.handle, &graph), "a capture");
  check_cuda(cudaGraphDestroy(graph), "a graph");
  CHECK(call(0, args) == LADDER_OK);
  CHECK(last_kernel() == "99_made_up/whole");
  CHECK(call(STAGE, args) == LADDER_REFUSED);
  GemmArgs no_k = args;
  no_k.k = 0;
  CHECK(call(STAGE, no_k) == LADDER_OK);  // needs no kernel and so no workspace
  check_cuda(cudaDeviceSynchronize(), "zeros");
}

TEST_CASE("child: a model is asked once about calls that are alike" * doctest::skip()) {
  register_rung();
  const Problem problem({64, 72, 80}, ladder::Data::ints);
  const auto asks = [](const GemmArgs& args) {
    times_predicted = 0;
    CHECK(call(0, args) == LADDER_OK);
    return times_predicted > 0;
  };
  GemmArgs args = problem.args;
  CHECK(asks(args));
  CHECK_FALSE(asks(args));
  CHECK(last_kernel() == "99_made_up/whole");
  args.d = problem.d.data() + 8;
  args.m = 63;
  CHECK(asks(args));
  CHECK_FALSE(asks(args));
  args.ldd += 8;
  args.m = 50;
  CHECK(asks(args));
  args.ldd += 8;
  CHECK(asks(args));
  CHECK_FALSE(asks(args));
  CHECK(ladder_set_sm_limit(1) == LADDER_OK);
  CHECK(asks(args));
  CHECK(ladder_set_sm_limit(0) == LADDER_OK);
  CHECK_FALSE(asks(args));
  const ladder::DeviceBuffer memory(ladder_workspace_bytes());
  CHECK(ladder_set_workspace(memory.data(), memory.bytes(), nullptr) == LADDER_OK);
  CHECK(asks(args));
  CHECK(last_kernel() == "99_made_up/split");
  CHECK(ladder_set_workspace(nullptr, 0, nullptr) == LADDER_OK);
  CHECK_FALSE(asks(args));
  CHECK(last_kernel() == "99_made_up/whole");
  // Two shapes in turns, wherever their answers are kept.
  for (int other = 1; other <= 63; ++other) {
    for (int k = 8; k <= 80; k += 8) {
      GemmArgs second = args;
      second.m = other;
      second.k = k;
      CHECK(call(0, args) == LADDER_OK);
      CHECK(call(0, second) == LADDER_OK);
      CHECK_FALSE(asks(args));
      CHECK_FALSE(asks(second));
    }
  }
  // More shapes than are kept, each right.
  for (int k = 8; k <= 80; k += 8) {
    for (int m = 1; m <= 64; ++m) {
      args.m = m;
      args.k = k;
      CHECK(call(0, args) == LADDER_OK);
      CHECK(launched.m == m);
      CHECK(launched.k == k);
    }
  }
  std::thread([&] { CHECK(asks(args)); }).join();
  check_cuda(cudaDeviceSynchronize(), "counters");
}

TEST_CASE("child: stage 0 of the programs" * doctest::skip()) {
  register_rung();
  const ladder::Stage* const best = ladder::best_stage(GemmArgs::kind());
  REQUIRE(best != nullptr);
  CHECK(best->number == 0);
  CHECK(best->stem == "best");
  CHECK(std::string(best->result().name) == "best");
  REQUIRE(best->variants.size() == 2);
  CHECK(std::string(best->variants[1].name) == "best_no_workspace");
  CHECK(&ladder::all_stages().front() == best);
  std::set<const ladder::ProblemKind*> kinds;  // that a rung predicts times for
  for (const ladder::Stage& stage : ladder::stages()) {
    for (const Variant& variant : stage.variants) {
      if (variant.predicted_us) kinds.insert(&stage.kind());
    }
  }
  CHECK(ladder::all_stages().size() == ladder::stages().size() + kinds.size());

  const Problem problem({64, 72, 80}, ladder::Data::ints);
  const auto ran = [](const Variant& variant, const GemmArgs& args) {
    const Variant* const chosen = ladder::run(variant, args);
    REQUIRE(chosen != nullptr);
    return ladder::rung_of(*chosen).stem + "/" + chosen->name;
  };
  GemmArgs args = problem.args;
  REQUIRE(args.workspace != nullptr);
  CHECK(ran(best->variants[0], args) == "99_made_up/split");
  CHECK(ran(best->variants[1], args) == "99_made_up/whole");
  args.workspace = nullptr;
  CHECK(ran(best->variants[0], args) == "99_made_up/whole");
  CHECK_THROWS_AS(ladder::run(ladder::stages().back().result(), args), ladder::Refused);
}

TEST_CASE("C API: a stream's workspace is that of its calls, and what is none is refused") {
  passes("child: workspaces of the C API");
}

TEST_CASE("C API: what was chosen for a shape is kept") {
  passes("child: a model is asked once about calls that are alike");
}

TEST_CASE("stage 0: the least predicted kernel of all rungs that the call can use") {
  passes("child: stage 0 of the programs");
}
