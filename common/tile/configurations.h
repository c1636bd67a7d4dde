// The tiled GEMM configurations that rung 11 instantiates and its cost model chooses from.
#pragma once

#include "common/tile/cost_model.h"

namespace tile {

// Rows x columns of a tile; pingpong: two tiles in turn; swap: of D^T, so that the rows are columns
// of D; k2: two CTAs share a tile's K; 2x1: clusters of CTAs that share what they load. Without
// designators: nvcc 13.0 with clang as host compiler takes a member between two of them for 0.
constexpr GemmConfig CONFIGURATIONS[] = {
    // clang-format off
    // name            consumers, blocks, bn, cluster_m, cluster_n
    {"128x256",         2, 1, 256},
    {"128x256_2x1",     2, 1, 256, 2},
    {"128x256_2x2",     2, 1, 256, 2, 2},
    {"256x192",         2, 2, 192},
    {"256x192_1x2",     2, 2, 192, 1, 2},
    {"128x192",         2, 1, 192},
    {"128x176",         2, 1, 176},
    {"128x160",         2, 1, 160},
    {"128x144",         2, 1, 144},
    {"192x192",         3, 1, 192},
    {"192x144",         3, 1, 144},
    {"128x128",         2, 1, 128},
    {"128x96",          2, 1,  96},
    // clang-format on
};

}  // namespace tile
