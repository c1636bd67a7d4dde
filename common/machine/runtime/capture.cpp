// Stream captures: how they begin and end, what they refuse meanwhile, and what is told of them.
#include <utility>

#include "common/machine/runtime/stream_state.h"

namespace machine::runtime {

constinit thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

void begin_capture(cudaStream_t handle, Graph* graph, cudaStreamCaptureMode mode,
                   std::vector<Node*> last) {
  const std::lock_guard lock(state().mutex);
  Stream& stream = find(handle);
  require(&stream != &state().legacy, cudaErrorStreamCaptureUnsupported);
  require(stream.capture == nullptr, cudaErrorIllegalState);
  auto made = graph == nullptr ? std::make_unique<Graph>() : nullptr;
  if (made != nullptr) graph = made.get();
  stream.capture = std::make_shared<Capture>(Capture{
      std::move(made), graph, &stream, mode, std::this_thread::get_id(), ++state().last_id, false});
  stream.last = std::move(last);
  state().captures.insert(stream.capture);
}

static Graph* end_capture(cudaStream_t handle) {
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
  static_cast<void>(capture->made.release());  // the caller's
  return capture->graph;
}

void note_operation(Stream& stream) {
  ++stream.captured;
  stream.is_joined = stream.capture->origin == &stream;
}

void capture_node(Stream& stream, Content content) {
  note_operation(stream);
  stream.last = {stream.capture->graph->add(std::move(content), std::move(stream.last))};
}

bool is_capturing(cudaStream_t handle) {
  const std::lock_guard lock(state().mutex);
  return find(handle).capture != nullptr;
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

extern "C" {

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return with_stream(handle, [&](const Stream& stream) {
    *status = stream.capture == nullptr   ? cudaStreamCaptureStatusNone
              : stream.capture->is_spoilt ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return on_device([&] { begin_capture(stream, nullptr, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return on_device([&] {
    if (graph != nullptr) *graph = nullptr;
    Graph* const made = end_capture(stream);
    if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(made);
  });
}

}  // extern "C"
}  // namespace machine::runtime
