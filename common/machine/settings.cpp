#include "common/machine/settings.h"

#include <charconv>
#include <cstdlib>
#include <thread>

namespace machine {
namespace {

uint64_t number_from(const char* name, uint64_t fallback, uint64_t least, uint64_t most) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return fallback;
  uint64_t value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (stop != end || error != std::errc() || value < least || value > most) {
    throw Error(Error::Kind::refused, std::string(name) + " is '" + text +
                                          "' but must be a whole number from " +
                                          std::to_string(least) + " to " + std::to_string(most) +
                                          ", as " + std::to_string(fallback) + ".");
  }
  return value;
}

Policy policy_from(const char* name) {
  const char* const text = std::getenv(name);
  const std::string policy = text == nullptr || *text == '\0' ? "eager" : text;
  if (policy == "eager") return Policy::eager;
  if (policy == "lazy") return Policy::lazy;
  if (policy == "random") return Policy::random;
  throw Error(Error::Kind::refused,
              std::string(name) + " is '" + policy + "' but must be eager, lazy or random.");
}

Settings read() {
  Settings made;
  made.policy = policy_from("MACHINE_POLICY");
  made.seed = number_from("MACHINE_SEED", 1, 0, UINT64_MAX);
  made.check = number_from("MACHINE_CHECK", 1, 0, 1) != 0;
  made.stats = number_from("MACHINE_STATS", 0, 0, 1) != 0;
  made.sms = static_cast<uint32_t>(number_from("MACHINE_SMS", 132, 1, 1024));
  const uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
  made.threads = static_cast<uint32_t>(number_from("MACHINE_THREADS", cores, 1, 1024));
  if (const char* trace = std::getenv("MACHINE_TRACE")) made.trace = trace;
  return made;
}

}  // namespace

Settings& settings() {
  static Settings instance = read();
  return instance;
}

}  // namespace machine
