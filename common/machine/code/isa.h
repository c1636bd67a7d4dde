// The decode table: every instruction that the machine runs, in rows that are also its documented
// ISA (docs/isa.md is printed from them). An opcode that no row matches is refused by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/machine/run/state.h"

namespace machine {

// Types and their bytes; b1, u4 and s4 are of matrices.
#define MACHINE_TYPES(X)                                                                           \
  X(none, 0), X(pred, 0), X(b1, 0), X(u4, 0), X(s4, 0), X(b8, 1), X(b16, 2), X(b32, 4), X(b64, 8), \
      X(b128, 16), X(u16x2, 4), X(s16x2, 4), X(u8, 1), X(u16, 2), X(u32, 4), X(u64, 8), X(s8, 1),  \
      X(s16, 2), X(s32, 4), X(s64, 8), X(f16, 2), X(f16x2, 4), X(bf16, 2), X(bf16x2, 4),           \
      X(tf32, 4), X(e4m3, 1), X(e5m2, 1), X(e4m3x2, 2), X(e5m2x2, 2), X(f32, 4), X(f64, 8)
#define TYPE_NAME(name, bytes) name
#define TYPE_FACTS(name, bytes) {#name, bytes}
enum class Type : uint8_t { MACHINE_TYPES(TYPE_NAME) };
struct TypeFacts {
  std::string_view name;
  uint32_t bytes;
};
inline constexpr TypeFacts TYPES[] = {MACHINE_TYPES(TYPE_FACTS)};  // by Type
#undef TYPE_NAME
#undef TYPE_FACTS

constexpr uint32_t bytes_of(Type type) {
  return TYPES[static_cast<size_t>(type)].bytes;
}
constexpr bool is_signed(Type type) {
  return type >= Type::s8 && type <= Type::s64;
}
constexpr bool is_float(Type type) {
  return type >= Type::f16;
}

// An opcode that matched a row.
struct Opcode {
  std::string_view text;                // the whole opcode
  std::vector<std::string_view> group;  // what each {…} of the pattern matched, with its dot
  std::vector<Type> types;              // every type among the qualifiers, in order
  const std::vector<Operand>* operands = nullptr;  // as written
  // To be set by the row's `pick`:
  uint32_t mods = 0;        // becomes Inst::mods
  bool convergent = false;  // becomes Inst::convergent

  Type type(size_t i = 0) const { return i < types.size() ? types[i] : Type::none; }
  bool has(std::string_view qualifier) const;  // as ".sat": a whole qualifier, anywhere
  // What the handler will have by Inst::as().
  template <class Qualifiers>
  void set(const Qualifiers& qualifiers) {
    static_assert(sizeof qualifiers <= sizeof mods);
    mods = 0;
    std::memcpy(&mods, &qualifiers, sizeof qualifiers);
  }
};

// The words of "a,b,": three of them, the last one empty.
std::vector<std::string_view> split(std::string_view list);

struct Row {
  // {.a,.b,} is one of the alternatives (an empty one: may be left out); the rest is literal.
  const char* opcode;
  // What the operands are, in order, as "d:t, a:t, [p], {v:t}". The letter behind the colon is the
  // width of the rows: t, s, r: of the opcode's first, second, third type; w: twice as wide as t;
  // p: predicate; 16, 32, 64: bits; x: as the register is declared. {v:t}: vector, any count;
  // [p]: address; [p, …]: with coordinates; a:t|b:p: a pair whose second may be missing; a
  // trailing ? : may be left out; *: anything, any number.
  const char* operands;
  // The handler for what matched; nullptr refuses it.
  Handler (*pick)(Opcode& opcode);
  const char* does;  // in one line
};

// The sections of the table; each family of instructions has its own beside its handlers.
struct Section {
  const char* title;
  std::span<const Row> rows;
};
namespace sections {
// All of them, in the order of docs/isa.md.
#define MACHINE_SECTIONS(X)                                                                  \
  X(ALU), X(COMPARE), X(CONVERT), X(CONTROL), X(MEMORY), X(ATOMIC), X(BARRIER), X(MBARRIER), \
      X(WARP), X(ASYNC), X(BULK), X(TENSOR_COPY), X(TENSOR), X(RARE_INTEGER), X(RARE_VIDEO), \
      X(RARE_REAL), X(RARE_CONTROL), X(RARE_MEMORY), X(RARE_WARP), X(RARE_BULK),             \
      X(RARE_TENSOR_MAP), X(RARE_MMA), X(RARE_WMMA)
#define SECTION_NAME(name) name
#define SECTION_ADDRESS(name) &name
extern const Section MACHINE_SECTIONS(SECTION_NAME);
inline constexpr const Section* ALL[] = {MACHINE_SECTIONS(SECTION_ADDRESS)};
#undef SECTION_NAME
#undef SECTION_ADDRESS
}  // namespace sections

// Finds the row and fills `opcode`; nullptr if none matches.
const Row* find_row(std::string_view text, Opcode* opcode);
// Why none of the rows may be the opcode's, as a sentence.
std::string why_unsupported(std::string_view text);

// Decodes an entry and the functions that it calls. Throws Error (refused).
std::shared_ptr<Program> decode(const Module& module, const Ptx& ptx, const Function& entry,
                                const Kernel& kernel);
// Lays out the entry's parameters and static shared memory.
Kernel describe_kernel(const Ptx& ptx, const Function& entry);
// What a pointer to a module's function holds; 0 if there is none.
uint64_t function_address(const Ptx& ptx, const std::string& name);

}  // namespace machine
