// Rows of --energy-rows. The rungs are made up.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/host/error.h"
#include "common/host/options.h"

using namespace ladder;

namespace {

const std::vector<Stage>& rungs() {
  const auto variant = [](const char* name) {
    Variant made{};
    made.name = name;
    made.kernel.launch = +[](const GemmArgs&) {};
    return made;
  };
  static const std::vector<Stage> made = {{5, "05_fifth", "an idea", {variant("bn64")}},
                                          {8, "08_eighth", "an idea", {variant("2x1")}}};
  return made;
}

std::string refusal(const std::string& line) {
  try {
    parse_energy_row(line, rungs());
  } catch (const Refused& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a row of --energy-rows is read") {
  const EnergyRow row = parse_energy_row("8 2x1 64 128 256 zeros 66", rungs());
  CHECK(row.text == "8 2x1 64 128 256 zeros 66");
  CHECK(row.stage == &rungs()[1]);
  CHECK(row.variant == &rungs()[1].variants[0]);
  CHECK(row.shape == Shape{64, 128, 256});
  CHECK(row.data == Data::zeros);
  CHECK(row.grid == 66);
  CHECK(parse_energy_row("5 bn64 8 8 8 normal 0", rungs()).grid == 0);
}

TEST_CASE("a row of --energy-rows that is none is refused with its text") {
  CHECK(refusal("8 2x1 64 128 256 zeros") ==
        "Row '8 2x1 64 128 256 zeros': it must be '<rung> <variant> <m> <n> <k> <data> <grid>', "
        "but has 6 words.");
  CHECK(refusal("7 2x1 64 128 256 zeros 0") ==
        "Row '7 2x1 64 128 256 zeros 0': there is no rung '7'; the rungs here are 5, 8.");
  CHECK(refusal("8 2x1 64 128 256 zero 0") ==
        "Row '8 2x1 64 128 256 zero 0': the data is 'zero' but must be one of normal, uniform, "
        "ints, zeros, index; did you mean zeros?");
  CHECK(
      refusal("8 2x1 64 128 256 zeros all") ==
      "Row '8 2x1 64 128 256 zeros all': the grid is 'all' but must be a whole number, 0 or more; "
      "try 132.");
}
