// The one device and its properties. It knows nothing of memory or kernels.
#include "common/machine/runtime/device.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <variant>

#include "common/machine/run/settings.h"
#include "common/machine/runtime/memory_api.h"

namespace machine::runtime {
int sm_count() {
  static const auto count = static_cast<int>(settings().sms);
  return count;
}

namespace {

constexpr int L2_BYTES = 60 << 20;
constexpr char NAME[] = "PTX machine (a model of an NVIDIA H200)";

constexpr int ATTRIBUTES_END = CU_DEVICE_ATTRIBUTE_MAX;

// As an H200 SXM reports them, but for the number of SMs; cudaDeviceProp has some of them too.
using P = cudaDeviceProp;
struct Attribute {
  cudaDeviceAttr id;
  int value;
  std::variant<std::monostate, int P::*, size_t P::*> property = {};
};
constexpr Attribute ATTRIBUTES[] = {
    {cudaDevAttrMaxThreadsPerBlock, MAX_CTA_THREADS, &P::maxThreadsPerBlock},
    {cudaDevAttrMaxBlockDimX, MAX_CTA_THREADS},
    {cudaDevAttrMaxBlockDimY, MAX_CTA_THREADS},
    {cudaDevAttrMaxBlockDimZ, MAX_CTA_Z},
    {cudaDevAttrMaxGridDimX, MAX_GRID_X},
    {cudaDevAttrMaxPitch, MAX_GRID_X, &P::memPitch},
    {cudaDevAttrMaxGridDimY, MAX_GRID_YZ},
    {cudaDevAttrMaxGridDimZ, MAX_GRID_YZ},
    {cudaDevAttrMaxSharedMemoryPerBlock, CTA_SMEM_BYTES, &P::sharedMemPerBlock},
    {cudaDevAttrTotalConstantMemory, 64 << 10, &P::totalConstMem},
    {cudaDevAttrWarpSize, WARP_THREADS, &P::warpSize},
    {cudaDevAttrMaxRegistersPerBlock, SM_REGISTERS, &P::regsPerBlock},
    {cudaDevAttrMaxRegistersPerMultiprocessor, SM_REGISTERS, &P::regsPerMultiprocessor},
    {cudaDevAttrClockRate, 1980000},        // kHz
    {cudaDevAttrMemoryClockRate, 3201000},  // kHz
    {cudaDevAttrGlobalMemoryBusWidth, 6144, &P::memoryBusWidth},
    {cudaDevAttrTextureAlignment, 512, &P::textureAlignment},
    {cudaDevAttrSurfaceAlignment, 512, &P::surfaceAlignment},
    {cudaDevAttrTexturePitchAlignment, 32, &P::texturePitchAlignment},
    {cudaDevAttrL2CacheSize, L2_BYTES, &P::l2CacheSize},
    {cudaDevAttrMaxThreadsPerMultiProcessor, SM_THREADS, &P::maxThreadsPerMultiProcessor},
    {cudaDevAttrAsyncEngineCount, 3, &P::asyncEngineCount},
    {cudaDevAttrComputeCapabilityMajor, COMPUTE_CAPABILITY / 10, &P::major},
    {cudaDevAttrComputeCapabilityMinor, COMPUTE_CAPABILITY % 10, &P::minor},
    {cudaDevAttrSingleToDoublePrecisionPerfRatio, 2},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, SM_SMEM_BYTES, &P::sharedMemPerMultiprocessor},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, CTA_SMEM_OPTIN_BYTES, &P::sharedMemPerBlockOptin},
    {cudaDevAttrReservedSharedMemoryPerBlock, RESERVED_SMEM_BYTES, &P::reservedSharedMemPerBlock},
    {cudaDevAttrMaxBlocksPerMultiprocessor, SM_CTAS, &P::maxBlocksPerMultiProcessor},
    {cudaDevAttrMaxPersistingL2CacheSize, L2_BYTES * 5 / 8, &P::persistingL2CacheMaxSize},
    {cudaDevAttrMaxAccessPolicyWindowSize, 128 << 20, &P::accessPolicyMaxWindowSize},
    {cudaDevAttrMemSyncDomainCount, 4},
    // What it does.
    {cudaDevAttrCanMapHostMemory, 1, &P::canMapHostMemory},
    {cudaDevAttrConcurrentKernels, 1, &P::concurrentKernels},
    {cudaDevAttrEccEnabled, 1, &P::ECCEnabled},
    {cudaDevAttrUnifiedAddressing, 1, &P::unifiedAddressing},
    {cudaDevAttrStreamPrioritiesSupported, 1, &P::streamPrioritiesSupported},
    {cudaDevAttrGlobalL1CacheSupported, 1, &P::globalL1CacheSupported},
    {cudaDevAttrLocalL1CacheSupported, 1, &P::localL1CacheSupported},
    {cudaDevAttrManagedMemory, 1, &P::managedMemory},
    {cudaDevAttrConcurrentManagedAccess, 1, &P::concurrentManagedAccess},
    {cudaDevAttrComputePreemptionSupported, 1, &P::computePreemptionSupported},
    {cudaDevAttrCanUseHostPointerForRegisteredMem, 1, &P::canUseHostPointerForRegisteredMem},
    {cudaDevAttrCooperativeLaunch, 1, &P::cooperativeLaunch},
    {cudaDevAttrHostRegisterSupported, 1, &P::hostRegisterSupported},
    {cudaDevAttrMemoryPoolsSupported, 1, &P::memoryPoolsSupported},
    {cudaDevAttrClusterLaunch, 1, &P::clusterLaunch},
    {cudaDevAttrGpuOverlap, 1},
    // cuStreamWriteValue32 and its kin, as two versions ask for it
    {cudaDevAttrReserved92, 1},
    {cudaDevAttrReserved93, 1},
    {cudaDevAttrReserved94, 1},
    {cudaDevAttrReserved122, 1},
    {cudaDevAttrReserved123, 1},
};
// 0 for what the machine does not do, and for a place on a bus; -1 for what is no attribute.
int device_attribute(int attribute) {
  if (attribute == cudaDevAttrMultiProcessorCount) return sm_count();
  for (const Attribute& known : ATTRIBUTES) {
    if (known.id == attribute) return known.value;
  }
  return attribute >= cudaDevAttrMaxThreadsPerBlock && attribute < ATTRIBUTES_END ? 0 : -1;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device == 0) enter_context();
  return record(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDriverGetVersion(int* version) {
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
  initialise();
  if (device != 0) return record(cudaErrorInvalidDevice);
  P p{};
  for (const Attribute& known : ATTRIBUTES) {
    if (const auto* const at = std::get_if<int P::*>(&known.property)) p.** at = known.value;
    if (const auto* const at = std::get_if<size_t P::*>(&known.property)) {
      p.** at = static_cast<size_t>(known.value);
    }
  }
  std::strcpy(p.name, NAME);
  p.totalGlobalMem = device_bytes();
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = MAX_CTA_THREADS;
  p.maxThreadsDim[2] = MAX_CTA_Z;
  p.maxGridSize[0] = MAX_GRID_X;
  p.maxGridSize[1] = p.maxGridSize[2] = MAX_GRID_YZ;
  p.multiProcessorCount = sm_count();
#if CUDART_VERSION < 13000
  p.clockRate = device_attribute(cudaDevAttrClockRate);
  p.memoryClockRate = device_attribute(cudaDevAttrMemoryClockRate);
  p.deviceOverlap = 1;
  p.singleToDoublePrecisionPerfRatio =
      device_attribute(cudaDevAttrSingleToDoublePrecisionPerfRatio);
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

}  // extern "C"
}  // namespace machine::runtime
