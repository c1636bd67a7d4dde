// The rules of ladder_gemm_fused().
#include <algorithm>

#include "common/host/fused.h"
#include "common/host/rules.h"
#include "common/host/text.h"

namespace ladder {
namespace {

constexpr int TURNS = 16;  // columns of A·B^T of a turn: 8 of the gate, 8 of up

int bits_of_type(int type) {
  return type == LADDER_FP32 ? 32 : 16;
}

}  // namespace

std::string fused_violations(const GridRules& rules, const FusedArgs& args) {
  Rules wrong;
  const int activation =
      wrong.choice("activation", args.activation, {0, 1, 2, 3, 4, 5},
                   "0 (none), 1 (relu), 2 (gelu), 3 (gelu_tanh), 4 (silu) or 5 (swiglu)");
  const int bits = bits_of_type(
      wrong.choice("type_d", args.type_d, {LADDER_BF16, LADDER_FP32}, "0 (bf16) or 5 (fp32)"));
  const bool gated = activation == LADDER_SWIGLU;
  int m = wrong.size("m", args.m), n = wrong.size("n", args.n);
  const int k = wrong.size("k", args.k);
  if (gated && n % TURNS != 0) {
    const int nearest = std::max(TURNS, (n + TURNS / 2 - 1) / TURNS * TURNS);
    wrong.add(
        format("n is %d: swiglu takes gate and up in turns of 8 rows of B, so n must be a "
               "multiple of 16; the nearest that works is %d.",
               n, nearest));
    n = nearest;
  }
  if (gated && args.reads_c()) {
    wrong.add(format("beta is %g: swiglu adds no C; the nearest that works is 0.",
                     static_cast<double>(args.beta)));
  }
  wrong.limit(rules, args.max_ctas);
  if (m == 0 || n == 0) return wrong.text();

  std::vector<Operand> read = {Operand::workspace(args)};
  if (k > 0 && args.alpha != 0) {
    read.push_back(wrong.matrix("a", "lda", "m", "k", args.a, args.lda, 16, &m, k));
    read.push_back(
        wrong.matrix("b", "ldb", "n", "k", args.b, args.ldb, 16, &n, k, gated ? TURNS : 1));
  }
  if (n == 0) return wrong.text();
  const bool reads_c = args.reads_c() && !gated;
  Operand c{};
  if (reads_c) c = wrong.matrix("c", "ldc", "m", "n", args.c, args.ldc, bits, &m, n);
  if (args.bias != nullptr) {
    Operand bias = wrong.memory("bias", "its n elements", args.bias);
    bias.bytes = static_cast<size_t>(n) * static_cast<size_t>(bits) / 8;
    read.push_back(bias);
  }
  Operand d = wrong.matrix("d", "ldd", "m", gated ? "n/2" : "n", args.d, args.ldd, bits, &m,
                           gated ? n / 2 : n);
  const bool in_place = reads_c && args.c == args.d && args.c != nullptr;
  if (in_place && c.ld != d.ld) {
    wrong.add(
        format("ldc is %lld: D is C itself, so that ldc must be ldd = %lld; the nearest that works "
               "is %lld.",
               static_cast<long long>(args.ldc), d.ld, d.ld));
    c.bytes = d.bytes;  // as with that ldc
  }
  if (!in_place) read.push_back(c);
  wrong.apart(&d, read, c);
  return wrong.text();
}

}  // namespace ladder
