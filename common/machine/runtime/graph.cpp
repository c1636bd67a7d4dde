// Graphs: lists of work that are replayed in the order in which they were captured or added.
#include "common/machine/runtime/graph.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "common/machine/runtime/status.h"

namespace machine::runtime {

std::vector<std::pair<const Node*, Work>> steps_of(const Graph& graph) {
  std::vector<std::pair<const Node*, Work>> steps;
  for (const auto& node : graph.nodes) steps.emplace_back(node.get(), node->work);
  return steps;
}

}  // namespace machine::runtime

using namespace machine::runtime;

extern "C" {

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph_of(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  const auto& all = graph_of(graph)->nodes;
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i) {
      nodes[i] = i < all.size() ? reinterpret_cast<cudaGraphNode_t>(all[i].get()) : nullptr;
    }
  }
  *count = nodes == nullptr ? all.size() : std::min(*count, all.size());
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return on_device([&] {
    require(exec != nullptr && graph != nullptr);
    *exec = reinterpret_cast<cudaGraphExec_t>(new GraphExec{steps_of(*graph_of(graph))});
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return on_device([&] {
    require(exec != nullptr);
    submit(stream, cudaGraphNodeTypeGraph, [steps = exec_of(exec)->steps] {
      for (const auto& [node, work] : steps) work();
    });
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec_of(exec);
  return cudaSuccess;
}

}  // extern "C"
