// cudaMalloc and its like, in host memory. It knows nothing of kernels.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "common/machine/run/allocations.h"
#include "common/machine/run/settings.h"
#include "common/machine/runtime/memory_api.h"
#include "common/machine/runtime/modules.h"
#include "common/machine/runtime/status.h"
#include "common/machine/runtime/stream.h"

namespace machine::runtime {
namespace {

constexpr char REGISTERED[] = "cudaHostRegister";
constexpr size_t PITCH_BYTES = 512;  // what cudaMallocPitch rounds rows up to

bool find(const void* pointer, Allocation* allocation) {
  return find_allocation(reinterpret_cast<uint64_t>(pointer), allocation);
}

cudaError_t allocate_as(const char* what, void** base, size_t bytes) {
  if (base == nullptr) return record(cudaErrorInvalidValue);
  return on_device([&] {
    if (const cudaError_t status = check_no_capture(); status != cudaSuccess) return status;
    return allocate_device(what, base, bytes);
  });
}

cudaError_t free_as(const char* call, void* base) {
  return on_device([&] {
    if (const cudaError_t status = check_no_capture(); status != cudaSuccess) return status;
    return free_device(call, base);
  });
}

// Bytes of a line "MemAvailable:   123 kB" of /proc/meminfo; 0 if it has none.
size_t meminfo_bytes(const char* name) {
  std::FILE* const file = std::fopen("/proc/meminfo", "r");
  if (file == nullptr) return 0;
  size_t kib = 0;
  char line[256];
  while (kib == 0 && std::fgets(line, sizeof line, file) != nullptr) {
    const size_t length = std::strlen(name);
    if (std::strncmp(line, name, length) == 0) std::sscanf(line + length, ": %zu", &kib);
  }
  std::fclose(file);
  return kib * 1024;
}

size_t device_bytes() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// What the computer had at the first call, less what is allocated: memory is taken when it is written.
size_t free_bytes() {
  static const size_t at_start = [] {
    const size_t available = meminfo_bytes("MemAvailable");
    return (available == 0 ? device_bytes() / 2 : available) + allocated_bytes();
  }();
  return at_start - std::min(at_start, static_cast<size_t>(allocated_bytes()));
}

}  // namespace

// What the host uses too begins as 0, as pages of a host do.
cudaError_t allocate_device(const char* call, void** base, size_t bytes) {
  *base = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::string_view name(call);
  const bool of_host = name.find("Host") != name.npos || name.find("Managed") != name.npos;
  if (bytes > free_bytes()) return cudaErrorMemoryAllocation;
  *base = allocate(bytes, call, settings().poison && !of_host);
  return *base == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t free_device(const char* call, void* base) {
  if (base == nullptr || release(base)) return cudaSuccess;
  Allocation allocation;
  const bool was_freed = find(base, &allocation) && allocation.freed;
  return refuse(cudaErrorInvalidValue, "%s: %p %s.", call, base,
                was_freed ? "has been freed before" : "is not the start of an allocation");
}

}  // namespace machine::runtime

using namespace machine;
using namespace machine::runtime;

extern "C" {

// ---- allocation ---------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** base, size_t bytes) {
  return allocate_as("cudaMalloc", base, bytes);
}

cudaError_t cudaMallocHost(void** base, size_t bytes) {
  return allocate_as("cudaMallocHost", base, bytes);
}

cudaError_t cudaHostAlloc(void** base, size_t bytes, unsigned) {
  return allocate_as("cudaHostAlloc", base, bytes);
}

cudaError_t cudaMallocManaged(void** base, size_t bytes, unsigned) {
  if (bytes == 0) return record(cudaErrorInvalidValue);
  return allocate_as("cudaMallocManaged", base, bytes);
}

cudaError_t cudaMallocPitch(void** base, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES;
  return allocate_as("cudaMallocPitch", base, *pitch * height);
}

cudaError_t cudaFree(void* base) {
  return free_as("cudaFree", base);
}

cudaError_t cudaFreeHost(void* base) {
  return free_as("cudaFreeHost", base);
}

cudaError_t cudaMallocAsync(void** base, size_t bytes, cudaStream_t stream) {
  return on_device([&] {
    if (is_capturing(stream)) {
      return refuse(cudaErrorNotSupported, "cudaMallocAsync in a stream capture.");
    }
    return allocate_device("cudaMallocAsync", base, bytes);
  });
}

cudaError_t cudaFreeAsync(void* base, cudaStream_t stream) {
  return on_device([&] {
    if (is_capturing(stream)) {
      return refuse(cudaErrorNotSupported, "cudaFreeAsync in a stream capture.");
    }
    return free_device("cudaFreeAsync", base);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** base, size_t bytes, cudaMemPool_t, cudaStream_t stream) {
  return cudaMallocAsync(base, bytes, stream);
}

cudaError_t cudaHostRegister(void* base, size_t bytes, unsigned) {
  if (base == nullptr || bytes == 0) return record(cudaErrorInvalidValue);
  Allocation allocation;
  if (find(base, &allocation) && !allocation.freed) {
    return record(cudaErrorHostMemoryAlreadyRegistered);
  }
  adopt(base, bytes, REGISTERED);
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* base) {
  Allocation allocation;
  const bool is_registered = find(base, &allocation) && allocation.what == REGISTERED;
  if (!is_registered || !release(base)) return record(cudaErrorHostMemoryNotRegistered);
  return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  Allocation allocation;
  *device = find(host, &allocation) && !allocation.freed ? host : nullptr;
  return record(*device == nullptr ? cudaErrorInvalidValue : cudaSuccess);
}

// ---- questions ----------------------------------------------------------------------------------

// Of this computer, whose memory it is.
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return on_device([&] {
    if (total_bytes != nullptr) *total_bytes = device_bytes();
    if (free_bytes != nullptr) *free_bytes = runtime::free_bytes();
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  attributes->device = -2;  // what CUDA says of host memory that it does not know
  attributes->hostPointer = const_cast<void*>(pointer);
  Allocation allocation;
  if (!find(pointer, &allocation) || allocation.freed) return cudaSuccess;
  attributes->device = 0;
  attributes->devicePointer = const_cast<void*>(pointer);
  if (allocation.what == "cudaMallocManaged") {
    attributes->type = cudaMemoryTypeManaged;
  } else if (allocation.what == "cudaMallocHost" || allocation.what == "cudaHostAlloc" ||
             allocation.what == REGISTERED) {
    attributes->type = cudaMemoryTypeHost;
  } else {
    attributes->type = cudaMemoryTypeDevice;
    attributes->hostPointer = nullptr;
  }
  return cudaSuccess;
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return on_device([&] {
    size_t bytes = 0;
    *address = find_variable(symbol, &bytes);
    return *address == nullptr ? cudaErrorInvalidSymbol : cudaSuccess;
  });
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  return on_device([&] {
    return find_variable(symbol, bytes) == nullptr ? cudaErrorInvalidSymbol : cudaSuccess;
  });
}

// ---- hints, which change no result --------------------------------------------------------------

#if CUDART_VERSION >= 13000
cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) {
  return cudaSuccess;
}

cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned, cudaStream_t) {
  return cudaSuccess;
}
#else
cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, int) {
  return cudaSuccess;
}

cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t) {
  return cudaSuccess;
}
#endif

// ---- memory pools: names for the one heap that there is -----------------------------------------

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  static char the_pool;
  *pool = reinterpret_cast<cudaMemPool_t>(&the_pool);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}

cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) {
  return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  return cudaDeviceGetDefaultMemPool(pool, 0);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t) {
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) {
  return cudaSuccess;
}

}  // extern "C"
