// What a program hands to the runtime as device code: a fat binary, or PTX text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace machine::runtime {

// fatbinary_section.h of the toolkit.
constexpr uint32_t WRAPPER_MAGIC = 0x466243b1;
struct Wrapper {
  uint32_t magic;
  uint32_t version;  // 2: code that nvlink has linked, from the fat binaries named there
  const void* data;
  const void* filename_or_fatbins;
};

// The layout that fatbinary writes, as read from its output: a header, then entries.
constexpr uint32_t CONTAINER_MAGIC = 0xba55ed50;
struct Container {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t body_bytes;
};
static_assert(sizeof(Container) == 16);

// What ptxas decided for a kernel.
struct KernelResources {
  int registers = 0;    // a thread
  int local_bytes = 0;  // a thread
};

struct Image {
  std::string ptx;      // empty: `problem` says why
  std::string problem;  // one sentence, with the flag of nvcc that is missing
  // By mangled name, from the code for sm_90a or sm_90 beside the PTX; empty if there is none.
  std::map<std::string, KernelResources> resources;
  bool is_for_others = false;        // which is the problem
  std::string other_ptx = {};        // for other architectures, as far as it is not compressed
  std::vector<Image> left_out = {};  // of what nvlink has linked: files that are for others
};

// `code` is a __fatBinC_Wrapper_t, a fat binary, a cubin or zero-terminated PTX. Of several PTX
// entries the one for sm_90a is taken, else that of the highest architecture that runs on it.
Image read_image(const void* code);
// Why a kernel is not in `image.ptx`, as a problem, if a file was left out of it; else empty.
std::string why_left_out(const Image& image, const std::string& kernel);

// The resources of every kernel of a cubin; empty if it is none.
std::map<std::string, KernelResources> read_cubin(std::string_view cubin);

}  // namespace machine::runtime
