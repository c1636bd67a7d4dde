// The checker's rules through small kernels: what is a race and what is legal, what a report names as
// the cause, and how a run goes on behind one.
#include <doctest/doctest.h>

#include "common/machine/check/clocks.h"
#include "common/machine/check/reports.h"
#include "tests/machine/schedules.h"

using namespace machine_test;

namespace {

constexpr auto RACE = Error::Kind::race;

// Every warp stores its lanes' numbers and reads those of its lanes' neighbours.
Program neighbours(const std::string& between) {
  return with("shl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\nst.shared.u32 [%r1], %t;\n" +
                  between +
                  "xor.b32 %r2, %t, 1;\nshl.b32 %r2, %r2, 2;\nadd.u32 %r2, %r2, %smem;\n"
                  "ld.shared.u32 %r3, [%r2];\nst.global.u32 [%rd20], %r3;",
              64);
}

// CTA 0 and CTA 1 leave a word each, count, and the last one reads both.
Program last_block(const std::string& writers_fence, const std::string& readers_fence) {
  return with(
      "mul.wide.u32 %rd1, %r40, 8;\nadd.u64 %rd1, %out, %rd1;\nadd.u32 %r1, %r40, 10;\n"
      "st.global.u32 [%rd1+16], %r1;\n" +
          writers_fence +
          "atom.global.add.u32 %r2, [%out+64], 1;\nsetp.ne.u32 %p1, %r2, 1;\n"
          "@%p1 bra END;\n" +
          readers_fence +
          "ld.global.u32 %r3, [%out+16];\nld.global.u32 %r4, [%out+24];\nadd.u32 %r3, %r3, %r4;\n"
          "st.global.u32 [%out], %r3;\nEND:",
      1, 2);
}

const std::string FENCE = "fence.acq_rel.gpu;\n";

struct Settings {  // as they were, when it goes
  machine::Settings before = machine::settings();
  ~Settings() { machine::settings() = before; }
};

}  // namespace

TEST_CASE("lanes of a warp race where no bar.warp.sync is between them") {
  check_legal(neighbours("bar.warp.sync -1;\n"), numbers(64, [](uint32_t i) { return i ^ 1; }));
  check_legal(neighbours("bar.sync 0;\n"), numbers(64, [](uint32_t i) { return i ^ 1; }));
  check_fault(neighbours(""),
              {RACE,
               {"ld.shared.u32 reads", "st.shared.u32 has written", "different lanes of one warp",
                "order them: bar.warp.sync (__syncwarp)", "or bar.sync (__syncthreads) if other",
                "Rule: lane-race"}},
              ALL);
  // A lane may use what it has stored itself, half a word of its own too.
  check_legal(with("shl.b32 %r1, %t, 1;\nadd.u32 %r1, %r1, %smem;\nst.shared.u16 [%r1], %t;\n"
                   "ld.shared.u16 %r3, [%r1];\nst.shared.u16 [%r1], %r3;\n"
                   "ld.shared.u16 %r3, [%r1];\nst.global.u32 [%rd20], %r3;",
                   64),
              numbers(64, [](uint32_t i) { return i; }));
  // A word is read before another lane overwrites it.
  check_fault(with("shl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\nst.shared.u32 [%r1], %t;\n"
                   "bar.warp.sync -1;\nld.shared.u32 %r3, [%r1];\nxor.b32 %r2, %r1, 4;\n"
                   "st.shared.u32 [%r2], 7;\nst.global.u32 [%rd20], %r3;",
                   32),
              {RACE, {"st.shared.u32 writes", "ld.shared.u32 reads", "Rule: lane-race"}}, ALL);
  // An mbarrier orders lanes too: lane 0 arrives when it has stored.
  check_legal(with("setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\n"
                   "mbarrier.init.shared::cta.b64 [%smem], 1;\nMADE:\nbar.warp.sync -1;\n"
                   "@%p1 bra WAIT;\nst.shared.u32 [%smem+16], 5;\n"
                   "mbarrier.arrive.shared::cta.b64 _, [%smem];\nWAIT:\n"
                   "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n@!%p2 bra WAIT;\n"
                   "ld.shared.u32 %r3, [%smem+16];\nst.global.u32 [%rd20], %r3;",
                   32),
              Words(32, 5));
}

TEST_CASE("plain accesses of a lane race with the atomics of others of its warp in shared memory") {
  const auto counts = [](const std::string& begin, const std::string& update,
                         const std::string& end) {
    return with("setp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [%smem], 0;\n" + begin + "@!%p1 " +
                    update + end + "@%p1 ld.shared.u32 %r3, [%smem];\n" +
                    "@%p1 st.global.u32 [%out], %r3;",
                32);
  };
  const std::string meet = "bar.warp.sync -1;\n", add = "red.shared.add.u32 [%smem], 1;\n";
  check_legal(counts(meet, add, meet), {31});
  check_fault(counts(meet, add, ""),
              {RACE, {"ld.shared.u32 reads", "red.shared.add.u32 has", "Rule: lane-race"}}, ALL);
  check_fault(counts("", add, meet),
              {RACE, {"red.shared.add.u32 writes", "st.shared.u32 has", "Rule: lane-race"}}, ALL);
  const std::string read = "@%p1 ld.shared.u32 %r3, [%smem];\n";
  check_fault(counts(meet + read, add, meet),
              {RACE, {"red.shared.add.u32 writes", "ld.shared.u32 reads", "Rule: lane-race"}}, ALL);
  // A loop of atom.cas begins with a plain load, and lanes may poll.
  const std::string once =
      "ld.shared.u32 %r1, [%smem];\nAGAIN:\nmov.u32 %r2, %r1;\nadd.u32 %r4, %r2, 1;\n"
      "atom.shared.cas.b32 %r1, [%smem], %r2, %r4;\nsetp.ne.u32 %p2, %r1, %r2;\n@%p2 bra AGAIN;\n";
  const std::string twice = once + replaced(once, "AGAIN", "MORE");
  check_legal(with("setp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [%smem], 0;\n" + meet + twice +
                       meet + "ld.shared.u32 %r3, [%smem];\nst.global.u32 [%rd20], %r3;",
                   32),
              Words(32, 64));
  check_legal(counts(meet, "st.volatile.shared.u32 [%smem], 31;\n", ""), {31});
}

TEST_CASE("lanes of a warp race in global memory, too") {
  const auto through = [](const std::string& between) {
    return with("st.global.u32 [%rd20], %t;\n" + between +
                    "xor.b32 %r2, %t, 1;\nmul.wide.u32 %rd1, %r2, 4;\nadd.u64 %rd1, %out, %rd1;\n"
                    "ld.global.u32 %r3, [%rd1];\nst.global.u32 [%rd20+128], %r3;",
                32);
  };
  check_legal(through("bar.warp.sync -1;\n"),
              numbers(64, [](uint32_t i) { return i < 32 ? i : (i - 32) ^ 1; }));
  check_fault(through(""), {RACE, {"ld.global.u32 reads global", "Rule: lane-race"}}, ALL);
  // A line that changes what another lane changes.
  Program counts = with(
      "shr.u32 %r1, %t, 1;\nmul.wide.u32 %rd1, %r1, 4;\nadd.u64 %rd1, %out, %rd1;\n"
      "st.global.u32 [%rd20+128], %t;\n.loc 1 7 1\nld.global.u32 %r2, [%rd1];\n"
      "add.u32 %r2, %r2, 1;\nst.global.u32 [%rd1], %r2;",
      32);
  counts.declarations = ".file 1 \"lines.cu\"\n";
  check_fault(counts, {RACE, {"Rule: lane-race", "order them: an atomic in place of the two"}},
              ALL);
}

TEST_CASE("lanes of the only warp of a CTA need no barrier of the CTA") {
  const auto neighbours = [](uint32_t threads) {
    return with(
        "shl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\nst.shared.u32 [%r1+128], %t;\n"
        "bar.sync 0;\nst.shared.u32 [%r1], %t;\nld.shared.u32 %r3, [%r1+64];\n"
        "st.global.u32 [%rd20], %r3;",
        threads);
  };
  const char* const meet = "order them: bar.warp.sync (__syncwarp) between the two. ";
  check_fault(neighbours(32), {RACE, {"Rule: lane-race", meet}}, ALL);
}

TEST_CASE("lanes of a warp that take turns by a lock need fences, which are named") {
  const auto counts = [](const std::string& before, const std::string& after) {
    return with(
        "AGAIN:\natom.global.cas.b32 %r1, [%out+64], 0, 1;\nsetp.ne.u32 %p1, %r1, 0;\n"
        "@%p1 bra AGAIN;\n" +
            before +
            "ld.global.u32 %r2, [%out];\nadd.u32 %r2, %r2, 1;\nst.global.u32 [%out], %r2;\n" +
            after + "atom.global.exch.b32 %r1, [%out+64], 0;",
        32);
  };
  Words expected(17);
  expected[0] = 32;
  check_legal(counts(FENCE, FENCE), expected);
  check_fault(counts(FENCE, ""),
              {RACE,
               {"Rule: lane-race",
                "Lanes that take turns by a lock: fence.acq_rel.gpu "
                "(__threadfence) behind taking it and before giving it back."}},
              ALL, 17);
}

TEST_CASE("so it is of a lock in shared memory") {
  const auto counts = [](const std::string& take, const std::string& after) {
    return with(
        "setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\nst.shared.v2.u32 [%smem], {0, 0};\n"
        "MADE:\nbar.warp.sync -1;\nAGAIN:\n" +
            take + "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra AGAIN;\n" + FENCE +
            "ld.shared.u32 %r2, [%smem];\nadd.u32 %r2, %r2, 1;\nst.shared.u32 [%smem], %r2;\n" +
            after + "atom.shared.exch.b32 %r1, [%smem+4], 0;\nbar.warp.sync -1;\n" +
            "ld.shared.u32 %r2, [%smem];\nst.global.u32 [%rd20], %r2;",
        32);
  };
  for (const char* const take : {"atom.shared.cas.b32 %r1, [%smem+4], 0, 1;\n",
                                 "atom.shared.exch.b32 %r1, [%smem+4], 1;\n"}) {
    check_legal(counts(take, FENCE), Words(32, 32));
    check_fault(counts(take, ""),
                {RACE,
                 {"Rule: lane-race",
                  "Lanes that take turns by a lock: fence.acq_rel.cta "
                  "(__threadfence_block) behind taking it and before giving it back."}},
                ALL);
  }
}

TEST_CASE("lanes that write halves of words race with one that reads a word") {
  const auto words = [](const char* space, const std::string& between) {
    const std::string at = std::string(space) == "shared" ? "%r1" : "%rd1";
    return with(
        "st.global.u32 [%rd20], 0;\nst.global.u32 [%rd20+128], 0;\nbar.warp.sync -1;\n"
        "shl.b32 %r1, %t, 1;\ncvt.u64.u32 %rd1, %r1;\nadd.u64 %rd1, %out, %rd1;\n"
        "add.u32 %r1, %r1, %smem;\nst." +
            std::string(space) + ".u16 [" + at + "], %t;\n" + between +
            "and.b32 %r1, %t, 15;\nshl.b32 %r1, %r1, 2;\ncvt.u64.u32 %rd1, %r1;\n"
            "add.u64 %rd1, %out, %rd1;\nadd.u32 %r1, %r1, %smem;\nld." +
            space + ".u32 %r3, [" + at + "];\nst.global.u32 [%rd20+128], %r3;",
        32);
  };
  for (const char* space : {"shared", "global"}) {
    Words expected(64);
    for (uint32_t i = 0; i < 64; ++i) {
      const bool is_there = i >= 32 || (i < 16 && space[0] == 'g');
      expected[i] = is_there ? 2 * (i % 16) | (2 * (i % 16) + 1) << 16 : 0;
    }
    check_legal(words(space, "bar.warp.sync -1;\n"), expected);
    check_fault(words(space, ""), {RACE, {".u32 reads", ".u16 has written", "Rule: lane-race"}},
                ALL);
  }
}

TEST_CASE("a proxy fence counts for a warp whose lanes have parted, once each has executed it") {
  // Each lane stores a word and fences; lane 0 copies them all.
  const auto stored = [](const std::string& fence) {
    return with("shl.b32 %r1, %t, 2;\nadd.u32 %r2, %r1, %smem;\nst.shared.u32 [%r2], %t;\n" +
                    fence +
                    "bar.warp.sync -1;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 bra END;\n"
                    "cp.async.bulk.global.shared::cta.bulk_group [%out], [%smem], 128;\n"
                    "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:",
                32);
  };
  const std::string parted =
      "setp.lt.u32 %p2, %t, 7;\n@%p2 bra LOW;\nfence.proxy.async.shared::cta;\nbra ON;\nLOW:\n"
      "fence.proxy.async.shared::cta;\nON:\n";
  check_legal(stored("fence.proxy.async.shared::cta;\n"),
              numbers(32, [](uint32_t i) { return i; }));
  check_legal(stored(parted), numbers(32, [](uint32_t i) { return i; }));
  const Program some = stored(replaced(parted, "LOW:\nfence.proxy.async.shared::cta;", "LOW:"));
  check_fault(
      some,
      {RACE, {"nothing orders the two for the async", "fence.proxy.async", "Rule: proxy-raw"}},
      ALL);
}

TEST_CASE("a plain load before a loop of atom.cas is legal; one that only looks is not") {
  const std::string loop =
      "ld.global.u32 %r1, [%out];\nAGAIN:\nadd.u32 %r2, %r1, 1;\n"
      "atom.global.cas.b32 %r3, [%out], %r1, %r2;\nsetp.ne.u32 %p1, %r3, %r1;\nmov.u32 %r1, %r3;\n"
      "@%p1 bra AGAIN;\n";
  check_legal(with(loop, 4, 6), Words{24});
  // Once the others have counted: a read before the first write to a page is not recorded.
  const std::string look =
      "setp.eq.u32 %p3, %r40, 3;\n@!%p3 bra COUNT;\nWAIT:\nld.relaxed.gpu.global.u32 %r4, "
      "[%out+4];\n"
      "setp.ne.u32 %p2, %r4, 5;\n@%p2 bra WAIT;\nld.global.u32 %r4, [%out];\n"
      "st.global.u32 [%out+64], %r4;\nbra END;\nCOUNT:\n" +
      loop + "red.relaxed.gpu.global.add.u32 [%out+4], 1;\nEND:";
  check_fault(with(look, 1, 6), {RACE, {"ld.global.u32", "atom.global.cas", "Rule: global-race"}},
              ALL);
}

TEST_CASE("so it is in shared memory, where the counter is only looked at behind a barrier") {
  const auto counts = [](const std::string& last) {
    return with(
        "setp.ne.u32 %p2, %t, 0;\n@!%p2 st.shared.u32 [%smem], 0;\nbar.sync 0;\n"
        "ld.shared.u32 %r1, [%smem];\nAGAIN:\nadd.u32 %r2, %r1, 1;\n"
        "atom.shared.cas.b32 %r3, [%smem], %r1, %r2;\nsetp.ne.u32 %p1, %r3, %r1;\n"
        "mov.u32 %r1, %r3;\n@%p1 bra AGAIN;\n" +
            last + "ld.shared.u32 %r4, [%smem];\n@!%p2 st.global.u32 [%out], %r4;",
        96);
  };
  check_legal(counts("bar.sync 0;\n"), Words{96});
  check_fault(counts(""), {RACE, {"ld.shared.u32", "atom.shared.cas", "Rule: shared-race"}}, ALL);
}

TEST_CASE("atomics and relaxed accesses race where a scope leaves out the other's thread") {
  const auto counts = [](const std::string& scope, const std::string& where, uint32_t cluster) {
    return with(
        "mapa.shared::cluster.u32 %r1, %smem, 0;\nsetp.ne.u32 %p1, %r40, 0;\n"
        "@!%p1 st.shared.u32 [%smem], 0;\nbarrier.cluster.arrive.aligned;\n"
        "barrier.cluster.wait.aligned;\natom.relaxed" +
            scope + where + ", 1;\nbarrier.cluster.arrive.aligned;\n" +
            "barrier.cluster.wait.aligned;",
        32, 2, cluster);
  };
  const std::string in_global = ".global.add.u32 %r2, [%out]";
  const std::string in_shared = ".shared::cluster.add.u32 %r2, [%r1]";
  const auto misses = [](const std::string& opcode, const std::string& scope) {
    return Fault{RACE,
                 {opcode + ".add.u32 writes", "What would order them: scope ." + scope + ", or a"}};
  };
  for (const char* const scope : {".gpu", ".sys", ""}) {
    check_legal(counts(scope, in_global, 1), Words{64});
    check_legal(counts(scope, in_global, 2), Words{64});
    check_legal(counts(scope, in_shared, 2), {});
  }
  check_legal(counts(".cluster", in_global, 2), Words{64});
  check_legal(counts(".cluster", in_shared, 2), {});
  check_legal(with("atom.relaxed.cta.global.add.u32 %r2, [%out], 1;", 64), Words{64});
  check_fault(counts(".cluster", in_global, 1), misses("atom.relaxed.cluster.global", "gpu"), ALL);
  check_fault(counts(".cta", in_global, 1), misses("atom.relaxed.cta.global", "gpu"), ALL);
  check_fault(counts(".cta", in_global, 2), misses("atom.relaxed.cta.global", "cluster"), ALL);
  check_fault(counts(".cta", in_shared, 2), misses("atom.relaxed.cta.shared::cluster", "cluster"),
              ALL);
}

TEST_CASE("who counts last may set the counter back without a fence") {
  // Threads of the machine count at the same moment.
  const std::string rounds =
      "mov.u32 %r1, 0;\nROUND:\natom.global.add.u32 %r2, [%out], 1;\nsetp.eq.u32 %p1, %r2, 1;\n"
      "@%p1 st.global.u32 [%out], 0;\n@%p1 st.relaxed.gpu.global.u32 [%out+8], 1;\nWAIT:\n"
      "ld.relaxed.gpu.global.u32 %r3, [%out+8];\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra WAIT;\n"
      "add.u64 %out, %out, 16;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p3, %r1, 500;\n"
      "@%p3 bra ROUND;";
  check_legal(with(rounds, 1, 2), numbers(2000, [](uint32_t i) { return uint32_t{i % 4 == 2}; }));
}

TEST_CASE("stores of the same value do not race with each other") {
  check_legal(with("st.global.u32 [%out], 5;", 64, 6), Words{5});
  // Threads of the machine do so at the same moment.
  check_legal(with("mov.u32 %r1, 0;\nmov.u64 %rd1, %out;\nAGAIN:\nst.global.u32 [%rd1], 5;\n"
                   "add.u32 %r1, %r1, 1;\nadd.u64 %rd1, %rd1, 4;\n"
                   "setp.lt.u32 %p1, %r1, 64;\n@%p1 bra AGAIN;",
                   32, 16),
              Words(64, 5));
  check_legal(with("st.shared.u32 [%smem], 5;\nbar.sync 0;\nld.shared.u32 %r1, [%smem];\n"
                   "st.global.u32 [%rd20], %r1;",
                   64),
              Words(64, 5));
  check_fault(with("st.global.u32 [%out], %r40;", 32, 6), {RACE, {"st.global.u32 writes"}}, ALL);
  check_fault(with("st.shared.u32 [%smem], %r41;", 64), {RACE, {"st.shared.u32 writes"}}, ALL);
}

TEST_CASE("of the two fences of the last block the one that is missing is named") {
  Words expected(17);
  expected[0] = 21, expected[4] = 10, expected[6] = 11, expected[16] = 2;
  check_legal(last_block(FENCE, FENCE), expected);
  check_fault(last_block("", FENCE), {RACE, {"it is that fence, the writer's, that is missing"}},
              ALL);
  check_fault(last_block(FENCE, ""), {RACE, {"The other fence, behind st.global.u32, is there"}},
              ALL);
}

TEST_CASE("between one thread's flag for its CTA and the others' stores a barrier is named") {
  // Two warps leave words; one thread counts for both; CTA 1 waits, and its threads read them.
  const auto told = [](const std::string& barrier) {
    return with(
        "setp.eq.u32 %p1, %r40, 1;\nsetp.ne.u32 %p2, %t, 0;\n@%p1 bra READ;\n"
        "st.global.u32 [%rd20], %t;\n" +
            barrier + "@%p2 bra END;\n" + FENCE +
            "red.global.add.u32 [%out+1024], 1;\nbra END;\nREAD:\n@%p2 bra SEEN;\n"
            "WAIT:\nld.acquire.gpu.global.u32 %r1, [%out+1024];\n"
            "setp.eq.u32 %p3, %r1, 0;\n@%p3 bra WAIT;\nSEEN:\nbar.sync 0;\n"
            "mul.wide.u32 %rd1, %t, 4;\nadd.u64 %rd1, %out, %rd1;\n"
            "ld.global.u32 %r2, [%rd1];\nst.global.u32 [%rd20], %r2;\nEND:",
        64, 2);
  };
  Words expected(257);
  for (uint32_t i = 0; i < 128; ++i) expected[i] = i % 64;
  expected[256] = 1;
  check_legal(told("bar.sync 0;\n"), expected);
  check_fault(told(""),
              {RACE,
               {"order them: bar.sync (__syncthreads) between st.global.u32 and the flag or "
                "counter, if a thread of CTA (0,0,0) sets it for all. Else: fence.acq_rel.gpu"}},
              ALL, 257);
}

TEST_CASE("in a cooperative launch grid.sync() is named") {
  // Each thread stores, and reads what one of the other CTA, or another warp, has stored.
  for (const char* other : {"64", "32"}) {
    Program program = with(
        "xor.b32 %r1, %r43, " + std::string(other) +
            ";\nmul.wide.u32 %rd1, %r1, 4;\n"
            "add.u64 %rd1, %out, %rd1;\nst.global.u32 [%rd20], %t;\nld.global.u32 %r2, [%rd1];",
        64, 2);
    const std::string said = "The launch is cooperative: grid.sync() between the two orders them";
    Buffer<uint32_t> out(128);
    CHECK(!contains(program.report(out.data()), said));
    program.cooperative = true;
    check_fault(program, {RACE, {"Rule: global-race", said}}, ALL, 128);
  }
}

TEST_CASE("of one statement that several threads execute no barrier is advised first") {
  check_fault(with("add.u32 %r1, %r40, 1;\nst.global.u32 [%out], %r1;", 1, 2),
              {RACE, {"order them: a place of its own for each thread", "Rule: global-race"}}, ALL);
  // Of an unrolled one: each CTA has four bytes, and stores eight.
  Program unrolled = with(
      "add.u32 %r1, %r40, 1;\nmul.wide.u32 %rd1, %r40, 4;\nadd.u64 %rd1, %out, %rd1;\n"
      ".loc 1 5 0\nst.global.u32 [%rd1], %r1;\n.loc 1 5 0\nst.global.u32 [%rd1+4], %r1;",
      1, 2);
  unrolled.declarations = ".file 1 \"kernel.cu\"\n";
  check_fault(unrolled, {RACE, {"a place of its own for each thread: its address runs into"}}, ALL);
}

TEST_CASE("an atomic on shared memory that nothing has written is reported") {
  const Fault fault{RACE,
                    {"Unwritten in kernel", "access:  ", "updates shared", "Rule: never-written"}};
  check_fault(with("atom.shared.add.u32 %r1, [%smem], 1;", 32), fault, ALL);
  check_fault(with("red.shared.max.u32 [%smem], %t;", 32), fault, ALL);
  check_legal(with("setp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [%smem], 0;\nbar.sync 0;\n"
                   "atom.shared.add.u32 %r1, [%smem], 1;\nbar.sync 0;\n"
                   "ld.shared.u32 %r2, [%smem];\nst.global.u32 [%out], %r2;",
                   64),
              {64});
  check_legal(with("setp.ne.u32 %p1, %t, 0;\n@%p1 bra END;\natom.shared.exch.b32 %r1, [%smem], 7;\n"
                   "ld.shared.u32 %r2, [%smem];\nst.global.u32 [%out], %r2;\nEND:",
                   32),
              {7});
  // Its first values are those that each warp's bits get.
  check_legal(with("red.shared.and.b32 [%smem], 0;\nbar.sync 0;\nred.shared.or.b32 [%smem], 5;\n"
                   "bar.sync 0;\nld.shared.u32 %r2, [%smem];\nst.global.u32 [%out], %r2;",
                   64),
              {5});
}

TEST_CASE("memory that nothing has written is reported by who reads it, through copies too") {
  const auto reads = [](const std::string& body) {
    Program program = with(body, 32);
    const std::unique_ptr<void, bool (*)(void*)> memory(machine::allocate(4096, "cudaMalloc", true),
                                                        machine::release);
    Buffer<uint32_t> out(64);
    const std::string report = program.report(out.data(), memory.get());
    return report;
  };
  const auto never = [](const std::string& report) {
    return contains(report, "Rule: never-written");
  };
  const std::string word = "mul.wide.u32 %rd1, %t, 4;\nadd.u64 %rd1, %in, %rd1;\n";
  CHECK(never(reads(word + "ld.global.u32 %r1, [%rd1];")));
  CHECK(contains(reads(word + "ld.global.u32 %r1, [%rd1];"),
                 "of cudaMalloc), which nothing has written"));
  CHECK(contains(reads(word + "ld.global.u32 %r1, [%rd1];"),
                 "where other threads of this launch write it, a barrier"));
  CHECK(never(reads(word + "atom.global.add.u32 %r1, [%rd1], 1;")));
  CHECK(reads(word + "atom.global.exch.b32 %r1, [%rd1], 1;\nbar.warp.sync -1;\n"
                     "ld.global.u32 %r1, [%rd1];") == "");
  CHECK(reads(word + "st.global.u32 [%rd1], 0;\nld.global.u32 %r1, [%rd1];") == "");
  const std::string copy =
      "setp.ne.u32 %p1, %t, 0;\n@%p1 bra COPIED;\nmbarrier.init.shared::cta.b64 [%smem], 1;\n"
      "fence.proxy.async;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 1024;\n"
      "add.u32 %r1, %smem, "
      "1024;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%r1], [%in], 1024, [%smem];\nCOPIED:\nbar.warp.sync -1;\nWAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n@!%p2 bra WAIT;\n"
      "shl.b32 %r2, %r42, 4;\nadd.u32 %r2, %r2, %smem;\n";
  CHECK(reads(copy) == "");  // what nobody looks at does not matter
  CHECK(never(reads(copy + "ld.shared.u32 %r3, [%r2+1024];")));
  CHECK(contains(reads(copy + "ld.shared.u32 %r3, [%r2+1024];"),
                 "to which a copy has brought global memory that nothing has written"));
  CHECK(contains(reads(copy + "ld.shared.u32 %r3, [%r2+1024];"),
                 "earlier: warp 0 (producer) of CTA (0,0,0), which writes it by cp.async.bulk"));
  CHECK(never(reads(copy + "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3, %r4, %r5, %r6}, "
                           "[%r2+1024];")));
}

TEST_CASE("data that is a part of what unwritten memory holds is data") {
  const auto reads = [](size_t size, size_t at, const std::vector<uint8_t>& data,
                        const std::string& load) {
    Program program = with("setp.ne.u32 %p1, %t, 0;\n@!%p1 " + load, 32);
    const std::unique_ptr<void, bool (*)(void*)> memory(machine::allocate(size, "cudaMalloc", true),
                                                        machine::release);
    std::memcpy(static_cast<uint8_t*>(memory.get()) + at, data.data(), data.size());
    Buffer<uint32_t> out(64);
    return program.report(out.data(), memory.get());
  };
  CHECK(reads(9, 8, {0xff}, "ld.global.u8 %r1, [%in+8];") == "");          // -1
  CHECK(reads(10, 8, {0xff, 0x7f}, "ld.global.u16 %r1, [%in+8];") == "");  // NaN of bf16
  CHECK(reads(32, 4, {0xff, 0xff, 0xff, 0x7f}, "ld.global.u32 %r1, [%in+4];") == "");
  CHECK(contains(reads(32, 0, {0}, "ld.global.u32 %r1, [%in+8];"), "Rule: never-written"));
}

TEST_CASE("all reports of a run, each pair of instructions once, and rules that are left out") {
  const Settings restored;
  machine::forget_reports();
  Program program = neighbours("");
  program.body += "\nst.shared.u32 [%smem+512], %r41;\nst.shared.u32 [%smem+520], %r41;";
  machine::settings().all_reports = true;
  Buffer<uint32_t> out(64);
  CHECK(program.report(out.data()) == "");
  CHECK(Words(out.data(), out.data() + 64) == numbers(64, [](uint32_t i) { return i ^ 1; }));
  std::map<std::string, int> rules;
  for (const std::string& text : machine::reports_so_far()) {
    ++rules[contains(text, "Rule: lane-race")     ? "lane"
            : contains(text, "Rule: shared-race") ? "shared"
                                                  : "other"];
  }
  CHECK(rules == std::map<std::string, int>{{"lane", 1}, {"shared", 2}});
  machine::forget_reports();
  machine::settings().all_reports = false;
  machine::settings().ignored = {"lane-race"};
  CHECK(contains(program.report(out.data()), "Rule: shared-race"));
  machine::settings().ignored = {"lane-race", "shared-race"};
  CHECK(program.report(out.data()) == "");
  CHECK(machine::reports_so_far().empty());
}

TEST_CASE("all reports of a run: of instructions of one line, with the same calls around it, one") {
  const Settings restored;
  machine::settings().all_reports = true;
  // Two reads of line 7, inlined from line 20 or from two lines, of what other lanes store on line 6.
  for (const char* const caller : {"20", "21"}) {
    machine::forget_reports();
    const std::string inlined = ".loc 1 7 3, function_name $n, inlined_at 1 ";
    Program program = with(
        "mad.lo.s32 %r2, %t, 4, %smem;\nxor.b32 %r3, %t, 1;\n"
        "mad.lo.s32 %r3, %r3, 4, %smem;\n.loc 1 6 3\n"
        "st.shared.u32 [%r2], %t;\nst.shared.u32 [%r2+256], %t;\n" +
            inlined + "20 5\nld.shared.u32 %r4, [%r3];\n" + inlined + caller +
            " 5\nld.shared.u32 %r5, [%r3+256];",
        32);
    program.declarations = ".file 1 \"lines.cu\"\n";
    Buffer<uint32_t> out(64);
    CHECK(program.report(out.data()) == "");
    CHECK(machine::reports_so_far().size() == (caller == std::string("20") ? 1 : 2));
  }
  machine::forget_reports();
}

TEST_CASE("more than two calls that were inlined have a line each") {
  for (const int calls : {2, 3}) {
    Program program = with("", 32);
    program.declarations =
        ".file 1 \"kernel.cu\"\n.file 2 \"a.h\"\n.file 3 \"b.h\"\n.file 4 \"c.h\"\n";
    const std::string at = ", function_name $n, inlined_at ";
    program.body = ".loc 1 9 1\n.loc 2 7 1" + at + "1 9 1\n.loc 3 5 1" + at + "2 7 1\n" +
                   (calls == 3 ? ".loc 4 3 1" + at + "3 5 1\n" : "") + "st.shared.u32 [65535], 0;";
    const std::string report = program.report();
    CHECK(contains(report, calls == 2 ? "at kernel.cu:9 (in a.h:7, in b.h:5)\n"
                                      : "at kernel.cu:9\n  in a.h:7\n  in b.h:5\n  in c.h:3\n"));
  }
}

TEST_CASE("undefined by PTX only: ordered, but not for the async proxy that overwrites") {
  // Lane 0 writes and reads, then has a copy overwrite that.
  const std::string fence = "fence.proxy.async;\n";
  const auto copied = [](const std::string& written, const std::string& read) {
    return with(
        "setp.ne.u32 %p1, %t, 0;\n@%p1 bra END;\nmbarrier.init.shared::cta.b64 [%smem], 1;\n"
        "fence.proxy.async;\nst.shared.u32 [%smem+1024], 1;\n" +
            written + "ld.shared.u32 %r3, [%smem+1024];\n" + read +
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 16;\n"
            "add.u32 %r1, %smem, 1024;\ncp.async.bulk.shared::cluster.global"
            ".mbarrier::complete_tx::bytes [%r1], [%out], 16, [%smem];\nWAIT:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n@!%p2 bra WAIT;\nEND:",
        32);
  };
  check_legal(copied(fence, fence), Words(4));
  check_legal(copied("", fence), Words(4));
  check_fault(copied(fence, ""),
              {RACE, {"Undefined in kernel test", "Rule: proxy-war (undefined by PTX only)"}}, ALL);
  // What was written makes it a race.
  check_fault(copied("", ""), {RACE, {"st.shared.u32 has written", "Rule: proxy-waw"}}, ALL);
}

TEST_CASE("a CTA exits behind the reads of its bulk copies, whichever thread committed them") {
  const auto stored = [](const std::string& commit, const std::string& wait) {
    return with(
        "setp.ne.u32 %p1, %r42, 0;\nshl.b32 %r1, %r41, 4;\nadd.u32 %r1, %r1, %smem;\n"
        "@%p1 bra LEAVE;\nst.shared.v2.u64 [%r1], {0, 0};\nfence.proxy.async.shared::cta;\n"
        "cvt.u64.u32 %rd1, %r41;\nshl.b64 %rd1, %rd1, 4;\nadd.u64 %rd1, %rd1, %out;\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16;\n" +
            commit + wait + "LEAVE:\nexit;",
        64);
  };
  const std::string commit = "cp.async.bulk.commit_group;\n";
  check_legal(stored(commit, "cp.async.bulk.wait_group.read 0;\n"), Words(64));
  check_legal(stored(commit, "cp.async.bulk.wait_group 0;\n"), Words(64));
  check_fault(
      stored(commit, ""),
      {RACE,
       {"Race in kernel test: CTA (0,0,0) exits", "cp.async.bulk may still read shared",
        "access:  warp", "which reads it by cp.async.bulk\n", "the last one of its CTA, by exit",
        "order them: cp.async.bulk.wait_group.read by the thread of warp", "Rule: bulk-exit"}},
      ALL);
  // Of two groups the last one may still be read.
  check_fault(stored(commit + commit, "cp.async.bulk.wait_group.read 2;\n"),
              {RACE, {"order them: cp.async.bulk.wait_group.read", "Rule: bulk-exit"}}, ALL);
  check_fault(stored("", "cp.async.bulk.wait_group.read 0;\n"),
              {RACE, {"order them: cp.async.bulk.commit_group behind", "Rule: bulk-exit"}}, ALL);
}

TEST_CASE("a CTA exits behind a wait for the arrivals of its peer") {
  // CTA 1 arrives at CTA 0's mbarrier, then sets a flag. Flags order nothing here.
  const auto exits = [](const std::string& arrive, const std::string& wait) {
    return with(
        "setp.ne.u32 %p1, %r40, 0;\n@%p1 bra MADE;\nmbarrier.init.shared::cta.b64 [%smem], 1;\n"
        "fence.mbarrier_init.release.cluster;\nMADE:\nbarrier.cluster.arrive.aligned;\n"
        "barrier.cluster.wait.aligned;\nmapa.shared::cluster.u32 %r3, %smem, 0;\n"
        "@!%p1 bra WAIT;\n" +
            arrive + "st.relaxed.gpu.global.u32 [%out], 1;\nbra END;\nWAIT:\n" + wait + "END:",
        1, 2, 2);
  };
  const std::string arrive = "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r3];\n";
  const std::string fence = "fence.acq_rel.cluster;\n";
  const auto look = [](const std::string& flag) {
    return "LOOK:\nld.relaxed.gpu.global.u32 %r1, " + flag + ";\nsetp.eq.u32 %p2, %r1, 0;\n" +
           "@%p2 bra LOOK;\n";
  };
  const auto wait = [](const std::string& order) {
    return "AGAIN:\nmbarrier.try_wait.parity" + order +
           ".cluster.shared::cta.b64 %p3, [%smem], 0;\n@!%p3 bra AGAIN;\n";
  };
  check_legal(exits(fence + arrive, wait(".acquire")), {1});
  check_legal(exits(arrive, wait(".relaxed")), {1});
  const auto exit_of_0 = [](const std::string& phase) {
    return Fault{
        RACE,
        {"CTA (0,0,0) exits, but mbarrier.arrive", "may still write shared",
         "order them: a wait for that phase of the mbarrier (" + phase + ") by", "Rule: cta-exit"}};
  };
  check_fault(exits(fence + arrive, look("[%out]")), exit_of_0("0, parity 0"), ALL);
  // It has waited for the first of two arrivals.
  const std::string again = replaced(look("[%out+4]"), "LOOK", "SECOND") + fence + arrive;
  check_fault(exits(fence + arrive + again,
                    wait(".acquire") + "st.relaxed.gpu.global.u32 [%out+4], 1;\n" + look("[%out]")),
              exit_of_0("1, parity 1"), ALL);
  // It comes when CTA 0 is gone.
  const std::string later =
      "mov.u32 %r1, 0;\nLATER:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, 20000;\n"
      "@%p2 bra LATER;\n";
  check_fault(
      exits(later + fence + arrive, ""),
      {Error::Kind::fault,
       {"all threads of whose CTA have exited", "A wait for the phase by a thread of that"}},
      ALL);
}

TEST_CASE("a hang names who has arrived, and what is likely wrong") {
  const auto waits = [](const std::string& arrive) {
    return with(
        "setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\nmbarrier.init.shared::cta.b64 [%smem], 4;\n"
        "MADE:\nbar.sync 0;\nsetp.ge.u32 %p3, %r41, 2;\n@%p3 bra WAIT;\n"
        "setp.ne.u32 %p4, %r42, 0;\n@%p4 bra WAIT;\n" +
            arrive +
            "WAIT:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n@!%p2 bra WAIT;",
        128);
  };
  check_fault(waits("mbarrier.arrive.shared::cta.b64 _, [%smem];\n"),
              {Error::Kind::hang,
               {"pending arrivals 2 of 4", "Arrived: 2, by warps 0 to 1 of CTA (0,0,0)",
                "Likely: the count of mbarrier.init", "Rule: deadlock"}},
              ALL);
  check_fault(waits("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 32;\n"),
              {Error::Kind::hang, {"Likely: expect_tx asks for more bytes"}}, ALL);
  check_fault(waits("mbarrier.complete_tx.shared::cta.b64 [%smem], 32;\n"),
              {Error::Kind::hang,
               {"pending arrivals 4 of 4",
                "Likely: who is to arrive has not, as with mbarrier.arrive.expect_tx, or expect_tx "
                "asks for fewer bytes"}},
              ALL);
  check_fault(waits("mbarrier.arrive.shared::cta.b64 _, [%smem];\n"
                    "mbarrier.complete_tx.shared::cta.b64 [%smem], 32;\n"),
              {Error::Kind::hang, {"Likely: expect_tx asks for fewer bytes"}}, ALL);
  check_fault(
      waits("bra WAIT;\n"),
      {Error::Kind::hang, {"pending arrivals 4 of 4", "its first wait must be for parity 1"}}, ALL);
  check_fault(with("setp.lt.u32 %p1, %t, 32;\n@%p1 bra END;\nbar.sync 1, 128;\nEND:", 128),
              {Error::Kind::hang, {"96 of 128 threads have arrived, of warps 1 to 3"}}, ALL);
}

TEST_CASE("an mbarrier that one lane has made is another lane's behind bar.warp.sync") {
  const auto used = [](const char* lane, const char* between) {
    return with(
        "setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\n"
        "mbarrier.init.shared::cta.b64 [%smem], 1;\nMADE:\n" +
            std::string(between) + "setp.ne.u32 %p1, %t, " + lane +
            ";\n@%p1 bra END;\nmbarrier.arrive.shared::cta.b64 _, [%smem];\nEND:\n"
            "bar.sync 0;\nst.global.u32 [%rd20], %t;",
        32);
  };
  const auto legal = numbers(32, [](uint32_t i) { return i; });
  check_legal(used("0", ""), legal);
  check_legal(used("5", "bar.warp.sync -1;\n"), legal);
  check_fault(used("5", ""), {RACE, {"mbarrier.init is not ordered", "bar.warp.sync"}}, ALL);
}

TEST_CASE("a hang says what was read before anybody wrote it") {
  const Program program = with(
      "setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\nmbarrier.init.shared::cta.b64 [%smem], 1;\n"
      "MADE:\nbar.sync 0;\nsetp.lt.u32 %p1, %t, 32;\n@%p1 bra WAIT;\n"
      "ld.shared.u32 %r1, [%smem+64];\nexit;\n"
      "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n@!%p2 bra WAIT;",
      64);
  check_fault(program,
              {Error::Kind::hang,
               {"Read before: shared 0x440 (byte 64 of", "which nothing has written yet",
                "access:  warp 1 of CTA (0,0,0), which reads it by ld.shared.u32"}},
              ALL);
}

TEST_CASE("a hang says of a buffer that was free once that an arrival is missing") {
  const Program program = with(
      "setp.ne.u32 %p1, %t, 0;\n@%p1 bra END;\nmbarrier.init.shared::cta.b64 [%smem], 1;\n"
      "FIRST:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 1;\n@!%p2 bra FIRST;\n"
      "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n@!%p2 bra WAIT;\nEND:",
      32);
  check_fault(program, {Error::Kind::hang, {"Likely: an arrive is missing"}}, ALL);
}

TEST_CASE("a hang says that a phase is over for which nobody has waited") {
  // A phase that lane 0 ends by itself; `first`: a wait for it.
  const auto waits = [](const std::string& first) {
    return with(
        "setp.ne.u32 %p1, %t, 0;\n@%p1 bra END;\n"
        "mbarrier.init.shared::cta.b64 [%smem], 1;\n"
        "mbarrier.arrive.shared::cta.b64 _, [%smem];\n" +
            first +
            "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 1;\n"
            "@!%p2 bra WAIT;\nEND:",
        32);
  };
  const std::string likely = "Likely: its phase 0 is over and no wait has asked for it";
  check_fault(waits(""),
              {Error::Kind::hang,
               {"phase 1, pending arrivals 1 of 1", likely,
                "or who arrives does not wait until it may again"}},
              ALL);
  Buffer<uint32_t> out(32);
  const std::string seen =
      waits("FIRST:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n@!%p2 bra FIRST;\n")
          .report(out.data());
  CHECK(contains(seen, "phase 1, pending arrivals 1 of 1"));
  CHECK(!contains(seen, likely));
}

TEST_CASE("an mbarrier ends behind the waits of all who wait there") {
  const auto ended = [](const std::string& between) {
    return with(
        "setp.ne.u32 %p1, %t, 0;\n@!%p1 mbarrier.init.shared::cta.b64 [%smem], 96;\n"
        "bar.sync 0;\nmbarrier.arrive.shared::cta.b64 _, [%smem];\nWAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n@!%p2 bra WAIT;\n" +
            between +
            "@!%p1 mbarrier.inval.shared::cta.b64 [%smem];\nbar.sync 0;\n"
            "@!%p1 st.shared.u32 [%smem], 7;\nbar.sync 0;\nld.shared.u32 %r1, [%smem];\n"
            "st.global.u32 [%rd20], %r1;",
        96);
  };
  check_legal(ended("bar.sync 0;\n"), Words(96, 7));
  check_fault(ended(""),
              {RACE,
               {"mbarrier.inval.shared::cta.b64 ends the mbarrier at shared",
                "for which mbarrier.try_wait.parity.shared::cta.b64 waits, maybe later",
                "order them: bar.sync between the two"}},
              {Policy::eager, Policy::lazy}, 96);
}

TEST_CASE("a wait that returned at once, since its phase was over, is named behind the race") {
  // Two warps pass words to each other twice; the second wait is for `parity`, or by a state.
  const auto passed = [](const std::string& wait) {
    const std::string arrive = "mbarrier.arrive.shared::cta.b64 %rd2, [%smem+1024];\n";
    return with(
        "setp.ne.u32 %p1, %t, 0;\n@!%p1 mbarrier.init.shared::cta.b64 [%smem+1024], 64;\n"
        "bar.sync 0;\nshl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\nxor.b32 %r2, %r1, 128;\n"
        "st.shared.u32 [%r1], %t;\n" +
            arrive +
            "mov.u64 %rd3, %rd2;\nFIRST:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem+1024], 0;\n@!%p2 bra FIRST;\n"
            "ld.shared.u32 %r3, [%r2];\nst.shared.u32 [%r1+512], %r3;\n" +
            arrive + "SECOND:\n" + wait +
            "@!%p2 bra SECOND;\nld.shared.u32 %r3, [%r2+512];\nst.global.u32 [%rd20], %r3;",
        64);
  };
  const std::string parity = "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem+1024], ";
  const std::string state = "mbarrier.try_wait.shared::cta.b64 %p2, [%smem+1024], ";
  const Words expected = numbers(64, [](uint32_t i) { return i; });
  check_legal(passed(parity + "1;\n"), expected);
  check_legal(passed(state + "%rd2;\n"), expected);
  const Fault fault{RACE,
                    {"  waited:  warp ", " has waited 2 times for the mbarrier at shared",
                     "of which 1 phase is complete: a wait asked for a phase that was over"}};
  check_fault(passed(parity + "0;\n"), fault, {Policy::eager});
  check_fault(passed(state + "%rd3;\n"), fault, {Policy::eager});
}

TEST_CASE("lanes of a warp that wait for one phase one after the other have waited for it once") {
  // The second warp stores behind its arrive, too.
  const std::string wait = "mbarrier.try_wait.parity.shared::cta.b64 %p4, [%smem+1024], 0;\n";
  Program program = with(
      "setp.ne.u32 %p1, %t, 0;\n@!%p1 mbarrier.init.shared::cta.b64 [%smem+1024], 32;\n"
      "@!%p1 st.shared.u32 [%smem], 5;\nbar.sync 0;\nsetp.ge.u32 %p2, %t, 32;\n"
      "@%p2 bra STORE;\nand.b32 %r1, %t, 1;\nsetp.eq.u32 %p3, %r1, 0;\n@%p3 bra EVEN;\n"
      "ODD:\n" +
          wait + "@!%p4 bra ODD;\nbra READ;\nEVEN:\n" + wait +
          "@!%p4 bra EVEN;\nREAD:\nld.shared.u32 %r2, [%smem];\nbra END;\n"
          "STORE:\nmbarrier.arrive.shared::cta.b64 _, [%smem+1024];\n"
          "setp.eq.u32 %p5, %t, 32;\n@%p5 st.shared.u32 [%smem], 6;\nEND:",
      64);
  const std::string report = program.report(Buffer<uint32_t>(64).data());
  CHECK(contains(report, "ld.shared.u32 reads"));
  CHECK(!contains(report, "  waited:  "));
}

TEST_CASE(
    "who reads too early, since an mbarrier's count is too low, is told who has not arrived") {
  // Three warps store words and arrive, and the last, which runs first, reads those of the first.
  const auto met = [](const std::string& count) {
    return with(
        "setp.ne.u32 %p1, %t, 0;\n@!%p1 mbarrier.init.shared::cta.b64 [%smem+1024], " + count +
            ";\nbar.sync 0;\nshl.b32 %r1, %t, 2;\nadd.u32 %r1, %r1, %smem;\n"
            "st.shared.u32 [%r1], %t;\nmbarrier.arrive.shared::cta.b64 _, [%smem+1024];\n"
            "setp.ne.u32 %p2, %r41, 2;\n@%p2 bra END;\nWAIT:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem+1024], 0;\n@!%p2 bra WAIT;\n"
            "ld.shared.u32 %r3, [%r1-256];\nmul.wide.u32 %rd1, %r42, 4;\n"
            "add.u64 %rd1, %out, %rd1;\nst.global.u32 [%rd1], %r3;\nEND:",
        96);
  };
  check_legal(met("96"), numbers(32, [](uint32_t i) { return i; }));
  check_fault(met("32"),
              {RACE,
               {"before st.shared.u32 writes it",
                "  waited:  warp 2 of CTA (0,0,0), for phase 0 of the mbarrier at shared",
                "whose count is 32 and on which warp 2 of CTA (0,0,0) arrived: warp 0 of CTA "
                "(0,0,0) is not among them"}},
              {Policy::eager});
}

TEST_CASE("what another lane of its warp writes later was not written by nobody") {
  const auto read = [](const std::string& between) {
    return with("setp.ne.u32 %p1, %t, 0;\n@%p1 bra ON;\nst.shared.u32 [%smem], 9;\nON:\n" +
                    between + "ld.shared.u32 %r1, [%smem];\nst.global.u32 [%rd20], %r1;",
                32);
  };
  check_legal(read("bar.warp.sync -1;\n"), Words(32, 9));
  // Lanes that wait in a loop run ahead of the one that is to write.
  check_fault(with("setp.eq.u32 %p1, %t, 0;\n@%p1 bra WRITE;\nld.shared.u32 %r1, [%smem];\n"
                   "bra END;\nWRITE:\nst.shared.u32 [%smem], 9;\nEND:",
                   32),
              {RACE, {"ld.shared.u32 reads", "before st.shared.u32 writes it", "bar."}},
              {Policy::eager});
}

TEST_CASE("a warp that comes to an mbarrier when its phase has long been over is told so") {
  // Warp 0 completes three phases, each by itself, and warp 1 waits for them one after the other.
  const auto waits = [](const std::string& at_the_end) {
    return with(
        "setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\nmbarrier.init.shared::cta.b64 [%smem], 1;\n"
        "MADE:\nbar.sync 0;\nmov.u32 %r5, 0;\nmov.u32 %r6, 0;\nsetp.ge.u32 %p3, %t, 32;\n@%p3 bra "
        "WAIT;\n"
        "FILL:\n@!%p1 mbarrier.arrive.shared::cta.b64 _, [%smem];\n" +
            at_the_end +
            "add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p4, %r5, 3;\n@%p4 bra FILL;\nexit;\n"
            "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], %r6;\n"
            "@!%p2 bra WAIT;\n" +
            at_the_end +
            "add.u32 %r5, %r5, 1;\nxor.b32 %r6, %r6, 1;\n"
            "setp.lt.u32 %p4, %r5, 3;\n@%p4 bra WAIT;",
        64);
  };
  const Fault late{Error::Kind::hang,
                   {"phase 3, pending arrivals 1 of 1, parity waited for 1",
                    "Likely: it comes too late. It has waited here 1 time, and meanwhile 3 phases",
                    "its next one, phase 1, is over"}};
  check_fault(waits(""), late, {Policy::eager}, 64);
  check_legal(waits("bar.sync 1;\n"), Words(64));
}

TEST_CASE("a hang of which one wait has a cause makes no guess about the others") {
  // Warp 0 waits for two arrivals, of which it makes one, and warp 1 for one that nobody makes.
  const Program program = with(
      "setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\nmbarrier.init.shared::cta.b64 [%smem], 2;\n"
      "mbarrier.init.shared::cta.b64 [%smem + 8], 1;\n"
      "mbarrier.arrive.shared::cta.b64 _, [%smem];\nMADE:\nbar.sync 0;\n"
      "setp.ge.u32 %p3, %r41, 1;\n@%p3 bra OTHER;\n"
      "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n@!%p2 bra WAIT;\nexit;\n"
      "OTHER:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem + 8], 0;\n@!%p2 bra OTHER;",
      64);
  Buffer<uint32_t> out(64);
  const std::string seen = program.report(out.data());
  CHECK(contains(seen, "Likely: the count of mbarrier.init"));
  CHECK(contains(seen, "pending arrivals 1 of 1, parity waited for 0\n"));
  CHECK(!contains(seen, "its first wait must be for parity 1"));
}

TEST_CASE("a livelock behind a barrier is found") {
  // Warp 0 looks for a flag that warp 1 would set behind the barrier that warp 0 does not reach.
  const Program program = with(
      "setp.ge.u32 %p1, %t, 32;\n@%p1 bra BARRIER;\nLOOK:\nld.volatile.global.u32 %r1, [%out];\n"
      "setp.eq.u32 %p2, %r1, 0;\n@%p2 bra LOOK;\nBARRIER:\nbar.sync 0;\n"
      "st.volatile.global.u32 [%out], 1;",
      64);
  check_fault(program,
              {Error::Kind::hang,
               {"Livelock", "32 of 64 threads have arrived, of warp 1", "Rule: livelock"}},
              ALL);
  check_fault(with("st.volatile.shared.u32 [%smem], 0;\nbar.sync 0;\nsetp.ge.u32 %p1, %t, 32;\n"
                   "@%p1 bra BARRIER;\nLOOK:\nld.volatile.shared.u32 %r1, [%smem];\n"
                   "setp.eq.u32 %p2, %r1, 0;\n@%p2 bra LOOK;\nBARRIER:\nbar.sync 0;\n"
                   "st.volatile.shared.u32 [%smem], 1;",
                   64),
              {Error::Kind::hang, {"Livelock"}}, ALL);
}

// A grid's barrier makes each CTA hear of all others what all others have heard: that it is held once,
// and not made anew for each, is what keeps a grid of hundreds of CTAs within seconds.
TEST_CASE("what several have heard of a cluster is shared, where one of them has heard it all") {
  using machine::GENERIC, machine::Knowledge, machine::Others, machine::Snapshot;
  const auto knows = [](uint32_t agent, uint32_t clock) {
    auto made = std::make_shared<Knowledge>();
    machine::raise(made->views[GENERIC], agent, clock);
    return made;
  };
  const Snapshot before = knows(0, 1), later = knows(0, 2), beside = knows(1, 1);
  Snapshot heard = before;
  Knowledge::add(heard, later);
  CHECK(heard == later);
  Knowledge::add(heard, before);
  CHECK(heard == later);
  Knowledge::add(heard, beside);
  CHECK((heard != later && heard->covers(*later) && heard->covers(*beside)));

  const auto lanes = std::make_shared<Knowledge>(*later);
  machine::entry(lanes->lanes, 3) = 1;
  heard = lanes;
  Knowledge::add(heard, later);
  CHECK(heard == lanes);

  Knowledge one, all;
  one.others = std::make_shared<Others>(Others{{2, before}, {7, beside}});
  all.others = std::make_shared<Others>(Others{{1, beside}, {2, later}, {7, beside}});
  const auto most = all.others;
  all.join(one);
  CHECK(all.others == most);
  one.join(all);
  CHECK(one.others == most);
  Knowledge other;
  other.others = std::make_shared<Others>(Others{{4, before}});
  other.join(all);
  CHECK(other.others->size() == 4);
  CHECK(other.of_cluster(4, false) == before.get());
  CHECK(other.of_cluster(2, false) == later.get());
  CHECK(other.of_cluster(3, false) == nullptr);

  // But for the one that hears; and one at a time, in place.
  Knowledge hearer;
  hearer.join_others(most, 2);
  CHECK(hearer.others->size() == 2);
  CHECK(hearer.of_cluster(2, false) == nullptr);
  const auto held = hearer.others;
  hearer.join_other(3, before);
  CHECK(held->size() == 2);
  const auto* const own = hearer.others.get();
  hearer.join_other(3, later);
  CHECK(hearer.others.get() == own);
  CHECK(hearer.of_cluster(3, false) == later.get());
}
