// Graphs that programs build node by node, copy, change, and ask about.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "common/machine/run/allocations.h"
#include "common/machine/runtime/foreign/nodes.h"
#include "common/machine/runtime/graph.h"
#include "common/machine/runtime/launch.h"
#include "common/machine/runtime/memory_api.h"

namespace machine::runtime {
namespace {

std::vector<Node*> nodes_where(const Graph* graph, auto condition) {
  require(graph != nullptr);
  std::vector<Node*> found;
  for (const auto& node : graph->nodes) {
    if (condition(*node)) found.push_back(node.get());
  }
  return found;
}

// How lists of nodes are given: as many as `nodes` has room for, then null; without it, their number.
void give_nodes(const std::vector<Node*>& found, cudaGraphNode_t* nodes, size_t* count) {
  require(count != nullptr);
  if (nodes == nullptr) return void(*count = found.size());
  for (size_t i = 0; i < *count; ++i) {
    nodes[i] = i < found.size() ? reinterpret_cast<cudaGraphNode_t>(found[i]) : nullptr;
  }
  *count = std::min(*count, found.size());
}

Node* node_of(cudaGraphNode_t handle) {
  require(handle != nullptr);
  return reinterpret_cast<Node*>(handle);
}

// Graphs with memory of their own are not copied, nested or cut, by CUDA's rules.
void require_no_memory(const char* call, const Graph& graph) {
  if (!has_memory(graph)) return;
  refuse(cudaErrorNotSupported, "%s of a graph whose nodes allocate or free memory.", call);
}

// Where a node is put: the graph, and the nodes that it depends on.
struct Target {
  cudaGraph_t graph;
  const cudaGraphNode_t* after;
  size_t count;
};

void add_node(cudaGraphNode_t* handle, const Target& target, Content content) {
  require(handle != nullptr && target.graph != nullptr);
  std::vector<Node*> after;
  for (size_t i = 0; i < target.count; ++i) after.push_back(node_of(target.after[i]));
  Node* const made = graph_of(target.graph)->add(std::move(content), std::move(after));
  *handle = reinterpret_cast<cudaGraphNode_t>(made);
}

Step& step_of(cudaGraphExec_t exec, cudaGraphNode_t node) {
  require(exec != nullptr);
  auto& steps = exec_of(exec)->steps;
  const auto found = std::find_if(steps.begin(), steps.end(),
                                  [&](const Step& step) { return step.node == node_of(node); });
  require(found != steps.end());
  return *found;
}

void change(Content& before, Content content) {
  require(before.type == content.type);
  before = std::move(content);
}

const auto& given(const auto* params) {
  require(params != nullptr);
  return *params;
}

// What a node does, by the parameters of its kind, which have two types each with the same members.
// `before` is what it did.

// Attributes of the launch before, as its cluster, stay.
Content kernel_node(const char* call, const auto& params, const Content* before = nullptr) {
  const bool was_kernel = before != nullptr && before->kernel != nullptr;
  LaunchConfig request = was_kernel ? before->kernel->request : LaunchConfig{{}, {}, NO_CLUSTER};
  request.grid = to_dim3(params.gridDim);
  request.block = to_dim3(params.blockDim);
  request.dynamic_smem_bytes = params.sharedMemBytes;
  if (params.kernelParams == nullptr) {
    refuse(cudaErrorNotSupported, "%s: kernel nodes take their parameters from kernelParams.",
           call);
  }
  const auto kernel = make_node(find_function(params.func), request, params.kernelParams);
  return {cudaGraphNodeTypeKernel, make_work(*kernel), kernel};
}

Content memcpy_node(const char* call, const cudaMemcpy3DParms& params, const Content* = nullptr) {
  return copying(call, params);
}

Content memset_node(const char* call, const auto& params, const Content* = nullptr) {
  return filling(call, {params.dst, params.pitch, params.value, params.elementSize, params.width,
                        params.height});
}

Content host_node(const char*, const auto& params, const Content* = nullptr) {
  return calling({params.fn, params.userData});
}

Content child_node(const char* call, cudaGraph_t child) {
  require(child != nullptr);
  require_no_memory(call, *graph_of(child));
  return {cudaGraphNodeTypeGraph, [steps = steps_of(*graph_of(child))] { run(steps); }};
}

Content allocating_node(const char* call, auto* params) {
  require(params != nullptr);
  params->dptr = allocate_device(call, params->bytesize);
  return allocating(call, params->dptr);
}

std::string name_of(cudaGraphNodeType type) {
  static const char* const NAMES[] = {"Kernel",
                                      "Memcpy",
                                      "Memset",
                                      "Host",
                                      "Graph",
                                      "Empty",
                                      "WaitEvent",
                                      "EventRecord",
                                      "ExtSemaphoreSignal",
                                      "ExtSemaphoreWait",
                                      "MemAlloc",
                                      "MemFree",
                                      nullptr,
                                      "Conditional"};
  const auto i = static_cast<size_t>(type);
  if (i >= std::size(NAMES) || NAMES[i] == nullptr) return std::to_string(type);
  return std::string("cudaGraphNodeType") + NAMES[i];
}

Content any_node(const char* call, const cudaGraphNodeParams& params,
                 const Content* before = nullptr) {
  switch (params.type) {
    case cudaGraphNodeTypeKernel:
      return kernel_node(call, params.kernel, before);
    case cudaGraphNodeTypeMemcpy:
      return memcpy_node(call, params.memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
      return memset_node(call, params.memset);
    case cudaGraphNodeTypeHost:
      return host_node(call, params.host);
    case cudaGraphNodeTypeGraph:
      return child_node(call, params.graph.graph);
    default:
      refuse(cudaErrorNotSupported,
             "%s: a node of type %s; kernels, copies, fills, host functions and graphs work.", call,
             name_of(params.type).c_str());
  }
}

dim3 from_dim3(const machine::Dim3& size) {
  return {size.x, size.y, size.z};
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
    require(clone != nullptr && original != nullptr);
    require_no_memory("cudaGraphClone", *graph_of(original));
    const auto copy = new Graph;
    copy->objects = graph_of(original)->objects;
    std::map<const Node*, Node*> copies;
    for (const auto& node : graph_of(original)->nodes) {
      copies[node.get()] = copy->add(*node);
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
  return attempt([&] {
    require(node != nullptr && type != nullptr);
    *type = reinterpret_cast<Node*>(node)->type;
  });
}

// ---- nodes --------------------------------------------------------------------------------------

// A call that adds a node with this content, which it makes of its last operands.
#define ADD(within, call, content, ...)                                                    \
  cudaError_t call(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, \
                   size_t count __VA_OPT__(, ) __VA_ARGS__) {                              \
    return within([&] { add_node(node, {graph, after, count}, content); });                \
  }                                                                                        \
  static_assert(true)

ADD(attempt, cudaGraphAddEmptyNode, (Content{cudaGraphNodeTypeEmpty, [] {}}));
ADD(attempt, cudaGraphAddChildGraphNode, child_node("cudaGraphAddChildGraphNode", child),
    cudaGraph_t child);
ADD(on_device, cudaGraphAddMemAllocNode, allocating_node("cudaGraphAddMemAllocNode", params),
    cudaMemAllocNodeParams* params);
ADD(on_device, cudaGraphAddMemFreeNode, freeing("cudaGraphAddMemFreeNode", base), void* base);

// Of a kind: the calls that add a node, and that change one or what it became in an executable graph.
#define NODE(KIND, PARAMS, make)                                                             \
  ADD(on_device, cudaGraphAdd##KIND##Node, make("cudaGraphAdd" #KIND "Node", given(params)), \
      const PARAMS* params);                                                                 \
  cudaError_t cudaGraph##KIND##NodeSetParams(cudaGraphNode_t node, const PARAMS* params) {   \
    return on_device([&] {                                                                   \
      Content& before = *node_of(node);                                                      \
      change(before, make("cudaGraph" #KIND "NodeSetParams", given(params), &before));       \
    });                                                                                      \
  }                                                                                          \
  cudaError_t cudaGraphExec##KIND##NodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, \
                                                 const PARAMS* params) {                     \
    return on_device([&] {                                                                   \
      Content& before = step_of(exec, node);                                                 \
      change(before, make("cudaGraphExec" #KIND "NodeSetParams", given(params), &before));   \
    });                                                                                      \
  }                                                                                          \
  static_assert(true)

// And the one that reads them.
#define GIVEN(KIND, PARAMS)                                                          \
  cudaError_t cudaGraph##KIND##NodeGetParams(cudaGraphNode_t node, PARAMS* params) { \
    return attempt([&] {                                                             \
      const auto* const kept = std::any_cast<PARAMS>(&node_of(node)->params);        \
      require(params != nullptr && kept != nullptr);                                 \
      *params = *kept;                                                               \
    });                                                                              \
  }                                                                                  \
  static_assert(true)

NODE(Kernel, cudaKernelNodeParams, kernel_node);
NODE(Memcpy, cudaMemcpy3DParms, memcpy_node);
NODE(Memset, cudaMemsetParams, memset_node);
NODE(Host, cudaHostNodeParams, host_node);
GIVEN(Memcpy, cudaMemcpy3DParms);
GIVEN(Memset, cudaMemsetParams);
GIVEN(Host, cudaHostNodeParams);

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                     const cudaGraphNode_t* after, size_t count, void* dst,
                                     const void* src, size_t bytes, cudaMemcpyKind kind) {
  const auto params = params_of(line(dst, src, bytes), kind);
  return cudaGraphAddMemcpyNode(node, graph, after, count, &params);
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* dst, const void* src,
                                           size_t bytes, cudaMemcpyKind kind) {
  const auto params = params_of(line(dst, src, bytes), kind);
  return cudaGraphMemcpyNodeSetParams(node, &params);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node,
                                               void* dst, const void* src, size_t bytes,
                                               cudaMemcpyKind kind) {
  const auto params = params_of(line(dst, src, bytes), kind);
  return cudaGraphExecMemcpyNodeSetParams(exec, node, &params);
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaGraph_t child) {
  return attempt([&] {
    change(step_of(exec, node), child_node("cudaGraphExecChildGraphNodeSetParams", child));
  });
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                             EDGE_DATA(const) size_t count, cudaGraphNodeParams* params) {
  return on_device([&] {
    constexpr const char* CALL = "cudaGraphAddNode";
    const auto content = [&]() -> Content {
      if (given(params).type == cudaGraphNodeTypeEmpty) return {params->type, [] {}};
      if (params->type == cudaGraphNodeTypeMemAlloc) return allocating_node(CALL, &params->alloc);
      if (params->type == cudaGraphNodeTypeMemFree) return freeing(CALL, params->free.dptr);
      return any_node(CALL, *params);
    };
    add_node(node, {graph, after, count}, content());
  });
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* params) {
  return on_device([&] {
    Content& before = *node_of(node);
    change(before, any_node("cudaGraphNodeSetParams", given(params), &before));
  });
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* params) {
  return on_device([&] {
    Content& before = step_of(exec, node);
    change(before, any_node("cudaGraphExecNodeSetParams", given(params), &before));
  });
}

// Of kernels, copies and fills.
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled) {
  return attempt([&] {
    require(step_of(exec, node).type <= cudaGraphNodeTypeMemset);
    step_of(exec, node).enabled = enabled != 0;
  });
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled) {
  return attempt([&] { *enabled = step_of(exec, node).enabled ? 1 : 0; });
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

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return attempt([&] {
    give_nodes(nodes_where(graph_of(graph), [](const Node&) { return true; }), nodes, count);
  });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return attempt([&] {
    give_nodes(nodes_where(graph_of(graph), [](const Node& node) { return node.after.empty(); }),
               nodes, count);
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
    const auto depends = [before = node_of(node)](const Node& other) {
      return std::count(other.after.begin(), other.after.end(), before) != 0;
    };
    give_nodes(nodes_where(node_of(node)->graph, depends), nodes, count);
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

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                            const cudaLaunchAttributeValue* value) {
  return on_device([&] {
    const std::shared_ptr<const KernelNode> before = node_of(node)->kernel;
    require(before != nullptr && value != nullptr);
    const cudaLaunchAttribute attribute{id, {}, *value};
    LaunchConfig request = before->request;
    apply_attributes(&attribute, 1, &request);
    const auto kernel = make_node(before->function, request, before->arguments.data());
    change(*node_of(node), {cudaGraphNodeTypeKernel, make_work(*kernel), kernel});
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
  return attempt([&] {
    require(exec != nullptr && graph != nullptr && result != nullptr);
    std::vector<Step>& steps = exec_of(exec)->steps;
    std::vector<Step> others = steps_of(*graph_of(graph));
    const bool same = std::equal(steps.begin(), steps.end(), others.begin(), others.end(),
                                 [](const Step& a, const Step& b) { return a.after == b.after; });
    *result = {same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged, nullptr,
               nullptr};
    for (size_t i = 0; same && i < steps.size(); ++i) {
      if (steps[i].type != others[i].type) result->result = cudaGraphExecUpdateErrorNodeTypeChanged;
    }
    require(result->result == cudaGraphExecUpdateSuccess, cudaErrorGraphExecUpdateFailure);
    // They stay what the nodes of the first graph became, and enabled or not as they were.
    for (size_t i = 0; i < steps.size(); ++i) static_cast<Content&>(steps[i]) = others[i];
  });
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  *flags = exec_of(exec)->flags;
  return cudaSuccess;
}

}  // extern "C"
}  // namespace machine::runtime
