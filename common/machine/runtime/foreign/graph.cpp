// Graphs that other people's programs build node by node, copy and change.
#include "common/machine/runtime/graph.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "common/machine/runtime/launch.h"
#include "common/machine/runtime/memory_api.h"
#include "common/machine/runtime/status.h"

namespace machine::runtime {
namespace {

Node* node_of(cudaGraphNode_t handle) {
  require(handle != nullptr);
  return reinterpret_cast<Node*>(handle);
}

// Where a node is put: the graph, and the nodes that it depends on.
struct Target {
  cudaGraph_t graph;
  const cudaGraphNode_t* after;
  size_t count;
};

void add_node(cudaGraphNode_t* handle, const Target& target, cudaGraphNodeType type, Work work,
              std::shared_ptr<const KernelNode> kernel = nullptr, void* memory = nullptr) {
  require(handle != nullptr && target.graph != nullptr);
  Node* const made = graph_of(target.graph)->add(type, std::move(work), std::move(kernel), memory);
  for (size_t i = 0; i < target.count; ++i) made->after.push_back(node_of(target.after[i]));
  *handle = reinterpret_cast<cudaGraphNode_t>(made);
}

// Attributes of the launch before, as its cluster, stay.
std::shared_ptr<const KernelNode> kernel_node(const cudaKernelNodeParams& params,
                                              const KernelNode* before = nullptr) {
  LaunchRequest request = before == nullptr ? LaunchRequest{} : before->request;
  request.grid = to_dim3(params.gridDim);
  request.block = to_dim3(params.blockDim);
  request.dynamic_smem_bytes = params.sharedMemBytes;
  if (params.kernelParams == nullptr) {
    refuse(cudaErrorNotSupported, "kernel nodes take their parameters from kernelParams.");
  }
  return make_node(find_function(params.func), request, params.kernelParams);
}

dim3 from_dim3(const machine::Dim3& size) {
  return {size.x, size.y, size.z};
}

// Graphs with memory of their own are not copied, nested or cut, by CUDA's rules.
void require_no_memory(const char* call, const Graph& graph) {
  for (const auto& node : graph.nodes) {
    if (node->memory == nullptr) continue;
    refuse(cudaErrorNotSupported, "%s of a graph whose nodes allocate or free memory.", call);
  }
}

// Adds edges that are not there, or removes edges that are.
void change_edges(const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count, bool add) {
  for (size_t i = 0; i < count; ++i) {
    auto& after = node_of(to[i])->after;
    const auto found = std::find(after.begin(), after.end(), node_of(from[i]));
    require((found == after.end()) == add);
    add ? after.push_back(node_of(from[i])) : void(after.erase(found));
  }
}

std::string label(const Node& node) {
  static const char* const TYPES[] = {
      "kernel",       "copy",   "fill",      "host function", "graph", "empty",        "event wait",
      "event record", "signal", "semaphore", "allocation",    "free",  "write or wait"};
  if (node.kernel != nullptr) return node.kernel->function->name;
  return static_cast<size_t>(node.type) < std::size(TYPES) ? TYPES[node.type] : "node";
}

}  // namespace
}  // namespace machine::runtime

using namespace machine::runtime;

#if CUDART_VERSION >= 13000
#define EDGE_DATA(CONST) [[maybe_unused]] CONST cudaGraphEdgeData *edge_data,
#else
#define EDGE_DATA(CONST)
#endif

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  *graph = reinterpret_cast<cudaGraph_t>(new Graph);
  return cudaSuccess;
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  return attempt([&] {
    require_no_memory("cudaGraphClone", *graph_of(original));
    const auto copy = new Graph;
    std::map<const Node*, Node*> copies;
    for (const auto& node : graph_of(original)->nodes) {
      copies[node.get()] = copy->add(node->type, node->work, node->kernel);
    }
    for (size_t i = 0; i < copy->nodes.size(); ++i) {
      for (const Node* before : graph_of(original)->nodes[i]->after) {
        copy->nodes[i]->after.push_back(copies[before]);
      }
    }
    *clone = reinterpret_cast<cudaGraph_t>(copy);
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = reinterpret_cast<Node*>(node)->type;
  return cudaSuccess;
}

// ---- nodes --------------------------------------------------------------------------------------
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                  const cudaGraphNode_t* after, size_t count) {
  return attempt([&] { add_node(node, {graph, after, count}, cudaGraphNodeTypeEmpty, [] {}); });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, size_t count,
                                   const cudaKernelNodeParams* params) {
  return on_device([&] {
    const auto kernel = kernel_node(*params);
    add_node(node, {graph, after, count}, cudaGraphNodeTypeKernel, make_work(*kernel), kernel);
  });
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                 const cudaGraphNode_t* after, size_t count,
                                 const cudaHostNodeParams* params) {
  return attempt([&] {
    add_node(node, {graph, after, count}, cudaGraphNodeTypeHost,
             [params = *params] { params.fn(params.userData); });
  });
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                     const cudaGraphNode_t* after, size_t count, void* dst,
                                     const void* src, size_t bytes, cudaMemcpyKind kind) {
  return on_device([&] {
    const Rows rows = line(dst, src, bytes);
    check_copy("cudaGraphAddMemcpyNode1D", rows, kind);
    add_node(node, {graph, after, count}, cudaGraphNodeTypeMemcpy, [rows] { copy_rows(rows); });
  });
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, size_t count,
                                   const cudaMemcpy3DParms* params) {
  return on_device([&] {
    add_node(node, {graph, after, count}, cudaGraphNodeTypeMemcpy,
             [slices = slices_of("cudaGraphAddMemcpyNode", *params)] {
               for (const Rows& slice : slices) copy_rows(slice);
             });
  });
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, size_t count,
                                   const cudaMemsetParams* params) {
  return on_device([&] {
    const Fill fill{params->dst,         params->pitch, params->value,
                    params->elementSize, params->width, params->height};
    check_fill("cudaGraphAddMemsetNode", fill);
    add_node(node, {graph, after, count}, cudaGraphNodeTypeMemset, [fill] { fill_rows(fill); });
  });
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                     const cudaGraphNode_t* after, size_t count,
                                     cudaMemAllocNodeParams* params) {
  return on_device([&] {
    constexpr const char* CALL = "cudaGraphAddMemAllocNode";
    require(params != nullptr);
    void* const base = params->dptr = allocate_device(CALL, params->bytesize);
    add_node(node, {graph, after, count}, cudaGraphNodeTypeMemAlloc, allocating(CALL, base),
             nullptr, base);
  });
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                    const cudaGraphNode_t* after, size_t count, void* base) {
  return on_device([&] {
    add_node(node, {graph, after, count}, cudaGraphNodeTypeMemFree,
             freeing("cudaGraphAddMemFreeNode", base), nullptr, base);
  });
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                       const cudaGraphNode_t* after, size_t count,
                                       cudaGraph_t child) {
  return attempt([&] {
    require(child != nullptr);
    require_no_memory("cudaGraphAddChildGraphNode", *graph_of(child));
    add_node(node, {graph, after, count}, cudaGraphNodeTypeGraph,
             [steps = steps_of(*graph_of(child))] { run_steps(steps); });
  });
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, EDGE_DATA(const) size_t count) {
  return attempt([&] { change_edges(from, to, count, /*add=*/true); });
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, EDGE_DATA(const) size_t count) {
  return attempt([&] {
    require(graph != nullptr);
    require_no_memory("cudaGraphRemoveDependencies", *graph_of(graph));
    change_edges(from, to, count, /*add=*/false);
  });
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t handle) {
  return attempt([&] {
    const Node* const gone = node_of(handle);
    require_no_memory("cudaGraphDestroyNode", *gone->graph);
    auto& nodes = gone->graph->nodes;
    for (const auto& node : nodes) std::erase(node->after, gone);
    std::erase_if(nodes, [gone](const auto& node) { return node.get() == gone; });
  });
}

// ---- questions ----------------------------------------------------------------------------------

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return attempt([&] {
    require(graph != nullptr);
    std::vector<Node*> roots;
    for (const auto& node : graph_of(graph)->nodes) {
      if (node->after.empty()) roots.push_back(node.get());
    }
    give_nodes(roots, nodes, count);
  });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              EDGE_DATA() size_t* count) {
  return attempt([&] {
    require(graph != nullptr && count != nullptr && (from == nullptr) == (to == nullptr));
    std::vector<Node*> begins, ends;
    for (const auto& node : graph_of(graph)->nodes) {
      for (Node* before : node->after) {
        begins.push_back(before);
        ends.push_back(node.get());
      }
    }
    size_t room = *count;
    give_nodes(begins, from, &room);
    give_nodes(ends, to, count);
#if CUDART_VERSION >= 13000
    if (from != nullptr && edge_data != nullptr)
      std::fill_n(edge_data, *count, cudaGraphEdgeData{});
#endif
  });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                         EDGE_DATA() size_t* count) {
  return attempt([&] { give_nodes(node_of(node)->after, nodes, count); });
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                           EDGE_DATA() size_t* count) {
  return attempt([&] {
    std::vector<Node*> behind;
    for (const auto& other : node_of(node)->graph->nodes) {
      const auto& after = other->after;
      if (std::count(after.begin(), after.end(), node_of(node)) != 0) behind.push_back(other.get());
    }
    give_nodes(behind, nodes, count);
  });
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  return attempt([&] {
    require(graph != nullptr && path != nullptr);
    std::ofstream file(path);
    file << "digraph graph_1 {\n";
    for (const auto& node : graph_of(graph)->nodes) {
      file << "\"" << node.get() << "\" [label=\"" << label(*node) << "\"];\n";
      for (const Node* before : node->after) {
        file << "\"" << before << "\" -> \"" << node.get() << "\";\n";
      }
    }
    file << "}\n";
    require(file.flush().good(), cudaErrorOperatingSystem);
  });
}

// ---- kernel nodes -------------------------------------------------------------------------------

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* params) {
  return attempt([&] {
    const KernelNode* const kernel = node_of(node)->kernel.get();
    require(kernel != nullptr && params != nullptr);
    const void* const stub = kernel->function->host_function;
    *params = {};
    params->func = const_cast<void*>(stub != nullptr ? stub : kernel->function);
    params->gridDim = from_dim3(kernel->request.grid);
    params->blockDim = from_dim3(kernel->request.block);
    params->sharedMemBytes = static_cast<unsigned>(kernel->request.dynamic_smem_bytes);
    params->kernelParams = const_cast<void**>(kernel->arguments.data());
  });
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  return on_device([&] {
    Node* const changed = node_of(node);
    require(changed->kernel != nullptr);
    const auto kernel = kernel_node(*params, changed->kernel.get());
    changed->work = make_work(*kernel);
    changed->kernel = kernel;
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
    for (Step& step : exec_of(exec)->steps) {
      if (step.node != node_of(node)) continue;
      step.kernel = kernel_node(*params, step.kernel.get());
      step.work = make_work(*step.kernel);
      return;
    }
    fail(cudaErrorInvalidValue);
  });
}

}  // extern "C"
