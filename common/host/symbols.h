// Names of kernels, found without a GPU.
#pragma once

#include <string>

namespace ladder {

// The mangled name of a kernel, as PTX and profilers have it, from its __global__ function and the
// running program's symbol table. Throws std::runtime_error if the function lies elsewhere (in a
// shared library) or the program is stripped.
std::string kernel_name(const void* kernel);

// nvcc 13 gives the host side of a kernel template internal linkage, which dladdr cannot see and
// which puts an L into its name: _ZN5wgmmaL4gemmI... is the kernel _ZN5wgmma4gemmI... Names without
// that L come back as they are.
std::string without_internal_linkage(const std::string& mangled);

}  // namespace ladder
