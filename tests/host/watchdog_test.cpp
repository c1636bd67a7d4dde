// A process that hangs under a watchdog ends with code 4 and says what hung.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include "common/host/error.h"
#include "common/host/watchdog.h"

namespace {

struct Ending {
  int exit_code;  // -1: by a signal
  std::string stderr_text;
};

// Runs `body` in a child process with the environment variable name=value.
Ending in_child(const char* name, const char* value, const std::function<void()>& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    setenv(name, value, 1);
    body();
    _exit(0);
  }
  close(ends[1]);
  Ending ending{-1, ""};
  char buffer[256];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    ending.stderr_text.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) ending.exit_code = WEXITSTATUS(status);
  return ending;
}

constexpr char WORK[] = "05_wgmma/n256 at 8192x8192x8192";

long threads() {
  using Tasks = std::filesystem::directory_iterator;
  return std::distance(Tasks("/proc/self/task"), Tasks());
}

// Waits, for as long as it takes a busy computer, until this thread is the only one. A thread that
// has been joined stands among the tasks for a moment more.
bool is_alone_at_last() {
  for (int i = 0; i < 30000 && threads() != 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return threads() == 1;
}

// How a child ends that looks whether a thread waits while a watchdog lives.
Ending waits_in_child(const char* name, const char* value, long expected_threads) {
  return in_child(name, value, [name, expected_threads] {
    if (std::string(name) != "LADDER_TIMEOUT") setenv("LADDER_TIMEOUT", "1000", 1);
    const ladder::Watchdog watchdog(WORK);
    _exit(threads() == expected_threads ? 0 : 9);
  });
}

std::string refusal_of(const char* timeout) {
  const Ending ending = in_child("LADDER_TIMEOUT", timeout, [] {
    try {
      const ladder::Watchdog watchdog("anything");
    } catch (const ladder::Refused& refused) {
      const std::string what = refused.what();
      _exit(write(STDERR_FILENO, what.data(), what.size()) > 0 ? 2 : 9);
    }
  });
  CHECK(ending.exit_code == 2);
  return ending.stderr_text;
}

}  // namespace

// Only the first case waits for the clock, and for it to pass one second, however late that is seen.
// A watchdog waits in a thread of its own, so one that has no thread never fires.

TEST_CASE("watchdog: what hangs ends with code 4 and its name") {
  const auto begin = std::chrono::steady_clock::now();
  const Ending ending = in_child("LADDER_TIMEOUT", "1", [] {
    const ladder::Watchdog watchdog(WORK);
    std::this_thread::sleep_for(std::chrono::minutes(2));
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CAPTURE(ending.stderr_text);
  CHECK(ending.exit_code == 4);
  CHECK(ending.stderr_text.rfind("HANG: " + std::string(WORK), 0) == 0);
  CHECK(ending.stderr_text.find("1 s") != std::string::npos);
  CHECK(took.count() >= 1);
}

TEST_CASE("watchdog: what finishes in time is left alone") {
  const Ending ending = in_child("LADDER_TIMEOUT", "1000", [] {
    for (int i = 0; i < 2; ++i) {
      {
        const ladder::Watchdog watchdog(WORK);
        if (threads() != 2) _exit(9);
      }
      if (!is_alone_at_last()) _exit(8);
    }
  });
  CHECK(ending.exit_code == 0);
  CHECK(ending.stderr_text == "");
}

TEST_CASE("watchdog: LADDER_TIMEOUT=0 never fires") {
  CHECK(waits_in_child("LADDER_TIMEOUT", "0", 1).exit_code == 0);
  CHECK(waits_in_child("LADDER_TIMEOUT", "1000", 2).exit_code == 0);
}

TEST_CASE("watchdog: off under a profiler") {
  CHECK(waits_in_child("NO_PROFILER", "anything", 2).exit_code == 0);
  for (const char* name : {"CUDA_INJECTION64_PATH", "NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN",
                           "NV_COMPUTE_PROFILER_PERFWORKS_DIR", "NSYS_PROFILING_SESSION_ID"}) {
    CAPTURE(name);
    CHECK(waits_in_child(name, "anything", 1).exit_code == 0);
  }
}

TEST_CASE("watchdog: an unusable LADDER_TIMEOUT is refused") {
  for (const char* timeout : {"-1", "soon", "1.5", "10s", "1000001", "99999999999999999999"}) {
    CAPTURE(timeout);
    const std::string text = refusal_of(timeout);
    CAPTURE(text);
    CHECK(text.find("LADDER_TIMEOUT is '" + std::string(timeout) + "'") != std::string::npos);
    CHECK(text.find("from 0") != std::string::npos);
  }
}
