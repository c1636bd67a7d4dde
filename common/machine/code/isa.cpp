// Finds the row of the decode table that an opcode matches. It knows nothing of what a row does.
#include "common/machine/code/isa.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace machine {

namespace {

std::string_view base_of(std::string_view opcode) {
  return opcode.substr(0, opcode.find_first_of(".{"));
}

using Words = std::vector<std::string_view>;

Words words_of(std::string_view text) {
  Words words;
  while (!text.empty()) {
    const size_t dot = text.find('.');
    if (dot != 0) words.push_back(text.substr(0, dot));
    text = dot == std::string_view::npos ? "" : text.substr(dot + 1);
  }
  return words;
}

Type type_of(std::string_view word) {
  for (size_t i = 1; i < std::size(TYPES); ++i) {
    if (TYPES[i].name == word) return static_cast<Type>(i);
  }
  return Type::none;
}

std::vector<Type> types_of(std::string_view text) {
  std::vector<Type> types;
  for (const std::string_view word : words_of(text)) {
    if (const Type type = type_of(word); type != Type::none) types.push_back(type);
  }
  return types;
}

// Takes the words of a part of a pattern out of `words`; false if one is not there, or if another type
// comes before it.
bool take(std::string_view part, Words* words) {
  for (const std::string_view word : words_of(part)) {
    const bool is_type = type_of(word) != Type::none;
    const auto found = std::find_if(words->begin(), words->end(), [&](std::string_view at) {
      return at == word || (is_type && type_of(at) != Type::none);
    });
    if (found == words->end() || *found != word) return false;
    words->erase(found);
  }
  return true;
}

// Whether the pattern has all the words, and no others; `groups` gets what its braces matched. The
// words may come in any order, as ptxas takes them; types keep theirs.
bool match(std::string_view pattern, Words words, std::vector<std::string_view>* groups) {
  const size_t open = pattern.find('{');
  if (!take(pattern.substr(0, open), &words)) return false;
  if (open == std::string_view::npos) return words.empty();
  const size_t close = pattern.find('}');
  const std::string_view rest = pattern.substr(close + 1);
  for (const std::string_view choice : split(pattern.substr(open + 1, close - open - 1))) {
    Words left = words;
    if (!take(choice, &left)) continue;
    groups->push_back(choice);
    if (match(rest, left, groups)) return true;
    groups->pop_back();
  }
  return false;
}

}  // namespace

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  for (bool more = true; more;) {
    const size_t comma = list.find(',');
    parts.push_back(list.substr(0, comma));
    more = comma != std::string_view::npos;
    if (more) list.remove_prefix(comma + 1);
  }
  return parts;
}

bool Opcode::has(std::string_view qualifier) const {
  for (size_t at = text.find(qualifier); at != std::string_view::npos;
       at = text.find(qualifier, at + 1)) {
    const size_t end = at + qualifier.size();
    if (end == text.size() || text[end] == '.') return true;
  }
  return false;
}

const Row* find_row(std::string_view text, Opcode* opcode) {
  using Index = std::multimap<std::string_view, const Row*>;
  static const Index* const index = [] {
    auto* made = new Index;
    for (const Section* section : sections::ALL) {
      for (const Row& row : section->rows) made->emplace(base_of(row.opcode), &row);
    }
    return made;
  }();
  const auto [first, last] = index->equal_range(base_of(text));
  const Words words = words_of(text);
  for (auto at = first; at != last; ++at) {
    std::vector<std::string_view> groups;
    if (!match(at->second->opcode, words, &groups)) continue;
    opcode->text = text;
    opcode->group = std::move(groups);
    opcode->types = types_of(text);
    return at->second;
  }
  return nullptr;
}

std::string why_unsupported(std::string_view text) {
  static constexpr char TEXTURES[] = "textures are not supported; ld of the memory behind one is.";
  static constexpr char SURFACES[] = "surfaces are not supported; ld and st of global memory are.";
  static constexpr std::pair<std::string_view, const char*> FAMILIES[] = {
      {"tex", TEXTURES},
      {"tld4", TEXTURES},
      {"txq", TEXTURES},
      {"suld", SURFACES},
      {"sust", SURFACES},
      {"sured", SURFACES},
      {"suq", SURFACES},
      {"multimem", "memory of several GPUs is not supported; ld, st and red of one GPU's are."},
      {"tcgen05", "it is of later GPUs than sm_90a, whose products are wgmma and mma."}};
  for (const auto& [base, why] : FAMILIES) {
    if (base == base_of(text)) return why;
  }
  if (text.find(".im2col") != text.npos) {
    return "tensor copies in im2col mode are not supported; those of tiles are.";
  }
  const auto is_wgmma_of = [text](const char* what) {
    return base_of(text) == "wgmma" && text.find(what) != text.npos;
  };
  if (is_wgmma_of(".sp.")) return "wgmma of a sparse A is not supported; mma of one is.";
  if (is_wgmma_of(".b1.")) return "wgmma of single bits is not supported; mma of them is.";
  return "no instruction of this spelling is supported.";
}

}  // namespace machine
