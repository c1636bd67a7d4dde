// Device memory, which is the host's. It knows nothing of kernels.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "common/machine/run/settings.h"
#include "common/machine/runtime/memory_api.h"

namespace machine::runtime {
namespace {

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

// What the computer had at the first call, less what is allocated: memory is taken when it is written.
size_t free_bytes() {
  static const size_t at_start = [] {
    const size_t available = meminfo_bytes("MemAvailable");
    return (available == 0 ? device_bytes() / 2 : available) + allocated_bytes();
  }();
  return at_start - std::min(at_start, static_cast<size_t>(allocated_bytes()));
}

// Of the memory that `what` has made. cudaFree stands for all that take the device's.
const char* freeing_call(const std::string& what) {
  if (what == REGISTERED) return "cudaHostUnregister";
  if (what == "cudaMallocHost" || what == "cudaHostAlloc") return "cudaFreeHost";
  const bool is_kernels = what.find("cuda") == what.npos;  // a variable, or of its malloc
  return is_kernels ? "no call of the host" : "cudaFree";
}

}  // namespace

size_t device_bytes() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

std::optional<Allocation> find_living(const void* pointer) {
  Allocation found;
  const bool lives = find_allocation(reinterpret_cast<uint64_t>(pointer), &found) && !found.freed;
  return lives ? std::optional(found) : std::nullopt;
}

// What the host uses too begins as 0, as pages of a host do.
void* allocate_device(const char* call, size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::string_view name(call);
  const bool of_host = name.find("Host") != name.npos || name.find("Managed") != name.npos;
  require(bytes <= free_bytes(), cudaErrorMemoryAllocation);
  void* const base = allocate(bytes, call, settings().poison && !of_host);
  require(base != nullptr, cudaErrorMemoryAllocation);
  return base;
}

void free_device(const char* call, void* base) {
  const auto living = find_living(base);
  if (living && reinterpret_cast<uint64_t>(base) == living->base) {
    const std::string_view freed_by = freeing_call(living->what);
    const bool frees_host = std::string_view(call).ends_with("FreeHost");  // of the driver's, too
    if (freed_by != (frees_host ? "cudaFreeHost" : "cudaFree")) {
      refuse(cudaErrorInvalidValue, "%s: %p is memory of %s, which %s frees.", call, base,
             living->what.c_str(), freed_by.data());
    }
  }
  if (base == nullptr || release(base)) return;
  Allocation allocation;
  const bool was_freed =
      find_allocation(reinterpret_cast<uint64_t>(base), &allocation) && allocation.freed;
  refuse(cudaErrorInvalidValue, "%s: %p %s.", call, base,
         was_freed ? "has been freed before" : "is not the start of an allocation");
}

cudaError_t allocate_as(const char* call, void** base, size_t bytes) {
  if (base == nullptr) return record(cudaErrorInvalidValue);
  return outside_capture([&] {
    *base = nullptr;
    *base = allocate_device(call, bytes);
  });
}

cudaError_t free_as(const char* call, void* base) {
  return outside_capture([&] {
    free_device(call, base);
    end_all_grids();
  });
}

extern "C" {

cudaError_t cudaMalloc(void** base, size_t bytes) {
  return allocate_as("cudaMalloc", base, bytes);
}

cudaError_t cudaFree(void* base) {
  return free_as("cudaFree", base);
}

// Of this computer, whose memory it is.
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return on_device([&] {
    if (total_bytes != nullptr) *total_bytes = device_bytes();
    if (free_bytes != nullptr) *free_bytes = runtime::free_bytes();
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  attributes->device = -2;  // what CUDA says of host memory that it does not know
  attributes->hostPointer = const_cast<void*>(pointer);
  const auto found = find_living(pointer);
  if (!found) return cudaSuccess;
  attributes->device = 0;
  attributes->devicePointer = const_cast<void*>(pointer);
  if (is_managed(*found)) {
    attributes->type = cudaMemoryTypeManaged;
  } else if (found->what == "cudaMallocHost" || found->what == "cudaHostAlloc" ||
             found->what == REGISTERED) {
    attributes->type = cudaMemoryTypeHost;
  } else {
    attributes->type = cudaMemoryTypeDevice;
    attributes->hostPointer = nullptr;
  }
  return cudaSuccess;
}

}  // extern "C"
}  // namespace machine::runtime
