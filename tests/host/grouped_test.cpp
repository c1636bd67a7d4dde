// Products of groups of rows: that every tile of every group is visited once, whatever the groups;
// which groups are bad; what a call is refused for, and that doing what the sentences say is
// enough.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "common/host/grouped.h"
#include "tests/support/sentences.h"

using ladder::bf16;
using ladder::GroupedArgs;
using ladder::Shape;
using ladder_test::check;
using ladder_test::draw_sizes;
using ladder_test::lines;
using ladder_test::refused_and_mended;

namespace {

// --- tiles ---------------------------------------------------------------------------------------

struct Tile {
  static constexpr int BM = 128, BN = 64;
};

// As a kernel makes it of these rows.
tile::GroupTable table_of(const std::vector<tile::GroupRows>& rows, int n) {
  tile::GroupTable table{};
  int entry = 0;
  for (size_t g = 0; g < rows.size(); ++g) {
    if (rows[g].count == 0) continue;
    table.group[entry++] = {rows[g].begin, rows[g].count, table.end.first_tile,
                            static_cast<int>(g)};
    table.end.first_tile += tile::ceil_div(rows[g].count, Tile::BM) * tile::ceil_div(n, Tile::BN);
  }
  table.group[entry] = table.end;
  return table;
}

// Rows of each of a group's tiles but the last, which may have fewer.
int height_of(int rows) {
  return tile::ceil_div(rows, tile::ceil_div(rows, Tile::BM));
}

// --- calls ---------------------------------------------------------------------------------------

template <class T>
T* at(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

// Five groups of 100 x 200 x 300, matrices far apart.
GroupedArgs good_call(int type, int masked) {
  GroupedArgs args;
  args.type = type;
  args.masked = masked;
  args.groups = 5;
  args.m = 100;
  args.n = 200;
  args.k = 300;
  args.a = at<void>(0x10000000);
  args.lda = 304;
  args.scale_a = at<float>(0x18000000);
  args.ld_scale_a = 500;
  args.b = at<void>(0x20000000);
  args.ldb = 304;
  args.scale_b = at<float>(0x28000000);
  args.ld_scale_b = 3;
  args.d = at<bf16>(0x30000000);
  args.ldd = 200;
  args.sizes = at<int>(0x38000004);
  args.error_flag = at<int>(0x39000004);
  return args;
}

// Does what every sentence says, as a caller would: sets what its first word names to its last
// number.
void follow(const std::string& text, GroupedArgs* args) {
  const std::map<std::string, int*> ints = {{"type", &args->type},     {"masked", &args->masked},
                                            {"groups", &args->groups}, {"m", &args->m},
                                            {"n", &args->n},           {"k", &args->k}};
  const std::map<std::string, long long*> lds = {{"lda", &args->lda},
                                                 {"ldb", &args->ldb},
                                                 {"ldd", &args->ldd},
                                                 {"ld_scale_a", &args->ld_scale_a},
                                                 {"ld_scale_b", &args->ld_scale_b}};
  for (const std::string& line : lines(text)) {
    CAPTURE(line);
    const std::string name = line.substr(0, line.find(' '));
    const bool null = line.find("is null") != std::string::npos;
    const long long value = std::strtoll(line.c_str() + line.rfind(' ') + 1, nullptr, 0);
    const auto address = [&](uintptr_t free) {
      return null ? free : static_cast<uintptr_t>(value);
    };
    if (ints.contains(name)) {
      *ints.at(name) = static_cast<int>(value);
    } else if (lds.contains(name)) {
      *lds.at(name) = value;
    } else if (name == "a") {
      args->a = at<void>(address(0x40000000000));
    } else if (name == "b") {
      args->b = at<void>(address(0x80000000000));
    } else if (name == "scale_a") {
      args->scale_a = at<float>(address(0x800000000000));
    } else if (name == "scale_b") {
      args->scale_b = at<float>(address(0x1000000000000));
    } else if (name == "d") {
      args->d = at<bf16>(address(0x400000000000));
    } else if (name == "offsets_or_rows") {
      args->sizes = at<int>(address(0x2000000000000));
    } else {
      REQUIRE(name == "error_flag");
      args->error_flag = at<int>(address(0));
    }
  }
}

void refused(GroupedArgs args, const std::vector<std::string>& sentences) {
  const std::string text = check(args);
  CAPTURE(text);
  CHECK(lines(text) == sentences);
  follow(text, &args);
  CHECK(check(args) == "");
}

}  // namespace

TEST_CASE("groups: a persistent grid visits every tile of every group exactly once") {
  const std::vector<std::vector<int>> all = {{},
                                             {0},
                                             {0, 0, 0},
                                             {1},
                                             {1, 1, 1, 1},
                                             {128, 129, 127},
                                             {0, 5, 0, 0},
                                             {1000},
                                             {0, 300, 1},
                                             std::vector<int>(256, 0),
                                             {1, 2, 3, 500, 0, 0, 64, 64, 65}};
  int visits = 0;
  for (std::vector<int> counts : all) {
    if (counts.size() == 256) counts[3] = counts[200] = counts[255] = 77;
    for (const int n : {1, 64, 65, 500}) {
      std::vector<tile::GroupRows> rows;
      int begin = 3;
      std::map<std::tuple<int, int, int>, int>
          times;  // group, row, column of a tile's first element
      for (size_t g = 0; g < counts.size(); ++g) {
        rows.push_back({begin, counts[g]});
        for (int m0 = 0; m0 < counts[g]; m0 += height_of(counts[g])) {
          for (int n0 = 0; n0 < n; n0 += Tile::BN) {
            times[{static_cast<int>(g), begin + m0, n0}] = 0;
          }
        }
        begin += counts[g];
      }
      const tile::GroupTable table = table_of(rows, n);
      CHECK(table.end.first_tile == static_cast<int>(times.size()));
      for (const int raster : {1, 3, 8}) {
        for (const int grid : {1, 7, 132}) {
          for (auto& [tile, count] : times) count = 0;
          for (int cta = 0; cta < grid; ++cta) {
            for (tile::GroupTiles<Tile> t({&table}, n, raster, cta, grid); t.has(); t.next()) {
              const tile::GroupedTile tile = t.tile();
              const std::tuple<int, int, int> key{tile.group, tile.m0, tile.n0};
              REQUIRE(times.contains(key));
              ++times[key];
              const auto& of = rows[static_cast<size_t>(tile.group)];
              CHECK(tile.end == std::min(of.begin + of.count, tile.m0 + height_of(of.count)));
              CHECK(tile.end - tile.m0 <= Tile::BM);
              ++visits;
            }
          }
          CHECK(std::all_of(times.begin(), times.end(),
                            [](const auto& each) { return each.second == 1; }));
        }
      }
    }
  }
  CHECK(visits > 1000);
}

TEST_CASE("groups: how many blocks of a tile have rows, from any block on") {
  const auto blocks = [](int rows, int first, int most) {
    return tile::GroupedTile{1000, 0, 1000 + rows, 0}.blocks(first, most);
  };
  for (int rows = 0; rows <= 300; ++rows) {
    for (int first = 0; first <= 3; ++first) {
      for (int most = 1; most <= 4; ++most) {
        int with_rows = 0;
        for (int block = first; block < first + most; ++block) with_rows += block * 64 < rows;
        CHECK(blocks(rows, first, most) == with_rows);
      }
    }
  }
  CHECK(blocks(1000, 0, 4) == 4);
  CHECK(blocks(1 << 30, 2, 2) == 2);
}

TEST_CASE(
    "groups: most_tiles() is enough for any way to deal rows out, and no less than one needs") {
  for (const tile::GemmConfig& config : tile::GROUPED_CONFIGURATIONS) {
    for (const int groups : {1, 3, 100}) {
      for (const int m : {1, 64, 65, 700}) {
        std::vector<int> rows(static_cast<size_t>(groups),
                              0);  // as many short groups as there can be
        int left = m;
        for (int& each : rows) {
          each = std::min(left, 1);
          left -= each;
        }
        rows[0] += left;
        int tiles = 0;
        for (const int each : rows) tiles += tile::ceil_div(each, config.bm());
        const int most = tile::most_tiles(config, {nullptr, groups, m, false}, 1);
        CHECK(tiles <= most);
        CHECK(most <= tiles + 1);
        CHECK(tile::most_tiles(config, {nullptr, groups, m, true}, 1) ==
              groups * tile::ceil_div(m, config.bm()));
      }
    }
  }
}

TEST_CASE("groups: which are good, and what the error flag is to be") {
  struct Case {
    std::vector<int> sizes;
    std::vector<int> counts;
    int flag;
  };
  const Case contiguous[] = {{{0, 10, 10, 100}, {10, 0, 90}, 0},
                             {{7, 10, 12, 13}, {3, 2, 1}, 0},
                             {{0, 10, 9, 100}, {10, 0, 0}, 2},
                             {{-1, 10, 20, 30}, {0, 0, 0}, 1},
                             {{0, 10, 20, 101}, {10, 10, 0}, 3},
                             {{0, 101, 20, 30}, {0, 0, 0}, 1},
                             {{0, 2147483647, 5, -2147483647 - 1}, {0, 0, 0}, 1},
                             {{100, 100, 100, 100}, {0, 0, 0}, 0},
                             {{0, 5, -2147483647 - 1, 7}, {5, 0, 0}, 2}};
  for (const Case& one : contiguous) {
    const ladder::GoodRows good = ladder::good_rows({one.sizes.data(), 3, 100, false});
    CHECK(good.error_flag == one.flag);
    for (size_t g = 0; g < 3; ++g) {
      CHECK(good.rows[g].count == one.counts[g]);
      if (one.counts[g] > 0) CHECK(good.rows[g].begin == one.sizes[g]);
    }
  }
  const Case masked[] = {{{0, 10, 100}, {0, 10, 100}, 0},
                         {{101, 10, 100}, {0, 10, 100}, 1},
                         {{5, -1, 2147483647}, {5, 0, 0}, 2}};
  for (const Case& one : masked) {
    const ladder::GoodRows good = ladder::good_rows({one.sizes.data(), 3, 100, true});
    CHECK(good.error_flag == one.flag);
    for (size_t g = 0; g < 3; ++g) {
      CHECK(good.rows[g].count == one.counts[g]);
      if (one.counts[g] > 0) CHECK(good.rows[g].begin == static_cast<int>(g) * 100);
    }
  }
}

TEST_CASE("groups: every configuration has a ring of three slots at least, in shared memory") {
  for (const bool scaled : {false, true}) {
    for (int row = 0; row < tile::grouped_configuration_count(scaled); ++row) {
      const tile::GemmConfig config = tile::grouped_configuration(scaled, row);
      const int buffers = tile::grouped_staging_buffers(config, scaled);
      const int slots = tile::grouped_ring_slots(config, scaled, buffers);
      CAPTURE(config.name);
      CHECK(slots >= 3);
      const int staged = config.consumers * buffers * 64 * config.bn * 2;
      CHECK(slots * tile::grouped_slot_bytes(config, scaled) + staged +
                int{sizeof(tile::GroupTable)} + 1024 <=
            tile::MAX_SMEM_BYTES);
    }
  }
}

TEST_CASE("groups: the model takes low tiles for short groups, high ones for long groups") {
  const tile::Gpu gpu;
  const auto pick = [&gpu](bool scaled, int groups, double m, int n, int k) {
    int height = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int row = 0; row < tile::grouped_configuration_count(scaled); ++row) {
      const tile::GemmConfig each = tile::grouped_configuration(scaled, row);
      const double clocks = tile::grouped_clocks(each, scaled, groups, m, n, k, gpu.sms, gpu);
      if (clocks < least) height = each.bm();
      least = std::min(least, clocks);
    }
    return height;
  };
  for (const bool scaled : {false, true}) {
    // Of e4m3: 192x128 took less than 256x128 at 9 of 14 such calls in h200.grouped.csv.
    CHECK(pick(scaled, 8, 65536, 4096, 7168) == (scaled ? 192 : 256));
    CHECK(pick(scaled, 64, 1280, 4096, 7168) == 128);
    CHECK(pick(scaled, 256, 512, 4096, 7168) == pick(scaled, 8, 512, 4096, 7168));
  }
}

TEST_CASE("groups: the problems of programs deal out all their rows") {
  Shape shape{4096, 64, 64};
  for (int groups = 0; groups < 11; ++groups) {
    for (int rows = 0; rows < 4; ++rows) {
      for (const int m : {0, 1, 7, 301, 4096}) {
        shape.m = m;
        shape.parameters = {0, groups, rows, 0};
        const std::vector<int> offsets = ladder::sizes_of_problem(shape);
        const int count = ladder::GROUPS_OF_PROBLEMS[groups];
        CHECK(static_cast<int>(offsets.size()) == count + 1);
        CHECK(offsets.front() == 0);
        CHECK(offsets.back() == m);
        CHECK(std::is_sorted(offsets.begin(), offsets.end()));
        shape.parameters[3] = 1;
        const std::vector<int> each = ladder::sizes_of_problem(shape);
        CHECK(std::accumulate(each.begin(), each.end(), 0) == m);
      }
    }
  }
  shape = {512, 64, 64, {0, 9, 2, 0}};  // 256 groups, sparse
  const std::vector<int> offsets = ladder::sizes_of_problem(shape);
  int full = 0;
  for (size_t g = 0; g < 256; ++g) full += offsets[g + 1] - offsets[g] == 64;
  CHECK(full == 8);
}

TEST_CASE("grouped: right calls are accepted, and what a call does not touch may be anything") {
  for (const int masked : {0, 1}) {
    GroupedArgs args = good_call(LADDER_E4M3, masked);
    CHECK(check(args) == "");
    args = good_call(LADDER_BF16, masked);
    args.scale_a = args.scale_b = nullptr;
    args.ld_scale_a = args.ld_scale_b = -1;
    args.error_flag = nullptr;
    CHECK(check(args) == "");
    args.k = 0;
    args.a = args.b = nullptr;
    CHECK(check(args) == "");
    args.n = 0;
    args.d = nullptr;
    args.sizes = nullptr;
    CHECK(check(args) == "");
    args.n = 200;
    args.m = 0;
    CHECK(check(args) == "");
    args.m = 100;
    args.groups = 0;
    CHECK(check(args) == "");
  }
}

TEST_CASE("grouped: types, kinds and numbers of groups that there are not") {
  GroupedArgs args = good_call(LADDER_S8, 0);
  args.masked = -1;
  refused(args, {"type is 4: it must be 0 (bf16) or 3 (e4m3); the nearest that works is 3.",
                 "masked is -1: it must be 0 (contiguous) or 1 (masked); the nearest that works is "
                 "0."});
  args = good_call(LADDER_BF16, 0);
  args.groups = -2;
  refused(args, {"groups is -2: a call has from 0 to 512; the nearest that works is 0."});
  args.groups = 513;
  args.d = at<bf16>(0x4000000000);
  args.a = at<void>(0x5000000000);
  refused(args, {"groups is 513: a call has from 0 to 512; the nearest that works is 512."});
}

TEST_CASE("grouped: rows and scales of all groups count") {
  GroupedArgs args = good_call(LADDER_E4M3, 1);
  args.ld_scale_a = 498;
  args.ld_scale_b = 2;
  args.sizes = at<int>(0x38000002);
  args.error_flag = at<int>(0x39000001);
  refused(
      args,
      {"offsets_or_rows is 0x38000002: it must be a multiple of 4 bytes; the nearest below is "
       "0x38000000.",
       "error_flag is 0x39000001: it must be a multiple of 4 bytes; the nearest below is "
       "0x39000000.",
       "ld_scale_a is 498: it must be at least groups * m = 500 and a multiple of 4; the nearest "
       "that works is 500.",
       "ld_scale_b is 2: it must be at least ceil(k/128) = 3; the nearest that works is 3."});
  args = good_call(LADDER_BF16, 1);
  args.groups = 512;
  args.m = 1 << 24;
  args.sizes = nullptr;
  args.a = at<void>(0x100000000000);
  args.b = at<void>(0x300000000000);
  args.d = at<bf16>(0x500000000000);
  refused(args,
          {"m is 16777216: the rows of all groups must be at most 2^30, and span at most 2^40 "
           "bytes; the nearest that works is 2097152.",
           "offsets_or_rows is null: it must point to device memory for its groups ints."});
}

TEST_CASE("grouped: D shares no byte with operands of any group, scales, sizes or the flag") {
  for (const uintptr_t shared :
       {uintptr_t{0x10000000}, uintptr_t{0x18000000}, uintptr_t{0x20000000},
        uintptr_t{0x20000000} + 200 * 304 * 4, uintptr_t{0x28000000}, uintptr_t{0x38000000},
        uintptr_t{0x39000000}}) {
    CAPTURE(shared);
    GroupedArgs args = good_call(LADDER_E4M3, 0);
    args.d = at<bf16>(shared);
    const std::string text = check(args);
    CHECK(text.find("D must share no byte") != std::string::npos);
    follow(text, &args);
    CHECK(check(args) == "");
  }
}

TEST_CASE("grouped: D begins behind the last byte of the last group's B") {
  GroupedArgs args = good_call(LADDER_BF16, 0);
  const uintptr_t b_end = 0x20000000 + ((5 * 200 - 1) * 304 + 300) * 2;
  args.d = at<bf16>((b_end + 15) / 16 * 16);
  CHECK(check(args) == "");
  args.d = at<bf16>((b_end - 1) / 16 * 16);
  CHECK(check(args).find("overlaps B's other groups") != std::string::npos);
}

TEST_CASE("grouped: scales that are null overlap nothing") {
  GroupedArgs args = good_call(LADDER_E4M3, 0);
  args.scale_a = nullptr;
  args.m = args.ld_scale_a = 1000;
  args.d = at<bf16>(0x1000);
  CHECK(lines(check(args)).size() == 1);
}

TEST_CASE("grouped: without K D shares no byte with sizes or the flag either") {
  for (const uintptr_t shared : {uintptr_t{0x38000000}, uintptr_t{0x39000000}}) {
    CAPTURE(shared);
    GroupedArgs args = good_call(LADDER_BF16, 0);
    args.k = 0;
    args.d = at<bf16>(shared);
    const std::string text = check(args);
    CHECK(text.find("D must share no byte") != std::string::npos);
    follow(text, &args);
    CHECK(check(args) == "");
  }
}

TEST_CASE("grouped: the flag is none of the sizes, which others read while it is written") {
  for (const int masked : {0, 1}) {
    GroupedArgs args = good_call(LADDER_BF16, masked);
    const int count = args.groups + (masked != 0 ? 0 : 1);
    args.error_flag = const_cast<int*>(args.sizes) + count;
    CHECK(check(args) == "");
    args.error_flag = const_cast<int*>(args.sizes) - 1;
    CHECK(check(args) == "");
    args.error_flag = const_cast<int*>(args.sizes) + count - 1;
    const std::string text = check(args);
    CHECK(text.find("overlaps offsets_or_rows: they must share no byte") != std::string::npos);
    follow(text, &args);
    CHECK(check(args) == "");
  }
}

TEST_CASE("grouped: without rows the sizes are needed for the flag alone") {
  GroupedArgs args = good_call(LADDER_BF16, 0);
  args.m = 0;
  args.sizes = nullptr;
  CHECK(check(args).find("offsets_or_rows is null") == 0);
  args.error_flag = nullptr;
  CHECK(check(args) == "");
}

TEST_CASE("grouped: the flag, which each call writes, is in none of what others read") {
  for (const uintptr_t shared :
       {uintptr_t{0x10000000}, uintptr_t{0x18000000}, uintptr_t{0x20000000},
        uintptr_t{0x20000000} + 200 * 304 * 4, uintptr_t{0x28000000}}) {
    CAPTURE(shared);
    GroupedArgs args = good_call(LADDER_E4M3, 0);
    args.error_flag = at<int>(shared);
    const std::string text = check(args);
    CHECK(text.find("error_flag is") != std::string::npos);
    follow(text, &args);
    CHECK(check(args) == "");
  }
}

TEST_CASE("grouped: scales of rows that A cannot have are not judged") {
  GroupedArgs args = good_call(LADDER_E4M3, 0);
  args.m = 1 << 30;
  args.k = 65535;
  args.lda = args.ldb = 65536;
  args.ld_scale_a = 1 << 24;
  args.ld_scale_b = 512;
  args.a = at<void>(0x100000000000);
  args.b = at<void>(0x300000000000);
  args.d = at<bf16>(0x500000000000);
  args.scale_a = at<float>(0x700000000000);
  refused(args, {"m is 1073741824: with lda = 65536, matrix a would span more than 2^40 bytes; the "
                 "nearest that works is 16777216."});
}

TEST_CASE("grouped: following suggestions works for any combination of mistakes") {
  const int sizes[] = {-7, 0, 1, 100, 1 << 24, 2147483647};
  const int types[] = {-1, 0, 3, 4};
  const int kinds[] = {-1, 0, 1, 2};
  const int groups[] = {-1, 0, 1, 8, 512, 513};
  const long long lds[] = {-1, 0, 100, 112, 1LL << 24, (1LL << 40) + 1};
  const uintptr_t pointers[] = {0, 0x1000, 0x1004, 0x2000};
  const auto make = [&](auto& draw) {
    GroupedArgs args;
    args.type = draw(types);
    args.masked = draw(kinds);
    args.groups = draw(groups);
    draw_sizes(draw, sizes, lds, &args);
    args.ld_scale_a = draw(lds);
    args.ld_scale_b = draw(lds);
    args.a = at<void>(draw(pointers));
    args.b = at<void>(draw(pointers));
    args.scale_a = at<float>(draw(pointers));
    args.scale_b = at<float>(draw(pointers));
    args.d = at<bf16>(draw(pointers));
    args.sizes = at<int>(draw(pointers));
    args.error_flag = at<int>(draw(pointers));
    return args;
  };
  CHECK(refused_and_mended(make, follow) > 1000);
}

TEST_CASE("grouped: sizes, kind and type of a shape") {
  Shape shape{1000, 200, 700};
  const auto sizes = [](const Shape& of) {
    return *std::static_pointer_cast<GroupedArgs>(GroupedArgs::kind().sizes_of(of));
  };
  CHECK(ladder::parameters_text(GroupedArgs::kind(), shape) ==
        "type=bf16,groups=8,rows=equal,kind=contiguous");
  CHECK(sizes(shape).groups == 8);
  CHECK(sizes(shape).m == 1000);
  CHECK(sizes(shape).lda == 704);
  shape.parameters = {1, 4, 3, 1};
  CHECK(ladder::parameters_text(GroupedArgs::kind(), shape) ==
        "type=e4m3,groups=4,rows=one,kind=masked");
  CHECK(sizes(shape).type == LADDER_E4M3);
  CHECK(sizes(shape).m == 1024);
  CHECK(sizes(shape).ld_scale_a == 4096);
}
