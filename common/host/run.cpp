#include "common/host/run.h"

#include <cuda_runtime.h>

#include "common/host/error.h"
#include "common/host/problem.h"
#include "common/host/text.h"

namespace ladder {
namespace {

// "one with layout=TT": parameters of the first call that the variant takes; "" if it takes none.
std::string taken_call(const Variant& variant) {
  const ProblemKind& kind = variant.kind();
  const std::vector<Parameter> parameters = kind.parameters();
  Shape shape{1, 1, 1};
  for (;;) {
    if (variant.takes(*kind.sizes_of(shape))) {
      const std::string others = parameters_text(kind, shape, false);
      return "one with " + (others.empty() ? parameters_text(kind, shape) : others);
    }
    size_t i = 0;  // the next: they count as digits do
    while (i < parameters.size() &&
           ++shape.parameters.at(i) == static_cast<int>(parameters[i].values.size())) {
      shape.parameters.at(i++) = 0;
    }
    if (i == parameters.size()) return "";
  }
}

// Of `variant`, which was chosen for a call that keeps the rules of `asked`.
std::string chosen_violations(const Variant& asked, const Variant& variant, const Call& call,
                              const DeviceInfo& device) {
  const std::string arguments = &variant == &asked ? "" : argument_violations(variant, call);
  const std::string hardware = device_violations(variant, device);
  return arguments + (arguments.empty() || hardware.empty() ? "" : "\n") + hardware;
}

}  // namespace

std::string argument_violations(const Variant& variant, const Call& call) {
  const ProblemKind& kind = variant.kind();
  std::string text = kind.violations(variant.rules(), call);
  if (text.empty() && variant.takes && !variant.takes(call)) {
    const std::string taken = taken_call(variant);
    text =
        format("%s (%s) does not take this call; the nearest that works is %s%s%s.", variant.name,
               variant.what, taken.c_str(), taken.empty() || variant.result ? "" : ", or ",
               variant.result ? "" : "the variant that stands for its rung");
  }
  const int scratch_bytes = variant.kernel.workspace_bytes;
  if (scratch_bytes > 0 && call.workspace == nullptr && kind.needs_kernel(call)) {
    text += format(
        "%sworkspace is null: %s needs one with %zu bytes of counters and %d bytes for each SM; "
        "the "
        "nearest that works is a workspace of ladder_workspace_bytes() bytes, or stage 0, which "
        "then "
        "takes a kernel that needs none.",
        text.empty() ? "" : "\n", variant.name, WORKSPACE_COUNTER_BYTES, scratch_bytes);
  }
  return text;
}

std::string device_violations(const Variant& variant, const DeviceInfo& device) {
  std::string text;
  if (device.cc_major != 9 || device.cc_minor != 0) {
    text = format(
        "The device %s has compute capability %d.%d: the ladder needs 9.0, such as an H100, "
        "H200 or GH200.",
        device.name.c_str(), device.cc_major, device.cc_minor);
  }
  if (variant.kernel.smem_bytes > device.smem_optin_bytes) {
    text += format(
        "%s%s needs %d bytes of shared memory per CTA, but the device %s offers %d; the nearest "
        "that works is a variant with a smaller tile or fewer slots.",
        text.empty() ? "" : "\n", variant.name, variant.kernel.smem_bytes, device.name.c_str(),
        device.smem_optin_bytes);
  }
  return text;
}

std::string violations(const Variant& asked, const Call& call, const DeviceInfo& device) {
  const std::string own = argument_violations(asked, call);
  if (asked.chooses() && !own.empty()) return own;
  const std::string others = chosen_violations(asked, chosen(asked, call), call, device);
  return own + (own.empty() || others.empty() ? "" : "\n") + others;
}

const Variant* run(const Variant& asked, const Call& call) {
  // Arguments first, so that a wrong call is refused alike with and without a GPU.
  std::string wrong = argument_violations(asked, call);
  if (!wrong.empty()) throw Refused(wrong);
  const DeviceInfo& device = query_device();
  const Variant& variant = chosen(asked, call);
  wrong = chosen_violations(asked, variant, call, device);
  if (!wrong.empty()) throw Refused(wrong);

  cudaGetLastError();  // an error that an earlier call left behind is not this launch's
  if (!asked.kind().needs_kernel(call)) {
    asked.kind().run_without_kernel(call);
    return nullptr;
  }
  load_kernel(variant.kernel.function);
  variant.kernel.launch(call);
  return &variant;
}

}  // namespace ladder
