// Uses of registers, along the ways that a function may take. Of instructions it knows which of them
// order no accesses, and which may drop one of two values.
#include "common/machine/code/register_uses.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace machine {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

std::string_view first_word(const Statement& statement) {
  return std::string_view(statement.opcode).substr(0, statement.opcode.find('.'));
}

bool is_weak(const Statement& statement) {
  return std::ranges::none_of(
      std::initializer_list<const char*>{".volatile", ".relaxed", ".acquire", ".release"},
      [&](const char* order) { return statement.opcode.find(order) != std::string::npos; });
}

bool computes(const Statement& statement) {
  return is_one_of(
      first_word(statement),
      {"abs",  "add",  "and", "bfe", "bfi",  "brev", "clz",  "copysign", "cvt",   "cvta",
       "div",  "dp4a", "ex2", "fma", "lg2",  "lop3", "mad",  "max",      "min",   "mov",
       "mul",  "neg",  "not", "or",  "popc", "prmt", "rcp",  "rem",      "rsqrt", "sad",
       "setp", "shf",  "shl", "shr", "sin",  "cos",  "sqrt", "sub",      "tanh",  "xor"});
}

bool orders_accesses(const Statement& statement) {
  const std::string_view word = first_word(statement);
  if (is_one_of(word, {"ld", "st"})) return !is_weak(statement);
  return !computes(statement) && !is_one_of(word, {"selp", "shfl", "vote", "bra", "ret"});
}

template <class F>
void for_registers(const Operand& operand, const F& f) {
  if (operand.kind == Operand::Kind::reg) f(operand.reg);
  for (const Operand& part : operand.parts) for_registers(part, f);
}

class Finder {
 public:
  explicit Finder(const Function& function)
      : function_(function),
        written_(function.registers.size()),
        statements_of_(function.registers.size()) {
    for (size_t i = 0; i < function.statements.size(); ++i) {
      const Statement& statement = at(i);
      if (statement.guard >= 0) statements_of_[statement.guard].push_back(i);
      for (const Operand& operand : statement.operands) {
        for_registers(operand, [&](int reg) {
          statements_of_[reg].push_back(i);
          written_[reg] += &operand == &statement.operands[0];
        });
      }
    }
    for (const auto& [name, index] : function.labels) labels_.insert(index);
  }

  EarlyLoads run() {
    for (size_t i = 0; i < function_.statements.size(); ++i) {
      if (may_be_early(at(i))) add_load(i);
    }
    return std::move(found_);
  }

 private:
  using Uses = std::multimap<size_t, EarlyLoads::Use>;

  const Statement& at(size_t i) const { return function_.statements[i]; }

  // Of a variable, by its name.
  static bool may_be_early(const Statement& statement) {
    const auto& operands = statement.operands;
    return first_word(statement) == "ld" && is_weak(statement) && statement.guard < 0 &&
           (statement.opcode.find(".shared") != std::string::npos ||
            statement.opcode.find(".global") != std::string::npos) &&
           operands.size() == 2 && operands[1].kind == Operand::Kind::address &&
           operands[1].parts[0].kind == Operand::Kind::symbol;
  }
  bool is_written_once(const Operand& to) const {
    return to.kind == Operand::Kind::reg && written_[to.reg] == 1;
  }

  // If any of its elements may be dropped.
  void add_load(size_t load) {
    const Operand& to = at(load).operands[0];
    const bool is_vector = to.kind == Operand::Kind::vector;
    load_ = load;
    Uses uses;
    bool is_early = false;
    for (element_ = 0; element_ < (is_vector ? to.parts.size() : 1); ++element_) {
      const Operand& value = is_vector ? to.parts[element_] : to;
      uses_.clear();
      if (value.kind == Operand::Kind::sink || (is_written_once(value) && find_uses(value.reg))) {
        is_early = true;
      } else {
        uses_.clear();
        add_use(load, -1, false);
      }
      uses.merge(uses_);
    }
    if (!is_early) return;
    found_.loads.insert(&at(load));
    found_.uses.merge(uses);
  }

  // Whether it has the value, or what was computed of it.
  bool has_value(const Operand& operand) const {
    bool found = false;
    for_registers(operand, [&](int reg) { found = found || values_.contains(reg); });
    return found;
  }
  bool names_value(const Statement& statement) const {
    if (values_.contains(statement.guard)) return true;
    return std::ranges::any_of(statement.operands,
                               [this](const Operand& operand) { return has_value(operand); });
  }

  // What drops the value in some lanes: selp, or another operand of and.pred or or.pred.
  bool add_selection(size_t i) {
    const Statement& statement = at(i);
    const auto& operands = statement.operands;
    const std::string_view word = first_word(statement);
    const bool selects = word == "selp" && operands.size() == 4 && !has_value(operands[3]);
    const bool combines = statement.opcode == "and.pred" || statement.opcode == "or.pred";
    if (!(selects || (combines && operands.size() == 3)) || statement.guard >= 0) return false;
    const bool is_second = has_value(operands[2]);
    const Operand& by = operands[selects ? 3 : is_second ? 1 : 2];
    if (has_value(operands[1]) == is_second || by.kind != Operand::Kind::reg) return false;
    add_use(i, by.reg, by.negated != (selects ? is_second : word == "or"));
    return true;
  }
  void add_use(size_t i, int guard, bool guard_not) {
    Statement access = at(load_);
    std::string& opcode = access.opcode;
    if (const size_t count = opcode.find(".v"); count != std::string::npos) {
      opcode.erase(count, 3);
      const size_t bits = opcode.find_last_not_of("0123456789") + 1;
      access.operands[1].offset += element_ * (std::stoi(opcode.substr(bits)) / 8);
    }
    access.operands[0] = Operand();
    access.operands[0].kind = Operand::Kind::sink;
    access.guard = guard;
    access.guard_not = guard_not;
    uses_.insert({i, {&at(load_), access}});
  }

  // The uses of what is loaded to the register; false if it is wanted there in any case.
  bool find_uses(int reg) {
    values_ = {reg};
    size_t end = load_ + 1;
    for (; end < function_.statements.size() && !labels_.contains(end); ++end) {
      const Statement& statement = at(end);
      const bool uses = names_value(statement);
      if (orders_accesses(statement)) {
        if (uses) return false;
        break;
      }
      if (uses && !add_selection(end)) {
        const Operand& to = statement.operands[0];
        if (!computes(statement) || statement.guard >= 0 || !is_written_once(to)) return false;
        values_.insert(to.reg);
      }
      if (first_word(statement) == "bra") break;
    }
    const bool used_elsewhere = std::ranges::any_of(values_, [&](int reg) {
      return std::ranges::any_of(statements_of_[reg],
                                 [&](size_t i) { return i < load_ || i >= end; });
    });
    return !used_elsewhere || follow(end);
  }

  // From a statement on to the uses in other blocks; false if one comes behind what orders accesses.
  bool follow(size_t from) {
    std::vector<bool> seen[2] = {std::vector<bool>(function_.statements.size()),
                                 std::vector<bool>(function_.statements.size())};
    std::vector<std::pair<size_t, bool>> next = {{from, false}};
    while (!next.empty()) {
      const auto [i, is_ordered] = next.back();
      next.pop_back();
      if (i >= function_.statements.size() || i == load_) continue;
      if (seen[is_ordered][i]) continue;
      seen[is_ordered][i] = true;
      const Statement& statement = at(i);
      if (names_value(statement)) {
        if (is_ordered) return false;
        if (!add_selection(i)) {
          const bool is_guard = values_.contains(statement.guard);
          add_use(i, is_guard ? -1 : statement.guard, statement.guard_not);
          if (is_guard || statement.guard < 0) continue;
        }
      }
      const bool orders = is_ordered || orders_accesses(statement);
      const std::string_view word = first_word(statement);
      if (word == "brx") return false;
      const bool leaves = is_one_of(word, {"bra", "ret", "exit", "trap"});
      if (!leaves || statement.guard >= 0) next.push_back({i + 1, orders});
      if (word != "bra" || statement.operands.empty()) continue;
      const auto target = function_.labels.find(statement.operands[0].name);
      if (target == function_.labels.end()) return false;
      next.push_back({target->second, orders});
    }
    return true;
  }

  const Function& function_;
  std::vector<uint32_t> written_;                   // how often, by register
  std::vector<std::vector<size_t>> statements_of_;  // that name it, by register
  std::set<size_t> labels_;                         // statements that have one
  EarlyLoads found_;
  // Of the load under way:
  size_t load_ = 0, element_ = 0;
  std::set<int> values_;  // registers that hold it, or what was computed of it
  Uses uses_;
};

}  // namespace

std::vector<bool> async_registers(const Function& function) {
  std::vector<bool> found(function.registers.size());
  for (const Statement& statement : function.statements) {
    if (!statement.opcode.starts_with("wgmma.mma_async")) continue;
    for (const Operand& operand : statement.operands) {
      if (operand.kind != Operand::Kind::vector) continue;
      for (const Operand& part : operand.parts) {
        if (part.kind == Operand::Kind::reg) found[part.reg] = true;
      }
    }
  }
  return found;
}

EarlyLoads early_loads(const Function& function) {
  return Finder(function).run();
}

}  // namespace machine
