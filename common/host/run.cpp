#include "common/host/run.h"

#include <climits>
#include <map>
#include <mutex>

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

// Entries are never erased, so the reference stays good.
const DeviceInfo& current_device() {
  static std::mutex mutex;
  static std::map<int, DeviceInfo> known;
  int ordinal = 0;
  check_device(cudaGetDevice(&ordinal), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  const auto found = known.find(ordinal);
  if (found != known.end()) return found->second;
  return known.emplace(ordinal, ask_device(ordinal)).first->second;
}

void write_zeros(const GemmArgs& args) {
  const size_t row_bytes = args.n * sizeof(bf16);
  const size_t pitch_bytes = args.ldd * sizeof(bf16);
  if (pitch_bytes <= INT_MAX) {  // cudaDeviceProp::memPitch
    check_cuda(cudaMemset2DAsync(args.d, pitch_bytes, 0, row_bytes, static_cast<size_t>(args.m),
                                 args.stream),
               "cudaMemset2DAsync");
    return;
  }
  for (long long row = 0; row < args.m; ++row) {
    check_cuda(cudaMemsetAsync(args.d + row * args.ldd, 0, row_bytes, args.stream),
               "cudaMemsetAsync");
  }
}

}  // namespace

DeviceInfo query_device() {
  return current_device();
}

void run(const Variant& asked, const GemmArgs& args) {
  // Arguments first, so that a wrong call is refused alike with and without a GPU.
  std::string wrong = argument_violations(asked, args);
  if (!wrong.empty()) throw Refused(wrong);
  const DeviceInfo& device = current_device();
  const Variant& variant = chosen(asked, args);
  if (&variant != &asked) wrong = argument_violations(variant, args);
  if (wrong.empty()) wrong = device_violations(variant, device);
  if (!wrong.empty()) throw Refused(wrong);

  if (args.m == 0 || args.n == 0) return;
  if (args.k == 0) return write_zeros(args);
  cudaGetLastError();  // an error that an earlier call left behind is not this launch's
  // Loads the kernel, and makes the device's context current in this thread: tensor maps are encoded
  // by a driver call, which, unlike the runtime's, does not do so by itself.
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, variant.kernel), "loading the kernel");
  variant.launch(args);
}

}  // namespace ladder
