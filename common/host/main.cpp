#include "common/host/cli.h"

int main(int argc, char** argv) {
  return ladder::run_program(argv[0], std::vector<std::string>(argv + 1, argv + argc));
}
