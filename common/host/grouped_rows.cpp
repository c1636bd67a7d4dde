// Which rows groups have, on the host.
#include <algorithm>
#include <numeric>

#include "common/host/data.h"
#include "common/host/grouped.h"

namespace ladder {

GoodRows good_rows(const tile::Grouping& grouping) {
  GoodRows good;
  for (int g = 0; g < grouping.groups; ++g) {
    const int next = grouping.masked ? 0 : grouping.sizes[g + 1];
    const tile::GroupRows rows = tile::rows_of_group(grouping, g, grouping.sizes[g], next);
    if (rows.count < 0 && good.error_flag == 0) good.error_flag = g + 1;
    const bool skipped = rows.count < 0 || (!grouping.masked && good.error_flag != 0);
    good.rows.push_back(skipped ? tile::GroupRows{0, 0} : rows);
  }
  return good;
}

std::vector<int> sizes_of_problem(const Shape& shape) {
  const int groups = GROUPS_OF_PROBLEMS[shape.parameters[1]];
  const std::string how = ROWS_OF_PROBLEMS[shape.parameters[2]];
  const bool masked = shape.parameters[3] != 0;
  std::vector<long long> shares;
  for (int g = 0; g < groups; ++g) {
    shares.push_back(1);
    if (how == "unequal") shares[g] += static_cast<long long>(hash64(g) >> 40) % 7;
    if (how == "sparse") shares[g] = g % std::max(1, groups / 8) == groups / 16 ? 1 : 0;
    if (how == "one") shares[g] = g == groups / 2 ? 1 : 0;
  }
  const long long all = std::accumulate(shares.begin(), shares.end(), 0LL);
  // Of many rows, whole 16: cuBLASLt's fp8 takes no others.
  const int multiple = shape.m >= 64 * groups ? 16 : 1;
  std::vector<int> offsets = {0}, rows;
  long long share = 0;
  for (const long long each : shares) {
    share += each;
    const long long offset = shape.m * share / all;
    offsets.push_back(static_cast<int>(share < all ? offset / multiple * multiple : offset));
    rows.push_back(offsets.back() - offsets[offsets.size() - 2]);
  }
  return masked ? rows : offsets;
}

std::vector<GroupCall> calls_of_groups(const GroupedArgs& args,
                                       const std::vector<tile::GroupRows>& rows) {
  const bool scaled = args.type == LADDER_E4M3;
  const long long bytes = scaled ? 1 : 2;
  std::vector<GroupCall> all;
  for (int g = 0; g < args.groups; ++g) {
    const auto [begin, count] = rows[static_cast<size_t>(g)];
    if (count == 0) continue;
    const char* const a = static_cast<const char*>(args.a) + begin * args.lda * bytes;
    const char* const b = static_cast<const char*>(args.b) + 1LL * g * args.n * args.ldb * bytes;
    bf16* const d = args.d + begin * args.ldd;
    Call sizes = args;
    sizes.m = count;
    GroupCall one;
    one.begin = begin;
    if (scaled) {
      BlockScaledArgs& call = one.scaled;
      static_cast<Call&>(call) = sizes;
      call.a = a;
      call.b = b;
      call.d = d;
      call.lda = args.lda;
      call.ldb = args.ldb;
      call.ldd = args.ldd;
      call.scale_a = args.scale_a + begin;
      call.ld_scale_a = args.ld_scale_a;
      call.scale_b = args.scale_b + g * scale_blocks(args.n) * args.ld_scale_b;
      call.ld_scale_b = args.ld_scale_b;
    } else {
      GemmArgs& call = one.product;
      static_cast<Call&>(call) = sizes;
      call.a = reinterpret_cast<const bf16*>(a);
      call.b = reinterpret_cast<const bf16*>(b);
      call.d = d;
      call.lda = args.lda;
      call.ldb = args.ldb;
      call.ldd = args.ldd;
    }
    all.push_back(one);
  }
  return all;
}

}  // namespace ladder
