// How the ladder is called: the C API, several threads, graph capture, a hang, no device.
#include <doctest/doctest.h>

#include <cstdlib>
#include <thread>

#include "common/host/cublas_lt.h"
#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/tensor_map.h"
#include "common/host/watchdog.h"
#include "tests/gpu/support.h"

using gpu_test::Ending;
using gpu_test::for_each_variant;
using gpu_test::PADDED;
using gpu_test::Problem;
using ladder::check_cuda;
using ladder::Data;
using ladder::GemmArgs;
using ladder::Reference;
using ladder::Stage;
using ladder::Variant;

namespace {

int call(int stage, const GemmArgs& args) {
  return ladder_gemm_bf16(stage, args.m, args.n, args.k, args.a, args.lda, args.b, args.ldb, args.d,
                          args.ldd, args.stream);
}

bool error_has(const char* part) {
  return std::string(ladder_last_error()).find(part) != std::string::npos;
}

// The streams of two callers never wait for each other, nor for the default stream.
struct Stream {
  cudaStream_t handle = nullptr;
  Stream() {
    check_cuda(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "creating a stream");
  }
  ~Stream() { cudaStreamDestroy(handle); }
};

}  // namespace

TEST_CASE("device: what these tests run on") {
  NEEDS_GPU();
  const ladder::DeviceInfo device = ladder::query_device();
  CHECK(device.cc_major == 9);
  CHECK(device.sm_count > 0);
  int driver = 0, runtime = 0;
  check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check_cuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const char* revision = std::getenv("REVISION");  // make test sets it
  ladder_test::note("revision " + std::string(revision == nullptr ? "unknown" : revision) + ", " +
                    device.name + ", " + std::to_string(device.sm_count) +
                    " SMs, driver for CUDA " + std::to_string(driver) + ", runtime " +
                    std::to_string(runtime) + ", cuBLASLt " + ladder::CublasLt::version());
}

TEST_CASE("C API: rungs and their names") {
  const auto& stages = ladder::stages();
  REQUIRE(!stages.empty());
  CHECK(ladder_stage_count() == stages.back().number);
  for (const Stage& stage : stages) CHECK(ladder_stage_name(stage.number) == stage.stem);
  for (const int none : {0, -1, ladder_stage_count() + 1, 2147483647, -2147483647 - 1}) {
    CHECK(std::string(ladder_stage_name(none)) == "");
  }
}

TEST_CASE("C API: wrong arguments are refused, with or without a GPU") {
  CHECK(ladder_gemm_bf16(1, -1, 8, 8, nullptr, 8, nullptr, 8, nullptr, 8, nullptr) ==
        LADDER_REFUSED);
  CHECK(error_has("m is -1"));
  CHECK(error_has("a is null"));
  CHECK(error_has("d is null"));
  for (const int none : {-1, ladder_stage_count() + 1, 2147483647}) {
    CHECK(ladder_gemm_bf16(none, 8, 8, 8, nullptr, 8, nullptr, 8, nullptr, 8, nullptr) ==
          LADDER_REFUSED);
    CHECK(error_has(("stage is " + std::to_string(none)).c_str()));
  }
  std::string error_of_other_thread = "not set";
  std::thread([&] { error_of_other_thread = ladder_last_error(); }).join();
  CHECK(error_of_other_thread == "");
  CHECK(error_has("stage is"));
}

TEST_CASE("child: C API without a device" * doctest::skip()) {
  alignas(16) static ladder::bf16 memory[3][64];
  CHECK(ladder_gemm_bf16(0, 8, 8, 8, memory[0], 8, memory[1], 8, memory[2], 8, nullptr) ==
        LADDER_NO_DEVICE);
  CHECK(error_has("the ladder needs a GPU of compute capability 9.0"));
  CHECK(ladder_gemm_bf16(0, 8, 8, 9, memory[0], 8, memory[1], 8, memory[2], 8, nullptr) ==
        LADDER_REFUSED);
  CHECK_THROWS_AS(ladder::query_device(), ladder::NoDevice);
}

TEST_CASE("C API: no device is code 3 and a sentence") {
  const Ending ending =
      gpu_test::run_child("child: C API without a device", "CUDA_VISIBLE_DEVICES=");
  CAPTURE(ending.output);
  CHECK(ending.exit_code == 0);
  CHECK(ending.output.find("gpu: 1 passed, 0 failed, 0 skipped") != std::string::npos);
}

TEST_CASE("C API: every rung is right, and the best one is stage 0") {
  NEEDS_GPU();
  Problem problem({333, 1111, 200}, Data::ints, PADDED);
  const Reference reference = ladder::reference_gpu(problem.args);
  std::vector<int> numbers = {0};
  for (const Stage& stage : ladder::stages()) numbers.push_back(stage.number);
  for (const int number : numbers) {
    CAPTURE(number);
    problem.d.poison();
    const ladder::Watchdog watchdog("the C API's stage " + std::to_string(number));
    CHECK(call(number, problem.args) == LADDER_OK);
    CHECK(std::string(ladder_last_error()) == "");
    const ladder::Verdict verdict = ladder::verify_gpu(problem.args, reference, true);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
  }
}

TEST_CASE("C API: the last error is of this thread's latest call") {
  NEEDS_GPU();
  const Problem problem({64, 64, 64}, Data::ints);
  GemmArgs wrong = problem.args;
  wrong.lda = 65;
  wrong.ldd = 60;
  CHECK(call(1, wrong) == LADDER_REFUSED);
  CHECK(error_has("lda is 65"));
  CHECK(error_has("ldd is 60"));
  std::thread([&] {
    CHECK(call(1, problem.args) == LADDER_OK);
    CHECK(std::string(ladder_last_error()) == "");
  }).join();
  CHECK(error_has("lda is 65"));
  CHECK(call(1, problem.args) == LADDER_OK);
  CHECK(std::string(ladder_last_error()) == "");
  check_cuda(cudaDeviceSynchronize(), "waiting for the kernels");
}

TEST_CASE("C API: a failing launch is code 2 and says what CUDA says") {
  NEEDS_GPU();
  const Stream stream;
  Problem problem({64, 64, 64}, Data::ints, PADDED, stream.handle);
  for (const Stage& stage : ladder::stages()) {
    CAPTURE(stage.stem);
    check_cuda(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal),
               "beginning a capture");
    CHECK(cudaStreamSynchronize(stream.handle) != cudaSuccess);  // which spoils the capture
    CHECK(call(stage.number, problem.args) == LADDER_CUDA_ERROR);
    CHECK(error_has("cudaErrorStreamCapture"));
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream.handle, &graph) != cudaSuccess);
    cudaGetLastError();
    CHECK(call(stage.number, problem.args) == LADDER_OK);
    check_cuda(cudaStreamSynchronize(stream.handle), "waiting for the kernel");
  }
}

TEST_CASE("C API: an error that someone else's call left behind is not taken for its own") {
  NEEDS_GPU();
  const Problem problem({64, 64, 64}, Data::ints);
  for (const Stage& stage : ladder::stages()) {
    CAPTURE(stage.stem);
    CHECK(cudaSetDevice(1000000) == cudaErrorInvalidDevice);
    CHECK(call(stage.number, problem.args) == LADDER_OK);
  }
  check_cuda(cudaDeviceSynchronize(), "waiting for the kernels");
}

TEST_CASE("tensor map: a refusal lists every argument") {
  NEEDS_GPU();
  const Problem problem({64, 64, 64}, Data::ints);
  CHECK_NOTHROW(ladder::tensor_map_2d(problem.args.a, 64, 60, 64, 128, 64));
  try {
    ladder::tensor_map_2d(problem.args.a, 64, 60, 72, 300, 64);
    FAIL("a box of 300 rows was accepted");
  } catch (const ladder::CudaError& error) {
    const std::string message = error.what();
    CAPTURE(message);
    for (const char* part : {"CUresult 1", "base 0x", "dims {60, 64}", "strides {144}",
                             "box {64, 300}", "element strides {1, 1}", "swizzle 128B"}) {
      CAPTURE(part);
      CHECK(message.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("threads: two threads on two streams at once, every variant exact") {
  NEEDS_GPU();
  const Stream streams[2];
  Problem problems[2] = {{{1000, 520, 700}, Data::ints, PADDED, streams[0].handle},
                         {{515, 1030, 900}, Data::ints, gpu_test::TIGHT, streams[1].handle}};
  const Reference references[2] = {ladder::reference_gpu(problems[0].args),
                                   ladder::reference_gpu(problems[1].args)};
  for (const Stream& stream : streams) {
    check_cuda(cudaStreamSynchronize(stream.handle), "waiting for the reference");
  }
  const int variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
    const std::string where = gpu_test::label(stage, variant, problems[0].args);
    CAPTURE(where);
    const ladder::Watchdog watchdog(where + ", on two streams");
    std::string errors[2];
    for (Problem& problem : problems) problem.d.poison();
    const auto work = [&](int who) {
      try {
        for (int repetition = 0; repetition < 20; ++repetition) {
          ladder::run(variant, problems[who].args);
          if (call(stage.number, problems[who].args) != LADDER_OK)
            errors[who] = ladder_last_error();
        }
        check_cuda(cudaStreamSynchronize(streams[who].handle), "waiting for a stream");
      } catch (const std::exception& error) {
        errors[who] = error.what();
      }
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    for (int who = 0; who < 2; ++who) {
      CHECK(errors[who] == "");
      const ladder::Verdict verdict = ladder::verify_gpu(problems[who].args, references[who], true);
      CHECK_MESSAGE(verdict.ok(), verdict.describe());
      CHECK(problems[who].d.damage() == 0);
    }
  });
  ladder_test::note(std::to_string(variants) + " variants");
}

// The rung whose number is in LADDER_TEST_STAGE; in a fresh process, so that each variant's first
// call ever is the captured one.
TEST_CASE("child: graph capture" * doctest::skip()) {
  const int number = std::atoi(std::getenv("LADDER_TEST_STAGE"));
  const Stream stream;
  Problem problem({333, 1111, 200}, Data::ints, PADDED, stream.handle);
  const Reference reference = ladder::reference_gpu(problem.args);
  GemmArgs no_k = problem.args;
  no_k.k = 0;
  const Reference zeros = ladder::reference_gpu(no_k);
  check_cuda(cudaStreamSynchronize(stream.handle), "waiting for the references");

  const auto check = [&](const std::string& where, const GemmArgs& args, const Reference& expected,
                         const std::function<void()>& launch) {
    CAPTURE(where);
    const ladder::Watchdog watchdog(where + ", captured");
    problem.d.poison();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check_cuda(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeGlobal),
               "beginning a capture");
    launch();
    check_cuda(cudaStreamEndCapture(stream.handle, &graph), "ending a capture");
    CHECK(ladder::verify_gpu(args, expected, true).wrong == 1LL * args.m * args.n);  // not run yet
    check_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiating a graph");
    for (int replay = 0; replay < 2; ++replay) {
      problem.d.poison();
      check_cuda(cudaGraphLaunch(executable, stream.handle), "launching a graph");
      check_cuda(cudaStreamSynchronize(stream.handle), "waiting for a graph");
      const ladder::Verdict verdict = ladder::verify_gpu(args, expected, true);
      CHECK_MESSAGE(verdict.ok(), verdict.describe());
      CHECK(problem.d.damage() == 0);
    }
    check_cuda(cudaGraphExecDestroy(executable), "destroying a graph");
    check_cuda(cudaGraphDestroy(graph), "destroying a graph");
  };

  int variants = 0;
  for (const Stage& stage : ladder::stages()) {
    if (stage.number != number) continue;
    check(stage.stem + " by the C API", problem.args, reference,
          [&] { CHECK(call(number, problem.args) == LADDER_OK); });
    for (const Variant& variant : stage.variants) {
      ++variants;
      if (variant.result) continue;
      check(gpu_test::label(stage, variant, problem.args), problem.args, reference,
            [&] { ladder::run(variant, problem.args); });
    }
    check(stage.stem + " with K = 0", no_k, zeros, [&] { ladder::run(stage.result(), no_k); });
  }
  CHECK(variants > 0);
}

TEST_CASE("graph capture: works on the first call of a process") {
  NEEDS_GPU();
  for (const Stage& stage : ladder::stages()) {
    CAPTURE(stage.stem);
    const Ending ending = gpu_test::run_child("child: graph capture",
                                              "LADDER_TEST_STAGE=" + std::to_string(stage.number));
    CAPTURE(ending.output);
    CHECK(ending.exit_code == 0);
    CHECK(ending.output.find("gpu: 1 passed, 0 failed, 0 skipped") != std::string::npos);
  }
}

TEST_CASE("child: a kernel that never ends" * doctest::skip()) {
  const ladder::Watchdog watchdog("99_spin/forever");
  gpu_test::launch_spinning_kernel();
  check_cuda(cudaDeviceSynchronize(), "waiting for ever");
}

TEST_CASE("watchdog: a kernel that never ends is exit code 4 and its name") {
  NEEDS_GPU();
  const Ending ending = gpu_test::run_child("child: a kernel that never ends", "LADDER_TIMEOUT=2");
  CAPTURE(ending.output);
  CHECK(ending.exit_code == 4);
  CHECK(ending.output.find("HANG: 99_spin/forever") != std::string::npos);
}
