// Graphs as their handles mean them.
#pragma once

#include <utility>

#include "common/machine/runtime/stream.h"

namespace machine::runtime {

struct GraphExec {
  std::vector<std::pair<const Node*, Work>> steps;
};

inline Graph* graph_of(cudaGraph_t handle) {
  return reinterpret_cast<Graph*>(handle);
}
inline GraphExec* exec_of(cudaGraphExec_t handle) {
  return reinterpret_cast<GraphExec*>(handle);
}
std::vector<std::pair<const Node*, Work>> steps_of(const Graph& graph);

}  // namespace machine::runtime
