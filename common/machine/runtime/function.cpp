// Functions: attributes, occupancy, libraries. It launches nothing.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "common/machine/run/state.h"
#include "common/machine/runtime/device.h"
#include "common/machine/runtime/launch.h"
#include "common/machine/runtime/status.h"

namespace machine::runtime {
namespace {

// How many clusters of so many CTAs fit, one or more CTAs an SM. A cluster lies in one GPC, whose SMs
// it need not divide evenly. What an H200 of 132 SMs says, with one CTA an SM and with two, and
// otherwise eight GPCs of about as many pairs of SMs.
int clusters_that_fit(int sms, int cluster, int on_one_sm) {
  constexpr int H200_SMS = 132, SIZES = 8;
  constexpr int H200[2][SIZES] = {{132, 66, 39, 30, 22, 17, 15, 15},
                                  {264, 132, 79, 62, 47, 39, 32, 30}};
  if (sms == H200_SMS && cluster <= SIZES && on_one_sm <= 2) {
    return H200[on_one_sm - 1][cluster - 1];
  }
  constexpr int GPC_SMS = 16;
  const int gpcs = std::max(1, sms / GPC_SMS), pairs = sms / 2;
  int clusters = 0;
  for (int gpc = 0; gpc < gpcs; ++gpc) {
    const int mine = 2 * (pairs / gpcs + (gpc < pairs % gpcs ? 1 : 0)) + (gpc == 0 ? sms % 2 : 0);
    clusters += mine / cluster;
  }
  return clusters * on_one_sm;
}

void load(cudaLibrary_t* library, const void* code) {
  Binary* const binary = load_library(code);
  *library = reinterpret_cast<cudaLibrary_t>(binary);
  require(binary != nullptr, cudaErrorInvalidKernelImage);
}

Binary* binary_of(cudaLibrary_t library) {
  require(is_binary(library), cudaErrorInvalidResourceHandle);
  return reinterpret_cast<Binary*>(library);
}

}  // namespace

uint32_t warps_per_partition(const Code& code) {
  const int registers = code.exact_registers ? code.resources.registers : 0;
  return machine::warps_per_partition(static_cast<uint32_t>(registers));
}

int ctas_per_sm(const Code& code, int threads, size_t dynamic_smem_bytes) {
  const auto smem_bytes =
      static_cast<uint32_t>(code.kernel->static_smem_bytes + dynamic_smem_bytes);
  const int registers = code.exact_registers ? code.resources.registers : 0;
  return static_cast<int>(machine::ctas_per_sm(static_cast<uint32_t>(threads), smem_bytes,
                                               static_cast<uint32_t>(registers)));
}

int max_dynamic_smem_bytes(const Function& function, const Code& code) {
  if (function.max_dynamic_smem_bytes >= 0) return function.max_dynamic_smem_bytes;
  return std::max(0, CTA_SMEM_BYTES - static_cast<int>(code.kernel->static_smem_bytes));
}

Dim3 required_cluster(const Function& function, const Kernel& kernel) {
  return kernel.required_cluster.count() != 0 ? kernel.required_cluster : function.required_cluster;
}

const Code& code_of(Function* function) {
  require(function != nullptr, cudaErrorInvalidResourceHandle);
  const Code* const code = function->code();
  require(code != nullptr, cudaErrorNoKernelImageForDevice);
  return *code;
}

extern "C" {

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* symbol) {
  return on_device([&] {
    auto* const function = find_function(symbol);
    const Code& code = code_of(function);
    const Kernel& kernel = *code.kernel;
    *attributes = {};
    attributes->sharedSizeBytes = kernel.static_smem_bytes;
    attributes->localSizeBytes = static_cast<size_t>(code.resources.local_bytes);
    attributes->maxThreadsPerBlock = static_cast<int>(
        std::min(kernel.max_threads, SM_PARTITIONS * warps_per_partition(code) * WARP_THREADS));
    attributes->numRegs = code.resources.registers;
    attributes->ptxVersion = attributes->binaryVersion = COMPUTE_CAPABILITY;
    attributes->maxDynamicSharedSizeBytes = max_dynamic_smem_bytes(*function, code);
    attributes->preferredShmemCarveout = function->smem_carveout;
    attributes->clusterDimMustBeSet =
        kernel.explicit_cluster || function->cluster_must_be_set ? 1 : 0;
    const Dim3 required = required_cluster(*function, kernel);
    attributes->requiredClusterWidth = static_cast<int>(required.x);
    attributes->requiredClusterHeight = static_cast<int>(required.y);
    attributes->requiredClusterDepth = static_cast<int>(required.z);
    attributes->nonPortableClusterSizeAllowed = function->non_portable_cluster ? 1 : 0;
  });
}

cudaError_t cudaFuncSetAttribute(const void* symbol, cudaFuncAttribute attribute, int value) {
  return on_device([&] {
    auto* const function = find_function(symbol);
    const Kernel& kernel = *code_of(function).kernel;
    const int most = CTA_SMEM_OPTIN_BYTES - static_cast<int>(kernel.static_smem_bytes);
    switch (attribute) {
      case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || value > most) {
          refuse(cudaErrorInvalidValue,
                 "cudaFuncSetAttribute: %d bytes of dynamic shared memory for %s, which has "
                 "%u of its own; at most %d fit.",
                 value, source_name(kernel.name).c_str(), kernel.static_smem_bytes, most);
        }
        function->max_dynamic_smem_bytes = value;
        return;
      case cudaFuncAttributePreferredSharedMemoryCarveout:
        require(value >= -1 && value <= 100);
        function->smem_carveout = value;
        return;
      case cudaFuncAttributeNonPortableClusterSizeAllowed:
        function->non_portable_cluster = value != 0;
        return;
      case cudaFuncAttributeClusterDimMustBeSet:
        function->cluster_must_be_set = value != 0;
        return;
      case cudaFuncAttributeRequiredClusterWidth:
      case cudaFuncAttributeRequiredClusterHeight:
      case cudaFuncAttributeRequiredClusterDepth: {
        require(value >= 0 && kernel.required_cluster.count() == 0);
        Dim3& required = function->required_cluster;
        const auto side = static_cast<uint32_t>(value);
        if (attribute == cudaFuncAttributeRequiredClusterWidth) required.x = side;
        if (attribute == cudaFuncAttributeRequiredClusterHeight) required.y = side;
        if (attribute == cudaFuncAttributeRequiredClusterDepth) required.z = side;
        return;
      }
      case cudaFuncAttributeClusterSchedulingPolicyPreference:
        return;
      default:
        fail(cudaErrorInvalidValue);
    }
  });
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                            int value, int) {
  return cudaFuncSetAttribute(kernel, attribute, value);
}

cudaError_t cudaFuncGetParamInfo(const void* symbol, size_t index, size_t* offset, size_t* bytes) {
  return on_device([&] {
    const auto& params = code_of(find_function(symbol)).kernel->params;
    require(index < params.size());
    *offset = params[index].offset;
    if (bytes != nullptr) *bytes = params[index].size;
  });
}

cudaError_t cudaFuncGetName(const char** name, const void* symbol) {
  auto* const function = find_function(symbol);
  if (function == nullptr) return record(cudaErrorInvalidResourceHandle);
  *name = function->name.c_str();
  return cudaSuccess;
}

// ---- occupancy ----------------------------------------------------------------------------------

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* ctas, const void* symbol,
                                                                   int threads, size_t smem_bytes,
                                                                   unsigned) {
  return on_device([&] {
    auto* const function = find_function(symbol);
    const Code& code = code_of(function);
    require(threads > 0);
    const bool fits = threads <= static_cast<int>(code.kernel->max_threads) &&
                      smem_bytes <= static_cast<size_t>(max_dynamic_smem_bytes(*function, code));
    *ctas = fits ? ctas_per_sm(code, threads, smem_bytes) : 0;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* ctas, const void* symbol,
                                                          int threads, size_t smem_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(ctas, symbol, threads, smem_bytes,
                                                                0);
}

// What is left to each of `ctas` CTAs of an SM, as far as the kernel may be launched with it.
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* symbol, int ctas,
                                                      int) {
  return on_device([&] {
    auto* const function = find_function(symbol);
    const Code& code = code_of(function);
    require(ctas > 0);
    const uint32_t share = SM_SMEM_BYTES / static_cast<uint32_t>(ctas);
    const int mine = static_cast<int>(share / SMEM_GRANULE_BYTES * SMEM_GRANULE_BYTES) -
                     static_cast<int>(RESERVED_SMEM_BYTES + code.kernel->static_smem_bytes);
    *bytes = static_cast<size_t>(std::clamp(mine, 0, max_dynamic_smem_bytes(*function, code)));
  });
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* symbol,
                                                 const cudaLaunchConfig_t* config) {
  return on_device([&] {
    auto* const function = find_function(symbol);
    const int threads = static_cast<int>(to_dim3(config->blockDim).count());
    const int room = sm_count() * ctas_per_sm(code_of(function), threads, config->dynamicSmemBytes);
    *size = std::min(room, function->non_portable_cluster ? MAX_CLUSTER : MAX_PORTABLE_CLUSTER);
  });
}

// Clusters that can be active at the same time.
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* symbol,
                                           const cudaLaunchConfig_t* config) {
  return on_device([&] {
    require(clusters != nullptr && config != nullptr);
    auto* const function = find_function(symbol);
    const Code& code = code_of(function);
    LaunchConfig request = request_of(*config);
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      const cudaLaunchAttribute& attribute = config->attrs[i];
      require(attribute.id >= 0 && attribute.id <= NVLINK_UTIL_CENTRIC_SCHEDULING);
      if (attribute.id == cudaLaunchAttributeClusterDimension) {
        apply_attributes(&attribute, 1, &request);
      }
    }
    check_launch(*function, code, &request);
    const int on_one_sm =
        ctas_per_sm(code, static_cast<int>(request.block.count()), request.dynamic_smem_bytes);
    *clusters = clusters_that_fit(sm_count(), static_cast<int>(request.cluster.count()), on_one_sm);
  });
}

// ---- libraries ----------------------------------------------------------------------------------

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  if (library == nullptr || code == nullptr) return record(cudaErrorInvalidValue);
  return on_device([&] { load(library, code); }, /*needs_context=*/false);
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, cudaJitOption*,
                                    void**, unsigned, cudaLibraryOption*, void**, unsigned) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return record(cudaErrorFileNotFound);
  const std::string code{std::istreambuf_iterator<char>(file), {}};
  return on_device([&] { load(library, code.c_str()); }, /*needs_context=*/false);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return attempt([&] { remove_binary(binary_of(library)); });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  const auto find = [&] {
    auto* const function = find_function(binary_of(library), name);
    *kernel = reinterpret_cast<cudaKernel_t>(function);
    require(function != nullptr, cudaErrorSymbolNotFound);
  };
  return on_device(find, /*needs_context=*/false);
}

cudaError_t cudaLibraryGetGlobal(void** address, size_t* bytes, cudaLibrary_t library,
                                 const char* name) {
  return on_device([&] {
    size_t found_bytes = 0;
    void* const found = find_variable(binary_of(library), name, &found_bytes);
    require(found != nullptr, cudaErrorSymbolNotFound);
    if (address != nullptr) *address = found;
    if (bytes != nullptr) *bytes = found_bytes;
  });
}

cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
  return attempt([&] { *count = static_cast<unsigned>(all_functions(binary_of(library)).size()); });
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned count,
                                        cudaLibrary_t library) {
  return attempt([&] {
    const auto functions = all_functions(binary_of(library));
    for (size_t i = 0; i < count && i < functions.size(); ++i) {
      kernels[i] = reinterpret_cast<cudaKernel_t>(functions[i]);
    }
  });
}

}  // extern "C"
}  // namespace machine::runtime
