// What calls return, what they leave for cudaGetLastError, how a failed kernel ends the process.
#pragma once

#include <driver_types.h>

#include <new>

#include "common/machine/run/error.h"

namespace machine::runtime {

// Makes `status` the thread's last error unless it is cudaSuccess. Returns it.
cudaError_t record(cudaError_t status);

// Sets the thread's last error, returns what it was.
cudaError_t exchange_last_error(cudaError_t status);

// What a call ends with, if not with cudaSuccess: attempt() returns it.
struct Failure {
  cudaError_t status;
};
[[noreturn]] void fail(cudaError_t status);
inline void require(bool condition, cudaError_t otherwise = cudaErrorInvalidValue) {
  if (!condition) fail(otherwise);
}
// Prints "PTX machine: <sentence>" to stderr, then fails.
[[noreturn, gnu::format(printf, 2, 3)]] void refuse(cudaError_t status, const char* format, ...);

// The status of the kernel that failed, which every later call that needs the device returns, as
// on a GPU; cudaSuccess while none has.
cudaError_t lost();

// Prints a failed kernel's report, after which the process is lost and exits non-zero.
cudaError_t lose(const Error& error);

// Shows why PTX cannot be run; the process goes on, but exits non-zero.
void show_refusal(const Error& error);

// The process goes on, but exits non-zero.
void spoil_exit();

// A call of the runtime initialises the driver, and makes the device's context current in its thread. A
// call of the driver does neither: what it needs must be there (driver.h).
void initialise();
// Does the latter, but in a call of the driver. Whether the context is current then.
bool enter_context();

// Runs `body`, and records what it fails with.
template <class Body>
cudaError_t attempt(Body body) {
  enter_context();
  try {
    body();
    return cudaSuccess;
  } catch (const Failure& failure) {
    return record(failure.status);
  } catch (const Error& error) {
    return record(lose(error));
  } catch (const std::bad_alloc&) {
    return record(cudaErrorMemoryAllocation);
  }
}
// The same, unless the process is lost, or a call of the driver is without a context.
template <class Body>
cudaError_t on_device(Body body, bool needs_context = true) {
  if (lost() != cudaSuccess) return record(lost());
  if (needs_context && !enter_context()) return record(cudaErrorDeviceUninitialized);
  return attempt(body);
}

// cuGetErrorName; nullptr for what is no driver error.
const char* driver_error_name(int status);
const char* error_text(int status);

}  // namespace machine::runtime
