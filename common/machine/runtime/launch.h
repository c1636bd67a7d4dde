// Launches: from what a program passes to a call of the machine.
#pragma once

#include <driver_types.h>
#include <vector_types.h>

#include <cstddef>
#include <vector>

#include "common/machine/runtime/modules.h"
#include "common/machine/runtime/stream.h"

namespace machine::runtime {

constexpr Dim3 NO_CLUSTER{0, 0, 0};  // until check_launch(): what the kernel itself says

// cudaLaunchAttributeNvlinkUtilCentricScheduling, which CUDA 13.0 brought.
constexpr auto NVLINK_UTIL_CENTRIC_SCHEDULING = static_cast<cudaLaunchAttributeID>(16);

// The launch of a kernel node, which can be read back and changed.
struct KernelNode {
  Function* function;
  LaunchConfig request;
  std::vector<std::byte> parameters;
  std::vector<void*> arguments = {};  // where in `parameters` each one is
};

// How many warps of a kernel have room in a quarter of an SM's registers.
uint32_t warps_per_partition(const Code& code);
// How many CTAs of a kernel fit on an SM at the same time.
int ctas_per_sm(const Code& code, int threads, size_t dynamic_smem_bytes);
// The largest dynamic shared memory that a launch of the function may ask for.
int max_dynamic_smem_bytes(const Function& function, const Code& code);
// The kernel's own, or what cudaFuncSetAttribute has set; 0: none.
Dim3 required_cluster(const Function& function, const Kernel& kernel);
// The code of what find_function() found, which may be nullptr.
const Code& code_of(Function* function);

// Fills in the cluster, and refuses as a GPU does, in one sentence, before anything runs.
void check_launch(const Function& function, const Code& code, LaunchConfig* request);

// Takes the launch's attributes over into the request; those that only concern time are accepted.
void apply_attributes(const cudaLaunchAttribute* attributes, unsigned count, LaunchConfig* request);

// With one pointer a parameter.
std::shared_ptr<const KernelNode> make_node(Function* function, const LaunchConfig& request,
                                            void* const* arguments);

// Checks the launch and makes what runs the kernel.
Work make_work(Function* function, LaunchConfig request, std::vector<std::byte> parameters);
Work make_work(const KernelNode& node);

// Checks, then runs the kernel, or records it if the stream is being captured.
void launch(Function* function, const LaunchConfig& request, void* const* arguments,
            cudaStream_t stream);

Dim3 to_dim3(const dim3& size);
LaunchConfig request_of(const cudaLaunchConfig_t& config);  // but for the attributes

}  // namespace machine::runtime
