// What streams and events share: captures, and who takes part in them.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "common/machine/runtime/stream.h"

namespace machine::runtime {

using Clock = std::chrono::steady_clock;

struct Stream;

struct Capture {
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
  std::shared_ptr<Capture> capture;  // the one that this stream is part of
  long long captured = 0;            // operations submitted or waited for in the capture
  bool is_joined = true;             // another stream waits for all of them
  std::vector<Node*> last;           // nodes that the next one depends on
  std::map<cudaStreamAttrID, cudaStreamAttrValue> attributes;  // that were set
};

struct Event {
  unsigned flags = cudaEventDefault;
  bool is_recorded = false;
  Clock::time_point time;
  std::shared_ptr<Capture> capture;  // set by a record in a capture
  Stream* captured_in = nullptr;
  long long captured_at = 0;  // Stream::captured at that time
  std::vector<Node*> last;    // Stream::last at that time
};

struct State {
  std::mutex mutex;
  Stream legacy, per_thread;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<std::shared_ptr<Capture>> captures;
  unsigned long long last_id = 2;
};

// The one instance; everything below is called with its mutex held.
State& state();

// Fail if there is no such stream or event.
Stream& find(cudaStream_t handle);
Event& find(cudaEvent_t handle);

// Refuses work in the legacy stream, which waits for every blocking stream, while one is captured.
void check_implicit(const Stream& stream);

// Counts an operation that is captured in the stream.
void note_operation(Stream& stream);
// Adds a node behind the stream's last ones.
void capture_node(Stream& stream, Content content);

}  // namespace machine::runtime
