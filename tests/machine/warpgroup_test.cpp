// Accesses that only wgmma.fence puts in order, where an H200's warpgroup meets; and whose copy a report
// names where several CTAs' copies complete at one mbarrier.
#include "tests/machine/rig.h"

namespace checker_test {
namespace {

constexpr char ONLY_FENCE[] = "nothing orders the two but wgmma.fence";

TEST_CASE("wgmma reads what a warp of its warpgroup stored: before wgmma.fence or behind it") {
  for (const int kept : {0, 1, 2, 3}) {
    const bool before = kept == 3;  // and with its proxy fence
    Rig rig;
    const auto store = [&] {
      rig.store(1, DATA, FULL, 8);
      if ((kept & 1) != 0) rig.proxy_fence(1);
    };
    if ((kept & 2) != 0) store();
    rig.wgmma_fence(1);
    if ((kept & 2) == 0) store();
    rig.wgmma_fence(0);
    const std::string report = said([&] { rig.multiply(0, DATA, 1, 256); });
    CHECK(report.starts_with(before ? "Undefined in kernel" : "Race in kernel"));
    CHECK(contains(report, before ? "Rule: warpgroup-race" : "Rule: shared-race"));
    CHECK((report.find(ONLY_FENCE) != std::string::npos) == before);
    CHECK(contains(report, "order them: bar.sync between the two"));
  }
}

TEST_CASE("wgmma.fence of another warpgroup orders nothing") {
  Rig rig(1, 8);
  rig.store(4, DATA, FULL, 8);
  rig.proxy_fence(4);
  rig.wgmma_fence(4);
  rig.wgmma_fence(0);
  CHECK(contains(said([&] { rig.multiply(0, DATA, 1, 256); }), "Rule: shared-race"));
}

TEST_CASE(
    "a store that comes late: whether the reader had come to a fence that the writer has yet to") {
  for (const bool before : {true, false}) {
    for (const bool anew : {true, false}) {
      Rig rig;
      if (!anew) rig.store(0, DATA, FULL, 8);
      if (!anew) rig.proxy_fence(0);
      rig.wgmma_fence(0);
      rig.multiply(0, DATA, 1, 256);
      if (!before) rig.wgmma_fence(1);
      const std::string report = said([&] { rig.store(1, DATA, FULL, 8); });
      CHECK(contains(report, before ? "Rule: warpgroup-race" : "Rule: shared-race"));
      CHECK(contains(report, anew ? "reads shared 0x400" : "writes shared 0x400"));
    }
  }
}

TEST_CASE("one warp arrives for its warpgroup: what another one read before wgmma.fence") {
  for (const bool before : {true, false}) {
    Rig rig(1, 8);
    rig.set_up({EMPTY_BARRIER}, {0, 1, 2, 3, 4, 5, 6, 7});
    rig.store(4, DATA, FULL, 8);
    rig.barrier({0, 1, 2, 3, 4, 5, 6, 7});
    if (before) rig.load(1, DATA, FULL, 8);
    for (const uint32_t i : ALL) rig.wgmma_fence(i);
    if (!before) rig.load(1, DATA, FULL, 8);
    rig.arrive(0, EMPTY_BARRIER);
    rig.complete(EMPTY_BARRIER);
    rig.wait(4, EMPTY_BARRIER);
    const std::string report = said([&] { rig.store(4, DATA, FULL, 8); });
    CHECK(contains(report, before ? "Rule: warpgroup-race" : "Rule: shared-race"));
  }
}

TEST_CASE("a report names the issuer of the copy, not the last one at its mbarrier") {
  Rig rig(2);
  rig.init(4, FULL_BARRIER | PEER);
  rig.init_fence(4);
  rig.cluster_barrier();
  alignas(4096) static uint64_t source[4][16];
  rig.global(0, source[3], Access::write);  // reads of a page are kept from its first write on
  for (const uint32_t i : {0, 4}) {
    rig.checker().copy_reads_global(rig.issue(i, "cp.async.bulk.tensor.2d", FULL_BARRIER | PEER),
                                    {{reinterpret_cast<uint64_t>(source[i / 4]), 128}});
  }
  uint64_t addresses[LANES];
  for (uint64_t& each : addresses) each = reinterpret_cast<uint64_t>(source[0]);
  for (const char* const opcode : {"st.global", "tensormap.cp_fenceproxy"}) {
    const std::string report = said([&] {
      rig.checker().global_access(rig.at(0, opcode), ONE, addresses, 8, Access::write, Order::weak,
                                  Scope::gpu);
    });
    CHECK(contains(report, "earlier: warp 0 of CTA (0,0,0), which reads it by cp.async.bulk"));
    // By which the issuer may have tried to wait.
    CHECK((report.find(" cp.async.bulk.wait_group waits for no copy") != std::string::npos) ==
          (opcode[0] == 't'));
  }
}

}  // namespace
}  // namespace checker_test
