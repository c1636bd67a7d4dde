#include "common/host/mixed_rules.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/host/text.h"
#include "common/host/validate.h"
#include "common/tile/packed_weights.h"

namespace ladder {
namespace {

constexpr int MAX_DIM = 1 << 30;
constexpr long long MAX_MATRIX_BYTES = 1LL << 40;
constexpr uintptr_t ALIGNMENT_BYTES = 16;

// Memory of a call. Checks replace what breaks a rule by the suggestion they make.
struct Operand {
  const char *name, *what;
  const void* given;
  size_t bytes = 0;  // it occupies
  uintptr_t begin = 0;

  uintptr_t end() const { return begin + bytes; }
  bool overlaps(const Operand& other) const {
    return given != nullptr && other.given != nullptr && begin < other.end() && other.begin < end();
  }
};

class Rules {
 public:
  int bits(int value) { return check_choice(&sentences_, "bits", value, {8, 4}, "8 or 4"); }

  int size(const char* name, int value) {
    if (value < 0) {
      add(format("%s is %d: a size must not be negative; the nearest that works is 0.", name,
                 value));
    } else if (value > MAX_DIM) {
      add(format("%s is %d: a size must be at most 2^30; the nearest that works is %d.", name,
                 value, MAX_DIM));
    }
    return std::clamp(value, 0, MAX_DIM);
  }

  void limit(const GridRules& rules, int max_ctas) {
    const int least = rules.persistent ? rules.cluster : 0;
    if (max_ctas < 0 || (max_ctas > 0 && max_ctas < least) || (max_ctas > 0 && !rules.persistent)) {
      add(format("max_ctas is %d: %s; the nearest that works is %d.", max_ctas,
                 max_ctas < 0        ? "it must not be negative"
                 : !rules.persistent ? "only persistent variants take a limit"
                                     : "it must be a whole cluster",
                 max_ctas < 0 ? 0 : least));
    }
  }

  // A matrix of elements of so many bits, `rows` x `cols`, from row to row ld of them. `rows`
  // becomes what is not too large.
  Operand matrix(const char* name, const char* ld_name, const char* rows_name,
                 const char* cols_name, const void* data, long long ld, int element_bits, int* rows,
                 int cols) {
    Operand operand =
        memory(name, format("the %s x %s elements of the matrix", rows_name, cols_name), data);
    const long long multiple = 128 / element_bits;
    const long long most = (1LL << 40) * 8 / element_bits - multiple;
    const long long nearest =
        (std::clamp<long long>(ld, cols, most) + multiple - 1) / multiple * multiple;
    if (ld < cols) {
      add(
          format("%s is %lld: it must be at least %s = %d and a multiple of %lld elements; the "
                 "nearest that works is %lld.",
                 ld_name, ld, cols_name, cols, multiple, nearest));
    } else if (ld > most) {
      add(format("%s is %lld: it must be at most %lld elements; the nearest that works is %lld.",
                 ld_name, ld, most, nearest));
    } else if (ld % multiple != 0) {
      add(format(
          "%s is %lld: it must be a multiple of %lld elements; the nearest larger that works "
          "is %lld.",
          ld_name, ld, multiple, nearest));
    }
    const long long most_elements = MAX_MATRIX_BYTES * 8 / element_bits;
    const long long most_rows = (most_elements - cols) / nearest + 1;
    if (*rows > most_rows) {
      add(
          format("%s is %d: with %s = %lld, %s would span more than 2^40 bytes; the nearest that "
                 "works is %lld.",
                 rows_name, *rows, ld_name, nearest, name, most_rows));
      *rows = static_cast<int>(most_rows);
    }
    operand.bytes =
        *rows == 0 ? 0 : static_cast<size_t>(((*rows - 1) * nearest + cols) * element_bits + 7) / 8;
    return operand;
  }

  Operand memory(const char* name, const std::string& what, const void* data) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    Operand operand{name, "", data, 0, address / ALIGNMENT_BYTES * ALIGNMENT_BYTES};
    if (data == nullptr) {
      add(format("%s is null: it must point to device memory for %s.", name, what.c_str()));
    } else if (operand.begin != address) {
      add(format("%s is 0x%llx: it must be a multiple of 16 bytes; the nearest below is 0x%llx.",
                 name, static_cast<unsigned long long>(address),
                 static_cast<unsigned long long>(operand.begin)));
    }
    return operand;
  }

  // What is written shares no byte with the others.
  void apart(Operand out, const std::vector<Operand>& others) {
    const auto hit = [&](const Operand& other) { return out.overlaps(other); };
    auto found = std::find_if(others.begin(), others.end(), hit);
    if (found == others.end()) return;
    const Operand first = *found;
    const Operand given = out;
    for (; found != others.end(); found = std::find_if(others.begin(), others.end(), hit)) {
      out.begin = (found->end() + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    }
    add(format(
        "%s is 0x%llx, so that it ends at 0x%llx and overlaps %s: what is written must share no "
        "byte with what is read; the next address that works is 0x%llx.",
        given.name, static_cast<unsigned long long>(given.begin),
        static_cast<unsigned long long>(given.end()), first.name,
        static_cast<unsigned long long>(out.begin)));
  }

  std::string text() const {
    std::string all;
    for (const std::string& sentence : sentences_) all += (all.empty() ? "" : "\n") + sentence;
    return all;
  }

 private:
  void add(const std::string& sentence) { sentences_.push_back(sentence); }
  std::vector<std::string> sentences_;
};

int blocks_of(int k) {
  return tile::ceil_div(k, tile::PACKED_K);
}

}  // namespace

std::string mixed_violations(const GridRules& rules, const MixedArgs& args) {
  Rules wrong;
  const int bits = wrong.bits(args.bits);
  int m = wrong.size("m", args.m), n = wrong.size("n", args.n), k = wrong.size("k", args.k);
  wrong.limit(rules, args.max_ctas);
  if (args.m == 0 || args.n == 0) return wrong.text();
  if (args.k == 0) {
    wrong.matrix("d", "ldd", "m", "n", args.d, args.ldd, 16, &m, n);
    return wrong.text();
  }
  int blocks = blocks_of(k);
  const Operand a = wrong.matrix("a", "lda", "m", "k", args.a, args.lda, 16, &m, k);
  const Operand scale = wrong.matrix("scale", "ld_scale", "ceil(k/128)", "n", args.scale,
                                     args.ld_scale, 16, &blocks, n);
  Operand packed = wrong.memory("packed", "ladder_packed_bytes(bits, n, k) bytes", args.packed);
  const Operand d = wrong.matrix("d", "ldd", "m", "n", args.d, args.ldd, 16, &m, n);
  packed.bytes = tile::packed_bytes(bits, n, k);
  wrong.apart(d, {a, packed, scale});
  return wrong.text();
}

std::string packed_size_violations(int bits, int n, int k) {
  Rules wrong;
  wrong.bits(bits);
  wrong.size("n", n);
  wrong.size("k", k);
  return wrong.text();
}

std::string quantize_violations(const WeightsArgs& args) {
  Rules wrong;
  const int bits = wrong.bits(args.bits);
  int n = wrong.size("n", args.n);
  const int k = wrong.size("k", args.k);
  if (args.n == 0 || args.k == 0) return wrong.text();
  int blocks = blocks_of(k);
  const Operand w = wrong.matrix("w", "ldw", "n", "k", args.w, args.ldw, 16, &n, k);
  const Operand q = wrong.matrix("q", "ldq", "n", "k", args.q, args.ldq, bits, &n, k);
  const Operand scale = wrong.matrix("scale", "ld_scale", "ceil(k/128)", "n", args.scale,
                                     args.ld_scale, 16, &blocks, n);
  wrong.apart(q, {w});
  wrong.apart(scale, {w, q});
  return wrong.text();
}

std::string pack_violations(const WeightsArgs& args) {
  Rules wrong;
  const int bits = wrong.bits(args.bits);
  int n = wrong.size("n", args.n);
  const int k = wrong.size("k", args.k);
  if (args.n == 0 || args.k == 0) return wrong.text();
  const Operand q = wrong.matrix("q", "ldq", "n", "k", args.q, args.ldq, bits, &n, k);
  Operand packed = wrong.memory("packed", "ladder_packed_bytes(bits, n, k) bytes", args.packed);
  packed.bytes = tile::packed_bytes(bits, n, k);
  wrong.apart(packed, {q});
  return wrong.text();
}

}  // namespace ladder
