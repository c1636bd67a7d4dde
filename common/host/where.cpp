#include "common/host/where.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/host/error.h"
#include "common/host/text.h"
#include "common/host/watchdog.h"

namespace ladder {
namespace {

const char DEVICE[] = "LADDER_DEVICE";
const char REASON[] = "LADDER_MACHINE_REASON";  // set for the program that is started again
const char POLICY[] = "MACHINE_POLICY";
constexpr double TOO_LONG_S = 3600;  // for a run that is to show what is wrong with a kernel
const char DEFAULT_SMS[] = "6";      // so few that persistent kernels get several tiles a CTA

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string own_path() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length <= 0 ? "" : std::string(path, static_cast<size_t>(length));
}

// The folder of the machine's libraries.
std::string machine_folder() {
  const std::string path = own_path();
  return path.substr(0, path.rfind('/')) + "/machine";
}

bool machine_is_built() {
  const std::string library = format("/libcudart.so.%d", CUDART_VERSION / 1000);
  return access((machine_folder() + library).c_str(), R_OK) == 0;
}

[[noreturn]] void start_on_machine(const std::string& program,
                                   const std::vector<std::string>& arguments,
                                   const std::string& reason) {
  const std::string folder = machine_folder(), others = environment("LD_LIBRARY_PATH");
  setenv("LD_LIBRARY_PATH", (others.empty() ? folder : folder + ":" + others).c_str(), 1);
  setenv("MACHINE_SMS", DEFAULT_SMS, /*overwrite=*/environment("MACHINE_SMS").empty());
  setenv(REASON, reason.c_str(), 1);
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(own_path().c_str(), argv.data());
  throw NoDevice("The program cannot be started again on the PTX machine: " +
                 std::string(std::strerror(errno)) + ".");
}

// One line: under which policies kernels run, and how to have one of them.
std::string policies_line() {
  const std::vector<std::string> all = policies();
  if (all.size() == 1)
    return "Policy " + all[0] + " alone (MACHINE_POLICY); without it all three.\n";
  const std::string seed = environment("MACHINE_SEED");
  return "Each kernel runs under the policies eager, lazy and random (seed " +
         (seed.empty() ? "1" : seed) + "): copies and wgmma as early, as late, at any time.\n";
}

// The driver's calls that the probe needs.
struct Driver {
  decltype(&cuInit) init;
  decltype(&cuDriverGetVersion) version;
  decltype(&cuDeviceGetName) name;
  decltype(&cuDeviceGetAttribute) attribute;
};

bool load(void* library, Driver* driver) {
  const auto find = [library](const char* name, auto* function) {
    *function =
        reinterpret_cast<std::remove_reference_t<decltype(*function)>>(dlsym(library, name));
    return *function != nullptr;
  };
  return find("cuInit", &driver->init) && find("cuDriverGetVersion", &driver->version) &&
         find("cuDeviceGetName", &driver->name) && find("cuDeviceGetAttribute", &driver->attribute);
}

}  // namespace

void check_settings() {
  const std::string begin = "LADDER_";
  const std::vector<std::string> ends = {"DEVICE", "TIMEOUT", "CUBLASLT", "NVML"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable, name = text.substr(0, text.find('='));
    if (!name.starts_with(begin) || name == REASON) continue;
    const std::string end = name.substr(begin.size());
    if (std::find(ends.begin(), ends.end(), end) != ends.end()) continue;
    const bool near = suggestion(end, ends).starts_with("did");
    throw Refused(name + " is no variable of the ladder, which has " + begin +
                  join(ends, ", " + begin) +
                  (near ? "; did you mean " + begin + nearest(end, ends) + "?" : "."));
  }
  timeout_s();
}

bool machine_is_wanted() {
  return on_machine() || environment(DEVICE) == "machine";
}

bool on_machine() {
  static const bool is_defined = dlsym(RTLD_DEFAULT, "ptx_machine") != nullptr;
  return is_defined;
}

std::string why_no_gpu() {
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return "no NVIDIA driver was found";
  Driver driver;
  if (!load(library, &driver)) return "the NVIDIA driver lacks calls that every driver has";
  if (const CUresult status = driver.init(0); status != CUDA_SUCCESS) {
    if (status == CUDA_ERROR_NO_DEVICE) return "the driver finds no device";
    return format("the driver cannot start, cuInit returns %d", static_cast<int>(status));
  }
  int version = 0, major = 0, minor = 0;
  driver.version(&version);
  if (version / 1000 < CUDART_VERSION / 1000) {
    return format("the driver supports only CUDA %d.%d", version / 1000, version % 1000 / 10);
  }
  char name[128] = "";
  driver.name(name, sizeof name, 0);
  driver.attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  driver.attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
  if (major == 9 && minor == 0) return "";
  return format("%s has compute capability %d.%d, not 9.0", name, major, minor);
}

void choose_device(const std::string& program, const std::vector<std::string>& arguments) {
  const std::string wanted = environment(DEVICE);
  if (!wanted.empty() && wanted != "gpu" && wanted != "machine") {
    throw Refused(std::string(DEVICE) + " is '" + wanted +
                  "': it must be gpu or machine; without it a GPU is used if there is one, else "
                  "the PTX machine.");
  }
  if (on_machine() || wanted == "gpu") return;
  std::string reason = std::string(DEVICE) + "=machine";
  if (wanted != "machine") {
    const std::string why = why_no_gpu();
    if (why.empty()) return;
    reason = "no GPU: " + why;
  }
  if (!machine_is_built()) {
    if (wanted != "machine") return;
    throw NoDevice("The PTX machine is not built in " + machine_folder() + ".");
  }
  if (std::getenv(REASON) != nullptr) {
    throw NoDevice(
        "The program was started again on the PTX machine, but its CUDA runtime is not "
        "that of " +
        machine_folder() + "; is it linked with --cudart shared?");
  }
  start_on_machine(program, arguments, reason);
}

std::vector<std::string> policies() {
  if (!on_machine()) return {""};
  const std::string wanted = environment(POLICY);
  if (!wanted.empty()) return {wanted};
  return {"eager", "lazy", "random"};
}

void use_policy(const std::string& policy) {
  if (!on_machine() || !environment(POLICY).empty()) return;  // the machine has read it
  const auto set =
      reinterpret_cast<bool (*)(const char*)>(dlsym(RTLD_DEFAULT, "ptx_machine_set_policy"));
  if (set == nullptr || !set(policy.c_str())) {
    throw NoDevice("The PTX machine has no policy " + policy + "; make machine builds it anew.");
  }
}

std::string machine_line() {
  std::string reason = environment(REASON);
  if (!reason.empty()) reason = " (" + reason + ")";
  const char* const races = environment("MACHINE_CHECK") == "0" ? "" : "races and ";
  return "PTX machine" + reason +
         ": results are checked against a double-precision reference and " + "for " + races +
         "hangs; no times.\n" + policies_line();
}

std::string duration_line(const Stage& stage, const Shape& shape, size_t variants) {
  // Measured on two cores, checker and reference included: the slower variants of rung 1, the rest.
  constexpr double SIMT_MACS_PER_S = 0.15e9, TENSOR_MACS_PER_S = 1.5e9;
  const int rows = std::max(shape.m, 256);  // a tile, or a cluster's, has rows that are not there
  const double macs = Shape{rows, shape.n, shape.k, shape.parameters}.flop() / 2;
  const double once = macs / (stage.result().kernel.simt ? SIMT_MACS_PER_S : TENSOR_MACS_PER_S);
  const double seconds = once * static_cast<double>(policies().size());
  const double all = seconds * static_cast<double>(variants);
  if (seconds < 5 && all < 60) return "";
  std::string line = "This takes the PTX machine about " + duration_text(seconds) + " a variant";
  if (variants > 1) line += ", " + duration_text(all) + " for all " + std::to_string(variants);
  if (seconds > TOO_LONG_S) {
    line += "; a few tiles show as much: without M=, N= and K= it runs " +
            to_string(MACHINE_SHAPE) + ", in seconds";
  }
  return line + ".\n";
}

std::string machine_advice() {
  if (environment(DEVICE) == "gpu" || machine_is_built()) return "";
  return " make machine builds the PTX machine, which needs no GPU.";
}

}  // namespace ladder
