// Memory that streams allocate and free: pools, and nodes of graphs.
#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <string>

#include "common/machine/run/settings.h"
#include "common/machine/runtime/beside.h"
#include "common/machine/runtime/foreign/nodes.h"
#include "common/machine/runtime/memory_api.h"

namespace machine::runtime {
namespace {

// A name for a part of the one heap that there is. It holds nothing that is not in use.
struct Pool {
  std::string name;           // what its allocations are of, in reports
  int reuses[3] = {1, 1, 1};  // cudaMemPoolReuseFollowEventDependencies and the two behind it
  uint64_t release_threshold = 0;
};

Pool* default_pool() {
  static Pool pool{"cudaMallocAsync"};
  return &pool;
}

Pool*& current_pool() {
  static Pool* current = default_pool();
  return current;
}

Pool* pool_of(cudaMemPool_t handle) {
  require(handle != nullptr);
  return reinterpret_cast<Pool*>(handle);
}

cudaError_t give(cudaMemPool_t* handle, int device, Pool* pool) {
  if (device != 0) return record(cudaErrorInvalidDevice);
  *handle = reinterpret_cast<cudaMemPool_t>(pool);
  return cudaSuccess;
}

bool is_high(cudaMemPoolAttr attribute) {
  return attribute == cudaMemPoolAttrReservedMemHigh || attribute == cudaMemPoolAttrUsedMemHigh;
}

void allocate_async(void** base, size_t bytes, const Pool& pool, cudaStream_t stream) {
  require(base != nullptr);
  const bool captured = is_capturing(stream);
  const char* const call = captured ? "a graph's cudaMallocAsync" : pool.name.c_str();
  *base = allocate_device(call, bytes);
  if (captured) return submit(stream, allocating("cudaMallocAsync", *base));
  const auto note = [base = *base, bytes] { note_access("cudaMallocAsync", base, bytes, true); };
  submit(stream, {cudaGraphNodeTypeMemAlloc, note});
}

// Of a graph and what is instantiated from it, whose address it is. Until the first launch the memory
// lives, so that copies to it can be captured; what a launch has left lives on behind the last of them.
struct GraphMemory {
  explicit GraphMemory(void* address) : base(address) { keep(base, true); }
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  ~GraphMemory() {
    if (!is_launched) release(base);
    keep(base, false);
  }
  void* base;
  bool is_launched = false;
};

}  // namespace

Content allocating(const char* call, void* base) {
  require(base != nullptr);
  const auto allocate = [call, base, memory = std::make_shared<GraphMemory>(base)] {
    if (!revive(base, settings().poison) && memory->is_launched) {
      refuse(cudaErrorInvalidValue,
             "launch of a graph: %p, which a node for %s allocates, has not been freed since the "
             "launch before; cudaGraphInstantiateFlagAutoFreeOnLaunch frees it.",
             base, call);
    }
    memory->is_launched = true;
  };
  return {cudaGraphNodeTypeMemAlloc, allocate, nullptr, base};
}

Content freeing(const char* call, void* base) {
  Allocation allocation;
  if (!find_allocation(reinterpret_cast<uint64_t>(base), &allocation) || !allocation.kept) {
    refuse(cudaErrorInvalidValue, "%s: %p was not allocated by a node of a graph.", call, base);
  }
  return {cudaGraphNodeTypeMemFree, [call, base] { free_device(call, base); }, nullptr, base};
}

extern "C" {

cudaError_t cudaMallocAsync(void** base, size_t bytes, cudaStream_t stream) {
  return on_device([&] { allocate_async(base, bytes, *current_pool(), stream); });
}

cudaError_t cudaMallocFromPoolAsync(void** base, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  return on_device([&] { allocate_async(base, bytes, *pool_of(pool), stream); });
}

cudaError_t cudaFreeAsync(void* base, cudaStream_t stream) {
  return on_device([&] {
    constexpr const char* CALL = "cudaFreeAsync";
    if (is_capturing(stream)) return submit(stream, freeing(CALL, base));
    const auto free = [base] {
      const auto freed = find_living(base);
      free_device(CALL, base);
      if (freed) note_access(CALL, base, freed->bytes, true);
    };
    submit(stream, {cudaGraphNodeTypeMemFree, free});
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return give(pool, device, default_pool());
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return give(pool, device, current_pool());
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return attempt([&] {
    require(device == 0, cudaErrorInvalidDevice);
    current_pool() = pool_of(pool);
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  static std::atomic<int> count{1};
  return give(pool, 0, new Pool{"pool " + std::to_string(++count) + "'s cudaMallocAsync"});
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  return attempt([&] {
    Pool* const pool = pool_of(handle);
    require(pool != default_pool());
    if (current_pool() == pool) current_pool() = default_pool();
    delete pool;
  });
}

// Up to cudaMemPoolReuseAllowInternalDependencies they are of type int, and of 64 bits behind it.
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return attempt([&] {
    const Pool* const pool = pool_of(handle);
    const bool is_known = attribute >= 1 && attribute <= cudaMemPoolAttrUsedMemHigh;
    require(value != nullptr && is_known);
    if (attribute < cudaMemPoolAttrReleaseThreshold) {
      *static_cast<int*>(value) = pool->reuses[attribute - 1];
      return;
    }
    const Usage usage = usage_of(pool->name);
    const bool is_threshold = attribute == cudaMemPoolAttrReleaseThreshold;
    *static_cast<uint64_t*>(value) = is_threshold         ? pool->release_threshold
                                     : is_high(attribute) ? usage.most
                                                          : usage.bytes;
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                 cudaMemLocation* place) {
  return attempt([&] {
    pool_of(pool);
    require(flags != nullptr && place != nullptr);
    const bool is_mine = place->type == cudaMemLocationTypeDevice;
    require(!is_mine || place->id == 0, cudaErrorInvalidDevice);
    *flags = is_mine ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return attempt([&] {
    Pool* const pool = pool_of(handle);
    require(value != nullptr && attribute >= 1);
    if (attribute < cudaMemPoolAttrReleaseThreshold) {
      pool->reuses[attribute - 1] = *static_cast<const int*>(value);
    } else if (attribute == cudaMemPoolAttrReleaseThreshold) {
      pool->release_threshold = *static_cast<const uint64_t*>(value);
    } else {
      require(is_high(attribute) && *static_cast<const uint64_t*>(value) == 0);
      forget_most(pool->name);
    }
  });
}

}  // extern "C"
}  // namespace machine::runtime
