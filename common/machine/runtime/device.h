// The device that the machine claims to be: an H200 with MACHINE_SMS streaming multiprocessors.
#pragma once

#include "common/machine/run/sm.h"

namespace machine::runtime {

// Of compute capability 9.0; CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability".
constexpr int COMPUTE_CAPABILITY = 90;
constexpr int MAX_CTA_THREADS = 1024, MAX_CTA_Z = 64;
constexpr int MAX_GRID_X = 2147483647, MAX_GRID_YZ = 65535;
constexpr int CTA_SMEM_BYTES = 48 * 1024;  // of a CTA that asks for no more
constexpr int CTA_SMEM_OPTIN_BYTES = 227 * 1024;
constexpr int MAX_PORTABLE_CLUSTER = 8, MAX_CLUSTER = 16;  // CTAs

// MACHINE_SMS. Ends the process with exit code 2 if a setting of the machine makes no sense.
int sm_count();

}  // namespace machine::runtime
