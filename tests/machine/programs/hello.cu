// Writes 42 from a kernel. Built in several ways, of which the PTX machine can run one.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void write(int* out) {
  *out = 42;
}

int main() {
  int *out = nullptr, host = 0;
  cudaMalloc(&out, sizeof host);
  cudaMemset(out, 0, sizeof host);
  write<<<1, 1>>>(out);
  const cudaError_t status = cudaGetLastError();
  cudaMemcpy(&host, out, sizeof host, cudaMemcpyDeviceToHost);
  std::printf("%s %d\n", cudaGetErrorName(status), host);
  return 0;
}
