// Graphs as their handles mean them.
#pragma once

#include "common/machine/runtime/stream.h"

namespace machine::runtime {

struct Step : Content {
  const Node* node;  // which it is made of; it may be gone
  bool enabled = true;
};

struct GraphExec {
  std::vector<Step> steps;
  unsigned long long flags = 0;
  std::shared_ptr<void> instance = nullptr;  // of a graph that may have one at a time
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
// Whether nodes allocate or free memory.
bool has_memory(const Graph& graph);
void run_steps(const std::vector<Step>& steps);

}  // namespace machine::runtime
