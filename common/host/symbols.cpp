#include "common/host/symbols.h"

#include <elf.h>
#include <link.h>

#include <cctype>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

namespace ladder {
namespace {

using Names = std::map<uintptr_t, std::string>;  // by address in the running process

// The program comes first among the loaded objects; its offset is 0 unless it is position
// independent.
uintptr_t load_offset() {
  uintptr_t offset = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<uintptr_t*>(result) = info->dlpi_addr;
        return 1;
      },
      &offset);
  return offset;
}

Names read_names() {
  std::ifstream stream("/proc/self/exe", std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  const uintptr_t offset = load_offset();
  Names names;
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(file.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(file.data() + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const char* strings = file.data() + sections[sections[i].sh_link].sh_offset;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(file.data() + sections[i].sh_offset);
    for (size_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s) {
      if (ELF64_ST_TYPE(symbols[s].st_info) != STT_FUNC || symbols[s].st_value == 0) continue;
      names.emplace(offset + symbols[s].st_value, strings + symbols[s].st_name);
    }
  }
  return names;
}

}  // namespace

std::string kernel_name(const void* kernel) {
  static const Names names = read_names();
  const auto found = names.find(reinterpret_cast<uintptr_t>(kernel));
  if (found == names.end()) {
    throw std::runtime_error(
        "A kernel has no name in the program's symbol table; was it stripped?");
  }
  return without_internal_linkage(found->second);
}

std::string without_internal_linkage(const std::string& mangled) {
  const auto digit_at = [&](size_t at) {
    return at < mangled.size() && std::isdigit(static_cast<unsigned char>(mangled[at])) != 0;
  };
  size_t at = 2;  // behind _Z
  if (mangled.rfind("_ZN", 0) == 0) ++at;
  // Identifiers with their lengths in front: namespaces, then the function.
  while (digit_at(at)) {
    size_t digits = 0;
    const size_t length = std::stoul(mangled.substr(at), &digits);
    at += digits + length;
  }
  const bool internal = at < mangled.size() && mangled[at] == 'L' && digit_at(at + 1);
  return internal ? mangled.substr(0, at) + mangled.substr(at + 1) : mangled;
}

}  // namespace ladder
