// Failures of the host code travel as exceptions; the C API turns them into return codes and the
// programs into exit codes, each in one place.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace ladder {

// Refused input: what() names every violation, one a line. Exit code and C return code: 2 and 1.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A CUDA call failed. C return code: 2.
struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// No device that can run the ladder. Exit code and C return code: 3.
struct NoDevice : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws CudaError "what: name (description)" unless status is cudaSuccess.
inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw CudaError(std::string(what) + ": " + cudaGetErrorName(status) + " (" +
                  cudaGetErrorString(status) + ")");
}

}  // namespace ladder
