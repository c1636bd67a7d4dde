// PTX text as the parser leaves it: functions with flat lists of statements, registers and labels
// resolved by scope. Nothing here knows what an instruction means.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace machine {

enum class Space : uint8_t { global, constant, shared, local, param };

// A register's lanes: predicates are one bit, 8- to 32-bit types 4 bytes, 64-bit types 8 bytes.
enum class Width : uint8_t { pred, w32, w64 };

struct Operand {
  enum class Kind : uint8_t {
    reg,      // reg
    special,  // name, as %tid.x
    integer,  // bits
    f32,      // bits: 0f3F800000
    f64,      // bits: 0d3FF0000000000000
    symbol,   // name: a variable, function or label
    sink,     // _
    vector,   // parts: {a, b}, p|q, (a, b)
    address,  // parts[0] + offset; further parts as in [map, {x, y}], flat
  };
  Kind kind = Kind::integer;
  bool negated = false;  // !p
  int reg = -1;          // index into Function::registers
  uint64_t bits = 0;
  int64_t offset = 0;
  std::string name;
  std::vector<Operand> parts;
};

// Where a statement comes from. Of what was inlined, `caller` is the place of the call, and so on
// out to the kernel's own source file.
struct Place {
  uint32_t file = 0, line = 0;
  uint32_t caller = 0;  // index into Ptx::places; 0: it was not inlined
};

struct Statement {
  std::string opcode;  // with its qualifiers
  std::vector<Operand> operands;
  int guard = -1;  // predicate register
  bool guard_not = false;
  uint32_t ptx_line = 0;  // from 1
  uint32_t place = 0;     // index into Ptx::places
};

// What a variable's memory begins with in a place that holds an address, or one byte of it.
struct Address {
  uint64_t at = 0;
  std::string name;  // of a variable or function
  uint64_t plus = 0;
  uint32_t shift = 0, bytes = 8;
};

struct Variable {
  std::string name;
  Space space = Space::global;
  uint32_t align = 1;
  uint64_t bytes = 0;
  bool external = false;  // .extern .shared: the launch's dynamic shared memory
  bool managed = false;
  std::vector<uint8_t> initial;  // may be shorter than bytes
  std::vector<Address> addresses;
};

struct Register {
  std::string name;
  Width width = Width::w32;
};

struct Function {
  std::string name;
  bool entry = false;
  std::vector<Variable> params;     // Space::param
  std::vector<Variable> results;    // of a .func
  std::vector<Variable> variables;  // .shared, .local and .param of the body
  std::vector<Register> registers;
  std::vector<Statement> statements;
  std::map<std::string, uint32_t> labels;  // statement index; scoped names are made unique
  std::map<std::string, std::vector<std::string>> branch_targets;  // of brx.idx
  uint32_t max_threads = 0;                                        // 0: not given
  uint32_t min_ctas = 0;       // an SM, .minnctapersm; 0: not given
  uint32_t max_registers = 0;  // .maxnreg; 0: not given
  bool explicit_cluster = false;
  std::vector<uint32_t> required_block, required_cluster;  // .reqntid, .reqnctapercluster
  bool blocks_are_clusters = false;
  std::string refusal;         // not empty: why it could not be parsed
  uint32_t refusal_place = 0;  // the last that was named before; index into Ptx::places
};

struct Ptx {
  std::map<uint32_t, std::string> files;  // .file
  std::vector<Place> places;              // [0]: unknown
  std::vector<Variable> variables;        // of the module
  std::vector<Function> functions;
};

// Throws Error (refused) with the line, but for what stands in a function: that makes this function
// one that is refused.
Ptx parse(std::string_view text);

}  // namespace machine
