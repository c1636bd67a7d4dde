#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "common/machine/code/isa.h"
#include "common/machine/code/shared_layout.h"
#include "common/machine/text/source.h"

namespace machine {
namespace {

uint32_t align_up(uint32_t value, uint32_t align) {
  return (value + align - 1) / align * align;
}

const Function* find_function(const Ptx& ptx, const std::string& name) {
  for (const Function& function : ptx.functions) {
    if (function.name == name && !function.entry) return &function;
  }
  return nullptr;
}

const Variable* find_variable(const std::vector<Variable>& variables, const std::string& name) {
  for (const Variable& variable : variables) {
    if (variable.name == name) return &variable;
  }
  return nullptr;
}

bool is_call(const Statement& statement) {
  return (statement.opcode == "call" || statement.opcode == "call.uni") &&
         !statement.operands.empty();
}

// call (results), function, (arguments): the operand that names the function.
size_t callee_operand(const Statement& statement) {
  return statement.operands[0].kind == Operand::Kind::vector ? 1 : 0;
}

[[noreturn]] void refuse_statement(const Ptx& ptx, const Statement& statement,
                                   const std::string& why) {
  const Origin::Place place = source_of(ptx, outermost(ptx, statement));
  const std::string line = "PTX line " + std::to_string(statement.ptx_line);
  Origin origin;
  origin.place = place;
  throw Error(
      Error::Kind::refused,
      "'" + statement.opcode + "' at " +
          (place.line == 0 ? line
                           : place.file + ":" + std::to_string(place.line) + " (" + line + ")") +
          ": " + why,
      rule::REFUSED, origin);
}

void add_names(const Operand& operand, std::set<std::string>* names) {
  if (operand.kind == Operand::Kind::symbol) names->insert(operand.name);
  for (const Operand& part : operand.parts) add_names(part, names);
}

bool is_indirect(const Statement& statement) {
  return is_call(statement) &&
         statement.operands[callee_operand(statement)].kind == Operand::Kind::reg;
}

// Those whose address stands in an instruction or a variable: what indirect calls may call.
std::vector<const Function*> pointed_to(const Ptx& ptx) {
  std::set<std::string> names;
  for (const Function& function : ptx.functions) {
    for (const Statement& statement : function.statements) {
      if (is_call(statement)) continue;
      for (const Operand& operand : statement.operands) add_names(operand, &names);
    }
  }
  for (const Variable& variable : ptx.variables) {
    for (const auto& [offset, name] : variable.addresses) names.insert(name);
  }
  std::vector<const Function*> functions;
  for (const Function& function : ptx.functions) {
    if (!function.entry && names.contains(function.name)) functions.push_back(&function);
  }
  return functions;
}

// The entry and the functions that it may call, each once.
std::vector<const Function*> reachable(const Ptx& ptx, const Function& entry) {
  std::vector<const Function*> all = {&entry};
  const auto add = [&all](const Function* function) {
    if (std::find(all.begin(), all.end(), function) == all.end()) all.push_back(function);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    for (const Statement& statement : all[i]->statements) {
      if (is_indirect(statement)) {
        for (const Function* function : pointed_to(ptx)) add(function);
      } else if (is_call(statement)) {
        const auto* const callee =
            find_function(ptx, statement.operands[callee_operand(statement)].name);
        if (callee != nullptr) add(callee);
      }
    }
  }
  return all;
}

// One item of Row::operands.
struct Spec {
  enum class Kind { scalar, vector, address, pair, rest } kind = Kind::scalar;
  char width = 'x';         // of the item; of a pair: of its first
  char second_width = 'p';  // of a pair
  bool optional = false;
};

char width_code(std::string_view item) {
  const size_t colon = item.find(':');
  if (colon == std::string_view::npos) return 'x';
  const std::string_view code = item.substr(colon + 1);
  if (code.starts_with("32") || code.starts_with("16")) return '3';
  return code.starts_with("64") ? '6' : code[0];
}

std::vector<Spec> parse_specs(std::string_view text) {
  std::vector<Spec> specs;
  while (!text.empty()) {
    size_t end = 0;
    for (int depth = 0; end < text.size() && (text[end] != ',' || depth > 0); ++end) {
      depth += text[end] == '[' || text[end] == '{';
      depth -= text[end] == ']' || text[end] == '}';
    }
    std::string_view item = text.substr(0, end);
    text = end < text.size() ? text.substr(end + 1) : "";
    while (!item.empty() && item[0] == ' ') item.remove_prefix(1);
    if (item.empty()) continue;
    Spec spec;
    spec.optional = item.ends_with('?');
    const size_t bar = item.find('|');
    if (item[0] == '*') {
      spec.kind = Spec::Kind::rest;
    } else if (item[0] == '[') {
      spec.kind = Spec::Kind::address;
    } else if (item[0] == '{') {
      spec.kind = Spec::Kind::vector;
    } else if (bar != std::string_view::npos) {
      spec.kind = Spec::Kind::pair;
      spec.second_width = width_code(item.substr(bar + 1));
    }
    spec.width = width_code(item.substr(0, bar));
    specs.push_back(spec);
  }
  return specs;
}

class Decoder {
 public:
  Decoder(const Module& module, const Ptx& ptx, const Function& entry, const Kernel& kernel)
      : module_(module), ptx_(ptx), functions_(reachable(ptx, entry)), program_(new Program) {
    program_->module = &module;
    program_->kernel = &kernel;
    shared_ = lay_out_shared(ptx, functions_);
    program_->shared_variables = shared_.variables;
    program_->callables.resize(ptx.functions.size());
    image_.resize(FIRST_ROW);
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      entry_params_[entry.params[i].name] = kernel.params[i].offset;
    }
  }

  std::shared_ptr<Program> run() {
    for (const Function* function : functions_) {
      if (!function->refusal.empty()) throw Error(Error::Kind::refused, function->refusal);
      lay_out_locals(*function);
    }
    for (const Function* function : functions_) add_function(*function);
    place_registers();
    program_->image.assign(image_.begin(), image_.end());
    program_->local_bytes = align_up(local_bytes_, 16);
    return program_;
  }

 private:
  // ---- Variables in a thread's local memory ----
  void lay_out_locals(const Function& function) {
    auto& offsets = locals_[&function];
    const auto add = [&](const Variable& variable) {
      local_bytes_ = align_up(local_bytes_, std::max(variable.align, 8u));
      offsets[variable.name] = {local_bytes_, static_cast<uint32_t>(variable.bytes)};
      local_bytes_ += static_cast<uint32_t>(variable.bytes);
    };
    const uint32_t begin = align_up(local_bytes_, 8);
    for (const Variable& variable : function.variables) {
      if (variable.space != Space::shared) add(variable);
    }
    if (function.entry) return;
    for (const Variable& variable : function.params) add(variable);
    callable(function).locals = {begin, begin, align_up(local_bytes_, 8) - begin};
    for (const Variable& variable : function.results) add(variable);
  }

  // ---- Rows ----
  // A register's row is known once all constants are placed: until then rows are numbers of
  // registers with this bit.
  static constexpr uint32_t REGISTER = 1u << 31;

  uint32_t new_row(Width width) {
    const uint32_t row = static_cast<uint32_t>(image_.size());
    image_.resize(row + LANES * (width == Width::w64 ? 8 : 4));
    return row;
  }

  uint32_t constant_row(Width width, uint64_t bits) {
    const auto [at, made] = constants_.try_emplace({width, bits}, 0);
    if (!made) return at->second;
    const uint32_t row = at->second = new_row(width);
    if (width == Width::pred) {
      const uint32_t mask = bits ? FULL : 0;
      std::memcpy(&image_[row], &mask, 4);
      return row;
    }
    const uint32_t bytes = width == Width::w64 ? 8 : 4;
    for (uint32_t lane = 0; lane < LANES; ++lane) {
      std::memcpy(&image_[row + lane * bytes], &bits, bytes);
    }
    return row;
  }

  uint32_t special_row(const std::string& name, Width width) {
    if (name == "WARP_SZ") return constant_row(width, LANES);
    const SpecialRegister* const what = find_special(name);
    if (what == nullptr) {
      refuse_statement(ptx_, *statement_, "there is no special register " + name + ".");
    }
    for (const auto& special : program_->specials) {
      if (special.what == what && special.width == width) return special.row;
    }
    program_->specials.push_back({what, new_row(width), width});
    return program_->specials.back().row;
  }

  uint32_t shared_row(uint32_t address, Width width) {
    for (const auto& symbol : program_->shared_symbols) {
      if (symbol.address == address && symbol.width == width) return symbol.row;
    }
    program_->shared_symbols.push_back({new_row(width), width, address});
    return program_->shared_symbols.back().row;
  }

  void place_registers() {
    std::vector<uint32_t> rows(register_widths_.size());
    uint32_t end = align_up(static_cast<uint32_t>(image_.size()), 128);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (register_widths_[i] == Width::pred) continue;
      rows[i] = end;
      end += LANES * (register_widths_[i] == Width::w64 ? 8 : 4);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      if (register_widths_[i] != Width::pred) continue;
      rows[i] = end;
      end += 4;
    }
    program_->rows_bytes = align_up(end, 256);
    const auto place = [&rows](uint32_t& row) {
      if (row & REGISTER) row = rows[row & ~REGISTER];
    };
    for (Inst& inst : program_->code) {
      for (uint32_t& row : inst.op) place(row);
      place(inst.guard);
    }
    for (std::vector<Slot>& slots : program_->slots) {
      for (Slot& slot : slots) place(slot.row);
    }
    for (Callable& callable : program_->callables) {
      place(callable.return_row);
      for (Slot& slot : callable.registers) place(slot.row);
    }
  }

  // ---- Functions ----
  void add_function(const Function& function) {
    function_ = &function;
    first_register_ = static_cast<uint32_t>(register_widths_.size());
    for (const Register& made : function.registers) register_widths_.push_back(made.width);
    if (!function.entry) make_callable(function);
    find_async_registers();
    shared_variables_ = shared_variables_in(function, shared_);
    std::vector<uint32_t> pcs;
    const size_t first_branch = branches_.size();
    for (const Statement& statement : function.statements) {
      statement_ = &statement;
      pcs.push_back(static_cast<uint32_t>(program_->code.size()));
      add_statement();
    }
    pcs.push_back(static_cast<uint32_t>(program_->code.size()));
    const Statement* const last = function.statements.empty() ? nullptr : statement_;
    if (last == nullptr || (last->opcode != "ret" && last->opcode != "exit") || last->guard >= 0) {
      add_return();  // execution may run past the last statement
    }
    for (size_t i = first_branch; i < branches_.size(); ++i) {
      Branch& branch = branches_[i];
      const auto found = function.labels.find(branch.label);
      if (found == function.labels.end()) {
        refuse_statement(ptx_, *branch.statement, "there is no label '" + branch.label + "'.");
      }
      const uint32_t target = pcs[found->second];
      if (branch.table == nullptr) {
        program_->code[branch.pc].target = target;
      } else {
        (*branch.table)[branch.entry].row = target;
      }
    }
  }

  uint32_t index_of(const Function& function) const {
    return static_cast<uint32_t>(&function - ptx_.functions.data());
  }
  Callable& callable(const Function& function) { return program_->callables[index_of(function)]; }

  void make_callable(const Function& function) {
    Callable& made = callable(function);
    made.function = &function;
    made.start = static_cast<uint32_t>(program_->code.size());
    for (size_t i = 0; i < function.registers.size(); ++i) {
      Slot& slot = made.registers.emplace_back();
      slot.row = register_row(static_cast<int>(i));
      slot.width = function.registers[i].width;
    }
    made.return_row = static_cast<uint32_t>(register_widths_.size()) | REGISTER;
    register_widths_.push_back(Width::w32);
  }

  // Registers that wgmma reads or writes while other instructions run.
  void find_async_registers() {
    async_registers_.assign(function_->registers.size(), false);
    for (const Statement& statement : function_->statements) {
      if (!statement.opcode.starts_with("wgmma.mma_async")) continue;
      for (const Operand& operand : statement.operands) {
        if (operand.kind != Operand::Kind::vector) continue;
        for (const Operand& part : operand.parts) {
          if (part.kind == Operand::Kind::reg) async_registers_[part.reg] = true;
        }
      }
    }
  }

  Inst new_inst() const {
    Inst inst;
    if (statement_->guard >= 0) {
      inst.guard = register_row(statement_->guard);
      inst.guard_not = statement_->guard_not;
    }
    return inst;
  }

  void add(const Inst& inst) {
    program_->code.push_back(inst);
    program_->statements.push_back(statement_);
  }

  void add_return() {
    Opcode opcode;
    Inst inst;
    if (function_->entry) {
      inst.run = find_row("exit", &opcode)->pick(opcode);
    } else {
      inst.run = Control::leave;
      inst.op[0] = index_of(*function_);
    }
    add(inst);
  }

  void add_statement() {
    const Statement& statement = *statement_;
    if (is_call(statement)) return add_call();
    if (statement.opcode == "ret" || statement.opcode == "ret.uni") {
      const uint32_t pc = static_cast<uint32_t>(program_->code.size());
      add_return();
      const Inst guarded = new_inst();
      program_->code[pc].guard = guarded.guard;
      program_->code[pc].guard_not = guarded.guard_not;
      return;
    }
    Opcode opcode;
    opcode.operands = &statement.operands;
    const Row* const row = find_row(statement.opcode, &opcode);
    if (row == nullptr) {
      refuse_statement(ptx_, statement, "no instruction of this spelling is supported.");
    }
    Inst inst = new_inst();
    inst.run = row->pick(opcode);
    if (inst.run == nullptr) {
      refuse_statement(ptx_, statement, "this combination of qualifiers is not supported.");
    }
    inst.mods = opcode.mods;
    inst.convergent = opcode.convergent;
    opcode_ = &opcode;
    if (statement.opcode == "bra" || statement.opcode == "bra.uni") {
      branches_.push_back(
          {static_cast<uint32_t>(program_->code.size()), operand_name(0), &statement, nullptr, 0});
    } else if (statement.opcode.starts_with("brx.idx")) {
      add_branch_table(&inst);
    } else {
      add_operands(*row, &inst);
      if (!statement.opcode.starts_with("wgmma")) inst.touches_async = names_async();
    }
    if (statement.opcode.starts_with("mov") && statement.operands.size() == 2) read_clock(&inst);
    add(inst);
  }

  std::string operand_name(size_t i) const {
    return i < statement_->operands.size() ? statement_->operands[i].name : "";
  }

  // brx.idx %r, targets: the slots behind the index are pcs.
  void add_branch_table(Inst* inst) {
    const auto found = function_->branch_targets.find(operand_name(1));
    if (found == function_->branch_targets.end()) {
      refuse_statement(ptx_, *statement_, "it has no list of targets.");
    }
    std::vector<Slot>& slots = program_->slots.emplace_back();
    slots.push_back(scalar(statement_->operands[0], '3'));
    slots.resize(1 + found->second.size());
    for (size_t i = 0; i < found->second.size(); ++i) {
      branches_.push_back({static_cast<uint32_t>(program_->code.size()), found->second[i],
                           statement_, &slots, static_cast<uint32_t>(i + 1)});
    }
    set_slots(inst, slots);
  }

  // mov %rd, %clock64: the row would be stale.
  void read_clock(Inst* inst) const {
    static const std::map<std::string, Clock> CLOCKS = {
        {"%clock", Clock::clock},
        {"%clock64", Clock::clock64},
        {"%globaltimer", Clock::globaltimer},
        {"%globaltimer_lo", Clock::globaltimer_lo},
        {"%globaltimer_hi", Clock::globaltimer_hi},
    };
    const auto found = CLOCKS.find(operand_name(1));
    if (found == CLOCKS.end()) return;
    inst->run = Control::read_clock;
    inst->mods = static_cast<uint32_t>(found->second);
  }

  bool names_async() const {
    const auto names = [this](const auto& self, const Operand& operand) -> bool {
      if (operand.kind == Operand::Kind::reg) return async_registers_[operand.reg];
      for (const Operand& part : operand.parts) {
        if (self(self, part)) return true;
      }
      return false;
    };
    for (const Operand& operand : statement_->operands) {
      if (names(names, operand)) return true;
    }
    return false;
  }

  // ---- Calls ----
  void add_call() {
    const Statement& statement = *statement_;
    const size_t at = callee_operand(statement);
    const std::string& name = statement.operands[at].name;
    const std::vector<Operand> none;
    const auto& results = at == 1 ? statement.operands[0].parts : none;
    const auto& arguments =
        statement.operands.size() > at + 1 ? statement.operands[at + 1].parts : none;
    if (is_indirect(statement)) return add_indirect_call(arguments, results);
    const Function* const callee = find_function(ptx_, name);
    Inst inst = new_inst();
    inst.mods = static_cast<uint32_t>(program_->param_copies.size());
    inst.slot_count = static_cast<uint32_t>(arguments.size());
    if (callee == nullptr) {
      inst.run = name == "vprintf"        ? Control::printf
                 : name == "__assertfail" ? Control::assert_failed
                                          : nullptr;
      if (inst.run == nullptr) {
        refuse_statement(ptx_, statement, "there is no function '" + name + "'.");
      }
      for (const Operand& argument : arguments) copy_param(param(argument), {});
      for (const Operand& result : results) copy_param({}, param(result));
      return add(inst);
    }
    copy_arguments(arguments, *callee);
    inst.run = Control::call;
    inst.op[0] = index_of(*callee);
    add(inst);

    Inst back = new_inst();
    back.run = Control::results;
    back.mods = static_cast<uint32_t>(program_->param_copies.size());
    back.slot_count = static_cast<uint32_t>(results.size());
    copy_results(results, *callee);
    add(back);
  }

  // call (results), %rd1, (arguments), prototype: of any function whose address is taken, and that
  // has as many parameters and results.
  void add_indirect_call(const std::vector<Operand>& arguments,
                         const std::vector<Operand>& results) {
    const Operand& pointer = statement_->operands[callee_operand(*statement_)];
    Inst call = new_inst(), back = new_inst();
    call.run = Control::call_indirect;
    back.run = Control::results_indirect;
    call.slot_count = static_cast<uint32_t>(arguments.size());
    back.slot_count = static_cast<uint32_t>(results.size());
    call.op[0] = back.op[0] = register_row(pointer.reg);
    std::map<uint32_t, uint32_t> given, taken;
    for (const Function* callee : pointed_to(ptx_)) {
      if (callee->params.size() != arguments.size() || callee->results.size() != results.size()) {
        continue;
      }
      given[index_of(*callee)] = static_cast<uint32_t>(program_->param_copies.size());
      copy_arguments(arguments, *callee);
      taken[index_of(*callee)] = static_cast<uint32_t>(program_->param_copies.size());
      copy_results(results, *callee);
    }
    call.target = static_cast<uint32_t>(program_->indirect_copies.size());
    program_->indirect_copies.push_back(std::move(given));
    back.target = static_cast<uint32_t>(program_->indirect_copies.size());
    program_->indirect_copies.push_back(std::move(taken));
    add(call);
    add(back);
  }

  void copy_arguments(const std::vector<Operand>& arguments, const Function& callee) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      copy_param(param(arguments[i]), locals_[&callee].at(callee.params.at(i).name));
    }
  }
  void copy_results(const std::vector<Operand>& results, const Function& callee) {
    for (size_t i = 0; i < results.size(); ++i) {
      copy_param(locals_[&callee].at(callee.results.at(i).name), param(results[i]));
    }
  }

  struct Local {
    uint32_t offset = 0, bytes = 0;
  };

  Local param(const Operand& operand) const {
    const auto& offsets = locals_.at(function_);
    const auto found = offsets.find(operand.name);
    if (found == offsets.end()) {
      refuse_statement(ptx_, *statement_, "'" + operand.name + "' is no .param variable.");
    }
    return found->second;
  }

  void copy_param(const Local& from, const Local& to) {
    program_->param_copies.push_back({from.offset, to.offset, std::max(from.bytes, to.bytes)});
  }

  // ---- Operands ----
  void add_operands(const Row& row, Inst* inst) {
    const std::vector<Spec> specs = parse_specs(row.operands);
    const std::vector<Operand>& operands = statement_->operands;
    std::vector<Slot>& slots = program_->slots.emplace_back();
    bool first_address = true;
    size_t s = 0;
    for (const Operand& operand : operands) {
      if (s >= specs.size()) wrong_operands(row);
      const Spec& spec = specs[s];
      const bool is_vector = operand.kind == Operand::Kind::vector;
      const bool is_address = operand.kind == Operand::Kind::address;
      switch (spec.kind) {
        case Spec::Kind::scalar:
          if (is_vector || is_address) wrong_operands(row);
          slots.push_back(scalar(operand, spec.width));
          break;
        case Spec::Kind::pair:
          if (is_address) wrong_operands(row);
          slots.push_back(scalar(is_vector ? operand.parts[0] : operand, spec.width));
          if (is_vector) slots.push_back(scalar(operand.parts[1], spec.second_width));
          break;
        case Spec::Kind::vector:
          if (!is_vector) wrong_operands(row);
          for (const Operand& part : operand.parts) slots.push_back(scalar(part, spec.width));
          break;
        case Spec::Kind::address: {
          if (!is_address) wrong_operands(row);
          const Slot slot = address(operand);
          if (first_address) {
            inst->offset = slot.offset;
            inst->wide_address = slot.width == Width::w64;
            inst->variable = shared_variable(operand.parts[0]);
            first_address = false;
          }
          slots.push_back(slot);
          for (size_t i = 1; i < operand.parts.size(); ++i) {
            slots.push_back(scalar(operand.parts[i], 'x'));
          }
          break;
        }
        case Spec::Kind::rest:
          add_any(operand, &slots);
          continue;  // takes what follows too
      }
      ++s;
    }
    for (; s < specs.size(); ++s) {
      if (!specs[s].optional && specs[s].kind != Spec::Kind::rest) wrong_operands(row);
    }
    set_slots(inst, slots);
  }

  void add_any(const Operand& operand, std::vector<Slot>* slots) {
    if (operand.kind == Operand::Kind::address) {
      slots->push_back(address(operand));
    } else if (operand.kind != Operand::Kind::vector) {
      slots->push_back(scalar(operand, 'x'));
    } else {
      const char width = statement_->opcode == "mov.b64" ? '3' : 'x';  // of a number: half of it
      for (const Operand& part : operand.parts) slots->push_back(scalar(part, width));
    }
  }

  static void set_slots(Inst* inst, const std::vector<Slot>& slots) {
    inst->slots = slots.data();
    inst->slot_count = static_cast<uint32_t>(slots.size());
    for (size_t i = 0; i < slots.size() && i < std::size(inst->op); ++i) {
      inst->op[i] = slots[i].row;
    }
  }

  [[noreturn]] void wrong_operands(const Row& row) const {
    refuse_statement(ptx_, *statement_, std::string("its operands are not ") + row.operands + ".");
  }

  uint32_t register_row(int reg) const { return (first_register_ + reg) | REGISTER; }

  Type type_of_code(char code) const {
    if (code == 's') return opcode_->type(1);
    if (code == 'r') return opcode_->type(2);
    return opcode_->type(0);
  }

  Width width_of_code(char code) const {
    switch (code) {
      case 'p':
        return Width::pred;
      case '3':
        return Width::w32;
      case '6':
        return Width::w64;
      case 'w':
        return bytes_of(type_of_code('t')) >= 4 ? Width::w64 : Width::w32;
      default: {
        const Type type = type_of_code(code);
        if (type == Type::pred) return Width::pred;
        return bytes_of(type) == 8 ? Width::w64 : Width::w32;
      }
    }
  }

  Slot scalar(const Operand& operand, char code) {
    Slot slot;
    slot.negated = operand.negated;
    slot.width = width_of_code(code);
    const Type type = type_of_code(code);
    switch (operand.kind) {
      case Operand::Kind::reg: {
        const Width declared = function_->registers[operand.reg].width;
        if (code != 'x' && declared != slot.width) {
          refuse_statement(ptx_, *statement_,
                           "register " + operand.name + " is of another width than the operand.");
        }
        if (operand.negated && declared != Width::pred) {
          refuse_statement(ptx_, *statement_, "only predicates can be negated.");
        }
        slot.width = declared;
        slot.row = register_row(operand.reg);
        return slot;
      }
      case Operand::Kind::sink:
        slot.row = SINK_ROW;
        return slot;
      case Operand::Kind::special:
        slot.row = special_row(operand.name, slot.width);
        return slot;
      case Operand::Kind::symbol:
        return symbol(operand, slot.width);
      case Operand::Kind::integer: {
        uint64_t bits = operand.bits;
        if (slot.width == Width::w32) bits = static_cast<uint32_t>(bits);
        if (bytes_of(type) == 2 && (code == 't' || code == 's' || code == 'r')) bits &= 0xffff;
        slot.row = constant_row(slot.width, bits);
        return slot;
      }
      case Operand::Kind::f32:
        slot.row = constant_row(slot.width, operand.bits);
        return slot;
      case Operand::Kind::f64: {
        const auto narrow =
            std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits)));
        slot.row = constant_row(slot.width, slot.width == Width::w64 ? operand.bits : narrow);
        return slot;
      }
      default:
        refuse_statement(ptx_, *statement_, "an operand has a form that is not supported.");
    }
  }

  // The static shared variable that an address was made from: Inst::variable.
  uint16_t shared_variable(const Operand& base) const {
    if (base.kind == Operand::Kind::reg) return shared_variables_[base.reg];
    if (base.kind != Operand::Kind::symbol) return 0;
    for (size_t i = 0; i < shared_.variables.size(); ++i) {
      if (shared_.variables[i].name == base.name) return static_cast<uint16_t>(i + 1);
    }
    return 0;
  }

  Slot address(const Operand& operand) {
    const Operand& base = operand.parts[0];
    Slot slot;
    if (base.kind == Operand::Kind::reg) {
      slot.width = function_->registers[base.reg].width;
      slot.row = register_row(base.reg);
    } else if (base.kind == Operand::Kind::symbol) {
      slot = symbol(base, Width::w64);
    } else if (base.kind == Operand::Kind::integer) {
      slot.width = Width::w64;
      slot.row = constant_row(Width::w64, base.bits);
    } else {
      refuse_statement(ptx_, *statement_, "an address has a form that is not supported.");
    }
    slot.offset = static_cast<int32_t>(operand.offset);
    return slot;
  }

  // A variable's address: a global's is a pointer; a shared one's is of the CTA that executes; a
  // parameter's is generic, since a call's lies in local memory and a kernel's does not.
  Slot symbol(const Operand& operand, Width width) {
    Slot slot;
    slot.width = width;
    const uint64_t offset = static_cast<uint64_t>(operand.offset);
    const auto shared = shared_.address.find(operand.name);
    if (shared != shared_.address.end()) {
      slot.row = shared_row(shared->second + static_cast<uint32_t>(offset), width);
      return slot;
    }
    const auto& locals = locals_.at(function_);
    const auto local = locals.find(operand.name);
    const auto param = entry_params_.find(operand.name);
    uint64_t address = 0;
    if (local != locals.end()) {
      const Variable* variable = find_variable(function_->variables, operand.name);
      const bool is_local = variable != nullptr && variable->space == Space::local;
      address = local->second.offset | (is_local ? 0 : LOCAL_WINDOW);
    } else if (function_->entry && param != entry_params_.end()) {
      address = param->second | PARAM_WINDOW;
    } else {
      address = variable_address(module_, operand.name);
      if (address == 0) address = function_address(ptx_, operand.name);
      if (address == 0) {
        refuse_statement(ptx_, *statement_, "there is no '" + operand.name + "' in this module.");
      }
    }
    slot.row = constant_row(width, address + offset);
    return slot;
  }

  struct Branch {
    uint32_t pc;
    std::string label;
    const Statement* statement;
    std::vector<Slot>* table;  // of brx.idx
    uint32_t entry;
  };

  const Module& module_;
  const Ptx& ptx_;
  std::vector<const Function*> functions_;
  std::shared_ptr<Program> program_;
  SharedLayout shared_;
  std::vector<uint8_t> image_;
  std::map<std::pair<Width, uint64_t>, uint32_t> constants_;
  std::map<std::string, uint32_t> entry_params_;
  std::map<const Function*, std::map<std::string, Local>> locals_;
  uint32_t local_bytes_ = 0;
  std::vector<Width> register_widths_;
  std::vector<Branch> branches_;
  // Of the function and statement under way:
  const Function* function_ = nullptr;
  const Statement* statement_ = nullptr;
  const Opcode* opcode_ = nullptr;
  uint32_t first_register_ = 0;
  std::vector<bool> async_registers_;
  std::vector<uint16_t> shared_variables_;  // by register
};

}  // namespace

uint64_t function_address(const Ptx& ptx, const std::string& name) {
  const Function* const function = find_function(ptx, name);
  if (function == nullptr) return 0;
  return FUNCTION_WINDOW | (static_cast<uint64_t>(function - ptx.functions.data()) + 1);
}

Kernel describe_kernel(const Ptx& ptx, const Function& entry) {
  Kernel kernel;
  kernel.name = entry.name;
  for (const Variable& param : entry.params) {
    kernel.param_bytes = align_up(kernel.param_bytes, param.align);
    kernel.params.push_back({kernel.param_bytes, static_cast<uint32_t>(param.bytes)});
    kernel.param_bytes += static_cast<uint32_t>(param.bytes);
  }
  kernel.static_smem_bytes = lay_out_shared(ptx, reachable(ptx, entry)).static_bytes;
  for (const Variable& variable : entry.variables) {
    if (variable.space == Space::local) {
      kernel.local_bytes += static_cast<uint32_t>(variable.bytes);
    }
  }
  if (entry.max_threads > 0) kernel.max_threads = std::min(entry.max_threads, 1024u);
  constexpr uint32_t SM_REGISTERS = 65536;
  const uint32_t threads = kernel.max_threads * entry.min_ctas;
  kernel.registers = std::min(255u, SM_REGISTERS / std::max(threads, 1u) / 8 * 8);
  if (entry.max_registers > 0) kernel.registers = std::min(kernel.registers, entry.max_registers);
  kernel.limits_registers = entry.max_threads > 0 || entry.max_registers > 0;
  kernel.explicit_cluster = entry.explicit_cluster || !entry.required_cluster.empty();
  if (!entry.required_cluster.empty()) {
    kernel.has_required_cluster = true;
    std::vector<uint32_t> sizes = entry.required_cluster;
    sizes.resize(3, 1);
    kernel.required_cluster = {sizes[0], sizes[1], sizes[2]};
  }
  return kernel;
}

std::shared_ptr<Program> decode(const Module& module, const Ptx& ptx, const Function& entry,
                                const Kernel& kernel) {
  return Decoder(module, ptx, entry, kernel).run();
}

}  // namespace machine
