// Which instructions order what others do, and what a kernel has in place of one that is left out.
#include "common/machine/code/orderings.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <string_view>

#include "common/machine/run/settings.h"

namespace machine {
namespace {

// What they begin with; there is none of these names that does something else.
constexpr std::string_view ALONE[] = {"fence.",
                                      "membar.",
                                      "bar.",
                                      "barrier.",
                                      "mbarrier.arrive",
                                      "mbarrier.expect_tx",
                                      "mbarrier.complete_tx",
                                      "mbarrier.test_wait",
                                      "mbarrier.try_wait",
                                      "cp.async.commit_group",
                                      "cp.async.wait_group",
                                      "cp.async.wait_all",
                                      "cp.async.mbarrier.arrive",
                                      "cp.async.bulk.commit_group",
                                      "cp.async.bulk.wait_group",
                                      "wgmma.fence",
                                      "wgmma.commit_group",
                                      "wgmma.wait_group",
                                      "griddepcontrol.wait"};
constexpr std::string_view ACCESSES[] = {"ld.", "st.", "red.", "atom."};
constexpr std::string_view ORDERS[] = {".acq_rel", ".acquire", ".release"};

template <size_t N>
bool begins_with_one(const std::string& opcode, const std::string_view (&of)[N]) {
  return std::any_of(std::begin(of), std::end(of),
                     [&](std::string_view begin) { return opcode.starts_with(begin); });
}

// Where ".acquire" or its like stands in the opcode of an access; npos if it does not.
size_t order_of_access(const std::string& opcode, size_t* length) {
  if (!begins_with_one(opcode, ACCESSES)) return std::string::npos;
  for (const std::string_view order : ORDERS) {
    const size_t at = opcode.find(order);
    *length = order.size();
    if (at != std::string::npos) return at;
  }
  return std::string::npos;
}

Operand integer(uint64_t bits) {
  Operand operand;
  operand.kind = Operand::Kind::integer;
  operand.bits = bits;
  return operand;
}

// When the program ends: whether there was what is to be left out.
struct Search {
  std::atomic<bool> was_found{false};
  ~Search() {
    const std::string& wanted = settings().left_out;
    if (wanted.empty() || was_found) return;
    std::fprintf(stderr, "PTX machine: MACHINE_LEAVE_OUT is '%s', which no kernel has that ran.\n",
                 wanted.c_str());
  }
};
Search& search() {
  settings();  // outlives it
  static Search instance;
  return instance;
}

Step note_executed(Warp& warp, const Inst& inst, uint32_t) {
  program_of(warp).orderings[inst.mods].is_executed = true;
  return Step::next;
}

}  // namespace

bool is_noted(const Statement& statement) {
  if (settings().orderings.empty() && settings().left_out.empty()) return false;
  search();
  size_t length = 0;
  return begins_with_one(statement.opcode, ALONE) ||
         order_of_access(statement.opcode, &length) != std::string::npos;
}

Statement without_ordering(const Statement& statement) {
  Statement other = statement;
  const std::string& opcode = statement.opcode;
  const std::vector<Operand>& operands = statement.operands;
  size_t length = 0;
  const size_t order = order_of_access(opcode, &length);
  if (order != std::string::npos) {
    other.opcode.replace(order, length, ".relaxed");
  } else if (opcode.starts_with("mbarrier.t")) {  // test_wait, try_wait
    other.opcode = "setp.eq.u32";
    other.operands = {operands[0], integer(0), integer(0)};
  } else if (opcode.find(".red.") != std::string::npos) {  // of a barrier: p, name, threads, mine
    const bool counts = opcode.find(".popc") != std::string::npos;
    other.opcode = counts ? "selp.u32" : "and.pred";
    other.operands = {operands[0], operands.back(), operands.back()};
    if (counts) other.operands = {operands[0], integer(1), integer(0), operands.back()};
  } else if (opcode.starts_with("mbarrier.arrive") && operands[0].kind == Operand::Kind::reg) {
    other.opcode = "mov.b64";  // the state that it returns
    other.operands = {operands[0], integer(0)};
  } else {
    other.opcode = "nanosleep.u32";
    other.operands = {integer(0)};
  }
  return other;
}

const Statement* note_ordering(Program* program, uint32_t pc) {
  Inst& note = program->code[pc];
  note.run = note_executed;
  note.mods = static_cast<uint32_t>(program->orderings.size());
  Origin::Place& place = program->orderings.emplace_back().place;
  place = program->source(pc);
  place.how = joined(program->opcode(pc), " at ", program->place(pc));
  if (place.line == 0) place.how += " of " + source_name(program->kernel->name);
  const Statement* const own = program->statements[pc];
  if (place.how != settings().left_out) return own;
  search().was_found = true;
  return &program->replaced.emplace_back(without_ordering(*own));
}

void write_orderings(const Program& program) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::ofstream file(settings().orderings, std::ios::app);
  for (Program::Ordering& ordering : program.orderings) {
    const int now = ordering.is_executed ? 1 : 0;
    if (ordering.written >= now) continue;
    ordering.written = now;
    file << now << '\t' << ordering.place.file << '\t' << ordering.place.line << '\t'
         << ordering.place.how << '\n';
  }
}

}  // namespace machine
