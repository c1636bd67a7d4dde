// ladder_gemm_mixed and what prepares weights for it: bit for bit what the CPU does, errors, sizes
// of zero, graphs, limits.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/watchdog.h"
#include "common/host/weights.h"
#include "tests/support/mixed_problem.h"

using ladder::bf16;
using ladder::check_cuda;
using ladder::Data;
using ladder::MixedArgs;
using ladder::Stage;
using ladder_test::mixed_rungs;
using ladder_test::MixedProblem;
using ladder_test::Padding;
using ladder_test::Stream;

namespace {

constexpr Padding PADDED{8, 24, 16};

int call(int stage, const MixedArgs& g) {
  return ladder_gemm_mixed(stage, g.bits, g.m, g.n, g.k, g.a, g.lda, g.packed, g.scale, g.ld_scale,
                           g.d, g.ldd, g.stream);
}

bool error_has(const std::string& part) {
  return std::string(ladder_last_error()).find(part) != std::string::npos;
}

std::vector<int> numbers() {
  std::vector<int> all = {0};
  for (const Stage* stage : mixed_rungs()) all.push_back(stage->number);
  return all;
}

// Device memory that begins with what a vector has.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& from)
      : count_(from.size()), buffer_(from.size() * sizeof(T)) {
    check_cuda(cudaMemcpy(data(), from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
               "upload");
  }
  T* data() const { return buffer_.template as<T>(); }
  std::vector<T> download() const {
    std::vector<T> to(count_);
    check_cuda(cudaMemcpy(to.data(), data(), count_ * sizeof(T), cudaMemcpyDeviceToHost),
               "download");
    return to;
  }

 private:
  size_t count_;
  ladder::DeviceBuffer buffer_;
};

// Weights of all sizes, some of them 0, and of a group all 0, tiny, infinite or NaN.
std::vector<bf16> some_weights(int n, int k) {
  std::vector<bf16> w;
  for (long long i = 0; i < 1LL * n * k; ++i) {
    const long long row = i / k, col = i % k;
    float value = ladder::data_value(Data::normal, 3, i);
    if (row % 7 == 1) value = 0;
    if (row % 7 == 2) value *= 0x1p-130f;
    if (row % 7 == 3) value *= 0x1p+120f;
    if (row % 7 == 4 && col % 50 == 3) value = INFINITY;
    if (row % 7 == 5 && col % 50 == 3) value = NAN;
    if (row % 7 == 6) value = static_cast<float>(col % 16 - 8) / 2;  // halves: ties
    w.push_back(__float2bfloat16_rn(value));
  }
  return w;
}

}  // namespace

TEST_CASE("weights C API: quantised and packed bit for bit as the CPU does it, at odd sizes") {
  for (const int bits : {8, 4}) {
    for (const auto& [n, k] : {std::pair{5, 300}, {64, 128}, {65, 129}, {130, 1}, {7, 517}}) {
      CAPTURE(bits);
      CAPTURE(n);
      CAPTURE(k);
      const long long ldq = (k + 31) / 32 * 32 + 32, ld_scale = (n + 7) / 8 * 8 + 8;
      const int blocks = tile::ceil_div(k, 128);
      const std::vector<bf16> dense = some_weights(n, k);
      const long long ldw = (k + 7) / 8 * 8 + 8;
      std::vector<bf16> padded(static_cast<size_t>(n) * ldw, __float2bfloat16_rn(NAN));
      for (long long i = 0; i < 1LL * n * k; ++i) padded[i / k * ldw + i % k] = dense[i];
      std::vector<uint8_t> q(ladder::weights_bytes(bits, n, k, ldq), 0xa5);
      std::vector<bf16> scale((blocks - 1) * ld_scale + n, __float2bfloat16_rn(-3.0f));
      const OnDevice<bf16> on_w(padded), on_scale(scale);
      const OnDevice<uint8_t> on_q(q);
      ladder::quantize_weights_cpu(bits, n, k, padded.data(), ldw, q.data(), ldq, scale.data(),
                                   ld_scale);
      REQUIRE(ladder_quantize_weights(bits, n, k, on_w.data(), ldw, on_q.data(), ldq,
                                      on_scale.data(), ld_scale, nullptr) == LADDER_OK);
      CHECK(on_q.download() == q);  // its padding too
      const std::vector<bf16> got = on_scale.download();
      CHECK(std::memcmp(got.data(), scale.data(), scale.size() * sizeof(bf16)) == 0);

      const std::vector<uint32_t> packed = ladder::pack_weights_cpu(bits, n, k, q.data(), ldq);
      CHECK(packed.size() * 4 == ladder_packed_bytes(bits, n, k));
      const OnDevice<uint32_t> on_packed(std::vector<uint32_t>(packed.size(), 0xa5a5a5a5));
      REQUIRE(ladder_pack_weights(bits, n, k, on_q.data(), ldq, on_packed.data(), nullptr) ==
              LADDER_OK);
      CHECK(on_packed.download() == packed);
    }
  }
}

TEST_CASE("weights C API: from bf16 weights to a product") {
  for (const int bits : {8, 4}) {
    MixedProblem problem(bits, {9, 130, 260}, Data::normal, PADDED);
    std::vector<bf16> w;
    for (int i = 0; i < 130 * 260; ++i) {
      w.push_back(__float2bfloat16_rn(ladder::data_value(Data::normal, 2, i)));
    }
    std::vector<bf16> padded(130 * 264);
    for (int i = 0; i < 130 * 260; ++i) padded[i / 260 * 264 + i % 260] = w[i];
    const OnDevice<bf16> on_w(padded);
    const ladder::DeviceBuffer q(ladder::weights_bytes(bits, 130, 260, 288));
    const OnDevice<bf16> scale(std::vector<bf16>(3 * 136));
    const ladder::DeviceBuffer packed(ladder_packed_bytes(bits, 130, 260));
    REQUIRE(ladder_quantize_weights(bits, 130, 260, on_w.data(), 264, q.data(), 288, scale.data(),
                                    136, nullptr) == LADDER_OK);
    REQUIRE(ladder_pack_weights(bits, 130, 260, q.data(), 288, packed.data(), nullptr) ==
            LADDER_OK);
    MixedArgs args = problem.args;
    args.packed = packed.data();
    args.scale = scale.data();
    args.ld_scale = 136;
    CHECK(call(0, args) == LADDER_OK);
    const ladder::Verdict verdict = problem.verify(false);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
  }
}

TEST_CASE("mixed C API: right by the rung's number and by 0, and the last kernel's name says it") {
  for (const int bits : {8, 4}) {
    for (const int m : {1, 16, 33, 64, 100, 200}) {
      MixedProblem problem(bits, {m, 200, 136}, Data::ints, PADDED);
      for (const int number : numbers()) {
        CAPTURE(m);
        CAPTURE(number);
        problem.d.poison();
        const ladder::Watchdog watchdog("ladder_gemm_mixed");
        CHECK(call(number, problem.args) == LADDER_OK);
        CHECK(std::string(ladder_last_error()) == "");
        const ladder::Verdict verdict = problem.verify(true);
        CHECK_MESSAGE(verdict.ok(), verdict.describe());
        CHECK(problem.damage() == 0);
        const std::string kernel = ladder_last_kernel();
        CHECK(kernel.find("/w" + std::to_string(bits) + "_") != std::string::npos);
      }
    }
  }
}

TEST_CASE("mixed C API: wrong arguments are refused, all of them in one message") {
  for (const int number : numbers()) {
    CHECK(ladder_gemm_mixed(number, 5, -1, 8, 8, nullptr, 8, nullptr, nullptr, 7, nullptr, 8,
                            nullptr) == LADDER_REFUSED);
    for (const char* part :
         {"bits is 5: it must be 8 or 4; the nearest that works is 4", "m is -1", "a is null",
          "packed is null", "scale is null", "ld_scale is 7", "d is null"}) {
      CAPTURE(part);
      CHECK(error_has(part));
    }
    CHECK(std::string(ladder_last_kernel()) == "");
  }
  CHECK(ladder_packed_bytes(3, 8, 8) == 0);
  CHECK(error_has("bits is 3"));
  CHECK(ladder_quantize_weights(4, 8, 100, nullptr, 99, nullptr, 112, nullptr, 8, nullptr) ==
        LADDER_REFUSED);
  CHECK(
      error_has("ldw is 99: it must be at least k = 100 and a multiple of 8 elements; the nearest "
                "that works is 104."));
  CHECK(error_has(
      "ldq is 112: it must be a multiple of 32 elements; the nearest larger that works is "
      "128."));
  CHECK(ladder_pack_weights(8, -2, 100, nullptr, 112, nullptr, nullptr) == LADDER_REFUSED);
  CHECK(error_has("n is -2"));
}

TEST_CASE("mixed C API: a rung of another problem is refused, with the function that calls it") {
  MixedProblem problem(8, {64, 64, 64}, Data::ints);
  CHECK(call(9, problem.args) == LADDER_REFUSED);
  CHECK(error_has("ladder_gemm_bf16()"));
  for (const Stage* stage : mixed_rungs()) {
    CHECK(ladder_gemm_bf16(stage->number, 64, 64, 64, problem.args.a, 64, problem.args.a, 64,
                           problem.args.d, 64, nullptr) == LADDER_REFUSED);
    CHECK(error_has("ladder_gemm_mixed()"));
  }
}

TEST_CASE("mixed C API: K = 0 writes zeros and no padding, M = 0 and N = 0 write nothing") {
  for (const int bits : {8, 4}) {
    MixedProblem problem(bits, {130, 67, 0}, Data::normal, PADDED);
    MixedArgs args = problem.args;
    args.a = args.scale = nullptr;
    args.packed = nullptr;
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
    CHECK(ladder_packed_bytes(bits, 0, 40) == 0);
    CHECK(ladder_quantize_weights(bits, 0, 40, nullptr, 40, nullptr, 40, nullptr, 0, nullptr) ==
          LADDER_OK);
    CHECK(ladder_pack_weights(bits, 40, 0, nullptr, 0, nullptr, nullptr) == LADDER_OK);
  }
}

TEST_CASE("mixed C API: in a graph, and under a limit of SMs") {
  struct Limit {
    ~Limit() { ladder_set_sm_limit(0); }
  } back_to_all;
  const Stream stream;
  for (const int bits : {8, 4}) {
    for (const int limit : {0, 1, 5}) {
      CAPTURE(bits);
      CAPTURE(limit);
      MixedProblem problem(bits, {33, 600, 300}, Data::ints, PADDED, stream.handle);
      const ladder::Watchdog watchdog("ladder_gemm_mixed, captured");
      CHECK(ladder_set_sm_limit(limit) == LADDER_OK);
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t executable = nullptr;
      check_cuda(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeGlobal), "a capture");
      CHECK(call(0, problem.args) == LADDER_OK);
      check_cuda(cudaStreamEndCapture(stream.handle, &graph), "a capture");
      CHECK(problem.verify(true).wrong == 33 * 600);  // not run yet
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
