// Rounding up, from nothing to the largest int.
#include <doctest/doctest.h>

#include <initializer_list>
#include <limits>

#include "common/tile/math.h"

using tile::ceil_div;

namespace {

constexpr int LARGEST = std::numeric_limits<int>::max();

}  // namespace

TEST_CASE("ceil_div: is the smallest q with q * b >= a") {
  for (const int b : {1, 2, 3, 7, 64, 128, 255, 256, 1 << 30, LARGEST - 1, LARGEST}) {
    for (int i = 0; i < 600; ++i) {
      for (const int a : {i, LARGEST - i}) {
        const long long q = ceil_div(a, b);
        CAPTURE(a);
        CAPTURE(b);
        REQUIRE(q * b >= a);
        REQUIRE((q - 1) * b < a);
      }
    }
  }
}

TEST_CASE("ceil_div: limits") {
  CHECK(ceil_div(0, 1) == 0);
  CHECK(ceil_div(0, LARGEST) == 0);
  CHECK(ceil_div(1, LARGEST) == 1);
  CHECK(ceil_div(LARGEST - 1, LARGEST) == 1);
  CHECK(ceil_div(LARGEST, LARGEST) == 1);
  CHECK(ceil_div(LARGEST, LARGEST - 1) == 2);
  CHECK(ceil_div(LARGEST, 1) == LARGEST);
  CHECK(ceil_div(LARGEST, 2) == 1 << 30);
  CHECK(ceil_div(LARGEST, 256) == 1 << 23);
}
