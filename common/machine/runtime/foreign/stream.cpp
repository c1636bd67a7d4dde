// Streams as other people's programs use them: questions, callbacks, captures into a graph.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "common/machine/runtime/status.h"
#include "common/machine/runtime/stream_state.h"

namespace machine::runtime {
namespace {

// One of the stream's numbers.
template <class T, class F>
cudaError_t answer(cudaStream_t handle, T* result, F value) {
  return attempt([&] {
    const std::lock_guard lock(state().mutex);
    *result = value(find(handle));
  });
}

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

}  // namespace machine::runtime

using namespace machine::runtime;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create_stream(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create_stream(stream, flags, std::clamp(priority, -5, 0));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return cudaStreamSynchronize(stream);
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return answer(handle, flags, [](const Stream& stream) { return stream.flags; });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return answer(handle, priority, [](const Stream& stream) { return stream.priority; });
}

cudaError_t cudaStreamGetAttribute(cudaStream_t handle, cudaStreamAttrID id,
                                   cudaStreamAttrValue* value) {
  return answer(handle, value, [id](const Stream& stream) { return attribute_of(stream, id); });
}

// They cost time alone.
cudaError_t cudaStreamSetAttribute(cudaStream_t handle, cudaStreamAttrID id,
                                   const cudaStreamAttrValue* value) {
  return attempt([&] {
    const std::lock_guard lock(state().mutex);
    Stream& stream = find(handle);
    attribute_of(stream, id);
    stream.attributes[id] = *value;
    if (id == cudaStreamAttributePriority) stream.priority = value->priority;
  });
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
  return attempt([&] {
    const std::lock_guard lock(state().mutex);
    find(to).attributes = find(from).attributes;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return answer(handle, id, [](const Stream& stream) { return stream.id; });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return answer(handle, device, [](const Stream&) { return 0; });
}

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
  return attempt([&] {
    const std::lock_guard lock(state().mutex);
    Stream& stream = find(handle);
    require(stream.capture != nullptr, cudaErrorIllegalState);
    require(flags <= cudaStreamSetCaptureDependencies && (count == 0 || nodes != nullptr));
    if (flags == cudaStreamSetCaptureDependencies) stream.last.clear();
    for (size_t i = 0; i < count; ++i) stream.last.push_back(reinterpret_cast<Node*>(nodes[i]));
  });
}
#endif

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

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* after, const cudaGraphEdgeData*,
                                          size_t count, cudaStreamCaptureMode mode) {
  return on_device([&] {
    const auto nodes = reinterpret_cast<Node* const*>(after);
    begin_capture(stream, reinterpret_cast<Graph*>(graph), mode, {nodes, nodes + count});
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

}  // extern "C"
