// Calls that work: launches in every form, parameters of every size, memory, symbols, graphs.
// Prints the first thing that is not as it should be and exits 1, or "ok".
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "check.h"

#define OK(call) CHECK((call) == cudaSuccess)

struct Mixed {
  char c;
  double d;
  short s[3];
};

__constant__ int scale[4] = {1, 2, 3, 4};
__device__ int counter;
__device__ int initialised[3] = {7, 8, 9};
__managed__ int shared_with_host = 5;

__global__ void parameters(int* out, char c, short s, Mixed mixed, long long l) {
  out[0] = c;
  out[1] = s;
  out[2] = mixed.c;
  out[3] = static_cast<int>(mixed.d);
  out[4] = mixed.s[2];
  out[5] = static_cast<int>(l);
}

// Its values live in registers.
__global__ void __maxnreg__(184) many_registers(float* data) {
  float values[160];
  for (int i = 0; i < 160; ++i) values[i] = data[i * 1024 + threadIdx.x];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 160; ++i) values[i] = values[i] * values[(i + round + 1) % 160] + 1;
  }
  for (int i = 0; i < 160; ++i) data[i * 1024 + threadIdx.x] = values[i];
}

// Waits for the grids before, as a programmatic launch must.
__global__ void add(int* out, int value) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[blockIdx.x * blockDim.x + threadIdx.x] += value;
}

__global__ void use_variables(int* out) {
  out[0] = scale[2];
  out[1] = initialised[1];
  out[2] = shared_with_host;
  counter += 1;
  shared_with_host = 6;
}

extern __shared__ int dynamic_smem[];

__global__ void reverse(int* data) {
  dynamic_smem[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = dynamic_smem[blockDim.x - 1 - threadIdx.x];
}

__global__ void cluster_rank(unsigned* out) {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  out[blockIdx.x] = rank;
}

// Its launch counts clusters.
__block_size__((2, 1, 1), (4, 1, 1)) __global__ void cluster_rank_of_four(unsigned* out) {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  out[2 * blockIdx.x + threadIdx.x] = rank + 10 * gridDim.x;
}

namespace {

std::vector<int> download(const int* data, size_t count) {
  std::vector<int> host(count);
  OK(cudaMemcpy(host.data(), data, count * sizeof(int), cudaMemcpyDeviceToHost));
  return host;
}

template <class T>
T* zeros(size_t count) {
  T* data = nullptr;
  OK(cudaMalloc(&data, count * sizeof(T)));
  OK(cudaMemset(data, 0, count * sizeof(T)));
  return data;
}

void check_parameters() {
  int* const out = zeros<int>(6);
  parameters<<<1, 1>>>(out, 'a', -5, Mixed{'b', 2.5, {1, 2, 3}}, 1ll << 20);
  OK(cudaDeviceSynchronize());
  CHECK(download(out, 6) == (std::vector<int>{'a', -5, 'b', 2, 3, 1 << 20}));
  OK(cudaFree(out));
}

void check_launches() {
  int* const out = zeros<int>(8);
  int value = 1;
  void* arguments[] = {const_cast<int**>(&out), &value};
  const void* const kernel = reinterpret_cast<const void*>(add);
  add<<<2, 4>>>(out, value);
  OK(cudaLaunchKernel(kernel, 2, 4, arguments, 0, nullptr));
  OK(cudaLaunchCooperativeKernel(kernel, 2, 4, arguments, 0, nullptr));
  cudaLaunchConfig_t config{};
  config.gridDim = 2;
  config.blockDim = 4;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  OK(cudaLaunchKernelExC(&config, kernel, arguments));
  OK(cudaLaunchKernelEx(&config, add, out, value));
  int clusters = 0;
  OK(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
  CHECK(clusters > 0);
  cudaKernel_t handle = nullptr;
  OK(cudaGetKernel(&handle, kernel));
  OK(cudaLaunchKernel(reinterpret_cast<const void*>(handle), 2, 4, arguments, 0, nullptr));
  OK(cudaDeviceSynchronize());
  CHECK(download(out, 8) == std::vector<int>(8, 6));

  unsigned* const ranks = zeros<unsigned>(8);
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 4;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.gridDim = 8;
  config.blockDim = 32;
  OK(cudaLaunchKernelEx(&config, cluster_rank, ranks));
  const std::vector<int> found = download(reinterpret_cast<int*>(ranks), 8);
  CHECK(found == (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3}));

  cluster_rank_of_four<<<1>>>(ranks);
  const std::vector<int> of_four = download(reinterpret_cast<int*>(ranks), 8);
  CHECK(of_four == (std::vector<int>{40, 40, 41, 41, 42, 42, 43, 43}));
  cluster_rank_of_four<<<1, 3>>>(ranks);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);

  int* const data = zeros<int>(4);
  const int numbers[] = {1, 2, 3, 4};
  OK(cudaMemcpy(data, numbers, sizeof numbers, cudaMemcpyHostToDevice));
  reverse<<<1, 4, 4 * sizeof(int)>>>(data);
  CHECK(download(data, 4) == (std::vector<int>{4, 3, 2, 1}));
}

// Each of an SM's four partitions has 16384.
void check_registers() {
  float* const data = zeros<float>(160 * 1024);
  cudaFuncAttributes found;
  OK(cudaFuncGetAttributes(&found, many_registers));
  CHECK(found.numRegs > 168 && found.numRegs <= 184);  // 2 warps in each, not 11 in all
  CHECK(found.maxThreadsPerBlock == 256);
  many_registers<<<1, 256>>>(data);
  OK(cudaGetLastError());
  many_registers<<<1, 288>>>(data);
  CHECK(cudaGetLastError() == cudaErrorLaunchOutOfResources);
  int of_288 = -1, of_32 = -1;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_288, many_registers, 288, 0));
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_32, many_registers, 32, 0));
  CHECK(of_288 == 0 && of_32 == 8);
  OK(cudaDeviceSynchronize());
  OK(cudaFree(data));
}

void check_variables() {
  int* const out = zeros<int>(3);
  use_variables<<<1, 1>>>(out);
  OK(cudaDeviceSynchronize());
  CHECK(download(out, 3) == (std::vector<int>{3, 8, 5}));
  CHECK(shared_with_host == 6);
  const int scales[4] = {10, 20, 30, 40};
  OK(cudaMemcpyToSymbol(scale, scales, sizeof scales));
  const int minus = -8;
  OK(cudaMemcpyToSymbol(initialised, &minus, sizeof minus, sizeof(int)));
  use_variables<<<1, 1>>>(out);
  int count = 0;
  OK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
  CHECK(count == 2);
  CHECK(download(out, 3) == (std::vector<int>{30, -8, 6}));
  void* address = nullptr;
  size_t bytes = 0;
  OK(cudaGetSymbolAddress(&address, initialised));
  OK(cudaGetSymbolSize(&bytes, initialised));
  CHECK(address != nullptr && bytes == 12);
  const int eleven = 11;
  int got = 0;
  OK(cudaMemcpyToSymbol(shared_with_host, &eleven, sizeof eleven));
  CHECK(shared_with_host == 11);
  OK(cudaMemcpyFromSymbol(&got, shared_with_host, sizeof got));
  OK(cudaGetSymbolAddress(&address, shared_with_host));
  OK(cudaGetSymbolSize(&bytes, shared_with_host));
  CHECK(got == 11 && address == &shared_with_host && bytes == 4);
}

void check_memory() {
  char* data = nullptr;
  size_t pitch = 0;
  OK(cudaMallocPitch(&data, &pitch, 10, 3));
  CHECK(pitch >= 10);
  OK(cudaMemset2D(data, pitch, 7, 10, 3));
  char rows[3][12] = {};
  OK(cudaMemcpy2D(rows, 12, data, pitch, 10, 3, cudaMemcpyDeviceToHost));
  CHECK(rows[2][9] == 7 && rows[2][10] == 0);
  char* copied = nullptr;
  OK(cudaMalloc(&copied, pitch * 3));
  OK(cudaMemcpyPeerAsync(copied, 0, data, 0, pitch * 2 + 10, nullptr));
  OK(cudaMemcpy2D(rows, 12, copied, pitch, 10, 3, cudaMemcpyDeviceToHost));
  CHECK(rows[1][9] == 7);
  OK(cudaFree(copied));
  OK(cudaFree(data));
  size_t stack = 0;
  OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  OK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
  CHECK(stack == 4096);

  // Of a box of 3 x 2 x 2, the second slice's second row, from its second byte on.
  cudaPitchedPtr box;
  OK(cudaMalloc3D(&box, make_cudaExtent(3, 2, 2)));
  CHECK(box.pitch >= 3 && box.xsize == 3 && box.ysize == 2);
  const char from[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  char to[12] = {};
  cudaMemcpy3DParms whole{};
  whole.srcPtr = make_cudaPitchedPtr(const_cast<char*>(from), 3, 3, 2);
  whole.dstPtr = box;
  whole.extent = make_cudaExtent(3, 2, 2);
  whole.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&whole));
  cudaMemcpy3DParms part{};
  part.srcPtr = box;
  part.srcPos = make_cudaPos(1, 1, 1);
  part.dstPtr = make_cudaPitchedPtr(to, 3, 3, 2);
  part.extent = make_cudaExtent(2, 1, 1);
  part.kind = cudaMemcpyDeviceToHost;
  OK(cudaMemcpy3DAsync(&part, nullptr));
  CHECK(to[0] == 10 && to[1] == 11 && to[2] == 0);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaGraphNode_t node;
  OK(cudaGraphCreate(&graph, 0));
  part.dstPos = make_cudaPos(0, 1, 1);
  OK(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &part));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, nullptr));
  OK(cudaDeviceSynchronize());
  CHECK(to[9] == 10 && to[10] == 11);
  OK(cudaMemset3D(box, 3, make_cudaExtent(2, 2, 2)));
  OK(cudaMemcpy3DAsync(&part, nullptr));
  CHECK(to[9] == 3 && to[10] == 11);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(box.ptr));

  int *pinned = nullptr, *managed = nullptr;
  OK(cudaMallocHost(&pinned, 16));
  OK(cudaMallocManaged(&managed, 16));
  pinned[0] = managed[0] = 1;
  add<<<1, 1>>>(pinned, 2);
  add<<<1, 1>>>(managed, 3);
  OK(cudaDeviceSynchronize());
  CHECK(pinned[0] == 3 && managed[0] == 4);
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, pinned));
  CHECK(attributes.type == cudaMemoryTypeHost);
  OK(cudaPointerGetAttributes(&attributes, managed));
  CHECK(attributes.type == cudaMemoryTypeManaged);
  OK(cudaPointerGetAttributes(&attributes, &shared_with_host));
  CHECK(attributes.type == cudaMemoryTypeManaged);
  unsigned flags = 9;
  OK(cudaHostGetFlags(&flags, pinned));
  CHECK(flags == cudaHostAllocDefault);
  CHECK(cudaHostGetFlags(&flags, managed) == cudaErrorInvalidValue);
  CHECK(cudaFree(pinned) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(managed) == cudaErrorInvalidValue);
  static int mine[4];
  OK(cudaHostRegister(mine, sizeof mine, cudaHostRegisterDefault));
  CHECK(cudaFreeHost(mine) == cudaErrorInvalidValue);
  OK(cudaHostUnregister(mine));
  CHECK(cudaFree(&shared_with_host) == cudaErrorInvalidValue);  // a variable
  OK(cudaFreeHost(pinned));
  OK(cudaHostAlloc(&pinned, 16, cudaHostAllocMapped | cudaHostAllocWriteCombined));
  OK(cudaHostGetFlags(&flags, pinned + 1));
  CHECK(flags == (cudaHostAllocMapped | cudaHostAllocWriteCombined));
  OK(cudaFreeHost(pinned));
  OK(cudaFree(managed));

  char id[16];
  int device = -1;
  OK(cudaDeviceGetPCIBusId(id, sizeof id, 0));
  OK(cudaDeviceGetByPCIBusId(&device, id));
  CHECK(device == 0);
  CHECK(cudaDeviceGetByPCIBusId(&device, "0000:ff:1f.7") == cudaErrorInvalidDevice);
  CHECK(cudaDeviceGetByPCIBusId(&device, "the first") == cudaErrorInvalidValue);
}

void check_batch() {
#if CUDART_VERSION >= 13000
  int from[2] = {5, 6}, back[2] = {}, *device = nullptr;
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreate(&stream));
  OK(cudaMalloc(&device, sizeof from));
  cudaMemcpyAttributes attributes[2] = {};
  attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  void* const to[] = {device + 1, device, back};
  const void* const sources[] = {from, from + 1, device};
  const size_t sizes[] = {4, 4, 8};
  size_t firsts[] = {0, 1};
  const auto copies = [&](size_t first, size_t count, size_t kinds, cudaStream_t in) {
    return cudaMemcpyBatchAsync(to + first, sources + first, sizes + first, count, attributes,
                                firsts, kinds, in);
  };
  OK(copies(0, 2, 2, stream));
  OK(copies(2, 1, 1, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(back[0] == 6 && back[1] == 5);
  CHECK(copies(0, 1, 2, stream) == cudaErrorInvalidValue);
  CHECK(copies(0, 2, 0, stream) == cudaErrorInvalidValue);
  CHECK(copies(0, 2, 2, nullptr) == cudaErrorInvalidValue);
  attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderInvalid;
  CHECK(copies(0, 2, 2, stream) == cudaErrorInvalidValue);
  OK(cudaFree(device));
  OK(cudaStreamDestroy(stream));
#endif
}

int range_attribute(const void* begin, size_t bytes, cudaMemRangeAttribute attribute) {
  int value = -9;
  OK(cudaMemRangeGetAttribute(&value, sizeof value, attribute, begin, bytes));
  return value;
}

// What is said of managed memory is remembered, and of no other memory.
void check_advice() {
#if CUDART_VERSION >= 13000
  const cudaMemLocation device{cudaMemLocationTypeDevice, 0}, host{cudaMemLocationTypeHost, 0};
#else
  const int device = 0, host = cudaCpuDeviceId;
#endif
  const size_t bytes = 1 << 16;
  char *managed = nullptr, *plain = nullptr;
  OK(cudaMallocManaged(&managed, bytes));
  OK(cudaMalloc(&plain, bytes));
  CHECK(range_attribute(managed, bytes, cudaMemRangeAttributeReadMostly) == 0);
  CHECK(range_attribute(managed, bytes, cudaMemRangeAttributePreferredLocation) ==
        cudaInvalidDeviceId);
  CHECK(range_attribute(managed, bytes, cudaMemRangeAttributeLastPrefetchLocation) ==
        cudaInvalidDeviceId);
  OK(cudaMemAdvise(managed, bytes, cudaMemAdviseSetReadMostly, device));
  OK(cudaMemAdvise(managed, bytes, cudaMemAdviseSetPreferredLocation, host));
  OK(cudaMemAdvise(managed, bytes, cudaMemAdviseSetAccessedBy, device));
#if CUDART_VERSION >= 13000
  OK(cudaMemPrefetchAsync(managed, bytes, device, 0, nullptr));
#else
  OK(cudaMemPrefetchAsync(managed, bytes, device, nullptr));
#endif
  CHECK(range_attribute(managed, bytes, cudaMemRangeAttributeReadMostly) == 1);
  CHECK(range_attribute(managed, 1, cudaMemRangeAttributePreferredLocation) == cudaCpuDeviceId);
  CHECK(range_attribute(managed, bytes, cudaMemRangeAttributeLastPrefetchLocation) == 0);
  int devices[2] = {-9, -9};
  OK(cudaMemRangeGetAttribute(devices, sizeof devices, cudaMemRangeAttributeAccessedBy, managed,
                              bytes));
  CHECK(devices[0] == 0 && devices[1] == cudaInvalidDeviceId);
  int found[2] = {-9, -9};
  void* places[] = {found, found + 1};
  size_t place_bytes[] = {sizeof(int), sizeof(int)};
  cudaMemRangeAttribute asked[] = {cudaMemRangeAttributeReadMostly,
                                   cudaMemRangeAttributePreferredLocation};
  OK(cudaMemRangeGetAttributes(places, place_bytes, asked, 2, managed, bytes));
  CHECK(found[0] == 1 && found[1] == cudaCpuDeviceId);
  CHECK(cudaMemRangeGetAttributes(places, place_bytes, asked, 0, managed, bytes) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemRangeGetAttribute(devices, sizeof devices, cudaMemRangeAttributeReadMostly, managed,
                                 bytes) == cudaErrorInvalidValue);
  CHECK(cudaMemAdvise(plain, bytes, cudaMemAdviseSetReadMostly, device) == cudaErrorInvalidValue);
  CHECK(cudaMemAdvise(managed, bytes + 1, cudaMemAdviseSetReadMostly, device) ==
        cudaErrorInvalidValue);
  OK(cudaFree(managed));
  OK(cudaFree(plain));
}

uint64_t pool_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  uint64_t value = 0;
  OK(cudaMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

void check_pools() {
  int *async = nullptr, *other = nullptr;
  cudaMemPool_t pool = nullptr, made = nullptr, current = nullptr;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  CHECK(pool_attribute(pool, cudaMemPoolAttrReleaseThreshold) == 0);
  CHECK(pool_attribute(pool, cudaMemPoolReuseAllowOpportunistic) == 1);
  uint64_t value = UINT64_MAX;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
  CHECK(pool_attribute(pool, cudaMemPoolAttrReleaseThreshold) == UINT64_MAX);
  OK(cudaMallocAsync(&async, 64, nullptr));
  OK(cudaMemsetAsync(async, 0xff, 64, nullptr));
  CHECK(download(async, 1)[0] == -1);
  CHECK(pool_attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 64);
  cudaMemPoolProps props{};
  OK(cudaMemPoolCreate(&made, &props));
  cudaMemLocation place{cudaMemLocationTypeDevice, 0};
  cudaMemAccessFlags access = cudaMemAccessFlagsProtNone;
  OK(cudaMemPoolGetAccess(&access, made, &place));
  CHECK(access == cudaMemAccessFlagsProtReadWrite);
  OK(cudaMallocFromPoolAsync(&other, 128, made, nullptr));
  OK(cudaFreeAsync(async, nullptr));
  CHECK(pool_attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
  CHECK(pool_attribute(pool, cudaMemPoolAttrUsedMemHigh) == 64);
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &value) == cudaErrorInvalidValue);
  value = 0;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &value));
  CHECK(pool_attribute(pool, cudaMemPoolAttrUsedMemHigh) == 0);
  OK(cudaDeviceSetMemPool(0, made));
  OK(cudaDeviceGetMemPool(&current, 0));
  CHECK(current == made && made != pool);
  OK(cudaMallocAsync(&async, 64, nullptr));
  CHECK(pool_attribute(made, cudaMemPoolAttrUsedMemCurrent) == 192);
  OK(cudaFree(async));
  OK(cudaFreeAsync(other, nullptr));
  CHECK(pool_attribute(made, cudaMemPoolAttrReservedMemCurrent) == 0);
  OK(cudaMemPoolDestroy(made));
  OK(cudaDeviceGetMemPool(&current, 0));
  CHECK(current == pool && cudaMemPoolDestroy(pool) == cudaErrorInvalidValue);
  size_t free_bytes = 0, total_bytes = 0;
  OK(cudaMemGetInfo(&free_bytes, &total_bytes));
  CHECK(free_bytes > 0 && free_bytes <= total_bytes);
}

// What is set of a stream can be read, and is copied.
void check_stream_attributes() {
  cudaStream_t stream = nullptr, other = nullptr;
  cudaStreamAttrValue value{}, found{};
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamDefault, -2));
  OK(cudaStreamCreate(&other));
  OK(cudaStreamGetAttribute(stream, cudaStreamAttributePriority, &found));
  CHECK(found.priority == -2);
  OK(cudaStreamGetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &found));
  CHECK(found.accessPolicyWindow.num_bytes == 0);
  value.accessPolicyWindow.num_bytes = 4096;
  OK(cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &value));
  OK(cudaStreamCopyAttributes(other, stream));
  OK(cudaStreamGetAttribute(other, cudaStreamAttributeAccessPolicyWindow, &found));
  CHECK(found.accessPolicyWindow.num_bytes == 4096);
  CHECK(cudaStreamGetAttribute(stream, cudaLaunchAttributeClusterDimension, &found) ==
        cudaErrorInvalidValue);
  cudaDeviceProp properties{};
  int device = -1;
  OK(cudaChooseDevice(&device, &properties));
  CHECK(device == 0);
}

void check_graphs() {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaEvent_t start = nullptr, stop = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&stop));
  int* const data = zeros<int>(4);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int value = 1; value <= 3; ++value) add<<<1, 4, 0, stream>>>(data, value);
  OK(cudaMemsetAsync(data + 3, 0, sizeof(int), stream));
  OK(cudaStreamEndCapture(stream, &graph));
  CHECK(download(data, 4) == std::vector<int>(4, 0));
  OK(cudaGraphInstantiate(&executable, graph, 0));
  OK(cudaGraphDestroy(graph));
  OK(cudaEventRecord(start, stream));
  OK(cudaGraphLaunch(executable, stream));
  OK(cudaGraphLaunch(executable, stream));
  OK(cudaEventRecord(stop, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(download(data, 4) == (std::vector<int>{12, 12, 12, 0}));
  float ms = 0;
  OK(cudaEventElapsedTime(&ms, start, stop));
  CHECK(ms > 0);
  OK(cudaGraphExecDestroy(executable));
  OK(cudaStreamDestroy(stream));
}

void check_fork_in_capture() {
  cudaStream_t stream = nullptr, other = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreate(&other));
  OK(cudaEventCreate(&fork));
  OK(cudaEventCreate(&join));
  int* const data = zeros<int>(4);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add<<<1, 4, 0, stream>>>(data, 1);
  OK(cudaEventRecord(fork, stream));
  OK(cudaStreamWaitEvent(other, fork, 0));
  add<<<1, 4, 0, other>>>(data, 2);
  OK(cudaEventRecord(join, other));
  OK(cudaStreamWaitEvent(stream, join, 0));
  add<<<1, 4, 0, stream>>>(data, 3);
  OK(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 3);
  OK(cudaGraphInstantiate(&executable, graph, 0));
  OK(cudaGraphLaunch(executable, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(download(data, 4) == std::vector<int>(4, 6));
}

// What ggml and others do: nodes of a capture are read, changed and launched again.
void check_nodes_read_back() {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr, outer = nullptr;
  cudaGraphExec_t executable = nullptr;
  OK(cudaStreamCreate(&stream));
  int* const data = zeros<int>(4);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  add<<<1, 4, 0, stream>>>(data, 5);
  OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t node = nullptr, child = nullptr, fill = nullptr;
  size_t count = 1;
  OK(cudaGraphGetNodes(graph, &node, &count));
  cudaKernelNodeParams params{};
  OK(cudaGraphKernelNodeGetParams(node, &params));
  CHECK(params.func == reinterpret_cast<void*>(&add));
  CHECK(params.gridDim.x == 1 && params.blockDim.x == 4 && params.sharedMemBytes == 0);
  CHECK(*static_cast<int**>(params.kernelParams[0]) == data);
  CHECK(*static_cast<int*>(params.kernelParams[1]) == 5);
  int seven = 7;
  void* arguments[] = {params.kernelParams[0], &seven};
  params.kernelParams = arguments;
  OK(cudaGraphKernelNodeSetParams(node, &params));
  // The graph as a node of another one, behind a fill that is added later.
  OK(cudaGraphCreate(&outer, 0));
  OK(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, graph));
  cudaMemsetParams zero{};
  zero.dst = data;
  zero.elementSize = 4;
  zero.width = 4;
  zero.height = 1;
  OK(cudaGraphAddMemsetNode(&fill, outer, nullptr, 0, &zero));
#if CUDART_VERSION >= 13000
  OK(cudaGraphAddDependencies(outer, &fill, &child, nullptr, 1));
#else
  OK(cudaGraphAddDependencies(outer, &fill, &child, 1));
#endif
  OK(cudaGraphInstantiate(&executable, outer, 0));
  OK(cudaGraphLaunch(executable, stream));
  OK(cudaGraphLaunch(executable, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(download(data, 4) == std::vector<int>(4, 7));
  CHECK(cudaGraphKernelNodeGetParams(fill, &params) == cudaErrorInvalidValue);
  OK(cudaGraphExecDestroy(executable));
}

void check_driver_calls() {
  for (const char* name : {"cuTensorMapEncodeTiled", "cuMemAlloc", "cuLaunchKernelEx"}) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    OK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
    CHECK(found == cudaDriverEntryPointSuccess && function != nullptr);
  }
  void* function = nullptr;
  OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, cudaEnableDefault, nullptr));
  CUdeviceptr data = 0;
  CHECK(reinterpret_cast<decltype(&cuMemAlloc)>(function)(&data, 16) == CUDA_SUCCESS);
  OK(cudaMemset(reinterpret_cast<void*>(data), 1, 16));
  OK(cudaFree(reinterpret_cast<void*>(data)));
}

// The host may get the addresses of device memory that was freed: then they are the host's.
void check_address_in_new_hands() {
  void* freed = nullptr;
  OK(cudaMalloc(&freed, 4096));
  OK(cudaFree(freed));
  void* const host = mmap(freed, 4096, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (host != freed) return;  // a GPU's driver keeps its addresses
  const int value = 7;
  std::memcpy(host, &value, sizeof value);
  int* const data = zeros<int>(1);
  OK(cudaMemcpy(data, host, sizeof value, cudaMemcpyHostToDevice));
  CHECK(download(data, 1) == std::vector<int>(1, 7));
  CHECK(munmap(host, 4096) == 0);
}

}  // namespace

int main() {
  check_parameters();
  check_launches();
  check_registers();
  check_variables();
  check_memory();
  check_batch();
  check_advice();
  check_pools();
  check_stream_attributes();
  check_graphs();
  check_nodes_read_back();
  check_fork_in_capture();
  check_driver_calls();
  check_address_in_new_hands();
  std::printf("ok\n");
  return 0;
}
