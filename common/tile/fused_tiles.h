// The tiles of rung 17, and what a call takes with each of them.
#pragma once

#include <algorithm>
#include <cmath>

#include "common/tile/cost_model.h"
#include "common/tile/even_rows.h"

namespace tile {

struct FusedTile : GemmConfig {
  int split = 1;  // CTAs of a cluster that share a tile's K
};

// Rows x columns of a tile of A·B^T: ten of rung 11's, 128x224, 256x160, four for few rows and three
// whose K is shared; or of B·A^T, on its side. How they were chosen: docs/cost_model.md.
constexpr FusedTile FUSED_CONFIGURATIONS[] = {
    // clang-format off
    // name     consumers, blocks, bn, cluster_m, cluster_n, slices, in_turn, sideways, split
    {"128x256",      2, 1, 256},
    {"128x224",      2, 1, 224},
    {"128x192",      2, 1, 192},
    {"128x160",      2, 1, 160},
    {"128x128",      2, 1, 128},
    {"64x192",       1, 1, 192},
    {"64x128",       1, 1, 128},
    {"64x64",        1, 1,  64},
    {"64x48",        1, 1,  48},
    {"192x192",      3, 1, 192},
    {"192x176",      3, 1, 176},
    {"192x160",      3, 1, 160},
    {"256x160",      2, 2, 160},
    {"256x160_1x2",  2, 2, 160, 1, 2},
    {"256x128_1x2",  2, 2, 128, 1, 2},
    {"192x96_1x4",   3, 1,  96, 1, 4},
    {"64x64_k2",     1, 1,  64, 1, 1, 1, false, false, 2},
    {"64x64_k4",     1, 1,  64, 1, 1, 1, false, false, 4},
    {"64x64_k8",     1, 1,  64, 1, 1, 1, false, false, 8},
    {"64x80_side",    1, 1,  80, 1, 1, 1, false, true},
    {"64x96_side",    1, 1,  96, 1, 1, 1, false, true},
    {"128x80_side",   2, 1,  80, 1, 1, 1, false, true},
    {"128x112_side",  2, 1, 112, 1, 1, 1, false, true},
    {"128x144_side",  2, 1, 144, 1, 1, 1, false, true},
    {"128x160_side",  2, 1, 160, 1, 1, 1, false, true},
    {"128x208_side",  2, 1, 208, 1, 1, 1, false, true},
    {"256x144_side",  2, 2, 144, 1, 1, 1, false, true},
    // clang-format on
};

// Whether the tiles of a call have as many rows each: those that are for few rows.
constexpr bool fused_rows_are_even(const FusedTile& config) {
  return config.bm() == 64 && !config.sideways;
}

// Rows of A that a tile fetches, and rows of D that it stores.
constexpr int fused_rows(const FusedTile& config, int m) {
  return fused_rows_are_even(config) ? even_rows(config.bm(), m) : config.bm();
}

// Whether a tile comes with activations of so many `inputs`, and D of so many `bytes` an element:
// stmatrix stages 16 columns of D, and fp32 has seven tiles only, so that the rung compiles sooner.
constexpr bool has_fused_kernel(const FusedTile& config, int inputs, int bytes) {
  if (config.sideways) return bytes == 2;  // what stmatrix transposes
  return config.bn % (16 * inputs) == 0 && (bytes == 2 || config.bn % 128 == 0 || config.split > 1);
}

// How results leave a consumer: in parts of 64 rows, as many at a time as there is memory for. On
// its side a block is one part: its columns are rows of D, and its 64 rows columns of A·B^T.
// `inputs`: columns of the tile that one of D is made of; `bytes`: of an element of D.
struct FusedParts {
  FusedTile config;
  int inputs, bytes;

  // Columns of the tile that one CTA finishes: an equal share of those of its cluster, or as many as
  // a box of D has at least.
  constexpr int share() const {
    if (config.sideways) return 64;
    return std::max(config.bn / config.split, (bytes == 2 ? 16 : 32) * inputs);
  }
  constexpr int columns() const { return share() / inputs; }  // of D
  // What a CTA that finishes some gets of them from each CTA that shares K.
  constexpr int exchange_bytes() const {
    return config.split > 1 ? config.split * config.bm() * share() * 4 : 0;
  }
  // Of a block of 64 rows: one of bf16, two of fp32, unless two columns make one.
  constexpr int of_block() const { return bytes * columns() > 2 * config.bn ? 2 : 1; }
  constexpr int all() const { return config.blocks * of_block(); }
  constexpr int part_columns() const { return columns() / of_block(); }
  constexpr int part_rows() const { return config.sideways ? config.bn : 64; }
  constexpr int part_bytes() const { return part_rows() * part_columns() * bytes; }
  // Its share of the bias, which begins where TMA can write.
  constexpr int bias_bytes() const { return (part_columns() * inputs * bytes + 127) / 128 * 128; }

  // Slots of the ring that fit beside so many parts of each consumer.
  constexpr int ring_slots(int buffers) const {
    constexpr int BARRIERS_AND_PADDING = 1024;
    const int staged = config.consumers * buffers * (part_bytes() + bias_bytes());
    return (MAX_SMEM_BYTES - BARRIERS_AND_PADDING - staged - exchange_bytes()) /
           ((config.bm() + config.bn) * 128);
  }
  // Parts that each consumer stages at a time: all, unless that leaves too few slots.
  constexpr int buffers() const { return ring_slots(all()) >= 3 ? all() : 1; }
};

// Expected clocks of one launch, as predicted_clocks(). A tile whose K is shared takes as long as so
// many tiles beside each other that have a part of K each; then their sums are exchanged. None is
// shared where whole tiles fill the GPU, nor where several of a column of tiles would be in turns:
// clusters at different places of K find in L2 no rows of B that others have read. What fills at
// most half of the GPU leaves the next launch the other half; CTAs alone, which are dealt out less
// evenly than clusters, do so up to a little less. Fitted to h200.fused_split.csv. Of a tile on its
// side m, lda and n, ldb are those of B·A^T.
inline double fused_clocks(const FusedTile& config, int m, int n, int k, int resident,
                           const Gpu& gpu, long long lda, long long ldb) {
  constexpr double EXCHANGE_CLOCKS = 750, FOR_EACH_CTA = 50;
  const int split = config.split, rows = fused_rows(config, m);
  const double blocks_m = ceil_div(m, config.bm() * config.cluster_m);
  const double blocks = blocks_m * ceil_div(n, config.bn * config.cluster_n);
  const double full = blocks * config.cluster() * split / resident;  // rounds, and part of one
  if (split == 1) {
    return predicted_clocks(config, m, n, k, resident, gpu, lda, ldb, rows) +
           (full > 0.45 ? 1500 : 0);
  }
  if (blocks > resident || (blocks_m > 1 && full > 1)) return NEVER;
  const int beside = ceil_div(n, config.bn) * config.bn * split;
  return predicted_clocks(config, m, beside, ceil_div(k, split), resident, gpu, lda, ldb, rows) +
         std::ceil(full) * (EXCHANGE_CLOCKS + FOR_EACH_CTA * split) + (full > 0.5 ? 1000 : 0);
}

}  // namespace tile
