// A warp's own tensor map: a copy of the kernel's, for other rows.
// Introduced by stages/16_grouped.cu
#pragma once

#include <cstdint>

#include "common/ptx/barrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tensormap.cuh"

namespace block {

// A kernel's argument: the map that copies are made of, and memory for them, [CTAs][CONSUMERS].
struct MapToReplace : CUtensorMap {
  void* copies;
};

// Of a storer. All but `kernels` are null without T::REPLACES.
template <class T>
struct OwnMap {
  const CUtensorMap* kernels;       // the argument
  CUtensorMap* staged;              // in shared memory, where it is changed
  CUtensorMap* map;                 // in global memory, where TMA reads it
  const void* first_row = nullptr;  // of those that it is of now
};

template <class T>
__device__ OwnMap<T> own_map(const typename T::MapD& kernels, CUtensorMap* staged, int storer) {
  if constexpr (T::REPLACES) {
    auto* const copies = static_cast<CUtensorMap*>(kernels.copies);
    return {&kernels, staged + storer, copies + blockIdx.x * T::CONSUMERS + storer};
  }
  return {&kernels, nullptr, nullptr};
}

// All lanes: makes it a map of `rows` rows from `first_row` on, if it is of others. The stores that
// were started through the old one have read it: cp.async.bulk.wait_group.read waits for that, too.
template <class T>
__device__ void replace_rows(OwnMap<T>& own, const void* first_row, int rows) {
  if (!T::REPLACES || first_row == own.first_row) return;
  own.first_row = first_row;
  const int lane = threadIdx.x % 32;
  if (lane < 8) {
    ptx::st_shared_v4_b32(reinterpret_cast<uint4*>(own.staged) + lane,
                          reinterpret_cast<const uint4*>(own.kernels)[lane]);
  }
  ptx::bar_warp_sync();  // all 128 bytes are there
  if (lane == 0) {
    ptx::tensormap_replace_global_address(own.staged, first_row);
    ptx::tensormap_replace_global_dim<1>(own.staged, rows);
  }
  ptx::bar_warp_sync();  // before the warp copies what lane 0 has written
  ptx::tensormap_cp_fenceproxy(own.map, own.staged);
  ptx::fence_proxy_tensormap_acquire(own.map);  // TMA may have an older one in its cache
}

}  // namespace block
