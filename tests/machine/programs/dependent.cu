// Two kernels, the second launched so that it may begin before the first has ended, and what they did:
//
//   dependent WAITS ALLOWED CAPTURED LETS    each 0 or 1: whether the second kernel waits for the
//                                            first, the value of the launch's attribute, whether both
//                                            are captured and replayed as a graph, and whether the
//                                            first lets the second begin before it has ended
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

template <bool WAITS, bool LETS>
__global__ void add(int* out, int value) {
  if (LETS) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (WAITS) asm volatile("griddepcontrol.wait;" ::: "memory");
  out[threadIdx.x] += value;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const bool waits = std::atoi(argv[1]) != 0, captured = std::atoi(argv[3]) != 0;
  int* out = nullptr;
  cudaStream_t stream = nullptr;
  cudaMalloc(&out, 32 * sizeof(int));
  cudaMemset(out, 0, 32 * sizeof(int));
  cudaStreamCreate(&stream);
  if (captured) cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  const auto first = std::atoi(argv[4]) != 0 ? add<true, true> : add<true, false>;
  first<<<1, 32, 0, stream>>>(out, 1);
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
