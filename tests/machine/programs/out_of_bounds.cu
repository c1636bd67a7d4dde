// Writes behind an allocation, ignores the error and ends as if all were well.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void fill(int* out) {
  out[threadIdx.x] = 1;
}

int main() {
  int* out = nullptr;
  cudaMalloc(&out, 100 * sizeof(int));
  fill<<<1, 128>>>(out);
  std::printf("first %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  std::printf("then %s\n", cudaGetErrorName(cudaMalloc(&out, 4)));
  std::printf("still %s\n", cudaGetErrorName(cudaGetLastError()));
  return 0;
}
