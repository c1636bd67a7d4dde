// Comparisons into numbers, and selections by a sign or of predicates, that no kernel of this
// repository has, but other people's do. It knows nothing of memory or of other lanes.
#include "common/machine/ops/compare.h"

namespace machine {
namespace elementwise {
namespace {

constexpr uint32_t ONES[] = {0xffffffff, 0xffff, 0x3f800000, 0x3c00, 0x3f80};

template <Type T>
Step set(Warp& warp, const Inst& inst, uint32_t mask) {
  constexpr Type H = half_of(T);
  const uint32_t one = ONES[inst.as<Comparison>().one];
  const uint32_t lower = combine(warp, inst, 3, compare<H>(warp, inst, 1));
  const uint32_t upper = H != T ? combine(warp, inst, 3, compare<H>(warp, inst, 1, 16)) : 0;
  lanes(mask, [=, d = warp.row<uint32_t>(inst.op[0])](uint32_t lane) {
    d[lane] = (lower >> lane & 1 ? one : 0) | (upper >> lane & 1 ? one << 16 : 0);
  });
  return Step::next;
}

Handler pick_set(Opcode& opcode) {
  const Type d = half_of(opcode.type(0)), s = opcode.type(1);
  const bool halves = bytes_of(d) == 2 || half_of(s) != s;
  Comparison how = comparison_of(opcode);
  how.one = d == f32 ? 2 : d == f16 ? 3 : d == bf16 ? 4 : halves ? 1 : 0;
  opcode.set(how);
  return pick_comparison(s, []<Type T>() -> Handler { return set<T>; });
}

Step selp_predicate(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t c = get_pred(warp, inst.slots[3]);
  const uint32_t a = get_pred(warp, inst.slots[1]), b = get_pred(warp, inst.slots[2]);
  set_pred(warp, inst.op[0], mask, (a & c) | (b & ~c));
  return Step::next;
}

constexpr auto SLCT = [](auto a, auto b, auto c) { return c >= 0 ? a : b; };
template <uint32_t FLAGS, Type C>
Handler choose_slct(Type type) {
  return for_type<u16, u32, u64>(
      unsigned_of(type), []<Type T>() -> Handler { return apply<SLCT, FLAGS, T, T, T, C>; });
}
Handler pick_slct(Opcode& opcode) {
  if (opcode.type(1) == s32) return choose_slct<0, s32>(opcode.type());
  return opcode.has(".ftz") ? choose_slct<FTZ, f32>(opcode.type())
                            : choose_slct<0, f32>(opcode.type());
}

const Row ROWS[] = {
    {"set" INTEGER_RELATIONS "{.u32,.s32,.f32}" COMPARED, "d:t, a:s, b:s, c:p?", pick_set,
     "d = all ones, or 1.0, if (a < b) and c, else 0"},
    {"set" REAL_RELATIONS "{.u16,.s16,.u32,.s32,.f32," HALVES REALS, "d:t, a:s, b:s, c:p?",
     pick_set, "d = all ones, or 1.0, if (a < b) and c, else 0"},
    {"selp.pred", "d:p, a:p, b:p, c:p", always<selp_predicate>, "d = c ? a : b"},
    {"slct{.ftz,}" WORDS "{.s32,.f32}", "d:t, a:t, b:t, c:s", pick_slct, "d = c >= 0 ? a : b"},
};

}  // namespace
}  // namespace elementwise

const Section sections::RARE_COMPARE{"Rarer: comparison and selection", elementwise::ROWS};

}  // namespace machine
