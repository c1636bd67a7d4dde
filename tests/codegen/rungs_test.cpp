// Every rung's PTX is what its page teaches, and fits the SM.
//
// tests/codegen/expect/NN_name.txt lists instructions, one a line, '#' starts a comment:
//   all  PATTERN    every kernel of the rung has it
//   some PATTERN    at least one has
//   none PATTERN    no kernel has
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "tests/codegen/build_products.h"

using namespace codegen;

namespace {

constexpr int REGISTERS_PER_SM = 65536;
constexpr int SMEM_PER_CTA_BYTES = 227 * 1024;
constexpr int WARPGROUP = 128;

bool has(const std::vector<Instruction>& kernel, const std::string& pattern) {
  return std::any_of(kernel.begin(), kernel.end(),
                     [&](const Instruction& i) { return matches(i.mnemonic, pattern); });
}

void check_expectations(const std::string& stem) {
  const auto kernels = parse_ptx(read_file("build/ptx/" + stem + ".ptx"));
  REQUIRE(!kernels.empty());
  const std::string path = "tests/codegen/expect/" + stem + ".txt";
  std::stringstream lines(read_file(path));
  int rules = 0;
  for (std::string line; std::getline(lines, line);) {
    std::stringstream words(line.substr(0, line.find('#')));
    std::string how, pattern;
    if (!(words >> how)) continue;
    REQUIRE_MESSAGE(static_cast<bool>(words >> pattern), path << ": no pattern in: " << line);
    long count = 0;
    for (const auto& [name, kernel] : kernels) count += has(kernel, pattern);
    const long want_all = static_cast<long>(kernels.size());
    ++rules;
    if (how == "all") {
      CHECK_MESSAGE(count == want_all,
                    stem << ": " << count << " of " << want_all << " kernels have " << pattern);
    } else if (how == "some") {
      CHECK_MESSAGE(count > 0, stem << ": no kernel has " << pattern);
    } else if (how == "none") {
      CHECK_MESSAGE(count == 0, stem << ": " << count << " kernels have " << pattern);
    } else {
      FAIL(path << ": neither all, some nor none: " << line);
    }
  }
  CHECK_MESSAGE(rules > 0, path << " lists nothing");
}

// A rung's PTX is read once: rung 17's is 32 MB long.
std::map<std::string, std::vector<Variant>> kernels_by_stem() {
  std::map<std::string, std::vector<Variant>> of;
  for (const Variant& v : list_kernels()) of[v.stem].push_back(v);
  return of;
}

}  // namespace

TEST_CASE("the registry and the files in stages/ agree") {
  std::set<std::string> registered;
  int previous = 0;
  for (const Variant& v : list_variants()) {
    registered.insert(v.stem);
    CHECK(v.number == std::stoi(v.stem));
    CHECK(v.number >= previous);
    previous = v.number;
  }
  const std::vector<std::string> stems = stage_stems();
  CHECK(registered == std::set<std::string>(stems.begin(), stems.end()));
  for (size_t i = 0; i < stems.size(); ++i) CHECK(std::stoul(stems[i]) == i + 1);
}

TEST_CASE("each rung has one result and variants of different names") {
  const std::vector<Variant> all = list_variants();
  for (const std::string& stem : stage_stems()) {
    CAPTURE(stem);
    std::set<std::string> names;
    int results = 0, count = 0, configurations = 0;
    for (const Variant& v : all) {
      if (v.stem != stem) continue;
      names.insert(v.name);
      results += v.result;
      configurations += v.configuration;
      ++count;
    }
    CHECK(results == 1);
    CHECK(static_cast<int>(names.size()) == count);
    CHECK(count >= 2);
    CHECK(count - configurations >= 1);  // the result: a chooser, if there are configurations
    CHECK(count - configurations <= 5);
  }
}

TEST_CASE("each rung has the PTX it teaches and none that it has yet to teach") {
  for (const std::string& stem : stage_stems()) check_expectations(stem);
}

TEST_CASE("memory, barriers, copies and multiply-adds come from the wrappers only") {
  const char* const TAUGHT[] = {
      "ld.global",   "ld.shared",      "ld.volatile", "st.", "stmatrix.", "atom.", "red.", "bar.",
      "barrier.",    "membar.",        "fence.",      "cp.", "mbarrier.", "fma.",  "mma.", "wgmma.",
      "setmaxnreg.", "griddepcontrol", "ldmatrix.",   "call"};
  for (const std::string& stem : stage_stems()) {
    for (const auto& [name, kernel] : parse_ptx(read_file("build/ptx/" + stem + ".ptx"))) {
      for (const Instruction& i : kernel) {
        if (i.ours) continue;
        for (const char* taught : TAUGHT) {
          CHECK_MESSAGE(!matches(i.mnemonic, taught),
                        stem << ": " << name << " has " << i.mnemonic << " outside common/ptx");
        }
      }
    }
  }
}

TEST_CASE("every variant fits an SM: registers, shared memory, no spill, no stack") {
  for (const auto& [stem, variants] : kernels_by_stem()) {
    CAPTURE(stem);
    const auto log = parse_log(read_file("build/ptx/" + stem + ".log"));
    for (const Variant& v : variants) {
      CAPTURE(v.name);
      REQUIRE(log.count(v.kernel) == 1);
      const Resources& r = log.at(v.kernel);
      CHECK(r.frame_bytes == 0);
      CHECK(r.spill_store_bytes == 0);
      CHECK(r.spill_load_bytes == 0);
      CHECK(r.registers > 0);
      CHECK(r.registers * v.threads <= REGISTERS_PER_SM);
      CHECK(v.smem_bytes + r.smem_bytes <= SMEM_PER_CTA_BYTES);
      CHECK(v.threads <= 1024);
      CHECK(v.cluster_m * v.cluster_n <= 8);
    }
  }
}

TEST_CASE("setmaxnreg asks for no more registers than the CTA was launched with") {
  for (const auto& [stem, variants] : kernels_by_stem()) {
    CAPTURE(stem);
    const auto ptx = parse_ptx(read_file("build/ptx/" + stem + ".ptx"));
    const auto log = parse_log(read_file("build/ptx/" + stem + ".log"));
    for (const Variant& v : variants) {
      CAPTURE(v.name);
      CHECK(has(ptx.at(v.kernel), "setmaxnreg") == (v.regs_dec > 0));
      if (v.regs_dec == 0) continue;
      const int consumers = v.threads - WARPGROUP;  // one warpgroup produces
      CHECK(v.regs_dec % 8 == 0);
      CHECK(v.regs_inc % 8 == 0);
      CHECK(v.regs_dec >= 24);
      CHECK(v.regs_inc <= 255);
      CHECK(WARPGROUP * v.regs_dec + consumers * v.regs_inc <=
            v.threads * log.at(v.kernel).registers);
    }
  }
}
