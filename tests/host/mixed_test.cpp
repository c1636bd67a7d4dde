// Packed weights: their order, the bits that decode them, quantising, and the rules of calls.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>

#include "common/host/ladder.h"
#include "common/host/mixed_rules.h"
#include "common/host/weights.h"
#include "common/tile/fragment.h"
#include "common/tile/mixed_tiles.h"
#include "tests/support/sentences.h"

using ladder::bf16;
using ladder::MixedArgs;
using ladder::WeightsArgs;
using ladder_test::lines;

namespace {

float bf16_of(uint32_t half) {
  const uint32_t bits = (half & 0xffff) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

const void* at(uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

const ladder::GridRules PERSISTENT{"some", 64, true, 1};

MixedArgs good_call() {
  MixedArgs args;
  args.m = 100;
  args.n = 200;
  args.k = 300;
  args.a = static_cast<const bf16*>(at(0x10000000));
  args.lda = 304;
  args.packed = at(0x20000000);
  args.scale = static_cast<const bf16*>(at(0x30000000));
  args.ld_scale = 200;
  args.d = static_cast<bf16*>(const_cast<void*>(at(0x40000000)));
  args.ldd = 200;
  return args;
}

}  // namespace

TEST_CASE("packed weights: each has a place of its own, and the place knows which it is") {
  for (const int bits : {8, 4}) {
    std::set<std::pair<int, int>> places;
    for (int row = 0; row < 64; ++row) {
      for (int k = 0; k < 128; ++k) {
        const tile::PackedPlace place = tile::packed_place(bits, row, k);
        places.insert({place.word, place.shift});
        const tile::PackedWeight weight = tile::packed_weight(bits, place.word, place.shift);
        CHECK(weight.row == row);
        CHECK(weight.k == k);
        CHECK(place.word < tile::packed_block_bytes(bits) / 4);
        CHECK(place.shift + bits <= 32);
      }
    }
    CHECK(places.size() == 64 * 128);
  }
}

// As the manual has wgmma's A fragment: of warp w and lane l, registers i = 0 .. 3.
TEST_CASE("packed weights: a thread's words are its fragments") {
  for (const int bits : {8, 4}) {
    for (int thread = 0; thread < 128; ++thread) {
      for (int fragment = 0; fragment < 8; ++fragment) {
        for (int reg = 0; reg < 4; ++reg) {
          for (int element = 0; element < 2; ++element) {
            const int row = thread / 32 * 16 + thread % 32 / 4 + reg % 2 * 8;
            const int k = fragment * 16 + reg / 2 * 8 + thread % 4 * 2 + element;
            const tile::PackedPlace place = tile::packed_place(bits, row, k);
            CHECK(place.word / 4 % 128 == thread);
            const int word = place.word / 512 * 4 + place.word % 4;  // of the thread
            CHECK(word == (bits == 8 ? fragment * 2 + reg / 2 : fragment));
            // decode_weights() takes register i of a pair of fragments from its word shifted by so
            // much.
            const int shift = bits == 8 ? reg % 2 * 8 : reg * 4;
            CHECK(place.shift == shift + 16 * element);
          }
        }
      }
    }
  }
}

// As decode_weights(): bits alone are a subnormal bf16, which counts in 2^-133.
TEST_CASE("decoding: each weight, over 64, is what one fma makes of its bits") {
  const float p127 = std::ldexp(1.0f, 127), p123 = std::ldexp(1.0f, 123);
  CHECK(bf16_of(0x7f00) == p127);
  CHECK(bf16_of(0x7d00) == p123);
  CHECK(bf16_of(0xc000) == -128.0f / 64);
  CHECK(bf16_of(0xbe00) == -8.0f / 64);
  for (int q = -128; q < 128; ++q) {
    const uint32_t byte = tile::packed_bits(8, q, 0);
    CHECK(bf16_of(byte) == std::ldexp(static_cast<float>(q + 128), -133));
    CHECK(std::fma(bf16_of(byte), p127, bf16_of(0xc000)) == static_cast<float>(q) / 64);
  }
  for (int q = -8; q < 8; ++q) {
    const uint32_t low = tile::packed_bits(4, q, 0), high = tile::packed_bits(4, q, 4);
    CHECK(std::fma(bf16_of(low), p127, bf16_of(0xbe00)) == static_cast<float>(q) / 64);
    CHECK(std::fma(bf16_of(high), p123, bf16_of(0xbe00)) == static_cast<float>(q) / 64);
  }
}

TEST_CASE("quantising: scales and weights of known groups") {
  const auto quantized = [](int bits, std::vector<float> values) {
    std::vector<bf16> w;
    for (const float value : values) w.push_back(__float2bfloat16_rn(value));
    const int k = static_cast<int>(w.size());
    std::vector<uint8_t> q(ladder::weights_bytes(bits, 1, k, 32));
    bf16 scale;
    ladder::quantize_weights_cpu(bits, 1, k, w.data(), k, q.data(), 32, &scale, 8);
    std::vector<float> all = {__bfloat162float(scale)};
    for (int i = 0; i < k; ++i) {
      all.push_back(static_cast<float>(ladder::weight_at(bits, q.data(), 32, 0, i)));
    }
    return all;
  };
  using Numbers = std::vector<float>;
  CHECK(quantized(8, {127, -127, 1, 0.5f, 1.5f, 2.5f}) == Numbers{1, 127, -127, 1, 0, 2, 2});
  CHECK(quantized(4, {-7, 7, 3.5f, 2.5f, 0.25f}) == Numbers{1, -7, 7, 4, 2, 0});
  CHECK(quantized(4, {0, 0, 0}) == Numbers{1, 0, 0, 0});
  CHECK(quantized(8, {254, INFINITY, -INFINITY, NAN}) == Numbers{2, 127, 127, -127, 0});
  CHECK(quantized(8, {1}) == Numbers{0x1.02p-7f, 127});  // 1/127 to bf16
  CHECK(quantized(4, {0x1p-133f}) == Numbers{1, 0});     // amax/7 is 0
}

TEST_CASE("mixed: right calls are accepted") {
  for (const int bits : {8, 4}) {
    MixedArgs args = good_call();
    args.bits = bits;
    CHECK(ladder::mixed_violations(PERSISTENT, args) == "");
    args.max_ctas = 7;
    CHECK(ladder::mixed_violations(PERSISTENT, args) == "");
  }
}

TEST_CASE("mixed: each rule has its sentence") {
  const auto refused = [](const MixedArgs& args, const std::vector<std::string>& sentences) {
    CHECK(lines(ladder::mixed_violations(PERSISTENT, args)) == sentences);
  };
  MixedArgs args = good_call();
  args.bits = 6;
  refused(args, {"bits is 6: it must be 8 or 4; the nearest that works is 8."});
  args = good_call();
  args.ld_scale = 204;
  refused(args,
          {"ld_scale is 204: it must be a multiple of 8 elements; the nearest larger that works "
           "is 208."});
  args.ld_scale = 100;
  refused(args, {"ld_scale is 100: it must be at least n = 200 and a multiple of 8 elements; the "
                 "nearest that works is 200."});
  args = good_call();
  args.packed = at(0x20000008);
  refused(args, {"packed is 0x20000008: it must be a multiple of 16 bytes; the nearest below is "
                 "0x20000000."});
  args = good_call();
  args.packed = nullptr;
  refused(args,
          {"packed is null: it must point to device memory for ladder_packed_bytes(bits, n, k) "
           "bytes."});
  args = good_call();
  args.max_ctas = -1;
  refused(args, {"max_ctas is -1: it must not be negative; the nearest that works is 0."});
  args = good_call();
  args.m = -4;
  refused(args, {"m is -4: a size must not be negative; the nearest that works is 0."});
  // 200 rows of 300 are 4 x 3 blocks of 8192 bytes: 0x18000.
  args = good_call();
  args.d = static_cast<bf16*>(const_cast<void*>(at(0x20000000 + 0x18000)));
  refused(args, {});
  args.d = static_cast<bf16*>(const_cast<void*>(at(0x20000000 + 0x18000 - 16)));
  refused(args,
          {"d is 0x20017ff0, so that it ends at 0x20021c30 and overlaps packed: what is written "
           "must share no byte with anything else of the call; the next address that works is "
           "0x20018000."});
  for (const int k : {300, 0}) {
    args = good_call();
    args.k = k;
    args.workspace = args.d;
    CHECK(ladder::mixed_violations(PERSISTENT, args) == "");  // of which the size is not known
    args.workspace_bytes = 1;
    CHECK(ladder::mixed_violations(PERSISTENT, args).find("overlaps the workspace") !=
          std::string::npos);
  }
}

TEST_CASE("mixed: a limit of the grid is a whole cluster, and of persistent kernels") {
  MixedArgs args = good_call();
  args.max_ctas = 2;
  CHECK(ladder::mixed_violations({"pairs", 64, true, 2}, args) == "");
  args.max_ctas = 1;
  CHECK(ladder::mixed_violations({"pairs", 64, true, 2}, args) ==
        "max_ctas is 1: it must be a whole cluster; the nearest that works is 2.");
  args.max_ctas = 5;
  CHECK(ladder::mixed_violations({"plain", 64, false, 1}, args) ==
        "max_ctas is 5: only persistent variants take a limit; the nearest that works is 0.");
}

TEST_CASE("mixed: scales that are too many are refused by a k that works") {
  MixedArgs args = good_call();
  args.k = 1 << 20;
  args.lda = args.k;
  args.ld_scale = 1 << 30;
  args.a = static_cast<const bf16*>(at(0x100000000000));
  args.packed = at(0x200000000000);
  args.scale = static_cast<const bf16*>(at(0x300000000000));
  args.d = static_cast<bf16*>(const_cast<void*>(at(0x500000000000)));
  CHECK(
      ladder::mixed_violations(PERSISTENT, args) ==
      "ceil(k/128) is 8192: with ld_scale = 1073741824, scale would span more than 2^40 bytes; the "
      "nearest that works is 512, k = 65536.");
  args.k = 65536;
  CHECK(ladder::mixed_violations(PERSISTENT, args) == "");
}

TEST_CASE("mixed: the longest rows, and the most of them") {
  MixedArgs args = good_call();
  args.d = static_cast<bf16*>(const_cast<void*>(at(0x400000000000)));
  args.m = 1;
  args.lda = (1LL << 39) - 8;
  CHECK(ladder::mixed_violations(PERSISTENT, args) == "");
  args.lda = 1LL << 39;
  CHECK(ladder::mixed_violations(PERSISTENT, args) ==
        "lda is 549755813888: it must be at most 549755813880 elements; the nearest that works is "
        "549755813880.");
  args.lda = 1LL << 38;
  args.m = 2;
  CHECK(ladder::mixed_violations(PERSISTENT, args) == "");
  args.m = 3;
  CHECK(ladder::mixed_violations(PERSISTENT, args) ==
        "m is 3: with lda = 274877906944, a would span more than 2^40 bytes; the nearest that "
        "works is 2.");
}

TEST_CASE("mixed: what a call does not touch may be anything") {
  MixedArgs args = good_call();
  args.a = args.scale = nullptr;
  args.packed = nullptr;
  args.lda = args.ld_scale = -3;
  args.k = 0;
  CHECK(ladder::mixed_violations(PERSISTENT, args) == "");
  args.d = nullptr;
  args.m = 0;
  args.k = 300;
  CHECK(ladder::mixed_violations(PERSISTENT, args) == "");
}

TEST_CASE("mixed: a negative size with no leading dimension is refused like any other") {
  MixedArgs args = good_call();
  args.k = -1;
  args.lda = 0;
  CHECK(lines(ladder::mixed_violations(PERSISTENT, args)) ==
        std::vector<std::string>{
            "k is -1: a size must not be negative; the nearest that works is 0."});
  args = good_call();
  args.n = -200;
  args.ldd = args.ld_scale = 0;
  CHECK(lines(ladder::mixed_violations(PERSISTENT, args)) ==
        std::vector<std::string>{
            "n is -200: a size must not be negative; the nearest that works is 0."});
  WeightsArgs weights;
  weights.n = 8;
  weights.k = -8;
  weights.w = static_cast<const bf16*>(at(0x10000000));
  weights.q = const_cast<void*>(at(0x20000000));
  weights.scale = static_cast<bf16*>(const_cast<void*>(at(0x30000000)));
  weights.packed = const_cast<void*>(at(0x40000000));
  weights.ld_scale = 8;
  const std::string refused = "k is -8: a size must not be negative; the nearest that works is 0.";
  CHECK(ladder::quantize_violations(weights) == refused);
  CHECK(ladder::pack_violations(weights) == refused);
}

TEST_CASE("weights: what is written shares no byte with what is read") {
  WeightsArgs args;
  args.n = args.k = 256;
  args.w = static_cast<const bf16*>(at(0x10000000));
  args.ldw = args.ldq = args.ld_scale = 256;
  args.q = const_cast<void*>(at(0x20000000));
  args.scale = static_cast<bf16*>(const_cast<void*>(at(0x30000000)));
  args.packed = const_cast<void*>(at(0x20000000 + 65536));
  CHECK(ladder::quantize_violations(args) == "");
  CHECK(ladder::pack_violations(args) == "");
  args.q = const_cast<void*>(at(0x10000010));
  CHECK(ladder::quantize_violations(args).find("q is 0x10000010") == 0);
  // scale keeps away from where q is told to go.
  args.scale = static_cast<bf16*>(args.q);
  CHECK(lines(ladder::quantize_violations(args)) ==
        std::vector<std::string>{
            "q is 0x10000010, so that it ends at 0x10010010 and overlaps w: what is written must "
            "share no byte with anything else of the call; the next address that works is "
            "0x10020000.",
            "scale is 0x10000010, so that it ends at 0x10000410 and overlaps w: what is written "
            "must share no byte with anything else of the call; the next address that works is "
            "0x10030000."});
  args.scale = static_cast<bf16*>(const_cast<void*>(at(0x30000000)));
  args.q = const_cast<void*>(at(0x20000000 + 16));
  CHECK(ladder::pack_violations(args).find("overlaps q") != std::string::npos);
  args.bits = 4;
  CHECK(ladder::pack_violations(args) == "");
  args.n = 1;  // 33 weights end in half a byte
  args.k = 33;
  args.ldq = 64;
  args.q = const_cast<void*>(at(0x20000000));
  args.packed = const_cast<void*>(at(0x20000010));
  CHECK(ladder::pack_violations(args).find("overlaps q") != std::string::npos);
  args.packed = const_cast<void*>(at(0x20000020));
  CHECK(ladder::pack_violations(args) == "");
}

namespace {

// The tile that the model expects to be the fastest on an H200.
std::string fastest_tile(int bits, int m, int n, int k) {
  const tile::Gpu gpu;
  std::string name;
  double least = std::numeric_limits<double>::infinity();
  for (const tile::MixedTile& each : tile::MIXED_TILES) {
    const int at_once = gpu.sms / each.split * each.ctas;
    const double clocks = tile::predicted_clocks(each, bits, m, n, k, at_once, gpu);
    if (clocks < least) name = bits == 8 ? each.name_8 : each.name_4;
    least = std::min(least, clocks);
  }
  return name;
}

}  // namespace

// How far this is from what trials found: tests/host/trials_test.cpp.
TEST_CASE("mixed tiles: what the model takes on an H200") {
  CHECK(fastest_tile(8, 1, 8192, 8192) == "w8_64x8_s2_x2");
  CHECK(fastest_tile(4, 1, 8192, 8192) == "w4_64x8_s2_x2");
  CHECK(fastest_tile(4, 1, 28672, 8192) == "w4_64x8_s2_x2");  // w4_64x8_s4_k2 takes 4 % less
  CHECK(fastest_tile(8, 1, 28672, 8192) == "w8_64x8_s4_k2");
  CHECK(fastest_tile(4, 1, 4096, 4096) == "w4_64x8_s4_k2");
  CHECK(fastest_tile(4, 1, 576, 7168) == "w4_64x8_s4_k4");
  CHECK(fastest_tile(4, 16, 7168, 16384) == "w4_64x16_s2_x2");
  CHECK(fastest_tile(8, 32, 8192, 8192) == "w8_64x32_s4");
  CHECK(fastest_tile(4, 32, 28672, 8192) == "w4_256x32");
  CHECK(fastest_tile(4, 64, 8192, 8192) == "w4_64x64_s2");
  CHECK(fastest_tile(8, 64, 4096, 7168) == "w8_64x64_s2_k2");
  CHECK(fastest_tile(8, 64, 28672, 8192) == "w8_128x64");
  CHECK(fastest_tile(8, 128, 8192, 8192) == "w8_128x128_k2");
  CHECK(fastest_tile(8, 4096, 8192, 8192) == "w8_128x176");
  CHECK(fastest_tile(4, 4096, 8192, 8192) == "w4_128x176");
}
