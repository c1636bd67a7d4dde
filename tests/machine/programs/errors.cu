// What the runtime answers to wrong and to unusual calls, a line each: "case<TAB>error or value".
// errors.txt has the answers that were recorded on an H200 (driver 580.159.04, CUDA 13.0); the PTX
// machine must give the same.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void empty() {}

__global__ void __launch_bounds__(256) bounded() {}

__global__ void __cluster_dims__(2, 1, 1) pairs() {}

__global__ void with_static_smem(int* out) {
  __shared__ int values[1024];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (out != nullptr) out[threadIdx.x] = values[1023 - threadIdx.x];
}

__constant__ int four_ints[4];

namespace {

const void* pointer(void (*kernel)()) {
  return reinterpret_cast<const void*>(kernel);
}

void say(const char* what, cudaError_t status) {
  std::printf("%s\t%s\n", what, cudaGetErrorName(status));
  std::fflush(stdout);
  cudaGetLastError();
}

void say_value(const char* what, long long value) {
  std::printf("%s\t%lld\n", what, value);
}

cudaError_t launch(void (*kernel)(), dim3 grid, dim3 block, size_t smem_bytes = 0,
                   cudaStream_t stream = nullptr) {
  const cudaError_t status =
      cudaLaunchKernel(pointer(kernel), grid, block, nullptr, smem_bytes, stream);
  return status != cudaSuccess ? status : cudaDeviceSynchronize();
}

cudaError_t launch_cluster(void (*kernel)(), dim3 grid, dim3 cluster) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster.x;
  attribute.val.clusterDim.y = cluster.y;
  attribute.val.clusterDim.z = cluster.z;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(32);
  config.attrs = &attribute;
  config.numAttrs = 1;
  const cudaError_t status = cudaLaunchKernelExC(&config, pointer(kernel), nullptr);
  return status != cudaSuccess ? status : cudaDeviceSynchronize();
}

void launches() {
  say("grid 1, block 1", launch(empty, 1, 1));
  say("grid 0", launch(empty, 0, 32));
  say("grid y 0", launch(empty, dim3(1, 0), 32));
  say("grid y 65536", launch(empty, dim3(1, 65536), 32));
  say("grid z 65536", launch(empty, dim3(1, 1, 65536), 32));
  say("block 0", launch(empty, 1, 0));
  say("block 1025", launch(empty, 1, 1025));
  say("block 33 x 32", launch(empty, 1, dim3(33, 32)));
  say("block z 65", launch(empty, 1, dim3(1, 1, 65)));
  say("block z 64", launch(empty, 1, dim3(1, 1, 64)));
  say("launch bounds met", launch(bounded, 1, 256));
  say("launch bounds exceeded", launch(bounded, 1, 257));
  say("smem 48 KiB", launch(empty, 1, 32, 48 << 10));
  say("smem 48 KiB and a byte", launch(empty, 1, 32, (48 << 10) + 1));
  say("no kernel", cudaLaunchKernel(four_ints, 1, 1, nullptr, 0, nullptr));
  int devices = 0;
  say("device count", cudaGetDeviceCount(&devices));
  say("device of no such number", cudaSetDevice(devices));

  void* no_arguments[1] = {};
  say("cooperative, small",
      cudaLaunchCooperativeKernel(pointer(empty), 2, 32, no_arguments, 0, nullptr));
  say("cooperative, too large",
      cudaLaunchCooperativeKernel(pointer(empty), 1 << 20, 32, no_arguments, 0, nullptr));
}

void clusters() {
  say("cluster 2 of grid 4", launch_cluster(empty, 4, 2));
  say("cluster 3 of grid 4", launch_cluster(empty, 4, 3));
  say("cluster 2 x 2 of grid 4 x 3", launch_cluster(empty, dim3(4, 3), dim3(2, 2)));
  say("cluster 8", launch_cluster(empty, 16, 8));
  say("cluster 16, portable", launch_cluster(empty, 16, 16));
  say("allow 16",
      cudaFuncSetAttribute(pointer(empty), cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  say("cluster 16", launch_cluster(empty, 16, 16));
  say("cluster 32", launch_cluster(empty, 32, 32));
  say("required cluster, none given", launch(pairs, 4, 32));
  say("required cluster, odd grid", launch(pairs, 3, 32));
  say("required cluster, the same given", launch_cluster(pairs, 4, 2));
  say("required cluster, another given", launch_cluster(pairs, 4, 4));
}

cudaError_t launch_with(int id, int value, cudaStream_t stream = nullptr) {
  cudaLaunchAttribute attribute{};
  attribute.id = static_cast<cudaLaunchAttributeID>(id);
  attribute.val.programmaticStreamSerializationAllowed =
      value;  // every other one's first word, too
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(32);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  const cudaError_t status = cudaLaunchKernelExC(&config, pointer(empty), nullptr);
  return status != cudaSuccess || stream != nullptr ? status : cudaDeviceSynchronize();
}

void launch_attributes() {
  const int programmatic = cudaLaunchAttributeProgrammaticStreamSerialization;
  for (const int value : {0, 1, 2, -1}) {
    char what[64];
    std::snprintf(what, sizeof what, "programmatic stream serialization %d", value);
    say(what, launch_with(programmatic, value));
  }
  say("launch attribute ignored", launch_with(cudaLaunchAttributeIgnore, 1));
  say("launch attribute of streams", launch_with(cudaLaunchAttributeSynchronizationPolicy, 1));
  say("launch attribute 999", launch_with(999, 1));
  say("launch attribute -1", launch_with(-1, 1));

  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaStreamCreate(&stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  say("captured, first", launch_with(programmatic, 1, stream));
  say("captured, programmatic", launch_with(programmatic, 1, stream));
  say("end of a programmatic capture", cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  say_value("programmatic nodes", static_cast<long long>(nodes));
  say("instantiate", cudaGraphInstantiate(&executable, graph, 0));
  say("launch of the graph", cudaGraphLaunch(executable, stream));
  say("wait for the graph", cudaStreamSynchronize(stream));
}

void occupancy() {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = 2;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(4);
  config.blockDim = dim3(32);
  config.attrs = attributes;
  config.numAttrs = 2;
  int count = 0;
  say("active clusters, programmatic",
      cudaOccupancyMaxActiveClusters(&count, pointer(empty), &config));
  say_value("some clusters are active", count > 0);
  say("cluster size, programmatic",
      cudaOccupancyMaxPotentialClusterSize(&count, pointer(empty), &config));
  attributes[0].id = static_cast<cudaLaunchAttributeID>(999);
  say("active clusters, attribute 999",
      cudaOccupancyMaxActiveClusters(&count, pointer(empty), &config));
}

void attributes() {
  const void* const kernel = reinterpret_cast<const void*>(with_static_smem);
  const auto max_smem = cudaFuncAttributeMaxDynamicSharedMemorySize;
  cudaFuncAttributes found;
  say("attributes", cudaFuncGetAttributes(&found, kernel));
  say_value("static smem", static_cast<long long>(found.sharedSizeBytes));
  say_value("max threads", found.maxThreadsPerBlock);
  say_value("max dynamic smem", found.maxDynamicSharedSizeBytes);
  say("smem opt-in, all but the static", cudaFuncSetAttribute(kernel, max_smem, 232448 - 4096));
  say("smem opt-in, a byte more", cudaFuncSetAttribute(kernel, max_smem, 232448 - 4095));
  say("smem opt-in, negative", cudaFuncSetAttribute(kernel, max_smem, -1));
  cudaFuncGetAttributes(&found, kernel);
  say_value("max dynamic smem after opt-in", found.maxDynamicSharedSizeBytes);
  say("attributes of no kernel", cudaFuncGetAttributes(&found, four_ints));
  cudaFuncGetAttributes(&found, pointer(bounded));
  say_value("max threads of launch bounds", found.maxThreadsPerBlock);

  int ctas = 0;
  for (const int threads : {32, 33, 128, 256, 1024}) {
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, pointer(empty), threads, 0);
    std::printf("CTAs an SM of %d threads\t%d\n", threads, ctas);
  }
  for (const int kib : {8, 48, 100, 113, 114, 200}) {
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, kernel, 128,
                                                  static_cast<size_t>(kib) << 10);
    std::printf("CTAs an SM of %d KiB and 4 KiB static\t%d\n", kib, ctas);
  }
}

void memory() {
  char *buffer = nullptr, host[64] = {};
  say("malloc of nothing", cudaMalloc(&buffer, 0));
  say_value("malloc of nothing is null", buffer == nullptr);
  say("malloc", cudaMalloc(&buffer, 64));
  say("free of null", cudaFree(nullptr));
  say("free of the middle", cudaFree(buffer + 16));
  say("copy to the device", cudaMemcpy(buffer, host, 64, cudaMemcpyHostToDevice));
  say("copy to host memory as device's", cudaMemcpy(host, host, 8, cudaMemcpyHostToDevice));
  say("copy in no direction", cudaMemcpy(host, buffer, 8, static_cast<cudaMemcpyKind>(9)));
  say("copy by rows wider than the pitch",
      cudaMemcpy2D(host, 8, buffer, 8, 16, 2, cudaMemcpyDeviceToHost));
  say("copy of nothing", cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
  say("copy to a symbol", cudaMemcpyToSymbol(four_ints, host, 16));
  say("copy past a symbol's end", cudaMemcpyToSymbol(four_ints, host, 16, 4));
  say("copy to what is no symbol", cudaMemcpyToSymbol(host, host, 4));
  say("fill of host memory", cudaMemset(host, 0, 8));
  say("free", cudaFree(buffer));
  say("free of what is no allocation", cudaFree(host));
  cudaPointerAttributes pointer_attributes;
  say("attributes of host memory", cudaPointerGetAttributes(&pointer_attributes, host));
  say_value("type of host memory", pointer_attributes.type);
}

void streams() {
  cudaStream_t stream = nullptr, other = nullptr;
  cudaEvent_t event = nullptr, untimed = nullptr, fork = nullptr;
  cudaGraph_t graph = nullptr;
  char* buffer = nullptr;
  float ms = 0;
  cudaStreamCreate(&stream);
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaEventCreate(&event);
  cudaEventCreate(&fork);
  cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming);
  say("elapsed, never recorded", cudaEventElapsedTime(&ms, event, event));
  cudaEventRecord(event, stream);
  cudaEventRecord(untimed, stream);
  cudaStreamSynchronize(stream);
  say("elapsed, timing off", cudaEventElapsedTime(&ms, event, untimed));

  const auto mode = cudaStreamCaptureModeGlobal;
  say("end of no capture", cudaStreamEndCapture(stream, &graph));
  say("capture of the legacy stream", cudaStreamBeginCapture(nullptr, mode));
  say("begin", cudaStreamBeginCapture(stream, mode));
  say("begin again", cudaStreamBeginCapture(stream, mode));
  say("captured launch", cudaLaunchKernel(pointer(empty), 1, 1, nullptr, 0, stream));
  say("end", cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  say_value("nodes", static_cast<long long>(nodes));

  cudaStreamBeginCapture(stream, mode);
  say("waiting in a capture", cudaStreamSynchronize(stream));
  say("end after that", cudaStreamEndCapture(stream, &graph));
  cudaStreamBeginCapture(stream, mode);
  say("malloc in a capture", cudaMalloc(&buffer, 64));
  say("end after that, too", cudaStreamEndCapture(stream, &graph));
  cudaStreamBeginCapture(stream, mode);
  say("legacy launch in a capture", cudaLaunchKernel(pointer(empty), 1, 1, nullptr, 0, nullptr));
  say("end after the launch", cudaStreamEndCapture(stream, &graph));

  cudaStreamBeginCapture(stream, mode);
  cudaEventRecord(fork, stream);
  cudaStreamWaitEvent(other, fork, 0);
  cudaLaunchKernel(pointer(empty), 1, 1, nullptr, 0, other);
  say("end, not joined", cudaStreamEndCapture(stream, &graph));
  cudaStreamBeginCapture(stream, mode);
  cudaEventRecord(fork, stream);
  cudaStreamWaitEvent(other, fork, 0);
  cudaLaunchKernel(pointer(empty), 1, 1, nullptr, 0, other);
  say("end of a fork", cudaStreamEndCapture(other, &graph));  // invalidates the capture
  cudaEventRecord(fork, other);
  cudaStreamWaitEvent(stream, fork, 0);
  say("end, joined", cudaStreamEndCapture(stream, &graph));
}

}  // namespace

int main() {
  launches();
  clusters();
  attributes();
  memory();
  streams();
  launch_attributes();
  occupancy();
  say("at last", cudaDeviceSynchronize());
  return 0;
}
