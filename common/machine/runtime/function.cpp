// Functions: attributes, and how many CTAs and clusters fit. It launches nothing.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "common/machine/run/state.h"
#include "common/machine/runtime/device.h"
#include "common/machine/runtime/launch.h"

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
        uint32_t* const sides[] = {&required.x, &required.y, &required.z};
        *sides[attribute - cudaFuncAttributeRequiredClusterWidth] = static_cast<uint32_t>(value);
        return;
      }
      case cudaFuncAttributeClusterSchedulingPolicyPreference:
        return;
      default:
        fail(cudaErrorInvalidValue);
    }
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

}  // extern "C"
}  // namespace machine::runtime
