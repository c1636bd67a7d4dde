// What a runtime asks of the machine: load PTX, look into it, launch a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/machine/run/error.h"

namespace machine {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
  bool operator==(const Dim3&) const = default;
};

struct Param {
  uint32_t offset, size;  // bytes, in the parameter block
};

// One .entry of a module.
struct Kernel {
  std::string name;  // mangled
  std::vector<Param> params;
  uint32_t param_bytes = 0;
  uint32_t static_smem_bytes = 0;
  uint32_t local_bytes = 0;       // a thread
  uint32_t registers = 0;         // a thread; an estimate: ptxas decides on a GPU
  bool limits_registers = false;  // .minnctapersm or .maxnreg: setmaxnreg has an effect
  uint32_t max_threads = 1024;    // of .maxntid or .reqntid
  Dim3 required_block{0, 0, 0};   // .reqntid; 0: none
  bool explicit_cluster = false;
  Dim3 required_cluster{0, 0, 0};    // .reqnctapercluster; 0: none
  bool blocks_are_clusters = false;  // a launch gives the grid in clusters, and no block
};

class Footprint;

struct LaunchConfig {
  Dim3 grid, block, cluster;
  size_t dynamic_smem_bytes = 0;
  bool cooperative = false;
  bool explicit_cluster = false;  // the launch gave the cluster, if only of one CTA
  bool programmatic = false;      // may begin before the grid before it has ended
  uint32_t registers = 0;         // a thread, as ptxas decided; 0: Kernel::registers
  bool lets_next = false;         // a programmatic one behind it may begin before it has ended
  // Of a programmatic one: what may still run when it begins; null: it is not known.
  std::shared_ptr<const Footprint> before = {};
  // What the grid accesses is added here, if it is given and checked.
  Footprint* accesses = nullptr;
};

class Module;  // parsed and decoded PTX, with its variables

// Throws Error (refused) for what is not PTX, or not supported.
std::shared_ptr<Module> load_module(std::string_view ptx);
// nullptr if there is none of this name.
const Kernel* find_kernel(const Module& module, const std::string& name);
// A .global or .const variable, allocated and initialised; nullptr if there is none.
void* find_variable(const Module& module, const std::string& name, size_t* bytes);

// Runs the grid to its end. `param_block` has kernel.param_bytes bytes. Throws Error. Returns what may
// still run when a programmatic launch behind it begins; null if that is not known.
std::shared_ptr<const Footprint> launch(const Module& module, const Kernel& kernel,
                                        const LaunchConfig& config, const void* param_block);

}  // namespace machine
