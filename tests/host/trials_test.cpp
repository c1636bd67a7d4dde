// The cost models of rungs 11 and 12, and the rule of early starts, held to what was timed on an H200
// and on an H100.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/tile/block_scaled.h"
#include "common/tile/configurations.h"
#include "common/tile/cost_model.h"
#include "common/tile/fused_tiles.h"
#include "common/tile/grouped.h"
#include "common/tile/mixed_tiles.h"
#include "common/tile/shared_k.h"
#include "common/tile/typed_tiles.h"

using tile::Gpu;

namespace {

constexpr double NOT_TIMED = std::numeric_limits<double>::infinity();

struct Trial {
  int rung;
  std::string configuration;
  double early_us, plain_us;
};

struct Shape {
  std::string list;  // of scripts/lib/shape_lists.py, or trial
  int m, n, k;
  std::vector<Trial> trials;
};

double microseconds(const std::string& text) {
  return text.empty() ? NOT_TIMED : std::stod(text);
}

// The cells of the rows of a file under docs/results.
std::vector<std::vector<std::string>> read_rows(const std::string& name) {
  std::ifstream file("docs/results/" + name);
  REQUIRE(file);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream cells(line + ",");
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

// Whether a configuration is one of clusters: _2x4 and the like, or _k2 to _k8.
bool in_cluster(const std::string& name) {
  for (size_t at = name.find('_'); at != std::string::npos; at = name.find('_', at + 1)) {
    const char next = name[at + 1];
    if (next == 'k' || (next >= '0' && next <= '9')) return true;
  }
  return false;
}

// Tiles that are cut. Their kernels have changed since most trials: what they read leaves L2 first now.
// So these say how far the picks among the other configurations are from the fastest of them.
bool is_cut(const std::string& name) {
  return name.ends_with("_cut");
}

// Of an H200 both launches were timed, of an H100 the one that the rule says. Of the H200's clusters
// the kernels have changed since: they begin and end sooner now. So their times are left out, but where
// a test asks for what was timed then.
std::vector<Shape> read_trials(const std::string& chip = "h200", bool all = false) {
  const size_t times = chip == "h200" ? 2 : 1;
  std::vector<Shape> shapes;
  for (const std::vector<std::string>& cell : read_rows(chip + ".trials.csv")) {
    REQUIRE(cell.size() == 6 + times);
    const int m = std::stoi(cell[1]), n = std::stoi(cell[2]), k = std::stoi(cell[3]);
    const bool same = !shapes.empty() && std::tie(shapes.back().m, shapes.back().n,
                                                  shapes.back().k) == std::tie(m, n, k);
    if (!same) shapes.push_back({cell[0], m, n, k, {}});
    if (chip == "h200" && !all && in_cluster(cell[5])) continue;
    shapes.back().trials.push_back(
        {std::stoi(cell[4]), cell[5], microseconds(cell[6]), microseconds(cell.back())});
  }
  return shapes;
}

// A chip: what the models know of it, and its CTAs in clusters of eight that run at a time.
struct Chip {
  Gpu gpu;
  int in_eights;
};
const Chip H200 = {Gpu{}, 14 * 8};
const Chip H100 = {tile::gpu_of(132, 1980, 50 << 20, 3.35e12),
                   15 * 8};  // as its trials were launched

// CTAs that run at a time, one an SM: either chip holds 30 clusters of four.
int resident(int cluster, int in_eights = H200.in_eights) {
  return cluster <= 2 ? 132 : cluster == 4 ? 120 : in_eights;
}

// What the host makes of a configuration at a shape.
struct Said {
  double clocks;
  bool early;
};

// Tiles that were timed and went (docs/tile_tables.md): of the first the model expects too much at
// a short K, the second is never its pick since there are tiles of 64 rows, and the third has no place
// since rows that begin on 32 bytes count as one for L2.
const tile::GemmConfig NOT_IN_THE_TABLE[] = {
    {"128x224", 2, 1, 224}, {"128x96_2x2", 2, 1, 96, 2, 2}, {"192x192_2x2", 3, 1, 192, 2, 2}};

Said say(const tile::GemmConfig& config, Shape s, const Chip& chip) {
  const Gpu& gpu = chip.gpu;
  if (config.sideways) std::swap(s.m, s.n);
  const int ctas = resident(config.cluster(), chip.in_eights);
  const int rows = config.bm() * config.cluster_m, cols = config.bn * config.cluster_n;
  const int blocks = tile::ceil_div(s.m, rows) * tile::ceil_div(s.n, cols) * config.cluster();
  const double lost = tile::crowding_behind_loads(blocks, ctas, config.cluster(), 2);
  const double bytes = 2 * (1.0 * s.m * s.k + 1.0 * s.n * s.k + 1.0 * s.m * s.n);
  const double least =
      tile::least_clocks(1.0 * s.m * s.n * s.k, bytes, std::min(blocks, ctas), gpu);
  return {tile::predicted_clocks(config, s.m, s.n, s.k, ctas, gpu),
          tile::starts_early(lost, least)};
}

Said say(const tile::SharedK& config, const Shape& s, const Chip& chip) {
  const Gpu& gpu = chip.gpu;
  const int ctas = resident(config.cluster(), chip.in_eights) * config.ctas,
            at_once = ctas / config.cluster();
  const int tiles_n = tile::ceil_div(s.m, config.bn * config.cluster_n);
  const int tiles = tile::ceil_div(s.n, config.bm() * config.cluster_m) * tiles_n;
  const tile::KSchedule schedule = tile::share_k(config.share, tiles, tile::ceil_div(s.k, 64),
                                                 config.split > 1 ? tiles : at_once);
  const int rows = tile::rows_of_tile(s.m, config.bn, tiles_n * config.cluster_n, config.split,
                                      config.cluster_m);
  return {tile::predicted_clocks(config, s.m, s.n, s.k, ctas, gpu),
          tile::starts_early(tile::crowding(config, schedule, at_once, s.m, s.n, rows, gpu),
                             tile::least_clocks(config, schedule, at_once, s.m, s.n, s.k, gpu))};
}

// A tile that came into the tables when only an H100 was at hand, and was timed there alone. Others are
// in clusters, of which no time of an H200 is read.
const std::pair<int, std::string> TIMED_ON_H100_ALONE = {12, "64x40_x2"};

// Pairs that share the weights came last, and have trials of their own. The others say how near the picks
// were among the tiles that could be picked then: of rung 12's the pair of most columns only where rows
// begin inside sectors.
bool came_last(int rung, const std::string& name, const Shape& s) {
  if (rung == 11) return name.starts_with("64x") && name.ends_with("_2x1");
  if (name == "192x136_1x2") return !tile::begin_inside_sectors(s.k);
  constexpr const char* PAIRS[] = {"128x72_1x2",  "128x80_1x2",  "128x88_1x2", "128x96_1x2",
                                   "128x104_1x2", "192x104_1x2", "192x112_1x2"};
  return rung == 12 && std::find(std::begin(PAIRS), std::end(PAIRS), name) != std::end(PAIRS);
}

// Of all configurations of both rungs, by rung and name.
std::map<std::pair<int, std::string>, Said> say_all(const Shape& s, const Chip& chip = H200) {
  std::map<std::pair<int, std::string>, Said> said;
  for (const tile::GemmConfig& config : tile::CONFIGURATIONS) {
    said[{11, config.name}] = say(config, s, chip);
  }
  for (const tile::SharedK& config : tile::SHARED_K) said[{12, config.name}] = say(config, s, chip);
  // Nobody picks them, but a pick may be slower than they were.
  for (const tile::GemmConfig& config : NOT_IN_THE_TABLE) {
    said[{11, config.name}] = {NOT_TIMED, say(config, s, chip).early};
  }
  for (auto& [of, what] : said) {
    if (came_last(of.first, of.second, s)) what.clocks = NOT_TIMED;
  }
  if (&chip == &H200) {
    said[TIMED_ON_H100_ALONE].clocks = NOT_TIMED;
    for (auto& [of, what] : said) {
      if (in_cluster(of.second)) what.clocks = NOT_TIMED;
    }
  }
  return said;
}

// How much slower than the fastest that was timed the pick is, on average over some shapes.
struct Distance {
  double sum = 0, worst = 0;
  int shapes = 0, not_timed = 0;  // whose pick was not timed as it would be launched

  double mean() const { return sum / shapes; }
  void add(double picked, double fastest) {
    ++shapes;
    sum += picked / fastest - 1;
    worst = std::max(worst, picked / fastest - 1);
  }
  void add_if_timed(double picked, double fastest) {
    if (picked == NOT_TIMED) {
      ++not_timed;
    } else {
      add(picked, fastest);
    }
  }
};

Distance distance(const std::vector<Shape>& shapes, const std::set<std::string>& lists,
                  const Chip& chip = H200) {
  Distance distance;
  for (const Shape& s : shapes) {
    if (!lists.contains(s.list)) continue;
    auto said = say_all(s, chip);
    for (auto& [of, what] : said) {
      if (is_cut(of.second)) what.clocks = NOT_TIMED;
    }
    const auto pick = std::min_element(said.begin(), said.end(), [](const auto& a, const auto& b) {
      return a.second.clocks < b.second.clocks;
    });
    double fastest = NOT_TIMED, picked = NOT_TIMED;
    for (const Trial& trial : s.trials) {
      if (is_cut(trial.configuration)) continue;
      const auto own = said.find({trial.rung, trial.configuration});
      REQUIRE((own != said.end() || trial.early_us == trial.plain_us));  // one that went
      const bool early = own != said.end() && own->second.early;
      const double us = early ? trial.early_us : trial.plain_us;
      fastest = std::min(fastest, us);
      if (own == pick) picked = us;
    }
    if (fastest != NOT_TIMED) distance.add_if_timed(picked, fastest);
  }
  return distance;
}

}  // namespace

// The numbers of docs/sharing_k.md, "How far the picks are from the fastest".
TEST_CASE("trials: the pick of rungs 11 and 12 is near the fastest that was timed") {
  const std::vector<Shape> trials = read_trials();
  struct {
    std::set<std::string> lists;
    int shapes, not_timed, thousandths, worst_hundredths;
  } const SAID[] = {{{"trial", "tuning", "heldout"}, 237, 18, 10, 10},
                    {{"rounds", "between", "decode", "ragged"}, 43, 2, 13, 16},
                    {{"later"}, 42, 1, 14, 8},
                    {{"small"}, 55, 3, 36, 25},
                    {{"small_later"}, 66, 5, 22, 13},
                    {{"any"}, 14, 0, 27, 11},
                    {{"batch"}, 67, 3, 22, 20},
                    {{"batch_later"}, 51, 0, 25, 12},
                    {{"odd"}, 10, 2, 12, 11}};
  for (const auto& said : SAID) {
    CAPTURE(*said.lists.begin());
    const Distance found = distance(trials, said.lists);
    CHECK(found.shapes == said.shapes);
    CHECK(found.not_timed == said.not_timed);
    CHECK(std::lround(1000 * found.mean()) == said.thousandths);
    CHECK(std::lround(100 * found.worst) == said.worst_hundredths);
  }
}

// The numbers of docs/sharing_k.md, "How far the picks are from the fastest", of an H100.
TEST_CASE("trials: the pick on an H100 is near the fastest that was timed there") {
  const std::vector<Shape> trials = read_trials("h100");
  CHECK(trials.size() == 534);
  struct {
    std::set<std::string> lists;
    int shapes, not_timed, thousandths, worst_hundredths;
  } const SAID[] = {{{"trial", "tuning", "heldout"}, 171, 7, 12, 14},
                    {{"rounds", "between", "decode", "ragged"}, 45, 2, 7, 5},
                    {{"later"}, 48, 0, 17, 17},
                    {{"any"}, 14, 0, 23, 10},
                    {{"small", "small_later"}, 68, 2, 20, 13},
                    {{"batch", "batch_later"}, 89, 1, 21, 17},
                    {{"odd"}, 23, 1, 6, 9}};
  for (const auto& said : SAID) {
    CAPTURE(*said.lists.begin());
    const Distance found = distance(trials, said.lists, H100);
    CHECK(found.shapes == said.shapes);
    CHECK(found.not_timed == said.not_timed);
    CHECK(std::lround(1000 * found.mean()) == said.thousandths);
    CHECK(std::lround(100 * found.worst) == said.worst_hundredths);
  }
}

// The example of docs/cost_model.md, "Rows between lines".
TEST_CASE("trials: rows on sectors, a tile that asks L2 for much, and two chips") {
  const auto us = [](const std::string& chip, const std::string& configuration) {
    for (const Shape& s : read_trials(chip)) {
      if (std::tie(s.m, s.n, s.k) != std::make_tuple(1664, 1672, 39904)) continue;
      for (const Trial& trial : s.trials) {
        if (trial.rung == 11 && trial.configuration == configuration) {
          return std::lround(trial.plain_us);
        }
      }
    }
    return 0l;
  };
  CHECK(us("h200", "128x176") == 292);
  CHECK(us("h100", "128x176") == 393);
  CHECK(us("h200", "128x192") == 302);
  CHECK(us("h100", "128x192") == 333);
}

// The numbers of docs/sharing_k.md, "What the model never picks".
TEST_CASE("trials: tiles for rows inside sectors are the fastest hardly anywhere else") {
  int timed = 0, fastest = 0;
  for (const Shape& s : read_trials("h100")) {
    if (tile::begin_inside_sectors(s.k)) continue;
    double own = NOT_TIMED, others = NOT_TIMED;
    for (const Trial& trial : s.trials) {
      const auto config = std::find_if(std::begin(tile::SHARED_K), std::end(tile::SHARED_K),
                                       [&](const tile::SharedK& row) {
                                         return trial.rung == 12 && trial.configuration == row.name;
                                       });
      const bool is_own =
          config != std::end(tile::SHARED_K) && tile::for_rows_inside_sectors(*config);
      double& least = is_own ? own : others;
      least = std::min(least, trial.plain_us);
    }
    timed += own != NOT_TIMED;
    fastest += own < others;
  }
  CHECK(timed == 115);
  CHECK(fastest == 4);
}

// The numbers of docs/11_autotuned.md, "One consumer".
TEST_CASE("trials: what rung 11's tiles of 64 rows gain at small shapes") {
  double sum = 0, least = 1;  // of logarithms
  int shapes = 0;
  for (const Shape& s : read_trials("h100")) {
    if (!s.list.starts_with("small")) continue;
    double all = NOT_TIMED, others = NOT_TIMED;
    for (const Trial& trial : s.trials) {
      const double us = std::min(trial.early_us, trial.plain_us);
      all = std::min(all, us);
      const bool one_consumer = trial.rung == 11 && trial.configuration.starts_with("64x");
      if (!one_consumer) others = std::min(others, us);
    }
    if (others == NOT_TIMED) continue;
    sum += std::log(all / others);
    least = std::min(least, all / others);
    ++shapes;
  }
  CHECK(shapes == 69);
  CHECK(std::lround(1000 * std::exp(sum / shapes)) == 941);
  CHECK(std::lround(100 * least) == 70);
}

// The number of docs/12_stream_k.md, "Which configuration is for what".
TEST_CASE("trials: where stream-K proper is the fastest") {
  // All of what was timed: of clusters, which take less time now, there may be fewer such shapes.
  const std::vector<Shape> shapes = read_trials("h200", true);
  int found = 0;
  double most = 0;  // over the next one
  for (const Shape& s : shapes) {
    double of_all_rounds = NOT_TIMED, others = NOT_TIMED;
    for (const Trial& trial : s.trials) {
      const double us = std::min(trial.early_us, trial.plain_us);
      double& least = trial.configuration.ends_with("_all") ? of_all_rounds : others;
      least = std::min(least, us);
    }
    if (of_all_rounds >= others) continue;
    ++found;
    most = std::max(most, others / of_all_rounds - 1);
  }
  CHECK(shapes.size() == 768);
  CHECK(found == 11);
  CHECK(std::lround(100 * most) == 3);
}

// The numbers of docs/scheduling.md, "An early start".
TEST_CASE("trials: the rule of early starts is near the better of the two") {
  double by_rule = 0, early = 0, plain = 0;
  int trials = 0;
  for (const Shape& s : read_trials()) {
    const auto said = say_all(s);
    for (const Trial& trial : s.trials) {
      if (trial.early_us == NOT_TIMED || trial.plain_us == NOT_TIMED) continue;
      const double better = std::min(trial.early_us, trial.plain_us);
      const bool starts = said.find({trial.rung, trial.configuration})->second.early;
      by_rule += std::log((starts ? trial.early_us : trial.plain_us) / better);
      early += std::log(trial.early_us / better);
      plain += std::log(trial.plain_us / better);
      ++trials;
    }
  }
  REQUIRE(trials == 1898);
  CHECK(std::lround(1000 * by_rule / trials) == 5);
  CHECK(std::lround(1000 * early / trials) == 17);
  CHECK(std::lround(1000 * plain / trials) == 33);
}

namespace {

// Where griddepcontrol.launch_dependents stands, as the columns of docs/results/h200.dependents.csv.
enum Place { BEFORE_WAIT, BEHIND_WAIT, BEHIND_LAST_LOAD, NOWHERE, PLAIN, PLACES };

// Of a grid of whole tiles: CTAs, and places for them on an H200.
struct Grid {
  int ctas, places, on_sm, cluster;
};

template <class Table>
const auto& row_of(const Table& table, const std::string& name) {
  const auto found = std::find_if(std::begin(table), std::end(table),
                                  [&](const auto& row) { return row.name == name; });
  REQUIRE(found != std::end(table));
  return *found;
}

const tile::GemmConfig& tile_of(const std::string& name) {
  for (const tile::GemmConfig& config : NOT_IN_THE_TABLE) {
    if (name == config.name) return config;
  }
  return row_of(tile::CONFIGURATIONS, name);
}

Grid grid_of(int rung, const std::string& name, int m, int n) {
  if (rung == 11) {
    const tile::GemmConfig& row = tile_of(name);
    const int blocks =
        tile::ceil_div(m, row.bm() * row.cluster_m) * tile::ceil_div(n, row.bn * row.cluster_n);
    return {blocks * row.cluster(), resident(row.cluster()), 1, row.cluster()};
  }
  const tile::SharedK& row = row_of(tile::SHARED_K, name);
  const int tiles =
      tile::ceil_div(n, row.bm() * row.cluster_m) * tile::ceil_div(m, row.bn * row.cluster_n);
  if (row.share != tile::Share::none) return {};
  return {tiles * row.cluster(), resident(row.cluster()) * row.ctas, row.ctas, row.cluster()};
}

}  // namespace

// The table of docs/scheduling.md, "An early start".
TEST_CASE("trials: what an early start gains, by where dependents are allowed") {
  struct Kind {
    int on_sm, grids = 0;
    bool fits_twice;
    double sum[PLACES] = {};
    int hundredths[PLACES];
  };
  Kind kinds[] = {{.on_sm = 2, .fits_twice = true, .hundredths = {104, 89, 102, 99, 100}},
                  {.on_sm = 2, .fits_twice = false, .hundredths = {116, 116, 103, 99, 100}},
                  {.on_sm = 1, .fits_twice = true, .hundredths = {86, 86, 86, 99, 100}},
                  {.on_sm = 1, .fits_twice = false, .hundredths = {107, 107, 99, 99, 100}}};
  int named = 0;  // the page names one
  for (const std::vector<std::string>& cell : read_rows("h200.dependents.csv")) {
    REQUIRE(cell.size() == 5 + PLACES);
    if (cell[0] == "292" && cell[1] == "2936" && cell[3] == "11" && cell[4] == "128x128") {
      CHECK(std::lround(std::stod(cell[5 + PLAIN])) == 31);
      CHECK(std::lround(std::stod(cell[5 + BEFORE_WAIT])) == 55);
      CHECK(std::lround(std::stod(cell[5 + BEHIND_LAST_LOAD])) == 33);
      ++named;
    }
    const Grid grid = grid_of(std::stoi(cell[3]), cell[4], std::stoi(cell[0]), std::stoi(cell[1]));
    if (grid.ctas == 0 || grid.ctas > grid.places) continue;
    if (grid.cluster > 1 && grid.on_sm == 1) continue;
    for (Kind& kind : kinds) {
      if (kind.on_sm != grid.on_sm || kind.fits_twice != (2 * grid.ctas <= grid.places)) continue;
      ++kind.grids;
      for (int place = 0; place < PLACES; ++place) {
        kind.sum[place] += std::log(std::stod(cell[5 + place]) / std::stod(cell[5 + PLAIN]));
      }
    }
  }
  CHECK(named == 1);
  CHECK(kinds[0].grids == 35);
  CHECK(kinds[1].grids == 18);
  CHECK(kinds[2].grids == 14);
  CHECK(kinds[3].grids == 21);
  for (const Kind& kind : kinds) {
    CAPTURE(kind.on_sm);
    CAPTURE(kind.fits_twice);
    for (int place = 0; place < PLACES; ++place) {
      CAPTURE(place);
      CHECK(std::lround(100 * std::exp(kind.sum[place] / kind.grids)) == kind.hundredths[place]);
    }
  }
}

// The table of docs/scheduling.md, "Placement".
namespace {

enum Walk { ROW_BY_ROW, IN_CLUSTERS, TOO_WIDE, NOT_HIGHER };

// How the tiles of a call lie: row by row, or why not.
Walk walk_of(int rung, const std::string& name, int m, int n) {
  int rows = m, cols = n, height, width, clusters, cluster;  // of D or D^T; of a cluster's tiles
  if (rung == 11) {
    const tile::GemmConfig& row = tile_of(name);
    height = row.bm() * row.cluster_m, width = row.bn * row.cluster_n;
    cluster = row.cluster();
    clusters = resident(cluster) / cluster;
  } else {
    const tile::SharedK& row = row_of(tile::SHARED_K, name);
    std::swap(rows, cols);
    const int tiles = tile::ceil_div(m, row.bn * row.cluster_n) * row.cluster_n;
    height = row.bm() * row.cluster_m, width = tile::ceil_div(m, tiles) * row.cluster_n;
    cluster = row.cluster();
    clusters = resident(cluster) * row.ctas / cluster;
  }
  if (rows <= cols) return NOT_HIGHER;
  if (!tile::goes_row_by_row(height, width, clusters, rows, cols)) return TOO_WIDE;
  return cluster > 1 ? IN_CLUSTERS : ROW_BY_ROW;
}

// Of a file's calls of one kind: the time row by row over that in groups.
struct Walked {
  int calls = 0;
  double sum = 0, least = NOT_TIMED, most = 0;
};

// Of rungs 11 and 12 together, or of a later one, of which the file has only those row by row.
void check_walks(const std::string& file, int rung, Walk kind, int calls, int mean, int least,
                 int most) {
  Walked walked;
  for (const std::vector<std::string>& cell : read_rows(file)) {
    REQUIRE(cell.size() == 7);
    const int of = std::stoi(cell[3]);
    if (of > 12 ? of != rung : rung > 12) continue;
    if (of <= 12 && walk_of(of, cell[4], std::stoi(cell[0]), std::stoi(cell[1])) != kind) continue;
    const double ratio = std::stod(cell[6]) / std::stod(cell[5]);
    ++walked.calls;
    walked.sum += std::log(ratio);
    walked.least = std::min(walked.least, ratio);
    walked.most = std::max(walked.most, ratio);
  }
  CAPTURE(file);
  CAPTURE(rung);
  CAPTURE(int{kind});
  CHECK(walked.calls == calls);
  CHECK(std::lround(1000 * std::exp(walked.sum / walked.calls)) == mean);
  CHECK(std::lround(100 * walked.least) == least);
  CHECK(std::lround(100 * walked.most) == most);
}

}  // namespace

TEST_CASE("trials: what the order of tiles is worth, by which operand is the larger") {
  check_walks("h200.raster.csv", 11, ROW_BY_ROW, 222, 981, 72, 103);
  check_walks("h200.raster.csv", 11, IN_CLUSTERS, 28, 1000, 98, 102);
  check_walks("h200.raster.csv", 11, TOO_WIDE, 65, 1006, 96, 115);
  check_walks("h200.raster.csv", 11, NOT_HIGHER, 163, 1032, 99, 134);
  check_walks("h200.raster.csv", 14, ROW_BY_ROW, 7, 991, 98, 100);
  check_walks("h200.raster.csv", 15, ROW_BY_ROW, 11, 997, 99, 100);
  check_walks("h200.raster.csv", 17, ROW_BY_ROW, 9, 987, 92, 100);
  check_walks("h100.raster.csv", 11, ROW_BY_ROW, 223, 962, 79, 106);
}

// The table of docs/11_autotuned.md, "Boxes".
TEST_CASE("trials: what wide boxes are worth, by the boxes that a tile had") {
  enum Step { EQUAL, WIDE, UNWAITED, BEHIND_LAST_LOAD, STEPS };
  struct Kind {
    int box, rows = 0;
    double sum[STEPS] = {};
    int thousandths[STEPS];
  };
  Kind kinds[] = {{.box = 16, .thousandths = {1000, 975, 973, 965}},
                  {.box = 32, .thousandths = {1000, 989, 988, 983}},
                  {.box = 64, .thousandths = {1000, 1000, 997, 994}}};
  for (const std::vector<std::string>& cell : read_rows("h200.boxes.csv")) {
    REQUIRE(cell.size() == 4 + STEPS);
    const int box = std::gcd(tile_of(cell[3]).bn, 64);
    for (Kind& kind : kinds) {
      if (kind.box != box) continue;
      ++kind.rows;
      for (int step = 0; step < STEPS; ++step) {
        kind.sum[step] += std::log(std::stod(cell[4 + step]) / std::stod(cell[4 + EQUAL]));
      }
    }
  }
  CHECK(kinds[0].rows == 77);
  CHECK(kinds[1].rows == 58);
  CHECK(kinds[2].rows == 113);
  for (const Kind& kind : kinds) {
    CAPTURE(kind.box);
    for (int step = 0; step < STEPS; ++step) {
      CAPTURE(step);
      CHECK(std::lround(1000 * std::exp(kind.sum[step] / kind.rows)) == kind.thousandths[step]);
    }
  }
}

// The table of docs/tensor_maps.md, "Where rows begin".
TEST_CASE("trials: what a row of 128 bytes costs, by where rows begin") {
  struct Line {
    int k, us;
    double sm_requests, l2_requests, sectors;
    int bytes;
  };
  std::vector<Line> lines;
  std::map<std::string, std::map<int, int>> us;  // by configuration and K
  for (const std::vector<std::string>& cell : read_rows("h200.row_starts.csv")) {
    REQUIRE(cell.size() == 10);
    const int m = std::stoi(cell[0]), n = std::stoi(cell[1]), k = std::stoi(cell[2]);
    const int rounded = static_cast<int>(std::lround(std::stod(cell[5])));
    us[cell[4]][k] = rounded;
    if (cell[6].empty()) continue;
    CHECK(cell[4] == "128x64");
    const double rows = 1.0 * (m / 128) * (n / 64) * tile::ceil_div(k, 64) * (128 + 64);
    const auto of_row = [&](int i) { return std::stod(cell[i]) / rows; };
    lines.push_back({k, rounded, std::round(100 * of_row(6)) / 100,
                     std::round(100 * of_row(7)) / 100, std::round(10 * of_row(8)) / 10,
                     static_cast<int>(std::lround(of_row(9)))});
  }
  const Line SAID[] = {{4096, 128, 1.04, 0.64, 2.6, 128},
                       {4104, 236, 1.57, 2.57, 4.4, 144},
                       {4112, 173, 1.06, 1.55, 3.5, 128},
                       {4128, 167, 1.06, 1.31, 3.4, 128}};
  REQUIRE(lines.size() == std::size(SAID));
  for (size_t i = 0; i < lines.size(); ++i) {
    CAPTURE(lines[i].k);
    CHECK(lines[i].k == SAID[i].k);
    CHECK(lines[i].us == SAID[i].us);
    CHECK(lines[i].sm_requests == doctest::Approx(SAID[i].sm_requests));
    CHECK(lines[i].l2_requests == doctest::Approx(SAID[i].l2_requests));
    CHECK(lines[i].sectors == doctest::Approx(SAID[i].sectors));
    CHECK(lines[i].bytes == SAID[i].bytes);
  }
  CHECK(us["128x160"][16384] == 110);
  CHECK(us["128x160"][16400] == 114);
  CHECK(us["128x160"][16392] == 174);
  CHECK(us["256x192_1x2"][8192] == 116);
  CHECK(us["256x192_1x2"][8200] == 121);
}

// The numbers of docs/sums.md, "A second kernel".
TEST_CASE("trials: parts are added up sooner by a second kernel than by those who have them") {
  std::vector<double> longer, of_kernel, of_parts;  // us
  double log_ratios = 0;
  for (const std::vector<std::string>& cell : read_rows("h200.cut_endings.csv")) {
    REQUIRE(cell.size() == 9);
    CHECK(cell[3].ends_with("_cut"));
    of_kernel.push_back(std::stod(cell[6]) - std::stod(cell[7]));
    of_parts.push_back(std::stod(cell[7]) - std::stod(cell[8]));
    const double second_kernel = std::stod(cell[4]), themselves = std::stod(cell[5]);
    longer.push_back(themselves - second_kernel);
    log_ratios += std::log(themselves / second_kernel);
  }
  std::sort(longer.begin(), longer.end());
  REQUIRE(longer.size() == 91);
  CHECK(std::count_if(longer.begin(), longer.end(), [](double us) { return us > 0; }) == 83);
  CHECK(std::lround(10 * longer[longer.size() / 2]) == 13);
  std::sort(of_kernel.begin(), of_kernel.end());
  std::sort(of_parts.begin(), of_parts.end());
  CHECK(std::lround(10 * of_kernel[of_kernel.size() / 2]) == 27);
  CHECK(std::lround(10 * of_parts[of_parts.size() / 2]) == 13);
  CHECK(std::lround(100 * std::exp(log_ratios / longer.size())) == 109);
}

// The numbers of docs/cost_model.md, "The tiles of rung 16".
TEST_CASE("trials: the pick of rung 16, which knows no group's rows, is near the fastest tile") {
  struct Call {
    int groups, n, k;
    double rows;                       // as many as the host expects
    std::map<std::string, double> us;  // of tiles
  };
  std::map<std::pair<std::string, bool>, std::map<std::vector<std::string>, Call>> lists;
  for (const std::vector<std::string>& cell : read_rows("h200.grouped.csv")) {
    REQUIRE(cell.size() == 10);
    const bool scaled = cell[1] == "e4m3", masked = cell[7] == "masked";
    Call& call = lists[{cell[0], scaled}][{cell.begin() + 2, cell.begin() + 8}];
    const int groups = std::stoi(cell[5]);
    call.groups = groups;
    call.n = std::stoi(cell[3]);
    call.k = std::stoi(cell[4]);
    call.rows = std::stoi(cell[2]) * (masked ? 0.5 * groups : 1);
    call.us[cell[8]] = std::stod(cell[9]);
  }
  const auto check = [&](const char* list, bool scaled, size_t calls, int mean, int worst) {
    CAPTURE(list);
    CAPTURE(scaled);
    const Gpu gpu;
    Distance distance;
    CHECK(lists[{list, scaled}].size() == calls);
    for (const auto& [key, call] : lists[{list, scaled}]) {
      double least = NOT_TIMED, picked = NOT_TIMED, fastest = NOT_TIMED;
      for (const auto& [tile, us] : call.us) fastest = std::min(fastest, us);
      for (int row = 0; row < tile::grouped_configuration_count(scaled); ++row) {
        const tile::GemmConfig config = tile::grouped_configuration(scaled, row);
        const double clocks = tile::grouped_clocks(config, scaled, call.groups, call.rows, call.n,
                                                   call.k, gpu.sms, gpu);
        if (clocks >= least) continue;
        least = clocks;
        picked = call.us.at(config.name);
      }
      distance.add(picked, fastest);
    }
    CHECK(std::lround(1000 * distance.mean()) == mean);
    CHECK(std::lround(100 * distance.worst) == worst);
  };
  check("fit", false, 93, 24, 16);
  check("fit", true, 92, 21, 16);
  check("drawn", false, 56, 23, 22);
  check("drawn", true, 56, 14, 11);
}

// The numbers of docs/cost_model.md, "Rows that are not there".
TEST_CASE("trials: tiles that have as many rows each take less time") {
  std::map<std::string, std::vector<double>> logs;  // of before / after, by tile
  double most = 0;
  for (const std::vector<std::string>& cell : read_rows("h100.even_rows.csv")) {
    REQUIRE(cell.size() == 6);
    const auto is_tile = [&](const tile::GemmConfig& config) { return config.name == cell[3]; };
    const auto config = std::find_if(std::begin(tile::SCALED_CONFIGURATIONS),
                                     std::end(tile::SCALED_CONFIGURATIONS), is_tile);
    REQUIRE(config != std::end(tile::SCALED_CONFIGURATIONS));
    CHECK(tile::scaled_tile_rows(*config, std::stoi(cell[0])) < config->bm());
    const double ratio = std::stod(cell[4]) / std::stod(cell[5]);
    logs[cell[3]].push_back(std::log(ratio));
    most = std::max(most, ratio);
  }
  const auto mean_percent = [&](const char* tile, size_t shapes) {
    const std::vector<double>& all = logs[tile];
    CHECK(all.size() == shapes);
    return std::lround(100 * std::exp(std::accumulate(all.begin(), all.end(), 0.0) / shapes));
  };
  CHECK(mean_percent("128x128", 40) == 110);
  CHECK(mean_percent("128x160", 40) == 104);
  CHECK(mean_percent("192x128", 68) == 112);
  CHECK(std::lround(100 * most) == 156);
}

// The numbers of docs/cost_model.md, "Rung 14".
TEST_CASE("trials: the pick of rung 14 is near the fastest tile") {
  using Times = std::map<std::string, double>;  // us of tiles
  const Gpu h200, h100 = tile::gpu_of(132, 1980, 50 << 20, 3.35e12);
  double of_table = 0;  // over the fastest, where tiles that are not in the table were timed too
  int with_others = 0;
  const auto check = [&](const std::string& file, const Gpu& gpu, const std::string& list,
                         size_t shapes, int not_timed, int mean, int worst) {
    CAPTURE(file);
    CAPTURE(list);
    std::map<std::vector<int>, Times> all;
    for (const std::vector<std::string>& cell : read_rows(file)) {
      REQUIRE(cell.size() == 6);
      const std::vector<int> shape = {std::stoi(cell[1]), std::stoi(cell[2]), std::stoi(cell[3])};
      if (cell[0] == list) all[shape][cell[4]] = std::stod(cell[5]);
    }
    CHECK(all.size() == shapes);
    Distance distance;
    for (const auto& [shape, us] : all) {
      double least = NOT_TIMED, picked = NOT_TIMED, in_table = NOT_TIMED, fastest = NOT_TIMED;
      for (const auto& [tile, each] : us) fastest = std::min(fastest, each);
      for (const tile::GemmConfig& config : tile::SCALED_CONFIGURATIONS) {
        const double own = us.contains(config.name) ? us.at(config.name) : NOT_TIMED;
        in_table = std::min(in_table, own);
        const double clocks =
            tile::scaled_clocks(config, shape[0], shape[1], shape[2], gpu.sms, gpu);
        if (clocks >= least) continue;
        least = clocks;
        picked = own;
      }
      if (us.contains("64x64")) {  // not in the table
        of_table += in_table / fastest - 1;
        ++with_others;
      }
      distance.add_if_timed(picked, fastest);
    }
    CHECK(distance.not_timed == not_timed);
    CHECK(std::lround(1000 * distance.mean()) == mean);
    CHECK(std::lround(100 * distance.worst) == worst);
  };
  check("h200.scaled.csv", h200, "fit", 58, 0, 13, 11);
  check("h200.scaled.csv", h200, "drawn", 30, 0, 9, 4);
  check("h100.scaled.csv", h100, "fit", 157, 1, 6, 8);
  check("h100.scaled.csv", h100, "drawn", 60, 1, 10, 10);
  CHECK(with_others == 49);
  CHECK(std::lround(1000 * of_table / with_others) == 5);
}

// docs/14_block_scaled.md, "Consumers of s8 take turns" and "What was tried and did not help".
TEST_CASE("trials: turns and halves that rung 14 does not take") {
  using Key = std::vector<std::string>;
  // By how; by type, m, n, k, tile.
  using Times = std::map<std::string, std::map<Key, double>>;
  const auto read = [](const char* file) {
    Times us;
    for (const std::vector<std::string>& cell : read_rows(file)) {
      REQUIRE(cell.size() == 7);
      us[cell[0]][Key(cell.begin() + 1, cell.begin() + 6)] = std::stod(cell[6]);
    }
    return us;
  };
  const Times turns = read("h200.scaled_turns.csv"), halves = read("h200.scaled_halves.csv");
  // How many times as fast as it is: geometric mean over shapes, percent; of all tiles if `tile` is "".
  const auto check = [](const Times& us, const char* how, const char* type, const std::string& tile,
                        int shapes, long percent) {
    CAPTURE(how);
    CAPTURE(type);
    CAPTURE(tile);
    double logarithms = 0;
    int counted = 0;
    for (const auto& [key, each] : us.at(how)) {
      if (key[0] != type || (!tile.empty() && key[4] != tile)) continue;
      logarithms += std::log(us.at("as_it_is").at(key) / each);
      ++counted;
    }
    CHECK(counted == shapes);
    CHECK(std::lround(100 * std::exp(logarithms / counted)) == percent);
  };
  check(turns, "issued", "s8", "256x128", 4, 99);
  check(turns, "issued", "e4m3", "", 19, 99);
  check(turns, "issued", "e4m3", "192x128", 4, 102);
  check(turns, "two_done", "s8", "", 19, 98);
  check(turns, "three_done", "s8", "", 19, 100);
  check(turns, "all_done", "s8", "", 19, 88);
  check(turns, "all_done", "s8", "128x160", 4, 103);
  check(halves, "halves", "s8", "", 20, 87);
  check(halves, "halves", "e4m3", "", 20, 83);
}

namespace {

struct Run {
  double clocks, us;  // what a model expects, and what it took
};

Run pick_of(const std::vector<Run>& runs) {
  return *std::min_element(runs.begin(), runs.end(),
                           [](const Run& a, const Run& b) { return a.clocks < b.clocks; });
}

double fastest_of(const std::vector<Run>& runs) {
  return std::min_element(runs.begin(), runs.end(),
                          [](const Run& a, const Run& b) { return a.us < b.us; })
      ->us;
}

}  // namespace

// The numbers of docs/sharing_k.md, "Upright".
TEST_CASE("trials: cut tiles upright, beside those on their side") {
  using Key = std::tuple<int, int, int>;
  std::map<Key, std::vector<Run>> lying, upright;
  for (const std::vector<std::string>& cell : read_rows("h200.upright.csv")) {
    REQUIRE(cell.size() == 6);
    const Shape s = {"", std::stoi(cell[0]), std::stoi(cell[1]), std::stoi(cell[2]), {}};
    const Shape transposed = {"", s.n, s.m, s.k, {}};
    double clocks = 0;
    if (cell[4].ends_with("_up_cut")) {
      clocks = say(row_of(tile::UPRIGHT, cell[4]), transposed, H200).clocks;
    } else if (cell[3] == "12") {
      clocks = say(row_of(tile::SHARED_K, cell[4]), s, H200).clocks;
    } else {
      clocks = say(tile_of(cell[4]), s, H200).clocks;
    }
    auto& of_shape = cell[4].ends_with("_up_cut") ? upright : lying;
    of_shape[{s.m, s.n, s.k}].push_back({clocks, std::stod(cell[5])});
  }
  // Without over with upright tiles, of the picks and of the fastest: geometric means and the ends, in
  // thousandths; and at how many shapes the pick is upright, and the fastest.
  const auto check = [&](bool on_lines, int shapes, long picks, long best, long least, long most,
                         int picked, int won) {
    CAPTURE(on_lines);
    double of_picks = 0, of_best = 0, worst = 9, top = 0;
    int count = 0, up = 0, faster = 0;
    Key worst_at;
    for (const auto& [key, without] : lying) {
      if ((std::get<2>(key) % 64 == 0) != on_lines) continue;
      const Run a = pick_of(without), b = pick_of(upright.at(key));
      const double ratio = b.clocks < a.clocks ? a.us / b.us : 1;
      const double of_fastest = fastest_of(without) / fastest_of(upright.at(key));
      up += b.clocks < a.clocks;
      faster += of_fastest > 1;
      of_picks += std::log(ratio);
      of_best += std::log(std::max(1.0, of_fastest));
      if (ratio < worst) worst_at = key;
      worst = std::min(worst, ratio);
      top = std::max(top, ratio);
      ++count;
    }
    CHECK(count == shapes);
    CHECK(std::lround(1000 * std::exp(of_picks / count)) == picks);
    CHECK(std::lround(1000 * std::exp(of_best / count)) == best);
    CHECK(std::lround(1000 * worst) == least);
    if (on_lines) CHECK(worst_at == Key{227, 304, 114752});
    CHECK(std::lround(1000 * top) == most);
    CHECK(up == picked);
    CHECK(faster == won);
  };
  check(true, 67, 1005, 1013, 862, 1177, 32, 30);
  check(false, 31, 1046, 1049, 928, 1561, 17, 18);
  // What is expected over what it took: geometric mean and standard deviation, in percent.
  const auto check_expected = [](const auto& times, long mean, long spread) {
    double sum = 0, squares = 0;
    int count = 0;
    for (const auto& [key, of_shape] : times) {
      for (const Run& each : of_shape) {
        const double off = std::log(each.clocks / H200.gpu.mhz / each.us);
        sum += off, squares += off * off, ++count;
      }
    }
    CHECK(std::lround(100 * std::exp(sum / count)) == mean);
    CHECK(std::lround(100 * std::sqrt(squares / count - sum * sum / count / count)) == spread);
  };
  check_expected(lying, 99, 9);
  check_expected(upright, 98, 7);
}

// The numbers of docs/sharing_k.md, "Upright", of tiles that were tried.
TEST_CASE("trials: more tiles whose CTAs lie one above the other") {
  std::map<std::tuple<int, int, int>, std::map<std::string, double>> fastest;  // by how
  std::set<std::string> tried;
  for (const std::vector<std::string>& cell : read_rows("h200.columns.csv")) {
    REQUIRE(cell.size() == 7);
    if (cell[3] == "tried") tried.insert(cell[5]);
    double& us = fastest[{std::stoi(cell[0]), std::stoi(cell[1]), std::stoi(cell[2])}]
                     .insert({cell[3], NOT_TIMED})
                     .first->second;
    us = std::min(us, std::stod(cell[6]));
  }
  double gain = 0, most = 0;
  int won = 0;
  for (auto& [shape, us] : fastest) {
    const double ratio = us.contains("tried") ? us["table"] / us["tried"] : 0;
    won += ratio > 1;
    gain += std::log(std::max(1.0, ratio));
    most = std::max(most, ratio);
  }
  CHECK(fastest.size() == 66);
  CHECK(tried.size() == 21);
  CHECK(won == 7);
  CHECK(std::lround(1000 * std::exp(gain / fastest.size())) == 1005);
  CHECK(std::lround(100 * most) == 112);
}

// The numbers of docs/16_grouped.md, "Measured".
TEST_CASE("trials: walks of rung 16 from both ends of its list") {
  using Key = std::vector<std::string>;
  std::map<std::string, std::map<Key, double>> us;  // by how; by type, m, n, k, ... and tile
  for (const std::vector<std::string>& cell : read_rows("h200.grouped_walks.csv")) {
    REQUIRE(cell.size() == 10);
    us[cell[0]][Key(cell.begin() + 1, cell.begin() + 9)] = std::stod(cell[9]);
  }
  // How many times as fast as it is: geometric mean, percent. e4m3's 128x192, which loses most, is
  // counted apart: `rows` is its name then.
  const auto check = [&](const char* how, const std::string& rows, int rows_of_list, long percent) {
    CAPTURE(how);
    CAPTURE(rows);
    double logarithms = 0;
    int counted = 0;
    for (const auto& [key, each] : us.at(how)) {
      if ((key[0] == "e4m3" && key[7] == "128x192" ? key[7] : key[5]) != rows) continue;
      logarithms += std::log(us.at("as_it_is").at(key) / each);
      ++counted;
    }
    CHECK(counted == rows_of_list);
    CHECK(std::lround(100 * std::exp(logarithms / counted)) == percent);
  };
  check("both_ends", "equal", 28, 99);
  check("both_ends", "unequal", 49, 99);
  check("by_rows", "equal", 28, 98);
  check("by_rows", "unequal", 49, 99);
  check("both_ends", "128x192", 11, 92);
  check("by_rows", "128x192", 11, 91);
}

// The numbers of docs/cost_model.md, "Rung 15".
TEST_CASE("trials: the pick of rung 15 is near the fastest tile") {
  const auto check = [&](const char* file, const Gpu& gpu, const std::string& list, size_t calls,
                         int not_timed, int mean, int worst) {
    CAPTURE(file);
    CAPTURE(list);
    std::map<std::vector<int>, std::map<std::string, double>> timed;  // by bits, m, n, k; by tile
    std::set<std::string> tiles;  // that the list knows: others came later, or are for other calls
    for (const std::vector<std::string>& cell : read_rows(file)) {
      REQUIRE(cell.size() == 7);
      if (cell[0] != list) continue;
      tiles.insert(cell[5]);
      timed[{std::stoi(cell[1]), std::stoi(cell[2]), std::stoi(cell[3]), std::stoi(cell[4])}]
           [cell[5]] = std::stod(cell[6]);
    }
    CHECK(timed.size() == calls);
    Distance distance;
    for (const auto& [call, us] : timed) {
      double least = NOT_TIMED, picked = NOT_TIMED, fastest = NOT_TIMED;
      for (const auto& [tile, each] : us) fastest = std::min(fastest, each);
      for (const tile::MixedTile& config : tile::MIXED_TILES) {
        const std::string name = std::string(config.name_8).substr(3);
        if (!tiles.contains(name)) continue;
        const int at_once = resident(config.split) / config.split * config.ctas;
        const double clocks =
            tile::predicted_clocks(config, call[0], call[1], call[2], call[3], at_once, gpu);
        if (clocks >= least) continue;
        least = clocks;
        picked = us.contains(name) ? us.at(name) : NOT_TIMED;
      }
      distance.add_if_timed(picked, fastest);
    }
    CHECK(distance.not_timed == not_timed);
    CHECK(std::lround(1000 * distance.mean()) == mean);
    CHECK(std::lround(100 * distance.worst) == worst);
  };
  const Gpu h200 = tile::gpu_of(132, 1980, 60 << 20, 4.917e12);
  const Gpu h100 = tile::gpu_of(132, 1980, 50 << 20, 3.35e12);
  check("h200.mixed.csv", h200, "fit", 206, 0, 8, 16);
  check("h200.mixed.csv", h200, "drawn", 60, 0, 13, 11);
  check("h200.mixed.csv", h200, "widths", 100, 0, 2, 5);
  check("h200.mixed.csv", h200, "narrower", 72, 0, 8, 12);
  check("h200.mixed.csv", h200, "shared", 80, 0, 5, 10);
  check("h100.mixed.csv", h100, "fit", 206, 0, 10, 16);
  check("h100.mixed.csv", h100, "drawn", 60, 0, 13, 14);
  check("h100.mixed.csv", h100, "later", 200, 0, 8, 12);
  check("h100.mixed.csv", h100, "widths", 100, 0, 3, 7);
  // Of tiles that take turns, and since they do: what is expected over what it took, in thousandths.
  double expected = 0;
  int turning = 0;
  for (const std::vector<std::string>& cell : read_rows("h200.mixed.csv")) {
    for (const tile::MixedTile& config : tile::MIXED_TILES) {
      if (std::string(config.name_8).substr(3) != cell[5] || !config.turns()) continue;
      const double clocks = tile::predicted_clocks(
          config, std::stoi(cell[1]), std::stoi(cell[2]), std::stoi(cell[3]), std::stoi(cell[4]),
          resident(config.split) / config.split * config.ctas, h200);
      expected += std::log(clocks / h200.mhz / std::stod(cell[6]));
      ++turning;
    }
  }
  CHECK(turning == 2397);
  CHECK(std::lround(1000 * std::exp(expected / turning)) == 995);
  // What widths that came later bring: the fastest tile without them over the fastest, in thousandths.
  const auto check_gain = [&](const char* file, const std::string& list, int bits,
                              const std::set<std::string>& later, int most_rows, size_t calls,
                              long gain, long most) {
    CAPTURE(file);
    CAPTURE(list);
    CAPTURE(bits);
    std::map<std::vector<std::string>, std::array<double, 2>> fastest;  // without, with
    for (const std::vector<std::string>& cell : read_rows(file)) {
      if (cell[0] != list || std::stoi(cell[1]) != bits || std::stoi(cell[2]) > most_rows) continue;
      const auto key = std::vector(cell.begin() + 1, cell.begin() + 5);
      auto& [without, with] =
          fastest.try_emplace(key, std::array{NOT_TIMED, NOT_TIMED}).first->second;
      with = std::min(with, std::stod(cell[6]));
      if (!later.contains(cell[5])) without = std::min(without, std::stod(cell[6]));
    }
    CHECK(fastest.size() == calls);
    double logarithms = 0, largest = 0;
    for (const auto& [call, us] : fastest) {
      logarithms += std::log(us[0] / us[1]);
      largest = std::max(largest, us[0] / us[1]);
    }
    CHECK(std::lround(1000 * std::exp(logarithms / calls)) == gain);
    CHECK(std::lround(1000 * largest) == most);
  };
  const std::set<std::string> wide = {"128x80", "128x96", "128x112", "128x144"};
  const std::set<std::string> of_48 = {"64x48_s2", "64x48_s2_k2", "128x48", "128x48_k2"};
  check_gain("h200.mixed.csv", "widths", 8, wide, 2500, 50, 1049, 1240);
  check_gain("h200.mixed.csv", "widths", 4, wide, 2500, 50, 1060, 1293);
  check_gain("h100.mixed.csv", "widths", 8, wide, 2500, 50, 1056, 1312);
  check_gain("h100.mixed.csv", "widths", 4, wide, 2500, 50, 1066, 1297);
  check_gain("h200.mixed.csv", "narrower", 8, of_48, 48, 23, 1083, 1204);
  check_gain("h200.mixed.csv", "narrower", 4, of_48, 48, 23, 1165, 1213);
  const std::set<std::string> shared = {"128x80_k2", "128x96_k2", "128x96_k4", "128x112_k2"};
  check_gain("h200.mixed.csv", "shared", 8, shared, 448, 40, 1057, 1285);
  check_gain("h200.mixed.csv", "shared", 4, shared, 448, 40, 1061, 1400);
  // docs/sums.md, "Tile after tile": of an H200, the split tile and the fastest of the others.
  const auto check_split = [](const std::vector<std::string>& call, const char* split,
                              double split_us, double whole_us) {
    double of_split = NOT_TIMED, whole = NOT_TIMED;
    for (const std::vector<std::string>& cell : read_rows("h200.mixed.csv")) {
      if (std::vector<std::string>(cell.begin() + 1, cell.begin() + 5) != call) continue;
      const double us = std::stod(cell[6]);
      if (cell[5] == split) of_split = us;
      if (cell[5].find("_k") == std::string::npos) whole = std::min(whole, us);
    }
    CHECK(std::lround(10 * of_split) == std::lround(10 * split_us));
    CHECK(std::lround(10 * whole) == std::lround(10 * whole_us));
  };
  check_split({"4", "32", "10240", "8192"}, "64x32_s2_k2", 19.4, 22.4);
  check_split({"8", "1", "28672", "8192"}, "64x8_s4_k2", 56.3, 58.8);
}

// docs/15_mixed_input.md, "Two warpgroups take turns" and "Many tokens".
TEST_CASE("trials: what turns of two warpgroups bring in rung 15") {
  using Key = std::vector<std::string>;
  std::map<std::string, std::map<Key, double>> us;  // by run and how; by bits, m, n, k, tile
  for (const std::vector<std::string>& cell : read_rows("h200.turns.csv")) {
    REQUIRE(cell.size() == 8);
    us[cell[0] + cell[1]][Key(cell.begin() + 2, cell.begin() + 7)] = std::stod(cell[7]);
  }
  // Of tiles of so many columns, how many times as long without as with: mean and most, percent.
  const auto check = [&](const char* without, const char* with, const char* bits, int least_columns,
                         int most_columns, size_t calls, long mean, long most) {
    CAPTURE(with);
    CAPTURE(bits);
    double logarithms = 0, largest = 0;
    size_t counted = 0;
    for (const auto& [call, each] : us.at(with)) {
      const int columns = std::stoi(call[4].substr(call[4].find('x') + 1));
      if (call[0] != bits || columns < least_columns || columns > most_columns) continue;
      const double ratio = us.at(without).at(call) / each;
      logarithms += std::log(ratio);
      largest = std::max(largest, ratio);
      ++counted;
    }
    CHECK(counted == calls);
    CHECK(std::lround(100 * std::exp(logarithms / counted)) == mean);
    CHECK(std::lround(100 * largest) == most);
  };
  check("2none", "2four_half", "8", 80, 176, 36, 106, 111);
  check("2none", "2four_half", "4", 80, 176, 36, 104, 111);
  check("2none", "2four_whole", "8", 80, 176, 36, 105, 109);
  check("2none", "2four_whole", "4", 80, 176, 36, 103, 109);
  check("1none", "1two_half", "8", 80, 176, 34, 103, 106);
  check("1none", "1two_half", "4", 80, 176, 34, 102, 106);
  check("1none", "1two_once", "8", 80, 176, 34, 102, 104);
  check("1none", "1two_once", "4", 80, 176, 34, 99, 102);
  check("1none", "1two_half", "4", 64, 64, 7, 96, 96);
  check("3load_before", "3load_in_turn", "8", 160, 160, 4, 106, 106);
  check("3load_before", "3load_in_turn", "8", 80, 176, 28, 101, 106);
}

// docs/15_mixed_input.md, "What it brought".
TEST_CASE("trials: clocks that tiles of rung 15 take for 128 of K") {
  std::map<std::vector<std::string>, std::map<int, double>> clocks;  // by how, bits, tile; by k
  for (const std::vector<std::string>& cell : read_rows("h200.mixed_clocks.csv")) {
    REQUIRE(cell.size() == 8);
    clocks[{cell[0], cell[1], cell[5]}][std::stoi(cell[4])] =
        std::stod(cell[6]) * std::stod(cell[7]);
  }
  const auto check = [&](const char* bits, const char* tile, int exponent, int subnormal,
                         int two_blocks, int turns) {
    CAPTURE(bits);
    CAPTURE(tile);
    const auto of = [&](const char* how) {
      const std::map<int, double>& by_k = clocks.at({how, bits, tile});
      return std::lround((by_k.at(32768) - by_k.at(8192)) / (32768 - 8192) * 128);
    };
    CHECK(of("exponent") == exponent);
    CHECK(of("subnormal") == subnormal);
    if (two_blocks > 0) CHECK(of("two_blocks") == two_blocks);
    if (turns > 0) CHECK(of("turns") == turns);
  };
  check("8", "64x64_s2", 502, 391, 0, 0);
  check("8", "128x128", 1279, 1146, 0, 1071);
  check("8", "128x176", 1603, 1539, 0, 1418);
  check("4", "128x16_x2", 548, 514, 456, 0);
  check("4", "64x64_s2", 418, 383, 0, 0);
  check("4", "128x176", 1544, 1595, 0, 1411);
}

// docs/scheduling.md, "How high a sweep?".
TEST_CASE("trials: a sweep as high as L2 allows") {
  const Gpu h100 = tile::gpu_of(132, 1980, 50 << 20, 3.35e12);
  using Call = std::tuple<int, int, int, int, std::string>;  // m, n, k, rung, tile
  std::map<Call, std::map<int, double>> tflops;              // by rows of tiles
  int counted = 0;
  // The table: columns of D, rows of tiles, megabytes of DRAM, TFLOPS, thousandths of the tensor
  // cores' time, MHz.
  std::set<std::vector<int>> shown = {
      {24576, 4, 618, 749, 956, 1449},  {24576, 8, 315, 788, 967, 1509},
      {24576, 16, 164, 801, 968, 1532}, {24576, 32, 99, 809, 968, 1546},
      {8192, 4, 2496, 780, 966, 1493},  {8192, 8, 1609, 802, 968, 1533},
      {8192, 12, 1477, 803, 968, 1534}, {8192, 16, 1453, 789, 959, 1520},
      {8192, 32, 2850, 724, 897, 1493}};
  for (const std::vector<std::string>& cell : read_rows("h100.sweeps.csv")) {
    REQUIRE(cell.size() == 11);
    if (!cell[10].empty()) {
      // 788.5 is shown as 788.
      shown.erase({std::stoi(cell[1]), std::stoi(cell[5]), std::stoi(cell[10]),
                   static_cast<int>(std::nearbyint(std::stod(cell[6]))),
                   static_cast<int>(std::lround(1000 * std::stod(cell[8]))), std::stoi(cell[9])});
    }
    const int m = std::stoi(cell[0]), n = std::stoi(cell[1]), k = std::stoi(cell[2]);
    const int high = std::stoi(cell[5]);
    if (cell[7].empty()) {
      tflops[{m, n, k, std::stoi(cell[3]), cell[4]}][high] = std::stod(cell[6]);
    } else if (n == 24576 && !cell[10].empty()) {  // B once a sweep, and A once
      const double sweeps = tile::ceil_div(tile::ceil_div(m, 128), high);
      const double megabytes = 2e-6 * k * (sweeps * n + m);
      CHECK(std::stod(cell[10]) > 0.99 * megabytes);
      CHECK(std::stod(cell[10]) < 1.13 * megabytes);
      ++counted;
    }
  }
  CHECK(counted == 5);
  CHECK(shown.empty());
  const auto nearest = [](const std::map<int, double>& timed, int high) {
    return std::min_element(timed.begin(), timed.end(),
                            [&](const auto& a, const auto& b) {
                              const auto far = [&](int rows) {
                                return std::abs(std::log(1.0 * rows / high));
                              };
                              return far(a.first) < far(b.first);
                            })
        ->second;
  };
  int changed = 0;
  double gain = 0, least = NOT_TIMED, most = 0, behind = 0;
  for (const auto& [call, timed] : tflops) {
    const auto& [m, n, k, rung, name] = call;
    const tile::GemmConfig& config =
        rung == 10 ? tile::PINGPONG[0]
        : rung == 14
            ? *std::find_if(std::begin(tile::SCALED_CONFIGURATIONS),
                            std::end(tile::SCALED_CONFIGURATIONS),
                            [](const auto& row) { return row.name == std::string("256x128"); })
            : tile_of(name);
    const int square = tile::raster_group(config.bm(), config.bn, 132);
    const int high =
        tile::raster_group(config.bm(), config.bn, 132, m, n, (rung == 14 ? 1LL : 2LL) * k, h100);
    const double best =
        std::max_element(timed.begin(), timed.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;
        })->second;
    const double ratio = nearest(timed, high) / nearest(timed, square);
    behind += std::log(best / nearest(timed, high));
    if (ratio == 1) continue;
    ++changed;
    gain += std::log(ratio);
    least = std::min(least, ratio);
    most = std::max(most, ratio);
  }
  CHECK(tflops.size() == 44);
  CHECK(changed == 24);
  CHECK(std::lround(1000 * std::exp(gain / changed)) == 1016);
  CHECK(std::lround(1000 * least) == 992);
  CHECK(std::lround(1000 * most) == 1069);
  CHECK(std::lround(1000 * behind / 44) == 3);
}

// A row of rung 11's tables, or nullptr.
const tile::GemmConfig* in_table(const std::string& name) {
  for (const tile::GemmConfig& config : tile::CONFIGURATIONS) {
    if (name == config.name) return &config;
  }
  for (const tile::GemmConfig& config : tile::LATER) {
    if (name == config.name) return &config;
  }
  return nullptr;
}

// At the shapes of a file, what an H100 takes by what the model picks, with some tiles and without.
// left_out: as if the table did not have these.
struct Picks {
  int shapes = 0, picked = 0;    // picked: one of those tiles
  double with = 0, without = 0;  // logarithms of how much slower than the fastest, summed up
  std::map<std::tuple<int, int, int>, std::pair<double, double>> us;  // without and with
};
template <class Is>
Picks picks_of(const std::string& file, Is is_one,
               bool (*left_out)(int, const std::string&) = nullptr) {
  struct Timed {
    bool is_one;
    double us, clocks;
  };
  std::map<std::tuple<int, int, int>, std::vector<Timed>> calls;
  for (const std::vector<std::string>& cell : read_rows(file)) {
    REQUIRE(cell.size() == 6);
    const Shape s = {"", std::stoi(cell[0]), std::stoi(cell[1]), std::stoi(cell[2]), {}};
    const int rung = std::stoi(cell[3]);
    if (left_out && left_out(rung, cell[4])) continue;
    double clocks = NOT_TIMED;
    if (rung == 12) {
      clocks = say(row_of(tile::SHARED_K, cell[4]), s, H100).clocks;
    } else if (rung == 11) {
      const tile::GemmConfig* config = in_table(cell[4]);
      if (config == nullptr) continue;  // a candidate
      clocks = say(*config, s, H100).clocks;
    } else {
      clocks = say(row_of(tile::PINGPONG, cell[4]), s, H100).clocks;
    }
    calls[{s.m, s.n, s.k}].push_back({is_one(rung, cell[4]), std::stod(cell[5]), clocks});
  }
  Picks picks;
  for (const auto& [shape, timed] : calls) {
    const auto pick = [&](bool all) {
      return *std::min_element(timed.begin(), timed.end(), [&](const Timed& a, const Timed& b) {
        const auto of = [&](const Timed& t) { return t.is_one && !all ? NOT_TIMED : t.clocks; };
        return of(a) < of(b);
      });
    };
    const auto faster = [](const Timed& a, const Timed& b) { return a.us < b.us; };
    const double best = std::min_element(timed.begin(), timed.end(), faster)->us;
    picks.with += std::log(pick(true).us / best);
    picks.without += std::log(pick(false).us / best);
    picks.picked += pick(true).is_one;
    picks.us[shape] = {pick(false).us, pick(true).us};
    ++picks.shapes;
  }
  return picks;
}

// docs/cost_model.md, "What else a tile takes": what stage 0 picks with rung 10, and would without.
TEST_CASE("trials: tiles that take turns are picked where they are the fastest") {
  const Picks picks =
      picks_of("h100.pingpong.csv", [](int rung, const std::string&) { return rung == 10; });
  CHECK(picks.shapes == 134);
  CHECK(std::lround(1000 * picks.without / picks.shapes) == 13);
  CHECK(std::lround(1000 * picks.with / picks.shapes) == 9);
  CHECK(picks.picked == 18);
}

// docs/10_pingpong.md, "On its side".
TEST_CASE("trials: tiles on their side are picked where they are the fastest") {
  const Picks picks = picks_of("h100.sideways.csv", [](int, const std::string& configuration) {
    return configuration.ends_with("_side");
  });
  CHECK(picks.shapes == 107);
  CHECK(std::lround(10000 * (picks.without - picks.with) / picks.shapes) == 39);
  CHECK(picks.picked == 16);
  using Us = std::pair<double, double>;
  CHECK(picks.us.at({351, 64256, 2816}) == Us{196.1, 185.0});
  CHECK(picks.us.at({14656, 512, 1024}) == Us{28.42, 25.46});
  CHECK(picks.us.at({14592, 768, 2176}) == Us{71.4, 65.47});
  CHECK(picks.us.at({11648, 2432, 384}) == Us{37.66, 34.43});
  CHECK(picks.us.at({1664, 1536, 832}) == Us{8.935, 9.292});
}

// docs/more_tiles.md, "On their side", and docs/tile_tables.md, "Tiles that came later".
TEST_CASE("trials: tiles whose results leave box by box are picked where they are the fastest") {
  const Picks picks = picks_of("h100.box_by_box.csv", [](int rung, const std::string& name) {
    return rung == 11 && in_table(name)->box_by_box();
  });
  CHECK(picks.shapes == 121);
  CHECK(picks.picked == 39);
  CHECK(std::lround(1000 * picks.without / picks.shapes) == 18);
  CHECK(std::lround(1000 * picks.with / picks.shapes) == 8);
  double gain = 0, least = 0, most = 0;  // logarithms
  for (const auto& [shape, us] : picks.us) {
    const double one = std::log(us.first / us.second);
    gain += one, least = std::min(least, one), most = std::max(most, one);
  }
  CHECK(std::lround(1000 * gain / picks.picked) == 29);
  CHECK(std::lround(1000 * least) == -26);
  CHECK(std::lround(1000 * most) == 122);
  using Us = std::pair<double, double>;
  CHECK(picks.us.at({1920, 2880, 4032}) == Us{62.21, 57.6});
  CHECK(picks.us.at({2368, 2432, 3584}) == Us{59.09, 54.61});
  CHECK(picks.us.at({170, 25600, 8832}) == Us{179, 163.3});
  CHECK(picks.us.at({6208, 832, 8512}) == Us{118.2, 111.6});
  CHECK(picks.us.at({2048, 14336, 4096}) == Us{294.1, 301.8});
}

// How many calls of a file take a tile, by its name, and thousandths of the time that they take without
// it, as a geometric mean. "": all.
std::map<std::string, std::pair<int, long>> with_over_without(const std::string& file) {
  std::map<std::string, std::pair<int, double>> logarithms;
  for (const std::vector<std::string>& cell : read_rows(file)) {
    REQUIRE(cell.size() == 8);
    for (const std::string& name : {cell[6], std::string()}) {
      auto& [calls, sum] = logarithms[name];
      ++calls;
      sum += std::log(std::stod(cell[7]) / std::stod(cell[5]));
    }
  }
  std::map<std::string, std::pair<int, long>> with;
  for (const auto& [name, of] : logarithms) {
    with[name] = {of.first, std::lround(1000 * std::exp(of.second / of.first))};
  }
  return with;
}

// docs/tile_tables.md, "Tiles that came later".
TEST_CASE("trials: two later tiles in clusters are picked where they are the fastest") {
  const Picks picks = picks_of("h100.later_clusters.csv", [](int rung, const std::string& name) {
    return rung == 11 && (name == "128x208_2x2" || name == "128x144_2x4");
  });
  CHECK(picks.shapes == 72);
  CHECK(picks.picked == 13);
  CHECK(std::lround(1000 * picks.without / picks.shapes) == 17);
  CHECK(std::lround(1000 * picks.with / picks.shapes) == 11);
  const auto with = with_over_without("h100.later_clusters_after.csv");
  CHECK(with.at("128x208_2x2") == std::pair(22, 982L));
  CHECK(with.at("128x144_2x4") == std::pair(42, 969L));
  CHECK(with.at("128x256_2x2") == std::pair(26, 1028L));
}

// Of rung 11's tiles on their side in clusters the seven that came last.
bool is_smaller_sideways(int rung, const std::string& name) {
  constexpr const char* SEVEN[] = {"64x96_side_4x2",   "128x96_side_4x2",  "128x112_side_2x4",
                                   "128x144_side_2x2", "128x144_side_2x4", "128x160_side_2x4",
                                   "128x160_side_4x2"};
  return rung == 11 && std::find(std::begin(SEVEN), std::end(SEVEN), name) != std::end(SEVEN);
}

// The same. What some of the seven take was timed there as well.
TEST_CASE("trials: tiles on their side in clusters are picked where they are the fastest") {
  const Picks picks = picks_of(
      "h100.sideways_clusters.csv",
      [](int rung, const std::string& name) {
        return rung == 11 && name.find("_side_") != std::string::npos;
      },
      is_smaller_sideways);
  CHECK(picks.shapes == 110);
  CHECK(picks.picked == 30);
  CHECK(std::lround(1000 * picks.without / picks.shapes) == 26);
  CHECK(std::lround(1000 * picks.with / picks.shapes) == 6);
  CHECK(picks.us.at({4956, 4192, 1224}) == std::pair(89.34, 75.81));
  const auto with = with_over_without("h100.sideways_clusters_after.csv");
  CHECK(with.at("") == std::pair(52, 962L));
  CHECK(with.at("128x176_side_2x2") == std::pair(3, 990L));
  CHECK(with.at("128x176_side_2x4") == std::pair(2, 959L));
  CHECK(with.at("128x208_side_2x2") == std::pair(8, 950L));
  CHECK(with.at("128x240_side_2x2") == std::pair(4, 959L));
  CHECK(with.at("192x160_side_2x2") == std::pair(9, 949L));
  CHECK(with.at("192x176_side_2x2") == std::pair(8, 983L));
  CHECK(with.at("192x208_side_2x1") == std::pair(8, 972L));
  CHECK(with.at("256x160_side_1x2") == std::pair(10, 951L));
}

// docs/tile_tables.md, "Tiles that came later".
TEST_CASE("trials: smaller tiles on their side in clusters are picked where they are the fastest") {
  const Picks picks = picks_of("h100.smaller_sideways.csv", is_smaller_sideways);
  CHECK(picks.shapes == 120);
  CHECK(picks.picked == 51);
  CHECK(std::lround(1000 * picks.without / picks.shapes) == 30);
  CHECK(std::lround(1000 * picks.with / picks.shapes) == 11);
  const auto with = with_over_without("h100.smaller_sideways_after.csv");
  CHECK(with.at("") == std::pair(64, 949L));
  CHECK(with.size() == 8);
  for (const auto& [name, of] : with) CHECK(of.second < 1000);
  for (const std::vector<std::string>& cell : read_rows("h100.smaller_sideways_after.csv")) {
    if (cell[0] != "779" || cell[1] != "1304" || cell[2] != "2648") continue;
    CHECK(cell[4] == "128x112_2x2");
    CHECK(cell[5] == "19.34");
    CHECK(cell[6] == "128x112_side_2x4");
    CHECK(cell[7] == "14.55");
  }
  CHECK(779 - 3 * 256 == 11);  // rows of the last blocks
}

// docs/cost_model.md, "Rows outside of the matrix".
TEST_CASE("trials: the pick on an H100 at fresh shapes whose rows begin between lines") {
  const Picks picks =
      picks_of("h100.between_lines.csv", [](int, const std::string&) { return false; });
  CHECK(picks.shapes == 90);
  CHECK(std::lround(1000 * picks.with / picks.shapes) == 19);
}

// docs/cost_model.md, "The bytes of DRAM": picks that changed when `again` did, at shapes that were
// in no fit.
TEST_CASE("trials: a smaller share that L2 passes on chooses faster tiles") {
  double sum = 0, of_projections = 0, worst = 0;  // logarithms of before / now
  int shapes = 0, projections = 0;
  for (const std::vector<std::string>& cell : read_rows("h100.again.csv")) {
    REQUIRE(cell.size() == 10);
    const double gain = std::log(std::stod(cell[6]) / std::stod(cell[9]));
    sum += gain;
    worst = std::min(worst, gain);
    ++shapes;
    if (cell[0] != "projection") continue;
    of_projections += gain;
    ++projections;
  }
  CHECK(shapes == 60);
  CHECK(std::lround(1000 * std::exp(sum / shapes)) == 1033);
  CHECK(projections == 10);
  CHECK(std::lround(100 * std::exp(of_projections / projections)) == 111);
  CHECK(std::lround(100 * std::exp(worst)) == 84);
}

// docs/cost_model.md, "The bytes of DRAM": what DRAM reads, and what goes from one half of L2 to
// the other.
TEST_CASE("trials: DRAM reads what few tiles ask for once, and halves of L2 pass it on") {
  double least_read = 10, most_read = 0, least_passed = 10, most_passed = 0;  // of A and B
  int launches = 0;
  for (const std::vector<std::string>& cell : read_rows("h100.reads.csv")) {
    REQUIRE(cell.size() == 10);
    if (std::stoi(cell[0]) >= 1000) continue;
    const double operands = std::stod(cell[5]);
    const double read = std::stod(cell[6]) / operands, passed = std::stod(cell[8]) / operands;
    least_read = std::min(least_read, read);
    most_read = std::max(most_read, read);
    least_passed = std::min(least_passed, passed);
    most_passed = std::max(most_passed, passed);
    ++launches;
  }
  CHECK(launches == 17);
  CHECK(std::lround(100 * least_read) == 100);
  CHECK(std::lround(100 * most_read) == 102);
  CHECK(std::lround(100 * least_passed) == 79);
  CHECK(std::lround(100 * most_passed) == 106);
}

// docs/pipelines.md, "A ring can be too deep".
TEST_CASE("trials: rings of rung 12 with fewer slots than there is room for") {
  std::map<std::pair<std::string, std::string>, std::map<int, double>> times;  // shape, tile: slots
  std::map<std::string, int> columns;                                          // of D
  for (const std::vector<std::string>& cell : read_rows("h100.depths.csv")) {
    REQUIRE(cell.size() == 6);
    const std::string shape = cell[0] + ", " + cell[1] + ", " + cell[2];
    times[{shape, cell[3]}][std::stoi(cell[4])] = std::stod(cell[5]);
    columns[shape] = std::stoi(cell[1]);
  }
  constexpr int ANY = 1 << 20;
  struct {
    std::string tile;
    int least_tiles, most_tiles, shapes;
    std::map<int, int> thousandths;  // by slots
  } const SAID[] = {
      {"64x8_x2", 133, 230, 5, {{3, 1138}, {4, 1010}, {6, 970}, {8, 980}, {10, 995}, {12, 1000}}},
      {"64x8_x2", 231, ANY, 5, {{3, 1170}, {4, 1038}, {6, 1005}, {8, 998}, {10, 998}, {12, 1000}}},
      {"64x16_x2", 133, 230, 8, {{3, 1156}, {4, 1027}, {6, 979}, {8, 980}, {10, 1000}}},
      {"64x16_x2", 231, ANY, 7, {{3, 1166}, {4, 1037}, {6, 1005}, {8, 999}, {10, 1000}}},
      {"64x96_cut", 1, ANY, 14, {{4, 1124}, {6, 981}, {8, 973}, {10, 1000}}}};
  for (const auto& said : SAID) {
    CAPTURE(said.tile);
    CAPTURE(said.least_tiles);
    const int most_slots = said.thousandths.rbegin()->first;
    std::map<int, double> sums;  // logarithms
    double least = 2, most = 0;  // with eight slots
    int shapes = 0;
    for (const auto& [of, by_slots] : times) {
      const int tiles = tile::ceil_div(columns[of.first], 64);
      if (of.second != said.tile || tiles < said.least_tiles || tiles > said.most_tiles) continue;
      ++shapes;
      for (const auto& [slots, us] : by_slots) {
        sums[slots] += std::log(us / by_slots.at(most_slots));
      }
      least = std::min(least, by_slots.at(8) / by_slots.at(most_slots));
      most = std::max(most, by_slots.at(8) / by_slots.at(most_slots));
    }
    CHECK(shapes == said.shapes);
    if (said.tile == "64x96_cut") {
      CHECK(std::lround(100 * least) == 90);
      CHECK(std::lround(100 * most) == 102);
    }
    for (const auto& [slots, thousandths] : said.thousandths) {
      CAPTURE(slots);
      CHECK(std::lround(1000 * std::exp(sums[slots] / shapes)) == thousandths);
    }
  }
}

// The numbers of docs/sums.md, "A second kernel", of what made it shorter.
TEST_CASE(
    "trials: the second kernel is shorter with all loads on their way and as many threads as parts "
    "need") {
  double logs = 0, logs_many = 0, logs_one = 0, logs_eight = 0, logs_best = 0, least = 9, most = 0;
  int calls = 0, many = 0;
  for (const std::vector<std::string>& cell : read_rows("h200.adding_up.csv")) {
    REQUIRE(cell.size() == 13);
    CHECK(cell[3].ends_with("_cut"));
    const double us = std::stod(cell[6]), of_before = us / std::stod(cell[5]);
    double best = std::stod(cell[7]);
    for (size_t i = 8; i < cell.size(); ++i) best = std::min(best, std::stod(cell[i]));
    least = std::min(least, of_before);
    most = std::max(most, of_before);
    logs += std::log(of_before);
    logs_one += std::log(std::stod(cell[7]) / us);
    logs_eight += std::log(std::stod(cell[12]) / us);
    logs_best += std::log(best / us);
    ++calls;
    if (std::stoi(cell[4]) < 16) continue;
    logs_many += std::log(of_before);
    ++many;
  }
  REQUIRE(calls == 98);
  REQUIRE(many == 29);
  CHECK(std::lround(1000 * std::exp(logs / calls)) == 978);
  CHECK(std::lround(1000 * std::exp(logs_many / many)) == 976);
  CHECK(std::lround(100 * std::exp(logs_one / calls)) == 104);
  CHECK(std::lround(100 * std::exp(logs_eight / calls)) == 109);
  CHECK(std::lround(1000 * std::exp(logs_best / calls)) == 983);
  CHECK(std::lround(100 * least) == 86);
  CHECK(std::lround(100 * most) == 106);
}

// The numbers of docs/sharing_k.md, "Who ends when".
TEST_CASE("trials: weights are read as fast as DRAM can where nobody waits for slower SMs") {
  struct Run {
    double us, first_end, last_end;
  };
  std::map<std::string, Run> runs;
  for (const std::vector<std::string>& cell : read_rows("h200.dram_shares.csv")) {
    REQUIRE(cell.size() == 12);
    std::string key;
    for (int i = 0; i < 8; ++i) key += cell[i] + (i < 7 ? "," : "");
    runs[key] = {std::stod(cell[8]), std::stod(cell[9]), std::stod(cell[11])};
  }
  REQUIRE(runs.size() == 105);
  const auto rate = [](double n, double k, const Run& run) {  // hundredths of TB/s
    return std::lround(2 * n * k / (run.us - 3.5) / 1e4);
  };
  struct {
    std::string how;
    long us, first_end, last_end;       // tenths, at 11648x20224
    long rate, rate_43264, rate_10240;  // hundredths of TB/s
  } const SAID[] = {{"tiles in turns,0", 1144, 870, 1145, 425, 431, 392},
                    {"equal shares,0", 1084, 782, 1052, 449, 453, 427},
                    {"claimed in the order of memory,8", 1061, 980, 1036, 459, 460, 439}};
  for (const auto& said : SAID) {
    CAPTURE(said.how);
    const std::string ring = "," + said.how + ",2,104,128,8";
    const Run& run = runs.at("11648,20224" + ring);
    CHECK(std::lround(10 * run.us) == said.us);
    CHECK(std::lround(10 * run.first_end) == said.first_end);
    CHECK(std::lround(10 * run.last_end) == said.last_end);
    CHECK(rate(11648, 20224, run) == said.rate);
    CHECK(rate(43264, 6016, runs.at("43264,6016" + ring)) == said.rate_43264);
    CHECK(rate(10240, 8192, runs.at("10240,8192" + ring)) == said.rate_10240);
  }
  const double deep = runs.at("11648,20224,tiles in turns,0,2,104,128,0").us;
  const double shallow = runs.at("11648,20224,tiles in turns,0,2,48,128,0").us;
  CHECK(std::lround(100 * deep / shallow) == 103);

  double us = 0, us_all = 0;  // of rung 12
  for (const std::vector<std::string>& cell : read_rows("h200.few_rows.csv")) {
    if (cell[0] != "shared" || cell[1] != "2" || cell[2] != "11648" || cell[3] != "20224") continue;
    const double least = std::min(std::stod(cell[6]), std::stod(cell[7]));
    if (cell[5] == "64x8_x2") us = least;
    if (cell[5] == "64x8_x2_all") us_all = least;
  }
  CHECK(std::lround(10 * us) == 1177);
  CHECK(std::lround(10 * us_all) == 1126);
}

// The numbers of docs/sharing_k.md, "Who ends when", of the trial.
TEST_CASE("trials: K steps that are claimed take longer than tiles that are dealt out") {
  struct Fastest {
    double tile = 1e9, claimed = 1e9;
  };
  std::map<std::string, Fastest> calls;
  for (const std::vector<std::string>& cell : read_rows("h200.claimed.csv")) {
    REQUIRE(cell.size() == 6);
    CHECK(std::stoi(cell[0]) <= 32);
    Fastest& fastest = calls[cell[0] + "," + cell[1] + "," + cell[2]];
    double& us = cell[4] == "0" ? fastest.tile : fastest.claimed;
    us = std::min(us, std::stod(cell[5]));
  }
  REQUIRE(calls.size() == 18);
  double logs = 0, least = 9, most = 0;
  for (const auto& [call, fastest] : calls) {
    const double slower = fastest.claimed / fastest.tile;
    logs += std::log(slower);
    least = std::min(least, slower);
    most = std::max(most, slower);
  }
  CHECK(std::lround(1000 * std::exp(logs / 18)) == 1036);
  CHECK(std::lround(100 * least) == 100);
  CHECK(std::lround(100 * most) == 109);
}

// The same, "What else was tried for few rows".
TEST_CASE("trials: a shorter ring, or one with fewer free slots, is slower") {
  double logs[3] = {};
  int rows = 0;
  for (const std::vector<std::string>& cell : read_rows("h200.ring.csv")) {
    REQUIRE(cell.size() == 9);
    const auto us = [&](int i) { return std::stod(cell[i]); };
    logs[0] += std::log(us(5) / us(4));
    logs[1] += std::log(us(7) / us(6));
    logs[2] += std::log(us(8) / us(6));
    ++rows;
  }
  REQUIRE(rows == 536);
  CHECK(std::lround(100 * std::exp(logs[0] / rows)) == 111);
  CHECK(std::lround(100 * std::exp(logs[1] / rows)) == 103);
  CHECK(std::lround(100 * std::exp(logs[2] / rows)) == 106);
}

// docs/stage_0.md, the hundred shapes on an H200, and sixty more with seed 2.
TEST_CASE("trials: stage 0 at drawn shapes of an H200, by class") {
  struct Of {
    double logs = 0, least = 9;
    int shapes = 0, below_95 = 0, below_90 = 0;
  };
  std::map<std::string, std::map<std::string, Of>> files;  // by class
  for (const std::string file : {"h200.drawn.csv", "h200.drawn_seed_2.csv"}) {
    for (const std::vector<std::string>& cell : read_rows(file)) {
      REQUIRE(cell.size() == 9);
      const double ratio = std::stod(cell[7]);
      for (const std::string& name : {cell[0], std::string("all")}) {
        Of& of = files[file][name];
        of.logs += std::log(std::min(1.25, ratio));
        of.least = std::min(of.least, ratio);
        of.below_95 += ratio < 0.95;
        of.below_90 += ratio < 0.90;
        ++of.shapes;
      }
      const bool splits = cell[8].find("split-K") < cell[8].size();
      if (file == "h200.drawn.csv" && cell[0] == "long_k" && ratio < 0.95) CHECK(splits);
    }
  }
  struct {
    std::string file, name;
    int shapes;
    long mean, least;  // thousandths
    int below_95, below_90;
  } const SAID[] = {{"h200.drawn.csv", "rounds", 20, 1030, 981, 0, 0},
                    {"h200.drawn.csv", "between", 20, 988, 874, 2, 1},
                    {"h200.drawn.csv", "long_k", 20, 970, 873, 7, 1},
                    {"h200.drawn.csv", "decode", 20, 1037, 901, 1, 0},
                    {"h200.drawn.csv", "ragged", 20, 1044, 968, 0, 0},
                    {"h200.drawn.csv", "all", 100, 1013, 873, 10, 2},
                    {"h200.drawn_seed_2.csv", "rounds", 12, 1033, 980, 0, 0},
                    {"h200.drawn_seed_2.csv", "between", 12, 979, 913, 2, 0},
                    {"h200.drawn_seed_2.csv", "long_k", 12, 1001, 957, 0, 0},
                    {"h200.drawn_seed_2.csv", "decode", 12, 1003, 895, 4, 2},
                    {"h200.drawn_seed_2.csv", "ragged", 12, 1045, 970, 0, 0},
                    {"h200.drawn_seed_2.csv", "all", 60, 1012, 895, 6, 2}};
  for (const auto& said : SAID) {
    CAPTURE(said.file);
    CAPTURE(said.name);
    REQUIRE(files[said.file].size() == 6);
    const Of& of = files[said.file][said.name];
    CHECK(of.shapes == said.shapes);
    CHECK(std::lround(1000 * std::exp(of.logs / of.shapes)) == said.mean);
    CHECK(std::lround(1000 * of.least) == said.least);
    CHECK(of.below_95 == said.below_95);
    CHECK(of.below_90 == said.below_90);
  }
}

// The same page, of the long_k among them, timed again.
TEST_CASE("trials: drawn shapes of long K again, with the shorter second kernel") {
  std::map<std::string, std::string> before;  // cuBLASLt's TFLOPS, by shape
  for (const std::vector<std::string>& cell : read_rows("h200.drawn.csv")) {
    if (cell[0] == "long_k") before[cell[1] + "," + cell[2] + "," + cell[3]] = cell[6];
  }
  double logs = 0, least = 9;
  int below_95 = 0, below_90 = 0;
  std::string lowest;
  std::map<std::string, std::string> again;
  for (const std::vector<std::string>& cell : read_rows("h200.drawn_again.csv")) {
    REQUIRE(cell.size() == 9);
    const double ratio = std::stod(cell[7]);
    const std::string shape = cell[1] + "," + cell[2] + "," + cell[3];
    CHECK(before.contains(shape));
    again[shape] = cell[6];
    logs += std::log(std::min(1.25, ratio));
    if (ratio < least) lowest = shape;
    least = std::min(least, ratio);
    below_95 += ratio < 0.95;
    below_90 += ratio < 0.90;
  }
  REQUIRE(again.size() == 20);
  CHECK(std::lround(1000 * std::exp(logs / 20)) == 984);
  CHECK(std::lround(1000 * least) == 887);
  CHECK(lowest == "128,384,23360");
  CHECK(below_95 == 5);
  CHECK(below_90 == 1);
  const auto us = [&](const std::string& tflops) {
    return std::lround(10 * 2e-6 * 128 * 384 * 23360 / std::stod(tflops));
  };
  CHECK(us(before[lowest]) == 126);
  CHECK(us(again[lowest]) == 111);
}

// docs/stage_0.md, "Shapes drawn anew".
TEST_CASE("trials: stage 0 at drawn shapes, by where rows begin") {
  struct {
    std::string file;
    bool on_lines;
    int shapes, thousandths, below;
  } const SAID[] = {{"h100.drawn.csv", true, 55, 1023, 2},
                    {"h100.drawn.csv", false, 17, 918, 11},
                    {"h100.drawn_later.csv", true, 56, 1013, 5},
                    {"h100.drawn_later.csv", false, 12, 970, 4},
                    {"h100.drawn_last.csv", true, 54, 1033, 4},
                    {"h100.drawn_last.csv", false, 12, 965, 4},
                    {"h100.drawn_between_lines.csv", false, 30, 961, 11},
                    {"h100.drawn_between_lines_2.csv", false, 30, 996, 5},
                    {"h100.drawn_between_lines_3.csv", false, 30, 1008, 2},
                    {"h200.drawn_eights.csv", true, 2, 979, 0},
                    {"h200.drawn_eights.csv", false, 18, 962, 5}};
  for (const auto& said : SAID) {
    CAPTURE(said.file);
    double sum = 0;  // logarithms of shares of cuBLASLt, at most 1.25
    int shapes = 0, below = 0;
    for (const std::vector<std::string>& cell : read_rows(said.file)) {
      REQUIRE(cell.size() == 9);
      if ((std::stoi(cell[3]) % 64 == 0) != said.on_lines) continue;
      const double ratio = std::stod(cell[7]);
      sum += std::log(std::min(1.25, ratio));
      below += ratio < 0.95;
      ++shapes;
    }
    CHECK(shapes == said.shapes);
    CHECK(std::lround(1000 * std::exp(sum / shapes)) == said.thousandths);
    CHECK(below == said.below);
  }
}

// The same, since cut tiles may lie upright.
TEST_CASE("trials: stage 0 at drawn shapes, with upright tiles") {
  struct {
    std::string cls;
    size_t shapes;
    long thousandths;
    int below;
    double lowest;
  } const SAID[] = {{"again", 20, 976, 5, 0.799},
                    {"fresh_lines", 16, 987, 1, 0.922},
                    {"fresh_between", 16, 1030, 2, 0.873}};
  for (const auto& said : SAID) {
    CAPTURE(said.cls);
    std::vector<double> shares;
    double sum = 0;
    for (const std::vector<std::string>& cell : read_rows("h200.drawn_upright.csv")) {
      REQUIRE(cell.size() == 9);
      if (!cell[0].starts_with(said.cls)) continue;
      shares.push_back(std::stod(cell[7]));
      sum += std::log(std::min(1.25, shares.back()));
      if (cell[1] == "504") CHECK(cell[7] == "0.913");
      if (cell[1] == "54") CHECK(cell[7] == "0.879");
    }
    CHECK(shares.size() == said.shapes);
    CHECK(std::lround(1000 * std::exp(sum / shares.size())) == said.thousandths);
    CHECK(std::count_if(shares.begin(), shares.end(), [](double r) { return r < 0.95; }) ==
          said.below);
    CHECK(*std::min_element(shares.begin(), shares.end()) == said.lowest);
  }
}

// The same: the last of them together, the lowest shares, and what else was timed at the two lowest.
TEST_CASE("trials: stage 0 at drawn shapes, the lowest") {
  const auto shares = [](const std::string& file) {
    std::vector<double> shares;
    for (const std::vector<std::string>& cell : read_rows(file)) {
      shares.push_back(std::stod(cell[7]));
    }
    std::sort(shares.begin(), shares.end());
    return shares;
  };
  const std::vector<double> last = shares("h100.drawn_last.csv");
  double sum = 0;
  for (const double share : last) sum += std::log(std::min(1.25, share));
  CHECK(last.size() == 66);
  CHECK(std::lround(1000 * std::exp(sum / 66)) == 1020);
  CHECK(std::vector(last.begin(), last.begin() + 2) == std::vector{0.895, 0.895});
  const std::vector<double> between = shares("h100.drawn_between_lines.csv");
  CHECK(std::vector(between.begin(), between.begin() + 2) == std::vector{0.623, 0.710});
  const std::vector<double> again = shares("h100.drawn_between_lines_2.csv");
  CHECK(again[2] < 0.9);
  CHECK(again[3] >= 0.9);
  const std::vector<double> left_out = shares("h100.drawn_between_lines_3.csv");
  CHECK(std::vector(left_out.begin(), left_out.begin() + 2) == std::vector{0.905, 0.927});
  const std::vector<double> eights = shares("h200.drawn_eights.csv");
  CHECK(std::vector(eights.begin(), eights.begin() + 3) == std::vector{0.785, 0.790, 0.850});
  double sum_of_eights = 0;
  for (const double share : eights) sum_of_eights += std::log(std::min(1.25, share));
  CHECK(std::lround(1000 * std::exp(sum_of_eights / 20)) == 964);
  for (const std::vector<std::string>& cell : read_rows("h200.drawn_eights.csv")) {
    const std::string& theirs = cell[8];  // at the three a cluster of four, or of two, one way
    if (std::stod(cell[7]) > 0.85) continue;
    CHECK(
        (theirs.find("cluster 4x1") < theirs.size() || theirs.find("cluster 1x2") < theirs.size()));
  }

  std::map<std::string, std::map<std::string, double>> us;  // by shape and tile
  for (const std::vector<std::string>& cell : read_rows("h100.full_clusters.csv")) {
    REQUIRE(cell.size() == 6);
    us[cell[0] + ", " + cell[1] + ", " + cell[2]][cell[4]] = std::stod(cell[5]);
  }
  const auto tenths = [&](const char* shape, const char* tile) {
    return std::lround(10 * us.at(shape).at(tile));
  };
  const auto expected = [](const char* tile, int m, int n, int k) {
    return say(*in_table(tile), {"", m, n, k, {}}, H100).clocks / H100.gpu.mhz;
  };
  CHECK(tenths("1335, 1000, 5008", "128x112_2x2") == 365);
  CHECK(tenths("1335, 1000, 5008", "128x128_2x4") == 266);
  CHECK(expected("128x112_2x2", 1335, 1000, 5008) < 36.5 / 1.25);
  CHECK(tenths("368, 2216, 6504", "64x128_2x4") == 352);
  CHECK(tenths("368, 2216, 6504", "128x96_2x4") == 290);
  CHECK(expected("64x128_2x4", 368, 2216, 6504) < 35.2 / 1.25);
  CHECK(5 * 2 * 112 - 1000 == 120);  // columns of the last blocks that are not there
  CHECK(5 * 4 * 128 - 2216 == 344);
  CHECK(expected("128x96_side_4x2", 1335, 1000, 5008) < expected("128x112_2x2", 1335, 1000, 5008));
}

namespace {

// Geometric means of times over others.
struct Ratios {
  double sum = 0, least = NOT_TIMED, most = 0;
  int rows = 0;

  double mean() const { return std::exp(sum / rows); }
  void add(double us, double over_us) {
    const double ratio = us / over_us;
    sum += std::log(ratio);
    least = std::min(least, ratio);
    most = std::max(most, ratio);
    ++rows;
  }
};

void check_ratios(const Ratios& ratios, int rows, int mean_thousandths, int least_hundredths,
                  int most_hundredths) {
  CAPTURE(rows);
  CHECK(ratios.rows == rows);
  CHECK(std::lround(1000 * ratios.mean()) == mean_thousandths);
  CHECK(std::lround(100 * ratios.least) == least_hundredths);
  CHECK(std::lround(100 * ratios.most) == most_hundredths);
}

}  // namespace

// docs/more_tiles.md, "Clusters": what clusters take that wait for global memory neither when
// they begin nor when they end, and in which a warp passes releases on.
TEST_CASE("trials: clusters that begin and end without a wait for global memory take less time") {
  enum Step { BEFORE, BEGINNING, BEFORE_AGAIN, BOTH, PASSED_ON, STEPS };
  Ratios beginning, both, split_beginning, split_both, passed_on, all_three;
  Ratios slower;  // without the barriers: the same with releases passed on
  long of_5_us = 0;
  for (const std::vector<std::string>& cell : read_rows("h100.clusters.csv")) {
    REQUIRE(cell.size() == 5 + STEPS);
    REQUIRE(in_cluster(cell[4]));
    double us[STEPS];
    for (int step = 0; step < STEPS; ++step) us[step] = microseconds(cell[5 + step]);
    const bool splits = cell[4].find("_k") != std::string::npos;
    (splits ? split_beginning : beginning).add(us[BEGINNING], us[BEFORE]);
    (splits ? split_both : both).add(us[BOTH], us[BEFORE_AGAIN]);
    if (us[BOTH] > 1.02 * us[BEFORE_AGAIN] && !splits) slower.add(us[PASSED_ON], us[BEFORE_AGAIN]);
    if (cell[0] == "1083" && cell[4] == "64x128_4x1") {
      of_5_us = std::lround(100 * us[BOTH] / us[BEFORE_AGAIN]);
    }
    if (us[PASSED_ON] == NOT_TIMED) continue;
    passed_on.add(us[PASSED_ON], us[BOTH]);
    all_three.add(us[PASSED_ON], us[BEFORE_AGAIN]);
  }
  check_ratios(beginning, 251, 990, 91, 102);
  check_ratios(both, 251, 949, 84, 110);
  check_ratios(split_beginning, 23, 998, 98, 101);
  check_ratios(split_both, 23, 959, 86, 103);
  check_ratios(passed_on, 118, 909, 69, 108);
  check_ratios(all_three, 118, 870, 71, 100);
  check_ratios(slower, 12, 829, 74, 94);
  CHECK(of_5_us == 87);
}

namespace {

bool is_new_eight(int rung, const std::string& name) {  // of rung 11, that came in by these trials
  if (rung != 11 || name == "64x128_2x4") return false;
  return name.ends_with("_2x4") || name.ends_with("_4x2");
}

// Clocks of all that stage 0 chose from then, by rung and name.
std::map<std::pair<int, std::string>, double> clocks_of_stage_0(const Shape& s, const Chip& chip) {
  std::map<std::pair<int, std::string>, double> clocks;
  for (const tile::GemmConfig& config : tile::PINGPONG) {
    clocks[{10, config.name}] = say(config, s, chip).clocks;
  }
  for (const tile::GemmConfig& config : tile::CONFIGURATIONS) {
    clocks[{11, config.name}] = say(config, s, chip).clocks;
  }
  for (const tile::SharedK& config : tile::SHARED_K) {
    if (!came_last(12, config.name, s)) clocks[{12, config.name}] = say(config, s, chip).clocks;
  }
  return clocks;
}

// Of the shapes of some classes, at which what stage 0 would choose was timed: how far that is from the
// fastest of the three tables that was timed; the same without tiles that came in; and the times of the
// former over those of the latter, where both were timed.
struct Drawn {
  Distance picks, without;
  Ratios gain;
};
Drawn drawn(const std::string& file, const Chip& chip, const std::set<std::string>& sets,
            const std::set<std::string>& classes) {
  std::map<std::tuple<int, int, int>, std::map<std::pair<int, std::string>, double>> shapes;
  for (const std::vector<std::string>& cell : read_rows(file)) {
    REQUIRE(cell.size() == 8);
    if (!sets.contains(cell[0]) || !classes.contains(cell[1])) continue;
    double& us = shapes[{std::stoi(cell[2]), std::stoi(cell[3]), std::stoi(cell[4])}]
                     .insert({{std::stoi(cell[5]), cell[6]}, NOT_TIMED})
                     .first->second;
    us = std::min(us, std::stod(cell[7]));
  }
  Drawn drawn;
  for (const auto& [shape, timed] : shapes) {
    const auto [m, n, k] = shape;
    double least = NOT_TIMED, least_without = NOT_TIMED;  // clocks
    double picked = NOT_TIMED, without = NOT_TIMED, fastest = NOT_TIMED;
    for (const auto& [of, clocks] : clocks_of_stage_0({"", m, n, k, {}}, chip)) {
      if (is_cut(of.second) && !sets.contains("fourth")) continue;
      const double us = timed.contains(of) ? timed.at(of) : NOT_TIMED;
      fastest = std::min(fastest, us);
      if (clocks < least) least = clocks, picked = us;
      if (clocks < least_without && !is_new_eight(of.first, of.second)) {
        least_without = clocks, without = us;
      }
    }
    drawn.picks.add_if_timed(picked, fastest);
    drawn.without.add_if_timed(without, fastest);
    if (picked != NOT_TIMED && without != NOT_TIMED) drawn.gain.add(picked, without);
  }
  return drawn;
}

}  // namespace

// docs/tile_tables.md, "What the tiles in clusters of eight are worth".
TEST_CASE("trials: what nine tiles in clusters of eight take off on an H100") {
  struct {
    std::set<std::string> classes;
    int shapes, not_timed, thousandths, worst_hundredths;           // of the pick
    int without_thousandths, without_worst_hundredths;              // and of that without them
    int both, mean_thousandths, least_hundredths, most_hundredths;  // with over without
  } const SAID[] = {{{"odd"}, 115, 15, 21, 43, 54, 43, 111, 972, 78, 116},
                    {{"small"}, 79, 11, 20, 16, 48, 23, 77, 978, 81, 115},
                    {{"rounds", "between", "decode", "listed", "projections"},
                     145,
                     3,
                     12,
                     11,
                     15,
                     15,
                     145,
                     998,
                     87,
                     100}};
  int shapes = 0, not_timed = 0, not_timed_without = 0;
  for (const auto& said : SAID) {
    CAPTURE(*said.classes.begin());
    const Drawn found = drawn("h100.drawn_trials.csv", H100, {"first", "second"}, said.classes);
    CHECK(found.picks.shapes == said.shapes);
    CHECK(found.picks.not_timed == said.not_timed);
    shapes += found.picks.shapes + found.picks.not_timed;
    not_timed += found.picks.not_timed;
    not_timed_without += found.without.not_timed;
    CHECK(std::lround(1000 * found.picks.mean()) == said.thousandths);
    CHECK(std::lround(100 * found.picks.worst) == said.worst_hundredths);
    CHECK(std::lround(1000 * found.without.mean()) == said.without_thousandths);
    CHECK(std::lround(100 * found.without.worst) == said.without_worst_hundredths);
    check_ratios(found.gain, said.both, said.mean_thousandths, said.least_hundredths,
                 said.most_hundredths);
  }
  CHECK(shapes == 368);
  CHECK(not_timed == 29);
  CHECK(not_timed_without == 14);
}

// docs/sharing_k.md, "How far the picks are from the fastest": on an H200, to whose drawn trials no
// constant is fitted.
TEST_CASE("trials: the pick on an H200 is near the fastest at shapes that were drawn later") {
  struct {
    std::string of;
    int shapes, not_timed, thousandths, worst_hundredths;
  } const SAID[] = {{"odd", 59, 1, 16, 15},       {"small", 39, 1, 15, 12},
                    {"rounds", 10, 0, 14, 5},     {"decode", 62, 2, 12, 15},
                    {"between", 64, 0, 12, 9},    {"listed", 12, 4, 14, 6},
                    {"projections", 38, 0, 15, 6}};
  for (const auto& said : SAID) {
    CAPTURE(said.of);
    const Distance found =
        drawn("h200.drawn_trials.csv", H200, {"second", "third"}, {said.of}).picks;
    CHECK(found.shapes == said.shapes);
    CHECK(found.not_timed == said.not_timed);
    CHECK(std::lround(1000 * found.mean()) == said.thousandths);
    CHECK(std::lround(100 * found.worst) == said.worst_hundredths);
  }
}

// The same: at shapes that were drawn last, and timed on both chips.
TEST_CASE("trials: the pick is near the fastest at shapes of which tiles were drawn as well") {
  struct {
    std::string of;
    int on_h100, h100_thousandths, h100_worst, on_h200, h200_thousandths, h200_worst;
  } const SAID[] = {{"rounds", 40, 10, 7, 48, 13, 9},   {"between", 60, 16, 19, 84, 17, 22},
                    {"long_k", 60, 13, 18, 90, 14, 10}, {"decode", 60, 10, 14, 75, 13, 8},
                    {"odd", 50, 10, 9, 74, 11, 12},     {"short_k", 29, 19, 8, 30, 20, 14},
                    {"small", 50, 31, 17, 73, 25, 23},  {"projections", 27, 11, 6, 36, 18, 16}};
  int not_timed = 0;
  for (const auto& said : SAID) {
    CAPTURE(said.of);
    const Distance h100 = drawn("h100.drawn_trials.csv", H100, {"fourth"}, {said.of}).picks;
    const Distance h200 = drawn("h200.drawn_trials.csv", H200, {"fourth"}, {said.of}).picks;
    CHECK(h100.shapes == said.on_h100);
    CHECK(std::lround(1000 * h100.mean()) == said.h100_thousandths);
    CHECK(std::lround(100 * h100.worst) == said.h100_worst);
    CHECK(h200.shapes == said.on_h200);
    CHECK(std::lround(1000 * h200.mean()) == said.h200_thousandths);
    CHECK(std::lround(100 * h200.worst) == said.h200_worst);
    not_timed += h100.not_timed + h200.not_timed;
  }
  CHECK(not_timed == 3);
}

// docs/sharing_k.md, "How far the picks are from the fastest": few rows, of which L2 fetches lines only.
TEST_CASE("trials: the pick is near the fastest where D has few rows") {
  // Columns: drawn or listed, M, N, K, rung, configuration, microseconds of two runs.
  std::map<std::pair<std::string, std::tuple<int, int, int>>,
           std::map<std::pair<int, std::string>, double>>
      shapes;
  Ratios again;
  for (const std::vector<std::string>& row : read_rows("h200.few_rows.csv")) {
    REQUIRE(row.size() == 8);
    if (row[0] == "shared") continue;
    const double first = std::stod(row[6]), second = std::stod(row[7]);
    shapes[{row[0], {std::stoi(row[1]), std::stoi(row[2]), std::stoi(row[3])}}]
          [{std::stoi(row[4]), row[5]}] = (first + second) / 2;
    again.add(second, first);
  }
  std::map<std::string, Distance> picks;
  for (const auto& [shape, timed] : shapes) {
    const auto [m, n, k] = shape.second;
    double least = NOT_TIMED, picked = NOT_TIMED, fastest = NOT_TIMED;
    for (const auto& [of, clocks] : clocks_of_stage_0({"", m, n, k, {}}, H200)) {
      const double us = timed.contains(of) ? timed.at(of) : NOT_TIMED;
      fastest = std::min(fastest, us);
      if (clocks < least) least = clocks, picked = us;
    }
    picks[shape.first].add_if_timed(picked, fastest);
  }
  struct {
    std::string of;
    int shapes, not_timed, thousandths, worst_hundredths;
  } const SAID[] = {{"drawn", 109, 1, 12, 17}, {"listed", 25, 0, 5, 5}};
  for (const auto& said : SAID) {
    CAPTURE(said.of);
    const Distance& found = picks.at(said.of);
    CHECK(found.shapes == said.shapes);
    CHECK(found.not_timed == said.not_timed);
    CHECK(std::lround(1000 * found.mean()) == said.thousandths);
    CHECK(std::lround(100 * found.worst) == said.worst_hundredths);
  }
  check_ratios(again, 1140, 1000, 94, 105);
}

// What the models expect of a tile of rungs 10 to 12, or NOT_TIMED of one that is in no table.
double clocks_of(int rung, const std::string& name, const Shape& s) {
  const auto of = [&](const auto& table) {
    const auto row = std::find_if(std::begin(table), std::end(table),
                                  [&](const auto& row) { return name == row.name; });
    return row == std::end(table) ? NOT_TIMED : say(*row, s, H200).clocks;
  };
  if (name.ends_with("_up_cut"))
    return say(row_of(tile::UPRIGHT, name), {"", s.n, s.m, s.k, {}}, H200).clocks;
  if (rung == 12) return of(tile::SHARED_K);
  if (rung == 10) return of(tile::PINGPONG);
  return std::min(of(tile::CONFIGURATIONS), of(tile::LATER));
}

// The numbers of docs/more_tiles.md, "Pairs that share the weights".
TEST_CASE("trials: pairs of CTAs that share the weights") {
  using Key = std::tuple<int, int, int>;
  std::map<Key, std::map<std::string, std::vector<Run>>> calls;  // by how
  std::map<Key, std::map<std::string, double>> us;               // by tile
  std::set<std::string> in, tried;
  for (const std::vector<std::string>& cell : read_rows("h200.pairs.csv")) {
    REQUIRE(cell.size() == 7);
    const Key key = {std::stoi(cell[0]), std::stoi(cell[1]), std::stoi(cell[2])};
    const Shape s = {"", std::get<0>(key), std::get<1>(key), std::get<2>(key), {}};
    const double clocks = clocks_of(std::stoi(cell[4]), cell[5], s);
    REQUIRE((cell[3] == "tried") == (clocks == NOT_TIMED));
    if (cell[3] == "in") in.insert(cell[5]);
    if (cell[3] == "tried") tried.insert(cell[5]);
    calls[key][cell[3]].push_back({clocks, std::stod(cell[6])});
    us[key][cell[5]] = std::stod(cell[6]);
  }
  CHECK(calls.size() == 101);
  CHECK(in.size() == 14);
  CHECK(tried.size() == 26);
  // Without over with them, of the picks and of the fastest: geometric means and the ends, in thousandths.
  const auto check = [&](int least_m, int most_m, int shapes, int picked, long picks, long best,
                         long least, long most) {
    CAPTURE(most_m);
    double of_picks = 0, of_best = 0, low = 9, high = 0;
    int count = 0, changed = 0;
    for (auto& [key, of] : calls) {
      if (std::get<0>(key) < least_m || std::get<0>(key) > most_m) continue;
      const Run a = pick_of(of.at("table"));
      const Run b = of.contains("in") ? pick_of(of.at("in")) : Run{NOT_TIMED, NOT_TIMED};
      const double ratio = b.clocks < a.clocks ? a.us / b.us : 1;
      if (of.contains("in")) {
        of_best += std::log(std::max(1.0, fastest_of(of.at("table")) / fastest_of(of.at("in"))));
      }
      changed += b.clocks < a.clocks;
      of_picks += std::log(ratio);
      low = std::min(low, ratio), high = std::max(high, ratio);
      ++count;
    }
    CHECK(count == shapes);
    CHECK(changed == picked);
    CHECK(std::lround(1000 * std::exp(of_picks / count)) == picks);
    CHECK(std::lround(1000 * std::exp(of_best / count)) == best);
    CHECK(std::lround(1000 * low) == least);
    CHECK(std::lround(1000 * high) == most);
  };
  check(1, 64, 4, 0, 1000, 1000, 1000, 1000);
  check(65, 128, 52, 12, 1009, 1011, 938, 1117);
  check(129, 256, 43, 6, 1014, 1014, 1000, 1168);
  check(257, 512, 2, 0, 1000, 1000, 1000, 1000);
  const auto over = [&](const Key& key, const char* tile, const char* other) {  // hundredths
    return std::lround(100 * us.at(key).at(tile) / us.at(key).at(other));
  };
  CHECK(over({128, 4096, 4096}, "64x128_k2", "64x80_2x1") == 94);
  // docs/stage_0.md, "Shapes drawn anew".
  CHECK(over({217, 35072, 2880}, "192x112_1x2", "256x144_1x2") == 96);
  CHECK(over({212, 60032, 8896}, "192x112_1x2", "128x224_2x1") == 97);
  CHECK(us.at({7, 8704, 1664}).at("64x96_1x4") == 10.72);
  CHECK(us.at({7, 8704, 1664}).at("128x16_x2") == 10.2);
}

// The same: at fresh shapes. A pair of rung 11 is not picked any more where D is higher than it.
TEST_CASE("trials: pairs of CTAs that share the weights, at fresh shapes") {
  std::map<std::string, Ratios> gain;  // by the rows of a tile
  int too_high = 0, slower = 0;
  double worst = 9;
  for (const std::vector<std::string>& cell : read_rows("h200.pairs_after.csv")) {
    REQUIRE(cell.size() == 9);
    const Shape s = {"", std::stoi(cell[0]), std::stoi(cell[1]), std::stoi(cell[2]), {}};
    const double without = std::stod(cell[5]), with = std::stod(cell[8]);
    const double clocks = clocks_of(std::stoi(cell[6]), cell[7], s);
    if (cell[6] == "11" && s.m > 128) {
      CHECK(clocks == tile::NEVER);
      ++too_high;
      slower += with > without;
      worst = std::min(worst, without / with);
      continue;
    }
    CHECK(clocks < clocks_of(std::stoi(cell[3]), cell[4], s));
    for (const std::string& rows : {cell[7].substr(0, cell[7].find('x')), std::string("all")}) {
      gain[rows].add(without, with);
    }
  }
  check_ratios(gain["64"], 24, 1054, 97, 114);
  check_ratios(gain["128"], 15, 1153, 104, 140);
  check_ratios(gain["192"], 15, 1096, 104, 120);
  check_ratios(gain["all"], 54, 1092, 97, 140);
  CHECK(too_high == 9);
  CHECK(slower == 6);
  CHECK(std::lround(100 * worst) == 94);
}

// docs/measuring.md, "Shapes that nobody chose".
TEST_CASE("trials: rungs 13 to 17 at problems that were drawn") {
  struct Of {
    int problems = 0;
    std::vector<double> ratios;
  };
  std::map<std::string, Of> groups;
  for (const std::vector<std::string>& cell : read_rows("h200.drawn_others.csv")) {
    REQUIRE(cell.size() == 10);
    const int m = std::stoi(cell[2]);
    std::string group = cell[0];
    if (group == "13") group += cell[1].ends_with("=TT") ? " TT" : "";
    if (group == "14") group += m >= 1024 ? " large" : m <= 128 ? " small" : "";
    if (group == "15" || group == "16") {
      const bool narrow = cell[1].starts_with("bits=4") || cell[1].starts_with("type=e4m3");
      group += narrow ? " narrow" : "";
    }
    Of& of = groups[group];
    ++of.problems;
    if (cell[8] != "-") of.ratios.push_back(std::stod(cell[8]));
    if (cell[0] == "14") CHECK((cell[8] == "-") == (m % 4 != 0));
    if (group == "13") CHECK((std::stod(cell[8]) < 1.3) == (m % 8 == 0));
  }
  struct {
    std::string group;
    int problems;
    size_t opponents;
    long lowest, median, below_95;  // thousandths, and how many
  } const SAID[] = {{"13 TT", 6, 6, 878, 1009, 1},      {"13", 12, 12, 998, 2706, 0},
                    {"14 large", 16, 2, 1029, 1067, 0}, {"14 small", 8, 8, 1056, 1352, 0},
                    {"14", 6, 1, 1045, 1045, 0},        {"15", 6, 6, 1372, 1552, 0},
                    {"15 narrow", 6, 6, 1451, 2806, 0}, {"16", 8, 8, 1084, 1254, 0},
                    {"16 narrow", 4, 4, 1415, 1480, 0}, {"17", 12, 12, 842, 1012, 3}};
  CHECK(groups.size() == std::size(SAID));
  for (const auto& said : SAID) {
    CAPTURE(said.group);
    Of& of = groups[said.group];
    CHECK(of.problems == said.problems);
    REQUIRE(of.ratios.size() == said.opponents);
    std::sort(of.ratios.begin(), of.ratios.end());
    const double median =
        (of.ratios[(of.ratios.size() - 1) / 2] + of.ratios[of.ratios.size() / 2]) / 2;
    CHECK(std::lround(1000 * of.ratios.front()) == said.lowest);
    CHECK(std::lround(1000 * median) == said.median);
    CHECK(std::count_if(of.ratios.begin(), of.ratios.end(),
                        [](double ratio) { return ratio < 0.95; }) == said.below_95);
  }
}

// docs/tensor_maps.md, "What L2 fetches beside a line".
TEST_CASE("trials: lines only, where an H200's DRAM is the limit, or boxes are narrow") {
  // Columns of the files: rung, variant, args, M, N, K, microseconds with 256 bytes and with 128.
  const auto narrow = [](const std::vector<std::string>& row) {
    return row[1] == "swizzle32" || row[1] == "no_swizzle";
  };
  // From a row of a file: whether it is in a line of the page's table.
  using Row = std::vector<std::string>;
  const auto few = [](const Row& row) { return std::stoi(row[3]) <= 64; };
  const auto boxes_of = [&](const char* rows) {
    return [&, rows](const Row& row) {
      return few(row) && row[0] == "12" && row[1].starts_with(std::string(rows) + "x");
    };
  };
  struct {
    const char* file;
    std::function<bool(const Row&)> has;
    int calls, mean_thousandths, least_hundredths, most_hundredths;
  } const SAID[] = {
      {"h200.promotion.csv", boxes_of("64"), 245, 976, 93, 105},
      {"h200.promotion.csv", boxes_of("128"), 73, 993, 95, 107},
      {"h200.promotion.csv", boxes_of("256"), 35, 1012, 97, 109},
      {"h200.promotion.csv",
       [&](const Row& row) { return few(row) && std::stoi(row[0]) >= 13 && row[0] != "15"; }, 31,
       983, 95, 101},
      {"h200.promotion.csv", [&](const Row& row) { return !few(row) && !narrow(row); }, 309, 1000,
       96, 105},
      {"h200.promotion.csv", narrow, 4, 892, 88, 90},
      {"h100.promotion.csv",
       [&](const Row& row) { return few(row) && (row[0] == "11" || row[0] == "12"); }, 25, 1020, 99,
       107},
      {"h100.promotion.csv",
       [&](const Row& row) { return few(row) && std::stoi(row[0]) >= 13 && row[0] != "15"; }, 31,
       1009, 98, 104},
      {"h100.promotion.csv", narrow, 4, 900, 88, 91},
  };
  for (const auto& said : SAID) {
    CAPTURE(said.file);
    Ratios found;
    for (const Row& row : read_rows(said.file)) {
      REQUIRE(row.size() == 8);
      if (said.has(row)) found.add(microseconds(row[7]), microseconds(row[6]));
    }
    check_ratios(found, said.calls, said.mean_thousandths, said.least_hundredths,
                 said.most_hundredths);
  }
}

// docs/tensor_maps.md, "What L2 fetches beside a line": boxes that are one piece of memory.
TEST_CASE("trials: lines only, where a box asks for all lines by itself") {
  // Columns: rows of a box, promotion, TB/s of two runs.
  const auto hundredths = [](const std::string& chip, const std::string& promotion) {
    for (const std::vector<std::string>& row : read_rows(chip + ".dram_read.csv")) {
      if (row[0] != "256" || row[1] != promotion) continue;
      return std::lround(50 * (std::stod(row[2]) + std::stod(row[3])));
    }
    return 0l;
  };
  CHECK(hundredths("h200", "128") == 463);
  CHECK(hundredths("h200", "256") == 431);
  CHECK(hundredths("h100", "128") == 317);
  CHECK(hundredths("h100", "256") == 314);
}

// The same, and docs/12_stream_k.md, "A line at a time".
TEST_CASE("trials: what lines only are worth to fewer rows, and to boxes of 256 rows") {
  Ratios up_to_8, from_33, wide, narrow, again, dram_at_more;
  std::set<std::string> timed;  // calls of 256x16_x2: the second time on another chip
  for (const std::vector<std::string>& row : read_rows("h200.promotion.csv")) {
    const int m = std::stoi(row[3]), n = std::stoi(row[4]);
    const auto add = [&](Ratios& to) { to.add(microseconds(row[7]), microseconds(row[6])); };
    if (m > 64 && m <= 225 && !row[1].ends_with("swizzle")) add(dram_at_more);
    if (row[0] != "12" || m > 64) continue;
    if (row[1].starts_with("64x")) {
      if (m <= 8) add(up_to_8);
      if (m > 32) add(from_33);
    } else if (row[1] == "256x16_x2") {
      const bool first = timed.insert(row[3] + "," + row[4] + "," + row[5]).second;
      add(!first ? again : n >= 18000 ? wide : narrow);
    }
  }
  check_ratios(up_to_8, 153, 971, 93, 105);
  check_ratios(from_33, 10, 996, 98, 104);
  check_ratios(wide, 17, 985, 97, 101);
  check_ratios(narrow, 15, 1042, 101, 109);
  check_ratios(again, 3, 1012, 101, 102);
  check_ratios(dram_at_more, 56, 1000, 97, 103);
}

// The same page: tenths of TB/s of a kernel that only copies.
TEST_CASE(
    "trials: DRAM gives most if two lines side by side are asked for at once, each by itself") {
  struct Rates {
    double least = 1e9, most = 0;
    void check(int least_tenths, int most_tenths) const {
      CHECK(std::lround(10 * least) == least_tenths);
      CHECK(std::lround(10 * most) == most_tenths);
    }
  } rates[3][2];  // a row of the page's table; promotion 256
  for (const std::vector<std::string>& row : read_rows("h200.copies.csv")) {
    REQUIRE(row.size() == 8);
    const size_t kind = row[1] != "64" ? 0 : row[3] != "1" ? 1 : 2;
    Rates& of = rates[kind][row[6] == "256"];
    const double rate = 33664.0 * 30848 * 2 / 1e6 / std::stod(row[7]);
    of.least = std::min(of.least, rate);
    of.most = std::max(of.most, rate);
  }
  rates[0][0].check(44, 46);
  rates[0][1].check(42, 43);
  rates[1][0].check(42, 44);
  rates[1][1].check(42, 43);
  rates[2][0].check(41, 43);
  rates[2][1].check(43, 44);
}

// docs/stage_0.md, "Where stage 0 is behind", and docs/sharing_k.md, "Does splitting K …": microseconds
// of tiles where K split in a cluster is faster than whole tiles of more columns.
TEST_CASE("trials: tiles of 64 columns are the fastest at some calls of few rows") {
  std::map<std::string, double> us;
  for (const std::vector<std::string>& row : read_rows("h200.promotion.csv")) {
    if (row[3] == "3" && row[4] == "37248") us[row[1] + " at 146 tiles"] = microseconds(row[7]);
  }
  CHECK(std::lround(us.at("256x16_x2 at 146 tiles")) == 392);
  CHECK(std::lround(us.at("64x8_x2_k4 at 146 tiles")) == 345);
  CHECK(tile::ceil_div(37248, 256) == 146);
  for (const std::vector<std::string>& row : read_rows("h200.few_rows.csv")) {
    if (row[0] != "listed" || row[1] != "4") continue;
    us[row[5]] = (std::stod(row[6]) + std::stod(row[7])) / 2;
  }
  CHECK(std::lround(10 * us.at("256x16_x2")) == 514);
  CHECK(std::lround(10 * us.at("64x8_x2_k4")) == 491);
}

// docs/sharing_k.md, "Does splitting K speed up GEMV and small-batch decoding?": several rounds of
// tiles, some tile of either kind timed.
TEST_CASE("trials: K split in a cluster where there are several rounds of tiles") {
  std::map<std::string, std::pair<double, double>> fastest;  // whole tiles, split in a cluster
  for (const std::vector<std::string>& row : read_rows("h200.few_rows.csv")) {
    if (std::stoi(row[2]) <= 64 * 132 || is_cut(row[5]) || row[0] == "shared") continue;
    auto& [whole, split] =
        fastest.try_emplace(row[1] + "," + row[2] + "," + row[3], NOT_TIMED, NOT_TIMED)
            .first->second;
    double& us = row[5].find("_k") != std::string::npos ? split : whole;
    us = std::min(us, (std::stod(row[6]) + std::stod(row[7])) / 2);
  }
  int both = 0;
  Ratios gain;
  for (const auto& [shape, us] : fastest) {
    if (us.first == NOT_TIMED || us.second == NOT_TIMED) continue;
    ++both;
    if (us.second < us.first) gain.add(us.first, us.second);
  }
  CHECK(both == 39);
  check_ratios(gain, 8, 1021, 101, 104);
}

// The same: stream-K, and clusters of four, over whole tiles.
TEST_CASE("trials: stream-K's shares at calls of few rows") {
  std::map<std::string, std::map<std::string, double>> calls;
  for (const std::vector<std::string>& row : read_rows("h200.few_rows.csv")) {
    if (row[0] != "shared") continue;
    calls[row[1] + "," + row[2] + "," + row[3]][row[5]] = std::stod(row[6]) + std::stod(row[7]);
  }
  Ratios all, gained;
  double furthest = 0;
  for (const auto& [shape, us] : calls) {
    const double whole = us.at("64x8_x2"), shares = us.at("64x8_x2_all");
    all.add(shares, whole);
    if (shares > 0.97 * whole) continue;
    gained.add(shares, whole);
    furthest = std::max(furthest, std::abs(us.at("64x8_x2_k4") - shares) / whole);
  }
  check_ratios(all, 25, 1006, 87, 112);
  CHECK(gained.rows == 8);
  CHECK(furthest < 0.035);
}

// docs/measuring.md, "The run behind these pages".
TEST_CASE("trials: how much a call gained that had one set of operands") {
  // Columns: rung, variant, M, N, K, microseconds of a kernel and of cuBLASLt, and with more sets.
  Ratios kernels, library, but_for_one;
  for (const std::vector<std::string>& row : read_rows("h200.sets.csv")) {
    REQUIRE(row.size() == 9);
    if (row[1] == "auto") {  // cubes
      CHECK(std::abs(std::stod(row[5]) / std::stod(row[7]) - 1) < 0.002);
    } else if (row[0] == "0") {
      kernels.add(std::stod(row[7]), std::stod(row[5]));
      library.add(std::stod(row[8]), std::stod(row[6]));
      if (row[3] != "43264") but_for_one.add(std::stod(row[8]), std::stod(row[6]));
    }
  }
  check_ratios(kernels, 10, 998, 98, 101);
  check_ratios(library, 10, 1012, 98, 109);
  check_ratios(but_for_one, 9, 1004, 98, 103);
}

// docs/12_stream_k.md, "What leaves L2 first".
TEST_CASE("trials: cut tiles take less time if what they read leaves L2 first") {
  struct {
    std::string file;
    size_t column, as_it_was;
    bool cut;
    int calls, mean_thousandths, least_hundredths, most_hundredths;
  } const SAID[] = {{"h100.evict_first.csv", 5, 4, true, 125, 958, 91, 100},
                    {"h100.evict_first.csv", 6, 4, true, 125, 957, 90, 101},  // parts last, too
                    {"h100.evict_first.csv", 7, 4, true, 125, 980, 93, 105},  // parts discarded
                    {"h100.evict_first.csv", 5, 4, false, 61, 1015, 95, 197},
                    {"h100.evict_first_24.csv", 5, 4, true, 42, 972, 92, 101},
                    {"h100.evict_first_24.csv", 7, 6, true, 42, 967, 92, 100},  // 24 times L2
                    {"h100.evict_first_24.csv", 6, 4, true, 42, 1002, 100, 101},
                    {"h200.evict_first.csv", 5, 4, true, 59, 984, 94, 103},
                    {"h200.evict_first.csv", 6, 4, true, 59, 1005, 97, 108},  // discarded
                    {"h200.evict_first.csv", 8, 7, true, 59, 983, 93, 102},   // 24 times L2
                    {"h200.evict_first.csv", 8, 7, false, 41, 1009, 98, 107},
                    {"h200.evict_first.csv", 7, 4, true, 59, 1001, 99, 101},
                    {"h200.evict_first.csv", 7, 4, false, 41, 1000, 97, 101}};
  for (const auto& said : SAID) {
    CAPTURE(said.file);
    CAPTURE(said.column);
    Ratios found;
    for (const std::vector<std::string>& cell : read_rows(said.file)) {
      if (is_cut(cell.at(3)) == said.cut) {
        found.add(microseconds(cell.at(said.column)), microseconds(cell.at(said.as_it_was)));
      }
    }
    check_ratios(found, said.calls, said.mean_thousandths, said.least_hundredths,
                 said.most_hundredths);
  }
}

// docs/cost_model.md, "Rows outside of the matrix".
TEST_CASE("trials: what rows outside of the matrix cost") {
  std::map<std::pair<std::string, int>, double> us;  // by configuration and M
  for (const std::vector<std::string>& cell : read_rows("h100.outside.csv")) {
    REQUIRE(cell.size() == 4);
    us[{cell[2], std::stoi(cell[0])}] = microseconds(cell[3]);
  }
  const auto tenths = [&](const char* name, int m) { return std::lround(10 * us.at({name, m})); };
  CHECK(tenths("64x128_k2", 256) == 203);
  CHECK(tenths("64x128_k2", 160) == 291);
  CHECK(tenths("64x128", 256) == 205);
  CHECK(tenths("64x128", 160) == 196);
  // Two CTAs share a tile's 112 steps; of the second tile's 128 rows 32 are there.
  const double a_step = (us.at({"64x128_k2", 160}) - us.at({"64x128_k2", 256})) / 56;
  CHECK(std::lround(100 * a_step) == 16);
  CHECK(std::lround(a_step * 1800 / 96) == 3);
  // The fewer are outside, the less it takes.
  for (const int m : {160, 176, 192, 208, 224}) {
    const int next = m == 224 ? 256 : m + 16;
    CHECK(us.at({"64x128_k2", next}) < us.at({"64x128_k2", m}));
  }
  CHECK(tile::ceil_div(2112, 64) * 2 == 66);     // CTAs that have 96 rows outside
  CHECK(std::lround(a_step * 1755 / 10) == 28);  // tens of clocks

  std::map<int, double> wide;  // microseconds of 64x128_2x4 at M = 640, K = 4096, by N
  for (const std::vector<std::string>& cell : read_rows("h100.outside_clusters.csv")) {
    REQUIRE(cell.size() == 6);
    if (cell[0] == "640" && cell[2] == "4096" && cell[4] == "64x128_2x4") {
      wide[std::stoi(cell[1])] = std::stod(cell[5]);
    }
  }
  CHECK(std::lround(10 * wide.at(1536)) == 143);
  CHECK(std::lround(10 * wide.at(1408)) == 175);
  CHECK(std::lround(10 * wide.at(1280)) == 202);
  CHECK(std::lround(10 * wide.at(1152)) == 236);
  CHECK(std::lround(10 * wide.at(1032)) == 283);
  CHECK(wide.size() == 9);
  for (auto n = std::next(wide.begin()); n != wide.end(); ++n) {
    CHECK(n->second < std::prev(n)->second);  // the more columns there are
  }
}

// docs/more_tiles.md, "Clusters".
TEST_CASE("trials: clusters that leave out slices outside of the matrix take less time") {
  double sums[2] = {};  // logarithms: of calls with all slices, and without some
  double least = 1, most = 1;
  int calls[2] = {};
  std::set<std::tuple<int, int, int>> shapes;
  for (const std::vector<std::string>& cell : read_rows("h100.left_out.csv")) {
    REQUIRE(cell.size() == 6);
    const tile::GemmConfig* config = in_table(cell[3]);
    REQUIRE(config != nullptr);
    REQUIRE((config->cluster_m > 1 && config->cluster_n > 1));
    int m = std::stoi(cell[0]), n = std::stoi(cell[1]);
    shapes.insert({m, n, std::stoi(cell[2])});
    const double after = std::stod(cell[5]) / std::stod(cell[4]);
    if (m == 640 && n == 1032 && cell[2] == "4096" && cell[3] == "64x128_2x4") {
      CHECK(std::lround(10 * std::stod(cell[5])) == 157);
    }
    if (config->sideways) std::swap(m, n);
    const auto slices = [&](int rows, int tile_rows, int along, int across) {
      const int blocks = tile::ceil_div(rows, tile_rows * along);                    // of a cluster
      return blocks * config->cluster() - tile::ceil_div(rows, tile_rows / across);  // outside
    };
    const bool some = slices(m, config->bm(), config->cluster_m, config->cluster_n) +
                          slices(n, config->bn, config->cluster_n, config->cluster_m) >
                      0;
    sums[some] += std::log(after);
    ++calls[some];
    if (some) least = std::min(least, after), most = std::max(most, after);
  }
  CHECK(calls[true] == 834);
  CHECK(std::lround(1000 * std::exp(sums[true] / calls[true])) == 976);
  CHECK(std::lround(100 * least) == 55);
  CHECK(std::lround(100 * most) == 113);
  CHECK(calls[false] == 72);
  CHECK(std::lround(1000 * std::exp(sums[false] / calls[false])) == 1003);
  for (const std::vector<std::string>& cell : read_rows("h100.between_lines.csv")) {
    shapes.erase({std::stoi(cell[0]), std::stoi(cell[1]), std::stoi(cell[2])});
  }
  for (const auto& [m, n, k] : shapes) CHECK((k == 4096 || k == 4104 || k == 4112));  // made for it
}

// docs/stage_0.md, "Shapes drawn anew"; docs/11_autotuned.md, "Measured".
TEST_CASE("trials: what an H200 took before clusters left out what lies outside") {
  std::map<std::pair<std::string, std::string>, double> shares, tflops;  // by variant and shape
  for (const std::vector<std::string>& cell : read_rows("h200.before.csv")) {
    REQUIRE(cell.size() == 10);
    if (cell[5] != "burst") continue;
    const std::string shape = cell[2] + ", " + cell[3] + ", " + cell[4];
    shares[{cell[1], shape}] = std::stod(cell[9]);
    tflops[{cell[1], shape}] = std::stod(cell[7]);
    if (cell[1] == "best" && shape == "1083, 616, 528") CHECK(std::stod(cell[8]) == 146.5);
  }
  CHECK(shares.at({"best", "555, 2424, 1528"}) == 0.933);
  CHECK(shares.at({"best", "1083, 616, 528"}) == 1.065);
  CHECK(shares.at({"best", "128, 7168, 2048"}) == 1.011);
  CHECK(shares.at({"best", "128, 7168, 16384"}) == 1.129);
  CHECK(tflops.at({"best", "555, 2424, 1528"}) == 377.7);
  CHECK(tflops.at({"best", "1083, 616, 528"}) == 156.1);
  CHECK(tflops.at({"best", "128, 7168, 2048"}) == 359.5);
  CHECK(tflops.at({"best", "128, 7168, 16384"}) == 488.4);
  CHECK(shares.at({"auto", "8, 3584, 18944"}) == 0.562);
  CHECK(tflops.at({"auto", "8, 3584, 18944"}) == 15.67);
}

// docs/10_pingpong.md, "Who am I?".
TEST_CASE("trials: what a vote saves") {
  std::map<std::pair<int, std::string>, std::vector<std::string>>
      rows;  // by columns of D and kernel
  for (const std::vector<std::string>& cell : read_rows("h100.vote.csv")) {
    REQUIRE(cell.size() == 10);
    rows[{std::stoi(cell[1]), cell[3]}] = cell;
  }
  const auto millions = [&](const char* kernel) {  // of instructions, tenths
    return std::lround(std::stod(rows.at({32768, kernel})[7]) / 1e5);
  };
  CHECK(millions("128x176 by threadIdx") == 302);
  CHECK(millions("128x176 by vote") == 239);
  CHECK(millions("cuBLASLt") == 213);
  const auto& before = rows.at({24576, "128x176 by threadIdx"});
  const auto& now = rows.at({24576, "128x176 by vote"});
  CHECK(std::abs(std::stod(before[5]) - std::stod(now[5])) <= 0.0021);  // tensor share
  CHECK(before[6] == "1508");                                           // MHz
  CHECK(now[6] == "1516");
}

// docs/cost_model.md, "The tiles of rung 17", and docs/fused_tiles.md, "Few rows".
TEST_CASE("trials: rung 17's tiles of 64 rows where D has few rows") {
  using Times = std::map<std::string, double>;                         // by tile
  std::map<std::tuple<int, int, int>, Times> now, before, of_rung_12;  // by m, n, k
  for (const std::vector<std::string>& cell : read_rows("h200.fused.csv")) {
    REQUIRE(cell.size() == 7);
    const std::tuple shape = {std::stoi(cell[0]), std::stoi(cell[1]), std::stoi(cell[2])};
    (cell[3] == "12" ? of_rung_12 : now)[shape][cell[4]] = std::stod(cell[5]);
    before[shape][cell[4]] = microseconds(cell[6]);
  }
  const auto few = [](const auto& timed) { return std::get<0>(timed.first) <= 128; };
  CHECK(now.size() == 112);
  CHECK(std::count_if(now.begin(), now.end(), few) == 91);

  // With some of the seven tiles of 64 rows over all of them, at those of at most 128 rows.
  const auto ratio = [&](const std::set<std::string>& tiles) {
    double logarithms = 0;
    int shapes = 0;
    for (const auto& [shape, us] : now) {
      if (std::get<0>(shape) > 128) continue;
      double all = NOT_TIMED, some = NOT_TIMED;
      for (const auto& [tile, time] : us) {
        all = std::min(all, time);
        if (!tile.starts_with("64x") || tiles.contains(tile)) some = std::min(some, time);
      }
      logarithms += std::log(some / all);
      ++shapes;
    }
    return std::lround(1000 * std::exp(logarithms / shapes));
  };
  CHECK(ratio({}) == 1622);
  CHECK(ratio({"64x64"}) == 1064);
  CHECK(ratio({"64x48", "64x64", "64x128"}) == 1017);
  CHECK(ratio({"64x48", "64x64", "64x128", "64x192"}) == 1012);

  const auto check = [&](int m, double with_neither, double small, double large, double largest,
                         double shared) {
    CAPTURE(m);
    const std::tuple shape = {m, 4096, 14336};
    const auto tenths = [](double us) { return std::lround(10 * us); };
    CHECK(tenths(before[shape]["64x64"]) == tenths(with_neither));
    CHECK(tenths(now[shape]["64x64"]) == tenths(small));
    CHECK(tenths(now[shape]["128x128"]) == tenths(large));
    CHECK(tenths(now[shape]["128x256"]) == tenths(largest));
    CHECK(tenths(of_rung_12[shape]["auto"]) == tenths(shared));
  };
  check(1, 61.6, 32.3, 78.3, 133.3, 29.4);
  check(16, 51.3, 32.6, 75.9, 133.2, 29.8);
  check(64, 40.7, 32.8, 68.8, 133.6, 31.4);
  check(128, 40.9, 34.5, 68.9, 133.8, 34.1);
}

// docs/cost_model.md, "The tiles of rung 17".
TEST_CASE("trials: the pick of rung 17's upright tiles that leave K whole, where D has few rows") {
  using Calls =
      std::map<std::tuple<int, int, int>, std::map<std::string, double>>;  // m, n, k; tile
  const auto read = [](const char* file) {
    Calls calls;
    for (const std::vector<std::string>& cell : read_rows(file)) {
      REQUIRE(cell.size() == 5);
      calls[{std::stoi(cell[0]), std::stoi(cell[1]), std::stoi(cell[2])}][cell[3]] =
          std::stod(cell[4]);
    }
    return calls;
  };
  // In tenths of a percent, slower than the fastest: on average, and at worst.
  const auto check = [](const Calls& calls, const Chip& chip, long mean, long worst) {
    Distance distance;
    for (const auto& [shape, us] : calls) {
      const auto [m, n, k] = shape;
      double least = tile::NEVER, picked = NOT_TIMED, fastest = NOT_TIMED;
      for (const tile::FusedTile& config : tile::FUSED_CONFIGURATIONS) {
        if (config.split > 1 || config.sideways) continue;
        const double timed = us.contains(config.name) ? us.at(config.name) : NOT_TIMED;
        const double clocks =
            tile::fused_clocks(config, m, n, k, resident(config.cluster()), chip.gpu, k, k);
        fastest = std::min(fastest, timed);
        if (clocks < least) picked = timed;
        least = std::min(least, clocks);
      }
      distance.add_if_timed(picked, fastest);
    }
    CHECK(distance.shapes == 156);
    CHECK(distance.not_timed == 0);
    CHECK(std::lround(1000 * distance.mean()) == mean);
    CHECK(std::lround(1000 * distance.worst) == worst);
  };
  const Calls calls = read("h100.fused.csv");
  check(calls, H100, 12, 201);
  check(read("h200.fused_again.csv"), H200, 18, 168);
  const auto tenths = [&](int m, int n, int k, const char* tile) {
    return std::lround(10 * calls.at({m, n, k}).at(tile));
  };
  CHECK(tenths(401, 6432, 2720, "256x128_1x2") == 366);
  CHECK(tenths(401, 6432, 2720, "128x224") == 304);
}

// A call of rung 17, and what it takes by tile.
struct FusedCall {
  int m, n, k;
  std::map<std::string, double> us;
};

// In the order of the file.
std::vector<FusedCall> read_fused(const char* file) {
  std::vector<FusedCall> calls;
  for (const std::vector<std::string>& cell : read_rows(file)) {
    REQUIRE(cell.size() == 5);
    const int m = std::stoi(cell[0]), n = std::stoi(cell[1]), k = std::stoi(cell[2]);
    if (calls.empty() || calls.back().m != m || calls.back().n != n || calls.back().k != k) {
      calls.push_back({m, n, k, {}});
    }
    calls.back().us[cell[3]] = std::stod(cell[4]);
  }
  return calls;
}

bool is_on_its_side(const std::string& tile) {
  return tile.find("_side") != std::string::npos;
}

// docs/fused_tiles.md, "Few tiles", and docs/cost_model.md, "The tiles of rung 17".
TEST_CASE("trials: the pick of rung 17's upright tiles, where CTAs may share K") {
  const std::vector<FusedCall> calls = read_fused("h200.fused_split.csv");
  REQUIRE(calls.size() == 224);

  // Of the calls from number `from` on, in thousandths: the pick over the fastest, and what is picked
  // of the tiles that leave K whole over the pick.
  const auto check = [&](size_t from, size_t count, long mean, long worst, long gain, long most,
                         long least_gain) {
    CAPTURE(from);
    Distance distance;
    double logarithms = 0, largest = 0, smallest = NOT_TIMED;
    for (size_t i = from; i < from + count; ++i) {
      const FusedCall& call = calls[i];
      double least = tile::NEVER, least_whole = tile::NEVER, fastest = NOT_TIMED;
      double pick = NOT_TIMED, whole = NOT_TIMED;
      for (const tile::FusedTile& config : tile::FUSED_CONFIGURATIONS) {
        if (config.sideways) continue;  // they came later
        const double timed = call.us.contains(config.name) ? call.us.at(config.name) : NOT_TIMED;
        const int ctas = config.split == 8 ? 15 * 8 : resident(config.cluster() * config.split);
        const double clocks =
            tile::fused_clocks(config, call.m, call.n, call.k, ctas, H200.gpu, call.k, call.k);
        if (clocks < least) pick = timed;
        if (config.split == 1 && clocks < least_whole) whole = timed;
        if (config.split == 1) least_whole = std::min(least_whole, clocks);
        least = std::min(least, clocks);
        fastest = std::min(fastest, timed);
      }
      distance.add_if_timed(pick, fastest);
      logarithms += std::log(whole / pick);
      largest = std::max(largest, whole / pick);
      smallest = std::min(smallest, whole / pick);
    }
    CHECK(distance.not_timed == 0);
    CHECK(std::lround(1000 * distance.mean()) == mean);
    CHECK(std::lround(1000 * distance.worst) == worst);
    CHECK(std::lround(1000 * std::exp(logarithms / static_cast<double>(count))) == gain);
    CHECK(std::lround(1000 * largest) == most);
    CHECK(std::lround(1000 * smallest) == least_gain);
  };
  check(0, 164, 11, 174, 1352, 5328, 919);
  check(164, 60, 31, 212, 1266, 3541, 925);

  // The fastest that leaves K whole; two, four and eight CTAs that share it; rung 12.
  const auto times = [&](int m, int n, int k) {
    const auto call = std::find_if(calls.begin(), calls.end(), [&](const FusedCall& each) {
      return each.m == m && each.n == n && each.k == k;
    });
    REQUIRE(call != calls.end());
    return call->us;
  };
  const auto row = [&](int m, int n, int k, const std::array<long, 5>& tenths) {
    CAPTURE(m);
    CAPTURE(n);
    const std::map<std::string, double> of_call = times(m, n, k);
    double whole = NOT_TIMED;
    for (const auto& [tile, us] : of_call) {
      if (tile.find("_k") == std::string::npos && tile != "rung 12") whole = std::min(whole, us);
    }
    const auto rounded = [](double us) { return std::lround(10 * us); };
    CHECK(rounded(whole) == tenths[0]);
    CHECK(rounded(of_call.at("64x64_k2")) == tenths[1]);
    CHECK(rounded(of_call.at("64x64_k4")) == tenths[2]);
    CHECK(rounded(of_call.at("64x64_k8")) == tenths[3]);
    CHECK(rounded(of_call.at("rung 12")) == tenths[4]);
  };
  row(64, 576, 7168, {143, 94, 65, 64, 63});
  row(1, 1024, 8192, {162, 101, 93, 94, 65});
  row(64, 1024, 8192, {161, 105, 99, 102, 97});
  row(128, 1024, 8192, {162, 115, 147, 135, 121});
  row(16, 2048, 7168, {144, 106, 136, 120, 100});
  row(1, 4096, 14336, {320, 293, 349, 317, 282});
  row(64, 4096, 14336, {324, 312, 380, 354, 311});
  row(256, 2048, 7168, {177, 250, 318, 323, 169});
  row(1, 4096, 4096, {128, 109, 126, 128, 98});
  CHECK(std::lround(10 * times(1, 4096, 4096).at("64x64")) == 131);

  // The fastest that leaves K whole over the fastest of all, and that over rung 12 without an
  // epilogue, by tiles of 64x64.
  const auto gain = [&](int from, int to, int shapes, long of_whole, long over_rung_12) {
    CAPTURE(from);
    double whole = 0, beside = 0;
    int count = 0;
    for (const FusedCall& call : calls) {
      const double tiles = std::ceil(call.m / 64.0) * std::ceil(call.n / 64.0);
      if (tiles < from || tiles > to) continue;
      double all = NOT_TIMED, unshared = NOT_TIMED;
      for (const tile::FusedTile& config : tile::FUSED_CONFIGURATIONS) {
        if (!call.us.contains(config.name)) continue;
        all = std::min(all, call.us.at(config.name));
        if (config.split == 1) unshared = std::min(unshared, call.us.at(config.name));
      }
      whole += std::log(unshared / all);
      beside += std::log(all / call.us.at("rung 12"));
      ++count;
    }
    CHECK(count == shapes);
    CHECK(std::lround(1000 * std::exp(whole / count)) == of_whole);
    CHECK(std::lround(1000 * std::exp(beside / count)) == over_rung_12);
  };
  gain(1, 32, 111, 1699, 1116);
  gain(33, 66, 56, 1070, 1085);
  gain(67, 100000, 57, 1008, 1055);
}

// docs/fused_tiles.md, "Few tiles", and docs/cost_model.md, "The tiles of rung 17".
TEST_CASE("trials: what tiles of rung 17 that share K are worth beside others, and by shares") {
  std::map<std::tuple<int, int, int>, std::map<std::string, double>> calls;
  for (const std::vector<std::string>& cell : read_rows("h200.fused_split_tried.csv")) {
    REQUIRE(cell.size() == 5);
    calls[{std::stoi(cell[0]), std::stoi(cell[1]), std::stoi(cell[2])}][cell[3]] =
        std::stod(cell[4]);
  }
  REQUIRE(calls.size() == 164);
  // Geometric means of one time over another, in thousandths.
  const auto mean = [&](const auto& ratio) {
    double logarithms = 0;
    for (const auto& [shape, us] : calls) logarithms += std::log(ratio(us));
    return std::lround(1000 * std::exp(logarithms / static_cast<double>(calls.size())));
  };
  // The fastest of those that leave K whole and of some that share it, over the fastest of all.
  const auto with = [&](const std::set<std::string>& some) {
    return mean([&](const std::map<std::string, double>& us) {
      double all = NOT_TIMED, kept = NOT_TIMED;
      for (const auto& [tile, timed] : us) {
        const bool shares = tile.find("_k") != std::string::npos;
        all = std::min(all, timed);
        if (!shares || some.contains(tile)) kept = std::min(kept, timed);
      }
      return kept / all;
    });
  };
  CHECK(with({}) == 1362);
  CHECK(with({"64x64_k8"}) == 1052);
  CHECK(with({"64x64_k2", "64x64_k8"}) == 1031);
  CHECK(with({"64x64_k2", "64x64_k4", "64x64_k8"}) == 1015);
  CHECK(with({"64x64_k2", "64x64_k4", "64x64_k8", "64x96_k4"}) == 1005);
  const auto narrow = [&](const std::string& tile) {
    return mean([&](const auto& us) { return us.at(tile) / us.at(tile + "_32"); });
  };
  CHECK(narrow("64x64_k8") == 857);
  CHECK(narrow("64x64_k4") == 985);
}

// docs/fused_tiles.md, "Between two heights", and docs/cost_model.md, "The tiles of rung 17".
TEST_CASE("trials: what tiles of rung 17 on their side are worth, and the pick among all") {
  const std::vector<FusedCall> calls = read_fused("h200.fused_side.csv");
  REQUIRE(calls.size() == 201);
  const auto is_in_table = [](const std::string& name) {
    const auto& table = tile::FUSED_CONFIGURATIONS;
    return std::any_of(std::begin(table), std::end(table),
                       [&](const tile::FusedTile& config) { return name == config.name; });
  };

  // Geometric mean, in thousandths, of the fastest upright tile and some of the others over the
  // fastest of all.
  const auto with = [&](const auto& some) {
    double logarithms = 0;
    for (const FusedCall& call : calls) {
      double all = NOT_TIMED, kept = NOT_TIMED;
      for (const auto& [name, us] : call.us) {
        all = std::min(all, us);
        if (!is_on_its_side(name) || some(name)) kept = std::min(kept, us);
      }
      logarithms += std::log(kept / all);
    }
    return std::lround(1000 * std::exp(logarithms / static_cast<double>(calls.size())));
  };
  const auto of = [](const std::set<std::string>& names) {
    return [names](const std::string& name) { return names.contains(name); };
  };
  CHECK(with(of({})) == 1040);
  CHECK(with(of({"128x80_side", "128x144_side"})) == 1026);
  CHECK(with(of({"64x96_side", "128x80_side", "128x112_side", "128x144_side"})) == 1019);
  CHECK(with(is_in_table) == 1006);

  // Of the calls from number `from` on, in thousandths: the pick over the fastest of the table, and
  // what is picked of the upright tiles over the pick.
  const auto check = [&](size_t from, size_t count, const std::array<long, 5>& thousandths,
                         int upright_not_timed) {
    CAPTURE(from);
    Distance distance;
    double logarithms = 0, most = 0, least = NOT_TIMED;
    int both = 0;  // are timed
    for (size_t i = from; i < from + count; ++i) {
      const FusedCall& call = calls[i];
      double clocks = tile::NEVER, upright_clocks = tile::NEVER;
      double pick = NOT_TIMED, upright = NOT_TIMED, fastest = NOT_TIMED;
      for (const tile::FusedTile& config : tile::FUSED_CONFIGURATIONS) {
        const double us = call.us.contains(config.name) ? call.us.at(config.name) : NOT_TIMED;
        const int ctas = config.split == 8 ? 15 * 8 : resident(config.cluster() * config.split);
        const int m = config.sideways ? call.n : call.m, n = config.sideways ? call.m : call.n;
        const double expected =
            tile::fused_clocks(config, m, n, call.k, ctas, H200.gpu, call.k, call.k);
        if (expected < clocks) pick = us;
        if (expected < upright_clocks && !config.sideways) upright = us;
        if (!config.sideways) upright_clocks = std::min(upright_clocks, expected);
        clocks = std::min(clocks, expected);
        fastest = std::min(fastest, us);
      }
      distance.add_if_timed(pick, fastest);
      if (pick == NOT_TIMED || upright == NOT_TIMED) continue;
      ++both;
      logarithms += std::log(upright / pick);
      most = std::max(most, upright / pick);
      least = std::min(least, upright / pick);
    }
    CHECK(distance.not_timed == 0);
    CHECK(std::lround(1000 * distance.mean()) == thousandths[0]);
    CHECK(std::lround(1000 * distance.worst) == thousandths[1]);
    CHECK(static_cast<int>(count) - both == upright_not_timed);
    CHECK(std::lround(1000 * std::exp(logarithms / both)) == thousandths[2]);
    CHECK(std::lround(1000 * most) == thousandths[3]);
    CHECK(std::lround(1000 * least) == thousandths[4]);
  };
  check(0, 142, {13, 166, 1035, 1404, 939}, 0);
  check(142, 59, {20, 244, 1025, 1299, 927}, 2);

  const auto row = [&](int m, int n, int k, const char* upright, const char* side) {
    const auto call = std::find_if(calls.begin(), calls.end(), [&](const FusedCall& each) {
      return each.m == m && each.n == n && each.k == k;
    });
    REQUIRE(call != calls.end());
    std::pair<double, std::string> best[2] = {{NOT_TIMED, ""}, {NOT_TIMED, ""}};
    for (const auto& [name, us] : call->us) {
      if (!is_on_its_side(name) || is_in_table(name)) {
        auto& of_kind = best[is_on_its_side(name)];
        of_kind = std::min(of_kind, {us, name});
      }
    }
    const auto text = [](const std::pair<double, std::string>& of) {
      return std::to_string(std::lround(10 * of.first)) + " " + of.second;
    };
    CHECK(text(best[0]) == upright);
    CHECK(text(best[1]) == side);
  };
  row(200, 13824, 5120, "542 128x224", "484 128x208_side");
  row(150, 28672, 4096, "801 192x96_1x4", "688 128x160_side");
  row(262, 27648, 5120, "1378 64x192", "1238 256x144_side");
  row(96, 6144, 4096, "185 64x128", "180 64x96_side");
  row(240, 8192, 8192, "500 128x128", "550 128x144_side");

  // What the model picks of the upright tiles over what it picks of all, where these differ.
  double logarithms[2] = {}, most[2] = {}, least[2] = {NOT_TIMED, NOT_TIMED};
  int count[2] = {};
  for (const std::vector<std::string>& cell : read_rows("h200.fused_side_picks.csv")) {
    REQUIRE(cell.size() == 9);
    const bool large = std::stoi(cell[0]) >= 1000;
    const double gain = std::stod(cell[6]) / std::stod(cell[8]);
    logarithms[large] += std::log(gain);
    most[large] = std::max(most[large], gain);
    least[large] = std::min(least[large], gain);
    ++count[large];
  }
  const auto picks = [&](bool large, const std::array<long, 4>& expected) {
    CHECK(count[large] == expected[0]);
    CHECK(std::lround(1000 * std::exp(logarithms[large] / count[large])) == expected[1]);
    CHECK(std::lround(1000 * most[large]) == expected[2]);
    CHECK(std::lround(1000 * least[large]) == expected[3]);
  };
  picks(false, {36, 1075, 1255, 859});
  picks(true, {17, 1036, 1135, 942});
}

// docs/fused_tiles.md, "Between two heights", and docs/cost_model.md, "The tiles of rung 17".
TEST_CASE("trials: what else was tried of tiles of rung 17 on their side") {
  const std::vector<FusedCall> calls = read_fused("h200.fused_side_tried.csv");
  CHECK(calls.size() == 133);
  std::set<std::string> share, whole;
  double logarithms = 0;
  for (const FusedCall& call : calls) {
    double upright = NOT_TIMED, all = NOT_TIMED;
    for (const auto& [name, us] : call.us) {
      if (name == "rung 12") continue;
      all = std::min(all, us);
      if (!is_on_its_side(name)) upright = std::min(upright, us);
      if (is_on_its_side(name)) (name.ends_with("_side") ? whole : share).insert(name);
    }
    logarithms += std::log(upright / all);
  }
  CHECK(share.size() == 24);
  CHECK(whole.size() == 13);
  CHECK(std::lround(1000 * std::exp(logarithms / static_cast<double>(calls.size()))) == 1033);

  // Rows outside of A left out, over the rung's own, two runs each.
  const auto rows = read_rows("h200.fused_side_rows.csv");
  double left_out = 0;
  for (const std::vector<std::string>& cell : rows) {
    REQUIRE(cell.size() == 8);
    const auto us = [&, &from = cell](size_t at) { return std::stod(from[at]); };
    left_out += std::log((us(6) + us(7)) / (us(4) + us(5)));
  }
  CHECK(rows.size() == 69);
  CHECK(std::lround(1000 * std::exp(left_out / static_cast<double>(rows.size()))) == 993);
}

// docs/scheduling.md, "An early start".
TEST_CASE("trials: when clusters that split K start early") {
  struct Sums {
    double early = 0, plain = 0, by_rule = 0;  // logarithms, over the faster of the two
    int launches = 0;
    std::array<long, 3> thousandths() const {
      const auto mean = [&](double sum) { return std::lround(1000 * std::exp(sum / launches)); };
      return {mean(early), mean(plain), mean(by_rule)};
    }
  } few, more;      // clusters: at most half of what the device holds
  double most = 0;  // that an early start loses
  for (const std::vector<std::string>& cell : read_rows("h200.split_early.csv")) {
    REQUIRE(cell.size() == 8);
    const int m = std::stoi(cell[2]), n = std::stoi(cell[3]), k = std::stoi(cell[4]);
    const int bn = cell[5].starts_with("64x128") ? 128 : 64, split = cell[5].back() - '0';
    const double early = std::stod(cell[6]), plain = std::stod(cell[7]);
    const int clusters = tile::ceil_div(m, 64) * tile::ceil_div(n, bn);
    const int at_once = split == 2 ? 66 : split == 4 ? 30 : 15;
    const int bytes = cell[1].starts_with("tf32") ? 4 : 2;
    const double least =
        tile::least_clocks(0.5 * bytes * m * n * k, 1.0 * bytes * k * (1.0 * m + n) + 2.0 * m * n,
                           clusters * split, H200.gpu);
    const bool starts = tile::starts_early(tile::crowding_of_split(clusters, at_once), least);
    const double faster = std::min(early, plain);
    Sums& sums = 2 * clusters <= at_once ? few : more;
    sums.early += std::log(early / faster);
    sums.plain += std::log(plain / faster);
    sums.by_rule += std::log((starts ? early : plain) / faster);
    ++sums.launches;
    most = std::max(most, early / plain);
  }
  CHECK(few.launches == 130);
  CHECK(more.launches == 283);
  CHECK(few.thousandths() == std::array<long, 3>{1000, 1223, 1000});
  CHECK(more.thousandths() == std::array<long, 3>{1019, 1109, 1007});
  CHECK(std::lround(1000 * most) == 1225);
}

// A tile of rung 13, and what its model says of it.
struct LayoutsTile {
  std::string name;  // "128x192"
  const tile::TypedTile* of;

  // Clusters that an H200 holds.
  int at_once() const {
    const int cluster = of->sharers() * of->split;
    return cluster == 8 ? 15 : cluster == 4 ? 30 : 132 / cluster;
  }
  // Of a call; `kernel` is the type and layout, as "bf16_NT".
  double clocks(const std::string& kernel, int m, int n, int k) const {
    const std::string layout = kernel.substr(kernel.size() - 2);
    const bool mn_a = layout[0] == 'N', mn_b = layout[1] == 'T';
    const int bytes = kernel.starts_with("tf32") ? 4 : 2;
    return tile::typed_clocks(*of, mn_a, bytes, m, n, k, mn_a ? m : k, mn_b ? n : k, at_once());
  }
};

// Those that `has` says.
template <class Has>
std::vector<LayoutsTile> layouts_tiles(const Has& has) {
  std::vector<LayoutsTile> tiles;
  for (const tile::TypedTile& each : tile::TYPED_TILES) {
    const std::string name = each.name;
    if (has(each.kernels)) tiles.push_back({name.empty() ? "128x256" : name.substr(1), &each});
  }
  return tiles;
}
bool is_of_all_types(tile::TypedKernels kernels) {
  return kernels == tile::TypedKernels::ALL;
}
const std::vector<LayoutsTile> LAYOUTS_TILES = layouts_tiles(is_of_all_types);

// By kernel, m, n, k; by tile.
using LayoutsCall = std::tuple<std::string, int, int, int>;
std::map<LayoutsCall, std::map<std::string, double>> read_layouts(const char* file) {
  std::map<LayoutsCall, std::map<std::string, double>> calls;
  for (const std::vector<std::string>& cell : read_rows(file)) {
    REQUIRE(cell.size() == 6);
    calls[{cell[0], std::stoi(cell[1]), std::stoi(cell[2]), std::stoi(cell[3])}][cell[4]] =
        std::stod(cell[5]);
  }
  return calls;
}

// docs/layout_tiles.md, "What they are worth".
TEST_CASE("trials: what tiles of rung 13 for few types are worth, and the pick among all") {
  struct Call {
    std::string kernel;
    int m, n, k;
    std::map<std::string, double> us;
  };
  const auto read_calls = [](const char* file) {
    std::vector<Call> calls;
    for (const std::vector<std::string>& cell : read_rows(file)) {
      REQUIRE(cell.size() == 6);
      const int m = std::stoi(cell[1]), n = std::stoi(cell[2]), k = std::stoi(cell[3]);
      const bool same = !calls.empty() && calls.back().kernel == cell[0] && calls.back().m == m &&
                        calls.back().n == n && calls.back().k == k;
      if (!same) calls.push_back({cell[0], m, n, k, {}});
      calls.back().us[cell[4]] = std::stod(cell[5]);
    }
    return calls;
  };
  const std::vector<Call> calls = read_calls("h200.layouts_between.csv");
  const std::vector<Call> of_mn_major_a = read_calls("h200.layouts_mn_major.csv");
  const std::vector<Call> of_k_major_a = read_calls("h200.layouts_k_major.csv");  // later ones
  const auto is_mn_major_a = [](const Call& call) { return call.kernel[5] == 'N'; };
  // Of the calls from one number to another with an M from one to another and a K-major A, or an
  // MN-major one, in thousandths: the pick over the fastest of the table, on average and at worst; and
  // the pick among the tiles of all types over that among all, geometric mean, most and least. Calls
  // whose picks were not timed are left out, as is counted.
  struct Rows {
    int from, to;
  };
  constexpr Rows FEW = {1, 64}, MORE = {65, 3000};
  const auto check = [&](const std::vector<Call>& of, size_t from, size_t to, Rows rows, int shapes,
                         const std::array<long, 5>& thousandths, int not_timed) {
    const bool mn_major_a = &of == &of_mn_major_a;
    CAPTURE(from);
    CAPTURE(rows.from);
    CAPTURE(mn_major_a);
    using tile::TypedKernels;
    const std::vector<LayoutsTile> tiles = layouts_tiles([&](TypedKernels kernels) {
      return kernels != (mn_major_a ? TypedKernels::K_MAJOR_A : TypedKernels::MN_MAJOR_A);
    });
    Distance distance;
    double gained = 0, most = 0, least_gained = NOT_TIMED;
    for (size_t i = from; i < to; ++i) {
      const auto& [kernel, m, n, k, us] = of[i];
      if (is_mn_major_a(of[i]) != mn_major_a || m < rows.from || m > rows.to) continue;
      double least = tile::NEVER, least_of_all_types = tile::NEVER, fastest = NOT_TIMED;
      double pick = NOT_TIMED, pick_of_all_types = NOT_TIMED;
      for (const LayoutsTile& tile : tiles) {
        const double timed = us.contains(tile.name) ? us.at(tile.name) : NOT_TIMED;
        const double clocks = tile.clocks(kernel, m, n, k);
        const bool of_all_types = is_of_all_types(tile.of->kernels);
        if (clocks < least) pick = timed;
        if (of_all_types && clocks < least_of_all_types) pick_of_all_types = timed;
        if (of_all_types) least_of_all_types = std::min(least_of_all_types, clocks);
        least = std::min(least, clocks);
        fastest = std::min(fastest, timed);
      }
      const bool both = pick != NOT_TIMED && pick_of_all_types != NOT_TIMED;
      distance.add_if_timed(both ? pick : NOT_TIMED, fastest);
      if (!both) continue;
      gained += std::log(pick_of_all_types / pick);
      most = std::max(most, pick_of_all_types / pick);
      least_gained = std::min(least_gained, pick_of_all_types / pick);
    }
    CHECK(distance.shapes == shapes);
    CHECK(distance.not_timed == not_timed);
    CHECK(std::lround(1000 * distance.mean()) == thousandths[0]);
    CHECK(std::lround(1000 * distance.worst) == thousandths[1]);
    CHECK(std::lround(1000 * std::exp(gained / distance.shapes)) == thousandths[2]);
    CHECK(std::lround(1000 * most) == thousandths[3]);
    CHECK(std::lround(1000 * least_gained) == thousandths[4]);
  };
  REQUIRE(calls.size() == 775);
  // First those to which the clocks were fitted, then those that were drawn later.
  check(calls, 0, 453, MORE, 353, {14, 458, 1053, 1865, 744}, 100);
  check(calls, 552, 711, MORE, 71, {11, 85, 1041, 1844, 922}, 9);
  check(calls, 711, 775, FEW, 30, {23, 181, 1004, 1073, 1000}, 2);
  REQUIRE(of_k_major_a.size() == 810);
  std::set<std::string> chosen_among;
  double slowest_of_pairs = 0;  // 64x96 on its side in pairs over the same in fours
  for (size_t i = 0; i < of_k_major_a.size(); ++i) {
    const std::map<std::string, double>& us = of_k_major_a[i].us;
    for (const auto& each : us) {
      if (i < 556) chosen_among.insert(each.first);
    }
    if (!us.contains("64x96_side_2x1") || !us.contains("64x96_side_4x1")) continue;
    slowest_of_pairs =
        std::max(slowest_of_pairs, us.at("64x96_side_2x1") / us.at("64x96_side_4x1"));
  }
  chosen_among.erase("64x96_side_2x1");  // which had been in the rung
  for (const LayoutsTile& tile : layouts_tiles([](tile::TypedKernels) { return true; })) {
    chosen_among.erase(tile.name);
  }
  CHECK(chosen_among.size() + 4 == 45);
  CHECK(std::lround(10 * slowest_of_pairs) == 15);
  check(of_k_major_a, 0, 556, MORE, 386, {12, 214, 1026, 1694, 824}, 63);
  check(of_k_major_a, 0, 556, FEW, 91, {12, 161, 1008, 1119, 955}, 16);
  check(of_k_major_a, 556, 810, MORE, 116, {20, 343, 1020, 1409, 900}, 21);
  check(of_k_major_a, 556, 810, FEW, 99, {16, 223, 1004, 1143, 818}, 18);
  REQUIRE(of_mn_major_a.size() == 712);
  check(of_mn_major_a, 0, 593, MORE, 363, {18, 339, 1066, 1576, 845}, 149);
  check(of_mn_major_a, 0, 593, FEW, 60, {18, 214, 1000, 1048, 980}, 21);
  check(of_mn_major_a, 593, 712, MORE, 93, {21, 195, 1068, 1426, 837}, 8);
  check(of_mn_major_a, 593, 712, FEW, 12, {22, 211, 1000, 1000, 1000}, 6);
  // Beside cuBLASLt.
  std::map<LayoutsCall, double> shares;
  double shares_logarithms = 0;
  for (const std::vector<std::string>& cell : read_rows("h200.layouts_k_major_rows.csv")) {
    REQUIRE(cell.size() == 7);
    const double share = std::stod(cell[5]) / std::stod(cell[6]);
    shares[{cell[0], std::stoi(cell[1]), std::stoi(cell[2]), std::stoi(cell[3])}] = share;
    shares_logarithms += std::log(share);
  }
  CHECK(shares.size() == 33);
  CHECK(std::lround(1000 * std::exp(shares_logarithms / 33)) == 956);
  CHECK(std::lround(100 * shares[{"bf16_TN", 1184, 1024, 2048}]) == 73);
  CHECK(std::lround(100 * shares[{"bf16_TN", 48, 5272, 3600}]) == 75);
  CHECK(std::count_if(shares.begin(), shares.end(),
                      [](const auto& each) { return each.second < 0.76; }) == 2);
  // Where the model would take 64x256 for a K-major A, if there were any: over the fastest other.
  double tall = 0;
  int picks = 0;
  for (size_t i = 552; i < 775; ++i) {
    const auto& [kernel, m, n, k, us] = calls[i];
    if (is_mn_major_a(calls[i])) continue;
    const auto tiles = layouts_tiles([](tile::TypedKernels) { return true; });
    const auto pick = std::min_element(
        tiles.begin(), tiles.end(), [&](const LayoutsTile& one, const LayoutsTile& other) {
          return one.clocks(kernel, m, n, k) < other.clocks(kernel, m, n, k);
        });
    if (pick->name != "64x256") continue;
    double other = NOT_TIMED;
    for (const auto& [name, timed] : us) {
      if (name != "64x256") other = std::min(other, timed);
    }
    tall += std::log(us.at("64x256") / other);
    ++picks;
  }
  CHECK(picks == 5);
  CHECK(std::lround(1000 * std::exp(tall / picks)) == 1028);
  const auto tenths = [&](const std::string& kernel, int m, int n, int k, const char* tile) {
    const std::vector<Call>& of = kernel[5] == 'N' ? of_mn_major_a : calls;
    const auto call = std::find_if(of.begin(), of.end(), [&](const Call& each) {
      return each.kernel == kernel && each.m == m && each.n == n && each.k == k;
    });
    REQUIRE(call != of.end());
    return std::lround(10 * call->us.at(tile));
  };
  CHECK(tenths("bf16_TN", 180, 6144, 4096, "128x128") == 337);
  CHECK(tenths("bf16_TN", 180, 6144, 4096, "64x192") == 207);
  CHECK(tenths("bf16_TN", 180, 6144, 4096, "128x112_side") == 283);
  CHECK(tenths("bf16_TN", 180, 6144, 4096, "128x96_side_2x2") == 195);
  CHECK(tenths("bf16_TN", 200, 13824, 5120, "128x256") == 574);
  CHECK(tenths("bf16_TN", 200, 13824, 5120, "128x208_side") == 478);
  CHECK(tenths("bf16_TN", 200, 13824, 5120, "128x208_side_2x1") == 473);
  CHECK(tenths("bf16_TN", 150, 28672, 4096, "64x192") == 791);
  CHECK(tenths("bf16_TN", 150, 28672, 4096, "128x160_side") == 679);
  CHECK(tenths("bf16_TN", 150, 28672, 4096, "128x160_side_4x1") == 665);
  CHECK(tenths("bf16_TN", 300, 4096, 4096, "128x128") == 233);
  CHECK(tenths("bf16_TN", 300, 4096, 4096, "64x192") == 209);
  CHECK(tenths("bf16_TN", 300, 4096, 4096, "128x112_side") == 239);
  CHECK(tenths("bf16_NT", 180, 6144, 4096, "64x192") == 266);
  CHECK(tenths("bf16_NT", 180, 6144, 4096, "128x96_side") == 325);
  CHECK(tenths("bf16_NT", 180, 6144, 4096, "128x112_side_2x2") == 222);
  CHECK(tenths("bf16_NN", 150, 28672, 4096, "128x256") == 968);
  CHECK(tenths("bf16_NN", 150, 28672, 4096, "64x256") == 917);
  CHECK(tenths("bf16_NN", 150, 28672, 4096, "128x160_side") == 1045);
  CHECK(tenths("bf16_NN", 150, 28672, 4096, "128x160_side_4x1") == 717);

  // Of an MN-major A: the fastest upright tile over the fastest of all that were tried, without a
  // cluster and with one.
  const auto upright_over_all = [](const std::map<std::string, double>& us) {
    double upright = NOT_TIMED, all = NOT_TIMED;
    for (const auto& [name, timed] : us) {
      all = std::min(all, timed);
      if (!is_on_its_side(name)) upright = std::min(upright, timed);
    }
    return upright / all;
  };
  double logarithms = 0, in_clusters = 0, most = 0;
  const auto tried = read_layouts("h200.layouts_side_tried.csv");
  CHECK(tried.size() == 66);
  for (const auto& [call, us] : tried) logarithms += std::log(upright_over_all(us));
  CHECK(std::lround(1000 * std::exp(logarithms / 66)) == 1012);
  for (size_t i = 0; i < 116; ++i) {
    const double times = upright_over_all(of_mn_major_a[i].us);
    in_clusters += std::log(times);
    most = std::max(most, times);
  }
  CHECK(std::lround(1000 * std::exp(in_clusters / 116)) == 1060);
  CHECK(std::lround(1000 * most) == 1372);
}

// docs/layout_tiles.md, "What the choice is worth".
TEST_CASE("trials: the pick of rung 13's tiles that leave K whole is near the best one") {
  const std::string newest = "128x192", beside = "128x512";  // the H100's trials lack the newest
  struct Pair {
    long mean, worst;
  };
  // In thousandths: the pick over the fastest, on average and at worst; of few rows what the large
  // tile takes over the pick; what the fastest takes without 128x512, and without 128x192, over that
  // of all; and that of all over what it would be with 64x192.
  const auto check = [&](const char* file, int shapes, int of_few, Pair picks, long few_rows,
                         Pair without_beside, Pair without_newest, Pair tried) {
    CAPTURE(file);
    Distance distance, of_beside, of_newest, of_tried;
    double gained = 0;
    int few = 0;
    for (const auto& [call, us] : read_layouts(file)) {
      const auto& [kernel, m, n, k] = call;
      const bool all = us.contains(newest), with_tried = us.contains("64x192");
      REQUIRE(us.size() == (with_tried ? 7 : all ? 6 : 5));
      double least = tile::NEVER, fastest = NOT_TIMED;
      double but_beside = NOT_TIMED, but_newest = NOT_TIMED;
      const LayoutsTile* pick = nullptr;
      for (const LayoutsTile& tile : LAYOUTS_TILES) {
        if (!us.contains(tile.name)) continue;
        const double clocks = tile.clocks(kernel, m, n, k);
        if (clocks < least) pick = &tile;
        least = std::min(least, clocks);
        fastest = std::min(fastest, us.at(tile.name));
        if (tile.name != beside) but_beside = std::min(but_beside, us.at(tile.name));
        if (tile.name != newest) but_newest = std::min(but_newest, us.at(tile.name));
      }
      distance.add(us.at(pick->name), fastest);
      of_beside.add(but_beside, fastest);
      if (all) of_newest.add(but_newest, fastest);
      if (with_tried) of_tried.add(fastest, std::min(fastest, us.at("64x192")));
      if (m > 128) continue;
      gained += std::log(us.at("128x256") / us.at(pick->name));
      ++few;
    }
    const auto is = [](const Distance& found, Pair expected) {
      CHECK(std::lround(1000 * found.mean()) == expected.mean);
      CHECK(std::lround(1000 * found.worst) == expected.worst);
    };
    CHECK(distance.shapes == shapes);
    CHECK(few == of_few);
    is(distance, picks);
    if (few > 0) CHECK(std::lround(1000 * std::exp(gained / few)) == few_rows);
    is(of_beside, without_beside);
    if (of_newest.shapes == 0) return;
    is(of_newest, without_newest);
    is(of_tried, tried);
  };
  check("h100.layouts.csv", 241, 107, {9, 296}, 1975, {15, 442}, {}, {});
  check("h100.layouts_rows.csv", 109, 0, {21, 260}, 0, {11, 311}, {}, {});
  check("h200.layouts.csv", 241, 107, {9, 105}, 2433, {11, 519}, {14, 334}, {6, 136});
  check("h200.layouts_rows.csv", 109, 0, {20, 154}, 0, {4, 160}, {33, 326}, {4, 146});
  check("h200.layouts_drawn.csv", 136, 20, {19, 295}, 2696, {2, 115}, {24, 407}, {8, 157});
}

// docs/layout_tiles.md, "What the choice is worth".
TEST_CASE("trials: the pick of all of rung 13's tiles, where CTAs may share K") {
  const auto calls = read_layouts("h200.layouts_split.csv");
  const auto few = read_layouts("h200.layouts.csv"), drawn = read_layouts("h200.layouts_drawn.csv");
  const auto is_narrow = [&](const LayoutsCall& call) {
    return !few.contains(call) && !drawn.contains(call);
  };
  struct Found {
    Distance distance;
    double logarithms = 0, most = 0, least = NOT_TIMED;  // of the pick of six over that of nine
  };
  const auto find = [&](const auto& is_one) {
    Found found;
    for (const auto& [call, us] : calls) {
      if (!is_one(call)) continue;
      REQUIRE(us.size() == std::size(LAYOUTS_TILES));
      double least = tile::NEVER, least_of_six = tile::NEVER, fastest = NOT_TIMED;
      double pick = 0, pick_of_six = 0;
      for (const LayoutsTile& tile : LAYOUTS_TILES) {
        const auto& [kernel, m, n, k] = call;
        const double clocks = tile.clocks(kernel, m, n, k), timed = us.at(tile.name);
        if (clocks < least) pick = timed;
        if (tile.of->split == 1 && clocks < least_of_six) pick_of_six = timed;
        if (tile.of->split == 1) least_of_six = std::min(least_of_six, clocks);
        least = std::min(least, clocks);
        fastest = std::min(fastest, timed);
      }
      found.distance.add(pick, fastest);
      found.logarithms += std::log(pick_of_six / pick);
      found.most = std::max(found.most, pick_of_six / pick);
      found.least = std::min(found.least, pick_of_six / pick);
    }
    return found;
  };
  // In thousandths.
  const auto check = [&](const auto& is_one, int shapes, long mean, long worst, long gain,
                         long most, long least) {
    const Found found = find(is_one);
    CHECK(found.distance.shapes == shapes);
    CHECK(std::lround(1000 * found.distance.mean()) == mean);
    CHECK(std::lround(1000 * found.distance.worst) == worst);
    CHECK(std::lround(1000 * std::exp(found.logarithms / shapes)) == gain);
    CHECK(std::lround(1000 * found.most) == most);
    CHECK(std::lround(1000 * found.least) == least);
  };
  check(is_narrow, 210, 12, 200, 1568, 5557, 833);
  check([&](const LayoutsCall& call) { return few.contains(call); }, 60, 22, 145, 1027, 1237, 876);
  check([&](const LayoutsCall& call) { return drawn.contains(call); }, 35, 12, 135, 1153, 1787,
        881);

  // Beyond 132 tiles of 64x64 none that shares K is picked.
  for (const auto* others : {&few, &drawn}) {
    for (const auto& [call, us] : *others) {
      const auto& [kernel, m, n, k] = call;
      if (std::ceil(m / 64.0) * std::ceil(n / 64.0) <= 132) {
        CHECK(calls.contains(call));
        continue;
      }
      CHECK(!calls.contains(call));
      const auto less = [&](const LayoutsTile& one, const LayoutsTile& other) {
        return one.clocks(kernel, m, n, k) < other.clocks(kernel, m, n, k);
      };
      CHECK(std::min_element(std::begin(LAYOUTS_TILES), std::end(LAYOUTS_TILES), less)->of->split ==
            1);
    }
  }

  // What sharing K is worth, by tiles of 64x64.
  const auto gain = [&](int from, int to, int shapes) {
    CAPTURE(from);
    double logarithms = 0;
    int count = 0;
    for (const auto& [call, us] : calls) {
      const auto& [kernel, m, n, k] = call;
      const double tiles = std::ceil(m / 64.0) * std::ceil(n / 64.0);
      if (!is_narrow(call) || tiles < from || tiles > to) continue;
      double all = NOT_TIMED, six = NOT_TIMED;
      for (const LayoutsTile& tile : LAYOUTS_TILES) {
        all = std::min(all, us.at(tile.name));
        if (tile.of->split == 1) six = std::min(six, us.at(tile.name));
      }
      logarithms += std::log(all / six);
      ++count;
    }
    CHECK(count == shapes);
    return std::lround(1000 * std::exp(logarithms / count));
  };
  CHECK(gain(1, 32, 154) == 554);
  CHECK(gain(33, 66, 37) == 872);
  CHECK(gain(67, 100000, 19) == 996);

  // What a tile that was tried would add.
  const auto tried = read_layouts("h200.layouts_split_tried.csv");
  double logarithms = 0;
  for (const auto& [call, us] : tried) {
    REQUIRE(us.size() == 1);
    double kept = NOT_TIMED;
    for (const LayoutsTile& tile : LAYOUTS_TILES)
      kept = std::min(kept, calls.at(call).at(tile.name));
    const double all = std::min(kept, us.at("64x64_k4"));
    CHECK(is_narrow(call));
    logarithms += std::log(kept / all);
  }
  CHECK(tried.size() == 210);
  CHECK(std::lround(1000 * std::exp(logarithms / 210)) == 1007);

  const auto tenths = [&](int n, int k, const char* tile) {
    return std::lround(10 * calls.at({"fp16_TN", 64, n, k}).at(tile));
  };
  CHECK(tenths(576, 7168, "64x64") == 134);
  CHECK(tenths(576, 7168, "64x64_k8") == 66);
  CHECK(tenths(1024, 8192, "64x64") == 151);
  CHECK(tenths(1024, 8192, "64x128_k4") == 98);
}

// docs/layout_tiles.md, "A number kept".
TEST_CASE("trials: what it is worth to keep a thread's number in registers") {
  std::map<std::string, std::vector<double>> after;  // over before, by rung
  for (const std::vector<std::string>& cell : read_rows("h200.kept.csv")) {
    REQUIRE(cell.size() == 8);
    const double before_us = std::stod(cell[6]), after_us = std::stod(cell[7]);
    after[cell[0]].push_back(after_us / before_us);
    if (cell[1] == "fp16_TN" && cell[2] == "64" && cell[3] == "1024" && cell[4] == "8192" &&
        cell[5] == "64x64") {
      CHECK(std::lround(10 * before_us) == 181);
      CHECK(std::lround(10 * after_us) == 151);
    }
  }
  const auto mean = [&](const char* rung) {
    double logarithms = 0;
    for (const double ratio : after[rung]) logarithms += std::log(ratio);
    return std::lround(1000 * std::exp(logarithms / static_cast<double>(after[rung].size())));
  };
  CHECK(after["13"].size() == 3 * 305);
  CHECK(mean("13") == 949);
  CHECK(mean("12") == 1004);
  CHECK(mean("17") == 997);
  const auto [best, worst] = std::minmax_element(after["13"].begin(), after["13"].end());
  CHECK(std::lround(1000 * *best) == 722);
  CHECK(std::lround(1000 * *worst) == 1220);
}

// docs/sums.md, "Tile after tile".
TEST_CASE("trials: what a cluster barrier at the end costs tiles whose K is shared") {
  std::map<std::string, std::vector<double>> before;  // over after, by rung
  std::vector<double> all;
  for (const std::vector<std::string>& cell : read_rows("h200.endings.csv")) {
    REQUIRE(cell.size() == 7);
    all.push_back(std::stod(cell[5]) / std::stod(cell[6]));
    before[cell[0]].push_back(all.back());
  }
  const auto mean = [&](const char* rung) {
    double logarithms = 0;
    for (const double ratio : before[rung]) logarithms += std::log(ratio);
    return std::lround(1000 * std::exp(logarithms / static_cast<double>(before[rung].size())));
  };
  CHECK(before["13"].size() == 36);
  CHECK(before["17"].size() == 36);
  CHECK(mean("13") == 1028);
  CHECK(mean("17") == 1027);
  const auto [least, most] = std::minmax_element(all.begin(), all.end());
  CHECK(std::lround(100 * *least) == 98);
  CHECK(std::lround(100 * *most) == 110);
}

// docs/layout_tiles.md, "A width between".
TEST_CASE("trials: what a fourth slot is worth to rung 13's 128x192") {
  struct Sums {
    double three = 0, four = 0;
    int calls = 0;
  } of_tf32, of_others;
  for (const std::vector<std::string>& cell : read_rows("h200.layouts_slots.csv")) {
    REQUIRE(cell.size() == 8);
    Sums& sums = cell[0].starts_with("tf32") ? of_tf32 : of_others;
    sums.three += std::log(std::stod(cell[5]) / std::stod(cell[4]));
    sums.four += std::log(std::stod(cell[7]) / std::stod(cell[6]));
    ++sums.calls;
  }
  const auto check = [](const Sums& sums, int calls, long three, long four) {
    CHECK(sums.calls == calls);
    CHECK(std::lround(100 * std::exp(sums.three / sums.calls)) == three);
    CHECK(std::lround(100 * std::exp(sums.four / sums.calls)) == four);
  };
  check(of_others, 80, 96, 88);
  check(of_tf32, 59, 101, 89);
  const auto rows = read_rows("h200.layouts_rows.csv");
  const auto us = [&](const std::string& tile) {
    for (const std::vector<std::string>& cell : rows) {
      if (cell[0] == "bf16_NT" && cell[1] == "3016" && cell[2] == "3072" && cell[3] == "3072" &&
          cell[4] == tile) {
        return std::lround(std::stod(cell[5]));
      }
    }
    return 0L;
  };
  CHECK(us("128x256") == 103);
  CHECK(us("128x192") == 80);
}

// docs/layout_tiles.md, "Two CTAs side by side".
TEST_CASE("trials: what rung 13 gains by two CTAs side by side") {
  std::map<std::tuple<std::string, int, int, int>, std::map<std::string, double>> calls;
  for (const std::vector<std::string>& cell : read_rows("h200.layouts_beside.csv")) {
    REQUIRE(cell.size() == 6);
    calls[{cell[0], std::stoi(cell[1]), std::stoi(cell[2]), std::stoi(cell[3])}][cell[4]] =
        std::stod(cell[5]);
  }
  Distance without;
  for (const auto& [call, us] : calls) {
    double others = us.at("128x256");
    if (us.contains("128x128")) others = std::min(others, us.at("128x128"));
    without.add(others, std::min(others, us.at("128x512")));
  }
  CHECK(without.shapes == 350);
  CHECK(std::lround(1000 * without.mean()) == 28);
  CHECK(std::lround(100 * without.worst) == 37);
  const auto& call = calls.at({"fp16_TN", 1350, 6144, 4096});
  CHECK(std::lround(call.at("128x256")) == 128);
  CHECK(std::lround(call.at("128x512")) == 91);
}

// docs/layout_tiles.md, "An early start".
TEST_CASE("trials: what rung 13 gains by early starts") {
  struct Times {
    double logarithms = 0, least = tile::NEVER, most = 0;
    int calls = 0;
  } by_time[3];  // below 10 us, below 25 us, others
  for (const std::vector<std::string>& cell : read_rows("h200.layouts_early.csv")) {
    REQUIRE(cell.size() == 7);
    const double plain = std::stod(cell[5]), ratio = plain / std::stod(cell[6]);
    Times& of = by_time[plain < 10 ? 0 : plain < 25 ? 1 : 2];
    of.logarithms += std::log(ratio);
    of.least = std::min(of.least, ratio);
    of.most = std::max(of.most, ratio);
    ++of.calls;
  }
  const auto check = [](const Times& of, int calls, long mean, long least, long most) {
    CHECK(of.calls == calls);
    CHECK(std::lround(1000 * std::exp(of.logarithms / of.calls)) == mean);
    CHECK(std::lround(100 * of.least) == least);
    CHECK(std::lround(100 * of.most) == most);
  };
  check(by_time[0], 11, 1153, 105, 130);
  check(by_time[1], 45, 1033, 93, 124);
  check(by_time[2], 100, 1000, 92, 114);
}

// docs/layout_tiles.md, "No cluster of one".
TEST_CASE("trials: what rung 13's tiles of one CTA gain by having no cluster") {
  std::map<std::tuple<std::string, int, int, int>, std::map<std::string, double>> calls;
  for (const std::vector<std::string>& cell : read_rows("h100.layouts_trials.csv")) {
    REQUIRE(cell.size() == 7);
    calls[{cell[0], std::stoi(cell[1]), std::stoi(cell[2]), std::stoi(cell[3])}]
         [cell[4] + " " + cell[5]] = std::stod(cell[6]);
  }
  // How many times as long the first takes as the second, in hundredths, where `counts`.
  const auto ratio = [&](const std::string& first, const std::string& second, const auto& counts) {
    double logarithms = 0;
    int both = 0;
    for (const auto& [call, us] : calls) {
      const auto& [kernel, m, n, k] = call;
      if (!us.contains(first) || !us.contains(second) || !counts(m, n, k)) continue;
      logarithms += std::log(us.at(first) / us.at(second));
      ++both;
    }
    REQUIRE(both > 20);
    return std::lround(100 * std::exp(logarithms / both));
  };
  const auto some_hundred = [](int m, int, int) { return m > 64 && m <= 600; };
  CHECK(ratio("64x64 cluster of one", "64x64 alone", some_hundred) == 122);
  CHECK(ratio("64x128 cluster of one", "64x128 alone", some_hundred) == 127);
  const auto on_lines = [](int m, int n, int k) { return m % 64 + n % 64 + k % 64 == 0; };
  const auto between = [](int, int n, int k) { return n % 64 + k % 64 != 0; };
  CHECK(ratio("128x128 pair", "128x128 alone: sweeps of 8", on_lines) == 114);
  CHECK(ratio("128x128 alone: sweeps of 8", "128x128 pair", between) == 107);
  const auto& call = calls.at({"bf16_TN", 256, 4096, 14336});
  CHECK(std::lround(10 * call.at("64x128 cluster of one")) == 816);
  CHECK(std::lround(10 * call.at("64x128 alone")) == 523);
}
