// The readers of build products, on texts whose answer is known.
#include <doctest/doctest.h>

#include "tests/codegen/build_products.h"

using namespace codegen;

TEST_CASE("parse_ptx finds the instructions of each entry and who wrote them") {
  const auto kernels = parse_ptx(
      ".visible .entry first(\n.param .u64 p)\n{\n"
      "\t.reg .b32 \t%r<3>;\n"
      "$L__BB0_1:\n"
      "\tld.param.u64 \t%rd1, [p];\n"
      "\t// begin inline asm\n"
      "\t{ .reg .pred p; setp.ne.b32 p, %r1, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16\n"
      "  {%f1, %f2, %f3, %f4}, %rd1, %rd2, p, 1, 1, 0, 0; }\n"
      "\t// end inline asm\n"
      "\t@%p1 bra \t$L__BB0_1;  // st.global here is a comment\n"
      "\tret;\n}\n"
      ".entry second()\n{\n\tst.global.u32 \t[%rd4], %r2;\n}\n");
  REQUIRE(kernels.size() == 2);
  std::string text;
  for (const Instruction& i : kernels.at("first")) text += (i.ours ? "+" : " ") + i.mnemonic + "\n";
  CHECK(text ==
        " ld.param.u64\n+setp.ne.b32\n+wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16\n"
        " bra\n ret\n");
  REQUIRE(kernels.at("second").size() == 1);
  CHECK_FALSE(kernels.at("second")[0].ours);
}

TEST_CASE("parse_log reads registers, shared memory, frame and spills of each entry") {
  const auto kernels = parse_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
      "ptxas info    : Function properties for a\n"
      "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 1024 bytes smem\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_90a'\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 0 barriers\n");
  REQUIRE(kernels.size() == 2);
  const Resources& a = kernels.at("a");
  CHECK(a.registers == 168);
  CHECK(a.smem_bytes == 1024);
  CHECK(a.frame_bytes == 8);
  CHECK(a.spill_store_bytes == 4);
  CHECK(a.spill_load_bytes == 12);
  CHECK(kernels.at("b").registers == 40);
  CHECK(kernels.at("b").smem_bytes == 0);
}

TEST_CASE("matches is a prefix with wildcards") {
  CHECK(matches("mma.sync.aligned.m16n8k16", "mma.sync"));
  CHECK_FALSE(matches("wgmma.mma_async.sync", "mma"));
  CHECK(
      matches("cp.async.bulk.tensor.2d.shared::cluster.multicast::cluster", "cp.async.bulk*multi"));
  CHECK_FALSE(matches("cp.async.bulk.tensor.2d.shared::cluster", "cp.async.bulk*multicast"));
}
