// Graphs: lists of work that are replayed in the order in which they were captured or added, but for
// nodes that got dependencies later.
#include "common/machine/runtime/graph.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <set>

#include "common/machine/run/allocations.h"
#include "common/machine/runtime/status.h"

namespace machine::runtime {

namespace {

void add_step(const Node* node, std::set<const Node*>* there, std::vector<Step>* steps) {
  if (!there->insert(node).second) return;
  for (const Node* before : node->after) add_step(before, there, steps);
  steps->push_back({*node, node});
}

}  // namespace

std::vector<Step> steps_of(const Graph& graph) {
  std::set<const Node*> there;
  std::vector<Step> steps;
  for (const auto& node : graph.nodes) add_step(node.get(), &there, &steps);
  return steps;
}

void run_steps(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    if (step.enabled) step.work();
  }
}

bool has_memory(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const auto& node) { return node->memory != nullptr; });
}

void give_nodes(const std::vector<Node*>& found, cudaGraphNode_t* nodes, size_t* count) {
  require(count != nullptr);
  if (nodes == nullptr) return void(*count = found.size());
  for (size_t i = 0; i < *count; ++i) {
    nodes[i] = i < found.size() ? reinterpret_cast<cudaGraphNode_t>(found[i]) : nullptr;
  }
  *count = std::min(*count, found.size());
}

}  // namespace machine::runtime

using namespace machine::runtime;

extern "C" {

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph_of(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return attempt([&] {
    require(graph != nullptr);
    std::vector<Node*> all;
    for (const auto& node : graph_of(graph)->nodes) all.push_back(node.get());
    give_nodes(all, nodes, count);
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return on_device([&] {
    require(exec != nullptr && graph != nullptr);
    Graph& from = *graph_of(graph);
    std::shared_ptr<void> instance;
    if (has_memory(from)) {
      if (!from.instance.expired()) {
        refuse(cudaErrorNotSupported,
               "cudaGraphInstantiate of a graph whose nodes allocate or free memory, and which has "
               "an instance: cudaGraphExecDestroy that one first.");
      }
      from.instance = instance = std::make_shared<int>();
    }
    *exec = reinterpret_cast<cudaGraphExec_t>(new GraphExec{steps_of(from), flags, instance});
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return on_device([&] {
    require(exec != nullptr);
    const auto launch = [steps = exec_of(exec)->steps, flags = exec_of(exec)->flags] {
      const bool auto_free = (flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) != 0;
      for (const Step& step : steps) {
        const bool allocates = step.type == cudaGraphNodeTypeMemAlloc;
        if (auto_free && allocates) machine::release(step.memory);
      }
      run_steps(steps);
    };
    submit(stream, {cudaGraphNodeTypeGraph, launch});
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec_of(exec);
  return cudaSuccess;
}

}  // extern "C"
