// What a launch of a function may use, as cudaFuncSetAttribute and the device decide it.
#pragma once

#include <driver_types.h>

#include "common/machine/runtime/modules.h"

namespace machine::runtime {

// How many CTAs of a kernel fit on an SM at the same time.
int ctas_per_sm(const Code& code, int threads, size_t dynamic_smem_bytes);

// The largest dynamic shared memory that a launch of the function may ask for.
int max_dynamic_smem_bytes(const Function& function, const Code& code);

void set_function_attribute(Function& function, int attribute, int value);

// The code of what find_function() found, which may be nullptr.
const Code& code_of(Function* function);

}  // namespace machine::runtime
