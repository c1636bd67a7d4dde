// How the warpgroups of a CTA share its registers.
#pragma once

#include <algorithm>

namespace tile {

// Registers that the launch of a CTA of `threads`, of which an SM holds `ctas`, takes at most of an
// SM's 65,536: as many for each thread. Where setmaxnreg gives consumers fewer, ptxas starts all
// threads with the consumers' number. The CTA keeps what the launch took, and its warpgroups can
// share out no others.
constexpr int launch_regs(int threads, int ctas = 1) {
  return std::min(255, 65536 / (ctas * threads)) / 8 * 8 * threads;
}
static_assert(launch_regs(384) == 384 * 168 && launch_regs(512) == 65536);

// Registers that setmaxnreg gives each thread of the consumers of such a CTA, where those of
// warpgroup 0, the producer's, keep `producer_regs`: at most 240.
constexpr int consumer_regs(int threads, int ctas, int producer_regs) {
  const int consumers = threads / 128 - 1;
  return std::min(240, (launch_regs(threads, ctas) / 128 - producer_regs) / consumers / 8 * 8);
}
static_assert(consumer_regs(256, 2, 56) == 200 && consumer_regs(384, 1, 56) == 224);
static_assert(consumer_regs(640, 1, 40) == 104 && consumer_regs(256, 1, 56) == 240);

}  // namespace tile
