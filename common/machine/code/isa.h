// The decode table: every instruction that the machine runs, in rows that are also its documented
// ISA (docs/isa.md is printed from them). An opcode that no row matches is refused by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/machine/run/state.h"

namespace machine {

enum class Type : uint8_t {
  none,
  pred,
  b1,  // of matrices, as the next two
  u4,
  s4,
  b8,
  b16,
  b32,
  b64,
  b128,
  u16x2,
  s16x2,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  e4m3,
  e5m2,
  e4m3x2,
  e5m2x2,
  f32,
  f64,
};

struct TypeFacts {
  std::string_view name;
  uint32_t bytes;
};
// By Type.
inline constexpr TypeFacts TYPES[] = {
    {"none", 0}, {"pred", 0}, {"b1", 0},   {"u4", 0},     {"s4", 0},     {"b8", 1},
    {"b16", 2},  {"b32", 4},  {"b64", 8},  {"b128", 16},  {"u16x2", 4},  {"s16x2", 4},
    {"u8", 1},   {"u16", 2},  {"u32", 4},  {"u64", 8},    {"s8", 1},     {"s16", 2},
    {"s32", 4},  {"s64", 8},  {"f16", 2},  {"f16x2", 4},  {"bf16", 2},   {"bf16x2", 4},
    {"tf32", 4}, {"e4m3", 1}, {"e5m2", 1}, {"e4m3x2", 2}, {"e5m2x2", 2}, {"f32", 4},
    {"f64", 8}};

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
extern const Section ALU, COMPARE, CONVERT, CONTROL, MEMORY, ATOMIC, BARRIER, MBARRIER, WARP, ASYNC,
    BULK, TENSOR_COPY, TENSOR;
extern const Section RARE_INTEGER, RARE_VIDEO, RARE_REAL, RARE_CONTROL, RARE_MEMORY, RARE_WARP,
    RARE_BULK, RARE_TENSOR_MAP, RARE_MMA, RARE_WMMA;
// All of them, in the order of docs/isa.md.
inline constexpr const Section* ALL[] = {&ALU,       &COMPARE,      &CONVERT,
                                         &CONTROL,   &MEMORY,       &ATOMIC,
                                         &BARRIER,   &MBARRIER,     &WARP,
                                         &ASYNC,     &BULK,         &TENSOR_COPY,
                                         &TENSOR,    &RARE_INTEGER, &RARE_VIDEO,
                                         &RARE_REAL, &RARE_CONTROL, &RARE_MEMORY,
                                         &RARE_WARP, &RARE_BULK,    &RARE_TENSOR_MAP,
                                         &RARE_MMA,  &RARE_WMMA};
}  // namespace sections

// Finds the row and fills `opcode`; nullptr if none matches.
const Row* find_row(std::string_view text, Opcode* opcode);

// Decodes an entry and the functions that it calls. Throws Error (refused).
std::shared_ptr<Program> decode(const Module& module, const Ptx& ptx, const Function& entry,
                                const Kernel& kernel);
// Lays out the entry's parameters and static shared memory.
Kernel describe_kernel(const Ptx& ptx, const Function& entry);
// What a pointer to a module's function holds; 0 if there is none.
uint64_t function_address(const Ptx& ptx, const std::string& name);

}  // namespace machine
