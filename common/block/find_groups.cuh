// A warp finds out, from sizes that only the GPU knows, which groups have rows and which tiles are theirs.
// Introduced by stages/16_grouped.cu
#pragma once

#include <cstdint>

#include "common/ptx/memory.cuh"
#include "common/ptx/warp.cuh"
#include "common/tile/grouped.h"
#include "common/tile/math.h"

namespace block {

// The sum of all lanes' values, and of those of the lanes before this one. In each step two halves of
// a part of the warp tell each other their sums.
struct WarpSums {
  int all, before = 0;

  __device__ explicit WarpSums(int value) : all(value) {
    step<1>();
    step<2>();
    step<4>();
    step<8>();
    step<16>();
  }

 private:
  template <int HALF>
  __device__ void step() {
    const auto other = static_cast<int>(ptx::shfl_sync_bfly_b32<HALF>(static_cast<uint32_t>(all)));
    before += threadIdx.x % 32 & HALF ? other : 0;
    all += other;
  }
};

template <int LANE_XOR = 16>
__device__ int warp_min(int value) {
  const int other =
      static_cast<int>(ptx::shfl_sync_bfly_b32<LANE_XOR>(static_cast<uint32_t>(value)));
  const int least = min(value, other);
  if constexpr (LANE_XOR > 1) return warp_min<LANE_XOR / 2>(least);
  return least;
}

// All lanes of a warp. Returns 0, or 1 + the first group whose size is bad. Contiguous, that group and
// all behind it are left out, since rows follow from those before; masked, each such group is.
template <class T>
__device__ int find_groups(tile::GroupTable& table, const tile::Grouping& of, int n) {
  const int chunk = tile::ceil_div(of.groups, 32);  // groups that a lane looks at, one by one
  const int first = min(threadIdx.x % 32 * chunk, of.groups), last = min(first + chunk, of.groups);
  const auto rows_of = [&of](int g) {
    const int next = of.masked ? 0 : ptx::ld_global_s32(of.sizes + g + 1);
    return tile::rows_of_group(of, g, ptx::ld_global_s32(of.sizes + g), next);
  };
  int bad = of.groups;
  for (int g = last - 1; g >= first; --g) bad = rows_of(g).count < 0 ? g : bad;
  bad = warp_min(bad);

  const int tiles_n = tile::ceil_div(n, T::BN), end = of.masked ? last : min(last, bad);
  int groups = 0, tiles = 0;
  for (int g = first; g < end; ++g) {
    const int rows = max(0, rows_of(g).count);
    groups += rows > 0;
    tiles += tile::ceil_div(rows, T::BM) * tiles_n;
  }
  const WarpSums groups_of(groups), tiles_of(tiles);
  int at = groups_of.before, tile = tiles_of.before;
  for (int g = first; g < end; ++g) {
    const tile::GroupRows rows = rows_of(g);
    if (rows.count <= 0) continue;
    table.group[at++] = {rows.begin, rows.count, tile, g};
    tile += tile::ceil_div(rows.count, T::BM) * tiles_n;
  }
  if (threadIdx.x % 32 == 0) {
    table.group[groups_of.all].first_tile = table.tiles = tiles_of.all;
  }
  return bad == of.groups ? 0 : bad + 1;
}

}  // namespace block
