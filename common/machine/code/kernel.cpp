// What a launch must know of a kernel before it is decoded: parameters, memory, registers, limits.
#include <algorithm>

#include "common/machine/code/calls.h"
#include "common/machine/code/isa.h"
#include "common/machine/code/rows.h"
#include "common/machine/code/shared_layout.h"
#include "common/machine/run/sm.h"

namespace machine {
uint64_t function_address(const Ptx& ptx, const std::string& name) {
  const Function* const function = find_function(ptx, name);
  if (function == nullptr) return 0;
  return FUNCTION_WINDOW | (static_cast<uint64_t>(function - ptx.functions.data()) + 1);
}

// "4, 1" in a directive: those that are not given are 1.
static Dim3 sizes(std::vector<uint32_t> given) {
  given.resize(3, 1);
  return {given[0], given[1], given[2]};
}

Kernel describe_kernel(const Ptx& ptx, const Function& entry) {
  Kernel kernel;
  kernel.name = entry.name;
  for (const Variable& param : entry.params) {
    kernel.param_bytes = align_up(kernel.param_bytes, param.align);
    kernel.params.push_back({kernel.param_bytes, static_cast<uint32_t>(param.bytes)});
    kernel.param_bytes += static_cast<uint32_t>(param.bytes);
  }
  kernel.static_smem_bytes = lay_out_shared(ptx, reachable(ptx, entry)).static_bytes;
  for (const Variable& variable : entry.variables) {
    if (variable.space == Space::local) {
      kernel.local_bytes += static_cast<uint32_t>(variable.bytes);
    }
  }
  if (entry.max_threads > 0) kernel.max_threads = std::min(entry.max_threads, 1024u);
  // Without a number of threads ptxas ignores a minimum of CTAs.
  const uint32_t min_ctas = entry.max_threads > 0 ? entry.min_ctas : 0;
  const uint32_t threads = kernel.max_threads * std::max(min_ctas, 1u);
  kernel.registers = std::min(255u, SM_REGISTERS / std::max(threads, 1u) / 8 * 8);
  if (entry.max_registers > 0 &&
      (entry.max_threads == 0 || entry.max_registers < kernel.registers)) {
    kernel.registers = entry.max_registers;
  }
  // Else ptxas ignores setmaxnreg, and says so (C7508).
  kernel.limits_registers = min_ctas > 0 || entry.max_registers > 0;
  kernel.explicit_cluster = entry.explicit_cluster || !entry.required_cluster.empty();
  if (!entry.required_cluster.empty()) kernel.required_cluster = sizes(entry.required_cluster);
  if (!entry.required_block.empty()) kernel.required_block = sizes(entry.required_block);
  kernel.blocks_are_clusters = entry.blocks_are_clusters;
  return kernel;
}

}  // namespace machine
