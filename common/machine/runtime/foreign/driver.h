// What the driver's calls share: they are thin, and forward to the runtime's.
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

// Runs a call of the runtime, whose last error a call of the driver leaves alone.
template <class Body>
CUresult forward(Body body) {
  const cudaError_t before = exchange_last_error(cudaSuccess);
  const cudaError_t status = body();
  exchange_last_error(before);
  return to_driver(status);
}

}  // namespace machine::runtime
