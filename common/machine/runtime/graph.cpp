// Graphs: lists of work that are replayed in the order in which they were captured or added, but for
// nodes that got dependencies later. It knows nothing of what the nodes do.
#include "common/machine/runtime/graph.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/machine/run/allocations.h"

namespace machine::runtime {

static size_t add_step(const Node* node, std::map<const Node*, size_t>* there,
                       std::vector<Step>* steps) {
  const auto found = there->find(node);
  if (found != there->end()) return found->second;
  std::vector<size_t> after;
  for (const Node* before : node->after) after.push_back(add_step(before, there, steps));
  steps->push_back({*node, node, std::move(after)});
  return (*there)[node] = steps->size() - 1;
}

std::vector<Step> steps_of(const Graph& graph) {
  std::map<const Node*, size_t> there;
  std::vector<Step> steps;
  for (const auto& node : graph.nodes) add_step(node.get(), &there, &steps);
  return steps;
}

bool has_memory(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const auto& node) { return node->memory != nullptr; });
}

extern "C" {

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph_of(graph);
  return cudaSuccess;
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
    *exec = reinterpret_cast<cudaGraphExec_t>(
        new GraphExec{steps_of(from), flags, instance, from.objects});
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return on_device([&] {
    require(exec != nullptr);
    const auto launch = [steps = exec_of(exec)->steps, flags = exec_of(exec)->flags,
                         last = exec_of(exec)->last] {
      const bool auto_free = (flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) != 0;
      for (const Step& step : steps) {
        const bool allocates = step.type == cudaGraphNodeTypeMemAlloc;
        if (auto_free && allocates) machine::release(step.memory);
      }
      *last = run(steps, *last);
    };
    submit(stream, {cudaGraphNodeTypeGraph, launch});
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec_of(exec);
  return cudaSuccess;
}

}  // extern "C"
}  // namespace machine::runtime
