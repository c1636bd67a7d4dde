// The driver's calls that load code, move memory and launch.
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/machine/memory.h"
#include "common/machine/runtime/driver.h"
#include "common/machine/runtime/function.h"
#include "common/machine/runtime/launch.h"
#include "common/machine/runtime/memory_api.h"

namespace machine::runtime {
namespace {

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

Function* function_of(CUfunction handle) {
  return find_function(reinterpret_cast<const void*>(handle));
}

// `extra` is CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, END.
cudaError_t read_extra(const Kernel& kernel, void** extra, std::vector<std::byte>* parameters) {
  const void* block = nullptr;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) block = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<const size_t*>(extra[1]);
  }
  if (block == nullptr || bytes < kernel.param_bytes) return cudaErrorInvalidValue;
  parameters->resize(kernel.param_bytes);
  std::memcpy(parameters->data(), block, kernel.param_bytes);
  return cudaSuccess;
}

CUresult launch_function(CUfunction handle, const LaunchRequest& request, CUstream stream,
                         void** arguments, void** extra) {
  return forward([&] {
    return on_device([&] {
      Function* const function = function_of(handle);
      if (extra == nullptr) return launch(function, request, arguments, stream);
      const Code* code = nullptr;
      cudaError_t status = load_code(function, &code);
      if (status != cudaSuccess) return status;
      std::vector<std::byte> parameters;
      status = read_extra(*code->kernel, extra, &parameters);
      if (status != cudaSuccess) return status;
      Work work;
      status = make_work(function, request, std::move(parameters), &work);
      return status != cudaSuccess ? status
                                   : submit(stream, cudaGraphNodeTypeKernel, std::move(work));
    });
  });
}

// The runtime's view of a driver's configuration: the attributes have the same layout.
cudaLaunchConfig_t to_runtime(const CUlaunchConfig& config) {
  static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute));
  cudaLaunchConfig_t made{};
  made.gridDim = dim3(config.gridDimX, config.gridDimY, config.gridDimZ);
  made.blockDim = dim3(config.blockDimX, config.blockDimY, config.blockDimZ);
  made.dynamicSmemBytes = config.sharedMemBytes;
  made.stream = config.hStream;
  made.attrs = reinterpret_cast<cudaLaunchAttribute*>(config.attrs);
  made.numAttrs = config.numAttrs;
  return made;
}

CUresult fill_memory(CUdeviceptr dst, unsigned value, unsigned element_bytes, size_t count,
                     CUstream stream) {
  const Fill what{pointer(dst), count * element_bytes, value, element_bytes, count, 1};
  return forward([&] { return on_device([&] { return fill("cuMemset", what, stream); }); });
}

CUresult copy_memory(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  return forward([&] { return cudaMemcpy(dst, src, bytes, kind); });
}

CUresult copy_memory(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                     CUstream stream) {
  return forward([&] { return cudaMemcpyAsync(dst, src, bytes, kind, stream); });
}

}  // namespace
}  // namespace machine::runtime

using namespace machine::runtime;

extern "C" {

// ---- code ---------------------------------------------------------------------------------------
// A module is a library, and a function a kernel.

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  return forward([&] {
    return cudaLibraryLoadData(reinterpret_cast<cudaLibrary_t*>(library), code, nullptr, nullptr, 0,
                               nullptr, nullptr, 0);
  });
}

CUresult cuLibraryUnload(CUlibrary library) {
  return forward([&] { return cudaLibraryUnload(reinterpret_cast<cudaLibrary_t>(library)); });
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return forward([&] {
    return cudaLibraryGetKernel(reinterpret_cast<cudaKernel_t*>(kernel),
                                reinterpret_cast<cudaLibrary_t>(library), name);
  });
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  *module = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library,
                            const char* name) {
  return forward([&] {
    return cudaLibraryGetGlobal(reinterpret_cast<void**>(address), bytes,
                                reinterpret_cast<cudaLibrary_t>(library), name);
  });
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* code) {
  return cuLibraryLoadData(reinterpret_cast<CUlibrary*>(module), code, nullptr, nullptr, 0, nullptr,
                           nullptr, 0);
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* code, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, code);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* code) {
  return cuModuleLoadData(module, code);
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return forward([&] {
    return cudaLibraryLoadFromFile(reinterpret_cast<cudaLibrary_t*>(module), path, nullptr, nullptr,
                                   0, nullptr, nullptr, 0);
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return cuLibraryUnload(reinterpret_cast<CUlibrary>(module));
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return cuLibraryGetKernel(reinterpret_cast<CUkernel*>(function),
                            reinterpret_cast<CUlibrary>(module), name);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
  return cuLibraryGetGlobal(address, bytes, reinterpret_cast<CUlibrary>(module), name);
}

// ---- functions ----------------------------------------------------------------------------------

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return forward([&] {
    return cudaFuncSetAttribute(reinterpret_cast<const void*>(function),
                                static_cast<cudaFuncAttribute>(attribute), value);
  });
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice) {
  return cuFuncSetAttribute(reinterpret_cast<CUfunction>(kernel), attribute, value);
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return forward([&] {
    cudaFuncAttributes all;
    const cudaError_t status = cudaFuncGetAttributes(&all, reinterpret_cast<const void*>(function));
    if (status != cudaSuccess) return status;
    const int values[] = {all.maxThreadsPerBlock,
                          static_cast<int>(all.sharedSizeBytes),
                          static_cast<int>(all.constSizeBytes),
                          static_cast<int>(all.localSizeBytes),
                          all.numRegs,
                          all.ptxVersion,
                          all.binaryVersion,
                          all.cacheModeCA,
                          all.maxDynamicSharedSizeBytes,
                          all.preferredShmemCarveout,
                          all.clusterDimMustBeSet,
                          all.requiredClusterWidth,
                          all.requiredClusterHeight,
                          all.requiredClusterDepth,
                          all.nonPortableClusterSizeAllowed,
                          all.clusterSchedulingPolicyPreference};
    if (attribute < 0 || static_cast<size_t>(attribute) >= std::size(values)) {
      return cudaErrorInvalidValue;
    }
    *value = values[attribute];
    return cudaSuccess;
  });
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice) {
  return cuFuncGetAttribute(value, attribute, reinterpret_cast<CUfunction>(kernel));
}

CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* ctas, CUfunction function, int threads,
                                                     size_t smem_bytes) {
  return forward([&] {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        ctas, reinterpret_cast<const void*>(function), threads, smem_bytes);
  });
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function,
                                      const CUlaunchConfig* config) {
  const cudaLaunchConfig_t made = to_runtime(*config);
  return forward([&] {
    return cudaOccupancyMaxActiveClusters(clusters, reinterpret_cast<const void*>(function), &made);
  });
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function,
                                            const CUlaunchConfig* config) {
  const cudaLaunchConfig_t made = to_runtime(*config);
  return forward([&] {
    return cudaOccupancyMaxPotentialClusterSize(size, reinterpret_cast<const void*>(function),
                                                &made);
  });
}

// ---- launches -----------------------------------------------------------------------------------

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned smem_bytes,
                        CUstream stream, void** arguments, void** extra) {
  const LaunchRequest request{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, {0, 0, 0}, smem_bytes, false};
  return launch_function(function, request, stream, arguments, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned smem_bytes, CUstream stream,
                                   void** arguments) {
  const LaunchRequest request{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, {0, 0, 0}, smem_bytes, true};
  return launch_function(function, request, stream, arguments, nullptr);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments,
                          void** extra) {
  const cudaLaunchConfig_t made = to_runtime(*config);
  LaunchRequest request{
      to_dim3(made.gridDim), to_dim3(made.blockDim), {0, 0, 0}, made.dynamicSmemBytes, false};
  const cudaError_t status = apply_attributes(made.attrs, made.numAttrs, &request);
  if (status != cudaSuccess) return to_driver(status);
  return launch_function(function, request, made.stream, arguments, extra);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return forward([&] { return cudaLaunchHostFunc(stream, function, data); });
}

// ---- memory -------------------------------------------------------------------------------------

CUresult cuMemAlloc(CUdeviceptr* base, size_t bytes) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return forward([&] { return cudaMalloc(reinterpret_cast<void**>(base), bytes); });
}

CUresult cuMemAllocAsync(CUdeviceptr* base, size_t bytes, CUstream stream) {
  return forward([&] { return cudaMallocAsync(reinterpret_cast<void**>(base), bytes, stream); });
}

CUresult cuMemAllocManaged(CUdeviceptr* base, size_t bytes, unsigned flags) {
  return forward([&] { return cudaMallocManaged(reinterpret_cast<void**>(base), bytes, flags); });
}

CUresult cuMemFree(CUdeviceptr base) {
  return forward([&] { return cudaFree(pointer(base)); });
}

CUresult cuMemFreeAsync(CUdeviceptr base, CUstream stream) {
  return forward([&] { return cudaFreeAsync(pointer(base), stream); });
}

CUresult cuMemAllocHost(void** base, size_t bytes) {
  return forward([&] { return cudaMallocHost(base, bytes); });
}

CUresult cuMemHostAlloc(void** base, size_t bytes, unsigned flags) {
  return forward([&] { return cudaHostAlloc(base, bytes, flags); });
}

CUresult cuMemFreeHost(void* base) {
  return forward([&] { return cudaFreeHost(base); });
}

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return forward([&] { return cudaMemGetInfo(free_bytes, total_bytes); });
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  machine::Allocation allocation;
  if (!machine::find_allocation(address, &allocation) || allocation.freed) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  cudaPointerAttributes found;
  cudaPointerGetAttributes(&found, pointer(address));
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<CUmemorytype*>(value) =
          found.type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(value) = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(value) = found.type == cudaMemoryTypeManaged ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(value) = allocation.base;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(value) = allocation.bytes;
      return CUDA_SUCCESS;
    default:
      return to_driver(refuse(cudaErrorNotSupported, "cuPointerGetAttribute: attribute %d.",
                              static_cast<int>(attribute)));
  }
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  machine::Allocation allocation;
  if (!machine::find_allocation(address, &allocation) || allocation.freed) {
    return CUDA_ERROR_NOT_FOUND;
  }
  if (base != nullptr) *base = allocation.base;
  if (bytes != nullptr) *bytes = allocation.bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return copy_memory(pointer(dst), pointer(src), bytes, cudaMemcpyDefault);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return copy_memory(pointer(dst), pointer(src), bytes, cudaMemcpyDefault, stream);
}

CUresult cuMemcpyHtoD(CUdeviceptr dst, const void* src, size_t bytes) {
  return copy_memory(pointer(dst), src, bytes, cudaMemcpyHostToDevice);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) {
  return copy_memory(pointer(dst), src, bytes, cudaMemcpyHostToDevice, stream);
}

CUresult cuMemcpyDtoH(void* dst, CUdeviceptr src, size_t bytes) {
  return copy_memory(dst, pointer(src), bytes, cudaMemcpyDeviceToHost);
}

CUresult cuMemcpyDtoHAsync(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return copy_memory(dst, pointer(src), bytes, cudaMemcpyDeviceToHost, stream);
}

CUresult cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return copy_memory(pointer(dst), pointer(src), bytes, cudaMemcpyDeviceToDevice);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return copy_memory(pointer(dst), pointer(src), bytes, cudaMemcpyDeviceToDevice, stream);
}

CUresult cuMemsetD8(CUdeviceptr dst, unsigned char value, size_t count) {
  return fill_memory(dst, value, 1, count, nullptr);
}

CUresult cuMemsetD16(CUdeviceptr dst, unsigned short value, size_t count) {
  return fill_memory(dst, value, 2, count, nullptr);
}

CUresult cuMemsetD32(CUdeviceptr dst, unsigned value, size_t count) {
  return fill_memory(dst, value, 4, count, nullptr);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
  return fill_memory(dst, value, 1, count, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream) {
  return fill_memory(dst, value, 2, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count, CUstream stream) {
  return fill_memory(dst, value, 4, count, stream);
}

// ---- streams and events -------------------------------------------------------------------------

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return forward([&] { return cudaStreamCreateWithFlags(stream, flags); });
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return forward([&] { return cudaStreamCreateWithPriority(stream, flags, priority); });
}

CUresult cuStreamDestroy(CUstream stream) {
  return forward([&] { return cudaStreamDestroy(stream); });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return forward([&] { return cudaStreamSynchronize(stream); });
}

CUresult cuStreamQuery(CUstream stream) {
  return forward([&] { return cudaStreamQuery(stream); });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return forward([&] { return cudaStreamWaitEvent(stream, event, flags); });
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return forward([&] { return cudaEventCreateWithFlags(event, flags); });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return forward([&] { return cudaEventRecord(event, stream); });
}

CUresult cuEventSynchronize(CUevent event) {
  return forward([&] { return cudaEventSynchronize(event); });
}

CUresult cuEventQuery(CUevent event) {
  return forward([&] { return cudaEventQuery(event); });
}

CUresult cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  return forward([&] { return cudaEventElapsedTime(ms, start, end); });
}

CUresult cuEventDestroy(CUevent event) {
  return forward([&] { return cudaEventDestroy(event); });
}

}  // extern "C"
