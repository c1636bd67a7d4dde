// cp.async, bulk and tensor copies, through small kernels.
#include <doctest/doctest.h>

#include <bit>
#include <cstring>

#include "tests/machine/ptx_run.h"

using namespace machine_test;
using machine::Policy;
using machine::TensorMap;
using machine::TensorMapArgs;
using Words = std::vector<uint32_t>;

namespace {

constexpr Policy POLICIES[] = {Policy::eager, Policy::lazy, Policy::random};

// Stores the first `words` of shared memory at %smem + from, by one warp.
std::string dump(uint32_t words, uint32_t from = 0) {
  return "mov.u32 %r50, %t;\nDUMP:\nmul.lo.u32 %r51, %r50, 4;\nadd.u32 %r52, %smem, %r51;\n"
         "ld.shared.u32 %r53, [%r52+" +
         std::to_string(from) +
         "];\n"
         "mul.wide.u32 %rd25, %r50, 4;\nadd.u64 %rd25, %out, %rd25;\n"
         "st.global.u32 [%rd25], %r53;\nadd.u32 %r50, %r50, 32;\n"
         "setp.lt.u32 %p9, %r50, " +
         std::to_string(words) + ";\n@%p9 bra DUMP;\n";
}

const std::string ONE_THREAD = "setp.ne.u32 %p5, %t, 0;\n@%p5 bra ISSUED;\n";
const std::string WAIT =
    "ISSUED:\nbar.warp.sync -1;\nWAIT:\n"
    "mbarrier.try_wait.parity.shared::cta.b64 %p6, [%smem], 0;\n@!%p6 bra WAIT;\n";

// The mbarrier at %smem expects one arrival and `bytes`; then `copy` by one thread.
std::string load(uint32_t bytes, const std::string& copy) {
  return ONE_THREAD + "mbarrier.init.shared::cta.b64 [%smem], 1;\nfence.proxy.async;\n" +
         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], " + std::to_string(bytes) +
         ";\nadd.u32 %r1, %smem, 1024;\n" + copy + WAIT;
}

// A tensor of 32-bit words; dims, box and element strides of as many dimensions as dims has.
struct Tensor {
  std::vector<uint64_t> dims;
  std::vector<uint32_t> box, steps;
  uint32_t swizzle = 0, fill = 0, type = 7;  // f32
  std::vector<uint64_t> strides_bytes{};

  TensorMap encode(void* base) {
    if (steps.empty()) steps.assign(dims.size(), 1);
    if (strides_bytes.empty()) {
      uint64_t step = 4;
      for (const uint64_t dim : dims) strides_bytes.push_back(step = (step * dim + 15) / 16 * 16);
    }
    TensorMap map;
    TensorMapArgs args;
    args.type = type;
    args.rank = static_cast<uint32_t>(dims.size());
    args.base = reinterpret_cast<uint64_t>(base);
    args.dims = dims.data();
    args.strides_bytes = strides_bytes.data();
    args.box = box.data();
    args.element_strides = steps.data();
    args.swizzle = swizzle;
    args.oob_fill = fill;
    REQUIRE(machine::encode_tiled(args, &map) == "");
    return map;
  }
  size_t words() const { return strides_bytes.back() / 4; }

  // What a load at these coordinates leaves at shared address `shared`, from the data in memory.
  Words loaded(const uint32_t* data, const std::vector<int>& at, uint32_t shared) const {
    std::vector<uint32_t> extent = box;
    size_t count = 1;
    for (size_t d = 0; d < box.size(); ++d) {
      if (d > 0) extent[d] = (box[d] + steps[d] - 1) / steps[d];
      count *= extent[d];
    }
    Words result(count);
    const uint32_t outside = fill ? 0x7ff77ff7 : 0;
    for (size_t i = 0; i < count; ++i) {
      size_t rest = i, source = 0;
      bool inside = true;
      for (size_t d = 0; d < box.size(); ++d) {
        const int64_t x = at[d] + static_cast<int64_t>(rest % extent[d] * (d > 0 ? steps[d] : 1));
        rest /= extent[d];
        inside = inside && x >= 0 && x < static_cast<int64_t>(dims[d]);
        source += static_cast<uint64_t>(x) * (d > 0 ? strides_bytes[d - 1] / 4 : 1);
      }
      const uint32_t address = shared + static_cast<uint32_t>(i) * 4;
      const uint32_t span = (16u << swizzle) - 16;
      result[((address ^ (address >> 3 & span)) - shared) / 4] = inside ? data[source] : outside;
    }
    return result;
  }
};

std::string coordinates(const std::vector<int>& at) {
  std::string text;
  for (const int x : at) text += (text.empty() ? "{" : ", ") + std::to_string(x);
  return text + "}";
}

void check_load(Tensor tensor, const std::vector<int>& at, uint32_t offset = 1024) {
  const TensorMap probe = tensor.encode(reinterpret_cast<void*>(4096));
  Buffer<uint32_t> data(tensor.words());
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint32_t>(i * 7 + 1);
  const Words expected = tensor.loaded(data.data(), at, 0x400 + offset);
  const auto words = static_cast<uint32_t>(expected.size());
  Program program;
  program.map = tensor.encode(data.data());
  program.body =
      load(words * 4, "add.u32 %r2, %smem, " + std::to_string(offset) + ";\n" +
                          "cp.async.bulk.tensor." + std::to_string(probe.rank) +
                          "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], "
                          "[%map, " +
                          coordinates(at) + "], [%smem];\n") +
      dump(words, offset);
  for (const Policy policy : POLICIES) {
    program.policy = policy;
    CHECK(results(program, words) == expected);
  }
}

std::string report_of(const std::string& body, TensorMap map = {}) {
  Program program;
  program.block = {1, 1, 1};
  program.body = "mbarrier.init.shared::cta.b64 [%smem], 1;\n" + body;
  program.map = map;
  Buffer<uint32_t> out(64), in(64);
  return program.report(out.data(), in.data());
}

}  // namespace

TEST_CASE("cp.async: sizes, source sizes, groups") {
  Buffer<uint32_t> in(512);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint32_t>(1000 + i);
  Program program;
  program.check = false;  // it reads what nobody wrote
  program.body =
      "mul.wide.u32 %rd1, %t, 16;\nadd.u64 %rd1, %in, %rd1;\nmul.lo.u32 %r1, %t, 16;\n"
      "add.u32 %r1, %r1, %smem;\nand.b32 %r2, %t, 15;\nsetp.lt.u32 %p1, %t, 16;\n"
      "cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;\ncp.async.commit_group;\n"
      "cp.async.ca.shared.global [%r1+512], [%rd1+512], 16, %r2;\n"
      "cp.async.ca.shared::cta.global [%r1+1024], [%rd1+1024], 4;\n"
      "cp.async.ca.shared.global [%r1+1032], [%rd1+1024], 8, %p1;\ncp.async.commit_group;\n"
      "cp.async.wait_group 1;\nbar.warp.sync -1;\n" +
      dump(128) +
      "cp.async.wait_all;\nbar.warp.sync -1;\nadd.u64 %out, %out, 512;\nadd.u32 %smem, %smem, "
      "512;\n" +
      "mov.u32 %r50, %t;\nMORE:\nmul.lo.u32 %r51, %r50, 4;\nadd.u32 %r52, %smem, %r51;\n"
      "ld.shared.u32 %r53, [%r52];\nmul.wide.u32 %rd25, %r50, 4;\nadd.u64 %rd25, %out, %rd25;\n"
      "st.global.u32 [%rd25], %r53;\nadd.u32 %r50, %r50, 32;\nsetp.lt.u32 %p9, %r50, 256;\n"
      "@%p9 bra MORE;";
  for (const Policy policy : POLICIES) {
    program.policy = policy;
    const Words out = results(program, 384, in.data());
    for (uint32_t i = 0; i < 128; ++i) {
      CHECK(out[i] == 1000 + i);
      uint32_t whole = 1128 + i;
      const uint32_t lane = i / 4, kept = lane & 15, at = i % 4 * 4;
      uint32_t part = 0;
      if (kept > at) std::memcpy(&part, &whole, std::min(4u, kept - at));
      CHECK(out[128 + i] == part);
    }
    for (uint32_t lane = 0; lane < 32; ++lane) {
      CHECK(out[256 + 4 * lane] == 1256 + 4 * lane);
      CHECK(out[256 + 4 * lane + 1] == 0xffffffff);  // poison: nobody wrote it
      CHECK(out[256 + 4 * lane + 2] == (lane < 16 ? 0 : 1256 + 4 * lane));
      CHECK(out[256 + 4 * lane + 3] == (lane < 16 ? 0 : 1257 + 4 * lane));
    }
  }
}

TEST_CASE("cp.async: of lanes that are out of bounds the first is named, with its bytes") {
  Program program;
  program.body =
      "mul.wide.u32 %rd1, %t, 16;\nadd.u64 %rd1, %in, %rd1;\nshl.b32 %r1, %t, 4;\n"
      "add.u32 %r1, %r1, %smem;\ncp.async.cg.shared.global [%r1], [%rd1], 16;";
  Buffer<uint32_t> in(5 * 4);
  const std::string report = program.report(nullptr, in.data());
  CAPTURE(report);
  CHECK(contains(report, "cp.async: the 16 bytes at"));
  CHECK(contains(report, "lane 5"));
}

TEST_CASE("cp.async: what is not waited for has not landed, lazily") {
  Buffer<uint32_t> in(128);
  for (size_t i = 0; i < in.size(); ++i) in[i] = 5;
  Program program;
  program.check = false;
  program.policy = Policy::lazy;
  program.body =
      "mul.wide.u32 %rd1, %t, 16;\nadd.u64 %rd1, %in, %rd1;\nmul.lo.u32 %r1, %t, 16;\n"
      "add.u32 %r1, %r1, %smem;\ncp.async.cg.shared.global [%r1], [%rd1], 16;\n"
      "cp.async.commit_group;\ncp.async.wait_group 1;\n" +
      dump(128);
  CHECK(results(program, 128, in.data())[0] == 0xffffffff);
  program.policy = Policy::eager;
  CHECK(results(program, 128, in.data())[0] == 5);
}

TEST_CASE("cp.async.mbarrier.arrive") {
  Buffer<uint32_t> in(128);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint32_t>(i);
  Program program;
  for (const bool noinc : {false, true}) {
    program.body =
        ONE_THREAD +
        "mbarrier.init.shared::cta.b64 [%smem], 32;\nISSUED:\n"
        "bar.warp.sync -1;\nmul.wide.u32 %rd1, %t, 16;\nadd.u64 %rd1, %in, %rd1;\n"
        "mul.lo.u32 %r1, %t, 16;\nadd.u32 %r1, %r1, %smem;\n"
        "cp.async.cg.shared.global [%r1+1024], [%rd1], 16;\ncp.async.mbarrier.arrive" +
        std::string(noinc ? ".noinc.shared::cta.b64 [%smem];\n"
                          : ".b64 [%rd9];\nmbarrier.arrive.shared::cta.b64 _, [%smem];\n") +
        "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p6, [%smem], 0;\n@!%p6 bra WAIT;\n" +
        dump(128, 1024);
    program.body = "cvt.u64.u32 %rd9, %smem;\ncvta.shared.u64 %rd9, %rd9;\n" + program.body;
    for (const Policy policy : POLICIES) {
      program.policy = policy;
      const Words out = results(program, 128, in.data());
      for (uint32_t i = 0; i < 128; ++i) CHECK(out[i] == i);
    }
  }
}

TEST_CASE("bulk copies in and out") {
  Buffer<uint32_t> in(64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint32_t>(i + 1);
  Program program;
  program.body =
      load(256,
           "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%in], "
           "256, [%smem];\n") +
      "@%p5 bra DONE;\nadd.u32 %r1, %smem, 1024;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 128;\n"
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out+128], [%r1+128], 128;\n"
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out+128], [%r1+128], 128;\n"
      "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nDONE:";
  for (const Policy policy : POLICIES) {
    program.policy = policy;
    const Words out = results(program, 64, in.data());
    for (uint32_t i = 0; i < 64; ++i) CHECK(out[i] == (i + 1) * (i < 32 ? 1 : 2));
  }
}

TEST_CASE("bulk reductions of halves and floats") {
  Buffer<uint32_t> in(4);
  in[0] = 0x40004200;  // f16 2, 3
  in[1] = 0x3f80bf80;  // bf16 1, -1
  in[2] = std::bit_cast<uint32_t>(1.5f);
  in[3] = 7;
  Buffer<uint32_t> out(16);
  const uint32_t first[] = {0x3c003c00, 0,          0,
                            0,  // f16 1, 1
                            0,          0x40004000, 0,
                            0,  // bf16 2, 2
                            0,          0,          std::bit_cast<uint32_t>(2.25f),
                            0,          0,          0,
                            0,          6};
  for (size_t i = 0; i < 16; ++i) out[i] = first[i];
  Program program;
  program.body =
      load(16,
           "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%in], "
           "16, [%smem];\n") +
      "@%p5 bra DONE;\nadd.u32 %r1, %smem, 1024;\n"
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%out], [%r1], 16;\n"
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.bf16 [%out+16], [%r1], 16;\n"
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%out+32], [%r1], 16;\n"
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.u32 [%out+48], [%r1], 16;\n"
      "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nDONE:";
  program.run(out.data(), in.data());
  CHECK(out[0] == 0x42004400);  // 3, 4
  CHECK(out[5] == 0x3f80bf80);  // 1, -1
  CHECK(std::bit_cast<float>(out[10]) == 3.75f);
  CHECK(out[15] == 7);
}

TEST_CASE("distributed shared memory: bulk copies and st.async to a peer") {
  Program program;
  program.grid = program.cluster = {2, 1, 1};
  program.body =
      ONE_THREAD +
      "mbarrier.init.shared::cta.b64 [%smem], 1;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 136;\n"
      "fence.mbarrier_init.release.cluster;\nISSUED:\n"
      "mov.u32 %r1, %cluster_ctarank;\nmul.lo.u32 %r2, %r1, 100;\nadd.u32 %r2, %r2, %t;\n"
      "mul.lo.u32 %r3, %t, 4;\nadd.u32 %r3, %r3, %smem;\nst.shared.u32 [%r3+1024], %r2;\n"
      "fence.proxy.async.shared::cta;\nbarrier.cluster.arrive.aligned;\n"
      "barrier.cluster.wait.aligned;\n@%p5 bra WAIT;\nxor.b32 %r4, %r1, 1;\n"
      "mapa.shared::cluster.u32 %r5, %smem, %r4;\nadd.u32 %r6, %smem, 1024;\n"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5+2048], [%r6], "
      "128, [%r5];\nst.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r5+2176], "
      "{%r1, 77}, [%r5];\nWAIT:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p6, [%smem], 0;\n"
      "@!%p6 bra WAIT;\nmul.wide.u32 %rd1, %r1, 256;\nadd.u64 %out, %out, %rd1;\n" +
      dump(34, 2048) + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;";
  for (const Policy policy : POLICIES) {
    program.policy = policy;
    const Words out = results(program, 128);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      for (uint32_t i = 0; i < 32; ++i) CHECK(out[64 * rank + i] == (1 - rank) * 100 + i);
      CHECK(out[64 * rank + 32] == 1 - rank);
      CHECK(out[64 * rank + 33] == 77);
    }
  }
}

TEST_CASE("tensor loads: ranks, coordinates outside, fills, strides") {
  check_load({{100}, {32}, {}}, {4});
  check_load({{100}, {32}, {}}, {-4});
  check_load({{40, 12}, {16, 8}, {}}, {4, 2});
  check_load({{40, 12}, {16, 8}, {}}, {28, -3});
  check_load({{37, 12}, {16, 8}, {}}, {32, 9});
  check_load({{40, 12}, {16, 8}, {}}, {100, 2});
  check_load({{40, 12}, {16, 8}, {}, 0, 1}, {32, -3});
  check_load({{20, 7, 5}, {8, 4, 2}, {}}, {-4, 5, 3});
  check_load({{12, 5, 4, 3}, {8, 2, 2, 2}, {}}, {8, -1, 3, 1});
  check_load({{12, 4, 3, 3, 2}, {4, 2, 2, 2, 2}, {}}, {4, 3, -1, 2, 1});
  check_load({{40, 12}, {16, 9}, {2, 3}}, {-8, -2});
  check_load({{20, 7, 5}, {8, 4, 2}, {}, 0, 0, 7, {96, 1024, 5120}}, {16, 5, 3});
}

TEST_CASE("tensor loads: swizzles of absolute addresses") {
  for (const uint32_t swizzle : {1u, 2u, 3u}) {
    const uint32_t row = 4u << swizzle;
    check_load({{2 * row, 40}, {row, 24}, {}, swizzle}, {4, 3});
    check_load({{2 * row, 40}, {row, 24}, {}, swizzle}, {static_cast<int>(row), 30});
    for (const uint32_t offset : {128u, 256u, 512u, 896u}) {
      check_load({{2 * row, 40}, {row, 16}, {}, swizzle}, {-4, 5}, offset);
    }
  }
}

TEST_CASE("tensor loads: multicast") {
  Tensor tensor{{64, 16}, {32, 8}, {}, 3};
  tensor.encode(reinterpret_cast<void*>(4096));
  Buffer<uint32_t> data(tensor.words());
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint32_t>(i);
  Program program;
  program.map = tensor.encode(data.data());
  program.grid = program.cluster = {4, 1, 1};
  program.body =
      ONE_THREAD +
      "mbarrier.init.shared::cta.b64 [%smem], 1;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 1024;\n"
      "fence.mbarrier_init.release.cluster;\nISSUED:\nmov.u32 %r1, %cluster_ctarank;\n"
      "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
      "setp.ne.u32 %p4, %r1, 2;\n@%p4 bra READY;\n@%p5 bra READY;\nadd.u32 %r2, %smem, 1024;\n"
      "mov.u32 %r3, 11;\ncvt.u16.u32 %h1, %r3;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%r2], [%map, {16, 4}], [%smem], %h1;\nREADY:\n"
      "setp.ne.u32 %p4, %r1, 2;\n@!%p4 bra OUT;\nWAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 %p6, [%smem], 0;\n@!%p6 bra WAIT;\n"
      "mul.wide.u32 %rd1, %r1, 1024;\nadd.u64 %out, %out, %rd1;\n" +
      dump(256, 1024) + "OUT:\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;";
  program.body = ".reg .b16 %h<4>;\n" + program.body;
  const Words expected = tensor.loaded(data.data(), {16, 4}, 0x400 + 1024);
  for (const Policy policy : POLICIES) {
    program.policy = policy;
    const Words out = results(program, 1024);
    for (const uint32_t rank : {0u, 1u, 3u}) {
      CHECK(Words(&out[256 * rank], &out[256 * rank] + 256) == expected);
    }
  }
  const size_t at = program.body.find("mov.u32 %r3, 11");
  program.body.replace(at, 15, "mov.u32 %r3, 27");
  CHECK(contains(program.report(data.data()), "multicast mask 0x1b"));
}

// Coordinate 0 ends at 33, within the 16 bytes from 32 to 35.
TEST_CASE("tensor stores and reductions write what is inside, in whole 16 bytes") {
  for (const uint32_t swizzle : {0u, 3u}) {
    for (const bool reduces : {false, true}) {
      Tensor tensor{{33, 12}, {32, 8}, {}, swizzle, 0, 3, {160, 1920}};  // s32
      tensor.encode(reinterpret_cast<void*>(4096));
      Buffer<uint32_t> data(tensor.words());
      Program program;
      program.map = tensor.encode(data.data());
      program.body =
          "mov.u32 %r1, %t;\nFILL:\nmul.lo.u32 %r2, %r1, 4;\nadd.u32 %r2, %r2, %smem;\n"
          "add.u32 %r3, %r1, 1000;\nst.shared.u32 [%r2], %r3;\nadd.u32 %r1, %r1, 32;\n"
          "setp.lt.u32 %p1, %r1, 256;\n@%p1 bra FILL;\nfence.proxy.async;\nbar.warp.sync -1;\n" +
          ONE_THREAD +
          (reduces ? "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
                   : "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group ") +
          "[%map, {16, 6}], [%smem];\ncp.async.bulk.commit_group;\n"
          "cp.async.bulk.wait_group.read 0;\nst.shared.u32 [%smem], 1;\n"
          "cp.async.bulk.wait_group 0;\nISSUED:";
      for (const Policy policy : POLICIES) {
        for (size_t i = 0; i < data.size(); ++i) data[i] = 5;
        program.policy = policy;
        program.run();
        for (uint32_t y = 0; y < 12; ++y) {
          for (uint32_t x = 0; x < 40; ++x) {
            uint32_t expected = 5;
            if (x >= 16 && x < 36 && y >= 6) {
              const uint32_t address = ((y - 6) * 32 + x - 16) * 4;
              const uint32_t placed = swizzle ? address ^ (address >> 3 & 0x70) : address;
              expected = 1000 + placed / 4 + (reduces ? 5 : 0);
            }
            CHECK(data[y * 40 + x] == expected);
          }
        }
      }
    }
  }
}

namespace {

// Puts `map` into global memory. The kernel copies it into shared memory, changes its address, and as
// `fields` says others, of the map at %r4, and publishes it; a box of 32 x 8 words by it must be zeros
// from row 4 on.
void check_changed_map(const TensorMap& map, const std::string& fields) {
  Buffer<uint32_t> other(32 * 8);
  for (size_t i = 0; i < other.size(); ++i) other[i] = static_cast<uint32_t>(i);
  Buffer<uint8_t> global(128);
  std::memcpy(global.data(), &map, sizeof map);
  const auto address = std::to_string(reinterpret_cast<uint64_t>(other.data()));
  const auto place = std::to_string(reinterpret_cast<uint64_t>(global.data()));
  Program program;
  program.body =
      "mul.wide.u32 %rd2, %t, 4;\nmov.b64 %rd3, " + place +
      ";\nadd.u64 %rd4, %rd3, %rd2;\n"
      "ld.global.u32 %r2, [%rd4];\nmul.lo.u32 %r3, %t, 4;\nadd.u32 %r3, %r3, %smem;\n"
      "st.shared.u32 [%r3+512], %r2;\nbar.warp.sync -1;\nadd.u32 %r4, %smem, 512;\n"
      "setp.ne.u32 %p1, %t, 0;\n@%p1 bra READY;\nmov.b64 %rd5, " +
      address +
      ";\n"
      "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r4], %rd5;\n" +
      fields +
      "READY:\nbar.warp.sync -1;\n"
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "[%rd3], [%r4], 128;\n"
      "fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;\n" +
      load(1024,
           "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
           "[%r1], [%rd3, {0, 0}], [%smem];\n") +
      dump(256, 1024);
  const Words out = results(program, 256);
  for (uint32_t i = 0; i < 256; ++i) CHECK(out[i] == (i < 128 ? i : 0));
}

std::string replace(const std::string& field, const std::string& value, const char* width = "32") {
  return "tensormap.replace.tile." + field + ".shared::cta.b1024.b" + width + " [%r4], " + value +
         ";\n";
}

}  // namespace

TEST_CASE("tensor maps: changed by tensormap.replace, published, used") {
  Tensor tensor{{32, 8}, {32, 8}, {}};
  Buffer<uint32_t> data(32 * 8);
  check_changed_map(tensor.encode(data.data()), replace("global_dim", "1, 4"));
}

TEST_CASE("tensor maps: made from zeros by tensormap.replace alone") {
  check_changed_map({}, replace("rank", "1") + replace("global_dim", "0, 32") +
                            replace("global_dim", "1, 4") +
                            replace("global_stride", "0, 128", "64") + replace("box_dim", "0, 32") +
                            replace("box_dim", "1, 8") + replace("element_stride", "0, 1") +
                            replace("element_stride", "1, 1") + replace("elemtype", "7"));
}

namespace {

const std::string PUBLISH =
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
    "[%rd3], [%r9], 128;\n";
const std::string ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;\n";
const std::string WAIT_READ = "cp.async.bulk.wait_group.read 0;\n";

// Warp 0 makes a map at %rd3 by `publish`, from a changed copy of that at %in, which lies at %r9 in
// shared memory; the CTA does `then`; thread `who` stores through the map and does `after`.
std::string store_through_new_map(const std::string& publish, const std::string& then, int who,
                                  const std::string& after) {
  return "add.u32 %r9, %smem, 512;\nadd.u64 %rd3, %in, 128;\nsetp.ge.u32 %p1, %t, 32;\n"
         "@%p1 bra MADE;\nmul.lo.u32 %r3, %t, 4;\nmul.wide.u32 %rd2, %t, 4;\n"
         "add.u64 %rd4, %in, %rd2;\nld.global.u32 %r2, [%rd4];\nadd.u32 %r3, %r3, %r9;\n"
         "st.shared.u32 [%r3], %r2;\nbar.warp.sync -1;\nsetp.ne.u32 %p2, %t, 0;\n"
         "@%p2 bra CHANGED;\n"
         "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r9], 1, 4;\nCHANGED:\n"
         "bar.warp.sync -1;\n" +
         publish + "MADE:\n" + then + "setp.ne.u32 %p3, %t, " + std::to_string(who) +
         ";\n@%p3 bra STORED;\nst.shared.v4.u32 [%smem+1024], {%r9, %r9, %r9, %r9};\n"
         "fence.proxy.async.shared::cta;\nadd.u32 %r10, %smem, 1024;\n"
         "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd3, {0, 0}], [%r10];\n"
         "cp.async.bulk.commit_group;\n" +
         after + "STORED:\n";
}

std::string report_of_map(const std::string& body) {
  Tensor tensor{{32, 8}, {4, 1}, {}};
  tensor.encode(reinterpret_cast<void*>(4096));
  Buffer<uint32_t> out(tensor.words()), maps(64);
  const TensorMap map = tensor.encode(out.data());
  std::memcpy(maps.data(), &map, sizeof map);
  std::memcpy(maps.data() + 32, &map, sizeof map);
  Program program;
  program.block = {64, 1, 1};
  program.body = body;
  std::string report;
  for (const Policy policy : POLICIES) {
    program.policy = policy;
    if (report.empty()) report = program.report(out.data(), maps.data());
  }
  return report;
}

}  // namespace

TEST_CASE("tensor maps: TMA reads a changed one behind a release and an acquire") {
  const std::string bar = "bar.sync 0;\n";
  CHECK(report_of_map(store_through_new_map(PUBLISH + ACQUIRE, "", 0, WAIT_READ)) == "");
  // Another warp acquires, or uses what was acquired.
  CHECK(report_of_map(store_through_new_map(PUBLISH, bar + ACQUIRE, 32, WAIT_READ)) == "");
  CHECK(report_of_map(store_through_new_map(PUBLISH + ACQUIRE, bar, 32, WAIT_READ)) == "");
  // In place, with a release of its own.
  const std::string in_place =
      "@%p2 bra PLACED;\ntensormap.replace.tile.global_dim.global.b1024.b32 [%rd3], 1, 4;\n";
  const std::string release = "fence.proxy.tensormap::generic.release.gpu;\n";
  CHECK(report_of_map(store_through_new_map(in_place + release + ACQUIRE + "PLACED:\n", "", 0,
                                            WAIT_READ)) == "");

  const auto lacks = [](const std::string& report, const std::string& accesses,
                        const std::string& remedy) {
    CAPTURE(report);
    CHECK(contains(report, "cp.async.bulk.tensor.2d reads its tensor map, global"));
    CHECK(contains(report, accesses));
    CHECK(contains(report, "What would order them: " + remedy));
    CHECK(contains(report, "Rule: proxy-raw"));
  };
  lacks(report_of_map(store_through_new_map(PUBLISH, "", 0, WAIT_READ)),
        "which tensormap.cp_fenceproxy", "fence.proxy.tensormap::generic.acquire.gpu on these");
  lacks(report_of_map(store_through_new_map(ACQUIRE + PUBLISH, "", 0, WAIT_READ)),
        "which tensormap.cp_fenceproxy", "fence.proxy.tensormap::generic.acquire.gpu on these");
  lacks(report_of_map(store_through_new_map(in_place + ACQUIRE + "PLACED:\n", "", 0, WAIT_READ)),
        "which tensormap.replace", "tensormap.cp_fenceproxy in place of tensormap.replace");
  // A fence of another kind is none.
  lacks(report_of_map(
            store_through_new_map(PUBLISH + "fence.proxy.async;\nfence.acq_rel.gpu;\n", "", 0, "")),
        "which tensormap.cp_fenceproxy", "fence.proxy.tensormap::generic.acquire.gpu on these");
}

TEST_CASE("tensor maps: one is not changed before the stores through it have read it") {
  const std::string again =
      "setp.ge.u32 %p4, %t, 32;\n@%p4 bra DONE;\nbar.warp.sync -1;\n" + PUBLISH + "DONE:\n";
  const std::string made = PUBLISH + ACQUIRE;
  CHECK(report_of_map(store_through_new_map(made, "", 0, WAIT_READ) + again) == "");
  const std::string report = report_of_map(store_through_new_map(made, "", 0, "") + again);
  CAPTURE(report);
  CHECK(contains(report, "tensormap.cp_fenceproxy"));
  CHECK(contains(report, "which cp.async.bulk.tensor.2d reads, maybe later"));
  CHECK(contains(report, "What would order them: cp.async.bulk.wait_group.read"));
}

TEST_CASE("tensor maps: a copy reads what all lanes have written, behind bar.warp.sync") {
  // The lanes write the map, and nothing but the copy's .sync comes behind.
  const std::string report = report_of_map(
      "add.u32 %r9, %smem, 512;\nadd.u64 %rd3, %in, 128;\nsetp.ge.u32 %p1, %t, 32;\n"
      "@%p1 bra MADE;\nmul.lo.u32 %r3, %t, 4;\nadd.u32 %r3, %r3, %r9;\n"
      "st.shared.u32 [%r3], %t;\n" +
      PUBLISH + "MADE:\n");
  CHECK(contains(report, "tensormap.cp_fenceproxy"));
  CHECK(contains(report, "bar.warp.sync"));
  // One lane changes the map: any other may be the one that copies it.
  const std::string change =
      "setp.eq.u32 %p2, %t, 0;\n"
      "@%p2 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r9], 1, 5;\n";
  CHECK(contains(report_of_map(store_through_new_map(change + PUBLISH + ACQUIRE, "", 0, WAIT_READ)),
                 "bar.warp.sync"));
}

TEST_CASE("tensor maps: an acquire that another CTA lacks is named") {
  const std::string flag =
      "add.u64 %rd5, %in, 256;\nmov.u32 %r20, %ctaid.x;\n"
      "setp.ne.u32 %p5, %r20, 0;\n@%p5 bra WAIT;\n";
  const auto report = [&](const std::string& acquire) {
    Tensor tensor{{32, 8}, {4, 1}, {}};
    tensor.encode(reinterpret_cast<void*>(4096));
    Buffer<uint32_t> out(tensor.words()), maps(128);
    const TensorMap map = tensor.encode(out.data());
    std::memcpy(maps.data(), &map, sizeof map);
    std::memcpy(maps.data() + 32, &map, sizeof map);
    Program program;
    program.grid = {2, 1, 1};
    program.body = flag +
                   "add.u64 %rd3, %in, 128;\nsetp.ne.u32 %p2, %t, 0;\n@%p2 bra DONE;\n"
                   "tensormap.replace.tile.global_dim.global.b1024.b32 [%rd3], 1, 4;\n"
                   "fence.proxy.tensormap::generic.release.gpu;\nfence.acq_rel.gpu;\n"
                   "st.relaxed.gpu.global.u32 [%rd5], 1;\nbra DONE;\n"
                   "WAIT:\nadd.u64 %rd3, %in, 128;\nsetp.ne.u32 %p2, %t, 0;\n@%p2 bra DONE;\n"
                   "AGAIN:\nld.relaxed.gpu.global.u32 %r21, [%rd5];\nsetp.eq.u32 %p6, %r21, 0;\n"
                   "@%p6 bra AGAIN;\nfence.acq_rel.gpu;\n" +
                   acquire +
                   "st.shared.v4.u32 [%smem+1024], {%r9, %r9, %r9, %r9};\n"
                   "fence.proxy.async.shared::cta;\nadd.u32 %r10, %smem, 1024;\n"
                   "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd3, {0, 0}], "
                   "[%r10];\ncp.async.bulk.commit_group;\n" +
                   WAIT_READ + "DONE:\n";
    return program.report(out.data(), maps.data());
  };
  CHECK(report(ACQUIRE) == "");
  CHECK(contains(report(""), "What would order them: fence.proxy.tensormap::generic.acquire.gpu"));
  CHECK(contains(report(""), "The other half, the release, is there."));
}

TEST_CASE("copies that PTX forbids are faults") {
  const std::string bulk = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes ";
  CHECK(contains(report_of(bulk + "[%smem+1024], [%in], 24, [%smem];"), "size 0x18"));
  CHECK(contains(report_of(bulk + "[%smem+1032], [%in], 32, [%smem];"), "destination"));
  CHECK(contains(report_of(bulk + "[%smem+1024], [%in+8], 32, [%smem];"), "source"));
  CHECK(contains(report_of(bulk + "[%smem+1024], [%in+192], 128, [%smem];"), "before the end of"));
  CHECK(contains(report_of(bulk + "[%smem+1024], [%in], 128, [%smem+64];"), "no mbarrier.init"));
  CHECK(contains(report_of("cp.async.cg.shared.global [%smem+8], [%in], 16;"), "shared address"));
  CHECK(contains(report_of("cp.async.cg.shared.global [%smem], [%in+8], 16;"), "global address"));
  CHECK(contains(report_of("cp.async.cg.shared.global [%smem], [%in], 8;"), "not supported"));
  CHECK(contains(report_of("mov.u32 %r1, 17;\ncp.async.cg.shared.global [%smem], [%in], 16, %r1;"),
                 "a source of 17 bytes"));
  const std::string tensor =
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes ";
  Tensor shape{{32, 8}, {32, 8}, {}};
  const TensorMap map = shape.encode(reinterpret_cast<void*>(4096));
  CHECK(contains(report_of(tensor + "[%smem+64], [%map, {0, 0}], [%smem];", map), "allocation"));
  CHECK(contains(report_of(tensor + "[%smem+64], [%map, {96, 0}], [%smem];", map),
                 "shared address 0x440 is not a multiple of 128"));
  CHECK(contains(report_of(tensor + "[%smem+1024], [%map, {0, 0}], [%smem];"), "is no tensor map"));
  CHECK(contains(report_of(".local .align 64 .b8 copied[128];\nmov.b64 %rd5, copied;\n"
                           "cvta.local.u64 %rd5, %rd5;\nprefetch.tensormap [%rd5];"),
                 "that is not __grid_constant__"));
  CHECK(contains(report_of(tensor + "[%smem+1024], [%map, {-2, 0}], [%smem];", map),
                 "begins at element -2 of its rows"));
  const std::string store = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group ";
  CHECK(contains(report_of(store + "[%map, {-4, 0}], [%smem];", map), "coordinate 0 is -4"));
  CHECK(contains(report_of(store + "[%map, {0, -1}], [%smem];", map), "coordinate 1 is -1"));
  CHECK(
      contains(report_of("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%map, {0, 0, 0}];", map),
               "rank is 2"));
  CHECK(contains(report_of("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::"
                           "complete_tx::bytes [%smem], [%map, {0, 0, 0, 0}], [%smem], {0, 0};"),
                 "im2col"));
}
