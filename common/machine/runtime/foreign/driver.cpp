// The driver's calls that concern no work: errors, devices, contexts.
#include <algorithm>
#include <cstring>

#include "common/machine/runtime/device.h"
#include "common/machine/runtime/foreign/forward.h"
#include "common/machine/runtime/memory_api.h"

namespace machine::runtime {
namespace {

CUresult check_device(CUdevice device) {
  if (const CUresult missing = check_initialised()) return missing;
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult give_context(CUcontext* context, CUdevice device = 0) {
  static char the_context;
  *context = reinterpret_cast<CUcontext>(&the_context);
  return check_device(device);
}

CUresult create_context(CUcontext* context, CUdevice device) {
  const CUresult status = give_context(context, device);
  if (status == CUDA_SUCCESS) ++contexts;
  return status;
}

}  // namespace

extern "C" {

CUresult cuGetErrorName(CUresult status, const char** name) {
  *name = driver_error_name(status);
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult status, const char** text) {
  *text = driver_error_name(status) == nullptr ? nullptr : error_text(status);
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// ---- devices ------------------------------------------------------------------------------------

CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return check_initialised();
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = 0;
  return check_device(ordinal);
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  std::memcpy(uuid->bytes, "PTX machine\0\0\0\0", sizeof uuid->bytes);
  return check_device(device);
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  *bytes = device_bytes();
  return check_device(device);
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  *major = COMPUTE_CAPABILITY / 10;
  *minor = COMPUTE_CAPABILITY % 10;
  return check_device(device);
}

FORWARD3(cuDeviceCanAccessPeer, cudaDeviceCanAccessPeer, int*, CUdevice, CUdevice);
FORWARD3(cuDeviceGetPCIBusId, cudaDeviceGetPCIBusId, char*, int, CUdevice);
FORWARD2(cuDeviceGetByPCIBusId, cudaDeviceGetByPCIBusId, CUdevice*, const char*);

// ---- contexts -----------------------------------------------------------------------------------

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return give_context(context, device);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return check_device(device);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned) {
  return check_device(device);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return check_device(device);
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  return create_context(context, device);
}

#if CUDA_VERSION >= 13000
CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned, CUdevice device) {
  return create_context(context, device);
}
#endif

CUresult cuCtxPushCurrent(CUcontext context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  ++contexts;
  return check_initialised();
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  if (const CUresult missing = check_context()) return missing;
  --contexts;
  CUcontext popped;
  return give_context(context == nullptr ? &popped : context);
}

// Takes the place of the last one on the stack.
CUresult cuCtxSetCurrent(CUcontext context) {
  contexts = std::max(contexts - 1, 0) + (context == nullptr ? 0 : 1);
  return check_initialised();
}

CUresult cuCtxDestroy(CUcontext) {
  return cuCtxSetCurrent(nullptr);
}

CUresult cuCtxDetach(CUcontext context) {
  return cuCtxDestroy(context);
}

CUresult cuCtxResetPersistingL2Cache() {
  return check_context();
}

FORWARD1(cuCtxGetCacheConfig, cudaDeviceGetCacheConfig, CUfunc_cache*);
FORWARD1(cuCtxSetCacheConfig, cudaDeviceSetCacheConfig, CUfunc_cache);
FORWARD2(cuCtxGetLimit, cudaDeviceGetLimit, size_t*, CUlimit);
FORWARD2(cuCtxSetLimit, cudaDeviceSetLimit, CUlimit, size_t);
FORWARD1(cuCtxGetFlags, cudaGetDeviceFlags, unsigned*);

FORWARD2(cuCtxGetStreamPriorityRange, cudaDeviceGetStreamPriorityRange, int*, int*);

CUresult cuCtxGetCurrent(CUcontext* context) {
  const CUresult status = give_context(context);
  if (contexts == 0) *context = nullptr;
  return status;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return check_context();
}

CUresult cuCtxSynchronize() {
  return forward(cudaDeviceSynchronize);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  unsigned flags = 0;
  give_context(context);
  return forward(cudaStreamGetFlags, stream, &flags);
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  *version = 3020;  // what every driver says
  return CUDA_SUCCESS;
}

}  // extern "C"
}  // namespace machine::runtime
