// cudaMemcpy, cudaMemset and their like. It knows nothing of kernels.
#include "common/machine/runtime/memory_api.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "common/machine/run/allocations.h"
#include "common/machine/runtime/modules.h"
#include "common/machine/runtime/status.h"
#include "common/machine/runtime/stream.h"

namespace machine::runtime {
namespace {

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

bool find(const void* pointer, Allocation* allocation) {
  return find_allocation(address_of(pointer), allocation);
}

// What is freed is unmapped: what lies there now is somebody else's, of the host's allocator perhaps.
bool is_mapped(const void* pointer) {
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return msync(reinterpret_cast<void*>(address_of(pointer) / page_bytes * page_bytes), 1,
               MS_ASYNC) == 0;
}

// One side of a copy or fill. Host memory that no call allocated cannot be judged.
cudaError_t check_side(const char* call, const char* side, const void* begin, size_t bytes,
                       bool is_device) {
  if (bytes == 0) return cudaSuccess;
  Allocation allocation;
  if (!find(begin, &allocation)) {
    if (!is_device) return begin == nullptr ? cudaErrorInvalidValue : cudaSuccess;
    return refuse(cudaErrorInvalidValue, "%s: the %s %p is no device memory.", call, side, begin);
  }
  if (allocation.freed && !is_device && is_mapped(begin)) return cudaSuccess;
  if (allocation.freed) {
    return refuse(cudaErrorInvalidValue, "%s: the %s %p lies in memory of %s that was freed.", call,
                  side, begin, allocation.what.c_str());
  }
  if (allocation.contains(address_of(begin), bytes)) return cudaSuccess;
  return refuse(cudaErrorInvalidValue,
                "%s: %zu bytes at the %s %p end %llu bytes behind the %llu of %s.", call, bytes,
                side, begin,
                static_cast<unsigned long long>(address_of(begin) + bytes - allocation.base -
                                                allocation.bytes),
                static_cast<unsigned long long>(allocation.bytes), allocation.what.c_str());
}

size_t span_bytes(size_t pitch, size_t width, size_t height) {
  return width == 0 || height == 0 ? 0 : (height - 1) * pitch + width;
}

cudaError_t copy_now(const char* call, const Rows& rows, cudaMemcpyKind kind) {
  return on_device([&] {
    if (const cudaError_t status = check_no_capture(); status != cudaSuccess) return status;
    return copy(call, rows, kind, nullptr);
  });
}

cudaError_t fill_now(const char* call, const Fill& what) {
  return on_device([&] {
    if (const cudaError_t status = check_no_capture(); status != cudaSuccess) return status;
    return fill(call, what, nullptr);
  });
}

Rows line(void* dst, const void* src, size_t bytes) {
  return {dst, bytes, src, bytes, bytes, 1};
}

// Of cudaMemcpyToSymbol and its kin: the address of the variable's byte `offset`.
cudaError_t symbol_address(const void* symbol, size_t bytes, size_t offset, char** address) {
  size_t size = 0;
  *address = static_cast<char*>(find_variable(symbol, &size));
  if (*address == nullptr) return cudaErrorInvalidSymbol;
  if (offset > size || bytes > size - offset) {
    return refuse(cudaErrorInvalidValue,
                  "copy of %zu bytes at offset %zu of a device variable that has %zu bytes.", bytes,
                  offset, size);
  }
  *address += offset;
  return cudaSuccess;
}

}  // namespace

cudaError_t check_copy(const char* call, const Rows& rows, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (rows.width > rows.dst_pitch || rows.width > rows.src_pitch) return cudaErrorInvalidPitchValue;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const cudaError_t status =
      check_side(call, "destination", rows.dst, span_bytes(rows.dst_pitch, rows.width, rows.height),
                 to_device);
  if (status != cudaSuccess) return status;
  return check_side(call, "source", rows.src, span_bytes(rows.src_pitch, rows.width, rows.height),
                    from_device);
}

void copy_rows(const Rows& rows) {
  for (size_t row = 0; row < rows.height; ++row) {
    std::memmove(static_cast<char*>(rows.dst) + row * rows.dst_pitch,
                 static_cast<const char*>(rows.src) + row * rows.src_pitch, rows.width);
  }
}

cudaError_t copy(const char* call, const Rows& rows, cudaMemcpyKind kind, cudaStream_t stream) {
  const cudaError_t status = check_copy(call, rows, kind);
  if (status != cudaSuccess) return status;
  return submit(stream, cudaGraphNodeTypeMemcpy, [rows] { copy_rows(rows); });
}

cudaError_t check_fill(const char* call, const Fill& fill) {
  if (fill.element_bytes != 1 && fill.element_bytes != 2 && fill.element_bytes != 4) {
    return cudaErrorInvalidValue;
  }
  const size_t width = fill.width * fill.element_bytes;
  if (fill.height > 1 && width > fill.pitch) return cudaErrorInvalidPitchValue;
  return check_side(call, "destination", fill.dst, span_bytes(fill.pitch, width, fill.height),
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

cudaError_t fill(const char* call, const Fill& what, cudaStream_t stream) {
  const cudaError_t status = check_fill(call, what);
  if (status != cudaSuccess) return status;
  return submit(stream, cudaGraphNodeTypeMemset, [what] { fill_rows(what); });
}

}  // namespace machine::runtime

using namespace machine;
using namespace machine::runtime;

extern "C" {

// ---- copies -------------------------------------------------------------------------------------

cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  return copy_now("cudaMemcpy", line(dst, src, bytes), kind);
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return on_device([&] { return copy("cudaMemcpyAsync", line(dst, src, bytes), kind, stream); });
}

cudaError_t cudaMemcpyPeer(void* dst, int dst_device, const void* src, int src_device,
                           size_t bytes) {
  if (dst_device != 0 || src_device != 0) return record(cudaErrorInvalidDevice);
  return cudaMemcpy(dst, src, bytes, cudaMemcpyDeviceToDevice);
}

cudaError_t cudaMemcpy2D(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return copy_now("cudaMemcpy2D", {dst, dst_pitch, src, src_pitch, width, height}, kind);
}

cudaError_t cudaMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return on_device([&] {
    return copy("cudaMemcpy2DAsync", {dst, dst_pitch, src, src_pitch, width, height}, kind, stream);
  });
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* src, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return on_device([&] {
    char* address = nullptr;
    const cudaError_t status = symbol_address(symbol, bytes, offset, &address);
    if (status != cudaSuccess) return status;
    return copy("cudaMemcpyToSymbol", line(address, src, bytes), kind, stream);
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* src, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return cudaMemcpyToSymbolAsync(symbol, src, bytes, offset, kind, nullptr);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return on_device([&] {
    char* address = nullptr;
    const cudaError_t status = symbol_address(symbol, bytes, offset, &address);
    if (status != cudaSuccess) return status;
    return copy("cudaMemcpyFromSymbol", line(dst, address, bytes), kind, stream);
  });
}

cudaError_t cudaMemcpyFromSymbol(void* dst, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  return cudaMemcpyFromSymbolAsync(dst, symbol, bytes, offset, kind, nullptr);
}

// ---- fills --------------------------------------------------------------------------------------

cudaError_t cudaMemset(void* dst, int value, size_t bytes) {
  return fill_now("cudaMemset", {dst, bytes, static_cast<unsigned>(value), 1, bytes, 1});
}

cudaError_t cudaMemsetAsync(void* dst, int value, size_t bytes, cudaStream_t stream) {
  return on_device([&] {
    return fill("cudaMemsetAsync", {dst, bytes, static_cast<unsigned>(value), 1, bytes, 1}, stream);
  });
}

cudaError_t cudaMemset2D(void* dst, size_t pitch, int value, size_t width, size_t height) {
  return fill_now("cudaMemset2D", {dst, pitch, static_cast<unsigned>(value), 1, width, height});
}

cudaError_t cudaMemset2DAsync(void* dst, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return on_device([&] {
    return fill("cudaMemset2DAsync", {dst, pitch, static_cast<unsigned>(value), 1, width, height},
                stream);
  });
}

}  // extern "C"
