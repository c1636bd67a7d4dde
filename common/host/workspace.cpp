#include "common/host/workspace.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/registry.h"
#include "common/host/text.h"

namespace ladder {
namespace {

constexpr uintptr_t ALIGNMENT_BYTES = 256;     // as cudaMalloc has it
constexpr size_t MAX_BYTES = size_t{1} << 40;  // as a matrix has it

// Changed seldom, read by every call.
struct Table {
  std::shared_mutex mutex;
  std::map<std::pair<int, cudaStream_t>, Workspace> workspaces;  // by device and stream
};

Table& table() {
  static Table all;
  return all;
}

// The default stream has two names.
cudaStream_t one_name(cudaStream_t stream) {
  return stream == cudaStreamLegacy ? nullptr : stream;
}

// Why that memory is none that kernels of this device can use; "" if it is.
std::string memory_violation(const void* data, const DeviceInfo& device) {
  cudaPointerAttributes found;
  check_cuda(cudaPointerGetAttributes(&found, data), "cudaPointerGetAttributes");
  if (found.type == cudaMemoryTypeManaged) return "";
  if (found.type != cudaMemoryTypeDevice) {
    return format(
        "workspace is %p, in the host's memory: it must be memory of device %d, such as "
        "cudaMalloc's.",
        data, device.ordinal);
  }
  if (found.device == device.ordinal) return "";
  return format(
      "workspace is %p, in the memory of device %d: it must be that of the current one; the "
      "nearest that works is to make device %d current.",
      data, found.device, found.device);
}

std::string stream_violation(cudaStream_t stream) {
  if (stream == cudaStreamPerThread) {
    return "stream is cudaStreamPerThread, which is another one in every thread: a workspace must "
           "belong to one; the nearest that works is a stream of cudaStreamCreate's.";
  }
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  if (status == cudaStreamCaptureStatusNone) return "";
  return "stream is being captured: a workspace's counters are made 0 when it is set, not when a "
         "graph runs; the nearest that works is to set it before the capture begins.";
}

std::string violations(const void* data, size_t bytes, cudaStream_t stream) {
  const DeviceInfo& device = query_device();
  const size_t needed = workspace_bytes(device.sm_count);
  std::vector<std::string> sentences;
  if (data == nullptr) {
    sentences.push_back(
        format("workspace is null, but bytes is %zu: null takes the workspace away; "
               "the nearest that works is 0 bytes.",
               bytes));
  } else {
    if (bytes < needed) {
      sentences.push_back(
          format("bytes is %zu: on a device of %d SMs a workspace must have at least "
                 "ladder_workspace_bytes(); the nearest that works is %zu.",
                 bytes, device.sm_count, needed));
    } else if (bytes > MAX_BYTES) {
      sentences.push_back(
          format("bytes is %zu: a workspace has at most 2^40; the nearest that works is %zu.",
                 bytes, MAX_BYTES));
    }
    const uintptr_t address = reinterpret_cast<uintptr_t>(data);
    if (address % ALIGNMENT_BYTES != 0) {
      const uintptr_t next = (address / ALIGNMENT_BYTES + 1) * ALIGNMENT_BYTES;
      sentences.push_back(
          format("workspace is %p: it must be a multiple of 256 bytes; the nearest "
                 "above is 0x%llx.",
                 data, static_cast<unsigned long long>(next)));
    }
    sentences.push_back(memory_violation(data, device));
  }
  sentences.push_back(stream_violation(stream));
  std::erase(sentences, "");
  return join(sentences, "\n");
}

}  // namespace

void set_workspace(void* data, size_t bytes, cudaStream_t stream) {
  const std::pair key{query_device().ordinal, one_name(stream)};
  const bool takes_away = data == nullptr && bytes == 0;
  if (!takes_away) {
    const std::string wrong = violations(data, bytes, stream);
    if (!wrong.empty()) throw Refused(wrong);
    check_cuda(cudaMemsetAsync(data, 0, std::min(bytes, WORKSPACE_COUNTER_BYTES), stream),
               "cudaMemsetAsync");
  }
  const std::unique_lock lock(table().mutex);
  table().workspaces.erase(key);
  if (!takes_away) table().workspaces.emplace(key, Workspace{data, bytes});
}

Workspace workspace_of(cudaStream_t stream) {
  const std::shared_lock lock(table().mutex);
  if (table().workspaces.empty()) return {};  // without a device too
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return {};
  const auto found = table().workspaces.find({device, one_name(stream)});
  return found == table().workspaces.end() ? Workspace{} : found->second;
}

}  // namespace ladder
