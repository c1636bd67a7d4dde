#include "common/host/device.h"

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

#include "common/host/error.h"

namespace ladder {

int sm_count() {
  int device = 0, count = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute(MultiProcessorCount)");
  return count;
}

int max_active_clusters(const void* kernel, int threads, int smem_bytes, int cluster_ctas) {
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, int> known;  // by device and kernel
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = known.try_emplace({device, kernel}, 0);
  if (!is_new) return entry->second;

  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = cluster_ctas;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(cluster_ctas);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = smem_bytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  const cudaError_t status = cudaOccupancyMaxActiveClusters(&entry->second, kernel, &config);
  if (status != cudaSuccess) known.erase(entry);
  check_cuda(status, "cudaOccupancyMaxActiveClusters");
  return entry->second;
}

int resident_ctas(const void* kernel, int threads, int smem_bytes, int cluster_ctas) {
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, int> known;  // by device and kernel
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  const auto found = known.find({device, kernel});
  if (found != known.end()) return found->second;

  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes),
             "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)");
  const int ctas = cluster_ctas == 1 ? sm_count()
                                     : cluster_ctas * max_active_clusters(kernel, threads,
                                                                          smem_bytes, cluster_ctas);
  return known[{device, kernel}] = ctas;
}

}  // namespace ladder
