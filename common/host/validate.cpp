#include "common/host/validate.h"

#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace ladder {
namespace {

constexpr int MAX_DIM = 1 << 30;     // tile coordinates are ints, one tile past the end too
constexpr int MAX_GRID_Y = 65535;    // CUDA's limit; a CTA for each tile: N runs on grid y
constexpr int MAX_STRIDE_LOG2 = 40;  // TMA strides are below 2^40 bytes
constexpr long long MAX_MATRIX_BYTES = 1LL << 40;
constexpr uintptr_t ALIGNMENT_BYTES = 16;  // of addresses and strides: what TMA and cp.async need

constexpr long long round_up(long long value, long long multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// One sentence a line.
class Report {
 public:
  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
    char sentence[512];
    va_list values;
    va_start(values, format);
    std::vsnprintf(sentence, sizeof sentence, format, values);
    va_end(values);
    if (!text_.empty()) text_ += '\n';
    text_ += sentence;
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

// A matrix of the call. Checks replace what breaks a rule by the suggestion they make, so that
// later checks, and their suggestions, hold for a caller who follows them all.
struct Operand {
  const char* name;       // "a"
  const char* ld_name;    // "lda"
  const char* rows_name;  // "m"
  const char* cols_name;  // "k"
  const void* given;
  int* rows;
  int* cols;
  long long ld;
  int element_bytes;
  uintptr_t begin = 0;  // address, corrected

  long long ld_multiple() const {  // elements
    return static_cast<long long>(ALIGNMENT_BYTES) / element_bytes;
  }
  int max_ld_log2() const { return MAX_STRIDE_LOG2 - std::countr_zero(unsigned(element_bytes)); }
  long long max_ld() const { return (1LL << max_ld_log2()) - ld_multiple(); }  // elements

  void transpose() {
    std::swap(rows_name, cols_name);
    std::swap(rows, cols);
  }

  // Where the last row ends, which is at its last column.
  uintptr_t end() const {
    return begin + static_cast<uintptr_t>(((*rows - 1) * ld + *cols) * element_bytes);
  }
  // An operand that is null or has no elements shares no bytes with anything.
  bool occupies_memory() const { return given != nullptr && *rows > 0 && *cols > 0; }
};

void check_size(Report& report, const char* name, int* value) {
  if (*value < 0) {
    report.add("%s is %d: a size must not be negative; the nearest that works is 0.", name, *value);
    *value = 0;
  } else if (*value > MAX_DIM) {
    report.add("%s is %d: a size must be at most 2^30; the nearest that works is %d.", name, *value,
               MAX_DIM);
    *value = MAX_DIM;
  }
}

void check_pointer(Report& report, Operand* operand) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(operand->given);
  operand->begin = address / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
  if (operand->given == nullptr) {
    report.add("%s is null: it must point to device memory for the %s x %s elements of the matrix.",
               operand->name, operand->rows_name, operand->cols_name);
  } else if (operand->begin != address) {
    report.add("%s is 0x%llx: it must be a multiple of 16 bytes; the nearest below is 0x%llx.",
               operand->name, static_cast<unsigned long long>(address),
               static_cast<unsigned long long>(operand->begin));
  }
}

void check_ld(Report& report, Operand* operand) {
  const long long cols = *operand->cols, multiple = operand->ld_multiple();
  const long long nearest = round_up(std::clamp(operand->ld, cols, operand->max_ld()), multiple);
  if (operand->ld < cols) {
    report.add(
        "%s is %lld: it must be at least %s = %lld and a multiple of %lld elements; the "
        "nearest that works is %lld.",
        operand->ld_name, operand->ld, operand->cols_name, cols, multiple, nearest);
  } else if (operand->ld > operand->max_ld()) {
    report.add(
        "%s is %lld: it must be at most 2^%d - %lld elements; the nearest that works is %lld.",
        operand->ld_name, operand->ld, operand->max_ld_log2(), multiple, nearest);
  } else if (operand->ld % multiple != 0) {
    report.add(
        "%s is %lld: it must be a multiple of %lld elements; the nearest larger that works is "
        "%lld.",
        operand->ld_name, operand->ld, multiple, nearest);
  }
  operand->ld = nearest;
}

void check_bytes(Report& report, const Operand& operand) {
  const long long max_elems = MAX_MATRIX_BYTES / operand.element_bytes;
  const long long max_rows = (max_elems - *operand.cols) / operand.ld + 1;
  if (*operand.rows <= max_rows) return;
  report.add(
      "%s is %d: with %s = %lld, matrix %s would span more than 2^40 bytes; the nearest "
      "that works is %lld.",
      operand.rows_name, *operand.rows, operand.ld_name, operand.ld, operand.name, max_rows);
  *operand.rows = static_cast<int>(max_rows);
}

// `beside`: what D must not overlap either.
void check_overlap(Report& report, const Operand& d, const Operand& a, const Operand& b,
                   const std::vector<SideMatrix>& beside) {
  struct Region {
    const char* name;
    uintptr_t begin, end;
  };
  std::vector<Region> hit;
  // Where the first that `at` overlaps ends; 0 if it overlaps none.
  const auto behind = [&](uintptr_t begin, uintptr_t end, std::vector<Region>* found) {
    std::vector<Region> all;
    if (a.occupies_memory()) all.push_back({"A", a.begin, a.end()});
    if (b.occupies_memory()) all.push_back({"B", b.begin, b.end()});
    for (const SideMatrix& one : beside) {
      if (one.data != nullptr) all.push_back({one.name, one.begin(), one.end()});
    }
    uintptr_t first = 0;
    for (const Region& one : all) {
      if (begin >= one.end || one.begin >= end) continue;
      if (first == 0) first = one.end;
      if (found != nullptr) found->push_back(one);
    }
    return first;
  };
  if (!d.occupies_memory() || behind(d.begin, d.end(), &hit) == 0) return;
  Operand moved = d;
  while (const uintptr_t end = behind(moved.begin, moved.end(), nullptr)) {
    moved.begin = (end + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
  }
  std::string names;
  for (const Region& one : hit) names += (names.empty() ? "" : " and ") + std::string(one.name);
  report.add(
      "d is 0x%llx, so that D ends at 0x%llx and overlaps %s: from its first byte to its last, "
      "between its rows too, D must share no byte with anything else of the call; the next "
      "address that works is 0x%llx.",
      static_cast<unsigned long long>(d.begin), static_cast<unsigned long long>(d.end()),
      names.c_str(), static_cast<unsigned long long>(moved.begin));
}

void check_max_ctas(Report& report, const GridRules& rules, int max_ctas) {
  if (max_ctas < 0) {
    report.add(
        "max_ctas is %d: it must not be negative; the nearest that works is 0, as many as "
        "fit the GPU.",
        max_ctas);
  } else if (max_ctas > 0 && !rules.persistent) {
    report.add(
        "max_ctas is %d: only persistent variants take a limit, and %s is not one; the "
        "nearest that works is 0.",
        max_ctas, rules.name);
  } else if (max_ctas > 0 && max_ctas < rules.cluster) {
    report.add("max_ctas is %d: %s launches clusters of %d CTAs; the nearest that works is %d.",
               max_ctas, rules.name, rules.cluster, rules.cluster);
  }
}

}  // namespace

int check_choice(std::vector<std::string>* sentences, const char* name, int value,
                 const std::vector<int>& values, const char* choices) {
  const auto distance = [value](int one) { return std::abs(1LL * one - value); };
  const int nearest = *std::min_element(values.begin(), values.end(),
                                        [&](int x, int y) { return distance(x) < distance(y); });
  if (nearest == value) return value;
  sentences->push_back(std::string(name) + " is " + std::to_string(value) + ": it must be " +
                       choices + "; the nearest that works is " + std::to_string(nearest) + ".");
  return nearest;
}

void check_side_matrix(std::vector<std::string>* sentences, SideMatrix* matrix) {
  Report report;
  const auto alignment = static_cast<uintptr_t>(matrix->alignment_bytes);
  const uintptr_t address = matrix->begin(), aligned = address / alignment * alignment;
  if (matrix->data == nullptr) {
    report.add("%s is null: it must point to device memory for its %s elements.", matrix->name,
               matrix->extent);
  } else if (aligned != address) {
    report.add("%s is 0x%llx: it must be a multiple of %d bytes; the nearest below is 0x%llx.",
               matrix->name, static_cast<unsigned long long>(address), matrix->alignment_bytes,
               static_cast<unsigned long long>(aligned));
  }
  const int multiple = matrix->ld_multiple;
  // Of rows that TMA can step over, and that do not span more than a matrix may.
  const long long max_span = MAX_MATRIX_BYTES / matrix->element_bytes - matrix->cols;
  const long long max_stride = (1LL << MAX_STRIDE_LOG2) / matrix->element_bytes - multiple;
  const long long max_ld =
      std::min(max_stride, max_span / std::max(1LL, matrix->rows - 1) / multiple * multiple);
  const long long nearest = round_up(std::clamp(matrix->ld, matrix->cols, max_ld), multiple);
  const std::string also = multiple == 1 ? "" : " and a multiple of " + std::to_string(multiple);
  if (matrix->ld > max_ld) {
    report.add("%s is %lld: it must be at most %lld; the nearest that works is %lld.",
               matrix->ld_name, matrix->ld, max_ld, nearest);
  } else if (nearest != matrix->ld) {
    report.add("%s is %lld: it must be at least %s = %lld%s; the nearest that works is %lld.",
               matrix->ld_name, matrix->ld, matrix->columns, matrix->cols, also.c_str(), nearest);
  }
  matrix->data = reinterpret_cast<const void*>(aligned);
  matrix->ld = nearest;
  if (!report.text().empty()) sentences->push_back(report.text());
}

void check_side_overlap(std::vector<std::string>* sentences, SideMatrix* written,
                        const std::vector<SideMatrix>& others) {
  const auto hit = [&]() -> const SideMatrix* {
    for (const SideMatrix& other : others) {
      const bool both = written->data != nullptr && other.data != nullptr;
      if (both && written->begin() < other.end() && other.begin() < written->end()) return &other;
    }
    return nullptr;
  };
  const SideMatrix* const first = hit();
  if (first == nullptr) return;
  const uintptr_t was = written->begin(), ended = written->end();
  while (const SideMatrix* other = hit()) {
    const long long behind = round_up(static_cast<long long>(other->end()), 16);
    written->data = reinterpret_cast<const void*>(behind);
  }
  Report report;
  report.add(
      "%s is 0x%llx, so that it ends at 0x%llx and overlaps %s: they must share no byte; the "
      "next address that works is 0x%llx.",
      written->name, static_cast<unsigned long long>(was), static_cast<unsigned long long>(ended),
      first->name, static_cast<unsigned long long>(written->begin()));
  sentences->push_back(report.text());
}

std::string matmul_violations(const GridRules& rules, const Call& call, const MatrixArg& of_a,
                              const MatrixArg& of_b, const MatrixArg& of_d,
                              const std::vector<std::string>& before,
                              std::vector<SideMatrix> beside) {
  const auto workspace_bytes = static_cast<long long>(call.workspace_bytes);
  if (workspace_bytes > 0) {
    beside.push_back({"the workspace", "", "", "", call.workspace, 1, workspace_bytes,
                      workspace_bytes, 1, 1, 1});
  }
  Report report;
  for (const std::string& sentence : before) report.add("%s", sentence.c_str());
  int m = call.m, n = call.n, k = call.k;
  check_size(report, "m", &m);
  check_size(report, "n", &n);
  check_size(report, "k", &k);
  const long long max_n = static_cast<long long>(MAX_GRID_Y) * rules.bn;
  if (n > max_n && rules.grid_y) {
    report.add(
        "n is %d: %s has tiles of %d columns and at most 65535 of them; the nearest that "
        "works is %lld.",
        n, rules.name, rules.bn, max_n);
    n = static_cast<int>(max_n);
  }
  check_max_ctas(report, rules, call.max_ctas);

  Operand a{"a", "lda", "m", "k", of_a.data, &m, &k, of_a.ld, of_a.element_bytes};
  Operand b{"b", "ldb", "n", "k", of_b.data, &n, &k, of_b.ld, of_b.element_bytes};
  if (of_a.mn_major) a.transpose();
  if (of_b.mn_major) b.transpose();
  Operand d{"d", "ldd", "m", "n", of_d.data, &m, &n, of_d.ld, of_d.element_bytes};
  const bool touches_d = call.m != 0 && call.n != 0;
  const bool touches_ab = touches_d && call.k != 0;
  const auto check = [&report](Operand* operand) {
    check_pointer(report, operand);
    check_ld(report, operand);
    if (*operand->cols > 0) check_bytes(report, *operand);
  };
  if (touches_ab) {
    check(&a);
    check(&b);
  }
  if (touches_d) check(&d);

  if (touches_d) check_overlap(report, d, a, b, beside);
  return report.text();
}

}  // namespace ladder
