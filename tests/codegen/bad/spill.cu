// Refused for spill: 128 values a thread do not fit the 64 registers that 1024 threads leave.
__global__ __launch_bounds__(1024, 1) void gemm(float* out) {
  float acc[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) acc[i] = out[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 128; ++i) out[i * 1024 + 1023 - threadIdx.x] = acc[i];
}
