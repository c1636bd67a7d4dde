// Turns a hung kernel into exit code 4 with the rung's name.
#pragma once

#include <string>

namespace ladder {

// LADDER_TIMEOUT in seconds; 0: never. Throws Refused for what is no such number.
int timeout_s();

// While an object lives, a thread waits; if it is not destroyed within LADDER_TIMEOUT seconds
// (default 60; 0: never), it prints "HANG: <what> ..." to stderr and ends the process with code 4.
// Off when a debugger or profiler is attached, since they slow kernels down by orders of magnitude,
// and by default on the PTX machine, which is slow too and reports every hang itself.
class Watchdog {
 public:
  explicit Watchdog(const std::string& what);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct State;
  State* state_;
};

}  // namespace ladder
