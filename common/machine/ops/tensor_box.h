// The box of a tensor that one TMA instruction moves: where its elements lie in global and in shared
// memory. Addresses of shared memory are shared::cluster ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/machine/ops/tensor_map.h"

namespace machine {

// Calls f(start, bytes) for each run of pieces that touch: add() them in order, then flush().
template <class F>
class Runs {
 public:
  explicit Runs(F f) : f_(std::move(f)) {}
  void add(uint64_t start, uint64_t bytes) {
    if (start != start_ + bytes_) {
      flush();
      start_ = start;
    }
    bytes_ += bytes;
  }
  void flush() {
    if (bytes_ != 0) f_(start_, bytes_);
    bytes_ = 0;
  }

 private:
  F f_;
  uint64_t start_ = 0, bytes_ = 0;
};

// One tensor copy: the part of the tensor that it names, as it lies in shared memory.
struct Box {
  TensorMap map;
  uint64_t map_address = 0;              // in global memory; 0: a parameter, which nobody writes
  int64_t at[MAX_TENSOR_RANK] = {};      // first coordinates; may be outside
  int64_t extent[MAX_TENSOR_RANK] = {};  // elements
  int64_t step[MAX_TENSOR_RANK] = {};    // of the coordinates
  uint32_t element = 0;                  // bytes
  uint32_t row_bytes = 0, rows = 1, bytes = 0;
  uint32_t pitch_bytes = 0;   // of rows in shared memory: no less than the swizzle's span
  int64_t low = 0, high = 0;  // the elements of a row that are inside

  // In shared memory; a swizzle stays in lines of 128 bytes.
  uint32_t shared_bytes() const {
    const uint32_t all = rows * pitch_bytes;
    return map.swizzle == TensorSwizzle::none ? all : (all + 127) / 128 * 128;
  }

  // Calls f(row, address of its element `low`; 0: all of it is outside) for each row.
  template <class F>
  void for_rows(F&& f) const {
    int64_t index[MAX_TENSOR_RANK] = {};
    const uint64_t start = map.base + static_cast<uint64_t>(at[0] + low) * element;
    for (uint32_t row = 0; row < rows; ++row) {
      uint64_t address = start;
      bool inside = low < high;
      for (uint32_t d = 1; d < map.rank; ++d) {
        const int64_t coordinate = at[d] + index[d] * step[d];
        inside = inside && coordinate >= 0 && coordinate < static_cast<int64_t>(map.dims[d]);
        address += static_cast<uint64_t>(coordinate) * map.strides_bytes[d - 1];
      }
      f(row, inside ? address : 0);
      for (uint32_t d = 1; d < map.rank && ++index[d] == extent[d]; ++d) index[d] = 0;
    }
  }
  uint64_t inside_bytes() const { return static_cast<uint64_t>(high - low) * element; }
  bool is_inside() const {
    bool inside = low == 0 && high == extent[0];
    for (uint32_t d = 1; d < map.rank; ++d) {
      const int64_t last = at[d] + (extent[d] - 1) * step[d];
      inside = inside && at[d] >= 0 && last < static_cast<int64_t>(map.dims[d]);
    }
    return inside;
  }
};

// The 16-byte chunks of a row in shared memory, swizzled by their absolute address.
template <class F>
void for_chunks(const Box& box, uint32_t shared, uint32_t offset, F&& f) {
  const uint32_t span = (16u << static_cast<uint32_t>(box.map.swizzle)) - 16;  // 0x10, 0x30, 0x70
  for (uint32_t at = 0; at < box.row_bytes; at += 16) {
    const uint32_t address = shared + offset + at;
    f((address ^ (address >> 3 & span)) - shared, at);
  }
}

// Calls f(address, bytes) for each run of shared memory that holds what is inside the tensor.
template <class F>
void for_shared_runs(const Box& box, uint32_t shared, F&& f) {
  if (box.is_inside()) {
    f(shared, box.shared_bytes());
    return;
  }
  const auto first = static_cast<uint32_t>(box.low) * box.element;
  const auto end = static_cast<uint32_t>(box.high) * box.element;
  Runs runs(f);
  box.for_rows([&](uint32_t row, uint64_t address) {
    if (address == 0) return;
    for_chunks(box, shared, row * box.pitch_bytes, [&](uint32_t take, uint32_t at) {
      const uint32_t from = std::max(at, first), to = std::min(at + 16, end);
      if (from < to) runs.add(shared + take + (from - at), to - from);
    });
  });
  runs.flush();
}

// Calls f(address, bytes) for each run of global memory that the box touches.
template <class F>
void for_global_runs(const Box& box, F&& f) {
  Runs runs(f);
  box.for_rows([&](uint32_t, uint64_t address) {
    if (address != 0) runs.add(address, box.inside_bytes());
  });
  runs.flush();
}

// Fills `to`, the host's bytes at `shared`, as a TMA load does.
void load_box(const Box& box, uint32_t shared, std::byte* to);
// Takes the rows from there, one after the other, not swizzled.
void gather_box(const Box& box, uint32_t shared, const std::byte* from, std::byte* to);

}  // namespace machine
