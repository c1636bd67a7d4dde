// Streams, events, capture and graphs. Nothing is asynchronous here: what is submitted to a stream
// has run when the call returns, unless the stream is being captured.
#pragma once

#include <driver_types.h>

#include <functional>
#include <memory>
#include <vector>

namespace machine::runtime {

using Work = std::function<void()>;

struct KernelNode;  // the launch that a kernel node is made of
struct Graph;

struct Node {
  cudaGraphNodeType type;
  Work work;
  std::shared_ptr<const KernelNode> kernel;
  Graph* graph;
  std::vector<Node*> after;  // nodes that it depends on
  void* memory = nullptr;    // that it allocates or frees
};

// Nodes in the order of capture, or of addition.
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  Node* add(cudaGraphNodeType type, Work work, std::shared_ptr<const KernelNode> kernel = nullptr,
            void* memory = nullptr);
};

// Runs the work now, or records it if the stream is being captured. What it throws passes through.
void submit(cudaStream_t stream, cudaGraphNodeType type, Work work,
            std::shared_ptr<const KernelNode> kernel = nullptr, void* memory = nullptr);
// Whether the stream is being captured.
bool is_capturing(cudaStream_t stream);
// Of the work that this thread is doing.
cudaStream_t working_stream();

// Fails with cudaErrorStreamCaptureUnsupported, and spoils the capture, if this thread may not make an
// unsafe call now (allocate, free, wait for the device) because of a capture that is going on.
void check_no_capture();

}  // namespace machine::runtime
