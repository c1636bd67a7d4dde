// The tiles of rung 14, and what a shape takes with each of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/tile/cost_model.h"

namespace tile {

// Rows of 128 bytes of A and B, and a scale for each row of A.
constexpr int scaled_slot_bytes(const GemmConfig& config) {
  return (config.bm() + config.bn) * 128 + config.bm() * 4;
}

// Slots of a ring that fit into shared memory beside the staged results, of which each consumer has
// `buffers` blocks of 64 rows.
constexpr int scaled_ring_slots(const GemmConfig& config, int buffers) {
  constexpr int BARRIERS_AND_PADDING = 1024;
  const int staged = config.consumers * buffers * 64 * config.bn * 2;
  return (MAX_SMEM_BYTES - BARRIERS_AND_PADDING - staged) / scaled_slot_bytes(config);
}

// Blocks that each consumer stages at a time: all, unless that leaves too few slots.
constexpr int scaled_staging_buffers(const GemmConfig& config) {
  return scaled_ring_slots(config, config.blocks) >= 3 ? config.blocks : 1;
}

// Rows x columns of a tile. A consumer of two blocks has accumulators for both, and one set of sums.
// What each is worth: tests/host/scaled_cost_model_test.cpp.
constexpr GemmConfig SCALED_CONFIGURATIONS[] = {
    // clang-format off
    // name     consumers, blocks, bn
    {"256x128",      2, 2, 128},
    {"192x128",      3, 1, 128},
    {"128x192",      2, 1, 192},
    {"128x160",      2, 1, 160},
    {"128x128",      2, 1, 128},
    {"64x192",       1, 1, 192},
    {"64x160",       1, 1, 160},
    {"64x128",       1, 1, 128},
    {"64x96",        1, 1,  96},
    {"64x64",        1, 1,  64},
    {"64x48",        1, 1,  48},
    {"64x32",        1, 1,  32},
    {"64x16",        1, 1,  16},
    // clang-format on
};

// The one that also comes without promotion, "128x192".
constexpr int UNPROMOTED = 2;

// What no ceiling gives, as Fitted of the cost model: fitted to a sweep of trial shapes on an H200.
struct FittedScaled {
  double start_clocks = 3800;
  double latency_clocks = 229;   // of a block: from the end of its products to the next ones
  double promote_clocks = 0.41;  // a column of a 64-row block, which the tensor cores wait
  double smem_clocks = 1.12;     // of 128 bytes that wgmma reads or TMA writes
  double l2_bytes_per_clock = 90;
  double epilogue_clocks = 10.3;  // a column of a 64-row block: to round and to stage it
  double turn_clocks = 55;        // of a tile, for each two consumers
  double store_clocks = 203;      // of a box that TMA stores
  double outside_lines = 9.7;     // requests to L2 that are as slow as a row outside of the matrix
};

// Expected clocks, as predicted_clocks(): of D [m][n] of K = k bytes, by CTAs of which `resident` run
// at a time. lda, ldb: bytes from row to row of A and B; 0: k. Three terms differ. A step is 128 of K,
// in the bytes and the tensor clocks that 64 of bf16 take. Its sums are promoted meanwhile, which
// costs the tensor cores a part of that time. And shared memory may be slower than either: tiles of
// few columns read A again for little.
inline double scaled_clocks(const GemmConfig& config, int m, int n, int k, int resident,
                            const Gpu& gpu, long long lda = 0, long long ldb = 0) {
  constexpr FittedScaled FITTED;
  const double rows = m, cols = n;  // m * n * k would overflow integers
  const int bm = config.bm(), bn = config.bn, parts = config.consumers * config.blocks;
  const double blocks_m = std::ceil(rows / bm), blocks_n = std::ceil(cols / bn);
  const double blocks = blocks_m * blocks_n, steps = ceil_div(k, 128);

  // An SM: the tensor cores with the promotions, one consumer, and shared memory.
  const double tensor = 2.0 * bm * bn * 64 / gpu.tensor_flop;
  const double own = config.blocks * (tensor / parts + FITTED.latency_clocks);
  const double smem = FITTED.smem_clocks * (parts * (64 + bn) + bm + bn);
  const double step = std::max({tensor + FITTED.promote_clocks * parts * bn, own, smem});

  // L2 and DRAM, as there; a row of D has two bytes an element.
  const double row_lines = lines_per_row((lda > 0 ? lda : k) / 2);
  const double col_lines = lines_per_row((ldb > 0 ? ldb : k) / 2);
  const double row_requests = rows * row_lines + (blocks_m * bm - rows) * FITTED.outside_lines;
  const double col_requests = cols * col_lines + (blocks_n * bn - cols) * FITTED.outside_lines;
  const double l2_bytes = (row_requests / blocks_m + col_requests / blocks_n) * 128;
  const double l2 = l2_bytes / (FITTED.l2_bytes_per_clock * gpu.sms);
  const double groups = std::ceil(blocks_m / raster_group(bm, bn, resident));
  const double sweeps = cols * k * halves_of_l2(blocks_m) > gpu.l2_bytes ? groups : 1;
  const double dram_bytes = rows * k * halves_of_l2(blocks_n) +
                            cols * k * halves_of_l2(blocks_m) * sweeps + 2 * rows * cols;
  const double dram = dram_bytes / blocks / gpu.dram_bytes_per_clock;

  const double store = FITTED.store_clocks * bn / std::gcd(bn, 64);  // of a block
  const bool waits = scaled_staging_buffers(config) < config.blocks;
  const double epilogue = FITTED.turn_clocks * config.consumers * (config.consumers - 1) +
                          FITTED.epilogue_clocks * config.blocks * bn + (waits ? store : 0);

  const double full = std::ceil(blocks / resident) - 1, last = blocks - full * resident;
  const double full_round =
      std::max(overlapped(steps * step + epilogue, steps * l2 * resident, dram * resident),
               store * config.blocks);
  const double last_round = overlapped(steps * step, steps * l2 * last, dram * last) + epilogue;
  return FITTED.start_clocks + full * full_round + last_round;
}

}  // namespace tile
