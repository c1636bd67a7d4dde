// One product from C: A is the identity, so D must be B^T, bit for bit.
#include <cuda_runtime_api.h>
#include <ladder.h>
#include <stdio.h>

enum { M = 104, N = 200, K = 104 };  // leading dimensions are multiples of 8

static unsigned short a[M * K], b[N * K], d[M * N];  // bf16, as bits

int main(int argc, char** argv) {
  if (argc > 1) return fprintf(stderr, "call takes no arguments, such as %s.\n", argv[1]), 2;
  for (int i = 0; i < M; ++i) a[i * K + i] = 0x3f80;                          // 1
  for (int i = 0; i < N * K; ++i) b[i] = (unsigned short)(0x3f80 + i % 128);  // 1 to 2

  void *a_gpu = NULL, *b_gpu = NULL, *d_gpu = NULL;
  if (cudaMalloc(&a_gpu, sizeof a) || cudaMalloc(&b_gpu, sizeof b) ||
      cudaMalloc(&d_gpu, sizeof d)) {
    fprintf(stderr, "No memory of a GPU: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 3;
  }
  cudaMemcpy(a_gpu, a, sizeof a, cudaMemcpyHostToDevice);
  cudaMemcpy(b_gpu, b, sizeof b, cudaMemcpyHostToDevice);
  if (ladder_gemm_bf16(0, M, N, K, a_gpu, K, b_gpu, K, d_gpu, N, NULL) != LADDER_OK) {
    fprintf(stderr, "%s\n", ladder_last_error());
    return 2;
  }
  const char* kernel = ladder_last_kernel();
  const cudaError_t status = cudaMemcpy(d, d_gpu, sizeof d, cudaMemcpyDeviceToHost);  // waits
  if (status != cudaSuccess) {
    fprintf(stderr, "The kernel failed: %s\n", cudaGetErrorString(status));
    return 1;
  }
  for (int i = 0; i < M * N; ++i) {
    if (d[i] != b[i % N * K + i / N]) {
      fprintf(stderr, "D[%d][%d] is %#x\n", i / N, i % N, d[i]);
      return 1;
    }
  }
  printf("%s: D is right\n", kernel);
  return 0;
}
