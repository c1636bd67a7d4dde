// Graphs as programs take them apart, change them and give them memory: roots, edges, nodes that go,
// what a capture of two streams depends on, new parameters, and nodes that allocate and free. Prints the first thing that is not as it
// should be and exits 1, or "ok". With an argument it does what a graph's memory does not allow.
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "check.h"

#define OK(call) CHECK((call) == cudaSuccess)
#if CUDART_VERSION >= 13000
#define NO_DATA nullptr,
#else
#define NO_DATA
#endif

__global__ void add(int* out, const int* value) {
  *out += *value;
}

__global__ void set(int* out, int value) {
  *out = value;
}

__global__ void cluster_size(int* out) {
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(*out));
}

// The second time it reads what nobody has written since.
__global__ void take_turns(int* out, int* memory) {
  if (*out != 0) *out = memory[0];
  memory[0] = 1;
  *out = 1;
}

namespace {

using Node = cudaGraphNode_t;
constexpr size_t INTS = 1000;

std::vector<std::pair<Node, Node>> edges_of(cudaGraph_t graph) {
  size_t count = 0;
  OK(cudaGraphGetEdges(graph, nullptr, nullptr, NO_DATA & count));
  std::vector<Node> from(count + 1), to(count + 1);
  size_t room = count + 1;
  OK(cudaGraphGetEdges(graph, from.data(), to.data(), NO_DATA & room));
  CHECK(room == count && from[count] == nullptr && to[count] == nullptr);
  std::vector<std::pair<Node, Node>> edges;
  for (size_t i = 0; i < count; ++i) edges.push_back({from[i], to[i]});
  return edges;
}

std::vector<Node> roots_of(cudaGraph_t graph) {
  size_t count = 0;
  OK(cudaGraphGetRootNodes(graph, nullptr, &count));
  std::vector<Node> roots(count);
  OK(cudaGraphGetRootNodes(graph, roots.data(), &count));
  return roots;
}

bool has(const std::vector<std::pair<Node, Node>>& edges, Node from, Node to) {
  return std::count(edges.begin(), edges.end(), std::pair(from, to)) == 1;
}

cudaGraphExec_t instantiate(cudaGraph_t graph, unsigned long long flags = 0) {
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, flags));
  return exec;
}

int read_back(const int* device) {
  int value = 0;
  OK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

// a -> b -> d, a -> c -> d
void check_edges() {
  cudaGraph_t graph = nullptr;
  Node a, b, c, d;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphAddEmptyNode(&a, graph, nullptr, 0));
  OK(cudaGraphAddEmptyNode(&b, graph, &a, 1));
  OK(cudaGraphAddEmptyNode(&c, graph, &a, 1));
  const Node both[] = {b, c};
  OK(cudaGraphAddEmptyNode(&d, graph, both, 2));
  CHECK(roots_of(graph) == std::vector<Node>{a});
  auto edges = edges_of(graph);
  CHECK(edges.size() == 4 && has(edges, a, b) && has(edges, a, c));
  CHECK(has(edges, b, d) && has(edges, c, d));
  Node found[2];
  size_t count = 2;
  OK(cudaGraphNodeGetDependencies(d, found, NO_DATA & count));
  CHECK(count == 2 && found[0] == b && found[1] == c);
  OK(cudaGraphNodeGetDependentNodes(c, nullptr, NO_DATA & count));
  CHECK(count == 1);

  OK(cudaGraphRemoveDependencies(graph, &a, &c, NO_DATA 1));
  CHECK(cudaGraphRemoveDependencies(graph, &a, &c, NO_DATA 1) == cudaErrorInvalidValue);
  CHECK(cudaGraphAddDependencies(graph, &a, &b, NO_DATA 1) == cudaErrorInvalidValue);
  CHECK((roots_of(graph) == std::vector<Node>{a, c}));
  OK(cudaGraphDestroyNode(b));
  edges = edges_of(graph);
  CHECK(edges.size() == 1 && has(edges, c, d));
  OK(cudaGraphGetNodes(graph, nullptr, &count));
  CHECK(count == 3);
  CHECK(cudaGraphDestroyNode(nullptr) == cudaErrorInvalidValue);
  OK(cudaGraphDestroy(graph));
}

// A fork is two edges, its end another two: as events order them, not as they were captured.
void check_captured_edges(int* data) {
  cudaStream_t stream = nullptr, other = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  cudaGraph_t graph = nullptr;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreate(&other));
  OK(cudaEventCreate(&fork));
  OK(cudaEventCreate(&join));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  set<<<1, 1, 0, stream>>>(data, 1);
  OK(cudaEventRecord(fork, stream));
  OK(cudaStreamWaitEvent(other, fork, 0));
  set<<<1, 1, 0, other>>>(data + 1, 2);
  set<<<1, 1, 0, stream>>>(data + 2, 3);
  OK(cudaEventRecord(join, other));
  OK(cudaStreamWaitEvent(stream, join, 0));
  add<<<1, 1, 0, stream>>>(data + 2, data + 1);
  OK(cudaStreamEndCapture(stream, &graph));
  Node nodes[4];
  size_t count = 4;
  OK(cudaGraphGetNodes(graph, nodes, &count));
  const auto edges = edges_of(graph);
  CHECK(count == 4 && edges.size() == 4 && roots_of(graph) == std::vector<Node>{nodes[0]});
  CHECK(has(edges, nodes[0], nodes[1]) && has(edges, nodes[0], nodes[2]));
  CHECK(has(edges, nodes[1], nodes[3]) && has(edges, nodes[2], nodes[3]));
  CHECK(cudaStreamWaitEvent(other, fork, 0) ==
        cudaErrorCapturedEvent);  // of a capture that is over
  OK(cudaStreamSynchronize(other));
  OK(cudaGraphLaunch(instantiate(graph), stream));
  CHECK(read_back(data + 2) == 5);

  char path[] = "/tmp/graphXXXXXX";
  CHECK(close(mkstemp(path)) == 0);
  OK(cudaGraphDebugDotPrint(graph, path, cudaGraphDebugDotFlagsVerbose));
  std::FILE* const file = std::fopen(path, "r");
  CHECK(file != nullptr);
  std::string text(10000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  std::remove(path);
  CHECK(text.starts_with("digraph ") && std::count(text.begin(), text.end(), '>') == 4);
  CHECK(text.find("_Z3set") != text.npos && text.find("_Z3add") != text.npos);
  CHECK(cudaGraphDebugDotPrint(graph, "/no/folder", 0) == cudaErrorOperatingSystem);
}

// A node that is put into a capture by hand, between two launches.
void check_node_put_into_a_capture(cudaStream_t stream, int* data) {
#if CUDART_VERSION >= 13000
  cudaGraph_t graph = nullptr, captured = nullptr;
  cudaStreamCaptureStatus status;
  unsigned long long id = 0;
  const Node* last = nullptr;
  size_t count = 0;
  Node middle = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  set<<<1, 1, 0, stream>>>(data, 1);
  OK(cudaStreamGetCaptureInfo(stream, &status, &id, &captured, &last, nullptr, &count));
  CHECK(count == 1);
  const Node first = last[0];
  OK(cudaGraphAddEmptyNode(&middle, captured, last, count));
  OK(cudaStreamUpdateCaptureDependencies(stream, &middle, nullptr, 1,
                                         cudaStreamSetCaptureDependencies));
  set<<<1, 1, 0, stream>>>(data, 2);
  OK(cudaStreamEndCapture(stream, &graph));
  Node nodes[3];
  count = 3;
  OK(cudaGraphGetNodes(graph, nodes, &count));
  const auto edges = edges_of(graph);
  CHECK(count == 3 && edges.size() == 2 && has(edges, first, middle));
  CHECK(has(edges, middle, nodes[2]));
  CHECK(cudaStreamUpdateCaptureDependencies(stream, &middle, nullptr, 1, 0) ==
        cudaErrorIllegalState);
#endif
}

Node node_behind(cudaGraph_t graph, Node before, cudaGraphNodeParams params) {
  Node made = nullptr;
  OK(cudaGraphAddNode(&made, graph, &before, NO_DATA before == nullptr ? 0 : 1, &params));
  return made;
}

void count_calls(void* calls) {
  ++*static_cast<int*>(calls);
}

void run(cudaGraphExec_t exec, cudaStream_t stream) {
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
}

// data[0] = fill + value, copied to the host; then a call; then data[0] = what a child graph sets.
void check_changed_nodes(cudaStream_t stream, int* data) {
  cudaGraph_t graph = nullptr, child = nullptr, other_child = nullptr;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphCreate(&child, 0));
  OK(cudaGraphCreate(&other_child, 0));
  int first = 3, second = 30, host[2] = {}, calls = 0, other_calls = 0;
  OK(cudaMemcpy(data + 1, &first, sizeof(int), cudaMemcpyHostToDevice));
  OK(cudaMemcpy(data + 2, &second, sizeof(int), cudaMemcpyHostToDevice));
  int* const value = data + 1;
  void* arguments[] = {&data, const_cast<int**>(&value)};
  void* of_child[] = {&data, &first};

  cudaGraphNodeParams fill{cudaGraphNodeTypeMemset};
  fill.memset.dst = data;
  fill.memset.elementSize = sizeof(int);
  fill.memset.width = fill.memset.height = 1;
  fill.memset.value = 100;
  cudaGraphNodeParams kernel{cudaGraphNodeTypeKernel};
  kernel.kernel.func = reinterpret_cast<void*>(add);
  kernel.kernel.gridDim = kernel.kernel.blockDim = dim3(1);
  kernel.kernel.kernelParams = arguments;
  cudaGraphNodeParams copy{cudaGraphNodeTypeMemcpy};
  copy.memcpy.copyParams.srcPtr = make_cudaPitchedPtr(data, sizeof(int), sizeof(int), 1);
  copy.memcpy.copyParams.dstPtr = make_cudaPitchedPtr(host, sizeof(int), sizeof(int), 1);
  copy.memcpy.copyParams.extent = make_cudaExtent(sizeof(int), 1, 1);
  copy.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
  cudaGraphNodeParams call{cudaGraphNodeTypeHost};
  call.host.fn = count_calls;
  call.host.userData = &calls;
  const Node fill_node = node_behind(graph, nullptr, fill);
  const Node kernel_node = node_behind(graph, fill_node, kernel);
  const Node copy_node = node_behind(graph, kernel_node, copy);
  const Node call_node = node_behind(graph, copy_node, call);
  kernel.kernel.func = reinterpret_cast<void*>(set);
  kernel.kernel.kernelParams = of_child;
  node_behind(child, nullptr, kernel);
  first = 4;
  node_behind(other_child, nullptr, kernel);
  cudaGraphNodeParams nested{cudaGraphNodeTypeGraph};
  nested.graph.graph = child;
  const Node empty = node_behind(graph, call_node, {cudaGraphNodeTypeEmpty});
  const Node child_node = node_behind(graph, empty, nested);
  const cudaGraphExec_t exec = instantiate(graph);
  run(exec, stream);
  CHECK(host[0] == 103 && calls == 1 && read_back(data) == 3);

  // Each node of the executable graph, but none of the graph.
  cudaMemsetParams filled{};
  OK(cudaGraphMemsetNodeGetParams(fill_node, &filled));
  CHECK(filled.dst == data && filled.value == 100 && filled.width == 1);
  filled.value = 200;
  OK(cudaGraphExecMemsetNodeSetParams(exec, fill_node, &filled));
  const int* const second_value = data + 2;
  arguments[1] = const_cast<const int**>(&second_value);
  kernel.kernel.func = reinterpret_cast<void*>(add);
  kernel.kernel.kernelParams = arguments;
  OK(cudaGraphExecNodeSetParams(exec, kernel_node, &kernel));
  OK(cudaGraphExecMemcpyNodeSetParams1D(exec, copy_node, host + 1, data, sizeof(int),
                                        cudaMemcpyDeviceToHost));
  cudaHostNodeParams called{};
  OK(cudaGraphHostNodeGetParams(call_node, &called));
  CHECK(called.userData == &calls);
  called.userData = &other_calls;
  OK(cudaGraphExecHostNodeSetParams(exec, call_node, &called));
  OK(cudaGraphExecChildGraphNodeSetParams(exec, child_node, other_child));
  run(exec, stream);
  CHECK(host[0] == 103 && host[1] == 230 && read_back(data) == 4);
  CHECK(calls == 1 && other_calls == 1);
  run(instantiate(graph), stream);
  CHECK(host[0] == 103 && calls == 2 && read_back(data) == 3);

  unsigned enabled = 1;
  OK(cudaGraphNodeSetEnabled(exec, kernel_node, 0));
  OK(cudaGraphNodeGetEnabled(exec, kernel_node, &enabled));
  run(exec, stream);
  CHECK(enabled == 0 && host[1] == 200);
  CHECK(cudaGraphNodeSetEnabled(exec, call_node, 0) == cudaErrorInvalidValue);
  CHECK(cudaGraphExecHostNodeSetParams(exec, fill_node, &called) == cudaErrorInvalidValue);
  CHECK(cudaGraphNodeSetParams(fill_node, &call) == cudaErrorInvalidValue);
  OK(cudaGraphMemsetNodeSetParams(fill_node, &filled));
  run(instantiate(graph), stream);
  CHECK(host[0] == 203);
  Node conditional = nullptr;
  cudaGraphNodeParams condition{cudaGraphNodeTypeConditional};
  CHECK(cudaGraphAddNode(&conditional, graph, nullptr, NO_DATA 0, &condition) ==
        cudaErrorNotSupported);
}

// An executable graph takes what the nodes of another do, and nothing else of them.
void check_updated_graph(cudaStream_t stream, int* data) {
  const auto chain_of = [&](int first, int second, bool swapped) {
    cudaGraph_t graph = nullptr;
    OK(cudaGraphCreate(&graph, 0));
    cudaGraphNodeParams fill{cudaGraphNodeTypeMemset}, kernel{cudaGraphNodeTypeKernel};
    fill.memset.dst = data;
    fill.memset.elementSize = sizeof(int);
    fill.memset.width = fill.memset.height = 1;
    fill.memset.value = first;
    void* arguments[] = {&data, &second};
    kernel.kernel.func = reinterpret_cast<void*>(set);
    kernel.kernel.gridDim = kernel.kernel.blockDim = dim3(1);
    kernel.kernel.kernelParams = arguments;
    const Node before = node_behind(graph, nullptr, swapped ? kernel : fill);
    return std::pair(graph, node_behind(graph, before, swapped ? fill : kernel));
  };
  const auto [graph, last] = chain_of(3, 4, false);
  const cudaGraphExec_t exec = instantiate(graph);
  const cudaGraph_t other = chain_of(5, 6, false).first, swapped = chain_of(7, 8, true).first;
  cudaGraphExecUpdateResultInfo told{};
  OK(cudaGraphExecUpdate(exec, other, &told));
  CHECK(told.result == cudaGraphExecUpdateSuccess);
  OK(cudaGraphDestroy(other));
  run(exec, stream);
  CHECK(read_back(data) == 6);
  OK(cudaGraphNodeSetEnabled(exec, last, 0));  // by the node of the first graph
  run(exec, stream);
  CHECK(read_back(data) == 5);
  OK(cudaGraphExecUpdate(exec, graph, &told));
  run(exec, stream);
  CHECK(read_back(data) == 3);  // it stays disabled
  CHECK(cudaGraphExecUpdate(exec, swapped, &told) == cudaErrorGraphExecUpdateFailure);
  CHECK(told.result == cudaGraphExecUpdateErrorNodeTypeChanged);
  cudaGraphNodeParams empty{cudaGraphNodeTypeEmpty};
  node_behind(swapped, nullptr, empty);
  CHECK(cudaGraphExecUpdate(exec, swapped, &told) == cudaErrorGraphExecUpdateFailure);
  CHECK(told.result == cudaGraphExecUpdateErrorTopologyChanged);
  run(exec, stream);
  CHECK(read_back(data) == 3);
}

// Null where something must be is an error.
void check_null() {
  cudaGraph_t graph = nullptr;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  void* base = nullptr;
  int clusters = 0;
  CHECK(cudaGraphNodeGetType(nullptr, &type) == cudaErrorInvalidValue);
  CHECK(cudaGraphClone(&graph, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaGraphExecUpdate(nullptr, nullptr, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy3D(nullptr) == cudaErrorInvalidValue);
  CHECK(cudaMallocPitch(&base, nullptr, 4, 4) == cudaErrorInvalidValue);
  CHECK(cudaOccupancyMaxActiveClusters(&clusters, reinterpret_cast<const void*>(set), nullptr) ==
        cudaErrorInvalidValue);
}

// Memory that a capture allocates has one address, and is new in each launch.
void check_captured_memory(cudaStream_t stream, int* data) {
  cudaGraph_t graph = nullptr, copy = nullptr;
  int* memory = nullptr;
  OK(cudaMemset(data, 0, sizeof(int)));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMallocAsync(&memory, INTS * sizeof(int), stream));
  OK(cudaMemsetAsync(memory, 0, INTS * sizeof(int), stream));
  set<<<1, 1, 0, stream>>>(memory + INTS - 1, 7);
  add<<<1, 1, 0, stream>>>(data, memory + INTS - 1);
  OK(cudaFreeAsync(memory, stream));
  const auto callback = [](cudaStream_t, cudaError_t, void*) {};
  CHECK(cudaStreamAddCallback(stream, callback, nullptr, 0) == cudaErrorStreamCaptureUnsupported);
  OK(cudaStreamEndCapture(stream, &graph));
  Node nodes[5];
  size_t count = 5;
  cudaGraphNodeType first, last;
  OK(cudaGraphGetNodes(graph, nodes, &count));
  OK(cudaGraphNodeGetType(nodes[0], &first));
  OK(cudaGraphNodeGetType(nodes[4], &last));
  CHECK(count == 5 && first == cudaGraphNodeTypeMemAlloc && last == cudaGraphNodeTypeMemFree);
  cudaMemsetParams fill{};
  OK(cudaGraphMemsetNodeGetParams(nodes[1], &fill));
  CHECK(fill.dst == memory && fill.elementSize == 1 && fill.width == INTS * sizeof(int));
  CHECK(cudaGraphMemsetNodeGetParams(nodes[2], &fill) == cudaErrorInvalidValue);
  const cudaGraphExec_t exec = instantiate(graph);
  cudaGraphExec_t second = nullptr;
  CHECK(cudaGraphInstantiate(&second, graph, 0) == cudaErrorNotSupported);
  for (int i = 0; i < 3; ++i) OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(read_back(data) == 21);
  CHECK(cudaGraphClone(&copy, graph) == cudaErrorNotSupported);
  CHECK(cudaGraphDestroyNode(nodes[2]) == cudaErrorNotSupported);
  CHECK(cudaGraphRemoveDependencies(graph, nodes, nodes + 1, NO_DATA 1) == cudaErrorNotSupported);
  CHECK(cudaMemset(memory, 0, sizeof(int)) == cudaErrorInvalidValue);  // it is free
  OK(cudaGraphDestroy(graph));
  OK(cudaGraphLaunch(exec, stream));
  CHECK(read_back(data) == 28);
  OK(cudaGraphExecDestroy(exec));

  // What was never launched goes with its graph.
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMallocAsync(&memory, INTS * sizeof(int), stream));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaMemset(memory, 0, sizeof(int)));
  OK(cudaGraphDestroy(graph));
  CHECK(cudaMemset(memory, 0, sizeof(int)) == cudaErrorInvalidValue);
}

// What a graph leaves can be used behind it; before the next launch somebody frees it.
void check_memory_that_stays(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  Node allocation = nullptr, kernel = nullptr;
  OK(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams params{};
  params.poolProps.allocType = cudaMemAllocationTypePinned;
  params.poolProps.location = {cudaMemLocationTypeDevice, {}};
  params.bytesize = sizeof(int);
  OK(cudaGraphAddMemAllocNode(&allocation, graph, nullptr, 0, &params));
  int* const memory = static_cast<int*>(params.dptr);
  int value = 5;
  void* arguments[] = {&params.dptr, &value};
  cudaKernelNodeParams launch{};
  launch.func = reinterpret_cast<void*>(set);
  launch.gridDim = launch.blockDim = dim3(1);
  launch.kernelParams = arguments;
  OK(cudaGraphAddKernelNode(&kernel, graph, &allocation, 1, &launch));
  cudaGraphExec_t exec = instantiate(graph);
  OK(cudaGraphLaunch(exec, stream));
  CHECK(read_back(memory) == 5);
  CHECK(cudaGraphLaunch(exec, stream) == cudaErrorInvalidValue);
  OK(cudaFreeAsync(memory, stream));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaFree(memory));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaGraphExecDestroy(exec));

  exec = instantiate(graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaGraphLaunch(exec, stream));
  CHECK(read_back(memory) == 5);

  cudaGraph_t freeing = nullptr;
  Node free_node = nullptr;
  OK(cudaGraphCreate(&freeing, 0));
  OK(cudaGraphAddMemFreeNode(&free_node, freeing, nullptr, 0, memory));
  OK(cudaGraphLaunch(instantiate(freeing), stream));
  CHECK(cudaMemset(memory, 0, sizeof(int)) == cudaErrorInvalidValue);
  int* other = nullptr;
  OK(cudaMallocAsync(&other, sizeof(int), stream));
  CHECK(cudaGraphAddMemFreeNode(&free_node, freeing, nullptr, 0, other) == cudaErrorInvalidValue);
  OK(cudaDeviceGraphMemTrim(0));
}

// Reads memory of a graph behind the launch that has freed it; or, in the second launch, what the first
// has written there.
void misuse(const std::string& how, cudaStream_t stream, int* data) {
  cudaGraph_t graph = nullptr;
  int* memory = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMallocAsync(&memory, INTS * sizeof(int), stream));
  take_turns<<<1, 1, 0, stream>>>(data, memory);
  OK(cudaFreeAsync(memory, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  const cudaGraphExec_t exec = instantiate(graph);
  OK(cudaGraphLaunch(exec, stream));
  if (how == "freed") add<<<1, 1, 0, stream>>>(data, memory);
  if (how == "unwritten") cudaGraphLaunch(exec, stream);
}

void check_cluster_of_a_node(cudaStream_t stream, int* data) {
  cudaGraph_t graph = nullptr;
  OK(cudaGraphCreate(&graph, 0));
  void* arguments[] = {&data};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(cluster_size);
  params.gridDim = 2;
  params.blockDim = 1;
  params.kernelParams = arguments;
  Node node = nullptr;
  OK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  cudaLaunchAttributeValue value{};
  value.clusterDim = {2, 1, 1};
  OK(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeClusterDimension, &value));
  int ctas = 0;
  OK(cudaGraphLaunch(instantiate(graph), stream));
  OK(cudaMemcpyAsync(&ctas, data, sizeof ctas, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(ctas == 2);
  value.clusterDim = {3, 1, 1};
  CHECK(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeClusterDimension, &value) ==
        cudaErrorInvalidClusterSize);
  OK(cudaGraphDestroy(graph));
}

}  // namespace

int main(int argc, char** argv) {
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreate(&stream));
  int* data = nullptr;
  OK(cudaMalloc(&data, 4 * sizeof(int)));
  OK(cudaMemset(data, 0, 4 * sizeof(int)));
  if (argc > 1) {
    misuse(argv[1], stream, data);
    return 0;
  }
  check_edges();
  check_captured_edges(data);
  check_node_put_into_a_capture(stream, data);
  check_changed_nodes(stream, data);
  check_updated_graph(stream, data);
  check_cluster_of_a_node(stream, data);
  check_null();
  check_captured_memory(stream, data);
  check_memory_that_stays(stream);
  std::printf("ok\n");
  return 0;
}
