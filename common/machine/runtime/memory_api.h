// Copies and fills of device memory, which is host memory with a list of allocations.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <optional>

#include "common/machine/run/allocations.h"
#include "common/machine/runtime/stream.h"

namespace machine::runtime {

// `height` rows of `width` bytes, pitches in bytes.
struct Rows {
  void* dst;
  size_t dst_pitch;
  const void* src;
  size_t src_pitch;
  size_t width, height;
};
inline Rows line(void* dst, const void* src, size_t bytes) {
  return {dst, bytes, src, bytes, bytes, 1};
}

cudaMemcpy3DParms params_of(const Rows& rows, cudaMemcpyKind kind);

// Refuse, in one sentence that starts with `call`, what leaves an allocation, what should be device
// memory and is not, and arrays.
Content copying(const char* call, const cudaMemcpy3DParms& params);
Content filling(const char* call, const cudaMemsetParams& params);
// The same at once, or recorded in a capture. A synchronous call passes the legacy stream.
void copy(const char* call, const Rows& rows, cudaMemcpyKind kind, cudaStream_t stream);
void fill(const char* call, const cudaMemsetParams& params, cudaStream_t stream);

// The call `call` and the one in a stream, `call`Async, which copy `rows`, made of these operands.
#define COPY_CALLS(call, rows, ...)                                                \
  cudaError_t call(__VA_ARGS__, cudaMemcpyKind kind) {                             \
    return outside_capture([&] { copy(#call, rows, kind, nullptr); });             \
  }                                                                                \
  cudaError_t call##Async(__VA_ARGS__, cudaMemcpyKind kind, cudaStream_t stream) { \
    return on_device([&] { copy(#call "Async", rows, kind, stream); });            \
  }                                                                                \
  static_assert(true)

// The living allocation that holds the address, if there is one.
std::optional<Allocation> find_living(const void* pointer);

inline bool is_managed(const Allocation& memory) {
  return memory.what == "cudaMallocManaged" || memory.what.starts_with(MANAGED_VARIABLE);
}

// This computer's, which is the device's.
size_t device_bytes();
// nullptr for 0 bytes.
void* allocate_device(const char* call, size_t bytes);
void free_device(const char* call, void* base);
// The same as calls, of which a capture that is going on allows none.
cudaError_t allocate_as(const char* call, void** base, size_t bytes);
cudaError_t free_as(const char* call, void* base);

constexpr char REGISTERED[] = "cudaHostRegister";

}  // namespace machine::runtime
