// How a cluster begins: special registers, rows, shared and local memory. It knows nothing of what
// runs then.
#include "common/machine/run/cluster.h"

#include <algorithm>

#include "common/machine/check/checker.h"
#include "common/machine/ops/operands.h"
#include "common/machine/run/settings.h"

namespace machine {
namespace {

Dim3 unravel(uint64_t index, const Dim3& size) {
  return {static_cast<uint32_t>(index % size.x), static_cast<uint32_t>(index / size.x % size.y),
          static_cast<uint32_t>(index / size.x / size.y)};
}

Dim3 thread_at(const Warp& warp, uint32_t lane) {
  return unravel(warp.index * LANES + lane, grid_of(warp).config.block);
}
Dim3 cluster_at(const Warp& warp) {
  return unravel(warp.cta->cluster->id, grid_of(warp).clusters);
}
Dim3 in_cluster(const Warp& warp) {
  return unravel(warp.cta->rank, grid_of(warp).config.cluster);
}

#define AXIS(name, by_lane, of) \
  {name, by_lane, [](const Warp& w, uint32_t lane) -> uint64_t { return (void)lane, of; }}
#define EACH_AXIS(name, by_lane, dim3)                                    \
  AXIS(name ".x", by_lane, (dim3).x), AXIS(name ".y", by_lane, (dim3).y), \
      AXIS(name ".z", by_lane, (dim3).z)
#define UNIFORM(name, expression) \
  {name, false, [](const Warp& w, uint32_t) -> uint64_t { return (void)w, (expression); }}
#define BY_LANE(name, expression) \
  {name, true,                    \
   [](const Warp&, uint32_t lane) -> uint64_t { return static_cast<uint32_t>(expression); }}

const SpecialRegister SPECIALS[] = {
    EACH_AXIS("%tid", true, thread_at(w, lane)),
    EACH_AXIS("%ntid", false, grid_of(w).config.block),
    EACH_AXIS("%ctaid", false, w.cta->id),
    EACH_AXIS("%nctaid", false, grid_of(w).config.grid),
    EACH_AXIS("%clusterid", false, cluster_at(w)),
    EACH_AXIS("%nclusterid", false, grid_of(w).clusters),
    EACH_AXIS("%cluster_ctaid", false, in_cluster(w)),
    EACH_AXIS("%cluster_nctaid", false, grid_of(w).config.cluster),
    UNIFORM("%cluster_ctarank", w.cta->rank),
    UNIFORM("%cluster_nctarank", grid_of(w).ctas_per_cluster),
    UNIFORM("%is_explicit_cluster",
            grid_of(w).kernel->explicit_cluster || grid_of(w).config.explicit_cluster),
    BY_LANE("%laneid", lane),
    BY_LANE("%lanemask_eq", 1u << lane),
    BY_LANE("%lanemask_lt", (1u << lane) - 1),
    BY_LANE("%lanemask_le", (2u << lane) - 1),
    BY_LANE("%lanemask_gt", ~((2u << lane) - 1)),
    BY_LANE("%lanemask_ge", ~((1u << lane) - 1)),
    UNIFORM("%warpid", w.index),
    UNIFORM("%nwarpid", 64),
    UNIFORM("%smid",
            (w.cta->cluster->id * grid_of(w).ctas_per_cluster + w.cta->rank) % settings().sms),
    UNIFORM("%nsmid", settings().sms),
    UNIFORM("%gridid", grid_of(w).launch_index),
    // Where cooperative groups find what grid.sync works with (its driver_abi.h).
    UNIFORM("%envreg1", reinterpret_cast<uint64_t>(grid_of(w).workspace) >> 32),
    UNIFORM("%envreg2", static_cast<uint32_t>(reinterpret_cast<uint64_t>(grid_of(w).workspace))),
    UNIFORM("%dynamic_smem_size", grid_of(w).config.dynamic_smem_bytes),
    UNIFORM("%total_smem_size", (w.cta->smem_bytes + 127) / 128 * 128),
    UNIFORM("%aggr_smem_size", w.cta->smem_bytes + SMEM_BASE),
    UNIFORM("%reserved_smem_offset_begin", 0),
    UNIFORM("%reserved_smem_offset_end", 0x120),
    UNIFORM("%reserved_smem_offset_cap", SMEM_BASE),
    // A mov reads these afresh (Control::read_clock); elsewhere they stand still.
    UNIFORM("%clock", 0),
    UNIFORM("%clock_hi", 0),
    UNIFORM("%clock64", 0),
    UNIFORM("%globaltimer", 0),
    UNIFORM("%globaltimer_lo", 0),
    UNIFORM("%globaltimer_hi", 0),
};

void set_up_warp(Warp& warp) {
  const Grid& grid = grid_of(warp);
  const Program& program = *grid.program;
  const uint32_t first = warp.index * LANES;
  const uint32_t threads = std::min(LANES, grid.threads_per_cta - first);
  warp.live = threads == LANES ? FULL : (1u << threads) - 1;
  warp.fragments.emplace_back().mask = warp.live;
  std::memcpy(warp.rows, program.image.data(), program.image.size());
  // NaN in every format: what was never written shows.
  std::memset(warp.rows + program.image.size(), 0xff, program.rows_bytes - program.image.size());
  for (const Callable& callable : program.callables) {
    if (callable.function != nullptr) std::memset(warp.rows + callable.return_row, 0, LANES * 4);
    if (callable.frame.bytes != 0) std::memset(warp.rows + callable.used_row, 0, LANES * 4);
  }
  for (const Program::Special& special : program.specials) {
    const Slot slot{special.row, 0, special.width};
    if (!special.what->by_lane) set_value(warp, slot, FULL, special.what->value(warp, 0));
    for (uint32_t lane = 0; special.what->by_lane && lane < LANES; ++lane) {
      set_value(warp, slot, 1u << lane, special.what->value(warp, lane));
    }
  }
  for (const Program::SharedSymbol& symbol : program.shared_symbols) {
    const uint32_t address = symbol.address | warp.cta->rank << RANK_SHIFT;
    set_value(warp, {symbol.row, 0, symbol.width}, FULL, address);
  }
}

size_t round_up(size_t bytes) {
  return (bytes + 1023) / 1024 * 1024;
}

}  // namespace

Dim3 cta_at(const Grid& grid, uint64_t id, uint32_t rank) {
  const Dim3& size = grid.config.cluster;
  const Dim3 outer = unravel(id, grid.clusters), inner = unravel(rank, size);
  return {outer.x * size.x + inner.x, outer.y * size.y + inner.y, outer.z * size.z + inner.z};
}

std::unique_ptr<Cluster> make_cluster(Grid& grid, uint64_t id, std::vector<std::byte> memory,
                                      const std::shared_ptr<GlobalShadow>& shadow) {
  auto cluster = std::make_unique<Cluster>();
  cluster->grid = &grid;
  cluster->id = id;
  cluster->random.seed(grid.seed * 1000003 + id);
  cluster->live_threads = grid.ctas_per_cluster * grid.threads_per_cta;
  const Program& program = *grid.program;
  const auto smem_bytes =
      static_cast<uint32_t>(grid.kernel->static_smem_bytes + grid.config.dynamic_smem_bytes);
  const size_t rows = round_up(program.rows_bytes);
  const size_t locals = round_up(size_t{LANES} * program.local_bytes);
  const size_t cta_bytes = (rows + locals) * grid.warps_per_cta + round_up(smem_bytes);
  memory.resize(cta_bytes * grid.ctas_per_cluster + 1024);
  cluster->memory = std::move(memory);
  auto* at =
      reinterpret_cast<std::byte*>(round_up(reinterpret_cast<size_t>(cluster->memory.data())));
  cluster->ctas.resize(grid.ctas_per_cluster);
  for (uint32_t rank = 0; rank < grid.ctas_per_cluster; ++rank) {
    Cta& cta = cluster->ctas[rank];
    cta.cluster = cluster.get();
    cta.rank = rank;
    cta.id = cta_at(grid, id, rank);
    cta.smem_bytes = smem_bytes;
    cta.dynamic_smem = SMEM_BASE + grid.kernel->static_smem_bytes;
    cta.smem = at;
    std::memset(at, 0xff, smem_bytes);  // NaN in every format: what was never written shows
    at += round_up(smem_bytes);
    cta.live_threads = grid.threads_per_cta;
    cta.warps.resize(grid.warps_per_cta);
    cta.warpgroups.resize((grid.warps_per_cta + 3) / 4);
    for (uint32_t i = 0; i < grid.warps_per_cta; ++i) {
      Warp& warp = cta.warps[i];
      warp.cta = &cta;
      warp.index = i;
      warp.in_cluster = rank * grid.warps_per_cta + i;
      warp.registers = grid.registers;
      warp.rows = at;
      warp.local = at + rows;
      at += rows + locals;
      set_up_warp(warp);
    }
  }
  if (grid.check) cluster->checker = std::make_unique<Checker>(*cluster, shadow);
  return cluster;
}

Cluster::~Cluster() {
  for (AsyncCopy* const copy : in_flight) copy->itself.reset();
}

const SpecialRegister* find_special(const std::string& name) {
  for (const SpecialRegister& special : SPECIALS) {
    if (name == special.name) return &special;
  }
  return nullptr;
}

}  // namespace machine
