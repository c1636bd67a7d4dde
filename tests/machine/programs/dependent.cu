// Two kernels, the second launched so that it may begin before the first has ended, and what they did:
//
//   dependent WAITS ALLOWED CAPTURED LETS [BETWEEN]
//       each 0 or 1: whether the second kernel waits for the first, the value of the launch's
//       attribute, whether both are captured and replayed as a graph, and whether the first lets
//       the second begin before it has ended. BETWEEN: what the two have between them
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

template <bool WAITS, bool LETS>
__global__ void add(int* out, int value) {
  if (LETS) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (WAITS) asm volatile("griddepcontrol.wait;" ::: "memory");
  out[threadIdx.x] += value;
}

// What ends the first kernel, but for an allocation, an event, and what another stream does.
void come_between(const char* what, int* other, cudaStream_t stream) {
  const auto is = [what](const char* name) { return std::strcmp(what, name) == 0; };
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  int word = 0;
  if (is("memset")) cudaMemsetAsync(other, 0, sizeof word, stream);
  if (is("memcpy")) cudaMemcpyAsync(other, &word, sizeof word, cudaMemcpyHostToDevice, stream);
  if (is("function")) cudaLaunchHostFunc(stream, [](void*) {}, nullptr);
  if (is("stream")) cudaStreamSynchronize(stream);
  if (is("device")) cudaDeviceSynchronize();
  if (is("legacy")) cudaMemset(other, 0, sizeof word);
  if (is("legacy kernel")) add<false, true><<<1, 1>>>(other, 1);
  if (is("allocation")) cudaMallocAsync(&other, sizeof word, stream);
  if (is("event") || is("wait")) cudaEventRecord(event, stream);
  if (is("wait")) cudaEventSynchronize(event);
  if (is("other stream")) {
    cudaStream_t apart = nullptr;
    cudaStreamCreate(&apart);
    cudaMemsetAsync(other, 0, sizeof word, apart);
    cudaStreamSynchronize(apart);
  }
}

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) return 2;
  const bool waits = std::atoi(argv[1]) != 0, captured = std::atoi(argv[3]) != 0;
  int* out = nullptr;
  cudaStream_t stream = nullptr;
  cudaMalloc(&out, 64 * sizeof(int));
  cudaMemset(out, 0, 64 * sizeof(int));
  cudaStreamCreate(&stream);
  if (captured) cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  const auto first = std::atoi(argv[4]) != 0 ? add<true, true> : add<true, false>;
  first<<<1, 32, 0, stream>>>(out, 1);
  if (argc == 6) come_between(argv[5], out + 32, stream);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = std::atoi(argv[2]);
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 32;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, waits ? add<true, true> : add<false, true>, out, 2);
  if (captured) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphLaunch(executable, stream);
  }
  const cudaError_t status = cudaStreamSynchronize(stream);
  int result = 0;
  if (status == cudaSuccess) cudaMemcpy(&result, out + 31, sizeof result, cudaMemcpyDeviceToHost);
  std::printf("%s %d\n", cudaGetErrorName(status), result);
  return 0;
}
