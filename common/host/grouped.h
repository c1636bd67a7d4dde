// Many products in one call: groups of rows, each with a matrix B of its own.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "common/host/block_scaled.h"
#include "common/host/configurations.h"
#include "common/host/element.h"
#include "common/host/gemm.h"
#include "common/host/ladder.h"
#include "common/host/registry.h"
#include "common/tile/grouped.h"

namespace ladder {

//   D[rows of g] = A[rows of g] · B[g]^T     for every group g, fp32 accumulation, bf16 out
//
// Of ladder_gemm_grouped() (common/host/ladder.h). Which rows are a group's only the device knows.
// e4m3: with scales, as BlockScaledArgs. `type` and `masked` may be anything: the kind of problem
// refuses what is none.
struct GroupedArgs : Call {
  int type = LADDER_BF16;  // of A and B; or LADDER_E4M3
  int masked = 0;          // 0: rows one group after another, m of them; 1: m for each group
  int groups = 0;
  const void* a = nullptr;         // [all_rows()][lda], device, as all are
  long long lda = 0;               // >= k
  const float* scale_a = nullptr;  // [ceil(k / 128)][ld_scale_a]; e4m3 alone
  long long ld_scale_a = 0;        // >= all_rows(), a multiple of 4
  const void* b = nullptr;         // [groups][n][ldb]
  long long ldb = 0;               // >= k
  const float* scale_b = nullptr;  // [groups][ceil(n / 128)][ld_scale_b]; e4m3 alone
  long long ld_scale_b = 0;        // >= ceil(k / 128)
  bf16* d = nullptr;               // [all_rows()][ldd]
  long long ldd = 0;               // >= n
  const int* sizes = nullptr;      // groups + 1 offsets, or masked the groups' rows
  int* error_flag = nullptr;       // 0, or 1 + the first bad group; null: is not told

  constexpr long long all_rows() const { return masked != 0 ? 1LL * groups * m : m; }
  constexpr tile::Grouping grouping() const { return {sizes, groups, m, masked != 0}; }

  static const ProblemKind& kind();
};

// Every rule that the call breaks, as ProblemKind::violations().
std::string grouped_violations(const GridRules& rules, const GroupedArgs& args);

// Which rows each group has, none if it is bad or behind a bad one, and what the error flag is to
// be: what the device does, of sizes that the host can read.
struct GoodRows {
  std::vector<tile::GroupRows> rows;
  int error_flag = 0;
};
GoodRows good_rows(const tile::Grouping& grouping);

// Of the problems of programs: numbers of groups, and how shape.m rows are dealt out: the same to
// all; by chance from 1 to 7 shares each; to eight groups alone; to one.
inline constexpr int GROUPS_OF_PROBLEMS[] = {8, 1, 2, 3, 4, 16, 32, 64, 128, 256, 512};
inline constexpr const char* ROWS_OF_PROBLEMS[] = {"equal", "unequal", "sparse", "one"};
std::vector<int> sizes_of_problem(const Shape& shape);  // GroupedArgs::sizes

// One of a call's groups as a call of its own: of bf16, or of e4m3 with scales.
struct GroupCall {
  GemmArgs product;
  BlockScaledArgs scaled;
  long long begin = 0;  // its first row of A and D
};
std::vector<GroupCall> calls_of_groups(const GroupedArgs& args,
                                       const std::vector<tile::GroupRows>& rows);

// The variants of the tables' rows for bf16, then for e4m3: make(std::type_identity<In>, row, name),
// named such as "e4m3_128x128".
template <class Make>
std::vector<Variant> grouped_variants(const Make& make) {
  constexpr int ROWS = tile::grouped_configuration_count(false);
  return variant_of_each<ROWS + tile::grouped_configuration_count(true)>([&](auto i) {
    constexpr bool SCALED = i >= ROWS;
    constexpr int ROW = SCALED ? i - ROWS : i;
    using In = std::conditional_t<SCALED, e4m3, bf16>;
    static const std::string name =
        std::string(Element<In>::NAME) + "_" + tile::grouped_configuration(SCALED, ROW).name;
    return make(std::type_identity<In>(), std::integral_constant<int, ROW>(), name.c_str());
  });
}

}  // namespace ladder
