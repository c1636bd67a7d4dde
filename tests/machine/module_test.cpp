// Whole modules: what the parser takes, which kernels are refused, calls, shared variables.
#include <doctest/doctest.h>

#include "tests/machine/schedules.h"

using namespace machine_test;

namespace {

const std::string HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n.file 1 \"gemm.cu\"\n";

// What launching `kernel` of the module says; "" if it runs.
std::string launched(const machine::Module& module, const char* kernel, void* out) {
  machine::LaunchConfig config;
  config.block = {32, 1, 1};
  try {
    machine::launch(module, *machine::find_kernel(module, kernel), config, &out);
  } catch (const Error& error) {
    CHECK((error.kind == Error::Kind::refused));
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("white space where ptxas takes it") {
  Program program;
  program.body =
      "{.reg.b32 x; .reg.pred p;\n"
      "mov .u32 x , 6 ;lop3 .b32 x,x,3,0,0xfc;\n"
      "setp.eq .u32 p,x,7;@ p st .global.u32 [ %out + 0 ],x;}";
  CHECK(results(program, 1)[0] == 7);
}

TEST_CASE("several variables of one declaration, and numbers with a decimal point") {
  Program program;
  program.declarations =
      ".global .align 8 .f32 x[2] = {1.5, -2.5e-1}, y = 0d4008000000000000;\n"
      ".global .f64 z = 0f40800000;\n";
  program.body =
      "{.shared .u32 s1, s2[2];\nmov.u32 %r5, s1;\nmov.u32 %r6, s2;\nsub.u32 %r7, %r6, %r5;\n"
      "st.global.u32 [%out+16], %r7;}\n"
      "ld.global.f32 %r0, [x];\nld.global.f32 %r1, [x+4];\nld.global.f32 %r2, [y];\n"
      "ld.global.f64 %rd0, [z];\ncvt.rn.f32.f64 %r3, %rd0;\nadd.f32 %r3, %r3, -1.0e+1;\n"
      "st.global.v4.b32 [%out], {%r0, %r1, %r2, %r3};";
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  CHECK(results(program, 5) == Words{bits(1.5f), bits(-0.25f), bits(3), bits(-6), 4});
}

TEST_CASE("a pair of numbers") {
  Program program;
  program.body =
      "mov.b64 %rd0, {7, 9};\nmul.wide.u32 %rd1, %t, 8;\nadd.u64 %rd1, %out, %rd1;\n"
      "st.global.u64 [%rd1], %rd0;";
  CHECK(results(program, 64) == numbers(64, [](uint32_t i) { return i % 2 == 0 ? 7u : 9u; }));
}

TEST_CASE("votes in the order that CUB writes them") {
  Program program;
  program.body =
      "setp.lt.u32 %p0, %t, 5;\nvote.ballot.sync.b32 %r0, %p0, 0xffffffff;\n"
      "vote.any.sync.pred %p1, %p0, 0xffffffff;\nselp.u32 %r1, 1, 0, %p1;\n"
      "st.global.u32 [%out], %r0;\nst.global.u32 [%out+4], %r1;";
  CHECK(results(program, 2) == Words{31, 1});
}

TEST_CASE("approximations of the upper half of a double") {
  Program program;
  program.body =
      "mov.b64 %rd0, 0x4008000000000007;\nrcp.approx.ftz.f64 %rd1, %rd0;\n"  // 3 and something
      "rsqrt.approx.ftz.f64 %rd2, %rd0;\nst.global.v2.u64 [%out], {%rd1, %rd2};\n"
      "mov.b64 %rd0, 0x8000000000000001;\nrcp.approx.ftz.f64 %rd1, %rd0;\n"  // a negative subnormal
      "st.global.u64 [%out+16], %rd1;";
  CHECK(results(program, 6) == Words{0, 0x3fd55555, 0, 0x3fe279a7, 0, 0xfff00000});
}

TEST_CASE("reports name every call that was inlined, or how to get lines, and the full name last") {
  const std::string name =
      "_ZN4gemm3runIJLi1ELi2ELi3ELi4ELi5ELi6ELi7ELi8ELi9ELi10ELi11ELi12ELi13ELi14ELi15E"
      "Li16ELi17ELi18ELi19ELi20ELi21ELi22ELi23ELi24ELi25EEEEvPf";
  const std::string kernel = ".visible .entry " + name + "(.param .u64 out)\n{\n";
  const auto report = [&](const std::string& text) {
    const auto module = machine::load_module(text);
    try {
      void* out = nullptr;
      machine::LaunchConfig config;
      config.block = {1, 1, 1};
      machine::launch(*module, *machine::find_kernel(*module, name), config, &out);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string with_lines =
      report(HEAD + ".file 2 \"tile.cuh\"\n.file 3 \"ptx.cuh\"\n" + kernel +
             ".loc 1 40 3\n.loc 2 7 5, function_name $L, inlined_at 1 40 3\n"
             ".loc 3 9 1, function_name $L, inlined_at 2 7 5\ntrap;\n}\n");
  CHECK(contains(with_lines, "Fault in kernel gemm::run<...>: "));
  CHECK(contains(with_lines, "at gemm.cu:40 (in tile.cuh:7, in ptx.cuh:9)"));
  const std::string beside =
      report(HEAD + ".file 2 \"tile.cuh\"\n" + kernel +
             ".loc 1 40 3\n.loc 1 20 5, function_name $L, inlined_at 1 40 3\n"
             ".loc 2 9 1, function_name $L, inlined_at 1 20 5\ntrap;\n}\n");
  CHECK(contains(beside, "at gemm.cu:20, called at gemm.cu:40 (in tile.cuh:9)"));
  CHECK(contains(with_lines, "Kernel: gemm::run<1, 2, 3, 4,"));
  CHECK(!contains(with_lines, "-lineinfo"));
  const std::string without =
      report(replaced(HEAD, ".file 1 \"gemm.cu\"\n", "") + kernel + "trap;\n}\n");
  CHECK(contains(without, "at PTX line 6"));
  CHECK(contains(without, "compile with -lineinfo"));
  CHECK(!contains(without, "grid.sync()"));
  CHECK(contains(report(HEAD + kernel + ".reg .b32 %r1;\nmov.u32 %r1, %envreg2;\ntrap;\n}\n"),
                 "trap instruction. If it is that of grid.sync(): the launch is not cooperative"));
}

TEST_CASE("text that does not begin as PTX is no module") {
  for (const char* text : {"", "\n", "// nothing\n", ".target sm_90a\n", "void f() {}"}) {
    CAPTURE(text);
    std::string said;
    try {
      machine::load_module(text);
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK(contains(said, "PTX begins with .version, found '"));
  }
}

TEST_CASE("what cannot run refuses its own kernels, at their launch, by name, file and line") {
  const std::string text =
      replaced(HEAD, ".file 1 \"gemm.cu\"\n", "\n") +
      ".func inner()\n{\n.loc 1 7 1\nmov.u32 %undeclared +;\nret;\n}\n"
      ".visible .entry good(.param .u64 out)\n{\n.reg .b64 %rd;\nld.param.u64 %rd, [out];\n"
      "st.global.u32 [%rd], 9;\nret;\n}\n"
      ".visible .entry strange(.param .u64 out)\n{\n.loc 1 12 1\ntxq.width.b32 %r, [t];\nret;\n}\n"
      ".visible .entry unparsable(.param .u64 out)\n{\n.reg .b32 %r;\n.loc 1 20 1\nret;\n"
      "@%q bra [;\n}\n"
      ".visible .entry calls_inner(.param .u64 out)\n{\ncall inner, ();\nret;\n}\n"
      ".visible .entry inlines(.param .u64 out)\n{\n.loc 1 30 1\n"
      ".loc 2 5 1, function_name $L, inlined_at 1 30 1\nmov.u32 +;\nret;\n}\n"
      ".visible .entry _Z5childPi(.param .u64 out)\n{\nret;\n}\n"
      ".visible .entry launches(.param .u64 out)\n{\n.reg .b64 %rd;\nmov.u64 %rd, _Z5childPi;\n"
      "ret;\n}\n"
      ".visible .entry before_any_line(.param .u64 out)\n{\n.reg .b256 %r;\n}\n"
      ".file 1 \"gemm.cu\"\n.file 2 \"tile.cuh\"\n";  // nvcc names files at the end
  const auto module = machine::load_module(text);
  Buffer<uint32_t> out(1);
  std::string report = launched(*module, "strange", out.data());
  CHECK(contains(report, "kernel strange cannot run: 'txq.width.b32' at gemm.cu:12 (PTX line 21)"));
  CHECK(contains(report, "textures are not supported; ld of the memory behind one is."));
  report = launched(*module, "unparsable", out.data());
  CHECK(contains(report, "kernel unparsable cannot run: PTX line 29: expected a predicate"));
  CHECK(contains(report, "gemm.cu:20"));
  report = launched(*module, "calls_inner", out.data());
  CHECK(contains(report, "kernel calls_inner cannot run: PTX line 8"));
  CHECK(contains(report, "gemm.cu:7"));
  report = launched(*module, "inlines", out.data());
  CHECK(contains(report, "(behind gemm.cu:30)"));
  report = launched(*module, "launches", out.data());
  CHECK(contains(report, "kernels cannot launch kernels here, as child."));
  report = launched(*module, "before_any_line", out.data());
  CHECK(contains(report, "registers of type '.b256'"));
  CHECK(!contains(report, "behind"));
  CHECK(launched(*module, "good", out.data()) == "");
  CHECK(out[0] == 9);
}

TEST_CASE("products that only mma has here are told as such") {
  const auto refused = [](const std::string& opcode) {
    Program program;
    program.body = ".reg .b32 %d<4>;\n" + opcode + " {%d0, %d1, %d2, %d3}, %rd1, %rd2, 1;";
    return program.report(Buffer<uint32_t>(1).data());
  };
  CHECK(contains(refused("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16"),
                 "wgmma of a sparse A is not supported; mma of one is."));
  CHECK(contains(refused("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc"),
                 "wgmma of single bits is not supported; mma of them is."));
}

TEST_CASE("variables of global and constant memory in a kernel's body, under the names of others") {
  Program program;
  program.declarations = ".global .u32 t[2] = {1, 2};\n";
  program.body =
      ".const .u32 c[2] = {3, 4};\n"
      "{.global .align 4 .u32 t[3] = {5, 6, 7}; .global .u64 p = t+4;\n"
      "ld.global.u32 %r0, [t+8];\nld.global.u64 %rd0, [p];\nld.u32 %r1, [%rd0];\n"
      "{.global .u32 t = 8; .const .u32 c = 9;\n"
      "ld.global.u32 %r2, [t];\nld.const.u32 %r3, [c];\natom.global.add.u32 %r5, [t], 1; }\n"
      "st.global.u32 [t+8], 10; }\n"
      "st.global.v4.u32 [%out], {%r0, %r1, %r2, %r3};\n"
      "ld.global.u32 %r0, [t+4];\nld.const.u32 %r1, [c+4];\n"
      "st.global.v2.u32 [%out+16], {%r0, %r1};";
  program.block = {1, 1, 1};
  CHECK(results(program, 6) == Words{7, 6, 8, 9, 2, 4});
}

TEST_CASE("tables of branches in blocks") {
  Program program;
  program.body =
      "and.b32 %r0, %t, 1;\nshl.b32 %r4, %t, 4;\ncvt.u64.u32 %rd0, %r4;\n"
      "add.u64 %rd0, %rd0, %out;\n"
      "{TS: .branchtargets A, B;\nbrx.idx %r0, TS;\n"
      "A: mov.u32 %r1, 1;\nbra E;\nB: mov.u32 %r1, 2;\nE: }\n"
      "{TS: .branchtargets B, A;\n{brx.idx %r0, TS; B: }\n"
      "A: mov.u32 %r2, 3;\nbra E;\nB: mov.u32 %r2, 4;\nE: }\n"
      "mov.u32 %r3, 5;\n{{TS: .branchtargets OUT, IN;\nbrx.idx %r0, TS; }\n"
      "IN: mov.u32 %r3, 6; }\nOUT:\n"
      "st.global.v4.u32 [%rd0], {%r1, %r2, %r3, %t};";
  const auto word = [](uint32_t i) {
    const uint32_t of[2][3] = {{1, 4, 5}, {2, 3, 6}};
    return i % 4 == 3 ? i / 4 : of[i / 4 % 2][i % 4];
  };
  CHECK(results(program, 128) == numbers(128, word));
}

TEST_CASE("pointers to functions, in registers and in tables") {
  Program program;
  program.declarations =
      ".func (.param .b32 result) twice(.param .b32 x)\n{\n.reg .b32 %a;\nld.param.b32 %a, [x];\n"
      "add.u32 %a, %a, %a;\nst.param.b32 [result], %a;\nret;\n}\n"
      ".func (.param .b32 result) next(.param .b32 x)\n{\n.reg .b32 %a;\nld.param.b32 %a, [x];\n"
      "add.u32 %a, %a, 1;\nst.param.b32 [result], %a;\nret;\n}\n"
      ".global .align 8 .u64 table[2] = {twice, generic(next)};\n";
  const std::string call =
      "{ .param .b32 p0; st.param.b32 [p0], %t; .param .b32 r0;\n"
      "prototype: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
      "call (r0), %rd0, (p0), prototype;\nld.param.b32 %r1, [r0]; }\n" +
      std::string(
          "mul.wide.u32 %rd1, %t, 4;\nadd.u64 %rd1, %out, %rd1;\n"
          "st.global.u32 [%rd1], %r1;");
  program.body = "mov.u64 %rd0, twice;\n" + call;
  CHECK(results(program, 32) == numbers(32, [](uint32_t i) { return 2 * i; }));
  // Odd lanes call one function, even ones the other.
  program.body =
      "and.b32 %r0, %t, 1;\nmul.wide.u32 %rd1, %r0, 8;\nmov.u64 %rd2, table;\n"
      "add.u64 %rd2, %rd2, %rd1;\nld.global.u64 %rd0, [%rd2];\n" +
      call;
  CHECK(results(program, 32) == numbers(32, [](uint32_t i) { return i % 2 == 0 ? 2 * i : i + 1; }));
  program.body = "mov.u64 %rd0, 64;\n" + call;
  CHECK(contains(program.report(), "call: 0x40 points to no function"));
}

TEST_CASE("variables without a size, and bytes of addresses") {
  Program program;
  program.declarations =
      ".global .align 1 .b8 text[] = {104, 101, 0};\n.global .u32 pairs[][2] = {{1, 2}, {3}};\n"
      ".global .u32 t[2] = {8, 9};\n"  // packed: { char, pointer to t[1], char }
      ".global .align 1 .u8 packed[10] = {7, 0xFF(t+4), 0xFF00(t+4), 0xFF0000(generic(t)+4),\n"
      "0xFF000000(t+4), 0xFF00000000(t+4), 0xFF0000000000(t+4), 0xFF000000000000(t+4),\n"
      "0xFF00000000000000(t+4), 6};\n";
  std::string address = "mov.u64 %rd0, 0;\n";
  for (int byte = 8; byte > 0; --byte) {
    address += "ld.global.u8 %rd1, [packed+" + std::to_string(byte) +
               "];\nshl.b64 %rd0, %rd0, 8;\nor.b64 %rd0, %rd0, %rd1;\n";
  }
  program.body = address +
                 "ld.u32 %r0, [%rd0];\nld.global.u8 %r1, [packed+9];\n"
                 "ld.global.u8 %r2, [text+1];\nld.global.u32 %r3, [pairs+8];\n"
                 "ld.global.u32 %r4, [pairs+12];\n"
                 "st.global.v4.u32 [%out], {%r0, %r1, %r2, %r3};\nst.global.u32 [%out+16], %r4;";
  CHECK(results(program, 5) == Words{9, 6, 101, 3, 0});
  program.body = "ld.global.u32 %r0, [pairs+16];";
  CHECK(contains(program.report(), "16 bytes from variable pairs"));
}

TEST_CASE("a function by another name, a list of a call's targets, a pragma of an entry") {
  Program program;
  program.declarations =
      ".visible .func (.param .b32 result) next(.param .b32 x)\n{\n.reg .b32 %a;\n"
      "ld.param.b32 %a, [x];\nadd.u32 %a, %a, 1;\nst.param.b32 [result], %a;\nret;\n}\n"
      ".visible .func (.param .b32 result) after(.param .b32 x);\n.alias after, next;\n";
  program.directives = ".pragma \"nounroll\";";
  program.body =
      "mov.u64 %rd0, next;\n"
      "{ .param .b32 p; st.param.b32 [p], 4; .param .b32 r;\ncall (r), after, (p);\n"
      "ld.param.b32 %r1, [r]; st.param.b32 [p], %r1;\n"
      "targets: .calltargets next, after;\ncall (r), %rd0, (p), targets;\n"
      "ld.param.b32 %r2, [r]; }\nst.global.v2.u32 [%out], {%r1, %r2};";
  CHECK(results(program, 2) == Words{5, 6});
}

TEST_CASE("functions that call themselves") {
  Program program;
  const std::string fibonacci =
      ".func (.param .b32 result) fibonacci(.param .b32 n);\n"
      ".func (.param .b32 result) fibonacci(.param .b32 n)\n{\n.reg .b32 %a<6>; .reg .pred %q;\n"
      "ld.param.b32 %a0, [n];\nsetp.lt.u32 %q, %a0, 2;\n@%q bra DONE;\n"
      "{ .param .b32 p; .param .b32 r; sub.u32 %a1, %a0, 1; st.param.b32 [p], %a1;\n"
      "call (r), fibonacci, (p); ld.param.b32 %a2, [r]; }\n"
      "{ .param .b32 p; .param .b32 r; ld.param.b32 %a0, [n]; sub.u32 %a1, %a0, 2;\n"
      "st.param.b32 [p], %a1; call (r), fibonacci, (p); ld.param.b32 %a3, [r]; }\n"
      "add.u32 %a0, %a2, %a3;\nDONE:\nst.param.b32 [result], %a0;\nret;\n}\n";
  program.declarations = fibonacci;
  program.block = {12, 1, 1};
  program.body =
      "{ .param .b32 p; .param .b32 r; st.param.b32 [p], %t; call (r), fibonacci, (p);\n"
      "ld.param.b32 %r1, [r]; }\nmul.wide.u32 %rd1, %t, 4;\nadd.u64 %rd1, %out, %rd1;\n"
      "st.global.u32 [%rd1], %r1;";
  CHECK(results(program, 12) == Words{0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89});
  program.declarations = replaced(fibonacci, "setp.lt.u32 %q, %a0, 2", "setp.ne.u32 %q, %a0, %a0");
  CHECK(contains(program.report(), "'fibonacci' calls itself without end"));
  program.declarations =
      replaced(program.declarations, ".reg .pred %q;", ".reg .pred %q; .local .b32 l[4];");
  CHECK(contains(program.report(), "'fibonacci' calls itself too deeply"));
}

TEST_CASE("shared variables have the size that they are declared with") {
  Program program;
  program.declarations =
      ".shared .align 4 .b8 first[128];\n.shared .align 4 .b8 second[32];\n"
      ".shared .align 16 .b8 third[16];\n";
  const auto store = [&](const std::string& where) {
    program.body =
        "mov.u32 %r0, first; mov.u32 %r1, second; mov.u32 %r2, third;\n"
        "mov.b32 %r3, 0;\nmad.lo.u32 %r4, %t, 4, %r0;\n"
        "setp.ne.u32 %p0, %t, 0;\n@%p0 bra END;\n" +
        where + "\nEND:";
    return program.report();
  };
  CHECK(store("st.shared.u32 [%r4+124], 1;") == "");
  CHECK(contains(store("st.shared.u32 [%r4+128], 1;"),
                 "begin 0 bytes behind the end of first, which has 128 bytes"));
  CHECK(contains(store("ld.shared.u32 %r3, [first+128];"), "behind the end of first"));
  CHECK(contains(store("add.u32 %r6, %r1, -4;\nst.shared.u32 [%r6], 1;"),
                 "4 bytes before the start of second"));
  // Where PTX does not say which variable is meant: those that no variable has.
  CHECK(store("ld.param.u32 %r5, [out];\nand.b32 %r5, %r5, 0;\nor.b32 %r5, %r5, 0x480;\n"
              "st.shared.u32 [%r5], 1;") == "");
  CHECK(contains(store("ld.param.u32 %r5, [out];\nand.b32 %r5, %r5, 0;\nor.b32 %r5, %r5, 0x4b0;\n"
                       "st.shared.u32 [%r5], 1;"),
                 "begin 0 bytes behind the end of third"));
  CHECK(contains(store("st.shared.u32 [%smem+65536], 1;"), "are not all in the CTA's"));
}
