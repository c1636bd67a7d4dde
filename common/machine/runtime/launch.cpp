// From a launch as programs make it to one as the machine takes it, or to the error of a GPU.
#include "common/machine/runtime/launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "common/machine/check/reports.h"
#include "common/machine/run/module.h"
#include "common/machine/runtime/beside.h"
#include "common/machine/runtime/device.h"

namespace machine::runtime {
namespace {

struct Configuration {
  dim3 grid, block;
  size_t dynamic_smem_bytes;
  cudaStream_t stream;
};
// Of <<< >>>: pushed by the caller, popped by the kernel's stub.
thread_local std::vector<Configuration> pushed;

// Of a kernel whose launch gives the number of clusters: how many CTAs, and of how many threads.
void count_ctas(const Kernel& kernel, LaunchConfig* request) {
  if (!kernel.blocks_are_clusters) return;
  const Dim3& cluster = kernel.required_cluster;
  request->grid.x *= cluster.x;
  request->grid.y *= cluster.y;
  request->grid.z *= cluster.z;
  if (request->block == Dim3()) request->block = kernel.required_block;
}

void check_shape(const char* name, const Kernel& kernel, const Dim3& grid, const Dim3& block) {
  if (grid.count() == 0 || grid.x > MAX_GRID_X || grid.y > MAX_GRID_YZ || grid.z > MAX_GRID_YZ) {
    refuse(cudaErrorInvalidValue,
           "launch of %s: the grid is %u x %u x %u, but must be from 1 x 1 x 1 to %d x %d x "
           "%d.",
           name, grid.x, grid.y, grid.z, MAX_GRID_X, MAX_GRID_YZ, MAX_GRID_YZ);
  }
  if (block.count() == 0 || block.count() > MAX_CTA_THREADS || block.z > MAX_CTA_Z) {
    refuse(cudaErrorInvalidValue,
           "launch of %s: the block is %u x %u x %u, but must have from 1 to %d threads, "
           "with z at most %d.",
           name, block.x, block.y, block.z, MAX_CTA_THREADS, MAX_CTA_Z);
  }
  const Dim3& required = kernel.required_block;
  if (required.count() != 0 && block != required) {
    refuse(cudaErrorInvalidValue,
           "launch of %s: the block is %u x %u x %u, but the kernel requires %u x %u x %u.", name,
           block.x, block.y, block.z, required.x, required.y, required.z);
  }
}

// Decides on the cluster: the launch's attribute, the kernel's own, or none.
void check_cluster(const char* name, const Function& function, const Kernel& kernel,
                   LaunchConfig* request) {
  const bool given = request->cluster.count() != 0;
  const Dim3 required = required_cluster(function, kernel);
  const bool is_required = required.count() != 0;
  if (given && is_required && request->cluster != required) {
    refuse(cudaErrorInvalidClusterSize,
           "launch of %s: the cluster is %u x %u x %u, but the kernel requires %u x %u x %u.", name,
           request->cluster.x, request->cluster.y, request->cluster.z, required.x, required.y,
           required.z);
  }
  if (!given && !is_required && (kernel.explicit_cluster || function.cluster_must_be_set)) {
    refuse(cudaErrorInvalidClusterSize,
           "launch of %s: the kernel must be launched with a cluster dimension.", name);
  }
  if (!given) request->cluster = is_required ? required : Dim3{1, 1, 1};

  const Dim3 &cluster = request->cluster, &grid = request->grid;
  const int limit = function.non_portable_cluster ? MAX_CLUSTER : MAX_PORTABLE_CLUSTER;
  if (cluster.count() > static_cast<uint64_t>(limit)) {
    refuse(
        cudaErrorInvalidClusterSize,
        "launch of %s: the cluster has %llu CTAs, but may have at most %d%s.", name,
        static_cast<unsigned long long>(cluster.count()), limit,
        limit == MAX_CLUSTER ? "" : ", or 16 with cudaFuncAttributeNonPortableClusterSizeAllowed");
  }
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    refuse(cudaErrorInvalidClusterSize,
           "launch of %s: the grid %u x %u x %u is no multiple of the cluster %u x %u x %u.", name,
           grid.x, grid.y, grid.z, cluster.x, cluster.y, cluster.z);
  }
}

void check_resources(const char* name, const Function& function, const Code& code,
                     const LaunchConfig& request) {
  const auto threads = static_cast<int>(request.block.count());
  const auto max_threads = static_cast<int>(code.kernel->max_threads);
  if (threads > max_threads) {
    refuse(cudaErrorInvalidValue,
           "launch of %s: the block has %d threads, but its launch bounds allow %d.", name, threads,
           max_threads);
  }
  const int max_smem = max_dynamic_smem_bytes(function, code);
  if (request.dynamic_smem_bytes > static_cast<size_t>(max_smem)) {
    refuse(cudaErrorInvalidValue,
           "launch of %s: %zu bytes of dynamic shared memory, but at most %d; "
           "cudaFuncAttributeMaxDynamicSharedMemorySize raises that up to %d.",
           name, request.dynamic_smem_bytes, max_smem,
           CTA_SMEM_OPTIN_BYTES - static_cast<int>(code.kernel->static_smem_bytes));
  }
  const int resident = ctas_per_sm(code, threads, request.dynamic_smem_bytes);
  if (resident == 0) {
    refuse(
        cudaErrorLaunchOutOfResources,
        "launch of %s: %d threads of %d registers, but an SM holds at most %u warps of so many, %u "
        "in each of its %u partitions of %u registers.",
        name, threads, code.resources.registers, SM_PARTITIONS * warps_per_partition(code),
        warps_per_partition(code), SM_PARTITIONS, SM_REGISTERS / SM_PARTITIONS);
  }
  const uint64_t room = static_cast<uint64_t>(resident) * static_cast<uint64_t>(sm_count());
  if (request.cooperative && request.grid.count() > room) {
    refuse(cudaErrorCooperativeLaunchTooLarge,
           "launch of %s: a cooperative grid of %llu CTAs, but only %llu fit on the device.", name,
           static_cast<unsigned long long>(request.grid.count()),
           static_cast<unsigned long long>(room));
  }
}

// False if the machine cannot run the kernel: the process goes on, with its other kernels.
bool can_run(Function* function, const Code& code) {
  try {
    if (!function->is_refused) code.module->program(*code.kernel);
  } catch (const Error& error) {
    function->is_refused = true;
    show_refusal(error);
  }
  return !function->is_refused;
}

bool has_opcode(const Code& code, std::string_view opcode) {
  const auto program = code.module->program(*code.kernel);
  return std::any_of(program->statements.begin(), program->statements.end(),
                     [opcode](const Statement* statement) { return statement->opcode == opcode; });
}

// Launches by several threads take turns. A dependent one overlaps with the grid before it in its
// stream only if that one lets it, or overlapped itself and did not wait; so it may with a grid that is
// not known.
void run(const Code& code, LaunchConfig config, const std::vector<std::byte>& parameters) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const GridBefore before = grid_before();
  config.programmatic = config.programmatic && before.lets_next;
  config.before = before.grids;
  Piece* const piece = piece_under_way();
  if (piece != nullptr) {
    piece->what = KERNEL;
    piece->what += source_name(code.kernel->name);
    config.accesses = &piece->accesses;
  }
  config.lets_next = has_opcode(code, "griddepcontrol.launch_dependents") ||
                     (config.programmatic && !has_opcode(code, "griddepcontrol.wait"));
  set_grid_before({before.number + 1, config.lets_next,
                   machine::launch(*code.module, *code.kernel, config, parameters.data())});
  if (!reports_so_far().empty()) spoil_exit();
}

}  // namespace

void check_launch(const Function& function, const Code& code, LaunchConfig* request) {
  const std::string text = source_name(code.kernel->name);
  const char* const name = text.c_str();
  count_ctas(*code.kernel, request);
  check_shape(name, *code.kernel, request->grid, request->block);
  check_cluster(name, function, *code.kernel, request);
  check_resources(name, function, code, *request);
}

void apply_attributes(const cudaLaunchAttribute* attributes, unsigned count,
                      LaunchConfig* request) {
  const auto record_event = [](cudaEvent_t event) {
    if (const cudaError_t status = cudaEventRecord(event, nullptr)) fail(status);
  };
  for (unsigned i = 0; i < count; ++i) {
    const cudaLaunchAttributeValue& value = attributes[i].val;
    switch (attributes[i].id) {
      case cudaLaunchAttributeClusterDimension:
        request->cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
        break;
      case cudaLaunchAttributeCooperative:
        request->cooperative = value.cooperative != 0;
        break;
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        request->programmatic = value.programmaticStreamSerializationAllowed != 0;
        break;
      case cudaLaunchAttributeProgrammaticEvent:
        record_event(value.programmaticEvent.event);
        break;
      case cudaLaunchAttributeLaunchCompletionEvent:
        record_event(value.launchCompletionEvent.event);
        break;
      case cudaLaunchAttributeDeviceUpdatableKernelNode:
        refuse(cudaErrorNotSupported,
               "launch: kernel nodes that the device updates are not supported.");
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributeAccessPolicyWindow:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributeMemSyncDomainMap:
      case cudaLaunchAttributeMemSyncDomain:
      case cudaLaunchAttributePreferredClusterDimension:
      case cudaLaunchAttributePreferredSharedMemoryCarveout:
      case NVLINK_UTIL_CENTRIC_SCHEDULING:
        break;
      default:  // a stream's, or none
        refuse(cudaErrorInvalidValue, "launch: attribute %d is not one of a launch.",
               static_cast<int>(attributes[i].id));
    }
  }
}

Work make_work(Function* function, LaunchConfig request, std::vector<std::byte> parameters) {
  const Code& code = code_of(function);
  require(can_run(function, code), cudaErrorNotSupported);
  request.explicit_cluster =
      request.cluster.count() != 0 || function->required_cluster.count() != 0;
  request.registers = static_cast<uint32_t>(code.resources.registers);
  check_launch(*function, code, &request);
  return [&code, request, parameters = std::move(parameters)] { run(code, request, parameters); };
}

Work make_work(const KernelNode& node) {
  return make_work(node.function, node.request, node.parameters);
}

std::shared_ptr<const KernelNode> make_node(Function* function, const LaunchConfig& request,
                                            void* const* arguments) {
  const Kernel& kernel = *code_of(function).kernel;
  require(arguments != nullptr || kernel.params.empty());
  const auto node = std::make_shared<KernelNode>(
      KernelNode{function, request, std::vector<std::byte>(kernel.param_bytes)});
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    std::byte* const parameter = node->parameters.data() + kernel.params[i].offset;
    std::memcpy(parameter, arguments[i], kernel.params[i].size);
    node->arguments.push_back(parameter);
  }
  return node;
}

void launch(Function* function, const LaunchConfig& request, void* const* arguments,
            cudaStream_t stream) {
  const auto node = make_node(function, request, arguments);
  submit(stream, {cudaGraphNodeTypeKernel, make_work(*node), node});
}

Dim3 to_dim3(const dim3& size) {
  return {size.x, size.y, size.z};
}

LaunchConfig request_of(const cudaLaunchConfig_t& config) {
  return {to_dim3(config.gridDim), to_dim3(config.blockDim), NO_CLUSTER, config.dynamicSmemBytes};
}

extern "C" {

void** __cudaRegisterFatBinary(void* fat_binary) {
  return reinterpret_cast<void**>(add_binary(fat_binary));
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  remove_binary(reinterpret_cast<Binary*>(handle));
}

void __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* name, int,
                            uint3*, uint3*, dim3*, dim3*, int*) {
  add_function(reinterpret_cast<Binary*>(handle), host_function, name);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t dynamic_smem_bytes,
                                     cudaStream_t stream) {
  pushed.push_back({grid, block, dynamic_smem_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* dynamic_smem_bytes,
                                       void* stream) {
  if (pushed.empty()) return record(cudaErrorMissingConfiguration);
  const Configuration& top = pushed.back();
  *grid = top.grid;
  *block = top.block;
  *dynamic_smem_bytes = top.dynamic_smem_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  pushed.pop_back();
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t dynamic_smem_bytes, cudaStream_t stream) {
  return on_device([&] {
    launch(find_function(function), {to_dim3(grid), to_dim3(block), NO_CLUSTER, dynamic_smem_bytes},
           arguments, stream);
  });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  return on_device([&] {
    require(config != nullptr);
    auto request = request_of(*config);
    apply_attributes(config->attrs, config->numAttrs, &request);
    launch(find_function(function), request, arguments, config->stream);
  });
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  Function* const found = find_function(function);
  *kernel = reinterpret_cast<cudaKernel_t>(found);
  return record(found == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess);
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return cudaGetKernel(kernel, function);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t dynamic_smem_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, dynamic_smem_bytes, stream);
}

}  // extern "C"
}  // namespace machine::runtime
