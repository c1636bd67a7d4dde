// What a launch needs to know about the current device. Every function is cached per device, safe
// from several threads, legal during a stream capture, and throws CudaError.
#pragma once

namespace ladder {

// Streaming multiprocessors.
int sm_count();

// How many clusters of `cluster_ctas` CTAs of this kernel the device can hold at the same time:
// fewer than sm_count() / cluster_ctas where a GPC's SMs do not divide evenly.
int max_active_clusters(const void* kernel, int threads, int smem_bytes, int cluster_ctas);

// How many CTAs of this kernel, at most one an SM, in clusters of `cluster_ctas`, the device can hold
// at the same time; allows the kernel that much dynamic shared memory. Cheap after the first call.
int resident_ctas(const void* kernel, int threads, int smem_bytes, int cluster_ctas);

}  // namespace ladder
