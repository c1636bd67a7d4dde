// Graphs that other people's programs build node by node, copy and change.
#include "common/machine/runtime/graph.h"

#include <cuda_runtime_api.h>

#include "common/machine/runtime/launch.h"
#include "common/machine/runtime/memory_api.h"
#include "common/machine/runtime/status.h"

namespace machine::runtime {
namespace {

void add_node(cudaGraphNode_t* handle, cudaGraph_t graph, cudaGraphNodeType type, Work work) {
  require(handle != nullptr && graph != nullptr);
  *handle = reinterpret_cast<cudaGraphNode_t>(graph_of(graph)->add(type, std::move(work)));
}

Work kernel_work(const cudaKernelNodeParams& params) {
  const LaunchRequest request{to_dim3(params.gridDim), to_dim3(params.blockDim), NO_CLUSTER,
                              params.sharedMemBytes};
  if (params.kernelParams == nullptr) {
    refuse(cudaErrorNotSupported, "kernel nodes take their parameters from kernelParams.");
  }
  return make_work(find_function(params.func), request, params.kernelParams);
}

}  // namespace
}  // namespace machine::runtime

using namespace machine::runtime;

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  *graph = reinterpret_cast<cudaGraph_t>(new Graph);
  return cudaSuccess;
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  const auto copy = new Graph;
  for (const auto& node : graph_of(original)->nodes) copy->add(node->type, node->work);
  *clone = reinterpret_cast<cudaGraph_t>(copy);
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
  return attempt([&] { add_node(node, graph, cudaGraphNodeTypeEmpty, [] {}); });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                   size_t, const cudaKernelNodeParams* params) {
  return on_device([&] { add_node(node, graph, cudaGraphNodeTypeKernel, kernel_work(*params)); });
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                 size_t, const cudaHostNodeParams* params) {
  return attempt([&] {
    add_node(node, graph, cudaGraphNodeTypeHost,
             [params = *params] { params.fn(params.userData); });
  });
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                     const cudaGraphNode_t*, size_t, void* dst, const void* src,
                                     size_t bytes, cudaMemcpyKind kind) {
  return on_device([&] {
    const Rows rows = line(dst, src, bytes);
    check_copy("cudaGraphAddMemcpyNode1D", rows, kind);
    add_node(node, graph, cudaGraphNodeTypeMemcpy, [rows] { copy_rows(rows); });
  });
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                   size_t, const cudaMemcpy3DParms* params) {
  return on_device([&] {
    add_node(node, graph, cudaGraphNodeTypeMemcpy,
             [slices = slices_of("cudaGraphAddMemcpyNode", *params)] {
               for (const Rows& slice : slices) copy_rows(slice);
             });
  });
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                   size_t, const cudaMemsetParams* params) {
  return on_device([&] {
    const Fill fill{params->dst,         params->pitch, params->value,
                    params->elementSize, params->width, params->height};
    check_fill("cudaGraphAddMemsetNode", fill);
    add_node(node, graph, cudaGraphNodeTypeMemset, [fill] { fill_rows(fill); });
  });
}

// ---- execution ----------------------------------------------------------------------------------

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
      if (of != reinterpret_cast<const Node*>(node)) continue;
      work = kernel_work(*params);
      return;
    }
    fail(cudaErrorInvalidValue);
  });
}

}  // extern "C"
