// What an H200's tensor cores kept of sums, tests/golden/sums.txt, is what the rule of tests/golden/sums.h
// says, bit for bit.
#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "common/host/tolerance.h"
#include "tests/doctest_main.h"
#include "tests/golden/sums.h"

using sums::Kind;
using sums::Type;

TEST_CASE("sums: the tensor cores keep of them what the rule says") {
  std::ifstream file("tests/golden/sums.txt");
  int probes = 0;
  std::string hash, line;
  for (const Type type : {Type::e4m3, Type::bf16, Type::fp16, Type::tf32, Type::s8}) {
    for (int kind = 0; kind < sums::KINDS; ++kind) {
      for (uint64_t seed = 1; seed <= sums::SEEDS; ++seed) {
        REQUIRE(std::getline(file, line));
        CAPTURE(line);
        const sums::Probe probe = make_probe(type, static_cast<Kind>(kind), seed);
        char want[128];
        std::snprintf(want, sizeof want, "%s %s %llu %016llx",
                      sums::TYPE_NAMES[static_cast<int>(type)], sums::KIND_NAMES[kind],
                      static_cast<unsigned long long>(seed),
                      static_cast<unsigned long long>(sums::hash_of(expected(probe))));
        CHECK(line == want);
        ++probes;
      }
    }
  }
  CHECK_FALSE(std::getline(file, line));
  ladder_test::note(std::to_string(probes * sums::ROWS * sums::COLS) + " sums");
}

TEST_CASE("sums: the rule's sums are within the bound of e4m3 sums, which is not far from them") {
  long long all = 0;
  double share = 0, bounds = 0, errors = 0;
  for (const Kind kind : {Kind::dense, Kind::onto_c, Kind::positive}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const sums::Probe probe = make_probe(Type::e4m3, kind, seed);
      const std::vector<uint32_t> d = expected(probe);
      for (int i = 0; i < sums::ROWS * sums::COLS; ++i, ++all) {
        const double c = std::bit_cast<float>(probe.c[static_cast<size_t>(i)]);
        double sum = c, largest = 0;
        int signs = 0;
        for (int k = 0; k < 32; ++k) {
          const double product =
              number_of(Type::e4m3, probe.a[static_cast<size_t>(i / sums::COLS * 32 + k)]).value *
              number_of(Type::e4m3, probe.b[static_cast<size_t>(i % sums::COLS * 32 + k)]).value;
          sum += product;
          largest = std::max(largest, std::abs(product));
          signs += (product > 0) - (product < 0);
        }
        ladder::E4m3Loss loss;
        loss.add(1, largest, signs, c, sum);
        const double error = sum - std::bit_cast<float>(d[static_cast<size_t>(i)]);
        share = std::max(share, std::abs(error) / loss.bound());
        bounds += loss.bound();
        errors += std::abs(error);
      }
    }
  }
  CHECK(share < 1);
  CHECK(share > 0.1);
  ladder_test::note(std::to_string(all) + " sums, the largest error is " + std::to_string(share) +
                    " of its bound, the mean one " + std::to_string(errors / bounds));
}
