// Comparison and selection: setp, set, selp, slct. It knows nothing of memory or of other lanes.
#include "common/machine/ops/elementwise.h"

namespace machine::elementwise {
namespace {

// A relation is a set of these.
constexpr uint32_t LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8;

enum class Combine : uint8_t { none, with_and, with_or, with_xor };
struct Comparison {
  uint8_t relation : 4;
  Combine combine : 2;  // with c
  bool has_q : 1, ftz : 1;
  uint8_t one;  // of set: index into ONES
};

uint32_t relation_of(std::string_view name) {
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
  made.combine = static_cast<Combine>(which(opcode, {".and", ".or", ".xor"}));
  made.ftz = opcode.has(".ftz");
  return made;
}

// `shift`: 16 for the upper half of a packed type.
template <Type T, uint32_t FLAGS>
uint32_t compare(const Bits<T>* a, const Bits<T>* b, uint32_t relation, uint32_t shift) {
  uint32_t result = 0;
  for (uint32_t lane = 0; lane < LANES; ++lane) {
    const auto x = get<T, FLAGS>(a[lane] >> shift), y = get<T, FLAGS>(b[lane] >> shift);
    const uint32_t found = (x < y ? LESS : 0u) | (x == y ? EQUAL : 0u) | (x > y ? GREATER : 0u);
    result |= uint32_t{((found == 0 ? UNORDERED : found) & relation) != 0} << lane;
  }
  return result;
}

template <Type T>
uint32_t compare(Warp& warp, const Inst& inst, size_t first, uint32_t shift = 0) {
  const auto* const a = warp.row<const Bits<T>>(row_of(inst, first));
  const auto* const b = warp.row<const Bits<T>>(row_of(inst, first + 1));
  const auto how = inst.as<Comparison>();
  return how.ftz ? compare<T, FTZ>(a, b, how.relation, shift)
                 : compare<T, 0>(a, b, how.relation, shift);
}

uint32_t combine(Warp& warp, const Inst& inst, size_t operand, uint32_t result) {
  const Combine how = inst.as<Comparison>().combine;
  if (how == Combine::none) return result;
  const uint32_t c = get_pred(warp, inst.slots[operand]);
  if (how == Combine::with_and) return result & c;
  return how == Combine::with_or ? result | c : result ^ c;
}

Handler pick_comparison(Type type, auto make) {
  return for_type<s16, u16, s32, u32, s64, u64, f16, bf16, f16x2, bf16x2, f32, f64>(type, make);
}

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
    {"setp" INTEGER_RELATIONS COMPARED, "p:p|q:p, a:t, b:t, c:p?", pick_setp,
     "p = (a < b) and c, q = !(a < b) and c"},
    {"setp" REAL_RELATIONS REALS, "p:p|q:p, a:t, b:t, c:p?", pick_setp,
     "p = (a < b) and c, q = !(a < b) and c; of packed types p for the lower half, q for the "
     "upper"},
    {"selp" WORDS, "d:t, a:t, b:t, c:p", pick_selp, "d = c ? a : b"},
    {"set" INTEGER_RELATIONS "{.u32,.s32,.f32}" COMPARED, "d:t, a:s, b:s, c:p?", pick_set,
     "d = all ones, or 1.0, if (a < b) and c, else 0"},
    {"set" REAL_RELATIONS "{.u16,.s16,.u32,.s32,.f32," HALVES REALS, "d:t, a:s, b:s, c:p?",
     pick_set, "d = all ones, or 1.0, if (a < b) and c, else 0"},
    {"selp.pred", "d:p, a:p, b:p, c:p", always<selp_predicate>, "d = c ? a : b"},
    {"slct{.ftz,}" WORDS "{.s32,.f32}", "d:t, a:t, b:t, c:s", pick_slct, "d = c >= 0 ? a : b"},
};

}  // namespace
}  // namespace machine::elementwise

const machine::Section machine::sections::COMPARE{"Comparison and selection",
                                                  machine::elementwise::ROWS};
