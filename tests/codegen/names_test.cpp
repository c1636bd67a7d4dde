// Kernels are named by what they compute: a row that is added to the table of configurations, or
// moved in it, changes no other kernel's name.
#include <doctest/doctest.h>

#include <initializer_list>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/tile/configurations.h"
#include "common/tile/shared_k.h"
#include "tests/codegen/build_products.h"

using namespace codegen;

namespace {

// The part of a mangled name that the numbers of a tile become.
std::string mangled_tile(std::initializer_list<int> numbers) {
  std::string text = "TileI";
  for (const int number : numbers) text += "Li" + std::to_string(number) + "E";
  return text + "E";
}

std::string mangled_tile(const tile::GemmConfig& c) {
  const std::string tile = mangled_tile({c.consumers, c.blocks, c.bn, c.cluster_m, c.cluster_n});
  return (c.sideways ? "SidewaysINS_4" : "gemmINS_4") + tile;
}

// Rows that differ in what they share are the same kernel, but for those of cut tiles; which way these
// lie only the kernel knows that adds them up, by an argument.
std::string mangled_tile(const tile::SharedK& c) {
  const std::string whole =
      mangled_tile({c.consumers, c.blocks, c.bn, c.cluster_m, c.cluster_n, c.split, c.ctas});
  return (c.share == tile::Share::cut ? "CutINS_4" : "gemmINS_4") + whole;
}

template <class Table>
void check_names(const std::string& stem, const Table& table) {
  std::map<std::string, std::string> kernels;  // configuration -> mangled name
  for (const Variant& v : list_variants()) {
    if (v.stem == stem && v.configuration) kernels[v.name] = v.kernel;
  }
  CHECK(kernels.size() == std::size(table));
  std::set<std::string> different, tiles;
  for (const auto& c : table) {
    const std::string name = c.name;
    CAPTURE(name);
    REQUIRE(kernels.count(name) == 1);
    CHECK_MESSAGE(kernels[name].find(mangled_tile(c)) != std::string::npos, kernels[name]);
    different.insert(kernels[name]);
    tiles.insert(mangled_tile(c));
  }
  CHECK(different.size() == tiles.size());
}

}  // namespace

TEST_CASE("a configuration's kernel is named by its numbers, not by its place in the table") {
  std::vector<tile::GemmConfig> rung_11(std::begin(tile::CONFIGURATIONS),
                                        std::end(tile::CONFIGURATIONS));
  rung_11.insert(rung_11.end(), std::begin(tile::LATER), std::end(tile::LATER));
  check_names("11_autotuned", rung_11);
  std::vector<tile::SharedK> rung_12(std::begin(tile::SHARED_K), std::end(tile::SHARED_K));
  rung_12.insert(rung_12.end(), std::begin(tile::UPRIGHT), std::end(tile::UPRIGHT));
  check_names("12_stream_k", rung_12);
}
