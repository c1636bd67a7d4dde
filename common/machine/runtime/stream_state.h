// The streams, events and captures that there are: for those whose calls
// these are. They use what stands here with the state's mutex held.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "common/machine/runtime/beside.h"

namespace machine::runtime {

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

// The one instance.
State& state();
// Fail if there is no such stream or event.
Stream& find(cudaStream_t handle);
Event& find(cudaEvent_t handle);

// Refuses work in the legacy stream, which waits for every blocking stream, while one is captured.
void check_implicit(const Stream& stream);
// The grids of the stream have ended before what comes next in it begins; of one that has had none
// it is not known what was before.
void end_grids(Stream& stream);
// The streams' pieces that what comes next in this one waits for without being told.
Pieces known_to(Stream& stream);
// The host has waited for these, or they are too many.
void forget(Pieces gone);

// Begins to capture the stream, behind nodes of the graph; without a graph it makes one.
void begin_capture(cudaStream_t handle, Graph* graph, cudaStreamCaptureMode mode,
                   std::vector<Node*> last = {});
// Of this thread: cudaThreadExchangeStreamCaptureMode.
extern constinit thread_local cudaStreamCaptureMode thread_mode;
// Counts an operation that is captured in the stream.
void note_operation(Stream& stream);
// Adds a node behind the stream's last ones.
void capture_node(Stream& stream, Content content);

// Locks, and calls body(stream).
template <class Body>
cudaError_t with_stream(cudaStream_t handle, Body body) {
  return attempt([&] {
    const std::lock_guard lock(state().mutex);
    body(find(handle));
  });
}

}  // namespace machine::runtime
