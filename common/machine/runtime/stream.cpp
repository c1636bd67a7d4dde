// Streams, and what they capture: work runs when it is submitted. It knows nothing of what work is.
#include "common/machine/runtime/stream.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "common/machine/runtime/status.h"
#include "common/machine/runtime/stream_state.h"

namespace machine::runtime {

Node* Graph::add(Content content, std::vector<Node*> after) {
  nodes.push_back(std::make_unique<Node>(Node{std::move(content), this, std::move(after)}));
  return nodes.back().get();
}

State& state() {
  static State* const instance = new State;
  return *instance;
}

Stream& find(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return state().legacy;
  if (handle == cudaStreamPerThread) return state().per_thread;
  const auto stream = reinterpret_cast<Stream*>(handle);
  require(state().streams.contains(stream), cudaErrorInvalidResourceHandle);
  return *stream;
}

Event& find(cudaEvent_t handle) {
  const auto event = reinterpret_cast<Event*>(handle);
  require(state().events.contains(event), cudaErrorInvalidResourceHandle);
  return *event;
}

void check_implicit(const Stream& stream) {
  if (&stream != &state().legacy) return;
  for (const auto& capture : state().captures) {
    if ((capture->origin->flags & cudaStreamNonBlocking) != 0) continue;
    capture->is_spoilt = true;
    refuse(cudaErrorStreamCaptureImplicit,
           "work in the legacy stream while a stream is captured that it waits for.");
  }
}

void note_operation(Stream& stream) {
  ++stream.captured;
  stream.is_joined = stream.capture->origin == &stream;
}

void capture_node(Stream& stream, Content content) {
  note_operation(stream);
  stream.last = {stream.capture->graph->add(std::move(content), std::move(stream.last))};
}

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
thread_local cudaStream_t working = nullptr;

cudaError_t create_stream(cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return record(cudaErrorInvalidValue);
  }
  return on_device([&] {
    const std::lock_guard lock(state().mutex);
    const auto made = new Stream{flags, priority, ++state().last_id, nullptr, 0, true, {}, {}};
    state().streams.insert(made);
    *stream = reinterpret_cast<cudaStream_t>(made);
  });
}

void begin_capture(cudaStream_t handle, Graph* graph, cudaStreamCaptureMode mode,
                   std::vector<Node*> last) {
  const std::lock_guard lock(state().mutex);
  Stream& stream = find(handle);
  require(&stream != &state().legacy, cudaErrorStreamCaptureUnsupported);
  require(stream.capture == nullptr, cudaErrorIllegalState);
  stream.capture = std::make_shared<Capture>(
      Capture{graph, &stream, mode, std::this_thread::get_id(), ++state().last_id, false});
  stream.last = std::move(last);
  state().captures.insert(stream.capture);
}

namespace {

Graph* end_capture(cudaStream_t handle) {
  const std::lock_guard lock(state().mutex);
  Stream& stream = find(handle);
  const std::shared_ptr<Capture> capture = stream.capture;
  require(capture != nullptr, cudaErrorIllegalState);
  if (capture->origin != &stream) {
    capture->is_spoilt = true;
    refuse(cudaErrorStreamCaptureUnmatched,
           "a capture is ended in another stream than the one that it began in.");
  }
  const bool own = capture->thread == std::this_thread::get_id();
  require(own || capture->mode == cudaStreamCaptureModeRelaxed, cudaErrorStreamCaptureWrongThread);
  bool all_joined = true;
  const auto leave = [&](Stream& member) {
    if (member.capture != capture) return;
    all_joined = all_joined && (&member == &stream || member.is_joined);
    member.capture = nullptr;
    member.captured = 0;
    member.last.clear();
    member.is_joined = true;
  };
  for (Stream* member : state().streams) leave(*member);
  leave(state().per_thread);
  state().captures.erase(capture);
  require(!capture->is_spoilt, cudaErrorStreamCaptureInvalidated);
  require(all_joined, cudaErrorStreamCaptureUnjoined);
  return capture->graph;
}

}  // namespace

void submit(cudaStream_t handle, Content content) {
  {
    const std::lock_guard lock(state().mutex);
    Stream& stream = find(handle);
    check_implicit(stream);
    if (stream.capture != nullptr) {
      require(!stream.capture->is_spoilt, cudaErrorStreamCaptureInvalidated);
      return capture_node(stream, std::move(content));
    }
  }
  working = handle;
  content.work();
}

bool is_capturing(cudaStream_t handle) {
  const std::lock_guard lock(state().mutex);
  return find(handle).capture != nullptr;
}

cudaStream_t working_stream() {
  return working;
}

void check_no_capture() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return;
  const std::lock_guard lock(state().mutex);
  for (const auto& capture : state().captures) {
    const bool is_mine = capture->thread == std::this_thread::get_id();
    const bool is_global =
        capture->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
    if (capture->mode == cudaStreamCaptureModeRelaxed || !(is_mine || is_global)) continue;
    capture->is_spoilt = true;
    refuse(cudaErrorStreamCaptureUnsupported,
           "a call that allocates, frees or waits is made during a stream capture.");
  }
}

}  // namespace machine::runtime

using namespace machine::runtime;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create_stream(stream, flags, 0);
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

// Waits for nothing: all work has run. Of a stream in a capture it is refused.
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return on_device([&] {
    const std::lock_guard lock(state().mutex);
    Stream& stream = find(handle);
    if (stream.capture == nullptr) return check_implicit(stream);
    stream.capture->is_spoilt = true;
    refuse(cudaErrorStreamCaptureUnsupported, "a stream is waited for during its capture.");
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return attempt([&] {
    const std::lock_guard lock(state().mutex);
    const Stream& stream = find(handle);
    *status = stream.capture == nullptr   ? cudaStreamCaptureStatusNone
              : stream.capture->is_spoilt ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return on_device([&] { begin_capture(stream, new Graph, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return on_device([&] {
    if (graph != nullptr) *graph = nullptr;
    Graph* const made = end_capture(stream);
    if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(made);
  });
}

}  // extern "C"
