// Products of any type and layout: what is refused, in which words, that doing what they say is enough;
// and whether the check of results in fp16 and fp32 can fail.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "common/host/tolerance.h"
#include "common/host/typed.h"
#include "common/host/verify_cpu.h"
#include "tests/support/sentences.h"

using ladder::bf16;
using ladder::Data;
using ladder::Element;
using ladder::fp16;
using ladder::Shape;
using ladder::tf32;
using ladder::TypedArgs;
using ladder_test::check;
using ladder_test::draw_sizes;
using ladder_test::lines;
using ladder_test::refused_and_mended;

namespace {

const void* at(uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

// 100 x 200 x 300, three matrices far apart; leading dimensions that suit every layout and type.
TypedArgs good_call() {
  TypedArgs args;
  args.m = 100;
  args.n = 200;
  args.k = 300;
  args.a = at(0x10000000);
  args.lda = 304;
  args.b = at(0x20000000);
  args.ldb = 304;
  args.d = const_cast<void*>(at(0x30000000));
  args.ldd = 200;
  return args;
}

// Does what every sentence says, as a caller would: sets what its first word names to its last number.
void follow(const std::string& text, TypedArgs* args) {
  for (const std::string& line : lines(text)) {
    CAPTURE(line);
    const std::string name = line.substr(0, line.find(' '));
    if (line.find("is null") != std::string::npos) {
      if (name == "a") args->a = at(0x40000000000);
      if (name == "b") args->b = at(0x80000000000);
      if (name == "d") args->d = const_cast<void*>(at(0xc0000000000));
      continue;
    }
    const long long value = std::strtoll(line.c_str() + line.rfind(' ') + 1, nullptr, 0);
    int* const numbers[] = {&args->m,    &args->n,      &args->k,          &args->max_ctas,
                            &args->type, &args->type_d, &args->mn_major_a, &args->mn_major_b};
    const char* const names[] = {"m",    "n",      "k",          "max_ctas",
                                 "type", "type_d", "mn_major_a", "mn_major_b"};
    bool known = false;
    for (size_t i = 0; i < std::size(names); ++i) {
      if (name != names[i]) continue;
      *numbers[i] = static_cast<int>(value);
      known = true;
    }
    if (name == "lda") args->lda = value;
    if (name == "ldb") args->ldb = value;
    if (name == "ldd") args->ldd = value;
    if (name == "a") args->a = at(static_cast<uintptr_t>(value));
    if (name == "b") args->b = at(static_cast<uintptr_t>(value));
    if (name == "d") args->d = const_cast<void*>(at(static_cast<uintptr_t>(value)));
    for (const char* other : {"lda", "ldb", "ldd", "a", "b", "d"}) known = known || name == other;
    REQUIRE(known);
  }
}

void refused(TypedArgs args, const std::vector<std::string>& sentences) {
  const std::string text = check(args);
  CAPTURE(text);
  CHECK(lines(text) == sentences);
  follow(text, &args);
  CHECK(check(args) == "");
}

// A product of K = 100, and D in Out, as one that is right, or wrong in a way, would have it.
template <class In, class Out>
struct Product {
  static constexpr int M = 48, N = 40, K = 100;
  std::vector<In> a, b;
  std::vector<Out> d;
  std::vector<double> r, s;

  explicit Product(Data data, int k_used = K) : a(M * K), b(N * K), d(M * N), r(M * N), s(M * N) {
    for (int i = 0; i < M * K; ++i) a[i] = Element<In>::from_float(ladder::data_value(data, 1, i));
    for (int i = 0; i < N * K; ++i) b[i] = Element<In>::from_float(ladder::data_value(data, 2, i));
    ladder::reference_cpu(M, N, k_used, a.data(), K, b.data(), K, r.data(), s.data());
    for (int i = 0; i < M * N; ++i) d[i] = Element<Out>::from_double(r[i]);
  }
  ladder::Verdict verify(bool exact) const {
    return ladder::verify_cpu(d.data(), N, M, N, r.data(), s.data(), exact);
  }
};

template <class In, class Out>
void check_the_check() {
  using P = Product<In, Out>;
  constexpr int ELEMENTS = P::M * P::N;
  for (const bool exact : {false, true}) {
    const Data data = exact ? Data::ints : Data::normal;
    CHECK(P(data).verify(exact).ok());
    P wrong(data);
    wrong.d[777] = Element<Out>::from_float(std::numeric_limits<float>::quiet_NaN());
    CHECK(wrong.verify(exact).wrong == 1);
    wrong = P(data);
    wrong.d[777] = Element<Out>::from_float(Element<Out>::to_float(wrong.d[777]) + 1);
    CHECK(wrong.verify(exact).wrong == 1);
    wrong.d = std::vector<Out>(ELEMENTS, Element<Out>::from_float(0));
    CHECK(wrong.verify(exact).wrong > ELEMENTS / 2);
    wrong = P(data);
    for (int row = 0; row < P::N; ++row) {
      for (int col = 0; col < row; ++col)
        std::swap(wrong.d[row * P::N + col], wrong.d[col * P::N + row]);
    }
    CHECK(wrong.verify(exact).wrong > P::N * P::N / 2);
    wrong.d = P(data, P::K - 8).d;  // a slab left out
    CHECK(wrong.verify(exact).wrong > ELEMENTS / 2);
  }
  // One that was rounded to bf16 on its way; of fp32 also to fp16.
  P rounded(Data::normal);
  for (int i = 0; i < ELEMENTS; ++i) {
    const float narrow = Element<bf16>::to_float(Element<bf16>::from_double(rounded.r[i]));
    rounded.d[i] = Element<Out>::from_float(narrow);
  }
  CHECK(rounded.verify(false).wrong > ELEMENTS / 2);
  if constexpr (sizeof(Out) == 4) {
    for (int i = 0; i < ELEMENTS; ++i) {
      rounded.d[i] = Element<fp16>::to_float(Element<fp16>::from_double(rounded.r[i]));
    }
    CHECK(rounded.verify(false).wrong > ELEMENTS / 2);
  }
}

}  // namespace

TEST_CASE("typed: right calls of every type and layout are accepted") {
  int calls = 0;
  for (const ladder::TypePair& types : ladder::TYPE_PAIRS) {
    for (const ladder::Layout& layout : ladder::LAYOUTS) {
      if (types.type == LADDER_TF32 && (layout.mn_major_a || layout.mn_major_b)) continue;
      TypedArgs args = good_call();
      args.type = types.type;
      args.type_d = types.type_d;
      args.mn_major_a = layout.mn_major_a;
      args.mn_major_b = layout.mn_major_b;
      CHECK(check(args) == "");
      ++calls;
    }
  }
  CHECK(calls == 27);
}

TEST_CASE("typed: types and majors that are none") {
  TypedArgs args = good_call();
  args.type = 3;
  refused(args,
          {"type is 3: it must be 0 (bf16), 1 (fp16) or 2 (tf32); the nearest that works is 2."});
  args.type = -7;
  refused(args,
          {"type is -7: it must be 0 (bf16), 1 (fp16) or 2 (tf32); the nearest that works is 0."});
  args = good_call();
  args.type_d = LADDER_TF32;
  refused(args,
          {"type_d is 2: it must be 0 (bf16), 1 (fp16) or 5 (fp32); the nearest that works is 1."});
  args = good_call();
  args.mn_major_a = 2;
  args.mn_major_b = -1;
  refused(args,
          {"mn_major_a is 2: it must be 0 (K-major) or 1 (MN-major); the nearest that works is 1.",
           "mn_major_b is -1: it must be 0 (K-major) or 1 (MN-major); the nearest that works is "
           "0."});
  args = good_call();
  args.type = LADDER_TF32;
  args.mn_major_b = 1;
  refused(args,
          {"mn_major_b is 1: it must be 0, K-major, for tf32, which wgmma multiplies in layout "
           "TN alone; the nearest that works is 0."});
}

TEST_CASE("typed: leading dimensions are those of the layout, their multiples those of the type") {
  TypedArgs args = good_call();  // 100 x 200 x 300
  args.mn_major_a = 1;
  args.lda = 96;
  refused(args,
          {"lda is 96: it must be at least m = 100 and a multiple of 8 elements; the nearest that "
           "works is 104."});
  args.mn_major_a = 0;
  refused(args,
          {"lda is 96: it must be at least k = 300 and a multiple of 8 elements; the nearest that "
           "works is 304."});
  args = good_call();
  args.mn_major_b = 1;
  args.ldb = 199;
  refused(args,
          {"ldb is 199: it must be at least n = 200 and a multiple of 8 elements; the nearest that "
           "works is 200."});
  args = good_call();
  args.type = LADDER_TF32;
  args.type_d = LADDER_FP32;
  args.lda = 300;
  args.ldd = 204;
  CHECK(check(args) == "");
  args.lda = 302;
  args.ldd = 206;
  refused(args,
          {"lda is 302: it must be a multiple of 4 elements; the nearest larger that works is 304.",
           "ldd is 206: it must be a multiple of 4 elements; the nearest larger that works is "
           "208."});
}

TEST_CASE("typed: D shares no byte with an operand that lies the other way round") {
  TypedArgs args = good_call();
  args.mn_major_a = 1;  // 300 rows of 104, the last one 100: 62,392 bytes
  args.lda = 104;
  args.d = const_cast<void*>(at(0x10000000 + 62400));
  CHECK(check(args) == "");
  args.d = const_cast<void*>(at(0x10000000 + 62384));
  CHECK(check(args).find("overlaps A") != std::string::npos);
  follow(check(args), &args);
  CHECK(check(args) == "");
}

TEST_CASE("typed: following suggestions works for any combination of mistakes") {
  const int sizes[] = {-7, 0, 1, 100, 1 << 24, 2147483647};
  const int codes[] = {-1, 0, 1, 2, 3, 5, 6, 1000};
  const int majors[] = {0, 1, 1, 2, -5};
  const long long lds[] = {-1, 0, 100, 104, 1LL << 24, (1LL << 39) + 1};
  const uintptr_t pointers[] = {0, 0x1000, 0x1004, 0x2000};
  const auto make = [&](auto& draw) {
    TypedArgs args;
    args.type = draw(codes);
    args.type_d = draw(codes);
    args.mn_major_a = draw(majors);
    args.mn_major_b = draw(majors);
    draw_sizes(draw, sizes, lds, &args);
    args.a = at(draw(pointers));
    args.b = at(draw(pointers));
    args.d = const_cast<void*>(at(draw(pointers)));
    return args;
  };
  CHECK(refused_and_mended(make, follow) > 1000);
}

TEST_CASE("typed: sizes, types and layout of a shape") {
  Shape shape{3, 5, 7};
  const auto sizes = [](const Shape& of) {
    return *std::static_pointer_cast<TypedArgs>(TypedArgs::kind().sizes_of(of));
  };
  CHECK(ladder::parameters_text(TypedArgs::kind(), shape) == "type=bf16,layout=TN");
  CHECK(sizes(shape).type == LADDER_BF16);
  shape.parameters = {6, 0};
  CHECK(ladder::parameters_text(TypedArgs::kind(), shape) == "type=tf32,layout=TN");
  CHECK(sizes(shape).type == LADDER_TF32);
  CHECK(sizes(shape).type_d == LADDER_FP32);
  CHECK(sizes(shape).lda == 8);
  CHECK(sizes(shape).ldd == 8);
  shape = {17, 33, 9, {4, 2}};
  CHECK(ladder::parameters_text(TypedArgs::kind(), shape) == "type=fp16_fp32,layout=NT");
  CHECK(sizes(shape).mn_major_a == 1);
  CHECK(sizes(shape).mn_major_b == 1);
  CHECK(sizes(shape).lda == 24);  // of m
  CHECK(sizes(shape).ldb == 40);  // of n
  CHECK(sizes(shape).ldd == 36);
}

TEST_CASE("typed: the check of fp16 and fp32 results can fail") {
  check_the_check<fp16, fp16>();
  check_the_check<bf16, float>();
  check_the_check<tf32, float>();
}

TEST_CASE("tolerance: of an fp32 output, what tensor cores cut off") {
  CHECK(ladder::within_tolerance(1, 0, 131072, 24));
  CHECK_FALSE(ladder::within_tolerance(1.0001, 0, 131072, 24));
  // An H200's tf32 product at K = 16384, to fp16: cut off, it is on the other side of the middle.
  CHECK(ladder::within_tolerance(130, 130.073929, 10430, 11));
  CHECK_FALSE(ladder::within_tolerance(129.875, 130.073929, 10430, 11));
  // Subnormal numbers of fp16 are 2^-24 apart, so that the nearest is half of that away at most.
  CHECK(ladder::within_tolerance(-3.85642052e-05, -3.85916792e-05, 3.86e-05, 11));
  CHECK_FALSE(ladder::within_tolerance(-3.85642052e-05 + 0x1p-24, -3.85916792e-05, 3.86e-05, 11));
  CHECK_FALSE(ladder::within_tolerance(-3.85642052e-05, -3.85916792e-05, 3.86e-05, 24));
  CHECK(ladder::within_tolerance(16777216 + 1, 16777216, 0, 24));
  CHECK_FALSE(ladder::within_tolerance(16777216 + 1.01, 16777216, 0, 24));
}

TEST_CASE("tf32: an element is rounded to nearest, to even, as TMA does it") {
  const auto rounded = [](uint32_t bits) {
    return std::bit_cast<uint32_t>(Element<tf32>::to_float({std::bit_cast<float>(bits)}));
  };
  CHECK(rounded(0x3f800000) == 0x3f800000);
  CHECK(rounded(0x3f800fff) == 0x3f800000);
  CHECK(rounded(0x3f801000) == 0x3f800000);
  CHECK(rounded(0x3f801001) == 0x3f802000);
  CHECK(rounded(0x3f803000) == 0x3f804000);
  CHECK(rounded(0xbf801001) == 0xbf802000);
  CHECK(rounded(0x7f7fffff) == 0x7f800000);  // over the largest
  CHECK(rounded(0x7f800000) == 0x7f800000);
  CHECK(std::isnan(Element<tf32>::to_float({std::numeric_limits<float>::quiet_NaN()})));
}
