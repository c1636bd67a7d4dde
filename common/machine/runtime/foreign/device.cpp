// The device as other people's programs ask for it, and what they say that changes no result here.
#include <cuda_runtime_api.h>

#include <map>

#include "common/machine/runtime/status.h"

using namespace machine::runtime;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
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

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = cudaDeviceScheduleAuto | cudaDeviceMapHost;
  return cudaSuccess;
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

// The machine's buffers have no limits that a program could raise; what it sets it can read.
static std::map<cudaLimit, size_t>& limits() {
  static std::map<cudaLimit, size_t> values = {{cudaLimitStackSize, 1024},
                                               {cudaLimitPrintfFifoSize, size_t{1} << 20},
                                               {cudaLimitMallocHeapSize, size_t{8} << 20},
                                               {cudaLimitMaxL2FetchGranularity, 64},
                                               {cudaLimitPersistingL2CacheSize, 0}};
  return values;
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  limits()[limit] = value;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  if (!limits().contains(limit)) return record(cudaErrorUnsupportedLimit);
  *value = limits()[limit];
  return cudaSuccess;
}

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
