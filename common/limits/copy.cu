// What TMA can move: from L2 or DRAM into shared memory, and back to DRAM.
//
// Memory is a matrix of 64 columns of bf16, so that a box of rows is one piece, or of some more of
// which 64 are read. CTAs, or groups of them, take its boxes in turns: at any time they are at
// neighbouring ones. Or of long rows, as weights are: then each CTA goes along rows of its own.
#include <algorithm>
#include <map>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/tensor_map.h"
#include "common/host/text.h"
#include "common/limits/limit.h"
#include "common/limits/operand.h"
#include "common/limits/stamp.cuh"
#include "common/ptx/barrier.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/mma.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/swizzle.h"

namespace limits {

using ladder::check_cuda;
using ladder::Data;
using ladder::DeviceBuffer;

constexpr int COLS = 64;                // of the matrix and of a box: one row of the swizzle
constexpr int ROW_BYTES = COLS * 2;     // 128
constexpr int THREADS = 128;            // warp 0 asks, warp 1 sees it land, all add up
constexpr int MMA_WARPS = 8;            // more of them, which only draw power
constexpr int RING_BYTES = 192 * 1024;  // what is on its way to one SM
constexpr long long L2_FOOTPRINT = 16ll << 20;        // stays in the L2 of every Hopper GPU
constexpr long long DRAM_FOOTPRINT = 4ll << 30;       // many times what L2 holds
constexpr long long MACHINE_FOOTPRINT = 512ll << 10;  // a CTA; the PTX machine has no cache
constexpr int ROW_BOXES = 64;  // of a matrix of long rows: 64 · 64 elements, 8 KiB
constexpr uint64_t SEED = 1;

// The boxes that a CTA takes: of `count`, every `stride`th run of SIDE_BY_SIDE from the `first` on,
// over and over.
template <int SIDE_BY_SIDE = 1>
struct Walk {
  int index, stride, count;

  __host__ __device__ Walk(int first, int stride_, int count_)
      : index(first * SIDE_BY_SIDE % count_), stride(stride_), count(count_) {}
  // Returns whether it has come round to where it began, if stride divides the runs.
  __host__ __device__ bool advance() {
    if (SIDE_BY_SIDE > 1 && ++index % SIDE_BY_SIDE > 0) return false;
    index += SIDE_BY_SIDE > 1 ? (stride - 1) * SIDE_BY_SIDE : stride;
    if (index < count) return false;
    while (index >= count) index -= count;
    return true;
  }
};

// How the CTAs of a cluster get a box: each asks for a slice of it on behalf of all, or each for all
// of it by itself. A cluster lies in one GPC, so what the GPC merges is merged there.
enum class Sharing { multicast, each_by_itself };

template <int BOX_ROWS_, int CLUSTER_, Sharing SHARING = Sharing::multicast,
          bool MULTIPLIES_ = false, int SIDE_BY_SIDE_ = 1>
struct ReadTile {
  static constexpr int SIDE_BY_SIDE = SIDE_BY_SIDE_;  // boxes in a row of the matrix
  static constexpr int BOX_ROWS = BOX_ROWS_, CLUSTER = CLUSTER_;
  static constexpr bool MULTICAST = CLUSTER > 1 && SHARING == Sharing::multicast;
  static constexpr bool MULTIPLIES = MULTIPLIES_;  // MMA_WARPS more warps, for their power
  static constexpr int ALL_THREADS = THREADS + (MULTIPLIES ? MMA_WARPS * 32 : 0);
  static constexpr int BOX_BYTES = BOX_ROWS * ROW_BYTES;
  static constexpr int DEPTH = RING_BYTES / BOX_BYTES;                     // slots in the ring
  static constexpr int SLICE_ROWS = BOX_ROWS / (MULTICAST ? CLUSTER : 1);  // that each CTA asks for
};

template <int DEPTH, int BOX_BYTES>
struct alignas(1024) RingSmem {
  unsigned char box[DEPTH][BOX_BYTES];  // [DEPTH][rows][64] bf16, 128-byte swizzle
  uint64_t full[DEPTH];                 // one arrival, and BOX_BYTES
  uint64_t empty[DEPTH];                // one arrival a CTA of the cluster, and one a warp of mma
};

// What the words of a box add up to, each times an odd number of its place, so that boxes, rows or
// words in each other's place are seen: words [rows][32], their places in the matrix's order.
template <class Word>
__host__ __device__ uint32_t weighted_sum(int rows, int first, int step, const Word& word) {
  uint32_t sum = 0;
  for (int place = first; place < rows * (COLS / 2); place += step) {
    sum += static_cast<uint32_t>(2 * place + 1) * word(place / (COLS / 2), place % (COLS / 2) * 2);
  }
  return sum;
}

// The words of a slot, as weighted_sum takes them.
struct SlotWords {
  const unsigned char* slot;  // [rows][64] bf16, 128-byte swizzle
  __device__ uint32_t operator()(int row, int col) const {
    return *reinterpret_cast<const uint32_t*>(
        &slot[tile::swizzle_128b(row, col / 8) + col % 8 * 2]);
  }
};

// mma.sync with each box of the ring, at about four fifths of the rate that the tensor cores could
// keep while boxes arrive as fast as L2 gives them: less would leave the clock high, more would hold
// the boxes up. One warp; the operands are 768 words of its part of the first box, 24 of each lane.
// products [32].
template <int DEPTH, int BOX_BYTES>
__device__ void multiply_meanwhile(RingSmem<DEPTH, BOX_BYTES>& smem, int boxes, float* products) {
  constexpr int REPEATS = 3;  // of 16 mma.sync a box and warp: 3 · 16 · 4096 FLOP
  const int warp = threadIdx.x / 32 - THREADS / 32, lane = threadIdx.x % 32;
  uint32_t a_frag[2][4] = {}, b_frag[8][2] = {};
  float acc[2][8][4] = {};
  tile::RingState<DEPTH> ring;
  for (int i = 0; i < boxes; ++i, ring.advance()) {
    ptx::mbarrier_wait_cluster(&smem.full[ring.slot], ring.parity);  // the box has landed
    if (i == 0) {
      const auto* words = reinterpret_cast<const uint32_t*>(smem.box[0]) + warp * 24 * 32 + lane;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        a_frag[j / 4][j % 4] = words[j * 32];
        b_frag[j][0] = words[(8 + j) * 32];
        b_frag[j][1] = words[(16 + j) * 32];
      }
      ptx::fence_proxy_async_shared_cta();  // before TMA writes the slot again
    }
#pragma unroll
    for (int j = 0; j < REPEATS * 16; ++j) {
      ptx::mma_m16n8k16(acc[j / 8 % 2][j % 8], a_frag[j / 8 % 2], b_frag[j % 8][0],
                        b_frag[j % 8][1]);
    }
    ptx::bar_warp_sync();  // all lanes have read
    if (lane == 0) ptx::mbarrier_arrive(&smem.empty[ring.slot]);
  }
  float total = 0;
#pragma unroll
  for (int j = 0; j < 64; ++j) total += acc[j / 32][j / 4 % 8][j % 4];
  products[lane] = total;
}

// Reads `boxes` boxes a CTA; the CTAs of a cluster read the same ones, none more than a ring ahead.
// sums [ctas][DEPTH][THREADS]: weighted_sum of what the slots hold in the end, a part each.
// products [ctas][MMA_WARPS][32], if the tile multiplies.
template <class T>
__global__ __cluster_dims__(T::CLUSTER, 1, 1)
    __launch_bounds__(T::ALL_THREADS, 1) void tma_read(const __grid_constant__ CUtensorMap map,
                                                       int boxes, int count, uint32_t* sums,
                                                       float* products, Stamp* stamps) {
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  using Smem = RingSmem<T::DEPTH, T::BOX_BYTES>;
  Smem& smem = *reinterpret_cast<Smem*>(smem_bytes);
  const int rank = ptx::cluster_ctarank();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map);
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], 1);
      ptx::mbarrier_init(&smem.empty[slot], T::CLUSTER + (T::MULTIPLIES ? MMA_WARPS : 0));
    }
    ptx::fence_mbarrier_init();  // before TMA counts bytes, and peers arrive, on them
  }
  ptx::barrier_cluster_sync();  // before any thread of the cluster uses them

  tile::RingState<T::DEPTH> ring;
  if (threadIdx.x == 0) {
    stamp(stamps, 0);
    Walk<T::SIDE_BY_SIDE> walk(blockIdx.x / T::CLUSTER, gridDim.x / T::CLUSTER, count);
    for (int i = 0; i < boxes; ++i, ring.advance(), walk.advance()) {
      uint64_t* full = &smem.full[ring.slot];
      ptx::mbarrier_wait_cluster(&smem.empty[ring.slot], ring.parity ^ 1);
      ptx::mbarrier_arrive_expect_tx(full, T::BOX_BYTES);
      const int slice = T::MULTICAST ? rank * T::SLICE_ROWS : 0;  // the first row it loads
      unsigned char* dst = &smem.box[ring.slot][slice * ROW_BYTES];
      const int col = walk.index % T::SIDE_BY_SIDE * COLS;
      const int row = walk.index / T::SIDE_BY_SIDE * T::BOX_ROWS + slice;
      if constexpr (!T::MULTICAST) {
        ptx::cp_async_bulk_tensor_2d_g2s(dst, &map, col, row, full);
      } else {
        constexpr uint16_t ALL = (1 << T::CLUSTER) - 1;
        ptx::cp_async_bulk_tensor_2d_g2s_multicast(dst, &map, col, row, full, ALL);
      }
    }
  } else if (threadIdx.x == 32) {
    for (int i = 0; i < boxes; ++i, ring.advance()) {
      ptx::mbarrier_wait_cluster(&smem.full[ring.slot], ring.parity);  // the box has landed
      for (int peer = 0; peer < T::CLUSTER; ++peer) {
        ptx::mbarrier_arrive_cluster(&smem.empty[ring.slot], peer);
      }
    }
    stamp(stamps, 1);
  } else if (T::MULTIPLIES && threadIdx.x >= THREADS) {
    multiply_meanwhile(smem, boxes,
                       products + (blockIdx.x * MMA_WARPS + threadIdx.x / 32 - THREADS / 32) * 32);
  }
  ptx::barrier_cluster_sync();  // all boxes have landed, and no peer arrives here any more

  for (int slot = 0; slot < T::DEPTH && threadIdx.x < THREADS; ++slot) {
    sums[(blockIdx.x * T::DEPTH + slot) * THREADS + threadIdx.x] =
        weighted_sum(T::BOX_ROWS, threadIdx.x, THREADS, SlotWords{smem.box[slot]});
  }
}

long long footprint(long long bytes) {
  return ladder::on_machine() ? MACHINE_FOOTPRINT * ladder::sm_count() : bytes;
}

// Of sums [ctas][DEPTH][THREADS]; slot is that of a CTA, counted over all of them.
uint32_t sum_of_slot(const std::vector<uint32_t>& sums, size_t slot) {
  uint32_t sum = 0;
  for (int part = 0; part < THREADS; ++part) sum += sums[slot * THREADS + part];
  return sum;
}

// The last boxes that a CTA took: {how many it had taken before, which}.
template <class W>
std::vector<std::pair<int, int>> last_boxes(W walk, int boxes, int how_many) {
  std::vector<std::pair<int, int>> last;
  for (int i = 0; i < boxes; ++i, walk.advance()) {
    if (i >= boxes - how_many) last.emplace_back(i, walk.index);
  }
  return last;
}

// Which of the boxes the tensor map's matrix has. What lies outside arrives as zeros.
enum class Inside { all, first };

template <class T>
class ReadLimit : public Limit {
 public:
  ReadLimit(long long bytes, int ld, Inside inside, int other_rows, cudaStream_t stream)
      : count_(static_cast<int>(footprint(bytes) / T::BOX_BYTES)),
        inside_(inside == Inside::all ? count_ : 1),
        matrix_(count_ / T::SIDE_BY_SIDE * T::BOX_ROWS, ld, Data::normal, SEED, stream),
        map_(ladder::tensor_map_2d(matrix_.get(), inside_ / T::SIDE_BY_SIDE * T::BOX_ROWS,
                                   T::SIDE_BY_SIDE * COLS, ld, T::SLICE_ROWS, COLS, other_rows)) {
    check_cuda(cudaFuncSetAttribute(tma_read<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    sizeof(Smem)),
               "shared memory of limits::tma_read");
    const auto kernel = reinterpret_cast<const void*>(tma_read<T>);
    ctas_ =
        T::CLUSTER * ladder::max_active_clusters(kernel, T::ALL_THREADS, sizeof(Smem), T::CLUSTER);
    sums_ = DeviceBuffer(static_cast<size_t>(ctas_) * T::DEPTH * THREADS * sizeof(uint32_t));
    products_ = DeviceBuffer(static_cast<size_t>(ctas_) * MMA_WARPS * 32 * sizeof(float));
  }

  int ctas() const override { return ctas_; }

  double work(int passes) const override {
    return static_cast<double>(passes) * ctas_ * T::BOX_BYTES;
  }

  void launch(int passes, Stamp* stamps, cudaStream_t stream) override {
    tma_read<T><<<ctas_, T::ALL_THREADS, sizeof(Smem), stream>>>(
        map_, passes, count_, sums_.as<uint32_t>(), products_.as<float>(), stamps);
    check_cuda(cudaGetLastError(), "launch of limits::tma_read");
  }

  std::string check(int passes, Stamp* stamps, cudaStream_t stream) override {
    poison(sums_, stream);
    launch(passes, stamps, stream);
    const std::vector<uint32_t> sums = download<uint32_t>(sums_, stream);
    std::map<int, uint32_t> known;  // by box
    for (int cta = 0; cta < ctas_; ++cta) {
      const Walk<T::SIDE_BY_SIDE> walk(cta / T::CLUSTER, ctas_ / T::CLUSTER, count_);
      for (const auto& [i, box] : last_boxes(walk, passes, T::DEPTH)) {
        const size_t slot = static_cast<size_t>(cta) * T::DEPTH + i % T::DEPTH;
        const uint32_t got = sum_of_slot(sums, slot);
        const auto [entry, is_new] = known.try_emplace(box, 0);
        if (is_new) entry->second = sum_of_box(box);
        if (got == entry->second) continue;
        return ladder::format("CTA %d, box %d of %d: its words add up to %u, not %u", cta, box,
                              count_, got, entry->second);
      }
    }
    return "";
  }

 private:
  using Smem = RingSmem<T::DEPTH, T::BOX_BYTES>;

  uint32_t sum_of_box(int box) const {
    if (box >= inside_) return 0;
    const long long row0 = static_cast<long long>(box / T::SIDE_BY_SIDE) * T::BOX_ROWS;
    const int col0 = box % T::SIDE_BY_SIDE * COLS;
    return weighted_sum(T::BOX_ROWS, 0, 1,
                        [&](int row, int col) { return matrix_.word(row0 + row, col0 + col); });
  }

  int count_, inside_, ctas_ = 0;
  Operand matrix_;  // [count_ / SIDE_BY_SIDE * BOX_ROWS][ld]
  CUtensorMap map_;
  DeviceBuffer sums_;      // uint32_t [ctas][DEPTH][THREADS]
  DeviceBuffer products_;  // float [ctas][MMA_WARPS][32]
};

// --- a GEMM's reads ------------------------------------------------------------------------------

// What rung 7 reads, in its order and without its products: 128x256 tiles, 16 tile rows swept
// together, one CTA an SM. K is shorter, so that both operands stay in L2.
struct GemmTile {
  static constexpr int BM = 128, BN = 256, BK = COLS, GROUP = 16;
  static constexpr int BOX_BYTES = (BM + BN) * ROW_BYTES;
  static constexpr int DEPTH = RING_BYTES / BOX_BYTES;
  static constexpr int K_TILES = 8;  // K = 512: 2 · 8192 · 512 elements are 16 MiB
};
using GemmSmem = RingSmem<GemmTile::DEPTH, GemmTile::BOX_BYTES>;

// The boxes of a CTA's step: row0 of A and of B, and their first column.
struct GemmStep {
  int a_row, b_row, col;
  __host__ __device__ GemmStep(int cta, int ctas, int step, int tiles_m, int tiles_n) {
    using T = GemmTile;
    const int t = static_cast<int>((cta + static_cast<long long>(step / T::K_TILES) * ctas) %
                                   (tiles_m * tiles_n));
    const tile::TileCoord at = tile::grouped_raster(t, tiles_m, tiles_n, T::GROUP);
    a_row = at.m * T::BM;
    b_row = at.n * T::BN;
    col = step % T::K_TILES * T::BK;
  }
};

// sums as of tma_read: A's rows of a slot are its first, B's follow.
__global__ __launch_bounds__(THREADS, 1) void gemm_read(const __grid_constant__ CUtensorMap map_a,
                                                        const __grid_constant__ CUtensorMap map_b,
                                                        int steps, int tiles_m, int tiles_n,
                                                        uint32_t* sums, Stamp* stamps) {
  using T = GemmTile;
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  GemmSmem& smem = *reinterpret_cast<GemmSmem*>(smem_bytes);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map_a);
    ptx::prefetch_tensormap(&map_b);
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], 1);
      ptx::mbarrier_init(&smem.empty[slot], 1);
    }
    ptx::fence_mbarrier_init();  // before TMA counts bytes on them
  }
  ptx::bar_sync();  // before the other thread waits on them

  tile::RingState<T::DEPTH> ring;
  if (threadIdx.x == 0) {
    stamp(stamps, 0);
    for (int i = 0; i < steps; ++i, ring.advance()) {
      const GemmStep at(blockIdx.x, gridDim.x, i, tiles_m, tiles_n);
      uint64_t* full = &smem.full[ring.slot];
      unsigned char* slot = smem.box[ring.slot];
      ptx::mbarrier_wait(&smem.empty[ring.slot], ring.parity ^ 1);
      ptx::mbarrier_arrive_expect_tx(full, T::BOX_BYTES);
      ptx::cp_async_bulk_tensor_2d_g2s(slot, &map_a, at.col, at.a_row, full);
      ptx::cp_async_bulk_tensor_2d_g2s(slot + T::BM * ROW_BYTES, &map_b, at.col, at.b_row, full);
    }
  } else if (threadIdx.x == 32) {
    for (int i = 0; i < steps; ++i, ring.advance()) {
      ptx::mbarrier_wait(&smem.full[ring.slot], ring.parity);  // both boxes have landed
      ptx::mbarrier_arrive(&smem.empty[ring.slot]);
    }
    stamp(stamps, 1);
  }
  ptx::bar_sync();  // all has landed

  for (int slot = 0; slot < T::DEPTH; ++slot) {
    sums[(blockIdx.x * T::DEPTH + slot) * THREADS + threadIdx.x] =
        weighted_sum(T::BM + T::BN, threadIdx.x, THREADS, SlotWords{smem.box[slot]});
  }
}

class GemmReadLimit : public Limit {
 public:
  explicit GemmReadLimit(cudaStream_t stream)
      : a_(side(), K, Data::normal, SEED, stream),
        b_(side(), K, Data::normal, SEED + 1, stream),
        sums_(static_cast<size_t>(ctas()) * T::DEPTH * THREADS * sizeof(uint32_t)) {
    check_cuda(cudaFuncSetAttribute(gemm_read, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    sizeof(GemmSmem)),
               "shared memory of limits::gemm_read");
  }

  int ctas() const override { return ladder::sm_count(); }

  double work(int passes) const override {
    return static_cast<double>(passes) * ctas() * T::BOX_BYTES;
  }

  void launch(int passes, Stamp* stamps, cudaStream_t stream) override {
    gemm_read<<<ctas(), THREADS, sizeof(GemmSmem), stream>>>(
        ladder::tensor_map_2d(a_.get(), side(), K, K, T::BM, T::BK),
        ladder::tensor_map_2d(b_.get(), side(), K, K, T::BN, T::BK), passes, side() / T::BM,
        side() / T::BN, sums_.as<uint32_t>(), stamps);
    check_cuda(cudaGetLastError(), "launch of limits::gemm_read");
  }

  std::string check(int passes, Stamp* stamps, cudaStream_t stream) override {
    poison(sums_, stream);
    launch(passes, stamps, stream);
    const std::vector<uint32_t> sums = download<uint32_t>(sums_, stream);
    for (int cta = 0; cta < ctas(); ++cta) {
      for (int i = std::max(0, passes - T::DEPTH); i < passes; ++i) {
        const GemmStep at(cta, ctas(), i, side() / T::BM, side() / T::BN);
        const uint32_t want = weighted_sum(T::BM + T::BN, 0, 1, [&](int row, int col) {
          return row < T::BM ? a_.word(at.a_row + row, at.col + col)
                             : b_.word(at.b_row + row - T::BM, at.col + col);
        });
        const uint32_t got = sum_of_slot(sums, static_cast<size_t>(cta) * T::DEPTH + i % T::DEPTH);
        if (got == want) continue;
        return ladder::format("CTA %d, step %d: its words add up to %u, not %u", cta, i, got, want);
      }
    }
    return "";
  }

 private:
  using T = GemmTile;
  static constexpr int K = T::K_TILES * T::BK;
  static int side() { return ladder::on_machine() ? 1024 : 8192; }

  Operand a_, b_;      // [side()][K]
  DeviceBuffer sums_;  // uint32_t [ctas][DEPTH][THREADS]
};

// --- DRAM, written -------------------------------------------------------------------------------

struct WriteTile {
  static constexpr int BOX_ROWS = 128, BOX_BYTES = BOX_ROWS * ROW_BYTES;
  static constexpr int DEPTH = RING_BYTES / BOX_BYTES;
  static constexpr int STORES = DEPTH / 2;  // that may still read their slots
};
using WriteSmem = RingSmem<WriteTile::DEPTH, WriteTile::BOX_BYTES>;

// Copies `boxes` boxes a CTA from one matrix to the same place in another. gridDim divides count,
// so that each box is one CTA's, which writes it again only when all it wrote before is there.
__global__ __launch_bounds__(THREADS, 1) void tma_copy(const __grid_constant__ CUtensorMap from,
                                                       const __grid_constant__ CUtensorMap to,
                                                       int boxes, int count, Stamp* stamps) {
  using T = WriteTile;
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  WriteSmem& smem = *reinterpret_cast<WriteSmem*>(smem_bytes);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&from);
    ptx::prefetch_tensormap(&to);
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], 1);
      ptx::mbarrier_init(&smem.empty[slot], 1);
    }
    ptx::fence_mbarrier_init();  // before TMA counts bytes on them
  }
  ptx::bar_sync();  // before the other thread waits on them

  tile::RingState<T::DEPTH> ring;
  Walk<> walk(blockIdx.x, gridDim.x, count);
  if (threadIdx.x == 0) {
    stamp(stamps, 0);
    for (int i = 0; i < boxes; ++i, ring.advance(), walk.advance()) {
      uint64_t* full = &smem.full[ring.slot];
      ptx::mbarrier_wait(&smem.empty[ring.slot], ring.parity ^ 1);
      ptx::mbarrier_arrive_expect_tx(full, T::BOX_BYTES);
      ptx::cp_async_bulk_tensor_2d_g2s(smem.box[ring.slot], &from, 0, walk.index * T::BOX_ROWS,
                                       full);
    }
  } else if (threadIdx.x == 32) {
    for (int i = 0; i < boxes; ++i, ring.advance()) {
      ptx::mbarrier_wait(&smem.full[ring.slot], ring.parity);  // the box has landed
      ptx::cp_async_bulk_tensor_2d_s2g(&to, 0, walk.index * T::BOX_ROWS, smem.box[ring.slot]);
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read<T::STORES>();  // store i - STORES has read its slot
      if (i >= T::STORES) ptx::mbarrier_arrive(&smem.empty[(i - T::STORES) % T::DEPTH]);
      if (walk.advance()) ptx::cp_async_bulk_wait_group<0>();
    }
    ptx::cp_async_bulk_wait_group<0>();  // all is in global memory
    stamp(stamps, 1);
  }
}

// Writes one box, the first of `from`, to `boxes` places a CTA. gridDim divides count, as above.
__global__ __launch_bounds__(THREADS, 1) void tma_write(const __grid_constant__ CUtensorMap from,
                                                        const __grid_constant__ CUtensorMap to,
                                                        int boxes, int count, Stamp* stamps) {
  using T = WriteTile;
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  WriteSmem& smem = *reinterpret_cast<WriteSmem*>(smem_bytes);
  if (threadIdx.x != 0) return;
  ptx::mbarrier_init(&smem.full[0], 1);
  ptx::fence_mbarrier_init();
  ptx::mbarrier_arrive_expect_tx(&smem.full[0], T::BOX_BYTES);
  ptx::cp_async_bulk_tensor_2d_g2s(smem.box[0], &from, 0, 0, &smem.full[0]);
  ptx::mbarrier_wait(&smem.full[0], 0);

  stamp(stamps, 0);
  Walk<> walk(blockIdx.x, gridDim.x, count);
  for (int i = 0; i < boxes; ++i) {
    ptx::cp_async_bulk_tensor_2d_s2g(&to, 0, walk.index * T::BOX_ROWS, smem.box[0]);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read<T::STORES>();
    if (walk.advance()) ptx::cp_async_bulk_wait_group<0>();
  }
  ptx::cp_async_bulk_wait_group<0>();  // all is in global memory
  stamp(stamps, 1);
}

// COPIES: from a matrix as large as the one that is written, else one box over and over.
template <bool COPIES>
class WriteLimit : public Limit {
 public:
  explicit WriteLimit(cudaStream_t stream)
      : count_(static_cast<int>(footprint(DRAM_FOOTPRINT) / (COPIES ? 2 : 1) / T::BOX_BYTES) /
               ladder::sm_count() * ladder::sm_count()),
        from_(from_rows(), COLS, Data::normal, SEED, stream),
        to_(static_cast<size_t>(count_) * T::BOX_BYTES) {
    check_cuda(cudaFuncSetAttribute(COPIES ? tma_copy : tma_write,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(WriteSmem)),
               "shared memory of limits::tma_copy or tma_write");
  }

  int ctas() const override { return ladder::sm_count(); }

  double work(int passes) const override {
    return static_cast<double>(passes) * ctas() * T::BOX_BYTES * (COPIES ? 2 : 1);
  }

  void launch(int passes, Stamp* stamps, cudaStream_t stream) override {
    const auto map = [](ladder::bf16* base, int rows) {
      return ladder::tensor_map_2d(base, rows, COLS, COLS, T::BOX_ROWS, COLS);
    };
    (COPIES ? tma_copy : tma_write)<<<ctas(), THREADS, sizeof(WriteSmem), stream>>>(
        map(from_.get(), from_rows()), map(to_.as<ladder::bf16>(), count_ * T::BOX_ROWS), passes,
        count_, stamps);
    check_cuda(cudaGetLastError(), "launch of limits::tma_copy or tma_write");
  }

  // The last boxes that each CTA wrote.
  std::string check(int passes, Stamp* stamps, cudaStream_t stream) override {
    poison(to_, stream);
    launch(passes, stamps, stream);
    for (int cta = 0; cta < ctas(); ++cta) {
      for (const auto& [i, box] : last_boxes(Walk<>(cta, ctas(), count_), passes, T::DEPTH)) {
        const uint32_t* base = to_.as<uint32_t>() + static_cast<size_t>(box) * T::BOX_BYTES / 4;
        const auto words = download<uint32_t>(base, T::BOX_BYTES / 4, stream);
        const long long row0 = COPIES ? static_cast<long long>(box) * T::BOX_ROWS : 0;
        for (int place = 0; place < T::BOX_BYTES / 4; ++place) {
          const int row = place / (COLS / 2), col = place % (COLS / 2) * 2;
          const uint32_t want = from_.word(row0 + row, col);
          if (words[place] == want) continue;
          return ladder::format("CTA %d, box %d of %d, row %d, columns %d and %d: %08x, not %08x",
                                cta, box, count_, row, col, col + 1, words[place], want);
        }
      }
    }
    return "";
  }

 private:
  using T = WriteTile;
  int from_rows() const { return T::BOX_ROWS * (COPIES ? count_ : 1); }

  int count_;        // boxes
  Operand from_;     // [from_rows()][64]
  DeviceBuffer to_;  // bf16 [count_ * BOX_ROWS][64]
};

// --- the list ------------------------------------------------------------------------------------

// ld: elements from row to row, at least SIDE_BY_SIDE * COLS.
template <int BOX_ROWS, int CLUSTER = 1, Sharing SHARING = Sharing::multicast,
          bool MULTIPLIES = false, int SIDE_BY_SIDE = 1>
Entry read(const char* name, const char* what, Group group, int ld = SIDE_BY_SIDE * COLS,
           Inside inside = Inside::all) {
  using Tile = ReadTile<BOX_ROWS, CLUSTER, SHARING, MULTIPLIES, SIDE_BY_SIDE>;
  const long long bytes = group == Group::l2 ? L2_FOOTPRINT : DRAM_FOOTPRINT;
  const int other_rows = group == Group::l2 ? ladder::MANY_ROWS : 1;  // DRAM is the limit
  const bool l2_share_known =
      group == Group::l2 && (CLUSTER == 1 || Tile::MULTICAST) && inside == Inside::all;
  return {name,
          what,
          group,
          Data::normal,
          reinterpret_cast<const void*>(tma_read<Tile>),
          [bytes, ld, inside, other_rows](cudaStream_t stream) {
            return std::make_unique<ReadLimit<Tile>>(bytes, ld, inside, other_rows, stream);
          },
          l2_share_known ? 1.0 / CLUSTER : 0};
}

template <bool COPIES>
Entry write(const char* name, const char* what) {
  return {name,
          what,
          Group::dram,
          Data::normal,
          reinterpret_cast<const void*>(COPIES ? tma_copy : tma_write),
          [](cudaStream_t stream) { return std::make_unique<WriteLimit<COPIES>>(stream); }};
}

std::vector<Entry> copy_limits() {
  constexpr auto ITSELF = Sharing::each_by_itself;
  return {
      read<128>("l2_tma_128", "L2 to shared memory, boxes of 128 rows", Group::l2),
      read<256>("l2_tma_256", "L2 to shared memory, boxes of 256 rows", Group::l2),
      read<256, 1, Sharing::multicast, true>("l2_tma_256_hot",
                                             "the same, while mma.sync draws power", Group::l2),
      read<256, 2>("l2_multicast_2", "boxes of 256 rows, multicast to two CTAs", Group::l2),
      read<256, 2, ITSELF>("l2_same_2", "no multicast, 2 CTAs of a GPC read the same", Group::l2),
      read<256, 4, ITSELF>("l2_same_4", "no multicast, 4 CTAs of a GPC read the same", Group::l2),
      read<128>("l2_rows_32", "l2_tma_128, rows begin on 32 bytes", Group::l2, COLS + 16),
      read<128>("l2_rows_16", "l2_tma_128, rows begin on 16 bytes", Group::l2, COLS + 8),
      read<256, 4, ITSELF>("l2_same_4_rows_32", "l2_same_4, rows begin on 32 bytes", Group::l2,
                           COLS + 16),
      read<256, 4, ITSELF>("l2_same_4_rows_16", "l2_same_4, rows begin on 16 bytes", Group::l2,
                           COLS + 8),
      read<256, 4>("l2_multicast_4_rows_16", "multicast to four CTAs, rows begin on 16 bytes",
                   Group::l2, COLS + 8),
      read<256, 4>("l2_multicast_4", "boxes of 256 rows, multicast to four CTAs", Group::l2),
      read<128>("l2_outside", "l2_tma_128, rows outside of the matrix", Group::l2, COLS,
                Inside::first),
      read<256, 2>("l2_outside_multicast_2", "l2_multicast_2, rows outside of the matrix",
                   Group::l2, COLS, Inside::first),
      read<256, 4>("l2_outside_multicast_4", "l2_multicast_4, rows outside of the matrix",
                   Group::l2, COLS, Inside::first),
      {"l2_gemm", "no multicast, boxes in the order of rung 7", Group::l2, Data::normal,
       reinterpret_cast<const void*>(gemm_read),
       [](cudaStream_t stream) { return std::make_unique<GemmReadLimit>(stream); }},
      read<256>("dram_read", "DRAM to shared memory", Group::dram),
      read<64, 1, Sharing::multicast, false, ROW_BOXES>(
          "dram_rows", "the same, boxes of 64 rows of a matrix with K = 4096", Group::dram),
      write<true>("dram_copy", "DRAM to shared memory to DRAM, both counted"),
      write<false>("dram_write", "shared memory to DRAM"),
  };
}

}  // namespace limits
