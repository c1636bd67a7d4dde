// Graphs: lists of work that are replayed in the order in which they were captured or added.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "common/machine/runtime/launch.h"
#include "common/machine/runtime/memory_api.h"
#include "common/machine/runtime/status.h"
#include "common/machine/runtime/stream.h"

namespace machine::runtime {
namespace {

struct GraphExec {
  std::vector<std::pair<const Node*, Work>> steps;
};

Graph* graph_of(cudaGraph_t handle) {
  return reinterpret_cast<Graph*>(handle);
}

GraphExec* exec_of(cudaGraphExec_t handle) {
  return reinterpret_cast<GraphExec*>(handle);
}

std::vector<std::pair<const Node*, Work>> steps_of(const Graph& graph) {
  std::vector<std::pair<const Node*, Work>> steps;
  for (const auto& node : graph.nodes) steps.emplace_back(node.get(), node->work);
  return steps;
}

cudaError_t add_node(cudaGraphNode_t* handle, cudaGraph_t graph, cudaGraphNodeType type,
                     Work work) {
  if (handle == nullptr || graph == nullptr) return cudaErrorInvalidValue;
  *handle = reinterpret_cast<cudaGraphNode_t>(graph_of(graph)->add(type, std::move(work)));
  return cudaSuccess;
}

cudaError_t kernel_work(const cudaKernelNodeParams& params, Work* work) {
  LaunchRequest request{
      to_dim3(params.gridDim), to_dim3(params.blockDim), {0, 0, 0}, params.sharedMemBytes, false};
  if (params.kernelParams == nullptr) {
    return refuse(cudaErrorNotSupported, "kernel nodes take their parameters from kernelParams.");
  }
  return make_work(find_function(params.func), request, params.kernelParams, work);
}

}  // namespace
}  // namespace machine::runtime

using namespace machine::runtime;

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  *graph = reinterpret_cast<cudaGraph_t>(new Graph);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph_of(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  const auto copy = new Graph;
  for (const auto& node : graph_of(original)->nodes) copy->add(node->type, node->work);
  *clone = reinterpret_cast<cudaGraph_t>(copy);
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

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = reinterpret_cast<Node*>(node)->type;
  return cudaSuccess;
}

// ---- nodes --------------------------------------------------------------------------------------
// Dependencies are nodes that were added before, so that the order of addition keeps them.

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                  size_t) {
  return record(add_node(node, graph, cudaGraphNodeTypeEmpty, [] {}));
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                   size_t, const cudaKernelNodeParams* params) {
  return on_device([&] {
    Work work;
    const cudaError_t status = kernel_work(*params, &work);
    if (status != cudaSuccess) return status;
    return add_node(node, graph, cudaGraphNodeTypeKernel, std::move(work));
  });
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                 size_t, const cudaHostNodeParams* params) {
  return record(add_node(node, graph, cudaGraphNodeTypeHost,
                         [params = *params] { params.fn(params.userData); }));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                     const cudaGraphNode_t*, size_t, void* dst, const void* src,
                                     size_t bytes, cudaMemcpyKind kind) {
  return on_device([&] {
    const Rows rows{dst, bytes, src, bytes, bytes, 1};
    const cudaError_t status = check_copy("cudaGraphAddMemcpyNode1D", rows, kind);
    if (status != cudaSuccess) return status;
    return add_node(node, graph, cudaGraphNodeTypeMemcpy, [rows] { copy_rows(rows); });
  });
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                   size_t, const cudaMemsetParams* params) {
  return on_device([&] {
    const Fill fill{params->dst,         params->pitch, params->value,
                    params->elementSize, params->width, params->height};
    const cudaError_t status = check_fill("cudaGraphAddMemsetNode", fill);
    if (status != cudaSuccess) return status;
    return add_node(node, graph, cudaGraphNodeTypeMemset, [fill] { fill_rows(fill); });
  });
}

// ---- execution ----------------------------------------------------------------------------------

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return on_device([&] {
    if (exec == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    *exec = reinterpret_cast<cudaGraphExec_t>(new GraphExec{steps_of(*graph_of(graph))});
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* params) {
  params->result_out = cudaGraphInstantiateSuccess;
  params->errNode_out = nullptr;
  return cudaGraphInstantiate(exec, graph, params->flags);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return on_device([&] {
    if (exec == nullptr) return cudaErrorInvalidValue;
    return submit(stream, cudaGraphNodeTypeGraph, [steps = exec_of(exec)->steps] {
      for (const auto& [node, work] : steps) work();
    });
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec_of(exec);
  return cudaSuccess;
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result) {
  const bool fits = exec_of(exec)->steps.size() == graph_of(graph)->nodes.size();
  *result = {fits ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged, nullptr,
             nullptr};
  if (!fits) return record(cudaErrorGraphExecUpdateFailure);
  exec_of(exec)->steps = steps_of(*graph_of(graph));
  return cudaSuccess;
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  return on_device([&] {
    for (auto& [of, work] : exec_of(exec)->steps) {
      if (of == reinterpret_cast<const Node*>(node)) return kernel_work(*params, &work);
    }
    return cudaErrorInvalidValue;
  });
}

}  // extern "C"
