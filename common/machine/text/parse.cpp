// From PTX text to functions with flat lists of statements. It knows nothing of instructions: any word
// with operands is a statement.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <ranges>

#include "common/machine/run/error.h"
#include "common/machine/text/constant.h"
#include "common/machine/text/lexer.h"
#include "common/machine/text/ptx.h"

namespace machine {
namespace {

// Bytes of a type's element in memory; 0 if it is no type.
uint32_t bytes_of(std::string_view type) {
  if (type == ".f16x2" || type == ".bf16x2") return 4;
  if (type == ".bf16") return 2;
  if (type.size() < 3 || std::strchr("busf", type[1]) == nullptr) return 0;
  uint32_t bits = 0;
  const auto [end, error] = std::from_chars(type.data() + 2, type.data() + type.size(), bits);
  return end == type.data() + type.size() && error == std::errc() ? bits / 8 : 0;
}

std::optional<Width> width_of(std::string_view type) {
  if (type == ".pred") return Width::pred;
  const uint32_t bytes = bytes_of(type);
  if (bytes == 0 || bytes > 8) return std::nullopt;
  return bytes == 8 ? Width::w64 : Width::w32;
}

std::optional<Space> space_of(std::string_view word) {
  if (word == ".global") return Space::global;
  if (word == ".const") return Space::constant;
  if (word == ".shared" || word == ".shared::cta") return Space::shared;
  if (word == ".local") return Space::local;
  if (word == ".param") return Space::param;
  return std::nullopt;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lex_(text) { ptx_.places.emplace_back(); }

  Ptx run() {
    if (!lex_.is(".version")) lex_.fail("PTX begins with .version");
    while (!lex_.at_end()) directive();
    return std::move(ptx_);
  }

 private:
  // Behind a register's name in those of its parts: four of a vector, and two of 64 bits of one of 128.
  static constexpr const char* PARTS[] = {".x", ".y", ".z", ".w", ".lower", ".upper"};

  // Names that a block declares, hiding those outside: registers by index, labels and variables by
  // the name that they have in the function.
  struct Scope {
    size_t first_statement = 0;
    std::map<std::string, int, std::less<>> registers;
    std::map<std::string, std::string, std::less<>> renamed;
    std::vector<std::vector<std::string>*> branch_targets;  // of its lists and of those inside
  };

  void skip_statement() {
    while (!lex_.at_end() && !lex_.is(";")) lex_.take();
    lex_.expect(";");
  }

  void directive() {
    if (lex_.is(".version")) begin_unit();
    if (lex_.accept(".version") || lex_.accept(".target")) {
      do lex_.take();
      while (lex_.accept(","));
    } else if (lex_.accept(".address_size")) {
      if (lex_.take() != "64") lex_.fail("only .address_size 64 is supported");
    } else if (lex_.accept(".file")) {
      file();
    } else if (lex_.accept(".section")) {
      lex_.skip_definition();  // debug sections have a syntax of their own
    } else if (lex_.accept(".pragma")) {
      skip_statement();
    } else if (lex_.accept(".loc")) {
      location();
    } else {
      declaration();
    }
  }

  // Files that nvlink has linked come as one text. Each numbers its sources, and has its own names.
  void begin_unit() {
    unit_ = {};
    call_places_.clear();
    if (!ptx_.files.empty()) first_file_ = ptx_.files.rbegin()->first + 1;
  }

  void file() {
    const uint32_t index = first_file_ + lex_.number<uint32_t>();
    std::string name(lex_.take());
    ptx_.files[index] = name.size() >= 2 ? name.substr(1, name.size() - 2) : name;
    while (lex_.accept(",")) lex_.take();
  }

  // .loc file line column [, function_name label [+ offset], inlined_at file line column]
  void location() {
    Place place;
    place.file = first_file_ + lex_.number<uint32_t>();
    place.line = lex_.number<uint32_t>();
    const auto own_column = lex_.number<uint32_t>();
    if (lex_.accept(",")) {
      lex_.expect("function_name");
      lex_.take();
      if (lex_.accept("+")) lex_.number();
      lex_.expect(",");
      lex_.expect("inlined_at");
      const uint32_t file = first_file_ + lex_.number<uint32_t>();
      const auto line = lex_.number<uint32_t>(), column = lex_.number<uint32_t>();
      // The call may itself be inlined: its own place was given by the .loc before this one.
      const auto [caller, is_new] = call_places_.try_emplace({file, line, column}, next_place());
      place.caller = caller->second;
      if (is_new) ptx_.places.push_back({file, line, 0});
    }
    call_places_[{place.file, place.line, own_column}] = next_place();
    ptx_.places.push_back(place);
  }
  uint32_t next_place() const { return static_cast<uint32_t>(ptx_.places.size()); }

  void declaration() {
    bool external = false, own = true;
    for (; lex_.is(".extern") || lex_.is(".visible") || lex_.is(".weak") || lex_.is(".common");
         own = false) {
      if (lex_.take() == ".extern") external = true;
    }
    if (lex_.is(".entry") || lex_.is(".func")) return function();
    if (lex_.accept(".alias")) return alias();
    if (!space_of(lex_.token())) lex_.fail("expected a directive");
    for (Variable& made : variables(external)) module_variable(std::move(made), own);
  }

  // .alias name, function
  void alias() {
    std::string name(lex_.take());
    lex_.expect(",");
    const auto of = std::ranges::find(ptx_.functions, lex_.take(), &Function::name);
    lex_.expect(";");
    if (of == ptx_.functions.end()) return;
    Function made = *of;
    made.name = std::move(name);
    ptx_.functions.push_back(std::move(made));
  }

  // `own`: no other unit's may be meant by the name.
  void module_variable(Variable made, bool own) {
    const auto is_it = [&made](const Variable& other) { return other.name == made.name; };
    const bool is_there = std::ranges::any_of(ptx_.variables, is_it);
    if ((made.external && made.space != Space::shared) || (is_there && !own)) return;
    if (is_there) made.name = unique_name(&unit_, made.name);
    for (Address& address : made.addresses) rename(unit_, &address.name);
    ptx_.variables.push_back(std::move(made));
  }

  // .shared .align 16 .b8 name[64][2] = {...}, other;
  std::vector<Variable> variables(bool external) {
    std::vector<Variable> list;
    std::string_view type;
    Variable head = type_of_variable(&type);
    head.external = external;
    do {
      list.push_back(declarator(head, type));
    } while (lex_.accept(","));
    lex_.expect(";");
    return list;
  }

  // What stands before the names; its bytes are those of one element.
  Variable type_of_variable(std::string_view* type) {
    Variable made;
    made.space = *space_of(lex_.take());
    uint32_t element = 0, count = 1;
    while (element == 0) {
      const std::string_view word = *type = lex_.take();
      if (word == ".align") {
        made.align = lex_.number<uint32_t>();
      } else if (word == ".v2" || word == ".v4") {
        count = word == ".v2" ? 2 : 4;
      } else if (word == ".ptr" || word == ".attribute") {
        if (word == ".attribute")
          while (!lex_.accept(")")) made.managed |= lex_.take() == ".managed";
        if (space_of(lex_.token())) lex_.take();
      } else {
        element = bytes_of(word);
        if (element == 0) lex_.fail("'" + std::string(word) + "' is no type that is supported");
        made.align = std::max(made.align, element * count);
      }
    }
    if (lex_.accept(".ptr")) {  // .param .u64 .ptr .global .align 1 name
      if (space_of(lex_.token())) lex_.take();
      if (lex_.accept(".align")) lex_.number();
    }
    made.bytes = uint64_t{element} * count;
    return made;
  }

  Variable declarator(const Variable& head, std::string_view type) {
    Variable made = head;
    made.name = lex_.take();
    bool open = false;  // name[]: as many as it begins with
    while (lex_.accept("[")) {
      if (lex_.is("]")) {
        open = true;
      } else {
        made.bytes *= lex_.number();
      }
      lex_.expect("]");
    }
    if (lex_.accept("=")) take_initial(&lex_, type, bytes_of(type), &made);
    const auto begun = made.initial.size();
    if (open) made.bytes *= (begun + made.bytes - 1) / std::max(made.bytes, uint64_t{1});
    return made;
  }

  // What cannot be parsed makes only this function one that is refused.
  void function() {
    const Lexer start = lex_;
    const uint32_t first_place = next_place();
    Function made;
    try {
      if (!definition(&made)) return;
    } catch (const Error& error) {
      if (made.name.empty()) throw;
      made.refusal = error.what();
      if (next_place() > first_place) made.refusal_place = next_place() - 1;
      lex_ = start;
      lex_.skip_definition();
    }
    ptx_.functions.push_back(std::move(made));
  }

  // False if it is only a declaration.
  bool definition(Function* made) {
    made->entry = lex_.take() == ".entry";
    if (!made->entry && lex_.is("(")) made->results = parameters();
    made->name = lex_.take();
    if (lex_.is("(")) made->params = parameters();
    while (!lex_.is("{") && !lex_.is(";")) attribute(made);
    if (lex_.accept(";")) return false;
    function_ = made;
    scopes_.clear();
    ranges_.clear();
    lex_.expect("{");
    block();
    return true;
  }

  std::vector<Variable> parameters() {
    std::vector<Variable> list;
    lex_.expect("(");
    while (!lex_.accept(")")) {
      if (lex_.is(".reg")) lex_.fail("register parameters of functions are not supported");
      std::string_view type;
      const Variable head = type_of_variable(&type);
      list.push_back(declarator(head, type));
      lex_.accept(",");
    }
    return list;
  }

  void attribute(Function* made) {
    const std::string word(lex_.take());
    if (word == ".pragma") return skip_statement();
    std::vector<uint32_t> numbers;
    while (std::isdigit(lex_.token()[0])) {
      numbers.push_back(lex_.number<uint32_t>());
      lex_.accept(",");
    }
    if (word == ".maxntid" || word == ".reqntid") {
      made->max_threads = 1;
      for (const uint32_t n : numbers) made->max_threads *= n;
      if (word == ".reqntid") made->required_block = numbers;
    } else if (word == ".minnctapersm" && !numbers.empty()) {
      made->min_ctas = numbers[0];
    } else if (word == ".maxnreg" && !numbers.empty()) {
      made->max_registers = numbers[0];
    } else if (word == ".explicitcluster") {
      made->explicit_cluster = true;
    } else if (word == ".reqnctapercluster") {
      made->required_cluster = numbers;
    } else if (word == ".blocksareclusters") {
      made->blocks_are_clusters = true;
    } else if (word != ".maxclusterrank" && word != ".noreturn") {
      lex_.fail("'" + word + "' is no attribute of a function that is supported");
    }
  }

  // Everything up to the closing brace.
  void block() {
    scopes_.emplace_back().first_statement = function_->statements.size();
    while (!lex_.accept("}")) {
      if (lex_.at_end()) lex_.fail("a function has no end");
      if (lex_.accept("{")) {
        block();
      } else if (lex_.accept(".loc")) {
        location();
      } else if (lex_.accept(".pragma")) {
        skip_statement();
      } else if (lex_.accept(".reg")) {
        registers();
      } else if (space_of(lex_.token())) {
        body_variable();
      } else {
        statement();
      }
    }
    resolve_names(scopes_.back());
    std::erase_if(ranges_, [this](const Range& range) { return range.depth == scopes_.size(); });
    const auto targets = std::move(scopes_.back().branch_targets);
    scopes_.pop_back();
    if (scopes_.empty()) return resolve_names(unit_);
    auto& outer = scopes_.back().branch_targets;
    outer.insert(outer.end(), targets.begin(), targets.end());
  }

  // Of .reg .v2 .f32 v come v.x and v.y, of .reg .b128 v its halves.
  void registers() {
    const size_t parts = lex_.accept(".v2") ? 2 : lex_.accept(".v4") ? 4 : 0;
    const std::string type(lex_.take());
    const bool is_wide = type == ".b128" && parts == 0;
    const std::optional<Width> width = is_wide ? Width::w64 : width_of(type);
    std::vector<const char*> suffixes(PARTS, PARTS + parts);
    if (parts == 0) suffixes = is_wide ? std::vector{PARTS[4], PARTS[5]} : std::vector{""};
    has_parts_ = has_parts_ || suffixes.size() > 1;
    if (!width) lex_.fail("registers of type '" + type + "' are not supported");
    do {
      const std::string name(lex_.take());
      if (lex_.accept("<")) {
        const auto count = lex_.number<int>();
        lex_.expect(">");
        for (const char* suffix : suffixes) {
          ranges_.push_back({scopes_.size(), name, suffix, *width, count});
        }
      } else {
        for (const char* suffix : suffixes) {
          add_register(scopes_.back(), name + suffix, *width);
        }
      }
    } while (lex_.accept(","));
    lex_.expect(";");
  }

  int add_register(Scope& scope, const std::string& name, Width width) {
    const int index = static_cast<int>(function_->registers.size());
    function_->registers.push_back({name, width});
    scope.registers[name] = index;
    return index;
  }

  // What a name stands for by its innermost declaration: a register, or the parts of one.
  std::vector<int> find_registers(std::string name) {
    if (has_parts_ && name.size() > 2 && name[name.size() - 2] == '.') {
      const size_t color = std::string_view("rgba").find(name.back());
      if (color < 4) name.back() = "xyzw"[color];
    }
    for (size_t depth = scopes_.size(); depth-- > 0;) {
      const int found = find_register(depth, name);
      if (found >= 0) return {found};
      if (!has_parts_) continue;
      std::vector<int> parts;
      for (const char* suffix : PARTS) {
        const int part = find_register(depth, name + suffix);
        if (part >= 0) parts.push_back(part);
      }
      if (!parts.empty()) return parts;
    }
    return {};
  }

  // In the block of this depth; -1 if there is none. Of .reg .b32 %r<99> only those that the body
  // names are made.
  int find_register(size_t depth, std::string_view name) {
    const auto found = scopes_[depth].registers.find(name);
    if (found != scopes_[depth].registers.end()) return found->second;
    for (const Range& range : ranges_) {
      if (range.depth != depth + 1 || !name.starts_with(range.prefix)) continue;
      if (!name.ends_with(range.suffix)) continue;
      int index = -1;
      const char* digits = name.data() + range.prefix.size();
      const char* end = name.data() + name.size() - range.suffix.size();
      if (std::from_chars(digits, end, index).ptr != end || digits == end) continue;
      if (index >= 0 && index < range.count) {
        return add_register(scopes_[depth], std::string(name), range.width);
      }
    }
    return -1;
  }

  // Of global and constant memory, a variable of the module under a name of its own.
  void body_variable() {
    for (Variable& made : variables(false)) {
      if (made.space == Space::global || made.space == Space::constant) {
        for (Address& address : made.addresses) {
          for (const Scope& scope : std::views::reverse(scopes_)) rename(scope, &address.name);
        }
        made.name = unique_name(&scopes_.back(), made.name);
        ptx_.variables.push_back(std::move(made));
      } else {
        made.name = name_in_function(made.name);
        function_->variables.push_back(std::move(made));
      }
    }
  }

  void statement() {
    Statement made;
    made.ptx_line = lex_.line();
    made.place = static_cast<uint32_t>(ptx_.places.size() - 1);
    if (lex_.accept("@")) {
      made.guard_not = lex_.accept("!");
      const std::vector<int> found = find_registers(std::string(lex_.token()));
      if (found.size() != 1) lex_.fail("expected a predicate");
      made.guard = found[0];
      lex_.take();
    }
    std::string word(lex_.take());
    if (lex_.accept(":")) return label(word);
    while (lex_.token().starts_with('.')) word += lex_.take();  // lop3 .b32
    made.opcode = word;
    const bool call = word.starts_with("call");  // elsewhere (3) is a number
    while (!lex_.accept(";")) {
      made.operands.push_back(call && lex_.accept("(") ? list(")") : operand());
      if (!lex_.is(";")) lex_.expect(",");
    }
    function_->statements.push_back(std::move(made));
  }

  void label(const std::string& name) {
    if (lex_.accept(".branchtargets")) {
      std::vector<std::string>& targets = function_->branch_targets[name_in_function(name)];
      scopes_.back().branch_targets.push_back(&targets);
      do targets.emplace_back(lex_.take());
      while (lex_.accept(","));
      lex_.expect(";");
      return;
    }
    if (lex_.accept(".callprototype") || lex_.accept(".calltargets")) return skip_statement();
    const auto next = static_cast<uint32_t>(function_->statements.size());
    function_->labels[name_in_function(name)] = next;
  }

  // Of what the block under way declares: unique, where it is not the function's outermost one.
  std::string name_in_function(const std::string& name) {
    return scopes_.size() == 1 ? name : unique_name(&scopes_.back(), name);
  }
  std::string unique_name(Scope* scope, const std::string& name) {
    return scope->renamed[name] = name + "@" + std::to_string(unique_++);
  }

  // Labels may be used before they are declared, so that names become those of the function when the
  // block that declares them ends.
  void resolve_names(const Scope& scope) {
    if (scope.renamed.empty()) return;
    for (std::vector<std::string>* const targets : scope.branch_targets) {
      for (std::string& name : *targets) rename(scope, &name);
    }
    for (size_t i = scope.first_statement; i < function_->statements.size(); ++i) {
      for (Operand& operand : function_->statements[i].operands) rename(scope, &operand);
    }
  }

  void rename(const Scope& scope, Operand* operand) {
    for (Operand& part : operand->parts) rename(scope, &part);
    if (operand->kind == Operand::Kind::symbol) rename(scope, &operand->name);
  }
  static void rename(const Scope& scope, std::string* name) {
    const auto found = scope.renamed.find(*name);
    if (found != scope.renamed.end()) *name = found->second;
  }

  Operand operand() {
    Operand made = simple_operand();
    if (lex_.accept("|")) return pair(std::move(made), simple_operand());
    if (lex_.accept("+")) made.offset = static_cast<int64_t>(take_integer(&lex_));
    return made;
  }

  Operand register_operand(int reg) const {
    Operand made;
    made.kind = Operand::Kind::reg;
    made.reg = reg;
    made.name = function_->registers[static_cast<size_t>(reg)].name;
    return made;
  }

  static Operand pair(Operand first, Operand second) {
    Operand made;
    made.kind = Operand::Kind::vector;
    made.parts = {std::move(first), std::move(second)};
    return made;
  }

  Operand simple_operand() {
    if (lex_.accept("{")) return list("}");
    if (lex_.accept("[")) return address();
    if (at_constant(lex_)) return take_constant(&lex_);
    Operand made;
    if (lex_.accept("!")) {
      made = simple_operand();
      made.negated = true;
      return made;
    }
    const std::string_view word = lex_.token();
    if (word.empty()) lex_.fail("expected an operand");
    const std::vector<int> registers = find_registers(std::string(word));
    if (!registers.empty()) {
      lex_.take();
      if (registers.size() == 1) return register_operand(registers[0]);
      made.kind = Operand::Kind::vector;
      for (const int part : registers) made.parts.push_back(register_operand(part));
      return made;
    }
    if (word == "_") {
      made.kind = Operand::Kind::sink;
    } else if (word[0] == '%') {
      made.kind = Operand::Kind::special;
    } else {
      made.kind = Operand::Kind::symbol;
    }
    made.name = lex_.take();
    return made;
  }

  Operand list(std::string_view close) {
    Operand made;
    made.kind = Operand::Kind::vector;
    while (!lex_.accept(close)) {
      made.parts.push_back(operand());
      if (!lex_.is(close)) lex_.expect(",");
    }
    return made;
  }

  // [reg], [reg+4], [name-4], [4096], [map, {x, y}]
  Operand address() {
    Operand made;
    made.kind = Operand::Kind::address;
    made.parts.push_back(simple_operand());
    if (lex_.accept("+") || lex_.is("-")) made.offset = static_cast<int64_t>(take_integer(&lex_));
    while (lex_.accept(",")) {
      Operand more = operand();
      if (more.kind == Operand::Kind::vector) {
        for (Operand& part : more.parts) made.parts.push_back(std::move(part));
      } else {
        made.parts.push_back(std::move(more));
      }
    }
    lex_.expect("]");
    return made;
  }

  struct Range {
    size_t depth;  // of its block, from 1
    std::string prefix;
    std::string_view suffix;  // of a half
    Width width;
    int count;
  };

  Lexer lex_;
  Ptx ptx_;
  Function* function_ = nullptr;
  std::vector<Scope> scopes_;
  std::vector<Range> ranges_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> call_places_;  // in Ptx::places
  Scope unit_;
  uint32_t first_file_ = 0;  // of the unit
  int unique_ = 0;
  bool has_parts_ = false;  // any register
};

}  // namespace

Ptx parse(std::string_view text) {
  return Parser(text).run();
}

}  // namespace machine
