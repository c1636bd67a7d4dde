// Arithmetic, comparison and conversion instructions against their definitions, written down a
// second time here: bit by bit, or in a wider type.
#include <doctest/doctest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/machine/ptx_run.h"

using namespace machine_test;

namespace {

using Values = std::vector<uint64_t>;
using Definition = std::function<uint64_t(uint64_t, uint64_t, uint64_t)>;

const Values INTEGERS = {0,          1,          2,
                         3,          7,          8,
                         31,         32,         33,
                         63,         64,         255,
                         256,        0x7fff,     0x8000,
                         0xffff,     0x7fffffff, 1u << 31,
                         ~0u,        ~1u,        0x12345678,
                         0xfedcba98, ~0ull,      1ull << 63,
                         ~0ull >> 1, 1ull << 32, 0xdeadbeef01234567};
const Values FLOATS = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x3f000000,
                       0x40200000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001,
                       0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0xff7fffff,
                       0x4b000001, 0x3effffff, 0x34000000, 0x40490fdb, 0xc2f6e979};

float f32(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}
uint64_t bits(float value) {
  return value != value ? 0x7fffffff : std::bit_cast<uint32_t>(value);
}
int32_t s32(uint64_t bits) {
  return static_cast<int32_t>(bits);
}
int64_t s64(uint64_t bits) {
  return static_cast<int64_t>(bits);
}
uint32_t u32(uint64_t bits) {
  return static_cast<uint32_t>(bits);
}

// The operands are in A0 B0 C0 as b16, A B C as b32, AA BB CC as b64; the result is D0, D or DD.
Values run(const std::string& text, const Values& operands) {
  std::string body =
      ".reg .b16 A0, B0, C0, D0; .reg .b32 A, B, C, D; .reg .b64 AA, BB, CC, DD, at;\n"
      ".reg .b32 thread;\n"
      "mov.u32 thread, %ctaid.x;\nmad.lo.u32 thread, thread, 256, %t;\n"
      "mad.wide.u32 at, thread, 24, %in;\n"
      "ld.global.b64 AA, [at];\nld.global.b64 BB, [at+8];\nld.global.b64 CC, [at+16];\n"
      "cvt.u32.u64 A, AA;\ncvt.u32.u64 B, BB;\ncvt.u32.u64 C, CC;\n"
      "cvt.u16.u32 A0, A;\ncvt.u16.u32 B0, B;\ncvt.u16.u32 C0, C;\n"
      "mov.b32 D, 0;\nmov.b64 DD, 0;\nmov.b16 D0, 0;\n" +
      text + "\n";
  // The one that was written is the result: the others are 0.
  body +=
      "cvt.u32.u16 A, D0;\nor.b32 D, D, A;\ncvt.u64.u32 AA, D;\nor.b64 DD, DD, AA;\n"
      "mad.wide.u32 at, thread, 8, %out;\nst.global.b64 [at], DD;\n";
  const size_t lanes = operands.size() / 3, blocks = (lanes + 255) / 256;
  Buffer<uint64_t> in(blocks * 256 * 3), out(blocks * 256);
  std::copy(operands.begin(), operands.end(), in.data());
  Program program;
  program.grid = {static_cast<uint32_t>(blocks), 1, 1};
  program.block = {256, 1, 1};
  program.body = body;
  program.run(out.data(), in.data());
  return {out.data(), out.data() + lanes};
}

// All triples of a few of the values with all pairs of the rest.
Values triples(const Values& values) {
  Values list;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = 0; j < values.size(); ++j) {
      for (size_t k = 0; k < 4; ++k) {
        list.insert(list.end(),
                    {values[i], values[j], values[(i * 7 + j * 3 + k * 5) % values.size()]});
      }
    }
  }
  return list;
}

void check(const std::string& text, const Values& values, const Definition& expected) {
  const Values operands = triples(values), results = run(text, operands);
  for (size_t i = 0; i < results.size(); ++i) {
    const uint64_t a = operands[3 * i], b = operands[3 * i + 1], c = operands[3 * i + 2];
    INFO(text << " of " << std::hex << a << ", " << b << ", " << c);
    const uint64_t want = expected(a, b, c);
    if (results[i] != want) CHECK(results[i] == want);  // millions of passes say nothing
  }
  CHECK(!results.empty());
}

// The result of a rounding that is not to nearest, from the exact value.
float rounded(double exact, const std::string& mode) {
  const float nearest = static_cast<float>(exact);
  const bool down = mode == "rm" || (mode == "rz" && exact > 0);
  if (mode == "rn" || nearest == exact || exact != exact) return nearest;
  if (down) return nearest > exact ? std::nextafterf(nearest, -INFINITY) : nearest;
  return nearest < exact ? std::nextafterf(nearest, INFINITY) : nearest;
}

uint64_t bit(uint64_t value, uint64_t i) {
  return i < 64 ? value >> i & 1 : 0;
}

}  // namespace

TEST_CASE("integer arithmetic") {
  check("add.s32 D, A, B;", INTEGERS, [](auto a, auto b, auto) { return u32(a + b); });
  check("sub.u64 DD, AA, BB;", INTEGERS, [](auto a, auto b, auto) { return a - b; });
  check("mul.lo.u16 D0, A0, B0;", INTEGERS, [](auto a, auto b, auto) { return a * b & 0xffff; });
  check("mul.hi.s32 D, A, B;", INTEGERS,
        [](auto a, auto b, auto) { return u32(int64_t{s32(a)} * s32(b) >> 32); });
  check("mul.hi.u64 DD, AA, BB;", INTEGERS, [](auto a, auto b, auto) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
  });
  check("mad.wide.s32 DD, A, B, CC;", INTEGERS,
        [](auto a, auto b, auto c) { return static_cast<uint64_t>(int64_t{s32(a)} * s32(b)) + c; });
  check("mad.hi.sat.s32 D, A, B, C;", INTEGERS, [](auto a, auto b, auto c) {
    const int64_t sum = (int64_t{s32(a)} * s32(b) >> 32) + s32(c);
    return u32(std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX));
  });
  check("add.sat.s32 D, A, B;", INTEGERS, [](auto a, auto b, auto) {
    const int64_t sum = int64_t{s32(a)} + s32(b);
    return u32(std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX));
  });
  check("sad.u32 D, A, B, C;", INTEGERS, [](auto a, auto b, auto c) {
    return u32(c + (u32(a) > u32(b) ? u32(a) - u32(b) : u32(b) - u32(a)));
  });
  check("min.s64 DD, AA, BB;", INTEGERS,
        [](auto a, auto b, auto) { return s64(a) < s64(b) ? a : b; });
  check("abs.s32 D, A;", INTEGERS, [](auto a, auto, auto) { return u32(s32(a) < 0 ? 0 - a : a); });
}

TEST_CASE("division by zero and of the smallest number end") {
  check("div.s32 D, A, B;", INTEGERS, [](auto a, auto b, auto) {
    return u32(b) == 0 ? ~0u : u32(static_cast<uint64_t>(int64_t{s32(a)} / s32(b)));
  });
  check("rem.s64 DD, AA, BB;", INTEGERS, [](auto a, auto b, auto) -> uint64_t {
    if (b == 0) return ~0ull;
    return b == ~0ull ? 0 : static_cast<uint64_t>(s64(a) % s64(b));
  });
  check("div.u16 D0, A0, B0;", INTEGERS, [](auto a, auto b, auto) {
    return (b & 0xffff) == 0 ? 0xffff : (a & 0xffff) / (b & 0xffff);
  });
}

TEST_CASE("shifts and fields beyond the width") {
  check("shl.b32 D, A, B;", INTEGERS,
        [](auto a, auto b, auto) { return u32(b) > 31 ? 0 : u32(u32(a) << u32(b)); });
  check("shr.s32 D, A, B;", INTEGERS,
        [](auto a, auto b, auto) { return u32(s32(a) >> std::min(u32(b), 31u)); });
  check("shr.s16 D0, A0, B;", INTEGERS, [](auto a, auto b, auto) {
    return static_cast<uint16_t>(static_cast<int16_t>(a) >> std::min(u32(b), 15u));
  });
  check("shr.u64 DD, AA, B;", INTEGERS,
        [](auto a, auto b, auto) { return u32(b) > 63 ? 0 : a >> u32(b); });
  check("shf.l.wrap.b32 D, A, B, C;", INTEGERS,
        [](auto a, auto b, auto c) { return u32(((b << 32 | u32(a)) << (c & 31)) >> 32); });
  check("shf.r.clamp.b32 D, A, B, C;", INTEGERS,
        [](auto a, auto b, auto c) { return u32((b << 32 | u32(a)) >> std::min(u32(c), 32u)); });
  check("bfe.s32 D, A, B, C;", INTEGERS, [](auto a, auto b, auto c) {
    const uint64_t at = b & 0xff, length = c & 0xff;
    const uint64_t sign = length == 0 ? 0 : bit(u32(a), std::min<uint64_t>(at + length - 1, 31));
    uint64_t d = 0;
    for (uint64_t i = 0; i < 32; ++i) {
      d |= (i < length && at + i < 32 ? bit(u32(a), at + i) : sign) << i;
    }
    return d;
  });
  check("bfi.b32 D, A, B, C, 9;", INTEGERS, [](auto a, auto b, auto c) {
    uint64_t d = u32(b);
    for (uint64_t i = 0, at = c & 0xff; i < 9 && at + i < 32; ++i) {
      d = (d & ~(1ull << (at + i))) | bit(a, i) << (at + i);
    }
    return d;
  });
}

TEST_CASE("bits and bytes") {
  check("lop3.b32 D, A, B, C, 0x6a;", INTEGERS, [](auto a, auto b, auto c) {
    uint64_t d = 0;
    for (uint64_t i = 0; i < 32; ++i) {
      d |= bit(0x6a, bit(a, i) * 4 + bit(b, i) * 2 + bit(c, i)) << i;
    }
    return d;
  });
  check("prmt.b32 D, A, B, C;", INTEGERS, [](auto a, auto b, auto c) {
    uint64_t d = 0;
    for (uint64_t i = 0; i < 4; ++i) {
      const uint64_t selector = c >> 4 * i & 15, from = selector & 7;
      uint64_t byte = (from < 4 ? a >> 8 * from : b >> 8 * (from - 4)) & 0xff;
      if (selector & 8) byte = byte & 0x80 ? 0xff : 0;
      d |= byte << 8 * i;
    }
    return d;
  });
  check("brev.b64 DD, AA;", INTEGERS, [](auto a, auto, auto) {
    uint64_t d = 0;
    for (uint64_t i = 0; i < 64; ++i) d |= bit(a, i) << (63 - i);
    return d;
  });
  check("bfind.s32 D, A;", INTEGERS, [](auto a, auto, auto) {
    uint64_t d = ~0u;
    for (uint64_t i = 0; i < 32; ++i) d = bit(a, i) != bit(a, 31) ? i : d;
    return d;
  });
  check("clz.b64 D, AA;", INTEGERS, [](auto a, auto, auto) {
    uint64_t d = 0;
    while (d < 64 && !bit(a, 63 - d)) ++d;
    return d;
  });
  check("dp4a.s32.u32 D, A, B, C;", INTEGERS, [](auto a, auto b, auto c) {
    for (int i = 0; i < 32; i += 8) {
      c += static_cast<uint64_t>(static_cast<int8_t>(a >> i) * static_cast<uint8_t>(b >> i));
    }
    return u32(c);
  });
  check("mov.b64 {A, B}, AA;\nmov.b64 DD, {B, A};", INTEGERS,
        [](auto a, auto, auto) { return a >> 32 | a << 32; });
  check("mov.b32 {A0, B0}, A;\nmov.b64 DD, {B0, A0, C0, A0};", INTEGERS, [](auto a, auto, auto c) {
    return (a >> 16 & 0xffff) | (a & 0xffff) << 16 | (c & 0xffff) << 32 | a << 48;
  });
}

TEST_CASE("the carry flag goes from one instruction to the next") {
  check("add.cc.u32 A, A, B;\naddc.cc.u32 B, B, C;\naddc.u32 C, C, 0;\nmov.b64 DD, {B, C};",
        INTEGERS, [](auto a, auto b, auto c) {
          const uint64_t low = uint64_t{u32(a)} + u32(b), high = uint64_t{u32(b)} + u32(c);
          return u32(high + (low >> 32)) | uint64_t{u32(c + (high + (low >> 32) > UINT32_MAX))}
                                               << 32;
        });
  check("sub.cc.u32 A, A, B;\nsubc.u32 B, C, B;\nmov.b64 DD, {A, B};", INTEGERS,
        [](auto a, auto b, auto c) {
          return u32(a - b) | uint64_t{u32(c - b - (u32(a) < u32(b)))} << 32;
        });
  check("sub.cc.u32 A, A, B;\nsubc.cc.u32 B, C, B;\naddc.u32 D, 0, 0;", INTEGERS,
        [](auto a, auto b, auto c) {  // the flag says that nothing was borrowed
          return uint64_t{u32(c)} >= uint64_t{u32(b)} + (u32(a) < u32(b));
        });
  check(  // of each lane
      "add.cc.u32 A, A, B;\nsetp.lt.s32 %p1, C, 0;\n@%p1 add.cc.u32 B, 0, 0;\naddc.u32 D, 0, 0;",
      INTEGERS,
      [](auto a, auto b, auto c) { return s32(c) >= 0 && uint64_t{u32(a)} + u32(b) > UINT32_MAX; });
  check("mad.lo.cc.u32 A, B, C, A;\nmadc.hi.u32 D, B, C, 0;", INTEGERS,
        [](auto a, auto b, auto c) { return (uint64_t{u32(b)} * u32(c) + u32(a)) >> 32; });
}

TEST_CASE("predicates") {
  check(
      "setp.gt.s32 %p1, C, 0;\nsetp.lt.and.s32 %p2|%p3, A, B, !%p1;\n"
      "selp.b32 A, 1, 0, %p2;\nselp.b32 B, 2, 0, %p3;\nor.b32 D, A, B;",
      INTEGERS, [](auto a, auto b, auto c) {
        const bool less = s32(a) < s32(b), other = s32(c) <= 0;
        return (less && other ? 1u : 0u) | (!less && other ? 2u : 0u);
      });
  check(
      "setp.lt.f32 %p1, A, B;\nsetp.geu.xor.f32 %p2, A, B, %p1;\nnot.pred %p3, %p2;\n"
      "selp.b32 D, 1, 0, %p3;",
      FLOATS, [](auto, auto, auto) { return 0; });
  check("setp.nan.f32 %p1, A, B;\nselp.b32 D, A, B, %p1;", FLOATS,
        [](auto a, auto b, auto) { return std::isunordered(f32(a), f32(b)) ? a : b; });
  // A divisor above 2^126.
  check("div.approx.f32 D, A, 0fFF000000;", FLOATS, [](auto a, auto, auto) {
    return (a & 0x7f800000) == 0x7f800000 ? 0x7fffffff : ~a & 0x80000000;
  });
  check("set.le.u32.f32 D, A, B;", FLOATS,
        [](auto a, auto b, auto) { return f32(a) <= f32(b) ? ~0u : 0u; });
}

TEST_CASE("f32 arithmetic in every rounding") {
  for (const std::string mode : {"rn", "rz", "rm", "rp"}) {
    check("mul." + mode + ".f32 D, A, B;", FLOATS,
          [&mode](auto a, auto b, auto) { return bits(rounded(double{f32(a)} * f32(b), mode)); });
    check("add." + mode + ".f32 D, A, B;",
          {0x3f800000, 0x3f800001, 0xbf800000, 0x33800000, 0x34000000, 0x4b800000, 0xb3000001,
           0x40490fdb},
          [&mode](auto a, auto b, auto) {
            const double exact = double{f32(a)} + f32(b);  // exponents are near enough
            if (exact == 0 && mode == "rm") return bits(-0.0f);
            return bits(rounded(exact, mode));
          });
    check("fma." + mode + ".f32 D, A, B, C;", {0x3f800000, 0x3f800001, 0xbf800003, 0x3f7fffff},
          [&mode](auto a, auto b, auto c) {
            const double exact = double{f32(a)} * f32(b) + f32(c);
            if (exact == 0 && mode == "rm") return bits(-0.0f);
            return bits(rounded(exact, mode));
          });
  }
  check("fma.rn.f32 D, A, B, C;", FLOATS,
        [](auto a, auto b, auto c) { return bits(std::fma(f32(a), f32(b), f32(c))); });
  check("div.rn.f32 D, A, B;", FLOATS, [](auto a, auto b, auto) { return bits(f32(a) / f32(b)); });
}

TEST_CASE("flushing, saturation and extremes") {
  const auto flushed = [](float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
  };
  check("mul.rn.ftz.f32 D, A, B;", FLOATS,
        [&](auto a, auto b, auto) { return bits(flushed(flushed(f32(a)) * flushed(f32(b)))); });
  check("add.sat.f32 D, A, B;", FLOATS, [](auto a, auto b, auto) {
    const float sum = f32(a) + f32(b);
    return bits(sum > 1 ? 1 : sum > 0 ? sum : 0);
  });
  const auto extreme = [](float a, float b, bool maximum) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
    if (a == b) return std::signbit(a) != maximum ? a : b;
    return (a < b) != maximum ? a : b;
  };
  check("max.f32 D, A, B;", FLOATS,
        [&](auto a, auto b, auto) { return bits(extreme(f32(a), f32(b), true)); });
  check("min.f32 D, A, B;", FLOATS,
        [&](auto a, auto b, auto) { return bits(extreme(f32(a), f32(b), false)); });
  check("max.NaN.f32 D, A, B;", FLOATS, [&](auto a, auto b, auto) {
    return std::isunordered(f32(a), f32(b)) ? 0x7fffffff : bits(extreme(f32(a), f32(b), true));
  });
}

TEST_CASE("packed halves are two halves") {
  for (const std::string type : {"f16", "bf16"}) {
    for (const std::string op : {"add.rn.", "mul.rn.", "fma.rn.", "max.NaN.", "fma.rn.relu."}) {
      const bool three = op.starts_with("fma");
      const std::string parts =
          "mov.b32 {A0, B0}, A;\nmov.b32 {C0, D0}, B;\n.reg .b16 E0, F0;\nmov.b32 {E0, F0}, C;\n" +
          op + type + " A0, A0, C0" + (three ? ", E0" : "") + ";\n" + op + type + " B0, B0, D0" +
          (three ? ", F0" : "") + ";\nmov.b32 D, {A0, B0};\nmov.b16 D0, 0;";
      const std::string packed = op + type + "x2 D, A, B" + (three ? ", C;" : ";");
      const Values operands = triples(
          {0x3c003f80, 0x7bff0001, 0x80010000, 0x7e00fc00, 0xbc01bf81, 0x04000080, 0x12345678});
      CHECK(run(packed, operands) == run(parts, operands));
    }
  }
}

TEST_CASE("conversions at the limits") {
  check("cvt.rni.s32.f32 D, A;", FLOATS, [](auto a, auto, auto) {
    const double value = std::nearbyint(f32(a));
    if (value != value) return 0u;
    return static_cast<uint32_t>(
        static_cast<int32_t>(std::min(std::max(value, -0x1p31), 0x1p31 - 1)));
  });
  check("cvt.rzi.u64.f32 DD, A;", FLOATS, [](auto a, auto, auto) {
    const float value = std::trunc(f32(a));
    if (value != value) return 1ull << 63;
    return value >= 0x1p64f ? ~0ull : value <= 0 ? 0ull : static_cast<unsigned long long>(value);
  });
  check("cvt.sat.s8.s32 D, A;", INTEGERS,
        [](auto a, auto, auto) { return u32(std::min(std::max(s32(a), -128), 127)); });
  check("cvt.rn.sat.f32.s32 D, A;", INTEGERS,
        [](auto a, auto, auto) { return bits(s32(a) > 0 ? 1 : 0); });
  check("cvt.s64.s8 DD, AA;", INTEGERS,
        [](auto a, auto, auto) { return static_cast<uint64_t>(static_cast<int8_t>(a)); });
  check("cvt.u16.s8 D, A;", INTEGERS,
        [](auto a, auto, auto) { return static_cast<uint16_t>(static_cast<int8_t>(a)); });
  for (const std::string mode : {"rn", "rz", "rm", "rp"}) {
    check("cvt." + mode + ".f32.s64 D, AA;", INTEGERS, [&mode](auto a, auto, auto) {
      const long double exact = static_cast<long double>(s64(a));
      const float nearest = static_cast<float>(exact);
      const bool down = mode == "rm" || (mode == "rz" && exact > 0);
      if (mode == "rn" || nearest == exact) return bits(nearest);
      if (down) return bits(nearest > exact ? std::nextafterf(nearest, -INFINITY) : nearest);
      return bits(nearest < exact ? std::nextafterf(nearest, INFINITY) : nearest);
    });
  }
  check("cvt.rn.bf16x2.f32 D, A, B;", FLOATS, [](auto a, auto b, auto) {
    const auto half = [](float x) {
      if (x != x) return 0x7fffu;
      const uint32_t lower = std::bit_cast<uint32_t>(x) & 0xffff0000, upper = lower + 0x10000;
      const double below = std::bit_cast<float>(lower), y = x;
      // What is above the largest number counts as its double.
      const double above =
          upper << 1 == 0xff000000 ? std::copysign(0x1p128, y) : std::bit_cast<float>(upper);
      if (std::isinf(x) || y == below) return lower >> 16;
      const double to_below = std::fabs(y - below), to_above = std::fabs(above - y);
      const bool up = to_above < to_below || (to_above == to_below && (lower >> 16 & 1));
      return (up ? upper : lower) >> 16;
    };
    return half(f32(a)) << 16 | half(f32(b));
  });
}

TEST_CASE("only the lanes of the guard are written") {
  check("setp.ne.s32 %p1, C, 7;\nmov.b32 D, B;\n@%p1 add.s32 D, A, B;", INTEGERS,
        [](auto a, auto b, auto c) { return u32(c) == 7 ? u32(b) : u32(a + b); });
  check("setp.ne.s32 %p1, C, 7;\n@%p1 mov.b64 DD, {A, B};", INTEGERS,
        [](auto a, auto b, auto c) { return u32(c) == 7 ? 0 : u32(a) | b << 32; });
  check(
      "setp.ne.s32 %p1, C, 7;\nsetp.eq.s32 %p2, A, A;\n@%p1 setp.lt.s32 %p2, A, B;\n"
      "selp.b32 D, 1, 0, %p2;",
      INTEGERS, [](auto a, auto b, auto c) { return u32(c) == 7 || s32(a) < s32(b); });
}
