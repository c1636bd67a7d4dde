// Graphs: lists of work that are replayed in the order in which they were captured or added, but for
// nodes that got dependencies later.
#include "common/machine/runtime/graph.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <set>

#include "common/machine/runtime/status.h"

namespace machine::runtime {

namespace {

void add_step(const Node* node, std::set<const Node*>* there, std::vector<Step>* steps) {
  if (!there->insert(node).second) return;
  for (const Node* before : node->after) add_step(before, there, steps);
  steps->push_back({node, node->work, node->kernel});
}

}  // namespace

std::vector<Step> steps_of(const Graph& graph) {
  std::set<const Node*> there;
  std::vector<Step> steps;
  for (const auto& node : graph.nodes) add_step(node.get(), &there, &steps);
  return steps;
}

void run_steps(const std::vector<Step>& steps) {
  for (const Step& step : steps) step.work();
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
    submit(stream, cudaGraphNodeTypeGraph, [steps = exec_of(exec)->steps] { run_steps(steps); });
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec_of(exec);
  return cudaSuccess;
}

}  // extern "C"
