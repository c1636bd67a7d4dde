// Graphs as their handles mean them.
#pragma once

#include "common/machine/runtime/stream.h"

namespace machine::runtime {

struct Step {
  const Node* node;  // which it is made of; it may be gone
  Work work;
  std::shared_ptr<const KernelNode> kernel;
};

struct GraphExec {
  std::vector<Step> steps;
};

inline Graph* graph_of(cudaGraph_t handle) {
  return reinterpret_cast<Graph*>(handle);
}
inline GraphExec* exec_of(cudaGraphExec_t handle) {
  return reinterpret_cast<GraphExec*>(handle);
}
std::vector<Step> steps_of(const Graph& graph);
void run_steps(const std::vector<Step>& steps);

}  // namespace machine::runtime
