// Tensor copies (TMA): the box that an instruction names, where its elements lie in global and in
// shared memory, checked, and moved in either direction. It knows nothing of who waits for it.
#include <algorithm>

#include "common/machine/ops/async.h"
#include "common/machine/ops/number.h"
#include "common/machine/ops/tensor_map.h"

namespace machine {

std::byte* map_bytes(Warp& warp, uint32_t lane, uint64_t address, const char* what) {
  Grid& grid = *warp.cta->cluster->grid;
  check_alignment(warp, lane, address, 64, what, "address of the tensor map");
  if ((address & WINDOW_MASK) == PARAM_WINDOW) {
    const uint64_t offset = address & ~WINDOW_MASK;
    if (offset + sizeof(TensorMap) <= grid.params.size()) {
      return reinterpret_cast<std::byte*>(grid.params.data() + offset);
    }
  } else if ((address & WINDOW_MASK) == 0) {
    check_global(warp, lane, address, 128, what);
    return reinterpret_cast<std::byte*>(address);
  }
  stop(warp, 1u << lane, what, ": the tensor map at ", hex(address),
       " is not in global, constant or parameter memory.",
       (address & WINDOW_MASK) == LOCAL_WINDOW
           ? " It is in local memory, as a copy of a parameter that is not __grid_constant__ is."
           : "");
}

namespace {

// ---- Boxes --------------------------------------------------------------------------------------

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

// The runs of global memory that the box touches.
std::vector<Run> global_runs(const Box& box) {
  std::vector<Run> touched;
  touched.reserve(box.rows);
  Runs runs([&](uint64_t address, uint64_t bytes) { touched.push_back({address, bytes}); });
  box.for_rows([&](uint32_t, uint64_t address) {
    if (address != 0) runs.add(address, box.inside_bytes());
  });
  runs.flush();
  return touched;
}

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

// Fills `to`, the host's bytes at `shared`, as a TMA load does.
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

// Takes the rows from there, one after the other, not swizzled.
void gather_box(const Box& box, uint32_t shared, const std::byte* from, std::byte* to) {
  for (uint32_t row = 0; row < box.rows; ++row) {
    for_chunks(box, shared, row * box.pitch_bytes, [&](uint32_t take, uint32_t at) {
      std::memcpy(to + row * box.row_bytes + at, from + take, 16);
    });
  }
}

// ---- Instructions -------------------------------------------------------------------------------

// `map_slot`: of the map; behind it are as many coordinates as the opcode's rank.
Box box_of(Warp& warp, const Inst& inst, uint32_t lane, const Slot* map_slot, const char* what) {
  Box box;
  const uint64_t address = global_address(warp, *map_slot, lane);
  std::memcpy(&box.map, map_bytes(warp, lane, address, what), sizeof box.map);
  if ((address & WINDOW_MASK) == 0) box.map_address = address;
  const TensorMap& map = box.map;
  const uint32_t rank = inst.as<CopyQualifiers>().rank;
  if (!map.is_valid()) {
    stop(warp, 1u << lane, what, ": what lies at ", hex(address),
         " is no tensor map that cuTensorMapEncodeTiled made.");
  }
  if (map.rank != rank) {
    stop(warp, 1u << lane, what, ".", rank, "d: the tensor map's rank is ", map.rank, ".");
  }
  if (const std::string wrong = check_map(map); !wrong.empty()) {
    stop(warp, 1u << lane, what, ": of the tensor map at ", hex(address),
         ", as tensormap.replace left it, ", wrong);
  }
  if (map.interleave != TensorInterleave::none) {
    refuse(warp, "Tensor maps with an interleave are not supported.");
  }
  for (uint32_t d = 0; d < rank; ++d) {
    box.at[d] = static_cast<int32_t>(value_of(warp, map_slot[1 + d], lane));
    box.step[d] = d == 0 ? 1 : map.element_strides[d];
    box.extent[d] = (map.box[d] + box.step[d] - 1) / box.step[d];
    if (d > 0) box.rows *= static_cast<uint32_t>(box.extent[d]);
  }
  box.element = element_bytes(map.type);
  if (box.at[0] * box.element % 16 != 0) {  // tests/golden: an illegal instruction
    stop(warp, 1u << lane, what, ": the box begins at element ", box.at[0],
         " of its rows, which is not a multiple of 16 bytes from their start.");
  }
  box.row_bytes = static_cast<uint32_t>(box.extent[0]) * box.element;
  box.bytes = box.rows * box.row_bytes;
  box.pitch_bytes = box.row_bytes;
  if (map.swizzle != TensorSwizzle::none) {
    box.pitch_bytes = std::max(box.row_bytes, 16u << static_cast<uint32_t>(map.swizzle));
  }
  const int64_t behind = static_cast<int64_t>(map.dims[0]) - box.at[0];
  box.low = std::clamp<int64_t>(-box.at[0], 0, box.extent[0]);
  box.high = std::clamp<int64_t>(behind, 0, box.extent[0]);
  return box;
}

// Between the first byte and the last one that are inside the tensor lies one allocation.
void check_box(Warp& warp, uint32_t lane, const Box& box, const char* what) {
  if (box.low >= box.high) return;
  uint64_t first = box.map.base + static_cast<uint64_t>(box.at[0] + box.low) * box.element;
  uint64_t last = first + box.inside_bytes();
  for (uint32_t d = 1; d < box.map.rank; ++d) {
    const int64_t step = box.step[d], dim = static_cast<int64_t>(box.map.dims[d]);
    const int64_t low = box.at[d] >= 0 ? 0 : (-box.at[d] + step - 1) / step;
    const int64_t high =
        box.at[d] >= dim ? -1 : std::min(box.extent[d] - 1, (dim - 1 - box.at[d]) / step);
    if (low > high) return;
    first += static_cast<uint64_t>(box.at[d] + low * step) * box.map.strides_bytes[d - 1];
    last += static_cast<uint64_t>(box.at[d] + high * step) * box.map.strides_bytes[d - 1];
  }
  check_global(warp, lane, first, last - first, what);
}

// The box that a store or a reduction writes. As observed on an H200 (tests/golden: tma/store and
// tma/add), a negative coordinate, which a load takes for outside, is an illegal instruction, and
// rows end in whole 16 bytes: what the last of them hold beyond the tensor's end is written too,
// into the padding of the row, or past the end of the allocation, which is a fault here. The H200
// was only asked with a negative inner coordinate; that the others must not be negative either is in
// the CUDA C++ Programming Guide.
Box stored_box(Warp& warp, const Inst& inst, uint32_t lane, const char* what) {
  Box box = box_of(warp, inst, lane, inst.slots, what);
  for (uint32_t d = 0; d < box.map.rank; ++d) {
    if (box.at[d] >= 0) continue;
    stop(warp, 1u << lane, what, ": coordinate ", d, " is ", box.at[d],
         ": a store's box may leave the tensor at its end, but not begin before it.");
  }
  check_box(warp, lane, box, what);
  const int64_t chunk = 16 / box.element;
  box.high = (box.high + chunk - 1) / chunk * chunk;
  check_box(warp, lane, box, "cp.async.bulk.tensor, which writes whole 16 bytes");
  return box;
}

// The checker's part of TMA's read of the tensor map, which may happen up to the copy's completion on
// its mbarrier or in its group.
void read_map(Flight flight, const Box& box, uint32_t mbarrier, uint64_t group) {
  if (box.map_address == 0 || flight.checker() == nullptr) return;
  flight.check.mbarrier = mbarrier;
  flight.check.group = group;
  if (mbarrier != 0) flight.check.phase = flight.checker()->phase_of(mbarrier);
  flight.tell(&Checker::copy_reads_map, box.map_address);
}

constexpr uint32_t TENSOR_ALIGNMENT = 128;  // of its place in shared memory

// [d], [map, {coordinates}], [mbarrier], multicast?
void tensor_load(Warp& warp, const Inst& inst, uint32_t lane) {
  const char* const what = "cp.async.bulk.tensor";
  warp.loads_bulk = true;
  const Slot* const mbarrier = inst.slots + 2 + (inst.as<CopyQualifiers>().rank);
  const Slot* const multicast = inst.as<CopyQualifiers>().multicast ? mbarrier + 1 : nullptr;
  const auto box = std::make_shared<const Box>(box_of(warp, inst, lane, inst.slots + 1, what));
  check_box(warp, lane, *box, what);
  const Flight flight(warp, 1u << lane, true);
  for (const Target& target :
       targets_of(warp, inst, lane, inst.slots[0], *mbarrier, multicast, what)) {
    read_map(flight, *box, target.mbarrier, 0);
    check_alignment(warp, lane, target.address, TENSOR_ALIGNMENT, what, "shared address");
    std::byte* const to = shared_bytes(warp, 1u << lane, target.address, box->shared_bytes(), what);
    start(flight, target, box->bytes, [=](const Flight& at_issue) {
      if (at_issue.checker()) {
        at_issue.reads_global(global_runs(*box));
        at_issue.writes_shared(target.address, box->shared_bytes());
      }
      load_box(*box, target.address, to);
      at_issue.has_written(to, box->shared_bytes());
    });
  }
}

// [map, {coordinates}], [a]: writes or reduces what is inside the tensor, in a bulk group.
// Lanes with the same operands start one copy together: ptxas makes one of it, and CUTLASS lets a
// whole warp execute its stores.
Step tensor_store(Warp& warp, const Inst& inst, uint32_t mask) {
  const char* const what = "cp.async.bulk.tensor";
  warp.stores_bulk = true;
  const uint32_t rank = inst.as<CopyQualifiers>().rank;
  const Reduction op = inst.as<CopyQualifiers>().reduction;
  const bool reduces = op != Reduction::none;
  while (mask != 0) {
    const uint32_t lane = first_lane(mask);
    uint32_t lanes = mask;
    for (uint32_t i = 0; i < 2 + rank; ++i) lanes = lanes_that_agree(warp, inst.slots[i], lanes);
    mask &= ~lanes;
    const auto box = std::make_shared<const Box>(stored_box(warp, inst, lane, what));
    if (reduces && !has_reduction(op, box->map.type)) {
      stop(warp, 1u << lane, "cp.reduce.async.bulk.tensor: there is no ",
           REDUCTIONS[static_cast<size_t>(op) - 1], " of the tensor's element type.");
    }
    const uint32_t from = shared_address(warp, inst.slots[1 + rank], lane, SharedSpace::cta, what);
    check_alignment(warp, lane, from, TENSOR_ALIGNMENT, what, "shared address");
    const std::byte* const source = shared_bytes(warp, 1u << lane, from, box->shared_bytes(), what);
    read_map(Flight(warp, lanes, true), *box, 0, warp.bulk.count + 1);
    start_in_group(
        warp, lanes, from, box->bytes,
        [=](const Flight& at_issue, Staged& staged) {
          if (at_issue.checker()) {
            for_shared_runs(*box, from, [&](uint64_t address, uint64_t bytes) {
              at_issue.reads_shared(static_cast<uint32_t>(address), static_cast<uint32_t>(bytes));
            });
          }
          staged.resize(box->bytes);
          gather_box(*box, from, source, staged.data());
        },
        [=](const Flight& at_issue, const Staged& staged) {
          const size_t first = static_cast<size_t>(box->low) * box->element;
          const auto for_inside = [&](auto&& f) {
            box->for_rows([&](uint32_t row, uint64_t address) {
              if (address != 0) f(address, staged.data() + row * box->row_bytes + first);
            });
          };
          if (at_issue.checker()) {
            Staged inside;
            for_inside([&](uint64_t, const std::byte* values) {
              inside.insert(inside.end(), values, values + box->inside_bytes());
            });
            at_issue.writes_global(global_runs(*box), inside.data(), reduces);
          }
          for_inside([&](uint64_t address, const std::byte* values) {
            put(reinterpret_cast<std::byte*>(address), values, box->inside_bytes(), op,
                box->map.type);
          });
        });
  }
  return Step::next;
}

// [map, {coordinates}]
void tensor_prefetch(Warp& warp, const Inst& inst, uint32_t lane) {
  const char* const what = "cp.async.bulk.prefetch.tensor";
  check_box(warp, lane, box_of(warp, inst, lane, inst.slots, what), what);
}

// [map]
void map_prefetch(Warp& warp, const Inst& inst, uint32_t lane) {
  map_bytes(warp, lane, global_address(warp, inst.slots[0], lane), "prefetch.tensormap");
}

#define RANKS "{.1d,.2d,.3d,.4d,.5d}"

const Row ROWS[] = {
    {"cp.async.bulk.tensor" RANKS "{.shared::cluster,.shared::cta}.global{.tile,}" BYTES_TO_MBARRIER
     "{.multicast::cluster,}" HINT,
     "[d], [map, {x}], [mbarrier], *", pick_copy<each_lane<tensor_load>>,
     "copy a box to shared memory"},
    {"cp.async.bulk.tensor" RANKS ".global.shared::cta{.tile,}.bulk_group" HINT,
     "[map, {x}], [a], *", pick_copy<tensor_store>, "copy a box to global memory"},
    {"cp.reduce.async.bulk.tensor" RANKS ".global.shared::cta" REDUCTION "{.tile,}.bulk_group" HINT,
     "[map, {x}], [a], *", pick_copy<tensor_store>, "combine a box with global memory"},
    {"cp.async.bulk.prefetch.tensor" RANKS ".L2.global{.tile,}" HINT, "[map, {x}], *",
     pick_copy<each_lane<tensor_prefetch>>, "nothing, but the box must be legal"},
    {"prefetch{.param,.const,}.tensormap", "[map]", always<each_lane<map_prefetch>>,
     "nothing, but the map must be there"},
};

}  // namespace

const Section sections::TENSOR_COPY{"Tensor copies", ROWS};

}  // namespace machine
