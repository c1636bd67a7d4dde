// Refused for C7511: an accumulator is changed between two wgmma with no wait.
#include <cstdint>

__global__ __launch_bounds__(128, 1) void gemm(float* out, uint64_t a_desc, uint64_t b_desc,
                                               int k) {
  float d[4] = {};
  for (int i = 0; i < k; ++i) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, "
        "0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a_desc + i), "l"(b_desc));
    d[0] *= 2;
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}
