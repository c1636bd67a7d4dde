// A process that hangs under a watchdog ends with code 4 and says what hung.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

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

void watched_sleep(int milliseconds) {
  const ladder::Watchdog watchdog("05_wgmma/n256 at 8192x8192x8192");
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
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

TEST_CASE("watchdog: what hangs ends with code 4 and its name") {
  const auto begin = std::chrono::steady_clock::now();
  const Ending ending = in_child("LADDER_TIMEOUT", "1", [] { watched_sleep(20000); });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CAPTURE(ending.stderr_text);
  CHECK(ending.exit_code == 4);
  CHECK(ending.stderr_text.rfind("HANG: 05_wgmma/n256 at 8192x8192x8192", 0) == 0);
  CHECK(ending.stderr_text.find("1 s") != std::string::npos);
  CHECK(took.count() >= 1);
  CHECK(took.count() < 10);
}

TEST_CASE("watchdog: what finishes in time is left alone") {
  const Ending ending = in_child("LADDER_TIMEOUT", "1", [] {
    watched_sleep(10);
    watched_sleep(10);
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
  });
  CHECK(ending.exit_code == 0);
  CHECK(ending.stderr_text == "");
}

TEST_CASE("watchdog: LADDER_TIMEOUT=0 never fires") {
  const Ending ending = in_child("LADDER_TIMEOUT", "0", [] { watched_sleep(1300); });
  CHECK(ending.exit_code == 0);
  CHECK(ending.stderr_text == "");
}

TEST_CASE("watchdog: off under a profiler") {
  const char* const names[] = {"CUDA_INJECTION64_PATH", "NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN",
                               "NV_COMPUTE_PROFILER_PERFWORKS_DIR", "NSYS_PROFILING_SESSION_ID"};
  std::vector<std::future<Ending>> endings;
  for (const char* name : names) {
    endings.push_back(std::async(std::launch::async, [name] {
      return in_child(name, "anything", [] {
        setenv("LADDER_TIMEOUT", "1", 1);
        watched_sleep(1300);
      });
    }));
  }
  for (size_t i = 0; i < endings.size(); ++i) {
    CAPTURE(names[i]);
    CHECK(endings[i].get().exit_code == 0);
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
