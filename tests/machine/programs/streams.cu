// Work in several streams, or in branches of a graph, with one wait left out:
//
//   streams CASE HOW    HOW: right, which waits; wrong, which does not
#include <cuda_runtime.h>

#include <cstring>
#include <vector>

#include "check.h"

constexpr int N = 1000, THREADS = 128;

__global__ void fill(int* data, int n, int value) {
  const auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) data[i] = value + i;
}

__global__ void add(int* out, const int* a, const int* b, int n) {
  const auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = a[i] + b[i];
}

__global__ void count(int* counter) {
  atomicAdd(counter, 1);
}

// The one kernel stores a flag, the other waits for it: they synchronise by themselves.
__global__ void send(int* data, int* flag) {
  data[0] = 7;
  __threadfence();
  atomicExch(flag, 1);
}
__global__ void receive(const int* data, int* flag, int* out) {
  while (atomicAdd(flag, 0) == 0) {
  }
  __threadfence();
  out[0] = data[0];
}

namespace {

int blocks(int n) {
  return (n + THREADS - 1) / THREADS;
}

struct Streams {
  cudaStream_t one = nullptr, two = nullptr;
  cudaEvent_t event = nullptr;
  int *a = nullptr, *b = nullptr, *c = nullptr;
  bool right;

  explicit Streams(bool right, unsigned flags = cudaStreamDefault) : right(right) {
    CHECK(cudaStreamCreateWithFlags(&one, flags) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&two, flags) == cudaSuccess);
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
    for (int** data : {&a, &b, &c}) {
      CHECK(cudaMalloc(data, N * sizeof(int)) == cudaSuccess);
      CHECK(cudaMemset(*data, 0, N * sizeof(int)) == cudaSuccess);
    }
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
  }
  // What comes next in `two` is behind what `one` has.
  void order() {
    if (right) CHECK(cudaEventRecord(event, one) == cudaSuccess);
    if (right) CHECK(cudaStreamWaitEvent(two, event, 0) == cudaSuccess);
  }
  void make() { fill<<<blocks(N), THREADS, 0, one>>>(a, N, 5); }
  void use() { add<<<blocks(N), THREADS, 0, two>>>(c, a, b, N); }
  void check(const int* data, int factor, int value) {
    std::vector<int> host(N);
    CHECK(cudaStreamSynchronize(two) == cudaSuccess);
    CHECK(cudaMemcpy(host.data(), data, N * sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess);
    for (int i = 0; i < N; ++i) CHECK(host[i] == factor * (value + i));
  }
};

void event(bool right) {
  Streams s(right);
  s.make();
  s.order();
  s.use();
  s.check(s.c, 1, 5);
}

// The kernel of the second round overwrites what the other stream still reads.
void again(bool right) {
  Streams s(true);
  for (int round = 0; round < 2; ++round) {
    s.make();
    s.order();
    s.use();
    if (!right) continue;
    CHECK(cudaEventRecord(s.event, s.two) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(s.one, s.event, 0) == cudaSuccess);
  }
  s.check(s.c, 1, 5);
}

// A wait for an event that is recorded behind it waits for nothing.
void early(bool right) {
  Streams s(right);
  s.make();
  if (right) CHECK(cudaEventRecord(s.event, s.one) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(s.two, s.event, 0) == cudaSuccess);
  if (!right) CHECK(cudaEventRecord(s.event, s.one) == cudaSuccess);
  s.use();
  s.check(s.c, 1, 5);
}

// Streams that are not of cudaStreamNonBlocking wait for the default stream, and it for them.
void nonblocking(bool right) {
  Streams s(true, right ? cudaStreamDefault : cudaStreamNonBlocking);
  fill<<<blocks(N), THREADS>>>(s.a, N, 5);
  s.use();
  s.check(s.c, 1, 5);
}

// So does cudaMemcpy, which is work of the default stream.
void copy(bool right) {
  Streams s(right, cudaStreamNonBlocking);
  s.make();
  if (right) CHECK(cudaStreamSynchronize(s.one) == cudaSuccess);
  s.check(s.a, 1, 5);
}

void host(bool right) {
  Streams s(right);
  int* pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, N * sizeof(int)) == cudaSuccess);
  for (int i = 0; i < N; ++i) pinned[i] = i;
  CHECK(cudaMemcpyAsync(s.a, pinned, N * sizeof(int), cudaMemcpyHostToDevice, s.one) ==
        cudaSuccess);
  CHECK(cudaEventRecord(s.event, s.one) == cudaSuccess);
  if (right) CHECK(cudaEventSynchronize(s.event) == cudaSuccess);
  s.use();
  s.check(s.c, 1, 0);
}

void pool(bool right) {
  Streams s(right);
  int* data = nullptr;
  CHECK(cudaMallocAsync(&data, N * sizeof(int), s.one) == cudaSuccess);
  fill<<<blocks(N), THREADS, 0, s.one>>>(data, N, 5);
  CHECK(cudaEventRecord(s.event, s.one) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(s.two, s.event, 0) == cudaSuccess);
  add<<<blocks(N), THREADS, 0, s.two>>>(s.c, data, s.b, N);
  CHECK(cudaFreeAsync(data, right ? s.two : s.one) == cudaSuccess);
  s.check(s.c, 1, 5);
}

// Two branches of a graph that fork behind `fill` and join at the end.
void graph(bool right) {
  Streams s(right);
  cudaGraph_t made = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaStreamBeginCapture(s.one, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(cudaMemsetAsync(s.b, 0, N * sizeof(int), s.one) == cudaSuccess);
  CHECK(cudaEventRecord(s.event, s.one) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(s.two, s.event, 0) == cudaSuccess);
  s.make();
  s.order();
  s.use();
  CHECK(cudaEventRecord(s.event, s.two) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(s.one, s.event, 0) == cudaSuccess);
  fill<<<blocks(N), THREADS, 0, s.one>>>(s.b, N, 0);
  CHECK(cudaStreamEndCapture(s.one, &made) == cudaSuccess);
  CHECK(cudaGraphInstantiate(&executable, made, 0) == cudaSuccess);
  CHECK(cudaGraphLaunch(executable, s.two) == cudaSuccess);
  s.check(s.c, 1, 5);
}

// Launches of one executable graph wait for each other, whatever their streams.
void launches(bool right) {
  Streams s(true);
  cudaGraph_t made = nullptr;
  cudaGraphExec_t first = nullptr, second = nullptr;
  CHECK(cudaStreamBeginCapture(s.one, cudaStreamCaptureModeGlobal) == cudaSuccess);
  s.make();
  CHECK(cudaStreamEndCapture(s.one, &made) == cudaSuccess);
  CHECK(cudaGraphInstantiate(&first, made, 0) == cudaSuccess);
  CHECK(cudaGraphInstantiate(&second, made, 0) == cudaSuccess);
  CHECK(cudaGraphLaunch(first, s.one) == cudaSuccess);
  CHECK(cudaGraphLaunch(right ? first : second, s.two) == cudaSuccess);
  s.check(s.a, 1, 5);
}

// A copy to pageable memory has ended when the call returns, and one from there has read it; what
// the host has been told by a function it may rely on.
void told(bool) {
  Streams s(true);
  std::vector<int> host(N);
  s.make();
  CHECK(cudaMemcpyAsync(host.data(), s.a, N * sizeof(int), cudaMemcpyDeviceToHost, s.one) ==
        cudaSuccess);
  s.use();
  CHECK(cudaMemcpyAsync(s.b, host.data(), N * sizeof(int), cudaMemcpyHostToDevice, s.two) ==
        cudaSuccess);
  CHECK(cudaMemcpyAsync(host.data(), s.a, N * sizeof(int), cudaMemcpyDeviceToHost, s.one) ==
        cudaSuccess);
  CHECK(cudaLaunchHostFunc(s.two, [](void*) {}, nullptr) == cudaSuccess);
  add<<<blocks(N), THREADS, 0, s.one>>>(s.c, s.a, s.b, N);
  CHECK(cudaStreamSynchronize(s.one) == cudaSuccess);
  s.check(s.c, 2, 5);
}

// Halves of an array, whose border is not a multiple of 8 bytes, a counter and a flag.
void apart(bool) {
  Streams s(true);
  constexpr int FIRST = 333;
  fill<<<blocks(FIRST), THREADS, 0, s.one>>>(s.a, FIRST, 5);
  fill<<<blocks(N - FIRST), THREADS, 0, s.two>>>(s.a + FIRST, N - FIRST, 5 + FIRST);
  for (const cudaStream_t stream : {s.one, s.two}) count<<<2, 32, 0, stream>>>(s.b);
  send<<<1, 1, 0, s.one>>>(s.c, s.c + 1);
  receive<<<1, 1, 0, s.two>>>(s.c, s.c + 1, s.c + 2);
  CHECK(cudaStreamSynchronize(s.one) == cudaSuccess);
  s.check(s.a, 1, 5);
  int counted = 0, received = 0;
  CHECK(cudaMemcpy(&counted, s.b, sizeof counted, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(cudaMemcpy(&received, s.c + 2, sizeof received, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(counted == 128 && received == 7);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const bool right = std::strcmp(argv[2], "right") == 0;
  const struct {
    const char* name;
    void (*run)(bool);
  } cases[] = {
      {"event", event},       {"again", again}, {"early", early}, {"nonblocking", nonblocking},
      {"copy", copy},         {"host", host},   {"pool", pool},   {"graph", graph},
      {"launches", launches}, {"told", told},   {"apart", apart}};
  for (const auto& [name, run] : cases) {
    if (std::strcmp(name, argv[1]) == 0) run(right);
  }
  std::printf("ok\n");
  return 0;
}
