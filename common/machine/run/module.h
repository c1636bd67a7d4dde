// A module: its PTX, its variables in memory, its kernels decoded when first launched.
#pragma once

#include <map>
#include <mutex>

#include "common/machine/run/state.h"

namespace machine {

class Module {
 public:
  explicit Module(std::string_view text);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const Ptx& ptx() const { return ptx_; }
  const std::vector<Kernel>& kernels() const { return kernels_; }
  // Address of a .global or .const variable; 0 if there is none.
  uint64_t variable(const std::string& name, size_t* bytes = nullptr) const;
  // Decodes the kernel. Thread-safe. Throws Error (refused) for what it cannot run, by name, file and
  // line; other kernels of the module run all the same.
  std::shared_ptr<const Program> program(const Kernel& kernel) const;

 private:
  struct Placed {
    void* base;
    size_t bytes;
  };
  Ptx ptx_;
  std::vector<Kernel> kernels_;
  std::map<std::string, Placed> variables_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const Program>> programs_;
};

}  // namespace machine
