// Graphs that can be launched: what they are made of.
#pragma once

#include <memory>
#include <vector>

#include "common/machine/runtime/stream.h"

namespace machine::runtime {

struct GraphExec {
  std::vector<Step> steps;
  unsigned long long flags = 0;
  std::shared_ptr<void> instance = nullptr;         // of a graph that may have one at a time
  std::vector<std::shared_ptr<void>> objects = {};  // user objects that it keeps
  // What a launch is behind, whatever its stream: the launch before.
  std::shared_ptr<Pieces> last = std::make_shared<Pieces>(0);
};

inline Graph* graph_of(cudaGraph_t handle) {
  return reinterpret_cast<Graph*>(handle);
}
inline GraphExec* exec_of(cudaGraphExec_t handle) {
  return reinterpret_cast<GraphExec*>(handle);
}

std::vector<Step> steps_of(const Graph& graph);
// Whether nodes allocate or free memory.
bool has_memory(const Graph& graph);

}  // namespace machine::runtime
