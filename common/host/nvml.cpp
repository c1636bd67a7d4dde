#include "common/host/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "common/host/stats.h"
#include "common/host/text.h"

namespace ladder {
namespace {

constexpr int STEPS_FOR_REFRESH = 8;
constexpr double STILL_S = 2;  // a counter that has not changed for so long stands still
constexpr auto POLL_EVERY = std::chrono::microseconds(200);

// --- the library ---------------------------------------------------------------------------------
// Its prototypes, as nvml.h has them; a status of 0 is success.

using Device = struct nvmlDevice_st*;

struct Library {
  int (*init)();
  const char* (*error_string)(int);
  int (*device_by_bus_id)(const char*, Device*);
  int (*total_energy)(Device, unsigned long long*);    // mJ since the driver was loaded
  int (*enforced_power_limit)(Device, unsigned int*);  // mW

  Library() {
    const char* const chosen = std::getenv("LADDER_NVML");
    const std::string path = chosen == nullptr ? "libnvidia-ml.so.1" : chosen;
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw NoEnergy("NVML cannot be loaded from " + path + ".");
    find(handle, "nvmlInit_v2", &init);
    find(handle, "nvmlErrorString", &error_string);
    find(handle, "nvmlDeviceGetHandleByPciBusId_v2", &device_by_bus_id);
    find(handle, "nvmlDeviceGetTotalEnergyConsumption", &total_energy);
    find(handle, "nvmlDeviceGetEnforcedPowerLimit", &enforced_power_limit);
    check(init(), "nvmlInit_v2");
  }

  void check(int status, const char* what) const {
    if (status != 0) throw NoEnergy(format("%s of NVML: %s.", what, error_string(status)));
  }

  Device device(const std::string& pci_bus_id) const {
    Device device = nullptr;
    check(device_by_bus_id(pci_bus_id.c_str(), &device), "nvmlDeviceGetHandleByPciBusId_v2");
    return device;
  }

 private:
  template <class Function>
  static void find(void* handle, const char* name, Function** function) {
    *function = reinterpret_cast<Function*>(dlsym(handle, name));
    if (*function == nullptr) throw NoEnergy(std::string("NVML has no function ") + name + ".");
  }
};

// Loaded once a process and never unloaded; a failure is tried again by the next call.
const Library& nvml() {
  static const Library library;
  return library;
}

// --- steps of a counter --------------------------------------------------------------------------

struct Step {
  double s, joules;
};

Step next_step(const EnergyCounter& counter) {
  const double before = counter.joules();
  const double start_s = counter.now_s();
  while (true) {
    counter.pause();
    const Step now{counter.now_s(), counter.joules()};
    if (now.joules != before) return now;
    if (now.s - start_s > STILL_S) {
      throw NoEnergy(format("The board's energy counter has stood still for %.0f s.", STILL_S));
    }
  }
}

}  // namespace

EnergyCounter board_energy(const std::string& pci_bus_id) {
  const Device device = nvml().device(pci_bus_id);
  EnergyCounter counter;
  counter.joules = [device] {
    unsigned long long millijoules = 0;
    nvml().check(nvml().total_energy(device, &millijoules), "nvmlDeviceGetTotalEnergyConsumption");
    return static_cast<double>(millijoules) * 1e-3;
  };
  counter.now_s = [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  };
  counter.pause = [] { std::this_thread::sleep_for(POLL_EVERY); };
  counter.joules();  // so that a board without the counter is refused here
  return counter;
}

double power_limit_watts(const std::string& pci_bus_id) {
  unsigned int milliwatts = 0;
  const int status = nvml().enforced_power_limit(nvml().device(pci_bus_id), &milliwatts);
  return status == 0 ? milliwatts * 1e-3 : std::numeric_limits<double>::quiet_NaN();
}

double refresh_s(const EnergyCounter& counter) {
  std::vector<double> intervals;
  double last_s = next_step(counter).s;
  while (intervals.size() < STEPS_FOR_REFRESH) {
    const double now_s = next_step(counter).s;
    intervals.push_back(now_s - last_s);
    last_s = now_s;
  }
  return median(intervals);
}

double window_s(double refresh) {
  return std::max(WINDOW_STEPS * refresh, MIN_WINDOW_S);
}

double mean_watts(const EnergyCounter& counter, double window_s) {
  const Step first = next_step(counter);
  Step last = first;
  while (last.s - first.s < window_s) last = next_step(counter);
  return (last.joules - first.joules) / (last.s - first.s);
}

}  // namespace ladder
