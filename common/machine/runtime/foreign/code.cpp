// What else there is in device code: its variables, and libraries that a program loads while it runs; and
// what is asked of functions, but for what the ladder does.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "common/machine/runtime/device.h"
#include "common/machine/runtime/launch.h"
#include "common/machine/runtime/memory_api.h"

namespace machine::runtime {
namespace {

void load(cudaLibrary_t* library, const void* code) {
  Binary* const binary = load_library(code);
  *library = reinterpret_cast<cudaLibrary_t>(binary);
  require(binary != nullptr, cudaErrorInvalidKernelImage);
}

Binary* binary_of(cudaLibrary_t library) {
  require(is_binary(library), cudaErrorInvalidResourceHandle);
  return reinterpret_cast<Binary*>(library);
}

// Of cudaMemcpyToSymbol and its kin: the address of the variable's byte `offset`.
char* symbol_address(const void* symbol, size_t bytes, size_t offset) {
  size_t size = 0;
  char* const address = static_cast<char*>(find_variable(symbol, &size));
  require(address != nullptr, cudaErrorInvalidSymbol);
  if (offset > size || bytes > size - offset) {
    refuse(cudaErrorInvalidValue,
           "copy of %zu bytes at offset %zu of a device variable that has %zu bytes.", bytes,
           offset, size);
  }
  return address + offset;
}

}  // namespace

extern "C" {

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

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  return cudaGetKernel(reinterpret_cast<cudaKernel_t*>(function), symbol);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, size_t dynamic_smem_bytes,
                                        cudaStream_t stream) {
  return on_device([&] {
    launch(find_function(function),
           {to_dim3(grid), to_dim3(block), NO_CLUSTER, dynamic_smem_bytes, true}, arguments,
           stream);
  });
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

// ---- variables ----------------------------------------------------------------------------------

void __cudaRegisterVar(void** handle, char* host_variable, char*, const char* name, int, size_t,
                       int, int) {
  add_variable(reinterpret_cast<Binary*>(handle), host_variable, name);
}

void __cudaRegisterManagedVar(void** handle, void** host_pointer, char*, const char* name, int,
                              size_t, int, int) {
  add_managed(reinterpret_cast<Binary*>(handle), host_pointer, name);
}

char __cudaInitModule(void** handle) {
  on_device([&] { resolve_managed(reinterpret_cast<Binary*>(handle)); });
  return 1;
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return on_device([&] {
    size_t bytes = 0;
    *address = find_variable(symbol, &bytes);
    require(*address != nullptr, cudaErrorInvalidSymbol);
  });
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  return on_device(
      [&] { require(find_variable(symbol, bytes) != nullptr, cudaErrorInvalidSymbol); });
}

COPY_CALLS(cudaMemcpyToSymbol, line(symbol_address(symbol, bytes, offset), src, bytes),
           const void* symbol, const void* src, size_t bytes, size_t offset);
COPY_CALLS(cudaMemcpyFromSymbol, line(dst, symbol_address(symbol, bytes, offset), bytes), void* dst,
           const void* symbol, size_t bytes, size_t offset);

}  // extern "C"
}  // namespace machine::runtime
