// The driver's calls that concern no work: errors, devices, contexts, tensor maps, entry points.
#include "common/machine/runtime/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "common/machine/ops/tensor_map.h"
#include "common/machine/runtime/device.h"
#include "common/machine/runtime/memory_api.h"

// Generated: pairs of names, as cuda.h renames cuMemAlloc to cuMemAlloc_v2; the last is null.
extern "C" const char* const ptx_machine_renamed[];

namespace machine::runtime {
namespace {

std::atomic<bool> is_initialised{false};
thread_local bool in_driver = false;
thread_local int contexts = 0;  // on this thread's stack, each of them the one that there is

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

// By the name in the documentation, as a program that was compiled for `version` calls it.
void* entry_point(const std::string& name, int version) {
  std::string exported = name;
  for (const char* const* pair = ptx_machine_renamed; *pair != nullptr; pair += 2) {
    if (name == pair[0]) exported = pair[1];
  }
  if (version < 13000 && name == "cuCtxCreate") exported = "cuCtxCreate_v2";
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&cuInit), &self) == 0) return nullptr;
  void* const library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : dlsym(library, exported.c_str());
}

cudaError_t find_entry_point(const char* name, void** function, unsigned version,
                             cudaDriverEntryPointQueryResult* result) {
  if (name == nullptr || function == nullptr) return cudaErrorInvalidValue;
  *function = entry_point(name, static_cast<int>(version));
  if (result != nullptr) {
    *result =
        *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  }
  return cudaSuccess;
}

CUresult refuse_argument(const char* call, const std::string& sentence) {
  std::fprintf(stderr, "PTX machine: %s: %s\n", call, sentence.c_str());
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

void initialise() {
  is_initialised = true;
}

bool enter_context() {
  if (!in_driver) {
    initialise();
    contexts = std::max(contexts, 1);
  }
  return contexts > 0;
}

CUresult check_initialised() {
  return is_initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult check_context() {
  if (const CUresult missing = check_initialised()) return missing;
  return contexts > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

bool exchange_in_driver(bool value) {
  return std::exchange(in_driver, value);
}

extern "C" {

// ---- errors and versions ------------------------------------------------------------------------

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  initialise();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

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

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return forward([&] {
    cudaDeviceProp properties;
    const cudaError_t status = cudaGetDeviceProperties(&properties, device);
    if (status == cudaSuccess) {
      std::snprintf(name, static_cast<size_t>(length), "%s", properties.name);
    }
    return status;
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  std::memcpy(uuid->bytes, "PTX machine\0\0\0\0", sizeof uuid->bytes);
  return check_device(device);
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  *bytes = device_bytes();
  return check_device(device);
}

FORWARD3(cuDeviceGetAttribute, cudaDeviceGetAttribute, int*, CUdevice_attribute, CUdevice);

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

// ---- tensor maps --------------------------------------------------------------------------------

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* base, const cuuint64_t* dims, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion l2_promotion,
                                CUtensorMapFloatOOBfill oob_fill) {
  static_assert(sizeof(cuuint64_t) == 8 && sizeof(cuuint32_t) == 4);
  if (const CUresult missing = check_context()) return missing;
  if (map == nullptr || reinterpret_cast<uint64_t>(map) % 64 != 0) {
    return refuse_argument("cuTensorMapEncodeTiled",
                           "the tensor map must lie at a multiple of 64 bytes.");
  }
  TensorMap made;
  const std::string wrong =
      encode_tiled({type, rank, reinterpret_cast<uint64_t>(base), dims, strides, box,
                    element_strides, interleave, swizzle, l2_promotion, oob_fill},
                   &made);
  if (!wrong.empty()) return refuse_argument("cuTensorMapEncodeTiled", wrong);
  std::memset(static_cast<void*>(map), 0, sizeof *map);
  std::memcpy(static_cast<void*>(map), &made, sizeof made);
  return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* base) {
  TensorMap made;
  std::memcpy(static_cast<void*>(&made), map, sizeof made);
  const std::string wrong = replace_address(reinterpret_cast<uint64_t>(base), &made);
  if (!wrong.empty()) return refuse_argument("cuTensorMapReplaceAddress", wrong);
  std::memcpy(static_cast<void*>(map), &made, sizeof made);
  return CUDA_SUCCESS;
}

// ---- entry points -------------------------------------------------------------------------------

CUresult cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t,
                             CUdriverProcAddressQueryResult* result) {
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status =
      find_entry_point(name, function, static_cast<unsigned>(version), &found);
  if (result != nullptr) *result = static_cast<CUdriverProcAddressQueryResult>(found);
  if (status != cudaSuccess) return to_driver(status);
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  initialise();
  return record(find_entry_point(name, function, version, result));
}

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(name, function, CUDA_VERSION, flags, result);
}

}  // extern "C"
}  // namespace machine::runtime
