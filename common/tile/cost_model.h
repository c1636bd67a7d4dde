// Which configuration of a tiled GEMM suits a shape: an estimate from first principles, in clocks.
//
// A CTA's time is rounds of tiles; a tile is k steps, each as slow as the slowest of four pipes
// (tensor cores, shared memory, L2, DRAM), and an epilogue of which the pipeline hides a part.
// docs/11_autotuned.md derives each term. Plain arithmetic: no table of shapes, nothing from CUDA.
#pragma once

#include <algorithm>
#include <utility>

#include "common/tile/math.h"

namespace tile {

// A tile is `consumers` warpgroups of `blocks` x 64 rows and bn columns, 64 of K a step.
struct GemmConfig {
  const char* name;
  int consumers;      // warpgroups that multiply
  int blocks;         // of 64 rows, of each of them
  int bn;             // columns
  int cluster_m = 1;  // CTAs one above the other, which share B
  int cluster_n = 1;  // CTAs side by side, which share A
  int split = 1;      // CTAs of a cluster that share a tile's K
  bool swap = false;  // D^T = B · A^T: rows of the tile are columns of D
  bool pingpong = false;  // a consumer has a tile of its own

  constexpr int bm() const { return 64 * blocks * (pingpong ? 1 : consumers); }
  constexpr int cluster() const { return cluster_m * cluster_n * split; }
};

// What the model knows of a GPU. Per clock: of the SMs, at the clock that they have under load.
struct Gpu {
  int sms = 132;
  double mhz = 1650;                 // SM clock under load
  double l2_bytes = 50e6;            // capacity
  double tensor_flop = 4096;         // a clock and SM: make limits, wgmma_n256
  double smem_bytes = 128;           // a clock and SM: make limits, smem_wgmma
  double l2_bytes_per_clock = 5500;  // a clock, all SMs, into shared memory: make limits, l2_tma
  double dram_bytes_per_clock = 2500;  // a clock, all SMs: make limits, dram_read
};

// Rows of tiles that the raster sweeps together: the block of D that runs at one time is then about
// as high as wide, in elements.
constexpr int raster_group(int bm, int bn, int tiles_at_once) {
  int group = 1;
  while ((group + 1) * (group + 1) * bm <= tiles_at_once * bn) ++group;
  return group;
}

// Expected clocks of one launch in a stream of launches: D [m][n] of K = k, by CTAs of which
// `resident` run at a time.
inline double predicted_clocks(const GemmConfig& config, int m, int n, int k, int resident,
                               const Gpu& gpu) {
  constexpr double START = 2500;     // of a kernel, until its first products run
  constexpr double LATENCY = 300;    // from the end of a consumer's products to its next ones
  constexpr double EPILOGUE = 1200;  // clocks in which a consumer rounds and stages its results
  if (config.swap) std::swap(m, n);
  const int bm = config.bm(), bn = config.bn;
  const int blocks =
      ceil_div(m, bm * config.cluster_m) * ceil_div(n, bn * config.cluster_n);  // of a cluster each
  const int clusters = std::max(1, resident / config.cluster());
  const int rounds = ceil_div(blocks, clusters);
  const int k_tiles = ceil_div(ceil_div(k, 64), config.split);
  const int busy = std::min(blocks, clusters) * config.cluster();

  // One k step of one CTA.
  const double tensor = 2.0 * bm * bn * 64 / gpu.tensor_flop;
  const double own = LATENCY + tensor / config.consumers;  // products that nobody else's hide
  const double smem = (bm / 64) * (64 + bn) * 128 / gpu.smem_bytes;
  const double l2 = (1.0 * bm / config.cluster_n + 1.0 * bn / config.cluster_m) * 128 * busy /
                    gpu.l2_bytes_per_clock;
  const double step = std::max({tensor, own, smem, l2});

  const double exchange = config.split > 1 ? 1500 + bm * bn * 4 / 32.0 : 0;
  const double compute = rounds * (k_tiles * step + EPILOGUE + exchange);
  const double bytes = 2.0 * (1.0 * m * k + 1.0 * n * k + 1.0 * m * n);
  const double dram = bytes / gpu.dram_bytes_per_clock;
  return START + std::max(compute, dram);
}

}  // namespace tile
