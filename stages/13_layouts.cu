// Rung 13: one kernel for any layout and type.
//
// Idea       the matrix descriptor of wgmma and the tensor map of TMA tell how an operand lies in
//            memory: with the right pair the same loops multiply operands that are K-major or
//            MN-major, of bf16, fp16 or tf32, in any swizzle. D leaves in parts that fit the boxes.
// Limited by its assumptions: rung 9 takes bf16 and K-major operands, and nothing else.
// New PTX    wgmma with imm-trans, of .f16, .tf32; st.shared.v2, ld.shared.b32, cvt.f16x2, mov.b32
// Tile       128x256x64 (tf32: 128x256x32) a CTA, 384 threads, 3 slots, 64 KB for D, in clusters of
//            2 CTAs; of a D of few tiles 64x64 to 192x144, also where 2 to 8 CTAs share a tile's K
// Grown from stages/09_async_epilogue.cu
// Read       docs/13_layouts.md
#include <algorithm>
#include <string>
#include <type_traits>

#include "common/block/add_up.cuh"
#include "common/block/clear_rows.cuh"
#include "common/block/load_slice.cuh"
#include "common/block/ring_slot.cuh"
#include "common/block/stage_transposed.cuh"
#include "common/block/stage_typed_box.cuh"
#include "common/block/store_last_elements.cuh"
#include "common/host/configurations.h"
#include "common/host/error.h"
#include "common/host/launch.h"
#include "common/host/registry.h"
#include "common/host/tensor_map.h"
#include "common/host/typed.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/griddepcontrol.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/ptx/wgmma_typed.cuh"
#include "common/tile/even_rows.h"
#include "common/tile/math.h"
#include "common/tile/operand_tile.h"
#include "common/tile/registers.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"
#include "common/tile/typed_tiles.h"

namespace layouts {

using ladder::bf16;
using ladder::TypedArgs;
using tile::Major;

// Operands of In, D of Out; rows of SPAN bytes in shared memory, swizzled with as many (16: none).
// On its side it is a tile of D^T = op(B)^T · op(A)^T, which is one more layout: its first operand
// lies as B does, its second as A. Its rows are columns of D, its BN columns rows of D.
template <class In_, class Out_, Major A, Major B, int SPAN, int CONSUMERS_, int BN_,
          int CLUSTER_M_, int CLUSTER_N_, int SPLIT_, bool SIDEWAYS_>
struct Tile {
  using In = In_;
  using Out = Out_;
  static constexpr bool SIDEWAYS = SIDEWAYS_;
  static constexpr int CONSUMERS = CONSUMERS_;        // warpgroups that multiply
  static constexpr int WM = 64, BM = WM * CONSUMERS;  // of a consumer warpgroup: 64 x BN
  static constexpr int BN = BN_;                      // of a CTA: BM x BN
  static constexpr int BK = 128 / int{sizeof(In)};    // 128 bytes of K, four wgmma
  static constexpr int WK = 32 / int{sizeof(In)};     // of one wgmma, 32 bytes
  template <Major MAJOR, int MN>
  using Operand = tile::OperandTile<MAJOR, SPAN, sizeof(In), MN, BK>;
  using TileA = Operand<SIDEWAYS ? B : A, BM>;
  using TileB = Operand<SIDEWAYS ? A : B, BN>;
  static constexpr int THREADS = 128 + CONSUMERS * 128;  // warpgroup 0: producer, storers
  static constexpr int CLUSTER_M = CLUSTER_M_, CLUSTER_N = CLUSTER_N_;  // CTAs along M and N
  static constexpr int SHARERS = CLUSTER_M * CLUSTER_N;                 // of loads
  static constexpr int SPLIT = SPLIT_, CLUSTER = SHARERS * SPLIT;       // or of one tile's K
  // Rows of an operand that one of so many CTAs loads for all of them: MN-major, whole panels.
  template <class Of>
  static constexpr int slice(int sharers) {
    if (Of::MAJOR == Major::K) return Of::MN / sharers;
    return tile::ceil_div(Of::MN / Of::WIDTH, sharers) * Of::WIDTH;
  }
  static constexpr int SLICE_A = slice<TileA>(CLUSTER_N);          // for its row of the cluster
  static constexpr int SLICE_B = slice<TileB>(CLUSTER_M);          // for its column
  static constexpr int GROUP = SHARERS == 1 ? 8 : 16 / CLUSTER_M;  // rows swept together
  static constexpr int IN_FLIGHT = SHARERS == 1 || CONSUMERS == 1 ? 1 : 0;  // one K step more
  // Tiles of few rows may have fewer than BM: K-major, where a row more is a row more of a panel.
  static constexpr bool EVEN = CONSUMERS == 1 && TileA::MAJOR == Major::K && !SIDEWAYS;
  // The first FINISHERS of the CTAs that share a tile's K add up what all have of SHARE columns.
  static constexpr int CHUNK = 16 / int{sizeof(Out)};  // elements of D that TMA writes at least
  static constexpr int SHARE = SPLIT == 1 ? BN : std::max(BN / SPLIT, CHUNK == 8 ? 16 : 32);
  static constexpr int FINISHERS = BN / SHARE;
  static constexpr int EXCHANGE_BYTES = SPLIT > 1 ? SPLIT* BM* SHARE * 4 : 0;
  // A consumer's block is stored ROWS x BOX by box, as many boxes at a time as there is memory for.
  static constexpr int ROWS = SIDEWAYS ? BN : WM, BOX = std::min(SHARE, 128 / int{sizeof(Out)});
  static constexpr int ALL_OF_D = BM * SHARE * int{sizeof(Out)};
  static constexpr int PARTS = ALL_OF_D > 64 * 1024 ? 2 : 1;
  static constexpr int BOXES = SIDEWAYS ? 1 : SHARE / BOX / PARTS;
  static constexpr int SLOT_BYTES = sizeof(TileA) + sizeof(TileB);
  static constexpr int DEPTH = (tile::MAX_SMEM_BYTES - 1024 - ALL_OF_D / PARTS - EXCHANGE_BYTES) /
                               SLOT_BYTES;  // slots in the ring; 1024: barriers and padding
  static constexpr int PRODUCER_REGS = 56, CONSUMER_REGS = CONSUMERS == 3 ? 152 : 224;
  static_assert(SLICE_A % 8 == 0 && SLICE_B % 8 == 0, "a slice has whole swizzle atoms of a panel");
  static_assert(SIDEWAYS ? PARTS == 1 : PARTS * BOXES * BOX == SHARE,
                "whole boxes: of 64 columns, or of 32 where D is fp32");
  static_assert(SPLIT == 1 || (SHARERS == 1 && !SIDEWAYS), "upright tiles share K, and no loads");
  static_assert(FINISHERS * SHARE == BN && FINISHERS <= SPLIT, "all columns are added up");
  static_assert(DEPTH >= 3, "three slots: one multiplied, one landing, one asked for");
  static_assert(CONSUMERS <= 3, "the storers are warps 1 to 3: one for each consumer");
  static_assert(128 * PRODUCER_REGS + CONSUMERS * 128 * CONSUMER_REGS <= tile::launch_regs(THREADS),
                "more than the launch gives; tile::consumer_regs(THREADS, 1, PRODUCER_REGS) fit");
};

template <class T>
struct alignas(1024) Smem {
  typename T::TileA a[T::DEPTH];
  typename T::TileB b[T::DEPTH];
  tile::SmemTile<typename T::Out, T::ROWS, T::BOX> d[T::CONSUMERS][T::BOXES];
  uint64_t full[T::DEPTH];        // the producer's arrival, and a slot's bytes
  uint64_t empty[T::DEPTH];       // one arrival a consumer warp of the cluster
  uint64_t staged[T::CONSUMERS];  // boxes are written: one arrival a warp
  uint64_t stored[T::CONSUMERS];  // TMA has read them: the storer's arrival
  [[no_unique_address]] block::Sums<T> sums;
};

// Loads this CTA's SLICE rows of an operand, from row `first` of its tile on, into every CTA that
// shares them: a box a panel, or, if K-major, the part of a panel. The tile begins at [mn0][k0]. Of
// a tile of fewer panels than come out even, the last CTAs load fewer or none.
template <int SHARERS, int SLICE, class Operand>
__device__ void load_operand(Operand& operand, const CUtensorMap* map, int mn0, int k0, int first,
                             uint64_t* full, uint16_t cta_mask) {
  constexpr bool BY_K = Operand::MAJOR == Major::K, EVENLY = SHARERS * SLICE == Operand::MN;
  const int end = BY_K ? Operand::BK : EVENLY ? SLICE : min(SLICE, Operand::MN - first);
#pragma unroll 2
  for (int along = 0; along < end; along += Operand::WIDTH) {
    const int mn = BY_K ? first : first + along, k = BY_K ? along : 0;
    block::load_slice<SHARERS>(operand.at(mn, k), map, BY_K ? k0 + k : mn0 + mn,
                               BY_K ? mn0 + mn : k0, full, cta_mask);
  }
}

// Starts acc += A · B^T for one slot: 64 rows of A and BN of B, by their descriptors.
template <class T>
__device__ void multiply_tile(float (&acc)[T::BN / 2], uint64_t a_desc, uint64_t b_desc,
                              bool accumulate) {
  constexpr int TRANS_A = T::TileA::MAJOR == Major::MN, TRANS_B = T::TileB::MAJOR == Major::MN;
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < T::BK; k += T::WK) {
    const uint64_t a = tile::advance(a_desc, T::TileA::offset(0, k));
    const uint64_t b = tile::advance(b_desc, T::TileB::offset(0, k));
    const bool add = accumulate || k > 0;
    if constexpr (std::is_same_v<typename T::In, bf16>) {
      ptx::wgmma_m64k16_f32_bf16_bf16<T::BN, TRANS_A, TRANS_B>(acc, a, b, add);
    } else if constexpr (std::is_same_v<typename T::In, ladder::fp16>) {
      ptx::wgmma_m64k16_f32_f16_f16<T::BN, TRANS_A, TRANS_B>(acc, a, b, add);
    } else {
      ptx::wgmma_m64k8_f32_tf32_tf32<T::BN>(acc, a, b, add);
    }
  }
  ptx::wgmma_commit_group();
}

template <class T>
__global__ __launch_bounds__(T::THREADS, 1) void gemm(const __grid_constant__ CUtensorMap map_a,
                                                      const __grid_constant__ CUtensorMap map_b,
                                                      const __grid_constant__ CUtensorMap map_d,
                                                      typename T::Out* d, long long ldd, int m,
                                                      int n, int k) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int k_tiles = tile::ceil_div(k, T::BK);
  const int clusters = gridDim.x / T::CLUSTER, cluster = blockIdx.x / T::CLUSTER;
  const int rank = T::SHARERS > 1 ? ptx::cluster_ctarank() : 0;
  const int rank_k = T::SPLIT > 1 ? ptx::cluster_ctarank() : 0;  // its K steps: begin to end
  const int begin = tile::share_begin(k_tiles, rank_k, T::SPLIT);
  const int end = tile::share_begin(k_tiles, rank_k + 1, T::SPLIT);
  const int rank_m = rank / T::CLUSTER_N, rank_n = rank % T::CLUSTER_N;
  const tile::ClusterTiles<T> tiles(T::SIDEWAYS ? n : m, T::SIDEWAYS ? m : n, cluster, clusters,
                                    rank);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    ptx::prefetch_tensormap(&map_d);
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], 1);
      ptx::mbarrier_init(&smem.empty[slot], T::CONSUMERS * 4 * T::SHARERS);
    }
    for (int i = 0; i < T::CONSUMERS; ++i) {
      ptx::mbarrier_init(&smem.staged[i], 4);
      ptx::mbarrier_init(&smem.stored[i], 1);
    }
    if constexpr (T::SPLIT > 1) block::expect_sums<T>(smem.sums);
    ptx::fence_mbarrier_init();  // before TMA counts bytes, and peers arrive, on them
  }
  const int rows = T::EVEN ? tile::even_rows(T::BM, m) : T::BM;  // of a tile
  if constexpr (T::EVEN) {  // wgmma reads the others all the same: zeros
    block::clear_rows<T::TileA::SPAN, T::THREADS>(smem.a, T::DEPTH, rows);
  }
  if constexpr (T::CLUSTER == 1) ptx::bar_sync();  // before any thread uses the barriers
  if constexpr (T::SHARERS > 1) ptx::barrier_cluster_sync();
  if constexpr (T::SPLIT > 1) ptx::barrier_cluster_sync_shared();  // as rung 17: calls are short
  ptx::griddepcontrol_wait();  // A, B and D may be in use by the kernel before until here

  if (threadIdx.x < 128) {
    // --- producer: one thread of warp 0 fills the ring -------------------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      // A is shared by the CTAs of a cluster row, B by those of a cluster column.
      const uint16_t mask_a = ((1 << T::CLUSTER_N) - 1) << (rank_m * T::CLUSTER_N);
      uint16_t mask_b = 0;
      for (int i = 0; i < T::CLUSTER_M; ++i) mask_b |= 1 << (i * T::CLUSTER_N + rank_n);
      const int slice_a = rank_n * T::SLICE_A, slice_b = rank_m * T::SLICE_B;  // first row it loads
      const int tx_bytes = sizeof(typename T::TileA) / T::BM * rows + sizeof(typename T::TileB);
      tile::RingState<T::DEPTH> ring;
      for (auto t = tiles; t.has(); t.next()) {
        const int m0 = tile::first_row(t, rows), n0 = t.n0();
        for (int k_tile = begin; k_tile < end; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          // The copies land in the peer too: its consumers must have released the slot as well.
          block::wait_slot<T::SHARERS>(&smem.empty[ring.slot], ring.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, tx_bytes);  // from all CTAs' copies
          load_operand<T::CLUSTER_N, T::SLICE_A>(smem.a[ring.slot], &map_a, m0, k_tile * T::BK,
                                                 slice_a, full, mask_a);
          load_operand<T::CLUSTER_M, T::SLICE_B>(smem.b[ring.slot], &map_b, n0, k_tile * T::BK,
                                                 slice_b, full, mask_b);
        }
      }
      ptx::griddepcontrol_launch_dependents();  // the next kernel may take SMs as they fall free
    }
    // --- storers: warp 1 + i sends what consumer i has staged ------------------------------------
    const int storer = threadIdx.x / 32 - 1;
    if (storer >= 0 && storer < T::CONSUMERS && rank_k < T::FINISHERS) {
      const bool leader = threadIdx.x % 32 == 0;  // starts the copies and waits for them
      uint32_t parity = 0;
      for (auto t = tiles; t.has(); t.next()) {
        const int first = tile::first_row(t, rows) + storer * T::WM;  // of its block
        const int row = T::SIDEWAYS ? t.n0() : first;
        const int n0 = T::SIDEWAYS ? first : t.n0() + rank_k * T::SHARE;
        const int end_row = T::EVEN ? min(m, row + rows) : m;
#pragma unroll 1
        for (int part = 0; part < T::PARTS; ++part, parity ^= 1) {
          ptx::mbarrier_wait(&smem.staged[storer], parity);
#pragma unroll 1
          for (int i = 0; i < T::BOXES; ++i) {
            const int col = n0 + (part * T::BOXES + i) * T::BOX;
            const auto& box = smem.d[storer][i];
            if (leader && row < end_row && col < n / T::CHUNK * T::CHUNK) {
              ptx::cp_async_bulk_tensor_2d_s2g(&map_d, col, row, box.bytes);
              ptx::cp_async_bulk_commit_group();
              ptx::cp_async_bulk_wait_group_read<0>();  // one at a time: loads pass in between
            }
            block::store_last_elements(box, d, ldd, row, col, end_row, n);
          }
          ptx::bar_warp_sync();  // the leader speaks for all
          if (leader) ptx::mbarrier_arrive(&smem.stored[storer]);
        }
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its 64 rows ----------------------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    // In registers where K steps are short, in each of which the compiler would ask for %tid.
    const auto kept = [](int value) { return T::BN == 64 ? ptx::mov_b32(value) : value; };
    const int group = kept(threadIdx.x / 128 - 1), group_m = group * T::WM;  // its first row
    const int lane = kept(threadIdx.x % 32);  // lane r speaks to CTA r of the cluster
    float acc[T::BN / 2];                     // D [64][BN] of the warpgroup
    tile::RingState<T::DEPTH> ring;
    uint32_t parity = 0;
    int turn = 0;  // tiles that the cluster has split
    for (auto t = tiles; t.has(); t.next()) {
      for (int i = 0; T::SPLIT > 1 && i < T::BN / 2; ++i) acc[i] = 0;  // adds 0 without a K step
      int last_slot = 0;
      for (int k_tile = begin; k_tile < end; ++k_tile, ring.advance()) {
        block::wait_slot<T::SHARERS>(&smem.full[ring.slot], ring.parity);  // the tile has landed
        multiply_tile<T>(
            acc, T::TileA::descriptor(ptx::cvta_to_shared(smem.a[ring.slot].at(group_m, 0))),
            T::TileB::descriptor(ptx::cvta_to_shared(smem.b[ring.slot].bytes)), k_tile > begin);
        ptx::wgmma_wait_group<T::IN_FLIGHT>();  // 0: the other warpgroup's products run meanwhile
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
        if (!block::add_up<T>(acc, smem.sums, rank_k, turn++, !t.is_last())) continue;
      }
#pragma unroll
      for (int part = 0; part < T::PARTS; ++part, parity ^= 1) {
        ptx::mbarrier_wait(&smem.stored[group], parity ^ 1);  // the boxes of the last part are read
#pragma unroll
        for (int i = 0; i < T::BOXES; ++i) {
          if constexpr (T::SIDEWAYS) {
            block::stage_transposed<T::BN>(acc, smem.d[group][i]);
          } else {
            block::stage_typed_box(&acc[(part * T::BOXES + i) * T::BOX / 2], smem.d[group][i]);
          }
        }
        ptx::fence_proxy_async_shared_cta();  // TMA will read what was staged
        ptx::bar_warp_sync();
        if (lane == 0) ptx::mbarrier_arrive(&smem.staged[group]);
      }
    }
  }
  // No CTA exits while its peer can still write or arrive there. Sums come to nobody who exits.
  if constexpr (T::SHARERS > 1) ptx::barrier_cluster_sync();
}

// Of an operand [mn][k], or, MN-major, [k][mn]: boxes of a slice's panels.
template <class Operand, class In>
CUtensorMap operand_map(const void* base, int mn, int k, long long ld, int slice, int other_rows) {
  const In* elements = static_cast<const In*>(base);
  if (Operand::MAJOR == Major::K) {
    return ladder::tensor_map_2d(elements, mn, k, ld, slice, Operand::WIDTH, other_rows);
  }
  return ladder::tensor_map_2d(elements, k, mn, ld, Operand::BK, Operand::WIDTH, other_rows);
}

template <class T>
void launch(const TypedArgs& g) {
  using In = typename T::In;
  const TypedArgs of = T::SIDEWAYS ? ladder::on_its_side(g) : g;  // what is multiplied
  const int rows = tile::even_rows(T::BM, of.m);                  // of a tile, if such
  const auto map_a = operand_map<typename T::TileA, In>(of.a, of.m, of.k, of.lda,
                                                        T::EVEN ? rows : T::SLICE_A, of.n);
  const auto map_b = operand_map<typename T::TileB, In>(of.b, of.n, of.k, of.ldb, T::SLICE_B, of.m);
  const int whole = std::max(1, g.n / T::CHUNK * T::CHUNK);  // TMA must not write beyond column n
  auto* d = static_cast<typename T::Out*>(g.d);
  const CUtensorMap map_d =
      ladder::tensor_map_2d(d, g.m, whole, g.ldd, T::EVEN ? rows : T::ROWS, T::BOX);
  ladder::allow_smem(gemm<T>, sizeof(Smem<T>));
  const int blocks = tile::ceil_div(of.m, T::BM * T::CLUSTER_M) *  // of one cluster each
                     tile::ceil_div(of.n, T::BN * T::CLUSTER_N);
  const int at_once = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
  const bool early =
      ladder::starts_early_behind_loads<T>(blocks, at_once, of.m, of.n, of.k, sizeof(In));
  const ladder::Launch config(std::min(blocks, at_once) * T::CLUSTER, T::THREADS, sizeof(Smem<T>),
                              T::CLUSTER, early, g);
  ladder::check_cuda(
      cudaLaunchKernelEx(&config.config, gemm<T>, map_a, map_b, map_d, d, g.ldd, g.m, g.n, g.k),
      "launch of layouts::gemm");
}

// Of row ROW of the table of tiles, for a SPAN: its kernels.
template <int SPAN, int ROW>
std::vector<ladder::Variant> kernels_of() {
  static constexpr tile::TypedTile C = tile::TYPED_TILES[ROW];
  std::string end = C.name;
  if (SPAN < 128) end.append("_").append(std::to_string(SPAN));
  const auto make = [&]<class In, class Out, bool MN_A, bool MN_B>(const char* name) {
    using T = Tile<In, Out, MN_A ? Major::MN : Major::K, MN_B ? Major::MN : Major::K, SPAN,
                   C.consumers, C.bn, C.cluster_m, C.cluster_n, C.split, C.sideways>;
    ladder::Variant kernel = {
        .name = name,
        .what = "one type, layout and tile",
        .kernel = ladder::persistent_kernel<T>(launch<T>, gemm<T>, sizeof(Smem<T>))};
    kernel.kernel.cluster_n *= C.split;  // CTAs that share a tile's K
    if (SPAN == 128) {
      kernel.predicted_us = +[](const TypedArgs& g) {
        const int at_once = ladder::clusters_at_once<T>(gemm<T>, sizeof(Smem<T>), g);
        return tile::typed_clocks(C, MN_A, sizeof(In), g.m, g.n, g.k, g.lda, g.ldb, at_once) /
               ladder::gpu().mhz;
      };
    }
    return kernel;
  };
  if constexpr (C.kernels == tile::TypedKernels::K_MAJOR_A) {
    return ladder::variants_of_major_a<false>(end, make);
  } else if constexpr (C.kernels == tile::TypedKernels::MN_MAJOR_A) {
    return ladder::variants_of_major_a<true>(end, make);
  } else if constexpr (C.kernels == tile::TypedKernels::SAME_TYPE) {
    return ladder::variants_of_same_types(end, make);
  } else {
    return ladder::variants_of_types<SPAN == 128>(end, make);
  }
}

// Those with rows of 128 bytes have all tiles; the other swizzles, which show what that one is
// worth and are not chosen, have the first.
template <int SPAN>
const std::vector<ladder::Variant>& kernels() {
  constexpr int ROWS = SPAN == 128 ? std::size(tile::TYPED_TILES) : 1;
  static const auto all = ladder::variants_of_each<ROWS>(
      [](auto row) { return kernels_of<SPAN, decltype(row)::value>(); });
  return all;
}

std::vector<ladder::Variant> variants() {
  std::vector<ladder::Variant> all = {
      ladder::whichever_takes<kernels<128>>("swizzle128", "rows of 128 bytes").as_result(),
      ladder::whichever_takes<kernels<64>>("swizzle64", "rows of 64 bytes, bf16"),
      ladder::whichever_takes<kernels<32>>("swizzle32", "rows of 32 bytes, bf16"),
      ladder::whichever_takes<kernels<16>>("no_swizzle", "rows of 16 bytes, bf16")};
  for (const auto* each : {&kernels<128>(), &kernels<64>(), &kernels<32>(), &kernels<16>()}) {
    all.insert(all.end(), each->begin(), each->end());
  }
  return all;
}

static const ladder::Registrar registrar(__FILE__, "descriptors for any layout and type",
                                         variants());

}  // namespace layouts
