// Loads that a compiler makes before it is known whether their value is wanted: they are reads where
// the value is used.
#include <doctest/doctest.h>

#include "tests/machine/schedules.h"

using namespace machine_test;

// Four words of static shared memory, `part`, of which thread 0 writes the first: 5. %p1: thread 0.
static Program parts(const std::string& body) {
  Program program = with(
      "setp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [part], 5;\nbar.sync 0;\n" + body + "\n", 64);
  program.declarations = ".shared .align 16 .b8 part[16];\n.global .align 4 .u32 total = 6;\n";
  return program;
}

static const std::string STORE = "st.global.u32 [%rd20], %r4;\n";
static const Fault NEVER_WRITTEN = {Error::Kind::race,
                                    {"ld.shared.u32 reads shared", "nothing has written"}};

TEST_CASE("early loads: what selp drops has not been read, nor has what was computed of it") {
  const auto sum = [](const std::string& first, const std::string& keep) {  // who keeps the second
    return parts(
        "ld.shared.u32 %r1, [part];\nld.shared.u32 %r2, [part+4];\nadd.u32 %r3, %r1, %r2;\n"
        "setp.ge.u32 %p2, %t, " +
        first + ";\n" + keep + STORE);
  };
  const std::string keeps[] = {"selp.b32 %r4, %r3, %r1, %p2;\n",
                               "not.pred %p3, %p2;\nselp.b32 %r4, %r1, %r3, %p3;\n"};
  for (const std::string& keep : keeps) {
    check_legal(sum("64", keep), Words(64, 5));
    check_fault(sum("63", keep), NEVER_WRITTEN, ALL);
  }
  check_fault(sum("64", "selp.b32 %r4, %r2, %r3, %p1;\n"), NEVER_WRITTEN, ALL);
  check_fault(sum("64", "mov.u32 %r4, %r3;\n"), NEVER_WRITTEN, ALL);
}

TEST_CASE("early loads: of a vector's elements each is read where it is used") {
  const std::string sum =
      "ld.shared.v4.u32 {%r1, %r2, %r3, %r5}, [part];\nadd.u32 %r6, %r1, %r3;\n"
      "setp.ge.u32 %p2, %t, FIRST;\nselp.b32 %r4, %r6, %r1, %p2;\n" +
      STORE;
  check_legal(parts(replaced(sum, "FIRST", "64")), Words(64, 5));
  check_fault(parts(replaced(sum, "FIRST", "63")),
              {Error::Kind::race, {"ld.shared.v4.u32 reads shared 0x408", "nothing has written"}},
              ALL);
}

TEST_CASE("early loads: a comparison is dropped by another condition") {
  // The larger of two words, if there is a second.
  const std::string larger =
      "ld.shared.u32 %r1, [part];\nld.shared.u32 %r2, [part+4];\nsetp.gt.u32 %p2, %r2, %r1;\n"
      "setp.ge.u32 %p3, %t, FIRST;\n";
  const std::string keeps[] = {"and.pred %p4, %p3, %p2;\nselp.b32 %r4, %r2, %r1, %p4;\n",
                               "not.pred %p5, %p3;\nnot.pred %p6, %p2;\nor.pred %p4, %p6, %p5;\n"
                               "selp.b32 %r4, %r1, %r2, %p4;\n"};
  for (const std::string& keep : keeps) {
    check_legal(parts(replaced(larger, "FIRST", "64") + keep + STORE), Words(64, 5));
    check_fault(parts(replaced(larger, "FIRST", "63") + keep + STORE), NEVER_WRITTEN, ALL);
  }
  check_fault(
      parts(replaced(larger, "FIRST", "64") + "mov.u32 %r4, 1;\n@%p2 bra END;\nEND:\n" + STORE),
      NEVER_WRITTEN, ALL);
}

TEST_CASE("early loads: one in front of a loop is a read in the rounds that use it") {
  const std::string loop =
      "ld.shared.u32 %r1, [part+4];\nmov.u32 %r4, 0;\nmov.u32 %r5, 0;\nAGAIN:\n"
      "setp.lt.u32 %p2, %r5, ROUND;\n@%p2 bra NEXT;\nadd.u32 %r4, %r4, %r1;\nNEXT:\n"
      "add.u32 %r5, %r5, 1;\nst.global.u32 [%rd20], %r5;\nsetp.lt.u32 %p3, %r5, 3;\n"
      "@%p3 bra AGAIN;\n";
  check_legal(parts(replaced(loop, "ROUND", "3") + STORE), Words(64, 0));
  check_fault(parts(replaced(loop, "ROUND", "2") + STORE), NEVER_WRITTEN, ALL);
}

TEST_CASE("early loads: who drops a value does not race with who writes it") {
  for (const std::string place : {"shared.u32 X, [part]", "global.u32 X, [total]"}) {
    const auto own = [&](const std::string& last) {
      return parts("setp.le.u32 %p2, %t, " + last + ";\nld." + replaced(place, "X", "%r1") +
                   ";\nselp.b32 %r4, %r1, 3, %p2;\n@%p1 st." + replaced(place, "X, ", "") +
                   ", 9;\n" + STORE);
    };
    Program program = own("0");
    for (const Schedule& schedule : SCHEDULES) {
      program.policy = schedule.policy;
      program.seed = schedule.seed;
      Buffer<uint32_t> out(64);
      CHECK(program.report(out.data()) == "");
      CHECK(out[63] == 3);
    }
    if (place.starts_with("global")) continue;  // whose first reads are not kept
    check_fault(own("63"), {Error::Kind::race, {"by ld.shared.u32"}}, ALL);
    check_fault(own("1"), {Error::Kind::race, {"by different lanes"}}, ALL);
  }
}
