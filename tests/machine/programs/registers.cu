// Kernels whose registers and stack frame are read from their cubin.
extern "C" __global__ void few_registers(int* out) {
  out[threadIdx.x] = static_cast<int>(threadIdx.x);
}

// An array that is written and read where only the run knows lives on the stack.
extern "C" __global__ void frame(int* out, int count) {
  int values[64];
  for (int i = 0; i < 64; ++i) values[i] = out[i];
  for (int i = 0; i < count; ++i) values[i * count % 64] += values[i % 64];
  out[0] = values[count];
}
