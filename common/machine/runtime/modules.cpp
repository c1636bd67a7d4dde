// The device code of the process. It knows nothing of launches.
#include "common/machine/runtime/modules.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>

#include "common/machine/run/module.h"
#include "common/machine/runtime/status.h"

namespace machine::runtime {

class Binary {
 public:
  explicit Binary(const void* code) : code_(code) {}

  // nullptr if it has no PTX that can run; why has then been printed.
  const std::shared_ptr<Module>& module(const std::string& wanted_by) {
    if (is_read_) return module_;
    is_read_ = true;
    image_ = read_image(code_);
    if (!image_.problem.empty()) {
      show_refused(wanted_by, image_.problem);
      return module_;
    }
    try {
      module_ = load_module(image_.ptx);
    } catch (const Error& error) {
      show_refusal(error);
    }
    return module_;
  }

  const KernelResources* resources(const std::string& kernel) const {
    const auto found = image_.resources.find(kernel);
    return found == image_.resources.end() ? nullptr : &found->second;
  }

  // Of a kernel that is not in the module: says why, if that is known.
  void show_why_missing(const std::string& kernel) const {
    const std::string why = why_left_out(image_, kernel);
    if (!why.empty()) show_refused("kernel " + source_name(kernel), why);
  }

  std::map<std::string, std::unique_ptr<Function>> functions;  // by name
  std::map<void**, std::string> managed;                       // host pointers still to be filled

 private:
  static void show_refused(const std::string& what, const std::string& problem) {
    show_refusal(
        Error(Error::Kind::refused, "PTX machine: " + what + " cannot run: " + problem + "."));
  }

  const void* code_;
  bool is_read_ = false;
  Image image_;
  std::shared_ptr<Module> module_;
};

namespace {

struct Variable {
  Binary* binary;
  std::string name;
};

// Nothing in it is ever destroyed: programs launch from static destructors too.
struct Registry {
  std::recursive_mutex mutex;
  std::set<const void*> binaries;
  std::set<const void*> handles;                      // every Function
  std::map<const void*, Function*> by_host_function;  // by the address of the stub
  std::map<const void*, Variable> by_host_variable;
};

Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

using Lock = std::lock_guard<std::recursive_mutex>;

// The module of the file that REPLACE_PTX names; nullptr without one.
const std::shared_ptr<Module>& replacement() {
  static const std::shared_ptr<Module>* const module = [] {
    const char* const path = std::getenv("REPLACE_PTX");
    if (path == nullptr || *path == '\0') return new std::shared_ptr<Module>;
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      throw Error(Error::Kind::refused,
                  std::string("PTX machine: REPLACE_PTX is '") + path + "', which cannot be read.");
    }
    return new std::shared_ptr<Module>(
        load_module(std::string{std::istreambuf_iterator<char>(file), {}}));
  }();
  return *module;
}

Function* function_of(Binary* binary, const std::string& name) {
  std::unique_ptr<Function>& function = binary->functions[name];
  if (function == nullptr) {
    function = std::make_unique<Function>();
    function->binary = binary;
    function->name = name;
    registry().handles.insert(function.get());
  }
  return function.get();
}

}  // namespace

const Code* Function::code() {
  const Lock lock(registry().mutex);
  if (code_.kernel != nullptr) return &code_;
  const Kernel* const replaced =
      replacement() == nullptr ? nullptr : find_kernel(*replacement(), name);
  code_.module =
      replaced != nullptr ? replacement() : binary->module("kernel " + source_name(name));
  if (code_.module == nullptr) return nullptr;
  code_.kernel = replaced != nullptr ? replaced : find_kernel(*code_.module, name);
  if (code_.kernel == nullptr) {
    if (!is_refused) binary->show_why_missing(name);
    is_refused = true;
    return nullptr;
  }
  const KernelResources* const exact = replaced != nullptr ? nullptr : binary->resources(name);
  code_.exact_registers = exact != nullptr;
  code_.resources = {static_cast<int>(code_.kernel->registers),
                     static_cast<int>(code_.kernel->local_bytes)};
  if (exact != nullptr) code_.resources = *exact;
  return &code_;
}

Binary* add_binary(const void* code) {
  const Lock lock(registry().mutex);
  Binary* const binary = new Binary(code);
  registry().binaries.insert(binary);
  return binary;
}

Binary* load_library(const void* code) {
  const Lock lock(registry().mutex);
  Binary* const binary = add_binary(code);
  return binary->module("the library that is loaded") == nullptr ? nullptr : binary;
}

void remove_binary(Binary* binary) {
  const Lock lock(registry().mutex);
  std::erase_if(registry().by_host_function,
                [binary](const auto& entry) { return entry.second->binary == binary; });
  std::erase_if(registry().by_host_variable,
                [binary](const auto& entry) { return entry.second.binary == binary; });
  registry().binaries.erase(binary);
}

void add_function(Binary* binary, const void* host_function, const char* name) {
  const Lock lock(registry().mutex);
  Function* const function = function_of(binary, name);
  function->host_function = host_function;
  registry().by_host_function[host_function] = function;
}

void add_variable(Binary* binary, const void* host_variable, const char* name) {
  const Lock lock(registry().mutex);
  registry().by_host_variable[host_variable] = {binary, name};
}

void add_managed(Binary* binary, void** host_pointer, const char* name) {
  const Lock lock(registry().mutex);
  binary->managed[host_pointer] = name;
}

void resolve_managed(Binary* binary) {
  const Lock lock(registry().mutex);
  for (const auto& [host_pointer, name] : binary->managed) {
    size_t bytes = 0;
    *host_pointer = find_variable(binary, name, &bytes);
    registry().by_host_variable[*host_pointer] = {binary, name};  // where it is stands for it
  }
  binary->managed.clear();
}

Function* find_function(const void* function) {
  const Lock lock(registry().mutex);
  const auto found = registry().by_host_function.find(function);
  if (found != registry().by_host_function.end()) return found->second;
  if (!registry().handles.contains(function)) return nullptr;
  return static_cast<Function*>(const_cast<void*>(function));
}

Function* find_function(Binary* binary, const std::string& name) {
  const Lock lock(registry().mutex);
  const auto& module = binary->module("kernel " + source_name(name));
  if (module == nullptr || find_kernel(*module, name) == nullptr) return nullptr;
  return function_of(binary, name);
}

std::vector<Function*> all_functions(Binary* binary) {
  const Lock lock(registry().mutex);
  const auto& module = binary->module("a kernel of a library");
  std::vector<Function*> functions;
  if (module == nullptr) return functions;
  for (const Kernel& kernel : module->kernels()) {
    functions.push_back(function_of(binary, kernel.name));
  }
  return functions;
}

bool is_binary(const void* binary) {
  const Lock lock(registry().mutex);
  return registry().binaries.contains(binary);
}

void* find_variable(const void* host_variable, size_t* bytes) {
  const Lock lock(registry().mutex);
  const auto found = registry().by_host_variable.find(host_variable);
  if (found == registry().by_host_variable.end()) return nullptr;
  return find_variable(found->second.binary, found->second.name, bytes);
}

// A kernel that was replaced uses the variables of the file that replaced it.
void* find_variable(Binary* binary, const std::string& name, size_t* bytes) {
  const Lock lock(registry().mutex);
  if (replacement() != nullptr) {
    void* const replaced = find_variable(*replacement(), name, bytes);
    if (replaced != nullptr) return replaced;
  }
  const auto& module = binary->module("variable " + source_name(name));
  return module == nullptr ? nullptr : find_variable(*module, name, bytes);
}

}  // namespace machine::runtime
