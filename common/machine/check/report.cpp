// How reports name kernels, warps, lanes, places and instructions, and how a handler ends a launch. It
// knows nothing of rules.
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "common/machine/code/isa.h"
#include "common/machine/run/module.h"
#include "common/machine/text/lines.h"
#include "common/machine/text/source.h"

namespace machine {
namespace {

// "lane 3", "lanes 0-31", "lanes 0-3,8"
std::string text_of_lanes(uint32_t mask) {
  std::string ranges;
  for (uint32_t lane = 0; lane < LANES; ++lane) {
    if (!(mask >> lane & 1)) continue;
    uint32_t last = lane;
    while (last + 1 < LANES && (mask >> (last + 1) & 1)) ++last;
    if (!ranges.empty()) ranges += ",";
    ranges += std::to_string(lane);
    if (last > lane) ranges += "-" + std::to_string(last);
    lane = last;
  }
  return (std::popcount(mask) == 1 ? "lane " : "lanes ") + ranges;
}

std::string text_of_operand(const Operand& operand) {
  using enum Operand::Kind;
  const uint64_t bits = operand.bits;
  if (operand.kind == integer) return std::to_string(static_cast<int64_t>(bits));
  if (operand.kind == f32) return std::to_string(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  if (operand.kind == f64) return std::to_string(std::bit_cast<double>(bits));
  std::string text = operand.negated ? "!" : "";
  if (operand.kind != vector && operand.kind != address) return text + operand.name;
  constexpr size_t SHOWN = 4;  // of wgmma's hundred registers
  for (size_t i = 0; i < operand.parts.size() && i < SHOWN; ++i) {
    text += (i > 0 ? ", " : "") + text_of_operand(operand.parts[i]);
    if (i == 0 && operand.offset != 0) text += "+" + std::to_string(operand.offset);
  }
  if (operand.parts.size() > SHOWN) text += ", ...";
  return operand.kind == address ? "[" + text + "]" : "{" + text + "}";
}

// "cutlass::device_kernel<...>" of a mangled name that the library cannot read; one of extern "C" as it
// is.
std::string path_of(const std::string& name) {
  std::string path;
  size_t at = name.starts_with("_ZN") ? 3 : name.starts_with("_Z") ? 2 : name.size();
  while (at < name.size() && std::isdigit(name[at])) {
    size_t digits = 0;
    const size_t length = std::stoul(name.substr(at, 4), &digits);
    at += digits;
    if (length == 0 || length > name.size() - at) return name;
    path += (path.empty() ? "" : "::") + name.substr(at, length);
    at += length;
  }
  if (path.empty()) return name;
  return at < name.size() && name[at] == 'I' ? path + "<...>" : path;
}

// Of a mangled name, without return type and parameters.
std::string demangled(const std::string& name) {
  int failed = 0;
  char* const text_of_name = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &failed);
  if (failed != 0) return path_of(name);
  std::string text = text_of_name;
  std::free(text_of_name);
  // Behind the return type's space, before the parameters: both stand outside of every bracket.
  size_t behind_space = 0, start = 0, end = text.size();
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (depth == 0 && text[i] == ' ') behind_space = i + 1;
    if (depth == 0 && text[i] == '(') start = behind_space, end = i;
    depth += (text[i] == '(' || text[i] == '<') - (text[i] == ')' || text[i] == '>');
  }
  text = text.substr(start, end - start);
  for (size_t at; (at = text.find("> >")) != std::string::npos;) text.erase(at + 1, 1);
  return text;
}

std::string name_of(const Origin::Place& place) {
  return joined(place.file, ":", place.line);
}

std::string own_and_callers(const Ptx& ptx, uint32_t own) {
  std::string text = name_of(source_of(ptx, own));
  for (uint32_t at = ptx.places[own].caller; at != 0; at = ptx.places[at].caller) {
    text += ", called at " + name_of(source_of(ptx, at));
  }
  return text;
}

[[noreturn]] void end(Error::Kind kind, Warp& warp, uint32_t mask, const std::string& what,
                      const Rule& rule) {
  const Program& program = program_of(warp);
  const uint32_t pc = warp.pc();
  throw Error(
      kind,
      joined(kind == Error::Kind::fault ? "Fault" : "Refused", " in kernel ",
             source_name(program.kernel->name), ": ", what, "\n  by ", describe(warp, mask),
             program.where(pc, "\n  "), "\n  PTX ", program.text(pc), report_end(program, rule)),
      rule, origin_of(warp, pc, pc));
}

}  // namespace

std::string text_of(const Dim3& at) {
  return joined(at.x, ",", at.y, ",", at.z);
}

Origin::Place Program::source(uint32_t pc) const {
  Origin::Place place = source_of(module->ptx(), own_line(module->ptx(), statements[pc]->place));
  place.how = this->opcode(pc) + this->place(pc);
  return place;
}

std::string Program::place(uint32_t pc) const {
  const Ptx& ptx = module->ptx();
  const uint32_t own = own_line(ptx, statements[pc]->place);
  if (source_of(ptx, own).line == 0) return joined("PTX line ", statements[pc]->ptx_line);
  std::string inner;
  for (uint32_t at = statements[pc]->place; at != own; at = ptx.places[at].caller) {
    inner = "in " + name_of(source_of(ptx, at)) + (inner.empty() ? "" : ", ") + inner;
  }
  const std::string text = own_and_callers(ptx, own);
  return inner.empty() ? text : text + " (" + inner + ")";
}

std::string Program::where(uint32_t pc, const std::string& indent) const {
  const Ptx& ptx = module->ptx();
  const uint32_t own = own_line(ptx, statements[pc]->place);
  const Origin::Place there = source_of(ptx, own);
  const std::string line = line_of_file(there.file, there.line);
  const std::string own_text = line.empty() ? "" : indent + "   " + line;
  std::string inner;
  uint32_t calls = 0;
  for (uint32_t at = statements[pc]->place; at != own; at = ptx.places[at].caller, ++calls) {
    const Origin::Place here = source_of(ptx, at);
    const std::string text = line_of_file(here.file, here.line);
    inner = indent + "in " + name_of(here) + (text.empty() ? "" : ": ") + text + inner;
  }
  constexpr uint32_t MOST_IN_A_LINE = 2;
  if (calls <= MOST_IN_A_LINE) return indent + "at " + place(pc) + own_text;
  return indent + "at " + own_and_callers(ptx, own) + own_text + inner;
}

std::string Program::text(uint32_t pc) const {
  const Statement& statement = *statements[pc];
  std::string text = statement.opcode;
  for (size_t i = 0; i < statement.operands.size(); ++i) {
    text += (i == 0 ? " " : ", ") + text_of_operand(statement.operands[i]);
  }
  return text;
}

// Qualifiers that say nothing to who reads a report: PTX allows no other there, or the machine
// makes no difference.
std::string Program::opcode(uint32_t pc) const {
  std::string text = statements[pc]->opcode;
  for (const char* const unsaid :
       {".sync.aligned", ".shared::cluster.global", ".global.shared::cta",
        ".mbarrier::complete_tx::bytes", ".tile", ".bulk_group", ".L2::cache_hint", ".m8n8"}) {
    const size_t at = text.find(unsaid);
    const size_t end = at + std::string_view(unsaid).size();
    if (at == std::string::npos || (end < text.size() && text[end] != '.')) continue;
    text.erase(at, end - at);
  }
  return text;
}

std::string source_name(const std::string& mangled) {
  constexpr size_t LONG_NAME = 80;
  const std::string text = demangled(mangled);
  const size_t open = text.find('<', 1), close = text.rfind('>');
  if (text.size() <= LONG_NAME || open == std::string::npos || close < open) return text;
  return text.substr(0, open) + "<...>" + text.substr(close + 1);
}

std::string report_end(const Program& program, const Rule& rule) {
  std::string text = std::string("\n  Rule: ") + rule.name;
  if (rule.severity == Severity::race) text += " (the values can differ)";
  if (rule.severity == Severity::undefined) text += " (undefined by PTX only)";
  const std::string full = demangled(program.kernel->name);
  if (full != source_name(program.kernel->name)) text += "\n  Kernel: " + full;
  if (program.module->ptx().files.empty()) {
    text += "\n  Source lines: none; compile with -lineinfo.";
  }
  return text;
}

// Whether a way leads from the pc to a product of matrices.
bool leads_to_product(const Program& program, uint32_t pc) {
  std::vector<uint32_t> open = {pc};
  std::vector<bool> seen(program.code.size());
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    if (at >= program.code.size() || seen[at]) continue;
    seen[at] = true;
    const std::string_view opcode = program.statements[at]->opcode;
    const Inst& inst = program.code[at];
    if (opcode.starts_with("wgmma.mma_async") || opcode.starts_with("mma.sync")) return true;
    const bool branches = opcode.starts_with("bra");
    if (branches) open.push_back(inst.target);
    for (uint32_t i = 1; opcode.starts_with("brx") && i < inst.slot_count; ++i) {
      open.push_back(inst.slots[i].row);
    }
    const bool leaves = branches || opcode.starts_with("brx") || opcode.starts_with("ret") ||
                        opcode.starts_with("exit");
    if (!leaves || inst.guard != 0) open.push_back(at + 1);
  }
  return false;
}

bool multiplies(const Warp& warp) {
  return warp.multiplies || std::ranges::any_of(warp.fragments, [&](const Fragment& fragment) {
           return leads_to_product(program_of(warp), fragment.pc);
         });
}

// By what the warp has done and can still do. Where no warp of the CTA copies for others, nobody
// consumes.
const char* role_of(const Warp& warp) {
  if (multiplies(warp)) {
    if (warp.loads_bulk) return " (copies and multiplies)";
    for (const Warp& other : warp.cta->warps) {
      if (other.loads_bulk && !multiplies(other)) return " (consumer)";
    }
    return "";
  }
  return warp.loads_bulk ? " (producer)" : warp.stores_bulk ? " (stores)" : "";
}

std::string describe_role(const Warp& warp) {
  return joined("warp ", warp.index, role_of(warp), " of CTA (", text_of(warp.cta->id), ")");
}

// Of warps of one CTA, in order.
static std::string roles_in_cta(const std::vector<const Warp*>& warps) {
  std::string text = warps.size() == 1 ? "warp " : "warps ";
  for (size_t i = 0; i < warps.size();) {
    const Warp& first = *warps[i];
    size_t end = i + 1;
    while (end < warps.size() && warps[end]->index == first.index + (end - i) &&
           std::string_view(role_of(*warps[end])) == role_of(first)) {
      ++end;
    }
    text += (i == 0 ? "" : ", ") + std::to_string(first.index);
    if (end - i > 1) text += " to " + std::to_string(warps[end - 1]->index);
    text += role_of(first);
    i = end;
  }
  return text + " of CTA (" + text_of(warps.front()->cta->id) + ")";
}

std::string describe_roles(const std::set<const Warp*>& warps) {
  std::map<const Cta*, std::vector<const Warp*>> by_cta;  // both lie in memory in order
  for (const Warp* warp : warps) by_cta[warp->cta].push_back(warp);
  std::string text;
  for (const auto& [cta, of_cta] : by_cta) {
    text += (text.empty() ? "" : ", ") + roles_in_cta(of_cta);
  }
  return text;
}

std::string describe(const Warp& warp, uint32_t mask) {
  return describe_role(warp) + ", " + text_of_lanes(mask);
}

Origin origin_of(const Warp& warp, uint32_t pc, uint32_t earlier_pc) {
  const Program& program = program_of(warp);
  return {source_name(program.kernel->name), text_of(warp.cta->id), static_cast<int>(warp.index),
          program.source(pc), earlier_pc == pc ? Origin::Place{} : program.source(earlier_pc)};
}

void fault(Warp& warp, uint32_t mask, const std::string& what, const Rule& rule) {
  end(Error::Kind::fault, warp, mask, what, rule);
}

void refuse(Warp& warp, const std::string& what) {
  end(Error::Kind::refused, warp, warp.current->mask, what, rule::REFUSED);
}

}  // namespace machine
