// How the warpgroups of a CTA share its registers.
#pragma once

#include <algorithm>

namespace tile {

// Registers that setmaxnreg gives each thread of the consumers of a CTA of `threads`, of which an SM
// holds `ctas`, where those of warpgroup 0, the producer's, keep `producer_regs`: at most 240. A CTA
// keeps the registers of its launch, its part of an SM's 65,536, and its warpgroups share them out
// anew.
constexpr int consumer_regs(int threads, int ctas, int producer_regs) {
  const int at_launch = std::min(255, 65536 / (ctas * threads)) / 8 * 8;
  const int consumers = threads / 128 - 1;
  return std::min(240, (at_launch * threads / 128 - producer_regs) / consumers / 8 * 8);
}

static_assert(consumer_regs(256, 2, 56) == 200 && consumer_regs(384, 1, 56) == 224);
static_assert(consumer_regs(640, 1, 40) == 104 && consumer_regs(256, 1, 56) == 240);

}  // namespace tile
