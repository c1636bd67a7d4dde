// What cp.reduce.async.bulk and red.async do to memory, one element at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/machine/ops/tensor_map.h"

namespace machine {

enum class Reduction : uint8_t { none, add, min, max, inc, dec, bit_and, bit_or, bit_xor };

// Combines one element at `to` with the one at `from`; atomic, since CTAs run on several threads.
using Reducer = void (*)(std::byte* to, const std::byte* from);

// nullptr: there is no such reduction.
Reducer reducer_of(Reduction op, TensorType type);

// Writes, or with a reducer combines, `bytes` bytes of elements of `step` bytes.
void put(std::byte* to, const std::byte* from, size_t bytes, Reducer reducer, uint32_t step);

}  // namespace machine
