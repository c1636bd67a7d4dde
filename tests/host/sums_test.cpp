// What an H200's tensor cores kept of sums, tests/golden/sums.txt, is what the rule of tests/golden/sums.h
// says, bit for bit.
#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "common/host/data.h"
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

TEST_CASE("sums: what a long chain of bf16 sums loses is more than 2^-20 s, and within its bound") {
  constexpr int K = 76416, SUMS = 64;  // 4,776 wgmma one after the other
  constexpr int STEP = sums::k_of(Type::bf16);
  const auto normal = [](uint64_t index) {  // as bf16
    const float value = ladder::data_value(ladder::Data::normal, 1, index);
    return std::bit_cast<uint32_t>(value) >> 16;
  };
  double worst = 0;
  for (uint64_t sum = 0; sum < SUMS; ++sum) {
    uint32_t d = 0, a[STEP], b[STEP];
    double r = 0, s = 0;
    for (uint64_t k = 0; k < K; k += STEP) {
      for (uint64_t i = 0; i < STEP; ++i) {
        a[i] = normal((sum * K + k + i) * 2);
        b[i] = normal((sum * K + k + i) * 2 + 1);
        const double product =
            number_of(Type::bf16, a[i]).value * number_of(Type::bf16, b[i]).value;
        r += product;
        s += std::abs(product);
      }
      d = sum_of(Type::bf16, a, b, d);
    }
    worst = std::max(worst, std::abs(r - std::bit_cast<float>(d)) / s);
  }
  CHECK(worst > 0x1p-20);
  CHECK(worst <= 0x1p-20 * ladder::losses_of_chain(K));
  CHECK(ladder::losses_of_chain(4096) == 1);
  CHECK(ladder::losses_of_chain(16384) == 2);
  ladder_test::note(std::to_string(worst * 0x1p20) + " * 2^-20 s lost at most");
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
