// A kernel that fails in one way or another, in a program that ignores the error and ends as if all
// were well. Of "race" and "never" the values are printed.
#include <cuda_runtime.h>

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void fill(int* out) {
  out[threadIdx.x] = 1;
}
__global__ void fill_shared(int* out) {
  __shared__ int values[32], others[32];
  others[threadIdx.x] = 1;
  values[threadIdx.x + 32] = 7;  // in `others`, or in none
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x] + others[threadIdx.x];
}
__global__ void trap(int* out) {
  if (out != nullptr) __trap();
}
__global__ void misaligned(int* out) {
  *reinterpret_cast<volatile int*>(reinterpret_cast<char*>(out) + 2) = 1;
}
__global__ void assertion(int* out) {
  assert(out == nullptr);
}
__global__ void sum(const int* in, int* out) {
  atomicAdd(out, in[threadIdx.x]);
}
// What no machine but a GPU runs.
__global__ void strange(int* out) {
  asm volatile("vadd.s32.s32.s32.add %0, %1.b0, %2, %3;" : "=r"(*out) : "r"(1), "r"(2), "r"(3));
}
// Neither barrier is there: two defects, one a run of its own.
__global__ void races(int* out) {
  __shared__ int first[64], second[64];
  first[threadIdx.x] = static_cast<int>(threadIdx.x);
  second[threadIdx.x] = first[63 - threadIdx.x];
  out[threadIdx.x] = second[63 - threadIdx.x];
}
// A counter that several threads change, and no atomic.
__global__ void count(int* out) {
  __shared__ int counts[32];
  if (threadIdx.x < 32) counts[threadIdx.x] = 0;
  __syncthreads();
  counts[out == nullptr ? threadIdx.x : threadIdx.x % 32 / blockDim.y] += 1;
  __syncthreads();
  if (threadIdx.x < 32) out[threadIdx.x] = counts[threadIdx.x];
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "bounds";
  const auto is = [what](const char* name) { return std::strcmp(what, name) == 0; };
  int *out = nullptr, *in = nullptr;
  cudaMalloc(&out, 100 * sizeof(int));
  cudaMalloc(&in, 100 * sizeof(int));
  if (is("bounds")) fill<<<1, 128>>>(out);
  if (is("shared")) fill_shared<<<1, 32>>>(out);
  if (is("trap")) trap<<<1, 1>>>(out);
  if (is("misaligned")) misaligned<<<1, 1>>>(out);
  if (is("assert")) assertion<<<1, 1>>>(out);
  if (is("never")) {
    cudaMemset(out, 0, sizeof(int));
    sum<<<1, 32>>>(in, out);
  }
  if (is("refused")) {
    strange<<<1, 1>>>(out);
    std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    fill<<<1, 100>>>(out);
  }
  if (is("limited")) {  // `in` is followed by `out` if nothing lies between
    void* volatile const mine = std::malloc(size_t{1} << 30);
    std::printf("%s\n", mine == nullptr ? "no memory for the host" : "memory for the host");
    fill<<<1, 1>>>(in + 1024);
  }
  if (is("races")) races<<<1, 64>>>(out);
  if (is("count lanes")) count<<<1, dim3(32, 2)>>>(out);
  if (is("count warps")) count<<<1, 64>>>(out);
  if (is("alloc")) {
    size_t free_bytes = 0, total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    std::printf("%s\n", cudaGetErrorName(cudaMalloc(&in, free_bytes + (1 << 20))));
    cudaGetLastError();
    std::printf("%s\n", cudaGetErrorName(cudaMalloc(&in, free_bytes / 2)));
  }
  std::printf("first %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  std::printf("then %s\n", cudaGetErrorName(cudaMalloc(&in, 4)));
  std::printf("still %s\n", cudaGetErrorName(cudaGetLastError()));
  return 0;
}
