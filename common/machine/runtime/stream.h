// Streams, events, capture and graphs. Nothing is asynchronous here: what is submitted to a stream
// has run when the call returns, unless the stream is being captured.
#pragma once

#include <driver_types.h>

#include <any>
#include <functional>
#include <memory>
#include <vector>

#include "common/machine/runtime/status.h"

namespace machine {
class Footprint;
}

namespace machine::runtime {

using Work = std::function<void()>;
// Pieces of work that the host has not waited for yet, a bit each.
using Pieces = uint64_t;

struct KernelNode;  // the launch that a kernel node is made of
struct Graph;

// What a node does.
struct Content {
  cudaGraphNodeType type;
  Work work;
  std::shared_ptr<const KernelNode> kernel = nullptr;
  void* memory = nullptr;  // that it allocates or frees
  std::any params = {};    // of a copy, a fill or a host function
};

struct Node : Content {
  Graph* graph;
  std::vector<Node*> after;  // nodes that it depends on
};

// Nodes in the order of capture, or of addition.
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  std::weak_ptr<void> instance = {};  // of one with memory of its own: it may have one at a time
  std::vector<std::shared_ptr<void>> objects = {};  // user objects that it keeps, one a reference
  Node* add(Content content, std::vector<Node*> after = {});
};

// Runs the work now, or records it if the stream is being captured. What it throws passes through.
void submit(cudaStream_t stream, Content content);
// Whether the stream is being captured.
bool is_capturing(cudaStream_t stream);

// The last grid of a stream, as a dependent launch behind it sees it.
struct GridBefore {
  unsigned long long number = 0;  // how many there have been
  bool lets_next = true;          // it may still run then; one that is not known may
  std::shared_ptr<const Footprint> grids = nullptr;  // LaunchConfig::before
};
// Of the stream that this thread works in.
GridBefore grid_before();
void set_grid_before(GridBefore before);
// The host has waited for all that has been launched; for what has been submitted to the stream.
void end_all_grids();
void host_waits(cudaStream_t stream);
// What a graph is made of, when it runs.
struct Step : Content {
  const Node* node;           // which it is made of; it may be gone
  std::vector<size_t> after;  // steps in front of it
  bool enabled = true;
};
// Runs them in the stream that this thread works in, behind some pieces. Returns what the next
// launch is behind.
Pieces run(const std::vector<Step>& steps, Pieces behind = 0);

// Fails with cudaErrorStreamCaptureUnsupported, and spoils the capture, if this thread may not make an
// unsafe call now (allocate, free, wait for the device) because of a capture that is going on.
void check_no_capture();
// Runs the body of a call that is unsafe so.
template <class Body>
cudaError_t outside_capture(Body body) {
  return on_device([&] {
    check_no_capture();
    body();
  });
}

}  // namespace machine::runtime
