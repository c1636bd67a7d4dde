// Finds the row of the decode table that an opcode matches. It knows nothing of what a row does.
#include "common/machine/code/isa.h"

#include <iterator>
#include <map>

namespace machine {

// Each is in the file of its name in ops/, control in run/, rare ones in ops/rare/.
Section alu_section();
Section compare_section();
Section convert_section();
Section control_section();
Section memory_section();
Section atomic_section();
Section barrier_section();
Section mbarrier_section();
Section warp_section();
Section async_section();
Section bulk_section();
Section tensor_copy_section();
Section tensor_section();
Section rare_integer_section();
Section rare_real_section();
Section rare_memory_section();
Section rare_warp_section();
Section rare_tensor_map_section();

namespace {

struct TypeName {
  std::string_view name;
  Type type;
  uint32_t bytes;
};

constexpr TypeName TYPES[] = {
    {"pred", Type::pred, 0},     {"b8", Type::b8, 1},         {"b16", Type::b16, 2},
    {"b32", Type::b32, 4},       {"b64", Type::b64, 8},       {"b128", Type::b128, 16},
    {"u8", Type::u8, 1},         {"u16", Type::u16, 2},       {"u32", Type::u32, 4},
    {"u64", Type::u64, 8},       {"s8", Type::s8, 1},         {"s16", Type::s16, 2},
    {"s32", Type::s32, 4},       {"s64", Type::s64, 8},       {"f16", Type::f16, 2},
    {"f16x2", Type::f16x2, 4},   {"bf16", Type::bf16, 2},     {"bf16x2", Type::bf16x2, 4},
    {"tf32", Type::tf32, 4},     {"e4m3", Type::e4m3, 1},     {"e5m2", Type::e5m2, 1},
    {"e4m3x2", Type::e4m3x2, 2}, {"e5m2x2", Type::e5m2x2, 2}, {"f32", Type::f32, 4},
    {"f64", Type::f64, 8},
};

std::string_view base_of(std::string_view opcode) {
  return opcode.substr(0, opcode.find_first_of(".{"));
}

// Whether the pattern matches the whole text; `groups` gets what its braces matched.
bool match(std::string_view pattern, std::string_view text, std::vector<std::string_view>* groups) {
  while (!pattern.empty() && pattern[0] != '{') {
    if (text.empty() || text[0] != pattern[0]) return false;
    pattern.remove_prefix(1);
    text.remove_prefix(1);
  }
  if (pattern.empty()) return text.empty();
  const size_t close = pattern.find('}');
  const std::string_view rest = pattern.substr(close + 1);
  std::string_view choices = pattern.substr(1, close - 1);
  for (bool more = true; more;) {
    const size_t comma = choices.find(',');
    const std::string_view choice = choices.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) choices.remove_prefix(comma + 1);
    if (!text.starts_with(choice)) continue;
    const std::string_view left = text.substr(choice.size());
    if (!left.empty() && left[0] != '.') continue;  // .s3 is not the start of .s32
    groups->push_back(choice);
    if (match(rest, left, groups)) return true;
    groups->pop_back();
  }
  return false;
}

std::vector<Type> types_of(std::string_view text) {
  std::vector<Type> types;
  while (!text.empty()) {
    const size_t dot = text.find('.');
    const std::string_view word = text.substr(0, dot);
    for (const TypeName& known : TYPES) {
      if (known.name == word) types.push_back(known.type);
    }
    text = dot == std::string_view::npos ? "" : text.substr(dot + 1);
  }
  return types;
}

}  // namespace

uint32_t bytes_of(Type type) {
  for (const TypeName& known : TYPES) {
    if (known.type == type) return known.bytes;
  }
  return 0;
}

bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

bool is_float(Type type) {
  return type >= Type::f16;
}

bool Opcode::has(std::string_view qualifier) const {
  for (size_t at = text.find(qualifier); at != std::string_view::npos;
       at = text.find(qualifier, at + 1)) {
    const size_t end = at + qualifier.size();
    if (end == text.size() || text[end] == '.') return true;
  }
  return false;
}

std::vector<Section> isa() {
  return {alu_section(),       compare_section(),        convert_section(),   control_section(),
          memory_section(),    atomic_section(),         barrier_section(),   mbarrier_section(),
          warp_section(),      async_section(),          bulk_section(),      tensor_copy_section(),
          tensor_section(),    rare_integer_section(),   rare_real_section(), rare_memory_section(),
          rare_warp_section(), rare_tensor_map_section()};
}

const Row* find_row(std::string_view text, Opcode* opcode) {
  using Index = std::multimap<std::string_view, const Row*>;
  static const Index* const index = [] {
    auto* made = new Index;
    for (const Section& section : isa()) {
      for (size_t i = 0; i < section.count; ++i) {
        made->emplace(base_of(section.rows[i].opcode), &section.rows[i]);
      }
    }
    return made;
  }();
  const auto [first, last] = index->equal_range(base_of(text));
  for (auto at = first; at != last; ++at) {
    std::vector<std::string_view> groups;
    if (!match(at->second->opcode, text, &groups)) continue;
    opcode->text = text;
    opcode->group = std::move(groups);
    opcode->types = types_of(text);
    return at->second;
  }
  return nullptr;
}

}  // namespace machine
