#include <cxxabi.h>

#include <cstdlib>
#include <filesystem>

#include "common/machine/isa.h"
#include "common/machine/module.h"

namespace machine {
namespace {

std::string text_of(const Dim3& at) {
  return "(" + std::to_string(at.x) + "," + std::to_string(at.y) + "," + std::to_string(at.z) + ")";
}

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
  std::string text = operand.negated ? "!" : "";
  switch (operand.kind) {
    case Operand::Kind::integer:
      return std::to_string(static_cast<int64_t>(operand.bits));
    case Operand::Kind::f32:
      return std::to_string(std::bit_cast<float>(static_cast<uint32_t>(operand.bits)));
    case Operand::Kind::f64:
      return std::to_string(std::bit_cast<double>(operand.bits));
    case Operand::Kind::vector:
    case Operand::Kind::address: {
      const bool address = operand.kind == Operand::Kind::address;
      constexpr size_t SHOWN = 4;  // of wgmma's hundred registers
      for (size_t i = 0; i < operand.parts.size() && i < SHOWN; ++i) {
        text += (i > 0 ? ", " : "") + text_of_operand(operand.parts[i]);
        if (i == 0 && operand.offset != 0) text += "+" + std::to_string(operand.offset);
      }
      if (operand.parts.size() > SHOWN) text += ", ...";
      return address ? "[" + text + "]" : "{" + text + "}";
    }
    default:
      return text + operand.name;
  }
}

std::string file_line(const Ptx& ptx, uint32_t file, uint32_t line) {
  const auto found = ptx.files.find(file);
  if (found == ptx.files.end()) return "";
  std::error_code unreadable;
  const auto here = std::filesystem::current_path(unreadable);
  std::filesystem::path path = std::filesystem::path(found->second).lexically_normal();
  if (path.is_absolute() && !unreadable) {
    const auto relative = path.lexically_relative(here);
    if (!relative.empty() && *relative.begin() != "..") path = relative;
  }
  return path.string() + ":" + std::to_string(line);
}

std::string report(const char* kind, Warp& warp, uint32_t mask, const std::string& what) {
  const Grid& grid = *warp.cta->cluster->grid;
  const Program& program = *grid.program;
  const uint32_t pc = warp.current->pc;
  return kind + (" in kernel " + kernel_text(*grid.kernel)) + ": " + what + "\n  by " +
         describe(warp, mask) + "\n  at " + program.place(pc) + "\n  PTX " + program.text(pc);
}

}  // namespace

std::string Program::place(uint32_t pc) const {
  const Ptx& ptx = module->ptx();
  const Statement& statement = *statements[pc];
  const Place& place = ptx.places[statement.place];
  const std::string line = "PTX line " + std::to_string(statement.ptx_line);
  const std::string outer = file_line(ptx, place.outer_file, place.outer_line);
  if (outer.empty()) return line;
  if (place.file == place.outer_file && place.line == place.outer_line) return outer;
  return outer + " (in " + file_line(ptx, place.file, place.line) + ")";
}

std::string Program::text(uint32_t pc) const {
  const Statement& statement = *statements[pc];
  std::string text = statement.opcode;
  for (size_t i = 0; i < statement.operands.size(); ++i) {
    text += (i == 0 ? " " : ", ") + text_of_operand(statement.operands[i]);
  }
  return text;
}

std::string kernel_text(const Kernel& kernel) {
  int failed = 0;
  char* const demangled = abi::__cxa_demangle(kernel.name.c_str(), nullptr, nullptr, &failed);
  if (failed != 0) return kernel.name;  // of extern "C"
  std::string text = demangled;
  std::free(demangled);
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

// By what the warp has done up to now.
const char* role_of(const Warp& warp) {
  if (!warp.multiplies) return warp.copies_bulk ? " (producer)" : "";
  return warp.copies_bulk ? " (copies and multiplies)" : " (consumer)";
}

std::string describe_role(const Warp& warp) {
  return "warp " + std::to_string(warp.index) + role_of(warp) + " of CTA " + text_of(warp.cta->id);
}

std::string describe_roles(const std::vector<const Warp*>& warps) {
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
  return text + " of CTA " + text_of(warps.front()->cta->id);
}

std::string describe(const Warp& warp, uint32_t mask) {
  return describe_role(warp) + ", " + text_of_lanes(mask);
}

void fault(Warp& warp, uint32_t mask, const std::string& what) {
  throw Error(Error::Kind::fault, report("Fault", warp, mask, what));
}

void refuse(Warp& warp, const std::string& what) {
  throw Error(Error::Kind::refused, report("Refused", warp, warp.current->mask, what));
}

}  // namespace machine
