// Preloaded into a program, puts rewritten kernels in place of its own, on a GPU. The program stays
// as it is; it must be linked with --cudart shared. scripts/rewrite_ptx.py makes the files.
//
//   REPLACE_PTX=file.ptx        whose kernels replace those of the same names
//   REPLACE_FATBIN=file.fatbin  the same, assembled: what is loaded. Both must be set
//   REPLACE_TRACE=file          at exit, the file gets what the kernels left in ladder_trace
//
// A fat binary is replaced whole, so the PTX must hold all kernels of its translation unit.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <regex>
#include <string>
#include <vector>

#include "common/machine/runtime/fatbin.h"

namespace {

using machine::runtime::Container, machine::runtime::CONTAINER_MAGIC, machine::runtime::Wrapper;

constexpr int EXIT_USAGE = 2;
const char TRACE_VARIABLE[] = "ladder_trace";

[[noreturn]] void give_up(const std::string& sentence) {
  std::fprintf(stderr, "replace_ptx: %s\n", sentence.c_str());
  _exit(EXIT_USAGE);
}

// The runtime's own function, of type F.
template <class F>
F* next(const char* name) {
  void* const function = dlsym(RTLD_NEXT, name);
  if (function == nullptr) {
    give_up(std::string("the program has no ") + name + ": link it with --cudart shared");
  }
  return reinterpret_cast<F*>(function);
}

std::string read_file(const char* variable) {
  const char* path = std::getenv(variable);
  if (path == nullptr) {
    give_up(std::string(variable) +
            " is not set: scripts/rewrite_ptx.py --fatbin OUT.fatbin IN.ptx makes what it names");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) give_up(std::string("cannot read ") + variable + "=" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Replacement {
  std::vector<std::string> kernels;
  size_t trace_bytes = 0;         // of ladder_trace; 0: the PTX has none
  alignas(8) std::string fatbin;  // stays as long as the process
  Wrapper wrapper{};
  bool used = false;
  char trace_symbol = 0;  // the host's name for ladder_trace
};

// The replacement that the environment asks for; nullptr for none.
Replacement* replacement() {
  static Replacement* const made = []() -> Replacement* {
    if (std::getenv("REPLACE_PTX") == nullptr) return nullptr;
    auto* const replaced = new Replacement;
    const std::string ptx = read_file("REPLACE_PTX");
    const std::regex entry("\\.entry\\s+([\\w$]+)");
    for (std::sregex_iterator it(ptx.begin(), ptx.end(), entry), end; it != end; ++it) {
      replaced->kernels.push_back((*it)[1]);
    }
    if (replaced->kernels.empty()) give_up("the file that REPLACE_PTX names has no .entry");
    const std::regex variable(std::string("\\b") + TRACE_VARIABLE + "\\[(\\d+)\\]");
    std::smatch size;
    if (std::regex_search(ptx, size, variable)) replaced->trace_bytes = std::stoull(size[1]);
    replaced->fatbin = read_file("REPLACE_FATBIN");
    return replaced;
  }();
  return made;
}

// A fat binary that was not compressed names its kernels in plain text.
bool holds(const void* fatbin, const std::vector<std::string>& kernels) {
  Container container;
  std::memcpy(&container, fatbin, sizeof container);
  if (container.magic != CONTAINER_MAGIC) return false;
  const size_t bytes = container.header_bytes + container.body_bytes;
  for (const std::string& kernel : kernels) {
    if (memmem(fatbin, bytes, kernel.data(), kernel.size()) != nullptr) return true;
  }
  return false;
}

void write_trace() {
  Replacement* const replaced = replacement();
  std::vector<char> bytes(replaced->trace_bytes);
  const auto copy = next<decltype(cudaMemcpyFromSymbol)>("cudaMemcpyFromSymbol");
  const cudaError_t status =
      copy(bytes.data(), &replaced->trace_symbol, bytes.size(), 0, cudaMemcpyDeviceToHost);
  if (status != cudaSuccess) {
    std::fprintf(stderr, "replace_ptx: no trace: reading %s failed with CUDA error %d\n",
                 TRACE_VARIABLE, status);
    return;
  }
  const char* path = std::getenv("REPLACE_TRACE");
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) std::fprintf(stderr, "replace_ptx: cannot write REPLACE_TRACE=%s\n", path);
}

// Once the program works with the device. Registered so late, the handler of exit runs while the
// driver still does.
void after_start() {
  const Replacement* const replaced = replacement();
  if (replaced == nullptr) return;
  if (!replaced->used) {
    give_up("no fat binary of this program names kernel " + replaced->kernels.front() +
            ": build it with nvcc --no-compress and take PTX of the same build");
  }
  if (replaced->trace_bytes > 0 && std::getenv("REPLACE_TRACE") != nullptr) {
    std::atexit(write_trace);
  }
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* given) {
  const auto real = next<void**(void*)>("__cudaRegisterFatBinary");
  Replacement* const replaced = replacement();
  Wrapper wrapper;
  std::memcpy(&wrapper, given, sizeof wrapper);
  if (replaced == nullptr || replaced->used || !holds(wrapper.data, replaced->kernels)) {
    return real(given);
  }
  replaced->used = true;
  replaced->wrapper = {wrapper.magic, wrapper.version, replaced->fatbin.data(), nullptr};
  void** const handle = real(&replaced->wrapper);
  if (replaced->trace_bytes > 0) {
    using Register = void(void**, char*, char*, const char*, int, size_t, int, int);
    const auto add = next<Register>("__cudaRegisterVar");
    static char device_name[] = "ladder_trace";
    add(handle, &replaced->trace_symbol, device_name, device_name, 0, replaced->trace_bytes, 0, 0);
  }
  return handle;
}

// Every program that runs a kernel calls it, and the driver is up when it returns.
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  const auto real = next<cudaError_t(void**, size_t)>("cudaMalloc");
  const cudaError_t status = real(pointer, bytes);
  static std::once_flag once;
  std::call_once(once, after_start);
  return status;
}

}  // extern "C"
