// Runs a few lines of PTX on the machine, for tests of single instructions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/machine/launch.h"
#include "common/machine/ops/tensor_map.h"
#include "common/machine/run/allocations.h"
#include "common/machine/run/settings.h"
#include "common/machine/run/state.h"

namespace machine_test {

// Device memory.
template <class T>
class Buffer {
 public:
  explicit Buffer(size_t count)
      : count_(count), data_(static_cast<T*>(machine::allocate(count * sizeof(T), "the test"))) {
    for (size_t i = 0; i < count; ++i) data_[i] = T{};
  }
  ~Buffer() { machine::release(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  size_t size() const { return count_; }

 private:
  size_t count_;
  T* data_;
};

// One kernel: registers %r0 %rd0 %p0 and up; `out` and `in` are in %out and %in, %tid.x is in %t,
// the address of 64 KiB of shared memory in %smem, that of the tensor map, generic, in %map.
struct Program {
  std::string body;
  std::string declarations = {};  // functions and variables of the module
  std::string directives = {};    // of the entry, as .maxntid
  machine::Dim3 grid, block{32, 1, 1}, cluster;
  machine::Policy policy = machine::Policy::eager;
  uint64_t seed = 1;
  bool check = true;
  bool programmatic = false;  // programmatic stream serialization
  bool cooperative = false;
  machine::TensorMap map;
  std::function<machine::TensorMap(void*)> map_of;  // the map of `out`, if it is a tensor

  // Throws machine::Error.
  void run(void* out = nullptr, const void* in = nullptr) const {
    const std::string text =
        ".version 8.6\n.target sm_90a\n.address_size 64\n"
        ".extern .shared .align 1024 .b8 smem[];\n" +
        declarations +
        ".visible .entry test(.param .u64 out, .param .u64 in, .param .align 64 .b8 map[128])\n" +
        directives +
        "\n{\n"
        ".reg .pred %p<16>; .reg .b32 %r<64>; .reg .b64 %rd<32>;\n"
        ".reg .b32 %t, %smem; .reg .b64 %out, %in, %map;\n"
        "ld.param.u64 %out, [out];\nld.param.u64 %in, [in];\n"
        "mov.u32 %t, %tid.x;\nmov.u32 %smem, smem;\n"
        "mov.b64 %map, map;\ncvta.param.u64 %map, %map;\n" +
        body + "\nret;\n}\n";
    const auto module = machine::load_module(text);
    struct {
      void* out;
      const void* in;
      alignas(64) machine::TensorMap map;
      char rest[128 - sizeof(machine::TensorMap)];
    } params{out, in, map_of ? map_of(out) : map, {}};
    machine::LaunchConfig config;
    config.grid = grid;
    config.block = block;
    config.cluster = cluster;
    config.dynamic_smem_bytes = 65536;
    config.programmatic = programmatic;
    config.cooperative = cooperative;
    machine::Settings& settings = machine::settings();
    const machine::Settings before = settings;
    settings.policy = policy;
    settings.seed = seed;
    settings.check = check;
    try {
      machine::launch(*module, *machine::find_kernel(*module, "test"), config, &params);
    } catch (...) {
      settings = before;
      throw;
    }
    settings = before;
  }

  // What it reports; "" if it runs to its end.
  std::string report(void* out = nullptr, const void* in = nullptr) const {
    try {
      run(out, in);
    } catch (const machine::Error& error) {
      return error.what();
    }
    return "";
  }
};

// Runs it on `words` words, which begin as 0.
inline std::vector<uint32_t> results(const Program& program, size_t words,
                                     const void* in = nullptr) {
  Buffer<uint32_t> out(words);
  program.run(out.data(), in);
  return {out.data(), out.data() + words};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace machine_test
