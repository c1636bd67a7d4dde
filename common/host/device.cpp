#include "common/host/device.h"

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

#include "common/host/error.h"

namespace ladder {
namespace {

// Whether `status` says that there is no GPU to talk to, rather than that a call went wrong.
bool means_no_device(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorStubLibrary:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorInitializationError:
      return true;
    default:
      return false;
  }
}

const char NEEDED[] =
    "the ladder needs a GPU of compute capability 9.0 (Hopper) and a driver for CUDA ";

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

[[noreturn]] void throw_no_device(cudaError_t status) {
  int driver_version = 0;
  if (status == cudaErrorInsufficientDriver) cudaDriverGetVersion(&driver_version);
  std::string found;
  if (status == cudaErrorInsufficientDriver && driver_version == 0) {
    found = "No NVIDIA driver was found";
  } else if (status == cudaErrorInsufficientDriver) {
    found = "The NVIDIA driver supports only CUDA " + cuda_version(driver_version);
  } else {
    found = std::string("No GPU can be used, ") + cudaGetErrorName(status) + " (" +
            cudaGetErrorString(status) + ")";
  }
  throw NoDevice(found + "; " + NEEDED + cuda_version(CUDART_VERSION) + ".");
}

void check_device(cudaError_t status, const char* what) {
  if (means_no_device(status)) throw_no_device(status);
  check_cuda(status, what);
}

// Slow (it asks for the device's name too) and done once a device.
DeviceInfo ask_device(int ordinal) {
  cudaDeviceProp properties;
  check_device(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  DeviceInfo device;
  device.ordinal = ordinal;
  device.name = properties.name;
  device.cc_major = properties.major;
  device.cc_minor = properties.minor;
  device.sm_count = properties.multiProcessorCount;
  device.smem_optin_bytes = static_cast<int>(properties.sharedMemPerBlockOptin);
  device.l2_bytes = properties.l2CacheSize;
  if (device.cc_major != 9 || device.cc_minor != 0) {
    throw NoDevice("Device " + std::to_string(ordinal) + " is a " + device.name +
                   " of compute capability " + std::to_string(device.cc_major) + "." +
                   std::to_string(device.cc_minor) + "; " + NEEDED + cuda_version(CUDART_VERSION) +
                   ".");
  }
  return device;
}

}  // namespace

// Entries are never erased, so the reference stays good.
const DeviceInfo& query_device() {
  static std::mutex mutex;
  static std::map<int, DeviceInfo> known;
  int ordinal = 0;
  check_device(cudaGetDevice(&ordinal), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  const auto found = known.find(ordinal);
  if (found != known.end()) return found->second;
  return known.emplace(ordinal, ask_device(ordinal)).first->second;
}

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

  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes),
             "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)");
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

  const int ctas = cluster_ctas == 1 ? sm_count()
                                     : cluster_ctas * max_active_clusters(kernel, threads,
                                                                          smem_bytes, cluster_ctas);
  return known[{device, kernel}] = ctas;
}

}  // namespace ladder
