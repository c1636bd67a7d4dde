// Functions: attributes, occupancy, libraries. It launches nothing.
#include "common/machine/runtime/function.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "common/machine/run/state.h"
#include "common/machine/runtime/device.h"
#include "common/machine/runtime/launch.h"
#include "common/machine/runtime/status.h"

namespace machine::runtime {
namespace {

// Whether cuda.h of CUDA 13.0 knows this attribute, of a launch or of a stream.
bool is_known(cudaLaunchAttributeID id) {
  constexpr int NVLINK_UTIL_CENTRIC_SCHEDULING = 16;  // the last one
  return static_cast<int>(id) >= 0 && static_cast<int>(id) <= NVLINK_UTIL_CENTRIC_SCHEDULING;
}

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

void set_function_attribute(Function& function, int attribute, int value) {
  const Kernel& kernel = *code_of(&function).kernel;
  const std::string text = kernel_text(kernel);
  const char* const name = text.c_str();
  const int most = CTA_SMEM_OPTIN_BYTES - static_cast<int>(kernel.static_smem_bytes);
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (value < 0 || value > most) {
        refuse(cudaErrorInvalidValue,
               "cudaFuncSetAttribute: %d bytes of dynamic shared memory for %s, which has "
               "%u of its own; at most %d fit.",
               value, name, kernel.static_smem_bytes, most);
      }
      function.max_dynamic_smem_bytes = value;
      return;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      require(value >= -1 && value <= 100);
      function.smem_carveout = value;
      return;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      function.non_portable_cluster = value != 0;
      return;
    case cudaFuncAttributeClusterDimMustBeSet:
      function.cluster_must_be_set = value != 0;
      return;
    case cudaFuncAttributeRequiredClusterWidth:
    case cudaFuncAttributeRequiredClusterHeight:
    case cudaFuncAttributeRequiredClusterDepth: {
      require(value >= 0 && !kernel.has_required_cluster);
      Dim3& required = function.required_cluster;
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
}

const Code& code_of(Function* function) {
  require(function != nullptr, cudaErrorInvalidResourceHandle);
  const Code* const code = function->code();
  require(code != nullptr, cudaErrorNoKernelImageForDevice);
  return *code;
}

}  // namespace machine::runtime

using namespace machine;
using namespace machine::runtime;

extern "C" {

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* symbol) {
  return on_device([&] {
    runtime::Function* const function = find_function(symbol);
    const Code& code = code_of(function);
    const Kernel& kernel = *code.kernel;
    *attributes = {};
    attributes->sharedSizeBytes = kernel.static_smem_bytes;
    attributes->localSizeBytes = static_cast<size_t>(code.resources.local_bytes);
    attributes->maxThreadsPerBlock = static_cast<int>(kernel.max_threads);
    attributes->numRegs = code.resources.registers;
    attributes->ptxVersion = attributes->binaryVersion = COMPUTE_CAPABILITY;
    attributes->maxDynamicSharedSizeBytes = max_dynamic_smem_bytes(*function, code);
    attributes->preferredShmemCarveout = function->smem_carveout;
    attributes->clusterDimMustBeSet =
        kernel.explicit_cluster || function->cluster_must_be_set ? 1 : 0;
    const Dim3 required =
        kernel.has_required_cluster ? kernel.required_cluster : function->required_cluster;
    attributes->requiredClusterWidth = static_cast<int>(required.x);
    attributes->requiredClusterHeight = static_cast<int>(required.y);
    attributes->requiredClusterDepth = static_cast<int>(required.z);
    attributes->nonPortableClusterSizeAllowed = function->non_portable_cluster ? 1 : 0;
  });
}

cudaError_t cudaFuncSetAttribute(const void* symbol, cudaFuncAttribute attribute, int value) {
  return on_device([&] {
    runtime::Function* const function = find_function(symbol);
    require(function != nullptr, cudaErrorInvalidResourceHandle);
    set_function_attribute(*function, attribute, value);
  });
}

// Clusters that can be active at the same time.
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* symbol,
                                           const cudaLaunchConfig_t* config) {
  return on_device([&] {
    runtime::Function* const function = find_function(symbol);
    const Code& code = code_of(function);
    LaunchRequest request = request_of(*config);
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      const cudaLaunchAttribute& attribute = config->attrs[i];
      require(is_known(attribute.id));
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
