// The tiles of rung 17, and what a call takes with each of them.
#pragma once

#include "common/tile/cost_model.h"

namespace tile {

// Rows x columns of a tile of A·B^T, some of rung 11's. Each comes with every activation.
constexpr GemmConfig FUSED_CONFIGURATIONS[] = {
    // clang-format off
    // name     consumers, blocks, bn, cluster_m, cluster_n
    {"128x256",      2, 1, 256},
    {"192x192",      3, 1, 192},
    {"256x128_1x2",  2, 2, 128, 1, 2},
    {"128x128",      2, 1, 128},
    // clang-format on
};

// How results leave a consumer: in parts of 64 rows, as many at a time as there is memory for.
// `inputs`: columns of the tile that one of D is made of; `bytes`: of an element of D.
struct FusedParts {
  GemmConfig config;
  int inputs, bytes;

  constexpr int columns() const { return config.bn / inputs; }  // of D
  // Of a block of 64 rows: one of bf16, two of fp32, unless two columns make one.
  constexpr int of_block() const { return bytes * columns() > 2 * config.bn ? 2 : 1; }
  constexpr int all() const { return config.blocks * of_block(); }
  constexpr int part_columns() const { return columns() / of_block(); }
  // A part of D, its share of the bias, and two barriers.
  constexpr int part_bytes() const { return 64 * part_columns() * bytes; }
  constexpr int bias_bytes() const { return part_columns() * inputs * bytes; }

  // Slots of the ring that fit beside so many parts of each consumer.
  constexpr int ring_slots(int buffers) const {
    constexpr int BARRIERS_AND_PADDING = 1024;
    const int staged = config.consumers * buffers * (part_bytes() + bias_bytes());
    return (MAX_SMEM_BYTES - BARRIERS_AND_PADDING - staged) / ((config.bm() + config.bn) * 128);
  }
  // Parts that each consumer stages at a time: all, unless that leaves too few slots.
  constexpr int buffers() const { return ring_slots(all()) >= 3 ? all() : 1; }
};

}  // namespace tile
