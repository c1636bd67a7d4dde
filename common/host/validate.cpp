#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "common/host/run.h"

namespace ladder {
namespace {

constexpr int MAX_DIM = 1 << 30;      // tile coordinates are ints, one tile past the end too
constexpr int MAX_GRID_Y = 65535;     // CUDA's limit; N runs on grid y, M on grid x
constexpr long long LD_MULTIPLE = 8;  // elements: 16 bytes, what TMA and cp.async need
constexpr long long MAX_LD =
    (1LL << 39) - LD_MULTIPLE;  // elements: TMA strides are below 2^40 bytes
constexpr long long MAX_MATRIX_BYTES = 1LL << 40;
constexpr uintptr_t ALIGNMENT_BYTES = 16;

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
  uintptr_t begin = 0;  // address, corrected

  // Where the last row ends, which is at its last column.
  uintptr_t end() const {
    return begin + static_cast<uintptr_t>(((*rows - 1) * ld + *cols) * sizeof(bf16));
  }
  // An operand that is null or has no elements shares no bytes with anything.
  bool overlaps(const Operand& other) const {
    return occupies_memory() && other.occupies_memory() && begin < other.end() &&
           other.begin < end();
  }
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
  const long long cols = *operand->cols;
  const long long nearest = round_up(std::clamp(operand->ld, cols, MAX_LD), LD_MULTIPLE);
  if (operand->ld < cols) {
    report.add(
        "%s is %lld: it must be at least %s = %lld and a multiple of 8 elements; the "
        "nearest that works is %lld.",
        operand->ld_name, operand->ld, operand->cols_name, cols, nearest);
  } else if (operand->ld > MAX_LD) {
    report.add("%s is %lld: it must be at most 2^39 - 8 elements; the nearest that works is %lld.",
               operand->ld_name, operand->ld, nearest);
  } else if (operand->ld % LD_MULTIPLE != 0) {
    report.add(
        "%s is %lld: it must be a multiple of 8 elements; the nearest larger that works is "
        "%lld.",
        operand->ld_name, operand->ld, nearest);
  }
  operand->ld = nearest;
}

void check_bytes(Report& report, const Operand& operand) {
  const long long max_elems = MAX_MATRIX_BYTES / static_cast<long long>(sizeof(bf16));
  const long long max_rows = (max_elems - *operand.cols) / operand.ld + 1;
  if (*operand.rows <= max_rows) return;
  report.add(
      "%s is %d: with %s = %lld, matrix %s would span more than 2^40 bytes; the nearest "
      "that works is %lld.",
      operand.rows_name, *operand.rows, operand.ld_name, operand.ld, operand.name, max_rows);
  *operand.rows = static_cast<int>(max_rows);
}

void check_overlap(Report& report, const Operand& d, const Operand& a, const Operand& b) {
  const bool hits_a = d.overlaps(a), hits_b = d.overlaps(b);
  if (!hits_a && !hits_b) return;
  Operand moved = d;
  while (moved.overlaps(a) || moved.overlaps(b)) {
    const uintptr_t behind = moved.overlaps(a) ? a.end() : b.end();
    moved.begin = (behind + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
  }
  report.add(
      "d is 0x%llx, so that D ends at 0x%llx and overlaps %s: D must share no byte with A or "
      "B; the next address that works is 0x%llx.",
      static_cast<unsigned long long>(d.begin), static_cast<unsigned long long>(d.end()),
      hits_a && hits_b ? "A and B" : (hits_a ? "A" : "B"),
      static_cast<unsigned long long>(moved.begin));
}

void check_max_ctas(Report& report, const Variant& variant, int max_ctas) {
  const int cluster_ctas = variant.cluster_m * variant.cluster_n;
  if (max_ctas < 0) {
    report.add(
        "max_ctas is %d: it must not be negative; the nearest that works is 0, as many as "
        "fit the GPU.",
        max_ctas);
  } else if (max_ctas > 0 && !variant.persistent) {
    report.add(
        "max_ctas is %d: only persistent variants take a limit, and %s is not one; the "
        "nearest that works is 0.",
        max_ctas, variant.name);
  } else if (max_ctas > 0 && max_ctas < cluster_ctas) {
    report.add("max_ctas is %d: %s launches clusters of %d CTAs; the nearest that works is %d.",
               max_ctas, variant.name, cluster_ctas, cluster_ctas);
  }
}

}  // namespace

std::string argument_violations(const Variant& variant, const GemmArgs& args) {
  Report report;
  int m = args.m, n = args.n, k = args.k;
  check_size(report, "m", &m);
  check_size(report, "n", &n);
  check_size(report, "k", &k);
  const long long max_n = static_cast<long long>(MAX_GRID_Y) * variant.bn;
  if (n > max_n) {
    report.add(
        "n is %d: %s has tiles of %d columns and at most 65535 of them; the nearest that "
        "works is %lld.",
        n, variant.name, variant.bn, max_n);
    n = static_cast<int>(max_n);
  }
  check_max_ctas(report, variant, args.max_ctas);

  Operand a{"a", "lda", "m", "k", args.a, &m, &k, args.lda};
  Operand b{"b", "ldb", "n", "k", args.b, &n, &k, args.ldb};
  Operand d{"d", "ldd", "m", "n", args.d, &m, &n, args.ldd};
  const bool touches_d = args.m != 0 && args.n != 0;
  const bool touches_ab = touches_d && args.k != 0;
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

  if (touches_ab) check_overlap(report, d, a, b);
  return report.text();
}

std::string device_violations(const Variant& variant, const DeviceInfo& device) {
  Report report;
  if (device.cc_major != 9 || device.cc_minor != 0) {
    report.add(
        "The device %s has compute capability %d.%d: the ladder needs 9.0, such as an H100, "
        "H200 or GH200.",
        device.name.c_str(), device.cc_major, device.cc_minor);
  }
  if (variant.smem_bytes > device.smem_optin_bytes) {
    report.add(
        "%s needs %d bytes of shared memory per CTA, but the device %s offers %d; the "
        "nearest that works is a variant with a smaller tile or fewer slots.",
        variant.name, variant.smem_bytes, device.name.c_str(), device.smem_optin_bytes);
  }
  return report.text();
}

std::string violations(const Variant& asked, const GemmArgs& args, const DeviceInfo& device) {
  const std::string own = argument_violations(asked, args);
  if (asked.choose != nullptr && !own.empty()) return own;
  const Variant& variant = chosen(asked, args);
  const std::string arguments = argument_violations(variant, args);
  const std::string hardware = device_violations(variant, device);
  return arguments + (arguments.empty() || hardware.empty() ? "" : "\n") + hardware;
}

}  // namespace ladder
