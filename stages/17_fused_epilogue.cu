// Rung 17: the epilogue is a functor, applied while the tile is in registers.
//
// Idea       D = f(alpha * A * B^T + beta * C + bias): what comes after a product is done to its
//            accumulators, which would otherwise be stored, read and stored again. C arrives by TMA
//            in the very box that D leaves from, while the products run; so does the bias.
// Limited by a second kernel for everything that a product is not: D through memory twice more.
// New PTX    ex2.approx, rcp.approx, max.NaN, ldmatrix with .trans, ld.shared.v2
// Tile       per shape: the table in common/tile/fused_tiles.h
// Grown from stages/11_autotuned.cu
// Read       docs/17_fused_epilogue.md
#include <algorithm>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "common/block/activation.cuh"
#include "common/block/add_up.cuh"
#include "common/block/clear_rows.cuh"
#include "common/block/finish_box.cuh"
#include "common/block/finish_sideways.cuh"
#include "common/block/init_barriers.cuh"
#include "common/block/load_slice.cuh"
#include "common/block/multiply_tile.cuh"
#include "common/block/ring_slot.cuh"
#include "common/block/store_last_elements.cuh"
#include "common/host/configurations.h"
#include "common/host/error.h"
#include "common/host/fused.h"
#include "common/host/launch.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/griddepcontrol.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/cost_model.h"
#include "common/tile/even_rows.h"
#include "common/tile/fused_tiles.h"
#include "common/tile/math.h"
#include "common/tile/registers.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"

namespace fused_epilogue {

using ladder::bf16;
using ladder::FusedArgs;

// Numbers, so that a kernel is named by what it computes: F of sums; C, bias and D are of Out.
// On its side it is one of B·A^T, whose rows are columns of D.
template <block::Activation F_, class Out_, int CONSUMERS_, int BLOCKS_, int BN_, int CLUSTER_N_,
          int SPLIT_, bool SIDEWAYS_>
struct Tile {
  using F = F_;
  using Out = Out_;
  static constexpr tile::FusedTile C = {
      {"", CONSUMERS_, BLOCKS_, BN_, 1, CLUSTER_N_, 1, false, SIDEWAYS_}, SPLIT_};
  static constexpr tile::FusedParts P = {C, F::INPUTS, sizeof(Out)};
  static constexpr bool SIDEWAYS = SIDEWAYS_;
  static constexpr int CONSUMERS = CONSUMERS_, BLOCKS = BLOCKS_;   // warpgroups, 64 rows of each
  static constexpr int WM = 64, BM = C.bm(), BN = BN_, BK = 64;    // WM: rows of a block
  static constexpr int THREADS = 128 + CONSUMERS * 128;            // warpgroup 0: producer, storers
  static constexpr int ROW_BYTES = BK * int{sizeof(bf16)};         // of A or of B, in a slot
  static constexpr int CLUSTER_M = 1, CLUSTER_N = CLUSTER_N_;      // CTAs side by side
  static constexpr int SHARERS = CLUSTER_N;                        // of A, by multicast
  static constexpr int SPLIT = SPLIT_, CLUSTER = SHARERS * SPLIT;  // or of one tile's K
  static constexpr int SLICE_A = BM / CLUSTER_N;  // rows of A that one CTA loads for its row
  // The first FINISHERS of the CTAs that share a tile's K add up what all have of SHARE columns.
  static constexpr int SHARE = SPLIT > 1 ? P.share() : BN, FINISHERS = BN / SHARE;
  static constexpr int EXCHANGE_BYTES = P.exchange_bytes();
  // A block leaves in parts of ROWS x PART, which are of ROWS x BOX each; its SUMS are a thread's.
  static constexpr int PARTS = P.of_block(), PART = P.part_columns(), BIAS = PART * F::INPUTS;
  static constexpr int ROWS = P.part_rows();
  static constexpr int BOX = std::gcd(PART, 128 / int{sizeof(Out)}), BOXES = PART / BOX;
  static constexpr int SUMS = ROWS * BOX * F::INPUTS / 128;  // accumulators of a thread for a box
  static constexpr int CHUNK = 16 / int{sizeof(Out)};  // elements of D that TMA writes at least
  static constexpr bool EVEN = tile::fused_rows_are_even(C);  // tiles may have fewer than BM rows
  static constexpr int IN_FLIGHT = CONSUMERS == 1 ? 1 : 0;    // K steps, if no other multiplies
  static constexpr int BUFFERS = P.buffers();                 // parts a consumer stages at a time
  static constexpr int DEPTH = P.ring_slots(BUFFERS);         // what then fits
  static constexpr int PRODUCER_REGS = 56, CONSUMER_REGS = CONSUMERS == 3 ? 152 : 224;
  static_assert(DEPTH >= 3, "three slots: one multiplied, one landing, one asked for");
  static_assert(BOX % 16 == 0, "stmatrix.x4 stages 16 columns");
  static_assert(sizeof(Out) == 2 || BOX == 32, "finish_box() swaps blocks of rows of 128 bytes");
  static_assert(SPLIT == 1 || (SHARERS == 1 && BLOCKS == 1 && !SIDEWAYS),
                "upright tiles of one block a consumer share K, and no loads");
  static_assert(FINISHERS * SHARE == BN && FINISHERS <= SPLIT, "all columns are added up");
  static_assert(BLOCKS * BN / 2 + 32 <= CONSUMER_REGS, "accumulators and 32 registers beside them");
  static_assert(128 * PRODUCER_REGS + CONSUMERS * 128 * CONSUMER_REGS <= tile::launch_regs(THREADS),
                "more than the launch gives; tile::consumer_regs(THREADS, 1, PRODUCER_REGS) fit");
};

template <class T>
struct alignas(1024) Smem {
  tile::SmemTile<bf16, T::BM, T::BK> a[T::DEPTH];
  tile::SmemTile<bf16, T::BN, T::BK> b[T::DEPTH];
  tile::SmemTile<typename T::Out, T::ROWS, T::BOX> d[T::CONSUMERS][T::BUFFERS][T::BOXES];  // and C
  struct alignas(128) Bias {
    typename T::Out of[T::BIAS];
  } bias[T::CONSUMERS][T::BUFFERS];
  uint64_t full[T::DEPTH];                    // the producer's arrival, and a slot's bytes
  uint64_t empty[T::DEPTH];                   // one arrival a consumer warp of the cluster
  uint64_t staged[T::CONSUMERS][T::BUFFERS];  // boxes are written: one arrival a warp
  uint64_t ready[T::CONSUMERS][T::BUFFERS];   // D is read from them: the storer's arrival; C, bias
  [[no_unique_address]] block::Sums<T> sums;
};

// What a call adds to its product.
struct Epilogue {
  float alpha, beta;
  bool c, bias;
};

// The parts of D that leave a consumer, one after the other.
template <class T>
struct Parts {
  tile::ClusterTiles<T> tiles;
  int consumer, rank_k;  // of its cluster
  int i = 0;             // part of the tile

  __device__ bool has() const { return tiles.has(); }
  __device__ void next() {
    if (++i < T::BLOCKS * T::PARTS) return;
    i = 0;
    tiles.next();
  }
  // Of tiles that have so many rows.
  __device__ int row(int rows) const {
    if (T::SIDEWAYS) return tiles.n0();
    return tile::first_row(tiles, rows) + (consumer * T::BLOCKS + i / T::PARTS) * T::WM;
  }
  __device__ int col() const {
    if (T::SIDEWAYS) return tiles.m0() / T::F::INPUTS + (consumer * T::BLOCKS + i) * T::PART;
    return tiles.n0() / T::F::INPUTS + (T::SPLIT > 1 ? rank_k : i % T::PARTS) * T::PART;
  }
};

// Hands a part's boxes to its consumer, with C in them and the bias beside them, once they have
// landed.
template <class T>
__device__ void offer(Smem<T>& smem, const Parts<T>& part, int slot, int rows,
                      const Epilogue& epilogue, const CUtensorMap* map_c,
                      const CUtensorMap* map_bias) {
  auto& boxes = smem.d[part.consumer][slot];
  auto& bias = smem.bias[part.consumer][slot].of;
  uint64_t* ready = &smem.ready[part.consumer][slot];
  const int row = part.row(rows), col = part.col();
  const auto c_bytes = T::EVEN ? sizeof boxes / T::WM * rows : sizeof boxes;
  ptx::mbarrier_arrive_expect_tx(ready,
                                 (epilogue.c ? c_bytes : 0) + (epilogue.bias ? sizeof bias : 0));
  for (int i = 0; epilogue.c && i < T::BOXES; ++i) {
    ptx::cp_async_bulk_tensor_2d_g2s(boxes[i].bytes, map_c, col + i * T::BOX, row, ready);
  }
  if (epilogue.bias) {
    ptx::cp_async_bulk_tensor_2d_g2s(bias, map_bias, col * T::F::INPUTS, 0, ready);
  }
}

template <class T>
__global__ __launch_bounds__(T::THREADS, 1) void gemm(
    const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
    const __grid_constant__ CUtensorMap map_c, const __grid_constant__ CUtensorMap map_bias,
    const __grid_constant__ CUtensorMap map_d, typename T::Out* d, long long ldd, int m, int n,
    int k, Epilogue epilogue, int raster_group) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int k_tiles = tile::ceil_div(k, T::BK);
  const int cluster = blockIdx.x / T::CLUSTER, clusters = gridDim.x / T::CLUSTER;
  const int rank = T::SHARERS > 1 ? ptx::cluster_ctarank() : 0;
  const int rank_k = T::SPLIT > 1 ? ptx::cluster_ctarank() : 0;  // its K steps: begin to end
  const int begin = tile::share_begin(k_tiles, rank_k, T::SPLIT);
  const int end = tile::share_begin(k_tiles, rank_k + 1, T::SPLIT);
  const tile::ClusterTiles<T> tiles(T::SIDEWAYS ? n : m, T::SIDEWAYS ? m : n, cluster, clusters,
                                    rank, raster_group);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    ptx::prefetch_tensormap(&map_d);
    if constexpr (T::SPLIT > 1) block::expect_sums<T>(smem.sums);
    block::init_barriers<T>(smem.full, smem.empty, T::CONSUMERS * 4 * T::SHARERS, smem.staged,
                            smem.ready);
  }
  const int rows = T::EVEN ? tile::even_rows(T::BM, m) : T::BM;  // of a tile
  if constexpr (T::EVEN) {  // wgmma and the epilogue take 64 rows all the same: zeros
    block::clear_rows<T::ROW_BYTES, T::THREADS>(smem.a, T::DEPTH, rows);
    block::clear_rows<T::BOX * sizeof(typename T::Out), T::THREADS>(
        smem.d[0][0], epilogue.c ? T::BUFFERS * T::BOXES : 0, rows);
  }
  for (int i = threadIdx.x; !epilogue.bias && i < sizeof smem.bias / 4; i += T::THREADS) {
    ptx::st_shared_f32(reinterpret_cast<float*>(smem.bias) + i, 0);  // no bias: one of zeros
  }
  if constexpr (T::CLUSTER == 1) ptx::bar_sync();  // before any thread uses the barriers
  if constexpr (T::CLUSTER > 1) ptx::barrier_cluster_sync_shared();
  ptx::griddepcontrol_wait();  // A, B, C and D may be in use by the kernel before until here

  if (threadIdx.x < 128) {
    // --- producer: one thread of warp 0 fills the ring -------------------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      const uint16_t mask_a = (1 << T::SHARERS) - 1;  // A is shared by these CTAs of a cluster
      const int slice_a = rank * T::SLICE_A;          // first row it loads
      const int tx_bytes = (rows + T::BN) * T::ROW_BYTES;
      tile::RingState<T::DEPTH> ring;
      for (auto t = tiles; t.has(); t.next()) {
        const int m0 = tile::first_row(t, rows), n0 = t.n0();
        for (int k_tile = begin; k_tile < end; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          // The copies land in the peers too: their consumers must have released the slot as well.
          block::wait_slot<T::SHARERS>(&smem.empty[ring.slot], ring.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, tx_bytes);  // of all CTAs' copies
          block::load_slice<T::CLUSTER_N>(smem.a[ring.slot].from_row(slice_a), &map_a,
                                          k_tile * T::BK, m0 + slice_a, full, mask_a);
          ptx::cp_async_bulk_tensor_2d_g2s(smem.b[ring.slot].bytes, &map_b, k_tile * T::BK, n0,
                                           full);
        }
      }
      ptx::griddepcontrol_launch_dependents();  // the next kernel may take SMs as they fall free
      // No CTA exits while its peers can still arrive there: once every slot is released they have.
      for (int i = 0; i < T::DEPTH && T::SHARERS > 1; ++i, ring.advance()) {
        block::wait_slot<T::SHARERS>(&smem.empty[ring.slot], ring.parity ^ 1);
      }
    }
    // --- storers: warp 1 + i sends what consumer i has staged, and asks for C --------------------
    const int storer = threadIdx.x / 32 - 1;
    if (storer >= 0 && storer < T::CONSUMERS && rank_k < T::FINISHERS) {
      const bool leader = threadIdx.x % 32 == 0;  // starts the copies and waits for them
      const int columns = n / T::F::INPUTS;       // of D
      Parts<T> part = {tiles, storer, rank_k}, ahead = part;  // ahead: of what is offered next
      for (int slot = 0; slot < T::BUFFERS && ahead.has(); ++slot, ahead.next()) {
        if (leader) offer(smem, ahead, slot, rows, epilogue, &map_c, &map_bias);
      }
      tile::RingState<T::BUFFERS> out;
      for (; part.has(); part.next(), ahead.next(), out.advance()) {
        const int row = part.row(rows), col0 = part.col();
        const int end_row = T::EVEN ? min(m, row + rows) : m;
        ptx::mbarrier_wait(&smem.staged[storer][out.slot], out.parity);
#pragma unroll 1
        for (int i = 0; i < T::BOXES; ++i) {
          const int col = col0 + i * T::BOX;
          const auto& box = smem.d[storer][out.slot][i];
          if (leader && row < end_row && col < columns / T::CHUNK * T::CHUNK) {
            ptx::cp_async_bulk_tensor_2d_s2g(&map_d, col, row, box.bytes);
            ptx::cp_async_bulk_commit_group();
            ptx::cp_async_bulk_wait_group_read<0>();  // one at a time: loads pass in between
          }
          block::store_last_elements(box, d, ldd, row, col, end_row, columns);
        }
        ptx::fence_proxy_async_shared_cta();  // TMA will write C where the last columns were read
        ptx::bar_warp_sync();                 // the leader speaks for all
        if (leader && ahead.has()) offer(smem, ahead, out.slot, rows, epilogue, &map_c, &map_bias);
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its blocks of 64 rows ------------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int group = threadIdx.x / 128 - 1, group_m = group * T::BLOCKS * T::WM;  // its first row
    const int lane = threadIdx.x % 32;  // lane r speaks to CTA r of the cluster
    float acc[T::BLOCKS][T::BN / 2];    // A·B^T [BLOCKS][64][BN] of the warpgroup
    tile::RingState<T::DEPTH> ring;
    tile::RingState<T::BUFFERS> out;
    int turn = 0;  // tiles that the cluster has split
    for (auto t = tiles; t.has(); t.next()) {
      for (int i = 0; T::SPLIT > 1 && i < T::BN / 2; ++i) acc[0][i] = 0;  // adds 0 without a K step
      int last_slot = 0;
      for (int k_tile = begin; k_tile < end; ++k_tile, ring.advance()) {
        block::wait_slot<T::SHARERS>(&smem.full[ring.slot], ring.parity);  // the tile has landed
#pragma unroll
        for (int i = 0; i < T::BLOCKS; ++i) {
          block::multiply_tile<T>(acc[i], smem.a[ring.slot].from_row(group_m + i * T::WM),
                                  smem.b[ring.slot].bytes, k_tile > begin);
        }
        ptx::wgmma_wait_group<T::IN_FLIGHT * T::BLOCKS>();  // 0: the others' products run meanwhile
        if (T::IN_FLIGHT == 0) block::release_slot<T::SHARERS>(&smem.empty[ring.slot], lane);
        if (T::IN_FLIGHT == 1 && k_tile > begin) {
          block::release_slot<T::SHARERS>(&smem.empty[last_slot], lane);
        }
        last_slot = ring.slot;
      }
      if constexpr (T::IN_FLIGHT == 1) {
        ptx::wgmma_wait_group<0>();
        if (T::SPLIT == 1 || begin < end) {
          block::release_slot<T::SHARERS>(&smem.empty[last_slot], lane);
        }
      }

      // --- epilogue ------------------------------------------------------------------------------
      if constexpr (T::SPLIT > 1) {
        if (!block::add_up<T>(acc[0], smem.sums, rank_k, turn++, !t.is_last())) continue;
      }
#pragma unroll
      for (int i = 0; i < T::BLOCKS * T::PARTS; ++i, out.advance()) {
        ptx::mbarrier_wait(&smem.ready[group][out.slot], out.parity);  // C and the bias have landed
#pragma unroll
        for (int j = 0; j < T::BOXES; ++j) {
          const float* sums = &acc[i / T::PARTS][(i % T::PARTS * T::BOXES + j) * T::SUMS];
          const auto* bias = &smem.bias[group][out.slot].of[j * T::BOX * T::F::INPUTS];
          if constexpr (T::SIDEWAYS) {
            block::finish_sideways<typename T::F>(sums, smem.d[group][out.slot][j], bias,
                                                  epilogue.alpha, epilogue.beta, epilogue.c);
          } else {
            block::finish_box<typename T::F>(sums, smem.d[group][out.slot][j], bias, epilogue.alpha,
                                             epilogue.beta, epilogue.c);
          }
        }
        ptx::fence_proxy_async_shared_cta();  // TMA will read what was staged
        ptx::bar_warp_sync();
        if (lane == 0) ptx::mbarrier_arrive(&smem.staged[group][out.slot]);
      }
    }
  }
}

template <class T>
void launch(const FusedArgs& g) {
  using Out = typename T::Out;
  const FusedArgs of = T::SIDEWAYS ? ladder::on_its_side(g) : g;  // what is multiplied
  const int rows = tile::fused_rows(T::C, g.m), box_rows = T::EVEN ? rows : T::ROWS;
  const CUtensorMap map_a =
      ladder::tensor_map_2d(of.a, of.m, of.k, of.lda, rows / T::CLUSTER_N, T::BK, of.n);
  const CUtensorMap map_b = ladder::tensor_map_2d(of.b, of.n, of.k, of.ldb, T::BN, T::BK, of.m);
  auto* const d = static_cast<Out*>(g.d);
  const int whole = std::max(1, g.columns() / T::CHUNK * T::CHUNK);  // TMA writes none beyond
  const CUtensorMap map_d = ladder::tensor_map_2d(d, g.m, whole, g.ldd, box_rows, T::BOX);
  const auto* const c = static_cast<const Out*>(g.c);
  const auto* const bias = static_cast<const Out*>(g.bias);
  const Epilogue epilogue = {g.alpha, g.beta, g.reads_c(), bias != nullptr};
  // A map that is not used is another one.
  const CUtensorMap map_c =
      epilogue.c ? ladder::tensor_map_2d(c, g.m, g.n, g.ldc, box_rows, T::BOX) : map_d;
  const CUtensorMap map_bias =
      epilogue.bias ? ladder::tensor_map_2d(bias, 1, g.n, (g.n + 7LL) / 8 * 8, 1, T::BIAS) : map_d;
  ladder::allow_smem(gemm<T>, sizeof(Smem<T>));
  const int blocks = tile::ceil_div(of.m, T::BM) * tile::ceil_div(of.n, T::BN * T::CLUSTER_N);
  const int at_once = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  const bool early = ladder::starts_early_behind_loads<T>(blocks, at_once, of.m, of.n, of.k);
  const ladder::Launch config(std::min(blocks, at_once) * T::CLUSTER, T::THREADS, sizeof(Smem<T>),
                              T::CLUSTER, early, g);
  ladder::check_cuda(cudaLaunchKernelEx(&config.config, gemm<T>, map_a, map_b, map_c, map_bias,
                                        map_d, d, g.ldd, g.m, g.n, g.k, epilogue,
                                        ladder::raster_group<T>(at_once, of.m, of.n, 2LL * g.k)),
                     "launch of fused_epilogue::gemm");
}

// By the cost model, in microseconds.
template <class T>
double predicted_us(const FusedArgs& args) {
  const FusedArgs g = T::SIDEWAYS ? ladder::on_its_side(args) : args;
  const tile::Gpu gpu = ladder::gpu();
  const int ctas = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g) * T::CLUSTER;
  return tile::fused_clocks(T::C, g.m, g.n, g.k, ctas, gpu, g.lda, g.ldb) / gpu.mhz;
}

template <class Row>
ladder::Variant variant(const char* name) {
  constexpr tile::FusedTile C = tile::FUSED_CONFIGURATIONS[Row::ROW];
  using T = Tile<typename Row::F, typename Row::Out, C.consumers, C.blocks, C.bn, C.cluster_n,
                 C.split, C.sideways>;
  ladder::Variant kernel = {
      .name = name,
      .what = "one activation, type and tile",
      .kernel = ladder::persistent_kernel<T>(launch<T>, gemm<T>, sizeof(Smem<T>)),
      .predicted_us = predicted_us<T>};
  kernel.kernel.cluster_n *= T::SPLIT;  // CTAs that share a tile's K
  return kernel;
}

// The functors stand in the order of their codes in common/host/ladder.h.
const std::vector<ladder::Variant>& kernels() {
  using namespace block;
  static const auto all = ladder::fused_kernels<Identity, Relu, Gelu, GeluTanh, Silu, SwiGlu>(
      [](auto row, const char* name) { return variant<decltype(row)>(name); });
  return all;
}

static const ladder::Registrar registrar(
    __FILE__, "alpha, beta, C, bias and an activation while the tile is in registers",
    ladder::with_chooser<kernels, FusedArgs>());

}  // namespace fused_epilogue
