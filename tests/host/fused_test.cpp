// Products with an epilogue: what is refused, in which words, that doing what they say is enough;
// the polynomial of gelu; how a tile's results are divided into parts.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "common/host/fused.h"
#include "common/host/fused_verify.cuh"
#include "common/tile/activation.h"
#include "tests/support/sentences.h"

using ladder::FusedArgs;
using ladder::Shape;
using ladder_test::check;
using ladder_test::draw_sizes;
using ladder_test::lines;
using ladder_test::refused_and_mended;

namespace {

const void* at(uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}
const ladder::bf16* operand_at(uintptr_t address) {
  return static_cast<const ladder::bf16*>(at(address));
}

// 100 x 208 x 300 with C and bias, all far apart.
FusedArgs good_call() {
  FusedArgs args;
  args.m = 100;
  args.n = 208;
  args.k = 300;
  args.a = operand_at(0x10000000);
  args.lda = 304;
  args.b = operand_at(0x20000000);
  args.ldb = 304;
  args.beta = 0.5f;
  args.c = at(0x30000000);
  args.ldc = 216;
  args.bias = at(0x40000000);
  args.d = const_cast<void*>(at(0x50000000));
  args.ldd = 224;
  return args;
}

FusedArgs good_gate() {
  FusedArgs args = good_call();
  args.activation = LADDER_SWIGLU;
  args.beta = 0;
  args.ldd = 104;
  return args;
}

// Does what every sentence says, as a caller would: sets what its first word names to its last
// number.
void follow(const std::string& text, FusedArgs* args) {
  for (const std::string& line : lines(text)) {
    CAPTURE(line);
    const std::string name = line.substr(0, line.find(' '));
    const bool null = line.find("is null") != std::string::npos;
    const long long value = std::strtoll(line.c_str() + line.rfind(' ') + 1, nullptr, 0);
    int* const numbers[] = {&args->m,        &args->n,          &args->k,
                            &args->max_ctas, &args->activation, &args->type_d};
    const char* const names[] = {"m", "n", "k", "max_ctas", "activation", "type_d"};
    bool known = false;
    for (size_t i = 0; i < std::size(names); ++i) {
      if (name != names[i]) continue;
      *numbers[i] = static_cast<int>(value);
      known = true;
    }
    if (name == "beta") args->beta = static_cast<float>(value);
    long long* const lds[] = {&args->lda, &args->ldb, &args->ldc, &args->ldd};
    const char* const ld_names[] = {"lda", "ldb", "ldc", "ldd"};
    for (size_t i = 0; i < std::size(ld_names); ++i) {
      if (name == ld_names[i]) *lds[i] = value;
      known = known || name == ld_names[i];
    }
    const auto pointer = [&](uintptr_t instead) {
      return null ? instead : static_cast<uintptr_t>(value);
    };
    if (name == "a") args->a = operand_at(pointer(0x40000000000));
    if (name == "b") args->b = operand_at(pointer(0x80000000000));
    if (name == "c") args->c = at(pointer(0xa0000000000));
    if (name == "bias") args->bias = at(pointer(0xb0000000000));
    if (name == "d") args->d = const_cast<void*>(at(pointer(0xc0000000000)));
    for (const char* other : {"beta", "a", "b", "c", "bias", "d"}) known = known || name == other;
    REQUIRE(known);
  }
}

void refused(FusedArgs args, const std::vector<std::string>& sentences) {
  const std::string text = check(args);
  CAPTURE(text);
  CHECK(lines(text) == sentences);
  follow(text, &args);
  CHECK(check(args) == "");
}

// As common/block/activation.cuh has it.
float log2_phi(float t) {
  float sum = 0;
  for (int i = tile::LOG2_PHI_DEGREE; i >= 0; --i) {
    sum = std::fma(sum, t, tile::LOG2_PHI[i]);
  }
  return sum;
}

double phi(double t) {
  return 0.5 * std::erfc(t * 0.70710678118654752);
}

}  // namespace

TEST_CASE("fused: right calls of every activation and type are accepted") {
  for (int activation = LADDER_NONE; activation <= LADDER_SWIGLU; ++activation) {
    for (const int type : {LADDER_BF16, LADDER_FP32}) {
      FusedArgs args = activation == LADDER_SWIGLU ? good_gate() : good_call();
      args.activation = activation;
      args.type_d = type;
      CHECK(check(args) == "");
      args.bias = nullptr;
      CHECK(check(args) == "");
      args.beta = 0;
      args.c = nullptr;
      args.ldc = 0;
      CHECK(check(args) == "");
      args.a = args.b = nullptr;
      args.lda = args.ldb = -1;
      args.alpha = 0;
      CHECK(check(args) == "");
      args.alpha = 1;
      args.k = 0;
      CHECK(check(args) == "");
      args.m = 0;
      args.d = nullptr;
      CHECK(check(args) == "");
    }
  }
}

TEST_CASE("fused: codes that are none") {
  FusedArgs args = good_call();
  args.activation = 6;
  args.beta = 0;
  args.ldd = 208;
  refused(args,
          {"activation is 6: it must be 0 (none), 1 (relu), 2 (gelu), 3 (gelu_tanh), 4 (silu) or "
           "5 (swiglu); the nearest that works is 5."});
  args = good_call();
  args.type_d = LADDER_FP16;
  refused(args, {"type_d is 1: it must be 0 (bf16) or 5 (fp32); the nearest that works is 0."});
}

TEST_CASE("fused: a gate takes turns of 8 and no C, and gives half the columns") {
  FusedArgs args = good_gate();
  args.n = 200;
  refused(args,
          {"n is 200: swiglu takes gate and up in turns of 8 rows of B, so n must be a multiple of "
           "16; the nearest that works is 192."});
  for (const auto& [n, nearest] : {std::pair{8, "16."}, {31, "32."}, {24, "16."}, {25, "32."}}) {
    CAPTURE(n);
    args.n = n;
    const std::string said = "the nearest that works is " + std::string(nearest);
    CHECK(lines(check(args)).at(0).find(said) != std::string::npos);
  }
  args = good_gate();
  args.beta = 2;
  refused(args, {"beta is 2: swiglu adds no C; the nearest that works is 0."});
  args = good_gate();
  args.ldd = 96;
  refused(
      args,
      {"ldd is 96: it must be at least n/2 = 104 and a multiple of 8 elements; the nearest that "
       "works is 104."});
}

TEST_CASE("fused: C and bias where they are read") {
  FusedArgs args = good_call();
  args.c = nullptr;
  refused(args,
          {"c is null: it must point to device memory for the m x n elements of the matrix."});
  args = good_call();
  args.ldc = 200;
  refused(args,
          {"ldc is 200: it must be at least n = 208 and a multiple of 8 elements; the nearest that "
           "works is 208."});
  args = good_call();
  args.bias = at(0x40000008);
  refused(args, {"bias is 0x40000008: it must be a multiple of 16 bytes; the nearest below is "
                 "0x40000000."});
  args = good_call();
  args.type_d = LADDER_FP32;
  args.ldc = 212;
  CHECK(check(args) == "");
  args.ldc = 210;
  refused(
      args,
      {"ldc is 210: it must be a multiple of 4 elements; the nearest larger that works is 212."});
}

TEST_CASE("fused: D may be C itself, and shares no byte with anything else") {
  FusedArgs args = good_call();
  args.c = args.d;
  args.ldc = args.ldd;
  CHECK(check(args) == "");
  args.ldc = 232;
  refused(args, {"ldc is 232: D is C itself, so that ldc must be ldd = 224; the nearest that works "
                 "is 224."});
  args.ldc = 231;
  refused(args,
          {"ldc is 231: it must be a multiple of 8 elements; the nearest larger that works is "
           "232.",
           "ldc is 231: D is C itself, so that ldc must be ldd = 224; the nearest that works "
           "is 224."});
  args = good_call();
  args.c = at(0x50000010);  // another place
  for (const long long ldc : {args.ldc, args.ldd}) {
    args.ldc = ldc;
    CHECK(check(args).find("overlaps c") != std::string::npos);
  }
  args.beta = 0;  // it is not read
  CHECK(check(args) == "");
  args = good_call();
  args.bias = args.d;
  CHECK(check(args).find("overlaps bias") != std::string::npos);
  for (const int type : {LADDER_BF16, LADDER_FP32}) {
    args.type_d = type;
    const uintptr_t bytes = 208 * (type == LADDER_FP32 ? 4 : 2);
    args.bias = at(0x50000000 - bytes);
    CHECK(check(args) == "");
    args.bias = at(0x50000000 - bytes + 16);
    CHECK(check(args).find("overlaps bias") != std::string::npos);
  }
  args = good_call();
  args.a = static_cast<const ladder::bf16*>(args.d);
  CHECK(check(args).find("overlaps a") != std::string::npos);
  args.k = 0;
  CHECK(check(args) == "");
  args = good_call();
  args.workspace = args.d;
  args.workspace_bytes = 1;
  CHECK(check(args).find("overlaps the workspace") != std::string::npos);
}

TEST_CASE("fused: following suggestions works for any combination of mistakes") {
  const int sizes[] = {-7, 0, 1, 100, 208, 1 << 24, 2147483647};
  const int codes[] = {-1, 0, 1, 2, 3, 4, 5, 5, 6, 1000};
  const float betas[] = {0, 0, 1};
  const long long lds[] = {-1, 0, 100, 104, 208, 1LL << 24, (1LL << 39) + 1};
  const uintptr_t pointers[] = {0, 0x1000, 0x1004, 0x2000};
  const auto make = [&](auto& draw) {
    FusedArgs args;
    args.activation = draw(codes);
    args.type_d = draw(codes);
    args.beta = draw(betas);
    draw_sizes(draw, sizes, lds, &args);
    args.ldc = draw(lds);
    args.a = operand_at(draw(pointers));
    args.b = operand_at(draw(pointers));
    args.c = at(draw(pointers));
    args.bias = at(draw(pointers));
    args.d = const_cast<void*>(at(draw(pointers)));
    return args;
  };
  CHECK(refused_and_mended(make, follow) > 1000);
}

TEST_CASE("fused: sizes, codes and what is added, of a shape") {
  const auto sizes = [](const Shape& of) {
    return *std::static_pointer_cast<FusedArgs>(FusedArgs::kind().sizes_of(of));
  };
  Shape shape{3, 32, 300};
  CHECK(ladder::parameters_text(FusedArgs::kind(), shape) == "act=none,type=bf16,add=bias");
  CHECK(sizes(shape).activation == LADDER_NONE);
  CHECK_FALSE(sizes(shape).reads_c());
  CHECK(sizes(shape).alpha == 0.0625f);
  CHECK(sizes(shape).ldd == 32);
  shape.parameters = {5, 1, 3};
  CHECK(ladder::parameters_text(FusedArgs::kind(), shape) ==
        "act=swiglu,type=bf16_fp32,add=nothing");
  CHECK(sizes(shape).columns() == 16);
  CHECK(sizes(shape).ldd == 16);
  shape.parameters = {4, 0, 1};
  CHECK(sizes(shape).activation == LADDER_SILU);
  CHECK(sizes(shape).reads_c());
}

// Phi by itself and what becomes of it in gelu, on the side that does not cancel.
TEST_CASE("gelu: the polynomial of log2(Phi(-t)) is as near as its comment says") {
  double near = 0, far = 0, of_gelu = 0;
  for (float t = 0; t < 13.1f; t += 1.0f / 4096) {
    const double off = std::exp2(double{log2_phi(t)}) / phi(double{t}) - 1;
    (t <= 5.5f ? near : far) = std::max(t <= 5.5f ? near : far, std::abs(off));
    const double f = double{t} * phi(double{t});
    of_gelu = std::max(of_gelu, (std::abs(off) * f - 0x1p-30 * double{t}) / f);
  }
  CHECK(near < std::exp2(-15.8));
  CHECK(near > std::exp2(-16.5));
  CHECK(far < std::exp2(-11.9));
  CHECK(of_gelu < std::exp2(-15.8));  // and 2^-15 leaves room for what ex2 and fp32 lose
  for (float t = 13.0f; t < 3e38f; t *= 1.01f) CHECK(log2_phi(t) < -120);
}

TEST_CASE("activations in double: known values, and how steep they are") {
  using ladder::activated;
  CHECK(activated(LADDER_RELU, -3.0) == 0);
  CHECK(activated(LADDER_RELU, 3.0) == 3);
  CHECK(std::isnan(activated(LADDER_RELU, std::nan(""))));
  CHECK(activated(LADDER_GELU, 1.0) == doctest::Approx(0.8413447460685429));
  CHECK(activated(LADDER_GELU, -1.0) == doctest::Approx(-0.15865525393145707));
  CHECK(activated(LADDER_GELU_TANH, 1.0) == doctest::Approx(0.8411919906082768));
  CHECK(activated(LADDER_SILU, 1.0) == doctest::Approx(0.7310585786300049));
  CHECK(activated(LADDER_SILU, -800.0) == 0);
  for (int activation = LADDER_NONE; activation <= LADDER_SWIGLU; ++activation) {
    double steepest = 0;
    for (double x = -20; x < 20; x += 1e-3) {
      const double rise = activated(activation, x + 1e-3) - activated(activation, x);
      steepest = std::max(steepest, std::abs(rise) / 1e-3);
    }
    CHECK(steepest <= ladder::steepest(activation) + 1e-9);
    CHECK(steepest > 0.99 * ladder::steepest(activation));
  }
}

TEST_CASE("fused: the parts of a tile are all of it, and three slots fit beside them") {
  for (const tile::FusedTile& config : tile::FUSED_CONFIGURATIONS) {
    for (const int inputs : {1, 2}) {
      for (const int bytes : {2, 4}) {
        if (!tile::has_fused_kernel(config, inputs, bytes)) continue;
        const tile::FusedParts parts{config, inputs, bytes};
        CAPTURE(config.name);
        CHECK(parts.of_block() * parts.part_columns() * inputs == parts.share());
        CHECK(parts.part_rows() == (config.sideways ? config.bn : 64));
        const int across = config.sideways ? 64 : config.bn;  // columns of A·B^T, of a block
        CHECK(across % parts.share() == 0);
        CHECK(across / parts.share() <= config.split);
        CHECK(parts.all() % parts.buffers() == 0);
        CHECK(parts.ring_slots(parts.buffers()) >= 3);
        CHECK(parts.part_columns() % 16 == 0);
        CHECK(parts.bias_bytes() % 128 == 0);
      }
    }
  }
}

TEST_CASE("fused: a gate's column and its up's are the turns of 8 of B's rows") {
  std::vector<int> uses(64);
  for (int col = 0; col < 32; ++col) {
    const auto gate = static_cast<int>(ladder::gate_column(col));
    CHECK(gate % 16 < 8);
    CHECK(gate / 16 == col / 8);
    ++uses[static_cast<size_t>(gate)];
    ++uses[static_cast<size_t>(gate) + 8];
  }
  CHECK(uses == std::vector<int>(64, 1));
}
