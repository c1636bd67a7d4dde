#include "common/host/watchdog.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

#include "common/host/error.h"
#include "common/host/where.h"

namespace ladder {
namespace {

constexpr int DEFAULT_TIMEOUT_S = 60;
constexpr int MAX_TIMEOUT_S = 1000000;  // eleven days
constexpr int EXIT_HANG = 4;
const char TIMEOUT[] = "LADDER_TIMEOUT";

bool is_traced() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("TracerPid:", 0) == 0) return std::atoi(line.c_str() + 10) != 0;
  }
  return false;
}

// Nsight Systems, Nsight Compute and compute-sanitizer inject a library into the process that they
// start, and tell it about themselves in such variables.
bool is_injected() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    const std::string name = variable.substr(0, variable.find('='));
    const auto begins = [&name](const char* prefix) { return name.rfind(prefix, 0) == 0; };
    const auto has = [](const std::string& text, const char* part) {
      return text.find(part) != std::string::npos;
    };
    if (name == "CUDA_INJECTION64_PATH" || name == "NSYS_PROFILING_SESSION_ID") return true;
    if (begins("NV_") &&
        (has(name, "INJECTION") || has(name, "SANITIZER_") || has(name, "COMPUTE_PROFILER_"))) {
      return true;
    }
    if (name == "LD_PRELOAD" && has(variable, "Injection")) return true;
  }
  return false;
}

}  // namespace

int timeout_s() {
  const char* text = std::getenv(TIMEOUT);
  if (text == nullptr || *text == '\0') return DEFAULT_TIMEOUT_S;
  const std::string value = text;
  const bool is_number =
      value.size() <= 7 && value.find_first_not_of("0123456789") == std::string::npos;
  const int seconds = is_number ? std::atoi(text) : -1;
  if (seconds < 0 || seconds > MAX_TIMEOUT_S) {
    throw Refused("LADDER_TIMEOUT is '" + value +
                  "': it must be a whole number of seconds from 0, " +
                  "which means never, to 1000000; without it the timeout is 60.");
  }
  return seconds;
}

struct Watchdog::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool finished = false;
  std::thread thread;
};

Watchdog::Watchdog(const std::string& what) : state_(nullptr) {
  const int limit_s = timeout_s();
  if (limit_s == 0 || is_traced() || is_injected()) return;
  if (on_machine() && std::getenv(TIMEOUT) == nullptr) return;
  state_ = new State;
  state_->thread = std::thread([state = state_, what, limit_s] {
    std::unique_lock lock(state->mutex);
    const auto is_finished = [state] { return state->finished; };
    if (state->changed.wait_for(lock, std::chrono::seconds(limit_s), is_finished)) return;
    std::fprintf(stderr,
                 "HANG: %s has not finished after %d s (LADDER_TIMEOUT=0 waits for ever).\n",
                 what.c_str(), limit_s);
    std::fflush(stdout);  // rows already printed; _exit would drop them
    _exit(EXIT_HANG);     // exit() would wait for the kernel that hangs
  });
}

Watchdog::~Watchdog() {
  if (state_ == nullptr) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->finished = true;
  }
  state_->changed.notify_one();
  state_->thread.join();
  delete state_;
}

}  // namespace ladder
