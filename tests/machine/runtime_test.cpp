// What needs no kernel: the rules of tensor maps, and how PTX is found in a fat binary. What programs
// see of the runtime is in runtime_test.py.
#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "common/machine/ops/tensor_map.h"
#include "common/machine/run/sm.h"
#include "common/machine/runtime/fatbin.h"

using namespace machine;

namespace {

// ---- tensor maps ----------------------------------------------------------------------------------

// A bf16 tensor of rank 3 that breaks no rule.
struct Tensor {
  uint64_t dims[5] = {100, 60, 7, 3, 2};
  uint64_t strides_bytes[4] = {208, 208 * 60, 208 * 60 * 7, 208 * 60 * 7 * 3};
  uint32_t box[5] = {64, 128, 2, 1, 1};
  uint32_t element_strides[5] = {1, 1, 1, 1, 1};
  uint32_t type = 9, rank = 3;
  uint64_t base = 4096;
  uint32_t interleave = 0, swizzle = 3, l2_promotion = 3, oob_fill = 0;

  std::string encode(TensorMap* map = nullptr) const {
    TensorMap made;
    const TensorMapArgs args{
        type,       rank,    base,         dims,    strides_bytes, box, element_strides,
        interleave, swizzle, l2_promotion, oob_fill};
    return encode_tiled(args, map == nullptr ? &made : map);
  }
};

// The sentence about a tensor that `change` has changed; "" if it breaks no rule.
std::string after(const std::function<void(Tensor&)>& change) {
  Tensor tensor;
  change(tensor);
  return tensor.encode();
}

#define REFUSED(change, words)                                     \
  do {                                                             \
    const std::string sentence = after([](Tensor& t) { change; }); \
    INFO(sentence);                                                \
    CHECK(sentence.find(words) != std::string::npos);              \
  } while (false)
#define ACCEPTED(change) CHECK(after([](Tensor& t) { change; }) == "")

}  // namespace

TEST_CASE("a tensor map holds what it was made from") {
  Tensor tensor;
  tensor.element_strides[1] = 2;
  tensor.oob_fill = 1;
  TensorMap map;
  REQUIRE(tensor.encode(&map) == "");
  CHECK(map.is_valid());
  CHECK(map.type == TensorType::bf16);
  CHECK(element_bytes(map.type) == 2);
  CHECK(map.rank == 3);
  CHECK(map.base == 4096);
  CHECK(map.dims[0] == 100);
  CHECK(map.dims[2] == 7);
  CHECK(map.dims[3] == 0);
  CHECK(map.strides_bytes[1] == 208 * 60);
  CHECK(map.box[1] == 128);
  CHECK(map.element_strides[1] == 2);
  CHECK(map.swizzle == TensorSwizzle::span_128_bytes);
  CHECK(map.interleave == TensorInterleave::none);
  CHECK(map.nan_fill == 1);
  CHECK(replace_address(8192, &map) == "");
  CHECK(map.base == 8192);
  CHECK(replace_address(8200, &map) != "");
  CHECK(map.base == 8192);
  TensorMap never_made;
  CHECK(replace_address(8192, &never_made) != "");
}

TEST_CASE("a tensor map's rank, address, sizes and strides have limits") {
  ACCEPTED(t.rank = 1);
  ACCEPTED(t.rank = 5);
  REFUSED(t.rank = 0, "rank is 0");
  REFUSED(t.rank = 6, "rank is 6");
  REFUSED(t.base = 4104, "global address");
  ACCEPTED(t.base = 1ull << 56);
  REFUSED(t.base = 1ull << 57, "must be below 2^57");
  ACCEPTED(t.dims[1] = 1ull << 32);
  REFUSED(t.dims[1] = (1ull << 32) + 1, "dimension 1 is 4294967297");
  REFUSED(t.dims[0] = 0, "dimension 0 is 0");
  ACCEPTED((t.rank = 2, t.dims[2] = 0));  // beyond the rank nothing is read
  ACCEPTED(t.strides_bytes[0] = 0);
  REFUSED(t.strides_bytes[0] = 200, "stride of dimension 1 is 200");
  ACCEPTED(t.strides_bytes[1] = (1ull << 40) - 16);
  REFUSED(t.strides_bytes[1] = 1ull << 40, "stride of dimension 2");
}

TEST_CASE("a tensor map's box is of 1 to 256 elements, and of 16 bytes inside") {
  ACCEPTED(t.box[1] = 256);
  REFUSED(t.box[1] = 257, "side 1 of the box is 257");
  REFUSED(t.box[2] = 0, "side 2 of the box is 0");
  ACCEPTED(t.box[0] = 8);
  REFUSED(t.box[0] = 12, "inner side of the box is 24 bytes");
  ACCEPTED(t.element_strides[1] = 8);
  REFUSED(t.element_strides[1] = 9, "element stride 1 is 9");
  REFUSED(t.element_strides[2] = 0, "element stride 2 is 0");
  ACCEPTED((t.box[0] = 8, t.box[1] = 255, t.box[2] = 256));
  REFUSED((t.box[0] = 8, t.box[1] = 256, t.box[2] = 256), "the box is 1048576 bytes");
}

TEST_CASE("a swizzle limits the inner side of the box") {
  REFUSED(t.box[0] = 72, "144 bytes: this swizzle allows at most 128");
  ACCEPTED((t.box[0] = 72, t.swizzle = 0));
  REFUSED(t.swizzle = 2, "at most 64");
  ACCEPTED((t.swizzle = 2, t.box[0] = 32));
  REFUSED((t.swizzle = 1, t.box[0] = 32), "at most 32");
  ACCEPTED((t.swizzle = 1, t.box[0] = 16));
  REFUSED(t.swizzle = 4, "swizzle is 4");
}

TEST_CASE("interleaved tensors have three dimensions and stricter strides") {
  REFUSED((t.interleave = 1, t.rank = 2), "with an interleave it must be from 3");
  ACCEPTED((t.interleave = 1, t.box[0] = 8));
  REFUSED((t.interleave = 1, t.box[0] = 4), "inner side of the box is 8 bytes");
  ACCEPTED((t.interleave = 2, t.swizzle = 1, t.strides_bytes[0] = 224));
  ACCEPTED((t.interleave = 2, t.swizzle = 3, t.strides_bytes[0] = 224));
  REFUSED((t.interleave = 2, t.swizzle = 1), "multiple of 32");
  REFUSED((t.interleave = 2, t.swizzle = 1, t.base = 4112), "multiple of 32 bytes");
  REFUSED(t.interleave = 3, "interleave is 3");
}

TEST_CASE("enumerators of a tensor map are in range, and NaN is for floating point") {
  REFUSED(t.type = 13, "data type is 13");
  REFUSED(t.l2_promotion = 4, "L2 promotion is 4");
  REFUSED(t.oob_fill = 2, "fill is 2");
  ACCEPTED(t.oob_fill = 1);
  REFUSED((t.oob_fill = 1, t.type = 1), "floating-point");
}

// ---- fat binaries ---------------------------------------------------------------------------------

namespace {

constexpr int PTX = 1, CUBIN = 2;
constexpr uint64_t A = 0x100000, FAMILY = 0x200000, LZ4 = 0x2000, ZSTD = 0x8000;

// Lays out a fat binary as fatbinary does.
class FatBinary {
 public:
  void add(int kind, uint32_t arch, uint64_t flags, const std::string& payload) {
    put<uint16_t>(static_cast<uint16_t>(kind));
    put<uint16_t>(0x101);
    put<uint32_t>(64);
    put<uint64_t>(payload.size());
    put<uint64_t>(0);  // compressed size, options
    put<uint32_t>(0);
    put<uint32_t>(arch);
    put<uint64_t>(0);  // name
    put<uint64_t>(flags);
    put<uint64_t>(0);
    put<uint64_t>(0);
    body_ += payload;
  }
  runtime::Image read() const { return runtime::read_image(laid_out().data()); }
  std::string laid_out() const {
    std::string all(16, '\0');
    const uint32_t magic = 0xba55ed50, version_and_size = 1 | 16 << 16;
    const uint64_t bytes = body_.size();
    std::memcpy(all.data(), &magic, 4);
    std::memcpy(all.data() + 4, &version_and_size, 4);
    std::memcpy(all.data() + 8, &bytes, 8);
    return all + body_;
  }

 private:
  template <class T>
  void put(T value) {
    body_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  std::string body_;
};

}  // namespace

TEST_CASE("of several PTX entries the one for sm_90a is taken") {
  FatBinary binary;
  binary.add(CUBIN, 90, A, "no cubin");
  binary.add(PTX, 80, 0, "ptx 80");
  binary.add(PTX, 90, A, std::string("ptx 90a\0\0\0", 10));
  binary.add(PTX, 90, 0, "ptx 90");
  binary.add(PTX, 100, A, "ptx 100a");
  CHECK(binary.read().ptx == "ptx 90a");
}

TEST_CASE("else that of the highest architecture that runs on sm_90a") {
  FatBinary binary;
  binary.add(PTX, 80, 0, "ptx 80");
  binary.add(PTX, 86, 0, "ptx 86");
  binary.add(PTX, 100, 0, "ptx 100");
  CHECK(binary.read().ptx == "ptx 86");
  binary.add(PTX, 90, 0, "ptx 90");
  CHECK(binary.read().ptx == "ptx 90");
}

TEST_CASE("a fat binary without PTX that can be read names the missing flag") {
  FatBinary only_code;
  only_code.add(CUBIN, 90, A, "no cubin");
  CHECK(only_code.read().problem.find("code=[sm_90a,compute_90a]") != std::string::npos);
  FatBinary compressed;
  compressed.add(PTX, 90, A | ZSTD, "?");
  CHECK(compressed.read().problem.find("--no-compress") != std::string::npos);
  CHECK(compressed.read().ptx == "");
  FatBinary old_compressed;
  old_compressed.add(PTX, 90, A | LZ4, "?");
  CHECK(old_compressed.read().problem.find("--no-compress") != std::string::npos);
  FatBinary too_new;
  too_new.add(PTX, 100, A, "ptx 100a");
  too_new.add(PTX, 103, FAMILY, "ptx 103f");
  too_new.add(PTX, 120, 0, "ptx 120");
  CHECK(too_new.read().problem.starts_with(
      "its PTX is for sm_100a, sm_103f, sm_120, not for sm_90a; build it with nvcc"));
  CHECK(runtime::read_image("\x7f"
                            "ELF...")
            .problem.find("cubin") != std::string::npos);
}

TEST_CASE(
    "of files that were linked those for other architectures are left out, and it is known why") {
  FatBinary runs, newer, compressed;
  runs.add(PTX, 90, A, "ptx 90a");
  newer.add(PTX, 100, A, ".visible .entry newer(");
  compressed.add(PTX, 121, ZSTD, "?");
  const auto linked = [](std::vector<const FatBinary*> binaries) {
    std::vector<std::string> texts;
    for (const FatBinary* each : binaries) texts.push_back(each->laid_out());
    std::vector<const char*> files;
    for (const std::string& each : texts) files.push_back(each.data());
    files.push_back(nullptr);
    const std::string whole = FatBinary().laid_out();
    const runtime::Wrapper wrapper = {runtime::WRAPPER_MAGIC, 2, whole.data(), files.data()};
    return runtime::read_image(&wrapper);
  };
  const runtime::Image image = linked({&compressed, &runs, &newer});
  CHECK(image.ptx == "ptx 90a\n");
  CHECK(image.problem == "");
  CHECK(
      runtime::why_left_out(image, "newer").starts_with("its PTX is for sm_100a, not for sm_90a"));
  CHECK(runtime::why_left_out(image, "new").starts_with("no file that was linked has PTX of it"));
  CHECK(runtime::why_left_out(linked({&runs}), "newer") == "");
  CHECK(linked({&newer}).problem.starts_with("its PTX is for sm_100a, not for sm_90a"));
}

TEST_CASE("PTX text is taken as it is") {
  CHECK(runtime::read_image(".version 8.0\n").ptx == ".version 8.0\n");
}

TEST_CASE("the registers of a kernel are read from its cubin") {
  std::ifstream file("build/tests/programs/registers.cubin", std::ios::binary);
  REQUIRE(file);
  const std::string cubin{std::istreambuf_iterator<char>(file), {}};
  const auto found = runtime::read_cubin(cubin);
  REQUIRE(found.size() == 2);
  CHECK(found.at("few_registers").registers < 32);
  CHECK(found.at("few_registers").local_bytes == 0);
  CHECK(found.at("frame").local_bytes >= 256);
  CHECK(runtime::read_cubin("").empty());
}

TEST_CASE("an SM's registers lie in four partitions, and a warp's in one of them") {
  // 184 x 32 registers a warp: 2 warps in each 16384.
  CHECK(ctas_per_sm(256, 0, 184) == 1);
  CHECK(ctas_per_sm(288, 0, 184) == 0);
  CHECK(ctas_per_sm(32, 0, 184) == 8);
  CHECK(ctas_per_sm(384, 0, 168) == 1);
  CHECK(ctas_per_sm(416, 0, 168) == 0);
  CHECK(ctas_per_sm(1024, 0, 32) == 2);
  CHECK(ctas_per_sm(1024, 0, 0) == 2);  // not known
}
