// Many products in one launch: which rows of A and D are a group's, which tiles a CTA works on, and
// which tile suits a call.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>

#include "common/tile/block_scaled.h"
#include "common/tile/cost_model.h"
#include "common/tile/schedule.h"

namespace tile {

// As many as have room in shared memory, 16 bytes each.
constexpr int MAX_GROUPS = 512;

// --- which rows ----------------------------------------------------------------------------------

// How rows are dealt out to groups, as ladder_gemm_grouped() has it (common/host/ladder.h). Of
// group g contiguous: from sizes[g] to sizes[g + 1], below m; masked: sizes[g] of the m that begin
// at g * m.
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

// Those groups, behind them one more whose first_tile is all tiles' number, and the same at a place
// that is known.
struct GroupTable {
  Group group[MAX_GROUPS + 1];
  Group end;
};

// A table that this thread can just read. Others, in shared memory: common/block/find_groups.cuh.
struct Groups {
  const GroupTable* table;
  constexpr Group at(int i) const { return table->group[i]; }
  constexpr int first_tile(int i) const { return table->group[i].first_tile; }
  constexpr int tiles() const { return table->end.first_tile; }
};

// A tile of a group's part of D.
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

// The tiles that CTA number `cta` works on: of all groups' tiles, one after the other, every
// ctas-th. Those of a group come in grouped order: where a group has no more rows of tiles than
// `raster` sweeps together, all that read a column of its B come one after another. They have
// equally many rows, so that they take as long, and what one reads of B is in L2 for the others: of
// one tile with 128 rows and one with 64, the second would run ahead.
//
//   for (auto t = tiles; t.has(); t.next()) { const auto tile = t.tile(); ... }
//
// T has BM and BN, the elements of a tile.
template <class T, class Groups = tile::Groups>
class GroupTiles {
 public:
  constexpr GroupTiles(Groups groups, int n, int raster, int cta, int ctas)
      : groups_(groups), n_(n), raster_(raster), step_(ctas), tile_(cta) {
    find();
  }

  constexpr bool has() const { return tile_ < groups_.tiles(); }
  constexpr void next() {
    tile_ += step_;
    find();
  }
  constexpr GroupedTile tile() const {
    const Group group = groups_.at(at_);
    const int tiles_m = ceil_div(group.rows, T::BM), height = ceil_div(group.rows, tiles_m);
    const TileCoord in_group =
        grouped_raster(tile_ - group.first_tile, tiles_m, ceil_div(n_, T::BN), raster_);
    const int first = in_group.m * height,
              end = first + height < group.rows ? first + height : group.rows;
    return {group.begin + first, in_group.n * T::BN, group.begin + end, group.index};
  }

 private:
  constexpr void find() {  // seldom more than a step: groups without rows are not in the table
    while (has() && tile_ >= groups_.first_tile(at_ + 1)) ++at_;
  }

  Groups groups_;
  int n_, raster_, step_;
  int tile_, at_ = 0;  // which group of the table has it
};

// --- which tile ----------------------------------------------------------------------------------

// Rows x columns: of bf16, and of e4m3 with scales. None is lower than 128 rows: of a tile of a
// shorter group the second consumer has nothing to do, and costs nothing.
constexpr GemmConfig GROUPED_CONFIGURATIONS[] = {
    // clang-format off
    // name     consumers, blocks, bn
    {"128x128",      2, 1, 128},
    {"128x224",      2, 1, 224},
    {"128x256",      2, 1, 256},
    {"192x128",      3, 1, 128},
    {"192x160",      3, 1, 160},
    {"192x192",      3, 1, 192},
    {"256x128",      2, 2, 128},
    {"256x192",      2, 2, 192},
    // clang-format on
};
constexpr GemmConfig GROUPED_SCALED_CONFIGURATIONS[] = {
    // clang-format off
    {"128x112",      2, 1, 112},
    {"128x128",      2, 1, 128},
    {"128x192",      2, 1, 192},
    {"192x128",      3, 1, 128},
    {"256x128",      2, 2, 128},
    // clang-format on
};
constexpr bool are_plain(const GemmConfig* first, const GemmConfig* end) {
  return std::all_of(first, end, [](const GemmConfig& each) {
    return each.cluster() == 1 && each.slices == 1 && !each.in_turn && !each.sideways;
  });
}
static_assert(are_plain(std::begin(GROUPED_CONFIGURATIONS), std::end(GROUPED_CONFIGURATIONS)) &&
                  are_plain(std::begin(GROUPED_SCALED_CONFIGURATIONS),
                            std::end(GROUPED_SCALED_CONFIGURATIONS)),
              "rung 16 has no clusters, no slices of K, no turns and no tiles on their side");
constexpr int grouped_configuration_count(bool scaled) {
  return scaled ? std::size(GROUPED_SCALED_CONFIGURATIONS) : std::size(GROUPED_CONFIGURATIONS);
}
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

// What no ceiling gives, as Fitted: fitted to trials on an H200 (docs/results/h200.grouped.csv), of
// which the model knew how many rows each group had.
struct FittedGrouped {
  double start_clocks = 7115;      // of a launch: its groups, the first bytes, the last
  double tensor_share = 0.956;     // of the tensor cores' rate: the clock falls where they are busy
  double latency_clocks = 198;     // from the end of a consumer's products to its next ones
  double l2_bytes_per_clock = 54;  // a clock and SM
  double promotion_clocks = 244;   // e4m3, of a block: from its last product to its last sum
  double promotion_in_turn = 0.69;  // as much of it, where a consumer's other block multiplies
  double epilogue_clocks = 3.8, scaled_epilogue_clocks = 6.6;  // of a column of a 64-row block
};

// Expected clocks of `groups` groups, of which as many have lengths[0] times `rows` rows as have
// lengths[1] times, and so on. As predicted_clocks(), with two differences. A tile has as many
// blocks of 64 rows as its share of a group asks for. And DRAM is asked for each group's B once:
// tiles that share its columns have equally many rows, run at the same time, and keep pace.
inline double grouped_clocks(const GemmConfig& config, bool scaled, int groups, double rows,
                             std::initializer_list<double> lengths, int n, int k, int resident,
                             const Gpu& gpu) {
  constexpr FittedGrouped FITTED;
  const int bn = config.bn;
  const double steps = ceil_div(k, scaled ? 128 : 64);
  const double block = 2.0 * 64 * bn * 64 / (gpu.tensor_flop * FITTED.tensor_share);
  const double epilogue =
      (scaled ? FITTED.scaled_epilogue_clocks : FITTED.epilogue_clocks) * config.blocks * bn;

  double tiles = 0, products = 0, l2 = 0;  // of all tiles
  for (const double length : lengths) {
    const double of_group = std::ceil(length * rows / config.bm());  // rows of tiles
    const double parts = std::ceil(length * rows / of_group / 64);   // blocks of a tile
    const double own = std::min<double>(config.blocks, parts);       // of its busiest consumer
    // The consumers of e4m3 get a slot at the same time, and so promote at the same time.
    const double turns = 1 + FITTED.promotion_in_turn * (own - 1);
    const double step = scaled ? parts * block + turns * FITTED.promotion_clocks
                               : std::max(parts * block, own * block + FITTED.latency_clocks);
    const double count = groups * of_group * ceil_div(n, bn) / static_cast<double>(lengths.size());
    tiles += count;
    products += count * steps * step;
    l2 += count * steps * (parts * 64 + bn) * 128 / (FITTED.l2_bytes_per_clock * gpu.sms);
  }
  const double element = scaled ? 1 : 2, all_rows = groups * rows;
  const double bytes = element * k * (1.0 * groups * n + all_rows) + 2 * all_rows * n;
  const double dram = bytes / gpu.dram_bytes_per_clock;

  const double full = std::ceil(tiles / resident) - 1, last = tiles - full * resident;
  const double a_round = resident / tiles, a_part = last / tiles;
  const double full_round = overlapped(products / tiles + epilogue, l2 * a_round, dram * a_round);
  const double last_round = overlapped(products / tiles, l2 * a_part, dram * a_part) + epilogue;
  return FITTED.start_clocks + full * full_round + last_round;
}

// What a call is expected to take whose groups have m rows in all. Nobody knows how they are dealt
// out: the mean of three guesses, that all groups have as many; that half have a tenth less, and
// half a tenth more, since where as many fill tiles exactly, one row more is a tile more; and that a
// third has half of that, and a third half as many again. Of fewer than 64 rows each, that some have
// 64 and the others none, which is no other tile, but not so many of them.
inline double grouped_clocks(const GemmConfig& config, bool scaled, int groups, double m, int n,
                             int k, int resident, const Gpu& gpu) {
  const int filled = static_cast<int>(std::clamp(m / 64, 1.0, static_cast<double>(groups)));
  const auto guess = [&](std::initializer_list<double> lengths) {
    return grouped_clocks(config, scaled, filled, m / filled, lengths, n, k, resident, gpu);
  };
  return (guess({1}) + guess({0.9, 1.1}) + guess({0.5, 1, 1.5})) / 3;
}

}  // namespace tile
