// Starts programs and waits for them; and words in a list. It knows nothing of what they are.
#include "common/machine/tools/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace tools {
namespace {

pid_t start() {
  const pid_t child = fork();
  if (child < 0) fail(std::string("no process can be started: ") + std::strerror(errno));
  return child;
}

// False if it has not ended yet and is not to be waited for.
bool wait_for(pid_t child, int* status, int options) {
  for (;;) {
    const pid_t ended = waitpid(child, status, options);
    if (ended == child) return true;
    if (ended == 0) return false;
    if (errno != EINTR)
      fail(std::string("a process cannot be waited for: ") + std::strerror(errno));
  }
}

}  // namespace

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

void fail(const std::string& sentence) {
  std::fprintf(stderr, "ptx-machine: %s\n", sentence.c_str());
  std::exit(REFUSED);
}

void become(const std::filesystem::path& program, char** arguments) {
  execv(program.c_str(), arguments);
  fail(program.string() + " cannot be started: " + std::strerror(errno));
}

int exit_code_of(int status) {
  constexpr int OF_A_SIGNAL = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : OF_A_SIGNAL + WTERMSIG(status);
}

int run_once(const std::filesystem::path& program, char** arguments) {
  const pid_t child = start();
  if (child == 0) become(program, arguments);
  int status = 0;
  wait_for(child, &status, 0);
  return exit_code_of(status);
}

int run_for(double limit_s, const std::string& output, const std::filesystem::path& program,
            char** arguments) {
  using Clock = std::chrono::steady_clock;
  const pid_t child = start();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0) fail(output + " cannot be written: " + std::strerror(errno));
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    become(program, arguments);
  }
  const auto end = Clock::now() + std::chrono::duration<double>(limit_s);
  int status = 0;
  while (!wait_for(child, &status, WNOHANG)) {
    if (Clock::now() > end) {
      kill(child, SIGKILL);
      wait_for(child, &status, 0);
      return TIMED_OUT;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return exit_code_of(status);
}

}  // namespace tools
