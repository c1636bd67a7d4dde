// Products of 8-bit operands with scales: what is refused, in which words, and that doing what they say
// is enough; the types; the quantizer; and whether the check of results can fail.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "common/host/block_scaled.h"
#include "common/host/tolerance.h"
#include "common/host/verify_cpu.h"
#include "tests/support/sentences.h"

using ladder::bf16;
using ladder::BlockScaledArgs;
using ladder::e4m3;
using ladder::Element;
using ladder::s8;
using ladder::Shape;
using ladder_test::check;
using ladder_test::draw_sizes;
using ladder_test::lines;
using ladder_test::refused_and_mended;

namespace {

template <class T>
T* at(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

// 100 x 200 x 300, matrices far apart.
BlockScaledArgs good_call() {
  BlockScaledArgs args;
  args.m = 100;
  args.n = 200;
  args.k = 300;
  args.a = at<void>(0x10000000);
  args.lda = 304;
  args.scale_a = at<float>(0x18000000);
  args.ld_scale_a = 100;
  args.b = at<void>(0x20000000);
  args.ldb = 304;
  args.scale_b = at<float>(0x28000000);
  args.ld_scale_b = 3;
  args.d = at<bf16>(0x30000000);
  args.ldd = 200;
  return args;
}

// Does what every sentence says, as a caller would: sets what its first word names to its last number.
void follow(const std::string& text, BlockScaledArgs* args) {
  for (const std::string& line : lines(text)) {
    CAPTURE(line);
    const std::string name = line.substr(0, line.find(' '));
    const bool null = line.find("is null") != std::string::npos;
    const long long value = std::strtoll(line.c_str() + line.rfind(' ') + 1, nullptr, 0);
    const auto address = [&](uintptr_t free) {
      return null ? free : static_cast<uintptr_t>(value);
    };
    bool known = true;
    if (name == "type") {
      args->type = static_cast<int>(value);
    } else if (name == "m") {
      args->m = static_cast<int>(value);
    } else if (name == "n") {
      args->n = static_cast<int>(value);
    } else if (name == "k") {
      args->k = static_cast<int>(value);
    } else if (name == "lda") {
      args->lda = value;
    } else if (name == "ldb") {
      args->ldb = value;
    } else if (name == "ldd") {
      args->ldd = value;
    } else if (name == "ld_scale_a") {
      args->ld_scale_a = value;
    } else if (name == "ld_scale_b") {
      args->ld_scale_b = value;
    } else if (name == "a") {
      args->a = at<void>(address(0x40000000000));
    } else if (name == "b") {
      args->b = at<void>(address(0x80000000000));
    } else if (name == "scale_a") {
      args->scale_a = at<float>(address(0x800000000000));
    } else if (name == "scale_b") {
      args->scale_b = at<float>(address(0x1000000000000));
    } else if (name == "d") {
      args->d = at<bf16>(address(0x400000000000));
    } else {
      known = false;
    }
    REQUIRE(known);
  }
}

void refused(BlockScaledArgs args, const std::vector<std::string>& sentences) {
  const std::string text = check(args);
  CAPTURE(text);
  CHECK(lines(text) == sentences);
  follow(text, &args);
  CHECK(check(args) == "");
}

}  // namespace

TEST_CASE(
    "block scaled: right calls are accepted, and what a call does not touch may be anything") {
  BlockScaledArgs args = good_call();
  CHECK(check(args) == "");
  args.type = LADDER_S8;
  args.scale_b = at<float>(0x28000004);  // 4-byte aligned is enough
  args.ld_scale_b = 1001;
  CHECK(check(args) == "");
  args.k = 0;
  args.a = args.b = nullptr;
  args.scale_a = args.scale_b = nullptr;
  args.ld_scale_a = args.ld_scale_b = -1;
  CHECK(check(args) == "");
  args.m = 0;
  args.d = nullptr;
  CHECK(check(args) == "");
}

TEST_CASE("block scaled: types that are none, scales that do not fit") {
  BlockScaledArgs args = good_call();
  args.type = 0;
  refused(args, {"type is 0: it must be 3 (e4m3) or 4 (s8); the nearest that works is 3."});
  args = good_call();
  args.ld_scale_a = 98;
  args.ld_scale_b = 2;
  refused(
      args,
      {"ld_scale_a is 98: it must be at least m = 100 and a multiple of 4; the nearest that works "
       "is 100.",
       "ld_scale_b is 2: it must be at least ceil(k/128) = 3; the nearest that works is 3."});
  args = good_call();
  args.ld_scale_a = 1LL << 40;
  args.d = at<bf16>(0x4000000000000);
  refused(
      args,
      {"ld_scale_a is 1099511627776: it must be at most 137438953420; the nearest that works is "
       "137438953420."});
  args = good_call();
  args.ld_scale_a = 102;
  args.scale_a = at<float>(0x18000004);
  args.scale_b = at<float>(0x28000002);
  refused(
      args,
      {"scale_a is 0x18000004: it must be a multiple of 16 bytes; the nearest below is "
       "0x18000000.",
       "ld_scale_a is 102: it must be at least m = 100 and a multiple of 4; the nearest that works "
       "is 104.",
       "scale_b is 0x28000002: it must be a multiple of 4 bytes; the nearest below is "
       "0x28000000."});
  args = good_call();
  args.scale_a = nullptr;
  args.lda = 300;
  args.ldd = 201;
  refused(
      args,
      {"scale_a is null: it must point to device memory for its ceil(k/128) x m elements.",
       "lda is 300: it must be a multiple of 16 elements; the nearest larger that works is 304.",
       "ldd is 201: it must be a multiple of 8 elements; the nearest larger that works is "
       "208."});
}

TEST_CASE("block scaled: D shares no byte with operands or scales") {
  for (const uintptr_t shared : {uintptr_t{0x10000000}, uintptr_t{0x18000000},
                                 uintptr_t{0x20000000}, uintptr_t{0x28000000}}) {
    CAPTURE(shared);
    BlockScaledArgs args = good_call();
    args.d = at<bf16>(shared);
    const std::string text = check(args);
    CHECK(text.find("D must share no byte with anything else of the call") != std::string::npos);
    follow(text, &args);
    CHECK(check(args) == "");
  }
  BlockScaledArgs args = good_call();  // scale_a: 2 rows of 100 and 100: 1,200 bytes
  args.d = at<bf16>(0x18000000 + 1200);
  CHECK(check(args) == "");
  args.d = at<bf16>(0x18000000 + 1184);
  CHECK(check(args).find("overlaps scale_a") != std::string::npos);
}

TEST_CASE("block scaled: following suggestions works for any combination of mistakes") {
  const int sizes[] = {-7, 0, 1, 100, 1 << 24, 2147483647};
  const int types[] = {-1, 0, 3, 4, 5};
  const long long lds[] = {-1, 0, 100, 112, 1LL << 24, (1LL << 40) + 1};
  const uintptr_t pointers[] = {0, 0x1000, 0x1004, 0x2000};
  const auto make = [&](auto& draw) {
    BlockScaledArgs args;
    args.type = draw(types);
    draw_sizes(draw, sizes, lds, &args);
    args.ld_scale_a = draw(lds);
    args.ld_scale_b = draw(lds);
    args.a = at<void>(draw(pointers));
    args.b = at<void>(draw(pointers));
    args.scale_a = at<float>(draw(pointers));
    args.scale_b = at<float>(draw(pointers));
    args.d = at<bf16>(draw(pointers));
    return args;
  };
  CHECK(refused_and_mended(make, follow) > 1000);
}

TEST_CASE("block scaled: sizes and type of a shape") {
  Shape shape{3, 5, 700};
  const auto sizes = [](const Shape& of) {
    return *std::static_pointer_cast<BlockScaledArgs>(BlockScaledArgs::kind().sizes_of(of));
  };
  CHECK(ladder::parameters_text(BlockScaledArgs::kind(), shape) == "type=e4m3,scales=blocks");
  CHECK(sizes(shape).type == LADDER_E4M3);
  CHECK_FALSE(sizes(shape).tensor_scales);
  CHECK(sizes(shape).lda == 704);
  CHECK(sizes(shape).ld_scale_a == 4);
  CHECK(sizes(shape).ld_scale_b == 8);
  CHECK(sizes(shape).ldd == 8);
  shape.parameters = {1, 1};
  CHECK(ladder::parameters_text(BlockScaledArgs::kind(), shape) == "type=s8,scales=tensor");
  CHECK(sizes(shape).type == LADDER_S8);
  CHECK(sizes(shape).tensor_scales);
}

TEST_CASE("e4m3: all its numbers, and rounding to them") {
  const auto value = [](int bits) { return Element<e4m3>::to_float({static_cast<uint8_t>(bits)}); };
  CHECK(value(0x00) == 0);
  CHECK(std::signbit(value(0x80)));
  CHECK(value(0x01) == 1.0f / 512);
  CHECK(value(0x07) == 7.0f / 512);
  CHECK(value(0x08) == 1.0f / 64);
  CHECK(value(0x38) == 1);
  CHECK(value(0xbf) == -1.875f);
  CHECK(value(0x7e) == 448);
  CHECK(std::isnan(value(0x7f)));
  CHECK(std::isnan(value(0xff)));
  const auto rounded = [](float x) { return int{Element<e4m3>::from_float(x).bits}; };
  for (int bits = 0; bits < 0x7f; ++bits) {
    CAPTURE(bits);
    CHECK(rounded(value(bits)) == bits);
    CHECK(rounded(-value(bits)) == (bits | 0x80));
    if (bits == 0x7e) continue;
    const float middle = (value(bits) + value(bits + 1)) / 2;  // exact
    CHECK(rounded(middle) == bits + bits % 2);
    CHECK(rounded(std::nextafter(middle, 0.0f)) == bits);
    CHECK(rounded(std::nextafter(middle, 1000.0f)) == bits + 1);
  }
  constexpr float INFINITE = std::numeric_limits<float>::infinity();
  for (const float large : {449.0f, 464.0f, 480.0f, 3e38f, INFINITE}) {
    CHECK(rounded(large) == 0x7e);
    CHECK(rounded(-large) == 0xfe);
  }
  CHECK(rounded(1e-40f) == 0);
  CHECK(rounded(-1e-40f) == 0x80);
  CHECK(rounded(std::numeric_limits<float>::quiet_NaN()) == 0x7f);
}

TEST_CASE("s8: rounding to it") {
  const auto rounded = [](float x) { return int{Element<s8>::from_float(x)}; };
  for (int i = -127; i <= 127; ++i) {
    CHECK(rounded(static_cast<float>(i)) == i);
    CHECK(Element<s8>::to_float(static_cast<s8>(i)) == i);
  }
  CHECK(rounded(0.5f) == 0);
  CHECK(rounded(1.5f) == 2);
  CHECK(rounded(-2.5f) == -2);
  CHECK(rounded(126.5f) == 126);
  CHECK(rounded(127.4f) == 127);
  CHECK(rounded(-127.6f) == -127);
  constexpr float INFINITE = std::numeric_limits<float>::infinity();
  CHECK(rounded(INFINITE) == 127);
  CHECK(rounded(-INFINITE) == -127);
  CHECK(rounded(std::numeric_limits<float>::quiet_NaN()) == 0);
}

TEST_CASE("quantize on the host: scales and elements by hand") {
  constexpr int ROWS = 3, COLS = 130, BLOCKS = 2;
  std::vector<bf16> x(ROWS * COLS, Element<bf16>::from_float(0));
  const auto set = [&x](int row, int col, float value) {
    x[static_cast<size_t>(row * COLS + col)] = Element<bf16>::from_float(value);
  };
  set(0, 5, -896);
  set(0, 6, 448);
  set(0, 7, 1);
  set(1, 0, std::numeric_limits<float>::infinity());
  set(1, 1, std::numeric_limits<float>::quiet_NaN());
  set(1, 2, 44.8f);
  set(2, 129, 3);
  std::vector<uint8_t> q(ROWS * COLS);
  std::vector<float> scale(BLOCKS * ROWS);
  ladder::quantize_on_host(
      {LADDER_E4M3, 1, ROWS, COLS, x.data(), COLS, q.data(), COLS, scale.data(), ROWS, nullptr});
  CHECK(scale[0] == 2);  // [block][row]
  CHECK(scale[1] == Element<bf16>::to_float(Element<bf16>::from_float(44.8f)) / 448);
  CHECK(scale[2] == 1);
  CHECK(scale[ROWS + 0] == 1);
  CHECK(scale[ROWS + 2] == 3.0f / 448);
  CHECK(q[5] == 0xfe);
  CHECK(q[6] == Element<e4m3>::from_float(224).bits);
  CHECK(q[7] == Element<e4m3>::from_float(0.5f).bits);
  CHECK(q[COLS + 0] == 0x7e);
  CHECK(q[COLS + 1] == 0x7f);
  CHECK(q[COLS + 2] == 0x7e);
  CHECK(q[2 * COLS + 129] == 0x7e);
  ladder::quantize_on_host(
      {LADDER_S8, 128, ROWS, COLS, x.data(), COLS, q.data(), COLS, scale.data(), BLOCKS, nullptr});
  CHECK(scale[0] == 896.0f / 127);  // of all three rows
  CHECK(scale[1] == 3.0f / 127);
  CHECK(q[5] == 0x81);  // -127
  CHECK(q[6] == 64);    // 63.5, to even
  CHECK(q[COLS + 0] == 127);
  CHECK(q[COLS + 1] == 0);
  CHECK(q[COLS + 2] == 6);
  CHECK(q[2 * COLS + 129] == 127);
}

TEST_CASE("quantize: following suggestions works for any combination of mistakes") {
  const int sizes[] = {-7, 0, 1, 100, 1 << 24, 2147483647};
  const long long lds[] = {-1, 0, 100, 112, 1LL << 24, (1LL << 40) + 1};
  const uintptr_t pointers[] = {0, 0x1000, 0x1002, 0x2000};
  const auto make = [&](auto& draw) {
    return ladder::QuantizeArgs{draw(sizes),
                                draw(sizes),
                                draw(sizes),
                                draw(sizes),
                                at<bf16>(draw(pointers)),
                                draw(lds),
                                at<void>(draw(pointers)),
                                draw(lds),
                                at<float>(draw(pointers)),
                                draw(lds),
                                nullptr};
  };
  const auto follow_quantize = [](const std::string& text, ladder::QuantizeArgs* args) {
    for (const std::string& line : lines(text)) {
      const std::string name = line.substr(0, line.find(' '));
      const bool null = line.find("is null") != std::string::npos;
      const long long value = std::strtoll(line.c_str() + line.rfind(' ') + 1, nullptr, 0);
      if (name == "type") args->type = static_cast<int>(value);
      if (name == "block_rows") args->block_rows = static_cast<int>(value);
      if (name == "rows") args->rows = static_cast<int>(value);
      if (name == "cols") args->cols = static_cast<int>(value);
      if (name == "ldx") args->ldx = value;
      if (name == "ldq") args->ldq = value;
      if (name == "ld_scale") args->ld_scale = value;
      if (name == "x") args->x = at<bf16>(null ? 0x40000000000 : static_cast<uintptr_t>(value));
      if (name == "q") args->q = at<void>(null ? 0x400000000000 : static_cast<uintptr_t>(value));
      if (name == "scale") {
        args->scale = at<float>(null ? 0x4000000000000 : static_cast<uintptr_t>(value));
      }
    }
  };
  CHECK(refused_and_mended(make, follow_quantize, ladder::quantize_violations) > 1000);
}

TEST_CASE("tolerance: what an e4m3 sum may lose, by hand") {
  ladder::E4m3Loss loss;
  // 32 products of 1: 33 numbers of one sign and their sum, cut off at 2^-13 of 32.
  loss.add(1, 1, 32, 0, 32);
  const double unit = 32.0 / 8192;
  CHECK(loss.mean == unit / 2 * 33);
  CHECK(loss.variance == unit * unit * 34 / 12);
  loss.add(-1, 1, 32, 0, 32);  // a block with a negative scale: as much the other way
  CHECK(loss.mean == 0);
  CHECK(loss.bound() == 8 * std::sqrt(loss.variance));
  ladder::E4m3Loss none;
  none.add(1, 0, 0, 0, 0);
  CHECK(none.bound() == 0);
}
