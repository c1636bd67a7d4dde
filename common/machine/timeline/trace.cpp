// The timeline's model of time, and its file. Nothing that it computes changes what runs.
#include "common/machine/timeline/trace.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace machine {
namespace {

uint32_t linear_cta(const Warp& warp) {
  const Dim3& id = warp.cta->id;
  return id.x + id.y * grid_of(warp).config.grid.x;
}

std::string number(const char* key, uint64_t value) {
  return std::string(",\"") + key + "\":" + std::to_string(value);
}

std::string three(const Dim3& of) {
  return "[" + std::to_string(of.x) + "," + std::to_string(of.y) + "," + std::to_string(of.z) + "]";
}

}  // namespace

void Trace::add(const Warp& warp, const char* name, uint64_t begin, uint64_t end, bool instant,
                const std::string& args) {
  const std::string place = cluster_.grid->program->place(warp.current->pc);
  events_.push_back({name, linear_cta(warp), warp.index, begin, end, instant,
                     "\"place\":\"" + place + "\"" + args});
}

void Trace::arrive(Warp& warp, uint32_t address, uint32_t tx_bytes) {
  mbarriers_[address].reach(warp.clock);
  std::string args = number("mbarrier", address);
  if (tx_bytes > 0) args += number("tx", tx_bytes);
  add(warp, "arrive", warp.clock, warp.clock, true, args);
}

void Trace::wait_mbarrier(Warp& warp, uint32_t address, uint32_t parity) {
  end_epilogue(warp);
  const uint64_t begin = warp.clock, end = std::max(begin, mbarriers_[address].complete);
  add(warp, "wait mbarrier", begin, end, false,
      number("mbarrier", address) + number("parity", parity));
  warp.clock = end;
}

uint64_t Trace::copy(Warp& warp, const char* name, uint32_t smem, uint64_t bytes,
                     uint32_t mbarrier) {
  uint64_t& engine = copy_free_[warp.cta];
  const uint64_t begin = std::max(warp.clock, engine);
  engine = begin + bytes / Model::COPY_BYTES;
  const uint64_t end = engine + Model::COPY_LATENCY;
  std::string args = number("smem", smem) + number("bytes", bytes);
  if (mbarrier != 0) args += number("mbarrier", mbarrier);
  add(warp, name, warp.clock, end, false, args);
  return end;
}

void Trace::wait(Warp& warp, const char* name, uint64_t time) {
  end_epilogue(warp);
  const uint64_t begin = warp.clock;
  warp.clock = std::max(begin, time);
  if (warp.clock > begin) add(warp, name, begin, warp.clock, false, "");
}

uint64_t Trace::wgmma(Warp& warp, uint32_t n) {
  uint64_t& engine = tensor_free_[warp.cta];
  const uint64_t begin = std::max(warp.clock, engine);
  engine = begin + n / 2;
  const uint64_t end = engine + Model::WGMMA_LATENCY;
  // Operations that follow one another are one interval.
  const uint32_t first_warp = warp.index / 4 * 4, cta = linear_cta(warp);
  for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
    if (event->cta != cta || event->name != "wgmma" || event->warp != first_warp) continue;
    if (warp.clock <= event->end) {
      event->end = end;
      return end;
    }
    break;
  }
  add(warp, "wgmma", begin, end, false, "");
  events_.back().warp = first_warp;
  return end;
}

void Trace::store(Warp& warp) {
  Epilogue& epilogue = epilogues_[&warp];
  if (epilogue.end == 0) {
    epilogue.begin = warp.clock;
    epilogue.place = cluster_.grid->program->place(warp.current->pc);
  }
  epilogue.end = warp.clock + Model::INSTRUCTION;
}

void Trace::end_epilogue(const Warp& warp) {
  const auto found = epilogues_.find(&warp);
  if (found == epilogues_.end() || found->second.end == 0) return;
  events_.push_back({"epilogue", linear_cta(warp), warp.index, found->second.begin,
                     found->second.end, false, "\"place\":\"" + found->second.place + "\""});
  found->second.end = 0;
}

const std::vector<Trace::Event>& Trace::events() {
  for (const auto& [warp, epilogue] : epilogues_) end_epilogue(*warp);
  return events_;
}

void write_trace(const Grid& grid, std::vector<Trace::Event> events, const std::string& file) {
  static size_t most = 0;
  if (events.size() < most) return;
  most = events.size();
  std::stable_sort(events.begin(), events.end(),
                   [](const Trace::Event& a, const Trace::Event& b) { return a.begin < b.begin; });
  std::ofstream out(file);
  out << "{\"otherData\":{\"clock\":\"model\",\"device\":\"PTX machine\",\"kernel\":\""
      << grid.kernel->name << "\",\"grid\":" << three(grid.config.grid)
      << ",\"block\":" << three(grid.config.block) << ",\"cluster\":" << three(grid.config.cluster)
      << "},\n\"traceEvents\":[\n";
  const char* separator = "";
  for (const Trace::Event& event : events) {
    char times[80];
    if (event.instant) {
      std::snprintf(times, sizeof times, "\"ph\":\"i\",\"s\":\"t\",\"ts\":%.3f",
                    static_cast<double>(event.begin) / 1000);
    } else {
      std::snprintf(times, sizeof times, "\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f",
                    static_cast<double>(event.begin) / 1000,
                    static_cast<double>(event.end - event.begin) / 1000);
    }
    out << separator << "{\"name\":\"" << event.name << "\"," << times << ",\"pid\":" << event.cta
        << ",\"tid\":" << event.warp << ",\"args\":{" << event.args << "}}";
    separator = ",\n";
  }
  out << "\n]}\n";
  if (!out.flush()) {
    throw Error(Error::Kind::refused, "MACHINE_TRACE is " + file + ", which cannot be written.");
  }
}

}  // namespace machine
