// The one door to a kernel: validation, the degenerate shapes, then the rung's own launch().
#pragma once

#include "common/host/registry.h"

namespace ladder {

// What the device must offer; filled by query_device(), or by hand in tests.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int cc_major = 0, cc_minor = 0;
  int sm_count = 0;
  int smem_optin_bytes = 0;  // largest dynamic shared memory of a CTA
  long long l2_bytes = 0;
};

// The current device. Throws NoDevice with one sentence that says what was found (no driver, a
// driver too old, no device, a device that is not sm_90) and what is needed.
DeviceInfo query_device();

// Every rule that this call breaks, one sentence a line, each with the actual value, the rule and
// the nearest value that works; empty if the call is fine. Following every suggestion makes it
// fine. Needs no GPU. An operand that the call does not touch (k == 0: A and B; m == 0 or n == 0:
// all) may be anything. A chooser chooses only if the call
// keeps all of its own rules, then the call and the device must keep those of the chosen variant.
std::string violations(const Variant& variant, const GemmArgs& args, const DeviceInfo& device);

// The two halves of violations().
std::string argument_violations(const Variant& variant, const GemmArgs& args);
std::string device_violations(const Variant& variant, const DeviceInfo& device);

// D = A · B^T on args.stream, asynchronously. Throws Refused before any launch if violations() has
// something to say. m == 0 or n == 0 does nothing; k == 0 writes zeros without a kernel.
void run(const Variant& variant, const GemmArgs& args);

}  // namespace ladder
