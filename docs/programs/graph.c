// Two products, one of the other's result, captured into a CUDA graph once; then new data go into
// the same buffers and the graph runs again. D must have the bits that the same calls give without
// it.
#include <cuda_runtime_api.h>
#include <ladder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 24, K = 200, N = 136, P = 72, REPLAYS = 3 };

typedef unsigned short Bf16;  // its bits

static Bf16 x[M * K], by_calls[M * P], by_graph[M * P];

static void check(int failed, const char* what) {
  if (!failed) return;
  const char* refused = ladder_last_error();
  fprintf(stderr, "%s: %s\n", what, refused[0] ? refused : cudaGetErrorString(cudaGetLastError()));
  exit(1);
}

static void* weights(int rows, int cols) {
  static Bf16 w[N * K];
  void* there = NULL;
  for (int i = 0; i < rows * cols; ++i) w[i] = (Bf16)(0x3e00 + rand() % 256 + rand() % 2 * 0x8000);
  check(cudaMalloc(&there, sizeof *w * rows * cols), "cudaMalloc");
  check(cudaMemcpy(there, w, sizeof *w * rows * cols, cudaMemcpyHostToDevice), "cudaMemcpy");
  return there;
}

int main(int argc, char** argv) {
  if (argc > 1) return fprintf(stderr, "graph takes no arguments, such as %s.\n", argv[1]), 2;
  void *a, *hidden, *d;
  check(cudaMalloc(&a, sizeof x), "cudaMalloc");
  check(cudaMalloc(&hidden, sizeof(Bf16) * M * N), "cudaMalloc");
  check(cudaMalloc(&d, sizeof by_graph), "cudaMalloc");
  void *w1 = weights(N, K), *w2 = weights(P, N);
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");

  cudaGraph_t graph;
  cudaGraphExec_t program;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  check(ladder_gemm_bf16(0, M, N, K, a, K, w1, K, hidden, N, stream), "first product");
  check(ladder_gemm_bf16(0, M, P, N, hidden, N, w2, N, d, P, stream), "second product");
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&program, graph, 0), "cudaGraphInstantiate");

  for (int replay = 0; replay < REPLAYS; ++replay) {
    for (int i = 0; i < M * K; ++i) x[i] = (Bf16)(0x3f00 + rand() % 256);
    check(cudaMemcpyAsync(a, x, sizeof x, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    check(cudaMemsetAsync(d, 0xff, sizeof by_graph, stream), "cudaMemsetAsync");
    check(cudaGraphLaunch(program, stream), "cudaGraphLaunch");
    check(cudaMemcpyAsync(by_graph, d, sizeof by_graph, cudaMemcpyDeviceToHost, stream), "copy");
    check(cudaStreamSynchronize(stream), "the graph");

    check(ladder_gemm_bf16(0, M, N, K, a, K, w1, K, hidden, N, stream), "first product");
    check(ladder_gemm_bf16(0, M, P, N, hidden, N, w2, N, d, P, stream), "second product");
    check(cudaMemcpyAsync(by_calls, d, sizeof by_calls, cudaMemcpyDeviceToHost, stream), "copy");
    check(cudaStreamSynchronize(stream), "the calls");
    const int equal = memcmp(by_graph, by_calls, sizeof by_graph) == 0;
    printf("replay %d: D[0][0] has the bits %#x; %s\n", replay, by_graph[0],
           equal ? "as by calls" : "not as by calls");
    if (!equal) return 1;
  }
  return 0;
}
