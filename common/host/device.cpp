#include "common/host/device.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
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
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check_device(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
    return value;
  };
  device.max_mhz = attribute(cudaDevAttrClockRate) / 1e3;
  device.dram_bytes_per_second = 2e3 * attribute(cudaDevAttrMemoryClockRate) *
                                 (attribute(cudaDevAttrGlobalMemoryBusWidth) / 8);
  if (device.cc_major != 9 || device.cc_minor != 0) {
    throw NoDevice("Device " + std::to_string(ordinal) + " is a " + device.name +
                   " of compute capability " + std::to_string(device.cc_major) + "." +
                   std::to_string(device.cc_minor) + "; " + NEEDED + cuda_version(CUDART_VERSION) +
                   ".");
  }
  return device;
}

// What is asked of a kernel. 0: the answer is the same for any.
struct Launched {
  const void* kernel;
  int smem_bytes, threads = 0, cluster_ctas = 0;
};

// find(), asked once a device and `launched`. A thread takes a lock when it asks for the first time
// only. Each caller has facts of its own, since each lambda is a type of its own.
template <class Find>
int known(const Launched& launched, const Find& find) {
  using Facts = std::map<std::tuple<int, const void*, int, int, int>, int>;
  thread_local Facts of_thread;
  const std::tuple key{query_device().ordinal, launched.kernel, launched.smem_bytes,
                       launched.threads, launched.cluster_ctas};
  const auto mine = of_thread.find(key);
  if (mine != of_thread.end()) return mine->second;

  static std::mutex mutex;
  static Facts of_all;
  const std::lock_guard lock(mutex);
  auto found = of_all.find(key);
  if (found == of_all.end()) found = of_all.emplace(key, find()).first;
  return of_thread[key] = found->second;
}

}  // namespace

// Entries are never erased, so the reference stays good.
const DeviceInfo& query_device() {
  static std::mutex mutex;
  static std::map<int, DeviceInfo> known;
  thread_local const DeviceInfo* latest = nullptr;  // which needs no lock
  int ordinal = 0;
  check_device(cudaGetDevice(&ordinal), "cudaGetDevice");
  if (latest != nullptr && latest->ordinal == ordinal) return *latest;
  const std::lock_guard lock(mutex);
  auto found = known.find(ordinal);
  if (found == known.end()) found = known.emplace(ordinal, ask_device(ordinal)).first;
  latest = &found->second;
  return *latest;
}

int sm_count() {
  return query_device().sm_count;
}

int max_active_clusters(const void* kernel, int threads, int smem_bytes, int cluster_ctas) {
  return known({kernel, smem_bytes, threads, cluster_ctas}, [&] {
    allow_smem(kernel, smem_bytes);
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
    int clusters = 0;
    check_cuda(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config),
               "cudaOccupancyMaxActiveClusters");
    return std::max(1, clusters);
  });
}

int resident_ctas(const void* kernel, int threads, int smem_bytes, int cluster_ctas) {
  return cluster_ctas == 1
             ? sm_count()
             : cluster_ctas * max_active_clusters(kernel, threads, smem_bytes, cluster_ctas);
}

void allow_smem(const void* kernel, int smem_bytes) {
  known({kernel, smem_bytes}, [&] {
    cudaFuncAttributes now;  // it must not be lowered
    check_cuda(cudaFuncGetAttributes(&now, kernel), "cudaFuncGetAttributes");
    if (now.maxDynamicSharedSizeBytes < smem_bytes) {
      check_cuda(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes),
          "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)");
    }
    return smem_bytes;
  });
}

void load_kernel(const void* kernel) {
  thread_local std::set<std::pair<int, const void*>> loaded;  // by device
  const std::pair key{query_device().ordinal, kernel};
  if (loaded.count(key) > 0) return;
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), "loading the kernel");
  loaded.insert(key);
}

}  // namespace ladder
