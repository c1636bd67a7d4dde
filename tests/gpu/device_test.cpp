// The GPU itself, a kernel that hangs on it, and no GPU.
#include <doctest/doctest.h>

#include <cstdlib>

#include "common/host/cublas_lt.h"
#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/watchdog.h"
#include "tests/gpu/silicon.h"

using ladder::check_cuda;

namespace {

bool error_has(const char* part) {
  return std::string(ladder_last_error()).find(part) != std::string::npos;
}

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
  const ladder_test::Ending ending =
      ladder_test::run_child("child: C API without a device", "CUDA_VISIBLE_DEVICES=");
  CAPTURE(ending.output);
  CHECK(ending.passed());
}

TEST_CASE("child: a kernel that never ends" * doctest::skip()) {
  const ladder::Watchdog watchdog("99_spin/forever");
  gpu_test::launch_spinning_kernel();
  check_cuda(cudaDeviceSynchronize(), "waiting for ever");
}

TEST_CASE("watchdog: a kernel that never ends is exit code 4 and its name") {
  NEEDS_GPU();
  const ladder_test::Ending ending =
      ladder_test::run_child("child: a kernel that never ends", "LADDER_TIMEOUT=2");
  CAPTURE(ending.output);
  CHECK(ending.exit_code == 4);
  CHECK(ending.output.find("HANG: 99_spin/forever") != std::string::npos);
}
