// The checker's rules of copies, through small kernels: those in groups, and st.async.
#include <doctest/doctest.h>

#include "tests/machine/schedules.h"

using namespace machine_test;

namespace {

constexpr auto RACE = Error::Kind::race;

// CTA 0 fills a slot of CTA 1 twice; each phase expects the bytes of one filling, or `expected`.
Program filled_twice(const std::string& expected) {
  return with(
      "setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\nmbarrier.init.shared::cta.b64 [%smem], 1;\n"
      "fence.mbarrier_init.release.cluster;\nMADE:\nbarrier.cluster.arrive;\n"
      "barrier.cluster.wait;\nshl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\n"
      "setp.eq.u32 %p2, %r40, 1;\n@%p2 bra RECEIVE;\nmov.u32 %r4, 1;\n"
      "mapa.shared::cluster.u32 %r2, %smem, %r4;\nmapa.shared::cluster.u32 %r3, %r1, %r4;\n"
      "FILL:\nst.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3+1024], %r4, [%r2];\n"
      "add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p3, %r4, 3;\n@%p3 bra FILL;\nbra END;\n"
      "RECEIVE:\nmov.u32 %r5, 0;\nNEXT:\n"
      "@!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], " +
          expected +
          ";\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [%smem], %r5;\n"
          "@!%p4 bra WAIT;\nld.shared.u32 %r6, [%r1+1024];\nst.global.u32 [%rd20], %r6;\n"
          "bar.sync 0;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p5, %r5, 2;\n@%p5 bra NEXT;\nEND:\n"
          "barrier.cluster.arrive;\nbarrier.cluster.wait;",
      64, 2, 2);
}

}  // namespace

TEST_CASE("bytes that come before they are expected, since nobody waits for the slot, are enough") {
  const Fault fault{RACE, {"st.async", "its slot is empty then", "of which 0 phases are complete"}};
  check_fault(filled_twice("256"), fault, {Policy::eager}, 256);
  check_fault(filled_twice("256"), {RACE, {"st.async", "its slot is empty then"}}, ALL, 256);
}

TEST_CASE("bulk stores of the same values do not race with each other") {
  // Each CTA stores 1200 words, over the end of a page.
  const auto stored = [](const std::string& value, const std::string& bytes,
                         const std::string& more = "") {
    return with("mov.u32 %r1, " + value +
                    ";\nmov.u32 %r2, 0;\nmov.u32 %r3, %smem;\nFILL:\n"
                    "st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};\nadd.u32 %r3, %r3, 16;\n"
                    "add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 300;\n@%p1 bra FILL;\n"
                    "fence.proxy.async;\n"
                    "cp.async.bulk.global.shared::cta.bulk_group [%out], [%smem], " +
                    bytes + ";\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n" + more,
                1, 6);
  };
  check_legal(stored("5", "4800"), Words(1200, 5));
  check_fault(stored("%r40", "4784"),
              {RACE, {"cp.async.bulk writes", "a place of its own for each CTA's copy"}}, ALL,
              1200);
  check_fault(stored("6", "4800", "st.global.u32 [%out+4784], 5;"), {RACE, {"Rule: global-race"}},
              ALL, 1200);
}

TEST_CASE("copies that were never committed are told from those that are not waited for") {
  const auto copied = [](const std::string& commit) {
    return with("cp.async.ca.shared.global [%smem], [%in], 4;\n" + commit +
                    "cp.async.wait_group 0;\nld.shared.u32 %r1, [%smem];",
                1);
  };
  Buffer<uint32_t> in(4), many(64);
  check_legal(copied("cp.async.commit_group;\n"), Words(1), in.data());
  const Fault never{RACE,
                    {"cp.async.commit_group behind cp.async",
                     "(or cp.async.wait_all or cp.async.mbarrier.arrive.noinc in place of both)",
                     "what was never committed"}};
  check_fault(copied(""), never, ALL, 4, in.data());
  // What is in flight is not told to be written by nobody.
  check_fault(with("cp.async.ca.shared.global [%smem], [%in], 4;\ncp.async.commit_group;\n"
                   "ld.shared.u32 %r1, [%smem];",
                   1),
              {RACE, {"cp.async.ca.shared.global", "cp.async.wait_group", "its N is too large"}},
              ALL, 4, in.data());
  // Another warp reads, behind a barrier; later the copy is waited for all the same, or not.
  for (const char* late : {"", "cp.async.wait_all;\n", "cp.async.commit_group;\n"}) {
    check_fault(with(std::string("shl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\n"
                                 "mul.wide.u32 %rd1, %t, 4;\nadd.u64 %rd1, %in, %rd1;\n"
                                 "cp.async.ca.shared.global [%r1+1024], [%rd1], 4;\n"
                                 "cp.async.wait_group 0;\nbar.sync 0;\nxor.b32 %r2, %r1, 128;\n"
                                 "ld.shared.u32 %r3, [%r2+1024];\n") +
                         late,
                     64),
                never, ALL, 64, many.data());
  }
}

TEST_CASE("of what is read before anything came the mbarrier is named where bytes are to come") {
  const auto copied = [](const std::string& wait) {
    return with(
        "mbarrier.init.shared::cta.b64 [%smem+64], 1;\n"
        "fence.mbarrier_init.release.cluster;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem+64], 16;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem], [%in],"
        " 16, [%smem+64];\n" +
            wait + "ld.shared.u32 %r1, [%smem];",
        1);
  };
  Buffer<uint32_t> in(4);
  check_legal(copied("WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%smem+64], 0;\n"
                     "@!%p1 bra WAIT;\n"),
              Words(1), in.data());
  check_fault(copied(""),
              {RACE,
               {"which nothing has written", "If a copy is to bring it: on the mbarrier at shared",
                " 16 bytes are still to come, and mbarrier.try_wait there has to return first"}},
              {Policy::lazy}, 4, in.data());
}

TEST_CASE("cp.async is waited for by every lane that has issued it, or by its arrival") {
  Buffer<uint32_t> in(64);
  for (uint32_t i = 0; i < 64; ++i) in[i] = i + 5;
  const auto through = [](const std::string& between) {
    return with(
        "setp.eq.u32 %p1, %t, 0;\nsetp.eq.u32 %p2, %r42, 0;\nsetp.lt.u32 %p3, %r42, 16;\n"
        "@%p1 mbarrier.init.shared::cta.b64 [%smem+512], COUNT;\nbar.sync 0;\n"
        "shl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\nmul.wide.u32 %rd1, %t, 4;\n"
        "add.u64 %rd1, %in, %rd1;\n" +
            replaced(between, "COPY", "cp.async.ca.shared.global [%r1], [%rd1], 4") +
            "xor.b32 %r2, %t, 33;\nshl.b32 %r2, %r2, 2;\nadd.u32 %r2, %r2, %smem;\n"
            "ld.shared.u32 %r3, [%r2];\nst.global.u32 [%rd20], %r3;",
        64);
  };
  const auto arrived = [&](const std::string& arrive, const std::string& count) {
    Program program =
        through("COPY;\n" + arrive +
                "cp.async.mbarrier.arrive.noinc.shared.b64 [%smem+512];\n"
                "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [%smem+512], 0;\n"
                "@!%p4 bra AGAIN;\n");
    program.body = replaced(program.body, "COUNT", count);
    return program;
  };
  const auto waited = [&](const std::string& between) {
    Program program = through(between + "bar.sync 0;\n");
    program.body = replaced(program.body, "COUNT", "1");
    return program;
  };
  const Words expected = numbers(64, [](uint32_t i) { return (i ^ 33) + 5; });
  check_legal(waited("COPY;\ncp.async.commit_group;\ncp.async.wait_group 0;\n"), expected,
              in.data());
  check_legal(arrived("", "64"), expected, in.data());
  // The halves of a warp part; each waits for its own copies, and reads them before the other has.
  const std::string half = "COPY;\ncp.async.commit_group;\ncp.async.wait_group 0;\n";
  const std::string own = "ON:\nld.shared.u32 %r4, [%r1];\n";
  check_legal(waited("@%p3 bra LOW;\n" + half + "bra ON;\nLOW:\n" + half + own), expected,
              in.data());
  // They have a newer group in flight, each of its own; a peer reads the older ones.
  const std::string newer =
      "cp.async.ca.shared.global [%r1+1024], [%rd1], 4;\n"
      "cp.async.commit_group;\ncp.async.wait_group LEFT;\n";
  const auto parted = [&](const std::string& high, const std::string& low) {
    const std::string older = "COPY;\ncp.async.commit_group;\n" + newer;
    return waited("@%p3 bra LOW;\n" + replaced(older, "LEFT", high) + "bra ON;\nLOW:\n" +
                  replaced(older, "LEFT", low) + "ON:\n");
  };
  check_legal(parted("1", "1"), expected, in.data());
  const Fault too_lax{RACE, {"cp.async.wait_group", "(if one stands between the two, its N is"}};
  check_fault(parted("1", "2"), too_lax, {Policy::eager}, 64, in.data());
  check_fault(parted("2", "1"), too_lax, {Policy::eager}, 64, in.data());
  // They have parted no more, but some have copied more than others.
  check_legal(waited("COPY;\ncp.async.commit_group;\n@%p3 bra MORE;\nbra ON;\nMORE:\n" +
                     replaced(newer, "LEFT", "2") + "ON:\ncp.async.wait_group 0;\n"),
              expected, in.data());
  // They copy by one instruction, which for the high ones is of their second group.
  const auto joint = [&](const std::string& low) {
    return waited(
        "mov.u32 %r5, %r1;\n@%p3 bra ON;\nCOPY;\ncp.async.commit_group;\n"
        "add.u32 %r5, %r1, 1024;\nON:\ncp.async.ca.shared.global [%r5], [%rd1], 4;\n"
        "cp.async.commit_group;\n@!%p3 cp.async.wait_group 1;\n"
        "@%p3 cp.async.wait_group " +
        low + ";\n");
  };
  check_legal(joint("0"), expected, in.data());
  check_fault(joint("1"), too_lax, {Policy::eager}, 64, in.data());
  // The high ones copy again to where they have waited for a copy, which the low ones have not yet.
  const auto again = [&](const std::string& wait) {
    return waited("COPY;\ncp.async.commit_group;\n@%p3 bra ON;\n" + wait +
                  "COPY;\ncp.async.commit_group;\nON:\ncp.async.wait_group 0;\n");
  };
  check_legal(again("cp.async.wait_group 0;\n"), expected, in.data());
  check_fault(again(""), {RACE, {"cp.async.ca.shared.global writes", "cp.async.wait_group"}}, ALL,
              64, in.data());
  // Lanes without copies need not wait.
  check_legal(waited("COPY;\ncp.async.commit_group;\ncp.async.wait_group 0;\n@%p3 COPY;\n"
                     "cp.async.commit_group;\n@%p3 cp.async.wait_group 0;\n"),
              expected, in.data());
  const Fault fault{RACE,
                    {"cp.async", "by every lane that has issued copies, not by some of them"}};
  const std::vector<Policy> early = {Policy::eager};
  check_fault(waited("COPY;\ncp.async.commit_group;\n@%p2 cp.async.wait_group 0;\n"), fault, early,
              64, in.data());
  check_fault(arrived("@%p2 ", "2"), fault, early, 64, in.data());
  // An ordinary arrive says nothing of copies.
  Program ordinary = arrived("", "64");
  ordinary.body = replaced(ordinary.body, "cp.async.mbarrier.arrive.noinc.shared.b64",
                           "mbarrier.arrive.shared::cta.b64 _,");
  check_fault(ordinary,
              {RACE,
               {"order them: cp.async.mbarrier.arrive.noinc behind cp.async.ca.shared.global, in "
                "place of warp"}},
              ALL, 64, in.data());
  // Nobody waits for the arrival.
  Program unheard =
      through("COPY;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%smem+512];\nbar.sync 0;\n");
  unheard.body = replaced(unheard.body, "COUNT", "64");
  check_fault(unheard,
              {RACE, {"mbarrier.try_wait by warp", "on which cp.async.mbarrier.arrive of warp"}},
              early, 64, in.data());
}

TEST_CASE("a bulk copy that reads late was never committed") {
  const auto stored = [](const std::string& commit) {
    return with(
        "setp.ne.u32 %p1, %t, 0;\n@%p1 bra END;\nmbarrier.init.shared::cta.b64 [%smem], 1;\n"
        "fence.proxy.async;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 16;\n"
        "add.u32 %r1, %smem, 1024;\nadd.u32 %r2, %smem, 2048;\n"
        "st.shared.v2.u64 [%r2], {0, 0};\nfence.proxy.async;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%r1], [%out], 16, [%smem];\n"
        "add.u64 %rd1, %out, 16;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], "
        "16;\n" +
            commit +
            "cp.async.bulk.wait_group.read 0;\nst.shared.v2.u64 [%r2], {1, 1};\nWAIT:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n@!%p2 bra WAIT;\nEND:",
        32);
  };
  check_legal(stored("cp.async.bulk.commit_group;\n"), Words(8));
  check_fault(stored(""),
              {RACE,
               {"order them: cp.async.bulk.commit_group behind cp.async.bulk by the thread",
                "not waited for), then cp.async.bulk.wait_group.read, then a barrier, before st."}},
              {Policy::lazy});
}

TEST_CASE("a bulk copy that reads as it is started is not told to be never committed") {
  // The second warp copies what the first one has stored, too.
  const auto stored = [](const std::string& barrier) {
    return with(
        "shl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\nst.shared.u32 [%r1], %t;\n"
        "fence.proxy.async;\n" +
            barrier +
            "setp.ne.u32 %p1, %t, 32;\n@%p1 bra END;\n"
            "cp.async.bulk.global.shared::cta.bulk_group [%out], [%smem], 256;\n"
            "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:",
        64);
  };
  check_legal(stored("bar.sync 0;\n"), numbers(64, [](uint32_t i) { return i; }));
  check_fault(stored("bar.warp.sync -1;\n"),
              {RACE,
               {"order them: cp.async.bulk.wait_group.read by the thread of warp 1 (stores) of CTA "
                "(0,0,0) that commits cp.async.bulk, then a barrier, before st.shared.u32",
                "If st.shared.u32 writes what is to be copied, bar.sync between the two"}},
              {Policy::eager}, 64);
}

TEST_CASE("a copy that another warp has yet to start is not told to be never committed") {
  // The second warp copies, the first reads without a barrier.
  const Program early = with(
      "setp.lt.u32 %p1, %t, 32;\n@%p1 bra READ;\n"
      "cp.async.ca.shared.global [%smem], [%in], 4;\ncp.async.commit_group;\n"
      "cp.async.wait_group 0;\nexit;\nREAD:\nld.shared.u32 %r1, [%smem];\n"
      "st.global.u32 [%rd20], %r1;",
      64);
  Buffer<uint32_t> in(4);
  check_fault(early, {RACE, {"ld.shared.u32 reads", "cp.async.wait_group", "then a barrier with"}},
              ALL, 64, in.data());
}

TEST_CASE("who fills a slot again by cp.async has to wait for those who read it") {
  // One thread copies twice to one place, and has each copy arrive.
  const auto filled = [](const std::string& between) {
    const std::string copy =
        "cp.async.ca.shared.global [%smem], [%in], 4;\n"
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%smem+64];\n";
    return with("mbarrier.init.shared::cta.b64 [%smem+64], 1;\n" + copy + between + copy +
                    "LAST:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%smem+64], 1;\n"
                    "@!%p1 bra LAST;",
                1);
  };
  Buffer<uint32_t> in(4);
  check_legal(filled("WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%smem+64], 0;\n"
                     "@!%p1 bra WAIT;\n"),
              Words(1), in.data());
  check_fault(filled(""),
              {RACE,
               {"cp.async.ca.shared.global has written",
                "on an mbarrier on which each thread arrives that has read what the earlier copy"}},
              {Policy::eager}, 4, in.data());
}

TEST_CASE("who waits by a wrong parity for what a copy brings is told of the parity") {
  // Both warps store zeros; then the first copies there, and the second, which runs first, reads.
  const auto brought = [](const std::string& parity) {
    return with(
        "setp.ne.u32 %p1, %t, 0;\nmov.u32 %r5, 0;\nshl.b32 %r1, %t, 2;\n"
        "add.u32 %r1, %r1, %smem;\nst.shared.u32 [%r1], %r5;\n"
        "@!%p1 mbarrier.init.shared::cta.b64 [%smem+1024], 1;\nfence.proxy.async;\n"
        "bar.sync 0;\n@%p1 bra STARTED;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem+1024], 256;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem], [%in], 256, "
        "[%smem+1024];\nSTARTED:\nsetp.ge.u32 %p2, %t, 32;\n@%p2 mov.u32 %r5, " +
            parity +
            ";\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%smem+1024], %r5;\n"
            "@!%p3 bra WAIT;\nld.shared.u32 %r2, [%r1];\nst.global.u32 [%rd20], %r2;",
        64);
  };
  Buffer<uint32_t> in(64);
  for (uint32_t i = 0; i < 64; ++i) in[i] = i + 5;
  check_legal(brought("0"), numbers(64, [](uint32_t i) { return i + 5; }), in.data());
  check_fault(brought("1"),
              {RACE,
               {"cp.async.bulk writes", "look at the parity of the wait by warp 1 of CTA (0,0,0)",
                "it returned at once, for a phase before the first"}},
              {Policy::eager}, 64, in.data());
}

TEST_CASE("a wait for what a copy brings is not one for those who have not arrived there") {
  // A copy comes, and the first thread stores it; the second warp overwrites it.
  Program program = with(
      "setp.ne.u32 %p1, %t, 0;\n@!%p1 mbarrier.init.shared::cta.b64 [%smem+1024], 1;\n"
      "fence.proxy.async;\nbar.sync 0;\nsetp.ne.u32 %p2, %t, 32;\n@%p2 bra STARTED;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem+1024], 256;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem], [%in], 256, "
      "[%smem+1024];\nSTARTED:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 %p3, [%smem+1024], 0;\n@!%p3 bra STARTED;\n"
      "@%p1 bra STORED;\ncp.async.bulk.global.shared::cta.bulk_group [%out], [%smem], 256;\n"
      "cp.async.bulk.commit_group;\nSTORED:\nbar.sync 0;\n"
      "@!%p2 st.shared.u32 [%smem], 0;\n@!%p1 cp.async.bulk.wait_group 0;",
      64);
  Buffer<uint32_t> in(64), out(64);
  for (uint32_t i = 0; i < 64; ++i) in[i] = i;
  const std::string report = program.report(out.data(), in.data());
  CHECK(contains(report, "cp.async.bulk.wait_group.read"));
  CHECK(!contains(report, "  waited:  "));
}
