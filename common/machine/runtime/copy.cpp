// Copies and fills. It knows nothing of kernels.
#include "common/machine/runtime/memory_api.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/machine/run/allocations.h"
#include "common/machine/runtime/beside.h"

namespace machine::runtime {
namespace {

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

// What was freed long ago is unmapped: what lies there now is somebody else's, of the host's
// allocator perhaps.
bool is_mapped(const void* pointer) {
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return msync(reinterpret_cast<void*>(address_of(pointer) / page_bytes * page_bytes), 1,
               MS_ASYNC) == 0;
}

// One side of a copy or fill. Host memory that no call allocated cannot be judged.
void check_side(const char* call, const char* side, const void* begin, size_t bytes,
                bool is_device) {
  if (bytes == 0) return;
  Allocation allocation;
  if (!find_allocation(address_of(begin), &allocation)) {
    if (is_device)
      refuse(cudaErrorInvalidValue, "%s: the %s %p is no device memory.", call, side, begin);
    return require(begin != nullptr);
  }
  const bool is_gone = allocation.freed && allocation.reserved == 0;
  if (is_gone && !is_device && is_mapped(begin)) return;
  if (allocation.freed) {
    refuse(cudaErrorInvalidValue, "%s: the %s %p lies in memory of %s that was freed.", call, side,
           begin, allocation.what.c_str());
  }
  if (allocation.contains(address_of(begin), bytes)) return;
  const uint64_t behind = address_of(begin) + bytes - allocation.base - allocation.bytes;
  refuse(cudaErrorInvalidValue, "%s: %zu bytes at the %s %p end %llu bytes behind the %llu of %s.",
         call, bytes, side, begin, static_cast<unsigned long long>(behind),
         static_cast<unsigned long long>(allocation.bytes), allocation.what.c_str());
}

size_t span_bytes(size_t pitch, size_t width, size_t height) {
  return width == 0 || height == 0 ? 0 : (height - 1) * pitch + width;
}

// Whether some bytes are to be read and written, but for rows that are copied to where they are.
bool overlaps(const Rows& rows) {
  const uint64_t width = rows.width, from = address_of(rows.src), pitch = rows.src_pitch;
  if (width == 0 || (rows.dst == rows.src && rows.dst_pitch == rows.src_pitch)) return false;
  for (size_t row = 0; row < rows.height; ++row) {
    const uint64_t begin = address_of(rows.dst) + row * rows.dst_pitch;
    if (begin + width <= from) continue;
    const uint64_t first = begin < from || pitch == 0 ? 0 : (begin - from) / pitch;
    for (uint64_t near = first; near < std::min<uint64_t>(first + 2, rows.height); ++near) {
      const uint64_t source = from + near * pitch;
      if (source < begin + width && begin < source + width) return true;
    }
  }
  return false;
}

void check_copy(const char* call, const Rows& rows, cudaMemcpyKind kind) {
  require(kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault,
          cudaErrorInvalidMemcpyDirection);
  require(rows.width <= rows.dst_pitch && rows.width <= rows.src_pitch, cudaErrorInvalidPitchValue);
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  check_side(call, "destination", rows.dst, span_bytes(rows.dst_pitch, rows.width, rows.height),
             to_device);
  check_side(call, "source", rows.src, span_bytes(rows.src_pitch, rows.width, rows.height),
             from_device);
  if (overlaps(rows)) {
    refuse(
        cudaErrorInvalidValue,
        "%s: the source %p and the destination %p overlap, which CUDA leaves undefined; a copy by "
        "way of other memory works.",
        call, rows.src, rows.dst);
  }
}

void copy_rows(const char* call, const Rows& rows) {
  for (size_t row = 0; row < rows.height; ++row) {
    char* const to = static_cast<char*>(rows.dst) + row * rows.dst_pitch;
    const char* const from = static_cast<const char*>(rows.src) + row * rows.src_pitch;
    if (find_living(from)) note_access(call, from, rows.width, false);
    if (find_living(to)) note_access(call, to, rows.width, true);
    std::memmove(to, from, rows.width);
  }
}

void fill_rows(const char* call, const cudaMemsetParams& fill) {
  for (size_t row = 0; row < fill.height; ++row) {
    char* const begin = static_cast<char*>(fill.dst) + row * fill.pitch;
    note_access(call, begin, fill.width * fill.elementSize, true);
    if (fill.elementSize == 1) {
      std::memset(begin, static_cast<int>(fill.value), fill.width);
      continue;
    }
    for (size_t i = 0; i < fill.width; ++i) {
      std::memcpy(begin + i * fill.elementSize, &fill.value, fill.elementSize);
    }
  }
}

}  // namespace

cudaMemcpy3DParms params_of(const Rows& rows, cudaMemcpyKind kind) {
  cudaMemcpy3DParms params{};
  params.srcPtr = {const_cast<void*>(rows.src), rows.src_pitch, rows.width, rows.height};
  params.dstPtr = {rows.dst, rows.dst_pitch, rows.width, rows.height};
  params.extent = {rows.width, rows.height, 1};
  params.kind = kind;
  return params;
}

Content copying(const char* call, const cudaMemcpy3DParms& params) {
  if (params.srcArray != nullptr || params.dstArray != nullptr) {
    refuse(cudaErrorNotSupported, "%s: arrays are not supported.", call);
  }
  const auto begin = [](const cudaPitchedPtr& of, const cudaPos& at, size_t z) {
    return static_cast<char*>(of.ptr) + ((at.z + z) * of.ysize + at.y) * of.pitch + at.x;
  };
  std::vector<Rows> slices;
  for (size_t z = 0; z < params.extent.depth; ++z) {
    slices.push_back({begin(params.dstPtr, params.dstPos, z), params.dstPtr.pitch,
                      begin(params.srcPtr, params.srcPos, z), params.srcPtr.pitch,
                      params.extent.width, params.extent.height});
    check_copy(call, slices.back(), params.kind);
  }
  const auto copy_slices = [call, slices] {
    for (const Rows& slice : slices) copy_rows(call, slice);
  };
  return {cudaGraphNodeTypeMemcpy, copy_slices, nullptr, nullptr, params};
}

Content filling(const char* call, const cudaMemsetParams& params) {
  const size_t width = params.width * params.elementSize;
  require(params.elementSize == 1 || params.elementSize == 2 || params.elementSize == 4);
  require(params.height <= 1 || width <= params.pitch, cudaErrorInvalidPitchValue);
  check_side(call, "destination", params.dst, span_bytes(params.pitch, width, params.height),
             /*is_device=*/true);
  return {cudaGraphNodeTypeMemset, [call, params] { fill_rows(call, params); }, nullptr, nullptr,
          params};
}

void copy(const char* call, const Rows& rows, cudaMemcpyKind kind, cudaStream_t stream) {
  Content content = copying(call, params_of(rows, kind));
  // Pageable memory is read when the call before has ended, and written when this one returns.
  if (!find_living(rows.src)) host_waits(stream);
  submit(stream, std::move(content));
  const bool is_async = std::string_view(call).ends_with("Async");
  if (!is_async || !find_living(rows.dst)) host_waits(stream);
}

void fill(const char* call, const cudaMemsetParams& params, cudaStream_t stream) {
  submit(stream, filling(call, params));
}

extern "C" {

COPY_CALLS(cudaMemcpy, line(dst, src, bytes), void* dst, const void* src, size_t bytes);
COPY_CALLS(cudaMemcpy2D, (Rows{dst, dst_pitch, src, src_pitch, width, height}), void* dst,
           size_t dst_pitch, const void* src, size_t src_pitch, size_t width, size_t height);

// The same of fills with bytes.
#define FILL_CALLS(call, pitch, width, height, ...)                                           \
  cudaError_t call(__VA_ARGS__) {                                                             \
    const cudaMemsetParams bytes{dst, pitch, static_cast<unsigned>(value), 1, width, height}; \
    return outside_capture([&] { fill(#call, bytes, nullptr); });                             \
  }                                                                                           \
  cudaError_t call##Async(__VA_ARGS__, cudaStream_t stream) {                                 \
    const cudaMemsetParams bytes{dst, pitch, static_cast<unsigned>(value), 1, width, height}; \
    return on_device([&] { fill(#call "Async", bytes, stream); });                            \
  }                                                                                           \
  static_assert(true)

FILL_CALLS(cudaMemset, count, count, 1, void* dst, int value, size_t count);
FILL_CALLS(cudaMemset2D, pitch, width, height, void* dst, size_t pitch, int value, size_t width,
           size_t height);

}  // extern "C"
}  // namespace machine::runtime
