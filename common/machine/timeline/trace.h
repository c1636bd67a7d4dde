// The timeline of a launch, on an illustrative clock: a model, calibrated by nothing but round
// figures, that shows who waits for whom. The events are those of scripts/trace.py.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/machine/run/state.h"

namespace machine {

// Cycles of the model. An H200 multiplies m64nNk32B in N/2 cycles, one at a time an SM.
struct Model {
  static constexpr uint64_t INSTRUCTION = 4;     // issue of a warp instruction
  static constexpr uint64_t COPY_LATENCY = 600;  // of a TMA or bulk copy
  static constexpr uint64_t COPY_BYTES = 64;     // a cycle, into or out of one SM
  static constexpr uint64_t WGMMA_LATENCY = 64;  // on top of its N/2
};

// Of one cluster, filled while it runs eagerly. Times are cycles since its start.
class Trace {
 public:
  struct Event {
    std::string name;
    uint32_t cta, warp;
    uint64_t begin, end;
    bool instant;
    std::string args;  // JSON members
  };

  explicit Trace(Cluster& cluster) : cluster_(cluster) {}

  // mbarriers: when the phase under way completes is when the last of its arrivals and bytes is.
  void arrive(Warp& warp, uint32_t address, uint32_t tx_bytes);
  void bytes_land(uint32_t address, uint64_t time) { mbarriers_[address].reach(time); }
  void phase_complete(uint32_t address) { mbarriers_[address].end_phase(); }
  void wait_mbarrier(Warp& warp, uint32_t address, uint32_t parity);

  // Named barriers and the cluster's, by a key of the caller's.
  void barrier_arrive(Warp& warp, uint64_t key) { barriers_[key].reach(warp.clock); }
  void barrier_complete(uint64_t key) { barriers_[key].end_phase(); }
  void barrier_wait(Warp& warp, uint64_t key) { wait(warp, "bar", barriers_[key].complete); }

  // A copy that `warp` starts; returns when it is done. `name` as in scripts/trace.py.
  uint64_t copy(Warp& warp, const char* name, uint32_t smem, uint64_t bytes, uint32_t mbarrier);
  // The warp goes on at `time` if it is later, and has waited till then.
  void wait(Warp& warp, const char* name, uint64_t time);

  // A wgmma operation of which `warp` is the last to issue; returns when it is done.
  uint64_t wgmma(Warp& warp, uint32_t n);

  void store(Warp& warp);  // to global memory, or stmatrix: neighbours make an epilogue

  const std::vector<Event>& events();

 private:
  struct Barrier {
    uint64_t pending = 0, complete = 0;
    void reach(uint64_t time) { pending = std::max(pending, time); }
    void end_phase() { complete = std::exchange(pending, 0); }
  };
  struct Epilogue {
    uint64_t begin = 0, end = 0;
    std::string place;
  };
  void add(const Warp& warp, const char* name, uint64_t begin, uint64_t end, bool instant,
           const std::string& args);
  void end_epilogue(const Warp& warp);

  Cluster& cluster_;
  std::vector<Event> events_;
  std::map<uint32_t, Barrier> mbarriers_;
  std::map<uint64_t, Barrier> barriers_;
  std::map<const Cta*, uint64_t> copy_free_, tensor_free_;  // when the SM's engine is free
  std::map<const Warp*, Epilogue> epilogues_;
};

// Writes the events of a launch's clusters as scripts/trace.py wants them; of several launches of a
// process, the one with the most events is kept. Throws Error (refused) if the file cannot be
// written.
void write_trace(const Grid& grid, std::vector<Trace::Event> events, const std::string& file);

}  // namespace machine
