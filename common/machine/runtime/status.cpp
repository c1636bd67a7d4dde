// What calls return, and how the process ends. It knows nothing of what the calls do.
#include "common/machine/runtime/status.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/machine/check/reports.h"
#include "common/machine/run/settings.h"

namespace machine::runtime {
namespace {

constexpr int EXIT_FAILED = 1, EXIT_HANG = 4;
constexpr char UNKNOWN[] = "unrecognized error code";

struct ErrorName {
  int status;
  const char* name;  // of the runtime; nullptr: the driver's alone
  const char* text;
  const char* driver_name;  // nullptr: the runtime's alone
};

const ErrorName ERRORS[] = {
#include "errors.inc"
};

const ErrorName& find_error(int status) {
  static constexpr ErrorName NONE{};
  const auto* const found =
      std::find_if(std::begin(ERRORS), std::end(ERRORS),
                   [status](const ErrorName& error) { return error.status == status; });
  return found == std::end(ERRORS) ? NONE : *found;
}

thread_local cudaError_t last_error = cudaSuccess;
std::atomic<cudaError_t> lost_status{cudaSuccess};
std::atomic<int> exit_status{0};

// A program that ignores what failed must not end as if all were well.
void end_process(int status, void*) {
  if (status != 0 || exit_status == 0) return;
  std::fflush(nullptr);
  _exit(exit_status);
}

// The first handler to be registered is the last to run.
__attribute__((constructor)) void watch_exit() {
  on_exit(end_process, nullptr);
}

// What a GPU says.
cudaError_t status_of(const Error& error) {
  if (error.rule == rule::MISALIGNED) return cudaErrorMisalignedAddress;
  if (error.rule == rule::ASSERT) return cudaErrorAssert;
  if (error.rule == rule::TRAP) return cudaErrorLaunchFailure;
  if (error.rule == rule::ILLEGAL) return cudaErrorIllegalInstruction;
  if (error.kind == Error::Kind::fault) return cudaErrorIllegalAddress;
  if (error.kind == Error::Kind::hang) return cudaErrorLaunchTimeout;
  return error.kind == Error::Kind::refused ? cudaErrorNotSupported : cudaErrorLaunchFailure;
}

}  // namespace

cudaError_t record(cudaError_t status) {
  if (status != cudaSuccess && status != cudaErrorNotReady) last_error = status;
  return status;
}

cudaError_t exchange_last_error(cudaError_t status) {
  return std::exchange(last_error, status);
}

void fail(cudaError_t status) {
  throw Failure{status};
}

void refuse(cudaError_t status, const char* format, ...) {
  char sentence[1024];
  va_list values;
  va_start(values, format);
  std::vsnprintf(sentence, sizeof sentence, format, values);
  va_end(values);
  std::fprintf(stderr, "PTX machine: %s\n", sentence);
  fail(status);
}

cudaError_t lost() {
  return lost_status;
}

cudaError_t lose(const Error& error) {
  show(error);
  exit_status = error.kind == Error::Kind::hang ? EXIT_HANG : EXIT_FAILED;
  lost_status = status_of(error);
  return lost_status;
}

void show_refusal(const Error& error) {
  show(error);
  spoil_exit();
}

void spoil_exit() {
  if (exit_status == 0) exit_status = EXIT_FAILED;
}

const char* driver_error_name(int status) {
  return find_error(status).driver_name;
}

const char* error_text(int status) {
  return find_error(status).text;
}

extern "C" {

// What the generated stubs of unsupported calls do.
int ptx_machine_refuse(const char* name) {
  static std::mutex mutex;
  static std::set<std::string> named;
  const std::lock_guard lock(mutex);
  if (named.insert(name).second) {
    const bool of_runtimes = std::string_view(name) == "cuGetExportTable";
    std::fprintf(
        stderr, "%s is not supported by the PTX machine%s.\n", name,
        of_runtimes
            ? "; a CUDA runtime that is linked statically needs it, as in cuBLAS and cuFFT, while "
              "NVRTC does without"
            : "");
  }
  return record(cudaErrorNotSupported);
}

// By this name a program knows that it runs on the machine.
extern const char ptx_machine[];
const char ptx_machine[] = "PTX machine";

// By this one it chooses the policy of its next launches, so that one process can run a kernel under
// several. Not while a kernel runs. Returns whether `name` is eager, lazy or random.
bool ptx_machine_set_policy(const char* name);
bool ptx_machine_set_policy(const char* name) {
  return machine::find_policy(name, &machine::settings().policy);
}

const char* cudaGetErrorName(cudaError_t status) {
  const char* const name = find_error(status).name;
  return name == nullptr ? UNKNOWN : name;
}

const char* cudaGetErrorString(cudaError_t status) {
  const char* const text = error_text(status);
  return text == nullptr ? UNKNOWN : text;
}

cudaError_t cudaGetLastError() {
  const cudaError_t status = lost() != cudaSuccess ? lost() : last_error;
  last_error = cudaSuccess;
  return status;
}

cudaError_t cudaPeekAtLastError() {
  return lost() != cudaSuccess ? lost() : last_error;
}

}  // extern "C"
}  // namespace machine::runtime
