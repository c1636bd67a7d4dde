// The driver's calls that load code and launch it.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/machine/runtime/device.h"
#include "common/machine/runtime/foreign/forward.h"
#include "common/machine/runtime/launch.h"

namespace machine::runtime {
namespace {

// `extra` is CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, END. A
// driver refuses a block with padding at its end as too many resources (llvm/llvm-project pull
// request 156229, m4rs-mt/ILGPU issue 1323).
std::vector<std::byte> read_extra(const Kernel& kernel, void** extra) {
  const void* block = nullptr;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) block = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<const size_t*>(extra[1]);
  }
  require(block != nullptr);
  if (bytes != kernel.param_bytes) {
    refuse(cudaErrorLaunchOutOfResources,
           "launch of %s: CU_LAUNCH_PARAM_BUFFER_SIZE is %zu, but the parameters take %u "
           "bytes; a struct's padding at its end does not count.",
           kernel.name.c_str(), bytes, kernel.param_bytes);
  }
  const auto* const begin = static_cast<const std::byte*>(block);
  return {begin, begin + kernel.param_bytes};
}

CUresult launch_function(CUfunction handle, const LaunchConfig& request, CUstream stream,
                         void** arguments, void** extra) {
  return forward_work([&] {
    Function* const function = find_function(handle);
    if (extra == nullptr) return launch(function, request, arguments, stream);
    require(arguments == nullptr);
    submit(stream, {cudaGraphNodeTypeKernel,
                    make_work(function, request, read_extra(*code_of(function).kernel, extra))});
  });
}

// The runtime's view of a driver's configuration: the attributes have the same layout.
cudaLaunchConfig_t to_runtime(const CUlaunchConfig& config) {
  static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute));
  cudaLaunchConfig_t made{};
  made.gridDim = dim3(config.gridDimX, config.gridDimY, config.gridDimZ);
  made.blockDim = dim3(config.blockDimX, config.blockDimY, config.blockDimZ);
  made.dynamicSmemBytes = config.sharedMemBytes;
  made.stream = config.hStream;
  made.attrs = reinterpret_cast<cudaLaunchAttribute*>(config.attrs);
  made.numAttrs = config.numAttrs;
  return made;
}

std::string& linked(CUlinkState state) {
  return *reinterpret_cast<std::string*>(state);
}

// Nothing is said of code that was read.
void empty_logs(unsigned count, const CUjit_option* options, void** values) {
  for (unsigned i = 0; i < count; ++i) {
    const bool is_log =
        options[i] == CU_JIT_INFO_LOG_BUFFER || options[i] == CU_JIT_ERROR_LOG_BUFFER;
    if (is_log && values[i] != nullptr) *static_cast<char*>(values[i]) = '\0';
  }
}

}  // namespace

extern "C" {

// ---- code ---------------------------------------------------------------------------------------
// A module is a library, and a function a kernel.

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  return forward(cudaLibraryLoadData, library, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

CUresult cuModuleLoadData(CUmodule* module, const void* code) {
  if (const CUresult missing = check_context()) return missing;
  return forward(cudaLibraryLoadData, module, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* code, unsigned count,
                            CUjit_option* options, void** values) {
  empty_logs(count, options, values);
  return cuModuleLoadData(module, code);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* code) {
  return cuModuleLoadData(module, code);
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  if (const CUresult missing = check_context()) return missing;
  return forward(cudaLibraryLoadFromFile, module, path, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

FORWARD1(cuLibraryUnload, cudaLibraryUnload, CUlibrary);
FORWARD1(cuModuleUnload, cudaLibraryUnload, CUmodule);
FORWARD2(cuLibraryGetKernelCount, cudaLibraryGetKernelCount, unsigned*, CUlibrary);
FORWARD3(cuLibraryEnumerateKernels, cudaLibraryEnumerateKernels, CUkernel*, unsigned, CUlibrary);
FORWARD3(cuLibraryGetKernel, cudaLibraryGetKernel, CUkernel*, CUlibrary, const char*);
FORWARD3(cuModuleGetFunction, cudaLibraryGetKernel, CUfunction*, CUmodule, const char*);
FORWARD4(cuLibraryGetGlobal, cudaLibraryGetGlobal, CUdeviceptr*, size_t*, CUlibrary, const char*);
FORWARD4(cuModuleGetGlobal, cudaLibraryGetGlobal, CUdeviceptr*, size_t*, CUmodule, const char*);

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  *module = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

// ---- linking ------------------------------------------------------------------------------------
// One input is its own result: nothing is translated. Of a library's functions the launch says which
// ones it misses.

CUresult cuLinkCreate(unsigned count, CUjit_option* options, void** values, CUlinkState* state) {
  if (const CUresult missing = check_context()) return missing;
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  empty_logs(count, options, values);
  *state = reinterpret_cast<CUlinkState>(new std::string);
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t bytes,
                       const char*, unsigned, CUjit_option*, void**) {
  return forward_work([&] {
    require(state != nullptr && data != nullptr);
    if (type == CU_JIT_INPUT_LIBRARY) return;
    if (!linked(state).empty()) {
      refuse(cudaErrorNotSupported,
             "cuLinkAddData of a second module: modules are not linked with each other.");
    }
    linked(state).assign(static_cast<const char*>(data), bytes);
  });
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path, unsigned count,
                       CUjit_option* options, void** values) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string code{std::istreambuf_iterator<char>(file), {}};
  return cuLinkAddData(state, type, code.data(), code.size(), path, count, options, values);
}

CUresult cuLinkComplete(CUlinkState state, void** code, size_t* bytes) {
  return forward_work([&] {
    require(state != nullptr && code != nullptr && !linked(state).empty());
    *code = linked(state).data();
    if (bytes != nullptr) *bytes = linked(state).size();
  });
}

CUresult cuLinkDestroy(CUlinkState state) {
  if (state == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  delete &linked(state);
  return CUDA_SUCCESS;
}

// ---- functions ----------------------------------------------------------------------------------

FORWARD3(cuFuncSetAttribute, cudaFuncSetAttribute, CUfunction, CUfunction_attribute, int);

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice) {
  return forward(cudaFuncSetAttribute, kernel, attribute, value);
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return forward([&] {
    cudaFuncAttributes all;
    const cudaError_t status = cudaFuncGetAttributes(&all, function);
    if (status != cudaSuccess) return status;
    const int values[] = {all.maxThreadsPerBlock,
                          static_cast<int>(all.sharedSizeBytes),
                          static_cast<int>(all.constSizeBytes),
                          static_cast<int>(all.localSizeBytes),
                          all.numRegs,
                          all.ptxVersion,
                          all.binaryVersion,
                          all.cacheModeCA,
                          all.maxDynamicSharedSizeBytes,
                          all.preferredShmemCarveout,
                          all.clusterDimMustBeSet,
                          all.requiredClusterWidth,
                          all.requiredClusterHeight,
                          all.requiredClusterDepth,
                          all.nonPortableClusterSizeAllowed,
                          all.clusterSchedulingPolicyPreference};
    if (attribute < 0 || static_cast<size_t>(attribute) >= std::size(values)) {
      return cudaErrorInvalidValue;
    }
    *value = values[attribute];
    return cudaSuccess;
  });
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice) {
  return cuFuncGetAttribute(value, attribute, reinterpret_cast<CUfunction>(kernel));
}

FORWARD2(cuFuncGetName, cudaFuncGetName, const char**, CUfunction);
FORWARD4(cuFuncGetParamInfo, cudaFuncGetParamInfo, CUfunction, size_t, size_t*, size_t*);
FORWARD2(cuKernelGetName, cudaFuncGetName, const char**, CUkernel);
FORWARD4(cuKernelGetParamInfo, cudaFuncGetParamInfo, CUkernel, size_t, size_t*, size_t*);

CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction, CUsharedconfig) {
  return CUDA_SUCCESS;
}

// Of cuLaunch and its like, which are not there; PyCUDA calls it before cuLaunchKernel.
CUresult cuFuncSetBlockShape(CUfunction, int, int, int) {
  return CUDA_SUCCESS;
}

FORWARD4(cuOccupancyMaxActiveBlocksPerMultiprocessor, cudaOccupancyMaxActiveBlocksPerMultiprocessor,
         int*, CUfunction, int, size_t);

FORWARD4(cuOccupancyAvailableDynamicSMemPerBlock, cudaOccupancyAvailableDynamicSMemPerBlock,
         size_t*, CUfunction, int, int);

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* ctas, CUfunction function,
                                                              int threads, size_t smem_bytes,
                                                              unsigned flags) {
  return forward(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, ctas, function, threads,
                 smem_bytes, flags);
}

// The block with which most threads fit on an SM, the largest one of them, and a grid that fills
// the device.
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* ctas, int* threads, CUfunction function,
                                                   CUoccupancyB2DSize smem_of, size_t smem_bytes,
                                                   int limit, unsigned flags) {
  int largest = 0, best = 0;
  const CUresult status =
      cuFuncGetAttribute(&largest, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
  if (status != CUDA_SUCCESS) return status;
  if (limit > 0) largest = std::min(largest, limit);
  constexpr int WARP = 32;
  for (int block = largest; block > 0; block = (block - 1) / WARP * WARP) {
    int fit = 0;
    const CUresult asked = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        &fit, function, block, smem_of != nullptr ? smem_of(block) : smem_bytes, flags);
    if (asked != CUDA_SUCCESS) return asked;
    if (fit * block <= best) continue;
    best = fit * block;
    *threads = block;
    *ctas = fit * sm_count();
  }
  return best == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int* ctas, int* threads, CUfunction function,
                                          CUoccupancyB2DSize smem_of, size_t smem_bytes,
                                          int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(ctas, threads, function, smem_of, smem_bytes,
                                                   limit, CU_OCCUPANCY_DEFAULT);
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function,
                                      const CUlaunchConfig* config) {
  const cudaLaunchConfig_t made = to_runtime(*config);
  return forward(cudaOccupancyMaxActiveClusters, clusters, function, &made);
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function,
                                            const CUlaunchConfig* config) {
  const cudaLaunchConfig_t made = to_runtime(*config);
  return forward(cudaOccupancyMaxPotentialClusterSize, size, function, &made);
}

// ---- launches -----------------------------------------------------------------------------------

FORWARD3(cuLaunchHostFunc, cudaLaunchHostFunc, CUstream, CUhostFn, void*);

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned smem_bytes,
                        CUstream stream, void** arguments, void** extra) {
  const LaunchConfig request{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, NO_CLUSTER, smem_bytes};
  return launch_function(function, request, stream, arguments, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned smem_bytes, CUstream stream,
                                   void** arguments) {
  const LaunchConfig request{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, NO_CLUSTER, smem_bytes, true};
  return launch_function(function, request, stream, arguments, nullptr);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments,
                          void** extra) {
  const cudaLaunchConfig_t made = to_runtime(*config);
  LaunchConfig request = request_of(made);
  const CUresult status =
      forward_work([&] { apply_attributes(made.attrs, made.numAttrs, &request); });
  if (status != CUDA_SUCCESS) return status;
  return launch_function(function, request, made.stream, arguments, extra);
}

}  // extern "C"
}  // namespace machine::runtime
