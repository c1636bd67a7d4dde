// Events: what a record remembers of its stream, and what a wait for it orders.
#include <algorithm>
#include <chrono>

#include "common/machine/runtime/stream_state.h"

namespace machine::runtime {
namespace {

void record_event(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags) {
  const std::lock_guard lock(state().mutex);
  Event& event = find(handle);
  Stream& stream = find(stream_handle);
  const auto record_now = [&event] {
    event.is_recorded = true;
    event.time = Clock::now();
  };
  if (stream.capture != nullptr && (flags & cudaEventRecordExternal) != 0) {
    return capture_node(stream, {cudaGraphNodeTypeEventRecord, record_now});
  }
  event.capture = stream.capture;
  event.captured_in = &stream;
  event.grids = stream.before.number;
  event.known = known_to(stream);
  event.captured_at = stream.captured;
  event.last = stream.last;
  if (stream.capture != nullptr) return;
  record_now();
  check_implicit(stream);
}

void wait_event(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
  const std::lock_guard lock(state().mutex);
  Event& event = find(handle);
  Stream& stream = find(stream_handle);
  const bool is_external = (flags & cudaEventWaitExternal) != 0;
  if (event.capture == nullptr || is_external) {
    stream.known |= event.known;
    if (stream.capture == nullptr || is_external) return;
    stream.capture->is_spoilt = true;
    refuse(cudaErrorStreamCaptureIsolation,
           "a captured stream waits for an event that was recorded outside the capture.");
  }
  if (!state().captures.contains(event.capture)) {
    refuse(
        cudaErrorCapturedEvent,
        "a stream waits for an event that was last recorded in a capture, which has ended: record "
        "it again.");
  }
  if (stream.capture == nullptr) stream.capture = event.capture;  // a fork joins the capture
  require(stream.capture == event.capture, cudaErrorStreamCaptureMerge);
  if (event.captured_in == &stream) return;
  note_operation(stream);
  for (Node* node : event.last) {
    if (std::find(stream.last.begin(), stream.last.end(), node) == stream.last.end()) {
      stream.last.push_back(node);
    }
  }
  if (event.captured_at == event.captured_in->captured) event.captured_in->is_joined = true;
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return on_device([&] {
    require(event != nullptr);
    const auto made = new Event;
    made->flags = flags;
    const std::lock_guard lock(state().mutex);
    state().events.insert(made);
    *event = reinterpret_cast<cudaEvent_t>(made);
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const std::lock_guard lock(state().mutex);
  const auto event = reinterpret_cast<Event*>(handle);
  if (state().events.erase(event) == 0) return record(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return on_device([&] { record_event(event, stream, flags); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return on_device([&] {
    const std::lock_guard lock(state().mutex);
    const Event& event = find(handle);
    require(event.capture == nullptr, cudaErrorCapturedEvent);
    Stream* const stream = event.captured_in;
    if (stream != nullptr && stream->before.number == event.grids) end_grids(*stream);
    forget(event.known);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return cudaEventSynchronize(event);
}

// Time of this computer, which says nothing about a GPU; more than 0, so that rates can be formed.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return on_device([&] {
    const std::lock_guard lock(state().mutex);
    const Event &first = find(start), &last = find(end);
    for (const Event* event : {&first, &last}) {
      const bool timed = event->is_recorded && (event->flags & cudaEventDisableTiming) == 0;
      require(timed, cudaErrorInvalidResourceHandle);
    }
    constexpr float LEAST_MS = 0.0005f;  // the resolution of events on a GPU
    const std::chrono::duration<float, std::milli> between = last.time - first.time;
    *ms = std::max(between.count(), LEAST_MS);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return on_device([&] { wait_event(stream, event, flags); });
}

}  // extern "C"
}  // namespace machine::runtime
