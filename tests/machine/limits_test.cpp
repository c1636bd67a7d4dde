// What instructions do not take: a peer's memory, operands that are not one value for all, and tensor
// maps that tensormap.replace has made illegal. Beside each the legal twin.
#include <doctest/doctest.h>

#include <cstring>
#include <utility>

#include "common/machine/ops/tensor_map.h"
#include "tests/machine/ptx_run.h"
#include "tests/machine/schedules.h"

using namespace machine_test;
using machine::TensorMap;

namespace {

// `use` in each of two CTAs: of an mbarrier at the generic address BARRIER and, 1024 bytes behind
// the shared address ROW, of rows of 16 bytes, one a lane.
Program in_pair(const std::string& use, bool peer) {
  Program program;
  program.grid = program.cluster = {2, 1, 1};
  const std::string used =
      replaced(replaced(use, "BARRIER", peer ? "%rd2" : "%rd1"), "ROW", peer ? "%r3" : "%r4");
  program.body =
      "mov.u32 %r1, %cluster_ctarank;\nxor.b32 %r2, %r1, 1;\nshl.b32 %r5, %t, 4;\n"
      "add.u32 %r6, %smem, %r5;\nst.shared.v4.u32 [%r6+1024], {%t, %t, %t, %t};\n"
      "setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\nmbarrier.init.shared::cta.b64 [%smem], 9;\n"
      "fence.mbarrier_init.release.cluster;\nMADE:\nbar.warp.sync -1;\n"
      "cvt.u64.u32 %rd1, %smem;\ncvta.shared.u64 %rd1, %rd1;\nmapa.u64 %rd2, %rd1, %r2;\n"
      "mapa.shared::cluster.u32 %r3, %r6, %r2;\nmapa.shared::cluster.u32 %r4, %r6, %r1;\n"
      "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" +
      used + "\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
  return program;
}

// A product of zeros with descriptors A and B, and with the predicate SCALE.
std::string product(const std::string& change, const std::string& a = "%rd1",
                    const std::string& b = "%rd2", const std::string& scale = "%p3",
                    uint32_t threads = 128) {
  Program program;
  program.block = {threads, 1, 1};
  program.body =
      ".reg .b32 %f<4>;\nmov.u32 %r1, %t;\nFILL:\nshl.b32 %r2, %r1, 2;\nadd.u32 %r2, %r2, %smem;\n"
      "st.shared.u32 [%r2], 0;\nadd.u32 %r1, %r1, 128;\nsetp.lt.u32 %p1, %r1, 2048;\n"
      "@%p1 bra FILL;\nfence.proxy.async;\nbar.sync 0;\nshr.u32 %r3, %smem, 4;\n"
      "cvt.u64.u32 %rd1, %r3;\nadd.u64 %rd1, %rd1, 0x0000001000080000;\nmov.u64 %rd2, %rd1;\n"
      "add.u64 %rd3, %rd1, 16;\nmov.u32 %f0, 0;\nmov.u32 %f1, 0;\nmov.u32 %f2, 0;\n"
      "mov.u32 %f3, 0;\nsetp.eq.u32 %p3, %t, %t;\nand.b32 %r4, %t, 1;\nshr.u32 %r5, %t, 5;\n" +
      change +
      "\nbar.warp.sync -1;\nwgmma.fence.sync.aligned;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, " +
      a + ", " + b + ", " + scale +
      ", 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
  return program.report();
}

// A copy by a tensor map of 64 x 8 words, one field of which is replaced; "" if it is legal.
std::string with_replaced(const std::string& field, const std::string& operands) {
  const uint64_t dims[2] = {64, 8}, stride = 256;
  const uint32_t box[2] = {32, 4}, steps[2] = {1, 1};
  Buffer<uint32_t> data(64 * 8);
  Buffer<uint8_t> place(128);
  TensorMap map;
  REQUIRE(machine::encode_tiled({2, 2, reinterpret_cast<uint64_t>(data.data()), dims, &stride, box,
                                 steps, 0, 0, 0, 0},
                                &map) == "");
  std::memcpy(place.data(), &map, sizeof map);
  Program program;
  program.block = {1, 1, 1};
  program.body =
      "add.u64 %rd1, %in, 256;\nadd.u64 %rd2, %in, 8;\ntensormap.replace.tile." + field +
      " [%out], " + operands +
      ";\nfence.proxy.tensormap::generic.release.gpu;\n"
      "fence.proxy.tensormap::generic.acquire.gpu [%out], 128;\n"
      "mbarrier.init.shared::cta.b64 [%smem], 1;\nfence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 512;\nadd.u32 %r1, %smem, 1024;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%r1], [%out, {0, 0}], [%smem];\nWAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%smem], 0;\n@!%p1 bra WAIT;";
  return program.report(place.data(), data.data());
}

}  // namespace

TEST_CASE("a peer's mbarriers and rows are not for instructions that take only their own CTA's") {
  const char* const uses[][2] = {
      {"mbarrier.init.b64 [BARRIER+8], 1;", "each CTA does this to its own mbarriers"},
      {"mbarrier.inval.b64 [BARRIER];", "each CTA does this to its own mbarriers"},
      {"mbarrier.test_wait.parity.b64 %p2, [BARRIER], 1;", "wait on an mbarrier of its own"},
      {"mbarrier.try_wait.parity.b64 %p2, [BARRIER], 1;", "wait on an mbarrier of its own"},
      {"mbarrier.arrive.b64 %rd5, [BARRIER];", "write _ in its place"},
      {"mbarrier.arrive.noComplete.b64 %rd5, [BARRIER], 1;", "without .noComplete"},
      {"cp.async.mbarrier.arrive.noinc.b64 [BARRIER];", "wait for the copies"},
  };
  for (const auto& [use, instead] : uses) {
    INFO(use);
    const std::string once = "@%p1 bra USED;\n" + std::string(use) + "\nUSED:\nbar.warp.sync -1;";
    CHECK(in_pair(once, false).report() == "");
    const std::string report = in_pair(once, true).report();
    INFO(report);
    CHECK(contains(report, "is in the CTA of rank"));
    CHECK(contains(report, instead));
  }
  for (const char* const use :
       {"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r7, %r8, %r9, %r10}, [ROW+1024];",
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [ROW+1024], {%t, %t, %t, %t};"}) {
    CHECK(in_pair(use, false).report() == "");
    CHECK(contains(in_pair(use, true).report(), "is in the CTA of rank"));
  }
  CHECK(in_pair("@%p1 bra USED;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [ROW];\n"
                "USED:\nbar.warp.sync -1;",
                true)
            .report() == "");
}

TEST_CASE("what takes only one's own mbarriers cannot be spelled with .shared::cluster") {
  for (const char* const use :
       {"mbarrier.init.SPACE.b64 [ROW+8], 1;", "mbarrier.inval.SPACE.b64 [ROW];",
        "mbarrier.test_wait.parity.SPACE.b64 %p2, [ROW], 1;",
        "mbarrier.try_wait.parity.SPACE.b64 %p2, [ROW], 1;",
        "mbarrier.arrive.SPACE.b64 %rd5, [ROW];",
        "mbarrier.arrive.noComplete.SPACE.b64 %rd5, [ROW], 1;"}) {
    INFO(use);
    const std::string once = "@%p1 bra USED;\n" + std::string(use) + "\nUSED:\nbar.warp.sync -1;";
    CHECK(in_pair(replaced(once, "SPACE", "shared::cta"), false).report() == "");
    CHECK(contains(in_pair(replaced(once, "SPACE", "shared::cluster"), false).report(),
                   "this combination of qualifiers is not supported"));
  }
}

TEST_CASE("a copy lands in the CTA of its mbarrier, in one at least, at a multiple of its size") {
  Buffer<uint32_t> in(16);
  const auto report = [&in](const std::string& copy) {
    Program program = in_pair("@%p1 bra USED;\n" + copy + "\nUSED:\nbar.warp.sync -1;", true);
    return program.report(nullptr, in.data());
  };
  const std::string bulk = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
  CHECK(contains(report(bulk + " [ROW+2048], [%in], 16, [%smem];"), "are in different CTAs"));
  CHECK(contains(report(".reg .b16 %none;\nmov.u16 %none, 0;\n" + bulk +
                        ".multicast::cluster [%smem+2048], [%in], 16, [%smem], %none;"),
                 "the multicast mask 0x0 must name CTAs"));
  CHECK(contains(report("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 "
                        "[%smem+2056], {%r1, %r1, %r1, %r1}, [%smem];"),
                 "not a multiple of 16"));
}

TEST_CASE("descriptors and scale-d of wgmma are one value for the whole warpgroup") {
  CHECK(product("") == "");
  CHECK(product("", "%rd1", "%rd2", "1") == "");
  CHECK(product("", "%rd1", "%rd2", "0") == "");
  CHECK(product("", "%rd3") == "");
  CHECK(product("setp.ne.u32 %p3, %t, %t;") == "");
  const std::string odd_lane = "setp.eq.u32 %p4, %r4, 1;\n",
                    last_warp = "setp.eq.u32 %p4, %r5, 3;\n";
  for (const auto& [who, of] :
       {std::pair{odd_lane, "lanes of a warp"}, std::pair{last_warp, "warps of a warpgroup"}}) {
    CHECK(contains(product(who + "@%p4 mov.u64 %rd1, %rd3;"),
                   "The " + std::string(of) + " give wgmma different descriptors of A."));
    CHECK(contains(product(who + "@%p4 mov.u64 %rd2, %rd3;"),
                   "The " + std::string(of) + " give wgmma different descriptors of B."));
    CHECK(contains(product(who + "@%p4 setp.ne.u32 %p3, %t, %t;"),
                   "The " + std::string(of) + " give wgmma different values of scale-d."));
  }
}

TEST_CASE("wgmma is of a whole warpgroup, and reads inside of the CTA's shared memory") {
  CHECK(contains(product("", "%rd1", "%rd2", "%p3", 96),
                 "wgmma needs a whole warpgroup, but the CTA has only 3 warps"));
  // Of 64 KiB that begin at 0x400. The last warp to come to a barrier goes on first: its rows of A.
  CHECK(contains(product("mov.u64 %rd1, 0x0000001000081040;"),
                 "wgmma reads A from shared offset 68096 to 68608, but"));
  CHECK(contains(product("mov.u64 %rd2, 0x0000001000080000;"),
                 "wgmma reads B from shared offset 0 to "));
  Program program;
  program.block = {128, 1, 1};
  program.body =
      "wgmma.fence.sync.aligned;\nsetp.lt.u32 %p1, %t, 32;\n@!%p1 bra WAIT;\n"
      "mov.u64 %rd1, 0x0000001000080040;\n.reg .b32 %f<4>;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, "
      "0, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\nWAIT:\n"
      "wgmma.wait_group.sync.aligned 0;\n";
  program.check = false;
  CHECK(contains(program.report(),
                 "for wgmma operations that other warps of its warpgroup have not issued"));
  const std::string multiply =
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, "
      "0, 1, 1, 0, 0;\n";
  program.body =
      ".reg .b32 %f<4>;\nmov.u64 %rd1, 0x0000001000080040;\nsetp.lt.u32 %p1, %t, 32;\n"
      "wgmma.fence.sync.aligned;\n@%p1 bra OTHER;\n" +
      multiply + "bra DONE;\nOTHER:\n" + multiply +
      "DONE:\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
  CHECK(contains(program.report(), "must execute the same wgmma.mma_async"));
}

TEST_CASE("a tensor map keeps cuTensorMapEncodeTiled's rules when its fields are replaced") {
  CHECK(with_replaced("global_address.global.b1024.b64", "%rd1") == "");
  CHECK(with_replaced("global_dim.global.b1024.b32", "1, 1") == "");
  CHECK(with_replaced("global_stride.global.b1024.b64", "0, 128") == "");
  const char* const wrong[][3] = {
      {"global_address.global.b1024.b64", "%rd2", "must be a multiple of 16 bytes"},
      {"global_dim.global.b1024.b32", "1, 0", "dimension 1 is 0"},
      {"box_dim.global.b1024.b32", "1, 300", "side 1 of the box is 300"},
      {"box_dim.global.b1024.b32", "1, 65540", "side 1 of the box is 65535"},
      {"box_dim.global.b1024.b32", "1, 0", "side 1 of the box is 0"},
      {"element_stride.global.b1024.b32", "1, 257", "element stride 1 is 255"},
      {"global_stride.global.b1024.b64", "0, 8", "the stride of dimension 1 is 8 bytes"},
      {"global_stride.global.b1024.b64", "0, 264", "the stride of dimension 1 is 264 bytes"},
      {"elemtype.global.b1024.b32", "13", "the data type is"},
      {"swizzle_mode.global.b1024.b32", "9", "the swizzle is 9"},
  };
  for (const auto& [field, operands, rule] : wrong) {
    const std::string report = with_replaced(field, operands);
    INFO(report);
    CHECK(contains(report, "as tensormap.replace left it"));
    CHECK(contains(report, rule));
  }
}
