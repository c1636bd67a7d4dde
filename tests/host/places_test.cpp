// What launches tell about GPCs.
#include "common/limits/places.h"

#include <doctest/doctest.h>

using limits::Gpcs;
using limits::spread_of;

TEST_CASE("SMs that were ever in one cluster are of one GPC, also by way of a third") {
  Gpcs gpcs;
  gpcs.add({4, 0, 7, 3}, 2);
  CHECK(gpcs.groups() == std::vector<std::vector<int>>{{0, 4}, {3, 7}});
  CHECK(gpcs.letter(4) == 'A');
  CHECK(gpcs.letter(3) == 'B');
  CHECK(gpcs.letter(9) == '?');
  gpcs.add({7, 2, 1, 0}, 2);
  CHECK(gpcs.groups() == std::vector<std::vector<int>>{{0, 1, 4}, {2, 3, 7}});
  gpcs.add({4, 5, 2}, 3);
  CHECK(gpcs.groups() == std::vector<std::vector<int>>{{0, 1, 2, 3, 4, 5, 7}});
}

TEST_CASE("how far apart CTAs are") {
  const auto one_after_the_other = spread_of(std::string(16, 'A') + std::string(16, 'B'));
  CHECK(one_after_the_other.neighbours_together == doctest::Approx(30.0 / 31));
  CHECK(one_after_the_other.gpcs_of_16 == 1);
  const auto in_turns = spread_of("ABCDABCDABCDABCD");
  CHECK(in_turns.neighbours_together == 0);
  CHECK(in_turns.gpcs_of_16 == 4);
  CHECK(spread_of("").gpcs_of_16 == 0);
}
