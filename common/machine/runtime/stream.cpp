// Streams: work runs when it is submitted, so that everything before an event is over when it is
// recorded. What work is it knows only so far that some ends the grids before it. What each piece of
// work waits for it keeps all the same: one that lacks a wait is reported.
#include "common/machine/runtime/stream.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/machine/run/settings.h"
#include "common/machine/runtime/stream_state.h"

namespace machine::runtime {

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

void end_grids(Stream& stream) {
  if (stream.before.number != 0) stream.before.lets_next = false;
}

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

void forget(Pieces gone) {
  state().beside.forget(gone);
  for (Stream* stream : state().streams) stream->known &= ~gone;
  for (Event* event : state().events) event->known &= ~gone;
  state().legacy.known &= ~gone;
  state().per_thread.known &= ~gone;
}

namespace {

void end_grids_of_blocking_streams() {
  for (Stream* stream : state().streams) {
    if ((stream->flags & cudaStreamNonBlocking) == 0) end_grids(*stream);
  }
  end_grids(state().per_thread);
}

std::string name_of(const Stream& stream) {
  if (&stream == &state().legacy) return DEFAULT_STREAM;
  if (&stream == &state().per_thread) return "the per-thread default stream";
  const bool blocks = (stream.flags & cudaStreamNonBlocking) == 0;
  return joined("stream ", stream.id, blocks ? "" : " (non-blocking)");
}

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

}  // namespace

Node* Graph::add(Content content, std::vector<Node*> after) {
  nodes.push_back(std::make_unique<Node>(Node{std::move(content), this, std::move(after)}));
  return nodes.back().get();
}

// Does what a node does, in the stream that this thread works in. `node`: of a graph, from 1 on.
static void run(const Content& content, size_t node = 0) {
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
  piece.node = node;
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
    if (steps[i].enabled) run(steps[i], i + 1);
    all |= known[i] = exchange(0);
  }
  exchange(all);
  return all;
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

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return record(cudaErrorInvalidValue);
  }
  return on_device([&] {
    const std::lock_guard lock(state().mutex);
    const auto made = new Stream{
        .flags = flags, .priority = std::clamp(priority, -5, 0), .id = ++state().last_id};
    state().streams.insert(made);
    *stream = reinterpret_cast<cudaStream_t>(made);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const std::lock_guard lock(state().mutex);
  const auto stream = reinterpret_cast<Stream*>(handle);
  if (state().streams.erase(stream) == 0) return record(cudaErrorInvalidResourceHandle);
  const bool begun = stream->capture != nullptr && stream->capture->origin == stream;
  // One that has joined the capture's own stream again may go.
  if (begun || !stream->is_joined) stream->capture->is_spoilt = true;
  if (begun) state().captures.erase(stream->capture);
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

}  // extern "C"
}  // namespace machine::runtime
