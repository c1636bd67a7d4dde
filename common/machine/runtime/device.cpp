// The one device, its properties, and what programs say to it that changes no result here. It knows
// nothing of memory or kernels.
#include "common/machine/runtime/device.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <map>

#include "common/machine/run/settings.h"
#include "common/machine/runtime/status.h"
#include "common/machine/runtime/stream.h"

namespace machine::runtime {
int sm_count() {
  static const auto count = static_cast<int>(settings().sms);
  return count;
}

namespace {

constexpr int L2_BYTES = 60 << 20;
constexpr char NAME[] = "PTX machine (a model of an NVIDIA H200)";

// As an H200 SXM reports them, but for the number of SMs.
struct Attribute {
  cudaDeviceAttr id;
  int value;
};
constexpr Attribute ATTRIBUTES[] = {
    {cudaDevAttrMaxThreadsPerBlock, MAX_CTA_THREADS},
    {cudaDevAttrMaxBlockDimX, MAX_CTA_THREADS},
    {cudaDevAttrMaxBlockDimY, MAX_CTA_THREADS},
    {cudaDevAttrMaxBlockDimZ, MAX_CTA_Z},
    {cudaDevAttrMaxGridDimX, MAX_GRID_X},
    {cudaDevAttrMaxPitch, MAX_GRID_X},
    {cudaDevAttrMaxGridDimY, MAX_GRID_YZ},
    {cudaDevAttrMaxGridDimZ, MAX_GRID_YZ},
    {cudaDevAttrMaxSharedMemoryPerBlock, CTA_SMEM_BYTES},
    {cudaDevAttrTotalConstantMemory, 64 << 10},
    {cudaDevAttrWarpSize, WARP_THREADS},
    {cudaDevAttrMaxRegistersPerBlock, SM_REGISTERS},
    {cudaDevAttrMaxRegistersPerMultiprocessor, SM_REGISTERS},
    {cudaDevAttrClockRate, 1980000},        // kHz
    {cudaDevAttrMemoryClockRate, 3201000},  // kHz
    {cudaDevAttrGlobalMemoryBusWidth, 6144},
    {cudaDevAttrTextureAlignment, 512},
    {cudaDevAttrSurfaceAlignment, 512},
    {cudaDevAttrTexturePitchAlignment, 32},
    {cudaDevAttrL2CacheSize, L2_BYTES},
    {cudaDevAttrMaxThreadsPerMultiProcessor, SM_THREADS},
    {cudaDevAttrAsyncEngineCount, 3},
    {cudaDevAttrComputeCapabilityMajor, COMPUTE_CAPABILITY / 10},
    {cudaDevAttrSingleToDoublePrecisionPerfRatio, 2},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, SM_SMEM_BYTES},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, CTA_SMEM_OPTIN_BYTES},
    {cudaDevAttrReservedSharedMemoryPerBlock, RESERVED_SMEM_BYTES},
    {cudaDevAttrMaxBlocksPerMultiprocessor, SM_CTAS},
    {cudaDevAttrMaxPersistingL2CacheSize, L2_BYTES * 5 / 8},
    {cudaDevAttrMaxAccessPolicyWindowSize, 128 << 20},
    {cudaDevAttrMemSyncDomainCount, 4},
};
constexpr cudaDeviceAttr YES[] = {
    cudaDevAttrGpuOverlap, cudaDevAttrCanMapHostMemory, cudaDevAttrConcurrentKernels,
    cudaDevAttrEccEnabled, cudaDevAttrUnifiedAddressing, cudaDevAttrStreamPrioritiesSupported,
    cudaDevAttrGlobalL1CacheSupported, cudaDevAttrLocalL1CacheSupported, cudaDevAttrManagedMemory,
    cudaDevAttrConcurrentManagedAccess, cudaDevAttrComputePreemptionSupported,
    cudaDevAttrCanUseHostPointerForRegisteredMem, cudaDevAttrCooperativeLaunch,
    cudaDevAttrHostRegisterSupported, cudaDevAttrMemoryPoolsSupported, cudaDevAttrClusterLaunch,
    // cuStreamWriteValue32 and its kin, as two versions ask for it
    cudaDevAttrReserved92, cudaDevAttrReserved93, cudaDevAttrReserved94, cudaDevAttrReserved122,
    cudaDevAttrReserved123};
// What the machine does not do, and a place on a bus.
constexpr cudaDeviceAttr NO[] = {cudaDevAttrComputeCapabilityMinor,
                                 cudaDevAttrKernelExecTimeout,
                                 cudaDevAttrIntegrated,
                                 cudaDevAttrComputeMode,
                                 cudaDevAttrPciBusId,
                                 cudaDevAttrPciDeviceId,
                                 cudaDevAttrPciDomainId,
                                 cudaDevAttrTccDriver,
                                 cudaDevAttrIsMultiGpuBoard,
                                 cudaDevAttrMultiGpuBoardGroupID,
                                 cudaDevAttrHostNativeAtomicSupported,
                                 cudaDevAttrPageableMemoryAccess,
                                 cudaDevAttrCanFlushRemoteWrites,
                                 cudaDevAttrPageableMemoryAccessUsesHostPageTables,
                                 cudaDevAttrDirectManagedMemAccessFromHost,
                                 cudaDevAttrSparseCudaArraySupported,
                                 cudaDevAttrHostRegisterReadOnlySupported,
                                 cudaDevAttrTimelineSemaphoreInteropSupported,
                                 cudaDevAttrGPUDirectRDMASupported,
                                 cudaDevAttrGPUDirectRDMAFlushWritesOptions,
                                 cudaDevAttrGPUDirectRDMAWritesOrdering,
                                 cudaDevAttrMemoryPoolSupportedHandleTypes,
                                 cudaDevAttrDeferredMappingCudaArraySupported,
                                 cudaDevAttrIpcEventSupport,
                                 cudaDevAttrNumaConfig,
                                 cudaDevAttrNumaId,
                                 cudaDevAttrMpsEnabled,
                                 cudaDevAttrHostNumaId};

// -1 for an attribute that the machine does not know.
int device_attribute(int attribute) {
  if (attribute == cudaDevAttrMultiProcessorCount) return sm_count();
  for (const auto& [id, value] : ATTRIBUTES) {
    if (id == attribute) return value;
  }
  for (const cudaDeviceAttr id : YES) {
    if (id == attribute) return 1;
  }
  for (const cudaDeviceAttr id : NO) {
    if (id == attribute) return 0;
  }
  return -1;
}

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

}  // namespace machine::runtime

using namespace machine;
using namespace machine::runtime;

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return record(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  return outside_capture(end_all_grids);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return attempt([&] {
    require(device == 0, cudaErrorInvalidDevice);
    const int found = device_attribute(attribute);
    if (found < 0) {
      refuse(cudaErrorInvalidValue, "it knows no device attribute %d.",
             static_cast<int>(attribute));
    }
    *value = found;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return record(cudaErrorInvalidDevice);
  const auto value = [](cudaDeviceAttr attribute) { return device_attribute(attribute); };
  cudaDeviceProp p{};
  std::strcpy(p.name, NAME);
  size_t free_bytes = 0;
  cudaMemGetInfo(&free_bytes, &p.totalGlobalMem);
  p.sharedMemPerBlock = CTA_SMEM_BYTES;
  p.regsPerBlock = SM_REGISTERS;
  p.warpSize = WARP_THREADS;
  p.memPitch = MAX_GRID_X;
  p.maxThreadsPerBlock = MAX_CTA_THREADS;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = MAX_CTA_THREADS;
  p.maxThreadsDim[2] = MAX_CTA_Z;
  p.maxGridSize[0] = MAX_GRID_X;
  p.maxGridSize[1] = p.maxGridSize[2] = MAX_GRID_YZ;
  p.totalConstMem = static_cast<size_t>(value(cudaDevAttrTotalConstantMemory));
  p.major = COMPUTE_CAPABILITY / 10;
  p.minor = COMPUTE_CAPABILITY % 10;
  p.textureAlignment = static_cast<size_t>(value(cudaDevAttrTextureAlignment));
  p.texturePitchAlignment = static_cast<size_t>(value(cudaDevAttrTexturePitchAlignment));
  p.surfaceAlignment = static_cast<size_t>(value(cudaDevAttrSurfaceAlignment));
  p.multiProcessorCount = sm_count();
  p.canMapHostMemory = 1;
  p.concurrentKernels = 1;
  p.ECCEnabled = 1;
  p.asyncEngineCount = value(cudaDevAttrAsyncEngineCount);
  p.unifiedAddressing = 1;
  p.memoryBusWidth = value(cudaDevAttrGlobalMemoryBusWidth);
  p.l2CacheSize = L2_BYTES;
  p.persistingL2CacheMaxSize = value(cudaDevAttrMaxPersistingL2CacheSize);
  p.maxThreadsPerMultiProcessor = SM_THREADS;
  p.streamPrioritiesSupported = 1;
  p.globalL1CacheSupported = 1;
  p.localL1CacheSupported = 1;
  p.sharedMemPerMultiprocessor = SM_SMEM_BYTES;
  p.regsPerMultiprocessor = SM_REGISTERS;
  p.managedMemory = 1;
  p.concurrentManagedAccess = 1;
  p.computePreemptionSupported = 1;
  p.canUseHostPointerForRegisteredMem = 1;
  p.cooperativeLaunch = 1;
  p.sharedMemPerBlockOptin = CTA_SMEM_OPTIN_BYTES;
  p.maxBlocksPerMultiProcessor = SM_CTAS;
  p.accessPolicyMaxWindowSize = value(cudaDevAttrMaxAccessPolicyWindowSize);
  p.reservedSharedMemPerBlock = RESERVED_SMEM_BYTES;
  p.hostRegisterSupported = 1;
  p.memoryPoolsSupported = 1;
  p.clusterLaunch = 1;
#if CUDART_VERSION < 13000
  p.clockRate = value(cudaDevAttrClockRate);
  p.memoryClockRate = value(cudaDevAttrMemoryClockRate);
  p.deviceOverlap = 1;
  p.singleToDoublePrecisionPerfRatio = value(cudaDevAttrSingleToDoublePrecisionPerfRatio);
#endif
  *properties = p;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (device != 0) return record(cudaErrorInvalidDevice);
  if (id == nullptr || length <= 0) return record(cudaErrorInvalidValue);
  std::snprintf(id, static_cast<size_t>(length), "0000:00:00.0");
  return cudaSuccess;
}

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

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  if (!limits().contains(limit)) return record(cudaErrorUnsupportedLimit);
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
