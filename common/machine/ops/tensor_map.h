// The machine's own content of a CUtensorMap, and the rules for making one.
#pragma once

#include <cstdint>
#include <string>

namespace machine {

// Values as in cuda.h: CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle,
// CUtensorMapL2promotion, CUtensorMapFloatOOBfill.
enum class TensorType : uint8_t {
  u8,
  u16,
  u32,
  s32,
  u64,
  s64,
  f16,
  f32,
  f64,
  bf16,
  f32_ftz,
  tf32,
  tf32_ftz
};
enum class TensorInterleave : uint8_t { none, by_16_bytes, by_32_bytes };
enum class TensorSwizzle : uint8_t { none, span_32_bytes, span_64_bytes, span_128_bytes };

constexpr int MAX_TENSOR_RANK = 5;

struct TensorMap {
  static constexpr uint32_t MAGIC = 0x70614d54;  // a map that no call of the machine made lacks it

  uint32_t magic = 0;
  TensorType type{};
  uint8_t rank = 0;
  TensorInterleave interleave{};
  TensorSwizzle swizzle{};
  uint8_t l2_promotion = 0;
  uint8_t nan_fill = 0;                              // what lies out of bounds is NaN, not 0
  uint8_t element_strides[MAX_TENSOR_RANK] = {};     // 1..8; [0] is ignored without interleave
  uint64_t base = 0;                                 // address
  uint64_t dims[MAX_TENSOR_RANK] = {};               // elements, [0] the innermost
  uint64_t strides_bytes[MAX_TENSOR_RANK - 1] = {};  // of dimensions 1.. in global memory
  uint16_t box[MAX_TENSOR_RANK] = {};                // elements, 1..256

  bool is_valid() const { return magic == MAGIC; }
};
constexpr uint32_t TENSOR_MAP_BYTES = 128;  // of a CUtensorMap
static_assert(sizeof(TensorMap) <= TENSOR_MAP_BYTES, "it lives in a CUtensorMap");

// Of one element.
uint32_t element_bytes(TensorType type);

// The arguments of cuTensorMapEncodeTiled as they come, enumerators as numbers.
struct TensorMapArgs {
  uint32_t type = 0, rank = 0;
  uint64_t base = 0;
  const uint64_t* dims = nullptr;             // [rank]
  const uint64_t* strides_bytes = nullptr;    // [rank - 1]
  const uint32_t* box = nullptr;              // [rank]
  const uint32_t* element_strides = nullptr;  // [rank]
  uint32_t interleave = 0, swizzle = 0, l2_promotion = 0, oob_fill = 0;
};

// Fills `map` and returns "", or leaves it and says in one sentence which argument breaks which
// rule. Source: cuda.h, cuTensorMapEncodeTiled, for a device of compute capability 9.0.
std::string encode_tiled(const TensorMapArgs& args, TensorMap* map);

// "", or the rule of the same that a map breaks, as tensormap.replace may have left it.
std::string check_map(const TensorMap& map);

// The same for another address: cuTensorMapReplaceAddress.
std::string replace_address(uint64_t base, TensorMap* map);

}  // namespace machine
