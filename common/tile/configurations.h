// The tiles that rungs 10 and 11 instantiate and the cost model chooses from.
#pragma once

#include "common/tile/cost_model.h"

namespace tile {

// Rows x columns of a tile; 4x1 and 1x2: clusters of CTAs that share what they load. One consumer
// and three have 64 rows each, two have 64 or 128. What each is worth: tests/host/cost_model_test.cpp.
// Without designators: nvcc 13.0 with clang as host compiler takes a member between two of them
// for 0.
constexpr GemmConfig CONFIGURATIONS[] = {
    // clang-format off
    // name     consumers, blocks, bn, cluster_m, cluster_n
    {"128x256",      2, 1, 256},
    {"128x240",      2, 1, 240},
    {"128x208",      2, 1, 208},
    {"128x192",      2, 1, 192},
    {"128x176",      2, 1, 176},
    {"128x160",      2, 1, 160},
    {"128x144",      2, 1, 144},
    {"128x128",      2, 1, 128},
    {"128x96",       2, 1,  96},
    {"128x64",       2, 1,  64},
    {"128x128_1x4",  2, 1, 128, 1, 4},
    {"128x96_1x4",   2, 1,  96, 1, 4},
    {"128x160_2x2",  2, 1, 160, 2, 2},
    {"128x128_2x2",  2, 1, 128, 2, 2},
    {"128x112_2x2",  2, 1, 112, 2, 2},
    {"192x192",      3, 1, 192},
    {"192x176",      3, 1, 176},
    {"192x160",      3, 1, 160},
    {"192x144",      3, 1, 144},
    {"192x128",      3, 1, 128},
    {"192x112",      3, 1, 112},
    {"192x96_1x4",   3, 1,  96, 1, 4},
    {"192x128_2x2",  3, 1, 128, 2, 2},
    {"256x192",      2, 2, 192},
    {"256x176",      2, 2, 176},
    {"256x192_1x2",  2, 2, 192, 1, 2},
    {"256x160_1x2",  2, 2, 160, 1, 2},
    {"256x144_1x2",  2, 2, 144, 1, 2},
    {"256x128_1x2",  2, 2, 128, 1, 2},
    {"64x48",        1, 1,  48},
    {"64x96",        1, 1,  96},
    {"64x144",       1, 1, 144},
    {"64x64_1x4",    1, 1,  64, 1, 4},
    {"64x96_1x4",    1, 1,  96, 1, 4},
    {"64x96_4x1",    1, 1,  96, 4, 1},
    {"64x128_4x1",   1, 1, 128, 4, 1},
    {"64x160_4x1",   1, 1, 160, 4, 1},
    {"64x192_4x1",   1, 1, 192, 4, 1},
    {"64x48_2x4",    1, 1,  48, 2, 4},
    {"64x64_2x4",    1, 1,  64, 2, 4},
    {"64x96_2x4",    1, 1,  96, 2, 4},
    {"64x128_2x4",   1, 1, 128, 2, 4},
    {"64x64_4x2",    1, 1,  64, 4, 2},
    {"64x96_4x2",    1, 1,  96, 4, 2},
    {"64x128_4x2",   1, 1, 128, 4, 2},
    {"128x96_2x4",   2, 1,  96, 2, 4},
    {"128x128_2x4",  2, 1, 128, 2, 4},
    {"128x128_4x2",  2, 1, 128, 4, 2},
    // clang-format on
};

// The tiles of rung 11 that came later, each by trials of its own (tests/host/trials_test.cpp): clusters
// for rows that begin between lines of L2, upright and on their side; pairs for 65 to 128 rows, which
// share the weights; and those whose results leave box by box: their blocks are two products side by
// side, or they lie on their side, so that their rows are columns of D.
constexpr GemmConfig LATER[] = {
    // clang-format off
    // name              consumers, blocks, bn, cluster_m, cluster_n, slices, in_turn, sideways
    {"128x208_2x2",      2, 1, 208, 2, 2},
    {"128x144_2x4",      2, 1, 144, 2, 4},
    {"64x80_2x1",        1, 1,  80, 2, 1},
    {"64x96_2x1",        1, 1,  96, 2, 1},
    {"64x112_2x1",       1, 1, 112, 2, 1},
    {"64x128_2x1",       1, 1, 128, 2, 1},
    {"64x144_2x1",       1, 1, 144, 2, 1},
    {"64x160_2x1",       1, 1, 160, 2, 1},
    {"64x224_2x1",       1, 1, 224, 2, 1},
    {"128x272",          2, 1, 272},
    {"128x288",          2, 1, 288},
    {"192x208",          3, 1, 208},
    {"192x224",          3, 1, 224},
    {"192x240",          3, 1, 240},
    {"128x272_side",     2, 1, 272, 1, 1, 1, false, true},
    {"128x304_side",     2, 1, 304, 1, 1, 1, false, true},
    {"192x144_side",     3, 1, 144, 1, 1, 1, false, true},
    {"192x160_side",     3, 1, 160, 1, 1, 1, false, true},
    {"192x208_side",     3, 1, 208, 1, 1, 1, false, true},
    {"192x224_side",     3, 1, 224, 1, 1, 1, false, true},
    {"192x240_side",     3, 1, 240, 1, 1, 1, false, true},
    {"64x96_side_4x2",   1, 1,  96, 4, 2, 1, false, true},
    {"128x96_side_4x2",  2, 1,  96, 4, 2, 1, false, true},
    {"128x112_side_2x4", 2, 1, 112, 2, 4, 1, false, true},
    {"128x144_side_2x2", 2, 1, 144, 2, 2, 1, false, true},
    {"128x144_side_2x4", 2, 1, 144, 2, 4, 1, false, true},
    {"128x160_side_2x4", 2, 1, 160, 2, 4, 1, false, true},
    {"128x160_side_4x2", 2, 1, 160, 4, 2, 1, false, true},
    {"128x176_side_2x2", 2, 1, 176, 2, 2, 1, false, true},
    {"128x176_side_2x4", 2, 1, 176, 2, 4, 1, false, true},
    {"128x208_side_2x2", 2, 1, 208, 2, 2, 1, false, true},
    {"128x240_side_2x2", 2, 1, 240, 2, 2, 1, false, true},
    {"192x160_side_2x2", 3, 1, 160, 2, 2, 1, false, true},
    {"192x176_side_2x2", 3, 1, 176, 2, 2, 1, false, true},
    {"192x208_side_2x1", 3, 1, 208, 2, 1, 1, false, true},
    {"256x160_side_1x2", 2, 2, 160, 1, 2, 1, false, true},
    // clang-format on
};

// The tiles of rung 10, each of one of two consumers that take turns: 128 rows of each, of D or, on
// its side, of D^T.
constexpr GemmConfig PINGPONG[] = {
    // clang-format off
    // name             consumers, blocks, bn, cluster_m, cluster_n, slices, in_turn, sideways
    {"128x176_early",   2, 2, 176, 1, 1, 1, true},
    {"128x160_early",   2, 2, 160, 1, 1, 1, true},
    {"128x144_early",   2, 2, 144, 1, 1, 1, true},
    {"128x128_early",   2, 2, 128, 1, 1, 1, true},
    {"128x176_side",    2, 2, 176, 1, 1, 1, true, true},
    {"128x168_side",    2, 2, 168, 1, 1, 1, true, true},
    {"128x160_side",    2, 2, 160, 1, 1, 1, true, true},
    {"128x152_side",    2, 2, 152, 1, 1, 1, true, true},
    {"128x144_side",    2, 2, 144, 1, 1, 1, true, true},
    {"128x136_side",    2, 2, 136, 1, 1, 1, true, true},
    // clang-format on
};

}  // namespace tile
