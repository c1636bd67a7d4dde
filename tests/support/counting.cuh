// For kernels that count: a counter on the device, and loops over more than one grid.
#pragma once

#include "common/host/error.h"
#include "common/host/verify.h"

namespace ladder_test {

inline constexpr int THREADS = 256, CTAS = 1024;

__device__ inline long long first_index() {
  return blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
}

__device__ inline long long index_stride() {
  return static_cast<long long>(gridDim.x) * blockDim.x;
}

// A counter on the device, read once.
class Counter {
 public:
  Counter() : buffer_(sizeof(unsigned long long)) {
    ladder::check_cuda(cudaMemset(buffer_.data(), 0, buffer_.bytes()), "clearing a counter");
  }
  unsigned long long* device() const { return buffer_.as<unsigned long long>(); }
  long long read() const {
    ladder::check_cuda(cudaGetLastError(), "launching a checking kernel");
    unsigned long long value = 0;
    ladder::check_cuda(cudaMemcpy(&value, buffer_.data(), sizeof value, cudaMemcpyDeviceToHost),
                       "reading a counter");
    return static_cast<long long>(value);
  }

 private:
  ladder::DeviceBuffer buffer_;
};

}  // namespace ladder_test
