// Memory as other people's programs ask for it: of the host, in rows, by symbol.
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>

#include "common/machine/runtime/memory_api.h"
#include "common/machine/runtime/modules.h"
#include "common/machine/runtime/status.h"
#include "common/machine/runtime/stream.h"

namespace machine::runtime {
namespace {

constexpr size_t PITCH_BYTES = 512;  // what cudaMallocPitch rounds rows up to

std::mutex host_flags_mutex;
std::map<const void*, unsigned> host_flags;  // of cudaHostAlloc, by the start of what it made

// Of cudaMemcpyToSymbol and its kin: the address of the variable's byte `offset`.
char* symbol_address(const void* symbol, size_t bytes, size_t offset) {
  size_t size = 0;
  char* const address = static_cast<char*>(find_variable(symbol, &size));
  require(address != nullptr, cudaErrorInvalidSymbol);
  if (offset > size || bytes > size - offset) {
    refuse(cudaErrorInvalidValue,
           "copy of %zu bytes at offset %zu of a device variable that has %zu bytes.", bytes,
           offset, size);
  }
  return address + offset;
}

}  // namespace

}  // namespace machine::runtime

using namespace machine;
using namespace machine::runtime;

extern "C" {

// ---- allocation ---------------------------------------------------------------------------------

cudaError_t cudaMallocHost(void** base, size_t bytes) {
  return allocate_as("cudaMallocHost", base, bytes);
}

cudaError_t cudaHostAlloc(void** base, size_t bytes, unsigned flags) {
  const cudaError_t status = allocate_as("cudaHostAlloc", base, bytes);
  const std::lock_guard lock(host_flags_mutex);
  if (status == cudaSuccess) host_flags[*base] = flags;
  return status;
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* base) {
  Allocation allocation;
  return attempt([&] {
    require(flags != nullptr && find_living(base, &allocation));
    const bool is_plain = allocation.what == "cudaMallocHost";
    require(is_plain || allocation.what == "cudaHostAlloc");
    const std::lock_guard lock(host_flags_mutex);
    *flags = is_plain ? cudaHostAllocDefault : host_flags[reinterpret_cast<void*>(allocation.base)];
  });
}

cudaError_t cudaMallocPitch(void** base, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES;
  return allocate_as("cudaMallocPitch", base, *pitch * height);
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* made, cudaExtent extent) {
  *made = {nullptr, 0, extent.width, extent.height};
  return cudaMallocPitch(&made->ptr, &made->pitch, extent.width, extent.height * extent.depth);
}

cudaError_t cudaFreeHost(void* base) {
  return free_as("cudaFreeHost", base);
}

cudaError_t cudaHostRegister(void* base, size_t bytes, unsigned) {
  if (base == nullptr || bytes == 0) return record(cudaErrorInvalidValue);
  Allocation allocation;
  if (find_living(base, &allocation)) return record(cudaErrorHostMemoryAlreadyRegistered);
  adopt(base, bytes, REGISTERED);
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* base) {
  Allocation allocation;
  const bool is_registered = find_living(base, &allocation) && allocation.what == REGISTERED;
  if (!is_registered || !release(base)) return record(cudaErrorHostMemoryNotRegistered);
  return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  Allocation allocation;
  *device = find_living(host, &allocation) ? host : nullptr;
  return record(*device == nullptr ? cudaErrorInvalidValue : cudaSuccess);
}

// ---- variables ----------------------------------------------------------------------------------

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return on_device([&] {
    size_t bytes = 0;
    *address = find_variable(symbol, &bytes);
    require(*address != nullptr, cudaErrorInvalidSymbol);
  });
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  return on_device(
      [&] { require(find_variable(symbol, bytes) != nullptr, cudaErrorInvalidSymbol); });
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* src, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return on_device([&] {
    char* const address = symbol_address(symbol, bytes, offset);
    copy("cudaMemcpyToSymbol", line(address, src, bytes), kind, stream);
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* src, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return cudaMemcpyToSymbolAsync(symbol, src, bytes, offset, kind, nullptr);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return on_device([&] {
    char* const address = symbol_address(symbol, bytes, offset);
    copy("cudaMemcpyFromSymbol", line(dst, address, bytes), kind, stream);
  });
}

cudaError_t cudaMemcpyFromSymbol(void* dst, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  return cudaMemcpyFromSymbolAsync(dst, symbol, bytes, offset, kind, nullptr);
}

// ---- copies and fills -----------------------------------------------------------------------------

cudaError_t cudaMemcpyPeer(void* dst, int dst_device, const void* src, int src_device,
                           size_t bytes) {
  if (dst_device != 0 || src_device != 0) return record(cudaErrorInvalidDevice);
  return cudaMemcpy(dst, src, bytes, cudaMemcpyDeviceToDevice);
}

cudaError_t cudaMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device,
                                size_t bytes, cudaStream_t stream) {
  if (dst_device != 0 || src_device != 0) return record(cudaErrorInvalidDevice);
  return cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* params, cudaStream_t stream) {
  return on_device([&] { submit(stream, copying("cudaMemcpy3D", *params)); });
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* params) {
  return on_device([&] {
    check_no_capture();
    submit(nullptr, copying("cudaMemcpy3D", *params));
  });
}

cudaError_t cudaMemset2D(void* dst, size_t pitch, int value, size_t width, size_t height) {
  return on_device([&] {
    check_no_capture();
    fill("cudaMemset2D", {dst, pitch, static_cast<unsigned>(value), 1, width, height}, nullptr);
  });
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr dst, int value, cudaExtent extent,
                              cudaStream_t stream) {
  return on_device([&] {
    for (size_t z = 0; z < extent.depth; ++z) {
      char* const slice = static_cast<char*>(dst.ptr) + z * dst.pitch * dst.ysize;
      fill("cudaMemset3D",
           {slice, dst.pitch, static_cast<unsigned>(value), 1, extent.width, extent.height},
           stream);
    }
  });
}

cudaError_t cudaMemset3D(cudaPitchedPtr dst, int value, cudaExtent extent) {
  return on_device([&] {
    check_no_capture();
    if (const cudaError_t status = cudaMemset3DAsync(dst, value, extent, nullptr)) fail(status);
  });
}

}  // extern "C"
