// Rung 14: operands of 8 bits, and a scale for every 128 of K.
//
// Idea       the tensor cores sum 128 of K at a time; the CUDA cores multiply each such sum by its
//            scales and add it to an fp32 accumulator: the promotion.
// Limited by its bytes: bf16 takes two for what e4m3 and s8 say in one, at half the rate.
// New PTX    wgmma of .e4m3 and of .s8, mbarrier.test_wait, ld.global.nc.f32, st.shared.v4.f32,
//            mov of %lanemask_eq and of .b64, barrier.arrive
// Tile       per shape: the table in common/tile/block_scaled.h
// Grown from stages/11_autotuned.cu
// Read       docs/14_block_scaled.md
#include <algorithm>
#include <numeric>
#include <string>
#include <type_traits>

#include "common/block/add_slices.cuh"
#include "common/block/consumer_of_warp.cuh"
#include "common/block/init_barriers.cuh"
#include "common/block/scaled_tile.cuh"
#include "common/block/staged_block.cuh"
#include "common/host/block_scaled.h"
#include "common/host/configurations.h"
#include "common/host/error.h"
#include "common/host/launch.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/griddepcontrol.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/block_scaled.h"
#include "common/tile/fragment.h"
#include "common/tile/math.h"
#include "common/tile/registers.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"

namespace block_scaled {

using ladder::bf16;
using ladder::BlockScaledArgs;

// PROMOTE: every 128 of K; else once, at the end, which wants one scale for each operand.
template <class In_, bool PROMOTE_, int CONSUMERS_, int BLOCKS_, int BN_, int SLICES_>
struct Tile {
  using In = In_;
  static constexpr bool INTEGERS = std::is_same_v<In, ladder::s8>, PROMOTE = PROMOTE_;
  using Sum = std::conditional_t<INTEGERS, int, float>;  // of the tensor cores
  static constexpr tile::GemmConfig C = {"", CONSUMERS_, BLOCKS_, BN_, 1, 1, SLICES_};
  static constexpr int CONSUMERS = CONSUMERS_, BLOCKS = BLOCKS_;  // warpgroups, 64 rows of each
  static constexpr int WM = 64, BM = C.bm(), BN = BN_, BK = 128;  // WM: rows of a block
  static constexpr int SLICES = SLICES_;  // warpgroups that share the rows and K of a consumer
  static constexpr int WARPGROUPS = CONSUMERS * SLICES;            // that multiply
  static constexpr int THREADS = 128 + WARPGROUPS * 128;           // warpgroup 0: producer, storers
  static constexpr int CLUSTER_M = 1, CLUSTER_N = 1, CLUSTER = 1;  // no clusters: page 14
  using Block = block::StagedBlock<BN>;                            // of D, as TMA stores it
  static constexpr int BUFFERS = tile::scaled_staging_buffers(C);  // blocks staged at a time
  static constexpr int DEPTH = tile::scaled_ring_slots(C, BUFFERS);  // what then fits
  static constexpr int SCALE_BLOCK = ladder::SCALE_BLOCK, SPAN = std::gcd(BN, SCALE_BLOCK);
  // s8 takes longer to promote: consumers take turns, one multiplies while another promotes.
  static constexpr bool TURNS = PROMOTE && INTEGERS && CONSUMERS > 1 && BLOCKS == 1;
  static constexpr bool WIDE = tile::scaled_sum_registers(C) == 192;
  static constexpr bool EVEN = tile::scaled_rows_are_even(C);  // tiles may have fewer rows than BM
  static constexpr int PRODUCER_REGS = WIDE ? 48 : 56;
  static constexpr int CONSUMER_REGS =
      std::min(WIDE ? 232 : 224, tile::consumer_regs(THREADS, 1, PRODUCER_REGS));
  static_assert(DEPTH >= 3, "three slots: one multiplied, one landing, one asked for");
  static_assert(BN % 16 == 0, "stmatrix.x4 stages 16 columns");
  static_assert(BN <= SCALE_BLOCK + SPAN, "a tile lies in two blocks of columns");
  static_assert(SLICES == 1 || BM == 64, "slices of K are for tiles of 64 rows");
  static_assert(!EVEN || BLOCKS == 1, "a consumer's rows lie one behind the other");
  static_assert(PROMOTE || BLOCKS == 1, "all blocks of a consumer have the same registers of sums");
  static_assert(tile::scaled_sum_registers(C) + 22 <= CONSUMER_REGS,
                "accumulators, sums, 22 registers");
};

template <class T>
struct alignas(1024) Smem {
  tile::SmemTile<typename T::In, T::BM, T::BK> a[T::DEPTH][T::SLICES];
  tile::SmemTile<typename T::In, T::BN, T::BK> b[T::DEPTH][T::SLICES];
  typename T::Block d[T::CONSUMERS][T::BUFFERS];
  alignas(128) float scale_a[T::DEPTH][T::SLICES][T::BM];
  float4 parts[tile::scaled_parts_bytes(T::C) / 16 + 1];  // sums of the slices from 1 on
  uint64_t full[T::DEPTH];                    // the producer's arrival, and a slot's bytes
  uint64_t empty[T::DEPTH];                   // one arrival a consumer warp
  uint64_t staged[T::CONSUMERS][T::BUFFERS];  // boxes are written: one arrival a warp
  uint64_t stored[T::CONSUMERS][T::BUFFERS];  // TMA has read them: the storer's arrival
};

template <class T>
__global__ __launch_bounds__(T::THREADS, 1) void gemm(
    const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
    const __grid_constant__ CUtensorMap map_scale, const __grid_constant__ CUtensorMap map_d,
    const __grid_constant__ CUtensorMap map_narrow, const float* scale_b, long long ld_scale_b,
    bf16* d, long long ldd, int m, int n, int k, int tile_rows, int raster_group) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  // Kept in a register: the compiler would work it out anew, and wait for that, at every use.
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(ptx::mov_b64(smem_bytes));
  const int k_blocks = tile::ceil_div(k, T::BK), k_tiles = tile::ceil_div(k_blocks, T::SLICES);
  const int rows = T::EVEN ? tile_rows : T::BM;  // of a tile
  // Of one consumer.
  const int own_rows = T::EVEN && T::CONSUMERS > 1 ? rows / T::CONSUMERS : T::BLOCKS * T::WM;
  const auto first_row = [&](const auto& t) { return T::EVEN ? t.m0() / T::BM * rows : t.m0(); };
  const tile::ClusterTiles<T> tiles(m, n, blockIdx.x, gridDim.x, 0, raster_group);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    ptx::prefetch_tensormap(&map_scale);
    ptx::prefetch_tensormap(&map_d);
    ptx::prefetch_tensormap(&map_narrow);
    block::init_barriers<T>(smem.full, smem.empty, T::WARPGROUPS * 4, smem.staged, smem.stored);
  }
  if (T::EVEN) block::clear_missing_rows<T>(smem.a[0], smem.scale_a[0], rows);
  ptx::bar_sync();             // before any thread uses the barriers
  ptx::griddepcontrol_wait();  // operands and D may be in use by the kernel before until here

  if (threadIdx.x < 128) {
    // --- producer: one thread of warp 0 fills the ring -------------------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      tile::RingState<T::DEPTH> ring;
      for (auto t = tiles; t.has(); t.next()) {
        const int m0 = first_row(t), n0 = t.n0();
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          ptx::mbarrier_wait(&smem.empty[ring.slot], ring.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, tile::scaled_slot_bytes(rows, T::BN, T::SLICES));
#pragma unroll
          for (int i = 0; i < T::SLICES; ++i) {
            const int slot = ring.slot, k_block = k_tile * T::SLICES + i, k0 = k_block * T::BK;
            ptx::cp_async_bulk_tensor_2d_g2s(smem.a[slot][i].bytes, &map_a, k0, m0, full);
            ptx::cp_async_bulk_tensor_2d_g2s(smem.scale_a[slot][i], &map_scale, m0, k_block, full);
            ptx::cp_async_bulk_tensor_2d_g2s(smem.b[slot][i].bytes, &map_b, k0, n0, full);
          }
        }
      }
      ptx::griddepcontrol_launch_dependents();  // the next kernel may take SMs as they fall free
    }
    // --- storers: warp 1 + i sends what consumer i has staged ------------------------------------
    const int storer = threadIdx.x / 32 - 1;
    if (storer >= 0 && storer < T::CONSUMERS) {
      tile::RingState<T::BUFFERS> out;
      for (auto t = tiles; t.has(); t.next()) {
        const int m0 = first_row(t) + storer * own_rows, n0 = t.n0();
        const int end_row = T::EVEN ? min(m, m0 + rows / T::CONSUMERS) : m;
#pragma unroll 1
        for (int i = 0; i < T::BLOCKS; ++i, out.advance()) {
          ptx::mbarrier_wait(&smem.staged[storer][out.slot], out.parity);
          block::store_block(smem.d[storer][out.slot], &map_d, &map_narrow, d, ldd, m0 + i * T::WM,
                             n0, end_row, n, !t.is_last());
          ptx::bar_warp_sync();  // the leader speaks for all
          if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&smem.stored[storer][out.slot]);
        }
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its blocks of 64 rows ------------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int warpgroup = block::consumer_of_warp<T>(), lane = threadIdx.x % 32;
    const int group = T::SLICES > 1 ? 0 : warpgroup, slice = T::SLICES > 1 ? warpgroup : 0;
    const int group_m = group * own_rows;  // its first row
    const int thread_m = group_m + threadIdx.x / 32 % 4 * 16 + tile::acc_row(lane, 0);
    // False, which ptxas does not know: sums that may be added to are not converted where they are.
    const bool kept = T::INTEGERS && ld_scale_b < 0;
    float acc[T::BLOCKS][T::BN / 2];  // D [BLOCKS][64][BN] of the warpgroup
    typename T::Sum sum[T::BN / 2];   // of a block, over 128 of K or, without promotion, over all
    tile::RingState<T::DEPTH> ring;
    tile::RingState<T::BUFFERS> out;
    if (T::TURNS && group == T::CONSUMERS - 1) ptx::barrier_arrive(1, 256);  // the first turn
    block::ScalesOfB<T> scales_b(scale_b, ld_scale_b, tiles.n0(), n);
    float next_b[2] = {};
    scales_b.load(next_b, T::SLICES > 1 ? min(slice, k_blocks - 1) : 0);
    bool landed = false;
    for (auto t = tiles; t.has();) {
      block::clear<T>(acc);
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        if (!landed) ptx::mbarrier_wait(&smem.full[ring.slot], ring.parity);  // the tile has landed
        const int slot = ring.slot;
        float of_a[T::BLOCKS][2], of_b[2] = {next_b[0], next_b[1]};
#pragma unroll
        for (int i = 0; i < T::BLOCKS; ++i) {
          if (T::TURNS) ptx::barrier_sync(1 + group, 256);  // until the one before has started
          block::multiply_scaled<T>(sum, smem.a[slot][slice].from_row(group_m + i * T::WM),
                                    smem.b[slot][slice].bytes, T::PROMOTE ? kept : k_tile > 0);
          if (T::TURNS) ptx::barrier_arrive(1 + (group + 1) % T::CONSUMERS, 256);
          if (i == 0) {  // meanwhile
            block::load_scales<T>(of_a, smem.scale_a[slot][slice], thread_m);
            ptx::fence_proxy_async_shared_cta();  // TMA will overwrite what was read
            ptx::bar_warp_sync();                 // lane 0 releases the slot for all
            scales_b.load(next_b, min((k_tile + 1) * T::SLICES + slice, k_blocks - 1));
          }
          ptx::wgmma_wait_group<0>();
          if (i == T::BLOCKS - 1) {
            if (lane == 0) ptx::mbarrier_arrive(&smem.empty[slot]);
            ring.advance();  // and look there early: the answer comes while the sums are promoted
            landed = ptx::mbarrier_test_wait_parity(&smem.full[ring.slot], ring.parity);
          }
          if (!T::PROMOTE && k_tile + 1 < k_tiles) continue;
          block::promote<T>(acc[i], sum, of_a[i], of_b, scales_b.boundary);
        }
      }
      t.next();
      if (t.has()) {  // its first scales come during the epilogue
        scales_b = block::ScalesOfB<T>(scale_b, ld_scale_b, t.n0(), n);
        scales_b.load(next_b, T::SLICES > 1 ? min(slice, k_blocks - 1) : 0);
      }

      // --- epilogue ------------------------------------------------------------------------------
      if constexpr (T::SLICES > 1) {
        if (!block::add_slices<T>(acc[0], smem.parts, group, slice)) continue;
      }
#pragma unroll
      for (int i = 0; i < T::BLOCKS; ++i, out.advance()) {
        ptx::mbarrier_wait(&smem.stored[group][out.slot], out.parity ^ 1);  // its boxes are read
        block::stage_block(acc[i], smem.d[group][out.slot]);
        ptx::fence_proxy_async_shared_cta();  // TMA will read what stmatrix wrote
        ptx::bar_warp_sync();
        if (lane == 0) ptx::mbarrier_arrive(&smem.staged[group][out.slot]);
      }
    }
  }
}

template <class T>
void launch(const BlockScaledArgs& g) {
  const auto* const a = static_cast<const typename T::In*>(g.a);
  const auto* const b = static_cast<const typename T::In*>(g.b);
  const int rows = tile::scaled_tile_rows(T::C, g.m);
  const CUtensorMap map_a = ladder::tensor_map_2d(a, g.m, g.k, g.lda, rows, T::BK, g.n);
  const CUtensorMap map_b = ladder::tensor_map_2d(b, g.n, g.k, g.ldb, T::BN, T::BK, g.m);
  const CUtensorMap map_scale =
      ladder::tensor_map_2d(g.scale_a, tile::ceil_div(g.k, T::BK), g.m, g.ld_scale_a, 1, rows);
  const int whole = std::max(1, g.n / 8 * 8);  // TMA must not write beyond column n
  const auto map_of_boxes = [&](int columns) {
    return ladder::tensor_map_2d(g.d, g.m, whole, g.ldd, std::min(rows / T::CONSUMERS, 64),
                                 columns);
  };
  using Block = typename T::Block;
  const CUtensorMap map_d = map_of_boxes(Block::WIDE > 0 ? 64 : Block::NARROW);
  const CUtensorMap map_narrow = Block::REST > 0 ? map_of_boxes(Block::NARROW) : map_d;
  ladder::allow_smem(gemm<T>, sizeof(Smem<T>));
  const int blocks = tile::ceil_div(g.m, T::BM) * tile::ceil_div(g.n, T::BN);
  const int at_once = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  const bool early = ladder::starts_early_behind_loads<T>(blocks, at_once, g.m, g.n, g.k, 1);
  const ladder::Launch config(std::min(blocks, at_once), T::THREADS, sizeof(Smem<T>), T::CLUSTER,
                              early, g);
  ladder::check_cuda(cudaLaunchKernelEx(&config.config, gemm<T>, map_a, map_b, map_scale, map_d,
                                        map_narrow, g.scale_b, g.ld_scale_b, g.d, g.ldd, g.m, g.n,
                                        g.k, rows, ladder::raster_group<T>(at_once, g.m, g.n, g.k)),
                     "launch of block_scaled::gemm");
}

// By the cost model, in microseconds.
template <class T>
double predicted_us(const BlockScaledArgs& g) {
  const tile::Gpu gpu = ladder::gpu();
  const int ctas = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  return tile::scaled_clocks(T::C, g.m, g.n, g.k, ctas, gpu, g.lda, g.ldb) / gpu.mhz;
}

// Row ROW of the table, named such as "e4m3_256x128".
template <class In, bool PROMOTE, int ROW>
ladder::Variant variant() {
  constexpr tile::GemmConfig C = tile::SCALED_CONFIGURATIONS[ROW];
  using T = Tile<In, PROMOTE, C.consumers, C.blocks, C.bn, C.slices>;
  static const std::string name =
      (T::INTEGERS ? "s8_" : "e4m3_") + std::string(C.name) + (PROMOTE ? "" : "_unpromoted");
  ladder::Variant made = {
      .name = name.c_str(),
      .what = PROMOTE ? "promotion every 128 of K" : "tensor-wide scales, no promotion",
      .kernel = ladder::persistent_kernel<T>(launch<T>, gemm<T>, sizeof(Smem<T>)),
      .configuration = true,
      .takes = ladder::takes_scaled<In, PROMOTE>};
  if (PROMOTE) made.predicted_us = predicted_us<T>;
  return made;
}

template <bool PROMOTE>
const std::vector<ladder::Variant>& kernels() {
  static const auto all = ladder::scaled_variants<PROMOTE>(
      []<class In>(std::type_identity<In>, auto row) { return variant<In, PROMOTE, row>(); });
  return all;
}

static const ladder::Registrar registrar(__FILE__, "8-bit operands, a scale for every 128 of K",
                                         ladder::scaled_choosers<kernels<true>, kernels<false>>());

}  // namespace block_scaled
