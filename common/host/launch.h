// A launch with attributes: shared memory, clusters, and programmatic dependent launch.
#pragma once

#include <cuda_runtime_api.h>

#include "common/host/device.h"
#include "common/host/gemm.h"

namespace ladder {

// For a kernel that launches with more than 48 KiB of dynamic shared memory, before each launch.
template <class... Parameters>
void allow_smem(void (*kernel)(Parameters...), int smem_bytes) {
  allow_smem(reinterpret_cast<const void*>(kernel), smem_bytes);
}

// For cudaLaunchKernelEx(&launch.config, kernel, arguments...). A cluster of one is not asked for:
// it would make an explicit cluster launch, whose CTAs are dealt out to the GPCs in turn. `early`
// allows the kernel to start before the one in front of it in the stream has ended; not where a call
// leaves SMs to other work: beside that one it would take some of them.
struct Launch {
  Launch(int ctas, int threads, size_t smem_bytes, int cluster, bool early, const Call& call) {
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = early && !call.leaves_sms;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = static_cast<unsigned>(cluster);
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    config.gridDim.x = static_cast<unsigned>(ctas);
    config.gridDim.y = config.gridDim.z = 1;
    config.blockDim.x = static_cast<unsigned>(threads);
    config.blockDim.y = config.blockDim.z = 1;
    config.dynamicSmemBytes = smem_bytes;
    config.stream = call.stream;
    config.attrs = attributes;
    config.numAttrs = cluster > 1 ? 2 : 1;
  }
  Launch(const Launch&) = delete;  // config points into it
  Launch& operator=(const Launch&) = delete;

  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
};

}  // namespace ladder
