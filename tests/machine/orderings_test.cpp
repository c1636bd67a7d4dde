// Which instructions order others, and what a kernel has in their place where one is left out.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "common/machine/code/isa.h"
#include "common/machine/code/orderings.h"
#include "common/machine/text/ptx.h"
#include "tests/machine/ptx_run.h"

namespace {

using machine_test::Buffer;
using machine_test::Program;

// As it is for the time of a test.
class LeftOut {
 public:
  explicit LeftOut(const std::string& how) { machine::settings().left_out = how; }
  ~LeftOut() { machine::settings().left_out.clear(); }
};

machine::Statement statement_of(const std::string& text) {
  const machine::Ptx ptx = machine::parse(
      ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry test()\n{\n"
      ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n" +
      text + "\nret;\n}\n");
  REQUIRE(ptx.functions[0].refusal == "");
  return ptx.functions[0].statements[0];
}

void run(const std::string& body, void* out = nullptr) {
  Program kernel;
  kernel.body = body;
  kernel.run(out);
}

TEST_CASE("leaving out: what stands in the place of each kind") {
  const LeftOut something("something");
  const struct {
    const char *text, *in_its_place;
  } ALL[] = {
      {"fence.proxy.async.shared::cta;", "nanosleep.u32"},
      {"fence.sc.gpu;", "nanosleep.u32"},
      {"membar.gl;", "nanosleep.u32"},
      {"bar.sync 0;", "nanosleep.u32"},
      {"bar.warp.sync 0xffffffff;", "nanosleep.u32"},
      {"barrier.cluster.arrive.relaxed;", "nanosleep.u32"},
      {"barrier.cluster.wait.acquire;", "nanosleep.u32"},
      {"bar.red.or.pred %p0, 1, 128, %p1;", "and.pred"},
      {"barrier.cta.red.popc.u32 %r0, 1, %p1;", "selp.u32"},
      {"mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], %r1;", "setp.eq.u32"},
      {"mbarrier.test_wait.shared.b64 %p0, [%r0], %rd1;", "setp.eq.u32"},
      {"mbarrier.arrive.shared::cta.b64 _, [%r0];", "nanosleep.u32"},
      {"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0];", "nanosleep.u32"},
      {"mbarrier.arrive.shared.b64 %rd0, [%r0];", "mov.b64"},
      {"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], 16;", "nanosleep.u32"},
      {"cp.async.commit_group;", "nanosleep.u32"},
      {"cp.async.wait_all;", "nanosleep.u32"},
      {"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r0];", "nanosleep.u32"},
      {"cp.async.bulk.wait_group.read 0;", "nanosleep.u32"},
      {"wgmma.fence.sync.aligned;", "nanosleep.u32"},
      {"wgmma.wait_group.sync.aligned 0;", "nanosleep.u32"},
      {"griddepcontrol.wait;", "nanosleep.u32"},
      {"ld.acquire.gpu.global.u32 %r0, [%rd0];", "ld.relaxed.gpu.global.u32"},
      {"st.release.cta.shared.u32 [%r0], %r1;", "st.relaxed.cta.shared.u32"},
      {"atom.acq_rel.gpu.global.add.u32 %r0, [%rd0], 1;", "atom.relaxed.gpu.global.add.u32"},
      {"red.release.gpu.global.add.u32 [%rd0], 1;", "red.relaxed.gpu.global.add.u32"},
  };
  for (const auto& [text, in_its_place] : ALL) {
    CAPTURE(text);
    const machine::Statement statement = statement_of(text);
    CHECK(machine::is_noted(statement));
    const machine::Statement other = machine::without_ordering(statement);
    CHECK(other.opcode == in_its_place);
    machine::Opcode opcode;
    CHECK(machine::find_row(other.opcode, &opcode) != nullptr);
  }
  for (const char* const text :
       {"mbarrier.init.shared::cta.b64 [%r0], 1;", "ld.relaxed.gpu.global.u32 %r0, [%rd0];",
        "ld.global.u32 %r0, [%rd0];", "setmaxnreg.dec.sync.aligned.u32 40;",
        "griddepcontrol.launch_dependents;", "shfl.sync.idx.b32 %r0, %r1, 0, 31, -1;",
        "add.s32 %r0, %r1, %r2;"}) {
    CAPTURE(text);
    CHECK(!machine::is_noted(statement_of(text)));
  }
}

TEST_CASE("leaving out: nothing is noted where nobody asks") {
  CHECK(!machine::is_noted(statement_of("bar.sync 0;")));
}

// Lines of the test's kernel: its own are those from 20 on.
constexpr char BODY[] =
    "setp.lt.u32 %p1, %t, 4;\n"
    "setp.ge.u32 %p3, %t, 9;\n"
    "bar.red.popc.u32 %r1, 1, 32, %p1;\n"
    "bar.red.or.pred %p2, 1, 32, !%p3;\n"
    "selp.u32 %r2, 100, 0, %p2;\n"
    "add.u32 %r1, %r1, %r2;\n"
    "mul.wide.u32 %rd1, %t, 4;\nadd.u64 %rd1, %rd1, %out;\nst.global.u32 [%rd1], %r1;";

TEST_CASE("leaving out: a vote is each thread's own") {
  const std::string list = "build/tests/orderings.txt";
  std::remove(list.c_str());
  Buffer<uint32_t> out(32);
  machine::settings().orderings = list;
  run(BODY, out.data());
  machine::settings().orderings.clear();
  CHECK(out[0] == 104);
  CHECK(out[31] == 104);
  std::ifstream file(list);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  REQUIRE(lines.size() == 2);
  for (const bool counts : {true, false}) {
    const std::string& line = lines[counts ? 0 : 1];
    CHECK(line.starts_with(counts ? "1\t\t0\tbar.red.popc.u32 at PTX line "
                                  : "1\t\t0\tbar.red.or.pred at PTX line "));
    CHECK(line.ends_with(" of test"));
    const LeftOut one(line.substr(5));
    run(BODY, out.data());
    CHECK(out[0] == (counts ? 101u : 104u));
    CHECK(out[31] == (counts ? 100u : 4u));
  }
}

TEST_CASE("leaving out: what was not executed is listed as such") {
  const std::string list = "build/tests/orderings.txt";
  std::remove(list.c_str());
  machine::settings().orderings = list;
  run("setp.gt.u32 %p1, %t, 99;\n@%p1 fence.sc.gpu;\nbar.sync 0;");
  machine::settings().orderings.clear();
  std::ifstream file(list);
  std::string first, second, third;
  std::getline(file, first);
  std::getline(file, second);
  CHECK(first.starts_with("0\t"));
  CHECK(second.starts_with("1\t"));
  CHECK(!std::getline(file, third));
}

}  // namespace
