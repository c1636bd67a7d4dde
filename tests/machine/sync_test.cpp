// Barriers, mbarriers and instructions among lanes, through small kernels.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "tests/machine/schedules.h"

using namespace machine_test;
using machine::Policy;
using Words = std::vector<uint32_t>;

namespace {

// Stores %p1 of one thread as word `i` of the output.
std::string keep(int i) {
  return "selp.u32 %r60, 1, 0, %p1;\nst.global.u32 [%out+" + std::to_string(4 * i) + "], %r60;\n";
}

// A script of one thread on the mbarrier at %smem: "init 2; arrive; test 0": the outcomes of the
// tests, in order.
Words script(const std::string& text, std::string* report = nullptr) {
  const std::map<std::string, std::string> steps = {
      {"init", "mbarrier.init.shared::cta.b64 [%smem], "},
      {"inval", "mbarrier.inval.shared::cta.b64 [%smem]"},
      {"arrive", "mbarrier.arrive.shared::cta.b64 %rd1, [%smem], "},
      {"remember", "mbarrier.arrive.release.cta.shared::cta.b64 %rd2, [%smem], "},
      {"drop", "mbarrier.arrive_drop.shared.b64 _, [%smem], "},
      {"early", "mbarrier.arrive.noComplete.b64 %rd3, [%rd9], "},
      {"expect", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%smem], "},
      {"complete", "mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64 [%smem], "},
      {"arrive_expect", "mbarrier.arrive.expect_tx.b64 _, [%rd9], "},
      {"test", "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%smem], "},
      {"try", "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%smem], "},
      {"recall", "mbarrier.test_wait.shared.b64 %p1, [%smem], %rd2"},
      {"pending", "mbarrier.pending_count.b64 %r59, %rd3;\nst.global.u32 [%out+"},
      {"scribble", "st.shared.u32 [%smem], "},
  };
  Program program;
  program.check = !contains(text, "scribble");
  program.block = {1, 1, 1};
  program.body = "cvt.u64.u32 %rd9, %smem;\ncvta.shared.u64 %rd9, %rd9;\n";
  int outcomes = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(';', at), text.size());
    const size_t space = std::min(text.find(' ', at), end);
    const std::string name = text.substr(at, space - at);
    const std::string operand = space < end ? text.substr(space + 1, end - space - 1) : "";
    std::string line = steps.at(name) + operand;
    if (name == "pending") line += std::to_string(4 * outcomes++) + "], %r59";
    if (line.ends_with(", ")) line += "1";
    program.body += line + ";\n";
    if (name == "test" || name == "try" || name == "recall") program.body += keep(outcomes++);
    at = std::min(end + 2, text.size());
  }
  Buffer<uint32_t> out(64);
  const std::string said = program.report(out.data());
  if (report != nullptr) *report = said;
  if (report == nullptr) CHECK(said == "");
  return {out.data(), out.data() + outcomes};
}

std::string fault_of(const std::string& text) {
  std::string report;
  script(text, &report);
  return report;
}

// What one thread is told, without the checker, where copies are late.
std::string told(const std::string& body) {
  Program program;
  program.check = false;
  program.policy = Policy::lazy;
  program.block = {1, 1, 1};
  program.body = body;
  Buffer<uint32_t> out(4);
  return program.report(out.data());
}

const std::string INIT = "mbarrier.init.shared::cta.b64 [%smem], ";
const std::string COPIES_ARRIVE = "cp.async.mbarrier.arrive.shared::cta.b64 [%smem];\n";

}  // namespace

TEST_CASE("mbarrier: phases, counts and parity") {
  CHECK(script("init 1; test 0; test 1; arrive; test 0; test 1; arrive; test 0") ==
        Words{0, 1, 1, 0, 0});
  CHECK(script("init 5; arrive 2; test 0; arrive 3; test 0; arrive 5; test 1") == Words{0, 1, 1});
  CHECK(script("init 2; remember; recall; arrive; recall; test 0") == Words{0, 1, 1});
  CHECK(script("init 3; drop; test 0; arrive 2; test 0; arrive 2; test 1") == Words{0, 1, 1});
  CHECK(script("init 4; early 1; pending; early 2; pending; test 0; arrive; test 0") ==
        Words{4, 3, 0, 1});
  CHECK(script("init 1000000; early 1; pending") == Words{1000000});
  CHECK(script("init 1048575; arrive 1048574; test 0; arrive; test 0") == Words{0, 1});
  CHECK(script("init 1; arrive; inval; init 2; test 0; arrive 2; test 0") == Words{0, 1});
}

TEST_CASE("mbarrier: bytes before and after they are expected") {
  CHECK(script("init 1; expect 16; arrive; test 0; complete 16; test 0; test 1") == Words{0, 1, 0});
  CHECK(script("init 1; arrive_expect 64; complete 24; test 0; complete 40; test 0") ==
        Words{0, 1});
  CHECK(script("init 1; complete 64; test 0; arrive_expect 64; test 0") == Words{0, 1});
  CHECK(script("init 1; complete 64; expect 32; arrive_expect 32; test 0; arrive; test 1") ==
        Words{1, 1});
  CHECK(contains(fault_of("init 1; expect 1048575; expect 1"), "tx-count must stay within"));
  CHECK(fault_of("init 1; complete 1048575") == "");
  CHECK(contains(fault_of("init 1; complete 1048575; complete 1"), "tx-count must stay within"));
}

TEST_CASE("mbarrier: what is no mbarrier, or misused, is a fault") {
  CHECK(contains(fault_of("arrive"), "no mbarrier.init was executed"));
  CHECK(contains(fault_of("init 1; inval; test 0"), "or mbarrier.inval was"));
  CHECK(contains(fault_of("init 1; scribble 77; test 0"), "were overwritten"));
  CHECK(contains(fault_of("init 0"), "must be from 1 to 1048575"));
  CHECK(contains(fault_of("init 2; arrive; init 2"), "in the middle of a phase"));
  CHECK(contains(fault_of("init 1; expect 16; init 1"), "in the middle of a phase"));
  const std::string late = fault_of("init 2; arrive_expect 16; arrive; arrive");
  CHECK(contains(late, "more than are expected"));
  CHECK(contains(late, "phase 0, pending arrivals 0 of 2, tx-count 16 bytes still to come"));
  CHECK(contains(fault_of("init 2; arrive 3"), "makes 3 arrivals, more than are expected"));
  CHECK(contains(fault_of("init 2; early 2"), "noComplete makes the last arrival"));
  CHECK(contains(fault_of("init 1; remember; arrive; recall"), "The state is of phase 0"));
  CHECK(contains(fault_of("init 1; recall"), "comes from no mbarrier.arrive"));
  const std::string arrive = "mbarrier.arrive.shared::cta.b64 %rd1, [%smem];\n";
  CHECK(contains(told(INIT + "1;\nmbarrier.init.shared::cta.b64 [%smem+8], 1;\n" + arrive + arrive +
                      arrive + "mbarrier.test_wait.shared.b64 %p1, [%smem+8], %rd1;"),
                 "The state is of phase 2"));
  CHECK(contains(told(INIT + "1048575;\n" + COPIES_ARRIVE), "too many pending arrivals"));
  CHECK(contains(told(INIT + "1;\ncp.async.ca.shared.global [%smem+64], [%out], 4;\n" +
                      COPIES_ARRIVE + "mbarrier.arrive_drop.shared.b64 _, [%smem], 2;"),
                 "drops more than all arrivals"));
  Program outside;
  outside.block = {1, 1, 1};
  outside.body = "add.u32 %r1, %smem, 4;\nmbarrier.init.shared.b64 [%r1], 1;";
  CHECK(contains(outside.report(), "aligned to 8 bytes"));
}

TEST_CASE("mbarrier: what was one holds data behind a barrier only") {
  const std::string body =
      "setp.eq.u32 %p1, %t, 0;\n@%p1 mbarrier.init.shared::cta.b64 [%smem], 1;\nbar.sync 0;\n"
      "@%p1 mbarrier.inval.shared::cta.b64 [%smem];\nBETWEEN\nsetp.eq.u32 %p2, %t, WHO;\n"
      "@%p2 st.shared.u32 [%smem], 7;\n@%p2 ld.shared.u32 %r1, [%smem];\n"
      "@%p2 st.global.u32 [%out], %r1;\n";
  for (const char* const who : {"1", "32"}) {
    const std::string data = replaced(body, "WHO", who);
    check_legal(with(replaced(data, "BETWEEN", "bar.sync 0;"), 64), {7});
    check_fault(with(replaced(data, "BETWEEN", ""), 64), {machine::Error::Kind::race, {}}, ALL);
  }
}

TEST_CASE("mbarrier: arrivals of cp.async that add to those of its init end no phase") {
  const std::string body =
      "setp.eq.u32 %p1, %t, 0;\n@%p1 mbarrier.init.shared::cta.b64 [%smem], 32;\nbar.sync 0;\n"
      "shl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\n"
      "cp.async.ca.shared.global [%r1+64], [%rd20], 4;\n"
      "cp.async.mbarrier.arriveHOW.shared::cta.b64 [%smem];\nWAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n@!%p2 bra WAIT;\n"
      "ld.shared.u32 %r2, [%r1+64];\nst.global.u32 [%rd20], %r2;\n";
  check_legal(with(replaced(body, "HOW", ".noinc"), 32), Words(32));
  check_fault(with(replaced(body, "HOW", ""), 32),
              {machine::Error::Kind::hang, {"Likely: cp.async.mbarrier.arrive without .noinc"}},
              ALL);
}

TEST_CASE("mbarrier: lanes arrive together, also over several phases") {
  Program program;
  program.body =
      "setp.ne.u32 %p2, %t, 0;\n@%p2 bra GO;\nmbarrier.init.shared::cta.b64 [%smem], 8;\n"
      "GO:\nbar.warp.sync -1;\nmbarrier.arrive.shared::cta.b64 %rd1, [%smem];\n"
      "mbarrier.arrive.shared::cta.b64 _, [%smem];\n"
      "mbarrier.pending_count.b64 %r1, %rd1;\nmul.wide.u32 %rd2, %t, 4;\n"
      "add.u64 %rd2, %out, %rd2;\nst.global.u32 [%rd2], %r1;";
  const Words pending = results(program, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) CHECK(pending[lane] == 8 - lane % 8);
}

TEST_CASE("mbarrier: lanes that expect bytes together expect their sum") {
  const std::string complete =
      "mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64 [%smem], BYTES;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%smem], 0;\n";
  Program program;
  program.check = false;
  program.body = "setp.ne.u32 %p2, %t, 0;\n@!%p2 " + INIT +
                 "32;\nbar.warp.sync -1;\n"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 16;\nbar.warp.sync -1;\n"
                 "@%p2 ret;\n" +
                 replaced(complete, "BYTES", "496") + keep(0) + replaced(complete, "BYTES", "16") +
                 keep(1);
  CHECK(results(program, 2) == Words{0, 1});
}

TEST_CASE("mbarrier: a failing try_wait parks, times out when nothing else runs, and hangs tell") {
  // Warp 0 waits for what warp 1 does later.
  Program handshake;
  handshake.block = {64, 1, 1};
  handshake.body =
      "setp.ne.u32 %p2, %t, 0;\n@%p2 bra GO;\nmbarrier.init.shared::cta.b64 [%smem], 32;\nGO:\n"
      "bar.sync 0;\nsetp.ge.u32 %p3, %t, 32;\n@%p3 bra ARRIVE;\nmov.u32 %r1, 0;\nWAIT:\n"
      "add.u32 %r1, %r1, 1;\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%smem], 0, 1000;\n"
      "@!%p1 bra WAIT;\nst.global.u32 [%out], %r1;\nbra DONE;\nARRIVE:\n"
      "mbarrier.arrive.shared::cta.b64 _, [%smem];\nDONE:";
  for (const Policy policy : {Policy::eager, Policy::lazy, Policy::random}) {
    handshake.policy = policy;
    CHECK(results(handshake, 1)[0] == 1);
  }
  CHECK(script("init 1; try 0; arrive; try 0") == Words{0, 1});

  Program hang;
  hang.block = {1, 1, 1};
  hang.body =
      "mbarrier.init.shared::cta.b64 [%smem], 8;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 16384;\nWAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%smem], 0;\n@!%p1 bra WAIT;";
  const std::string report = hang.report();
  CHECK(contains(report, "Deadlock"));
  CHECK(contains(report,
                 "phase 0, pending arrivals 7 of 8, tx-count 16384 bytes still to come, "
                 "parity waited for 0"));
}

TEST_CASE("named barriers: producers arrive, consumers wait; counts must agree") {
  Program program;
  program.block = {96, 1, 1};
  program.body =
      "setp.ge.u32 %p1, %t, 32;\n@%p1 bra CONSUME;\nst.shared.u32 [%smem], 41;\n"
      "bar.arrive 3, 96;\nbra DONE;\nCONSUME:\nmov.u32 %r9, 3;\nbarrier.sync %r9, 96;\n"
      "ld.shared.u32 %r1, [%smem];\nmul.wide.u32 %rd1, %t, 4;\nadd.u64 %rd1, %out, %rd1;\n"
      "st.global.u32 [%rd1], %r1;\nDONE:";
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    program.policy = Policy::random;
    program.seed = seed;
    const Words out = results(program, 96);
    CHECK(out[0] == 0);
    CHECK(out[32] == 41);
    CHECK(out[95] == 41);
  }
  program.body =
      "setp.ge.u32 %p1, %t, 32;\n@%p1 bra OTHER;\nbar.sync 1, 64;\nOTHER:\nbar.sync 1, 96;";
  CHECK(contains(program.report(), "Barrier 1 is given"));
  program.body = "bar.sync 16;";
  CHECK(contains(program.report(), "There is no barrier 16"));
  program.body = "bar.sync %t, 96;";
  CHECK(contains(program.report(), "name different barriers"));
  program.body = "setp.ge.u32 %p1, %t, 64;\n@%p1 bra DONE;\nbar.sync 2, 96;\nDONE:";
  CHECK(contains(program.report(), "barrier 2: 64 of 96 threads have arrived"));
  program.body = "bar.sync 1, 48;";
  CHECK(contains(program.report(), "the count must be a multiple of 32"));
  program.policy = Policy::eager;
  // One warp counts on those that have exited, the other does not.
  program.body =
      "setp.ge.u32 %p1, %t, 64;\n@%p1 ret;\nsetp.ge.u32 %p2, %t, 32;\n@%p2 bra COUNTED;\n"
      "bar.sync 1;\nbra DONE;\nCOUNTED:\nbar.sync 1, 96;\nDONE:";
  CHECK(contains(program.report(), "barrier 1: 64 of 96 threads have arrived"));
  program.block = {32, 1, 1};
  program.body = "setp.lt.u32 %p1, %t, 16;\n@%p1 barrier.arrive 1, 32;\nbarrier.arrive 1, 32;";
  CHECK(contains(program.report(), "Barrier 1 expects 32 threads, and 48 have arrived"));
}

TEST_CASE("bar.sync does not wait for threads that have exited") {
  Program program;
  program.block = {100, 1, 1};  // the last warp has 4 threads
  program.body =
      "setp.lt.u32 %p1, %t, 40;\n@%p1 ret;\nbar.sync 0;\nbarrier.sync 0;\n"
      "atom.global.add.u32 %r1, [%out], 1;";
  CHECK(results(program, 1)[0] == 60);
  // Lanes arrive for themselves and exit; the one that is left arrives for itself alone.
  program.block = {64, 1, 1};
  program.body =
      "setp.ge.u32 %p1, %t, 32;\n@%p1 bra WAIT;\nsetp.eq.u32 %p2, %t, 0;\n@%p2 bra ONE;\n"
      "barrier.arrive 1, 64;\nret;\nONE:\nbarrier.arrive 1, 64;\nret;\nWAIT:\n"
      "barrier.sync 1, 64;\natom.global.add.u32 %r1, [%out], 1;";
  CHECK(results(program, 1)[0] == 32);
}

TEST_CASE("bar.red") {
  Program program;
  program.check = false;  // all threads store the same
  program.block = {64, 1, 1};
  program.body =
      "setp.lt.u32 %p2, %t, 40;\nbar.red.popc.u32 %r1, 0, %p2;\nst.global.u32 [%out], %r1;\n"
      "bar.red.popc.u32 %r1, 0, 64, !%p2;\nst.global.u32 [%out+4], %r1;\n"
      "barrier.cta.red.and.pred %p1, 1, %p2;\n" +
      keep(2) + "barrier.red.or.aligned.pred %p1, 1, 64, %p2;\n" + keep(3) +
      "setp.lt.u32 %p2, %t, 64;\nbar.red.and.pred %p1, 2, %p2;\n" + keep(4) +
      "bar.red.or.pred %p1, 2, !%p2;\n" + keep(5);
  CHECK(results(program, 6) == Words{40, 24, 0, 1, 1, 0});
}

TEST_CASE("a barrier at which threads arrive and then synchronise is complete by half of them") {
  const auto exchange = [](const char* barrier) {
    Program program;
    program.block = {128, 1, 1};
    program.body = std::string("mad.lo.s32 %r2, %t, 4, %smem;\nst.shared.u32 [%r2], %t;\n") +
                   barrier +
                   "\nxor.b32 %r3, %t, 96;\nmad.lo.s32 %r3, %r3, 4, %smem;\n"
                   "ld.shared.u32 %r4, [%r3];";
    return program.report();
  };
  CHECK(exchange("bar.sync 1, 128;") == "");
  const std::string report = exchange("bar.arrive 1, 128;\nbar.sync 1, 128;");
  CHECK(contains(report, "Rule: shared-race"));
  CHECK(contains(report, " Barrier 1 does not: warp 1 of CTA (0,0,0) arrived twice in one of"));
}

TEST_CASE("at random CTAs that draw from one counter do so in turn, also on one thread") {
  Program program;
  program.grid = {2, 1, 1};
  program.block = {1, 1, 1};
  program.body =
      "mov.u32 %r1, 0;\nmov.u32 %r3, %ctaid.x;\nNEXT:\natom.global.add.u32 %r2, [%out], 1;\n"
      "mul.wide.u32 %rd1, %r2, 4;\nadd.u64 %rd1, %rd1, %out;\nst.global.u32 [%rd1+4], %r3;\n"
      "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 1000;\n@%p1 bra NEXT;";
  const uint32_t threads = std::exchange(machine::settings().threads, 1);
  for (const uint64_t seed : {1, 2, 3, 4}) {
    program.policy = machine::Policy::random;
    program.seed = seed;
    const Words drawn = results(program, 2001);
    const auto of_second = std::count(drawn.begin() + 1, drawn.begin() + 1001, 1);
    CHECK(of_second > 100);
    CHECK(of_second < 900);
  }
  machine::settings().threads = threads;
}

TEST_CASE("barrier.cluster and mbarriers of a peer") {
  // CTA 1 arrives at CTA 0's mbarrier, whose thread then writes.
  Program program;
  program.grid = program.cluster = {2, 1, 1};
  program.block = {1, 1, 1};
  program.body =
      "mov.u32 %r1, %cluster_ctarank;\nsetp.ne.u32 %p2, %r1, 0;\n@%p2 bra READY;\n"
      "mbarrier.init.shared::cta.b64 [%smem], 2;\nfence.mbarrier_init.release.cluster;\nREADY:\n"
      "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
      "mapa.shared::cluster.u32 %r2, %smem, 0;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];\n@%p2 bra DONE;\nWAIT:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%smem], 0;\n"
      "@!%p1 bra WAIT;\nst.global.u32 [%out], 7;\ncvt.u64.u32 %rd1, %smem;\n"
      "cvta.shared.u64 %rd1, %rd1;\nmapa.u64 %rd2, %rd1, 1;\ngetctarank.u64 %r4, %rd2;\n"
      "st.global.u32 [%out+4], %r4;\nmapa.shared::cluster.u32 %r2, %smem, 1;\n"
      "getctarank.shared::cluster.u32 %r4, %r2;\nst.global.u32 [%out+8], %r4;\nDONE:\n"
      "barrier.cluster.arrive;\nbarrier.cluster.wait;";
  CHECK(results(program, 3) == Words{7, 1, 1});

  // To a CTA that is not there, as nvcc has it in front of a branch: only who accesses it is at fault.
  program.body =
      "mapa.shared::cluster.u32 %r2, %smem, 2;\ncvt.u64.u32 %rd1, %smem;\n"
      "cvta.shared.u64 %rd1, %rd1;\nmapa.u64 %rd2, %rd1, 1000000;\n";
  CHECK(program.report() == "");
  const std::string map = program.body;
  const std::pair<const char*, const char*> uses[] = {
      {"st.shared::cluster.u32 [%r2], 1;", "is in a CTA of rank 2, and the cluster has 2"},
      {"ld.u32 %r3, [%rd2];", "is in a CTA of rank 255, and the cluster has 2"},
      {"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];",
       "is in a CTA of rank 2, and the cluster has 2"}};
  for (const auto& [use, what] : uses) {
    program.body = map + use;
    CHECK(contains(program.report(), what));
  }
  program.body = "barrier.cluster.arrive;\nbarrier.cluster.arrive;";
  CHECK(contains(program.report(), "without a barrier.cluster.wait in between"));
  CHECK(contains(told(program.body), "without a barrier.cluster.wait in between"));  // complete
  program.body = "barrier.cluster.wait;";
  CHECK(contains(program.report(), "without a barrier.cluster.arrive before it"));
  program.body =
      "mapa.shared::cluster.u32 %r2, %smem, 1;\nmov.u32 %r1, %cluster_ctarank;\n"
      "setp.ne.u32 %p1, %r1, 0;\n@%p1 ret;\n"
      "mbarrier.init.shared::cta.b64 [%r2], 1;";
  CHECK(contains(program.report(), ".shared::cta names only its memory"));
  // One thread arrives and exits, without a wait; then both CTAs go on.
  program.body =
      "barrier.cluster.arrive;\nmov.u32 %r1, %cluster_ctarank;\n"
      "setp.ne.u32 %p1, %r1, 0;\n@%p1 ret;\nbarrier.cluster.wait;\n"
      "barrier.cluster.arrive;\nbarrier.cluster.wait;\nst.global.u32 [%out], 5;";
  CHECK(results(program, 1)[0] == 5);
  // A remote arrival after the peer is gone.
  program.body =
      "mov.u32 %r1, %cluster_ctarank;\nmbarrier.init.shared::cta.b64 [%smem], 1;\n"
      "barrier.cluster.arrive;\nbarrier.cluster.wait;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 ret;\n"
      "mapa.shared::cluster.u32 %r2, %smem, 1;\n"
      "mov.u32 %r3, 0;\nLOOP:\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p2, %r3, 20000;\n@%p2 bra LOOP;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [%r2];";
  CHECK(contains(program.report(), "have exited"));
}

TEST_CASE("shfl, vote, match, redux and elect under member masks") {
  Program program;
  program.body =
      "mul.lo.u32 %r1, %t, 3;\nmul.wide.u32 %rd1, %t, 48;\nadd.u64 %rd1, %out, %rd1;\n"
      "shfl.sync.up.b32 %r2|%p1, %r1, 4, 0, -1;\nst.global.u32 [%rd1], %r2;\n"
      "selp.u32 %r2, 1, 0, %p1;\nst.global.u32 [%rd1+4], %r2;\n"
      "shfl.sync.down.b32 %r2, %r1, 4, 0x181f, -1;\nst.global.u32 [%rd1+8], %r2;\n"
      "shfl.sync.bfly.b32 %r2, %r1, 5, 31, -1;\nst.global.u32 [%rd1+12], %r2;\n"
      "shfl.sync.idx.b32 %r2, %r1, 37, 31, -1;\nst.global.u32 [%rd1+16], %r2;\n"
      "and.b32 %r3, %t, 3;\nsetp.eq.u32 %p2, %r3, 1;\n"
      "vote.sync.ballot.b32 %r2, !%p2, -1;\nst.global.u32 [%rd1+20], %r2;\n"
      "match.any.sync.b32 %r2, %r3, -1;\nst.global.u32 [%rd1+24], %r2;\n"
      "match.all.sync.b32 %r2|%p1, %r3, -1;\nst.global.u32 [%rd1+28], %r2;\n"
      "setp.lt.u32 %p3, %t, 12;\n@%p3 bra LOW;\nredux.sync.add.u32 %r2, %t, 0xfffff000;\nbra ON;\n"
      "LOW:\nredux.sync.max.u32 %r2, %t, 0x00000fff;\nON:\nst.global.u32 [%rd1+32], %r2;\n"
      "elect.sync %r2|%p1, 0xffffffff;\nst.global.u32 [%rd1+36], %r2;\n"
      "selp.u32 %r2, 1, 0, %p1;\nst.global.u32 [%rd1+40], %r2;\n"
      "vote.sync.uni.pred %p1, %p2, -1;\nselp.u32 %r2, 1, 0, %p1;\nst.global.u32 [%rd1+44], %r2;";
  const Words out = results(program, 12 * 32);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t* const got = &out[12 * lane];
    CHECK(got[0] == 3 * (lane >= 4 ? lane - 4 : lane));
    CHECK(got[1] == (lane >= 4));
    CHECK(got[2] == 3 * (lane % 8 < 4 ? lane + 4 : lane));
    CHECK(got[3] == 3 * (lane ^ 5));
    CHECK(got[4] == 3 * 5);
    CHECK(got[5] == 0xddddddddu);
    CHECK(got[6] == 0x11111111u << (lane & 3));
    CHECK(got[7] == 0);
    CHECK(got[8] == (lane < 12 ? 11 : (12 + 31) * 20 / 2));
    CHECK(got[9] == 0);
    CHECK(got[10] == (lane == 0));
    CHECK(got[11] == 0);
  }
  program.body = "bar.warp.sync 0x7fffffff;";
  CHECK(contains(program.report(), "Lane 31 executes it, but is not in its member mask"));
  program.body = "setp.lt.u32 %p1, %t, 16;\nselp.b32 %r1, 0xffff, -1, %p1;\nbar.warp.sync %r1;";
  CHECK(contains(program.report(), "lanes that meet must name the same"));
  program.body =
      "setp.lt.u32 %p1, %t, 16;\n@%p1 bra LOW;\nbar.warp.sync -1;\nbra DONE;\nLOW:\n"
      "vote.sync.ballot.b32 %r1, %p1, -1;\nDONE:";
  CHECK(contains(program.report(), "Likely: lanes of one warp wait for each other in two places"));
  // A lane outside of the mask, or one that has exited, gives no value to rely on.
  program.body =
      "mul.wide.u32 %rd1, %t, 4;\nadd.u64 %rd1, %out, %rd1;\nsetp.ge.u32 %p1, %t, 30;\n"
      "@%p1 ret;\nsetp.ge.u32 %p1, %t, 16;\n@%p1 bra HIGH;\n"
      "shfl.sync.down.b32 %r2, %t, 8, 31, 0xffff;\nbra STORE;\nHIGH:\n"
      "shfl.sync.idx.b32 %r2, %t, 31, 31, 0xffff0000;\nSTORE:\nst.global.u32 [%rd1], %r2;";
  const Words partly = results(program, 32);
  for (uint32_t lane = 0; lane < 30; ++lane) {
    CHECK(partly[lane] == (lane < 8 ? lane + 8 : 0xffff7fff));
  }
}

TEST_CASE("setmaxnreg counts") {
  Program program;
  program.block = {128, 1, 1};
  program.body = "setmaxnreg.dec.sync.aligned.u32 24;\nsetmaxnreg.inc.sync.aligned.u32 240;";
  CHECK(program.report() == "");
  program.body = "setmaxnreg.dec.sync.aligned.u32 20;";
  CHECK(contains(program.report(), "a multiple of 8 from 24 to 256"));
}

// Three warpgroups, of which the first gives registers back and the others take `wanted` a thread.
Program warpgroups_trade_registers(uint32_t wanted) {
  Program program;
  program.block = {384, 1, 1};
  program.directives = ".maxntid 384, 1, 1\n.minnctapersm 1";  // 168 registers a thread
  program.body = "setp.lt.u32 %p1, %t, 128;\n@%p1 bra GIVE;\nsetmaxnreg.inc.sync.aligned.u32 " +
                 std::to_string(wanted) +
                 ";\nbra END;\nGIVE:\nsetmaxnreg.dec.sync.aligned.u32 24;\nEND:";
  return program;
}

TEST_CASE("setmaxnreg takes from the CTA's pool, and waits where that is empty") {
  for (const Schedule& schedule : SCHEDULES) {
    Program program = warpgroups_trade_registers(240);  // 24 + 2 * 240 = 3 * 168
    program.policy = schedule.policy;
    program.seed = schedule.seed;
    CHECK(program.report() == "");
    program = warpgroups_trade_registers(256);  // 128 * (24 + 2 * 256) = 68,608
    program.policy = schedule.policy;
    program.seed = schedule.seed;
    const std::string report = program.report();
    CAPTURE(report);
    CHECK(contains(report, "Deadlock"));
    CHECK(contains(report,
                   "for 256 registers a thread: it has 168, and of the CTA's 64512 "
                   "(168 for each of 384 threads)"));
    CHECK(contains(report, "where a warp needs 2816 more"));
  }
}

TEST_CASE("setmaxnreg does nothing where ptxas ignores it (C7508)") {
  Program program = warpgroups_trade_registers(256);
  for (const char* directives :
       {"", ".maxntid 384, 1, 1", ".reqntid 384, 1, 1", ".minnctapersm 1"}) {
    program.directives = directives;
    CAPTURE(directives);
    CHECK(program.report() == "");
  }
  for (const char* directives :
       {".maxntid 384, 1, 1\n.minnctapersm 1", ".reqntid 384, 1, 1\n.minnctapersm 1",
        ".maxnreg 168", ".maxntid 384, 1, 1\n.maxnreg 168"}) {
    program.directives = directives;
    CAPTURE(directives);
    CHECK(contains(program.report(), "for 256 registers a thread: it has 168"));
  }
}

TEST_CASE("setmaxnreg is of a whole warpgroup") {
  Program program;
  program.block = {128, 1, 1};
  program.directives = ".maxntid 128, 1, 1";
  program.body =
      "setp.lt.u32 %p1, %t, 64;\n@%p1 bra END;\nsetmaxnreg.dec.sync.aligned.u32 40;\nEND:";
  for (const Schedule& schedule : SCHEDULES) {
    program.policy = schedule.policy;
    program.seed = schedule.seed;
    CHECK(contains(program.report(), "setmaxnreg by a part of a warpgroup: warp"));
  }
}
