// Streams, and what they capture: work runs when it is submitted. It knows nothing of what work is.
#include "common/machine/runtime/stream.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "common/machine/runtime/status.h"
#include "common/machine/runtime/stream_state.h"

namespace machine::runtime {

Node* Graph::add(cudaGraphNodeType type, Work work) {
  nodes.push_back(std::make_unique<Node>(Node{type, std::move(work)}));
  return nodes.back().get();
}

State& state() {
  static State* const instance = new State;
  return *instance;
}

Stream* find(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return &state().legacy;
  if (handle == cudaStreamPerThread) return &state().per_thread;
  const auto stream = reinterpret_cast<Stream*>(handle);
  return state().streams.contains(stream) ? stream : nullptr;
}

Event* find(cudaEvent_t handle) {
  const auto event = reinterpret_cast<Event*>(handle);
  return state().events.contains(event) ? event : nullptr;
}

cudaError_t check_implicit(const Stream* stream) {
  if (stream != &state().legacy) return cudaSuccess;
  for (const auto& capture : state().captures) {
    if ((capture->origin->flags & cudaStreamNonBlocking) != 0) continue;
    capture->is_spoilt = true;
    return refuse(cudaErrorStreamCaptureImplicit,
                  "work in the legacy stream while a stream is captured that it waits for.");
  }
  return cudaSuccess;
}

void note_operation(Stream* stream) {
  ++stream->captured;
  stream->is_joined = stream->capture->origin == stream;
}

namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

cudaError_t create_stream(cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return record(cudaErrorInvalidValue);
  }
  return on_device([&] {
    const std::lock_guard lock(state().mutex);
    const auto made = new Stream{flags, priority, ++state().last_id, nullptr, 0, true};
    state().streams.insert(made);
    *stream = reinterpret_cast<cudaStream_t>(made);
    return cudaSuccess;
  });
}

// Waits for nothing: all work has run. Of a stream in a capture it is refused.
cudaError_t check_finished(cudaStream_t handle) {
  const std::lock_guard lock(state().mutex);
  Stream* const stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture == nullptr) return check_implicit(stream);
  stream->capture->is_spoilt = true;
  return refuse(cudaErrorStreamCaptureUnsupported, "a stream is waited for during its capture.");
}

cudaError_t end_capture(cudaStream_t handle, cudaGraph_t* graph) {
  const std::lock_guard lock(state().mutex);
  if (graph != nullptr) *graph = nullptr;
  Stream* const stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != stream) {
    capture->is_spoilt = true;
    return refuse(cudaErrorStreamCaptureUnmatched,
                  "a capture is ended in another stream than the one that it began in.");
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  bool all_joined = true;
  const auto leave = [&](Stream* member) {
    if (member->capture != capture) return;
    all_joined = all_joined && (member == stream || member->is_joined);
    member->capture = nullptr;
    member->captured = 0;
    member->is_joined = true;
  };
  for (Stream* member : state().streams) leave(member);
  leave(&state().per_thread);
  state().captures.erase(capture);
  if (capture->is_spoilt) return cudaErrorStreamCaptureInvalidated;
  if (!all_joined) return cudaErrorStreamCaptureUnjoined;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(capture->graph);
  return cudaSuccess;
}

cudaError_t begin_capture(cudaStream_t handle, Graph* graph, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(state().mutex);
  Stream* const stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream == &state().legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  stream->capture = std::make_shared<Capture>(
      Capture{graph, stream, mode, std::this_thread::get_id(), ++state().last_id, false});
  state().captures.insert(stream->capture);
  return cudaSuccess;
}

cudaError_t run_on_stream(cudaStream_t stream, Work work) {
  return on_device([&] { return submit(stream, cudaGraphNodeTypeHost, std::move(work)); });
}

}  // namespace

cudaError_t submit(cudaStream_t handle, cudaGraphNodeType type, Work work) {
  {
    const std::lock_guard lock(state().mutex);
    Stream* const stream = find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t status = check_implicit(stream); status != cudaSuccess) return status;
    if (stream->capture != nullptr) {
      if (stream->capture->is_spoilt) return cudaErrorStreamCaptureInvalidated;
      note_operation(stream);
      stream->capture->graph->add(type, std::move(work));
      return cudaSuccess;
    }
  }
  work();
  return cudaSuccess;
}

cudaError_t check_no_capture() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  const std::lock_guard lock(state().mutex);
  for (const auto& capture : state().captures) {
    const bool is_mine = capture->thread == std::this_thread::get_id();
    const bool is_global =
        capture->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
    if (capture->mode == cudaStreamCaptureModeRelaxed || !(is_mine || is_global)) continue;
    capture->is_spoilt = true;
    return refuse(cudaErrorStreamCaptureUnsupported,
                  "a call that allocates, frees or waits is made during a stream capture.");
  }
  return cudaSuccess;
}

bool is_capturing(cudaStream_t handle) {
  const std::lock_guard lock(state().mutex);
  const Stream* const stream = find(handle);
  return stream != nullptr && stream->capture != nullptr;
}

}  // namespace machine::runtime

using namespace machine::runtime;

extern "C" {

// ---- streams ------------------------------------------------------------------------------------

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create_stream(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create_stream(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create_stream(stream, flags, std::clamp(priority, -5, 0));
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const std::lock_guard lock(state().mutex);
  const auto stream = reinterpret_cast<Stream*>(handle);
  if (state().streams.erase(stream) == 0) return record(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) stream->capture->is_spoilt = true;
  if (stream->capture != nullptr && stream->capture->origin == stream) {
    state().captures.erase(stream->capture);
  }
  for (Event* event : state().events) {
    if (event->captured_in == stream) event->capture = nullptr;
  }
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return on_device([&] { return check_finished(stream); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return cudaStreamSynchronize(stream);
}

// One of the stream's numbers.
#define STREAM_VALUE(handle, result, value)                             \
  const std::lock_guard lock(state().mutex);                            \
  const Stream* const stream = find(handle);                            \
  if (stream == nullptr) return record(cudaErrorInvalidResourceHandle); \
  *result = value;                                                      \
  return cudaSuccess

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  STREAM_VALUE(handle, flags, stream->flags);
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  STREAM_VALUE(handle, priority, stream->priority);
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  STREAM_VALUE(handle, id, stream->id);
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  STREAM_VALUE(handle, device, 0);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  STREAM_VALUE(handle, status,
               stream->capture == nullptr   ? cudaStreamCaptureStatusNone
               : stream->capture->is_spoilt ? cudaStreamCaptureStatusInvalidated
                                            : cudaStreamCaptureStatusActive);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* dependency_count) {
  const cudaError_t found = cudaStreamIsCapturing(handle, status);
  if (found != cudaSuccess) return found;
  const std::lock_guard lock(state().mutex);
  const Capture* const capture = find(handle)->capture.get();
  if (capture == nullptr) return cudaSuccess;
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(capture->graph);
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (dependency_count != nullptr) *dependency_count = 0;
  return cudaSuccess;
}
#endif

// An access window or a priority, which changes no result.
cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaStreamAttrID, const cudaStreamAttrValue*) {
  return cudaSuccess;
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, size_t, unsigned) {
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return run_on_stream(stream, [=] { function(data); });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned) {
  return run_on_stream(stream, [=] { callback(stream, cudaSuccess, data); });
}

// ---- capture ------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return on_device([&] { return begin_capture(stream, new Graph, mode); });
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t*, const cudaGraphEdgeData*, size_t,
                                          cudaStreamCaptureMode mode) {
  return on_device([&] { return begin_capture(stream, reinterpret_cast<Graph*>(graph), mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return on_device([&] { return end_capture(stream, graph); });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

}  // extern "C"
