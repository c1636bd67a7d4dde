// Finds the PTX of a fat binary. It knows nothing of what the PTX says.
#include "common/machine/runtime/fatbin.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace machine::runtime {
namespace {

enum Kind : uint16_t { KIND_PTX = 1, KIND_CUBIN = 2 };
constexpr uint64_t FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000;
constexpr uint64_t FLAG_ARCH_SPECIFIC = 0x100000;    // the a of sm_90a
constexpr uint64_t FLAG_FAMILY_SPECIFIC = 0x200000;  // the f of sm_100f
struct Entry {
  uint16_t kind;
  uint16_t version;
  uint32_t header_bytes;
  uint64_t payload_bytes;
  uint32_t compressed_bytes;
  uint32_t options_offset;
  uint16_t minor, major;
  uint32_t arch;  // 90
  uint32_t name_offset, name_bytes;
  uint64_t flags;
};
static_assert(sizeof(Entry) == 48);

constexpr uint32_t OWN_ARCH = 90;

template <class T>
T read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// How well an entry's code suits sm_90a; 0: not at all.
uint32_t suits(const Entry& entry, bool exactly) {
  const bool specific = (entry.flags & FLAG_ARCH_SPECIFIC) != 0;
  if (entry.arch == OWN_ARCH) return specific ? 2 * OWN_ARCH + 1 : 2 * OWN_ARCH;
  if (exactly || specific || entry.arch > OWN_ARCH) return 0;
  return 2 * entry.arch;
}

#define REBUILD \
  "; build it with nvcc -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]' --no-compress"

std::string architecture(const Entry& entry) {
  const bool specific = (entry.flags & FLAG_ARCH_SPECIFIC) != 0;
  const bool of_family = (entry.flags & FLAG_FAMILY_SPECIFIC) != 0;
  return "sm_" + std::to_string(entry.arch) + (specific ? "a" : of_family ? "f" : "");
}

Image read_container(const char* data) {
  const auto header = read<Container>(data);
  const char* at = data + header.header_bytes;
  const char* const end = at + header.body_bytes;
  Image image;
  uint32_t best_ptx = 0, best_cubin = 0;
  bool compressed = false;
  std::string others;  // architectures
  while (at < end) {
    const auto entry = read<Entry>(at);
    const std::string_view payload(at + entry.header_bytes, entry.payload_bytes);
    const bool is_compressed = (entry.flags & (FLAG_LZ4 | FLAG_ZSTD)) != 0;
    at += entry.header_bytes + entry.payload_bytes;
    if (entry.kind == KIND_PTX) {
      const uint32_t rank = suits(entry, /*exactly=*/false);
      if (rank == 0) {
        others += (others.empty() ? "" : ", ") + architecture(entry);
        if (!is_compressed) image.other_ptx += payload;
      }
      if (rank != 0 && is_compressed) compressed = true;
      if (is_compressed || rank <= best_ptx) continue;
      best_ptx = rank;
      image.ptx = std::string(payload.substr(0, payload.find('\0')));
    } else if (entry.kind == KIND_CUBIN) {
      const uint32_t rank = suits(entry, /*exactly=*/true);
      if (is_compressed || rank <= best_cubin) continue;
      best_cubin = rank;
      image.resources = read_cubin(payload);
    }
  }
  if (!image.ptx.empty()) return image;
  image.is_for_others = !compressed && !others.empty();
  image.problem = compressed            ? "its PTX is compressed; build it with nvcc --no-compress"
                  : image.is_for_others ? "its PTX is for " + others + ", not for sm_90a" REBUILD
                                        : "it has no PTX beside its machine code" REBUILD;
  return image;
}

// What nvlink has linked, of -rdc=true: the PTX of every file, in one text, but of those that are for
// other architectures. Where kernels launch kernels libcudadevrt is one; what calls it is refused.
Image read_linked(const Wrapper& wrapper) {
  Image image;
  const auto* file = static_cast<const char* const*>(wrapper.filename_or_fatbins);
  for (; *file != nullptr; ++file) {
    const Image part = read_container(*file);
    if (!part.problem.empty() && !part.is_for_others) return part;
    if (part.is_for_others) {
      image.left_out.push_back(part);
    } else {
      image.ptx += part.ptx + "\n";
    }
  }
  if (image.ptx.empty() && !image.left_out.empty()) image.problem = image.left_out[0].problem;
  image.resources = read_container(static_cast<const char*>(wrapper.data)).resources;
  return image;
}

}  // namespace

Image read_image(const void* code) {
  const char* data = static_cast<const char*>(code);
  if (read<uint32_t>(data) == WRAPPER_MAGIC) {
    const auto wrapper = read<Wrapper>(data);
    if (wrapper.version != 1) return read_linked(wrapper);
    data = static_cast<const char*>(wrapper.data);
  }
  if (read<uint32_t>(data) == CONTAINER_MAGIC) return read_container(data);
  if (std::memcmp(data, ELFMAG, SELFMAG) == 0) {
    return {"", "it is a cubin, and the machine runs PTX: load the PTX that it was made from", {}};
  }
  return {data, "", {}};
}

std::string why_left_out(const Image& image, const std::string& kernel) {
  if (image.left_out.empty()) return "";
  for (const Image& part : image.left_out) {
    if (part.other_ptx.find(".entry " + kernel + "(") != std::string::npos) return part.problem;
  }
  return "no file that was linked has PTX of it for sm_90a" REBUILD;
}

std::map<std::string, KernelResources> read_cubin(std::string_view cubin) {
  if (cubin.size() < sizeof(Elf64_Ehdr) || cubin.substr(0, SELFMAG) != ELFMAG) return {};
  const auto header = read<Elf64_Ehdr>(cubin.data());
  const auto section = [&](unsigned index) {
    return read<Elf64_Shdr>(cubin.data() + header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  const char* const names = cubin.data() + section(header.e_shstrndx).sh_offset;

  std::vector<std::string> symbols;
  Elf64_Shdr info{};
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr part = section(i);
    if (std::strcmp(names + part.sh_name, ".nv.info") == 0) info = part;
    if (part.sh_type != SHT_SYMTAB) continue;
    const char* const strings = cubin.data() + section(part.sh_link).sh_offset;
    for (uint64_t s = 0; s < part.sh_size / sizeof(Elf64_Sym); ++s) {
      const auto symbol = read<Elf64_Sym>(cubin.data() + part.sh_offset + s * sizeof(Elf64_Sym));
      symbols.push_back(strings + symbol.st_name);
    }
  }

  // Attributes as nvdisasm and readelf show them: format, attribute, and a size if the format is 4.
  constexpr uint8_t SIZED = 4, FRAME_SIZE = 0x11, REGCOUNT = 0x2f;
  std::map<std::string, KernelResources> found;
  const char* at = cubin.data() + info.sh_offset;
  const char* const end = at + info.sh_size;
  while (at + 4 <= end) {
    const auto format = read<uint8_t>(at), attribute = read<uint8_t>(at + 1);
    const uint16_t bytes = format == SIZED ? read<uint16_t>(at + 2) : 0;
    if (bytes == 8 && (attribute == REGCOUNT || attribute == FRAME_SIZE)) {
      const auto symbol = read<uint32_t>(at + 4);
      const auto value = static_cast<int>(read<uint32_t>(at + 8));
      if (symbol < symbols.size()) {
        KernelResources& resources = found[symbols[symbol]];
        (attribute == REGCOUNT ? resources.registers : resources.local_bytes) = value;
      }
    }
    at += 4 + bytes;
  }
  return found;
}

}  // namespace machine::runtime
