// What else programs ask of streams and captures, and functions of the host that run in streams.
#include <utility>

#include "common/machine/runtime/foreign/nodes.h"
#include "common/machine/runtime/stream_state.h"

namespace machine::runtime {
namespace {

// What a GPU says of a stream's attribute before it is set. Others it refuses.
cudaStreamAttrValue attribute_of(const Stream& stream, cudaStreamAttrID id) {
  const auto set = stream.attributes.find(id);
  if (set != stream.attributes.end()) return set->second;
  cudaStreamAttrValue value{};
  switch (id) {
    case cudaStreamAttributeAccessPolicyWindow:
    case cudaStreamAttributeMemSyncDomain:
      return value;
    case cudaStreamAttributeSynchronizationPolicy:
      value.priority = -1;  // the policy's place: none of them
      return value;
    case cudaStreamAttributePriority:
      value.priority = stream.priority;
      return value;
    case cudaStreamAttributeMemSyncDomainMap:
      value.memSyncDomainMap = {0, 1};
      return value;
    default:
      fail(cudaErrorInvalidValue);
  }
}

}  // namespace

Content calling(const cudaHostNodeParams& params) {
  require(params.fn != nullptr);
  return {cudaGraphNodeTypeHost, [params] { params.fn(params.userData); }, nullptr, nullptr,
          params};
}

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return cudaStreamSynchronize(stream);
}

#define READS(call, T, member)                                                         \
  cudaError_t call(cudaStream_t handle, T* value) {                                    \
    return with_stream(handle, [=](const Stream& stream) { *value = stream.member; }); \
  }                                                                                    \
  static_assert(true)

READS(cudaStreamGetFlags, unsigned, flags);
READS(cudaStreamGetPriority, int, priority);
READS(cudaStreamGetId, unsigned long long, id);

cudaError_t cudaStreamGetAttribute(cudaStream_t handle, cudaStreamAttrID id,
                                   cudaStreamAttrValue* value) {
  return with_stream(handle, [=](const Stream& stream) { *value = attribute_of(stream, id); });
}

// They cost time alone.
cudaError_t cudaStreamSetAttribute(cudaStream_t handle, cudaStreamAttrID id,
                                   const cudaStreamAttrValue* value) {
  return with_stream(handle, [=](Stream& stream) {
    attribute_of(stream, id);
    stream.attributes[id] = *value;
    if (id == cudaStreamAttributePriority) stream.priority = value->priority;
  });
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
  return with_stream(to, [=](Stream& stream) { stream.attributes = find(from).attributes; });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return with_stream(handle, [=](const Stream&) { *device = 0; });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return on_device([&] { submit(stream, calling({function, data})); });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned flags) {
  return on_device([&] {
    require(callback != nullptr && flags == 0);
    if (is_capturing(stream)) {
      refuse(cudaErrorStreamCaptureUnsupported,
             "cudaStreamAddCallback in a stream capture, which takes cudaLaunchHostFunc.");
    }
    submit(stream, {cudaGraphNodeTypeHost, [=] { callback(stream, cudaSuccess, data); }});
  });
}

// ---- captures -----------------------------------------------------------------------------------

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* dependency_count) {
  const cudaError_t found = cudaStreamIsCapturing(handle, status);
  if (found != cudaSuccess) return found;
  const std::lock_guard lock(state().mutex);
  const Capture* const capture = find(handle).capture.get();
  if (capture == nullptr) return cudaSuccess;
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(capture->graph);
  const auto& last = find(handle).last;
  if (dependencies != nullptr) {
    *dependencies = reinterpret_cast<const cudaGraphNode_t*>(last.data());
  }
  if (edges != nullptr) *edges = nullptr;
  if (dependency_count != nullptr) *dependency_count = last.size();
  return cudaSuccess;
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData*, size_t count,
                                                unsigned flags) {
  return with_stream(handle, [=](Stream& stream) {
    require(stream.capture != nullptr, cudaErrorIllegalState);
    require(flags <= cudaStreamSetCaptureDependencies && (count == 0 || nodes != nullptr));
    if (flags == cudaStreamSetCaptureDependencies) stream.last.clear();
    for (size_t i = 0; i < count; ++i) stream.last.push_back(reinterpret_cast<Node*>(nodes[i]));
  });
}
#endif

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* after, const cudaGraphEdgeData*,
                                          size_t count, cudaStreamCaptureMode mode) {
  return on_device([&] {
    require(graph != nullptr);
    const auto nodes = reinterpret_cast<Node* const*>(after);
    begin_capture(stream, reinterpret_cast<Graph*>(graph), mode, {nodes, nodes + count});
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

}  // extern "C"
}  // namespace machine::runtime
