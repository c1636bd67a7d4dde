// What the driver's calls share: they forward to the runtime's. It knows nothing of what these do.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "common/machine/runtime/status.h"

namespace machine::runtime {

// The driver's code of a status of the runtime: the same number, where there is one.
inline CUresult to_driver(cudaError_t status) {
  if (driver_error_name(status) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return static_cast<CUresult>(status);
}

// Whether cuInit has been called, by a call of the runtime perhaps; whether a context is current in
// this thread, too.
CUresult check_initialised();
CUresult check_context();

// On this thread's stack, each of them the one that there is.
extern constinit thread_local int contexts;

// Whether this thread is in a call of the driver. Returns what was so before.
bool exchange_in_driver(bool in_driver);

// Runs a call of the runtime, whose last error a call of the driver leaves alone.
template <class Body>
CUresult forward(Body body) {
  if (const CUresult missing = check_initialised()) return missing;
  const bool was_in_driver = exchange_in_driver(true);
  const cudaError_t before = exchange_last_error(cudaSuccess);
  const cudaError_t status = body();
  exchange_last_error(before);
  exchange_in_driver(was_in_driver);
  return to_driver(status);
}

// Runs what the runtime's calls are made of.
template <class Body>
CUresult forward_work(Body body) {
  return forward([&] { return on_device(body); });
}

}  // namespace machine::runtime
