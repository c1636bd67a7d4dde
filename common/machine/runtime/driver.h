// What the driver's calls share: they are thin, and forward to the runtime's.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <bit>
#include <type_traits>

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

// A driver's operand as the runtime has it: where they are of other types, of the same bits.
template <class To, class From>
To as_runtime(From operand) {
  if constexpr (std::is_convertible_v<From, To>) {
    return operand;
  } else {
    return std::bit_cast<To>(operand);
  }
}
template <class... To, class... From>
CUresult forward(cudaError_t (*call)(To...), From... operands) {
  return forward([&] { return call(as_runtime<To>(operands)...); });
}

// FORWARD3(cuX, cudaX, A, B, C): cuX is cudaX, with operands of these types.
#define FORWARD1(call, to, A) \
  CUresult call(A a) {        \
    return forward(to, a);    \
  }                           \
  static_assert(true)
#define FORWARD2(call, to, A, B) \
  CUresult call(A a, B b) {      \
    return forward(to, a, b);    \
  }                              \
  static_assert(true)
#define FORWARD3(call, to, A, B, C) \
  CUresult call(A a, B b, C c) {    \
    return forward(to, a, b, c);    \
  }                                 \
  static_assert(true)
#define FORWARD4(call, to, A, B, C, D) \
  CUresult call(A a, B b, C c, D d) {  \
    return forward(to, a, b, c, d);    \
  }                                    \
  static_assert(true)

}  // namespace machine::runtime
