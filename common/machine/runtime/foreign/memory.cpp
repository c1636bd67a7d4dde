// Memory as only other programs ask for it: of the host, in rows and boxes, managed, and copies and fills
// of these. It knows nothing of kernels.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "common/machine/runtime/memory_api.h"

namespace machine::runtime {
namespace {

constexpr size_t PITCH_BYTES = 512;  // what cudaMallocPitch rounds rows up to

std::mutex host_flags_mutex;
std::map<const void*, unsigned> host_flags;  // of cudaHostAlloc, by the start of what it made

#if CUDART_VERSION >= 13000
using Location = cudaMemLocation;
int device_of(Location place) {
  return place.type == cudaMemLocationTypeDevice ? place.id : cudaCpuDeviceId;
}
#else
using Location = int;
int device_of(Location place) {
  return place;
}
#endif

// What programs have said of managed memory; it can be read back, for an allocation as a whole.
struct Advice {
  int read_mostly = 0;
  int preferred = cudaInvalidDeviceId, prefetched = cudaInvalidDeviceId;
  std::set<int> accessed_by;
};

std::mutex advice_mutex;
std::map<uint64_t, Advice> advice_by_base;

// Calls `use` with what was said of these bytes.
template <class Use>
cudaError_t with_advice(const char* call, const void* begin, size_t bytes, Use use) {
  return attempt([&] {
    const auto found = find_living(begin);
    const bool known = found && bytes != 0 && is_managed(*found) &&
                       found->contains(reinterpret_cast<uint64_t>(begin), bytes);
    if (!known) {
      refuse(cudaErrorInvalidValue, "%s: the %zu bytes at %p are no managed memory.", call, bytes,
             begin);
    }
    const std::lock_guard lock(advice_mutex);
    use(advice_by_base[found->base]);
  });
}

}  // namespace

extern "C" {

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
  return attempt([&] {
    const auto found = find_living(base);
    require(flags != nullptr && found);
    const bool is_plain = found->what == "cudaMallocHost";
    require(is_plain || found->what == "cudaHostAlloc");
    const std::lock_guard lock(host_flags_mutex);
    *flags = is_plain ? cudaHostAllocDefault : host_flags[reinterpret_cast<void*>(found->base)];
  });
}

cudaError_t cudaFreeHost(void* base) {
  return free_as("cudaFreeHost", base);
}

cudaError_t cudaHostRegister(void* base, size_t bytes, unsigned) {
  enter_context();
  if (base == nullptr || bytes == 0) return record(cudaErrorInvalidValue);
  if (find_living(base)) return record(cudaErrorHostMemoryAlreadyRegistered);
  adopt(base, bytes, REGISTERED);
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* base) {
  const auto found = find_living(base);
  if (!found || found->what != REGISTERED || !release(base))
    return record(cudaErrorHostMemoryNotRegistered);
  return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = find_living(host) ? host : nullptr;
  return record(*device == nullptr ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaMallocPitch(void** base, size_t* pitch, size_t width, size_t height) {
  if (base == nullptr || pitch == nullptr) return record(cudaErrorInvalidValue);
  *pitch = (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES;
  return allocate_as("cudaMallocPitch", base, *pitch * height);
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* made, cudaExtent extent) {
  *made = {nullptr, 0, extent.width, extent.height};
  return cudaMallocPitch(&made->ptr, &made->pitch, extent.width, extent.height * extent.depth);
}

// ---- managed memory: as all is one here, what is said of it changes nothing ---------------------

cudaError_t cudaMallocManaged(void** base, size_t bytes, unsigned) {
  if (bytes == 0) return record(cudaErrorInvalidValue);
  const cudaError_t status = allocate_as("cudaMallocManaged", base, bytes);
  const std::lock_guard lock(advice_mutex);
  if (status == cudaSuccess) advice_by_base.erase(reinterpret_cast<uint64_t>(*base));
  return status;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaMemPrefetchAsync(const void* begin, size_t bytes, Location place, unsigned,
                                 cudaStream_t) {
#else
cudaError_t cudaMemPrefetchAsync(const void* begin, size_t bytes, Location place, cudaStream_t) {
#endif
  return with_advice("cudaMemPrefetchAsync", begin, bytes, [&](Advice& advice) {
    require(device_of(place) <= 0, cudaErrorInvalidDevice);
    advice.prefetched = device_of(place);
  });
}

cudaError_t cudaMemAdvise(const void* begin, size_t bytes, cudaMemoryAdvise what, Location place) {
  return with_advice("cudaMemAdvise", begin, bytes, [&](Advice& advice) {
    const int device = device_of(place);
    if (what == cudaMemAdviseSetReadMostly) return void(advice.read_mostly = 1);
    if (what == cudaMemAdviseUnsetReadMostly) return void(advice.read_mostly = 0);
    if (what == cudaMemAdviseSetPreferredLocation) return void(advice.preferred = device);
    if (what == cudaMemAdviseUnsetPreferredLocation) {
      return void(advice.preferred = cudaInvalidDeviceId);
    }
    if (what == cudaMemAdviseSetAccessedBy) return void(advice.accessed_by.insert(device));
    require(what == cudaMemAdviseUnsetAccessedBy);
    advice.accessed_by.erase(device);
  });
}

cudaError_t cudaMemRangeGetAttribute(void* data, size_t data_bytes, cudaMemRangeAttribute attribute,
                                     const void* begin, size_t bytes) {
  constexpr const char* CALL = "cudaMemRangeGetAttribute";
  return with_advice(CALL, begin, bytes, [&](const Advice& advice) {
    auto* const values = static_cast<int*>(data);
    const std::map<cudaMemRangeAttribute, std::vector<int>> known = {
        {cudaMemRangeAttributeReadMostly, {advice.read_mostly}},
        {cudaMemRangeAttributePreferredLocation, {advice.preferred}},
        {cudaMemRangeAttributeAccessedBy, {advice.accessed_by.begin(), advice.accessed_by.end()}},
        {cudaMemRangeAttributeLastPrefetchLocation, {advice.prefetched}}};
    const auto found = known.find(attribute);
    if (found == known.end()) {
      refuse(cudaErrorNotSupported, "%s: attribute %d is not known; those from 1 to 4 are.", CALL,
             static_cast<int>(attribute));
    }
    const size_t count = data_bytes / sizeof(int);
    const bool is_list = attribute == cudaMemRangeAttributeAccessedBy;
    require(data != nullptr && data_bytes % sizeof(int) == 0 && (is_list ? count > 0 : count == 1));
    std::fill_n(values, count, cudaInvalidDeviceId);
    std::copy_n(found->second.begin(), std::min(count, found->second.size()), values);
  });
}

cudaError_t cudaMemRangeGetAttributes(void** data, size_t* data_bytes,
                                      cudaMemRangeAttribute* attributes, size_t count,
                                      const void* begin, size_t bytes) {
  if (data == nullptr || data_bytes == nullptr || attributes == nullptr || count == 0) {
    return record(cudaErrorInvalidValue);
  }
  cudaError_t status = cudaSuccess;
  for (size_t i = 0; i < count && status == cudaSuccess; ++i) {
    status = cudaMemRangeGetAttribute(data[i], data_bytes[i], attributes[i], begin, bytes);
  }
  return status;
}

// ---- copies and fills ---------------------------------------------------------------------------

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
  return on_device([&] { submit(stream, copying("cudaMemcpy3DAsync", *params)); });
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* params) {
  return outside_capture([&] {
    require(params != nullptr);
    submit(nullptr, copying("cudaMemcpy3D", *params));
    host_waits(nullptr);
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
  return outside_capture([&] {
    if (const cudaError_t status = cudaMemset3DAsync(dst, value, extent, nullptr)) fail(status);
  });
}

#if CUDART_VERSION >= 13000
// What attributes say changes nothing here: each source is read in the order of the stream.
cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* sizes,
                                 size_t count, cudaMemcpyAttributes* attributes, size_t* firsts,
                                 size_t kinds, cudaStream_t stream) {
  return on_device([&] {
    require(stream != nullptr && stream != cudaStreamLegacy && kinds != 0 && kinds <= count &&
            attributes != nullptr && firsts != nullptr && firsts[0] == 0);
    for (size_t i = 0; i < kinds; ++i) {
      const auto order = attributes[i].srcAccessOrder;
      require(order > cudaMemcpySrcAccessOrderInvalid && order <= cudaMemcpySrcAccessOrderAny &&
              firsts[i] < count && (i == 0 || firsts[i - 1] < firsts[i]));
    }
    for (size_t i = 0; i < count; ++i) {
      copy("cudaMemcpyBatchAsync", line(to[i], from[i], sizes[i]), cudaMemcpyDefault, stream);
    }
  });
}
#endif

}  // extern "C"
}  // namespace machine::runtime
