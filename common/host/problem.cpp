#include "common/host/problem.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "common/host/error.h"
#include "common/host/registry.h"
#include "common/host/text.h"
#include "common/host/where.h"

namespace ladder {

Problem::Problem(const Shape& shape, const DeviceInfo& device)
    : shape_(shape), device_(device), workspace_(workspace_bytes(device.sm_count)) {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
  if (workspace() == nullptr) return;
  check_cuda(cudaMemsetAsync(workspace(), 0xff, workspace_.bytes(), stream_),  // NaN
             "cudaMemsetAsync");
  check_cuda(cudaMemsetAsync(workspace(), 0, WORKSPACE_COUNTER_BYTES, stream_), "cudaMemsetAsync");
}

long long Problem::restore_counters() const {
  if (workspace() == nullptr) return 0;
  std::vector<char> counters(WORKSPACE_COUNTER_BYTES);
  check_cuda(cudaMemcpyAsync(counters.data(), workspace(), counters.size(), cudaMemcpyDeviceToHost,
                             stream_),
             "cudaMemcpyAsync");
  check_cuda(cudaMemsetAsync(workspace(), 0, counters.size(), stream_), "cudaMemsetAsync");
  check_cuda(cudaStreamSynchronize(stream_), "the counters of the workspace");
  return std::count_if(counters.begin(), counters.end(), [](char byte) { return byte != 0; });
}

Problem::~Problem() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

int operand_sets(size_t bytes, const DeviceInfo& device) {
  constexpr size_t L2_MULTIPLE = 3, MAX_SETS = 64, LEAVES_NOTHING = 32;
  const auto l2_bytes = static_cast<size_t>(device.l2_bytes), others = L2_MULTIPLE * l2_bytes;
  if (on_machine() || bytes >= LEAVES_NOTHING * l2_bytes) return 1;
  return static_cast<int>(1 + std::clamp<size_t>((others + bytes - 1) / bytes, 1, MAX_SETS - 1));
}

std::string parameters_text(const ProblemKind& kind, const Shape& shape, bool defaults) {
  std::vector<std::string> words;
  size_t at = 0;
  for (const Parameter& parameter : kind.parameters()) {
    const auto value = static_cast<size_t>(shape.parameters.at(at++));
    if (defaults || value > 0) words.push_back(parameter.name + "=" + parameter.values.at(value));
  }
  return join(words, ",");
}

}  // namespace ladder
