#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/doctest_main.h"

#include "tests/gpu/silicon.h"

// The cases of tests/rungs and tests/calls are part of this program, to be run on a GPU.
int main(int argc, char** argv) {
  std::vector<ladder_test::LeftOut> left_out;
  if (const std::string why = gpu_test::why_no_gpu(); !why.empty()) {
    left_out = {{"tests/rungs", why + " The suites eager to random_2 ran it on the PTX machine."},
                {"tests/calls", why + " The suite calls ran it on the PTX machine."}};
  }
  return ladder_test::test_main("gpu", argc, argv, left_out);
}
