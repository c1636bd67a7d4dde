// The one door to a kernel: validation, the degenerate shapes, then the rung's own launch().
#pragma once

#include "common/host/device.h"
#include "common/host/registry.h"

namespace ladder {

// Every rule that this call breaks, as ProblemKind::violations() has it, for arguments and device.
// Needs no GPU. A chooser chooses only if the call keeps all of its own rules, then the call and the
// device must keep those of the chosen variant.
std::string violations(const Variant& variant, const Call& call, const DeviceInfo& device);

// The two halves of violations().
std::string argument_violations(const Variant& variant, const Call& call);
std::string device_violations(const Variant& variant, const DeviceInfo& device);

// Runs the call, which is of the variant's kind, on call.stream, asynchronously. Throws Refused
// before any launch if violations() has something to say. Returns the variant whose kernel was
// launched, null if the call needs none.
const Variant* run(const Variant& variant, const Call& call);

}  // namespace ladder
