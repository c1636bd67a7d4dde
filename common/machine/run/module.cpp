// Modules: variables are placed at once, kernels decoded when first launched. It runs nothing.
#include "common/machine/run/module.h"

#include <algorithm>

#include "common/machine/code/isa.h"

namespace machine {

Module::Module(std::string_view text) : ptx_(parse(text)) {
  for (const Variable& variable : ptx_.variables) {
    if (variable.space == Space::shared) continue;
    const char* const kind = variable.space == Space::constant ? "constant "
                             : variable.managed                ? MANAGED_VARIABLE
                                                               : "variable ";
    void* const base = allocate(variable.bytes, kind + variable.name);
    if (base == nullptr) {
      throw Error(Error::Kind::refused, "There is no memory for variable " + variable.name + ".");
    }
    std::memcpy(base, variable.initial.data(), variable.initial.size());
    variables_[variable.name] = {base, variable.bytes};
  }
  for (const Variable& variable : ptx_.variables) {
    for (const Address& address : variable.addresses) {
      const uint64_t of_variable = this->variable(address.name);
      uint64_t value = of_variable != 0 ? of_variable : function_address(ptx_, address.name);
      value = (value + address.plus) >> address.shift;
      std::memcpy(static_cast<std::byte*>(variables_.at(variable.name).base) + address.at, &value,
                  address.bytes);
    }
  }
  for (const Function& function : ptx_.functions) {
    if (function.entry) kernels_.push_back(describe_kernel(ptx_, function));
  }
}

Module::~Module() {
  for (const auto& [name, placed] : variables_) release(placed.base);
}

uint64_t Module::variable(const std::string& name, size_t* bytes) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return 0;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return reinterpret_cast<uint64_t>(found->second.base);
}

std::shared_ptr<const Program> Module::program(const Kernel& kernel) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Program>& program = programs_[kernel.name];
  if (program != nullptr) return program;
  const auto entry =
      std::find_if(ptx_.functions.begin(), ptx_.functions.end(),
                   [&](auto& function) { return function.entry && function.name == kernel.name; });
  try {
    return program = decode(*this, ptx_, *entry, kernel);
  } catch (const Error& error) {
    Origin origin = error.origin;
    origin.kernel = source_name(kernel.name);
    throw Error(error.kind, "PTX machine: kernel " + origin.kernel + " cannot run: " + error.what(),
                error.rule, origin);
  }
}

std::shared_ptr<Module> load_module(std::string_view ptx) {
  return std::make_shared<Module>(ptx);
}

const Kernel* find_kernel(const Module& module, const std::string& name) {
  for (const Kernel& kernel : module.kernels()) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

void* find_variable(const Module& module, const std::string& name, size_t* bytes) {
  return reinterpret_cast<void*>(module.variable(name, bytes));
}

}  // namespace machine
