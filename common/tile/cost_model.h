// Which configuration of a tiled GEMM suits a shape: an estimate from first principles, in clocks.
//
// CTAs take blocks of tiles in rounds. A round lasts about as long as the slowest of three: the
// SM that multiplies, the bytes through L2, the bytes of DRAM. docs/cost_model.md derives each
// term. Plain arithmetic: no table of shapes, nothing from CUDA.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
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
  int slices = 1;     // warpgroups that share the rows and K of each consumer, of rungs 14 and up
  bool in_turn = false;   // each consumer has a tile of its own: rung 10
  bool sideways = false;  // a tile of D^T: its columns, by eights, are rows of D

  constexpr int bm() const { return 64 * blocks * (in_turn ? 1 : consumers); }
  constexpr int cluster() const { return cluster_m * cluster_n; }
  // Products side by side that a block takes. An instruction names a register for each two of its
  // columns and some more, and ptxas lets it have no more than the launch gives a thread: 168 with
  // two consumers, which are 256 columns, and 128 with three: 192.
  constexpr int halves() const { return bn > (consumers == 3 ? 192 : 256) ? 2 : 1; }
  // Whether results leave box by box, 64 x 64, and not a block at a time.
  constexpr bool box_by_box() const { return in_turn || sideways || halves() == 2; }
};

// What the model knows of a GPU. The defaults are an H200.
struct Gpu {
  int sms = 132;
  double mhz = 1800;           // SM clock where memory bounds: make sweep
  double l2_bytes = 60 << 20;  // capacity
  double tensor_flop = 3978;   // a clock and SM: make limits, wgmma_n256
  // A clock and SM, asked of L2. Fitted to make sweep: more than make limits' l2_tma_128, perhaps
  // since L2 reads less than it delivers when CTAs ask for the same rows at the same time (make
  // counters, rungs 7 and 8: l2_read_bytes and l2_to_sm_bytes).
  double l2_bytes_per_clock = 64;
  double dram_bytes_per_clock = 2400;  // all SMs, at mhz
  // What a row that begins between lines costs L2, an H200's being 1: little is merged of such rows, so
  // that they come from L2's slices, of which a smaller L2 has fewer.
  double between_lines = 1;
};

// What a GPU reaches of its nominal clock and DRAM bytes a second where memory bounds. Of an H200:
// 1800 of 1980 MHz (make sweep), and 4.32 of 4.92 TB/s, what boxes read if L2 fetches 256 bytes where it
// misses (h200.dram_read.csv): the terms of both models are fitted beside it.
constexpr double CLOCK_SHARE = 1800.0 / 1980, DRAM_SHARE = 0.88;

// Such a row costs 1 + UNMERGED_COST * (an H200's L2 / this L2 - 1). At 1.0 it would cost what L2's bytes
// a clock say, which go with its size (make limits, l2_rows_* of an H200 and an H100). 1.5 is fitted to
// what tiles take at 454 shapes on an H100.
constexpr double UNMERGED_COST = 1.5;

// A GPU by its nominal numbers, as the CUDA runtime has them: SMs, highest SM clock, L2's capacity,
// DRAM's bytes a second.
constexpr Gpu gpu_of(int sms, double max_mhz, double l2_bytes, double dram_bytes_per_second) {
  Gpu gpu;
  gpu.sms = sms;
  gpu.mhz = max_mhz * CLOCK_SHARE;
  gpu.l2_bytes = l2_bytes;
  gpu.dram_bytes_per_clock = dram_bytes_per_second * DRAM_SHARE / (gpu.mhz * 1e6);
  gpu.between_lines = 1 + UNMERGED_COST * std::max(0.0, Gpu{}.l2_bytes / l2_bytes - 1);
  return gpu;
}

// What no ceiling gives: fitted to trials on an H200 (docs/results/h200.trials.csv), at shapes that
// include the tuning and the held-out ones and none of the drawn ones. What clusters take, and with it
// alone_clocks and outside_lines: to trials on an H100, later (h100.trials.csv, h100.drawn_trials.csv).
struct Fitted {
  double start_clocks = 202;      // of a launch: until the first bytes land, and after the last
  double cluster_clocks = 814;    // of a launch of clusters, which begin together
  double latency_clocks = 219;    // from the end of a consumer's products to its next ones
  double alone_clocks = 106;      // of a consumer by itself: a step, beside half of its products
  double sm_bytes = 100;          // a clock, that one SM gets of L2
  double sharing_clocks = 78.5;   // a step, for the slower of the CTAs that share operands
  double epilogue_clocks = 2.85;  // a column of a 64-row block: to round and to stage it
  double turn_clocks = 134;       // of a tile, for each consumer and each other one: until products
  double store_clocks = 838;      // of a box, until it is read: a consumer's go one after the other
  double box_clocks = 400;        // of a box behind the first two, until one of those is read
  double hand_over_clocks = 100;  // from one consumer's last product to the other's first: rung 10
  double drain_bytes = 30.9;      // a clock and SM, of the last results on their way to L2
  double again = 0.1;             // of what one half of L2 passes on to the other, as if read anew
  double outside_lines = 7.04;    // requests to L2 that are as slow as a row outside of the matrix
};

// What is not to be chosen for a shape, whatever else there is.
constexpr double NEVER = 1e30;

// Rows of tiles that the raster sweeps together: the block of D that runs at one time is then about
// as high as wide, in elements.
constexpr int raster_group(int bm, int bn, int tiles_at_once) {
  int group = 1;
  while ((group + 1) * (group + 1) * bm <= tiles_at_once * bn) ++group;
  return group;
}

// The same, of D [rows][cols] and operands of so many bytes a row, on a chip. Each sweep reads the
// columns' operand anew, from L2 if one sweep's bytes are no more than one of its halves has room for,
// and else from DRAM: the less often, the higher the sweeps. A sweep comes back to its rows for each column
// of tiles. It may be higher as long as they take at most half of such a half, and as long as the block,
// higher than wide now, asks for at most 1.4 times as many rows as the square one. And no sweep is left
// with a few rows of tiles.
inline int raster_group(int bm, int bn, int tiles_at_once, int rows, int cols, long long row_bytes,
                        const Gpu& gpu) {
  const int square = raster_group(bm, bn, tiles_at_once);
  const double swept = std::min(square * bm, rows), half = gpu.l2_bytes / 2;
  if ((swept + cols) * row_bytes + 2 * swept * cols <= half) return square;
  const double side = std::sqrt(1.0 * tiles_at_once * bm * bn);
  const double highest = std::min(half / 2 / row_bytes, 2.38 * side);  // 2.38 + 1 / 2.38 = 2 * 1.4
  const int tiles = ceil_div(rows, bm), group = std::max(square, static_cast<int>(highest / bm));
  return ceil_div(tiles, ceil_div(tiles, group));
}

// Tiles of a group are taken downwards, so that neighbours read the same of the columns' operand. If the
// rows' operand is the larger one they should share that: where whole rows of tiles fit into the block,
// they are taken row by row, and the block stays the same.
constexpr bool goes_row_by_row(int bm, int bn, int tiles_at_once, int rows, int cols) {
  return rows > cols && raster_group(bm, bn, tiles_at_once) * ceil_div(cols, bn) <= tiles_at_once;
}

// The same, of D [rows][cols], for a kernel. Neighbours among clusters are not neighbours on the chip, so
// that they may as well go downwards.
inline int raster_group(int bm, int bn, int tiles_at_once, int rows, int cols, int cluster,
                        long long row_bytes, const Gpu& gpu) {
  if (cluster == 1 && goes_row_by_row(bm, bn, tiles_at_once, rows, cols)) return 1;
  return raster_group(bm, bn, tiles_at_once, rows, cols, row_bytes, gpu);
}

// Slots of a ring that fit into shared memory beside the staged results, of which each consumer has
// `buffers` blocks of 64 rows, or boxes of 64 x 64.
constexpr int ring_slots(const GemmConfig& config, int buffers) {
  constexpr int BARRIERS_AND_PADDING = 1024;
  const int staged = config.consumers * buffers * 64 * (config.box_by_box() ? 64 : config.bn) * 2;
  return (MAX_SMEM_BYTES - BARRIERS_AND_PADDING - staged) / ((config.bm() + config.bn) * 128);
}

// What each consumer stages at a time: two boxes, or all its blocks, unless that leaves too few slots.
constexpr int staging_buffers(const GemmConfig& config) {
  if (config.box_by_box()) return 2;
  return ring_slots(config, config.blocks) >= 3 ? config.blocks : 1;
}

// Lines of 128 bytes that 128 bytes of a row touch, on average of the rows: what they count for an SM.
inline double lines_per_row(long long ld) {
  return 2 - static_cast<double>(std::gcd(ld * 2, 128LL)) / 128;
}

// Whether every second row begins inside of a sector of L2, which are 32 bytes. Then nothing is merged
// of what neighbouring SMs ask for (docs/tensor_maps.md).
constexpr bool begin_inside_sectors(long long ld) {
  return ld * 2 % 32 != 0;
}

// What the 128 bytes cost L2 as a whole: less, where all rows begin on its sectors.
inline double reads_per_row(long long ld, const Gpu& gpu) {
  const double lines = lines_per_row(ld);
  return (begin_inside_sectors(ld) ? lines : 1) * (lines > 1 ? gpu.between_lines : 1);
}

// Times that DRAM is read for what `readers` CTAs read: once, and if they are on both halves of the
// GPU, a share `again` for the way to the half of L2 that has it not.
inline double reads_of_dram(double readers, double again) {
  return 1 + again * (1 - std::exp2(1 - readers));
}

// Of three that go on at the same time: about the longest, or up to a third more if all take as
// long, since each then waits for the others now and then.
inline double overlapped(double a, double b, double c) {
  return std::sqrt(std::sqrt(a * a * a * a + b * b * b * b + c * c * c * c));
}

// Clocks that L2 takes for each that the products take, of a CTA that asks for `rows` rows a K step.
constexpr double l2_share(const Gpu& gpu, int bm, int bn, int rows) {
  return rows * 128 / gpu.l2_bytes_per_clock / (2.0 * bm * bn * 64 / gpu.tensor_flop);
}

// What a launch of `ctas` CTAs, of which `places` run at a time and `on_sm` on an SM, loses if it may
// start before the kernel in front of it has ended, as a share of its time. Its CTAs then take SMs as
// they fall free, not as a launch deals them out. Where they do not fill the SMs, they crowd into some
// GPCs, or two on an SM, while others idle. And those that read the same rows lie apart, so that L2
// delivers these rows more often, which matters if it is about as slow as the products. Clusters are
// dealt out to the GPCs anyhow. `alone`: no two CTAs read the same rows of one operand. Fitted to
// launches of either kind on an H200 (docs/results/h200.trials.csv).
constexpr double crowding(double ctas, double places, int cluster, int on_sm, double l2_share,
                          bool alone) {
  if (cluster > 1 && on_sm == 1) return 0;
  const bool l2_is_slow = l2_share > 0.75;
  if (ctas > places) return l2_is_slow ? 0.02 : 0;
  return 0.04 + (l2_is_slow && !alone ? 0.06 : 0) + 0.3 * (places - ctas) / places;
}

// The same of a kernel that allows the next one to start only behind its last load, one CTA an SM:
// what then crowds is what has one round or less. Of 16 bits fitted to the same launches, of 8 bits
// to eight of rung 14.
constexpr double crowding_behind_loads(double ctas, double places, int cluster, int element_bytes) {
  if (cluster > 1 || ctas > places) return 0;
  return element_bytes == 1 ? 0.10 : 0.12;
}

// The same of clusters that split K, `at_once` of which have places. As long as those of two launches
// fit beside each other nothing is lost. If more do not, an early launch takes what places are left, and
// the others come where the first to end were. Fitted to 413 launches of either kind on an H200
// (docs/results/h200.split_early.csv).
constexpr double crowding_of_split(double clusters, double at_once) {
  const double full = clusters / at_once;
  return full > 0.5 && full < 1 ? 0.8 * (1 - full) : 0;
}

// Clocks that an early start hides: the launch.
constexpr double LAUNCH_CLOCKS = 2900;

// Clocks of a launch by its work alone: the products on `sms` SMs, or the bytes of DRAM. Products
// of 1-byte elements count half.
constexpr double least_clocks(double products, double bytes, int sms, const Gpu& gpu) {
  return std::max(2 * products / (gpu.tensor_flop * sms), bytes / gpu.dram_bytes_per_clock);
}

// Whether a launch should start early: if what it loses is less than what is hidden.
constexpr bool starts_early(double crowding, double least_clocks) {
  return crowding * least_clocks < LAUNCH_CLOCKS;
}

// What becomes of `clocks` by the better of the two.
constexpr double launched(double clocks, double crowding) {
  return clocks + std::min(crowding * clocks, LAUNCH_CLOCKS);
}

// Requests of 128 bytes, of an operand with so many `rows` of so many `lines` each, for a K step of
// one of `blocks` that have block_rows each. A row outside of the matrix costs as many as `outside`.
constexpr double lines_of_block(double rows, double lines, double blocks, int block_rows,
                                double outside) {
  return (rows * lines + (blocks * block_rows - rows) * outside) / blocks;
}

// Bytes of DRAM, for D [rows][cols] of 2 bytes an element, in blocks_m x blocks_n blocks, of which
// `group` rows are swept together, and operands of `bytes` an element: the rows' matrix is read
// once, the columns' once for each group of the raster, unless it stays in L2. `again`: see above.
inline double bytes_of_dram(double rows, double cols, int k, int bytes, double blocks_m,
                            double blocks_n, int group, const Gpu& gpu, double again) {
  const double col_bytes = bytes * cols * k * reads_of_dram(blocks_m, again);
  const double sweeps = col_bytes > gpu.l2_bytes ? std::ceil(blocks_m / group) : 1;
  return bytes * rows * k * reads_of_dram(blocks_n, again) + col_bytes * sweeps + 2 * rows * cols;
}

// Clocks of a block. Its products, its bytes through L2 and those of DRAM go on at the same time.
struct BlockClocks {
  double products, l2, dram;
  double epilogue;  // from its last product until the next tile's
  double stores;    // until its results are stored
};

// Clocks of a launch that takes `start` for itself, and of its blocks in rounds, one for each of
// `clusters` at a time. While results are staged and stored, the ring fills with what the next tile
// needs.
inline double clocks_of_rounds(double start, double blocks, int clusters,
                               const BlockClocks& block) {
  const double full = std::ceil(blocks / clusters) - 1, last = blocks - full * clusters;
  const double full_round = std::max(
      overlapped(block.products + block.epilogue, block.l2 * clusters, block.dram * clusters),
      block.stores);
  const double last_round =
      overlapped(block.products, block.l2 * last, block.dram * last) + block.epilogue;
  return start + full * full_round + last_round;
}

// Expected clocks, at gpu.mhz, of one launch in a stream of launches: D [m][n] of K = k, all > 0,
// by CTAs of which `resident` run at a time. lda, ldb: elements from row to row of A and B; 0: k.
// fetched_rows: those of A that a block asks for; 0: all, those outside of the matrix too.
//
// Power has no term. It pulls the clock down where tensor cores are busy, but about as far for each
// configuration that is fast for a shape: two fits that had a term for it picked the same.
inline double predicted_clocks(const GemmConfig& config, int m, int n, int k, int resident,
                               const Gpu& gpu, long long lda = 0, long long ldb = 0,
                               int fetched_rows = 0) {
  constexpr Fitted FITTED;
  const double rows = m, cols = n;  // m * n * k would overflow integers
  if (lda == 0) lda = k;
  if (ldb == 0) ldb = k;
  // Of tiles on their side those that take turns are not for rows that begin between lines, and those in
  // clusters for no others.
  const bool between_lines = lines_per_row(lda) + lines_per_row(ldb) > 2;
  if (config.sideways && (config.in_turn ? between_lines : config.cluster() > 1 && !between_lines))
    return NEVER;
  const int bm = config.bm(), bn = config.bn;
  const int block_m = bm * config.cluster_m, block_n = bn * config.cluster_n;  // of a cluster
  const double blocks_m = std::ceil(rows / block_m), blocks_n = std::ceil(cols / block_n);
  // Two CTAs one above the other are for a D that is no higher than they are: they ask for its columns'
  // operand once then (docs/more_tiles.md, "Pairs that share the weights").
  if (!config.sideways && config.cluster_m == 2 && config.cluster_n == 1 && blocks_m > 1)
    return NEVER;
  const double blocks = blocks_m * blocks_n;
  const int clusters = std::max(1, resident / config.cluster());  // at a time
  const double steps = ceil_div(k, 64);

  // An SM multiplies. The tensor cores take turns among the consumers. One whose products are short
  // waits longer for them than the others' last; one by itself has two steps' products in flight. One
  // that has them for a whole tile keeps its next products behind its last.
  // What wgmma reads of shared memory takes less time than either, in every configuration.
  const double tensor = 2.0 * bm * bn * 64 / gpu.tensor_flop;
  const double own = config.in_turn          ? 0
                     : config.consumers == 1 ? FITTED.alone_clocks + tensor / 2
                                             : FITTED.latency_clocks + tensor / config.consumers;

  // L2, of a block's k step: each CTA of a cluster asks for its slice of what all of them get.
  const auto asked = [&](double of_row, double of_col) {  // bytes, by what a row and a column cost
    return 128 * (lines_of_block(rows, of_row, blocks_m, fetched_rows > 0 ? fetched_rows : block_m,
                                 FITTED.outside_lines) +
                  lines_of_block(cols, of_col, blocks_n, block_n, FITTED.outside_lines));
  };
  const double l2 =
      asked(reads_per_row(lda, gpu), reads_per_row(ldb, gpu)) / (gpu.l2_bytes_per_clock * gpu.sms);
  const double sm_l2 =  // of one CTA's requests
      asked(lines_per_row(lda), lines_per_row(ldb)) / config.cluster() / FITTED.sm_bytes;
  const double step =
      std::max({tensor, own, sm_l2}) + (config.cluster() > 1 ? FITTED.sharing_clocks : 0);

  const int group = raster_group(block_m, block_n, clusters, m, n, 2LL * k, gpu);
  const double dram =
      bytes_of_dram(rows, cols, k, 2, blocks_m, blocks_n, group, gpu, FITTED.again) / blocks /
      gpu.dram_bytes_per_clock;

  // Results are rounded and staged, and stored under the products of the next tile, whose own wait
  // until these boxes are read: 64 columns each, and what is left in narrower ones. So does a second
  // block that has no boxes of its own. Those of the last round are on their way when nothing else is.
  const int rest = bn % 64;
  const double store = FITTED.store_clocks * (bn / 64 + rest / std::gcd(rest, 64));  // of a block
  const bool waits = staging_buffers(config) < config.blocks;
  double epilogue = FITTED.turn_clocks * config.consumers * (config.consumers - 1) +
                    FITTED.epilogue_clocks * config.blocks * bn + (waits ? store : 0);
  double stores = epilogue + store * (waits ? 1 : config.blocks);
  double last = 0;
  if (config.box_by_box()) {  // two are staged at a time: each other one waits until one is read
    const int boxes = config.blocks * ceil_div(bn, 64);
    epilogue += FITTED.box_clocks * (boxes - 2);
    stores = FITTED.store_clocks * boxes;
  }
  if (config.in_turn) {  // all of that box by box, while the other consumer multiplies
    last = FITTED.epilogue_clocks * config.blocks * bn;
    epilogue = FITTED.hand_over_clocks;
    stores = FITTED.store_clocks * config.blocks * ceil_div(bn, 64);
  }
  const double drain = 2.0 * bm * bn / FITTED.drain_bytes;
  const double together = config.cluster() > 1 ? FITTED.cluster_clocks : 0;
  const double clocks = clocks_of_rounds(FITTED.start_clocks + together, blocks, clusters,
                                         {steps * step, steps * l2, dram, epilogue, stores}) +
                        last + drain;
  return launched(clocks, crowding_behind_loads(blocks * config.cluster(),
                                                clusters * config.cluster(), config.cluster(), 2));
}

}  // namespace tile
