// Rung 14: operands of 8 bits, and a scale for every 128 of K.
//
// Idea       the tensor cores sum 128 of K at a time; the CUDA cores multiply each such sum by its
//            scales and add it to an fp32 accumulator of their own, the promotion.
// Limited by its bytes: bf16 takes two for what e4m3 and s8 say in one, at half the tensor cores' rate.
// New PTX    wgmma of .e4m3 and of .s8, ld.global.nc.f32
// Tile       128x128x128 a CTA, 384 threads, 4 slots: 131,136 bytes
// Grown from stages/11_autotuned.cu
// Read       docs/14_block_scaled.md
#include <algorithm>
#include <type_traits>

#include "common/block/store_tile.cuh"
#include "common/host/block_scaled.h"
#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/tensor_map.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/fma.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/warp.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/ptx/wgmma_fp8.cuh"
#include "common/tile/descriptor.h"
#include "common/tile/fragment.h"
#include "common/tile/math.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"

namespace block_scaled {

using ladder::bf16;
using ladder::BlockScaledArgs;

// PROMOTE: every 128 of K; else once, at the end, which wants one scale for each operand.
template <class In_, bool PROMOTE_>
struct Tile {
  using In = In_;
  using Sum = std::conditional_t<std::is_same_v<In, ladder::s8>, int, float>;
  static constexpr bool PROMOTE = PROMOTE_;
  static constexpr int CONSUMERS = 2;                             // warpgroups that multiply
  static constexpr int WM = 64;                                   // of a consumer: 64 x BN
  static constexpr int BM = WM * CONSUMERS, BN = 128, BK = 128;   // of a CTA
  static constexpr int WK = 32;                                   // of one wgmma
  static constexpr int THREADS = 128 + CONSUMERS * 128;           // warpgroup 0 is the producer
  static constexpr int DEPTH = 4;                                 // slots in the ring
  static constexpr int TX_BYTES = (BM + BN) * BK;                 // TMA brings one slot
  static constexpr int CLUSTER_M = 1, CLUSTER_N = 1, GROUP = 16;  // no clusters
  static constexpr int PRODUCER_REGS = 40, CONSUMER_REGS = 232;
  static_assert(BK == tile::SWIZZLE_ROW_BYTES, "a row of the tile is a row of the swizzle");
  static_assert(BK == ladder::SCALE_BLOCK && BN == ladder::SCALE_BLOCK,
                "a slot has one scale of B");
  static_assert(128 * PRODUCER_REGS + CONSUMERS * 128 * CONSUMER_REGS <= 65536,
                "an SM has 65,536 registers: 128 * 40 + 256 * 232 = 64,512");
};

template <class T>
struct alignas(1024) Smem {
  tile::SmemTile<typename T::In, T::BM, T::BK> a[T::DEPTH];
  tile::SmemTile<typename T::In, T::BN, T::BK> b[T::DEPTH];
  uint64_t full[T::DEPTH];   // the producer's arrival, and TX_BYTES
  uint64_t empty[T::DEPTH];  // one arrival a consumer warp
};

// Starts sum += A · B^T for one slot: A [64][128] of the warpgroup, B [BN][128] of the CTA.
template <class T>
__device__ void multiply_tile(typename T::Sum (&sum)[T::BN / 2], const unsigned char* a,
                              const unsigned char* b, bool accumulate) {
  const uint64_t a_desc = tile::k_major_128b(ptx::cvta_to_shared(a));
  const uint64_t b_desc = tile::k_major_128b(ptx::cvta_to_shared(b));
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < T::BK; k += T::WK) {
    const uint64_t a_at = tile::advance(a_desc, k), b_at = tile::advance(b_desc, k);
    const bool add = accumulate || k > 0;
    if constexpr (std::is_same_v<typename T::Sum, int>) {
      ptx::wgmma_m64nNk32_s32_s8_s8<T::BN>(sum, a_at, b_at, add);
    } else {
      ptx::wgmma_m64nNk32_f32_e4m3_e4m3<T::BN>(sum, a_at, b_at, add);
    }
  }
  ptx::wgmma_commit_group();
}

// Of a block of K, the scales of the thread's two rows; 0 of rows beyond m.
__device__ inline void load_scales(float (&scale)[2], const float* scale_a, float scale_b, int row,
                                   int m) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = row + half * 8;
    scale[half] = at < m ? ptx::ld_global_nc_f32(scale_a + at) * scale_b : 0;
  }
}

template <class T>
__global__ __launch_bounds__(T::THREADS, 1) void gemm(const __grid_constant__ CUtensorMap map_a,
                                                      const __grid_constant__ CUtensorMap map_b,
                                                      const float* scale_a, long long ld_scale_a,
                                                      const float* scale_b, long long ld_scale_b,
                                                      bf16* d, long long ldd, int m, int n, int k) {
  // --- setup -------------------------------------------------------------------------------------
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  Smem<T>& smem = *reinterpret_cast<Smem<T>*>(smem_bytes);
  const int k_tiles = tile::ceil_div(k, T::BK);
  const tile::ClusterTiles<T> tiles(m, n, blockIdx.x, gridDim.x, 0);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], 1);
      ptx::mbarrier_init(&smem.empty[slot], T::CONSUMERS * 4);
    }
    ptx::fence_mbarrier_init();  // before TMA counts bytes on them
  }
  ptx::bar_sync();  // before the other threads wait on them

  if (threadIdx.x < 128) {
    // --- producer: one thread of warp 0 fills the ring -------------------------------------------
    ptx::setmaxnreg_dec<T::PRODUCER_REGS>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      tile::RingState<T::DEPTH> ring;
      for (auto t = tiles; t.has(); t.next()) {
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
          uint64_t* full = &smem.full[ring.slot];
          ptx::mbarrier_wait(&smem.empty[ring.slot], ring.parity ^ 1);  // a fresh ring is empty
          ptx::mbarrier_arrive_expect_tx(full, T::TX_BYTES);
          ptx::cp_async_bulk_tensor_2d_g2s(smem.a[ring.slot].bytes, &map_a, k_tile * T::BK, t.m0(),
                                           full);
          ptx::cp_async_bulk_tensor_2d_g2s(smem.b[ring.slot].bytes, &map_b, k_tile * T::BK, t.n0(),
                                           full);
        }
      }
    }
  } else {
    // --- consumers: each warpgroup multiplies its 64 rows ----------------------------------------
    ptx::setmaxnreg_inc<T::CONSUMER_REGS>();
    const int group_m = (threadIdx.x / 128 - 1) * T::WM;  // the warpgroup's first row in the tile
    const int lane = threadIdx.x % 32;
    const int thread_m = group_m + threadIdx.x / 32 % 4 * 16 + tile::acc_row(lane, 0);
    float acc[T::BN / 2];            // D [64][BN] of the warpgroup
    typename T::Sum sum[T::BN / 2];  // of one block of K, or, without promotion, of all
    tile::RingState<T::DEPTH> ring;
    for (auto t = tiles; t.has(); t.next()) {
      const float* const row_of_b = scale_b + t.n0() / ladder::SCALE_BLOCK * ld_scale_b;
#pragma unroll
      for (int i = 0; i < T::BN / 2; ++i) acc[i] = 0;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ring.advance()) {
        float scale[2];
        load_scales(scale, scale_a + k_tile * ld_scale_a, ptx::ld_global_nc_f32(row_of_b + k_tile),
                    t.m0() + thread_m, m);
        ptx::mbarrier_wait(&smem.full[ring.slot], ring.parity);  // the whole tile has landed
        multiply_tile<T>(sum, smem.a[ring.slot].from_row(group_m), smem.b[ring.slot].bytes,
                         !T::PROMOTE && k_tile > 0);
        ptx::wgmma_wait_group<0>();  // meanwhile the other warpgroup's products run
        if (lane == 0) ptx::mbarrier_arrive(&smem.empty[ring.slot]);
        if (!T::PROMOTE && k_tile + 1 < k_tiles) continue;
#pragma unroll
        for (int i = 0; i < T::BN / 2; ++i) {
          acc[i] = ptx::fma_rn_f32(static_cast<float>(sum[i]), scale[i % 4 / 2], acc[i]);
        }
      }

      // --- epilogue ------------------------------------------------------------------------------
      block::store_tile<T>(acc, d, ldd, t.m0() + group_m, t.n0(), m, n);
    }
  }
}

template <class T>
void launch(const BlockScaledArgs& g) {
  using In = typename T::In;
  const auto map = [&](const void* base, int rows, long long ld, int box_rows) {
    return ladder::tensor_map_2d(static_cast<const In*>(base), rows, g.k, ld, box_rows, T::BK);
  };
  const CUtensorMap map_a = map(g.a, g.m, g.lda, T::BM), map_b = map(g.b, g.n, g.ldb, T::BN);
  const int tiles = tile::ceil_div(g.m, T::BM) * tile::ceil_div(g.n, T::BN);
  const int max_ctas = g.max_ctas > 0 ? g.max_ctas : ladder::sm_count();
  ladder::check_cuda(
      cudaFuncSetAttribute(gemm<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem<T>)),
      "shared memory of block_scaled::gemm");
  gemm<T><<<std::min(tiles, max_ctas), T::THREADS, sizeof(Smem<T>), g.stream>>>(
      map_a, map_b, g.scale_a, g.ld_scale_a, g.scale_b, g.ld_scale_b, g.d, g.ldd, g.m, g.n, g.k);
  ladder::check_cuda(cudaGetLastError(), "launch of block_scaled::gemm");
}

template <class In, bool PROMOTE>
ladder::Variant kernel(const char* name) {
  using T = Tile<In, PROMOTE>;
  return {.name = name,
          .what = "one type",
          .kernel = ladder::persistent_kernel<T>(launch<T>, gemm<T>, sizeof(Smem<T>)),
          .configuration = true,
          .takes = +[](const BlockScaledArgs& g) {
            const bool integers = std::is_same_v<In, ladder::s8>;
            return (g.type == LADDER_S8) == integers && (PROMOTE || g.tensor_scales);
          }};
}

template <bool PROMOTE>
const std::vector<ladder::Variant>& kernels() {
  static const std::vector<ladder::Variant> all = {
      kernel<ladder::e4m3, PROMOTE>(PROMOTE ? "e4m3" : "e4m3_unpromoted"),
      kernel<ladder::s8, PROMOTE>(PROMOTE ? "s8" : "s8_unpromoted")};
  return all;
}

std::vector<ladder::Variant> variants() {
  std::vector<ladder::Variant> all = {
      ladder::whichever_takes_scaled<kernels<true>>("promoted", "promotion every 128 of K")
          .as_result(),
      ladder::whichever_takes_scaled<kernels<false>>("unpromoted", "tensor-wide scales, none")};
  for (const auto* each : {&kernels<true>(), &kernels<false>()}) {
    all.insert(all.end(), each->begin(), each->end());
  }
  return all;
}

static const ladder::Registrar registrar(__FILE__, "8-bit operands, a scale for every 128 of K",
                                         variants());

}  // namespace block_scaled
