// Instructions that change tensor maps: rung 16 has a variant with them, and grouped GEMMs of other
// people do.
#include <algorithm>
#include <iterator>

#include "common/machine/ops/async.h"
#include "common/machine/ops/tensor_map.h"

namespace machine {
namespace {

// What does not fit becomes the field's largest value, which breaks a rule where the map is used.
template <class T>
void fit(T& field, uint64_t value) {
  constexpr uint64_t LARGEST = (uint64_t{1} << 8 * sizeof(T)) - 1;
  field = static_cast<T>(std::min(value, LARGEST));
}

// elemtype's numbers, which are not those of cuTensorMapEncodeTiled.
constexpr TensorType TYPES[] = {
    TensorType::u8,   TensorType::u16,  TensorType::u32,     TensorType::s32,     TensorType::u64,
    TensorType::s64,  TensorType::f16,  TensorType::f32,     TensorType::f32_ftz, TensorType::f64,
    TensorType::bf16, TensorType::tf32, TensorType::tf32_ftz};
TensorType type_of(uint64_t value) {
  return value < std::size(TYPES) ? TYPES[value] : static_cast<TensorType>(UINT8_MAX);
}

// What becomes of a map by a field's value, of dimension i.
struct Field {
  const char* name;
  void (*replace)(TensorMap& map, uint32_t i, uint64_t value);
};
constexpr Field FIELDS[] = {
    {".global_address", [](auto& map, auto, auto value) { map.base = value; }},
    {".rank", [](auto& map, auto, auto value) { fit(map.rank, value + 1); }},
    {".box_dim", [](auto& map, auto i, auto value) { fit(map.box[i], value); }},
    {".global_dim", [](auto& map, auto i, auto value) { map.dims[i] = value; }},
    {".global_stride", [](auto& map, auto i, auto value) { map.strides_bytes[i] = value; }},
    {".element_stride", [](auto& map, auto i, auto value) { fit(map.element_strides[i], value); }},
    {".elemtype", [](auto& map, auto, auto value) { map.type = type_of(value); }},
    {".interleave_layout", [](auto& map, auto, auto value) { fit(map.interleave, value); }},
    {".swizzle_mode", [](auto& map, auto, auto value) { fit(map.swizzle, value); }},
    {".fill_mode", [](auto& map, auto, auto value) { fit(map.nan_fill, value); }},
};

// All of it 0: a map that a kernel makes from nothing, field by field, as Triton's do, begins so.
bool is_blank(const std::byte* bytes) {
  return std::all_of(bytes, bytes + TENSOR_MAP_BYTES,
                     [](auto byte) { return byte == std::byte{}; });
}

// The checker's part of a lane's accesses to a whole map, 16 bytes at a time. A change of a field is a
// write of all of it, which conflicts with what a read does.
constexpr uint32_t PART_BYTES = 16;

// By shared addresses, of 32 bits, or global ones.
template <class Address>
void access_map(Warp& warp, uint32_t lane, Address address, Access access) {
  for (uint32_t at = 0; at < TENSOR_MAP_BYTES; at += PART_BYTES) {
    Address addresses[LANES] = {};
    addresses[lane] = address + at;
    const auto tell = [&](auto what) {
      observer_of(warp).tell(what, warp, 1u << lane, addresses, PART_BYTES, access, Order::weak,
                             Scope::gpu, nullptr);
    };
    if constexpr (sizeof address == 4) tell(&Checker::shared_access);
    if constexpr (sizeof address == 8) tell(&Checker::global_access);
  }
}

// [map], index?, value
template <bool SHARED>
void map_replace(Warp& warp, const Inst& inst, uint32_t lane) {
  const char* const what = "tensormap.replace";
  std::byte* bytes;
  if constexpr (SHARED) {
    const uint32_t address = shared_address(warp, inst.slots[0], lane, SharedSpace::cta, what);
    check_alignment(warp, lane, address, TENSOR_MAP_BYTES, what, "address of the tensor map");
    bytes = shared_bytes(warp, 1u << lane, address, TENSOR_MAP_BYTES, what);
    access_map(warp, lane, address, Access::write);
  } else {
    const uint64_t address = global_address(warp, inst.slots[0], lane);
    bytes = map_bytes(warp, lane, address, what);
    access_map(warp, lane, address, Access::write);
  }
  const Slot* const last = inst.slots + inst.slot_count - 1;
  const uint64_t index = inst.slot_count > 2 ? value_of(warp, inst.slots[1], lane) : 0;
  if (index >= MAX_TENSOR_RANK) {
    stop(warp, 1u << lane, what, ": there is no dimension ", index, ".");
  }
  TensorMap map;
  std::memcpy(&map, bytes, sizeof map);
  if (is_blank(bytes)) {
    map.magic = TensorMap::MAGIC;
    map.rank = 1;
  }
  FIELDS[inst.mods].replace(map, static_cast<uint32_t>(index), value_of(warp, *last, lane));
  std::memcpy(bytes, &map, sizeof map);
  ++warp.cta->cluster->changes;
}

Handler pick_map_replace(Opcode& opcode) {
  for (uint32_t i = 0; i < std::size(FIELDS); ++i) {
    if (opcode.has(FIELDS[i].name)) opcode.mods = i;
  }
  return opcode.has(".global") ? each_lane<map_replace<false>> : each_lane<map_replace<true>>;
}

// [d], [a], 128: a tensor map from shared to global memory, by the whole warp. Which lane copies it
// PTX leaves open; here it is the first, and the checker's reads are by two, so that what one lane has
// written is not taken for the reader's own. The others know of the copy, and release it too.
Step map_publish(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "tensormap.cp_fenceproxy";
  const uint32_t lane = first_lane(mask);
  const uint64_t to = global_address(warp, inst.slots[0], lane);
  const uint32_t from = shared_address(warp, inst.slots[1], lane, SharedSpace::cta, what);
  check_alignment(warp, lane, from, TENSOR_MAP_BYTES, what, "address of the tensor map");
  std::byte* const target = map_bytes(warp, lane, to, what);
  const std::byte* const source = shared_bytes(warp, mask, from, TENSOR_MAP_BYTES, what);
  for (const uint32_t reader : {static_cast<uint32_t>(std::bit_width(mask)) - 1, lane}) {
    access_map(warp, reader, from, Access::read);
  }
  access_map(warp, lane, to, Access::write);
  std::memcpy(target, source, TENSOR_MAP_BYTES);
  const Observer observer = observer_of(warp);
  observer.tell(&Checker::warp_sync, warp, mask);
  observer.tell(&Checker::fence, warp, mask, Order::release, Scope::gpu);
  observer.tell(&Checker::fence_tensor_map, warp, mask, Order::release);
  ++warp.cta->cluster->changes;
  return Step::next;
}

const Row ROWS[] = {
    {"tensormap.replace.tile{.global_address,.rank,.box_dim,.global_dim,.global_stride,"
     ".element_stride,.elemtype,.interleave_layout,.swizzle_mode,.fill_mode}"
     "{.global,.shared,.shared::cta}.b1024{.b32,.b64}",
     "[map], *", pick_map_replace, "change a field of a tensor map"},
    {"tensormap.cp_fenceproxy.global{.shared,.shared::cta}.tensormap::generic.release"
     "{.cta,.cluster,.gpu,.sys}.sync.aligned",
     "[d], [a], bytes:32", together<map_publish>, "copy a tensor map, for TMA to see"},
};

}  // namespace

const Section sections::RARE_TENSOR_MAP{"Rarer: changes of tensor maps", ROWS};

}  // namespace machine
