// Programs that run today run tomorrow: every spelling in opcodes.txt has a row of the decode table.
// They are those of the rungs, of the tests' kernels and of the golden cases, and two of each row.
#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "common/machine/code/isa.h"

using namespace machine;

TEST_CASE("every opcode that a program is known to use is in the table") {
  std::ifstream list("tests/machine/opcodes.txt");
  REQUIRE_MESSAGE(list.good(), "tests/machine/opcodes.txt: run from the repository's root");
  size_t count = 0;
  for (std::string text; list >> text; ++count) {
    Opcode opcode;
    CHECK_MESSAGE(find_row(text, &opcode) != nullptr, text);
  }
  CHECK(count > 1000);
  Opcode opcode;
  CHECK(find_row("add.s31", &opcode) == nullptr);
}
