// cudaMemcpy, cudaMemset and their like. It knows nothing of kernels.
#include "common/machine/runtime/memory_api.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "common/machine/run/allocations.h"
#include "common/machine/runtime/status.h"
#include "common/machine/runtime/stream.h"

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

}  // namespace

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
}

void copy_rows(const Rows& rows) {
  for (size_t row = 0; row < rows.height; ++row) {
    std::memmove(static_cast<char*>(rows.dst) + row * rows.dst_pitch,
                 static_cast<const char*>(rows.src) + row * rows.src_pitch, rows.width);
  }
}

void copy(const char* call, const Rows& rows, cudaMemcpyKind kind, cudaStream_t stream) {
  check_copy(call, rows, kind);
  submit(stream, {cudaGraphNodeTypeMemcpy, [rows] { copy_rows(rows); }});
}

void check_fill(const char* call, const Fill& fill) {
  require(fill.element_bytes == 1 || fill.element_bytes == 2 || fill.element_bytes == 4);
  const size_t width = fill.width * fill.element_bytes;
  require(fill.height <= 1 || width <= fill.pitch, cudaErrorInvalidPitchValue);
  check_side(call, "destination", fill.dst, span_bytes(fill.pitch, width, fill.height),
             /*is_device=*/true);
}

void fill_rows(const Fill& fill) {
  for (size_t row = 0; row < fill.height; ++row) {
    char* const begin = static_cast<char*>(fill.dst) + row * fill.pitch;
    if (fill.element_bytes == 1) {
      std::memset(begin, static_cast<int>(fill.value), fill.width);
      continue;
    }
    for (size_t i = 0; i < fill.width; ++i) {
      std::memcpy(begin + i * fill.element_bytes, &fill.value, fill.element_bytes);
    }
  }
}

void fill(const char* call, const Fill& what, cudaStream_t stream) {
  check_fill(call, what);
  submit(stream, {cudaGraphNodeTypeMemset, [what] { fill_rows(what); }});
}

}  // namespace machine::runtime

using namespace machine::runtime;

extern "C" {

cudaError_t cudaMemcpy2D(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return on_device([&] {
    check_no_capture();
    copy("cudaMemcpy2D", {dst, dst_pitch, src, src_pitch, width, height}, kind, nullptr);
  });
}

cudaError_t cudaMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return on_device([&] {
    copy("cudaMemcpy2DAsync", {dst, dst_pitch, src, src_pitch, width, height}, kind, stream);
  });
}

cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  return on_device([&] {
    check_no_capture();
    copy("cudaMemcpy", line(dst, src, bytes), kind, nullptr);
  });
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return on_device([&] { copy("cudaMemcpyAsync", line(dst, src, bytes), kind, stream); });
}

cudaError_t cudaMemset(void* dst, int value, size_t bytes) {
  return on_device([&] {
    check_no_capture();
    fill("cudaMemset", {dst, bytes, static_cast<unsigned>(value), 1, bytes, 1}, nullptr);
  });
}

cudaError_t cudaMemsetAsync(void* dst, int value, size_t bytes, cudaStream_t stream) {
  return on_device([&] {
    fill("cudaMemsetAsync", {dst, bytes, static_cast<unsigned>(value), 1, bytes, 1}, stream);
  });
}

cudaError_t cudaMemset2DAsync(void* dst, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return on_device([&] {
    fill("cudaMemset2DAsync", {dst, pitch, static_cast<unsigned>(value), 1, width, height}, stream);
  });
}

}  // extern "C"
