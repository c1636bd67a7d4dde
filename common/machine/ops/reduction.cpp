// Reductions of single elements in memory, by bulk and tensor copies and red.async. It knows
// nothing of who asks for them.
#include "common/machine/ops/reduction.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>

#include "common/machine/ops/number.h"

namespace machine {
namespace {

// Combines the element at `to` with the one at `from`.
using Reducer = void (*)(std::byte* to, const std::byte* from);

template <class T, class F>
void combine(std::byte* to, const std::byte* from, F&& f) {
  T operand;
  std::memcpy(&operand, from, sizeof operand);
  std::atomic_ref<T> target(*reinterpret_cast<T*>(to));
  T old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, f(old, operand), std::memory_order_relaxed)) {
  }
}

template <class T, Reduction OP>
void reduce(std::byte* to, const std::byte* from) {
  combine<T>(to, from, [](T old, T operand) -> T {
    if constexpr (std::is_floating_point_v<T>) {  // as tests/golden: bulk/reduce.add
      const T sum = old + operand;
      if (sum == sum) return sum;
      if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(F32_NAN);
      return old != old ? old : operand;
    } else {
      return reduced(OP, old, operand);
    }
  });
}

// Of two numbers; one that is NaN loses, and -0 is below 0.
float smaller(float a, float b) {
  if (a != a || b != b) return a != a ? b : a;
  if (a == b) return std::bit_cast<uint32_t>(a) >> 31 ? a : b;
  return a < b ? a : b;
}

template <Format F, Reduction OP>
void reduce_half(std::byte* to, const std::byte* from) {
  combine<uint16_t>(to, from, [](uint16_t old, uint16_t operand) -> uint16_t {
    const float a = decode<F>(old), b = decode<F>(operand);
    float result = a + b;
    if constexpr (OP == Reduction::min) result = smaller(a, b);
    if constexpr (OP == Reduction::max) result = -smaller(-a, -b);
    return static_cast<uint16_t>(encode<F>(result));
  });
}

template <Format F>
Reducer half_reducer(Reduction op) {
  if (op == Reduction::add) return reduce_half<F, Reduction::add>;
  if (op == Reduction::min) return reduce_half<F, Reduction::min>;
  return op == Reduction::max ? reduce_half<F, Reduction::max> : nullptr;
}

// Denormal numbers count as 0, with their sign.
void add_ftz(std::byte* to, const std::byte* from) {
  const auto flush = [](uint32_t x) { return x & 0x7f800000 ? x : x & 0x80000000; };
  combine<uint32_t>(to, from, [flush](uint32_t old, uint32_t operand) {
    const float a = std::bit_cast<float>(flush(old)), b = std::bit_cast<float>(flush(operand));
    return a + b == a + b ? flush(std::bit_cast<uint32_t>(a + b)) : F32_NAN;
  });
}

template <class T>
Reducer integer_reducer(Reduction op) {
  using enum Reduction;
  constexpr Reducer REDUCERS[] = {
      nullptr,        reduce<T, add>,     reduce<T, min>,    reduce<T, max>,    reduce<T, inc>,
      reduce<T, dec>, reduce<T, bit_and>, reduce<T, bit_or>, reduce<T, bit_xor>};
  const bool wraps = op == inc || op == dec;
  return wraps && !std::is_same_v<T, uint32_t> ? nullptr : REDUCERS[static_cast<size_t>(op)];
}

// nullptr: there is none.
Reducer reducer_of(Reduction op, TensorType type) {
  switch (type) {
    case TensorType::u32:
      return integer_reducer<uint32_t>(op);
    case TensorType::s32:
      return integer_reducer<int32_t>(op);
    case TensorType::u64:
      return integer_reducer<uint64_t>(op);
    case TensorType::s64:
      return integer_reducer<int64_t>(op);
    case TensorType::f16:
      return half_reducer<F16>(op);
    case TensorType::bf16:
      return half_reducer<BF16>(op);
    case TensorType::f32:
      return op == Reduction::add ? reduce<float, Reduction::add> : nullptr;
    case TensorType::f32_ftz:
      return op == Reduction::add ? add_ftz : nullptr;
    case TensorType::f64:
      return op == Reduction::add ? reduce<double, Reduction::add> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

bool has_reduction(Reduction op, TensorType type) {
  return reducer_of(op, type) != nullptr;
}

void put(std::byte* to, const std::byte* from, size_t bytes, Reduction op, TensorType type) {
  if (op == Reduction::none) return void(std::memcpy(to, from, bytes));
  const Reducer reducer = reducer_of(op, type);
  const uint32_t step = element_bytes(type);
  for (size_t at = 0; at < bytes; at += step) reducer(to + at, from + at);
}

}  // namespace machine
