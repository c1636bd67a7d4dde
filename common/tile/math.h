// Small integer helpers.
#pragma once

namespace tile {

// Smallest q with q * b >= a; a >= 0, b > 0. Does not overflow where a + b would.
constexpr int ceil_div(int a, int b) {
  return a / b + (a % b != 0);
}

static_assert(ceil_div(0, 64) == 0 && ceil_div(64, 64) == 1 && ceil_div(65, 64) == 2);
static_assert(ceil_div(2147483647, 128) == 16777216);

}  // namespace tile
