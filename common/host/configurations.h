// From a table of configurations to a rung's variants, and to the one that chooses among them.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/host/device.h"
#include "common/host/gemm.h"
#include "common/host/registry.h"
#include "common/tile/cost_model.h"

namespace ladder {

// What the cost models know of the current device.
inline tile::Gpu gpu() {
  const DeviceInfo& device = query_device();
  return tile::gpu_of(device.sm_count, device.max_mhz, static_cast<double>(device.l2_bytes),
                      device.dram_bytes_per_second);
}

// Clusters of a kernel with tile T that run at the same time: as many as the current device can hold,
// or as the call allows, and at least one.
template <class T, class... Parameters>
int clusters_at_once(void (*kernel)(Parameters...), int smem_bytes, const Call& call) {
  static_assert(T::CLUSTER <= 8, "a cluster has at most 8 CTAs: cluster_m * cluster_n * split");
  int resident =
      resident_ctas(reinterpret_cast<const void*>(kernel), T::THREADS, smem_bytes, T::CLUSTER);
  if constexpr (requires { T::CTAS; }) {  // of an SM; of clusters, the device has said how many
    if (T::CLUSTER == 1) resident *= T::CTAS;
  }
  const int ctas = call.max_ctas > 0 ? std::min(resident, call.max_ctas) : resident;
  return std::max(1, ctas / T::CLUSTER);
}

// Rows of blocks that a kernel with tile T sweeps together, of D [m][n], whose rows' operand has so many
// bytes a row.
template <class T>
int raster_group(int at_once, int m, int n, long long row_bytes) {
  return tile::raster_group(T::BM * T::CLUSTER_M, T::BN * T::CLUSTER_N, at_once, m, n, T::CLUSTER,
                            row_bytes, gpu());
}

// Whether a launch of `blocks` clusters, `at_once` at a time, starts early: of a kernel with tile T,
// one CTA an SM, that multiplies [m][k] by [k][n] of so many bytes an element, and loses as much by
// an early start as `crowding` says.
template <class T>
bool starts_early(double crowding, int blocks, int at_once, int m, int n, int k,
                  int element_bytes) {
  const tile::Gpu of = gpu();
  const double bytes = 1.0 * element_bytes * k * (1.0 * m + n) + 2.0 * m * n;
  const int sms = std::min(blocks, at_once) * T::CLUSTER;
  return tile::starts_early(crowding,
                            tile::least_clocks(0.5 * element_bytes * m * n * k, bytes, sms, of));
}

// The same of a kernel that allows the next one to start behind griddepcontrol.wait, and for which L2
// is fast enough; and of one that does so behind its last load.
template <class T>
bool starts_early(int blocks, int at_once, int m, int n, int k) {
  const double crowding =
      tile::crowding(1.0 * blocks * T::CLUSTER, at_once * T::CLUSTER, T::CLUSTER, 1, 0, false);
  return starts_early<T>(crowding, blocks, at_once, m, n, k, 2);
}
template <class T>
bool starts_early_behind_loads(int blocks, int at_once, int m, int n, int k,
                               int element_bytes = 2) {
  double crowding = tile::crowding_behind_loads(1.0 * blocks * T::CLUSTER, at_once * T::CLUSTER,
                                                T::CLUSTER, element_bytes);
  if constexpr (requires { T::SPLIT; }) {  // CTAs of a cluster that share a tile's K
    if (T::SPLIT > 1) crowding = tile::crowding_of_split(blocks, at_once);
  }
  return starts_early<T>(crowding, blocks, at_once, m, n, k, element_bytes);
}

// The variants of a table's rows: make(row) for each row, an integral constant from 0 to ROWS - 1.
template <int ROWS, class Make>
std::vector<Variant> variant_of_each(Make make) {
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return std::vector<Variant>{make(std::integral_constant<int, I>{})...};
  }(std::make_integer_sequence<int, ROWS>{});
}

// The same of rows that have several variants each, which make(row) returns.
template <int ROWS, class Make>
std::vector<Variant> variants_of_each(Make make) {
  std::vector<Variant> all;
  const auto add = [&](const std::vector<Variant>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (add(make(std::integral_constant<int, I>{})), ...);
  }(std::make_integer_sequence<int, ROWS>{});
  return all;
}

// Chooses, of what CONFIGURATIONS() returns, the one with the least predicted time for a call.
template <const std::vector<Variant>& (*CONFIGURATIONS)(), class Args = GemmArgs>
Variant least_of(const char* name, const char* what) {
  return chooser_among(
      name, what, CONFIGURATIONS(),
      +[](const Args& g) -> const Variant& { return *least_predicted(CONFIGURATIONS(), g); });
}

// What a rung registers: its kernels behind what chooses among those that take a call.
template <const std::vector<Variant>& (*KERNELS)(), class Args = GemmArgs>
std::vector<Variant> with_chooser() {
  std::vector<Variant> all = KERNELS();
  all.insert(all.begin(), least_of<KERNELS, Args>("auto", "chosen by the cost model").as_result());
  return all;
}

// What such a rung registers: its configurations, launched early or plainly by tile::starts_early,
// behind the variants that choose among them, and among the same that are always launched plainly.
template <const std::vector<Variant>& (*BY_RULE)(), const std::vector<Variant>& (*PLAIN)()>
std::vector<Variant> with_choosers() {
  std::vector<Variant> all = BY_RULE();
  all.insert(all.begin(), {least_of<BY_RULE>("auto", "chosen by the cost model").as_result(),
                           least_of<PLAIN>("auto_plain", "the same choice, plain launch")});
  return all;
}

}  // namespace ladder
