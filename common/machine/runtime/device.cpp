// The one device, and its properties. It knows nothing of memory or kernels.
#include "common/machine/runtime/device.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/machine/run/settings.h"
#include "common/machine/runtime/status.h"
#include "common/machine/runtime/stream.h"

namespace machine::runtime {
namespace {

constexpr int L2_BYTES = 60 << 20;
constexpr char NAME[] = "PTX machine (a model of an NVIDIA H200)";

// A setting that makes no sense ends the program: there is nobody to return an error to.
int read_sm_count() {
  try {
    return static_cast<int>(settings().sms);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(2);
  }
}

cudaError_t check_device(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

}  // namespace

int sm_count() {
  static const int count = read_sm_count();
  return count;
}

// As an H200 SXM reports them, but for the number of SMs.
int device_attribute(int attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      return MAX_CTA_THREADS;
    case cudaDevAttrMaxBlockDimZ:
      return MAX_CTA_Z;
    case cudaDevAttrMaxGridDimX:
    case cudaDevAttrMaxPitch:
      return MAX_GRID_X;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return MAX_GRID_YZ;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return CTA_SMEM_BYTES;
    case cudaDevAttrTotalConstantMemory:
      return 64 << 10;
    case cudaDevAttrWarpSize:
      return WARP_LANES;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return SM_REGISTERS;
    case cudaDevAttrClockRate:
      return 1980000;  // kHz
    case cudaDevAttrMemoryClockRate:
      return 3201000;  // kHz
    case cudaDevAttrGlobalMemoryBusWidth:
      return 6144;
    case cudaDevAttrTextureAlignment:
    case cudaDevAttrSurfaceAlignment:
      return 512;
    case cudaDevAttrTexturePitchAlignment:
      return 32;
    case cudaDevAttrMultiProcessorCount:
      return sm_count();
    case cudaDevAttrL2CacheSize:
      return L2_BYTES;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return SM_THREADS;
    case cudaDevAttrAsyncEngineCount:
      return 3;
    case cudaDevAttrComputeCapabilityMajor:
      return COMPUTE_CAPABILITY / 10;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio:
      return 2;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return SM_SMEM_BYTES;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return CTA_SMEM_OPTIN_BYTES;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return RESERVED_SMEM_BYTES;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return SM_CTAS;
    case cudaDevAttrMaxPersistingL2CacheSize:
      return L2_BYTES * 5 / 8;
    case cudaDevAttrMaxAccessPolicyWindowSize:
      return 128 << 20;
    case cudaDevAttrMemSyncDomainCount:
      return 4;
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrClusterLaunch:
      return 1;
    // what the machine does not do, and a place on a bus
    case cudaDevAttrComputeCapabilityMinor:
    case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
    case cudaDevAttrPciBusId:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrTccDriver:
    case cudaDevAttrIsMultiGpuBoard:
    case cudaDevAttrMultiGpuBoardGroupID:
    case cudaDevAttrHostNativeAtomicSupported:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrCanFlushRemoteWrites:
    case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
    case cudaDevAttrDirectManagedMemAccessFromHost:
    case cudaDevAttrSparseCudaArraySupported:
    case cudaDevAttrHostRegisterReadOnlySupported:
    case cudaDevAttrTimelineSemaphoreInteropSupported:
    case cudaDevAttrGPUDirectRDMASupported:
    case cudaDevAttrGPUDirectRDMAFlushWritesOptions:
    case cudaDevAttrGPUDirectRDMAWritesOrdering:
    case cudaDevAttrMemoryPoolSupportedHandleTypes:
    case cudaDevAttrDeferredMappingCudaArraySupported:
    case cudaDevAttrIpcEventSupport:
    case cudaDevAttrNumaConfig:
    case cudaDevAttrNumaId:
    case cudaDevAttrMpsEnabled:
    case cudaDevAttrHostNumaId:
      return 0;
    default:
      return -1;
  }
}

}  // namespace machine::runtime

using namespace machine::runtime;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return record(check_device(device));
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return record(check_device(device));
}

cudaError_t cudaSetDeviceFlags(unsigned) {
  return cudaSuccess;
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = cudaDeviceScheduleAuto | cudaDeviceMapHost;
  return cudaSuccess;
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
  return on_device([] { return check_no_capture(); });
}

cudaError_t cudaDeviceReset() {
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device != 0) return record(cudaErrorInvalidDevice);
  const int found = device_attribute(attribute);
  if (found < 0) {
    return record(refuse(cudaErrorInvalidValue, "it knows no device attribute %d.",
                         static_cast<int>(attribute)));
  }
  *value = found;
  return cudaSuccess;
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
  p.warpSize = WARP_LANES;
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

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (device != 0) return record(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<size_t>(length), "0000:00:00.0");
  return cudaSuccess;
}

// The machine's buffers have no limits that a program could raise.
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) {
  return cudaSuccess;
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) {
  return cudaSuccess;
}

cudaError_t cudaCtxResetPersistingL2Cache() {
  return cudaSuccess;
}

cudaError_t cudaProfilerStart() {
  return cudaSuccess;
}

cudaError_t cudaProfilerStop() {
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}

}  // extern "C"
