// How the ladder is called: the C API, several threads and streams, graph capture, sizes of zero,
// refusals. The same cases run on the PTX machine and on a GPU.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/tensor_map.h"
#include "common/host/watchdog.h"
#include "common/host/where.h"
#include "common/machine/ops/tensor_map.h"
#include "tests/support/problem.h"

using ladder::check_cuda;
using ladder::Data;
using ladder::GemmArgs;
using ladder::on_machine;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;
using ladder_test::call;
using ladder_test::Ending;
using ladder_test::Expected;
using ladder_test::for_each_variant;
using ladder_test::Matrix;
using ladder_test::PADDED;
using ladder_test::Problem;
using ladder_test::rungs;
using ladder_test::Stream;
using ladder_test::TIGHT;

namespace {

// Several tiles each way on a GPU, at least two on the machine.
Shape some_shape() {
  return on_machine() ? Shape{150, 300, 136} : Shape{333, 1111, 200};
}

bool error_has(const char* part) {
  return std::string(ladder_last_error()).find(part) != std::string::npos;
}

// As the runtime says it.
int clusters_of_runtime(const void* kernel, int threads, int smem_bytes, int cluster_ctas) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = cluster_ctas;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(cluster_ctas);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = smem_bytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  check_cuda(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config),
             "cudaOccupancyMaxActiveClusters");
  return clusters;
}

}  // namespace

TEST_CASE("clusters at a time: of one kernel, for each size of cluster and CTA") {
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    const ladder::Kernel& kernel = variant.kernel;
    // Those of rung 8 and behind have a size of cluster of their own.
    if (stage.number >= 8 || kernel.function == nullptr) return;
    const std::string where = stage.stem + "/" + variant.name;
    CAPTURE(where);
    for (const int cluster : {2, 1, 4, 2}) {
      for (const int threads : {kernel.threads, kernel.threads / 2}) {
        CAPTURE(cluster);
        CAPTURE(threads);
        const int found =
            ladder::max_active_clusters(kernel.function, threads, kernel.smem_bytes, cluster);
        CHECK(found == clusters_of_runtime(kernel.function, threads, kernel.smem_bytes, cluster));
      }
    }
    CHECK(ladder::max_active_clusters(kernel.function, kernel.threads, kernel.smem_bytes, 1) >
          ladder::max_active_clusters(kernel.function, kernel.threads, kernel.smem_bytes, 2));
  });
}

TEST_CASE("C API: rungs and their names") {
  CHECK(!rungs().empty());
  CHECK(ladder_stage_count() == ladder::stages().back().number);
  for (const Stage& stage : ladder::stages()) CHECK(ladder_stage_name(stage.number) == stage.stem);
  for (const int none : {0, -1, ladder_stage_count() + 1, 2147483647, -2147483647 - 1}) {
    CHECK(std::string(ladder_stage_name(none)) == "");
  }
}

TEST_CASE("C API: wrong arguments are refused") {
  CHECK(ladder_gemm_bf16(1, -1, 8, 8, nullptr, 8, nullptr, 8, nullptr, 8, nullptr) ==
        LADDER_REFUSED);
  CHECK(error_has("m is -1"));
  CHECK(error_has("a is null"));
  CHECK(error_has("d is null"));
  CHECK(ladder_gemm_bf16(5, 8, 1 << 30, 8, nullptr, 8, nullptr, 8, nullptr, 8, nullptr) ==
        LADDER_REFUSED);
  CHECK(error_has("n is 1073741824: bn256 has tiles of 256 columns"));
  CHECK(error_has("a is null"));
  for (const int none : {-1, ladder_stage_count() + 1, 2147483647}) {
    CHECK(ladder_gemm_bf16(none, 8, 8, 8, nullptr, 8, nullptr, 8, nullptr, 8, nullptr) ==
          LADDER_REFUSED);
    CHECK(error_has(("stage is " + std::to_string(none)).c_str()));
    CHECK(error_has("the nearest that works is 0.") == (none < 0));
  }
  std::string error_of_other_thread = "not set";
  std::thread([&] { error_of_other_thread = ladder_last_error(); }).join();
  CHECK(error_of_other_thread == "");
  CHECK(error_has("stage is"));
}

TEST_CASE("C API: every rung is right, and the best one is stage 0") {
  Problem problem(some_shape(), Data::ints, PADDED);
  const Expected expected(problem.args);
  std::vector<int> numbers = {0};
  for (const Stage& stage : rungs()) numbers.push_back(stage.number);
  for (const int number : numbers) {
    CAPTURE(number);
    problem.d.poison();
    const ladder::Watchdog watchdog("the C API's stage " + std::to_string(number));
    CHECK(call(number, problem.args) == LADDER_OK);
    CHECK(std::string(ladder_last_error()) == "");
    const ladder::Verdict verdict = expected.verify(problem.args, true);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
  }
}

TEST_CASE("C API: the last error is of this thread's latest call") {
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

TEST_CASE("C API: the last kernel is that of this thread's latest call") {
  Problem problem(some_shape(), Data::ints);
  CHECK(call(5, problem.args) == LADDER_OK);
  CHECK(std::string(ladder_last_kernel()) == "05_wgmma/bn256");
  std::string of_other_thread = "not set";
  std::thread([&] { of_other_thread = ladder_last_kernel(); }).join();
  CHECK(of_other_thread == "");

  CHECK(call(0, problem.args) == LADDER_OK);
  const std::string best = ladder_last_kernel();
  int named = 0;
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    if (stage.stem + "/" + variant.name != best) return;
    CHECK(static_cast<bool>(variant.predicted_us));
    ++named;
  });
  CHECK_MESSAGE(named == 1, best);
  CHECK(ladder_quantize(LADDER_S8, 1, 0, 0, nullptr, 0, nullptr, 0, nullptr, 0, nullptr) ==
        LADDER_OK);
  CHECK(ladder_last_kernel() == best);  // it multiplies nothing
  GemmArgs nothing = problem.args;
  nothing.m = 0;
  CHECK(call(5, nothing) == LADDER_OK);
  CHECK(std::string(ladder_last_kernel()) == "");
  nothing.m = -1;
  CHECK(call(5, problem.args) == LADDER_OK);
  CHECK(call(5, nothing) == LADDER_REFUSED);
  CHECK(std::string(ladder_last_kernel()) == "");
  check_cuda(cudaDeviceSynchronize(), "waiting for the kernels");
}

TEST_CASE("C API: an error that a caller left behind is none of a call's, with a kernel or none") {
  const auto leave_an_error = [] {
    void* p = nullptr;
    CHECK(cudaMalloc(&p, size_t{1} << 60) != cudaSuccess);
    CHECK(cudaPeekAtLastError() != cudaSuccess);
  };
  const auto launches = [&](const char* what, const auto& call) {
    CAPTURE(what);
    leave_an_error();
    const int code = call();
    CHECK_MESSAGE(code == LADDER_OK, std::string(ladder_last_error()));
    cudaGetLastError();
  };
  constexpr int N = 64;
  const size_t bytes = N * N * sizeof(float);
  void *a = nullptr, *b = nullptr, *d = nullptr, *more = nullptr;
  for (void** each : {&a, &b, &d, &more}) {
    check_cuda(cudaMalloc(each, bytes), "cudaMalloc");
    check_cuda(cudaMemset(*each, 0, bytes), "cudaMemset");
  }
  auto* const ints = static_cast<int*>(more);
  launches("a product", [&] { return ladder_gemm_bf16(0, N, N, N, a, N, b, N, d, N, nullptr); });
  launches("an epilogue alone", [&] {
    return ladder_gemm_fused(0, LADDER_RELU, LADDER_BF16, N, N, 0, 1, nullptr, 0, nullptr, 0, 1, a,
                             N, nullptr, d, N, nullptr);
  });
  launches("groups without K", [&] {
    return ladder_gemm_grouped(0, LADDER_BF16, 0, 2, N, N, 0, nullptr, 0, nullptr, 0, nullptr, 0,
                               nullptr, 0, d, N, ints, ints + 4, nullptr);
  });
  launches("zeros",
           [&] { return ladder_gemm_bf16(0, N, N, 0, nullptr, 0, nullptr, 0, d, N, nullptr); });
  launches("quantizing", [&] {
    return ladder_quantize(LADDER_S8, 1, N, N, a, N, b, N, static_cast<float*>(more), N, nullptr);
  });
  launches("quantizing weights",
           [&] { return ladder_quantize_weights(8, N, N, a, N, b, N, more, N, nullptr); });
  launches("packing", [&] { return ladder_pack_weights(8, N, N, b, N, more, nullptr); });
  check_cuda(cudaDeviceSynchronize(), "waiting for the kernels");
  for (void* each : {a, b, d, more}) check_cuda(cudaFree(each), "cudaFree");
}

// CTAs of the one kernel that the call launches.
unsigned ctas_of(int stage, const GemmArgs& args) {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaKernelNodeParams params{};
  size_t nodes = 1;
  check_cuda(cudaStreamBeginCapture(args.stream, cudaStreamCaptureModeThreadLocal), "a capture");
  CHECK(call(stage, args) == LADDER_OK);
  check_cuda(cudaStreamEndCapture(args.stream, &graph), "a capture");
  check_cuda(cudaGraphGetNodes(graph, &node, &nodes), "cudaGraphGetNodes");
  REQUIRE(nodes == 1);
  check_cuda(cudaGraphKernelNodeGetParams(node, &params), "cudaGraphKernelNodeGetParams");
  check_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return params.gridDim.x * params.gridDim.y * params.gridDim.z;
}

TEST_CASE("C API: a limit of SMs holds for every rung that takes one, others refuse") {
  struct Limit {
    ~Limit() { ladder_set_sm_limit(0); }
  } back_to_all;
  const Stream stream;
  Problem problem({700, 1000, 136}, Data::ints, PADDED, stream.handle);
  const Expected expected(problem.args);
  CHECK(ladder_set_sm_limit(-3) == LADDER_REFUSED);
  CHECK(error_has("sms is -3"));
  CHECK(error_has("works is 0"));
  int limited = 0, refused = 0;
  for (const int limit : {1, 2, 5}) {
    CHECK(ladder_set_sm_limit(limit) == LADDER_OK);
    std::vector<int> numbers = {0};
    for (const Stage& stage : rungs()) numbers.push_back(stage.number);
    for (const int number : numbers) {
      CAPTURE(limit);
      CAPTURE(number);
      problem.d.poison();
      const ladder::Watchdog watchdog("a limit of SMs, stage " + std::to_string(number));
      const int code = call(number, problem.args);
      const ladder::GridRules rules =
          number == 0 ? ladder::GridRules{"the best", 1, true, 1}
                      : rungs()[static_cast<size_t>(number - 1)].result().rules();
      if (!rules.persistent || rules.cluster > limit) {
        CHECK(code == LADDER_REFUSED);
        CHECK(error_has(("The limit of SMs is " + std::to_string(limit)).c_str()));
        CHECK(error_has(rules.persistent ? "the nearest that works is 2" : "stage 0 does"));
        GemmArgs wrong = problem.args;  // every violation stands in one message
        wrong.lda = 65;
        CHECK(call(number, wrong) == LADDER_REFUSED);
        CHECK(error_has("The limit of SMs is"));
        CHECK(error_has("lda is 65"));
        ++refused;
        continue;
      }
      CHECK(code == LADDER_OK);
      const ladder::Verdict verdict = expected.verify(problem.args, true);
      CHECK_MESSAGE(verdict.ok(), verdict.describe());
      if (!on_machine()) CHECK(ctas_of(number, problem.args) <= static_cast<unsigned>(limit));
      ++limited;
    }
  }
  CHECK(limited > 0);
  CHECK(refused > 0);
  CHECK(ladder_set_sm_limit(0) == LADDER_OK);
  CHECK(call(1, problem.args) == LADDER_OK);
  check_cuda(cudaStreamSynchronize(stream.handle), "waiting for the kernel");
}

TEST_CASE("C API: what needs no kernel takes no limit of SMs") {
  const Problem problem({64, 64, 64}, Data::ints);
  for (const int limit : {1, 2, 5, 100}) {
    CHECK(ladder_set_sm_limit(limit) == LADDER_OK);
    for (const Stage& stage : rungs()) {
      for (const bool no_k : {true, false}) {
        CAPTURE(limit);
        CAPTURE(stage.stem);
        CAPTURE(no_k);
        GemmArgs args = problem.args;
        (no_k ? args.k : args.m) = 0;
        CHECK(call(stage.number, args) == LADDER_OK);
      }
    }
  }
  CHECK(ladder_set_sm_limit(0) == LADDER_OK);
  check_cuda(cudaDeviceSynchronize(), "waiting for zeros");
}

TEST_CASE("C API: a failing launch is code 2 and says what CUDA says") {
  const Stream stream;
  Problem problem({64, 64, 64}, Data::ints, PADDED, stream.handle);
  for (const Stage& stage : rungs()) {
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
  const Problem problem({64, 64, 64}, Data::ints);
  for (const Stage& stage : rungs()) {
    CAPTURE(stage.stem);
    CHECK(cudaSetDevice(1000000) == cudaErrorInvalidDevice);
    CHECK(call(stage.number, problem.args) == LADDER_OK);
  }
  check_cuda(cudaDeviceSynchronize(), "waiting for the kernels");
}

TEST_CASE("C API: a thread that has lost its context gets it back") {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check_cuda(cudaGetDriverEntryPointByVersion("cuCtxSetCurrent", &function, 12000,
                                              cudaEnableDefault, &found),
             "looking up cuCtxSetCurrent");
  REQUIRE(found == cudaDriverEntryPointSuccess);
  const auto set_current = reinterpret_cast<CUresult (*)(CUcontext)>(function);
  Problem problem(some_shape(), Data::ints);
  const Expected expected(problem.args);
  for (const Stage& stage : rungs()) {
    CAPTURE(stage.stem);
    for (int again = 0; again < 2; ++again) {
      problem.d.poison();
      CHECK(set_current(nullptr) == CUDA_SUCCESS);
      CHECK(call(stage.number, problem.args) == LADDER_OK);
      CHECK(std::string(ladder_last_error()) == "");
      CHECK(expected.verify(problem.args, true).ok());
    }
  }
}

TEST_CASE("shared memory that a kernel was allowed is not taken from it") {
  const ladder::Kernel& kernel = rungs().front().result().kernel;
  const auto allowed = [&kernel] {
    cudaFuncAttributes attributes;
    check_cuda(cudaFuncGetAttributes(&attributes, kernel.function), "cudaFuncGetAttributes");
    return attributes.maxDynamicSharedSizeBytes;
  };
  for (const int bytes : {60000, 100000, 50000, 70000, 60000}) {
    ladder::allow_smem(kernel.function, bytes);
    CHECK(allowed() >= bytes);
  }
  CHECK(allowed() == 100000);
  std::thread([&] {
    ladder::allow_smem(kernel.function, 80000);
    CHECK(allowed() == 100000);
  }).join();
  CHECK_THROWS_AS(ladder::allow_smem(kernel.function, 1 << 20), ladder::CudaError);
  cudaGetLastError();
  CHECK_THROWS_AS(ladder::allow_smem(kernel.function, 1 << 20), ladder::CudaError);
  cudaGetLastError();
}

TEST_CASE("tensor map: a refusal lists every argument") {
  const Problem problem({64, 64, 64}, Data::ints);
  // Variables, which lie at a multiple of 64 bytes; GCC does not align temporaries.
  const CUtensorMap accepted = ladder::tensor_map_2d(problem.args.a, 64, 60, 64, 128, 64);
  CHECK(accepted.opaque[0] != 0);
  try {
    const CUtensorMap map = ladder::tensor_map_2d(problem.args.a, 64, 60, 72, 300, 64);
    FAIL("a box of 300 rows was accepted: " << map.opaque[0]);
  } catch (const ladder::CudaError& error) {
    const std::string message = error.what();
    CAPTURE(message);
    for (const char* part :
         {"CUresult 1", "base 0x", "dims {60, 64}", "strides {144}", "box {64, 300}",
          "element strides {1, 1}", "swizzle 128B", "L2 promotion 128B"}) {
      CAPTURE(part);
      CHECK(message.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("tensor map: it has what was chosen for L2") {
  if (!on_machine()) return;
  for (const auto& [cols, promotion] : {std::pair{4096, 3}, {64, 2}}) {  // 256 bytes, 128
    const Problem problem({64, 64, cols}, Data::ints);
    const CUtensorMap made = ladder::tensor_map_2d(problem.args.a, 64, cols, cols, 64, 64);
    machine::TensorMap map;
    std::memcpy(static_cast<void*>(&map), &made, sizeof map);
    CHECK(map.l2_promotion == promotion);
  }
}

TEST_CASE("tensor map: what L2 fetches beside a line is of the same row, and asked for next") {
  constexpr double H100 = 3.35e12, H200 = 4.9e12;  // bytes of DRAM a second
  constexpr int MANY = ladder::MANY_ROWS;
  for (const double dram : {H100, H200}) {
    CHECK(ladder::l2_promotion_bytes(8192, 128, 128, MANY, dram) == 256);
    CHECK(ladder::l2_promotion_bytes(256, 128, 128, MANY, dram) == 256);
    CHECK(ladder::l2_promotion_bytes(128, 256, 128, MANY, dram) == 128);  // one piece of memory
    CHECK(ladder::l2_promotion_bytes(128 + 64, 128, 128, MANY, dram) == 128);
    CHECK(ladder::l2_promotion_bytes(6000, 128, 128, MANY, dram) == 128);
    CHECK(ladder::l2_promotion_bytes(8192, 128, 64, MANY, dram) == 256);
    CHECK(ladder::l2_promotion_bytes(8192, 128, 32, MANY, dram) == 128);
    CHECK(ladder::l2_promotion_bytes(8192, 128, 128, 65, dram) == 256);
  }
  CHECK(ladder::l2_promotion_bytes(8192, 128, 128, 64, H200) == 128);
  CHECK(ladder::l2_promotion_bytes(8192, 256, 128, 64, H200) == 256);
  CHECK(ladder::l2_promotion_bytes(8192, 128, 128, 64, H100) == 256);
}

TEST_CASE("threads: two threads on two streams at once, every variant exact") {
  const Stream streams[2];
  const bool small = on_machine();
  const int repetitions = small ? 2 : 20;
  const Shape shapes[2] = {small ? Shape{140, 136, 72} : Shape{1000, 520, 700},
                           small ? Shape{68, 264, 136} : Shape{515, 1030, 900}};
  Problem problems[2] = {{shapes[0], Data::ints, PADDED, streams[0].handle},
                         {shapes[1], Data::ints, TIGHT, streams[1].handle}};
  const Expected expected[2] = {Expected(problems[0].args), Expected(problems[1].args)};
  const int variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
    const std::string where = ladder_test::label(stage, variant, problems[0].args);
    CAPTURE(where);
    const ladder::Watchdog watchdog(where + ", on two streams");
    std::string errors[2];
    for (Problem& problem : problems) problem.d.poison();
    const auto work = [&](int who) {
      try {
        for (int repetition = 0; repetition < repetitions; ++repetition) {
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
      const ladder::Verdict verdict = expected[who].verify(problems[who].args, true);
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
  Problem problem(some_shape(), Data::ints, PADDED, stream.handle);
  const Expected product(problem.args);
  GemmArgs no_k = problem.args;
  no_k.k = 0;
  const Expected zeros(no_k);

  const auto check = [&](const std::string& where, const GemmArgs& args, const Expected& expected,
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
    CHECK(expected.verify(args, true).wrong == 1LL * args.m * args.n);  // not run yet
    check_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiating a graph");
    for (int replay = 0; replay < 2; ++replay) {
      problem.d.poison();
      check_cuda(cudaGraphLaunch(executable, stream.handle), "launching a graph");
      check_cuda(cudaStreamSynchronize(stream.handle), "waiting for a graph");
      const ladder::Verdict verdict = expected.verify(args, true);
      CHECK_MESSAGE(verdict.ok(), verdict.describe());
      CHECK(problem.d.damage() == 0);
    }
    check_cuda(cudaGraphExecDestroy(executable), "destroying a graph");
    check_cuda(cudaGraphDestroy(graph), "destroying a graph");
  };

  int variants = 0;
  for (const Stage& stage : rungs()) {
    if (stage.number != number) continue;
    check(stage.stem + " by the C API", problem.args, product,
          [&] { CHECK(call(number, problem.args) == LADDER_OK); });
    for (const Variant& variant : stage.variants) {
      ++variants;
      if (variant.result) continue;
      check(ladder_test::label(stage, variant, problem.args), problem.args, product,
            [&] { ladder::run(variant, problem.args); });
    }
    check(stage.stem + " with K = 0", no_k, zeros, [&] { ladder::run(stage.result(), no_k); });
  }
  CHECK(variants > 0);
}

TEST_CASE("graph capture: works on the first call of a process") {
  for (const Stage& stage : rungs()) {
    CAPTURE(stage.stem);
    const Ending ending = ladder_test::run_child(
        "child: graph capture", "LADDER_TEST_STAGE=" + std::to_string(stage.number));
    CAPTURE(ending.output);
    CHECK(ending.passed());
  }
}

TEST_CASE("degenerate shapes: K = 0 writes zeros and no padding, M = 0 and N = 0 write nothing") {
  Problem problem({130, 67, 0}, Data::normal, PADDED);
  problem.args.a = nullptr;
  problem.args.b = nullptr;
  const Expected zeros(problem.args);
  const int variants = for_each_variant([&](const Stage& stage, const Variant& variant) {
    check_variant(stage, variant, problem, zeros, true);

    problem.d.poison();
    for (const Shape& shape : {Shape{0, 67, 40}, Shape{130, 0, 40}, Shape{0, 0, 0}}) {
      ladder::GemmArgs nothing;
      nothing.m = shape.m;
      nothing.n = shape.n;
      nothing.k = shape.k;
      ladder_test::run_watched(stage, variant, nothing);
      nothing.d = problem.args.d;
      nothing.ldd = problem.args.ldd;
      ladder_test::run_watched(stage, variant, nothing);
    }
    const std::string where = ladder_test::label(stage, variant, problem.args);
    CAPTURE(where);
    CHECK(problem.d.differences(Matrix(130, 67, PADDED.d)) == 0);
    CHECK(problem.d.damage() == 0);
  });
  ladder_test::note(std::to_string(variants) + " variants");
}

TEST_CASE("refusals: nothing is launched and D is untouched") {
  Problem problem({130, 67, 40}, Data::normal);
  for_each_variant([&](const Stage& stage, const Variant& variant) {
    const std::string where = ladder_test::label(stage, variant, problem.args);
    CAPTURE(where);
    ladder::GemmArgs args = problem.args;
    args.lda = 41;
    CHECK_THROWS_AS(ladder::run(variant, args), ladder::Refused);
    args = problem.args;
    args.d += 1;
    CHECK_THROWS_AS(ladder::run(variant, args), ladder::Refused);
  });
  check_cuda(cudaDeviceSynchronize(), "waiting for nothing");
  CHECK(problem.d.differences(Matrix(130, 67, TIGHT.d)) == 0);
}
