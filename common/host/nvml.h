// The energy that the board takes, from NVML's counter of joules. The library belongs to the driver
// and is opened when somebody asks, so that programs start without it. Nothing here needs CUDA.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace ladder {

// Energy cannot be measured; what() says why in one sentence.
struct NoEnergy : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A counter of joules that grows in steps: the driver refreshes it a few times a second. In tests,
// one that is made up.
struct EnergyCounter {
  std::function<double()> joules;
  std::function<double()> now_s;
  std::function<void()> pause;  // called between two readings, far shorter than a step
};

// The counter of the board in that PCI slot ("0000:3b:00.0"), read about every 0.2 ms. Throws
// NoEnergy if there is no NVML, no such board or no counter. LADDER_NVML names another library.
EnergyCounter board_energy(const std::string& pci_bus_id);

// What the board may draw; NaN if NVML does not say.
double power_limit_watts(const std::string& pci_bus_id);

// The time from one step of the counter to the next, the median of several. Throws NoEnergy if the
// counter stands still.
double refresh_s(const EnergyCounter& counter);

// A window is at least this many steps of the counter, and at least this long.
inline constexpr int WINDOW_STEPS = 20;
inline constexpr double MIN_WINDOW_S = 0.5;
double window_s(double refresh);

// Mean power from one step of the counter to the first that is at least window_s later: both ends
// are steps, so that a part of one never counts.
double mean_watts(const EnergyCounter& counter, double window_s);

}  // namespace ladder
