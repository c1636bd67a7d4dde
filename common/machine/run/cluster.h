// How a cluster begins: its CTAs and warps, their registers and memory.
#pragma once

#include <memory>
#include <vector>

#include "common/machine/run/state.h"

namespace machine {

class GlobalShadow;

// %ctaid of the CTA of this rank in cluster `id`.
Dim3 cta_at(const Grid& grid, uint64_t id, uint32_t rank);

// Rows, local and shared memory of a cluster; reused by the next one of the same launch.
std::unique_ptr<Cluster> make_cluster(Grid& grid, uint64_t id, std::vector<std::byte> memory,
                                      const std::shared_ptr<GlobalShadow>& shadow);

}  // namespace machine
