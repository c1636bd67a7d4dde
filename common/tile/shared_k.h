// The configurations of rung 12, which share the K of tiles, and what each is expected to take.
#pragma once

#include <algorithm>
#include <cmath>

#include "common/tile/cost_model.h"
#include "common/tile/k_shares.h"
#include "common/tile/math.h"

namespace tile {

// A tile of D^T: `consumers` warpgroups of `blocks` x 64 rows, which are columns of D, and bn
// columns, which are rows of D; or, if it is upright, one of D itself.
struct SharedK {
  const char* name;
  int consumers, blocks, bn;
  int cluster_m = 1;  // CTAs of a cluster, one above the other, that share the columns
  int cluster_n = 1;  // CTAs of a cluster, side by side, that share the rows
  int split = 1;      // CTAs of a cluster that share a tile's K
  int ctas = 1;       // of an SM at a time
  Share share = Share::none;
  bool upright = false;

  constexpr int bm() const { return 64 * consumers * blocks; }
  constexpr int sharers() const { return cluster_m * cluster_n; }
  constexpr int cluster() const { return sharers() * split; }

  constexpr const char* what() const {  // in a few words
    if (split > 1) return "K split in a cluster";
    if (share == Share::cut) return "each tile cut to fill the GPU";
    if (share == Share::last_round) return "the last round's K shared";
    return share == Share::all_rounds ? "the K of all rounds shared" : "whole tiles";
  }

  // Of a tile whose K a cluster splits, each of so many CTAs finishes as many columns.
  constexpr int finishers() const { return std::min(split, bn / 8); }
  constexpr int columns_each() const { return bn / finishers(); }

  // Shared memory of a CTA, of which an SM holds `ctas`: partial sums of a cluster, in fp32; the
  // boxes of D; and the slots of the ring that then fit.
  constexpr int exchange_bytes() const { return split > 1 ? split * bm() * columns_each() * 4 : 0; }
  constexpr int ring_slots() const {
    constexpr int RESERVED = 1024, BARRIERS_AND_PADDING = 1536;  // of a CTA
    const int smem_bytes = (MAX_SMEM_BYTES + RESERVED) / ctas - RESERVED;
    const int boxes_bytes = 64 * consumers * columns_each() * 2;
    return (smem_bytes - exchange_bytes() - boxes_bytes - BARRIERS_AND_PADDING) /
           ((bm() + bn) * 128);
  }
};

// Rows x columns of a tile of D^T; 1x2: two CTAs share the rows; 4x1: four share the columns; k2 to
// k8: so many CTAs of a cluster share a tile's K; x2: two CTAs an SM; cut, last, all: Share. Without
// designators: nvcc 13.0 with clang as host compiler takes a member between two of them for 0.
constexpr SharedK SHARED_K[] = {
    // clang-format off
    // name           consumers, blocks, bn, cluster_m, cluster_n, split, ctas, share
    {"64x8_x2",         1, 1,   8, 1, 1, 1, 2},
    {"64x16_x2",        1, 1,  16, 1, 1, 1, 2},
    {"64x32_x2",        1, 1,  32, 1, 1, 1, 2},
    {"64x40_x2",        1, 1,  40, 1, 1, 1, 2},
    {"64x64_x2",        1, 1,  64, 1, 1, 1, 2},
    {"64x128",          1, 1, 128},
    {"128x16_x2",       1, 2,  16, 1, 1, 1, 2},
    {"128x32_x2",       1, 2,  32, 1, 1, 1, 2},
    {"256x16_x2",       2, 2,  16, 1, 1, 1, 2},
    {"128x128",         2, 1, 128},
    {"128x144",         2, 1, 144},
    {"128x160",         2, 1, 160},
    {"128x176",         2, 1, 176},
    {"128x192",         2, 1, 192},
    {"128x208",         2, 1, 208},
    {"128x72_1x2",      2, 1,  72, 1, 2},
    {"128x80_1x2",      2, 1,  80, 1, 2},
    {"128x88_1x2",      2, 1,  88, 1, 2},
    {"128x96_1x2",      2, 1,  96, 1, 2},
    {"128x104_1x2",     2, 1, 104, 1, 2},
    {"128x144_1x2",     2, 1, 144, 1, 2},
    {"128x152_1x2",     2, 1, 152, 1, 2},
    {"128x160_1x2",     2, 1, 160, 1, 2},
    {"128x160_4x1",     2, 1, 160, 4},
    {"128x192_4x1",     2, 1, 192, 4},
    {"128x224_2x1",     2, 1, 224, 2},
    {"64x160_4x2",      1, 1, 160, 4, 2},
    {"192x104_1x2",     3, 1, 104, 1, 2},
    {"192x112_1x2",     3, 1, 112, 1, 2},
    {"192x136_1x2",     3, 1, 136, 1, 2},
    {"192x112_2x2",     3, 1, 112, 2, 2},
    {"192x128_2x2",     3, 1, 128, 2, 2},
    {"192x144_2x2",     3, 1, 144, 2, 2},
    {"192x104_1x4",     3, 1, 104, 1, 4},
    {"256x96",          2, 2,  96},
    {"256x120",         2, 2, 120},
    {"256x136_1x2",     2, 2, 136, 1, 2},
    {"256x144_1x2",     2, 2, 144, 1, 2},
    {"64x64",           1, 1,  64},
    {"64x8_x2_k4",      1, 1,   8, 1, 1, 4, 2},
    {"64x16_x2_k2",     1, 1,  16, 1, 1, 2, 2},
    {"64x32_x2_k2",     1, 1,  32, 1, 1, 2, 2},
    {"64x32_x2_k4",     1, 1,  32, 1, 1, 4, 2},
    {"64x64_k2",        1, 1,  64, 1, 1, 2},
    {"64x64_k4",        1, 1,  64, 1, 1, 4},
    {"64x128_k2",       1, 1, 128, 1, 1, 2},
    {"128x128_k8",      2, 1, 128, 1, 1, 8},
    {"64x8_x2_cut",     1, 1,   8, 1, 1, 1, 2, Share::cut},
    {"64x96_cut",       1, 1,  96, 1, 1, 1, 1, Share::cut},
    {"64x128_cut",      1, 1, 128, 1, 1, 1, 1, Share::cut},
    {"64x160_cut",      1, 1, 160, 1, 1, 1, 1, Share::cut},
    {"64x192_cut",      1, 1, 192, 1, 1, 1, 1, Share::cut},
    {"64x224_cut",      1, 1, 224, 1, 1, 1, 1, Share::cut},
    {"128x128_cut",     2, 1, 128, 1, 1, 1, 1, Share::cut},
    {"128x176_cut",     2, 1, 176, 1, 1, 1, 1, Share::cut},
    {"128x192_cut",     2, 1, 192, 1, 1, 1, 1, Share::cut},
    {"128x208_cut",     2, 1, 208, 1, 1, 1, 1, Share::cut},
    {"192x128_cut",     3, 1, 128, 1, 1, 1, 1, Share::cut},
    {"128x160_1x2_cut", 2, 1, 160, 1, 2, 1, 1, Share::cut},
    {"64x160_4x1_cut",  1, 1, 160, 4, 1, 1, 1, Share::cut},
    {"192x136_1x2_cut", 3, 1, 136, 1, 2, 1, 1, Share::cut},
    {"192x104_1x4_cut", 3, 1, 104, 1, 4, 1, 1, Share::cut},
    {"128x112_2x2_cut", 2, 1, 112, 2, 2, 1, 1, Share::cut},
    {"128x176_2x1_cut", 2, 1, 176, 2, 1, 1, 1, Share::cut},
    {"64x144_2x2_cut",  1, 1, 144, 2, 2, 1, 1, Share::cut},
    {"64x8_x2_all",     1, 1,   8, 1, 1, 1, 2, Share::all_rounds},
    {"128x160_all",     2, 1, 160, 1, 1, 1, 1, Share::all_rounds},
    {"128x160_last",    2, 1, 160, 1, 1, 1, 1, Share::last_round},
    // clang-format on
};

// Cut tiles upright: up. Only these can be, since the kernel that multiplies leaves partial sums, and
// the one that adds them up stores D either way. So they are kernels of the table above.
constexpr SharedK UPRIGHT[] = {
    // clang-format off
    // name              consumers, blocks, bn, cluster_m, cluster_n, split, ctas, share, upright
    {"64x8_x2_up_cut",      1, 1,   8, 1, 1, 1, 2, Share::cut, true},
    {"64x96_up_cut",        1, 1,  96, 1, 1, 1, 1, Share::cut, true},
    {"64x128_up_cut",       1, 1, 128, 1, 1, 1, 1, Share::cut, true},
    {"64x160_up_cut",       1, 1, 160, 1, 1, 1, 1, Share::cut, true},
    {"64x192_up_cut",       1, 1, 192, 1, 1, 1, 1, Share::cut, true},
    {"64x224_up_cut",       1, 1, 224, 1, 1, 1, 1, Share::cut, true},
    {"128x128_up_cut",      2, 1, 128, 1, 1, 1, 1, Share::cut, true},
    {"128x176_up_cut",      2, 1, 176, 1, 1, 1, 1, Share::cut, true},
    {"128x192_up_cut",      2, 1, 192, 1, 1, 1, 1, Share::cut, true},
    {"128x208_up_cut",      2, 1, 208, 1, 1, 1, 1, Share::cut, true},
    {"192x128_up_cut",      3, 1, 128, 1, 1, 1, 1, Share::cut, true},
    {"128x160_1x2_up_cut",  2, 1, 160, 1, 2, 1, 1, Share::cut, true},
    {"64x160_4x1_up_cut",   1, 1, 160, 4, 1, 1, 1, Share::cut, true},
    {"192x136_1x2_up_cut",  3, 1, 136, 1, 2, 1, 1, Share::cut, true},
    {"192x104_1x4_up_cut",  3, 1, 104, 1, 4, 1, 1, Share::cut, true},
    {"128x112_2x2_up_cut",  2, 1, 112, 2, 2, 1, 1, Share::cut, true},
    {"128x176_2x1_up_cut",  2, 1, 176, 2, 1, 1, 1, Share::cut, true},
    {"64x144_2x2_up_cut",   1, 1, 144, 2, 2, 1, 1, Share::cut, true},
    // clang-format on
};

// What no ceiling gives, fitted as Fitted.
struct FittedSharedK {
  double start_clocks = 3060;    // of a launch: until the first bytes land, and after the last
  double beside_clocks = 2200;   // less, if the next grid fits beside it
  double cluster_clocks = 768;   // of a launch of clusters, which begin together
  double latency_clocks = 207;   // two consumers: from the end of products to the next ones
  double alone_clocks = 67.4;    // one consumer: a step, beside its products
  double block_clocks = 99.4;    // the same, for each block
  double sharing_clocks = 122;   // a step, for the slowest of the CTAs that share operands
  double epilogue_clocks = 5.2;  // a column of a block: to round, stage and store it
  double exchange_bytes = 15.6;  // a clock, of partial sums that a CTA sends to its peers
  double cta_clocks = 4840;      // until the next CTA has an SM's place
  double left_bytes = 11.6;      // a clock, of partial sums that a CTA leaves in the workspace
  double sum_bytes = 175;        // a clock and SM, of those that the second kernel adds up
  double cut_clocks = 800;       // of the second kernel, whatever it adds up
  double part_clocks = 60;       // of it, for each part of a tile
  double sum_elements = 210;     // of D a clock, that it writes
  double last_clocks = 9080;     // of the last cluster to come, beside the bytes
  double last_bytes = 23.2;      // a clock, of partial sums that it adds up
  double flight_clocks = 1940;   // from asking for a slot's bytes until they are here
  double sm_bytes = 88.6;        // a clock, that L2 delivers to one SM
  double apart = 1.05;           // times longer, where clusters are at different places of K
  double store_clocks = 2100;    // until a box is stored that the next block waits for
  double cut_l2 = 0.86;          // of the time that L2 takes, for tiles that are cut
  double cut_inside = 1.12;      // times longer a step of these, if four share rows inside sectors
  double split_apart = 1.13;     // the same if a cluster splits K and D has several tiles down
  double split_by_eight = 1.04;  // the same of clusters of eight that split K
  double dram_share = 1.05;      // of the DRAM ceiling
};

// Tiles that ask L2 for little: in clusters of 2x2, cut ones in 2x1, and those of three consumers in
// fours, cut ones in pairs too. Where rows begin on sectors others are as fast, and the model expects
// too much of these.
constexpr bool for_rows_inside_sectors(const SharedK& config) {
  const bool is_cut = config.share == Share::cut;
  return (config.consumers == 3 && config.sharers() > (is_cut ? 1 : 2)) ||
         (config.cluster_m == 2 && (config.cluster_n == 2 || is_cut));
}

// As the functions of the same names: [m][n] in tiles of so many `rows` of D, `at_once` clusters at a
// time. Where all or the last tiles are shared, every SM is busy to the end, and no neighbours read the
// same rows.
constexpr double crowding(const SharedK& config, const KSchedule& schedule, int at_once, int m,
                          int n, int rows, const Gpu& gpu) {
  const bool shares = schedule.whole < schedule.tiles;
  if (shares && schedule.cut == 0) return 0;
  const int clusters = shares ? schedule.clusters : schedule.tiles, cluster = config.cluster();
  if (2 * clusters <= at_once) return 0;  // the next grid fits beside this one
  const double of_l2 = l2_share(gpu, config.bm(), config.bn,
                                config.bm() / config.cluster_n + rows / config.cluster_m);
  return crowding(1.0 * clusters * cluster, 1.0 * at_once * cluster, cluster, config.ctas, of_l2,
                  n <= config.bm() * config.cluster_m || m <= rows);
}
constexpr double least_clocks(const SharedK& config, const KSchedule& schedule, int at_once, int m,
                              int n, int k, const Gpu& gpu) {
  const int ctas = std::min(schedule.clusters, at_once) * config.cluster();
  const double bytes = 2 * (1.0 * m * k + 1.0 * n * k + 1.0 * m * n);
  return least_clocks(1.0 * m * n * k, bytes, ceil_div(ctas, config.ctas), gpu);
}

// Expected clocks, at gpu.mhz, of one launch: D [m][n] of K = k, all > 0, by CTAs of which
// `resident` run at a time. lda, ldb: elements from row to row of A and B; 0: k. Upright tiles are
// those of D^T to the model: A and B change places.
inline double predicted_clocks(const SharedK& config, int m, int n, int k, int resident,
                               const Gpu& gpu, long long lda = 0, long long ldb = 0) {
  constexpr FittedSharedK FITTED;
  constexpr double OUTSIDE_LINES = Fitted{}.outside_lines, AGAIN = Fitted{}.again;
  if (lda == 0) lda = k;
  if (ldb == 0) ldb = k;
  const bool inside_sectors = begin_inside_sectors(lda) || begin_inside_sectors(ldb);
  if (for_rows_inside_sectors(config) && !inside_sectors) return NEVER;
  const int bm = config.bm(), bn = config.bn, cluster = config.cluster();
  const int tiles_m = ceil_div(n, bm * config.cluster_m);
  const int tiles_n = ceil_div(m, bn * config.cluster_n);
  const double tiles = 1.0 * tiles_m * tiles_n;
  const int k_tiles = ceil_div(k, 64), at_once = std::max(1, resident / cluster);
  if (tiles * k_tiles > 1e9) return NEVER;  // steps are counted in integers
  const KSchedule schedule = share_k(config.share, tiles_m * tiles_n, k_tiles, at_once);
  // Clusters at different places of K find in L2 neither rows nor columns that others have read.
  if (config.share == Share::all_rounds && tiles_n > 1) return NEVER;
  if (config.share == Share::last_round && tiles <= at_once) return NEVER;  // cut does that better
  if (config.share != Share::none && schedule.whole == schedule.tiles)
    return NEVER;  // in name only
  const double rows =
      rows_of_tile(m, bn, tiles_n * config.cluster_n, config.split, config.cluster_m);

  // Of a cluster's K step: what L2 delivers, and DRAM.
  const auto asked = [&](double of_a, double of_b) {  // bytes, by what a row of A and of B costs
    return 128 * (lines_of_block(n, of_b, tiles_m, bm * config.cluster_m, OUTSIDE_LINES) +
                  rows * config.cluster_n * of_a);
  };
  const double l2 = asked(reads_per_row(lda, gpu), reads_per_row(ldb, gpu)) /
                    (gpu.l2_bytes_per_clock * gpu.sms) * (schedule.cut > 0 ? FITTED.cut_l2 : 1);
  const double sm_l2 =  // of one CTA
      asked(lines_per_row(lda), lines_per_row(ldb)) / config.sharers() / FITTED.sm_bytes;
  const double flight = FITTED.flight_clocks / config.ring_slots();  // all of them are on their way
  const int group = raster_group(bm * config.cluster_m, static_cast<int>(rows) * config.cluster_n,
                                 at_once, n, m, 2LL * k, gpu);
  const double dram_rate = gpu.dram_bytes_per_clock * FITTED.dram_share;
  // Cut tiles that take the same part of K start one after the other, and without a cluster most lie
  // in one GPC, at one half of L2. What they read does not count again for the other.
  const double again = schedule.cut > 0 ? 0 : AGAIN;
  const double dram = bytes_of_dram(n, m, k, 2, tiles_m, tiles_n, group, gpu, again) /
                      (tiles * k_tiles) / dram_rate;
  // Clusters that share a row of K steps are at different places of it, so that none finds in L2 what
  // another has read, unless L2 has all of an operand.
  const double b_once = 2.0 * n * k > gpu.l2_bytes ? tiles_n : 1;
  const double a_once = 2.0 * m * k * reads_of_dram(tiles_m, AGAIN) > gpu.l2_bytes ? tiles_m : 1;
  const double shared_dram =
      2 * (1.0 * n * k * b_once + 1.0 * m * k * a_once) / (tiles * k_tiles) / dram_rate;

  // So many steps of so many clusters each, and `between` two tiles so many clocks without steps.
  const double tensor = 2.0 * bm * bn * 64 / gpu.tensor_flop;
  const auto clocks = [&](double steps, double clusters, double from_dram, double between = 0) {
    const double on_sm = std::ceil(std::min<double>(clusters, at_once) * cluster / gpu.sms);
    const double own = config.consumers == 1
                           ? FITTED.alone_clocks + FITTED.block_clocks * config.blocks + tensor / 2
                           : FITTED.latency_clocks + tensor / config.consumers;
    const double step = std::max({tensor * on_sm, own, flight, sm_l2 * on_sm}) +
                        (config.sharers() > 1 ? FITTED.sharing_clocks : 0);
    const bool rows_by_four = schedule.cut > 0 && config.sharers() == 4 && config.cluster_m < 4;
    const double slower = rows_by_four && inside_sectors ? FITTED.cut_inside : 1;
    const double apart = (config.split > 1 && tiles_n > 1 ? FITTED.split_apart : 1) *
                         (config.split == 8 ? FITTED.split_by_eight : 1);
    return apart * overlapped(steps / config.split * step * slower + between, steps * l2 * clusters,
                              steps * from_dram * clusters);
  };
  const double epilogue = FITTED.epilogue_clocks * config.blocks * bn / config.split +
                          FITTED.store_clocks * (config.blocks - 1);
  const bool one_tile = config.split > 1;  // a CTA
  const double whole = schedule.whole, full = std::ceil(whole / at_once) - 1;
  const bool shares = schedule.whole < schedule.tiles;
  const bool beside = !shares && 2 * tiles <= at_once;
  double total = FITTED.start_clocks - (beside ? FITTED.beside_clocks : 0) +
                 (cluster > 1 ? FITTED.cluster_clocks : 0) + epilogue;
  if (whole > 0) {
    const double between = one_tile ? FITTED.cta_clocks : epilogue;
    // Where an SM has two CTAs, the other one asks for bytes meanwhile.
    const double hidden = config.ctas > 1 ? between : 0;
    total += full * (clocks(k_tiles, at_once, dram, hidden) + between - hidden) +
             clocks(k_tiles, whole - full * at_once, dram);
  }
  if (one_tile) {
    total += 4.0 * bm * bn * (config.split - 1) / config.split / FITTED.exchange_bytes;
  }
  if (shares) {
    const double shared = tiles - whole, sharers = schedule.sharers;
    const double parts = schedule.cut > 0 ? sharers : std::min(2 * sharers, sharers + shared);
    const double part_bytes = 4.0 * bm * bn;  // of a CTA
    const double shared_clocks =
        clocks(shared * k_tiles / sharers, sharers, schedule.cut > 0 ? dram : shared_dram);
    total += shared_clocks * (schedule.cut > 0 ? 1 : FITTED.apart);
    if (schedule.cut == 0) {
      total += FITTED.last_clocks + (parts / shared - 1) * part_bytes / FITTED.last_bytes;
    } else {
      total += FITTED.cut_clocks + 1.0 * m * n / FITTED.sum_elements +
               FITTED.part_clocks * parts / shared + part_bytes * config.ctas / FITTED.left_bytes +
               parts * config.sharers() * part_bytes / (FITTED.sum_bytes * gpu.sms);
    }
  }
  const double crowding =
      tile::crowding(config, schedule, at_once, m, n, static_cast<int>(rows), gpu);
  return launched(total, crowding);
}

}  // namespace tile
