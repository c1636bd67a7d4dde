#include "common/host/problem.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "common/host/error.h"
#include "common/host/where.h"

namespace ladder {

Problem::Problem(const Shape& shape, const DeviceInfo& device) : shape_(shape), device_(device) {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
}

Problem::~Problem() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

int operand_sets(size_t bytes, const DeviceInfo& device) {
  constexpr size_t L2_MULTIPLE = 3, MAX_SETS = 64;
  const size_t wanted = on_machine() ? 0 : L2_MULTIPLE * static_cast<size_t>(device.l2_bytes);
  return static_cast<int>(std::clamp<size_t>((wanted + bytes - 1) / bytes, 1, MAX_SETS));
}

}  // namespace ladder
