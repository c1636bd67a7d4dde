// Managed memory. What programs say of it changes nothing here, where there is one memory; it can be
// read back, for an allocation as a whole.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "common/machine/runtime/memory_api.h"
#include "common/machine/runtime/status.h"

namespace machine::runtime {
namespace {

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

struct Advice {
  int read_mostly = 0;
  int preferred = cudaInvalidDeviceId, prefetched = cudaInvalidDeviceId;
  std::set<int> accessed_by;
};

std::mutex mutex;
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
    const std::lock_guard lock(mutex);
    use(advice_by_base[found->base]);
  });
}

}  // namespace

extern "C" {

cudaError_t cudaMallocManaged(void** base, size_t bytes, unsigned) {
  if (bytes == 0) return record(cudaErrorInvalidValue);
  const cudaError_t status = allocate_as("cudaMallocManaged", base, bytes);
  const std::lock_guard lock(mutex);
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

}  // extern "C"
}  // namespace machine::runtime
