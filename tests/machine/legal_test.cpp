// Legal corner cases, in which the machine must find nothing, and faults, which it must name: with
// the checker on, under every policy.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>

#include "tests/machine/schedules.h"

using namespace machine_test;

// ---- Waiting ------------------------------------------------------------------------------------

TEST_CASE("legal: a probe need not be in a loop") {
  const std::string probe =
      "mbarrier.PROBE.parity.shared::cta.b64 %p1, [%smem], 0;\n"
      "selp.u32 %r1, 1, 0, %p1;\nst.global.u32 [%out+WORD], %r1;\n";
  for (const char* name : {"test_wait", "try_wait"}) {
    const std::string one = replaced(probe, "PROBE", name);
    check_legal(
        with("setp.ne.u32 %p2, %t, 0;\n@%p2 bra END;\n"
             "mbarrier.init.shared::cta.b64 [%smem], 1;\n" +
                 replaced(one, "WORD", "0") + "mbarrier.arrive.shared::cta.b64 _, [%smem];\n" +
                 replaced(one, "WORD", "4") + "END:",
             32),
        {0, 1});
  }
}

TEST_CASE("legal: lanes of a warp meet at a bar.warp.sync each") {
  const auto meet = [](const std::string& low, const std::string& high) {
    return with(
        "shl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\nst.shared.u32 [%r1], %t;\n"
        "xor.b32 %r2, %r1, 64;\nsetp.lt.u32 %p1, %t, 16;\n@%p1 bra LOW;\n" +
            high + "ld.shared.u32 %r3, [%r2];\nbra DONE;\nLOW:\n" + low +
            "ld.shared.u32 %r3, [%r2];\nDONE:\nst.global.u32 [%rd20], %r3;",
        32);
  };
  const std::string all = "bar.warp.sync -1;\n";
  check_legal(meet(all, all), numbers(32, [](uint32_t i) { return i ^ 16; }));
  check_legal(meet(all + all, all + all), numbers(32, [](uint32_t i) { return i ^ 16; }));
  // Each lane's mask names those that it waits for.
  check_fault(meet("bar.warp.sync 0xffff;\n", "bar.warp.sync 0xffff0000;\n"),
              {Error::Kind::race, {"Rule: lane-race"}}, ALL);
  check_fault(meet(all, "bar.warp.sync 0xffff8000;\n"),
              {Error::Kind::hang, {"PTX bar.warp.sync -1"}}, ALL);
}

TEST_CASE("legal: lanes of a warp meet at a shuffle, vote, match or reduction each") {
  // LOW: lanes 0 to 15. Each branch has its operands in other registers.
  const auto meet = [](const std::string& low, const std::string& high) {
    return with(
        "add.u32 %r1, %t, 100;\nadd.u32 %r2, %t, 200;\nmov.u32 %r3, 1;\nmov.u32 %r4, 5;\n"
        "and.b32 %r5, %t, 1;\nsetp.eq.u32 %p2, %r5, 0;\nsetp.ne.u32 %p3, %r5, 0;\n"
        "setp.lt.u32 %p1, %t, 16;\n@%p1 bra LOW;\n" +
            high + "mov.u32 %r6, %r4;\nbra DONE;\nLOW:\n" + low +
            "mov.u32 %r6, %r3;\nDONE:\nst.global.u32 [%rd20], %r6;",
        32);
  };
  using Value = uint32_t (*)(uint32_t);
  const auto check = [&](const char* low, const char* high, Value value) {
    CAPTURE(low);
    check_legal(meet(low, high), numbers(32, value));
  };
  check("shfl.sync.bfly.b32 %r3|%p4, %r1, 16, 31, -1;\n",
        "shfl.sync.bfly.b32 %r4|%p4, %r2, 16, 31, -1;\n",
        [](uint32_t i) { return (i ^ 16) + (i < 16 ? 200 : 100); });
  // The result goes where an operand is.
  check("mov.u32 %r3, %r1;\nshfl.sync.idx.b32 %r3, %r3, %r3, 31, -1;\n",
        "mov.u32 %r4, %r2;\nshfl.sync.idx.b32 %r4, %r4, 7, 31, -1;\n",
        [](uint32_t i) { return i < 16 ? i + 4 + (i + 4 < 16 ? 100 : 200) : 107u; });
  check("vote.sync.ballot.b32 %r3, %p2, -1;\n", "vote.sync.ballot.b32 %r4, !%p3, -1;\n",
        [](uint32_t) { return 0x55555555u; });
  check("match.any.sync.b32 %r3, %r5, -1;\n", "match.any.sync.b32 %r4, %r5, -1;\n",
        [](uint32_t i) { return 0x55555555u << (i & 1); });
  check("redux.sync.add.u32 %r3, %r1, -1;\n", "redux.sync.add.u32 %r4, %r5, -1;\n",
        [](uint32_t) { return 16 * 100 + 120u + 8; });
  check("elect.sync %r3|%p4, -1;\n", "elect.sync %r4|%p4, -1;\n", [](uint32_t) { return 0u; });
  // Those of another kind, or mask, are not the same.
  for (const char* high :
       {"redux.sync.max.u32 %r4, %r5, -1;\n", "redux.sync.add.s32 %r4, %r5, -1;\n",
        "redux.sync.add.u32 %r4, %r5, 0xffff8000;\n", "vote.sync.ballot.b32 %r4, %p2, -1;\n"}) {
    check_fault(
        meet("redux.sync.add.u32 %r3, %r1, -1;\n", high),
        {Error::Kind::hang, {"Likely: lanes of one warp wait for each other in two places"}}, ALL);
  }
}

// Lane `first` waits for the flag of lane `second`, and then reads what that one wrote before.
static std::string lanes(const std::string& wait, const std::string& flag, int first, int second) {
  return "setp.eq.u32 %p1, %t, 0;\n@%p1 st.FLAG, 0;\nbar.warp.sync -1;\n"
         "setp.eq.u32 %p1, %t, " +
         std::to_string(first) +
         ";\n@%p1 bra WAITS;\n"
         "setp.eq.u32 %p1, %t, " +
         std::to_string(second) +
         ";\n@!%p1 bra MEET;\n"
         "st.DATA, 7;\nmembar.gl;\nst.volatile.FLAG, 1;\nbra MEET;\n" +
         wait + "membar.gl;\nld.DATA;\nst.global.u32 [%out+16], %r3;\nMEET:\nbar.warp.sync -1;" +
         flag;
}

TEST_CASE("legal: a lane spins on the flag of another lane of its warp") {
  const std::string spin = "WAITS:\nld.volatile.FLAG;\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra WAITS;\n";
  struct Place {
    const char *load_flag, *store_flag, *load_data, *store_data;
  };
  const Place places[] = {{"shared.u32 %r2, [%smem]", "shared.u32 [%smem]",
                           "shared.u32 %r3, [%smem+4]", "shared.u32 [%smem+4]"},
                          {"global.u32 %r2, [%out]", "global.u32 [%out]",
                           "global.u32 %r3, [%out+4]", "global.u32 [%out+4]"}};
  for (const Place& place : places) {
    for (const auto& [first, second] : {std::pair(0, 31), std::pair(31, 0), std::pair(5, 6)}) {
      std::string body = lanes(spin, "", first, second);
      body = replaced(body, "ld.volatile.FLAG", std::string("ld.volatile.") + place.load_flag);
      body = replaced(body, "FLAG", place.store_flag);
      body = replaced(body, "ld.DATA", std::string("ld.") + place.load_data);
      body = replaced(body, "DATA", place.store_data);
      Program program = with(body, 32);
      program.check = true;
      for (const Schedule& schedule : SCHEDULES) {
        program.policy = schedule.policy;
        program.seed = schedule.seed;
        Buffer<uint32_t> out(8);
        CHECK(program.report(out.data()) == "");
        CHECK(out[4] == 7);
      }
    }
  }
}

TEST_CASE("legal: a wait with a time limit ends, by the clock") {
  check_legal(with("st.volatile.shared.u32 [%smem], 0;\nmov.u64 %rd1, %globaltimer;\nAGAIN:\n"
                   "nanosleep.u32 40;\nld.volatile.shared.u32 %r1, [%smem];\n"
                   "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra DONE;\nmov.u64 %rd2, %globaltimer;\n"
                   "sub.u64 %rd3, %rd2, %rd1;\nsetp.lt.u64 %p1, %rd3, 20000;\n@%p1 bra AGAIN;\n"
                   "DONE:\nst.global.u32 [%rd20], 3;",
                   32),
              Words(32, 3));
}

// ---- Divergence ---------------------------------------------------------------------------------

TEST_CASE("legal: lanes part and meet again right before an instruction of the whole warp") {
  for (const std::string meet : {"bar.warp.sync -1;", "bar.sync 0;",
                                 "barrier.cluster.arrive.aligned;\n"
                                 "barrier.cluster.wait.aligned;",
                                 "shfl.sync.idx.b32 %r5, %r2, 0, 31, -1;",
                                 "vote.sync.ballot.b32 %r5, %p1, -1;", "elect.sync _|%p7, -1;"}) {
    CAPTURE(meet);
    check_legal(with("and.b32 %r1, %t, 1;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra EVEN;\n"
                     "mul.lo.u32 %r2, %t, 3;\nbra MEET;\nEVEN:\nmul.lo.u32 %r2, %t, 5;\nMEET:\n" +
                         meet + "\nst.global.u32 [%rd20], %r2;",
                     64),
                numbers(64, [](uint32_t i) { return i * (i % 2 == 0 ? 5 : 3); }));
  }
}

TEST_CASE("legal: groups of a warp's lanes meet by masks of their own, one group at a time") {
  // Of 8 lanes the first takes a lock, and they count. The others wait for theirs meanwhile.
  const std::string count =
      "and.b32 %r1, %t, 7;\nsetp.eq.u32 %p1, %r1, 0;\nand.b32 %r2, %t, 24;\n"
      "mov.u32 %r3, 255;\nshl.b32 %r3, %r3, %r2;\n@!%p1 bra MEET;\nLOCK:\n"
      "atom.global.cas.b32 %r4, [%out], 0, 1;\nsetp.ne.u32 %p2, %r4, 0;\n@%p2 bra LOCK;\n"
      "membar.gl;\nMEET:\nWAIT\nmul.wide.u32 %rd1, %r1, 4;\nadd.u64 %rd1, %rd1, %out;\n"
      "ld.global.u32 %r5, [%rd1+32];\nadd.u32 %r5, %r5, 1;\nst.global.u32 [%rd1+32], %r5;\n"
      "membar.gl;\nbar.warp.sync %r3;\n@%p1 atom.global.exch.b32 %r6, [%out], 0;";
  const Words expected = numbers(16, [](uint32_t i) { return i < 8 ? 0u : 4u; });
  for (const std::string more : {"", "vote.sync.ballot.b32 %r7, %p1, %r3;\n"}) {
    check_legal(with(replaced(count, "WAIT", more + "bar.warp.sync %r3;"), 32), expected);
  }
}

TEST_CASE("legal: warps leave early; barriers go on without them, counted ones with who is left") {
  check_legal(with("setp.ge.u32 %p1, %r41, 2;\n@%p1 ret;\nshl.b32 %r1, %t, 2;\n"
                   "add.u32 %r1, %r1, %smem;\nst.shared.u32 [%r1], %t;\nbar.sync 1, 64;\n"
                   "xor.b32 %r2, %r1, 128;\nld.shared.u32 %r3, [%r2];\nbar.sync 0;\n"
                   "st.shared.u32 [%r2], %r3;\nbar.sync 0;\nld.shared.u32 %r4, [%r1];\n"
                   "st.global.u32 [%rd20], %r4;",
                   128),
              numbers(64, [](uint32_t i) { return i; }));
  // Lanes of one warp leave too.
  check_legal(with("setp.ge.u32 %p1, %r42, 9;\n@%p1 bra GONE;\nbar.sync 0;\nbar.warp.sync 511;\n"
                   "st.global.u32 [%rd20], 6;\nGONE:",
                   32),
              Words(9, 6));
}

TEST_CASE("legal: a switch goes by a table") {
  check_legal(with("and.b32 %r1, %t, 3;\nTS: .branchtargets A, B, C, D;\nbrx.idx %r1, TS;\n"
                   "A:\nmov.u32 %r2, 10;\nbra END;\nB:\nmov.u32 %r2, 20;\nbra END;\n"
                   "C:\nmov.u32 %r2, 30;\nD:\nadd.u32 %r2, %r1, 40;\nEND:\n"
                   "st.global.u32 [%rd20], %r2;",
                   32),
              numbers(32, [](uint32_t i) {
                const uint32_t of[] = {10, 20, 42, 43};
                return of[i % 4];
              }));
}

// ---- Copies and mbarriers -----------------------------------------------------------------------

// One mbarrier at %smem for `count` arrivals; 512 bytes go to %smem + 1024 by `produce`.
static Program copies(const std::string& count, const std::string& produce) {
  return with("setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\nmbarrier.init.shared::cta.b64 [%smem], " +
                  count +
                  ";\nfence.mbarrier_init.release.cluster;\nMADE:\nbar.sync 0;\n"
                  "elect.sync _|%p2, -1;\n" +
                  produce +
                  "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%smem], 0;\n"
                  "@!%p3 bra WAIT;\nshl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\n"
                  "ld.shared.u32 %r2, [%r1+1024];\nst.global.u32 [%rd20], %r2;",
              128);
}

const std::string BULK =
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd10], ";

TEST_CASE("legal: an elected lane copies, and expects the bytes after it has") {
  Buffer<uint32_t> in(128);
  for (uint32_t i = 0; i < 128; ++i) in[i] = i * 9;
  const Words expected = numbers(128, [](uint32_t i) { return i * 9; });
  check_legal(copies("1",
                     "setp.eq.and.u32 %p2, %r41, 2, %p2;\n@!%p2 bra WAIT;\n"
                     "add.u32 %r10, %smem, 1024;\nmov.u64 %rd10, %in;\n" +
                         BULK +
                         "512, [%smem];\n"
                         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 512;\n"),
              expected, in.data());
  // A producer in each warp.
  check_legal(copies("4",
                     "@!%p2 bra WAIT;\nshl.b32 %r11, %r41, 7;\nadd.u32 %r10, %smem, %r11;\n"
                     "add.u32 %r10, %r10, 1024;\ncvt.u64.u32 %rd10, %r11;\n"
                     "add.u64 %rd10, %rd10, %in;\n"
                     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 128;\n" +
                         BULK + "128, [%smem];\n"),
              expected, in.data());
  // Expected by one, copied by others.
  check_legal(copies("1",
                     "@!%p2 bra WAIT;\nsetp.eq.u32 %p4, %r41, 3;\n"
                     "@%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 512;\n"
                     "shl.b32 %r11, %r41, 7;\nadd.u32 %r10, %smem, %r11;\n"
                     "add.u32 %r10, %r10, 1024;\ncvt.u64.u32 %rd10, %r11;\n"
                     "add.u64 %rd10, %rd10, %in;\n" +
                         BULK + "128, [%smem];\n"),
              expected, in.data());
}

// The lower half of a warp commits a group more than the upper one, and in front of all others.
TEST_CASE("legal: lanes wait together for cp.async groups of their own, or have them arrive") {
  const std::string copies =
      "add.u32 %r1, %t, 5;\nst.global.u32 [%rd20+128], %r1;\nshl.b32 %r2, %t, 2;\n"
      "add.u32 %r2, %r2, %smem;\nsetp.ge.u32 %p1, %t, 16;\n@%p1 bra BOTH;\n"
      "cp.async.ca.shared.global [%r2+256], [%rd20+128], 4;\ncp.async.commit_group;\nBOTH:\n"
      "cp.async.ca.shared.global [%r2+128], [%rd20+128], 4;\ncp.async.commit_group;\n";
  const std::string result = "ld.shared.u32 %r3, [%r2+128];\nst.global.u32 [%rd20], %r3;\n";
  Words expected(64);
  for (uint32_t i = 0; i < 64; ++i) expected[i] = i % 32 + 5;
  check_legal(with(copies + "cp.async.wait_group 0;\n" + result, 32), expected);
  check_legal(with("setp.ne.u32 %p2, %t, 0;\n@%p2 bra MADE;\n"
                   "mbarrier.init.shared::cta.b64 [%smem], 32;\nMADE:\nbar.warp.sync -1;\n" +
                       copies +
                       "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%smem];\nWAIT:\n"
                       "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%smem], 0;\n"
                       "@!%p1 bra WAIT;\n" +
                       result,
                   32),
              expected);
}

TEST_CASE("legal: arrive.noComplete, and others complete the phase") {
  check_legal(with("shl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\nst.shared.u32 [%r1+64], %t;\n"
                   "setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\n"
                   "mbarrier.init.shared::cta.b64 [%smem], 65;\n"
                   "mbarrier.arrive.noComplete.shared::cta.b64 %rd1, [%smem], 1;\nMADE:\n"
                   "bar.sync 0;\nmbarrier.arrive.shared::cta.b64 %rd2, [%smem];\nWAIT:\n"
                   "mbarrier.test_wait.shared::cta.b64 %p2, [%smem], %rd2;\n@!%p2 bra WAIT;\n"
                   "xor.b32 %r2, %t, 32;\nshl.b32 %r2, %r2, 2;\nadd.u32 %r2, %r2, %smem;\n"
                   "ld.shared.u32 %r3, [%r2+64];\nst.global.u32 [%rd20], %r3;",
                   64),
              numbers(64, [](uint32_t i) { return i ^ 32; }));
}

TEST_CASE("legal: a ring of two slots on named barriers") {
  // Barriers 1 and 2: a slot is full; 3 and 4: it is empty. Warp 0 fills, warp 1 adds up.
  check_legal(with("mov.u32 %r1, 0;\nmov.u32 %r9, 0;\nsetp.ne.u32 %p1, %r41, 0;\nLOOP:\n"
                   "and.b32 %r2, %r1, 1;\nadd.u32 %r3, %r2, 1;\nadd.u32 %r4, %r2, 3;\n"
                   "shl.b32 %r5, %r2, 7;\nshl.b32 %r6, %r42, 2;\nadd.u32 %r5, %r5, %r6;\n"
                   "add.u32 %r5, %r5, %smem;\n@%p1 bra TAKE;\nsetp.lt.u32 %p2, %r1, 2;\n"
                   "@%p2 bra FILL;\nbar.sync %r4, 64;\nFILL:\nmad.lo.u32 %r7, %r1, 100, %r42;\n"
                   "st.shared.u32 [%r5], %r7;\nbar.arrive %r3, 64;\nbra NEXT;\nTAKE:\n"
                   "bar.sync %r3, 64;\nld.shared.u32 %r7, [%r5];\nadd.u32 %r9, %r9, %r7;\n"
                   "setp.lt.u32 %p2, %r1, 6;\n@%p2 bar.arrive %r4, 64;\nNEXT:\n"
                   "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, 8;\n@%p2 bra LOOP;\n"
                   "st.global.u32 [%rd20], %r9;",
                   64),
              numbers(64, [](uint32_t i) { return i < 32 ? 0 : 2800 + 8 * (i - 32); }));
}

// ---- Shared memory ------------------------------------------------------------------------------

TEST_CASE("legal: warps write the bytes of one word, and read them through generic addresses") {
  Program eight = with(
      "add.u32 %r1, %smem, %r41;\nsetp.eq.u32 %p1, %r42, 0;\n"
      "add.u32 %r2, %r41, 65;\n@%p1 st.shared.u8 [%r1], %r2;\n"
      "@%p1 ld.shared.u8 %r6, [%r1];\nbar.sync 0;\n"
      "cvt.u64.u32 %rd1, %smem;\ncvta.shared.u64 %rd1, %rd1;\n"
      "ld.v2.u32 {%r3, %r4}, [%rd1];\nst.global.v2.u32 [%out], {%r3, %r4};",
      256);
  // All threads store the same words: only the first does it here.
  eight.body = replaced(eight.body, "st.global.v2.u32",
                        "setp.ne.u32 %p5, %t, 0;\n@%p5 bra END;\n"
                        "st.global.v2.u32") +
               "\nEND:";
  check_legal(eight, {0x44434241, 0x48474645});
}

TEST_CASE("legal: a ring through the peers' shared memory") {
  check_legal(with("mov.u32 %r1, %cluster_ctarank;\nadd.u32 %r2, %r1, 1;\nand.b32 %r2, %r2, 3;\n"
                   "shl.b32 %r3, %t, 2;\nadd.u32 %r3, %r3, %smem;\n"
                   "mapa.shared::cluster.u32 %r4, %r3, %r2;\n"
                   "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\n"
                   "mad.lo.u32 %r5, %r1, 1000, %t;\nst.shared::cluster.u32 [%r4], %r5;\n"
                   "barrier.cluster.arrive.release.aligned;\n"
                   "barrier.cluster.wait.acquire.aligned;\nld.shared.u32 %r6, [%r3];\n"
                   "st.global.u32 [%rd20], %r6;",
                   64, 8, 4),
              numbers(512, [](uint32_t i) { return (i / 64 + 3) % 4 * 1000 + i % 64; }));
}

TEST_CASE("legal: a peer's mbarrier, with a scope, and without one, as CUTLASS has it") {
  for (const std::string scope : {".release.cluster", ""}) {
    const std::string wait = scope.empty() ? "" : ".acquire.cluster";
    check_legal(
        with("mov.u32 %r1, %cluster_ctarank;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\n"
             "mbarrier.init.shared::cta.b64 [%smem], 32;\nfence.mbarrier_init.release.cluster;\n"
             "MADE:\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
             "xor.b32 %r2, %r1, 1;\nmapa.shared::cluster.u32 %r3, %smem, %r2;\n"
             "shl.b32 %r4, %t, 2;\nadd.u32 %r5, %r3, %r4;\nadd.u32 %r6, %smem, %r4;\n"
             "mad.lo.u32 %r7, %r1, 100, %t;\nst.shared::cluster.u32 [%r5+64], %r7;\n"
             "mbarrier.arrive" +
                 scope +
                 ".shared::cluster.b64 _, [%r3];\nWAIT:\n"
                 "mbarrier.try_wait.parity" +
                 wait +
                 ".shared::cta.b64 %p2, [%smem], 0;\n"
                 "@!%p2 bra WAIT;\nld.shared.u32 %r8, [%r6+64];\nst.global.u32 [%rd20], %r8;",
             32, 2, 2),
        numbers(64, [](uint32_t i) { return (1 - i / 32) * 100 + i % 32; }));
  }
}

// ---- CTAs that wait for each other --------------------------------------------------------------

// Each CTA waits for the flag of another, takes its number, adds its own and sets its flag.
// %out: 64 flags, 64 numbers; 24 CTAs.
static Program chain(const std::string& previous, const std::string& first,
                     const std::string& release, const std::string& acquire) {
  return with(
      "setp.ne.u32 %p1, %t, 0;\n@%p1 bra END;\nmov.u32 %r9, 0;\n"
      "setp.eq.u32 %p2, %r40, " +
          first +
          ";\nmul.wide.u32 %rd1, %r40, 4;\n"
          "add.u64 %rd1, %rd1, %out;\n@%p2 bra OWN;\nWAIT:\n" +
          replaced(acquire, "FLAG", "[%rd1" + previous + "]") +
          "\nsetp.eq.u32 %p3, %r1, 0;\n@%p3 bra WAIT;\nAFTER\n"
          "ld.global.u32 %r9, [%rd1+256" +
          previous +
          "];\nOWN:\n"
          "add.u32 %r9, %r9, %r40;\nadd.u32 %r9, %r9, 1;\nst.global.u32 [%rd1+256], %r9;\n" +
          replaced(release, "FLAG", "[%rd1]") + "\nEND:",
      32, 24);
}

TEST_CASE("legal: CTAs wait for each other through global memory") {
  struct Way {
    std::string release, acquire, after;
  };
  const Way ways[] = {
      {"st.release.gpu.global.u32 FLAG, 1;", "ld.acquire.gpu.global.u32 %r1, FLAG;", ""},
      {"membar.gl;\nst.relaxed.gpu.global.u32 FLAG, 1;", "ld.relaxed.gpu.global.u32 %r1, FLAG;",
       "membar.gl;"},
      {"membar.gl;\nst.volatile.global.u32 FLAG, 1;", "ld.volatile.global.u32 %r1, FLAG;",
       "membar.gl;"},
      {"fence.acq_rel.gpu;\natom.relaxed.gpu.global.exch.b32 %r2, FLAG, 1;",
       "nanosleep.u32 20;\natom.relaxed.gpu.global.add.u32 %r1, FLAG, 0;", "fence.acq_rel.gpu;"},
      {"red.release.gpu.global.add.u32 FLAG, 1;", "ld.acquire.sys.global.u32 %r1, FLAG;", ""},
  };
  // Upwards and downwards: then the first CTAs wait for the last one, more than there are threads.
  for (const bool up : {true, false}) {
    Words expected(128);
    for (uint32_t i = 0, sum = 0; i < 24; ++i) {
      const uint32_t cta = up ? i : 23 - i;
      expected[cta] = 1;
      expected[64 + cta] = sum += cta + 1;
    }
    for (const Way& way : ways) {
      CAPTURE(way.release);
      Program program = chain(up ? "-4" : "+4", up ? "0" : "23", way.release, way.acquire);
      program.body = replaced(program.body, "256-4", "252");
      program.body = replaced(program.body, "256+4", "260");
      program.body = replaced(program.body, "AFTER", way.after);
      check_legal(program, expected);
    }
  }
}

TEST_CASE("legal: a barrier of the whole grid, by atomics") {
  // %out: a counter and 15 words of nothing, then a word of each CTA twice.
  check_legal(
      with("mul.wide.u32 %rd1, %r40, 4;\nadd.u64 %rd1, %rd1, %out;\nsetp.eq.u32 %p1, %t, 0;\n"
           "add.u32 %r1, %r40, 5;\n@%p1 st.global.u32 [%rd1+64], %r1;\nbar.sync 0;\n"
           "@!%p1 bra JOIN;\nmembar.gl;\natom.add.global.u32 %r2, [%out], 1;\nSPIN:\n"
           "ld.acquire.gpu.global.u32 %r3, [%out];\nsetp.lt.u32 %p2, %r3, 16;\n@%p2 bra SPIN;\n"
           "JOIN:\nbar.sync 0;\nsub.u32 %r4, 15, %r40;\nmul.wide.u32 %rd2, %r4, 4;\n"
           "add.u64 %rd2, %rd2, %out;\nld.global.u32 %r5, [%rd2+64];\n"
           "@%p1 st.global.u32 [%rd1+128], %r5;",
           64, 16),
      [] {
        Words words(48);
        words[0] = 16;
        for (uint32_t i = 0; i < 16; ++i) {
          words[16 + i] = i + 5;
          words[32 + i] = 15 - i + 5;
        }
        return words;
      }());
}

TEST_CASE("legal: the last CTA to arrive adds up what the others stored") {
  check_legal(with("setp.ne.u32 %p1, %t, 0;\n@%p1 bra END;\nmul.wide.u32 %rd1, %r40, 4;\n"
                   "add.u64 %rd1, %rd1, %out;\nst.global.u32 [%rd1+64], %r40;\nmembar.gl;\n"
                   "atom.inc.global.u32 %r1, [%out], 11;\nsetp.ne.u32 %p2, %r1, 11;\n"
                   "@%p2 bra END;\nmembar.gl;\nmov.u32 %r2, 0;\nmov.u32 %r3, 0;\n"
                   "mov.u64 %rd2, %out;\nADD:\nld.global.u32 %r4, [%rd2+64];\n"
                   "add.u32 %r3, %r3, %r4;\nadd.u64 %rd2, %rd2, 4;\nadd.u32 %r2, %r2, 1;\n"
                   "setp.lt.u32 %p3, %r2, 12;\n@%p3 bra ADD;\nst.global.u32 [%out+4], %r3;\nEND:",
                   32, 12),
              [] {
                Words words(28);
                words[1] = 66;
                for (uint32_t i = 0; i < 12; ++i) words[16 + i] = i;
                return words;
              }());
}

TEST_CASE("legal: a flag is set back by a plain store of who has seen it") {
  for (const char* count :
       {"red.relaxed.gpu.global.add.u32 [%out], 1;\n", "st.relaxed.gpu.global.u32 [%out], 1;\n"}) {
    const Program program = with(
        "setp.ne.u32 %p1, %t, 0;\n@%p1 bra MEET;\nsetp.eq.u32 %p2, %r40, 1;\n@%p2 bra SPIN;\n"
        "st.global.u32 [%out+16], 7;\nfence.acq_rel.gpu;\nDATA" +
            std::string(count) +
            "bra MEET;\nSPIN:\nld.acquire.gpu.global.u32 %r1, [%out];\n"
            "setp.eq.u32 %p3, %r1, 0;\n@%p3 bra SPIN;\nld.global.u32 %r2, [%out+16];\n"
            "ld.global.u32 %r3, [%out+20];\nadd.u32 %r2, %r2, %r3;\n"
            "st.global.u32 [%out+8], %r2;\nMEET:\nbar.sync 0;\n"
            // Another warp of the CTA does it: it knows of the load by the barrier.
            "setp.eq.u32 %p1, %r43, 95;\n@%p1 st.global.u32 [%out], 0;",
        64, 2);
    Program legal = program, wrong = program;
    legal.body = replaced(program.body, "DATA", "");
    check_legal(legal, {0, 0, 7, 0, 7, 0});
    wrong.body = replaced(program.body, "DATA", "st.global.u32 [%out+20], 8;\n");
    check_fault(wrong, {Error::Kind::race, {"Rule: global-race"}}, ALL);
  }
}

// ---- Functions, printf, local memory ------------------------------------------------------------

TEST_CASE("legal: functions are called from lanes that have parted, and call others") {
  Program program = with(
      "and.b32 %r1, %t, 1;\nsetp.eq.u32 %p1, %r1, 0;\n{\n.param .b32 a;\n"
      ".param .b32 d;\nst.param.b32 [a], %t;\n@%p1 bra EVEN;\n"
      "call.uni (d), twice_and_one, (a);\nbra GOT;\nEVEN:\n"
      "call (d), twice, (a);\nGOT:\nld.param.b32 %r2, [d];\n}\n"
      "st.global.u32 [%rd20], %r2;",
      32);
  program.declarations =
      ".func (.param .b32 d) twice(.param .b32 a)\n{\n.reg .b32 %x;\n"
      "ld.param.b32 %x, [a];\nadd.u32 %x, %x, %x;\nst.param.b32 [d], %x;\nret;\n}\n"
      ".func (.param .b32 d) twice_and_one(.param .b32 a)\n{\n.reg .b32 %x;\n"
      "ld.param.b32 %x, [a];\n{\n.param .b32 b;\n.param .b32 c;\n"
      "st.param.b32 [b], %x;\ncall.uni (c), twice, (b);\nld.param.b32 %x, [c];\n}\n"
      "add.u32 %x, %x, 1;\nst.param.b32 [d], %x;\nret;\n}\n";
  check_legal(program, numbers(32, [](uint32_t i) { return 2 * i + i % 2; }));

  Program recursion = with("call endless;", 32);
  recursion.declarations = ".func endless()\n{\ncall endless;\nret;\n}\n";
  check_fault(recursion, {Error::Kind::fault, {"'endless' calls itself without end"}},
              {Policy::eager});
}

TEST_CASE("legal: lanes that come to a function from two places do not run together there") {
  // As nvcc -G calls __activemask(), which tells lanes of each branch who is in it.
  const auto mask_of = [](uint32_t lane) { return lane < 10 ? 0x3ffu : 0xfffffc00u; };
  Program program = with(
      "setp.lt.u32 %p1, %t, 10;\n{\n.param .b32 d;\n@%p1 bra LOW;\ncall (d), here;\n"
      "ld.param.b32 %r2, [d];\nbra GOT;\nLOW:\ncall (d), here;\nld.param.b32 %r2, [d];\n"
      "bar.warp.sync %r2;\nGOT:\nbar.sync 0;\n}\nst.global.u32 [%rd20], %r2;",
      32);
  const std::string mask =
      ".func (.param .b32 d) mask()\n{\n.reg .b32 %x;\nactivemask.b32 %x;\n"
      "st.param.b32 [d], %x;\nret;\n}\n";
  program.declarations = mask +
                         ".func (.param .b32 d) here()\n{\n.reg .b32 %x;\n{\n.param .b32 e;\n"
                         "call (e), mask;\nld.param.b32 %x, [e];\n}\nst.param.b32 [d], %x;\n"
                         "ret;\n}\n";
  check_legal(program, numbers(32, mask_of));
  // Where all lanes of the warp must come, they do.
  program.declarations =
      ".func (.param .b32 d) here()\n{\nbar.warp.sync -1;\nbar.sync 0;\n"
      "st.param.b32 [d], -1;\nret;\n}\n";
  program.body = replaced(program.body, "bar.warp.sync %r2;\n", "");
  check_legal(program, Words(32, UINT32_MAX));
}

TEST_CASE("legal: an array in local memory, indexed by a register") {
  check_legal(with(".local .align 16 .b8 array[64];\nmov.u32 %r1, 0;\nmov.u64 %rd1, array;\n"
                   "cvta.local.u64 %rd2, %rd1;\nFILL:\nmul.wide.u32 %rd3, %r1, 4;\n"
                   "add.u64 %rd4, %rd1, %rd3;\nmad.lo.u32 %r2, %r1, %r1, %t;\n"
                   "st.local.u32 [%rd4], %r2;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 16;\n"
                   "@%p1 bra FILL;\nand.b32 %r3, %t, 15;\nmul.wide.u32 %rd3, %r3, 4;\n"
                   "add.u64 %rd4, %rd2, %rd3;\nld.u32 %r4, [%rd4];\nst.global.u32 [%rd20], %r4;",
                   64),
              numbers(64, [](uint32_t i) { return i % 16 * (i % 16) + i; }));
}

TEST_CASE("legal: printf") {
  Program program = with(
      "setp.ne.u32 %p1, %t, 1;\n@%p1 bra END;\n"
      ".local .align 8 .b8 values[16];\nmov.u64 %rd1, values;\n"
      "cvta.local.u64 %rd2, %rd1;\nst.local.v2.u32 [%rd1], {3, %t};\n"
      "st.local.f64 [%rd1+8], 0d3FF8000000000000;\nmov.u64 %rd3, format;\n"
      "cvta.global.u64 %rd3, %rd3;\n{\n.param .b64 a;\n.param .b64 b;\n"
      ".param .b32 d;\nst.param.b64 [a], %rd3;\nst.param.b64 [b], %rd2;\n"
      "call.uni (d), vprintf, (a, b);\nld.param.b32 %r1, [d];\n}\n"
      "st.global.u32 [%out], %r1;\nEND:",
      32);
  program.declarations =
      ".extern .func (.param .b32 d) vprintf(.param .b64 a, .param .b64 b);\n"
      ".global .align 1 .b8 format[14] = {116, 32, 37, 42, 100, 32, 37, 46, 49, 102, 37, 37, 10, "
      "0};\n";
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  std::fflush(stdout);
  const int kept = dup(1);
  dup2(fileno(file), 1);
  Buffer<uint32_t> out(1);
  const std::string report = program.report(out.data());
  std::fflush(stdout);
  dup2(kept, 1);
  close(kept);
  std::rewind(file);
  char text[64] = {};
  CHECK(std::fgets(text, sizeof text, file) != nullptr);
  std::fclose(file);
  CHECK(report == "");
  CHECK(std::string(text) == "t   1 1.5%\n");
  CHECK(out[0] == 3);  // values: the width is one
}

// ---- What must be reported ----------------------------------------------------------------------

TEST_CASE("illegal: global memory out of bounds, misaligned, freed") {
  check_fault(with("st.global.u32 [%out+256], 1;", 1),
              {Error::Kind::fault, {"256", "the test", "st.global.u32"}}, ALL, 64);
  check_fault(with("ld.global.u32 %r1, [%out+-4];", 1), {Error::Kind::fault, {"the test"}}, ALL);
  check_fault(with("ld.global.u32 %r1, [%out+2];", 1),
              {Error::Kind::fault, {"is not a multiple of"}}, ALL);
  check_fault(with("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%out+8];", 1),
              {Error::Kind::fault, {"is not a multiple of"}}, ALL);
  Buffer<uint32_t> out(1);
  auto* const gone = static_cast<uint32_t*>(machine::allocate(64, "what is gone"));
  machine::release(gone);
  Program freed = with("ld.global.u32 %r1, [%in];\nst.global.u32 [%out], %r1;", 1);
  freed.check = true;
  const std::string report = freed.report(out.data(), gone);
  CHECK(contains(report, "what is gone"));
  CHECK(contains(report, "freed"));
}

TEST_CASE("illegal: shared memory out of bounds, misaligned, never written") {
  check_fault(with("st.shared.u32 [%smem+65536], 1;", 1), {Error::Kind::fault, {"shared"}}, ALL);
  check_fault(with("ld.shared.v2.u32 {%r1, %r2}, [%smem+4];", 1),
              {Error::Kind::fault, {"is not a multiple of"}}, ALL);
  check_fault(with("ld.shared.u32 %r1, [%smem+16];", 1),
              {Error::Kind::race, {"which nothing has written"}}, ALL);
}

TEST_CASE("illegal: a deadlock") {
  check_fault(with("bar.sync 1, 64;", 32), {Error::Kind::hang, {"Deadlock", "barrier 1"}}, ALL);
  check_fault(with("mbarrier.init.shared::cta.b64 [%smem], 33;\nmbarrier.arrive.shared::cta.b64 _, "
                   "[%smem];\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%smem], 0;\n"
                   "@!%p1 bra WAIT;",
                   1),
              {Error::Kind::hang, {"Deadlock", "pending arrivals 32 of 33"}}, ALL);
  // Half of a warp is at another barrier.
  check_fault(with("setp.lt.u32 %p1, %t, 16;\n@%p1 bra LOW;\nbar.sync 0;\nbra END;\nLOW:\n"
                   "bar.sync 1;\nEND:",
                   32),
              {Error::Kind::hang, {"bar.sync 0", "bar.sync 1", "16 lanes"}}, ALL);
  check_fault(with("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
                   "mov.u32 %r1, %cluster_ctarank;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra END;\n"
                   "bar.sync 2, 96;\nEND:",
                   32, 2, 2),
              {Error::Kind::hang, {"CTA (1,0,0)"}}, ALL);
  check_fault(
      with("mov.u32 %r1, %cluster_ctarank;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra WAIT;\n"
           "bar.sync 2, 96;\nWAIT:\nbarrier.cluster.arrive;\nbarrier.cluster.wait;",
           32, 2, 2),
      {Error::Kind::hang, {"at the cluster's barrier, which 32 of 64 threads have reached"}}, ALL);
}

TEST_CASE("illegal: a livelock") {
  check_fault(with("mbarrier.init.shared::cta.b64 [%smem], 2;\nSPIN:\n"
                   "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%smem], 0;\n@!%p1 bra SPIN;",
                   1),
              {Error::Kind::hang, {"Livelock", "for nothing, in a loop that changes nothing"}},
              {Policy::eager});
  check_fault(with("SPIN:\nld.acquire.gpu.global.u32 %r1, [%out];\nsetp.eq.u32 %p1, %r1, 0;\n"
                   "@%p1 bra SPIN;",
                   1, 2),
              {Error::Kind::hang, {"ivelock"}}, {Policy::eager});
}

TEST_CASE("illegal: more CTAs wait for each other than are resident") {
  Program program = chain("+4", "23", "st.release.gpu.global.u32 FLAG, 1;",
                          "ld.acquire.gpu.global.u32 %r1, FLAG;");
  program.body = replaced(replaced(program.body, "256+4", "260"), "AFTER", "");
  machine::Settings& settings = machine::settings();
  const uint32_t before = settings.sms;
  settings.sms = 1;  // holds 3 CTAs of 64 KiB
  check_fault(program, {Error::Kind::hang, {"have not begun", "resident"}}, {Policy::eager}, 128);
  settings.sms = before;
}

TEST_CASE("illegal: matrix instructions of a warp some of whose lanes have left") {
  const Fault fault{Error::Kind::fault,
                    {"is of all 32 lanes of a warp, of which 16 are there", "Rule: illegal"}};
  const std::string leave = "setp.gt.u32 %p1, %r42, 15;\n@%p1 bra GONE;\n";
  for (const char* of_matrices :
       {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%smem];",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%smem], {%r1};",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1, %r2}, {%r3, %r3, %r3, %r3}, "
        "{%r4, %r4}, {%r1, %r2};",
        "wgmma.fence.sync.aligned;"}) {
    CAPTURE(of_matrices);
    check_fault(with(leave + of_matrices + "\nGONE:", 32), fault, ALL);
    check_fault(with(of_matrices, 16), fault, ALL);  // that were never there
  }
}

TEST_CASE("illegal: a barrier is missing") {
  const std::string own =
      "shl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\n"
      "st.shared.u32 [%r1], %t;\n";
  check_fault(with(own + "xor.b32 %r2, %r1, 128;\nld.shared.u32 %r3, [%r2];", 64),
              {Error::Kind::race, {"bar.sync"}}, ALL);
}

TEST_CASE("illegal: fence.proxy.async is missing before a bulk store") {
  const std::string store =
      "shl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\n"
      "st.shared.u32 [%r1], %t;\nFENCE\nbar.sync 0;\n"
      "setp.ne.u32 %p1, %t, 0;\n@%p1 bra END;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%out], [%smem], 256;\n"
      "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:";
  check_fault(with(replaced(store, "FENCE", ""), 64),
              {Error::Kind::race, {"fence.proxy.async.shared::cta"}}, ALL);
  check_legal(with(replaced(store, "FENCE", "fence.proxy.async.shared::cta;"), 64),
              numbers(64, [](uint32_t i) { return i; }));
}

TEST_CASE("legal: registers begin as NaN, in each CTA") {
  check_legal(
      with("st.global.u32 [%rd20], %r30;\nmov.u32 %r30, 5;\nst.shared.u32 [%smem], %r30;", 32, 8),
      Words(256, ~0u));
}

TEST_CASE("illegal: wgmma without its fence, or without its wait") {
  // A and B: zeros in 4 KiB of shared memory, no swizzle.
  const std::string wgmma =
      ".reg .b32 %f<4>;\nmov.u32 %r1, %t;\nFILL:\nshl.b32 %r2, %r1, 2;\nadd.u32 %r2, %r2, %smem;\n"
      "st.shared.u32 [%r2], 0;\nadd.u32 %r1, %r1, 128;\nsetp.lt.u32 %p1, %r1, 1024;\n"
      "@%p1 bra FILL;\nfence.proxy.async;\nbar.sync 0;\nshr.u32 %r3, %smem, 4;\n"
      "cvt.u64.u32 %rd1, %r3;\nadd.u64 %rd1, %rd1, 0x0000001000080000;\nmov.u32 %f0, %t;\n"
      "mov.u32 %f1, 1;\nmov.u32 %f2, 2;\nmov.u32 %f3, 3;\nFENCE\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, 1, "
      "1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\nWAIT\nst.global.u32 [%rd20], %f0;\n"
      "wgmma.wait_group.sync.aligned 0;";
  const std::string fence = "wgmma.fence.sync.aligned;", wait = "wgmma.wait_group.sync.aligned 0;";
  check_legal(with(replaced(replaced(wgmma, "FENCE", fence), "WAIT", wait), 128),
              numbers(128, [](uint32_t i) { return i; }));
  check_fault(with(replaced(replaced(wgmma, "FENCE", ""), "WAIT", wait), 128),
              {Error::Kind::race, {"wgmma.fence is missing"}}, ALL, 128);
  // No wait, or one that leaves the group open: also where it is over by then.
  for (const char* const lax : {"", "wgmma.wait_group.sync.aligned 1;"}) {
    check_fault(with(replaced(replaced(wgmma, "FENCE", fence), "WAIT", lax), 128),
                {Error::Kind::race, {"accumulator", "wgmma.wait_group"}}, ALL, 128);
  }
}

TEST_CASE("illegal: .cta where a peer waits") {
  check_fault(
      with("mov.u32 %r1, %cluster_ctarank;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\n"
           "mbarrier.init.shared::cta.b64 [%smem], 32;\nfence.mbarrier_init.release.cluster;\n"
           "MADE:\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
           "xor.b32 %r2, %r1, 1;\nmapa.shared::cluster.u32 %r3, %smem, %r2;\n"
           "shl.b32 %r4, %t, 2;\nadd.u32 %r5, %r3, %r4;\nadd.u32 %r6, %smem, %r4;\n"
           "st.shared::cluster.u32 [%r5+64], %t;\n"
           "mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r3];\nWAIT:\n"
           "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%smem], 0;\n"
           "@!%p2 bra WAIT;\nld.shared.u32 %r8, [%r6+64];\nst.global.u32 [%rd20], %r8;",
           32, 2, 2),
      {Error::Kind::race, {"scope .cluster"}}, ALL);
}

TEST_CASE("illegal: CTAs that pass data with no fence") {
  Program program = chain("-4", "0", "st.relaxed.gpu.global.u32 FLAG, 1;",
                          "ld.relaxed.gpu.global.u32 %r1, FLAG;");
  program.body = replaced(replaced(program.body, "256-4", "252"), "AFTER", "");
  check_fault(program, {Error::Kind::race, {"fence.acq_rel.gpu"}}, ALL, 128);
}
