// The cost model: ceilings that it may not break, what must make a shape slower, what it picks on
// which GPU, and that rung 11's table has no row too many.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/tile/configurations.h"
#include "common/tile/cost_model.h"
#include "common/tile/fused_tiles.h"
#include "tests/support/draw.h"

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

// CTAs that run at a time: an H200 holds 30 clusters of four, so that 12 of its SMs are left over.
int resident(const GemmConfig& config, const Gpu& gpu) {
  return config.cluster() <= 2 ? gpu.sms : gpu.sms * 10 / 11 / config.cluster() * config.cluster();
}

const GemmConfig& pick(const Shape& s, const Gpu& gpu = {}) {
  const auto by_clocks = [&](const GemmConfig& a, const GemmConfig& b) {
    return predicted_clocks(a, s.m, s.n, s.k, resident(a, gpu), gpu) <
           predicted_clocks(b, s.m, s.n, s.k, resident(b, gpu), gpu);
  };
  return *std::min_element(std::begin(CONFIGURATIONS), std::end(CONFIGURATIONS), by_clocks);
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
  // But for the launch: it starts early if the CTAs fill all places, and perhaps not twice as many.
  for_all([](const GemmConfig& config, const Shape& s) {
    for (int resident = 8; resident < 1024; resident *= 2) {
      const double half = clocks(config, s, resident);
      REQUIRE(clocks(config, s, 2 * resident) <= half * (1 + 1e-9) + tile::LAUNCH_CLOCKS);
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

TEST_CASE("cost model: rows outside of the matrix and rows between lines are slow") {
  // 128 rows of A are in the tile whether the matrix has them or not.
  CHECK(clocks(named("128x128"), {1, 28672, 8192}) > clocks(named("128x128"), {120, 28672, 8192}));
  // The same K, in rows that start on a line, and in rows that do not.
  CHECK(predicted_clocks(named("128x128"), 3000, 3000, 3000, RESIDENT, Gpu{}, 3008, 3008) <
        predicted_clocks(named("128x128"), 3000, 3000, 3000, RESIDENT, Gpu{}, 3000, 3000));
  CHECK(tile::lines_per_row(4096) == 1);
  CHECK(tile::lines_per_row(4096 + 32) == 1.5);
  CHECK(tile::lines_per_row(3000) == 1.875);
  CHECK(tile::lines_per_row(1) > 1.9);
  // Rows on sectors of 32 bytes are one read of L2. An H100 has 5/6 of an H200's L2, and rows between
  // lines are dearer there.
  const Gpu h100 = tile::gpu_of(132, 1980, 50 << 20, 3.35e12);
  CHECK(h100.between_lines == doctest::Approx(1.3));
  CHECK(tile::reads_per_row(4096, Gpu{}) == 1);
  CHECK(tile::reads_per_row(4096, h100) == 1);
  CHECK(tile::reads_per_row(4096 + 16, Gpu{}) == 1);
  CHECK(tile::reads_per_row(4096 + 16, h100) == doctest::Approx(1.3));
  CHECK(tile::reads_per_row(4096 + 8, Gpu{}) == 1.875);
  CHECK(tile::reads_per_row(4096 + 8, h100) == doctest::Approx(1.3 * 1.875));
  CHECK(predicted_clocks(named("128x64"), 2048, 4096, 4112, RESIDENT, Gpu{}) <
        predicted_clocks(named("128x64"), 2048, 4096, 4104, RESIDENT, Gpu{}));
}

TEST_CASE("cost model: tiles on their side, by where rows begin") {
  const GemmConfig alone = {"", 3, 1, 208, 1, 1, 1, false, true};
  const GemmConfig in_cluster = {"", 3, 1, 208, 2, 1, 1, false, true};
  const GemmConfig in_turn = {"", 2, 2, 160, 1, 1, 1, true, true};
  const Shape on_lines = {4096, 4096, 4096}, between_lines = {4096, 4096, 4104};
  for (const Shape& s : {on_lines, between_lines}) CHECK(clocks(alone, s) < tile::NEVER);
  CHECK(clocks(in_cluster, on_lines) == tile::NEVER);
  CHECK(clocks(in_cluster, between_lines) < tile::NEVER);
  CHECK(clocks(in_turn, on_lines) < tile::NEVER);
  CHECK(clocks(in_turn, between_lines) == tile::NEVER);
}

TEST_CASE("cost model: CTAs that share operands win where L2 is slow, and lose elsewhere") {
  CHECK(clocks(named("256x192_1x2"), {3000, 3000, 3000}) <
        clocks(named("256x192"), {3000, 3000, 3000}));
  CHECK(clocks(named("192x128_2x2"), {4096, 4096, 4096}) >
        clocks(named("192x128"), {4096, 4096, 4096}));
}

TEST_CASE("cost model: wgmma's reads of shared memory need no term") {
  for (const GemmConfig& config : CONFIGURATIONS) {
    CAPTURE(config.name);
    constexpr double BYTES_PER_CLOCK = 119.8;  // make limits, smem_wgmma
    const double reads = config.bm() / 64 * (64 + config.bn) * 128 / BYTES_PER_CLOCK;
    // Of two K that differ by 1,000 steps, on a GPU whose L2 and DRAM are no limit.
    Gpu gpu;
    gpu.l2_bytes_per_clock = gpu.dram_bytes_per_clock = 1e12;
    const int steps = 1000;
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
  CHECK(tile::ring_slots(named("192x192"), 1) == 3);
  CHECK(tile::staging_buffers(named("256x192")) == 1);  // two would leave two slots
  CHECK(tile::staging_buffers(named("256x144_1x2")) == 2);
}

TEST_CASE("cost model: neighbouring tiles share the larger operand") {
  // Of 128x256, 132 at a time; rows of 16 KiB, of which L2 keeps too few for higher sweeps.
  const auto group = [](int bm, int bn, int at_once, int rows, int cols, int cluster) {
    return tile::raster_group(bm, bn, at_once, rows, cols, cluster, 16384, Gpu{});
  };
  CHECK(tile::raster_group(128, 256, 132) == 16);
  CHECK(group(128, 256, 132, 8192, 8192, 1) == 16);
  // Eight tiles across and 16 down are 128 of 132: row by row, if D is higher than wide.
  CHECK(group(128, 256, 132, 8192, 2048, 1) == 1);
  CHECK(group(128, 256, 132, 8192, 2049, 1) == 16);  // nine would be 144
  CHECK(group(128, 256, 132, 2048, 2048, 1) == 16);
  CHECK(group(128, 256, 132, 2049, 2048, 1) == 1);
  CHECK(group(128, 128, 132, 256, 8192, 1) == 2);   // there are no more
  CHECK(group(128, 128, 132, 256, 1024, 1) == 11);  // half of L2 has room for all
  CHECK(group(128, 128, 132, 8192, 256, 1) == 1);
  CHECK(group(128, 128, 66, 8192, 256, 2) == 8);  // clusters
  CHECK(group(128, 128, 132, LARGEST, LARGEST - 1, 1) == 11);
}

TEST_CASE(
    "cost model: a sweep is as high as L2 has room for its rows, and not much more than square") {
  const auto group = [](int rows, long long k, double l2_mb = 60) {
    Gpu gpu;
    gpu.l2_bytes = l2_mb * (1 << 20);
    return tile::raster_group(128, 176, 132, rows, 32768, 2 * k, gpu);
  };
  CHECK(tile::raster_group(128, 176, 132) == 13);
  CHECK(group(4096, 512) == 32);  // one sweep, of 4 MiB of A
  CHECK(tile::raster_group(128, 176, 132, 4096, 4096, 1024, Gpu{}) == 13);  // 19 MiB a sweep
  CHECK(group(4096, 1536) == 32);                                           // of 12 MiB
  CHECK(group(4096, 2048) == 16);      // 16 MiB are more than a quarter of 60: two sweeps
  CHECK(group(4096, 1536, 40) == 16);  // of a smaller L2 as well
  CHECK(group(16384, 512) == 32);      // 33 and more would ask for 1.4 times as many rows
  CHECK(group(8192, 8192) == 13);      // rows of 16 KiB: no higher than square
  CHECK(group(5632, 8192) ==
        11);  // 44 rows of tiles are four sweeps of 11, not three of 13 and one of 5
  for (const int rows :
       {1000, 4096, 5000, 11392, 100000, LARGEST}) {  // D alone is more than L2 has
    for (const long long k : {1, 64, 512, 4096, 100000}) {
      CAPTURE(rows);
      CAPTURE(k);
      const int tiles = tile::ceil_div(rows, 128), high = group(rows, k);
      const int sweeps = tile::ceil_div(tiles, high);
      CHECK(sweeps <= tile::ceil_div(tiles, 13));
      CHECK(tiles - (sweeps - 1) * high >= high - (sweeps - 1));  // the last sweep
    }
  }
}

TEST_CASE("cost model: the kind of configuration that it picks") {
  // Many rounds: a tile that moves few bytes for its products.
  for (const int size : {4096, 8192, 16384}) {
    CAPTURE(size);
    CHECK(pick({size, size, size}).bm() * pick({size, size, size}).bn >= 128 * 256);
  }
  // 128 tiles of 128x144 fill 128 of 132 CTAs once, with four whole tiles across.
  CHECK(std::string(pick({4096, 576, 7168}).name) == "128x144");
  // Rows across two lines: operands that are asked for once for two CTAs.
  CHECK(pick({3000, 3000, 3000}).cluster() > 1);
}

TEST_CASE("cost model: another GPU, another pick") {
  const Gpu h200 = tile::gpu_of(132, 1980, 60 << 20, 4.917e12);
  const Gpu h100 = tile::gpu_of(132, 1980, 50 << 20, 3.35e12);
  const Gpu small = tile::gpu_of(78, 1980, 60 << 20, 4.917e12);
  // The defaults are an H200, by its measured numbers.
  CHECK(h200.sms == Gpu{}.sms);
  CHECK(h200.mhz == doctest::Approx(Gpu{}.mhz));
  CHECK(h200.l2_bytes == Gpu{}.l2_bytes);
  CHECK(h200.dram_bytes_per_clock == doctest::Approx(Gpu{}.dram_bytes_per_clock).epsilon(0.005));
  CHECK(h200.between_lines == 1);
  CHECK(h100.dram_bytes_per_clock == doctest::Approx(3.35e12 * 0.88 / 1.8e9));

  // Weights of 28672 x 4096 for 256 rows. On an H200 tensor cores and L2 decide. An H100 has 0.7 of
  // its DRAM: one row of blocks, of which no other reads the weights again.
  const Shape weights = {256, 28672, 4096};
  const auto block_rows = [](const GemmConfig& config) { return config.bm() * config.cluster_m; };
  CHECK(block_rows(pick(weights, h200)) == 128);
  CHECK(block_rows(pick(weights, h100)) == 256);

  // One round of 128 tiles on 132 SMs would be two on 78, which 66 tiles of 192x192 fill once.
  const Shape one_round = {4096, 576, 7168};
  CHECK(std::string(pick(one_round, h200).name) == "128x144");
  CHECK(std::string(pick(one_round, small).name) == "192x192");

  // Half as many SMs, twice as long, where nothing but they count.
  Gpu half = h200;
  half.sms /= 2;
  const GemmConfig& config = named("128x256");
  const Shape large = {16384, 16384, 16384};
  const double twice = predicted_clocks(config, large.m, large.n, large.k, half.sms, half) /
                       predicted_clocks(config, large.m, large.n, large.k, h200.sms, h200);
  CHECK(twice > 1.9);
  CHECK(twice < 2.1);
}

namespace {

// What the table was made from.
std::vector<GemmConfig> candidates() {
  std::vector<GemmConfig> all;
  all.push_back({"", 2, 1, 64});
  for (int bn = 96; bn <= 256; bn += 16) {
    all.push_back({"", 2, 1, bn});
    all.push_back({"", 2, 1, bn, 2, 2});
  }
  for (int bn = 96; bn <= 160; bn += 16) {
    all.push_back({"", 2, 1, bn, 1, 4});
    all.push_back({"", 3, 1, bn, 1, 4});
  }
  for (int bn = 128; bn <= 256; bn += 64) all.push_back({"", 2, 1, bn, 2, 1});
  for (int bn = 96; bn <= 192; bn += 16) {
    for (const auto& [cluster_m, cluster_n] : {std::pair{1, 1}, {1, 2}, {2, 1}}) {
      all.push_back({"", 3, 1, bn, cluster_m, cluster_n});
      all.push_back({"", 2, 2, bn, cluster_m, cluster_n});
    }
  }
  for (int bn = 128; bn <= 192; bn += 32) {
    all.push_back({"", 3, 1, bn, 2, 2});
    all.push_back({"", 2, 2, bn, 2, 2});
  }
  // 64 rows: what was timed at small shapes.
  for (int bn = 48; bn <= 160; bn += 16) all.push_back({"", 1, 1, bn});
  all.push_back({"", 1, 1, 192});
  for (int bn = 64; bn <= 192; bn += 32) {
    for (const auto& [cluster_m, cluster_n] : {std::pair{2, 1}, {4, 1}, {2, 2}, {4, 2}, {2, 4}}) {
      all.push_back({"", 1, 1, bn, cluster_m, cluster_n});
    }
    if (bn <= 128) all.push_back({"", 1, 1, bn, 1, 4});
  }
  // Clusters of eight that were timed at drawn shapes.
  all.push_back({"", 1, 1, 48, 2, 4});
  for (int bn = 64; bn <= 128; bn += 32) {
    all.push_back({"", 2, 1, bn, 2, 4});
    all.push_back({"", 2, 1, bn, 4, 2});
  }
  return all;
}

bool same(const GemmConfig& a, const GemmConfig& b) {
  return a.consumers == b.consumers && a.blocks == b.blocks && a.bn == b.bn &&
         a.cluster_m == b.cluster_m && a.cluster_n == b.cluster_n;
}

struct Sample {
  double of_table = 0, of_singles = 0, of_one = 0;  // slower than the fastest candidate
  double without[std::size(CONFIGURATIONS)];     // how much slower what it is picked for would be
  double share[std::size(CONFIGURATIONS)] = {};  // of the shapes
  int between = 0, in_clusters = 0;              // K no multiple of 64, and of these in clusters
  int aligned = 0, aligned_in_clusters = 0;
};

constexpr int SAMPLES = 10000;

template <class DrawShape>
Sample sample(DrawShape draw_shape) {
  constexpr int ROWS = std::size(CONFIGURATIONS);
  const std::vector<GemmConfig> others = candidates();
  REQUIRE(others.size() == 128);
  Sample sample;
  double without[ROWS] = {};
  int picked[ROWS] = {};
  for (int i = 0; i < SAMPLES; ++i) {
    const auto [m, n, k] = draw_shape();
    double time[ROWS];
    for (int row = 0; row < ROWS; ++row) {
      const GemmConfig& config = CONFIGURATIONS[row];
      time[row] = predicted_clocks(config, m, n, k, resident(config, Gpu{}), Gpu{});
    }
    const auto best = std::min_element(time, time + ROWS) - time;
    double second = std::numeric_limits<double>::infinity();
    for (int row = 0; row < ROWS; ++row) {
      if (row != best) second = std::min(second, time[row]);
    }
    double fastest = time[best];
    for (const GemmConfig& config : others) {
      fastest =
          std::min(fastest, predicted_clocks(config, m, n, k, resident(config, Gpu{}), Gpu{}));
    }
    sample.of_table += (time[best] / fastest - 1) / SAMPLES;
    sample.of_one += (time[0] / fastest - 1) / SAMPLES;
    double single = std::numeric_limits<double>::infinity();
    for (int row = 0; row < ROWS; ++row) {
      if (CONFIGURATIONS[row].cluster() == 1) single = std::min(single, time[row]);
    }
    sample.of_singles += (single / fastest - 1) / SAMPLES;
    const bool in_cluster = CONFIGURATIONS[best].cluster() > 1;
    ++(k % 64 != 0 ? sample.between : sample.aligned);
    if (in_cluster) ++(k % 64 != 0 ? sample.in_clusters : sample.aligned_in_clusters);
    ++picked[best];
    without[best] += second / time[best] - 1;
  }
  for (int row = 0; row < ROWS; ++row) {
    sample.share[row] = 1.0 * picked[row] / SAMPLES;
    sample.without[row] = picked[row] > 0 ? without[row] / picked[row] : 0;
  }
  return sample;
}

}  // namespace

// docs/tile_tables.md, "The first 48".
TEST_CASE("cost model: every row of the table was a candidate") {
  const std::vector<GemmConfig> all = candidates();
  for (const GemmConfig& config : CONFIGURATIONS) {
    CAPTURE(std::string(config.name));
    CHECK(std::count_if(all.begin(), all.end(),
                        [&](const GemmConfig& other) { return same(config, other); }) == 1);
  }
}

// By the model on an H200. Large shapes: log-uniform in M 256 to 16384, N 512 to 65536, K 256 to
// 16384, of which one in ten has rows that begin between 128-byte lines. Small ones: M 64 to 3000, N
// 64 to 6000, K 256 to 8192, of which every other has, and D of at most a round of the largest tile.
TEST_CASE("cost model: the table is as good as all candidates, and has no row too many") {
  ladder_test::Draw draw;
  const Sample large = sample([&] {
    const int m = draw.between(256, 16384, 1), n = draw.between(512, 65536, 8);
    return Shape{m, n, draw.between(256, 16384, draw.uniform() < 0.1 ? 8 : 64)};
  });
  const Sample small = sample([&] {
    for (;;) {
      const int m = draw.between(64, 3000, 1), n = draw.between(64, 6000, 8);
      const int k = draw.between(256, 8192, draw.uniform() < 0.5 ? 8 : 64);
      if (1.0 * m * n <= 132 * 128 * 256) return Shape{m, n, k};
    }
  });
  CHECK(std::lround(1000 * large.of_table) == 15);
  CHECK(std::lround(1000 * small.of_table) == 17);
  CHECK(std::lround(1000 * large.of_singles) == 44);
  CHECK(std::lround(100 * small.of_singles) == 24);
  CHECK(std::string(CONFIGURATIONS[0].name) == "128x256");
  CHECK(std::lround(100 * large.of_one) == 48);
  CHECK(std::lround(100 * small.of_one) == 365);
  CHECK(std::lround(10.0 * large.in_clusters / large.between) == 7);
  CHECK(std::lround(10.0 * large.aligned_in_clusters / large.aligned) == 2);
  for (int row = 0; row < int{std::size(CONFIGURATIONS)}; ++row) {
    CAPTURE(std::string(CONFIGURATIONS[row].name));
    CAPTURE(large.share[row]);
    CAPTURE(large.without[row]);
    CAPTURE(small.share[row]);
    CAPTURE(small.without[row]);
    const auto has_its_place = [&](const Sample& s) {
      return s.share[row] > 0.005 && s.without[row] > 0.013;
    };
    // By trials, before there were tiles in clusters of eight: the model picks either for hardly a shape.
    const std::string name = CONFIGURATIONS[row].name;
    const bool by_trials = name == "128x64" || name == "128x128_2x2";
    CHECK((has_its_place(large) || has_its_place(small)) != by_trials);
  }
}

// Line 10 of the table of docs/11_autotuned.md, "Which tile for which shape".
TEST_CASE("cost model: the example that is worked out by hand") {
  const Shape example = {4096, 2112, 7168};
  const auto expected = [&](std::string_view tile) {
    return std::lround(clocks(named(tile), example, Gpu{}.sms));
  };
  CHECK(expected("128x256") == 399853);
  CHECK(expected("192x176") == 265033);
}

// The numbers of docs/cost_model.md, "The tiles of rung 17".
TEST_CASE("cost model: what rung 17's upright tiles, K whole, lose against all of rung 11's") {
  using tile::FUSED_CONFIGURATIONS;
  constexpr int SAMPLES = 20000;
  const auto least = [](const auto& table, const Shape& s, bool in_clusters) {
    double best = std::numeric_limits<double>::infinity();
    for (const GemmConfig& config : table) {
      if (config.sideways || (config.cluster() > 1 && !in_clusters)) continue;
      best = std::min(best, clocks(config, s, resident(config, Gpu{})));
    }
    return best;
  };
  const auto loss = [&](const Shape& s, bool in_clusters = true) {
    const double fused = least(FUSED_CONFIGURATIONS, s, in_clusters);
    return fused / std::min(fused, least(CONFIGURATIONS, s, true)) - 1;
  };
  struct Losses {
    double sum = 0, worst = 0, without = 0;  // without: clusters
    int above = 0;                           // 3 % and more
    void add(double lost, double lost_without) {
      sum += lost;
      worst = std::max(worst, lost);
      without += lost_without;
      above += lost > 0.03;
    }
  };
  ladder_test::Draw draw;
  for (const int multiple : {64, 8}) {  // of N and K: 8, rows mostly begin between lines of L2
    Losses all, of_large;
    int large = 0;
    for (int i = 0; i < SAMPLES; ++i) {
      const int m = draw.between(1024, 65536, 64), n = draw.between(1024, 65536, 64);
      const Shape s = {m, n, draw.between(4096, 16384, multiple)};
      const double lost = loss(s), without = loss(s, false);
      all.add(lost, without);
      if (1.0 * m * n < 16e6) continue;
      ++large;
      of_large.add(lost, without);
    }
    const auto tenths = [](double share) { return std::lround(1000 * share); };  // of a per cent
    const bool on_lines = multiple == 64;
    CHECK(tenths(all.sum / SAMPLES) == (on_lines ? 11 : 26));
    CHECK(tenths(all.without / SAMPLES) == (on_lines ? 11 : 81));
    CHECK(std::lround(100.0 * all.above / SAMPLES) == (on_lines ? 11 : 26));
    CHECK(std::lround(100 * all.worst) == (on_lines ? 31 : 55));
    CHECK(large > SAMPLES / 2);
    CHECK(tenths(of_large.sum / large) == (on_lines ? 6 : 18));
    CHECK(tenths(of_large.without / large) == (on_lines ? 6 : 77));
    CHECK(std::lround(100.0 * of_large.above / large) == (on_lines ? 5 : 21));
    CHECK(std::lround(100 * of_large.worst) == (on_lines ? 10 : 22));
  }
}
