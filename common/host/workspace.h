// The workspaces that callers of the C API have set, each for the calls on one stream of one device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace ladder {

// From now on calls on this stream of the current device, of any thread, have this workspace, whose
// counters are made 0 on the stream; null with 0 bytes: none. Throws Refused with every rule that is
// broken, NoDevice, CudaError.
void set_workspace(void* data, size_t bytes, cudaStream_t stream);

struct Workspace {
  void* data = nullptr;
  size_t bytes = 0;
};

// That of a stream of the current device; null: none was set.
Workspace workspace_of(cudaStream_t stream);

}  // namespace ladder
