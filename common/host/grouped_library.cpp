#include "common/host/grouped_library.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "common/host/cublas_grouped.h"
#include "common/host/error.h"

namespace ladder {
namespace {

constexpr int LANES = 8, ALGORITHMS = 8;

struct Event {
  cudaEvent_t event = nullptr;

  Event() {
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  }
  ~Event() { cudaEventDestroy(event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

// One of several streams, and what a library needs for its own there: a workspace.
struct Lane {
  CublasLt cublas;
  cudaStream_t stream = nullptr;
  Event done;

  Lane() {
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  }
  ~Lane() { cudaStreamDestroy(stream); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
};

// Each group of each call as cuBLASLt is told of it. e4m3: it wants a group's scales of A one row
// of K blocks after another, [ceil(k/128)][rows of the group], so they are copied.
class GroupCalls {
 public:
  GroupCalls(const std::vector<GroupedArgs>& calls, const std::vector<tile::GroupRows>& rows) {
    for (const GroupedArgs& call : calls) {
      std::vector<LibraryCall>& all = calls_[call.d];
      for (const GroupCall& group : calls_of_groups(call, rows)) {
        all.push_back(call.type == LADDER_E4M3 ? scaled(group.scaled)
                                               : library_call(group.product));
      }
    }
  }

  const std::vector<LibraryCall>& of(const GroupedArgs& call) const { return calls_.at(call.d); }

 private:
  LibraryCall scaled(const BlockScaledArgs& from) {
    MatmulArgs<e4m3, bf16> to;
    static_cast<Call&>(to) = from;
    to.a = static_cast<const e4m3*>(from.a);
    to.lda = from.lda;
    to.b = static_cast<const e4m3*>(from.b);
    to.ldb = from.ldb;
    to.d = from.d;
    to.ldd = from.ldd;
    LibraryCall call = library_call(to);
    const size_t row_bytes = static_cast<size_t>(from.m) * sizeof(float);
    const auto blocks = static_cast<size_t>(scale_blocks(from.k));
    scales_.emplace_back(row_bytes * blocks);
    check_cuda(cudaMemcpy2D(scales_.back().data(), row_bytes, from.scale_a,
                            static_cast<size_t>(from.ld_scale_a) * sizeof(float), row_bytes, blocks,
                            cudaMemcpyDeviceToDevice),
               "copying scales");
    call.scales = LibraryScales::blocks;
    call.scale_a = scales_.back().as<float>();
    call.scale_b = from.scale_b;
    return call;
  }

  std::map<const void*, std::vector<LibraryCall>> calls_;  // by D
  std::vector<DeviceBuffer> scales_;
};

using Algorithms = std::vector<std::shared_ptr<CublasLt::Algorithm>>;

// All groups, `lanes` of them at a time. Streams fork from the call's and join it again.
void run_groups(const std::vector<std::unique_ptr<Lane>>& lanes, int count,
                const std::vector<LibraryCall>& groups, const std::map<int, Algorithms>& algorithms,
                size_t rank, cudaEvent_t start, cudaStream_t stream) {
  count = std::min(count, static_cast<int>(groups.size()));
  if (count > 1) {
    check_cuda(cudaEventRecord(start, stream), "recording an event");
    for (int i = 0; i < count; ++i) {
      check_cuda(cudaStreamWaitEvent(lanes[i]->stream, start, 0), "waiting for an event");
    }
  }
  int lane = 0;
  for (LibraryCall call : groups) {
    call.stream = count > 1 ? lanes[lane]->stream : stream;
    const Algorithms& offered = algorithms.at(call.m);
    lanes[lane]->cublas.run(*offered[std::min(rank, offered.size() - 1)], call);
    lane = (lane + 1) % count;
  }
  for (int i = 0; count > 1 && i < count; ++i) {
    check_cuda(cudaEventRecord(lanes[i]->done.event, lanes[i]->stream), "recording an event");
    check_cuda(cudaStreamWaitEvent(stream, lanes[i]->done.event, 0), "waiting for an event");
  }
}

}  // namespace

std::vector<LibraryCandidate> grouped_library_candidates(const std::vector<GroupedArgs>& calls,
                                                         const std::vector<tile::GroupRows>& rows) {
  std::vector<LibraryCandidate> all;
  const auto groups = std::make_shared<GroupCalls>(calls, rows);
  const auto lanes = std::make_shared<std::vector<std::unique_ptr<Lane>>>();
  for (int i = 0; i < LANES; ++i) lanes->push_back(std::make_unique<Lane>());
  const auto start = std::make_shared<Event>();
  const auto algorithms = std::make_shared<std::map<int, Algorithms>>();
  size_t most = 0;
  for (const LibraryCall& call : groups->of(calls[0])) {
    if (algorithms->contains(call.m)) continue;
    Algorithms offered = (*lanes)[0]->cublas.candidates(call, ALGORITHMS);
    if (offered.empty()) return {};  // it does not support this group
    most = std::max(most, offered.size());
    (*algorithms)[call.m] = std::move(offered);
  }
  for (size_t rank = 0; rank < most; ++rank) {
    for (const int count : {1, LANES}) {
      const auto launch = [=](const Call& call) {
        run_groups(*lanes, count, groups->of(static_cast<const GroupedArgs&>(call)), *algorithms,
                   rank, start->event, call.stream);
      };
      const std::string first = CublasLt::describe(
          *algorithms->begin()->second[std::min(rank, algorithms->begin()->second.size() - 1)]);
      all.push_back(
          {{"cuBLASLt", launch}, (count == 1 ? "one stream, " : "eight streams, ") + first});
    }
  }
  if (calls[0].type == LADDER_E4M3) return all;
  try {
    const auto grouped = std::make_shared<std::map<const void*, std::unique_ptr<CublasGrouped>>>();
    for (const GroupedArgs& call : calls) {
      std::vector<GemmArgs> products;
      for (const GroupCall& group : calls_of_groups(call, rows)) products.push_back(group.product);
      (*grouped)[call.d] = std::make_unique<CublasGrouped>(products);
    }
    all.push_back({{"cuBLAS",
                    [=](const Call& call) {
                      grouped->at(static_cast<const GroupedArgs&>(call).d)->run(call.stream);
                    }},
                   "cublasGemmGroupedBatchedEx"});
  } catch (const CudaError&) {  // a toolkit without it
    cudaGetLastError();
  }
  return all;
}

}  // namespace ladder
