// Instructions that other people's programs use and this repository's do not: C++'s wmma, products of a
// sparse A, of four bits and of one, 16 bytes at once, video, pairs of 16 bits.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "common/machine/ops/number.h"
#include "tests/machine/ptx_run.h"
#include "tests/machine/schedules.h"

using namespace machine_test;

namespace {

// "{%r4,%r5}"
std::string list(const std::string& prefix, int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ",") + prefix + std::to_string(first + i);
  }
  return text + "}";
}

uint32_t f16(int value) {
  return machine::f16_from_f32(static_cast<float>(value));
}
int of_f16(uint32_t code) {
  return static_cast<int>(machine::decode<machine::F16>(code));
}

// Small numbers that differ from place to place.
int number(int seed, int i) {
  return (i * 7 + seed * 5 + i / 3) % 5 - 2;
}

}  // namespace

// ---- wmma ------------------------------------------------------------------------------------------

namespace {

// A and B in half precision, C and D in single; every element of a fragment is doubled on the way.
void check_wmma_f16(int m, int n, bool a_by_column, bool b_by_column) {
  constexpr int K = 16;
  const std::string shape = ".m" + std::to_string(m) + "n" + std::to_string(n) + "k16";
  const std::string a_layout = a_by_column ? ".col" : ".row";
  const std::string b_layout = b_by_column ? ".col" : ".row";
  const int lda = (a_by_column ? m : K) + 8, ldb = (b_by_column ? K : n) + 8;
  Program program;
  program.body =
      ".reg .f32 %f<8>; .reg .b32 %a<8>, %b<8>;\n"
      "wmma.load.a.sync.aligned" +
      a_layout + shape + ".global.f16 " + list("%a", 0, 8) + ", [%in], " + std::to_string(lda) +
      ";\n"
      "wmma.load.b.sync.aligned" +
      b_layout + shape + ".f16 " + list("%b", 0, 8) + ", [%in+4096], " + std::to_string(ldb) +
      ";\n"
      "wmma.load.c.sync.aligned.row" +
      shape + ".global.f32 " + list("%f", 0, 8) +
      ", [%in+8192];\n"
      "wmma.mma.sync.aligned" +
      a_layout + b_layout + shape + ".f32.f32 " + list("%f", 0, 8) + ", " + list("%a", 0, 8) +
      ", " + list("%b", 0, 8) + ", " + list("%f", 0, 8) + ";\n";
  for (int i = 0; i < 8; ++i) {
    const std::string f = "%f" + std::to_string(i);
    program.body += "add.f32 " + f + ", " + f + ", " + f + ";\n";
  }
  program.body += "wmma.store.d.sync.aligned.col" + shape + ".global.f32 [%out], " +
                  list("%f", 0, 8) + ", 40;\n";
  Buffer<uint16_t> in(8192);
  for (int i = 0; i < m; ++i) {
    for (int k = 0; k < K; ++k) {
      in[static_cast<size_t>(a_by_column ? k * lda + i : i * lda + k)] =
          static_cast<uint16_t>(f16(number(1, i * K + k)));
    }
  }
  for (int k = 0; k < K; ++k) {
    for (int j = 0; j < n; ++j) {
      in[static_cast<size_t>(2048 + (b_by_column ? j * ldb + k : k * ldb + j))] =
          static_cast<uint16_t>(f16(number(2, k * n + j)));
    }
  }
  for (int i = 0; i < m * n; ++i) {
    reinterpret_cast<float*>(in.data() + 4096)[i] = static_cast<float>(number(3, i));
  }
  Buffer<float> out(40 * 32);
  program.run(out.data(), in.data());
  int wrong = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      int sum = number(3, i * n + j);
      for (int k = 0; k < K; ++k) sum += number(1, i * K + k) * number(2, k * n + j);
      wrong += out[static_cast<size_t>(j * 40 + i)] != static_cast<float>(2 * sum);
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("wmma multiplies halves of every shape and layout") {
  for (const auto& [m, n] : {std::pair{16, 16}, {32, 8}, {8, 32}}) {
    for (const int layouts : {0, 1, 2, 3}) {
      CAPTURE(m);
      CAPTURE(layouts);
      check_wmma_f16(m, n, (layouts & 1) != 0, (layouts & 2) != 0);
    }
  }
}

TEST_CASE("wmma: accumulators of 16 bits, integers and doubles") {
  // C, then D, in halves; A and B are C's values too.
  Program halves;
  halves.body =
      "wmma.load.a.sync.aligned.row.m16n16k16.f16 " + list("%r", 0, 8) + ", [%in], 16;\n" +
      "wmma.load.b.sync.aligned.row.m16n16k16.f16 " + list("%r", 8, 8) + ", [%in], 16;\n" +
      "wmma.load.c.sync.aligned.row.m16n16k16.f16 " + list("%r", 16, 4) + ", [%in], 16;\n" +
      "wmma.mma.sync.aligned.row.row.m16n16k16.f16.f16 " + list("%r", 20, 4) + ", " +
      list("%r", 0, 8) + ", " + list("%r", 8, 8) + ", " + list("%r", 16, 4) + ";\n" +
      "wmma.store.d.sync.aligned.row.m16n16k16.f16 [%out], " + list("%r", 20, 4) + ", 16;\n";
  Buffer<uint16_t> in(256), out(256);
  for (int i = 0; i < 256; ++i)
    in[static_cast<size_t>(i)] = static_cast<uint16_t>(f16(number(4, i)));
  halves.run(out.data(), in.data());
  // The same numbers as bytes.
  Program bytes;
  bytes.body =
      "wmma.load.a.sync.aligned.row.m16n16k16.global.s8 " + list("%r", 0, 2) + ", [%in];\n" +
      "wmma.load.b.sync.aligned.row.m16n16k16.global.s8 " + list("%r", 2, 2) + ", [%in];\n" +
      "wmma.load.c.sync.aligned.row.m16n16k16.global.s32 " + list("%r", 4, 8) + ", [%in+256];\n" +
      "wmma.mma.sync.aligned.row.row.m16n16k16.s32.s8.s8.s32.satfinite " + list("%r", 4, 8) + ", " +
      list("%r", 0, 2) + ", " + list("%r", 2, 2) + ", " + list("%r", 4, 8) + ";\n" +
      "wmma.store.d.sync.aligned.row.m16n16k16.global.s32 [%out], " + list("%r", 4, 8) + ";\n";
  Buffer<int8_t> small(256 + 1024);
  Buffer<int32_t> sums(256);
  for (int i = 0; i < 256; ++i) {
    small[static_cast<size_t>(i)] = static_cast<int8_t>(number(4, i));
    reinterpret_cast<int32_t*>(small.data() + 256)[i] = number(4, i);
  }
  bytes.run(sums.data(), small.data());
  int wrong = 0;
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      int sum = number(4, i * 16 + j);
      for (int k = 0; k < 16; ++k) sum += number(4, i * 16 + k) * number(4, k * 16 + j);
      const auto at = static_cast<size_t>(i * 16 + j);
      wrong += of_f16(out[at]) != sum;
      wrong += sums[at] != sum;
    }
  }
  CHECK(wrong == 0);

  Program doubles;
  doubles.body =
      ".reg .f64 %d<6>;\n"
      "wmma.load.a.sync.aligned.row.m8n8k4.f64 {%d0}, [%in];\n"
      "wmma.load.b.sync.aligned.col.m8n8k4.f64 {%d1}, [%in+256];\n"
      "wmma.load.c.sync.aligned.row.m8n8k4.f64 {%d2,%d3}, [%in+512];\n"
      "wmma.mma.sync.aligned.row.col.m8n8k4.rn.f64.f64.f64.f64 {%d4,%d5}, {%d0}, {%d1}, "
      "{%d2,%d3};\n"
      "wmma.store.d.sync.aligned.row.m8n8k4.f64 [%out], {%d4,%d5};\n";
  Buffer<double> wide(128), products(64);
  for (int i = 0; i < 128; ++i) wide[static_cast<size_t>(i)] = number(5, i) * 0.5;
  doubles.run(products.data(), wide.data());
  for (size_t i = 0; i < 64; ++i) {
    double sum = wide[64 + i];
    for (size_t k = 0; k < 4; ++k) sum += wide[i / 8 * 4 + k] * wide[32 + i % 8 * 4 + k];
    CHECK(products[i] == sum);
  }
}

TEST_CASE("wmma checks every access") {
  Program program;
  program.body =
      "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " + list("%r", 0, 8) + ", [%in], 16;\n";
  Buffer<uint16_t> in(255);
  CHECK(contains(program.report(nullptr, in.data()), "wmma.load"));
  program.body = "add.u64 %in, %in, 2;\n" + program.body;
  Buffer<uint16_t> odd(300);
  CHECK(contains(program.report(nullptr, odd.data()), "is not a multiple of 4"));
}

// ---- mma.sync of rarer types ------------------------------------------------------------------------

namespace {

struct Case {
  std::string opcode;
  int m, k, bits;
  bool sparse;
  int selector;
};

uint32_t code_of(const Case& of, int value) {
  if (of.bits == 16) return f16(value);
  if (of.bits == 32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint32_t>(value) & ((1u << of.bits) - 1);
}

// Registers of a warp, by register and lane.
using Registers = std::vector<std::array<uint32_t, 32>>;

// By the figures of the PTX ISA: word lane % 4 of a line, and 16 bytes a register.
void put(Registers& registers, int first, int groups, int line, int bit, int bits, uint32_t code) {
  const int chunk = bit / 128, lane = line % 8 * 4 + bit % 128 / 32;
  registers[static_cast<size_t>(first + chunk * groups + line / 8)][static_cast<size_t>(lane)] |=
      code << (bit % 32);
  (void)bits;
}

void check_mma(const Case& of) {
  CAPTURE(of.opcode);
  const bool floats = of.bits >= 16;
  const int groups = of.m / 8, stored = of.sparse ? of.k / 2 : of.k;
  const int a = 4 * groups / 2, b = a + groups * stored * of.bits / 128;
  const int e = b + of.k * of.bits / 128, count = e + 1;  // C is in registers 0 to a - 1
  Registers registers(static_cast<size_t>(count));
  std::vector<int> dense(static_cast<size_t>(of.m * of.k)), right(static_cast<size_t>(8 * of.k));
  for (int j = 0; j < 8; ++j) {
    for (int k = 0; k < of.k; ++k) {
      const int value = number(6, j * of.k + k);
      right[static_cast<size_t>(j * of.k + k)] = value;
      put(registers, b, 1, j, k * of.bits, of.bits, code_of(of, value));
    }
  }
  // Of four units two are there: elements, of four bits pairs, of 32 bits halves.
  const int unit = of.bits == 32 || of.bits == 16 ? 16 : 8, units = of.k * of.bits / unit;
  for (int i = 0; i < of.m; ++i) {
    if (!of.sparse) {
      for (int k = 0; k < of.k; ++k) {
        const int value = number(7, i * of.k + k);
        dense[static_cast<size_t>(i * of.k + k)] = value;
        put(registers, a, groups, i, k * of.bits, of.bits, code_of(of, value));
      }
      continue;
    }
    for (int group = 0; group < units / 4; ++group) {
      int first = (i + group) % 3, second = first + 1 + (i + group) % (3 - first);
      if (of.bits == 32) first = (i + group) % 2 * 2, second = first + 1;
      const uint32_t places = static_cast<uint32_t>(first | second << 2);
      int lane = 0, shift = 0;  // in the quad
      if (unit == 16) {
        lane = units == 16 ? of.selector : 2 * of.selector + group / 4;
        shift = 16 * (i / 8) + group % 4 * 4;
      } else {
        lane = units == 32 ? 2 * of.selector + i / 8 : i / 8 + 2 * (group / 8);
        shift = group % 8 * 4;
      }
      registers[static_cast<size_t>(e)][static_cast<size_t>(i % 8 * 4 + lane)] |= places << shift;
      for (const int which : {0, 1}) {
        const int from = (group * 2 + which) * unit,
                  to = (group * 4 + (which ? second : first)) * unit;
        for (int bit = 0; bit < unit; bit += of.bits) {
          if (from % of.bits != 0) continue;  // the second half of a number of 32 bits
          const int value = number(8, i * stored + (from + bit) / of.bits);
          dense[static_cast<size_t>(i * of.k + (to + bit) / of.bits)] = value;
          put(registers, a, groups, i, from + bit, of.bits, code_of(of, value));
        }
      }
    }
  }
  for (int r = 0; r < a; ++r) {
    for (int lane = 0; lane < 32; ++lane) {
      registers[static_cast<size_t>(r)][static_cast<size_t>(lane)] =
          floats ? std::bit_cast<uint32_t>(static_cast<float>(number(9, r * 32 + lane)))
                 : static_cast<uint32_t>(number(9, r * 32 + lane));
    }
  }
  Program program;
  program.body = "mad.wide.u32 %rd0, %t, 4, %in;\nmad.wide.u32 %rd1, %t, 4, %out;\n";
  for (int r = 0; r < count; ++r) {
    program.body +=
        "ld.global.b32 %r" + std::to_string(r) + ", [%rd0+" + std::to_string(r * 128) + "];\n";
  }
  program.body += of.opcode + " " + list("%r", 0, a) + ", " + list("%r", a, b - a) + ", " +
                  list("%r", b, e - b) + ", " + list("%r", 0, a);
  if (of.sparse) program.body += ", %r" + std::to_string(e) + ", " + std::to_string(of.selector);
  program.body += ";\n";
  for (int r = 0; r < a; ++r) {
    program.body +=
        "st.global.b32 [%rd1+" + std::to_string(r * 128) + "], %r" + std::to_string(r) + ";\n";
  }
  Buffer<uint32_t> in(static_cast<size_t>(count * 32));
  for (size_t r = 0; r < registers.size(); ++r) std::copy_n(registers[r].data(), 32, &in[r * 32]);
  const std::vector<uint32_t> out = results(program, static_cast<size_t>(a * 32), in.data());
  int wrong = 0;
  for (int r = 0; r < a; ++r) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = r / 2 * 8 + lane / 4, column = lane % 4 * 2 + r % 2;
      int sum = number(9, r * 32 + lane);
      for (int k = 0; k < of.k; ++k) {
        sum += dense[static_cast<size_t>(row * of.k + k)] *
               right[static_cast<size_t>(column * of.k + k)];
      }
      const uint32_t bits = out[static_cast<size_t>(r * 32 + lane)];
      wrong +=
          (floats ? static_cast<int>(std::bit_cast<float>(bits)) : static_cast<int>(bits)) != sum;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("mma.sync of four bits, and of eight rows") {
  check_mma({"mma.sync.aligned.m8n8k32.row.col.satfinite.s32.s4.s4.s32", 8, 32, 4, false, 0});
  check_mma({"mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32", 16, 32, 4, false, 0});
  check_mma({"mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32.satfinite", 16, 64, 4, false, 0});
  check_mma({"mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", 8, 16, 8, false, 0});
}

TEST_CASE("mma.sp of every width, its metadata where the selector says") {
  const std::string sp = "mma.sp.sync.aligned", ordered = "mma.sp::ordered_metadata.sync.aligned";
  check_mma({sp + ".m16n8k16.row.col.f32.f16.f16.f32", 16, 16, 16, true, 3});
  check_mma({sp + ".m16n8k32.row.col.f32.f16.f16.f32", 16, 32, 16, true, 1});
  check_mma({ordered + ".m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 32, true, 2});
  check_mma({ordered + ".m16n8k16.row.col.f32.tf32.tf32.f32", 16, 16, 32, true, 0});
  check_mma({sp + ".m16n8k32.row.col.s32.s8.s8.s32", 16, 32, 8, true, 1});
  check_mma({ordered + ".m16n8k64.row.col.satfinite.s32.s8.s8.s32", 16, 64, 8, true, 0});
  check_mma({ordered + ".m16n8k64.row.col.s32.s4.s4.s32", 16, 64, 4, true, 1});
  check_mma({ordered + ".m16n8k128.row.col.s32.s4.s4.s32", 16, 128, 4, true, 0});
}

TEST_CASE("mma.sync counts bits") {
  for (const bool ands : {false, true}) {
    Program program;
    program.body =
        "mad.lo.u32 %r0, %t, 0x9E3779B1, 12345;\nmul.lo.u32 %r1, %r0, 0x85EBCA6B;\n"
        "xor.b32 %r2, %r0, 0x5bd1e995;\nmov.b32 %r4, 5;\nmov.b32 %r5, %t;\n"
        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32" +
        std::string(ands ? ".and" : ".xor") +
        ".popc {%r4,%r5}, {%r1}, {%r2}, {%r4,%r5};\n"
        "mad.wide.u32 %rd0, %t, 16, %out;\nst.global.v4.b32 [%rd0], {%r1,%r2,%r4,%r5};\n";
    const std::vector<uint32_t> out = results(program, 128);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t j = 0; j < 2; ++j) {
        int sum = static_cast<int>(j == 0 ? 5 : lane);
        for (uint32_t word = 0; word < 4; ++word) {
          const uint32_t x = out[(lane / 4 * 4 + word) * 4];
          const uint32_t y = out[((lane % 4 * 2 + j) * 4 + word) * 4 + 1];
          sum += std::popcount(ands ? x & y : x ^ y);
        }
        CHECK(static_cast<int>(out[lane * 4 + 2 + j]) == sum);
      }
    }
  }
}

// ---- 16 bytes at once ------------------------------------------------------------------------------

TEST_CASE("registers of 128 bits: loads, stores, exchange, compare and swap") {
  Program program;
  program.block = {64, 1, 1};
  program.grid = {4, 1, 1};
  program.body =
      ".reg .b128 old, next, %q<2>; .reg .b64 a, b, c, d;\n"
      "ld.relaxed.gpu.global.b128 old, [%out];\nAGAIN:\n"
      "mov.b128 {a, b}, old;\nadd.s64 c, a, 1;\nsub.s64 d, b, 3;\nmov.b128 next, {c, d};\n"
      "atom.global.cas.b128 %q1, [%out], old, next;\n"
      "mov.b128 {c, d}, %q1;\nmov.b128 old, %q1;\n"
      "setp.ne.s64 %p0, a, c;\n@%p0 bra AGAIN;\n"
      "mov.b128 next, {a, b};\natom.exch.relaxed.gpu.global.b128 old, [%out+16], next;\n"
      "st.relaxed.gpu.global.b128 [%out+32], next;\n";
  const std::vector<uint32_t> out = results(program, 12);
  CHECK(out[0] == 256);
  CHECK(static_cast<int32_t>(out[2]) == -768);
  CHECK(static_cast<int32_t>(out[6]) == -3 * static_cast<int32_t>(out[4]));
  CHECK(static_cast<int32_t>(out[10]) == -3 * static_cast<int32_t>(out[8]));
  Program odd;
  odd.body = ".reg .b128 x;\nld.global.b128 x, [%out+8];\n";
  Buffer<uint32_t> some(16);
  CHECK(contains(odd.report(some.data()), "is not a multiple of 16"));
}

TEST_CASE("vectors of registers, whole and by their parts") {
  Program program;
  program.block = {1, 1, 1};
  program.body =
      ".reg .f32 v;\n"
      "{.reg .v4 .f32 v, w, %v<3>; .reg .v2 .u32 pair; .reg .v2 .b64 wide;\n"
      "mov.v4.f32 v, {1.0, 2.0, 3.0, 4.0};\nst.global.v4.f32 [%out], v;\n"
      "add.f32 v.x, v.x, v.w;\nadd.f32 v.g, v.b, v.a;\nst.global.v4.f32 [%out+16], v;\n"
      "ld.global.v4.f32 w, [%out];\nmov.v4.b32 %v2, w;\nmov.f32 %v1.r, %v2.z;\n"
      "mov.v4.b32 {%r0, _, %r1, %r2}, %v2;\nst.global.v2.f32 [%out+32], {%v1.x, %r2};\n"
      "mov.v2.u32 pair, {7, 8};\nmov.v2.u32 pair, {pair.y, pair.x};\n"
      "mov.b64 wide.x, pair;\nmov.v2.b64 wide, {wide.y, wide.x};\nmov.b64 pair, wide.y;\n"
      "st.global.v2.u32 [%out+40], pair;\n"
      "{.reg .f32 v; mov.f32 v, 9.0; st.global.f32 [%out+48], v; } }\n"
      "mov.f32 v, 10.0;\nst.global.f32 [%out+52], v;";
  Buffer<float> out(14);
  program.run(out.data());
  const float expected[] = {1, 2, 3, 4, 5, 7, 3, 4, 3, 4};
  for (size_t i = 0; i < std::size(expected); ++i) CHECK(out[i] == expected[i]);
  CHECK(std::bit_cast<uint32_t>(out[10]) == 8);
  CHECK(std::bit_cast<uint32_t>(out[11]) == 7);
  CHECK(out[12] == 9);
  CHECK(out[13] == 10);
  for (const char* const wrong : {"mov.v2.f32 v, {%r0, %r1};", "ld.global.v2.f32 v, [%out];",
                                  "st.global.v4.f32 [%out], {v, v};"}) {
    program.body = ".reg .v4 .f32 v;\n" + std::string(wrong);
    const std::string report = program.report(out.data());
    INFO(report);
    CHECK(contains(report, "cannot run: '"));
  }
}

// ---- Integers ----------------------------------------------------------------------------------------

namespace {

uint32_t one(const std::string& instruction, uint32_t a, uint32_t b, uint32_t c) {
  Program program;
  program.body = "mov.b32 %r1, " + std::to_string(a) + ";\nmov.b32 %r2, " + std::to_string(b) +
                 ";\nmov.b32 %r3, " + std::to_string(c) + ";\n" + instruction +
                 "\nst.global.b32 [%out], %r0;\n";
  return results(program, 1)[0];
}

}  // namespace

TEST_CASE("lop3 with a predicate") {
  const auto test = [](const std::string& lop3, uint32_t q) {
    return one("{ .reg .pred q, p;\nsetp.ne.u32 q, " + std::to_string(q) + ", 0;\n" + lop3 +
                   "\nselp.u32 %r4, 0x100, 0, p;\nor.b32 %r0, %r0, %r4; }",
               0xf0, 0xff, 0xaa);
  };
  const std::string some = ".b32 %r0|p, %r1, %r2, %r3, 0x96, ", none = replaced(some, "0x96", "0");
  const std::string sink = "mov.u32 %r0, 7;\n";
  CHECK(test("lop3.or" + some + "q;", 0) == 0x1a5);
  CHECK(test("lop3.or" + none + "q;", 0) == 0);
  CHECK(test("lop3.or" + none + "q;", 1) == 0x100);
  CHECK(test("lop3.or" + none + "!q;", 0) == 0x100);
  CHECK(test("lop3.and" + some + "q;", 0) == 0xa5);
  CHECK(test("lop3.and" + some + "1;", 0) == 0x1a5);
  CHECK(test("lop3.and" + none + "1;", 0) == 0);
  CHECK(test(sink + replaced("lop3.and" + some, "%r0", "_") + "1;", 0) == 0x107);
  Program wrong;
  for (const char* const without :
       {"lop3.or.b32 %r0, %r1, %r2, %r3, 0x96, 0;", "lop3.b32 %r0|%p0, %r1, %r2, %r3, 0x96, 0;"}) {
    wrong.body = without;
    CHECK(contains(wrong.report(), "cannot run: 'lop3"));
  }
}

TEST_CASE("video instructions") {
  CHECK(one("vabsdiff4.u32.u32.u32 %r0, %r1, %r2, %r3;", 0x10ff0280, 0x20010300, 0) == 0x10fe0180);
  CHECK(one("vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3;", 0x10ff0280, 0x20010300, 7) ==
        0x10 + 0xfe + 0x01 + 0x80 + 7);
  CHECK(one("vadd2.s32.s32.s32.sat %r0, %r1, %r2, %r3;", 0x7fff8000, 0x0001ffff, 0) == 0x7fff8000);
  CHECK(one("vsub4.u32.u32.u32.sat %r0, %r1, %r2, %r3;", 0x01ff0510, 0x02010503, 0) == 0x00fe000d);
  CHECK(one("vavrg4.u32.u32.u32 %r0, %r1, %r2, %r3;", 0x01ff0510, 0x02010503, 0) == 0x0280050a);
  CHECK(one("vset4.s32.s32.ge %r0, %r1, %r2, %r3;", 0x80000102, 0x7f000201, 0) == 0x00010001);
  CHECK(one("vset.s32.s32.lt.add %r0, %r1, %r2, %r3;", ~0u, 0, 41) == 42);
  CHECK(one("vadd.s32.s32.s32.sat %r0, %r1, %r2;", 0x7fffffff, 1, 0) == 0x7fffffff);
  CHECK(one("vadd.u32.u32.u32.sat %r0, %r1, %r2;", ~0u, 1, 0) == ~0u);
  CHECK(one("vadd4.u32.u32.u32.sat %r0, %r1, %r2, %r3;", ~0u, 0x01010101, 0) == ~0u);
  CHECK(one("vadd.s32.s32.s32.min %r0, %r1, %r2, %r3;", ~2u, 2, 5) == ~0u);
  CHECK(one("vadd.s32.s32.s32.max %r0, %r1, %r2, %r3;", ~2u, 2, 5) == 5);
  CHECK(one("vmax.s32.s32.s32.min %r0, %r1, %r2, %r3;", 5, ~6u, ~2u) == ~2u);
  CHECK(one("vshl.u32.u32.u32.clamp %r0, %r1, %r2;", 3, 40, 0) == 0);
  CHECK(one("vshr.s32.s32.u32.wrap.add %r0, %r1, %r2, %r3;", ~15u, 34, 10) == 6);
  CHECK(one("vmad.s32.s32.s32.shr7 %r0, %r1, %r2, %r3;", 256, ~0u, 128) == ~0u);
  Program program;
  program.body = "vadd.s32.s32.s32 %r0, %r1.b0, %r2, %r3;\n";
  CHECK(contains(program.report(), "video instructions take whole registers only, not %r1.b0"));
}

TEST_CASE("selections of predicates, policies, masks and 24 bits") {
  const std::string selp =
      "{ .reg .pred a, b, c, d;\nsetp.eq.u32 a, %r1, 1;\nsetp.eq.u32 b, %r2, 1;\n"
      "setp.eq.u32 c, %r3, 1;\nselp.pred d, a, b, c;\nselp.u32 %r0, 1, 0, d; }";
  for (uint32_t bits = 0; bits < 8; ++bits) {
    const uint32_t a = bits & 1, b = bits >> 1 & 1, c = bits >> 2;
    CHECK(one(selp, a, b, c) == (c ? a : b));
  }
  CHECK(one("createpolicy.fractional.L2::evict_first.b64 %rd9, 0f3F800000;\n"
            "cvt.u32.u64 %r0, %rd9;",
            0, 0, 0) == 0);
  CHECK(one("activemask.b32 %r0;", 0, 0, 0) == ~0u);
  CHECK(one("setp.gt.u32 %p1, %t, 26;\n@%p1 activemask.b32 %r0;", 0, 0, 0) == 0xf8000000);
  CHECK(one("mad24.hi.sat.s32 %r0, %r1, %r2, %r3;", 0x7fffff, 0x7fffff, 0x7fffffff) == 0x7fffffff);
  CHECK(one("mad24.hi.sat.s32 %r0, %r1, %r2, %r3;", 0x10000, 0x100, 7) == 0x107);
  CHECK(one("sin.approx.f32 %r0, %r1;", 0, 0, 0) == 0);
  CHECK(one("cos.approx.f32 %r0, %r1;", 0, 0, 0) == 0x3f800000);
}

TEST_CASE("pairs of 16 bits, and qualifiers in another order") {
  CHECK(one("add.s16x2 %r0, %r1, %r2;", 0xffff8000, 0x00018001, 0) == 0x00000001);
  CHECK(one("min.s16x2 %r0, %r1, %r2;", 0xffff0005, 0x00010004, 0) == 0xffff0004);
  CHECK(one("max.u16x2 %r0, %r1, %r2;", 0xffff0005, 0x00010004, 0) == 0xffff0005);
  CHECK(one("max.s16x2.relu %r0, %r1, %r2;", 0xffff0005, 0xfffe0004, 0) == 0x00000005);
  CHECK(one("min.s32.relu %r0, %r1, %r2;", ~0u, 4, 0) == 0);
  CHECK(one("mov.b32 %r0, 1;\natom.add.relaxed.gpu.global.u32 %r0, [%out], %r1;\n"
            "ld.cg.global.relaxed.gpu.u32 %r0, [%out];",
            9, 0, 0) == 9 * 32);
}

TEST_CASE("a read of what nobody wrote is no race with a write behind a barrier") {
  for (const bool barrier : {false, true}) {
    Program program;
    program.block = {64, 1, 1};
    program.body =
        "setp.lt.u32 %p0, %t, 32;\nsetp.eq.u32 %p1, %t, 40;\n"
        "@%p0 ld.shared.b32 %r1, [%smem];\n" +
        std::string(barrier ? "bar.sync 0;\n" : "") + "@%p1 st.shared.b32 [%smem], %t;\n";
    const std::string report = program.report();
    CHECK(contains(report, barrier ? "Rule: never-written" : "Rule: shared-race"));
  }
}

TEST_CASE("memory that the toolkit keeps to itself, of a kernel that asks for it") {
  Program program;
  program.declarations = ".shared .align 4 .b8 own[64];\n";
  program.body =
      "mov.u32 %r0, %reserved_smem_offset_1;\nmov.b32 %r1, 77;\nmov.u32 %r2, own;\n"
      "st.shared.b32 [%r0], %r1;\nst.shared.b32 [%r2], %r0;\nst.shared.b32 [%smem], %r2;\n"
      "ld.shared.b32 %r3, [%r0];\nst.global.b32 [%out], %r3;\n";
  program.block = {1, 1, 1};
  CHECK(results(program, 1)[0] == 77);
}
