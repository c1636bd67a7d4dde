// Many products in one launch: which rows of A and D are a group's, which tiles a CTA works on, and
// which tile suits a call.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/tile/cost_model.h"
#include "common/tile/block_scaled.h"
#include "common/tile/schedule.h"

namespace tile {

// As many as have room in shared memory, 16 bytes each.
constexpr int MAX_GROUPS = 512;

// --- which rows ----------------------------------------------------------------------------------

// How rows are dealt out to groups, as ladder_gemm_grouped() has it (common/host/ladder.h). Of group
// g contiguous: from sizes[g] to sizes[g + 1], below m; masked: sizes[g] of the m that begin at g * m.
struct Grouping {
  const int* sizes;  // on the device; a caller reads them
  int groups, m;
  bool masked;
};

struct GroupRows {
  int begin, count;  // count < 0: no rows that there are
};

// Of group g; `size` is sizes[g], `next` sizes[g + 1] or, masked, anything.
constexpr GroupRows rows_of_group(const Grouping& of, int g, int size, int next) {
  if (of.masked) return {g * of.m, size <= of.m ? size : -1};
  if (size < 0 || next > of.m) return {0, -1};
  return {size, next >= size ? next - size : -1};
}

// --- which tiles ---------------------------------------------------------------------------------

// A group that has rows.
struct alignas(16) Group {
  int begin, rows;
  int first_tile;  // of all groups' tiles
  int index;       // among the call's groups, of which some may be empty
};

// Those groups, and behind them one more whose first_tile is `tiles`.
struct GroupTable {
  Group group[MAX_GROUPS + 1];
  int tiles;
};

// The tiles that CTA number `cta` works on: of all groups' tiles, one after the other, every
// ctas-th. Those of a group come in grouped order: where a group has no more rows of tiles than
// `raster` sweeps together, all that read a column of its B come one after another. They have
// equally many rows, so that they take as long, and what one reads of B is in L2 for the others: of
// one tile with 128 rows and one with 64, the second would run ahead.
//
//   for (auto t = tiles; t.has(); t.next()) { const auto tile = t.tile(); ... }
//
// T has BM and BN, the elements of a tile.
struct GroupedTile {
  int m0, n0;  // its first element of D
  int end;     // of its rows
  int group;   // among the call's

  // Of the tile's blocks of 64 rows, how many from block `first` on have rows, at most `most`.
  constexpr int blocks(int first, int most) const {
    const int rows = end - m0 - first * 64;
    return rows <= 0 ? 0 : rows > most * 64 ? most : ceil_div(rows, 64);
  }
};

template <class T>
class GroupTiles {
 public:
  constexpr GroupTiles(const GroupTable& table, int n, int raster, int cta, int ctas)
      : table_(table), n_(n), raster_(raster), step_(ctas), tile_(cta) {
    find();
  }

  constexpr bool has() const { return tile_ < table_.tiles; }
  constexpr void next() {
    tile_ += step_;
    find();
  }
  constexpr GroupedTile tile() const {
    const Group group = table_.group[at_];
    const int tiles_m = ceil_div(group.rows, T::BM), height = ceil_div(group.rows, tiles_m);
    const TileCoord in_group =
        grouped_raster(tile_ - group.first_tile, tiles_m, ceil_div(n_, T::BN), raster_);
    const int first = in_group.m * height, end = first + height < group.rows ? first + height : group.rows;
    return {group.begin + first, in_group.n * T::BN, group.begin + end, group.index};
  }

 private:
  constexpr void find() {  // seldom more than a step: groups without rows are not in the table
    while (has() && tile_ >= table_.group[at_ + 1].first_tile) ++at_;
  }

  const GroupTable& table_;
  int n_, raster_, step_;
  int tile_, at_ = 0;  // which group of the table has it
};

// --- which tile ----------------------------------------------------------------------------------

// Rows x columns: of bf16, and of e4m3 with scales. Low ones for short groups, high ones for long; and
// widths of which some fill the rounds of some N.
constexpr GemmConfig GROUPED_CONFIGURATIONS[] = {
    // clang-format off
    // name     consumers, blocks, bn
    {"64x128",       1, 1, 128},
    {"64x256",       1, 1, 256},
    {"128x128",      2, 1, 128},
    {"128x224",      2, 1, 224},
    {"128x256",      2, 1, 256},
    {"192x128",      3, 1, 128},
    {"256x112",      2, 2, 112},
    {"256x128",      2, 2, 128},
    {"256x176",      2, 2, 176},
    // clang-format on
};
constexpr GemmConfig GROUPED_SCALED_CONFIGURATIONS[] = {
    // clang-format off
    {"64x128",       1, 1, 128},
    {"64x192",       1, 1, 192},
    {"128x112",      2, 1, 112},
    {"128x128",      2, 1, 128},
    {"128x176",      2, 1, 176},
    {"128x192",      2, 1, 192},
    {"192x112",      3, 1, 112},
    {"192x128",      3, 1, 128},
    {"256x128",      2, 2, 128},
    // clang-format on
};
constexpr int GROUPED_ROWS = std::size(GROUPED_CONFIGURATIONS);
static_assert(std::size(GROUPED_SCALED_CONFIGURATIONS) == GROUPED_ROWS);
constexpr GemmConfig grouped_configuration(bool scaled, int row) {
  return scaled ? GROUPED_SCALED_CONFIGURATIONS[row] : GROUPED_CONFIGURATIONS[row];
}

// Tiles that there are at most, however the rows are dealt out.
constexpr int most_tiles(const GemmConfig& config, const Grouping& of, int n) {
  const int rows_of_tiles = of.masked ? of.groups * ceil_div(of.m, config.bm())
                                      : of.m / config.bm() + std::min(of.groups, of.m);
  return rows_of_tiles * ceil_div(n, config.bn);
}

// Bytes of a slot: rows of 128 bytes of A and B; where scales are promoted, those of A's rows, each
// consumer's with room for three more, to a multiple of 128 bytes.
constexpr int grouped_scale_floats(const GemmConfig& config) {
  return (config.blocks * 64 + 4 + 31) / 32 * 32;
}
constexpr int grouped_slot_bytes(const GemmConfig& config, bool scaled) {
  const int scales = config.consumers * grouped_scale_floats(config) * 4;
  return (config.bm() + config.bn) * 128 + (scaled ? scales : 0);
}

// As ring_slots() and staging_buffers(), beside a table of groups.
constexpr int grouped_ring_slots(const GemmConfig& config, bool scaled, int buffers) {
  constexpr int BARRIERS_AND_PADDING = 1024;
  const int staged = config.consumers * buffers * 64 * config.bn * 2;
  const int free = MAX_SMEM_BYTES - BARRIERS_AND_PADDING - int{sizeof(GroupTable)} - staged;
  return free / grouped_slot_bytes(config, scaled);
}
constexpr int grouped_staging_buffers(const GemmConfig& config, bool scaled) {
  return grouped_ring_slots(config, scaled, config.blocks) >= 3 ? config.blocks : 1;
}

// What no ceiling gives, as Fitted: fitted to 96 kernels and shapes of eight groups on an H200.
struct FittedGrouped {
  double start_clocks = 7465;  // of a launch: its groups, the first bytes, the last
  double tensor_share = 0.893;  // of the tensor cores' rate: the clock falls where they are busy
  double latency_clocks = 212;  // from the end of a consumer's products to its next ones
  double scaled_latency_clocks = 194;    // the same of e4m3, of each block
  double scaled_latency_of_column = 0.76;  // and its promotion, where nothing else multiplies
  double promote_clocks = 0.63;          // a column of a 64-row block, which the tensor cores wait
  double epilogue_clocks = 3.8, scaled_epilogue_clocks = 10.3;  // of a column of a 64-row block
};

// Expected clocks of `groups` groups that have `rows` rows each. As predicted_clocks(), with two
// differences. A tile has as many blocks of 64 rows as its share of a group asks for. And DRAM is
// asked for each group's B once: tiles that share its columns have equally many rows, run at the same
// time, and keep pace.
inline double grouped_clocks(const GemmConfig& config, bool scaled, int groups, double rows, int n,
                             int k, int resident, const Gpu& gpu) {
  constexpr FittedGrouped FITTED;
  const int bn = config.bn;
  const double tiles_m = std::ceil(rows / config.bm());
  const double tiles = groups * tiles_m * ceil_div(n, bn);
  const double steps = ceil_div(k, scaled ? 128 : 64);
  const double parts = std::ceil(rows / tiles_m / 64);             // blocks of a tile
  const double own = std::min<double>(config.blocks, parts);       // of its busiest consumer
  const double block = 2.0 * 64 * bn * 64 / (gpu.tensor_flop * FITTED.tensor_share);
  const double latency =
      scaled ? own * (FITTED.scaled_latency_clocks + FITTED.scaled_latency_of_column * bn)
             : FITTED.latency_clocks;
  const double promote = scaled ? FITTED.promote_clocks * bn : 0;
  const double step = std::max(parts * (block + promote), own * block + latency);

  const double l2_rate = scaled ? FittedScaled().l2_bytes_per_clock : gpu.l2_bytes_per_clock;
  const double l2 = (parts * 64 + bn) * 128 / (l2_rate * gpu.sms);
  const double element = scaled ? 1 : 2, all_rows = groups * rows;
  const double bytes = element * k * (1.0 * groups * n + all_rows) + 2 * all_rows * n;
  const double dram = bytes / tiles / gpu.dram_bytes_per_clock;

  const double epilogue = (scaled ? FITTED.scaled_epilogue_clocks : FITTED.epilogue_clocks) *
                          config.blocks * bn;
  const double full = std::ceil(tiles / resident) - 1, last = tiles - full * resident;
  const double full_round =
      overlapped(steps * step + epilogue, steps * l2 * resident, dram * resident);
  const double last_round = overlapped(steps * step, steps * l2 * last, dram * last) + epilogue;
  return FITTED.start_clocks + full * full_round + last_round;
}

}  // namespace tile
