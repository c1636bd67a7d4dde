// The tiles of rung 15, which multiplies packed weights, and what each is expected to take.
#pragma once

#include <algorithm>
#include <cmath>

#include "common/tile/cost_model.h"
#include "common/tile/k_shares.h"
#include "common/tile/math.h"
#include "common/tile/packed_weights.h"

namespace tile {

// How many of `most` can share `count` things so that each has as many.
constexpr int sharers_of(int count, int most) {
  while (count % most != 0) --most;
  return most;
}

// A tile of D^T: `consumers` x 64 rows, which are columns of D, and bn columns, which are rows of
// D.
struct MixedTile {
  const char *name_8, *name_4;  // of weights of 8 and of 4 bits
  int consumers, bn;
  int split = 1;   // CTAs of a cluster that share a tile's K
  int slices = 1;  // warpgroups of a CTA that share it
  int ctas = 1;    // of an SM at a time

  constexpr int bm() const { return 64 * consumers; }

  // Whether a block's first half is decoded before the block in front has been added up, for which
  // narrow tiles have other warps.
  constexpr bool ahead() const { return bn >= 64; }

  // Whether two warpgroups take turns, so that one multiplies while the other adds up its block.
  // In narrow tiles decoding takes the time, and a turn is one more thing to wait for.
  constexpr bool turns() const { return consumers == 2 && bn > 64; }

  // Of a tile whose K a cluster splits, each of so many CTAs finishes as many columns: a multiple
  // of 8, since sums are exchanged 8 columns wide.
  constexpr int finishers() const { return sharers_of(bn / 8, split); }
  constexpr int columns_each() const { return bn / finishers(); }

  // Shared memory: partial sums of a cluster and of the slices, in fp32; the boxes of D; and the
  // slots of the ring that then fit, each with packed weights, bf16 of X, scales, and barriers.
  constexpr int exchange_bytes() const { return split > 1 ? split * bm() * columns_each() * 4 : 0; }
  constexpr int parts_bytes() const { return (slices - 1) * bm() * bn * 4; }
  constexpr int boxes_bytes() const { return bm() * columns_each() * 2; }
  constexpr int slot_bytes(int bits, int blocks) const {
    return slices * blocks * (consumers * packed_block_bytes(bits) + bn * 256 + bm() * 2) + 128;
  }
  constexpr int slots_of(int bits, int blocks) const {
    constexpr int BARRIERS_AND_PADDING = 1024, MOST = 24;
    constexpr int RESERVED = 1024;  // of a CTA
    const int others = exchange_bytes() + parts_bytes() + boxes_bytes() + BARRIERS_AND_PADDING;
    const int smem_bytes = (MAX_SMEM_BYTES + RESERVED) / ctas - RESERVED;
    return std::min(MOST, (smem_bytes - others) / slot_bytes(bits, blocks));
  }
  // Blocks of 128 of K that a warpgroup has of a slot. Two, so that one is added up while the other
  // is multiplied, where decoding is what takes the time, four such slots fit, and they are not too
  // much of K.
  constexpr int blocks(int bits) const {
    return bits == 4 && bn <= 32 && slices <= 2 && slots_of(bits, 2) >= 4 ? 2 : 1;
  }
  constexpr int ring_slots(int bits) const { return slots_of(bits, blocks(bits)); }
};

// Rows x columns of a tile of D^T; s2, s4: so many warpgroups share a tile's K; k2, k4: so many CTAs
// of a cluster do; x2: two CTAs an SM. Of two that are expected to take as long, the first is
// chosen. Without designators, as SHARED_K.
constexpr MixedTile MIXED_TILES[] = {
    // clang-format off
    // names                               consumers, bn, split, slices, ctas
    {"w8_64x8_s4",     "w4_64x8_s4",     1,   8, 1, 4},
    {"w8_64x8_s4_k2",  "w4_64x8_s4_k2",  1,   8, 2, 4},
    {"w8_64x8_s4_k4",  "w4_64x8_s4_k4",  1,   8, 4, 4},
    {"w8_64x8_s2_x2",  "w4_64x8_s2_x2",  1,   8, 1, 2, 2},
    {"w8_64x16_s4",    "w4_64x16_s4",    1,  16, 1, 4},
    {"w8_64x16_s4_k2", "w4_64x16_s4_k2", 1,  16, 2, 4},
    {"w8_64x16_s2_x2", "w4_64x16_s2_x2", 1,  16, 1, 2, 2},
    {"w8_128x16_x2",   "w4_128x16_x2",   2,  16, 1, 1, 2},
    {"w8_256x32",      "w4_256x32",      4,  32, 1, 1},
    {"w8_64x32_s4",    "w4_64x32_s4",    1,  32, 1, 4},
    {"w8_64x32_s2_k2", "w4_64x32_s2_k2", 1,  32, 2, 2},
    {"w8_64x32_s2_k4", "w4_64x32_s2_k4", 1,  32, 4, 2},
    {"w8_128x32_x2",   "w4_128x32_x2",   2,  32, 1, 1, 2},
    {"w8_64x48_s2",    "w4_64x48_s2",    1,  48, 1, 2},
    {"w8_64x48_s2_k2", "w4_64x48_s2_k2", 1,  48, 2, 2},
    {"w8_128x48",      "w4_128x48",      2,  48, 1, 1},
    {"w8_128x48_k2",   "w4_128x48_k2",   2,  48, 2, 1},
    {"w8_64x64_s2",    "w4_64x64_s2",    1,  64, 1, 2},
    {"w8_64x64_s2_k2", "w4_64x64_s2_k2", 1,  64, 2, 2},
    {"w8_128x64",      "w4_128x64",      2,  64, 1, 1},
    {"w8_128x64_k2",   "w4_128x64_k2",   2,  64, 2, 1},
    {"w8_128x80",      "w4_128x80",      2,  80, 1, 1},
    {"w8_128x80_k2",   "w4_128x80_k2",   2,  80, 2, 1},
    {"w8_128x96",      "w4_128x96",      2,  96, 1, 1},
    {"w8_128x96_k2",   "w4_128x96_k2",   2,  96, 2, 1},
    {"w8_128x96_k4",   "w4_128x96_k4",   2,  96, 4, 1},
    {"w8_128x112",     "w4_128x112",     2, 112, 1, 1},
    {"w8_128x112_k2",  "w4_128x112_k2",  2, 112, 2, 1},
    {"w8_128x128",     "w4_128x128",     2, 128, 1, 1},
    {"w8_128x128_k2",  "w4_128x128_k2",  2, 128, 2, 1},
    {"w8_128x128_k4",  "w4_128x128_k4",  2, 128, 4, 1},
    {"w8_128x144",     "w4_128x144",     2, 144, 1, 1},
    {"w8_128x160",     "w4_128x160",     2, 160, 1, 1},
    {"w8_128x176",     "w4_128x176",     2, 176, 1, 1},
    // clang-format on
};

// What no ceiling gives: fitted to trials of these tiles on an H200 and an H100
// (docs/results/h200.mixed.csv, h100.mixed.csv).
struct FittedMixed {
  double start_clocks = 5360;     // of a launch: until the first bytes land, and after the last
  double beside_clocks = 760;     // less, if the next grid fits beside it
  double cluster_clocks = 280;    // of one whose CTAs share K: to meet;
  double again_clocks = 465;      // and to meet again for each tile behind the first,
  double exchange_clocks = 17;    // and of each column of a tile, to exchange its sums
  double block_clocks = 333;      // 128 of K of two warpgroups of an SM: to decode, and for one to
                                  // wait for the other
  double column_clocks = 6.19;    // and of each column of the tile
  double paired = 0.945;          // times as long, if slots have two blocks
  double crowded = 2.02;          // times longer, of four warpgroups of an SM
  double epilogue_clocks = 18.5;  // a column: to add it up among warpgroups, stage and store it
  double idle_power = 0.045;    // DRAM delivers (share of SMs that have a CTA) ^ this of its rate,
  double uneven_power = 0.182;  // or (CTAs / those that its rounds have room for) ^ this
  double l2_bytes_per_clock = 54.7;  // and SM, of rows of X and of weights
  // A clock and SM, of rows outside of X. L2 delivers them slowly: make limits, l2_outside.
  double outside_bytes_per_clock = 28;
};

// Expected clocks, at gpu.mhz, of one launch: D [m][n] of K = k, all > 0, of weights of so many
// bits, by clusters of which `at_once` run at a time.
inline double predicted_clocks(const MixedTile& config, int bits, int m, int n, int k, int at_once,
                               const Gpu& gpu) {
  constexpr FittedMixed FITTED;
  const int tiles_m = ceil_div(n, config.bm()), tiles_n = ceil_div(m, config.bn);
  const int tiles = tiles_m * tiles_n, rounds = ceil_div(tiles, at_once);
  const int slots = ceil_div(ceil_div(k, 128), config.split * config.slices * config.blocks(bits));

  // What a slot takes: its products, or its bytes on their way from L2.
  const int on_sm = config.ctas > 1 && tiles > gpu.sms ? config.ctas : 1;
  const bool crowded = config.consumers * config.slices * on_sm > 2;
  const double block = (FITTED.block_clocks + FITTED.column_clocks * config.bn) *
                       (crowded ? FITTED.crowded : 1) *
                       (config.blocks(bits) > 1 ? FITTED.paired : 1);
  const int rows = rows_of_tile(m, config.bn, tiles_n, config.split);
  const int block_bytes = config.slices * (config.bm() * 16 * bits + rows * 256);
  const double slot =
      config.blocks(bits) * std::max(block, block_bytes * on_sm / FITTED.l2_bytes_per_clock);

  const double outside =
      2.0 * k * tiles_m * (tiles_n * rows - m) / (FITTED.outside_bytes_per_clock * gpu.sms);
  const bool shared = config.split > 1;
  const double column = FITTED.epilogue_clocks + (shared ? FITTED.exchange_clocks : 0);
  const double again = shared ? FITTED.again_clocks * (rounds - 1) : 0;
  const double compute = rounds * (slots * slot + column * config.bn) + again + outside;
  const double bytes =
      1.0 * n * k * bits / 8 + 2.0 * m * k * reads_of_dram(tiles_m, 1) + 2.0 * m * n;
  const double busy = 1.0 * tiles * config.split / gpu.sms;  // SMs that have a CTA, of all
  const double rate = busy < 1 ? std::pow(busy, FITTED.idle_power)
                               : std::pow(1.0 * tiles / (rounds * at_once), FITTED.uneven_power);
  const double dram = bytes / gpu.dram_bytes_per_clock / std::min(1.0, rate);
  const bool beside = 2 * tiles <= at_once;
  return FITTED.start_clocks - (beside ? FITTED.beside_clocks : 0) +
         (shared ? FITTED.cluster_clocks : 0) + overlapped(compute, dram, 0);
}

}  // namespace tile
