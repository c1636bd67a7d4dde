// Events: everything before one is over when it is recorded, as streams run at once.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "common/machine/runtime/status.h"
#include "common/machine/runtime/stream_state.h"

namespace machine::runtime {
namespace {

cudaError_t record_event(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags) {
  const std::lock_guard lock(state().mutex);
  Event* const event = find(handle);
  Stream* const stream = find(stream_handle);
  if (event == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr && (flags & cudaEventRecordExternal) != 0) {
    note_operation(stream);
    stream->capture->graph->add(cudaGraphNodeTypeEventRecord, [event] {
      event->is_recorded = true;
      event->time = Clock::now();
    });
    return cudaSuccess;
  }
  event->capture = stream->capture;
  event->captured_in = stream;
  event->captured_at = stream->captured;
  if (stream->capture != nullptr) return cudaSuccess;
  event->is_recorded = true;
  event->time = Clock::now();
  return check_implicit(stream);
}

cudaError_t wait_event(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
  const std::lock_guard lock(state().mutex);
  Event* const event = find(handle);
  Stream* const stream = find(stream_handle);
  if (event == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
  const bool is_external = (flags & cudaEventWaitExternal) != 0;
  if (event->capture == nullptr || is_external) {
    if (stream->capture == nullptr || is_external) return cudaSuccess;
    stream->capture->is_spoilt = true;
    return refuse(cudaErrorStreamCaptureIsolation,
                  "a captured stream waits for an event that was recorded outside the capture.");
  }
  if (stream->capture == nullptr) stream->capture = event->capture;  // a fork joins the capture
  if (stream->capture != event->capture) return cudaErrorStreamCaptureMerge;
  if (event->captured_in == stream) return cudaSuccess;
  note_operation(stream);
  if (event->captured_at == event->captured_in->captured) event->captured_in->is_joined = true;
  return cudaSuccess;
}

}  // namespace
}  // namespace machine::runtime

using namespace machine::runtime;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return on_device([&] {
    if (event == nullptr) return cudaErrorInvalidValue;
    const auto made = new Event;
    made->flags = flags;
    const std::lock_guard lock(state().mutex);
    state().events.insert(made);
    *event = reinterpret_cast<cudaEvent_t>(made);
    return cudaSuccess;
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
  return on_device([&] { return record_event(event, stream, flags); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return on_device([&] {
    const std::lock_guard lock(state().mutex);
    const Event* const event = find(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    return event->capture == nullptr ? cudaSuccess : cudaErrorCapturedEvent;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return cudaEventSynchronize(event);
}

// Time of this computer, which says nothing about a GPU; more than 0, so that rates can be formed.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return on_device([&] {
    const std::lock_guard lock(state().mutex);
    const Event *const first = find(start), *const last = find(end);
    for (const Event* event : {first, last}) {
      if (event == nullptr || !event->is_recorded) return cudaErrorInvalidResourceHandle;
      if ((event->flags & cudaEventDisableTiming) != 0) return cudaErrorInvalidResourceHandle;
    }
    constexpr float LEAST_MS = 0.0005f;  // the resolution of events on a GPU
    const std::chrono::duration<float, std::milli> between = last->time - first->time;
    *ms = std::max(between.count(), LEAST_MS);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return on_device([&] { return wait_event(stream, event, flags); });
}

}  // extern "C"
