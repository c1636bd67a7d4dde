// Linked with linked_to.cu by -rdc=true. Each of the two has a function and a variable that only the
// other defines, and texts, a variable and a function that are its own under a name that both have.
#include <cuda_runtime.h>

#include <cstdio>

extern __device__ int counter;
extern __constant__ int factors[2];
__device__ int twice_and(int x);
__device__ int twice(int x) {
  return 2 * x;
}
static __device__ int mine = 5;
static __device__ __noinline__ const char* name() {
  return "one";
}
cudaError_t launch_other(int* out, bool race);

__global__ void write(int* out) {
  out[0] = twice_and(1) + factors[1];
  atomicAdd(&counter, 8);
  printf("%s %d, ", name(), mine);
}

int main(int argc, char**) {
  int *out = nullptr, host[2] = {};
  cudaMalloc(&out, sizeof host);
  write<<<1, 1>>>(out);
  const bool failed = launch_other(out, argc > 1) != cudaSuccess;
  cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  std::printf(": %d %d\n", host[0], host[1]);
  return failed;
}
