// What setp and set share: relations, and comparing two rows.
#pragma once

#include "common/machine/ops/elementwise.h"

namespace machine::elementwise {

// A relation is a set of these.
constexpr uint32_t LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8;

enum class Combine : uint8_t { none, with_and, with_or, with_xor };
struct Comparison {
  uint8_t relation : 4;
  Combine combine : 2;  // with c
  bool has_q : 1, ftz : 1;
  uint8_t one;  // of set: index into ONES
};

Comparison comparison_of(const Opcode& opcode);

// `shift`: 16 for the upper half of a packed type.
template <Type T, uint32_t FLAGS>
uint32_t compare(const Bits<T>* a, const Bits<T>* b, uint32_t relation, uint32_t shift) {
  uint32_t result = 0;
  for (uint32_t lane = 0; lane < LANES; ++lane) {
    const auto x = get<T, FLAGS>(a[lane] >> shift), y = get<T, FLAGS>(b[lane] >> shift);
    const uint32_t found = (x < y ? LESS : 0u) | (x == y ? EQUAL : 0u) | (x > y ? GREATER : 0u);
    result |= uint32_t{((found == 0 ? UNORDERED : found) & relation) != 0} << lane;
  }
  return result;
}

template <Type T>
uint32_t compare(Warp& warp, const Inst& inst, size_t first, uint32_t shift = 0) {
  const auto* const a = warp.row<const Bits<T>>(row_of(inst, first));
  const auto* const b = warp.row<const Bits<T>>(row_of(inst, first + 1));
  const auto how = inst.as<Comparison>();
  return how.ftz ? compare<T, FTZ>(a, b, how.relation, shift)
                 : compare<T, 0>(a, b, how.relation, shift);
}

inline uint32_t combine(Warp& warp, const Inst& inst, size_t operand, uint32_t result) {
  const Combine how = inst.as<Comparison>().combine;
  if (how == Combine::none) return result;
  const uint32_t c = get_pred(warp, inst.slots[operand]);
  if (how == Combine::with_and) return result & c;
  return how == Combine::with_or ? result | c : result ^ c;
}

inline Handler pick_comparison(Type type, auto make) {
  return for_type<s16, u16, s32, u32, s64, u64, f16, bf16, f16x2, bf16x2, f32, f64>(
      is_float(type) || is_signed(type) ? type : unsigned_of(type), make);
}

}  // namespace machine::elementwise
