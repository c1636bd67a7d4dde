// What only the tests that need a GPU have.
#pragma once

#include <string>

#include "tests/support/problem.h"

namespace gpu_test {

// Why there is no GPU that can run the ladder; "" if there is. The PTX machine is none.
std::string why_no_gpu();

#define NEEDS_GPU()                                                   \
  if (const std::string why = gpu_test::why_no_gpu(); !why.empty()) { \
    return ladder_test::skip_without_gpu(why);                        \
  }

// Elements where |d - c| is more than two results that are both within the tolerance can be apart.
long long far_apart(const ladder::GemmArgs& args, const ladder_test::Matrix& c,
                    const ladder::Reference& reference);

// Never ends by itself.
void launch_spinning_kernel();

}  // namespace gpu_test
