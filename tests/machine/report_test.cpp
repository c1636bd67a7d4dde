// How reports name kernels and warps.
#include <doctest/doctest.h>

#include "common/machine/check/reports.h"
#include "common/machine/run/state.h"

TEST_CASE("kernels: the name without return type and parameters") {
  CHECK(machine::source_name(
            "_ZN5wgmma4gemmINS_4TileILi256ELi0EEEEEv14CUtensorMap_stS3_P13__nv_bfloat16xiii") ==
        "wgmma::gemm<wgmma::Tile<256, 0>>");
  CHECK(machine::source_name("_ZN9tma_store10store_rowsEP13__nv_bfloat16xi") ==
        "tma_store::store_rows");
  CHECK(machine::source_name("_ZN12_GLOBAL__N_13addEPfi") == "(anonymous namespace)::add");
  CHECK(machine::source_name("_ZN2ns12_GLOBAL__N_13addIiEEvPT_") ==
        "ns::(anonymous namespace)::add<int>");
  CHECK(machine::source_name("saxpy") == "saxpy");
  // What the host's library cannot read: up to the template arguments.
  CHECK(machine::source_name("_ZN7cutlass13device_kernelI?EEvT_") == "cutlass::device_kernel<...>");
  CHECK(machine::source_name("_Z4moveI?EvT_") == "move<...>");
  CHECK(machine::source_name("_ZN99x") == "_ZN99x");
  // Long ones are folded.
  std::string arguments;
  for (int i = 0; i < 40; ++i) arguments += "Li" + std::to_string(i) + "E";
  CHECK(machine::source_name(("_ZN4gemm3runIJ" + arguments + "EEEvPf").c_str()) ==
        "gemm::run<...>");
}

TEST_CASE("json: the advice of a report that names a likely cause is that cause") {
  const machine::Error report(machine::Error::Kind::hang,
                              "Deadlock in kernel f: no thread can go on.\n  warp 0\n"
                              "    waits.\n    Likely: the count is wrong\n  Rule: deadlock",
                              machine::rule::DEADLOCK);
  const std::string json = machine::json_of(report);
  CHECK(json.find("\"advice\": \"the count is wrong\"") != std::string::npos);
}

TEST_CASE("warps: neighbours of one role stand together") {
  machine::Cta cta;
  cta.id = {1, 2, 0};
  cta.warps.resize(4);
  std::vector<machine::Warp>& warps = cta.warps;
  std::set<const machine::Warp*> all;
  for (uint32_t i = 0; i < 4; ++i) {
    warps[i].cta = &cta;
    warps[i].index = i + 4;
    all.insert(&warps[i]);
  }
  CHECK(machine::describe_roles(all) == "warps 4 to 7 of CTA (1,2,0)");
  warps[2].multiplies = warps[3].multiplies = true;
  CHECK(machine::describe_role(warps[2]) == "warp 6 of CTA (1,2,0)");  // nobody copies for it
  warps[0].loads_bulk = true;
  CHECK(machine::describe_roles(all) == "warps 4 (producer), 5, 6 to 7 (consumer) of CTA (1,2,0)");
  CHECK(machine::describe_roles({&warps[3]}) == "warp 7 (consumer) of CTA (1,2,0)");
  CHECK(machine::describe_roles({&warps[2], &warps[0]}) ==
        "warps 4 (producer), 6 (consumer) of CTA (1,2,0)");
}
