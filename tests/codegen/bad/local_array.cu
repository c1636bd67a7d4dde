// Refused for stack frame: an array indexed by a runtime value lives in local memory.
__global__ __launch_bounds__(128, 1) void gemm(float* out, int k) {
  float acc[64];
  for (int i = 0; i < 64; ++i) acc[i] = out[i];
  for (int i = 0; i < k; ++i) acc[(i % 64) ^ k] += acc[i * k % 64];
  out[threadIdx.x] = acc[k];
}
