// What a launch needs to know about the current device. Every function is cached per device, safe
// from several threads, legal during a stream capture, and throws CudaError.
#pragma once

#include <string>

namespace ladder {

// What the device must offer; filled by query_device(), or by hand in tests.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int cc_major = 0, cc_minor = 0;
  int sm_count = 0;
  int smem_optin_bytes = 0;  // largest dynamic shared memory of a CTA
  long long l2_bytes = 0;
  double max_mhz = 0;                // SM clock
  double dram_bytes_per_second = 0;  // nominal: bus width times twice the memory clock
};

// The current device. Throws NoDevice with one sentence that says what was found (no driver, a
// driver too old, no device, a device that is not sm_90) and what is needed.
const DeviceInfo& query_device();

// Streaming multiprocessors.
int sm_count();

// How many clusters of `cluster_ctas` CTAs of this kernel the device can hold at the same time:
// fewer than sm_count() / cluster_ctas where a GPC's SMs do not divide evenly; 1 where none fits, whose
// launch then says so. Allows the kernel that much dynamic shared memory, without which there would be
// no answer.
int max_active_clusters(const void* kernel, int threads, int smem_bytes, int cluster_ctas);

// How many CTAs of this kernel, at most one an SM, in clusters of `cluster_ctas`, the device can hold
// at the same time. Cheap after the first call.
int resident_ctas(const void* kernel, int threads, int smem_bytes, int cluster_ctas);

// Allows the kernel so much dynamic shared memory, if not more already. Cheap after the first call.
void allow_smem(const void* kernel, int smem_bytes);

// Loads the kernel, and makes the device's context current in this thread: tensor maps are encoded
// by a driver call, which, unlike the runtime's, does not do so by itself. Once a thread.
void load_kernel(const void* kernel);

}  // namespace ladder
