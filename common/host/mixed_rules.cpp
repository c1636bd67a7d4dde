#include "common/host/mixed_rules.h"

#include "common/host/rules.h"
#include "common/tile/packed_weights.h"

namespace ladder {
namespace {

int blocks_of(int k) {
  return tile::ceil_div(k, tile::PACKED_K);
}

}  // namespace

std::string mixed_violations(const GridRules& rules, const MixedArgs& args) {
  Rules wrong;
  const int bits = wrong.choice("bits", args.bits, {8, 4}, "8 or 4");
  int m = wrong.size("m", args.m), n = wrong.size("n", args.n), k = wrong.size("k", args.k);
  wrong.limit(rules, args.max_ctas);
  if (args.m == 0 || args.n == 0) return wrong.text();
  if (args.k == 0) {
    Operand d = wrong.matrix("d", "ldd", "m", "n", args.d, args.ldd, 16, &m, n);
    wrong.apart(&d, {Operand::workspace(args)});
    return wrong.text();
  }
  int blocks = blocks_of(k);
  const Operand a = wrong.matrix("a", "lda", "m", "k", args.a, args.lda, 16, &m, k);
  const Operand scale = wrong.matrix("scale", "ld_scale", "ceil(k/128)", "n", args.scale,
                                     args.ld_scale, 16, &blocks, n, 1, "k");
  Operand packed = wrong.memory("packed", "ladder_packed_bytes(bits, n, k) bytes", args.packed);
  Operand d = wrong.matrix("d", "ldd", "m", "n", args.d, args.ldd, 16, &m, n);
  packed.bytes = tile::packed_bytes(bits, n, k);
  wrong.apart(&d, {a, packed, scale, Operand::workspace(args)});
  return wrong.text();
}

std::string packed_size_violations(int bits, int n, int k) {
  Rules wrong;
  wrong.choice("bits", bits, {8, 4}, "8 or 4");
  wrong.size("n", n);
  wrong.size("k", k);
  return wrong.text();
}

std::string quantize_violations(const WeightsArgs& args) {
  Rules wrong;
  const int bits = wrong.choice("bits", args.bits, {8, 4}, "8 or 4");
  int n = wrong.size("n", args.n);
  const int k = wrong.size("k", args.k);
  if (args.n == 0 || args.k == 0) return wrong.text();
  int blocks = blocks_of(k);
  const Operand w = wrong.matrix("w", "ldw", "n", "k", args.w, args.ldw, 16, &n, k);
  Operand q = wrong.matrix("q", "ldq", "n", "k", args.q, args.ldq, bits, &n, k);
  Operand scale = wrong.matrix("scale", "ld_scale", "ceil(k/128)", "n", args.scale, args.ld_scale,
                               16, &blocks, n, 1, "k");
  wrong.apart(&q, {w});
  wrong.apart(&scale, {w, q});
  return wrong.text();
}

std::string pack_violations(const WeightsArgs& args) {
  Rules wrong;
  const int bits = wrong.choice("bits", args.bits, {8, 4}, "8 or 4");
  int n = wrong.size("n", args.n);
  const int k = wrong.size("k", args.k);
  if (args.n == 0 || args.k == 0) return wrong.text();
  const Operand q = wrong.matrix("q", "ldq", "n", "k", args.q, args.ldq, bits, &n, k);
  Operand packed = wrong.memory("packed", "ladder_packed_bytes(bits, n, k) bytes", args.packed);
  packed.bytes = tile::packed_bytes(bits, n, k);
  wrong.apart(&packed, {q});
  return wrong.text();
}

}  // namespace ladder
