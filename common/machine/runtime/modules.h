// The device code of the process: registered fat binaries and loaded libraries, with their kernels
// and variables. Thread-safe. Nothing is parsed before it is used.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/machine/launch.h"
#include "common/machine/runtime/fatbin.h"

namespace machine::runtime {

class Binary;

// A kernel's code, ready to run.
struct Code {
  std::shared_ptr<Module> module;
  const Kernel* kernel = nullptr;
  KernelResources resources;     // of the cubin, else the machine's estimate
  bool exact_registers = false;  // of the cubin
};

// What a cudaKernel_t, a cudaFunction_t, a CUfunction and a CUkernel point to.
struct Function {
  Binary* binary = nullptr;
  std::string name;                     // mangled
  const void* host_function = nullptr;  // the address of its stub, if it has one

  // Set by cudaFuncSetAttribute.
  int max_dynamic_smem_bytes = -1;  // -1: 48 KiB less what is static
  int smem_carveout = -1;
  bool non_portable_cluster = false;
  bool cluster_must_be_set = false;
  bool is_refused = false;         // why has been printed
  Dim3 required_cluster{0, 0, 0};  // 0: not set

  // Loads the module on the first call. nullptr if there is no such kernel, or none that can run;
  // why has then been printed, once a binary.
  const Code* code();

 private:
  Code code_;
};

// Registers a fat binary, which is read when it is first needed.
Binary* add_binary(const void* code);
// Reads device code at once, since it may go away; nullptr if it cannot run, which is printed.
Binary* load_library(const void* code);
// Forgets what was registered under host addresses; handles stay good until the process ends.
void remove_binary(Binary* binary);

void add_function(Binary* binary, const void* host_function, const char* name);
void add_variable(Binary* binary, const void* host_variable, const char* name);
// `*host_pointer` will point to the variable from resolve_managed() on.
void add_managed(Binary* binary, void** host_pointer, const char* name);
void resolve_managed(Binary* binary);

// By the address of the host function or by a handle; nullptr if it is neither.
Function* find_function(const void* function);
// nullptr if the binary has no such kernel.
Function* find_function(Binary* binary, const std::string& name);
std::vector<Function*> all_functions(Binary* binary);
bool is_binary(const void* binary);

// By the address of the host variable. nullptr if it is none.
void* find_variable(const void* host_variable, size_t* bytes);
void* find_variable(Binary* binary, const std::string& name, size_t* bytes);

}  // namespace machine::runtime
