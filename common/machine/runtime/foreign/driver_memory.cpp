// The driver's calls for memory, streams and events.
#include <optional>
#include <type_traits>

#include "common/machine/runtime/beside.h"
#include "common/machine/runtime/foreign/forward.h"
#include "common/machine/runtime/memory_api.h"

namespace machine::runtime {
namespace {

// Without a stream it is a call that no capture allows; so it is below.
CUresult fill_memory(CUdeviceptr dst, size_t pitch, unsigned value, unsigned element_bytes,
                     size_t width, size_t height, std::optional<CUstream> stream = {}) {
  const cudaMemsetParams what{
      reinterpret_cast<void*>(dst), pitch, value, element_bytes, width, height};
  return forward_work([&] {
    if (!stream) check_no_capture();
    const bool is_aligned = dst % element_bytes == 0 && (height <= 1 || pitch % element_bytes == 0);
    if (!is_aligned) {
      refuse(cudaErrorInvalidValue,
             "cuMemset: the destination 0x%llx and the pitch %zu must be multiples of the %u bytes "
             "of an element.",
             dst, pitch, element_bytes);
    }
    fill("cuMemset", what, stream.value_or(nullptr));
  });
}

// cuMemcpy2D and cuMemcpy3D, whose parameters have the same names, but for those in z: where a side
// begins, and how many rows a slice has. Arrays are refused.
struct Slices {
  size_t begin = 0, rows = 0;
};
template <class Params>
CUresult copy_box(const char* call, const Params& box, Slices src, Slices dst, size_t depth,
                  std::optional<CUstream> stream = {}) {
  const auto side = [&](CUmemorytype type, const void* host, CUdeviceptr device) {
    if (type == CU_MEMORYTYPE_ARRAY) refuse(cudaErrorNotSupported, "%s of an array.", call);
    return type == CU_MEMORYTYPE_HOST ? const_cast<void*>(host) : reinterpret_cast<void*>(device);
  };
  return forward_work([&] {
    if (!stream) check_no_capture();
    cudaMemcpy3DParms params{};
    params.srcPtr = {side(box.srcMemoryType, box.srcHost, box.srcDevice), box.srcPitch, 0,
                     src.rows};
    params.srcPos = {box.srcXInBytes, box.srcY, src.begin};
    params.dstPtr = {side(box.dstMemoryType, box.dstHost, box.dstDevice), box.dstPitch, 0,
                     dst.rows};
    params.dstPos = {box.dstXInBytes, box.dstY, dst.begin};
    params.extent = {box.WidthInBytes, box.Height, depth};
    params.kind = static_cast<cudaMemcpyKind>(  // of what is said to be the device's
        2 * (box.srcMemoryType == CU_MEMORYTYPE_DEVICE) +
        (box.dstMemoryType == CU_MEMORYTYPE_DEVICE));
    static_assert(cudaMemcpyHostToDevice == 1 && cudaMemcpyDeviceToHost == 2);
    submit(stream.value_or(nullptr), copying(call, params));
    if (!stream) host_waits(nullptr);
  });
}

// A value in memory that a stream writes, or that it waits for.
template <class T>
T& word_at(const char* call, CUdeviceptr address) {
  const auto found = find_living(reinterpret_cast<void*>(address));
  if (!found || !found->contains(address, sizeof(T)) || address % sizeof(T) != 0) {
    refuse(cudaErrorInvalidValue, "%s: there are no %zu aligned bytes of device memory at 0x%llx.",
           call, sizeof(T), address);
  }
  return *reinterpret_cast<T*>(address);
}

// In a capture both are nodes of the driver's own type.
constexpr auto BATCH_MEM_OP = static_cast<cudaGraphNodeType>(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);

template <class T>
CUresult write_value(const char* call, CUstream stream, CUdeviceptr address, T value) {
  return forward_work([&] {
    submit(stream, {BATCH_MEM_OP, [=, &word = word_at<T>(call, address)] {
                      note_access(call, &word, sizeof word, true);
                      word = value;
                    }});
  });
}

// Nothing runs side by side that could write the value while the stream waits.
template <class T>
CUresult wait_value(const char* call, CUstream stream, CUdeviceptr address, T value,
                    unsigned flags) {
  return forward_work([&] {
    if (flags > CU_STREAM_WAIT_VALUE_NOR) {
      refuse(cudaErrorNotSupported,
             "%s: flags 0x%x; CU_STREAM_WAIT_VALUE_GEQ, _EQ, _AND and _NOR work alone.", call,
             flags);
    }
    const T& word = word_at<T>(call, address);
    const auto wait = [=, &word] {
      const bool is_over[] = {static_cast<std::make_signed_t<T>>(word - value) >= 0, word == value,
                              (word & value) != 0, static_cast<T>(~(word | value)) != 0};
      if (is_over[flags]) return end_all_grids();  // whoever has written it
      refuse(cudaErrorNotSupported,
             "%s: 0x%llx at 0x%llx is not what is waited for (0x%llx, flags %u), and streams take "
             "turns here: submit what writes it first.",
             call, static_cast<unsigned long long>(word), address,
             static_cast<unsigned long long>(value), flags);
    };
    submit(stream, {BATCH_MEM_OP, wait});
  });
}

// Of an address that is no memory's the answers are null.
CUresult give_attribute(CUpointer_attribute attribute, CUdeviceptr address, void* value) {
  const auto allocation = find_living(reinterpret_cast<void*>(address));
  cudaPointerAttributes found{};
  if (allocation) cudaPointerGetAttributes(&found, reinterpret_cast<void*>(address));
  const auto give = [&]<class T>(T answer, T none = {}) {
    *static_cast<T*>(value) = allocation ? answer : none;
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      if (!allocation) return give(CUcontext{});
      return cuDevicePrimaryCtxRetain(static_cast<CUcontext*>(value), 0);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(
          unsigned{found.type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE});
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(address);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(unsigned{found.type == cudaMemoryTypeManaged});
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(0, CU_DEVICE_INVALID);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(allocation ? CUdeviceptr{allocation->base} : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(allocation ? size_t{allocation->bytes} : 0);
    default:
      return forward([&] {
        return attempt([&] {
          refuse(cudaErrorNotSupported, "cuPointerGetAttribute: attribute %d.",
                 static_cast<int>(attribute));
        });
      });
  }
}

}  // namespace

extern "C" {

// ---- memory -------------------------------------------------------------------------------------

CUresult cuMemAlloc(CUdeviceptr* base, size_t bytes) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return forward(cudaMalloc, base, bytes);
}

FORWARD3(cuMemAllocAsync, cudaMallocAsync, CUdeviceptr*, size_t, CUstream);
FORWARD3(cuMemAllocManaged, cudaMallocManaged, CUdeviceptr*, size_t, unsigned);
CUresult cuMemFree(CUdeviceptr base) {
  return forward(free_as, "cuMemFree", base);
}
CUresult cuMemFreeHost(void* base) {
  return forward(free_as, "cuMemFreeHost", base);
}
FORWARD2(cuMemFreeAsync, cudaFreeAsync, CUdeviceptr, CUstream);
FORWARD2(cuMemAllocHost, cudaMallocHost, void**, size_t);
FORWARD3(cuMemHostAlloc, cudaHostAlloc, void**, size_t, unsigned);
FORWARD2(cuMemHostGetFlags, cudaHostGetFlags, unsigned*, void*);
FORWARD3(cuMemHostGetDevicePointer, cudaHostGetDevicePointer, CUdeviceptr*, void*, unsigned);
FORWARD3(cuMemHostRegister, cudaHostRegister, void*, size_t, unsigned);
FORWARD1(cuMemHostUnregister, cudaHostUnregister, void*);
FORWARD2(cuMemGetInfo, cudaMemGetInfo, size_t*, size_t*);

FORWARD4(cuMemAllocFromPoolAsync, cudaMallocFromPoolAsync, CUdeviceptr*, size_t, CUmemoryPool,
         CUstream);
FORWARD2(cuMemPoolCreate, cudaMemPoolCreate, CUmemoryPool*, const CUmemPoolProps*);
FORWARD1(cuMemPoolDestroy, cudaMemPoolDestroy, CUmemoryPool);
FORWARD2(cuMemPoolTrimTo, cudaMemPoolTrimTo, CUmemoryPool, size_t);
FORWARD3(cuMemPoolGetAttribute, cudaMemPoolGetAttribute, CUmemoryPool, CUmemPool_attribute, void*);
FORWARD3(cuMemPoolSetAttribute, cudaMemPoolSetAttribute, CUmemoryPool, CUmemPool_attribute, void*);
FORWARD3(cuMemPoolGetAccess, cudaMemPoolGetAccess, CUmemAccess_flags*, CUmemoryPool,
         CUmemLocation*);
FORWARD3(cuMemPoolSetAccess, cudaMemPoolSetAccess, CUmemoryPool, const CUmemAccessDesc*, size_t);
FORWARD2(cuDeviceGetDefaultMemPool, cudaDeviceGetDefaultMemPool, CUmemoryPool*, CUdevice);
FORWARD2(cuDeviceGetMemPool, cudaDeviceGetMemPool, CUmemoryPool*, CUdevice);
FORWARD2(cuDeviceSetMemPool, cudaDeviceSetMemPool, CUdevice, CUmemoryPool);

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  if (!find_living(reinterpret_cast<void*>(address))) return CUDA_ERROR_INVALID_VALUE;
  return cuPointerGetAttributes(1, &attribute, &value, address);
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  if (count == 0) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; i < count && result == CUDA_SUCCESS; ++i) {
    result = give_attribute(attributes[i], address, values[i]);
  }
  return result;
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  const auto allocation = find_living(reinterpret_cast<void*>(address));
  if (!allocation) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = allocation->base;
  if (bytes != nullptr) *bytes = allocation->bytes;
  return CUDA_SUCCESS;
}

// cuMemcpyX and cuMemcpyXAsync.
#define COPY(call, KIND, TO, FROM)                                        \
  CUresult call(TO dst, FROM src, size_t bytes) {                         \
    return forward(cudaMemcpy, dst, src, bytes, KIND);                    \
  }                                                                       \
  CUresult call##Async(TO dst, FROM src, size_t bytes, CUstream stream) { \
    return forward(cudaMemcpyAsync, dst, src, bytes, KIND, stream);       \
  }                                                                       \
  static_assert(true)

COPY(cuMemcpy, cudaMemcpyDefault, CUdeviceptr, CUdeviceptr);
COPY(cuMemcpyHtoD, cudaMemcpyHostToDevice, CUdeviceptr, const void*);
COPY(cuMemcpyDtoH, cudaMemcpyDeviceToHost, void*, CUdeviceptr);
COPY(cuMemcpyDtoD, cudaMemcpyDeviceToDevice, CUdeviceptr, CUdeviceptr);

// Of one context.
CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext, size_t bytes) {
  return cuMemcpyDtoD(dst, src, bytes);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext, size_t bytes,
                           CUstream stream) {
  return cuMemcpyDtoDAsync(dst, src, bytes, stream);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* what, CUstream stream) {
  return copy_box("cuMemcpy2D", *what, {}, {}, 1, stream);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D* what) {
  return copy_box("cuMemcpy2D", *what, {}, {}, 1);
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* what) {
  return cuMemcpy2D(what);
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* what, CUstream stream) {
  return copy_box("cuMemcpy3D", *what, {what->srcZ, what->srcHeight}, {what->dstZ, what->dstHeight},
                  what->Depth, stream);
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D* what) {
  return copy_box("cuMemcpy3D", *what, {what->srcZ, what->srcHeight}, {what->dstZ, what->dstHeight},
                  what->Depth);
}

CUresult cuMemAllocPitch(CUdeviceptr* base, size_t* pitch, size_t width, size_t height,
                         unsigned element_bytes) {
  if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return forward(cudaMallocPitch, base, pitch, width, height);
}

// cuMemsetD8 and its like, of rows, too, with a type of so many bits.
#define FILL(call, rows, ELEMENT)                                                                 \
  CUresult call##Async(CUdeviceptr dst, ELEMENT value, size_t count, CUstream stream) {           \
    return fill_memory(dst, 0, value, sizeof(ELEMENT), count, 1, stream);                         \
  }                                                                                               \
  CUresult call(CUdeviceptr dst, ELEMENT value, size_t count) {                                   \
    return fill_memory(dst, 0, value, sizeof(ELEMENT), count, 1);                                 \
  }                                                                                               \
  CUresult rows##Async(CUdeviceptr dst, size_t pitch, ELEMENT value, size_t width, size_t height, \
                       CUstream stream) {                                                         \
    return fill_memory(dst, pitch, value, sizeof(ELEMENT), width, height, stream);                \
  }                                                                                               \
  CUresult rows(CUdeviceptr dst, size_t pitch, ELEMENT value, size_t width, size_t height) {      \
    return fill_memory(dst, pitch, value, sizeof(ELEMENT), width, height);                        \
  }                                                                                               \
  static_assert(true)

FILL(cuMemsetD8, cuMemsetD2D8, unsigned char);
FILL(cuMemsetD16, cuMemsetD2D16, unsigned short);
FILL(cuMemsetD32, cuMemsetD2D32, unsigned);

// cuStreamWriteValue32 and cuStreamWaitValue32, and those of 64 bits. A write's flags are of fences.
#define VALUES(write, wait, T)                                                   \
  CUresult write(CUstream stream, CUdeviceptr address, T value, unsigned) {      \
    return write_value<T>(#write, stream, address, value);                       \
  }                                                                              \
  CUresult wait(CUstream stream, CUdeviceptr address, T value, unsigned flags) { \
    return wait_value<T>(#wait, stream, address, value, flags);                  \
  }                                                                              \
  static_assert(true)

VALUES(cuStreamWriteValue32, cuStreamWaitValue32, cuuint32_t);
VALUES(cuStreamWriteValue64, cuStreamWaitValue64, cuuint64_t);

// ---- streams and events -------------------------------------------------------------------------

FORWARD2(cuStreamCreate, cudaStreamCreateWithFlags, CUstream*, unsigned);
FORWARD3(cuStreamCreateWithPriority, cudaStreamCreateWithPriority, CUstream*, unsigned, int);
FORWARD1(cuStreamDestroy, cudaStreamDestroy, CUstream);
FORWARD1(cuStreamSynchronize, cudaStreamSynchronize, CUstream);
FORWARD1(cuStreamQuery, cudaStreamQuery, CUstream);
FORWARD2(cuStreamGetFlags, cudaStreamGetFlags, CUstream, unsigned*);
FORWARD2(cuStreamGetId, cudaStreamGetId, CUstream, unsigned long long*);
FORWARD3(cuStreamGetAttribute, cudaStreamGetAttribute, CUstream, CUstreamAttrID,
         CUstreamAttrValue*);
FORWARD3(cuStreamSetAttribute, cudaStreamSetAttribute, CUstream, CUstreamAttrID,
         const CUstreamAttrValue*);
FORWARD2(cuStreamCopyAttributes, cudaStreamCopyAttributes, CUstream, CUstream);
FORWARD2(cuStreamGetPriority, cudaStreamGetPriority, CUstream, int*);
FORWARD2(cuStreamIsCapturing, cudaStreamIsCapturing, CUstream, CUstreamCaptureStatus*);
FORWARD3(cuStreamWaitEvent, cudaStreamWaitEvent, CUstream, CUevent, unsigned);
FORWARD4(cuStreamAddCallback, cudaStreamAddCallback, CUstream, CUstreamCallback, void*, unsigned);
FORWARD2(cuEventCreate, cudaEventCreateWithFlags, CUevent*, unsigned);
FORWARD2(cuEventRecord, cudaEventRecord, CUevent, CUstream);
FORWARD3(cuEventRecordWithFlags, cudaEventRecordWithFlags, CUevent, CUstream, unsigned);
FORWARD1(cuEventSynchronize, cudaEventSynchronize, CUevent);
FORWARD1(cuEventQuery, cudaEventQuery, CUevent);
FORWARD3(cuEventElapsedTime, cudaEventElapsedTime, float*, CUevent, CUevent);
FORWARD1(cuEventDestroy, cudaEventDestroy, CUevent);

}  // extern "C"
}  // namespace machine::runtime
