// Comparison and selection: setp, selp. It knows nothing of memory or of other lanes.
#include "common/machine/ops/compare.h"

namespace machine {
namespace elementwise {

static uint32_t relation_of(std::string_view name) {
  const bool unordered = name.size() == 4 && name.back() == 'u';  // .ltu
  if (unordered) name.remove_suffix(1);
  const uint32_t extra = unordered ? UNORDERED : 0;
  if (name == ".eq") return EQUAL | extra;
  if (name == ".ne") return LESS | GREATER | extra;
  if (name == ".lt" || name == ".lo") return LESS | extra;
  if (name == ".le" || name == ".ls") return LESS | EQUAL | extra;
  if (name == ".gt" || name == ".hi") return GREATER | extra;
  if (name == ".ge" || name == ".hs") return GREATER | EQUAL | extra;
  return name == ".nan" ? UNORDERED : LESS | EQUAL | GREATER;  // .num
}

Comparison comparison_of(const Opcode& opcode) {
  Comparison made{};
  made.relation = static_cast<uint8_t>(relation_of(opcode.group[0]));
  made.combine = opcode.has(".and")   ? Combine::with_and
                 : opcode.has(".or")  ? Combine::with_or
                 : opcode.has(".xor") ? Combine::with_xor
                                      : Combine::none;
  made.ftz = opcode.has(".ftz");
  return made;
}

namespace {

// Of packed types, p is of the lower halves and q of the upper ones.
template <Type T>
Step setp(Warp& warp, const Inst& inst, uint32_t mask) {
  constexpr Type H = half_of(T);
  const bool has_q = inst.as<Comparison>().has_q;
  const uint32_t first = has_q ? 2 : 1;
  const uint32_t result = compare<H>(warp, inst, first);
  const uint32_t p = combine(warp, inst, first + 2, result);
  if (has_q) {
    const uint32_t other = H != T ? compare<H>(warp, inst, first, 16) : ~result;
    set_pred(warp, inst.op[1], mask, combine(warp, inst, first + 2, other));
  }
  set_pred(warp, inst.op[0], mask, p);
  return Step::next;
}

Handler pick_setp(Opcode& opcode) {
  Comparison how = comparison_of(opcode);
  how.has_q = opcode.operands->at(0).kind == Operand::Kind::vector;
  opcode.set(how);
  return pick_comparison(opcode.type(), []<Type T>() -> Handler { return setp<T>; });
}
template <class T>
Step selp(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t c = get_pred(warp, inst.slots[3]);
  lanes(mask, [=, d = warp.row<T>(inst.op[0]), a = warp.row<T>(inst.op[1]),
               b = warp.row<T>(inst.op[2])](uint32_t lane) {
    const T x = a[lane], y = b[lane];
    d[lane] = c >> lane & 1 ? x : y;
  });
  return Step::next;
}
Handler pick_selp(Opcode& opcode) {
  return bytes_of(opcode.type()) == 8 ? selp<uint64_t> : selp<uint32_t>;
}

const Row ROWS[] = {
    {"setp" INTEGER_RELATIONS COMPARED, "p:p|q:p, a:t, b:t, c:p?", pick_setp,
     "p = (a < b) and c, q = !(a < b) and c"},
    {"setp" REAL_RELATIONS REALS, "p:p|q:p, a:t, b:t, c:p?", pick_setp,
     "p = (a < b) and c, q = !(a < b) and c; of packed types p for the lower half, q for the "
     "upper"},
    {"selp" WORDS, "d:t, a:t, b:t, c:p", pick_selp, "d = c ? a : b"},
};

}  // namespace
}  // namespace elementwise

const Section sections::COMPARE{"Comparison and selection", elementwise::ROWS};

}  // namespace machine
