// Reads Row::operands. It knows nothing of the operands themselves.
#include "common/machine/code/operand_spec.h"

namespace machine {
namespace {

char width_code(std::string_view item) {
  const size_t colon = item.find(':');
  if (colon == std::string_view::npos) return 'x';
  const std::string_view code = item.substr(colon + 1);
  if (code.starts_with("32") || code.starts_with("16")) return '3';
  return code.starts_with("64") ? '6' : code[0];
}

}  // namespace

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

}  // namespace machine
