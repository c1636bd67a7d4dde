// From statements to a flat list of instructions: handlers, rows of operands, branch targets, calls. It
// knows of an instruction only what its row of the table says.
#include <algorithm>
#include <map>
#include <set>

#include "common/machine/code/calls.h"
#include "common/machine/code/isa.h"
#include "common/machine/code/operand_spec.h"
#include "common/machine/code/orderings.h"
#include "common/machine/code/register_uses.h"
#include "common/machine/code/rows.h"
#include "common/machine/code/shared_layout.h"
#include "common/machine/run/control.h"
#include "common/machine/run/module.h"
#include "common/machine/text/source.h"

namespace machine {
namespace {

class Decoder {
 public:
  Decoder(const Module& module, const Ptx& ptx, const Function& entry, const Kernel& kernel)
      : module_(module),
        ptx_(ptx),
        functions_(reachable(ptx, entry)),
        program_(new Program),
        rows_(*program_) {
    program_->module = &module;
    program_->kernel = &kernel;
    shared_ = lay_out_shared(ptx, functions_);
    program_->shared_variables = shared_.variables;
    program_->callables.resize(ptx.functions.size());
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      entry_params_[entry.params[i].name] = kernel.params[i].offset;
    }
  }

  std::shared_ptr<Program> run() {
    for (const Function* function : functions_) {
      if (!function->refusal.empty()) refuse_function(ptx_, *function);
      lay_out_locals(*function);
    }
    for (const Function* function : functions_) add_function(*function);
    rows_.place();
    program_->stack = align_up(local_bytes_, 16);
    program_->local_bytes = program_->stack + (used_row_ != 0 ? STACK_BYTES : 0);
    return program_;
  }

 private:
  // ---- Variables in a thread's local memory ----
  void lay_out_locals(const Function& function) {
    auto& offsets = locals_[&function];
    const auto add = [&](const Variable& variable) {
      local_bytes_ = align_up(local_bytes_, std::max(variable.align, 8u));
      offsets[variable.name] = {local_bytes_, static_cast<uint32_t>(variable.bytes),
                                variable.space != Space::local};
      local_bytes_ += static_cast<uint32_t>(variable.bytes);
    };
    const uint32_t frame = align_up(local_bytes_, 8);
    for (const Variable& variable : function.variables) {
      if (variable.space == Space::local) add(variable);
    }
    const uint32_t begin = align_up(local_bytes_, 8);
    for (const Variable& variable : function.variables) {
      if (variable.space == Space::param) add(variable);
    }
    if (function.entry) return;
    for (const Variable& variable : function.params) add(variable);
    Callable& made = callable(function);
    made.locals = {begin, begin, align_up(local_bytes_, 8) - begin};
    if (begin != frame && calls_itself(ptx_, function)) {
      if (used_row_ == 0) used_row_ = rows_.add_register(Width::w32);
      made.used_row = used_row_;
      made.frame = {frame, frame, begin - frame};
    }
    for (const Variable& variable : function.results) add(variable);
  }

  uint32_t special_row(const std::string& name, Width width) {
    const auto reserved = shared_.address.find(name);
    if (reserved != shared_.address.end()) return rows_.shared(reserved->second, width);
    const SpecialRegister* const what = find_special(name);
    if (what == nullptr) {
      const bool selects = statement_->opcode[0] == 'v' && name.find('.') != std::string::npos;
      refuse(selects ? "video instructions take whole registers only, not " + name + "."
                     : "there is no special register " + name + ".");
    }
    return rows_.special(what, width);
  }

  // ---- Functions ----
  void add_function(const Function& function) {
    function_ = &function;
    registers_.clear();
    for (const Register& made : function.registers) {
      registers_.push_back(rows_.add_register(made.width));
    }
    if (!function.entry) make_callable(function);
    async_registers_ = async_registers(function);
    shared_variables_ = shared_variables_in(function, shared_);
    const EarlyLoads early = early_loads(function);
    std::vector<uint32_t> pcs;
    const size_t first_branch = branches_.size();
    for (const Statement& statement : function.statements) {
      const auto [begin, end] = early.uses.equal_range(pcs.size());
      pcs.push_back(next_pc());
      for (auto use = begin; use != end; ++use) add_use(use->second);
      statement_ = &statement;
      if (is_noted(statement)) {
        add(new_inst());
        statement_ = note_ordering(program_.get(), next_pc() - 1);
      }
      add_statement();
      program_->code.back().is_early = early.loads.contains(&statement);
    }
    pcs.push_back(next_pc());
    const Statement* const last = function.statements.empty() ? nullptr : statement_;
    if (last == nullptr || (last->opcode != "ret" && last->opcode != "exit") || last->guard >= 0) {
      add_return({});  // execution may run past the last statement
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
    made.start = next_pc();
    for (size_t i = 0; i < function.registers.size(); ++i) {
      Slot& slot = made.registers.emplace_back();
      slot.row = register_row(static_cast<int>(i));
      slot.width = function.registers[i].width;
    }
    made.return_row = rows_.add_register(Width::w32);
    if (made.frame.bytes != 0) made.registers.push_back({used_row_, 0, Width::w32});
  }

  Inst new_inst() const {
    Inst inst;
    if (statement_->guard >= 0) {
      inst.guard = register_row(statement_->guard);
      inst.guard_not = statement_->guard_not;
    }
    return inst;
  }

  uint32_t next_pc() const { return static_cast<uint32_t>(program_->code.size()); }
  uint32_t next_copy() const { return static_cast<uint32_t>(program_->param_copies.size()); }

  [[noreturn]] void refuse(const std::string& why) const {
    refuse_statement(ptx_, *statement_, why);
  }

  void add(const Inst& inst) {
    program_->code.push_back(inst);
    program_->statements.push_back(statement_);
  }

  void add_return(Inst inst) {
    Opcode opcode;
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
    if (statement.opcode == "ret" || statement.opcode == "ret.uni") return add_return(new_inst());
    Opcode opcode;
    opcode.operands = &statement.operands;
    const Row* const row = find_row(statement.opcode, &opcode);
    if (row == nullptr) refuse(why_unsupported(statement.opcode));
    Inst inst = new_inst();
    inst.run = row->pick(opcode);
    if (inst.run == nullptr) refuse("this combination of qualifiers is not supported.");
    inst.mods = opcode.mods;
    inst.convergent = opcode.convergent;
    const auto names = [&](const char* part) {  // mma, wgmma, ldmatrix, stmatrix, movmatrix
      return statement.opcode.find(part) != statement.opcode.npos;
    };
    inst.whole_warp = opcode.convergent && (names("mma") || names("matrix"));
    opcode_ = &opcode;
    if (statement.opcode == "bra" || statement.opcode == "bra.uni") {
      branches_.push_back({next_pc(), operand_name(0), &statement, nullptr, 0});
    } else if (statement.opcode.starts_with("brx.idx")) {
      add_branch_table(&inst);
    } else {
      add_operands(*row, &inst);
      if (!statement.opcode.starts_with("wgmma")) {
        inst.touches_async = are_async(statement.operands);
      }
    }
    if (statement.opcode.starts_with("mov") && statement.operands.size() == 2) read_clock(&inst);
    add(inst);
  }

  // An access at the place of an early load: its value goes nowhere.
  void add_use(const EarlyLoads::Use& use) {
    statement_ = &use.access;
    add_statement();
    program_->statements.back() = use.load;
  }

  std::string operand_name(size_t i) const {
    return i < statement_->operands.size() ? statement_->operands[i].name : "";
  }

  // brx.idx %r, targets: the slots behind the index are pcs.
  void add_branch_table(Inst* inst) {
    const auto found = function_->branch_targets.find(operand_name(1));
    if (found == function_->branch_targets.end()) refuse("it has no list of targets.");
    std::vector<Slot>& slots = program_->slots.emplace_back();
    slots.push_back(scalar(statement_->operands[0], '3'));
    slots.resize(1 + found->second.size());
    for (size_t i = 0; i < found->second.size(); ++i) {
      branches_.push_back(
          {next_pc(), found->second[i], statement_, &slots, static_cast<uint32_t>(i + 1)});
    }
    set_slots(inst, slots);
  }

  // mov %rd, %clock64: the row would be stale.
  void read_clock(Inst* inst) const {
    static const std::set<std::string> CLOCKS = {"%clock", "%clock64", "%globaltimer",
                                                 "%globaltimer_lo", "%globaltimer_hi"};
    const std::string name = operand_name(1);
    if (!CLOCKS.contains(name)) return;
    inst->run = Control::read_clock;
    inst->mods = name == "%globaltimer_hi";
  }

  bool is_async(const Operand& operand) const {
    if (operand.kind == Operand::Kind::reg) return async_registers_[operand.reg];
    return are_async(operand.parts);
  }
  bool are_async(const std::vector<Operand>& operands) const {
    return std::any_of(operands.begin(), operands.end(),
                       [this](const Operand& operand) { return is_async(operand); });
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
    inst.mods = next_copy();
    inst.slot_count = static_cast<uint32_t>(arguments.size());
    if (callee == nullptr) {
      inst.run = Control::system_call(name);
      if (inst.run == nullptr) refuse("there is no function '" + name + "'.");
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
    back.mods = next_copy();
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
      given[index_of(*callee)] = next_copy();
      copy_arguments(arguments, *callee);
      taken[index_of(*callee)] = next_copy();
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
    bool is_param = false;
  };

  Local param(const Operand& operand) const {
    const auto& offsets = locals_.at(function_);
    const auto found = offsets.find(operand.name);
    if (found == offsets.end()) refuse("'" + operand.name + "' is no .param variable.");
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
          if ((is_vector && !is_one_in_braces(operand)) || is_address) wrong_operands(row);
          slots.push_back(scalar(is_vector ? operand.parts[0] : operand, spec.width));
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
          if (first_address) {
            inst->variable = shared_variable(operand.parts[0]);
            first_address = false;
          }
          slots.push_back(address(operand));
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

  // ld.global.b32 {d}, [a]: what is loaded or stored may stand in braces, also alone.
  bool is_one_in_braces(const Operand& operand) const {
    return operand.parts.size() == 1 &&
           (statement_->opcode.starts_with("ld") || statement_->opcode.starts_with("st"));
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
    refuse(std::string("its operands are not ") + row.operands + ".");
  }

  uint32_t register_row(int reg) const { return registers_[static_cast<size_t>(reg)]; }

  Type type_of_code(char code) const {
    if (code == 's') return opcode_->type(1);
    if (code == 'r') return opcode_->type(2);
    return opcode_->type(0);
  }

  Width width_of_code(char code) const {
    if (code == 'p') return Width::pred;
    if (code == '3') return Width::w32;
    if (code == '6') return Width::w64;
    const Type type = type_of_code(code);
    if (type == Type::pred) return Width::pred;
    return bytes_of(type) * (code == 'w' ? 2 : 1) == 8 ? Width::w64 : Width::w32;
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
          refuse("register " + operand.name + " is of another width than the operand.");
        }
        if (operand.negated && declared != Width::pred) refuse("only predicates can be negated.");
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
        slot.row = rows_.constant(slot.width, bits);
        return slot;
      }
      case Operand::Kind::f32:
        slot.row = rows_.constant(slot.width, operand.bits);
        return slot;
      case Operand::Kind::f64: {
        const auto narrow =
            std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits)));
        slot.row = rows_.constant(slot.width, slot.width == Width::w64 ? operand.bits : narrow);
        return slot;
      }
      default:
        refuse("an operand has a form that is not supported.");
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
      slot.row = rows_.constant(Width::w64, base.bits);
    } else {
      refuse("an address has a form that is not supported.");
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
      slot.row = rows_.shared(shared->second + static_cast<uint32_t>(offset), width);
      return slot;
    }
    const auto& locals = locals_.at(function_);
    const auto local = locals.find(operand.name);
    const auto param = entry_params_.find(operand.name);
    uint64_t address = 0;
    if (local != locals.end()) {
      Callable* const made = function_->entry ? nullptr : &callable(*function_);
      if (made != nullptr && made->frame.bytes != 0 && !local->second.is_param) {
        // Elsewhere in each call of a function that calls itself.
        slot.row = rows_.add_register(width);
        made->registers.push_back(slot);
        made->addresses.push_back(local->second.offset + static_cast<uint32_t>(offset));
        return slot;
      }
      address = local->second.offset | (local->second.is_param ? LOCAL_WINDOW : 0);
    } else if (function_->entry && param != entry_params_.end()) {
      address = param->second | PARAM_WINDOW;
    } else {
      address = module_.variable(operand.name);
      if (address == 0) address = function_address(ptx_, operand.name);
      if (address == 0) {
        const bool is_kernel = std::ranges::any_of(
            module_.kernels(), [&](const Kernel& kernel) { return kernel.name == operand.name; });
        refuse(is_kernel
                   ? "kernels cannot launch kernels here, as " + source_name(operand.name) + "."
                   : "there is no '" + operand.name + "' in this module.");
      }
    }
    slot.row = rows_.constant(width, address + offset);
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
  Rows rows_;
  std::map<std::string, uint32_t> entry_params_;
  std::map<const Function*, std::map<std::string, Local>> locals_;
  uint32_t local_bytes_ = 0;
  uint32_t used_row_ = 0;  // of a thread's stack, if a function keeps variables there
  std::vector<Branch> branches_;
  // Of the function and statement under way:
  const Function* function_ = nullptr;
  const Statement* statement_ = nullptr;
  const Opcode* opcode_ = nullptr;
  std::vector<uint32_t> registers_;  // their rows
  std::vector<bool> async_registers_;
  std::vector<uint16_t> shared_variables_;  // by register
};

}  // namespace

std::shared_ptr<Program> decode(const Module& module, const Ptx& ptx, const Function& entry,
                                const Kernel& kernel) {
  return Decoder(module, ptx, entry, kernel).run();
}

}  // namespace machine
