// What atom, red, redux, cp.reduce.async.bulk and red.async make of two elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "common/machine/ops/operands.h"
#include "common/machine/ops/tensor_map.h"

namespace machine {

enum class Reduction : uint8_t { none, add, min, max, inc, dec, op_and, op_or, op_xor, exch, cas };
constexpr std::string_view REDUCTIONS[] = {".add", ".min", ".max", ".inc",  ".dec",
                                           ".and", ".or",  ".xor", ".exch", ".cas"};
// The one that the opcode names.
inline Reduction reduction_of(const Opcode& opcode) {
  return static_cast<Reduction>(which(opcode, REDUCTIONS));
}

// Of integers: what takes the place of `old`, but for cas.
template <class T>
inline T reduced(Reduction op, T old, T operand) {
  using Wrapping = std::make_unsigned_t<T>;
  const auto sum = static_cast<T>(static_cast<Wrapping>(old) + static_cast<Wrapping>(operand));
  if (op == Reduction::add) return sum;
  if (op == Reduction::min) return std::min(old, operand);
  if (op == Reduction::max) return std::max(old, operand);
  if (op == Reduction::inc) return old >= operand ? T{0} : static_cast<T>(old + 1);
  if (op == Reduction::dec) return old == 0 || old > operand ? operand : static_cast<T>(old - 1);
  if (op == Reduction::op_and) return old & operand;
  if (op == Reduction::op_or) return old | operand;
  return op == Reduction::op_xor ? old ^ operand : operand;
}

// Whether there is such a reduction by a copy.
bool has_reduction(Reduction op, TensorType type);

// Writes `bytes` bytes of elements, or with a reduction combines each with what is there; atomic,
// since CTAs run on several threads.
void put(std::byte* to, const std::byte* from, size_t bytes, Reduction op, TensorType type);

}  // namespace machine
