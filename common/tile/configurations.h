// The tiled GEMM configurations that rung 11 instantiates and its cost model chooses from.
#pragma once

#include "common/tile/cost_model.h"

namespace tile {

// Rows x columns of a tile; pingpong: two tiles in turn; swap: of D^T, so that the rows are columns
// of D; k2: two CTAs share a tile's K; 2x1: clusters of CTAs that share what they load.
constexpr GemmConfig CONFIGURATIONS[] = {
    // clang-format off
    {.name = "128x256", .consumers = 2, .blocks = 1, .bn = 256},
    {.name = "128x256_2x1", .consumers = 2, .blocks = 1, .bn = 256, .cluster_m = 2},
    {.name = "128x256_2x2", .consumers = 2, .blocks = 1, .bn = 256, .cluster_m = 2, .cluster_n = 2},
    {.name = "256x192", .consumers = 2, .blocks = 2, .bn = 192},
    {.name = "256x192_1x2", .consumers = 2, .blocks = 2, .bn = 192, .cluster_n = 2},
    {.name = "128x192", .consumers = 2, .blocks = 1, .bn = 192},
    {.name = "128x176", .consumers = 2, .blocks = 1, .bn = 176},
    {.name = "128x160", .consumers = 2, .blocks = 1, .bn = 160},
    {.name = "128x144", .consumers = 2, .blocks = 1, .bn = 144},
    {.name = "128x128", .consumers = 2, .blocks = 1, .bn = 128},
    {.name = "128x96", .consumers = 2, .blocks = 1, .bn = 96},
    {.name = "pingpong_64x128", .consumers = 2, .blocks = 1, .bn = 128, .pingpong = true},
    {.name = "swap_64x32", .consumers = 1, .blocks = 1, .bn = 32, .swap = true},
    {.name = "swap_64x32_k2", .consumers = 1, .blocks = 1, .bn = 32, .split = 2, .swap = true},
    {.name = "swap_64x64", .consumers = 1, .blocks = 1, .bn = 64, .swap = true},
    {.name = "swap_64x64_k2", .consumers = 1, .blocks = 1, .bn = 64, .split = 2, .swap = true},
    {.name = "swap_64x64_k4", .consumers = 1, .blocks = 1, .bn = 64, .split = 4, .swap = true},
    {.name = "swap_64x128", .consumers = 1, .blocks = 1, .bn = 128, .swap = true},
    {.name = "swap_64x128_k2", .consumers = 1, .blocks = 1, .bn = 128, .split = 2, .swap = true},
    {.name = "swap_64x128_k8", .consumers = 1, .blocks = 1, .bn = 128, .split = 8, .swap = true},
    {.name = "swap_128x64", .consumers = 2, .blocks = 1, .bn = 64, .swap = true},
    {.name = "swap_128x64_k4", .consumers = 2, .blocks = 1, .bn = 64, .split = 4, .swap = true},
    {.name = "swap_128x128_k2", .consumers = 2, .blocks = 1, .bn = 128, .split = 2, .swap = true},
    // clang-format on
};

}  // namespace tile
