// What linked.cu is linked with. Its kernel has a race if it is asked to.
#include <cuda_runtime.h>

#include <cstdio>

__device__ int twice(int x);
__device__ int counter;
__constant__ int factors[2] = {3, 4};
__device__ int (*function)(int) = twice;
__device__ int twice_and(int x) {
  return function(x) + 10;
}
static __device__ int mine = 7;
static __device__ __noinline__ const char* name() {
  return "two";
}

__global__ void look(int* out, bool race) {
  __shared__ int place;
  if (race) place = static_cast<int>(threadIdx.x) + 1;
  if (threadIdx.x != 0) return;
  out[1] = counter;
  if (race) out[1] += place;
  printf("%s %d", name(), mine);
}

cudaError_t launch_other(int* out, bool race) {
  look<<<1, 64>>>(out, race);
  return cudaDeviceSynchronize();
}
