// Streams, events, and captures: work runs when it is submitted, so that everything before an event is
// over when it is recorded. What work is it knows only so far that some ends the grids before it.
// What each piece of work waits for it keeps all the same: one that lacks a wait is reported.
#include "common/machine/runtime/stream.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "common/machine/run/settings.h"
#include "common/machine/runtime/beside.h"
#include "common/machine/runtime/status.h"

namespace machine::runtime {
namespace {

using Clock = std::chrono::steady_clock;

struct Stream;

struct Capture {
  std::unique_ptr<Graph> made;  // for it, until it ends well
  Graph* graph = nullptr;
  Stream* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  unsigned long long id = 0;
  bool is_spoilt = false;
};

struct Stream {
  unsigned flags = cudaStreamDefault;
  int priority = 0;
  unsigned long long id = 0;
  std::shared_ptr<Capture> capture = {};  // the one that this stream is part of
  long long captured = 0;                 // operations submitted or waited for in the capture
  bool is_joined = true;                  // another stream waits for all of them
  std::vector<Node*> last = {};           // nodes that the next one depends on
  std::map<cudaStreamAttrID, cudaStreamAttrValue> attributes = {};  // that were set
  GridBefore before = {};
  Pieces known = 0;  // what comes next in it is behind these
};

struct Event {
  unsigned flags = cudaEventDefault;
  bool is_recorded = false;
  unsigned long long grids = 0;  // in its stream at that time
  Pieces known = 0;              // Stream::known at that time
  Clock::time_point time;
  std::shared_ptr<Capture> capture;  // set by a record in a capture
  Stream* captured_in = nullptr;
  long long captured_at = 0;  // Stream::captured at that time
  std::vector<Node*> last;    // Stream::last at that time
};

struct State {
  std::mutex mutex;
  Stream legacy{.id = 1}, per_thread{.id = 2};
  PiecesBeside beside;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<std::shared_ptr<Capture>> captures;
  unsigned long long last_id = 2;
};

// The one instance; everything below is called with its mutex held.
State& state() {
  static State* const instance = new State;
  return *instance;
}

// Fail if there is no such stream or event.
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

// Refuses work in the legacy stream, which waits for every blocking stream, while one is captured.
void check_implicit(const Stream& stream) {
  if (&stream != &state().legacy) return;
  for (const auto& capture : state().captures) {
    if ((capture->origin->flags & cudaStreamNonBlocking) != 0) continue;
    capture->is_spoilt = true;
    refuse(cudaErrorStreamCaptureImplicit,
           "work in the legacy stream while a stream is captured that it waits for.");
  }
}

// The grids of the stream have ended before what comes next in it begins; of one that has had none
// it is not known what was before.
void end_grids(Stream& stream) {
  if (stream.before.number != 0) stream.before.lets_next = false;
}

void end_grids_of_blocking_streams() {
  for (Stream* stream : state().streams) {
    if ((stream->flags & cudaStreamNonBlocking) == 0) end_grids(*stream);
  }
  end_grids(state().per_thread);
}

// The streams' pieces that what comes next in this one waits for without being told.
Pieces known_to(Stream& stream) {
  const auto is_blocking = [](const Stream& other) {
    return (other.flags & cudaStreamNonBlocking) == 0;
  };
  Stream& legacy = state().legacy;
  if (&stream == &legacy) {
    for (const Stream* other : state().streams) {
      if (is_blocking(*other)) legacy.known |= other->known;
    }
    legacy.known |= state().per_thread.known;
  } else if (is_blocking(stream)) {
    stream.known |= legacy.known;
  }
  return stream.known;
}

// The host has waited for these, or they are too many.
void forget(Pieces gone) {
  state().beside.forget(gone);
  for (Stream* stream : state().streams) stream->known &= ~gone;
  for (Event* event : state().events) event->known &= ~gone;
  state().legacy.known &= ~gone;
  state().per_thread.known &= ~gone;
}

std::string name_of(const Stream& stream) {
  if (&stream == &state().legacy) return DEFAULT_STREAM;
  if (&stream == &state().per_thread) return "the per-thread default stream";
  const bool blocks = (stream.flags & cudaStreamNonBlocking) == 0;
  return joined("stream ", stream.id, blocks ? "" : " (non-blocking)");
}

// Counts an operation that is captured in the stream.
void note_operation(Stream& stream) {
  ++stream.captured;
  stream.is_joined = stream.capture->origin == &stream;
}

// Adds a node behind the stream's last ones.
void capture_node(Stream& stream, Content content) {
  note_operation(stream);
  stream.last = {stream.capture->graph->add(std::move(content), std::move(stream.last))};
}

// Of the thread: cudaThreadExchangeStreamCaptureMode.
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
thread_local cudaStream_t working = nullptr;

// Whether there may be work beside it: in another stream, or of its graph.
bool can_be_beside(const Content& content) {
  if (!settings().check || settings().ignored.contains(rule::STREAM_RACE.name)) return false;
  const std::lock_guard lock(state().mutex);
  return !state().streams.empty() || working == cudaStreamPerThread ||
         content.type == cudaGraphNodeTypeGraph || piece_under_way() != nullptr;
}

class UnderWay {
 public:
  explicit UnderWay(Piece* piece) : outer_(std::exchange(piece_under_way(), piece)) {}
  ~UnderWay() { piece_under_way() = outer_; }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  Piece* const outer_;
};

cudaError_t create_stream(cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return record(cudaErrorInvalidValue);
  }
  return on_device([&] {
    const std::lock_guard lock(state().mutex);
    const auto made = new Stream{.flags = flags, .priority = priority, .id = ++state().last_id};
    state().streams.insert(made);
    *stream = reinterpret_cast<cudaStream_t>(made);
  });
}

// Without a graph it makes one.
void begin_capture(cudaStream_t handle, Graph* graph, cudaStreamCaptureMode mode,
                   std::vector<Node*> last = {}) {
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
  static_cast<void>(capture->made.release());  // the caller's
  return capture->graph;
}

// Calls body(stream).
template <class Body>
cudaError_t with_stream(cudaStream_t handle, Body body) {
  return attempt([&] {
    const std::lock_guard lock(state().mutex);
    body(find(handle));
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

Node* Graph::add(Content content, std::vector<Node*> after) {
  nodes.push_back(std::make_unique<Node>(Node{std::move(content), this, std::move(after)}));
  return nodes.back().get();
}

Content calling(const cudaHostNodeParams& params) {
  require(params.fn != nullptr);
  return {cudaGraphNodeTypeHost, [params] { params.fn(params.userData); }, nullptr, nullptr,
          params};
}

// Does what a node does, in the stream that this thread works in.
static void run(const Content& content) {
  const bool ends = content.type == cudaGraphNodeTypeMemcpy ||
                    content.type == cudaGraphNodeTypeMemset ||
                    content.type == cudaGraphNodeTypeHost || content.type == cudaGraphNodeTypeGraph;
  const auto end = [ends] {
    const std::lock_guard lock(state().mutex);
    Stream& stream = find(working);
    if (ends) end_grids(stream);
    if (&stream == &state().legacy) return end_grids_of_blocking_streams();
    if ((stream.flags & cudaStreamNonBlocking) == 0) end_grids(state().legacy);
  };
  end();
  Piece piece;
  const UnderWay under_way(can_be_beside(content) ? &piece : nullptr);
  content.work();
  if (ends) end();                                                 // a graph's own
  if (content.type == cudaGraphNodeTypeHost) host_waits(working);  // it may tell the host
  if (piece.accesses.empty()) return;
  const std::lock_guard lock(state().mutex);
  Stream& stream = find(working);
  piece.stream = name_of(stream);
  const Pieces known = known_to(stream);
  stream.known |= state().beside.add(std::move(piece), known, forget);
}

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
  run(content);
}

Pieces run(const std::vector<Step>& steps, Pieces behind) {
  const auto exchange = [](Pieces known) {
    const std::lock_guard lock(state().mutex);
    return std::exchange(find(working).known, known);
  };
  const Pieces before = exchange(0) | behind;
  Pieces all = before;
  std::vector<Pieces> known(steps.size(), before);
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const size_t step : steps[i].after) known[i] |= known[step];
    exchange(known[i]);
    if (steps[i].enabled) run(steps[i]);
    all |= known[i] = exchange(0);
  }
  exchange(all);
  return all;
}

bool is_capturing(cudaStream_t handle) {
  const std::lock_guard lock(state().mutex);
  return find(handle).capture != nullptr;
}

GridBefore grid_before() {
  const std::lock_guard lock(state().mutex);
  return find(working).before;
}

void set_grid_before(GridBefore before) {
  const std::lock_guard lock(state().mutex);
  find(working).before = std::move(before);
}

void end_all_grids() {
  const std::lock_guard lock(state().mutex);
  for (Stream* stream : state().streams) end_grids(*stream);
  end_grids(state().per_thread);
  end_grids(state().legacy);
  forget(~Pieces{0});
}

void host_waits(cudaStream_t handle) {
  const std::lock_guard lock(state().mutex);
  forget(known_to(find(handle)));
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

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create_stream(stream, cudaStreamDefault, 0);
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
    if (event->captured_in == stream) event->capture = nullptr, event->captured_in = nullptr;
  }
  if ((stream->flags & cudaStreamNonBlocking) == 0) state().legacy.known |= stream->known;
  delete stream;
  return cudaSuccess;
}

// Waits for nothing: all work has run. Of a stream in a capture it is refused.
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return on_device([&] {
    const std::lock_guard lock(state().mutex);
    Stream& stream = find(handle);
    if (stream.capture == nullptr) {
      end_grids(stream);
      forget(known_to(stream));
      return check_implicit(stream);
    }
    stream.capture->is_spoilt = true;
    refuse(cudaErrorStreamCaptureUnsupported, "a stream is waited for during its capture.");
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return cudaStreamSynchronize(stream);
}

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

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return with_stream(handle, [=](const Stream& stream) { *flags = stream.flags; });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return with_stream(handle, [=](const Stream& stream) { *priority = stream.priority; });
}

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

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return with_stream(handle, [=](const Stream& stream) { *id = stream.id; });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return with_stream(handle, [=](const Stream&) { *device = 0; });
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
  return with_stream(handle, [=](Stream& stream) {
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
    require(graph != nullptr);
    const auto nodes = reinterpret_cast<Node* const*>(after);
    begin_capture(stream, reinterpret_cast<Graph*>(graph), mode, {nodes, nodes + count});
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

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
