// Runs the golden cases (generate.py) and records or compares what each leaves in its output buffer:
//
//   golden record CASES RECORDED [--only PREFIX] [--raw FILE]
//   golden check  CASES RECORDED [--only PREFIX] [--raw FILE]
//
// CASES holds the generated PTX modules (NAME.cubin goes before NAME.ptx) and cases.txt, RECORDED one
// text file a group of cases. --raw also writes every output whole. The same program runs on a GPU and
// on the PTX machine. Cases run in a child process, so that one that faults, hangs or ends the process
// costs only itself. Exit codes: 0 ok, 1 a case failed, 2 usage or unreadable input, 3 no device.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

[[noreturn]] void fail(const std::string& message) {
  throw std::runtime_error(message);
}

std::string read_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, by);) parts.push_back(part);
  return parts;
}

uint64_t number(const std::string& text) {
  return std::stoull(text, nullptr, 0);
}

// FNV-1a.
uint64_t hash(const void* data, size_t bytes) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (size_t i = 0; i < bytes; ++i) {
    h = (h ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001b3ull;
  }
  return h;
}

uint64_t hash(const std::string& text) {
  return hash(text.data(), text.size());
}

// ---- Input data ---------------------------------------------------------------------------------

// splitmix64's output function: random bits number i of a seed.
uint64_t random_bits(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Edge values: all pairs of the first `paired` are used, single operands see all.
struct Edges {
  std::vector<uint64_t> values;
  size_t paired;
};

const Edges INTEGERS = {{0,
                         1,
                         2,
                         3,
                         7,
                         8,
                         15,
                         16,
                         31,
                         32,
                         0x7f,
                         0x80,
                         0xff,
                         0x100,
                         0x7fff,
                         0x8000,
                         ~0ull,
                         ~1ull,
                         0x7fffffff,
                         0x80000000,
                         0x80000001,
                         0xffffffff,
                         0x100000000,
                         0x7fffffffffffffff,
                         0x8000000000000000,
                         0x8000000000000001,
                         0x5555555555555555,
                         0xaaaaaaaaaaaaaaaa,
                         0xffff,
                         0x10000,
                         0xffffff80,
                         0xffffff7f,
                         0xffff8000,
                         0xffff7fff,
                         0x7f80,
                         0x1000001,
                         0xffffff,
                         0x7fffff80},
                        28};
const Edges SHIFTS = {
    {0,   1,      2,          7,          8,          15,         16,    17,    24,  31,
     32,  33,     47,         63,         64,         65,         127,   128,   255, 256,
     287, 0xffff, 0x80000000, 0x80000001, 0xffffffff, 0xffffffe0, 0x101, 0x3f00},
    28};
// 0, 1, -1, 2, 0.5, 1.5, 2.5, infinities, NaNs, denormals, limits; then values at the rounding and
// overflow points of the narrower types.
const Edges F32 = {
    {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x40000000, 0x3f000000, 0x3fc00000, 0x40200000,
     0xc0200000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00123, 0x7f800001, 0xffbfffff, 0x00000001,
     0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff, 0x4b000001,
     0x3effffff, 0xbf000000, 0x4b7fffff, 0x4f000000, 0xcf000000, 0x4f800000, 0x4effffff, 0x4f7fffff,
     0x5f000000, 0xdf000000, 0x5f800000, 0x47800000, 0x477fe000, 0x477ff000, 0x477fefff, 0x33000000,
     0x33000001, 0x33800000, 0x38800000, 0x387fffff, 0x387fe000, 0x3f808000, 0x3f818000, 0x3f808001,
     0x3f801000, 0x3f803000, 0x3f802fff, 0x7f7f8000, 0x7f7f7fff, 0x7f7ff000, 0x7f7fefff, 0x00008000,
     0x00008001, 0x00018000, 0x00001000, 0x00003000, 0x43e00000, 0x43e7ffff, 0x43e80000, 0x43e80001,
     0x47600000, 0x476fffff, 0x47700000, 0x3b000000, 0x3a800000, 0x3a800001, 0x3c7fffff, 0x37800000,
     0x37000000, 0x37000001, 0x42fe0000, 0x42ff0000, 0x43000000, 0x437f0000, 0x437f8000, 0x43800000,
     0xc3000000, 0xc3008000, 0xc3010000, 0x46fffe00, 0x46ffff00, 0x47000000, 0x477fff00, 0x477fff80,
     0x3f808fff, 0x3f880000, 0x3f980000, 0x3f900000, 0x3fb00000},
    26};
const Edges F64 = {{0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
                    0x4000000000000000, 0x3fe0000000000000, 0x3ff8000000000000, 0x4004000000000000,
                    0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000123,
                    0x7ff0000000000001, 0x0000000000000001, 0x8000000000000001, 0x000fffffffffffff,
                    0x0010000000000000, 0x7fefffffffffffff, 0xffefffffffffffff, 0x4330000000000001,
                    0x3fdfffffffffffff, 0x3ff0000010000000, 0x3ff0000030000000, 0x47efffffe0000000,
                    0x47effffff0000000, 0x47efffffefffffff, 0x3690000000000000, 0x3690000000000001,
                    0x36a0000000000000, 0x380fffffffffffff, 0x3800000000000000, 0x41dfffffffc00000,
                    0x41e0000000000000, 0xc1e0000000000000, 0xc1e0000000200000, 0x41efffffffe00000,
                    0x41f0000000000000, 0x43e0000000000000, 0xc3e0000000000000, 0x43dfffffffffffff,
                    0x43f0000000000000, 0x40effc0000000000, 0x40effe0000000000, 0x40effdffffffffff,
                    0x3e60000000000000, 0x3e60000000000001, 0x3f0ffc0000000000, 0xbfe0000000000000,
                    0x405fc00000000000, 0x4060000000000000, 0x3ff0100000000000, 0x47efe00000000000,
                    0x47eff00000000000},
                   26};
const Edges F16 = {
    {0x0000, 0x8000, 0x3c00, 0xbc00, 0x4000, 0x3800, 0x3e00, 0x4100, 0x7c00, 0xfc00, 0x7e00,
     0xfe12, 0x7c01, 0xfdff, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x7bff, 0xfbff,
     0x6401, 0x37ff, 0xb800, 0x63ff, 0x5f00, 0x5f40, 0x5f3f, 0x1800, 0x1400, 0x1401, 0x57f0,
     0x57f8, 0x5800, 0x7b80, 0x7b00, 0x3c80, 0x3cc0, 0x3d80, 0x0100, 0x0180, 0x0080, 0x0081},
    26};
const Edges BF16 = {{0x0000, 0x8000, 0x3f80, 0xbf80, 0x4000, 0x3f00, 0x3fc0, 0x4020, 0x7f80, 0xff80,
                     0x7fc0, 0xffc1, 0x7f81, 0xffbf, 0x0001, 0x8001, 0x007f, 0x807f, 0x0080, 0x8080,
                     0x7f7f, 0xff7f, 0x4301, 0x3eff, 0xbf00, 0x437f, 0x4f00, 0x4f80, 0xcf00, 0x477f,
                     0x4780, 0x3380, 0x3300, 0x42fe, 0x5f00, 0xdf00, 0x5f80, 0x4700},
                    26};

// A small integer as a float of the given exponent and mantissa bits. |v| < 2^(mantissa + 1).
uint64_t encode_small(int v, int exponent_bits, int mantissa_bits) {
  if (v == 0) return 0;
  const uint64_t magnitude = std::abs(v);
  const int log2 = std::bit_width(magnitude) - 1;
  const uint64_t bias = (1ull << (exponent_bits - 1)) - 1;
  const uint64_t fraction = (magnitude << mantissa_bits >> log2) - (1ull << mantissa_bits);
  const uint64_t sign = v < 0;
  return sign << (exponent_bits + mantissa_bits) | (bias + log2) << mantissa_bits | fraction;
}

// A quarter each: random bits, exponents around 1, exponents in a wider range, quarters of integers.
uint64_t random_float(uint64_t r, int exponent_bits, int mantissa_bits) {
  const int bits = 1 + exponent_bits + mantissa_bits;
  const uint64_t any = (r >> 2) & (bits == 64 ? ~0ull >> 2 : (1ull << bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int spread = (r & 3) == 1 ? 4 : std::min(bias, 24);
  if ((r & 3) == 0) return any;
  if ((r & 3) == 3) {
    const uint64_t small =
        encode_small(static_cast<int>(any % 255) - 127, exponent_bits, mantissa_bits);
    return small == 0 ? 0 : small - (2ull << mantissa_bits);
  }
  const uint64_t exponent = bias - spread + (r >> 40) % (2 * spread + 1);
  return (any & ((1ull << mantissa_bits) - 1)) | exponent << mantissa_bits |
         (r >> 63) << (bits - 1);
}

// Place of an operand among its instruction's: 0 to 2 pair up the edge values, `only` walks through
// them, none leaves them out.
enum Place { ONLY = 3, NONE = 4 };

uint64_t edge_or(const Edges& edges, int place, uint64_t i, uint64_t otherwise) {
  const size_t all = edges.values.size(), n = edges.paired;
  if (place == NONE) return otherwise;
  if (place == ONLY) return i < all ? edges.values[i] : otherwise;
  if (i < n * n) return edges.values[place == 0 ? i / n : place == 1 ? i % n : (i * 7 + i / n) % n];
  return otherwise;
}

// Element i of a kind of data; its width in bits is element_bits(kind).
uint64_t element(const std::string& kind, int place, uint64_t seed, uint64_t i) {
  const uint64_t r = random_bits(seed, i);
  const auto small = [&](int limit, int exponent_bits, int mantissa_bits) {
    return encode_small(static_cast<int>(r % (2 * limit + 1)) - limit, exponent_bits,
                        mantissa_bits);
  };
  const auto twice = [&](const Edges& edges, int exponent_bits, int mantissa_bits) {
    const uint64_t low = edge_or(edges, place, i, random_float(r, exponent_bits, mantissa_bits));
    const uint64_t high = edge_or(
        edges, place, i * 5 + 1, random_float(random_bits(~seed, i), exponent_bits, mantissa_bits));
    return low | high << 16;
  };
  if (kind == "u32" || kind == "bytes") return r;
  if (kind == "i16" || kind == "i32" || kind == "i64") return edge_or(INTEGERS, place, i, r);
  if (kind == "nz16" || kind == "nz32" || kind == "nz64") {
    const int bits = std::stoi(kind.substr(2));
    const uint64_t mask = ~0ull >> (64 - bits);
    const uint64_t value = edge_or(INTEGERS, place, i, r) & mask;
    return value == 0 ? 3 : value == mask ? 5 : value;
  }
  if (kind == "shift") return edge_or(SHIFTS, place, i, r & 1 ? r >> 32 : r >> 2 & 63);
  if (kind == "f16") return edge_or(F16, place, i, random_float(r, 5, 10));
  if (kind == "bf16") return edge_or(BF16, place, i, random_float(r, 8, 7));
  if (kind == "f32") return edge_or(F32, place, i, random_float(r, 8, 23));
  if (kind == "f64") return edge_or(F64, place, i, random_float(r, 11, 52));
  if (kind == "f16x2") return twice(F16, 5, 10);
  if (kind == "bf16x2") return twice(BF16, 8, 7);
  if (kind == "f8x2") return (i & 255) | (i * 7 + 3) % 256 << 8;
  if (kind == "bf16s") return small(4, 8, 7);
  if (kind == "f16s") return small(4, 5, 10);
  if (kind == "e4m3s") return small(4, 4, 3);
  if (kind == "e5m2s") return small(4, 5, 2);
  if (kind == "f32s") return small(32, 8, 23);
  if (kind == "f64s") return small(32, 11, 52);
  if (kind == "tf32s") return small(4, 8, 23) | (r >> 40 & 0x1fff);  // bits below tf32's mantissa
  if (kind == "sums") {  // accumulators: small, or near the ends of 32 bits
    const uint32_t near = static_cast<uint32_t>(r >> 32) % 100000;
    return r % 3 == 0 ? near : r % 3 == 1 ? 0x7fffffffu - near : 0x80000000u + near;
  }
  fail("unknown kind of data: " + kind);
}

int element_bits(const std::string& kind) {
  static const std::map<std::string, int> BITS = {
      {"bytes", 8}, {"e4m3s", 8}, {"e5m2s", 8}, {"i16", 16},  {"nz16", 16},
      {"f16", 16},  {"bf16", 16}, {"f8x2", 16}, {"f16s", 16}, {"bf16s", 16},
      {"i64", 64},  {"nz64", 64}, {"f64", 64},  {"f64s", 64}};
  const auto found = BITS.find(kind);
  return found == BITS.end() ? 32 : found->second;
}

// "KIND[@PLACE]:BYTES,…": segments one after the other, each with a seed of its own.
Bytes fill(const std::string& text, uint64_t case_seed) {
  Bytes data;
  uint64_t segment = 0;
  for (const std::string& span : split(text, ',')) {
    const std::vector<std::string> parts = split(span, ':');
    const std::vector<std::string> name = split(parts.at(0), '@');
    const int place = name.size() == 1 ? NONE : name[1] == "only" ? ONLY : std::stoi(name[1]);
    const size_t size = element_bits(name[0]) / 8, bytes = number(parts.at(1));
    const uint64_t seed = hash(name[0]) ^ (segment++ * 0x1000 + case_seed);
    for (size_t i = 0; i < bytes / size; ++i) {
      const uint64_t value = element(name[0], place, seed, i);
      const auto* from = reinterpret_cast<const uint8_t*>(&value);
      data.insert(data.end(), from, from + size);
    }
  }
  return data;
}

// ---- Cases --------------------------------------------------------------------------------------

struct Case {
  std::string name, module, entry, in, fill, map;
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{0, 0, 0};
  size_t smem_bytes = 0, out_bytes = 4;
  std::vector<uint64_t> words;
  uint64_t seed = 0, ulp = 0;
  int limit_seconds = 60;
  uint64_t program = 0;  // hash of all that decides the outcome: the case and its kernel
};

std::array<unsigned, 3> dimensions(const std::string& text) {
  std::array<unsigned, 3> result{1, 1, 1};
  const std::vector<std::string> parts = split(text, 'x');
  for (size_t i = 0; i < parts.size(); ++i) result.at(i) = static_cast<unsigned>(number(parts[i]));
  return result;
}

// A module's text before its first kernel, and each kernel's own.
struct Source {
  std::string header;
  std::map<std::string, std::string> kernels;
};

Source read_source(const fs::path& path) {
  static const std::string MARK = "// kernel ";
  const std::string text = read_text(path);
  Source source;
  size_t at = text.find(MARK);
  source.header = text.substr(0, at);
  while (at != std::string::npos) {
    const size_t next = text.find(MARK, at + 1);
    const size_t name = at + MARK.size();
    source.kernels[text.substr(name, text.find('\n', name) - name)] = text.substr(at, next - at);
    at = next;
  }
  return source;
}

using Sources = std::map<std::string, Source>;

std::vector<Case> read_cases(const fs::path& folder, Sources& sources) {
  std::vector<Case> cases;
  for (const std::string& line : split(read_text(folder / "cases.txt"), '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    Case c;
    c.name = words.at(1);
    for (size_t i = 2; i < words.size(); ++i) {
      const std::string key = words[i].substr(0, words[i].find('='));
      const std::string value = words[i].substr(key.size() + 1);
      if (key == "module")
        c.module = value;
      else if (key == "entry")
        c.entry = value;
      else if (key == "in")
        c.in = value;
      else if (key == "fill")
        c.fill = value;
      else if (key == "map")
        c.map = value;
      else if (key == "grid")
        c.grid = dimensions(value);
      else if (key == "block")
        c.block = dimensions(value);
      else if (key == "cluster")
        c.cluster = dimensions(value);
      else if (key == "smem")
        c.smem_bytes = number(value);
      else if (key == "out")
        c.out_bytes = number(value);
      else if (key == "seed")
        c.seed = number(value);
      else if (key == "ulp")
        c.ulp = number(value);
      else if (key == "limit")
        c.limit_seconds = static_cast<int>(number(value));
      else if (key == "w")
        for (const std::string& w : split(value, ',')) c.words.push_back(number(w));
      else
        fail("cases.txt: unknown key in " + line);
    }
    c.program = hash(line);
    if (words[0] == "case") {
      if (!sources.contains(c.module))
        sources[c.module] = read_source(folder / (c.module + ".ptx"));
      c.program ^= hash(sources[c.module].kernels.at(c.entry)) * 3;
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

// ---- Running, in the child ----------------------------------------------------------------------

struct Outcome {
  std::string status;  // "ok", or what happened instead
  Bytes out;
};

struct Device {
  std::string error;
  bool ok(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return true;
    if (!error.empty()) return false;
    // The PTX machine's word for a hang; a GPU never comes back, and the parent sees the same.
    error = status == cudaErrorLaunchTimeout ? "hang"
                                             : std::string(what) + ":" + cudaGetErrorName(status);
    return false;
  }
};

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                   &found);
  if (function == nullptr) fail("this driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<Encode>(function);
}

// suite.py's tensor_map: BASE:TYPE:RANK:DIMS:STRIDES:BOX:STEPS:INTERLEAVE:SWIZZLE:L2:OOB.
CUresult encode(CUtensorMap& map, const std::string& text, uint8_t* in, uint8_t* out) {
  static const Encode function = find_encode();
  const std::vector<std::string> f = split(text, ':');
  const auto list = [&](const std::string& values) {
    std::array<uint64_t, 8> result{};
    if (values == "-") return result;
    const std::vector<std::string> parts = split(values, 'x');
    for (size_t i = 0; i < parts.size(); ++i) result.at(i) = number(parts[i]);
    return result;
  };
  const auto narrow = [](const std::array<uint64_t, 8>& wide) {
    std::array<cuuint32_t, 8> result;
    std::copy(wide.begin(), wide.end(), result.begin());
    return result;
  };
  const std::vector<std::string> base = split(f.at(0), '+');
  uint8_t* from = base[0] == "in" ? in : base[0] == "out" ? out : nullptr;
  const auto address = reinterpret_cast<uintptr_t>(from) + number(base.at(1));
  const auto dims = list(f.at(3)), strides = list(f.at(4));
  const auto box = narrow(list(f.at(5))), steps = narrow(list(f.at(6)));
  static_assert(sizeof(cuuint64_t) == sizeof(uint64_t));
  return function(&map, static_cast<CUtensorMapDataType>(number(f.at(1))),
                  static_cast<cuuint32_t>(number(f.at(2))), reinterpret_cast<void*>(address),
                  reinterpret_cast<const cuuint64_t*>(dims.data()),
                  reinterpret_cast<const cuuint64_t*>(strides.data()), box.data(), steps.data(),
                  static_cast<CUtensorMapInterleave>(number(f.at(7))),
                  static_cast<CUtensorMapSwizzle>(number(f.at(8))),
                  static_cast<CUtensorMapL2promotion>(number(f.at(9))),
                  static_cast<CUtensorMapFloatOOBfill>(number(f.at(10))));
}

class Runner {
 public:
  Runner(const fs::path& folder, const Sources& sources) : folder_(folder), sources_(sources) {}

  // Loads the case's kernel: with its whole module, or alone (then other kernels that cannot be
  // loaded do no harm). Gives the error, empty if there is none.
  std::string load(const Case& c, bool alone) {
    const std::string key = alone ? c.entry : "";
    if (key_ != std::pair(c.module, key) && !unload_and_load(c, alone)) return error_;
    key_ = {c.module, key};
    const cudaError_t status = cudaLibraryGetKernel(&kernel_, library_, c.entry.c_str());
    return status == cudaSuccess ? "" : cudaGetErrorName(status);
  }

  Outcome run(const Case& c) {
    Device d;
    // Neighbouring cases mostly have the same input.
    if (const std::string key = c.in + " " + std::to_string(c.seed); key != in_key_) {
      in_key_ = key;
      in_ = fill(c.in, c.seed);
      in_.resize(std::max<size_t>(in_.size(), 16));
    }
    const Bytes& in = in_;
    Bytes out = fill(c.fill, c.seed + 77);
    out.resize(c.out_bytes, 0xcd);
    void *in_at = nullptr, *out_at = nullptr;
    if (!d.ok(cudaMalloc(&in_at, in.size()), "cudaMalloc") ||
        !d.ok(cudaMalloc(&out_at, out.size()), "cudaMalloc")) {
      return {d.error, {}};
    }
    d.ok(cudaMemcpy(in_at, in.data(), in.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    d.ok(cudaMemcpy(out_at, out.data(), out.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    CUtensorMap map;
    const CUresult encoded = c.map.empty() ? CUDA_SUCCESS
                                           : encode(map, c.map, static_cast<uint8_t*>(in_at),
                                                    static_cast<uint8_t*>(out_at));
    if (c.entry.empty()) {  // cuTensorMapEncodeTiled itself is the case
      const auto code = static_cast<uint32_t>(encoded);
      std::memcpy(out.data(), &code, sizeof code);
    } else if (encoded != CUDA_SUCCESS) {
      d.error = "cuTensorMapEncodeTiled:" + std::to_string(encoded);
    } else if (launch(d, c, in_at, out_at, map)) {
      d.ok(cudaMemcpy(out.data(), out_at, out.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    }
    d.ok(cudaFree(in_at), "cudaFree");
    d.ok(cudaFree(out_at), "cudaFree");
    return d.error.empty() ? Outcome{"ok", out} : Outcome{d.error, {}};
  }

 private:
  bool unload_and_load(const Case& c, bool alone) {
    if (library_ != nullptr) cudaLibraryUnload(library_);
    library_ = nullptr;
    key_ = {};
    const Source& source = sources_.at(c.module);
    const fs::path cubin = folder_ / (c.module + ".cubin");
    std::string code;
    if (fs::exists(cubin)) {
      code = read_text(cubin);
    } else if (alone) {
      code = source.header + source.kernels.at(c.entry);
    } else {
      code = read_text(folder_ / (c.module + ".ptx"));
    }
    const cudaError_t status =
        cudaLibraryLoadData(&library_, code.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (status != cudaSuccess) {
      library_ = nullptr;
      error_ = cudaGetErrorName(status);
    }
    return status == cudaSuccess;
  }

  bool launch(Device& d, const Case& c, void* in, void* out, CUtensorMap& map) {
    const auto* function = reinterpret_cast<const void*>(kernel_);
    if (c.smem_bytes > 48 * 1024 &&
        !d.ok(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(c.smem_bytes)),
              "cudaFuncSetAttribute")) {
      return false;
    }
    std::vector<uint64_t> words = c.words;
    std::vector<void*> arguments = {&in, &out};
    for (uint64_t& w : words) arguments.push_back(&w);
    arguments.push_back(&map);
    cudaLaunchConfig_t config{};
    config.gridDim = {c.grid[0], c.grid[1], c.grid[2]};
    config.blockDim = {c.block[0], c.block[1], c.block[2]};
    config.dynamicSmemBytes = c.smem_bytes;
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {c.cluster[0], c.cluster[1], c.cluster[2]};
    config.attrs = &cluster;
    config.numAttrs = c.cluster[0] != 0 ? 1 : 0;
    return d.ok(cudaLaunchKernelExC(&config, function, arguments.data()), "cudaLaunchKernelExC") &&
           d.ok(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  fs::path folder_;
  const Sources& sources_;
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
  std::pair<std::string, std::string> key_;
  std::string in_key_;
  Bytes in_;
  std::string error_;
};

// ---- Parent and child ---------------------------------------------------------------------------

// What the child says of a case: it begins to load or to run it, or how it went.
struct Message {
  enum Kind : uint32_t { LOADING, RUNNING, NOT_LOADED, RESULT, DONE, NO_DEVICE } kind;
  uint32_t index, status_bytes, out_bytes;
};

void send(int to, Message::Kind kind, uint32_t index, const std::string& status = "",
          const Bytes& out = {}) {
  const Message m{kind, index, static_cast<uint32_t>(status.size()),
                  static_cast<uint32_t>(out.size())};
  std::string data(reinterpret_cast<const char*>(&m), sizeof m);
  data += status;
  data.append(reinterpret_cast<const char*>(out.data()), out.size());
  for (size_t at = 0; at < data.size();) {
    const ssize_t n = write(to, data.data() + at, data.size() - at);
    if (n <= 0) _exit(1);
    at += static_cast<size_t>(n);
  }
}

// Runs cases from `first` on until the end, or until the device is not to be trusted any more.
void child(int to, const fs::path& folder, const Sources& sources, const std::vector<Case>& cases,
           size_t first, const std::set<std::string>& split_modules) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    send(to, Message::NO_DEVICE, 0);
    return;
  }
  Runner runner(folder, sources);
  for (size_t i = first; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const auto index = static_cast<uint32_t>(i);
    if (!c.entry.empty()) {
      send(to, Message::LOADING, index);
      const std::string error = runner.load(c, split_modules.contains(c.module));
      if (!error.empty()) {
        send(to, Message::NOT_LOADED, index, error);
        return;
      }
    }
    send(to, Message::RUNNING, index);
    const Outcome outcome = runner.run(c);
    send(to, Message::RESULT, index, outcome.status, outcome.out);
    if (outcome.status != "ok") return;  // an error may be sticky
  }
  send(to, Message::DONE, static_cast<uint32_t>(cases.size()));
}

// Reads exactly `bytes`, or gives false at the end of the pipe or after `seconds` without any.
bool receive(int from, void* data, size_t bytes, int seconds) {
  for (size_t at = 0; at < bytes;) {
    pollfd ready{from, POLLIN, 0};
    if (poll(&ready, 1, seconds * 1000) <= 0) return false;
    const ssize_t n = read(from, static_cast<char*>(data) + at, bytes - at);
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

constexpr int LOAD_SECONDS = 180;

// Runs all cases, in as many children as it takes. A case that was not loaded, even alone, has the
// status "refused: …"; one whose process ended has "died: …", one that never came back "hang".
std::vector<Outcome> run_all(const fs::path& folder, const Sources& sources,
                             const std::vector<Case>& cases) {
  std::vector<Outcome> outcomes(cases.size());
  std::set<std::string> split_modules;
  size_t next = 0;
  while (next < cases.size()) {
    int ends[2];
    if (pipe(ends) != 0) fail("pipe failed");
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) fail("fork failed");
    if (pid == 0) {
      close(ends[0]);
      child(ends[1], folder, sources, cases, next, split_modules);
      std::fflush(nullptr);
      _exit(0);
    }
    close(ends[1]);
    bool loading = false, complete = false, expired = false;
    int seconds = LOAD_SECONDS;  // until the next message
    std::string refused;
    while (true) {
      Message m;
      if (!receive(ends[0], &m, sizeof m, seconds)) {
        pollfd closed{ends[0], POLLIN, 0};
        expired = poll(&closed, 1, 0) == 0;
        break;
      }
      Outcome outcome{std::string(m.status_bytes, '\0'), Bytes(m.out_bytes)};
      if (!receive(ends[0], outcome.status.data(), m.status_bytes, seconds) ||
          !receive(ends[0], outcome.out.data(), m.out_bytes, seconds)) {
        break;
      }
      if (m.kind == Message::NO_DEVICE) {
        std::fprintf(stderr,
                     "golden: no CUDA device; the PTX machine is started by "
                     "build/ptx-machine\n");
        std::exit(3);
      }
      loading = m.kind == Message::LOADING;
      seconds = m.kind == Message::RUNNING ? cases[m.index].limit_seconds : LOAD_SECONDS;
      complete = m.kind == Message::DONE;
      if (complete) next = cases.size();
      if (m.kind == Message::NOT_LOADED) {
        refused = outcome.status;
        break;
      }
      if (m.kind == Message::RESULT) {
        next = m.index + 1;
        complete = outcome.status != "ok";
        outcomes[m.index] = std::move(outcome);
      }
    }
    if (expired) kill(pid, SIGKILL);
    close(ends[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    if (complete || next >= cases.size()) continue;
    const Case& c = cases[next];
    const std::string end = expired ? "hang"
                            : WIFSIGNALED(status)
                                ? "died: signal " + std::to_string(WTERMSIG(status))
                                : "died: exit code " + std::to_string(WEXITSTATUS(status));
    if ((loading || !refused.empty()) && split_modules.insert(c.module).second) continue;
    outcomes[next].status = !refused.empty() ? "refused: " + refused
                            : loading        ? "refused: " + end
                                             : end;
    ++next;
  }
  return outcomes;
}

// ---- Records ------------------------------------------------------------------------------------

constexpr char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64(const uint8_t* data, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (i + j < bytes ? data[i + j] : 0);
    for (int j = 3; j >= 0; --j) text += DIGITS[group >> (6 * j) & 63];
  }
  return text;  // padded with zero bits: the record says how many bytes there are
}

Bytes from_base64(const std::string& text, size_t bytes) {
  Bytes data;
  uint32_t group = 0, bits = 0;
  for (const char digit : text) {
    group = group << 6 | static_cast<uint32_t>(std::strchr(DIGITS, digit) - DIGITS);
    bits += 6;
    if (bits >= 8) data.push_back(static_cast<uint8_t>(group >> (bits -= 8)));
  }
  data.resize(bytes);
  return data;
}

// Outputs up to WHOLE bytes, and approximations, are kept whole; of longer ones the first bytes, and
// a 32-bit hash of each of BLOCKS blocks besides the hash of everything.
constexpr size_t WHOLE = 192, FIRST = 96, BLOCKS = 8;

struct Record {
  uint64_t program = 0;
  std::string status;
  size_t bytes = 0;
  uint64_t whole_hash = 0;
  Bytes first, blocks;
};

size_t first_bytes(const Case& c, size_t bytes) {
  return c.ulp != 0 || bytes <= WHOLE ? bytes : FIRST;
}
size_t block_bytes(size_t bytes) {
  return (bytes + BLOCKS - 1) / BLOCKS;
}

Record make_record(const Case& c, const Outcome& outcome) {
  Record r{c.program, outcome.status, outcome.out.size(), 0, {}, {}};
  const Bytes& out = outcome.out;
  r.whole_hash = hash(out.data(), out.size());
  r.first.assign(out.begin(), out.begin() + first_bytes(c, out.size()));
  if (r.first.size() == out.size()) return r;
  for (size_t at = 0; at < out.size(); at += block_bytes(out.size())) {
    const uint64_t h = hash(&out[at], std::min(block_bytes(out.size()), out.size() - at));
    const auto folded = static_cast<uint32_t>(h ^ h >> 32);
    const auto* from = reinterpret_cast<const uint8_t*>(&folded);
    r.blocks.insert(r.blocks.end(), from, from + sizeof folded);
  }
  return r;
}

// One line: the name, 8 digits of the program's hash, then the status, or the output: its size, the
// bytes kept and, if these are not all, the hash of all and of the blocks.
std::string to_line(const Case& c, const Record& r) {
  char text[64];
  std::snprintf(text, sizeof text, " %08x ", static_cast<uint32_t>(r.program));
  std::string line = c.name.substr(c.name.find('/') + 1) + text;
  if (r.status != "ok") return line + "! " + r.status;
  line += std::to_string(r.bytes) + " " + base64(r.first.data(), r.first.size());
  if (r.blocks.empty()) return line;
  std::snprintf(text, sizeof text, " %016llx ", static_cast<unsigned long long>(r.whole_hash));
  return line + text + base64(r.blocks.data(), r.blocks.size());
}

std::string group_of(const Case& c) {
  return c.name.substr(0, c.name.find('/'));
}

std::map<std::string, Record> read_records(const fs::path& folder,
                                           const std::set<std::string>& groups) {
  std::map<std::string, Record> records;
  for (const std::string& group : groups) {
    for (const std::string& line : split(read_text(folder / (group + ".txt")), '\n')) {
      const std::vector<std::string> f = split(line, ' ');
      Record r;
      r.program = std::stoull(f.at(1), nullptr, 16);
      if (f.at(2) == "!") {
        r.status = line.substr(line.find('!') + 2);
      } else {
        r.status = "ok";
        r.bytes = number(f.at(2));
        r.first = from_base64(f.at(3), f.size() > 4 ? FIRST : r.bytes);
        r.whole_hash =
            f.size() > 4 ? std::stoull(f.at(4), nullptr, 16) : hash(r.first.data(), r.first.size());
        if (f.size() > 5) r.blocks = from_base64(f.at(5), f.at(5).size() * 3 / 16 * 4);
      }
      records[group + "/" + f.at(0)] = r;
    }
  }
  return records;
}

// Approximations agree within `ulp` units in the last place or 2^-20.
bool close_enough(float a, float b, uint64_t ulp) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::abs(a - b) <= 0x1p-20f) return true;
  const auto ordered = [](float x) {
    const auto bits = std::bit_cast<int32_t>(x);
    return static_cast<int64_t>(bits < 0 ? INT32_MIN - bits : bits);
  };
  return static_cast<uint64_t>(std::abs(ordered(a) - ordered(b))) <= ulp;
}

// A GPU tells these apart, and reports them when the kernel is waited for; on the PTX machine all are
// cudaErrorIllegalAddress, at the launch.
bool is_fault(const std::string& status) {
  return status.ends_with(":cudaErrorIllegalAddress") ||
         status.ends_with(":cudaErrorIllegalInstruction") ||
         status.ends_with(":cudaErrorMisalignedAddress");
}

// Where an outcome differs from its record; empty if it does not.
std::string difference(const Case& c, const Record& want, const Record& have) {
  if (static_cast<uint32_t>(want.program) != static_cast<uint32_t>(have.program)) {
    return "was recorded of another program or input: record it again";
  }
  if (is_fault(want.status) && is_fault(have.status)) return "";
  if (want.status != have.status) return "recorded " + want.status + ", here " + have.status;
  if (want.status != "ok") return "";
  if (want.bytes != have.bytes) return "another number of bytes";
  if (c.ulp != 0) {
    for (size_t at = 0; at < want.bytes; at += 4) {
      float a, b;
      std::memcpy(&a, &want.first[at], 4);
      std::memcpy(&b, &have.first[at], 4);
      if (close_enough(a, b, c.ulp)) continue;
      char text[96];
      std::snprintf(text, sizeof text, "lane %zu: recorded %a, here %a", at / 4, a, b);
      return text;
    }
    return "";
  }
  if (want.whole_hash == have.whole_hash) return "";
  for (size_t at = 0; at < want.first.size(); ++at) {
    if (want.first[at] == have.first[at]) continue;
    const size_t word = at / 4 * 4, n = std::min<size_t>(4, want.first.size() - word);
    uint32_t a = 0, b = 0;
    std::memcpy(&a, &want.first[word], n);
    std::memcpy(&b, &have.first[word], n);
    char text[96];
    std::snprintf(text, sizeof text, "bytes %zu to %zu: recorded %0*x, here %0*x", word,
                  word + n - 1, static_cast<int>(2 * n), a, static_cast<int>(2 * n), b);
    return text;
  }
  for (size_t at = 0; at < want.blocks.size(); at += 4) {
    if (std::memcmp(&want.blocks[at], &have.blocks[at], 4) == 0) continue;
    const size_t from = at / 4 * block_bytes(want.bytes);
    return "differs somewhere in bytes " + std::to_string(from) + " to " +
           std::to_string(std::min(from + block_bytes(want.bytes), want.bytes) - 1);
  }
  return "differs";
}

// ---- Program ------------------------------------------------------------------------------------

void write_raw(const std::string& path, const std::vector<Case>& cases,
               const std::vector<Outcome>& outcomes) {
  std::ofstream raw(path, std::ios::binary);
  for (size_t i = 0; i < cases.size(); ++i) {
    raw << cases[i].name << ' ' << outcomes[i].out.size() << ' ' << outcomes[i].status << '\n';
    raw.write(reinterpret_cast<const char*>(outcomes[i].out.data()),
              static_cast<std::streamsize>(outcomes[i].out.size()));
  }
  if (!raw) fail("cannot write " + path);
}

int record(const fs::path& folder, const std::vector<Case>& cases,
           const std::vector<Outcome>& outcomes) {
  fs::create_directories(folder);
  std::map<std::string, std::string> texts;
  size_t errors = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    texts[group_of(cases[i])] += to_line(cases[i], make_record(cases[i], outcomes[i])) + "\n";
    if (outcomes[i].status == "ok") continue;
    ++errors;
    std::printf("%s: %s\n", cases[i].name.c_str(), outcomes[i].status.c_str());
  }
  for (const auto& [group, text] : texts) {
    std::ofstream stream(folder / (group + ".txt"), std::ios::binary);
    stream << text;
    if (!stream) fail("cannot write " + (folder / (group + ".txt")).string());
  }
  std::printf("golden: %zu recorded, %zu of them errors\n", cases.size(), errors);
  return 0;
}

int check(const fs::path& folder, const std::vector<Case>& cases,
          const std::vector<Outcome>& outcomes) {
  std::set<std::string> groups;
  for (const Case& c : cases) groups.insert(group_of(c));
  const std::map<std::string, Record> records = read_records(folder, groups);
  size_t passed = 0, failed = 0, skipped = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const auto want = records.find(c.name);
    const std::string& status = outcomes[i].status;
    if (status.starts_with("refused")) {
      ++skipped;
      std::printf("SKIPPED %s: %s\n", c.name.c_str(), status.c_str());
      continue;
    }
    const std::string why = want == records.end()
                                ? "has no record"
                                : difference(c, want->second, make_record(c, outcomes[i]));
    why.empty() ? ++passed : ++failed;
    if (!why.empty()) std::printf("FAILED %s: %s\n", c.name.c_str(), why.c_str());
  }
  std::printf("golden: %zu passed, %zu failed, %zu skipped\n", passed, failed, skipped);
  return failed == 0 ? 0 : 1;
}

int run(const std::vector<std::string>& arguments) {
  std::string only, raw;
  for (size_t i = 3; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--only") only = arguments[i + 1];
    if (arguments[i] == "--raw") raw = arguments[i + 1];
  }
  Sources sources;
  std::vector<Case> cases = read_cases(arguments[1], sources);
  std::erase_if(cases, [&](const Case& c) { return !c.name.starts_with(only); });
  if (cases.empty()) fail("no case begins with " + only);
  const std::vector<Outcome> outcomes = run_all(arguments[1], sources, cases);
  if (!raw.empty()) write_raw(raw, cases, outcomes);
  return arguments[0] == "record" ? record(arguments[2], cases, outcomes)
                                  : check(arguments[2], cases, outcomes);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  bool usable = arguments.size() >= 3 && arguments.size() % 2 == 1 &&
                (arguments[0] == "record" || arguments[0] == "check");
  for (size_t i = 3; i < arguments.size(); i += 2) {
    usable = usable && (arguments[i] == "--only" || arguments[i] == "--raw");
  }
  if (!usable) {
    std::fprintf(stderr,
                 "usage: golden record|check CASES RECORDED [--only PREFIX] [--raw FILE]\n");
    return 2;
  }
  try {
    return run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "golden: %s\n", error.what());
    return 2;
  }
}
