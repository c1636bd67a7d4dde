// The driver's calls, linked with -lcuda, and the runtime's only where the two meet: PTX text is
// loaded and launched in each of their ways. Prints "ok", or which line is wrong.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "check.h"

#define OK(call) CHECK((call) == CUDA_SUCCESS)

namespace {

// *out += value + offset, where offset is a variable of the module
const char CODE[] = R"(
.version 8.0
.target sm_90a
.address_size 64
.global .align 4 .u32 offset = 5;
.visible .entry add(.param .u64 out, .param .u32 value)
{
  .reg .u32 %r<5>;
  .reg .u64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r2, [offset];
  ld.global.u32 %r3, [%rd2];
  add.u32 %r4, %r3, %r1;
  add.u32 %r4, %r4, %r2;
  st.global.u32 [%rd2], %r4;
  ret;
}
)";

}  // namespace

void CUDA_CB count_call(CUstream, CUresult status, void* data) {
  *static_cast<int*>(data) += status == CUDA_SUCCESS ? 1 : 100;
}

void check_streams(CUcontext context) {
  CUstream stream = nullptr;
  CUcontext of_stream = nullptr;
  int calls = 0;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuStreamGetCtx(stream, &of_stream));
  CHECK(of_stream == context);
  unsigned flags = 0;
  OK(cuStreamGetFlags(stream, &flags));
  CHECK(flags == CU_STREAM_NON_BLOCKING);
  unsigned long long id = 0;
  OK(cuStreamGetId(stream, &id));
  CHECK(id != 0);
  CUstreamAttrValue value{};
  value.priority = -2;
  OK(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  OK(cuStreamCopyAttributes(stream, stream));
  OK(cuStreamGetAttribute(stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  CHECK(value.priority == -2);
  OK(cuStreamAddCallback(stream, count_call, &calls, 0));
  CHECK(cuStreamAddCallback(stream, count_call, &calls, 1) == CUDA_ERROR_INVALID_VALUE);
  OK(cuStreamSynchronize(stream));
  CHECK(calls == 1);

  CUdeviceptr words = 0, copy = 0;
  OK(cuMemAlloc(&words, 16));
  OK(cuMemAlloc(&copy, 16));
  OK(cuStreamWriteValue32(stream, words, 5, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cuStreamWriteValue64(stream, words + 8, uint64_t{1} << 40, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cuStreamWaitValue32(stream, words, 5, CU_STREAM_WAIT_VALUE_EQ));
  OK(cuStreamWaitValue32(stream, words, 4, CU_STREAM_WAIT_VALUE_GEQ));
  OK(cuStreamWaitValue32(stream, words, 6, CU_STREAM_WAIT_VALUE_AND));
  OK(cuStreamWaitValue64(stream, words + 8, 3, CU_STREAM_WAIT_VALUE_NOR));
  CHECK(cuStreamWaitValue32(stream, words, 6, CU_STREAM_WAIT_VALUE_GEQ) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuStreamWriteValue32(stream, words + 2, 5, 0) == CUDA_ERROR_INVALID_VALUE);
  OK(cuMemcpyPeer(copy, context, words, context, 4));
  OK(cuMemcpyPeerAsync(copy + 8, context, words + 8, context, 8, stream));
  OK(cuStreamSynchronize(stream));
  uint64_t read[2] = {};
  OK(cuMemcpyDtoH(read, copy + 8, 8));
  OK(cuMemcpyDtoH(read + 1, copy, 4));
  CHECK(read[0] == uint64_t{1} << 40 && read[1] == 5);
  OK(cuStreamDestroy(stream));
}

// The tensor map is in host memory, but a context is needed.
CUresult encode(void* base) {
  alignas(64) static thread_local CUtensorMap map;
  const cuuint64_t dims[] = {64}, strides[] = {0};
  const cuuint32_t box[] = {64}, steps[] = {1};
  return cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, base, dims, strides, box,
                                steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// Of host memory that nobody has registered the answers are null.
void check_pointer_attributes(CUdeviceptr memory) {
  CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_CONTEXT};
  unsigned type = 9, managed = 9;
  int device = 9;
  size_t bytes = 9;
  CUcontext context = nullptr;
  void* values[] = {&type, &managed, &device, &bytes, &context};
  OK(cuPointerGetAttributes(5, what, values, memory));
  CHECK(type == CU_MEMORYTYPE_DEVICE && managed == 0 && device == 0 && bytes == 64);
  CHECK(context != nullptr);
  OK(cuPointerGetAttributes(5, what, values, reinterpret_cast<CUdeviceptr>(values)));
  CHECK(type == 0 && managed == 0 && device == CU_DEVICE_INVALID && bytes == 0);
  CHECK(context == nullptr);
  CHECK(cuPointerGetAttribute(&type, what[0], reinterpret_cast<CUdeviceptr>(values)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuPointerGetAttributes(0, what, values, memory) == CUDA_ERROR_INVALID_VALUE);
}

// Nothing works before cuInit, but for what says something of the driver.
void check_before_init() {
  int number = 0;
  CUdeviceptr memory = 0;
  CUcontext context = nullptr;
  const char* text = nullptr;
  void* function = nullptr;
  OK(cuDriverGetVersion(&number));
  OK(cuGetErrorString(CUDA_ERROR_NOT_INITIALIZED, &text));
  OK(cuGetProcAddress("cuMemAlloc", &function, 12000, 0, nullptr));
  CHECK(cuDeviceGetCount(&number) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuDeviceGet(&number, 0) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0) ==
        CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuMemAlloc(&memory, 64) == CUDA_ERROR_NOT_INITIALIZED);
}

// Of a thread that has no context, gets one, puts it away, and has one by a call of the runtime.
void check_contexts(CUcontext primary) {
  int number = 0;
  size_t memory_bytes = 0;
  CUdeviceptr memory = 0;
  CUcontext context = primary, made = nullptr;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUstream stream = nullptr;
  OK(cuCtxGetCurrent(&context));
  CHECK(context == nullptr);
  OK(cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
  OK(cuDeviceTotalMem(&memory_bytes, 0));
  OK(cuLibraryLoadData(&library, CODE, nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned count = 0;
  CUkernel kernel = nullptr, same = nullptr;
  OK(cuLibraryGetKernelCount(&count, library));
  OK(cuLibraryEnumerateKernels(&kernel, 1, library));
  OK(cuLibraryGetKernel(&same, library, "add"));
  CHECK(count == 1 && kernel != nullptr && kernel == same);
  OK(cuLibraryUnload(library));
  CHECK(cuCtxGetDevice(&number) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuCtxPopCurrent(&context) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuModuleLoadData(&module, CODE) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuStreamCreate(&stream, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuMemAlloc(&memory, 64) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(encode(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  OK(cuCtxPushCurrent(primary));
  OK(cuMemAlloc(&memory, 64));
  OK(encode(reinterpret_cast<void*>(memory)));
  OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
  CHECK(context == primary);
  check_pointer_attributes(memory);
  OK(cuCtxSetCurrent(primary));  // in place of the first
  OK(cuCtxPopCurrent(&context));
  CHECK(context == primary && cuMemFree(memory) == CUDA_ERROR_INVALID_CONTEXT);
#if CUDA_VERSION >= 13000
  OK(cuCtxCreate(&made, nullptr, 0, 0));
#else
  OK(cuCtxCreate(&made, 0, 0));
#endif
  OK(cuMemFree(memory));
  OK(cuCtxDestroy(made));
  CHECK(cuCtxSynchronize() == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  OK(cuCtxSynchronize());
  OK(cuCtxSetCurrent(nullptr));
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 1024) == cudaSuccess);
  OK(cuCtxSynchronize());
}

// One module is what it was before; of several nothing is made.
void check_linking() {
  char log[8] = "xxxxxxx";
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER};
  void* values[] = {reinterpret_cast<void*>(sizeof log), log};
  CUlinkState link = nullptr;
  OK(cuLinkCreate(2, options, values, &link));
  CHECK(log[0] == 0);
  void* linked = nullptr;
  size_t bytes = 0;
  CHECK(cuLinkComplete(link, &linked, &bytes) == CUDA_ERROR_INVALID_VALUE);
  char* const code = const_cast<char*>(CODE);
  OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, code, sizeof CODE, "add", 0, nullptr, nullptr));
  CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, code, sizeof CODE, "again", 0, nullptr, nullptr) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/nowhere", 0, nullptr, nullptr) ==
        CUDA_ERROR_FILE_NOT_FOUND);
  OK(cuLinkComplete(link, &linked, &bytes));
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  OK(cuModuleLoadDataEx(&module, linked, 2, options, values));
  OK(cuLinkDestroy(link));
  CHECK(cuLinkDestroy(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuLinkCreate(0, nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLinkAddFile(link, CU_JIT_INPUT_PTX, nullptr, 0, nullptr, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(cuModuleGetFunction(&add, module, "add"));
  OK(cuModuleUnload(module));
}

// What a program asks before it does without, and what changes nothing here.
void check_questions(CUdevice device) {
  int maps = 1;
  OK(cuDeviceGetAttribute(&maps, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
  CHECK(maps == 0);
  CHECK(cuDeviceGetAttribute(&maps, CU_DEVICE_ATTRIBUTE_MAX, device) == CUDA_ERROR_INVALID_VALUE);
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_L1;
  OK(cuCtxSetCacheConfig(cache));
  OK(cuCtxGetCacheConfig(&cache));
  CHECK(cache == CU_FUNC_CACHE_PREFER_NONE);
}

// Calls that wait, in a capture of a stream that the default one does not wait for.
void check_captured() {
  CUdeviceptr box = 0;
  OK(cuMemAlloc(&box, 64));
  CUDA_MEMCPY2D rows{};
  CUDA_MEMCPY3D slices{};
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = rows.dstDevice = box;
  rows.srcPitch = rows.dstPitch = rows.WidthInBytes = rows.Height = 4;
  slices.srcMemoryType = slices.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  slices.srcDevice = slices.dstDevice = box;
  slices.srcPitch = slices.dstPitch = slices.srcHeight = slices.dstHeight = 4;
  slices.WidthInBytes = slices.Height = slices.Depth = 4;
  for (int call = 0; call < 4; ++call) {
    CUstream stream = nullptr;
    cudaGraph_t graph = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    OK(cuMemcpy2DAsync(&rows, stream));
    OK(cuMemsetD2D8Async(box, 4, 0, 4, 4, stream));
    const CUresult status = call == 0   ? cuMemcpy2D(&rows)
                            : call == 1 ? cuMemcpy3D(&slices)
                            : call == 2 ? cuMemsetD8(box, 0, 4)
                                        : cuMemsetD2D8(box, 4, 0, 4, 4);
    CHECK(status == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
    OK(cuStreamDestroy(stream));
  }
  OK(cuMemcpy2D(&rows));
  OK(cuMemFree(box));
}

// A box of 2 x 2 bytes in each of two slices, to the second half of a smaller one.
void check_copy_3d() {
  char from[36], to[32] = {};
  for (int i = 0; i < 36; ++i) from[i] = static_cast<char>(i);
  CUdeviceptr box = 0;
  OK(cuMemAlloc(&box, sizeof from));
  OK(cuMemcpyHtoD(box, from, sizeof from));
  CUDA_MEMCPY3D part{};
  part.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  part.srcDevice = box;
  part.srcPitch = 4;
  part.srcHeight = 3;
  part.srcXInBytes = part.srcY = part.srcZ = 1;
  part.dstMemoryType = CU_MEMORYTYPE_HOST;
  part.dstHost = to;
  part.dstPitch = 4;
  part.dstHeight = 2;
  part.dstXInBytes = 2;
  part.WidthInBytes = part.Height = part.Depth = 2;
  OK(cuMemcpy3D(&part));
  CHECK(to[1] == 0 && to[2] == 17 && to[3] == 18 && to[6] == 21 && to[10] == 29 && to[15] == 34);
  part.Depth = 3;  // one more than there is
  CHECK(cuMemcpy3D(&part) == CUDA_ERROR_INVALID_VALUE);
  part.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  CHECK(cuMemcpy3D(&part) == CUDA_ERROR_NOT_SUPPORTED);
  OK(cuMemFree(box));
}

// What calls take, and wrong operands of theirs.
void check_operands(CUfunction add) {
  size_t at = 0, bytes = 0;
  OK(cuFuncGetParamInfo(add, 1, &at, &bytes));
  CHECK(at == 8 && bytes == 4);
  CHECK(cuFuncGetParamInfo(add, 2, &at, &bytes) == CUDA_ERROR_INVALID_VALUE);
  int ctas = 0, threads = 0;
  OK(cuOccupancyMaxPotentialBlockSize(&ctas, &threads, add, nullptr, 0, 0));
  CHECK(threads == 1024 && ctas > 0);
  OK(cuOccupancyMaxPotentialBlockSize(&ctas, &threads, add, nullptr, 0, 200));
  CHECK(threads == 128);  // 16 x 128, more than 9 x 200 and 10 x 192
  OK(cuOccupancyMaxPotentialBlockSize(
      &ctas, &threads, add, [](int block) { return block > 512 ? size_t{1} << 20 : 0; }, 0, 0));
  CHECK(threads == 512);
  OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, add, 2, 128));
  CHECK(bytes > 0 && bytes <= 48 << 10);  // more only where the kernel says so
  OK(cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200 << 10));
  OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, add, 2, 128));
  CHECK(bytes > 100 << 10 && bytes < 114 << 10);
  CHECK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxSetLimit(static_cast<CUlimit>(77), 1) == CUDA_ERROR_UNSUPPORTED_LIMIT);

  CUdeviceptr words = 0;
  uint32_t read[16] = {};
  OK(cuMemAlloc(&words, sizeof read));
  OK(cuMemsetD8(words, 0, sizeof read));
  OK(cuMemsetD2D32(words + 4, 16, 7, 2, 3));  // words 1 and 2 of the first three rows of 4
  OK(cuMemsetD2D16Async(words + 48, 4, 9, 1, 4, nullptr));
  OK(cuMemcpyDtoH(read, words, sizeof read));
  for (int i = 0; i < 16; ++i) CHECK(read[i] == (i >= 12 ? 9 : i % 4 == 1 || i % 4 == 2 ? 7 : 0));
  CHECK(cuMemsetD32(words + 2, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD2D16(words, 3, 0, 1, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD2D8(words, 4, 0, 5, 2) == CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(words));
  CHECK(cuMemAllocPitch(&words, &bytes, 100, 3, 5) == CUDA_ERROR_INVALID_VALUE);
}

// A stream is captured, and another joins it and goes; the graph runs twice, its instance once more when
// the graph is gone, and what the graph keeps goes with the last of them.
void check_graphs(CUfunction add) {
  static int destroyed = 0;
  CUdeviceptr words = 0;
  OK(cuMemAlloc(&words, 8));
  OK(cuMemsetD32(words, 0, 2));
  CUstream stream = nullptr, beside = nullptr;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
  CUevent fork = nullptr, join = nullptr;
  OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  OK(cuCtxSynchronize());

  CUgraph graph = nullptr, clone = nullptr;
  CUgraphExec instance = nullptr;
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  int value = 1;
  CUdeviceptr second = words + 4;
  void *first_arguments[] = {&words, &value}, *second_arguments[] = {&second, &value};
  OK(cuEventRecord(fork, stream));
  OK(cuStreamWaitEvent(beside, fork, 0));
  OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, first_arguments, nullptr));
  OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, beside, second_arguments, nullptr));
  OK(cuEventRecord(join, beside));
  OK(cuStreamWaitEvent(stream, join, 0));
  OK(cuStreamDestroy(beside));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
#if CUDA_VERSION >= 13000
  OK(cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr, nullptr));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
#endif
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuStreamIsCapturing(stream, &status));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
  size_t nodes = 0;
  OK(cuGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 2);

  CUuserObject kept = nullptr;
  const auto destroy = [](void* count) { ++*static_cast<int*>(count); };
  OK(cuUserObjectCreate(&kept, &destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(cuGraphRetainUserObject(graph, kept, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CHECK(cuUserObjectRelease(kept, 1) == CUDA_ERROR_INVALID_VALUE);  // the graph has it
  OK(cuGraphClone(&clone, graph));
  OK(cuGraphReleaseUserObject(graph, kept, 1));
  OK(cuGraphInstantiate(&instance, clone, 0));
  OK(cuGraphUpload(instance, stream));
  OK(cuGraphLaunch(instance, stream));
  OK(cuGraphDestroy(graph));
  OK(cuGraphDestroy(clone));
  OK(cuGraphLaunch(instance, stream));
  OK(cuStreamSynchronize(stream));
  CHECK(destroyed == 0);
  OK(cuGraphExecDestroy(instance));
  CHECK(destroyed == 1);
  uint32_t results[2] = {};
  OK(cuMemcpyDtoH(results, words, sizeof results));
  CHECK(results[0] != 0 && results[0] % 2 == 0 && results[1] == results[0]);  // offset has changed
  OK(cuEventDestroy(fork));
  OK(cuEventDestroy(join));
  OK(cuStreamDestroy(stream));
  OK(cuMemFree(words));
}

void check_pools(CUdevice device) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  CUmemLocation place{};
  place.type = properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr, current = nullptr, first = nullptr;
  OK(cuMemPoolCreate(&pool, &properties));
  OK(cuDeviceGetDefaultMemPool(&first, device));
  OK(cuDeviceSetMemPool(device, pool));
  OK(cuDeviceGetMemPool(&current, device));
  CHECK(current == pool && first != pool);
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  OK(cuMemPoolGetAccess(&access, pool, &place));
  CHECK(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  cuuint64_t threshold = 1 << 20, found = 0;
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &found));
  CHECK(found == threshold);
  CUdeviceptr memory = 0;
  OK(cuMemAllocFromPoolAsync(&memory, 64, pool, nullptr));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &found));
  CHECK(found == 64);
  OK(cuMemFreeAsync(memory, nullptr));
  OK(cuMemPoolTrimTo(pool, 0));
  OK(cuMemPoolDestroy(pool));
  OK(cuDeviceGetMemPool(&current, device));
  CHECK(current == first);
}

int main() {
  int devices = 0, major = 0;
  char name[100] = "";
  CUdevice device = 0;
  CUcontext context = nullptr, current = nullptr;
  check_before_init();
  OK(cuInit(0));
  OK(cuDeviceGetCount(&devices));
  CHECK(devices >= 1);
  OK(cuDeviceGet(&device, 0));
  OK(cuDeviceGetName(name, sizeof name, device));
  CHECK(std::strlen(name) > 0);
  OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  CHECK(major == 9);
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  OK(cuCtxGetCurrent(&current));
  CHECK(current == context);

  CUmodule module = nullptr;
  CUfunction add = nullptr, missing = nullptr;
  OK(cuModuleLoadData(&module, CODE));
  OK(cuModuleGetFunction(&add, module, "add"));
  CHECK(cuModuleGetFunction(&missing, module, "subtract") == CUDA_ERROR_NOT_FOUND);
  CUdeviceptr out = 0, offset = 0;
  size_t bytes = 0;
  OK(cuModuleGetGlobal(&offset, &bytes, module, "offset"));
  const char* name_of_add = nullptr;
  OK(cuFuncGetName(&name_of_add, add));
  check_operands(add);
  CHECK(bytes == 4 && std::strcmp(name_of_add, "add") == 0);
  OK(cuMemAlloc(&out, 4));
  OK(cuMemsetD32(out, 100, 1));

  unsigned value = 10;
  void* arguments[] = {&out, &value};
  OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));  // 115
  struct {
    CUdeviceptr out;
    unsigned value;
  } block{out, 20};
  size_t block_bytes = sizeof block;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &block_bytes, CU_LAUNCH_PARAM_END};
  // The driver wants the parameters' size, without the padding at the struct's end.
  CHECK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra) != CUDA_SUCCESS);
  block_bytes = offsetof(decltype(block), value) + sizeof block.value;
  OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));  // 140
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  OK(cuLaunchKernelEx(&config, add, arguments, nullptr));  // 155
  OK(cuMemsetD32(offset, 0, 1));
  OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));  // 165
  OK(cuCtxSynchronize());
  unsigned result = 0;
  OK(cuMemcpyDtoH(&result, out, 4));
  CHECK(result == 165);

  // The second row of two, from its third byte on.
  CUdeviceptr rows = 0;
  size_t pitch = 0;
  OK(cuMemAllocPitch(&rows, &pitch, 8, 2, 4));
  OK(cuMemsetD8(rows, 1, pitch + 8));
  OK(cuMemsetD8(rows + pitch + 2, 9, 3));
  unsigned char row[4] = {};
  CUDA_MEMCPY2D part{};
  part.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  part.srcDevice = rows;
  part.srcPitch = pitch;
  part.srcY = 1;
  part.srcXInBytes = 2;
  part.dstMemoryType = CU_MEMORYTYPE_HOST;
  part.dstHost = row;
  part.dstPitch = sizeof row;
  part.WidthInBytes = sizeof row;
  part.Height = 1;
  OK(cuMemcpy2D(&part));
  CHECK(row[0] == 9 && row[2] == 9 && row[3] == 1);
  OK(cuMemFree(rows));

  check_streams(context);
  std::thread(check_contexts, context).join();
  check_linking();
  check_questions(device);
  check_copy_3d();
  check_captured();
  check_graphs(add);
  check_pools(device);
  CHECK(cuLaunchKernel(add, 1, 1, 1, 2000, 1, 1, 0, nullptr, arguments, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  const char* text = nullptr;
  OK(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
  CHECK(std::strcmp(text, "CUDA_ERROR_INVALID_VALUE") == 0);
  char bus_id[16];
  CUdevice found = -1;
  OK(cuDeviceGetPCIBusId(bus_id, sizeof bus_id, device));
  OK(cuDeviceGetByPCIBusId(&found, bus_id));
  CHECK(found == device);
  size_t stack_bytes = 0;
  OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  OK(cuCtxGetLimit(&stack_bytes, CU_LIMIT_STACK_SIZE));
  CHECK(stack_bytes == 4096);
  void* pinned = nullptr;
  unsigned flags = 0;
  CUdeviceptr mapped = 0;
  OK(cuMemHostAlloc(&pinned, 64, CU_MEMHOSTALLOC_DEVICEMAP));
  OK(cuMemHostGetFlags(&flags, pinned));
  OK(cuMemHostGetDevicePointer(&mapped, pinned, 0));
  CHECK(flags == CU_MEMHOSTALLOC_DEVICEMAP && mapped != 0);
  CHECK(cuMemFree(reinterpret_cast<CUdeviceptr>(pinned)) == CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFreeHost(pinned));
  CHECK(cuMemFreeHost(pinned) == CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(out));
  CHECK(cuMemFree(out) == CUDA_ERROR_INVALID_VALUE);
  OK(cuModuleUnload(module));
  OK(cuDevicePrimaryCtxRelease(device));
  std::printf("ok\n");
  return 0;
}
