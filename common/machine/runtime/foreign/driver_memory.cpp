// The driver's calls for memory, streams and events.
#include "common/machine/run/allocations.h"
#include "common/machine/runtime/foreign/driver.h"
#include "common/machine/runtime/memory_api.h"

namespace machine::runtime {
namespace {

CUresult fill_memory(CUdeviceptr dst, unsigned value, unsigned element_bytes, size_t count,
                     CUstream stream) {
  const Fill what{as_runtime(dst), count * element_bytes, value, element_bytes, count, 1};
  return forward([&] { return on_device([&] { fill("cuMemset", what, stream); }); });
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

FORWARD3(cuMemAllocAsync, cudaMallocAsync, CUdeviceptr*, size_t, CUstream);
FORWARD3(cuMemAllocManaged, cudaMallocManaged, CUdeviceptr*, size_t, unsigned);
FORWARD1(cuMemFree, cudaFree, CUdeviceptr);
FORWARD2(cuMemFreeAsync, cudaFreeAsync, CUdeviceptr, CUstream);
FORWARD2(cuMemAllocHost, cudaMallocHost, void**, size_t);
FORWARD3(cuMemHostAlloc, cudaHostAlloc, void**, size_t, unsigned);
FORWARD1(cuMemFreeHost, cudaFreeHost, void*);
FORWARD2(cuMemGetInfo, cudaMemGetInfo, size_t*, size_t*);

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  machine::Allocation allocation;
  if (!machine::find_allocation(address, &allocation) || allocation.freed) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  cudaPointerAttributes found;
  cudaPointerGetAttributes(&found, as_runtime(address));
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
      return forward([&] {
        return attempt([&] {
          refuse(cudaErrorNotSupported, "cuPointerGetAttribute: attribute %d.",
                 static_cast<int>(attribute));
        });
      });
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

// cuMemcpyX and cuMemcpyXAsync.
#define COPY(call, KIND, TO, FROM)                                                             \
  CUresult call(TO dst, FROM src, size_t bytes) {                                              \
    return forward([&] { return cudaMemcpy(as_runtime(dst), as_runtime(src), bytes, KIND); }); \
  }                                                                                            \
  static_assert(true)
#define COPY_ASYNC(call, KIND, TO, FROM)                                                         \
  CUresult call(TO dst, FROM src, size_t bytes, CUstream stream) {                               \
    return forward(                                                                              \
        [&] { return cudaMemcpyAsync(as_runtime(dst), as_runtime(src), bytes, KIND, stream); }); \
  }                                                                                              \
  static_assert(true)

COPY(cuMemcpy, cudaMemcpyDefault, CUdeviceptr, CUdeviceptr);
COPY(cuMemcpyHtoD, cudaMemcpyHostToDevice, CUdeviceptr, const void*);
COPY(cuMemcpyDtoH, cudaMemcpyDeviceToHost, void*, CUdeviceptr);
COPY(cuMemcpyDtoD, cudaMemcpyDeviceToDevice, CUdeviceptr, CUdeviceptr);
COPY_ASYNC(cuMemcpyAsync, cudaMemcpyDefault, CUdeviceptr, CUdeviceptr);
COPY_ASYNC(cuMemcpyHtoDAsync, cudaMemcpyHostToDevice, CUdeviceptr, const void*);
COPY_ASYNC(cuMemcpyDtoHAsync, cudaMemcpyDeviceToHost, void*, CUdeviceptr);
COPY_ASYNC(cuMemcpyDtoDAsync, cudaMemcpyDeviceToDevice, CUdeviceptr, CUdeviceptr);

// Arrays are refused.
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* what, CUstream stream) {
  const CUDA_MEMCPY2D& c = *what;
  return forward([&] {
    return on_device([&] {
      const auto side = [](CUmemorytype type, const void* host, CUdeviceptr device) {
        if (type == CU_MEMORYTYPE_ARRAY) refuse(cudaErrorNotSupported, "cuMemcpy2D of an array.");
        return type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host) : device;
      };
      const CUdeviceptr src = side(c.srcMemoryType, c.srcHost, c.srcDevice);
      const CUdeviceptr dst = side(c.dstMemoryType, c.dstHost, c.dstDevice);
      copy("cuMemcpy2D",
           {as_runtime(dst + c.dstY * c.dstPitch + c.dstXInBytes), c.dstPitch,
            as_runtime(src + c.srcY * c.srcPitch + c.srcXInBytes), c.srcPitch, c.WidthInBytes,
            c.Height},
           cudaMemcpyDefault, stream);
    });
  });
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D* what) {
  return cuMemcpy2DAsync(what, nullptr);
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* what) {
  return cuMemcpy2DAsync(what, nullptr);
}

CUresult cuMemAllocPitch(CUdeviceptr* base, size_t* pitch, size_t width, size_t height, unsigned) {
  return forward(
      [&] { return cudaMallocPitch(reinterpret_cast<void**>(base), pitch, width, height); });
}

// cuMemsetD8 and its like, with a type of so many bits.
#define FILL(call, call_async, ELEMENT)                                                \
  CUresult call(CUdeviceptr dst, ELEMENT value, size_t count) {                        \
    return fill_memory(dst, value, sizeof(ELEMENT), count, nullptr);                   \
  }                                                                                    \
  CUresult call_async(CUdeviceptr dst, ELEMENT value, size_t count, CUstream stream) { \
    return fill_memory(dst, value, sizeof(ELEMENT), count, stream);                    \
  }                                                                                    \
  static_assert(true)

FILL(cuMemsetD8, cuMemsetD8Async, unsigned char);
FILL(cuMemsetD16, cuMemsetD16Async, unsigned short);
FILL(cuMemsetD32, cuMemsetD32Async, unsigned);

// ---- streams and events -------------------------------------------------------------------------

FORWARD2(cuStreamCreate, cudaStreamCreateWithFlags, CUstream*, unsigned);
FORWARD3(cuStreamCreateWithPriority, cudaStreamCreateWithPriority, CUstream*, unsigned, int);
FORWARD1(cuStreamDestroy, cudaStreamDestroy, CUstream);
FORWARD1(cuStreamSynchronize, cudaStreamSynchronize, CUstream);
FORWARD1(cuStreamQuery, cudaStreamQuery, CUstream);
FORWARD3(cuStreamWaitEvent, cudaStreamWaitEvent, CUstream, CUevent, unsigned);
FORWARD2(cuEventCreate, cudaEventCreateWithFlags, CUevent*, unsigned);
FORWARD2(cuEventRecord, cudaEventRecord, CUevent, CUstream);
FORWARD1(cuEventSynchronize, cudaEventSynchronize, CUevent);
FORWARD1(cuEventQuery, cudaEventQuery, CUevent);
FORWARD3(cuEventElapsedTime, cudaEventElapsedTime, float*, CUevent, CUevent);
FORWARD1(cuEventDestroy, cudaEventDestroy, CUevent);

}  // extern "C"
