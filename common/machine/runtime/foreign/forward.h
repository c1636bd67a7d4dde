// Calls of the driver that are calls of the runtime by another name.
#pragma once

#include <bit>
#include <type_traits>

#include "common/machine/runtime/driver.h"

namespace machine::runtime {

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
