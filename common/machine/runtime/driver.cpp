// The driver as the ladder asks for it: whether it is there, tensor maps, entry points; and in which
// threads it is ready. It knows nothing of work.
#include "common/machine/runtime/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "common/machine/ops/tensor_map.h"

// Generated: pairs of names, as cuda.h renames cuMemAlloc to cuMemAlloc_v2; the last is null.
extern "C" const char* const ptx_machine_renamed[];

namespace machine::runtime {
namespace {

std::atomic<bool> is_initialised{false};
thread_local bool in_driver = false;

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

constinit thread_local int contexts = 0;

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

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  initialise();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
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

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return forward([&] {
    return cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device);
  });
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
