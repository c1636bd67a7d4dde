// Graphs as their handles mean them.
#pragma once

#include "common/machine/runtime/stream.h"

namespace machine::runtime {

struct Step {
  const Node* node;  // which it is made of; it may be gone
  Work work;
  std::shared_ptr<const KernelNode> kernel;
  void* allocates;  // or nullptr
};

struct GraphExec {
  std::vector<Step> steps;
  bool auto_free = false;  // each launch frees first what the one before has left
};

inline Graph* graph_of(cudaGraph_t handle) {
  return reinterpret_cast<Graph*>(handle);
}
inline GraphExec* exec_of(cudaGraphExec_t handle) {
  return reinterpret_cast<GraphExec*>(handle);
}
// How lists of nodes are given: as many as `nodes` has room for, then null; without it, their number.
void give_nodes(const std::vector<Node*>& found, cudaGraphNode_t* nodes, size_t* count);
std::vector<Step> steps_of(const Graph& graph);
void run_steps(const std::vector<Step>& steps);

}  // namespace machine::runtime
