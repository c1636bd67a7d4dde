// Launches: from what a program passes to a call of the machine.
#pragma once

#include <driver_types.h>
#include <vector_types.h>

#include <cstddef>
#include <vector>

#include "common/machine/runtime/modules.h"
#include "common/machine/runtime/stream.h"

namespace machine::runtime {

struct LaunchRequest {
  Dim3 grid, block;
  Dim3 cluster{0, 0, 0};  // 0: what the kernel itself says
  size_t dynamic_smem_bytes = 0;
  bool cooperative = false;
  bool programmatic = false;  // programmatic stream serialization
};

// Fills in the cluster, and refuses as a GPU does, in one sentence, before anything runs.
cudaError_t check_launch(const Function& function, const Code& code, LaunchRequest* request);

// Takes the launch's attributes over into the request; those that only concern time are accepted.
cudaError_t apply_attributes(const cudaLaunchAttribute* attributes, unsigned count,
                             LaunchRequest* request);

// The parameter block from one pointer a parameter.
std::vector<std::byte> gather_parameters(const Kernel& kernel, void* const* arguments);

// Checks the launch and makes what runs the kernel.
cudaError_t make_work(Function* function, LaunchRequest request, std::vector<std::byte> parameters,
                      Work* work);
// The same with one pointer a parameter.
cudaError_t make_work(Function* function, const LaunchRequest& request, void* const* arguments,
                      Work* work);

// Checks, then runs the kernel, or records it if the stream is being captured.
cudaError_t launch(Function* function, const LaunchRequest& request, void* const* arguments,
                   cudaStream_t stream);

Dim3 to_dim3(const dim3& size);
Dim3 cluster_of(const cudaLaunchConfig_t& config);

}  // namespace machine::runtime
