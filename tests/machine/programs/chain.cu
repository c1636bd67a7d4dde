// Three kernels that may each begin before the one in front has ended: `make` writes data, `fill` a
// table, `use` reads the data before it waits, and the table behind that.
//
//   chain HOW    beside: as it says, which is right; table: it reads the table before it waits; early:
//                `fill` lets it begin before `make` has ended; store: it stores before it waits where
//                `fill` reads
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

__device__ void wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ void let_next() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

__global__ void make(int* data) {
  let_next();
  data[threadIdx.x] = 100;
}

__global__ void fill(int* table, const int* from, bool early) {
  if (early) let_next();
  wait();
  if (!early) let_next();
  table[threadIdx.x] = from[threadIdx.x] + static_cast<int>(threadIdx.x);
}

__global__ void use(const int* table, const int* data, int* out, int* stored) {
  const int value = data[threadIdx.x];
  if (stored != nullptr) stored[threadIdx.x] = 0;
  wait();
  out[threadIdx.x] = value + table[threadIdx.x];
}

template <class... T>
void launch(void (*kernel)(T...), T... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 32;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto is = [how = argv[1]](const char* name) { return std::strcmp(how, name) == 0; };
  int* data = nullptr;
  cudaMalloc(&data, 4096 * 4 * sizeof(int));
  cudaMemset(data, 0, 4096 * 4 * sizeof(int));
  int *const table = data + 4096, *const zeros = data + 8192, *const out = data + 12288;
  make<<<1, 32>>>(data);
  launch(fill, table, const_cast<const int*>(zeros), is("early"));
  launch(use, const_cast<const int*>(table), const_cast<const int*>(is("table") ? table : data),
         out, is("store") ? zeros : nullptr);
  int last = 0;
  const cudaError_t status = cudaMemcpy(&last, out + 31, sizeof last, cudaMemcpyDeviceToHost);
  std::printf("%s %d\n", cudaGetErrorName(status), last);
  return 0;
}
