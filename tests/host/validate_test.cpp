// What run() refuses, in which words, and that doing what they say is enough.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/host/run.h"
#include "tests/support/sentences.h"

using ladder::bf16;
using ladder::DeviceInfo;
using ladder::GemmArgs;
using ladder::Variant;
using ladder_test::draw_sizes;
using ladder_test::lines;
using ladder_test::refused_and_mended;

namespace {

Variant plain_variant() {
  Variant variant{};
  variant.name = "plain";
  variant.kernel.launch = +[](const GemmArgs&) {};
  variant.kernel.bm = 128;
  variant.kernel.bn = 64;
  variant.kernel.bk = 64;
  variant.kernel.smem_bytes = 100000;
  return variant;
}

Variant persistent_pairs() {
  Variant variant = plain_variant();
  variant.name = "pairs";
  variant.kernel.persistent = true;
  variant.kernel.cluster_m = 2;
  return variant;
}

DeviceInfo hopper() {
  DeviceInfo device;
  device.name = "H200";
  device.cc_major = 9;
  device.sm_count = 132;
  device.smem_optin_bytes = 232448;
  return device;
}

const bf16* at(uintptr_t address) {
  return reinterpret_cast<const bf16*>(address);
}
bf16* at_mutable(uintptr_t address) {
  return reinterpret_cast<bf16*>(address);
}

// 100 x 200 x 300, three matrices far apart.
GemmArgs good_call() {
  GemmArgs args;
  args.m = 100;
  args.n = 200;
  args.k = 300;
  args.a = at(0x10000000);
  args.lda = 304;
  args.b = at(0x20000000);
  args.ldb = 304;
  args.d = at_mutable(0x30000000);
  args.ldd = 200;
  return args;
}

std::string check(const GemmArgs& args, const Variant& variant = plain_variant()) {
  return ladder::violations(variant, args, hopper());
}

// The number a sentence ends in: "...; the nearest that works is 304." -> 304.
long long suggested(const std::string& sentence) {
  const size_t space = sentence.rfind(' ');
  return std::strtoll(sentence.c_str() + space + 1, nullptr, 0);
}

// Does what every sentence says, as a caller would.
void follow(const std::string& text, GemmArgs* args) {
  for (const std::string& line : lines(text)) {
    const std::string name = line.substr(0, line.find(' '));
    CAPTURE(line);
    if (line.find("is null") != std::string::npos) {
      if (name == "a") args->a = at(0x40000000000);
      if (name == "b") args->b = at(0x80000000000);
      if (name == "d") args->d = at_mutable(0xc0000000000);
      continue;
    }
    const size_t comma = line.find(", as many as fit");
    const long long value = suggested(comma == std::string::npos ? line : line.substr(0, comma));
    if (name == "m")
      args->m = static_cast<int>(value);
    else if (name == "n")
      args->n = static_cast<int>(value);
    else if (name == "k")
      args->k = static_cast<int>(value);
    else if (name == "lda")
      args->lda = value;
    else if (name == "ldb")
      args->ldb = value;
    else if (name == "ldd")
      args->ldd = value;
    else if (name == "a")
      args->a = at(static_cast<uintptr_t>(value));
    else if (name == "b")
      args->b = at(static_cast<uintptr_t>(value));
    else if (name == "d")
      args->d = at_mutable(static_cast<uintptr_t>(value));
    else if (name == "max_ctas")
      args->max_ctas = static_cast<int>(value);
    else
      FAIL("a sentence about nothing known");
  }
}

// One violation, whose sentence has all of `parts` and whose suggestion works.
void refused(GemmArgs args, const std::vector<std::string>& parts,
             const Variant& variant = plain_variant()) {
  const std::string text = check(args, variant);
  CAPTURE(text);
  CHECK(lines(text).size() == 1);
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  follow(text, &args);
  CHECK(check(args, variant) == "");
}

}  // namespace

TEST_CASE("validate: a right call is accepted") {
  CHECK(check(good_call()) == "");
  GemmArgs args = good_call();
  args.max_ctas = 2;
  CHECK(check(args, persistent_pairs()) == "");
  args.max_ctas = 7;  // launched as three clusters
  CHECK(check(args, persistent_pairs()) == "");
}

TEST_CASE("validate: sizes") {
  GemmArgs args = good_call();
  SUBCASE("negative m") {
    args.m = -3;
    refused(args, {"m is -3", "must not be negative", "works is 0"});
  }
  SUBCASE("negative n") {
    args.n = -1;
    refused(args, {"n is -1", "must not be negative", "works is 0"});
  }
  SUBCASE("negative k") {
    args.k = -2147483647 - 1;
    refused(args, {"k is -2147483648", "must not be negative", "works is 0"});
  }
  SUBCASE("m beyond what tile arithmetic holds") {
    args.m = (1 << 30) + 1;
    args.b = at(0x100000000000);
    args.d = at_mutable(0x200000000000);
    refused(args, {"m is 1073741825", "2^30", "works is 1073741824"});
  }
  SUBCASE("more tiles of columns than grid y has") {
    args.n = 65535 * 64 + 1;
    args.ldd = args.n + 7;
    args.d = at_mutable(0x100000000000);
    refused(args, {"n is 4194241", "64 columns", "65535", "works is 4194240"});
    CHECK(check(args, persistent_pairs()) == "");  // its CTAs take tiles in turns
    Variant in_a_row = plain_variant();
    in_a_row.kernel.grid_y = false;
    CHECK(check(args, in_a_row) == "");  // its tiles lie along one dimension of the grid
  }
  SUBCASE("a matrix of more than 2^40 bytes") {
    args.m = 1 << 20;
    args.k = 1 << 20;
    args.lda = args.ldb = 1 << 20;
    args.b = at(0x200000000000);
    args.d = at_mutable(0x300000000000);
    refused(args, {"m is 1048576", "2^40 bytes", "works is 524288"});
  }
}

TEST_CASE("validate: leading dimensions") {
  GemmArgs args = good_call();
  SUBCASE("lda below k") {
    args.lda = 296;
    refused(args, {"lda is 296", "at least k = 300", "works is 304"});
  }
  SUBCASE("ldb below k and negative") {
    args.ldb = -8;
    refused(args, {"ldb is -8", "at least k = 300", "works is 304"});
  }
  SUBCASE("ldd below n") {
    args.ldd = 199;
    refused(args, {"ldd is 199", "at least n = 200", "works is 200"});
  }
  SUBCASE("lda no multiple of 8") {
    args.lda = 300;
    refused(args, {"lda is 300", "multiple of 8", "works is 304"});
  }
  SUBCASE("ldb beyond what a tensor map's stride holds") {
    args.ldb = 1LL << 39;
    args.n = 1;
    refused(args, {"ldb is 549755813888", "2^39 - 8", "works is 549755813880"});
  }
  SUBCASE("the largest ldb there is") {
    args.ldb = INT64_MAX;
    args.n = 1;
    refused(args, {"ldb is 9223372036854775807", "2^39 - 8", "works is 549755813880"});
  }
}

TEST_CASE("validate: pointers") {
  GemmArgs args = good_call();
  SUBCASE("null a") {
    args.a = nullptr;
    refused(args, {"a is null", "m x k elements"});
  }
  SUBCASE("null b") {
    args.b = nullptr;
    refused(args, {"b is null", "n x k elements"});
  }
  SUBCASE("null d") {
    args.d = nullptr;
    refused(args, {"d is null", "m x n elements"});
  }
  SUBCASE("null b, which overlaps nothing") {
    args.m = args.n = args.k = 4096;
    args.lda = args.ldb = args.ldd = 4096;
    args.b = nullptr;
    args.d = at_mutable(0x1000);
    refused(args, {"b is null"});
  }
  SUBCASE("a off by one element") {
    args.a = at(0x10000002);
    refused(args, {"a is 0x10000002", "multiple of 16", "0x10000000"});
  }
  SUBCASE("b off by 8 bytes") {
    args.b = at(0x20000008);
    refused(args, {"b is 0x20000008", "multiple of 16", "0x20000000"});
  }
  SUBCASE("d off by a byte") {
    args.d = at_mutable(0x30000001);
    refused(args, {"d is 0x30000001", "multiple of 16", "0x30000000"});
  }
}

TEST_CASE("validate: D shares no byte with A or B") {
  GemmArgs args = good_call();
  const uintptr_t a_end = 0x10000000 + (99 * 304 + 300) * 2;
  const uintptr_t d_bytes = (99 * 200 + 200) * 2;
  SUBCASE("D in A's place") {
    args.d = at_mutable(0x10000000);
    refused(args, {"d is 0x10000000", "overlaps A"});
  }
  SUBCASE("D begins in A's last 16 bytes") {
    args.d = at_mutable(a_end / 16 * 16);
    refused(args, {"overlaps A"});
  }
  SUBCASE("D begins where A's last row ends, before A's last padding does") {
    args.d = at_mutable((a_end + 15) / 16 * 16);
    CHECK(check(args) == "");
  }
  SUBCASE("D ends where B begins") {
    args.d = at_mutable(0x20000000 - d_bytes);
    CHECK(check(args) == "");
  }
  SUBCASE("D ends 16 bytes into B") {
    args.d = at_mutable(0x20000010 - d_bytes);
    refused(args, {"overlaps B"});
  }
  SUBCASE("D over A and B, which touch") {
    args.b = at((a_end + 15) / 16 * 16);
    args.d = at_mutable((a_end - 160) / 16 * 16);
    refused(args, {"overlaps A and B"});
  }
  SUBCASE("A and B may be the same") {
    args.b = args.a;
    CHECK(check(args) == "");
  }
}

TEST_CASE("validate: what is not touched is not looked at") {
  GemmArgs args;
  args.m = 100;
  args.n = 200;
  args.ldd = 200;
  args.d = at_mutable(0x30000000);
  SUBCASE("k == 0 needs no A and no B") {
    CHECK(check(args) == "");
  }
  SUBCASE("k == 0 needs D") {
    args.d = nullptr;
    refused(args, {"d is null"});
  }
  SUBCASE("m == 0 needs nothing") {
    args = GemmArgs();
    args.n = 200;
    args.k = 300;
    CHECK(check(args) == "");
  }
  SUBCASE("n == 0 needs nothing") {
    args = GemmArgs();
    args.m = 100;
    args.k = 300;
    CHECK(check(args) == "");
  }
}

TEST_CASE("validate: max_ctas") {
  GemmArgs args = good_call();
  SUBCASE("negative") {
    args.max_ctas = -1;
    refused(args, {"max_ctas is -1", "must not be negative", "works is 0"}, persistent_pairs());
  }
  SUBCASE("less than a cluster") {
    args.max_ctas = 1;
    refused(args, {"max_ctas is 1", "pairs launches clusters of 2", "works is 2"},
            persistent_pairs());
  }
  SUBCASE("for a variant that is not persistent") {
    args.max_ctas = 78;
    refused(args, {"max_ctas is 78", "only persistent", "plain", "works is 0"});
  }
}

TEST_CASE("validate: a chooser is held to its own rules, then to those of what it chooses") {
  static const Variant pairs = persistent_pairs();
  static int times_asked = 0;
  Variant chooser{};
  chooser.name = "auto";
  chooser.chooser.rules = {"of no call", 64, true, 1};
  chooser.chooser.choose = +[](const GemmArgs&) -> const Variant& {
    ++times_asked;
    return pairs;
  };
  CHECK(check(good_call(), chooser) == "");
  CHECK(times_asked == 1);

  GemmArgs args = good_call();
  args.max_ctas = 1;
  refused(args, {"max_ctas is 1", "pairs launches clusters of 2", "works is 2"}, chooser);
  args.max_ctas = 2;
  CHECK(check(args, chooser) == "");
  DeviceInfo device = hopper();
  device.smem_optin_bytes = 99999;
  CHECK(ladder::violations(chooser, args, device).find("pairs needs 100000") == 0);

  times_asked = 0;
  args.lda = 1;
  CHECK(check(args, chooser).find("lda is 1") == 0);
  CHECK(times_asked == 0);
}

TEST_CASE("validate: a kernel that needs a workspace") {
  Variant variant = plain_variant();
  variant.kernel.workspace_bytes = 1000;
  GemmArgs args = good_call();
  CHECK(check(args, variant) ==
        "workspace is null: plain needs one with 65536 bytes of counters and 1000 bytes for each "
        "SM; the nearest that works is a workspace of ladder_workspace_bytes() bytes, or stage 0, "
        "which then takes a kernel that needs none.");
  args.lda = 1;
  CHECK(lines(check(args, variant)).size() == 2);
  args = good_call();
  args.k = 0;
  CHECK(check(args, variant) == "");
  char memory;
  args = good_call();
  args.workspace = &memory;
  CHECK(check(args, variant) == "");
}

TEST_CASE("validate: the device") {
  DeviceInfo device = hopper();
  SUBCASE("another compute capability") {
    device.name = "A100";
    device.cc_major = 8;
    const std::string text = ladder::violations(plain_variant(), good_call(), device);
    CHECK(text ==
          "The device A100 has compute capability 8.0: the ladder needs 9.0, such as an H100, H200 "
          "or GH200.");
  }
  SUBCASE("9.x is not 9.0") {
    device.cc_minor = 1;
    CHECK(ladder::violations(plain_variant(), good_call(), device).find("9.1") !=
          std::string::npos);
  }
  SUBCASE("too little shared memory") {
    device.smem_optin_bytes = 99999;
    const std::string text = ladder::violations(plain_variant(), good_call(), device);
    CHECK(text.find("plain needs 100000 bytes") != std::string::npos);
    CHECK(text.find("offers 99999") != std::string::npos);
  }
}

TEST_CASE("validate: one message has every violation, and following all of it is enough") {
  GemmArgs args = good_call();
  args.lda = 301;
  args.ldb = 8;
  args.ldd = 204;
  args.a = at(0x10000004);
  args.b = nullptr;
  args.d = at_mutable(0x10000808);
  args.max_ctas = 5;
  const std::string text = check(args);
  CAPTURE(text);
  const std::vector<std::string> all = lines(text);
  CHECK(all.size() == 8);
  for (const char* begin :
       {"lda is 301", "ldb is 8", "ldd is 204", "a is 0x10000004", "b is null", "d is 0x10000808",
        "max_ctas is 5", "d is 0x10000800, so that D ends"}) {
    CAPTURE(begin);
    const auto begins = [begin](const std::string& line) { return line.rfind(begin, 0) == 0; };
    CHECK(std::count_if(all.begin(), all.end(), begins) == 1);
  }
  follow(text, &args);
  CHECK(check(args) == "");

  DeviceInfo device = hopper();
  device.cc_major = 10;
  device.smem_optin_bytes = 1;
  args.lda = 1;
  CHECK(lines(ladder::violations(plain_variant(), args, device)).size() == 3);
}

TEST_CASE("validate: following suggestions works for any combination of mistakes") {
  const int sizes[] = {-7, 0, 1, 100, 1 << 24, 2147483647};
  const long long lds[] = {-1, 0, 100, 104, 1LL << 24, (1LL << 39) + 1};
  const uintptr_t pointers[] = {0, 0x1000, 0x1004, 0x2000};
  const auto make = [&](auto& draw) {
    GemmArgs args;
    draw_sizes(draw, sizes, lds, &args);
    args.a = at(draw(pointers));
    args.b = at(draw(pointers));
    args.d = at_mutable(draw(pointers));
    return args;
  };
  const int refused = refused_and_mended(make, follow);
  CHECK(refused > 1000);
  CHECK(20000 - refused > 100);
}
