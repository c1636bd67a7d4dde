// The rules of cuTensorMapEncodeTiled. It knows nothing of copies.
#include "common/machine/ops/tensor_map.h"

#include <algorithm>
#include <iterator>

#include "common/machine/ops/operands.h"

namespace machine {
namespace {

constexpr uint64_t MAX_DIM = 1ull << 32;
constexpr uint64_t STRIDE_LIMIT_BYTES = 1ull << 40;
constexpr uint64_t ADDRESS_LIMIT = 1ull << 57;
// The driver takes a box of 128 KiB and refuses one of 1 MiB (tests/golden: encode/box_bytes); the
// limit here is what an mbarrier can count.
constexpr uint64_t BOX_LIMIT_BYTES = 1ull << 20;
constexpr uint32_t MAX_BOX = 256, MAX_ELEMENT_STRIDE = 8;
constexpr uint32_t TENSOR_TYPES = 13;  // those of compute capability 9.0
constexpr uint32_t INTERLEAVES = 3, SWIZZLES = 4, PROMOTIONS = 4, FILLS = 2;

std::string check_enumerators(const TensorMapArgs& args) {
  const struct {
    const char *name, *where;
    uint32_t value, count;
  } enumerators[] = {{"data type", "on compute capability 9.0 ", args.type, TENSOR_TYPES},
                     {"interleave", "", args.interleave, INTERLEAVES},
                     {"swizzle", "on compute capability 9.0 ", args.swizzle, SWIZZLES},
                     {"L2 promotion", "", args.l2_promotion, PROMOTIONS}};
  for (const auto& [name, where, value, count] : enumerators) {
    if (value < count) continue;
    return joined("the ", name, " is ", value, ": ", where, "it must be from 0 to ", count - 1,
                  ".");
  }
  if (args.oob_fill >= FILLS) {
    return joined("the out-of-bounds fill is ", args.oob_fill, ": it must be 0 or 1.");
  }
  const auto type = static_cast<TensorType>(args.type);
  if (args.oob_fill != 0 && (type <= TensorType::s64)) {
    return "the out-of-bounds fill is NaN: the data type must be a floating-point one.";
  }
  return "";
}

std::string check_base(uint64_t base, TensorInterleave interleave) {
  const uint64_t alignment = interleave == TensorInterleave::by_32_bytes ? 32 : 16;
  if (base >= ADDRESS_LIMIT) {
    return joined("the global address is ", hex(base), ": it must be below 2^57.");
  }
  if (base % alignment == 0) return "";
  return joined("the global address is ", hex(base), ": it must be a multiple of ", alignment,
                " bytes.");
}

std::string check_tensor(const TensorMapArgs& args) {
  const bool by_32 = args.interleave == static_cast<uint32_t>(TensorInterleave::by_32_bytes);
  for (uint32_t i = 0; i < args.rank; ++i) {
    if (args.dims[i] >= 1 && args.dims[i] <= MAX_DIM) continue;
    return joined("dimension ", i, " is ", args.dims[i], ": it must be from 1 to 2^32.");
  }
  for (uint32_t i = 0; i + 1 < args.rank; ++i) {
    const uint64_t multiple = by_32 ? 32 : 16;
    if (args.strides_bytes[i] % multiple == 0 && args.strides_bytes[i] < STRIDE_LIMIT_BYTES) {
      continue;
    }
    return joined("the stride of dimension ", i + 1, " is ", args.strides_bytes[i],
                  " bytes: it must be a multiple of ", multiple, " below 2^40.");
  }
  return "";
}

std::string check_box(const TensorMapArgs& args) {
  uint64_t box_bytes = element_bytes(static_cast<TensorType>(args.type));
  for (uint32_t i = 0; i < args.rank; ++i) {
    if (args.box[i] < 1 || args.box[i] > MAX_BOX) {
      return joined("side ", i, " of the box is ", args.box[i], ": it must be from 1 to ", MAX_BOX,
                    ".");
    }
    if (args.element_strides[i] < 1 || args.element_strides[i] > MAX_ELEMENT_STRIDE) {
      return joined("element stride ", i, " is ", args.element_strides[i],
                    ": it must be from 1 to ", MAX_ELEMENT_STRIDE, ".");
    }
    box_bytes *= args.box[i];
  }
  if (box_bytes >= BOX_LIMIT_BYTES) {
    return joined("the box is ", box_bytes, " bytes: it must be below 2^20.");
  }
  const uint32_t inner_bytes = args.box[0] * element_bytes(static_cast<TensorType>(args.type));
  if (inner_bytes % 16 != 0) {
    return joined("the inner side of the box is ", inner_bytes,
                  " bytes: it must be a multiple of 16.");
  }
  // With an interleave the driver takes every swizzle, though it documents the one of 32 bytes for
  // 32 bytes, and every width (tests/golden: encode/interleave).
  if (args.interleave != static_cast<uint32_t>(TensorInterleave::none)) return "";
  const auto swizzle = static_cast<TensorSwizzle>(args.swizzle);
  const uint32_t span_bytes = 16u << args.swizzle;
  if (swizzle != TensorSwizzle::none && inner_bytes > span_bytes) {
    return joined("the inner side of the box is ", inner_bytes,
                  " bytes: this swizzle allows at most ", span_bytes, ".");
  }
  return "";
}

std::string check(const TensorMapArgs& args) {
  if (args.rank < 1 || args.rank > MAX_TENSOR_RANK) {
    return joined("the rank is ", args.rank, ": it must be from 1 to ", MAX_TENSOR_RANK, ".");
  }
  if (args.dims == nullptr || args.box == nullptr || args.element_strides == nullptr ||
      (args.rank > 1 && args.strides_bytes == nullptr)) {
    return "one of the arrays of dimensions, strides, box and element strides is null.";
  }
  if (std::string wrong = check_enumerators(args); !wrong.empty()) return wrong;
  const auto interleave = static_cast<TensorInterleave>(args.interleave);
  if (interleave != TensorInterleave::none && args.rank < 3) {
    return joined("the rank is ", args.rank, ": with an interleave it must be from 3 to ",
                  MAX_TENSOR_RANK, ".");
  }
  if (std::string wrong = check_base(args.base, interleave); !wrong.empty()) return wrong;
  if (std::string wrong = check_tensor(args); !wrong.empty()) return wrong;
  return check_box(args);
}

}  // namespace

uint32_t element_bytes(TensorType type) {
  constexpr uint8_t BYTES[TENSOR_TYPES] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return BYTES[static_cast<uint32_t>(type)];
}

std::string encode_tiled(const TensorMapArgs& args, TensorMap* map) {
  if (std::string wrong = check(args); !wrong.empty()) return wrong;
  TensorMap made;
  made.magic = TensorMap::MAGIC;
  made.type = static_cast<TensorType>(args.type);
  made.rank = static_cast<uint8_t>(args.rank);
  made.interleave = static_cast<TensorInterleave>(args.interleave);
  made.swizzle = static_cast<TensorSwizzle>(args.swizzle);
  made.l2_promotion = static_cast<uint8_t>(args.l2_promotion);
  made.nan_fill = static_cast<uint8_t>(args.oob_fill);
  made.base = args.base;
  for (uint32_t i = 0; i < args.rank; ++i) {
    made.dims[i] = args.dims[i];
    made.box[i] = static_cast<uint16_t>(args.box[i]);
    made.element_strides[i] = static_cast<uint8_t>(args.element_strides[i]);
    if (i + 1 < args.rank) made.strides_bytes[i] = args.strides_bytes[i];
  }
  *map = made;
  return "";
}

std::string check_map(const TensorMap& map) {
  uint32_t box[MAX_TENSOR_RANK], element_strides[MAX_TENSOR_RANK];
  std::copy(std::begin(map.box), std::end(map.box), box);
  std::copy(std::begin(map.element_strides), std::end(map.element_strides), element_strides);
  return check({static_cast<uint32_t>(map.type), map.rank, map.base, map.dims, map.strides_bytes,
                box, element_strides, static_cast<uint32_t>(map.interleave),
                static_cast<uint32_t>(map.swizzle), map.l2_promotion, map.nan_fill});
}

std::string replace_address(uint64_t base, TensorMap* map) {
  if (!map->is_valid()) return "the tensor map was not made by cuTensorMapEncodeTiled.";
  if (std::string wrong = check_base(base, map->interleave); !wrong.empty()) return wrong;
  map->base = base;
  return "";
}

}  // namespace machine
