// What mma.sync and wgmma.mma_async say of their product, read from an opcode.
#pragma once

#include "common/machine/ops/matrix.h"
#include "common/machine/ops/operands.h"

namespace machine {

inline MatrixType matrix_type(Type type) {
  if (type == Type::f16) return MatrixType::F16;
  if (type == Type::tf32) return MatrixType::TF32;
  if (type == Type::e4m3) return MatrixType::E4M3;
  if (type == Type::e5m2) return MatrixType::E5M2;
  if (type == Type::s8) return MatrixType::S8;
  return type == Type::u8 ? MatrixType::U8 : MatrixType::BF16;
}

inline AccumulatorType accumulator_type(Type type) {
  if (type == Type::f16) return AccumulatorType::F16;
  return type == Type::s32 ? AccumulatorType::S32 : AccumulatorType::F32;
}

inline uint32_t* row_of(Warp& warp, const Slot& slot) {
  return warp.row<uint32_t>(slot.row);
}

// The decimal behind `letter` in a shape such as .m64n256k16.
inline uint32_t extent(std::string_view shape, char letter) {
  uint32_t value = 0;
  for (size_t at = shape.find(letter) + 1; at < shape.size() && std::isdigit(shape[at]); ++at) {
    value = value * 10 + (shape[at] - '0');
  }
  return value;
}

// The one that an opcode names, as "m64n256k16".
inline std::string_view shape_of(const Opcode& opcode) {
  const std::string_view text = opcode.text;
  for (size_t at = text.find(".m"); at != std::string_view::npos; at = text.find(".m", at + 1)) {
    if (at + 2 < text.size() && std::isdigit(text[at + 2])) {
      return text.substr(at + 1, text.find('.', at + 1) - at - 1);
    }
  }
  return "";
}

struct ProductQualifiers {
  MatrixType a : 4, b : 4;
  AccumulatorType accumulator : 2;
  bool saturates : 1;
  bool a_in_registers : 1;  // of wgmma
  uint16_t size;            // k of mma, n of wgmma
};

inline ProductQualifiers product_qualifiers(const Opcode& opcode) {
  ProductQualifiers qualifiers{};
  qualifiers.accumulator = accumulator_type(opcode.type(0));
  qualifiers.a = matrix_type(opcode.type(1));
  qualifiers.b = matrix_type(opcode.type(2));
  qualifiers.saturates = opcode.has(".satfinite");
  return qualifiers;
}

}  // namespace machine
