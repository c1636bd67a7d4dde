// The tiles of rung 14, and what a shape takes with each of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "common/tile/cost_model.h"

namespace tile {

// Of each slice of K: rows of 128 bytes of A and B, and a scale for each row of A.
constexpr int scaled_slot_bytes(int rows, int cols, int slices) {
  return slices * ((rows + cols) * 128 + rows * 4);
}
constexpr int scaled_slot_bytes(const GemmConfig& config) {
  return scaled_slot_bytes(config.bm(), config.bn, config.slices);
}

// Partial sums of all slices but one.
constexpr int scaled_parts_bytes(const GemmConfig& config) {
  return (config.slices - 1) * config.bm() * config.bn * 4;
}

// Registers of a consumer's accumulators and sums: of all its blocks, and of one.
constexpr int scaled_sum_registers(const GemmConfig& config) {
  return (config.blocks + 1) * config.bn / 2;
}

// Rows of A and D in a tile: as many in each tile, and in each of its blocks, in eights, since TMA takes
// longer for a row that is not there than for one that is. Of the two tiles that large products take all
// rows: their number is then known when the kernel is compiled.
constexpr bool scaled_rows_are_even(const GemmConfig& config) {
  return config.bm() == 64 || scaled_sum_registers(config) < 192;
}
constexpr int scaled_tile_rows(const GemmConfig& config, int m) {
  if (!scaled_rows_are_even(config)) return config.bm();
  const int blocks = config.bm() / 64, rows = ceil_div(m, ceil_div(m, config.bm()));
  return ceil_div(rows, 8 * blocks) * 8 * blocks;
}

// Slots of a ring that fit into shared memory beside the staged results, of which each consumer has
// `buffers` blocks of 64 rows.
constexpr int scaled_ring_slots(const GemmConfig& config, int buffers) {
  constexpr int BARRIERS_AND_PADDING = 1024;
  const int staged = config.consumers * buffers * 64 * config.bn * 2;
  return (MAX_SMEM_BYTES - BARRIERS_AND_PADDING - staged - scaled_parts_bytes(config)) /
         scaled_slot_bytes(config);
}

// Blocks that each consumer stages at a time: all, unless that leaves too few slots.
constexpr int scaled_staging_buffers(const GemmConfig& config) {
  return scaled_ring_slots(config, config.blocks) >= 3 ? config.blocks : 1;
}

// Rows x columns of a tile; s2, s4: so many warpgroups share its K. A consumer of two blocks has accumulators for both, and one set of sums.
// What each is worth: tests/host/scaled_cost_model_test.cpp.
constexpr GemmConfig SCALED_CONFIGURATIONS[] = {
    // clang-format off
    // name     consumers, blocks, bn, clusters, slices
    {"256x128",      2, 2, 128},
    {"192x128",      3, 1, 128},
    {"128x192",      2, 1, 192},
    {"128x160",      2, 1, 160},
    {"128x128",      2, 1, 128},
    {"64x192",       1, 1, 192},
    {"64x160",       1, 1, 160},
    {"64x128_s2",    1, 1, 128, 1, 1, 2},
    {"64x96_s2",     1, 1,  96, 1, 1, 2},
    {"64x64_s2",     1, 1,  64, 1, 1, 2},
    {"64x32_s4",     1, 1,  32, 1, 1, 4},
    {"64x16_s4",     1, 1,  16, 1, 1, 4},
    // clang-format on
};

// The one that also comes without promotion, "128x192".
constexpr int UNPROMOTED = 2;
static_assert(SCALED_CONFIGURATIONS[UNPROMOTED].bm() == 128 &&
              SCALED_CONFIGURATIONS[UNPROMOTED].bn == 192);
static_assert(std::all_of(std::begin(SCALED_CONFIGURATIONS), std::end(SCALED_CONFIGURATIONS),
                          [](const GemmConfig& each) {
                            return each.cluster() == 1 && !each.in_turn && !each.sideways;
                          }),
              "rung 14 has no clusters, no turns and no tiles on their side");

// What no ceiling gives, as Fitted of the cost model: fitted to trials on an H200 and an H100
// (docs/results/h200.scaled.csv, h100.scaled.csv).
struct FittedScaled {
  double start_clocks = 4200;     // of a launch: until the first bytes land, and after the last
  double beside_clocks = 940;     // less, if the next grid fits beside it
  double latency_clocks = 217;    // of a block: from the end of its products to the next ones
  double promote_clocks = 0.43;   // a column of a 64-row block, which the tensor cores wait
  double smem_clocks = 1.125;     // of 128 bytes that wgmma reads or TMA writes
  double epilogue_clocks = 5.94;  // a column of a 64-row block: to round and to stage it
  double turn_clocks = 124;       // of a tile, for each two consumers
  double store_clocks = 400;      // of a box that TMA stores
  double outside_lines = 4.2;     // requests to L2 that are as slow as a row outside of the matrix
  double slice_clocks = 533;      // of a tile, to add up each slice of K but one
};

// Expected clocks, as predicted_clocks(): of D [m][n] of K = k bytes, by CTAs of which `resident` run
// at a time. lda, ldb: bytes from row to row of A and B; 0: k. Six terms differ. A step is 128 of K
// of each slice, in the bytes and the tensor clocks that 64 of bf16 take. Its sums are promoted
// meanwhile, which costs the tensor cores a part of that time. Shared memory may be slower than
// either: tiles of few columns read A again for little. Most tiles have few rows outside of A. DRAM
// is read once for both halves of L2. And a launch takes less where the next one's CTAs find SMs that
// are free.
inline double scaled_clocks(const GemmConfig& config, int m, int n, int k, int resident,
                            const Gpu& gpu, long long lda = 0, long long ldb = 0) {
  constexpr FittedScaled FITTED;
  const double rows = m, cols = n;  // m * n * k would overflow integers
  const int bm = config.bm(), bn = config.bn, parts = config.consumers * config.blocks;
  const double blocks_m = std::ceil(rows / bm), blocks_n = std::ceil(cols / bn);
  const double blocks = blocks_m * blocks_n;
  const int slices = config.slices, steps = ceil_div(ceil_div(k, 128), slices);

  // An SM: the tensor cores with the promotions, one consumer, and shared memory.
  const double tensor = 2.0 * bm * bn * 64 / gpu.tensor_flop;
  const double own = config.blocks * (tensor / parts + FITTED.latency_clocks);
  const double smem = FITTED.smem_clocks * (parts * (64 + bn) + bm + bn);
  const double all = std::max(tensor + FITTED.promote_clocks * parts * bn, smem);
  const double step = std::max(slices * all, own);

  // L2 and DRAM, as there.
  const double row_lines = lines_per_row((lda > 0 ? lda : k) / 2);
  const double col_lines = lines_per_row((ldb > 0 ? ldb : k) / 2);
  const double lines =
      lines_of_block(rows, row_lines, blocks_m, scaled_tile_rows(config, m), FITTED.outside_lines) +
      lines_of_block(cols, col_lines, blocks_n, bn, FITTED.outside_lines);
  const double l2 = slices * lines * 128 / (gpu.l2_bytes_per_clock * gpu.sms);
  const int group = raster_group(bm, bn, resident, m, n, k, gpu);
  const double dram = bytes_of_dram(rows, cols, k, 1, blocks_m, blocks_n, group, gpu, 0) / blocks /
                      gpu.dram_bytes_per_clock;

  const int rest = bn % 64;
  const double store = FITTED.store_clocks * (bn / 64 + rest / std::gcd(rest, 64));  // of a block
  const bool waits = scaled_staging_buffers(config) < config.blocks;
  // While one slice stages what all have added up, the others multiply.
  const double staged =
      slices > 1 ? FITTED.slice_clocks * (slices - 1) : FITTED.epilogue_clocks * config.blocks * bn;
  const double epilogue =
      FITTED.turn_clocks * config.consumers * (config.consumers - 1) + staged + (waits ? store : 0);

  const bool beside = 2 * blocks <= resident;
  return clocks_of_rounds(FITTED.start_clocks - (beside ? FITTED.beside_clocks : 0), blocks,
                          resident,
                          {steps * step, steps * l2, dram, epilogue, store * config.blocks});
}

}  // namespace tile
