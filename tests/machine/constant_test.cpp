// Constant expressions, as ptxas 13.0 computes and refuses them.
#include <doctest/doctest.h>

#include <bit>

#include "tests/machine/ptx_run.h"

using namespace machine_test;

namespace {

template <class T, size_t COUNT>
void check_values(const std::string& type, const std::pair<const char*, T> (&cases)[COUNT]) {
  Program program;
  for (size_t i = 0; i < COUNT; ++i) {
    program.body +=
        "st.global" + type + " [%out+8*" + std::to_string(i) + "], " + cases[i].first + ";\n";
  }
  Buffer<T> out(COUNT);
  program.run(out.data());
  for (size_t i = 0; i < COUNT; ++i) {
    INFO(std::string(cases[i].first));
    CHECK(out[i] == cases[i].second);
  }
}

}  // namespace

TEST_CASE("integer expressions") {
  const std::pair<const char*, int64_t> cases[] = {
      {"(1<<3)|2", 10},
      {"1<<3", 8},
      {"2*3+1", 7},
      {"7/2", 3},
      {"-7/2", -3},
      {"-7 % 2", 1},
      {"-7 % -2", -7},
      {"5&6", 4},
      {"5^6", 3},
      {"1|2^3&4", 3},
      {"1&2==2", 1},
      {"8>>1+1", 2},
      {"20-5-3", 12},
      {"100/5/2", 10},
      {"1<2", 1},
      {"1>=2", 0},
      {"3==3", 1},
      {"3!=3", 0},
      {"3&&0", 0},
      {"1||0&&0", 1},
      {"(5>3)?7:9", 7},
      {"0?2:0?4:5", 5},
      {"1?(2):(3)", 2},
      {"-(3+4)*2", -14},
      {"~5", -6},
      {"!5", 0},
      {"!5+3", 3},
      {"+5", 5},
      {"(3)", 3},
      {"- 3", -3},
      {"--3", 3},
      {"0x1e+2", 32},
      {"0b101|0B10", 7},
      {"017", 15},
      {"1<<70", 64},
      {"2*WARP_SZ", 64},
      {"WARP_SZ+1", 33},
      {"1+(2.5<3.0)", 2},
      {"-9223372036854775808/-1", 0},
      // With or without a sign:
      {"(.u64)5", 5},
      {"(.u64)-5>>60", 15},
      {"(.s64)-1U>>63", -1},
      {"-5>>60", -1},
      {"-1U>>63", 1},
      {"9223372036854775808>>63", 1},
      {"0x7fffffffffffffff+1>>63", -1},
      {"-1<2U", 0},
      {"-1/2U", 0x7fffffffffffffff},
      {"(~0)>>63", 1},
      {"(-1|0U)>>63", 1},
      {"(-1^0)>>63", -1},
      {"-1>>63U", -1},
      {"(5 % 3)-3>>63", 1},
      {"(1U<2U)-2>>63", -1},
      {"(1?-1:0U)>>63", -1},
  };
  check_values(".u64", cases);
}

TEST_CASE("real expressions, and the forms of a real number") {
  const std::pair<const char*, double> cases[] = {
      {"1.0+2.0", 3},
      {"1.0/4.0", 0.25},
      {"-(1.5*2.0)", -3},
      {"5.-.5", 4.5},
      {".5", 0.5},
      {"-.5e-1", -0.05},
      {"5.", 5},
      {"1e1", 10},
      {"1e+2", 100},
      {"1E-2", 0.01},
      {"1.e1", 10},
      {"08.5", 8.5},
      {"+1.5", 1.5},
      {"-0d3ff0000000000000", -1},
      {"0d3ff0000000000000+1.0", 2},
  };
  check_values(".f64", cases);
}

TEST_CASE("expressions in addresses, lists and initial values") {
  Program program;
  program.declarations =
      ".global .u32 x[3] = {1<<3, (2), ~5};\n.global .f32 y[3] = {1.0+2.0, -.5, 1e1};\n"
      ".global .u64 z[2] = {x+2*4, generic(x)+(1<<2)};\n";
  program.body =
      "ld.global.u32 %r0, [x+2*4];\nld.global.u32 %r1, [x+1<<2];\nld.global.f32 %r2, [y+(1?8:4)];\n"
      "mov.u64 %rd0, z+8*1;\nld.global.u64 %rd0, [%rd0+-(4+4)];\nld.global.u32 %r3, [%rd0+4-8];\n"
      "ld.global.u64 %rd0, [z+8];\nsub.u64 %rd0, %rd0, 4;\nld.global.u32 %r4, [%rd0];\n"
      "st.global.v4.u32 [%out], {%r0, %r1, %r2, %r3};\n"
      "st.global.v2.u32 [%out+4*4], {%r4, 1<<3};\n"
      "setp.eq.u32 %p0, %r4, 1<<3;\n@!%p0 trap;";
  CHECK(results(program, 6) ==
        std::vector<uint32_t>{~5u, 2, std::bit_cast<uint32_t>(10.f), 2, 8, 8});
}

TEST_CASE("expressions that ptxas refuses") {
  for (const char* const text : {"1.0+2",
                                 "1==1.0",
                                 "1.5<<2",
                                 "!1.5",
                                 "~1.0",
                                 "1.0?2.0:3.0",
                                 "1?1.5:2.5",
                                 "1.0&&0.0",
                                 "(.s64)1.5",
                                 "(.s32)5",
                                 "7/0",
                                 "7 % 0",
                                 "0?1/0:2",
                                 "1.0/0.0",
                                 "-7%2",
                                 "(1 < < 3)",
                                 "1.5f",
                                 "5u",
                                 "0f3f800000+0f3f800000",
                                 "-0f3f800000",
                                 "(3",
                                 "3)",
                                 "1?2"}) {
    Program program;
    program.body = "mov.b64 %rd0, " + std::string(text) + ";";
    const std::string report = program.report();
    INFO(program.body);
    CHECK(contains(report, "PTX line "));
  }
}

TEST_CASE("an expression that is nested without end is refused") {
  const auto repeated = [](const std::string& part) {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += part;
    return text;
  };
  for (const char* const part : {"(", "-", "~", "1?2:"}) {
    Program program;
    program.body = "mov.b64 %rd0, " + repeated(part) + "1;";
    CHECK(contains(program.report(), "nested too deeply"));
  }
}
