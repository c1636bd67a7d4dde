// A launch: its grid, and the worker threads that its clusters take turns on. It knows nothing of
// what warps do.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "common/machine/check/checker.h"
#include "common/machine/check/hang_report.h"
#include "common/machine/code/orderings.h"
#include "common/machine/run/cluster.h"
#include "common/machine/run/module.h"
#include "common/machine/run/scheduler.h"
#include "common/machine/run/settings.h"
#include "common/machine/run/sm.h"
#include "common/machine/timeline/trace.h"

namespace machine {
namespace {

constexpr uint64_t IDLE_TURNS = 1 << 12;  // of clusters that poll, with no change in between
constexpr uint64_t PAUSED_TOGETHER = 8;   // with as many no other one begins

// Worker threads take clusters in turn. Those that wait for other CTAs through global memory take
// turns too; as many are begun as would be resident on the chip.
class Launch {
 public:
  Launch(Grid& grid, uint64_t clusters, uint64_t resident)
      : grid_(grid), clusters_(clusters), resident_(std::max<uint64_t>(resident, 1)) {
    const bool keeps_reads = grid.config.lets_next || grid.config.accesses != nullptr;
    if (grid.check) shadow_ = std::make_shared<GlobalShadow>(keeps_reads);
  }

  void run() {
    const bool traced = !settings().trace.empty() && grid_.policy == Policy::eager;
    const uint64_t threads = traced ? 1 : std::min<uint64_t>(settings().threads, clusters_);
    if (traced) traces_.resize(clusters_);
    std::thread teller;
    if (settings().progress_s != 0) teller = std::thread([this] { tell(); });
    std::vector<std::thread> workers;
    for (uint64_t i = 1; i < threads; ++i) workers.emplace_back([this] { work(); });
    work();
    for (std::thread& worker : workers) worker.join();
    if (teller.joinable()) {
      std::unique_lock lock(mutex_);
      is_over_ = true;
      lock.unlock();
      over_.notify_one();
      teller.join();
    }
    if (error_) std::rethrow_exception(error_);
    if (shadow_) report_suspects(*shadow_, *grid_.program);
    if (shadow_ && grid_.config.accesses) shadow_->add_accesses(grid_.config.accesses);
    if (traced) write_trace(grid_, events_, settings().trace);
  }

  // What may still run when a dependent launch behind this one begins: this grid, and those that it
  // ran beside, unless it has let the other one begin only when they had ended.
  std::shared_ptr<const Footprint> may_still_run() const {
    const LaunchConfig& config = grid_.config;
    if (!config.lets_next || !shadow_) return nullptr;
    const bool beside = config.programmatic && (shadow_->lets_early || !shadow_->has_waited);
    if (beside && !config.before) return nullptr;
    auto grids =
        beside ? std::make_shared<Footprint>(*config.before) : std::make_shared<Footprint>();
    shadow_->add_accesses(grids.get());
    return grids;
  }

 private:
  using Owned = std::unique_ptr<Cluster>;

  void work() {
    try {
      while (Owned cluster = take()) {
        const uint64_t before = cluster->changes;
        const Outcome outcome = run_cluster(*cluster, cycle_of(*cluster), stop_);
        give_back(std::move(cluster), outcome, before);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stop_ = true;
      changed_.notify_all();
    }
  }

  // While the launch runs: how far it is, every so often.
  void tell() const {
    const auto wait = std::chrono::seconds(settings().progress_s);
    std::unique_lock lock(mutex_);
    for (auto ran = wait; !over_.wait_for(lock, wait, [this] { return is_over_; }); ran += wait) {
      const uint64_t done = next_ - alive_;
      lock.unlock();
      std::fprintf(
          stderr, "machine: %s under %s: %lld s, %llu warp instructions, %llu of %llu CTAs done\n",
          source_name(grid_.kernel->name).c_str(), POLICIES[static_cast<size_t>(grid_.policy)],
          static_cast<long long>(ran.count()), static_cast<unsigned long long>(grid_.executed),
          static_cast<unsigned long long>(done * grid_.ctas_per_cluster),
          static_cast<unsigned long long>(clusters_ * grid_.ctas_per_cluster));
      lock.lock();
    }
  }

  Cycle& cycle_of(const Cluster& cluster) {
    const std::lock_guard lock(mutex_);
    taken_at_[cluster.id] = generation_;
    return cycles_[cluster.id];
  }

  // The next cluster to run; null when there is none left. A new one comes before those that poll,
  // and before a few that pause. Of these two kinds one each comes in turn.
  Owned take() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (stop_) return nullptr;
      if (next_ < clusters_ && alive_ < resident_ && paused_.size() < PAUSED_TOGETHER) {
        ++alive_;
        ++running_;
        const uint64_t id = next_++;
        std::vector<std::byte> memory;
        if (!spare_.empty()) {
          memory = std::move(spare_.back());
          spare_.pop_back();
        }
        lock.unlock();
        Owned cluster = make_cluster(grid_, id, std::move(memory), shadow_);
        if (!traces_.empty()) {
          traces_[id] = std::make_unique<Trace>(*cluster);
          cluster->trace = traces_[id].get();
        }
        return cluster;
      }
      const bool takes_paused = ready_.empty() || (took_ready_ && !paused_.empty());
      std::list<Owned>& from = takes_paused ? paused_ : ready_;
      if (!from.empty()) {
        Owned cluster = std::move(from.front());
        from.pop_front();
        took_ready_ = !takes_paused;
        ++running_;
        return cluster;
      }
      if (alive_ == 0) return nullptr;
      if (running_ == 0) report_hang();
      changed_.wait(lock);
    }
  }

  void give_back(Owned cluster, Outcome outcome, uint64_t changes_before) {
    const std::lock_guard lock(mutex_);
    --running_;
    const bool changed = cluster->changes != changes_before;
    if (changed || outcome == Outcome::done) {  // what others wait for may be there now
      idle_turns_ = 0;
      ++generation_;
      ready_.splice(ready_.end(), stuck_);
    }
    if (outcome == Outcome::done) {
      --alive_;
      grid_.products += cluster->products;
      if (cluster->trace) {
        const std::vector<Trace::Event>& events = cluster->trace->events();
        events_.insert(events_.end(), events.begin(), events.end());
        traces_[cluster->id].reset();
      }
      cycles_.erase(cluster->id);
      taken_at_.erase(cluster->id);
      spare_.push_back(std::move(cluster->memory));
    } else if (outcome == Outcome::pause) {
      paused_.push_back(std::move(cluster));
    } else if (taken_at_[cluster->id] != generation_ && !changed) {  // it has not seen what changed
      ready_.push_back(std::move(cluster));
    } else if (outcome == Outcome::turn && (changed || ++idle_turns_ <= IDLE_TURNS)) {
      ready_.push_back(std::move(cluster));
    } else {
      stuck_.push_back(std::move(cluster));
    }
    changed_.notify_all();
  }

  [[noreturn]] void report_hang() {
    std::vector<Cluster*> stuck;
    for (const Owned& cluster : stuck_) stuck.push_back(cluster.get());
    throw hang_report(stuck, next_ == clusters_ ? ""
                                                : joined("\n  ", clusters_ - next_,
                                                         " clusters have not begun: no more than ",
                                                         resident_, " are resident together."));
  }

  Grid& grid_;
  const uint64_t clusters_, resident_;
  std::shared_ptr<GlobalShadow> shadow_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  mutable std::condition_variable over_;
  bool is_over_ = false;
  std::list<Owned> ready_, paused_, stuck_;
  bool took_ready_ = false;  // the last one that went on was of ready_
  std::vector<std::vector<std::byte>> spare_;
  std::vector<std::unique_ptr<Trace>> traces_;  // of the clusters, if there is a timeline
  std::vector<Trace::Event> events_;            // of those that are done
  std::map<uint64_t, Cycle> cycles_;            // of clusters that are not done
  std::map<uint64_t, uint64_t> taken_at_;       // generation_ when they last began to run
  uint64_t generation_ = 0;                     // how often a cluster has changed something
  uint64_t next_ = 0, alive_ = 0, running_ = 0;
  uint64_t idle_turns_ = 0;  // turns in which clusters polled, since one changed something
  std::atomic<bool> stop_{false};
  std::exception_ptr error_;
};

}  // namespace

std::shared_ptr<const Footprint> launch(const Module& module, const Kernel& kernel,
                                        const LaunchConfig& config, const void* param_block) {
  static std::atomic<uint32_t> launches{0};
  const std::shared_ptr<const Program> program = module.program(kernel);
  Grid grid;
  grid.program = program.get();
  grid.kernel = &kernel;
  grid.config = config;
  grid.ctas_per_cluster = static_cast<uint32_t>(config.cluster.count());
  grid.clusters = {config.grid.x / config.cluster.x, config.grid.y / config.cluster.y,
                   config.grid.z / config.cluster.z};
  grid.threads_per_cta = static_cast<uint32_t>(config.block.count());
  grid.warps_per_cta = (grid.threads_per_cta + LANES - 1) / LANES;
  const auto* params = static_cast<const uint8_t*>(param_block);
  grid.params.assign(params, params + kernel.param_bytes);
  grid.registers = (config.registers != 0 ? config.registers : kernel.registers) / 8 * 8;
  grid.policy = settings().policy;
  grid.check = settings().check;
  grid.seed = settings().seed;
  grid.launch_index = ++launches;
  constexpr size_t WORKSPACE_BYTES = 8;  // its size and the barrier
  const std::unique_ptr<void, bool (*)(void*)> workspace(
      config.cooperative ? allocate(WORKSPACE_BYTES, "a cooperative launch") : nullptr, release);
  if (workspace) std::memset(workspace.get(), 0, WORKSPACE_BYTES);
  grid.workspace = workspace.get();
  const auto start = std::chrono::steady_clock::now();
  const auto smem_bytes =
      static_cast<uint32_t>(kernel.static_smem_bytes + config.dynamic_smem_bytes);
  const uint32_t resident = settings().sms * ctas_per_sm(grid.threads_per_cta, smem_bytes, 0);
  Launch launch(grid, grid.clusters.count(), resident / grid.ctas_per_cluster);
  launch.run();
  if (!settings().orderings.empty()) write_orderings(*program);
  if (!settings().stats) return launch.may_still_run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "machine: %s: %llu warp instructions, %llu products of wgmma, %.6f s\n",
               kernel.name.c_str(), static_cast<unsigned long long>(grid.executed),
               static_cast<unsigned long long>(grid.products), seconds.count());
  return launch.may_still_run();
}

}  // namespace machine
