// What nodes of graphs do that no launch, copy or fill does.
#pragma once

#include <driver_types.h>

#include "common/machine/runtime/stream.h"

namespace machine::runtime {

// A host function.
Content calling(const cudaHostNodeParams& params);
// Nodes that allocate and free a graph's memory. What is to be freed must be such memory.
Content allocating(const char* call, void* base);
Content freeing(const char* call, void* base);

}  // namespace machine::runtime
