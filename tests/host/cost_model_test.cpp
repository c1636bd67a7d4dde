// The cost model of rung 11: ceilings that it may not break, and what must make a shape slower.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>

#include "common/tile/configurations.h"
#include "common/tile/cost_model.h"

using tile::CONFIGURATIONS;
using tile::GemmConfig;
using tile::Gpu;
using tile::predicted_clocks;

namespace {

constexpr int LARGEST = std::numeric_limits<int>::max();
constexpr int RESIDENT = 128;  // a multiple of every cluster

struct Shape {
  int m, n, k;
};
const Shape SHAPES[] = {{1, 1, 1},
                        {1, 4096, 4096},
                        {64, 576, 7168},
                        {127, 129, 65},
                        {128, 24576, 1536},
                        {1000, 1000, 1000},
                        {2048, 2048, 2048},
                        {3000, 3000, 3000},
                        {4096, 576, 7168},
                        {4096, 32768, 512},
                        {8192, 8192, 8192},
                        {16384, 16384, 16384},
                        {16384, 16384, 64},
                        {LARGEST, 1, 1},
                        {1, LARGEST, 1},
                        {1, 1, LARGEST},
                        {LARGEST, LARGEST, LARGEST}};

double clocks(const GemmConfig& config, const Shape& s, int resident = RESIDENT) {
  return predicted_clocks(config, s.m, s.n, s.k, resident, Gpu{});
}

const GemmConfig& named(std::string_view name) {
  return *std::find_if(std::begin(CONFIGURATIONS), std::end(CONFIGURATIONS),
                       [&](const GemmConfig& config) { return config.name == name; });
}

const GemmConfig& pick(const Shape& s) {
  return *std::min_element(
      std::begin(CONFIGURATIONS), std::end(CONFIGURATIONS),
      [&](const GemmConfig& a, const GemmConfig& b) { return clocks(a, s) < clocks(b, s); });
}

// Calls check(config, shape) for all of both.
template <class Check>
void for_all(Check check) {
  for (const GemmConfig& config : CONFIGURATIONS) {
    for (const Shape& s : SHAPES) {
      CAPTURE(config.name);
      CAPTURE(s.m);
      CAPTURE(s.n);
      CAPTURE(s.k);
      check(config, s);
    }
  }
}

}  // namespace

TEST_CASE("cost model: nothing is faster than tensor cores and DRAM, or takes for ever") {
  for_all([](const GemmConfig& config, const Shape& s) {
    const Gpu gpu;
    const double predicted = clocks(config, s);
    REQUIRE(std::isfinite(predicted));
    REQUIRE(predicted > 0);
    REQUIRE(predicted >= 2.0 * s.m * s.n * s.k / (gpu.tensor_flop * gpu.sms));
    const double bytes = 2 * (1.0 * s.m * s.k + 1.0 * s.n * s.k + 1.0 * s.m * s.n);
    // The rounding of a sum of quotients may fall short by a few bits.
    REQUIRE(predicted >= bytes / gpu.dram_bytes_per_clock * (1 - 1e-9));
  });
}

TEST_CASE("cost model: a longer K is no faster, with the same rows") {
  for_all([](const GemmConfig& config, const Shape& s) {
    double before = 0;
    for (int k = 1; k > 0 && k < LARGEST / 2; k += k / 2 + 1) {
      const double now = predicted_clocks(config, s.m, s.n, k, RESIDENT, Gpu{}, LARGEST, LARGEST);
      REQUIRE(now >= before);
      before = now;
    }
  });
}

TEST_CASE("cost model: twice as many CTAs at a time are no slower") {
  for_all([](const GemmConfig& config, const Shape& s) {
    for (int resident = 8; resident < 1024; resident *= 2) {
      REQUIRE(clocks(config, s, 2 * resident) <= clocks(config, s, resident) * (1 + 1e-9));
    }
  });
}

TEST_CASE("cost model: a tile more than CTAs costs another round") {
  const GemmConfig& config = named("128x256");
  const Gpu gpu;
  const int k = 8192;
  const double round = k / 64 * (2.0 * 128 * 256 * 64 / gpu.tensor_flop);
  const double one = clocks(config, {128 * (RESIDENT - 1), 256, k});
  const double full = clocks(config, {128 * RESIDENT, 256, k});
  const double more = clocks(config, {128 * (RESIDENT + 1), 256, k});
  CHECK(full - one < 0.1 * round);
  CHECK(more - full > 0.9 * round);
  CHECK(more - full < 1.2 * round);
}

TEST_CASE("cost model: a swapped configuration is the other one for the transposed problem") {
  for_all([](const GemmConfig& config, const Shape& s) {
    GemmConfig other = config;
    other.swap = !config.swap;
    for (const long long ld : {0LL, 2LL * s.k}) {
      REQUIRE(predicted_clocks(config, s.m, s.n, s.k, RESIDENT, Gpu{}, s.k, ld) ==
              predicted_clocks(other, s.n, s.m, s.k, RESIDENT, Gpu{}, ld, s.k));
    }
  });
}

TEST_CASE("cost model: rows outside of the matrix and rows across two lines are slow") {
  const GemmConfig& config = named("swap_64x32");
  // 32 rows of A are in the tile whether the matrix has them or not.
  CHECK(clocks(config, {1, 28672, 8192}) > clocks(config, {32, 28672, 8192}));
  // The same K, in rows that start on a line, and in rows that do not.
  CHECK(predicted_clocks(named("128x128"), 3000, 3000, 3000, RESIDENT, Gpu{}, 3008, 3008) <
        predicted_clocks(named("128x128"), 3000, 3000, 3000, RESIDENT, Gpu{}, 3000, 3000));
  CHECK(tile::lines_per_row(4096) == 1);
  CHECK(tile::lines_per_row(4096 + 32) == 1.5);
  CHECK(tile::lines_per_row(3000) == 1.875);
  CHECK(tile::lines_per_row(1) > 1.9);
}

TEST_CASE("cost model: CTAs that share operands win where L2 is slow, and lose elsewhere") {
  CHECK(clocks(named("256x192_1x2"), {3000, 3000, 3000}) <
        clocks(named("256x192"), {3000, 3000, 3000}));
  CHECK(clocks(named("128x256_2x1"), {4096, 4096, 4096}) >
        clocks(named("128x256"), {4096, 4096, 4096}));
}

TEST_CASE("cost model: CTAs that split a K of one step only exchange their sums") {
  CHECK(clocks(named("swap_64x64_k2"), {64, 64, 64}) > clocks(named("swap_64x64"), {64, 64, 64}));
}

TEST_CASE("cost model: wgmma's reads of shared memory need no term") {
  for (const GemmConfig& config : CONFIGURATIONS) {
    CAPTURE(config.name);
    constexpr double BYTES_PER_CLOCK = 119.8;  // make limits, smem_wgmma
    const double reads = config.bm() / 64 * (64 + config.bn) * 128 / BYTES_PER_CLOCK;
    // Of two K that differ by 1,000 steps, on a GPU whose L2 and DRAM are no limit.
    Gpu gpu;
    gpu.l2_bytes_per_clock = gpu.dram_bytes_per_clock = 1e12;
    const int steps = 1000 * config.split;
    const double step = (predicted_clocks(config, 64, 64, 64 * 2 * steps, RESIDENT, gpu) -
                         predicted_clocks(config, 64, 64, 64 * steps, RESIDENT, gpu)) /
                        1000;
    CHECK(reads < step);
  }
}

TEST_CASE("cost model: slots and staging buffers are as many as fit") {
  for (const GemmConfig& config : CONFIGURATIONS) {
    CAPTURE(config.name);
    const int buffers = tile::staging_buffers(config);
    REQUIRE((buffers == 1 || buffers == config.blocks));
    REQUIRE(tile::ring_slots(config, buffers) >= 3);
  }
  CHECK(tile::ring_slots(named("128x256"), 1) == 3);
  CHECK(tile::ring_slots(named("128x128"), 1) == 6);
  CHECK(tile::ring_slots(named("swap_128x128_k2"), 1) == 4);  // and 64 KB of partial sums
  CHECK(tile::ring_slots(named("swap_64x32"), 1) == 18);
  CHECK(tile::staging_buffers(named("256x192")) == 1);  // two would leave two slots
}

TEST_CASE("cost model: the kind of configuration that it picks") {
  // Many rounds: the tile that moves the fewest bytes for its products.
  for (const int size : {4096, 8192, 16384}) {
    CAPTURE(size);
    CHECK(pick({size, size, size}).bm() * pick({size, size, size}).bn >= 128 * 256);
  }
  // Few tiles and a long K: only splitting it employs the SMs.
  CHECK(pick({64, 576, 7168}).split > 1);
  CHECK(pick({128, 576, 7168}).split > 1);
  // Few rows: D^T, since a tile has no fewer than 64 rows, but fewer columns.
  CHECK(pick({1, 4096, 4096}).swap);
  CHECK(pick({16, 28672, 8192}).bn == 32);
  // 128 tiles of 128x144 fill 128 CTAs once, with four whole tiles across.
  CHECK(std::string(pick({4096, 576, 7168}).name) == "128x144");
  // Rows across two lines: operands that are asked for once for two CTAs.
  CHECK(pick({3000, 3000, 3000}).cluster_m * pick({3000, 3000, 3000}).cluster_n > 1);
}
