// Loads, stores, atomics, address conversion, and what an access to the wrong place ends in.
#include <doctest/doctest.h>

#include <bit>

#include "tests/machine/ptx_run.h"

using namespace machine_test;
using Words = std::vector<uint32_t>;

namespace {

// Each thread's %r1 to word %tid.x of the output.
const std::string KEEP =
    "mul.wide.u32 %rd9, %t, 4;\nadd.s64 %rd9, %out, %rd9;\nst.global.u32 [%rd9], %r1;\n";

Words keep(const std::string& body, uint32_t threads = 32, uint32_t cluster = 1) {
  Program program;
  program.block = {threads, 1, 1};
  program.grid = program.cluster = {cluster, 1, 1};
  program.check = true;
  program.body = body + KEEP;
  return results(program, threads);
}

bool all_are(const Words& words, uint32_t value) {
  return words == Words(words.size(), value);
}

std::string report(const std::string& body, void* out = nullptr) {
  Program program;
  program.body = body;
  return program.report(out);
}

}  // namespace

TEST_CASE("every space gives back what was stored, through its own and generic addresses") {
  const std::string shared = "mad.lo.u32 %r2, %t, 8, %smem;\nadd.u32 %r3, %t, 100;\n";
  const Words expected = [] {
    Words words;
    for (uint32_t i = 0; i < 32; ++i) words.push_back(i + 100);
    return words;
  }();
  CHECK(keep(shared + "st.shared.u32 [%r2+4], %r3;\nld.shared.u32 %r1, [%r2+4];\n") == expected);
  CHECK(keep(shared + "st.shared.u32 [%r2], %r3;\ncvt.u64.u32 %rd1, %r2;\n"
                      "cvta.shared.u64 %rd1, %rd1;\nld.u32 %r1, [%rd1];\n") == expected);
  CHECK(keep(shared + "cvt.u64.u32 %rd1, %r2;\nst.shared.u32 [%rd1], %r3;\n"
                      "ld.shared::cta.u32 %r1, [%rd1];\n") == expected);
  const std::string local =
      ".local .align 8 .b8 stack[64];\nmov.u64 %rd1, stack;\n"
      "add.u32 %r3, %t, 100;\nst.local.u32 [%rd1+8], %r3;\n";
  CHECK(keep(local + "ld.local.u32 %r1, [stack+8];\n") == expected);
  CHECK(keep(local + "cvta.local.u64 %rd2, %rd1;\nld.u32 %r1, [%rd2+8];\n") == expected);
  CHECK(keep(local + "cvta.local.u64 %rd2, %rd1;\ncvta.to.local.u64 %rd3, %rd2;\n"
                     "ld.local.u32 %r1, [%rd3+8];\n") == expected);
}

TEST_CASE("a generic access may be to another space in every lane") {
  const Words words = keep(
      ".local .align 8 .b8 stack[8];\nmov.u64 %rd1, stack;\ncvta.local.u64 %rd1, %rd1;\n"
      "cvt.u64.u32 %rd2, %smem;\ncvta.shared.u64 %rd2, %rd2;\n"
      "and.b32 %r2, %t, 1;\nsetp.eq.u32 %p1, %r2, 0;\nadd.u32 %r3, %t, 7;\n"
      "mad.lo.u32 %r4, %t, 4, %smem;\ncvt.u64.u32 %rd2, %r4;\ncvta.shared.u64 %rd2, %rd2;\n"
      "selp.b64 %rd3, %rd1, %rd2, %p1;\nst.u32 [%rd3], %r3;\nld.u32 %r1, [%rd3];\n");
  for (uint32_t i = 0; i < 32; ++i) CHECK(words[i] == i + 7);
}

TEST_CASE("narrow loads extend to the register, narrow stores truncate, vectors go in order") {
  CHECK(all_are(keep("st.shared.b32 [%smem], 0x8081f2f3;\nld.shared.s8 %r1, [%smem+3];\n", 1),
                0xffffff80));
  CHECK(all_are(keep("st.shared.b32 [%smem], 0x8081f2f3;\nld.shared.u16 %r1, [%smem+2];\n", 1),
                0x8081));
  CHECK(all_are(keep("mov.b32 %r2, 0x8081f2f3;\nst.shared.b32 [%smem], 0;\n"
                     "st.shared.b16 [%smem], %r2;\nld.shared.b32 %r1, [%smem];\n",
                     1),
                0xf2f3));
  CHECK(all_are(keep("st.shared.b32 [%smem], -2;\nld.shared.s32 %rd1, [%smem];\n"
                     "shr.u64 %rd1, %rd1, 32;\ncvt.u32.u64 %r1, %rd1;\n",
                     1),
                0xffffffff));
  CHECK(all_are(keep("mov.b32 %r2, 1;\nmov.b32 %r3, 20;\nmov.b32 %r4, 300;\n"
                     "st.shared.v4.b32 [%smem], {%r2, %r3, %r4, %r3};\n"
                     "ld.shared.v2.b32 {%r1, _}, [%smem+8];\n",
                     1),
                300));
}

TEST_CASE("what is loaded or stored may stand in braces alone, as ptxas has it, a sum may not") {
  CHECK(all_are(keep("ld.param.b64 {%rd1}, [in];\nmov.b32 %r3, 7;\nst.shared.b32 [%smem], {%r3};\n"
                     "ld.volatile.shared.b32 {%r1}, [%smem];\n"),
                7));
  CHECK(contains(report("add.u32 %r1, {%r2}, 1;\n"), "its operands are not"));
  CHECK(contains(report("ld.shared.b32 {%r1, %r2}, [%smem];\n"), "is not supported"));
}

TEST_CASE("variables of the module and parameters") {
  const auto module = machine::load_module(
      ".version 8.6\n.target sm_90a\n.address_size 64\n"
      ".const .align 4 .b32 table[2] = {11, 22};\n.global .align 4 .b32 count = 5;\n"
      ".visible .entry k(.param .u64 out, .param .align 4 .b8 pair[8])\n{\n"
      ".reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
      "ld.param.u64 %rd1, [out];\nld.param.u32 %r1, [pair+4];\nld.const.u32 %r2, [table+4];\n"
      "add.u32 %r1, %r1, %r2;\nmov.b64 %rd2, pair;\ncvta.param.u64 %rd2, %rd2;\n"
      "ld.u32 %r2, [%rd2];\nadd.u32 %r1, %r1, %r2;\nld.global.u32 %r2, [count];\n"
      "add.u32 %r1, %r1, %r2;\nst.global.u32 [%rd1], %r1;\nret;\n}\n");
  Buffer<uint32_t> out(1);
  struct {
    void* out;
    uint32_t pair[2];
  } params{out.data(), {1000, 200}};
  machine::launch(*module, *machine::find_kernel(*module, "k"), {}, &params);
  CHECK(out[0] == 1000 + 200 + 22 + 5);
}

TEST_CASE("every thread's atomic counts") {
  Program program;
  program.grid = {20, 1, 1};
  program.block = {128, 1, 1};
  program.check = true;
  program.body =
      "atom.global.add.u32 %r1, [%out], 1;\nred.relaxed.gpu.global.max.u32 [%out+4], %t;\n"
      "atom.inc.u32 %r1, [%out+8], 6;\nred.add.f32 [%out+12], 0f3F000000;\n"
      "red.global.add.noftz.f16x2 [%out+16], 0x3c004000;\natom.or.acq_rel.gpu.b32 %r1, [%out+20], "
      "%t;\nAGAIN:\nld.relaxed.gpu.global.u32 %r2, [%out+24];\nadd.u32 %r3, %r2, 2;\n"
      "atom.global.cas.b32 %r4, [%out+24], %r2, %r3;\nsetp.ne.u32 %p1, %r4, %r2;\n@%p1 bra AGAIN;\n"
      "red.global.add.v2.f32 [%out+32], {0f3F800000, 0f40000000};\n"
      "atom.global.v2.f32.add {%r5, %r6}, [%out+40], {0f3F800000, 0f40000000};\n";
  const Words words = results(program, 12);
  CHECK(words[0] == 2560);
  CHECK(words[1] == 127);
  CHECK(words[2] == 2560 % 7);
  CHECK(std::bit_cast<float>(words[3]) == 1280);
  CHECK(words[4] == (0x6800u << 16 | 0x6c00u));  // 2048 and 4096: no half adds more to them
  CHECK(words[5] == 127);
  CHECK(words[6] == 5120);
  CHECK(std::bit_cast<float>(words[8]) == 2560);
  CHECK(std::bit_cast<float>(words[11]) == 5120);
}

TEST_CASE("shared memory of a peer is reached through the cluster's window") {
  // Rank 0 asks for what each CTA wrote at the same offset.
  Program program;
  program.grid = program.cluster = {2, 1, 1};
  program.check = true;
  program.body =
      "mov.u32 %r2, %cluster_ctarank;\nmad.lo.u32 %r3, %t, 4, %smem;\nmad.lo.u32 %r4, %r2, 100, "
      "%t;\n"
      "st.shared.u32 [%r3], %r4;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
      "mapa.shared::cluster.u32 %r5, %r3, 1;\nld.shared::cluster.u32 %r1, [%r5];\n"
      "setp.eq.u32 %p1, %r2, 0;\nmul.wide.u32 %rd9, %t, 4;\nadd.s64 %rd9, %out, %rd9;\n"
      "@%p1 st.global.u32 [%rd9], %r1;\n"
      "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
  const Words words = results(program, 32);
  for (uint32_t i = 0; i < 32; ++i) CHECK(words[i] == i + 100);
  program.body =
      "mapa.shared::cluster.u32 %r5, %smem, 1;\nmov.u32 %r2, %cluster_ctarank;\n"
      "setp.eq.u32 %p1, %r2, 0;\n@%p1 ld.shared.u32 %r1, [%r5];\n";
  CHECK(contains(program.report(), "is not in the executing CTA (rank 0)"));
}

TEST_CASE("isspacep tells the windows apart") {
  CHECK(all_are(keep("cvt.u64.u32 %rd1, %smem;\ncvta.shared.u64 %rd1, %rd1;\n"
                     "isspacep.shared %p1, %rd1;\nisspacep.global %p2, %rd1;\n"
                     "isspacep.global %p3, %out;\nisspacep.local %p4, %out;\n"
                     "selp.u32 %r1, 1, 0, %p1;\n@%p2 add.u32 %r1, %r1, 10;\n"
                     "@%p3 add.u32 %r1, %r1, 100;\n@%p4 add.u32 %r1, %r1, 1000;\n"),
                101));
}

TEST_CASE("an access outside an allocation names it") {
  Buffer<uint32_t> out(100);
  const std::string past = report(
      "mul.wide.u32 %rd1, %t, 16;\nadd.s64 %rd1, %out, %rd1;\n"
      "st.global.u32 [%rd1], %t;\n",
      out.data());
  CHECK(contains(past, "the 4 bytes at"));
  CHECK(contains(past, "behind the end of the nearest: 400 bytes from the test"));
  CHECK(contains(past, "lane 25"));
  CHECK(contains(past, "in kernel test"));
  CHECK(contains(report("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%out+384];\n"
                        "ld.global.v2.u32 {%r1, %r2}, [%out+400];\n",
                        out.data()),
                 "begin 0 bytes behind the end"));
  CHECK(contains(report("ld.global.u32 %r1, [%out-4];\n", out.data()), "4 bytes before the start"));
  CHECK(contains(report("ld.global.u32 %r1, [0];\n"), "are in no allocation"));
}

TEST_CASE("freed memory is not memory") {
  void* const freed = machine::allocate(512, "cudaMalloc");
  machine::release(freed);
  CHECK(contains(report("ld.global.u32 %r1, [%out];\n", freed),
                 "have been freed: 512 bytes from cudaMalloc"));
}

TEST_CASE("what leaves an allocation does not meet the next one") {
  Buffer<uint32_t> first(1024), second(1024), third(1024);  // whole pages
  for (Buffer<uint32_t>* buffer : {&first, &second, &third}) {
    CHECK(contains(report("st.global.u32 [%out+4096], %t;\n", buffer->data()),
                   "begin 0 bytes behind the end of the nearest: 4096 bytes from the test"));
    CHECK(contains(report("ld.global.u32 %r1, [%out-4];\n", buffer->data()),
                   "begin 4 bytes before the start of the nearest: 4096 bytes from the test"));
    CHECK(contains(report("ld.global.u32 %r1, [%out-1000000000];\n", buffer->data()),
                   "are in no allocation"));
    CHECK(contains(report("atom.global.add.u32 %r1, [%out+1000000000], 1;\n", buffer->data()),
                   "are in no allocation"));
    CHECK(report("st.global.u32 [%out+4092], %t;\n", buffer->data()) == "");
  }
}

TEST_CASE("freed memory is not given out again at once") {
  const auto allocate = [] { return machine::allocate(4096, "cudaMalloc"); };
  void* const freed = allocate();
  machine::release(freed);
  for (int i = 0; i < 100; ++i) {
    void* const next = allocate();
    CHECK(next != freed);
    machine::release(next);
  }
  Buffer<uint32_t> living(1024);
  CHECK(contains(report("ld.global.u32 %r1, [%out];\n", freed),
                 "have been freed: 4096 bytes from cudaMalloc"));
}

TEST_CASE("many allocations live at once, and may be made and freed for ever") {
  std::vector<uint32_t*> all;
  for (uint32_t i = 0; i < 20000; ++i) {
    all.push_back(static_cast<uint32_t*>(machine::allocate(4, "cudaMalloc")));
    REQUIRE(all.back() != nullptr);
    *all.back() = i;
  }
  machine::Allocation found;
  for (uint32_t i = 0; i < 20000; ++i) {
    REQUIRE(*all[i] == i);
    REQUIRE(machine::find_allocation(reinterpret_cast<uint64_t>(all[i]), &found));
    REQUIRE(found.base == reinterpret_cast<uint64_t>(all[i]));
    REQUIRE(machine::release(all[i]));
  }
  constexpr size_t TIB = size_t{1} << 40;
  for (uint32_t i = 0; i < 100; ++i) {  // more than there are addresses
    void* const big = machine::allocate(TIB, "cudaMalloc");
    REQUIRE(big != nullptr);
    REQUIRE(machine::release(big));
  }
}

TEST_CASE("ldmatrix and stmatrix without a state space take generic addresses") {
  Program program;
  program.body =
      "cvt.u64.u32 %rd1, %smem;\ncvta.shared.u64 %rd1, %rd1;\nmul.wide.u32 %rd2, %t, 4;\n"
      "add.u64 %rd3, %rd1, %rd2;\nst.u32 [%rd3], %t;\nbar.sync 0;\nand.b32 %r1, %t, 7;\n"
      "mul.wide.u32 %rd4, %r1, 16;\nadd.u64 %rd4, %rd4, %rd1;\n"
      "ldmatrix.sync.aligned.m8n8.x1.b16 {%r2}, [%rd4];\n"
      "stmatrix.sync.aligned.m8n8.x1.b16 [%rd4+512], {%r2};\nbar.sync 0;\n"
      "ld.u32 %r3, [%rd3+512];\nadd.u64 %rd5, %out, %rd2;\nst.global.u32 [%rd5], %r3;\n";
  const Words words = results(program, 32);
  for (uint32_t i = 0; i < 32; ++i) CHECK(words[i] == i);
  Buffer<uint32_t> out(100);
  CHECK(contains(report("ldmatrix.sync.aligned.m8n8.x1.b16 {%r2}, [%out];\n", out.data()),
                 "is not in shared memory"));
}

TEST_CASE("misaligned accesses, shared memory's end, read-only parameters") {
  Buffer<uint32_t> out(100);
  CHECK(contains(report("ld.global.v2.u32 {%r1, %r2}, [%out+4];\n", out.data()),
                 "is not a multiple of 8"));
  const std::string row = "add.u32 %r1, %smem, 8;\n";
  CHECK(contains(report(row + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];\n"),
                 "not aligned to 16 bytes"));
  CHECK(contains(report(row + "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%t};\n"),
                 "not aligned to 16 bytes"));
  CHECK(contains(report("ld.global.v4.u64 {%rd1, %rd2, %rd3, %rd4}, [%out];\n", out.data()),
                 "cannot run: 'ld.global.v4.u64"));
  CHECK(contains(report("add.u32 %r1, %smem, 65536;\nld.shared.u32 %r2, [%r1];\n"),
                 "are not all in the CTA's shared memory, 65536 bytes from 0x400"));
  CHECK(contains(report("st.shared.u32 [%smem-4], %t;\n"), "are not all in the CTA's"));
  CHECK(contains(report("ld.shared::cluster.u32 %r1, [0x5000400];\n"), "is in a CTA of rank 5"));
  CHECK(contains(report("mov.b64 %rd1, map;\ncvta.param.u64 %rd1, %rd1;\nst.u32 [%rd1], %t;\n"),
                 "read-only"));
  CHECK(contains(report(".local .align 8 .b8 stack[16];\nmov.u64 %rd1, stack;\n"
                        "ld.local.u32 %r1, [%rd1+160];\n"),
                 "bytes of the thread's local memory"));
  CHECK(contains(report(".local .align 8 .b8 stack[16];\nmov.u64 %rd1, stack;\n"
                        "ld.local.u32 %r1, [%rd1+-4];\n"),
                 "offset -4 is outside the 16 bytes"));
}
