// Moves a box between a tensor and shared memory. It knows nothing of who checks it or waits for it.
#include "common/machine/ops/tensor_box.h"

#include <cstring>
#include <vector>

#include "common/machine/ops/number.h"

namespace machine {
namespace {

// What a NaN fill writes for elements outside of the tensor, of any type (tests/golden: nan_fill).
constexpr auto NAN_FILL = std::byte{0x7f}, NAN_FILL_LOW = std::byte{0xf7};

// tf32 tensors are rounded on their way (tests/golden: tma/load.2d.tf32.values).
void round_to_tf32(const std::byte* from, std::byte* to, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += 4) {
    float value = 0;
    std::memcpy(&value, from + at, 4);
    const uint32_t rounded = encode<TF32>(value) << 13;
    std::memcpy(to + at, &rounded, 4);
  }
}

}  // namespace

void load_box(const Box& box, uint32_t shared, std::byte* to) {
  std::vector<std::byte> outside(box.row_bytes);
  for (uint32_t at = 0; box.map.nan_fill && at < box.row_bytes; ++at) {
    outside[at] = at % 2 == 0 ? NAN_FILL_LOW : NAN_FILL;
  }
  std::vector<std::byte> mixed = outside;
  const size_t start = static_cast<size_t>(box.low) * box.element;
  const bool rounds = box.map.type == TensorType::tf32 || box.map.type == TensorType::tf32_ftz;
  box.for_rows([&](uint32_t index, uint64_t address) {
    const uint32_t offset = index * box.pitch_bytes;
    const std::byte* row = outside.data();
    if (address != 0) {
      row = reinterpret_cast<const std::byte*>(address);
      const auto bytes = static_cast<uint32_t>(box.inside_bytes());
      if (rounds) {
        round_to_tf32(row, &mixed[start], bytes);
      } else if (bytes != box.row_bytes) {
        std::memcpy(&mixed[start], row, bytes);
      }
      if (rounds || bytes != box.row_bytes) row = mixed.data();
    }
    if (box.map.swizzle == TensorSwizzle::none) {
      std::memcpy(to + offset, row, box.row_bytes);
    } else {
      for_chunks(box, shared, offset,
                 [&](uint32_t put, uint32_t at) { std::memcpy(to + put, row + at, 16); });
    }
  });
}

void gather_box(const Box& box, uint32_t shared, const std::byte* from, std::byte* to) {
  for (uint32_t row = 0; row < box.rows; ++row) {
    for_chunks(box, shared, row * box.pitch_bytes, [&](uint32_t take, uint32_t at) {
      std::memcpy(to + row * box.row_bytes + at, from + take, 16);
    });
  }
}

}  // namespace machine
