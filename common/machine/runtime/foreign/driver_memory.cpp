// The driver's calls for memory, streams and events.
#include "common/machine/run/allocations.h"
#include "common/machine/runtime/foreign/driver.h"
#include "common/machine/runtime/memory_api.h"

namespace machine::runtime {
namespace {

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
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
