// What else programs ask of the device, and what they say to it that changes no result here. It knows
// nothing of memory or kernels.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <map>

#include "common/machine/runtime/status.h"

namespace machine::runtime {
namespace {

// The machine's buffers have no limits that a program could raise; what it sets it can read.
std::map<cudaLimit, size_t>& limits() {
  static std::map<cudaLimit, size_t> values = {{cudaLimitStackSize, 1024},
                                               {cudaLimitPrintfFifoSize, size_t{1} << 20},
                                               {cudaLimitMallocHeapSize, size_t{8} << 20},
                                               {cudaLimitDevRuntimePendingLaunchCount, 2048},
                                               {cudaLimitMaxL2FetchGranularity, 64},
                                               {cudaLimitPersistingL2CacheSize, 0}};
  return values;
}

}  // namespace

extern "C" {

// "domain:bus:device.function"; domain and function may be missing.
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  if (device == nullptr || id == nullptr) return record(cudaErrorInvalidValue);
  unsigned part[4] = {};
  const int parts = std::sscanf(id, "%x:%x:%x.%x", part, part + 1, part + 2, part + 3);
  if (parts < 2) return record(cudaErrorInvalidValue);
  *device = 0;
  const bool is_mine = (part[0] | part[1] | part[2] | part[3]) == 0;
  return record(is_mine ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceCount(int* count) {
  initialise();
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* properties) {
  if (device == nullptr || properties == nullptr) return record(cudaErrorInvalidValue);
  return cudaGetDevice(device);
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return cudaSetDevice(device);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  enter_context();
  if (!limits().contains(limit)) return record(cudaErrorUnsupportedLimit);
  limits()[limit] = value;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  if (!limits().contains(limit)) return record(cudaErrorUnsupportedLimit);
  *value = limits()[limit];
  return cudaSuccess;
}

// ---- Calls that always say the same -------------------------------------------------------------

#define SAYS(call, T, answer)  \
  cudaError_t call(T* given) { \
    *given = answer;           \
    return cudaSuccess;        \
  }                            \
  static_assert(true)

SAYS(cudaRuntimeGetVersion, int, CUDART_VERSION);
SAYS(cudaGetDeviceFlags, unsigned, cudaDeviceScheduleAuto | cudaDeviceMapHost);
SAYS(cudaDeviceGetCacheConfig, cudaFuncCache, cudaFuncCachePreferNone);
SAYS(cudaDeviceGetSharedMemConfig, cudaSharedMemConfig, cudaSharedMemBankSizeFourByte);

// ---- Calls that change nothing ------------------------------------------------------------------

#define CHANGES_NOTHING(call, ...) \
  cudaError_t call(__VA_ARGS__) {  \
    return cudaSuccess;            \
  }                                \
  static_assert(true, "a call that changes nothing")

CHANGES_NOTHING(cudaDeviceReset);
CHANGES_NOTHING(cudaDeviceGraphMemTrim, int);
CHANGES_NOTHING(cudaSetDeviceFlags, unsigned);
CHANGES_NOTHING(cudaProfilerStart);
CHANGES_NOTHING(cudaProfilerStop);
// Caches, access windows and priorities cost time alone.
CHANGES_NOTHING(cudaDeviceSetCacheConfig, cudaFuncCache);
CHANGES_NOTHING(cudaFuncSetCacheConfig, const void*, cudaFuncCache);
CHANGES_NOTHING(cudaDeviceSetSharedMemConfig, cudaSharedMemConfig);
CHANGES_NOTHING(cudaFuncSetSharedMemConfig, const void*, cudaSharedMemConfig);
CHANGES_NOTHING(cudaCtxResetPersistingL2Cache);
CHANGES_NOTHING(cudaStreamAttachMemAsync, cudaStream_t, void*, size_t, unsigned);
// A pool holds nothing that is not in use.
CHANGES_NOTHING(cudaMemPoolTrimTo, cudaMemPool_t, size_t);
CHANGES_NOTHING(cudaMemPoolSetAccess, cudaMemPool_t, const cudaMemAccessDesc*, size_t);

}  // extern "C"
}  // namespace machine::runtime
