// The parts that a GEMM kernel's epilogue, clusters and launch are made of: each of them right, with
// the right result and no report, and in the ways in which people get it wrong, reported.
#include <bit>
#include <cstring>

#include "tests/machine/schedules.h"

using namespace machine_test;
using machine::TensorMap;
using machine::TensorMapArgs;

namespace {

constexpr Error::Kind RACE = Error::Kind::race;
constexpr uint32_t BF16 = 9, S32 = 3;               // TensorMapArgs::type
constexpr uint32_t UNSWIZZLED = 0, SWIZZLE_64 = 2;  // TensorMapArgs::swizzle

// A row-major matrix and a box of it.
TensorMap map_2d(const void* base, uint32_t type, uint64_t rows, uint64_t cols, uint64_t row_bytes,
                 uint32_t box_rows, uint32_t box_cols, uint32_t swizzle) {
  const uint64_t dims[] = {cols, rows}, strides_bytes[] = {row_bytes};
  const uint32_t box[] = {box_cols, box_rows}, steps[] = {1, 1};
  TensorMapArgs args;
  args.type = type;
  args.rank = 2;
  args.base = reinterpret_cast<uint64_t>(base);
  args.dims = dims;
  args.strides_bytes = strides_bytes;
  args.box = box;
  args.element_strides = steps;
  args.swizzle = swizzle;
  TensorMap map;
  REQUIRE(machine::encode_tiled(args, &map) == "");
  return map;
}

std::string str(uint32_t value) {
  return std::to_string(value);
}

// Without one line of it, which must be there once.
Program without(Program program, const std::string& line) {
  REQUIRE(program.body.find(line) != std::string::npos);
  REQUIRE(program.body.find(line) == program.body.rfind(line));
  program.body = replaced(program.body, line, "");
  return program;
}

}  // namespace

// ---- stmatrix and TMA stores --------------------------------------------------------------------

// Each of four warps writes 16 rows of a tile [64][32] of 16-bit numbers by stmatrix, row * 32 + col,
// in the 64-byte swizzle; then a TMA store takes the tile to a matrix of 60 rows and 40 columns' pitch,
// and another value into the tile. Every barrier is the warpgroup's own, 1 of 128 threads.
static Program stored_tile(bool transposed) {
  std::string body =
      "and.b32 %r1, %r42, 7;\nshr.u32 %r2, %r42, 3;\nand.b32 %r3, %r2, 1;\nshr.u32 %r4, %r2, 1;\n"
      "shl.b32 %r5, %r41, 4;\nmad.lo.u32 %r5, %r3, 8, %r5;\nadd.u32 %r5, %r5, %r1;\n"
      "shr.u32 %r6, %r5, 1;\nand.b32 %r6, %r6, 3;\nshl.b32 %r7, %r5, 6;\n"
      "add.u32 %r7, %r7, %smem;\n"  // the address of the lane's row
      "and.b32 %r8, %r42, 3;\nshl.b32 %r8, %r8, 1;\nshr.u32 %r9, %r42, 2;\nshl.b32 %r10, %r41, "
      "4;\n";
  body += transposed ? "add.u32 %r11, %r10, %r8;\nmad.lo.u32 %r11, %r11, 32, %r9;\n"
                     : "add.u32 %r11, %r10, %r9;\nmad.lo.u32 %r11, %r11, 32, %r8;\n";
  const uint32_t neighbour = transposed ? 32 : 1;
  for (uint32_t half = 0; half < 2; ++half) {  // of the 32 columns
    for (uint32_t i = 0; i < 4; ++i) {
      body += "add.u32 %r12, %r11, " + str(i % 2 * 256 + (half * 2 + i / 2) * 8) +
              ";\nmad.lo.u32 %r" + str(20 + i) + ", %r12, 65537, " + str(neighbour << 16) + ";\n";
    }
    body += "add.u32 %r13, %r4, " + str(half * 2) +
            ";\nxor.b32 %r13, %r13, %r6;\nmad.lo.u32 %r13, %r13, 16, %r7;\n"
            "stmatrix.sync.aligned.m8n8.x4" +
            (transposed ? ".trans" : "") + ".shared.b16 [%r13], {%r20, %r21, %r22, %r23};\n";
  }
  body +=
      "fence.proxy.async.shared::cta;\nbar.sync 1, 128;\nsetp.ne.u32 %p1, %t, 0;\n"
      "@%p1 bra STORED;\n"
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {0, 0}], [%smem];\n"
      "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\nSTORED:\nbar.sync 2, 128;\n"
      "mad.lo.u32 %r14, %t, 16, %smem;\nst.shared.u32 [%r14], 7;\n"
      "@!%p1 cp.async.bulk.wait_group 0;";
  Program program = with(body, 128);
  program.map_of = [](void* out) { return map_2d(out, BF16, 60, 32, 80, 64, 32, SWIZZLE_64); };
  return program;
}

TEST_CASE("parts: stmatrix, a proxy fence, a warpgroup's barrier, a TMA store of what is inside") {
  Words expected(60 * 20);
  for (uint32_t row = 0; row < 60; ++row) {
    for (uint32_t i = 0; i < 16; ++i) expected[row * 20 + i] = (row * 32 + 2 * i) * 65537 + 65536;
  }
  for (const bool transposed : {false, true}) {
    CAPTURE(transposed);
    const Program right = stored_tile(transposed);
    check_legal(right, expected);
    const auto lacks = [&](const std::string& line, const std::vector<std::string>& parts) {
      CAPTURE(line);
      check_fault(without(right, line), {RACE, parts}, ALL, expected.size());
    };
    lacks("fence.proxy.async.shared::cta;\n",
          {"cp.async.bulk.tensor", "stmatrix", "What would order them: fence.proxy.async"});
    lacks("bar.sync 1, 128;\n", {"stmatrix", "What would order them: bar."});
    lacks("cp.async.bulk.wait_group.read 0;\n",
          {"st.shared", "What would order them: cp.async.bulk.wait_group.read"});
    const Program uncommitted = without(right, "cp.async.bulk.commit_group;\n");
    check_fault(uncommitted, {RACE, {"st.shared", "cp.async.bulk.wait_group.read"}},
                {Policy::eager, Policy::random}, expected.size());
    check_fault(uncommitted, {RACE, {"order them: cp.async.bulk.commit_group behind"}},
                {Policy::eager, Policy::lazy}, expected.size());
    check_fault(uncommitted, {RACE, {"Rule: bulk-exit"}}, {Policy::lazy}, expected.size());
    lacks("bar.sync 2, 128;\n", {"st.shared", "cp.async.bulk.tensor"});
  }
}

TEST_CASE("parts: CTAs that store the same tile by TMA do not race, nor with a change of it") {
  Words expected(60 * 20);
  for (uint32_t row = 0; row < 60; ++row) {
    for (uint32_t i = 0; i < 16; ++i) expected[row * 20 + i] = (row * 32 + 2 * i) * 65537 + 65536;
  }
  Program same = stored_tile(false);
  same.grid = {4, 1, 1};
  check_legal(same, expected);
  Program others = same;
  others.body = replaced(same.body, "fence.proxy.async",
                         "bar.sync 0;\nadd.u32 %r14, %smem, 512;\nsetp.eq.u32 %p2, %t, 0;\n"
                         "@%p2 st.shared.u32 [%r14], %r40;\nfence.proxy.async");
  check_fault(others, {RACE, {"order them: a place of its own for each CTA's copy"}}, ALL,
              expected.size());
}

TEST_CASE("parts: a TMA store past the end of the memory that D has") {
  Program program = stored_tile(false);
  program.map_of = [](void* out) { return map_2d(out, BF16, 64, 32, 80, 64, 32, SWIZZLE_64); };
  check_fault(program, {Error::Kind::fault, {"cp.async.bulk.tensor", "before the end of"}}, ALL,
              60 * 20);
  // 30 columns end four bytes before a whole 16; the last row has no padding.
  program.map_of = [](void* out) { return map_2d(out, BF16, 60, 30, 80, 64, 32, SWIZZLE_64); };
  check_fault(program, {Error::Kind::fault, {"which writes whole 16 bytes", "before the end of"}},
              ALL, 59 * 20 + 15);
}

// ---- Barriers of a warpgroup --------------------------------------------------------------------

TEST_CASE("parts: each of two warpgroups has a barrier of its own") {
  // Every thread stores a word and reads the one `away` from it.
  const auto exchange = [](const std::string& id, uint32_t away) {
    return with(
        "shr.u32 %r1, %t, 7;\nadd.u32 %r2, %r1, 1;\nshl.b32 %r3, %t, 2;\n"
        "add.u32 %r3, %r3, %smem;\nst.shared.u32 [%r3], %t;\nbar.sync " +
            id + ", 128;\nxor.b32 %r4, %t, " + str(away) +
            ";\nshl.b32 %r4, %r4, 2;\nadd.u32 %r4, %r4, %smem;\n"
            "ld.shared.u32 %r5, [%r4];\nst.global.u32 [%rd20], %r5;",
        256);
  };
  check_legal(exchange("%r2", 32), numbers(256, [](uint32_t i) { return i ^ 32; }));
  check_legal(exchange("%r2", 96), numbers(256, [](uint32_t i) { return i ^ 96; }));
  check_fault(exchange("%r2", 128), {RACE, {"ld.shared", "st.shared", "bar.sync"}}, ALL, 256);
  // Both name the same one: it lets through whichever four warps are there first.
  int reported = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Program shared_barrier = exchange("1", 96);
    shared_barrier.policy = Policy::random;
    shared_barrier.seed = seed;
    Buffer<uint32_t> out(256);
    reported += contains(shared_barrier.report(out.data()), "What would order them: bar.sync");
  }
  CHECK(reported > 0);
}

TEST_CASE("parts: two warpgroups take turns, by bar.sync and bar.arrive") {
  // Group 0 goes first, since group 1 arrives for it; each adds its number to 128 words, three times.
  const Program right = with(
      "shr.u32 %r1, %t, 7;\nadd.u32 %r2, %r1, 1;\nsub.u32 %r3, 2, %r1;\nand.b32 %r4, %t, 127;\n"
      "shl.b32 %r5, %r4, 2;\nadd.u32 %r5, %r5, %smem;\nsetp.eq.u32 %p1, %r1, 1;\nmov.u32 %r6, 0;\n"
      "@%p1 bar.arrive 1, 256;\nLOOP:\nbar.sync %r2, 256;\nor.b32 %r7, %r6, %r1;\n"
      "setp.eq.u32 %p2, %r7, 0;\n@%p2 st.shared.u32 [%r5], %r4;\nld.shared.u32 %r8, [%r5];\n"
      "mad.lo.u32 %r8, %r8, 3, %r2;\nst.shared.u32 [%r5], %r8;\n"
      "setp.eq.u32 %p3, %r6, 2;\nand.pred %p3, %p3, %p1;\n@%p3 bra DONE;\n"
      "bar.arrive %r3, 256;\nadd.u32 %r6, %r6, 1;\nsetp.lt.u32 %p2, %r6, 3;\n@%p2 bra LOOP;\n"
      "bra END;\nDONE:\nmul.wide.u32 %rd1, %r4, 4;\nadd.u64 %rd1, %out, %rd1;\n"
      "st.global.u32 [%rd1], %r8;\nEND:",
      256);
  check_legal(right, numbers(128, [](uint32_t i) {
                for (int turn = 0; turn < 6; ++turn) i = 3 * i + 1 + turn % 2;
                return i;
              }));
  check_fault(without(right, "bar.arrive %r3, 256;\n"),
              {Error::Kind::hang, {"barrier 1: 128 of 256 threads have arrived"}}, ALL, 128);
  Program unordered = right;  // group 0 does not wait for its turn
  unordered.body = replaced(right.body, "bar.sync %r2, 256;\n",
                            "@%p1 bar.sync 2, 256;\n@!%p1 bar.sync 3, 128;\n");
  unordered.body = replaced(unordered.body, "@%p1 bar.arrive 1, 256;\n", "");
  unordered.body = replaced(unordered.body, "bar.arrive %r3, 256;\n", "@!%p1 bar.arrive 2, 256;\n");
  check_fault(unordered, {RACE, {"shared"}}, ALL, 128);
}

// ---- Partial sums of a cluster ------------------------------------------------------------------

TEST_CASE("parts: partial sums are read from a peer through mapa, and added in a fixed order") {
  // Both CTAs hold 64 sums; CTA r adds up 32 of them, from r * 32 on, four a thread of eight.
  const Program right = with(
      "mov.u32 %r1, %cluster_ctarank;\nxor.b32 %r2, %r1, 1;\nadd.u32 %r3, %r1, 1;\n"
      "mad.lo.u32 %r4, %t, 8, %smem;\nmul.lo.u32 %r5, %t, %r3;\ncvt.rn.f32.u32 %r6, %r5;\n"
      "st.shared.v2.f32 [%r4], {%r6, %r6};\n"
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
      "setp.ge.u32 %p1, %t, 8;\n@%p1 bra READ;\nshl.b32 %r7, %t, 4;\nmad.lo.u32 %r7, %r1, 128, "
      "%r7;\n"
      "add.u32 %r7, %r7, %smem;\nmapa.shared::cluster.u32 %r8, %r7, 0;\n"
      "mapa.shared::cluster.u32 %r9, %r7, 1;\n"
      "ld.shared::cluster.v4.f32 {%r10, %r11, %r12, %r13}, [%r8];\n"
      "ld.shared::cluster.v4.f32 {%r14, %r15, %r16, %r17}, [%r9];\n"
      "add.f32 %r10, %r10, %r14;\nadd.f32 %r11, %r11, %r15;\nadd.f32 %r12, %r12, %r16;\n"
      "add.f32 %r13, %r13, %r17;\nshl.b32 %r18, %t, 4;\nmad.lo.u32 %r18, %r1, 128, %r18;\n"
      "cvt.u64.u32 %rd1, %r18;\nadd.u64 %rd1, %out, %rd1;\n"
      "st.global.v4.f32 [%rd1], {%r10, %r11, %r12, %r13};\nREAD:\n"
      "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
      32, 2, 2);
  check_legal(right, numbers(64, [](uint32_t i) {
                return std::bit_cast<uint32_t>(static_cast<float>(i / 2 * 3));
              }));
  const auto lacks = [&](const std::string& line, const std::vector<std::string>& parts) {
    check_fault(without(right, line), {RACE, parts}, ALL);
  };
  // Before the peer's sums are there, and before the peer has read ours.
  lacks("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n",
        {"ld.shared::cluster.v4.f32", "st.shared.v2.f32"});
  lacks("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
        {"ld.shared::cluster.v4.f32", "exit"});
  Program relaxed = right;
  relaxed.body = replaced(right.body, "arrive.release", "arrive.relaxed");
  check_fault(relaxed, {RACE, {"ld.shared::cluster.v4.f32", "fence.release"}}, ALL);
}

// ---- 64-byte swizzle and wgmma ------------------------------------------------------------------

// X [rows][32] bf16 comes by TMA in the 64-byte swizzle; D [64][n] = X[0:64] * X[0:n]^T in two steps
// of 16. Thread t stores its n / 2 accumulators one behind the other.
static Program multiplied(const Buffer<uint16_t>& x, uint32_t n, uint32_t rows) {
  std::string registers, stores;
  for (uint32_t i = 0; i < n / 2; ++i) {
    registers += (i == 0 ? "%f" : ", %f") + str(i);
    stores += "st.global.f32 [%rd5+" + str(4 * i) + "], %f" + str(i) + ";\n";
  }
  const auto wgmma = [&](const char* descriptor, int accumulates) {
    return "wgmma.mma_async.sync.aligned.m64n" + str(n) + "k16.f32.bf16.bf16 {" + registers +
           "}, " + descriptor + ", " + descriptor + ", " + std::to_string(accumulates) +
           ", 1, 1, 0, 0;\n";
  };
  Program program = with(
      ".reg .f32 %f<128>;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\n"
      "mbarrier.init.shared::cta.b64 [%smem], 1;\nfence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], " +
          str(rows * 64) +
          ";\nadd.u32 %r1, %smem, 1024;\n"
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], "
          "[%map, {0, 0}], [%smem];\nMADE:\nbar.sync 0;\nWAIT:\n"
          "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n@!%p2 bra WAIT;\n"
          "add.u32 %r2, %smem, 1024;\nshr.u32 %r2, %r2, 4;\ncvt.u64.u32 %rd1, %r2;\n"
          // 8 rows of 64 bytes to the next; mode 2
          "or.b64 %rd1, %rd1, 0x8000002000000000;\nadd.u64 %rd2, %rd1, 2;\n"
          "wgmma.fence.sync.aligned;\n" +
          wgmma("%rd1", 0) + wgmma("%rd2", 1) +
          "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
          "mul.wide.u32 %rd5, %t, " +
          str(2 * n) + ";\nadd.u64 %rd5, %rd5, %out;\n" + stores,
      128);
  program.map = map_2d(&const_cast<Buffer<uint16_t>&>(x)[0], BF16, x.size() / 32, 32, 64, rows, 32,
                       SWIZZLE_64);
  return program;
}

TEST_CASE("parts: wgmma of n from 16 to 192 on 64-byte swizzle") {
  Buffer<uint16_t> x(256 * 32);
  const auto value = [](uint32_t row, uint32_t k) {
    return static_cast<float>(static_cast<int>((row * 7 + k * 5 + row * k) % 9) - 4);
  };
  for (uint32_t i = 0; i < 256 * 32; ++i) {
    x[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value(i / 32, i % 32)) >> 16);
  }
  for (const uint32_t n : {16u, 32u, 96u, 144u, 160u, 176u, 192u}) {
    CAPTURE(n);
    const uint32_t rows = std::max(64u, n);
    Words expected(64 * n);
    for (uint32_t t = 0; t < 128; ++t) {
      for (uint32_t i = 0; i < n / 2; ++i) {
        const uint32_t row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8;
        const uint32_t col = i / 4 * 8 + t % 4 * 2 + i % 2;
        float sum = 0;
        for (uint32_t k = 0; k < 32; ++k) sum += value(row, k) * value(col, k);
        expected[t * n / 2 + i] = std::bit_cast<uint32_t>(sum);
      }
    }
    check_legal(multiplied(x, n, rows), expected);
    check_fault(multiplied(x, n, rows - 8), {RACE, {"wgmma", "which nothing has written"}}, ALL,
                expected.size());
    // Memory that nobody wrote, of which TMA has brought a piece.
    Buffer<uint16_t> unwritten(256 * 32);
    for (uint32_t i = 0; i < x.size(); ++i) unwritten[i] = x[i];
    std::memcpy(unwritten.data() + (n - 1) * 32, &machine::POISON, 8);
    check_fault(multiplied(unwritten, n, rows),
                {RACE, {"wgmma.mma_async", "to which a copy has brought", "Rule: never-written"}},
                ALL, expected.size());
    Program adding = multiplied(x, n, rows);
    adding.body = replaced(adding.body, "%rd1, %rd1, 0,", "%rd1, %rd1, 1,");
    check_fault(adding,
                {RACE, {"adds to accumulators that nothing has written", "Rule: never-written"}},
                ALL, expected.size());
    Program early = multiplied(x, n, rows);
    early.body = replaced(early.body, "@!%p2 bra WAIT;\n", "");
    early.body = replaced(early.body, "try_wait.parity.shared::cta.b64 %p2, [%smem], 0",
                          "test_wait.parity.shared::cta.b64 %p2, [%smem], 1");
    check_fault(early, {RACE, {"wgmma", "cp.async.bulk.tensor", "mbarrier.try_wait"}},
                {Policy::eager, Policy::random}, expected.size());
    check_fault(early, {RACE, {"wgmma", "which nothing has written"}}, {Policy::lazy},
                expected.size());
  }
}

TEST_CASE("parts: bytes of one of two copies are expected, and no descriptor leaves its slot") {
  Buffer<uint16_t> x(64 * 32);
  Program program = multiplied(x, 64, 32);  // rows from 32 on, asked for first, come behind
  const std::string copy =
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], "
      "[%map, {0, 0}], [%smem];\n";
  const std::string other = replaced(replaced(copy, "%r1", "%r3"), "{0, 0}", "{0, 32}");
  program.body = replaced(program.body, copy, "add.u32 %r3, %r1, 2048;\n" + other + copy) +
                 "@!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 2048;\nLATE:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 %p3, [%smem], 1;\n@!%p3 bra LATE;";
  check_fault(program, {RACE, {"wgmma", "order them: expect_tx with the bytes of all copies"}},
              {Policy::lazy}, 64 * 64);
}

// ---- Multicast in clusters of 2 x 2 -------------------------------------------------------------

// Two rounds of a slot: CTA (x, y) loads a slice for the CTAs of its row and one for those of its
// column; so each slot has two slices of either. A warp reads them and tells every CTA that writes
// here, those of `peers`, which is itself and two more.
static Program grid_of_multicasts(uint32_t* data, uint32_t peers) {
  const std::string load =
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster ";
  Program program = with(
      ".reg .b16 %h<4>;\nmov.u32 %r1, %cluster_ctarank;\nand.b32 %r2, %r1, 1;\nshr.u32 %r3, %r1, "
      "1;\n"
      "setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\nmbarrier.init.shared::cta.b64 [%smem], 1;\n"
      "mbarrier.init.shared::cta.b64 [%smem+8], " +
          str(peers) +
          ";\nfence.mbarrier_init.release.cluster;\nMADE:\nbarrier.cluster.arrive;\n"
          "barrier.cluster.wait;\nmov.u32 %r4, 0;\nsetp.ge.u32 %p2, %t, 32;\n@%p2 bra CONSUME;\n"
          "@%p1 bra END;\nshl.b32 %r5, %r3, 1;\nmov.u32 %r6, 3;\nshl.b32 %r6, %r6, %r5;\n"
          "cvt.u16.u32 %h1, %r6;\nmov.u32 %r6, 5;\nshl.b32 %r6, %r6, %r2;\ncvt.u16.u32 %h2, %r6;\n"
          "shl.b32 %r7, %r2, 9;\nadd.u32 %r7, %r7, %smem;\nshl.b32 %r8, %r3, 9;\n"
          "add.u32 %r8, %r8, %smem;\nPRODUCE:\nxor.b32 %r9, %r4, 1;\nEMPTY:\n"
          "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%smem+8], %r9;\n"
          "@!%p3 bra EMPTY;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 2048;\n"
          // slice 8 * round + 2 * y + x, and 8 * round + 4 + 2 * x + y, of four rows
          "shl.b32 %r10, %r4, 3;\nadd.u32 %r11, %r10, %r5;\nadd.u32 %r11, %r11, %r2;\n"
          "shl.b32 %r11, %r11, 2;\nmad.lo.u32 %r12, %r2, 2, %r3;\nadd.u32 %r12, %r12, %r10;\n"
          "add.u32 %r12, %r12, 4;\nshl.b32 %r12, %r12, 2;\n" +
          load + "[%r7+1024], [%map, {0, %r11}], [%smem], %h1;\n" + load +
          "[%r8+2048], [%map, {0, %r12}], [%smem], %h2;\n"
          "add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p4, %r4, 2;\n@%p4 bra PRODUCE;\nbra END;\n"
          "CONSUME:\nFULL:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%smem], %r4;\n"
          "@!%p3 bra FULL;\nshl.b32 %r13, %r42, 2;\nadd.u32 %r13, %r13, %smem;\n"
          "ld.shared.u32 %r14, [%r13+1024];\nld.shared.u32 %r15, [%r13+1536];\n"
          "ld.shared.u32 %r16, [%r13+2048];\nld.shared.u32 %r17, [%r13+2560];\n"
          "mad.lo.u32 %r18, %r1, 2, %r4;\nmul.wide.u32 %rd1, %r18, 512;\n"
          "mul.wide.u32 %rd2, %r42, 4;\nadd.u64 %rd1, %rd1, %rd2;\nadd.u64 %rd1, %rd1, %out;\n"
          "st.global.u32 [%rd1], %r14;\nst.global.u32 [%rd1+128], %r15;\n"
          "st.global.u32 [%rd1+256], %r16;\nst.global.u32 [%rd1+384], %r17;\n"
          "fence.proxy.async.shared::cta;\nbar.warp.sync -1;\nsetp.ge.u32 %p5, %r42, " +
          str(peers) +
          ";\nxor.b32 %r19, %r1, %r42;\n@!%p5 mapa.shared::cluster.u32 %r20, %smem, %r19;\n"
          "@!%p5 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r20+8];\n"
          "add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p4, %r4, 2;\n@%p4 bra CONSUME;\nEND:\n"
          "barrier.cluster.arrive;\nbarrier.cluster.wait;",
      64);
  program.grid = program.cluster = {2, 2, 1};
  program.map = map_2d(data, S32, 64, 32, 128, 4, 32, UNSWIZZLED);
  return program;
}

TEST_CASE("parts: multicast along the rows and columns of a cluster of four") {
  Buffer<uint32_t> data(64 * 32);
  for (uint32_t i = 0; i < data.size(); ++i) data[i] = i;
  Words expected(4 * 2 * 4 * 32);
  for (uint32_t i = 0; i < expected.size(); ++i) {
    const uint32_t rank = i / 256, round = i / 128 % 2, x = rank % 2, y = rank / 2;
    const uint32_t slices[] = {2 * y, 2 * y + 1, 4 + 2 * x, 5 + 2 * x};
    expected[i] = (8 * round + slices[i / 32 % 4]) * 4 * 32 + i % 32;
  }
  const Program right = grid_of_multicasts(data.data(), 3);
  check_legal(right, expected);
  // The CTA of the same column is not told: it may overwrite what is still read.
  check_fault(grid_of_multicasts(data.data(), 2), {RACE, {"cp.async.bulk.tensor", "ld.shared"}},
              ALL, expected.size());
  check_fault(without(right, "fence.proxy.async.shared::cta;\n"),
              {RACE, {"cp.async.bulk.tensor", "ld.shared", "fence.proxy.async"}}, ALL,
              expected.size());
  // What is for the column goes to the row.
  Program one_mask = right;
  one_mask.body = replaced(right.body, "[%smem], %h2;", "[%smem], %h1;");
  check_fault(one_mask, {RACE, {"cp.async.bulk.tensor"}}, {Policy::eager}, expected.size());
}

// ---- Programmatic dependent launch --------------------------------------------------------------

static Program dependent(const std::string& body, uint32_t threads) {
  Program program = with(body, threads);
  program.programmatic = true;
  return program;
}

TEST_CASE("parts: every thread of a dependent launch waits for the grids before") {
  Buffer<uint32_t> in(64);
  for (uint32_t i = 0; i < 64; ++i) in[i] = i + 5;
  // What touches no global memory, and the map, may come before.
  Program right = dependent(
      "prefetch.tensormap [%map];\nst.shared.u32 [%smem], 1;\n"
      "cp.async.bulk.prefetch.L2.global [%in], 128;\ngriddepcontrol.wait;\n"
      "mul.wide.u32 %rd1, %t, 4;\nadd.u64 %rd1, %in, %rd1;\nld.global.u32 %r1, [%rd1];\n"
      "griddepcontrol.launch_dependents;\nst.global.u32 [%rd20], %r1;",
      32);
  right.map = map_2d(in.data(), S32, 2, 32, 128, 2, 32, UNSWIZZLED);
  const Words expected = numbers(32, [](uint32_t i) { return i + 5; });
  check_legal(right, expected, in.data());
  const Program wrong = without(right, "griddepcontrol.wait;\n");
  check_fault(
      wrong, {RACE, {"ld.global", "the grid before", "What would order them: griddepcontrol.wait"}},
      ALL, 64, in.data());
  Program ordinary = wrong;
  ordinary.programmatic = false;
  check_legal(ordinary, expected, in.data());
}

TEST_CASE("parts: only the producer of a dependent launch waits; TMA tells the consumers") {
  Buffer<uint32_t> in(128);
  for (uint32_t i = 0; i < 128; ++i) in[i] = i * 3;
  // Thread 0 expects the bytes before it waits. Warps 0 to 3 store what came.
  const Program right = dependent(
      "setp.ne.u32 %p1, %t, 0;\n@%p1 bra MADE;\nmbarrier.init.shared::cta.b64 [%smem], 1;\n"
      "fence.mbarrier_init.release.cluster;\nMADE:\nbar.sync 0;\n@%p1 bra WAIT;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 512;\ngriddepcontrol.wait;\n"
      "add.u32 %r1, %smem, 1024;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%in], 512, "
      "[%smem];\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%smem], 0;\n"
      "@!%p2 bra WAIT;\nshl.b32 %r2, %t, 2;\nadd.u32 %r2, %r2, %smem;\n"
      "ld.shared.u32 %r3, [%r2+1024];\nst.global.u32 [%rd20], %r3;",
      128);
  check_legal(right, numbers(128, [](uint32_t i) { return i * 3; }), in.data());
  check_fault(without(right, "griddepcontrol.wait;\n"),
              {RACE, {"cp.async.bulk", "griddepcontrol.wait"}}, ALL, 128, in.data());
  // A warp stores before anything has told it.
  Program early = right;
  early.body = replaced(right.body, "WAIT:\n",
                        "WAIT:\nsetp.eq.u32 %p3, %r41, 2;\n@%p3 st.global.u32 [%rd20], 0;\n");
  check_fault(early, {RACE, {"st.global", "warp 2", "griddepcontrol.wait"}}, ALL, 128, in.data());
}

TEST_CASE("parts: a TMA store of a dependent launch") {
  Program right = stored_tile(false);
  right.programmatic = true;
  right.body =
      replaced(right.body, "bar.sync 1, 128;\n", "griddepcontrol.wait;\nbar.sync 1, 128;\n");
  Words expected(60 * 20);
  for (uint32_t row = 0; row < 60; ++row) {
    for (uint32_t i = 0; i < 16; ++i) expected[row * 20 + i] = (row * 32 + 2 * i) * 65537 + 65536;
  }
  check_legal(right, expected);
  check_fault(without(right, "griddepcontrol.wait;\n"),
              {RACE, {"cp.async.bulk.tensor", "writes global", "griddepcontrol.wait"}}, ALL,
              expected.size());
}
