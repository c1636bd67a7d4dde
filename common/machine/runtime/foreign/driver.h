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

// A driver's operand as the runtime has it.
template <class T>
T as_runtime(T operand) {
  return operand;
}
inline void* as_runtime(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}
inline void** as_runtime(CUdeviceptr* address) {
  return reinterpret_cast<void**>(address);
}
inline cudaLibrary_t as_runtime(CUlibrary library) {
  return reinterpret_cast<cudaLibrary_t>(library);
}
inline cudaKernel_t* as_runtime(CUkernel* kernel) {
  return reinterpret_cast<cudaKernel_t*>(kernel);
}
inline cudaStreamCallback_t as_runtime(CUstreamCallback callback) {
  return reinterpret_cast<cudaStreamCallback_t>(callback);
}
inline cudaLimit as_runtime(CUlimit limit) {
  return static_cast<cudaLimit>(limit);
}
inline const void* as_runtime(CUfunction function) {
  return reinterpret_cast<const void*>(function);
}
inline cudaStreamCaptureStatus* as_runtime(CUstreamCaptureStatus* status) {
  return reinterpret_cast<cudaStreamCaptureStatus*>(status);
}
inline cudaMemPoolAttr as_runtime(CUmemPool_attribute attribute) {
  return static_cast<cudaMemPoolAttr>(attribute);
}
inline const cudaMemPoolProps* as_runtime(const CUmemPoolProps* properties) {
  return reinterpret_cast<const cudaMemPoolProps*>(properties);
}
inline const cudaMemAccessDesc* as_runtime(const CUmemAccessDesc* access) {
  return reinterpret_cast<const cudaMemAccessDesc*>(access);
}
inline cudaMemAccessFlags* as_runtime(CUmemAccess_flags* flags) {
  return reinterpret_cast<cudaMemAccessFlags*>(flags);
}
inline cudaMemLocation* as_runtime(CUmemLocation* place) {
  return reinterpret_cast<cudaMemLocation*>(place);
}

// FORWARD3(cuX, cudaX, A, B, C): cuX is cudaX, with operands of these types.
#define FORWARD1(call, to, A)                          \
  CUresult call(A a) {                                 \
    return forward([&] { return to(as_runtime(a)); }); \
  }                                                    \
  static_assert(true)
#define FORWARD2(call, to, A, B)                                      \
  CUresult call(A a, B b) {                                           \
    return forward([&] { return to(as_runtime(a), as_runtime(b)); }); \
  }                                                                   \
  static_assert(true)
#define FORWARD3(call, to, A, B, C)                                                  \
  CUresult call(A a, B b, C c) {                                                     \
    return forward([&] { return to(as_runtime(a), as_runtime(b), as_runtime(c)); }); \
  }                                                                                  \
  static_assert(true)
#define FORWARD4(call, to, A, B, C, D)                                                   \
  CUresult call(A a, B b, C c, D d) {                                                    \
    return forward(                                                                      \
        [&] { return to(as_runtime(a), as_runtime(b), as_runtime(c), as_runtime(d)); }); \
  }                                                                                      \
  static_assert(true)

}  // namespace machine::runtime
