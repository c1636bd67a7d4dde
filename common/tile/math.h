// Small integer helpers.
#pragma once

namespace tile {

// Dynamic shared memory that a CTA may have on sm_90: 227 KB.
constexpr int MAX_SMEM_BYTES = 227 * 1024;

// Smallest q with q * b >= a; a >= 0, b > 0. Does not overflow where a + b would.
constexpr int ceil_div(int a, int b) {
  return a / b + (a % b != 0);
}

// Where share `index` of `shares` begins when `count` things are shared out as evenly as can be, in
// order; share_begin(count, shares, shares) == count. count * shares must not overflow.
constexpr int share_begin(int count, int index, int shares) {
  return count * index / shares;
}

static_assert(ceil_div(0, 64) == 0 && ceil_div(64, 64) == 1 && ceil_div(65, 64) == 2);
static_assert(ceil_div(2147483647, 128) == 16777216);

static_assert(share_begin(7, 0, 2) == 0 && share_begin(7, 1, 2) == 3 && share_begin(7, 2, 2) == 7);

}  // namespace tile
