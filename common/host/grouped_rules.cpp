// The rules of ladder_gemm_grouped().
#include <algorithm>

#include "common/host/grouped.h"
#include "common/host/text.h"
#include "common/host/validate.h"

namespace ladder {
namespace {

constexpr long long MAX_ROWS = 1 << 30;     // coordinates are ints
constexpr long long MAX_BYTES = 1LL << 40;  // of a matrix, and of TMA's strides
using Sentences = std::vector<std::string>;

// A number that must be from 0 to `most`; what is suggested. `why` begins with what it is.
long long check_count(Sentences* wrong, const char* name, long long value, long long most,
                      const std::string& why) {
  const long long nearest = std::clamp(value, 0LL, most);
  if (nearest != value) {
    wrong->push_back(format("%s is %lld: %s; the nearest that works is %lld.", name, value,
                            why.c_str(), nearest));
  }
  return nearest;
}

// A pointer to ints; what is suggested.
const int* check_ints(Sentences* wrong, const char* name, const char* extent, const int* data,
                      bool may_be_null) {
  const auto address = reinterpret_cast<unsigned long long>(data);
  const unsigned long long below = address / sizeof(int) * sizeof(int);
  if (data == nullptr && !may_be_null) {
    wrong->push_back(
        format("%s is null: it must point to device memory for its %s ints.", name, extent));
  } else if (address != below) {
    wrong->push_back(
        format("%s is 0x%llx: it must be a multiple of 4 bytes; the nearest below is "
               "0x%llx.",
               name, address, below));
  }
  return reinterpret_cast<const int*>(below);
}

long long nearest_ld(long long ld, long long least, int multiple, int bytes) {
  const long long most = MAX_BYTES / bytes - multiple;
  return (std::clamp(ld, least, most) + multiple - 1) / multiple * multiple;
}

}  // namespace

// Sizes are first made such that all of the call's matrices can be judged as those of one product,
// A and D of all rows.
std::string grouped_violations(const GridRules& rules, const GroupedArgs& args) {
  Sentences wrong;
  const int type =
      check_choice(&wrong, "type", args.type, {LADDER_BF16, LADDER_E4M3}, "0 (bf16) or 3 (e4m3)");
  const bool masked =
      check_choice(&wrong, "masked", args.masked, {0, 1}, "0 (contiguous) or 1 (masked)") != 0;
  const int bytes = type == LADDER_E4M3 ? 1 : 2;
  const bool scaled = type == LADDER_E4M3;
  const int multiple = 16 / bytes;
  long long groups = check_count(&wrong, "groups", args.groups, tile::MAX_GROUPS,
                                 format("a call has from 0 to %d", tile::MAX_GROUPS));
  const bool touches_d = args.m != 0 && args.n != 0 && groups != 0;
  const bool touches_ab = touches_d && args.k != 0;

  // B of all groups, and its scales, are at most as large as one matrix may be; sizes here are
  // those that the sentences about one matrix suggest.
  const long long k = std::clamp<long long>(args.k, 1, MAX_ROWS);
  const long long most_n = rules.persistent ? MAX_ROWS : std::min(MAX_ROWS, 65535LL * rules.bn);
  long long n = std::clamp<long long>(args.n, 1, most_n);
  if (touches_ab) {
    const long long ldb = nearest_ld(args.ldb, k, multiple, bytes);
    n = std::min(n, (MAX_BYTES / bytes - k) / ldb + 1);
    long long most = std::max(1LL, ((MAX_BYTES / bytes - k) / ldb + 1) / n);
    if (scaled)
      most = std::max(1LL, std::min(most, MAX_BYTES / 4 / scale_blocks(k) / scale_blocks(n)));
    groups =
        check_count(&wrong, "groups", groups, most,
                    "with these n, k and ldb, B of all groups would span more than 2^40 bytes");
  }
  Call all = args;
  if (masked && args.m > 0 && groups > 0) {  // A and D of all groups too
    long long most = MAX_ROWS;
    if (touches_d) {
      const long long ldd = nearest_ld(args.ldd, n, 8, 2);
      most = std::min(most, (MAX_BYTES / 2 - n) / ldd + 1);
    }
    if (touches_ab) {
      const long long lda = nearest_ld(args.lda, k, multiple, bytes);
      most = std::min(most, (MAX_BYTES / bytes - k) / lda + 1);
    }
    const char* const why =
        "the rows of all groups must be at most 2^30, and span at most 2^40 bytes";
    groups = check_count(&wrong, "groups", groups, most, why);
    all.m = static_cast<int>(check_count(&wrong, "m", args.m, most / groups, why) * groups);
  }

  const long long count = groups + (masked ? 0 : 1);
  SideMatrix sizes = {"offsets_or_rows", "", "", "", nullptr, 1, count, count, sizeof(int), 4, 1};
  if (groups > 0 && (touches_d || args.error_flag != nullptr)) {
    sizes.data =
        check_ints(&wrong, sizes.name, masked ? "groups" : "groups + 1", args.sizes, false);
  }
  SideMatrix flag = {"error_flag", "", "", "", nullptr, 1, 1, 1, sizeof(int), 4, 1};
  flag.data = check_ints(&wrong, flag.name, "1", args.error_flag, true);

  if (groups == 0) all.m = std::min(all.m, 0);  // no matrix is touched
  std::vector<SideMatrix> beside, read = {sizes};
  if (touches_ab) {
    const long long lda = nearest_ld(args.lda, k, multiple, bytes);
    const long long rows =  // as the sentence about A's bytes will have them
        std::clamp<long long>(all.m, 1, std::min(MAX_ROWS, (MAX_BYTES / bytes - k) / lda + 1));
    if (scaled) {
      const long long blocks = scale_blocks(k);
      beside = {
          {"scale_a", "ld_scale_a", "ceil(k/128) x m", masked ? "groups * m" : "m", args.scale_a,
           blocks, rows, args.ld_scale_a, sizeof(float), 16, 4},
          {"scale_b", "ld_scale_b", "groups x ceil(n/128) x ceil(k/128)", "ceil(k/128)",
           args.scale_b, groups * scale_blocks(n), blocks, args.ld_scale_b, sizeof(float), 4, 1}};
      for (SideMatrix& each : beside) check_side_matrix(&wrong, &each);
    }
    // Addresses as they will be; the first of B's groups is an operand.
    const auto aligned = [](const void* data) {
      return reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(data) / 16 * 16);
    };
    const long long ldb = nearest_ld(args.ldb, k, multiple, bytes);
    if (groups > 1 && args.b != nullptr) {
      beside.push_back({"B's other groups", "ldb", "", "k", aligned(args.b) + n * ldb * bytes,
                        (groups - 1) * n, k, ldb, bytes, 16, multiple});
    }
    read.insert(read.end(), beside.begin(), beside.end());
    read.push_back({"A", "lda", "", "k", aligned(args.a), rows, k, lda, bytes, 16, multiple});
    read.push_back({"B", "ldb", "", "k", aligned(args.b), n, k, ldb, bytes, 16, multiple});
  }
  check_side_overlap(&wrong, &flag, read);  // it is written while others read them
  if (touches_d) {
    beside.push_back(sizes);
    beside.push_back(flag);
  }
  return matmul_violations(rules, all, {args.a, args.lda, bytes}, {args.b, args.ldb, bytes},
                           {args.d, args.ldd, sizeof(bf16)}, wrong, beside);
}

}  // namespace ladder
