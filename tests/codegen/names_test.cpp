// Kernels are named by what they compute: a row that is added to the table of configurations, or
// moved in it, changes no other kernel's name.
#include <doctest/doctest.h>

#include <iterator>
#include <map>
#include <set>
#include <string>

#include "common/tile/configurations.h"
#include "tests/codegen/build_products.h"

using namespace codegen;

namespace {

// The part of a mangled name that the numbers of a configuration become.
std::string mangled_tile(const tile::GemmConfig& c) {
  std::string text = "TileI";
  for (const int number : {c.consumers, c.blocks, c.bn, c.cluster_m, c.cluster_n}) {
    text += "Li" + std::to_string(number) + "E";
  }
  return text + "E";
}

}  // namespace

TEST_CASE("a configuration's kernel is named by its numbers, not by its place in the table") {
  std::map<std::string, std::string> kernels;  // configuration -> mangled name
  for (const Variant& v : list_variants()) {
    if (v.configuration) kernels[v.name] = v.kernel;
  }
  std::set<std::string> different;
  for (const tile::GemmConfig& c : tile::CONFIGURATIONS) {
    CAPTURE(c.name);
    REQUIRE(kernels.count(c.name) == 1);
    CHECK_MESSAGE(kernels[c.name].find(mangled_tile(c)) != std::string::npos, kernels[c.name]);
    different.insert(kernels[c.name]);
  }
  CHECK(different.size() == std::size(tile::CONFIGURATIONS));
}
